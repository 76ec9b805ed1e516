//! `mcpjoin man`: what can be typed.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    mcpjoin man | man -l -\n  \
    mcpjoin man call > ~/.local/share/man/man1/mcpjoin-call.1\n  \
    mcpjoin man servers convert | man -l -")]
pub(crate) struct Man {
    /// A verb, with what stands below it
    pub(crate) verb: Vec<String>,
}
