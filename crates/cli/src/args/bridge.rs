//! `mcpjoin bridge`: what can be typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::{Connect, Output};

const LONG: &str = "\
Offers servers to clients that speak another way

With --listen orchestra://host:port they are offered to the clients of Orchestra, as its orchestrator offers its plugins: \
tools, prompts, and resources as documents. Clients have to show a certificate of the authority in the folder of \
certificates, which is made when there is none. orchestra+tcp://host:port is the same without encryption, for everyone who \
can reach the port. Of two tools with one name that of the server which was named last counts. A server that dies is \
started again; a call is never made twice. It ends at a signal: calls in progress are finished first, within 10 seconds, \
and at a second signal not even these.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin bridge --listen ADDRESS [OPTIONS] TARGET...\n       \
        mcpjoin bridge --listen ADDRESS [OPTIONS] [--] COMMAND [ARG]...",
    after_help = "Examples:\n  \
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
    /// Listens on orchestra://host:port or orchestra+tcp://host:port; port 0 is any that is free. May be given more than
    /// once
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub(crate) listen: Vec<String>,
    /// One more server, named by one word: as TARGET. May be given more than once
    #[arg(long, value_name = "TARGET")]
    pub(crate) also: Vec<OsString>,
    /// The folder of certificates; a ~ at its beginning is your home folder [default: ~/.orchestra/certs]
    #[arg(long, value_name = "DIR", help_heading = "Certificates")]
    pub(crate) certs_dir: Option<String>,
    /// Shows this certificate instead of the folder's own: a file in PEM
    #[arg(long, value_name = "FILE", requires = "key", help_heading = "Certificates")]
    pub(crate) cert: Option<PathBuf>,
    /// The key of --cert: a file in PEM
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "Certificates")]
    pub(crate) key: Option<PathBuf>,
    /// Lets in who has a certificate of the authorities in this file, instead of the folder's: a file in PEM
    #[arg(long, value_name = "FILE", help_heading = "Certificates")]
    pub(crate) clients_ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
