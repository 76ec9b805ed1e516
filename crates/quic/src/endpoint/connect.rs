//! Connects to a server: tries the addresses of a name, IPv4 and IPv6 in parallel ([RFC
//! 8305](https://www.rfc-editor.org/rfc/rfc8305)), and completes the handshake.

use std::future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use quinn::Endpoint;
use tokio::net::{UdpSocket, lookup_host};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::connection::{Rejection, rejection_in};
use super::error::{QuicAttempt, QuicError, QuicErrorKind};
use super::{ClientTls, Connection, QuicOptions};
use mcpjoin::internal::{host_and_port, in_turn};

/// Delay before the next address is tried in parallel, from [RFC
/// 8305](https://www.rfc-editor.org/rfc/rfc8305#section-8).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// The same for loopback addresses, which respond in less than a millisecond: `localhost` has two addresses, and many
/// programs listen on only one.
const LOOPBACK_ATTEMPT_DELAY: Duration = Duration::from_millis(20);
/// Interval of the checks for the peer's confirmation: the first one, and the maximum. It doubles each time.
const CONFIRM_POLL: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// Connects to `host:port`. The host is a name, an IPv4 address, or an IPv6 address in brackets. The future is ready
/// when the peer has confirmed the handshake and accepted our certificate.
///
/// The addresses of a name are tried in turn. Each attempt starts 250 ms after the one before (20 ms on loopback), or
/// as soon as that one fails. The first connection that succeeds is used. A closed port is detected at once if the
/// system reports it.
///
/// Dropping the future before it is ready closes everything.
///
/// # Errors
/// [`QuicError`] lists every address that was tried with its error, or says what the two sides do not agree on.
///
/// # Panics
/// Outside of a tokio runtime with I/O and time enabled.
pub async fn connect(address: &str, tls: &ClientTls, options: &QuicOptions) -> Result<Connection, QuicError> {
    let after = options.connect_timeout;
    let mut attempts = Vec::new();
    let kind = match timeout(after, connect_any(address, tls, options, &mut attempts)).await {
        Ok(Ok(connection)) => return Ok(connection),
        Ok(Err(Some(kind))) => kind,
        Ok(Err(None)) => QuicErrorKind::Unreached(attempts),
        Err(_) => QuicErrorKind::TimedOut { after, attempts },
    };
    Err(QuicError { address: address.into(), kind })
}

/// Tries the addresses in parallel. If all fail, `attempts` has their errors.
async fn connect_any(
    address: &str,
    tls: &ClientTls,
    options: &QuicOptions,
    attempts: &mut Vec<QuicAttempt>,
) -> Result<Connection, Option<QuicErrorKind>> {
    let (host, port) = host_and_port(address).map_err(|_| QuicErrorKind::Address)?;
    let found = lookup_host((host, port)).await.map_err(|error| QuicErrorKind::Resolve(Arc::new(error)))?;
    let mut remaining = in_turn(found).into_iter().peekable();
    let mut running = FuturesUnordered::new();
    let mut next = pin!(sleep_until(Instant::now()));
    loop {
        if let Some(target) = remaining.next() {
            let index = attempts.len();
            attempts.push(QuicAttempt { address: target, error: None });
            running.push(async move { (index, attempt(address, host, target, tls, options).await) });
            let stagger = if target.ip().is_loopback() { LOOPBACK_ATTEMPT_DELAY } else { ATTEMPT_DELAY };
            next.as_mut().reset(Instant::now() + stagger);
        }
        tokio::select! {
            biased;
            outcome = running.next() => match outcome {
                Some((_, Ok(connection))) => return Ok(connection),
                Some((_, Err(kind))) if kind.is_final() => return Err(Some(kind)),
                Some((index, Err(kind))) => {
                    if let Some(attempt) = attempts.get_mut(index) {
                        attempt.error = Some(kind.to_string());
                    }
                    if remaining.peek().is_none() && running.is_empty() {
                        return Err(None);
                    }
                }
                None => {
                    let nothing = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                    return Err(Some(QuicErrorKind::Resolve(Arc::new(nothing))));
                }
            },
            () = &mut next, if remaining.peek().is_some() => {}
        }
    }
}

/// Connects to one address and completes the handshake.
async fn attempt(
    address: &str,
    host: &str,
    target: SocketAddr,
    tls: &ClientTls,
    options: &QuicOptions,
) -> Result<Connection, QuicErrorKind> {
    let rejection = Rejection::default();
    let mut config = tls.config(&rejection)?;
    config.transport_config(options.transport());
    let endpoint = Endpoint::client(any_port(target)).map_err(QuicErrorKind::system)?;
    let name = tls.name_for(host)?;
    let connecting = endpoint
        .connect_with(config, target, &name)
        .map_err(|error| QuicErrorKind::Transport(error.to_string()))?;
    let alpn = tls.alpn();
    let failed = |error| QuicErrorKind::of(error, rejection_in(&rejection), alpn);
    let inner = tokio::select! {
        biased;
        connected = connecting => connected.map_err(failed)?,
        error = port_unreachable(target) => return Err(QuicErrorKind::system(error)),
    };
    wait_confirmed(&inner).await.map_err(failed)?;
    Ok(Connection::new(inner, address.into(), alpn, rejection, Some(endpoint)))
}

/// The unspecified address of the same family, for a socket with any free port.
fn any_port(target: SocketAddr) -> SocketAddr {
    let any: IpAddr =
        if target.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    SocketAddr::new(any, 0)
}

/// Waits for the server to confirm the handshake. In TLS 1.3 a client completes its handshake before the server has
/// verified the client's certificate.
async fn wait_confirmed(connection: &quinn::Connection) -> Result<(), quinn::ConnectionError> {
    let mut closed = pin!(connection.closed());
    let (mut pause, longest) = CONFIRM_POLL;
    while connection.stats().frame_rx.handshake_done == 0 {
        tokio::select! {
            biased;
            error = &mut closed => return Err(error),
            () = sleep(pause) => pause = (pause * 2).min(longest),
        }
    }
    Ok(())
}

/// Waits until the system reports that the port is closed. A QUIC socket does not receive that error, but a socket that
/// is connected to the peer does. It sends an empty datagram, which QUIC ignores.
pub(super) async fn port_unreachable(target: SocketAddr) -> io::Error {
    let probe = async {
        let socket = UdpSocket::bind(any_port(target)).await?;
        socket.connect(target).await?;
        socket.send(&[]).await?;
        // The peer never sends data here; only the error arrives.
        socket.recv(&mut [0]).await
    };
    match probe.await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => error,
        // The port is open, or the system does not report it.
        _ => future::pending().await,
    }
}
