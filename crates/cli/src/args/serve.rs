//! The arguments of `mcpjoin serve`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Authorization;
use super::values::size;

const LONG: &str = "\
Runs a built-in server on standard input and output, on sockets, or over HTTP

Without --listen it serves one client on standard input and output, and ends when the input ends. With --listen \
(repeatable) it serves all clients that connect, prints its addresses on standard error, and ends at a signal: calls \
in progress have 12 seconds to finish; a second signal ends them at once.

There is no authentication unless --client-ca (QUIC, HTTPS) or --auth-issuer (HTTP) is given. Only QUIC and HTTPS \
are encrypted. A Unix \
socket is open to your user only, a port to everyone who can reach it. Over QUIC the server shows the certificate of \
--cert; without it, it creates a key for this run and prints the option with which clients trust it. Over HTTP it \
answers requests for localhost, 127.0.0.1, [::1] and the host of the address. Clients of 2024-11-05 find it at /sse.

With the variable OTEL_EXPORTER_OTLP_ENDPOINT it sends the traces of its calls to a collector of OpenTelemetry.";

#[derive(Clone, Debug, Args)]
#[command(
    long_about = LONG,
    after_help = "Examples:\n  \
        mcpjoin list mcpjoin serve demo\n  \
        mcpjoin serve demo --full --listen tcp://127.0.0.1:0\n  \
        mcpjoin serve demo --listen unix:/tmp/demo.sock\n  \
        mcpjoin serve demo --listen quic://127.0.0.1:0\n  \
        mcpjoin serve demo --listen http://127.0.0.1:8080/mcp\n  \
        mcpjoin serve demo --listen http://127.0.0.1:8080/mcp --auth-issuer https://login.example.com"
)]
pub(crate) struct Serve {
    /// Which server
    pub(crate) server: Served,
    /// Serves a tool, a prompt or a resource for each feature of the protocol (`demo:full`)
    #[arg(long)]
    pub(crate) full: bool,
    /// Listens at quic://host:port, tcp://host:port, unix:/path, http://host:port/path, https://host:port/path or
    /// sse+http://host:port/sse (the same service as http://, named by its path for clients of 2024-11-05). Port 0 is any free one
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// The certificate for QUIC and HTTPS: PEM, followed by the intermediate certificates. Read again when it has changed
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The key of the certificate: PEM; must be readable only by you (chmod 600)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Over QUIC and HTTPS, requires a client certificate signed by an authority in this file: PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) client_ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) authorization: Authorization,
    /// The largest message, each way: bytes, or with KiB, MiB, GiB [default: 10MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_message_size: Option<usize>,
}

/// The servers inside this program.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Served {
    /// A small demonstration server: a few tools, a prompt and resources (`demo:`)
    Demo,
}
