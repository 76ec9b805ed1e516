//! Frames: a 32-bit big-endian length, followed by a message of that many bytes.

use std::io;

use bytes::{Bytes, BytesMut};
pub use mcpjoin_proto::codec::prefixed::FrameDecoder;
use mcpjoin_proto::codec::prefixed::{FrameError, PREFIX_BYTES};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Maximum message size of a frame, in bytes, without the length prefix: 16 MiB. All Orchestra programs enforce it in
/// both directions.
pub const MAX_FRAME: usize = 16 * 1024 * 1024;

/// Why a message could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The message exceeds [`MAX_FRAME`]. When reading, nothing was allocated for it.
    #[error("a frame of {length} bytes is longer than Orchestra's limit of {limit} bytes (16 MiB)")]
    TooLong {
        /// The length, in bytes.
        length: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The stream ended inside a frame or its length prefix.
    #[error("the stream ended inside a frame: {received} of {expected} bytes arrived")]
    Truncated {
        /// The size of the frame with its prefix, in bytes; 4 if the prefix is incomplete.
        expected: usize,
        /// How many of these bytes arrived.
        received: usize,
    },
    /// The stream ended before a frame. An orchestrator also does this when it cannot read the request.
    #[error("the stream ended without a response: the peer could not read the request, or cancelled it")]
    Empty,
    /// The frame does not contain the expected message.
    #[error("the frame is not a message of orchestra.plugin.v1: {0}")]
    Undecodable(#[from] prost::DecodeError),
    /// The stream or connection failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<FrameError> for WireError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::TooLong { length, limit } => Self::TooLong { length, limit },
            FrameError::Truncated { expected, received } => Self::Truncated { expected, received },
        }
    }
}

/// Encodes a message as a frame with its length prefix.
///
/// ```
/// use mcpjoin_orchestra::wire::{self, ListToolsRequest, PluginRequest, plugin_request::Request};
///
/// let request = PluginRequest { request_id: "7".into(), request: Some(Request::ListTools(ListToolsRequest {})) };
/// let frame = wire::encode(&request)?;
/// assert_eq!(frame[..], *b"\0\0\0\x06\x0a\x017\xaa\x01\0");
/// assert_eq!(wire::decode::<PluginRequest>(frame.slice(4..))?, request);
/// # Ok::<(), wire::WireError>(())
/// ```
///
/// # Errors
/// [`WireError::TooLong`].
pub fn encode<M: Message>(message: &M) -> Result<Bytes, WireError> {
    let length = message.encoded_len();
    let too_long = WireError::TooLong { length, limit: MAX_FRAME };
    let Some(prefix) = u32::try_from(length).ok().filter(|_| length <= MAX_FRAME) else {
        return Err(too_long);
    };
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + length);
    frame.extend_from_slice(&prefix.to_be_bytes());
    message.encode_raw(&mut frame);
    Ok(frame.freeze())
}

/// Decodes the message of a frame without its length prefix. Unknown fields are ignored.
///
/// Values inside a [`Struct`](super::super::value::Struct) are decoded only on access, so an error in one is not
/// reported here.
///
/// # Errors
/// [`WireError::Undecodable`].
pub fn decode<M: Message + Default>(frame: Bytes) -> Result<M, WireError> {
    Ok(M::decode(frame)?)
}

/// Reads one frame and returns it without its length prefix. Bytes after it are lost: a stream carries one frame in
/// each direction. Memory is allocated only for bytes that arrive. There is no time limit. Dropping the future loses
/// what it has read.
///
/// # Errors
/// [`WireError::Empty`], [`WireError::Truncated`], [`WireError::TooLong`] as soon as the length has arrived, and
/// [`WireError::Io`].
pub async fn read_frame<R: AsyncRead + Unpin + ?Sized>(from: &mut R) -> Result<Bytes, WireError> {
    next_frame(&mut FrameDecoder::new(MAX_FRAME), from).await
}

/// Reads the next of several frames. `frames` keeps the bytes after it.
pub(crate) async fn next_frame<R: AsyncRead + Unpin + ?Sized>(
    frames: &mut FrameDecoder,
    from: &mut R,
) -> Result<Bytes, WireError> {
    loop {
        if let Some(frame) = frames.poll_frame()? {
            return Ok(frame);
        }
        if from.read_buf(&mut frames.room()).await? == 0 {
            frames.finish();
            return frames.poll_frame()?.ok_or(WireError::Empty);
        }
    }
}

/// Reads one frame and decodes its message.
///
/// # Errors
/// As for [`read_frame`] and [`decode`].
pub async fn read<M: Message + Default>(
    from: &mut (impl AsyncRead + Unpin + ?Sized),
) -> Result<M, WireError> {
    decode(read_frame(from).await?)
}

/// Writes a message as a frame and flushes it, without ending the stream.
///
/// # Errors
/// [`WireError::TooLong`], before anything is written; [`WireError::Io`].
pub async fn write(
    to: &mut (impl AsyncWrite + Unpin + ?Sized),
    message: &impl Message,
) -> Result<(), WireError> {
    let frame = encode(message)?;
    to.write_all(&frame).await?;
    to.flush().await?;
    Ok(())
}
