//! A look at servers from outside: our own is clean over each transport, each fault around it is found by its rule and
//! by no other, nothing is called, and what is no server is told as such.
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]
mod authorization;
// The server that the faults are put around is the one that the program shows.
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
