//! Tests of OAuth as a client, from the first challenge to the end of a login, with a scripted authorization server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod authority;
mod exchange;
mod flow;
mod keeping;
mod refusals;
mod secrets;
mod unattended;

use mcpjoin_test_support::{events as told, scripted_http as scripted};
