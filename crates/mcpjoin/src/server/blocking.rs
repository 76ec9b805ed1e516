//! Handlers that compute or block.
//!
//! A handler runs in the task that drives the connection; one that keeps the thread keeps every other handler of
//! the connection waiting. These two send the work custom_handler:
//! `server.tool(tool("hash"), blocking(|arguments: Hash, cx| ...))`.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use tokio::task::JoinHandle;

use super::{Context, HandlerError};

/// A handler that blocks the thread or computes for long: it runs on a thread of the runtime's pool for blocking
/// work.
///
/// What has begun there cannot be ended from outside: a handler that may take long looks at
/// [`Context::is_cancelled`] now and then. What has not begun when the peer cancels never begins.
pub fn blocking<I, O, F>(f: F) -> impl Fn(I, Context) -> Offloaded<O> + Send + Sync + 'static
where
    I: Send + 'static,
    O: Send + 'static,
    F: Fn(I, Context) -> O + Clone + Send + Sync + 'static,
{
    move |input, cx| {
        let f = f.clone();
        Offloaded(tokio::task::spawn_blocking(move || f(input, cx)))
    }
}

/// A handler that computes for a while between its awaits: it runs in a task of its own, on any thread of the
/// runtime, and is ended at its next await when the peer cancels.
pub fn spawned<I, F, Fut>(f: F) -> impl Fn(I, Context) -> Offloaded<Fut::Output> + Send + Sync + 'static
where
    I: Send + 'static,
    F: Fn(I, Context) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: Send + 'static,
{
    move |input, cx| {
        let f = f.clone();
        Offloaded(tokio::spawn(async move { f(input, cx).await }))
    }
}

/// Work that runs custom_handler. Dropping it ends the work, as far as that can be done.
#[derive(Debug)]
#[must_use = "dropping it ends the work"]
pub struct Offloaded<O>(JoinHandle<O>);

impl<O> Future for Offloaded<O> {
    type Output = Result<O, HandlerError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|outcome| match outcome {
            Ok(output) => Ok(output),
            // The driver answers a panic, wherever it happened.
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
