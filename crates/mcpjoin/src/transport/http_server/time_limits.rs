//! The time limits of a connection, enforced from outside of hyper.
//!
//! Each limit applies to one state. While the head of a request is received: `HttpOptions::header_time`. While no request is
//! in progress: [`IDLE_TIMEOUT`]. While the client does not take bytes that are sent: `HttpOptions::stall_time`. An idle connection
//! is shut down gracefully: over HTTP/2 with GOAWAY
//! (<https://www.rfc-editor.org/rfc/rfc9113#section-6.8>), and a request that crosses it still gets its response.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::framing::Framing;
use super::long_lived::Handover;
use crate::warning_rate::WarningRate;

/// How long a connection may stay open without a request in progress.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// How long a client may take no byte of a pending response, unless the options set another limit.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client has to close a connection that was shut down for being idle. A client that reads does so at once.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The first bytes that a client of HTTP/2 sends.
const HTTP2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The first bytes of a connection, which tell the version of HTTP.
pub(super) struct Opening {
    pub(super) is_http2: bool,
    /// The bytes that were read to find out.
    bytes: Bytes,
}

impl Opening {
    /// Reads until the version is known; `None` when the client closes the connection before that.
    pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Self> {
        let mut bytes = Vec::with_capacity(HTTP2_PREFACE.len());
        while HTTP2_PREFACE.starts_with(&bytes) && bytes.len() < HTTP2_PREFACE.len() {
            let left = (HTTP2_PREFACE.len() - bytes.len()) as u64;
            let read = (&mut *stream).take(left).read_buf(&mut bytes).await;
            read.ok().filter(|length| *length > 0)?;
        }
        Some(Self { is_http2: bytes == HTTP2_PREFACE, bytes: bytes.into() })
    }
}

/// The activity of a connection. Times are milliseconds since it began plus one, so that 0 means never.
pub(super) struct Activity {
    began: Instant,
    /// Requests whose responses are not sent completely.
    requests: AtomicUsize,
    /// Requests that have begun.
    begun: AtomicU64,
    /// How many requests may begin: where the framing of HTTP/1.1 is ambiguous, no later request is served.
    most: AtomicU64,
    /// When the last request in progress ended.
    idle_since: AtomicU64,
    /// When the head of a request began to arrive.
    head_since: AtomicU64,
    /// When the client stopped taking bytes.
    stalled_since: AtomicU64,
    /// When the connection was shut down for being idle.
    ended_since: AtomicU64,
    pub(super) handover: Handover,
}

/// What the limits allow a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// To stay as it is for this long.
    For(Duration),
    /// To be shut down gracefully, because it is idle.
    Idle,
    /// Nothing: a limit is exceeded.
    Nothing,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            requests: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            most: AtomicU64::new(u64::MAX),
            idle_since: AtomicU64::new(1),
            // A client that connects is expected to send a request.
            head_since: AtomicU64::new(1),
            stalled_since: AtomicU64::new(0),
            ended_since: AtomicU64::new(0),
            handover: Handover::default(),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Whether the client takes no byte of what is sent.
    fn is_stalled(&self) -> bool {
        self.stalled_since.load(Ordering::Relaxed) != 0
    }

    fn mark(&self, since: &AtomicU64) {
        if since.load(Ordering::Relaxed) == 0 {
            since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// The remaining time of a limit that began at `since`; all of it where it does not apply.
    fn left_of(&self, since: &AtomicU64, most: Duration) -> Duration {
        match since.load(Ordering::Relaxed) {
            0 => most,
            since => most.saturating_sub(Duration::from_millis(self.now().saturating_sub(since))),
        }
    }

    fn left(&self, header_time: Duration, stall_time: Duration) -> Left {
        let is_set = |since: &AtomicU64| since.load(Ordering::Relaxed) != 0;
        let (left, over) = if is_set(&self.stalled_since) || self.requests.load(Ordering::Relaxed) > 0 {
            (self.left_of(&self.stalled_since, stall_time), Left::Nothing)
        } else if is_set(&self.head_since) {
            (self.left_of(&self.head_since, header_time), Left::Nothing)
        } else if is_set(&self.ended_since) {
            (self.left_of(&self.ended_since, CLOSE_TIMEOUT), Left::Nothing)
        } else {
            (self.left_of(&self.idle_since, IDLE_TIMEOUT), Left::Idle)
        };
        if left.is_zero() { over } else { Left::For(left) }
    }
}

/// A request whose response is in progress.
pub(super) struct ActiveRequest {
    connection: Arc<Activity>,
    /// Its number on the connection.
    number: u64,
}

impl ActiveRequest {
    /// A request has begun. Over HTTP/2, whose heads are not visible here, a complete request proves that the client has sent
    /// its head; over HTTP/1.1 [`Framing`] sees heads.
    pub(super) fn new(connection: &Arc<Activity>, is_http2: bool) -> Self {
        connection.requests.fetch_add(1, Ordering::Relaxed);
        if is_http2 {
            connection.head_since.store(0, Ordering::Relaxed);
        }
        let number = connection.begun.fetch_add(1, Ordering::Relaxed);
        Self { connection: connection.clone(), number }
    }

    pub(super) const fn connection(&self) -> &Arc<Activity> {
        &self.connection
    }

    /// Whether its length is ambiguous, or that of a request before it.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.number >= self.connection.most.load(Ordering::Relaxed)
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let Activity { requests, idle_since, head_since, ended_since, .. } = &*self.connection;
        let now = self.connection.now();
        idle_since.store(now, Ordering::Relaxed);
        // What arrived meanwhile could not be served before.
        for since in [head_since, ended_since] {
            if since.load(Ordering::Relaxed) != 0 {
                since.store(now, Ordering::Relaxed);
            }
        }
        requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Enforces the limits of a connection while it runs.
pub(super) struct TimeLimits {
    pub(super) connection: Arc<Activity>,
    pub(super) header_time: Duration,
    pub(super) stall_time: Duration,
    pub(super) peer: SocketAddr,
    pub(super) ending: watch::Receiver<bool>,
    /// The warnings about clients that do not read.
    pub(super) stalls: Arc<WarningRate<()>>,
}

impl TimeLimits {
    /// Runs a connection to its end. `end` tells it to finish what is in progress and to begin nothing new.
    pub(super) async fn run<C, E>(self, mut served: C, end: impl Fn(&mut C))
    where
        C: Future<Output = Result<(), E>> + Unpin,
        E: fmt::Display,
    {
        let Self { connection, header_time, stall_time, peer, mut ending, stalls } = self;
        let mut leaving = *ending.borrow();
        if leaving {
            end(&mut served);
        }
        let told = ending.clone();
        let mut ended = pin!(ending.changed());
        // A limit may begin to apply right after a check, so the next check is never later than the shortest limit.
        let shortest =
            [header_time, IDLE_TIMEOUT, stall_time, CLOSE_TIMEOUT].into_iter().min().unwrap_or(CLOSE_TIMEOUT);
        let mut check = pin!(sleep(shortest));
        let mut wakes = Waker::noop().clone();
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(over) = Pin::new(&mut served).poll(cx) {
                    if let Err(error) = over {
                        tracing::debug!(target: "mcpjoin", %peer, %error, "an HTTP connection has failed");
                    }
                    return Poll::Ready(());
                }
                // Both futures have this waker already. They are polled again only when they were woken: polling them with each
                // request would take more time than the session needs for the request.
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
                    let next = match connection.left(header_time, stall_time) {
                        Left::For(left) => left.min(shortest).max(Duration::from_millis(1)),
                        Left::Idle => {
                            connection.mark(&connection.ended_since);
                            end(&mut served);
                            CLOSE_TIMEOUT
                        }
                        Left::Nothing => {
                            tracing::debug!(target: "mcpjoin", %peer, "an HTTP connection took too long");
                            if connection.is_stalled()
                                && let Some(left_out) = stalls.due(())
                            {
                                tracing::warn!(target: "mcpjoin", client = %peer, limit = ?stall_time, left_out, "a client was disconnected: it has not read its response");
                            }
                            return Poll::Ready(());
                        }
                    };
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

/// An I/O stream whose activity is recorded.
pub(super) struct ActivityIo<T> {
    stream: T,
    /// Bytes that were read already.
    ahead: Bytes,
    /// HTTP/1.1 only.
    framing: Option<Framing>,
    connection: Arc<Activity>,
}

impl<T> ActivityIo<T> {
    pub(super) fn new(stream: T, opening: Opening, connection: Arc<Activity>) -> Self {
        let framing = (!opening.is_http2).then(Framing::new);
        Self { stream, ahead: opening.bytes, framing, connection }
    }

    /// Records received bytes.
    fn note_read(&mut self, bytes: &[u8]) {
        let Some(framing) = &mut self.framing else { return };
        framing.read(bytes);
        let Activity { most, head_since, .. } = &*self.connection;
        if let Some(limit) = framing.limit() {
            most.store(limit, Ordering::Relaxed);
        } else if framing.is_in_head() {
            self.connection.mark(head_since);
        } else if framing.heads() > 0 && head_since.load(Ordering::Relaxed) != 0 {
            head_since.store(0, Ordering::Relaxed);
        }
    }

    fn note_written<P>(&self, poll: Poll<P>) -> Poll<P> {
        let Activity { stalled_since, idle_since, ended_since, .. } = &*self.connection;
        if poll.is_pending() {
            self.connection.mark(stalled_since);
            return poll;
        }
        // hyper drops a response long before its last byte is taken: until then the connection is not idle.
        let taken_late = self.connection.is_stalled();
        for (since, renewed) in
            [(idle_since, taken_late), (ended_since, ended_since.load(Ordering::Relaxed) != 0)]
        {
            if renewed {
                since.store(self.connection.now(), Ordering::Relaxed);
            }
        }
        if taken_late {
            stalled_since.store(0, Ordering::Relaxed);
        }
        poll
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ActivityIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if self.ahead.is_empty() {
            ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        } else {
            let length = self.ahead.len().min(buf.remaining());
            buf.put_slice(&self.ahead[..length]);
            self.ahead.advance(length);
        }
        self.note_read(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ActivityIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note_written(written)
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
        self.note_written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
