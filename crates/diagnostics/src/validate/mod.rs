//! Looks at a server from outside: starts it a few times, or reaches it over HTTP, provokes what the rules of
//! [`check`](mcpjoin_rules) judge, and notes everything that crosses.
//!
//! Called by `mcpjoin validate` and by whoever tests a server of their own. It judges nothing, and asks for nothing that a
//! server has not declared, but for what a rule says must be refused. Unless it is told to, it **never calls a tool**,
//! reads a resource or gets a prompt: it asks for prompts, resources and tasks that do not exist. Where they are declared,
//! it asks for the completion of an empty text, and for log messages of a level, which ends with the session. It declares
//! no capability of its own, but in calls of a tool that was allowed and needs one.
//!
//! There is one run after another: a session in each era that the server speaks, a short one for each version of the
//! legacy era, one for lines that are no messages; over HTTP two at once as well. A child is ended after each run by the
//! [shutdown ladder](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio#shutdown).

mod client;
mod features;
mod http;
mod live;
mod openers;
mod probes;
mod resilience;
mod runs;
mod source;

pub use client::{ClientValidator, Leaving};

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::session::{Limits, OpeningFailure};
use mcpjoin_proto::{Raw, Version};
use mcpjoin_rules::{Probe, Trace};

pub use self::openers::{Opener, OpenerAnswer};
use self::source::Source;
use mcpjoin::link::{ChildCommand, SocketError, SpawnError};
use mcpjoin::link::{Crossed, HttpConnect, HttpSetupError, Way};

/// What is to be looked at, and for how long.
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use mcpjoin_rules::{Level, Selection, judge};
/// use mcpjoin::link::ChildCommand;
/// use mcpjoin_diagnostics::validate::Validator;
///
/// let trace = Validator::new(ChildCommand::new("./my-server")).run().await?;
/// let report = judge(&trace, &Selection::default());
/// for verdict in report.failed() {
///     println!("{}: {}", verdict.rule.slug, verdict.rule.sentence);
/// }
/// assert!(!report.has_failed(Level::Must));
/// # Ok(())
/// # }
/// ```
pub struct Validator {
    server: Server,
    look: Look,
}

/// How closely a server is looked at.
struct Look {
    limits: Limits,
    legacy: bool,
    modern: bool,
    version: Option<Version>,
    answer: Duration,
    /// Somebody has said how long an answer may take.
    bounded: bool,
    resilience: bool,
    consent: features::Consent,
    progress: Box<dyn FnMut(Progress<'_>) + Send>,
    tap: Option<http::Tap>,
}

impl Look {
    /// Who says how long an answer may take means the first one as well, unless something else was said of that.
    fn bound(&mut self) {
        if !self.bounded {
            return;
        }
        let usual = Limits::default();
        for (limit, usual) in
            [(&mut self.limits.initialize, usual.initialize), (&mut self.limits.probe, usual.probe)]
        {
            if *limit == usual {
                *limit = usual.min(self.answer);
            }
        }
    }
}

/// How the server is reached.
enum Server {
    /// Lines, over a stream of bytes.
    Lines(Source),
    Http(Box<HttpConnect>),
}

/// What is being done.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// Which run this is, counted from 1.
    pub number: usize,
    /// What it is for.
    pub run: &'a str,
    /// What is sent.
    pub probe: Probe,
}

/// Why there is nothing to judge.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValidateError {
    /// The program could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// There is no connection to where it listens.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// There is no connection over QUIC.
    #[error(transparent)]
    Quic(#[from] mcpjoin_quic::endpoint::QuicError),
    /// What was to make a connection has failed.
    #[error("no connection was made: {0}")]
    Stream(#[from] std::io::Error),
    /// No session could be opened, in no era that was looked for.
    #[error("{0}")]
    NoSession(#[source] OpeningFailure),
    /// What is to be connected to, or what is to go with every request, cannot be used.
    #[error(transparent)]
    Setup(#[from] HttpSetupError),
    /// There is no connection, or no response came over it.
    #[error("the server does not answer: {problem}")]
    Unreachable {
        /// Why not.
        problem: String,
    },
    /// Only who is known is let in.
    #[error(
        "the server asks who we are: status {status}{}",
        reason.as_ref().map(|reason| format!(", {reason}")).unwrap_or_default()
    )]
    Unauthorized {
        /// 401 or 403.
        status: u16,
        /// Why it refuses, where it says so: `error` and `error_description` of `WWW-Authenticate`.
        reason: Option<String>,
        /// How it does that, where it wants a token: [`Trace::authorization`], which can be judged.
        seen: Box<Trace>,
    },
    /// It says that it is elsewhere. A redirect is not followed: what is looked at is what was named.
    #[error(
        "the server redirects (status {status}) {}",
        location.as_deref().map_or_else(|| "without saying where to".to_owned(), |to| format!("to {to}"))
    )]
    Redirected {
        /// The status of the response.
        status: u16,
        /// Where it leads, without user, password and query; `None` when that cannot be read.
        location: Option<String>,
    },
    /// What came is not of this protocol.
    #[error("the server answers, and not in this protocol: status {status}, {}", content_type.as_deref().unwrap_or("no content type"))]
    NotMcp {
        /// The status of the response.
        status: u16,
        /// What it says to be.
        content_type: Option<String>,
        /// The beginning of its body.
        head: Bytes,
    },
}

impl Validator {
    /// For the server that this command starts.
    #[must_use]
    pub fn new(command: ChildCommand) -> Self {
        // A server that is slow to end is not one that must be ended: more patience than a client has.
        let command = command.shutdown(Duration::from_secs(5), Duration::from_secs(2));
        Self::of(Server::Lines(Source::Child(command)))
    }

    /// For the server that is reached so: over Streamable HTTP; over HTTP+SSE where it refuses `initialize` with the
    /// status 400, 404 or 405 and names an endpoint instead, or where
    /// [nothing else is to be tried](HttpConnect::legacy_sse). The server is running, and is not started.
    ///
    /// Headers are sent with every request and stand in no trace, and so is what the
    /// [credentials](HttpConnect::credentials) have; they are not asked for more when a request is refused. A server that wants a token
    /// is also looked at without one, and the documents that say where one is to be had are fetched: at most fifteen
    /// requests more, with neither `Authorization` nor `Cookie`, of which the documents' have no header of the user's at all.
    /// Where it has metadata of that kind is asked of every server: two requests.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::Link;
    /// use mcpjoin_diagnostics::validate::Validator;
    ///
    /// let trace = Validator::http(Link::http("http://127.0.0.1:8080/mcp")).run().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn http(connect: HttpConnect) -> Self {
        Self::of(Server::Http(Box::new(connect)))
    }

    /// Calls `tap` for every message that crosses over HTTP, as a line. What crosses between us and a child, its
    /// [command](ChildCommand::tapped) tells.
    #[must_use]
    pub fn tapped(mut self, tap: impl FnMut(Way, Crossed<'_>) + Send + 'static) -> Self {
        self.look.tap = Some(Box::new(tap));
        self
    }

    fn of(server: Server) -> Self {
        let look = Look {
            limits: Limits::default(),
            legacy: true,
            modern: true,
            version: None,
            answer: Trace::default().answer_within,
            bounded: false,
            resilience: false,
            consent: features::Consent::default(),
            progress: Box::new(|_| {}),
            tap: None,
        };
        Self { server, look }
    }

    /// The bounds of messages, and how long the first answer of a run may take ([`Limits::initialize`], 30 s; where the
    /// era is not known, the probe for it [`Limits::probe`], 5 s).
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.look.limits = limits;
        self
    }

    /// Looks for no session of the legacy era.
    #[must_use]
    pub const fn without_legacy(mut self) -> Self {
        self.look.legacy = false;
        self
    }

    /// Looks for no session of the modern era.
    #[must_use]
    pub const fn without_modern(mut self) -> Self {
        self.look.modern = false;
        self
    }

    /// The version of the legacy era whose session is looked at closely: the newest by default.
    #[must_use]
    pub fn legacy_version(mut self, version: Version) -> Self {
        self.look.version = Some(version);
        self
    }

    /// Also calls this tool, with these arguments: a JSON object, `None` for an empty one. It is called once in each era
    /// that the server speaks, with a token for its progress; an answer is waited for as long as
    /// [any other](Self::answer_within). Beside it, a tool is called that does not exist. A tool that the server does not
    /// list, or whose schema has no room for these arguments, is called all the same, and [`Trace::calls`] tells of it.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::link::ChildCommand;
    /// use mcpjoin::proto::Raw;
    /// use mcpjoin_diagnostics::validate::Validator;
    ///
    /// let validator = Validator::new(ChildCommand::new("./my-server"));
    /// let trace = validator.call("add", Some(Raw::parse(r#"{"a":1,"b":2}"#)?)).run().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn call(mut self, tool: impl Into<String>, arguments: Option<Raw>) -> Self {
        self.look.consent.calls.push((tool.into(), arguments));
        self
    }

    /// Also calls the tools that say that they only read (`annotations.readOnlyHint`), reads resources that are listed,
    /// and gets prompts that need no argument: at most twenty of each, once in each era. A tool with arguments that it must
    /// have is called without them, which it must refuse; one that takes 200 ms or more is called again, to be cancelled.
    /// The first that needs what we have not declared is called with that declared, about eight times, to be told no;
    /// the first that may be a task is called twice as one, the second time to be cancelled; one that may not, once. What a
    /// server says of its tools is believed.
    #[must_use]
    pub const fn read_only_tools(mut self) -> Self {
        self.look.consent.read_only = true;
        self
    }

    /// How long an answer may take: 10 s. One that comes later is judged to be late; one that does not come is not
    /// waited for any longer. No first answer of a run is waited for any longer either, where [`limits`](Self::limits)
    /// say nothing else of that.
    #[must_use]
    pub const fn answer_within(mut self, time: Duration) -> Self {
        self.look.answer = time;
        self.look.bounded = true;
        self
    }

    /// Puts the server under stress as well, in some runs more: many requests at once, a reader that waits, a request of
    /// 1 MiB, the end of its input at bad moments, a signal; over HTTP answers that are read late and slowly,
    /// requests in pieces, connections that are lost, twenty sessions, and a stream that is cut and resumed, for which the
    /// first tool that was [named](Self::call) is called once more. It takes about ten seconds longer. Still nothing else
    /// is called.
    #[must_use]
    pub const fn resilience(mut self) -> Self {
        self.look.resilience = true;
        self
    }

    /// Called before each thing that is sent. It must not block.
    #[must_use]
    pub fn on_progress(mut self, progress: impl FnMut(Progress<'_>) + Send + 'static) -> Self {
        self.look.progress = Box::new(progress);
        self
    }

    /// Looks. Needs a tokio runtime with I/O and time. Every run ends by itself: after two requests without an answer,
    /// 20,000 lines or 64 MiB, no more is asked in it.
    ///
    /// Dropped before it is ready, it ends the server at once.
    ///
    /// # Errors
    /// When the program does not start, or no session can be opened.
    pub async fn run(mut self) -> Result<Trace, ValidateError> {
        self.look.bound();
        match self.server {
            Server::Lines(source) => runs::Runs::new(self.look, source).all().await,
            Server::Http(connect) => http::Runs::new(self.look, &connect)?.all().await,
        }
    }
}

impl fmt::Debug for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Validator");
        match &self.server {
            Server::Lines(source) => f.field("source", source),
            Server::Http(connect) => f.field("connect", connect),
        };
        f.field("legacy", &self.look.legacy)
            .field("modern", &self.look.modern)
            .field("version", &self.look.version)
            .field("answer", &self.look.answer)
            .finish_non_exhaustive()
    }
}
