//! What was sent on the event streams of legacy sessions, kept so that a client whose stream broke gets the rest.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery>. A
//! modern client has nothing to resume: a broken stream has lost its request.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Bytes of events that [`MemoryEvents`] keeps for one session: 1 MiB. The newest event is kept however large it is.
const SESSION_BYTES: usize = 1024 * 1024;

/// Bytes of events that it keeps for all sessions: 256 MiB. Beyond, a session keeps its newest event alone.
const ALL_BYTES: usize = 256 * 1024 * 1024;

/// Bytes that an event costs beside its text.
const EVENT: usize = 96;

/// The name of a legacy session: 128 random bits, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId([u8; 16]);

/// Which event on which stream of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventId {
    /// The stream; 0 is the one that is opened with GET.
    pub stream: u64,
    /// The event, counted from 1 on each stream. 0 stands before the first.
    pub number: u64,
}

/// An event that was sent, or was to be sent.
#[derive(Clone, Debug)]
pub struct Event {
    /// Which one.
    pub id: EventId,
    /// The event as it stands on the stream, its id included.
    pub bytes: Bytes,
    /// Nothing follows on this stream.
    pub last: bool,
}

/// What a stream can be resumed with.
pub type Replay<'a> = Pin<Box<dyn Future<Output = Option<Vec<Event>>> + Send + 'a>>;

/// Where the events of legacy sessions are kept for clients that come back for them.
///
/// [`MemoryEvents`] keeps them in this process. One that keeps them elsewhere hands them on in
/// [`append`](Self::append) and waits only in [`replay`](Self::replay).
pub trait EventStore: Send + Sync + 'static {
    /// Keeps an event. The numbers of a stream come in order, without a gap. Must not block, and what is kept must be
    /// bounded: the oldest events may be dropped at any time.
    fn append(&self, session: &SessionId, event: Event);

    /// The events of a stream behind `after` that stand before the number `before`, in order. `None` when any of them
    /// is not kept any more: then the stream cannot be resumed, and the client is told.
    fn replay<'a>(&'a self, session: &'a SessionId, after: EventId, before: u64) -> Replay<'a>;

    /// The session is over: nobody comes back.
    fn forget(&self, session: &SessionId);
}

/// Keeps events in memory: 1 MiB of the newest of each session, and 256 MiB in all.
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
}

#[derive(Debug, Default)]
struct Log {
    events: VecDeque<Event>,
    bytes: usize,
}

impl SessionId {
    /// A new one, from the system's source of random bytes.
    pub(super) fn random() -> Option<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// Reads what [`fmt::Display`] writes.
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

/// Who knows the id of a session can take part in it, so a log does not show it.
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

/// The text is no id of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no id of an event")]
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
    /// With the bounds that [`MemoryEvents`] names.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(SESSION_BYTES, ALL_BYTES)
    }

    /// With bounds of one's own, in bytes: of one session, and of all.
    #[must_use]
    pub fn with_limits(session_bytes: usize, all_bytes: usize) -> Self {
        Self { session_bytes, all_bytes, kept: Mutex::default() }
    }

    /// Bytes that are kept now.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryEvents {
    fn default() -> Self {
        Self::new()
    }
}

impl EventStore for MemoryEvents {
    fn append(&self, session: &SessionId, event: Event) {
        let mut kept = self.lock();
        let Kept { sessions, bytes } = &mut *kept;
        let log = sessions.entry(*session).or_default();
        let cost = event.bytes.len() + EVENT;
        let mut dropped = Vec::new();
        while !log.events.is_empty()
            && (log.bytes + cost > self.session_bytes || *bytes + cost > self.all_bytes)
        {
            let Some(oldest) = log.events.pop_front() else { break };
            log.bytes -= oldest.bytes.len() + EVENT;
            *bytes -= oldest.bytes.len() + EVENT;
            dropped.push(oldest);
        }
        log.bytes += cost;
        *bytes += cost;
        log.events.push_back(event);
        drop(kept);
        drop(dropped);
    }

    fn replay<'a>(&'a self, session: &'a SessionId, after: EventId, before: u64) -> Replay<'a> {
        let kept = self.lock();
        let events = kept.sessions.get(session).map(|log| {
            let wanted = |event: &&Event| {
                event.id.stream == after.stream && event.id.number > after.number && event.id.number < before
            };
            log.events.iter().filter(wanted).cloned().collect::<Vec<_>>()
        });
        let known = kept
            .sessions
            .get(session)
            .is_some_and(|log| log.events.iter().any(|event| event.id == after && event.last));
        drop(kept);
        let events = events.unwrap_or_default();
        let numbers = events.iter().map(|event| event.id.number);
        let unbroken = numbers.eq((after.number + 1..).take(events.len()));
        // All that was asked for: up to a number, or, when that is open, up to the end of the stream.
        let whole = match events.last() {
            Some(last) => last.last || last.id.number + 1 == before,
            None => known || after.number.saturating_add(1) == before,
        };
        Box::pin(ready((unbroken && whole).then_some(events)))
    }

    fn forget(&self, session: &SessionId) {
        let mut kept = self.lock();
        let log = kept.sessions.remove(session);
        kept.bytes -= log.as_ref().map_or(0, |log| log.bytes);
        drop(kept);
        drop(log);
    }
}
