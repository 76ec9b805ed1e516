//! A cache of results that servers mark as fresh: limited, and shareable between the clients of a server.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>. `connection_cache` decides what
//! is stored and looked up. This module stores entries, expires and evicts them. It sends nothing, stores nothing on
//! disk, and never returns a stale result.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::sync::Mutex;
use mcpjoin_proto::sorted_map::SortedMap;
use mcpjoin_proto::types::resource::is_within;
use mcpjoin_proto::types::{CacheScope, ProtocolType, ResourceUpdatedParams};
use mcpjoin_proto::{Method, Notification, Raw};
use tokio::time::Instant;

/// Default maximum number of results. A server with ten lists of ten pages each needs a tenth of it.
const MAX_ENTRIES: usize = 1024;
/// Default maximum bytes of results and keys (8 MiB): half of what a process may use beyond its other limits (16 MiB).
const MAX_BYTES: usize = 8 << 20;
/// Bytes of an entry in addition to its result and its key. Measured roughly, counted in full.
const ENTRY_OVERHEAD_BYTES: usize = 256;
/// Results are fresh for at most this time, whatever the server says: a mistake of a server is limited to a day.
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// An in-memory cache of results that servers mark as fresh. Cheap to clone; clones share their entries.
///
/// Each client has a cache of its own by default. [`ClientBuilder::cache`](super::ClientBuilder::cache) sets one that
/// is shared with other clients, and [`ClientBuilder::no_cache`](super::ClientBuilder::no_cache) disables it.
///
/// It stores complete results of `tools/list`, `prompts/list`, `resources/list`, `resources/templates/list`,
/// `resources/read` and `server/discover` that have a positive `ttlMs` and come from a server of 2026-07-28. Older
/// revisions have no such hint, so their results are not cached. The time to live counts from the arrival of the
/// result, on a monotonic clock, and is at most a day. Each page of a list is an entry. A stale entry is never
/// returned, not even when the server does not respond, and it is requested again only when it is needed.
///
/// It holds at most 1,024 results and 8 MiB ([`Cache::with_bounds`]); the least recently used ones are evicted.
///
/// ```
/// use mcpjoin::Client;
/// use mcpjoin::client::Cache;
///
/// let cache = Cache::new();
/// let first = Client::builder("my-client", "1.0.0").cache(cache.clone());
/// let second = Client::builder("my-client", "1.0.0").cache(cache);
/// # let _ = (first, second);
/// ```
#[derive(Clone)]
pub struct Cache(Arc<Mutex<Store>>);

/// Who may be given a result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// Every client of the server.
    Public,
    /// Only the connection with this number.
    Connection(u64),
    /// Every client with this authorization.
    Authorization(Arc<str>),
}

/// Which request a result answers, and for whom.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) owner: Owner,
    /// Identifies the server, as far as possible.
    pub(super) server: Arc<str>,
    pub(super) method: Method,
    /// The parameters that affect the result. For a read the URI is in `uri` instead.
    pub(super) params: Arc<str>,
    /// The resource that is read.
    pub(super) uri: Option<Arc<str>>,
}

struct Entry {
    result: Raw,
    arrived: Instant,
    until: Instant,
    /// The number of its last use.
    used: u64,
}

struct Store {
    max_results: usize,
    max_bytes: usize,
    results: HashMap<Arc<Key>, Entry>,
    /// The keys in the order of their last use.
    order: SortedMap<u64, Arc<Key>>,
    /// The number of uses so far.
    uses: u64,
    /// The bytes of all entries.
    bytes: usize,
    /// How often a notification has invalidated the results of a method.
    changes: HashMap<Method, u64>,
    /// How often the cache was cleared.
    cleared: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    /// Creates an empty cache of at most 1,024 results and 8 MiB.
    #[must_use]
    pub fn new() -> Self {
        Self::with_bounds(MAX_ENTRIES, MAX_BYTES)
    }

    /// Creates an empty cache of at most `results` results and `bytes` bytes. If either is 0, nothing is cached.
    ///
    /// An entry counts its result, its key and 256 bytes. A result that is larger than the whole cache is not cached.
    #[must_use]
    pub fn with_bounds(results: usize, bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(Store {
            max_results: results,
            max_bytes: bytes,
            results: HashMap::new(),
            order: SortedMap::new(),
            uses: 0,
            bytes: 0,
            changes: HashMap::new(),
            cleared: 0,
        })))
    }

    /// Removes all entries. Results of requests in flight are not cached either.
    pub fn clear(&self) {
        let mut store = self.0.lock();
        store.cleared += 1;
        store.results.clear();
        store.order = SortedMap::new();
        store.bytes = 0;
    }

    /// Returns the number of results, including stale ones that were not requested since.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.lock().results.len()
    }

    /// Returns whether the cache is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of all entries: their results, their keys and 256 bytes each.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.lock().bytes
    }

    /// Returns the first of these that is fresh.
    pub(super) fn fresh(&self, keys: impl IntoIterator<Item = Key>) -> Option<Raw> {
        let mut store = self.0.lock();
        keys.into_iter().find_map(|key| store.fresh(&key))
    }

    /// Returns how often the results of this method were invalidated.
    pub(super) fn changes(&self, method: &Method) -> u64 {
        self.0.lock().changes_of(method)
    }

    /// Stores a result if nothing was invalidated since it was requested, when there were `changes` changes. Removes
    /// the older entries of the same request in any case.
    pub(super) fn keep(
        &self,
        key: Key,
        others: impl IntoIterator<Item = Key>,
        changes: u64,
        result: &Raw,
        arrived: Instant,
    ) {
        let mut store = self.0.lock();
        let newer = |store: &Store| store.results.get(&key).is_some_and(|known| known.arrived > arrived);
        if store.changes_of(&key.method) != changes || newer(&store) {
            return;
        }
        for other in others {
            store.forget(&other);
        }
        store.forget(&key);
        let until = arrived + ttl(result);
        if until > Instant::now() {
            store.insert(key, result, arrived, until);
        }
    }

    /// Removes the results of this method that these owners would be given.
    pub(super) fn forget(&self, method: &Method, owners: &[Owner]) {
        self.0.lock().retain(|key| key.method != *method || !owners.contains(&key.owner));
    }

    /// Removes what a notification invalidates. Called before anyone else sees the notification.
    pub(super) fn invalidate(&self, notification: &Notification) {
        match notification.method {
            Method::ToolListChanged => self.0.lock().invalidate(&[Method::ListTools]),
            Method::PromptListChanged => self.0.lock().invalidate(&[Method::ListPrompts]),
            Method::ResourceListChanged => {
                self.0.lock().invalidate(&[Method::ListResources, Method::ListResourceTemplates]);
            }
            Method::ResourceUpdated => {
                let params = notification.params.as_ref();
                let updated = params.and_then(|params| ResourceUpdatedParams::read(params.raw()).ok());
                self.0.lock().resource_updated(updated.as_ref().map(|updated| updated.uri.as_str()));
            }
            _ => {}
        }
    }
}

impl Store {
    fn changes_of(&self, method: &Method) -> u64 {
        self.changes.get(method).copied().unwrap_or_default() + self.cleared
    }

    fn fresh(&mut self, key: &Key) -> Option<Raw> {
        let known = self.results.get(key)?;
        if known.until <= Instant::now() {
            self.forget(key);
            return None;
        }
        let (key, _) = self.results.get_key_value(key)?;
        let key = Arc::clone(key);
        self.uses += 1;
        let known = self.results.get_mut(&key)?;
        self.order.remove(&known.used);
        known.used = self.uses;
        self.order.insert(self.uses, key);
        Some(known.result.clone())
    }

    fn insert(&mut self, key: Key, result: &Raw, arrived: Instant, until: Instant) {
        let size = size(&key, result.len());
        if size > self.max_bytes || self.max_results == 0 {
            return;
        }
        // A large result is a slice of a larger message, and would keep all of it in memory.
        let Ok(result) = Raw::parse(result.as_bytes().to_vec()) else { return };
        let key = Arc::new(key);
        self.uses += 1;
        self.bytes += size;
        self.order.insert(self.uses, Arc::clone(&key));
        self.results.insert(key, Entry { result, arrived, until, used: self.uses });
        while self.bytes > self.max_bytes || self.results.len() > self.max_results {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, key: &Key) {
        if let Some(known) = self.results.remove(key) {
            self.order.remove(&known.used);
            self.bytes = self.bytes.saturating_sub(size(key, known.result.len()));
        }
    }

    fn retain(&mut self, keep: impl Fn(&Key) -> bool) {
        let gone: Vec<_> = self.results.keys().filter(|key| !keep(key)).cloned().collect();
        for key in gone {
            self.forget(&key);
        }
    }

    fn invalidate(&mut self, methods: &[Method]) {
        for method in methods {
            *self.changes.entry(method.clone()).or_default() += 1;
        }
        self.retain(|key| !methods.contains(&key.method));
    }

    /// Which requests in flight contain it is not known, so none of their results is cached.
    fn resource_updated(&mut self, uri: Option<&str>) {
        *self.changes.entry(Method::ReadResource).or_default() += 1;
        self.retain(|key| match (&key.uri, uri) {
            (Some(read), Some(updated)) => !is_within(updated, read),
            (Some(_), None) => false,
            (None, _) => true,
        });
    }
}

fn size(key: &Key, result: usize) -> usize {
    ENTRY_OVERHEAD_BYTES + key.params.len() + key.uri.as_ref().map_or(0, |uri| uri.len()) + result
}

/// Returns how long a result is fresh. Zero if `ttlMs` is absent, negative or not an integer.
pub(super) fn ttl(result: &Raw) -> Duration {
    let Some(hint) = result.member("ttlMs") else { return Duration::ZERO };
    match hint.decode::<i64>() {
        Ok(millis) => u64::try_from(millis).map_or(Duration::ZERO, Duration::from_millis).min(MAX_TTL),
        Err(_) => Duration::ZERO,
    }
}

/// Returns whether every client may be given the result. Private by default.
pub(super) fn is_public(result: &Raw) -> bool {
    let scope = result.member("cacheScope").and_then(|scope| scope.decode::<CacheScope>().ok());
    matches!(scope, Some(CacheScope::Public))
}

impl fmt::Debug for Cache {
    /// Shows no results: they may be private.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let store = self.0.lock();
        f.debug_struct("Cache").field("results", &store.results.len()).field("bytes", &store.bytes).finish()
    }
}
