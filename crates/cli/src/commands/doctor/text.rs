//! The report for a person: the faults, then a line for each phase and additional facts.

use std::fmt::Write;
use std::time::Duration;

use mcpjoin_diagnostics::doctor::{EnvironmentFinding, Evidence, Finding, Outcome, Phase, Report, Step};
use mcpjoin_quic::endpoint::CertificateFacts;
use unicode_width::UnicodeWidthStr;

use super::json::pin;
use crate::failure::seconds;
use crate::fold::{LongWord, Widths, lines};
use crate::ui::{BAD, FAINT, HEADING};
use crate::visible::{self, counted};

/// The minimum width of the names of phases: that of the longest name in most reports.
const MIN_PHASE_COLUMNS: usize = 10;
/// A longer name moves the rest of its line to the right.
const MAX_PHASE_COLUMNS: usize = 24;
/// The width of a time.
const TIME_COLUMNS: usize = 9;
/// The width of the labels of a finding, with the blanks around them.
const LABEL_COLUMNS: usize = 11;
/// The tools of an orchestrator that are listed without `-v`.
const MAX_TOOLS: usize = 12;
/// In a narrower terminal lines are not wrapped.
const MIN_TERMINAL_COLUMNS: usize = 40;

/// The whole report. `everything`: with the phases that were not run, the number of checks, and the details of certificates.
/// `width`: of the terminal, if it is one. A longer line continues below its text. `surroundings`: faults of the machine that may
/// be the cause.
pub(super) fn of(
    report: &Report,
    surroundings: &[EnvironmentFinding],
    everything: bool,
    width: Option<usize>,
) -> String {
    let mut page = Page::new(width, report.steps.iter().map(|step| step.phase.as_str()));
    let is_known = |detail: &str| report.findings.iter().any(|finding| finding.id == detail);
    let is_shown = |step: &&Step| everything || !matches!(step.outcome, Outcome::NotRun(_));
    for step in report.steps.iter().filter(is_shown) {
        // The fault says more than its id.
        let detail = if is_known(&step.detail) { FAILED } else { &step.detail };
        page.step(step.phase.as_str(), step.took, step.outcome, detail);
    }
    if let Some(facts) = report.certificate.as_ref().filter(|_| everything) {
        page.certificate(facts);
    }
    if let Some(orchestrator) = &report.orchestrator {
        for file in orchestrator.certificates.files.iter().filter(|_| everything) {
            let path = file.path.display();
            let text = match &file.facts {
                Some(facts) => {
                    let name = facts.common_name.as_deref().unwrap_or("unnamed");
                    let (from, to) = facts.validity();
                    format!("{path}: {name}, from {from} to {to}")
                }
                None => path.to_string(),
            };
            page.fact("file", &text);
        }
        // An orchestrator lists its tools in random order.
        let mut names: Vec<&str> = orchestrator.tools.iter().map(|tool| tool.name.as_str()).collect();
        names.sort_unstable();
        let shown = if everything { names.len() } else { MAX_TOOLS.min(names.len()) };
        names[..shown].iter().for_each(|name| page.fact("tool", name));
        if let more @ 1.. = names.len() - shown {
            page.fact("", &format!("and {more} more (-v shows all)"));
        }
    }
    for note in &report.notes {
        page.fact("note", note);
    }
    // A finding with standard error shows all of it.
    if !report.findings.iter().any(|finding| !finding.evidence.stderr.is_empty()) {
        for (place, line) in report.stderr.iter().enumerate() {
            page.fact(if place == 0 { "stderr" } else { "" }, line);
        }
    }
    let count = report.findings.len() + surroundings.len();
    for finding in &report.findings {
        page.fault(count, "", finding);
    }
    for finding in surroundings {
        page.surroundings(count, finding);
    }
    let figures = figures(report.checks_run(), report.checks_not_run().map(|(_, why)| why));
    page.verdict(everything.then_some(figures), None)
}

/// The steps of an examination that was stopped. `under_way`: the current phase and its time so far.
pub(super) fn stopped(steps: &[Step], under_way: Option<(Phase, Duration)>, width: Option<usize>) -> String {
    let labels = steps.iter().map(|step| step.phase).chain(under_way.map(|(phase, _)| phase));
    let mut page = Page::new(width, labels.map(Phase::as_str));
    for step in steps {
        page.step(step.phase.as_str(), step.took, step.outcome, &step.detail);
    }
    if let Some((phase, after)) = under_way {
        page.step(phase.as_str(), Some(after), Outcome::Passed, "stopped here: there is no result yet");
    }
    page.out
}

/// What stands in place of the id of a finding, which is shown above.
pub(super) const FAILED: &str = "failed";

/// A page that is being written.
pub(super) struct Page {
    pub(super) out: String,
    /// The faults, which come first.
    fault_text: String,
    width: Option<usize>,
    phases: usize,
    /// The number of faults that were written.
    faults: usize,
}

impl Page {
    /// `labels`: the labels of all lines of the page.
    pub(super) fn new<'a>(width: Option<usize>, labels: impl Iterator<Item = &'a str>) -> Self {
        let longest = labels.map(UnicodeWidthStr::width).max().unwrap_or_default();
        Self {
            out: String::new(),
            fault_text: String::new(),
            width,
            phases: longest.clamp(MIN_PHASE_COLUMNS, MAX_PHASE_COLUMNS),
            faults: 0,
        }
    }

    /// Writes a text behind a label. Its other lines begin below `indent`. The text has been escaped.
    fn paragraph(&mut self, label: &str, styled: &str, text: &str, indent: usize) {
        let room = |taken: usize| {
            self.width
                .filter(|width| *width >= MIN_TERMINAL_COLUMNS)
                .map_or(usize::MAX, |width| width - taken)
        };
        let widths = Widths { first: room(label.width()), rest: room(indent), kept: 0 };
        let mut lines = lines(text, widths, LongWord::Broken).into_iter();
        let _ = writeln!(self.out, "{styled}{}", lines.next().unwrap_or_default());
        for line in lines {
            let _ = writeln!(self.out, "{:indent$}{line}", "");
        }
    }

    /// Writes a line for a step. `phase`: its name, escaped.
    pub(super) fn step(&mut self, phase: &str, took: Option<Duration>, outcome: Outcome, detail: &str) {
        let took = took.map_or_else(|| "-".to_owned(), seconds);
        let phases = self.phases;
        let text = match outcome {
            Outcome::NotRun(why) => format!("not run: {why}"),
            _ => visible::line(detail).into_owned(),
        };
        let label = format!("{phase:<phases$} {took:>TIME_COLUMNS$} ");
        let (mark, end) = match outcome {
            Outcome::Failed => (format!("{BAD}"), format!("{BAD:#}")),
            Outcome::NotRun(_) => (format!("{FAINT}"), format!("{FAINT:#}")),
            _ => (String::new(), String::new()),
        };
        let styled = format!("{HEADING}{phase:<phases$}{HEADING:#} {took:>TIME_COLUMNS$} {mark}");
        self.paragraph(&label, &styled, &text, label.width());
        // The style ends before the line does.
        self.out.truncate(self.out.trim_end_matches('\n').len());
        let _ = writeln!(self.out, "{end}");
    }

    /// Writes an additional fact.
    pub(super) fn fact(&mut self, label: &str, text: &str) {
        self.row(label, self.phases + 1 + TIME_COLUMNS, text);
    }

    /// Writes a fact of a finding.
    fn finding_row(&mut self, label: &str, text: &str) {
        self.row(&format!("  {label}"), LABEL_COLUMNS - 1, text);
    }

    fn row(&mut self, label: &str, width: usize, text: &str) {
        let plain = format!("{label:<width$} ");
        let styled = format!("{FAINT}{label:<width$}{FAINT:#} ");
        self.paragraph(&plain, &styled, &visible::line(text), width + 1);
    }

    fn certificate(&mut self, facts: &CertificateFacts) {
        let (from, to) = facts.validity();
        self.fact("subject", &facts.subject);
        self.fact("issuer", &facts.issuer);
        self.fact("names", &facts.names.join(", "));
        self.fact("valid", &format!("from {from} to {to}"));
        self.fact("key", &pin(facts));
    }

    /// Begins one of `count` faults. `whose`: the server that has it, or nothing.
    /// [`end_fault`](Self::end_fault) ends it.
    pub(super) fn begin_fault(&mut self, count: usize, whose: &str, id: &str, seen: &str, texts: [&str; 2]) {
        self.faults += 1;
        std::mem::swap(&mut self.out, &mut self.fault_text);
        let which =
            if count == 1 { "fault:".to_owned() } else { format!("fault {} of {count}:", self.faults) };
        let label = format!("{which} ");
        let styled = format!("{BAD}{which}{BAD:#} ");
        let whose = if whose.is_empty() { String::new() } else { format!("{}: ", visible::line(whose)) };
        let text = format!("{whose}{} ({id})", visible::line(seen));
        self.paragraph(&label, &styled, &text, LABEL_COLUMNS);
        self.finding_row("means", texts[0]);
        self.finding_row("try", texts[1]);
    }

    pub(super) fn end_fault(&mut self) {
        self.out.push('\n');
        std::mem::swap(&mut self.out, &mut self.fault_text);
    }

    /// Writes a fault of the machine.
    pub(super) fn surroundings(&mut self, count: usize, finding: &EnvironmentFinding) {
        self.begin_fault(count, "", finding.id, &finding.seen, [&finding.meaning, &finding.advice]);
        self.end_fault();
    }

    /// The faults, then the rest of the page. Where there is no fault, the last line says so. `figures`: the number of checks, for
    /// a last line in any case. `not_started`: what was not examined, which a verdict without a fault must not hide.
    pub(super) fn verdict(mut self, figures: Option<String>, not_started: Option<String>) -> String {
        if self.faults > 0 && figures.is_none() {
            return self.fault_text + &self.out;
        }
        self.out.push('\n');
        let verdict = match self.faults {
            0 => {
                let but = not_started.map(|what| format!(", but {what}")).unwrap_or_default();
                format!("{HEADING}no fault found{HEADING:#}{but}")
            }
            1 => format!("{BAD}1 fault found{BAD:#}"),
            count => format!("{BAD}{count} faults found{BAD:#}"),
        };
        let figures = figures.map(|figures| format!(": {figures}")).unwrap_or_default();
        self.paragraph("", "", &format!("{verdict}{figures}"), 2);
        self.fault_text + &self.out
    }

    pub(super) fn fault(&mut self, count: usize, whose: &str, finding: &Finding) {
        self.begin_fault(count, whose, finding.id, &finding.seen, [&finding.meaning, &finding.advice]);
        let Evidence { exit, error, violations, processes, body, requests, .. } = &finding.evidence;
        let Evidence { stderr, stdout, received, .. } = &finding.evidence;
        if let Some(exit) = exit {
            self.finding_row("ended", &exit.to_string());
        }
        if let Some(data) = error.as_ref().and_then(|error| error.data.as_ref()) {
            self.finding_row("data", data.as_str());
        }
        if let Some(body) = body {
            self.finding_row("body", body);
        }
        for violation in violations.iter().skip(1) {
            self.finding_row("also", &violation.to_string());
        }
        for process in processes {
            self.finding_row("process", &format!("{} ({})", process.pid, process.name));
        }
        for (label, lines) in
            [("stderr", stderr), ("stdout", stdout), ("received", received), ("asked", requests)]
        {
            for (place, line) in lines.iter().enumerate() {
                self.finding_row(if place == 0 { label } else { "" }, line);
            }
        }
        self.end_fault();
    }
}

/// `12 checks, 4 not run (why)`
pub(super) fn figures<'a>(run: usize, not_run: impl Iterator<Item = &'a str>) -> String {
    let mut out = counted(run, "check");
    let mut reasons: Vec<&str> = Vec::new();
    let mut skipped = 0;
    for why in not_run {
        skipped += 1;
        if !reasons.contains(&why) {
            reasons.push(why);
        }
    }
    if skipped > 0 {
        let _ = write!(out, ", {skipped} not run ({})", reasons.join("; "));
    }
    out
}
