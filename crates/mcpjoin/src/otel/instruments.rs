//! The histograms of the [conventions](https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md#metrics),
//! made with the global meter provider.
//!
//! One for each builder with telemetry. An instrument is made when it is first needed, so the program may install its
//! provider after it has built its clients and servers.

use std::fmt;
use std::sync::{Arc, OnceLock};

use mcpjoin_proto::session::{Origin, Peer};
use opentelemetry::metrics::Histogram;
use opentelemetry::{KeyValue, global};
use tokio::time::Instant;

use super::attributes::Network;

/// The boundaries that the conventions recommend, in seconds.
const BOUNDARIES: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Metric {
    ClientOperation,
    ServerOperation,
    ClientSession,
    ServerSession,
}

impl Metric {
    const fn name(self) -> &'static str {
        match self {
            Self::ClientOperation => "mcp.client.operation.duration",
            Self::ServerOperation => "mcp.server.operation.duration",
            Self::ClientSession => "mcp.client.session.duration",
            Self::ServerSession => "mcp.server.session.duration",
        }
    }

    /// The kind of the spans of its operations.
    pub(super) const fn span_kind(self) -> &'static str {
        match self {
            Self::ClientOperation | Self::ClientSession => "client",
            Self::ServerOperation | Self::ServerSession => "server",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::ClientOperation => {
                "The duration of an MCP request, from when it is sent until its response arrives."
            }
            Self::ServerOperation => {
                "The duration of an MCP request, from its arrival until its response is sent."
            }
            Self::ClientSession => "The duration of an MCP session, as its client observes it.",
            Self::ServerSession => "The duration of an MCP session, as its server observes it.",
        }
    }
}

/// The instruments of a builder.
#[derive(Default)]
pub(crate) struct Instruments([OnceLock<Histogram<f64>>; 4]);

impl Instruments {
    /// Records the time since `started`.
    pub(super) fn record(&self, metric: Metric, started: Instant, attributes: &[KeyValue]) {
        let place = &self.0[metric as usize];
        let histogram = place.get_or_init(|| {
            let meter = global::meter("mcpjoin");
            let histogram = meter.f64_histogram(metric.name()).with_unit("s");
            histogram.with_description(metric.description()).with_boundaries(BOUNDARIES.into()).build()
        });
        histogram.record(started.elapsed().as_secs_f64(), attributes);
    }
}

impl fmt::Debug for Instruments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instruments").finish_non_exhaustive()
    }
}

/// A session that is being measured. Dropping it records its duration.
#[derive(Debug)]
pub(crate) struct Session {
    instruments: Arc<Instruments>,
    metric: Metric,
    started: Instant,
    attributes: Vec<KeyValue>,
}

impl Session {
    /// The session of a client with this server.
    #[cfg(feature = "client")]
    pub(crate) fn of_client(
        instruments: Arc<Instruments>,
        peer: &Peer,
        origin: Option<&Arc<Origin>>,
    ) -> Self {
        let mut session = Self::new(instruments, Metric::ClientSession, origin);
        let version = peer.profile.version.as_str().to_owned();
        session.attributes.push(KeyValue::new("mcp.protocol.version", version));
        session
    }

    /// The session of a server with a client, from before they agree on a revision.
    #[cfg(feature = "server")]
    pub(crate) fn of_server(instruments: Arc<Instruments>, origin: Option<&Arc<Origin>>) -> Self {
        Self::new(instruments, Metric::ServerSession, origin)
    }

    fn new(instruments: Arc<Instruments>, metric: Metric, origin: Option<&Arc<Origin>>) -> Self {
        let transport = origin.and_then(|origin| Network::of(origin).transport);
        let attributes = transport.map(|transport| KeyValue::new("network.transport", transport));
        Self { instruments, metric, started: Instant::now(), attributes: attributes.into_iter().collect() }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.instruments.record(self.metric, self.started, &self.attributes);
    }
}
