//! How many requests a client or a target has in flight, and how fast they come.
//!
//! Used by `admission` for each request. The state belongs to [`SharedPolicy`](super::SharedPolicy) and outlives a
//! reload; the numbers are those of the current policy. It never lets a request wait: it admits or refuses.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::rate::Rate;

/// Clients whose use is remembered: the requests of so many take 1 MiB. Beyond it, the client without a request in
/// flight whose last request is the oldest is forgotten, and with it at most one burst.
pub(super) const MAX_REMEMBERED: usize = 8_192;
/// When a request may come again that was refused because others are in flight. Nothing says when those end.
const CONCURRENCY_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The limits of one client or of one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) rate: Option<Rate>,
    pub(super) concurrent: Option<u32>,
    /// Bytes of the parameters and of the result of one request.
    pub(super) bytes: Option<usize>,
}

/// Why a request is refused for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exceeded {
    /// What the limit counts: the end of a sentence that begins with its number.
    pub(super) of: &'static str,
    pub(super) limit: u32,
    pub(super) retry_after: Duration,
}

/// The use of each key.
#[derive(Debug)]
pub(super) struct Limiter<K>(Mutex<HashMap<K, Usage>>);

#[derive(Debug)]
struct Usage {
    /// When the bucket is full again.
    full: Instant,
    in_flight: u32,
    last: Instant,
}

/// A request in flight, until this is dropped.
#[derive(Debug)]
pub(super) struct Held<K: Eq + Hash> {
    limiter: Arc<Limiter<K>>,
    key: K,
}

impl<K> Default for Limiter<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash + Clone> Limiter<K> {
    /// Admits one more request. `None`: nothing limits it. A request that `stays` open, such as a stream, is counted in
    /// the rate alone.
    pub(super) fn admit(
        self: &Arc<Self>,
        key: &K,
        limits: &Limits,
        stays: bool,
    ) -> Result<Option<Held<K>>, Exceeded> {
        let concurrent = limits.concurrent.filter(|_| !stays);
        if limits.rate.is_none() && concurrent.is_none() {
            return Ok(None);
        }
        let now = Instant::now();
        let mut usages = self.0.lock();
        if !usages.contains_key(key) && usages.len() >= MAX_REMEMBERED {
            make_room(&mut usages, now)?;
        }
        let usage = usages.entry(key.clone()).or_insert(Usage { full: now, in_flight: 0, last: now });
        usage.last = now;
        if let Some(limit) = concurrent.filter(|limit| usage.in_flight >= *limit) {
            let of = "requests may be in flight at once";
            return Err(Exceeded { of, limit, retry_after: CONCURRENCY_RETRY_AFTER });
        }
        if let Some(rate) = limits.rate {
            let (full, delay) = rate.take(Some(usage.full), now);
            if !delay.is_zero() {
                return Err(Exceeded {
                    of: "requests may come at once after a pause",
                    limit: rate.burst,
                    retry_after: delay,
                });
            }
            usage.full = full;
        }
        if concurrent.is_none() {
            return Ok(None);
        }
        usage.in_flight += 1;
        drop(usages);
        Ok(Some(Held { limiter: self.clone(), key: key.clone() }))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

/// Forgets clients whose buckets are full, otherwise the one that has been unused for the longest time.
fn make_room<K: Eq + Hash + Clone>(usages: &mut HashMap<K, Usage>, now: Instant) -> Result<(), Exceeded> {
    usages.retain(|_, usage| usage.in_flight > 0 || usage.full > now);
    if usages.len() < MAX_REMEMBERED {
        return Ok(());
    }
    let unused = usages.iter().filter(|(_, usage)| usage.in_flight == 0);
    let oldest = unused.min_by_key(|(_, usage)| usage.last).map(|(key, _)| key.clone());
    let Some(oldest) = oldest else {
        return Err(Exceeded {
            of: "clients may have requests in flight at once",
            limit: u32::try_from(MAX_REMEMBERED).unwrap_or(u32::MAX),
            retry_after: CONCURRENCY_RETRY_AFTER,
        });
    };
    usages.remove(&oldest);
    Ok(())
}

impl<K: Eq + Hash> Drop for Held<K> {
    fn drop(&mut self) {
        if let Some(usage) = self.limiter.0.lock().get_mut(&self.key) {
            usage.in_flight = usage.in_flight.saturating_sub(1);
        }
    }
}
