//! What a server has refused unexecuted, for a reason that the link knows to mend: it is sent again, once.
//!
//! Part of the link. The reasons are a session that the server has forgotten, headers that do not fit the tool, and the
//! transport (`turn_to_http_sse` in the link itself).
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#http-headers>

use std::sync::Arc;

use mcpjoin_proto::session::{Inbound, Outbound, Route};
use mcpjoin_proto::{Message, Raw, Request};

use super::HttpLink;
use super::relist::Relisting;
use super::reopen::Reopening;
use super::running::What;
use super::waiting::{Gate, Waiting};

impl HttpLink {
    /// The server has forgotten the session: it is opened again, and what was refused for that reason is sent again.
    pub(super) fn gone(&mut self, generation: u64, again: Option<Box<Outbound>>) {
        if let Some(again) = again {
            self.send_again(*again);
        }
        let current = self.session.as_ref().is_some_and(|session| session.generation == generation);
        if !current || self.gate == Gate::Reopening || self.closing.is_some() {
            return;
        }
        let (Some(old), Some(initialize)) = (self.session.clone(), self.memory.initialize.clone()) else {
            return;
        };
        tracing::info!(target: "mcpjoin", "the server has forgotten the session: opening it again");
        self.gate = Gate::Reopening;
        let restore = self.memory.requests();
        let reopening = Reopening { wire: Arc::clone(&self.wire), old, initialize, restore };
        let news = self.news.clone();
        self.running.begin(What::Reopening, reopening.run(news));
    }

    /// What was refused unexecuted goes first, and not a third time.
    pub(super) fn send_again(&mut self, outbound: Outbound) {
        let waiting = Waiting { again: true, ..Waiting::new(outbound) };
        self.waiting_bytes = self.waiting_bytes.saturating_add(waiting.size);
        self.waiting.push_front(waiting);
    }

    /// A call was refused for its headers: the tools are listed in its place.
    pub(super) fn relist(&mut self, call: Outbound, refusal: Inbound) {
        let Outbound::Message { message: Message::Request(call), .. } = call else { return };
        let Some(headers) = self.outgoing.of_list() else { return self.hand_in(refusal) };
        let id = call.id.clone();
        let relisting = Relisting { wire: Arc::clone(&self.wire), call, refusal, headers };
        let news = self.news.clone();
        self.running.begin(What::Request { id, counted: true }, relisting.run(news));
    }

    pub(super) fn relisted(&mut self, call: Request, refusal: Inbound, pages: &[Raw]) {
        if self.outgoing.relearn(pages, &call) {
            self.send_again(Outbound::Message { message: Message::Request(call), route: Route::Session });
        } else {
            self.hand_in(refusal);
        }
    }
}
