//! Which events were delivered already: none is delivered twice.
//!
//! [`SeenEvents`] belongs to the transport and holds for all streams of a session, [`SeenIds`] to one stream. The ids of
//! events are unique among all streams of a session
//! (<https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery>), and some
//! servers send the events of all streams to a client that resumes one. Other servers count the events of each stream for
//! itself, so the key of an event is its id with its data.

use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasher as _;

/// Events remembered for a session: many times what is in flight at once, in less than half a megabyte.
const MAX_SEEN_EVENTS: usize = 8192;

/// Ids remembered for one stream.
const MAX_SEEN_IDS: usize = 4096;

/// The key of an event that has an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventKey {
    key: u64,
    /// The stream was resumed: the event may be a repetition.
    resumed: bool,
}

impl EventKey {
    pub(super) fn new(state: &RandomState, id: &[u8], data: &[u8], resumed: bool) -> Self {
        Self { key: state.hash_one((id, data)), resumed }
    }

    pub(super) const fn is_resumed(self) -> bool {
        self.resumed
    }
}

/// The events that were delivered.
#[derive(Debug, Default)]
pub(super) struct SeenEvents {
    /// By key: whether the event came on a resumed stream.
    events: HashMap<u64, bool>,
    order: VecDeque<u64>,
}

impl SeenEvents {
    /// Records an event. Returns whether it is to be delivered. A stream that was not resumed has each event once, so two
    /// equal events are one only if one of them came on a resumed stream.
    pub(super) fn is_new(&mut self, EventKey { key, resumed }: EventKey) -> bool {
        match self.events.entry(key) {
            Entry::Occupied(mut before) => {
                let new = !(resumed || *before.get());
                *before.get_mut() |= resumed;
                new
            }
            Entry::Vacant(place) => {
                place.insert(resumed);
                self.order.push_back(key);
                if self.order.len() > MAX_SEEN_EVENTS
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.events.remove(&oldest);
                }
                true
            }
        }
    }
}

/// The newest ids of one stream, as hashes.
#[derive(Default)]
pub(super) struct SeenIds {
    hash: RandomState,
    ids: HashSet<u64>,
    order: VecDeque<u64>,
}

impl SeenIds {
    /// Returns whether the id is new.
    pub(super) fn insert(&mut self, id: &[u8]) -> bool {
        let id = self.hash.hash_one(id);
        if !self.ids.insert(id) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > MAX_SEEN_IDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_the_same_where_one_of_two_streams_was_resumed() {
        let state = RandomState::new();
        let key =
            |id: &str, data: &str, resumed| EventKey::new(&state, id.as_bytes(), data.as_bytes(), resumed);
        let mut seen = SeenEvents::default();
        assert!(seen.is_new(key("1", "a", false)));
        assert!(seen.is_new(key("1", "b", false)), "another one");
        assert!(seen.is_new(key("1", "a", false)), "two streams that were not resumed");
        assert!(!seen.is_new(key("1", "a", true)));
        assert!(seen.is_new(key("2", "a", true)));
        assert!(!seen.is_new(key("2", "a", false)), "it came on another stream before");
    }

    #[test]
    fn the_number_of_remembered_events_is_limited() {
        let state = RandomState::new();
        let key = |id: usize| EventKey::new(&state, &id.to_le_bytes(), b"", true);
        let mut seen = SeenEvents::default();
        for id in 0..=MAX_SEEN_EVENTS {
            assert!(seen.is_new(key(id)));
        }
        assert_eq!((seen.events.len(), seen.order.len()), (MAX_SEEN_EVENTS, MAX_SEEN_EVENTS));
        assert!(seen.is_new(key(0)) && !seen.is_new(key(MAX_SEEN_EVENTS)));
    }

    #[test]
    fn the_newest_ids_of_events_are_remembered() {
        let mut seen = SeenIds::default();
        let mut insert = |id: usize| seen.insert(&id.to_le_bytes());
        assert!((0..MAX_SEEN_IDS).all(&mut insert));
        assert!(!insert(0), "as many as are remembered");
        assert!(insert(MAX_SEEN_IDS) && insert(0), "the oldest is forgotten");
        assert!((2..=MAX_SEEN_IDS).all(|id| !insert(id)));
        assert_eq!((seen.ids.len(), seen.order.len()), (MAX_SEEN_IDS, MAX_SEEN_IDS));
    }
}
