//! Whether somebody takes a connection at each address of a name, and what they say first.
//!
//! Called by the examination over HTTP. Every connection is closed at once; what is not HTTP is asked for a page and for
//! nothing else.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::super::report::{Check, Finding, Phase};

/// Addresses of one name that are tried.
const ADDRESSES: usize = 8;
/// How much of what somebody says first is read, in bytes.
const FIRST: usize = 200;

/// Addresses, and what came of connecting to each; `None`: no answer in time.
pub(super) struct Reached(Vec<(SocketAddr, Result<TcpStream, Option<io::Error>>)>);

impl Reached {
    /// Connects to all of them at once.
    pub(super) async fn connect(addresses: &[SocketAddr], within: Duration) -> Self {
        let tried = addresses.iter().take(ADDRESSES).map(|address| async move {
            let outcome = match timeout(within, TcpStream::connect(address)).await {
                Ok(outcome) => outcome.map_err(Some),
                Err(_) => Err(None),
            };
            (*address, outcome)
        });
        Self(join_all(tried).await)
    }

    /// A connection, where one was made.
    pub(super) fn stream(self) -> Option<(SocketAddr, TcpStream)> {
        self.0.into_iter().find_map(|(address, outcome)| outcome.ok().map(|stream| (address, stream)))
    }

    pub(super) fn any(&self) -> bool {
        self.0.iter().any(|(_, outcome)| outcome.is_ok())
    }

    /// Each address with what came of it, in one line.
    pub(super) fn detail(&self) -> String {
        let each = self.0.iter().map(|(address, outcome)| match outcome {
            Ok(_) => address.to_string(),
            Err(Some(error)) => format!("{address}: {error}"),
            Err(None) => format!("{address}: no answer"),
        });
        each.collect::<Vec<_>>().join(", ")
    }

    /// Where nobody took a connection: why not. `proxy`: it is the proxy that was called.
    pub(super) fn unreached(&self, within: Duration, proxy: Option<&str>) -> Finding {
        let refused = self.0.iter().any(|(_, outcome)| is_refused(outcome));
        let silent = self.0.iter().any(|(_, outcome)| matches!(outcome, Err(None)));
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

    /// Where somebody listens on some of the addresses alone. One that this machine has no way to is not judged.
    pub(super) fn halves(&self, host: &str) -> Option<Finding> {
        let works: Vec<&SocketAddr> =
            self.0.iter().filter(|(_, outcome)| outcome.is_ok()).map(|(address, _)| address).collect();
        let deaf: Vec<&SocketAddr> = self
            .0
            .iter()
            .filter(|(_, outcome)| is_refused(outcome) || matches!(outcome, Err(None)))
            .map(|(address, _)| address)
            .collect();
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

fn is_refused(outcome: &Result<TcpStream, Option<io::Error>>) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_on_one_family_alone_is_told() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let four = listener.local_addr().expect("an address");
        let six: SocketAddr = format!("[::1]:{}", four.port()).parse().expect("an address");
        let connected = async || TcpStream::connect(four).await.expect("a connection");
        let refused = || Err(Some(io::ErrorKind::ConnectionRefused.into()));
        let one = Reached(vec![(six, refused()), (four, Ok(connected().await))]);
        let finding = one.halves("localhost").expect("a finding");
        assert_eq!((finding.id, finding.check), ("one-family", Check::Families));
        assert!(finding.meaning.contains("over IPv4 alone"), "{finding:?}");
        assert!(finding.advice.contains("write 127.0.0.1 in the URL"), "{finding:?}");
        // Where this machine has no IPv6 at all, nobody misses it.
        let unreachable = Err(Some(io::ErrorKind::AddrNotAvailable.into()));
        let other = Reached(vec![(six, unreachable), (four, Ok(connected().await))]);
        assert!(other.halves("localhost").is_none());
        let both = Reached(vec![(four, Ok(connected().await)), (four, Ok(connected().await))]);
        assert!(both.halves("localhost").is_none());
    }
}
