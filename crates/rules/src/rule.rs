//! The types of a rule, and the macros for the tables of rules.
//!
//! [`crate::book`] lists the tables and applies them. A chapter's file has one table; the rows share its chapter and, by the
//! constants of the file, the pages of the specification.

use std::fmt;

use bytes::Bytes;
use mcpjoin_proto::Version;

use crate::client_view::ClientView;
use crate::revisions::Revisions;
use crate::server_view::ServerView;
use crate::trace::Channel;

/// Declares an enum with the name of each variant behind it, a constant with all variants, and `as_str`. Exported for our own
/// crates, outside the promise of compatibility.
#[doc(hidden)]
#[macro_export]
macro_rules! named {
    (
        $(#[$doc:meta])*
        $vis:vis enum $type:ident { $( $(#[$variant_doc:meta])* $variant:ident = $name:literal, )+ }
    ) => {
        $(#[$doc])*
        $vis enum $type {
            $( $(#[$variant_doc])* $variant, )+
        }

        impl $type {
            /// Every variant, in the order of the declaration.
            pub const ALL: [Self; [$( Self::$variant, )+].len()] = [$( Self::$variant, )+];

            /// The name of a variant. It stays the same in later releases.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )+
                }
            }
        }
    };
}

/// A table of rules of one chapter. A row is the slug with the sources, the sentence, and the check.
///
/// ```text
/// rules! {
///     pub(crate) RULES for Server in Chapter::Base;
///
///     "unknown-method-refused", [ALL Must "https://www.jsonrpc.org/specification#response_object"],
///         "A request with a method that does not exist is answered with an error.",
///         else "no unknown method was asked for, or it was not answered",
///         |view| view.answers(Probe::UnknownMethod).map(|(reply, outcome)| reply.finding_if(outcome.is_ok(), "..."));
/// }
/// ```
///
/// `Server`: the check takes a [`ServerView`]; `Client`: it takes a [`ClientView`]. With `else`, the check returns an
/// iterator with an item for each thing that it looked at: a finding, or `None` if that was right. Without any item the rule
/// is skipped for the reason after `else`. A check may return another [`Outcome`] early. Without `else`, the check is a
/// function that returns an [`Outcome`]. Sources that several rows share are a constant, made by [`sources!`] and named in
/// place of the list.
macro_rules! rules {
    (
        $vis:vis $table:ident for $party:ident in Chapter::$chapter:ident;
        $($slug:literal, $sources:tt, $sentence:literal, $(else $nothing:expr, |$view:ident|)? $check:expr;)+
    ) => {
        $vis const $table: &[$crate::rule::Rule] = &[$(
            $crate::rule::Rule {
                slug: $slug,
                chapter: $crate::rule::Chapter::$chapter,
                sentence: $sentence,
                sources: sources!($sources),
                check: $crate::rule::Check::$party(check!($($nothing, $view,)? $check)),
            },
        )+];
    };
}

macro_rules! check {
    ($nothing:expr, $view:ident, $findings:expr) => {
        |$view| $crate::rule::Outcome::of($findings, $nothing)
    };
    ($check:expr) => {
        $check
    };
}

/// Sources of a rule, oldest first: `REVISIONS LEVEL PAGE` each, by the names of the constants of [`Revisions`] and of the
/// variants of [`Level`].
macro_rules! sources {
    ([$($source:tt)+]) => { sources![$($source)+] };
    ($named:ident) => { $named };
    ($($revisions:ident $level:ident $page:expr),+ $(,)?) => {
        &[$(
            $crate::rule::Source::new(
                $crate::revisions::Revisions::$revisions,
                $crate::rule::Level::$level,
                $page,
            ),
        )+]
    };
}

named! {
    /// How binding a sentence is: the least binding level first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Level {
        /// No sentence demands it, but a violation causes trouble. The sources lead to the nearest sentence.
        Advice = "advice",
        /// SHOULD or SHOULD NOT.
        Should = "SHOULD",
        /// MUST or MUST NOT.
        Must = "MUST",
    }
}

named! {
    /// The chapters of the book.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum Chapter {
        /// JSON-RPC as the specification narrows it.
        Base = "base",
        /// Negotiating a version and capabilities, in both eras.
        Lifecycle = "lifecycle",
        /// Lines over standard input and output.
        Stdio = "stdio",
        /// POST and event streams, in both eras.
        StreamableHttp = "http",
        /// The two endpoints of 2024-11-05.
        HttpSse = "http-sse",
        /// Refusing requests without a token, and the metadata about authorization servers.
        Authorization = "authorization",
        /// The list of tools, their schemas, and the results of calls.
        Tools = "tools",
        /// The lists of resources and templates, and the results of reading.
        Resources = "resources",
        /// The list of prompts, and their messages.
        Prompts = "prompts",
        /// Content blocks in the results of tools, resources and prompts.
        Content = "content",
        /// Pagination, cache hints, completion and logging.
        Utilities = "utilities",
        /// Progress, cancellation, subscriptions, tasks, and input that a server requests.
        Patterns = "patterns",
        /// Features of clients: roots, sampling, elicitation.
        ClientFeatures = "client-features",
        /// Load, slow readers, lost connections.
        Resilience = "resilience",
    }
}

impl Chapter {
    /// The heading.
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

    /// Whether its rules apply to runs over this transport.
    pub(crate) fn covers(self, channel: Channel) -> bool {
        match self {
            Self::Stdio => channel == Channel::Stdio,
            Self::StreamableHttp | Self::Authorization => channel == Channel::StreamableHttp,
            Self::HttpSse => channel == Channel::HttpSse,
            _ => true,
        }
    }

    /// Why its rules are skipped when no run used its transport.
    pub(crate) const fn unused(self) -> &'static str {
        match self {
            Self::Resilience => "stress tests were not requested (--resilience)",
            Self::Stdio => "the server was not run as a child",
            Self::StreamableHttp => "the server was not reached over Streamable HTTP",
            Self::HttpSse => "the server was not reached over HTTP+SSE",
            Self::Authorization => "the server requires no token, or was not reached over Streamable HTTP",
            _ => "no session was opened",
        }
    }
}

/// The sentence that a rule checks, in a range of revisions.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The revisions.
    pub revisions: Revisions,
    /// How binding the sentence is.
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
    /// The name; it stays the same in later releases.
    pub slug: &'static str,
    /// The chapter.
    pub chapter: Chapter,
    /// The demand of the specification, in our words.
    pub sentence: &'static str,
    /// The sentences: one for each range of revisions, oldest first, no revision twice.
    pub sources: &'static [Source],
    pub(crate) check: Check,
}

/// The check of a rule.
#[derive(Clone, Copy)]
pub(crate) enum Check {
    /// Of a server: in the run we are the client.
    Server(fn(&ServerView<'_>) -> Outcome),
    /// Of a client: in the run we are the server.
    Client(fn(&ClientView<'_>) -> Outcome),
}

impl Rule {
    /// The sentence in one revision; `None` if the revision does not have the rule.
    #[must_use]
    pub fn source(&self, version: &Version) -> Option<&'static Source> {
        self.sources.iter().find(|source| source.revisions.contains(version))
    }

    /// The level in the newest revision that has the rule.
    #[must_use]
    pub fn level(&self) -> Level {
        self.sources.last().map_or(Level::Advice, |source| source.level)
    }

    /// The first revision that has the rule.
    #[must_use]
    pub fn first(&self) -> Option<&'static Version> {
        self.sources.first().map(|source| source.revisions.first())
    }

    /// The last revision that has the rule.
    #[must_use]
    pub fn last(&self) -> Option<&'static Version> {
        self.sources.last().map(|source| source.revisions.last())
    }

    /// The address of the sentence in the newest revision that has the rule.
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

/// The outcome of a rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The rule was checked, and no violation was found.
    Passed,
    /// The rule was violated, at least here.
    Failed(Vec<Finding>),
    /// There was nothing to check, for this reason.
    Skipped(&'static str),
}

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The problem, in one sentence.
    pub problem: String,
    /// The name of the run.
    pub run: Box<str>,
    /// The revision whose rules were applied.
    pub version: Version,
    /// How binding the rule is in that revision.
    pub level: Level,
    /// The address of the sentence.
    pub address: String,
    /// The line that we sent. Over HTTP, the beginning of the request in one line.
    pub sent: Option<Bytes>,
    /// The line that the peer sent. Over HTTP, that line or the beginning of the response in one line.
    pub received: Option<Bytes>,
}

impl Finding {
    pub(crate) fn new(problem: impl fmt::Display, sent: Option<&Bytes>, received: Option<&Bytes>) -> Self {
        Self {
            problem: problem.to_string(),
            sent: sent.cloned(),
            received: received.cloned(),
            // Set when the finding is added to a report.
            run: Box::default(),
            version: Version::Other(Box::default()),
            level: Level::Must,
            address: String::new(),
        }
    }
}

/// A part of a run that a finding can be about.
pub(crate) trait Evidence {
    /// A finding about it, with the lines that show it.
    fn finding(&self, problem: impl fmt::Display) -> Finding;

    /// A finding about it, if the rule is violated. The problem is not formatted otherwise.
    fn finding_if(&self, is_violated: bool, problem: impl fmt::Display) -> Option<Finding> {
        is_violated.then(|| self.finding(problem))
    }
}

impl Outcome {
    /// The outcome of checking several items: `None` for an item without a violation. Without any item the rule is skipped for
    /// the reason `nothing`.
    pub(crate) fn of(checked: impl IntoIterator<Item = Option<Finding>>, nothing: &'static str) -> Self {
        let mut findings = Vec::new();
        let mut has_items = false;
        for finding in checked {
            has_items = true;
            findings.extend(finding);
        }
        match (has_items, findings.is_empty()) {
            (false, _) => Self::Skipped(nothing),
            (true, true) => Self::Passed,
            (true, false) => Self::Failed(findings),
        }
    }
}
