//! What `--admin` counts and measures, as OpenMetrics.
//!
//! Counted from the events of the gateway by `relay`, printed by `admin`. Where the
//! [conventions of OpenTelemetry for MCP](https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/mcp.md)
//! have a name, it is used, as OpenMetrics writes it. Clients choose names of methods and tools, so a label has only known
//! methods, and only tools that a server has listed, up to a limit; `_OTHER` stands for the rest.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use mcpjoin::proto::Method;
use mcpjoin_gateway::{CallOutcome, CallRecord, GatewayEvent, Refusal, TargetStatus};
use mcpjoin_redis::RedisCounts;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// The boundaries that the conventions recommend, in seconds.
const BOUNDARIES: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// Tools with a label of their own. Each may have five outcomes and 17 lines of a histogram, so at most 4,400 lines: a
/// scrape of about half a megabyte.
const MAX_TOOL_LABELS: usize = 200;
/// Bytes of the name of a tool with a label of its own: the specification recommends at most 128 characters.
const MAX_TOOL_LABEL_BYTES: usize = 128;
/// The value of a label for everything else.
const OTHER: &str = "_OTHER";

type Labels = Vec<(&'static str, String)>;

/// The metrics of a bridge.
pub(super) struct Metrics {
    registry: Registry,
    calls: Family<Labels, Counter>,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
    in_flight: Family<Labels, Gauge>,
    refused: Family<Labels, Counter>,
    starts: Counter,
    ends: Counter,
    up: Family<Labels, Gauge>,
    servers: Gauge,
    sessions: Gauge,
    lines_left_out: Counter,
    state_up: Gauge,
    state_failures: Family<Labels, Counter>,
    /// The tools that have a label of their own.
    tools: Mutex<BTreeSet<String>>,
}

impl Metrics {
    /// `lines_left_out`: the lines that an audit has left out. `has_state`: several bridges share state.
    pub(super) fn new(lines_left_out: Counter, has_state: bool) -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            calls: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BOUNDARIES)),
            in_flight: Family::default(),
            refused: Family::default(),
            starts: Counter::default(),
            ends: Counter::default(),
            up: Family::default(),
            servers: Gauge::default(),
            sessions: Gauge::default(),
            lines_left_out,
            state_up: Gauge::default(),
            state_failures: Family::default(),
            tools: Mutex::default(),
        };
        metrics.register();
        if has_state {
            metrics.register_state();
        }
        metrics
    }

    fn register(&mut self) {
        let Self { registry, .. } = self;
        registry.register("mcpjoin_calls", "Requests of clients that have ended", self.calls.clone());
        registry.register_with_unit(
            "mcp_server_operation_duration",
            "The duration of a request of a client, from its arrival until its response is sent",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register(
            "mcpjoin_calls_in_flight",
            "Requests of clients that have not ended",
            self.in_flight.clone(),
        );
        registry.register("mcpjoin_clients_refused", "Clients that got no server", self.refused.clone());
        registry.register("mcpjoin_server_starts", "Servers that were started", self.starts.clone());
        registry.register(
            "mcpjoin_server_ends",
            "Servers that ended by themselves or did not start",
            self.ends.clone(),
        );
        registry.register(
            "mcpjoin_target_up",
            "Whether a call to the target may succeed now: 1 or 0",
            self.up.clone(),
        );
        registry.register("mcpjoin_servers", "Servers that run or start", self.servers.clone());
        registry.register(
            "mcpjoin_sessions",
            "Sessions of clients of older revisions",
            self.sessions.clone(),
        );
        registry.register(
            "mcpjoin_audit_lines_left_out",
            "Lines that the audit lacks, because its file was too slow or could not be written",
            self.lines_left_out.clone(),
        );
    }

    fn register_state(&mut self) {
        let Self { registry, .. } = self;
        registry.register(
            "mcpjoin_state_up",
            "Whether what several bridges share (--state) is available: 1 or 0",
            self.state_up.clone(),
        );
        registry.register(
            "mcpjoin_state_failures",
            "Failures of the state that bridges share: timeouts, refused \
             commands, records of other owners, events sent without being stored",
            self.state_failures.clone(),
        );
    }

    /// Notes the state of what several bridges share.
    pub(super) fn shared(&self, is_up: bool, counts: RedisCounts) {
        self.state_up.set(i64::from(is_up));
        let RedisCounts { unanswered, refused, foreign, events_not_stored, .. } = counts;
        for (reason, count) in [
            ("unanswered", unanswered),
            ("refused", refused),
            ("foreign_record", foreign),
            ("event_not_stored", events_not_stored),
        ] {
            let labels = vec![("reason", reason.to_owned())];
            self.state_failures.get_or_create(&labels).inner().store(count, Ordering::Relaxed);
        }
    }

    /// Counts an event.
    pub(super) fn event(&self, event: &GatewayEvent<'_>) {
        match event {
            GatewayEvent::Calling { target } => {
                self.in_flight.get_or_create(&of_target(target)).inc();
            }
            GatewayEvent::Called(record) => self.called(record),
            GatewayEvent::Started { .. } => {
                self.starts.inc();
            }
            GatewayEvent::Ended { .. } => {
                self.ends.inc();
            }
            GatewayEvent::Refused { why } => {
                let reason = vec![("reason", reason(why).to_owned())];
                self.refused.get_or_create(&reason).inc();
            }
            _ => {}
        }
    }

    fn called(&self, record: &CallRecord) {
        let mut labels = of_target(&record.target);
        self.in_flight.get_or_create(&labels).dec();
        self.learn(record.listed_tools());
        let method = record.method.facts().map_or(OTHER, |_| record.method.as_str());
        labels.push(("mcp_method_name", method.to_owned()));
        if record.method == Method::CallTool {
            let tool = record.subject().filter(|tool| self.tools().contains(tool));
            labels.push(("gen_ai_tool_name", tool.unwrap_or_else(|| OTHER.to_owned())));
        }
        self.durations.get_or_create(&labels).observe(record.duration.as_secs_f64());
        labels.push(("outcome", record.outcome.word().to_owned()));
        if let Some(error) = error_type(record.outcome) {
            labels.push(("error_type", error));
        }
        self.calls.get_or_create(&labels).inc();
    }

    fn tools(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tools of a list have labels of their own from now on, as far as there is room.
    fn learn(&self, listed: Vec<String>) {
        let mut tools = self.tools();
        for tool in listed {
            if tools.len() < MAX_TOOL_LABELS && tool.len() <= MAX_TOOL_LABEL_BYTES {
                tools.insert(tool);
            }
        }
    }

    /// All metrics as text.
    pub(super) fn text(&self, targets: &[TargetStatus], servers: usize, sessions: usize) -> String {
        for target in targets {
            self.up.get_or_create(&of_target(&target.name)).set(i64::from(target.state.is_ready()));
        }
        self.servers.set(i64::try_from(servers).unwrap_or(i64::MAX));
        self.sessions.set(i64::try_from(sessions).unwrap_or(i64::MAX));
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes every text");
        text
    }
}

/// The same metrics in the text format of Prometheus, version 0.0.4: there the name of a counter ends with `_total`, and neither
/// units nor the end are written.
/// <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>
pub(super) fn in_prometheus_format(open_metrics: &str) -> String {
    let described = |line: &'_ str| {
        let (kind, rest) = line.strip_prefix("# ")?.split_once(' ')?;
        let (name, rest) = rest.split_once(' ')?;
        Some([kind, name, rest].map(ToOwned::to_owned))
    };
    let all = open_metrics.lines().filter_map(described);
    let counters: BTreeSet<String> =
        all.filter(|[kind, _, rest]| kind == "TYPE" && rest == "counter").map(|[_, name, _]| name).collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines().filter(|line| *line != "# EOF" && !line.starts_with("# UNIT ")) {
        match described(line).filter(|[_, name, _]| counters.contains(name)) {
            Some([kind, name, rest]) => text += &format!("# {kind} {name}_total {rest}"),
            None => text += line,
        }
        text.push('\n');
    }
    text
}

fn of_target(target: &str) -> Labels {
    vec![("mcpjoin_target", target.to_owned())]
}

/// The `error.type` of the conventions. A server chooses its codes, so only those of JSON-RPC and of the protocol have a
/// value of their own.
fn error_type(outcome: CallOutcome) -> Option<String> {
    match outcome {
        CallOutcome::ToolError => Some("tool_error".to_owned()),
        CallOutcome::Error { code: code @ (-32700 | -32603..=-32600 | -32042 | -32021..=-32000) } => {
            Some(code.to_string())
        }
        CallOutcome::Error { .. } => Some(OTHER.to_owned()),
        _ => None,
    }
}

const fn reason(why: &Refusal) -> &'static str {
    match why {
        Refusal::NotStarted(_) => "not_started",
        Refusal::Gone(_) => "gone",
        Refusal::TooMany { .. } => "too_many_servers",
        Refusal::TooManyStarts { .. } => "too_many_starts",
        Refusal::Closed => "closed",
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::{MAX_TOOL_LABEL_BYTES, MAX_TOOL_LABELS, Metrics, in_prometheus_format};

    #[test]
    fn the_older_format_names_counters_by_their_samples_and_has_no_units() {
        let open_metrics = "# HELP calls Calls, all of them.\n# TYPE calls counter\ncalls_total{a=\"b\"} 1\n\
                            # HELP time_seconds Time.\n# TYPE time_seconds histogram\n# UNIT time_seconds seconds\ntime_seconds_sum 2\n# EOF\n";
        let expected = "# HELP calls_total Calls, all of them.\n# TYPE calls_total counter\ncalls_total{a=\"b\"} 1\n\
                        # HELP time_seconds Time.\n# TYPE time_seconds histogram\ntime_seconds_sum 2\n";
        assert_eq!(in_prometheus_format(open_metrics), expected);
    }

    #[test]
    fn tools_with_a_label_of_their_own_are_limited_and_long_names_have_none() {
        let metrics = Metrics::new(Counter::default(), false);
        metrics.learn(vec!["x".repeat(MAX_TOOL_LABEL_BYTES + 1)]);
        assert!(metrics.tools().is_empty());
        metrics.learn((0..=MAX_TOOL_LABELS).map(|number| number.to_string()).collect());
        assert_eq!(metrics.tools().len(), MAX_TOOL_LABELS);
        assert!(metrics.tools().contains("0") && !metrics.tools().contains(&MAX_TOOL_LABELS.to_string()));
    }
}
