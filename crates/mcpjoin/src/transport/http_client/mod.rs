//! The transport of a client to a server over HTTP.
//!
//! Built by [`Link::http`](super::Link::http), driven by `connection`. It posts each message
//! ([2026-07-28](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http),
//! [2025-11-25](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http)), and speaks
//! [HTTP+SSE](https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse) where the server
//! knows no Streamable HTTP.
//!
//! ```text
//! push --> queue --> start: message_headers --> exchange --> requester --> crate::http::Client
//!                                                  |
//!                                                  v
//!        session_stream, http_sse       body or response_stream
//!                    |                             |
//!                    +-------> event_stream <------+
//!                                   |
//!                                   v
//! poll_inbound <-- deliver <-- handle_event: exchange_event, seen_events
//! ```
//!
//! Invariants: the transport polls its exchanges itself, so dropping it ends them all at once. It does not decide the era:
//! it reports the response to each probe to the session. It does not answer for the session. It sends a message twice only
//! if the server has not processed it (`resend`), or if a second copy does no harm (`retry`).

mod body;
mod builder;
mod credentials;
mod event_stream;
mod exchange;
mod exchange_event;
mod http_sse;
mod in_flight;
mod message_headers;
mod queue;
mod requester;
mod resend;
mod response_error;
mod response_stream;
mod resuming;
mod retry;
mod seen_events;
mod session;
mod session_stream;

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::Method as HttpMethod;
use mcpjoin_proto::http::classify::Probe;
use mcpjoin_proto::session::{
    Inbound, Limits, Origin, Outbound, Route, TransportCaps, TransportEnd, TransportError,
};
use mcpjoin_proto::{Message, Method, RequestId};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use url::Url;

pub use builder::{Checked, HttpOpen};
pub use builder::{HttpConnect, HttpHandle, HttpWay};
pub use credentials::ErasedCredentials;
pub use credentials::{
    AfterChallenge, AuthorizationChallenge, AuthorizationRequest, Credentials, CredentialsError,
};
#[cfg(unix)]
pub use requester::Exchanged;
pub use response_error::{kind_of_status, readable, refusal_reason as refusal};

pub use crate::http::HttpSetupError;

use self::exchange::{Exchange, Post, Role, body, ended_request};
use self::exchange_event::{ExchangeEvent, RefusedInitialize};
use self::in_flight::{InFlight, Task, TaskId};
use self::message_headers::{MessageHeaders, message_headers};
use self::queue::{MessageKind, QueuedMessage, SendGate, cancelled};
use self::requester::{HttpRequest, Requester};
use self::seen_events::SeenEvents;
use self::session::{LegacySession, SessionSettings};
use super::{Transport, UpstreamSession};

/// Bytes of queued messages above which no more are taken: as many as a session queues ([`Limits::queued_calls`]). Other
/// transports take less; here calls are queued, and responses to what the server asks meanwhile must pass them.
const MAX_QUEUED_BYTES: usize = 8 * 1024 * 1024;
/// Received messages that the connection has not taken yet. Above it the exchanges wait.
const MAX_UNREAD_MESSAGES: usize = 8;
/// How long after a request its cancellation is sent at the earliest. It has another connection, and a server ignores a cancellation
/// that arrives before its request.
const CANCELLATION_DELAY: Duration = Duration::from_millis(50);
/// How long closing may take in all. The last messages have half of it, so that the session is ended also if they hang.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The transport.
struct HttpLink {
    requester: Arc<Requester>,
    handle: HttpHandle,
    /// Only HTTP+SSE is tried.
    legacy_sse: bool,
    /// Whether a session opens its stream.
    get_stream: bool,
    mode: Mode,
    gate: SendGate,
    session: Option<Arc<LegacySession>>,
    /// The session as its owner sees and treats it.
    held: UpstreamSession,
    /// The number before the ids of requests in a session that other links use as well.
    requests_from: OnceLock<u32>,
    settings: SessionSettings,
    /// The events of the session that were delivered.
    seen_events: SeenEvents,
    headers: MessageHeaders,
    /// Messages in order, until the gate is open.
    waiting: VecDeque<QueuedMessage>,
    /// Requests beyond the limit of those in flight.
    queued: VecDeque<QueuedMessage>,
    waiting_bytes: usize,
    in_flight: InFlight,
    /// The requests in flight that are sent again if they are refused unprocessed: neither answered nor cancelled.
    repeatable: BTreeSet<RequestId>,
    /// The stream of the session.
    stream: Option<TaskId>,
    /// Whether the server has accepted `initialized`, so that the stream may be open.
    streams: bool,
    /// The probe of the era.
    probe: Option<RequestId>,
    /// The server has accepted a probe.
    opened: bool,
    events: Sender<ExchangeEvent>,
    event_receiver: Receiver<ExchangeEvent>,
    /// Messages for the connection.
    ready: VecDeque<Inbound>,
    reader: Option<Waker>,
    ended: Option<TransportEnd>,
    sent: u64,
    closing: Option<Closing>,
    /// Dropped last.
    _open: HttpOpen,
}

/// The transport of the specification in use.
enum Mode {
    Streamable,
    /// `endpoint`: the URL to post to, once the stream has named it. `refused`: the `initialize` that Streamable HTTP has
    /// refused before.
    HttpSse {
        endpoint: Option<Url>,
        refused: Option<Box<RefusedInitialize>>,
    },
}

/// The two steps of closing, with the timeout of both.
enum Closing {
    /// Messages without a response are sent.
    Flushing(Pin<Box<Sleep>>),
    /// The session is ended at the server.
    EndingSession(Pin<Box<Sleep>>),
}

/// A random number above those that the link which has opened a session uses. It has 31 bits, because some servers read ids as such
/// numbers.
fn random_number() -> u32 {
    // Without random numbers no link with TLS works either.
    (1 << 20) + (getrandom::u32().unwrap_or_default() >> 2)
}

impl HttpLink {
    fn new(requester: Requester, legacy_sse: bool, get_stream: bool, handle: HttpHandle) -> Self {
        let (events, event_receiver) = channel(MAX_UNREAD_MESSAGES);
        Self {
            requester: Arc::new(requester),
            _open: HttpOpen::of(&handle),
            handle,
            legacy_sse,
            get_stream,
            mode: Mode::Streamable,
            gate: SendGate::Open,
            session: None,
            held: UpstreamSession::default(),
            requests_from: OnceLock::new(),
            settings: SessionSettings::default(),
            seen_events: SeenEvents::default(),
            headers: MessageHeaders::default(),
            waiting: VecDeque::new(),
            queued: VecDeque::new(),
            waiting_bytes: 0,
            in_flight: InFlight::default(),
            repeatable: BTreeSet::new(),
            stream: None,
            streams: false,
            probe: None,
            opened: false,
            events,
            event_receiver,
            ready: VecDeque::new(),
            reader: None,
            ended: None,
            sent: 0,
            closing: None,
        }
    }

    // ---- tasks in flight ----

    fn task_finished(&mut self, task: Task) {
        match task {
            Task::Request { id, .. } => {
                if self.gate == SendGate::Postponed && self.probe.as_ref() == Some(&id) {
                    self.gate = SendGate::Open;
                }
            }
            Task::Initialized => {
                if self.gate == SendGate::Initialized {
                    self.gate = SendGate::Open;
                }
                self.streams = true;
                self.open_stream();
            }
            Task::Cancel(id) => self.abort(&id),
            Task::OneWay | Task::ReopenSession | Task::Background => {}
        }
    }

    /// Aborts the exchange of a request.
    fn abort(&mut self, id: &RequestId) {
        self.headers.forget(id);
        self.repeatable.remove(id);
        self.in_flight.abort_request(id);
    }

    /// Removes a request from the queues. Returns whether it was there: then nothing of it was sent.
    fn remove_queued(&mut self, id: &RequestId) -> bool {
        let mut removed = 0;
        for queue in [&mut self.waiting, &mut self.queued] {
            queue.retain(|waiting| {
                let other = waiting.id() != Some(id);
                if !other {
                    removed += waiting.size;
                }
                other
            });
        }
        self.waiting_bytes = self.waiting_bytes.saturating_sub(removed);
        removed > 0
    }

    /// Opens the stream of the session in place of an earlier one.
    fn open_stream(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.in_flight.abort(stream);
        }
        let Some(session) = self.session.clone().filter(|session| session.streams && self.get_stream) else {
            return;
        };
        let is_silent = self.held.is_silent();
        if matches!(self.mode, Mode::HttpSse { .. }) || self.closing.is_some() || is_silent {
            return;
        }
        let (requester, events) = (Arc::clone(&self.requester), self.events.clone());
        let stream = session_stream::listen(requester, session, self.held.clone(), events);
        self.stream = Some(self.in_flight.start(Task::Background, stream));
    }

    // ---- outgoing ----

    /// Starts the exchanges that may start. Returns whether one was started.
    fn pump(&mut self) -> bool {
        let mut started = false;
        while self.gate == SendGate::Open && self.ended.is_none() {
            let Some(waiting) = self.waiting.pop_front() else { break };
            if waiting.is_counted() && !self.in_flight.has_capacity() {
                self.queued.push_back(waiting);
                continue;
            }
            self.start(waiting);
            started = true;
        }
        while self.gate == SendGate::Open && self.ended.is_none() && self.in_flight.has_capacity() {
            let Some(waiting) = self.queued.pop_front() else { break };
            self.start(waiting);
            started = true;
        }
        started
    }

    fn start(&mut self, waiting: QueuedMessage) {
        self.waiting_bytes = self.waiting_bytes.saturating_sub(waiting.size);
        self.sent += 1;
        let Some(MessageKind { role, retry_class, about, task, pending }) = waiting.kind() else { return };
        // The session probes again: it has not accepted the response to an earlier probe.
        self.opened &= role != Role::Probe(Probe::Initialize);
        // After the agreement a probe is a request like others; so is one whose response comes on another stream.
        let agreed = self.opened || matches!(self.mode, Mode::HttpSse { .. });
        let role = if agreed && pending.is_some() { Role::Request } else { role };
        if role == Role::Probe(Probe::Discover) {
            self.probe.clone_from(&pending);
        }
        if let Some(request) = waiting.request() {
            self.settings.record(request);
        }
        let QueuedMessage { outbound, is_resent, .. } = waiting;
        let reply_on_stream = matches!(self.mode, Mode::HttpSse { .. });
        let url = match &self.mode {
            Mode::HttpSse { endpoint: Some(endpoint), .. } => endpoint.clone(),
            _ => self.requester.url.clone(),
        };
        let mut http_request = HttpRequest { url, ..self.requester.request(HttpMethod::POST, about) };
        let session = self.session.clone().filter(|_| !reply_on_stream);
        let modern = if reply_on_stream {
            http_request.headers = message_headers();
            false
        } else {
            match self.headers.of_message(&outbound, session.as_deref()) {
                Ok(headed) => {
                    http_request.headers = headed.headers;
                    headed.modern
                }
                Err(what) => {
                    let cause = http_request.error(format!("not sent: {what}"), false);
                    if let Some(id) = pending {
                        self.deliver(Inbound::Lost { id, cause });
                    }
                    return;
                }
            }
        };
        http_request.body = Some(body(&outbound));
        // A modern request is cancelled by its abort.
        http_request.taken = (pending.is_some() && session.is_some()).then(|| watch::Sender::new(None));
        if matches!(task, Task::Initialized) {
            self.gate = SendGate::Initialized;
        }
        // Kept for a second try: what may be refused unprocessed for a reason that this transport can repair, which is a
        // lost session, the wrong transport, or headers that do not fit the tool.
        let once = is_resent || pending.is_none();
        let refusable = session.is_some() || role == Role::Probe(Probe::Initialize);
        let keep = !once && (refusable || modern && &*http_request.about == Method::CallTool.as_str());
        let outbound = keep.then_some(outbound);
        self.repeatable.extend(pending.clone().filter(|_| keep));
        let post = Post {
            http_request,
            role,
            retry_class,
            pending,
            session,
            modern,
            reply_on_stream,
            outbound,
            is_resent,
        };
        let taken = post.http_request.taken.as_ref().map(watch::Sender::subscribe);
        let exchange = Exchange::new(Arc::clone(&self.requester), post, self.events.clone());
        if let Task::Cancel(id) = &task
            && let Some(taken) = self.in_flight.taken(id)
        {
            if taken.is_none() {
                // It need not be sent. It may be all the same, if that begins at this moment.
                self.in_flight.abort_request(id);
            }
            let at = taken.unwrap_or_else(Instant::now) + CANCELLATION_DELAY;
            self.in_flight.start(task, async move {
                sleep_until(at).await;
                exchange.run().await;
            });
            return;
        }
        let started = self.in_flight.start(task, exchange.run());
        if let Some(taken) = taken {
            self.in_flight.reports(started, taken);
        }
    }

    // ---- incoming ----

    /// Queues a message for the connection.
    fn deliver(&mut self, inbound: Inbound) {
        if let Some(id) = ended_request(&inbound) {
            self.headers.learn(id, &inbound);
            self.repeatable.remove(id);
        }
        if let Inbound::Message { message: Message::Response(reply), .. } = &inbound
            && reply.outcome.is_ok()
            && reply.id.is_some()
            && reply.id == self.probe
        {
            self.handle.took(HttpWay::Streamable);
            self.opened = true;
        }
        self.ready.push_back(inbound);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// Drops a queued message; the session learns that its request is lost.
    fn fail(&mut self, waiting: QueuedMessage, cause: &TransportError) {
        self.waiting_bytes = self.waiting_bytes.saturating_sub(waiting.size);
        if let Some(id) = waiting.id() {
            let (id, cause) = (id.clone(), cause.clone());
            self.deliver(Inbound::Lost { id, cause });
        }
    }

    fn end(&mut self, end: TransportEnd) {
        self.ended.get_or_insert(end);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// Opens or closes the stream of the session, as the owner of the session wishes.
    fn follow_owner(&mut self, cx: &Context<'_>) {
        if !self.held.is_held() {
            return;
        }
        let listens = self.held.listens(cx.waker());
        for answer in self.held.take_answers() {
            self.push(Outbound::Message { message: Message::Response(answer), route: Route::Session });
        }
        if !listens && let Some(stream) = self.stream.take() {
            self.in_flight.abort(stream);
        } else if listens && self.stream.is_none() && self.streams {
            self.open_stream();
        }
    }

    /// Polls all parts until none makes progress.
    fn drive(&mut self, cx: &mut Context<'_>) {
        self.follow_owner(cx);
        loop {
            let mut moved = self.pump();
            while let Poll::Ready(task) = self.in_flight.poll_finished(cx) {
                self.task_finished(task);
                moved = true;
            }
            while self.ready.len() < MAX_UNREAD_MESSAGES {
                let Poll::Ready(Some(event)) = self.event_receiver.poll_recv(cx) else { break };
                self.handle_event(event);
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    /// The request that ends the session at the server, if the session has an id.
    fn session_end_request(&self) -> Option<HttpRequest> {
        let session = self.session.as_ref()?;
        if self.gate == SendGate::Reopening
            || matches!(self.mode, Mode::HttpSse { .. })
            || !self.held.ends_with_link()
        {
            return None;
        }
        session.end_request(&self.requester)
    }
}

impl Transport for HttpLink {
    fn caps(&self) -> TransportCaps {
        let resumes = self.held.resumed().is_some();
        let requests_from = if resumes { *self.requests_from.get_or_init(random_number) } else { 0 };
        TransportCaps { exchanges: true, requests_from, ..TransportCaps::default() }
    }

    fn origin(&self) -> Option<Arc<Origin>> {
        Some(Arc::clone(&self.requester.origin))
    }

    fn has_headers(&self) -> bool {
        true
    }

    fn configure(&mut self, limits: &Limits) {
        // Exchanges in flight keep the limits that they were started with.
        Arc::make_mut(&mut self.requester).limits = limits.clone();
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        self.drive(cx);
        if let Some(inbound) = self.ready.pop_front() {
            return Poll::Ready(inbound);
        }
        if let Some(cause) = self.ended.clone() {
            return Poll::Ready(Inbound::Closed { cause });
        }
        self.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn has_room(&self) -> bool {
        self.waiting_bytes < MAX_QUEUED_BYTES
    }

    fn push(&mut self, outbound: Outbound) {
        if let Outbound::Abort { id } = &outbound {
            self.remove_queued(id);
            self.abort(id);
            return;
        }
        // Only a server closes streams.
        let closes = matches!(outbound, Outbound::CloseStream { .. });
        let cancels = |id: RequestId| {
            self.repeatable.remove(&id);
            self.remove_queued(&id)
        };
        if closes || cancelled(&outbound).is_some_and(cancels) {
            return;
        }
        let Some(outbound) = self.resume(outbound) else { return };
        let waiting = QueuedMessage::new(outbound);
        if self.legacy_sse {
            if waiting.request().is_some_and(|request| request.method == Method::Discover) {
                // No server of 2024-11-05 knows it, and some crash on it.
                let what = "HTTP+SSE has no server/discover";
                let cause = TransportError::new(what, false);
                return self.fail(waiting, &cause);
            }
            if matches!(self.mode, Mode::Streamable) {
                self.switch_to_http_sse(None);
            }
        }
        self.waiting_bytes = self.waiting_bytes.saturating_add(waiting.size);
        self.waiting.push_back(waiting);
    }

    /// Always ready: a pushed message is in flight, or queued with the timeout of its request. A server that delays
    /// responses does not count as one that accepts nothing.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportEnd>> {
        self.drive(cx);
        Poll::Ready(Ok(()))
    }

    fn discard(&mut self) {
        self.waiting.clear();
        self.queued.clear();
        self.waiting_bytes = 0;
    }

    /// Messages whose exchange was started.
    fn sent(&self) -> u64 {
        self.sent
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<TransportEnd> {
        if self.closing.is_none() {
            let wait = CLOSE_TIMEOUT / 2;
            self.closing = Some(Closing::Flushing(Box::pin(sleep(wait))));
            self.queued.clear();
            self.waiting.retain(|waiting| waiting.request().is_none());
            self.in_flight.abort_requests_and_streams(wait);
        }
        loop {
            // Messages that arrive now are dropped, so that no exchange waits for room.
            self.drive(cx);
            let received = !self.ready.is_empty();
            self.ready.clear();
            if received {
                continue;
            }
            let finished = self.in_flight.is_empty() && self.waiting.is_empty();
            match self.closing.take() {
                Some(Closing::Flushing(mut until)) => {
                    if !finished && until.as_mut().poll(cx).is_pending() {
                        self.closing = Some(Closing::Flushing(until));
                        return Poll::Pending;
                    }
                    if let Some(http_request) = self.session_end_request() {
                        let requester = Arc::clone(&self.requester);
                        self.session = None;
                        self.in_flight.start(Task::OneWay, async move {
                            if let Err(failure) = requester.send(&http_request).await {
                                tracing::debug!(target: "mcpjoin", error = %failure.error, "not ended");
                            }
                        });
                    }
                    self.closing = Some(Closing::EndingSession(Box::pin(sleep(CLOSE_TIMEOUT / 2))));
                }
                Some(Closing::EndingSession(mut until)) => {
                    if !finished && until.as_mut().poll(cx).is_pending() {
                        self.closing = Some(Closing::EndingSession(until));
                        return Poll::Pending;
                    }
                    self.closing = Some(Closing::EndingSession(until));
                    self.in_flight.clear();
                    return Poll::Ready(self.ended.clone().unwrap_or_else(TransportEnd::end_of_stream));
                }
                None => return Poll::Ready(TransportEnd::end_of_stream()),
            }
        }
    }

    fn upstream_session(&self) -> Option<UpstreamSession> {
        Some(self.held.hold())
    }

    fn identity(&self) -> crate::transport::PeerIdentity {
        self.requester.identity()
    }
}

#[cfg(test)]
mod tests;
