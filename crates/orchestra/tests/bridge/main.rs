//! Orchestra's client side: the client of an orchestrator, the bridge on top of it, and the bridge of the first
//! version. The orchestrator is a scripted one on our own frames (`support`), which can also misbehave; a program that
//! behaves as the real one was observed to (`stand_in`); a faulty one (`faulty_orchestrator.rs`); or our own host,
//! where the two must work together.
//!
//! The problems of Orchestra's own `transport.stdio` are in the table of `docs/orchestra.md`, each row with the tests
//! that the original would fail (`differences`).

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the seed of a run is told, so that it can be made again")]

mod bridge;
mod changes;
mod compat;
mod differences;
mod documents;
mod faults;
mod faulty_orchestrator;
mod network;
mod orchestrator;
mod reconnection;
mod stand_in;
mod streams;
mod support;
mod tools;
use mcpjoin_test_support::lossy;
use mcpjoin_test_support::ports;
