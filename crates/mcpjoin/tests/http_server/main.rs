//! Tests of the server over HTTP with a scripted client: directly through the service, and over TCP where single bytes
//! and connections matter.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod authorization;
mod batches;
mod beside;
mod fairness;
mod guards;
mod http_sse;
mod legacy;
mod memory;
mod modern;
mod polling;
mod replicas;
mod resumption;
mod sessions;
mod shared_events;
mod shared_tasks;
mod shutdown;
mod sockets;
mod stateless;
mod stored_sessions;
mod support;
mod tasks;
