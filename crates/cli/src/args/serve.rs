//! The arguments of `mcpjoin serve`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Authorization;
use super::values::size;

const LONG: &str = "\
Runs a built-in server on standard input and output, on sockets, or over HTTP

On standard input and output it ends when its input does. With --listen, which may be given more than once, it serves \
everyone who comes, tells on standard error where it listens, and ends at a signal: calls in progress are finished first, within 12 seconds, and at a second \
signal not even these. Nothing is encrypted but QUIC, and nobody is asked who they are but with --client-ca, and over HTTP with --auth-issuer: a Unix socket is for your user alone, and a \
port is for everyone who can reach it. Over QUIC it shows the certificate of --cert; without one it makes a key that lasts as long as it runs, and \
prints the line with which clients know it. Over HTTP it answers requests for this machine alone: for localhost, 127.0.0.1, \
[::1] and the host in the address. Clients of 2024-11-05 find it at /sse there.";

#[derive(Clone, Debug, Args)]
#[command(
    long_about = LONG,
    after_help = "Examples:\n  \
        mcpjoin list mcpjoin serve demo\n  \
        mcpjoin serve demo --listen tcp://127.0.0.1:0\n  \
        mcpjoin serve demo --listen unix:/tmp/demo.sock\n  \
        mcpjoin serve demo --listen quic://127.0.0.1:0\n  \
        mcpjoin serve demo --listen http://127.0.0.1:8080/mcp\n  \
        mcpjoin serve demo --listen http://127.0.0.1:8080/mcp --auth-issuer https://login.example.com"
)]
pub(crate) struct Serve {
    /// Which server
    pub(crate) server: Served,
    /// Serves on quic://host:port, tcp://host:port, unix:/path, http://host:port/path or sse+http://host:port/sse, which
    /// names the same service by where clients of 2024-11-05 find it; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// Over QUIC, shows this certificate: PEM, with those between it and its authority behind it. Read for each connection
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The key of the certificate: PEM, readable for you alone
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Over QUIC, lets in only clients with a certificate that the authorities in this file have signed: PEM
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
    /// A server with a tool, a resource or a prompt for each thing that the protocol has
    Demo,
}
