//! What connects two peers.
//!
//! A [`Link`] is one end of a channel between two peers; a transport is a function that returns one. Called by
//! `client` and `server`, driven by `connection`. A link moves messages and knows nothing of what they mean:
//! it never answers, never retries and never looks at the era.
//!
//! A custom transport implements [`Transport`]; one that is easier to write as two tasks takes [`Link::channel`] and pumps the
//! [`ChannelDriver`]'s side.

mod channel;
#[cfg(all(unix, feature = "child"))]
pub(crate) mod child;
pub(crate) mod gather;
#[cfg(feature = "http-client")]
pub(crate) mod http_client;
#[cfg(feature = "http-server")]
pub(crate) mod http_server;
mod identity;
pub(crate) mod inspect;
pub(crate) mod layer;
mod listener;
mod memory;
mod queue;
mod raw_link;
#[cfg(feature = "socket")]
pub(crate) mod socket;
#[cfg(unix)]
mod stdio;
pub(crate) mod stream;
mod upstream_session;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use mcpjoin_proto::session::{
    Inbound, Limits, Origin, Outbound, TransportCaps, TransportEnd, TransportError,
};

#[cfg(all(unix, feature = "child"))]
pub use crate::process::{Forced, ShutdownReport, SpawnError, SpawnErrorKind, Survivor};
pub use channel::{ChannelDriver, ChannelReceiver, ChannelSender, Closed};
#[cfg(all(unix, feature = "child"))]
pub use child::{ChildCommand, ChildHandle};
#[cfg(feature = "http-client")]
pub use http_client::{
    AfterChallenge, AuthorizationChallenge, AuthorizationRequest, Credentials, CredentialsError, HttpConnect,
    HttpHandle, HttpSetupError, HttpWay,
};
#[cfg(feature = "http-server")]
pub use http_server::{
    Admission, Admitted, Admitting, Confirm, Confirmation, Denied, Event, EventId, EventIdError, EventStore,
    EventStoreError, HttpBody, HttpFuture, HttpListenError, HttpListener, HttpOptions, HttpService,
    MemoryEvents, Replay, Replayed, Replicas, ReplicasError, SessionId, SessionRecord, SessionStore,
    SessionStoreError, Stored, StreamEnd,
};
pub use identity::{CredentialKey, PeerIdentity};
pub use inspect::{Direction, Inspected, Inspector};
pub(crate) use layer::TransportLayer;
pub use listener::{Accept, ListenAddress, Listener, ListenerHandle};
pub use raw_link::RawLink;
#[cfg(feature = "socket")]
pub use socket::{Attempt, SocketConnect, SocketError, SocketErrorKind};
#[doc(hidden)]
pub use upstream_session::UpstreamSession;

/// One end of a connection between two peers. A client or a server takes it and drives it.
pub struct Link(Box<dyn Transport>);

/// Moves messages between two peers. Every transport of this crate implements it, and [`Link::new`] makes a [`Link`] of any
/// other: a WebSocket, a message queue, a tunnel. Where bytes can be read and written, [`Link::stream`] is enough.
///
/// One task polls a transport: the one that drives the connection. Each poll that returns `Pending` must be safe to drop: it
/// has taken and sent nothing that would be lost. A transport never answers a message, never retries one and never depends on
/// the protocol revision.
///
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-transports>
pub trait Transport: Send {
    /// What this transport can do. Constant for its life.
    fn caps(&self) -> TransportCaps;

    /// Whether a modern client repeats arguments in headers, as a tool's schema marks them: HTTP alone.
    #[doc(hidden)]
    fn has_headers(&self) -> bool {
        false
    }

    /// Sets the limits that concern a transport (message size, decoding). Called once, before the first poll.
    fn configure(&mut self, limits: &Limits);

    /// Polls for the next message received. It is not polled again after [`Inbound::Closed`].
    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound>;

    /// Whether [`Transport::push`] may be called: the send buffer is below its limit (256 KiB in this crate).
    fn has_room(&self) -> bool;

    /// Queues a message. [`Transport::poll_flush`] sends it.
    fn push(&mut self, outbound: Outbound);

    /// Queues bytes that are sent unchanged, whether they are a message or not. Returns false where the transport carries
    /// messages and no bytes.
    fn push_bytes(&mut self, bytes: &Bytes) -> bool {
        let _ = bytes;
        false
    }

    /// Sends what is queued, as far as the peer takes it. `Ready(Ok)` when the queue is empty. An error is returned once;
    /// after it the transport can still be polled for what was received, and then returns [`Inbound::Closed`].
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportEnd>>;

    /// Drops what is queued and not yet sent, because the peer takes nothing any more.
    #[doc(hidden)]
    fn discard(&mut self) {}

    /// The number of bytes (of messages, where nothing is serialized) handed to the peer since the transport was made. It
    /// only grows; the session compares two values to find out whether the peer still takes anything.
    fn sent(&self) -> u64;

    /// Closes the sending side and ends what the transport started, a child process included. `Ready` when nothing of it is
    /// left. It may be called after an error. Dropping the transport ends everything at once instead.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<TransportEnd>;

    /// Connects again after the peer has ended, where [`TransportCaps::reopens`] says that the transport can.
    fn poll_reopen(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportEnd>> {
        let _ = cx;
        Poll::Ready(Err(cannot_reopen()))
    }

    /// The child process that the transport started, if it started one.
    #[cfg(all(unix, feature = "child"))]
    fn child(&self) -> Option<ChildHandle> {
        None
    }

    /// Identifies the server and the credentials, for the client's cache.
    fn identity(&self) -> PeerIdentity {
        PeerIdentity::default()
    }

    /// The kind of this transport, and the peer as far as it is known before the first message. `None` where messages come
    /// from several peers, or where nothing is known.
    fn origin(&self) -> Option<Arc<Origin>> {
        None
    }

    /// A function that returns whether the peer listens for messages that belong to no request; `None` where such messages
    /// always arrive.
    #[doc(hidden)]
    fn has_listener(&self) -> Option<Box<dyn Fn() -> bool + Send + Sync>> {
        None
    }

    /// A handle of the legacy session, where the transport has such sessions: HTTP alone.
    #[doc(hidden)]
    fn upstream_session(&self) -> Option<UpstreamSession> {
        None
    }

    /// Shows every byte that crosses to `inspector`. A transport without bytes returns the inspector, which is then shown messages.
    ///
    /// # Errors
    /// The inspector, where there are no bytes to show.
    fn inspect(&mut self, inspector: Inspector) -> Result<(), Inspector> {
        Err(inspector)
    }
}

impl Link {
    /// A link over any transport.
    #[must_use]
    pub fn new(io: impl Transport + 'static) -> Self {
        Self(Box::new(io))
    }

    /// Returns a handle of the child process that is the peer: its id, its last output, its exit, and the processes that could not
    /// be ended. `None` when the peer is no child of ours.
    #[cfg(all(unix, feature = "child"))]
    #[must_use]
    pub fn child(&self) -> Option<ChildHandle> {
        self.0.child()
    }

    pub(crate) fn has_headers(&self) -> bool {
        self.0.has_headers()
    }

    pub(crate) fn identity(&self) -> PeerIdentity {
        self.0.identity()
    }

    /// A handle of the legacy session of a link over HTTP.
    #[doc(hidden)]
    #[must_use]
    pub fn upstream_session(&self) -> Option<UpstreamSession> {
        self.0.upstream_session()
    }

    #[doc(hidden)]
    pub fn into_transport(self) -> Box<dyn Transport> {
        self.0
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("caps", &self.0.caps()).finish_non_exhaustive()
    }
}

/// The error of a transport that cannot connect again.
#[doc(hidden)]
pub fn cannot_reopen() -> TransportEnd {
    TransportEnd::failed(TransportError::new("this link cannot be opened again", false))
}

/// The address that stands for all addresses of one subscriber, to whom shares and limits belong. A network of IPv6 is one
/// subscriber's down to 64 bits (<https://www.rfc-editor.org/rfc/rfc6177>).
#[doc(hidden)]
pub fn subscriber(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}
