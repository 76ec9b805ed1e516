//! Errors of exchanges with an orchestrator, with messages that say what to do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::{ErrorObject, Raw};

use super::super::wire::WireError;
use mcpjoin::transport::SocketError;
use mcpjoin_quic::endpoint::{CertificateError, QuicError, QuicErrorKind};

/// The client cannot be set up. Nothing was sent, and retrying does not help.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The address is not `host:port`.
    #[error("{0:?} is not an address of the form host:port, with an IPv6 address in brackets")]
    Address(String),
    /// Our own certificates are unusable.
    #[error("{0}")]
    Certificate(#[from] CertificateError),
    /// One side rejects the other.
    #[error("{0}")]
    Refused(QuicError),
}

/// An exchange with an orchestrator failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{address}: {kind}")]
#[non_exhaustive]
pub struct OrchestratorError {
    /// The orchestrator, `host:port` as the caller gave it.
    pub address: Arc<str>,
    /// The reason.
    #[source]
    pub kind: OrchestratorErrorKind,
}

impl OrchestratorError {
    /// Whether the orchestrator itself reports this error code.
    #[must_use]
    pub fn is_remote(&self, with: &str) -> bool {
        matches!(&self.kind, OrchestratorErrorKind::Remote { code, .. } if code == with)
    }
}

/// What the error of a [`Bridge`](super::Bridge) says that did not reach its orchestrator, in `data`: no words are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreached {
    /// The orchestrator, `host:port`.
    pub orchestrator: String,
    /// Why it was not reached: the message of the [`OrchestratorError`].
    pub why: String,
}

impl Unreached {
    /// The member of `data` with the kind of the error, and its value.
    const KIND: (&'static str, &'static str) = ("orchestra", "unreached");

    /// Reads the error of a bridge. `None` for another error, and for that of a bridge before this field.
    #[must_use]
    pub fn of(error: &ErrorObject) -> Option<Self> {
        let data = error.data.as_ref()?;
        let text = |name: &str| Some(data.member(name)?.to_string_value()?.into_owned());
        let (name, value) = Self::KIND;
        let is_unreached = text(name)? == value;
        is_unreached.then_some(Self { orchestrator: text("orchestrator")?, why: text("why")? })
    }

    /// Adds it to the error of the bridge.
    pub(super) fn add_to(error: ErrorObject, cause: &OrchestratorError) -> ErrorObject {
        let (name, value) = Self::KIND;
        let why = cause.to_string();
        let members = BTreeMap::from([(name, value), ("orchestrator", &*cause.address), ("why", &*why)]);
        match Raw::from_value(&members) {
            Ok(data) => error.with_data(data),
            Err(_) => error,
        }
    }
}

/// Why an exchange failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrchestratorErrorKind {
    /// There was no connection. Nothing was sent.
    #[error("the orchestrator was not reached within {} ms: {why}", .after.as_millis())]
    Unconnected {
        /// How long the call waited.
        after: Duration,
        /// The error of the last attempt.
        why: String,
    },
    /// One side rejected the other at the first handshake. Nothing was sent.
    #[error("{0}")]
    Refused(#[source] QuicErrorKind),
    /// Too many calls are already queued. Nothing was sent.
    #[error("{waiting} calls already wait for the orchestrator, which is the limit")]
    Busy {
        /// The limit of queued calls.
        waiting: usize,
    },
    /// The request cannot be encoded. Nothing was sent.
    #[error("the request cannot be sent: {0}")]
    Request(Arc<WireError>),
    /// The connection ended before the response.
    #[error("the connection ended before the response ({why}){}", MaybeDone(.maybe_done))]
    Lost {
        /// Why it ended.
        why: String,
        /// Whether the server may have executed the request.
        maybe_done: bool,
    },
    /// The response is invalid.
    #[error("{error}{}", MaybeDone(.maybe_done))]
    Answer {
        /// The problem.
        #[source]
        error: Arc<WireError>,
        /// Whether the server may have executed the request.
        maybe_done: bool,
    },
    /// The response belongs to another kind of request.
    #[error("the orchestrator's response does not belong to `{asked}`{}", MaybeDone(.maybe_done))]
    Unexpected {
        /// The request that was sent.
        asked: &'static str,
        /// Whether the server may have executed the request.
        maybe_done: bool,
    },
    /// The response carries the id of another request.
    #[error("the orchestrator's response does not belong to `{asked}` but to another request ({id:?}){}", MaybeDone(.maybe_done))]
    Another {
        /// The request that was sent.
        asked: &'static str,
        /// The id in the response.
        id: String,
        /// Whether the server may have executed the request.
        maybe_done: bool,
    },
    /// A stream of chunks has ended, and some chunks are missing.
    #[error(
        "received {received} of {announced} chunks; the request may have been executed: check before you \
         try again"
    )]
    Chunks {
        /// The number of chunks received.
        received: i64,
        /// The number of chunks that the server announced.
        announced: i64,
    },
    /// There was no response in time.
    #[error("no response within {} ms{}", .after.as_millis(), MaybeDone(.maybe_done))]
    TimedOut {
        /// The time limit.
        after: Duration,
        /// Whether the server may have executed the request.
        maybe_done: bool,
    },
    /// The orchestrator reports an error.
    #[error("{}", Remote(.code, .message))]
    Remote {
        /// Its error code, for example `tool_not_found`.
        code: String,
        /// Its message.
        message: String,
    },
    /// The client was closed.
    #[error("the handle on the orchestrator is closed")]
    Closed,
}

struct MaybeDone<'a>(&'a bool);

impl std::fmt::Display for MaybeDone<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self.0 {
            "; the request may have been executed: check before you try again"
        } else {
            ""
        })
    }
}

struct Remote<'a>(&'a str, &'a str);

impl std::fmt::Display for Remote<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.0, self.1) {
            ("", "") => f.write_str("the orchestrator reports a failure without a reason"),
            (code, "") => f.write_str(code),
            ("", message) => f.write_str(message),
            (code, message) => write!(f, "{code}: {message}"),
        }
    }
}

/// Why one attempt at an exchange failed.
#[derive(Debug)]
pub(super) enum AttemptError {
    /// No byte of the request was sent.
    Unsent(String),
    /// The connection ended, and the request may have been sent.
    Lost(String),
    /// The response is invalid or missing.
    Answer(WireError),
}

impl AttemptError {
    /// The error of the exchange. `once` is true if the request must not run twice; then the error says whether it may
    /// have run.
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
