//! What goes out: each message finds its stream, or gets one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use mcpjoin_proto::session::{Inbound, Route, TransportError};
use mcpjoin_proto::types::meta;
use mcpjoin_proto::{Message, Notification, Request, RequestId, Response};
use tokio::sync::mpsc::unbounded_channel;

use super::exchange::{Exchange, Kind};
use super::shared::Line;
use super::table::{Entry, SESSION, claim};
use super::{Gate, QuicLink, cancelled, code};

impl QuicLink {
    /// A request of a client: on a stream of its own, as soon as it gets one.
    pub(super) fn call(&mut self, request: &Request, line: Line) {
        let (Some(common), Some(leash)) = (self.common(), self.leash.clone()) else {
            return self.lose(&request.id, TransportError::new("the connection is over", true));
        };
        let key = self.next_key;
        self.next_key += 1;
        let code = Arc::new(AtomicU32::new(code::CANCELLED));
        let kind = Kind::Call(request.id.clone());
        let claim = Arc::new(AtomicU8::new(claim::WAITING));
        let exchange = Exchange { key, kind, common, code: code.clone(), claim: claim.clone() };
        let (out, lines) = unbounded_channel();
        // Its receiver is there.
        let _ = out.send(line);
        let (claimed, places, connection) = (claim.clone(), self.places.clone(), self.connection.clone());
        let task = self.tasks.spawn(async move {
            let Ok(_place) = places.acquire_owned().await else { return };
            let Ok((mut send, mut receive)) = connection.open().await else { return };
            let claiming =
                claimed.compare_exchange(claim::WAITING, claim::OPEN, Ordering::AcqRel, Ordering::Acquire);
            if claiming.is_err() {
                let _ =
                    (send.reset(code::number(code::CANCELLED)), receive.stop(code::number(code::CANCELLED)));
                return;
            }
            exchange.run((send, receive), lines, leash).await;
        });
        // A request that says everything by itself is never followed by anything.
        let out = (!stands_alone(request)).then_some(out);
        let entry = Entry { out, task, claim, code, ours: Vec::new(), theirs: Vec::new(), begun: true };
        self.table.entries.insert(key, entry);
        self.table.ask(request.id.clone(), key);
    }

    /// Takes back a call of which nothing has left. Says whether that was so.
    pub(super) fn withdraw(&mut self, key: u64) -> bool {
        let Some(entry) = self.table.entries.get(&key) else { return false };
        let withdrawn = entry.claim.compare_exchange(
            claim::WAITING,
            claim::WITHDRAWN,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if withdrawn.is_ok() {
            entry.task.abort();
            self.table.remove(key);
        }
        withdrawn.is_ok()
    }

    pub(super) fn message(&mut self, message: &Message, route: &Route, line: Line) {
        match message {
            Message::Request(request) => match route {
                Route::Session if !self.is_server() => self.call(request, line),
                route => self.ask(&request.id, route, line),
            },
            Message::Notification(notification) => self.note(notification, route, line),
            Message::Response(response) => self.answer(response, line),
        }
    }

    /// A request of a server, or of a client that answers one.
    pub(super) fn ask(&mut self, id: &RequestId, route: &Route, line: Line) {
        match self.stream(route) {
            Some(key) if self.table.entries.contains_key(&key) => {
                self.table.ask(id.clone(), key);
                self.table.send(key, line);
            }
            _ => self.lose(id, TransportError::new("the stream that this belongs to is closed", true)),
        }
    }

    pub(super) fn stream(&self, route: &Route) -> Option<u64> {
        match route {
            Route::Session => Some(SESSION),
            Route::ReplyTo(id) => self.table.stream_of(id),
        }
    }

    pub(super) fn note(&mut self, notification: &Notification, route: &Route, line: Line) {
        let Some(id) = cancelled(notification) else {
            // What belongs to a request that nobody waits for any more is not said.
            if let Some(key) = self.stream(route) {
                self.table.send(key, line);
            }
            return;
        };
        // It goes where the request went that it names; when that is answered, nowhere.
        let Some(key) = self.table.take_ours(&id) else { return };
        if key == SESSION || self.is_server() {
            return self.table.send(key, line);
        }
        if !self.withdraw(key) {
            self.table.send(key, line);
            if let Some(entry) = self.table.entries.get(&key) {
                entry.claim.store(claim::GIVEN_UP, Ordering::Release);
            }
            self.end(key);
        }
    }

    pub(super) fn answer(&mut self, response: &Response, line: Line) {
        let key = match &response.id {
            Some(id) => self.table.take_theirs(id),
            None => Some(self.table.answer_unreadable().unwrap_or(SESSION)),
        };
        if let (Gate::Asked(initialize), Some(id)) = (&self.gate, &response.id)
            && initialize == id
        {
            self.gate = match &response.outcome {
                Ok(_) => Gate::Answered(VecDeque::new()),
                Err(_) => Gate::Open,
            };
        }
        let Some(key) = key else { return };
        self.table.send(key, line);
        self.settle(key);
    }

    /// The answer to an array, on the stream that it came on.
    pub(super) fn answers(&mut self, messages: &[Message], exchange: Option<u64>, line: Line) {
        let Some(key) = exchange else { return };
        for message in messages {
            // A part that was no request may have had the id of a request on another stream.
            if let Message::Response(Response { id: Some(id), .. }) = message
                && self.table.stream_of(id) == Some(key)
            {
                self.table.take_theirs(id);
            }
        }
        self.table.array_answered(key);
        self.table.send(key, line);
        self.settle(key);
    }

    /// A server has nothing more to say on a stream when everything that was asked there is answered.
    pub(super) fn settle(&mut self, key: u64) {
        let answered = self.table.entries.get(&key).is_some_and(|entry| entry.theirs.is_empty());
        if self.is_server() && key != SESSION && answered {
            self.end(key);
        }
    }

    /// Nothing more is said on a stream: it ends when what was said has arrived. What we have asked there gets no answer
    /// any more.
    pub(super) fn end(&mut self, key: u64) {
        if let Some(entry) = self.table.remove(key) {
            for id in entry.ours {
                self.lose(&id, TransportError::new("the request that this belongs to is answered", false));
            }
            self.ready.extend(entry.theirs.into_iter().map(|id| Inbound::Detached { id }));
        }
    }

    /// Cuts a stream off, with that reason.
    pub(super) fn cut(&mut self, key: u64, code: u32) {
        let Some(entry) = self.table.entries.get(&key) else { return };
        entry.code.store(code, Ordering::Relaxed);
        // Before its lines end: the task may be running on another thread, and the abort waits until it pauses.
        entry.claim.store(claim::CUT, Ordering::Release);
        entry.task.abort();
        self.end(key);
    }
}

/// A request that carries everything about itself: one of the modern era. Nothing follows it on its stream.
fn stands_alone(request: &Request) -> bool {
    let meta = request.params.as_ref().and_then(|params| params.meta());
    meta.is_some_and(|meta| meta.member(meta::key::PROTOCOL_VERSION).is_some())
}
