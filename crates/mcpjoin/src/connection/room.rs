//! Who waits for room to make a call: in which order, and for how long.
//!
//! Used by `core` and, through it, by `calling` and `driver`. Every place of a call has an end: whoever has not got room
//! for as long as the call may take without a sign of life, while nobody else got any either, is told so. As long as
//! the queue moves, nobody in it is late. Whoever waits to tell something waits as long as the connection lives.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

use mcpjoin_proto::Time;

use super::core::Waking;

/// The queue.
pub(super) struct Room {
    waiting: BTreeMap<u64, Waiter>,
    next: u64,
    /// When somebody last got room.
    moved: Time,
    /// Nobody is late before that: looked at again then.
    due: Time,
}

struct Waiter {
    waker: Waker,
    /// Since when, and how long at most; `None` for whoever waits as long as the connection lives.
    patience: Option<(Time, Duration)>,
}

impl Room {
    pub(super) const fn new() -> Self {
        Self { waiting: BTreeMap::new(), next: 0, moved: Time::ZERO, due: Time::FAR }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a place. Whoever had one before keeps it. True when somebody is due earlier now.
    pub(super) fn enter(
        &mut self,
        place: Option<u64>,
        patience: Option<(Time, Duration)>,
        waking: &mut Waking,
    ) -> (u64, bool) {
        let place = place.unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        let Some(waker) = waking.take() else { return (place, false) };
        let waiter = Waiter { waker, patience };
        let end = self.end(&waiter);
        waking.keep(self.waiting.insert(place, waiter).map(|waiter| waiter.waker));
        let earlier = end < self.due;
        self.due = self.due.min(end);
        (place, earlier)
    }

    /// Gives a place back; `None` when it was taken away, because there was room or it was late. The waker is to be dropped
    /// when the lock is not held any more.
    #[must_use]
    pub(super) fn leave(&mut self, place: u64) -> Option<Waker> {
        self.waiting.remove(&place).map(|waiter| waiter.waker)
    }

    /// Whether whoever has waited since then has waited too long.
    pub(super) fn is_late(&self, now: Time, since: Time, patience: Duration) -> bool {
        self.moved.max(since) + patience <= now
    }

    fn end(&self, waiter: &Waiter) -> Time {
        waiter.patience.map_or(Time::FAR, |(since, patience)| self.moved.max(since) + patience)
    }

    /// Room for so many: those who have waited longest.
    pub(super) fn take(&mut self, now: Time, count: usize, wake: &mut Vec<Waker>) {
        let first = std::iter::from_fn(|| self.waiting.pop_first()).take(count);
        let before = wake.len();
        wake.extend(first.map(|(_, waiter)| waiter.waker));
        if wake.len() > before {
            self.moved = now;
        }
    }

    /// When to call [`Room::take_late`] next.
    pub(super) fn due(&self) -> Option<Time> {
        (self.due < Time::FAR).then_some(self.due)
    }

    /// Those who have waited too long.
    pub(super) fn take_late(&mut self, now: Time, wake: &mut Vec<Waker>) {
        if now < self.due {
            return;
        }
        let late: Vec<u64> = self
            .waiting
            .iter()
            .filter(|(_, waiter)| self.end(waiter) <= now)
            .map(|(place, _)| *place)
            .collect();
        wake.extend(late.iter().filter_map(|place| self.waiting.remove(place)).map(|waiter| waiter.waker));
        self.due = self.waiting.values().map(|waiter| self.end(waiter)).min().unwrap_or(Time::FAR);
    }

    /// Everybody: the connection is gone.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Waker> {
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

    fn waking() -> Waking {
        Waking::new(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn who_waits_while_nothing_moves_is_late_and_who_waits_in_a_queue_that_moves_is_not() {
        let (mut room, mut wake) = (Room::new(), Vec::new());
        let patience = Duration::from_secs(10);
        let enter =
            |room: &mut Room, since: u64| room.enter(None, Some((at(since), patience)), &mut waking());
        let (first, earlier) = enter(&mut room, 1);
        assert!(earlier);
        let (second, earlier) = enter(&mut room, 2);
        assert!(!earlier);
        let (endless, _) = room.enter(None, None, &mut waking());
        assert_eq!(room.due(), Some(at(11)));
        // The first gets room, so the second's time begins anew.
        room.take(at(10), 1, &mut wake);
        assert_eq!(wake.len(), 1);
        assert!(room.leave(first).is_none());
        room.take_late(at(11), &mut wake);
        assert_eq!((wake.len(), room.due()), (1, Some(at(20))));
        assert!(!room.is_late(at(19), at(2), patience));
        assert!(room.is_late(at(20), at(2), patience));
        room.take_late(at(20), &mut wake);
        assert_eq!((wake.len(), room.due()), (2, None));
        assert!(room.leave(second).is_none());
        assert!(room.leave(endless).is_some() && room.is_empty());
    }

    #[test]
    fn who_is_due_no_earlier_than_others_wakes_nobody() {
        let mut room = Room::new();
        assert!(!room.enter(None, None, &mut waking()).1, "it has no end");
        for earlier in [true, false] {
            let patience = Some((at(1), Duration::from_secs(1)));
            assert_eq!(room.enter(None, patience, &mut waking()).1, earlier);
        }
    }
}
