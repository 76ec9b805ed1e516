//! What the driver does when its time has come.
//!
//! Part of the driver, called at the end of its turns: deadlines of the session, of whoever waits for room, and of a peer
//! that takes nothing any more.

use std::future::Future as _;
use std::sync::Arc;
use std::task::Context as TaskContext;

use mcpjoin_proto::Time;
use mcpjoin_proto::session::Inbound;

use super::{Driver, Stage};
use crate::connection::core::Core;

impl Driver {
    /// Does what is due, and sets the timer to what is due next.
    pub(super) fn handle_timers(&mut self, cx: &mut TaskContext<'_>, core: &Arc<Core>, now: Time) {
        let failure = self.write_failure.take_if(|failure| failure.1 <= now);
        if failure.is_some() || self.due.is_some_and(|due| due <= now) {
            let mut state = core.lock();
            if let Some((cause, _)) = failure.map(|failure| *failure) {
                state.session.handle(now, Inbound::Closed { cause });
            }
            state.session.handle_timeout(now);
            self.take_events(&mut state);
            state.call_queue.expire(now, &mut self.wake);
            self.update_due(&state);
            drop(state);
            self.run_events(cx, core);
            // What was done may leave something to send, as a cancellation does, and sending comes before this.
            cx.waker().wake_by_ref();
        }
        let flush_until = match &self.stage {
            Stage::Flushing(_, until) => Some(*until),
            _ => None,
        };
        let failure = self.write_failure.as_ref().map(|failure| failure.1);
        if let Some(at) = [self.due, flush_until, failure].into_iter().flatten().min() {
            self.set_timer(cx, core, now, at);
        }
    }

    /// Has the task woken at that time, or earlier: a timer that rings early costs less than one that is set
    /// anew for every request.
    fn set_timer(&mut self, cx: &mut TaskContext<'_>, core: &Arc<Core>, now: Time, at: Time) {
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(core.instant(at))));
        if at < self.timer_at || self.timer_at <= now {
            timer.as_mut().reset(core.instant(at));
            self.timer_at = at;
        } else if self.timer_waker.will_wake(cx.waker()) {
            // It knows already whom to wake.
            return;
        }
        if timer.as_mut().poll(cx).is_ready() {
            self.timer_at = Time::ZERO;
            cx.waker().wake_by_ref();
        }
        self.timer_waker.clone_from(cx.waker());
    }
}
