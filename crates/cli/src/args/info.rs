//! `mcpjoin info`: what can be typed.

use std::ffi::OsString;

use clap::Args;

use super::{Connect, Output};

const LONG: &str = "\
Shows what a server is: its name and version, the protocol that is spoken with it, what it can do and how much it has

Of an entry of a configuration it shows file and line, too. The lists are counted, not shown: `mcpjoin list` shows them.

With --json the result is one object with server (its command or url), transport, entry (name, file, line), \
protocolVersion, era, serverInfo, capabilities, instructions, and counts: tools, resources, resourceTemplates and prompts, \
where the server has them. What could not be counted stands in errors.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin info [OPTIONS] TARGET\n       mcpjoin info [OPTIONS] [--] COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin info demo:\n  \
        mcpjoin info files\n  \
        mcpjoin info --json https://example.com/mcp\n  \
        mcpjoin info npx -y @modelcontextprotocol/server-everything\n\n\
        Options stand before the server's command: what follows its first word is its own."
)]
pub(crate) struct Info {
    /// The server: a URL, `demo:`, quic://host:port, tcp://host:port, unix:/path, an entry of a configuration, or a
    /// command and its arguments
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
