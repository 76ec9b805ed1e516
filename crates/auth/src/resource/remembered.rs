//! Tokens that were verified a moment ago, by their digests: no token is kept.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use mcpjoin::link::Admitted;

/// A table of them, with so many places.
pub(super) struct Remembered {
    places: usize,
    time: Duration,
    table: Mutex<HashMap<[u8; 32], Known>>,
}

struct Known {
    admitted: Admitted,
    until: Instant,
}

impl Remembered {
    pub(super) fn new(places: usize, time: Duration) -> Self {
        Self { places, time, table: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Known>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find(&self, digest: &[u8; 32], now: Instant) -> Option<Admitted> {
        self.lock().get(digest).filter(|known| known.until > now).map(|known| known.admitted.clone())
    }

    /// Remembers one that was verified at `now`.
    pub(super) fn insert(&self, digest: [u8; 32], admitted: Admitted, now: Instant) {
        let until = admitted.until.map_or(now + self.time, |until| until.min(now + self.time));
        let mut table = self.lock();
        if table.len() >= self.places && !table.contains_key(&digest) {
            table.retain(|_, known| known.until > now);
            if table.len() >= self.places {
                // So many are good at once: they are verified again, each once.
                table.clear();
            }
        }
        table.insert(digest, Known { admitted, until });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::Remembered;
    use mcpjoin::link::Admitted;

    fn admitted(until: Option<Instant>) -> Admitted {
        let mut admitted = Admitted::new("p");
        admitted.until = until;
        admitted
    }

    #[test]
    fn one_is_remembered_for_its_time_and_never_beyond_its_end() {
        let (remembered, now) = (Remembered::new(2, Duration::from_secs(60)), Instant::now());
        let soon = now + Duration::from_secs(5);
        remembered.insert([1; 32], admitted(None), now);
        remembered.insert([2; 32], admitted(Some(soon)), now);
        assert!(remembered.find(&[1; 32], now + Duration::from_secs(59)).is_some());
        assert!(remembered.find(&[1; 32], now + Duration::from_secs(60)).is_none());
        assert!(remembered.find(&[2; 32], now + Duration::from_secs(4)).is_some());
        assert!(remembered.find(&[2; 32], soon).is_none());
        assert!(remembered.find(&[3; 32], now).is_none());
    }

    #[test]
    fn there_are_never_more_than_places() {
        let (remembered, now) = (Remembered::new(3, Duration::from_secs(60)), Instant::now());
        for number in 0..100 {
            remembered.insert([number; 32], admitted(None), now);
            assert!(remembered.lock().len() <= 3);
            assert!(remembered.find(&[number; 32], now).is_some());
        }
        // Those that are over make room first.
        let late = now + Duration::from_secs(61);
        remembered.insert([200; 32], admitted(None), late);
        assert!(remembered.find(&[200; 32], late).is_some());
    }
}
