//! A response that is not what it should be, described for people.
//!
//! Of a refused authorization it shows `error` and `error_description` of `WWW-Authenticate`
//! ([RFC 6750, 3](https://www.rfc-editor.org/rfc/rfc6750#section-3)). What is shown is never acted on.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderMap, HeaderValue};
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::http::challenge::Challenge;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::session::{HttpBody, TransportError, TransportErrorKind, TransportErrorReason};
use mcpjoin_proto::text::Line;
use mcpjoin_proto::{DecodeLimits, ErrorObject, Message};

use super::body::compressed;
use super::requester::media_type;
use super::retry::is_temporary;
use crate::http::Response;

/// How much of a body is shown that is no message.
pub(super) const MAX_EXCERPT_BYTES: usize = 200;

/// How much of a value in a challenge is shown.
const MAX_REASON_CHARS: usize = 200;

/// Adds what a status without a message means.
pub(super) fn by_status(error: TransportError, status: StatusCode) -> TransportError {
    error.of(kind_of_status(status)).with_http_status(status.as_u16())
}

/// The category of a status without a message.
pub fn kind_of_status(status: StatusCode) -> TransportErrorKind {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => TransportErrorKind::Unauthorized,
        status if is_temporary(status) => TransportErrorKind::Broken,
        _ => TransportErrorKind::Foreign,
    }
}

/// A response that is no message.
pub(super) struct Page {
    /// Status, content type and the beginning of the body, for people.
    pub(super) text: String,
    /// The error in the body if that is a short one, otherwise the beginning of a body that is not empty.
    pub(super) body: Option<HttpBody>,
    /// What is wrong with a success.
    reason: Option<TransportErrorReason>,
}

impl Page {
    /// A response whose body is encoded, which `what` describes.
    pub(super) fn encoded(status: StatusCode, headers: &HeaderMap, what: &str) -> Self {
        let kind = headers.get(name::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_message = status.is_success() && MediaType::of(kind) != MediaType::Other;
        let reason = is_message.then_some(TransportErrorReason::ContentEncoding);
        let kind = content_type(headers).unwrap_or_else(|| "without a content type".into());
        Self { text: format!("{status} {kind}; {what}"), body: None, reason }
    }

    /// Only the status is known, and why there is no body.
    pub(super) const fn without_body(text: String) -> Self {
        Self { text, body: None, reason: None }
    }

    /// The response with a body that was read to [`MAX_EXCERPT_BYTES`] or to its end.
    pub(super) fn new(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let text = page_of(status, headers, body);
        let body = excerpt(body);
        let body = (!body.is_empty()).then(|| HttpBody::Other(Bytes::copy_from_slice(body)));
        let reason = (body.is_none() && status.is_success()).then_some(TransportErrorReason::NoReply);
        Self { text, body, reason }
    }

    /// The error in the body.
    pub(super) fn error(&self) -> Option<&ErrorObject> {
        match &self.body {
            Some(HttpBody::Error(error)) => Some(error),
            _ => None,
        }
    }

    /// Adds the body, or that there is none, to the error that the response is.
    pub(super) fn explain(&self, error: TransportError) -> TransportError {
        let error = with_body(error, self.body.as_ref());
        match self.reason {
            Some(reason) => error.because(reason),
            None => error,
        }
    }
}

/// Adds the body of a response, where it has one, to the error that the response is.
pub(super) fn with_body(error: TransportError, body: Option<&HttpBody>) -> TransportError {
    match body {
        Some(body) => error.with_http_body(body.clone()),
        None => error,
    }
}

/// Reads a response that is no success, or no message.
pub(super) async fn read_page(response: Response) -> Page {
    let (status, headers) = (response.status(), response.headers().clone());
    if let Some(what) = compressed(&response) {
        return Page::encoded(status, &headers, &what);
    }
    let of_messages = media_type(&response) != MediaType::Other;
    let body = beginning(response).await;
    let mut page = Page::new(status, &headers, &body);
    if status.is_success() && !of_messages && begins_message(&body) {
        page.reason = Some(TransportErrorReason::WrongContentType);
    }
    if let Ok(Decoded::Message(Message::Response(reply))) = decode(&body.into(), &DecodeLimits::default())
        && let Err(error) = reply.outcome
    {
        page.body = Some(HttpBody::Error(error));
    }
    page
}

/// Whether a body, of which this is the beginning, looks like a message.
fn begins_message(body: &[u8]) -> bool {
    const MEMBER: &[u8] = b"\"jsonrpc\"";
    body.trim_ascii_start().starts_with(b"{") && body.windows(MEMBER.len()).any(|part| part == MEMBER)
}

/// The part of a body that is shown.
pub(super) fn excerpt(body: &[u8]) -> &[u8] {
    let body = body.trim_ascii();
    &body[..body.len().min(MAX_EXCERPT_BYTES)]
}

fn page_of(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> String {
    let body = excerpt(body);
    let kind = content_type(headers).unwrap_or_else(|| "without a content type".into());
    let page = match body {
        [] => format!("{status} with an empty body"),
        body => format!("{status} {kind}; it begins `{}`", readable(body)),
    };
    match refuses(status).then(|| refusal_reason(headers)).flatten() {
        Some(reason) => format!("{page}; the server says: {reason}"),
        None => page,
    }
}

/// Whether the server refuses the authorization.
pub(super) fn refuses(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// Escapes bytes for people, on one line.
pub fn readable(bytes: &[u8]) -> String {
    Line::of_bytes(bytes).to_string()
}

fn content_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(name::CONTENT_TYPE).map(HeaderValue::as_bytes)?;
    Some(readable(&value[..value.len().min(80)]))
}

/// The beginning of a body, as far as it arrives in one second.
async fn beginning(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while body.len() < MAX_EXCERPT_BYTES {
            match response.chunk().await {
                Ok(Some(chunk)) => {
                    body.extend_from_slice(&chunk[..chunk.len().min(MAX_EXCERPT_BYTES - body.len())]);
                }
                Ok(None) | Err(_) => return,
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), read).await;
    body
}

/// The reason of the server for a refused authorization, if it gives one.
pub fn refusal_reason(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(name::WWW_AUTHENTICATE).iter().map(HeaderValue::as_bytes);
    Challenge::all(values).iter().find_map(|challenge| {
        match (challenge.parameter("error"), challenge.parameter("error_description")) {
            (Some(error), Some(description)) => {
                Some(format!("{}: {}", shortened(error), shortened(description)))
            }
            (one, other) => one.or(other).map(|one| shortened(one).to_string()),
        }
    })
}

fn shortened(text: &str) -> Line<'_> {
    Line::of(text).truncated(MAX_REASON_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_that_of_the_challenge_that_gives_one() {
        for (values, expected) in [
            (&["Bearer"][..], None),
            (&["Basic realm=\"error=no\"", "Bearer error=\"\", error=later"], Some("later")),
            (&["Bearer error_description=\"z\""], Some("z")),
            (&["Basic realm=x, Bearer error=a, error_description=\"b\tc\""], Some("a: b\\tc")),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(name::WWW_AUTHENTICATE, HeaderValue::from_static(value));
            }
            assert_eq!(refusal_reason(&headers).as_deref(), expected, "{values:?}");
        }
        let long = HeaderValue::from_str(&format!("Bearer error={}", "x".repeat(1000))).unwrap();
        let headers = HeaderMap::from_iter([(http::header::WWW_AUTHENTICATE, long)]);
        assert_eq!(refusal_reason(&headers).unwrap().len(), MAX_REASON_CHARS + "…".len());
    }
}
