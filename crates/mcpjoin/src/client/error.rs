//! What can go wrong for a client, by the question that each error answers.

use std::time::Duration;

use mcpjoin_proto::session::{
    CallError, CallRefused, CloseCause, LinkEnd, NotifyRefused, OpeningFailure, ProcessExit,
};
use mcpjoin_proto::text::Line;
use mcpjoin_proto::{ErrorObject, Method};

/// Why a request brought no result.
///
/// After any of these the connection goes on, unless [`ClientError::is_fatal`] says otherwise. Nothing is ever
/// tried again by itself: whoever asked decides, because a tool may have run although its answer was lost.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The call itself: the server's error, no answer in time, a closed connection, a refusal before sending.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A notification was not sent.
    #[error(transparent)]
    Notify(#[from] NotifyRefused),
    /// The parameters cannot be written as JSON: nothing was sent.
    #[error("the parameters of {method} cannot be written: {what}")]
    BadParams {
        /// What was to be asked.
        method: Method,
        /// What is wrong with them.
        what: String,
    },
    /// A result came that is not a result of this method.
    #[error("the result of {method} is not valid: {what}")]
    BadResult {
        /// What was asked.
        method: Method,
        /// Where in the result, and what is wrong there.
        what: String,
    },
    /// A list of pages leads back to a page that was read already.
    #[error("the pages of {method} go round in a circle: the cursor `{}` came twice", Line::of(.cursor))]
    RepeatedCursor {
        /// Which list.
        method: Method,
        /// The cursor that came twice.
        cursor: String,
    },
    /// A list has more pages than the bound (`ClientBuilder::max_pages`, 1,000).
    #[error("{method} has more pages than the limit `pages` of {limit}")]
    TooManyPages {
        /// Which list.
        method: Method,
        /// The bound.
        limit: usize,
    },
    /// The server asked again and again for input (`ClientBuilder::max_rounds`, 10).
    #[error("{method} asked for input more often than the limit `rounds` of {limit}")]
    TooManyRounds {
        /// What was asked.
        method: Method,
        /// The bound.
        limit: usize,
    },
    /// The server asked for input, and whoever answers such questions gave an error.
    #[error("{method} asked for {asked} (`{}`), which failed: {error}", Line::of(.key))]
    InputFailed {
        /// What was asked of the server.
        method: Method,
        /// The name of the question.
        key: String,
        /// What the server asked.
        asked: Method,
        /// What was answered.
        error: Box<ErrorObject>,
    },
    /// The server asked for input of a kind that this client has not declared.
    #[error("{method} asked for {asked} (`{}`), which this client has not declared", Line::of(.key))]
    UndeclaredInput {
        /// What was asked of the server.
        method: Method,
        /// The name of the question.
        key: String,
        /// What the server asked.
        asked: Method,
    },
    /// The server does not know the task: it never did, has thrown it away, or lost it when it was started again; or it
    /// knows it only in another session, or for another authorization.
    #[error("the server does not know the task `{}`, or no longer: {error}", Line::of(.id))]
    UnknownTask {
        /// The task.
        id: String,
        /// The server's error.
        error: Box<ErrorObject>,
    },
    /// The task was called off before it had a result, by us or by somebody else.
    #[error("the task `{}` was called off{}", Line::of(.id), said(.message.as_deref()))]
    TaskCancelled {
        /// The task.
        id: String,
        /// What the server says about it.
        message: Option<String>,
    },
    /// The task did not come to its end in the time that the caller gave it, or for which the server keeps it. It may
    /// still go on at the server.
    #[error("the task `{}` is not over after {after:?}", Line::of(.id))]
    TaskTimedOut {
        /// The task.
        id: String,
        /// How long it was followed.
        after: Duration,
    },
    /// The server does not tell of changes of this resource, although it says that it does so for resources.
    #[error("the server does not honour a subscription to `{}`", Line::of(.uri))]
    NotHonoured {
        /// The resource.
        uri: String,
    },
}

impl ClientError {
    /// The server's own error, when it answered with one.
    #[must_use]
    pub fn remote(&self) -> Option<&ErrorObject> {
        match self {
            Self::Call(CallError::Remote(error)) => Some(error),
            Self::UnknownTask { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Whether the same request may succeed when it is made again on this connection: nothing came in time, or
    /// only its own stream was lost. What the first one has done all the same is not known.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Call(CallError::TimedOut { .. } | CallError::Refused(CallRefused::Full { .. })) => true,
            Self::Call(CallError::Lost(error)) => error.retryable,
            _ => false,
        }
    }

    /// Whether nothing can succeed on this connection any more: the peer is gone, or we have closed it.
    #[must_use]
    pub const fn is_fatal(&self) -> bool {
        matches!(
            self,
            Self::Call(CallError::Closed(_) | CallError::Refused(CallRefused::Closed))
                | Self::Notify(NotifyRefused::NotAllowed(CallRefused::Closed))
        )
    }

    /// Why the connection is closed, when that is why.
    #[must_use]
    pub fn close_cause(&self) -> Option<&CloseCause> {
        match self {
            Self::Call(CallError::Closed(cause)) => Some(cause),
            _ => None,
        }
    }
}

/// Why there is no connection. Whatever was started for it is gone.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{cause}")]
#[non_exhaustive]
pub struct ConnectError {
    /// How far it came.
    pub phase: Phase,
    /// What ended it, with what came back, the exit status and the end of standard error where there are any.
    #[source]
    pub cause: CloseCause,
    /// From the beginning to the end, in all.
    pub took: Duration,
}

impl ConnectError {
    /// An error of a caller that watches the opening itself and ends it early.
    #[doc(hidden)]
    #[must_use]
    pub const fn in_phase(phase: Phase, cause: CloseCause, took: Duration) -> Self {
        Self { phase, cause, took }
    }
}

/// How far a connection came that was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Finding out the era with `server/discover`.
    Probe,
    /// Opening a session with `initialize`.
    Initialize,
    /// One of the two: the far end ended, or sent what is no message, and with which of the two it was busy
    /// is not known.
    Opening,
}

impl ConnectError {
    pub(super) fn new(cause: CloseCause, took: Duration) -> Self {
        Self { phase: phase(&cause), cause, took }
    }

    /// What ended it.
    #[must_use]
    pub const fn close_cause(&self) -> &CloseCause {
        &self.cause
    }

    /// How the link has ended, when that is what ended it.
    #[must_use]
    pub const fn link_end(&self) -> Option<&LinkEnd> {
        link_end(&self.cause)
    }

    /// How the server's process has ended, when it did and was ours.
    #[must_use]
    pub fn exit(&self) -> Option<ProcessExit> {
        self.link_end().and_then(|end| end.exit)
    }
}

fn said(message: Option<&str>) -> String {
    message.map_or_else(String::new, |message| format!(": {}", Line::of(message)))
}

pub(super) const fn link_end(cause: &CloseCause) -> Option<&LinkEnd> {
    match cause {
        CloseCause::Link(end) | CloseCause::Opening(OpeningFailure::Ended { last: end, .. }) => Some(end),
        _ => None,
    }
}

fn phase(cause: &CloseCause) -> Phase {
    let CloseCause::Opening(failure) = cause else { return Phase::Opening };
    match failure {
        OpeningFailure::Unsent { method, .. }
        | OpeningFailure::Refused { method, .. }
        | OpeningFailure::BadReply { method, .. }
        | OpeningFailure::Echo { method }
        | OpeningFailure::UnknownReply { method, .. }
        | OpeningFailure::TimedOut { method, .. } => match method {
            Method::Initialize => Phase::Initialize,
            _ => Phase::Probe,
        },
        OpeningFailure::NoCommonVersion { .. } => Phase::Probe,
        // The second start begins with `initialize`.
        OpeningFailure::UnsupportedVersion { .. } | OpeningFailure::Ended { probe: Some(_), .. } => {
            Phase::Initialize
        }
        _ => Phase::Opening,
    }
}
