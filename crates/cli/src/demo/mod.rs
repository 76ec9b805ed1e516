//! The demonstration servers. They use the library's public interface alone, so they are an example, too. Each handler is written
//! once and serves every revision.
//!
//! The introduction has a few tools that a newcomer understands. The full server has a tool, a prompt or a resource for each feature
//! of the protocol, with the names and texts that the official conformance suite expects:
//! <https://github.com/modelcontextprotocol/conformance>.
//!
//! `mcpjoin serve demo` and `mcpjoin serve demo --full` run them, which is what the targets `demo:` and `demo:full` start. They do not
//! depend on their transport or their client.

mod introduction;
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

/// Which demonstration server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demo {
    /// A few tools that a newcomer understands.
    Introduction,
    /// Every feature of the protocol.
    Full,
}

/// A part of a server: it adds its tools, prompts and resources.
type Part = fn(ServerBuilder) -> ServerBuilder;

impl Demo {
    /// The parts, in the order in which the lists have them.
    const fn parts(self) -> &'static [Part] {
        match self {
            Self::Introduction => &[introduction::add_echo_and_add, introduction::add],
            Self::Full => &[
                introduction::add_echo_and_add,
                tools::add,
                questions::add,
                rounds::add,
                tools::add_with_schemas,
                tasks::add,
                offers::add,
            ],
        }
    }

    /// The server.
    pub(crate) fn server(self, limits: Limits) -> Result<Server, BuildError> {
        self.builder(limits).build()
    }

    /// The server, before it is built.
    pub(crate) fn builder(self, limits: Limits) -> ServerBuilder {
        let server = Server::builder("mcpjoin-demo", env!("CARGO_PKG_VERSION"))
            .title("mcpjoin's demonstration server")
            .instructions(
                "Each tool shows one feature of the protocol. None of them changes anything outside of this server.",
            )
            .limits(limits);
        self.parts().iter().fold(server, |server, add| add(server))
    }
}

/// A tool that changes nothing.
fn read_only<A>(name: &str, description: &str) -> TypedTool<A> {
    tool(name).description(description).read_only()
}
