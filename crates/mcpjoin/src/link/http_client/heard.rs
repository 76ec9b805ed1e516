//! Which events of a session have been taken, whatever stream they came on: none is taken twice.
//!
//! Kept by the link. The ids of events are unique among all streams of a session
//! (<https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery>), and servers
//! are seen that give whoever resumes a stream the events of all others, too. Others are seen that count the events of each
//! stream for itself, so an event is known by its id and what it says.

use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher as _;

/// How many events are remembered: many times what is under way at once, in less than half a megabyte.
const REMEMBERED: usize = 8192;

/// An event with an id, as it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    key: u64,
    /// It came on a stream that goes on from an event: it may have come before.
    resumed: bool,
}

impl Mark {
    pub(super) fn new(state: &RandomState, id: &[u8], data: &[u8], resumed: bool) -> Self {
        Self { key: state.hash_one((id, data)), resumed }
    }

    pub(super) const fn is_resumed(self) -> bool {
        self.resumed
    }
}

/// The events that have been taken.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Whether each has come on a stream that was resumed.
    events: HashMap<u64, bool>,
    order: VecDeque<u64>,
}

impl Heard {
    /// Notes an event that is taken now; says whether it is the first time. The streams that answer the requests
    /// themselves bring each event once: only where one of two was resumed are they the same.
    pub(super) fn is_new(&mut self, Mark { key, resumed }: Mark) -> bool {
        match self.events.entry(key) {
            Entry::Occupied(mut before) => {
                let new = !(resumed || *before.get());
                *before.get_mut() |= resumed;
                new
            }
            Entry::Vacant(place) => {
                place.insert(resumed);
                self.order.push_back(key);
                if self.order.len() > REMEMBERED
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.events.remove(&oldest);
                }
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_the_same_where_one_of_two_streams_was_resumed() {
        let state = RandomState::new();
        let mark = |id: &str, data: &str, resumed| Mark::new(&state, id.as_bytes(), data.as_bytes(), resumed);
        let mut heard = Heard::default();
        assert!(heard.is_new(mark("1", "a", false)));
        assert!(heard.is_new(mark("1", "b", false)), "another one");
        assert!(heard.is_new(mark("1", "a", false)), "two streams that were not resumed");
        assert!(!heard.is_new(mark("1", "a", true)));
        assert!(heard.is_new(mark("2", "a", true)));
        assert!(!heard.is_new(mark("2", "a", false)), "it was given to another stream before");
    }

    #[test]
    fn so_many_are_remembered_and_no_more() {
        let state = RandomState::new();
        let mark = |id: usize| Mark::new(&state, &id.to_le_bytes(), b"", true);
        let mut heard = Heard::default();
        for id in 0..=REMEMBERED {
            assert!(heard.is_new(mark(id)));
        }
        assert_eq!((heard.events.len(), heard.order.len()), (REMEMBERED, REMEMBERED));
        assert!(heard.is_new(mark(0)) && !heard.is_new(mark(REMEMBERED)));
    }
}
