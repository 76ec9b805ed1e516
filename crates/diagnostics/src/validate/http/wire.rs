//! Sends the requests of `validate` over HTTP: two clients with a pool of connections each, and what every request has.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::Method;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue, LOCATION,
};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::Origin;
use mcpjoin_rules::{HttpRequest, HttpResponse};
use url::Url;

use super::Tap;
use mcpjoin::internal::http::{
    Body, Client, ClientOptions, Error, Proxies, Proxy, Response, is_refused, is_timeout, root, shown,
};
use mcpjoin::internal::{Checked, ErasedCredentials};
use mcpjoin::link::{AuthorizationRequest, Crossed, HttpConnect, HttpSetupError, Way};

/// Our headers that the rules read.
const NOTED: [&str; 7] = [
    name::SESSION_ID,
    name::PROTOCOL_VERSION,
    name::METHOD,
    name::NAME,
    name::LAST_EVENT_ID,
    name::ORIGIN,
    name::HOST,
];

/// The proof of possession for a token, and the nonce that a server wants in it.
const DPOP: HeaderName = HeaderName::from_static("dpop");
const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
/// The longest nonce that is accepted.
const MAX_NONCE_BYTES: usize = 4096;

/// A server, and what is needed to send it requests.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) url: Url,
    headers: HeaderMap,
    /// What fills the `Authorization` header.
    credentials: Option<Arc<dyn ErasedCredentials>>,
    client: Client,
    /// Writes the names of headers in title case, over connections of its own.
    other: Client,
    pub(super) is_loopback: bool,
    /// The proxy to the server, as errors name it.
    via: Option<String>,
    state: Arc<State>,
    tap: Option<Arc<Mutex<Tap>>>,
}

/// What is known about the server.
#[derive(Debug, Default)]
struct State {
    answered: AtomicBool,
    /// The last request has had no response: its connection was lost.
    lost: AtomicBool,
    gone: AtomicBool,
    /// The credentials have given an authorization.
    authorized: AtomicBool,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) struct Silence {
    /// A few words for people.
    pub(super) problem: String,
    /// The server has responded before, and refuses connections now.
    pub(super) gone: bool,
}

/// The head of a request.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    /// The names of the headers are written in title case.
    pub(super) other_letters: bool,
    /// It is sent without any authorization.
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
        let client = |title_case_headers| {
            Client::new(ClientOptions {
                proxies: proxy.is_some().then(Proxies::from_system),
                user_agent: Some(HeaderValue::from_static(concat!("mcpjoin/", env!("CARGO_PKG_VERSION")))),
                title_case_headers,
                ..ClientOptions::new(tls.clone(), connect.connect_within())
            })
        };
        Ok(Self {
            via: proxy.as_ref().map(ToString::to_string),
            client: client(false),
            other: client(true),
            url,
            headers,
            credentials: connect.credentialed(),
            is_loopback,
            state: Arc::default(),
            tap: tap.map(|tap| Arc::new(Mutex::new(tap))),
        })
    }

    /// Shows a message to the tap.
    pub(super) fn crossed(&self, way: Way, line: &[u8]) {
        if let Some(tap) = &self.tap {
            (tap.lock().unwrap_or_else(PoisonError::into_inner))(way, Crossed::Line(line));
        }
    }

    /// The head of a request, with the headers of every request.
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

    /// Whether headers or credentials of the user may identify us.
    pub(super) fn may_be_known(&self) -> bool {
        !self.headers.is_empty() || self.credentials.is_some()
    }

    /// Whether requests have an authorization.
    pub(super) fn has_token(&self) -> bool {
        let given = self.headers.contains_key(AUTHORIZATION) || self.headers.contains_key(COOKIE);
        given || self.state.authorized.load(Ordering::Relaxed)
    }

    /// Whether the server has ended.
    pub(super) fn is_gone(&self) -> bool {
        self.state.gone.load(Ordering::Relaxed)
    }

    /// Whether the last request has had no response.
    pub(super) fn has_lost(&self) -> bool {
        self.state.lost.load(Ordering::Relaxed)
    }

    /// Records whether the last request has had a response.
    pub(super) fn note_lost(&self, lost: bool) {
        self.state.lost.store(lost, Ordering::Relaxed);
    }

    /// Records that the server has ended.
    pub(super) fn note_gone(&self) {
        self.state.gone.store(true, Ordering::Relaxed);
    }

    /// Sends a request and waits for the head of its response.
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
        let body = body.unwrap_or_else(Body::empty);
        match client.send(head.method.clone(), &head.url, headers, body).await {
            Ok(response) => {
                self.state.answered.store(true, Ordering::Relaxed);
                self.record_nonce(head, &response);
                Ok(response)
            }
            Err(error) => {
                // A proxy that refuses connections says nothing about the server.
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

    /// Gives the nonce in a response to the credentials.
    fn record_nonce(&self, head: &Head, response: &Response) {
        let nonce = response.headers().get(DPOP_NONCE).and_then(|nonce| nonce.to_str().ok());
        if let (Some(credentials), Some(nonce)) =
            (&self.credentials, nonce.filter(|it| it.len() <= MAX_NONCE_BYTES))
        {
            credentials.answered(head.url.as_str(), nonce);
        }
    }

    /// Adds the stored authorization. Without one, the server says what it wants.
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

    /// The target of a redirect, without its query.
    pub(super) fn location(&self, response: &Response) -> Option<String> {
        let location = response.headers().get(LOCATION)?.to_str().ok()?;
        self.url.join(location).ok().map(|to| shown(&to))
    }
}

impl Head {
    /// With another value of a header.
    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        // Only names of tools and the like may have any characters, and they are encoded.
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

    /// Without any authorization.
    pub(super) fn strange(mut self) -> Self {
        self.stranger = true;
        self
    }

    /// Without a header.
    pub(super) fn without(mut self, name: &'static str) -> Self {
        self.headers.remove(name);
        self
    }

    /// As the trace has it: without what authorizes us.
    pub(super) fn noted(&self) -> HttpRequest {
        // An invented token authorizes nobody.
        let strange = |name: &HeaderName| self.stranger && *name == AUTHORIZATION;
        let noted = self.headers.iter().filter(|(name, _)| NOTED.contains(&name.as_str()) || strange(name));
        HttpRequest {
            method: self.method.as_str().into(),
            url: self.url.as_str().into(),
            headers: noted.map(|(name, value)| (name.as_str().into(), bytes(value))).collect(),
        }
    }
}

/// The head of a response, as the trace has it.
pub(super) fn noted(response: &Response) -> HttpResponse {
    let headers = response.headers().iter().map(|(name, value)| (name.as_str().into(), bytes(value)));
    HttpResponse { status: response.status().as_u16(), headers: headers.collect() }
}

fn bytes(value: &HeaderValue) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

/// Why a request failed: the innermost cause, which says it in the fewest words, and never the URL.
pub(super) fn told(error: &Error) -> String {
    if is_timeout(error) {
        return "no connection within the time that connecting may take".into();
    }
    root(error)
}
