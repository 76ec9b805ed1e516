//! How far a call is, for a client that has asked for it. Orchestra says nothing of that, so what is told is how long it
//! has been, and what a tool that answers bit by bit has said.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, Interval, interval_at};

use super::handler::Asked;

/// What is told while nothing else is known.
const WORKING: &str = "the orchestrator is working on it";

/// The progress of one call, in seconds.
pub(super) struct Beats<'a> {
    asked: Asked<'a>,
    begun: Instant,
    beats: Interval,
    last: f64,
}

impl<'a> Beats<'a> {
    pub(super) fn new(asked: Asked<'a>) -> Self {
        let begun = Instant::now();
        let heartbeat = asked.shared.heartbeat.max(Duration::from_millis(1));
        Self { asked, begun, beats: interval_at(begun + heartbeat, heartbeat), last: 0.0 }
    }

    /// Waits for that, and says now and then that it still does.
    pub(super) async fn during<T>(&mut self, waited_for: impl Future<Output = T>) -> T {
        let mut waited_for = pin!(waited_for);
        loop {
            tokio::select! {
                biased;
                outcome = &mut waited_for => return outcome,
                _ = self.beats.tick() => self.tell(WORKING),
            }
        }
    }

    pub(super) fn tell(&mut self, message: &str) {
        // It has to grow, also when two things come at once.
        self.last = self.begun.elapsed().as_secs_f64().max(self.last.next_up());
        // Not sent when nobody asked for it, or when nobody waits any more.
        let _ = self.asked.cx.progress(self.last, None, Some(message));
    }
}
