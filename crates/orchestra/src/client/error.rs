//! Why an exchange with an orchestrator has failed, in words that say what to do about it.

use std::sync::Arc;
use std::time::Duration;

use super::super::wire::WireError;
use mcpjoin::link::SocketError;
use mcpjoin_quic::endpoint::{CertificateError, QuicError, QuicErrorKind};

/// A handle on an orchestrator cannot be made: nothing was sent, and trying again is of no use.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// It is no `host:port`.
    #[error("{0:?} is no address of the form host:port, with an IPv6 address in brackets")]
    Address(String),
    /// Our own certificates cannot be used.
    #[error("{0}")]
    Certificate(#[from] CertificateError),
    /// The orchestrator and we do not accept each other.
    #[error("{0}")]
    Refused(QuicError),
}

/// An exchange with an orchestrator has failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{address}: {kind}")]
#[non_exhaustive]
pub struct OrchestratorError {
    /// The orchestrator, as `host:port`, as its caller has named it.
    pub address: Arc<str>,
    /// Why.
    #[source]
    pub kind: OrchestratorErrorKind,
}

impl OrchestratorError {
    /// Whether the orchestrator itself says so, with that code.
    #[must_use]
    pub fn is_remote(&self, with: &str) -> bool {
        matches!(&self.kind, OrchestratorErrorKind::Remote { code, .. } if code == with)
    }
}

/// The ways in which an exchange fails.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrchestratorErrorKind {
    /// There was no connection. Nothing was sent.
    #[error("the orchestrator was not reached within {} ms: {why}", .after.as_millis())]
    Unconnected {
        /// How long the call has waited.
        after: Duration,
        /// What came of the last attempt.
        why: String,
    },
    /// The orchestrator and we do not accept each other, and never have. Nothing was sent.
    #[error("{0}")]
    Refused(#[source] QuicErrorKind),
    /// Too many calls wait for their turn already. Nothing was sent.
    #[error("{waiting} calls wait for the orchestrator already, and no more are kept")]
    Busy {
        /// The bound.
        waiting: usize,
    },
    /// The request cannot be written. Nothing was sent.
    #[error("the request cannot be sent: {0}")]
    Request(Arc<WireError>),
    /// The connection has ended before the answer came.
    #[error("the connection ended before the answer came ({why}){}", MaybeDone(.maybe_done))]
    Lost {
        /// What has ended it.
        why: String,
        /// Whether the far end may have done what was asked.
        maybe_done: bool,
    },
    /// What came back is no answer.
    #[error("{error}{}", MaybeDone(.maybe_done))]
    Answer {
        /// What is wrong with it.
        #[source]
        error: Arc<WireError>,
        /// Whether the far end may have done what was asked.
        maybe_done: bool,
    },
    /// The answer is one to another question.
    #[error("the orchestrator's answer is not one to `{asked}`{}", MaybeDone(.maybe_done))]
    Unexpected {
        /// What was asked.
        asked: &'static str,
        /// Whether the far end may have done what was asked.
        maybe_done: bool,
    },
    /// The answer is one to another request: its id says so.
    #[error("the orchestrator's answer is not one to `{asked}` but to another request ({id:?}){}", MaybeDone(.maybe_done))]
    Another {
        /// What was asked.
        asked: &'static str,
        /// The id of the request that it is an answer to.
        id: String,
        /// Whether the far end may have done what was asked.
        maybe_done: bool,
    },
    /// A tool that answers bit by bit has ended, and not all of its answer has come.
    #[error(
        "{received} of {announced} chunks have come; it may have been done or not, look before you ask again"
    )]
    Chunks {
        /// How many have come.
        received: i64,
        /// How many there are, as the far end says.
        announced: i64,
    },
    /// No answer in time.
    #[error("no answer within {} ms{}", .after.as_millis(), MaybeDone(.maybe_done))]
    TimedOut {
        /// The bound.
        after: Duration,
        /// Whether the far end may have done what was asked.
        maybe_done: bool,
    },
    /// The orchestrator says that it cannot.
    #[error("{}", Remote(.code, .message))]
    Remote {
        /// What kind of error, in its own words, as in `tool_not_found`.
        code: String,
        /// What is wrong, in its own words.
        message: String,
    },
    /// The handle was closed.
    #[error("the handle on the orchestrator is closed")]
    Closed,
}

struct MaybeDone<'a>(&'a bool);

impl std::fmt::Display for MaybeDone<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self.0 { "; it may have been done or not, look before you ask again" } else { "" })
    }
}

struct Remote<'a>(&'a str, &'a str);

impl std::fmt::Display for Remote<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.0, self.1) {
            ("", "") => f.write_str("the orchestrator says that it has failed, and not why"),
            (code, "") => f.write_str(code),
            ("", message) => f.write_str(message),
            (code, message) => write!(f, "{code}: {message}"),
        }
    }
}

/// Why one attempt at an exchange has failed.
#[derive(Debug)]
pub(super) enum AttemptError {
    /// Not a byte of it can have left.
    Unsent(String),
    /// The connection has ended, and something may have left.
    Lost(String),
    /// The stream has brought no answer.
    Answer(WireError),
}

impl AttemptError {
    /// The error of the exchange. `once` says that the request must not run twice, so that the caller has to know whether
    /// it may have run.
    pub(super) fn into_kind(self, once: bool) -> OrchestratorErrorKind {
        match self {
            Self::Unsent(why) => OrchestratorErrorKind::Lost { why, maybe_done: false },
            Self::Lost(why) => OrchestratorErrorKind::Lost { why, maybe_done: once },
            Self::Answer(error) => OrchestratorErrorKind::Answer { error: Arc::new(error), maybe_done: once },
        }
    }
}

impl From<QuicError> for AttemptError {
    /// No stream was opened.
    fn from(error: QuicError) -> Self {
        Self::Unsent(error.kind.to_string())
    }
}

impl From<SocketError> for AttemptError {
    fn from(error: SocketError) -> Self {
        Self::Unsent(error.to_string())
    }
}
