//! What the link and the tasks of its streams have in common: how much waits to be written, and what a line to be written
//! is.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use bytes::{BufMut, Bytes, BytesMut};
use mcpjoin_proto::session::Outbound;
use mcpjoin_proto::{Message, encode};
use tokio::task::spawn_blocking;

/// Counts of one link.
#[derive(Default)]
pub(super) struct Shared {
    /// Bytes that were pushed and that no stream has taken.
    buffered: AtomicUsize,
    /// From so many on nothing more should be pushed.
    room: AtomicUsize,
    /// Bytes that streams have taken.
    sent: AtomicU64,
    driver: Mutex<Option<Waker>>,
}

impl Shared {
    pub(super) fn set_room(&self, bytes: usize) {
        self.room.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn has_room(&self) -> bool {
        self.buffered.load(Ordering::Relaxed) <= self.room.load(Ordering::Relaxed)
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whom to wake when there is room again.
    pub(super) fn keep(&self, waker: &Waker) {
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *driver {
            Some(kept) => kept.clone_from(waker),
            None => *driver = Some(waker.clone()),
        }
    }

    fn release(&self, bytes: usize) {
        let room = self.room.load(Ordering::Relaxed);
        let before = self.buffered.fetch_sub(bytes, Ordering::Relaxed);
        if before > room && before - bytes <= room {
            let driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(driver) = driver {
                driver.wake();
            }
        }
    }
}

/// Messages from this size on are encoded and decoded where they keep nobody waiting, in bytes: it takes a millisecond.
pub(super) const LARGE: usize = 512 * 1024;

/// A message to be written, with its line feed. It counts as buffered until it is written or dropped.
pub(super) struct Line {
    /// A large one, until its stream has it encoded.
    large: Option<Message>,
    pieces: Vec<Bytes>,
    /// Pieces that are written.
    written: usize,
    left: usize,
    shared: Arc<Shared>,
}

impl Line {
    /// `None` for what is not written.
    pub(super) fn new(outbound: &Outbound, shared: &Arc<Shared>) -> Option<Self> {
        let (mut large, mut pieces) = (None, Vec::new());
        match outbound {
            Outbound::Message { message, .. } if message.payload_len() >= LARGE => {
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
        let left = pieces.iter().map(Bytes::len).sum::<usize>() + payload;
        shared.buffered.fetch_add(left, Ordering::Relaxed);
        Some(Self { large, pieces, written: 0, left, shared: shared.clone() })
    }

    /// Encodes what is large, where that keeps nobody waiting: it is looked through for line feeds, and may be copied.
    /// Before anything else is asked of it.
    pub(super) async fn encode(&mut self) {
        let Some(message) = self.large.take() else { return };
        let again = message.clone();
        // It neither panics nor is it aborted; if it were, here it can be done as well.
        self.pieces = spawn_blocking(move || encoded(&message)).await.unwrap_or_else(|_| encoded(&again));
        let whole = self.pieces.iter().map(Bytes::len).sum::<usize>();
        self.shared.buffered.fetch_add(whole.saturating_sub(self.left), Ordering::Relaxed);
        self.left = self.left.max(whole);
    }

    /// What is still to be written; empty when nothing is.
    pub(super) fn rest(&mut self) -> &mut [Bytes] {
        &mut self.pieces[self.written..]
    }

    /// How much the streams of the link have taken in all.
    pub(super) fn sent_in_all(&self) -> u64 {
        self.shared.sent()
    }

    /// A stream has taken so much of it: whole pieces are forgotten, the next one has been shortened by the stream.
    pub(super) fn took(&mut self, bytes: usize, pieces: usize) {
        let bytes = bytes.min(self.left);
        self.written = self.written.saturating_add(pieces).min(self.pieces.len());
        self.left -= bytes;
        self.shared.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.shared.release(bytes);
    }
}

/// The line that a message is, in pieces: what is large stays where it lies.
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
        self.shared.release(self.left);
    }
}
