//! The binary `mcpjoin`: any Model Context Protocol server from the command line.
//!
//! Reads the words, hands them to a command, and ends with the code that says how it went.

mod args;
mod arguments;
mod commands;
mod connect;
mod demo;
mod exit;
mod failure;
mod guard;
mod object;
mod secret;
mod target;
mod ui;
mod visible;

use std::process::ExitCode;

fn main() -> ExitCode {
    if guard::stand(std::env::args_os()) {
        return ExitCode::SUCCESS;
    }
    commands::run(std::env::args_os().collect()).into()
}
