//! What is to be told of the servers that were looked at: what the library says of them, with every text of a server cut
//! and without secrets, so that no format has to think of that again.
//!
//! Made by `validate` once everything was looked at; written by `page`, `json`, `sarif` and `junit`.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use mcpjoin::check::{self, Level, Outcome, Rule, Trace};

use super::calls::Note;
use super::compatibility::Clients;
use super::fingerprint;
use super::openers::Row;
use crate::connect::Place;
use crate::failure::Failure;
use crate::ui::Ui;

/// Of one line that crossed, and of one problem, so many characters are kept.
pub(super) const KEPT: usize = 4096;
/// Of the places where one rule was broken, so many are kept: a server with ten thousand bad tools has one fault.
const PLACES: usize = 500;

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
pub(super) struct Compared {
    /// The file, as it would be typed.
    pub(super) file: String,
    /// What the file has and the servers do no longer, each in a line.
    pub(super) stale: Vec<Stale>,
}

/// A finding of a file that is found no longer.
pub(super) struct Stale {
    pub(super) rule: String,
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
    /// Why it was not judged, or not by all that there is.
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
    /// Why nothing could be asked: it wants a token, and is judged by how it says so.
    pub(super) kept_out: Option<Failure>,
    /// Of the calls that were asked for, those that show less than they were meant to.
    pub(super) calls: Vec<Note>,
    /// What well-known clients make of its tools, where that was asked for and there are any.
    pub(super) clients: Option<Clients>,
    pub(super) runs: Vec<Run>,
    pub(super) rulings: Vec<Ruling>,
}

/// A run and the revision by which it was judged.
pub(super) struct Run {
    pub(super) name: String,
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
pub(super) struct Found {
    /// How often: with other ids and at other times it is the same.
    pub(super) count: usize,
    pub(super) problem: String,
    pub(super) run: String,
    pub(super) version: String,
    pub(super) level: Level,
    pub(super) address: String,
    pub(super) sent: Option<String>,
    pub(super) received: Option<String>,
    /// The same in every run as long as nothing changes: of the rule and of where it was broken.
    pub(super) fingerprint: String,
    /// The baseline has it.
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
    pub(super) fn new(ui: &Ui, trace: &Trace, report: check::Report) -> Self {
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
            // Nobody knows what is not kept.
            return Some(self.level());
        }
        self.found().iter().filter(|found| !found.known).map(|found| found.level).max()
    }
}

impl Places {
    fn new(ui: &Ui, rule: &Rule, findings: Vec<check::Finding>) -> Self {
        let mut places = Self::default();
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for finding in findings {
            let found = found(ui, rule, finding);
            if let Some(place) = known.get(&found.fingerprint).and_then(|at| places.found.get_mut(*at)) {
                place.count += 1;
                place.level = place.level.max(found.level);
            } else if places.found.len() < PLACES {
                known.insert(found.fingerprint.clone(), places.found.len());
                places.found.push(found);
            } else {
                places.left_out += 1;
            }
        }
        places
    }
}

fn found(ui: &Ui, rule: &Rule, finding: check::Finding) -> Found {
    let text = |text: &str| ui.hidden(&cut(text, KEPT)).into_owned();
    let line = |line: Option<&Bytes>| line.map(|line| text(&lossy(line)));
    let (sent, problem) = (line(finding.sent.as_ref()), text(&finding.problem));
    Found {
        count: 1,
        fingerprint: fingerprint::of(rule.slug, &finding.run, sent.as_deref(), &problem),
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
    String::from_utf8_lossy(&line[..line.len().min(KEPT * 4 + 4)]).into_owned()
}

/// The first characters of a text; `…` stands for the rest.
pub(super) fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
