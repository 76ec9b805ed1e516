//! What comes in: to which request it belongs, and whether it is to be handed in now.

use bytes::Bytes;
use mcpjoin_proto::decode::Shape;
use mcpjoin_proto::session::{Inbound, TransportEnd, TransportError};
use mcpjoin_proto::{Message, Method, RequestId, Response};
use quinn::{RecvStream, SendStream};
use tokio::sync::OwnedSemaphorePermit;

use super::exchange::{Kind, News};
use super::table::SESSION;
use super::{Gate, QuicLink, cancelled, code};
use crate::endpoint::{QuicError, QuicErrorKind};
use mcpjoin::transport::{Direction, Inspected};

impl QuicLink {
    pub(super) fn lose(&mut self, id: &RequestId, cause: TransportError) {
        self.ready.push_back(Inbound::Lost { id: id.clone(), cause });
    }

    pub(super) fn hear(&mut self, news: News) {
        match news {
            News::Came { key, inbound, line, permit } => self.came(key, inbound, line, permit),
            News::Gone { key: SESSION, cause } => {
                let end = TransportEnd::failed(TransportError::new(
                    format!("{cause}: it is the one of the session"),
                    true,
                ));
                self.over(end);
                self.connection.close(code::PROTOCOL, "the stream of the session was cut off");
            }
            News::Gone { key, cause } => {
                if let Gate::Answered(held) = &mut self.gate {
                    held.retain(|news| !matches!(news, News::Came { key: other, .. } if *other == key));
                }
                let Some(entry) = self.table.remove(key) else { return };
                for id in entry.ours {
                    self.lose(&id, cause.clone());
                }
                self.ready.extend(entry.theirs.into_iter().map(|id| Inbound::Detached { id }));
            }
            News::SessionEnded => self.release(),
        }
    }

    pub(super) fn came(
        &mut self,
        key: u64,
        mut inbound: Inbound,
        line: Bytes,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        if let Gate::Answered(held) = &mut self.gate
            && key != SESSION
            && waits_for_initialized(&inbound)
        {
            held.push_back(News::Came { key, inbound, line, permit });
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
        if self.takes(key, &inbound) {
            self.permit = permit;
            self.ready.push_back(inbound);
        }
        if initialized {
            self.release();
        }
    }

    /// Those who wait for `notifications/initialized` wait no longer.
    pub(super) fn release(&mut self) {
        if let Gate::Answered(held) = std::mem::replace(&mut self.gate, Gate::Open) {
            held.into_iter().for_each(|news| self.hear(news));
        }
    }

    /// Notes what came on a stream. Says whether it is to be handed in.
    pub(super) fn takes(&mut self, key: u64, inbound: &Inbound) -> bool {
        let server = self.is_server();
        let of_request = server && key != SESSION;
        let begun = match self.table.entries.get_mut(&key) {
            Some(entry) => std::mem::replace(&mut entry.begun, true),
            None => true,
        };
        match inbound {
            Inbound::Message { message: Message::Request(request), .. } => {
                // One request is what such a stream is for, and an id is for one request at a time.
                if of_request && begun || !self.table.asked(&request.id, key) && key != SESSION {
                    tracing::debug!(target: "mcpjoin", id = %request.id, "a request where none may be: its stream is cut off");
                    self.cut(key, code::PROTOCOL);
                    return false;
                }
                if server && request.method == Method::Initialize {
                    self.gate = Gate::Asked(request.id.clone());
                }
                true
            }
            Inbound::Batch { parts, .. } => {
                let mut asks = false;
                for part in parts {
                    let id = match part {
                        Ok(Message::Request(request)) => Some(&request.id),
                        Ok(_) => None,
                        Err(error) => error.id.as_ref(),
                    };
                    if let Some(id) = id {
                        self.table.asked(id, key);
                    }
                    asks |= id.is_some() || part.is_err();
                    if let Ok(Message::Response(Response { id: Some(id), .. })) = part {
                        self.table.take_ours(id);
                    }
                }
                if server {
                    // An array may be refused as a whole.
                    self.table.unreadable(key);
                }
                if of_request && !asks && !begun {
                    self.end(key);
                }
                true
            }
            Inbound::Message { message: Message::Response(response), .. } => {
                if let Some(id) = &response.id {
                    self.table.take_ours(id);
                    if !server && key != SESSION && self.is_answered(key) {
                        self.end(key);
                    }
                }
                self.done_unless_asked(of_request && !begun, key)
            }
            Inbound::Message { message: Message::Notification(notification), .. } => {
                if let Some(id) = cancelled(notification)
                    && self.table.stream_of(&id) == Some(key)
                {
                    // There will be no answer.
                    self.table.take_theirs(&id);
                    self.settle(key);
                    return true;
                }
                self.done_unless_asked(of_request && !begun, key)
            }
            Inbound::Malformed { error, .. } => {
                match (&error.id, error.shape) {
                    (Some(id), Shape::Response) => {
                        self.table.take_ours(id);
                    }
                    (Some(id), _) => {
                        self.table.asked(id, key);
                    }
                    (None, Shape::Request | Shape::Unknown) if server => self.table.unreadable(key),
                    (None, _) => return self.done_unless_asked(of_request && !begun, key),
                }
                true
            }
            _ => true,
        }
    }

    pub(super) fn is_answered(&self, key: u64) -> bool {
        self.table.entries.get(&key).is_some_and(|entry| entry.ours.is_empty())
    }

    /// A stream on which nothing is asked gets no answer.
    pub(super) fn done_unless_asked(&mut self, nothing: bool, key: u64) -> bool {
        if nothing {
            self.end(key);
        }
        true
    }

    /// A client has opened a stream.
    pub(super) fn accepted(&mut self, send: SendStream, receive: RecvStream) {
        let first = send.id().index() == SESSION;
        let key = if first { SESSION } else { self.next_key };
        self.next_key += u64::from(!first);
        let kind = if first { Kind::Session } else { Kind::Request };
        self.begin(key, kind, send, receive);
    }

    /// The connection is over; what the streams still have is handed in.
    pub(super) fn over(&mut self, end: TransportEnd) {
        self.over.get_or_insert(end);
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
        self.over(match &error.kind {
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

fn waits_for_initialized(inbound: &Inbound) -> bool {
    match inbound {
        Inbound::Message { message: Message::Request(request), .. } => request.method != Method::Ping,
        Inbound::Batch { .. } => true,
        _ => false,
    }
}
