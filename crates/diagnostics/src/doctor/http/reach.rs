//! Whether somebody takes a connection at each address of a name, and what they say first.
//!
//! Called by the examination over HTTP. Every connection is closed at once; what is not HTTP is asked for a page and for
//! nothing else.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::report::{Check, Finding, Phase};

/// Addresses of one name that are tried.
const ADDRESSES: usize = 8;
/// How much of what somebody says first is read, in bytes.
const FIRST: usize = 200;

/// So long the others have once one has taken a connection: packets that are lost are sent again within it.
const GRACE: Duration = Duration::from_millis(1500);

/// What came of connecting; `None`: no answer in time. With a connection: when it was there.
type Tried = Result<(TcpStream, Instant), Option<io::Error>>;

/// Addresses, and what came of connecting to each.
pub(super) struct Reached {
    each: Vec<(SocketAddr, Tried)>,
    /// When all of it was over.
    over: Instant,
}

impl Reached {
    /// Connects to all of them at once. Once one works, the others are not waited for much longer.
    pub(super) async fn connect(addresses: &[SocketAddr], within: Duration) -> Self {
        let mut each: Vec<_> =
            addresses.iter().take(ADDRESSES).map(|address| (*address, Err(None))).collect();
        let mut tried: FuturesUnordered<_> = each
            .iter()
            .enumerate()
            .map(|(place, (address, _))| {
                let connecting = TcpStream::connect(*address);
                async move { (place, connecting.await.map(|stream| (stream, Instant::now()))) }
            })
            .collect();
        let mut deadline = Instant::now() + within;
        while let Ok(Some((place, outcome))) = timeout_at(deadline, tried.next()).await {
            if let Ok((_, made)) = &outcome {
                deadline = deadline.min(*made + GRACE);
            }
            if let Some((_, slot)) = each.get_mut(place) {
                *slot = outcome.map_err(Some);
            }
        }
        Self { each, over: Instant::now() }
    }

    /// A connection, where one was made, and how long others were waited for when it was there.
    pub(super) fn stream(self) -> Option<(SocketAddr, TcpStream, Duration)> {
        let over = self.over;
        self.each.into_iter().find_map(|(address, outcome)| {
            let (stream, made) = outcome.ok()?;
            Some((address, stream, over.saturating_duration_since(made)))
        })
    }

    pub(super) fn any(&self) -> bool {
        self.each.iter().any(|(_, outcome)| outcome.is_ok())
    }

    /// An address that did not answer, where another did. Whose fault that is cannot be seen from here.
    pub(super) fn silent(&self) -> Option<IpAddr> {
        let silent = self.each.iter().find(|(_, outcome)| matches!(outcome, Err(None)));
        silent.filter(|_| self.any()).map(|(address, _)| address.ip())
    }

    /// Each address with what came of it, in one line.
    pub(super) fn detail(&self) -> String {
        let each = self.each.iter().map(|(address, outcome)| match outcome {
            Ok(_) => address.to_string(),
            Err(Some(error)) => format!("{address}: {error}"),
            Err(None) => format!("{address}: no answer"),
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// Where nobody took a connection: why not. `proxy`: it is the proxy that was called.
    pub(super) fn unreached(&self, within: Duration, proxy: Option<&str>) -> Finding {
        let refused = self.each.iter().any(|(_, outcome)| is_refused(outcome));
        let silent = self.each.iter().any(|(_, outcome)| matches!(outcome, Err(None)));
        let (id, meaning, advice) = match (refused, silent, proxy) {
            (true, _, None) => (
                "refused",
                "nothing listens on that port: the server does not run, or listens elsewhere",
                "start the server, and check the port that it says",
            ),
            (_, true, None) => (
                "unreached",
                "nobody answers: the machine is off, the address is another's, or a firewall swallows the packets",
                "check the host, and the firewalls on the way; behind a proxy set HTTPS_PROXY",
            ),
            (_, _, None) => (
                "unreached",
                "there is no way to it from here",
                "check the host, and the network of this machine",
            ),
            (true, _, Some(_)) => (
                "proxy-unreached",
                "the proxy that stands before the server does not run, and without it nothing is sent",
                "start the proxy, correct the variable that names it, or name the host in NO_PROXY",
            ),
            (false, _, Some(_)) => (
                "proxy-unreached",
                "the proxy that stands before the server is not reached, and without it nothing is sent",
                "correct the variable that names the proxy, or name the host in NO_PROXY",
            ),
        };
        let time = if silent { format!(" within {:.1} s", within.as_secs_f64()) } else { String::new() };
        let seen = match proxy {
            None => format!("no connection{time} ({})", self.detail()),
            Some(proxy) => format!("no connection to the proxy {proxy}{time} ({})", self.detail()),
        };
        let check = if proxy.is_some() { Check::Proxy } else { Check::Reached };
        Finding::new(id, check, Phase::Connect, seen, meaning, advice)
    }

    /// Where somebody listens on some of the addresses alone. One that refuses is judged; one that is silent, or that this
    /// machine has no way to, may be so for the network of this machine.
    pub(super) fn halves(&self, host: &str) -> Option<Finding> {
        let works: Vec<&SocketAddr> =
            self.each.iter().filter(|(_, outcome)| outcome.is_ok()).map(|(address, _)| address).collect();
        let deaf: Vec<&SocketAddr> =
            self.each.iter().filter(|(_, outcome)| is_refused(outcome)).map(|(address, _)| address).collect();
        let (first, other) = (works.first()?, deaf.first()?);
        let (id, meaning) = if first.is_ipv4() == other.is_ipv4() {
            (
                "some-addresses",
                "clients that take the one that does not answer fail, or wait for it".to_owned(),
            )
        } else {
            let (on, off) = if first.is_ipv4() { ("IPv4", "IPv6") } else { ("IPv6", "IPv4") };
            let meaning = format!(
                "the server listens over {on} alone: clients that try {off} first, and nothing else, get no connection"
            );
            ("one-family", meaning)
        };
        Some(Finding::new(
            id,
            Check::Families,
            Phase::Connect,
            format!("{host} is {} too, and nobody listens there ({})", other.ip(), self.detail()),
            meaning,
            match first.ip() {
                address if address.is_loopback() && address.is_ipv6() => {
                    "write [::1] in the URL, or let the server listen on 127.0.0.1 as well".to_owned()
                }
                address if address.is_loopback() => {
                    format!("write {address} in the URL, or let the server listen on ::1 as well")
                }
                _ => "let the server listen on all of its addresses, or take the others out of its name"
                    .to_owned(),
            },
        ))
    }
}

fn is_refused(outcome: &Tried) -> bool {
    matches!(outcome, Err(Some(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}

/// What somebody says first who is asked for a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum First {
    Bytes(Vec<u8>),
    /// The connection was closed.
    Closed,
    /// Nothing came in time.
    Silent,
}

pub(super) async fn first_words(address: SocketAddr, within: Duration) -> First {
    let asked = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.ok()?;
        let mut bytes = vec![0; FIRST];
        let read = stream.read(&mut bytes).await.ok()?;
        bytes.truncate(read);
        Some(bytes).filter(|bytes| !bytes.is_empty())
    };
    match timeout(within, asked).await {
        Ok(Some(bytes)) => First::Bytes(bytes),
        Ok(None) => First::Closed,
        Err(_) => First::Silent,
    }
}

/// Where a port of this machine is refused at the one loopback and taken at the other: both addresses. A name that leads
/// to one of them alone does not reach a server that listens at the other.
pub(super) async fn other_loopback(addresses: &[SocketAddr]) -> Option<(SocketAddr, SocketAddr)> {
    /// Both are on this machine: nothing keeps an answer.
    const NEAR: Duration = Duration::from_secs(1);
    for here in addresses.iter().copied().filter(|address| address.ip().is_loopback()) {
        let ip = match here.ip() {
            IpAddr::V4(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let there = SocketAddr::new(ip, here.port());
        if !addresses.contains(&there)
            && timeout(NEAR, TcpStream::connect(there)).await.is_ok_and(|to| to.is_ok())
        {
            return Some((here, there));
        }
    }
    None
}

/// Somebody listens on that port, at the other loopback.
pub(super) fn listens_there(finding: &mut Finding, here: SocketAddr, there: SocketAddr) {
    finding.id = "other-loopback";
    finding.meaning =
        format!("a server listens at {there}, and none at {here}: this machine has both addresses");
    finding.advice = format!("write {there} in the URL, or let the server listen at {here}, too");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn eight_addresses_of_a_name_are_tried() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addresses = vec![listener.local_addr().expect("an address"); 9];
        assert_eq!(Reached::connect(&addresses, Duration::from_secs(10)).await.each.len(), 8);
    }

    #[tokio::test]
    async fn a_server_on_one_family_alone_is_told() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let four = listener.local_addr().expect("an address");
        let six: SocketAddr = format!("[::1]:{}", four.port()).parse().expect("an address");
        let over = Instant::now();
        let connected = async || (TcpStream::connect(four).await.expect("a connection"), over);
        let refused = || Err(Some(io::ErrorKind::ConnectionRefused.into()));
        let one = Reached { each: vec![(six, refused()), (four, Ok(connected().await))], over };
        assert_eq!(one.silent(), None);
        let finding = one.halves("localhost").expect("a finding");
        assert_eq!((finding.id, finding.check), ("one-family", Check::Families));
        assert!(finding.meaning.contains("over IPv4 alone"), "{finding:?}");
        assert!(finding.advice.contains("write 127.0.0.1 in the URL"), "{finding:?}");
        // Where this machine has no IPv6 at all, nobody misses it.
        let unreachable = Err(Some(io::ErrorKind::AddrNotAvailable.into()));
        let other = Reached { each: vec![(six, unreachable), (four, Ok(connected().await))], over };
        assert!(other.halves("localhost").is_none());
        let both = Reached { each: vec![(four, Ok(connected().await)), (four, Ok(connected().await))], over };
        assert!(both.halves("localhost").is_none());
    }

    #[tokio::test]
    async fn an_address_that_is_silent_is_nobodys_fault_and_costs_the_server_no_time() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let four = listener.local_addr().expect("an address");
        let six: SocketAddr = format!("[2001:db8::1]:{}", four.port()).parse().expect("an address");
        let made = Instant::now();
        let stream = TcpStream::connect(four).await.expect("a connection");
        let each = vec![(six, Err(None)), (four, Ok((stream, made)))];
        let reached = Reached { each, over: made + GRACE };
        assert!(reached.halves("localhost").is_none());
        assert_eq!(reached.silent(), Some(six.ip()));
        let (address, _, waited) = reached.stream().expect("a connection");
        assert_eq!((address, waited), (four, GRACE));
    }
}
