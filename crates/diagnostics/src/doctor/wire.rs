//! What an examination sees of the messages: the opening with its times, and every rule that is broken.
//!
//! Fed by the link's tap and by the session's violations, read by `doctor`. It changes nothing and answers nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::decode::{DecodeErrorKind, Decoded, Shape, decode};
use mcpjoin_proto::session::{CloseCause, Inbound, OpeningFailure, Outbound, Violation, foreign_protocol};
use mcpjoin_proto::{DecodeLimits, Message, Method, RequestId};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use mcpjoin::link::{Crossed, Way};

/// Violations that are kept; further ones are counted.
const KEPT: usize = 20;
/// Lines of noise that are kept; further ones are counted.
const NOISE: usize = 5;
/// How a byte order mark is written in UTF-8.
const MARK: &[u8] = "\u{feff}".as_bytes();
/// What speaks another protocol has so long to go on, once it has said so.
const FOREIGN: Duration = Duration::from_secs(1);
/// An answer that cannot be read is followed by one that can within this time, or by none.
const UNREADABLE: Duration = Duration::from_secs(2);

/// What was seen so far. Cheap to clone; all clones see the same.
#[derive(Clone, Default)]
pub(super) struct Wire(Arc<Inner>);

#[derive(Default)]
struct Inner {
    seen: Mutex<Seen>,
    /// Told when something came that is no message.
    noted: Notify,
}

#[derive(Clone, Default)]
pub(super) struct Seen {
    /// When `server/discover` was sent first, and by which ids it was asked.
    pub(super) probe: Option<Instant>,
    probe_ids: Vec<RequestId>,
    /// When `initialize` was sent first, and when last.
    pub(super) initialize: Option<(Instant, Instant)>,
    /// When the probe was answered, and how.
    pub(super) answered: Option<(Instant, Answer)>,
    /// When the first message came in.
    pub(super) first: Option<Instant>,
    /// How the last that came in began, where it was no message and the link carries messages as they are.
    pub(super) last_foreign: Option<Bytes>,
    /// From now on nothing but violations is of interest.
    opened: bool,
    /// The first lines that were no messages, and how many there were.
    pub(super) noise: Vec<Bytes>,
    pub(super) noise_lines: usize,
    /// When the last of them came.
    noise_at: Option<Instant>,
    /// When the last of them came that was meant to be a message.
    unreadable_at: Option<Instant>,
    /// One of them begins a message that goes on in the next.
    spread: Spread,
    /// Whether the first rule was broken while client and server had not agreed.
    pub(super) early: bool,
    pub(super) byte_order_mark: bool,
    /// How many lines after the first began with one: those are read by nobody.
    pub(super) late_marks: usize,
    /// Other violations, and how many there were.
    pub(super) violations: Vec<Violation>,
    pub(super) broken: usize,
}

/// How the probe was answered.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Result,
    Error(i64),
    /// Not with a message, but the transport said that no other answer comes.
    Foreign,
}

/// Whether lines that are no messages are one, line by line.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Spread {
    #[default]
    None,
    /// An object has begun and not ended on its line.
    Begun,
    Found,
}

impl Spread {
    fn line(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        let begins = line.starts_with(b"{") && !line.ends_with(b"}");
        match self {
            Self::None if begins && memchr::memmem::find(line, b"\"jsonrpc\"").is_some() => {
                *self = Self::Found;
            }
            Self::None if begins => *self = Self::Begun,
            Self::Begun if line.starts_with(b"\"jsonrpc\"") => *self = Self::Found,
            Self::Begun if line == b"}" => *self = Self::None,
            _ => {}
        }
    }
}

impl Seen {
    /// What came for a request is no message.
    fn foreign(&mut self, id: Option<&RequestId>, now: Instant) {
        if id.is_some_and(|id| self.probe_ids.contains(id)) {
            self.answered.get_or_insert((now, Answer::Foreign));
        }
    }

    /// Nothing but this came.
    pub(super) fn garbage(&self) -> CloseCause {
        let first = self.noise.first().cloned().unwrap_or_default();
        OpeningFailure::Garbage { lines: self.noise_lines, first }.into()
    }

    /// Whether a message came in several lines: indented, as people read it.
    pub(super) const fn is_spread(&self) -> bool {
        matches!(self.spread, Spread::Found)
    }

    /// Whether `initialize` came before the time that the probe had was over, and no answer did: the connection had
    /// ended.
    pub(super) fn hung_up(&self, patience: Duration) -> bool {
        let (Some(probe), Some((first, _)), None) = (self.probe, self.initialize, &self.answered) else {
            return false;
        };
        first.saturating_duration_since(probe) < patience.mul_f32(0.9)
    }
}

impl Wire {
    pub(super) fn seen(&self) -> Seen {
        self.lock().clone()
    }

    /// The opening is over.
    pub(super) fn opened(&self) {
        self.lock().opened = true;
    }

    pub(super) fn crossed(&self, way: Way, crossed: Crossed<'_>) {
        let mut seen = self.lock();
        if seen.opened {
            return;
        }
        let now = Instant::now();
        let message = match crossed {
            // What is no message the session tells as a violation.
            Crossed::Line(line) => {
                let decoded = decode(&Bytes::copy_from_slice(line), &DecodeLimits::default());
                let Ok(Decoded::Message(message)) = decoded else { return };
                message
            }
            Crossed::Inbound(Inbound::Message { message, .. }) => message.clone(),
            Crossed::Inbound(Inbound::Lost { id, .. }) => return seen.foreign(Some(id), now),
            Crossed::Inbound(Inbound::Malformed { error, excerpt, .. }) => {
                seen.last_foreign = Some(excerpt.clone());
                return seen.foreign(error.id.as_ref(), now);
            }
            Crossed::Outbound(Outbound::Message { message, .. }) => message.clone(),
            _ => return,
        };
        match (way, message) {
            (Way::Out, Message::Request(request)) if request.method == Method::Discover => {
                seen.probe.get_or_insert(now);
                seen.probe_ids.push(request.id);
            }
            (Way::Out, Message::Request(request)) if request.method == Method::Initialize => {
                let first = seen.initialize.map_or(now, |(first, _)| first);
                seen.initialize = Some((first, now));
            }
            (Way::In, message) => {
                seen.last_foreign = None;
                seen.first.get_or_insert(now);
                if let Message::Response(response) = message
                    && response.id.as_ref().is_none_or(|id| seen.probe_ids.contains(id))
                    && seen.answered.is_none()
                {
                    let answer = response.outcome.map_or_else(|e| Answer::Error(e.code), |_| Answer::Result);
                    seen.answered = Some((now, answer));
                }
            }
            _ => {}
        }
    }

    /// Over when what answers has shown that it is no MCP server: it has begun with the words of another protocol, or with
    /// others, and for as long as this no message came after them.
    pub(super) async fn hopeless(&self, patience: Duration) {
        loop {
            let noted = self.0.noted.notified();
            let left = {
                let seen = self.lock();
                let known = seen.noise.first().is_some_and(|first| foreign_protocol(first).is_some());
                let bound = if known { FOREIGN.min(patience) } else { patience };
                seen.noise_at.filter(|_| seen.first.is_none()).map(|at| bound.saturating_sub(at.elapsed()))
            };
            match left {
                None => noted.await,
                Some(left) => {
                    if timeout(left, noted).await.is_err() && self.lock().first.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Over when something has come since then that was meant to be a message and that nobody can read, and nothing after
    /// it for a while: whoever waits for it waits in vain.
    pub(super) async fn unreadable(&self, since: Instant) {
        loop {
            let noted = self.0.noted.notified();
            let at = self.lock().unreadable_at.filter(|at| *at >= since);
            match at {
                None => noted.await,
                Some(at) => {
                    if timeout(UNREADABLE.saturating_sub(at.elapsed()), noted).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    pub(super) fn violation(&self, violation: &Violation) {
        let mut seen = self.lock();
        seen.early |= !seen.opened;
        match violation {
            Violation::Malformed { error, excerpt }
                if error.shape == Shape::Unknown && !excerpt.is_empty() =>
            {
                let now = Instant::now();
                seen.noise_at = Some(now);
                let marked = excerpt.strip_prefix(MARK).is_some_and(|rest| rest.starts_with(b"{"));
                if marked {
                    seen.late_marks += 1;
                } else {
                    seen.spread.line(excerpt);
                    seen.noise_lines += 1;
                }
                if marked || memchr::memmem::find(excerpt, b"\"jsonrpc\"").is_some() {
                    seen.unreadable_at = Some(now);
                }
                if seen.noise.len() < NOISE {
                    seen.noise.push(excerpt.clone());
                }
                self.0.noted.notify_one();
            }
            // The bound is ours. What was asked for so is told where it was asked.
            Violation::Malformed { error, .. } if matches!(error.kind, DecodeErrorKind::TooLarge { .. }) => {}
            Violation::ByteOrderMark => seen.byte_order_mark = true,
            // It looks the same when we have given up waiting, which is no fault of the server.
            Violation::LateReply { .. } => {}
            other => {
                seen.broken += 1;
                if seen.violations.len() < KEPT {
                    seen.violations.push(other.clone());
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
