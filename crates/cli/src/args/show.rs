//! The arguments of the verbs that show what a server is and has: `list`, `info`, `search`, `tool` and `ping`.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::values::{count, duration};
use super::{Connect, Output, Questions, Words};

const LIST_LONG: &str = "\
Lists the tools, resources, resource templates and prompts of a server, or all servers of the configuration, a line each

Without a server, there is one line for each server of the configuration: its state, the time until it answered, the number \
of its tools, its version and that of the protocol, or what is wrong. -d shows all that each of them has, --watch repeats the \
lines. All entries of the configuration are asked, eight at once (no more programs are started at once than there are processors), and told in their order; what goes wrong with \
one hides none of the others, and the exit code is that of the first that failed. An entry that stays silent is given up \
when the opening request has had its time: --connect-timeout 3s makes that short.

Everything that the server says it has is asked for, page by page, and shown as it comes: no more than one page of each list \
is kept. With --json the result is one object with protocolVersion, serverInfo, capabilities, instructions, and, where \
the server has them, tools, resources, resourceTemplates and prompts, each entry exactly as the server sent it. A list that \
breaks off ends where it does, and the object, which is valid all the same, says why in errors: method, id, message and what \
else is known. Without a server it is an object with servers: name, and server (as above) or error.";

#[derive(Debug, Args)]
#[command(
    long_about = LIST_LONG,
    override_usage = "mcpjoin list [OPTIONS] TARGET\n       mcpjoin list [OPTIONS] [--] COMMAND [ARG]...\n       \
                      mcpjoin list [OPTIONS]",
    after_help = "Examples:\n  \
        mcpjoin list demo:\n  \
        mcpjoin list\n  \
        mcpjoin list --watch=30s\n  \
        mcpjoin list --config .cursor/mcp.json --json\n  \
        mcpjoin list --describe files\n  \
        mcpjoin list --signatures demo:\n  \
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
    /// Shows each tool as one line with the types of its parameters, in place of its description
    #[arg(long, conflicts_with_all = ["json", "describe"])]
    pub(crate) signatures: bool,
    /// How many pages a list may have [default: 1000]
    #[arg(long, value_name = "NUMBER", value_parser = count, allow_hyphen_values = true)]
    pub(crate) max_pages: Option<u32>,
    /// Repeats the lines of all servers, each time this long after the last; --watch alone is --watch=10s
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
Shows what a server is: its name and version, the protocol that is spoken with it, what it can do and how much it has

Of an entry of a configuration it shows file and line, too. The lists are counted, not shown: `mcpjoin list` shows them.

With --json the result is one object with server (its command or url), transport, entry (name, file, line), \
protocolVersion, era, serverInfo, capabilities, instructions, and counts: tools, resources, resourceTemplates and prompts, \
where the server has them. What could not be counted stands in errors.";

#[derive(Debug, Args)]
#[command(
    long_about = INFO_LONG,
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
    pub(crate) questions: Questions,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

const SEARCH_LONG: &str = "\
Finds tools by name in every server of the configuration

PATTERN is compared with the names of tools, or with SERVER/TOOL when it has a slash; upper and lower case are the same. `*`, \
`?` and `[...]` mean what they mean in a shell; without any of them, the pattern may stand anywhere in a name.

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

const TOOL_LONG: &str = "\
Shows a tool of a server: what it says of itself, its parameters, and a call of it

The parameters are a tree: the members of an object and of the items of an array are below it. The example has a value for each required argument, which the schema allows as far as such a value is found.

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
Asks a server whether it answers, and measures how long that takes

Connects, and then sends `ping`, or, to a server of the modern era, which has no `ping`, `server/discover`. Prints the \
time from the request to its answer, which the start of the server is no part of. Ends with exit code 4 at the first \
request that is not answered.";

#[derive(Debug, Args)]
#[command(
    long_about = PING_LONG,
    override_usage = "mcpjoin ping [OPTIONS] TARGET\n       mcpjoin ping [OPTIONS] [--] COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin ping demo:\n  \
        mcpjoin ping -n 5 npx -y @modelcontextprotocol/server-everything\n  \
        mcpjoin ping -n 100 -i 10ms --json ./my-server\n\n\
        Options stand before the server's command: what follows its first word is its own."
)]
pub(crate) struct Ping {
    /// The server: a URL, `demo:`, quic://host:port, tcp://host:port, unix:/path, an entry of a configuration, or a
    /// command and its arguments
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// How often to ask
    #[arg(short = 'n', long, value_name = "NUMBER", default_value = "1", value_parser = count,
          allow_hyphen_values = true)]
    pub(crate) count: u32,
    /// How long to wait between an answer and the next request [default: 1s]
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) interval: Option<Duration>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
