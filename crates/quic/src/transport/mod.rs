//! MCP itself over QUIC: JSON-RPC unchanged, as a
//! [custom transport](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-transports).
//!
//! [`connect`] makes it for clients, [`listen`] for servers. `docs/quic.md` says what is on the wire: one stream in both directions for each request, one for
//! what belongs to no request, and on each of them the lines of the stdio transport.
//!
//! Each stream has a task (`exchange`) that reads, decodes and writes for itself; the link finds the stream of each
//! message (`table`). It never answers for the session, never sends anything twice, and knows nothing of eras.

mod code;
mod connect;
mod exchange;
mod incoming;
mod listen;
mod one_stream;
mod outgoing;
mod shared;
mod table;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32};
use std::task::{Context, Poll};
use std::time::Duration;

use mcpjoin_proto::session::{
    Inbound, Limits, Origin, Outbound, TransportCaps, TransportEnd, TransportError,
};
use mcpjoin_proto::types::CancelledParams;
use mcpjoin_proto::{Method, Notification, RequestId};
use quinn::{RecvStream, SendStream};
use tokio::sync::mpsc::{Receiver, Sender, channel, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};

pub use connect::{QuicConnect, connect};
pub use listen::{QuicListen, listen};

use self::exchange::{Common, Exchange, Kind, News};
use self::shared::{Line, Shared};
use self::table::{Entry, SESSION, Table, claim};
use crate::endpoint::{Connection, QuicError, QuicOptions};
use mcpjoin::internal::{Gather, beside, cannot_reopen};
use mcpjoin::transport::{Direction, Inspected, Inspector, Transport};

/// The application protocol that both sides name in the handshake (ALPN).
pub const ALPN: &str = "mcp";

/// How much a peer may send on one stream before it is read, in bytes. It is the most that flows in one round trip: 128
/// KiB, which is 12 MB/s over 10 ms for each stream.
const STREAM_WINDOW: u32 = 128 * 1024;
/// Bytes of messages of a client that wait here before no more are taken: as many as wait in a session
/// ([`Limits::queued_calls`]). What waits are calls, and what the server asks meanwhile must find its way past them.
const WAITING: usize = 8 * 1024 * 1024;
/// Messages that are larger than any stream may hold are read so many at once that together they stay below this, but
/// one always.
const LARGE: usize = 32 * 1024 * 1024;
/// The most of them at once.
const LARGE_AT_ONCE: usize = 8;
/// What has come and was not taken yet. Beyond, the streams wait.
const CAME: usize = 32;
/// How long closing may take in all: until what was said last has arrived, and the peer knows of the end.
const FAREWELL: Duration = Duration::from_secs(1);

/// How the connections of this transport behave. No stream that nobody reads may stop another: so all of them together
/// may hold what each of them may.
fn options(streams: u32) -> QuicOptions {
    let connection_window = STREAM_WINDOW.saturating_mul(streams.max(1).saturating_add(1));
    QuicOptions { streams, stream_window: STREAM_WINDOW, connection_window, ..QuicOptions::default() }
}

/// How many incomplete messages may be large, each below that limit.
fn large_at_once(message: usize) -> usize {
    (LARGE / message.max(1)).clamp(1, LARGE_AT_ONCE)
}

/// Who is at the other end.
enum Far {
    /// A server that we have connected to, and can connect to again.
    Server { target: Box<QuicConnect>, opening: Option<Opening> },
    /// A client that has come to us.
    Client,
}

type Opening = Pin<Box<dyn Future<Output = Result<Made, QuicError>> + Send>>;
type Accepting = Pin<Box<dyn Future<Output = Option<(SendStream, RecvStream)>> + Send>>;

/// A connection of a client, with the stream of the session.
struct Made {
    connection: Connection,
    session: (SendStream, RecvStream),
}

/// Whether requests of a client may be handed in.
enum Gate {
    Open,
    /// `initialize` came, and is not answered.
    Asked(RequestId),
    /// It was answered: what a client asks after that may come before its `notifications/initialized`, which is on
    /// another stream, and waits for it here.
    Answered(VecDeque<News>),
}

/// What closing waits for.
struct Closing {
    until: Pin<Box<Sleep>>,
    /// The peer is being told.
    settling: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// The link.
struct QuicLink {
    far: Far,
    connection: Connection,
    /// The stream of the session of a client, until the first poll.
    session: Option<(SendStream, RecvStream)>,
    limits: Limits,
    origin: Arc<Origin>,
    shared: Arc<Shared>,
    /// `None` until the first poll, and when the connection is over.
    common: Option<Arc<Common>>,
    heard: Receiver<News>,
    /// Each stream that has something to say holds a sender.
    leash: Option<Sender<()>>,
    leashes: Receiver<()>,
    tasks: JoinSet<()>,
    table: Table,
    next_key: u64,
    /// Streams that a client may have open.
    places: Arc<Semaphore>,
    accepting: Option<Accepting>,
    closed: Pin<Box<dyn Future<Output = QuicError> + Send>>,
    /// Why the connection is over; the streams may still have something.
    over: Option<TransportEnd>,
    ended: Option<TransportEnd>,
    ready: VecDeque<Inbound>,
    /// What the message counts for that was handed in last.
    permit: Option<OwnedSemaphorePermit>,
    gate: Gate,
    inspector: Option<Inspector>,
    closing: Option<Closing>,
}

/// Waits until the connection is over.
fn closed(connection: &Connection) -> Pin<Box<dyn Future<Output = QuicError> + Send>> {
    let connection = connection.clone();
    Box::pin(async move { connection.closed().await })
}

/// Waits for the next stream that the peer opens.
fn accept(connection: &Connection) -> Accepting {
    let connection = connection.clone();
    Box::pin(async move { connection.accept().await.ok() })
}

impl QuicLink {
    fn new(
        far: Far,
        connection: Connection,
        session: Option<(SendStream, RecvStream)>,
        streams: u32,
    ) -> Self {
        let (leash, leashes) = channel(1);
        let peer = connection.peer_name();
        let peer = peer.map_or_else(
            || connection.address().to_owned(),
            |name| format!("{} ({})", connection.address(), mcpjoin_proto::text::Line::of(&name)),
        );
        // A client's certificate was found good: whoever holds its key is who it says.
        let shown = connection.peer_certificate().filter(|_| matches!(far, Far::Client));
        let principal = shown.map(|certificate| {
            let key: String = certificate.key_hash.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("key {key}").into()
        });
        let (_, heard) = channel(1);
        Self {
            accepting: matches!(far, Far::Client).then(|| accept(&connection)),
            closed: closed(&connection),
            far,
            connection,
            session,
            limits: Limits::default(),
            origin: Arc::new(Origin { peer: Some(peer.into()), principal, ..Origin::new("quic") }),
            shared: Arc::default(),
            common: None,
            heard,
            leash: Some(leash),
            leashes,
            tasks: JoinSet::new(),
            table: Table::default(),
            next_key: SESSION + 1,
            places: Arc::new(Semaphore::new(streams.saturating_sub(1).max(1) as usize)),
            over: None,
            ended: None,
            ready: VecDeque::new(),
            permit: None,
            gate: Gate::Open,
            inspector: None,
            closing: None,
        }
    }

    const fn is_server(&self) -> bool {
        matches!(self.far, Far::Client)
    }

    /// What all streams share, made when the bounds are known.
    fn common(&mut self) -> Option<Arc<Common>> {
        if self.common.is_none() && self.over.is_none() && self.leash.is_some() {
            let (news, heard) = channel(CAME);
            self.heard = heard;
            self.common = Some(Arc::new(Common {
                message: self.limits.message,
                decoding: self.limits.decode.clone(),
                stall: self.limits.write_stall,
                origin: self.origin.clone(),
                large: Arc::new(Semaphore::new(large_at_once(self.limits.message))),
                news,
            }));
            if let Some((send, receive)) = self.session.take() {
                self.begin(SESSION, Kind::Session, send, receive);
            }
        }
        self.common.clone()
    }

    /// Begins to read and write a stream that is open.
    fn begin(&mut self, key: u64, kind: Kind, send: SendStream, receive: RecvStream) {
        let (Some(common), Some(leash)) = (self.common(), self.leash.clone()) else { return };
        let code = Arc::new(AtomicU32::new(code::CANCELLED));
        let claim = Arc::new(AtomicU8::new(claim::OPEN));
        let exchange = Exchange { key, kind, common, code: code.clone(), claim: claim.clone() };
        let (out, lines) = unbounded_channel();
        let task = self.tasks.spawn(exchange.run((send, receive), lines, leash));
        let entry =
            Entry { out: Some(out), task, claim, code, ours: Vec::new(), theirs: Vec::new(), begun: false };
        self.table.entries.insert(key, entry);
    }
}

/// The request that a notification cancels.
fn cancelled(notification: &Notification) -> Option<RequestId> {
    if notification.method != Method::Cancelled {
        return None;
    }
    notification.params.as_ref()?.raw().decode::<CancelledParams>().ok()?.request_id
}

impl Transport for QuicLink {
    fn caps(&self) -> TransportCaps {
        TransportCaps { exchanges: true, reopens: !self.is_server(), remote: false }
    }

    fn configure(&mut self, limits: &Limits) {
        self.limits = limits.clone();
        self.shared.set_room(match self.far {
            // A message of the largest size does not keep small ones from other streams.
            Far::Client => limits.message.saturating_add(limits.queued_replies),
            Far::Server { .. } => WAITING,
        });
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        self.shared.keep(cx.waker());
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
            match self.heard.poll_recv(cx) {
                Poll::Ready(Some(news)) => {
                    self.hear(news);
                    continue;
                }
                Poll::Ready(None) => {
                    self.ended = Some(self.over.clone().unwrap_or_else(TransportEnd::end_of_stream));
                    continue;
                }
                Poll::Pending => {}
            }
            if let Some(accepting) = &mut self.accepting
                && let Poll::Ready(accepted) = accepting.as_mut().poll(cx)
            {
                self.accepting = accepted.is_some().then(|| accept(&self.connection));
                if let Some((send, receive)) = accepted {
                    self.accepted(send, receive);
                }
                continue;
            }
            if self.over.is_none()
                && let Poll::Ready(error) = self.closed.as_mut().poll(cx)
            {
                self.connection_closed(&error);
                continue;
            }
            return Poll::Pending;
        }
    }

    fn has_room(&self) -> bool {
        self.shared.has_room()
    }

    fn push(&mut self, outbound: Outbound) {
        if let Outbound::Abort { id } = &outbound {
            if let Some(key) = self.table.take_ours(id)
                && key != SESSION
                && !self.withdraw(key)
            {
                self.cut(key, code::CANCELLED);
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
        let Some(line) = Line::new(&outbound, &self.shared) else { return };
        match &outbound {
            Outbound::Message { message, route } => self.message(message, route, line),
            Outbound::Batch { messages, exchange } => self.answers(messages, *exchange, line),
            // Streams are not left and taken up again: a request keeps its own.
            Outbound::Abort { .. } | Outbound::CloseStream { .. } => {}
        }
    }

    /// Everything that was pushed is with its stream, and a stream that takes nothing is given up by itself. A client's
    /// calls that wait for a stream are no sign of that.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportEnd>> {
        self.shared.keep(cx.waker());
        if self.is_server() && !self.has_room() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn discard(&mut self) {
        // Without its stream the session would be over for a reason that is none of the peer's.
        for (_, entry) in self.table.entries.iter().filter(|(key, _)| **key != SESSION) {
            entry.task.abort();
        }
    }

    fn sent(&self) -> u64 {
        self.shared.sent()
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<TransportEnd> {
        if self.closing.is_none() {
            self.closing = Some(Closing { until: Box::pin(sleep(FAREWELL)), settling: None });
            self.accepting = None;
            if let Far::Server { opening, .. } = &mut self.far {
                *opening = None;
            }
            // What was asked is not waited for, what was said is.
            for (key, entry) in &mut self.table.entries {
                entry.out = None;
                if *key != SESSION && !entry.ours.is_empty() && entry.theirs.is_empty() {
                    entry.task.abort();
                }
            }
            self.leash = None;
        }
        // Nobody hears any more what comes now, and no stream is to wait for that.
        while let Poll::Ready(Some(_)) = self.heard.poll_recv(cx) {}
        while let Poll::Ready(Some(_)) = self.tasks.poll_join_next(cx) {}
        let Some(closing) = &mut self.closing else { return Poll::Pending };
        let late = closing.until.as_mut().poll(cx).is_ready();
        if closing.settling.is_none() {
            if !late && self.leashes.poll_recv(cx).is_pending() {
                return Poll::Pending;
            }
            self.connection.close(code::NO_ERROR, "");
            let connection = self.connection.clone();
            closing.settling = Some(Box::pin(async move { connection.settled(FAREWELL).await }));
        }
        let settled = closing.settling.as_mut().is_none_or(|settling| settling.as_mut().poll(cx).is_ready());
        if !settled && !late {
            return Poll::Pending;
        }
        self.tasks.abort_all();
        Poll::Ready(
            self.ended.clone().or_else(|| self.over.clone()).unwrap_or_else(TransportEnd::end_of_stream),
        )
    }

    fn poll_reopen(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportEnd>> {
        let Far::Server { target, opening } = &mut self.far else {
            return Poll::Ready(Err(cannot_reopen()));
        };
        let connecting = opening.get_or_insert_with(|| {
            self.connection.close(code::NO_ERROR, "");
            Box::pin((**target).clone().made())
        });
        let Poll::Ready(outcome) = connecting.as_mut().poll(cx) else { return Poll::Pending };
        *opening = None;
        let made = match outcome {
            Ok(made) => made,
            Err(error) => {
                let error = TransportError::new(error.to_string(), true);
                return Poll::Ready(Err(TransportEnd::failed(error)));
            }
        };
        let far = Far::Server { target: target.clone(), opening: None };
        let streams = target.most_streams();
        let mut afresh = Self::new(far, made.connection, Some(made.session), streams);
        afresh.configure(&self.limits);
        afresh.inspector = self.inspector.take();
        *self = afresh;
        Poll::Ready(Ok(()))
    }

    fn inspect(&mut self, inspector: Inspector) -> Result<(), Inspector> {
        self.inspector = Some(beside(self.inspector.take(), inspector));
        Ok(())
    }
}

/// Everything ends at once.
impl Drop for QuicLink {
    fn drop(&mut self) {
        self.connection.close(code::NO_ERROR, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
