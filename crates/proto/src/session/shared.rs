//! What the session holds whatever the era: its role and bounds, the calls under way, the requests to be
//! answered, the queue to the link and the events to the owner.
//!
//! The eras ([`legacy`](super::legacy), [`modern`](super::modern)) decide what is allowed and how the
//! envelope looks; everything that is the same for both is done here, once.

use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use super::NotifyRefused;
use super::calls::EndedCalls;
use super::calls::{Call, Calls, Expired, PendingCall, Purpose};
use super::capabilities::{client_declares, server_declares};
use super::envelope::{self, Additions};
use super::event::{CallError, CallRefused, CloseCause, Event, Peer, PeerCapabilities, Reply};
use super::limits::Limits;
use super::link::{LinkCaps, Outbound, Route};
use super::pending_requests::{PendingRequest, PendingRequests};
use super::queue::{Queue, bare_size, is_change, message_size};
use super::role::Role;
use super::violation::Violation;
use crate::method::{MethodFacts, MethodKind, Needs};
use crate::types::{CancelledParams, LoggingLevel, ProgressParams};
use crate::{
    Direction, ErrorObject, Kind, Message, Method, Notification, Payload, Profile, ProgressToken, Raw,
    Request, RequestId, Response, Time, encode,
};

pub(super) struct Shared {
    pub(super) role: Role,
    pub(super) caps: LinkCaps,
    pub(super) limits: Arc<Limits>,
    pub(super) peer: Option<Arc<Peer>>,
    pub(super) calls: Calls,
    pub(super) requests: PendingRequests,
    pub(super) queue: Queue,
    pub(super) events: VecDeque<Event>,
    pub(super) ended_calls: EndedCalls,
    pub(super) dropped_logs: u64,
    /// Reading was held back for as long as it may be: see `reading`.
    pub(super) forces_reading: bool,
}

impl Shared {
    pub(super) fn new(role: Role, caps: LinkCaps, limits: Arc<Limits>) -> Self {
        Self {
            role,
            caps,
            limits,
            peer: None,
            calls: Calls::default(),
            requests: PendingRequests::default(),
            queue: Queue::default(),
            // Room for one: thousands of sessions lie idle, and the first growth by itself would be to four.
            events: VecDeque::with_capacity(1),
            ended_calls: EndedCalls::default(),
            dropped_logs: 0,
            forces_reading: false,
        }
    }

    pub(super) const fn is_server(&self) -> bool {
        matches!(self.role, Role::Server(_))
    }

    /// Whether this side stands for another one.
    pub(super) fn relays(&self) -> bool {
        self.role.relays()
    }

    pub(super) fn violation(&mut self, violation: Violation) {
        self.events.push_back(Event::Violation(violation));
    }

    // ---- what we ask ----

    /// Whether a call may be made now; else which bound is reached.
    pub(super) fn check_capacity(&self) -> Result<(), CallRefused> {
        if self.calls.len() >= self.limits.in_flight {
            return Err(CallRefused::Full { limit: "in_flight", value: self.limits.in_flight });
        }
        if self.queue.own_bytes() >= self.limits.queued_calls {
            return Err(CallRefused::Full { limit: "queued_calls", value: self.limits.queued_calls });
        }
        Ok(())
    }

    /// Whether we may send this method to this peer: it exists in the revision, goes in this direction, and
    /// what it needs was declared.
    pub(super) fn check_outgoing(
        &self,
        method: &Method,
        kind: MethodKind,
        profile: &Profile,
    ) -> Result<(), CallRefused> {
        let Some(facts) = method.facts().filter(|_| !self.relays()) else { return Ok(()) };
        if !is_allowed(facts, kind, !self.is_server(), profile) {
            return Err(CallRefused::NotInVersion {
                method: method.clone(),
                version: profile.version.clone(),
            });
        }
        match facts.needs {
            Needs::Nothing => Ok(()),
            Needs::Server(path) | Needs::Client(path) if self.declares(facts.needs, path, profile) => Ok(()),
            Needs::Server(capability) | Needs::Client(capability) => {
                Err(CallRefused::Undeclared { method: method.clone(), capability })
            }
        }
    }

    /// Whether the side that must declare this has declared it.
    fn declares(&self, needs: Needs, path: &str, profile: &Profile) -> bool {
        if path == "completions" && !profile.completions_capability {
            return true;
        }
        let peer = self.peer.as_ref().map(|peer| &peer.capabilities);
        match (needs, &self.role) {
            (Needs::Nothing, _) => true,
            (Needs::Server(_), Role::Server(server)) => server_declares(&server.capabilities, path),
            (Needs::Client(_), Role::Client(client)) => client_declares(&client.capabilities, path),
            (Needs::Server(_), Role::Client(_)) => {
                matches!(peer, Some(PeerCapabilities::Server(server)) if server_declares(server, path))
            }
            (Needs::Client(_), Role::Server(_)) => {
                matches!(peer, Some(PeerCapabilities::Client(asker)) if client_declares(&asker.capabilities, path))
            }
        }
    }

    /// The length of a message on the wire, when it is above the bound. Counted exactly only near the bound.
    fn too_large(&self, message: &Message) -> Option<usize> {
        let limit = self.limits.message;
        let may_be = message_size(message) > limit;
        may_be.then(|| encode::length(message)).filter(|length| *length > limit)
    }

    /// Sends a request with these additions in its envelope. Its parameters are taken out of the call.
    pub(super) fn send_request(
        &mut self,
        now: Time,
        call: &mut Call,
        purpose: Purpose,
        meta: &[(&str, &str)],
    ) -> Result<i64, CallRefused> {
        let id = self.calls.next_id();
        let mut digits = [0; crate::json::INTEGER_BYTES];
        let token = crate::json::integer_text(id.unsigned_abs(), false, &mut digits);
        let token = core::str::from_utf8(token).unwrap_or("0");
        let token = call.progress.then_some(("progressToken", token));
        let additions = Additions { lead: "", meta, token };
        // Never less than the message's own size. A call that may be too large keeps its parameters.
        let size = call.params.as_ref().map_or(0, |params| params.raw().len()) + additions.room();
        let may_be_too_large = size + bare_size(&RequestId::from(id), &call.method) > self.limits.message;
        let mut params = if may_be_too_large { call.params.clone() } else { call.params.take() };
        if !additions.is_empty() {
            let replaced = params.as_ref().filter(|_| self.relays() && meta.is_empty());
            let replaced =
                replaced.zip(token).and_then(|(params, (_, token))| envelope::replace_token(params, token));
            params = replaced.or_else(|| Some(envelope::splice(params, call.lacks_meta, &additions)));
        }
        let message =
            Message::Request(Request { id: RequestId::from(id), method: call.method.clone(), params });
        if may_be_too_large && let Some(length) = self.too_large(&message) {
            return Err(CallRefused::TooLarge { length, limit: self.limits.message });
        }
        let timeout = call.timeout.unwrap_or(self.limits.request);
        let total = call.total.unwrap_or_else(|| self.limits.request_total.max(timeout));
        let made = self.calls.insert(now, call.method.clone(), purpose, timeout, total);
        debug_assert_eq!(id, made, "the id was asked for just before");
        if call.progress {
            self.calls.expect_progress(id);
        }
        self.queue.push_own(message, call.route());
        Ok(id)
    }

    /// Tells the peer that nobody waits for the answer to this request of ours any more.
    pub(super) fn send_cancel(&mut self, id: i64, reason: Option<&str>, by_abort: bool) {
        self.ended_calls.add(id);
        if by_abort {
            self.queue.push_abort(RequestId::from(id));
            return;
        }
        let mut params = format!("{{\"requestId\":{id}");
        if let Some(reason) = reason {
            params.push_str(",\"reason\":");
            crate::json::push_string(reason, &mut params);
        }
        params.push('}');
        let params = Some(Payload::from_raw(Raw::trusted(params.into())));
        self.queue.push_own(
            Message::Notification(Notification { method: Method::Cancelled, params }),
            Route::Session,
        );
    }

    /// Sends a notification that belongs to no request of the peer but perhaps to a stream of its own. One that
    /// only says that something has changed, and waits already, says that for both.
    pub(super) fn send_notification(
        &mut self,
        notification: Notification,
        route: Route,
    ) -> Result<(), NotifyRefused> {
        if self.relays() && self.is_server() {
            return self.relayed_notification(notification, route);
        }
        let is_change = is_change(&notification.method);
        if is_change && self.queue.has_change(&notification) {
            return Ok(());
        }
        if self.queue.own_bytes() >= self.limits.queued_calls {
            return Err(CallRefused::Full { limit: "queued_calls", value: self.limits.queued_calls }.into());
        }
        if is_change {
            self.queue.push_change(notification, route);
        } else {
            self.queue.push_own(Message::Notification(notification), route);
        }
        Ok(())
    }

    /// Sends what another server has told: all of it, and ahead of what is answered from then on. What that one has said
    /// before a result stays before it.
    pub(super) fn relayed_notification(
        &mut self,
        notification: Notification,
        route: Route,
    ) -> Result<(), NotifyRefused> {
        if self.queue.reply_bytes() > self.limits.queued_replies {
            let value = self.limits.queued_replies;
            return Err(CallRefused::Full { limit: "queued_replies", value }.into());
        }
        self.queue.push_reply(Message::Notification(notification), route);
        Ok(())
    }

    // ---- what comes back ----

    /// A response to one of our requests, or to none. `judge` reads a successful result for its era.
    pub(super) fn response(
        &mut self,
        response: Response,
        interpret: impl FnOnce(&PendingCall, Payload) -> Result<Reply, String>,
    ) {
        let Some((id, _)) = response.id.as_ref().and_then(|id| self.calls.find(id)) else {
            self.unmatched_response(response.id);
            return;
        };
        let Some(pending) = self.calls.take(id) else { return };
        let outcome = match response.outcome {
            Err(error) => Err(CallError::Remote(error)),
            Ok(result) => interpret(&pending, result)
                .map_err(|problem| CallError::BadReply { method: pending.method, problem }),
        };
        self.events.push_back(Event::Outcome { id: RequestId::from(id), outcome });
    }

    fn unmatched_response(&mut self, id: Option<RequestId>) {
        let violation = match id {
            Some(id) if self.ended_calls.remove_answered(&id) => return,
            Some(id) if self.calls.was_sent(&id) => Violation::LateReply { id },
            id => Violation::UnknownReply { id },
        };
        self.violation(violation);
    }

    /// One of our requests fails for a reason of the link or of the bytes.
    pub(super) fn fail_call(
        &mut self,
        id: &RequestId,
        error: impl FnOnce(&PendingCall) -> CallError,
    ) -> bool {
        let Some((id, _)) = self.calls.find(id) else { return false };
        let Some(pending) = self.calls.take(id) else { return false };
        let outcome = Err(error(&pending));
        self.events.push_back(Event::Outcome { id: RequestId::from(id), outcome });
        true
    }

    pub(super) fn call_expired(&mut self, expired: Expired, by_abort: bool) {
        self.send_cancel(expired.id, Some("timeout"), by_abort);
        let Expired { id, method, after, total, .. } = expired;
        let outcome = Err(CallError::TimedOut { method, after, total });
        self.events.push_back(Event::Outcome { id: RequestId::from(id), outcome });
    }

    // ---- what the peer asks ----

    /// Whether the peer may ask this of us: else the error to answer with.
    pub(super) fn check_incoming(&mut self, method: &Method, profile: &Profile) -> Result<(), ErrorObject> {
        let Some(facts) = method.facts().filter(|_| !self.relays()) else { return Ok(()) };
        if !is_allowed(facts, MethodKind::Request, self.is_server(), profile) {
            self.violation(Violation::UnexpectedRequest { method: method.clone() });
            return Err(ErrorObject::method_not_found(facts.name));
        }
        match facts.needs {
            Needs::Server(path) | Needs::Client(path) if !self.declares(facts.needs, path, profile) => {
                Err(ErrorObject::method_not_found(facts.name))
            }
            _ => Ok(()),
        }
    }

    /// A reply that needs no handler, or the refusal of a request.
    pub(super) fn reply(&mut self, id: RequestId, batch: Option<u64>, outcome: Result<Payload, ErrorObject>) {
        let message = Message::Response(Response { id: Some(id.clone()), outcome });
        match batch {
            Some(batch) => self.requests.batches.add(batch, message),
            None => self.queue.push_immediate_reply(message, Route::ReplyTo(id)),
        }
    }

    /// The refusal of a request with the id of another one that has no reply yet.
    pub(super) fn reject_duplicate(&mut self, id: RequestId, batch: Option<u64>) {
        self.violation(Violation::DuplicateId { id: id.clone() });
        let error = ErrorObject::invalid_request("a request with this id is still being handled");
        self.reply(id, batch, Err(error));
    }

    /// An error about something that has no readable id.
    pub(super) fn reply_without_id(&mut self, error: ErrorObject) {
        let message = Message::Response(Response { id: None, outcome: Err(error) });
        self.queue.push_immediate_reply(message, Route::Session);
    }

    /// The answer of a handler, which `judge` makes from what is known about the request. Says which request it
    /// settles, `None` when nobody waits for it.
    pub(super) fn finish_request(
        &mut self,
        id: &RequestId,
        interpret: impl FnOnce(&PendingRequest) -> Result<Payload, ErrorObject>,
    ) -> Option<PendingRequest> {
        let incoming = self.requests.remove(id)?;
        let outcome = interpret(&incoming);
        let mut message = Message::Response(Response { id: Some(id.clone()), outcome });
        if let Some(length) = self.too_large(&message) {
            let limit = self.limits.message;
            let error = ErrorObject::internal(format!(
                "the result of {length} bytes is above the limit `message` of {limit} bytes"
            ));
            message = Message::Response(Response { id: Some(id.clone()), outcome: Err(error) });
        }
        match incoming.batch() {
            Some(batch) => self.finish_in_batch(batch, id, Some(message)),
            None => {
                self.queue.push_reply(message, Route::ReplyTo(id.clone()));
            }
        }
        self.dispatch();
        Some(incoming)
    }

    /// The peer no longer waits for the answer to this request of its own.
    pub(super) fn peer_cancelled(&mut self, id: &RequestId, reason: Option<String>) -> bool {
        let Some(incoming) = self.requests.remove(id) else { return false };
        if let Some(batch) = incoming.batch() {
            self.finish_in_batch(batch, id, None);
        }
        if incoming.is_handled() {
            self.events.push_back(Event::Cancelled { id: id.clone(), reason });
        }
        self.dispatch();
        true
    }

    // ---- notifications that mean the same in both eras ----

    /// `notifications/cancelled`: about a request of the peer, or (from a modern server) about a stream of
    /// ours. Invalid ones are ignored, as the specification asks.
    pub(super) fn cancelled(&mut self, notification: &Notification) {
        let Some(params) = read::<CancelledParams>(notification) else {
            self.violation(Violation::BadNotification { method: Method::Cancelled });
            return;
        };
        let Some(id) = params.request_id else { return };
        if self.peer_cancelled(&id, params.reason) {
            return;
        }
        let stream =
            self.calls.find(&id).filter(|(_, pending)| matches!(pending.purpose, Purpose::Listen { .. }));
        if let Some((id, _)) = stream {
            self.calls.take(id);
            self.ended_calls.add(id);
            let outcome = Ok(Reply::empty());
            self.events.push_back(Event::Outcome { id: RequestId::from(id), outcome });
        }
    }

    /// `notifications/progress` about a request of ours.
    pub(super) fn progress(&mut self, now: Time, notification: Notification) {
        if self.relays() {
            return self.relayed_progress(now, notification);
        }
        let Some(progress) = read::<ProgressParams>(&notification) else {
            self.violation(Violation::BadNotification { method: Method::Progress });
            return;
        };
        let token = progress.progress_token.clone();
        let grown =
            token.as_i64().and_then(|id| Some((id, self.calls.progressed(now, id, progress.progress)?)));
        match grown {
            Some((id, true)) => self.events.push_back(Event::Progress { id: RequestId::from(id), progress }),
            Some((_, false)) => self.violation(Violation::ProgressDidNotGrow { token }),
            None => self.unknown_progress(token),
        }
    }

    /// Progress of a request of ours, as it came: to whoever made the request.
    pub(super) fn relayed_progress(&mut self, now: Time, notification: Notification) {
        let Some(token) = progress_token(&notification) else {
            self.violation(Violation::BadNotification { method: Method::Progress });
            return;
        };
        match token.as_i64().filter(|id| self.calls.touch(now, *id)) {
            Some(id) => {
                let call = Some(RequestId::from(id));
                self.events.push_back(Event::Notification { notification, call });
            }
            None => self.unknown_progress(token),
        }
    }

    /// Progress of nothing that is under way: it may have crossed the cancellation of its request.
    pub(super) fn unknown_progress(&mut self, token: ProgressToken) {
        if token.as_i64().is_none_or(|id| !self.ended_calls.contains(id)) {
            self.violation(Violation::UnknownProgress { token });
        }
    }

    /// Any other notification: to the owner, when the peer may send it.
    pub(super) fn notification(
        &mut self,
        notification: Notification,
        profile: &Profile,
        call: Option<RequestId>,
    ) {
        let facts = notification.method.facts().filter(|_| !self.relays());
        let expected =
            facts.is_none_or(|facts| is_allowed(facts, MethodKind::Notification, self.is_server(), profile));
        if expected {
            self.events.push_back(Event::Notification { notification, call });
        } else {
            self.violation(Violation::UnexpectedNotification { method: notification.method });
        }
    }

    /// Tells the peer how far one of its requests is. Progress that nobody has taken yet is replaced.
    pub(super) fn send_progress(
        &mut self,
        id: &RequestId,
        progress: f64,
        total: Option<f64>,
        text: Option<&str>,
    ) -> Result<(), NotifyRefused> {
        let incoming = self.requests.find(id).ok_or(NotifyRefused::NoSuchRequest)?;
        let Some(token) = incoming.details().and_then(|details| details.progress_token.clone()) else {
            return Ok(());
        };
        let details = incoming.details_mut();
        if !progress.is_finite() {
            return Err(NotifyRefused::Invalid("progress is not a number".into()));
        }
        // Every value must be above the one before.
        if details.reported.is_some_and(|last| progress <= last) {
            return Ok(());
        }
        details.reported = Some(progress);
        let older = details.progress;
        let params =
            ProgressParams::new(token, progress).with_total_and_message(total, text.map(ToOwned::to_owned));
        let params =
            Payload::from_value(&params).map_err(|error| NotifyRefused::Invalid(error.to_string()))?;
        let message = Message::Notification(Notification { method: Method::Progress, params: Some(params) });
        let place = self.queue.push_progress(older, message, Route::ReplyTo(id.clone()));
        if let Some(incoming) = self.requests.find(id) {
            incoming.details_mut().progress = Some(place);
        }
        Ok(())
    }

    /// Sends a notification that belongs to a request of the peer. Log messages are dropped, and counted,
    /// when the peer takes too little.
    pub(super) fn send_related(
        &mut self,
        notification: Notification,
        id: &RequestId,
    ) -> Result<(), NotifyRefused> {
        if notification.method == Method::LogMessage
            && self.queue.reply_bytes() > self.limits.queued_replies / 2
        {
            self.dropped_logs += 1;
            return Ok(());
        }
        if self.queue.reply_bytes() > self.limits.queued_replies {
            let value = self.limits.queued_replies;
            return Err(CallRefused::Full { limit: "queued_replies", value }.into());
        }
        self.queue.push_reply(Message::Notification(notification), Route::ReplyTo(id.clone()));
        Ok(())
    }

    // ---- the end ----

    /// The time to finish is over: what is not answered by now is refused.
    pub(super) fn reject_all(&mut self) {
        for id in self.requests.ids() {
            let handled = self.requests.find(&id).is_some_and(|incoming| incoming.is_handled());
            self.finish_request(&id, |_| {
                Err(ErrorObject::internal("the server ended before the request was answered"))
            });
            if handled {
                self.events.push_back(Event::Cancelled { id, reason: None });
            }
        }
    }

    /// Everything that is under way ends with the session.
    pub(super) fn end(&mut self, cause: CloseCause) {
        let shared = Arc::new(cause.clone());
        for id in self.calls.take_all() {
            let outcome = Err(CallError::Closed(shared.clone()));
            self.events.push_back(Event::Outcome { id: RequestId::from(id), outcome });
        }
        for id in self.requests.take_handled() {
            self.events.push_back(Event::Cancelled { id, reason: None });
        }
        self.events.push_back(Event::Closed(cause));
    }

    pub(super) fn transmit(&mut self) -> Option<Outbound> {
        let outbound = self.queue.pop();
        if outbound.is_some() {
            self.dispatch();
        }
        outbound
    }
}

/// Whether a method exists in a revision, as what it is used for, in the direction it goes.
fn is_allowed(facts: &MethodFacts, kind: MethodKind, to_server: bool, profile: &Profile) -> bool {
    let direction_fits = match facts.direction {
        Direction::Both => true,
        Direction::ToServer => to_server,
        Direction::ToClient => !to_server,
    };
    let kind_fits = (facts.kind == MethodKind::Notification) == (kind == MethodKind::Notification);
    direction_fits && kind_fits && facts.exists_in(&profile.version)
}

/// The parameters of a notification, when they fit.
pub(super) fn read<T: serde::de::DeserializeOwned>(notification: &Notification) -> Option<T> {
    notification.params.as_ref()?.raw().decode().ok()
}

/// The name under which progress is reported.
fn progress_token(notification: &Notification) -> Option<ProgressToken> {
    notification.params.as_ref().map(Payload::raw)?.member("progressToken")?.decode().ok()
}

/// A result is an object in every revision; anything else a handler made is its fault, not the peer's.
pub(super) fn result_object(result: Raw) -> Result<Payload, ErrorObject> {
    match result.kind() {
        Kind::Object => Ok(Payload::from_raw(result)),
        _ => Err(ErrorObject::internal("the handler's result is not an object".to_owned())),
    }
}

/// How serious a log message is, where it says so.
pub(super) fn log_level(notification: &Notification) -> Option<LoggingLevel> {
    notification.params.as_ref()?.raw().member("level")?.decode().ok()
}

/// The refusal of one subscription more than the bound.
pub(super) fn too_many_subscriptions(limit: usize) -> ErrorObject {
    ErrorObject::internal(format!("too many subscriptions: the limit `subscriptions` of {limit} is reached"))
}

/// The refusal of a subscription to something whose name is too long to keep.
pub(super) fn too_long_subscription(limit: usize) -> ErrorObject {
    ErrorObject::internal(format!(
        "the name of what is subscribed to is above the limit `subscription_bytes` of {limit}"
    ))
}
