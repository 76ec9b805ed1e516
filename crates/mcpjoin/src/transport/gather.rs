//! The send buffer of a byte stream: everything that is ready is sent with one write.
//!
//! Small messages are copied into one buffer; a large payload is not copied and is passed to the system beside it.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use mcpjoin_proto::encode;
use mcpjoin_proto::session::Outbound;
use tokio::io::AsyncWrite;

/// The limit of the buffer in bytes, above which nothing more should be pushed: what four pipes hold.
const MAX_BUFFERED_BYTES: usize = 256 * 1024;
/// Payloads of this size or more are not copied, in bytes. Between 4 and 32 KiB no difference was measured.
const MIN_UNCOPIED_BYTES: usize = 16 * 1024;
/// Pieces passed to the system at once. Linux accepts 1,024; more than a few large ones are never written.
const MAX_PIECES: usize = 16;
/// Writes that are interrupted before other tasks get their turn.
const MAX_INTERRUPTIONS: usize = 16;
/// The largest capacity, in bytes, that an empty buffer keeps.
const MAX_EMPTY_CAPACITY: usize = 2 * MAX_BUFFERED_BYTES;

/// Bytes to write, in pieces.
#[derive(Debug, Default)]
pub struct Gather {
    /// Written first.
    pieces: VecDeque<Bytes>,
    /// Written last, and can still grow.
    open: BytesMut,
    waiting: usize,
    /// The writer itself may hold back written bytes.
    unflushed: bool,
}

impl Gather {
    /// Whether the buffer is below its limit.
    pub fn has_room(&self) -> bool {
        self.waiting < MAX_BUFFERED_BYTES
    }

    /// Whether nothing is unsent.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Adds a message, or a batch, as one line.
    pub fn push(&mut self, outbound: &Outbound) {
        let before = self.open.len();
        match outbound {
            Outbound::Message { message, .. } => {
                if let Some(rest) = encode::frame(message, &mut self.open) {
                    if rest.payload.len() < MIN_UNCOPIED_BYTES {
                        self.open.put_slice(&rest.payload);
                    } else {
                        self.waiting =
                            self.waiting.saturating_add(rest.payload.len() + self.open.len() - before);
                        let head = self.open.split().freeze();
                        self.pieces.push_back(head);
                        self.pieces.push_back(rest.payload);
                        self.open.put_slice(rest.tail);
                        self.open.put_u8(b'\n');
                        self.waiting = self.waiting.saturating_add(self.open.len());
                        return;
                    }
                    self.open.put_slice(rest.tail);
                }
            }
            Outbound::Batch { messages, .. } => encode::batch(messages, &mut self.open),
            // There are no exchanges to close: here the session cancels with a notification.
            Outbound::Abort { .. } | Outbound::CloseStream { .. } => return,
        }
        self.open.put_u8(b'\n');
        self.waiting = self.waiting.saturating_add(self.open.len() - before);
    }

    /// Adds bytes unchanged.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.open.put_slice(bytes);
        self.waiting = self.waiting.saturating_add(bytes.len());
    }

    /// The line of a message, without its end; empty for what is not sent.
    pub fn whole(outbound: &Outbound) -> BytesMut {
        let mut line = BytesMut::new();
        match outbound {
            Outbound::Message { message, .. } => encode::message(message, &mut line),
            Outbound::Batch { messages, .. } => encode::batch(messages, &mut line),
            Outbound::Abort { .. } | Outbound::CloseStream { .. } => {}
        }
        line
    }

    /// Drops what is unsent.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Writes as much as possible and adds it to `sent`. Ready when nothing is left here or in the writer.
    pub fn poll_write<W: AsyncWrite>(
        &mut self,
        cx: &mut Context<'_>,
        mut writer: Pin<&mut W>,
        sent: &mut u64,
    ) -> Poll<io::Result<()>> {
        let mut interruptions = 0;
        while self.waiting > 0 {
            let written = if self.pieces.is_empty() {
                writer.as_mut().poll_write(cx, &self.open)
            } else if writer.is_write_vectored() {
                let mut slices = [IoSlice::new(&[]); MAX_PIECES];
                let all = self.pieces.iter().map(Bytes::as_ref).chain([self.open.as_ref()]);
                let mut count = 0;
                for (slice, piece) in slices.iter_mut().zip(all.filter(|piece| !piece.is_empty())) {
                    *slice = IoSlice::new(piece);
                    count += 1;
                }
                writer.as_mut().poll_write_vectored(cx, &slices[..count])
            } else {
                writer.as_mut().poll_write(cx, &self.pieces[0])
            };
            match ready!(written) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    *sent = sent.saturating_add(count as u64);
                    self.unflushed = true;
                    self.advance(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    interruptions += 1;
                    if interruptions == MAX_INTERRUPTIONS {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        while self.unflushed {
            match ready!(writer.as_mut().poll_flush(cx)) {
                Ok(()) => self.unflushed = false,
                Err(error)
                    if error.kind() == io::ErrorKind::Interrupted && interruptions < MAX_INTERRUPTIONS =>
                {
                    interruptions += 1;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Removes what was written. A writer that claims more than it was given has written all of it.
    fn advance(&mut self, mut count: usize) {
        count = count.min(self.waiting);
        self.waiting -= count;
        while let Some(first) = self.pieces.front_mut() {
            if count < first.len() {
                first.advance(count);
                return;
            }
            count -= first.len();
            self.pieces.pop_front();
        }
        self.open.advance(count);
        // An empty `BytesMut` reuses its allocation by itself; a large one is released.
        if self.open.is_empty() && self.open.capacity() > MAX_EMPTY_CAPACITY {
            self.open = BytesMut::new();
        }
    }
}
