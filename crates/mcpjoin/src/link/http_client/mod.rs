//! The link of a client to a server over HTTP.
//!
//! Made by [`Link::http`](super::Link::http). One POST for each message
//! ([2026-07-28](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http),
//! [2025-11-25](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http)), and, where
//! the server knows none, [HTTP+SSE](https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse).
//! The era is the session's to find out; this link tells it what came of each probe.
//!
//! The link owns its exchanges and polls them itself, so that dropping it ends them all at once. It never answers for
//! the session, and sends nothing twice that may have been executed.

mod again;
mod challenge;
mod connect;
mod credentials;
mod exchange;
mod failure;
mod heard;
mod issuer;
mod legacy;
mod listen;
mod outgoing;
mod proxy;
mod reading;
mod refused;
mod relist;
mod reopen;
mod resuming;
mod running;
mod sse2024;
mod tls;
mod waiting;
mod wire;
#[cfg(unix)]
mod witness;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::Method as HttpMethod;
use http::header::HeaderMap;
use mcpjoin_proto::http::classify::Probe;
use mcpjoin_proto::session::{Inbound, Limits, LinkCaps, LinkEnd, LinkError, Outbound};
use mcpjoin_proto::{Message, Method, RequestId};
use reqwest::Url;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Sleep, sleep};

pub(crate) use challenge::reason as refusal;
pub(crate) use connect::Checked;
pub use connect::{HttpConnect, HttpHandle, HttpSetupError, HttpWay};
pub(crate) use credentials::ErasedCredentials;
pub use credentials::{
    AfterChallenge, AuthorizationChallenge, AuthorizationRequest, Credentials, CredentialsError,
};
pub(crate) use failure::readable;
#[cfg(feature = "oauth")]
pub(crate) use failure::{describe, find, root};
#[cfg(unix)]
pub(crate) use failure::{is_an_authoritys, tls_text, untrusted_issuer};
pub(crate) use proxy::Proxy;
#[cfg(unix)]
pub(crate) use proxy::is_excepted;
#[cfg(feature = "oauth")]
pub(crate) use tls::config as tls_config;
pub(crate) use wire::shown;
#[cfg(unix)]
pub(crate) use witness::Exchanged;

use self::exchange::{Exchange, News, Post, Refused, Role, body};
use self::heard::Heard;
use self::legacy::{LegacySession, Memory};
use self::outgoing::{Outgoing, message_headers};
use self::running::{Running, Ticket, What};
use self::waiting::{Gate, Kind, Waiting, cancelled};
use self::wire::{Sending, Wire};
use super::{Io, cannot_reopen};

/// Bytes of messages that wait here before no more are taken: as many as wait in a session
/// ([`Limits::queued_calls`]). It is more than other links hold, because what waits here are calls, and what the
/// server asks meanwhile must find its way past them.
const WAITING: usize = 8 * 1024 * 1024;
/// What has come and was not taken yet. Beyond, the exchanges wait.
const CAME: usize = 8;
/// How long closing may take in all: what was said last, and the end of the session.
const FAREWELL: Duration = Duration::from_secs(1);

/// The link.
struct HttpLink {
    wire: Arc<Wire>,
    handle: HttpHandle,
    /// HTTP+SSE alone.
    legacy_sse: bool,
    /// Whether to open the stream of a session.
    get_stream: bool,
    way: Way,
    gate: Gate,
    session: Option<Arc<LegacySession>>,
    memory: Memory,
    /// The events of the session that have been taken.
    heard_events: Heard,
    outgoing: Outgoing,
    /// Messages for which the gate is not open.
    waiting: VecDeque<Waiting>,
    /// Requests that wait until others have ended.
    queued: VecDeque<Waiting>,
    waiting_bytes: usize,
    running: Running,
    /// The stream of the session.
    stream: Option<Ticket>,
    /// The probe of the era.
    probe: Option<RequestId>,
    /// The server has accepted to speak.
    opened: bool,
    news: Sender<News>,
    heard: Receiver<News>,
    ready: VecDeque<Inbound>,
    reader: Option<Waker>,
    ended: Option<LinkEnd>,
    sent: u64,
    closing: Option<Closing>,
}

/// How the server is reached.
enum Way {
    Streamable,
    /// The place to post to when it is known, and what Streamable HTTP has come to.
    HttpSse {
        endpoint: Option<Url>,
        refused: Option<Box<Refused>>,
    },
}

/// What closing waits for: what was said last, then the end of the session; and until when.
enum Closing {
    Leaving(Pin<Box<Sleep>>),
    Ending(Pin<Box<Sleep>>),
}

impl HttpLink {
    fn new(wire: Wire, legacy_sse: bool, get_stream: bool, handle: HttpHandle) -> Self {
        let (news, heard) = channel(CAME);
        Self {
            wire: Arc::new(wire),
            handle,
            legacy_sse,
            get_stream,
            way: Way::Streamable,
            gate: Gate::Open,
            session: None,
            memory: Memory::default(),
            heard_events: Heard::default(),
            outgoing: Outgoing::default(),
            waiting: VecDeque::new(),
            queued: VecDeque::new(),
            waiting_bytes: 0,
            running: Running::default(),
            stream: None,
            probe: None,
            opened: false,
            news,
            heard,
            ready: VecDeque::new(),
            reader: None,
            ended: None,
            sent: 0,
            closing: None,
        }
    }

    // ---- what runs ----

    /// Something is over.
    fn over(&mut self, what: What) {
        match what {
            What::Request { id, .. } => {
                if self.gate == Gate::Postponed && self.probe.as_ref() == Some(&id) {
                    self.gate = Gate::Open;
                }
            }
            What::Initialized => {
                if self.gate == Gate::Initialized {
                    self.gate = Gate::Open;
                }
                self.open_stream();
            }
            What::Cancel(id) => self.abort(&id),
            What::Told | What::Reopening | What::Background => {}
        }
    }

    /// Ends the exchange of a request.
    fn abort(&mut self, id: &RequestId) {
        self.outgoing.forget(id);
        self.running.end_request(id);
    }

    /// Takes a request out of those that wait. Says whether it was there: then nothing of it has left.
    fn withdraw(&mut self, id: &RequestId) -> bool {
        let mut withdrawn = 0;
        for queue in [&mut self.waiting, &mut self.queued] {
            queue.retain(|waiting| {
                let other = waiting.id() != Some(id);
                if !other {
                    withdrawn += waiting.size;
                }
                other
            });
        }
        self.waiting_bytes = self.waiting_bytes.saturating_sub(withdrawn);
        withdrawn > 0
    }

    /// Opens the stream of the session, in place of an earlier one.
    fn open_stream(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.running.end(stream);
        }
        let Some(session) = self.session.clone().filter(|session| session.streams && self.get_stream) else {
            return;
        };
        if matches!(self.way, Way::HttpSse { .. }) || self.closing.is_some() {
            return;
        }
        let stream = listen::listen(Arc::clone(&self.wire), session, self.news.clone());
        self.stream = Some(self.running.begin(What::Background, stream));
    }

    // ---- what goes out ----

    /// Starts what may start. Says whether anything was.
    fn pump(&mut self) -> bool {
        let mut started = false;
        while self.gate == Gate::Open && self.ended.is_none() {
            let Some(waiting) = self.waiting.pop_front() else { break };
            if waiting.is_counted() && !self.running.has_room() {
                self.queued.push_back(waiting);
                continue;
            }
            self.start(waiting);
            started = true;
        }
        while self.gate == Gate::Open && self.ended.is_none() && self.running.has_room() {
            let Some(waiting) = self.queued.pop_front() else { break };
            self.start(waiting);
            started = true;
        }
        started
    }

    fn start(&mut self, waiting: Waiting) {
        self.waiting_bytes = self.waiting_bytes.saturating_sub(waiting.size);
        self.sent += 1;
        let Some(Kind { role, repeatable, about, what, owed }) = waiting.kind() else { return };
        // Whatever came back to the probe, the session has not taken it for an agreement.
        self.opened &= role != Role::Probe(Probe::Initialize);
        // Later ones, when everything is agreed, are requests like others; so are those whose reply comes on another
        // stream.
        let agreed = self.opened || matches!(self.way, Way::HttpSse { .. });
        let role = if agreed && owed.is_some() { Role::Request } else { role };
        if role == Role::Probe(Probe::Discover) {
            self.probe.clone_from(&owed);
        }
        if let Some(request) = waiting.request() {
            self.memory.note(request);
        }
        let Waiting { outbound, again, .. } = waiting;
        let elsewhere = matches!(self.way, Way::HttpSse { .. });
        let url = match &self.way {
            Way::HttpSse { endpoint: Some(endpoint), .. } => endpoint.clone(),
            _ => self.wire.url.clone(),
        };
        let mut sending = Sending { url, ..self.wire.sending(HttpMethod::POST, about) };
        let session = self.session.clone().filter(|_| !elsewhere);
        let modern = if elsewhere {
            sending.headers = message_headers();
            false
        } else {
            match self.outgoing.dress(&outbound, session.as_deref()) {
                Ok(dressed) => {
                    sending.headers = dressed.headers;
                    dressed.modern
                }
                Err(what) => {
                    let cause = sending.error(format!("not sent: {what}"), false);
                    if let Some(id) = owed {
                        self.hand_in(Inbound::Lost { id, cause });
                    }
                    return;
                }
            }
        };
        sending.body = Some(body(&outbound));
        if matches!(what, What::Initialized) {
            self.gate = Gate::Initialized;
        }
        // Kept to be sent again is only what may be refused unexecuted for a reason that the link knows to mend: by a
        // session that is gone, for the transport, for headers that do not fit the tool.
        let once = again || owed.is_none();
        let refusable = session.is_some() || role == Role::Probe(Probe::Initialize);
        let keep = !once && (refusable || modern && &*sending.about == Method::CallTool.as_str());
        let outbound = keep.then_some(outbound);
        let post = Post { sending, role, repeatable, owed, session, modern, elsewhere, outbound, again };
        let exchange = Exchange::new(Arc::clone(&self.wire), post, self.news.clone());
        self.running.begin(what, exchange.run());
    }

    // ---- what comes in ----

    fn hand_in(&mut self, inbound: Inbound) {
        self.outgoing.learn(&inbound);
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

    fn lose(&mut self, waiting: Waiting, cause: &LinkError) {
        self.waiting_bytes = self.waiting_bytes.saturating_sub(waiting.size);
        if let Some(id) = waiting.id() {
            let (id, cause) = (id.clone(), cause.clone());
            self.hand_in(Inbound::Lost { id, cause });
        }
    }

    fn end(&mut self, end: LinkEnd) {
        self.ended.get_or_insert(end);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Came(inbound) => self.hand_in(inbound),
            News::Heard { inbound, mark, of } => {
                if !self.heard_events.is_new(mark) {
                    return;
                }
                if let Inbound::Message { message: Message::Response(reply), .. } = &inbound
                    && let Some(id) =
                        reply.id.as_ref().filter(|id| mark.is_resumed() && of.as_ref() != Some(id))
                {
                    // The reply of another exchange: it has nothing to wait for any more.
                    self.running.end_request(id);
                }
                self.hand_in(inbound);
            }
            News::Initialized { session, reply } => {
                if let Some(probe) = self.probe.take() {
                    // Whatever it still brings decides nothing any more.
                    self.abort(&probe);
                }
                self.handle.took(HttpWay::Streamable);
                self.session = Some(Arc::new(session));
                self.opened = true;
                self.hand_in(reply);
            }
            News::Postponed => {
                if self.gate == Gate::Open {
                    self.gate = Gate::Postponed;
                }
            }
            News::TryHttpSse(refused) => self.turn_to_http_sse(Some(refused)),
            News::Endpoint(url) => {
                self.handle.took(HttpWay::HttpSse);
                let Way::HttpSse { endpoint, refused } = &mut self.way else { return };
                *endpoint = Some(url);
                if let Some(refused) = refused.take() {
                    self.send_again(refused.initialize);
                }
                self.gate = Gate::Open;
            }
            News::NoHttpSse(cause) => self.no_http_sse(cause),
            News::Gone { generation, again } => self.gone(generation, again),
            News::Mismatched { call, refusal } => self.relist(*call, refusal),
            News::Relisted { call, refusal, pages } => self.relisted(call, refusal, &pages),
            News::Reopened(session) => {
                self.session = Some(Arc::new(session));
                self.heard_events = Heard::default();
                self.gate = Gate::Open;
                self.open_stream();
            }
            News::NotReopened { cause, fatal } => {
                self.gate = Gate::Open;
                for waiting in std::mem::take(&mut self.waiting) {
                    self.lose(waiting, &cause);
                }
                if fatal {
                    self.end(LinkEnd::failed(cause));
                }
            }
            News::Ended(end) => self.end(end),
        }
    }

    fn turn_to_http_sse(&mut self, refused: Option<Box<Refused>>) {
        self.way = Way::HttpSse { endpoint: None, refused };
        self.gate = Gate::Endpoint;
        let stream = sse2024::listen(Arc::clone(&self.wire), self.news.clone());
        self.running.begin(What::Background, stream);
    }

    /// There is no stream of 2024-11-05 either: what Streamable HTTP has come to is the answer.
    fn no_http_sse(&mut self, cause: LinkError) {
        let Way::HttpSse { refused, .. } = &mut self.way else { return };
        let Some(refused) = refused.take() else { return self.end(LinkEnd::failed(cause)) };
        self.way = Way::Streamable;
        self.gate = Gate::Open;
        match refused.reply {
            Some(reply) => self.hand_in(reply),
            None => {
                let cause = sse2024::both_failed(&refused.cause, &cause);
                self.hand_in(Inbound::Lost { id: refused.id, cause });
            }
        }
    }

    /// Moves everything on that can move.
    fn drive(&mut self, cx: &mut Context<'_>) {
        loop {
            let mut moved = self.pump();
            while let Poll::Ready(what) = self.running.poll_over(cx) {
                self.over(what);
                moved = true;
            }
            while self.ready.len() < CAME {
                let Poll::Ready(Some(news)) = self.heard.poll_recv(cx) else { break };
                self.hear(news);
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    /// The request that ends the session at the server, where it has one with an id.
    fn ending(&self) -> Option<Sending> {
        let session = self.session.as_ref().filter(|session| session.id.is_some())?;
        if self.gate == Gate::Reopening || matches!(self.way, Way::HttpSse { .. }) {
            return None;
        }
        let mut headers = HeaderMap::new();
        session.write(&mut headers);
        Some(Sending { headers, ..self.wire.sending(HttpMethod::DELETE, "the end of the session") })
    }
}

impl Io for HttpLink {
    fn caps(&self) -> LinkCaps {
        LinkCaps { exchanges: true, ..LinkCaps::default() }
    }

    fn has_headers(&self) -> bool {
        true
    }

    fn configure(&mut self, limits: &Limits) {
        // What runs already keeps the limits that it began with.
        Arc::make_mut(&mut self.wire).limits = limits.clone();
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
        self.waiting_bytes < WAITING
    }

    fn push(&mut self, outbound: Outbound) {
        if let Outbound::Abort { id } = &outbound {
            self.withdraw(id);
            self.abort(id);
            return;
        }
        // Only a server closes streams.
        let closes = matches!(outbound, Outbound::CloseStream { .. });
        if closes || cancelled(&outbound).is_some_and(|id| self.withdraw(&id)) {
            return;
        }
        let waiting = Waiting::new(outbound);
        if self.legacy_sse {
            if waiting.request().is_some_and(|request| request.method == Method::Discover) {
                // Servers of 2024-11-05 have never heard of it, and some do not survive it.
                let what = "HTTP+SSE has no server/discover";
                let cause = LinkError::new(what, false);
                return self.lose(waiting, &cause);
            }
            if matches!(self.way, Way::Streamable) {
                self.turn_to_http_sse(None);
            }
        }
        self.waiting_bytes = self.waiting_bytes.saturating_add(waiting.size);
        self.waiting.push_back(waiting);
    }

    /// Everything that was pushed is on its way, or waits for its turn with a bound of its own: the time that its
    /// request has. So a server that lets requests wait is not one that takes nothing.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        self.drive(cx);
        Poll::Ready(Ok(()))
    }

    fn discard(&mut self) {
        self.waiting.clear();
        self.queued.clear();
        self.waiting_bytes = 0;
    }

    /// Messages whose exchange has begun.
    fn sent(&self) -> u64 {
        self.sent
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<LinkEnd> {
        if self.closing.is_none() {
            self.closing = Some(Closing::Leaving(Box::pin(sleep(FAREWELL))));
            self.queued.clear();
            self.waiting.retain(|waiting| waiting.request().is_none());
            self.running.end_all_but_told();
        }
        loop {
            // Nobody hears any more what comes now, and nobody is to wait for that.
            self.drive(cx);
            let heard = !self.ready.is_empty();
            self.ready.clear();
            if heard {
                continue;
            }
            let over = self.running.is_empty() && self.waiting.is_empty();
            match self.closing.take() {
                Some(Closing::Leaving(mut until)) => {
                    if !over && until.as_mut().poll(cx).is_pending() {
                        self.closing = Some(Closing::Leaving(until));
                        return Poll::Pending;
                    }
                    if let Some(sending) = self.ending() {
                        let wire = Arc::clone(&self.wire);
                        self.session = None;
                        self.running.begin(What::Told, async move {
                            if let Err(unanswered) = wire.send(&sending).await {
                                tracing::debug!(target: "mcpjoin", error = %unanswered.error, "not ended");
                            }
                        });
                    }
                    self.closing = Some(Closing::Ending(until));
                }
                Some(Closing::Ending(mut until)) => {
                    if !over && until.as_mut().poll(cx).is_pending() {
                        self.closing = Some(Closing::Ending(until));
                        return Poll::Pending;
                    }
                    self.closing = Some(Closing::Ending(until));
                    self.running.clear();
                    return Poll::Ready(self.ended.clone().unwrap_or_else(LinkEnd::end_of_stream));
                }
                None => return Poll::Ready(LinkEnd::end_of_stream()),
            }
        }
    }

    fn standing(&self) -> crate::link::Standing {
        self.wire.standing()
    }

    fn poll_reopen(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        Poll::Ready(Err(cannot_reopen()))
    }
}

#[cfg(test)]
mod tests;
