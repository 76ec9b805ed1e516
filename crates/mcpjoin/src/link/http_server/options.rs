//! What an HTTP server offers, to whom, and within which bounds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use mcpjoin_proto::http::origin::{Guard, OriginError};

use super::admission::Admission;
use super::events::{EventStore, MemoryEvents};
use super::memory::Bound;
use super::watch::STALL;

const MIB: usize = 1024 * 1024;

/// Tells who makes a request, from its head: what an authorization layer in front has found out.
pub(super) type Principal = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// What an HTTP server offers, to whom, and within which bounds.
///
/// Without more it is a server on the user's machine: reached as `localhost`, `127.0.0.1` or `[::1]` by programs and
/// by web pages of these, at `/mcp`, and for clients of 2024-11-05 at `/sse`. How large a message may be and how long
/// requests may go on at the end are bounds of the [`Server`](crate::Server).
///
/// ```
/// use std::time::Duration;
///
/// use mcpjoin::link::HttpOptions;
///
/// let options = HttpOptions::new()
///     .path("/tools")
///     .allow_host("tools.example.com")?
///     .allow_origin("https://app.example.com")?
///     .session_idle(Duration::from_secs(600));
/// # drop(options);
/// # Ok::<(), mcpjoin::proto::http::origin::OriginError>(())
/// ```
#[derive(Clone)]
pub struct HttpOptions {
    pub(super) path: Option<Box<str>>,
    pub(super) sse_path: Option<Box<str>>,
    pub(super) messages_path: Box<str>,
    pub(super) guard: Guard,
    pub(super) cors: bool,
    pub(super) json_only: bool,
    pub(super) stateless: bool,
    pub(super) sessions: usize,
    pub(super) initialize: usize,
    pub(super) too_large_hint: Option<Box<str>>,
    pub(super) session_idle: Duration,
    pub(super) header_time: Duration,
    pub(super) body_time: Duration,
    pub(super) bodies: Bound,
    pub(super) responses: Bound,
    pub(super) stall_time: Duration,
    pub(super) keep_alive: Duration,
    pub(super) retry: Duration,
    pub(super) connections: usize,
    pub(super) events: Option<Arc<dyn EventStore>>,
    pub(super) principal: Option<Principal>,
    pub(super) admission: Option<Arc<dyn Admission>>,
}

impl HttpOptions {
    /// The options of a server on the user's machine.
    #[must_use]
    pub fn new() -> Self {
        Self {
            path: Some("/mcp".into()),
            sse_path: Some("/sse".into()),
            messages_path: "/messages".into(),
            guard: Guard::loopback(),
            cors: false,
            json_only: false,
            stateless: false,
            sessions: 10_000,
            initialize: 64 * 1024,
            too_large_hint: None,
            session_idle: Duration::from_secs(30 * 60),
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            bodies: Bound { all: 256 * MIB, each: 64 * MIB },
            responses: Bound { all: 256 * MIB, each: 128 * MIB },
            stall_time: STALL,
            keep_alive: Duration::from_secs(15),
            retry: Duration::from_secs(1),
            connections: 10_000,
            events: Some(Arc::new(MemoryEvents::new())),
            principal: None,
            admission: None,
        }
    }

    /// The path of the endpoint: `/mcp`.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Every path but those of 2024-11-05 is the endpoint: for a service that a router has mounted where it belongs.
    #[must_use]
    pub fn any_path(mut self) -> Self {
        self.path = None;
        self
    }

    /// The paths for clients of 2024-11-05: the stream at `/sse`, their messages at `/messages`.
    #[must_use]
    pub fn sse_paths(mut self, stream: &str, messages: &str) -> Self {
        self.sse_path = Some(stream.into());
        self.messages_path = messages.into();
        self
    }

    /// Offers nothing to clients of 2024-11-05.
    #[must_use]
    pub fn without_sse(mut self) -> Self {
        self.sse_path = None;
        self
    }

    /// Allows requests for a host, `host` or `host:port`, beside those for this machine.
    ///
    /// # Errors
    /// When it is not written so.
    pub fn allow_host(mut self, host: &str) -> Result<Self, OriginError> {
        self.guard.allow_host(host)?;
        Ok(self)
    }

    /// Allows requests of the web pages of an origin, `scheme://host` or `scheme://host:port`, beside those of this
    /// machine.
    ///
    /// # Errors
    /// When it is not written so.
    pub fn allow_origin(mut self, origin: &str) -> Result<Self, OriginError> {
        self.guard.allow_origin(origin)?;
        Ok(self)
    }

    /// Takes another guard in place of the one that lets in this machine alone.
    #[must_use]
    pub fn guard(mut self, guard: Guard) -> Self {
        self.guard = guard;
        self
    }

    /// Lets allowed web pages read the replies (CORS): off. An origin that is not allowed is refused either way.
    #[must_use]
    pub const fn cors(mut self, cors: bool) -> Self {
        self.cors = cors;
        self
    }

    /// Answers every POST with plain JSON, so that nothing is told before the reply: no progress, no log messages.
    #[must_use]
    pub const fn json_only(mut self, json_only: bool) -> Self {
        self.json_only = json_only;
        self
    }

    /// Keeps no legacy sessions, so that any request may go to any of several servers. A legacy client gets no stream
    /// beside its requests and is asked nothing; 2024-11-05 is not offered. Modern clients are asked as ever, where the
    /// servers share a key ([`ServerBuilder::state_key`](crate::server::ServerBuilder::state_key)); a task stays with the
    /// server that began it.
    #[must_use]
    pub const fn stateless(mut self, stateless: bool) -> Self {
        self.stateless = stateless;
        self
    }

    /// How many legacy sessions there may be at once: 10,000.
    ///
    /// When all places are taken, the session that was idle the longest ends for a new one, if it was idle for a minute
    /// and has no open stream. One client (a principal, or an address where nobody authenticates) takes places of others
    /// up to half of them, and one that has more than half gives some up as soon as another client wants one. What is left
    /// is refused with 503.
    #[must_use]
    pub const fn max_sessions(mut self, sessions: usize) -> Self {
        self.sessions = sessions;
        self
    }

    /// How many bytes the `initialize` of a legacy session may have: 64 KiB. What it says of the client is kept as long
    /// as the session, so that 10,000 sessions that begin with messages of the largest size, 10 MiB, would hold 98 GiB;
    /// with this bound it is 640 MiB. Clients send some hundred bytes. One above it is refused with 413. A modern client
    /// has no such message: its requests are held to the limit of any message, and nothing is kept of them.
    #[must_use]
    pub const fn max_initialize(mut self, bytes: usize) -> Self {
        self.initialize = bytes;
        self
    }

    /// After how long without a request and without an open stream a legacy session is over: 30 min.
    #[must_use]
    pub const fn session_idle(mut self, idle: Duration) -> Self {
        self.session_idle = idle;
        self
    }

    /// How long a client may take for the head of a request: 10 s. Over HTTP/2 it is the time until the first request. Held by
    /// [`Server::serve_http`](crate::Server::serve_http); a server of one's own has its own bound.
    #[must_use]
    pub const fn header_time(mut self, time: Duration) -> Self {
        self.header_time = time;
        self
    }

    /// How long a client may take for the body of a request: 30 s.
    #[must_use]
    pub const fn body_time(mut self, time: Duration) -> Self {
        self.body_time = time;
        self
    }

    /// How many bytes of request bodies the server holds at once: 256 MiB of all clients together, and 64 MiB of each. A
    /// client is a principal, or an address where nobody authenticates; an IPv6 address stands for its network of 64 bits.
    /// Each limit is at least that of one message.
    ///
    /// A body is counted from its first piece until its message is dropped, so the arguments of a call in progress
    /// count. Not counted is a body of at most 64 KiB that arrived in one piece, and one of at most 64 KiB once it is
    /// complete. Where there is no room, the server stops reading for 2 s and then answers 503 with `Retry-After`.
    #[must_use]
    pub const fn max_body_bytes(mut self, all: usize, each: usize) -> Self {
        self.bodies = Bound { all, each };
        self
    }

    /// How many bytes of responses and events wait for clients at once: 256 MiB for all clients together, and 128 MiB for
    /// each. A client is what it is for [`max_body_bytes`](Self::max_body_bytes). Each limit is at least that of one
    /// message.
    ///
    /// A response is counted until the client has taken it. Where there is no room for one, an error takes its place. A
    /// stream that can be resumed ends instead, so that the client comes back for the rest; any other stream ends at a
    /// notification or request that there is no room for.
    #[must_use]
    pub const fn max_response_bytes(mut self, all: usize, each: usize) -> Self {
        self.responses = Bound { all, each };
        self
    }

    /// How long a client may take not a byte of a response that waits for it: 30 s. Then the stream is reset (HTTP/2) or
    /// the connection closed, and the bytes are dropped. Held by [`Server::serve_http`](crate::Server::serve_http); a
    /// server of one's own has its own bound.
    #[must_use]
    pub const fn stall_time(mut self, time: Duration) -> Self {
        self.stall_time = time;
        self
    }

    /// After how long a silent stream gets a comment, so that nothing on the way takes it for dead: 15 s.
    #[must_use]
    pub const fn keep_alive(mut self, interval: Duration) -> Self {
        self.keep_alive = interval;
        self
    }

    /// What the refusal of a message above the limit (413) adds for whoever reads it: how this program's limit is raised.
    /// Without it the refusal names the limit alone.
    #[must_use]
    pub fn too_large_hint(mut self, hint: &str) -> Self {
        self.too_large_hint = Some(hint.into());
        self
    }

    /// When a legacy client is to come back for a stream that broke: after 1 s.
    #[must_use]
    pub const fn retry(mut self, retry: Duration) -> Self {
        self.retry = retry;
        self
    }

    /// How many connections there may be at once: 10,000. Held by
    /// [`Server::serve_http`](crate::Server::serve_http).
    #[must_use]
    pub const fn max_connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Where the events of legacy streams are kept, for clients that come back for them: in memory
    /// ([`MemoryEvents`]).
    #[must_use]
    pub fn event_store(mut self, events: impl EventStore) -> Self {
        self.events = Some(Arc::new(events));
        self
    }

    /// Keeps no events: a stream that broke is lost.
    #[must_use]
    pub fn without_resumption(mut self) -> Self {
        self.events = None;
        self
    }

    /// Tells who makes a request, from its head. A legacy session belongs to whoever has opened it; for anybody else
    /// it does not exist.
    #[must_use]
    pub fn principal(mut self, principal: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.principal = Some(Arc::new(principal));
        self
    }

    /// Admits only the requests that `admission` admits, for example those with a token of OAuth 2.1
    /// ([specification](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization); the crate
    /// `mcpjoin-auth` has a resource server). Checked before it: `Host` and `Origin`, the path, and the preflight of CORS.
    ///
    /// Handlers read the principal and its scopes in [`Context::origin`](crate::server::Context::origin). A legacy session, a
    /// task and the state of a request belong to that principal, so [`HttpOptions::principal`] is not called any more.
    #[must_use]
    pub fn admission(mut self, admission: impl Admission + 'static) -> Self {
        self.admission = Some(Arc::new(admission));
        self
    }

    /// Whether clients of the legacy era have sessions.
    pub(crate) const fn has_sessions(&self) -> bool {
        !self.stateless
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions")
            .field("path", &self.path)
            .field("sse_path", &self.sse_path)
            .field("guard", &self.guard)
            .field("sessions", &self.sessions)
            .finish_non_exhaustive()
    }
}
