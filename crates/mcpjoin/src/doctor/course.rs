//! The course of an examination: what was found so far, and the phases after the opening.

use mcpjoin_proto::session::{LinkEnd, LinkEndKind, Peer};
use mcpjoin_proto::{Method, code};
use tokio::time::Instant;

use super::diagnosis;
use super::report::{Check, Finding, Listing, Outcome, Phase, Report, Step};
use super::resolve::Resolved;
use super::wire::Seen;
use crate::client::{Client, ClientError, Listed, Pages};
use crate::link::{ChildHandle, Forced};

const NO_CONNECTION: &str = "there was no connection";
const NOT_STARTED: &str = "the server was not started";
const DEAD: &str = "the server had ended";

/// An examination under way.
pub(super) struct Course {
    begun: Option<Box<dyn Fn(Phase) + Send + Sync>>,
    pub(super) phase: Phase,
    pub(super) since: Instant,
    steps: Vec<Step>,
    checks: Vec<(Check, Outcome)>,
    findings: Vec<Finding>,
    pub(super) notes: Vec<String>,
    pub(super) stderr: Vec<String>,
    pub(super) peer: Option<Peer>,
    lists: Vec<Listing>,
}

impl Course {
    pub(super) fn new(begun: Option<Box<dyn Fn(Phase) + Send + Sync>>) -> Self {
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

    pub(super) fn step(&mut self, outcome: Outcome, from: Instant, to: Instant, detail: String) {
        let took = Some(to.saturating_duration_since(from));
        self.steps.push(Step { phase: self.phase, outcome, took, detail });
    }

    pub(super) fn skip(&mut self, phase: Phase, why: &'static str) {
        let outcome = Outcome::NotRun(why);
        self.steps.push(Step { phase, outcome, took: None, detail: why.to_owned() });
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

    /// What has failed has failed.
    fn mark(&mut self, check: Check, outcome: Outcome) {
        match self.checks.iter_mut().find(|(known, _)| *known == check) {
            Some((_, known)) if *known == Outcome::Failed => {}
            Some((_, known)) => *known = outcome,
            None => self.checks.push((check, outcome)),
        }
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

    /// Reads every list that is declared.
    pub(super) async fn lists(&mut self, client: &Client) {
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

    pub(super) async fn shut_down(&mut self, client: Client, handle: &ChildHandle) {
        // What has ended by itself has ended before it was told to, whether a request has noticed or not.
        let noticed = self.findings.iter().any(|finding| finding.check == Check::Life);
        let ended = noticed || !handle.is_running();
        self.begin(Phase::ShutDown);
        client.close().await;
        drop(client);
        let report = handle.ended().await.unwrap_or_default();
        let checks = [Check::EndOfInput, Check::ExitStatus, Check::Family];
        if ended {
            if !noticed {
                let kind = LinkEndKind::EndOfStream;
                let end = LinkEnd { kind, exit: report.exit, stderr: handle.stderr() };
                self.fault(diagnosis::ended(Phase::ShutDown, &end));
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
        let findings = diagnosis::ending(&report, &handle.stderr());
        let outcome = if findings.is_empty() { Outcome::Passed } else { Outcome::Failed };
        findings.into_iter().for_each(|finding| self.fault(finding));
        self.step(outcome, self.since, Instant::now(), diagnosis::how(&report));
    }

    /// What the server did wrong on the way.
    pub(super) fn heard(&mut self, seen: &Seen) {
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

    pub(super) fn report(mut self, started: Instant) -> Report {
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
