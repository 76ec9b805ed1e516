//! Orchestra's client side: the handle on an orchestrator, the bridge that stands on it, and the one that answers as the
//! first version did. The orchestrator is a scripted one on our own frames (`support`), which also does what no
//! orchestrator should, and our own host where the two are to fit together.

#![cfg(all(unix, feature = "quic"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the seed of a run is told, so that it can be made again")]

mod bridge;
mod changes;
mod compat;
mod documents;
mod faults;
#[path = "../support/faulty_orchestrator.rs"]
mod faulty_orchestrator;
#[path = "../support/lossy.rs"]
mod lossy;
mod network;
mod orchestrator;
mod reconnection;
mod streams;
mod support;
mod tools;
