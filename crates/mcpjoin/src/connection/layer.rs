//! Layers around the requests that a connection sends: functions that see each request before it is sent, and its
//! outcome after it has arrived.
//!
//! A client registers them ([`ClientBuilder::layer`](crate::client::ClientBuilder::layer)), `core` holds them, and a
//! [`Calling`] enters them when it is polled for the first time. A connection without layers does nothing for them. They
//! surround [requests](https://modelcontextprotocol.io/specification/2026-07-28/basic#requests) and no notifications, and
//! nothing here sends a request twice.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::sync::Mutex;
use mcpjoin_proto::Time;
use mcpjoin_proto::session::{Call, CallError, Origin, Peer, Reply};

use super::calling::{CallEvent, Calling};
use super::core::{Core, Slot};

pub(crate) type Layer = dyn Fn(Call, Next) -> OutcomeFuture + Send + Sync;

/// The outcome of a request, in progress.
pub(crate) type OutcomeFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

type Outcome = Result<Reply, CallError>;

/// What follows a layer of a client: the layers registered after it, and the connection. Given to the function of
/// [`ClientBuilder::layer`](crate::client::ClientBuilder::layer).
#[must_use = "a layer that does not run it answers the request itself"]
pub struct Next {
    core: Arc<Core>,
    sent: Arc<Sent>,
    /// The index of the next layer.
    layer: usize,
}

impl Next {
    /// Passes the request on, as it came or changed, and returns its outcome.
    ///
    /// The timeouts of the request start here. Dropping the future cancels the request and tells the server so. A request
    /// of 2026-07-28 for which the server needs input returns a [`Reply::NeedInput`], and a call that has become a task
    /// of the extension a [`Reply::Task`].
    ///
    /// # Errors
    /// The error with which the request fails: that of the server is [`CallError::Remote`].
    pub async fn run(self, call: Call) -> Result<Reply, CallError> {
        self.start(call).await
    }

    /// Returns the server, with the revision that both sides use.
    #[must_use]
    pub fn peer(&self) -> Option<Arc<Peer>> {
        self.core.lock().session.peer().cloned()
    }

    /// Returns the kind of transport, and the server as far as the transport knows it: a command, an address. `None` for a
    /// transport that knows nothing.
    #[must_use]
    pub fn origin(&self) -> Option<&Arc<Origin>> {
        self.core.layered.as_ref()?.origin.as_ref()
    }

    /// Returns where the id of the request will be, once it was sent.
    #[cfg(feature = "otel")]
    pub(crate) fn sent_id(&self) -> SentId {
        SentId(self.sent.clone())
    }

    fn start(mut self, mut call: Call) -> OutcomeFuture {
        let core = self.core.clone();
        let Some(layer) = core.layered.as_ref().and_then(|layered| layered.layers.get(self.layer)) else {
            // A layer may have added `_meta`.
            call.lacks_meta = false;
            return Box::pin(Innermost {
                calling: Calling::without_layers(self.core, call),
                sent: self.sent,
            });
        };
        self.layer += 1;
        layer(call, self)
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("layer", &self.layer).finish_non_exhaustive()
    }
}

/// The id of a request that passes layers.
#[cfg(feature = "otel")]
pub(crate) struct SentId(Arc<Sent>);

#[cfg(feature = "otel")]
impl SentId {
    /// `None` before the request was sent.
    pub(crate) fn read(&self) -> Option<i64> {
        self.0.0.lock().id
    }
}

/// What a [`Calling`] with layers knows of the one inside them, which sends the request. Each may be polled in a task of
/// its own, because a layer may run its [`Next`] wherever it likes. Its lock is never held while a waker runs.
#[derive(Default)]
struct Sent(Mutex<State>);

#[derive(Default)]
struct State {
    /// The id of the request, once it was sent.
    id: Option<i64>,
    /// The slot of the request when its outcome was taken, with the events that were not.
    slot: Option<Slot>,
    arrived: Option<Time>,
    /// The task that waits for events.
    waker: Option<Waker>,
}

impl Sent {
    /// Puts the waker of the task that waits for events, or removes it.
    fn set_waker(&self, waker: Option<Waker>) {
        let replaced = mem::replace(&mut self.0.lock().waker, waker);
        drop(replaced);
    }

    /// Reads or changes the slot of the request; `None` if there is none.
    fn with_slot<T>(&self, core: &Core, read: impl FnOnce(&mut Slot) -> T) -> Option<T> {
        let mut state = self.0.lock();
        let id = state.id?;
        match &mut state.slot {
            Some(slot) => Some(read(slot)),
            None => {
                drop(state);
                core.lock().slots.get_mut(id).map(read)
            }
        }
    }
}

/// The request itself, inside all layers.
struct Innermost {
    calling: Calling,
    sent: Arc<Sent>,
}

impl Future for Innermost {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let this = self.get_mut();
        let polled = this.calling.poll_slot(cx);
        let mut state = this.sent.0.lock();
        state.id = this.calling.number().or(state.id);
        let polled = polled.map(|(outcome, slot)| {
            state.arrived = slot.as_ref().map(|slot| slot.arrived);
            state.slot = slot;
            outcome
        });
        // Set while that task polls elsewhere: there may be an event for it.
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        polled
    }
}

/// A request inside its layers.
pub(super) struct Layered {
    sent: Arc<Sent>,
    work: Work,
}

enum Work {
    /// The mutex is never locked: it makes a [`Calling`] `Sync`, which the future is not.
    Running(Mutex<OutcomeFuture>),
    Ended(Option<Outcome>),
}

impl Layered {
    /// Nothing runs before it is polled.
    pub(super) fn new(core: &Arc<Core>, call: Call) -> Self {
        let sent = Arc::<Sent>::default();
        let next = Next { core: core.clone(), sent: sent.clone(), layer: 0 };
        let outcome: OutcomeFuture = Box::pin(next.run(call));
        Self { sent, work: Work::Running(Mutex::new(outcome)) }
    }

    /// The number of the request, once it was sent.
    pub(super) fn number(&self) -> Option<i64> {
        self.sent.0.lock().id
    }

    /// When the outcome of the request has arrived. `None` if a layer has answered it.
    pub(super) fn arrived(&self) -> Option<Time> {
        self.sent.0.lock().arrived
    }

    pub(super) fn dropped(&self, core: &Core) -> u64 {
        self.sent.with_slot(core, |slot| slot.dropped()).unwrap_or_default()
    }

    /// Returns the next event of the request, or `None` when the layers have ended.
    pub(super) fn poll_event(&mut self, core: &Core, cx: &mut Context<'_>) -> Poll<Option<CallEvent>> {
        self.advance(cx);
        let has_ended = matches!(self.work, Work::Ended(_));
        if !has_ended {
            // Before the look for events, so that none is missed in between.
            self.sent.set_waker(Some(cx.waker().clone()));
        }
        match self.sent.with_slot(core, Slot::take_event).flatten() {
            Some(event) => Poll::Ready(Some(event)),
            None if has_ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Returns what the outermost layer returns.
    pub(super) fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        self.advance(cx);
        match &mut self.work {
            Work::Running(_) => Poll::Pending,
            Work::Ended(outcome) => Poll::Ready(outcome.take().unwrap_or(Err(CallError::Cancelled))),
        }
    }

    fn advance(&mut self, cx: &mut Context<'_>) {
        let Work::Running(outcome) = &mut self.work else { return };
        // This task is awake: the request inside need not wake it.
        self.sent.set_waker(None);
        if let Poll::Ready(outcome) = outcome.get_mut().as_mut().poll(cx) {
            self.work = Work::Ended(Some(outcome));
        }
    }
}
