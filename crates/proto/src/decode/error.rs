//! Why bytes are not a message: a description for a person and a code for a peer.

use alloc::boxed::Box;
use alloc::format;
use core::fmt;

use crate::scan::ScanErrorKind;
use crate::text::{Line, escape_excerpt};
use crate::{ErrorObject, RequestId, code};

/// Why bytes are not a message.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodeError {
    /// What is wrong.
    pub kind: DecodeErrorKind,
    /// The byte of the text, counted from 0.
    pub at: usize,
    /// The id, if one could be read: the id for the error response to a request, or the request whose response is
    /// invalid.
    pub id: Option<RequestId>,
    /// The kind of message.
    pub shape: Shape,
    /// Up to 40 bytes of the text at that position, escaped as by [`escape_excerpt`].
    pub excerpt: Box<str>,
}

/// The kind of an invalid message, by its readable members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// It has a method and an id: the peer expects a response.
    Request,
    /// It has a method and no id: the peer expects no response.
    Notification,
    /// It has a result or an error, and no method: there must be no response.
    Response,
    /// The kind is not known.
    #[default]
    Unknown,
}

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// It is not JSON.
    Json(ScanErrorKind),
    /// It is JSON, but neither an object nor an array.
    NotAnObject,
    /// A member is repeated, in the message or in its params, result or error. Readers would choose different ones, so
    /// the message is rejected.
    DuplicateMember {
        /// Its name, truncated to 64 bytes.
        member: Box<str>,
    },
    /// `jsonrpc` is missing or not the string `2.0`.
    JsonRpcVersion,
    /// `id` is null where that is not allowed.
    IdNull,
    /// `id` is neither an integer nor a string.
    IdType,
    /// `id` is longer than the limit.
    IdTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// A result without an id.
    IdMissing,
    /// `method` is missing.
    MethodMissing,
    /// `method` is not a string.
    MethodType,
    /// `params` is not an object.
    ParamsType,
    /// A method beside a result or an error.
    MethodAndOutcome,
    /// A result beside an error.
    ResultAndError,
    /// An id without method, result and error.
    NoOutcome,
    /// The `error` member is invalid.
    Error {
        /// What is wrong with it.
        what: &'static str,
    },
    /// An array without a message.
    BatchEmpty,
    /// An array with more messages than the limit. The rest was not read.
    BatchTooLong {
        /// The limit.
        limit: usize,
    },
    /// An array inside an array.
    BatchNested,
    /// The message is longer than the limit. Only its start was read.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
        /// The number of bytes received so far. The message may be longer.
        length: usize,
    },
}

impl DecodeErrorKind {
    /// The code of JSON-RPC: [`PARSE_ERROR`](code::PARSE_ERROR), [`INVALID_PARAMS`](code::INVALID_PARAMS) or
    /// [`INVALID_REQUEST`](code::INVALID_REQUEST).
    #[must_use]
    pub const fn code(&self) -> i64 {
        match self {
            Self::Json(_) => code::PARSE_ERROR,
            Self::ParamsType => code::INVALID_PARAMS,
            _ => code::INVALID_REQUEST,
        }
    }
}

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(kind) => write!(f, "not JSON: {kind}"),
            Self::NotAnObject => f.write_str("a message is an object"),
            Self::DuplicateMember { member } => {
                write!(f, "the member \"{}\" appears twice", Line::of(member))
            }
            Self::JsonRpcVersion => f.write_str("jsonrpc must be \"2.0\""),
            Self::IdNull => f.write_str("id must not be null"),
            Self::IdType => f.write_str("id must be an integer or a string"),
            Self::IdTooLong { limit } => write!(f, "id is longer than {limit} bytes"),
            Self::IdMissing => f.write_str("a result needs an id"),
            Self::MethodMissing => f.write_str("method is missing"),
            Self::MethodType => f.write_str("method must be a string"),
            Self::ParamsType => f.write_str("params must be an object"),
            Self::MethodAndOutcome => f.write_str("a message with a method has neither result nor error"),
            Self::ResultAndError => f.write_str("a response has a result or an error, not both"),
            Self::NoOutcome => f.write_str("a message has a method, a result or an error"),
            Self::Error { what } => write!(f, "the error is malformed: {what}"),
            Self::BatchEmpty => f.write_str("the batch is empty"),
            Self::BatchTooLong { limit } => write!(f, "the batch has more than {limit} messages"),
            Self::BatchNested => f.write_str("a batch inside a batch"),
            Self::TooLarge { limit, length } => {
                write!(f, "longer than the limit of {limit} bytes for a message (at least {length})")
            }
        }
    }
}

impl DecodeError {
    /// The length of the excerpt, in bytes.
    const EXCERPT_BYTES: usize = 40;

    #[cold]
    pub(super) fn new(kind: DecodeErrorKind, at: usize, text: &[u8]) -> Self {
        let mut start = at.min(text.len().saturating_sub(Self::EXCERPT_BYTES));
        let end = text.len().min(start + Self::EXCERPT_BYTES);
        // Not in the middle of a character, if only the excerpt cuts it.
        while start < at && text[start] & 0xc0 == 0x80 {
            start += 1;
        }
        let excerpt = escape_excerpt(&text[start..end]).into();
        Self { kind, at, id: None, shape: Shape::Unknown, excerpt }
    }

    pub(super) fn with_id(mut self, id: Option<RequestId>) -> Self {
        self.id = id;
        self
    }

    pub(super) const fn with_shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// The code of JSON-RPC; see [`DecodeErrorKind::code`].
    #[must_use]
    pub const fn code(&self) -> i64 {
        self.kind.code()
    }

    /// The error to send: the code, and a sentence that says what is wrong, where, and what the text is there.
    #[must_use]
    pub fn to_error_object(&self) -> ErrorObject {
        ErrorObject::new(self.code(), format!("{self}"))
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, at byte {}", self.kind, self.at)?;
        if self.excerpt.is_empty() { Ok(()) } else { write!(f, ": {}", self.excerpt) }
    }
}

impl core::error::Error for DecodeError {}
