//! The latency of calls.

use std::time::{Duration, Instant};

/// The latencies of all measured calls.
#[derive(Default)]
pub(crate) struct Latencies(Vec<u32>);

impl Latencies {
    pub(crate) fn push(&mut self, sent: Instant, now: Instant) {
        self.0.push(u32::try_from((now - sent).as_nanos()).unwrap_or(u32::MAX));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The latency that this share of the calls does not exceed, in microseconds.
    pub(crate) fn below(&mut self, share: f64) -> f64 {
        self.0.sort_unstable();
        let at = ((self.0.len() as f64 * share) as usize).min(self.0.len().saturating_sub(1));
        self.0.get(at).map_or(f64::NAN, |nanos| Duration::from_nanos(u64::from(*nanos)).as_secs_f64() * 1e6)
    }
}
