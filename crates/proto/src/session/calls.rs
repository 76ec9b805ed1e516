//! Our pending requests and their deadlines.
//!
//! Ids count up from 1 and are never reused, so a late response cannot match another request. Each call has two
//! deadlines: progress, and a question of the server that we have not answered, extend the first, nothing extends the second
//! (<https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#timeouts>).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use super::ring_map::RingMap;
use super::transport::Route;
use crate::types::LoggingLevel;
use crate::{Method, Payload, Raw, RequestId, Time};

/// A request to send.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The parameters: an object.
    pub params: Option<Payload>,
    /// The parameters are known to have no `_meta`, so the session does not search for it. If this is wrong, they end
    /// up with two.
    pub lacks_meta: bool,
    /// The timeout since the start or the last progress; `None`: [`Limits::request`](super::Limits::request).
    pub timeout: Option<Duration>,
    /// The timeout since the start; `None`: [`Limits::request_total`](super::Limits::request_total).
    pub total: Option<Duration>,
    /// Request progress notifications.
    pub progress: bool,
    /// Request log messages from this level on, in an era where each request does so.
    pub log_level: Option<LoggingLevel>,
    /// The peer's request that this one belongs to. It is sent on the stream of that request.
    pub on_behalf_of: Option<RequestId>,
}

impl Call {
    /// A request without parameters, with the timeouts of the session.
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

    /// Sets the parameters: an object.
    #[must_use]
    pub fn with_params(mut self, params: Raw) -> Self {
        self.params = Some(Payload::from_raw(params));
        self
    }

    /// Sets the timeout since the last progress.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    pub(super) fn route(&self) -> Route {
        self.on_behalf_of.clone().map_or(Route::Session, Route::ReplyTo)
    }
}

/// A pending request.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) method: Method,
    pub(super) purpose: Purpose,
    timeout: Duration,
    deadline: Time,
    total_deadline: Time,
    started: Time,
    progress: Option<f64>,
    /// The peer knows the progress token.
    wants_progress: bool,
}

/// The recipient of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The owner of the session.
    Owner,
    /// The owner, for a stream that one of the sides ends. No deadline once it is acknowledged.
    Listen { acknowledged: bool },
    /// The session itself, while it opens.
    Opening,
}

/// A call that has timed out.
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
    /// The number before the first id.
    from: i64,
    last: i64,
    pending: RingMap<PendingCall>,
    /// No call times out before this. Most calls end long before, so it is not moved when one ends: the deadlines are
    /// compared again when it is reached.
    earliest: Option<Time>,
}

impl Calls {
    /// Calls with ids above this number.
    pub(super) fn from(from: u32) -> Self {
        Self { from: from.into(), last: from.into(), ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// The id of the next call.
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
        self.note_deadline(deadline);
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

    fn note_deadline(&mut self, deadline: Time) {
        self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
    }

    /// The progress token of this call was sent: it is the id.
    pub(super) fn expect_progress(&mut self, id: i64) {
        if let Some(pending) = self.pending.get_mut(id) {
            pending.wants_progress = true;
        }
    }

    /// The pending call with this id.
    pub(super) fn find(&self, id: &RequestId) -> Option<(i64, &PendingCall)> {
        let id = id.as_i64()?;
        self.pending.get(id).map(|pending| (id, pending))
    }

    /// Whether a request with this id was ever sent.
    pub(super) fn was_sent(&self, id: &RequestId) -> bool {
        id.as_i64().is_some_and(|id| self.from < id && id <= self.last)
    }

    pub(super) fn take(&mut self, id: i64) -> Option<PendingCall> {
        let pending = self.pending.remove(id)?;
        if self.pending.is_empty() {
            self.earliest = None;
        }
        Some(pending)
    }

    /// Takes all calls of the owner, in the order of their ids.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = i64> + use<> {
        self.earliest = None;
        self.pending
            .take_all()
            .filter_map(|(id, pending)| (pending.purpose != Purpose::Opening).then_some(id))
    }

    /// Records progress. Returns whether it has grown; `None` when no call has this token.
    pub(super) fn progressed(&mut self, now: Time, id: i64, progress: f64) -> Option<bool> {
        let pending = self.pending.get_mut(id).filter(|pending| pending.wants_progress)?;
        if pending.progress.is_some_and(|last| progress <= last) || progress.is_nan() {
            return Some(false);
        }
        pending.progress = Some(progress);
        Some(self.touch(now, id))
    }

    /// Restarts the timeout of a call that requested progress. Returns whether there is such a call.
    pub(super) fn touch(&mut self, now: Time, id: i64) -> bool {
        let Some(pending) = self.pending.get_mut(id).filter(|pending| pending.wants_progress) else {
            return false;
        };
        if pending.deadline < Time::FAR {
            pending.deadline = (now + pending.timeout).min(pending.total_deadline);
        }
        true
    }

    /// Restarts the timeouts that are over, as far as the total allows.
    pub(super) fn postpone(&mut self, now: Time) {
        for id in self.overdue(now) {
            let Some(pending) = self.pending.get_mut(id) else { continue };
            if pending.purpose == Purpose::Owner {
                pending.deadline = (now + pending.timeout).min(pending.total_deadline);
            }
            let deadline = pending.deadline;
            self.note_deadline(deadline);
        }
    }

    /// Limits the remaining time of a call.
    pub(super) fn shorten_deadline(&mut self, now: Time, id: i64, timeout: Duration) {
        let Some(pending) = self.pending.get_mut(id) else { return };
        pending.total_deadline = pending.total_deadline.min(now + timeout);
        pending.deadline = pending.deadline.min(pending.total_deadline);
        let deadline = pending.deadline;
        self.note_deadline(deadline);
    }

    /// Marks a stream as acknowledged and removes its deadline. `None` when there is no such stream.
    pub(super) fn acknowledge(&mut self, id: i64) -> Option<()> {
        let pending = self.pending.get_mut(id)?;
        let Purpose::Listen { .. } = pending.purpose else { return None };
        pending.deadline = Time::FAR;
        pending.total_deadline = Time::FAR;
        pending.purpose = Purpose::Listen { acknowledged: true };
        Some(())
    }

    /// Frees the memory while no call is pending.
    pub(super) fn shrink(&mut self) {
        if self.pending.is_empty() {
            *self = Self { from: self.from, last: self.last, ..Self::default() };
        }
    }

    /// When to look for calls that have timed out. There may be none then.
    pub(super) const fn next_deadline(&self) -> Option<Time> {
        self.earliest
    }

    /// The calls that have timed out, in the order of their deadlines. Expects that each is then taken or noted anew.
    pub(super) fn overdue(&mut self, now: Time) -> Vec<i64> {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return Vec::new();
        }
        let (mut over, mut earliest) = (Vec::new(), None::<Time>);
        for (id, pending) in self.pending.iter() {
            match pending.deadline {
                deadline if deadline <= now => over.push((deadline, id)),
                deadline => earliest = Some(earliest.map_or(deadline, |earliest| earliest.min(deadline))),
            }
        }
        self.earliest = earliest;
        over.sort_unstable();
        over.into_iter().map(|(_, id)| id).collect()
    }

    /// Takes a call that has timed out.
    pub(super) fn expire(&mut self, id: i64) -> Option<Expired> {
        let pending = self.take(id)?;
        let deadline = pending.deadline;
        Some(Expired {
            id,
            total: pending.progress.is_some() && pending.deadline == pending.total_deadline,
            after: deadline - pending.started.max(deadline_start(&pending)),
            method: pending.method,
            purpose: pending.purpose,
        })
    }
}

/// The start of the expired timeout: the last progress, or the start of the call.
fn deadline_start(pending: &PendingCall) -> Time {
    if pending.progress.is_some() && pending.deadline < pending.total_deadline {
        Time::from_epoch(pending.deadline.since_epoch().saturating_sub(pending.timeout))
    } else {
        pending.started
    }
}

/// How many ended calls are remembered, 8 bytes each: enough for one round trip of a client that cancels many calls. A
/// response to a forgotten one is reported as [`Violation::LateResponse`](super::Violation).
const MAX_ENDED_CALLS: usize = 1024;

/// The ids of our requests that were cancelled, timed out, or ended by a notification, oldest first.
///
/// Cancellation races with the response, so a response to such a request violates no rule:
/// <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation#timing-considerations>.
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

    /// Removes the id of a response. Returns whether it was known: a second response is not.
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

    fn expired(calls: &mut Calls, now: Time) -> Vec<Expired> {
        let over = calls.overdue(now);
        over.into_iter().filter_map(|id| calls.expire(id)).collect()
    }

    #[test]
    fn progress_extends_the_deadline_up_to_the_total() {
        let mut calls = Calls::default();
        let id = calls.insert(Time::ZERO, Method::CallTool, Purpose::Owner, SECOND * 10, SECOND * 25);
        assert_eq!(calls.progressed(at(9), id, 1.0), None, "nobody has asked for it");
        calls.expect_progress(id);
        assert_eq!(calls.next_deadline(), Some(at(10)));
        assert_eq!(calls.progressed(at(9), id, 1.0), Some(true));
        assert!(expired(&mut calls, at(10)).is_empty());
        assert_eq!(calls.next_deadline(), Some(at(19)));
        assert_eq!(calls.progressed(at(10), id, 1.0), Some(false), "it did not grow");
        assert_eq!(calls.progressed(at(18), id, 2.0), Some(true));
        assert!(expired(&mut calls, at(24)).is_empty());
        assert_eq!(calls.next_deadline(), Some(at(25)), "the total is not moved");
        let ended = expired(&mut calls, at(25));
        assert!(matches!(ended[..], [Expired { total: true, after, .. }] if after == SECOND * 25));
        assert_eq!(calls.len(), 0);
        assert_eq!(calls.next_deadline(), None);
    }

    #[test]
    fn a_call_that_is_postponed_still_ends_at_its_total() {
        let mut calls = Calls::default();
        let id = calls.insert(Time::ZERO, Method::CallTool, Purpose::Owner, SECOND * 10, SECOND * 25);
        let opening =
            calls.insert(Time::ZERO, Method::Initialize, Purpose::Opening, SECOND * 10, SECOND * 25);
        calls.postpone(at(9));
        assert_eq!(calls.next_deadline(), Some(at(10)), "nothing is over");
        calls.postpone(at(10));
        assert!(matches!(expired(&mut calls, at(10))[..], [Expired { id, .. }] if id == opening));
        assert!(expired(&mut calls, at(19)).is_empty());
        calls.postpone(at(20));
        assert_eq!(calls.next_deadline(), Some(at(25)));
        calls.postpone(at(25));
        let ended = expired(&mut calls, at(25));
        assert!(
            matches!(ended[..], [Expired { id: ended, after, .. }] if ended == id && after == SECOND * 25)
        );
    }

    #[test]
    fn the_ends_of_calls_are_in_the_order_of_their_deadlines() {
        let mut calls = Calls::default();
        let mut call = |seconds| {
            calls.insert(Time::ZERO, Method::CallTool, Purpose::Owner, SECOND * seconds, SECOND * 100)
        };
        let (late, early, answered, last) = (call(20), call(10), call(5), call(30));
        assert!(calls.take(answered).is_some());
        assert!(calls.next_deadline() <= Some(at(10)), "no later than the next");
        calls.shorten_deadline(Time::ZERO, last, SECOND * 15);
        let ended: Vec<i64> = expired(&mut calls, at(20)).iter().map(|expired| expired.id).collect();
        assert_eq!(ended, [early, last, late]);
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
