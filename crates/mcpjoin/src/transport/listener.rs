//! Listens for clients: each client that connects is a [`Link`].
//!
//! [`Listener`] counts the links, refuses clients beyond its limit and waits when the system has no resources for one more. The
//! transports implement [`Accept`]: TCP and Unix sockets (`socket/listen.rs`), QUIC in `mcpjoin-quic`, and those of programs.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use super::{Inspector, Link, Transport, TransportLayer};

/// Connections at once: half of the 1,024 open files that a process usually may have.
const MAX_CONNECTIONS: usize = 512;
/// How long to wait when accepting fails for want of something (open files, memory); doubled after each failure in a row.
const MIN_ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// The longest such wait.
const MAX_ACCEPT_RETRY: Duration = Duration::from_secs(1);
/// Clients looked at in one poll before other tasks get their turn.
const CLIENTS_PER_POLL: usize = 16;

/// Accepts the clients of one transport. [`Listener::new`] makes a [`Listener`] of it.
///
/// ```
/// use std::io;
/// use std::task::{Context, Poll};
///
/// use mcpjoin::Link;
/// use mcpjoin::transport::{Accept, Listener};
/// use tokio::net::{TcpListener, TcpStream};
///
/// /// Lines over TCP.
/// struct Lines(TcpListener);
///
/// impl Accept for Lines {
///     type Client = TcpStream;
///
///     fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
///         self.0.poll_accept(cx).map_ok(|(stream, _)| stream)
///     }
///
///     fn link(&mut self, client: TcpStream) -> Link {
///         let (reader, writer) = client.into_split();
///         Link::stream(reader, writer, "lines")
///     }
/// }
///
/// # async fn f() -> io::Result<()> {
/// let socket = TcpListener::bind("127.0.0.1:0").await?;
/// let address = socket.local_addr()?;
/// let mut listener = Listener::new(Lines(socket), mcpjoin::transport::ListenAddress::Other { scheme: "lines", address });
/// let link = listener.accept().await;
/// # drop(link);
/// # Ok(())
/// # }
/// ```
pub trait Accept: Send + 'static {
    /// A client that has connected and has no link yet.
    type Client;

    /// Polls for the next client. An error that concerns one client alone (it disconnected before it was accepted) is passed
    /// over; after any other the listener waits (50 ms, doubled up to 1 s) and polls again. Dropping a poll loses no client.
    ///
    /// # Errors
    /// What the system reports.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Client>>;

    /// Makes the link of an accepted client.
    fn link(&mut self, client: Self::Client) -> Link;

    /// Refuses a client because the listener has as many links as it may have. By default the client is dropped.
    fn refuse(&mut self, client: Self::Client) {
        drop(client);
    }

    /// Ends listening. The future resolves when every client knows that its connection is over; it is awaited after the last
    /// link has closed.
    fn shut_down(self) -> impl Future<Output = ()> + Send + 'static
    where
        Self: Sized,
    {
        drop(self);
        std::future::ready(())
    }
}

/// [`Accept`] behind a pointer.
trait ErasedAccept: Send {
    /// The link of the next client; `None` for a client that was refused because of `is_full`.
    fn poll_link(&mut self, cx: &mut Context<'_>, is_full: bool) -> Poll<io::Result<Option<Link>>>;

    fn shut_down(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

impl<A: Accept> ErasedAccept for A {
    fn poll_link(&mut self, cx: &mut Context<'_>, is_full: bool) -> Poll<io::Result<Option<Link>>> {
        let client = ready!(self.poll_accept(cx))?;
        Poll::Ready(Ok(if is_full {
            self.refuse(client);
            None
        } else {
            Some(self.link(client))
        }))
    }

    fn shut_down(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Accept::shut_down(*self))
    }
}

/// Accepts clients. Dropping it ends listening; the links that it returned stay open.
///
/// It counts its links: beyond a limit ([`Listener::max_connections`]) a client is disconnected at once, until a link is
/// dropped. On TCP and Unix sockets a peer whose first line is no JSON is disconnected too: a web page can make a browser send
/// a request to any port of the machine that it runs on.
pub struct Listener {
    accept: Box<dyn ErasedAccept>,
    address: ListenAddress,
    max_connections: usize,
    counts: Arc<Counts>,
    pause: Option<Pin<Box<Sleep>>>,
    next_pause: Duration,
}

/// The address of a [`Listener`], written as a client names it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenAddress {
    /// A TCP port: `tcp://host:port`.
    Tcp(SocketAddr),
    /// A Unix socket: `unix:/path`.
    #[cfg(unix)]
    Unix(PathBuf),
    /// A port of another transport: `scheme://host:port`.
    Other {
        /// The scheme of its URLs: `quic`.
        scheme: &'static str,
        /// The port.
        address: SocketAddr,
    },
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

/// One open link of a listener. Dropping it makes room for another.
struct OpenLink(Arc<Counts>);

impl OpenLink {
    fn new(counts: &Arc<Counts>) -> Self {
        counts.open.fetch_add(1, Ordering::Relaxed);
        counts.accepted.fetch_add(1, Ordering::Relaxed);
        Self(counts.clone())
    }
}

impl Drop for OpenLink {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The transport of a client, counted while it is open.
struct Counted {
    io: Box<dyn Transport>,
    _open: OpenLink,
}

impl TransportLayer for Counted {
    fn io(&self) -> &dyn Transport {
        &*self.io
    }

    fn io_mut(&mut self) -> &mut dyn Transport {
        &mut *self.io
    }

    fn inspect(&mut self, inspector: Inspector) -> Result<(), Inspector> {
        self.io.inspect(inspector)
    }
}

impl Listener {
    /// A listener over any transport that accepts clients at `address`.
    pub fn new(accept: impl Accept, address: ListenAddress) -> Self {
        Self {
            accept: Box::new(accept),
            address,
            max_connections: MAX_CONNECTIONS,
            counts: Arc::default(),
            pause: None,
            next_pause: MIN_ACCEPT_RETRY,
        }
    }

    /// Ends listening. The future resolves when every client knows that its connection is over.
    pub(crate) fn shut_down(self) -> impl Future<Output = ()> + Send + 'static {
        self.accept.shut_down()
    }

    /// How many links there may be at once: 512. Further clients are disconnected and counted.
    #[must_use]
    pub const fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// The address that it listens on, with the port that the system chose where the caller named port 0.
    #[must_use]
    pub const fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Watches this listener.
    #[must_use]
    pub fn handle(&self) -> ListenerHandle {
        ListenerHandle(self.counts.clone())
    }

    /// Waits for the next client. It never fails: when the system has no file descriptor or no memory for one more, it logs
    /// that and tries again after 50 ms, doubled up to 1 s.
    ///
    /// ```no_run
    /// use mcpjoin::transport::Listener;
    ///
    /// # async fn example(server: mcpjoin::Server) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut listener = Listener::tcp("127.0.0.1:7000").await?;
    /// loop {
    ///     let link = listener.accept().await;
    ///     let server = server.clone();
    ///     tokio::spawn(async move { server.serve(link).await });
    /// }
    /// # }
    /// ```
    ///
    /// [`Server::serve_all`](crate::Server::serve_all) does the same, with an end.
    ///
    /// Cancel-safe: dropped before it is ready, it has accepted no client.
    pub async fn accept(&mut self) -> Link {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Link> {
        for _ in 0..CLIENTS_PER_POLL {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            // Only this listener opens links, so between this look and the next link there can only be fewer.
            let is_full = self.counts.open.load(Ordering::Relaxed) >= self.max_connections;
            match ready!(self.accept.poll_link(cx, is_full)) {
                Ok(link) => {
                    self.next_pause = MIN_ACCEPT_RETRY;
                    if let Some(link) = link {
                        let counted =
                            Counted { io: link.into_transport(), _open: OpenLink::new(&self.counts) };
                        return Poll::Ready(Link::new(counted));
                    }
                    self.counts.refused.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(
                        target: "mcpjoin",
                        limit = self.max_connections,
                        "a client was refused: `connections`"
                    );
                }
                Err(error) if concerns_one_client(&error) => {}
                Err(error) => {
                    let pause = self.next_pause;
                    tracing::warn!(target: "mcpjoin", address = %self.address, %error, ?pause, "connections \
                        cannot be accepted");
                    self.counts.failed.fetch_add(1, Ordering::Relaxed);
                    self.pause = Some(Box::pin(sleep(pause)));
                    self.next_pause = (pause * 2).min(MAX_ACCEPT_RETRY);
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener")
            .field("address", &self.address)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

/// Whether the client caused the error and the next one may be fine: it disconnected before it was accepted.
fn concerns_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, TimedOut};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | TimedOut)
}

impl ListenAddress {
    /// The IP address and port, of TCP or of another transport; `None` for a Unix socket.
    #[must_use]
    pub const fn socket_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) | Self::Other { address, .. } => Some(*address),
            #[cfg(unix)]
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            #[cfg(unix)]
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Other { scheme, address } => write!(f, "{scheme}://{address}"),
        }
    }
}

impl ListenerHandle {
    /// Links that are open now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Clients that became links.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.0.accepted.load(Ordering::Relaxed)
    }

    /// Clients that were disconnected because there were too many links.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// How often the system could accept no client.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.0.failed.load(Ordering::Relaxed)
    }
}
