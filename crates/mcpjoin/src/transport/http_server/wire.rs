//! The state between a connection and the HTTP exchanges of its session: received messages that are not read yet, and for
//! each exchange the messages to send on it.
//!
//! The connection drives [`HttpIo`](super::io::HttpIo); the exchanges use [`Wire`]. A message is sent on the exchange that its
//! route names. A response ends its exchange, as plain JSON if nothing was sent before; any other message makes the exchange
//! an event stream. This module knows no HTTP library and makes no other protocol decision.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http>

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::sync::{Mutex, MutexGuard};
use bytes::{Bytes, BytesMut};
use mcpjoin_proto::codec::sse::OutgoingEvent;
use mcpjoin_proto::session::Inbound;
use mcpjoin_proto::{Profile, RequestId};
use tokio::time::{Instant, Sleep, sleep};

use super::events::{EventId, EventStore, SessionId};
use super::exchange_state::{ExchangeState, Form, Queued, Reader, State, Wake, keep};
use super::memory::{Account, Full, Traffic};
use super::reply::Status;

/// The number of the stream that belongs to no POST: the stream that a legacy client opens with GET, the only one of
/// 2024-11-05, and the only one of a modern exchange.
pub(super) const GET_STREAM: u64 = 0;

/// Marks the GET stream of one of several processes in the ids of its events.
const SHARED_GET_STREAM: u64 = 1 << 63;

/// How messages are routed to exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Routing {
    /// One exchange at a time: everything is sent on it.
    Exchange,
    /// One stream for each POST, and the GET stream.
    Session,
    /// Everything is sent on one stream: 2024-11-05.
    Everything,
}

/// What the `initialize` exchange of a session has settled.
pub(super) struct Negotiated {
    pub(super) profile: &'static Profile,
    pub(super) session: SessionId,
    /// Stores events, where streams can be resumed.
    pub(super) events: Option<Arc<dyn EventStore>>,
    /// The number before the first stream in this process. 0 unless other processes serve the session as well: then it is
    /// random, so that no two processes have a stream of the same number.
    pub(super) before_streams: u64,
    pub(super) retry: Duration,
}

/// How the response to a request begins.
#[derive(Debug)]
pub(super) enum Head {
    /// A complete JSON body.
    Json { status: Status, body: Bytes },
    /// An event stream.
    Stream,
    /// No reply: the request was cancelled.
    Nothing,
    /// No reply: the connection was closed before it has read the request.
    Closed,
    /// No reply: the connection was closed after it has read the request.
    Lost,
}

/// The exchanges' side of a session.
pub(super) struct Wire {
    pub(super) routing: Routing,
    /// Only responses may be sent on an exchange.
    pub(super) json_only: bool,
    pub(super) agreed: OnceLock<Negotiated>,
    /// Bytes queued for exchanges that are open.
    pub(super) buffered: AtomicUsize,
    /// Bytes that exchanges have taken.
    pub(super) taken: AtomicU64,
    /// The limit of `buffered`.
    pub(super) room: AtomicUsize,
    /// The client whose share these bytes count against.
    account: Mutex<Option<Arc<Account>>>,
    state: Mutex<State>,
}

/// Why a received request is not delivered to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// A request with the same id is pending.
    Duplicate,
    /// The connection is closed.
    Closed,
    /// Too many messages are unread.
    Full,
}

impl Wire {
    pub(super) fn new(routing: Routing, json_only: bool) -> Self {
        Self {
            routing,
            json_only,
            agreed: OnceLock::new(),
            buffered: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
            room: AtomicUsize::new(usize::MAX),
            account: Mutex::default(),
            state: Mutex::default(),
        }
    }

    /// Locks the state. The lock is held for moments, and no foreign code runs under it.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Counts what is sent from now on against the share of a client.
    pub(super) fn charge_to(&self, account: Arc<Account>) {
        *self.account.lock() = Some(account);
    }

    /// Counts bytes until the client has taken them.
    pub(super) fn hold(&self, bytes: Bytes) -> Result<Bytes, Full> {
        let account = self.account.lock();
        match &*account {
            Some(account) => account.hold(Traffic::Responses, bytes),
            None => Ok(bytes),
        }
    }

    /// Whether there is too little memory to keep events that no reader waits for.
    pub(super) fn is_crowded(&self) -> bool {
        let account = self.account.lock();
        account.as_ref().is_some_and(|account| account.is_crowded(Traffic::Responses))
    }

    /// Marks the session as open. The stream of the request that opened it does not count.
    pub(super) fn set_negotiated(&self, agreed: Negotiated) {
        let mut state = self.lock();
        state.last_stream = agreed.before_streams;
        state.shrink();
        drop(state);
        // Set once; a later call has the same value.
        let _ = self.agreed.set(agreed);
    }

    /// Shrinks the collections of an idle session.
    pub(super) fn shrink(&self) {
        self.lock().shrink();
    }

    pub(super) fn agreed(&self) -> Option<&Negotiated> {
        self.agreed.get()
    }

    // ---- received messages ----

    /// Begins the exchange of a request where there is one at a time.
    pub(super) fn begin_one(&self, id: RequestId, inbound: Inbound, size: usize) -> Result<Reader, Refused> {
        let mut state = self.lock();
        state.check(&inbound, size, self.room.load(Ordering::Relaxed))?;
        let reader = state.attach_reader(GET_STREAM);
        state.get_stream =
            ExchangeState { reader: Some(reader.number), pending: 1, ..ExchangeState::default() };
        state.request = Some(id);
        state.take_in(inbound, size);
        Ok(reader)
    }

    /// Begins the exchange of a POST with requests, or with a batch that needs a reply.
    pub(super) fn begin(
        &self,
        ids: &[RequestId],
        mut inbound: Inbound,
        size: usize,
    ) -> Result<Reader, Refused> {
        let mut state = self.lock();
        state.check(&inbound, size, self.room.load(Ordering::Relaxed))?;
        for (place, id) in ids.iter().enumerate() {
            if state.reply_streams.contains_key(id) || ids[..place].contains(id) {
                return Err(Refused::Duplicate);
            }
        }
        state.last_stream += 1;
        let stream = state.last_stream;
        let reader = state.attach_reader(stream);
        let mut pending = ids.len();
        if let Inbound::Batch { parts, exchange, .. } = &mut inbound {
            *exchange = Some(stream);
            // An invalid part of a batch gets an error reply, too, and cannot be cancelled.
            pending += usize::from(parts.iter().any(Result::is_err));
        }
        let requests = if self.is_shared() { ids.into() } else { Box::default() };
        let slot =
            ExchangeState { pending, requests, reader: Some(reader.number), ..ExchangeState::default() };
        state.posts.insert(stream, Box::new(slot));
        for id in ids {
            state.reply_streams.insert(id.clone(), stream);
        }
        state.take_in(inbound, size);
        Ok(reader)
    }

    /// Delivers messages that need no reply on an exchange of their own.
    pub(super) fn deliver(&self, inbound: Inbound, size: usize) -> Result<(), Refused> {
        let mut state = self.lock();
        state.check(&inbound, size, self.room.load(Ordering::Relaxed))?;
        state.take_in(inbound, size);
        Ok(())
    }

    /// The client has cancelled a request: no reply will be sent. What is queued on its exchange is still sent.
    pub(super) fn cancelled(&self, id: &RequestId) {
        let mut wake = Wake::default();
        let mut state = self.lock();
        if let Some(stream) = state.reply_streams.remove(id)
            && let Some(slot) = state.posts.get_mut(&stream)
        {
            slot.pending = slot.pending.saturating_sub(1);
            if slot.pending == 0 {
                slot.ended = true;
                self.store_end(stream, slot);
                wake.add(slot.waker.take());
                state.sweep(stream);
            }
        }
        drop(state);
        wake.all();
    }

    // ---- what exchanges read ----

    /// Returns a timer and the end of `timeout`. The timer ends then, or before if an earlier exchange has used it.
    pub(super) fn take_timer(&self, timeout: Duration) -> (Pin<Box<Sleep>>, Instant) {
        let timer = sleep(timeout);
        let due = timer.deadline();
        let earlier = self.lock().timer.take().filter(|timer| timer.deadline() <= due);
        (earlier.unwrap_or_else(|| Box::pin(timer)), due)
    }

    /// Keeps a timer for the next exchange.
    pub(super) fn keep_timer(&self, timer: Pin<Box<Sleep>>) {
        self.lock().timer = Some(timer);
    }

    /// Polls how the response begins.
    pub(super) fn poll_head(&self, reader: Reader, cx: &mut Context<'_>) -> Poll<Head> {
        let mut state = self.lock();
        let closed = state.closed;
        let Some(slot) = state.held(reader) else { return Poll::Ready(Head::Lost) };
        match &mut slot.form {
            Form::Json(status, body) => {
                let head = Head::Json { status: *status, body: std::mem::take(body) };
                if reader.stream != GET_STREAM {
                    state.posts.remove(&reader.stream);
                }
                Poll::Ready(head)
            }
            Form::Stream => Poll::Ready(Head::Stream),
            Form::Open if slot.ended && !closed => Poll::Ready(Head::Nothing),
            Form::Open if slot.ended || closed => {
                Poll::Ready(if slot.unread { Head::Closed } else { Head::Lost })
            }
            Form::Open => {
                keep(&mut slot.waker, cx.waker());
                Poll::Pending
            }
        }
    }

    /// Makes the exchange an event stream before there is anything to send.
    pub(super) fn open_stream(&self, reader: Reader) {
        let mut state = self.lock();
        let Some(slot) = state.held(reader) else { return };
        if matches!(slot.form, Form::Open) && !slot.ended {
            self.make_stream(reader.stream, slot);
        }
    }

    /// Polls the next bytes of the event stream; `None` at its end.
    pub(super) fn poll_bytes(&self, reader: Reader, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.lock();
        let closed = state.closed;
        let Some(slot) = state.held(reader) else { return Poll::Ready(None) };
        if let Some(priming) = &mut slot.priming {
            let Poll::Ready(bytes) = priming.poll_sent(cx) else {
                keep(&mut slot.waker, cx.waker());
                return Poll::Pending;
            };
            slot.priming = None;
            return Poll::Ready(Some(bytes));
        }
        if let Some(event) = slot.queue.front_mut() {
            let length = event.bytes.len();
            let Poll::Ready(bytes) = event.poll_sent(cx) else {
                keep(&mut slot.waker, cx.waker());
                return Poll::Pending;
            };
            slot.queue.pop_front();
            slot.bytes -= length;
            let driver = self.note_taken(&mut state, length);
            drop(state);
            if let Some(driver) = driver {
                driver.wake();
            }
            return Poll::Ready(Some(bytes));
        }
        if slot.ended || slot.detached || closed {
            return Poll::Ready(None);
        }
        keep(&mut slot.waker, cx.waker());
        Poll::Pending
    }

    /// Whether everything that was pending on the exchange has been sent.
    pub(super) fn is_complete(&self, reader: Reader) -> bool {
        let mut state = self.lock();
        state.held(reader).is_none_or(|slot| slot.pending == 0 && slot.queue.is_empty())
    }

    /// Notes that exchanges have taken `bytes`. Returns the waker of a task that waits for room.
    pub(super) fn note_taken(&self, state: &mut State, bytes: usize) -> Option<Waker> {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
        let before = self.buffered.fetch_sub(bytes, Ordering::Relaxed);
        let room = self.room.load(Ordering::Relaxed);
        if before > room && before - bytes <= room { state.driver.take() } else { None }
    }

    /// The exchange has no reader any more.
    pub(super) fn release(&self, reader: Reader) {
        let mut state = self.lock();
        let resumable = self.is_resumable();
        let Some(slot) = state.held(reader) else { return };
        slot.reader = None;
        slot.waker = None;
        slot.priming = None;
        let streams = matches!(slot.form, Form::Stream);
        let bytes = slot.bytes;
        if reader.stream == GET_STREAM {
            // What was not taken is kept for a client that resumes the stream.
            slot.trim(self.is_crowded());
        } else {
            slot.abandoned = !(resumable && streams);
            slot.queue.clear();
            slot.bytes = 0;
        }
        let driver = self.note_taken(&mut state, bytes);
        state.sweep(reader.stream);
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Ends the stream of a request for its reader, so that the client resumes it for the rest. Only where the stream can be
    /// resumed and the client knows that it must.
    pub(super) fn detach(&self, id: &RequestId) {
        let polled = self.agreed.get().is_some_and(|agreed| agreed.profile.http_priming_event);
        if self.json_only || !polled || !self.is_resumable() {
            return;
        }
        let mut state = self.lock();
        let Some(stream) = state.reply_streams.get(id).copied() else { return };
        let Some(slot) = state.posts.get_mut(&stream).filter(|slot| slot.reader.is_some()) else { return };
        if matches!(slot.form, Form::Open) {
            self.make_stream(stream, slot);
        }
        slot.detached = true;
        let waker = slot.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Opens the GET stream. `None` when a client has it open.
    pub(super) fn open_get_stream(&self) -> Option<Reader> {
        let mut state = self.lock();
        if state.closed || state.get_stream.reader.is_some() {
            return None;
        }
        Some(self.attach(&mut state, GET_STREAM))
    }

    /// Resumes a stream behind the event with the number `after`. Returns the number of the next event here: those between are
    /// in the event store. `None` when there is no such stream any more, or nothing comes after what is in the event store.
    pub(super) fn resume(&self, stream: u64, after: u64) -> Option<(Reader, u64)> {
        let stream = if stream == self.named(GET_STREAM) { GET_STREAM } else { stream };
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        let slot = state.slot(stream)?;
        let streams = stream == GET_STREAM || matches!(slot.form, Form::Stream);
        if after > slot.last || !streams || slot.abandoned {
            return None;
        }
        let old = slot.waker.take();
        let bytes = slot.bytes;
        slot.priming = None;
        slot.queue.clear();
        slot.bytes = 0;
        let (next, is_over) = (slot.last + 1, slot.ended);
        let mut wake = Wake::default();
        // The former reader finds that it was replaced, and there may be room again.
        wake.add(old);
        if slot.reader.take().is_some() {
            wake.add(self.note_taken(&mut state, bytes));
        }
        let resumed = if is_over {
            state.sweep(stream);
            None
        } else {
            Some((self.attach(&mut state, stream), next))
        };
        drop(state);
        wake.all();
        resumed
    }

    /// Opens the GET stream for a client that had it open in another process. A reader that has it open is replaced.
    pub(super) fn take_over_get_stream(&self) -> Option<Reader> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        let slot = &mut state.get_stream;
        let mut wake = Wake::default();
        wake.add(slot.waker.take());
        if slot.reader.is_some() {
            self.buffered.fetch_sub(slot.bytes, Ordering::Relaxed);
        }
        let reader = self.attach(&mut state, GET_STREAM);
        drop(state);
        wake.all();
        Some(reader)
    }

    /// Whether the ids of events name a stream as the GET stream of another process.
    pub(super) fn is_get_stream_elsewhere(&self, stream: u64) -> bool {
        let own = self.named(GET_STREAM);
        own != GET_STREAM && stream != own && stream & SHARED_GET_STREAM != 0
    }

    /// The number of a stream in the ids of its events.
    pub(super) fn named(&self, stream: u64) -> u64 {
        match self.agreed.get().map_or(0, |agreed| agreed.before_streams) {
            0 => stream,
            before if stream == GET_STREAM => SHARED_GET_STREAM | before,
            _ => stream,
        }
    }

    fn attach(&self, state: &mut State, stream: u64) -> Reader {
        let reader = state.attach_reader(stream);
        if let Some(slot) = state.slot(stream) {
            slot.reader = Some(reader.number);
            self.buffered.fetch_add(slot.bytes, Ordering::Relaxed);
            slot.detached = false;
            self.make_stream(stream, slot);
        }
        reader
    }

    /// Whether other processes can resume its streams.
    fn is_shared(&self) -> bool {
        let events = self.agreed.get().and_then(|agreed| agreed.events.as_ref());
        events.is_some_and(|events| events.is_shared())
    }

    fn is_resumable(&self) -> bool {
        self.agreed.get().is_some_and(|agreed| agreed.events.is_some())
    }

    pub(super) fn make_stream(&self, stream: u64, slot: &mut ExchangeState) {
        slot.form = Form::Stream;
        self.prime(stream, slot);
    }

    /// Stores the beginning of the stream where other processes can resume it. Puts an event without data in front, where streams
    /// begin with one: from it on the stream can be resumed.
    fn prime(&self, stream: u64, slot: &mut ExchangeState) {
        let Some(agreed) = self.agreed.get() else { return };
        let Some(events) = agreed.events.as_ref() else { return };
        let number = slot.queue.front().map_or(slot.last, |first| first.number.saturating_sub(1));
        let event_id = EventId { stream: self.named(stream), number };
        // Another process knows by it that there is such a stream, and which requests it answers.
        let confirmation = (number == 0 && events.is_shared())
            .then(|| events.begin(&agreed.session, event_id, &slot.requests))
            .flatten();
        if !agreed.profile.http_priming_event {
            return;
        }
        let id = event_id.to_string();
        let mut out = BytesMut::new();
        let event = OutgoingEvent { id: Some(&id), retry: Some(agreed.retry), ..OutgoingEvent::default() };
        if event.write(&mut out).is_err() {
            return;
        }
        slot.priming = Some(Box::new(Queued { number, bytes: out.freeze(), confirmation }));
    }

    /// Closes the session's side: no message is delivered any more, and every exchange ends.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.closed = true;
        state.drop_unread();
        let mut wake = Wake::default();
        wake.add(state.driver.take());
        wake.add(state.get_stream.waker.take());
        for slot in state.posts.values_mut() {
            wake.add(slot.waker.take());
        }
        drop(state);
        wake.all();
    }

    /// Whether a client has the GET stream open.
    pub(super) fn has_get_reader(&self) -> bool {
        self.lock().get_stream.reader.is_some()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::task::Wake as Wakes;

    use mcpjoin_proto::session::{Origin, Outbound, Route, TransportEnd};
    use mcpjoin_proto::{Era, Message, Method, Notification, Payload, Raw, Request};

    use super::super::events::MemoryEvents;
    use super::super::io::HttpIo;
    use super::*;
    use crate::transport::Transport as _;

    struct Woken(AtomicBool);

    impl Wakes for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_connection_that_waits_for_room_is_woken_when_a_stream_that_was_full_is_opened_again() {
        let wire = Arc::new(Wire::new(Routing::Session, false));
        wire.set_negotiated(Negotiated {
            profile: Profile::newest(Era::Legacy),
            session: SessionId::random().expect("random bytes"),
            events: Some(Arc::new(MemoryEvents::new())),
            before_streams: 0,
            retry: Duration::from_secs(1),
        });
        wire.room.store(0, Ordering::Relaxed);
        let id = RequestId::from(1);
        let inbound = Inbound::Closed { cause: TransportEnd::end_of_stream() };
        let reader = wire.begin(std::slice::from_ref(&id), inbound, 0).expect("nothing is under way");
        wire.open_stream(reader);
        let mut io = HttpIo(wire.clone());
        let message = Message::Notification(Notification { method: Method::Progress, params: None });
        io.push(Outbound::Message { message, route: Route::ReplyTo(id) });
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(woken.clone());
        assert!(io.poll_flush(&mut Context::from_waker(&waker)).is_pending());
        assert!(wire.resume(reader.stream, 0).is_some());
        assert!(io.has_room());
        assert!(woken.0.load(Ordering::Relaxed), "it waits for ever");
        assert!(wire.resume(reader.stream, 2).is_none(), "only one event was sent");
    }

    #[test]
    fn an_exchange_is_complete_when_all_of_it_is_taken_and_the_driver_woken_when_there_is_room() {
        let wire = Arc::new(Wire::new(Routing::Session, false));
        wire.room.store(1, Ordering::Relaxed);
        let reader = wire.begin(&[1.into()], inbound(request(1, Method::Ping)), 1).expect("the first");
        wire.open_stream(reader);
        assert!(!wire.is_complete(reader), "a response is pending");
        let mut io = HttpIo(wire.clone());
        for message in [notification(Method::Progress, None), reply(1)] {
            io.push(Outbound::Message { message, route: Route::ReplyTo(1.into()) });
        }
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        assert!(io.poll_flush(&mut context).is_pending());
        for (number, has_room) in [(1, false), (2, true)] {
            assert!(!wire.is_complete(reader));
            let taken = wire.poll_bytes(reader, &mut Context::from_waker(Waker::noop()));
            assert!(matches!(taken, Poll::Ready(Some(_))), "{number}");
            assert_eq!(woken.0.load(Ordering::Relaxed), has_room, "{number}");
        }
        assert!(wire.is_complete(reader));
    }

    fn reply(id: i64) -> Message {
        let outcome = Err(mcpjoin_proto::ErrorObject::internal("x"));
        Message::Response(mcpjoin_proto::Response { id: Some(id.into()), outcome })
    }

    fn response(id: i64) -> Inbound {
        inbound(reply(id))
    }

    fn notification(method: Method, params: Option<&str>) -> Message {
        let params = params.map(|params| Payload::from_raw(Raw::parse(params.to_owned()).expect("JSON")));
        Message::Notification(Notification { method, params })
    }

    fn request(id: i64, method: Method) -> Message {
        Message::Request(Request { id: id.into(), method, params: None })
    }

    fn inbound(message: Message) -> Inbound {
        Inbound::Message { message, origin: Arc::new(Origin::new("http")) }
    }

    #[test]
    fn what_was_read_before_the_end_is_distinguished_from_what_was_not() {
        let wire = Arc::new(Wire::new(Routing::Session, false));
        let mut cx = Context::from_waker(Waker::noop());
        let read = wire.begin(&[1.into()], inbound(request(1, Method::CallTool)), 1).expect("the first");
        assert!(HttpIo(wire.clone()).poll_inbound(&mut cx).is_ready());
        let unread = wire.begin(&[2.into()], inbound(request(2, Method::CallTool)), 1).expect("the second");
        let parts = [3, 4].map(|id| Ok(request(id, Method::CallTool))).into();
        let batch = Inbound::Batch { parts, exchange: None, origin: Arc::new(Origin::new("http")) };
        let batch = wire.begin(&[3.into(), 4.into()], batch, 1).expect("the third");
        wire.close();
        for (reader, is_lost) in [(read, true), (unread, false), (batch, false)] {
            let head = wire.poll_head(reader, &mut cx);
            assert_eq!(matches!(head, Poll::Ready(Head::Lost)), is_lost, "{head:?}");
            assert_eq!(matches!(head, Poll::Ready(Head::Closed)), !is_lost, "{head:?}");
        }
    }

    /// A wire whose messages are not read, filled with as many requests of this size as it accepts.
    fn full(routing: Routing, size: usize) -> (Arc<Wire>, HttpIo, i64) {
        let wire = Arc::new(Wire::new(routing, false));
        wire.room.store(10_000_000, Ordering::Relaxed);
        let mut io = HttpIo(wire.clone());
        for id in [1, 2] {
            let message = request(id, Method::Elicit);
            io.push(Outbound::Message { message, route: Route::Session });
        }
        let mut count = 0;
        while wire.begin(&[count.into()], inbound(request(count, Method::Ping)), size).is_ok() {
            count += 1;
        }
        (wire, io, count)
    }

    #[test]
    fn what_is_read_makes_room_although_other_messages_wait() {
        for size in [1, 10_000] {
            let (wire, mut io, count) = full(Routing::Session, size);
            for id in count..3 * count {
                assert!(io.poll_inbound(&mut Context::from_waker(Waker::noop())).is_ready());
                let begun = wire.begin(&[id.into()], inbound(request(id, Method::Ping)), size);
                assert!(begun.is_ok(), "{begun:?} for {id} of {size} bytes");
            }
        }
    }

    #[test]
    fn what_settles_a_request_is_taken_in_where_requests_are_refused() {
        for size in [1, 10_000] {
            let (wire, mut io, count) = full(Routing::Session, size);
            assert_eq!(count, if size == 1 { 256 } else { 104 });
            assert_eq!(wire.deliver(response(1), 1_000_000), Ok(()));
            let cancels = |id: i64| {
                let params = format!("{{\"requestId\":{id}}}");
                inbound(notification(Method::Cancelled, Some(&params)))
            };
            assert_eq!(wire.deliver(cancels(3), size), Ok(()));
            // Unsolicited responses have their own limit, and so do repeated ones.
            let mut told = 0;
            while wire.deliver(inbound(notification(Method::Progress, None)), size).is_ok() {
                told += 1;
            }
            assert!((1..=256).contains(&told), "{told}");
            for inbound in [response(1), response(7), cancels(1_000_000)] {
                assert_eq!(wire.deliver(inbound, size), Err(Refused::Full));
            }
            // The client can send a request again, and so a batch with one.
            let parts = vec![Ok(request(9, Method::Ping))];
            let origin = Arc::new(Origin::new("http"));
            assert_eq!(wire.deliver(Inbound::Batch { parts, exchange: None, origin }, 1), Err(Refused::Full));
            assert_eq!(wire.deliver(response(2), 10_000_000), Err(Refused::Full), "above what waits in all");
            assert_eq!(wire.deliver(cancels(3), size), Ok(()), "it is owed until it is cancelled");
            wire.cancelled(&3.into());
            assert_eq!(wire.deliver(cancels(3), size), Err(Refused::Full));
            // A request that the server has cancelled gets no response.
            let message = notification(Method::Cancelled, Some("{\"requestId\":2}"));
            io.push(Outbound::Message { message, route: Route::Session });
            assert_eq!(wire.deliver(response(2), size), Err(Refused::Full));
            // After everything is read, there is room again.
            let mut context = Context::from_waker(Waker::noop());
            while io.poll_inbound(&mut context).is_ready() {}
            assert_eq!(wire.deliver(response(7), 5_000_000), Ok(()));
        }
    }
}
