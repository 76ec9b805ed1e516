//! Examines Model Context Protocol servers and clients from outside.
//!
//! [`doctor`] says why a server does not connect; [`validate`] records what a server or a client does, for the rules of
//! `mcpjoin-rules`. Both use one engine, which connects, sends, measures and records. Used by the binary, and by
//! programs that run the same checks themselves. Nothing here prints, and no process and no connection is left.

#[cfg(unix)]
pub mod doctor;
#[cfg(unix)]
mod engine;
#[cfg(unix)]
pub mod validate;
