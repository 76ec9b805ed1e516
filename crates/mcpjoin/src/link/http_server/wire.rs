//! What lies between a connection and the HTTP exchanges that it is spoken over: what has come and is not read yet,
//! and for each exchange what is to be sent on it.
//!
//! The connection drives [`HttpIo`](super::io::HttpIo), one end; the exchanges hold the [`Wire`], the other one. A message goes onto
//! the exchange that its route names: a response ends it, plainly as JSON when nothing went before, and everything
//! else makes it an event stream. It knows no HTTP library and decides nothing about the protocol but that.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http>

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mcpjoin_proto::codec::sse::Writing;
use mcpjoin_proto::session::Inbound;
use mcpjoin_proto::{Profile, RequestId};

use super::events::{EventId, EventStore, SessionId};
use super::memory::{Account, Full, Traffic};
use super::slot::{Form, Holder, Slot, State, Wake, keep};

/// The number of the stream that belongs to no POST: the one that a legacy client opens with GET, the only one of
/// 2024-11-05, and the only one of a modern exchange.
pub(super) const STANDING: u64 = 0;

/// How messages find their exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Routing {
    /// There is one exchange at a time, and what belongs to it is sent on it.
    Exchange,
    /// Each POST has a stream, and one more stands beside them.
    Session,
    /// Everything goes onto the one stream: 2024-11-05.
    Everything,
}

/// What is settled when a session is open.
pub(super) struct Agreed {
    pub(super) profile: &'static Profile,
    pub(super) session: SessionId,
    /// Where events are kept, when streams can be resumed.
    pub(super) events: Option<Arc<dyn EventStore>>,
    pub(super) retry: Duration,
}

/// How the exchange of a request begins.
#[derive(Debug)]
pub(super) enum Head {
    /// With its end: one JSON text.
    Json { status: u16, body: Bytes },
    /// As an event stream.
    Stream,
    /// There will be no reply: the request was cancelled.
    Nothing,
    /// There will be no reply: the connection is over.
    Closed,
}

/// The exchanges' end.
pub(super) struct Wire {
    pub(super) routing: Routing,
    /// Nothing but responses may be sent on an exchange.
    pub(super) json_only: bool,
    pub(super) agreed: OnceLock<Agreed>,
    /// Bytes that wait to be taken by exchanges that are open.
    pub(super) buffered: AtomicUsize,
    /// Bytes that exchanges have taken.
    pub(super) taken: AtomicU64,
    /// The bound of `buffered`.
    pub(super) room: AtomicUsize,
    /// Whose responses these are.
    account: Mutex<Option<Arc<Account>>>,
    state: Mutex<State>,
}

/// Why a request is not handed to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// A request with the same id has no answer yet.
    Duplicate,
    /// The connection is over.
    Closed,
    /// Too much waits to be read.
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

    /// The lock is held for moments, and no foreign code runs under it.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what is sent from now on for a client.
    pub(super) fn charge_to(&self, account: Arc<Account>) {
        *self.account.lock().unwrap_or_else(PoisonError::into_inner) = Some(account);
    }

    /// Counts bytes until the client has taken them.
    pub(super) fn hold(&self, bytes: Bytes) -> Result<Bytes, Full> {
        let account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        match &*account {
            Some(account) => account.hold(Traffic::Responses, bytes),
            None => Ok(bytes),
        }
    }

    /// Whether there is too little room to keep what no reader waits for.
    pub(super) fn is_crowded(&self) -> bool {
        let account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        account.as_ref().is_some_and(|account| account.is_crowded(Traffic::Responses))
    }

    /// The session is open. The stream of the request that has opened it does not count.
    pub(super) fn agree(&self, agreed: Agreed) {
        let mut state = self.lock();
        state.last_stream = STANDING;
        state.shrink();
        drop(state);
        // Said once; whoever says it again says the same.
        let _ = self.agreed.set(agreed);
    }

    /// Gives back what a session that is not used does not need.
    pub(super) fn shrink(&self) {
        self.lock().shrink();
    }

    pub(super) fn agreed(&self) -> Option<&Agreed> {
        self.agreed.get()
    }

    // ---- what comes in ----

    /// Begins the exchange of the only request at a time.
    pub(super) fn begin_one(&self, id: RequestId, inbound: Inbound, size: usize) -> Result<Holder, Refused> {
        let mut state = self.lock();
        state.check(&inbound, size, self.room.load(Ordering::Relaxed))?;
        let holder = state.hold(STANDING);
        state.standing = Slot { holder: Some(holder.number), owes: 1, ..Slot::default() };
        state.request = Some(id);
        state.take_in(inbound, size);
        Ok(holder)
    }

    /// Begins the exchange of a POST with requests, or with a batch that is answered.
    pub(super) fn begin(
        &self,
        ids: &[RequestId],
        mut inbound: Inbound,
        size: usize,
    ) -> Result<Holder, Refused> {
        let mut state = self.lock();
        state.check(&inbound, size, self.room.load(Ordering::Relaxed))?;
        for (place, id) in ids.iter().enumerate() {
            if state.owed.contains_key(id) || ids[..place].contains(id) {
                return Err(Refused::Duplicate);
            }
        }
        state.last_stream += 1;
        let stream = state.last_stream;
        let holder = state.hold(stream);
        let mut owes = ids.len();
        if let Inbound::Batch { parts, exchange, .. } = &mut inbound {
            *exchange = Some(stream);
            // What is no message is answered too, and nobody can cancel that.
            owes += usize::from(parts.iter().any(Result::is_err));
        }
        let slot = Slot { owes, holder: Some(holder.number), ..Slot::default() };
        state.posts.insert(stream, Box::new(slot));
        for id in ids {
            state.owed.insert(id.clone(), stream);
        }
        state.take_in(inbound, size);
        Ok(holder)
    }

    /// Hands in what wants no reply on its own exchange.
    pub(super) fn tell(&self, inbound: Inbound, size: usize) -> Result<(), Refused> {
        let mut state = self.lock();
        state.check(&inbound, size, self.room.load(Ordering::Relaxed))?;
        state.take_in(inbound, size);
        Ok(())
    }

    /// The client has cancelled a request: no reply will come. What is still to be sent on its exchange is sent.
    pub(super) fn cancelled(&self, id: &RequestId) {
        let mut wake = Wake::default();
        let mut state = self.lock();
        if let Some(stream) = state.owed.remove(id)
            && let Some(slot) = state.posts.get_mut(&stream)
        {
            slot.owes = slot.owes.saturating_sub(1);
            if slot.owes == 0 {
                slot.ended = true;
                wake.add(slot.waker.take());
                state.sweep(stream);
            }
        }
        drop(state);
        wake.all();
    }

    // ---- what is read by exchanges ----

    /// How the exchange begins, as soon as that is decided.
    pub(super) fn poll_head(&self, holder: Holder, cx: &mut Context<'_>) -> Poll<Head> {
        let mut state = self.lock();
        let closed = state.closed;
        let Some(slot) = state.held(holder) else { return Poll::Ready(Head::Closed) };
        match &mut slot.form {
            Form::Json(status, body) => {
                let head = Head::Json { status: *status, body: std::mem::take(body) };
                if holder.stream != STANDING {
                    state.posts.remove(&holder.stream);
                }
                Poll::Ready(head)
            }
            Form::Stream => Poll::Ready(Head::Stream),
            Form::Open if slot.ended && !closed => Poll::Ready(Head::Nothing),
            Form::Open if slot.ended || closed => Poll::Ready(Head::Closed),
            Form::Open => {
                keep(&mut slot.waker, cx.waker());
                Poll::Pending
            }
        }
    }

    /// Makes an event stream of the exchange, although nothing has to be sent yet.
    pub(super) fn open_stream(&self, holder: Holder) {
        let mut state = self.lock();
        let Some(slot) = state.held(holder) else { return };
        if matches!(slot.form, Form::Open) && !slot.ended {
            self.make_stream(holder.stream, slot);
        }
    }

    /// The next bytes of the event stream; `None` at its end.
    pub(super) fn poll_bytes(&self, holder: Holder, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.lock();
        let closed = state.closed;
        let Some(slot) = state.held(holder) else { return Poll::Ready(None) };
        if let Some(priming) = slot.priming.take() {
            return Poll::Ready(Some(priming));
        }
        if let Some((_, bytes)) = slot.queue.pop_front() {
            slot.bytes -= bytes.len();
            let driver = self.took(&mut state, bytes.len());
            drop(state);
            if let Some(driver) = driver {
                driver.wake();
            }
            return Poll::Ready(Some(bytes));
        }
        if slot.ended || slot.parted || closed {
            return Poll::Ready(None);
        }
        keep(&mut slot.waker, cx.waker());
        Poll::Pending
    }

    /// Whether everything that was due on the exchange has been sent.
    pub(super) fn is_complete(&self, holder: Holder) -> bool {
        let mut state = self.lock();
        state.held(holder).is_none_or(|slot| slot.owes == 0 && slot.queue.is_empty())
    }

    /// Exchanges have taken so many bytes. Gives whoever waits for it.
    pub(super) fn took(&self, state: &mut State, bytes: usize) -> Option<Waker> {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
        let before = self.buffered.fetch_sub(bytes, Ordering::Relaxed);
        let room = self.room.load(Ordering::Relaxed);
        if before > room && before - bytes <= room { state.driver.take() } else { None }
    }

    /// Nobody reads the exchange any more.
    pub(super) fn leave(&self, holder: Holder) {
        let mut state = self.lock();
        let resumable = self.is_resumable();
        let Some(slot) = state.held(holder) else { return };
        slot.holder = None;
        slot.waker = None;
        slot.priming = None;
        let streams = matches!(slot.form, Form::Stream);
        let bytes = slot.bytes;
        if holder.stream == STANDING {
            // What was not taken is for the next who comes.
            slot.trim(self.is_crowded());
        } else {
            slot.forsaken = !(resumable && streams);
            slot.queue.clear();
            slot.bytes = 0;
        }
        let driver = self.took(&mut state, bytes);
        state.sweep(holder.stream);
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Ends the stream of a request for whoever reads it, who comes back for the rest. Only where it can be had then,
    /// and where a client knows that it has to come.
    pub(super) fn part(&self, id: &RequestId) {
        let polled = self.agreed.get().is_some_and(|agreed| agreed.profile.http_priming_event);
        if self.json_only || !polled || !self.is_resumable() {
            return;
        }
        let mut state = self.lock();
        let Some(stream) = state.owed.get(id).copied() else { return };
        let Some(slot) = state.posts.get_mut(&stream).filter(|slot| slot.holder.is_some()) else { return };
        if matches!(slot.form, Form::Open) {
            self.make_stream(stream, slot);
        }
        slot.parted = true;
        let waker = slot.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Opens the stream that belongs to no POST. `None` when somebody has it open.
    pub(super) fn open_standing(&self) -> Option<Holder> {
        let mut state = self.lock();
        if state.closed || state.standing.holder.is_some() {
            return None;
        }
        Some(self.attach(&mut state, STANDING))
    }

    /// Opens a stream again, behind the event with that number. Gives the number of the event with which it goes on
    /// here: those between are to be had from where events are kept. `None`: no such stream goes on.
    pub(super) fn resume(&self, stream: u64, after: u64) -> Option<(Holder, u64)> {
        let mut state = self.lock();
        if state.closed {
            return None;
        }
        let slot = state.slot(stream)?;
        let streams = stream == STANDING || matches!(slot.form, Form::Stream);
        if after > slot.last || !streams || slot.forsaken {
            return None;
        }
        let old = slot.waker.take();
        let bytes = slot.bytes;
        slot.priming = None;
        slot.queue.clear();
        slot.bytes = 0;
        let next = slot.last + 1;
        let mut wake = Wake::default();
        // Whoever had it open sees that another one has, and there may be room again.
        wake.add(old);
        if slot.holder.is_some() {
            wake.add(self.took(&mut state, bytes));
        }
        let holder = self.attach(&mut state, stream);
        drop(state);
        wake.all();
        Some((holder, next))
    }

    fn attach(&self, state: &mut State, stream: u64) -> Holder {
        let holder = state.hold(stream);
        if let Some(slot) = state.slot(stream) {
            slot.holder = Some(holder.number);
            self.buffered.fetch_add(slot.bytes, Ordering::Relaxed);
            slot.parted = false;
            self.make_stream(stream, slot);
        }
        holder
    }

    fn is_resumable(&self) -> bool {
        self.agreed.get().is_some_and(|agreed| agreed.events.is_some())
    }

    pub(super) fn make_stream(&self, stream: u64, slot: &mut Slot) {
        slot.form = Form::Stream;
        self.prime(stream, slot);
    }

    /// Puts in front the event that has no data, where streams begin with one: from it on the stream can be resumed.
    fn prime(&self, stream: u64, slot: &mut Slot) {
        let Some(agreed) = self.agreed.get() else { return };
        if agreed.events.is_none() || !agreed.profile.http_priming_event {
            return;
        }
        let number = slot.queue.front().map_or(slot.last, |(first, _)| first.saturating_sub(1));
        let id = EventId { stream, number }.to_string();
        let mut out = BytesMut::new();
        let event = Writing { id: Some(&id), retry: Some(agreed.retry), ..Writing::default() };
        if event.write(&mut out).is_err() {
            return;
        }
        slot.priming = Some(out.freeze());
    }

    /// The connection is over, or is to be: nothing more is taken in, and every exchange ends.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.closed = true;
        state.unread.clear();
        state.unread_bytes = 0;
        let mut wake = Wake::default();
        wake.add(state.driver.take());
        wake.add(state.standing.waker.take());
        for slot in state.posts.values_mut() {
            wake.add(slot.waker.take());
        }
        drop(state);
        wake.all();
    }

    /// Whether somebody has the stream open that belongs to no POST.
    pub(super) fn is_heard(&self) -> bool {
        self.lock().standing.holder.is_some()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::task::Wake as Wakes;

    use mcpjoin_proto::session::{LinkEnd, Origin, Outbound, Route};
    use mcpjoin_proto::{Era, Message, Method, Notification, Payload, Raw, Request};

    use super::super::events::MemoryEvents;
    use super::super::io::HttpIo;
    use super::*;
    use crate::link::Transport as _;

    struct Woken(AtomicBool);

    impl Wakes for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_connection_that_waits_for_room_is_woken_when_a_stream_that_was_full_is_opened_again() {
        let wire = Arc::new(Wire::new(Routing::Session, false));
        wire.agree(Agreed {
            profile: Profile::newest(Era::Legacy),
            session: SessionId::random().expect("random bytes"),
            events: Some(Arc::new(MemoryEvents::new())),
            retry: Duration::from_secs(1),
        });
        wire.room.store(0, Ordering::Relaxed);
        let id = RequestId::from(1);
        let inbound = Inbound::Closed { cause: LinkEnd::end_of_stream() };
        let holder = wire.begin(std::slice::from_ref(&id), inbound, 0).expect("nothing is under way");
        wire.open_stream(holder);
        let mut io = HttpIo(wire.clone());
        let message = Message::Notification(Notification { method: Method::Progress, params: None });
        io.push(Outbound::Message { message, route: Route::ReplyTo(id) });
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(woken.clone());
        assert!(io.poll_flush(&mut Context::from_waker(&waker)).is_pending());
        assert!(wire.resume(holder.stream, 0).is_some());
        assert!(io.has_room());
        assert!(woken.0.load(Ordering::Relaxed), "it waits for ever");
        assert!(wire.resume(holder.stream, 2).is_none(), "only one event was sent");
    }

    #[test]
    fn an_exchange_is_complete_when_all_of_it_is_taken_and_the_driver_woken_when_there_is_room() {
        let wire = Arc::new(Wire::new(Routing::Session, false));
        wire.room.store(1, Ordering::Relaxed);
        let holder = wire.begin(&[1.into()], inbound(request(1, Method::Ping)), 1).expect("the first");
        wire.open_stream(holder);
        assert!(!wire.is_complete(holder), "it owes a response");
        let mut io = HttpIo(wire.clone());
        for message in [notification(Method::Progress, None), reply(1)] {
            io.push(Outbound::Message { message, route: Route::ReplyTo(1.into()) });
        }
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        assert!(io.poll_flush(&mut context).is_pending());
        for (number, has_room) in [(1, false), (2, true)] {
            assert!(!wire.is_complete(holder));
            let taken = wire.poll_bytes(holder, &mut Context::from_waker(Waker::noop()));
            assert!(matches!(taken, Poll::Ready(Some(_))), "{number}");
            assert_eq!(woken.0.load(Ordering::Relaxed), has_room, "{number}");
        }
        assert!(wire.is_complete(holder));
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

    /// A wire of which nothing is read, with as many requests as it takes, each of that size.
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
    fn what_settles_a_request_is_taken_in_where_requests_are_refused() {
        for size in [1, 10_000] {
            let (wire, mut io, count) = full(Routing::Session, size);
            assert_eq!(count, if size == 1 { 256 } else { 104 });
            assert_eq!(wire.tell(response(1), 1_000_000), Ok(()));
            let cancels = |id: i64| {
                let params = format!("{{\"requestId\":{id}}}");
                inbound(notification(Method::Cancelled, Some(&params)))
            };
            assert_eq!(wire.tell(cancels(3), size), Ok(()));
            // What nobody has asked for has a bound of its own, and so has the same said twice.
            let mut told = 0;
            while wire.tell(inbound(notification(Method::Progress, None)), size).is_ok() {
                told += 1;
            }
            assert!((1..=256).contains(&told), "{told}");
            for inbound in [response(1), response(7), cancels(1_000_000)] {
                assert_eq!(wire.tell(inbound, size), Err(Refused::Full));
            }
            // A request beside it can be sent again, and so can the whole.
            let parts = vec![Ok(request(9, Method::Ping))];
            let origin = Arc::new(Origin::new("http"));
            assert_eq!(wire.tell(Inbound::Batch { parts, exchange: None, origin }, 1), Err(Refused::Full));
            assert_eq!(wire.tell(response(2), 10_000_000), Err(Refused::Full), "above what waits in all");
            assert_eq!(wire.tell(cancels(3), size), Ok(()), "it is owed until it is cancelled");
            wire.cancelled(&3.into());
            assert_eq!(wire.tell(cancels(3), size), Err(Refused::Full));
            // What we have cancelled is answered by nobody.
            let message = notification(Method::Cancelled, Some("{\"requestId\":2}"));
            io.push(Outbound::Message { message, route: Route::Session });
            assert_eq!(wire.tell(response(2), size), Err(Refused::Full));
            // All of it is read, and there is room again.
            let mut context = Context::from_waker(Waker::noop());
            while io.poll_inbound(&mut context).is_ready() {}
            assert_eq!(wire.tell(response(7), 5_000_000), Ok(()));
        }
    }
}
