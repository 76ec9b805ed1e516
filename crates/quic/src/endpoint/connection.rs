//! An established connection: opens and accepts streams, closes, and reports why it ended.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use quinn::{Endpoint, RecvStream, SendStream, VarInt};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::connect::port_unreachable;
use super::error::{QuicError, QuicErrorKind};
use super::tls::CertificateFacts;

/// Why our verifier rejected the peer's certificate, if it did.
pub(super) type Rejection = Arc<Mutex<Option<String>>>;

pub(super) fn rejection_in(slot: &Rejection) -> Option<String> {
    slot.lock().clone()
}

/// A connection whose handshake is complete on both sides. Cheap to clone. Dropping the last of its clones and streams
/// closes it at once with code 0.
#[derive(Clone)]
pub struct Connection {
    inner: quinn::Connection,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The peer's address as the caller gave it.
    address: Arc<str>,
    alpn: String,
    rejection: Rejection,
    /// The endpoint of an outgoing connection, which no other connection uses.
    endpoint: Option<Endpoint>,
    /// The number of datagrams that had been sent when we closed it.
    closed_after: OnceLock<u64>,
}

/// Interval of the checks whether a datagram was sent.
const SEND_POLL_INTERVAL: Duration = Duration::from_millis(1);

impl Connection {
    pub(super) fn new(
        inner: quinn::Connection,
        address: Arc<str>,
        alpn: &str,
        rejection: Rejection,
        endpoint: Option<Endpoint>,
    ) -> Self {
        let (alpn, closed_after) = (alpn.to_owned(), OnceLock::new());
        Self { inner, shared: Arc::new(Shared { address, alpn, rejection, endpoint, closed_after }) }
    }

    /// Opens a bidirectional stream. Waits while the peer's limit of open streams is reached. The peer learns of the
    /// stream with its first byte.
    ///
    /// Cancel-safe: dropping the future opens no stream.
    ///
    /// # Errors
    /// [`QuicError`] says why the connection has ended.
    pub async fn open(&self) -> Result<(SendStream, RecvStream), QuicError> {
        self.inner.open_bi().await.map_err(|error| self.error(error))
    }

    /// Waits for the peer to open a bidirectional stream.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`QuicError`] says why the connection has ended. [`QuicErrorKind::Closed`] with code 0 is a normal close by the
    /// peer.
    pub async fn accept(&self) -> Result<(SendStream, RecvStream), QuicError> {
        self.inner.accept_bi().await.map_err(|error| self.error(error))
    }

    /// Why the connection has ended; `None` while it is open. It says more than the error of a stream.
    #[must_use]
    pub fn ended(&self) -> Option<QuicError> {
        self.inner.close_reason().map(|error| self.error(error))
    }

    /// Waits for the connection to end and returns the reason. Cancel-safe.
    pub async fn closed(&self) -> QuicError {
        let error = self.inner.closed().await;
        self.error(error)
    }

    /// Closes the connection: all its streams fail on both sides, and the peer receives the code and the reason. Data
    /// that the peer has not received yet may be lost. Has no effect if the connection has already ended.
    pub fn close(&self, code: u32, reason: &str) {
        if self.inner.close_reason().is_none() {
            self.inner.close(VarInt::from_u32(code), reason.as_bytes());
            // Only the close frame follows these datagrams.
            let _ = self.shared.closed_after.set(self.sent());
        }
    }

    /// Waits until the close frame is sent, at most `limit`. The peer does not acknowledge it and it is not repeated;
    /// if it is lost, the peer's idle timeout ends the connection. Call this after [`Connection::close`]. It returns at
    /// once for incoming connections, where the listener waits instead.
    pub async fn close_sent(&self, limit: Duration) {
        let Shared { endpoint: Some(endpoint), closed_after, .. } = &*self.shared else { return };
        let Some(before) = closed_after.get() else { return };
        let left = async {
            // The task that sends is woken already.
            yield_now().await;
            while self.sent() == *before {
                sleep(SEND_POLL_INTERVAL).await;
            }
        };
        let settled = async {
            tokio::select! {
                () = left => {}
                // Another thread may have sent the frame before the datagrams were counted.
                () = endpoint.wait_idle() => {}
            }
        };
        // After the limit the peer is not informed.
        let _ = timeout(limit, settled).await;
    }

    fn sent(&self) -> u64 {
        self.inner.stats().udp_tx.datagrams
    }

    /// The peer's address, which may change during the connection.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.inner.remote_address()
    }

    /// The peer's address as passed to [`connect`](super::connect), or an incoming peer's first address.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// The facts of the peer's certificate; `None` if it presented none, or an unreadable one.
    #[must_use]
    pub fn peer_certificate(&self) -> Option<CertificateFacts> {
        let shown = self.inner.peer_identity()?;
        let chain = shown.downcast_ref::<Vec<rustls::pki_types::CertificateDer<'static>>>()?;
        CertificateFacts::read(chain.first()?)
    }

    /// The common name in the peer's certificate; `None` if it presented none.
    #[must_use]
    pub fn peer_name(&self) -> Option<String> {
        self.peer_certificate()?.common_name
    }

    /// The number of datagrams received. A live peer acknowledges what it receives; if nothing has arrived since the
    /// last write, the peer is probably gone, long before the idle timeout.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.inner.stats().udp_rx.datagrams
    }

    /// Waits until the system reports that the peer's port is closed. It reports that at once for this machine, and for
    /// others unless a firewall drops it.
    #[doc(hidden)]
    pub async fn port_unreachable(&self) -> io::Error {
        port_unreachable(self.remote()).await
    }

    /// The current estimate of the round-trip time.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        self.inner.rtt()
    }

    fn error(&self, error: quinn::ConnectionError) -> QuicError {
        let kind = QuicErrorKind::of(error, rejection_in(&self.shared.rejection), &self.shared.alpn);
        QuicError { address: self.shared.address.clone(), kind }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.shared.address).finish_non_exhaustive()
    }
}
