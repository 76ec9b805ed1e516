//! What answers a peer.
//!
//! A [`Handler`] sees every request and notification that the session has let through. `server` and `client`
//! are handlers; so is whatever a user writes for a server of another kind: two methods, not one per method
//! of the specification.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mcpjoin_proto::session::Reply;
use mcpjoin_proto::{ErrorObject, Notification, Request};

use crate::connection::Context;

/// Answers what a peer asks.
///
/// Each future is polled in the task that drives the connection: at once when the request comes, and again
/// when it is woken. So a handler that is ready at once costs no task and no hop; one that computes for long
/// or blocks the thread belongs on another thread (`server::blocking`). A panic ends that request with
/// an internal error and nothing else.
///
/// When the peer cancels the request, or the connection ends, the future is dropped where it waits.
pub trait Handler: Send + Sync + 'static {
    /// Answers a request.
    fn request(
        &self,
        request: Request,
        context: Context,
    ) -> impl Future<Output = Result<Reply, ErrorObject>> + Send;

    /// Hears a notification. What the session itself understands (cancellation, progress) does not come here.
    fn notification(&self, notification: Notification, context: Context) -> impl Future<Output = ()> + Send {
        let _ = (notification, context);
        async {}
    }
}

/// A handler that offers nothing: every request is an unknown method.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Handler for Nothing {
    async fn request(&self, request: Request, _: Context) -> Result<Reply, ErrorObject> {
        Err(ErrorObject::method_not_found(request.method.as_str()))
    }
}

/// The answer to a request, on its way.
pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = Result<Reply, ErrorObject>> + Send>>;

/// The form in which a connection keeps a handler: object-safe, and its futures own what they need. A shared [`Handler`]
/// has it; `server` has it alone, to make one future per call of a tool and not two.
#[doc(hidden)]
pub trait ErasedHandler: Send + Sync {
    fn request(&self, request: Request, context: Context) -> ResponseFuture;

    fn notification(
        &self,
        notification: Notification,
        context: Context,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

impl<H: Handler> ErasedHandler for Arc<H> {
    fn request(&self, request: Request, context: Context) -> ResponseFuture {
        let handler = self.clone();
        // Said in full: an `Arc` has this trait's method of that name, too.
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

/// A handler that others keep, too.
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
