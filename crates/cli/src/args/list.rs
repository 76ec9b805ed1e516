//! `mcpjoin list`: what can be typed.

use std::ffi::OsString;

use clap::Args;

use super::values::count;
use super::{Connect, Output};

const LONG: &str = "\
Lists the tools, resources, resource templates and prompts of a server, or of every server of the configuration

Without a server, all entries of the configuration are asked, eight at once, and told in their order; what goes wrong with \
one hides none of the others, and the exit code is that of the first that failed. An entry that stays silent is given up \
when the opening request has had its time: --connect-timeout 3s makes that short.

Everything that the server says it has is asked for, page by page, and shown as it comes: no more than one page of each list \
is kept. With --json the result is one object with protocolVersion, serverInfo, capabilities, instructions, and, where \
the server has them, tools, resources, resourceTemplates and prompts, each entry exactly as the server sent it. A list that \
breaks off ends where it does, and the object, which is valid all the same, says why in errors: method, id, message and what \
else is known. Without a server it is an object with servers: name, and server (as above) or error.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin list [OPTIONS] TARGET\n       mcpjoin list [OPTIONS] [--] COMMAND [ARG]...\n       \
                      mcpjoin list [OPTIONS]",
    after_help = "Examples:\n  \
        mcpjoin list demo:\n  \
        mcpjoin list\n  \
        mcpjoin list --config .cursor/mcp.json --json\n  \
        mcpjoin list --describe files\n  \
        mcpjoin list -v ./my-server\n  \
        mcpjoin list --json npx -y @modelcontextprotocol/server-everything\n\n\
        Options stand before the server's command: what follows its first word is its own."
)]
pub(crate) struct List {
    /// The server: a URL, `demo:`, quic://host:port, tcp://host:port, unix:/path, an entry of a configuration, or a
    /// command and its arguments
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// Shows all that is said of each entry, and of a tool its parameters, too; without it, the first line of its
    /// description
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) describe: bool,
    /// How many pages a list may have [default: 1000]
    #[arg(long, value_name = "NUMBER", value_parser = count, allow_hyphen_values = true)]
    pub(crate) max_pages: Option<u32>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
