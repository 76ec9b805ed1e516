//! A request to the peer, from its creation to its result.

use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use mcpjoin_proto::session::{Call, CallError, CallRefused, Reply};
use mcpjoin_proto::types::{ExtensionTask, ProgressParams};
use mcpjoin_proto::{Notification, RequestId, Time};
use tokio::time::Instant;

use super::Connection;
use super::core::{Core, Locked, Slot, TaskWaker};
use super::layer::Layered;

/// A request in progress: zero or more [`CallEvent`]s, then the result.
///
/// Await it for the result, or call [`Calling::next_event`] for the events before it. Nothing is sent before the first
/// poll. Dropping it before the result is there cancels the request and tells the peer so.
///
/// It waits in a queue while too many requests are in flight, and it always ends: with a result, with the peer's error,
/// with a timeout, or with the connection. The timeout of a queued request starts again whenever another request leaves
/// the queue.
#[must_use = "nothing is sent before it is polled"]
pub struct Calling {
    core: Arc<Core>,
    stage: Stage,
    /// Its place in the queue of calls.
    place: Option<QueuePlace>,
    /// When the outcome that was returned has arrived.
    arrived: Option<Time>,
}

/// A place in the queue of calls, and since when.
#[derive(Clone, Copy)]
struct QueuePlace {
    number: u64,
    since: Time,
}

enum Stage {
    Unsent(Box<Call>),
    Sent(i64),
    /// Another [`Calling`], inside the layers, sends the request.
    Layered(Box<Layered>),
    /// It was not sent and never will be. The error has not been returned yet.
    Refused(Box<CallError>),
    Over,
}

/// What may arrive for a request before its result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CallEvent {
    /// The progress of the request. A newer one replaces one that was not taken.
    Progress(ProgressParams),
    /// A notification that belongs to the request, such as those of a subscription.
    Notification(Notification),
    /// The state of the task that the call has become, in the shape of the tasks extension in both eras. A newer one
    /// replaces one that was not taken. Only clients that accept tasks receive any.
    Task(Box<ExtensionTask>),
}

impl Calling {
    /// A request that passes the layers of the connection.
    pub(super) fn new(core: Arc<Core>, call: Call) -> Self {
        if core.layered.is_none() {
            return Self::without_layers(core, call);
        }
        let stage = Stage::Layered(Layered::new(&core, call).into());
        Self { core, stage, place: None, arrived: None }
    }

    pub(super) fn without_layers(core: Arc<Core>, call: Call) -> Self {
        Self { core, stage: Stage::Unsent(Box::new(call)), place: None, arrived: None }
    }

    /// Returns the id of the request, once it was sent.
    #[must_use]
    pub fn id(&self) -> Option<RequestId> {
        self.number().map(RequestId::from)
    }

    /// The number of the request, once it was sent.
    pub(super) fn number(&self) -> Option<i64> {
        match &self.stage {
            Stage::Sent(id) => Some(*id),
            Stage::Layered(layered) => layered.number(),
            _ => None,
        }
    }

    /// Returns when the outcome that was returned has arrived, which may be long before it was taken.
    pub(crate) fn arrived(&self) -> Option<Instant> {
        self.arrived.map(|arrived| self.core.instant(arrived))
    }

    /// Returns how many notifications were dropped because they were not taken in time.
    pub(crate) fn dropped(&self) -> u64 {
        match &self.stage {
            Stage::Sent(id) => self.core.lock().slots.get(*id).map_or(0, Slot::dropped),
            Stage::Layered(layered) => layered.dropped(&self.core),
            _ => 0,
        }
    }

    /// Returns the next event, or `None` when the result is ready to be awaited. Sends the request if it was not sent
    /// yet. Cancel-safe.
    pub async fn next_event(&mut self) -> Option<CallEvent> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    /// Cancels the request, as dropping it does, and sends the reason to the peer.
    #[doc(hidden)]
    pub fn cancel(mut self, reason: Option<&str>) {
        self.abandon(reason);
    }

    /// Cancels the request if it has no outcome yet, and frees its slot.
    fn abandon(&mut self, reason: Option<&str>) {
        let Some(id) = self.number() else { return };
        let stage = mem::replace(&mut self.stage, Stage::Over);
        let mut state = self.core.lock();
        let slot = state.slots.remove(id);
        if slot.as_ref().is_some_and(|slot| slot.outcome.is_none()) {
            state.session.cancel(&RequestId::from(id), reason);
            state.wake_driver();
        }
        drop(state);
        // A layer may have moved the request into another task, which must not wait for it any more.
        if let (Stage::Layered(_), Some(waker)) = (&stage, slot.and_then(|slot| slot.waker)) {
            waker.wake();
        }
    }

    #[doc(hidden)]
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<CallEvent>> {
        if let Stage::Layered(layered) = &mut self.stage {
            return layered.poll_event(&self.core, cx);
        }
        let core = self.core.clone();
        let mut waker = TaskWaker::new(cx);
        let mut state = core.lock();
        if let Stage::Unsent(call) = &mut self.stage {
            match send(&core, &mut state, call, &mut self.place, &mut waker) {
                Poll::Ready(Ok(id)) => self.stage = Stage::Sent(id),
                // Awaiting it returns the error.
                Poll::Ready(Err(error)) => {
                    self.stage = Stage::Refused(error);
                    return Poll::Ready(None);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        let Stage::Sent(id) = self.stage else { return Poll::Ready(None) };
        let Some(slot) = state.slots.get_mut(id) else { return Poll::Ready(None) };
        let event = slot.take_event();
        if event.is_some() || slot.outcome.is_some() {
            return Poll::Ready(event);
        }
        waker.put(&mut slot.waker);
        Poll::Pending
    }

    /// Returns the outcome, and the slot of the request if it was sent. Not for a request with layers.
    pub(super) fn poll_slot(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<(Result<Reply, CallError>, Option<Slot>)> {
        let mut waker = TaskWaker::new(cx);
        let mut state = self.core.lock();
        if let Stage::Unsent(call) = &mut self.stage {
            match send(&self.core, &mut state, call, &mut self.place, &mut waker) {
                Poll::Ready(Ok(id)) => self.stage = Stage::Sent(id),
                Poll::Ready(Err(error)) => self.stage = Stage::Refused(error),
                Poll::Pending => return Poll::Pending,
            }
        }
        let id = match &self.stage {
            Stage::Sent(id) => *id,
            _ => match mem::replace(&mut self.stage, Stage::Over) {
                Stage::Refused(error) => return Poll::Ready((Err(*error), None)),
                _ => return Poll::Ready((Err(CallError::Cancelled), None)),
            },
        };
        let Some(slot) = state.slots.get_mut(id) else {
            self.stage = Stage::Over;
            return Poll::Ready((Err(CallError::Cancelled), None));
        };
        let Some(outcome) = slot.outcome.take() else {
            waker.put(&mut slot.waker);
            return Poll::Pending;
        };
        self.arrived = Some(slot.arrived);
        let slot = state.slots.remove(id);
        self.stage = Stage::Over;
        drop(state);
        Poll::Ready((outcome, slot))
    }
}

/// Sends the request, or enters the queue.
fn send(
    core: &Core,
    state: &mut Locked<'_>,
    call: &mut Call,
    place: &mut Option<QueuePlace>,
    waker: &mut TaskWaker,
) -> Poll<Result<i64, Box<CallError>>> {
    let now = core.now();
    let waited = place.take();
    if let Some(place) = waited {
        waker.keep(state.call_queue.leave(place.number));
    }
    let refused = match state.session.call_taking(now, call) {
        Ok(id) => {
            // The session numbers its requests from 1.
            let id = id.as_i64().unwrap_or_default();
            state.slots.insert(id, Slot::default());
            state.wake_driver();
            return Poll::Ready(Ok(id));
        }
        Err(refused) => refused,
    };
    match (refused, &state.closed) {
        (CallRefused::Full { .. }, None) => {
            let since = waited.map_or(now, |place| place.since);
            let timeout = call.timeout.unwrap_or_else(|| state.session.limits().request);
            if state.call_queue.has_timed_out(now, since, timeout) {
                let method = call.method.clone();
                return Poll::Ready(Err(CallError::TimedOut { method, after: timeout, total: false }.into()));
            }
            let number = state.queue_call(waited.map(|place| place.number), Some((since, timeout)), waker);
            *place = Some(QueuePlace { number, since });
            Poll::Pending
        }
        (CallRefused::Closed, Some(cause)) => Poll::Ready(Err(CallError::Closed(cause.clone()).into())),
        (refused, _) => Poll::Ready(Err(CallError::Refused(refused).into())),
    }
}

impl Future for Calling {
    type Output = Result<Reply, CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Stage::Layered(layered) = &mut this.stage {
            let outcome = ready!(layered.poll_outcome(cx));
            this.arrived = layered.arrived();
            this.stage = Stage::Over;
            return Poll::Ready(outcome);
        }
        this.poll_slot(cx).map(|(outcome, _)| outcome)
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            Connection::from_core(self.core.clone()).leave_call_queue(place.number);
        }
        self.abandon(None);
    }
}

impl fmt::Debug for Calling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calling").field("id", &self.id()).finish_non_exhaustive()
    }
}
