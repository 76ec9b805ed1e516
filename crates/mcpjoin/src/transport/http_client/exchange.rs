//! One message posted, and its response.
//!
//! The transport makes an exchange for each message, polls it until it is finished, and drops it to abort it. An exchange
//! reports [`ExchangeEvent`]s and changes nothing itself.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http>,
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http>

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderMap;
use mcpjoin_proto::http::classify::{Probe, ProbeBody, ProbeVerdict, verdict};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::http::response_head::forgets_session;
use mcpjoin_proto::session::{
    HttpBody, Inbound, Outbound, TransportEnd, TransportError, TransportErrorKind,
    TransportErrorReason as Reason,
};
use mcpjoin_proto::text::Line;
use mcpjoin_proto::{ErrorObject, Message, RequestId, code};
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, timeout};

use super::body::{Content, answers, compressed, decode_message, ends_with_connection, read_body, too_long};
use super::exchange_event::{ExchangeEvent, RefusedInitialize};
use super::requester::{HttpRequest, RequestError, Requester, media_type};
use super::response_error::{self, Page};
use super::response_stream::STREAM_END_TIMEOUT;
use super::retry::{
    FIRST_RETRY_DELAY, MAX_RETRY_AFTER, MAX_UNASKED_RETRIES, MIN_TOLD_DELAY, RetryClass, is_temporary,
    retry_after_of, retry_after_text,
};
use super::session::LegacySession;
use crate::http::Response;
use crate::transport::stream::is_cut_off;

/// The characters of an unknown id that are shown.
const MAX_ID_CHARS: usize = 80;

/// What a message is to its exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A probe of the era.
    Probe(Probe),
    /// A request.
    Request,
    /// A notification, a response, or several of these: the server accepts it without a response.
    OneWay,
}

/// A message to post.
pub(super) struct Post {
    pub(super) http_request: HttpRequest,
    pub(super) role: Role,
    /// Whether it may be sent again when the server cannot process it now.
    pub(super) retry_class: RetryClass,
    /// The request that waits for its response.
    pub(super) pending: Option<RequestId>,
    /// The session that it belongs to.
    pub(super) session: Option<Arc<LegacySession>>,
    /// It needs no session, as in 2026-07-28.
    pub(super) modern: bool,
    /// HTTP+SSE: the response comes on the stream.
    pub(super) reply_on_stream: bool,
    /// The message, if it may be sent a second time.
    pub(super) outbound: Option<Outbound>,
    /// It is the second try: the server has refused the first one unprocessed.
    pub(super) is_resent: bool,
}

/// A response that was read, and is no event stream.
struct ReadResponse {
    status: StatusCode,
    content: ResponseContent,
}

enum ResponseContent {
    /// A message, or JSON that should be one.
    Inbound(Inbound),
    /// Something else.
    Page(Page),
    /// The beginning of a body that broke off, described for people.
    Broken(String),
}

/// One message posted, and its response.
pub(super) struct Exchange {
    pub(super) requester: Arc<Requester>,
    pub(super) post: Post,
    events: Sender<ExchangeEvent>,
}

impl Exchange {
    pub(super) const fn new(requester: Arc<Requester>, post: Post, events: Sender<ExchangeEvent>) -> Self {
        Self { requester, post, events }
    }

    /// Posts the message and handles its response.
    pub(super) async fn run(self) {
        if let Some(pending) = self.post.pending.clone() {
            return self.post_request(pending).await;
        }
        let limit = self.requester.limits.request;
        match timeout(limit, self.post_one_way()).await {
            Ok(()) => {}
            Err(_) => self.log_not_accepted(&"it was not accepted in time"),
        }
    }

    pub(super) async fn report(&self, event: ExchangeEvent) {
        // An error means that the transport was dropped.
        let _ = self.events.send(event).await;
    }

    /// Reports that the response to a request is lost.
    pub(super) async fn fail(&self, pending: &RequestId, cause: TransportError) {
        self.report(ExchangeEvent::Message(Inbound::Lost { id: pending.clone(), cause })).await;
    }

    pub(super) fn error(&self, what: impl AsRef<str>, retryable: bool) -> TransportError {
        self.post.http_request.error(what, retryable)
    }

    fn cut_off(&self, what: String) -> TransportError {
        self.error(what, true).because(Reason::BodyCutOff)
    }

    // ---- messages without a response ----

    /// Logs that the server has not accepted a message that has no response. Where that is our response, a request of the
    /// server fails.
    fn log_not_accepted(&self, reason: &dyn fmt::Display) {
        let about = &self.post.http_request.about;
        match self.post.retry_class {
            RetryClass::Awaited => {
                tracing::warn!(target: "mcpjoin", %about, %reason, "the server has not taken it");
            }
            _ => tracing::debug!(target: "mcpjoin", %about, %reason, "the server has not taken it"),
        }
    }

    /// Posts a message that has no response. It is sent again if the server has not seen it; our response to a request of
    /// the server also if that is not known.
    async fn post_one_way(&self) {
        let mut waits = 0;
        let response = loop {
            match self.send(self.requester.limits.request).await {
                Ok(response) => break response,
                Err(failure)
                    if (failure.unsent || self.post.retry_class == RetryClass::Awaited)
                        && waits < MAX_UNASKED_RETRIES =>
                {
                    sleep(FIRST_RETRY_DELAY * 2_u32.saturating_pow(waits)).await;
                    waits += 1;
                }
                Err(failure) => return self.log_not_accepted(&failure.error),
            }
        };
        if response.status().is_success() {
            // The connection can be used again after the body was read to its end.
            let _ = timeout(STREAM_END_TIMEOUT, read_body(response, response_error::MAX_EXCERPT_BYTES)).await;
            return;
        }
        let status = response.status();
        let page = response_error::read_page(response).await;
        if let Some(generation) = self.lost_session(status, page.error()) {
            // It belonged to the lost session, and is not sent in the next one.
            self.report(ExchangeEvent::SessionLost { generation, refused: None }).await;
            return;
        }
        self.log_not_accepted(&page.text);
    }

    // ---- requests ----

    async fn post_request(self, pending: RequestId) {
        let pending = &pending;
        let budget = match self.post.role {
            Role::Probe(_) => self.requester.limits.initialize,
            _ => self.requester.limits.request,
        };
        let response = match self.send(budget).await {
            Ok(response) => response,
            Err(failure) => return self.handle_failure(pending, failure).await,
        };
        if self.post.reply_on_stream && response.status().is_success() {
            let _ = timeout(STREAM_END_TIMEOUT, read_body(response, response_error::MAX_EXCERPT_BYTES)).await;
            return;
        }
        let head = response.headers().clone();
        if response.status().is_success() && media_type(&response) == MediaType::EventStream {
            return match compressed(&response) {
                Some(what) => {
                    let cause = self.error(what, false).because(Reason::ContentEncoding);
                    self.fail(pending, cause).await;
                }
                None => self.read_stream(response, &head, pending).await,
            };
        }
        let response = self.read(response, pending).await;
        match self.post.role {
            Role::Probe(probe) => self.handle_probe_response(probe, response, &head, pending).await,
            _ => self.handle_response(response, pending).await,
        }
    }

    /// Sends the message. Sends it again after a pause where [`RetryClass`] allows that and `budget` is long enough.
    async fn send(&self, budget: Duration) -> Result<Response, RequestError> {
        let started = Instant::now();
        let mut waits = 0;
        loop {
            let response = self.requester.send(&self.post.http_request).await?;
            let left = budget.saturating_sub(started.elapsed());
            let (status, head) = (response.status(), response.headers());
            let Some(pause) = self.post.retry_class.delay(status, head, waits) else { return Ok(response) };
            if pause > left.min(MAX_RETRY_AFTER) {
                return Ok(response);
            }
            let about = &self.post.http_request.about;
            if retry_after_of(head).is_some() && pause >= MIN_TOLD_DELAY {
                let seconds = pause.as_secs();
                tracing::info!(target: "mcpjoin::waits", "{about}: {status}; sent again in {seconds} s, as the server asks");
            } else {
                tracing::info!(target: "mcpjoin", "{about}: {status}; sent again in {} ms", pause.as_millis());
            }
            drop(response);
            if waits == 0 && self.post.role == Role::Probe(Probe::Discover) {
                self.report(ExchangeEvent::ProbePostponed).await;
            }
            // A cancellation takes it back until it is sent again.
            if let Some(taken) = &self.post.http_request.taken {
                taken.send_replace(None);
            }
            waits += 1;
            sleep(pause).await;
        }
    }

    /// Reads a response that is no event stream.
    async fn read(&self, response: Response, pending: &RequestId) -> ReadResponse {
        let (status, head) = (response.status(), response.headers().clone());
        let limits = &self.requester.limits;
        let page = |mut page: Page| {
            if let Some(wait) = retry_after_text(status, &head) {
                page.text = format!("{}; {wait}", page.text);
            }
            ResponseContent::Page(page)
        };
        let json = media_type(&response) == MediaType::Json;
        if !json && (!status.is_success() || head.contains_key(name::CONTENT_TYPE)) {
            // Servers on older TypeScript SDKs (seen: 1.10.2 and 1.20.0) send their errors without a content type.
            return ReadResponse { status, content: page(response_error::read_page(response).await) };
        }
        let ends_with_connection = ends_with_connection(&response);
        let content = match read_body(response, limits.message).await {
            // A refusal stays one, also without the rest of its body.
            Content::Broken(what) if status.is_success() => {
                ResponseContent::Broken(format!("{status}; {what}"))
            }
            Content::Broken(what) => ResponseContent::Page(Page::without_body(format!("{status}; {what}"))),
            Content::Compressed(what) => ResponseContent::Page(Page::encoded(status, &head, &what)),
            Content::TooLong { head, length } => ResponseContent::Inbound(too_long(
                &head,
                limits.message,
                length,
                &self.requester.origin,
                Some(pending),
            )),
            Content::Text(text) if text.trim_ascii().is_empty() => page(Page::new(status, &head, &[])),
            Content::Text(text) => {
                match decode_message(&text, &limits.decode, &self.requester.origin, Some(pending)) {
                    // A refusal may have any form.
                    Inbound::Malformed { .. } if !status.is_success() => {
                        page(Page::new(status, &head, &text))
                    }
                    // Without the content type of JSON it may be something else.
                    Inbound::Malformed { error, .. } if !json => {
                        let mut malformed = Page::new(status, &head, &text);
                        malformed.text = format!("{}: {}", malformed.text, error.kind);
                        page(malformed)
                    }
                    inbound if ends_with_connection && is_cut_off(&inbound) => ResponseContent::Broken(
                        format!("{status}; the response body was cut off: the connection was closed"),
                    ),
                    Inbound::Malformed { mut error, excerpt, origin } => {
                        // The body of a response can only be the response to this request.
                        error.id.get_or_insert_with(|| pending.clone());
                        ResponseContent::Inbound(Inbound::Malformed { error, excerpt, origin })
                    }
                    inbound => ResponseContent::Inbound(inbound),
                }
            }
        };
        ReadResponse { status, content }
    }

    /// Handles the response to a request that is no probe.
    async fn handle_response(&self, response: ReadResponse, pending: &RequestId) {
        if let Some(generation) = self.lost_session(response.status, response.error()) {
            let said = response.text();
            if self.post.is_resent {
                // The next request may try another one.
                let what = format!("the server does not know the session that it has just opened: {said}");
                let error = self.error(what, true).because(Reason::SessionNotKept);
                return self.fail(pending, error).await;
            }
            if self.post.outbound.is_none() {
                self.fail(pending, self.error(&said, true)).await;
            }
            let refused = self.post.outbound.clone().map(|outbound| Box::new((outbound, said)));
            self.report(ExchangeEvent::SessionLost { generation, refused }).await;
            return;
        }
        let status = response.status;
        let mismatched = response.error().is_some_and(|error| error.code == code::HEADER_MISMATCH);
        match response.content {
            ResponseContent::Inbound(refusal)
                if mismatched && self.post.modern && self.post.outbound.is_some() =>
            {
                let Some(call) = self.post.outbound.clone().map(Box::new) else { return };
                self.report(ExchangeEvent::HeadersMismatched { call, refusal }).await;
            }
            ResponseContent::Inbound(inbound) => self.deliver(inbound, pending).await,
            ResponseContent::Broken(what) => self.fail(pending, self.cut_off(what)).await,
            ResponseContent::Page(page) => {
                let text = &page.text;
                let what = match status {
                    StatusCode::UNAUTHORIZED => format!("not authorized: {text}"),
                    StatusCode::FORBIDDEN => format!("forbidden: {text}"),
                    StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
                        format!("accepted without a response: {text}")
                    }
                    _ => text.clone(),
                };
                let cause = response_error::by_status(self.error(what, is_temporary(status)), status);
                self.fail(pending, page.explain(cause)).await;
            }
        }
    }

    /// Delivers a message. If it is not the response to the request, the request is lost.
    async fn deliver(&self, inbound: Inbound, pending: &RequestId) {
        let what = (!answers(&inbound, pending)).then(|| match response_id(&inbound) {
            Some(given) => wrong_id(given, pending),
            None => "the response contains other messages, but not the reply".to_owned(),
        });
        self.report(ExchangeEvent::Message(inbound)).await;
        if let Some(what) = what {
            self.fail(pending, self.error(what, false).because(Reason::NoReply)).await;
        }
    }

    /// Handles the response to a probe by the rules of `proto::http::classify`.
    async fn handle_probe_response(
        &self,
        probe: Probe,
        response: ReadResponse,
        head: &HeaderMap,
        pending: &RequestId,
    ) {
        let status = response.status;
        let text = response.text();
        let body = response.body();
        let explained = |cause: TransportError| response_error::with_body(cause, body.as_ref());
        let message = match &response.content {
            ResponseContent::Inbound(Inbound::Message { message: Message::Response(reply), .. }) => {
                Some(&reply.outcome)
            }
            _ => None,
        };
        let answer = match message {
            Some(Ok(_)) => ProbeBody::Result,
            Some(Err(error)) => ProbeBody::Error(error),
            None => ProbeBody::Other,
        };
        let verdict = verdict(probe, status.as_u16(), answer);
        match (verdict, response.content) {
            (ProbeVerdict::Authenticate, _) => {
                let what = if status == StatusCode::UNAUTHORIZED { "not authorized" } else { "forbidden" };
                let cause = self.error(format!("{what}: {text}"), false);
                let cause = explained(response_error::by_status(cause, status));
                self.report(ExchangeEvent::Closed(TransportEnd::failed(cause))).await;
            }
            (ProbeVerdict::Unavailable, _) => {
                let cause = explained(self.error(text, true).with_http_status(status.as_u16()));
                self.report(ExchangeEvent::Closed(TransportEnd::failed(cause))).await;
            }
            (ProbeVerdict::TryHttpSse, what) => {
                let Some(initialize) = self.post.outbound.clone() else { return };
                let reply = match what {
                    ResponseContent::Inbound(inbound) if answers(&inbound, pending) => Some(inbound),
                    _ => None,
                };
                let cause = self.error(text, false).of(TransportErrorKind::Foreign);
                let cause = explained(cause.with_http_status(status.as_u16()));
                let refused = RefusedInitialize { initialize, id: pending.clone(), reply, cause };
                self.report(ExchangeEvent::TryHttpSse(Box::new(refused))).await;
            }
            (ProbeVerdict::Legacy, ResponseContent::Inbound(inbound)) if probe == Probe::Initialize => {
                self.initialized(inbound, head, pending).await;
            }
            (_, ResponseContent::Inbound(inbound)) => self.deliver(inbound, pending).await,
            (_, ResponseContent::Broken(what)) => self.fail(pending, self.cut_off(what)).await,
            (_, ResponseContent::Page(page)) => {
                let cause = self.error(&page.text, is_temporary(status));
                self.fail(pending, page.explain(response_error::by_status(cause, status))).await;
            }
        }
    }

    /// Handles the response to `initialize`.
    pub(super) async fn initialized(&self, reply: Inbound, head: &HeaderMap, pending: &RequestId) {
        match LegacySession::of(&reply, head, pending) {
            Ok(Some(session)) => self.report(ExchangeEvent::Initialized { session, reply }).await,
            Ok(None) => self.deliver(reply, pending).await,
            Err(what) => self.fail(pending, self.post.http_request.fail(what).error).await,
        }
    }

    /// No response came.
    async fn handle_failure(&self, pending: &RequestId, failure: RequestError) {
        let hopeless = matches!(
            failure.error.kind,
            TransportErrorKind::Unauthorized
                | TransportErrorKind::Unreachable
                | TransportErrorKind::Untrusted
        );
        if self.post.role == Role::Probe(Probe::Discover) && (failure.unsent || hopeless) {
            // The other era would fail in the same way: no server, no trust, or no authorization.
            return self.report(ExchangeEvent::Closed(TransportEnd::failed(failure.error))).await;
        }
        self.fail(pending, failure.error).await;
    }

    /// The generation of the session, if the response says that the server has lost it.
    fn lost_session(&self, status: StatusCode, error: Option<&ErrorObject>) -> Option<u64> {
        let session = self.post.session.as_ref().filter(|session| session.id.is_some())?;
        (!self.post.reply_on_stream && forgets_session(status.as_u16(), error)).then_some(session.generation)
    }
}

impl ReadResponse {
    /// The error in the response, if it has one.
    fn error(&self) -> Option<&ErrorObject> {
        match &self.content {
            ResponseContent::Inbound(Inbound::Message { message: Message::Response(reply), .. }) => {
                reply.outcome.as_ref().err()
            }
            ResponseContent::Page(page) => page.error(),
            _ => None,
        }
    }

    /// The body, if it is a refusal.
    fn body(&self) -> Option<HttpBody> {
        match &self.content {
            ResponseContent::Page(page) => page.body.clone(),
            _ => self.error().cloned().map(HttpBody::Error),
        }
    }

    fn text(&self) -> String {
        if let Some(error) = self.error() {
            return format!("{}: {error}", self.status);
        }
        match &self.content {
            ResponseContent::Page(page) => page.text.clone(),
            ResponseContent::Broken(what) => what.clone(),
            ResponseContent::Inbound(_) => self.status.to_string(),
        }
    }
}

/// The id of a response.
pub(super) const fn response_id(inbound: &Inbound) -> Option<&RequestId> {
    match inbound {
        Inbound::Message { message: Message::Response(reply), .. } => reply.id.as_ref(),
        _ => None,
    }
}

/// The request that a message ends.
pub(super) const fn ended_request(inbound: &Inbound) -> Option<&RequestId> {
    match inbound {
        Inbound::Lost { id, .. } => Some(id),
        Inbound::Malformed { error, .. } => error.id.as_ref(),
        _ => response_id(inbound),
    }
}

/// The problem of a response whose only reply is to another request than the one that was sent.
pub(super) fn wrong_id(given: &RequestId, asked: &RequestId) -> String {
    let given = given.to_string();
    format!("the response has the id {} instead of {asked}", Line::of(&given).truncated(MAX_ID_CHARS))
}

/// The bytes of a message.
pub(super) fn body(outbound: &Outbound) -> Bytes {
    super::super::gather::Gather::whole(outbound).freeze()
}
