//! The table of legacy sessions.
//!
//! A session is an entry in it: nothing runs for it. One task for all of them ends those that nobody has used for
//! long, and there is none while there are no sessions.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mcpjoin_proto::Version;
use tokio::time::{Instant, sleep};

use super::entry::Entry;
use super::events::{EventStore, SessionId};

/// A legacy session that is open.
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) entry: Arc<Entry>,
    /// The revision agreed on; `None` for 2024-11-05's transport, which asks for none.
    pub(super) version: Option<Version>,
    principal: Option<Box<str>>,
    epoch: Instant,
    /// When it was last used, in milliseconds since the epoch.
    used: AtomicU64,
    /// Exchanges under way.
    exchanges: AtomicUsize,
}

pub(super) struct Sessions {
    limit: usize,
    idle: Duration,
    epoch: Instant,
    events: Option<Arc<dyn EventStore>>,
    /// There may be sessions in the table that are over.
    stale: AtomicBool,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    sessions: HashMap<SessionId, Arc<Session>, BuildHasherDefault<AsItIs>>,
    /// Places taken for sessions that are about to be.
    reserved: usize,
    watched: bool,
}

/// A session is found by the last of its bytes. They are random and ours, so that nobody can make two collide.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.last_chunk().map_or(0, |last| u64::from_ne_bytes(*last));
    }

    /// The length of the id.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A place in the table for a session that may come to be.
pub(super) struct Place(Arc<Sessions>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.lock().reserved -= 1;
    }
}

impl Session {
    fn touch(&self) {
        let now = self.epoch.elapsed().as_millis();
        self.used.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Relaxed);
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

    /// Its connection is over, by itself or because the server is.
    fn is_over(&self) -> bool {
        self.entry.wire.is_closed()
    }

    fn idle(&self) -> Duration {
        if self.exchanges.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let used = Duration::from_millis(self.used.load(Ordering::Relaxed));
        self.epoch.elapsed().saturating_sub(used)
    }
}

impl Sessions {
    pub(super) fn new(limit: usize, idle: Duration, events: Option<Arc<dyn EventStore>>) -> Arc<Self> {
        let (epoch, stale) = (Instant::now(), AtomicBool::new(false));
        Arc::new(Self { limit, idle, epoch, events, stale, table: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are open. One whose connection is over has its entry until somebody looks for it.
    pub(super) fn len(&self) -> usize {
        self.lock().sessions.values().filter(|session| !session.is_over()).count()
    }

    /// A connection is over, which may have been a session's.
    pub(super) fn one_may_be_over(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// Takes a place for a session; `None` when there are too many.
    pub(super) fn reserve(self: &Arc<Self>) -> Option<Place> {
        self.place().or_else(|| {
            // Looked for once for each end, so that to be refused stays cheap.
            if !self.stale.swap(false, Ordering::AcqRel) {
                return None;
            }
            self.end_those(|session| session.is_over());
            self.place()
        })
    }

    fn place(self: &Arc<Self>) -> Option<Place> {
        let mut table = self.lock();
        if table.sessions.len() + table.reserved >= self.limit {
            return None;
        }
        table.reserved += 1;
        Some(Place(self.clone()))
    }

    /// Enters a session. Called within a runtime.
    pub(super) fn insert(
        self: &Arc<Self>,
        place: Place,
        id: SessionId,
        entry: Arc<Entry>,
        version: Option<Version>,
        principal: Option<Box<str>>,
    ) -> Arc<Session> {
        let session = Arc::new(Session {
            id,
            entry,
            version,
            principal,
            epoch: self.epoch,
            used: AtomicU64::new(0),
            exchanges: AtomicUsize::new(0),
        });
        session.touch();
        let mut table = self.lock();
        table.sessions.insert(id, session.clone());
        let watch = !std::mem::replace(&mut table.watched, true);
        drop(table);
        drop(place);
        if watch {
            tokio::spawn(expire(Arc::downgrade(self), self.idle));
        }
        session
    }

    /// The session of that name, for whoever it belongs to.
    pub(super) fn find(&self, id: &SessionId, principal: Option<&str>) -> Option<Arc<Session>> {
        let session = self.lock().sessions.get(id).cloned()?;
        if session.principal.as_deref() != principal {
            return None;
        }
        if session.is_over() {
            self.end(id);
            return None;
        }
        session.touch();
        Some(session)
    }

    /// Ends a session at once, with everything that is under way in it.
    pub(super) fn end(&self, id: &SessionId) {
        let session = self.lock().sessions.remove(id);
        if let Some(session) = session {
            session.entry.stop();
            if let Some(events) = &self.events {
                events.forget(id);
            }
        }
    }

    fn end_idle(&self) {
        for session in self.lock().sessions.values() {
            session.entry.wire.shrink();
        }
        self.end_those(|session| session.idle() >= self.idle || session.is_over());
    }

    fn end_those(&self, over: impl Fn(&Session) -> bool) {
        let table = self.lock();
        let ids: Vec<SessionId> =
            table.sessions.values().filter(|session| over(session)).map(|session| session.id).collect();
        drop(table);
        for id in ids {
            self.end(&id);
        }
    }
}

/// Ends idle sessions, as long as there are sessions. One is found at most a tenth of the time too late.
async fn expire(sessions: Weak<Sessions>, idle: Duration) {
    let turn = (idle / 10).max(Duration::from_millis(10));
    loop {
        sleep(turn).await;
        let Some(sessions) = sessions.upgrade() else { return };
        sessions.end_idle();
        let mut table = sessions.lock();
        if table.sessions.is_empty() {
            table.watched = false;
            return;
        }
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        let ids: Vec<SessionId> = self.lock().sessions.keys().copied().collect();
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
