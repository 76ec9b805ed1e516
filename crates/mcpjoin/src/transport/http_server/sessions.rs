//! The table of legacy sessions.
//!
//! A session is an entry in the table: nothing runs for it. While there are sessions, one task ends those that were idle for
//! too long.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::sync::Mutex;
use mcpjoin_proto::Version;
use mcpjoin_proto::text::Line;
use tokio::time::{Instant, sleep};

use super::entry::Entry;
use super::events::{EventStore, SessionId};
use super::memory::Account;
use super::session_store::SessionStore;
use crate::warning_rate::WarningRate;

/// How long a session must be idle before it may be ended in favour of a new one: 1 min, about as long as a person reads.
const MIN_IDLE: Duration = Duration::from_secs(60);

/// An open legacy session.
pub(super) struct Session {
    pub(super) id: SessionId,
    /// Its id in the session store, if it is stored.
    pub(super) stored: Option<Box<str>>,
    pub(super) entry: Arc<Entry>,
    /// The negotiated revision; `None` for the transport of 2024-11-05, which negotiates none.
    pub(super) version: Option<Version>,
    principal: Option<Box<str>>,
    /// The client whose share it counts against.
    pub(super) account: Arc<Account>,
    epoch: Instant,
    /// When it was last used, in milliseconds since the table was made.
    used: AtomicU64,
    /// That time when the store last learned that the session is used.
    reported: AtomicU64,
    /// Exchanges in progress.
    exchanges: AtomicUsize,
}

pub(super) struct Sessions {
    limit: usize,
    idle: Duration,
    epoch: Instant,
    events: Option<Arc<dyn EventStore>>,
    store: Option<Arc<dyn SessionStore>>,
    /// The table may contain sessions that have ended.
    stale: AtomicBool,
    table: Mutex<Table>,
    warnings: WarningRate<Problem>,
}

/// A kind of problem with a client.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Problem {
    /// It wants one more session than there may be.
    TooMany,
    /// It names a session of another principal.
    OfAnother,
    /// The session store is not available.
    Store,
    /// A session of the store was not opened again.
    NotReopened,
    /// A request was not passed to the process that has its session.
    NotPassed,
    /// A request has a seal that is not valid.
    Seal,
}

#[derive(Default)]
struct Table {
    sessions: HashMap<SessionId, Arc<Session>, BuildHasherDefault<AsItIs>>,
    /// Places reserved for sessions that are being opened.
    reserved: usize,
    watched: bool,
}

/// Hashes the last bytes of a session id. They are random and ours, so a client cannot cause collisions.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.last_chunk().map_or(0, |last| u64::from_ne_bytes(*last));
    }

    /// The length of the id, which is constant.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A reserved place for a session that is being opened.
pub(super) struct Place {
    sessions: Arc<Sessions>,
    account: Arc<Account>,
    /// The session was opened.
    taken: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.sessions.table.lock();
        table.reserved -= 1;
        if !self.taken {
            self.account.sessions.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Session {
    fn touch(&self) {
        self.used.store(millis(self.epoch.elapsed()), Ordering::Relaxed);
    }

    /// An exchange begins.
    pub(super) fn enter(&self) {
        self.exchanges.fetch_add(1, Ordering::Relaxed);
    }

    /// An exchange has ended.
    pub(super) fn leave(&self) {
        self.touch();
        self.exchanges.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether its connection has ended.
    fn is_over(&self) -> bool {
        self.entry.wire.is_closed()
    }

    /// Whether it has an open stream or a call in progress.
    fn is_used(&self) -> bool {
        self.exchanges.load(Ordering::Relaxed) > 0
    }

    /// Whether it was used since the last call, or is in use.
    fn was_used(&self) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        self.reported.swap(used, Ordering::Relaxed) != used || self.is_used()
    }

    /// The client may have opened or closed its stream for messages that belong to no request.
    pub(super) fn listener_changed(&self) {
        if self.stored.is_some() {
            self.entry.served().listens(self.entry.wire.has_get_reader());
        }
    }

    fn idle(&self) -> Duration {
        if self.is_used() {
            return Duration::ZERO;
        }
        let used = Duration::from_millis(self.used.load(Ordering::Relaxed));
        self.epoch.elapsed().saturating_sub(used)
    }
}

impl Sessions {
    pub(super) fn new(
        limit: usize,
        idle: Duration,
        events: Option<Arc<dyn EventStore>>,
        store: Option<Arc<dyn SessionStore>>,
    ) -> Arc<Self> {
        let (epoch, stale) = (Instant::now(), AtomicBool::new(false));
        let (table, warnings) = (Mutex::default(), WarningRate::default());
        Arc::new(Self { limit, idle, epoch, events, store, stale, table, warnings })
    }

    /// Logs a problem of stored sessions, each kind once a minute at most.
    pub(super) fn warn(&self, problem: Problem, client: &Account, why: &str) {
        let Some(left_out) = self.warnings.due(problem) else { return };
        match problem {
            Problem::NotReopened => {
                tracing::warn!(target: "mcpjoin", %client, why, left_out, "a stored session was not opened in this process, and its client has to initialize again");
            }
            Problem::NotPassed => {
                tracing::warn!(target: "mcpjoin", %client, why, left_out, "a request was not passed to the process that has its session");
            }
            Problem::Seal => {
                tracing::warn!(target: "mcpjoin", %client, why, left_out, "a request was refused that another process seems to have passed");
            }
            _ => tracing::warn!(target: "mcpjoin", %client, why, left_out, "a client was refused for now"),
        }
    }

    /// The number of entries. A session whose connection has ended keeps its entry until the next lookup.
    pub(super) fn len(&self) -> usize {
        self.table.lock().sessions.values().filter(|session| !session.is_over()).count()
    }

    /// Notes that a connection has ended, which may have been a session's.
    pub(super) fn one_may_be_over(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// Reserves a place for a session; `None` when there are too many.
    pub(super) fn reserve(self: &Arc<Self>, account: &Arc<Account>) -> Option<Place> {
        let place = self.make_place(account);
        if place.is_none()
            && let Some(left_out) = self.warnings.due(Problem::TooMany)
        {
            let limit = self.limit;
            tracing::warn!(target: "mcpjoin", client = %account, limit, left_out, "a client was refused a session: too many are open");
        }
        place
    }

    fn make_place(self: &Arc<Self>, account: &Arc<Account>) -> Option<Place> {
        let place = self.place(account).or_else(|| {
            // Searched once for each end, so that refusals stay cheap.
            if !self.stale.swap(false, Ordering::AcqRel) {
                return None;
            }
            self.end_those(|session| session.is_over());
            self.place(account)
        });
        place.or_else(|| {
            let ended = self.for_another(account)?;
            tracing::debug!(target: "mcpjoin", "an HTTP session has ended to make room for another");
            self.end(&ended);
            self.place(account)
        })
    }

    fn place(self: &Arc<Self>, account: &Arc<Account>) -> Option<Place> {
        let mut table = self.table.lock();
        if table.sessions.len() + table.reserved >= self.limit {
            return None;
        }
        table.reserved += 1;
        account.sessions.fetch_add(1, Ordering::Relaxed);
        Some(Place { sessions: self.clone(), account: account.clone(), taken: false })
    }

    /// The session to end when a client needs a place and none is free.
    fn for_another(&self, account: &Arc<Account>) -> Option<SessionId> {
        let table = self.table.lock();
        let all = || table.sessions.values();
        let held = |account: &Account| account.sessions.load(Ordering::Relaxed);
        let most = all().map(|session| &session.account).max_by_key(|account| held(account))?;
        let mine = |session: &Session| Arc::ptr_eq(&session.account, account);
        let theirs = |session: &Session| Arc::ptr_eq(&session.account, most) && !mine(session);
        let longest_idle = |of: &dyn Fn(&Session) -> bool| {
            let idle = all().filter(|session| of(session));
            idle.min_by_key(|session| session.used.load(Ordering::Relaxed)).map(|session| session.id)
        };
        // The holder of the only place has no more than its share.
        let half = (self.limit / 2).max(1);
        let unused = |session: &Session| theirs(session) && !session.is_used();
        // A client with more than half of the places gives some up, even if they are used.
        if held(most) > half
            && let Some(id) = longest_idle(&unused).or_else(|| longest_idle(&theirs))
        {
            return Some(id);
        }
        // A client with half of the places takes none of another client.
        let any = held(account) < half;
        let long_ago = millis(self.epoch.elapsed()).checked_sub(millis(MIN_IDLE));
        let rested = |session: &Session| {
            let used = session.used.load(Ordering::Relaxed);
            !session.is_used() && long_ago.is_some_and(|long_ago| used <= long_ago)
        };
        longest_idle(&|session| rested(session) && (any || mine(session))).or_else(|| {
            let fairer = held(most) > held(account) + 1;
            longest_idle(&unused).filter(|_| fairer)
        })
    }

    /// Inserts a session. Must be called within a runtime.
    pub(super) fn insert(
        self: &Arc<Self>,
        mut place: Place,
        id: SessionId,
        stored: Option<Box<str>>,
        entry: Arc<Entry>,
        version: Option<Version>,
        principal: Option<Box<str>>,
    ) -> Arc<Session> {
        place.taken = true;
        let session = Arc::new(Session {
            id,
            stored,
            entry,
            version,
            principal,
            account: place.account.clone(),
            epoch: self.epoch,
            used: AtomicU64::new(0),
            reported: AtomicU64::new(0),
            exchanges: AtomicUsize::new(0),
        });
        session.touch();
        let mut table = self.table.lock();
        table.sessions.insert(id, session.clone());
        let watch = !std::mem::replace(&mut table.watched, true);
        drop(table);
        drop(place);
        if watch {
            tokio::spawn(expire(Arc::downgrade(self), self.idle));
        }
        session
    }

    /// Finds a session by its id. `None` when it belongs to another principal.
    pub(super) fn find(&self, id: &SessionId, principal: Option<&str>) -> Option<Arc<Session>> {
        let session = self.table.lock().sessions.get(id).cloned()?;
        if session.principal.as_deref() != principal {
            if let Some(left_out) = self.warnings.due(Problem::OfAnother) {
                let named = |principal: Option<&str>| Line::of(principal.unwrap_or("none")).to_string();
                let (client, owner) = (named(principal), named(session.principal.as_deref()));
                tracing::warn!(target: "mcpjoin", %client, %owner, left_out, "a client has used the session of another principal, and was refused");
            }
            return None;
        }
        if session.is_over() {
            self.end(id);
            return None;
        }
        session.touch();
        Some(session)
    }

    /// Ends a session at once, with everything in progress in it.
    pub(super) fn end(&self, id: &SessionId) {
        let mut table = self.table.lock();
        let session = table.sessions.remove(id);
        if let Some(session) = &session {
            session.account.sessions.fetch_sub(1, Ordering::Relaxed);
        }
        drop(table);
        if let Some(session) = session {
            session.entry.stop();
            // Another process may go on with a stored session.
            if let (None, Some(events)) = (&session.stored, &self.events) {
                events.forget(id);
            }
        }
    }

    fn end_idle(&self) {
        for session in self.table.lock().sessions.values() {
            session.entry.wire.shrink();
            if let (Some(store), Some(id)) = (&self.store, &session.stored)
                && session.was_used()
            {
                store.touch(id);
            }
        }
        self.end_those(|session| session.idle() >= self.idle || session.is_over());
    }

    fn end_those(&self, over: impl Fn(&Session) -> bool) {
        let table = self.table.lock();
        let ids: Vec<SessionId> =
            table.sessions.values().filter(|session| over(session)).map(|session| session.id).collect();
        drop(table);
        for id in ids {
            self.end(&id);
        }
    }
}

/// Ends idle sessions as long as there are sessions. Each ends at most a tenth of the idle time too late.
async fn expire(sessions: Weak<Sessions>, idle: Duration) {
    let turn = (idle / 10).max(Duration::from_millis(10));
    loop {
        sleep(turn).await;
        let Some(sessions) = sessions.upgrade() else { return };
        sessions.end_idle();
        let mut table = sessions.table.lock();
        if table.sessions.is_empty() {
            table.watched = false;
            return;
        }
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        let ids: Vec<SessionId> = self.table.lock().sessions.keys().copied().collect();
        for id in ids {
            self.end(&id);
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("len", &self.len()).finish_non_exhaustive()
    }
}
