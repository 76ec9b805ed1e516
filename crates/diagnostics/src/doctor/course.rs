//! The course of an examination: what was found so far, and the phases after the opening.

use std::net::SocketAddr;
use std::time::Duration;

use mcpjoin_proto::session::{CloseCause, LinkEnd, LinkEndKind, Peer, Violation};
use mcpjoin_proto::{Method, code};
use tokio::time::{Instant, timeout};

use super::orchestra::Orchestrator;
use super::report::{Check, Finding, Listing, Outcome, Phase, Report, Step, mark};
use super::resolve::Resolved;
use super::way::Way;
use super::wire::{Seen, Wire};
use super::{Tap, diagnosis, ending};
use mcpjoin::client::{Client, ClientError, Listed, Pages};
use mcpjoin::link::{ChildHandle, Forced};
use mcpjoin_quic::endpoint::CertificateFacts;

/// How long one list may take in all: as long as one request may that tells of its progress.
const LIST: Duration = Duration::from_secs(600);

const NO_CONNECTION: &str = "there was no connection";
/// Of a probe.
pub(super) const NO_ANSWER: &str = "no answer";
const NOT_AGREED: &str = "client and server did not agree";
const NOT_STARTED: &str = "the server was not started";
const NO_ADDRESS: &str = "there is no address";
const NO_AUTHORITY: &str = "there is no authority to trust";
const DEAD: &str = "the server had ended";
const CLOSED: &str = "the connection had ended";

/// Hears of each phase as it begins.
pub(super) type Begun = Box<dyn Fn(Phase) + Send + Sync>;

/// Hears of each phase as it is over, or is passed over. What is found out later may change what it says.
pub(super) type Noted = Box<dyn Fn(&Step) + Send + Sync>;

/// An examination under way.
pub(super) struct Course {
    pub(super) way: Way,
    begun: Option<Begun>,
    pub(super) noted: Option<Noted>,
    pub(super) tap: Option<Tap>,
    pub(super) phase: Phase,
    pub(super) since: Instant,
    steps: Vec<Step>,
    checks: Vec<(Check, Outcome)>,
    findings: Vec<Finding>,
    pub(super) notes: Vec<String>,
    pub(super) stderr: Vec<String>,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) certificate: Option<CertificateFacts>,
    pub(super) orchestrator: Option<Box<Orchestrator>>,
    pub(super) peer: Option<Peer>,
    lists: Vec<Listing>,
    /// Why what comes after the phase under way is not run, where that is known better than the phase tells it.
    pub(super) stopped: Option<&'static str>,
}

impl Course {
    pub(super) fn new(way: Way, begun: Option<Begun>) -> Self {
        Self {
            way,
            begun,
            noted: None,
            tap: None,
            phase: Phase::Resolve,
            since: Instant::now(),
            steps: Vec::new(),
            checks: Vec::new(),
            findings: Vec::new(),
            notes: Vec::new(),
            stderr: Vec::new(),
            addresses: Vec::new(),
            certificate: None,
            orchestrator: None,
            peer: None,
            lists: Vec::new(),
            stopped: None,
        }
    }

    pub(super) fn begin(&mut self, phase: Phase) {
        self.begin_at(phase, Instant::now());
    }

    pub(super) fn begin_at(&mut self, phase: Phase, since: Instant) {
        self.phase = phase;
        self.since = since;
        if let Some(begun) = &self.begun {
            begun(phase);
        }
    }

    /// The phase began then after all: what was said of it is not so.
    pub(super) fn again(&mut self, phase: Phase, since: Instant) {
        self.steps.retain(|step| step.phase != phase);
        self.phase = phase;
        self.since = since;
    }

    /// The phase under way went as it should.
    pub(super) fn end(&mut self, detail: String) {
        self.step(Outcome::Passed, self.since, Instant::now(), detail);
    }

    /// Whether that phase went by without an answer.
    pub(super) fn is_unanswered(&self, phase: Phase) -> bool {
        self.steps.iter().any(|step| step.phase == phase && step.detail == NO_ANSWER)
    }

    /// What is known better of a phase that is over.
    pub(super) fn told(&mut self, phase: Phase, detail: String) {
        if let Some(step) = self.steps.iter_mut().find(|step| step.phase == phase) {
            step.detail = detail;
        }
    }

    pub(super) fn step(&mut self, outcome: Outcome, from: Instant, to: Instant, detail: String) {
        let took = Some(to.saturating_duration_since(from));
        self.push(Step { phase: self.phase, outcome, took, detail });
    }

    fn push(&mut self, step: Step) {
        if let Some(noted) = &self.noted {
            noted(&step);
        }
        self.steps.push(step);
    }

    pub(super) fn skip(&mut self, phase: Phase, why: &'static str) {
        let outcome = Outcome::NotRun(why);
        self.push(Step { phase, outcome, took: None, detail: why.to_owned() });
    }

    /// The last phase that was run.
    pub(super) fn last(&self) -> Phase {
        let ran = self.steps.iter().rev().find(|step| step.took.is_some());
        ran.map_or(self.phase, |step| step.phase)
    }

    /// The phase under way ended with this.
    pub(super) fn fail(&mut self, finding: Finding) {
        let detail = finding.id.to_owned();
        self.fault(finding);
        self.step(Outcome::Failed, self.since, Instant::now(), detail);
    }

    pub(super) fn fault(&mut self, finding: Finding) {
        self.mark(finding.check, Outcome::Failed);
        self.findings.push(finding);
    }

    pub(super) fn pass(&mut self, check: Check) {
        self.mark(check, Outcome::Passed);
    }

    pub(super) fn not_run<const N: usize>(&mut self, checks: [Check; N], why: &'static str) {
        for check in checks {
            self.mark(check, Outcome::NotRun(why));
        }
    }

    /// What was found so far, for whoever knows better what it means.
    pub(super) fn findings_mut(&mut self) -> &mut [Finding] {
        &mut self.findings
    }

    /// Whether a finding says that this is wrong.
    pub(super) fn has_failed(&self, check: Check) -> bool {
        self.checks.contains(&(check, Outcome::Failed))
    }

    fn mark(&mut self, check: Check, outcome: Outcome) {
        mark(&mut self.checks, check, outcome);
    }

    pub(super) fn resolved(&mut self, resolved: &Resolved) {
        self.pass(Check::Program);
        match (&resolved.runtime, &resolved.interpreter) {
            (None, None) => self.not_run([Check::Runtime], "the program needs no runtime"),
            // Whether an interpreter by its path is there, the start tells.
            _ => self.pass(Check::Runtime),
        }
        self.end(resolved.detail());
    }

    /// Reads every list that is declared. `wire`: what comes of them and cannot be read is not waited for.
    pub(super) async fn lists(&mut self, client: &Client, wire: &Wire) {
        self.begin(Phase::List);
        let peer = client.peer();
        let declared = peer.server_capabilities();
        let tools = declared.is_some_and(|server| server.tools.is_some());
        let resources = declared.is_some_and(|server| server.resources.is_some());
        let prompts = declared.is_some_and(|server| server.prompts.is_some());
        let before = self.findings.len();
        let alive = (!tools || self.list(wire, Method::ListTools, client.list_tools()).await)
            && (!resources || self.list(wire, Method::ListResources, client.list_resources()).await)
            && (!resources
                || self.list(wire, Method::ListResourceTemplates, client.list_resource_templates()).await)
            && (!prompts || self.list(wire, Method::ListPrompts, client.list_prompts()).await);
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
    }

    /// Reads one list. False when the server has ended meanwhile.
    async fn list<T: Listed>(&mut self, wire: &Wire, method: Method, pages: Pages<T>) -> bool {
        let began = Instant::now();
        let read = tokio::select! {
            biased;
            read = timeout(LIST, pages.all()) => read,
            () = wire.unreadable(began) => {
                self.fault(diagnosis::unreadable(&method));
                return true;
            }
        };
        match read {
            Ok(Ok(items)) => {
                self.listed(method, items.len(), began);
                true
            }
            // Many a server has resources and does not know the method for templates: it has none.
            Ok(Err(error)) if method == Method::ListResourceTemplates && is_unknown(&error) => true,
            Ok(Err(error)) => {
                self.fault(diagnosis::list(self.way, &method, &error));
                !error.is_fatal()
            }
            Err(_) => {
                self.fault(diagnosis::endless(&method, LIST));
                true
            }
        }
    }

    /// A list was read to its end.
    pub(super) fn listed(&mut self, method: Method, items: usize, began: Instant) {
        self.lists.push(Listing { method, items, took: began.elapsed() });
    }

    pub(super) async fn shut_down(&mut self, client: Client, handle: &ChildHandle) {
        // What has ended by itself has ended before it was told to, whether a request has noticed or not.
        let noticed = self.findings.iter().any(|finding| finding.check == Check::Life);
        let ended = noticed || !handle.is_running();
        self.begin(Phase::ShutDown);
        client.close().await;
        drop(client);
        let report = handle.ended().await.unwrap_or_default();
        // What it says at its end is what a finding quotes.
        handle.stderr_read().await;
        let checks = [Check::EndOfInput, Check::ExitStatus, Check::Family];
        if ended {
            if !noticed {
                let kind = LinkEndKind::EndOfStream;
                let end = LinkEnd { kind, exit: report.exit, stderr: handle.stderr() };
                self.fault(diagnosis::ended(Way::Child, Phase::ShutDown, &end));
            }
            self.not_run(checks, DEAD);
            self.skip(Phase::ShutDown, DEAD);
            return;
        }
        self.pass(Check::Life);
        for check in checks {
            self.pass(check);
        }
        if !report.complete {
            self.not_run([Check::Family], "this system does not show every process");
        }
        if report.forced != Forced::No {
            self.not_run([Check::ExitStatus], "the server was ended by a signal");
        }
        let findings = ending::ending(&report, &handle.stderr());
        let outcome = if findings.is_empty() { Outcome::Passed } else { Outcome::Failed };
        findings.into_iter().for_each(|finding| self.fault(finding));
        self.step(outcome, self.since, Instant::now(), ending::how(&report));
    }

    /// Leaves a server that is none of our children. `Some`: how the connection has ended that we have closed.
    pub(super) async fn leave(&mut self, client: Client) -> Option<CloseCause> {
        // What has ended by itself has ended before it was told to, whether a request has noticed or not.
        let noticed = self.has_failed(Check::Life);
        let cause = client.close_cause();
        self.begin(Phase::ShutDown);
        if noticed || client.is_closed() {
            match cause {
                Some(CloseCause::Link(end)) if !noticed => {
                    self.fault(diagnosis::ended(self.way, Phase::ShutDown, &end));
                }
                Some(cause) if !noticed => {
                    self.fault(diagnosis::unclear(Phase::ShutDown, &cause.to_string()));
                }
                _ => {}
            }
            self.skip(Phase::ShutDown, CLOSED);
            self.not_run([Check::Farewell], CLOSED);
            return None;
        }
        self.pass(Check::Life);
        Some(client.close().await)
    }

    /// What the server did wrong on the way.
    pub(super) fn heard(&mut self, seen: &Seen) {
        for check in [Check::Output, Check::ByteOrderMark, Check::Rules] {
            self.pass(check);
        }
        let misdirected = seen.violations.iter().find_map(|violation| match violation {
            Violation::UnknownReply { id: Some(id) } => Some(id),
            _ => None,
        });
        if let Some(id) = misdirected {
            for finding in self.findings.iter_mut().filter(|finding| finding.id == "list-unanswered") {
                finding.seen.push_str(&format!("; an answer came with the id {id}, which nobody asked"));
            }
        }
        let opening = if seen.initialize.is_some() { Phase::Initialize } else { Phase::Probe };
        let phase = if seen.early { opening } else { Phase::List };
        match diagnosis::written(phase, seen) {
            Some(mut finding) => {
                let noise = diagnosis::lines(&seen.noise);
                match self.way.is_remote() {
                    true => finding.evidence.received = noise,
                    false => finding.evidence.stdout = noise,
                }
                self.fault(finding);
            }
            None if seen.noise_lines > 0 => self.fault(diagnosis::noise(self.way, phase, seen)),
            None => {}
        }
        if seen.byte_order_mark {
            self.fault(diagnosis::byte_order_mark(opening));
        }
        if seen.broken > 0 {
            self.fault(diagnosis::violations(phase, seen));
        }
    }

    pub(super) fn report(mut self, started: Instant) -> Report {
        let not_reached = match self.phase {
            Phase::Resolve | Phase::Spawn if !self.way.is_remote() => NOT_STARTED,
            Phase::Resolve => NO_ADDRESS,
            Phase::Certificates => NO_AUTHORITY,
            Phase::Probe | Phase::Initialize | Phase::Authorization => {
                match (self.stopped, self.has_failed(Check::Life)) {
                    (Some(why), _) => why,
                    (None, true) if self.way.is_remote() => CLOSED,
                    (None, true) => DEAD,
                    (None, false) => NOT_AGREED,
                }
            }
            _ => NO_CONNECTION,
        };
        for phase in self.way.phases() {
            if !self.steps.iter().any(|step| step.phase == *phase) {
                self.skip(*phase, not_reached);
            }
        }
        self.steps.sort_by_key(|step| step.phase);
        let outcome = |check| {
            let known = self.checks.iter().find(|(known, _)| *known == check);
            known.map_or(Outcome::NotRun(not_reached), |(_, outcome)| *outcome)
        };
        let checks = self.way.checks().iter().map(|check| (*check, outcome(*check))).collect();
        Report {
            steps: self.steps,
            checks,
            findings: self.findings,
            notes: self.notes,
            stderr: self.stderr,
            addresses: self.addresses,
            certificate: self.certificate,
            orchestrator: self.orchestrator,
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
