//! A server over HTTP, and the clients that send it requests.
//!
//! The sessions of `validate` send through a [`Target`]; `doctor` asks for pages with an [`anonymous_client`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue, LOCATION,
};
use mcpjoin::internal::http::{
    Body, Client, ClientOptions, Error, Proxies, Proxy, Response, describe, is_refused, is_timeout, root,
    shown,
};
use mcpjoin::internal::{Checked, ErasedCredentials};
use mcpjoin::transport::{
    AuthorizationRequest, Direction, HttpConnect, HttpHandle, HttpSetupError, Inspected,
};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::Origin;
use mcpjoin_proto::session::TransportError;
use mcpjoin_rules::{HttpRequest, HttpResponse};
use tokio::time::{Instant, timeout_at};
use url::Url;

/// The headers of ours that the rules read.
const RECORDED_HEADERS: [&str; 7] = [
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
/// The longest `DPoP-Nonce` header that is passed to the credentials.
const MAX_NONCE_HEADER_BYTES: usize = 4096;

/// Called with each message that is sent or received.
pub(crate) type Inspector = Box<dyn FnMut(Direction, Inspected<'_>) + Send>;

/// A server, and what is needed to send it requests.
pub(crate) struct Target {
    pub(crate) url: Url,
    headers: HeaderMap,
    /// What fills the `Authorization` header.
    credentials: Option<Arc<dyn ErasedCredentials>>,
    client: Client,
    /// Waits for the ends of sessions.
    pub(super) handle: HttpHandle,
    /// Writes the names of headers in title case, over connections of its own.
    title_case: Client,
    pub(crate) is_loopback: bool,
    /// The proxy to the server, as errors name it.
    proxy: Option<String>,
    /// How long connecting may take.
    connect_within: Duration,
    answered: AtomicBool,
    /// The last request got no response: its connection was lost.
    lost: AtomicBool,
    gone: AtomicBool,
    /// The credentials have given an authorization.
    authorized: AtomicBool,
    inspector: Option<Mutex<Inspector>>,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) struct SendError {
    /// The cause, in a few words.
    pub(super) problem: String,
    /// The same as an error of the link, which names the request.
    pub(super) error: TransportError,
    /// Whether the server has responded before, and refuses connections now.
    pub(super) gone: bool,
}

/// The head of a request.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    title_case: bool,
    anonymous: bool,
}

impl Target {
    /// # Errors
    /// When the URL, a header or a certificate cannot be used.
    pub(crate) fn new(connect: &HttpConnect, inspector: Option<Inspector>) -> Result<Self, HttpSetupError> {
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
            proxy: proxy.as_ref().map(ToString::to_string),
            connect_within: connect.connect_within(),
            client: client(false),
            title_case: client(true),
            handle: connect.handle(),
            url,
            headers,
            credentials: connect.credentialed(),
            is_loopback,
            answered: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            authorized: AtomicBool::new(false),
            inspector: inspector.map(Mutex::new),
        })
    }

    /// Shows a message to the inspector.
    pub(super) fn inspect(&self, direction: Direction, line: &[u8]) {
        if let Some(inspector) = &self.inspector {
            (inspector.lock().unwrap_or_else(PoisonError::into_inner))(direction, Inspected::Line(line));
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
        Head { method, url: self.url.clone(), headers, title_case: false, anonymous: false }
    }

    /// Whether headers or credentials of the user may identify us.
    pub(crate) fn may_be_known(&self) -> bool {
        !self.headers.is_empty() || self.credentials.is_some()
    }

    /// Whether requests have an authorization.
    pub(crate) fn has_token(&self) -> bool {
        let given = self.headers.contains_key(AUTHORIZATION) || self.headers.contains_key(COOKIE);
        given || self.authorized.load(Ordering::Relaxed)
    }

    /// Whether the server has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Whether the last request got no response.
    pub(super) fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Records whether the last request got no response.
    pub(super) fn note_lost(&self, lost: bool) {
        self.lost.store(lost, Ordering::Relaxed);
    }

    /// Records that the server has ended.
    pub(super) fn note_gone(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Sends a request and waits for the head of its response.
    ///
    /// # Errors
    /// When there is no response.
    pub(super) async fn send(&self, head: &Head, body: Option<Body>) -> Result<Response, SendError> {
        let client = if head.title_case { &self.title_case } else { &self.client };
        let mut headers = self.headers.clone();
        if head.anonymous {
            headers.remove(AUTHORIZATION);
            headers.remove(COOKIE);
        } else {
            self.authorize(head, &mut headers).await;
        }
        for (name, value) in &head.headers {
            headers.insert(name, value.clone());
        }
        let body = body.unwrap_or_else(Body::empty);
        match client.send(head.method.clone(), &head.url, headers, body).await {
            Ok(response) => {
                self.answered.store(true, Ordering::Relaxed);
                self.record_nonce(head, &response);
                Ok(response)
            }
            Err(error) => {
                // A proxy that refuses connections says nothing about the server.
                let gone =
                    is_refused(&error) && self.proxy.is_none() && self.answered.load(Ordering::Relaxed);
                let problem = match &self.proxy {
                    Some(proxy) => format!("{} ({proxy})", cause(&error)),
                    None => cause(&error),
                };
                let mut error = describe(&error, &head.url, self.connect_within, self.proxy.is_some());
                let via = self.proxy.as_ref().map(|proxy| format!(" ({proxy})")).unwrap_or_default();
                error.message = format!("{} {}{via}: {}", head.method, shown(&head.url), error.message);
                Err(SendError { problem, error, gone })
            }
        }
    }

    /// Gives the nonce in a response to the credentials.
    fn record_nonce(&self, head: &Head, response: &Response) {
        let nonce = response.headers().get(DPOP_NONCE).and_then(|nonce| nonce.to_str().ok());
        let nonce = nonce.filter(|nonce| nonce.len() <= MAX_NONCE_HEADER_BYTES);
        if let (Some(credentials), Some(nonce)) = (&self.credentials, nonce) {
            credentials.answered(head.url.as_str(), nonce);
        }
    }

    /// Adds the stored authorization. Without one, the server says what it wants.
    async fn authorize(&self, head: &Head, headers: &mut HeaderMap) {
        let Some(credentials) = &self.credentials else { return };
        let request = AuthorizationRequest::new(head.url.as_str(), head.method.as_str());
        let Ok(Some(mut value)) = credentials.authorization(request).await else { return };
        self.authorized.store(true, Ordering::Relaxed);
        value.set_sensitive(true);
        if let Some(mut proof) = credentials.proof(request, &value) {
            proof.set_sensitive(true);
            headers.insert(DPOP, proof);
        }
        headers.insert(AUTHORIZATION, value);
    }
}

/// The target of a redirect, without its query, which may contain a secret. `url`: that of the request.
pub(crate) fn location(url: &Url, headers: &HeaderMap) -> Option<String> {
    let location = headers.get(LOCATION)?.to_str().ok()?;
    url.join(location).ok().map(|to| shown(&to))
}

impl Head {
    /// With another value of a header.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        // Only names of tools and the like may have any characters, and they are encoded.
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// With a header whose name is not one of ours.
    pub(crate) fn and(mut self, name: &str, value: &str) -> Self {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            self.headers.insert(name, value);
        }
        self
    }

    /// Without any authorization.
    pub(crate) fn anonymous(mut self) -> Self {
        self.anonymous = true;
        self
    }

    /// With the names of its headers in title case, over another connection.
    pub(crate) fn in_title_case(mut self) -> Self {
        self.title_case = true;
        self
    }

    /// Without a header.
    pub(crate) fn without(mut self, name: &'static str) -> Self {
        self.headers.remove(name);
        self
    }

    /// As the trace has it: without what authorizes us.
    pub(super) fn recorded(&self) -> HttpRequest {
        // An invented token authorizes nothing.
        let is_invented = |name: &HeaderName| self.anonymous && *name == AUTHORIZATION;
        let recorded = self
            .headers
            .iter()
            .filter(|(name, _)| RECORDED_HEADERS.contains(&name.as_str()) || is_invented(name));
        HttpRequest {
            method: self.method.as_str().into(),
            url: self.url.as_str().into(),
            headers: pairs(recorded),
        }
    }
}

/// The head of a response, as the trace has it.
pub(super) fn recorded(response: &Response) -> HttpResponse {
    HttpResponse { status: response.status().as_u16(), headers: pairs(response.headers()) }
}

/// Headers, as the trace has them.
pub(crate) fn pairs<'h>(
    headers: impl IntoIterator<Item = (&'h HeaderName, &'h HeaderValue)>,
) -> Vec<(Box<str>, Bytes)> {
    let headers = headers.into_iter();
    headers.map(|(name, value)| (name.as_str().into(), Bytes::copy_from_slice(value.as_bytes()))).collect()
}

/// Why a request failed: the innermost cause, without the URL.
pub(super) fn cause(error: &Error) -> String {
    if is_timeout(error) {
        return "no connection within the time limit for connecting".into();
    }
    root(error)
}

/// A client that adds no headers of the user to its requests. `within`: how long connecting may take.
pub(crate) fn anonymous_client(tls: &rustls::ClientConfig, within: Duration) -> Client {
    Client::new(ClientOptions {
        proxies: Some(Proxies::from_system()),
        ..ClientOptions::new(tls.clone(), within)
    })
}

/// Reads a body until it ends, `max` bytes are read or the deadline is over. Returns what was read.
pub(crate) async fn read_body(response: &mut Response, max: usize, deadline: Instant) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < max
        && let Ok(Ok(Some(piece))) = timeout_at(deadline, response.chunk()).await
    {
        body.extend_from_slice(&piece[..piece.len().min(max - body.len())]);
    }
    body
}
