//! A connection: streams, the way it ends, and why it has.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use quinn::{Endpoint, RecvStream, SendStream, VarInt};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::connect::nobody_listens;
use super::error::{QuicError, QuicErrorKind};
use super::tls::CertificateFacts;

/// What our verifier has said of the peer's certificate, when it has refused it.
pub(super) type Refusal = Arc<Mutex<Option<String>>>;

pub(super) fn refusal_in(slot: &Refusal) -> Option<String> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A connection whose handshake is complete on both sides. Cheap to clone; closed when the last of its clones and streams
/// is dropped, at once and with code 0.
#[derive(Clone)]
pub struct Connection {
    pub(super) inner: quinn::Connection,
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    /// As the caller has named the peer.
    pub(super) address: Arc<str>,
    pub(super) alpn: String,
    pub(super) refusal: Refusal,
    /// The endpoint of a connection that we have made: nothing else uses it.
    pub(super) endpoint: Option<Endpoint>,
    /// How many datagrams were sent when we have closed it.
    pub(super) closed_after: OnceLock<u64>,
}

/// How often it is looked whether a datagram has left.
const SENDING: Duration = Duration::from_millis(1);

impl Connection {
    /// Opens a stream in both directions. Waits while the peer allows no more of them than there are. The peer learns of
    /// it with the first byte.
    ///
    /// Cancel-safe: dropped before it is ready, it has opened nothing.
    ///
    /// # Errors
    /// [`QuicError`] says why the connection has ended.
    pub async fn open(&self) -> Result<(SendStream, RecvStream), QuicError> {
        self.inner.open_bi().await.map_err(|error| self.error(error))
    }

    /// Waits for the peer to open a stream in both directions.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`QuicError`] says why the connection has ended; [`QuicErrorKind::Closed`] with code 0 is the peer leaving in good
    /// order.
    pub async fn accept(&self) -> Result<(SendStream, RecvStream), QuicError> {
        self.inner.accept_bi().await.map_err(|error| self.error(error))
    }

    /// Why the connection has ended; `None` while it has not. A stream that fails says less than this.
    #[must_use]
    pub fn ended(&self) -> Option<QuicError> {
        self.inner.close_reason().map(|error| self.error(error))
    }

    /// Waits for the connection to end, and says why. Cancel-safe.
    pub async fn closed(&self) -> QuicError {
        let error = self.inner.closed().await;
        self.error(error)
    }

    /// Ends the connection: every stream of it fails, also at the peer, which is told the code and the reason. What was
    /// written and not yet received may be lost. Of several calls the first counts, and none where it has ended already.
    pub fn close(&self, code: u32, reason: &str) {
        if self.inner.close_reason().is_none() {
            self.inner.close(VarInt::from_u32(code), reason.as_bytes());
            // All that follows these is the message that it has ended.
            let _ = self.shared.closed_after.set(self.sent());
        }
    }

    /// Waits until the message that it has ended has left, at most `most`; the system sends it then, whatever becomes of
    /// us. Nobody confirms it, and it is not said again: a peer to which it does not come notices by its idle limit. Only
    /// for a connection that we have made, after [`Connection::close`]; at once for others, where the listener does it.
    pub async fn settled(&self, most: Duration) {
        let Shared { endpoint: Some(endpoint), closed_after, .. } = &*self.shared else { return };
        let Some(before) = closed_after.get() else { return };
        let left = async {
            // What sends is woken already.
            yield_now().await;
            while self.sent() == *before {
                sleep(SENDING).await;
            }
        };
        let settled = async {
            tokio::select! {
                () = left => {}
                // Another thread may have sent it before it could be counted.
                () = endpoint.wait_idle() => {}
            }
        };
        // When the time is over there is nobody to tell.
        let _ = timeout(most, settled).await;
    }

    fn sent(&self) -> u64 {
        self.inner.stats().udp_tx.datagrams
    }

    /// The peer's address, which may change while the connection goes on.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.inner.remote_address()
    }

    /// The peer as the caller of [`connect`](super::connect) has named it; for one that has come, its first address.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.shared.address
    }

    /// What the peer's certificate says; `None` when it has shown none, or none that can be read.
    #[must_use]
    pub fn peer_certificate(&self) -> Option<CertificateFacts> {
        let shown = self.inner.peer_identity()?;
        let chain = shown.downcast_ref::<Vec<rustls::pki_types::CertificateDer<'static>>>()?;
        CertificateFacts::read(chain.first()?)
    }

    /// The common name in the peer's certificate; `None` when it has shown none.
    #[must_use]
    pub fn peer_name(&self) -> Option<String> {
        self.peer_certificate()?.common_name
    }

    /// How many datagrams have come over it. A peer that lives acknowledges what it is sent, so of one that was written to
    /// and from which nothing has come since, it is likely that it is gone, long before the idle limit says so.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.inner.stats().udp_rx.datagrams
    }

    /// Waits until the system says that nobody listens where the peer is, which it says of this machine at once and of
    /// others where nothing on the way keeps that back.
    #[doc(hidden)]
    pub async fn nobody_listens(&self) -> io::Error {
        nobody_listens(self.remote()).await
    }

    /// The time that a packet takes there and back, as it was last estimated.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        self.inner.rtt()
    }

    fn error(&self, error: quinn::ConnectionError) -> QuicError {
        let kind = QuicErrorKind::of(error, refusal_in(&self.shared.refusal), &self.shared.alpn);
        QuicError { address: self.shared.address.clone(), kind }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.shared.address).finish_non_exhaustive()
    }
}
