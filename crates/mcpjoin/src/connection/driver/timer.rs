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
    pub(super) fn keep_time(&mut self, cx: &mut TaskContext<'_>, core: &Arc<Core>, now: Time) {
        let deaf = self.deaf_peer.take_if(|deaf| deaf.1 <= now);
        if deaf.is_some() || self.due.is_some_and(|due| due <= now) {
            let mut state = core.lock();
            if let Some((cause, _)) = deaf.map(|deaf| *deaf) {
                state.session.handle(now, Inbound::Closed { cause });
            }
            state.session.handle_timeout(now);
            self.take_events(&mut state);
            state.room.take_late(now, &mut self.wake);
            self.note_due(&state);
            drop(state);
            self.run_events(cx, core);
            // What was done may leave something to send, as a cancellation does, and sending comes before this.
            cx.waker().wake_by_ref();
        }
        let farewell = match &self.stage {
            Stage::Farewell(_, until) => Some(*until),
            _ => None,
        };
        let deaf = self.deaf_peer.as_ref().map(|deaf| deaf.1);
        if let Some(at) = [self.due, farewell, deaf].into_iter().flatten().min() {
            self.ring_at(cx, core, now, at);
        }
    }

    /// Has the task woken at that time, or earlier: a timer that rings early costs less than one that is set
    /// anew for every request.
    fn ring_at(&mut self, cx: &mut TaskContext<'_>, core: &Arc<Core>, now: Time, at: Time) {
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(core.instant(at))));
        if at < self.timer_at || self.timer_at <= now {
            timer.as_mut().reset(core.instant(at));
            self.timer_at = at;
        } else if self.timer_wakes.will_wake(cx.waker()) {
            // It knows already whom to wake.
            return;
        }
        if timer.as_mut().poll(cx).is_ready() {
            self.timer_at = Time::ZERO;
            cx.waker().wake_by_ref();
        }
        self.timer_wakes.clone_from(cx.waker());
    }
}
