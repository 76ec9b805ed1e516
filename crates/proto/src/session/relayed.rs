//! What is different in a session that stands for another one: one side of a gateway.
//!
//! A gateway has a session on each side, and between them another program, so that neither session is the far end that
//! decides. What a session does by itself for a server or a client, and what here is another's to do, is left undone where
//! [`ServerRole::relays`](super::ServerRole::relays) and [`ClientRole::relays`](super::ClientRole::relays) are looked at;
//! what is done in its place is here. Nothing here knows the other side.

use alloc::vec::Vec;

use super::event::{CallRefused, Event};
use super::link::Route;
use super::shared::Shared;
use super::violation::Violation;
use super::{NotifyRefused, Session};
use crate::{Message, Method, Notification, Payload, ProgressToken, RequestId, Time};

impl Shared {
    /// Progress of a request of ours, as it came: to whoever made the request.
    pub(super) fn relayed_progress(&mut self, now: Time, notification: Notification) {
        let Some(token) = progress_token(&notification) else {
            self.violation(Violation::BadNotification { method: Method::Progress });
            return;
        };
        match token.as_i64().filter(|id| self.calls.lives(now, *id)) {
            Some(id) => {
                let call = Some(RequestId::from(id));
                self.events.push_back(Event::Notification { notification, call });
            }
            None => self.unknown_progress(token),
        }
    }

    /// Sends what another server has told: all of it, and ahead of what is answered from then on. What that one has said
    /// before a result stays before it.
    pub(super) fn relayed_notification(
        &mut self,
        notification: Notification,
        route: Route,
    ) -> Result<(), NotifyRefused> {
        if self.queue.reply_bytes() > self.limits.queued_replies {
            let value = self.limits.queued_replies;
            return Err(CallRefused::Full { limit: "queued_replies", value }.into());
        }
        self.queue.push_reply(Message::Notification(notification), route);
        Ok(())
    }

    /// The streams that the peer listens on and that another side fills: no handler is to wait for more on them. From now
    /// on they are nobody's.
    pub(super) fn relayed_streams(&mut self) -> Vec<RequestId> {
        if !self.relays() || !self.is_server() {
            return Vec::new();
        }
        let listens = |id: &RequestId| self.debt.method_of(id) == Some(&Method::Listen);
        let ids: Vec<RequestId> = self.debt.ids().into_iter().filter(listens).collect();
        for id in &ids {
            self.peer_cancelled(id, None);
        }
        ids
    }
}

impl Session {
    /// The requests of the peer that a handler works on: how many, and the oldest of them. Looks at each of them.
    #[must_use]
    pub fn handled_requests(&self) -> (usize, Option<RequestId>) {
        (self.shared.debt.handled(), self.shared.debt.oldest_handled())
    }
}

/// The name under which progress is reported.
fn progress_token(notification: &Notification) -> Option<ProgressToken> {
    notification.params.as_ref().map(Payload::raw)?.member("progressToken")?.decode().ok()
}
