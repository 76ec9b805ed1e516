//! What exchanges and streams report, and what the transport does about it.
//!
//! ```text
//! exchange          --+                      +--> deliver: a message for the connection
//! response_stream   --+                      |
//! session_stream    --+--> ExchangeEvent --> +--> gate: whether messages may be sent
//! http_sse          --+      (a channel)     |
//! session, resend   --+                      +--> session: opened, lost, opened again
//!                                            |
//!                                            +--> resend: what was refused unprocessed
//! ```
//!
//! Exchanges change nothing in the transport. What depends on a response changes here, one event at a time, in the order of
//! the channel.

use std::sync::Arc;

use mcpjoin_proto::session::{Inbound, Outbound, TransportEnd, TransportError};
use mcpjoin_proto::{Message, Raw, Request, RequestId};
use url::Url;

use super::in_flight::Task;
use super::queue::SendGate;
use super::seen_events::{EventKey, SeenEvents};
use super::session::LegacySession;
use super::{HttpLink, HttpWay, Mode, http_sse};

/// What an exchange or a stream reports.
pub(super) enum ExchangeEvent {
    /// A message for the connection.
    Message(Inbound),
    /// A message of a legacy session whose event has an id: it may have been delivered before. `request`: the request whose
    /// response is the stream.
    StreamMessage { inbound: Inbound, key: EventKey, request: Option<RequestId> },
    /// The server has accepted `initialize`.
    Initialized { session: LegacySession, reply: Inbound },
    /// The server asks to repeat the probe of the era later. Nothing else is sent until then.
    ProbePostponed,
    /// The server has no POST of `initialize` at this URL.
    TryHttpSse(Box<RefusedInitialize>),
    /// The server does not know the session any more. `refused`: the message that it has refused for that reason, and how.
    SessionLost { generation: u64, refused: Option<Box<(Outbound, String)>> },
    /// The session was opened again.
    SessionReopened(LegacySession),
    /// The session was not opened again. `fatal`: no later try can succeed.
    SessionNotReopened { cause: TransportError, fatal: bool },
    /// The server has refused a call because its headers do not fit the tool.
    HeadersMismatched { call: Box<Outbound>, refusal: Inbound },
    /// The tools were listed again for that reason.
    ToolsListed { call: Request, refusal: Inbound, pages: Vec<Raw> },
    /// HTTP+SSE: the URL to post to.
    HttpSseEndpoint(Url),
    /// HTTP+SSE: the server has no such stream.
    HttpSseFailed(TransportError),
    /// The connection is over.
    Closed(TransportEnd),
}

/// An `initialize` that the server has refused.
pub(super) struct RefusedInitialize {
    pub(super) initialize: Outbound,
    pub(super) id: RequestId,
    /// The response, if it was a message.
    pub(super) reply: Option<Inbound>,
    pub(super) cause: TransportError,
}

impl HttpLink {
    pub(super) fn handle_event(&mut self, event: ExchangeEvent) {
        match event {
            ExchangeEvent::Message(inbound) => self.deliver(inbound),
            ExchangeEvent::StreamMessage { inbound, key, request } => {
                if !self.seen_events.is_new(key) {
                    return;
                }
                if let Inbound::Message { message: Message::Response(reply), .. } = &inbound
                    && let Some(id) =
                        reply.id.as_ref().filter(|id| key.is_resumed() && request.as_ref() != Some(id))
                {
                    // The response to another exchange, which needs to wait no longer.
                    self.in_flight.abort_request(id);
                }
                self.deliver(inbound);
            }
            ExchangeEvent::Initialized { session, reply } => {
                if let Some(probe) = self.probe.take() {
                    // Its response has no meaning any more, and nothing waits for it.
                    self.abort(&probe);
                    if self.gate == SendGate::Postponed {
                        self.gate = SendGate::Open;
                    }
                }
                self.handle.took(HttpWay::Streamable);
                if let Inbound::Message { message: Message::Response(response), .. } = &reply
                    && let Ok(result) = &response.outcome
                {
                    let id = session.id.as_ref().and_then(|id| id.to_str().ok());
                    self.held.opened(id, result);
                }
                self.session = Some(Arc::new(session));
                self.opened = true;
                self.deliver(reply);
            }
            ExchangeEvent::ProbePostponed => {
                if self.gate == SendGate::Open {
                    self.gate = SendGate::Postponed;
                }
            }
            ExchangeEvent::TryHttpSse(refused) => self.switch_to_http_sse(Some(refused)),
            ExchangeEvent::HttpSseEndpoint(url) => {
                self.handle.took(HttpWay::HttpSse);
                let Mode::HttpSse { endpoint, refused } = &mut self.mode else { return };
                *endpoint = Some(url);
                if let Some(refused) = refused.take() {
                    self.resend(refused.initialize);
                }
                self.gate = SendGate::Open;
            }
            ExchangeEvent::HttpSseFailed(cause) => self.http_sse_failed(cause),
            ExchangeEvent::SessionLost { generation, refused } => self.session_lost(generation, refused),
            ExchangeEvent::HeadersMismatched { call, refusal } => self.list_tools_again(*call, refusal),
            ExchangeEvent::ToolsListed { call, refusal, pages } => self.tools_listed(call, refusal, &pages),
            ExchangeEvent::SessionReopened(session) => {
                self.session = Some(Arc::new(session));
                self.seen_events = SeenEvents::default();
                self.gate = SendGate::Open;
                self.open_stream();
            }
            ExchangeEvent::SessionNotReopened { cause, fatal } => {
                self.gate = SendGate::Open;
                for waiting in std::mem::take(&mut self.waiting) {
                    self.fail(waiting, &cause);
                }
                if fatal {
                    self.end(TransportEnd::failed(cause));
                }
            }
            ExchangeEvent::Closed(end) => self.end(end),
        }
    }

    pub(super) fn switch_to_http_sse(&mut self, refused: Option<Box<RefusedInitialize>>) {
        self.mode = Mode::HttpSse { endpoint: None, refused };
        self.gate = SendGate::Endpoint;
        let stream = http_sse::listen(Arc::clone(&self.requester), self.events.clone());
        self.in_flight.start(Task::Background, stream);
    }

    /// The server has no stream of 2024-11-05 either: the response of Streamable HTTP counts.
    fn http_sse_failed(&mut self, cause: TransportError) {
        let Mode::HttpSse { refused, .. } = &mut self.mode else { return };
        let Some(refused) = refused.take() else { return self.end(TransportEnd::failed(cause)) };
        self.mode = Mode::Streamable;
        self.gate = SendGate::Open;
        match refused.reply {
            Some(reply) => self.deliver(reply),
            None => {
                let cause = http_sse::both_failed(&refused.cause, &cause);
                self.deliver(Inbound::Lost { id: refused.id, cause });
            }
        }
    }
}
