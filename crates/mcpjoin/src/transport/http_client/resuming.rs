//! A link that goes on with a legacy session of its server, which another link has opened.
//!
//! The server has seen `initialize` and `initialized`, so the link answers the one from what was recorded, and keeps the other.
//! Everything else is sent in the session. <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports>

use std::sync::Arc;

use http::HeaderValue;
use http::header::HeaderMap;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::session::{Inbound, Outbound, TransportError, TransportErrorKind};
use mcpjoin_proto::{Message, Method, Payload, Raw, RequestId, Response};

use super::session::LegacySession;
use super::{HttpLink, HttpWay};

impl HttpLink {
    /// Answers the messages that open a session, if this link goes on with one. Returns what is to be sent.
    pub(super) fn resume(&mut self, outbound: Outbound) -> Option<Outbound> {
        let Outbound::Message { message, .. } = &outbound else { return Some(outbound) };
        let opens = match message {
            Message::Request(request) => request.method == Method::Initialize,
            Message::Notification(notification) => notification.method == Method::Initialized,
            Message::Response(_) => false,
        };
        let Some(state) = opens.then(|| self.held.resumed()).flatten() else { return Some(outbound) };
        match message {
            Message::Request(request) => self.resume_session(&state, request.id.clone()),
            _ => {
                self.streams = true;
                self.open_stream();
            }
        }
        None
    }

    fn resume_session(&mut self, state: &Raw, id: RequestId) {
        let reply = state.member("result").map(|result| {
            let response = Response { id: Some(id.clone()), outcome: Ok(Payload::from_raw(result)) };
            let message = Message::Response(response);
            Inbound::Message { message, origin: Arc::clone(&self.requester.origin) }
        });
        let mut head = HeaderMap::new();
        let named = state.member("id").and_then(|id| HeaderValue::from_str(&id.to_string_value()?).ok());
        if let Some(named) = named {
            head.insert(name::SESSION_ID, named);
        }
        let session = reply.as_ref().and_then(|reply| LegacySession::of(reply, &head, &id).ok()?);
        let (Some(reply), Some(session)) = (reply, session) else {
            let cause = TransportError::new("the recorded session cannot be used", false);
            return self.deliver(Inbound::Lost { id, cause });
        };
        self.handle.took(HttpWay::Streamable);
        self.session = Some(Arc::new(session));
        self.opened = true;
        self.deliver(reply);
    }

    /// The server has lost a session that other links use as well: none of them may open another one in its place. The owner ends
    /// the link. `refused`: a message that the server has refused for that reason, and how.
    pub(super) fn shared_session_lost(&mut self, refused: Option<(Outbound, String)>) {
        tracing::info!(target: "mcpjoin", "the server no longer knows the session, which other processes use as well");
        self.held.note_lost();
        if let Some((Outbound::Message { message: Message::Request(request), .. }, said)) = refused {
            let what = format!("the server no longer knows the session ({said})");
            let cause = TransportError::new(what, false).of(TransportErrorKind::SessionEnded);
            self.deliver(Inbound::Lost { id: request.id, cause });
        }
    }
}
