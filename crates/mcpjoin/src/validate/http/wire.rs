//! The way to a server that is reached over HTTP: two clients with a pool of connections each, and what every request
//! carries.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use mcpjoin_check::{HttpRequest, HttpResponse};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::Origin;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue, LOCATION,
};
use reqwest::{Body, Client, Method, Response, Url};

use super::Tap;
use crate::link::{
    AuthorizationRequest, Checked, Crossed, ErasedCredentials, HttpConnect, HttpSetupError, Proxy, Way, shown,
};

/// The headers of ours that say something to the rules.
const NOTED: [&str; 7] = [
    name::SESSION_ID,
    name::PROTOCOL_VERSION,
    name::METHOD,
    name::NAME,
    name::LAST_EVENT_ID,
    name::ORIGIN,
    name::HOST,
];

/// The proof of possession that goes with a token, and the nonce that a server wants in it.
const DPOP: HeaderName = HeaderName::from_static("dpop");
const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
/// A longer nonce is none, in bytes.
const NONCE: usize = 4096;

/// A server, and what is needed to ask it.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) url: Url,
    headers: HeaderMap,
    /// Who says what stands in `Authorization`, for as long as it is known.
    credentials: Option<Arc<dyn ErasedCredentials>>,
    client: Client,
    /// Writes the names of headers in other letters, over connections of its own.
    other: Client,
    pub(super) is_loopback: bool,
    /// The proxy that is asked in place of the server, in words.
    via: Option<String>,
    state: Arc<State>,
    tap: Option<Arc<Mutex<Tap>>>,
}

/// Whether anybody is there.
#[derive(Debug, Default)]
struct State {
    answered: AtomicBool,
    /// What was asked last has had no response: its connection was lost.
    lost: AtomicBool,
    gone: AtomicBool,
    /// The credentials have let us in with something.
    authorized: AtomicBool,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) struct Silence {
    /// In a few words.
    pub(super) problem: String,
    /// No connection was made where there was a server before: it has ended.
    pub(super) gone: bool,
}

/// What is sent.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    /// The names of the headers in other letters.
    pub(super) other_letters: bool,
    /// Nothing goes with it by which we would be let in.
    pub(super) stranger: bool,
}

impl Wire {
    /// # Errors
    /// When the URL, a header or a certificate cannot be used.
    pub(super) fn new(connect: &HttpConnect, tap: Option<Tap>) -> Result<Self, HttpSetupError> {
        let Checked { url, headers, mut tls } = connect.checked()?;
        let proxy = Proxy::to(&url);
        let is_loopback = Origin::of(url.as_str()).is_ok_and(|origin| origin.is_loopback());
        // One request a connection, with its headers as they are: no HTTP/2.
        tls.alpn_protocols.clear();
        let client = |other: bool| {
            let builder = Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                .user_agent(concat!("mcpjoin/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(connect.connect_within())
                .http1_only();
            let builder = if other { builder.http1_title_case_headers() } else { builder };
            let builder = if proxy.is_none() { builder.no_proxy() } else { builder };
            builder.build().map_err(|error| HttpSetupError::Client(told(&error)))
        };
        Ok(Self {
            via: proxy.as_ref().map(ToString::to_string),
            client: client(false)?,
            other: client(true)?,
            url,
            headers,
            credentials: connect.credentialed(),
            is_loopback,
            state: Arc::default(),
            tap: tap.map(|tap| Arc::new(Mutex::new(tap))),
        })
    }

    /// Shows a message to whoever wants to see it.
    pub(super) fn crossed(&self, way: Way, line: &[u8]) {
        if let Some(tap) = &self.tap {
            (tap.lock().unwrap_or_else(PoisonError::into_inner))(way, Crossed::Line(line));
        }
    }

    /// A request with what each one has.
    pub(super) fn head(&self, method: Method) -> Head {
        let mut headers = HeaderMap::new();
        let accepted =
            if method == Method::GET { "text/event-stream" } else { "application/json, text/event-stream" };
        headers.insert(ACCEPT, HeaderValue::from_static(accepted));
        if method == Method::POST {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Head { method, url: self.url.clone(), headers, other_letters: false, stranger: false }
    }

    /// Whether something of the user's goes with each request, by which we may be known.
    pub(super) fn may_be_known(&self) -> bool {
        !self.headers.is_empty() || self.credentials.is_some()
    }

    /// Whether something goes with each request that is there to let us in.
    #[cfg(feature = "oauth")]
    pub(super) fn has_token(&self) -> bool {
        let given = self.headers.contains_key(AUTHORIZATION) || self.headers.contains_key(COOKIE);
        given || self.state.authorized.load(Ordering::Relaxed)
    }

    /// Whether the server has ended, as was noted.
    pub(super) fn is_gone(&self) -> bool {
        self.state.gone.load(Ordering::Relaxed)
    }

    /// Whether what was asked last has had no response: its connection was lost.
    pub(super) fn has_lost(&self) -> bool {
        self.state.lost.load(Ordering::Relaxed)
    }

    /// What was asked has had no response, or has had one.
    pub(super) fn note_lost(&self, lost: bool) {
        self.state.lost.store(lost, Ordering::Relaxed);
    }

    /// The server has ended, and that is noted.
    pub(super) fn note_gone(&self) {
        self.state.gone.store(true, Ordering::Relaxed);
    }

    /// Sends it.
    ///
    /// # Errors
    /// When there is no response.
    pub(super) async fn send(&self, head: &Head, body: Option<Body>) -> Result<Response, Silence> {
        let client = if head.other_letters { &self.other } else { &self.client };
        let mut headers = self.headers.clone();
        if head.stranger {
            headers.remove(AUTHORIZATION);
            headers.remove(COOKIE);
        }
        if !head.stranger {
            self.authorize(head, &mut headers).await;
        }
        for (name, value) in &head.headers {
            headers.insert(name, value.clone());
        }
        let mut request = client.request(head.method.clone(), head.url.clone()).headers(headers);
        if let Some(body) = body {
            request = request.body(body);
        }
        match request.send().await {
            Ok(response) => {
                self.state.answered.store(true, Ordering::Relaxed);
                self.heard_nonce(head, &response);
                Ok(response)
            }
            Err(error) => {
                // A proxy that is gone says nothing of the server.
                let gone =
                    is_refused(&error) && self.via.is_none() && self.state.answered.load(Ordering::Relaxed);
                let problem = match &self.via {
                    Some(via) => format!("{} ({via})", told(&error)),
                    None => told(&error),
                };
                Err(Silence { problem, gone })
            }
        }
    }

    /// Each response may bring the nonce of the proofs that come next.
    fn heard_nonce(&self, head: &Head, response: &Response) {
        let nonce = response.headers().get(DPOP_NONCE).and_then(|nonce| nonce.to_str().ok());
        if let (Some(credentials), Some(nonce)) = (&self.credentials, nonce.filter(|it| it.len() <= NONCE)) {
            credentials.answered(head.url.as_str(), nonce);
        }
    }

    /// What is stored for the server goes with a request to it. Where there is nothing, or nothing that is still good, the
    /// server says what it wants.
    async fn authorize(&self, head: &Head, headers: &mut HeaderMap) {
        let Some(credentials) = &self.credentials else { return };
        let request = AuthorizationRequest::new(head.url.as_str(), head.method.as_str());
        let Ok(Some(mut value)) = credentials.authorization(request).await else { return };
        self.state.authorized.store(true, Ordering::Relaxed);
        value.set_sensitive(true);
        if let Some(mut proof) = credentials.proof(request, &value) {
            proof.set_sensitive(true);
            headers.insert(DPOP, proof);
        }
        headers.insert(AUTHORIZATION, value);
    }

    /// Where a redirect leads, without what may be secret in it.
    pub(super) fn location(&self, response: &Response) -> Option<String> {
        let location = response.headers().get(LOCATION)?.to_str().ok()?;
        self.url.join(location).ok().map(|to| shown(&to))
    }
}

impl Head {
    /// With another value of a header.
    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        // Only what is asked for by name may hold any characters, and that is encoded.
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// With a header whose name is not one of ours.
    pub(super) fn and(mut self, name: &str, value: &str) -> Self {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            self.headers.insert(name, value);
        }
        self
    }

    /// As somebody who is not known.
    #[cfg(feature = "oauth")]
    pub(super) fn strange(mut self) -> Self {
        self.stranger = true;
        self
    }

    /// Without a header.
    pub(super) fn without(mut self, name: &'static str) -> Self {
        self.headers.remove(name);
        self
    }

    /// As it is noted: without what lets us in.
    pub(super) fn noted(&self) -> HttpRequest {
        // What a stranger gives lets nobody in.
        let strange = |name: &HeaderName| self.stranger && *name == AUTHORIZATION;
        let noted = self.headers.iter().filter(|(name, _)| NOTED.contains(&name.as_str()) || strange(name));
        HttpRequest {
            method: self.method.as_str().into(),
            url: self.url.as_str().into(),
            headers: noted.map(|(name, value)| (name.as_str().into(), bytes(value))).collect(),
        }
    }
}

/// As it is noted.
pub(super) fn noted(response: &Response) -> HttpResponse {
    let headers = response.headers().iter().map(|(name, value)| (name.as_str().into(), bytes(value)));
    HttpResponse { status: response.status().as_u16(), headers: headers.collect() }
}

fn bytes(value: &HeaderValue) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

/// Whether nobody listens there.
fn is_refused(error: &reqwest::Error) -> bool {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
        if let Some(error) = cause.downcast_ref::<std::io::Error>()
            && error.kind() == std::io::ErrorKind::ConnectionRefused
        {
            return true;
        }
    }
    false
}

/// Why a request failed: the innermost cause, which says it in the fewest words, and never the URL.
pub(super) fn told(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if error.is_timeout() {
        return "no connection within the time that connecting may take".into();
    }
    cause.to_string()
}
