//! What HTTP adds to the protocol, without HTTP: headers, the decision which era a request belongs to, and the
//! checks that keep strangers out, with the places where it is said who may come in.
//!
//! Called by the HTTP links and, for `Mcp-Param-*`, by the client's catalogue of tools and the server's tools.
//! Everything here is a pure function; headers come in by the trait [`Headers`](headers::Headers), so no HTTP
//! library is known.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http>

pub mod challenge;
pub mod classify;
pub mod headers;
pub mod origin;
pub mod params;
pub mod reply;
pub mod resource;
