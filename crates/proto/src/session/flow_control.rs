//! Flow control: which requests of the peer are dispatched to a handler, which wait, which are rejected, and when the
//! session stops reading.
//!
//! A request above the limits of running handlers waits. When the queue of waiting requests is full, the request is
//! rejected with an error that names the limit, or reading pauses before it is read.
//!
//! On a link with one exchange per request (HTTP, QUIC), reading stops while the queued replies exceed
//! [`Limits::queued_replies`], and requests above the waiting limit are rejected.
//!
//! On a byte stream and in memory, reading stops in two cases:
//!
//! 1. The replies that were made without a handler (to `ping`, rejections, decode errors) exceed
//!    [`Limits::queued_replies`]. Only reading makes more of them. Replies of handlers do not count: dispatch limits
//!    their number, and reading adds none.
//! 2. The waiting requests have reached [`Limits::waiting`], and no request of ours is pending at the peer. Reading
//!    pauses, and nothing is rejected. Everything behind those requests is read late: cancellations, notifications and
//!    the end of the stream too. Reading resumes when a waiting request is dispatched or when we send a request. It
//!    also resumes, and requests are then rejected,
//!    - when the peer has read nothing for [`READ_PAUSE_TIMEOUT`]: it may write everything before it reads;
//!    - when nothing was read for [`Limits::request`], because no handler finishes.
//!
//! Why two peers with these rules never deadlock:
//!
//! - A side that waits for a response is never in case 2, so it reads responses unless it is in case 1. Between two
//!   peers of this crate case 1 cannot occur: each has at most [`Limits::in_flight`] pending requests at the other, and
//!   the rejections of 10,000 requests with our ids are less than 8 MiB.
//! - A side in case 2 needs its handlers to finish. They wait for no response, because none is pending. While the reply
//!   queue has capacity, handlers are dispatched and finish by themselves.
//! - When it has none, the peer has to read. It does, unless it is in case 2 as well and its reply queue is full too.
//!   Then no side waits for a response: every caller has given up, and the cancellations are among the unread bytes.
//!   Both sides see that the peer reads nothing, and resume after [`READ_PAUSE_TIMEOUT`].
//!
//! A peer that reads nothing is disconnected after [`Limits::write_stall`].

use alloc::format;
use alloc::sync::Arc;
use core::time::Duration;

use super::event::{ClientInfo, Event, RequestContext};
use super::limits::Limits;
use super::pending_requests::{RequestDetails, WAITING_OVERHEAD_BYTES};
use super::queue::request_size;
use super::shared::Shared;
use super::{Phase, Session};
use crate::{ErrorObject, Method, Payload, Raw, Request, Time};

/// How long reading stays paused while the peer reads nothing: long for a busy peer, and short beside
/// [`Limits::write_stall`] (30 s).
const READ_PAUSE_TIMEOUT: Duration = Duration::from_secs(1);

impl Shared {
    /// Dispatches a request, queues it, or rejects it.
    pub(super) fn admit(
        &mut self,
        request: Request,
        mut context: RequestContext,
        batch: Option<u64>,
        client: Option<Arc<ClientInfo>>,
    ) {
        let size = request_size(&request);
        let must_wait = !self.may_dispatch();
        // A request that was read before the pause is accepted whatever its size: no other follows it.
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
            client,
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

    /// Dispatches waiting requests within the limits.
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

    /// Whether reading pauses, instead of requests being rejected, when the waiting queue is full.
    pub(super) fn pauses_reading(&self) -> bool {
        !self.caps.exchanges && self.calls.len() == 0 && !self.forces_reading
    }

    fn is_reading_paused(&self) -> bool {
        self.pauses_reading() && self.requests.waiting_bytes() >= self.limits.waiting
    }

    /// The reply bytes that count for stopping reads.
    const fn blocking_reply_bytes(&self) -> usize {
        match self.caps.exchanges {
            true => self.queue.reply_bytes(),
            false => self.queue.immediate_bytes(),
        }
    }
}

impl Session {
    /// Whether the session reads. It may reject what the owner hands in while this is false.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.shared.blocking_reply_bytes() <= self.shared.limits.queued_replies
            && !matches!(self.phase, Phase::Over | Phase::Idle)
            && self.draining.is_none()
            && !self.shared.is_reading_paused()
    }

    /// When the current pause ends at the latest.
    pub(super) fn read_pause_end(&self) -> Option<Time> {
        let limits: &Limits = &self.shared.limits;
        let timeout = READ_PAUSE_TIMEOUT.min(limits.write_stall / 2);
        let unread_until = self.stall.map(|(since, _)| since + timeout);
        let idle_until = self.last_read + limits.request;
        self.shared
            .is_reading_paused()
            .then(|| unread_until.map_or(idle_until, |unread_until| unread_until.min(idle_until)))
    }

    /// Ends a pause that has reached its timeout.
    pub(super) fn end_read_pause(&mut self, now: Time) {
        if self.read_pause_end().is_some_and(|until| until <= now) {
            self.shared.forces_reading = true;
        }
    }
}
