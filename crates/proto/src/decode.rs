//! bytes -> Message, or an exact error.
use crate::{RequestId, ErrorObject, Message};
use bytes::Bytes;
/// What a decoder accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Nesting of arrays and objects; 128.
    pub depth: usize,
    /// Bytes of an id; 4 KiB.
    pub id_bytes: usize,
    /// Messages in a batch; 100.
    pub batch: usize,
}
impl Default for DecodeLimits { fn default() -> Self { Self { depth: 128, id_bytes: 4096, batch: 100 } } }
/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodeError { /// What is wrong
    pub kind: DecodeErrorKind, /// Byte offset
    pub at: usize, /// id where one could be read
    pub id: Option<RequestId> }
/// kinds
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DecodeErrorKind { /// x
 X }
/// One line, body or frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded { /// One message
  Message(Message), /// An array of messages
  Batch(alloc::vec::Vec<Result<Message, DecodeError>>) }
impl DecodeError { /// -32700 or -32600
 pub fn to_error_object(&self) -> ErrorObject { unreachable!() } }
/// Reads one text.
/// # Errors
/// x
pub fn decode(_text: &Bytes, _limits: &DecodeLimits) -> Result<Decoded, DecodeError> { unreachable!() }
