//! Who lets clients in over HTTP: the options of the verbs that serve there.

use std::path::PathBuf;

use clap::Args;

// No doc comment: clap would have a verb say it of itself.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Authorization {
    /// Over HTTP, lets in only who shows an access token (a JSON Web Token) that this authorization server has given out for
    /// us: its issuer, to the letter, from which its keys are fetched. Clients are told where to get one (OAuth 2.1, RFC
    /// 9728). No token goes any further
    #[arg(long, value_name = "URL", requires = "listen", help_heading = "Authorization")]
    pub(crate) auth_issuer: Option<String>,
    /// The URL by which clients know this server: what a token has to be given out for, and a host for which requests are
    /// answered [default: where it listens]
    #[arg(long, value_name = "URL", requires = "auth_issuer", help_heading = "Authorization")]
    pub(crate) auth_resource: Option<String>,
    /// A scope that every request needs. May be given more than once
    #[arg(long, value_name = "SCOPE", requires = "auth_issuer", help_heading = "Authorization")]
    pub(crate) auth_scope: Vec<String>,
    /// Trusts the authorities in this file, too, when the keys of the authorization server are fetched. Certificates in PEM
    #[arg(long, value_name = "FILE", requires = "auth_issuer", help_heading = "Authorization")]
    pub(crate) auth_ca: Option<PathBuf>,
}
