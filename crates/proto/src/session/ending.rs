//! How a session ends in order: a server takes in nothing more, finishes what it has begun, and is then over.
//!
//! Begun by a client that closes its side, or by the owner ([`Session::drain`]). How long it may take is
//! [`Limits::drain`](super::Limits::drain). Nothing here decides that a session ends because something broke.
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#shutdown>

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::{CallError, CloseCause, Event, Phase, Session};
use crate::{RequestId, Time};

impl Session {
    /// Ends the session from this side when what is in progress is finished: nothing more is read, requests of the
    /// peer may still be answered for [`Limits::drain`](super::Limits::drain), own calls fail. A client, which is
    /// asked for nothing that outlives its own calls, and a session that is not open end at once.
    pub fn drain(&mut self, now: Time) {
        match self.phase {
            Phase::Legacy(_) | Phase::Modern(_) | Phase::Waiting if self.shared.is_server() => {
                self.begin_draining(now, CloseCause::Local);
            }
            _ => self.close(),
        }
    }

    pub(super) fn begin_draining(&mut self, now: Time, cause: CloseCause) {
        if self.draining.is_some() {
            return;
        }
        self.end_streams();
        self.fail_own_calls(&cause);
        self.draining = Some((now + self.shared.limits.drain, Box::new(cause)));
        self.finish_draining(now);
    }

    /// Nobody can answer us any more.
    fn fail_own_calls(&mut self, cause: &CloseCause) {
        let cause = Arc::new(cause.clone());
        for id in self.shared.calls.take_all() {
            let outcome = Err(CallError::Closed(cause.clone()));
            self.shared.events.push_back(Event::Outcome { id: RequestId::from(id), outcome });
        }
    }

    pub(super) fn finish_draining(&mut self, now: Time) {
        let Some((until, cause)) = &self.draining else { return };
        let done = self.shared.debt.len() == 0 && self.shared.queue.is_empty() && self.stall.is_none();
        if done || *until <= now {
            let cause = CloseCause::clone(cause);
            self.shared.refuse_all();
            self.finish(cause);
        }
    }
}
