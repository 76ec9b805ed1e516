//! The command line `mcpjoin`: any Model Context Protocol server from a terminal.
//!
//! Parses the arguments, runs a command, and returns the exit code. It is the other half of the binary, which calls [`run`],
//! and no interface. The fuzz target `consent` calls `fuzzing`, which exists with the feature of that name alone.

mod args;
mod arguments;
mod commands;
mod config;
mod connect;
mod demo;
// Beside it and not in it: the tests of the library put faults around the same server.
#[cfg(test)]
#[path = "demo/tests/mod.rs"]
mod demo_tests;
mod events;
mod exit;
mod failure;
mod fold;
mod folders;
mod found;
mod guard;
mod object;
mod progress;
mod secret;
mod target;
mod ui;
mod verdict;
mod visible;

use std::process::ExitCode;

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub use config::fuzzing;

/// Does what the words of this process say, and returns how it went.
#[must_use]
pub fn run() -> ExitCode {
    if guard::stand(std::env::args_os()) {
        return ExitCode::SUCCESS;
    }
    commands::run(std::env::args_os().collect()).into()
}
