//! The event store: events of legacy streams, kept so that a client can resume a broken stream.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery>. A modern client
//! has nothing to resume: with a broken stream its request is lost.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};

use crate::sync::Mutex;
use bytes::Bytes;
use mcpjoin_proto::RequestId;
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

/// Bytes of events that [`MemoryEvents`] keeps for one session: 1 MiB. The newest event may be larger.
const MAX_SESSION_BYTES: usize = 1024 * 1024;

/// Bytes of events that it keeps for all sessions: 256 MiB.
const MAX_TOTAL_BYTES: usize = 256 * 1024 * 1024;

/// Bytes that an event takes beside its text.
const EVENT_OVERHEAD_BYTES: usize = 96;

/// The name of a legacy session: 128 random bits, written as 32 hexadecimal digits. That of a stored session is a digest of its
/// id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId([u8; 16]);

/// Identifies an event of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventId {
    /// The stream; 0 is the stream that the client opens with GET.
    pub stream: u64,
    /// The number of the event on its stream, from 1. 0 means before the first event.
    pub number: u64,
}

/// An event that was sent, or was to be sent.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// The event as it is written to the stream, with its id. Its first line is the id. Empty if nothing is written: at the begin of
    /// a stream, and at the end of one without a response.
    pub bytes: Bytes,
    /// It is the last event of its stream.
    pub last: bool,
}

/// What resumes a stream.
pub type Replay<'a> = Pin<Box<dyn Future<Output = Result<Option<Replayed>, EventStoreError>> + Send + 'a>>;

/// What a store has of a stream for a client that resumes it.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The events that the client has missed, in order.
    pub events: Vec<Event>,
    /// What follows them.
    pub end: StreamEnd,
}

/// How a stream ends behind the events that are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// More events may come.
    Open,
    /// The last event is stored.
    Ended,
    /// The process of a shared store is gone and has not stored the last event. The client gets an error for each of the requests with
    /// which the stream has begun.
    ProcessGone(Vec<RequestId>),
}

/// Why a store gives no answer. The client gets 503, and may try again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event store is not available: {0}")]
pub struct EventStoreError(pub Box<str>);

/// Tells a stream that an event is stored. If it is dropped before, the event is not stored.
#[derive(Debug)]
pub struct Confirm(oneshot::Sender<()>);

/// What a stream waits for before it sends an event: that the event is stored.
#[derive(Debug)]
pub struct Confirmation(oneshot::Receiver<()>);

impl Confirm {
    /// A pair for one event.
    #[must_use]
    pub fn new() -> (Self, Confirmation) {
        let (confirm, confirmation) = oneshot::channel();
        (Self(confirm), Confirmation(confirmation))
    }

    /// The event is stored.
    pub fn stored(self) {
        // The stream may have ended.
        let _ = self.0.send(());
    }
}

impl Confirmation {
    /// Waits until it is known whether the event is stored. Cancel-safe.
    pub async fn wait(&mut self) -> bool {
        (&mut self.0).await.is_ok()
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        Pin::new(&mut self.0).poll(cx).map(|stored| stored.is_ok())
    }
}

/// Stores the events of legacy sessions for clients that resume a stream.
///
/// [`MemoryEvents`] stores them in this process. A store outside of the process sends them on in
/// [`append`](Self::append), and confirms each event once it is stored.
pub trait EventStore: Send + Sync + 'static {
    /// Stores an event. The numbers of a stream are consecutive. Must not block, and what is stored must be bounded: the oldest
    /// events may be dropped at any time.
    ///
    /// `None`: nothing has to be waited for. Otherwise the event is sent after the confirmation, which must come soon: by drop of
    /// [`Confirm`] if the event cannot be stored in time. Then it is sent without its id, and must not be replayed. If the
    /// confirmation is dropped, the event is to be stored all the same.
    fn append(&self, session: &SessionId, event: Event) -> Option<Confirmation>;

    /// Stores that a stream begins, with the requests that it answers. The number of `id` is 0. Called for a shared store only, and
    /// maybe more than once before the first event. Confirmed like an event. By default it appends an event without data.
    fn begin(&self, session: &SessionId, id: EventId, requests: &[RequestId]) -> Option<Confirmation> {
        let _ = requests;
        self.append(session, Event { id, bytes: Bytes::new(), last: false })
    }

    /// Returns the events of a stream after `after` and before the number `before`, in order. `None` when one of them is no
    /// longer stored: then the stream cannot be resumed, and the client gets an error. Where `before` is the largest number, a
    /// shared store returns those that are there; the client asks again for the others unless the stream has ended. Otherwise the
    /// [`end`](Replayed::end) has no meaning.
    fn replay<'a>(&'a self, session: &'a SessionId, after: EventId, before: u64) -> Replay<'a>;

    /// Drops the events of a session that has ended.
    fn forget(&self, session: &SessionId);

    /// Whether all processes that serve a stored session see the same events
    /// ([`SessionStore`](super::SessionStore)). A shared store gets the events of stored sessions, and no others; a store that is
    /// not shared, which is the default, gets those of all other sessions.
    fn is_shared(&self) -> bool {
        false
    }
}

/// Stores events in memory: for each session the newest 1 MiB (its newest event always), and 256 MiB in all.
///
/// For a new event, the oldest events of all sessions are dropped. An event above the total is not stored. A stream that has
/// lost an event cannot be resumed before it: the client gets 400.
#[derive(Debug)]
pub struct MemoryEvents {
    session_bytes: usize,
    all_bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    sessions: HashMap<SessionId, Log>,
    bytes: usize,
    /// The sessions by the age of their oldest event.
    oldest: BTreeMap<u64, SessionId>,
    /// The age of the newest event: a counter of all events.
    last: u64,
}

#[derive(Debug, Default)]
struct Log {
    /// The events with their ages, oldest first.
    events: VecDeque<(u64, Event)>,
    bytes: usize,
}

fn cost(event: &Event) -> usize {
    event.bytes.len() + EVENT_OVERHEAD_BYTES
}

impl Kept {
    /// Drops the oldest event of a session.
    fn drop_oldest(&mut self, session: &SessionId) -> Option<Event> {
        let log = self.sessions.get_mut(session)?;
        let (age, event) = log.events.pop_front()?;
        log.bytes -= cost(&event);
        self.bytes -= cost(&event);
        self.oldest.remove(&age);
        if let Some((age, _)) = log.events.front() {
            self.oldest.insert(*age, *session);
        } else {
            self.sessions.remove(session);
        }
        Some(event)
    }

    fn bytes_of(&self, session: &SessionId) -> usize {
        self.sessions.get(session).map_or(0, |log| log.bytes)
    }

    fn append(&mut self, session: &SessionId, event: Event) {
        self.last += 1;
        let log = self.sessions.entry(*session).or_default();
        if log.events.is_empty() {
            self.oldest.insert(self.last, *session);
        }
        log.bytes += cost(&event);
        self.bytes += cost(&event);
        log.events.push_back((self.last, event));
    }
}

impl SessionId {
    /// The name that consists of these bytes. For stores and their tests: a name is no permission.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// A new id from the system's source of random bytes.
    pub(super) fn random() -> Option<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// The name, in this process, of a stored session: a digest of its id.
    pub(super) fn of_stored(id: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(id.as_bytes()).into();
        let (name, _) = digest.split_first_chunk().expect("32 bytes are more than 16");
        Self(*name)
    }

    /// Parses the output of [`fmt::Display`].
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let (pairs, []) = text.as_chunks::<2>() else { return None };
        let pairs: &[[u8; 2]; 16] = pairs.try_into().ok()?;
        let digit = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 16];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The id of a session is a secret: it is enough to take part in the session. So `Debug` does not show it.
impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(***)")
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.number)
    }
}

/// The text is no event id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not an event id")]
pub struct EventIdError;

impl FromStr for EventId {
    type Err = EventIdError;

    fn from_str(text: &str) -> Result<Self, EventIdError> {
        let (stream, number) = text.split_once('-').ok_or(EventIdError)?;
        let digits = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            if plain { text.parse().map_err(|_| EventIdError) } else { Err(EventIdError) }
        };
        Ok(Self { stream: digits(stream)?, number: digits(number)? })
    }
}

impl MemoryEvents {
    /// A store with the limits in the description of [`MemoryEvents`].
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(MAX_SESSION_BYTES, MAX_TOTAL_BYTES)
    }

    /// A store with these limits in bytes: of one session, and of all.
    #[must_use]
    pub fn with_limits(session_bytes: usize, all_bytes: usize) -> Self {
        Self { session_bytes, all_bytes, kept: Mutex::default() }
    }

    /// The number of bytes that are stored now.
    #[doc(hidden)]
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.kept.lock().bytes
    }
}

impl Default for MemoryEvents {
    fn default() -> Self {
        Self::new()
    }
}

impl EventStore for MemoryEvents {
    fn append(&self, session: &SessionId, event: Event) -> Option<Confirmation> {
        let cost = cost(&event);
        let mut kept = self.kept.lock();
        let mut dropped = Vec::new();
        while kept.bytes_of(session) + cost > self.session_bytes
            && let Some(event) = kept.drop_oldest(session)
        {
            dropped.push(event);
        }
        if cost <= self.all_bytes {
            while kept.bytes + cost > self.all_bytes
                && let Some((_, oldest)) = kept.oldest.first_key_value()
            {
                let oldest = *oldest;
                dropped.extend(kept.drop_oldest(&oldest));
            }
            kept.append(session, event);
        }
        drop(kept);
        drop(dropped);
        None
    }

    fn replay<'a>(&'a self, session: &'a SessionId, after: EventId, before: u64) -> Replay<'a> {
        let kept = self.kept.lock();
        let log =
            || kept.sessions.get(session).into_iter().flat_map(|log| &log.events).map(|(_, event)| event);
        let wanted = |event: &&Event| {
            event.id.stream == after.stream && event.id.number > after.number && event.id.number < before
        };
        let events: Vec<Event> = log().filter(wanted).cloned().collect();
        let known = log().any(|event| event.id == after && event.last);
        drop(kept);
        let numbers = events.iter().map(|event| event.id.number);
        let unbroken = numbers.eq((after.number + 1..).take(events.len()));
        // Complete: up to `before`, or up to the end of the stream where `before` is open.
        let whole = match events.last() {
            Some(last) => last.last || last.id.number + 1 == before,
            None => known || after.number.saturating_add(1) == before,
        };
        let is_over = events.last().map_or(known, |last| last.last);
        let end = if is_over { StreamEnd::Ended } else { StreamEnd::Open };
        Box::pin(ready(Ok((unbroken && whole).then_some(Replayed { events, end }))))
    }

    fn forget(&self, session: &SessionId) {
        let mut kept = self.kept.lock();
        let log = kept.sessions.remove(session);
        if let Some(log) = &log {
            kept.bytes -= log.bytes;
            if let Some((age, _)) = log.events.front() {
                kept.oldest.remove(age);
            }
        }
        drop(kept);
        drop(log);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(stream: u64, number: u64, length: usize) -> Event {
        Event {
            id: EventId { stream, number },
            bytes: vec![b'x'; length - EVENT_OVERHEAD_BYTES].into(),
            last: false,
        }
    }

    /// How many events the store returns from the first one on; `None` when some are lost.
    async fn replayed(store: &MemoryEvents, session: &SessionId, after: u64, before: u64) -> Option<usize> {
        let after = EventId { stream: 1, number: after };
        store.replay(session, after, before).await.expect("in memory").map(|replayed| replayed.events.len())
    }

    #[tokio::test]
    async fn events_of_a_session_exactly_at_its_bound_are_kept() {
        let store = MemoryEvents::with_limits(1_000, 1 << 20);
        let session = SessionId([1; 16]);
        store.append(&session, event(1, 1, 600));
        store.append(&session, event(1, 2, 400));
        assert_eq!((store.bytes(), replayed(&store, &session, 0, 3).await), (1_000, Some(2)));
        store.append(&session, event(1, 3, EVENT_OVERHEAD_BYTES));
        assert_eq!(
            (store.bytes(), replayed(&store, &session, 0, 4).await),
            (400 + EVENT_OVERHEAD_BYTES, None)
        );
        assert_eq!(replayed(&store, &session, 1, 4).await, Some(2));
        store.append(&session, event(1, 4, 5_000));
        assert_eq!((store.bytes(), replayed(&store, &session, 3, 5).await), (5_000, Some(1)), "the newest");
    }

    #[tokio::test]
    async fn the_oldest_events_of_all_sessions_go_first_and_the_total_is_exact() {
        let store = MemoryEvents::with_limits(10_000, 1_000);
        let [a, b, c] = [1, 2, 3].map(|id| SessionId([id; 16]));
        store.append(&a, event(1, 1, 300));
        store.append(&b, event(1, 1, 300));
        store.append(&a, event(1, 2, 400));
        assert_eq!(store.bytes(), 1_000);
        store.append(&c, event(1, 1, 301));
        assert_eq!(
            store.bytes(),
            701,
            "both of the oldest, to make room for one byte more than the first had"
        );
        assert_eq!(replayed(&store, &a, 0, 3).await, None);
        assert_eq!(replayed(&store, &a, 1, 3).await, Some(1));
        assert_eq!(replayed(&store, &b, 0, 2).await, None);
        assert_eq!(replayed(&store, &c, 0, 2).await, Some(1));
        for session in [a, b, c] {
            store.forget(&session);
        }
        let kept = store.kept.lock();
        assert_eq!((kept.bytes, kept.sessions.len(), kept.oldest.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn an_event_above_the_total_is_not_kept_and_its_stream_cannot_be_resumed_before_it() {
        let store = MemoryEvents::with_limits(500, 1_000);
        let session = SessionId([1; 16]);
        store.append(&session, event(1, 1, 200));
        store.append(&session, event(1, 2, 1_000));
        assert_eq!((store.bytes(), replayed(&store, &session, 1, 3).await), (1_000, Some(1)));
        store.append(&session, event(1, 3, 1_001));
        assert_eq!(store.bytes(), 0);
        for after in 0..3 {
            assert_eq!(replayed(&store, &session, after, 4).await, None, "after {after}");
            assert_eq!(replayed(&store, &session, after, u64::MAX).await, None, "after {after}");
        }
        store.append(&session, event(1, 4, 200));
        assert_eq!(replayed(&store, &session, 2, 5).await, None);
        assert_eq!(replayed(&store, &session, 3, 5).await, Some(1));
    }
}
