//! The state of each target of a gateway, as it is reported to the operator.
//!
//! Made by the gateway (`Gateway::targets`), read by programs that show it: readiness
//! checks, metrics. It never contains text that a server has written without the caller's redaction.

use std::time::Duration;

/// A target and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TargetStatus {
    /// The name that the operator gave to the target.
    pub name: Box<str>,
    /// What it does at the moment.
    pub state: TargetState,
    /// Why no server of it runs: how the last one ended, or why it did not start. `None` while one runs, and before any
    /// has ended.
    pub cause: Option<Box<str>>,
    /// Names and URIs of this target that another target owns, one text for each.
    pub collisions: Vec<Box<str>>,
}

/// What a target does at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetState {
    /// No server of it runs. The next client that needs it starts one.
    Idle,
    /// Its first server starts.
    Starting,
    /// At least one server of it answers.
    Connected,
    /// Its last start failed or its last server exited. It is started again after a delay.
    CoolingDown {
        /// The time until the next start.
        next_attempt: Duration,
    },
    /// Many starts in a row have failed. It is still started again after a delay, and comes back if it can.
    Dead,
}

impl TargetState {
    /// Returns whether a call to this target may succeed now.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        matches!(self, Self::Idle | Self::Connected)
    }

    /// Returns the word for this state in readiness reports and metrics.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Starting => "starting",
            Self::Connected => "connected",
            Self::CoolingDown { .. } => "cooling down",
            Self::Dead => "dead",
        }
    }
}
