//! `mcpjoin ping`: what can be typed.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::values::{count, duration};
use super::{Connect, Output};

const LONG: &str = "\
Asks a server whether it answers, and measures how long that takes

Connects, and then sends `ping`, or, to a server of the modern era, which has no `ping`, `server/discover`. Prints the \
time from the request to its answer, which the start of the server is no part of. Ends with exit code 4 at the first \
request that is not answered.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
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
