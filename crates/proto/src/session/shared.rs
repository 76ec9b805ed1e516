//! The state that both eras share: role and limits, our pending calls, the pending requests of the peer, the queue to
//! the link and the events to the owner.
//!
//! [`legacy`](super::legacy) and [`modern`](super::modern) decide what is allowed and add the envelope. Everything that
//! is the same in both is here.

use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::NotifyRefused;
use super::calls::EndedCalls;
use super::calls::{Call, Calls, Expired, PendingCall, Purpose};
use super::capabilities::{client_declares, server_declares};
use super::envelope::{self, Additions};
use super::event::{CallError, CallRefused, CloseCause, Event, Peer, PeerCapabilities, Reply};
use super::limits::Limits;
use super::pending_requests::{PendingRequest, PendingRequests};
use super::queue::{Queue, bare_size, is_change, message_size};
use super::role::Role;
use super::transport::{Outbound, Route, TransportCaps};
use super::violation::Violation;
use crate::method::{MethodFacts, MethodKind, Needs};
use crate::types::{CancelledParams, LoggingLevel, ProgressParams};
use crate::{
    Direction, ErrorObject, Kind, Message, Method, Notification, Payload, Profile, ProgressToken, Raw,
    Request, RequestId, Response, Time, encode,
};

pub(super) struct Shared {
    pub(super) role: Role,
    pub(super) caps: TransportCaps,
    pub(super) limits: Arc<Limits>,
    pub(super) peer: Option<Arc<Peer>>,
    pub(super) calls: Calls,
    pub(super) requests: PendingRequests,
    pub(super) queue: Queue,
    pub(super) events: VecDeque<Event>,
    pub(super) ended_calls: EndedCalls,
    pub(super) dropped_logs: u64,
    /// The read pause has reached its timeout: see `flow_control`.
    pub(super) forces_reading: bool,
}

impl Shared {
    pub(super) fn new(role: Role, caps: TransportCaps, limits: Arc<Limits>) -> Self {
        Self {
            role,
            caps,
            limits,
            peer: None,
            calls: Calls::from(caps.requests_from),
            requests: PendingRequests::default(),
            queue: Queue::default(),
            // Capacity for one event: thousands of sessions may be idle, and the default growth would be to four.
            events: VecDeque::with_capacity(1),
            ended_calls: EndedCalls::default(),
            dropped_logs: 0,
            forces_reading: false,
        }
    }

    pub(super) const fn is_server(&self) -> bool {
        matches!(self.role, Role::Server(_))
    }

    /// Whether this side relays for a gateway.
    pub(super) fn relays(&self) -> bool {
        self.role.relays()
    }

    pub(super) fn violation(&mut self, violation: Violation) {
        self.events.push_back(Event::Violation(violation));
    }

    // ---- our requests ----

    /// Whether a call may be sent now, or which limit is reached.
    pub(super) fn check_capacity(&self) -> Result<(), CallRefused> {
        if self.calls.len() >= self.limits.in_flight {
            return Err(CallRefused::Full { limit: "in_flight", value: self.limits.in_flight });
        }
        self.check_own_queue()
    }

    /// Whether the queue of own messages is below its limit.
    pub(super) fn check_own_queue(&self) -> Result<(), CallRefused> {
        let value = self.limits.queued_calls;
        if self.queue.own_bytes() < value {
            Ok(())
        } else {
            Err(CallRefused::Full { limit: "queued_calls", value })
        }
    }

    /// Whether the queue of replies is within its limit.
    fn check_reply_queue(&self) -> Result<(), CallRefused> {
        let value = self.limits.queued_replies;
        if self.queue.reply_bytes() <= value {
            Ok(())
        } else {
            Err(CallRefused::Full { limit: "queued_replies", value })
        }
    }

    /// Whether this method may be sent to the peer: the revision has it in this direction, and its capability is
    /// declared.
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

    /// Whether the capability that a method needs is declared by the side that must declare it.
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
                matches!(peer, Some(PeerCapabilities::Client(client)) if client_declares(&client.capabilities, path))
            }
        }
    }

    /// The encoded length of a message, if it exceeds the limit. Computed only near the limit.
    fn too_large(&self, message: &Message) -> Option<usize> {
        let limit = self.limits.message;
        let may_be = message_size(message) > limit;
        may_be.then(|| encode::length(message)).filter(|length| *length > limit)
    }

    /// Sends a request with these additions in its envelope. Moves the params out of the call.
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
        // An upper bound of the length. The params stay in a call that may be too large.
        let size = call.params.as_ref().map_or(0, |params| params.raw().len()) + additions.max_added_bytes();
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

    /// Cancels a request of ours at the peer.
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

    /// Sends a notification on the session or on a stream of the peer. A change notification that already waits in the
    /// queue is not queued again.
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
        self.check_own_queue()?;
        if is_change {
            self.queue.push_change(notification, route);
        } else {
            self.queue.push_own(Message::Notification(notification), route);
        }
        Ok(())
    }

    /// Sends a notification of the server behind a gateway, in the reply lane, so that it stays in front of the later
    /// response.
    pub(super) fn relayed_notification(
        &mut self,
        notification: Notification,
        route: Route,
    ) -> Result<(), NotifyRefused> {
        self.check_reply_queue()?;
        self.queue.push_reply(Message::Notification(notification), route);
        Ok(())
    }

    // ---- responses to us ----

    /// Handles a response. `interpret` decodes a result in its era.
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
            Ok(result) => interpret(&pending, result).map_err(|problem| CallError::InvalidResponse {
                method: pending.method,
                problem: problem.into(),
            }),
        };
        self.push_outcome(id, outcome);
    }

    fn unmatched_response(&mut self, id: Option<RequestId>) {
        let violation = match id {
            Some(id) if self.ended_calls.remove_answered(&id) => return,
            Some(id) if self.calls.was_sent(&id) => Violation::LateResponse { id },
            id => Violation::UnknownResponse { id },
        };
        self.violation(violation);
    }

    /// Fails a pending call. Returns whether there was one with this id.
    pub(super) fn fail_call(
        &mut self,
        id: &RequestId,
        error: impl FnOnce(&PendingCall) -> CallError,
    ) -> bool {
        let Some((id, _)) = self.calls.find(id) else { return false };
        let Some(pending) = self.calls.take(id) else { return false };
        self.push_outcome(id, Err(error(&pending)));
        true
    }

    pub(super) fn call_expired(&mut self, expired: Expired, by_abort: bool) {
        self.send_cancel(expired.id, Some("timeout"), by_abort);
        let Expired { id, method, after, total, .. } = expired;
        self.push_outcome(id, Err(CallError::TimedOut { method, after, total }));
    }

    fn push_outcome(&mut self, id: i64, outcome: Result<Reply, CallError>) {
        self.events.push_back(Event::Outcome { id: RequestId::from(id), outcome });
    }

    // ---- requests of the peer ----

    /// Whether the peer may send this request; otherwise the error to respond with.
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

    /// Sends a response that was made without a handler.
    pub(super) fn reply(&mut self, id: RequestId, batch: Option<u64>, outcome: Result<Payload, ErrorObject>) {
        let message = Message::Response(Response { id: Some(id.clone()), outcome });
        match batch {
            Some(batch) => self.requests.batches.add(batch, message),
            None => self.queue.push_immediate_reply(message, Route::ReplyTo(id)),
        }
    }

    /// Rejects a request with the id of a pending one.
    pub(super) fn reject_duplicate(&mut self, id: RequestId, batch: Option<u64>) {
        self.violation(Violation::DuplicateId { id: id.clone() });
        let error = ErrorObject::invalid_request("a request with this id is still being handled");
        self.reply(id, batch, Err(error));
    }

    /// Sends an error for text without a readable id.
    pub(super) fn reply_without_id(&mut self, error: ErrorObject) {
        let message = Message::Response(Response { id: None, outcome: Err(error) });
        self.queue.push_immediate_reply(message, Route::Session);
    }

    /// Finishes a pending request with the response of its handler, which `interpret` derives from the request. Returns
    /// the request, or `None` when it is no longer pending.
    pub(super) fn finish_request(
        &mut self,
        id: &RequestId,
        interpret: impl FnOnce(&PendingRequest) -> Result<Payload, ErrorObject>,
    ) -> Option<PendingRequest> {
        let pending = self.requests.remove(id)?;
        let outcome = interpret(&pending);
        let mut message = Message::Response(Response { id: Some(id.clone()), outcome });
        if let Some(length) = self.too_large(&message) {
            let limit = self.limits.message;
            let error = ErrorObject::internal(format!(
                "the result of {length} bytes is above the limit `message` of {limit} bytes"
            ));
            message = Message::Response(Response { id: Some(id.clone()), outcome: Err(error) });
        }
        match pending.batch() {
            Some(batch) => self.finish_in_batch(batch, id, Some(message)),
            None => {
                self.queue.push_reply(message, Route::ReplyTo(id.clone()));
            }
        }
        self.dispatch();
        Some(pending)
    }

    /// The requests of the peer with this method that are pending.
    pub(super) fn requests_of(&self, method: &Method) -> Vec<RequestId> {
        let mut ids = self.requests.ids();
        ids.retain(|id| self.requests.method_of(id) == Some(method));
        ids
    }

    /// Handles the cancellation of a request by the peer. Returns whether it was pending.
    pub(super) fn peer_cancelled(&mut self, id: &RequestId, reason: Option<String>) -> bool {
        let Some(pending) = self.requests.remove(id) else { return false };
        if let Some(batch) = pending.batch() {
            self.finish_in_batch(batch, id, None);
        }
        if pending.is_handled() {
            self.events.push_back(Event::Cancelled { id: id.clone(), reason });
        }
        self.dispatch();
        true
    }

    // ---- notifications with the same meaning in both eras ----

    /// `notifications/cancelled`: for a request of the peer, or (from a modern server) for a stream of ours. Invalid
    /// ones are ignored, as the specification requires.
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
            self.push_outcome(id, Ok(Reply::empty()));
        }
    }

    /// `notifications/progress` for a request of ours.
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

    /// Passes progress of a request of ours unchanged to its caller.
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

    /// Reports progress for an unknown request, unless the request was cancelled meanwhile.
    pub(super) fn unknown_progress(&mut self, token: ProgressToken) {
        if token.as_i64().is_none_or(|id| !self.ended_calls.contains(id)) {
            self.violation(Violation::UnknownProgress { token });
        }
    }

    /// Any other notification: delivered if the peer may send it.
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

    /// Sends progress of a request of the peer, or replaces progress that still waits in the queue.
    pub(super) fn send_progress(
        &mut self,
        id: &RequestId,
        progress: f64,
        total: Option<f64>,
        text: Option<&str>,
    ) -> Result<(), NotifyRefused> {
        let pending = self.requests.find(id).ok_or(NotifyRefused::NoSuchRequest)?;
        let Some(token) = pending.details().and_then(|details| details.progress_token.clone()) else {
            return Ok(());
        };
        let details = pending.details_mut();
        if !progress.is_finite() {
            return Err(NotifyRefused::Invalid("progress is not a number".into()));
        }
        // The specification requires growing values.
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
        let position = self.queue.push_progress(older, message, Route::ReplyTo(id.clone()));
        if let Some(pending) = self.requests.find(id) {
            pending.details_mut().progress = Some(position);
        }
        Ok(())
    }

    /// Sends a notification for a request of the peer. Log messages are dropped and counted while the peer reads too
    /// little.
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
        self.check_reply_queue()?;
        self.queue.push_reply(Message::Notification(notification), Route::ReplyTo(id.clone()));
        Ok(())
    }

    // ---- the end ----

    /// Responds to all pending requests with an error, after the drain timeout.
    pub(super) fn reject_all(&mut self) {
        for id in self.requests.ids() {
            let handled = self.requests.find(&id).is_some_and(|pending| pending.is_handled());
            self.finish_request(&id, |_| {
                Err(ErrorObject::internal("the server ended before the request was answered"))
            });
            if handled {
                self.events.push_back(Event::Cancelled { id, reason: None });
            }
        }
    }

    /// Fails all pending calls: no response can be read any more.
    pub(super) fn fail_calls(&mut self, cause: &CloseCause) {
        let cause = Arc::new(cause.clone());
        for id in self.calls.take_all() {
            self.push_outcome(id, Err(CallError::Closed(cause.clone())));
        }
    }

    /// Ends all pending calls and requests with the session.
    pub(super) fn end(&mut self, cause: CloseCause) {
        self.fail_calls(&cause);
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

/// Whether a revision has a method of this kind in this direction.
fn is_allowed(facts: &MethodFacts, kind: MethodKind, to_server: bool, profile: &Profile) -> bool {
    let direction_fits = match facts.direction {
        Direction::Both => true,
        Direction::ToServer => to_server,
        Direction::ToClient => !to_server,
    };
    let kind_fits = (facts.kind == MethodKind::Notification) == (kind == MethodKind::Notification);
    direction_fits && kind_fits && facts.exists_in(&profile.version)
}

/// Decodes the params of a notification.
pub(super) fn read<T: serde::de::DeserializeOwned>(notification: &Notification) -> Option<T> {
    notification.params.as_ref()?.raw().decode().ok()
}

/// The progress token of a notification.
fn progress_token(notification: &Notification) -> Option<ProgressToken> {
    notification.params.as_ref().map(Payload::raw)?.member("progressToken")?.decode().ok()
}

/// A result must be an object in every revision. Anything else is a bug of the handler.
pub(super) fn result_object(result: Raw) -> Result<Payload, ErrorObject> {
    match result.kind() {
        Kind::Object => Ok(Payload::from_raw(result)),
        _ => Err(ErrorObject::internal("the handler's result is not an object".to_owned())),
    }
}

/// The level of a log message.
pub(super) fn log_level(notification: &Notification) -> Option<LoggingLevel> {
    notification.params.as_ref()?.raw().member("level")?.decode().ok()
}

/// The error for a subscription above the limit of their number.
pub(super) fn too_many_subscriptions(limit: usize) -> ErrorObject {
    ErrorObject::internal(format!("too many subscriptions: the limit `subscriptions` of {limit} is reached"))
}

/// The error for a subscription with a name above the limit of its length.
pub(super) fn too_long_subscription(limit: usize) -> ErrorObject {
    ErrorObject::internal(format!(
        "the name of what is subscribed to is above the limit `subscription_bytes` of {limit}"
    ))
}
