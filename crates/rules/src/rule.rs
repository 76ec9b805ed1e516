//! What a rule is: its types, and the macros in which the files of the chapters write their tables.
//!
//! [`crate::book`] lists the tables and applies them.

use std::fmt;

use bytes::Bytes;
use mcpjoin_proto::Version;

use crate::client_view::ClientView;
use crate::revisions::Revisions;
use crate::server_view::ServerView;
use crate::trace::Channel;

/// A table of rules of one chapter. A row is the slug with the sources, the sentence, and the check.
///
/// ```text
/// rules! {
///     pub(crate) RULES for Server in Chapter::Base;
///
///     "result-is-object", [FIRST Must "basic/messages#responses", SINCE_SECOND Must "basic#responses"],
///         "A result is a JSON object.",
///         |view| results_are_objects(view);
/// }
/// ```
///
/// `Server`: the check takes a [`ServerView`]; `Client`: it takes a [`ClientView`]. Sources that several rows share are a
/// constant, made by [`sources!`] and named in place of the list.
macro_rules! rules {
    (
        $vis:vis $table:ident for $party:ident in Chapter::$chapter:ident;
        $($slug:literal, $sources:tt, $sentence:literal, $check:expr;)+
    ) => {
        $vis const $table: &[$crate::rule::Rule] = &[$(
            $crate::rule::Rule {
                slug: $slug,
                chapter: $crate::rule::Chapter::$chapter,
                sentence: $sentence,
                sources: sources!($sources),
                check: $crate::rule::Check::$party($check),
            },
        )+];
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
        /// No sentence demands it; a server without it is a nuisance all the same. The sources of such a rule lead to what
        /// comes nearest.
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
        /// How both sides agree, in both eras.
        Lifecycle = "lifecycle",
        /// Lines over standard input and output.
        Stdio = "stdio",
        /// POST, and streams of events, in both eras.
        StreamableHttp = "http",
        /// The two endpoints of 2024-11-05.
        HttpSse = "http-sse",
        /// How a server keeps out whoever has no token, and says where one is to be had.
        Authorization = "authorization",
        /// What a server can do for a model, and what it does when it is asked to.
        Tools = "tools",
        /// What a server lets be read.
        Resources = "resources",
        /// Texts with places to fill in.
        Prompts = "prompts",
        /// What stands in the results of tools, resources and prompts.
        Content = "content",
        /// Pages, hints for those who keep results, completion, log messages.
        Utilities = "utilities",
        /// Progress, cancellation, streams of changes, input that a server asks for.
        Patterns = "patterns",
        /// What a client has for servers: roots, sampling, elicitation.
        ClientFeatures = "client-features",
        /// What a server bears.
        Resilience = "resilience",
    }
}

impl Chapter {
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

    /// Whether its rules are about runs over this transport.
    pub(crate) fn covers(self, channel: Channel) -> bool {
        match self {
            Self::Stdio => channel == Channel::Stdio,
            Self::StreamableHttp | Self::Authorization => channel == Channel::StreamableHttp,
            Self::HttpSse => channel == Channel::HttpSse,
            _ => true,
        }
    }

    /// Why its rules had nothing to check when nothing was carried by what they are about.
    pub(crate) const fn unused(self) -> &'static str {
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
    pub(crate) check: Check,
}

/// Whom a rule is about, and its check.
#[derive(Clone, Copy)]
pub(crate) enum Check {
    /// A server: a run in which we are the client.
    Server(fn(&ServerView<'_>) -> Outcome),
    /// A client: a run in which we are the server.
    Client(fn(&ClientView<'_>) -> Outcome),
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
    /// What is wrong, in one sentence.
    pub problem: String,
    /// The name of the run.
    pub run: Box<str>,
    /// The revision whose rules were applied.
    pub version: Version,
    /// How bindingly that revision says it.
    pub level: Level,
    /// Where it says so.
    pub address: String,
    /// The line that we sent. Over HTTP, the beginning of the request in one line.
    pub sent: Option<Bytes>,
    /// The line that the peer sent. Over HTTP, that line or the beginning of the response in one line.
    pub received: Option<Bytes>,
}

impl Finding {
    pub(crate) fn new(problem: impl Into<String>, sent: Option<&Bytes>, received: Option<&Bytes>) -> Self {
        Self {
            problem: problem.into(),
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

impl Outcome {
    /// The outcome of checking several items: `None` for an item without a violation. Without any item the rule is skipped for
    /// the reason `nothing`.
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
