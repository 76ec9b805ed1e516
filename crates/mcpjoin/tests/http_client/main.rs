//! The client's link over HTTP against servers that are played byte by byte.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod alike;
mod authorization;
mod caching;
mod catalogue;
mod eras;
mod errors;
mod http_sse;
mod opening;
mod redirects;
mod resuming;
mod scripted;
mod sessions;
mod streams;
mod tls;

use mcpjoin_test_support::{events as told, ports, tls as tls_server};
