//! The demonstration server: a tool for each kind of content, resources, a template, prompts, completion, log
//! messages, progress, and questions to the client. Built on the library's public interface alone, so it is an example,
//! too. What it says is what the official conformance suite expects of a server with tools of these names.
//!
//! Run by `mcpjoin serve demo`, which is what the target `demo:` starts. It knows neither its link nor its client.

mod offers;
mod tools;

use mcpjoin::Server;
use mcpjoin::proto::session::Limits;
use mcpjoin::server::BuildError;

/// A picture of one point, in base64.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mPQ6w4HAAH7ARFK28dFAAAAAElFTkSuQmCC";
/// A millisecond of silence, in base64.
const SOUND: &str = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";

/// The server.
pub(crate) fn server(limits: Limits) -> Result<Server, BuildError> {
    let server = Server::builder("mcpjoin-demo", env!("CARGO_PKG_VERSION"))
        .title("mcpjoin's demonstration server")
        .instructions("Each tool shows one feature of the protocol. None of them changes anything.")
        .limits(limits)
        .logging();
    offers::add(tools::add(server)).build()
}

#[cfg(test)]
mod tests;
