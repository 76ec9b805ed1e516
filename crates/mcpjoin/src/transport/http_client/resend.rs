//! Messages that the server has refused unprocessed, for a reason that this transport can repair: they are sent again, once.
//!
//! The reasons are a session that the server has lost, headers that do not fit the tool, and the wrong transport
//! (`switch_to_http_sse`). After headers that do not fit, the tools are listed before the call is sent again; the list tells
//! the transport which arguments a tool wants in headers, and goes nowhere else.
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#http-headers>

use std::fmt::Write as _;
use std::sync::Arc;

use http::Method as HttpMethod;
use http::header::HeaderMap;
use mcpjoin_proto::session::{Inbound, Outbound, Route};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Message, Method, Payload, Raw, Request, RequestId};
use tokio::sync::mpsc::Sender;

use super::HttpLink;
use super::body::read_reply;
use super::exchange::body;
use super::exchange_event::ExchangeEvent;
use super::in_flight::Task;
use super::message_headers::is_marked;
use super::queue::{QueuedMessage, SendGate};
use super::requester::{HttpRequest, Requester};
use super::session::Reopening;

/// Pages of tools that are read.
const MAX_PAGES: usize = 100;

impl HttpLink {
    /// Opens the session again, which the server has lost, and sends the message again that was refused for that reason.
    pub(super) fn session_lost(&mut self, generation: u64, refused: Option<Box<(Outbound, String)>>) {
        // The event may have waited, and the request may have been cancelled meanwhile.
        let refused = refused.filter(|refused| match &refused.0 {
            Outbound::Message { message: Message::Request(request), .. } => {
                self.repeatable.remove(&request.id)
            }
            _ => false,
        });
        if self.held.is_shared() {
            return self.shared_session_lost(refused.map(|refused| *refused));
        }
        if let Some(refused) = refused {
            self.resend(refused.0);
        }
        let is_current = self.session.as_ref().is_some_and(|session| session.generation == generation);
        if !is_current || self.gate == SendGate::Reopening || self.closing.is_some() {
            return;
        }
        let (Some(old), Some(initialize)) = (self.session.clone(), self.settings.initialize.clone()) else {
            return;
        };
        tracing::info!(target: "mcpjoin", "the server no longer knows the session: opening it again");
        self.gate = SendGate::Reopening;
        let restore = self.settings.requests();
        let reopening = Reopening { requester: Arc::clone(&self.requester), old, initialize, restore };
        let events = self.events.clone();
        self.in_flight.start(Task::ReopenSession, reopening.run(events));
    }

    /// Puts a refused message at the front of the queue. It is not sent a third time.
    pub(super) fn resend(&mut self, outbound: Outbound) {
        let waiting = QueuedMessage { is_resent: true, ..QueuedMessage::new(outbound) };
        self.waiting_bytes = self.waiting_bytes.saturating_add(waiting.size);
        self.waiting.push_front(waiting);
    }

    /// Lists the tools, because a call was refused for its headers.
    pub(super) fn list_tools_again(&mut self, call: Outbound, refusal: Inbound) {
        let Outbound::Message { message: Message::Request(call), .. } = call else { return };
        if !self.repeatable.contains(&call.id) {
            return;
        }
        let Some(headers) = self.headers.of_list() else { return self.deliver(refusal) };
        let id = call.id.clone();
        let listing = ToolsListing { requester: Arc::clone(&self.requester), call, refusal, headers };
        let events = self.events.clone();
        self.in_flight.start(Task::Request { id, counted: true, opens: None }, listing.run(events));
    }

    /// Sends the call again if the list has changed its headers; else the refusal is its response.
    pub(super) fn tools_listed(&mut self, call: Request, refusal: Inbound, pages: &[Raw]) {
        let changed = self.headers.relearn(pages, &call);
        if !self.repeatable.remove(&call.id) {
            return;
        }
        if changed {
            self.resend(Outbound::Message { message: Message::Request(call), route: Route::Session });
        } else {
            self.deliver(refusal);
        }
    }
}

/// A list of tools, read in place of a call that was refused.
struct ToolsListing {
    requester: Arc<Requester>,
    call: Request,
    /// The response to the call.
    refusal: Inbound,
    /// The headers of a request for a list.
    headers: HeaderMap,
}

impl ToolsListing {
    async fn run(self, events: Sender<ExchangeEvent>) {
        let (mut pages, mut bytes) = (Vec::new(), 0);
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let Some(page) = self.page(cursor.as_ref()).await else { break };
            cursor = page.member("nextCursor").filter(|cursor| cursor.to_string_value().is_some());
            if is_marked(&page) {
                bytes += page.len();
                pages.push(page);
            }
            // One page may be as large as this limit, so the pages take at most twice the limit.
            if cursor.is_none() || bytes >= self.requester.limits.message {
                break;
            }
        }
        let Self { call, refusal, .. } = self;
        let _ = events.send(ExchangeEvent::ToolsListed { call, refusal, pages }).await;
    }

    async fn page(&self, cursor: Option<&Raw>) -> Option<Raw> {
        let id = RequestId::from("mcpjoin-relist");
        let params = Some(Payload::from_raw(self.params(cursor)?));
        let message = Message::Request(Request { id: id.clone(), method: Method::ListTools, params });
        let http_request = HttpRequest {
            headers: self.headers.clone(),
            body: Some(body(&Outbound::Message { message, route: Route::Session })),
            ..self.requester.request(HttpMethod::POST, "tools/list")
        };
        let response = self.requester.send(&http_request).await.ok()?;
        match read_reply(&self.requester, response, &id).await? {
            Inbound::Message { message: Message::Response(reply), .. } => {
                Some(reply.outcome.ok()?.into_raw())
            }
            _ => None,
        }
    }

    /// The `_meta` of the call, without what belongs to the call alone.
    fn params(&self, cursor: Option<&Raw>) -> Option<Raw> {
        let meta = self.call.params.as_ref()?.meta()?;
        let mut params = String::from("{");
        if let Some(cursor) = cursor {
            let _ = write!(params, "\"cursor\":{},", cursor.as_str());
        }
        params.push_str("\"_meta\":{");
        let mut separator = "";
        for key in [key::PROTOCOL_VERSION, key::CLIENT_INFO, key::CLIENT_CAPABILITIES] {
            if let Some(value) = meta.member(key) {
                let _ = write!(params, "{separator}\"{key}\":{}", value.as_str());
                separator = ",";
            }
        }
        params.push_str("}}");
        Raw::parse(params).ok()
    }
}
