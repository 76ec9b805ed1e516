//! Listening on a socket: each client that comes is a link.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mcpjoin_proto::session::Origin;
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Sleep, sleep};

use super::super::Link;
#[cfg(feature = "quic")]
use super::super::quic::{QuicListener, guest};
use super::connect::host_and_port;
#[cfg(unix)]
use super::file::SocketFile;
use super::{Far, SocketError, SocketErrorKind, SocketLink, tune};

/// Connections at once: half of the 1,024 open files that a process usually may have.
const CONNECTIONS: usize = 512;
/// How long to wait when accepting fails for want of something (open files, memory); doubled each time in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest such wait.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Clients looked at in one go before others get their turn.
const TURN: usize = 16;

/// Where clients come in. Dropping it ends that; the links that it gave go on.
///
/// It keeps count of its links: beyond a bound ([`Listener::max_connections`]) a client is closed as soon as it has
/// come, until a link is dropped. What a peer says first has to be JSON, otherwise it is closed too: a web page can
/// make a browser send a request to any port of the machine that it runs on.
#[derive(Debug)]
pub struct Listener {
    socket: Accepting,
    address: ListenAddress,
    most: usize,
    counts: Arc<Counts>,
    pause: Option<Pin<Box<Sleep>>>,
    next_pause: Duration,
}

/// Where a [`Listener`] listens, written as a client names it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenAddress {
    /// A TCP port: `tcp://host:port`.
    Tcp(SocketAddr),
    /// A Unix socket: `unix:/path`.
    #[cfg(unix)]
    Unix(PathBuf),
    /// A UDP port for QUIC: `quic://host:port`.
    #[cfg(feature = "quic")]
    Quic(SocketAddr),
}

/// Watches a [`Listener`] from outside. Cheap to clone; outlives it.
#[derive(Clone, Debug)]
pub struct ListenerHandle(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    open: AtomicUsize,
    accepted: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

/// The place of one link among those of a listener.
#[derive(Debug)]
pub(in crate::link) struct Place(Arc<Counts>);

#[derive(Debug)]
enum Accepting {
    Tcp(TcpListener),
    /// In this order: the file is removed while the socket is open.
    #[cfg(unix)]
    Unix {
        _file: SocketFile,
        listener: UnixListener,
    },
    #[cfg(feature = "quic")]
    Quic(QuicListener),
}

/// Who has come.
enum Guest {
    Tcp(TcpStream, SocketAddr),
    #[cfg(unix)]
    Unix(UnixStream),
    #[cfg(feature = "quic")]
    Quic(crate::quic::Connection),
}

impl Listener {
    /// Listens on a TCP port: `host:port`, as for [`Link::tcp`]. Of a name with several addresses the first that can be
    /// listened on is taken; port 0 is any that is free. Whoever can reach the port can connect, and nothing is
    /// encrypted: `127.0.0.1` and `[::1]` are reached from this machine alone, by everyone on it.
    ///
    /// # Errors
    /// [`SocketError`] says what the system said.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O enabled.
    pub async fn tcp(address: impl AsRef<str>) -> Result<Self, SocketError> {
        let address = address.as_ref();
        let listen = async {
            let listener =
                TcpListener::bind(host_and_port(address)?).await.map_err(SocketErrorKind::System)?;
            let address = listener.local_addr().map_err(SocketErrorKind::System)?;
            Ok(Self::new(Accepting::Tcp(listener), ListenAddress::Tcp(address)))
        };
        listen.await.map_err(|kind| SocketError { target: format!("tcp://{address}"), kind })
    }

    /// Listens on a Unix socket, of which the file is made: readable and writable for our user alone. One that is there
    /// and that nobody listens on is replaced. The file is removed when the listener is dropped, when it is still the
    /// one that was made.
    ///
    /// # Errors
    /// [`SocketErrorKind::InUse`] when somebody listens there, [`SocketErrorKind::NotASocket`] when another kind of
    /// file is there, and what the system says.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    #[cfg(unix)]
    pub async fn unix(path: impl AsRef<Path>) -> Result<Self, SocketError> {
        let path = path.as_ref();
        match SocketFile::listen(path).await {
            Ok((file, listener)) => {
                let address = ListenAddress::Unix(file.path().to_owned());
                Ok(Self::new(Accepting::Unix { _file: file, listener }, address))
            }
            Err(kind) => Err(SocketError { target: format!("unix:{}", path.display()), kind }),
        }
    }

    #[cfg(feature = "quic")]
    pub(in crate::link) fn of_quic(listener: QuicListener) -> Self {
        let address = ListenAddress::Quic(listener.address());
        Self::new(Accepting::Quic(listener), address)
    }

    /// Ends listening: what is to be waited for after the last link is closed, so that every client knows of it.
    pub(crate) fn farewell(self) -> impl Future<Output = ()> + Send + 'static {
        #[cfg(feature = "quic")]
        let farewell = match &self.socket {
            Accepting::Quic(listener) => Some(listener.farewell()),
            _ => None,
        };
        drop(self);
        async move {
            #[cfg(feature = "quic")]
            if let Some(farewell) = farewell {
                farewell.await;
            }
        }
    }

    fn new(socket: Accepting, address: ListenAddress) -> Self {
        let counts = Arc::default();
        Self { socket, address, most: CONNECTIONS, counts, pause: None, next_pause: FIRST_PAUSE }
    }

    /// How many links there may be at once: 512. Who comes beyond that is closed and counted.
    #[must_use]
    pub const fn max_connections(mut self, connections: usize) -> Self {
        self.most = connections;
        self
    }

    /// Where it listens: the port that was free, where any was asked for.
    #[must_use]
    pub const fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Watches this listener.
    #[must_use]
    pub fn handle(&self) -> ListenerHandle {
        ListenerHandle(self.counts.clone())
    }

    /// Waits for the next client. It never fails: when the system has no file descriptor or no memory for one more, that
    /// is logged and tried again after 50 ms, doubled up to 1 s.
    ///
    /// Cancel-safe: dropped before it is ready, it has accepted nobody.
    pub async fn accept(&mut self) -> Link {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Link> {
        for _ in 0..TURN {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match ready!(self.socket.poll_accept(cx)) {
                Ok(guest) => {
                    self.next_pause = FIRST_PAUSE;
                    if let Some(place) = Place::take(&self.counts, self.most) {
                        return Poll::Ready(guest.link(place));
                    }
                    guest.refuse();
                    tracing::debug!(target: "mcpjoin", limit = self.most, "a client was refused: `connections`");
                }
                Err(error) if concerns_one_client(&error) => {}
                Err(error) => {
                    let pause = self.next_pause;
                    tracing::warn!(target: "mcpjoin", address = %self.address, %error, ?pause, "nobody can be accepted");
                    self.counts.failed.fetch_add(1, Ordering::Relaxed);
                    self.pause = Some(Box::pin(sleep(pause)));
                    self.next_pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Whether it was the client's doing, and the next one may be fine: it has gone before it was accepted.
fn concerns_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, TimedOut};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | TimedOut)
}

impl Accepting {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Guest>> {
        match self {
            #[cfg(feature = "quic")]
            Self::Quic(listener) => listener.poll_accept(cx).map(|connection| Ok(Guest::Quic(connection))),
            Self::Tcp(listener) => {
                listener.poll_accept(cx).map_ok(|(stream, address)| Guest::Tcp(stream, address))
            }
            #[cfg(unix)]
            Self::Unix { listener, .. } => listener.poll_accept(cx).map_ok(|(stream, _)| Guest::Unix(stream)),
        }
    }
}

impl Guest {
    /// There is no place for it. A socket is just closed.
    fn refuse(&self) {
        #[cfg(feature = "quic")]
        if let Self::Quic(connection) = self {
            QuicListener::refuse(connection);
        }
    }

    fn link(self, place: Place) -> Link {
        let (_place, heard) = (place, false);
        match self {
            #[cfg(feature = "quic")]
            Self::Quic(connection) => guest(connection, _place),
            Self::Tcp(stream, address) => {
                tune(&stream);
                let origin = Origin { peer: Some(address.to_string().into()), ..Origin::new("tcp") };
                SocketLink::link(stream, Far::Client { _place, heard }, origin)
            }
            #[cfg(unix)]
            Self::Unix(stream) => {
                let peer = stream.peer_cred().ok().map(|peer| match peer.pid() {
                    Some(pid) => format!("process {pid} of user {}", peer.uid()).into(),
                    None => format!("user {}", peer.uid()).into(),
                });
                SocketLink::link(
                    stream,
                    Far::Client { _place, heard },
                    Origin { peer, ..Origin::new("unix") },
                )
            }
        }
    }
}

impl Place {
    fn take(counts: &Arc<Counts>, most: usize) -> Option<Self> {
        // Taken by the listener alone, so between looking and adding there can only be fewer.
        if counts.open.load(Ordering::Relaxed) >= most {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        counts.open.fetch_add(1, Ordering::Relaxed);
        counts.accepted.fetch_add(1, Ordering::Relaxed);
        Some(Self(counts.clone()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ListenAddress {
    /// The TCP port; `None` when it is something else.
    #[must_use]
    pub const fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            #[cfg(unix)]
            Self::Unix(_) => None,
            #[cfg(feature = "quic")]
            Self::Quic(_) => None,
        }
    }

    /// The UDP port for QUIC; `None` when it is something else.
    #[cfg(feature = "quic")]
    #[must_use]
    pub const fn quic(&self) -> Option<SocketAddr> {
        match self {
            Self::Quic(address) => Some(*address),
            _ => None,
        }
    }

    /// The Unix socket; `None` when it is something else.
    #[cfg(unix)]
    #[must_use]
    pub fn unix(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) => Some(path),
            _ => None,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            #[cfg(unix)]
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            #[cfg(feature = "quic")]
            Self::Quic(address) => write!(f, "quic://{address}"),
        }
    }
}

impl ListenerHandle {
    /// Links that there are now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Clients that have become links.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.0.accepted.load(Ordering::Relaxed)
    }

    /// Clients that were closed because there were too many links.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// How often the system could accept nobody.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.0.failed.load(Ordering::Relaxed)
    }
}
