//! Accepts connections and completes their handshakes.

use std::fmt;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quinn::{Endpoint, VarInt};
use tokio::net::lookup_host;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::connection::{Rejection, rejection_in};
use super::error::{QuicError, QuicErrorKind};
use super::tls::CertificateError;
use super::{Connection, QuicOptions, ServerTls, reset};
use mcpjoin::internal::host_and_port;

/// Maximum number of peers that wait for [`Incoming::establish`]. Packets of further peers are ignored. They retransmit
/// after a second, and again until their own time limit.
const MAX_INCOMING: usize = 256;

/// Handshakes in progress from which on a peer must first show that it receives at its address, so that forged addresses take no
/// more places ([RFC 9000, section 8.1.2](https://www.rfc-editor.org/rfc/rfc9000#section-8.1.2)). It costs a round trip.
const RETRY_FROM: usize = 64;

type Tls = dyn Fn() -> Result<ServerTls, CertificateError> + Send + Sync;

/// Accepts connections on a UDP port. After dropping it, new peers are rejected and existing connections continue; the
/// port is free when the last one has ended. [`Listener::close`] ends them.
pub struct Listener {
    endpoint: Endpoint,
    /// The runtime for the task that rejects new peers, and the sender whose drop lets that task end.
    runtime: Handle,
    refusing: Mutex<Option<oneshot::Sender<()>>>,
    address: SocketAddr,
    tls: Arc<Tls>,
    options: QuicOptions,
    /// Each handshake in progress holds a clone.
    handshakes: Arc<()>,
}

/// A peer that has started a handshake. Dropping it rejects the peer.
pub struct Incoming {
    inner: quinn::Incoming,
    tls: Arc<Tls>,
    options: QuicOptions,
    handshake: Arc<()>,
}

impl Listener {
    /// Listens on `host:port`, as for [`connect`](super::connect). If the name has several addresses, the first usable
    /// one is taken. Port 0 selects a free port.
    ///
    /// `tls` is called for each connection, on a thread that may block, so that a changed certificate is used from the
    /// next connection on. The first call must succeed. If a later call fails, that connection is rejected and the
    /// reason is logged.
    ///
    /// # Errors
    /// [`QuicError`] if the socket cannot be bound or the certificates cannot be used.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    pub async fn bind(
        address: &str,
        tls: impl Fn() -> Result<ServerTls, CertificateError> + Send + Sync + 'static,
        options: QuicOptions,
    ) -> Result<Self, QuicError> {
        let tls: Arc<Tls> = Arc::new(tls);
        let bound = Self::bind_endpoint(address, &tls, &options).await;
        let (endpoint, address) = bound.map_err(|kind| QuicError { address: address.into(), kind })?;
        let (runtime, refusing) = (Handle::current(), Mutex::default());
        Ok(Self { endpoint, runtime, refusing, address, tls, options, handshakes: Arc::default() })
    }

    async fn bind_endpoint(
        address: &str,
        tls: &Arc<Tls>,
        options: &QuicOptions,
    ) -> Result<(Endpoint, SocketAddr), QuicErrorKind> {
        let system = QuicErrorKind::system;
        let place = host_and_port(address).map_err(|_| QuicErrorKind::Address)?;
        let found = lookup_host(place).await.map_err(|error| QuicErrorKind::Resolve(Arc::new(error)))?;
        let tls = load_tls(tls).await?;
        let mut config = tls.config(&Rejection::default())?;
        config.transport_config(options.transport());
        config.max_incoming(MAX_INCOMING);
        let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
        for address in found {
            let runtime = quinn::default_runtime()
                .ok_or_else(|| system(std::io::Error::other("there is no runtime")))?;
            let socket = std::net::UdpSocket::bind(address);
            match socket.and_then(|socket| {
                let endpoint_config = reset::endpoint(tls.secret(), socket.local_addr()?).unwrap_or_default();
                let endpoint = Endpoint::new(endpoint_config, Some(config.clone()), socket, runtime)?;
                let local = endpoint.local_addr()?;
                Ok((endpoint, local))
            }) {
                Ok(bound) => return Ok(bound),
                Err(error) => last = error,
            }
        }
        Err(system(last))
    }

    /// The address that it listens on, with the actual port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next peer. Returns `None` after the listener is closed. Establish each peer in its own task, so
    /// that a slow one does not delay others. While many handshakes are in progress, peers must show first that they receive at
    /// their addresses.
    ///
    /// Cancel-safe.
    pub async fn accept(&self) -> Option<Incoming> {
        loop {
            let inner = self.endpoint.accept().await?;
            let handshake = self.handshakes.clone();
            // One clone is the listener's, and one this peer's.
            let in_progress = Arc::strong_count(&handshake) - 2;
            if in_progress < RETRY_FROM || inner.remote_address_validated() {
                return Some(Incoming {
                    inner,
                    tls: self.tls.clone(),
                    options: self.options.clone(),
                    handshake,
                });
            }
            // It comes again with a token.
            if inner.retry().is_err() {
                tracing::debug!(target: "mcpjoin", "a peer cannot be asked to come again");
            }
        }
    }

    /// Rejects new peers from now on. Existing connections continue.
    pub fn stop(&self) {
        let mut refusing = self.refusing.lock();
        if refusing.is_none() {
            let (sender, gone) = oneshot::channel();
            *refusing = Some(sender);
            self.runtime.spawn(refuse(self.endpoint.clone(), gone));
        }
    }

    /// Closes every connection with code 0 and waits at most `limit` until the peers are informed.
    pub async fn close(&self, limit: Duration) {
        self.endpoint.close(VarInt::from_u32(0), b"");
        // After the limit the peers are not informed.
        let _ = timeout(limit, self.endpoint.wait_idle()).await;
    }
}

/// Rejects new peers until the endpoint is closed, or the listener is dropped and no connection is left.
async fn refuse(endpoint: Endpoint, gone: oneshot::Receiver<()>) {
    let mut unused = pin!(async {
        // Nothing is ever sent on this channel; dropping the sender ends the wait.
        let _ = gone.await;
        endpoint.wait_idle().await;
    });
    loop {
        tokio::select! {
            biased;
            incoming = endpoint.accept() => match incoming {
                Some(incoming) => incoming.refuse(),
                None => return,
            },
            () = &mut unused => return,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Without connections the endpoint closes by itself.
        if self.endpoint.open_connections() > 0 {
            self.stop();
        }
    }
}

/// Calls `tls` on a thread that may block.
async fn load_tls(tls: &Arc<Tls>) -> Result<ServerTls, CertificateError> {
    let tls = tls.clone();
    match tokio::task::spawn_blocking(move || tls()).await {
        Ok(tls) => tls,
        Err(error) => Err(CertificateError::interrupted(&error.to_string())),
    }
}

impl Incoming {
    /// The peer's claimed address. It is verified in the handshake.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.inner.remote_address()
    }

    /// Completes the handshake within [`QuicOptions::connect_timeout`]. A peer that is rejected receives the reason,
    /// and the reason is logged.
    ///
    /// # Errors
    /// [`QuicError`] says why there is no connection.
    pub async fn establish(self) -> Result<Connection, QuicError> {
        let address: Arc<str> = self.remote().to_string().into();
        match self.established(&address).await {
            Ok(connection) => Ok(connection),
            Err(kind) => {
                tracing::warn!(target: "mcpjoin", peer = %address, "a connection was refused: {kind}");
                Err(QuicError { address, kind })
            }
        }
    }

    async fn established(self, address: &Arc<str>) -> Result<Connection, QuicErrorKind> {
        let tls = load_tls(&self.tls).await?;
        let rejection = Rejection::default();
        let mut config = tls.config(&rejection)?;
        config.transport_config(self.options.transport());
        let failed = |error| QuicErrorKind::of(error, rejection_in(&rejection), tls.alpn());
        let after = self.options.connect_timeout;
        let connecting = self.inner.accept_with(Arc::new(config)).map_err(failed)?;
        let inner = match timeout(after, connecting).await {
            Ok(connected) => connected.map_err(failed)?,
            Err(_) => return Err(QuicErrorKind::TimedOut { after, attempts: Vec::new() }),
        };
        drop(self.handshake);
        Ok(Connection::new(inner, address.clone(), tls.alpn(), rejection, None))
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("remote", &self.remote()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use futures_util::stream::FuturesUnordered;

    use super::super::{ClientAuth, ClientTls, Identity, Trust, connect};
    use super::*;

    #[tokio::test]
    async fn while_64_handshakes_are_in_progress_a_peer_must_show_that_it_receives_at_its_address() {
        let identity = Identity::self_signed(["localhost"]).expect("an identity");
        let trust = Trust::Key(identity.facts().expect("a certificate").key_hash);
        let tls = move || ServerTls::new(identity.clone(), &ClientAuth::Anybody, "test");
        let options = QuicOptions::default();
        let listener = Listener::bind("127.0.0.1:0", tls, options.clone()).await.expect("a port");
        let (address, tls) = (listener.address().to_string(), ClientTls::new(&trust, None, "test"));
        let tls = tls.expect("a key");
        let client = || connect(&address, &tls, &options);
        let mut clients: FuturesUnordered<_> = (0..RETRY_FROM).map(|_| client()).collect();
        let mut held = Vec::new();
        while held.len() < RETRY_FROM {
            tokio::select! {
                incoming = listener.accept() => held.extend(incoming),
                ended = clients.next() => panic!("{ended:?}"),
            }
        }
        assert!(held.iter().all(|incoming| !incoming.inner.remote_address_validated()));
        let (one_more, connected) = tokio::join!(
            async {
                let incoming = listener.accept().await.expect("one more");
                (incoming.inner.remote_address_validated(), incoming.establish().await)
            },
            client()
        );
        assert!(one_more.0 && one_more.1.is_ok(), "{:?}", one_more.1);
        connected.expect("it has come again");
    }
}
