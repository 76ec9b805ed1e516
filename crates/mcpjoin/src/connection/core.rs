//! The state of a connection behind one lock: the session, the slots of pending calls, and the wakers of everything
//! that waits.
//!
//! The lock is held briefly, never across an await and never while a handler runs.
//!
//! A waker is foreign code: cloning, waking or dropping it may use the connection. So it is cloned before the lock is
//! taken ([`TaskWaker`]); wakers that are woken or replaced are passed out and woken or dropped after the lock is
//! released.

use std::collections::VecDeque;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::task::{Context as TaskContext, Waker};
use std::time::Duration;

use crate::sync::{Mutex, MutexGuard};
use mcpjoin_proto::session::{CallError, CloseCause, Origin, Reply, RingMap, Session};
use mcpjoin_proto::sorted_map::SortedMap;
use mcpjoin_proto::types::ProgressParams;
use mcpjoin_proto::{Notification, RequestId, Time};
use tokio::time::Instant;

use super::call_queue::CallQueue;
use super::calling::CallEvent;
use super::layer::Layer;
use super::offload::Offload;

pub(crate) struct Core {
    state: Mutex<Inner>,
    epoch: Instant,
    pub(crate) offload: Arc<Offload>,
    /// `None` without layers: a session that lies idle then holds nothing for them.
    pub(super) layered: Option<Arc<LayeredRequests>>,
}

/// What the layers around own requests need.
pub(super) struct LayeredRequests {
    /// From the outermost to the innermost.
    pub(super) layers: Arc<Vec<Box<Layer>>>,
    /// The kind of the transport and the peer, as far as they are known before the first message.
    pub(super) origin: Option<Arc<Origin>>,
}

pub(crate) struct Inner {
    pub(crate) session: Session,
    /// The pending calls, by the id of their request.
    pub(crate) slots: RingMap<Slot>,
    /// Calls that wait for capacity.
    pub(super) call_queue: CallQueue,
    /// Wakers of tasks that wait for the opening or the end, by place.
    watchers: SortedMap<u64, Waker>,
    next_watcher: u64,
    /// Wakers of tasks that wait for the end of a request of the peer: its response, or its cancellation.
    end_watchers: SortedMap<RequestId, SortedMap<u64, Waker>>,
    driver: Option<Waker>,
    /// The peers have agreed on a revision.
    pub(crate) opened: bool,
    /// Why the session has ended.
    pub(crate) closed: Option<Arc<CloseCause>>,
    /// The transport and everything that it has started are gone, too.
    pub(crate) link_closed: bool,
    /// Why the peer has cancelled the request whose handler is being dropped.
    pub(crate) cancel_reason: Option<String>,
}

/// The locked state. The driver's waker is woken after the lock is released.
pub(crate) struct Locked<'a> {
    // The field order matters: the lock is released first.
    state: MutexGuard<'a, Inner>,
    driver: WakeOnDrop,
}

/// Wakes its waker when it is dropped.
#[derive(Default)]
struct WakeOnDrop(Option<Waker>);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }
}

/// The waker of the polling task, and the wakers that it replaces. Create it before the lock is taken, drop it after
/// the lock is released.
pub(crate) struct TaskWaker {
    own: Option<Waker>,
    replaced: Option<Waker>,
    /// Those before it. Most polls replace at most one.
    more: Vec<Waker>,
}

impl TaskWaker {
    pub(crate) fn new(cx: &TaskContext<'_>) -> Self {
        Self { own: Some(cx.waker().clone()), replaced: None, more: Vec::new() }
    }

    /// Puts the task's waker into `place`. Only the first call does so.
    pub(super) fn put(&mut self, place: &mut Option<Waker>) {
        if let Some(own) = self.own.take() {
            self.keep(place.replace(own));
        }
    }

    /// Puts the task's waker into a numbered place. Only the first call does so.
    pub(super) fn put_among(&mut self, places: &mut SortedMap<u64, Waker>, number: u64) {
        if let Some(own) = self.own.take() {
            self.keep(places.insert(number, own));
        }
    }

    /// Takes the task's waker. Only the first call returns it.
    pub(super) fn take(&mut self) -> Option<Waker> {
        self.own.take()
    }

    /// Keeps a waker until the lock is released.
    pub(super) fn keep(&mut self, replaced: Option<Waker>) {
        if replaced.is_some() {
            self.more.extend(mem::replace(&mut self.replaced, replaced));
        }
    }
}

/// Where the outcome and the events of a pending call are put.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) outcome: Option<Result<Reply, CallError>>,
    /// When the outcome arrived.
    pub(crate) arrived: Time,
    /// What has arrived before the outcome. Most calls have nothing there, and slots are moved.
    events: Option<Box<SlotEvents>>,
    pub(crate) waker: Option<Waker>,
}

/// The events of a pending call that were not taken yet.
#[derive(Default)]
pub(crate) struct SlotEvents {
    /// Only the newest is kept.
    pub(crate) progress: Option<ProgressParams>,
    pub(crate) notifications: NotificationQueue,
}

/// Notifications that wait for one reader.
#[derive(Default)]
pub(crate) struct NotificationQueue {
    queued: VecDeque<Notification>,
    /// The bytes of their payloads.
    bytes: usize,
    /// How many notifications were dropped because they were not taken.
    pub(crate) dropped: u64,
}

/// Maximum number of notifications in a queue, and maximum bytes beside the newest. Beyond that the oldest are dropped
/// and counted.
const SLOT_NOTIFICATIONS: usize = 1024;
const SLOT_BYTES: usize = 4 * 1024 * 1024;

impl Core {
    pub(super) fn new(session: Session, layered: Option<Arc<LayeredRequests>>) -> Self {
        Self {
            state: Mutex::new(Inner {
                session,
                slots: RingMap::default(),
                call_queue: CallQueue::new(),
                watchers: SortedMap::new(),
                next_watcher: 0,
                end_watchers: SortedMap::new(),
                driver: None,
                opened: false,
                closed: None,
                link_closed: false,
                cancel_reason: None,
            }),
            epoch: Instant::now(),
            offload: Arc::default(),
            layered,
        }
    }

    /// Locks the state. No user code runs under the lock, so a poisoned lock is as consistent as the session is.
    pub(crate) fn lock(&self) -> Locked<'_> {
        let state = self.state.lock();
        Locked { state, driver: WakeOnDrop::default() }
    }

    /// Lets the session do something that may give the driver work, and wakes the driver.
    pub(crate) fn with_session<R>(&self, act: impl FnOnce(&mut Session) -> R) -> R {
        let mut state = self.lock();
        let outcome = act(&mut state.session);
        state.wake_driver();
        outcome
    }

    #[cfg(test)]
    pub(super) fn is_locked(&self) -> bool {
        self.state.is_locked()
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_epoch(self.epoch.elapsed())
    }

    /// The instant of the runtime's clock that corresponds to a point of the session's time.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        // Beyond what the clock can represent. Half a century is as good as never.
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
    /// Wakes the driver after the lock is released: there is work for it.
    pub(crate) fn wake_driver(&mut self) {
        if self.driver.0.is_none() {
            self.driver.0 = self.state.driver.take();
        }
    }

    /// Enters the queue of calls, at `place` if it has been there before. Wakes the task when there may be capacity, or
    /// at the timeout.
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
    /// The slot of one of our requests; `None` if its caller is gone.
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

    /// Wakes the task when the connection has opened and when it has ended. `place`: the place from an earlier poll.
    pub(super) fn watch(&mut self, place: Option<u64>, waker: &mut TaskWaker) -> u64 {
        let place = place.unwrap_or_else(|| self.next_watcher());
        waker.put_among(&mut self.watchers, place);
        place
    }

    /// Removes such a waker. Drop it after the lock is released.
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
        self.end_watchers.values().map(SortedMap::len).sum()
    }

    pub(super) fn take_watchers(&mut self) -> impl Iterator<Item = Waker> {
        mem::take(&mut self.watchers).into_values()
    }

    /// Wakes the task when the request of the peer has its response or was cancelled. `place`: the place from an
    /// earlier poll.
    pub(super) fn wait_for_end(&mut self, id: &RequestId, place: Option<u64>, waker: &mut TaskWaker) -> u64 {
        let place = place.unwrap_or_else(|| self.next_watcher());
        waker.put_among(self.end_watchers.get_or_default(id.clone()), place);
        place
    }

    /// Removes such a waker. Drop it after the lock is released.
    #[must_use]
    pub(super) fn unwatch_end(&mut self, id: &RequestId, place: u64) -> Option<Waker> {
        let wakers = self.end_watchers.get_mut(id)?;
        let waker = wakers.remove(&place);
        if wakers.is_empty() {
            self.end_watchers.remove(id);
        }
        waker
    }

    /// The request has its response or was cancelled: collects the wakers that wait for that.
    pub(super) fn request_ended(&mut self, id: &RequestId, wake: &mut Vec<Waker>) {
        if !self.end_watchers.is_empty() {
            wake.extend(self.end_watchers.remove(id).into_iter().flat_map(SortedMap::into_values));
        }
    }

    /// All requests have ended: collects the wakers that wait for that.
    pub(super) fn all_requests_ended(&mut self, wake: &mut Vec<Waker>) {
        wake.extend(mem::take(&mut self.end_watchers).into_values().flat_map(SortedMap::into_values));
    }

    /// Collects the wakers of queued calls that may be sent now, as far as there is capacity.
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
    /// The events, to be added to.
    pub(crate) fn events(&mut self) -> &mut SlotEvents {
        self.events.get_or_insert_default()
    }

    /// Takes the oldest notification, or else the progress.
    pub(super) fn take_event(&mut self) -> Option<CallEvent> {
        let events = self.events.as_mut()?;
        match events.notifications.pop() {
            Some(notification) => Some(CallEvent::Notification(notification)),
            None => events.progress.take().map(CallEvent::Progress),
        }
    }

    /// How many notifications were dropped because they were not taken.
    pub(super) fn dropped(&self) -> u64 {
        self.events.as_ref().map_or(0, |events| events.notifications.dropped)
    }
}

impl NotificationQueue {
    pub(crate) fn push(&mut self, notification: Notification) {
        while (self.queued.len() == SLOT_NOTIFICATIONS || self.bytes > SLOT_BYTES) && self.pop().is_some() {
            self.dropped += 1;
        }
        self.bytes += notification.payload_len();
        self.queued.push_back(notification);
    }

    /// Takes the oldest notification.
    pub(crate) fn pop(&mut self) -> Option<Notification> {
        let oldest = self.queued.pop_front()?;
        self.bytes -= oldest.payload_len();
        Some(oldest)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }
}
