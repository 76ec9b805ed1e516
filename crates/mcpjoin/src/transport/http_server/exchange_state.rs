//! The state of one exchange, and of all exchanges of a session: what [`Wire`](super::wire::Wire) holds behind its lock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use mcpjoin_proto::session::Inbound;
use mcpjoin_proto::{Message, RequestId, Response};
use tokio::time::Sleep;

use super::events::Confirmation;
use super::legacy::cancels;
use super::reply::Status;
use super::wire::{GET_STREAM, Refused};

/// Received messages that the connection has not read. Beyond it, a client that sends a request is asked to retry.
const MAX_UNREAD_MESSAGES: usize = 256;

/// Their bytes, beside one message that always fits.
const MAX_UNREAD_BYTES: usize = 1024 * 1024;

/// Notifications have as much room again, which no request takes.
const NOTIFICATION_FACTOR: usize = 2;

/// Events kept for a stream without a reader: the newest ones.
const MAX_BACKLOG_EVENTS: usize = 256;

/// Their bytes, beside one event that is always kept.
const MAX_BACKLOG_BYTES: usize = 256 * 1024;

/// The state of all exchanges of a session.
#[derive(Default)]
pub(super) struct State {
    /// Received messages that the connection has not read, with their sizes.
    pub(super) unread: VecDeque<(Inbound, usize)>,
    pub(super) unread_bytes: usize,
    pub(super) driver: Option<Waker>,
    pub(super) closed: bool,
    pub(super) get_stream: ExchangeState,
    /// The request whose exchange the GET stream is: [`Routing::Exchange`].
    pub(super) request: Option<RequestId>,
    pub(super) posts: BTreeMap<u64, Box<ExchangeState>>,
    /// The stream on which the reply to each request is pending.
    pub(super) reply_streams: BTreeMap<RequestId, u64>,
    /// Our requests without a response.
    pub(super) our_requests: BTreeSet<RequestId>,
    pub(super) last_stream: u64,
    pub(super) last_holder: u64,
    /// The timer of an exchange whose response has begun. It may still run.
    pub(super) timer: Option<Pin<Box<Sleep>>>,
}

/// The state of one exchange.
#[derive(Default)]
pub(super) struct ExchangeState {
    pub(super) form: Form,
    /// The event without data that is sent before all others. In a box, because an idle session has none.
    pub(super) priming: Option<Box<Queued>>,
    /// The requests that it answers, where another process may have to know them.
    pub(super) requests: Box<[RequestId]>,
    /// Events that wait for the reader.
    pub(super) queue: VecDeque<Queued>,
    pub(super) bytes: usize,
    /// The number of the last event.
    pub(super) last: u64,
    pub(super) waker: Option<Waker>,
    /// Pending replies.
    pub(super) pending: usize,
    pub(super) ended: bool,
    /// The reader, if there is one.
    pub(super) reader: Option<u64>,
    /// No client can resume it.
    pub(super) abandoned: bool,
    /// Its reader was detached behind the queued events, and resumes the stream for what follows.
    pub(super) detached: bool,
    /// The connection was closed before it has read the requests.
    pub(super) unread: bool,
}

/// An event that waits for its reader.
pub(super) struct Queued {
    pub(super) number: u64,
    pub(super) bytes: Bytes,
    /// What it waits for, if it is being stored.
    pub(super) confirmation: Option<Confirmation>,
}

#[derive(Default)]
pub(super) enum Form {
    /// Undecided.
    #[default]
    Open,
    Json(Status, Bytes),
    Stream,
}

/// The reader of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reader {
    pub(super) stream: u64,
    pub(super) number: u64,
}

/// Wakers to wake after the lock is released.
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

/// The received messages; `None` for an invalid part of a batch.
fn messages(inbound: &Inbound) -> impl Iterator<Item = Option<&Message>> {
    let (one, parts) = match inbound {
        Inbound::Message { message, .. } => (Some(Some(message)), &[][..]),
        Inbound::Batch { parts, .. } => (None, &parts[..]),
        _ => (None, &[][..]),
    };
    one.into_iter().chain(parts.iter().map(|part| part.as_ref().ok()))
}

impl Queued {
    /// Polls what is sent of it: without the line of its id if it could not be stored, so that no client resumes there.
    pub(super) fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let Some(confirmation) = &mut self.confirmation else { return Poll::Ready(self.bytes.clone()) };
        let Poll::Ready(stored) = confirmation.poll(cx) else { return Poll::Pending };
        self.confirmation = None;
        let line = self.bytes.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        Poll::Ready(if stored { self.bytes.clone() } else { self.bytes.slice(line..) })
    }
}

impl ExchangeState {
    /// Keeps the newest of the events that no reader takes, and none where memory is short.
    pub(super) fn trim(&mut self, crowded: bool) {
        if crowded {
            self.queue.clear();
            self.bytes = 0;
        }
        while self.queue.len() > MAX_BACKLOG_EVENTS
            || (self.bytes > MAX_BACKLOG_BYTES && self.queue.len() > 1)
        {
            let Some(event) = self.queue.pop_front() else { return };
            self.bytes -= event.bytes.len();
        }
    }
}

impl State {
    /// Checks whether a received message may be queued. A message that settles a request is never refused because of requests:
    /// its sender may not retry. It is limited by the number of our requests, and by `room` in bytes.
    pub(super) fn check(&self, inbound: &Inbound, size: usize, room: usize) -> Result<(), Refused> {
        if self.closed {
            return Err(Refused::Closed);
        }
        let settles = |message: &Message| match message {
            Message::Response(Response { id, .. }) => {
                id.as_ref().is_some_and(|id| self.our_requests.contains(id))
            }
            message => cancels(message).is_some_and(|id| self.reply_streams.contains_key(&id)),
        };
        let asks = |message: &Message| matches!(message, Message::Request(_));
        let mut messages = messages(inbound).peekable();
        let (mut asking, mut settling) = (messages.peek().is_none(), true);
        for message in messages {
            asking |= message.is_none_or(asks);
            settling &= message.is_some_and(settles);
        }
        let (most, most_bytes) = match (asking, settling) {
            (true, _) => (MAX_UNREAD_MESSAGES, MAX_UNREAD_BYTES),
            (false, false) => {
                (NOTIFICATION_FACTOR * MAX_UNREAD_MESSAGES, NOTIFICATION_FACTOR * MAX_UNREAD_BYTES)
            }
            (false, true) => (usize::MAX, room),
        };
        let fits = self.unread.is_empty()
            || (self.unread.len() < most && self.unread_bytes.saturating_add(size) <= most_bytes);
        if fits { Ok(()) } else { Err(Refused::Full) }
    }

    pub(super) fn take_in(&mut self, inbound: Inbound, size: usize) {
        for message in messages(&inbound) {
            if let Some(Message::Response(Response { id: Some(id), .. })) = message {
                self.our_requests.remove(id);
            }
        }
        if self.unread.capacity() == 0 {
            self.unread.reserve_exact(1);
        }
        self.unread_bytes += size;
        self.unread.push_back((inbound, size));
    }

    pub(super) fn take_out(&mut self) -> Option<Inbound> {
        let (inbound, size) = self.unread.pop_front()?;
        self.unread_bytes -= size;
        Some(inbound)
    }

    /// Drops what the connection has not read, and notes on the exchanges of its requests that nothing was done.
    pub(super) fn drop_unread(&mut self) {
        self.unread_bytes = 0;
        for (inbound, _) in std::mem::take(&mut self.unread) {
            for message in messages(&inbound).flatten() {
                if let Message::Request(request) = message
                    && let Some(stream) = self.reply_streams.get(&request.id)
                    && let Some(slot) = self.posts.get_mut(stream)
                {
                    slot.unread = true;
                }
            }
        }
    }

    pub(super) fn attach_reader(&mut self, stream: u64) -> Reader {
        self.last_holder += 1;
        Reader { stream, number: self.last_holder }
    }

    pub(super) fn slot(&mut self, stream: u64) -> Option<&mut ExchangeState> {
        if stream == GET_STREAM {
            Some(&mut self.get_stream)
        } else {
            self.posts.get_mut(&stream).map(Box::as_mut)
        }
    }

    pub(super) fn held(&mut self, reader: Reader) -> Option<&mut ExchangeState> {
        self.slot(reader.stream).filter(|slot| slot.reader == Some(reader.number))
    }

    /// Removes a POST without pending replies and without a reader.
    pub(super) fn sweep(&mut self, stream: u64) {
        let over = |slot: &ExchangeState| slot.pending == 0 && slot.reader.is_none();
        if self.posts.get(&stream).is_some_and(|slot| over(slot)) {
            self.posts.remove(&stream);
        }
    }

    /// Releases the capacity of empty maps, and the timer that no exchange uses.
    pub(super) fn shrink(&mut self) {
        if self.posts.is_empty() && self.reply_streams.is_empty() && self.unread.is_empty() {
            self.timer = None;
            self.unread = VecDeque::new();
            self.posts = BTreeMap::new();
            self.reply_streams = BTreeMap::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::session::TransportEnd;

    use super::*;

    /// Far above the limit for requests.
    const ROOM_BYTES: usize = 100 * MAX_UNREAD_BYTES;

    fn inbound() -> Inbound {
        Inbound::Closed { cause: TransportEnd::end_of_stream() }
    }

    #[test]
    fn messages_that_wait_to_be_read_are_bounded_by_number_and_bytes() {
        let mut state = State::default();
        for _ in 0..MAX_UNREAD_MESSAGES {
            assert_eq!(state.check(&inbound(), 1, ROOM_BYTES), Ok(()));
            state.take_in(inbound(), 1);
        }
        assert_eq!(state.check(&inbound(), 0, ROOM_BYTES), Err(Refused::Full));
        let mut state = State::default();
        assert_eq!(
            state.check(&inbound(), 10 * MAX_UNREAD_BYTES, ROOM_BYTES),
            Ok(()),
            "the first always fits"
        );
        state.take_in(inbound(), MAX_UNREAD_BYTES - 1);
        let check = |size| state.check(&inbound(), size, ROOM_BYTES);
        assert_eq!((check(1), check(2)), (Ok(()), Err(Refused::Full)));
    }

    fn queued(number: u64, length: usize) -> Queued {
        Queued { number, bytes: vec![b'x'; length].into(), confirmation: None }
    }

    fn waiting(events: usize, length: usize) -> ExchangeState {
        let queue: VecDeque<_> = (1..=events as u64).map(|number| queued(number, length)).collect();
        ExchangeState { queue, bytes: events * length, ..ExchangeState::default() }
    }

    #[test]
    fn the_newest_events_are_kept_for_a_stream_without_a_reader() {
        for (events, length, kept) in [
            (MAX_BACKLOG_EVENTS, 1, MAX_BACKLOG_EVENTS),
            (MAX_BACKLOG_EVENTS + 44, 1, MAX_BACKLOG_EVENTS),
            (4, MAX_BACKLOG_BYTES / 4, 4),
            (4, MAX_BACKLOG_BYTES / 4 + 1, 3),
            (2, MAX_BACKLOG_BYTES + 1, 1),
        ] {
            let mut slot = waiting(events, length);
            slot.trim(false);
            assert_eq!((slot.queue.len(), slot.bytes), (kept, kept * length), "{events} of {length} bytes");
            assert_eq!(slot.queue.back().map(|event| event.number), Some(events as u64));
            slot.trim(true);
            assert_eq!((slot.queue.len(), slot.bytes), (0, 0), "none where there is little room");
        }
    }
}
