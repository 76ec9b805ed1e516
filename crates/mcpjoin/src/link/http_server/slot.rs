//! What is sent on one exchange, and what a wire keeps of all of them: the state behind its lock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::task::Waker;

use bytes::Bytes;
use mcpjoin_proto::session::Inbound;
use mcpjoin_proto::{Message, RequestId, Response};

use super::legacy::cancels;
use super::wire::{Refused, STANDING};

/// Messages that have come and that the connection has not read: beyond, a client is asked to come again with a request.
const UNREAD: usize = 256;

/// Their bytes, beside the one that always fits.
const UNREAD_BYTES: usize = 1024 * 1024;

/// Notifications have as much room again, which no request takes.
const TOLD: usize = 2;

/// Messages kept for a stream that nobody has open, the newest ones.
const KEPT: usize = 256;

/// Their bytes, beside the one that is always kept.
const KEPT_BYTES: usize = 256 * 1024;

/// What a wire keeps behind its lock.
#[derive(Default)]
pub(super) struct State {
    pub(super) unread: VecDeque<Inbound>,
    pub(super) unread_bytes: usize,
    pub(super) driver: Option<Waker>,
    pub(super) closed: bool,
    pub(super) standing: Slot,
    /// The request whose exchange the standing stream is: [`Routing::Exchange`].
    pub(super) request: Option<RequestId>,
    pub(super) posts: BTreeMap<u64, Box<Slot>>,
    /// On which stream the reply to a request is due.
    pub(super) owed: BTreeMap<RequestId, u64>,
    /// Requests of ours without a response.
    pub(super) asked: BTreeSet<RequestId>,
    pub(super) last_stream: u64,
    pub(super) last_holder: u64,
}

/// What is sent on one exchange.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) form: Form,
    /// The event without data that goes before all others.
    pub(super) priming: Option<Bytes>,
    /// Events that wait to be taken, each with its number.
    pub(super) queue: VecDeque<(u64, Bytes)>,
    pub(super) bytes: usize,
    /// The number of the last event.
    pub(super) last: u64,
    pub(super) waker: Option<Waker>,
    /// Replies that are due.
    pub(super) owes: usize,
    pub(super) ended: bool,
    /// Who reads it, if anybody does.
    pub(super) holder: Option<u64>,
    /// Nobody can come back for it.
    pub(super) forsaken: bool,
    /// Its reader is sent away behind what waits, and comes back for what follows.
    pub(super) parted: bool,
}

#[derive(Default)]
pub(super) enum Form {
    /// Not decided.
    #[default]
    Open,
    Json(u16, Bytes),
    Stream,
}

/// Whoever reads a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) stream: u64,
    pub(super) number: u64,
}

/// Wakers to be woken when the lock is not held any more.
#[derive(Default)]
pub(super) struct Wake(Option<Waker>, Vec<Waker>);

impl Wake {
    pub(super) fn add(&mut self, waker: Option<Waker>) {
        match (&self.0, waker) {
            (_, None) => {}
            (None, waker) => self.0 = waker,
            (Some(_), Some(waker)) => self.1.push(waker),
        }
    }

    pub(super) fn all(self) {
        for waker in self.0.into_iter().chain(self.1) {
            waker.wake();
        }
    }
}

pub(super) fn keep(place: &mut Option<Waker>, waker: &Waker) {
    match place {
        Some(kept) => kept.clone_from(waker),
        None => *place = Some(waker.clone()),
    }
}

/// What has come, message by message; `None` for a part that is none.
fn messages(inbound: &Inbound) -> impl Iterator<Item = Option<&Message>> {
    let (one, parts) = match inbound {
        Inbound::Message { message, .. } => (Some(Some(message)), &[][..]),
        Inbound::Batch { parts, .. } => (None, &parts[..]),
        _ => (None, &[][..]),
    };
    one.into_iter().chain(parts.iter().map(|part| part.as_ref().ok()))
}

impl Slot {
    /// Keeps the newest of what nobody reads, and nothing where there is little room.
    pub(super) fn trim(&mut self, crowded: bool) {
        if crowded {
            self.queue.clear();
            self.bytes = 0;
        }
        while self.queue.len() > KEPT || (self.bytes > KEPT_BYTES && self.queue.len() > 1) {
            let Some((_, bytes)) = self.queue.pop_front() else { return };
            self.bytes -= bytes.len();
        }
    }
}

impl State {
    /// Whether something may wait to be read. What settles a request is not refused because of requests: its sender may not
    /// come again. It is bounded by what was asked, and by `room` in bytes.
    pub(super) fn check(&self, inbound: &Inbound, size: usize, room: usize) -> Result<(), Refused> {
        if self.closed {
            return Err(Refused::Closed);
        }
        let settles = |message: &Message| match message {
            Message::Response(Response { id, .. }) => id.as_ref().is_some_and(|id| self.asked.contains(id)),
            message => cancels(message).is_some_and(|id| self.owed.contains_key(&id)),
        };
        let asks = |message: &Message| matches!(message, Message::Request(_));
        let mut messages = messages(inbound).peekable();
        let (mut asking, mut settling) = (messages.peek().is_none(), true);
        for message in messages {
            asking |= message.is_none_or(asks);
            settling &= message.is_some_and(settles);
        }
        let (most, most_bytes) = match (asking, settling) {
            (true, _) => (UNREAD, UNREAD_BYTES),
            (false, false) => (TOLD * UNREAD, TOLD * UNREAD_BYTES),
            (false, true) => (usize::MAX, room),
        };
        let fits = self.unread.is_empty()
            || (self.unread.len() < most && self.unread_bytes.saturating_add(size) <= most_bytes);
        if fits { Ok(()) } else { Err(Refused::Full) }
    }

    pub(super) fn take_in(&mut self, inbound: Inbound, size: usize) {
        for message in messages(&inbound) {
            if let Some(Message::Response(Response { id: Some(id), .. })) = message {
                self.asked.remove(id);
            }
        }
        if self.unread.capacity() == 0 {
            self.unread.reserve_exact(1);
        }
        self.unread_bytes += size;
        self.unread.push_back(inbound);
    }

    pub(super) fn hold(&mut self, stream: u64) -> Holder {
        self.last_holder += 1;
        Holder { stream, number: self.last_holder }
    }

    pub(super) fn slot(&mut self, stream: u64) -> Option<&mut Slot> {
        if stream == STANDING {
            Some(&mut self.standing)
        } else {
            self.posts.get_mut(&stream).map(Box::as_mut)
        }
    }

    pub(super) fn held(&mut self, holder: Holder) -> Option<&mut Slot> {
        self.slot(holder.stream).filter(|slot| slot.holder == Some(holder.number))
    }

    /// Forgets a POST on which nothing is due any more and that nobody reads.
    pub(super) fn sweep(&mut self, stream: u64) {
        let over = |slot: &Slot| slot.owes == 0 && slot.holder.is_none();
        if self.posts.get(&stream).is_some_and(|slot| over(slot)) {
            self.posts.remove(&stream);
        }
    }

    /// An empty map keeps the room that it had.
    pub(super) fn shrink(&mut self) {
        if self.posts.is_empty() && self.owed.is_empty() && self.unread.is_empty() {
            self.unread = VecDeque::new();
            self.posts = BTreeMap::new();
            self.owed = BTreeMap::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::session::LinkEnd;

    use super::*;

    /// Far above what requests may take.
    const ROOM: usize = 100 * UNREAD_BYTES;

    fn inbound() -> Inbound {
        Inbound::Closed { cause: LinkEnd::end_of_stream() }
    }

    #[test]
    fn messages_that_wait_to_be_read_are_bounded_by_number_and_bytes() {
        let mut state = State::default();
        for _ in 0..UNREAD {
            assert_eq!(state.check(&inbound(), 1, ROOM), Ok(()));
            state.take_in(inbound(), 1);
        }
        assert_eq!(state.check(&inbound(), 0, ROOM), Err(Refused::Full));
        let mut state = State::default();
        assert_eq!(state.check(&inbound(), 10 * UNREAD_BYTES, ROOM), Ok(()), "the first always fits");
        state.take_in(inbound(), UNREAD_BYTES - 1);
        let check = |size| state.check(&inbound(), size, ROOM);
        assert_eq!((check(1), check(2)), (Ok(()), Err(Refused::Full)));
    }

    fn waiting(events: usize, length: usize) -> Slot {
        let queue: VecDeque<_> =
            (1..=events as u64).map(|number| (number, vec![b'x'; length].into())).collect();
        Slot { queue, bytes: events * length, ..Slot::default() }
    }

    #[test]
    fn the_newest_events_are_kept_for_a_stream_without_a_reader() {
        for (events, length, kept) in [
            (KEPT, 1, KEPT),
            (KEPT + 44, 1, KEPT),
            (4, KEPT_BYTES / 4, 4),
            (4, KEPT_BYTES / 4 + 1, 3),
            (2, KEPT_BYTES + 1, 1),
        ] {
            let mut slot = waiting(events, length);
            slot.trim(false);
            assert_eq!((slot.queue.len(), slot.bytes), (kept, kept * length), "{events} of {length} bytes");
            assert_eq!(slot.queue.back().map(|(number, _)| *number), Some(events as u64));
            slot.trim(true);
            assert_eq!((slot.queue.len(), slot.bytes), (0, 0), "none where there is little room");
        }
    }
}
