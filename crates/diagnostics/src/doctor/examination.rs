//! An examination in progress: the report so far, the phase that runs, and the phases that all MCP servers share.
//!
//! Used by the file of each transport. `opening` adds the phases that open the session.

use std::time::Duration;

use mcpjoin_proto::session::CloseCause;
use mcpjoin_proto::{Method, code};
use tokio::time::{Instant, timeout};

use super::diagnosis;
use super::findings::*;
use super::observer::Observer;
use super::report::{Check, Finding, Listing, Outcome, Phase, Report, Step, Transport, mark};
use mcpjoin::client::{Client, ClientError, Listed, Pages};
use mcpjoin::transport::{Direction, Inspected};

/// How long one list may take in all: as long as a request that reports progress may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(600);

/// Detail of a probe without a response.
pub(super) const NO_ANSWER: &str = "no response";
pub(super) const NOT_AGREED: &str = "client and server did not agree on a version";
/// Why phases are not run after the server exited or disconnected.
pub(super) const EXITED: &str = "the server has exited";
const CLOSED: &str = "the connection has ended";

type OnStep = Box<dyn Fn(&Step) + Send + Sync>;
type Inspector = Box<dyn FnMut(Direction, Inspected<'_>) + Send>;

/// The callbacks of an examination. None of them may block.
#[derive(Default)]
pub(super) struct Callbacks {
    /// Called when a phase begins.
    pub(super) on_phase: Option<Box<dyn Fn(Phase) + Send + Sync>>,
    /// Called when a phase ends or is skipped. Its step may still change afterwards.
    pub(super) on_step: Option<OnStep>,
    /// Called with each message that crosses the link.
    pub(super) inspector: Option<Inspector>,
}

/// An examination in progress.
pub(super) struct Examination {
    pub(super) transport: Transport,
    pub(super) callbacks: Callbacks,
    /// What the report holds so far.
    pub(super) report: Report,
    pub(super) observer: Observer,
    /// A first response that takes longer is a finding.
    pub(super) slow_start: Duration,
    started: Instant,
    /// The phase that runs, and when it began.
    pub(super) phase: Phase,
    pub(super) since: Instant,
    /// The program is looked for in a registry at each start (npx, uvx).
    pub(super) fetches: bool,
    /// Why the phases after the current one are not run, if the phase alone does not say it.
    pub(super) stopped: Option<&'static str>,
}

impl Examination {
    pub(super) fn new(transport: Transport, callbacks: Callbacks, slow_start: Duration) -> Self {
        let started = Instant::now();
        Self {
            transport,
            callbacks,
            report: Report::default(),
            observer: Observer::default(),
            slow_start,
            started,
            phase: Phase::Resolve,
            since: started,
            fetches: false,
            stopped: None,
        }
    }

    pub(super) fn begin(&mut self, phase: Phase) {
        self.begin_at(phase, Instant::now());
    }

    pub(super) fn begin_at(&mut self, phase: Phase, since: Instant) {
        self.phase = phase;
        self.since = since;
        if let Some(on_phase) = &self.callbacks.on_phase {
            on_phase(phase);
        }
    }

    /// Makes a phase the current one again, without the step that it already has.
    pub(super) fn reopen(&mut self, phase: Phase, since: Instant) {
        self.report.steps.retain(|step| step.phase != phase);
        self.phase = phase;
        self.since = since;
    }

    /// Ends the current phase without a fault.
    pub(super) fn end(&mut self, detail: impl Into<String>) {
        self.step(Outcome::Passed, self.since, Instant::now(), detail);
    }

    /// Ends the current phase with a fault.
    pub(super) fn fail(&mut self, finding: Finding) {
        let detail = finding.id;
        self.add(finding);
        self.end_failed(detail);
    }

    /// Ends the current phase, the faults of which are added apart.
    pub(super) fn end_failed(&mut self, detail: impl Into<String>) {
        self.step(Outcome::Failed, self.since, Instant::now(), detail);
    }

    /// Adds the step of the current phase.
    pub(super) fn step(&mut self, outcome: Outcome, from: Instant, to: Instant, detail: impl Into<String>) {
        let took = Some(to.saturating_duration_since(from));
        self.push(Step { phase: self.phase, outcome, took, detail: detail.into() });
    }

    pub(super) fn skip(&mut self, phase: Phase, why: &'static str) {
        self.push(Step { phase, outcome: Outcome::NotRun(why), took: None, detail: why.to_owned() });
    }

    fn push(&mut self, step: Step) {
        if let Some(on_step) = &self.callbacks.on_step {
            on_step(&step);
        }
        self.report.steps.push(step);
    }

    /// The step of a phase that ended.
    pub(super) fn step_of(&mut self, phase: Phase) -> Option<&mut Step> {
        self.report.steps.iter_mut().find(|step| step.phase == phase)
    }

    /// The last phase that was run.
    pub(super) fn last_phase(&self) -> Phase {
        let ran = self.report.steps.iter().rev().find(|step| step.took.is_some());
        ran.map_or(self.phase, |step| step.phase)
    }

    /// Adds a fault, without ending the phase.
    pub(super) fn add(&mut self, finding: Finding) {
        mark(&mut self.report.checks, finding.check, Outcome::Failed);
        self.report.findings.push(finding);
    }

    pub(super) fn pass(&mut self, checks: impl IntoIterator<Item = Check>) {
        for check in checks {
            mark(&mut self.report.checks, check, Outcome::Passed);
        }
    }

    pub(super) fn not_run(&mut self, checks: impl IntoIterator<Item = Check>, why: &'static str) {
        for check in checks {
            mark(&mut self.report.checks, check, Outcome::NotRun(why));
        }
    }

    pub(super) fn has_failed(&self, check: Check) -> bool {
        self.report.checks.contains(&(check, Outcome::Failed))
    }

    /// Passes the check, or adds the fault.
    pub(super) fn decide(&mut self, check: Check, fault: Option<Finding>) {
        match fault {
            Some(finding) => self.add(finding),
            None => self.pass([check]),
        }
    }

    /// Reads every list that the server declares.
    pub(super) async fn read_lists(&mut self, client: &Client) {
        self.begin(Phase::List);
        let peer = client.peer();
        let declared = peer.server_capabilities();
        let tools = declared.is_some_and(|server| server.tools.is_some());
        let resources = declared.is_some_and(|server| server.resources.is_some());
        let prompts = declared.is_some_and(|server| server.prompts.is_some());
        let before = self.report.findings.len();
        let alive = (!tools || self.read_list(Method::ListTools, client.list_tools()).await)
            && (!resources || self.read_list(Method::ListResources, client.list_resources()).await)
            && (!resources
                || self.read_list(Method::ListResourceTemplates, client.list_resource_templates()).await)
            && (!prompts || self.read_list(Method::ListPrompts, client.list_prompts()).await);
        let lists = &self.report.lists;
        let counts: Vec<String> = lists.iter().map(count).collect();
        let tools_listed = lists.iter().any(|list| list.method == Method::ListTools && list.items > 0);
        let nothing_listed = lists.iter().all(|list| list.items == 0);
        if let Some(finding) = self.report.findings.get(before) {
            let detail = finding.id;
            self.not_run([Check::Offer], "not every list could be read");
            if !alive {
                self.not_run([Check::Lists], EXITED);
            }
            return self.end_failed(detail);
        }
        self.pass([Check::Lists]);
        let empty = if tools && !tools_listed {
            Some(NO_TOOLS.at(Phase::List, "the server declares tools and lists none"))
        } else if nothing_listed {
            let seen = "the server has no tools, resources or prompts";
            Some(NOTHING_OFFERED.at(Phase::List, seen))
        } else {
            None
        };
        self.decide(Check::Offer, empty);
        self.end(if counts.is_empty() { "no list is declared".to_owned() } else { counts.join(", ") });
    }

    /// Reads one list. False if the server ended meanwhile. Does not wait for a response that arrived and is unreadable.
    async fn read_list<T: Listed>(&mut self, method: Method, pages: Pages<T>) -> bool {
        let began = Instant::now();
        let observer = self.observer.clone();
        let read = tokio::select! {
            biased;
            read = timeout(LIST_TIMEOUT, pages.all()) => read,
            () = observer.unreadable(began) => {
                let method = method.as_str();
                self.add(match self.observer.observed().unknown_id {
                    Some(id) => LIST_MISDIRECTED.at(
                        Phase::List,
                        format!("{method}: no response has its id; one has the unknown id {id}"),
                    ),
                    None => {
                        LIST_UNREADABLE.at(Phase::List, format!("{method}: the response is not a message"))
                    }
                });
                return true;
            }
        };
        match read {
            Ok(Ok(items)) => {
                self.report.lists.push(Listing { method, items: items.len(), took: began.elapsed() });
                true
            }
            // Many servers have resources and do not know the method for templates: they have none.
            Ok(Err(error)) if method == Method::ListResourceTemplates && is_unknown(&error) => true,
            Ok(Err(error)) => {
                self.add(diagnosis::list_error(self.transport, &method, &error));
                !error.is_fatal()
            }
            Err(_) => {
                let within = seconds(LIST_TIMEOUT);
                let seen = format!("{} was not complete within {within}", method.as_str());
                self.add(LIST_ENDLESS.at(Phase::List, seen));
                true
            }
        }
    }

    /// Disconnects from a remote server. Returns true if the connection was still open.
    pub(super) async fn disconnect(&mut self, client: Client) -> bool {
        // A server that disconnected did so before we do, even if no request has failed because of it.
        let noticed = self.has_failed(Check::Life);
        let cause = client.close_cause();
        self.begin(Phase::ShutDown);
        if noticed || client.is_closed() {
            match cause.filter(|_| !noticed) {
                Some(CloseCause::Link(end)) => {
                    self.add(diagnosis::ended(self.transport, Phase::ShutDown, &end));
                }
                Some(cause) => self.add(NOT_OPENED.at(Phase::ShutDown, cause.to_string())),
                None => {}
            }
            self.skip(Phase::ShutDown, CLOSED);
            self.not_run([Check::Farewell], CLOSED);
            return false;
        }
        self.pass([Check::Life]);
        client.close().await;
        true
    }

    /// Adds the violations of the protocol that were observed in the whole conversation.
    pub(super) fn add_violations(&mut self) {
        let observed = self.observer.observed();
        self.pass([Check::Output, Check::ByteOrderMark, Check::Rules]);
        let opening = if observed.initialize.is_some() { Phase::Initialize } else { Phase::Probe };
        let phase = if observed.early { opening } else { Phase::List };
        let noise = match diagnosis::encoding_fault(phase, &observed) {
            None if observed.noise_lines > 0 => Some(diagnosis::noise(self.transport, phase, &observed)),
            fault => fault,
        };
        if let Some(mut finding) = noise {
            let lines = observed.noise_texts();
            match self.transport.is_remote() {
                true => finding.evidence.received = lines,
                false => finding.evidence.stdout = lines,
            }
            self.add(finding);
        }
        if observed.byte_order_mark {
            let seen = "the output of the server begins with a byte order mark";
            self.add(BYTE_ORDER_MARK.at(opening, seen));
        }
        if let Some(first) = observed.violations.first() {
            let seen = match observed.violation_count {
                1 => first.to_string(),
                count => format!("{first}, and {} more", count - 1),
            };
            let mut finding = VIOLATIONS.at(phase, seen);
            finding.evidence.violations = observed.violations;
            self.add(finding);
        }
    }

    /// The findings with the id of this kind.
    pub(super) fn findings_of(&mut self, kind: &Kind<Check>) -> impl Iterator<Item = &mut Finding> {
        let id = kind.id;
        self.report.findings.iter_mut().filter(move |finding| finding.id == id)
    }

    /// The report, with every phase and check that was not reached.
    pub(super) fn finish(mut self) -> Report {
        let is_remote = self.transport.is_remote();
        let not_reached = match self.phase {
            Phase::Resolve | Phase::Spawn if !is_remote => "the server was not started",
            Phase::Resolve => "there is no address",
            Phase::Certificates => "no authority to trust is given",
            Phase::Probe | Phase::Initialize | Phase::Authorization => {
                match (self.stopped, self.has_failed(Check::Life)) {
                    (Some(why), _) => why,
                    (None, true) if is_remote => CLOSED,
                    (None, true) => EXITED,
                    (None, false) => NOT_AGREED,
                }
            }
            _ => "there was no connection",
        };
        for phase in Phase::of(self.transport) {
            if self.step_of(phase).is_none() {
                self.skip(phase, not_reached);
            }
        }
        let mut report = self.report;
        report.steps.sort_by_key(|step| step.phase);
        let outcome = |check| {
            let known = report.checks.iter().find(|(known, _)| *known == check);
            known.map_or(Outcome::NotRun(not_reached), |(_, outcome)| *outcome)
        };
        report.checks = Check::of(self.transport).map(|check| (check, outcome(check))).collect();
        // What keeps the server from working stands before what may be intended.
        report.findings.sort_by_key(|finding| finding.check == Check::Offer);
        report.took = self.started.elapsed();
        report
    }
}

fn is_unknown(error: &ClientError) -> bool {
    error.remote().is_some_and(|error| error.code == code::METHOD_NOT_FOUND)
}

/// `1 tool`, `2 prompts` ...
fn count(list: &Listing) -> String {
    let noun = match list.method {
        Method::ListTools => "tool",
        Method::ListResources => "resource",
        Method::ListResourceTemplates => "resource template",
        _ => "prompt",
    };
    counted(list.items, noun)
}

/// `1 tool`, `2 processes`. For our own crates, outside the promise of compatibility.
#[doc(hidden)]
pub fn counted(number: impl std::fmt::Display, noun: &str) -> String {
    let number = number.to_string();
    let ending = match &*number {
        "1" => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{number} {noun}{ending}")
}

pub(super) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
