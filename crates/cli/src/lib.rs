//! The command line `mcpjoin`: any Model Context Protocol server from a terminal.
//!
//! Parses the arguments, runs a command, and returns the exit code. It is the binary's own code and no interface: the binary calls
//! [`run`], and the fuzz target `consent` calls [`fuzzing`].

mod args;
mod arguments;
mod cache_file;
mod command_line;
mod commands;
mod completion;
mod config;
mod connect;
mod demo;
// Not a child of `demo`: the library's tests include `demo` and run faults against the same server.
#[cfg(test)]
#[path = "demo/tests/mod.rs"]
mod demo_tests;
mod era_cache;
mod events;
mod exit;
mod failure;
mod fold;
mod folders;
mod found;
mod guard;
mod keyboard;
mod object;
mod progress;
mod questions;
mod replacement;
mod schema;
mod secret;
mod target;
mod telemetry;
mod tool_names;
mod ui;
mod visible;

use std::process::ExitCode;

#[doc(hidden)]
pub use config::fuzzing;

/// Runs the command of this process's arguments, and returns the exit code.
#[must_use]
pub fn run() -> ExitCode {
    if guard::stand(std::env::args_os()) {
        return ExitCode::SUCCESS;
    }
    commands::run(std::env::args_os().collect()).into()
}
