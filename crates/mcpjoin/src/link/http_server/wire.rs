//! What lies between a connection and the HTTP exchanges that it is spoken over: what has come and is not read yet,
//! and for each exchange what is to be sent on it.
//!
//! The connection drives [`HttpIo`], one end; the exchanges hold the [`Wire`], the other one. A message goes onto
//! the exchange that its route names: a response ends it, plainly as JSON when nothing went before, and everything
//! else makes it an event stream. It knows no HTTP library and decides nothing about the protocol but that.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http>

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mcpjoin_proto::codec::sse::Writing;
use mcpjoin_proto::http::classify;
use mcpjoin_proto::session::{Inbound, Limits, LinkCaps, LinkEnd, Outbound, Route};
use mcpjoin_proto::{Message, Profile, RequestId, Response, encode};

use super::events::{Event, EventId, EventStore, SessionId};
use crate::link::{Io, cannot_reopen};

/// Messages that have come and that the connection has not read: beyond, a client is asked to come again.
const UNREAD: usize = 256;

/// Their bytes, beside the one that always fits.
const UNREAD_BYTES: usize = 1024 * 1024;

/// Messages kept for a stream that nobody has open, the newest ones.
const KEPT: usize = 256;

/// Their bytes, beside the one that is always kept.
const KEPT_BYTES: usize = 256 * 1024;

/// What stands around the payload of a message, in bytes: mostly less.
const ENVELOPE: usize = 160;

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
    routing: Routing,
    /// Nothing but responses may be sent on an exchange.
    json_only: bool,
    agreed: OnceLock<Agreed>,
    /// Bytes that wait to be taken by exchanges that are open.
    buffered: AtomicUsize,
    /// Bytes that exchanges have taken.
    taken: AtomicU64,
    /// The bound of `buffered`.
    room: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    unread: VecDeque<Inbound>,
    unread_bytes: usize,
    driver: Option<Waker>,
    closed: bool,
    standing: Slot,
    /// The request whose exchange the standing stream is: [`Routing::Exchange`].
    request: Option<RequestId>,
    posts: BTreeMap<u64, Box<Slot>>,
    /// On which stream the reply to a request is due.
    owed: BTreeMap<RequestId, u64>,
    last_stream: u64,
    last_holder: u64,
}

/// What is sent on one exchange.
#[derive(Default)]
struct Slot {
    form: Form,
    /// The event without data that goes before all others.
    priming: Option<Bytes>,
    /// Events that wait to be taken, each with its number.
    queue: VecDeque<(u64, Bytes)>,
    bytes: usize,
    /// The number of the last event.
    last: u64,
    waker: Option<Waker>,
    /// Replies that are due.
    owes: usize,
    /// They come as one array.
    batch: bool,
    ended: bool,
    /// Who reads it, if anybody does.
    holder: Option<u64>,
    /// Nobody can come back for it.
    forsaken: bool,
}

#[derive(Default)]
enum Form {
    /// Not decided.
    #[default]
    Open,
    Json(u16, Bytes),
    Stream,
}

/// Whoever reads a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) stream: u64,
    number: u64,
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

/// Wakers to be woken when the lock is not held any more.
#[derive(Default)]
struct Wake(Option<Waker>, Vec<Waker>);

impl Wake {
    fn add(&mut self, waker: Option<Waker>) {
        match (&self.0, waker) {
            (_, None) => {}
            (None, waker) => self.0 = waker,
            (Some(_), Some(waker)) => self.1.push(waker),
        }
    }

    fn all(self) {
        for waker in self.0.into_iter().chain(self.1) {
            waker.wake();
        }
    }
}

fn keep(place: &mut Option<Waker>, waker: &Waker) {
    match place {
        Some(kept) => kept.clone_from(waker),
        None => *place = Some(waker.clone()),
    }
}

impl Wire {
    pub(super) fn new(routing: Routing, json_only: bool) -> Self {
        let standing = Slot { form: Form::Open, ..Slot::default() };
        Self {
            routing,
            json_only,
            agreed: OnceLock::new(),
            buffered: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
            room: AtomicUsize::new(usize::MAX),
            state: Mutex::new(State {
                unread: VecDeque::new(),
                unread_bytes: 0,
                driver: None,
                closed: false,
                standing,
                request: None,
                posts: BTreeMap::new(),
                owed: BTreeMap::new(),
                last_stream: STANDING,
                last_holder: 0,
            }),
        }
    }

    /// The lock is held for moments, and no foreign code runs under it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session is open. The stream of the request that has opened it does not count.
    pub(super) fn agree(&self, agreed: Agreed) {
        self.lock().last_stream = STANDING;
        // Said once; whoever says it again says the same.
        let _ = self.agreed.set(agreed);
    }

    pub(super) fn agreed(&self) -> Option<&Agreed> {
        self.agreed.get()
    }

    // ---- what comes in ----

    /// Begins the exchange of the only request at a time.
    pub(super) fn begin_one(&self, id: RequestId, inbound: Inbound, size: usize) -> Result<Holder, Refused> {
        let mut state = self.lock();
        state.check(size)?;
        let holder = state.hold(STANDING);
        state.standing =
            Slot { holder: Some(holder.number), owes: 1, last: state.standing.last, ..Slot::default() };
        state.request = Some(id);
        state.take_in(inbound, size);
        Ok(holder)
    }

    /// Begins the exchange of a POST with requests.
    pub(super) fn begin(
        &self,
        ids: &[RequestId],
        batch: bool,
        inbound: Inbound,
        size: usize,
    ) -> Result<Holder, Refused> {
        let mut state = self.lock();
        state.check(size)?;
        for (place, id) in ids.iter().enumerate() {
            if state.owed.contains_key(id) || ids[..place].contains(id) {
                return Err(Refused::Duplicate);
            }
        }
        state.last_stream += 1;
        let stream = state.last_stream;
        let holder = state.hold(stream);
        let slot = Slot { owes: ids.len(), batch, holder: Some(holder.number), ..Slot::default() };
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
        state.check(size)?;
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
                    state.shrink();
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
        if slot.ended || closed {
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
    fn took(&self, state: &mut State, bytes: usize) -> Option<Waker> {
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
            slot.trim();
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

    /// Opens the stream that belongs to no POST. `None` when somebody has it open.
    pub(super) fn open_standing(&self) -> Option<Holder> {
        let mut state = self.lock();
        if state.closed || state.standing.holder.is_some() {
            return None;
        }
        Some(self.attach(&mut state, STANDING, true))
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
        if slot.holder.is_some() {
            let _ = self.took(&mut state, bytes);
        }
        let holder = self.attach(&mut state, stream, false);
        drop(state);
        // Whoever had it open sees that another one has.
        if let Some(old) = old {
            old.wake();
        }
        Some((holder, next))
    }

    fn attach(&self, state: &mut State, stream: u64, prime: bool) -> Holder {
        let holder = state.hold(stream);
        if let Some(slot) = state.slot(stream) {
            slot.holder = Some(holder.number);
            self.buffered.fetch_add(slot.bytes, Ordering::Relaxed);
            slot.form = Form::Stream;
            if prime {
                self.prime(stream, slot);
            }
        }
        holder
    }

    fn is_resumable(&self) -> bool {
        self.agreed.get().is_some_and(|agreed| agreed.events.is_some())
    }

    fn make_stream(&self, stream: u64, slot: &mut Slot) {
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

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    // ---- what is to be sent ----

    fn deliver(&self, message: &Message, route: &Route) {
        let mut wake = Wake::default();
        let mut state = self.lock();
        match self.routing {
            Routing::Exchange => {
                let ours = matches!((route, &state.request), (Route::ReplyTo(id), Some(ours)) if id == ours);
                let response = matches!(message, Message::Response(_));
                if ours && (response || !self.json_only) {
                    let State { standing, .. } = &mut *state;
                    self.send(STANDING, standing, message, &mut wake);
                }
            }
            Routing::Everything => {
                let State { standing, .. } = &mut *state;
                self.send(STANDING, standing, message, &mut wake);
            }
            Routing::Session => self.deliver_in_session(&mut state, message, route, &mut wake),
        }
        drop(state);
        wake.all();
    }

    fn deliver_in_session(&self, state: &mut State, message: &Message, route: &Route, wake: &mut Wake) {
        let stream = match route {
            Route::ReplyTo(id) => state.owed.get(id).copied(),
            Route::Session => None,
        };
        let response = matches!(message, Message::Response(_));
        match (stream, route) {
            (Some(stream), Route::ReplyTo(id)) if response || !self.json_only => {
                if response {
                    state.owed.remove(id);
                }
                if let Some(slot) = state.posts.get_mut(&stream) {
                    self.send(stream, slot, message, wake);
                }
                state.sweep(stream);
            }
            // Nobody waits for it any more.
            (None, Route::ReplyTo(_)) => {}
            (Some(_), _) if matches!(message, Message::Notification(_)) => {}
            _ if response => {}
            _ => self.send(STANDING, &mut state.standing, message, wake),
        }
    }

    fn deliver_batch(&self, messages: &[Message], wake: &mut Wake) {
        let mut state = self.lock();
        let ids: Vec<&RequestId> = messages
            .iter()
            .filter_map(|message| match message {
                Message::Response(Response { id, .. }) => id.as_ref(),
                _ => None,
            })
            .collect();
        // Its requests are all of one POST. A batch that could not be read at all waits alone in its own.
        let stream = ids.iter().find_map(|id| state.owed.get(*id).copied()).or_else(|| {
            state.posts.iter().find(|(_, slot)| slot.batch && !slot.ended).map(|(stream, _)| *stream)
        });
        let Some(stream) = stream else { return };
        for id in ids {
            state.owed.remove(id);
        }
        if let Some(slot) = state.posts.get_mut(&stream) {
            let mut text = BytesMut::new();
            encode::batch(messages, &mut text);
            slot.owes = 0;
            slot.ended = true;
            match slot.form {
                Form::Open => slot.form = Form::Json(200, text.freeze()),
                _ => self.append(stream, slot, &text),
            }
            wake.add(slot.waker.take());
        }
        state.sweep(stream);
    }

    fn send(&self, stream: u64, slot: &mut Slot, message: &Message, wake: &mut Wake) {
        let response = match message {
            Message::Response(response) => Some(response),
            _ => None,
        };
        let last = response.is_some() && slot.owes == 1 && self.routing != Routing::Everything;
        if response.is_some() {
            slot.owes = slot.owes.saturating_sub(1);
            slot.ended |= last;
        }
        if slot.forsaken {
            return;
        }
        let mut text = BytesMut::with_capacity(message.payload_len() + ENVELOPE);
        encode::message(message, &mut text);
        if last && matches!(slot.form, Form::Open) {
            let status = match response.map(|response| &response.outcome) {
                Some(Err(error)) if self.routing == Routing::Exchange => classify::status(error.code),
                _ => 200,
            };
            slot.form = Form::Json(status, text.freeze());
        } else {
            if matches!(slot.form, Form::Open) && slot.holder.is_some() {
                self.make_stream(stream, slot);
            }
            self.append(stream, slot, &text);
        }
        wake.add(slot.waker.take());
    }

    /// Appends an event to a stream, and to what is kept of it.
    fn append(&self, stream: u64, slot: &mut Slot, text: &[u8]) {
        slot.last += 1;
        let id = EventId { stream, number: slot.last };
        let events = self.agreed.get().and_then(|agreed| Some((agreed, agreed.events.as_ref()?)));
        let written = events.map(|_| id.to_string());
        let mut out = BytesMut::with_capacity(text.len() + 64);
        let event = Writing { id: written.as_deref(), name: Some("message"), retry: None, data: text };
        if event.write(&mut out).is_err() {
            return;
        }
        let bytes = out.freeze();
        if let Some((agreed, events)) = events {
            let event = Event { id, bytes: bytes.clone(), last: slot.ended };
            events.append(&agreed.session, event);
        }
        if slot.holder.is_some() || stream == STANDING {
            slot.bytes += bytes.len();
            let length = bytes.len();
            slot.queue.push_back((id.number, bytes));
            if slot.holder.is_some() {
                self.buffered.fetch_add(length, Ordering::Relaxed);
            } else {
                slot.trim();
            }
        }
    }
}

impl Slot {
    /// Keeps the newest of what nobody reads.
    fn trim(&mut self) {
        while self.queue.len() > KEPT || (self.bytes > KEPT_BYTES && self.queue.len() > 1) {
            let Some((_, bytes)) = self.queue.pop_front() else { return };
            self.bytes -= bytes.len();
        }
    }
}

impl State {
    fn check(&self, size: usize) -> Result<(), Refused> {
        if self.closed {
            return Err(Refused::Closed);
        }
        let fits = self.unread.is_empty()
            || (self.unread.len() < UNREAD && self.unread_bytes.saturating_add(size) <= UNREAD_BYTES);
        if fits { Ok(()) } else { Err(Refused::Full) }
    }

    fn take_in(&mut self, inbound: Inbound, size: usize) {
        if self.unread.capacity() == 0 {
            self.unread.reserve_exact(1);
        }
        self.unread_bytes += size;
        self.unread.push_back(inbound);
    }

    fn hold(&mut self, stream: u64) -> Holder {
        self.last_holder += 1;
        Holder { stream, number: self.last_holder }
    }

    fn slot(&mut self, stream: u64) -> Option<&mut Slot> {
        if stream == STANDING {
            Some(&mut self.standing)
        } else {
            self.posts.get_mut(&stream).map(Box::as_mut)
        }
    }

    fn held(&mut self, holder: Holder) -> Option<&mut Slot> {
        self.slot(holder.stream).filter(|slot| slot.holder == Some(holder.number))
    }

    /// Forgets a POST on which nothing is due any more and that nobody reads.
    fn sweep(&mut self, stream: u64) {
        let over = |slot: &Slot| slot.owes == 0 && slot.holder.is_none();
        if self.posts.get(&stream).is_some_and(|slot| over(slot)) {
            self.posts.remove(&stream);
        }
        self.shrink();
    }

    /// An empty map keeps the room that it had.
    fn shrink(&mut self) {
        if self.posts.is_empty() && self.owed.is_empty() {
            self.posts = BTreeMap::new();
            self.owed = BTreeMap::new();
        }
    }
}

/// The connection's end.
pub(super) struct HttpIo(pub(super) Arc<Wire>);

impl Io for HttpIo {
    fn caps(&self) -> LinkCaps {
        LinkCaps { exchanges: true, reopens: false }
    }

    fn configure(&mut self, limits: &Limits) {
        // A message of the largest size does not keep small ones from other exchanges.
        let room = limits.message.saturating_add(limits.queued_replies);
        self.0.room.store(room, Ordering::Relaxed);
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        let mut state = self.0.lock();
        if let Some(inbound) = state.unread.pop_front() {
            if state.unread.is_empty() {
                state.unread_bytes = 0;
            }
            return Poll::Ready(inbound);
        }
        if state.closed {
            return Poll::Ready(Inbound::Closed { cause: LinkEnd::end_of_stream() });
        }
        keep(&mut state.driver, cx.waker());
        Poll::Pending
    }

    fn has_room(&self) -> bool {
        self.0.buffered.load(Ordering::Relaxed) <= self.0.room.load(Ordering::Relaxed)
    }

    fn push(&mut self, outbound: Outbound) {
        match outbound {
            Outbound::Message { message, route } => self.0.deliver(&message, &route),
            Outbound::Batch { messages, .. } => {
                let mut wake = Wake::default();
                self.0.deliver_batch(&messages, &mut wake);
                wake.all();
            }
            // A server closes an exchange by answering.
            Outbound::Abort { .. } => {}
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        if self.has_room() {
            return Poll::Ready(Ok(()));
        }
        let mut state = self.0.lock();
        keep(&mut state.driver, cx.waker());
        drop(state);
        // It may have been taken just now.
        if self.has_room() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn discard(&mut self) {
        let mut state = self.0.lock();
        let State { standing, posts, .. } = &mut *state;
        for slot in std::iter::once(standing).chain(posts.values_mut().map(Box::as_mut)) {
            slot.queue.clear();
            slot.bytes = 0;
        }
        self.0.buffered.store(0, Ordering::Relaxed);
    }

    fn sent(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }

    fn poll_close(&mut self, _cx: &mut Context<'_>) -> Poll<LinkEnd> {
        self.0.close();
        Poll::Ready(LinkEnd::end_of_stream())
    }

    fn poll_reopen(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        Poll::Ready(Err(cannot_reopen()))
    }
}
