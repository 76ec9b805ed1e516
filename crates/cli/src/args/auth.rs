//! The arguments of `mcpjoin auth`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::values::duration;
use super::{Configured, Output};

const LONG: &str = "\
Logs in to servers over HTTP that want to know who asks (OAuth 2.1), and explains why that fails

login asks the server who lets people in, registers mcpjoin there where nothing else is said, and leads through the browser. \
What it brings back is stored for the server's URL: from then on every verb sends it there and to no other server, and \
renews it by itself. Nothing else ever opens a browser.

It is stored in files for you alone, below the folder that MCPJOIN_AUTH_DIR names, otherwise $XDG_STATE_HOME/mcpjoin/auth, \
otherwise ~/.local/state/mcpjoin/auth (macOS: ~/Library/Application Support/mcpjoin/auth; Windows: \
%LOCALAPPDATA%\\mcpjoin\\auth). A server for which an Authorization header is typed (-H) or configured gets that, and \
nothing that is stored; --no-auth leaves what is stored unused for one run.";

const LOGIN: &str = "\
Logs in to a server, and stores what that brings

The server says which authorization server it trusts, and that one what it can do (explain shows each step). mcpjoin then needs \
an id there: the one that --client-id or the entry's `oauth` names, the address of a document that describes the client \
(--client-metadata-url), or else one that it registers. With none of them, the id of an earlier login, given or registered, is used \
again until `auth logout`. Then a browser is opened; it comes back to a port of this machine that is \
open until then, and for five minutes at most, or for as long as --timeout says. Interrupted (Ctrl-C), nothing stays open and nothing is stored.

--no-browser prints the address in place of opening it, and waits for the browser in two ways at once: on the port, and on standard \
input, where somebody can answer there, for the address that the browser was sent to in the end. So it works over SSH: open the address on the machine where \
you sit, log in, and paste the address of the page that could not be shown.

--client-credentials logs in a machine, without a person and without a browser: with --client-id and a secret, or with a key that \
the authorization server knows (--private-key). A secret never stands on the command line: it is read from @FILE or from \
the variable MCPJOIN_CLIENT_SECRET.

With --json the result is one object with resource, issuer, clientId, scopes, expiresAt, refreshable and storedIn.";

const STATUS: &str = "\
Shows what is stored: for which servers, by which authorization server, with which scopes, and for how long

Nothing is sent, and no token or secret is shown. With TARGET it is about that server alone, and the exit code is 3 when nothing \
is stored that could be used for it: then log in. With --json the result is one object with storedIn and logins.";

const LOGOUT: &str = "\
Forgets what is stored for a server, after taking it back where the authorization server offers that

An authorization server with a revocation endpoint (RFC 7009) is asked to make the tokens worthless. They are forgotten \
here also when that fails, which is told.";

const EXPLAIN: &str = "\
Climbs the whole ladder to a login, rung by rung, and says which rung is broken

The server is asked without a token, as a client would; then the documents are read that its answer leads to: its own (RFC 9728) \
and that of its authorization server (RFC 8414, OpenID Connect). Each rung says what was tried, what came back, and the \
rule that it is held to. Nobody is asked, nothing is registered, and no token is sent. The exit code is 0 when a client could log \
in, or need not, and 1 when a rule is broken that keeps it from that.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        mcpjoin auth login https://example.com/mcp\n  \
        mcpjoin auth login --no-browser https://example.com/mcp\n  \
        mcpjoin auth status\n  \
        mcpjoin auth explain https://example.com/mcp\n  \
        mcpjoin auth logout --all"
)]
pub(crate) struct Auth {
    #[command(subcommand)]
    pub(crate) what: AuthWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthWhat {
    /// Logs in to a server, and stores what that brings
    Login(Box<Login>),
    /// Shows what is stored, and for how long it can be used
    Status(Status),
    /// Takes back what is stored for a server, and forgets it
    Logout(Logout),
    /// Climbs the ladder to a login, and says which rung is broken
    Explain(Box<Explain>),
}

#[derive(Debug, Args)]
#[command(
    long_about = LOGIN,
    after_help = "Examples:\n  \
        mcpjoin auth login https://example.com/mcp\n  \
        mcpjoin auth login --scope files:read --scope files:write https://example.com/mcp\n  \
        mcpjoin auth login --client-id abc --callback-port 8085 --config .mcp.json files\n  \
        mcpjoin auth login --no-browser https://example.com/mcp\n  \
        mcpjoin auth login --client-credentials --client-id ci --client-secret @secret.txt https://example.com/mcp"
)]
pub(crate) struct Login {
    /// The server: a URL of http:// or https://, or an entry of a configuration with one
    #[arg(value_name = "TARGET", help_heading = "Arguments")]
    pub(crate) target: Option<OsString>,
    #[command(flatten)]
    pub(crate) client: Client,
    /// Asks for this scope beside those that the server asks for. May be given more than once
    #[arg(long, value_name = "SCOPE", value_parser = scope)]
    pub(crate) scope: Vec<String>,
    /// Waits for the browser at this port of 127.0.0.1, in place of any that is free: for a client that is registered with it
    #[arg(long, value_name = "PORT", value_parser = port, conflicts_with = "client_credentials")]
    pub(crate) callback_port: Option<u16>,
    /// Waits for the browser at this address, which the client is registered with: http://127.0.0.1[:port]/path, or
    /// http://localhost[:port]/path [default: http://127.0.0.1/callback]
    #[arg(
        long, value_name = "URL", value_parser = Callback::parse,
        conflicts_with_all = ["callback_port", "client_credentials"]
    )]
    pub(crate) callback_url: Option<Callback>,
    /// Opens no browser: prints the address, and reads the one that the browser was sent to from standard input
    #[arg(long, conflicts_with = "client_credentials")]
    pub(crate) no_browser: bool,
    /// Logs in as a machine, without a person: needs --client-id with a secret or with --private-key
    #[arg(long)]
    pub(crate) client_credentials: bool,
    /// The key with which the client shows who it is in place of a secret: PKCS#8 in PEM, of P-256 (ES256) or RSA (RS256)
    #[arg(long, value_name = "FILE", requires = "client_credentials")]
    pub(crate) private_key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
#[command(
    long_about = STATUS,
    after_help = "Examples:\n  mcpjoin auth status\n  mcpjoin auth status --json https://example.com/mcp"
)]
pub(crate) struct Status {
    /// The server: a URL of http:// or https://, or an entry of a configuration with one; without it, all that is stored
    #[arg(value_name = "TARGET", help_heading = "Arguments")]
    pub(crate) target: Option<OsString>,
    #[command(flatten)]
    pub(crate) named: Named,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
#[command(
    long_about = LOGOUT,
    after_help = "Examples:\n  mcpjoin auth logout https://example.com/mcp\n  mcpjoin auth logout --all"
)]
pub(crate) struct Logout {
    /// The server: a URL of http:// or https://, or an entry of a configuration with one
    #[arg(value_name = "TARGET", help_heading = "Arguments", conflicts_with = "all")]
    pub(crate) target: Option<OsString>,
    /// All servers for which something is stored
    #[arg(long, conflicts_with = "server")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
#[command(
    long_about = EXPLAIN,
    after_help = "Examples:\n  \
        mcpjoin auth explain https://example.com/mcp\n  \
        mcpjoin auth explain --json --client-id abc https://example.com/mcp"
)]
pub(crate) struct Explain {
    /// The server: a URL of http:// or https://, or an entry of a configuration with one
    #[arg(value_name = "TARGET", help_heading = "Arguments")]
    pub(crate) target: Option<OsString>,
    #[command(flatten)]
    pub(crate) client: Client,
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(flatten)]
    pub(crate) output: Output,
}

// The identity of the client at the authorization server. No doc comment: clap would add it to the help of a verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Client")]
pub(crate) struct Client {
    /// The id of a client that is registered with the authorization server already
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// The file that holds the secret of that client, with an @ before its name; without it, the variable
    /// MCPJOIN_CLIENT_SECRET is looked at
    #[arg(long, value_name = "@FILE", requires = "client_id")]
    pub(crate) client_secret: Option<OsString>,
    /// The one authorization server that the client is registered with, as its metadata name it: nothing is sent to another
    #[arg(long, value_name = "URL", requires = "client_id")]
    pub(crate) issuer: Option<String>,
    /// The address of a document that describes the client (Client ID Metadata Document), which is its id then
    #[arg(long, value_name = "URL", conflicts_with = "client_id")]
    pub(crate) client_metadata_url: Option<String>,
}

// The entry of a configuration that is the server. No doc comment: clap would add it to the help of a verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Named {
    #[command(flatten)]
    pub(crate) configured: Configured,
    /// The server as an entry of a configuration, in place of TARGET: for names with `/`, `#` or spaces
    #[arg(long, value_name = "NAME", conflicts_with = "target")]
    pub(crate) server: Option<String>,
}

// The connection to the server. No doc comment: clap would add it to the help of a verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Reach {
    #[command(flatten)]
    pub(crate) named: Named,
    /// Trusts the authorities in this file beside those of the system. Certificates in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// How long connecting may take, each time. Seconds, or with ms, s, m, h [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) connect_timeout: Option<Duration>,
    /// How long all of it may take: what a person does included. Seconds, or with ms, s, m, h [default: 10m]
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,
}

/// Where a browser comes back to: a port of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Callback {
    /// It is called `localhost`, and not 127.0.0.1.
    pub(crate) by_name: bool,
    /// Without it, any that is free.
    pub(crate) port: Option<u16>,
    pub(crate) path: Option<String>,
}

impl Callback {
    /// The address that a word is; otherwise what is wrong with it.
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        let wrong = || "write http://127.0.0.1:port/path, or http://localhost:port/path".to_owned();
        let rest = word.strip_prefix("http://").ok_or_else(wrong)?;
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, number) = match authority.split_once(':') {
            Some((host, number)) => (host, Some(number)),
            None => (authority, None),
        };
        let by_name = match host {
            "localhost" => true,
            "127.0.0.1" => false,
            _ => return Err(wrong()),
        };
        let is_of_path = |byte: u8| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte);
        if !path.bytes().all(is_of_path) {
            return Err(wrong());
        }
        let port = number.map(port).transpose().map_err(|_| wrong())?;
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { by_name, port, path: Some(path.to_owned()) })
    }
}

/// A scope-token: <https://www.rfc-editor.org/rfc/rfc6749#section-3.3>.
fn scope(word: &str) -> Result<String, String> {
    let is_token = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    if !word.is_empty() && word.bytes().all(is_token) {
        return Ok(word.to_owned());
    }
    Err("a scope has neither blanks nor \" nor \\; give --scope once for each".into())
}

fn port(word: &str) -> Result<u16, String> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    let port = word.parse().ok().filter(|port| digits && *port > 0);
    port.ok_or_else(|| "from 1 to 65535".into())
}

#[cfg(test)]
mod tests {
    use super::{Callback, port, scope};

    #[test]
    fn a_scope_is_one_and_a_port_is_one() {
        for word in ["a", "files:read", "https://x/y"] {
            assert_eq!(scope(word).as_deref(), Ok(word));
        }
        for word in ["", "a b", "a\"", "a\\", "é", "a\n"] {
            assert!(scope(word).is_err(), "{word}");
        }
        for (word, by_name, number, path) in [
            ("http://127.0.0.1:8085/callback", false, Some(8085), "/callback"),
            ("http://localhost/a/b", true, None, "/a/b"),
            ("http://localhost:1", true, Some(1), "/"),
        ] {
            let callback = Callback { by_name, port: number, path: Some(path.into()) };
            assert_eq!(Callback::parse(word), Ok(callback), "{word}");
        }
        for word in
            ["https://localhost/", "http://example.com/", "http://localhost:0/", "http://localhost/?a"]
        {
            assert!(Callback::parse(word).is_err(), "{word}");
        }
        assert_eq!(port("8085"), Ok(8085));
        for word in ["0", "65536", "+1", "", "x"] {
            assert!(port(word).is_err(), "{word}");
        }
    }
}
