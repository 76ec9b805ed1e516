//! The arguments of `mcpjoin bridge`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mcpjoin_orchestra::LISTEN_ADDRESS;

use super::values::{count, duration};
use super::{Authorization, Connect, Output};

const LONG: &str = "\
Joins any MCP client to any server, and MCP to Orchestra

mcpjoin bridge TARGET is an MCP server on standard input and output, and what it offers is the server at TARGET, however that \
is reached: for a client that starts its servers as programs, and a server that listens on HTTP, say. With --listen it \
waits for clients instead, at http://host:port/path (Streamable HTTP, with the HTTP+SSE of 2024-11-05 at /sse beside it), \
sse+http://host:port/sse (the same service; the path is that of HTTP+SSE, and Streamable HTTP is at /mcp), quic://host:port, \
tcp://host:port or unix:/path. Both sides may be of any revision. Everything crosses: requests and notifications of either side, \
progress, cancellations, log messages, questions to the user and to the model, and what no revision knows. No header of a \
client's request goes to the server, and so no token that was meant for us; what the server is to get, -H names, or -e.

With --listen a program gets those of your variables alone that programs need to run (see --env-clean), because its clients \
may be others than you; -e NAME passes one more on, --inherit-env all of them.

Each client with a session or a connection of its own has a server of its own: a program is started for each of them and \
ended with it, up to --max-sessions at once. Clients of 2026-07-28 over HTTP, which know no sessions, share one as far as they \
declare the same capabilities and come from one address. Where such a client can be asked something, and the server is of an \
older revision, each of its calls has a server for itself until it is over, so that no question reaches another client: more \
are started for calls at the same time, and beyond --max-sessions they wait for their turn. A server that dies is started again: what was under way \
fails with an error that says how it ended, and is never done twice.

On standard input and output it ends when its input does, or at a signal. With --listen it says on standard error where it \
listens and ends at a signal: what is in progress is finished first, within 10 seconds, and at a second signal not even \
that. Nobody is asked who they are but with --client-ca, over QUIC, and with --auth-issuer, over HTTP, and only QUIC is encrypted: a Unix socket is for your \
user alone, and a port is for everyone who can reach it. Over HTTP only requests for this \
machine are answered, and for the host in the address: --allow-host and --allow-origin name others. With --listen \
quic://host:port --cert and --key are what clients are shown; without them a key is made that lasts as long as it runs, and \
the line is printed with which clients know it.

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
const OF_SERVERS: [&str; 28] = [
    "listen",
    "words",
    "also",
    "client_ca",
    "allow_host",
    "allow_origin",
    "auth_issuer",
    "auth_resource",
    "auth_scope",
    "auth_ca",
    "max_sessions",
    "session_idle",
    "config",
    "server",
    "header",
    "no_auth",
    "pin",
    "env",
    "env_clean",
    "inherit_env",
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
    override_usage = "mcpjoin bridge [OPTIONS] TARGET\n       \
        mcpjoin bridge [OPTIONS] [--] COMMAND [ARG]...\n       \
        mcpjoin bridge --listen ADDRESS [OPTIONS] TARGET\n       \
        mcpjoin bridge --listen ADDRESS [OPTIONS] [--] COMMAND [ARG]...\n       \
        mcpjoin bridge --listen orchestra://HOST:PORT [OPTIONS] TARGET...\n       \
        mcpjoin bridge --orchestrator-addr HOST:PORT [OPTIONS]",
    after_help = "Examples:\n  \
        mcpjoin bridge http://localhost:3000/mcp\n  \
        mcpjoin bridge -H @token.txt https://example.com/mcp\n  \
        mcpjoin bridge --listen http://127.0.0.1:8080/mcp npx -y @modelcontextprotocol/server-everything\n  \
        mcpjoin bridge --listen sse+http://127.0.0.1:8080/sse ./my-server --stdio\n  \
        mcpjoin bridge --listen http://127.0.0.1:8080/mcp --auth-issuer https://login.example.com --auth-resource https://tools.example.com/mcp files\n  \
        mcpjoin bridge --listen unix:/tmp/tools.sock --listen http://127.0.0.1:8080/mcp files\n  \
        mcpjoin bridge --listen quic://0.0.0.0:4433 --cert cert.pem --key key.pem --client-ca team.pem demo:\n  \
        mcpjoin bridge --orchestrator-addr localhost:50100\n  \
        mcpjoin bridge --orchestrator-addr localhost:50100 --stream ai_prompt_stream\n  \
        mcpjoin bridge --orchestrator-addr 10.0.0.7:50100 --server-name orchestrator --certs-dir ./certs\n  \
        mcpjoin bridge --listen orchestra://localhost:50100 demo:\n  \
        mcpjoin bridge --listen orchestra://localhost:50100 ./my-server --stdio\n  \
        mcpjoin bridge --listen orchestra://localhost:50100 --also files --also http://localhost:3000/mcp demo:\n\n\
        Options stand before the server's command: what follows its first word is its own.",
    mut_arg("timeout", |arg| arg.help(
        "How long a request may go without a sign of life; progress starts it again. Seconds, or with ms, s, m, h [default: 10m; \
         60s with --listen orchestra://...]"
    )),
    mut_arg("cert", |arg| arg.help(
        "Over QUIC, shows this certificate: PEM. To clients, with --listen quic://... or orchestra://..., read anew for each of them; \
         otherwise to a server that asks who we are"
    )),
    mut_arg("trace", |arg| arg.help(
        "Writes everything that crosses to the server, and its standard error, to a file: one JSON object a line, with the \
         values of -e, of an entry's variables and of headers replaced. Where the server is started or reached more than once, \
         the member `connection` says which time it was"
    )),
)]
pub(crate) struct Bridge {
    /// The server: a URL, `demo:`, quic://host:port, tcp://host:port, unix:/path, an entry of a configuration, or a
    /// command and its arguments. For Orchestra's clients, after a URL, `demo:` or FILE#NAME more of them may follow
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
    /// How often it is looked whether the tools have changed, while a client hears of it; every second in the first 15 s of a
    /// connection; 0 is never [default: 30s]
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
    /// Waits for clients at http://host:port/path, sse+http://host:port/sse, quic://host:port, tcp://host:port or
    /// unix:/path; port 0 is any that is free. May be given more than once. For Orchestra's clients, and for these alone:
    /// orchestra://host:port, orchestra+tcp://host:port
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// One more server for Orchestra's clients, named by one word: as TARGET. May be given more than once
    #[arg(long, value_name = "TARGET")]
    pub(crate) also: Vec<OsString>,
    /// How many servers there may be at once: one for each client that has its own, and at least one for those that share,
    /// declare the same capabilities and come from one address. One client more is told why it is refused; over HTTP, where
    /// as many have a session there, it is asked to come again (503) [default: 100]
    #[arg(long, value_name = "NUMBER", value_parser = count, requires = "listen", help_heading = "Clients")]
    pub(crate) max_sessions: Option<u32>,
    /// Over HTTP, after how long without a request and without an open stream a session is over, and its server ended
    /// [default: 30m]
    #[arg(
        long, value_name = "TIME", value_parser = duration, requires = "listen", help_heading = "Clients",
        allow_hyphen_values = true
    )]
    pub(crate) session_idle: Option<Duration>,
    /// Over HTTP, answers requests for this host, too, as clients name it: host or host:port. Otherwise for localhost,
    /// 127.0.0.1, [::1] and the host in the address alone, so that no web page reaches us under a name of its own (DNS
    /// rebinding). May be given more than once
    #[arg(long, value_name = "HOST", requires = "listen", help_heading = "Clients")]
    pub(crate) allow_host: Vec<String>,
    /// Over HTTP, answers requests of the web pages of this origin, too, and lets web pages that are answered read the answers
    /// (CORS): scheme://host or scheme://host:port. Otherwise pages of this machine alone are answered. May be given more than
    /// once
    #[arg(long, value_name = "ORIGIN", requires = "listen", help_heading = "Clients")]
    pub(crate) allow_origin: Vec<String>,
    /// Over QUIC, lets in only clients with a certificate that the authorities in this file have signed: PEM. For Orchestra's
    /// clients instead of the folder's authority
    #[arg(
        long,
        visible_alias = "clients-ca",
        value_name = "FILE",
        requires = "listen",
        help_heading = "Clients"
    )]
    pub(crate) client_ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) authorization: Authorization,
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
