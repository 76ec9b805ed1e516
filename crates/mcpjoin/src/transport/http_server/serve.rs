//! An HTTP server for programs that have none: listens on a TCP port and speaks HTTP/1.1 and HTTP/2.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http>. Each connection is a task,
//! and `watch` enforces its time limits.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::hint::black_box;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use mcpjoin_proto::http::origin::Origin as WebOrigin;
use mcpjoin_proto::session::Origin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::body::RequestBody;
use super::head::{MAX_HEADER_BYTES, two_lengths};
use super::long_lived::{self, ResponseBody, ResponseFraming};
use super::options::DEFAULT_PATH;
use super::response_progress::Streams;
use super::time_limits::{ActiveRequest, Activity, ActivityIo, Opening, TimeLimits};
use super::unread_body::{IncomingBody, UnreadBody};
use super::{HttpOptions, HttpService, answer};

/// How long connections may take to finish at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait when accepting fails for lack of open files or memory.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The size of the block that [`keep_freed_memory`] frees, in bytes.
const FREED_BLOCK: usize = 1024 * 1024;

/// A stream over which HTTP is spoken.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The stream of an accepted connection, once its handshake is complete.
type Securing = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Performs the handshake of a connection.
type Secure = dyn Fn(TcpStream) -> Securing + Send + Sync;

/// Listens for HTTP clients. Dropping it closes the port.
pub struct HttpListener {
    socket: TcpListener,
    address: SocketAddr,
    host: Box<str>,
    path: Option<Box<str>>,
    secure: Option<Arc<Secure>>,
}

/// Why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpListenError {
    /// The text is not `http://host:port/path`.
    #[error("{url} is not an address to listen on: {problem}")]
    Url {
        /// The text.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The system refused.
    #[error("cannot listen on {url}: {error}")]
    System {
        /// The URL.
        url: String,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
}

impl HttpListener {
    /// Listens at a URL: `http://host:port/path`. Port 0 means any free port; without a path, the path of the options is used.
    /// Of a name with several addresses, the first that can be listened on is used.
    ///
    /// Nothing is encrypted without [`HttpListener::secured`]. Every program that can reach the port can connect: `127.0.0.1`
    /// and `[::1]` are reachable from this machine only.
    ///
    /// ```no_run
    /// use mcpjoin::transport::{HttpListener, HttpOptions};
    ///
    /// # async fn example(server: mcpjoin::Server) -> Result<(), Box<dyn std::error::Error>> {
    /// let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await?;
    /// println!("listening at {}", listener.url());
    /// server.serve_http(listener, HttpOptions::new(), std::future::pending::<()>()).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the text is no such URL, or the system refuses.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O enabled.
    pub async fn bind(url: impl AsRef<str>) -> Result<Self, HttpListenError> {
        let url = url.as_ref();
        let bad = |problem: &str| HttpListenError::Url { url: url.to_owned(), problem: problem.to_owned() };
        let rest = url.strip_prefix("http://").ok_or_else(|| bad("it does not begin with http://"))?;
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if path.contains(['?', '#']) || path.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(bad("a path has no query, no fragment and no spaces"));
        }
        // No client can connect to port 0.
        let (host, port) = authority.rsplit_once(':').ok_or_else(|| bad("the port is missing"))?;
        let port: u16 = port.parse().map_err(|_| bad("the port is not a number up to 65535"))?;
        WebOrigin::of(&format!("http://{host}")).map_err(|error| bad(&error.to_string()))?;
        let plain = host.trim_start_matches('[').trim_end_matches(']');
        let system = |error| HttpListenError::System { url: url.to_owned(), error };
        let socket = TcpListener::bind((plain, port)).await.map_err(system)?;
        let address = socket.local_addr().map_err(system)?;
        let path = Some(path).filter(|path| !matches!(*path, "" | "/")).map(Into::into);
        Ok(Self { socket, address, host: host.into(), path, secure: None })
    }

    /// Makes it a listener for `https://`: `handshake` performs the TLS handshake of an accepted connection. Any library
    /// for TLS will do; with ALPN it may agree on `http/1.1` or `h2`.
    ///
    /// A handshake has the time of [`HttpOptions::header_time`] and counts as a connection. A connection whose handshake
    /// fails is closed.
    #[must_use]
    pub fn secured<F, Fut, S>(mut self, handshake: F) -> Self
    where
        F: Fn(TcpStream) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        self.secure = Some(Arc::new(move |stream| {
            let shaking = handshake(stream);
            Box::pin(async move { shaking.await.map(|stream| Box::new(stream) as Box<dyn Stream>) })
        }));
        self
    }

    /// The port that it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL by which clients reach it, with the actual port where port 0 was asked for.
    #[must_use]
    pub fn url(&self) -> String {
        let path = self.path.as_deref().unwrap_or(DEFAULT_PATH);
        let scheme = if self.secure.is_some() { "https" } else { "http" };
        format!("{scheme}://{}:{}{path}", self.host, self.address.port())
    }

    /// The options with the path of this URL and with its host allowed.
    #[doc(hidden)]
    #[must_use]
    pub fn options(&self, mut options: HttpOptions) -> HttpOptions {
        // No router stands in front of it.
        options.at_root = false;
        if let Some(path) = &self.path {
            options.path = Some(path.clone());
        }
        if !self.address.ip().is_unspecified() {
            // `bind` has checked the host.
            let _ = options.origin_policy.allow_host(&self.host);
        }
        options
    }

    /// The socket alone, for servers that respond in another way.
    #[doc(hidden)]
    pub fn into_socket(self) -> TcpListener {
        self.socket
    }

    /// Serves clients until `end` is ready, and then finishes what is in progress.
    #[doc(hidden)]
    pub async fn serve(self, service: HttpService, end: impl Future<Output = ()>) {
        let Self { socket, secure, .. } = self;
        keep_freed_memory();
        let (over, ending) = watch::channel(false);
        let mut tasks = JoinSet::new();
        {
            let mut end = pin!(end);
            let most = service.0.options.connections;
            loop {
                tokio::select! {
                    biased;
                    () = &mut end => break,
                    Some(_) = tasks.join_next() => {}
                    accepted = socket.accept(), if tasks.len() < most => match accepted {
                        Ok((stream, peer)) => {
                            // Without it a small response may wait for the acknowledgement of the one before.
                            let _ = stream.set_nodelay(true);
                            spawn(&mut tasks, stream, secure.as_deref(), peer, service.clone(), ending.clone());
                        }
                        Err(error) => {
                            tracing::debug!(target: "mcpjoin", %error, "connections cannot be accepted");
                            tokio::select! {
                                () = &mut end => break,
                                () = sleep(ACCEPT_RETRY_DELAY) => {}
                            }
                        }
                    },
                }
            }
        }
        drop(socket);
        service.drain().await;
        // Pending requests get their responses; then connections are closed.
        let _ = over.send(true);
        let farewell = async { while tasks.join_next().await.is_some() {} };
        let _ = timeout(SHUTDOWN_TIMEOUT, farewell).await;
    }
}

/// Lets the C library keep the memory of a request for the next one.
///
/// glibc returns free memory at the end of the heap to the system from 128 KiB on, so that each request of 64 KiB would fetch it
/// again, with 16 page faults. Once a block that was mapped is freed, glibc keeps twice its size. A message of 128 KiB or more
/// has the same effect. Other allocators only see a block that is never written.
fn keep_freed_memory() {
    drop(black_box(Vec::<u8>::with_capacity(FREED_BLOCK)));
}

/// Serves an accepted connection in a task of its own.
///
/// Not generic, unlike its caller, so that the path of a request is compiled and optimized in this crate and not in the one that
/// uses it.
fn spawn(
    tasks: &mut JoinSet<()>,
    stream: TcpStream,
    secure: Option<&Secure>,
    peer: SocketAddr,
    service: HttpService,
    ending: watch::Receiver<bool>,
) {
    match secure {
        None => tasks.spawn(connection(stream, peer, service, ending)),
        Some(secure) => tasks.spawn(secured(secure(stream), peer, service, ending)),
    };
}

/// Serves one connection after its handshake.
async fn secured(securing: Securing, peer: SocketAddr, service: HttpService, ending: watch::Receiver<bool>) {
    match timeout(service.0.options.header_time, securing).await {
        Ok(Ok(stream)) => connection(stream, peer, service, ending).await,
        Ok(Err(error)) => tracing::debug!(target: "mcpjoin", %error, %peer, "a handshake failed"),
        Err(_) => tracing::debug!(target: "mcpjoin", %peer, "a handshake took too long"),
    }
}

/// Serves one connection to its end.
pub(super) async fn connection<T>(
    mut stream: T,
    peer: SocketAddr,
    service: HttpService,
    ending: watch::Receiver<bool>,
) where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let HttpOptions { header_time, stall_time, .. } = service.0.options;
    let stalls = service.0.stalls.clone();
    let streams = Streams { stall_time, peer, stalls: stalls.clone() };
    let watch = TimeLimits { connection: Activity::new(), header_time, stall_time, peer, ending, stalls };
    let Ok(Some(opening)) = timeout(header_time, Opening::read(&mut stream)).await else { return };
    let is_http2 = opening.is_http2;
    let origin = Arc::new(Origin { peer: Some(peer.to_string().into()), ..Origin::new("http") });
    let watched = watch.connection.clone();
    // Held for the whole connection, so that it is not looked up again for each request.
    let _account = service.0.memory.account(&origin);
    let answers = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (answering, asked) = (ActiveRequest::new(&watched, is_http2), ResponseFraming::new(&request));
        let rest = UnreadBody::of(&request, service.0.limits.message, service.0.options.admission.is_some());
        let request = request.map(|body| RequestBody::Incoming(IncomingBody::new(body, rest.clone())));
        // Boxed: otherwise it would be copied several times before it is polled.
        let answered =
            (!answering.is_ambiguous()).then(|| Box::pin(answer(service.0.clone(), request, origin.clone())));
        async move {
            let Some(answered) = answered else {
                return Ok(ResponseBody::response(two_lengths(), asked, answering));
            };
            let response = answered.await;
            if let Some(rest) = rest
                && rest.is_left_with(response.status())
            {
                rest.discard().await;
            }
            Ok::<_, Infallible>(ResponseBody::response(response, asked, answering))
        }
    });
    let io = TokioIo::new(ActivityIo::new(stream, opening, watch.connection.clone()));
    // The service refuses larger heads, as far as they reach it.
    if is_http2 {
        let mut builder = http2::Builder::new(streams);
        builder.max_concurrent_streams(256).max_header_list_size(2 * MAX_HEADER_BYTES as u32);
        let served = Box::pin(builder.serve_connection(io, answers));
        watch.run(served, |served| served.as_mut().graceful_shutdown()).await;
    } else {
        let mut builder = http1::Builder::new();
        // No more headers than hyper's default of 100: beyond it hyper allocates for each request.
        builder.max_buf_size(2 * MAX_HEADER_BYTES).header_read_timeout(None);
        let served = builder.serve_connection(io, answers);
        let connection = watch.connection.clone();
        watch.run(long_lived::Connection::new(served, connection), long_lived::Connection::end).await;
    }
}

impl fmt::Debug for HttpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpListener").field(&self.url()).finish()
    }
}

impl fmt::Display for HttpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url())
    }
}
