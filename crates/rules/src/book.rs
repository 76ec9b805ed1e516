//! The list of all rules, and applying the selected ones to a trace.
//!
//! The order of the tables is the order of the rules in every report. A rule is applied to each run whose revision has it,
//! and fails if it is violated in any of them.

use std::collections::BTreeSet;
use std::fmt;

use crate::client_view::ClientView;
use crate::rule::{Chapter, Check, Finding, Level, Outcome, Rule};
use crate::server_view::ServerView;
use crate::trace::{Channel, Run, Trace};
use crate::{
    authorization, base, client, content, http, lifecycle, patterns, prompts, resilience, resources, stdio,
    tools, utilities,
};

/// The rules about servers, table by table.
const SERVER: &[&[Rule]] = &[
    base::RULES,
    lifecycle::initialize::RULES,
    lifecycle::capabilities::RULES,
    lifecycle::modern::RULES,
    stdio::RULES,
    http::post::RULES,
    http::streams::RULES,
    http::modern::RULES,
    http::streams::SSE_RULES,
    authorization::RULES,
    authorization::metadata::RULES,
    tools::RULES,
    resources::RULES,
    prompts::RULES,
    content::RULES,
    utilities::RULES,
    patterns::in_flight::RULES,
    patterns::subscriptions::RULES,
    patterns::input::RULES,
    patterns::tasks::RULES,
    resilience::RULES,
];

/// The rules about clients, table by table. No slug in it is one of a rule about servers.
const CLIENT: &[&[Rule]] = &[
    client::messages::RULES,
    client::utilities::RULES,
    client::lifecycle::RULES,
    client::stdio::RULES,
    client::http::RULES,
    client::streams::RULES,
    client::http::SSE_RULES,
    client::pages::RULES,
    client::utilities::PATTERN_RULES,
    client::tasks::RULES,
    client::features::RULES,
];

/// Every rule about servers, chapter by chapter.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    SERVER.iter().copied().flatten()
}

/// Every rule about clients, chapter by chapter. No slug in it is one of the [rules about servers](rules).
pub fn client_rules() -> impl Iterator<Item = &'static Rule> {
    CLIENT.iter().copied().flatten()
}

/// A rule with its outcome.
#[derive(Clone, Debug)]
pub struct RuleResult {
    /// The rule.
    pub rule: &'static Rule,
    /// Its outcome.
    pub outcome: Outcome,
}

impl RuleResult {
    /// The highest level among the findings. Without a finding, the level of the rule.
    #[must_use]
    pub fn level(&self) -> Level {
        match &self.outcome {
            Outcome::Failed(findings) => {
                findings.iter().map(|finding| finding.level).max().unwrap_or_else(|| self.rule.level())
            }
            _ => self.rule.level(),
        }
    }
}

/// The outcomes of all selected rules, in the order of [`rules`] or [`client_rules`].
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One for each selected rule.
    pub results: Vec<RuleResult>,
}

impl Report {
    /// The number of rules that were checked.
    #[must_use]
    pub fn ran(&self) -> usize {
        self.results.len() - self.skipped().count()
    }

    /// The rules that passed.
    pub fn passed(&self) -> impl Iterator<Item = &RuleResult> {
        self.results.iter().filter(|result| result.outcome == Outcome::Passed)
    }

    /// The rules that were violated.
    pub fn failed(&self) -> impl Iterator<Item = &RuleResult> {
        self.results.iter().filter(|result| matches!(result.outcome, Outcome::Failed(_)))
    }

    /// The rules that had nothing to check.
    pub fn skipped(&self) -> impl Iterator<Item = &RuleResult> {
        self.results.iter().filter(|result| matches!(result.outcome, Outcome::Skipped(_)))
    }

    /// Whether a rule of that level or a higher one was violated.
    #[must_use]
    pub fn has_failed(&self, at_least: Level) -> bool {
        self.failed().any(|result| result.level() >= at_least)
    }
}

/// The rules that are applied. Default: all.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    only: BTreeSet<&'static str>,
    without: BTreeSet<&'static str>,
}

/// The error for a name of no rule and no chapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName(pub String);

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no rule or chapter {}", self.0)
    }
}

impl std::error::Error for UnknownName {}

impl Selection {
    /// Selects the rules and chapters in `only` (all, if it is empty), except those in `without`.
    ///
    /// # Errors
    /// The first name of no rule and no chapter.
    pub fn new<'a>(
        only: impl IntoIterator<Item = &'a str>,
        without: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, UnknownName> {
        let rules: Vec<&'static Rule> = rules().collect();
        Self::among(&rules, &mut only.into_iter(), &mut without.into_iter())
    }

    /// The same for the [rules about clients](client_rules).
    ///
    /// # Errors
    /// The first name of no such rule and no chapter of one.
    pub fn for_clients<'a>(
        only: impl IntoIterator<Item = &'a str>,
        without: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, UnknownName> {
        let rules: Vec<&'static Rule> = client_rules().collect();
        Self::among(&rules, &mut only.into_iter(), &mut without.into_iter())
    }

    fn among<'a>(
        rules: &[&'static Rule],
        only: &mut dyn Iterator<Item = &'a str>,
        without: &mut dyn Iterator<Item = &'a str>,
    ) -> Result<Self, UnknownName> {
        let resolve = |names: &mut dyn Iterator<Item = &'a str>| {
            let mut slugs = BTreeSet::new();
            for name in names {
                let before = slugs.len();
                let named = |rule: &Rule| rule.slug == name || rule.chapter.as_str() == name;
                slugs.extend(rules.iter().filter(|rule| named(rule)).map(|rule| rule.slug));
                if slugs.len() == before && !rules.iter().any(|rule| named(rule)) {
                    return Err(UnknownName(name.to_owned()));
                }
            }
            Ok(slugs)
        };
        Ok(Self { only: resolve(only)?, without: resolve(without)? })
    }

    /// Whether a rule is applied.
    #[must_use]
    pub fn has(&self, rule: &Rule) -> bool {
        (self.only.is_empty() || self.only.contains(rule.slug)) && !self.without.contains(rule.slug)
    }
}

/// Why the other chapters are skipped if the server refused every request without a token.
const TOKEN_WANTED: &str =
    "the server requires a token: use --header 'Authorization: Bearer ...', or mcpjoin auth login URL";

/// Checks a server: applies the selected rules to a trace.
#[must_use]
pub fn check_server(trace: &Trace, selection: &Selection) -> Report {
    let (runs, stress) = (sorted(trace, &trace.runs), sorted(trace, &trace.stress));
    let authorization = sorted(trace, trace.authorization.as_slice());
    let token_wanted = trace.runs.is_empty() && trace.authorization.is_some();
    let results = rules().filter(|rule| selection.has(rule)).filter_map(|rule| {
        let Check::Server(check) = rule.check else { return None };
        let runs = match rule.chapter {
            Chapter::Resilience => &stress,
            Chapter::Authorization => &authorization,
            _ => &runs,
        };
        let is_shut_out = token_wanted && rule.chapter != Chapter::Authorization;
        let outcome = if is_shut_out && rule.chapter.covers(Channel::StreamableHttp) {
            Outcome::Skipped(TOKEN_WANTED)
        } else {
            over_runs(rule, runs.iter().map(|view| (view.run, view)), check)
        };
        Some(RuleResult { rule, outcome })
    });
    Report { results: results.collect() }
}

fn sorted<'a>(trace: &'a Trace, runs: &'a [Run]) -> Vec<ServerView<'a>> {
    runs.iter().map(|run| ServerView::of(trace, run)).collect()
}

/// Checks a client: applies the selected rules to a trace in which we are the server.
///
/// ```
/// use mcpjoin_rules::{Probe, Run, Selection, Trace, check_client};
/// use mcpjoin_proto::{Era, Version};
///
/// let mut run = Run::new("session", Version::newest(Era::Legacy));
/// run.received(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
/// run.sent(Probe::Answer, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
/// run.received(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
/// let mut trace = Trace::default();
/// trace.runs.push(run);
///
/// let report = check_client(&trace, &Selection::default());
/// let failed: Vec<&str> = report.failed().map(|result| result.rule.slug).collect();
/// assert_eq!(failed, ["client-request-id-not-reused"]);
/// ```
#[must_use]
pub fn check_client(trace: &Trace, selection: &Selection) -> Report {
    let runs: Vec<ClientView<'_>> = trace.runs.iter().map(|run| ClientView::of(trace, run)).collect();
    let results = client_rules().filter(|rule| selection.has(rule)).filter_map(|rule| {
        let Check::Client(check) = rule.check else { return None };
        let outcome = match over_runs(rule, runs.iter().map(|view| (view.run, view)), check) {
            Outcome::Skipped(why) => Outcome::Skipped(about_a_client(why)),
            outcome => outcome,
        };
        Some(RuleResult { rule, outcome })
    });
    Report { results: results.collect() }
}

/// Replaces a chapter's reason for skipping, which is about a server, by the one about a client.
fn about_a_client(why: &'static str) -> &'static str {
    match why {
        "the server was not run as a child" => "the client did not connect over stdio",
        "the server was not reached over Streamable HTTP" => {
            "the client did not connect over Streamable \
            HTTP"
        }
        "the server was not reached over HTTP+SSE" => "the client did not connect over HTTP+SSE",
        why => why,
    }
}

/// The outcome of a rule over all runs.
fn over_runs<'a, V>(
    rule: &Rule,
    runs: impl Iterator<Item = (&'a Run, V)>,
    check: impl Fn(V) -> Outcome,
) -> Outcome {
    let mut findings = Vec::new();
    let mut passed = false;
    let mut skipped = None;
    let mut used = false;
    for (run, view) in runs.filter(|(run, _)| rule.chapter.covers(run.channel)) {
        used = true;
        let Some(source) = rule.source(&run.version) else { continue };
        match check(view) {
            Outcome::Passed => passed = true,
            // The last run got furthest: its reason is the best.
            Outcome::Skipped(why) => skipped = Some(why),
            Outcome::Failed(found) => findings.extend(found.into_iter().map(|finding| Finding {
                run: run.name.clone(),
                version: run.version.clone(),
                level: source.level,
                address: source.address(&run.version),
                ..finding
            })),
        }
    }
    if !findings.is_empty() {
        Outcome::Failed(findings)
    } else if passed {
        Outcome::Passed
    } else {
        let none = if used { "no session used a revision that has this rule" } else { rule.chapter.unused() };
        Outcome::Skipped(skipped.unwrap_or(none))
    }
}
