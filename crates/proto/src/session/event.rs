//! The events that a session reports to its owner, and the reasons why calls, openings and sessions fail.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::transport::{Origin, TransportEnd, TransportEndKind, TransportError};
use super::violation::Violation;
use crate::text::{Line, escape_excerpt};
use crate::types::{
    ClientCapabilities, Implementation, InputRequired, LoggingLevel, ProgressParams, ServerCapabilities,
};
use crate::{
    DecodeError, DecodeErrorKind, Era, ErrorObject, Method, Notification, Payload, Profile, ProgressToken,
    Raw, Request, RequestId, Version,
};

/// An event for the owner of a session, in the order of occurrence.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The session is open: calls may be sent. Reported once per negotiation; [`Session::peer`](super::Session::peer)
    /// describes the peer.
    Opened,
    /// Handle this request and respond with [`Session::respond`](super::Session::respond).
    Request {
        /// The request.
        request: Request,
        /// What is known about the request and its client.
        context: RequestContext,
    },
    /// A notification of the peer.
    Notification {
        /// The notification.
        notification: Notification,
        /// Our request that it belongs to, where that is known: a subscription, or the stream on which it arrived.
        call: Option<RequestId>,
    },
    /// Progress of a request of ours. Only growing progress is reported.
    Progress {
        /// Our request.
        id: RequestId,
        /// The progress.
        progress: ProgressParams,
    },
    /// The end of a request of ours. Reported exactly once for each request that we did not cancel.
    Outcome {
        /// Our request.
        id: RequestId,
        /// The result, or why there is none.
        outcome: Result<Reply, CallError>,
    },
    /// The peer cancelled its request. Stop handling it: a response would be dropped.
    Cancelled {
        /// The peer's request.
        id: RequestId,
        /// The reason that the peer gives.
        reason: Option<String>,
    },
    /// The peer violated the protocol. The session continues.
    Violation(Violation),
    /// Reconnect, then call [`Session::reopened`](super::Session::reopened): the peer exited because of the probe.
    Reopen,
    /// The session is closed. The last event.
    Closed(CloseCause),
}

/// The response of a handler, or of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A result.
    Complete(Raw),
    /// The request needs input of the client.
    NeedInput(Box<InputRequired>),
    /// The request has become a task: a result with the `resultType` `task`.
    Task(Raw),
    /// A result of any kind with its own envelope. It is sent unchanged, and every call of a client that
    /// [`relays`](super::ClientRole::relays) returns one.
    Verbatim(Payload),
}

impl Reply {
    /// An empty result.
    #[must_use]
    pub const fn empty() -> Self {
        Self::Complete(Raw::empty_object())
    }
}

/// What is known about an inbound request beside the request itself.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The facts of the revision of the request.
    pub profile: &'static Profile,
    /// The token for progress notifications, if its sender wants them.
    pub progress_token: Option<ProgressToken>,
    /// The minimum level of log messages that its sender wants; `None`: no messages.
    pub log_level: Option<LoggingLevel>,
    /// The client. In the modern era as this request describes it.
    pub client: Arc<ClientInfo>,
    /// The link on which it arrived.
    pub origin: Arc<Origin>,
    /// The number of the request in its session. It distinguishes two requests with the same id.
    pub number: u64,
}

/// A client as it describes itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientInfo {
    /// Its name and version, for display only.
    pub info: Option<Arc<Implementation>>,
    /// Its capabilities.
    pub capabilities: ClientCapabilities,
}

/// The peer of an open session.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// The facts of the negotiated revision.
    pub profile: &'static Profile,
    /// The peer's name and version, if it gives them.
    pub info: Option<Arc<Implementation>>,
    /// The peer's capabilities.
    pub capabilities: PeerCapabilities,
    /// The server's instructions for its use.
    pub instructions: Option<String>,
    /// All revisions that a modern server supports; the negotiated one alone in the legacy era.
    pub supported_versions: Vec<Version>,
    /// The unchanged result of `initialize` or `server/discover`, when this side [`relays`](super::ClientRole::relays)
    /// the server.
    pub presented: Option<Raw>,
}

/// The capabilities of the peer.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerCapabilities {
    /// The peer is a server.
    Server(Box<ServerCapabilities>),
    /// The peer is a client. In the modern era each request has its own ([`RequestContext::client`]).
    Client(Arc<ClientInfo>),
}

impl Peer {
    /// The capabilities of a server; `None` when the peer is a client.
    #[must_use]
    pub fn server_capabilities(&self) -> Option<&ServerCapabilities> {
        match &self.capabilities {
            PeerCapabilities::Server(capabilities) => Some(capabilities),
            PeerCapabilities::Client(_) => None,
        }
    }
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The peer responded with an error.
    #[error("{0}")]
    Remote(ErrorObject),
    /// The call timed out. The request was cancelled at the peer.
    #[error("{method} was not answered within {}{}", seconds(*.after), if *.total { " in all, although it reported progress" } else { "" })]
    TimedOut {
        /// The method of the request.
        method: Method,
        /// The timeout.
        after: Duration,
        /// Whether it is the total timeout, which progress does not extend.
        total: bool,
    },
    /// This side cancelled the call.
    #[error("the call was cancelled")]
    Cancelled,
    /// The session was closed before the response.
    #[error("{0}")]
    Closed(Arc<CloseCause>),
    /// The transport has failed for this request, or its response is not one: the session goes on.
    #[error("the request failed: {0}")]
    Lost(TransportError),
    /// The request was not sent.
    #[error("{0}")]
    Refused(#[from] CallRefused),
    /// The response is not valid.
    #[error("the answer to {method} is not valid: {problem}")]
    InvalidResponse {
        /// The method of the request.
        method: Method,
        /// What is wrong with the response.
        problem: ResponseProblem,
    },
    /// The response is longer than the limit of a message. It was not read; the session continues.
    #[error("the answer to {method} is above the limit `message` of {limit} bytes")]
    ResponseTooLarge {
        /// The method of the request.
        method: Method,
        /// The limit in bytes.
        limit: usize,
    },
}

impl CallError {
    /// The error for a response that could not be decoded.
    pub(super) fn bad_response(method: Method, error: &DecodeError) -> Self {
        match error.kind {
            DecodeErrorKind::TooLarge { limit, .. } => Self::ResponseTooLarge { method, limit },
            _ => Self::InvalidResponse { method, problem: error.clone().into() },
        }
    }
}

/// What is wrong with a response.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseProblem {
    /// It is not a message.
    #[error("{0}")]
    Undecodable(Box<DecodeError>),
    /// Its content is not valid.
    #[error("{0}")]
    Content(String),
}

impl From<DecodeError> for ResponseProblem {
    fn from(error: DecodeError) -> Self {
        Self::Undecodable(Box::new(error))
    }
}

impl From<String> for ResponseProblem {
    fn from(problem: String) -> Self {
        Self::Content(problem)
    }
}

impl ResponseProblem {
    /// What is wrong, where it is not a message.
    #[must_use]
    pub const fn decode_error(&self) -> Option<&DecodeErrorKind> {
        match self {
            Self::Undecodable(error) => Some(&error.kind),
            Self::Content(_) => None,
        }
    }
}

/// Why a call was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallRefused {
    /// The session is not open yet. (C: requests are sent in the state `Ready` only.)
    #[error("the connection is not open yet")]
    NotOpen,
    /// The session is closed.
    #[error("the connection is closed")]
    Closed,
    /// The peer has not declared the capability that the method needs.
    #[error("the peer has not declared the capability `{capability}` that {method} needs")]
    Undeclared {
        /// The method of the request.
        method: Method,
        /// The missing capability.
        capability: &'static str,
    },
    /// The negotiated revision does not have this method, or not in this direction.
    #[error("{method} may not be sent to this peer in protocol version {version}")]
    NotInVersion {
        /// The method of the request.
        method: Method,
        /// The negotiated revision.
        version: Version,
    },
    /// A limit is reached. Retry after the next response.
    #[error("too much is under way: the limit `{limit}` of {value} is reached")]
    Full {
        /// The name of the limit.
        limit: &'static str,
        /// Its value.
        value: usize,
    },
    /// The message is longer than the limit.
    #[error("the message of {length} bytes is above the limit `message` of {limit} bytes")]
    TooLarge {
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

/// Why a session is closed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseCause {
    /// This side closed it.
    #[error("the connection was closed by this side")]
    Local,
    /// The link ended.
    #[error("{0}")]
    Link(TransportEnd),
    /// The negotiation failed.
    #[error("{0}")]
    Opening(#[from] NegotiationFailure),
    /// The peer read nothing for too long while messages waited for it.
    #[error("the peer read nothing for {} while replies were waiting for it", seconds(*.after))]
    Stalled {
        /// The duration.
        after: Duration,
    },
}

impl CloseCause {
    /// The error of the link, where that is the cause.
    #[must_use]
    pub const fn transport_error(&self) -> Option<&TransportError> {
        match self {
            Self::Link(end) | Self::Opening(NegotiationFailure::Ended { last: end, .. }) => match &end.kind {
                TransportEndKind::Failed(error) => Some(error),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Why a negotiation failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NegotiationFailure {
    /// The opening request was not sent.
    #[error("{method} was not sent: {refused}")]
    Unsent {
        /// `initialize` or `server/discover`.
        method: Method,
        /// The reason.
        refused: CallRefused,
    },
    /// The server selected a version that this side does not support.
    #[error(
        "the server speaks protocol version {answered}, which this client does not (it offered {offered})"
    )]
    UnsupportedVersion {
        /// The version that was offered.
        offered: Version,
        /// The version that the server selected.
        answered: Version,
    },
    /// Both sides support no common version.
    #[error("no common protocol version: the server speaks {}, this client does not", list(.supported))]
    NoCommonVersion {
        /// The versions that the server supports.
        supported: Vec<Version>,
    },
    /// The server rejected the opening request.
    #[error("the server refused {method}: {error}")]
    Refused {
        /// `initialize` or `server/discover`.
        method: Method,
        /// The error of the server.
        error: ErrorObject,
    },
    /// The response to the opening request is not valid.
    #[error("the answer to {method} is not valid: {problem}")]
    InvalidResponse {
        /// `initialize` or `server/discover`.
        method: Method,
        /// What is wrong.
        problem: ResponseProblem,
    },
    /// The peer echoes our own messages: it is not a server.
    #[error("{method} was echoed: the peer sends our own messages back, and is not an MCP server")]
    Echo {
        /// `initialize` or `server/discover`.
        method: Method,
    },
    /// A response with an unknown id was received, and none to the opening request.
    #[error("the response to {method} has the unknown id {given} instead of {asked}")]
    UnknownResponse {
        /// `initialize` or `server/discover`.
        method: Method,
        /// The id of the opening request.
        asked: RequestId,
        /// The id of the last response.
        given: RequestId,
    },
    /// The opening request timed out.
    #[error("no answer to {method} within {}{}", seconds(*.after), garbage_note(.garbage.as_ref()))]
    TimedOut {
        /// `initialize` or `server/discover`.
        method: Method,
        /// The timeout.
        after: Duration,
        /// The first bytes that were not a message, if any.
        garbage: Option<Bytes>,
    },
    /// Too many lines were not messages.
    #[error("{}; the first begins {}", line_count(*.lines), excerpt(.first))]
    Garbage {
        /// The number of lines.
        lines: usize,
        /// The start of the first line, at most 200 bytes.
        first: Bytes,
    },
    /// The link ended before the session was open.
    #[error("{last}{}{}", probe_note(.probe.as_ref(), .last), garbage_note(.garbage.as_ref()))]
    Ended {
        /// How it ended.
        last: TransportEnd,
        /// How the first connection ended, when a second one was tried without the probe.
        probe: Option<TransportEnd>,
        /// The first bytes that were not a message, if any.
        garbage: Option<Bytes>,
    },
}

/// The era that a client requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EraChoice {
    /// Probe with `server/discover`, and fall back to `initialize`.
    #[default]
    Auto,
    /// This era only.
    Only(Era),
}

fn seconds(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{} s", duration.as_secs()),
        _ => format!("{} ms", duration.as_millis()),
    }
}

fn line_count(lines: usize) -> String {
    match lines {
        1 => "received a line that is not a message".into(),
        lines => format!("received {lines} lines that are not messages"),
    }
}

fn list(versions: &[Version]) -> String {
    if versions.is_empty() {
        return "none".into();
    }
    let names: Vec<String> = versions.iter().map(|version| Line::of(version.as_str()).to_string()).collect();
    names.join(", ")
}

fn excerpt(bytes: &Bytes) -> String {
    format!("`{}`", escape_excerpt(bytes))
}

fn garbage_note(garbage: Option<&Bytes>) -> String {
    garbage.map_or_else(String::new, |first| {
        format!("; received lines that are not messages, the first begins {}", excerpt(first))
    })
}

fn probe_note(probe: Option<&TransportEnd>, last: &TransportEnd) -> String {
    // The number of a process or a time differs, and says nothing.
    let words =
        |end: &TransportEnd| end.to_string().replace(|character: char| character.is_ascii_digit(), "");
    match probe {
        None => String::new(),
        Some(first) if first.exit == last.exit && words(first) == words(last) => {
            " (at both of two starts)".into()
        }
        Some(first) => format!(" (started a second time, because at the first start {first})"),
    }
}
