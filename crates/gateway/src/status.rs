//! The state of each target of a gateway, as it is reported to the operator.
//!
//! Made by the gateway (`Gateway::targets`), read by programs that show it: readiness
//! checks, metrics. It never contains text that a server has written without the caller's redaction.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::end::GatewayEvent;

/// A target and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TargetStatus {
    /// The name that the operator gave to the target.
    pub name: Box<str>,
    /// What it does at the moment.
    pub state: TargetState,
    /// Names and URIs of this target that another target owns, one text for each.
    pub collisions: Vec<Box<str>>,
}

/// What a target does at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetState {
    /// No client has needed it yet, or its last server was ended because it was unused.
    Idle,
    /// Its first server starts.
    Starting,
    /// At least one server of it answers.
    Connected,
    /// Its last start failed or its last server exited. It is started again after a delay.
    CoolingDown {
        /// Why the last server ended or did not start.
        cause: Box<str>,
        /// The time until the next start.
        next_attempt: Duration,
    },
    /// It is not started again, because the limit of restarts is reached.
    Dead {
        /// Why the last server ended or did not start.
        cause: Box<str>,
    },
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
            Self::Dead { .. } => "dead",
        }
    }
}

/// How long a target counts as failed after a start that is not repeated by itself: a readiness check must let clients
/// come again, because only they start its next server.
const FAILED_START_TIME: Duration = Duration::from_secs(5);

/// Follows the events of a target.
#[derive(Debug, Default)]
pub(super) struct Tracker(Mutex<Followed>);

#[derive(Debug, Default)]
struct Followed {
    /// The servers whose sessions are open. Their number is limited as that of servers is.
    connected: BTreeSet<u64>,
    /// Why the last server ended or did not start, and when the next one starts.
    failed: Option<(Box<str>, Instant)>,
}

impl Tracker {
    pub(super) fn observe(&self, event: &GatewayEvent<'_>, redact: impl Fn(&str) -> String) {
        match event {
            GatewayEvent::Started { upstream, .. } => {
                let mut followed = self.0.lock();
                followed.connected.insert(*upstream);
                followed.failed = None;
            }
            GatewayEvent::Ended { upstream, end, next } => {
                let cause = redact(&end.to_string()).into();
                let next = Instant::now() + next.unwrap_or(FAILED_START_TIME);
                let mut followed = self.0.lock();
                followed.connected.remove(upstream);
                followed.failed = Some((cause, next));
            }
            GatewayEvent::Over { upstream } => {
                self.0.lock().connected.remove(upstream);
            }
            _ => {}
        }
    }

    /// The state of the target. `servers`: how many of its servers run or start.
    pub(super) fn state(&self, servers: usize) -> TargetState {
        let followed = self.0.lock();
        let next_attempt =
            followed.failed.as_ref().map(|(_, next)| next.saturating_duration_since(Instant::now()));
        match (&followed.failed, next_attempt) {
            _ if !followed.connected.is_empty() => TargetState::Connected,
            (Some((cause, _)), Some(next_attempt)) if !next_attempt.is_zero() => {
                TargetState::CoolingDown { cause: cause.clone(), next_attempt }
            }
            _ if servers > 0 => TargetState::Starting,
            _ => TargetState::Idle,
        }
    }
}
