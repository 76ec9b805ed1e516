//! `mcpjoin list`: what can be typed.

use std::ffi::OsString;

use clap::Args;

use super::{Connect, Output};

const LONG: &str = "\
Lists the tools, resources, resource templates and prompts of a server, or of every server of the configuration

Without a server, all entries of the configuration are asked, eight at once; what goes wrong with one hides none of the \
others, and the exit code is that of the first that failed. With --json the result is then an object with servers: name, and \
server (as below) or error.

Everything that the server says it has is asked for, page by page. With --json the result is one object with \
protocolVersion, serverInfo, capabilities, instructions, and, where the server has them, tools, resources, \
resourceTemplates and prompts, each entry exactly as the server sent it.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin list [OPTIONS] TARGET\n       mcpjoin list [OPTIONS] [--] COMMAND [ARG]...\n       \
                      mcpjoin list [OPTIONS]",
    after_help = "Examples:\n  \
        mcpjoin list demo:\n  \
        mcpjoin list\n  \
        mcpjoin list --config .cursor/mcp.json --json\n  \
        mcpjoin list ./my-server --verbose\n  \
        mcpjoin list --json npx -y @modelcontextprotocol/server-everything\n\n\
        Options stand before the server's command: what follows its first word is its own."
)]
pub(crate) struct List {
    /// The server: a URL, `demo:`, quic://host:port, tcp://host:port, unix:/path, an entry of a configuration, or a
    /// command and its arguments
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
