//! Queries that the owner may use at any time: the state, the peer, counters.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use super::event::{CallRefused, Peer, PeerCapabilities};
use super::{Limits, Phase, Session};
use crate::{Method, Profile, RequestId};

/// The states of a connection that the source documents name (R54). A modern session is `Ready` after discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not opened yet, or closed.
    Disconnected,
    /// The opening request is pending.
    Connecting,
    /// A legacy server has responded to `initialize` and waits for `initialized`.
    Initializing,
    /// Requests may be sent.
    Ready,
    /// The session drains: pending requests are finished.
    ShuttingDown,
}

/// Why a notification was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotifyRefused {
    /// For the same reason as a call.
    #[error("{0}")]
    NotAllowed(#[from] CallRefused),
    /// The request that it belongs to has finished, was cancelled, or never existed.
    #[error("the request that the notification belongs to is no longer being handled")]
    NoSuchRequest,
    /// Its params are not valid.
    #[error("the notification is not valid: {0}")]
    Invalid(String),
}

impl Session {
    /// Whether a handler works on the request of the peer with this id and [`number`](super::RequestContext::number).
    #[must_use]
    pub fn is_handling(&self, id: &RequestId, number: u64) -> bool {
        self.shared.requests.is_handled(id, number)
    }

    /// Whether less than half of the limit of queued replies is used. An owner that runs many handlers in one go checks
    /// this in between.
    #[must_use]
    pub fn has_reply_capacity(&self) -> bool {
        self.shared.has_reply_capacity()
    }

    /// Whether a call may be sent now. If not, check again after the next response or once the link has sent something.
    /// A server that relays for a gateway also needs reply capacity for relayed notifications.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let relayed = self.shared.relays() && self.shared.is_server();
        self.shared.check_capacity().is_ok() && (!relayed || self.shared.has_reply_capacity())
    }

    /// The peer of an open session.
    #[must_use]
    pub fn peer(&self) -> Option<&Arc<Peer>> {
        self.shared.peer.as_ref()
    }

    /// Replaces the description of the peer with an equal one that another session has, and frees its own. For owners of
    /// thousands of idle sessions, whose clients are often the same program. Without effect if the two differ.
    pub fn share_peer(&mut self, equal: &Arc<Peer>) {
        if self.shared.peer.as_ref().is_none_or(|own| own != equal) {
            return;
        }
        self.shared.peer = Some(equal.clone());
        if let (Phase::Legacy(legacy), PeerCapabilities::Client(client)) =
            (&mut self.phase, &equal.capabilities)
        {
            legacy.share_client(client);
        }
    }

    /// The state of the session.
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

    /// The facts of the negotiated revision.
    #[must_use]
    pub const fn profile(&self) -> Option<&'static Profile> {
        match &self.phase {
            Phase::Legacy(legacy) => Some(legacy.profile()),
            Phase::Modern(modern) => Some(modern.profile()),
            _ => None,
        }
    }

    /// The number of our pending requests.
    #[must_use]
    pub fn calls_in_flight(&self) -> usize {
        self.shared.calls.len()
    }

    /// The number of the peer's pending requests.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.shared.requests.len()
    }

    /// The number of requests of the peer that handlers work on, and the oldest of them. Takes linear time.
    #[must_use]
    pub fn handled_requests(&self) -> (usize, Option<RequestId>) {
        (self.shared.requests.handled(), self.shared.requests.oldest_handled())
    }

    /// The number of log messages that were dropped because the peer read too little.
    #[must_use]
    pub const fn dropped_logs(&self) -> u64 {
        self.shared.dropped_logs
    }

    /// The limits of the session.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Whether a notification of this kind that belongs to no request would be delivered: to a legacy peer that is ready, or to
    /// a stream of a modern client with a matching filter. `uri`: of the resource that it is about, for the peers that are
    /// subscribed to it, or are about to be.
    #[must_use]
    pub fn has_listener(&self, method: &Method, uri: Option<&str>) -> bool {
        match &self.phase {
            Phase::Legacy(legacy) => {
                legacy.has_listener(&self.shared, uri)
                    || self
                        .inline_modern
                        .as_ref()
                        .is_some_and(|inline_modern| inline_modern.has_listener(method, uri, true))
            }
            Phase::Modern(modern) => modern.has_listener(method, uri, self.shared.is_server()),
            _ => false,
        }
    }
}

/// Shows the state and counters, and never the content of messages.
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
