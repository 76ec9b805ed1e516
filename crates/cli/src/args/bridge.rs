//! The arguments of `mcpjoin bridge`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, ArgGroup, Args, ValueEnum};
use mcpjoin_orchestra::LISTEN_ADDRESS;

use super::values::{count, duration};
use super::{Authorization, Connect, Output};

const LONG: &str = "\
Bridges any MCP client to any MCP server, and MCP to Orchestra

`mcpjoin bridge TARGET` is an MCP server on standard input and output: a client starts this command, and gets the \
server at TARGET. With --listen it waits for clients at http://host:port/path (Streamable HTTP, with the HTTP+SSE of \
2024-11-05 at /sse), sse+http://host:port/sse (the same; Streamable HTTP is at /mcp), https://host:port/path, \
quic://host:port, tcp://host:port or unix:/path. Both sides may speak any revision. All messages are forwarded: requests and \
notifications of both sides, progress, cancellation, logging, elicitation, sampling, and unknown methods. Headers of \
the client, and with them its tokens, are not forwarded: -H and -e set what the server gets, and a policy can have each \
client's token exchanged (docs/identity.md).

With --listen the server's program gets only the variables that programs need to run (see --env-clean), because its \
clients may be other people. -e NAME adds one, --inherit-env all of them.

Each client with a session or connection of its own gets a server of its own, up to --max-sessions: a program is \
started for the client and ended with it. Clients of 2026-07-28 over HTTP have no sessions; those from one address \
that declare the same capabilities share a server. If the server speaks an older revision and the client can be asked \
questions, each call has a server for itself, so that no question reaches another client; beyond --max-sessions calls \
wait. A server that dies is started again: its pending requests fail with the reason, and none is sent twice.

With --config FILE and no server, all entries of the file are one server; --server, more than once, chooses entries, \
and --join any servers. Tools \
and prompts are called NAME__tool, and resources keep their URIs; of two servers with the same name or URI the first \
has it, and a warning names both. A server that dies costs only its own tools: they leave the lists, calls of them fail \
at once with the reason, and they come back when it does. When the first client is opened, the state of each server is \
printed. Over HTTP each server is also alone at the path followed by \
/NAME, with its own names.

On standard input and output it ends when the input ends, or at a signal. With --listen it prints its addresses on \
standard error and ends at a signal: pending requests have 10 seconds to finish; a second signal ends them at once. \
There is no authentication unless --client-ca (QUIC, HTTPS) or --auth-issuer (HTTP) is given, and only QUIC and HTTPS \
are encrypted. A \
Unix socket is open to your user only, a port to everyone who can reach it. Over HTTP it answers requests for this \
machine and for the host of the address; --allow-host and --allow-origin add others. With --listen quic://host:port, \
--cert and --key are its certificate; without them it creates a key for this run and prints the option with which \
clients trust it. With --listen https://host:port/path they are required, and read again when they have changed.

With the variable OTEL_EXPORTER_OTLP_ENDPOINT it sends the traces of its calls to a collector of OpenTelemetry, over \
HTTP; the other variables of OpenTelemetry are read, too.

With --orchestrator-addr host:port it is an MCP server on standard input and output with the tools, prompts and \
resources of an Orchestra orchestrator. It replaces Orchestra's transport.stdio, also under that name (a link called \
transport-stdio; flags may be written -x v). It connects in the background and reconnects when the connection is lost; \
until then calls fail within 5 seconds with the reason. A read is repeated, a tool call never. At the end of the input \
pending calls have 10 seconds to finish; a signal ends them at once. The exit code is 2 if the certificates, the \
address or the options cannot be used, or if either side rejects the other at the first connection.

With --listen orchestra://host:port it offers MCP servers to Orchestra's clients, as an orchestrator offers its \
plugins: tools, prompts, and resources as documents. Clients need a certificate of the authority in the folder of \
certificates, which is created if it is missing. --cert and --key replace the folder's certificate. \
orchestra+tcp://host:port is the same without encryption or authentication. If two servers have a tool of the same \
name, the last one is used. A server that dies is started again, and no call is sent twice. At a signal pending calls \
have 10 seconds to finish; a second signal ends them at once.";

/// What means something only for servers that are started or reached here.
const OF_SERVERS: [&str; 40] = [
    "listen",
    "words",
    "also",
    "join",
    "prefix",
    "client_ca",
    "allow_host",
    "allow_origin",
    "auth_issuer",
    "auth_resource",
    "auth_scope",
    "auth_ca",
    "max_sessions",
    "session_idle",
    "key_file",
    "advertise",
    "state",
    "state_ca",
    "state_timeout",
    "policy",
    "check_config",
    "admin",
    "audit",
    "audit_arguments",
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
    group = ArgGroup::new("checked").args(["policy", "key_file"]).multiple(true),
    long_about = LONG,
    override_usage = "mcpjoin bridge [OPTIONS] TARGET\n       \
        mcpjoin bridge [OPTIONS] [--] COMMAND [ARG]...\n       \
        mcpjoin bridge --listen ADDRESS [OPTIONS] TARGET\n       \
        mcpjoin bridge --listen ADDRESS [OPTIONS] [--] COMMAND [ARG]...\n       \
        mcpjoin bridge [--listen ADDRESS] [OPTIONS] --config FILE [--server NAME]...\n       \
        mcpjoin bridge [--listen ADDRESS] [OPTIONS] --join NAME=TARGET...\n       \
        mcpjoin bridge --listen orchestra://HOST:PORT [OPTIONS] TARGET...\n       \
        mcpjoin bridge --orchestrator-addr HOST:PORT [OPTIONS]",
    after_help = "Examples:\n  \
        mcpjoin bridge http://localhost:3000/mcp\n  \
        mcpjoin bridge -H @token.txt https://example.com/mcp\n  \
        mcpjoin bridge --listen http://127.0.0.1:8080/mcp npx -y @modelcontextprotocol/server-everything\n  \
        mcpjoin bridge --listen sse+http://127.0.0.1:8080/sse ./my-server --stdio\n  \
        mcpjoin bridge --listen http://127.0.0.1:8080/mcp --auth-issuer https://login.example.com --auth-resource https://tools.example.com/mcp files\n  \
        mcpjoin bridge --policy policy.toml --listen http://127.0.0.1:8080/mcp files\n  \
        mcpjoin bridge --listen unix:/tmp/tools.sock --listen http://127.0.0.1:8080/mcp files\n  \
        mcpjoin bridge --listen https://127.0.0.1:8443/mcp --cert cert.pem --key key.pem files\n  \
        mcpjoin bridge --listen http://127.0.0.1:8080/mcp --admin http://127.0.0.1:9090 --audit calls.jsonl files\n  \
        mcpjoin bridge --listen quic://0.0.0.0:4433 --cert cert.pem --key key.pem --client-ca team.pem demo:\n  \
        mcpjoin bridge --listen http://127.0.0.1:8080/mcp --config .mcp.json\n  \
        mcpjoin bridge --config .mcp.json --server files --server git\n  \
        mcpjoin bridge --join demo=demo: --join files=http://localhost:3000/mcp\n  \
        mcpjoin bridge --orchestrator-addr localhost:50100\n  \
        mcpjoin bridge --orchestrator-addr localhost:50100 --stream ai_prompt_stream\n  \
        mcpjoin bridge --orchestrator-addr 10.0.0.7:50100 --server-name orchestrator --certs-dir ./certs\n  \
        mcpjoin bridge --listen orchestra://localhost:50100 demo:\n  \
        mcpjoin bridge --listen orchestra://localhost:50100 ./my-server --stdio\n  \
        mcpjoin bridge --listen orchestra://localhost:50100 --also files --also http://localhost:3000/mcp demo:\n\n\
        Options must come before the server's command; everything after its first word is passed to it.",
    mut_arg("timeout", |arg| arg.help(
        "The timeout of a request; progress restarts it. Seconds, or with ms, s, m, h [default: 10m; 60s with --listen \
         orchestra://...]"
    )),
    mut_arg("cert", |arg| arg.help(
        "The certificate for QUIC and HTTPS: PEM. Shown to clients with --listen quic://..., https://... or orchestra://..., \
         and read again when it has changed; otherwise shown to a server that requires one"
    )),
    mut_arg("server", |arg| arg.action(ArgAction::Append).help(
        "The server as an entry of a configuration, instead of TARGET: for names with `/`, `#` or spaces. More than once: \
         only these entries are joined at one endpoint"
    )),
    mut_arg("trace", |arg| arg.help(
        "Writes all messages to and from the server, and its standard error, to a file: one JSON object per line. The values \
         of -e, of an entry's variables and of headers are replaced. `connection` numbers the connections"
    )),
)]
pub(crate) struct Bridge {
    /// The server: a URL, `demo:`, an entry of a configuration, or a command and its arguments (`mcpjoin help targets`).
    /// For Orchestra's clients, more may follow a URL, `demo:` or FILE#NAME
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// Is an MCP server on standard input and output for the orchestrator at host:port, over QUIC. Without an address:
    /// localhost:50100, where orchestrators listen by default
    #[arg(
        long, value_name = "HOST:PORT", group = "orchestrator", help_heading = "Orchestrator",
        conflicts_with_all = OF_SERVERS, num_args = 0..=1, default_missing_value = LISTEN_ADDRESS
    )]
    pub(crate) orchestrator_addr: Option<String>,
    /// The same over the orchestrator's TCP port: without encryption or authentication
    #[arg(
        long, value_name = "HOST:PORT", group = "orchestrator", help_heading = "Orchestrator",
        conflicts_with_all = OF_SERVERS.into_iter().chain(OF_CERTIFICATES), allow_hyphen_values = true
    )]
    pub(crate) tcp_addr: Option<String>,
    /// How often the list of tools is checked for changes while a client subscribes to them; every second in the first 15
    /// s of a connection; 0 is never [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = poll, requires = "orchestrator", help_heading = "Orchestrator")]
    pub(crate) poll: Option<Poll>,
    /// Answers exactly as the document of that version says, and offers only tools
    #[arg(long, value_name = "VERSION", requires = "orchestrator", help_heading = "Orchestrator")]
    pub(crate) compat: Option<Compat>,
    /// Rounds numbers that Orchestra cannot carry, as its own programs do, instead of rejecting them
    #[arg(long, requires = "orchestrator", help_heading = "Orchestrator")]
    pub(crate) lossy_numbers: bool,
    /// A tool with a streamed result: the parts are sent as progress, if the client asks for progress. Repeatable
    #[arg(
        long,
        value_name = "TOOL",
        requires = "orchestrator",
        conflicts_with = "compat",
        help_heading = "Orchestrator"
    )]
    pub(crate) stream: Vec<String>,
    /// Answers a call of an unknown tool with a JSON-RPC error, as MCP requires, instead of a result with isError
    #[arg(long, requires = "orchestrator", conflicts_with = "compat", help_heading = "Orchestrator")]
    pub(crate) strict: bool,
    /// The argument with which Orchestra's programs start each other. It has no effect here
    #[arg(long, hide = true, value_name = "HOST:PORT", requires = "orchestrator")]
    pub(crate) listen_addr: Option<String>,
    /// Listens at http://, https:// or sse+http://host:port/path, quic://host:port, tcp://host:port or unix:/path; port 0 is
    /// any free one. Repeatable; http:// and sse+http:// may have the same port. For Orchestra's clients:
    /// orchestra://host:port or orchestra+tcp://host:port, which cannot be combined with the others
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// Another server for Orchestra's clients: one word, as TARGET. Repeatable
    #[arg(long, value_name = "TARGET")]
    pub(crate) also: Vec<OsString>,
    /// Joins this server with the others at one endpoint: NAME=TARGET, or NAME for an entry of a configuration.
    /// TARGET is one word: a command with arguments is in quotes. Its tools and prompts are called NAME__tool. Repeatable.
    /// Without --join and without a server, all entries of the file of --config are joined
    #[arg(
        long, value_name = "NAME[=TARGET]", conflicts_with_all = ["words", "server", "also"], help_heading = "Joined servers"
    )]
    pub(crate) join: Vec<String>,
    /// The prefix of a joined server's tools and prompts in place of its name: NAME=PREFIX; `NAME=` is none. Repeatable
    #[arg(long, value_name = "NAME=PREFIX", hide_short_help = true, help_heading = "Joined servers")]
    pub(crate) prefix: Vec<String>,
    /// The maximum number of servers at once: one for each client that has its own, and one or more for clients that
    /// share one. Further clients are rejected; over HTTP with the status 503 [default: 100]
    #[arg(long, value_name = "NUMBER", value_parser = count, requires = "listen", help_heading = "Clients")]
    pub(crate) max_sessions: Option<u32>,
    /// Over HTTP, ends a session, and its server, after this time without a request or an open stream [default: 30m]
    #[arg(
        long, value_name = "TIME", value_parser = duration, requires = "listen", help_heading = "Clients",
        allow_hyphen_values = true
    )]
    pub(crate) session_idle: Option<Duration>,
    /// A file with the key that several bridges share: any of them then serves the session of any client over HTTP, so that a
    /// balancer needs no stickiness. The base64 of 32 bytes, as `openssl rand -base64 32` prints it; further lines are keys that
    /// are accepted, too. Read again when it changes (docs/replicas.md)
    #[arg(long, value_name = "FILE", requires = "listen", hide_short_help = true, help_heading = "Clients")]
    pub(crate) key_file: Option<PathBuf>,
    /// The address of this bridge for the others with the same key, http:// or https://host:port: one of --listen, as they reach it.
    /// They then pass requests of sessions that only this bridge can serve, because a program belongs to the session for example,
    /// to it. With https:// the authorities of --ca are trusted, too
    #[arg(long, value_name = "URL", requires = "key_file", hide_short_help = true, help_heading = "Clients")]
    pub(crate) advertise: Option<String>,
    /// Redis or Valkey for what several bridges with --key-file share beside the ids of sessions: a session that does not fit into its
    /// id, and the events with which a broken stream is resumed at any bridge. redis://HOST:PORT/DATABASE, or rediss:// for TLS.
    /// A URL with a password is given as @FILE. Without it: the variable MCPJOIN_STATE_URL (docs/redis.md)
    #[arg(
        long,
        value_name = "URL or @FILE",
        requires = "key_file",
        hide_short_help = true,
        help_heading = "Clients"
    )]
    pub(crate) state: Option<OsString>,
    /// Trusts only the authorities in this file for --state rediss://... in place of those of the system. Certificates in PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "key_file",
        hide_short_help = true,
        help_heading = "Clients"
    )]
    pub(crate) state_ca: Option<PathBuf>,
    /// How long a request or an event waits for an answer of --state; then it goes on without [default: 50ms]
    #[arg(
        long, value_name = "TIME", value_parser = duration, requires = "key_file", hide_short_help = true,
        help_heading = "Clients", allow_hyphen_values = true
    )]
    pub(crate) state_timeout: Option<Duration>,
    /// A TOML file that says which tools clients may use, under which names, and how often (docs/policy.md). Read again
    /// when it changes and at SIGHUP
    #[arg(long, value_name = "FILE", help_heading = "Clients")]
    pub(crate) policy: Option<PathBuf>,
    /// Checks the files of --policy and --key-file, and what --state says, and starts nothing. The exit code is 2 if one has a fault
    #[arg(long, requires = "checked", hide_short_help = true, help_heading = "Clients")]
    pub(crate) check_config: bool,
    /// Over HTTP, also answers requests for this host: host or host:port. By default only localhost, 127.0.0.1, [::1] and
    /// the host of the address are answered, which prevents DNS rebinding. Repeatable
    #[arg(long, value_name = "HOST", requires = "listen", hide_short_help = true, help_heading = "Clients")]
    pub(crate) allow_host: Vec<String>,
    /// Over HTTP, also answers requests from the web pages of this origin, and lets them read the responses (CORS):
    /// scheme://host or scheme://host:port. By default only pages of this machine are answered. Repeatable
    #[arg(
        long,
        value_name = "ORIGIN",
        requires = "listen",
        hide_short_help = true,
        help_heading = "Clients"
    )]
    pub(crate) allow_origin: Vec<String>,
    /// Over QUIC and HTTPS, requires a client certificate signed by an authority in this file: PEM. For Orchestra's clients it
    /// replaces the folder's authority
    #[arg(
        long,
        visible_alias = "clients-ca",
        value_name = "FILE",
        requires = "listen",
        help_heading = "Clients"
    )]
    pub(crate) client_ca: Option<PathBuf>,
    /// Serves pages for monitoring at http://host:port: /healthz (200 while the process serves), /readyz (503 if no server
    /// works; the state of each as JSON) and /metrics (OpenMetrics). There is no authentication: use an address that only
    /// the monitor can reach
    #[arg(
        long,
        value_name = "ADDRESS",
        requires = "listen",
        hide_short_help = true,
        help_heading = "Operation"
    )]
    pub(crate) admin: Option<String>,
    /// Appends one JSON object per line to a file for each request of a client: time, principal, address, client, server,
    /// method, tool, outcome, milliseconds, bytes. SIGHUP opens the file again. Lines that a slow or full disk does not
    /// take are counted; calls never wait
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = "Operation")]
    pub(crate) audit: Option<PathBuf>,
    /// Adds the arguments of calls to the lines of --audit, up to 64 KiB each, with *** for the secrets of this command
    /// and of the configuration
    #[arg(long, requires = "audit", hide_short_help = true, help_heading = "Operation")]
    pub(crate) audit_arguments: bool,
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

/// The versions whose responses are reproduced exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compat {
    /// The first
    #[value(name = "1.0")]
    V1_0,
}
