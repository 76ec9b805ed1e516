//! A link whose peer is code of the program, for custom transports that are easier to write as tasks.
//!
//! Made by [`Link::channel`]. A program that receives messages from elsewhere (a message queue, the port of a browser, a test)
//! pumps the [`ChannelDriver`]; the connection drives the [`Link`] like any other.

use std::future::poll_fn;
use std::task::{Context, Poll};

use mcpjoin_proto::session::{Inbound, Limits, Outbound, TransportCaps, TransportEnd};

use super::memory::weight;
use super::queue::{Gone, Receiver, Sender, queue};
use super::{Link, Transport};

/// The connection has dropped its link: no message can be delivered to it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the link is closed")]
pub struct Closed;

/// The other side of a link made by [`Link::channel`]: a custom transport receives from it what to send, and delivers what it has
/// received.
///
/// Each direction holds at most 1,024 messages and 1 MiB. Dropping the driver closes the link after the messages that were
/// delivered before. To report more (an exit status, a failure), deliver [`Inbound::Closed`] and then drop it.
///
/// ```
/// use std::sync::Arc;
///
/// use mcpjoin::transport::{Link, ChannelDriver};
/// use mcpjoin::proto::session::{Inbound, TransportCaps, Origin, Outbound};
/// use tokio::sync::mpsc::{Receiver, Sender};
///
/// // Pumps a link over two channels that carry messages: here they could be anything that does.
/// async fn pump(
///     mut driver: ChannelDriver,
///     out: Sender<Outbound>,
///     mut incoming: Receiver<mcpjoin::proto::Message>,
/// ) {
///     let origin = Arc::new(Origin::new("channel"));
///     loop {
///         tokio::select! {
///             outbound = driver.recv() => {
///                 let Some(outbound) = outbound else { return };
///                 if out.send(outbound).await.is_err() {
///                     return;
///                 }
///             }
///             message = incoming.recv() => {
///                 let Some(message) = message else { return };
///                 if driver.send(Inbound::Message { message, origin: origin.clone() }).await.is_err() {
///                     return;
///                 }
///             }
///         }
///     }
/// }
///
/// let (link, driver) = Link::channel(TransportCaps::default());
/// # let (out, _) = tokio::sync::mpsc::channel(1);
/// # let (_, incoming) = tokio::sync::mpsc::channel(1);
/// # drop((link, pump(driver, out, incoming)));
/// ```
#[derive(Debug)]
pub struct ChannelDriver {
    to_send: ChannelReceiver,
    came: ChannelSender,
}

/// Receives what a custom transport has to send: one half of a [`ChannelDriver`].
pub struct ChannelReceiver(Receiver<Outbound>);

/// Delivers what a custom transport has received: one half of a [`ChannelDriver`].
pub struct ChannelSender(Sender<Inbound>);

/// The connection's side.
struct Pair {
    caps: TransportCaps,
    sender: Sender<Outbound>,
    receiver: Receiver<Inbound>,
}

impl Link {
    /// A link whose peer is code, and the driver for that code: [`ChannelDriver`] has an example. `caps` says what the transport
    /// can do; the connection never needs more from it.
    ///
    /// Such a link cannot be reopened, whatever `caps` says.
    #[must_use]
    pub fn channel(caps: TransportCaps) -> (Self, ChannelDriver) {
        let (sender, to_send) = queue();
        let (came, receiver) = queue();
        let caps = TransportCaps { reopens: false, ..caps };
        (
            Self::new(Pair { caps, sender, receiver }),
            ChannelDriver { to_send: ChannelReceiver(to_send), came: ChannelSender(came) },
        )
    }
}

impl ChannelDriver {
    /// Receives the next message to send; `None` when the connection has closed its side, after everything that it sent.
    ///
    /// Cancel-safe: a future that is dropped before it is ready has taken nothing.
    pub async fn recv(&mut self) -> Option<Outbound> {
        self.to_send.recv().await
    }

    /// Delivers a received message, and waits while there is no room.
    ///
    /// A future that is dropped before it is ready has delivered nothing, and `inbound` is dropped with it.
    ///
    /// # Errors
    /// [`Closed`] when the connection has dropped its link.
    pub async fn send(&mut self, inbound: Inbound) -> Result<(), Closed> {
        self.came.send(inbound).await
    }

    /// The two halves, for a transport that sends in one task and receives in another.
    #[must_use]
    pub fn split(self) -> (ChannelReceiver, ChannelSender) {
        (self.to_send, self.came)
    }
}

impl ChannelReceiver {
    /// As [`ChannelDriver::recv`].
    pub async fn recv(&mut self) -> Option<Outbound> {
        poll_fn(|cx| self.0.poll_next(cx)).await
    }
}

impl ChannelSender {
    /// As [`ChannelDriver::send`].
    ///
    /// # Errors
    /// [`Closed`] when the connection has dropped its link.
    pub async fn send(&mut self, inbound: Inbound) -> Result<(), Closed> {
        // Every value was flushed when it was pushed, so only a full queue can be pending.
        poll_fn(|cx| self.0.poll_room(cx)).await.map_err(|Gone| Closed)?;
        let size = match &inbound {
            Inbound::Message { message, .. } => weight(message),
            Inbound::Batch { parts, .. } => {
                parts.iter().map(|part| part.as_ref().map_or(size_of::<Inbound>(), weight)).sum()
            }
            _ => size_of::<Inbound>(),
        };
        self.0.push(inbound, size);
        self.0.flush_now().map_err(|Gone| Closed)
    }
}

impl std::fmt::Debug for ChannelReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChannelReceiver").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ChannelSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChannelSender").finish_non_exhaustive()
    }
}

impl Transport for Pair {
    fn caps(&self) -> TransportCaps {
        self.caps
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
        let size = match &outbound {
            Outbound::Message { message, .. } => weight(message),
            Outbound::Batch { messages, .. } => messages.iter().map(weight).sum(),
            Outbound::Abort { .. } | Outbound::CloseStream { .. } => size_of::<Outbound>(),
        };
        self.sender.push(outbound, size);
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
