//! Constructors of responses.

use bytes::{Bytes, BytesMut};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use mcpjoin_proto::http::classify::Rejection;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::{ErrorObject, Message, RequestId, encode};

use super::body::HttpBody;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The value of `Retry-After` with 503, in seconds.
const RETRY_AFTER_SECONDS: u64 = 1;
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// A status, and the seconds after which the client may retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    code: u16,
    retry_after: Option<u64>,
}

impl From<u16> for Status {
    fn from(code: u16) -> Self {
        Self { code, retry_after: (code == 503).then_some(RETRY_AFTER_SECONDS) }
    }
}

impl Status {
    /// Whether the client may send the same request again.
    pub(super) const fn is_for_later(self) -> bool {
        self.retry_after.is_some()
    }
}

/// A status without a body.
pub(super) fn bare(status: u16) -> Response<HttpBody> {
    with(status, HttpBody::empty())
}

fn with(status: u16, body: HttpBody) -> Response<HttpBody> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

/// A JSON text. With 503 the client may retry soon.
pub(super) fn json(status: impl Into<Status>, text: Bytes) -> Response<HttpBody> {
    let Status { code, retry_after } = status.into();
    let mut response = with(code, HttpBody::whole(text));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// The status for an error which says that a gateway did not process the request: it has no server for the client now (503),
/// the client has sent too many requests (429), or the session has ended (404).
pub(super) fn for_unprocessed(error: &ErrorObject) -> Option<Status> {
    let data = error.data.as_ref()?;
    match &*data.member("gateway")?.to_string_value()? {
        "tooManyServers" | "tooManyStarts" => Some(503.into()),
        "sessionEnded" => Some(404.into()),
        "tooManyRequests" => {
            let millis: u64 = data.member("retryAfterMs").and_then(|millis| millis.decode().ok())?;
            Some(Status { code: 429, retry_after: Some(millis.div_ceil(1_000)) })
        }
        _ => None,
    }
}

/// A text for people.
pub(super) fn text(status: u16, text: String) -> Response<HttpBody> {
    let mut response = with(status, HttpBody::whole(text.into()));
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}

/// A JSON-RPC error, with the id of its request if that is known.
pub(super) fn error(status: u16, id: Option<RequestId>, error: ErrorObject) -> Response<HttpBody> {
    let response = mcpjoin_proto::Response { id, outcome: Err(error) };
    let mut text = BytesMut::new();
    encode::message(&Message::Response(response), &mut text);
    json(status, text.freeze())
}

/// A JSON-RPC error for a refusal that is no fault of a message.
pub(super) fn refuse(status: u16, why: &str) -> Response<HttpBody> {
    error(status, None, ErrorObject::invalid_request(why))
}

/// 405: the method is not allowed; `allow` lists those that are.
pub(super) fn not_allowed(allow: &'static str) -> Response<HttpBody> {
    let mut response = bare(405);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

/// 503: the client may retry soon.
pub(super) fn unavailable(why: &str) -> Response<HttpBody> {
    error(503, None, ErrorObject::internal(why))
}

pub(super) fn rejection(rejection: Rejection) -> Response<HttpBody> {
    match rejection.error {
        Some(problem) => error(rejection.status, rejection.id, problem),
        None => bare(rejection.status),
    }
}

/// An event stream, which proxies are asked not to buffer.
pub(super) fn stream(body: HttpBody) -> Response<HttpBody> {
    let mut response = with(200, body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, EVENT_STREAM);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(name::ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}
