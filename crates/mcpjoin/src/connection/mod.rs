//! A protocol session that runs over a transport.
//!
//! The path of a request: `client` creates a [`Calling`], which passes the layers (`layer`) where there are any. `core` holds
//! the session, the slots of pending calls and the queue of calls that wait for capacity, behind one lock that is never
//! held across an await. `driver` moves messages between session and transport, runs handlers and sets timers. Nothing
//! here knows tools or resources.

mod call_queue;
mod calling;
mod context;
mod core;
mod driver;
mod handler_tasks;
mod layer;
mod offload;
pub(crate) mod rounds;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use mcpjoin_proto::session::{
    Call, CloseCause, Limits, NotifyRefused, Peer, Role, Route, Session, State, Violation,
};
#[cfg(feature = "otel")]
use mcpjoin_proto::session::{CallError, Origin, Reply};
use mcpjoin_proto::{Method, Notification, RequestId};

pub(crate) use self::core::NotificationQueue;
pub use calling::{CallEvent, Calling};
pub use context::Context;
#[doc(hidden)]
pub use driver::Driver;
#[cfg(feature = "server")]
pub(crate) use handler_tasks::WatchedResponse;
pub(crate) use handler_tasks::panicked;
#[doc(hidden)]
pub use layer::Next;
#[cfg(feature = "otel")]
pub(crate) use layer::SentId;
pub(crate) use layer::{Layer, OutcomeFuture};

use self::core::{Core, Inner, LayeredRequests, TaskWaker};
use crate::handler::ErasedHandler;
use crate::transport::Link;

/// A handle to a connection. Cheap to clone.
///
/// The connection lives until it is closed or its transport ends, with or without handles.
#[derive(Clone)]
pub struct Connection {
    core: Arc<Core>,
}

/// Called by the driver for each rule that the peer violates. Must not block.
#[doc(hidden)]
pub type OnViolation = Arc<dyn Fn(&Violation) + Send + Sync>;

/// The parts of a connection, apart from its transport.
#[doc(hidden)]
#[allow(
    missing_debug_implementations,
    reason = "it holds functions, and only the crates of this repository see it"
)]
pub struct Setup {
    pub role: Role,
    pub limits: Arc<Limits>,
    pub on_violation: Option<OnViolation>,
    pub notification_observer: Option<NotificationObserver>,
    pub layers: Layers,
}

/// The layers around the own requests of a connection, from the outermost to the innermost.
#[doc(hidden)]
#[derive(Clone, Default)]
#[allow(
    missing_debug_implementations,
    reason = "it holds functions, and only the crates of this repository see it"
)]
pub struct Layers(pub(crate) Option<Arc<Vec<Box<Layer>>>>);

impl Layers {
    /// A single layer.
    #[cfg(all(feature = "server", feature = "otel"))]
    pub(crate) fn of<F, Fut>(layer: F) -> Self
    where
        F: Fn(Call, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply, CallError>> + Send + 'static,
    {
        let layer: Box<Layer> = Box::new(move |call, next| -> OutcomeFuture { Box::pin(layer(call, next)) });
        Self(Some(Arc::new(vec![layer])))
    }
}

/// Sees every notification on arrival, before its recipient does: one that belongs to a call may wait in the slot of the
/// call. Runs under the connection's lock, so it must be short and must not use the connection. The wakers that it adds are
/// woken when the lock is released.
#[doc(hidden)]
pub type NotificationObserver = Box<dyn Fn(&Notification, &mut Vec<Waker>) + Send + Sync>;

impl Connection {
    /// Creates a connection over a transport. Nothing happens unless the driver is run.
    #[doc(hidden)]
    pub fn new(link: Link, setup: Setup, handler: impl ErasedHandler + 'static) -> (Self, Driver) {
        let Setup { role, limits, on_violation, notification_observer, layers } = setup;
        let mut io = link.into_transport();
        io.configure(&limits);
        let session = Session::new(role, io.caps(), limits);
        let layered = layers.0.map(|layers| Arc::new(LayeredRequests { layers, origin: io.origin() }));
        let core = Arc::new(Core::new(session, layered));
        let driver = Driver::new(core.clone(), io, Box::new(handler), (on_violation, notification_observer));
        (Self { core }, driver)
    }

    pub(crate) const fn from_core(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Waits until the peers have agreed on a revision, and returns the peer. Cancel-safe.
    ///
    /// # Errors
    /// [`CloseCause`] if they do not agree: what was tried and what was received.
    pub async fn opened(&self) -> Result<Arc<Peer>, CloseCause> {
        self.watch(|state| match (&state.closed, state.session.peer()) {
            (Some(cause), _) => Some(Err(CloseCause::clone(cause))),
            (None, Some(peer)) if state.opened => Some(Ok(peer.clone())),
            _ => None,
        })
        .await
    }

    /// Starts a request, which passes the layers of the client. Nothing is sent before the [`Calling`] is polled; dropping it
    /// cancels the request.
    pub fn call(&self, call: Call) -> Calling {
        Calling::new(self.core.clone(), call)
    }

    /// Sends a notification that belongs to no request.
    ///
    /// # Errors
    /// [`NotifyRefused`] says why the session does not allow it.
    pub fn notify(&self, notification: Notification) -> Result<(), NotifyRefused> {
        self.core.with_session(|session| session.notify(notification, Route::Session))
    }

    /// Sends a notification that only this principal may see.
    pub(crate) fn notify_principal(
        &self,
        notification: Notification,
        principal: &str,
    ) -> Result<(), NotifyRefused> {
        self.core.with_session(|session| session.notify_principal(notification, principal))
    }

    /// Returns whether the peer would receive this change notification, about this resource if it is about one.
    pub(crate) fn has_listener(&self, method: &Method, uri: Option<&str>) -> bool {
        self.core.lock().session.has_listener(method, uri)
    }

    /// Ready if own messages may be sent. Pending while too many of them wait for the peer to read. The caller keeps
    /// `place`, its place in the queue, between polls and returns it with [`Connection::leave_call_queue`].
    #[doc(hidden)]
    pub fn poll_call_queue(&self, place: &mut Option<u64>, cx: &TaskContext<'_>) -> Poll<()> {
        let mut waker = TaskWaker::new(cx);
        let mut state = self.core.lock();
        if let Some(place) = place.take() {
            waker.keep(state.call_queue.leave(place));
        }
        if state.session.has_room() || state.closed.is_some() {
            return Poll::Ready(());
        }
        *place = Some(state.queue_call(None, None, &mut waker));
        Poll::Pending
    }

    /// Leaves the queue of [`Connection::poll_call_queue`].
    #[doc(hidden)]
    pub fn leave_call_queue(&self, place: u64) {
        let mut state = self.core.lock();
        let waker = state.call_queue.leave(place);
        // It was woken and leaves without sending: the next one in the queue gets the capacity.
        if waker.is_none() {
            state.wake_driver();
        }
        drop(state);
        drop(waker);
    }

    /// Returns the peer, once both have agreed on a revision.
    #[must_use]
    pub fn peer(&self) -> Option<Arc<Peer>> {
        self.core.lock().session.peer().cloned()
    }

    /// The kind of the transport and the peer, as far as they are known before the first message.
    #[cfg(feature = "otel")]
    pub(crate) fn origin(&self) -> Option<&Arc<Origin>> {
        self.core.layered.as_ref()?.origin.as_ref()
    }

    /// Returns the state of the session.
    #[must_use]
    pub fn state(&self) -> State {
        let state = self.core.lock();
        match state.session.state() {
            // The session is over, and what its transport has started still runs.
            State::Disconnected if !state.link_closed && (state.opened || state.closed.is_some()) => {
                State::ShuttingDown
            }
            session => session,
        }
    }

    /// Returns why the connection has ended, or `None` while it lives.
    #[must_use]
    pub fn close_cause(&self) -> Option<CloseCause> {
        self.core.lock().closed.as_deref().cloned()
    }

    /// Returns the number of own requests in flight, and of requests of the peer in flight.
    #[doc(hidden)]
    #[must_use]
    pub fn in_flight(&self) -> (usize, usize) {
        let state = self.core.lock();
        (state.session.calls_in_flight(), state.session.requests_in_flight())
    }

    /// Returns whether both are handles to the same connection.
    #[doc(hidden)]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// Returns how many requests of the peer a handler works on, and the oldest of them.
    #[doc(hidden)]
    pub fn handled_requests(&self) -> (usize, Option<RequestId>) {
        self.core.lock().session.handled_requests()
    }

    /// Sends a notification on the stream of one of the peer's requests.
    #[doc(hidden)]
    pub fn notify_on(&self, request: RequestId, notification: Notification) -> Result<(), NotifyRefused> {
        self.core.with_session(|session| session.notify(notification, Route::ReplyTo(request)))
    }

    /// Closes the connection: pending calls fail, the transport is closed, and a child process that it has started is ended.
    ///
    /// Returns immediately. [`Connection::closed`] waits for the end.
    pub fn close(&self) {
        self.core.with_session(Session::close);
    }

    /// Shuts down the connection of a server: reads nothing more, waits for the requests in flight for at most
    /// [`Limits::drain`](mcpjoin_proto::session::Limits::drain) (10 s), fails own calls, then closes the transport.
    ///
    /// The connection of a client is closed as by [`Connection::close`]. Returns immediately; [`Connection::closed`] waits
    /// for the end.
    pub fn drain(&self) {
        let now = self.core.now();
        self.core.with_session(|session| session.drain(now));
    }

    /// Waits until the connection has ended and everything that its transport has started is gone. Returns why it has ended.
    /// Cancel-safe.
    pub async fn closed(&self) -> CloseCause {
        self.watch(|state| {
            state.closed.as_ref().filter(|_| state.link_closed).map(|cause| CloseCause::clone(cause))
        })
        .await
    }

    /// Waits until the session has ended, and returns why. What its transport has started may still run. Cancel-safe.
    pub(crate) async fn ended(&self) -> Arc<CloseCause> {
        self.watch(|state| state.closed.clone()).await
    }

    /// Waits until `ready` returns a value. It is asked again when the connection has opened and when it has ended.
    async fn watch<T>(&self, ready: impl Fn(&Inner) -> Option<T>) -> T {
        let mut watch = Watch { core: &self.core, place: None };
        poll_fn(|cx| {
            let mut waker = TaskWaker::new(cx);
            let mut state = self.core.lock();
            match ready(&state) {
                Some(value) => Poll::Ready(value),
                None => {
                    watch.place = Some(state.watch(watch.place, &mut waker));
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.lock().session.fmt(f)
    }
}

/// Removes its waker from the list of those that wait for the opening or the end.
struct Watch<'a> {
    core: &'a Core,
    place: Option<u64>,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let waker = self.place.and_then(|place| self.core.lock().unwatch(place));
        drop(waker);
    }
}

#[cfg(test)]
mod tests;
