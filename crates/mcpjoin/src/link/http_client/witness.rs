//! What the requests of a link have come to, for whoever examines it.
//!
//! Told by `wire` for each request of HTTP, also for those that are repeated or redirected. A witness changes nothing, and
//! must not block.

use std::sync::Arc;

use http::header::HeaderMap;
use http::{Method, StatusCode};
use mcpjoin_proto::session::LinkError;
use reqwest::Url;

/// A request, and what came back.
pub(crate) struct Exchanged<'a> {
    pub(crate) method: &'a Method,
    pub(crate) url: &'a Url,
    /// The method of MCP, or what it is for.
    pub(crate) about: &'a str,
    /// The head of the response, or why there is none.
    pub(crate) outcome: Result<(StatusCode, &'a HeaderMap), &'a LinkError>,
}

/// Sees them.
pub(crate) type Witness = Arc<dyn Fn(&Exchanged<'_>) + Send + Sync>;
