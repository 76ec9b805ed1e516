//! Orchestra's client side: the handle on an orchestrator, the bridge that stands on it, and the one that answers as the
//! first version did. The orchestrator is a scripted one on our own frames (`support`), which also does what no
//! orchestrator should, and our own host where the two are to fit together.

#![cfg(all(unix, feature = "quic"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bridge;
mod changes;
mod compat;
mod documents;
mod faults;
mod orchestrator;
mod reconnection;
mod support;
mod tools;
