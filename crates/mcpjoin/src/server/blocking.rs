//! Runs handlers on other threads.
//!
//! A handler runs in the task that drives the connection. One that occupies the thread delays every other handler of
//! the connection. These two run it elsewhere.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use tokio::task::JoinHandle;

use super::{Context, HandlerError};

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
        Offloaded(tokio::task::spawn_blocking(move || f(input, cx)))
    }
}

/// Runs a handler that computes for a while between its awaits in a task of its own, on any thread of the runtime. It
/// is dropped at its next await when the peer cancels.
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
