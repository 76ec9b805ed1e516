//! Why there is no authorization, in words for a person.
//!
//! No token, no code, no verifier, no secret and no query stands in any of it; what a server has said stands there escaped and cut.

use mcpjoin_proto::session::LinkErrorKind;

use super::discovery::DiscoveryError;
use super::fetch::cut;
use super::ladder::Rung;
use super::registration::RegistrationError;
use super::store::StoreError;
use super::token::TokenError;
use super::user_agent::UserAgentError;

const AUTHORIZATION_SERVER: &str = "the authorization server";

fn unreached(who: &str, what: &str) -> String {
    format!("{who} cannot be reached: {what}")
}

/// An authorization that cannot be had.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// Nobody is logged in, or what is stored is good no longer. The text says why.
    #[error("{0}")]
    LoginNeeded(String),
    /// How the server is authorized at was not found out.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// There is no client identity to ask with.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// Whoever was to be asked has not answered.
    #[error(transparent)]
    UserAgent(#[from] UserAgentError),
    /// The authorization server has said no
    /// ([RFC 6749, 4.1.2.1](https://www.rfc-editor.org/rfc/rfc6749#section-4.1.2.1)).
    #[error("the authorization server refuses: {error}{}", description.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Refused {
        /// Its `error`, `access_denied` for example: escaped and cut.
        error: String,
        /// Its `error_description`: escaped and cut.
        description: Option<String>,
    },
    /// What came back to the redirect URI does not belong to what was asked.
    #[error("{0}")]
    Response(String),
    /// The token endpoint gave no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The server refuses a token that was given just now.
    #[error("the server refuses the token that {issuer} has just given for it")]
    Rejected {
        /// Who has given it.
        issuer: String,
    },
    /// These scopes were asked for, and what came of it is still not enough for the server.
    #[error("the server wants scopes that were not granted: {}", cut(&missing.join(" ")))]
    Scopes {
        /// What the server wants.
        missing: Vec<String>,
    },
    /// No browser is sent to that authorization endpoint.
    #[error("{0}")]
    Endpoint(String),
    /// What is stored cannot be read, or not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The work was given up before its end: the runtime was shut down.
    #[error("the authorization was given up before its end")]
    Abandoned,
}

impl AuthError {
    /// In which way somebody was not to be had who is needed, and who, where and why in words, when that is all that is wrong: the
    /// same may succeed later, and no login helps. `None` when everybody has answered with anything but that they cannot now.
    #[must_use]
    pub fn outage(&self) -> Option<(LinkErrorKind, String)> {
        let (kind, what) = match self {
            Self::Discovery(error) => {
                let who = match error.rung {
                    Rung::Server => "the server",
                    Rung::ResourceMetadata => "the metadata of the server",
                    _ => AUTHORIZATION_SERVER,
                };
                return Some((error.outage?, unreached(who, &error.message)));
            }
            Self::Registration(RegistrationError::Fetch(error))
            | Self::Token(TokenError::Unreached(error)) => (error.kind.of_network()?, error.to_string()),
            Self::Token(error @ TokenError::Unavailable { .. }) => {
                let what = format!("{AUTHORIZATION_SERVER} cannot answer now: {error}");
                return Some((LinkErrorKind::Unreached, what));
            }
            _ => return None,
        };
        Some((kind, unreached(AUTHORIZATION_SERVER, &what)))
    }

    /// Whether a login may mend it.
    #[must_use]
    pub const fn login_helps(&self) -> bool {
        matches!(
            self,
            Self::LoginNeeded(_)
                | Self::Refused { .. }
                | Self::Response(_)
                | Self::UserAgent(_)
                | Self::Rejected { .. }
                | Self::Scopes { .. }
        )
    }
}
