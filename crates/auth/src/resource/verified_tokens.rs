//! A cache of tokens that were verified a moment ago, by their digests: no token is stored. `ResourceServer` asks it before it
//! has a token verified.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use mcpjoin::transport::Admitted;

/// The cache, with a fixed number of places.
pub(super) struct VerifiedTokens {
    places: usize,
    time: Duration,
    table: Mutex<HashMap<[u8; 32], Known>>,
}

struct Known {
    admitted: Admitted,
    until: Instant,
}

impl VerifiedTokens {
    pub(super) fn new(places: usize, time: Duration) -> Self {
        Self { places, time, table: Mutex::default() }
    }

    pub(super) fn find(&self, digest: &[u8; 32], now: Instant) -> Option<Admitted> {
        self.table.lock().get(digest).filter(|known| known.until > now).map(|known| known.admitted.clone())
    }

    /// Stores a token that was verified at `now`.
    pub(super) fn insert(&self, digest: [u8; 32], admitted: Admitted, now: Instant) {
        let until = admitted.until.map_or(now + self.time, |until| until.min(now + self.time));
        let mut table = self.table.lock();
        if table.len() >= self.places && !table.contains_key(&digest) {
            table.retain(|_, known| known.until > now);
            if table.len() >= self.places {
                // All are valid: the cache is cleared, and each is verified once more.
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

    use super::VerifiedTokens;
    use mcpjoin::transport::Admitted;

    fn admitted(until: Option<Instant>) -> Admitted {
        let mut admitted = Admitted::new("p");
        admitted.until = until;
        admitted
    }

    #[test]
    fn one_is_remembered_for_its_time_and_never_beyond_its_end() {
        let (verified_tokens, now) = (VerifiedTokens::new(2, Duration::from_secs(60)), Instant::now());
        let soon = now + Duration::from_secs(5);
        verified_tokens.insert([1; 32], admitted(None), now);
        verified_tokens.insert([2; 32], admitted(Some(soon)), now);
        assert!(verified_tokens.find(&[1; 32], now + Duration::from_secs(59)).is_some());
        assert!(verified_tokens.find(&[1; 32], now + Duration::from_secs(60)).is_none());
        assert!(verified_tokens.find(&[2; 32], now + Duration::from_secs(4)).is_some());
        assert!(verified_tokens.find(&[2; 32], soon).is_none());
        assert!(verified_tokens.find(&[3; 32], now).is_none());
    }

    #[test]
    fn there_are_never_more_than_places() {
        let (verified_tokens, now) = (VerifiedTokens::new(3, Duration::from_secs(60)), Instant::now());
        for number in 0..100 {
            verified_tokens.insert([number; 32], admitted(None), now);
            assert!(verified_tokens.table.lock().len() <= 3);
            assert!(verified_tokens.find(&[number; 32], now).is_some());
        }
        // Expired entries are removed first.
        let late = now + Duration::from_secs(61);
        verified_tokens.insert([200; 32], admitted(None), late);
        assert!(verified_tokens.find(&[200; 32], late).is_some());
    }
}
