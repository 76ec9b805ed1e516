//! Where a session stands, and why it does not send something.

use alloc::string::String;
use core::fmt;

use super::event::CallRefused;
use super::{Phase, Session};
use crate::Method;

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

impl Session {
    /// Whether a notification of that kind, one that belongs to no request and to no resource in particular, would reach
    /// the peer: a legacy peer that is ready, or a stream of a modern client that has asked for it.
    #[must_use]
    pub fn hears(&self, method: &Method) -> bool {
        match &self.phase {
            Phase::Legacy(legacy) => legacy.is_ready(),
            Phase::Modern(modern) => modern.hears(method, self.shared.is_server()),
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
