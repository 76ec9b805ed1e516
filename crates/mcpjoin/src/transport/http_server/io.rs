//! The connection's side of a [`Wire`](super::wire::Wire): routes each message that the connection sends to its exchange.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use mcpjoin_proto::codec::sse::OutgoingEvent;
use mcpjoin_proto::http::classify;
use mcpjoin_proto::session::{Inbound, Limits, Outbound, Route, TransportCaps, TransportEnd};
use mcpjoin_proto::{ErrorObject, Message, Response, encode};

use super::events::{Event, EventId};
use super::exchange_state::{ExchangeState, Form, Queued, State, Wake, keep};
use super::legacy::cancels;
use super::memory::Full;
use super::reply;
use super::wire::{GET_STREAM, Routing, Wire};
use crate::transport::Transport;

/// An estimate of the bytes around the payload of a message; most messages have fewer.
const ENVELOPE_BYTES: usize = 160;

impl Wire {
    fn route(&self, message: &Message, route: &Route) {
        let mut wake = Wake::default();
        let mut state = self.lock();
        match message {
            Message::Request(request) => {
                state.our_requests.insert(request.id.clone());
            }
            // A request that we have cancelled gets no response.
            message => {
                if let Some(id) = cancels(message) {
                    state.our_requests.remove(&id);
                }
            }
        }
        match self.routing {
            Routing::Exchange => {
                let ours = matches!((route, &state.request), (Route::ReplyTo(id), Some(ours)) if id == ours);
                let response = matches!(message, Message::Response(_));
                if ours && (response || !self.json_only) {
                    let State { get_stream, .. } = &mut *state;
                    self.send(GET_STREAM, get_stream, message, &mut wake);
                }
            }
            Routing::Everything => {
                let State { get_stream, .. } = &mut *state;
                self.send(GET_STREAM, get_stream, message, &mut wake);
            }
            Routing::Session => self.deliver_in_session(&mut state, message, route, &mut wake),
        }
        drop(state);
        wake.all();
    }

    fn deliver_in_session(&self, state: &mut State, message: &Message, route: &Route, wake: &mut Wake) {
        let stream = match route {
            Route::ReplyTo(id) => state.reply_streams.get(id).copied(),
            Route::Session => None,
        };
        let response = matches!(message, Message::Response(_));
        match (stream, route) {
            (Some(stream), Route::ReplyTo(id)) if response || !self.json_only => {
                if response {
                    state.reply_streams.remove(id);
                }
                if let Some(slot) = state.posts.get_mut(&stream) {
                    self.send(stream, slot, message, wake);
                }
                state.sweep(stream);
            }
            // The exchange has ended.
            (None, Route::ReplyTo(_)) => {}
            (Some(_), _) if matches!(message, Message::Notification(_)) => {}
            _ if response => {}
            _ => self.send(GET_STREAM, &mut state.get_stream, message, wake),
        }
    }

    fn deliver_batch(&self, messages: &[Message], exchange: Option<u64>, wake: &mut Wake) {
        let text = batch(messages);
        let instead = |full| Some(batch(&refused(messages, full)));
        let mut state = self.lock();
        let Some(stream) = exchange else {
            // Messages without an exchange of their own came by the POSTs of 2024-11-05.
            let State { get_stream, .. } = &mut *state;
            self.append(GET_STREAM, get_stream, &text, instead);
            wake.add(get_stream.waker.take());
            return;
        };
        for message in messages {
            // An invalid part may have the id of a request of another POST.
            if let Message::Response(Response { id: Some(id), .. }) = message
                && state.reply_streams.get(id) == Some(&stream)
            {
                state.reply_streams.remove(id);
            }
        }
        if let Some(slot) = state.posts.get_mut(&stream) {
            slot.pending = 0;
            slot.ended = true;
            match slot.form {
                Form::Open => {
                    let text = self.hold(text).unwrap_or_else(|full| instead(full).unwrap_or_default());
                    slot.form = Form::Json(200.into(), text);
                }
                _ => self.append(stream, slot, &text, instead),
            }
            wake.add(slot.waker.take());
        }
        state.sweep(stream);
    }

    fn send(&self, stream: u64, slot: &mut ExchangeState, message: &Message, wake: &mut Wake) {
        let response = match message {
            Message::Response(response) => Some(response),
            _ => None,
        };
        let last = response.is_some() && slot.pending == 1 && self.routing != Routing::Everything;
        if response.is_some() {
            slot.pending = slot.pending.saturating_sub(1);
            slot.ended |= last;
        }
        if slot.abandoned {
            return;
        }
        let text = single(message);
        let instead = |full| Some(single(&Message::Response(refuse(response?, full))));
        if last && matches!(slot.form, Form::Open) {
            let status = match response.map(|response| &response.outcome) {
                Some(Err(error)) => match reply::for_unprocessed(error) {
                    Some(status) => status,
                    None if self.routing == Routing::Exchange => classify::status(error.code).into(),
                    None => 200.into(),
                },
                _ => 200.into(),
            };
            let (status, text) = match self.hold(text) {
                Ok(text) => (status, text),
                Err(full) => (503.into(), instead(full).unwrap_or_default()),
            };
            slot.form = Form::Json(status, text);
        } else {
            if matches!(slot.form, Form::Open) && slot.reader.is_some() {
                self.make_stream(stream, slot);
            }
            self.append(stream, slot, &text, instead);
        }
        wake.add(slot.waker.take());
    }

    /// Stores that a stream has ended without a response, because its requests were cancelled. So the event store can tell a client
    /// that resumes it that nothing follows. The client may not know that: some resume each stream that ends without a response.
    pub(super) fn store_end(&self, stream: u64, slot: &mut ExchangeState) {
        if let Some(agreed) = self.agreed.get()
            && let Some(events) = &agreed.events
            && matches!(slot.form, Form::Stream)
        {
            slot.last += 1;
            let id = EventId { stream: self.named(stream), number: slot.last };
            // Nothing is sent, so nothing waits until it is stored.
            let _ = events.append(&agreed.session, Event { id, bytes: Bytes::new(), last: true });
        }
    }

    /// Appends an event to a stream, and to the event store. Where there is no room for it, `instead` may return a smaller text;
    /// if it returns none, the stream ends for its reader.
    fn append(
        &self,
        stream: u64,
        slot: &mut ExchangeState,
        text: &[u8],
        instead: impl FnOnce(Full) -> Option<Bytes>,
    ) {
        slot.last += 1;
        let id = EventId { stream: self.named(stream), number: slot.last };
        let events = self.agreed.get().and_then(|agreed| Some((agreed, agreed.events.as_ref()?)));
        let bytes = event(events.map(|_| id), text);
        let confirmation = events.and_then(|(agreed, events)| {
            let event = Event { id, bytes: bytes.clone(), last: slot.ended };
            events.append(&agreed.session, event)
        });
        // Events after a detachment are for the reader that resumes the stream.
        if slot.detached || (slot.reader.is_none() && stream != GET_STREAM) {
            return;
        }
        let bytes = match self.hold(bytes) {
            Ok(bytes) => Some(bytes),
            // The event is in the event store and can be read from there.
            Err(full) if events.is_none() => instead(full).map(|text| event(None, &text)),
            Err(_) => None,
        };
        let Some(bytes) = bytes else {
            slot.detached = slot.reader.is_some();
            return;
        };
        let length = bytes.len();
        slot.bytes += length;
        slot.queue.push_back(Queued { number: id.number, bytes, confirmation });
        if slot.reader.is_some() {
            self.buffered.fetch_add(length, Ordering::Relaxed);
        } else {
            slot.trim(self.is_crowded());
        }
    }
}

/// The text of one message.
fn single(message: &Message) -> Bytes {
    let mut text = BytesMut::with_capacity(message.payload_len() + ENVELOPE_BYTES);
    encode::message(message, &mut text);
    text.freeze()
}

/// The text of a batch.
fn batch(messages: &[Message]) -> Bytes {
    let mut text = BytesMut::new();
    encode::batch(messages, &mut text);
    text.freeze()
}

/// An event of a stream, with its id where it is kept.
fn event(id: Option<EventId>, text: &[u8]) -> Bytes {
    let id = id.map(|id| id.to_string());
    let mut out = BytesMut::with_capacity(text.len() + ENVELOPE_BYTES);
    let event = OutgoingEvent { id: id.as_deref(), name: Some("message"), retry: None, data: text };
    event.write(&mut out).expect("digits, a hyphen and a constant have no line break");
    out.freeze()
}

/// The error that replaces a response for which there is no room.
fn refuse(response: &Response, full: Full) -> Response {
    Response { id: response.id.clone(), outcome: Err(ErrorObject::internal(full.to_string())) }
}

/// The same for a batch of responses.
fn refused(messages: &[Message], full: Full) -> Vec<Message> {
    let responses = messages.iter().filter_map(|message| match message {
        Message::Response(response) => Some(Message::Response(refuse(response, full))),
        _ => None,
    });
    responses.collect()
}

/// The transport of a connection over HTTP.
pub(super) struct HttpIo(pub(super) Arc<Wire>);

impl Transport for HttpIo {
    fn caps(&self) -> TransportCaps {
        TransportCaps { exchanges: true, ..TransportCaps::default() }
    }

    fn configure(&mut self, limits: &Limits) {
        // A message of the largest size must not block small ones on other exchanges.
        let room = limits.message.saturating_add(limits.queued_replies);
        self.0.room.store(room, Ordering::Relaxed);
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        let mut state = self.0.lock();
        if let Some(inbound) = state.take_out() {
            return Poll::Ready(inbound);
        }
        if state.closed {
            return Poll::Ready(Inbound::Closed { cause: TransportEnd::end_of_stream() });
        }
        keep(&mut state.driver, cx.waker());
        Poll::Pending
    }

    fn has_room(&self) -> bool {
        self.0.buffered.load(Ordering::Relaxed) <= self.0.room.load(Ordering::Relaxed)
    }

    fn push(&mut self, outbound: Outbound) {
        match outbound {
            Outbound::Message { message, route } => self.0.route(&message, &route),
            Outbound::Batch { messages, exchange } => {
                let mut wake = Wake::default();
                self.0.deliver_batch(&messages, exchange, &mut wake);
                wake.all();
            }
            // A server ends an exchange by its response.
            Outbound::Abort { .. } => {}
            Outbound::CloseStream { id } => self.0.detach(&id),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportEnd>> {
        if self.has_room() {
            return Poll::Ready(Ok(()));
        }
        let mut state = self.0.lock();
        keep(&mut state.driver, cx.waker());
        drop(state);
        // An exchange may have taken bytes just now.
        if self.has_room() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn discard(&mut self) {
        let mut state = self.0.lock();
        let State { get_stream, posts, .. } = &mut *state;
        for slot in std::iter::once(get_stream).chain(posts.values_mut().map(Box::as_mut)) {
            slot.queue.clear();
            slot.bytes = 0;
        }
        self.0.buffered.store(0, Ordering::Relaxed);
    }

    fn sent(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }

    fn has_listener(&self) -> Option<Box<dyn Fn() -> bool + Send + Sync>> {
        let wire = self.0.clone();
        Some(Box::new(move || wire.has_get_reader()))
    }

    fn poll_close(&mut self, _cx: &mut Context<'_>) -> Poll<TransportEnd> {
        self.0.close();
        Poll::Ready(TransportEnd::end_of_stream())
    }
}
