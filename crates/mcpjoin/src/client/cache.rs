//! The memory for results that a server calls fresh: bounded, and shareable between the clients of a server.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>. `remembered` decides what is
//! put in and looked up; here is only where it lies, how long, and what goes first when there is no room. Nothing is ever
//! asked from here, nothing is kept on disk, and what is stale is never given.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcpjoin_proto::types::resource::is_within;
use mcpjoin_proto::types::{CacheScope, ResourceUpdatedParams};
use mcpjoin_proto::{Method, Notification, Raw};
use tokio::time::Instant;

/// So many results are kept. A server with ten lists of ten pages each needs a tenth of it.
const MAX_ENTRIES: usize = 1024;
/// So many bytes of results and their keys are kept: half of what a process may take beyond its other limits (16 MiB).
const MAX_BYTES: usize = 8 << 20;
/// What an entry takes beside its result and its key, in bytes: measured roughly, counted fully.
const ENTRY_OVERHEAD_BYTES: usize = 256;
/// No result is fresh for longer, whatever the server says: a mistake of a server does not bind a client for ever.
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Results that their server calls fresh, in memory. Cheap to clone; the clones are one cache.
///
/// Every client has one of its own unless [`ClientBuilder::cache`](super::ClientBuilder::cache) gives it one that it
/// shares with others, or [`ClientBuilder::no_cache`](super::ClientBuilder::no_cache) none. It holds complete results of
/// `tools/list`, `prompts/list`, `resources/list`, `resources/templates/list`, `resources/read` and `server/discover`
/// that came with a positive `ttlMs` from a server of 2026-07-28; those of older revisions have no such hint, and nothing
/// of them is kept. The clock is monotonic and counts from the arrival of the result; a `ttlMs` of more than a day counts
/// as a day. Each page of a list is a result of its own. What is stale is asked for again when it is needed, never before,
/// and never given because the server does not answer.
///
/// 1,024 results and 8 MiB at most ([`Cache::with_bounds`]); what was not used for the longest time goes first.
#[derive(Clone)]
pub struct Cache(Arc<Mutex<Store>>);

/// To whom a result may be given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// Everybody.
    Public,
    /// The connection with this number alone.
    Connection(u64),
    /// Whoever has this authorization.
    Authorization(Arc<str>),
}

/// What a result answers, and for whom.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) owner: Owner,
    /// The server, as far as it can be told from others.
    pub(super) server: Arc<str>,
    pub(super) method: Method,
    /// The parameters that affect the result; of a read the resource alone stands in `uri`.
    pub(super) params: Arc<str>,
    /// The resource that is read.
    pub(super) uri: Option<Arc<str>>,
}

struct Entry {
    result: Raw,
    arrived: Instant,
    until: Instant,
    /// When it was last used, in uses of the cache.
    used: u64,
}

struct Store {
    max_results: usize,
    max_bytes: usize,
    results: HashMap<Arc<Key>, Entry>,
    /// The keys in the order of their last use.
    order: BTreeMap<u64, Arc<Key>>,
    /// Uses of the cache, counted.
    uses: u64,
    /// What the results take, in bytes.
    bytes: usize,
    /// How often the results of a method were called stale by a notification.
    changes: HashMap<Method, u64>,
    /// How often everything was forgotten.
    cleared: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    /// An empty cache of 1,024 results and 8 MiB at most.
    #[must_use]
    pub fn new() -> Self {
        Self::with_bounds(MAX_ENTRIES, MAX_BYTES)
    }

    /// An empty cache of so many results and so many bytes at most; with 0 of either nothing is kept. A result counts
    /// with its key and 256 bytes, and one that is larger than the cache is not kept.
    #[must_use]
    pub fn with_bounds(results: usize, bytes: usize) -> Self {
        Self(Arc::new(Mutex::new(Store {
            max_results: results,
            max_bytes: bytes,
            results: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            changes: HashMap::new(),
            cleared: 0,
        })))
    }

    /// Forgets everything. What is under way is not kept either.
    pub fn clear(&self) {
        let mut store = self.lock();
        store.cleared += 1;
        store.results.clear();
        store.order.clear();
        store.bytes = 0;
    }

    /// How many results are kept, stale ones that nobody has asked for since included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().results.len()
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes what is kept takes, with its keys and 256 bytes each.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// No user code runs under the lock, and what a panic could leave is a cache that counts wrongly.
    fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first of these that is fresh.
    pub(super) fn fresh(&self, keys: impl IntoIterator<Item = Key>) -> Option<Raw> {
        let mut store = self.lock();
        keys.into_iter().find_map(|key| store.fresh(&key))
    }

    /// How often the results of this method were called stale, or everything was.
    pub(super) fn changes(&self, method: &Method) -> u64 {
        self.lock().changes_of(method)
    }

    /// Keeps a result, unless something has changed since it was asked for: when there were so many `changes`. What was
    /// known of the same question before is forgotten in any case.
    pub(super) fn keep(
        &self,
        key: Key,
        others: impl IntoIterator<Item = Key>,
        changes: u64,
        result: &Raw,
        arrived: Instant,
    ) {
        let mut store = self.lock();
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

    /// Forgets every result of this method that these would be given.
    pub(super) fn forget(&self, method: &Method, owners: &[Owner]) {
        self.lock().retain(|key| key.method != *method || !owners.contains(&key.owner));
    }

    /// Heard before anybody else hears it.
    pub(super) fn invalidate(&self, notification: &Notification) {
        match notification.method {
            Method::ToolListChanged => self.lock().invalidate(&[Method::ListTools]),
            Method::PromptListChanged => self.lock().invalidate(&[Method::ListPrompts]),
            Method::ResourceListChanged => {
                self.lock().invalidate(&[Method::ListResources, Method::ListResourceTemplates]);
            }
            Method::ResourceUpdated => {
                let params = notification.params.as_ref();
                let updated = params.and_then(|params| params.raw().decode::<ResourceUpdatedParams>().ok());
                self.lock().resource_updated(updated.as_ref().map(|updated| updated.uri.as_str()));
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
        // A large text is a slice of all that came with it, and would keep that.
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

    /// Which of those under way have it in them is not known, so that none of them is kept.
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

/// How long a result stays fresh. What is absent, negative or no whole number: not at all.
pub(super) fn ttl(result: &Raw) -> Duration {
    let Some(hint) = result.member("ttlMs") else { return Duration::ZERO };
    match hint.decode::<i64>() {
        Ok(millis) => u64::try_from(millis).map_or(Duration::ZERO, Duration::from_millis).min(MAX_TTL),
        Err(_) => Duration::ZERO,
    }
}

/// To whom a result may be given. What does not say so is private.
pub(super) fn is_public(result: &Raw) -> bool {
    let scope = result.member("cacheScope").and_then(|scope| scope.decode::<CacheScope>().ok());
    matches!(scope, Some(CacheScope::Public))
}

impl fmt::Debug for Cache {
    /// Without the results, which may be anybody's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let store = self.lock();
        f.debug_struct("Cache").field("results", &store.results.len()).field("bytes", &store.bytes).finish()
    }
}
