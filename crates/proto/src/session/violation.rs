//! The protocol violations of a peer. A violation never ends a session; it is reported and counted.

use alloc::boxed::Box;
use core::fmt;

use bytes::Bytes;

use crate::http::params::InvalidHeaderMark;
use crate::text::{Line, escape_excerpt};
use crate::{DecodeError, Method, ProgressToken, RequestId, Version};

/// A rule that the peer has violated.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Violation {
    /// Text that is not a message.
    Malformed {
        /// The error.
        error: Box<DecodeError>,
        /// The start of the text: at most 200 bytes; empty for a part of a batch.
        excerpt: Bytes,
    },
    /// A response to a request that was never sent, or with an id of another type.
    UnknownResponse {
        /// Its id; `None` for an error without one.
        id: Option<RequestId>,
    },
    /// A second response to the same request. A response to a cancelled or timed-out request is no violation, unless
    /// 1,024 others have ended since.
    LateResponse {
        /// Its id.
        id: RequestId,
    },
    /// A request with the id of a pending one.
    DuplicateId {
        /// The id.
        id: RequestId,
    },
    /// A request that the peer may not send in this revision or direction.
    UnexpectedRequest {
        /// Its method.
        method: Method,
    },
    /// A notification that the peer may not send in this revision or direction.
    UnexpectedNotification {
        /// Its method.
        method: Method,
    },
    /// A notification with invalid params.
    BadNotification {
        /// Its method.
        method: Method,
    },
    /// A message before the session is open.
    TooEarly {
        /// Its method.
        method: Method,
    },
    /// A second `initialize`.
    InitializedTwice,
    /// An array of messages in a revision without batches.
    Batch,
    /// Progress for an unknown request.
    UnknownProgress {
        /// Its token.
        token: ProgressToken,
    },
    /// Progress that does not grow.
    ProgressDidNotGrow {
        /// Its token.
        token: ProgressToken,
    },
    /// A modern request without a required member of `_meta`.
    MissingMeta {
        /// The member.
        key: &'static str,
    },
    /// A version that this side does not support.
    UnsupportedVersion {
        /// The version.
        requested: Version,
    },
    /// A byte order mark at the start, which JSON-RPC does not have.
    ByteOrderMark,
    /// A tool with invalid `x-mcp-header` marks. Over HTTP it is omitted from the list.
    HeaderMark {
        /// The tool.
        tool: Box<str>,
        /// What is wrong.
        problem: Box<InvalidHeaderMark>,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { error, excerpt } if excerpt.is_empty() => write!(f, "not a message: {error}"),
            Self::Malformed { error, excerpt } => {
                write!(f, "not a message: {error}; it begins `{}`", escape_excerpt(excerpt))
            }
            Self::UnknownResponse { id: Some(id) } => {
                write!(f, "a response to request {id}, which was never made")
            }
            Self::UnknownResponse { id: None } => f.write_str("an error response without an id"),
            Self::LateResponse { id } => write!(f, "a response to request {id}, which has already ended"),
            Self::DuplicateId { id } => {
                write!(f, "a second request with the id {id} while the first is handled")
            }
            Self::UnexpectedRequest { method } => write!(f, "a request {method} that this peer may not make"),
            Self::UnexpectedNotification { method } => {
                write!(f, "a notification {method} that this peer may not send")
            }
            Self::BadNotification { method } => {
                write!(f, "a notification {method} with parameters that do not fit")
            }
            Self::TooEarly { method } => write!(f, "{method} before the session was open"),
            Self::InitializedTwice => f.write_str("a second initialize"),
            Self::Batch => f.write_str("a batch, which this protocol version does not have"),
            Self::UnknownProgress { token } => write!(f, "progress for {token}, which is not under way"),
            Self::ProgressDidNotGrow { token } => write!(f, "progress for {token} that does not grow"),
            Self::MissingMeta { key } => write!(f, "a request without `{key}` in its _meta"),
            Self::UnsupportedVersion { requested } => {
                write!(f, "protocol version {}, which is not spoken here", Line::of(requested.as_str()))
            }
            Self::ByteOrderMark => f.write_str("a byte order mark before the first message"),
            Self::HeaderMark { tool, problem } => {
                write!(f, "the tool `{}` is left out: {problem}", Line::of(tool))
            }
        }
    }
}
