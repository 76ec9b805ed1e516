//! The library.

pub mod connection;
pub mod handler;
pub mod link;
#[cfg(unix)]
mod process;
pub mod server;

pub use mcpjoin_proto as proto;
pub use server::Server;
