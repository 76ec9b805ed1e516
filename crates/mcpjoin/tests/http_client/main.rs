//! Tests of the client's HTTP link with servers that are scripted byte by byte.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod alike;
mod caching;
mod catalogue;
mod credentials;
mod eras;
mod errors;
mod http_sse;
mod opening;
mod redirects;
mod resuming;
mod sessions;
mod streams;
mod tls;

use mcpjoin_test_support::{events as told, ports, scripted_http as scripted, tls as tls_server};
