//! Everything on the stream of the session, line by line, as over standard input and output: `docs/quic.md` lets a client
//! do so, and a server must take it.
//!
//! Called by whoever looks at a server from outside and wants to send what is no message. A client has no reason to: its
//! calls would wait for each other.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use quinn::RecvStream;
use tokio::io::{AsyncRead, ReadBuf};

use super::QuicConnect;
use crate::endpoint::{Connection, QuicError};
use mcpjoin::transport::Link;

/// What comes on the stream, as long as the connection lasts.
struct Reading {
    stream: RecvStream,
    /// Closed with this.
    connection: Connection,
}

impl QuicConnect {
    /// Connects, and puts all messages on the stream of the session. Any bytes can be sent over this link
    /// ([`RawLink::push_bytes`](mcpjoin::transport::RawLink::push_bytes)); it cannot be opened again.
    ///
    /// Dropped before it is ready, it leaves nothing open.
    ///
    /// # Errors
    /// As of [`connect`](crate::connect).
    pub async fn on_one_stream(self) -> Result<Link, QuicError> {
        let made = self.made().await?;
        let (send, stream) = made.session;
        Ok(Link::stream(Reading { stream, connection: made.connection }, send, "quic"))
    }
}

impl AsyncRead for Reading {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = AsyncRead::poll_read(Pin::new(&mut self.stream), cx, buffer);
        match read {
            // Who leaves in good order has said everything.
            Poll::Ready(Err(_)) if self.left_in_order() => Poll::Ready(Ok(())),
            read => read,
        }
    }
}

impl Reading {
    fn left_in_order(&self) -> bool {
        use crate::endpoint::QuicErrorKind::{Closed, ClosedByUs};
        self.connection.ended().is_some_and(|error| matches!(error.kind, Closed { code: 0, .. } | ClosedByUs))
    }
}
