//! The report on the servers that were examined: what the library says of them, with every text of a server truncated and
//! without secrets, so that no format has to do that again.
//!
//! Made by `validate` once all servers were examined; written by `page`, `json`, `sarif` and `junit`.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_rules::{Level, Outcome, Rule, Trace};
use serde::{Serialize, Serializer};

use super::baseline::fingerprint;
use super::calls::Note;
use super::compatibility::Clients;
use super::openers::Row;
use crate::connect::Place;
use crate::failure::Failure;
use crate::ui::Ui;

/// The longest message, and the longest problem, in a finding.
pub(super) const MAX_TEXT_CHARS: usize = 4096;
/// The findings that are kept for one rule: a server with ten thousand bad tools has one fault.
const MAX_FINDINGS: usize = 500;

/// All of it.
pub(super) struct Document {
    /// In the order in which they were named.
    pub(super) servers: Vec<Server>,
    /// More than one was asked for, or a whole configuration: a list, however many there are.
    pub(super) several: bool,
    /// What is broken from here on is a fault.
    pub(super) least: Level,
    /// What the findings were compared with.
    pub(super) baseline: Option<Compared>,
}

/// How the findings stand to those of a file.
#[derive(Serialize)]
pub(super) struct Compared {
    /// The file, as it would be typed.
    pub(super) file: String,
    /// The findings of the file that were not found again.
    pub(super) stale: Vec<Stale>,
}

/// A finding of a file that is found no longer.
#[derive(Serialize)]
pub(super) struct Stale {
    pub(super) rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    pub(super) run: String,
    pub(super) problem: String,
}

/// A server, and what was seen of it.
pub(super) struct Server {
    /// What it is called by where there are several: the name of its entry, or its command or address.
    pub(super) label: String,
    /// Its command or address.
    pub(super) shown: String,
    /// Where its entry stands.
    pub(super) place: Option<Place>,
    pub(super) took: Duration,
    pub(super) seen: Result<Seen, Failure>,
}

impl Server {
    /// Why it was not examined, or not completely.
    pub(super) const fn failure(&self) -> Option<&Failure> {
        match &self.seen {
            Ok(Seen::Judged(judged)) => judged.kept_out.as_ref(),
            Ok(Seen::Openers(_)) => None,
            Err(failure) => Some(failure),
        }
    }
}

/// What was looked for.
pub(super) enum Seen {
    Judged(Judged),
    Openers(Vec<Row>),
}

/// What the rules say of it.
pub(super) struct Judged {
    /// It wants a token: only the responses that say so were examined.
    pub(super) kept_out: Option<Failure>,
    /// Of the calls that were asked for, those that show less than they were meant to.
    pub(super) calls: Vec<Note>,
    /// What well-known clients make of its tools, where that was asked for and there are any.
    pub(super) clients: Option<Clients>,
    pub(super) runs: Vec<Run>,
    pub(super) rulings: Vec<Ruling>,
}

/// A run and the revision whose rules apply to it.
#[derive(Serialize)]
pub(super) struct Run {
    pub(super) name: String,
    #[serde(rename = "protocolVersion")]
    pub(super) version: String,
}

/// A rule and what it says.
pub(super) struct Ruling {
    pub(super) rule: &'static Rule,
    pub(super) said: Said,
}

/// What a rule says.
pub(super) enum Said {
    Passed,
    Skipped(String),
    Failed(Places),
}

/// The places where a rule was broken.
#[derive(Default)]
pub(super) struct Places {
    /// In their order, none of them twice.
    pub(super) found: Vec<Found>,
    /// Beyond the bound.
    pub(super) left_out: usize,
}

/// A place where a rule was broken.
#[derive(Serialize)]
pub(super) struct Found {
    /// How often: with other ids and at other times it is the same.
    pub(super) count: usize,
    pub(super) problem: String,
    pub(super) run: String,
    #[serde(rename = "protocolVersion")]
    pub(super) version: String,
    #[serde(serialize_with = "lower_case")]
    pub(super) level: Level,
    /// The page of the specification.
    pub(super) address: String,
    /// The message that was sent before the rule was broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sent: Option<String>,
    /// The message that breaks the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) received: Option<String>,
    /// The same in every run as long as nothing changes: of the rule and of where it was broken.
    pub(super) fingerprint: String,
    /// The baseline has it.
    #[serde(skip)]
    pub(super) known: bool,
}

/// How many rules came to what.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
    /// Of those that failed: where the baseline has all that was found.
    pub(super) known: usize,
}

impl Counts {
    pub(super) const fn ran(&self) -> usize {
        self.passed + self.failed
    }
}

impl Judged {
    /// What the library says, cut and without secrets.
    pub(super) fn new(ui: &Ui, trace: &Trace, report: mcpjoin_rules::Report) -> Self {
        let runs = trace
            .runs
            .iter()
            .chain(&trace.authorization)
            .map(|run| Run { name: run.name.to_string(), version: run.version.as_str().to_owned() });
        let rulings = report.verdicts.into_iter().map(|verdict| Ruling {
            rule: verdict.rule,
            said: match verdict.outcome {
                Outcome::Passed => Said::Passed,
                Outcome::Skipped(why) => Said::Skipped(why.to_string()),
                Outcome::Failed(findings) => Said::Failed(Places::new(ui, verdict.rule, findings)),
            },
        });
        Self {
            kept_out: None,
            calls: Vec::new(),
            clients: None,
            runs: runs.collect(),
            rulings: rulings.collect(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Ruling::counts(&self.rulings)
    }

    /// From now on everything that was found is known.
    pub(super) fn know_all(&mut self) {
        for ruling in &mut self.rulings {
            if let Said::Failed(places) = &mut ruling.said {
                places.found.iter_mut().for_each(|found| found.known = true);
            }
        }
    }

    /// Whether something was broken that is at least as binding as that, and is not known.
    pub(super) fn has_failed(&self, least: Level) -> bool {
        self.rulings.iter().filter_map(Ruling::fault).any(|level| level >= least)
    }
}

impl Ruling {
    pub(super) fn counts<'r>(rulings: impl IntoIterator<Item = &'r Self>) -> Counts {
        let mut counts = Counts::default();
        for ruling in rulings {
            match &ruling.said {
                Said::Passed => counts.passed += 1,
                Said::Skipped(_) => counts.skipped += 1,
                Said::Failed(_) => {
                    counts.failed += 1;
                    counts.known += usize::from(ruling.fault().is_none());
                }
            }
        }
        counts
    }

    /// Why it had nothing to judge, where that is so.
    pub(super) fn skipped(&self) -> Option<&str> {
        match &self.said {
            Said::Skipped(why) => Some(why),
            Said::Passed | Said::Failed(_) => None,
        }
    }

    /// Where it was broken.
    pub(super) fn found(&self) -> &[Found] {
        match &self.said {
            Said::Failed(places) => &places.found,
            Said::Passed | Said::Skipped(_) => &[],
        }
    }

    /// How binding the sentence is that was broken; without one, as the rule says.
    pub(super) fn level(&self) -> Level {
        self.found().iter().map(|found| found.level).max().unwrap_or_else(|| self.rule.level())
    }

    /// So many places more are not kept.
    pub(super) const fn left_out(&self) -> usize {
        match &self.said {
            Said::Failed(places) => places.left_out,
            Said::Passed | Said::Skipped(_) => 0,
        }
    }

    /// The same of what was broken and is not known; `None` when there is no such thing.
    pub(super) fn fault(&self) -> Option<Level> {
        if self.left_out() > 0 {
            // What is left out may be new.
            return Some(self.level());
        }
        self.found().iter().filter(|found| !found.known).map(|found| found.level).max()
    }
}

impl Places {
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
                places.left_out += 1;
            }
        }
        places
    }
}

fn found(ui: &Ui, rule: &Rule, finding: mcpjoin_rules::Finding) -> Found {
    let text = |text: &str| ui.hidden(&cut(text, MAX_TEXT_CHARS)).into_owned();
    let line = |line: Option<&Bytes>| line.map(|line| text(&lossy(line)));
    let (sent, problem) = (line(finding.sent.as_ref()), text(&finding.problem));
    Found {
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

/// As much of a line as can be kept: what is longer is not read to its end.
fn lossy(line: &Bytes) -> String {
    // No character has more than four bytes; one that is cut in two stands behind all that is kept.
    String::from_utf8_lossy(&line[..line.len().min(MAX_TEXT_CHARS * 4 + 4)]).into_owned()
}

/// A level as documents for programs write it.
pub(super) fn lower_case<S: Serializer>(level: &Level, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&level.as_str().to_lowercase())
}

/// The first characters of a text; `…` stands for the rest.
pub(super) fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
