//! Observes the messages of an examination: the opening with its times, and every violation of the protocol.
//!
//! Fed by the inspector of the link and by the violations of the session, read by the examination. It changes nothing and sends
//! nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::decode::{DecodeErrorKind, Decoded, Shape, decode};
use mcpjoin_proto::session::{
    CloseCause, Inbound, NegotiationFailure, Outbound, Violation, foreign_protocol,
};
use mcpjoin_proto::{DecodeLimits, Message, Method, RequestId};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::stderr_patterns::truncate_line;
use mcpjoin::transport::{Direction, Inspected};

/// Violations that are kept; further ones are counted.
const MAX_VIOLATIONS: usize = 20;
/// Lines that are no messages and are kept; further ones are counted.
const MAX_NOISE_LINES: usize = 5;
/// The byte order mark in UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// How long to wait for a message after the peer has begun another protocol.
pub(super) const FOREIGN_TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait for another response after an unreadable one.
const UNREADABLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Collects the observations. Cheap to clone; all clones share them.
#[derive(Clone, Default)]
pub(super) struct Observer(Arc<Shared>);

#[derive(Default)]
struct Shared {
    observed: Mutex<Observed>,
    /// Notified about each line that is no message.
    noise_arrived: Notify,
}

/// The observations so far.
#[derive(Clone, Default)]
pub(super) struct Observed {
    /// When `server/discover` was sent first, and the ids of all its requests.
    pub(super) probe: Option<Instant>,
    probe_ids: Vec<RequestId>,
    /// When `initialize` was sent first, and when last.
    pub(super) initialize: Option<(Instant, Instant)>,
    /// When the response to the probe arrived, and what it was.
    pub(super) answered: Option<(Instant, ProbeAnswer)>,
    /// When the first message arrived.
    pub(super) first: Option<Instant>,
    /// The beginning of the last text in place of a message, on a link that carries whole messages.
    pub(super) last_foreign: Option<Bytes>,
    /// The session is open: from now on only violations are recorded.
    opened: bool,
    /// The first lines that were no messages, and the number of all of them.
    noise: Vec<Bytes>,
    pub(super) noise_lines: usize,
    /// When the last of them arrived.
    pub(super) noise_at: Option<Instant>,
    /// When the last of them arrived that was meant to be a message, or the last response with an unknown id.
    unreadable_at: Option<Instant>,
    /// The id of the first response that no request has.
    pub(super) unknown_id: Option<RequestId>,
    spread: Spread,
    /// Whether the first violation came before the session was open.
    pub(super) early: bool,
    pub(super) byte_order_mark: bool,
    /// Lines after the first that begin with a byte order mark, and are therefore unreadable.
    pub(super) late_marks: usize,
    /// The first of the other violations, and the number of all of them.
    pub(super) violations: Vec<Violation>,
    pub(super) violation_count: usize,
}

/// The response to the probe.
#[derive(Clone, Debug)]
pub(super) enum ProbeAnswer {
    Result,
    Error(i64),
    /// No message, but the transport says that no other response comes.
    Foreign,
}

/// Whether a message is spread over several lines: indented, as people read it.
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

impl Observed {
    /// A response that is no message arrived for this request.
    fn foreign(&mut self, id: Option<&RequestId>, now: Instant) {
        if id.is_some_and(|id| self.probe_ids.contains(id)) {
            self.answered.get_or_insert((now, ProbeAnswer::Foreign));
        }
    }

    /// The failure of an opening in which only noise arrived.
    pub(super) fn garbage(&self) -> CloseCause {
        let first = self.noise.first().cloned().unwrap_or_default();
        NegotiationFailure::Garbage { lines: self.noise_lines, first }.into()
    }

    pub(super) const fn is_spread(&self) -> bool {
        matches!(self.spread, Spread::Found)
    }

    /// Whether a line is the header that language servers write before each message.
    pub(super) fn frames_with_headers(&self) -> bool {
        const HEADER: &[u8] = b"content-length:";
        let is_header =
            |line: &Bytes| line.get(..HEADER.len()).is_some_and(|start| start.eq_ignore_ascii_case(HEADER));
        self.noise.iter().any(is_header)
    }

    /// The first line that was no message.
    pub(super) fn first_noise(&self) -> Option<&Bytes> {
        self.noise.first()
    }

    /// The first lines that were no messages, as a finding shows them.
    pub(super) fn noise_texts(&self) -> Vec<String> {
        self.noise.iter().map(|line| truncate_line(String::from_utf8_lossy(line).trim_end())).collect()
    }

    /// Whether `initialize` was sent before the timeout of the probe and without a response to it: the peer disconnected.
    pub(super) fn hung_up(&self, probe_timeout: Duration) -> bool {
        let (Some(probe), Some((first, _)), None) = (self.probe, self.initialize, &self.answered) else {
            return false;
        };
        first.saturating_duration_since(probe) < probe_timeout.mul_f32(0.9)
    }
}

impl Observer {
    pub(super) fn observed(&self) -> Observed {
        self.lock().clone()
    }

    /// The opening is over.
    pub(super) fn set_opened(&self) {
        self.lock().opened = true;
    }

    /// Records a message of the opening.
    pub(super) fn inspected(&self, direction: Direction, inspected: Inspected<'_>) {
        let mut observed = self.lock();
        if observed.opened {
            return;
        }
        let now = Instant::now();
        let message = match inspected {
            // The session reports a line that is no message as a violation.
            Inspected::Line(line) => {
                let decoded = decode(&Bytes::copy_from_slice(line), &DecodeLimits::default());
                let Ok(Decoded::Message(message)) = decoded else { return };
                message
            }
            Inspected::Inbound(Inbound::Message { message, .. }) => message.clone(),
            Inspected::Inbound(Inbound::Lost { id, .. }) => return observed.foreign(Some(id), now),
            Inspected::Inbound(Inbound::Malformed { error, excerpt, .. }) => {
                observed.last_foreign = Some(excerpt.clone());
                return observed.foreign(error.id.as_ref(), now);
            }
            Inspected::Outbound(Outbound::Message { message, .. }) => message.clone(),
            _ => return,
        };
        match (direction, message) {
            (Direction::Out, Message::Request(request)) if request.method == Method::Discover => {
                observed.probe.get_or_insert(now);
                observed.probe_ids.push(request.id);
            }
            (Direction::Out, Message::Request(request)) if request.method == Method::Initialize => {
                let first = observed.initialize.map_or(now, |(first, _)| first);
                observed.initialize = Some((first, now));
            }
            (Direction::In, message) => {
                observed.last_foreign = None;
                observed.first.get_or_insert(now);
                if let Message::Response(response) = message
                    && response.id.as_ref().is_none_or(|id| observed.probe_ids.contains(id))
                {
                    let answer = match response.outcome {
                        Ok(_) => ProbeAnswer::Result,
                        Err(error) => ProbeAnswer::Error(error.code),
                    };
                    observed.answered.get_or_insert((now, answer));
                }
            }
            _ => {}
        }
    }

    /// Completes when the peer has shown that it is no MCP server: it wrote something else, and no message followed within
    /// `probe_timeout`, or within a second after the beginning of a known protocol.
    pub(super) async fn hopeless(&self, probe_timeout: Duration) {
        loop {
            let noise = self.0.noise_arrived.notified();
            let left = {
                let observed = self.lock();
                let is_known = observed.noise.first().is_some_and(|first| foreign_protocol(first).is_some());
                let bound = if is_known { FOREIGN_TIMEOUT.min(probe_timeout) } else { probe_timeout };
                let since = observed.noise_at.filter(|_| observed.first.is_none());
                since.map(|at| bound.saturating_sub(at.elapsed()))
            };
            match left {
                None => noise.await,
                Some(left) => {
                    if timeout(left, noise).await.is_err() && self.lock().first.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Completes when an unreadable message, or a response to no request, has arrived since then, and nothing after it for two
    /// seconds.
    pub(super) async fn unreadable(&self, since: Instant) {
        loop {
            let noise = self.0.noise_arrived.notified();
            let at = self.lock().unreadable_at.filter(|at| *at >= since);
            match at {
                None => noise.await,
                Some(at) => {
                    if timeout(UNREADABLE_TIMEOUT.saturating_sub(at.elapsed()), noise).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Records a violation.
    pub(super) fn violation(&self, violation: &Violation) {
        let mut observed = self.lock();
        observed.early |= !observed.opened;
        match violation {
            Violation::Malformed { error, excerpt }
                if error.shape == Shape::Unknown && !excerpt.is_empty() =>
            {
                let now = Instant::now();
                observed.noise_at = Some(now);
                let is_marked =
                    excerpt.strip_prefix(BYTE_ORDER_MARK).is_some_and(|rest| rest.starts_with(b"{"));
                if is_marked {
                    observed.late_marks += 1;
                } else {
                    observed.spread.line(excerpt);
                    observed.noise_lines += 1;
                }
                if is_marked || memchr::memmem::find(excerpt, b"\"jsonrpc\"").is_some() {
                    observed.unreadable_at = Some(now);
                }
                if observed.noise.len() < MAX_NOISE_LINES {
                    observed.noise.push(excerpt.clone());
                }
                self.0.noise_arrived.notify_one();
            }
            // The limit is ours. The request that exceeds it has a finding of its own.
            Violation::Malformed { error, .. } if matches!(error.kind, DecodeErrorKind::TooLarge { .. }) => {}
            Violation::ByteOrderMark => observed.byte_order_mark = true,
            // A response after our own timeout looks the same, and is no fault of the server.
            Violation::LateResponse { .. } => {}
            other => {
                if let Violation::UnknownResponse { id: Some(id) } = other {
                    observed.unknown_id.get_or_insert_with(|| id.clone());
                    observed.unreadable_at = Some(Instant::now());
                    self.0.noise_arrived.notify_one();
                }
                observed.violation_count += 1;
                if observed.violations.len() < MAX_VIOLATIONS {
                    observed.violations.push(other.clone());
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Observed> {
        self.0.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
