//! Outgoing messages: finds the stream of each, or opens one.

use std::collections::VecDeque;

use mcpjoin_proto::session::{Inbound, Route, TransportError};
use mcpjoin_proto::types::meta;
use mcpjoin_proto::{Message, Notification, Profile, Request, RequestId, Response};
use tokio::sync::mpsc::unbounded_channel;

use super::stream::{Kind, StreamTask};
use super::table::{Entry, SESSION, StreamState, claim};
use super::write_buffer::Line;
use super::{Gate, QuicLink, cancelled, code};

impl QuicLink {
    /// Sends a client's request on a new stream, once one is free.
    pub(super) fn call(&mut self, request: &Request, line: Line) {
        let (Some(common), Some(unfinished)) = (self.common(), self.unfinished.clone()) else {
            return self.report_lost(&request.id, TransportError::new("the connection has ended", true));
        };
        let key = self.next_key;
        self.next_key += 1;
        let kind = Kind::Call(request.id.clone());
        let state = StreamState::new(claim::WAITING);
        let stream_task = StreamTask { key, kind, common, state: state.clone() };
        let (out, lines) = unbounded_channel();
        // The receiver exists, so this cannot fail.
        let _ = out.send(line);
        let (call, connection) = (state.clone(), self.connection.clone());
        let permits = self.stream_permits.clone();
        let task = self.tasks.spawn(async move {
            let Ok(_permit) = permits.acquire_owned().await else { return };
            let Ok((mut send, mut receive)) = connection.open().await else { return };
            if !call.decide(claim::OPEN) {
                let _ =
                    (send.reset(code::number(code::CANCELLED)), receive.stop(code::number(code::CANCELLED)));
                return;
            }
            stream_task.run((send, receive), lines, unfinished).await;
        });
        // Nothing follows a self-contained request on its stream.
        let out = (!stands_alone(request)).then_some(out);
        let entry = Entry { out, task, state, ours: Vec::new(), theirs: Vec::new(), started: true };
        self.table.entries.insert(key, entry);
        self.table.add_ours(request.id.clone(), key);
    }

    /// Withdraws a call that has no stream yet. Returns whether that was possible.
    pub(super) fn withdraw(&mut self, key: u64) -> bool {
        let Some(entry) = self.table.entries.get(&key) else { return false };
        let withdrawn = entry.state.decide(claim::WITHDRAWN);
        if withdrawn {
            entry.task.abort();
            self.table.remove(key);
        }
        withdrawn
    }

    pub(super) fn send_message(&mut self, message: &Message, route: &Route, line: Line) {
        match message {
            Message::Request(request) => match route {
                Route::Session if !self.is_server() => self.call(request, line),
                route => self.send_request(&request.id, route, line),
            },
            Message::Notification(notification) => self.send_notification(notification, route, line),
            Message::Response(response) => self.send_response(response, line),
        }
    }

    /// Sends a server's request, or the request that a client makes while it handles one.
    pub(super) fn send_request(&mut self, id: &RequestId, route: &Route, line: Line) {
        match self.stream_for(route) {
            Some(key) if self.table.entries.contains_key(&key) => {
                self.table.add_ours(id.clone(), key);
                self.table.send(key, line);
            }
            _ => self.report_lost(id, TransportError::new("the stream that this belongs to is closed", true)),
        }
    }

    pub(super) fn stream_for(&self, route: &Route) -> Option<u64> {
        match route {
            Route::Session => Some(SESSION),
            Route::ReplyTo(id) => self.table.stream_of(id),
        }
    }

    pub(super) fn send_notification(&mut self, notification: &Notification, route: &Route, line: Line) {
        let Some(id) = cancelled(notification) else {
            // A notification about a request that is no longer pending is dropped.
            if let Some(key) = self.stream_for(route) {
                self.table.send(key, line);
            }
            return;
        };
        // A cancellation follows its request. If the request has its response already, the cancellation is dropped.
        let Some(key) = self.table.take_ours(&id) else { return };
        if key == SESSION || self.is_server() {
            return self.table.send(key, line);
        }
        if !self.withdraw(key) {
            self.table.send(key, line);
            if let Some(entry) = self.table.entries.get(&key) {
                entry.state.set(claim::CANCELLED);
            }
            self.end_stream(key);
        }
    }

    pub(super) fn send_response(&mut self, response: &Response, line: Line) {
        let key = match &response.id {
            Some(id) => self.table.take_theirs(id),
            None => Some(self.table.take_unreadable().unwrap_or(SESSION)),
        };
        if let (Gate::AwaitingResponse(initialize), Some(id)) = (&self.gate, &response.id)
            && initialize == id
        {
            self.gate = match &response.outcome {
                Ok(result) => {
                    let version = result.raw().member("protocolVersion").and_then(|it| it.decode().ok());
                    let profile = version.and_then(|version| Profile::of(&version));
                    self.batching = profile.is_some_and(|profile| profile.batching);
                    Gate::AwaitingInitialized(VecDeque::new())
                }
                Err(_) => Gate::Open,
            };
        }
        let Some(key) = key else { return };
        self.table.send(key, line);
        self.end_if_answered(key);
    }

    /// Sends the response to an array, on the array's stream.
    pub(super) fn send_batch(&mut self, messages: &[Message], exchange: Option<u64>, line: Line) {
        let Some(key) = exchange else { return };
        for message in messages {
            // An element that was not a request may have used the id of a request on another stream.
            if let Message::Response(Response { id: Some(id), .. }) = message
                && self.table.stream_of(id) == Some(key)
            {
                self.table.take_theirs(id);
            }
        }
        self.table.send(key, line);
        self.end_if_answered(key);
    }

    /// Ends a server's stream when all requests on it have responses.
    pub(super) fn end_if_answered(&mut self, key: u64) {
        let answered = self.table.entries.get(&key).is_some_and(|entry| entry.theirs.is_empty());
        if self.is_server() && key != SESSION && answered {
            self.end_stream(key);
        }
    }

    /// Finishes a stream once its queued messages are sent. Requests that are still pending on it are reported as lost.
    pub(super) fn end_stream(&mut self, key: u64) {
        self.drop_held(key);
        if let Some(entry) = self.table.remove(key) {
            for id in entry.ours {
                self.report_lost(
                    &id,
                    TransportError::new("the request that this belongs to is answered", false),
                );
            }
            self.ready.extend(entry.theirs.into_iter().map(|id| Inbound::Detached { id }));
        }
    }

    /// Resets a stream with this error code.
    pub(super) fn reset_stream(&mut self, key: u64, code: u32) {
        let Some(entry) = self.table.entries.get(&key) else { return };
        entry.state.set_code(code);
        // Set before the queue closes: the task may be running on another thread, and the abort takes effect at its
        // next await.
        entry.state.set(claim::CUT);
        entry.task.abort();
        self.end_stream(key);
    }
}

/// Whether a request is self-contained, as in the modern era.
fn stands_alone(request: &Request) -> bool {
    let meta = request.params.as_ref().and_then(|params| params.meta());
    meta.is_some_and(|meta| meta.member(meta::key::PROTOCOL_VERSION).is_some())
}
