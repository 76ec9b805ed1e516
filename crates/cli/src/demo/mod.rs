//! The demonstration server: a tool, a prompt or a resource for each thing that the protocol has, a chapter in each
//! file. Built on the library's public interface alone, so it is an example, too; each handler is written once and
//! serves every revision. What it says is what the official conformance suite expects of a server with tools of these
//! names: <https://github.com/modelcontextprotocol/conformance>.
//!
//! Run by `mcpjoin serve demo`, which is what the target `demo:` starts. It knows neither its link nor its client.

pub(crate) mod changes;
mod content;
pub(crate) mod prompts;
mod questions;
pub(crate) mod resources;
mod rounds;
mod schemas;
mod steps;
mod tasks;

use std::time::Duration;

use mcpjoin::Server;
use mcpjoin::proto::session::Limits;
use mcpjoin::server::{BuildError, ServerBuilder};

/// A picture of one point, in base64.
pub(crate) const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mPQ6w4HAAH7ARFK28dFAAAAAElFTkSuQmCC";
/// A millisecond of silence, in base64.
pub(crate) const SOUND: &str = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";
/// Between two steps of a tool that shows how far it is: long enough to be seen, and to be cancelled in.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// Every chapter adds to the description what it is about.
const CHAPTERS: [fn(ServerBuilder) -> ServerBuilder; 9] = [
    content::add,
    steps::add,
    questions::add,
    rounds::add,
    schemas::add,
    tasks::add,
    resources::add,
    prompts::add,
    changes::add,
];

/// The server.
pub(crate) fn server(limits: Limits) -> Result<Server, BuildError> {
    let server = Server::builder("mcpjoin-demo", env!("CARGO_PKG_VERSION"))
        .title("mcpjoin's demonstration server")
        .instructions(
            "Each tool shows one feature of the protocol. None of them changes anything outside of this server.",
        )
        .limits(limits);
    CHAPTERS.iter().fold(server, |server, add| add(server)).build()
}
