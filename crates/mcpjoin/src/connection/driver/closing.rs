//! Closes the transport at the end of a connection, or reopens it.
//!
//! Part of the driver, called at the end of its turns. It sends nothing to the peer: the session has done so.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use mcpjoin_proto::Time;
use mcpjoin_proto::session::{CloseCause, Inbound, TransportEnd, TransportEndKind};

use super::{Driver, Stage};
use crate::connection::core::Core;

impl Driver {
    pub(super) fn reopen(&mut self, cx: &mut TaskContext<'_>, core: &Arc<Core>) -> bool {
        let Poll::Ready(outcome) = self.io.poll_reopen(cx) else { return false };
        let mut state = core.lock();
        match outcome {
            Ok(()) => {
                state.session.reopened(core.now());
                self.stage = Stage::Running;
            }
            Err(cause) => {
                self.stage = Stage::Running;
                state.session.handle(core.now(), Inbound::Closed { cause });
                self.take_events(&mut state);
            }
        }
        drop(state);
        self.run_events(cx, core);
        true
    }

    /// Lets the queued messages leave, then closes the transport.
    pub(super) fn close_link(&mut self, cx: &mut TaskContext<'_>, core: &Arc<Core>, now: Time) {
        if let Stage::Flushing(cause, until) = &self.stage {
            let flushed = self.io.poll_flush(cx);
            if flushed.is_pending() && now < *until {
                return;
            }
            if flushed.is_pending() {
                self.io.discard();
            }
            self.stage = Stage::Closing(cause.clone());
        }
        let Stage::Closing(cause) = &self.stage else { return };
        let Poll::Ready(end) = self.io.poll_close(cx) else { return };
        let cause = with_exit(CloseCause::clone(cause), end);
        let mut state = core.lock();
        state.closed = Some(Arc::new(cause));
        state.link_closed = true;
        self.wake.extend(state.take_watchers());
        state.grant_calls(now, &mut self.wake);
        drop(state);
        self.stage = Stage::Gone;
    }
}

/// Adds to the cause what is known only after the transport has ended: the exit status of a child, replies that were
/// not written.
fn with_exit(cause: CloseCause, end: TransportEnd) -> CloseCause {
    match cause {
        CloseCause::Link(first) if first.exit.is_none() && end.exit.is_some() => {
            CloseCause::Link(TransportEnd { kind: first.kind, ..end })
        }
        // The peer closed the stream in order, and some replies could not be written.
        CloseCause::Link(first)
            if first.kind.is_closed() && matches!(end.kind, TransportEndKind::Failed(_)) =>
        {
            CloseCause::Link(TransportEnd { kind: end.kind, ..first })
        }
        cause => cause,
    }
}

/// Wakes everything that still waits: the driver was dropped before the connection had ended.
impl Drop for Driver {
    fn drop(&mut self) {
        self.running = None;
        if matches!(self.stage, Stage::Gone) {
            return;
        }
        let core = self.core.clone();
        let mut state = core.lock();
        state.session.close();
        self.take_events(&mut state);
        state.closed.get_or_insert_with(|| Arc::new(CloseCause::Local));
        state.link_closed = true;
        self.wake.extend(state.take_watchers());
        self.wake.extend(state.call_queue.drain());
        state.all_requests_ended(&mut self.wake);
        drop(state);
        for waker in self.wake.drain(..) {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::session::{ProcessExit, TransportError};

    use super::*;

    #[test]
    fn what_is_known_only_after_the_end_is_reported_with_it() {
        let (over, failed) =
            (TransportEnd::end_of_stream(), TransportEnd::failed(TransportError::new("not written", false)));
        let exited = TransportEnd { exit: Some(ProcessExit::Code(3)), ..TransportEnd::end_of_stream() };
        for (cause, end, told) in [
            (&over, &over, &over),
            (&over, &exited, &exited),
            (&over, &failed, &failed),
            (&failed, &over, &failed),
            (&exited, &over, &exited),
        ] {
            let told = CloseCause::Link(told.clone());
            assert_eq!(with_exit(CloseCause::Link(cause.clone()), end.clone()), told, "{cause:?} {end:?}");
        }
        assert_eq!(with_exit(CloseCause::Local, exited), CloseCause::Local);
    }
}
