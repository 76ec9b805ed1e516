//! What the requests of HTTP came to that the link has made, as an examination reads them.
//!
//! Fed by the link's witness. It keeps heads and no bodies, and of headers only what a finding is made from.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::{self, HeaderMap, HeaderName};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::session::LinkErrorKind;

use reqwest::Url;

use super::clock;
use crate::link::{Exchanged, readable, refusal, shown};

/// Exchanges that are kept; of further ones the last.
const KEPT: usize = 64;
/// Of a header's value so much is kept, in bytes.
const VALUE: usize = 200;
/// So many are shown with a finding.
const SHOWN: usize = 12;

/// All of them, in the order in which they were over. Cheap to clone; all clones see the same.
#[derive(Clone, Default)]
pub(super) struct Exchanges(Arc<Mutex<Vec<Exchange>>>);

/// A request and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) method: String,
    pub(super) url: String,
    /// The method of MCP, or what it was for.
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
    /// Why it refuses us, and what it wants, as `WWW-Authenticate` says it.
    pub(super) reason: Option<String>,
    pub(super) wants: Option<String>,
    /// Whether it opens a session with a name.
    pub(super) session: bool,
    /// The program that a proxy says to be which has answered by itself.
    pub(super) proxy: Option<String>,
    /// How much later it is by the clock of whoever answers than by ours, in seconds.
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
        if all.len() == KEPT {
            all.pop();
        }
        all.push(exchange);
    }

    pub(super) fn all(&self) -> Vec<Exchange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A line for each, as they are shown with a finding.
pub(super) fn lines(all: &[Exchange]) -> Vec<String> {
    all[all.len().saturating_sub(SHOWN)..].iter().map(ToString::to_string).collect()
}

/// Programs that stand before others and answer for them. In small letters.
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

    /// Whether it asks something of the server, and does not only tell it something.
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
            // The link's own words begin with the same.
            Came::Nothing { what, .. } => f.write_str(what.split_once("): ").map_or(what, |(_, what)| what)),
        }
    }
}

impl Head {
    fn of(status: u16, headers: &HeaderMap, url: &Url) -> Self {
        let text = |name: HeaderName| {
            let value = headers.get(name)?.as_bytes();
            Some(readable(&value[..value.len().min(VALUE)]))
        };
        // What is in its query may be a secret.
        let location =
            headers.get(header::LOCATION).and_then(|to| to.to_str().ok()).and_then(|to| url.join(to).ok());
        Self {
            status,
            content_type: text(header::CONTENT_TYPE),
            location: location.map(|to| shown(&to)),
            retry_after: text(header::RETRY_AFTER),
            reason: refusal(headers),
            wants: text(header::WWW_AUTHENTICATE),
            session: headers.contains_key(name::SESSION_ID),
            proxy: text(header::SERVER)
                .filter(|server| headers.contains_key("x-squid-error") || is_proxy(server)),
            ahead: clock::ahead(headers),
        }
    }

    /// Whether the body is said to be of that kind.
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
