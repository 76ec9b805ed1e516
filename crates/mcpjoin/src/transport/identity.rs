//! Identifies the server of a transport, and the credentials in use, so that a client's cache never serves one
//! identity what it stored for another.
//!
//! A transport states it when a client begins to use it; [`Client`](crate::Client) reads it.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-scope-field>

use std::fmt;
use std::sync::Arc;

/// What is known of the server of a transport before the first message.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct PeerIdentity {
    /// The server's address, where it has one that no other server has: the URL of an HTTP endpoint.
    pub address: Option<String>,
    /// The credentials of the requests.
    pub credentials: CredentialKey,
}

/// Distinguishes the credentials of one client from those of another. It is compared, and stored as the key of cache entries,
/// so it holds no secret.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum CredentialKey {
    /// Unknown, and constant for the life of the transport: those of a child process are in its environment. Each connection
    /// has a cache of its own.
    #[default]
    Constant,
    /// Connections with the same key use the same credentials.
    Known(Arc<str>),
    /// They may change: the function returns the key in force, or `None` while there is none.
    Dynamic(Arc<dyn Fn() -> Option<String> + Send + Sync>),
}

impl PeerIdentity {
    /// The identity of the server at `address`, reached with these credentials.
    #[must_use]
    pub const fn new(address: Option<String>, credentials: CredentialKey) -> Self {
        Self { address, credentials }
    }
}

impl fmt::Debug for CredentialKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Constant => "Constant",
            Self::Known(_) => "Known",
            Self::Dynamic(_) => "Dynamic",
        })
    }
}
