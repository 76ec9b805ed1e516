//! Which requests of the peer a handler begins with now, which wait, and which are refused.
//!
//! A request beyond the bounds of what is handled waits. One that finds no room to wait is refused where reading goes on,
//! and is not read at all where reading is held back: `reading` says where that is. Refused requests get an error that
//! names the bound.
//!
//! Where each request has an exchange of its own (HTTP, QUIC), reading stops when the replies that wait for the link
//! pass [`Limits::queued_replies`]; a request that finds no room to wait is refused.
//!
//! On a stream of bytes, and in memory, it stops in two cases:
//!
//! 1. The replies that no handler has made (to `ping`, refusals, errors about what is no message) pass
//!    [`Limits::queued_replies`]. Only what is read makes more of them. Replies of handlers do not count: how many there
//!    are is bounded when requests are dispatched, and reading on makes no more of them.
//! 2. Requests that wait have reached [`Limits::waiting`], and no request of ours is pending at the peer. Then reading is
//!    held back, and nothing is refused. What stands behind those requests is read later: cancellations, notifications
//!    and the end of the stream too. Reading goes on when a request that waits is begun or when we ask something. It
//!    goes on in any case, and requests are refused from then on,
//!    - when the peer has taken nothing of what we send for [`PATIENCE`]: it may be one that writes everything before
//!      it reads;
//!    - when nothing was read for [`Limits::request`], because handlers do not end.
//!
//! Why two peers that both do so never block each other:
//!
//! - A side that waits for a response is never in the second case, so its peer's responses are read unless it is in the
//!   first one. Between two peers of this crate that cannot be: each has at most [`Limits::in_flight`] requests open at
//!   the other, and the refusals of 10,000 requests with ids of ours are less than 8 MiB.
//! - A side in the second case needs its handlers to end. They wait for no response, because none is pending. If there is
//!   room for replies, they are begun and end by themselves, whatever the peer does.
//! - If there is none, the peer has to read. It does, unless it is in the second case as well and has no room for replies
//!   either. Then no side waits for a response: everything that waits was given up by its caller, and the notifications
//!   that say so are among what is not read. Both sides see that nothing of theirs is taken, and read on after
//!   [`PATIENCE`].
//!
//! A peer that takes nothing at all is given up after [`Limits::write_stall`].

use alloc::format;
use alloc::sync::Arc;
use core::time::Duration;

use super::event::{Asker, Event, RequestContext};
use super::limits::Limits;
use super::pending_requests::{RequestDetails, WAITING_OVERHEAD_BYTES};
use super::queue::request_size;
use super::shared::Shared;
use super::{Phase, Session};
use crate::{ErrorObject, Method, Payload, Raw, Request, Time};

/// How long the peer may take nothing of what waits for it while reading is held back: long for a peer that is busy, and
/// short beside [`Limits::write_stall`] (30 s), at which it would be given up.
const READ_PAUSE_TIMEOUT: Duration = Duration::from_secs(1);

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
        let may_wait = match self.pauses_reading() {
            true => self.requests.waiting_bytes() < self.limits.waiting,
            false => self.requests.waiting_bytes() + size + WAITING_OVERHEAD_BYTES <= self.limits.waiting,
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
        let details = RequestDetails {
            progress_token: context.progress_token.clone(),
            log_level: context.log_level,
            asker,
            batch,
            uri,
            ..RequestDetails::default()
        };
        if !must_wait && self.requests.has_none_waiting() {
            self.requests.begin(&request, size, &mut context, details);
            self.events.push_back(Event::Request { request, context });
            return;
        }
        self.requests.admit(request, size, context, details);
        self.dispatch();
    }

    /// Hands waiting requests to the owner, as far as the bounds allow.
    pub(super) fn dispatch(&mut self) {
        if self.requests.has_none_waiting() {
            self.forces_reading = false;
            return;
        }
        while self.may_dispatch() {
            let Some((request, context)) = self.requests.dispatch() else { break };
            self.events.push_back(Event::Request { request, context });
        }
        if self.requests.waiting_bytes() < self.limits.waiting {
            self.forces_reading = false;
        }
    }

    fn may_dispatch(&self) -> bool {
        let handled = self.requests.handled();
        let fits = handled == 0 || self.requests.handled_bytes() < self.limits.handling_bytes;
        handled < self.limits.handling && fits && self.has_reply_capacity()
    }

    pub(super) fn has_reply_capacity(&self) -> bool {
        let queued = self.queue.reply_bytes();
        queued == 0 || queued < self.limits.queued_replies / 2
    }

    /// Whether reading is held back, and nothing is refused, when no more requests may wait.
    pub(super) fn pauses_reading(&self) -> bool {
        !self.caps.exchanges && self.calls.len() == 0 && !self.forces_reading
    }

    fn is_reading_paused(&self) -> bool {
        self.pauses_reading() && self.requests.waiting_bytes() >= self.limits.waiting
    }

    /// The bytes of the replies that stop reading.
    const fn blocking_reply_bytes(&self) -> usize {
        match self.caps.exchanges {
            true => self.queue.reply_bytes(),
            false => self.queue.immediate_bytes(),
        }
    }
}

impl Session {
    /// Whether the session wants to read. An owner that reads all the same may be refused what it hands in.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.shared.blocking_reply_bytes() <= self.shared.limits.queued_replies
            && !matches!(self.phase, Phase::Over | Phase::Idle)
            && self.draining.is_none()
            && !self.shared.is_reading_paused()
    }

    /// Until when reading is held back at most.
    pub(super) fn read_pause_end(&self) -> Option<Time> {
        let limits: &Limits = &self.shared.limits;
        let timeout = READ_PAUSE_TIMEOUT.min(limits.write_stall / 2);
        let untaken = self.stall.map(|(since, _)| since + timeout);
        let unread = self.last_read + limits.request;
        self.shared.is_reading_paused().then(|| untaken.map_or(unread, |untaken| untaken.min(unread)))
    }

    /// Reads on when reading was held back for long enough.
    pub(super) fn end_read_pause(&mut self, now: Time) {
        if self.read_pause_end().is_some_and(|until| until <= now) {
            self.shared.forces_reading = true;
        }
    }
}
