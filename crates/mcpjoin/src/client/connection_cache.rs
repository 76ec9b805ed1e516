//! The cache as one connection uses it: which results are cached, under which keys.
//!
//! The client looks here before it sends a request. A cached result is returned byte for byte as it was received. The
//! key says who may be given it, so no client ever gets a result that is private to another one.
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-key>

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcpjoin_proto::session::Peer;
use mcpjoin_proto::types::{ClientCapabilities, Meta, ProtocolType, meta};
use mcpjoin_proto::{Method, Raw};
use tokio::time::Instant;

use super::cache::{Cache, Key, Owner, is_public};
use crate::transport::{CredentialKey, PeerIdentity};

/// Members of `_meta` that do not affect the result: trace context, progress tokens, log levels. All others may.
const IGNORED_META: [&str; 5] =
    ["traceparent", "tracestate", "baggage", meta::key::PROGRESS_TOKEN, meta::key::LOG_LEVEL];

/// The number of the next connection. Tells the connections apart.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// Where the connections of a client cache their results.
#[derive(Debug, Default)]
pub(super) struct CacheConfig {
    pub(super) source: CacheSource,
    /// The name of the authorization, if the user gave one.
    pub(super) partition: Option<Arc<str>>,
}

/// Which cache is used.
#[derive(Debug, Default)]
pub(super) enum CacheSource {
    /// Each connection has its own.
    #[default]
    Own,
    Shared(Cache),
    Disabled,
}

impl CacheConfig {
    /// Returns the cache of a new connection.
    pub(super) fn of_connection(&self) -> Option<Cache> {
        match &self.source {
            CacheSource::Own => Some(Cache::new()),
            CacheSource::Shared(cache) => Some(cache.clone()),
            CacheSource::Disabled => None,
        }
    }
}

/// The cache of one connection.
pub(super) struct ConnectionCache {
    /// `None`: nothing is cached.
    cache: Option<Cache>,
    /// Identifies the server, and what it knows of this client.
    server: Arc<str>,
    /// Whose private results may be returned.
    credentials: CredentialKey,
    number: u64,
}

/// Permission to store the result of a request that is about to be sent.
pub(super) struct CacheTicket {
    method: Method,
    params: Arc<str>,
    uri: Option<Arc<str>>,
    /// Whose private result it is; `None` if that is not known.
    owner: Option<Owner>,
    changes: u64,
}

/// The outcome of a lookup.
pub(super) enum Lookup {
    /// A fresh result.
    Hit(Raw),
    /// No result. The response may be stored with this ticket, if there is one.
    Miss(Option<CacheTicket>),
}

impl ConnectionCache {
    /// Creates the cache of a connection to this server. `partition` overrides what the transport says of its
    /// authorization.
    pub(super) fn of(
        cache: Option<Cache>,
        peer: &Peer,
        capabilities: &ClientCapabilities,
        partition: Option<Arc<str>>,
        peer_identity: PeerIdentity,
    ) -> Self {
        // Older revisions have no hints, and must not be given what newer ones have cached.
        let cache = cache.filter(|_| peer.profile.result_type);
        let PeerIdentity { address, credentials } = peer_identity;
        let credentials = partition.map_or(credentials, CredentialKey::Known);
        let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let server = cache.as_ref().map(|_| identity(peer, capabilities, address.as_deref()));
        Self { cache, server: server.unwrap_or_default().into(), credentials, number }
    }

    /// Returns whose private results may be returned now.
    fn owner(&self) -> Option<Owner> {
        match &self.credentials {
            CredentialKey::Constant => Some(Owner::Connection(self.number)),
            CredentialKey::Known(key) => Some(Owner::Authorization(Arc::clone(key))),
            CredentialKey::Dynamic(key) => key().map(|key| Owner::Authorization(key.into())),
        }
    }

    fn key(&self, ticket: &CacheTicket, owner: Owner) -> Key {
        Key {
            owner,
            server: Arc::clone(&self.server),
            method: ticket.method.clone(),
            params: Arc::clone(&ticket.params),
            uri: ticket.uri.clone(),
        }
    }

    /// Returns a fresh result. `uncached`: the request is sent in any case, and its result is stored.
    pub(super) fn look_up(&self, method: &Method, params: Option<&Raw>, uncached: bool) -> Lookup {
        let Some(cache) = &self.cache else { return Lookup::Miss(None) };
        let Some((params, uri)) = key_params(params) else { return Lookup::Miss(None) };
        let changes = cache.changes(method);
        let ticket = CacheTicket { method: method.clone(), params, uri, owner: self.owner(), changes };
        let owners = ticket.owner.iter().cloned().chain([Owner::Public]);
        let known = if uncached { None } else { cache.fresh(owners.map(|owner| self.key(&ticket, owner))) };
        known.map_or_else(|| Lookup::Miss(Some(ticket)), Lookup::Hit)
    }

    /// Stores a result, if the server allows it and if it is known whose it is. `shared`: it may be given to others if
    /// it says so itself.
    pub(super) fn keep(&self, ticket: CacheTicket, result: &Raw, arrived: Option<Instant>, shared: bool) {
        let (Some(cache), Some(arrived)) = (&self.cache, arrived) else { return };
        let private = ticket.owner.clone();
        // The authorization has changed since the request was sent, so it is not known whose result this is.
        if private != self.owner() {
            return;
        }
        let (owner, other) = match (shared && is_public(result), private) {
            (true, private) => (Owner::Public, private),
            (false, Some(private)) => (private, Some(Owner::Public)),
            (false, None) => return cache.forget(&ticket.method, &[Owner::Public]),
        };
        let (key, other) = (self.key(&ticket, owner), other.map(|other| self.key(&ticket, other)));
        cache.keep(key, other, ticket.changes, result, arrived);
    }

    /// Removes the pages of a list, because the server has refused a cursor of it.
    pub(super) fn forget(&self, method: &Method) {
        if let Some(cache) = &self.cache {
            let owners: Vec<_> = self.owner().into_iter().chain([Owner::Public]).collect();
            cache.forget(method, &owners);
        }
    }
}

/// Returns the parameters that affect a result, in one form, and the URI of the resource that is read. `None` if the
/// result depends on more than the parameters: on answers, or on the state of an earlier round.
fn key_params(params: Option<&Raw>) -> Option<(Arc<str>, Option<Arc<str>>)> {
    let Some(params) = params else { return Some(("".into(), None)) };
    if ["inputResponses", "requestState"].iter().any(|round| params.member(round).is_some()) {
        return None;
    }
    let mut text = String::new();
    if let Some(cursor) = params.member("cursor") {
        text.push_str(cursor.as_str());
    }
    if let Some(meta) = params.member("_meta") {
        let meta = Meta::read(&meta).ok()?;
        for (key, value) in meta.iter().filter(|(key, _)| !IGNORED_META.contains(key)) {
            let _ = write!(text, "\n{key}\n{}", value.as_str());
        }
    }
    let uri = params.member("uri").and_then(|uri| uri.to_string_value().map(|uri| Arc::from(&*uri)));
    Some((text.into(), uri))
}

/// Identifies a server and everything else that its results may depend on: another version of a program may have other
/// tools, and so may a server for a client with fewer capabilities.
fn identity(peer: &Peer, capabilities: &ClientCapabilities, place: Option<&str>) -> String {
    let mut text = place.unwrap_or_default().to_owned();
    let mut part = |part: Option<Raw>| {
        text.push('\n');
        text.push_str(part.as_ref().map_or("", Raw::as_str));
    };
    part(Some(Raw::string(peer.profile.version.as_str())));
    part(peer.info.as_ref().and_then(|info| info.to_raw().ok()));
    part(peer.server_capabilities().and_then(|known| known.to_raw().ok()));
    part(capabilities.to_raw().ok());
    text
}
