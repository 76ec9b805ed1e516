//! How a bridge authorizes itself at a target: a part of the file of a policy.
//!
//! The gateway checks and reports it ([`Policy::credentials`](super::Policy::credentials)), and does not act on it: the code that
//! makes the links to the target does. It holds no secret, only where each one is.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::file::Problem;

/// How the bridge authorizes itself at a target over HTTP: one of these.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
#[non_exhaustive]
pub enum TargetCredentials {
    /// A file with a token, which is sent for all clients. Read again when it changes.
    TokenFile(PathBuf),
    /// The bridge's own client at an authorization server: one token for all clients, obtained again when it has expired.
    ClientCredentials(ClientCredentials),
    /// The token of each client is exchanged for one of the same user at the target (RFC 8693). Needs `--auth-issuer`.
    TokenExchange(TokenExchangeSettings),
}

/// The grant for a client of its own (RFC 6749, 4.4).
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ClientCredentials {
    /// The authorization server, exactly as its metadata name it. The secret is sent to no other.
    pub issuer: String,
    /// The client of the bridge there.
    pub client: ClientAtIssuer,
    /// The scopes to request, beside those that the target names.
    #[serde(default)]
    pub scopes: Vec<String>,
}

/// The exchange of a token. One of `issuer` and `token_endpoint` is needed.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TokenExchangeSettings {
    /// The authorization server, exactly as its metadata name it. Its metadata name the token endpoint.
    pub issuer: Option<String>,
    /// The URL of the token endpoint, if the authorization server has no metadata.
    pub token_endpoint: Option<String>,
    /// The client of the bridge there.
    pub client: ClientAtIssuer,
    /// The name of the target at the authorization server.
    pub audience: Option<String>,
    /// The URL of the target at the authorization server. Default: the URL of the target, if there is no `audience`.
    pub resource: Option<String>,
    /// The scopes to request. Default: the authorization server chooses.
    #[serde(default)]
    pub scopes: Vec<String>,
}

/// A client at an authorization server. One of the other members than `id` is needed.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ClientAtIssuer {
    /// The id of the client.
    pub id: String,
    /// A file with its secret.
    pub secret_file: Option<PathBuf>,
    /// The environment variable with its secret.
    pub secret_env: Option<String>,
    /// A file with its private key, in PEM (`private_key_jwt`).
    pub private_key_file: Option<PathBuf>,
}

impl TargetCredentials {
    /// Checks them, and makes their paths relative to `folder`. `keys`: their place in the file.
    pub(super) fn resolved(mut self, keys: &[&str], folder: &Path) -> Result<Self, Problem> {
        match &mut self {
            Self::TokenFile(path) => *path = folder.join(&path),
            Self::ClientCredentials(own) => {
                own.client.resolve(&[keys, &["client_credentials", "client"]].concat(), folder)?;
            }
            Self::TokenExchange(exchange) => {
                let keys = [keys, &["token_exchange"]].concat();
                if exchange.issuer.is_some() == exchange.token_endpoint.is_some() {
                    let cause = "an exchange needs either `issuer` or `token_endpoint`";
                    return Err(Problem::new(&keys, cause));
                }
                exchange.client.resolve(&[&keys[..], &["client"]].concat(), folder)?;
            }
        }
        Ok(self)
    }
}

impl ClientAtIssuer {
    fn resolve(&mut self, keys: &[&str], folder: &Path) -> Result<(), Problem> {
        let given = [self.secret_file.is_some(), self.secret_env.is_some(), self.private_key_file.is_some()];
        if given.iter().filter(|given| **given).count() != 1 {
            let cause = "a client needs one of `secret_file`, `secret_env` and `private_key_file`";
            return Err(Problem::new(keys, cause));
        }
        for path in [&mut self.secret_file, &mut self.private_key_file].into_iter().flatten() {
            *path = folder.join(&path);
        }
        Ok(())
    }
}
