//! Answers the requests of a peer.
//!
//! A [`Handler`] sees every request and notification that the session accepts. `server` and `client` have one each;
//! write your own for a server whose lists come from somewhere else. It has two methods, not one per method of the
//! specification.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mcpjoin_proto::session::{Peer, Reply};
use mcpjoin_proto::{ErrorObject, Notification, Request};

use crate::connection::Context;

/// Answers the requests of a peer and receives its notifications.
///
/// Each future is polled in the task that drives the connection: immediately when the request arrives, and again when
/// it is woken. A handler that is ready immediately costs no task. A handler that computes for long or blocks its
/// thread delays everything else on the connection, so run such work on another thread
/// ([`server::blocking`](crate::server::blocking())). A panic fails its request with an internal error (-32603) and
/// nothing else.
///
/// When the peer cancels the request, or when the connection ends, the future is dropped at its current await.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request.
    fn request(
        &self,
        request: Request,
        context: Context,
    ) -> impl Future<Output = Result<Reply, ErrorObject>> + Send;

    /// Receives a notification. Notifications that the session handles itself (cancellation, progress) do not arrive
    /// here.
    fn notification(&self, notification: Notification, context: Context) -> impl Future<Output = ()> + Send {
        let _ = (notification, context);
        async {}
    }
}

/// A handler that offers nothing: every request fails with -32601 (method not found).
#[cfg(test)]
pub(crate) struct Nothing;

#[cfg(test)]
impl Handler for Nothing {
    async fn request(&self, request: Request, _: Context) -> Result<Reply, ErrorObject> {
        Err(ErrorObject::method_not_found(request.method.as_str()))
    }
}

/// The response to a request, in progress.
pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = Result<Reply, ErrorObject>> + Send>>;

/// The object-safe form of a handler, whose futures own their data. Each shared [`Handler`] has it. `server` implements
/// it directly, to create one future per tool call instead of two.
#[doc(hidden)]
pub trait ErasedHandler: Send + Sync {
    fn request(&self, request: Request, context: Context) -> ResponseFuture;

    fn notification(
        &self,
        notification: Notification,
        context: Context,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Returns an equal description of the peer that another session has, if one is known. Called under the lock of the
    /// connection, when there may be thousands of them.
    fn known_peer(&self, _: &Arc<Peer>) -> Option<Arc<Peer>> {
        None
    }
}

impl<H: Handler> ErasedHandler for Arc<H> {
    fn request(&self, request: Request, context: Context) -> ResponseFuture {
        let handler = self.clone();
        // Written in full, because `Arc` has a method of this trait with the same name.
        Box::pin(async move { Handler::request(&*handler, request, context).await })
    }

    fn notification(
        &self,
        notification: Notification,
        context: Context,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let handler = self.clone();
        Box::pin(async move { Handler::notification(&*handler, notification, context).await })
    }
}

/// A handler that is shared by several connections.
pub(crate) struct SharedHandler(pub(crate) Arc<dyn ErasedHandler>);

impl ErasedHandler for SharedHandler {
    fn request(&self, request: Request, context: Context) -> ResponseFuture {
        self.0.request(request, context)
    }

    fn notification(
        &self,
        notification: Notification,
        context: Context,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.notification(notification, context)
    }
}

impl fmt::Debug for dyn ErasedHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}
