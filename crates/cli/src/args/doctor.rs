//! `mcpjoin doctor`: what can be typed.

use std::ffi::OsString;

use clap::Args;

use super::{Connect, Output};

const LONG: &str = "\
Finds out what is wrong with a server, phase by phase

The program is looked up and started, the era found out, every list read, and the server ended: with the time of \
each phase, and for each fault what was seen, what it means and one thing to do. No tool is called. Exit code 1 when \
anything is wrong.

Of a server over QUIC (quic://host:port) the name is resolved, the connection made, with what its certificate says, the \
era found out, every list read, and the connection closed.

Of an orchestrator of Orchestra (orchestra://host:port) it looks at the certificates, connects, asks for its health and \
reads its list of tools.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin doctor [OPTIONS] TARGET\n       mcpjoin doctor [OPTIONS] [--] COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin doctor demo:\n  \
        mcpjoin doctor npx -y @modelcontextprotocol/server-everything\n  \
        mcpjoin doctor --json -e API_KEY ./my-server --stdio\n  \
        mcpjoin doctor --pin sha256:HEX quic://localhost:8443\n  \
        mcpjoin doctor orchestra://localhost:50100\n\n\
        Options stand before the server's command: what follows its first word is its own."
)]
pub(crate) struct Doctor {
    /// The server: `demo:`, an entry of a configuration, a command and its arguments, quic://host:port or
    /// orchestra://host:port
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
