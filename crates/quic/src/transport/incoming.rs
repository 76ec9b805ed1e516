//! Incoming messages: finds the stream and request of each, and decides whether the session gets it now.

use bytes::Bytes;
use mcpjoin_proto::session::{Inbound, TransportEnd, TransportError};
use mcpjoin_proto::{Message, Method, RequestId};
use quinn::{RecvStream, SendStream};
use tokio::sync::OwnedSemaphorePermit;

use super::stream::{Kind, StreamEvent};
use super::table::SESSION;
use super::{Gate, QuicLink, cancelled, code};
use crate::endpoint::{QuicError, QuicErrorKind};
use mcpjoin::transport::{Direction, Inspected};

impl QuicLink {
    pub(super) fn report_lost(&mut self, id: &RequestId, cause: TransportError) {
        self.ready.push_back(Inbound::Lost { id: id.clone(), cause });
    }

    pub(super) fn handle_event(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Received { key, inbound, line, permit } => self.receive(key, inbound, line, permit),
            StreamEvent::Ended { key: SESSION, cause } => {
                let end = TransportEnd::failed(TransportError::new(
                    format!("{cause}: it is the one of the session"),
                    true,
                ));
                self.mark_closed(end);
                self.connection.close(code::PROTOCOL, "the stream of the session was cut off");
            }
            StreamEvent::Ended { key, cause } => {
                self.drop_held(key);
                let Some(entry) = self.table.remove(key) else { return };
                for id in entry.ours {
                    self.report_lost(&id, cause.clone());
                }
                self.ready.extend(entry.theirs.into_iter().map(|id| Inbound::Detached { id }));
            }
            StreamEvent::SessionEnded => self.open_gate(),
        }
    }

    pub(super) fn receive(
        &mut self,
        key: u64,
        mut inbound: Inbound,
        line: Bytes,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let requests = requests_something(&inbound);
        if requests {
            self.silence = None;
        }
        if let Gate::AwaitingInitialized(held) = &mut self.gate
            && key != SESSION
            && requests
        {
            // A request stream carries one request, so the number of streams limits what is held.
            if held.iter().any(|event| event.is_of(key)) {
                self.reset_stream(key, code::PROTOCOL);
            } else if self.table.entries.contains_key(&key) {
                held.push_back(StreamEvent::Received { key, inbound, line, permit });
            }
            return;
        }
        if let Some(inspector) = &mut self.inspector
            && !line.is_empty()
        {
            inspector(Direction::In, Inspected::Line(&line));
        }
        let initialized = matches!(&inbound, Inbound::Message { message: Message::Notification(note), .. }
            if note.method == Method::Initialized);
        if let Inbound::Batch { exchange, .. } = &mut inbound {
            *exchange = Some(key);
        }
        if self.admit(key, &inbound) {
            self.permit = permit;
            self.ready.push_back(inbound);
        }
        if initialized {
            self.open_gate();
        }
    }

    /// Drops the request of a stream that waits for `notifications/initialized`.
    pub(super) fn drop_held(&mut self, key: u64) {
        if let Gate::AwaitingInitialized(held) = &mut self.gate {
            held.retain(|event| !event.is_of(key));
        }
    }

    /// Delivers the requests that waited for `notifications/initialized`.
    pub(super) fn open_gate(&mut self) {
        if let Gate::AwaitingInitialized(held) = std::mem::replace(&mut self.gate, Gate::Open) {
            held.into_iter().for_each(|event| self.handle_event(event));
        }
    }

    /// Records an incoming message in the table. Returns whether the session gets it.
    pub(super) fn admit(&mut self, key: u64, inbound: &Inbound) -> bool {
        let server = self.is_server();
        let of_request = server && key != SESSION;
        let started = match self.table.entries.get_mut(&key) {
            Some(entry) => std::mem::replace(&mut entry.started, true),
            None => true,
        };
        let asks = match inbound {
            Inbound::Message { message: Message::Request(request), .. } => {
                // A request stream carries one request, and an id may be pending once.
                if of_request && started || !self.table.add_theirs(&request.id, key) && key != SESSION {
                    tracing::debug!(target: "mcpjoin", id = %request.id, "a request where none may be: its stream is cut off");
                    self.reset_stream(key, code::PROTOCOL);
                    return false;
                }
                if server && request.method == Method::Initialize && matches!(self.gate, Gate::Open) {
                    self.gate = Gate::AwaitingResponse(request.id.clone());
                }
                true
            }
            Inbound::Message { message, .. } => {
                if let Message::Notification(notification) = message
                    && let Some(id) = cancelled(notification)
                    && self.table.stream_of(&id) == Some(key)
                {
                    // A cancelled request gets no response.
                    self.table.take_theirs(&id);
                    self.end_if_answered(key);
                    return true;
                }
                let asks = self.table.record(Ok(message), key);
                let is_answered = self.table.entries.get(&key).is_some_and(|entry| entry.ours.is_empty());
                if !server && key != SESSION && is_answered && matches!(message, Message::Response(_)) {
                    self.end_stream(key);
                }
                asks
            }
            Inbound::Batch { .. } if server && !self.batching => {
                // The session rejects the array as a whole, with a response that names no id.
                self.table.unreadable(key);
                true
            }
            Inbound::Batch { parts, .. } => {
                parts.iter().filter(|part| self.table.record(part.as_ref(), key)).count() > 0
            }
            Inbound::Malformed { error, .. } => {
                let asks = self.table.record(Err(error), key);
                if asks && server && error.id.is_none() {
                    self.table.unreadable(key);
                }
                asks
            }
            _ => true,
        };
        if of_request && !asks && !started {
            // The stream carried no request, so it gets no response.
            self.end_stream(key);
        }
        true
    }

    /// Starts the task of a stream that a client has opened.
    pub(super) fn accept_stream(&mut self, send: SendStream, receive: RecvStream) {
        let first = send.id().index() == SESSION;
        let key = if first { SESSION } else { self.next_key };
        self.next_key += u64::from(!first);
        let kind = if first { Kind::Session } else { Kind::Request };
        self.begin(key, kind, send, receive);
    }

    /// Records why the connection ended. Messages that the streams have already read are still delivered.
    pub(super) fn mark_closed(&mut self, end: TransportEnd) {
        self.close_cause.get_or_insert(end);
        self.common = None;
        self.accepting = None;
        self.gate = Gate::Open;
        for entry in self.table.entries.values_mut() {
            entry.out = None;
            let theirs = entry.theirs.drain(..).map(|id| Inbound::Detached { id });
            self.ready.extend(theirs);
        }
    }

    pub(super) fn connection_closed(&mut self, error: &QuicError) {
        self.mark_closed(match &error.kind {
            QuicErrorKind::Closed { code: 0, .. } | QuicErrorKind::ClosedByUs => {
                TransportEnd::end_of_stream()
            }
            kind => TransportEnd::failed(TransportError::new(
                format!("the QUIC connection is lost: {kind}"),
                true,
            )),
        });
    }
}

/// Whether it is a request that a server of the legacy era answers after `notifications/initialized` only.
fn requests_something(inbound: &Inbound) -> bool {
    match inbound {
        Inbound::Message { message: Message::Request(request), .. } => request.method != Method::Ping,
        Inbound::Batch { .. } => true,
        _ => false,
    }
}
