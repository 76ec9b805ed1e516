//! Connecting: every address of a name, IPv4 and IPv6 side by side ([RFC 8305](https://www.rfc-editor.org/rfc/rfc8305)),
//! until the peer has accepted us.

use std::future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use quinn::Endpoint;
use tokio::net::{UdpSocket, lookup_host};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::connection::{Refusal, Shared, refusal_in};
use super::error::{QuicAttempt, QuicError, QuicErrorKind};
use super::{ClientTls, Connection, QuicOptions};
use mcpjoin::internal::{host_and_port, in_turn};

/// How long to wait for an address before the next one is tried beside it:
/// [RFC 8305](https://www.rfc-editor.org/rfc/rfc8305#section-8).
const STAGGER: Duration = Duration::from_millis(250);
/// The same on this machine, where an answer takes less than a millisecond: `localhost` is two addresses, and many
/// programs listen on one.
const STAGGER_HERE: Duration = Duration::from_millis(20);
/// How often it is looked whether the peer has confirmed the handshake: at first, doubled each time, and at most.
const CONFIRMED: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// Connects to `host:port`, where the host is a name, an IPv4 address, or an IPv6 address in brackets. Ready when the
/// peer has confirmed the handshake, our certificate with it.
///
/// A name may have several addresses: they are tried in turn, each a quarter second after the one before it (on this
/// machine 20 ms) or as soon as that has failed, and the first that answers is taken. A port on which nobody listens is
/// noticed at once where the system says so.
///
/// Dropped before it is ready, it leaves nothing open.
///
/// # Errors
/// [`QuicError`] names every address that was tried and what came of it, or what the peer and we do not agree on.
///
/// # Panics
/// Outside of a tokio runtime with I/O and time enabled.
pub async fn connect(address: &str, tls: &ClientTls, options: &QuicOptions) -> Result<Connection, QuicError> {
    let after = options.connect_timeout;
    let mut attempts = Vec::new();
    let kind = match timeout(after, reach(address, tls, options, &mut attempts)).await {
        Ok(Ok(connection)) => return Ok(connection),
        Ok(Err(Some(kind))) => kind,
        Ok(Err(None)) => QuicErrorKind::Unreached(attempts),
        Err(_) => QuicErrorKind::TimedOut { after, attempts },
    };
    Err(QuicError { address: address.into(), kind })
}

/// Tries the addresses one beside the other. When all have failed, `attempts` tells it.
async fn reach(
    address: &str,
    tls: &ClientTls,
    options: &QuicOptions,
    attempts: &mut Vec<QuicAttempt>,
) -> Result<Connection, Option<QuicErrorKind>> {
    let (host, port) = host_and_port(address).map_err(|_| QuicErrorKind::Address)?;
    let found = lookup_host((host, port)).await.map_err(|error| QuicErrorKind::Resolve(Arc::new(error)))?;
    let mut left = in_turn(found).into_iter().peekable();
    let mut trying = FuturesUnordered::new();
    let mut next = pin!(sleep_until(Instant::now()));
    loop {
        if let Some(target) = left.next() {
            let place = attempts.len();
            attempts.push(QuicAttempt { address: target, error: None });
            trying.push(async move { (place, attempt(address, host, target, tls, options).await) });
            let stagger = if target.ip().is_loopback() { STAGGER_HERE } else { STAGGER };
            next.as_mut().reset(Instant::now() + stagger);
        }
        tokio::select! {
            biased;
            outcome = trying.next() => match outcome {
                Some((_, Ok(connection))) => return Ok(connection),
                Some((_, Err(kind))) if kind.is_final() => return Err(Some(kind)),
                Some((place, Err(kind))) => {
                    if let Some(attempt) = attempts.get_mut(place) {
                        attempt.error = Some(kind.to_string());
                    }
                    if left.peek().is_none() && trying.is_empty() {
                        return Err(None);
                    }
                }
                None => {
                    let nothing = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                    return Err(Some(QuicErrorKind::Resolve(Arc::new(nothing))));
                }
            },
            () = &mut next, if left.peek().is_some() => {}
        }
    }
}

/// One address, to the end of the handshake.
async fn attempt(
    address: &str,
    host: &str,
    target: SocketAddr,
    tls: &ClientTls,
    options: &QuicOptions,
) -> Result<Connection, QuicErrorKind> {
    let system = |error| QuicErrorKind::System(Arc::new(error));
    let refusal = Refusal::default();
    let mut config = tls.config(&refusal)?;
    config.transport_config(options.transport());
    let any: IpAddr =
        if target.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let endpoint = Endpoint::client(SocketAddr::new(any, 0)).map_err(system)?;
    let name = tls.name_for(host)?;
    let connecting = endpoint
        .connect_with(config, target, &name)
        .map_err(|error| QuicErrorKind::Transport(error.to_string()))?;
    let alpn = tls.alpn();
    let failed = |error| QuicErrorKind::of(error, refusal_in(&refusal), alpn);
    let inner = tokio::select! {
        biased;
        connected = connecting => connected.map_err(failed)?,
        error = nobody_listens(target) => return Err(system(error)),
    };
    confirmed(&inner).await.map_err(failed)?;
    let (address, alpn) = (address.into(), alpn.to_owned());
    let (endpoint, closed_after) = (Some(endpoint), OnceLock::new());
    Ok(Connection { inner, shared: Arc::new(Shared { address, alpn, refusal, endpoint, closed_after }) })
}

/// In TLS 1.3 a client is through before the server has seen its certificate. The server confirms the handshake when it
/// has accepted it.
async fn confirmed(connection: &quinn::Connection) -> Result<(), quinn::ConnectionError> {
    let mut closed = pin!(connection.closed());
    let (mut pause, most) = CONFIRMED;
    while connection.stats().frame_rx.handshake_done == 0 {
        tokio::select! {
            biased;
            error = &mut closed => return Err(error),
            () = sleep(pause) => pause = (pause * 2).min(most),
        }
    }
    Ok(())
}

/// Waits until the system says that nobody listens on that port. A QUIC socket does not hear of it; one that is bound to
/// the peer does, and an empty datagram, which QUIC ignores, is enough to ask.
pub(super) async fn nobody_listens(target: SocketAddr) -> io::Error {
    let any: IpAddr =
        if target.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let asked = async {
        let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
        socket.connect(target).await?;
        socket.send(&[]).await?;
        // What comes back is nothing but the refusal.
        socket.recv(&mut [0]).await
    };
    match asked.await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => error,
        // Somebody listens, or nobody says so.
        _ => future::pending().await,
    }
}
