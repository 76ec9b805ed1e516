//! Framing: where one message ends and the next begins.
//!
//! Each codec is a state machine without I/O. Its owner (a link) reads bytes into the room that the codec makes,
//! then pulls events until there are none; nothing here reads, writes, waits or decodes JSON. Every codec holds
//! at most its limit and one read, whatever the peer sends, and gives the same events however the bytes were cut.
//!
//! | module | framing | used by |
//! |---|---|---|
//! | [`lines`] | newline-delimited JSON | [stdio](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio), Unix sockets, TCP, QUIC streams |
//! | [`sse`] | `text/event-stream` | both HTTP transports |
//! | [`prefixed`] | 32 bit length, big-endian | Orchestra |

pub mod lines;
pub mod prefixed;
pub mod salvage;
pub mod sse;

use core::mem;

use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The size of a read, in bytes: what a pipe holds on Linux, so that one read empties it.
pub const READ_BYTES: usize = 64 * 1024;

/// Below this much room a buffer is refilled or replaced, in bytes. A quarter of a read: small enough that most
/// of a buffer is used before the next one is made, large enough that reads stay large.
const LEAST_ROOM: usize = READ_BYTES / 4;

/// From this size on a frame takes the whole buffer that it arrived in, in bytes, so that dropping the frame
/// frees the memory instead of leaving it with the codec.
pub const WHOLE_BUFFER_BYTES: usize = 256 * 1024;

/// The largest allocation that a codec keeps while it waits, in bytes: a frame just below
/// [`WHOLE_BUFFER_BYTES`], doubled once.
const KEPT_BYTES: usize = 2 * WHOLE_BUFFER_BYTES;

/// How much of the beginning of a message that is too long is kept, in bytes: where the `id` of every known
/// implementation stands (adversarial cases 3 and 4).
pub const HEAD_BYTES: usize = 4096;

/// The buffer that frames are cut from.
#[derive(Debug, Default)]
struct ReadBuffer {
    bytes: BytesMut,
    /// The size of the allocation behind `bytes`, which may show only its end.
    allocated: usize,
    /// How long the last frame was that took its buffer with it, in bytes: the next large one is expected to be
    /// like it.
    expected: usize,
}

impl ReadBuffer {
    /// Room for at least [`LEAST_ROOM`] bytes, normally for [`READ_BYTES`]. While one frame grows the buffer
    /// doubles, or grows to what is expected, but never beyond `most` bytes.
    fn room(&mut self, most: usize) -> Limit<&mut BytesMut> {
        let held = self.bytes.len();
        if self.bytes.capacity() - held < LEAST_ROOM {
            let wanted = READ_BYTES.saturating_sub(held).max(LEAST_ROOM);
            if !self.bytes.try_reclaim(wanted) {
                let expected = if held < 2 * READ_BYTES { 0 } else { self.expected + self.expected / 16 };
                let grown = held.saturating_mul(2).max(expected).min(most);
                self.grow(grown.max(held.saturating_add(LEAST_ROOM)).max(READ_BYTES), most);
            }
        }
        let room = self.bytes.capacity() - held;
        (&mut self.bytes).limit(room)
    }

    /// Replaces the buffer by a larger one. Where nothing has been cut off the old one, the allocator may have room
    /// behind it, or move its pages: a large frame is then not copied again and again. That may give twice the old
    /// size even where less is asked for.
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

    /// Cuts off the first `length` bytes.
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

    /// Drops everything, and the memory with it when it is much.
    fn clear(&mut self) {
        self.bytes.clear();
        self.settle();
    }

    /// Called when there is nothing left to cut: gives back what a large frame has left behind.
    fn settle(&mut self) {
        let held = self.bytes.len();
        if self.allocated > KEPT_BYTES && held <= READ_BYTES {
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
