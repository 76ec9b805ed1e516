//! The builder of a client's transport over HTTP, and the handle that shows what was negotiated, and when its links have ended.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::{Origin, OriginError};
use tokio::sync::watch;
use url::Url;

use super::super::Link;
use super::HttpLink;
use super::credentials::{Credentials, ErasedCredentials};
#[cfg(unix)]
use super::requester::ExchangeLog;
use super::requester::Requester;
use crate::http::{Client, ClientOptions, HttpSetupError, Proxies, Proxy, tls_config};

/// How long connecting may take, unless the builder sets another time.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Headers that the transport itself sends.
const TRANSPORT_HEADERS: [HeaderName; 6] = [
    header::ACCEPT,
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::HOST,
];

/// Builds a link over HTTP; made by [`Link::http`]. All links of one builder and its clones share one [`HttpHandle`].
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
    log: Option<ExchangeLog>,
}

/// The two transports of the specification over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpWay {
    /// [Streamable HTTP](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http):
    /// one endpoint.
    Streamable,
    /// [HTTP+SSE](https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse) of
    /// 2024-11-05: one stream, and an endpoint for messages of the client.
    HttpSse,
}

/// Shows what a link over HTTP has negotiated, and whether it has ended. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct HttpHandle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    way: AtomicU8,
    /// Each link has a receiver.
    links: watch::Sender<()>,
}

/// What is to end before [`HttpHandle::ended`]: a link holds it.
#[derive(Debug)]
pub struct HttpOpen(#[expect(dead_code, reason = "the sender knows when it is dropped")] watch::Receiver<()>);

impl HttpOpen {
    /// What the links of this handle wait for.
    #[must_use]
    pub fn of(handle: &HttpHandle) -> Self {
        Self(handle.0.links.subscribe())
    }
}

impl HttpHandle {
    /// The transport in use; `None` before the server has accepted one. The next connection to the same server can use it
    /// without trying the other.
    #[must_use]
    pub fn way(&self) -> Option<HttpWay> {
        match self.0.way.load(Ordering::Acquire) {
            1 => Some(HttpWay::Streamable),
            2 => Some(HttpWay::HttpSse),
            _ => None,
        }
    }

    /// Waits until all links of the builder have ended, with the last messages and the DELETE of a session: also those of a
    /// client that was dropped, which ends in the background. At once if there are none. Cancel-safe.
    pub async fn ended(&self) {
        self.0.links.closed().await;
    }

    pub(super) fn took(&self, way: HttpWay) {
        let way = match way {
            HttpWay::Streamable => 1,
            HttpWay::HttpSse => 2,
        };
        self.0.way.store(way, Ordering::Release);
    }
}

impl Link {
    /// A link to a server over HTTP: 2026-07-28, the sessions of 2025-03-26 to 2025-11-25, and HTTP+SSE of 2024-11-05 where
    /// the server knows neither. The session finds out which of these the server speaks.
    ///
    /// Nothing is connected before the first message is sent. Each message has a request of its own. Proxies are those of
    /// the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`) and of the system; none is used to reach this
    /// machine. The trusted certificates are those of the system.
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
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            legacy_sse: false,
            get_stream: true,
            handle: HttpHandle::default(),
            #[cfg(unix)]
            log: None,
        }
    }
}

impl HttpConnect {
    /// Adds a header to every request. It is sent to the origin of the URL only. [`build`](Self::build) refuses a header that
    /// the transport sends itself.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets what fills the `Authorization` header, and decides what to do when the server refuses it.
    pub fn credentials(mut self, credentials: impl Credentials) -> Self {
        self.credentials = Some(Arc::new(credentials));
        self
    }

    /// Trusts more authorities beside those of the system: one PEM text with one or several certificates.
    pub fn extra_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.extra_ca.push(pem.into());
        self
    }

    /// How long connecting may take, resolving the name and TLS included: 10 s.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Speaks HTTP+SSE of 2024-11-05 without trying Streamable HTTP. The URL is that of the event stream.
    pub const fn legacy_sse(mut self) -> Self {
        self.legacy_sse = true;
        self
    }

    /// Whether a legacy session opens the stream for messages that belong to no request; yes by default. The session works
    /// also if the server has no such stream.
    #[doc(hidden)]
    pub const fn get_stream(mut self, open: bool) -> Self {
        self.get_stream = open;
        self
    }

    /// Calls `log` for every request of the links.
    #[cfg(unix)]
    #[doc(hidden)]
    pub fn log_exchanges(mut self, log: ExchangeLog) -> Self {
        self.log = Some(log);
        self
    }

    /// The handle of the links of this builder.
    #[must_use]
    pub fn handle(&self) -> HttpHandle {
        self.handle.clone()
    }

    /// Builds the link. Nothing is connected yet.
    ///
    /// ```no_run
    /// use mcpjoin::{Client, Link};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let link = Link::http("https://example.com/mcp").header("X-Api-Key", "secret").build()?;
    /// let client = Client::builder("example", "1.0.0").connect(link).await?;
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the URL, a header or a certificate cannot be used.
    pub fn build(self) -> Result<Link, HttpSetupError> {
        self.link().map(Link::new)
    }

    pub(super) fn link(self) -> Result<HttpLink, HttpSetupError> {
        let Checked { url, headers, tls } = self.checked()?;
        let proxy = Proxy::to(&url);
        let client = Client::new(ClientOptions {
            // All requests go to one origin: without a proxy to it, none is looked for again.
            proxies: proxy.is_some().then(Proxies::from_system),
            ..ClientOptions::new(tls, self.connect_timeout)
        });
        let requester =
            Requester::new(client, url, headers, self.credentials, self.connect_timeout, proxy.as_ref());
        #[cfg(unix)]
        let requester = requester.logged(self.log);
        Ok(HttpLink::new(requester, self.legacy_sse, self.get_stream, self.handle))
    }

    /// Checks URL, headers and certificates. Also used by `validate` and `doctor`, which make their own requests.
    #[doc(hidden)]
    pub fn checked(&self) -> Result<Checked, HttpSetupError> {
        let refused = |error: OriginError| match error {
            OriginError::UserInfo => HttpSetupError::Url(
                "it contains a user name or password; send it as an Authorization header".into(),
            ),
            error => HttpSetupError::Url(error.to_string()),
        };
        let origin = Origin::of(&self.url).map_err(refused)?;
        let mut url = Url::parse(&self.url).map_err(|error| HttpSetupError::Url(error.to_string()))?;
        url.set_fragment(None);
        // Both parsers of URLs must agree on the origin.
        if Origin::of(url.as_str()).as_ref() != Ok(&origin) {
            return Err(HttpSetupError::Url("it is ambiguous".into()));
        }
        Ok(Checked { url, headers: headers(&self.headers)?, tls: tls_config(&self.extra_ca)? })
    }

    /// The extra certificates, PEM.
    #[doc(hidden)]
    pub fn authorities(&self) -> &[Vec<u8>] {
        &self.extra_ca
    }

    /// What fills the `Authorization` header.
    #[doc(hidden)]
    pub fn credentialed(&self) -> Option<Arc<dyn ErasedCredentials>> {
        self.credentials.clone()
    }

    /// How long connecting may take.
    #[doc(hidden)]
    pub const fn connect_within(&self) -> Duration {
        self.connect_timeout
    }

    /// The URL as it was given.
    #[doc(hidden)]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether only HTTP+SSE is tried.
    #[doc(hidden)]
    pub const fn is_http_sse(&self) -> bool {
        self.legacy_sse
    }
}

/// URL, headers and TLS of a link, checked.
#[derive(Debug)]
pub struct Checked {
    /// The URL of the endpoint.
    pub url: Url,
    /// The headers of each request.
    pub headers: HeaderMap,
    /// The authorities that it trusts.
    pub tls: rustls::ClientConfig,
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
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
            refused(
                "it is not a valid header \
            name",
            )
        })?;
        let protocol =
            [name::SESSION_ID, name::PROTOCOL_VERSION, name::METHOD, name::NAME, name::LAST_EVENT_ID];
        if TRANSPORT_HEADERS.contains(&key)
            || protocol.contains(&key.as_str())
            || key.as_str().starts_with(name::PARAM_PREFIX)
        {
            return Err(refused("the transport sends it itself"));
        }
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| refused("its value contains a character that headers do not allow"))?;
        value.set_sensitive(true);
        headers.append(key, value);
    }
    Ok(headers)
}
