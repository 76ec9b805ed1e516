//! The queue of calls that wait for capacity: their order and their timeouts.
//!
//! Used by `core` and, through it, by `calling` and `driver`. A call times out if it waits for as long as it may take
//! without a sign of life while no other call leaves the queue. As long as the queue moves, nothing in it times out. An
//! entry without a timeout waits as long as the connection lives.

use std::task::Waker;
use std::time::Duration;

use mcpjoin_proto::Time;
use mcpjoin_proto::sorted_map::SortedMap;

use super::core::TaskWaker;

/// The queue.
pub(super) struct CallQueue {
    waiting: SortedMap<u64, Waiter>,
    next: u64,
    /// When an entry last left the queue because there was capacity.
    last_granted: Time,
    /// No entry times out before this. The deadlines are computed again then.
    due: Time,
}

struct Waiter {
    waker: Waker,
    /// When it entered the queue, and its timeout. `None`: no timeout.
    timeout: Option<(Time, Duration)>,
}

impl CallQueue {
    pub(super) const fn new() -> Self {
        Self { waiting: SortedMap::new(), next: 0, last_granted: Time::ZERO, due: Time::FAR }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Enters the queue, at `place` if it has been in the queue before. Returns the place, and whether the next
    /// deadline is earlier now.
    pub(super) fn enter(
        &mut self,
        place: Option<u64>,
        timeout: Option<(Time, Duration)>,
        task: &mut TaskWaker,
    ) -> (u64, bool) {
        let place = place.unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        let Some(waker) = task.take() else { return (place, false) };
        let waiter = Waiter { waker, timeout };
        let deadline = self.deadline(&waiter);
        task.keep(self.waiting.insert(place, waiter).map(|waiter| waiter.waker));
        let earlier = deadline < self.due;
        self.due = self.due.min(deadline);
        (place, earlier)
    }

    /// Leaves the queue. Returns `None` if the entry was removed before, because there was capacity or it has timed
    /// out. Drop the waker after the lock is released.
    #[must_use]
    pub(super) fn leave(&mut self, place: u64) -> Option<Waker> {
        self.waiting.remove(&place).map(|waiter| waiter.waker)
    }

    /// Whether an entry that has waited since `since` has timed out.
    pub(super) fn has_timed_out(&self, now: Time, since: Time, timeout: Duration) -> bool {
        self.last_granted.max(since) + timeout <= now
    }

    fn deadline(&self, waiter: &Waiter) -> Time {
        waiter.timeout.map_or(Time::FAR, |(since, timeout)| self.last_granted.max(since) + timeout)
    }

    /// Removes the `count` oldest entries: there is capacity for them.
    pub(super) fn grant(&mut self, now: Time, count: usize, wake: &mut Vec<Waker>) {
        let first = std::iter::from_fn(|| self.waiting.pop_first()).take(count);
        let before = wake.len();
        wake.extend(first.map(|(_, waiter)| waiter.waker));
        if wake.len() > before {
            self.last_granted = now;
        }
    }

    /// When to call [`CallQueue::expire`] next.
    pub(super) fn due(&self) -> Option<Time> {
        (self.due < Time::FAR).then_some(self.due)
    }

    /// Removes the entries that have timed out.
    pub(super) fn expire(&mut self, now: Time, wake: &mut Vec<Waker>) {
        if now < self.due {
            return;
        }
        let late: Vec<u64> = self
            .waiting
            .iter()
            .filter(|(_, waiter)| self.deadline(waiter) <= now)
            .map(|(place, _)| *place)
            .collect();
        wake.extend(late.iter().filter_map(|place| self.waiting.remove(place)).map(|waiter| waiter.waker));
        self.due = self.waiting.values().map(|waiter| self.deadline(waiter)).min().unwrap_or(Time::FAR);
    }

    /// Removes all entries: the connection has ended.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Waker> {
        std::mem::take(&mut self.waiting).into_values().map(|waiter| waiter.waker)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Context;

    use super::*;

    const fn at(seconds: u64) -> Time {
        Time::from_epoch(Duration::from_secs(seconds))
    }

    fn waker() -> TaskWaker {
        TaskWaker::new(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn who_waits_while_nothing_moves_is_late_and_who_waits_in_a_queue_that_moves_is_not() {
        let (mut queue, mut wake) = (CallQueue::new(), Vec::new());
        let timeout = Duration::from_secs(10);
        let enter =
            |queue: &mut CallQueue, since: u64| queue.enter(None, Some((at(since), timeout)), &mut waker());
        let (first, earlier) = enter(&mut queue, 1);
        assert!(earlier);
        let (second, earlier) = enter(&mut queue, 2);
        assert!(!earlier);
        let (unlimited, _) = queue.enter(None, None, &mut waker());
        assert_eq!(queue.due(), Some(at(11)));
        // The first call gets room, so the time of the second one starts again.
        queue.grant(at(10), 1, &mut wake);
        assert_eq!(wake.len(), 1);
        assert!(queue.leave(first).is_none());
        queue.expire(at(11), &mut wake);
        assert_eq!((wake.len(), queue.due()), (1, Some(at(20))));
        assert!(!queue.has_timed_out(at(19), at(2), timeout));
        assert!(queue.has_timed_out(at(20), at(2), timeout));
        queue.expire(at(20), &mut wake);
        assert_eq!((wake.len(), queue.due()), (2, None));
        assert!(queue.leave(second).is_none());
        assert!(queue.leave(unlimited).is_some() && queue.is_empty());
    }

    #[test]
    fn only_an_earlier_deadline_wakes_the_driver() {
        let mut queue = CallQueue::new();
        assert!(!queue.enter(None, None, &mut waker()).1, "it has no end");
        for earlier in [true, false] {
            let timeout = Some((at(1), Duration::from_secs(1)));
            assert_eq!(queue.enter(None, timeout, &mut waker()).1, earlier);
        }
    }
}
