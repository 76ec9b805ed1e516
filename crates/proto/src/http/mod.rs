//! The HTTP part of the protocol, without I/O: headers, classification of requests by era, checks against foreign
//! origins, and the location of authorization metadata.
//!
//! Used by the HTTP links and, for `Mcp-Param-*`, by the client's tool catalogue and the server's tools. All functions
//! are pure. Headers are passed by the trait [`Headers`](headers::Headers), independent of an HTTP library.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http>

pub mod challenge;
pub mod classify;
pub mod headers;
pub mod origin;
pub mod params;
pub mod resource;
pub mod response_head;
