//! What a connection is: the session, the slots of the calls under way, and who waits for what, behind one
//! lock.
//!
//! The lock is held for moments, never across an await and never while a handler runs.
//!
//! A waker is somebody else's code: cloning, waker or dropping it may use the connection. So it is cloned before the lock
//! is taken ([`TaskWaker`]), and what is woken or replaced is handed out and woken or dropped after the lock is released.

use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use mcpjoin_proto::session::{CallError, CloseCause, Numbered, Reply, Session};
use mcpjoin_proto::types::ProgressParams;
use mcpjoin_proto::{Notification, RequestId, Time};
use tokio::time::Instant;

use super::call_queue::CallQueue;
use super::offload::Offload;

pub(crate) struct Core {
    state: Mutex<Inner>,
    epoch: Instant,
    pub(crate) offload: Arc<Offload>,
}

pub(crate) struct Inner {
    pub(crate) session: Session,
    /// The calls under way, by the id of their request.
    pub(crate) slots: Numbered<Slot>,
    /// Calls that wait for room.
    pub(super) call_queue: CallQueue,
    /// Whoever waits for the opening or the end, by the number of its place.
    watchers: BTreeMap<u64, Waker>,
    next_watcher: u64,
    /// Whoever waits for a request of the peer to have its answer or to be cancelled.
    end_watchers: BTreeMap<RequestId, BTreeMap<u64, Waker>>,
    driver: Option<Waker>,
    /// The peers agree.
    pub(crate) opened: bool,
    /// Why the session is over.
    pub(crate) closed: Option<Arc<CloseCause>>,
    /// The link and what it has started are gone too.
    pub(crate) link_closed: bool,
    /// Why the request is cancelled whose handler is being dropped.
    pub(crate) cancel_reason: Option<String>,
}

/// The state, locked. Whoever is to be woken is woken when it is not any more.
pub(crate) struct Locked<'a> {
    // In this order: the lock is released first.
    state: MutexGuard<'a, Inner>,
    driver: WakeOnDrop,
}

/// A waker that is woken when this is dropped.
#[derive(Default)]
struct WakeOnDrop(Option<Waker>);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }
}

/// The waker of the task that polls, and those that it replaces. Made before the lock is taken, it is dropped after the lock
/// is released.
pub(crate) struct TaskWaker {
    own: Option<Waker>,
    replaced: Vec<Waker>,
}

impl TaskWaker {
    pub(crate) fn new(cx: &TaskContext<'_>) -> Self {
        Self { own: Some(cx.waker().clone()), replaced: Vec::new() }
    }

    /// Puts the task's waker in this place, once.
    pub(super) fn put(&mut self, place: &mut Option<Waker>) {
        if let Some(own) = self.own.take() {
            self.replaced.extend(place.replace(own));
        }
    }

    /// The same of a numbered place among others.
    pub(super) fn put_among(&mut self, places: &mut BTreeMap<u64, Waker>, number: u64) {
        if let Some(own) = self.own.take() {
            self.replaced.extend(places.insert(number, own));
        }
    }

    /// The task's waker, once.
    pub(super) fn take(&mut self) -> Option<Waker> {
        self.own.take()
    }

    /// Keeps a waker until the lock is released.
    pub(super) fn keep(&mut self, replaced: Option<Waker>) {
        self.replaced.extend(replaced);
    }
}

/// Where the result of a call is put.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) outcome: Option<Result<Reply, CallError>>,
    /// When the outcome came.
    pub(crate) arrived: Time,
    /// Progress that nobody has looked at yet: the newest says all.
    pub(crate) progress: Option<ProgressParams>,
    /// Notifications that belong to the call and that nobody has looked at yet.
    notifications: VecDeque<Notification>,
    /// Their bytes.
    bytes: usize,
    /// Notifications that were dropped because nobody looked at them.
    pub(crate) dropped: u64,
    pub(crate) waker: Option<Waker>,
}

/// Notifications that wait in a slot, and their bytes beside the newest; the oldest are dropped, and counted, beyond it.
const SLOT_NOTIFICATIONS: usize = 1024;
const SLOT_BYTES: usize = 4 * 1024 * 1024;

impl Core {
    pub(crate) fn new(session: Session) -> Self {
        Self {
            state: Mutex::new(Inner {
                session,
                slots: Numbered::default(),
                call_queue: CallQueue::new(),
                watchers: BTreeMap::new(),
                next_watcher: 0,
                end_watchers: BTreeMap::new(),
                driver: None,
                opened: false,
                closed: None,
                link_closed: false,
                cancel_reason: None,
            }),
            epoch: Instant::now(),
            offload: Arc::default(),
        }
    }

    /// The state. A panic while it was held leaves it as consistent as the session is: no user code runs under
    /// the lock, so the poison means nothing.
    pub(crate) fn lock(&self) -> Locked<'_> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Locked { state, driver: WakeOnDrop::default() }
    }

    #[cfg(test)]
    pub(super) fn is_locked(&self) -> bool {
        matches!(self.state.try_lock(), Err(std::sync::TryLockError::WouldBlock))
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_epoch(self.epoch.elapsed())
    }

    /// The moment on the runtime's clock that a point of the session's time is.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        // Far beyond what a clock can say: half a century is for ever.
        const EVER: Duration = Duration::from_secs(50 * 365 * 24 * 60 * 60);
        self.epoch + time.since_epoch().min(EVER)
    }
}

impl Deref for Locked<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.state
    }
}

impl Locked<'_> {
    /// There is something to do for the driver: it is woken once the lock is released.
    pub(crate) fn wake_driver(&mut self) {
        if self.driver.0.is_none() {
            self.driver.0 = self.state.driver.take();
        }
    }

    /// Wakes this task when there may be room for a call, or when there was none for too long. Whoever waited before
    /// keeps its place.
    pub(super) fn queue_call(
        &mut self,
        place: Option<u64>,
        patience: Option<(Time, Duration)>,
        waker: &mut TaskWaker,
    ) -> u64 {
        let (place, earlier) = self.call_queue.enter(place, patience, waker);
        if earlier {
            self.wake_driver();
        }
        place
    }
}

impl Inner {
    /// Where what comes for this request of ours is put; `None` when nobody waits for it any more.
    pub(crate) fn slot(&mut self, id: &RequestId) -> Option<&mut Slot> {
        self.slots.get_mut(id.as_i64()?)
    }

    pub(crate) fn set_driver(&mut self, waker: &mut TaskWaker) {
        waker.put(&mut self.driver);
    }

    fn next_watcher(&mut self) -> u64 {
        self.next_watcher += 1;
        self.next_watcher
    }

    /// Wakes this task at the opening and at the end. Whoever watched before keeps its place.
    pub(super) fn watch(&mut self, place: Option<u64>, waker: &mut TaskWaker) -> u64 {
        let place = place.unwrap_or_else(|| self.next_watcher());
        waker.put_among(&mut self.watchers, place);
        place
    }

    /// Gives a place back. The waker is to be dropped when the lock is not held any more.
    #[must_use]
    pub(super) fn unwatch(&mut self, place: u64) -> Option<Waker> {
        self.watchers.remove(&place)
    }

    #[cfg(test)]
    pub(super) fn watchers(&self) -> usize {
        self.watchers.len()
    }

    #[cfg(test)]
    pub(super) fn end_watchers(&self) -> usize {
        self.end_watchers.values().map(BTreeMap::len).sum()
    }

    pub(super) fn take_watchers(&mut self) -> impl Iterator<Item = Waker> {
        std::mem::take(&mut self.watchers).into_values()
    }

    /// Wakes this task when the request has its answer or is cancelled. Whoever waited before keeps its place.
    pub(super) fn wait_for_end(&mut self, id: &RequestId, place: Option<u64>, waker: &mut TaskWaker) -> u64 {
        let place = place.unwrap_or_else(|| self.next_watcher());
        waker.put_among(self.end_watchers.entry(id.clone()).or_default(), place);
        place
    }

    /// Gives such a place back. The waker is to be dropped when the lock is not held any more.
    #[must_use]
    pub(super) fn unwatch_end(&mut self, id: &RequestId, place: u64) -> Option<Waker> {
        let wakers = self.end_watchers.get_mut(id)?;
        let waker = wakers.remove(&place);
        if wakers.is_empty() {
            self.end_watchers.remove(id);
        }
        waker
    }

    /// The request has its answer, or is cancelled: whoever waits for that is told.
    pub(super) fn request_ended(&mut self, id: &RequestId, wake: &mut Vec<Waker>) {
        if !self.end_watchers.is_empty() {
            wake.extend(self.end_watchers.remove(id).into_iter().flat_map(BTreeMap::into_values));
        }
    }

    /// The same for all requests.
    pub(super) fn all_requests_ended(&mut self, wake: &mut Vec<Waker>) {
        wake.extend(std::mem::take(&mut self.end_watchers).into_values().flat_map(BTreeMap::into_values));
    }

    /// Who may try again to make a call, as far as there is room.
    pub(crate) fn grant_calls(&mut self, now: Time, wake: &mut Vec<Waker>) {
        if self.call_queue.is_empty() || !(self.session.has_room() || self.closed.is_some()) {
            return;
        }
        let in_flight = self.session.calls_in_flight();
        let free = match in_flight {
            0 => self.call_queue.len(),
            _ => self.session.limits().in_flight.saturating_sub(in_flight).min(self.call_queue.len()),
        };
        self.call_queue.grant(now, free, wake);
    }
}

impl Slot {
    pub(crate) fn push(&mut self, notification: Notification) {
        while (self.notifications.len() == SLOT_NOTIFICATIONS || self.bytes > SLOT_BYTES)
            && self.pop().is_some()
        {
            self.dropped += 1;
        }
        self.bytes += notification.payload_len();
        self.notifications.push_back(notification);
    }

    /// The oldest notification that nobody has looked at.
    pub(crate) fn pop(&mut self) -> Option<Notification> {
        let oldest = self.notifications.pop_front()?;
        self.bytes -= oldest.payload_len();
        Some(oldest)
    }
}
