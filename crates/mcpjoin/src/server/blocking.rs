//! Where handlers run.
//!
//! On a runtime with several threads each handler runs in a task of its own, so that one that computes or blocks for a
//! while delays no other handler of its connection. On a runtime with one thread, and where the server says so
//! ([`ServerBuilder::inline_handlers`](super::ServerBuilder::inline_handlers),
//! [`TypedTool::inline`](super::TypedTool::inline)), a handler runs in the task of its connection, which costs less.
//! [`blocking`] runs one handler on a thread for such work, on every runtime. Everywhere a handler is inside the span of
//! `tracing` that is current when it is called, such as that of a layer.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use mcpjoin_proto::Method;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;
use tracing::{Instrument as _, Span};

use super::{Context, HandlerError};
use crate::connection::WatchedResponse;
use crate::handler::ResponseFuture;

/// Returns whether the current runtime has other threads to run handlers on.
pub(super) fn has_other_threads() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() != RuntimeFlavor::CurrentThread)
}

/// Runs the response of a handler in a task of its own. Long polls are reported and panics are caught, as in the task of
/// the connection. Dropping the returned future drops the handler at its next await.
pub(super) fn in_own_task(method: Method, response: ResponseFuture) -> ResponseFuture {
    let task = Offloaded(tokio::spawn(WatchedResponse::new(method, response).in_current_span()));
    Box::pin(async move { task.await.unwrap_or_else(HandlerError::into_reply) })
}

/// Runs a blocking or long-computing handler on a thread of the runtime's blocking pool.
///
/// ```
/// use mcpjoin::server::{Context, NoArguments, Server, blocking, tool};
///
/// let work = blocking(|_: NoArguments, _: Context| std::fs::read_to_string("/etc/hostname"));
/// let server = Server::builder("files", "1.0.0").tool(tool("host"), work).build()?;
/// # Ok::<(), mcpjoin::server::BuildError>(())
/// ```
///
/// A handler that runs cannot be stopped from outside: if it takes long, it should check [`Context::is_cancelled`] now
/// and then. One that has not started when the peer cancels never starts.
pub fn blocking<I, O, F>(f: F) -> impl Fn(I, Context) -> Offloaded<O> + Send + Sync + 'static
where
    I: Send + 'static,
    O: Send + 'static,
    F: Fn(I, Context) -> O + Clone + Send + Sync + 'static,
{
    move |input, cx| {
        let f = f.clone();
        let span = Span::current();
        Offloaded(tokio::task::spawn_blocking(move || span.in_scope(|| f(input, cx))))
    }
}

/// A handler that runs on another thread. Dropping it stops the handler, as far as possible.
#[derive(Debug)]
#[must_use = "dropping it ends the work"]
pub struct Offloaded<O>(JoinHandle<O>);

impl<O> Future for Offloaded<O> {
    type Output = Result<O, HandlerError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|outcome| match outcome {
            Ok(output) => Ok(output),
            // The driver turns a panic into an error, wherever it happened.
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => Err(HandlerError::new("the server is shutting down")),
        })
    }
}

impl<O> Drop for Offloaded<O> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
