//! Connecting to a server that listens on QUIC.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use super::{ALPN, Far, Made, QuicLink, options};
use crate::endpoint::{self as quic, ClientTls, Connection, Identity, QuicError, QuicErrorKind, Trust};
use mcpjoin::Link;

/// The streams that a server may have open at this client: it opens none.
const OF_SERVER: u32 = 0;
/// Streams that a client has open at once, where it is not told otherwise.
const STREAMS: u32 = 256;

/// A connection to be made. Await it to make it.
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

/// A link to a server that speaks MCP over QUIC: `host:port`, where the host is a name, an IPv4 address, or an IPv6
/// address in brackets. `trust` says whom to take for that server: one whose certificate certain authorities have
/// signed for that host, or one with a certain key.
///
/// Every request has a stream of its own, so that none waits for another, and a call that is lost takes no other with
/// it. The link can be opened again: it then connects anew.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mcpjoin::{Client, Server};
/// use mcpjoin_quic::{ClientsAre, Identity, Trust};
///
/// let identity = Identity::self_signed(["localhost"])?;
/// let pin = identity.facts().expect("a certificate that we made").key_hash;
/// let listener = mcpjoin_quic::listen("127.0.0.1:0", move || Ok((identity.clone(), ClientsAre::Anybody))).await?;
/// let address = listener.address().port().expect("a port");
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
/// [`QuicError`] when it is awaited: every address that was tried and what came of it, or what the two sides do not
/// agree on.
pub fn connect(address: impl Into<String>, trust: Trust) -> QuicConnect {
    QuicConnect {
        address: address.into(),
        trust,
        identity: None,
        server_name: None,
        timeout: None,
        streams: STREAMS,
    }
}

impl QuicConnect {
    /// What to show when the server wants to know who we are: a certificate and its key.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// The name that the server's certificate must have, where it is not the host of the address.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// How long connecting may take in all, resolving the name included: 10 s.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How many streams may be open at once: 256, or what the server allows, where that is less. One of them is for what
    /// belongs to no request; calls beyond the others wait for their turn. At least 2.
    pub const fn streams(mut self, streams: u32) -> Self {
        self.streams = if streams < 2 { 2 } else { streams };
        self
    }

    /// Where it connects to: `host:port`.
    #[doc(hidden)]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whom it takes for the server.
    #[doc(hidden)]
    pub const fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Connects. Also gives the connection itself, to be looked at.
    #[doc(hidden)]
    pub async fn linked(self) -> Result<(Link, Connection), QuicError> {
        let made = self.clone().made().await?;
        let (streams, connection) = (self.streams, made.connection.clone());
        let far = Far::Server { target: Box::new(self), opening: None };
        Ok((Link::new(QuicLink::new(far, made.connection, Some(made.session), streams)), connection))
    }

    pub(super) const fn most_streams(&self) -> u32 {
        self.streams
    }

    pub(super) async fn made(self) -> Result<Made, QuicError> {
        let wrong = |error| QuicError {
            address: self.address.as_str().into(),
            kind: QuicErrorKind::Certificate(error),
        };
        let mut tls = ClientTls::new(&self.trust, self.identity.clone(), ALPN).map_err(wrong)?;
        if let Some(name) = &self.server_name {
            tls = tls.server_name(name);
        }
        let mut options = options(self.streams);
        options.streams = OF_SERVER;
        if let Some(timeout) = self.timeout {
            options.connect_timeout = timeout;
        }
        let connection = quic::connect(&self.address, &tls, &options).await?;
        // The first of all: that is how the server knows it.
        let session = connection.open().await?;
        Ok(Made { connection, session })
    }
}

/// Dropped before it is ready, it leaves nothing open.
impl IntoFuture for QuicConnect {
    type Output = Result<Link, QuicError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.linked().await?.0) })
    }
}
