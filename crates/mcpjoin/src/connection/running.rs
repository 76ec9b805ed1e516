//! Handlers at work: polled where the driver is, with their panics caught and their long polls reported.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use mcpjoin_proto::session::Reply;
use mcpjoin_proto::{ErrorObject, RequestId};

use super::context::Context;
use crate::handler::Answer;

/// A handler that keeps the thread for longer than this at a time is reported.
const LONG_POLL: Duration = Duration::from_millis(50);

/// A handler that was not ready at once.
pub(super) struct Running {
    pub(super) id: Option<RequestId>,
    pub(super) method: Box<str>,
    pub(super) context: Context,
    pub(super) future: RunningFuture,
}

pub(super) enum RunningFuture {
    Request(Answer),
    Notification(Pin<Box<dyn Future<Output = ()> + Send>>),
}

/// What became of a handler.
pub(super) enum Finished {
    Answered(RequestId, Result<Reply, ErrorObject>),
    Told,
    Cancelled,
}

impl Future for Running {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Finished> {
        let this = &mut *self;
        if this.context.poll_cancelled(cx).is_ready() {
            return Poll::Ready(Finished::Cancelled);
        }
        match &mut this.future {
            RunningFuture::Request(future) => {
                let polled = poll_answer(future, &this.method, cx, &mut Instant::now());
                match (polled, this.id.take()) {
                    (Poll::Ready(answer), Some(id)) => Poll::Ready(Finished::Answered(id, answer)),
                    (Poll::Ready(_), None) => Poll::Ready(Finished::Cancelled),
                    (Poll::Pending, id) => {
                        this.id = id;
                        Poll::Pending
                    }
                }
            }
            RunningFuture::Notification(future) => {
                let started = Instant::now();
                let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
                report_long_poll(&this.method, started);
                match polled {
                    Ok(Poll::Pending) => Poll::Pending,
                    Ok(Poll::Ready(())) => Poll::Ready(Finished::Told),
                    Err(panic) => {
                        drop(panicked(&this.method, &*panic));
                        Poll::Ready(Finished::Told)
                    }
                }
            }
        }
    }
}

/// Polls a handler where it is. A panic ends its request alone, and a poll that takes long is reported. `clock`
/// says when the poll begins, and then when it has ended, which is when the next one may begin.
pub(super) fn poll_answer(
    future: &mut Answer,
    method: &str,
    cx: &mut TaskContext<'_>,
    clock: &mut Instant,
) -> Poll<Result<Reply, ErrorObject>> {
    let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
    *clock = report_long_poll(method, *clock);
    match polled {
        Ok(poll) => poll,
        Err(panic) => Poll::Ready(Err(panicked(method, &*panic))),
    }
}

/// Says what time it is now.
fn report_long_poll(method: &str, started: Instant) -> Instant {
    let now = Instant::now();
    let took = now.saturating_duration_since(started);
    if took > LONG_POLL {
        tracing::warn!(
            target: "mcpjoin",
            method,
            ?took,
            "a handler kept the connection's thread; computing and blocking work belongs in `blocking(..)`"
        );
    }
    now
}

/// The answer to a request whose handler has panicked. What the panic said stays on this side: it may hold
/// secrets.
pub(super) fn panicked(method: &str, panic: &(dyn Any + Send)) -> ErrorObject {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("something that is no text");
    tracing::error!(target: "mcpjoin", method, panic = said, "a handler panicked");
    ErrorObject::internal("the handler of this request failed")
}
