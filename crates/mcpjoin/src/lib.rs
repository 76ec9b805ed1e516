//! The library.

pub mod link;

pub use mcpjoin_proto as proto;
