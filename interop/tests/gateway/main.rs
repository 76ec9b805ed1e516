//! `mcpjoin bridge` with several servers behind one endpoint, between programs that are written by others.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

mod backends;
mod clients;
mod load;
mod outages;
mod reloads;
mod replicas;
mod shared_state;
