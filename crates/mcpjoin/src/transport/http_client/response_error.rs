//! A response that is not what it should be, described for people.
//!
//! Of a refused authorization it shows `error` and `error_description` of `WWW-Authenticate`
//! ([RFC 6750, 3](https://www.rfc-editor.org/rfc/rfc6750#section-3)). What is shown is never acted on.

use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, HeaderValue};
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::http::challenge::Challenge;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::session::{TransportError, TransportErrorKind};
use mcpjoin_proto::text::Line;
use mcpjoin_proto::{DecodeLimits, ErrorObject, Message};

use crate::http::Response;

/// How much of a body is shown that is no message.
pub(super) const MAX_EXCERPT_BYTES: usize = 200;

/// How much of a value in a challenge is shown.
const MAX_REASON_CHARS: usize = 200;

/// Adds what a status without a message means.
pub(super) fn by_status(error: TransportError, status: StatusCode) -> TransportError {
    error.of(kind(status)).with_http_status(status.as_u16())
}

fn kind(status: StatusCode) -> TransportErrorKind {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => TransportErrorKind::Unauthorized,
        StatusCode::TOO_MANY_REQUESTS => TransportErrorKind::Broken,
        status if status.is_server_error() => TransportErrorKind::Broken,
        _ => TransportErrorKind::Foreign,
    }
}

/// Status and content type of a response, and the beginning of its body.
pub(super) async fn page(response: Response) -> String {
    let (status, headers) = (response.status(), response.headers().clone());
    let body = beginning(response).await;
    page_of(status, &headers, &body)
}

/// The same, with the error in the body if that is a short one.
pub(super) async fn refusal(response: Response) -> (String, Option<ErrorObject>) {
    let (status, headers) = (response.status(), response.headers().clone());
    let body = beginning(response).await;
    let page = page_of(status, &headers, &body);
    let error = match decode(&body.into(), &DecodeLimits::default()) {
        Ok(Decoded::Message(Message::Response(reply))) => reply.outcome.err(),
        _ => None,
    };
    (page, error)
}

/// The same for a body that was read.
pub(super) fn page_of(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> String {
    let body = body.trim_ascii();
    let body = &body[..body.len().min(MAX_EXCERPT_BYTES)];
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
