//! The chapter of patterns: progress, cancellation, subscriptions, tasks, and input that a server requests from its client.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns>

pub(crate) mod in_flight;
pub(crate) mod input;
pub(crate) mod subscriptions;
pub(crate) mod tasks;
