//! Listening: who comes, and the handshake with each.

use std::fmt;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use quinn::{Endpoint, VarInt};
use tokio::net::lookup_host;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::connection::{Refusal, Shared, refusal_in};
use super::error::{QuicError, QuicErrorKind};
use super::tls::CertificateError;
use super::{Connection, QuicOptions, ServerTls, reset};
use mcpjoin::internal::host_and_port;

/// How many may wait to be taken by [`Incoming::establish`] at once. Who comes beyond that is not heard, and comes again
/// by itself: what has no answer is sent once more a second later, and so on until its time is over.
const INCOMING: usize = 256;

type Tls = dyn Fn() -> Result<ServerTls, CertificateError> + Send + Sync;

/// Accepts connections on a UDP port. Dropped, it refuses everybody from then on, and connections go on: the port is
/// free when the last of them has ended. [`Listener::close`] ends them.
pub struct Listener {
    endpoint: Endpoint,
    /// Where it was made, and what tells those who refuse that it is gone.
    runtime: Handle,
    refusing: Mutex<Option<oneshot::Sender<()>>>,
    address: SocketAddr,
    tls: Arc<Tls>,
    options: QuicOptions,
}

/// A peer that has begun to connect. Dropped, it is refused.
pub struct Incoming {
    inner: quinn::Incoming,
    tls: Arc<Tls>,
    options: QuicOptions,
}

impl Listener {
    /// Listens on `host:port`, as for [`connect`](super::connect). Of a name with several addresses the first that can be
    /// listened on is taken; port 0 is any that is free.
    ///
    /// `tls` is asked for each connection that comes, on a thread that may block, so that certificates that have changed
    /// are used from then on. What it says first must be good; when it fails later, that connection is refused and the
    /// reason logged.
    ///
    /// # Errors
    /// [`QuicError`] says what the system or the certificates have.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    pub async fn bind(
        address: &str,
        tls: impl Fn() -> Result<ServerTls, CertificateError> + Send + Sync + 'static,
        options: QuicOptions,
    ) -> Result<Self, QuicError> {
        let tls: Arc<Tls> = Arc::new(tls);
        match Self::bound(address, &tls, &options).await {
            Ok(endpoint) => {
                let system = |error| QuicErrorKind::System(Arc::new(error));
                let local = endpoint.local_addr().map_err(system);
                let local = local.map_err(|kind| QuicError { address: address.into(), kind })?;
                let (runtime, refusing) = (Handle::current(), Mutex::default());
                Ok(Self { endpoint, runtime, refusing, address: local, tls, options })
            }
            Err(kind) => Err(QuicError { address: address.into(), kind }),
        }
    }

    async fn bound(address: &str, tls: &Arc<Tls>, options: &QuicOptions) -> Result<Endpoint, QuicErrorKind> {
        let system = |error| QuicErrorKind::System(Arc::new(error));
        let place = host_and_port(address).map_err(|_| QuicErrorKind::Address)?;
        let found = lookup_host(place).await.map_err(|error| QuicErrorKind::Resolve(Arc::new(error)))?;
        let tls = asked(tls).await?;
        let mut config = tls.config(&Refusal::default())?;
        config.transport_config(options.transport());
        config.max_incoming(INCOMING);
        let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
        for address in found {
            let runtime = quinn::default_runtime()
                .ok_or_else(|| system(std::io::Error::other("there is no runtime")))?;
            let bound = std::net::UdpSocket::bind(address);
            match bound.and_then(|socket| {
                let known_again = reset::endpoint(tls.secret(), socket.local_addr()?).unwrap_or_default();
                Endpoint::new(known_again, Some(config.clone()), socket, runtime)
            }) {
                Ok(endpoint) => return Ok(endpoint),
                Err(error) => last = error,
            }
        }
        Err(system(last))
    }

    /// Where it listens: the port that was free, where any was asked for.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next peer; `None` when the listener is closed. What comes is to be established in a task of its
    /// own, so that a slow peer keeps nobody waiting.
    ///
    /// Cancel-safe.
    pub async fn accept(&self) -> Option<Incoming> {
        let inner = self.endpoint.accept().await?;
        Some(Incoming { inner, tls: self.tls.clone(), options: self.options.clone() })
    }

    /// Refuses everybody from now on, and tells them so; connections go on.
    pub fn stop(&self) {
        let mut refusing = self.refusing.lock().unwrap_or_else(PoisonError::into_inner);
        if refusing.is_none() {
            let (sender, gone) = oneshot::channel();
            *refusing = Some(sender);
            self.runtime.spawn(refuse(self.endpoint.clone(), gone));
        }
    }

    /// Ends every connection with code 0, and waits at most `most` for the peers to be told.
    pub async fn close(&self, most: Duration) {
        self.endpoint.close(VarInt::from_u32(0), b"");
        // When the time is over there is nobody to tell.
        let _ = timeout(most, self.endpoint.wait_idle()).await;
    }
}

/// Refuses everybody who comes, until the endpoint is closed, or the listener is gone and no connection is left.
async fn refuse(endpoint: Endpoint, gone: oneshot::Receiver<()>) {
    let mut unused = pin!(async {
        // It is never sent, only dropped.
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
        // Without a connection nothing of it stays.
        if self.endpoint.open_connections() > 0 {
            self.stop();
        }
    }
}

/// Asks where it may block.
async fn asked(tls: &Arc<Tls>) -> Result<ServerTls, CertificateError> {
    let tls = tls.clone();
    match tokio::task::spawn_blocking(move || tls()).await {
        Ok(tls) => tls,
        Err(error) => Err(CertificateError::interrupted(&error.to_string())),
    }
}

impl Incoming {
    /// Where the peer is, by its own word until it is established.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.inner.remote_address()
    }

    /// Goes through the handshake, within [`QuicOptions::connect_timeout`]. A peer that is refused is told why, and so
    /// is the log.
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
        let tls = asked(&self.tls).await?;
        let refusal = Refusal::default();
        let mut config = tls.config(&refusal)?;
        config.transport_config(self.options.transport());
        let failed = |error| QuicErrorKind::of(error, refusal_in(&refusal), tls.alpn());
        let after = self.options.connect_timeout;
        let connecting = self.inner.accept_with(Arc::new(config)).map_err(failed)?;
        let inner = match timeout(after, connecting).await {
            Ok(connected) => connected.map_err(failed)?,
            Err(_) => return Err(QuicErrorKind::TimedOut { after, attempts: Vec::new() }),
        };
        let (address, alpn) = (address.clone(), tls.alpn().to_owned());
        let closed_after = OnceLock::new();
        Ok(Connection {
            inner,
            shared: Arc::new(Shared { address, alpn, refusal, endpoint: None, closed_after }),
        })
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
