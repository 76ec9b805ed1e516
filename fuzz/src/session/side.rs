//! One side of a session: the session, its owner's view of it, and the checks after every step.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::session::{
    Call, CallError, Event, Inbound, Limits, Origin, Outbound, Reply, Role, Session, State, TransportCaps,
};
use mcpjoin_proto::{ErrorObject, Message, Method, RequestId, Time, encode};

/// The most events or messages of one step: more means an endless loop.
const MOST: usize = 20_000;

/// More bytes than an id and an error message take.
const OVERHEAD: usize = 6000;

pub(crate) struct Side {
    pub(crate) session: Session,
    /// Our calls that have not ended.
    open: BTreeSet<RequestId>,
    /// The open calls that may last until the session ends.
    listening: BTreeSet<RequestId>,
    /// The peer's requests that the owner is handling, in their order.
    pub(crate) handling: Vec<RequestId>,
    /// Whether the peer must be restarted.
    pub(crate) reopen: bool,
    closed: bool,
    origin: Arc<Origin>,
}

impl Side {
    pub(crate) fn new(role: Role, caps: TransportCaps, limits: Limits) -> Self {
        Self {
            session: Session::new(role, caps, limits),
            open: BTreeSet::new(),
            listening: BTreeSet::new(),
            handling: Vec::new(),
            reopen: false,
            closed: false,
            origin: Arc::new(Origin::new("fuzz")),
        }
    }

    /// The id of a request of the peer that is being handled, selected by a number; or else an unknown id.
    pub(crate) fn handled(&self, number: u8) -> RequestId {
        let place = usize::from(number).checked_rem(self.handling.len());
        place.map_or_else(|| RequestId::from(i64::from(number)), |place| self.handling[place].clone())
    }

    /// The id of one of our open calls, selected in the same way.
    pub(crate) fn called(&self, number: u8) -> RequestId {
        let place = usize::from(number).checked_rem(self.open.len());
        let id = place.and_then(|place| self.open.iter().nth(place));
        id.cloned().unwrap_or_else(|| RequestId::from(i64::from(number)))
    }

    pub(crate) fn call(&mut self, now: Time, call: &Call) {
        let room = self.session.has_room();
        match self.session.call(now, call) {
            Ok(id) => {
                assert!(room && !self.closed, "a call beyond the bounds");
                if call.method == Method::Listen {
                    self.listening.insert(id.clone());
                }
                assert!(self.open.insert(id), "an id was used twice");
            }
            Err(refused) => assert!(!refused.to_string().is_empty()),
        }
        self.check();
    }

    pub(crate) fn cancel(&mut self, id: &RequestId) {
        self.session.cancel(id, Some("no longer needed"));
        // A cancelled call gets no event.
        self.open.remove(id);
        self.check();
    }

    pub(crate) fn respond(&mut self, id: &RequestId, reply: Result<Reply, ErrorObject>) {
        self.session.respond(id, reply);
        self.handling.retain(|handled| handled != id);
        self.check();
    }

    /// Receives bytes as a link delivers them.
    pub(crate) fn line(&mut self, now: Time, line: Bytes) {
        if line.is_empty() || !self.session.wants_input() {
            return;
        }
        let origin = self.origin.clone();
        let inbound = match decode(&line, &self.session.limits().decode) {
            Ok(Decoded::Message(message)) => Inbound::Message { message, origin },
            Ok(Decoded::Batch(parts)) => Inbound::Batch { parts, exchange: None, origin },
            Err(error) => Inbound::Malformed { error, excerpt: line.slice(..line.len().min(200)), origin },
        };
        self.handle(now, inbound);
    }

    pub(crate) fn handle(&mut self, now: Time, inbound: Inbound) {
        self.session.handle(now, inbound);
        self.check();
    }

    /// Handles the due timer, which must not be due again afterwards: otherwise it would be an endless loop.
    pub(crate) fn timeout(&mut self, now: Time) {
        self.session.handle_timeout(now);
        assert!(self.session.poll_timeout().is_none_or(|next| next > now), "a timer stays due");
        self.check();
    }

    /// The next message to send, as bytes.
    pub(crate) fn transmit(&mut self) -> Option<Sent> {
        let outbound = self.session.poll_transmit()?;
        let mut out = BytesMut::new();
        let sent = match outbound {
            Outbound::Message { message, .. } => {
                let is_reply = matches!(message, Message::Response(_));
                encode::message(&message, &mut out);
                let line = out.freeze();
                match decode(&line, &self.session.limits().decode) {
                    Ok(Decoded::Message(_)) => {}
                    other => panic!("we have sent {line:?}, which is {other:?}"),
                }
                Sent::Line { line, is_reply }
            }
            Outbound::Batch { messages, .. } => {
                encode::batch(&messages, &mut out);
                let line = out.freeze();
                match decode(&line, &self.session.limits().decode) {
                    Ok(Decoded::Batch(parts)) => assert!(parts.iter().all(Result::is_ok)),
                    // A batch of responses has as many as the peer's batch had requests.
                    other => panic!("we have sent {line:?}, which is {other:?}"),
                }
                Sent::Line { line, is_reply: true }
            }
            Outbound::Abort { id } => Sent::Abort(id),
            Outbound::CloseStream { id } => panic!("nobody wanted the stream of {id} to be closed"),
        };
        self.check();
        Some(sent)
    }

    /// Checks every event, and the relations between them.
    pub(crate) fn check(&mut self) {
        for count in 0.. {
            assert!(count < MOST, "events without an end");
            let Some(event) = self.session.poll_event() else { break };
            assert!(!self.closed, "{event:?} after the last event");
            self.event(event);
        }
        let limits = self.session.limits();
        assert!(self.handling.len() <= limits.handling, "too many requests are handled");
        // The session itself makes two calls: a probe and an initialize.
        assert!(self.session.calls_in_flight() <= limits.in_flight + 2, "too many calls");
        assert!(self.open.len() <= self.session.calls_in_flight(), "a call was forgotten");
        let waiting = self.session.requests_in_flight() - self.handling.len();
        assert!(waiting <= limits.waiting / 96 + 1, "too many requests wait");
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Opened => assert!(self.session.peer().is_some()),
            Event::Request { request, context } => {
                assert!(!self.handling.contains(&request.id), "a request is handled twice");
                drop(context);
                self.handling.push(request.id);
            }
            Event::Notification { notification, .. } => drop(notification),
            Event::Progress { id, .. } => {
                assert!(self.open.contains(&id), "progress of a call that has ended");
            }
            Event::Outcome { id, outcome } => {
                assert!(self.open.remove(&id), "a call has ended twice");
                self.listening.remove(&id);
                if let Err(error) = outcome {
                    assert!(!error.to_string().is_empty());
                    assert!(!matches!(error, CallError::Cancelled), "own cancels have no outcome");
                }
            }
            Event::Cancelled { id, .. } => {
                let before = self.handling.len();
                self.handling.retain(|handled| *handled != id);
                assert!(self.handling.len() < before, "a request was cancelled that nobody handles");
            }
            Event::Violation(violation) => assert!(!violation.to_string().is_empty()),
            Event::Reopen => self.reopen = true,
            Event::Closed(cause) => {
                assert!(!cause.to_string().is_empty());
                self.closed = true;
            }
            _ => {}
        }
    }

    /// Advances the time until no timer is due; then only streams may still be open. The handlers end first: while the peer waits
    /// for one of them, calls without a total limit have no timeout.
    pub(crate) fn until_the_end(&mut self, now: Time) -> Time {
        let mut now = now;
        for count in 0.. {
            assert!(count < MOST, "timers without an end");
            while let Some(id) = self.handling.first().cloned() {
                self.respond(&id, Err(ErrorObject::internal("late")));
            }
            let Some(due) = self.session.poll_timeout() else { break };
            now = now.max(due);
            self.timeout(now);
        }
        assert!(self.open.is_subset(&self.listening), "{:?} will never end", self.open);
        now
    }

    /// Ends the session, and checks that no state is left.
    pub(crate) fn end(&mut self) {
        self.session.close();
        self.check();
        assert!(self.closed, "the last event did not come");
        assert!(self.open.is_empty(), "{:?} did not end", self.open);
        assert!(self.handling.is_empty(), "{:?} were not cancelled", self.handling);
        assert_eq!(self.session.calls_in_flight(), 0);
        assert_eq!(self.session.requests_in_flight(), 0);
        assert_eq!(self.session.poll_timeout(), None);
        assert_eq!(self.session.state(), State::Disconnected);
        let mut replies = 0;
        for count in 0.. {
            assert!(count < MOST, "messages without an end");
            let Some(sent) = self.transmit() else { break };
            if let Sent::Line { line, is_reply: true } = sent {
                replies += line.len();
            }
        }
        // In addition to the limit: the responses of running handlers, and those to the line that was read last.
        let limits = self.session.limits();
        let most = limits.queued_replies
            + (limits.handling + 2) * (limits.message + OVERHEAD)
            + (limits.decode.batch + limits.subscriptions) * OVERHEAD;
        assert!(replies <= most, "{replies} bytes of replies waited");
        assert!(self.session.poll_event().is_none());
    }
}

/// A message or action that leaves a session.
pub(crate) enum Sent {
    Line {
        line: Bytes,
        is_reply: bool,
    },
    /// The owner has aborted the exchange of its own request with this id.
    Abort(RequestId),
}
