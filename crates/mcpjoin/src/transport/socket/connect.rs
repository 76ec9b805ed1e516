//! Connects to a server that listens on a socket.

use std::future::{Future, IntoFuture};
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mcpjoin_proto::session::Origin;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep_until, timeout};

use super::super::Link;
use super::{Attempt, Far, Socket, SocketError, SocketErrorKind, SocketLink, tune};

/// How long connecting may take: the default of the command line.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for an address before the next one is tried beside it:
/// [RFC 8305](https://www.rfc-editor.org/rfc/rfc8305#section-8).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// How many addresses of one name are tried: more than the timeout allows when none of them responds.
const MAX_ADDRESSES: usize = 64;
/// The first wait when the queue of a Unix socket is full; doubled each time up to a quarter second.
#[cfg(unix)]
const FULL_QUEUE_RETRY: Duration = Duration::from_millis(5);

/// A connection that is made when this is awaited.
#[derive(Clone, Debug)]
#[must_use = "nothing is connected before it is awaited"]
pub struct SocketConnect(Target);

/// The address of a connection, for programs that examine it beforehand.
#[cfg(unix)]
#[derive(Clone, Debug)]
pub enum SocketPlace {
    /// `host:port`, as it was given.
    Tcp(String),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

#[derive(Clone, Debug)]
enum Target {
    Tcp(TcpTarget),
    #[cfg(unix)]
    Unix(UnixTarget),
}

#[derive(Clone, Debug)]
pub(super) struct TcpTarget {
    address: String,
    timeout: Duration,
}

#[cfg(unix)]
#[derive(Clone, Debug)]
pub(super) struct UnixTarget {
    path: PathBuf,
    timeout: Duration,
}

impl Link {
    /// A link to a server that listens on a TCP port: `host:port`, where the host is a name, an IPv4 address, or an IPv6 address
    /// in brackets. The connection is not encrypted.
    ///
    /// A name may have several addresses. They are tried in turn, each a quarter second after the one before it or as soon as
    /// that has failed; the first connection is used. The link can be reopened: it then connects again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::transport::Listener;
    /// use mcpjoin::{Client, Link, Server};
    ///
    /// let listener = Listener::tcp("127.0.0.1:0").await?;
    /// let address = listener.address().socket_addr().expect("a port");
    /// let server = Server::builder("example", "1.0.0").build()?;
    /// tokio::spawn(async move { server.serve_all(listener, std::future::pending()).await });
    ///
    /// let link = Link::tcp(address.to_string()).await?;
    /// let client = Client::builder("example", "1.0.0").connect(link).await?;
    /// client.ping().await?;
    /// client.close().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SocketError`] when it is awaited: with every address that was tried, and its error.
    pub fn tcp(address: impl Into<String>) -> SocketConnect {
        SocketConnect(Target::Tcp(TcpTarget { address: address.into(), timeout: CONNECT_TIMEOUT }))
    }

    /// A link to a server that listens on a Unix socket. The link can be opened again: it then connects anew.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::{Client, Link};
    ///
    /// let link = Link::unix("/run/user/1000/tools.sock").await?;
    /// let client = Client::builder("example", "1.0.0").connect(link).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SocketError`] when it is awaited.
    #[cfg(unix)]
    pub fn unix(path: impl Into<PathBuf>) -> SocketConnect {
        SocketConnect(Target::Unix(UnixTarget { path: path.into(), timeout: CONNECT_TIMEOUT }))
    }
}

impl SocketConnect {
    /// Sets how long connecting may take in all, with resolving the name: 10 s by default.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        match &mut self.0 {
            Target::Tcp(target) => target.timeout = timeout,
            #[cfg(unix)]
            Target::Unix(target) => target.timeout = timeout,
        }
        self
    }

    /// The address.
    #[cfg(unix)]
    #[doc(hidden)]
    pub fn place(&self) -> SocketPlace {
        match &self.0 {
            Target::Tcp(target) => SocketPlace::Tcp(target.address.clone()),
            Target::Unix(target) => SocketPlace::Unix(target.path.clone()),
        }
    }

    /// How long connecting may take in all.
    #[cfg(unix)]
    #[doc(hidden)]
    pub const fn within(&self) -> Duration {
        match &self.0 {
            Target::Tcp(target) => target.timeout,
            Target::Unix(target) => target.timeout,
        }
    }

    async fn connect(self) -> Result<Link, SocketError> {
        match self.0 {
            Target::Tcp(target) => {
                let origin = Origin { peer: Some(target.address.as_str().into()), ..Origin::new("tcp") };
                link::<TcpStream>(target, origin).await
            }
            #[cfg(unix)]
            Target::Unix(target) => {
                let origin =
                    Origin { peer: Some(target.path.to_string_lossy().into()), ..Origin::new("unix") };
                link::<UnixStream>(target, origin).await
            }
        }
    }
}

/// Dropping the future before it is ready leaves nothing open.
impl IntoFuture for SocketConnect {
    type Output = Result<Link, SocketError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.connect())
    }
}

async fn link<S: Socket>(target: S::Target, origin: Origin) -> Result<Link, SocketError> {
    let socket = S::connect(target.clone()).await?;
    Ok(SocketLink::link(socket, Far::Server { target, opening: None }, origin))
}

/// Splits `host:port`.
pub fn host_and_port(address: &str) -> Result<(&str, u16), SocketErrorKind> {
    let wrong = |what| Err(SocketErrorKind::Address(what));
    let Some((host, port)) = address.rsplit_once(':') else { return wrong("the port is missing") };
    let Ok(port) = port.parse() else { return wrong("the port is not a number below 65536") };
    match host.strip_prefix('[').map(|host| host.strip_suffix(']')) {
        Some(Some(host)) if !host.is_empty() => Ok((host, port)),
        Some(_) => wrong("the brackets do not contain an IPv6 address"),
        None if host.is_empty() => wrong("the host is missing"),
        None if host.contains(':') => wrong("an IPv6 address must be in brackets"),
        None => Ok((host, port)),
    }
}

impl TcpTarget {
    pub(super) async fn connect(self) -> Result<TcpStream, SocketError> {
        let mut attempts = Vec::new();
        let kind = match timeout(self.timeout, reach(&self.address, &mut attempts)).await {
            Ok(Ok(stream)) => {
                tune(&stream);
                return Ok(stream);
            }
            Ok(Err(Some(kind))) => kind,
            Ok(Err(None)) => SocketErrorKind::Unreached(attempts),
            Err(_) => SocketErrorKind::TimedOut { after: self.timeout, attempts },
        };
        Err(SocketError { target: format!("tcp://{}", self.address), kind })
    }
}

/// Opens a TCP connection without MCP: `host:port`, within `timeout`.
pub async fn tcp_stream(address: &str, timeout: Duration) -> Result<TcpStream, SocketError> {
    TcpTarget { address: address.to_owned(), timeout }.connect().await
}

/// Tries the addresses concurrently. `attempts` lists the failures.
async fn reach(address: &str, attempts: &mut Vec<Attempt>) -> Result<TcpStream, Option<SocketErrorKind>> {
    let place = host_and_port(address)?;
    let found = lookup_host(place).await.map_err(SocketErrorKind::Resolve)?;
    let mut left = in_turn(found).into_iter().peekable();
    let mut trying = FuturesUnordered::new();
    let mut next = pin!(sleep_until(Instant::now()));
    loop {
        if let Some(address) = left.next() {
            let place = attempts.len();
            attempts.push(Attempt { address, error: None });
            trying.push(async move { (place, TcpStream::connect(address).await) });
            next.as_mut().reset(Instant::now() + ATTEMPT_DELAY);
        }
        tokio::select! {
            biased;
            outcome = trying.next() => match outcome {
                Some((_, Ok(stream))) => return Ok(stream),
                Some((place, Err(error))) => {
                    if let Some(attempt) = attempts.get_mut(place) {
                        attempt.error = Some(error);
                    }
                    if left.peek().is_none() && trying.is_empty() {
                        return Err(None);
                    }
                }
                None => {
                    let nothing = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                    return Err(Some(SocketErrorKind::Resolve(nothing)));
                }
            },
            () = &mut next, if left.peek().is_some() => {}
        }
    }
}

/// The addresses of a name that are tried: alternately one of each family, beginning with the family of the first, so that a
/// machine on which one family does not work loses a quarter second and not the whole timeout.
pub fn in_turn(found: impl IntoIterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let found: Vec<SocketAddr> = found.into_iter().take(MAX_ADDRESSES).collect();
    let first = found.first().is_some_and(SocketAddr::is_ipv6);
    let (preferred, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|address| address.is_ipv6() == first);
    let (mut preferred, mut others) = (preferred.into_iter(), others.into_iter());
    let mut all = Vec::new();
    loop {
        let before = all.len();
        all.extend(preferred.next());
        all.extend(others.next());
        if all.len() == before {
            return all;
        }
    }
}

#[cfg(unix)]
impl UnixTarget {
    pub(super) async fn connect(self) -> Result<UnixStream, SocketError> {
        let (path, after) = (&self.path, self.timeout);
        let reach = async {
            let mut pause = FULL_QUEUE_RETRY;
            loop {
                match UnixStream::connect(path).await {
                    // The queue is full, and the system offers no event for room in it.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(ATTEMPT_DELAY);
                    }
                    connected => return connected,
                }
            }
        };
        let kind = match timeout(after, reach).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => SocketErrorKind::System(error),
            Err(_) => SocketErrorKind::NotAccepted { after },
        };
        Err(SocketError { target: format!("unix:{}", path.display()), kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for (address, host, port) in [
            ("localhost:80", "localhost", 80),
            ("127.0.0.1:0", "127.0.0.1", 0),
            ("[::1]:65535", "::1", 65535),
            ("[fe80::1%eth0]:1", "fe80::1%eth0", 1),
        ] {
            assert_eq!(host_and_port(address).ok(), Some((host, port)), "{address}");
        }
        for address in
            ["", ":", "localhost", "localhost:", ":80", "host:65536", "host:-1", "::1:80", "[]:1", "[::1:80"]
        {
            assert!(matches!(host_and_port(address), Err(SocketErrorKind::Address(_))), "{address}");
        }
    }

    #[tokio::test]
    async fn a_connection_sends_at_once_and_notices_a_peer_that_is_gone() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let target = TcpTarget { address, timeout: CONNECT_TIMEOUT };
        let stream = target.connect().await.expect("a connection");
        assert!(stream.nodelay().expect("an option"));
        #[cfg(target_os = "linux")]
        {
            use rustix::net::sockopt;
            assert!(sockopt::socket_keepalive(&stream).expect("an option"));
            let idle = sockopt::tcp_keepidle(&stream).expect("an option");
            assert_eq!(idle, Duration::from_secs(60));
        }
    }

    #[test]
    fn both_kinds_of_addresses_take_turns() {
        let all = |addresses: &[&str]| {
            in_turn(addresses.iter().map(|address| address.parse().expect("an address")))
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            all(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]),
            ["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]
        );
        assert_eq!(all(&["1.1.1.1:1", "[::1]:1"]), ["1.1.1.1:1", "[::1]:1"]);
        assert!(all(&[]).is_empty());
    }

    #[test]
    fn the_number_of_tried_addresses_of_a_name_is_limited() {
        let found = |count: u16| (1..=count).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        assert_eq!(in_turn(found(64)), found(64).collect::<Vec<_>>());
        assert_eq!(in_turn(found(65)), found(64).collect::<Vec<_>>());
    }
}
