//! The library.

pub mod connection;
pub mod handler;
pub mod link;
#[cfg(unix)]
mod process;

pub use mcpjoin_proto as proto;
