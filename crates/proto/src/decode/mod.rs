//! Decodes bytes to messages, or to an exact error.
//!
//! Called by every codec with one line, body or frame. Checks the form of JSON-RPC 2.0 with the restrictions of the
//! specification (<https://modelcontextprotocol.io/specification/2025-11-25/basic#messages>): ids are integers or
//! strings, params are objects. It does not check methods, versions or state: the session decides whether a batch, or a
//! message, is allowed.

mod envelope;
mod error;

use alloc::vec::Vec;

use bytes::Bytes;

use crate::Message;
use crate::scan::{ScanError, ScanErrorKind, Scanner};
use envelope::Envelope;

pub use error::{DecodeError, DecodeErrorKind, Shape};

/// The limits of a decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Nesting of arrays and objects, the message itself included: 128, and at most
    /// [`MAX_DEPTH`](crate::scan::MAX_DEPTH).
    pub depth: usize,
    /// Bytes of an id, as digits or as a string after unescaping: 4 KiB.
    pub id_bytes: usize,
    /// Messages in a batch: 100.
    pub batch: usize,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { depth: crate::scan::MAX_DEPTH, id_bytes: 4096, batch: 100 }
    }
}

/// One line, body or frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded {
    /// One message.
    Message(Message),
    /// An array: each element is a message or has its own error. Never empty.
    Batch(Vec<Result<Message, DecodeError>>),
}

/// Decodes a text: a message, or an array of messages, with optional white space around it.
///
/// Params and results of at least [`Raw::SHARED_FROM`](crate::Raw::SHARED_FROM) bytes, and half of `text`, are slices of it;
/// smaller ones are copied once.
///
/// The text may be the start of an oversized message. The error is then [`ScanErrorKind::Truncated`], with the id if it
/// is in that part.
///
/// # Errors
/// The first error of the JSON, or else of the message; see [`DecodeErrorKind`]. It has the id if one could be read.
pub fn decode(text: &Bytes, limits: &DecodeLimits) -> Result<Decoded, DecodeError> {
    let mut envelope = Envelope::default();
    match scan(text, limits, &mut envelope) {
        Ok(Scanned::Message) => envelope.into_message(text, limits).map(Decoded::Message),
        Ok(Scanned::Batch(parts)) => Ok(Decoded::Batch(parts)),
        Ok(Scanned::Fault(kind, at)) => Err(DecodeError::new(kind, at, text)),
        Err(error) => Err(envelope.json_error(text, limits, error)),
    }
}

enum Scanned {
    /// One object; it is in the envelope.
    Message,
    Batch(Vec<Result<Message, DecodeError>>),
    Fault(DecodeErrorKind, usize),
}

fn scan(text: &Bytes, limits: &DecodeLimits, envelope: &mut Envelope) -> Result<Scanned, ScanError> {
    let mut scanner = Scanner::new(text, limits.depth)?;
    scanner.space();
    let at = scanner.at();
    let scanned = match scanner.peek() {
        Some(b'{') => {
            envelope.scan(&mut scanner, 1)?;
            Scanned::Message
        }
        Some(b'[') => batch(text, limits, &mut scanner)?,
        Some(_) => {
            scanner.value(0)?;
            Scanned::Fault(DecodeErrorKind::NotAnObject, at)
        }
        None => return Err(ScanError { kind: ScanErrorKind::Empty, at }),
    };
    if let Scanned::Fault(DecodeErrorKind::BatchTooLong { .. }, _) = scanned {
        // The rest was not scanned.
        return Ok(scanned);
    }
    scanner.end()?;
    Ok(scanned)
}

/// Decodes an array of messages, at its bracket.
fn batch(text: &Bytes, limits: &DecodeLimits, scanner: &mut Scanner<'_>) -> Result<Scanned, ScanError> {
    let opening = scanner.at();
    if limits.depth == 0 {
        return Err(ScanError { kind: ScanErrorKind::Depth(0), at: opening });
    }
    let mut parts = Vec::new();
    scanner.pass();
    scanner.space();
    if scanner.peek() == Some(b']') {
        scanner.pass();
        return Ok(Scanned::Fault(DecodeErrorKind::BatchEmpty, opening));
    }
    loop {
        let at = scanner.at();
        if parts.len() == limits.batch {
            return Ok(Scanned::Fault(DecodeErrorKind::BatchTooLong { limit: limits.batch }, at));
        }
        parts.push(if scanner.peek() == Some(b'{') {
            let mut envelope = Envelope::default();
            envelope.scan(scanner, 2)?;
            envelope.into_message(text, limits)
        } else {
            let nested = scanner.peek() == Some(b'[');
            scanner.value(1)?;
            let kind = if nested { DecodeErrorKind::BatchNested } else { DecodeErrorKind::NotAnObject };
            Err(DecodeError::new(kind, at, text))
        });
        scanner.space();
        match scanner.peek() {
            Some(b',') => {
                scanner.pass();
                scanner.space();
            }
            Some(b']') => {
                scanner.pass();
                return Ok(Scanned::Batch(parts));
            }
            _ => return Err(scanner.unexpected()),
        }
    }
}
