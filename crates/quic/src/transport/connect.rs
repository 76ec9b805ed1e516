//! Connects to a server that listens on QUIC.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use quinn::RecvStream;
use tokio::io::{AsyncRead, ReadBuf};

use super::{ALPN, Opened, Peer, QuicLink, options};
use crate::endpoint::{self as quic, ClientTls, Connection, Identity, QuicError, QuicErrorKind, Trust};
use mcpjoin::Link;

/// How many streams a server may open to this client: none.
const SERVER_STREAMS: u32 = 0;
/// Default number of streams that a client has open at once.
const MAX_STREAMS: u32 = 256;

/// Builds a connection to a server. Await it to connect.
#[derive(Clone, Debug)]
#[must_use = "nothing is connected before it is awaited"]
pub struct QuicConnect {
    address: String,
    trust: Trust,
    identity: Option<Identity>,
    server_name: Option<String>,
    timeout: Option<Duration>,
    streams: u32,
}

/// Builds a link to a server that speaks MCP over QUIC. `address` is `host:port`; the host is a name, an IPv4 address,
/// or an IPv6 address in brackets. `trust` says how the server is authenticated: by a certificate that an authority has
/// signed for that host, or by its public key.
///
/// Every request has its own stream. Requests do not wait for each other, and losing one does not affect the others.
/// The link can be reopened: it then makes a new connection.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mcpjoin::{Client, Server};
/// use mcpjoin_quic::{ClientAuth, Identity, Trust};
///
/// let identity = Identity::self_signed(["localhost"])?;
/// let pin = identity.facts().expect("a certificate that we made").key_hash;
/// let listener = mcpjoin_quic::listen("127.0.0.1:0", move || Ok((identity.clone(), ClientAuth::Anybody))).await?;
/// let address = listener.address().socket_addr().expect("an address");
/// let server = Server::builder("example", "1.0.0").build()?;
/// tokio::spawn(async move { server.serve_all(listener, std::future::pending()).await });
///
/// let link = mcpjoin_quic::connect(address.to_string(), Trust::Key(pin)).await?;
/// let client = Client::builder("example", "1.0.0").connect(link).await?;
/// client.ping().await?;
/// client.close().await;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Awaiting it fails with [`QuicError`], which lists every address that was tried with its error, or says what the two
/// sides do not agree on.
pub fn connect(address: impl Into<String>, trust: Trust) -> QuicConnect {
    QuicConnect {
        address: address.into(),
        trust,
        identity: None,
        server_name: None,
        timeout: None,
        streams: MAX_STREAMS,
    }
}

impl QuicConnect {
    /// Sets the certificate and key that authenticate this client when the server asks for a certificate.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Sets the name that the server's certificate must have. Default: the host of the address.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Sets the time limit for connecting, name resolution included. Default: 10 s.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how many streams may be open at once: 256 by default, at least 2, and never more than the server allows.
    /// One of them is the session stream. Further calls wait for a free stream.
    pub const fn streams(mut self, streams: u32) -> Self {
        self.streams = if streams < 2 { 2 } else { streams };
        self
    }

    /// The server's address, `host:port`.
    #[doc(hidden)]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How the server is authenticated.
    #[doc(hidden)]
    pub const fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Connects, and also returns the QUIC connection for inspection.
    #[doc(hidden)]
    pub async fn linked(self) -> Result<(Link, Connection), QuicError> {
        let opened = self.clone().open().await?;
        let (streams, connection) = (self.streams, opened.connection.clone());
        let peer = Peer::Server { target: Box::new(self), opening: None };
        Ok((Link::new(QuicLink::new(peer, opened.connection, Some(opened.session), streams)), connection))
    }

    /// Connects and sends all messages on the session stream, line by line as over standard input and output.
    /// `docs/quic.md` allows it, and a server must accept it. It is for tools that examine a server from outside and
    /// send invalid messages ([`RawLink::push_bytes`](mcpjoin::transport::RawLink::push_bytes)); with a normal client the
    /// calls would wait for each other. The link cannot be reopened.
    ///
    /// Dropping the future before it is ready closes the connection.
    ///
    /// # Errors
    /// As for [`connect`](crate::connect).
    pub async fn on_one_stream(self) -> Result<Link, QuicError> {
        let opened = self.open().await?;
        let (send, stream) = opened.session;
        Ok(Link::stream(SessionReader { stream, connection: opened.connection }, send, "quic"))
    }

    pub(super) const fn max_streams(&self) -> u32 {
        self.streams
    }

    pub(super) async fn open(self) -> Result<Opened, QuicError> {
        let wrong = |error| QuicError {
            address: self.address.as_str().into(),
            kind: QuicErrorKind::Certificate(error),
        };
        let mut tls = ClientTls::new(&self.trust, self.identity.clone(), ALPN).map_err(wrong)?;
        if let Some(name) = &self.server_name {
            tls = tls.server_name(name);
        }
        let mut options = options(self.streams);
        options.streams = SERVER_STREAMS;
        if let Some(timeout) = self.timeout {
            options.connect_timeout = timeout;
        }
        let connection = quic::connect(&self.address, &tls, &options).await?;
        // The server recognizes the session stream by its being the first.
        let session = connection.open().await?;
        Ok(Opened { connection, session })
    }
}

/// Dropping the future before it is ready closes the connection.
impl IntoFuture for QuicConnect {
    type Output = Result<Link, QuicError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.linked().await?.0) })
    }
}

/// The receiving side of the session stream.
struct SessionReader {
    stream: RecvStream,
    /// Keeps the connection open until this is dropped.
    connection: Connection,
}

impl AsyncRead for SessionReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = AsyncRead::poll_read(Pin::new(&mut self.stream), cx, buffer);
        match read {
            // A connection that was closed with code 0 is a normal end of the stream.
            Poll::Ready(Err(_)) if self.is_closed_in_order() => Poll::Ready(Ok(())),
            read => read,
        }
    }
}

impl SessionReader {
    fn is_closed_in_order(&self) -> bool {
        use crate::endpoint::QuicErrorKind::{Closed, ClosedByUs};
        self.connection.ended().is_some_and(|error| matches!(error.kind, Closed { code: 0, .. } | ClosedByUs))
    }
}
