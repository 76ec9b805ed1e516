//! The errors of a client.

use std::time::Duration;

use mcpjoin_proto::session::{
    CallError, CallRefused, CloseCause, NegotiationFailure, NotifyRefused, ProcessExit, TransportEnd,
    TransportEndKind, TransportErrorKind,
};
use mcpjoin_proto::text::Line;
use mcpjoin_proto::{ErrorObject, Method};

/// Why a request has no result.
///
/// The connection continues after each of these, unless [`ClientError::is_fatal`] is true. No request is ever retried
/// automatically, because a tool may have run although its response was lost.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The request failed: the server's error, a timeout, a closed connection, or a refusal before sending.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A notification was not sent.
    #[error(transparent)]
    Notify(#[from] NotifyRefused),
    /// The parameters cannot be encoded as JSON. Nothing was sent.
    #[error("the parameters of {method} cannot be encoded: {what}")]
    BadParams {
        /// The method of the request.
        method: Method,
        /// What is wrong with the parameters.
        what: String,
    },
    /// The response is not a valid result of this method.
    #[error("the result of {method} is not valid: {what}")]
    BadResult {
        /// The method of the request.
        method: Method,
        /// The path in the result, and what is wrong there.
        what: String,
    },
    /// A list contains the same cursor twice.
    #[error("the pages of {method} form a loop: the cursor `{}` appeared twice", Line::of(.cursor))]
    RepeatedCursor {
        /// The method of the list.
        method: Method,
        /// The repeated cursor.
        cursor: String,
    },
    /// A list has more pages than the limit (`ClientBuilder::max_pages`, 1,000).
    #[error("{method} has more pages than the limit `pages` of {limit}")]
    TooManyPages {
        /// The method of the list.
        method: Method,
        /// The limit.
        limit: usize,
    },
    /// A list that is collected has more pages after its limit in bytes (64 MiB; see `Pages::all`).
    #[error("{method} has more pages after the limit `list_bytes` of {limit} bytes")]
    ListTooLarge {
        /// The method of the list.
        method: Method,
        /// The limit.
        limit: usize,
    },
    /// The server asked for input more often than the limit (10 times).
    #[error("{method} asked for input more often than the limit `rounds` of {limit}")]
    TooManyRounds {
        /// The method of the request.
        method: Method,
        /// The limit.
        limit: usize,
    },
    /// The server asked for input, and the registered handler returned an error.
    #[error("{method} asked for {asked} (`{}`), which failed: {error}", Line::of(.key))]
    InputFailed {
        /// The method of the request.
        method: Method,
        /// The server's name for the input.
        key: String,
        /// The kind of input, as a method.
        asked: Method,
        /// The handler's error.
        error: Box<ErrorObject>,
    },
    /// The server asked for a kind of input that this client has not declared.
    #[error("{method} asked for {asked} (`{}`), which this client does not declare", Line::of(.key))]
    UndeclaredInput {
        /// The method of the request.
        method: Method,
        /// The server's name for the input.
        key: String,
        /// The kind of input, as a method.
        asked: Method,
    },
    /// The server does not know the task: it never existed, was removed, or was lost in a restart of the server; or it
    /// belongs to another session or another authorization.
    #[error("the server does not know the task `{}`: {error}", Line::of(.id))]
    UnknownTask {
        /// The id of the task.
        id: String,
        /// The server's error.
        error: Box<ErrorObject>,
    },
    /// The task was cancelled before it had a result, by this client or by someone else.
    #[error("the task `{}` was cancelled{}", Line::of(.id), said(.message.as_deref()))]
    TaskCancelled {
        /// The id of the task.
        id: String,
        /// The server's message about it.
        message: Option<String>,
    },
    /// The task did not end in the time that the caller allowed, or for which the server keeps it. It may still run at
    /// the server.
    #[error("the task `{}` has not ended after {after:?}", Line::of(.id))]
    TaskTimedOut {
        /// The id of the task.
        id: String,
        /// How long the client has waited.
        after: Duration,
    },
    /// The server does not send updates of this resource, although it declares subscriptions.
    #[error("the server does not accept a subscription to `{}`", Line::of(.uri))]
    NotHonoured {
        /// The URI of the resource.
        uri: String,
    },
}

impl ClientError {
    /// Returns the server's own error, if the server returned one.
    #[must_use]
    pub fn remote(&self) -> Option<&ErrorObject> {
        match self {
            Self::Call(CallError::Remote(error)) => Some(error),
            Self::UnknownTask { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Returns whether the same request may succeed if it is sent again on this connection: it timed out, or only its
    /// own stream was lost. Whether the first request had an effect is not known.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Call(CallError::TimedOut { .. } | CallError::Refused(CallRefused::Full { .. })) => true,
            Self::Call(CallError::Lost(error)) => error.retryable,
            _ => false,
        }
    }

    /// Returns whether the time for a request or for a task is over. Whether the request had an effect is not known.
    #[must_use]
    pub const fn is_timeout(&self) -> bool {
        matches!(self, Self::Call(CallError::TimedOut { .. }) | Self::TaskTimedOut { .. })
    }

    /// Returns whether no further request can succeed on this connection: the peer is gone, or the connection was
    /// closed.
    #[must_use]
    pub const fn is_fatal(&self) -> bool {
        matches!(
            self,
            Self::Call(CallError::Closed(_) | CallError::Refused(CallRefused::Closed))
                | Self::Notify(NotifyRefused::NotAllowed(CallRefused::Closed))
        )
    }

    /// Returns why the connection was closed, if that is the reason.
    #[must_use]
    pub fn close_cause(&self) -> Option<&CloseCause> {
        match self {
            Self::Call(CallError::Closed(cause)) => Some(cause),
            _ => None,
        }
    }
}

/// Why connecting failed. Everything that was started for it has ended or is being ended.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{cause}")]
#[non_exhaustive]
pub struct ConnectError {
    /// How far the connection got.
    pub phase: Phase,
    /// The cause: what was received, and for a child process its exit status and the last lines of its standard error.
    #[source]
    pub cause: CloseCause,
    /// The time from the start of connecting to the failure.
    pub took: Duration,
}

/// How far a connection got that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Detecting the era with `server/discover`.
    Probe,
    /// Opening a session with `initialize`.
    Initialize,
    /// One of the two: the server ended or sent an invalid message, and which request it was working on is not known.
    Opening,
}

impl ConnectError {
    pub(super) fn new(cause: CloseCause, took: Duration) -> Self {
        Self { phase: phase(&cause), cause, took }
    }

    /// Returns how the transport has ended, if that is the cause.
    #[doc(hidden)]
    #[must_use]
    pub const fn link_end(&self) -> Option<&TransportEnd> {
        link_end(&self.cause)
    }

    /// Returns how the server's process has ended, if it is our child and has ended.
    #[must_use]
    pub fn exit(&self) -> Option<ProcessExit> {
        self.link_end().and_then(|end| end.exit)
    }

    /// Returns whether an HTTP server wants other credentials than those of the request, if it had any: status 401.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        matches!(
            self.link_end().map(|end| &end.kind),
            Some(TransportEndKind::Failed(error)) if error.kind == TransportErrorKind::Unauthorized
        )
    }
}

fn said(message: Option<&str>) -> String {
    message.map_or_else(String::new, |message| format!(": {}", Line::of(message)))
}

pub(super) const fn link_end(cause: &CloseCause) -> Option<&TransportEnd> {
    match cause {
        CloseCause::Link(end) | CloseCause::Opening(NegotiationFailure::Ended { last: end, .. }) => Some(end),
        _ => None,
    }
}

fn phase(cause: &CloseCause) -> Phase {
    let CloseCause::Opening(failure) = cause else { return Phase::Opening };
    match failure {
        NegotiationFailure::Unsent { method, .. }
        | NegotiationFailure::Refused { method, .. }
        | NegotiationFailure::InvalidResponse { method, .. }
        | NegotiationFailure::Echo { method }
        | NegotiationFailure::UnknownResponse { method, .. }
        | NegotiationFailure::TimedOut { method, .. } => match method {
            Method::Initialize => Phase::Initialize,
            _ => Phase::Probe,
        },
        NegotiationFailure::NoCommonVersion { .. } => Phase::Probe,
        // The second start begins with `initialize`.
        NegotiationFailure::UnsupportedVersion { .. } | NegotiationFailure::Ended { probe: Some(_), .. } => {
            Phase::Initialize
        }
        _ => Phase::Opening,
    }
}
