//! One HTTP exchange that a connection owes something: from its request on until its response is sent, or left.

use std::future::{Future as _, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::entry::Entry;
use super::sessions::Session;
use super::slot::Holder;
use super::wire::Head;
use super::{Shared, stateless};

/// An exchange under way. Dropping it is leaving it.
pub(super) struct Exchange {
    holder: Holder,
    owner: Owner,
}

/// Whose connection it is spoken over.
pub(super) enum Owner {
    /// One of the pool, for this exchange alone.
    Modern { entry: Arc<Entry>, shared: Arc<Shared> },
    /// One of the pool for legacy requests without a session.
    Stateless { entry: Arc<Entry>, of: stateless::Kind, shared: Arc<Shared> },
    /// One that is over when this is: of a session that is not open yet, or in which something was set.
    Once(Arc<Entry>),
    /// An open session, which is used as long as this lasts.
    Session(Arc<Session>),
    /// A session of 2024-11-05, which is over when this is.
    Sse { session: Arc<Session>, shared: Arc<Shared> },
}

impl Owner {
    pub(super) fn entry(&self) -> &Arc<Entry> {
        match self {
            Self::Modern { entry, .. } | Self::Stateless { entry, .. } | Self::Once(entry) => entry,
            Self::Session(session) | Self::Sse { session, .. } => &session.entry,
        }
    }
}

impl Exchange {
    pub(super) fn new(holder: Holder, owner: Owner) -> Self {
        if let Owner::Session(session) | Owner::Sse { session, .. } = &owner {
            session.enter();
        }
        Self { holder, owner }
    }

    /// How the response begins. After `patience` without anything to send it is a stream; `None`: it waits.
    pub(super) async fn head(&self, patience: Option<Duration>) -> Head {
        let wire = &self.owner.entry().wire;
        let mut timer = None;
        poll_fn(|cx| {
            let head = wire.poll_head(self.holder, cx);
            let (Poll::Pending, Some(patience)) = (&head, patience) else { return head };
            let timer = timer.get_or_insert_with(|| Box::pin(sleep(patience)));
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            wire.open_stream(self.holder);
            wire.poll_head(self.holder, cx)
        })
        .await
    }

    pub(super) fn poll_bytes(&self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.owner.entry().wire.poll_bytes(self.holder, cx)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let wire = &self.owner.entry().wire;
        match &self.owner {
            Owner::Modern { entry, shared } => {
                // To leave is to cancel: what was left in the middle is thrown away, with all its work.
                if wire.is_complete(self.holder) && entry.served().is_quiet() {
                    shared.give_back(entry);
                } else {
                    entry.stop();
                }
            }
            Owner::Stateless { entry, of, shared } => {
                if wire.is_complete(self.holder) && entry.served().is_quiet() {
                    wire.leave(self.holder);
                    stateless::give_back(shared, entry, of);
                } else {
                    entry.stop();
                }
            }
            Owner::Once(_) => wire.leave(self.holder),
            Owner::Session(session) => {
                wire.leave(self.holder);
                session.leave();
            }
            Owner::Sse { session, shared } => {
                session.leave();
                shared.sessions.end(&session.id);
            }
        }
    }
}
