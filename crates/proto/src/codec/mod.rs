//! Framing: splits a byte stream into messages.
//!
//! Each codec is a state machine without I/O. Its owner (a link) reads bytes into the buffer of the codec and then
//! polls events until there are none. A codec never reads, writes, waits or decodes JSON. It stores at most its limit
//! and one read, whatever the peer sends, and its events do not depend on how the bytes were split.
//!
//! | module | framing | used by |
//! |---|---|---|
//! | [`lines`] | newline-delimited JSON | [stdio](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio), Unix sockets, TCP, QUIC streams |
//! | [`sse`] | `text/event-stream` | both HTTP transports |
//! | [`prefixed`] | 32 bit length, big-endian | Orchestra |

pub mod lines;
pub mod oversized;
pub mod prefixed;
#[cfg(feature = "http")]
pub mod sse;

use core::mem;

use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The largest size of a read, in bytes: the capacity of a pipe on Linux, so that one read empties it.
pub const READ_BYTES: usize = 64 * 1024;

/// The size of the first reads, in bytes. A bridge has a decoder for each session, and most messages are small.
const FIRST_READ_BYTES: usize = 4 * 1024;

/// The size from which a frame takes over the whole buffer, in bytes. Dropping the frame then frees the memory.
pub const WHOLE_BUFFER_BYTES: usize = 256 * 1024;

/// The largest allocation that an idle codec keeps, in bytes: a frame just below [`WHOLE_BUFFER_BYTES`], doubled once.
const MAX_IDLE_BUFFER_BYTES: usize = 2 * WHOLE_BUFFER_BYTES;

/// How much of an oversized message is kept, in bytes. Every known implementation writes the `id` in this part
/// (adversarial cases 3 and 4).
pub const HEAD_BYTES: usize = 4096;

/// The buffer that frames are split from.
#[derive(Debug)]
struct ReadBuffer {
    bytes: BytesMut,
    /// The size of the allocation behind `bytes`, which may be its tail only.
    allocated: usize,
    /// The size of a read, in bytes: [`FIRST_READ_BYTES`], and up to [`READ_BYTES`] after reads that filled the buffer.
    read_bytes: usize,
    /// The length of the last frame that took over its buffer, in bytes: an estimate for the next large frame.
    expected: usize,
}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self { bytes: BytesMut::new(), allocated: 0, read_bytes: FIRST_READ_BYTES, expected: 0 }
    }
}

impl ReadBuffer {
    /// Free capacity of at least a quarter of a read, usually a whole read: most of a buffer is used before the next one
    /// is allocated, and reads stay large. For a growing frame the buffer doubles, or grows to the estimate, up to `most`
    /// bytes.
    fn room(&mut self, most: usize) -> Limit<&mut BytesMut> {
        let held = self.bytes.len();
        if self.allocated > 0 && held == self.bytes.capacity() {
            self.read_bytes = (2 * self.read_bytes).min(READ_BYTES);
        }
        let min_capacity = self.read_bytes / 4;
        if self.bytes.capacity() - held < min_capacity {
            let wanted = self.read_bytes.saturating_sub(held).max(min_capacity);
            if !self.bytes.try_reclaim(wanted) {
                let expected = if held < 2 * READ_BYTES { 0 } else { self.expected + self.expected / 16 };
                let grown = held.saturating_mul(2).max(expected).min(most);
                self.grow(grown.max(held.saturating_add(min_capacity)).max(self.read_bytes), most);
            }
        }
        let room = self.bytes.capacity() - held;
        (&mut self.bytes).limit(room)
    }

    /// Replaces the buffer with a larger one. If nothing was split off, it is reallocated, and the allocator may extend
    /// it in place or move its pages, which avoids copying a large frame. The new size may then be twice the old one,
    /// even if less was requested.
    fn grow(&mut self, capacity: usize, most: usize) {
        if self.bytes.capacity() == self.allocated && self.allocated.saturating_mul(2) <= most {
            self.bytes.reserve(capacity - self.bytes.len());
            self.allocated = self.bytes.capacity();
        } else {
            self.replace(capacity);
        }
    }

    /// Appends bytes that are already in memory.
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.allocated = self.allocated.max(self.bytes.capacity());
    }

    /// Splits off the first `length` bytes.
    fn take(&mut self, length: usize) -> Bytes {
        let rest = self.bytes.len() - length;
        if length >= WHOLE_BUFFER_BYTES && rest <= READ_BYTES {
            self.expected = length;
            let rest = BytesMut::from(&self.bytes[length..]);
            self.allocated = rest.capacity();
            let mut whole = mem::replace(&mut self.bytes, rest);
            whole.truncate(length);
            whole.freeze()
        } else {
            self.bytes.split_to(length).freeze()
        }
    }

    /// Drops the first `length` bytes.
    fn skip(&mut self, length: usize) {
        self.bytes.advance(length);
    }

    /// Drops everything, and a large allocation too.
    fn clear(&mut self) {
        self.bytes.clear();
        self.settle();
    }

    /// Frees the memory of a large frame. Called when no frame is complete.
    fn settle(&mut self) {
        let held = self.bytes.len();
        if self.allocated > MAX_IDLE_BUFFER_BYTES && held <= READ_BYTES {
            self.replace(held);
        }
    }

    fn replace(&mut self, capacity: usize) {
        let mut replacement = BytesMut::with_capacity(capacity);
        replacement.extend_from_slice(&self.bytes);
        self.allocated = replacement.capacity();
        self.bytes = replacement;
    }
}
