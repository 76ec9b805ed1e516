//! Constructors of responses.

use bytes::{Bytes, BytesMut};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use mcpjoin_proto::http::classify::Rejection;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::{ErrorObject, Message, RequestId, encode};

use super::body::HttpBody;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The value of `Retry-After`, in seconds.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

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
pub(super) fn json(status: u16, text: Bytes) -> Response<HttpBody> {
    let mut response = with(status, HttpBody::whole(text));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    if status == 503 {
        response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS);
    }
    response
}

/// Whether an error says that a gateway has no server for a client now: the request was not processed.
pub(super) fn is_for_later(error: &ErrorObject) -> bool {
    let kind = error.data.as_ref().and_then(|data| data.member("gateway"));
    let kind = kind.as_ref().and_then(|kind| kind.to_string_value());
    matches!(kind.as_deref(), Some("tooManyServers" | "tooManyStarts"))
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
