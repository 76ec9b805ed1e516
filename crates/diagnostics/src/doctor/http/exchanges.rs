//! The log of the HTTP exchanges of a link, from which the examination makes its findings.
//!
//! Filled by the log of the link. It keeps heads and no bodies, and of the headers only what a finding is made from.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::{self, HeaderMap, HeaderName};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::session::LinkErrorKind;

use url::Url;

use super::clock;
use crate::engine::http::location;
use mcpjoin::internal::http::shown;
use mcpjoin::internal::{Exchanged, readable, refusal};

/// Exchanges that are kept. Of further ones only the last is.
const MAX_EXCHANGES: usize = 64;
/// How much of the value of a header is kept.
const MAX_VALUE_BYTES: usize = 200;
/// Exchanges that are shown with a finding.
const MAX_SHOWN: usize = 12;

/// All exchanges, in the order in which they were finished. Cheap to clone; clones share their content.
#[derive(Clone, Default)]
pub(super) struct Exchanges(Arc<Mutex<Vec<Exchange>>>);

/// A request and its outcome.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) method: String,
    pub(super) url: String,
    /// The method of MCP, or the purpose of the request.
    pub(super) about: String,
    pub(super) came: Came,
}

#[derive(Clone, Debug)]
pub(super) enum Came {
    Response(Box<Head>),
    Nothing { kind: LinkErrorKind, what: String },
}

/// The head of a response.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) content_type: Option<String>,
    pub(super) location: Option<String>,
    pub(super) retry_after: Option<String>,
    /// Why the server refuses, and what it wants, from `WWW-Authenticate`.
    pub(super) reason: Option<String>,
    pub(super) wants: Option<String>,
    /// Whether it opens a session with an id.
    pub(super) session: bool,
    /// The program of a proxy that has answered by itself.
    pub(super) proxy: Option<String>,
    /// How far the clock of the server is ahead of ours, in seconds.
    pub(super) ahead: Option<i64>,
}

impl Exchanges {
    pub(super) fn note(&self, exchanged: &Exchanged<'_>) {
        let came = match exchanged.outcome {
            Ok((status, headers)) => {
                Came::Response(Box::new(Head::of(status.as_u16(), headers, exchanged.url)))
            }
            Err(error) => Came::Nothing { kind: error.kind, what: error.message.clone() },
        };
        let exchange = Exchange {
            method: exchanged.method.to_string(),
            url: shown(exchanged.url),
            about: exchanged.about.to_owned(),
            came,
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

/// The newest exchanges, one line each, as they are shown with a finding.
pub(super) fn lines(all: &[Exchange]) -> Vec<String> {
    all[all.len().saturating_sub(MAX_SHOWN)..].iter().map(ToString::to_string).collect()
}

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

fn is_proxy(server: &str) -> bool {
    let server = server.to_ascii_lowercase();
    PROXIES.iter().any(|name| server.contains(name))
}

impl Exchange {
    pub(super) fn head(&self) -> Option<&Head> {
        match &self.came {
            Came::Response(head) => Some(head),
            Came::Nothing { .. } => None,
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
        let Self { method, url, about, came } = self;
        write!(f, "{method} {url} ({about}): ")?;
        match came {
            Came::Response(head) => head.fmt(f),
            // The error begins with the request, too.
            Came::Nothing { what, .. } => f.write_str(what.split_once("): ").map_or(what, |(_, what)| what)),
        }
    }
}

impl Head {
    fn of(status: u16, headers: &HeaderMap, url: &Url) -> Self {
        let text = |name: HeaderName| {
            let value = headers.get(name)?.as_bytes();
            Some(readable(&value[..value.len().min(MAX_VALUE_BYTES)]))
        };
        Self {
            status,
            content_type: text(header::CONTENT_TYPE),
            location: location(url, headers),
            retry_after: text(header::RETRY_AFTER),
            reason: refusal(headers),
            wants: text(header::WWW_AUTHENTICATE),
            session: headers.contains_key(name::SESSION_ID),
            proxy: text(header::SERVER)
                .filter(|server| headers.contains_key("x-squid-error") || is_proxy(server)),
            ahead: clock::ahead(headers),
        }
    }

    /// Whether the content type begins with `kind`.
    pub(super) fn is(&self, kind: &str) -> bool {
        self.content_type.as_deref().is_some_and(|given| given.to_ascii_lowercase().starts_with(kind))
    }
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

    use super::*;

    #[test]
    fn of_more_than_64_exchanges_the_last_is_kept() {
        let (all, headers) = (Exchanges::default(), HeaderMap::new());
        let url = "http://a.example/".parse().unwrap();
        for number in 0..66 {
            let about = number.to_string();
            let outcome = Ok((StatusCode::OK, &headers));
            all.note(&Exchanged { method: &Method::GET, url: &url, about: &about, outcome });
        }
        let kept: Vec<String> = all.all().into_iter().map(|one| one.about).collect();
        let expected: Vec<String> = (0..63).chain([65]).map(|number| number.to_string()).collect();
        assert_eq!(kept, expected);
    }
}
