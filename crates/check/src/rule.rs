//! What a rule is, and how a trace is judged by all of them.
//!
//! Called by the owner of a trace. Each rule is judged in each run whose revision has it; one run in which it fails is
//! enough.

use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;
use mcpjoin_proto::Version;

use crate::client::client_rules;
use crate::revisions::Revisions;
use crate::seen::Seen;
use crate::trace::{Channel, Trace};
use crate::{
    authorization, base, content, http, lifecycle, patterns, prompts, resilience, resources, stdio, tools,
    utilities,
};

/// How binding a sentence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No sentence demands it; a server without it is a nuisance all the same. The sources of such a rule lead to what
    /// comes nearest.
    Advice,
    /// SHOULD or SHOULD NOT.
    Should,
    /// MUST or MUST NOT.
    Must,
}

impl Level {
    /// As it is written in a report.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Advice => "advice",
            Self::Should => "SHOULD",
            Self::Must => "MUST",
        }
    }
}

/// The chapters of the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Chapter {
    /// JSON-RPC as the specification narrows it.
    Base,
    /// How both sides agree, in both eras.
    Lifecycle,
    /// Lines over standard input and output.
    Stdio,
    /// POST, and streams of events, in both eras.
    StreamableHttp,
    /// The two endpoints of 2024-11-05.
    HttpSse,
    /// How a server keeps out whoever has no token, and says where one is to be had.
    Authorization,
    /// What a server can do for a model, and what it does when it is asked to.
    Tools,
    /// What a server lets be read.
    Resources,
    /// Texts with places to fill in.
    Prompts,
    /// What stands in the results of tools, resources and prompts.
    Content,
    /// Pages, hints for those who keep results, completion, log messages.
    Utilities,
    /// Progress, cancellation, streams of changes, input that a server asks for.
    Patterns,
    /// What a client has for servers: roots, sampling, elicitation.
    ClientFeatures,
    /// What a server bears.
    Resilience,
}

impl Chapter {
    /// Every chapter, in the order of the book.
    pub const ALL: [Self; 14] = [
        Self::Base,
        Self::Lifecycle,
        Self::Stdio,
        Self::StreamableHttp,
        Self::HttpSse,
        Self::Authorization,
        Self::Tools,
        Self::Resources,
        Self::Prompts,
        Self::Content,
        Self::Utilities,
        Self::Patterns,
        Self::ClientFeatures,
        Self::Resilience,
    ];

    /// Its name, which also stands for all of its rules in a [`Selection`].
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Lifecycle => "lifecycle",
            Self::Stdio => "stdio",
            Self::StreamableHttp => "http",
            Self::HttpSse => "http-sse",
            Self::Authorization => "authorization",
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Prompts => "prompts",
            Self::Content => "content",
            Self::Utilities => "utilities",
            Self::Patterns => "patterns",
            Self::ClientFeatures => "client-features",
            Self::Resilience => "resilience",
        }
    }

    /// Its heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Base => "Base protocol",
            Self::Lifecycle => "Lifecycle and versions",
            Self::Stdio => "stdio",
            Self::StreamableHttp => "Streamable HTTP",
            Self::HttpSse => "HTTP+SSE",
            Self::Authorization => "Authorization",
            Self::Tools => "Tools",
            Self::Resources => "Resources",
            Self::Prompts => "Prompts",
            Self::Content => "Content of results",
            Self::Utilities => "Pages, caching, completion and logging",
            Self::Patterns => "Progress, cancellation, subscriptions and input",
            Self::ClientFeatures => "Client features",
            Self::Resilience => "Resilience",
        }
    }

    /// Whether its rules judge what was carried by that.
    fn judges(self, channel: Channel) -> bool {
        match self {
            Self::Base
            | Self::Lifecycle
            | Self::Tools
            | Self::Resources
            | Self::Prompts
            | Self::Content
            | Self::Utilities
            | Self::Patterns
            | Self::ClientFeatures
            | Self::Resilience => true,
            Self::Stdio => channel == Channel::Stdio,
            Self::StreamableHttp | Self::Authorization => channel == Channel::StreamableHttp,
            Self::HttpSse => channel == Channel::HttpSse,
        }
    }

    /// Why its rules had nothing to judge when nothing was carried by what they are about.
    const fn unused(self) -> &'static str {
        match self {
            Self::Resilience => "resilience was not asked for (--resilience)",
            Self::Stdio => "the server was not run as a child",
            Self::StreamableHttp => "the server was not reached over Streamable HTTP",
            Self::HttpSse => "the server was not reached over HTTP+SSE",
            Self::Authorization => "the server wants no token, or was not reached over Streamable HTTP",
            _ => "no session was opened",
        }
    }
}

/// Where some revisions say it, and how bindingly.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Which revisions.
    pub revisions: Revisions,
    /// How bindingly.
    pub level: Level,
    page: &'static str,
}

impl Source {
    /// `page` is a path below the revision's folder of the specification, or an address.
    pub(crate) const fn new(revisions: Revisions, level: Level, page: &'static str) -> Self {
        Self { revisions, level, page }
    }

    /// The address of the sentence in one revision.
    #[must_use]
    pub fn address(&self, version: &Version) -> String {
        if self.page.starts_with("https://") {
            return self.page.into();
        }
        format!("https://modelcontextprotocol.io/specification/{version}/{}", self.page)
    }
}

/// One rule of the book.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Its name: says what it is, and stays.
    pub slug: &'static str,
    /// The chapter that it stands in.
    pub chapter: Chapter,
    /// What the specification says, in our words.
    pub sentence: &'static str,
    /// Where it says so: one row for each range of revisions, oldest first, no revision twice.
    pub sources: &'static [Source],
    pub(crate) judge: fn(&Seen<'_>) -> Outcome,
}

impl Rule {
    /// Where one revision says it; `None` when it does not.
    #[must_use]
    pub fn source(&self, version: &Version) -> Option<&'static Source> {
        self.sources.iter().find(|source| source.revisions.contains(version))
    }

    /// How bindingly the newest revision that has it says it.
    #[must_use]
    pub fn level(&self) -> Level {
        self.sources.last().map_or(Level::Advice, |source| source.level)
    }

    /// The first revision that has it.
    #[must_use]
    pub fn first(&self) -> Option<&'static Version> {
        self.sources.first().map(|source| source.revisions.first())
    }

    /// The last revision that has it.
    #[must_use]
    pub fn last(&self) -> Option<&'static Version> {
        self.sources.last().map(|source| source.revisions.last())
    }

    /// The address of the sentence in the newest revision that has it.
    #[must_use]
    pub fn address(&self) -> Option<String> {
        self.sources.last().map(|source| source.address(source.revisions.last()))
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("slug", &self.slug)
            .field("chapter", &self.chapter)
            .finish_non_exhaustive()
    }
}

/// What a rule says of a trace.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was put to the test and held.
    Passed,
    /// It was broken: here, at least.
    Failed(Vec<Finding>),
    /// There was nothing to judge, and why.
    Skipped(&'static str),
}

/// One place where a rule was broken.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What is wrong, in one sentence.
    pub problem: String,
    /// The name of the run.
    pub run: Box<str>,
    /// The revision by which it was judged.
    pub version: Version,
    /// How bindingly that revision says it.
    pub level: Level,
    /// Where it says so.
    pub address: String,
    /// The line that we had sent; of HTTP, the beginning of the request in one line.
    pub sent: Option<Bytes>,
    /// The line that the server sent; of HTTP, that or the beginning of the response in one line.
    pub received: Option<Bytes>,
}

impl Finding {
    pub(crate) fn new(problem: impl Into<String>, sent: Option<&Bytes>, received: Option<&Bytes>) -> Self {
        Self {
            problem: problem.into(),
            sent: sent.cloned(),
            received: received.cloned(),
            // Filled in by `judge`, which knows.
            run: Box::default(),
            version: Version::Other(Box::default()),
            level: Level::Must,
            address: String::new(),
        }
    }
}

impl Outcome {
    /// Of things that were looked at: `None` for one that is in order. With no things at all there was nothing to judge.
    pub(crate) fn of(looked_at: impl IntoIterator<Item = Option<Finding>>, nothing: &'static str) -> Self {
        let mut findings = Vec::new();
        let mut seen = false;
        for finding in looked_at {
            seen = true;
            findings.extend(finding);
        }
        match (seen, findings.is_empty()) {
            (false, _) => Self::Skipped(nothing),
            (true, true) => Self::Passed,
            (true, false) => Self::Failed(findings),
        }
    }
}

/// A rule and what it says.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The rule.
    pub rule: &'static Rule,
    /// What it says.
    pub outcome: Outcome,
}

impl Verdict {
    /// How binding the sentence is that was broken; without one, as the rule says.
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

/// What all selected rules say, in the order of the book.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One for each selected rule.
    pub verdicts: Vec<Verdict>,
}

impl Report {
    /// The rules that were put to the test.
    #[must_use]
    pub fn ran(&self) -> usize {
        self.verdicts.len() - self.skipped().count()
    }

    /// The rules that held.
    pub fn passed(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Passed)
    }

    /// The rules that were broken.
    pub fn failed(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(|verdict| matches!(verdict.outcome, Outcome::Failed(_)))
    }

    /// The rules that found nothing to judge.
    pub fn skipped(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(|verdict| matches!(verdict.outcome, Outcome::Skipped(_)))
    }

    /// Whether something was broken that is at least as binding as that.
    #[must_use]
    pub fn has_failed(&self, at_least: Level) -> bool {
        self.failed().any(|verdict| verdict.level() >= at_least)
    }
}

/// The book: every rule, chapter by chapter.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let files = base::RULES.iter().chain(&lifecycle::RULES);
    let http = http::STREAMABLE.iter().copied().flatten().chain(http::SSE);
    let features = tools::RULES.iter().chain(&resources::RULES).chain(&prompts::RULES).chain(&content::RULES);
    let features = features.chain(&utilities::RULES).chain(&patterns::RULES);
    files
        .copied()
        .flatten()
        .chain(&stdio::RULES)
        .chain(http)
        .chain(authorization::RULES.iter().copied().flatten())
        .chain(features.copied().flatten())
        .chain(resilience::RULES.iter().copied().flatten())
}

/// Which rules are applied. By default all.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    only: BTreeSet<&'static str>,
    without: BTreeSet<&'static str>,
}

/// No rule and no chapter has that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName(pub String);

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no rule and no chapter {}", self.0)
    }
}

impl std::error::Error for UnknownName {}

impl Selection {
    /// These rules, or the rules of these chapters, alone (all, when none is named), without those.
    ///
    /// # Errors
    /// The first name that is neither a rule's nor a chapter's.
    pub fn new<'a>(
        only: impl IntoIterator<Item = &'a str>,
        without: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, UnknownName> {
        let rules: Vec<&'static Rule> = rules().collect();
        Self::among(&rules, &mut only.into_iter(), &mut without.into_iter())
    }

    /// The same among the [rules for clients](client_rules).
    ///
    /// # Errors
    /// The first name that is neither a rule's nor a chapter's of that book.
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

/// Why nothing else can be said of a server that has let us do nothing.
const KEPT_OUT: &str =
    "the server wants a token: see --header 'Authorization: Bearer ...', or mcpjoin auth login URL";

/// Judges a trace by the selected rules.
#[must_use]
pub fn judge(trace: &Trace, selection: &Selection) -> Report {
    let runs: Vec<Seen<'_>> = trace.runs.iter().map(|run| Seen::of(trace, run)).collect();
    let stress: Vec<Seen<'_>> = trace.stress.iter().map(|run| Seen::of(trace, run)).collect();
    let selected = rules().filter(|rule| selection.has(rule));
    let authorization: Vec<Seen<'_>> = trace.authorization.iter().map(|run| Seen::of(trace, run)).collect();
    let runs_for = |rule: &Rule| match rule.chapter {
        Chapter::Resilience => &stress,
        Chapter::Authorization => &authorization,
        _ => &runs,
    };
    // Who has kept us out is judged by how that was done, and by nothing else.
    let kept_out = trace.runs.is_empty() && trace.authorization.is_some();
    let verdicts = selected.map(|rule| {
        let unseen = kept_out && rule.chapter != Chapter::Authorization;
        let outcome = if unseen && rule.chapter.judges(Channel::StreamableHttp) {
            Outcome::Skipped(KEPT_OUT)
        } else {
            by_runs(rule, runs_for(rule))
        };
        Verdict { rule, outcome }
    });
    Report { verdicts: verdicts.collect() }
}

/// What a rule says of all runs together.
pub(crate) fn by_runs(rule: &Rule, runs: &[Seen<'_>]) -> Outcome {
    let mut findings = Vec::new();
    let mut passed = false;
    let mut skipped = None;
    let mut used = false;
    for seen in runs.iter().filter(|seen| rule.chapter.judges(seen.run.channel)) {
        used = true;
        let Some(source) = rule.source(&seen.run.version) else { continue };
        match (rule.judge)(seen) {
            Outcome::Passed => passed = true,
            // The run that came furthest says it last: lines that are no messages are sent in the last one.
            Outcome::Skipped(why) => skipped = Some(why),
            Outcome::Failed(found) => findings.extend(found.into_iter().map(|finding| Finding {
                run: seen.run.name.clone(),
                version: seen.run.version.clone(),
                level: source.level,
                address: source.address(&seen.run.version),
                ..finding
            })),
        }
    }
    if !findings.is_empty() {
        Outcome::Failed(findings)
    } else if passed {
        Outcome::Passed
    } else {
        let none =
            if used { "no session was by a revision that has this rule" } else { rule.chapter.unused() };
        Outcome::Skipped(skipped.unwrap_or(none))
    }
}
