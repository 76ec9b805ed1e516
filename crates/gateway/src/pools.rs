//! The pools of servers for modern clients: one for each key.
//!
//! The key is the sender of the request (the connection if it belongs to one client, otherwise the principal, otherwise
//! the address), the client's name, and the declared capabilities that a server can act on. Requests with the same key
//! share a pool; requests of different senders never do. Over HTTP the modern era has no sessions, so several clients
//! of one principal or address may have the same key.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic>
//!
//! Used by `modern` for each request. A call during which its client can be asked something waits here for a server of
//! its own ([`Pools::claim`]). If there is none, an older call of the pool that waits for its client is given up. What one
//! server of a pool does is in `pool`; how many servers there may be is in `capacity`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcpjoin_proto::ErrorObject;
use mcpjoin_proto::types::{ClientCapabilities, Implementation};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::capacity::{Caller, EvictFrom, Slot};
use super::end::{GatewayEvent, Refusal};
use super::errors::{ErrorTexts, millis};
use super::modern_to_legacy::Claim;
use super::pool::{Pool, StartingUpstream, UPSTREAMS_PER_POOL};
use super::refused::{RefusedClients, Said};
use super::upstream::{ClientHello, Launcher};
use mcpjoin::connection::Context;

/// Pools of clients over HTTP at once, and pools of one connection. Beyond it, the unused pool with the oldest last use
/// is ended.
const MAX_POOLS: usize = 16;
/// How long the slot of an ending server is waited for: longer than a program may take to exit.
const SLOT_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a call that waits for a slot looks for an unused session. No event reports that a session becomes unused.
const SESSION_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The part of a client that a legacy server can act on. A modern server reads the rest in each request.
#[derive(PartialEq)]
struct Kind {
    /// Its name and version, if it gives them.
    info: Option<Implementation>,
    forms: bool,
    pages: bool,
    sampling: bool,
    sampling_context: bool,
    sampling_tools: bool,
    roots: bool,
}

impl Kind {
    fn of(hello: &ClientHello) -> Self {
        let ClientCapabilities { elicitation, sampling, roots, .. } = &hello.capabilities;
        let pages = elicitation.as_ref().is_some_and(|elicitation| elicitation.url.is_some());
        Self {
            info: hello.presents.info.is_some().then(|| hello.info.clone()),
            // A client that declares neither kind of elicitation means forms.
            forms: elicitation.as_ref().is_some_and(|elicitation| elicitation.form.is_some() || !pages),
            pages,
            sampling: sampling.is_some(),
            sampling_context: sampling.as_ref().is_some_and(|sampling| sampling.context.is_some()),
            sampling_tools: sampling.as_ref().is_some_and(|sampling| sampling.tools.is_some()),
            roots: roots.is_some(),
        }
    }

    /// Whether a client of this kind may use the servers of `other`. A request need not give its client's name.
    fn fits(&self, other: &Self) -> bool {
        let capabilities = |kind: &Self| Self { info: None, ..*kind };
        capabilities(self) == capabilities(other) && (self.info.is_none() || self.info == other.info)
    }
}

/// The outcome of starting the first server of a pool.
type Outcome = Option<Result<Arc<Pool>, Refusal>>;

pub(super) struct Pools {
    pub(super) launcher: Launcher,
    entries: Mutex<Vec<Entry>>,
    refused: Mutex<RefusedClients>,
    last_connection: AtomicU64,
}

struct Entry {
    kind: Kind,
    caller: Caller,
    /// The account that its servers are charged to.
    account: Caller,
    outcome: watch::Receiver<Outcome>,
    last_use: Instant,
}

impl Entry {
    fn has_ended(&self) -> bool {
        match &*self.outcome.borrow() {
            Some(Ok(pool)) => pool.first.upstream.is_ended(),
            Some(Err(_)) => true,
            None => false,
        }
    }

    fn pool(&self) -> Option<Arc<Pool>> {
        match &*self.outcome.borrow() {
            Some(Ok(pool)) => Some(pool.clone()),
            _ => None,
        }
    }

    /// Whether it counts towards the same limit of pools as one of this sender. The pools of a connection have a limit
    /// of their own.
    fn is_limited_with(&self, caller: &Caller) -> bool {
        self.caller == *caller || (self.caller.is_shared() && caller.is_shared())
    }
}

/// The place where a call may run.
enum Turn<'a> {
    Free(Claim),
    /// A server that is to be started in this slot.
    Start(Slot, StartingUpstream<'a>),
}

impl Pools {
    pub(super) fn new(launcher: Launcher) -> Arc<Self> {
        let (entries, refused) = (Mutex::default(), Mutex::default());
        Arc::new(Self { launcher, entries, refused, last_connection: AtomicU64::new(0) })
    }

    /// The pools of one more connection.
    pub(super) fn of_connection(self: &Arc<Self>) -> ConnectionPools {
        let number = self.last_connection.fetch_add(1, Ordering::Relaxed) + 1;
        ConnectionPools { pools: self.clone(), caller: Caller::Connection(number) }
    }

    /// Reports and gives the error for a client that is refused.
    pub(super) fn refused(&self, refusal: &Refusal, errors: &ErrorTexts) -> ErrorObject {
        self.launcher.settings.emit(&GatewayEvent::Refused { why: refusal });
        errors.refusal(refusal)
    }

    // ---- slots ----

    /// A slot for one more server, after the delay that the rate of starts requires. If there is none, a server is
    /// ended for it. `caller` is the sender that the server is for, if its own unused servers may be ended.
    pub(super) async fn slot(&self, account: &Caller, caller: Option<&Caller>) -> Result<Slot, Refusal> {
        let slots = &self.launcher.slots;
        wait_until(slots.reserve_start(account)?).await;
        match slots.take(account) {
            Err(why @ Refusal::TooMany { .. }) if slots.has_ending() || self.evict(account, caller) => {
                timeout(SLOT_TIMEOUT, self.wait_for_slot(account, caller, None)).await.unwrap_or(Err(why))
            }
            taken => taken,
        }
    }

    /// Ends a server to make room for one more of this account: an unused server of a pool, otherwise a session that
    /// has been unused for long. Of an account that holds more than its share it may be a server in use. Otherwise no
    /// server is ended that another client has for itself over its own connection. Returns whether one was ended.
    fn evict(&self, account: &Caller, caller: Option<&Caller>) -> bool {
        let slots = &self.launcher.slots;
        let from = slots.evict_from(account);
        let is_above = matches!(from, EvictFrom::AboveShare(_));
        let may = |entry: &Entry| {
            from.includes(&entry.account)
                && (is_above || entry.caller.is_shared() || Some(&entry.caller) == caller)
        };
        end_unused(&mut self.entries.lock(), may) || slots.evict_session(&from)
    }

    /// Waits for a slot without a time limit, and ends unused servers for it. If there is none, a call of `pool` that
    /// waits for its client is given up.
    async fn wait_for_slot(
        &self,
        account: &Caller,
        caller: Option<&Caller>,
        pool: Option<&Pool>,
    ) -> Result<Slot, Refusal> {
        let slots = &self.launcher.slots;
        let _waiting = slots.waiting(account);
        loop {
            let changed = slots.changed();
            match slots.take(account) {
                Err(Refusal::TooMany { .. }) => {
                    let ends = slots.has_ending() || self.evict(account, caller);
                    let pool = pool.filter(|_| !ends);
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = sleep(SESSION_CHECK_INTERVAL) => {}
                        () = give_up_absent(pool) => {}
                    }
                }
                taken => return taken,
            }
        }
    }

    // ---- pools ----

    /// The pool of this client. If there is none, its first server is started, once for all requests that wait for it, and not just
    /// after the target has refused the client.
    pub(super) async fn pool(
        self: &Arc<Self>,
        hello: ClientHello,
        caller: Caller,
        account: Caller,
    ) -> Result<Arc<Pool>, Refusal> {
        let kind = Kind::of(&hello);
        let mut outcome = {
            let mut entries = self.entries.lock();
            // A pool that failed or has ended is replaced.
            entries.retain(|entry| !entry.has_ended());
            let fitting = entries.iter_mut().filter(|entry| entry.caller == caller && kind.fits(&entry.kind));
            match fitting.max_by_key(|entry| entry.last_use) {
                Some(entry) => {
                    entry.last_use = Instant::now();
                    entry.outcome.clone()
                }
                None => {
                    self.refused.lock().check(&account, Said::of(&hello))?;
                    make_room(&mut entries, &caller, &account);
                    let outcome = self.start_pool(hello, caller.clone(), account.clone());
                    let last_use = Instant::now();
                    entries.push(Entry { kind, caller, account, outcome: outcome.clone(), last_use });
                    outcome
                }
            }
        };
        let known = outcome.wait_for(Option::is_some).await;
        known.ok().and_then(|known| known.clone()).unwrap_or(Err(Refusal::Closed))
    }

    fn start_pool(
        self: &Arc<Self>,
        hello: ClientHello,
        caller: Caller,
        account: Caller,
    ) -> watch::Receiver<Outcome> {
        let (sender, outcome) = watch::channel(None);
        let pools = self.clone();
        tokio::spawn(async move {
            let said = Said::of(&hello);
            let start = async {
                let slot = pools.slot(&account, Some(&caller)).await?;
                Pool::start(&pools.launcher, slot, hello, account.clone(), caller.is_shared()).await
            };
            let started = tokio::select! {
                biased;
                started = start => started,
                // The pool belonged to a connection, which has ended.
                () = sender.closed() => return,
            };
            pools.refused.lock().note(&account, said, started.as_ref().err(), &pools.launcher.settings);
            drop(pools);
            sender.send_replace(Some(started));
        });
        outcome
    }

    /// Removes a pool. Its servers end with the last request that uses them.
    pub(super) fn remove(&self, pool: &Arc<Pool>) {
        let is_it = |entry: &Entry| entry.pool().is_some_and(|known| Arc::ptr_eq(&known, pool));
        self.entries.lock().retain(|entry| !is_it(entry));
    }

    /// Removes all pools.
    pub(super) fn clear(&self) {
        let entries = std::mem::take(&mut *self.entries.lock());
        // Dropped after the lock is released.
        drop(entries);
    }

    // ---- calls that need a server of their own ----

    /// Waits for a server at which the call may run, at most
    /// [`GatewayBuilder::timeout`](super::GatewayBuilder::timeout).
    ///
    /// # Errors
    /// The error to answer the client with.
    pub(super) async fn claim(
        &self,
        pool: &Arc<Pool>,
        cx: &Context,
        errors: &ErrorTexts,
    ) -> Result<Claim, ErrorObject> {
        let settings = &self.launcher.settings;
        let turn = timeout(settings.timeout, self.turn(pool, cx)).await.map_err(|_| {
            let limit = settings.upstreams.min(UPSTREAMS_PER_POOL);
            let text = format!(
                "this call may need input from the client, so it needs a server of its own, and none was \
                 free within {} s: {limit} may run at once for one client, and {} for all (the limit \
                 `upstreams`; of mcpjoin bridge: --max-sessions)",
                settings.timeout.as_secs(),
                settings.upstreams
            );
            let facts = [("limit", limit.to_string()), ("afterMs", millis(settings.timeout))];
            errors.failure("noTurn", &text, &facts)
        })?;
        let (slot, _starting) = match turn.map_err(|why| errors.refusal(&why))? {
            Turn::Free(claim) => return Ok(claim),
            Turn::Start(slot, starting) => (slot, starting),
        };
        let claim = pool.start_other(&self.launcher, slot, cx).await;
        claim.map_err(|why| self.refused(&why, errors))?.ok_or_else(|| {
            let text = "a server that was started for this call uses another revision than the first one";
            errors.failure("otherEra", text, &[])
        })
    }

    /// Waits until a server of the pool is free or another one may be started. Calls are served in the order in which
    /// they came.
    async fn turn<'a>(&self, pool: &'a Pool, cx: &Context) -> Result<Turn<'a>, Refusal> {
        let _queue = pool.queue.lock().await;
        let mut reserved = None;
        loop {
            let freed = pool.freed.notified();
            if let Some(claim) = pool.claim_free(cx) {
                return Ok(Turn::Free(claim));
            }
            if pool.first.upstream.current().is_none() {
                // The first server is restarting, and free once it has restarted.
                pool.first.upstream.client().await.map_err(|why| Refusal::Gone(Box::new(why)))?;
                continue;
            }
            if !pool.has_room() {
                tokio::select! {
                    biased;
                    () = freed => {}
                    () = give_up_absent(Some(pool)) => {}
                }
                continue;
            }
            let slot = async {
                let slot = self.wait_for_slot(&pool.account, None, Some(pool)).await?;
                // A call reserves one start, even if another server becomes free while it waits.
                let at = match reserved {
                    Some(at) => at,
                    None => *reserved.insert(self.launcher.slots.reserve_start(&pool.account)?),
                };
                wait_until(at).await;
                Ok(slot)
            };
            tokio::select! {
                biased;
                () = freed => {}
                slot = slot => return slot.map(|slot| Turn::Start(slot, pool.starting())),
            }
        }
    }
}

/// Gives up a call of the pool that waits for its client, as soon as one may be given up.
async fn give_up_absent(pool: Option<&Pool>) {
    loop {
        match pool.map_or(Err(None), Pool::give_up_absent) {
            Ok(()) => return,
            Err(Some(at)) => sleep_until(at).await,
            // The caller polls this anew when the client of a call leaves.
            Err(None) => std::future::pending().await,
        }
    }
}

async fn wait_until(at: Instant) {
    if at > Instant::now() {
        sleep_until(at).await;
    }
}

/// The pools of one connection. They are ended when this is dropped.
pub(super) struct ConnectionPools {
    pools: Arc<Pools>,
    pub(super) caller: Caller,
}

impl ConnectionPools {
    fn take(&self) -> Vec<Arc<Pool>> {
        let taken: Vec<Entry> =
            self.pools.entries.lock().extract_if(.., |entry| entry.caller == self.caller).collect();
        taken.iter().filter_map(Entry::pool).collect()
    }

    /// Ends them, and waits until nothing of them is left.
    pub(super) async fn close(&self) {
        for pool in self.take() {
            pool.close().await;
        }
    }
}

impl Drop for ConnectionPools {
    fn drop(&mut self) {
        for pool in self.take() {
            pool.end();
        }
    }
}

/// Ends unused pools until there is room for one more.
fn make_room(entries: &mut Vec<Entry>, caller: &Caller, account: &Caller) {
    loop {
        let limited = || entries.iter().filter(|entry| entry.is_limited_with(caller));
        if limited().count() < MAX_POOLS {
            return;
        }
        let from = match caller {
            Caller::Connection(_) => EvictFrom::Anyone,
            _ => EvictFrom::choose(limited().map(|entry| &entry.account), MAX_POOLS, account),
        };
        if !end_unused_pool(entries, |entry| entry.is_limited_with(caller) && from.includes(&entry.account)) {
            return;
        }
    }
}

/// Ends an unused server: one beyond the first of a pool, otherwise the pool with the oldest last use. Returns whether
/// there was one.
fn end_unused(entries: &mut Vec<Entry>, may: impl Fn(&Entry) -> bool) -> bool {
    entries.retain(|entry| !entry.has_ended());
    let pools = entries.iter().filter(|entry| may(entry)).filter_map(Entry::pool);
    pools.into_iter().any(|pool| pool.end_unused_other()) || end_unused_pool(entries, may)
}

fn end_unused_pool(entries: &mut Vec<Entry>, may: impl Fn(&Entry) -> bool) -> bool {
    let is_unused = |entry: &Entry| may(entry) && entry.pool().is_some_and(|pool| pool.is_idle());
    let unused = entries.iter().enumerate().filter(|(_, entry)| is_unused(entry));
    let Some((index, _)) = unused.min_by_key(|(_, entry)| entry.last_use) else { return false };
    if let Some(pool) = entries.remove(index).pool() {
        pool.end();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_a_connection_are_bounded_for_themselves() {
        let (one, two) = (Caller::Connection(1), Caller::Connection(2));
        let limited = |entry: &Caller, caller: &Caller| {
            let (_, outcome) = watch::channel(None);
            let kind = Kind {
                info: None,
                forms: false,
                pages: false,
                sampling: false,
                sampling_context: false,
                sampling_tools: false,
                roots: false,
            };
            let (caller_of_entry, account) = (entry.clone(), entry.clone());
            let entry = Entry { kind, caller: caller_of_entry, account, outcome, last_use: Instant::now() };
            entry.is_limited_with(caller)
        };
        assert!(limited(&one, &one) && !limited(&one, &two));
        assert!(!limited(&one, &Caller::Local) && !limited(&Caller::Local, &one));
        assert!(limited(&Caller::Local, &Caller::Principal("a".into())));
    }
}
