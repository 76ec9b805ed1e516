//! The demonstration server: a tool, a prompt or a resource for each feature of the protocol. It uses the library's public
//! interface alone, so it is an example, too. Each handler is written once and serves every revision. Its names and texts are those
//! that the official conformance suite expects: <https://github.com/modelcontextprotocol/conformance>.
//!
//! `mcpjoin serve demo` runs it, which is what the target `demo:` starts. It does not depend on its transport or its client.

pub(crate) mod offers;
mod questions;
mod rounds;
mod tasks;
mod tools;

use std::time::Duration;

use mcpjoin::Server;
use mcpjoin::proto::session::Limits;
use mcpjoin::server::{BuildError, ServerBuilder, TypedTool, tool};

/// A picture of one pixel, in Base64.
pub(crate) const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mPQ6w4HAAH7ARFK28dFAAAAAElFTkSuQmCC";
/// A millisecond of silence, in Base64.
pub(crate) const SOUND: &str = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";
/// The pause between two steps of a tool with progress: long enough to be seen, and to be cancelled in.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// The parts of the server. Each adds its tools, prompts and resources, which are listed in this order.
const PARTS: [fn(ServerBuilder) -> ServerBuilder; 6] =
    [tools::add, questions::add, rounds::add, tools::add_with_schemas, tasks::add, offers::add];

/// The server.
pub(crate) fn server(limits: Limits) -> Result<Server, BuildError> {
    let server = Server::builder("mcpjoin-demo", env!("CARGO_PKG_VERSION"))
        .title("mcpjoin's demonstration server")
        .instructions(
            "Each tool shows one feature of the protocol. None of them changes anything outside of this server.",
        )
        .limits(limits);
    PARTS.iter().fold(server, |server, add| add(server)).build()
}

/// A tool that changes nothing.
fn read_only<A>(name: &str, description: &str) -> TypedTool<A> {
    tool(name).description(description).read_only()
}
