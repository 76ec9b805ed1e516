//! Listens on QUIC: each connection becomes a link.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task::JoinSet;

use super::{ALPN, CLOSE_TIMEOUT, Peer, QuicLink, code, options};
use crate::endpoint::{
    self as quic, CertificateError, ClientAuth, Connection, Identity, Incoming, QuicError, ServerTls,
};
use mcpjoin::transport::{Accept, Link, ListenAddress, Listener};

/// Default number of streams that a client may have open at once, from the project's interface page.
pub(super) const MAX_STREAMS: u32 = 256;
/// Handshakes in progress at once. Further clients wait; beyond 256 waiting clients, packets are ignored until there is
/// room.
const MAX_HANDSHAKES: usize = 128;

type Certificates = dyn Fn() -> Result<(Identity, ClientAuth), CertificateError> + Send + Sync;

/// Builds a listener. Await it to listen.
#[must_use = "nobody listens before it is awaited"]
pub struct QuicListen {
    address: String,
    certificates: Box<Certificates>,
    timeout: Option<Duration>,
    streams: u32,
}

/// Listens on QUIC at `address`, which is `host:port` as for [`connect`](crate::connect). If the name has several
/// addresses, the first usable one is taken. Port 0 selects a free port.
///
/// `certificates` returns the server's identity and says what clients must present. It is called for each connection,
/// on a thread that may block, so that a changed certificate is used from the next connection on. The first call must
/// succeed. If a later call fails, that connection is rejected and the reason is logged. A client that is rejected
/// receives the reason, and it is logged.
///
/// # Errors
/// Awaiting it fails with [`QuicError`] if the socket cannot be bound or the certificates cannot be used.
///
/// # Panics
/// If awaited outside of a tokio runtime with I/O and time enabled.
pub fn listen(
    address: impl Into<String>,
    certificates: impl Fn() -> Result<(Identity, ClientAuth), CertificateError> + Send + Sync + 'static,
) -> QuicListen {
    QuicListen {
        address: address.into(),
        certificates: Box::new(certificates),
        timeout: None,
        streams: MAX_STREAMS,
    }
}

impl QuicListen {
    /// Sets the time limit for a handshake. Default: 10 s.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how many streams a client may have open at once: 256 by default, at least 2, because one is the session
    /// stream. It also bounds the bytes of one client that may wait to be read: 128 KiB for each stream.
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
        let certificates = self.certificates;
        let tls = move || {
            let (identity, clients) = certificates()?;
            ServerTls::new(identity, &clients, ALPN)
        };
        Box::pin(async move {
            let inner = Arc::new(quic::Listener::bind(&self.address, tls, options).await?);
            let address = ListenAddress::Other { scheme: "quic", address: inner.address() };
            Ok(Listener::new(QuicListener::new(inner), address))
        })
    }
}

type NextIncoming = Pin<Box<dyn Future<Output = Option<Incoming>> + Send + Sync>>;

/// Accepts clients over QUIC. Dropping it stops listening; existing connections stay open.
struct QuicListener {
    inner: Arc<quic::Listener>,
    next: Option<NextIncoming>,
    handshakes: JoinSet<Option<Connection>>,
}

impl QuicListener {
    fn new(inner: Arc<quic::Listener>) -> Self {
        Self { inner, next: None, handshakes: JoinSet::new() }
    }

    /// Returns the next client whose handshake is complete.
    fn poll_connection(&mut self, cx: &mut Context<'_>) -> Poll<Connection> {
        loop {
            match self.handshakes.poll_join_next(cx) {
                Poll::Ready(Some(Ok(Some(connection)))) => return Poll::Ready(connection),
                // The handshake failed, and its error is logged.
                Poll::Ready(Some(_)) => continue,
                Poll::Ready(None) | Poll::Pending => {}
            }
            if self.handshakes.len() >= MAX_HANDSHAKES {
                return Poll::Pending;
            }
            let inner = &self.inner;
            let next = self.next.get_or_insert_with(|| {
                let inner = inner.clone();
                Box::pin(async move { inner.accept().await })
            });
            let Poll::Ready(incoming) = next.as_mut().poll(cx) else { return Poll::Pending };
            self.next = None;
            // The endpoint is closed: no further client will connect.
            let Some(incoming) = incoming else { return Poll::Pending };
            self.handshakes.spawn(async move { incoming.establish().await.ok() });
        }
    }
}

impl Accept for QuicListener {
    type Client = Connection;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Connection>> {
        self.poll_connection(cx).map(Ok)
    }

    fn link(&mut self, connection: Connection) -> Link {
        Link::new(QuicLink::new(Peer::Client, connection, None, MAX_STREAMS))
    }

    fn refuse(&mut self, connection: Connection) {
        connection.close(code::BUSY, "there are as many connections as there may be");
    }

    fn shut_down(self) -> impl Future<Output = ()> + Send + 'static {
        let inner = self.inner.clone();
        drop(self);
        async move { inner.close(CLOSE_TIMEOUT).await }
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
    async fn handshakes_in_progress_are_limited_and_further_clients_wait() {
        let identity = Identity::self_signed(["localhost"]).expect("an identity");
        let trust = Trust::Key(identity.facts().expect("a certificate").key_hash);
        // Every handshake but the listener's own first load of certificates blocks until the sender is dropped.
        let (open, opened) = mpsc::channel::<()>();
        let waiting = Mutex::new((true, opened));
        let tls = move || {
            let mut waiting = waiting.lock().expect("not poisoned");
            if !std::mem::take(&mut waiting.0) {
                let _ = waiting.1.recv();
            }
            ServerTls::new(identity.clone(), &ClientAuth::Anybody, ALPN)
        };
        let inner = quic::Listener::bind("127.0.0.1:0", tls, options(MAX_STREAMS)).await.expect("a port");
        let mut listener = QuicListener::new(Arc::new(inner));
        let (address, options) = (listener.inner.address().to_string(), options(MAX_STREAMS));
        let tls = ClientTls::new(&trust, None, ALPN).expect("a key");
        let mut clients: FuturesUnordered<_> =
            (0..=MAX_HANDSHAKES).map(|_| quic::connect(&address, &tls, &options)).collect();
        let full = poll_fn(|cx| {
            assert!(clients.poll_next_unpin(cx).is_pending());
            assert!(listener.poll_connection(cx).is_pending());
            let is_full = !listener.handshakes.is_empty() && listener.next.is_none();
            if is_full { Poll::Ready(()) } else { Poll::Pending }
        });
        timeout(Duration::from_secs(60), full).await.expect("they all come");
        assert_eq!(listener.handshakes.len(), MAX_HANDSHAKES);
        let one_more = tokio::select! {
            incoming = listener.inner.accept() => incoming,
            _ = clients.next() => None,
        };
        assert!(one_more.is_some());
        drop(open);
    }
}
