//! What connects two peers.
//!
//! A [`Link`] is one end of a way between two peers; a transport is a function that returns one. Called by
//! `client` and `server`, driven by `connection`. A link moves messages and knows nothing of what they mean:
//! it never answers, never retries and never looks at the era.
//!
//! There is no transport trait to implement. A custom transport takes [`Link::pair`] and pumps the
//! [`LinkDriver`]'s side.

pub(crate) mod around;
mod bare;
#[cfg(unix)]
mod child;
mod gather;
#[cfg(feature = "http")]
mod http_client;
#[cfg(feature = "http")]
pub(crate) mod http_server;
mod memory;
mod pair;
#[cfg(any(feature = "http", unix))]
pub(crate) mod proxies;
mod queue;
#[cfg(feature = "quic")]
mod quic;
mod socket;
mod standing;
#[cfg(unix)]
mod stdio;
mod stream;
mod tap;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::task::{Context, Poll};

use bytes::Bytes;
use mcpjoin_proto::session::{Inbound, Limits, LinkCaps, LinkEnd, LinkError, Outbound};

#[cfg(unix)]
pub use crate::process::{Forced, ShutdownReport, SpawnError, SpawnErrorKind, Survivor};
pub use bare::BareLink;
#[cfg(unix)]
pub use child::{ChildCommand, ChildHandle};
#[cfg(feature = "http")]
pub use http_client::{
    AfterChallenge, AuthorizationChallenge, AuthorizationRequest, Credentials, CredentialsError, HttpConnect,
    HttpHandle, HttpSetupError, HttpWay,
};
#[cfg(feature = "http")]
pub(crate) use http_client::{Checked, ErasedCredentials, Proxy, readable, refusal, shown};
#[cfg(all(feature = "http", unix))]
pub(crate) use http_client::{Exchanged, is_an_authoritys, is_excepted, tls_text, untrusted_issuer};
#[cfg(feature = "oauth")]
pub(crate) use http_client::{describe, find, root, tls_config};
#[cfg(feature = "http")]
pub use http_server::{
    Event, EventId, EventIdError, EventStore, HttpBody, HttpFuture, HttpListenError, HttpListener,
    HttpOptions, HttpService, MemoryEvents, Replay, SessionId,
};
pub use pair::{Closed, LinkDriver, LinkReceiver, LinkSender};
#[cfg(feature = "quic")]
pub use quic::{ALPN, QuicConnect, QuicListen};
#[cfg(unix)]
pub(crate) use socket::SocketPlace;
#[cfg(any(unix, feature = "quic"))]
pub(crate) use socket::host_and_port;
pub use socket::{
    Attempt, ListenAddress, Listener, ListenerHandle, SocketConnect, SocketError, SocketErrorKind,
};
#[cfg(feature = "quic")]
pub(crate) use socket::{in_turn, tcp_stream};
pub(crate) use standing::{Authorization, Standing};
use tap::Tap;
pub use tap::{Crossed, Way};

/// One end of a way between two peers. Given to a client or a server, which drives it.
pub struct Link(Box<dyn Io>);

/// What a link does for the connection that drives it. Polled by one task alone.
///
/// Everything here is cancel-safe: a poll that returns `Pending` has done nothing that is lost.
pub(crate) trait Io: Send {
    /// What can be done over this link.
    fn caps(&self) -> LinkCaps;

    /// Whether a modern client repeats arguments in headers here, as the marks of a tool's schema say: HTTP alone.
    fn has_headers(&self) -> bool {
        false
    }

    /// Sets the bounds that concern the link (message size, decoding). Called once, before the first poll.
    fn configure(&mut self, limits: &Limits);

    /// The next thing that came in. After [`Inbound::Closed`] it is not polled again.
    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound>;

    /// Whether [`Io::push`] may be called: the link's own buffer is below its bound (256 KiB).
    fn has_room(&self) -> bool;

    /// Takes a message to send. It leaves with the next [`Io::poll_flush`].
    fn push(&mut self, outbound: Outbound);

    /// Takes bytes to send as they are, message or not: they leave with the next [`Io::poll_flush`]. False where a
    /// link carries messages and no bytes.
    fn push_bytes(&mut self, bytes: &Bytes) -> bool {
        let _ = bytes;
        false
    }

    /// Sends what was pushed, as much as goes. `Ready(Ok)` when nothing is left. An error is told once, and
    /// reading may go on to give what is still readable, then [`Inbound::Closed`].
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>>;

    /// Throws away what was pushed and has not left: the far end takes nothing, and nobody will wait for it.
    fn discard(&mut self) {}

    /// How many bytes (or, where nothing is serialised, messages) were handed to the far end since the link was made.
    /// The session learns from it whether the peer takes anything.
    fn sent(&self) -> u64;

    /// Closes our sending side and ends what the link has started: the shutdown ladder of a child. Ready when
    /// nothing of it is left. May be called after an error. Dropping the link instead ends everything at once.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<LinkEnd>;

    /// Makes the far end afresh after it has ended, where [`LinkCaps::reopens`] says so.
    fn poll_reopen(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>>;

    /// Watches the child process that the link has started, where there is one.
    #[cfg(unix)]
    fn child(&self) -> Option<ChildHandle> {
        None
    }

    /// With whom it connects, and in whose name.
    fn standing(&self) -> Standing {
        Standing::default()
    }

    /// Tells, now and later, whether somebody listens to what belongs to no request; `None` where nobody need listen for it.
    fn heard(&self) -> Option<Box<dyn Fn() -> bool + Send + Sync>> {
        None
    }

    /// Shows everything that crosses to `tap`, as the bytes that it is. A link that has none gives the tap back,
    /// and messages are shown instead.
    fn tap(&mut self, tap: Tap) -> Result<(), Tap> {
        Err(tap)
    }
}

impl Link {
    /// A link over something that moves messages.
    pub(crate) fn new(io: impl Io + 'static) -> Self {
        Self(Box::new(io))
    }

    /// Watches the child process at the far end: its id, its last words, how it ended, what could not be ended of
    /// what it had started. `None` when the far end is no child of ours.
    #[cfg(unix)]
    #[must_use]
    pub fn child(&self) -> Option<ChildHandle> {
        self.0.child()
    }

    pub(crate) fn has_headers(&self) -> bool {
        self.0.has_headers()
    }

    pub(crate) fn standing(&self) -> Standing {
        self.0.standing()
    }

    pub(crate) fn into_io(self) -> Box<dyn Io> {
        self.0
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("caps", &self.0.caps()).finish_non_exhaustive()
    }
}

/// What a link says that cannot make its far end afresh.
fn cannot_reopen() -> LinkEnd {
    LinkEnd::failed(LinkError::new("this link cannot be opened again", false))
}

/// The address that stands for all addresses of one subscriber, to whom shares and limits belong. A network of IPv6 is one
/// subscriber's down to 64 bits (<https://www.rfc-editor.org/rfc/rfc6177>).
pub(crate) fn subscriber(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}
