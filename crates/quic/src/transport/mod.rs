//! MCP over QUIC: unchanged JSON-RPC, as a [custom
//! transport](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-transports).
//!
//! [`connect`] makes it for clients, [`listen`] for servers. `docs/quic.md` specifies the wire format: one
//! bidirectional stream for each request, one session stream for messages that belong to no request, and on each stream
//! the lines of the stdio transport.
//!
//! Each stream has a task (`stream`) that reads, decodes and writes. The link finds the stream of each message
//! (`table`). It never responds for the session, never sends a message twice, and does not depend on the protocol era.

mod connect;
mod incoming;
mod listen;
mod outgoing;
mod stream;
mod table;
mod write_buffer;

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use mcpjoin_proto::session::{
    Inbound, Limits, Origin, Outbound, TransportCaps, TransportEnd, TransportError,
};
use mcpjoin_proto::types::{CancelledParams, ProtocolType};
use mcpjoin_proto::{Method, Notification, RequestId};
use quinn::{RecvStream, SendStream};
use tokio::sync::mpsc::{Receiver, Sender, channel, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep};

pub use connect::{QuicConnect, connect};
pub use listen::{QuicListen, listen};

use self::stream::{Common, Kind, StreamEvent, StreamTask};
use self::table::{Entry, SESSION, StreamState, Table, claim};
use self::write_buffer::{Line, WriteBuffer};
use crate::endpoint::{Connection, QuicError, QuicOptions};
use mcpjoin::internal::{Gather, beside, cannot_reopen};
use mcpjoin::transport::{Direction, Inspected, Inspector, Transport};

/// The application protocol (ALPN) that both sides name in the handshake.
pub const ALPN: &str = "mcp";

/// Bytes that a peer may send on one stream before they are read. It bounds the throughput of a stream: 128 KiB per
/// round trip are 12 MB/s over 10 ms.
const STREAM_WINDOW: u32 = 128 * 1024;
/// Bytes of a client's messages that may wait here before `has_room` is false, as many as a session queues
/// ([`Limits::queued_calls`]). These are calls, and responses to the server's requests must be able to pass them.
const CLIENT_QUEUE_BYTES: usize = 8 * 1024 * 1024;
/// Total bytes of the messages above `SMALL_MESSAGE_BYTES` that are read at once. At least one is always read.
const LARGE_MESSAGES_BYTES: usize = 32 * 1024 * 1024;
/// Maximum number of such messages at once.
const MAX_LARGE_MESSAGES: usize = 8;
/// Stream events that may wait for the link. Further streams wait to report theirs.
const EVENT_QUEUE: usize = 32;
/// How long the last messages may wait for a peer that sends nothing, and then the peer for the end of the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a client may take for its first request. Our keep-alive packets would keep one that never sends any for ever.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Error codes of streams and connections, from the table in `docs/quic.md`.
mod code {
    use quinn::VarInt;

    /// Everything was sent.
    pub(super) const NO_ERROR: u32 = 0;
    /// The caller or the handler has cancelled the request.
    pub(super) const CANCELLED: u32 = 1;
    /// The peer violated the transport's rules.
    pub(super) const PROTOCOL: u32 = 2;
    /// A message exceeds the receiver's limit.
    pub(super) const TOO_LARGE: u32 = 3;
    /// No bytes were transferred, or no request came, within the time limit.
    pub(super) const STALLED: u32 = 4;
    /// The limit of connections is reached.
    pub(super) const BUSY: u32 = 5;

    pub(super) const fn number(code: u32) -> VarInt {
        VarInt::from_u32(code)
    }
}

/// QUIC options of this transport. The connection window is the sum of the stream windows, so a stream that is not read
/// cannot block another one.
fn options(streams: u32) -> QuicOptions {
    let connection_window = STREAM_WINDOW.saturating_mul(streams.max(1).saturating_add(1));
    QuicOptions { streams, stream_window: STREAM_WINDOW, connection_window, ..QuicOptions::default() }
}

/// How many incomplete messages may exceed the small size at once, when each may have `message` bytes.
fn large_at_once(message: usize) -> usize {
    (LARGE_MESSAGES_BYTES / message.max(1)).clamp(1, MAX_LARGE_MESSAGES)
}

/// The kind of peer.
enum Peer {
    /// A server that this client connected to, and can connect to again.
    Server { target: Box<QuicConnect>, opening: Option<Opening> },
    /// A client that this server accepted.
    Client,
}

type Opening = Pin<Box<dyn Future<Output = Result<Opened, QuicError>> + Send>>;
type Accepting = Pin<Box<dyn Future<Output = Option<(SendStream, RecvStream)>> + Send>>;

/// A new connection of a client, with its session stream.
struct Opened {
    connection: Connection,
    session: (SendStream, RecvStream),
}

/// Whether a server delivers its client's requests to the session.
enum Gate {
    Open,
    /// `initialize` was received and has no response yet.
    AwaitingResponse(RequestId),
    /// `initialize` has its response. Requests that arrive before `notifications/initialized`, which is on another
    /// stream, wait here.
    AwaitingInitialized(VecDeque<StreamEvent>),
}

/// Progress of closing.
struct Closing {
    began: Instant,
    until: Pin<Box<Sleep>>,
    /// The datagrams of the peer when `until` was set.
    received: u64,
    /// Waits until the peer was informed.
    settling: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// A link over one QUIC connection.
struct QuicLink {
    peer: Peer,
    connection: Connection,
    /// A client's session stream, until the first poll.
    session: Option<(SendStream, RecvStream)>,
    limits: Limits,
    origin: Arc<Origin>,
    write_buffer: Arc<WriteBuffer>,
    /// `None` before the first poll and after the connection has ended.
    common: Option<Arc<Common>>,
    events: Receiver<StreamEvent>,
    /// Each stream with unsent data holds a clone; closing waits until all are dropped.
    unfinished: Option<Sender<()>>,
    unfinished_end: Receiver<()>,
    tasks: JoinSet<()>,
    table: Table,
    next_key: u64,
    /// Limits how many streams a client has open.
    stream_permits: Arc<Semaphore>,
    accepting: Option<Accepting>,
    closed: Pin<Box<dyn Future<Output = QuicError> + Send>>,
    /// Why the connection ended. Streams may still have messages to deliver.
    close_cause: Option<TransportEnd>,
    ended: Option<TransportEnd>,
    ready: VecDeque<Inbound>,
    /// Held until the message that was delivered last is processed.
    permit: Option<OwnedSemaphorePermit>,
    gate: Gate,
    /// When a client must have requested something, until it has. Counts from the first poll.
    silence: Option<Pin<Box<Sleep>>>,
    /// The agreed revision has arrays of messages.
    batching: bool,
    inspector: Option<Inspector>,
    closing: Option<Closing>,
}

/// Waits until the connection has ended.
fn closed(connection: &Connection) -> Pin<Box<dyn Future<Output = QuicError> + Send>> {
    let connection = connection.clone();
    Box::pin(async move { connection.closed().await })
}

/// Waits for the peer to open a stream.
fn accept(connection: &Connection) -> Accepting {
    let connection = connection.clone();
    Box::pin(async move { connection.accept().await.ok() })
}

impl QuicLink {
    fn new(
        peer: Peer,
        connection: Connection,
        session: Option<(SendStream, RecvStream)>,
        streams: u32,
    ) -> Self {
        let (unfinished, unfinished_end) = channel(1);
        let name = connection.peer_name();
        let label = name.map_or_else(
            || connection.address().to_owned(),
            |name| format!("{} ({})", connection.address(), mcpjoin_proto::text::Line::of(&name)),
        );
        // The certificate was verified in the handshake, so its key identifies the client.
        let shown = connection.peer_certificate().filter(|_| matches!(peer, Peer::Client));
        let principal = shown.map(|certificate| {
            let key: String = certificate.key_hash.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("key {key}").into()
        });
        let (_, events) = channel(1);
        Self {
            accepting: matches!(peer, Peer::Client).then(|| accept(&connection)),
            closed: closed(&connection),
            peer,
            connection,
            session,
            limits: Limits::default(),
            origin: Arc::new(Origin { peer: Some(label.into()), principal, ..Origin::new("quic") }),
            write_buffer: Arc::default(),
            common: None,
            events,
            unfinished: Some(unfinished),
            unfinished_end,
            tasks: JoinSet::new(),
            table: Table::default(),
            next_key: SESSION + 1,
            stream_permits: Arc::new(Semaphore::new(streams.saturating_sub(1).max(1) as usize)),
            close_cause: None,
            ended: None,
            ready: VecDeque::new(),
            permit: None,
            gate: Gate::Open,
            silence: None,
            batching: false,
            inspector: None,
            closing: None,
        }
    }

    const fn is_server(&self) -> bool {
        matches!(self.peer, Peer::Client)
    }

    /// The state that all streams share. It is created once the limits are known.
    fn common(&mut self) -> Option<Arc<Common>> {
        if self.common.is_none() && self.close_cause.is_none() && self.unfinished.is_some() {
            let (sender, events) = channel(EVENT_QUEUE);
            self.events = events;
            self.common = Some(Arc::new(Common {
                message: self.limits.message,
                decoding: self.limits.decode.clone(),
                stall: self.limits.write_stall,
                origin: self.origin.clone(),
                large: Arc::new(Semaphore::new(large_at_once(self.limits.message))),
                events: sender,
            }));
            self.silence = self.is_server().then(|| Box::pin(sleep(FIRST_REQUEST_TIMEOUT)));
            if let Some((send, receive)) = self.session.take() {
                self.begin(SESSION, Kind::Session, send, receive);
            }
        }
        self.common.clone()
    }

    /// Starts the task of an open stream.
    fn begin(&mut self, key: u64, kind: Kind, send: SendStream, receive: RecvStream) {
        let (Some(common), Some(unfinished)) = (self.common(), self.unfinished.clone()) else { return };
        let state = StreamState::new(claim::OPEN);
        let stream_task = StreamTask { key, kind, common, state: state.clone() };
        let (out, lines) = unbounded_channel();
        let task = self.tasks.spawn(stream_task.run((send, receive), lines, unfinished));
        let entry =
            Entry { out: Some(out), task, state, ours: Vec::new(), theirs: Vec::new(), started: false };
        self.table.entries.insert(key, entry);
    }
}

/// The id of the request that a notification cancels.
fn cancelled(notification: &Notification) -> Option<RequestId> {
    if notification.method != Method::Cancelled {
        return None;
    }
    CancelledParams::read(notification.params.as_ref()?.raw()).ok()?.request_id
}

impl Transport for QuicLink {
    fn caps(&self) -> TransportCaps {
        TransportCaps { exchanges: true, reopens: !self.is_server(), ..TransportCaps::default() }
    }

    fn origin(&self) -> Option<Arc<Origin>> {
        Some(Arc::clone(&self.origin))
    }

    fn configure(&mut self, limits: &Limits) {
        self.limits = limits.clone();
        self.write_buffer.set_limit(match self.peer {
            // One message of the maximum size must not block small messages on other streams.
            Peer::Client => limits.message.saturating_add(limits.queued_replies),
            Peer::Server { .. } => CLIENT_QUEUE_BYTES,
        });
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        self.write_buffer.set_waker(cx.waker());
        self.common();
        self.permit = None;
        loop {
            if let Some(inbound) = self.ready.pop_front() {
                return Poll::Ready(inbound);
            }
            if let Some(cause) = self.ended.clone() {
                return Poll::Ready(Inbound::Closed { cause });
            }
            while let Poll::Ready(Some(_)) = self.tasks.poll_join_next(cx) {}
            match self.events.poll_recv(cx) {
                Poll::Ready(Some(event)) => {
                    self.handle_event(event);
                    continue;
                }
                Poll::Ready(None) => {
                    self.ended = Some(self.close_cause.clone().unwrap_or_else(TransportEnd::end_of_stream));
                    continue;
                }
                Poll::Pending => {}
            }
            if let Some(accepting) = &mut self.accepting
                && let Poll::Ready(accepted) = accepting.as_mut().poll(cx)
            {
                self.accepting = accepted.is_some().then(|| accept(&self.connection));
                if let Some((send, receive)) = accepted {
                    self.accept_stream(send, receive);
                }
                continue;
            }
            if self.close_cause.is_none()
                && let Poll::Ready(error) = self.closed.as_mut().poll(cx)
            {
                self.connection_closed(&error);
                continue;
            }
            if let Some(silence) = &mut self.silence
                && silence.as_mut().poll(cx).is_ready()
            {
                self.silence = None;
                let why =
                    format!("the client has requested nothing within {} s", FIRST_REQUEST_TIMEOUT.as_secs());
                self.mark_closed(TransportEnd::failed(TransportError::new(why, false)));
                self.connection.close(code::STALLED, "no request came");
                continue;
            }
            return Poll::Pending;
        }
    }

    fn has_room(&self) -> bool {
        self.write_buffer.has_room()
    }

    fn push(&mut self, outbound: Outbound) {
        if let Outbound::Abort { id } = &outbound {
            if let Some(key) = self.table.take_ours(id)
                && key != SESSION
                && !self.withdraw(key)
            {
                self.reset_stream(key, code::CANCELLED);
            }
            return;
        }
        if let Some(inspector) = &mut self.inspector {
            let line = Gather::whole(&outbound);
            if !line.is_empty() {
                inspector(Direction::Out, Inspected::Line(&line));
            }
        }
        self.common();
        let Some(line) = Line::new(&outbound, &self.write_buffer) else { return };
        match &outbound {
            Outbound::Message { message, route } => self.send_message(message, route, line),
            Outbound::Batch { messages, exchange } => self.send_batch(messages, *exchange, line),
            // Streams are never resumed: a request keeps its stream.
            Outbound::Abort { .. } | Outbound::CloseStream { .. } => {}
        }
    }

    /// Every message is queued on its stream, and a stream that makes no progress times out by itself. A client's calls
    /// that wait for a free stream do not count as unsent.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportEnd>> {
        self.write_buffer.set_waker(cx.waker());
        if self.is_server() && !self.has_room() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn discard(&mut self) {
        // Aborting the session stream would end the session.
        for (_, entry) in self.table.entries.iter().filter(|(key, _)| **key != SESSION) {
            entry.task.abort();
        }
    }

    fn sent(&self) -> u64 {
        self.write_buffer.sent()
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<TransportEnd> {
        if self.closing.is_none() {
            self.closing = Some(Closing {
                began: Instant::now(),
                until: Box::pin(sleep(CLOSE_TIMEOUT)),
                received: self.connection.received(),
                settling: None,
            });
            self.accepting = None;
            if let Peer::Server { opening, .. } = &mut self.peer {
                *opening = None;
            }
            // Calls are aborted; messages that were already pushed are sent.
            for (key, entry) in &mut self.table.entries {
                entry.out = None;
                if *key != SESSION && !entry.ours.is_empty() && entry.theirs.is_empty() {
                    entry.task.abort();
                }
            }
            self.unfinished = None;
        }
        // Events are dropped from now on, so that no stream waits for the link.
        while let Poll::Ready(Some(_)) = self.events.poll_recv(cx) {}
        while let Poll::Ready(Some(_)) = self.tasks.poll_join_next(cx) {}
        let Some(closing) = &mut self.closing else { return Poll::Pending };
        let mut late = closing.until.as_mut().poll(cx).is_ready();
        let received = self.connection.received();
        if late && received != closing.received && closing.began.elapsed() < self.limits.drain {
            // The peer still acknowledges what is sent.
            closing.received = received;
            closing.until.as_mut().reset(Instant::now() + CLOSE_TIMEOUT);
            late = closing.until.as_mut().poll(cx).is_ready();
        }
        if closing.settling.is_none() {
            if !late && self.unfinished_end.poll_recv(cx).is_pending() {
                return Poll::Pending;
            }
            self.connection.close(code::NO_ERROR, "");
            let connection = self.connection.clone();
            closing.settling = Some(Box::pin(async move { connection.close_sent(CLOSE_TIMEOUT).await }));
        }
        let settled = closing.settling.as_mut().is_none_or(|settling| settling.as_mut().poll(cx).is_ready());
        if !settled && !late {
            return Poll::Pending;
        }
        self.tasks.abort_all();
        Poll::Ready(
            self.ended
                .clone()
                .or_else(|| self.close_cause.clone())
                .unwrap_or_else(TransportEnd::end_of_stream),
        )
    }

    fn poll_reopen(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportEnd>> {
        let Peer::Server { target, opening } = &mut self.peer else {
            return Poll::Ready(Err(cannot_reopen()));
        };
        let connecting = opening.get_or_insert_with(|| {
            self.connection.close(code::NO_ERROR, "");
            Box::pin((**target).clone().open())
        });
        let Poll::Ready(outcome) = connecting.as_mut().poll(cx) else { return Poll::Pending };
        *opening = None;
        let opened = match outcome {
            Ok(opened) => opened,
            Err(error) => {
                let error = TransportError::new(error.to_string(), true);
                return Poll::Ready(Err(TransportEnd::failed(error)));
            }
        };
        let peer = Peer::Server { target: target.clone(), opening: None };
        let streams = target.max_streams();
        let mut reopened = Self::new(peer, opened.connection, Some(opened.session), streams);
        reopened.configure(&self.limits);
        reopened.inspector = self.inspector.take();
        *self = reopened;
        Poll::Ready(Ok(()))
    }

    fn inspect(&mut self, inspector: Inspector) -> Result<(), Inspector> {
        self.inspector = Some(beside(self.inspector.take(), inspector));
        Ok(())
    }
}

/// Closes the connection at once.
impl Drop for QuicLink {
    fn drop(&mut self) {
        self.connection.close(code::NO_ERROR, "");
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use mcpjoin_proto::Message;
    use tokio::time::{advance, pause};

    use super::listen::MAX_STREAMS;
    use super::*;
    use crate::endpoint::{ClientAuth, ClientTls, Identity, Listener, ServerTls, Trust, connect};

    async fn is_silent(link: &mut QuicLink) -> bool {
        poll_fn(|cx| Poll::Ready(link.poll_inbound(cx).is_pending())).await
    }

    /// Connected and then in virtual time, in which no packet arrives.
    #[tokio::test]
    async fn a_client_that_requests_nothing_is_disconnected_after_thirty_seconds_and_no_other() {
        let identity = Identity::self_signed(["localhost"]).expect("an identity");
        let trust = Trust::Key(identity.facts().expect("a certificate").key_hash);
        let tls = move || ServerTls::new(identity.clone(), &ClientAuth::Anybody, ALPN);
        let mut options = options(MAX_STREAMS);
        options.idle = Duration::from_secs(3600);
        let listener = Listener::bind("127.0.0.1:0", tls, options.clone()).await.expect("a port");
        let (address, tls) = (listener.address().to_string(), ClientTls::new(&trust, None, ALPN));
        let tls = tls.expect("a key");
        let mut clients = Vec::new();
        for first in ["", "ping", "tools/list"] {
            let (client, connection) = tokio::join!(connect(&address, &tls, &options), async {
                listener.accept().await.expect("a client").establish().await
            });
            let (client, connection) = (client.expect("connected"), connection.expect("connected"));
            let mut link = QuicLink::new(Peer::Client, connection, None, MAX_STREAMS);
            link.configure(&Limits::default());
            assert!(is_silent(&mut link).await);
            let (mut send, receive) = client.open().await.expect("a stream");
            if !first.is_empty() {
                let request = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{first}\"}}\n");
                send.write_all(request.as_bytes()).await.expect("sent");
                let received = poll_fn(|cx| link.poll_inbound(cx)).await;
                assert!(matches!(received, Inbound::Message { message: Message::Request(_), .. }));
            }
            clients.push((first, link, client, send, receive));
        }
        pause();
        advance(FIRST_REQUEST_TIMEOUT - Duration::from_secs(5)).await;
        for (first, link, ..) in &mut clients {
            assert!(is_silent(link).await, "{first}");
        }
        advance(Duration::from_secs(5)).await;
        let due = Instant::now();
        for (first, link, ..) in &mut clients {
            if *first == "tools/list" {
                assert!(is_silent(link).await);
                continue;
            }
            let cause = loop {
                if let Inbound::Closed { cause } = poll_fn(|cx| link.poll_inbound(cx)).await {
                    break cause;
                }
            };
            assert!(cause.to_string().contains("requested nothing within 30 s"), "{first}: {cause}");
            assert!(due.elapsed() < Duration::from_secs(1), "{first}: {:?} late", due.elapsed());
        }
    }

    #[test]
    fn large_messages_at_once_have_a_total_and_are_eight_at_most() {
        const MIB: usize = 1024 * 1024;
        for (message, count) in
            [(0, 8), (1, 8), (4 * MIB, 8), (4 * MIB + 1, 7), (10 * MIB, 3), (32 * MIB, 1), (usize::MAX, 1)]
        {
            assert_eq!(large_at_once(message), count, "{message}");
        }
    }
}
