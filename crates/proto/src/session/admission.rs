//! Which requests of the peer a handler begins with now, which wait, and which are refused.
//!
//! A request beyond the bounds of what is handled waits. One that finds no room to wait is refused where reading goes on,
//! and is not read at all where reading is held back: `reading` says where that is. Refused requests get an error that
//! names the bound.

use alloc::format;
use alloc::sync::Arc;

use super::debt::{ENTRY, Notes};
use super::event::{Asker, Event, RequestContext};
use super::queue::request_size;
use super::shared::Shared;
use crate::{ErrorObject, Method, Payload, Raw, Request};

impl Shared {
    /// Takes in a request for a handler, or refuses it.
    pub(super) fn admit(
        &mut self,
        request: Request,
        mut context: RequestContext,
        batch: Option<u64>,
        asker: Option<Arc<Asker>>,
    ) {
        let size = request_size(&request);
        let must_wait = !self.may_dispatch();
        // Where reading is held back, one that has come is kept whatever its size: no other comes behind it.
        let may_wait = match self.holds_back() {
            true => self.debt.waiting_bytes() < self.limits.waiting,
            false => self.debt.waiting_bytes() + size + ENTRY <= self.limits.waiting,
        };
        if must_wait && !may_wait {
            let limit = self.limits.waiting;
            let error = ErrorObject::internal(format!(
                "too many requests: the limit `waiting` of {limit} bytes of requests that wait is reached"
            ))
            .with_data(Raw::trusted(format!("{{\"limit\":\"waiting\",\"value\":{limit}}}").into()));
            self.reply(request.id, batch, Err(error));
            return;
        }
        let uri = match request.method {
            Method::Subscribe | Method::Unsubscribe => request
                .params
                .as_ref()
                .and_then(Payload::uri)
                .and_then(|uri| uri.to_string_value().map(alloc::borrow::Cow::into_owned)),
            _ => None,
        };
        let notes = Notes {
            progress_token: context.progress_token.clone(),
            log_level: context.log_level,
            asker,
            batch,
            uri,
            ..Notes::default()
        };
        if !must_wait && self.debt.is_nobody_waiting() {
            self.debt.begin(&request, size, &mut context, notes);
            self.events.push_back(Event::Request { request, context });
            return;
        }
        self.debt.admit(request, size, context, notes);
        self.dispatch();
    }

    /// Hands waiting requests to the owner, as far as the bounds allow.
    pub(super) fn dispatch(&mut self) {
        if self.debt.is_nobody_waiting() {
            self.reads_on = false;
            return;
        }
        while self.may_dispatch() {
            let Some((request, context)) = self.debt.dispatch() else { break };
            self.events.push_back(Event::Request { request, context });
        }
        if self.debt.waiting_bytes() < self.limits.waiting {
            self.reads_on = false;
        }
    }

    fn may_dispatch(&self) -> bool {
        let handled = self.debt.handled();
        let fits = handled == 0 || self.debt.handled_bytes() < self.limits.handling_bytes;
        handled < self.limits.handling && fits && self.has_reply_room()
    }

    pub(super) fn has_reply_room(&self) -> bool {
        let queued = self.queue.reply_bytes();
        queued == 0 || queued < self.limits.queued_replies / 2
    }
}
