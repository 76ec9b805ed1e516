//! What a peer did wrong, typed. A violation never ends a session; it is counted and told.

use alloc::boxed::Box;
use core::fmt;

use bytes::Bytes;

use crate::http::params::InvalidHeaderMark;
use crate::text::Line;
use crate::{DecodeError, Method, ProgressToken, RequestId, Version};

/// A rule that the peer has broken.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Violation {
    /// Something came that is no message.
    Malformed {
        /// Why.
        error: Box<DecodeError>,
        /// How it begins: at most 200 bytes; empty for a part of a batch.
        excerpt: Bytes,
    },
    /// A response to a request that was never made, or with an id of another type than ours.
    UnknownReply {
        /// Its id; `None` for an error without one.
        id: Option<RequestId>,
    },
    /// A second response to the same request. The response to one that was cancelled or has timed out is no violation; it
    /// is taken for one when 1,024 others were given up after it.
    LateReply {
        /// Its id.
        id: RequestId,
    },
    /// A request with the id of one that is still being handled.
    DuplicateId {
        /// The id.
        id: RequestId,
    },
    /// A request that the peer may not make in this revision or in this direction.
    UnexpectedRequest {
        /// What it asked.
        method: Method,
    },
    /// A notification that the peer may not send in this revision or in this direction.
    UnexpectedNotification {
        /// What it told.
        method: Method,
    },
    /// Parameters of a notification that do not fit it.
    BadNotification {
        /// What it told.
        method: Method,
    },
    /// A request before the session is open.
    TooEarly {
        /// What it asked.
        method: Method,
    },
    /// A second `initialize`.
    InitializedTwice,
    /// An array of messages in a revision without batches.
    Batch,
    /// Progress for nothing that is under way.
    UnknownProgress {
        /// Its token.
        token: ProgressToken,
    },
    /// Progress that does not grow.
    ProgressDidNotGrow {
        /// Its token.
        token: ProgressToken,
    },
    /// A request of a modern client without the members of `_meta` that every request must carry.
    MissingMeta {
        /// The member.
        key: &'static str,
    },
    /// A version that this side does not speak.
    UnsupportedVersion {
        /// The version.
        requested: Version,
    },
    /// The bytes began with a byte order mark, which JSON-RPC does not have.
    ByteOrderMark,
    /// A tool whose `x-mcp-header` marks are invalid: over HTTP it is left out of the list.
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
                write!(f, "not a message: {error}; it begins `{}`", excerpt.escape_ascii())
            }
            Self::UnknownReply { id: Some(id) } => {
                write!(f, "a response to request {id}, which was never made")
            }
            Self::UnknownReply { id: None } => f.write_str("an error response without an id"),
            Self::LateReply { id } => write!(f, "a response to request {id}, which has already ended"),
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
