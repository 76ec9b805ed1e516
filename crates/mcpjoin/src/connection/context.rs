//! What a handler knows about the request it answers, and what it may do meanwhile.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use mcpjoin_proto::session::{Asker, Call, NotifyRefused, Origin, RequestContext, Route};
use mcpjoin_proto::types::{LogMessageParams, LoggingLevel};
use mcpjoin_proto::{Notification, Profile, Raw, RequestId};

use super::core::{Core, Inner, TaskWaker};
use super::offload::Permit;
use super::{Calling, Connection};

/// What a handler knows about what it handles, and what it may do meanwhile. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    core: Arc<Core>,
    /// `None` for a notification.
    request: Option<(RequestId, RequestContext)>,
}

impl Context {
    pub(super) const fn of_request(core: Arc<Core>, id: RequestId, context: RequestContext) -> Self {
        Self { core, request: Some((id, context)) }
    }

    pub(super) const fn of_notification(core: Arc<Core>) -> Self {
        Self { core, request: None }
    }

    /// The id of the request; `None` for a notification.
    #[must_use]
    pub fn request_id(&self) -> Option<&RequestId> {
        self.request.as_ref().map(|(id, _)| id)
    }

    /// What the session knows about the request; `None` for a notification.
    #[must_use]
    pub fn request(&self) -> Option<&RequestContext> {
        self.request.as_ref().map(|(_, context)| context)
    }

    /// The facts of the protocol revision that the request is made in; `None` before the peers agree.
    #[must_use]
    pub fn profile(&self) -> Option<&'static Profile> {
        self.request().map(|context| context.profile).or_else(|| self.core.lock().session.profile())
    }

    /// The client that asks, as it describes itself. Nothing of it is proved.
    #[must_use]
    pub fn asker(&self) -> Option<&Arc<Asker>> {
        self.request().map(|context| &context.asker)
    }

    /// A place aside for a result of so many bytes; `None` for one that is written where it is.
    pub(crate) fn offload_permit(&self, bytes: usize) -> Option<Permit> {
        self.core.offload.permit(bytes)
    }

    /// Over which link the request came.
    #[must_use]
    pub fn origin(&self) -> Option<&Arc<Origin>> {
        self.request().map(|context| &context.origin)
    }

    /// Tells the asker how far its request is. Nothing is sent when it did not ask for progress; what it has
    /// not read yet is replaced by what is newer, so this may be called as often as there is something new.
    /// `progress` must grow.
    ///
    /// # Errors
    /// When the request is no longer being handled.
    pub fn progress(
        &self,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), NotifyRefused> {
        let mut state = self.core.lock();
        let id = self.handled_in(&state)?;
        let outcome = state.session.progress(id, progress, total, message);
        state.wake_driver();
        outcome
    }

    /// Sends a log message to the asker, when it wants messages of that level.
    ///
    /// # Errors
    /// When the request is no longer being handled, or the server does not declare logging.
    pub fn log(&self, level: LoggingLevel, logger: Option<&str>, data: Raw) -> Result<(), NotifyRefused> {
        let mut message = LogMessageParams::new(level, data);
        message.logger = logger.map(ToOwned::to_owned);
        let mut state = self.core.lock();
        let id = self.handled_in(&state)?;
        let outcome = state.session.log(id, &message);
        state.wake_driver();
        outcome
    }

    /// Tells the asker something that belongs to its request, in its order with what else belongs to it. Nothing is looked
    /// at but what the session must: a server that tells what its client has not asked for breaks a rule.
    ///
    /// # Errors
    /// When the request is no longer being handled, when the revision has no such notification or what it needs was not
    /// declared, and when the asker takes too little.
    pub fn notify(&self, notification: Notification) -> Result<(), NotifyRefused> {
        let mut state = self.core.lock();
        let id = self.handled_in(&state)?.clone();
        let outcome = state.session.notify(notification, Route::ReplyTo(id));
        state.wake_driver();
        outcome
    }

    /// Why the request is cancelled, in the peer's words: for what is dropped with its handler.
    #[doc(hidden)]
    pub fn cancel_reason(&self) -> Option<String> {
        self.core.lock().cancel_reason.clone()
    }

    /// Closes the event stream of the request where its sender comes back for the rest: over HTTP in 2025-11-25, where
    /// events are kept. Elsewhere nothing happens.
    ///
    /// # Errors
    /// When the request is no longer being handled.
    pub fn close_sse_stream(&self) -> Result<(), NotifyRefused> {
        let mut state = self.core.lock();
        let id = self.handled_in(&state)?;
        let outcome = state.session.close_stream(id);
        state.wake_driver();
        outcome
    }

    /// The id of the request, while it is being handled. Behind it another request may have the same id, of another
    /// client even, where connections are used again (HTTP).
    fn handled_in(&self, state: &Inner) -> Result<&RequestId, NotifyRefused> {
        match &self.request {
            Some((id, request)) if state.session.is_handling(id, request.number) => Ok(id),
            _ => Err(NotifyRefused::NoSuchRequest),
        }
    }

    /// Asks the other side something on behalf of this request. In the modern era a server cannot: it answers
    /// with what it needs instead (`Reply::NeedInput`).
    pub fn call(&self, mut call: Call) -> Calling {
        call.on_behalf_of = self.request_id().cloned();
        Calling::new(self.core.clone(), call)
    }

    /// The connection that the request came over.
    #[must_use]
    pub fn connection(&self) -> Connection {
        Connection::from_core(self.core.clone())
    }

    /// Whether nobody waits for the answer any more: the request was cancelled, or the handler has answered it. A
    /// handler's own future is dropped when it is cancelled; this is for work that it has given to somebody else.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        match &self.request {
            Some((id, request)) => !self.core.lock().session.is_handling(id, request.number),
            None => false,
        }
    }

    /// Waits until nobody waits for the answer any more.
    pub async fn cancelled(&self) {
        let Some((id, request)) = &self.request else { return std::future::pending().await };
        let mut leaving = Leaving { core: &self.core, id, place: None };
        poll_fn(|cx| {
            let mut waker = TaskWaker::new(cx);
            let mut state = self.core.lock();
            if !state.session.is_handling(id, request.number) {
                return Poll::Ready(());
            }
            leaving.place = Some(state.wait_for_end(id, leaving.place, &mut waker));
            Poll::Pending
        })
        .await;
    }
}

/// A place among those who wait for a request to be over, given back when they do not wait any more.
struct Leaving<'a> {
    core: &'a Core,
    id: &'a RequestId,
    place: Option<u64>,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let waker = self.place.and_then(|place| self.core.lock().unwatch_end(self.id, place));
        drop(waker);
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("request", &self.request_id()).finish_non_exhaustive()
    }
}
