//! Requests of ours that ended before their response came: cancelled, timed out, or ended by a notification of the peer.
//!
//! Cancellation races with the response, so what the peer still sends about such a request breaks no rule:
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation#timing-considerations>. Called by
//! `shared` and `modern`.

use alloc::collections::VecDeque;

use crate::RequestId;

/// How many of them are remembered for a connection, 8 bytes each: as many as may cross in one round trip of a client that
/// cancels much. What comes about one forgotten before that is reported as [`Violation::LateReply`](super::Violation).
const REMEMBERED: usize = 1024;

/// The ids of such requests, oldest first.
#[derive(Default)]
pub(super) struct Abandoned(VecDeque<i64>);

impl Abandoned {
    pub(super) fn add(&mut self, id: i64) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(id);
    }

    pub(super) fn contains(&self, id: i64) -> bool {
        self.0.contains(&id)
    }

    /// The response to a request has come. Says whether it was one of these; a second response is none.
    pub(super) fn answered(&mut self, id: &RequestId) -> bool {
        let place = id.as_i64().and_then(|id| self.0.iter().position(|abandoned| *abandoned == id));
        place.and_then(|place| self.0.remove(place)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_expected_once_and_the_oldest_is_forgotten() {
        let mut abandoned = Abandoned::default();
        (0..=1024).for_each(|id| abandoned.add(id));
        assert!(!abandoned.contains(0) && !abandoned.answered(&0.into()));
        assert!(abandoned.contains(1) && abandoned.contains(1024));
        assert!(abandoned.answered(&1024.into()) && !abandoned.answered(&1024.into()));
        assert!(!abandoned.answered(&"1".into()));
        assert_eq!(abandoned.0.len(), 1023);
    }
}
