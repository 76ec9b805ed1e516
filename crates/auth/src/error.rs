//! The errors of authorization, with messages for people.
//!
//! No message contains a token, code, verifier, secret or query. Texts of a server are escaped and shortened.

use mcpjoin_proto::session::TransportErrorKind;

use super::discovery::DiscoveryError;
use super::fetch::cut;
use super::registration::RegistrationError;
use super::steps::StepSubject;
use super::store::StoreError;
use super::token::TokenError;
use super::user_agent::UserAgentError;

const AUTHORIZATION_SERVER: &str = "the authorization server";

fn unreached(who: &str, what: &str) -> String {
    format!("{who} cannot be reached: {what}")
}

/// Authorization has failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// No login is stored, or it is no longer valid. The text says why.
    #[error("{0}")]
    LoginNeeded(String),
    /// Discovery has found no usable authorization server.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// There is no client identity to use.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// The user agent has returned no response.
    #[error(transparent)]
    UserAgent(#[from] UserAgentError),
    /// The authorization server has refused
    /// ([RFC 6749, 4.1.2.1](https://www.rfc-editor.org/rfc/rfc6749#section-4.1.2.1)).
    #[error("the authorization server rejected the request: {error}{}", description.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Refused {
        /// Its `error`, `access_denied` for example: escaped and shortened.
        error: String,
        /// Its `error_description`: escaped and shortened.
        description: Option<String>,
    },
    /// The response at the redirect URI does not belong to the request.
    #[error("{0}")]
    Response(String),
    /// The token endpoint has issued no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The server refuses a token that was issued just now.
    #[error("the server rejects the token that {issuer} has just issued for it")]
    Rejected {
        /// The issuer of the token.
        issuer: String,
    },
    /// These scopes were requested, and the token still lacks scopes that the server requires.
    #[error("the server requires scopes that were not granted: {}", cut(&missing.join(" ")))]
    Scopes {
        /// The scopes that the server requires.
        missing: Vec<String>,
    },
    /// The authorization endpoint is not safe to open in a browser.
    #[error("{0}")]
    Endpoint(String),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operation was aborted: the runtime was shut down.
    #[error("the authorization was cancelled")]
    Abandoned,
}

impl AuthError {
    /// The kind of outage, when a needed server was unreachable or temporarily unavailable and nothing else is wrong: a retry may
    /// succeed, and a login does not help. `None` for every other error.
    #[must_use]
    pub fn outage(&self) -> Option<(TransportErrorKind, String)> {
        let (kind, what) = match self {
            Self::Discovery(error) => {
                let who = match error.subject {
                    StepSubject::Server => "the server",
                    StepSubject::ResourceMetadata => "the metadata of the server",
                    _ => AUTHORIZATION_SERVER,
                };
                return Some((error.outage?, unreached(who, &error.message)));
            }
            Self::Registration(RegistrationError::Fetch(error))
            | Self::Token(TokenError::Unreached(error)) => (error.kind.of_network()?, error.to_string()),
            Self::Token(error @ TokenError::Unavailable { .. }) => {
                let what = format!("{AUTHORIZATION_SERVER} is unavailable: {error}");
                return Some((TransportErrorKind::Unreachable, what));
            }
            _ => return None,
        };
        Some((kind, unreached(AUTHORIZATION_SERVER, &what)))
    }
}
