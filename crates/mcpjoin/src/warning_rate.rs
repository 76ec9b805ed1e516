//! How often a warning about a peer is logged.
//!
//! A peer decides how often it misbehaves, and must not decide how long the log becomes: each kind of problem is logged at most
//! once in [`WARNING_INTERVAL`], with the number of those that were not logged. Used by the HTTP server and, through `internal`,
//! by the gateway. It never logs by itself.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::sync::Mutex;
use tokio::time::Instant;

/// The time between two warnings of one kind: an operator sees that it goes on, and a log of a day has 1,440 lines of it.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// For each kind of problem, the time of the last warning and the number of those since then. `K` has few values.
#[derive(Debug)]
pub struct WarningRate<K>(Mutex<HashMap<K, (Instant, u64)>>);

impl<K> Default for WarningRate<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> WarningRate<K> {
    /// Returns how many warnings of this kind were left out since the last one. `None` if this one is left out, too.
    pub fn due(&self, kind: K) -> Option<u64> {
        let (mut known, now) = (self.0.lock(), Instant::now());
        match known.get_mut(&kind) {
            Some((last, left_out)) if now.duration_since(*last) < WARNING_INTERVAL => {
                *left_out += 1;
                None
            }
            _ => Some(known.insert(kind, (now, 0)).map_or(0, |(_, left_out)| left_out)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_kind_of_problem_is_logged_once_a_minute_with_the_number_of_the_others() {
        let rate = WarningRate::default();
        assert_eq!((rate.due("a"), rate.due("b")), (Some(0), Some(0)));
        tokio::time::advance(WARNING_INTERVAL - Duration::from_millis(1)).await;
        assert_eq!((rate.due("a"), rate.due("a")), (None, None));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!((rate.due("a"), rate.due("b"), rate.due("a")), (Some(2), Some(0), None));
    }
}
