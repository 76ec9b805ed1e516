//! Arguments that several verbs share: operands, output, and the authorization of clients.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::failure::Failure;

// The words that are no options. No doc comment: clap would add it to the help of a verb.
#[derive(Clone, Debug, Args)]
pub(crate) struct Words {
    /// The server (`mcpjoin help targets`), then the operands of the usage. Without the server if its COMMAND follows `--`
    #[arg(value_name = "OPERAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// The server's command
    #[arg(last = true, value_name = "COMMAND", help_heading = "Arguments")]
    pub(crate) command: Vec<OsString>,
}

impl Words {
    /// The operands of a verb in a session, which has its server already.
    pub(crate) fn of_session(self, verb: &str) -> Result<Vec<OsString>, Failure> {
        match self.command.first() {
            None => Ok(self.words),
            Some(_) => {
                Err(Failure::usage("the session has its server already", format!("{verb} without --")))
            }
        }
    }
}

// The output of results and diagnostics. No doc comment: clap would add it to the help of a verb.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Prints the result as one JSON document, and a failure as one JSON object on standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Shows the server's standard error and log messages, and retries; twice: also protocol violations that mcpjoin
    /// detects
    #[arg(short, long, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Shows only results, warnings and failures
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// When to use colours; `auto` depends on the terminal, NO_COLOR and TERM
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum When {
    Auto,
    Always,
    Never,
}

// No doc comment: clap would add it to the help of a verb.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Authorization {
    /// Over HTTP, requires an access token (a JSON Web Token) of this authorization server, named exactly by its issuer.
    /// The keys are fetched from it. Clients learn where to get a token (OAuth 2.1, RFC 9728). Tokens are not
    /// forwarded
    #[arg(long, value_name = "URL", requires = "listen", help_heading = "Authorization")]
    pub(crate) auth_issuer: Option<String>,
    /// The URL by which clients know this server. Tokens must be issued for it, and requests for its host are answered
    /// [default: the URL of its address]
    #[arg(long, value_name = "URL", requires = "auth_issuer", help_heading = "Authorization")]
    pub(crate) auth_resource: Option<String>,
    /// A scope that every request needs. Repeatable
    #[arg(long, value_name = "SCOPE", requires = "auth_issuer", help_heading = "Authorization")]
    pub(crate) auth_scope: Vec<String>,
    /// Also trusts the authorities in this file when it fetches the keys of the authorization server. Certificates in
    /// PEM
    #[arg(long, value_name = "FILE", requires = "auth_issuer", help_heading = "Authorization")]
    pub(crate) auth_ca: Option<PathBuf>,
}
