//! The binary `mcpjoin`: any Model Context Protocol server from the command line.
//!
//! Reads the words, hands them to a command, and ends with the code that says how it went.

mod args;
mod arguments;
mod closed;
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

fn main() -> ExitCode {
    if guard::stand(std::env::args_os()) {
        return ExitCode::SUCCESS;
    }
    commands::run(std::env::args_os().collect()).into()
}
