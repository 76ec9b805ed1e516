//! The requests that we have made and that are not answered yet, with their deadlines.
//!
//! Ids count up from 1 and are never used again, so an answer that comes too late can never be taken for the
//! answer to another request. Each call has two deadlines: one that progress starts again, and one that
//! nothing moves (<https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#timeouts>).

use alloc::collections::{BTreeSet, VecDeque};
use core::time::Duration;

use super::link::Route;
use super::ring_map::RingMap;
use crate::types::LoggingLevel;
use crate::{Method, Payload, Raw, RequestId, Time};

/// A request to make.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call {
    /// What to ask.
    pub method: Method,
    /// With what: an object.
    pub params: Option<Payload>,
    /// They are known to have no `_meta`, so that nobody need look for it. When that is not so, they end up with two.
    pub lacks_meta: bool,
    /// How long to wait without a sign of life; `None`: [`Limits::request`](super::Limits::request).
    pub timeout: Option<Duration>,
    /// How long to wait in all; `None`: [`Limits::request_total`](super::Limits::request_total).
    pub total: Option<Duration>,
    /// Ask for progress.
    pub progress: bool,
    /// Ask for log messages from this level on, in an era where each request asks for its own.
    pub log_level: Option<LoggingLevel>,
    /// The peer's request that this one belongs to: it then travels on that request's stream.
    pub on_behalf_of: Option<RequestId>,
}

impl Call {
    /// A request without parameters, with the session's own timeouts.
    #[must_use]
    pub const fn new(method: Method) -> Self {
        Self {
            method,
            params: None,
            lacks_meta: false,
            timeout: None,
            total: None,
            progress: false,
            log_level: None,
            on_behalf_of: None,
        }
    }

    /// The same with these parameters, which are an object.
    #[must_use]
    pub fn with_params(mut self, params: Raw) -> Self {
        self.params = Some(Payload::from_raw(params));
        self
    }

    /// The same with another time to wait for a sign of life.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    pub(super) fn route(&self) -> Route {
        self.on_behalf_of.clone().map_or(Route::Session, Route::ReplyTo)
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) method: Method,
    pub(super) purpose: Purpose,
    timeout: Duration,
    deadline: Time,
    total_deadline: Time,
    started: Time,
    progress: Option<f64>,
    /// Whether the peer was asked for progress, and so knows the token.
    wants_progress: bool,
}

/// For whom the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// For the owner of the session.
    Owner,
    /// For the owner; a stream that lives until one side ends it. Acknowledged: no deadline any more.
    Listen { acknowledged: bool },
    /// For the session itself, while it opens.
    Opening,
}

/// A call whose time is up.
#[derive(Debug)]
pub(super) struct Expired {
    pub(super) id: i64,
    pub(super) method: Method,
    pub(super) purpose: Purpose,
    pub(super) after: Duration,
    pub(super) total: bool,
}

#[derive(Debug, Default)]
pub(super) struct Calls {
    last: i64,
    pending: RingMap<PendingCall>,
    deadlines: BTreeSet<(Time, i64)>,
}

impl Calls {
    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// The id that the next call gets.
    pub(super) const fn next_id(&self) -> i64 {
        self.last + 1
    }

    pub(super) fn insert(
        &mut self,
        now: Time,
        method: Method,
        purpose: Purpose,
        timeout: Duration,
        total: Duration,
    ) -> i64 {
        self.last += 1;
        let total_deadline = now + total;
        let deadline = (now + timeout).min(total_deadline);
        self.deadlines.insert((deadline, self.last));
        let pending = PendingCall {
            method,
            purpose,
            timeout,
            deadline,
            total_deadline,
            started: now,
            progress: None,
            wants_progress: false,
        };
        self.pending.insert(self.last, pending);
        self.last
    }

    /// The peer was told the token of this call: its id.
    pub(super) fn expect_progress(&mut self, id: i64) {
        if let Some(pending) = self.pending.get_mut(id) {
            pending.wants_progress = true;
        }
    }

    /// Ours and still waited for.
    pub(super) fn find(&self, id: &RequestId) -> Option<(i64, &PendingCall)> {
        let id = id.as_i64()?;
        self.pending.get(id).map(|pending| (id, pending))
    }

    /// Ours, waited for or not.
    pub(super) fn was_sent(&self, id: &RequestId) -> bool {
        id.as_i64().is_some_and(|id| 0 < id && id <= self.last)
    }

    pub(super) fn take(&mut self, id: i64) -> Option<PendingCall> {
        let pending = self.pending.remove(id)?;
        self.deadlines.remove(&(pending.deadline, id));
        Some(pending)
    }

    /// Takes all that are for the owner, in the order in which they were made.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = i64> + use<> {
        self.deadlines.clear();
        self.pending
            .take_all()
            .filter_map(|(id, pending)| (pending.purpose != Purpose::Opening).then_some(id))
    }

    /// Notes progress of a call; says whether it has grown, `None` when no such call has asked for it.
    pub(super) fn progressed(&mut self, now: Time, id: i64, progress: f64) -> Option<bool> {
        let pending = self.pending.get_mut(id).filter(|pending| pending.wants_progress)?;
        if pending.progress.is_some_and(|last| progress <= last) || progress.is_nan() {
            return Some(false);
        }
        pending.progress = Some(progress);
        Some(self.touch(now, id))
    }

    /// A sign of life of a call that has asked for progress: its time begins anew. Says whether there is such a call.
    pub(super) fn touch(&mut self, now: Time, id: i64) -> bool {
        let Some(pending) = self.pending.get_mut(id).filter(|pending| pending.wants_progress) else {
            return false;
        };
        if pending.deadline < Time::FAR {
            self.deadlines.remove(&(pending.deadline, id));
            pending.deadline = (now + pending.timeout).min(pending.total_deadline);
            self.deadlines.insert((pending.deadline, id));
        }
        true
    }

    /// From now on it is waited for so long at most.
    pub(super) fn shorten_deadline(&mut self, now: Time, id: i64, timeout: Duration) {
        let Some(pending) = self.pending.get_mut(id) else { return };
        self.deadlines.remove(&(pending.deadline, id));
        pending.total_deadline = pending.total_deadline.min(now + timeout);
        pending.deadline = pending.deadline.min(pending.total_deadline);
        self.deadlines.insert((pending.deadline, id));
    }

    /// A stream was acknowledged: it may now live for ever. `None` when there is no such stream.
    pub(super) fn acknowledge(&mut self, id: i64) -> Option<()> {
        let pending = self.pending.get_mut(id)?;
        let Purpose::Listen { .. } = pending.purpose else { return None };
        self.deadlines.remove(&(pending.deadline, id));
        pending.deadline = Time::FAR;
        pending.total_deadline = Time::FAR;
        pending.purpose = Purpose::Listen { acknowledged: true };
        Some(())
    }

    /// Gives back its room when nothing is waited for.
    pub(super) fn shrink(&mut self) {
        if self.pending.is_empty() {
            *self = Self { last: self.last, ..Self::default() };
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(time, _)| *time)
    }

    /// Takes one call whose time is up.
    pub(super) fn expire(&mut self, now: Time) -> Option<Expired> {
        let (deadline, id) = *self.deadlines.first()?;
        if deadline > now {
            return None;
        }
        let pending = self.take(id)?;
        Some(Expired {
            id,
            total: pending.progress.is_some() && pending.deadline == pending.total_deadline,
            after: deadline - pending.started.max(deadline_start(&pending)),
            method: pending.method,
            purpose: pending.purpose,
        })
    }
}

/// From when the deadline that has passed was counted: the last sign of life, or the start.
fn deadline_start(pending: &PendingCall) -> Time {
    if pending.progress.is_some() && pending.deadline < pending.total_deadline {
        Time::from_epoch(pending.deadline.since_epoch().saturating_sub(pending.timeout))
    } else {
        pending.started
    }
}

/// How many of them are remembered for a connection, 8 bytes each: as many as may cross in one round trip of a client that
/// cancels much. What comes about one forgotten before that is reported as [`Violation::LateReply`](super::Violation).
const MAX_ENDED_CALLS: usize = 1024;

/// The ids of such requests, oldest first.
#[derive(Default)]
pub(super) struct EndedCalls(VecDeque<i64>);

impl EndedCalls {
    pub(super) fn add(&mut self, id: i64) {
        if self.0.len() == MAX_ENDED_CALLS {
            self.0.pop_front();
        }
        self.0.push_back(id);
    }

    pub(super) fn contains(&self, id: i64) -> bool {
        self.0.contains(&id)
    }

    /// The response to a request has come. Says whether it was one of these; a second response is none.
    pub(super) fn remove_answered(&mut self, id: &RequestId) -> bool {
        let place = id.as_i64().and_then(|id| self.0.iter().position(|abandoned| *abandoned == id));
        place.and_then(|place| self.0.remove(place)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Time {
        Time::from_epoch(SECOND * u32::try_from(seconds).expect("small"))
    }

    #[test]
    fn progress_extends_the_deadline_up_to_the_total() {
        let mut calls = Calls::default();
        let id = calls.insert(Time::ZERO, Method::CallTool, Purpose::Owner, SECOND * 10, SECOND * 25);
        assert_eq!(calls.progressed(at(9), id, 1.0), None, "nobody has asked for it");
        calls.expect_progress(id);
        assert_eq!(calls.next_deadline(), Some(at(10)));
        assert_eq!(calls.progressed(at(9), id, 1.0), Some(true));
        assert_eq!(calls.next_deadline(), Some(at(19)));
        assert_eq!(calls.progressed(at(10), id, 1.0), Some(false), "it did not grow");
        assert_eq!(calls.next_deadline(), Some(at(19)), "and extends nothing");
        assert_eq!(calls.progressed(at(18), id, 2.0), Some(true));
        assert_eq!(calls.next_deadline(), Some(at(25)), "the total is not moved");
        assert!(calls.expire(at(24)).is_none());
        let expired = calls.expire(at(25)).expect("expired");
        assert!(expired.total);
        assert_eq!(expired.after, SECOND * 25);
        assert_eq!(calls.len(), 0);
        assert_eq!(calls.next_deadline(), None);
    }

    #[test]
    fn ids_begin_at_one_and_are_never_used_again() {
        let mut calls = Calls::default();
        for expected in 1..=3 {
            let id = calls.insert(Time::ZERO, Method::Ping, Purpose::Owner, SECOND, SECOND);
            assert_eq!(id, expected);
            calls.take(id);
        }
        assert!(calls.was_sent(&RequestId::from(3)));
        assert!(!calls.was_sent(&RequestId::from(4)));
        assert!(!calls.was_sent(&RequestId::from("3")));
    }

    #[test]
    fn each_is_expected_once_and_the_oldest_is_forgotten() {
        let mut abandoned = EndedCalls::default();
        (0..=1024).for_each(|id| abandoned.add(id));
        assert!(!abandoned.contains(0) && !abandoned.remove_answered(&0.into()));
        assert!(abandoned.contains(1) && abandoned.contains(1024));
        assert!(abandoned.remove_answered(&1024.into()) && !abandoned.remove_answered(&1024.into()));
        assert!(!abandoned.remove_answered(&"1".into()));
        assert_eq!(abandoned.0.len(), 1023);
    }
}
