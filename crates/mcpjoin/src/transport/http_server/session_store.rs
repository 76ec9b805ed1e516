//! The session store: what another process needs to go on with a legacy session.
//!
//! Without a store a session belongs to the process that has opened it. With one, `reopening` opens a session of the store in any
//! process at which a request for it arrives. This module knows no store: the crate `mcpjoin-gateway` has one that keeps nothing,
//! because the id contains everything.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use mcpjoin_proto::Raw;
use serde::{Deserialize, Serialize};

/// Bytes of the id of a stored session: 4 KiB. Proxies and servers accept heads of 8 KiB at least.
pub(super) const MAX_ID_BYTES: usize = 4 * 1024;

/// What another process needs to go on with a legacy session.
///
/// Stores write it in a form of their own, for example as JSON by `serde`. `Debug` shows nothing of it but its sizes.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionRecord {
    /// The parameters of the client's `initialize`.
    pub initialize: Raw,
    /// The principal that has opened the session. For any other one it does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Box<str>>,
    /// What serves the session needs to go on with it: of a gateway the sessions with its targets. `None`: only the process that
    /// has opened the session can serve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Raw>,
}

impl SessionRecord {
    /// A record with these parameters of `initialize`.
    #[must_use]
    pub const fn new(initialize: Raw) -> Self {
        Self { initialize, principal: None, state: None }
    }
}

impl fmt::Debug for SessionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionRecord")
            .field("initialize", &self.initialize.len())
            .field("state", &self.state.as_ref().map(Raw::len))
            .finish_non_exhaustive()
    }
}

/// Why a store gives no answer. The client gets 503, and may try again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session store is not available: {0}")]
pub struct SessionStoreError(pub Box<str>);

/// The answer of a store.
pub type Stored<'a, T> = Pin<Box<dyn Future<Output = Result<T, SessionStoreError>> + Send + 'a>>;

/// Stores legacy sessions, so that several processes can serve each of them:
/// [`HttpOptions::session_store`](super::HttpOptions::session_store).
///
/// The level of log messages and the subscriptions of a client are not part of the record: they are what the client has set at
/// a target of a gateway, which remembers them in its own session. A [`Server`](crate::Server) of this library forgets them when
/// another process goes on.
///
/// All methods are called with ids of clients: anything may be in them. Dropping a future must be harmless.
pub trait SessionStore: Send + Sync + 'static {
    /// Stores a session that was just opened. Returns its `Mcp-Session-Id`: visible ASCII, at most 4 KiB, not to be guessed and
    /// never used before. `None`: this session is not stored, so it gets an ordinary id, and only this process can serve it.
    fn create<'a>(&'a self, record: &'a SessionRecord) -> Stored<'a, Option<String>>;

    /// Returns the record of a session. `None`: there is none for this principal, because the id is unknown, belongs to another
    /// principal, has expired or was ended. The client gets 404.
    fn open<'a>(&'a self, id: &'a str, principal: Option<&'a str>) -> Stored<'a, Option<SessionRecord>>;

    /// The session was used in this process since the last call, or is in use. Called about ten times within the time after
    /// which an idle session ends. Must not block. By default it does nothing.
    fn touch(&self, id: &str) {
        let _ = id;
    }

    /// Forgets a session that its client has ended.
    fn end<'a>(&'a self, id: &'a str) -> Stored<'a, ()>;
}
