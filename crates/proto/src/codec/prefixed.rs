//! Length-prefixed frames: a length of 32 bits, big-endian, and as many bytes.
//!
//! Used by the Orchestra bridge, whose streams carry Protobuf messages in this form. The content of frames is not
//! parsed. Behind an invalid length no frame can be found, so the first error is final.

use bytes::buf::Limit;
use bytes::{BufMut, Bytes, BytesMut};

use super::{READ_BYTES, ReadBuffer};

/// The size of the length, in bytes.
pub const PREFIX_BYTES: usize = 4;

/// Why there are no more frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A received or written frame is longer than the limit. Nothing was allocated for a received one.
    #[error("a frame of {length} bytes is longer than the limit of {limit} bytes")]
    TooLong {
        /// The length of the frame, in bytes.
        length: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The stream ended within a frame or its length.
    #[error("the stream ended inside a frame: {received} of {expected} bytes arrived")]
    Truncated {
        /// The size of the frame with its length, in bytes; [`PREFIX_BYTES`] when the length is incomplete.
        expected: usize,
        /// The number of bytes received.
        received: usize,
    },
}

/// Splits a byte stream into frames.
///
/// ```
/// use mcpjoin_proto::codec::prefixed::FrameDecoder;
///
/// let mut frames = FrameDecoder::new(1024);
/// frames.push(b"\0\0\0\x02hi\0\0\0\0");
/// assert_eq!(frames.poll_frame(), Ok(Some("hi".into())));
/// assert_eq!(frames.poll_frame(), Ok(Some("".into())), "an empty frame is a frame");
/// assert_eq!(frames.poll_frame(), Ok(None));
/// frames.finish();
/// assert_eq!(frames.poll_frame(), Ok(None));
/// ```
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: ReadBuffer,
    limit: usize,
    ended: bool,
    failed: Option<FrameError>,
}

impl FrameDecoder {
    /// A decoder for frames of at most `limit` bytes without their length.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: ReadBuffer::default(), limit, ended: false, failed: None }
    }

    /// A buffer to read into: of a few KiB, and after reads that filled it usually of [`READ_BYTES`] or more. It
    /// grows with the received bytes and not with the announced length. Call it after all frames were polled.
    pub fn room(&mut self) -> Limit<&mut BytesMut> {
        self.buffer.room(self.limit.saturating_add(PREFIX_BYTES + READ_BYTES))
    }

    /// Appends bytes. The decoder stores all of them until the frames are polled.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.buffer.push(bytes);
        }
    }

    /// Ends the stream: remaining bytes are a truncated frame. Idempotent.
    pub fn finish(&mut self) {
        self.ended = true;
    }

    /// The memory of the decoder, in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.buffer.allocated.max(self.buffer.bytes.capacity())
    }

    /// The next frame. `None` when more bytes are needed or, after [`FrameDecoder::finish`], at the end.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] as soon as the length was received, and [`FrameError::Truncated`] when the stream ended
    /// within a frame. Every later call returns the same error.
    pub fn poll_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let held = self.buffer.bytes.len();
        let Some(&prefix) = self.buffer.bytes.first_chunk::<PREFIX_BYTES>() else {
            return self.incomplete(PREFIX_BYTES);
        };
        // Saturates where `usize` has 16 bits, which is above any limit there.
        let length = usize::try_from(u32::from_be_bytes(prefix)).unwrap_or(usize::MAX);
        if length > self.limit {
            return Err(self.fail(FrameError::TooLong { length, limit: self.limit }));
        }
        let expected = length.saturating_add(PREFIX_BYTES);
        if held < expected {
            return self.incomplete(expected);
        }
        let frame = self.buffer.take(expected);
        Ok(Some(frame.slice(PREFIX_BYTES..)))
    }

    fn incomplete(&mut self, expected: usize) -> Result<Option<Bytes>, FrameError> {
        let received = self.buffer.bytes.len();
        if self.ended && received > 0 {
            return Err(self.fail(FrameError::Truncated { expected, received }));
        }
        self.buffer.settle();
        Ok(None)
    }

    fn fail(&mut self, error: FrameError) -> FrameError {
        self.buffer = ReadBuffer::default();
        self.failed = Some(error);
        error
    }
}

/// Appends a frame.
///
/// # Errors
/// [`FrameError::TooLong`] when the frame is longer than `limit` or than 32 bits can represent. Nothing is appended
/// then.
pub fn write_frame(frame: &[u8], limit: usize, out: &mut BytesMut) -> Result<(), FrameError> {
    let too_long = |limit| FrameError::TooLong { length: frame.len(), limit };
    if frame.len() > limit {
        return Err(too_long(limit));
    }
    let prefix = u32::try_from(frame.len()).map_err(|_| too_long(limit))?;
    out.reserve(PREFIX_BYTES + frame.len());
    out.put_u32(prefix);
    out.put_slice(frame);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut out = BytesMut::new();
        for frame in ["", "a", "two words"] {
            write_frame(frame.as_bytes(), 9, &mut out).expect("short enough");
        }
        let too_long = FrameError::TooLong { length: 10, limit: 9 };
        assert_eq!(write_frame(&[0; 10], 9, &mut out), Err(too_long));
        let mut decoder = FrameDecoder::new(9);
        decoder.push(&out);
        decoder.finish();
        for frame in ["", "a", "two words"] {
            assert_eq!(decoder.poll_frame(), Ok(Some(frame.into())));
        }
        assert_eq!(decoder.poll_frame(), Ok(None));
    }

    #[test]
    fn the_first_error_is_the_last_word() {
        let mut decoder = FrameDecoder::new(1);
        decoder.push(b"\0\0\0\x02\0\0\0\0");
        let error = FrameError::TooLong { length: 2, limit: 1 };
        assert_eq!(decoder.poll_frame(), Err(error));
        decoder.push(b"\0\0\0\0");
        assert_eq!(decoder.poll_frame(), Err(error));
    }
}
