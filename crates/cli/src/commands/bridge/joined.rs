//! `mcpjoin bridge --config FILE`, `--server NAME` more than once, and `--join NAME=TARGET`: several servers behind one
//! endpoint.
//!
//! `mcpjoin_gateway` joins; this file says which servers are joined, and under which names. Used by `bridge`. What
//! concerns one server of them is in `relay`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::future::Future;

use mcpjoin::proto::session::Limits;
use mcpjoin::server::catalogue::Source;
use mcpjoin::transport::{HttpListener, HttpOptions, Listener};
use mcpjoin_gateway::{Gateway, GatewayEnd, JoinedGateway, TargetOptions, TargetState, TargetStatus};
use tracing::level_filters::LevelFilter;

use super::admin::Monitoring;
use super::misplaced;
use super::policy::PolicyFile;
use super::relay::{Places, TargetGateway};
use super::serving::{self, Bridged};
use crate::args::Bridge;
use crate::commands::listening::{Address, Listening, Serves};
use crate::commands::serve::client_failure;
use crate::commands::{exit_of, named_by, note_terminal, refuse_trace};
use crate::config;
use crate::connect::{Plan, with_plans};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::{Target, exact, shown};
use crate::telemetry::Telemetry;
use crate::ui::Ui;
use crate::visible;

/// The name that clients see of the joined server.
const NAME: &str = "mcpjoin";
/// The words before the target of a joined server.
const VERB: &str = "bridge --join";
/// The separator between the prefix and the name of a tool or prompt.
const SEPARATOR: &str = "__";

/// Whether the arguments ask for several servers behind one endpoint: by name, or all entries of a file. A file that
/// was merely found is not enough, because what it contains would become reachable for others.
pub(super) fn is_meant(args: &Bridge) -> bool {
    let is_one = !args.words.is_empty() || args.connect.server().is_some();
    !args.join.is_empty() || names_several(args) || (!is_one && args.connect.configured.is_named())
}

/// Whether `--server` is given more than once.
pub(super) fn names_several(args: &Bridge) -> bool {
    args.connect.servers.len() > 1
}

/// Runs the bridge until the client, or a signal, ends it.
pub(super) fn run(ui: &Ui, mut args: Bridge) -> Result<Exit, Failure> {
    let places = Places::of(ui, &mut args)?;
    refuse_trace(&args.connect, "several are joined")?;
    let joined = targets(ui, &args)?;
    let sources = sources(&args, &joined)?;
    if places.addresses.is_empty() {
        note_terminal(ui, "mcpjoin bridge --listen http://localhost:8080/mcp, with the same options");
    }
    let (names, targets): (Vec<String>, Vec<Target>) = joined.into_iter().unzip();
    let telemetry = Telemetry::start(ui, LevelFilter::WARN);
    let exit = with_plans(ui, &targets, &args.connect, async |plans, mut signals| {
        let make = |policy: Option<&PolicyFile>, monitoring: &Monitoring| {
            Joined::new(ui, &names, sources, plans, &args, &places, policy, monitoring)
        };
        exit_of(ui, serving::run(ui, &args, &places, &names, &telemetry, &mut signals, make).await)
    });
    telemetry.end();
    Ok(exit)
}

/// The servers to join, with their names.
fn targets(ui: &Ui, args: &Bridge) -> Result<Vec<(String, Target)>, Failure> {
    let mut targets = Vec::new();
    if args.join.is_empty() && !names_several(args) {
        for target in config::all(ui, &args.connect.configured, true)? {
            targets.push((target.label(), target));
        }
    }
    if names_several(args) {
        for (place, name) in args.connect.servers.iter().enumerate() {
            if args.connect.servers[..place].contains(name) {
                let problem = format!("--server {} is there twice", shown(name.as_ref()));
                return Err(Failure::usage(problem, "leave out one of them"));
            }
            let target = named_by(ui, "bridge", &args.connect, Some(name), args.words.clone(), false)?;
            targets.push((name.clone(), target));
        }
    }
    for word in &args.join {
        let (name, server) = word.split_once('=').unwrap_or((word, word));
        if name.is_empty() || server.is_empty() {
            let lacks = if name.is_empty() { "has no name for the server" } else { "names no server" };
            let problem = format!("--join {} {lacks}", shown(word.as_ref()));
            return Err(Failure::usage(problem, "--join NAME=TARGET, or --join NAME for an entry"));
        }
        // Without `=` the word is the name of an entry, whatever it looks like.
        let entry = (!word.contains('=')).then_some(name);
        let words = if entry.is_some() { Vec::new() } else { vec![OsString::from(server)] };
        let target = named_by(ui, VERB, &args.connect, entry, words, false)
            .map_err(|failure| joined_hint(name, failure))?;
        targets.push((name.to_owned(), target));
    }
    let mut known = BTreeSet::new();
    for (name, _) in &mut targets {
        let plain = plain(name);
        if plain != *name {
            ui.note(&format!("{} is called {plain} here", shown(name.as_ref())));
        }
        if !known.insert(plain.clone()) {
            let problem = format!("two servers are called {plain}");
            return Err(Failure::usage(problem, "give one of them another name: --join NAME=TARGET"));
        }
        *name = plain;
    }
    Ok(targets)
}

/// Makes a line for one server, which is the hint, a line that joins it: `NAME=TARGET` is one word, behind the options.
fn joined_hint(name: &str, failure: Failure) -> Failure {
    let line = failure.hint.strip_prefix("mcpjoin ").and_then(|line| line.strip_prefix(VERB));
    let Some(target) = line.map(str::trim_start) else { return failure };
    let (options, target) = target.split_once("-- ").unwrap_or(("", target));
    let hint = format!("mcpjoin bridge {options}--join {}", exact(&format!("{name}={target}")));
    failure.hint(hint)
}

/// The name with only the characters that a name of a tool and a path may have.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' }).collect()
}

/// How the names of each server are joined: with its own name as the prefix, or that of `--prefix`.
fn sources(args: &Bridge, joined: &[(String, Target)]) -> Result<Vec<Source>, Failure> {
    let mut sources: Vec<Source> = joined.iter().map(|(name, _)| Source::new(name)).collect();
    let mut known = BTreeSet::new();
    for word in &args.prefix {
        let usage = |problem: String| Failure::usage(problem, "--prefix NAME=PREFIX, one for each");
        let (name, prefix) = word
            .split_once('=')
            .ok_or_else(|| usage(format!("--prefix {} names no prefix", shown(word.as_ref()))))?;
        let place = joined.iter().position(|(known, _)| known == name);
        let Some(place) = place else {
            let names: Vec<&str> = joined.iter().map(|(name, _)| &**name).collect();
            let problem = format!("no server is called {}", shown(name.as_ref()));
            return Err(Failure::usage(problem, format!("the servers are {}", names.join(", "))));
        };
        if !known.insert(place) {
            return Err(usage(format!("--prefix gives two prefixes for {name}")));
        }
        sources[place] = Source::new(prefix.strip_suffix(SEPARATOR).unwrap_or(prefix));
    }
    Ok(sources)
}

impl Serves for JoinedGateway {
    async fn all(&self, listener: Listener, end: impl Future<Output = ()>) {
        self.serve_all(listener, end).await;
    }

    async fn http(&self, listener: HttpListener, options: HttpOptions, end: impl Future<Output = ()>) {
        self.serve_http(listener, options, end).await;
    }
}

/// The joined servers.
struct Joined {
    ui: Ui,
    names: Vec<String>,
    sources: Vec<Source>,
    gateway: JoinedGateway,
}

impl Joined {
    #[allow(clippy::too_many_arguments, reason = "what a run of the bridge has, from one caller")]
    fn new(
        ui: &Ui,
        names: &[String],
        sources: Vec<Source>,
        plans: Vec<Plan>,
        args: &Bridge,
        places: &Places,
        policy: Option<&PolicyFile>,
        monitoring: &Monitoring,
    ) -> Result<Self, Failure> {
        let mut joined = monitoring.telemetry.joined(Gateway::joined(NAME, env!("CARGO_PKG_VERSION")));
        if let Some(keys) = &places.keys {
            joined = joined.sealing_keys(keys.keys());
        }
        if let Some(redis) = &places.state {
            joined = joined.task_store(redis.tasks());
        }
        let mut limits = Limits::default();
        limits.message = plans.iter().map(|plan| plan.limits.message).max().unwrap_or(limits.message);
        for ((name, source), plan) in names.iter().zip(&sources).zip(plans) {
            let target = TargetGateway::new(ui, plan, args, name.clone(), policy, Some(name), monitoring)?;
            if let Some(Err(error)) = target.program.as_ref().map(|program| program.resolve()) {
                // The others are served without it, and it is tried again when a client needs it.
                let why = visible::line(&target.upstream.not_started(&error).message).into_owned();
                ui.warning(&format!("{name} cannot be started now: {why}"));
            }
            let options = TargetOptions::new().source(source.clone());
            joined = joined.target_with(name.as_str(), options, target.builder);
        }
        let gateway = joined.limits(limits).build();
        Ok(Self { ui: ui.clone(), names: names.to_vec(), sources, gateway })
    }
}

impl Bridged for Joined {
    type Gateway = JoinedGateway;

    fn gateway(&self) -> &JoinedGateway {
        &self.gateway
    }

    /// A server that cannot be started is one of several, and was reported as the gateway was made.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Reports the state of each server as the first client is opened: none is started before.
    fn opens(&self) {
        let (ui, gateway, sources) = (self.ui.clone(), self.gateway.clone(), self.sources.clone());
        tokio::spawn(async move {
            gateway.opened().await;
            for (target, source) in gateway.targets().iter().zip(&sources) {
                let line = state_line(target, source);
                if target.cause.is_some() {
                    ui.warning(&line);
                } else {
                    ui.note(&line);
                }
            }
        });
    }

    fn announce(&self, listening: &Listening, places: &Places) {
        self.ui.note(&format!("joins {}", self.names.join(", ")));
        listening.announce(&self.ui);
        if places.addresses.iter().any(Address::is_http) {
            self.ui.note(
                "over HTTP each server is also alone, with its own names, at the path followed by /NAME",
            );
        }
    }

    fn failure(&self, end: &GatewayEnd) -> Option<Failure> {
        match end {
            GatewayEnd::Client(cause) => client_failure(cause),
            end => Some(Failure::new("E_CLOSED", Exit::Connection, Phase::Serve, end.to_string())),
        }
    }
}

/// The state of a server, and how its tools and prompts are called.
fn state_line(target: &TargetStatus, source: &Source) -> String {
    let mut state = target.state.word().to_owned();
    if let Some(cause) = &target.cause {
        state += &format!(": {}", visible::line(cause));
    }
    if let TargetState::CoolingDown { next_attempt } = &target.state {
        state += &format!("; the next start is in {} s", next_attempt.as_secs_f64().ceil());
    }
    let names = match source.prefix() {
        "" => "its tools and prompts keep their names".to_owned(),
        _ => format!("its tools and prompts are called {}", visible::line(&source.joined("NAME"))),
    };
    format!("{}: {state}; {names}", target.name)
}

/// Refuses options that only several servers have.
pub(super) fn refuse_for_one(args: &Bridge) -> Result<(), Failure> {
    misplaced(&[("--prefix", !args.prefix.is_empty())], "for joined servers", "--join NAME=TARGET")
}
