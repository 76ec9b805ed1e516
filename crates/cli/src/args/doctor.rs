//! `mcpjoin doctor`: what can be typed.

use std::ffi::OsString;

use clap::Args;

use super::{Connect, Output};

const LONG: &str = "\
Finds out what is wrong with a server, phase by phase

The program is looked up and started, the era found out, every list read, and the server ended: with the time of \
each phase, and for each fault what was seen, what it means and one thing to do. No tool is called. Exit code 1 when \
anything is wrong.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin doctor [OPTIONS] TARGET\n       mcpjoin doctor [OPTIONS] [--] COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin doctor demo:\n  \
        mcpjoin doctor npx -y @modelcontextprotocol/server-everything\n  \
        mcpjoin doctor --json -e API_KEY ./my-server --stdio\n\n\
        Options stand before the server's command: what follows its first word is its own."
)]
pub(crate) struct Doctor {
    /// The server: `demo:`, an entry of a configuration, or a command and its arguments
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
