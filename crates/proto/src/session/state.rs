//! Where a session stands: what its owner may ask of it at any time, and why it does not send something.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use super::event::{CallRefused, Peer};
use super::{Limits, Phase, Session};
use crate::{Method, Profile, RequestId};

/// The states of a connection that the source documents name (R54). A modern session is `Ready` once the
/// server was discovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not opened yet, or over.
    Disconnected,
    /// The opening request is under way.
    Connecting,
    /// A legacy server has answered `initialize` and waits for the client to be ready.
    Initializing,
    /// Requests may be made.
    Ready,
    /// The peer has closed its side, or we are closing: what is under way is finished.
    ShuttingDown,
}

/// Why a notification was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotifyRefused {
    /// The same reasons that a call is refused for.
    #[error("{0}")]
    NotAllowed(#[from] CallRefused),
    /// The request that it belongs to is answered or cancelled, or was never made.
    #[error("the request that the notification belongs to is no longer being handled")]
    NoSuchRequest,
    /// What it says does not fit it.
    #[error("the notification is not valid: {0}")]
    Invalid(String),
}

/// Where it stands.
impl Session {
    /// Whether a request of the peer is still to be answered by its handler: the one with that id and that
    /// [`number`](super::RequestContext::number).
    #[must_use]
    pub fn is_handling(&self, id: &RequestId, number: u64) -> bool {
        self.shared.requests.is_handled(id, number)
    }

    /// Whether more may be owed to the peer: less than half of the bound of replies waits for it. An owner that
    /// runs many handlers in one go asks in between.
    #[must_use]
    pub fn has_reply_capacity(&self) -> bool {
        self.shared.has_reply_capacity()
    }

    /// Whether a call may be made now; if not, room comes with the next answer or when the link takes more. A server that
    /// stands for another one has room for what that one tells as long as it has room for replies.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let relayed = self.shared.relays() && self.shared.is_server();
        self.shared.check_capacity().is_ok() && (!relayed || self.shared.has_reply_capacity())
    }

    /// The other side, once the peers agree.
    #[must_use]
    pub fn peer(&self) -> Option<&Arc<Peer>> {
        self.shared.peer.as_ref()
    }

    /// Where the session stands.
    #[must_use]
    pub const fn state(&self) -> State {
        match &self.phase {
            _ if self.draining.is_some() => State::ShuttingDown,
            Phase::Idle | Phase::Over => State::Disconnected,
            Phase::Negotiating(_) | Phase::AwaitingFirst => State::Connecting,
            Phase::Legacy(legacy) if !legacy.is_ready() => State::Initializing,
            Phase::Legacy(_) | Phase::Modern(_) => State::Ready,
        }
    }

    /// The facts of the agreed revision.
    #[must_use]
    pub const fn profile(&self) -> Option<&'static Profile> {
        match &self.phase {
            Phase::Legacy(legacy) => Some(legacy.profile()),
            Phase::Modern(modern) => Some(modern.profile()),
            _ => None,
        }
    }

    /// Our requests that wait for an answer.
    #[must_use]
    pub fn calls_in_flight(&self) -> usize {
        self.shared.calls.len()
    }

    /// The peer's requests that have no answer yet.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.shared.requests.len()
    }

    /// The requests of the peer that a handler works on: how many, and the oldest of them. Looks at each of them.
    #[must_use]
    pub fn handled_requests(&self) -> (usize, Option<RequestId>) {
        (self.shared.requests.handled(), self.shared.requests.oldest_handled())
    }

    /// Log messages that were dropped because the peer took too little.
    #[must_use]
    pub const fn dropped_logs(&self) -> u64 {
        self.shared.dropped_logs
    }

    /// The bounds in force.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Whether a notification of that kind, one that belongs to no request and to no resource in particular, would reach
    /// the peer: a legacy peer that is ready, or a stream of a modern client that has asked for it.
    #[must_use]
    pub fn has_listener(&self, method: &Method) -> bool {
        match &self.phase {
            Phase::Legacy(legacy) => {
                legacy.is_ready()
                    || self
                        .inline_modern
                        .as_ref()
                        .is_some_and(|inline_modern| inline_modern.has_listener(method, true))
            }
            Phase::Modern(modern) => modern.has_listener(method, self.shared.is_server()),
            _ => false,
        }
    }
}

/// Where it stands and how much is under way; never what is said.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("state", &self.state())
            .field("profile", &self.profile().map(|profile| &profile.version))
            .field("calls", &self.calls_in_flight())
            .field("requests", &self.requests_in_flight())
            .finish_non_exhaustive()
    }
}
