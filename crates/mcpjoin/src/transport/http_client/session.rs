//! A legacy session: its id and revision, what the client has set in it, and how it is opened again.
//!
//! The transport opens a session again when the server has lost it (a request was refused with 404). It sends the
//! `initialize` that opened the first session, `initialized`, the level of log messages and the subscriptions, and nothing
//! else. <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>

use std::collections::BTreeMap;
use std::sync::Arc;

use http::header::{HeaderMap, HeaderValue};
use http::{Method as HttpMethod, StatusCode};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::response_head::is_session_id;
use mcpjoin_proto::session::{Inbound, Limits, Outbound, Route, TransportError, TransportErrorReason};
use mcpjoin_proto::{Message, Method, Notification, Payload, Profile, Request, RequestId, Version};
use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};

use super::CLOSE_TIMEOUT;
use super::body::{read_body, read_reply};
use super::exchange::body;
use super::exchange_event::ExchangeEvent;
use super::requester::{HttpRequest, Requester};
use super::response_error;
use super::retry::{RetryClass, is_temporary};

/// Subscriptions that are made again: as many as a server of ours grants. One with longer parameters than a server of ours
/// accepts is not made again.
const MAX_SUBSCRIPTIONS: usize = 1024;

/// What every request of a session sends.
#[derive(Clone, Debug)]
pub(super) struct LegacySession {
    /// The id that the server has given to the session.
    pub(super) id: Option<HeaderValue>,
    /// The agreed revision, and its value in the header if it has that header.
    pub(super) agreed: String,
    pub(super) header: Option<HeaderValue>,
    /// Whether the revision has a stream that is opened with GET.
    pub(super) streams: bool,
    /// How many sessions this transport had before.
    pub(super) generation: u64,
}

impl LegacySession {
    /// The session that a response to `initialize` opens; `None` if it opens none.
    ///
    /// # Errors
    /// When the server has sent an id that cannot be sent back.
    pub(super) fn of(
        reply: &Inbound,
        head: &HeaderMap,
        pending: &RequestId,
    ) -> Result<Option<Self>, TransportError> {
        let Inbound::Message { message: Message::Response(reply), .. } = reply else { return Ok(None) };
        let Ok(result) = &reply.outcome else { return Ok(None) };
        if reply.id.as_ref() != Some(pending) {
            return Ok(None);
        }
        let version = result.raw().member("protocolVersion");
        let Some(version) = version.as_ref().and_then(|version| version.to_string_value()) else {
            return Ok(None);
        };
        let mut ids = head.get_all(name::SESSION_ID).iter();
        let id = ids.next().cloned();
        if ids.next().is_some() {
            return Err(TransportError::new("the response has two Mcp-Session-Id headers", false));
        }
        if let Some(id) = &id
            && !is_session_id(id.as_bytes())
        {
            let what = if id.is_empty() {
                "the Mcp-Session-Id is empty".to_owned()
            } else {
                let shown = id.as_bytes()[..id.len().min(80)].escape_ascii();
                format!("the Mcp-Session-Id `{shown}` is not visible ASCII")
            };
            return Err(TransportError::new(what, false).because(TransportErrorReason::SessionIdInvalid));
        }
        let parsed = Version::parse(&version);
        let profile = Profile::of(&parsed);
        let header = profile.filter(|profile| profile.http_version_header).map(|_| &*version);
        Ok(Some(Self {
            header: header.and_then(|version| HeaderValue::from_str(version).ok()),
            streams: id.is_some() || profile.is_some_and(|profile| profile.http_sessions),
            agreed: version.into_owned(),
            id,
            generation: 0,
        }))
    }

    /// The request that ends the session at the server, if the session has an id.
    pub(super) fn end_request(&self, requester: &Requester) -> Option<HttpRequest> {
        self.id.as_ref()?;
        let mut headers = HeaderMap::new();
        self.write(&mut headers);
        Some(HttpRequest { headers, ..requester.request(HttpMethod::DELETE, "the end of the session") })
    }

    /// The headers of every request after `initialize`.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.id {
            let mut id = id.clone();
            id.set_sensitive(true);
            headers.insert(name::SESSION_ID, id);
        }
        if let Some(version) = &self.header {
            headers.insert(name::PROTOCOL_VERSION, version.clone());
        }
    }
}

/// The request that opened the session, and what the client has set since.
#[derive(Debug, Default)]
pub(super) struct SessionSettings {
    pub(super) initialize: Option<Request>,
    level: Option<Payload>,
    subscribed: BTreeMap<String, Payload>,
}

impl SessionSettings {
    /// Records what a request sets.
    pub(super) fn record(&mut self, request: &Request) {
        let uri = || request.params.as_ref()?.uri()?.to_string_value().map(std::borrow::Cow::into_owned);
        match request.method {
            Method::Initialize => *self = Self { initialize: Some(request.clone()), ..Self::default() },
            Method::SetLevel => self.level.clone_from(&request.params),
            Method::Subscribe => {
                if let (Some(uri), Some(params)) = (uri(), &request.params)
                    && params.raw().len() <= Limits::default().subscription_bytes
                    && (self.subscribed.len() < MAX_SUBSCRIPTIONS || self.subscribed.contains_key(&uri))
                {
                    self.subscribed.insert(uri, params.clone());
                }
            }
            Method::Unsubscribe => {
                if let Some(uri) = uri() {
                    self.subscribed.remove(&uri);
                }
            }
            _ => {}
        }
    }

    /// The requests that set everything again, with ids that no session uses.
    pub(super) fn requests(&self) -> Vec<Request> {
        let level = self.level.iter().map(|params| (Method::SetLevel, params));
        let subscribed = self.subscribed.values().map(|params| (Method::Subscribe, params));
        let all = level.chain(subscribed).enumerate();
        all.map(|(index, (method, params))| Request {
            id: RequestId::from(format!("mcpjoin-restore-{index}").as_str()),
            method,
            params: Some(params.clone()),
        })
        .collect()
    }
}

/// Opens a session in place of one that the server has lost.
pub(super) struct Reopening {
    pub(super) requester: Arc<Requester>,
    pub(super) old: Arc<LegacySession>,
    pub(super) initialize: Request,
    pub(super) restore: Vec<Request>,
}

impl Reopening {
    pub(super) async fn run(self, reports: Sender<ExchangeEvent>) {
        let limit = self.requester.limits.initialize;
        let report = match timeout(limit, self.open()).await {
            Ok(Ok(session)) => {
                // The session is open: what the server does not answer is given up, and not the session.
                if timeout(limit, self.restore(&session)).await.is_err() {
                    tracing::warn!(target: "mcpjoin", "the server did not take all settings of the session again in time");
                }
                ExchangeEvent::SessionReopened(session)
            }
            Ok(Err((cause, fatal))) => ExchangeEvent::SessionNotReopened { cause, fatal },
            Err(_) => {
                let what =
                    format!("the session has ended, and was not reopened within {} ms", limit.as_millis());
                let cause = self.initialize_request(HeaderMap::new()).error(what, true);
                ExchangeEvent::SessionNotReopened { cause, fatal: false }
            }
        };
        let _ = reports.send(report).await;
    }

    fn initialize_request(&self, headers: HeaderMap) -> HttpRequest {
        self.request(Message::Request(self.initialize.clone()), "initialize", headers)
    }

    fn request(&self, message: Message, about: &str, headers: HeaderMap) -> HttpRequest {
        let body = body(&Outbound::Message { message, route: Route::Session });
        HttpRequest { headers, body: Some(body), ..self.requester.request(HttpMethod::POST, about) }
    }

    /// The second member of an error: whether no later try can succeed.
    async fn open(&self) -> Result<LegacySession, (TransportError, bool)> {
        let http_request = self.initialize_request(super::message_headers());
        let failed = |what: String, fatal: bool| {
            (http_request.error(format!("the server no longer knows the session; {what}"), !fatal), fatal)
        };
        let mut waits = 0;
        let response = loop {
            let response = match self.requester.send(&http_request).await {
                Ok(response) => response,
                Err(failure) => return Err((failure.error, false)),
            };
            // A server that is starting has lost its sessions, and may not be ready for new ones.
            match RetryClass::Opening.delay(response.status(), response.headers(), waits) {
                Some(pause) if pause < self.requester.limits.initialize => sleep(pause).await,
                _ => break response,
            }
            waits += 1;
        };
        let head = response.headers().clone();
        let status = response.status();
        if !status.is_success() {
            let fatal = !is_temporary(status) && status != StatusCode::REQUEST_TIMEOUT;
            return Err(failed(
                format!("opening another: {}", response_error::read_page(response).await.text),
                fatal,
            ));
        }
        let id = &self.initialize.id;
        let Some(reply) = read_reply(&self.requester, response, id).await else {
            return Err(failed("initialize got no response".into(), true));
        };
        let session = match LegacySession::of(&reply, &head, id) {
            Ok(Some(session)) => session,
            Ok(None) => return Err(failed("initialize was rejected".into(), true)),
            Err(what) => return Err(failed(what.message, true)),
        };
        if session.agreed != self.old.agreed {
            // The link ends, and knows only the old session.
            if let Some(http_request) = session.end_request(&self.requester) {
                let _ = timeout(CLOSE_TIMEOUT / 2, self.requester.send(&http_request)).await;
            }
            let what = format!("and now uses {}, not {}", session.agreed, self.old.agreed);
            return Err(failed(what, true));
        }
        Ok(LegacySession { generation: self.old.generation + 1, ..session })
    }

    /// Sends `initialized` and makes the settings again. The session is usable also if some of that fails.
    async fn restore(&self, session: &LegacySession) {
        let mut headers = super::message_headers();
        session.write(&mut headers);
        let initialized = Message::Notification(Notification { method: Method::Initialized, params: None });
        let http_request = self.request(initialized, "notifications/initialized", headers.clone());
        if let Ok(response) = self.requester.send(&http_request).await {
            let _ = read_body(response, response_error::MAX_EXCERPT_BYTES).await;
        }
        for request in &self.restore {
            let about = request.method.as_str().to_owned();
            let http_request = self.request(Message::Request(request.clone()), &about, headers.clone());
            if let Ok(response) = self.requester.send(&http_request).await
                && read_reply(&self.requester, response, &request.id).await.is_none()
            {
                tracing::debug!(target: "mcpjoin", about, "was not set again");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::Raw;

    use super::*;

    #[test]
    fn restored_subscriptions_in_a_new_session_are_limited() {
        let mut settings = SessionSettings::default();
        let params = |uri: usize, more: &str| {
            Payload::from_raw(Raw::parse(format!("{{\"uri\":\"{uri:04}\"{more}}}")).expect("JSON"))
        };
        let mut record = |method: Method, params: Payload| {
            settings.record(&Request { id: RequestId::from(1), method, params: Some(params) });
        };
        for uri in 0..=MAX_SUBSCRIPTIONS {
            record(Method::Subscribe, params(uri, ""));
        }
        record(Method::Subscribe, params(0, ",\"n\":1"));
        record(Method::Subscribe, params(1, &format!(",\"n\":\"{}\"", "x".repeat(8 * 1024))));
        record(Method::Unsubscribe, params(2, ""));
        record(Method::Subscribe, params(MAX_SUBSCRIPTIONS + 1, ""));
        let again: Vec<Payload> =
            settings.requests().into_iter().filter_map(|request| request.params).collect();
        let first = [params(0, ",\"n\":1"), params(1, "")];
        let rest = (3..MAX_SUBSCRIPTIONS).chain([MAX_SUBSCRIPTIONS + 1]).map(|uri| params(uri, ""));
        assert_eq!(again, first.into_iter().chain(rest).collect::<Vec<_>>());
    }
}
