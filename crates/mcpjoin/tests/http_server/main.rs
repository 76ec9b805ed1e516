//! The server over HTTP, as a client that speaks by hand sees it: through the service, without a socket, and over
//! TCP where bytes and connections matter.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod authorization;
mod batches;
mod fairness;
mod guards;
mod http_sse;
mod legacy;
mod memory;
mod modern;
mod polling;
mod resumption;
mod sessions;
mod shutdown;
mod sockets;
mod stateless;
mod support;
mod tasks;
