//! The arguments of `mcpjoin doctor`.

use std::ffi::OsString;

use clap::Args;

use super::{Connect, Output};

const LONG: &str = "\
Finds why a connection does not work: the machine, the configuration, the server, phase by phase

Without TARGET it checks this machine: the PATH of a terminal, a desktop session and a service; node, uv, other \
programs and their version managers; caches, proxies, certificates, the loopback address, the clock. Then it checks \
every configuration file, and each server that is enabled and not in an untrusted folder. --environment checks only \
the machine, and starts no server.

To learn the PATH of a terminal, and on Linux of a desktop session, it runs your login shell ($SHELL -ilc and -lc), as \
editors do. The shell has no terminal and no input, and is ended after 5 s with all its children. The same is done if \
the program of a server is not found. --no-shell runs no shell.

With TARGET it finds and starts the program, or connects to the address. Then it negotiates the protocol, reads every \
list, and disconnects. It shows the time of each phase and, for each fault, what was seen, what that means and what to \
try. It calls no tool. The exit code is 1 if there is a fault, and 0 if there are only warnings. An entry that cannot \
be used is a fault (`servers` exits with 2 for it).

Over HTTP it tries every address of the name, checks proxy and certificate, and explains responses that do not come \
from an MCP server: a wrong path, a login, a check of the host, a rate limit, a web page. If there is no server at the \
path, it tries the usual paths; your headers are not sent there.

For an Orchestra orchestrator (orchestra://host:port) it checks the certificates, connects, requests its health and \
reads its list of tools.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin doctor [OPTIONS] [TARGET]\n       mcpjoin doctor [OPTIONS] [--] COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin doctor\n  \
        mcpjoin doctor --environment --json\n  \
        mcpjoin doctor demo:\n  \
        mcpjoin doctor npx -y @modelcontextprotocol/server-everything\n  \
        mcpjoin doctor --json -e API_KEY ./my-server --stdio\n  \
        mcpjoin doctor https://example.com/mcp\n  \
        mcpjoin doctor tcp://localhost:7000\n  \
        mcpjoin doctor --pin sha256:HEX quic://localhost:8443\n  \
        mcpjoin doctor orchestra://localhost:50100\n\n\
        Options must come before the server's command; everything after its first word is passed to it."
)]
pub(crate) struct Doctor {
    /// The server: `demo:`, an entry of a configuration, a command and its arguments, or an address (`mcpjoin help
    /// targets`)
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// Checks only this machine, and starts no server
    #[arg(long, conflicts_with = "words")]
    pub(crate) environment: bool,
    /// Does not run your login shell. The PATH of a terminal and of a desktop session is then unknown
    #[arg(long)]
    pub(crate) no_shell: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
