//! The HTTP part of the protocol, without I/O: headers, classification of requests by era, checks against foreign
//! origins, and the location of authorization metadata.
//!
//! Used by the HTTP links and, for `Mcp-Param-*`, by the client's tool catalogue and the server's tools. All functions
//! are pure. Headers are passed by the trait [`Headers`](headers::Headers), independent of an HTTP library.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http>

#[cfg(feature = "http")]
pub mod challenge;
#[cfg(feature = "http")]
pub mod classify;
pub mod headers;
#[cfg(feature = "http")]
pub mod origin;
pub mod params;
#[cfg(feature = "http")]
pub mod resource;
#[cfg(feature = "http")]
pub mod response_head;
