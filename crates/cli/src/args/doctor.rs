//! The arguments of `mcpjoin doctor`.

use std::ffi::OsString;

use clap::Args;

use super::{Connect, Output};

const LONG: &str = "\
Finds out why a connection does not work: this machine, the configuration, a server, phase by phase

Without TARGET it looks at this machine (PATH as a login shell, a desktop session and a service see it; node, uv and others, \
and their version managers; caches, proxies, certificates, loopback, clock), then at every file of the configuration, and then examines each of its servers that is enabled and lies in no folder that you \
have not trusted. --environment is the first of these alone: no server is started.

To know the PATH of a terminal, and on Linux that of a desktop session, it runs your login shell ($SHELL -ilc, and -lc), as \
editors do: your shell reads its files and prints PATH. It has no terminal and no input, and is ended after 5 s with all that \
it has started. The same is done where the program of a server is not found. --no-shell runs no shell.

A program is looked up and started, an address resolved and connected to; then the era is found out, every list read, and \
the server left: with the time of each phase, and for each fault what was seen, what it means and one thing to do. No \
tool is called. The exit code is 1 when anything is wrong, which an entry is, too, that cannot be used (servers ends with 2 \
on it), and 0 when there are warnings alone.

Over HTTP (http://, https://, sse+http://) every address of the name is tried, a proxy named, the certificate looked at, \
and each answer that is none of a server told for what it is: a wrong path, a login, a guard of hosts, a limit, a page. \
Where there is no server at the path, the usual ones are asked, without your headers.

Over QUIC (quic://), TCP (tcp://) and Unix sockets (unix:) it is the same as far as they have it.

Of an orchestrator of Orchestra (orchestra://host:port) it looks at the certificates, connects, asks for its health and \
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
        Options stand before the server's command: what follows its first word is its own."
)]
pub(crate) struct Doctor {
    /// The server: `demo:`, an entry of a configuration, a command and its arguments, or an address (`mcpjoin help
    /// targets`)
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// Looks at this machine alone, and starts no server
    #[arg(long, conflicts_with = "words", help_heading = "Arguments")]
    pub(crate) environment: bool,
    /// Does not run your login shell: the PATH of a terminal and of a desktop session stays unknown
    #[arg(long, help_heading = "Arguments")]
    pub(crate) no_shell: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
