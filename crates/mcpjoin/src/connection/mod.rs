//! A session over a link, driven.
//!
//! The way of a request: `client` makes a [`Calling`]; `core` holds the session, the slots of calls and what
//! waits for room behind one lock that is never held across an await; `driver` moves messages between
//! session and link, runs handlers and keeps the time. Nothing here knows tools or resources.

mod call_queue;
mod calling;
mod context;
mod core;
mod driver;
mod handler_tasks;
mod offload;
pub(crate) mod rounds;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use mcpjoin_proto::session::{
    Call, CloseCause, Limits, NotifyRefused, Peer, Role, Route, Session, State, Violation,
};
use mcpjoin_proto::{Method, Notification, RequestId};

pub use calling::{CallEvent, Calling};
pub use context::Context;
pub use driver::Driver;
pub(crate) use handler_tasks::panicked;
pub(crate) use offload::Permit as OffloadPermit;

use self::core::{Core, TaskWaker};
use crate::handler::ErasedHandler;
use crate::link::Link;

/// A handle on a connection. Cheap to clone; the connection lives until it is closed or its link ends,
/// whether handles are left or not.
#[derive(Clone)]
pub struct Connection {
    core: Arc<Core>,
}

/// Told of every rule that the peer breaks. Called by the driver; must not block.
#[doc(hidden)]
pub type OnViolation = Arc<dyn Fn(&Violation) + Send + Sync>;

/// What a connection is made of, beside its link.
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
}

/// Hears every notification when it arrives, before whoever it is for: what belongs to a call may wait there until
/// somebody looks. Called under the connection's lock: it takes a moment and calls nothing of the connection.
#[doc(hidden)]
pub type NotificationObserver = Box<dyn Fn(&Notification) + Send + Sync>;

impl Connection {
    /// A connection over a link, and the driver that must be run for anything to happen.
    #[doc(hidden)]
    pub fn new(link: Link, setup: Setup, handler: impl ErasedHandler + 'static) -> (Self, Driver) {
        let mut io = link.into_io();
        io.configure(&setup.limits);
        let session = Session::new(setup.role, io.caps(), setup.limits);
        let core = Arc::new(Core::new(session));
        let driver = Driver::new(
            core.clone(),
            io,
            Box::new(handler),
            (setup.on_violation, setup.notification_observer),
        );
        (Self { core }, driver)
    }

    pub(crate) const fn from_core(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Waits until the peers agree.
    ///
    /// # Errors
    /// When they do not: with what was tried and what came back.
    pub async fn opened(&self) -> Result<Arc<Peer>, CloseCause> {
        let mut watching = Watching { core: &self.core, place: None };
        poll_fn(|cx| {
            let mut waker = TaskWaker::new(cx);
            let mut state = self.core.lock();
            if let Some(cause) = &state.closed {
                return Poll::Ready(Err(CloseCause::clone(cause)));
            }
            match state.session.peer().filter(|_| state.opened) {
                Some(peer) => Poll::Ready(Ok(peer.clone())),
                None => {
                    watching.place = Some(state.watch(watching.place, &mut waker));
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Makes a request. Nothing is sent before the [`Calling`] is polled; dropping it cancels the request.
    pub fn call(&self, call: Call) -> Calling {
        Calling::new(self.core.clone(), call)
    }

    /// Tells the peer something that belongs to no request.
    ///
    /// # Errors
    /// When it may not be told: the session says why.
    pub fn notify(&self, notification: Notification) -> Result<(), NotifyRefused> {
        let mut state = self.core.lock();
        let outcome = state.session.notify(notification, Route::Session);
        state.wake_driver();
        outcome
    }

    /// The same of what is one principal's alone.
    pub(crate) fn notify_principal(
        &self,
        notification: Notification,
        principal: &str,
    ) -> Result<(), NotifyRefused> {
        let mut state = self.core.lock();
        let outcome = state.session.notify_principal(notification, principal);
        state.wake_driver();
        outcome
    }

    /// Whether the peer would be told of such a change.
    pub(crate) fn has_listener(&self, method: &Method) -> bool {
        self.core.lock().session.hears(method)
    }

    /// Whether own messages may be sent: else too many of them wait for the peer to take them. `place` is that among
    /// those who wait, kept by the caller.
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

    /// Gives such a place back.
    #[doc(hidden)]
    pub fn leave_call_queue(&self, place: u64) {
        let mut state = self.core.lock();
        let waker = state.call_queue.leave(place);
        // WakeList and gone: the room that it was told of is for the next one.
        if waker.is_none() {
            state.wake_driver();
        }
        drop(state);
        drop(waker);
    }

    /// The other side, once the peers agree.
    #[must_use]
    pub fn peer(&self) -> Option<Arc<Peer>> {
        self.core.lock().session.peer().cloned()
    }

    /// Where the session stands.
    #[must_use]
    pub fn state(&self) -> State {
        let state = self.core.lock();
        match state.session.state() {
            // The session is over, and what its link has started is not gone yet.
            State::Disconnected if !state.link_closed && (state.opened || state.closed.is_some()) => {
                State::ShuttingDown
            }
            session => session,
        }
    }

    /// Why the connection is over; `None` while it is not.
    #[must_use]
    pub fn close_cause(&self) -> Option<CloseCause> {
        self.core.lock().closed.as_deref().cloned()
    }

    /// Requests of ours that have no answer yet, and requests of the peer that have none.
    #[must_use]
    pub fn in_flight(&self) -> (usize, usize) {
        let state = self.core.lock();
        (state.session.calls_in_flight(), state.session.requests_in_flight())
    }

    /// Whether both are handles on the same connection.
    #[doc(hidden)]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// The requests of the peer that a handler works on: how many, and the oldest of them.
    #[doc(hidden)]
    pub fn handled_requests(&self) -> (usize, Option<RequestId>) {
        self.core.lock().session.handled_requests()
    }

    /// Tells the peer something on the stream of a request of its own.
    #[doc(hidden)]
    pub fn notify_on(&self, request: RequestId, notification: Notification) -> Result<(), NotifyRefused> {
        let mut state = self.core.lock();
        let outcome = state.session.notify(notification, Route::ReplyTo(request));
        state.wake_driver();
        outcome
    }

    /// Ends the connection: calls under way fail, the link is closed and what it has started is ended.
    /// Returns at once; [`Connection::closed`] waits for the end.
    pub fn close(&self) {
        let mut state = self.core.lock();
        state.session.close();
        state.wake_driver();
    }

    /// Ends the connection of a server in order: nothing more is read, what is in progress is finished within
    /// [`Limits::drain`](mcpjoin_proto::session::Limits::drain) (10 s), own calls fail, and then the link is closed.
    /// That of a client is closed as by [`Connection::close`]. Returns at once; [`Connection::closed`] waits for the
    /// end.
    pub fn drain(&self) {
        let mut state = self.core.lock();
        state.session.drain(self.core.now());
        state.wake_driver();
    }

    /// Waits until the connection is over and everything that its link has started is gone.
    pub async fn closed(&self) -> CloseCause {
        let mut watching = Watching { core: &self.core, place: None };
        poll_fn(|cx| {
            let mut waker = TaskWaker::new(cx);
            let mut state = self.core.lock();
            match (&state.closed, state.link_closed) {
                (Some(cause), true) => Poll::Ready(CloseCause::clone(cause)),
                _ => {
                    watching.place = Some(state.watch(watching.place, &mut waker));
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

/// A place among those who wait for the opening or the end, given back when they do not wait any more.
struct Watching<'a> {
    core: &'a Core,
    place: Option<u64>,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let waker = self.place.and_then(|place| self.core.lock().unwatch(place));
        drop(waker);
    }
}

#[cfg(test)]
mod tests;
