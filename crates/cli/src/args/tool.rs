//! `mcpjoin tool`: what can be typed.

use clap::Args;

use super::{Connect, Output, Words};

const LONG: &str = "\
Shows a tool of a server: what it says of itself, and its parameters

With --json the result is the tool's definition exactly as the server sent it.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin tool [OPTIONS] TARGET TOOL\n       mcpjoin tool [OPTIONS] NAME/TOOL\n       \
                      mcpjoin tool [OPTIONS] TOOL -- COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin tool demo: add\n  \
        mcpjoin tool files/read_file\n  \
        mcpjoin tool --json echo -- npx -y @modelcontextprotocol/server-everything"
)]
pub(crate) struct Tool {
    #[command(flatten)]
    pub(crate) words: Words,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
