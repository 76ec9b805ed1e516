//! `mcpjoin search`: what can be typed.

use clap::Args;

use super::{Connect, Output};

const LONG: &str = "\
Finds tools by name in every server of the configuration

PATTERN is compared with the names of tools, or with SERVER/TOOL when it has a slash; upper and lower case are the same. `*`, \
`?` and `[...]` mean what they mean in a shell; without any of them, the pattern may stand anywhere in a name.

With --json the result is one object with tools: server, and tool exactly as the server sent it; and errors: server and \
error.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    after_help = "Examples:\n  \
        mcpjoin search file\n  \
        mcpjoin search --describe 'read_*'\n  \
        mcpjoin search --config mcp_servers.toml 'git/*'"
)]
pub(crate) struct Search {
    /// What to look for
    #[arg(value_name = "PATTERN", help_heading = "Arguments")]
    pub(crate) pattern: String,
    /// Shows each tool as `mcpjoin tool` does, with its parameters
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) describe: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
