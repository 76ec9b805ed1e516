//! TCP and Unix sockets: the lines of the stdio transport, unchanged, as a
//! [custom transport](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-transports).
//!
//! Made by [`Link::tcp`] and [`Link::unix`] for clients (`connect`), by [`Listener`] for servers (`listen`). Nothing here
//! encrypts or authenticates: the file of a Unix socket admits its owner alone, and a TCP port admits every program that can
//! reach it.

mod connect;
#[cfg(unix)]
mod file;
mod listen;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::session::{
    Inbound, Limits, Origin, Outbound, TransportCaps, TransportEnd, TransportError,
};
use mcpjoin_proto::text::escape_excerpt;
use tokio::io::AsyncWrite;
use tokio::net::{TcpStream, tcp};
#[cfg(unix)]
use tokio::net::{UnixStream, unix};
use tokio::time::{Sleep, sleep};

pub use connect::SocketConnect;
#[cfg(unix)]
pub use connect::SocketPlace;
pub use connect::{host_and_port, in_turn, tcp_stream};

use super::inspect::Inspector;
use super::stream::{Source, Stream};
use super::{Link, Transport, cannot_reopen};
use crate::warning_rate::WarningRate;

/// How long the peer may take to close its side after we have closed ours. A socket that is closed while it has unread input
/// is reset, and a reset can destroy our last message before the peer has read it.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes of the first line of a client that does not speak MCP that a warning shows: enough for the request line of HTTP.
const MAX_SHOWN_BYTES: usize = 64;

/// A connection could not be made, or an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("{target}: {kind}")]
#[non_exhaustive]
pub struct SocketError {
    /// The address: `tcp://host:port` or `unix:/path`.
    pub target: String,
    /// The reason.
    #[source]
    pub kind: SocketErrorKind,
}

impl SocketError {
    /// An error about this address, for transports that are made elsewhere.
    #[doc(hidden)]
    #[must_use]
    pub fn new(target: impl Into<String>, kind: SocketErrorKind) -> Self {
        Self { target: target.into(), kind }
    }
}

/// The reasons of a [`SocketError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketErrorKind {
    /// The text has not the form `host:port`.
    #[error("not an address of the form host:port: {0}")]
    Address(&'static str),
    /// The name has no address.
    #[error("the name cannot be resolved: {0}")]
    Resolve(#[source] io::Error),
    /// Every address was tried, and each has failed.
    #[error("no connection ({})", Attempts(.0))]
    Unreached(Vec<Attempt>),
    /// No connection was made in time.
    #[error("no connection within {} ms ({})", .after.as_millis(), Attempts(.attempts))]
    TimedOut {
        /// The timeout.
        after: Duration,
        /// The attempts; empty when the name was not resolved in time.
        attempts: Vec<Attempt>,
    },
    /// A server listens on that Unix socket, and its queue of clients was full for the whole timeout.
    #[error("a server listens there, but has accepted no connection for {} ms", .after.as_millis())]
    NotAccepted {
        /// The timeout.
        after: Duration,
    },
    /// A server listens on that Unix socket: its file is not replaced.
    #[error("another server listens there")]
    InUse,
    /// The file is no socket: it is not replaced.
    #[error("the path is not a socket")]
    NotASocket,
    /// The system refused.
    #[error("{0}")]
    System(#[source] io::Error),
}

/// One address that was tried.
#[derive(Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The address.
    pub address: SocketAddr,
    /// Its error; `None` when it was pending at the timeout.
    pub error: Option<io::Error>,
}

struct Attempts<'a>(&'a [Attempt]);

impl fmt::Display for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the name cannot be resolved");
        }
        for (place, attempt) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            match &attempt.error {
                Some(error) => write!(f, "{comma}{}: {error}", attempt.address)?,
                None => write!(f, "{comma}{}: no answer", attempt.address)?,
            }
        }
        Ok(())
    }
}

/// Sets the options of a TCP connection. Errors are ignored: a connection that was reset reports that when it is used.
fn tune(stream: &TcpStream) {
    // Messages are written as a whole, so waiting for more data gains nothing.
    let _ = stream.set_nodelay(true);
    // A peer whose machine or network has failed sends nothing more, not even a reset: the system probes it after a minute of
    // silence, and closes the connection half a minute later.
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple", target_os = "freebsd"))]
    {
        use rustix::net::sockopt;
        let _ = sockopt::set_socket_keepalive(stream, true);
        let _ = sockopt::set_tcp_keepidle(stream, Duration::from_secs(60));
        let _ = sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10));
        let _ = sockopt::set_tcp_keepcnt(stream, 3);
    }
}

/// A connected socket.
trait Socket: Sized + Send + 'static {
    type Reader: Source + 'static;
    type Writer: AsyncWrite + Unpin + Send + 'static;
    /// What is needed to connect again.
    type Target: Clone + Send + 'static;

    fn connect(target: Self::Target) -> impl Future<Output = Result<Self, SocketError>> + Send;

    fn halves(self) -> (Self::Reader, Self::Writer);

    /// Makes closing signal a truncated message, where the socket can.
    fn cut_off(reader: &Self::Reader);
}

impl Socket for TcpStream {
    type Reader = tcp::OwnedReadHalf;
    type Writer = tcp::OwnedWriteHalf;
    type Target = connect::TcpTarget;

    fn connect(target: Self::Target) -> impl Future<Output = Result<Self, SocketError>> + Send {
        target.connect()
    }

    fn halves(self) -> (Self::Reader, Self::Writer) {
        self.into_split()
    }

    fn cut_off(reader: &Self::Reader) {
        // Otherwise it is closed as if the message were complete.
        let _ = reader.as_ref().set_zero_linger();
    }
}

#[cfg(unix)]
impl Socket for UnixStream {
    type Reader = unix::OwnedReadHalf;
    type Writer = unix::OwnedWriteHalf;
    type Target = connect::UnixTarget;

    fn connect(target: Self::Target) -> impl Future<Output = Result<Self, SocketError>> + Send {
        target.connect()
    }

    fn halves(self) -> (Self::Reader, Self::Writer) {
        self.into_split()
    }

    fn cut_off(_reader: &Self::Reader) {}
}

/// The warnings about clients of one listener that do not speak MCP.
type Strangers = Arc<WarningRate<()>>;

/// The peer.
enum Far<S: Socket> {
    /// A server: we have connected, and can connect again.
    Server { target: S::Target, opening: Option<Opening<S>> },
    /// A client that has connected, and whether it has sent JSON.
    Client { received: bool, strangers: Strangers },
}

type Opening<S> = Pin<Box<dyn Future<Output = Result<S, SocketError>> + Send>>;

/// The transport.
struct SocketLink<S: Socket> {
    stream: Stream<S::Reader, S::Writer>,
    far: Far<S>,
    /// Our side is closed, or is being closed, until then at the latest.
    closing: Option<Pin<Box<Sleep>>>,
    closed: Option<TransportEnd>,
    /// The peer does not get all bytes of a message.
    cut: bool,
}

impl<S: Socket> SocketLink<S> {
    fn link(socket: S, far: Far<S>, origin: Origin) -> Link {
        let (reader, writer) = socket.halves();
        let stream = Stream::new(reader, writer, origin);
        Link::new(Self { stream, far, closing: None, closed: None, cut: false })
    }

    /// Whether a client does not speak MCP. A web page can make a browser send a request with any body to any port of this
    /// machine. Its head comes first, so a client whose first line is no JSON is disconnected.
    fn is_stranger(&mut self, inbound: &Inbound) -> bool {
        let Far::Client { received, .. } = &mut self.far else { return false };
        match inbound {
            _ if *received => false,
            Inbound::Malformed { excerpt, .. } => {
                *received = matches!(excerpt.trim_ascii_start().first(), Some(b'{' | b'['));
                !*received
            }
            _ => {
                *received = true;
                false
            }
        }
    }
}

impl<S: Socket> Transport for SocketLink<S> {
    fn caps(&self) -> TransportCaps {
        let server = matches!(self.far, Far::Server { .. });
        TransportCaps { reopens: server, remote: server, ..TransportCaps::default() }
    }

    fn origin(&self) -> Option<Arc<Origin>> {
        self.stream.origin()
    }

    fn configure(&mut self, limits: &Limits) {
        self.stream.configure(limits);
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        let inbound = ready!(self.stream.poll_inbound(cx));
        if !self.is_stranger(&inbound) {
            return Poll::Ready(inbound);
        }
        self.cut = true;
        let excerpt = match &inbound {
            Inbound::Malformed { excerpt, .. } => excerpt.as_ref(),
            _ => &[],
        };
        let begin = escape_excerpt(&excerpt[..excerpt.len().min(MAX_SHOWN_BYTES)]);
        let message = format!("the peer does not speak MCP: its first line begins `{begin}`");
        if let Far::Client { strangers, .. } = &self.far
            && let Some(left_out) = strangers.due(())
        {
            let origin = self.stream.origin();
            let client = origin.as_ref().and_then(|origin| origin.peer.as_deref());
            tracing::warn!(target: "mcpjoin", client, left_out, "{message}");
        }
        Poll::Ready(Inbound::Closed { cause: TransportEnd::failed(TransportError::new(message, false)) })
    }

    fn has_room(&self) -> bool {
        self.stream.has_room()
    }

    fn push(&mut self, outbound: Outbound) {
        self.stream.push(outbound);
    }

    fn push_bytes(&mut self, bytes: &Bytes) -> bool {
        self.stream.push_bytes(bytes)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportEnd>> {
        self.stream.poll_flush(cx)
    }

    fn discard(&mut self) {
        self.cut = true;
        self.stream.discard();
    }

    fn sent(&self) -> u64 {
        self.stream.sent()
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<TransportEnd> {
        if let Far::Server { opening, .. } = &mut self.far {
            *opening = None;
        }
        let until = self.closing.get_or_insert_with(|| Box::pin(sleep(LINGER_TIMEOUT)));
        if !self.cut && until.as_mut().poll(cx).is_pending() {
            if self.closed.is_none() {
                self.closed = Some(ready!(self.stream.poll_close(cx)));
            }
            ready!(self.stream.poll_discard(cx));
        }
        Poll::Ready(self.closed.clone().unwrap_or_else(TransportEnd::end_of_stream))
    }

    fn poll_reopen(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportEnd>> {
        let Far::Server { target, opening } = &mut self.far else {
            return Poll::Ready(Err(cannot_reopen()));
        };
        let connecting = opening.get_or_insert_with(|| {
            drop(self.stream.take_writer());
            Box::pin(S::connect(target.clone()))
        });
        let outcome = ready!(connecting.as_mut().poll(cx));
        *opening = None;
        let socket = match outcome {
            Ok(socket) => socket,
            Err(error) => {
                let message = error.to_string();
                return Poll::Ready(Err(TransportEnd::failed(TransportError::new(message, true))));
            }
        };
        let (reader, writer) = socket.halves();
        self.stream.renew(reader, writer);
        (self.closing, self.closed, self.cut) = (None, None, false);
        Poll::Ready(Ok(()))
    }

    fn inspect(&mut self, inspector: Inspector) -> Result<(), Inspector> {
        self.stream.inspect(inspector)
    }
}

impl<S: Socket> Drop for SocketLink<S> {
    /// A message that was sent in part must not look like the end of the stream.
    fn drop(&mut self) {
        if self.cut || self.stream.holds_unsent() {
            S::cut_off(self.stream.reader());
        }
    }
}
