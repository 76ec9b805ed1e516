//! The primitive for custom transports: a link whose far end is code.
//!
//! Made by [`Link::pair`]. Whoever has messages from somewhere (a message queue, a browser's port, a test) pumps
//! the [`LinkDriver`]; the connection drives the [`Link`] as any other.

use std::future::poll_fn;
use std::task::{Context, Poll};

use mcpjoin_proto::session::{Inbound, Limits, LinkCaps, LinkEnd, Outbound};

use super::memory::weight;
use super::queue::{Gone, Receiver, Sender, queue};
use super::{Link, Transport, cannot_reopen};

/// The connection has dropped its end of the link: nothing more can be handed to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the link is closed")]
pub struct Closed;

/// The far side of a link made by [`Link::pair`]: a custom transport takes from it what is to be sent and hands
/// it what has come.
///
/// At most 1,024 messages and 1 MiB wait in each direction. Dropping the driver tells the connection that the
/// peer has closed, after what was handed in before; to say more (an exit status, a failure), hand in
/// [`Inbound::Closed`] and then drop it.
///
/// ```
/// use std::sync::Arc;
///
/// use mcpjoin::link::{Link, LinkDriver};
/// use mcpjoin::proto::session::{Inbound, LinkCaps, Origin, Outbound};
/// use tokio::sync::mpsc::{Receiver, Sender};
///
/// // Pumps a link over two channels that carry messages: here they could be anything that does.
/// async fn pump(
///     mut driver: LinkDriver,
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
/// let (link, driver) = Link::pair(LinkCaps::default());
/// # let (out, _) = tokio::sync::mpsc::channel(1);
/// # let (_, incoming) = tokio::sync::mpsc::channel(1);
/// # drop((link, pump(driver, out, incoming)));
/// ```
#[derive(Debug)]
pub struct LinkDriver {
    to_send: LinkReceiver,
    came: LinkSender,
}

/// What a custom transport has to send: one half of a [`LinkDriver`].
pub struct LinkReceiver(Receiver<Outbound>);

/// Where a custom transport hands in what has come: one half of a [`LinkDriver`].
pub struct LinkSender(Sender<Inbound>);

/// The connection's side.
struct Pair {
    caps: LinkCaps,
    sender: Sender<Outbound>,
    receiver: Receiver<Inbound>,
}

impl Link {
    /// A link whose far end is code: what a custom transport is made of. `caps` says what that transport can do;
    /// what it cannot is never asked of it.
    ///
    /// A link made so cannot be opened again, whatever `caps` says of it.
    #[must_use]
    pub fn pair(caps: LinkCaps) -> (Self, LinkDriver) {
        let (sender, to_send) = queue();
        let (came, receiver) = queue();
        let caps = LinkCaps { reopens: false, ..caps };
        (
            Self::new(Pair { caps, sender, receiver }),
            LinkDriver { to_send: LinkReceiver(to_send), came: LinkSender(came) },
        )
    }
}

impl LinkDriver {
    /// The next thing to send; `None` when the connection has closed its side, after everything it has sent.
    ///
    /// Cancel-safe: dropped before it is ready, it has taken nothing.
    pub async fn recv(&mut self) -> Option<Outbound> {
        self.to_send.recv().await
    }

    /// Hands in what has come, and waits for room where there is none.
    ///
    /// Cancel-safe in the sense that it is all or nothing: dropped before it is ready, `inbound` was not handed in
    /// and is gone with the future.
    ///
    /// # Errors
    /// [`Closed`] when the connection has dropped its end.
    pub async fn send(&mut self, inbound: Inbound) -> Result<(), Closed> {
        self.came.send(inbound).await
    }

    /// The two halves, for a transport that sends in one task and receives in another.
    #[must_use]
    pub fn split(self) -> (LinkReceiver, LinkSender) {
        (self.to_send, self.came)
    }
}

impl LinkReceiver {
    /// As [`LinkDriver::recv`].
    pub async fn recv(&mut self) -> Option<Outbound> {
        poll_fn(|cx| self.0.poll_next(cx)).await
    }
}

impl LinkSender {
    /// As [`LinkDriver::send`].
    ///
    /// # Errors
    /// [`Closed`] when the connection has dropped its end.
    pub async fn send(&mut self, inbound: Inbound) -> Result<(), Closed> {
        // Everything pushed before was flushed before: what is pending here is that the queue is full.
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

impl std::fmt::Debug for LinkReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkReceiver").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for LinkSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkSender").finish_non_exhaustive()
    }
}

impl Transport for Pair {
    fn caps(&self) -> LinkCaps {
        self.caps
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
        let size = match &outbound {
            Outbound::Message { message, .. } => weight(message),
            Outbound::Batch { messages, .. } => messages.iter().map(weight).sum(),
            Outbound::Abort { .. } | Outbound::CloseStream { .. } => size_of::<Outbound>(),
        };
        self.sender.push(outbound, size);
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
