//! What a session tells its owner.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use bytes::Bytes;

use super::link::{LinkEnd, LinkError, Origin};
use super::violation::Violation;
use crate::text::Line;
use crate::types::{
    ClientCapabilities, Implementation, InputRequired, LoggingLevel, ProgressParams, ServerCapabilities,
};
use crate::{
    DecodeError, DecodeErrorKind, Era, ErrorObject, Method, Notification, Payload, Profile, ProgressToken,
    Raw, Request, RequestId, Version,
};

/// Something that the owner of a session has to know or to do. In the order in which it became true.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The peers agree: calls may be made. Told once per agreement; [`Session::peer`](super::Session::peer) says with whom.
    Opened,
    /// Handle this request and answer it with [`Session::respond`](super::Session::respond).
    Request {
        /// What to do.
        request: Request,
        /// What is known about the asker.
        context: RequestContext,
    },
    /// The peer tells something.
    Notification {
        /// What.
        notification: Notification,
        /// Our request that it belongs to, where that is known: a subscription, or the stream it came on.
        call: Option<RequestId>,
    },
    /// How far one of our own requests is. Only growing progress is told.
    Progress {
        /// Our request.
        id: RequestId,
        /// How far.
        progress: ProgressParams,
    },
    /// One of our own requests has ended. Told exactly once for each that was not cancelled by us.
    Outcome {
        /// Our request.
        id: RequestId,
        /// How.
        outcome: Result<Reply, CallError>,
    },
    /// Stop handling this request of the peer: nobody waits for it any more, an answer would be dropped.
    Cancelled {
        /// The peer's request.
        id: RequestId,
        /// Why, in the peer's words.
        reason: Option<String>,
    },
    /// The peer has broken a rule. The session goes on.
    Violation(Violation),
    /// Connect afresh, then call [`Session::reopened`](super::Session::reopened): the far end did not survive the probe of the era.
    Reopen,
    /// The session is over: the last event.
    Closed(CloseCause),
}

/// What a handler answers, and what a call brings.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The result.
    Complete(Raw),
    /// The request can go on only with input from the client.
    NeedInput(Box<InputRequired>),
    /// The request has become a task (a result with `resultType` `task`), which lives on its own.
    Task(Raw),
    /// A result of any kind, with whatever envelope it has: sent as it is, and what each call of a client that
    /// [`relays`](super::ClientRole::relays) brings.
    Verbatim(Payload),
}

impl Reply {
    /// A result without content.
    #[must_use]
    pub const fn empty() -> Self {
        Self::Complete(Raw::empty_object())
    }
}

/// What is known about a request that came in, beside what it asks.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The facts of the revision that the request is made in.
    pub profile: &'static Profile,
    /// The name under which its sender wants to hear of progress, if at all.
    pub progress_token: Option<ProgressToken>,
    /// From which level on its sender wants log messages; `None`: none.
    pub log_level: Option<LoggingLevel>,
    /// Who asks. In the modern era, as this very request says.
    pub asker: Arc<Asker>,
    /// Over which link it came.
    pub origin: Arc<Origin>,
    /// Counts the requests of the session, so that two that have had the same id are told apart.
    pub number: u64,
}

/// The client as it describes itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asker {
    /// Its name and version, for display alone.
    pub info: Option<Arc<Implementation>>,
    /// What it can do.
    pub capabilities: ClientCapabilities,
}

/// The other side of a session, once the peers agree.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The facts of the agreed revision.
    pub profile: &'static Profile,
    /// The peer's name and version, where it gives them.
    pub info: Option<Arc<Implementation>>,
    /// What the peer can do.
    pub capabilities: PeerCapabilities,
    /// How a server wants to be used, in its own words.
    pub instructions: Option<String>,
    /// Every revision that a modern server says it speaks; the agreed one alone in the legacy era.
    pub supported_versions: Vec<Version>,
    /// How a server has presented itself, word for word: the result of `initialize` or `server/discover`, where this side
    /// [`relays`](super::ClientRole::relays) it.
    pub presented: Option<Raw>,
}

/// What the other side can do.
#[derive(Clone, Debug)]
pub enum PeerCapabilities {
    /// It is a server.
    Server(Box<ServerCapabilities>),
    /// It is a client. In the modern era each request says it anew ([`RequestContext::asker`]).
    Client(Arc<Asker>),
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

/// Why a call brought no reply.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The peer answered with an error.
    #[error("{0}")]
    Remote(ErrorObject),
    /// No answer came in time. The peer was told that nobody waits any more.
    #[error("{method} was not answered within {}{}", Seconds(*.after), if *.total { " in all, although it reported progress" } else { "" })]
    TimedOut {
        /// What was asked.
        method: Method,
        /// How long it was waited for.
        after: Duration,
        /// Whether it was the bound for the whole call, which progress does not extend.
        total: bool,
    },
    /// We ourselves have cancelled it.
    #[error("the call was cancelled")]
    Cancelled,
    /// The session ended before an answer came.
    #[error("{0}")]
    Closed(Arc<CloseCause>),
    /// The stream that owed the answer ended without it.
    #[error("the stream ended before the answer: {0}")]
    Lost(LinkError),
    /// It was never sent.
    #[error("{0}")]
    Refused(#[from] CallRefused),
    /// An answer came that is none.
    #[error("the answer to {method} is not valid: {problem}")]
    BadReply {
        /// What was asked.
        method: Method,
        /// What is wrong with the answer.
        problem: String,
    },
    /// An answer came that is longer than a message may be. It was not read; the session goes on.
    #[error("the answer to {method} is above the limit `message` of {limit} bytes")]
    ReplyTooLarge {
        /// What was asked.
        method: Method,
        /// The bound in bytes.
        limit: usize,
    },
}

impl CallError {
    /// What came in answer to a request is no message.
    pub(super) fn bad_response(method: Method, error: &DecodeError) -> Self {
        match error.kind {
            DecodeErrorKind::TooLarge { limit, .. } => Self::ReplyTooLarge { method, limit },
            _ => Self::BadReply { method, problem: error.to_string() },
        }
    }
}

/// Why a call was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallRefused {
    /// The peers do not agree yet. (C: requests are made in the state `Ready` alone.)
    #[error("the connection is not open yet")]
    NotOpen,
    /// The session is over.
    #[error("the connection is closed")]
    Closed,
    /// The peer has not declared what this method needs.
    #[error("the peer has not declared the capability `{capability}` that {method} needs")]
    Undeclared {
        /// What was to be asked.
        method: Method,
        /// The missing capability.
        capability: &'static str,
    },
    /// The agreed revision does not have this method, or not in this direction.
    #[error("{method} may not be sent to this peer in protocol version {version}")]
    NotInVersion {
        /// What was to be asked.
        method: Method,
        /// The agreed revision.
        version: Version,
    },
    /// Too much is under way. Room comes with the next answer.
    #[error("too much is under way: the limit `{limit}` of {value} is reached")]
    Full {
        /// Which bound.
        limit: &'static str,
        /// Its value.
        value: usize,
    },
    /// The message would be longer than the bound.
    #[error("the message of {length} bytes is above the limit `message` of {limit} bytes")]
    TooLarge {
        /// Its length in bytes.
        length: usize,
        /// The bound.
        limit: usize,
    },
}

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseCause {
    /// We closed it.
    #[error("the connection was closed by this side")]
    Local,
    /// The link ended.
    #[error("{0}")]
    Link(LinkEnd),
    /// The peers could not agree.
    #[error("{0}")]
    Opening(#[from] OpeningFailure),
    /// The peer took not a byte for too long, while we owed it some.
    #[error("the peer read nothing for {} while replies were waiting for it", Seconds(*.after))]
    Stalled {
        /// For how long.
        after: Duration,
    },
}

/// What came back while the peers tried to agree.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OpeningFailure {
    /// The opening request could not be sent.
    #[error("{method} was not sent: {refused}")]
    Unsent {
        /// `initialize` or `server/discover`.
        method: Method,
        /// Why not.
        refused: CallRefused,
    },
    /// The server answered with a version that this side does not speak.
    #[error(
        "the server speaks protocol version {answered}, which this client does not (it offered {offered})"
    )]
    UnsupportedVersion {
        /// What was offered.
        offered: Version,
        /// What came back.
        answered: Version,
    },
    /// There is no version that both sides speak.
    #[error("no common protocol version: the server speaks {}, this client does not", List(.supported))]
    NoCommonVersion {
        /// What the server says it speaks.
        supported: Vec<Version>,
    },
    /// The server refused the opening request.
    #[error("the server refused {method}: {error}")]
    Refused {
        /// `initialize` or `server/discover`.
        method: Method,
        /// Its words.
        error: ErrorObject,
    },
    /// The answer to the opening request is none.
    #[error("the answer to {method} is not valid: {problem}")]
    BadReply {
        /// `initialize` or `server/discover`.
        method: Method,
        /// What is wrong.
        problem: String,
    },
    /// Our own messages came back: whoever answers is no peer, and sends what it reads.
    #[error("{method} was asked, and our own messages came back: what answers is no MCP server")]
    Echo {
        /// `initialize` or `server/discover`.
        method: Method,
    },
    /// A response came with an id that nobody had asked with, and none with that of the opening request.
    #[error("{method} was asked with the id {asked}, and answered with the id {given}, which nobody asked")]
    UnknownReply {
        /// `initialize` or `server/discover`.
        method: Method,
        /// The id of that request.
        asked: RequestId,
        /// The id of the last response that came.
        given: RequestId,
    },
    /// No answer to the opening request came in time.
    #[error("no answer to {method} within {}{}", Seconds(*.after), Noise(.garbage.as_ref()))]
    TimedOut {
        /// `initialize` or `server/discover`.
        method: Method,
        /// How long it was waited for.
        after: Duration,
        /// The first bytes that came and were no message, if any.
        garbage: Option<Bytes>,
    },
    /// Too much came that is no message.
    #[error("{}; the first begins {}", Lines(*.lines), Excerpt(.first))]
    Garbage {
        /// How many.
        lines: usize,
        /// How the first begins, at most 200 bytes.
        first: Bytes,
    },
    /// The far end ended before the peers agreed.
    #[error("{last}{}{}", Earlier(.probe.as_ref()), Noise(.garbage.as_ref()))]
    Ended {
        /// How it ended.
        last: LinkEnd,
        /// How the first attempt ended, when it was started a second time without the probe of the era.
        probe: Option<LinkEnd>,
        /// The first bytes that came and were no message, if any.
        garbage: Option<Bytes>,
    },
}

/// The era a client asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ask {
    /// Find out: probe with `server/discover`, fall back to `initialize`.
    #[default]
    Auto,
    /// This era and no other.
    Only(Era),
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.subsec_millis() == 0 {
            write!(f, "{} s", self.0.as_secs())
        } else {
            write!(f, "{} ms", self.0.as_millis())
        }
    }
}

struct Lines(usize);

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("a line came that is no message"),
            lines => write!(f, "{lines} lines came that are no messages"),
        }
    }
}

struct List<'a>(&'a [Version]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (place, version) in self.0.iter().enumerate() {
            write!(f, "{}{}", if place == 0 { "" } else { ", " }, Line::of(version.as_str()))?;
        }
        Ok(())
    }
}

struct Excerpt<'a>(&'a [u8]);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0.escape_ascii())
    }
}

struct Noise<'a>(Option<&'a Bytes>);

impl fmt::Display for Noise<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |first| {
            write!(f, "; lines came that are no messages, the first begins {}", Excerpt(first))
        })
    }
}

struct Earlier<'a>(Option<&'a LinkEnd>);

impl fmt::Display for Earlier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |end| write!(f, " (started a second time, because at the first start {end})"))
    }
}
