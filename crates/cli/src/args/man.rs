//! `mcpjoin man`: what can be typed.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    mcpjoin man | man -l -\n  \
    mcpjoin man call > ~/.local/share/man/man1/mcpjoin-call.1")]
pub(crate) struct Man {
    /// A verb
    pub(crate) verb: Option<String>,
}
