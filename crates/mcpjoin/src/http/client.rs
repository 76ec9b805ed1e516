//! The client: a pool of connections, and one request at a time over one of them.
//!
//! A request is sent once. The one exception are refusals of HTTP/2 that say that the server has not seen the request
//! ([`is_not_processed`]); those are sent again, at most [`MAX_RESENDS`] times.

use std::convert::Infallible;
use std::error::Error as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, Entry, HeaderMap, HeaderValue};
use http::uri::Scheme;
use http::{Method, Request, StatusCode, Uri, Version};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::watch;
use tokio::time::Instant;
use url::Url;

use super::connector::{Connector, ResolveHook};
use super::error::Error;
use super::proxy::Proxies;

/// Idle connections kept for one origin: as many as the transport has requests in flight at most
/// (`MAX_REQUESTS_IN_FLIGHT`), so that a second burst of requests opens no connection.
const MAX_IDLE_CONNECTIONS: usize = 256;
/// How long an idle connection is kept: 4 s. Servers of Node and uvicorn close theirs after 5 s, and a request that is sent just then is
/// lost, and cannot be sent again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a connection of HTTP/2 with open streams may be silent before it is pinged.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(60);
/// How long the ping may stay without an answer.
const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(30);
/// How often one request is sent again after a refusal that says that the server has not processed it.
const MAX_RESENDS: u32 = 2;

/// How a [`Client`] connects, and what it adds to requests.
#[allow(missing_debug_implementations, reason = "only the crates of this repository see it")]
pub struct ClientOptions {
    /// The TLS configuration. Its ALPN protocols decide whether HTTP/2 is spoken.
    pub tls: rustls::ClientConfig,
    /// How long connecting may take in all: resolving, TCP, the proxy's tunnel and TLS.
    pub connect_timeout: Duration,
    /// The proxies to use; `None` connects to every server directly.
    pub proxies: Option<Proxies>,
    /// Resolves the names of servers in place of the system. The name of a proxy is always resolved by the system.
    pub resolve: Option<ResolveHook>,
    /// Sent with every request, and to a proxy with CONNECT.
    pub user_agent: Option<HeaderValue>,
    /// Whether the names of headers are written `Like-This` in HTTP/1.1. Off: in small letters.
    pub title_case_headers: bool,
}

impl ClientOptions {
    /// Direct connections, names resolved by the system, no `User-Agent`.
    pub const fn new(tls: rustls::ClientConfig, connect_timeout: Duration) -> Self {
        Self {
            tls,
            connect_timeout,
            proxies: None,
            resolve: None,
            user_agent: None,
            title_case_headers: false,
        }
    }
}

/// Sends requests. Cheap to clone; clones share their connections.
#[derive(Clone)]
#[allow(missing_debug_implementations, reason = "only the crates of this repository see it")]
pub struct Client {
    pool: legacy::Client<Connector, Body>,
    connector: Connector,
}

impl Client {
    /// Nothing is connected before the first request.
    pub fn new(options: ClientOptions) -> Self {
        let title_case_headers = options.title_case_headers;
        let connector = Connector::new(options);
        let pool = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .http1_title_case_headers(title_case_headers)
            .http2_keep_alive_interval(HTTP2_PING_INTERVAL)
            .http2_keep_alive_timeout(HTTP2_PING_TIMEOUT)
            .build(connector.clone());
        Self { pool, connector }
    }

    /// Sends a request and waits for the head of its response. Dropping the future ends the exchange.
    ///
    /// `Accept: */*` and the `User-Agent` of the options are added where `headers` has none.
    ///
    /// # Errors
    /// When no response came.
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: impl Into<Body>,
    ) -> Result<Response, Error> {
        let uri: Uri = url.as_str().parse().map_err(|_| Error::InvalidUrl)?;
        if let Entry::Vacant(accept) = headers.entry(header::ACCEPT) {
            accept.insert(HeaderValue::from_static("*/*"));
        }
        if let Some(agent) = self.connector.user_agent()
            && let Entry::Vacant(entry) = headers.entry(header::USER_AGENT)
        {
            entry.insert(agent.clone());
        }
        // Inside a tunnel the proxy reads nothing: there it gets its credentials with CONNECT.
        if uri.scheme() == Some(&Scheme::HTTP)
            && let Some(credentials) = self.connector.proxy_credentials(&uri)
            && let Entry::Vacant(entry) = headers.entry(header::PROXY_AUTHORIZATION)
        {
            entry.insert(credentials);
        }
        let mut body = body.into();
        let mut resends = 0;
        loop {
            // Without TLS there is no HTTP/2, and nothing is ever sent again.
            let may_resend = resends < MAX_RESENDS && uri.scheme() == Some(&Scheme::HTTPS);
            let copy = if may_resend { body.copy() } else { None };
            let copy = copy.map(|copy| (copy, headers.clone()));
            let mut request = Request::new(body);
            *request.method_mut() = method.clone();
            *request.uri_mut() = uri.clone();
            *request.headers_mut() = headers;
            match (self.pool.request(request).await, copy) {
                (Ok(response), _) => return Ok(response.into()),
                (Err(error), Some(copy)) if is_not_processed(&error) => {
                    (body, headers) = copy;
                    resends += 1;
                }
                (Err(error), _) => return Err(Error::Exchange(error)),
            }
        }
    }
}

/// Whether a server of HTTP/2 says that it has not processed a request: a stream refused
/// ([RFC 9113, 8.7](https://www.rfc-editor.org/rfc/rfc9113#section-8.7)), or a connection that is being shut down in order.
fn is_not_processed(error: &legacy::Error) -> bool {
    let below_hyper = error.source().and_then(|hyper| hyper.source());
    let Some(error) = below_hyper.and_then(|error| error.downcast_ref::<h2::Error>()) else { return false };
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    let shut_down = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
    error.is_remote() && (refused || shut_down)
}

/// When the body of a request was taken for sending; `None` before.
pub type Taken = watch::Sender<Option<Instant>>;

/// The body of a request.
#[allow(missing_debug_implementations, reason = "only the crates of this repository see it")]
pub enum Body {
    /// All of it is there. It reports when it is taken for sending.
    Whole(Full<Bytes>, Option<Taken>),
    /// It is made while it is sent.
    #[cfg_attr(not(unix), allow(dead_code, reason = "`validate` alone sends such bodies"))]
    Streamed(UnsyncBoxBody<Bytes, Infallible>),
}

impl Body {
    /// No body.
    #[cfg(unix)]
    pub fn empty() -> Self {
        Self::from(Bytes::new())
    }

    /// A body that is made while it is sent.
    #[cfg(unix)]
    pub fn streamed(body: impl http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static) -> Self {
        Self::Streamed(body.boxed_unsync())
    }

    fn copy(&self) -> Option<Self> {
        match self {
            Self::Whole(body, taken) => Some(Self::Whole(body.clone(), taken.clone())),
            Self::Streamed(_) => None,
        }
    }

    /// A body that reports when it is taken.
    pub(crate) fn reporting(body: Bytes, taken: Option<Taken>) -> Self {
        Self::Whole(Full::new(body), taken)
    }
}

impl From<Bytes> for Body {
    fn from(body: Bytes) -> Self {
        Self::Whole(Full::new(body), None)
    }
}

impl From<Option<Bytes>> for Body {
    fn from(body: Option<Bytes>) -> Self {
        body.unwrap_or_default().into()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body, taken) => {
                if let Some(taken) = taken.take() {
                    taken.send_replace(Some(Instant::now()));
                }
                Pin::new(body).poll_frame(cx)
            }
            Self::Streamed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body, _) => body.is_end_stream(),
            Self::Streamed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body, _) => body.size_hint(),
            Self::Streamed(body) => body.size_hint(),
        }
    }
}

/// The head of a response, and its body as it arrives.
#[allow(missing_debug_implementations, reason = "only the crates of this repository see it")]
pub struct Response {
    head: http::response::Parts,
    body: ResponseBody,
}

enum ResponseBody {
    Incoming(Incoming),
    /// A response that a test has made.
    #[cfg(test)]
    Whole(Full<Bytes>),
}

impl Response {
    /// The status code.
    pub const fn status(&self) -> StatusCode {
        self.head.status
    }

    /// The version of HTTP that the response came over.
    pub const fn version(&self) -> Version {
        self.head.version
    }

    /// The headers.
    pub const fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// How long the rest of the body is, in bytes, where the head says so.
    pub fn content_length(&self) -> Option<u64> {
        match &self.body {
            ResponseBody::Incoming(body) => body.size_hint().exact(),
            #[cfg(test)]
            ResponseBody::Whole(body) => body.size_hint().exact(),
        }
    }

    /// The head and the body.
    #[cfg(feature = "http-server")]
    pub fn into_http(
        self,
    ) -> http::Response<Pin<Box<dyn http_body::Body<Data = Bytes, Error = crate::BoxError> + Send>>> {
        type Boxed = Pin<Box<dyn http_body::Body<Data = Bytes, Error = crate::BoxError> + Send>>;
        let body: Boxed = match self.body {
            ResponseBody::Incoming(body) => Box::pin(body.map_err(Into::into)),
            #[cfg(test)]
            ResponseBody::Whole(body) => Box::pin(body.map_err(|never| match never {})),
        };
        http::Response::from_parts(self.head, body)
    }

    /// The next part of the body, as it came from the connection; `None` at its end. Cancel-safe.
    ///
    /// # Errors
    /// When the body broke off.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let frame = match &mut self.body {
                ResponseBody::Incoming(body) => body.frame().await.transpose().map_err(Error::Body)?,
                #[cfg(test)]
                ResponseBody::Whole(body) => body.frame().await.map(|frame| match frame {
                    Ok(frame) => frame,
                    Err(never) => match never {},
                }),
            };
            match frame.map(Frame::into_data) {
                Some(Ok(data)) => return Ok(Some(data)),
                // Trailers: nothing here reads them.
                Some(Err(_)) => {}
                None => return Ok(None),
            }
        }
    }
}

impl From<http::Response<Incoming>> for Response {
    fn from(response: http::Response<Incoming>) -> Self {
        let (head, body) = response.into_parts();
        Self { head, body: ResponseBody::Incoming(body) }
    }
}

#[cfg(test)]
impl From<http::Response<Bytes>> for Response {
    fn from(response: http::Response<Bytes>) -> Self {
        let (head, body) = response.into_parts();
        Self { head, body: ResponseBody::Whole(Full::new(body)) }
    }
}
