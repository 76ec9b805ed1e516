//! Two connected links in memory, for two peers in one process. Messages are moved, not serialized.
//!
//! Made by [`Link::memory`]. Nothing can be malformed. The routes of the session are ignored, because there is one stream
//! only.

use std::sync::Arc;
use std::task::{Context, Poll};

use mcpjoin_proto::Message;
use mcpjoin_proto::session::{Inbound, Limits, Origin, Outbound, TransportCaps, TransportEnd};

use super::queue::{Gone, Receiver, Sender, queue};
use super::{Link, Transport};

/// One end of the pair.
struct Memory {
    sender: Sender<Inbound>,
    receiver: Receiver<Inbound>,
    /// The origin that the peer sees. One for all messages.
    origin: Arc<Origin>,
}

impl Link {
    /// Two connected links in memory: what is sent on one is received on the other.
    ///
    /// Messages are moved without being serialized. Each direction holds at most 1,024 of them and 1 MiB of their payloads; a
    /// larger message passes alone. When one end is dropped, the other receives what was sent before, and then that the peer
    /// has closed.
    ///
    /// ```
    /// let (ours, theirs) = mcpjoin::transport::Link::memory();
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
    fn caps(&self) -> TransportCaps {
        TransportCaps::default()
    }

    fn origin(&self) -> Option<Arc<Origin>> {
        Some(Arc::clone(&self.origin))
    }

    fn configure(&mut self, _limits: &Limits) {}

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        self.receiver.poll_next(cx).map(|inbound| {
            inbound.unwrap_or_else(|| Inbound::Closed { cause: TransportEnd::end_of_stream() })
        })
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
            // There are no exchanges to close: here the session cancels with a notification.
            Outbound::Abort { .. } | Outbound::CloseStream { .. } => {}
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportEnd>> {
        self.sender.poll_flush(cx).map_err(|Gone| TransportEnd::end_of_stream())
    }

    fn sent(&self) -> u64 {
        self.sender.taken()
    }

    fn poll_close(&mut self, _cx: &mut Context<'_>) -> Poll<TransportEnd> {
        self.sender.finish();
        Poll::Ready(TransportEnd::end_of_stream())
    }
}

/// An estimate of the memory of a message in bytes.
pub(super) fn weight(message: &Message) -> usize {
    message.payload_len() + size_of::<Message>()
}
