//! The library.

pub mod client;
pub mod connection;
pub mod handler;
pub mod link;
#[cfg(unix)]
mod process;
pub mod server;

pub use mcpjoin_proto as proto;

pub use client::Client;
pub use handler::Handler;
pub use link::Link;
pub use server::Server;
