//! What a handler knows about the request that it answers, and what it can send meanwhile.
//!
//! Used by every [`Handler`](crate::Handler). `server::Context` dereferences to it and adds what a server can do.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use mcpjoin_proto::session::{Call, ClientInfo, NotifyRefused, Origin, RequestContext, Route, Session};
use mcpjoin_proto::types::{LogMessageParams, LoggingLevel};
use mcpjoin_proto::{Notification, Profile, Raw, RequestId};

use super::core::{Core, TaskWaker};
use super::offload::Permit;
use super::{Calling, Connection};
#[cfg(feature = "http-server")]
use crate::transport::http_server::RequestParts;

/// The request or notification that a handler works on, and the connection that it arrived on.
///
/// Cheap to clone. A clone may outlive the request: sending on it then fails with [`NotifyRefused::NoSuchRequest`].
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

    /// Returns the id of the request, or `None` for a notification.
    #[must_use]
    pub fn request_id(&self) -> Option<&RequestId> {
        self.request.as_ref().map(|(id, _)| id)
    }

    /// Returns what the session knows about the request, or `None` for a notification.
    #[must_use]
    pub fn request(&self) -> Option<&RequestContext> {
        self.request.as_ref().map(|(_, context)| context)
    }

    /// Returns the facts of the protocol revision that the request uses. `None` before the peers have agreed on a revision.
    #[must_use]
    pub fn profile(&self) -> Option<&'static Profile> {
        self.request().map(|context| context.profile).or_else(|| self.core.lock().session.profile())
    }

    /// Returns how the client that sent the request describes itself. These are its own statements: nothing is verified.
    #[must_use]
    pub fn client(&self) -> Option<&Arc<ClientInfo>> {
        self.request().map(|context| &context.client)
    }

    /// Returns a permit to encode a result of `bytes` on a blocking thread, or `None` if it is encoded in place.
    pub(crate) fn offload_permit(&self, bytes: usize) -> Option<Permit> {
        self.core.offload.permit(bytes)
    }

    /// Returns which transport the request arrived on, and the verified identity of its sender where there is one.
    #[must_use]
    pub fn origin(&self) -> Option<&Arc<Origin>> {
        self.request().map(|context| &context.origin)
    }

    /// Returns the head of the HTTP request that brought the message: its headers, its URI, its extensions. `None` on any other
    /// transport, and for a notification.
    ///
    /// It is shared and not copied. Every header is present, those with credentials included (`Authorization`, `Cookie`): this
    /// crate never logs them, and `Debug` of the head shows them as `Sensitive`. Work that continues as a task keeps the head, which
    /// counts among the bytes of the task.
    ///
    /// [`header`](Self::header) reads one header, and [`extension`](Self::extension) what middleware has added.
    #[cfg(feature = "http-server")]
    #[must_use]
    pub fn http(&self) -> Option<&http::request::Parts> {
        self.http_request().map(|request| &request.parts)
    }

    /// Returns the value of a header of the HTTP request that brought the message. The case of the name does not matter. `None`
    /// if there is none, if its value is not visible ASCII, and wherever [`http`](Self::http) returns none. Of several with this
    /// name it is the first.
    ///
    /// ```
    /// use mcpjoin::server::{Context, NoArguments, Server, tool};
    ///
    /// async fn agent(_: NoArguments, cx: Context) -> String {
    ///     cx.header("user-agent").unwrap_or("no header").to_owned()
    /// }
    ///
    /// let server = Server::builder("headers", "1.0.0").tool(tool("agent"), agent).build()?;
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    #[cfg(feature = "http-server")]
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.http()?.headers.get(name)?.to_str().ok()
    }

    /// Returns the value of this type that stands beside the HTTP request: what the admission has added
    /// ([`Admitted::extensions`](crate::transport::Admitted::extensions)), or what middleware of axum or tower has put into the
    /// extensions of the request. `None` if there is none, and wherever [`http`](Self::http) returns none.
    ///
    /// ```
    /// use mcpjoin::server::{Context, HandlerError, NoArguments, Server, tool};
    ///
    /// /// Inserted by the middleware that authenticates.
    /// #[derive(Clone)]
    /// struct User { name: String }
    ///
    /// async fn greet(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    ///     let user = cx.extension::<User>().ok_or_else(|| HandlerError::new("nobody is logged in"))?;
    ///     Ok(format!("Hello, {}", user.name))
    /// }
    ///
    /// let server = Server::builder("greeter", "1.0.0").tool(tool("greet"), greet).build()?;
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    #[cfg(feature = "http-server")]
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.http_request()?.extension()
    }

    #[cfg(feature = "http-server")]
    fn http_request(&self) -> Option<&RequestParts> {
        self.origin()?.attachment.as_ref()?.downcast_ref()
    }

    /// Returns the bytes of the HTTP head that this context keeps, beside the message.
    pub(crate) fn head_bytes(&self) -> usize {
        #[cfg(feature = "http-server")]
        return self.http_request().map_or(0, RequestParts::bytes);
        #[cfg(not(feature = "http-server"))]
        0
    }

    /// Reports the progress of the request to its sender.
    ///
    /// Nothing is sent if the sender did not ask for progress. A report that has not been sent yet is replaced by a newer
    /// one, so this may be called as often as there is news. `progress` must increase; it has the same unit as `total`.
    ///
    /// # Errors
    /// [`NotifyRefused`] if the request is not being handled any more.
    pub fn progress(
        &self,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) -> Result<(), NotifyRefused> {
        self.send(|session, id| session.progress(id, progress, total, message))
    }

    /// Sends a log message to the sender of the request, if the sender wants messages of this level.
    ///
    /// # Errors
    /// [`NotifyRefused`] if the request is not being handled any more, or if the server does not declare logging.
    pub fn log(&self, level: LoggingLevel, logger: Option<&str>, data: Raw) -> Result<(), NotifyRefused> {
        let mut message = LogMessageParams::new(level, data);
        message.logger = logger.map(ToOwned::to_owned);
        self.send(|session, id| session.log(id, &message))
    }

    /// Sends a notification that belongs to the request, in order with everything else that belongs to it.
    ///
    /// The session checks only what it must. A server that sends notifications which its client did not ask for violates
    /// the specification.
    ///
    /// # Errors
    /// [`NotifyRefused`] if the request is not being handled any more, if the revision has no such notification, if a
    /// capability that it needs was not declared, or if the peer reads too slowly.
    pub fn notify(&self, notification: Notification) -> Result<(), NotifyRefused> {
        self.send(|session, id| session.notify(notification, Route::ReplyTo(id.clone())))
    }

    /// Returns the peer's reason for cancelling the request, while the handler's future is being dropped for it.
    #[doc(hidden)]
    pub fn cancel_reason(&self) -> Option<String> {
        self.core.lock().cancel_reason.clone()
    }

    /// Closes the event stream of the request if its sender can resume it: over HTTP at 2025-11-25, with an event store.
    /// Does nothing elsewhere.
    ///
    /// # Errors
    /// [`NotifyRefused`] if the request is not being handled any more.
    pub fn close_sse_stream(&self) -> Result<(), NotifyRefused> {
        self.send(Session::close_stream)
    }

    /// Sends something that belongs to the request, if the request is still being handled. The number tells it from a later
    /// request with the same id, which over HTTP may even be another client's.
    fn send(
        &self,
        send: impl FnOnce(&mut Session, &RequestId) -> Result<(), NotifyRefused>,
    ) -> Result<(), NotifyRefused> {
        let Some((id, request)) = &self.request else { return Err(NotifyRefused::NoSuchRequest) };
        self.core.with_session(|session| {
            if !session.is_handling(id, request.number) {
                return Err(NotifyRefused::NoSuchRequest);
            }
            send(session, id)
        })
    }

    /// Starts a request to the peer on behalf of this request.
    ///
    /// In the modern era a server cannot do so: it answers with `Reply::NeedInput` instead.
    pub fn call(&self, mut call: Call) -> Calling {
        call.on_behalf_of = self.request_id().cloned();
        Calling::new(self.core.clone(), call)
    }

    /// Returns the connection that the request arrived on.
    #[must_use]
    pub fn connection(&self) -> Connection {
        Connection::from_core(self.core.clone())
    }

    /// Returns whether the response is not needed any more: the request was cancelled, or it has its response.
    ///
    /// A handler's own future is dropped when its request is cancelled. This is for work that runs elsewhere.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        match &self.request {
            Some((id, request)) => !self.core.lock().session.is_handling(id, request.number),
            None => false,
        }
    }

    /// Waits until the response is not needed any more, as [`is_cancelled`](Self::is_cancelled) says. Waits forever for a
    /// notification. Cancel-safe.
    pub async fn cancelled(&self) {
        let Some((id, request)) = &self.request else { return std::future::pending().await };
        let mut watch = EndWatch { core: &self.core, id, place: None };
        poll_fn(|cx| {
            let mut waker = TaskWaker::new(cx);
            let mut state = self.core.lock();
            if !state.session.is_handling(id, request.number) {
                return Poll::Ready(());
            }
            watch.place = Some(state.wait_for_end(id, watch.place, &mut waker));
            Poll::Pending
        })
        .await;
    }
}

/// Removes its waker from the list of those that wait for the end of a request.
struct EndWatch<'a> {
    core: &'a Core,
    id: &'a RequestId,
    place: Option<u64>,
}

impl Drop for EndWatch<'_> {
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
