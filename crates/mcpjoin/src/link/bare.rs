//! A link without a session: whoever has one says and hears what they like.
//!
//! For tools that look at a peer from outside (a validator's probes, a bridge that only forwards) and for tests.
//! Nothing here opens a session, answers, counts ids or sets deadlines; a client or a server does.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use mcpjoin_proto::session::{Inbound, Limits, LinkCaps, LinkEnd, Outbound};

use super::{Link, Transport};

/// A link driven by hand, made by [`Link::bare`].
pub struct BareLink {
    io: Box<dyn Transport>,
    closed: Option<LinkEnd>,
}

impl Link {
    /// The link to be driven by hand, with these bounds for messages.
    #[must_use]
    pub fn bare(self, limits: &Limits) -> BareLink {
        let mut io = self.into_io();
        io.configure(limits);
        BareLink { io, closed: None }
    }
}

impl BareLink {
    /// What can be done over the link.
    #[must_use]
    pub fn caps(&self) -> LinkCaps {
        self.io.caps()
    }

    /// The next thing that comes in. What was pushed is sent meanwhile; that sending has failed is not told here,
    /// what comes in tells. After [`Inbound::Closed`] it is that again.
    ///
    /// Cancel-safe: dropped before it is ready, it has taken nothing.
    pub async fn recv(&mut self) -> Inbound {
        poll_fn(|cx| {
            if let Some(cause) = &self.closed {
                return Poll::Ready(Inbound::Closed { cause: cause.clone() });
            }
            let _ = self.io.poll_flush(cx);
            let inbound = self.io.poll_inbound(cx);
            if let Poll::Ready(Inbound::Closed { cause }) = &inbound {
                self.closed = Some(cause.clone());
            }
            inbound
        })
        .await
    }

    /// Is there room for one message more? What is pushed without room is kept all the same.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.io.has_room()
    }

    /// Takes a message to send. It leaves with the next [`flush`](Self::flush) or [`recv`](Self::recv).
    pub fn push(&mut self, outbound: Outbound) {
        self.io.push(outbound);
    }

    /// Takes bytes to send as they are: half a line, two lines, something that is no message. They leave as
    /// [`push`](Self::push) says. False, and nothing was taken, on a link that carries messages and no bytes.
    #[must_use]
    pub fn push_bytes(&mut self, bytes: impl Into<Bytes>) -> bool {
        self.io.push_bytes(&bytes.into())
    }

    /// Sends what was pushed. Cancel-safe: what was not sent stays.
    ///
    /// # Errors
    /// The link's end, once. What can still be read, can be read.
    pub async fn flush(&mut self) -> Result<(), LinkEnd> {
        poll_fn(|cx| self.io.poll_flush(cx)).await
    }

    /// Sends a message and waits until it is sent. The peer may wait for us to read meanwhile: where both sides send
    /// much, push and receive.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub async fn send(&mut self, outbound: Outbound) -> Result<(), LinkEnd> {
        self.push(outbound);
        self.flush().await
    }

    /// How much was handed to the far end: bytes, or messages where nothing is serialised.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.io.sent()
    }

    /// Closes our sending side and ends what the link has started.
    ///
    /// Cancel-safe; dropping the link instead ends everything at once.
    pub async fn close(&mut self) -> LinkEnd {
        let cause = poll_fn(|cx| self.io.poll_close(cx)).await;
        self.closed.get_or_insert(cause).clone()
    }

    /// Makes the far end afresh, where [`LinkCaps::reopens`] says that this can be done.
    ///
    /// # Errors
    /// When it cannot, or when that fails.
    pub async fn reopen(&mut self) -> Result<(), LinkEnd> {
        poll_fn(|cx| self.io.poll_reopen(cx)).await?;
        self.closed = None;
        Ok(())
    }
}

impl std::fmt::Debug for BareLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BareLink")
            .field("caps", &self.caps())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
