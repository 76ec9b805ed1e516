//! The log of the HTTP exchanges of a link, from which the examination makes its findings.
//!
//! Filled by the link. It keeps heads and no bodies, and of the headers only what a finding needs.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{self, HeaderMap, HeaderName};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::response_head::date;
use mcpjoin_proto::session::TransportError;
use url::Url;

use super::super::report::Finding;
use crate::engine::http::location;
use mcpjoin::internal::http::shown;
use mcpjoin::internal::{Exchanged, readable, refusal};

/// Exchanges that are kept. Of further ones only the last is.
const MAX_EXCHANGES: usize = 64;
/// Bytes of the value of a header that are kept.
const MAX_VALUE_BYTES: usize = 200;
/// Exchanges that are shown with a finding.
pub(super) const MAX_SHOWN_EXCHANGES: usize = 12;

/// Names of proxies, in small letters.
const PROXIES: [&str; 12] = [
    "squid",
    "zscaler",
    "bluecoat",
    "blue coat",
    "web gateway",
    "websense",
    "forcepoint",
    "fortiproxy",
    "tinyproxy",
    "privoxy",
    "mitmproxy",
    "proxy",
];

/// All exchanges, in the order in which they ended. Cheap to clone; clones share their content.
#[derive(Clone, Default)]
pub(super) struct Exchanges(Arc<Mutex<Vec<Exchange>>>);

/// A request and its outcome.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) method: String,
    pub(super) url: String,
    /// The method of MCP, or the purpose of the request.
    pub(super) about: String,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Response(Box<Head>),
    /// There was no response. `what`: the message of the error without the request.
    Failed {
        error: TransportError,
        what: String,
    },
}

/// The head of a response.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) content_type: Option<String>,
    pub(super) location: Option<String>,
    pub(super) retry_after: Option<String>,
    /// The reason for a refused authorization, from `WWW-Authenticate`.
    pub(super) reason: Option<String>,
    /// The whole of `WWW-Authenticate`.
    pub(super) wants: Option<String>,
    /// Whether it has a session id.
    pub(super) session: bool,
    /// The program of a proxy that answered by itself.
    pub(super) proxy: Option<String>,
    /// How far the clock of the server is ahead of ours.
    pub(super) seconds_ahead: Option<i64>,
}

impl Exchanges {
    pub(super) fn record(&self, exchanged: &Exchanged<'_>) {
        let outcome = match exchanged.outcome {
            Ok((status, headers)) => {
                Outcome::Response(Box::new(Head::new(status.as_u16(), headers, exchanged.url)))
            }
            Err((error, what)) => Outcome::Failed { error: error.clone(), what: what.to_owned() },
        };
        let exchange = Exchange {
            method: exchanged.method.to_string(),
            url: shown(exchanged.url),
            about: exchanged.about.to_owned(),
            outcome,
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == MAX_EXCHANGES {
            all.pop();
        }
        all.push(exchange);
    }

    pub(super) fn all(&self) -> Vec<Exchange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Finding {
    /// Adds the newest exchanges to the evidence. Equal ones in a row are one, with their number.
    pub(super) fn with_requests(mut self, all: &[Exchange]) -> Self {
        let newest = &all[all.len().saturating_sub(MAX_SHOWN_EXCHANGES)..];
        let texts: Vec<String> = newest.iter().map(ToString::to_string).collect();
        let shown = |equal: &[String]| match equal {
            [one] => one.clone(),
            [one, ..] => format!("{one} ({} times)", equal.len()),
            [] => String::new(),
        };
        self.evidence.requests = texts.chunk_by(|one, next| one == next).map(shown).collect();
        self
    }
}

impl Exchange {
    pub(super) fn head(&self) -> Option<&Head> {
        match &self.outcome {
            Outcome::Response(head) => Some(head),
            Outcome::Failed { .. } => None,
        }
    }

    pub(super) fn status(&self) -> Option<u16> {
        self.head().map(|head| head.status)
    }

    pub(super) fn is_success(&self) -> bool {
        self.status().is_some_and(|status| (200..300).contains(&status))
    }

    /// Whether it is a request of MCP, and no notification.
    pub(super) fn is_request(&self) -> bool {
        self.method == "POST" && !self.about.starts_with("notifications/")
    }
}

/// `POST http://host/mcp (initialize): 404 Not Found, text/html`
impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, url, about, outcome } = self;
        write!(f, "{method} {url} ({about}): ")?;
        match outcome {
            Outcome::Response(head) => head.fmt(f),
            Outcome::Failed { what, .. } => f.write_str(what),
        }
    }
}

impl Head {
    fn new(status: u16, headers: &HeaderMap, url: &Url) -> Self {
        let text = |name: HeaderName| {
            let value = headers.get(name)?.as_bytes();
            Some(readable(&value[..value.len().min(MAX_VALUE_BYTES)]))
        };
        let is_proxy = |server: &String| {
            let server = server.to_ascii_lowercase();
            headers.contains_key("x-squid-error") || PROXIES.iter().any(|name| server.contains(name))
        };
        Self {
            status,
            content_type: text(header::CONTENT_TYPE),
            location: location(url, headers),
            retry_after: text(header::RETRY_AFTER),
            reason: refusal(headers),
            wants: text(header::WWW_AUTHENTICATE),
            session: headers.contains_key(name::SESSION_ID),
            proxy: text(header::SERVER).filter(is_proxy),
            seconds_ahead: seconds_ahead(headers),
        }
    }

    /// Whether the content type begins with `kind`.
    pub(super) fn is(&self, kind: &str) -> bool {
        self.content_type.as_deref().is_some_and(|given| given.to_ascii_lowercase().starts_with(kind))
    }
}

/// How far the `Date` of a response is ahead of our clock; `None` without one, or for a response from a cache.
fn seconds_ahead(headers: &HeaderMap) -> Option<i64> {
    if headers.contains_key(header::AGE) {
        return None;
    }
    let theirs = date(headers.get(header::DATE)?.as_bytes())?;
    let ours = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some(i64::try_from(theirs).ok()? - i64::try_from(ours).ok()?)
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        let known = http::StatusCode::from_u16(self.status).ok().and_then(|status| status.canonical_reason());
        if let Some(reason) = known {
            write!(f, " {reason}")?;
        }
        if let Some(location) = &self.location {
            write!(f, " to {location}")?;
        }
        match &self.content_type {
            Some(kind) => write!(f, ", {kind}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method, StatusCode};

    use super::super::super::findings::GATEWAY;
    use super::super::super::report::Phase;
    use super::*;

    #[test]
    fn equal_requests_are_one_line_with_their_number() {
        let (all, headers) = (Exchanges::default(), HeaderMap::new());
        let url = "http://a.example/".parse().unwrap();
        for (about, status) in [("x", 502), ("x", 502), ("x", 502), ("y", 502), ("x", 502)] {
            let outcome = Ok((StatusCode::from_u16(status).unwrap(), &headers));
            all.record(&Exchanged { method: &Method::GET, url: &url, about, outcome });
        }
        let finding = GATEWAY.at(Phase::Initialize, "x").with_requests(&all.all());
        let line = |about| format!("GET http://a.example/ ({about}): 502 Bad Gateway");
        assert_eq!(finding.evidence.requests, [line("x") + " (3 times)", line("y"), line("x")]);
    }

    #[test]
    fn of_more_than_64_exchanges_the_last_is_kept() {
        let (all, headers) = (Exchanges::default(), HeaderMap::new());
        let url = "http://a.example/".parse().unwrap();
        for number in 0..66 {
            let about = number.to_string();
            let outcome = Ok((StatusCode::OK, &headers));
            all.record(&Exchanged { method: &Method::GET, url: &url, about: &about, outcome });
        }
        let kept: Vec<String> = all.all().into_iter().map(|one| one.about).collect();
        let expected: Vec<String> = (0..63).chain([65]).map(|number| number.to_string()).collect();
        assert_eq!(kept, expected);
    }
}
