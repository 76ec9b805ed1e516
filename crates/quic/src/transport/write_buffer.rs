//! Outgoing lines, and the count of bytes that wait to be written, shared by the link and its stream tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use bytes::{BufMut, Bytes, BytesMut};
use mcpjoin_proto::session::Outbound;
use mcpjoin_proto::{Message, encode};
use parking_lot::Mutex;
use tokio::task::spawn_blocking;

/// Byte counts of one link.
#[derive(Default)]
pub(super) struct WriteBuffer {
    /// Bytes that were pushed and not yet written to a stream.
    buffered: AtomicUsize,
    /// Above this, `has_room` is false.
    limit: AtomicUsize,
    /// Bytes that were written to streams.
    sent: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl WriteBuffer {
    pub(super) fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn has_room(&self) -> bool {
        self.buffered.load(Ordering::Relaxed) <= self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sets the task to wake when there is room again.
    pub(super) fn set_waker(&self, new: &Waker) {
        let mut waker = self.waker.lock();
        match &mut *waker {
            Some(current) => current.clone_from(new),
            None => *waker = Some(new.clone()),
        }
    }

    fn release(&self, bytes: usize) {
        let limit = self.limit.load(Ordering::Relaxed);
        let before = self.buffered.fetch_sub(bytes, Ordering::Relaxed);
        if before > limit && before - bytes <= limit {
            let waker = self.waker.lock().take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// Messages of at least this many bytes are encoded and decoded on a blocking thread, because it takes a millisecond.
pub(super) const LARGE_MESSAGE_BYTES: usize = 512 * 1024;

/// A message to be written, with its line feed. It counts as buffered until it is written or dropped.
pub(super) struct Line {
    /// A large message that its stream has not encoded yet.
    large: Option<Message>,
    pieces: Vec<Bytes>,
    /// The number of pieces that are written.
    written: usize,
    remaining: usize,
    buffer: Arc<WriteBuffer>,
}

impl Line {
    /// Returns `None` for what is not a message.
    pub(super) fn new(outbound: &Outbound, buffer: &Arc<WriteBuffer>) -> Option<Self> {
        let (mut large, mut pieces) = (None, Vec::new());
        match outbound {
            Outbound::Message { message, .. } if message.payload_len() >= LARGE_MESSAGE_BYTES => {
                large = Some(message.clone());
            }
            Outbound::Message { message, .. } => pieces = encoded(message),
            Outbound::Batch { messages, .. } => {
                let mut line = BytesMut::new();
                encode::batch(messages, &mut line);
                line.put_u8(b'\n');
                pieces.push(line.freeze());
            }
            Outbound::Abort { .. } | Outbound::CloseStream { .. } => return None,
        }
        let payload = large.as_ref().map_or(0, Message::payload_len);
        let remaining = pieces.iter().map(Bytes::len).sum::<usize>() + payload;
        buffer.buffered.fetch_add(remaining, Ordering::Relaxed);
        Some(Self { large, pieces, written: 0, remaining, buffer: buffer.clone() })
    }

    /// Encodes a large message on a blocking thread: encoding searches it for line feeds and may copy it. Call this
    /// before [`Self::unwritten`].
    pub(super) async fn encode(&mut self) {
        let Some(message) = self.large.take() else { return };
        let copy = message.clone();
        // Encoding neither panics nor is it aborted. If it were, encode here.
        self.pieces = spawn_blocking(move || encoded(&message)).await.unwrap_or_else(|_| encoded(&copy));
        let encoded_bytes = self.pieces.iter().map(Bytes::len).sum::<usize>();
        self.buffer.buffered.fetch_add(encoded_bytes.saturating_sub(self.remaining), Ordering::Relaxed);
        self.remaining = self.remaining.max(encoded_bytes);
    }

    /// The pieces that are not yet written.
    pub(super) fn unwritten(&mut self) -> &mut [Bytes] {
        &mut self.pieces[self.written..]
    }

    /// Bytes that all streams of the link have written.
    pub(super) fn total_sent(&self) -> u64 {
        self.buffer.sent()
    }

    /// Records that a stream has written `bytes`. `pieces` were written completely; the stream has shortened the next
    /// one.
    pub(super) fn consume(&mut self, bytes: usize, pieces: usize) {
        let bytes = bytes.min(self.remaining);
        self.written = self.written.saturating_add(pieces).min(self.pieces.len());
        self.remaining -= bytes;
        self.buffer.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.buffer.release(bytes);
    }
}

/// Encodes a message as pieces of a line. A large payload is not copied.
fn encoded(message: &Message) -> Vec<Bytes> {
    let mut head = BytesMut::new();
    let mut pieces = Vec::with_capacity(1);
    if let Some(rest) = encode::frame(message, &mut head) {
        pieces.push(head.split().freeze());
        pieces.push(rest.payload);
        head.put_slice(rest.tail);
    }
    head.put_u8(b'\n');
    pieces.push(head.freeze());
    pieces
}

impl Drop for Line {
    fn drop(&mut self) {
        self.buffer.release(self.remaining);
    }
}
