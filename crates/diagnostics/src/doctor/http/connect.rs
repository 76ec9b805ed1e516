//! Connects to each address of a name, and reads the first bytes of a peer.
//!
//! Used by the examination over HTTP. Every connection is closed at once; a peer that does not speak HTTP gets a GET and
//! nothing else.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::examination::seconds;
use super::super::findings::*;
use super::super::report::{Finding, Phase};

/// Addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;
/// How many of the first bytes of a peer are read.
const MAX_FIRST_BYTES: usize = 200;
/// How long the other addresses have after the first connection: a lost packet is sent again within it.
const OTHERS_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long a connection to this machine may take.
const LOOPBACK_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection and when it was made; an error, or `None` for no answer in time.
type Attempt = Result<(TcpStream, Instant), Option<io::Error>>;

/// The connections to the addresses of a name.
pub(super) struct Connections {
    each: Vec<(SocketAddr, Attempt)>,
    /// When all attempts had ended.
    ended: Instant,
}

impl Connections {
    /// Connects to all of them at once. After the first connection the others get 1.5 s.
    pub(super) async fn open(addresses: &[SocketAddr], timeout: Duration) -> Self {
        let mut each: Vec<_> =
            addresses.iter().take(MAX_ADDRESSES).map(|address| (*address, Err(None))).collect();
        let mut attempts: FuturesUnordered<_> = each
            .iter()
            .enumerate()
            .map(|(place, (address, _))| {
                let connecting = TcpStream::connect(*address);
                async move { (place, connecting.await.map(|stream| (stream, Instant::now()))) }
            })
            .collect();
        let mut deadline = Instant::now() + timeout;
        while let Ok(Some((place, outcome))) = timeout_at(deadline, attempts.next()).await {
            if let Ok((_, made)) = &outcome {
                deadline = deadline.min(*made + OTHERS_TIMEOUT);
            }
            if let Some((_, slot)) = each.get_mut(place) {
                *slot = outcome.map_err(Some);
            }
        }
        Self { each, ended: Instant::now() }
    }

    /// A connection, its address, and how long it waited for the other attempts.
    pub(super) fn into_stream(self) -> Option<(SocketAddr, TcpStream, Duration)> {
        let ended = self.ended;
        self.each.into_iter().find_map(|(address, outcome)| {
            let (stream, made) = outcome.ok()?;
            Some((address, stream, ended.saturating_duration_since(made)))
        })
    }

    pub(super) fn any(&self) -> bool {
        self.each.iter().any(|(_, outcome)| outcome.is_ok())
    }

    /// An address that did not answer while another did. Its server or the network may be at fault.
    pub(super) fn silent(&self) -> Option<IpAddr> {
        let silent = self.each.iter().find(|(_, outcome)| matches!(outcome, Err(None)));
        silent.filter(|_| self.any()).map(|(address, _)| address.ip())
    }

    /// Each address with its outcome, in one line.
    pub(super) fn detail(&self) -> String {
        let each = self.each.iter().map(|(address, outcome)| match outcome {
            Ok(_) => address.to_string(),
            Err(Some(error)) => format!("{address}: {error}"),
            Err(None) => format!("{address}: no answer"),
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// The finding where no connection was made. `proxy`: the addresses are those of the proxy.
    pub(super) fn none_open(&self, timeout: Duration, proxy: Option<&str>) -> Finding {
        let refused = self.each.iter().any(|(_, outcome)| is_refused(outcome));
        let silent = self.each.iter().any(|(_, outcome)| matches!(outcome, Err(None)));
        let kind = match (refused, silent, proxy) {
            (true, _, None) => HTTP_PORT_REFUSED,
            (_, true, None) => NO_HTTP_ANSWER,
            (_, _, None) => NO_ROUTE,
            (true, _, Some(_)) => PROXY_REFUSES_CONNECTION,
            (false, _, Some(_)) => PROXY_UNREACHED,
        };
        let to = proxy.map(|proxy| format!(" to the proxy {proxy}")).unwrap_or_default();
        let time = if silent { format!(" within {}", seconds(timeout)) } else { String::new() };
        kind.at(Phase::Connect, format!("no connection{to}{time} ({})", self.detail()))
    }

    /// The finding where some addresses accept a connection and others refuse it. An address that is silent or that this
    /// machine cannot reach is no fault: the network may be the cause.
    pub(super) fn some_refused(&self, host: &str) -> Option<Finding> {
        let (open, _) = self.each.iter().find(|(_, outcome)| outcome.is_ok())?;
        let (refused, _) = self.each.iter().find(|(_, outcome)| is_refused(outcome))?;
        let advice = match open.ip() {
            IpAddr::V6(ip) if ip.is_loopback() => {
                "use [::1] in the URL, or let the server also listen on 127.0.0.1".to_owned()
            }
            ip if ip.is_loopback() => {
                format!("use {ip} in the URL, or let the server also listen on ::1")
            }
            _ => "let the server listen on all of its addresses, or remove the others from DNS".to_owned(),
        };
        let (on, off) = if open.is_ipv4() { ("IPv4", "IPv6") } else { ("IPv6", "IPv4") };
        let kind = if open.is_ipv4() == refused.is_ipv4() { SOME_ADDRESSES } else { ONE_FAMILY };
        let seen = format!("{host} is also {}, but nothing listens there ({})", refused.ip(), self.detail());
        Some(kind.with(Phase::Connect, seen, &[("on", on), ("off", off), ("advice", &advice)]))
    }
}

fn is_refused(outcome: &Attempt) -> bool {
    matches!(outcome, Err(Some(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}

/// What a peer sends after a GET.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FirstBytes {
    Received(Vec<u8>),
    /// The connection was closed.
    Closed,
    /// Nothing arrived in time.
    Silent,
}

/// Sends a GET, and reads at most 200 bytes.
pub(super) async fn first_bytes(address: SocketAddr, limit: Duration) -> FirstBytes {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.ok()?;
        let mut bytes = vec![0; MAX_FIRST_BYTES];
        let read = stream.read(&mut bytes).await.ok()?;
        bytes.truncate(read);
        Some(bytes).filter(|bytes| !bytes.is_empty())
    };
    match timeout(limit, exchange).await {
        Ok(Some(bytes)) => FirstBytes::Received(bytes),
        Ok(None) => FirstBytes::Closed,
        Err(_) => FirstBytes::Silent,
    }
}

/// A loopback address that was tried, and the one of the other family that accepts connections on this port. A name that
/// resolves to one of them does not reach a server that listens on the other.
pub(super) async fn other_loopback(addresses: &[SocketAddr]) -> Option<(SocketAddr, SocketAddr)> {
    for here in addresses.iter().copied().filter(|address| address.ip().is_loopback()) {
        let ip = match here.ip() {
            IpAddr::V4(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let there = SocketAddr::new(ip, here.port());
        if !addresses.contains(&there)
            && timeout(LOOPBACK_TIMEOUT, TcpStream::connect(there)).await.is_ok_and(|to| to.is_ok())
        {
            return Some((here, there));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::report::Check;

    #[tokio::test]
    async fn eight_addresses_of_a_name_are_tried() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addresses = vec![listener.local_addr().expect("an address"); 9];
        assert_eq!(Connections::open(&addresses, Duration::from_secs(10)).await.each.len(), 8);
    }

    #[tokio::test]
    async fn a_server_on_one_family_only_is_found() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let four = listener.local_addr().expect("an address");
        let six: SocketAddr = format!("[::1]:{}", four.port()).parse().expect("an address");
        let ended = Instant::now();
        let connected = async || (TcpStream::connect(four).await.expect("a connection"), ended);
        let refused = || Err(Some(io::ErrorKind::ConnectionRefused.into()));
        let one = Connections { each: vec![(six, refused()), (four, Ok(connected().await))], ended };
        assert_eq!(one.silent(), None);
        let finding = one.some_refused("localhost").expect("a finding");
        assert_eq!((finding.id, finding.check), ("one-family", Check::Families));
        assert!(finding.meaning.contains("only over IPv4"), "{finding:?}");
        assert!(finding.advice.contains("use 127.0.0.1 in the URL"), "{finding:?}");
        // A machine without IPv6 has no fault.
        let unreachable = Err(Some(io::ErrorKind::AddrNotAvailable.into()));
        let other = Connections { each: vec![(six, unreachable), (four, Ok(connected().await))], ended };
        assert!(other.some_refused("localhost").is_none());
        let both =
            Connections { each: vec![(four, Ok(connected().await)), (four, Ok(connected().await))], ended };
        assert!(both.some_refused("localhost").is_none());
    }

    #[tokio::test]
    async fn a_silent_address_is_no_fault_and_costs_the_server_no_time() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let four = listener.local_addr().expect("an address");
        let six: SocketAddr = format!("[2001:db8::1]:{}", four.port()).parse().expect("an address");
        let made = Instant::now();
        let stream = TcpStream::connect(four).await.expect("a connection");
        let each = vec![(six, Err(None)), (four, Ok((stream, made)))];
        let connections = Connections { each, ended: made + OTHERS_TIMEOUT };
        assert!(connections.some_refused("localhost").is_none());
        assert_eq!(connections.silent(), Some(six.ip()));
        let (address, _, waited) = connections.into_stream().expect("a connection");
        assert_eq!((address, waited), (four, OTHERS_TIMEOUT));
    }
}
