//! Joins one way of speaking to another.
//!
//! Called by the command line's `bridge`, and by programs that offer or reach servers over another transport, in another
//! revision ([`gateway`]), or in another protocol than MCP. What translates is a handler or a client of this library;
//! nothing here is a transport of MCP itself, that is [`link`](crate::link).

pub mod gateway;
#[cfg(feature = "quic")]
pub mod orchestra;
