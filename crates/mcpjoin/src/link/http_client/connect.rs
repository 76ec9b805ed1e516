//! What a link to a server over HTTP is made of.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::{Origin, OriginError};
use reqwest::Url;

use super::super::Link;
use super::HttpLink;
use super::credentials::{Credentials, ErasedCredentials};
use super::proxy::Proxy;
use super::tls;
use super::wire::Wire;
#[cfg(unix)]
use super::witness::Witness;

/// How long connecting may take: the number of the project's interface page.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection may be silent before the system asks whether the other side is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(60);
/// How often it asks again, and how many times.
const KEEP_ALIVE_AGAIN: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TRIES: u32 = 3;
/// Idle connections that are kept: as many as a burst of requests has made, so that the next one makes none.
const IDLE_CONNECTIONS: usize = super::running::REQUESTS;
/// And for how long.
const IDLE: Duration = Duration::from_secs(30);
/// Headers that the transport itself sends.
const OURS: [HeaderName; 6] = [
    header::ACCEPT,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::HOST,
];

/// A link to be made, by [`Link::http`]. Every link that is made from it or from a clone of it is watched by the same
/// [`HttpHandle`].
#[derive(Clone)]
#[must_use = "nothing is made before `build`"]
pub struct HttpConnect {
    url: String,
    headers: Vec<(String, String)>,
    credentials: Option<Arc<dyn ErasedCredentials>>,
    extra_ca: Vec<Vec<u8>>,
    connect_timeout: Duration,
    legacy_sse: bool,
    get_stream: bool,
    handle: HttpHandle,
    #[cfg(unix)]
    witness: Option<Witness>,
}

/// A link over HTTP cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpSetupError {
    /// The URL is none that can be connected to. It is not repeated here: it may hold a password.
    #[error("the URL cannot be used: {0}")]
    Url(String),
    /// A header cannot be sent. Its value is not repeated here.
    #[error("the header {name:?} cannot be sent: {problem}")]
    Header {
        /// Its name.
        name: String,
        /// Why not.
        problem: &'static str,
    },
    /// An extra certificate cannot be read.
    #[error("the extra certificate cannot be used: {0}")]
    Certificate(String),
    /// The client cannot be set up: a proxy in the environment is no URL, for example.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

/// The two ways to reach a server over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpWay {
    /// [Streamable HTTP](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http):
    /// one endpoint.
    Streamable,
    /// [HTTP+SSE](https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse) of
    /// 2024-11-05: one stream, and an endpoint for what is said.
    HttpSse,
}

/// Watches a link over HTTP. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct HttpHandle(Arc<AtomicU8>);

impl HttpHandle {
    /// The way that was taken; `None` before the server has accepted one. Whoever connects to the same origin again
    /// can take it without trying.
    #[must_use]
    pub fn way(&self) -> Option<HttpWay> {
        match self.0.load(Ordering::Acquire) {
            1 => Some(HttpWay::Streamable),
            2 => Some(HttpWay::HttpSse),
            _ => None,
        }
    }

    pub(super) fn took(&self, way: HttpWay) {
        let way = match way {
            HttpWay::Streamable => 1,
            HttpWay::HttpSse => 2,
        };
        self.0.store(way, Ordering::Release);
    }
}

impl Link {
    /// A link to a server over HTTP: 2026-07-28, the sessions of 2025-03-26 to 2025-11-25, and, where the server knows
    /// neither, HTTP+SSE of 2024-11-05. Which of these it is, the session finds out.
    ///
    /// Nothing is connected before the first message is sent, and each message has a request of its own. Proxies are
    /// those of the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`) except for this machine, certificates those of the system.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::{Client, Link};
    ///
    /// let link = Link::http("https://example.com/mcp").header("x-team", "blue").build()?;
    /// let client = Client::builder("example", "1.0.0").connect(link).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn http(url: impl Into<String>) -> HttpConnect {
        HttpConnect {
            url: url.into(),
            headers: Vec::new(),
            credentials: None,
            extra_ca: Vec::new(),
            connect_timeout: CONNECT,
            legacy_sse: false,
            get_stream: true,
            handle: HttpHandle::default(),
            #[cfg(unix)]
            witness: None,
        }
    }
}

impl HttpConnect {
    /// A header to send with every request, to the origin of the URL and nowhere else. One that the transport sends
    /// itself is refused by [`build`](Self::build).
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Who says what stands in `Authorization`, and what to do when it is refused.
    pub fn credentials(mut self, credentials: impl Credentials) -> Self {
        self.credentials = Some(Arc::new(credentials));
        self
    }

    /// Trust certificates that these have signed, beside those of the system: PEM, one or several.
    pub fn extra_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.extra_ca.push(pem.into());
        self
    }

    /// How long connecting may take, resolving the name and TLS included: 10 s.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The server speaks HTTP+SSE of 2024-11-05; nothing else is tried. The URL is that of the event stream.
    pub const fn legacy_sse(mut self) -> Self {
        self.legacy_sse = true;
        self
    }

    /// Whether a legacy session opens the stream on which a server says what belongs to no request: yes. A server that
    /// has none is no less usable.
    pub const fn get_stream(mut self, open: bool) -> Self {
        self.get_stream = open;
        self
    }

    /// Tells of every request that the link will make.
    #[cfg(unix)]
    pub(crate) fn witnessed(mut self, witness: Witness) -> Self {
        self.witness = Some(witness);
        self
    }

    /// Watches the link that will be made.
    #[must_use]
    pub fn handle(&self) -> HttpHandle {
        self.handle.clone()
    }

    /// Makes the link. Nothing is connected yet.
    ///
    /// # Errors
    /// When the URL, a header, a certificate or a proxy of the environment cannot be used.
    pub fn build(self) -> Result<Link, HttpSetupError> {
        self.link().map(Link::new)
    }

    pub(super) fn link(self) -> Result<HttpLink, HttpSetupError> {
        let Checked { url, headers, tls } = self.checked()?;
        let mut client = reqwest::Client::builder();
        let proxy = Proxy::to(&url);
        if proxy.is_none() {
            client = client.no_proxy();
        }
        let client = client
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(self.connect_timeout)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            .tcp_keepalive(KEEP_ALIVE)
            .tcp_keepalive_interval(KEEP_ALIVE_AGAIN)
            .tcp_keepalive_retries(KEEP_ALIVE_TRIES)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .http2_keep_alive_timeout(KEEP_ALIVE_AGAIN * KEEP_ALIVE_TRIES)
            .build()
            .map_err(|error| HttpSetupError::Client(super::failure::root(&error)))?;
        let wire = Wire::new(client, url, headers, self.credentials, self.connect_timeout, proxy.as_ref());
        #[cfg(unix)]
        let wire = wire.witnessed(self.witness);
        Ok(HttpLink::new(wire, self.legacy_sse, self.get_stream, self.handle))
    }

    /// What was given, once it is known that it can be used. For whoever asks in another way than a link does.
    pub(crate) fn checked(&self) -> Result<Checked, HttpSetupError> {
        let refused = |error: OriginError| match error {
            OriginError::UserInfo => HttpSetupError::Url(
                "there is a user name or password in it; send it as an Authorization header".into(),
            ),
            error => HttpSetupError::Url(error.to_string()),
        };
        let origin = Origin::of(&self.url).map_err(refused)?;
        let mut url = Url::parse(&self.url).map_err(|error| HttpSetupError::Url(error.to_string()))?;
        url.set_fragment(None);
        // Two readers of one URL must agree on where it leads.
        if Origin::of(url.as_str()).as_ref() != Ok(&origin) {
            return Err(HttpSetupError::Url("it could be read in two ways".into()));
        }
        Ok(Checked { url, headers: headers(&self.headers)?, tls: tls::config(&self.extra_ca)? })
    }

    /// The certificates that are trusted beside those of the system, PEM.
    #[cfg(feature = "oauth")]
    pub(crate) fn authorities(&self) -> &[Vec<u8>] {
        &self.extra_ca
    }

    /// Who says what stands in `Authorization`.
    pub(crate) fn credentialed(&self) -> Option<Arc<dyn ErasedCredentials>> {
        self.credentials.clone()
    }

    /// How long connecting may take.
    pub(crate) const fn connect_within(&self) -> Duration {
        self.connect_timeout
    }

    /// As it was given.
    #[cfg(feature = "oauth")]
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Whether nothing but HTTP+SSE is to be tried.
    pub(crate) const fn is_http_sse(&self) -> bool {
        self.legacy_sse
    }
}

/// What a link over HTTP is made from.
pub(crate) struct Checked {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) tls: rustls::ClientConfig,
}

impl fmt::Debug for HttpConnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpConnect")
            .field("headers", &names)
            .field("legacy_sse", &self.legacy_sse)
            .field("get_stream", &self.get_stream)
            .finish_non_exhaustive()
    }
}

fn headers(given: &[(String, String)]) -> Result<HeaderMap, HttpSetupError> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let refused = |problem| HttpSetupError::Header { name: name.clone(), problem };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused("it is no header name"))?;
        let protocol =
            [name::SESSION_ID, name::PROTOCOL_VERSION, name::METHOD, name::NAME, name::LAST_EVENT_ID];
        if OURS.contains(&key)
            || protocol.contains(&key.as_str())
            || key.as_str().starts_with(name::PARAM_PREFIX)
        {
            return Err(refused("the transport sends it itself"));
        }
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| refused("its value has a character that no header may have"))?;
        value.set_sensitive(true);
        headers.append(key, value);
    }
    Ok(headers)
}
