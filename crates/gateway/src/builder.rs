//! Builds a gateway.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::Version;
use mcpjoin_proto::session::{EraChoice, Limits};

use super::Gateway;
use super::end::GatewayEvent;
use super::policy::{Allowed, SharedPolicy};
use super::settings::{Settings, Start, Starting};
use super::telemetry::Telemetry;
use super::warnings::Warnings;
use mcpjoin::client::Restart;
use mcpjoin::transport::Link;

/// The name of a target that has none.
const TARGET_NAME: &str = "server";
/// Servers at once.
const UPSTREAMS: usize = 100;
/// How long a relayed request may take without progress.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Builds a [`Gateway`]. Made by [`Gateway::builder`].
#[must_use = "a builder serves no client by itself"]
pub struct GatewayBuilder(Settings);

impl GatewayBuilder {
    pub(super) fn new<F, S, E>(start: F) -> Self
    where
        F: Fn(Option<&str>) -> S + Send + Sync + 'static,
        S: IntoFuture<Output = Result<Link, E>, IntoFuture: Send + 'static>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let start: Start = Arc::new(move |principal| -> Starting {
            let starting = start(principal).into_future();
            Box::pin(async move { starting.await.map_err(Into::into) })
        });
        Self(Settings {
            name: TARGET_NAME.into(),
            start,
            is_by_principal: false,
            limits: Arc::default(),
            upstream_limits: Limits::default(),
            era: EraChoice::Auto,
            version: None,
            restart: Restart::default(),
            allows_tool: None,
            policy: None,
            upstreams: UPSTREAMS,
            timeout: TIMEOUT,
            redact: None,
            on_event: None,
            questions: Allowed::default(),
            is_named: false,
            records_calls: false,
            health: Arc::default(),
            warnings: Warnings::default(),
            telemetry: Telemetry::default(),
        })
    }

    pub(super) fn by_principal(mut self) -> Self {
        self.0.is_by_principal = true;
        self
    }

    /// Sets the limits of each connection to a client. Default: [`Limits::default`].
    pub fn limits(mut self, limits: Limits) -> Self {
        self.0.limits = Arc::new(limits);
        self
    }

    /// Sets the limits of each connection to a server. Default: [`Limits::default`]. How long a request may take is set
    /// by [`GatewayBuilder::timeout`].
    pub fn upstream_limits(mut self, limits: Limits) -> Self {
        self.0.upstream_limits = limits;
        self
    }

    /// Sets the era that servers are asked for. Default: the era of the client first, then the other one if the server
    /// does not speak it.
    pub const fn era(mut self, era: EraChoice) -> Self {
        self.0.era = era;
        self
    }

    /// Speaks this version to servers, independent of the client's version.
    pub fn protocol_version(mut self, version: Version) -> Self {
        self.0.version = Some(version);
        self
    }

    /// Sets how often and how soon a server that has exited is restarted. Default: [`Restart::default`].
    pub fn restart(mut self, restart: Restart) -> Self {
        self.0.restart = restart;
        self
    }

    /// Sets the name of the target, which policies and records use. Default: `server`.
    pub fn name(mut self, name: impl Into<Box<str>>) -> Self {
        self.0.name = name.into();
        self
    }

    /// Sets the policy, which may be replaced while the gateway runs. Default: everything is allowed, and a limit exists
    /// only where another method of this builder sets it. [`GatewayBuilder::tools`] is one more rule.
    ///
    /// A request that is above a limit of the policy is answered with an error whose `data` has `retryAfterMs`, over
    /// HTTP with the status 429 and `Retry-After`.
    pub fn policy(mut self, policy: SharedPolicy) -> Self {
        self.0.policy = Some(policy);
        self
    }

    /// Sets which tools clients may use, by name. Other tools are in no list and cannot be called. Default: all.
    pub fn tools(mut self, allows: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.0.allows_tool = Some(Arc::new(allows));
        self
    }

    /// Sets how many servers may run at once. Default: 100. A client that needs one more receives an error that names
    /// this limit.
    ///
    /// While a client that can be asked something has a call in flight at a legacy server, its next such call uses
    /// another server, up to four for one client. A call that finds none waits, at most [`GatewayBuilder::timeout`]. A
    /// call whose client has been away with a question for 30 s is given up for it.
    pub const fn upstreams(mut self, most: usize) -> Self {
        self.0.upstreams = most;
        self
    }

    /// Sets how long a relayed request may take without progress. Default: 10 minutes. The total time is not limited: a
    /// request also ends when the client cancels it or one of the connections ends.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = timeout;
        self
    }

    /// Sets a function that removes secrets from the gateway's own error texts before clients receive them. A text
    /// about the end of a server may contain anything that the server has written. The function must neither block nor
    /// panic.
    ///
    /// Clients that connect to a listener or over HTTP never receive text from the standard error of a server.
    pub fn words(mut self, words: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.0.redact = Some(Arc::new(words));
        self
    }

    /// Reports each request of a client as [`GatewayEvent::Calling`] and [`GatewayEvent::Called`]. Default: it does not,
    /// so that a gateway that nothing observes does no work for it. Requests that the session itself answers
    /// (`initialize`, `ping`) are not reported.
    pub const fn record_calls(mut self) -> Self {
        self.0.records_calls = true;
        self
    }

    /// Records a span of OpenTelemetry for each request of a client and each request to a server, with the names of the
    /// library's [`telemetry`](mcpjoin::server::ServerBuilder::telemetry). Feature `otel`.
    ///
    /// The parent of a client's request is the context in its `_meta`. The context in the HTTP headers is a link of it, or
    /// its parent if `_meta` has none. The request to the server carries the context of its own span in `_meta`, which
    /// replaces what the client has sent there. Streams of notifications and what the session answers itself (`initialize`,
    /// `ping`) have no span.
    #[cfg(feature = "otel")]
    pub fn telemetry(mut self) -> Self {
        self.0.telemetry = Telemetry::on();
        self
    }

    /// Sets a function that is called for each event: servers that start and end, and clients that are refused. It must
    /// neither block nor panic.
    pub fn on_event(mut self, on_event: impl Fn(&GatewayEvent<'_>) + Send + Sync + 'static) -> Self {
        self.0.on_event = Some(Arc::new(on_event));
        self
    }

    /// Builds the gateway of one target of a joined gateway.
    pub(super) fn build_target(mut self, name: &str, questions: Allowed, telemetry: &Telemetry) -> Gateway {
        self.0.name = name.into();
        if telemetry.is_on() {
            self.0.telemetry = telemetry.clone();
        }
        (self.0.questions, self.0.is_named) = (questions, true);
        self.build()
    }

    /// Builds the gateway. No server is started before a client needs it.
    #[must_use]
    pub fn build(self) -> Gateway {
        Gateway::new(self.0)
    }
}

impl fmt::Debug for GatewayBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
