//! The tools, listed once more: a server has refused a call because its headers do not fit the tool.
//!
//! Run by the link in place of the refused call, which was not executed. What is learnt is which arguments are to be
//! repeated in headers; nobody else sees the list.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#http-headers>

use std::fmt::Write as _;
use std::sync::Arc;

use http::Method as HttpMethod;
use http::header::HeaderMap;
use mcpjoin_proto::session::{Inbound, Outbound, Route};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Message, Method, Payload, Raw, Request, RequestId};
use tokio::sync::mpsc::Sender;

use super::exchange::{News, body};
use super::outgoing::is_marked;
use super::reading::reply;
use super::wire::{Sending, Wire};

/// How many pages are read.
const PAGES: usize = 100;

/// A call that was refused.
pub(super) struct Relisting {
    pub(super) wire: Arc<Wire>,
    /// The call.
    pub(super) call: Request,
    /// What the server has said to it.
    pub(super) refusal: Inbound,
    /// The headers of a request for a list.
    pub(super) headers: HeaderMap,
}

impl Relisting {
    pub(super) async fn run(self, news: Sender<News>) {
        let (mut pages, mut bytes) = (Vec::new(), 0);
        let mut cursor = None;
        for _ in 0..PAGES {
            let Some(page) = self.page(cursor.as_ref()).await else { break };
            cursor = page.member("nextCursor").filter(|cursor| cursor.to_string_value().is_some());
            if is_marked(&page) {
                bytes += page.len();
                pages.push(page);
            }
            // One message may be as large, so what is kept of several is no larger than twice that.
            if cursor.is_none() || bytes >= self.wire.limits.message {
                break;
            }
        }
        let Self { call, refusal, .. } = self;
        let _ = news.send(News::Relisted { call, refusal, pages }).await;
    }

    async fn page(&self, cursor: Option<&Raw>) -> Option<Raw> {
        let id = RequestId::from("mcpjoin-relist");
        let params = Some(Payload::from_raw(self.params(cursor)?));
        let message = Message::Request(Request { id: id.clone(), method: Method::ListTools, params });
        let sending = Sending {
            method: HttpMethod::POST,
            url: self.wire.url.clone(),
            headers: self.headers.clone(),
            body: Some(body(&Outbound::Message { message, route: Route::Session })),
            about: "tools/list".into(),
        };
        let response = self.wire.send(&sending).await.ok()?;
        match reply(&self.wire, response, &id).await? {
            Inbound::Message { message: Message::Response(reply), .. } => {
                Some(reply.outcome.ok()?.into_raw())
            }
            _ => None,
        }
    }

    /// The call's own `_meta`, without what belongs to the call alone.
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
