//! A link without a session: the program sends and receives any message.
//!
//! For tools that examine a peer (the probes of a validator, a bridge that only forwards) and for tests. It opens no session,
//! sends no replies, assigns no ids and sets no deadlines.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use mcpjoin_proto::session::{Inbound, Limits, Outbound, TransportCaps, TransportEnd};

use super::{Link, Transport};

/// A link driven by hand, made by [`Link::raw`].
pub struct RawLink {
    io: Box<dyn Transport>,
    closed: Option<TransportEnd>,
}

impl Link {
    /// A link without a session, with these limits for messages.
    ///
    /// ```no_run
    /// use mcpjoin::proto::session::Limits;
    /// use mcpjoin::transport::ChildCommand;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut link = ChildCommand::new("./my-server").start().await?.raw(&Limits::default());
    /// assert!(link.push_bytes(&b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n"[..]));
    /// println!("{:?}", link.recv().await);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn raw(self, limits: &Limits) -> RawLink {
        let mut io = self.into_transport();
        io.configure(limits);
        RawLink { io, closed: None }
    }
}

impl RawLink {
    /// What the transport can do.
    #[doc(hidden)]
    #[must_use]
    pub fn caps(&self) -> TransportCaps {
        self.io.caps()
    }

    /// Receives the next message. Sends pushed messages meanwhile; a failure to send is not reported here, only what is received.
    /// After [`Inbound::Closed`] it returns that again.
    ///
    /// Cancel-safe: a future that is dropped before it is ready has taken nothing.
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

    /// Whether there is room for one more message. A message that is pushed without room is kept all the same.
    #[doc(hidden)]
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.io.has_room()
    }

    /// Queues a message. The next [`flush`](Self::flush) or [`recv`](Self::recv) sends it.
    pub fn push(&mut self, outbound: Outbound) {
        self.io.push(outbound);
    }

    /// Queues bytes that are sent unchanged: half a line, two lines, an invalid message. Sent like messages of
    /// [`push`](Self::push). Returns false, and queues nothing, on a transport that carries messages and no bytes.
    #[must_use]
    pub fn push_bytes(&mut self, bytes: impl Into<Bytes>) -> bool {
        self.io.push_bytes(&bytes.into())
    }

    /// Sends what was pushed. Cancel-safe: unsent messages stay queued.
    ///
    /// # Errors
    /// The end of the link, once. What was received can still be read.
    pub async fn flush(&mut self) -> Result<(), TransportEnd> {
        poll_fn(|cx| self.io.poll_flush(cx)).await
    }

    /// Sends a message and waits until it is sent. The peer may wait for us to read meanwhile: where both sides send much, push
    /// and receive instead.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub async fn send(&mut self, outbound: Outbound) -> Result<(), TransportEnd> {
        self.push(outbound);
        self.flush().await
    }

    /// How much was handed to the peer: bytes, or messages where nothing is serialized.
    #[doc(hidden)]
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.io.sent()
    }

    /// Closes our side and ends what the transport has started.
    ///
    /// Cancel-safe; dropping the link instead ends everything at once.
    pub async fn close(&mut self) -> TransportEnd {
        let cause = poll_fn(|cx| self.io.poll_close(cx)).await;
        self.closed.get_or_insert(cause).clone()
    }

    /// Connects again, or restarts the child, where [`TransportCaps::reopens`] says that the transport can.
    ///
    /// # Errors
    /// When the transport cannot, or when it fails.
    #[doc(hidden)]
    pub async fn reopen(&mut self) -> Result<(), TransportEnd> {
        poll_fn(|cx| self.io.poll_reopen(cx)).await?;
        self.closed = None;
        Ok(())
    }
}

impl std::fmt::Debug for RawLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawLink")
            .field("caps", &self.caps())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
