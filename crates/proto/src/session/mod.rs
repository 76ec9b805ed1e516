//! The session state machine: it checks and routes every message between two peers.
//!
//! A [`Session`] does no I/O and reads no clock. Its owner (the connection of the crate `mcpjoin`, or a test with
//! manual time) passes in what the link received ([`Session::handle`]) and the current time
//! ([`Session::handle_timeout`]). It takes out messages to send ([`Session::poll_transmit`]), events
//! ([`Session::poll_event`]) and the time of the next call ([`Session::poll_timeout`]).
//!
//! The era is decided once, by `client_negotiation` or `server_negotiation`. Afterwards the session is either `legacy`
//! or `modern`, and no code compares versions.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>
//!
//! A session never blocks, sends a response to every request, and limits everything that it stores ([`Limits`]).

mod batch;
mod calls;
mod capabilities;
mod client_negotiation;
mod envelope;
mod event;
mod flow_control;
mod foreign;
mod legacy;
mod limits;
mod modern;
mod outgoing;
mod pending_requests;
mod queue;
mod ring_map;
mod role;
mod server_negotiation;
mod shared;
mod state;
mod subscriptions;
mod transport;
mod violation;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;

pub use calls::Call;
pub use envelope::{ResultEnvelope, WrappedResult};
pub use event::{
    CallError, CallRefused, ClientInfo, CloseCause, EraChoice, Event, NegotiationFailure, Peer,
    PeerCapabilities, Reply, RequestContext, ResponseProblem,
};
pub use foreign::foreign_protocol;
pub use limits::Limits;
#[doc(hidden)]
pub use ring_map::RingMap;
pub use role::{ClientRole, Presents, Role, ServerRole};
pub use state::{NotifyRefused, State};
pub use transport::{
    Attachment, HttpBody, Inbound, Origin, Outbound, ProcessExit, Route, TransportCaps, TransportEnd,
    TransportEndKind, TransportError, TransportErrorKind, TransportErrorReason,
};
pub use violation::Violation;

use calls::{Expired, PendingCall, Purpose};
use client_negotiation::{ClientNegotiation, EraDecision};
use legacy::Legacy;
use modern::Modern;
use server_negotiation::FirstRequest;
use shared::Shared;

use crate::decode::Shape;
use crate::{DecodeError, ErrorObject, Message, Method, Notification, Request, RequestId, Response, Time};

/// One side of a connection between two peers.
pub struct Session {
    phase: Phase,
    shared: Shared,
    /// Set while the session drains: it reads nothing more, and pending requests may finish until this time. The cause
    /// is reported at the end.
    draining: Option<(Time, Box<CloseCause>)>,
    /// Since when the peer has read nothing, and how many bytes it had read by then. `None` while nothing waits for it.
    stall: Option<(Time, u64)>,
    /// The time of the last inbound item.
    last_read: Time,
    /// State for modern requests on a legacy connection: see `outgoing`.
    inline_modern: Option<Box<Modern>>,
}

enum Phase {
    /// [`Session::open`] was not called yet.
    Idle,
    /// We are a client and do not know the era of the server yet.
    Negotiating(Box<ClientNegotiation>),
    /// We are a server and wait for the first request.
    AwaitingFirst,
    Legacy(Legacy),
    Modern(Modern),
    Over,
}

impl Session {
    /// A session over a link with the capabilities `caps`. It does nothing before [`Session::open`]. Sessions may share
    /// one `limits`.
    #[must_use]
    pub fn new(role: Role, caps: TransportCaps, limits: impl Into<Arc<Limits>>) -> Self {
        Self {
            phase: Phase::Idle,
            shared: Shared::new(role, caps, limits.into()),
            draining: None,
            stall: None,
            last_read: Time::ZERO,
            inline_modern: None,
        }
    }

    /// Opens the session: a client sends its first request, a server waits for one. Call it once the peer exists (the
    /// child process is spawned), because the opening timeout starts here.
    pub fn open(&mut self, now: Time) {
        if !matches!(self.phase, Phase::Idle) {
            return;
        }
        match self.shared.role.clone() {
            Role::Client(client) => {
                let (negotiation, decision) = ClientNegotiation::start(&mut self.shared, client, now);
                self.phase = Phase::Negotiating(Box::new(negotiation));
                self.decide(decision);
            }
            Role::Server(_) => self.phase = Phase::AwaitingFirst,
        }
    }

    /// The link has reconnected in response to [`Event::Reopen`].
    pub fn reopened(&mut self, now: Time) {
        if let Phase::Negotiating(negotiation) = &mut self.phase {
            let decision = negotiation.reopened(&mut self.shared, now);
            self.decide(decision);
        }
    }

    // ---- inbound ----

    /// Handles what the link has received.
    pub fn handle(&mut self, now: Time, inbound: Inbound) {
        if matches!(self.phase, Phase::Over) {
            return;
        }
        self.last_read = now;
        match inbound {
            Inbound::Message { message, origin } => self.message(now, message, origin, None),
            Inbound::Batch { parts, exchange, origin } => self.batch(now, parts, exchange, &origin),
            Inbound::Malformed { error, excerpt, .. } => self.malformed(now, error, excerpt),
            Inbound::Lost { id, cause } => self.lost(now, &id, cause),
            Inbound::ByteOrderMark => self.shared.violation(Violation::ByteOrderMark),
            // In the legacy era a disconnect does not cancel the request: the client may resume the stream.
            Inbound::Detached { id } => {
                if let Phase::Modern(modern) = &mut self.phase {
                    modern.detach(&mut self.shared, &id);
                }
            }
            Inbound::Closed { cause } => self.link_ended(now, cause),
        }
    }

    fn message(&mut self, now: Time, message: Message, origin: Arc<Origin>, batch: Option<u64>) {
        match message {
            Message::Request(request) => self.request(request, origin, batch),
            Message::Notification(notification) => self.notification(now, notification),
            Message::Response(response) => self.response(now, response),
        }
    }

    fn lost(&mut self, now: Time, id: &RequestId, cause: TransportError) {
        if let Phase::Negotiating(negotiation) = &mut self.phase {
            let decision = negotiation.lost(&mut self.shared, now, id, cause);
            return self.decide(decision);
        }
        if self.shared.fail_call(id, |_| CallError::Lost(cause))
            && let Some(id) = id.as_i64()
        {
            self.shared.ended_calls.add(id);
        }
    }

    fn request(&mut self, mut request: Request, origin: Arc<Origin>, batch: Option<u64>) {
        // A message of an in-memory link was not scanned yet, and several lookups follow.
        if let Some(params) = &mut request.params {
            params.index();
        }
        if self.is_inline_modern(&request) {
            return self.inline_modern_request(request, origin, batch);
        }
        if self.is_stream(&request.id) {
            return self.shared.reject_duplicate(request.id, batch);
        }
        let shared = &mut self.shared;
        match &mut self.phase {
            Phase::Idle | Phase::Over => {}
            Phase::Negotiating(_) => {
                let decision = ClientNegotiation::request(shared, request);
                self.decide(decision);
            }
            Phase::AwaitingFirst => self.first_request(request, origin),
            // The client probed, timed out, sent `initialize`, and then received our response to the probe.
            Phase::Legacy(legacy)
                if !legacy.is_ready()
                    && request.method != Method::Initialize
                    && modern::names_its_version(&request) =>
            {
                self.first_request(request, origin);
            }
            Phase::Legacy(legacy) => legacy.request(shared, request, origin, batch),
            Phase::Modern(modern) => modern.request(shared, request, origin),
        }
    }

    fn first_request(&mut self, request: Request, origin: Arc<Origin>) {
        let Role::Server(server) = self.shared.role.clone() else { return };
        match server_negotiation::first_request(&mut self.shared, &server, request) {
            FirstRequest::Answered => {}
            FirstRequest::Legacy(legacy) => self.phase = Phase::Legacy(legacy),
            FirstRequest::Modern(mut modern, request) => {
                // A probe alone does not decide the era: the client may still send `initialize`. A probe that the
                // server behind a gateway responds to decides it.
                let decides = (request.method != Method::Discover || server.relays)
                    && modern::names_our_version(&request);
                if decides {
                    self.shared.peer = Some(Arc::new(server_negotiation::unknown_client()));
                    self.shared.events.push_back(Event::Opened);
                }
                modern.request(&mut self.shared, request, origin);
                if decides {
                    self.phase = Phase::Modern(modern);
                }
            }
        }
    }

    fn notification(&mut self, now: Time, notification: Notification) {
        let shared = &mut self.shared;
        match &mut self.phase {
            Phase::Idle | Phase::Over => {}
            Phase::Negotiating(_) => {
                // A server may log before it responds to `initialize`.
                if notification.method == Method::LogMessage {
                    shared.events.push_back(Event::Notification { notification, call: None });
                } else {
                    shared.violation(Violation::TooEarly { method: notification.method });
                }
            }
            Phase::AwaitingFirst => shared.violation(Violation::TooEarly { method: notification.method }),
            Phase::Legacy(legacy) => match &mut self.inline_modern {
                // It may cancel the stream of a modern request.
                Some(inline_modern) if notification.method == Method::Cancelled => {
                    inline_modern.notification(shared, now, notification);
                }
                _ => legacy.notification(shared, now, notification),
            },
            Phase::Modern(modern) => modern.notification(shared, now, notification),
        }
    }

    fn response(&mut self, now: Time, response: Response) {
        match &mut self.phase {
            Phase::Negotiating(negotiation) => {
                let decision = negotiation.response(&mut self.shared, now, response);
                self.decide(decision);
            }
            Phase::Legacy(legacy) => legacy.response(&mut self.shared, response),
            Phase::Modern(modern) => modern.response(&mut self.shared, response),
            _ => self.shared.violation(Violation::UnknownResponse { id: response.id }),
        }
    }

    fn decide(&mut self, decision: Option<EraDecision>) {
        match decision {
            None => {}
            Some(EraDecision::Legacy(legacy)) => self.phase = Phase::Legacy(legacy),
            Some(EraDecision::Modern(modern)) => self.phase = Phase::Modern(modern),
            Some(EraDecision::Failed(cause)) => self.finish(cause),
        }
    }

    fn batch(
        &mut self,
        now: Time,
        parts: Vec<Result<Message, DecodeError>>,
        exchange: Option<u64>,
        origin: &Arc<Origin>,
    ) {
        if !self.profile().is_some_and(|profile| profile.batching) {
            self.shared.violation(Violation::Batch);
            if self.shared.is_server() {
                let error = ErrorObject::invalid_request("this protocol version has no batches");
                self.shared.reply_without_id(error);
            } else {
                self.refuse_batched_responses(now, &parts);
            }
            return;
        }
        let refused = self.shared.rejects_batches();
        let number = self.shared.requests.open_batch(exchange);
        for part in parts {
            match part {
                Ok(Message::Request(request)) if refused => self.shared.reject_in_batch(request, number),
                Ok(message) => self.message(now, message, origin.clone(), Some(number)),
                Err(error) => {
                    let (id, answer) = (error.id.clone(), error.to_error_object());
                    if self.needs_response(&error) {
                        let response = Response { id, outcome: Err(answer) };
                        self.shared.requests.batches.add(number, Message::Response(response));
                    }
                    self.shared
                        .violation(Violation::Malformed { error: error.into(), excerpt: Bytes::new() });
                }
            }
        }
        let joined = self.shared.requests.batches.complete(number);
        self.shared.push_joined(joined);
    }

    /// Fails the calls whose responses are in an array that the peer may not send: they get no other ones.
    fn refuse_batched_responses(&mut self, now: Time, parts: &[Result<Message, DecodeError>]) {
        for part in parts {
            let id = match part {
                Ok(Message::Response(response)) => response.id.as_ref(),
                Err(error) if error.shape != Shape::Request => error.id.as_ref(),
                _ => None,
            };
            let Some(id) = id else { continue };
            let problem =
                ResponseProblem::from(String::from("it is in an array, and a response is one object"));
            if let Phase::Negotiating(negotiation) = &mut self.phase {
                let decision = id
                    .as_i64()
                    .and_then(|id| negotiation.invalid_response(&mut self.shared, now, id, problem));
                self.decide(decision);
            } else {
                self.shared.fail_call(id, |pending| CallError::InvalidResponse {
                    method: pending.method.clone(),
                    problem,
                });
            }
        }
    }

    fn malformed(&mut self, now: Time, error: DecodeError, excerpt: Bytes) {
        if let Phase::Negotiating(negotiation) = &mut self.phase {
            let decision = negotiation.malformed(&mut self.shared, now, &error, &excerpt);
            self.shared.violation(Violation::Malformed { error: error.into(), excerpt });
            return self.decide(decision);
        }
        let (id, answer) = (error.id.clone(), error.to_error_object());
        let needs_response = self.needs_response(&error);
        self.shared.violation(Violation::Malformed { error: error.into(), excerpt });
        match id {
            Some(id) if needs_response => self.shared.reply(id, None, Err(answer)),
            None if needs_response => self.shared.reply_without_id(answer),
            _ => {}
        }
    }

    /// Whether the peer must get an error response for text that is not a message. An invalid response fails the call
    /// that it belongs to, and no other.
    fn needs_response(&mut self, error: &DecodeError) -> bool {
        let bad_reply = |pending: &PendingCall| CallError::bad_response(pending.method.clone(), error);
        let is_reply = |id: &RequestId| self.shared.fail_call(id, bad_reply);
        if error.shape != Shape::Request && error.id.as_ref().is_some_and(is_reply) {
            return false;
        }
        match &self.phase {
            // A client responds to a malformed request only, and ignores other garbage in a server's output.
            Phase::Legacy(_) if !self.shared.is_server() => error.shape == Shape::Request,
            _ => self.shared.is_server() && matches!(error.shape, Shape::Request | Shape::Unknown),
        }
    }

    fn link_ended(&mut self, now: Time, end: TransportEnd) {
        if let Phase::Negotiating(negotiation) = &mut self.phase {
            let decision = negotiation.ended(&mut self.shared, end);
            return self.decide(decision);
        }
        // The client closed its side in order, so the server finishes the pending requests.
        let orderly = end.kind.is_closed() && end.exit.is_none();
        if self.shared.is_server() && orderly && self.draining.is_none() {
            return self.begin_draining(now, CloseCause::Link(end));
        }
        self.finish(CloseCause::Link(end));
    }

    fn finish(&mut self, cause: CloseCause) {
        if !matches!(self.phase, Phase::Over) {
            self.phase = Phase::Over;
            self.draining = None;
            self.stall = None;
            self.shared.end(cause);
        }
    }

    // ---- operations of the owner ----

    /// Sends a request. Its end is reported as [`Event::Outcome`] with the returned id.
    ///
    /// # Errors
    /// When the request was not sent: see [`CallRefused`].
    pub fn call(&mut self, now: Time, call: &Call) -> Result<RequestId, CallRefused> {
        self.call_taking(now, &mut call.clone())
    }

    /// As [`Session::call`], and moves the parameters out of `call`. A large text then has one owner, and the envelope
    /// is added without a copy. The parameters stay in `call` on [`CallRefused::Full`], so that the caller can retry.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub fn call_taking(&mut self, now: Time, call: &mut Call) -> Result<RequestId, CallRefused> {
        let shared = &mut self.shared;
        let id = match &self.phase {
            Phase::Over => return Err(CallRefused::Closed),
            _ if self.draining.is_some() => return Err(CallRefused::Closed),
            Phase::Idle | Phase::Negotiating(_) | Phase::AwaitingFirst => return Err(CallRefused::NotOpen),
            Phase::Legacy(legacy) => match &self.inline_modern {
                Some(inline_modern)
                    if call.on_behalf_of.as_ref().is_some_and(|id| shared.requests.is_modern(id)) =>
                {
                    inline_modern.call(shared, now, call)?
                }
                _ => legacy.call(shared, now, call)?,
            },
            Phase::Modern(modern) => modern.call(shared, now, call)?,
        };
        Ok(RequestId::from(id))
    }

    /// Cancels a request of ours and notifies the peer. No event follows, and a late response is dropped. Unknown and
    /// finished ids are ignored.
    pub fn cancel(&mut self, id: &RequestId, reason: Option<&str>) {
        let owned = self.shared.calls.find(id).filter(|(_, pending)| pending.purpose != Purpose::Opening);
        let Some((id, _)) = owned else { return };
        self.shared.calls.take(id);
        let by_abort = self.cancels_by_abort();
        self.shared.send_cancel(id, reason, by_abort);
    }

    fn cancels_by_abort(&self) -> bool {
        self.shared.caps.exchanges && self.profile().is_some_and(|profile| profile.disconnect_cancels)
    }

    /// Closes the session at once. Pending calls fail. A server ends the streams of its clients with a result.
    pub fn close(&mut self) {
        self.end_streams();
        self.finish(CloseCause::Local);
    }

    /// Closes the session once the pending requests of the peer are finished. Nothing more is read, own calls fail, and
    /// the peer's requests may still get a response for [`Limits::drain`](Limits::drain). A client, and a
    /// session that is not open, closes at once.
    pub fn drain(&mut self, now: Time) {
        match self.phase {
            Phase::Legacy(_) | Phase::Modern(_) | Phase::AwaitingFirst if self.shared.is_server() => {
                self.begin_draining(now, CloseCause::Local);
            }
            _ => self.close(),
        }
    }

    fn begin_draining(&mut self, now: Time, cause: CloseCause) {
        if self.draining.is_some() {
            return;
        }
        self.end_streams();
        self.shared.fail_calls(&cause);
        self.draining = Some((now + self.shared.limits.drain, Box::new(cause)));
        self.finish_draining(now);
    }

    fn finish_draining(&mut self, now: Time) {
        let Some((until, cause)) = &self.draining else { return };
        let done = self.shared.requests.len() == 0 && self.shared.queue.is_empty() && self.stall.is_none();
        if done || *until <= now {
            let cause = CloseCause::clone(cause);
            self.shared.reject_all();
            self.finish(cause);
        }
    }

    // ---- time ----

    /// Handles expired timers. Call it at the time of [`Session::poll_timeout`]; an earlier call does nothing.
    pub fn handle_timeout(&mut self, now: Time) {
        // While the server waits for an answer of the user, it cannot answer us.
        if !self.shared.is_server() && self.shared.requests.len() > 0 {
            self.shared.calls.postpone(now);
        }
        for id in self.shared.calls.overdue(now) {
            // The end of the session may have taken it.
            if let Some(expired) = self.shared.calls.expire(id) {
                self.expired(now, expired);
            }
        }
        if let Some((since, _)) = self.stall
            && since + self.shared.limits.write_stall <= now
        {
            let after = self.shared.limits.write_stall;
            self.finish(CloseCause::Stalled { after });
        }
        self.end_read_pause(now);
        self.finish_draining(now);
    }

    fn expired(&mut self, now: Time, expired: Expired) {
        if expired.purpose != Purpose::Opening {
            let by_abort = self.cancels_by_abort();
            self.shared.call_expired(expired, by_abort);
        } else if let Phase::Negotiating(negotiation) = &mut self.phase {
            let decision = negotiation.expired(&mut self.shared, now, expired);
            self.decide(decision);
        }
    }

    /// The time of the next call of [`Session::handle_timeout`]: at or before the next deadline. It may be that of a
    /// call which has ended since.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let stall = self.stall.map(|(since, _)| since + self.shared.limits.write_stall);
        let drain = self.draining.as_ref().map(|(until, _)| *until);
        [self.shared.calls.next_deadline(), stall, drain, self.read_pause_end()]
            .into_iter()
            .flatten()
            .min()
            .filter(|time| *time < Time::FAR)
    }

    /// Reports the progress of the link: how many bytes the peer has read since the link was made, and whether more
    /// bytes wait for it. A peer that reads nothing for [`Limits::write_stall`] is disconnected.
    pub fn report_sent(&mut self, now: Time, sent: u64, waiting: bool) {
        if matches!(self.phase, Phase::Over) {
            return;
        }
        self.stall = match self.stall {
            _ if !waiting => None,
            Some((since, before)) if before == sent => Some((since, before)),
            _ => Some((now, sent)),
        };
        self.finish_draining(now);
    }

    // ---- outbound ----

    /// The next item to send. Replies precede own calls.
    pub fn poll_transmit(&mut self) -> Option<Outbound> {
        self.shared.transmit()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    /// Moves all events behind those in `events`. The same as polling [`Session::poll_event`] until it is `None`,
    /// without moving each event.
    pub fn take_events(&mut self, events: &mut VecDeque<Event>) {
        if events.is_empty() {
            core::mem::swap(&mut self.shared.events, events);
        } else {
            events.append(&mut self.shared.events);
        }
    }

    /// Frees spare capacity beyond that of one request. For owners of thousands of idle sessions.
    pub fn shrink(&mut self) {
        let shared = &mut self.shared;
        shared.calls.shrink();
        shared.requests.shrink();
        shared.queue.shrink();
        if shared.events.is_empty() && shared.events.capacity() > 1 {
            shared.events = VecDeque::new();
        }
    }
}
