//! Tests of the server validator. Our own server passes over each transport, each fault around it is found by its rule and
//! by no other, no tool is called unasked, and a peer that is not a server is reported as such.
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]
mod authorization;
// The demonstration server of the binary, which the faults are applied to.
#[path = "../../../cli/src/demo/mod.rs"]
mod demo;
mod fault;
mod faults;
mod front;
mod lines;
mod outcomes;
mod stress;
mod table;
use mcpjoin_test_support::ports;
