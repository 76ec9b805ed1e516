//! The library.

pub mod link;
#[cfg(unix)]
mod process;

pub use mcpjoin_proto as proto;
