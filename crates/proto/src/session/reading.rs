//! When a session reads, and when it leaves what comes with the peer.
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

use core::time::Duration;

use super::limits::Limits;
use super::shared::Shared;
use super::{Phase, Session};
use crate::Time;

/// How long the peer may take nothing of what waits for it while reading is held back: long for a peer that is busy, and
/// short beside [`Limits::write_stall`] (30 s), at which it would be given up.
const PATIENCE: Duration = Duration::from_secs(1);

impl Shared {
    /// Whether reading is held back, and nothing is refused, when no more requests may wait.
    pub(super) fn holds_back(&self) -> bool {
        !self.caps.exchanges && self.calls.len() == 0 && !self.reads_on
    }

    fn is_held_back(&self) -> bool {
        self.holds_back() && self.debt.waiting_bytes() >= self.limits.waiting
    }

    /// The bytes of the replies that stop reading.
    const fn unread_replies(&self) -> usize {
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
        self.shared.unread_replies() <= self.shared.limits.queued_replies
            && !matches!(self.phase, Phase::Over | Phase::Idle)
            && self.draining.is_none()
            && !self.shared.is_held_back()
    }

    /// Until when reading is held back at most.
    pub(super) fn held_until(&self) -> Option<Time> {
        let limits: &Limits = &self.shared.limits;
        let patience = PATIENCE.min(limits.write_stall / 2);
        let untaken = self.stall.map(|(since, _)| since + patience);
        let unread = self.last_read + limits.request;
        self.shared.is_held_back().then(|| untaken.map_or(unread, |untaken| untaken.min(unread)))
    }

    /// Reads on when reading was held back for long enough.
    pub(super) fn read_on(&mut self, now: Time) {
        if self.held_until().is_some_and(|until| until <= now) {
            self.shared.reads_on = true;
        }
    }
}
