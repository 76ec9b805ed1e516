//! The settings of a gateway, as [`GatewayBuilder`](super::GatewayBuilder) collects them and every other module reads
//! them.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::Version;
use mcpjoin_proto::session::{EraChoice, Limits};

use super::end::{GatewayEvent, is_not_authorized, is_refused};
use super::policy::{Allowed, SharedPolicy};
use super::target_health::TargetHealth;
use super::telemetry::Telemetry;
use super::warnings::{Problem, Warnings};
use mcpjoin::client::{Restart, RunExit};
use mcpjoin::transport::Link;

/// A link to the server that is being made.
pub(super) type Starting = Pin<Box<dyn Future<Output = Result<Link, Box<dyn Error + Send + Sync>>> + Send>>;
/// Makes links to the server, each for a client with this principal.
pub(super) type Start = Arc<dyn Fn(Option<&str>) -> Starting + Send + Sync>;
/// Whether clients may use a tool.
pub(super) type AllowsTool = Arc<dyn Fn(&str) -> bool + Send + Sync>;
/// Removes from an error text what clients may not see.
pub(super) type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;
/// Receives events.
pub(super) type OnEvent = Arc<dyn Fn(&GatewayEvent<'_>) + Send + Sync>;

pub(super) struct Settings {
    /// The name of the target, as policies and records give it.
    pub(super) name: Box<str>,
    pub(super) start: Start,
    /// Each principal has credentials of its own at the target.
    pub(super) is_by_principal: bool,
    pub(super) limits: Arc<Limits>,
    pub(super) upstream_limits: Limits,
    pub(super) era: EraChoice,
    pub(super) version: Option<Version>,
    pub(super) restart: Restart,
    pub(super) allows_tool: Option<AllowsTool>,
    pub(super) policy: Option<SharedPolicy>,
    pub(super) upstreams: usize,
    pub(super) timeout: Duration,
    pub(super) redact: Option<Redact>,
    pub(super) on_event: Option<OnEvent>,
    /// What the target may ask clients if no rule of the policy says so.
    pub(super) questions: Allowed,
    /// Whether errors and questions name the target, because a client reaches several.
    pub(super) is_named: bool,
    /// Each request of a client is an event.
    pub(super) records_calls: bool,
    pub(super) health: Arc<TargetHealth>,
    pub(super) telemetry: Telemetry,
    pub(super) warnings: Warnings,
}

impl Settings {
    /// Reports an event.
    pub(super) fn emit(&self, event: &GatewayEvent<'_>) {
        tracing::debug!(target: "mcpjoin", ?event, "a gateway");
        match event {
            // The end of one client's server must not take the target from the others.
            GatewayEvent::Ended { upstream, end, .. } if self.is_of_client(end) => {
                self.health.note(&GatewayEvent::Over { upstream: *upstream });
            }
            event => self.health.note(event),
        }
        if let Some(on_event) = &self.on_event {
            on_event(event);
        }
    }

    /// Whether a server has ended because of its client: it has no access to the target, which others may have, or a target that has
    /// opened for others refuses what it says of itself.
    pub(super) fn is_of_client(&self, end: &RunExit) -> bool {
        self.is_by_principal && is_not_authorized(end) || is_refused(end) && self.health.has_opened()
    }

    /// Logs a problem of the target, each kind once a minute at most.
    pub(super) fn warn(&self, problem: Problem, text: fmt::Arguments<'_>) {
        self.warnings.warn(&self.name, problem, text);
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("era", &self.era)
            .field("version", &self.version)
            .field("restart", &self.restart)
            .field("upstreams", &self.upstreams)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
