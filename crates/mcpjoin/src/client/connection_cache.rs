//! What a client remembers of its server's results, and what it asks all the same.
//!
//! Called by the client where it would ask: what is fresh is given in place of an answer, byte for byte as it came. Here
//! it is decided under which key a result lies, so that nobody is ever given what is not for him.
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-key>

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcpjoin_proto::session::Peer;
use mcpjoin_proto::types::{ClientCapabilities, Meta, meta};
use mcpjoin_proto::{Method, Raw};
use tokio::time::Instant;

use super::cache::{Cache, Key, Owner, is_public};
use crate::link::{CredentialKey, PeerIdentity};

/// Members of `_meta` that follow a request through a system, or say what comes beside the result. The others may affect
/// the result.
const IGNORED_META: [&str; 5] =
    ["traceparent", "tracestate", "baggage", meta::key::PROGRESS_TOKEN, meta::key::LOG_LEVEL];

/// Counts the connections, so that none is taken for another.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// What the connections of a client are to remember, and where.
#[derive(Debug, Default)]
pub(super) struct CacheConfig {
    pub(super) source: CacheSource,
    /// The name of the authorization, where it has one.
    pub(super) partition: Option<Arc<str>>,
}

/// Where results are remembered.
#[derive(Debug, Default)]
pub(super) enum CacheSource {
    /// By each connection for itself.
    #[default]
    Own,
    Shared(Cache),
    Disabled,
}

impl CacheConfig {
    /// The cache of a connection that begins.
    pub(super) fn of_connection(&self) -> Option<Cache> {
        match &self.source {
            CacheSource::Own => Some(Cache::new()),
            CacheSource::Shared(cache) => Some(cache.clone()),
            CacheSource::Disabled => None,
        }
    }
}

/// What one connection remembers.
pub(super) struct ConnectionCache {
    /// `None`: nothing is remembered.
    cache: Option<Cache>,
    /// The server, as far as it can be told from others, and what it knows of this client.
    server: Arc<str>,
    /// Whose private results are given.
    credentials: CredentialKey,
    number: u64,
}

/// A question whose answer may be kept.
pub(super) struct CacheTicket {
    method: Method,
    params: Arc<str>,
    uri: Option<Arc<str>>,
    /// Whose private answer it is; `None`: that cannot be told.
    owner: Option<Owner>,
    changes: u64,
}

/// What is known before a question is asked.
pub(super) enum Lookup {
    /// The answer.
    Hit(Raw),
    /// Nothing. The answer may be kept under this, if under anything.
    Miss(Option<CacheTicket>),
}

impl ConnectionCache {
    /// `cache` for the results of this server, in the name of `partition` where that is said.
    pub(super) fn of(
        cache: Option<Cache>,
        peer: &Peer,
        capabilities: &ClientCapabilities,
        partition: Option<Arc<str>>,
        peer_identity: PeerIdentity,
    ) -> Self {
        // Older revisions have no hints. What is in the cache of others is not for them.
        let cache = cache.filter(|_| peer.profile.result_type);
        let PeerIdentity { address, credentials } = peer_identity;
        let credentials = partition.map_or(credentials, CredentialKey::Known);
        let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let server = cache.as_ref().map(|_| identity(peer, capabilities, address.as_deref()));
        Self { cache, server: server.unwrap_or_default().into(), credentials, number }
    }

    /// Whose private results may be given now.
    fn owner(&self) -> Option<Owner> {
        match &self.credentials {
            CredentialKey::Constant => Some(Owner::Connection(self.number)),
            CredentialKey::Known(key) => Some(Owner::Authorization(Arc::clone(key))),
            CredentialKey::Dynamic(key) => key().map(|key| Owner::Authorization(key.into())),
        }
    }

    fn key(&self, asked: &CacheTicket, owner: Owner) -> Key {
        Key {
            owner,
            server: Arc::clone(&self.server),
            method: asked.method.clone(),
            params: Arc::clone(&asked.params),
            uri: asked.uri.clone(),
        }
    }

    /// The answer to a question of a kind whose answers can be kept, when it is known and fresh. `uncached`: it is asked for in any case, and kept.
    pub(super) fn look_up(&self, method: &Method, params: Option<&Raw>, uncached: bool) -> Lookup {
        let Some(cache) = &self.cache else { return Lookup::Miss(None) };
        let Some((params, uri)) = key_params(params) else { return Lookup::Miss(None) };
        let changes = cache.changes(method);
        let asked = CacheTicket { method: method.clone(), params, uri, owner: self.owner(), changes };
        let owners = asked.owner.iter().cloned().chain([Owner::Public]);
        let known = if uncached { None } else { cache.fresh(owners.map(|owner| self.key(&asked, owner))) };
        known.map_or_else(|| Lookup::Miss(Some(asked)), Lookup::Hit)
    }

    /// Keeps the answer to a question, as far as the server lets it and it is known whose it is. `shared`: nothing
    /// forbids that others are given it, if it says so itself.
    pub(super) fn keep(&self, asked: CacheTicket, result: &Raw, arrived: Option<Instant>, shared: bool) {
        let (Some(cache), Some(arrived)) = (&self.cache, arrived) else { return };
        let private = asked.owner.clone();
        // Another authorization than when it was asked for: whose it is cannot be told.
        if private != self.owner() {
            return;
        }
        let (owner, other) = match (shared && is_public(result), private) {
            (true, private) => (Owner::Public, private),
            (false, Some(private)) => (private, Some(Owner::Public)),
            (false, None) => return cache.forget(&asked.method, &[Owner::Public]),
        };
        let (key, other) = (self.key(&asked, owner), other.map(|other| self.key(&asked, other)));
        cache.keep(key, other, asked.changes, result, arrived);
    }

    /// Nothing of this list is fresh any more: a cursor from it was refused.
    pub(super) fn forget(&self, method: &Method) {
        if let Some(cache) = &self.cache {
            let owners: Vec<_> = self.owner().into_iter().chain([Owner::Public]).collect();
            cache.forget(method, &owners);
        }
    }
}

/// The parameters that affect a result, in one form, and the resource that is read. `None` when the result depends on
/// more than the parameters: the answers to questions, or the state of an earlier round.
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
        let meta: Meta = meta.decode().ok()?;
        for (key, value) in meta.iter().filter(|(key, _)| !IGNORED_META.contains(key)) {
            let _ = write!(text, "\n{key}\n{}", value.as_str());
        }
    }
    let uri = params.member("uri").and_then(|uri| uri.to_string_value().map(|uri| Arc::from(&*uri)));
    Some((text.into(), uri))
}

/// Everything that tells a server from another one, and that its results may depend on beside the question: another
/// version of a program may have other tools, and so may a client that can do less.
fn identity(peer: &Peer, capabilities: &ClientCapabilities, place: Option<&str>) -> String {
    let mut text = place.unwrap_or_default().to_owned();
    let mut part = |part: Option<Raw>| {
        text.push('\n');
        text.push_str(part.as_ref().map_or("", Raw::as_str));
    };
    part(Some(Raw::string(peer.profile.version.as_str())));
    part(peer.info.as_ref().and_then(|info| Raw::from_value(&**info).ok()));
    part(peer.server_capabilities().and_then(|known| Raw::from_value(known).ok()));
    part(Raw::from_value(capabilities).ok());
    text
}
