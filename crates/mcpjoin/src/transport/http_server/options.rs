//! The options of an HTTP server: its paths, the clients that it admits, and its limits.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use mcpjoin_proto::http::origin::{OriginError, OriginPolicy};

use super::admission::{Admission, Admitted, BearerTokens};
use super::events::{EventStore, MemoryEvents};
use super::memory::Bound;
use super::replicas::Replicas;
use super::session_store::SessionStore;
use super::time_limits::STALL_TIMEOUT;

const MIB: usize = 1024 * 1024;

/// The path of the endpoint, unless another one is set.
pub(super) const DEFAULT_PATH: &str = "/mcp";

/// Returns the principal of a request by its head, as an authorization layer in front has found out.
pub(super) type Principal = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// The options of an HTTP server: its paths, the clients that it admits, and its limits.
///
/// The defaults are those of a server on the user's machine: `localhost`, `127.0.0.1` and `[::1]` are allowed as hosts and as
/// origins of web pages, the endpoint is `/mcp`, and `/sse` for clients of 2024-11-05. The limits of message size and of the
/// time for a shutdown are those of the [`Server`](crate::Server).
///
/// ```
/// use std::time::Duration;
///
/// use mcpjoin::transport::HttpOptions;
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
    /// Whether `/` is the endpoint as well.
    pub(super) at_root: bool,
    pub(super) sse_path: Option<Box<str>>,
    pub(super) messages_path: Box<str>,
    pub(super) origin_policy: OriginPolicy,
    pub(super) cors: bool,
    pub(super) json_only: bool,
    pub(super) stateless: bool,
    pub(super) sessions: usize,
    pub(super) initialize: usize,
    pub(super) too_large_hint: Option<Box<str>>,
    pub(super) wrong_path_hint: Option<Box<str>>,
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
    pub(super) shared_events: Option<Arc<dyn EventStore>>,
    pub(super) session_store: Option<Arc<dyn SessionStore>>,
    pub(super) replicas: Option<Replicas>,
    pub(super) principal: Option<Principal>,
    pub(super) admission: Option<Arc<dyn Admission>>,
}

impl HttpOptions {
    /// The options of a server on the user's machine.
    #[must_use]
    pub fn new() -> Self {
        Self {
            path: Some(DEFAULT_PATH.into()),
            at_root: true,
            sse_path: Some("/sse".into()),
            messages_path: "/messages".into(),
            origin_policy: OriginPolicy::loopback(),
            cors: false,
            json_only: false,
            stateless: false,
            sessions: 10_000,
            initialize: 64 * 1024,
            too_large_hint: None,
            wrong_path_hint: None,
            session_idle: Duration::from_secs(30 * 60),
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            bodies: Bound { all: 256 * MIB, each: 64 * MIB },
            responses: Bound { all: 256 * MIB, each: 128 * MIB },
            stall_time: STALL_TIMEOUT,
            keep_alive: Duration::from_secs(15),
            retry: Duration::from_secs(1),
            connections: 10_000,
            events: Some(Arc::new(MemoryEvents::new())),
            shared_events: None,
            session_store: None,
            replicas: None,
            principal: None,
            admission: None,
        }
    }

    /// The path of the endpoint: `/mcp`. Without this call, [`Server::http`](crate::Server::http) also answers at `/`, the path
    /// that is left where a router has removed the beginning, such as `nest_service` of axum.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        self.path = Some(path.into());
        self.at_root = false;
        self
    }

    /// Makes every path the endpoint except those of 2024-11-05: for a service that a router mounts below a path
    /// that continues.
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

    /// Turns the transport of 2024-11-05 off.
    #[must_use]
    pub fn without_sse(mut self) -> Self {
        self.sse_path = None;
        self
    }

    /// Allows requests for a host, `host` or `host:port`, beside those for this machine.
    ///
    /// # Errors
    /// When the text has another form.
    pub fn allow_host(mut self, host: &str) -> Result<Self, OriginError> {
        self.origin_policy.allow_host(host)?;
        Ok(self)
    }

    /// Allows requests of the web pages of an origin, `scheme://host` or `scheme://host:port`, beside those of this
    /// machine.
    ///
    /// # Errors
    /// When the text has another form.
    pub fn allow_origin(mut self, origin: &str) -> Result<Self, OriginError> {
        self.origin_policy.allow_origin(origin)?;
        Ok(self)
    }

    /// Lets allowed web pages read the replies (CORS): off. An origin that is not allowed is refused either way.
    #[must_use]
    pub const fn cors(mut self, cors: bool) -> Self {
        self.cors = cors;
        self
    }

    /// Answers every POST with plain JSON, so that clients receive no progress and no log messages before the reply.
    #[must_use]
    pub const fn json_only(mut self, json_only: bool) -> Self {
        self.json_only = json_only;
        self
    }

    /// Keeps no legacy sessions, so that any request may go to any of several servers. A legacy client gets no stream
    /// beside its requests and receives no requests; 2024-11-05 is off. Modern clients still receive questions, where the
    /// servers share a key ([`ServerBuilder::state_key`](crate::server::ServerBuilder::state_key)); a task stays with the
    /// server that began it, to which the others pass requests ([`ServerBuilder::replica`](crate::server::ServerBuilder::replica)).
    #[must_use]
    pub const fn stateless(mut self, stateless: bool) -> Self {
        self.stateless = stateless;
        self
    }

    /// How many legacy sessions there may be at once: 10,000.
    ///
    /// When all places are taken, a new session ends the session that was idle the longest, if it was idle for a minute and has
    /// no open stream. One client (a principal, or an address where no admission is configured) can take places of others up to
    /// half of all, and a client with more than half loses some as soon as another client needs one. Otherwise the new session
    /// is refused with 503.
    #[must_use]
    pub const fn max_sessions(mut self, sessions: usize) -> Self {
        self.sessions = sessions;
        self
    }

    /// How many bytes the `initialize` of a legacy session may have: 64 KiB. A session keeps what it says about the client, so
    /// 10,000 sessions that begin with the largest message, 10 MiB, would hold 98 GiB; with this limit it is 640 MiB. Clients
    /// send a few hundred bytes. A larger one is refused with 413. A modern client sends no such message, and nothing of its
    /// requests is kept.
    #[doc(hidden)]
    #[must_use]
    pub const fn max_initialize(mut self, bytes: usize) -> Self {
        self.initialize = bytes;
        self
    }

    /// How long a legacy session may be idle, without a request and without an open stream, before it ends: 30 min.
    #[must_use]
    pub const fn session_idle(mut self, idle: Duration) -> Self {
        self.session_idle = idle;
        self
    }

    /// How long a client may take for the head of a request: 10 s. Over HTTP/2 it is the time until the first request. Enforced by
    /// [`Server::serve_http`](crate::Server::serve_http); another HTTP server has its own limit.
    #[doc(hidden)]
    #[must_use]
    pub const fn header_time(mut self, time: Duration) -> Self {
        self.header_time = time;
        self
    }

    /// How long a client may take for the body of a request: 30 s.
    #[doc(hidden)]
    #[must_use]
    pub const fn body_time(mut self, time: Duration) -> Self {
        self.body_time = time;
        self
    }

    /// How many bytes of request bodies the server holds at once: 256 MiB of all clients together, and 64 MiB of each. A
    /// client is a principal, or an address where no admission is configured; an IPv6 address stands for its network of 64 bits.
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
    /// A response is counted until the client has taken it. Where there is no room for one, an error replaces it. A
    /// stream that can be resumed is closed instead, so that the client resumes it for the rest; any other stream is closed at
    /// a notification or request for which there is no room.
    #[must_use]
    pub const fn max_response_bytes(mut self, all: usize, each: usize) -> Self {
        self.responses = Bound { all, each };
        self
    }

    /// How long a client may take no byte of a pending response: 30 s. Then the stream is reset (HTTP/2) or the connection
    /// closed, and the bytes are dropped. Enforced by [`Server::serve_http`](crate::Server::serve_http); another HTTP server has
    /// its own limit.
    #[must_use]
    pub const fn stall_time(mut self, time: Duration) -> Self {
        self.stall_time = time;
        self
    }

    /// How long a stream may be silent before a comment is sent, so that no proxy closes it: 15 s.
    #[must_use]
    pub const fn keep_alive(mut self, interval: Duration) -> Self {
        self.keep_alive = interval;
        self
    }

    /// A sentence that is added to the refusal of a message above the limit (413): how to raise this program's limit. Without
    /// it the refusal names only the limit.
    #[doc(hidden)]
    #[must_use]
    pub fn too_large_hint(mut self, hint: &str) -> Self {
        self.too_large_hint = Some(hint.into());
        self
    }

    /// The sentence that ends the response to an unknown path (404): what the user of this program can do. Without it the response names
    /// [`any_path`](Self::any_path).
    #[doc(hidden)]
    #[must_use]
    pub fn wrong_path_hint(mut self, hint: &str) -> Self {
        self.wrong_path_hint = Some(hint.into());
        self
    }

    /// How long a legacy client should wait before it resumes a broken stream: 1 s.
    #[must_use]
    pub const fn retry(mut self, retry: Duration) -> Self {
        self.retry = retry;
        self
    }

    /// How many connections may be open at once: 10,000. Enforced by
    /// [`Server::serve_http`](crate::Server::serve_http).
    #[must_use]
    pub const fn max_connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Where the events of legacy streams are stored, for clients that resume a stream: in memory ([`MemoryEvents`]) by
    /// default.
    ///
    /// A shared store ([`EventStore::is_shared`]) stores the events of stored sessions
    /// ([`session_store`](Self::session_store)). The other sessions keep their store, because only this process serves them.
    #[must_use]
    pub fn event_store(mut self, events: impl EventStore) -> Self {
        let place = if events.is_shared() { &mut self.shared_events } else { &mut self.events };
        *place = Some(Arc::new(events));
        self
    }

    /// Stores no events: a broken stream cannot be resumed.
    #[must_use]
    pub fn without_resumption(mut self) -> Self {
        (self.events, self.shared_events) = (None, None);
        self
    }

    /// Stores legacy sessions, so that any process with the same store can serve them. Without a store, which is the default, a
    /// session belongs to this process, and clients behind a balancer must come back to it.
    ///
    /// The streams of a stored session can be resumed only where the event store is shared as well
    /// ([`EventStore::is_shared`]).
    #[must_use]
    pub fn session_store(mut self, store: impl SessionStore) -> Self {
        self.session_store = Some(Arc::new(store));
        self
    }

    /// Passes requests of legacy sessions that only another process can serve to that process. Without it, which is the default,
    /// clients with such sessions must come back to their process.
    #[must_use]
    pub fn replicas(mut self, replicas: Replicas) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Returns the principal of a request by its head. A legacy session belongs to the principal that has opened it; for any
    /// other principal it does not exist.
    #[must_use]
    pub fn principal(mut self, principal: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.principal = Some(Arc::new(principal));
        self
    }

    /// Takes the principal of a request from the value of this type that middleware of axum or tower has put into its
    /// extensions. A request without one has no principal. The same as [`principal`](Self::principal), which it replaces.
    ///
    /// ```
    /// use mcpjoin::transport::HttpOptions;
    ///
    /// #[derive(Clone)]
    /// struct User { name: String }
    ///
    /// let options = HttpOptions::new().principal_from(|user: &User| user.name.clone());
    /// ```
    #[must_use]
    pub fn principal_from<T: Send + Sync + 'static>(
        self,
        principal: impl Fn(&T) -> String + Send + Sync + 'static,
    ) -> Self {
        self.principal(move |head| head.extensions.get::<T>().map(&principal))
    }

    /// Admits only the requests that `admission` admits, for example those with a token of OAuth 2.1
    /// ([specification](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization); the crate
    /// `mcpjoin-auth` has a resource server). Checked before it: `Host` and `Origin`, the path, and the preflight of CORS.
    ///
    /// Handlers read the principal and its scopes in [`Context::origin`](crate::connection::Context::origin). A legacy session, a
    /// task and the state of a request belong to that principal, so [`HttpOptions::principal`] is not called any more.
    #[must_use]
    pub fn admission(mut self, admission: impl Admission + 'static) -> Self {
        self.admission = Some(Arc::new(admission));
        self
    }

    /// Admits only requests with an access token (`Authorization: Bearer TOKEN`) that `tokens` knows: an
    /// [`admission`](Self::admission) for servers with tokens of their own. Others receive 401 and a challenge.
    ///
    /// Keep hashes of tokens rather than tokens, and look these up: then the time of a comparison tells nothing.
    ///
    /// ```
    /// use mcpjoin::server::{Context, NoArguments, Server, tool};
    /// use mcpjoin::transport::{Admitted, HttpOptions};
    ///
    /// #[derive(Clone)]
    /// struct User { name: &'static str }
    ///
    /// let options = HttpOptions::new().bearer_tokens(|token| async move {
    ///     (token == "token-of-ada").then(|| Admitted::new("ada").with_extension(User { name: "Ada" }))
    /// });
    /// let server = Server::builder("greeter", "1.0.0")
    ///     .tool(tool("greet"), |_: NoArguments, cx: Context| async move {
    ///         format!("Hello, {}", cx.extension::<User>().map_or("nobody", |user| user.name))
    ///     })
    ///     .build()?;
    /// # drop((server, options));
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    #[must_use]
    pub fn bearer_tokens<F, Fut>(self, tokens: F) -> Self
    where
        F: Fn(String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<Admitted>> + Send + 'static,
    {
        self.admission(BearerTokens(tokens))
    }

    /// Whether legacy sessions are stored.
    #[doc(hidden)]
    #[must_use]
    pub const fn stores_sessions(&self) -> bool {
        self.session_store.is_some() && !self.stateless
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
            .field("origin_policy", &self.origin_policy)
            .field("sessions", &self.sessions)
            .finish_non_exhaustive()
    }
}
