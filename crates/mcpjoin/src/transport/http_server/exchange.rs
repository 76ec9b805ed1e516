//! One HTTP exchange with a pending response: from its request until the response is sent or the client disconnects.

use std::future::{Future as _, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::entry::Entry;
use super::exchange_state::Reader;
use super::sessions::Session;
use super::wire::{GET_STREAM, Head};
use super::{Shared, stateless};

/// An exchange in progress. Dropping it means that the client has disconnected.
pub(super) struct Exchange {
    reader: Reader,
    owner: Owner,
}

/// The connection of an exchange.
pub(super) enum Owner {
    /// A pooled connection, for this exchange alone.
    Modern { entry: Arc<Entry>, shared: Arc<Shared> },
    /// A pooled connection for legacy requests without a session.
    Stateless { entry: Arc<Entry>, of: stateless::Kind, shared: Arc<Shared> },
    /// A connection that is closed with this exchange: its session is not open yet, or the request has changed its state.
    Once(Arc<Entry>),
    /// An open session, which counts as used while the exchange lasts.
    Session(Arc<Session>),
    /// A session of 2024-11-05, which ends with this exchange.
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
    pub(super) fn new(reader: Reader, owner: Owner) -> Self {
        if let Owner::Session(session) | Owner::Sse { session, .. } = &owner {
            session.enter();
        }
        Self { reader, owner }
    }

    /// Returns how the response begins. After `timeout` without anything to send it is a stream; with `None` it waits.
    ///
    /// It uses the timer of an earlier exchange of the connection, if there is one, and leaves its own to the next: tokio
    /// interrupts its wait for I/O with a system call when a timer is earlier than all others, which each new one would be.
    pub(super) async fn head(&self, timeout: Option<Duration>) -> Head {
        let wire = &self.owner.entry().wire;
        let mut timer = None;
        let head = poll_fn(|cx| {
            let head = wire.poll_head(self.reader, cx);
            let (Poll::Pending, Some(timeout)) = (&head, timeout) else { return head };
            let (timer, due) = timer.get_or_insert_with(|| wire.take_timer(timeout));
            while timer.as_mut().poll(cx).is_ready() {
                if Instant::now() >= *due {
                    wire.open_stream(self.reader);
                    return wire.poll_head(self.reader, cx);
                }
                // It was the time of the earlier exchange.
                timer.as_mut().reset(*due);
            }
            Poll::Pending
        })
        .await;
        if let Some((timer, _)) = timer {
            wire.keep_timer(timer);
        }
        head
    }

    pub(super) fn poll_bytes(&self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.owner.entry().wire.poll_bytes(self.reader, cx)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let wire = &self.owner.entry().wire;
        match &self.owner {
            Owner::Modern { entry, shared } => {
                // A disconnect cancels: a connection with work in progress is closed, with all its work.
                if wire.is_complete(self.reader) && entry.served().is_quiet() {
                    shared.give_back(entry);
                } else {
                    entry.stop();
                }
            }
            Owner::Stateless { entry, of, shared } => {
                if wire.is_complete(self.reader) && entry.served().is_quiet() {
                    wire.release(self.reader);
                    stateless::give_back(shared, entry, of);
                } else {
                    entry.stop();
                }
            }
            Owner::Once(_) => wire.release(self.reader),
            Owner::Session(session) => {
                wire.release(self.reader);
                if self.reader.stream == GET_STREAM {
                    session.listener_changed();
                }
                session.leave();
            }
            Owner::Sse { session, shared } => {
                session.leave();
                shared.sessions.end(&session.id);
            }
        }
    }
}
