//! `mcpjoin serve`: what can be typed.

use clap::{Args, ValueEnum};

use super::values::size;

/// Runs a built-in server on standard input and output
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  mcpjoin list mcpjoin serve demo")]
pub(crate) struct Serve {
    /// Which server
    pub(crate) server: Served,
    /// The largest message, each way: bytes, or with KiB, MiB, GiB [default: 10MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_message_size: Option<usize>,
}

/// The servers inside this program.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Served {
    /// A server with a tool, a resource or a prompt for each thing that the protocol has
    Demo,
}
