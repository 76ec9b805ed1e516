//! What failed, in words that say what a person can do about it.

use std::error::Error;
use std::io;
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, HeaderValue};
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::session::LinkErrorKind;
use mcpjoin_proto::{DecodeLimits, ErrorObject, Message};
use reqwest::{Response, Url};
use rustls::CertificateError;

use super::challenge;
use super::tls::Untrusted;

/// How much of a body that is no message is shown, in bytes.
pub(super) const EXCERPT: usize = 200;

/// What failed, in which way, and whether the same may succeed later.
pub(crate) fn describe(
    error: &reqwest::Error,
    url: &Url,
    connect_timeout: Duration,
    proxied: bool,
) -> (LinkErrorKind, String, bool) {
    let host = url.host_str().unwrap_or_default();
    let unreached = |what| (LinkErrorKind::Unreached, what, true);
    if error.is_dns() && !proxied {
        return unreached(format!("the name {host} was not resolved: {}", root(error)));
    }
    if let Some(tls) = find::<rustls::Error>(error) {
        if matches!(tls, rustls::Error::InvalidMessage(_)) {
            // Nothing that could be trusted: no further authority helps.
            return (LinkErrorKind::Unreached, tls_text(tls, host), false);
        }
        return (LinkErrorKind::Untrusted, tls_text(tls, host), false);
    }
    if error.is_connect() {
        if error.is_timeout() {
            return unreached(format!("no connection within {} ms", connect_timeout.as_millis()));
        }
        return unreached(match (is_refused(error), proxied) {
            (true, false) => "connection refused: nothing listens there".into(),
            (true, true) => "connection refused: no proxy listens there".into(),
            (false, false) => format!("no connection: {}", root(error)),
            (false, true) => format!("the proxy made no connection to {host}: {}", root(error)),
        });
    }
    let what = format!("the connection broke before a response came: {}", root(error));
    (LinkErrorKind::Broken, what, true)
}

/// Nobody listens there.
pub(super) fn is_refused(error: &reqwest::Error) -> bool {
    let system = find::<io::Error>(error);
    error.is_connect() && system.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// What a status says when no message came with it.
pub(super) fn kind(status: StatusCode) -> LinkErrorKind {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => LinkErrorKind::Unauthorized,
        StatusCode::TOO_MANY_REQUESTS => LinkErrorKind::Broken,
        status if status.is_server_error() => LinkErrorKind::Broken,
        _ => LinkErrorKind::Foreign,
    }
}

/// What TLS has against the server.
pub(crate) fn tls_text(error: &rustls::Error, host: &str) -> String {
    match error {
        rustls::Error::InvalidCertificate(problem) => match problem {
            CertificateError::Other(other) if other.0.is::<Untrusted>() => {
                format!("the certificate of {host} is {} (an extra CA can be given)", other.0)
            }
            problem if is_an_authoritys(problem) => {
                format!(
                    "the certificate of {host} is an authority's own (CA:TRUE), which no server may show as its own"
                )
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("the certificate of {host} has expired")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                format!("the certificate of {host} is not valid yet: are the clocks right?")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("the certificate is not for {host}: {problem}")
            }
            problem => format!("the certificate of {host} is refused: {problem}"),
        },
        rustls::Error::InvalidMessage(_) => {
            format!("{host} does not speak TLS on that port (is it http, not https?): {error}")
        }
        error => format!("TLS with {host} failed: {error}"),
    }
}

/// Whether a server has shown an authority's certificate as its own. The type of that error is in a crate behind rustls, and
/// its name is all that there is of it.
pub(crate) fn is_an_authoritys(problem: &CertificateError) -> bool {
    matches!(problem, CertificateError::Other(other) if other.0.to_string() == "CaUsedAsEndEntity")
}

/// Who has signed a certificate that nobody here trusts.
#[cfg(unix)]
pub(crate) fn untrusted_issuer(error: &CertificateError) -> Option<String> {
    match error {
        CertificateError::Other(other) => {
            let issuer = other.0.downcast_ref::<Untrusted>()?.issuer.as_deref();
            Some(issuer.unwrap_or("somebody without a name").to_owned())
        }
        _ => None,
    }
}

/// The error of that type in a chain of errors, also where it is wrapped in one of the system.
pub(crate) fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        next = inner(error);
    }
    None
}

/// What lies one deeper. An error of the system hides what it wraps from `source`.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(wrapped) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        return Some(wrapped);
    }
    error.source()
}

/// The last error of a chain: what really happened.
pub(crate) fn root(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(next) = inner(last) {
        last = next;
    }
    last.to_string()
}

/// The head of a response that is not what it should be: status, type, and how the body begins.
pub(super) async fn page(response: Response) -> String {
    let (status, headers) = (response.status(), response.headers().clone());
    let body = beginning(response).await;
    page_of(status, &headers, &body)
}

/// The same, and the error that it is, where it is a short one.
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

/// The same of a body that was read.
pub(super) fn page_of(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> String {
    let body = body.trim_ascii();
    let body = &body[..body.len().min(EXCERPT)];
    let kind = content_type(headers).unwrap_or_else(|| "without a content type".into());
    let page = match body {
        [] => format!("{status} with an empty body"),
        body => format!("{status} {kind}; it begins `{}`", readable(body)),
    };
    match refuses(status).then(|| challenge::reason(headers)).flatten() {
        Some(reason) => format!("{page}; the server says: {reason}"),
        None => page,
    }
}

/// The server wants to know who asks, or does not let them in.
pub(super) fn refuses(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// Bytes as a person reads them, on one line: what a terminal would obey, or show nothing for, is made visible. Quotes and
/// letters of any language are what they are.
pub(crate) fn readable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                // Printed as it is; Rust's own escape has all others.
                '"' | '\'' | '\\' => text.push(character),
                character => text.extend(character.escape_debug()),
            }
        }
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text
}

fn content_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(name::CONTENT_TYPE).map(HeaderValue::as_bytes)?;
    Some(readable(&value[..value.len().min(80)]))
}

/// How a body begins. Reading ends with the first piece that is long enough, or when nothing comes for a moment.
async fn beginning(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while body.len() < EXCERPT {
            match response.chunk().await {
                Ok(Some(chunk)) => body.extend_from_slice(&chunk[..chunk.len().min(EXCERPT - body.len())]),
                Ok(None) | Err(_) => return,
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), read).await;
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outside")]
    struct Outside(#[source] io::Error);

    #[test]
    fn the_last_error_of_a_chain_is_told_also_where_one_of_the_system_hides_it() {
        let last = Outside(io::Error::other("what really happened"));
        assert_eq!(root(&io::Error::other(last)), "what really happened");
    }
}
