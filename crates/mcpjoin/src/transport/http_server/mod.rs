//! The HTTP server: Streamable HTTP in both eras, and the HTTP+SSE of 2024-11-05 beside it.
//!
//! [`HttpService`] answers requests, whichever HTTP server has received them. A modern POST is independent: it takes a
//! connection from a pool and returns it. A legacy session is an entry in a table. Connections are opened through
//! [`Serves`]: this module knows nothing about servers.
//!
//! ```text
//! request -> head (is it valid and allowed?) -> admission -> body -> classify -> modern | legacy | stateless | http_sse
//!         -> Wire (queues per exchange) -> connection -> Wire -> Exchange -> HttpBody
//! ```
//!
//! The request of a session that only another process can serve is passed to that process in place of the second line (`replicas`,
//! `passing`).
//!
//! A request is checked in this order: the size of its head (431), its lengths and hosts (400), `Host` and `Origin` (403; not those
//! of a request that another process has passed, whose seal is checked),
//! its path (404), its admission (401, 400, 403), its method (405), its media types (415, 406), its body (413, 408, 503, 400),
//! and what it may do (403). Then [`classify`] decides its kind.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http>

mod admission;
mod body;
pub(crate) mod entry;
mod events;
mod exchange;
mod exchange_state;
mod framing;
mod head;
mod http_sse;
mod io;
mod legacy;
mod long_lived;
mod memory;
mod modern;
mod options;
mod passing;
mod reopening;
mod replicas;
mod reply;
mod response_progress;
mod serve;
mod session_store;
mod sessions;
mod stateless;
mod time_limits;
mod unread_body;
mod wire;

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use crate::sync::Mutex;
use bytes::Bytes;
use futures_util::future::join_all;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::http::classify::{Class, HttpMethod, LegacyKind, Offer, SessionLookup, classify};
use mcpjoin_proto::session::{Limits, Origin};
use mcpjoin_proto::text::Line;
use mcpjoin_proto::{DecodeError, Era, ErrorObject, Message, RequestId, Version, code};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Link;
use crate::warning_rate::WarningRate;
use body::{RequestBody, Unread, read};
use entry::Entry;
pub(crate) use entry::{Served, Serves, Serving};
use head::{Answer, Place, Refusal};
pub(crate) use head::{RequestHead, RequestParts};
use io::HttpIo;
use legacy::pending_requests;
use memory::{Account, Memory, Traffic};
use passing::{NamedBy, Passing, pass};
use reopening::{Reopenings, is_stored_id};
use replicas::{PASSED, Passed, Replica};
use sessions::{Problem, Session, Sessions};
use wire::{Refused, Routing, Wire};

pub use admission::{Admission, Admitted, Admitting, Denied};
pub use body::HttpBody;
pub use events::{
    Confirm, Confirmation, Event, EventId, EventIdError, EventStore, EventStoreError, MemoryEvents, Replay,
    Replayed, SessionId, StreamEnd,
};
use options::DEFAULT_PATH;
pub use options::HttpOptions;
pub use replicas::{Replicas, ReplicasError};
pub use serve::{HttpListenError, HttpListener};
pub use session_store::{SessionRecord, SessionStore, SessionStoreError, Stored};

/// Answers HTTP requests for a server. Made by [`Server::http`](crate::Server::http), cheap to clone.
///
/// It is a [`tower_service::Service`], so it can be mounted in any application of hyper, axum or tower. Call it within a
/// tokio runtime with time enabled.
///
/// ```no_run
/// # async fn f(server: mcpjoin::Server, stream: tokio::net::TcpStream) -> Result<(), hyper::Error> {
/// use hyper_util::rt::TokioIo;
/// use hyper_util::service::TowerToHyperService;
/// use mcpjoin::transport::HttpOptions;
///
/// let service = TowerToHyperService::new(server.http(HttpOptions::new()));
/// let http = hyper::server::conn::http1::Builder::new();
/// http.serve_connection(TokioIo::new(stream), service).await
/// # }
/// ```
#[derive(Clone)]
pub struct HttpService(Arc<Shared>);

/// The future of a response. Dropping it means that the client has disconnected.
pub struct HttpFuture(Pin<Box<dyn Future<Output = Response<HttpBody>> + Send>>);

/// The state that all exchanges share.
pub(super) struct Shared {
    options: HttpOptions,
    limits: Arc<Limits>,
    versions: Vec<Version>,
    legacy: bool,
    served: Box<dyn Serves>,
    origin: Arc<Origin>,
    sessions: Arc<Sessions>,
    reopenings: Reopenings,
    memory: Arc<Memory>,
    /// Other services by their whole path.
    routes: Vec<(Box<str>, HttpService)>,
    /// Idle connections for modern exchanges.
    pool: Mutex<Vec<Arc<Entry>>>,
    /// Idle connections for legacy requests without a session.
    legacy_pool: Mutex<LegacyPool>,
    entries: Mutex<HashMap<u64, Weak<Entry>>>,
    last_entry: AtomicU64,
    ending: AtomicBool,
    ended: Notify,
    ending_begins: Notify,
    /// The warnings about clients that do not read.
    stalls: Arc<WarningRate<()>>,
}

/// Idle connections, each for one revision and principal, because the server behind it may hold state of one principal. The one
/// that was used last is at the end.
type LegacyPool = VecDeque<(stateless::Kind, Arc<Entry>)>;

/// The largest number of idle connections in a pool.
const MAX_POOLED: usize = 256;

/// How many characters of an unknown path the response repeats.
const MAX_PATH_CHARS: usize = 100;

/// How many paths of joined servers that response names.
const MAX_PATHS_SHOWN: usize = 10;

/// The end of that response, for the author of the service.
const MOUNTED: &str =
    "Behind a router that removes the beginning of the path, build the service with `HttpOptions::any_path`.";

impl HttpService {
    #[doc(hidden)]
    pub fn new(
        options: HttpOptions,
        limits: Arc<Limits>,
        versions: Vec<Version>,
        served: impl Serves + 'static,
    ) -> Self {
        let (events, store) = (options.events.clone(), options.session_store.clone());
        let sessions = Sessions::new(options.sessions, options.session_idle, events, store);
        let [bodies, responses] =
            [options.bodies, options.responses].map(|bound| bound.at_least(limits.message));
        Self(Arc::new(Shared {
            legacy: Version::newest_among(Era::Legacy, &versions).is_some(),
            options,
            limits,
            versions,
            served: Box::new(served),
            origin: Arc::new(Origin::new("http")),
            sessions,
            reopenings: Reopenings::default(),
            memory: Memory::new(bodies, responses),
            routes: Vec::new(),
            pool: Mutex::default(),
            legacy_pool: Mutex::default(),
            entries: Mutex::default(),
            last_entry: AtomicU64::new(0),
            ending: AtomicBool::new(false),
            ended: Notify::new(),
            ending_begins: Notify::new(),
            stalls: Arc::default(),
        }))
    }

    /// Adds a service that answers at the path of this one followed by `/name`. The two share one limit of bytes. A name
    /// with characters that a path must encode has no route.
    ///
    /// # Panics
    /// If one of the services was cloned.
    #[doc(hidden)]
    #[must_use]
    pub fn with_route(mut self, name: &str, mut service: Self) -> Self {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-._~".contains(c)) {
            return self;
        }
        const NEW: &str = "a service that was just made is not shared";
        let path: Box<str> =
            format!("{}/{name}", self.0.options.path.as_deref().unwrap_or(DEFAULT_PATH)).into();
        let shared = Arc::get_mut(&mut self.0).expect(NEW);
        let other = Arc::get_mut(&mut service.0).expect(NEW);
        other.options.path = Some(path.clone());
        other.memory = shared.memory.clone();
        shared.routes.push((path, service));
        self
    }

    /// The number of open legacy sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.0.sessions.len()
    }

    /// Bytes of request bodies that are counted now ([`HttpOptions::max_body_bytes`]).
    #[doc(hidden)]
    #[must_use]
    pub fn body_bytes(&self) -> usize {
        self.0.memory.held(Traffic::Bodies)
    }

    /// Bytes of responses and events that clients have not taken yet ([`HttpOptions::max_response_bytes`]).
    #[doc(hidden)]
    #[must_use]
    pub fn response_bytes(&self) -> usize {
        self.0.memory.held(Traffic::Responses)
    }

    /// Shuts down gracefully: new requests are refused with 503, requests in progress are finished within [`Limits::drain`]
    /// (10 s), and streams are closed after their last events. Completes when every connection is closed.
    ///
    /// [`drain_after`](Self::drain_after) has an example: it waits for a signal before.
    pub async fn drain(&self) {
        let routes = self.0.routes.iter().map(|(_, service)| service.0.drain());
        tokio::join!(self.0.drain(), join_all(routes));
    }

    /// Waits for `end`, and then shuts down like [`drain`](Self::drain). The output of `end` has no meaning. Made for the
    /// graceful shutdown of axum, which waits for the streams of this service:
    ///
    /// ```no_run
    /// # async fn f(service: mcpjoin::transport::HttpService, listener: tokio::net::TcpListener) -> std::io::Result<()> {
    /// let ended = service.drain_after(tokio::signal::ctrl_c());
    /// let application = axum::Router::new().nest_service("/mcp", service);
    /// axum::serve(listener, application).with_graceful_shutdown(ended).await
    /// # }
    /// ```
    pub fn drain_after<F: Future>(&self, end: F) -> impl Future<Output = ()> + use<F> {
        let service = self.clone();
        async move {
            drop(end.await);
            service.drain().await;
        }
    }
}

impl<B> tower_service::Service<Request<B>> for HttpService
where
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = HttpFuture;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> HttpFuture {
        let (shared, origin) = (self.0.clone(), self.0.origin.clone());
        HttpFuture::new(shared, request.map(RequestBody::foreign), origin)
    }
}

impl HttpFuture {
    /// Not generic, unlike its caller: `answer` is compiled and optimized in this crate and not in the one that calls it.
    fn new(shared: Arc<Shared>, request: Request<RequestBody>, origin: Arc<Origin>) -> Self {
        Self(Box::pin(answer(shared, request, origin)))
    }
}

impl Future for HttpFuture {
    type Output = Result<Response<HttpBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx).map(Ok)
    }
}

/// Answers one request.
fn answer(
    shared: Arc<Shared>,
    request: Request<RequestBody>,
    origin: Arc<Origin>,
) -> impl Future<Output = Response<HttpBody>> + Send {
    let (mut parts, body) = request.into_parts();
    let route = shared.routes.iter().rfind(|(path, _)| **path == *parts.uri.path());
    let shared = route.map_or_else(|| shared.clone(), |(_, service)| service.0.clone());
    if let Some(replicas) = &shared.options.replicas {
        // For gateways, which mark what clients send back.
        parts.extensions.insert(replicas.clone());
    }
    async move {
        let request = Arc::new(RequestParts::new(parts));
        let parts = &request.parts;
        let head = RequestHead::new(parts);
        let (place, passed) = match shared.check(&head, &origin) {
            Ok(checked) => checked,
            Err(refused) => return *refused,
        };
        let answered = async {
            let (admitted, origin) = shared.admit(&request, &origin, passed).await?;
            let account = shared.memory.account(&origin);
            match place {
                Place::Endpoint => endpoint(&shared, parts, &head, body, origin, admitted, account).await,
                Place::Stream => http_sse::stream(&shared, parts, &origin, admitted, account),
                Place::Messages => http_sse::message(&shared, parts, body, origin, admitted, account).await,
            }
        };
        let mut response = answered.await.unwrap_or_else(|refused| *refused);
        if shared.options.cors {
            head.expose(&mut response);
        }
        response
    }
}

/// A request at the endpoint.
async fn endpoint(
    shared: &Arc<Shared>,
    parts: &Parts,
    head: &RequestHead<'_>,
    body: RequestBody,
    origin: Arc<Origin>,
    admitted: Option<Admitted>,
    account: Arc<Account>,
) -> Answer {
    let method = HttpMethod::parse(parts.method.as_str());
    head.check_types(method)?;
    let stateless = shared.options.stateless;
    let (lookup, found) = match stateless {
        true => (SessionLookup::Absent, Found::Nothing),
        false => shared.look_up(head, &origin, &account).await?,
    };
    let offer = Offer { versions: &shared.versions, sessions: !stateless };
    let (decoded, body) = if method == HttpMethod::Post {
        let body = shared.read(body, &account).await?;
        (Some(decode(&body, &shared.limits.decode)).filter(|_| !body.is_empty()), body)
    } else {
        (None, Bytes::new())
    };
    let size = body.len();
    if let Some(Ok(decoded)) = &decoded {
        shared.allow(admitted.as_ref(), decoded)?;
    }
    let class = classify(method, head, decoded.as_ref().map(Result::as_ref), &lookup, &offer);
    let (session, elsewhere) = match (&class, found) {
        (Class::Legacy { .. }, Found::Elsewhere(replica)) => (None, Some((replica, NamedBy::Session))),
        (_, Found::Here(session)) => (Some(session), shared.named_by(parts, decoded.as_ref())),
        _ => (None, shared.named_by(parts, decoded.as_ref())),
    };
    if let (Class::Legacy { .. } | Class::Modern { .. }, Some((replica, by))) = (&class, elsewhere) {
        let pending = decoded.as_ref().and_then(|decoded| decoded.as_ref().ok()).map(pending_requests);
        let pending = pending.map(|(ids, _)| ids).unwrap_or_default();
        let passing = Passing { parts, body, pending, origin: &origin, account: &account, by };
        return Box::pin(pass(shared, &replica, passing)).await;
    }
    drop(body);
    let until = admitted.and_then(|admitted| admitted.until);
    let received = Received { decoded, size, origin, until, account };
    match class {
        Class::Legacy { kind: LegacyKind::Initialize, .. } if size > shared.options.initialize => {
            Err(shared.too_long_initialize().into())
        }
        Class::Modern { .. } => modern::post(shared, head, received).await,
        Class::Legacy { kind, version } if stateless => {
            stateless::answer(shared, kind, version, received).await
        }
        Class::Legacy { kind, .. } => legacy::answer(shared, kind, head, session, received).await,
        Class::Reject(rejection) if rejection.status == 405 => {
            let allowed = if shared.legacy && !stateless { "GET, POST, DELETE" } else { "POST" };
            Err(reply::not_allowed(allowed).into())
        }
        Class::Reject(rejection) => Err(reply::rejection(rejection).into()),
    }
}

/// Where the session of a request is.
enum Found {
    Nothing,
    Here(Arc<Session>),
    Elsewhere(Replica),
    /// It belonged to this process, or to one that does not have it any more.
    Ended,
}

/// A received request.
struct Received {
    decoded: Option<Result<Decoded, DecodeError>>,
    /// The size of its body in bytes.
    size: usize,
    origin: Arc<Origin>,
    /// When its admission expires.
    until: Option<Instant>,
    account: Arc<Account>,
}

impl Received {
    /// The only message, or the messages of a batch.
    fn into_decoded(self) -> Result<(Decoded, usize, Arc<Origin>), Refusal> {
        let decoded = self.decoded.and_then(Result::ok).ok_or_else(|| reply::bare(400))?;
        Ok((decoded, self.size, self.origin))
    }
}

impl Shared {
    /// Checks the head of any request, and returns the resource at its path, and its client if another process has passed it.
    fn check(
        self: &Arc<Self>,
        head: &RequestHead<'_>,
        origin: &Origin,
    ) -> Result<(Place, Option<Passed>), Refusal> {
        head.check_size()?;
        head.check_host()?;
        let passed = match &self.options.replicas {
            Some(replicas) => replicas.passed(head.parts()).map_err(|error| {
                self.sessions.warn(Problem::Seal, &self.memory.account(origin), &error.to_string());
                reply::refuse(403, &error.to_string())
            })?,
            None => None,
        };
        // The first process has checked them.
        if passed.is_none() {
            let allowed = self.options.origin_policy.check(head);
            allowed.map_err(|denied| reply::refuse(403, &denied.to_string()))?;
        }
        if let Some(document) = self.options.admission.as_ref().and_then(|who| who.document(head.path())) {
            return Err(Box::new(head.document(document)));
        }
        let place = self.place(head.path()).ok_or_else(|| self.no_place(head.path()))?;
        if self.options.cors
            && let Some(preflight) = head.preflight()
        {
            return Err(Box::new(preflight));
        }
        self.check_open()?;
        Ok((place, passed))
    }

    /// Refuses new work once the shutdown has begun.
    fn check_open(&self) -> Result<(), Refusal> {
        match self.ending.load(Ordering::Acquire) {
            true => Err(Box::new(reply::unavailable("the server is shutting down"))),
            false => Ok(()),
        }
    }

    fn place(&self, path: &str) -> Option<Place> {
        if let Some(stream) =
            self.options.sse_path.as_deref().filter(|_| self.legacy && !self.options.stateless)
        {
            if path == stream {
                return Some(Place::Stream);
            }
            if path == &*self.options.messages_path {
                return Some(Place::Messages);
            }
        }
        let Some(endpoint) = self.options.path.as_deref() else { return Some(Place::Endpoint) };
        (path == endpoint || self.options.at_root && path == "/").then_some(Place::Endpoint)
    }

    /// The response to an unknown path: it names the endpoint, and those of joined servers. Where clients are admitted one by one,
    /// the names of those servers are not for everybody.
    fn no_place(&self, path: &str) -> Response<HttpBody> {
        let shown = |path: &str| format!("`{}`", Line::of(path).truncated(MAX_PATH_CHARS));
        let mut text = format!(
            "nothing is served at {}: the endpoint is {}",
            shown(path),
            shown(self.options.path.as_deref().unwrap_or("/"))
        );
        if self.options.admission.is_none() && !self.routes.is_empty() {
            let paths: Vec<String> =
                self.routes.iter().rev().take(MAX_PATHS_SHOWN).map(|(path, _)| shown(path)).collect();
            text += &format!(", and for one server alone {}", paths.join(", "));
            if let more @ 1.. = self.routes.len() - paths.len() {
                text += &format!(" and {more} more");
            }
        }
        text += &format!(". {}\n", self.options.wrong_path_hint.as_deref().unwrap_or(MOUNTED));
        reply::text(404, text)
    }

    /// Looks up the session that a request names: in this process, in other ones, then in the session store.
    async fn look_up(
        self: &Arc<Self>,
        head: &RequestHead<'_>,
        origin: &Arc<Origin>,
        account: &Arc<Account>,
    ) -> Result<(SessionLookup, Found), Refusal> {
        let Some(named) = head.session_id() else { return Ok((SessionLookup::Absent, Found::Nothing)) };
        let mut found = self.find_session(named, head.parts(), origin);
        if let (Found::Nothing, Some(store)) = (&found, &self.options.session_store) {
            // In a box, because most requests need none of it.
            let session = Box::pin(reopening::find(self, store, named, origin, account)).await?;
            found = session.map_or(Found::Nothing, Found::Here);
        }
        let version = match &found {
            Found::Here(session) => session.version.clone(),
            Found::Elsewhere(replica) => replica.version.clone(),
            Found::Nothing | Found::Ended => None,
        };
        Ok(match version {
            Some(version) => (SessionLookup::Known(version), found),
            // A session of 2024-11-05 cannot be used here.
            None => (SessionLookup::Unknown, Found::Nothing),
        })
    }

    /// Finds a session that is not stored.
    fn find_session(&self, named: &[u8], parts: &Parts, origin: &Origin) -> Found {
        let principal = origin.principal.as_deref();
        if let Some(session) = SessionId::parse(named).and_then(|id| self.sessions.find(&id, principal)) {
            return Found::Here(session);
        }
        let id = std::str::from_utf8(named).ok().filter(|id| is_stored_id(id));
        let (Some(replicas), Some(id)) = (&self.options.replicas, id) else { return Found::Nothing };
        if let Some(session) = self.sessions.find(&SessionId::of_stored(id), principal) {
            return Found::Here(session);
        }
        // A request is passed once.
        match replicas.home(id, principal).filter(|_| !parts.headers.contains_key(PASSED)) {
            Some(replica) => Found::Elsewhere(replica),
            None if replicas.is_session_id(id, principal) => Found::Ended,
            None => Found::Nothing,
        }
    }

    /// Returns the other process that a message names: the one that has given its `requestState`, or has asked the question that it
    /// answers.
    fn named_by(
        &self,
        parts: &Parts,
        decoded: Option<&Result<Decoded, DecodeError>>,
    ) -> Option<(Replica, NamedBy)> {
        let replicas = self.options.replicas.as_ref().filter(|_| !parts.headers.contains_key(PASSED))?;
        match decoded {
            Some(Ok(Decoded::Message(Message::Request(request)))) => {
                let state = request.params.as_ref()?.raw().member("requestState")?;
                Some((replicas.marked_by(&state.to_string_value()?)?, NamedBy::State))
            }
            Some(Ok(Decoded::Message(Message::Response(response)))) => {
                Some((replicas.marked_by(response.id.as_ref()?.as_str()?)?, NamedBy::Question))
            }
            _ => None,
        }
    }

    /// A name and an id for a new session that is not stored. `None` if the system gives no random numbers.
    fn new_session_id(
        &self,
        principal: Option<&str>,
        version: Option<&Version>,
    ) -> Option<(SessionId, String)> {
        match &self.options.replicas {
            Some(replicas) => {
                let id = replicas.session_id(principal, version)?;
                Some((SessionId::of_stored(&id), id))
            }
            None => SessionId::random().map(|id| (id, id.to_string())),
        }
    }

    /// Completes when the shutdown begins.
    async fn until_ending(&self) {
        let begins = self.ending_begins.notified();
        if !self.ending.load(Ordering::Acquire) {
            begins.await;
        }
    }

    /// Reads a body within its limits.
    async fn read(&self, body: RequestBody, account: &Arc<Account>) -> Result<Bytes, Refusal> {
        let body = read(body, self.limits.message, self.options.body_time, account).await;
        Ok(body.map_err(|unread| self.unread(unread))?)
    }

    fn unread(&self, unread: Unread) -> Response<HttpBody> {
        match unread {
            Unread::TooLarge => {
                let limit = self.limits.message;
                let hint = self.options.too_large_hint.as_deref();
                let more = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                reply::refuse(413, &format!("the body is above the limit `message` of {limit} bytes{more}"))
            }
            Unread::TooSlow => {
                let time = self.options.body_time.as_secs();
                reply::refuse(408, &format!("the body did not come within {time} s"))
            }
            Unread::Broken => reply::refuse(400, "the body could not be read"),
            Unread::Full(full) => reply::unavailable(&full.to_string()),
        }
    }

    /// The response to an `initialize` that is longer than what a session may keep of it.
    fn too_long_initialize(&self) -> Response<HttpBody> {
        let limit = self.options.initialize;
        reply::refuse(413, &format!("the body is above the limit `initialize` of {limit} bytes"))
    }

    /// Reserves the place of a session.
    fn reserve_session(&self, account: &Arc<Account>) -> Result<sessions::Place, Refusal> {
        Ok(self.sessions.reserve(account).ok_or_else(|| reply::unavailable("too many sessions"))?)
    }

    /// Opens a connection, unless the shutdown has begun.
    fn open(self: &Arc<Self>, routing: Routing) -> Result<Arc<Entry>, Refusal> {
        self.open_with(routing, |served, link| served.open(link))
    }

    fn open_with(
        self: &Arc<Self>,
        routing: Routing,
        open: impl FnOnce(&dyn Serves, Link) -> (Box<dyn Served>, Serving),
    ) -> Result<Arc<Entry>, Refusal> {
        let outside = |_| reply::refuse(500, "the service was called outside of a tokio runtime");
        let runtime = Handle::try_current().map_err(outside)?;
        let wire = Arc::new(Wire::new(routing, self.options.json_only));
        let (served, serving) = open(&*self.served, Link::new(HttpIo(wire.clone())));
        let number = self.last_entry.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::downgrade(self);
        let entry = Entry::new(wire, served, serving, runtime, move || {
            if let Some(shared) = shared.upgrade() {
                shared.forget(number);
            }
        });
        self.entries.lock().insert(number, Arc::downgrade(&entry));
        // After the insertion: either `drain` has seen the entry, or this check sees that the shutdown has begun.
        self.check_open()?;
        Ok(entry)
    }

    fn forget(&self, number: u64) {
        self.sessions.one_may_be_over();
        let mut entries = self.entries.lock();
        entries.remove(&number);
        let none = entries.is_empty();
        drop(entries);
        if none {
            self.ended.notify_waiters();
        }
    }

    /// Takes a connection for one modern exchange from the pool, or opens one.
    fn take(self: &Arc<Self>) -> Result<Arc<Entry>, Refusal> {
        loop {
            let pooled = self.pool.lock().pop();
            match pooled {
                Some(entry) if entry.wire.is_closed() => {}
                Some(entry) => return Ok(entry),
                None => return self.open(Routing::Exchange),
            }
        }
    }

    /// Returns a connection to the pool once its exchange is complete.
    fn give_back(&self, entry: &Arc<Entry>) {
        let mut pool = self.pool.lock();
        if pool.len() < MAX_POOLED && !self.ending.load(Ordering::Acquire) {
            pool.push(entry.clone());
            return;
        }
        drop(pool);
        entry.stop();
    }

    async fn drain(&self) {
        self.ending.store(true, Ordering::Release);
        self.ending_begins.notify_waiters();
        let pooled = (std::mem::take(&mut *self.pool.lock()), std::mem::take(&mut *self.legacy_pool.lock()));
        drop(pooled);
        let open: Vec<_> = self.entries.lock().values().filter_map(Weak::upgrade).collect();
        for entry in open {
            entry.served().drain();
        }
        loop {
            let ended = self.ended.notified();
            if self.entries.lock().is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// The response to a request that was not delivered to a connection.
    fn refused(&self, refused: Refused, id: Option<RequestId>) -> Response<HttpBody> {
        match refused {
            Refused::Duplicate => {
                let text = "a request with this id is still being handled";
                reply::error(400, id, ErrorObject::invalid_request(text))
            }
            Refused::Closed => reply::error(404, id, gone()),
            Refused::Full => reply::unavailable("too many messages wait to be read"),
        }
    }
}

/// The error for a session that has ended.
fn gone() -> ErrorObject {
    ErrorObject::new(code::INVALID_REQUEST, "no such session; initialize again")
}

/// The id of a message that is a request.
fn request_id(message: &Message) -> Option<&RequestId> {
    match message {
        Message::Request(request) => Some(&request.id),
        _ => None,
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl fmt::Debug for HttpFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpFuture")
    }
}

#[cfg(test)]
mod tests;
