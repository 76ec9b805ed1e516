//! A server for those who have none: listens on a TCP port and speaks HTTP/1.1 and HTTP/2 there.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http>. A connection is
//! watched from outside: one on which the head of a request takes too long, that nobody uses, or that takes nothing
//! of what it is owed, is closed.

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcpjoin_proto::http::origin::Origin as WebOrigin;
use mcpjoin_proto::session::Origin;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::head::HEADER_BYTES;
use super::lasting::{self, Asked, Handover, Sending};
use super::rest::{Coming, Rest};
use super::{HttpOptions, HttpService, answer};

/// How long a connection may stay open on which no request is under way.
const IDLE: Duration = Duration::from_secs(90);

/// How long a client may take not a byte of what is owed to it.
const STALL: Duration = Duration::from_secs(30);

/// How long connections may take at the end to say their last words.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long to wait when nobody can be accepted: for open files, for memory.
const PAUSE: Duration = Duration::from_millis(100);

/// Where HTTP clients come in. Dropping it ends that.
#[derive(Debug)]
pub struct HttpListener {
    socket: TcpListener,
    address: SocketAddr,
    host: Box<str>,
    path: Option<Box<str>>,
}

/// Why nobody can listen there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpListenError {
    /// It is not `http://host:port/path`.
    #[error("{url} is not an address to listen on: {problem}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The system refused.
    #[error("cannot listen on {url}: {error}")]
    System {
        /// What was given.
        url: String,
        /// What the system said.
        #[source]
        error: io::Error,
    },
}

impl HttpListener {
    /// Listens at a URL: `http://host:port/path`. Port 0 is any that is free; without a path it is that of the
    /// options. Of a name with several addresses the first that can be listened on is taken.
    ///
    /// Nothing is encrypted. Whoever can reach the port can connect: `127.0.0.1` and `[::1]` are reached from this
    /// machine alone.
    ///
    /// # Errors
    /// When it is no such URL, and what the system says.
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
        // The port 0 is none that a client could name.
        let (host, port) = authority.rsplit_once(':').ok_or_else(|| bad("the port is missing"))?;
        let port: u16 = port.parse().map_err(|_| bad("the port is not a number up to 65535"))?;
        WebOrigin::of(&format!("http://{host}")).map_err(|error| bad(&error.to_string()))?;
        let plain = host.trim_start_matches('[').trim_end_matches(']');
        let system = |error| HttpListenError::System { url: url.to_owned(), error };
        let socket = TcpListener::bind((plain, port)).await.map_err(system)?;
        let address = socket.local_addr().map_err(system)?;
        let path = Some(path).filter(|path| !matches!(*path, "" | "/")).map(Into::into);
        Ok(Self { socket, address, host: host.into(), path })
    }

    /// The port it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL by which a client reaches it, with the port that was free where any was asked for.
    #[must_use]
    pub fn url(&self) -> String {
        let path = self.path.as_deref().unwrap_or("/mcp");
        format!("http://{}:{}{path}", self.host, self.address.port())
    }

    /// The options with what this address adds to them: its path, and the host that it names.
    #[must_use]
    pub fn options(&self, mut options: HttpOptions) -> HttpOptions {
        if let Some(path) = &self.path {
            options.path = Some(path.clone());
        }
        if !self.address.ip().is_unspecified() {
            // Checked when it was bound.
            let _ = options.guard.allow_host(&self.host);
        }
        options
    }

    /// The socket alone, for whoever answers in another way.
    pub(crate) fn into_socket(self) -> TcpListener {
        self.socket
    }

    /// Serves everyone who comes, until `end` is ready; then what is in progress is finished.
    pub(crate) async fn serve(self, service: HttpService, end: impl Future<Output = ()>) {
        let Self { socket, .. } = self;
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
                            tasks.spawn(connection(stream, peer, service.clone(), ending.clone()));
                        }
                        Err(error) => {
                            tracing::debug!(target: "mcpjoin", %error, "nobody could be accepted");
                            tokio::select! {
                                () = &mut end => break,
                                () = sleep(PAUSE) => {}
                            }
                        }
                    },
                }
            }
        }
        drop(socket);
        service.drain().await;
        // Whoever has sent a request that no answer has left for gets it; then connections are closed.
        let _ = over.send(true);
        let farewell = async { while tasks.join_next().await.is_some() {} };
        let _ = timeout(FAREWELL, farewell).await;
    }
}

/// What is known about a connection from outside. Times are milliseconds since it began, one more, so that 0 is
/// never.
pub(super) struct Use {
    began: Instant,
    /// Requests whose responses are not sent.
    requests: AtomicUsize,
    /// Since when there has been none.
    idle_since: AtomicU64,
    /// Since when the head of a request comes.
    head_since: AtomicU64,
    /// Since when the client has taken nothing.
    stalled_since: AtomicU64,
    pub(super) handover: Handover,
}

impl Use {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            requests: AtomicUsize::new(0),
            idle_since: AtomicU64::new(1),
            // Who has come has something to say.
            head_since: AtomicU64::new(1),
            stalled_since: AtomicU64::new(0),
            handover: Handover::default(),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    fn mark(&self, since: &AtomicU64) {
        if since.load(Ordering::Relaxed) == 0 {
            since.store(self.now(), Ordering::Relaxed);
        }
    }

    fn since(&self, since: &AtomicU64) -> Option<Duration> {
        let since = since.load(Ordering::Relaxed);
        (since != 0).then(|| Duration::from_millis(self.now().saturating_sub(since)))
    }

    /// How long the connection may still go on as it is; zero: not at all.
    fn left(&self, header_time: Duration) -> Duration {
        let left = |since: &AtomicU64, most: Duration| {
            self.since(since).map_or(most, |passed| most.saturating_sub(passed))
        };
        let stall = left(&self.stalled_since, STALL);
        if self.requests.load(Ordering::Relaxed) > 0 {
            return stall;
        }
        stall.min(left(&self.head_since, header_time)).min(left(&self.idle_since, IDLE))
    }
}

/// A request that is being answered.
pub(super) struct Answering(Arc<Use>);

impl Answering {
    fn new(connection: &Arc<Use>) -> Self {
        connection.requests.fetch_add(1, Ordering::Relaxed);
        connection.head_since.store(0, Ordering::Relaxed);
        Self(connection.clone())
    }

    pub(super) const fn connection(&self) -> &Arc<Use> {
        &self.0
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.now(), Ordering::Relaxed);
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    service: HttpService,
    ending: watch::Receiver<bool>,
) {
    // Without it a small reply may wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let header_time = service.0.options.header_time;
    let Ok(Some(is_http2)) = timeout(header_time, speaks_http2(&stream)).await else { return };
    let watch = Watch { connection: Use::new(), header_time, peer, ending };
    let origin = Arc::new(Origin { peer: Some(peer.to_string().into()), ..Origin::new("http") });
    let watched = watch.connection.clone();
    let answers = hyper::service::service_fn(move |request: Request<Incoming>| {
        let (answering, asked) = (Answering::new(&watched), Asked::new(&request));
        let rest = Rest::of(&request, service.0.limits.message, service.0.options.admission.is_some());
        let request = request.map(|body| Coming::new(body, rest.clone()));
        // On the heap: on its way to where it is polled, it would be copied several times.
        let answered = Box::pin(answer(service.0.clone(), request, origin.clone()));
        async move {
            let response = answered.await;
            if let Some(rest) = rest
                && rest.is_left_with(response.status())
            {
                rest.drop_it().await;
            }
            Ok::<_, Infallible>(Sending::response(response, asked, answering))
        }
    });
    let io = TokioIo::new(Watched { stream, connection: watch.connection.clone() });
    // Larger heads are refused by the service, as far as they get there.
    if is_http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.max_concurrent_streams(256).max_header_list_size(2 * HEADER_BYTES as u32);
        let served = Box::pin(builder.serve_connection(io, answers));
        watch.run(served, |served| served.as_mut().graceful_shutdown()).await;
    } else {
        let mut builder = http1::Builder::new();
        // No more headers than hyper takes by itself, 100: for more it would need room on the heap for each request.
        builder.max_buf_size(2 * HEADER_BYTES).header_read_timeout(None);
        let served = builder.serve_connection(io, answers);
        let connection = watch.connection.clone();
        watch.run(lasting::Connection::new(served, connection), lasting::Connection::end).await;
    }
}

/// What a client of HTTP/2 says first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Whether the client speaks HTTP/2; `None` when it says nothing. What it says stays to be read.
async fn speaks_http2(stream: &TcpStream) -> Option<bool> {
    let mut start = [0; PREFACE.len()];
    loop {
        let length = stream.peek(&mut start).await.ok().filter(|length| *length > 0)?;
        if start[..length] != PREFACE[..length] {
            return Some(false);
        }
        if length == PREFACE.len() {
            return Some(true);
        }
        // It has come in pieces. What was seen and not read is ready at once, however often it is asked for.
        sleep(Duration::from_millis(5)).await;
    }
}

/// Watches a connection as long as it lasts.
struct Watch {
    connection: Arc<Use>,
    header_time: Duration,
    peer: SocketAddr,
    ending: watch::Receiver<bool>,
}

impl Watch {
    async fn run<C, E>(self, mut served: C, end: impl Fn(&mut C))
    where
        C: Future<Output = Result<(), E>> + Unpin,
        E: fmt::Display,
    {
        let Self { connection, header_time, peer, mut ending } = self;
        let mut leaving = *ending.borrow();
        if leaving {
            end(&mut served);
        }
        let told = ending.clone();
        let mut ended = pin!(ending.changed());
        let mut check = pin!(sleep(header_time));
        let mut wakes = Waker::noop().clone();
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(over) = Pin::new(&mut served).poll(cx) {
                    if let Err(error) = over {
                        tracing::debug!(target: "mcpjoin", %peer, %error, "an HTTP connection has failed");
                    }
                    return Poll::Ready(());
                }
                // Both know whom to wake. They are polled again only when there is something to hear: to be asked with each
                // request, they would take more time than its way through the session.
                let known = wakes.will_wake(cx.waker());
                let leave = !leaving && (!known || told.has_changed().unwrap_or(true));
                if leave && let Poll::Ready(changed) = ended.as_mut().poll(cx) {
                    leaving = true;
                    if changed.is_ok() {
                        end(&mut served);
                        continue;
                    }
                }
                if (!known || check.is_elapsed()) && check.as_mut().poll(cx).is_ready() {
                    let left = connection.left(header_time);
                    if left.is_zero() {
                        tracing::debug!(target: "mcpjoin", %peer, "an HTTP connection took too long");
                        return Poll::Ready(());
                    }
                    let next = left.min(header_time).max(Duration::from_millis(1));
                    check.as_mut().reset(Instant::now() + next);
                    wakes = Waker::noop().clone();
                    continue;
                }
                if !known {
                    wakes.clone_from(cx.waker());
                }
                return Poll::Pending;
            }
        })
        .await;
    }
}

/// A connection whose use is watched.
pub(super) struct Watched {
    stream: TcpStream,
    connection: Arc<Use>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if buf.filled().len() > before && self.connection.requests.load(Ordering::Relaxed) == 0 {
            self.connection.mark(&self.connection.head_since);
        }
        Poll::Ready(Ok(()))
    }
}

impl Watched {
    fn note<T>(&self, poll: Poll<T>) -> Poll<T> {
        let since = &self.connection.stalled_since;
        match &poll {
            Poll::Pending => self.connection.mark(since),
            Poll::Ready(_) if since.load(Ordering::Relaxed) != 0 => since.store(0, Ordering::Relaxed),
            Poll::Ready(_) => {}
        }
        poll
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.handover.flushed();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl fmt::Display for HttpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url())
    }
}
