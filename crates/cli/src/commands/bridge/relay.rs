//! `mcpjoin bridge TARGET`: any MCP server for any MCP client, on standard input and output or at addresses.
//! `mcpjoin_gateway` relays; this file parses the options, reports events, and ends what it has started.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcpjoin::proto::http::origin::OriginError;
use mcpjoin::proto::session::{EraChoice, Limits};
use mcpjoin::server::{SealingKeys, StateKey};
use mcpjoin::transport::{ChildCommand, HttpListener, HttpOptions, Listener, Replicas};
use mcpjoin_gateway::{Gateway, GatewayBuilder, GatewayEnd, GatewayEvent, Refusal};
use mcpjoin_redis::Redis;
use tracing::level_filters::LevelFilter;

use super::admin::Monitoring;
use super::keys::KeyFile;
use super::policy::PolicyFile;
use super::serving::{self, Bridged};
use super::state;
use super::upstream::Upstream;
use super::{misplaced, of_http};
use crate::args::Bridge;
use crate::commands::diff::{Detail, details, sentence};
use crate::commands::listening::{Address, Listening, QuicOptions, Serves};
use crate::commands::serve::client_failure;
use crate::commands::{exit_of, note_terminal, target_of};
use crate::connect::{Endpoint, Plan, certificates, with_plan};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::{Target, shown, words_shown};
use crate::telemetry::Telemetry;
use crate::ui::Ui;
use crate::visible;

/// The default timeout of a request without progress. It is long: the client before the bridge has a timeout of its
/// own, which the bridge must not undercut.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// The default limit of servers at the same time.
const DEFAULT_MAX_SESSIONS: u32 = 100;
/// How long a session of a client that does nothing is kept.
const DEFAULT_SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// How long a reason to refuse a client is not reported again.
const REFUSED_AGE: Duration = Duration::from_secs(60);
/// How many such reasons are remembered.
const MAX_REFUSED: usize = 32;
/// The name of a server that is no entry of a configuration.
const TARGET_NAME: &str = "server";

/// Runs the bridge until the client, or a signal, ends it. `escaped`: `--` stood before the first word.
pub(super) fn run(ui: &Ui, mut args: Bridge, escaped: bool) -> Result<Exit, Failure> {
    let places = Places::of(ui, &mut args)?;
    let words = std::mem::take(&mut args.words);
    let typed = match args.connect.server() {
        Some(name) => format!("--server {}", shown(name.as_ref())),
        None => words_shown(&words),
    };
    let verb = if places.addresses.is_empty() { "bridge" } else { "bridge --listen ADDRESS" };
    let target = target_of(ui, verb, &args.connect, words, escaped)?;
    if places.addresses.is_empty() {
        note_terminal(ui, &format!("mcpjoin bridge --listen http://localhost:8080/mcp {typed}"));
    }
    let telemetry = Telemetry::start(ui, LevelFilter::WARN);
    let exit = with_plan(ui, &target, &args.connect, async |plan, mut signals| {
        let name = match &target {
            Target::Entry(named) if plan.place.is_some() => named.name.clone(),
            _ => TARGET_NAME.to_owned(),
        };
        let names = [name];
        let make = |policy: Option<&PolicyFile>, monitoring: &Monitoring| {
            let [name] = names.clone();
            Relay::new(ui, plan, &args, name, policy, monitoring)
        };
        exit_of(ui, serving::run(ui, &args, &places, &names, &telemetry, &mut signals, make).await)
    });
    telemetry.end();
    Ok(exit)
}

/// Where clients are served, and how over HTTP and QUIC.
pub(super) struct Places {
    pub(super) addresses: Vec<Address>,
    pub(super) quic: QuicOptions,
    pub(super) options: HttpOptions,
    /// The keys that other bridges have as well.
    pub(super) keys: Option<KeyFile>,
    /// What they share beside.
    pub(super) state: Option<Redis>,
}

impl Places {
    /// Reads the options, and refuses those without effect.
    pub(super) fn of(ui: &Ui, args: &mut Bridge) -> Result<Self, Failure> {
        let addresses: Vec<Address> =
            args.listen.iter().map(|word| Address::parse(word)).collect::<Result<_, _>>()?;
        misplaced(
            &[("--also", !args.also.is_empty())],
            "for Orchestra's clients",
            "--listen orchestra://...",
        )?;
        if !addresses.iter().any(Address::is_http) {
            misplaced(&of_http(args), "for clients over HTTP", "--listen http://host:port/path")?;
        }
        let mut quic = QuicOptions { identity: None, client_ca: args.client_ca.take() };
        if addresses.iter().any(Address::is_encrypted) {
            quic.identity = args.connect.cert.take().zip(args.connect.key.take());
        } else {
            let asks = [("--client-ca", quic.client_ca.is_some())];
            misplaced(
                &asks,
                "for clients over QUIC or HTTPS",
                "--listen quic://host:port or https://host:port/path",
            )?;
        }
        let mut options = http_options(args)?;
        let keys = args.key_file.as_deref().map(|file| KeyFile::open(ui, file)).transpose()?;
        let mut state = None;
        if let Some(keys) = &keys {
            state = state::open(ui, args, keys.keys())?;
            let idle = args.session_idle.unwrap_or(DEFAULT_SESSION_IDLE);
            options = state::stores(options, keys.keys(), state.as_ref(), idle);
            if let Some(url) = &args.advertise {
                options = options.replicas(replicas(url, keys.keys(), args.connect.ca.as_deref())?);
            }
        }
        args.connect.for_others = !addresses.is_empty();
        Ok(Self { addresses, quic, options, keys, state })
    }
}

/// The other bridges with these keys, which reach this one at `url`.
fn replicas(url: &str, keys: SealingKeys, ca: Option<&Path>) -> Result<Replicas, Failure> {
    let authorities = ca.map(|path| certificates("--ca", path)).transpose()?;
    Replicas::new(url, keys, authorities.as_slice()).map_err(|error| {
        let form = "--advertise http://host:port, as the other bridges reach this one";
        Failure::usage(format!("--advertise: {}", visible::line(&error.to_string())), form)
    })
}

/// Checks the address for the other bridges, for `--check-config`.
pub(super) fn check_address(args: &Bridge) -> Result<(), Failure> {
    let Some(url) = &args.advertise else { return Ok(()) };
    // Nothing is sealed: any key will do.
    let keys = SealingKeys::new(StateKey::from_bytes([0; 32]), []);
    replicas(url, keys, args.connect.ca.as_deref()).map(drop)
}

/// The options for serving over HTTP: allowed hosts and origins, and limits.
fn http_options(args: &Bridge) -> Result<HttpOptions, Failure> {
    let wrong = |option: &str, word: &str, error: OriginError, hint: &str| {
        Failure::usage(format!("{option} {}: {error}", shown(word.as_ref())), hint)
    };
    let mut options = HttpOptions::new().max_sessions(sessions(args)).cors(!args.allow_origin.is_empty());
    options = options.session_idle(args.session_idle.unwrap_or(DEFAULT_SESSION_IDLE));
    for host in &args.allow_host {
        options = options.allow_host(host).map_err(|error| {
            wrong("--allow-host", host, error, "--allow-host HOST or HOST:PORT, as clients name it")
        })?;
    }
    for origin in &args.allow_origin {
        options = options.allow_origin(origin).map_err(|error| {
            let hint = "--allow-origin scheme://host or scheme://host:port, one for each";
            wrong("--allow-origin", origin, error, hint)
        })?;
    }
    Ok(options)
}

impl Serves for Gateway {
    async fn all(&self, listener: Listener, end: impl Future<Output = ()>) {
        self.serve_all(listener, end).await;
    }

    async fn http(&self, listener: HttpListener, options: HttpOptions, end: impl Future<Output = ()>) {
        self.serve_http(listener, options, end).await;
    }
}

/// The gateway to one server before it is built, and what else is known about the server.
pub(super) struct TargetGateway {
    /// The command or the address of the server.
    shown: String,
    pub(super) upstream: Upstream,
    /// The program of the server, if it is one.
    pub(super) program: Option<ChildCommand>,
    pub(super) builder: GatewayBuilder,
}

impl TargetGateway {
    /// `joined`: its name among several servers, which begins what is reported about it.
    pub(super) fn new(
        ui: &Ui,
        plan: Plan,
        args: &Bridge,
        name: String,
        policy: Option<&PolicyFile>,
        joined: Option<&str>,
        monitoring: &Monitoring,
    ) -> Result<Self, Failure> {
        let Plan { endpoint, shown, first, tools, limits, timeout, .. } = plan;
        refuse_itself(args, &endpoint, &shown)?;
        let program = endpoint.command().cloned();
        // A client of the legacy era makes the gateway send `initialize` first.
        let first = if args.connect.era.has_legacy() { Phase::Initialize } else { first };
        let access = policy.map(|policy| policy.access(ui, &name, &endpoint, &args.authorization));
        let endpoint = match joined {
            Some(name) => endpoint.named(ui, name),
            None => endpoint,
        };
        let upstream = Upstream::new(ui, endpoint, access.transpose()?.flatten(), first);
        let start = upstream.clone();
        let gateway = match upstream.is_by_principal() {
            true => {
                Gateway::builder_by_principal(move |principal| start.clone().link(principal.map(Into::into)))
            }
            false => Gateway::builder(move || start.clone().link(None)),
        };
        // Only the size of messages is limited for connections to clients.
        let mut downstream = Limits::default();
        downstream.message = limits.message;
        let mut gateway = gateway
            .name(name)
            .limits(downstream)
            .upstream_limits(limits)
            .timeout(timeout.unwrap_or(DEFAULT_TIMEOUT))
            .upstreams(sessions(args))
            .tools(move |tool| tools.allows(tool))
            .words({
                let ui = ui.clone();
                move |text| ui.hidden(text).into_owned()
            });
        if let Some(policy) = policy {
            gateway = gateway.policy(policy.shared());
        }
        if let Some(era) = args.connect.era.asked() {
            gateway = gateway.era(EraChoice::Only(era));
        }
        if let Some(version) = &args.connect.protocol_version {
            gateway = gateway.protocol_version(version.clone());
        }
        let report = EventReport {
            ui: ui.clone(),
            shown: shown.clone(),
            joined: joined.map(ToOwned::to_owned),
            upstream: upstream.clone(),
            there: Mutex::default(),
            refused: Mutex::default(),
        };
        // On standard input and output the refusal of the only client ends the bridge, and is reported there. A server
        // among several ends nothing.
        let listens = !args.listen.is_empty() || joined.is_some();
        let Monitoring { audit, metrics, .. } = monitoring.clone();
        if metrics.is_some() || audit.is_some() {
            gateway = gateway.record_calls();
        }
        let builder = gateway.on_event(move |event| {
            if let Some(metrics) = &metrics {
                metrics.event(event);
            }
            if let (Some(audit), GatewayEvent::Called(record)) = (&audit, event) {
                audit.record(record);
            }
            report.event(event, listens);
        });
        Ok(Self { shown, upstream, program, builder })
    }
}

/// Refuses a server that is the bridge itself: each request would come back as another one.
fn refuse_itself(args: &Bridge, endpoint: &Endpoint, name: &str) -> Result<(), Failure> {
    let Some(server) = endpoint.bound() else { return Ok(()) };
    for word in &args.listen {
        if Address::parse(word)?.bound().is_some_and(|here| here.is_reached_by(&server)) {
            let problem = format!("{name} is the bridge itself: it listens at {}", shown(word.as_ref()));
            return Err(Failure::usage(
                problem,
                "name the server behind the bridge, or another address in --listen",
            ));
        }
    }
    Ok(())
}

/// A gateway and its server.
struct Relay {
    ui: Ui,
    /// The command or the address of the server.
    shown: String,
    upstream: Upstream,
    /// The program of the server, if it is one.
    program: Option<ChildCommand>,
    gateway: Gateway,
    began: Instant,
}

impl Relay {
    fn new(
        ui: &Ui,
        plan: Plan,
        args: &Bridge,
        name: String,
        policy: Option<&PolicyFile>,
        monitoring: &Monitoring,
    ) -> Result<Self, Failure> {
        let TargetGateway { shown, upstream, program, builder } =
            TargetGateway::new(ui, plan, args, name, policy, None, monitoring)?;
        let gateway = monitoring.telemetry.gateway(builder).build();
        Ok(Self { ui: ui.clone(), shown, upstream, program, gateway, began: Instant::now() })
    }
}

impl Bridged for Relay {
    type Gateway = Gateway;

    fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// A missing program is reported at the start, and not to the first client.
    fn check(&self) -> Result<(), Failure> {
        let Some(program) = &self.program else { return Ok(()) };
        let missing = |error| self.upstream.not_started(&error).with(&self.shown, self.began.elapsed());
        program.resolve().map(drop).map_err(missing)
    }

    fn opens(&self) {}

    fn announce(&self, listening: &Listening, _: &Places) {
        listening.announce(&self.ui);
    }

    fn failure(&self, end: &GatewayEnd) -> Option<Failure> {
        match end {
            GatewayEnd::Client(cause) => client_failure(cause),
            GatewayEnd::NoServer(refusal) => {
                Some(refused(&self.upstream, refusal).with(&self.shown, self.began.elapsed()))
            }
            end => Some(Failure::new("E_CLOSED", Exit::Connection, Phase::Serve, end.to_string())),
        }
    }
}

/// The maximum number of servers at the same time.
fn sessions(args: &Bridge) -> usize {
    usize::try_from(args.max_sessions.unwrap_or(DEFAULT_MAX_SESSIONS)).unwrap_or(usize::MAX)
}

/// Why a client gets no server.
fn refused(upstream: &Upstream, refusal: &Refusal) -> Failure {
    match refusal {
        Refusal::NotStarted(end) => upstream.failure(end),
        Refusal::Gone(gone) => upstream.gone(gone),
        Refusal::NotReady { .. } => {
            Failure::new("E_TIMEOUT", Exit::Connection, Phase::Initialize, refusal.to_string())
                .hint("keep standard input open until the response has come")
        }
        refusal => Failure::new("E_REFUSED", Exit::Connection, Phase::Serve, refusal.to_string())
            .hint("raise the limit with --max-sessions"),
    }
}

/// Reports events of clients and servers.
struct EventReport {
    ui: Ui,
    shown: String,
    /// The name of the server among several.
    joined: Option<String>,
    upstream: Upstream,
    /// The connections that were established and have not ended.
    there: Mutex<BTreeSet<u64>>,
    /// The last reasons to refuse clients, the oldest first. A client that tries again and again is reported once a minute.
    /// The lines of standard error do not count: the place of a log, or a time, differs at each start.
    refused: Mutex<VecDeque<(String, Instant)>>,
}

impl EventReport {
    fn there(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn event(&self, event: &GatewayEvent<'_>, listens: bool) {
        let Self { ui, shown, upstream, .. } = self;
        let server = self.joined.as_deref().unwrap_or("the server");
        match event {
            GatewayEvent::Started { upstream, run: 1 } => {
                // That one principal has access says nothing about the others.
                if !self.upstream.is_by_principal() {
                    self.refused.lock().unwrap_or_else(PoisonError::into_inner).clear();
                }
                self.there().insert(*upstream);
                ui.detail(&format!("connection {upstream} to {server} is there: {shown}"));
            }
            GatewayEvent::Started { upstream, .. } => {
                ui.note(&format!("connection {upstream} to {server} is there again"));
            }
            GatewayEvent::Ended { upstream, end, next: Some(pause) } => {
                let end = visible::line(&end.to_string()).into_owned();
                ui.warning(&format!(
                    "connection {upstream} to {server}: {end}; it is started again in {} ms",
                    pause.as_millis()
                ));
            }
            // The end of a connection that was never established is reported by the refusal of its client.
            GatewayEvent::Ended { upstream, end, next: None } if self.there().contains(upstream) => {
                let end = visible::line(&end.to_string()).into_owned();
                ui.warning(&format!("connection {upstream} to {server}: {end}; it is not opened again"));
            }
            GatewayEvent::Over { upstream } => {
                self.there().remove(upstream);
                ui.detail(&format!("connection {upstream} to {server} is over"));
            }
            GatewayEvent::Withheld { target, tool, changes } => {
                ui.warning(&format!(
                    "the tool {} of {} is hidden from clients, because it differs from the pinned one",
                    visible::line(tool),
                    visible::line(target)
                ));
                for change in *changes {
                    ui.warning(&format!("  {} {}", change.class.as_str(), sentence(change)));
                    for detail in details(change) {
                        match detail {
                            Detail::Removed(text) => ui.warning(&format!("  - {text}")),
                            Detail::Added(text) => ui.warning(&format!("  + {text}")),
                            Detail::Note(text) => ui.warning(&format!("  {text}")),
                        }
                    }
                }
            }
            GatewayEvent::Refused { why } if listens => {
                let mut failure = refused(upstream, why);
                failure.seen.server = Some(shown.clone());
                if let Some(name) = &self.joined {
                    failure.message = format!("{name}: {}", failure.message);
                }
                let reason = failure.message.clone();
                let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                refused.retain(|(_, at)| at.elapsed() < REFUSED_AGE);
                if refused.iter().any(|(known, _)| *known == reason) {
                    ui.detail(&format!("another client was refused: {}", visible::line(&reason)));
                } else {
                    ui.failure(&failure);
                    if refused.len() >= MAX_REFUSED {
                        refused.pop_front();
                    }
                    refused.push_back((reason, Instant::now()));
                }
            }
            _ => {}
        }
    }
}
