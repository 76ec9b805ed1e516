//! Orchestra's client side: the handle on an orchestrator, the bridge that stands on it, and the one that answers as the
//! first version did. The orchestrator is a scripted one on our own frames (`support`), which also does what no
//! orchestrator should; the same as a program that behaves as the real one was seen to (`stand_in`); a faulty one
//! (`faulty_orchestrator.rs`); and our own host where the two are to fit together.
//!
//! What is wrong with Orchestra's own `transport.stdio` stands in the table of `docs/orchestra.md`, each row with the tests
//! that it would fail (`differences`).

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
