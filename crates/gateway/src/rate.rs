//! A token bucket: how often something may happen, with a burst after a pause.
//!
//! Used by `capacity` for starts of servers and by `policy` for requests. It keeps no state: the caller stores the time
//! at which the bucket is full again, for each account.

use std::time::Duration;

use tokio::time::Instant;

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rate {
    /// The time between two events.
    pub(super) period: Duration,
    /// Events at once after a pause.
    pub(super) burst: u32,
}

impl Rate {
    /// Takes a token from a bucket that is full again at `full`. Returns the new time at which it is full, and how long
    /// the event must wait.
    pub(super) fn take(self, full: Option<Instant>, now: Instant) -> (Instant, Duration) {
        let full = full.unwrap_or(now).max(now) + self.period;
        let delay = full.duration_since(now).saturating_sub(self.period.saturating_mul(self.burst));
        (full, delay)
    }
}
