//! The arguments of the verbs that show what a server is and has: `list`, `info`, `search`, `tool` and `ping`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::values::{count, duration};
use super::{Connect, Output, Questions, Words};

const LIST_LONG: &str = "\
Lists the tools, resources, resource templates and prompts of a server, or all servers of the configuration

Without a server it prints one line for each server of the configuration: its state, the time of its first response, the \
number of its tools, its version and protocol version, or the fault. -d shows the lists of each server, --watch repeats the \
lines. Eight servers are checked at a time, but not more programs than there are processors; the lines have the order of \
the configuration. A fault of one server does not hide the others. The exit code is that of the first server that failed. \
--connect-timeout 3s limits the wait for a silent server.

The lists are requested page by page and printed as they arrive; only one page of each list is kept in memory. With --json \
the result is one object with protocolVersion, serverInfo, capabilities, instructions, and, if the server has them, tools, \
resources, resourceTemplates and prompts, each item exactly as the server sent it. If a list breaks off, the object is \
still valid and gives the reason in errors: method, id, message and other details. Without a server it is an object with \
servers: name, and server (as above) or error.";

#[derive(Debug, Args)]
#[command(
    long_about = LIST_LONG,
    override_usage = "mcpjoin list [OPTIONS] TARGET\n       mcpjoin list [OPTIONS] [--] COMMAND [ARG]...\n       \
                      mcpjoin list [OPTIONS]      (all servers of the configuration)",
    after_help = "Examples:\n  \
        mcpjoin list demo:\n  \
        mcpjoin list\n  \
        mcpjoin list --watch=30s\n  \
        mcpjoin list --config .cursor/mcp.json --json\n  \
        mcpjoin list --describe files\n  \
        mcpjoin list --signatures demo:\n  \
        mcpjoin list -v ./my-server\n  \
        mcpjoin list --json npx -y @modelcontextprotocol/server-everything\n\n\
        Options must come before the server's command; everything after its first word is passed to it."
)]
pub(crate) struct List {
    /// The server: a URL, `demo:`, quic://host:port, tcp://host:port, unix:/path, an entry of a configuration, or a
    /// command and its arguments
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// Shows the full description of each item, and the parameters of each tool; without it, only the first line of
    /// the description
    #[arg(short, long, conflicts_with = "json")]
    pub(crate) describe: bool,
    /// Shows each tool as one line with the types of its parameters, instead of its description
    #[arg(long, conflicts_with_all = ["json", "describe"])]
    pub(crate) signatures: bool,
    /// Limits the number of pages of a list [default: 1000]
    #[arg(long, value_name = "NUMBER", value_parser = count, allow_hyphen_values = true)]
    pub(crate) max_pages: Option<u32>,
    /// Repeats the lines of all servers after this time; --watch alone is --watch=10s
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "10s",
        value_parser = duration,
        conflicts_with_all = ["json", "describe"]
    )]
    pub(crate) watch: Option<Duration>,
    #[command(flatten)]
    pub(crate) questions: Questions,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

const INFO_LONG: &str = "\
Shows the name, version, protocol version and capabilities of a server, and the length of its lists

For an entry of a configuration it also shows file and line. The lists are only counted: `mcpjoin list` shows them.

With --json the result is one object with server (its command or url), transport, entry (name, file, line), \
protocolVersion, era, serverInfo, capabilities, instructions, and counts: tools, resources, resourceTemplates and prompts, \
if the server has them. errors has the lists that could not be counted.";

#[derive(Debug, Args)]
#[command(
    long_about = INFO_LONG,
    override_usage = "mcpjoin info [OPTIONS] TARGET\n       mcpjoin info [OPTIONS] [--] COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin info demo:\n  \
        mcpjoin info files\n  \
        mcpjoin info --json https://example.com/mcp\n  \
        mcpjoin info npx -y @modelcontextprotocol/server-everything\n\n\
        Options must come before the server's command; everything after its first word is passed to it."
)]
pub(crate) struct Info {
    /// The server: a URL, `demo:`, quic://host:port, tcp://host:port, unix:/path, an entry of a configuration, or a
    /// command and its arguments
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    #[command(flatten)]
    pub(crate) questions: Questions,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

const SEARCH_LONG: &str = "\
Finds tools by name in every server of the configuration

PATTERN is compared with the names of tools, or with SERVER/TOOL if it contains a slash, without regard to case. `*`, `?` \
and `[...]` have the same meaning as in a shell; a pattern without them matches anywhere in a name.

With --json the result is one object with tools: server, and tool exactly as the server sent it; and errors: server and \
error.";

#[derive(Debug, Args)]
#[command(
    long_about = SEARCH_LONG,
    after_help = "Examples:\n  \
        mcpjoin search file\n  \
        mcpjoin search --describe 'read_*'\n  \
        mcpjoin search --config mcp_servers.toml 'git/*'"
)]
pub(crate) struct Search {
    /// The pattern for names of tools
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

const TOOL_LONG: &str = "\
Shows a tool of a server: its description, its parameters, and an example call

The parameters are a tree: below an object are its members, below an array those of its items. The example has a value for \
each required argument; the schema allows the value if mcpjoin finds one.

With --json the result is the tool's definition exactly as the server sent it.";

#[derive(Debug, Args)]
#[command(
    long_about = TOOL_LONG,
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
    pub(crate) questions: Questions,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

const PING_LONG: &str = "\
Pings a server and measures the response time

Connects and sends `ping`, or `server/discover` to a server of 2026-07-28, which has no `ping`. Prints the time from the \
request to the response, without the start of the server. Ends with exit code 4 at the first request without a response.";

#[derive(Debug, Args)]
#[command(
    long_about = PING_LONG,
    override_usage = "mcpjoin ping [OPTIONS] TARGET\n       mcpjoin ping [OPTIONS] [--] COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin ping demo:\n  \
        mcpjoin ping -n 5 npx -y @modelcontextprotocol/server-everything\n  \
        mcpjoin ping -n 100 -i 10ms --json ./my-server\n\n\
        Options must come before the server's command; everything after its first word is passed to it."
)]
pub(crate) struct Ping {
    /// The server: a URL, `demo:`, quic://host:port, tcp://host:port, unix:/path, an entry of a configuration, or a
    /// command and its arguments
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// The number of requests
    #[arg(short = 'n', long, value_name = "NUMBER", default_value = "1", value_parser = count,
          allow_hyphen_values = true)]
    pub(crate) count: u32,
    /// The wait between a response and the next request [default: 1s]
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) interval: Option<Duration>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
