//! Authorization of the Model Context Protocol over HTTP: OAuth 2.1 on both sides.
//!
//! Added by programs that log in to servers, or that admit only clients with a token. It implements two seams of
//! `mcpjoin`: a client gives an [`OAuth`] to [`HttpConnect::credentials`](mcpjoin::transport::HttpConnect::credentials), a server
//! gives a [`ResourceServer`](resource::ResourceServer) to [`HttpOptions::admission`](mcpjoin::transport::HttpOptions::admission).
//! Transports and sessions know nothing about tokens.
//!
//! Nothing here prints. No error text and no `Debug` output contains a secret.
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
mod fetch;
mod file_store;
mod form;
mod grants;
mod jws;
mod login;
mod metadata;
mod oauth;
mod per_principal;
mod pkce;
mod refresh;
mod refused;
mod registration;
pub mod resource;
mod rules;
#[cfg(test)]
mod scripted_server;
mod secret;
mod single_flight;
mod steps;
mod store;
mod stored_login;
mod subject_tokens;
mod token;
mod token_exchange;
mod user_agent;

pub use browser::{LocalBrowser, LoopbackHost};
pub use discovery::{Discovered, DiscoveryError};
pub use error::AuthError;
pub use explain::{ExplainOptions, OnStep, explain};
pub use fetch::{Exchange, FetchError, FetchErrorKind};
pub use file_store::{FileStore, KeptServers};
pub use grants::{Assertion, Grant, IdentityKind, IdentityProvider, PrivateKey, PrivateKeyError};
pub use metadata::{AuthorizationServer, MetadataError, ProtectedResource};
pub use oauth::{Login, Logout, OAuth, OAuthBuilder, OAuthSetupError};
pub use registration::{ClientIdentity, RegistrationError, Way};
pub use secret::Secret;
pub use steps::{DiscoveryReport, Rule, ServerAnswer, Step, StepResult, StepSubject, Tried};
pub use store::{MemoryStore, StoreError, StoreLock, TokenStore};
pub use subject_tokens::SubjectTokens;
pub use token::TokenError;
pub use token_exchange::{PrincipalCredentials, TokenExchange, TokenExchangeBuilder};
pub use user_agent::{Authorizing, UserAgent, UserAgentError, Visit};

#[doc(hidden)]
pub mod internal {
    //! What `mcpjoin-diagnostics` and the binary use of this crate: outside the promise of compatibility.
    pub use crate::browser::WebPage;
    pub use crate::fetch::{FetchOptions, Fetcher};
}
