//! Where a session stands, and why it does not send something.

use alloc::collections::VecDeque;
use alloc::string::String;
use core::fmt;

use super::event::CallRefused;
use super::{Limits, Phase, Session};

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
    /// Where the session stands.
    #[must_use]
    pub const fn state(&self) -> State {
        match &self.phase {
            _ if self.draining.is_some() => State::ShuttingDown,
            Phase::Idle | Phase::Over => State::Disconnected,
            Phase::Asking(_) | Phase::Waiting => State::Connecting,
            Phase::Legacy(legacy) if !legacy.is_ready() => State::Initializing,
            Phase::Legacy(_) | Phase::Modern(_) => State::Ready,
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
        self.shared.debt.len()
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

    /// Gives back the room of what is over, but for that of one request. For an owner of thousands of sessions that
    /// mostly lie idle.
    pub fn shrink(&mut self) {
        let shared = &mut self.shared;
        shared.calls.shrink();
        shared.debt.shrink();
        shared.queue.shrink();
        if shared.events.is_empty() && shared.events.capacity() > 1 {
            shared.events = VecDeque::new();
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
