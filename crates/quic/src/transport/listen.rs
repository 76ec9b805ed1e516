//! Listening on QUIC: each connection is a link.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::JoinSet;

use super::{ALPN, FAREWELL, Far, QuicLink, code, options};
use crate::endpoint::{
    self as quic, CertificateError, ClientsAre, Connection, Identity, Incoming, QuicError, ServerTls,
};
use mcpjoin::transport::{Accept, Link, ListenAddress, Listener};

/// Streams that a client may have open at once: the number of the project's interface page.
const STREAMS: u32 = 256;
/// Handshakes at once. Who comes beyond that waits, and beyond 256 of those is not heard until there is room.
const HANDSHAKES: usize = 128;

type Who = dyn Fn() -> Result<(Identity, ClientsAre), CertificateError> + Send + Sync;

/// A listener to be made. Await it to make it.
#[must_use = "nobody listens before it is awaited"]
pub struct QuicListen {
    address: String,
    who: Box<Who>,
    timeout: Option<Duration>,
    streams: u32,
}

/// Listens on QUIC: `host:port`, as for [`connect`](crate::connect). Of a name with several addresses the first that can be
/// listened on is taken; port 0 is any that is free.
///
/// `who` says what is shown to clients, and what is asked of them. It is asked for each connection that comes, on a
/// thread that may block, so that certificates that have changed are used from then on. What it says first must be
/// good; when it fails later, that connection is refused and the reason logged. A client that is refused is told
/// why, and so is the log.
///
/// # Errors
/// [`QuicError`], when it is awaited, says what the system or the certificates have.
///
/// # Panics
/// Awaited outside of a tokio runtime with I/O and time enabled.
pub fn listen(
    address: impl Into<String>,
    who: impl Fn() -> Result<(Identity, ClientsAre), CertificateError> + Send + Sync + 'static,
) -> QuicListen {
    QuicListen { address: address.into(), who: Box::new(who), timeout: None, streams: STREAMS }
}

impl QuicListen {
    /// How long a handshake may take: 10 s.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How many streams a client may have open at once: 256. One of them is for what belongs to no request, so at least
    /// 2. It also bounds what may wait to be read of one client: 128 KiB for each.
    pub const fn streams(mut self, streams: u32) -> Self {
        self.streams = if streams < 2 { 2 } else { streams };
        self
    }
}

impl fmt::Debug for QuicListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicListen").field("address", &self.address).finish_non_exhaustive()
    }
}

impl IntoFuture for QuicListen {
    type Output = Result<Listener, QuicError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let mut options = options(self.streams);
        if let Some(timeout) = self.timeout {
            options.connect_timeout = timeout;
        }
        let who = self.who;
        let tls = move || {
            let (identity, clients) = who()?;
            ServerTls::new(identity, &clients, ALPN)
        };
        Box::pin(async move {
            let inner = Arc::new(quic::Listener::bind(&self.address, tls, options).await?);
            let address = ListenAddress::other("quic", inner.address());
            Ok(Listener::new(QuicListener::new(inner), address))
        })
    }
}

type Next = Pin<Box<dyn Future<Output = Option<Incoming>> + Send + Sync>>;

/// Accepts clients over QUIC. Dropping it ends listening; connections stay open.
struct QuicListener {
    inner: Arc<quic::Listener>,
    next: Option<Next>,
    establishing: JoinSet<Option<Connection>>,
}

impl QuicListener {
    fn new(inner: Arc<quic::Listener>) -> Self {
        Self { inner, next: None, establishing: JoinSet::new() }
    }

    /// The next client whose handshake is complete.
    fn poll_connection(&mut self, cx: &mut Context<'_>) -> Poll<Connection> {
        loop {
            match self.establishing.poll_join_next(cx) {
                Poll::Ready(Some(Ok(Some(connection)))) => return Poll::Ready(connection),
                // Refused; the log says why.
                Poll::Ready(Some(_)) => continue,
                Poll::Ready(None) | Poll::Pending => {}
            }
            if self.establishing.len() >= HANDSHAKES {
                return Poll::Pending;
            }
            let inner = &self.inner;
            let next = self.next.get_or_insert_with(|| {
                let inner = inner.clone();
                Box::pin(async move { inner.accept().await })
            });
            let Poll::Ready(incoming) = next.as_mut().poll(cx) else { return Poll::Pending };
            self.next = None;
            // Without one the endpoint is closed, and no client comes any more.
            let Some(incoming) = incoming else { return Poll::Pending };
            self.establishing.spawn(async move { incoming.establish().await.ok() });
        }
    }
}

impl Accept for QuicListener {
    type Client = Connection;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Connection>> {
        self.poll_connection(cx).map(Ok)
    }

    fn link(&mut self, connection: Connection) -> Link {
        Link::new(QuicLink::new(Far::Client, connection, None, STREAMS))
    }

    fn refuse(&mut self, connection: Connection) {
        connection.close(code::BUSY, "there are as many connections as there may be");
    }

    fn shut_down(self) -> impl Future<Output = ()> + Send + 'static {
        let inner = self.inner.clone();
        drop(self);
        async move { inner.close(FAREWELL).await }
    }
}

impl Drop for QuicListener {
    fn drop(&mut self) {
        self.inner.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::{Mutex, mpsc};

    use futures_util::StreamExt as _;
    use futures_util::stream::FuturesUnordered;
    use tokio::time::timeout;

    use super::*;
    use crate::endpoint::{ClientTls, Trust};

    #[tokio::test]
    async fn so_many_handshakes_are_under_way_and_who_comes_beyond_waits() {
        let identity = Identity::self_signed(["localhost"]).expect("an identity");
        let trust = Trust::Key(identity.facts().expect("a certificate").key_hash);
        // What a handshake begins with is asked for, and given when the sender is dropped; but for the listener's own.
        let (open, opened) = mpsc::channel::<()>();
        let waiting = Mutex::new((true, opened));
        let tls = move || {
            let mut waiting = waiting.lock().expect("not poisoned");
            if !std::mem::take(&mut waiting.0) {
                let _ = waiting.1.recv();
            }
            ServerTls::new(identity.clone(), &ClientsAre::Anybody, ALPN)
        };
        let inner = quic::Listener::bind("127.0.0.1:0", tls, options(STREAMS)).await.expect("a port");
        let mut listener = QuicListener::new(Arc::new(inner));
        let (address, options) = (listener.inner.address().to_string(), options(STREAMS));
        let tls = ClientTls::new(&trust, None, ALPN).expect("a key");
        let mut comers: FuturesUnordered<_> =
            (0..=HANDSHAKES).map(|_| quic::connect(&address, &tls, &options)).collect();
        let full = poll_fn(|cx| {
            assert!(comers.poll_next_unpin(cx).is_pending());
            assert!(listener.poll_connection(cx).is_pending());
            let is_full = !listener.establishing.is_empty() && listener.next.is_none();
            if is_full { Poll::Ready(()) } else { Poll::Pending }
        });
        timeout(Duration::from_secs(60), full).await.expect("they all come");
        assert_eq!(listener.establishing.len(), HANDSHAKES);
        let one_more = tokio::select! {
            incoming = listener.inner.accept() => incoming,
            _ = comers.next() => None,
        };
        assert!(one_more.is_some());
        drop(open);
    }
}
