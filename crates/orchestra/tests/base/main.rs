//! The base of Orchestra's bridge and host: frames, values, certificates and connections. `golden.txt` has frames that
//! Orchestra's own programs have written.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the seed of a run is told, so that it can be made again")]

#[cfg(unix)]
mod bad_certificates;
#[cfg(unix)]
mod certs;
#[cfg(unix)]
mod endpoint;
mod frames;
#[cfg(unix)]
mod values;

use mcpjoin_test_support::{Folder, lossy, ports, run_on_threads as run};
