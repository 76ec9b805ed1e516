//! `mcpjoin bridge`: what can be typed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mcpjoin::bridge::orchestra::LISTEN_ADDRESS;

use super::values::duration;
use super::{Connect, Output};

const LONG: &str = "\
Joins two sides that speak differently

With --orchestrator-addr host:port it is an MCP server on standard input and output whose tools, prompts and resources are \
those of an Orchestra orchestrator: it takes the place of Orchestra's transport.stdio, also under that name (a link to this \
program called transport-stdio, whose flags may be written -x v as well). It is there at once; the connection is made in \
the background, and made again when it is lost. While there is none, a call fails within 5 seconds and says why. A read is \
made again, a tool is never called twice. At the end of its input calls in progress are finished first, within 10 seconds; \
a signal ends it at once. Certificates, an address or options that cannot be used end it at once with 2, and so does an \
orchestrator that does not accept us, or that we do not accept, at the first connection.

With --listen orchestra://host:port MCP servers are offered to the clients of Orchestra, as its orchestrator offers its plugins: \
tools, prompts, and resources as documents. Clients have to show a certificate of the authority in the folder of \
certificates, which is made when there is none. orchestra+tcp://host:port is the same without encryption, for everyone who \
can reach the port. --cert and --key show another certificate than the folder's. Of two tools with one name that of the server which was named last counts. A server that dies is \
started again; a call is never made twice. It ends at a signal: calls in progress are finished first, within 10 seconds, \
and at a second signal not even these.";

/// What means something only for servers that are started or reached here.
const OF_SERVERS: [&str; 18] = [
    "listen",
    "words",
    "also",
    "clients_ca",
    "config",
    "server",
    "header",
    "pin",
    "env",
    "env_clean",
    "cwd",
    "era",
    "no_cache",
    "protocol_version",
    "connect_timeout",
    "max_message_size",
    "trace",
    "json",
];
/// What means nothing where nothing is encrypted.
const OF_CERTIFICATES: [&str; 5] = ["certs_dir", "server_name", "ca", "cert", "key"];

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin bridge --orchestrator-addr HOST:PORT [OPTIONS]\n       \
        mcpjoin bridge --listen ADDRESS [OPTIONS] TARGET...\n       \
        mcpjoin bridge --listen ADDRESS [OPTIONS] [--] COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin bridge --orchestrator-addr localhost:50100\n  \
        mcpjoin bridge --orchestrator-addr localhost:50100 --stream ai_prompt_stream\n  \
        mcpjoin bridge --orchestrator-addr 10.0.0.7:50100 --server-name orchestrator --certs-dir ./certs\n  \
        mcpjoin bridge --listen orchestra://localhost:50100 demo:\n  \
        mcpjoin bridge --listen orchestra://localhost:50100 ./my-server --stdio\n  \
        mcpjoin bridge --listen orchestra://localhost:50100 --also files --also http://localhost:3000/mcp demo:\n\n\
        Options stand before the server's command: what follows its first word is its own."
)]
pub(crate) struct Bridge {
    /// The server: a URL, `demo:`, tcp://host:port, unix:/path, an entry of a configuration, or a command and its
    /// arguments. After a URL, `demo:` or FILE#NAME more of them may follow
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// Is an MCP server on standard input and output for the orchestrator at host:port, over QUIC; without an address for the
    /// one at localhost:50100, where orchestrators listen when they are not told otherwise
    #[arg(
        long, value_name = "HOST:PORT", group = "orchestrator", help_heading = "Orchestrator",
        conflicts_with_all = OF_SERVERS, num_args = 0..=1, default_missing_value = LISTEN_ADDRESS
    )]
    pub(crate) orchestrator_addr: Option<String>,
    /// The same over the orchestrator's plain TCP port: nothing is encrypted, and nobody is asked who they are
    #[arg(
        long, value_name = "HOST:PORT", group = "orchestrator", help_heading = "Orchestrator",
        conflicts_with_all = OF_SERVERS.into_iter().chain(OF_CERTIFICATES), allow_hyphen_values = true
    )]
    pub(crate) tcp_addr: Option<String>,
    /// How often it is looked whether the tools have changed, while a client hears of it; 0 is never [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = poll, requires = "orchestrator", help_heading = "Orchestrator")]
    pub(crate) poll: Option<Poll>,
    /// Answers exactly as the document of that version says, and offers tools alone
    #[arg(long, value_name = "VERSION", requires = "orchestrator", help_heading = "Orchestrator")]
    pub(crate) compat: Option<Compat>,
    /// Rounds numbers that Orchestra cannot carry, as its own programs do, instead of refusing them
    #[arg(long, requires = "orchestrator", help_heading = "Orchestrator")]
    pub(crate) lossy_numbers: bool,
    /// A tool that answers bit by bit: what it says is told as progress, where the client asks for that. May be given more
    /// than once
    #[arg(
        long,
        value_name = "TOOL",
        requires = "orchestrator",
        conflicts_with = "compat",
        help_heading = "Orchestrator"
    )]
    pub(crate) stream: Vec<String>,
    /// Answers the call of a tool that does not exist with an error, as MCP has it, and not with a result that has failed
    #[arg(long, requires = "orchestrator", conflicts_with = "compat", help_heading = "Orchestrator")]
    pub(crate) strict: bool,
    /// What Orchestra's programs are told when one of them starts another: there is nothing to listen for here.
    #[arg(long, hide = true, value_name = "HOST:PORT", requires = "orchestrator")]
    pub(crate) listen_addr: Option<String>,
    /// Listens on orchestra://host:port or orchestra+tcp://host:port; port 0 is any that is free. May be given more than
    /// once
    #[arg(long, value_name = "ADDRESS", required_unless_present = "orchestrator")]
    pub(crate) listen: Vec<String>,
    /// One more server, named by one word: as TARGET. May be given more than once
    #[arg(long, value_name = "TARGET")]
    pub(crate) also: Vec<OsString>,
    /// Lets in who has a certificate of the authorities in this file, instead of the folder's: a file in PEM
    #[arg(long, value_name = "FILE", help_heading = "Certificates")]
    pub(crate) clients_ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// How often something is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poll {
    Every(Duration),
    Never,
}

fn poll(word: &str) -> Result<Poll, String> {
    match word {
        "0" | "0s" => Ok(Poll::Never),
        word => duration(word).map(Poll::Every),
    }
}

/// The versions whose replies are known to the letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compat {
    /// The first
    #[value(name = "1.0")]
    V1_0,
}
