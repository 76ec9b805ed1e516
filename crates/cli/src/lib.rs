//! The command line `mcpjoin`: any Model Context Protocol server from a terminal.
//!
//! Reads the words, hands them to a command, and ends with the code that says how it went. It is the program's other half and
//! no interface: the binary calls [`run`], the fuzz target `consent` calls `fuzzing`, and nobody else is served.

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
