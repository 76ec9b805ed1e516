//! Watches a connection from outside of hyper, and ends it when one of its time limits is reached.
//!
//! Each limit applies to one state. A head that comes: `HttpOptions::header_time`. No request under way: [`IDLE`]. Bytes
//! that the client does not take: `HttpOptions::stall_time`. A connection that is idle for too long ends in order: over HTTP/2 with
//! GOAWAY (<https://www.rfc-editor.org/rfc/rfc9113#section-6.8>), and what crosses it is answered.

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
use super::lasting::Handover;

/// How long a connection may stay open on which no request is under way.
pub(super) const IDLE: Duration = Duration::from_secs(90);

/// How long a client may take not a byte of what is owed to it, unless the options say otherwise.
pub(super) const STALL: Duration = Duration::from_secs(30);

/// How long a client has to close a connection that was ended for being idle. One that reads does so at once.
const GOODBYE: Duration = Duration::from_secs(5);

/// What a client of HTTP/2 says first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The first bytes of a connection.
pub(super) struct Opening {
    pub(super) is_http2: bool,
    /// What was read to find that out.
    bytes: Bytes,
}

impl Opening {
    /// Reads until the client speaks HTTP/2 or does not; `None` when it leaves before that.
    pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Self> {
        let mut bytes = Vec::with_capacity(PREFACE.len());
        while PREFACE.starts_with(&bytes) && bytes.len() < PREFACE.len() {
            let left = (PREFACE.len() - bytes.len()) as u64;
            let read = (&mut *stream).take(left).read_buf(&mut bytes).await;
            read.ok().filter(|length| *length > 0)?;
        }
        Some(Self { is_http2: bytes == PREFACE, bytes: bytes.into() })
    }
}

/// What is known about a connection from outside. Times are milliseconds since it began, one more, so that 0 is
/// never.
pub(super) struct Use {
    began: Instant,
    /// Requests whose responses are not sent.
    requests: AtomicUsize,
    /// Requests that have begun.
    begun: AtomicU64,
    /// How many may begin: where the framing of HTTP/1.1 is ambiguous, no request behind it is answered.
    most: AtomicU64,
    /// Since when there has been none.
    idle_since: AtomicU64,
    /// Since when the head of a request comes.
    head_since: AtomicU64,
    /// Since when the client has taken nothing.
    stalled_since: AtomicU64,
    /// Since when it is ended for being idle.
    ended_since: AtomicU64,
    pub(super) handover: Handover,
}

/// What a connection may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Go on for so long as it is.
    For(Duration),
    /// End in order, since it is idle.
    Idle,
    /// Nothing.
    Nothing,
}

impl Use {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            requests: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            most: AtomicU64::new(u64::MAX),
            idle_since: AtomicU64::new(1),
            // Who has come has something to say.
            head_since: AtomicU64::new(1),
            stalled_since: AtomicU64::new(0),
            ended_since: AtomicU64::new(0),
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

    /// What is left of a limit that holds since then; all of it where it does not hold.
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
            (self.left_of(&self.ended_since, GOODBYE), Left::Nothing)
        } else {
            (self.left_of(&self.idle_since, IDLE), Left::Idle)
        };
        if left.is_zero() { over } else { Left::For(left) }
    }
}

/// A request that is being answered.
pub(super) struct Answering {
    connection: Arc<Use>,
    /// Which one it is on its connection.
    number: u64,
}

impl Answering {
    /// A request has begun. Over HTTP/2, whose heads nobody sees from outside, one that is complete shows that the client
    /// has said what it had to say; over HTTP/1.1 that is the [`Framing`]'s to tell.
    pub(super) fn new(connection: &Arc<Use>, is_http2: bool) -> Self {
        connection.requests.fetch_add(1, Ordering::Relaxed);
        if is_http2 {
            connection.head_since.store(0, Ordering::Relaxed);
        }
        let number = connection.begun.fetch_add(1, Ordering::Relaxed);
        Self { connection: connection.clone(), number }
    }

    pub(super) const fn connection(&self) -> &Arc<Use> {
        &self.connection
    }

    /// Whether its length is ambiguous, or it stands behind such a one.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.number >= self.connection.most.load(Ordering::Relaxed)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let Use { requests, idle_since, head_since, ended_since, .. } = &*self.connection;
        let now = self.connection.now();
        idle_since.store(now, Ordering::Relaxed);
        // What has come meanwhile could not be answered before.
        for since in [head_since, ended_since] {
            if since.load(Ordering::Relaxed) != 0 {
                since.store(now, Ordering::Relaxed);
            }
        }
        requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Watches a connection as long as it lasts.
pub(super) struct Watch {
    pub(super) connection: Arc<Use>,
    pub(super) header_time: Duration,
    pub(super) stall_time: Duration,
    pub(super) peer: SocketAddr,
    pub(super) ending: watch::Receiver<bool>,
}

impl Watch {
    /// Runs a connection to its end. `end` tells it to finish what is under way and to begin nothing.
    pub(super) async fn run<C, E>(self, mut served: C, end: impl Fn(&mut C))
    where
        C: Future<Output = Result<(), E>> + Unpin,
        E: fmt::Display,
    {
        let Self { connection, header_time, stall_time, peer, mut ending } = self;
        let mut leaving = *ending.borrow();
        if leaving {
            end(&mut served);
        }
        let told = ending.clone();
        let mut ended = pin!(ending.changed());
        // A limit may begin to hold right behind a look, so the next look is never later than the shortest of them.
        let shortest = [header_time, IDLE, stall_time, GOODBYE].into_iter().min().unwrap_or(GOODBYE);
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
                    let next = match connection.left(header_time, stall_time) {
                        Left::For(left) => left.min(shortest).max(Duration::from_millis(1)),
                        Left::Idle => {
                            connection.mark(&connection.ended_since);
                            end(&mut served);
                            GOODBYE
                        }
                        Left::Nothing => {
                            tracing::debug!(target: "mcpjoin", %peer, "an HTTP connection took too long");
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

/// A connection whose use is watched.
pub(super) struct Watched<T> {
    stream: T,
    /// What was read of it already.
    ahead: Bytes,
    /// HTTP/1.1 alone.
    framing: Option<Framing>,
    connection: Arc<Use>,
}

impl<T> Watched<T> {
    pub(super) fn new(stream: T, opening: Opening, connection: Arc<Use>) -> Self {
        let framing = (!opening.is_http2).then(Framing::new);
        Self { stream, ahead: opening.bytes, framing, connection }
    }

    /// Takes note of what has come.
    fn note_read(&mut self, bytes: &[u8]) {
        let Some(framing) = &mut self.framing else { return };
        framing.read(bytes);
        let Use { most, head_since, .. } = &*self.connection;
        if let Some(limit) = framing.limit() {
            most.store(limit, Ordering::Relaxed);
        } else if framing.is_in_head() {
            self.connection.mark(head_since);
        } else if framing.heads() > 0 && head_since.load(Ordering::Relaxed) != 0 {
            head_since.store(0, Ordering::Relaxed);
        }
    }

    fn note_written<P>(&self, poll: Poll<P>) -> Poll<P> {
        let Use { stalled_since, idle_since, ended_since, .. } = &*self.connection;
        if poll.is_pending() {
            self.connection.mark(stalled_since);
            return poll;
        }
        // hyper has given up a response long before the last of it is taken: as long as it is, nothing is idle.
        let taken_late = stalled_since.load(Ordering::Relaxed) != 0;
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

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
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

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
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
