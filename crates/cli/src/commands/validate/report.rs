//! The report on the examined servers. All texts of a server are truncated and without secrets, so that no format has
//! to do that again.
//!
//! Made by `examine`, written by `text`, `json`, `sarif` and `junit`.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use mcpjoin::proto::types::meta::key;
use mcpjoin::proto::{Message, Response, Version};
use mcpjoin_rules::{Level, Outcome, Rule, Trace, What};
use serde::{Serialize, Serializer};

use super::baseline::fingerprint;
use super::calls::CallWarning;
use super::compatibility::Clients;
use super::openers::Row;
use crate::connect::Place;
use crate::failure::Failure;
use crate::object::Object;
use crate::ui::Ui;
use crate::visible::cut_chars;

/// The longest message, and the longest problem, in a finding.
pub(super) const MAX_TEXT_CHARS: usize = 4096;
/// The longest name, and the longest version, of a server.
const MAX_NAME_CHARS: usize = 60;
/// The maximum number of findings of a rule: ten thousand bad tools are one fault.
const MAX_FINDINGS: usize = 500;

/// The whole report.
pub(super) struct Document {
    /// In the order of the command line.
    pub(super) servers: Vec<Server>,
    /// More than one server was named, or a whole configuration: the report is a list.
    pub(super) several: bool,
    /// The lowest level at which a finding is a fault.
    pub(super) least: Level,
    /// The comparison with the baseline.
    pub(super) baseline: Option<Comparison>,
}

/// The comparison with a baseline.
#[derive(Serialize)]
pub(super) struct Comparison {
    /// The file, quoted for a shell.
    pub(super) file: String,
    /// The entries that were not found again.
    pub(super) stale: Vec<Stale>,
}

/// An entry of a baseline that was not found again.
#[derive(Serialize)]
pub(super) struct Stale {
    pub(super) rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    pub(super) run: String,
    pub(super) problem: String,
}

/// A server and its result.
pub(super) struct Server {
    /// Its name in a report on several servers: that of its entry, or its command or address.
    pub(super) label: String,
    /// Its command or address.
    pub(super) shown: String,
    /// The place of its entry.
    pub(super) place: Option<Place>,
    pub(super) took: Duration,
    pub(super) outcome: Result<Examination, Failure>,
}

impl Server {
    /// Why it was not examined, or not completely.
    pub(super) fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            Ok(Examination::Rules(checked)) => checked.unauthorized.as_deref(),
            Ok(Examination::Openers(_)) => None,
            Err(failure) => Some(failure),
        }
    }
}

/// The result of an examination.
pub(super) enum Examination {
    Rules(RuleResults),
    Openers(Vec<Row>),
}

/// The results of the rules.
pub(super) struct RuleResults {
    /// Name and version of the server, if it has sent them.
    pub(super) named: Option<String>,
    /// The version with which the server answers `initialize`, if it is one that we do not know.
    pub(super) unknown_version: Option<String>,
    /// The server requires a token: only its responses without one were examined.
    pub(super) unauthorized: Option<Box<Failure>>,
    /// The calls of `--call` that did not do what was intended.
    pub(super) calls: Vec<CallWarning>,
    /// With `--compatibility`, if there are tools.
    pub(super) clients: Option<Clients>,
    pub(super) runs: Vec<Run>,
    pub(super) results: Vec<RuleResult>,
}

/// A run and the revision of its rules.
#[derive(Serialize)]
pub(super) struct Run {
    pub(super) name: String,
    #[serde(rename = "protocolVersion")]
    pub(super) version: String,
}

/// A rule and its result.
pub(super) struct RuleResult {
    pub(super) rule: &'static Rule,
    pub(super) outcome: RuleOutcome,
}

/// The result of a rule.
pub(super) enum RuleOutcome {
    Passed,
    Skipped(String),
    Failed(Findings),
}

/// The findings of a rule.
#[derive(Default)]
pub(super) struct Findings {
    /// In order, without duplicates.
    pub(super) found: Vec<Finding>,
    /// The number of findings beyond the limit.
    pub(super) omitted: usize,
}

/// A finding.
#[derive(Serialize)]
pub(super) struct Finding {
    /// How often it was found, with other ids and times.
    pub(super) count: usize,
    pub(super) problem: String,
    pub(super) run: String,
    #[serde(rename = "protocolVersion")]
    pub(super) version: String,
    #[serde(serialize_with = "lower_case")]
    pub(super) level: Level,
    /// The page of the specification.
    pub(super) address: String,
    /// The message that was sent before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sent: Option<String>,
    /// The message that breaks the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) received: Option<String>,
    /// Identifies the finding in later runs.
    pub(super) fingerprint: String,
    /// It is in the baseline.
    #[serde(skip)]
    pub(super) known: bool,
}

/// The numbers of rules by result.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
    /// The failed rules whose findings are all known.
    pub(super) known: usize,
}

impl Counts {
    pub(super) const fn ran(&self) -> usize {
        self.passed + self.failed
    }
}

impl RuleResults {
    /// Truncates all texts and hides secrets.
    pub(super) fn new(ui: &Ui, trace: &Trace, report: mcpjoin_rules::Report) -> Self {
        let runs = trace
            .runs
            .iter()
            .chain(&trace.authorization)
            .map(|run| Run { name: run.name.to_string(), version: run.version.as_str().to_owned() });
        let results = report.results.into_iter().map(|result| RuleResult {
            rule: result.rule,
            outcome: match result.outcome {
                Outcome::Passed => RuleOutcome::Passed,
                Outcome::Skipped(why) => RuleOutcome::Skipped(why.to_string()),
                Outcome::Failed(findings) => RuleOutcome::Failed(Findings::new(ui, result.rule, findings)),
            },
        });
        Self {
            named: named(trace).map(|name| ui.hidden(&name).into_owned()),
            unknown_version: unknown_version(trace).map(|version| ui.hidden(&version).into_owned()),
            unauthorized: None,
            calls: Vec::new(),
            clients: None,
            runs: runs.collect(),
            results: results.collect(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        RuleResult::counts(&self.results)
    }

    /// Marks all findings as known.
    pub(super) fn know_all(&mut self) {
        for result in &mut self.results {
            if let RuleOutcome::Failed(places) = &mut result.outcome {
                places.found.iter_mut().for_each(|found| found.known = true);
            }
        }
    }

    /// Whether there is a finding of at least this level that is not known.
    pub(super) fn has_failed(&self, least: Level) -> bool {
        self.results.iter().filter_map(RuleResult::fault).any(|level| level >= least)
    }
}

/// The results that the server sent, as far as they are objects.
fn results(trace: &Trace) -> impl Iterator<Item = Object> {
    let events = trace.runs.iter().flat_map(|run| &run.events);
    let lines = events.filter_map(|event| match &event.what {
        What::Received(line) => Some(line),
        _ => None,
    });
    lines.flat_map(|line| line.parts()).filter_map(|part| match part {
        Ok(Message::Response(Response { outcome: Ok(result), .. })) => Object::of(result.raw()),
        _ => None,
    })
}

/// The version of the results of `initialize`, if it is always one that we do not know.
fn unknown_version(trace: &Trace) -> Option<String> {
    let mut versions = results(trace).filter_map(|result| result.text("protocolVersion"));
    let first = versions.next()?;
    let is_unknown = |version: &str| Version::parse(version).era().is_none();
    (is_unknown(&first) && versions.all(|version| is_unknown(&version)))
        .then(|| cut_chars(&first, MAX_NAME_CHARS))
}

/// Name and version of the server in the first result that has them.
fn named(trace: &Trace) -> Option<String> {
    results(trace).find_map(|result| {
        let of_meta = || Object::of(Object::of(result.value("_meta")?)?.value(key::SERVER_INFO)?);
        let info = result.value("serverInfo").and_then(Object::of).or_else(of_meta)?;
        let text = |name: &str| info.text(name).map(|text| cut_chars(&text, MAX_NAME_CHARS));
        let name = text("name").filter(|name| !name.is_empty())?;
        Some(format!("{name} {}", text("version").unwrap_or_default()).trim_end().to_owned())
    })
}

impl RuleResult {
    pub(super) fn counts<'r>(results: impl IntoIterator<Item = &'r Self>) -> Counts {
        let mut counts = Counts::default();
        for result in results {
            match &result.outcome {
                RuleOutcome::Passed => counts.passed += 1,
                RuleOutcome::Skipped(_) => counts.skipped += 1,
                RuleOutcome::Failed(_) => {
                    counts.failed += 1;
                    counts.known += usize::from(result.fault().is_none());
                }
            }
        }
        counts
    }

    /// Why the rule was skipped; `None` if it was not.
    pub(super) fn skipped(&self) -> Option<&str> {
        match &self.outcome {
            RuleOutcome::Skipped(why) => Some(why),
            RuleOutcome::Passed | RuleOutcome::Failed(_) => None,
        }
    }

    /// The findings of the rule.
    pub(super) fn found(&self) -> &[Finding] {
        match &self.outcome {
            RuleOutcome::Failed(places) => &places.found,
            RuleOutcome::Passed | RuleOutcome::Skipped(_) => &[],
        }
    }

    /// The highest level of its findings; without findings, that of the rule.
    pub(super) fn level(&self) -> Level {
        self.found().iter().map(|found| found.level).max().unwrap_or_else(|| self.rule.level())
    }

    /// The number of findings beyond the limit.
    pub(super) const fn omitted(&self) -> usize {
        match &self.outcome {
            RuleOutcome::Failed(places) => places.omitted,
            RuleOutcome::Passed | RuleOutcome::Skipped(_) => 0,
        }
    }

    /// The highest level of findings that are not known; `None` if there are none.
    pub(super) fn fault(&self) -> Option<Level> {
        if self.omitted() > 0 {
            // A finding beyond the limit may be new.
            return Some(self.level());
        }
        self.found().iter().filter(|found| !found.known).map(|found| found.level).max()
    }
}

impl Findings {
    fn new(ui: &Ui, rule: &Rule, findings: Vec<mcpjoin_rules::Finding>) -> Self {
        let mut places = Self::default();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for finding in findings {
            let found = found(ui, rule, finding);
            if let Some(place) = known.get(&found.fingerprint).and_then(|at| places.found.get_mut(*at)) {
                place.count += 1;
                place.level = place.level.max(found.level);
            } else if places.found.len() < MAX_FINDINGS {
                known.insert(found.fingerprint.clone(), places.found.len());
                places.found.push(found);
            } else {
                places.omitted += 1;
            }
        }
        places
    }
}

fn found(ui: &Ui, rule: &Rule, finding: mcpjoin_rules::Finding) -> Finding {
    let text = |text: &str| ui.hidden(&cut_chars(text, MAX_TEXT_CHARS)).into_owned();
    let line = |line: Option<&Bytes>| line.map(|line| text(&lossy(line)));
    let (sent, problem) = (line(finding.sent.as_ref()), text(&finding.problem));
    Finding {
        count: 1,
        fingerprint: fingerprint(rule.slug, &finding.run, sent.as_deref(), &problem),
        problem,
        run: finding.run.into(),
        version: finding.version.as_str().to_owned(),
        level: finding.level,
        address: finding.address,
        received: line(finding.received.as_ref()),
        sent,
        known: false,
    }
}

/// The beginning of a line as text. The rest is not decoded.
fn lossy(line: &Bytes) -> String {
    // A character has at most four bytes. A character that is cut is behind all that is kept.
    String::from_utf8_lossy(&line[..line.len().min(MAX_TEXT_CHARS * 4 + 4)]).into_owned()
}

/// A level in documents.
pub(super) fn level(level: Level) -> String {
    level.as_str().to_lowercase()
}

/// [`level`] for serde.
fn lower_case<S: Serializer>(found: &Level, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&level(*found))
}
