//! What is wrong with a server that is started as a child: an examination, phase by phase.
//!
//! [`Doctor`] looks up the program, starts it, finds out how it speaks, reads its lists and ends it, with the time of
//! each part, and says what is wrong: what was seen, what it means, one thing to do. Called by `mcpjoin doctor` and by
//! whoever wants to know why a server does not connect. It calls no tool, prints nothing and leaves no process.
//!
//! ```no_run
//! use mcpjoin::Client;
//! use mcpjoin::doctor::Doctor;
//! use mcpjoin::link::ChildCommand;
//!
//! # async fn example() {
//! let command = ChildCommand::new("my-server").arg("--stdio");
//! let report = Doctor::new(command, Client::builder("my-client", "1.0.0")).examine().await;
//! for finding in &report.findings {
//!     println!("{}: {} ({})", finding.id, finding.seen, finding.advice);
//! }
//! assert!(report.is_healthy(), "{} checks of {}", report.run(), report.checks.len());
//! # }
//! ```
//!
//! How a client should start and end such a server is in the specification:
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio>.

mod diagnosis;
mod report;
mod resolve;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::Peer;
use mcpjoin_proto::{Era, Method, code};
use tokio::time::Instant;

pub use report::{Check, Evidence, Finding, Listing, Outcome, Phase, Report, Step};

use self::resolve::Resolved;
use self::wire::{Answer, Seen, Wire};
use crate::client::{Client, ClientBuilder, ClientError, Listed, Pages};
use crate::link::{ChildCommand, ChildHandle, Link};

/// How long a server may take to its first answer before that is a finding: 5 s, as long as the probe of the era waits.
const SLOW: Duration = Duration::from_secs(5);

const NO_CONNECTION: &str = "there was no connection";
const NOT_PROBED: &str = "the era was not probed";
const NOT_STARTED: &str = "the server was not started";
const DEAD: &str = "the server had ended";

/// An examination to be. It is made by [`examine`](Self::examine).
#[must_use = "nothing is examined before `examine`"]
pub struct Doctor {
    command: ChildCommand,
    client: ClientBuilder,
    slow: Duration,
    begun: Option<Box<dyn Fn(Phase) + Send + Sync>>,
}

impl Doctor {
    /// Examines what this command starts, as this client talks to it. Whatever the client does with violations is
    /// replaced: they are in the report.
    pub fn new(command: ChildCommand, client: ClientBuilder) -> Self {
        Self { command, client, slow: SLOW, begun: None }
    }

    /// How long a server may take to its first answer before that is a finding: 5 s.
    pub const fn slow_start(mut self, bound: Duration) -> Self {
        self.slow = bound;
        self
    }

    /// Hears of each phase as it begins. Must not block.
    pub fn on_phase(mut self, begun: impl Fn(Phase) + Send + Sync + 'static) -> Self {
        self.begun = Some(Box::new(begun));
        self
    }

    /// Does all of it. When it is over nothing that it has started is left, but what [`Check::Family`] names.
    ///
    /// Takes as long as the client's limits and the shutdown of the command allow, and 5 s at most for a runtime that
    /// is asked for its version. Dropped before it is ready, it ends what it has started.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O and time.
    pub async fn examine(self) -> Report {
        let started = Instant::now();
        let mut course = Course::new(self.begun);
        let handle = self.command.handle();

        course.begin(Phase::Resolve);
        course.notes = resolve::notes(&self.command);
        let resolved = match resolve::resolve(&self.command).await {
            Ok(resolved) => resolved,
            Err(finding) => {
                if finding.check == Check::Runtime {
                    course.pass(Check::Program);
                }
                course.fail(*finding);
                return course.report(started);
            }
        };
        course.resolved(&resolved);

        course.begin(Phase::Spawn);
        let wire = Wire::default();
        let link = match self.command.start().await {
            Ok(link) => link,
            Err(error) => {
                let interpreter = resolved.interpreter.as_deref();
                course.fail(*diagnosis::unstarted(Phase::Spawn, &error, interpreter));
                return course.report(started);
            }
        };
        course.pass(Check::Start);
        let pid = handle.pid();
        course.end(pid.map_or_else(String::new, |pid| format!("process {pid}")));

        let opening = Opening { began: course.since, pid, slow: self.slow };
        course.begin(Phase::Probe);
        let Some(client) = opening.connect(&mut course, &wire, link, self.client, &handle).await else {
            course.stderr = diagnosis::last_lines(&handle.stderr());
            return course.report(started);
        };
        let alive = course.lists(&client).await;
        course.shut_down(client, &handle, alive).await;
        course.heard(&wire.seen());
        course.stderr = diagnosis::last_lines(&handle.stderr());
        course.report(started)
    }
}

impl fmt::Debug for Doctor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doctor")
            .field("command", &self.command)
            .field("client", &self.client)
            .field("slow", &self.slow)
            .finish_non_exhaustive()
    }
}

/// The opening of a connection, as it is judged.
struct Opening {
    /// When the program was about to be started.
    began: Instant,
    /// The process of the first start.
    pid: Option<u32>,
    slow: Duration,
}

impl Opening {
    /// Connects; the probe has begun. `None` when there is no connection, and a finding says why.
    async fn connect(
        self,
        course: &mut Course,
        wire: &Wire,
        link: Link,
        client: ClientBuilder,
        handle: &ChildHandle,
    ) -> Option<Client> {
        let (tapped, told) = (wire.clone(), wire.clone());
        let link = link.tapped(move |way, crossed| tapped.crossed(way, crossed));
        let client = client.on_violation(move |violation| told.violation(violation));
        let outcome = client.connect(link).await;
        let now = Instant::now();
        wire.opened();
        let seen = wire.seen();
        let restarted = handle.pid() != self.pid;
        self.probed(course, &seen, now, restarted, outcome.is_ok());
        match outcome {
            Ok(client) => {
                self.agreed(course, &seen, now, restarted, client.peer());
                Some(client)
            }
            Err(error) => {
                course.fail(diagnosis::unopened(course.phase, &error.cause, &seen, &handle.stderr()));
                None
            }
        }
    }

    /// What became of the probe, and with it where the opening is now.
    fn probed(&self, course: &mut Course, seen: &Seen, now: Instant, restarted: bool, connected: bool) {
        let Some(asked) = seen.probe else {
            course.skip(Phase::Probe, "the legacy era was asked for");
            course.not_run([Check::ProbeSurvived, Check::ProbeAnswered], NOT_PROBED);
            course.begin_at(Phase::Initialize, seen.initialize.map_or(self.began, |(first, _)| first));
            return;
        };
        let Some((first, _)) = seen.initialize else {
            // The modern era, or the probe was the end of it all.
            course.since = asked;
            return;
        };
        let until = seen.answered.as_ref().map_or(first, |(at, _)| (*at).min(first));
        if restarted {
            // The second start begins with `initialize`: with both of them dead it was not the probe.
            if connected {
                course.fault(diagnosis::killed_by_probe());
            }
            course.not_run([Check::ProbeAnswered], "the server ended when it was probed");
            course.step(
                Outcome::Passed,
                asked,
                first,
                "the server ended, and was started a second time".into(),
            );
        } else {
            if connected {
                course.pass(Check::ProbeSurvived);
            }
            match &seen.answered {
                Some((_, Answer::Error(code))) => {
                    course.pass(Check::ProbeAnswered);
                    let detail = format!("answered with JSON-RPC error {code}: the legacy era");
                    course.step(Outcome::Passed, asked, until, detail);
                }
                Some((_, Answer::Result)) => {
                    course.pass(Check::ProbeAnswered);
                    course.step(Outcome::Passed, asked, until, "answered with another result".into());
                }
                None => {
                    if connected {
                        course.fault(diagnosis::mute(first - asked));
                    }
                    course.step(Outcome::Passed, asked, until, "no answer".into());
                }
            }
        }
        course.begin_at(Phase::Initialize, first.min(now));
    }

    /// Client and server agree.
    fn agreed(&self, course: &mut Course, seen: &Seen, now: Instant, restarted: bool, peer: Arc<Peer>) {
        let name = peer.info.as_ref().map_or_else(
            || "a server without a name".to_owned(),
            |info| format!("{} {}", info.name, info.version),
        );
        let era = peer.profile.era;
        let spoken = format!("{name}, protocol {} ({})", peer.profile.version.as_str(), era_name(era));
        course.pass(Check::Opening);
        if era == Era::Modern {
            course.pass(Check::ProbeSurvived);
            course.pass(Check::ProbeAnswered);
            course.phase = Phase::Probe;
            course.end(spoken);
            course.skip(Phase::Initialize, "the modern era has none");
        } else {
            course.end(spoken);
        }
        let mute = seen.probe.is_some() && seen.answered.is_none();
        let took = match seen.initialize {
            // How long the program took to start is not known then: `initialize` alone is judged.
            Some((_, last)) if restarted || mute => now - last,
            _ => seen.first.unwrap_or(now) - self.began,
        };
        if took > self.slow {
            course.fault(diagnosis::slow(course.last(), took, self.slow));
        } else {
            course.pass(Check::Speed);
        }
        course.peer = Some(Arc::unwrap_or_clone(peer));
    }
}

const fn era_name(era: Era) -> &'static str {
    match era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
    }
}

/// An examination under way.
struct Course {
    begun: Option<Box<dyn Fn(Phase) + Send + Sync>>,
    phase: Phase,
    since: Instant,
    steps: Vec<Step>,
    checks: Vec<(Check, Outcome)>,
    findings: Vec<Finding>,
    notes: Vec<String>,
    stderr: Vec<String>,
    peer: Option<Peer>,
    lists: Vec<Listing>,
}

impl Course {
    fn new(begun: Option<Box<dyn Fn(Phase) + Send + Sync>>) -> Self {
        Self {
            begun,
            phase: Phase::Resolve,
            since: Instant::now(),
            steps: Vec::new(),
            checks: Vec::new(),
            findings: Vec::new(),
            notes: Vec::new(),
            stderr: Vec::new(),
            peer: None,
            lists: Vec::new(),
        }
    }

    fn begin(&mut self, phase: Phase) {
        self.begin_at(phase, Instant::now());
    }

    fn begin_at(&mut self, phase: Phase, since: Instant) {
        self.phase = phase;
        self.since = since;
        if let Some(begun) = &self.begun {
            begun(phase);
        }
    }

    /// The phase under way went as it should.
    fn end(&mut self, detail: String) {
        self.step(Outcome::Passed, self.since, Instant::now(), detail);
    }

    fn step(&mut self, outcome: Outcome, from: Instant, to: Instant, detail: String) {
        let took = Some(to.saturating_duration_since(from));
        self.steps.push(Step { phase: self.phase, outcome, took, detail });
    }

    fn skip(&mut self, phase: Phase, why: &'static str) {
        let outcome = Outcome::NotRun(why);
        self.steps.push(Step { phase, outcome, took: None, detail: why.to_owned() });
    }

    /// The last phase that was run.
    fn last(&self) -> Phase {
        let ran = self.steps.iter().rev().find(|step| step.took.is_some());
        ran.map_or(self.phase, |step| step.phase)
    }

    /// The phase under way ended with this.
    fn fail(&mut self, finding: Finding) {
        let detail = finding.id.to_owned();
        self.fault(finding);
        self.step(Outcome::Failed, self.since, Instant::now(), detail);
    }

    fn fault(&mut self, finding: Finding) {
        self.mark(finding.check, Outcome::Failed);
        self.findings.push(finding);
    }

    fn pass(&mut self, check: Check) {
        self.mark(check, Outcome::Passed);
    }

    fn not_run<const N: usize>(&mut self, checks: [Check; N], why: &'static str) {
        for check in checks {
            self.mark(check, Outcome::NotRun(why));
        }
    }

    /// What has failed has failed.
    fn mark(&mut self, check: Check, outcome: Outcome) {
        match self.checks.iter_mut().find(|(known, _)| *known == check) {
            Some((_, known)) if *known == Outcome::Failed => {}
            Some((_, known)) => *known = outcome,
            None => self.checks.push((check, outcome)),
        }
    }

    fn resolved(&mut self, resolved: &Resolved) {
        self.pass(Check::Program);
        match (&resolved.runtime, &resolved.interpreter) {
            (None, None) => self.not_run([Check::Runtime], "the program needs no runtime"),
            // Whether an interpreter by its path is there, the start tells.
            _ => self.pass(Check::Runtime),
        }
        self.end(resolved.detail());
    }

    /// Reads every list that is declared. False when the server has ended meanwhile.
    async fn lists(&mut self, client: &Client) -> bool {
        self.begin(Phase::List);
        let peer = client.peer();
        let declared = peer.server_capabilities();
        let tools = declared.is_some_and(|server| server.tools.is_some());
        let resources = declared.is_some_and(|server| server.resources.is_some());
        let prompts = declared.is_some_and(|server| server.prompts.is_some());
        let before = self.findings.len();
        let alive = (!tools || self.list(Method::ListTools, client.list_tools()).await)
            && (!resources || self.list(Method::ListResources, client.list_resources()).await)
            && (!resources
                || self.list(Method::ListResourceTemplates, client.list_resource_templates()).await)
            && (!prompts || self.list(Method::ListPrompts, client.list_prompts()).await);
        let went_well = self.findings.len() == before;
        let items = |method: &Method| {
            self.lists.iter().find(|list| list.method == *method).map_or(0, |list| list.items)
        };
        let lacks_tools = tools && items(&Method::ListTools) == 0;
        let lacks_all = self.lists.iter().all(|list| list.items == 0);
        match (went_well, lacks_tools || lacks_all) {
            (false, _) => self.not_run([Check::Offer], "not every list could be read"),
            (true, true) => self.fault(diagnosis::nothing(lacks_tools)),
            (true, false) => self.pass(Check::Offer),
        }
        if went_well {
            self.pass(Check::Lists);
        } else if !alive {
            self.not_run([Check::Lists], DEAD);
        }
        let counts: Vec<String> = self.lists.iter().map(count).collect();
        let detail = match self.findings.get(before).filter(|_| !went_well) {
            Some(finding) => finding.id.to_owned(),
            None if counts.is_empty() => "no list is declared".into(),
            None => counts.join(", "),
        };
        let outcome = if went_well { Outcome::Passed } else { Outcome::Failed };
        self.step(outcome, self.since, Instant::now(), detail);
        alive
    }

    /// Reads one list. False when the server has ended meanwhile.
    async fn list<T: Listed>(&mut self, method: Method, pages: Pages<T>) -> bool {
        let began = Instant::now();
        match pages.all().await {
            Ok(items) => {
                self.lists.push(Listing { method, items: items.len(), took: began.elapsed() });
                true
            }
            // Many a server has resources and does not know the method for templates: it has none.
            Err(error) if method == Method::ListResourceTemplates && is_unknown(&error) => true,
            Err(error) => {
                self.fault(diagnosis::list(&method, &error));
                !error.is_fatal()
            }
        }
    }

    async fn shut_down(&mut self, client: Client, handle: &ChildHandle, alive: bool) {
        // What has ended by itself has ended before it was told to, whether a request has noticed or not.
        let alive = alive && handle.is_running();
        self.begin(Phase::ShutDown);
        client.close().await;
        drop(client);
        let report = handle.ended().await.unwrap_or_default();
        let checks = [Check::EndOfInput, Check::ExitStatus, Check::Family];
        if !alive {
            if !self.findings.iter().any(|finding| finding.check == Check::Life) {
                self.fault(diagnosis::ended(
                    Phase::ShutDown,
                    &mcpjoin_proto::session::LinkEnd {
                        kind: mcpjoin_proto::session::LinkEndKind::EndOfStream,
                        exit: report.exit,
                        stderr: handle.stderr(),
                    },
                ));
            }
            self.not_run(checks, DEAD);
            self.skip(Phase::ShutDown, DEAD);
            return;
        }
        self.pass(Check::Life);
        for check in checks {
            self.pass(check);
        }
        if report.forced != crate::link::Forced::No {
            self.not_run([Check::ExitStatus], "the server was ended by a signal");
        }
        let findings = diagnosis::ending(&report, &handle.stderr());
        let outcome = if findings.is_empty() { Outcome::Passed } else { Outcome::Failed };
        findings.into_iter().for_each(|finding| self.fault(finding));
        self.step(outcome, self.since, Instant::now(), diagnosis::how(&report));
    }

    /// What the server did wrong on the way.
    fn heard(&mut self, seen: &Seen) {
        for check in [Check::Output, Check::ByteOrderMark, Check::Rules] {
            self.pass(check);
        }
        let opening = if seen.initialize.is_some() { Phase::Initialize } else { Phase::Probe };
        let phase = if seen.early { opening } else { Phase::List };
        if seen.noise_lines > 0 {
            self.fault(diagnosis::noise(phase, seen));
        }
        if seen.byte_order_mark {
            self.fault(diagnosis::byte_order_mark(opening));
        }
        if seen.broken > 0 {
            self.fault(diagnosis::violations(phase, seen));
        }
    }

    fn report(mut self, started: Instant) -> Report {
        let not_reached = match self.phase {
            Phase::Resolve | Phase::Spawn => NOT_STARTED,
            _ => NO_CONNECTION,
        };
        for phase in Phase::ALL {
            if !self.steps.iter().any(|step| step.phase == phase) {
                self.skip(phase, not_reached);
            }
        }
        self.steps.sort_by_key(|step| step.phase);
        let outcome = |check| {
            let known = self.checks.iter().find(|(known, _)| *known == check);
            known.map_or(Outcome::NotRun(not_reached), |(_, outcome)| *outcome)
        };
        let checks = Check::ALL.map(|check| (check, outcome(check))).into();
        Report {
            steps: self.steps,
            checks,
            findings: self.findings,
            notes: self.notes,
            stderr: self.stderr,
            peer: self.peer,
            lists: self.lists,
            took: started.elapsed(),
        }
    }
}

fn is_unknown(error: &ClientError) -> bool {
    error.remote().is_some_and(|error| error.code == code::METHOD_NOT_FOUND)
}

/// `1 tool`, `2 prompts` ...
fn count(list: &Listing) -> String {
    let (one, many) = match list.method {
        Method::ListTools => ("tool", "tools"),
        Method::ListResources => ("resource", "resources"),
        Method::ListResourceTemplates => ("resource template", "resource templates"),
        _ => ("prompt", "prompts"),
    };
    format!("{} {}", list.items, if list.items == 1 { one } else { many })
}
