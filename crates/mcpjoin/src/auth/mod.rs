//! Authorization over HTTP: OAuth 2.1 as MCP profiles it.
//!
//! The client's side hangs behind one seam, [`Credentials`](crate::link::Credentials), and the server's behind
//! [`HttpOptions`](crate::link::HttpOptions): no link and no session knows of it. Nothing here prints, and no secret
//! stands in an error or in what `Debug` shows.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

mod account;
mod address;
mod authorize;
mod browser;
mod callback;
mod discovery;
mod dpop;
mod error;
mod explain;
pub(crate) mod fetch;
mod file_store;
mod flight;
mod form;
mod grants;
mod jws;
mod kept;
mod ladder;
mod login;
mod metadata;
mod oauth;
mod pkce;
#[cfg(test)]
mod played;
mod refresh;
mod refused;
mod registration;
pub mod resource;
mod rules;
mod secret;
mod store;
mod token;
mod user_agent;

pub use browser::{LocalBrowser, LoopbackHost};
pub use discovery::{Discovered, DiscoveryError};
pub use error::AuthError;
pub use explain::{ExplainOptions, OnStep, explain};
pub use fetch::{Exchange, FetchError, FetchErrorKind};
pub use file_store::{FileStore, KeptServers};
pub use grants::{Assertion, Grant, IdentityKind, IdentityProvider, PrivateKey, PrivateKeyError};
pub use ladder::{Ladder, Rule, Rung, Step, Tried, Verdict};
pub use metadata::{AuthorizationServer, MetadataError, ProtectedResource};
pub use oauth::{Login, Logout, OAuth, OAuthBuilder, OAuthSetupError};
pub use registration::{ClientIdentity, RegistrationError, Way};
pub use secret::Secret;
pub use store::{MemoryStore, StoreError, StoreLock, TokenStore};
pub use token::TokenError;
pub use user_agent::{Authorizing, UserAgent, UserAgentError, Visit};
