//! The pair in memory: two of our own peers in one process, messages handed over decoded.
//!
//! Made by [`Link::memory`]. Nothing is serialised, so nothing can be malformed; what the session says about
//! routes is dropped, because there is one way only.

use std::sync::Arc;
use std::task::{Context, Poll};

use mcpjoin_proto::Message;
use mcpjoin_proto::session::{Inbound, Limits, LinkCaps, LinkEnd, Origin, Outbound};

use super::queue::{Gone, Receiver, Sender, queue};
use super::{Link, Transport, cannot_reopen};

/// One end of the pair.
struct Memory {
    sender: Sender<Inbound>,
    receiver: Receiver<Inbound>,
    /// What the far end is told of us. One for all messages.
    origin: Arc<Origin>,
}

impl Link {
    /// Two ends of a way in memory: what goes into one comes out of the other.
    ///
    /// Messages are handed over as they are, without being serialised. At most 1,024 of them and 1 MiB of their
    /// payloads wait in each direction; a message larger than that passes alone. When one end is dropped, the other
    /// gets what was sent before, and then that the far end has closed.
    ///
    /// ```
    /// let (ours, theirs) = mcpjoin::link::Link::memory();
    /// # drop((ours, theirs));
    /// ```
    #[must_use]
    pub fn memory() -> (Self, Self) {
        let (to_right, from_left) = queue();
        let (to_left, from_right) = queue();
        let origin = Arc::new(Origin::new("memory"));
        (
            Self::new(Memory { sender: to_right, receiver: from_right, origin: Arc::clone(&origin) }),
            Self::new(Memory { sender: to_left, receiver: from_left, origin }),
        )
    }
}

impl Transport for Memory {
    fn caps(&self) -> LinkCaps {
        LinkCaps::default()
    }

    fn configure(&mut self, _limits: &Limits) {}

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        self.receiver
            .poll_next(cx)
            .map(|inbound| inbound.unwrap_or_else(|| Inbound::Closed { cause: LinkEnd::end_of_stream() }))
    }

    fn has_room(&self) -> bool {
        self.sender.has_room()
    }

    fn push(&mut self, outbound: Outbound) {
        let origin = Arc::clone(&self.origin);
        match outbound {
            Outbound::Message { message, .. } => {
                let size = weight(&message);
                self.sender.push(Inbound::Message { message, origin }, size);
            }
            Outbound::Batch { messages, .. } => {
                let size = messages.iter().map(weight).sum();
                let parts = messages.into_iter().map(Ok).collect();
                self.sender.push(Inbound::Batch { parts, exchange: None, origin }, size);
            }
            // There are no exchanges to close: the session cancels with a notification here.
            Outbound::Abort { .. } | Outbound::CloseStream { .. } => {}
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        self.sender.poll_flush(cx).map_err(|Gone| LinkEnd::end_of_stream())
    }

    fn sent(&self) -> u64 {
        self.sender.taken()
    }

    fn poll_close(&mut self, _cx: &mut Context<'_>) -> Poll<LinkEnd> {
        self.sender.finish();
        Poll::Ready(LinkEnd::end_of_stream())
    }

    fn poll_reopen(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), LinkEnd>> {
        Poll::Ready(Err(cannot_reopen()))
    }
}

/// Roughly what a message holds in memory, in bytes: what it carries, and itself.
pub(super) fn weight(message: &Message) -> usize {
    message.payload_len() + size_of::<Message>()
}
