//! The arguments of `mcpjoin auth`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::values::duration;
use super::{Configured, Output};

const LONG: &str = "\
Logs in to HTTP servers that require authorization (OAuth 2.1)

`auth login` finds the authorization server, registers mcpjoin there if necessary, and opens the browser. The tokens \
are stored for the server's URL. From then on every verb sends them to that URL, and to no other, and renews them. No \
other verb opens a browser.

The files are readable only by you. Their folder is MCPJOIN_AUTH_DIR, otherwise $XDG_STATE_HOME/mcpjoin/auth, \
otherwise ~/.local/state/mcpjoin/auth (macOS: ~/Library/Application Support/mcpjoin/auth; Windows: \
%LOCALAPPDATA%\\mcpjoin\\auth). An Authorization header given with -H or in the configuration replaces the stored \
token. --no-auth ignores stored tokens for one run.";

const LOGIN: &str = "\
Logs in to a server and stores the tokens

The server names its authorization server, whose metadata say what it supports (`auth explain` shows each step). \
mcpjoin needs a client id there. It uses, in this order: --client-id or the entry's `oauth`; --client-metadata-url; \
the id of an earlier login, until `auth logout`; a client that it registers itself. Then it opens the browser and \
waits for it on a local port: for five minutes, or for --timeout. Ctrl-C closes the port and stores nothing.

--no-browser prints the address instead of opening it, and waits in two ways: on the local port, and on standard input \
for the address at which the browser ended. This works over SSH: open the printed address on your own machine, log in, \
and paste the address of the page that the browser could not open.

--client-credentials logs in without a person or a browser: with --client-id and a secret, or with a registered key \
(--private-key). Secrets are not accepted on the command line: use @FILE or the variable MCPJOIN_CLIENT_SECRET.

With --json the result is one object with resource, issuer, clientId, scopes, expiresAt, refreshable and storedIn.";

const STATUS: &str = "\
Shows the stored logins: server, authorization server, scopes and expiry

Sends nothing, and shows no token or secret. With TARGET only that server is shown, and the exit code is 3 if no \
usable login is stored. With --json the result is one object with storedIn and logins.";

const LOGOUT: &str = "\
Revokes and deletes the stored login of a server

The tokens are revoked if the authorization server has a revocation endpoint (RFC 7009). They are deleted here even if \
that fails; the failure is shown.";

const EXPLAIN: &str = "\
Goes through the login step by step and shows which step fails

Sends a request without a token, as a client would, and reads the metadata that the response leads to: those of the \
server (RFC 9728) and of its authorization server (RFC 8414, OpenID Connect). Each step shows what was requested, what \
was received, and the rule that applies. No login is started, nothing is registered, and no token is sent. The exit \
code is 0 if a client can log in or does not need to, and 1 if a violation prevents it.";

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
    /// Logs in to a server and stores the tokens
    Login(Box<Login>),
    /// Shows the stored logins and when they expire
    Status(Status),
    /// Revokes and deletes the stored login of a server
    Logout(Logout),
    /// Goes through the login step by step and shows which step fails
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
    /// Requests this scope in addition to those that the server names. Repeatable
    #[arg(long, value_name = "SCOPE", value_parser = scope)]
    pub(crate) scope: Vec<String>,
    /// Waits for the browser at this port of 127.0.0.1 instead of any free one: for clients that are registered with it
    #[arg(long, value_name = "PORT", value_parser = port, conflicts_with = "client_credentials")]
    pub(crate) callback_port: Option<u16>,
    /// Waits for the browser at this address, with which the client is registered: http://127.0.0.1[:port]/path or
    /// http://localhost[:port]/path [default: http://127.0.0.1/callback]
    #[arg(
        long, value_name = "URL", value_parser = Callback::parse,
        conflicts_with_all = ["callback_port", "client_credentials"]
    )]
    pub(crate) callback_url: Option<Callback>,
    /// Prints the address instead of opening a browser, and reads the final address of the browser from standard input
    #[arg(long, conflicts_with = "client_credentials")]
    pub(crate) no_browser: bool,
    /// Logs in without a person: needs --client-id and a secret, or --private-key
    #[arg(long)]
    pub(crate) client_credentials: bool,
    /// Authenticates the client with this key instead of a secret: PKCS#8 in PEM, P-256 (ES256) or RSA (RS256)
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
    /// The server: a URL of http:// or https://, or an entry of a configuration with one. Without it: all stored logins
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
    /// All servers with a stored login
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
    /// The id of a client that is already registered with the authorization server
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// The file with the secret of that client, as @FILE. Without it: the variable MCPJOIN_CLIENT_SECRET
    #[arg(long, value_name = "@FILE", requires = "client_id")]
    pub(crate) client_secret: Option<OsString>,
    /// The authorization server at which the client is registered, exactly as its metadata name it. Nothing is sent to
    /// any other
    #[arg(long, value_name = "URL", requires = "client_id")]
    pub(crate) issuer: Option<String>,
    /// The URL of a document that describes the client (Client ID Metadata Document). It is the client id
    #[arg(long, value_name = "URL", conflicts_with = "client_id")]
    pub(crate) client_metadata_url: Option<String>,
}

// The entry of a configuration that is the server. No doc comment: clap would add it to the help of a verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Named {
    #[command(flatten)]
    pub(crate) configured: Configured,
    /// The server as an entry of a configuration, instead of TARGET: for names with `/`, `#` or spaces
    #[arg(long, value_name = "NAME", conflicts_with = "target")]
    pub(crate) server: Option<String>,
}

// The connection to the server. No doc comment: clap would add it to the help of a verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Reach {
    #[command(flatten)]
    pub(crate) named: Named,
    /// Trusts the authorities in this file in addition to those of the system. Certificates in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The timeout of each connection attempt. Seconds, or with ms, s, m, h [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) connect_timeout: Option<Duration>,
    /// The timeout of the whole login, including the time that the user needs. Seconds, or with ms, s, m, h [default:
    /// 10m]
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
    Err("a scope contains no spaces, \" or \\; repeat --scope for more scopes".into())
}

fn port(word: &str) -> Result<u16, String> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    let port = word.parse().ok().filter(|port| digits && *port > 0);
    port.ok_or_else(|| "write a number from 1 to 65535".into())
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
