//! Validates a server: starts it several times, or reaches it over HTTP, provokes what the rules of [`mcpjoin_rules`]
//! check, and records every message.
//!
//! Used by `mcpjoin validate`, and by programs that test a server of their own. It checks nothing itself. It asks only
//! for what the server has declared, and for what a rule says must be refused. Unless the user allows it, it **never
//! calls a tool**, reads a resource or gets a prompt: it asks for prompts, resources and tasks that do not exist. Where
//! they are declared, it asks for the completion of an empty text, and for log messages of a level, which ends with the
//! session. It declares no capability, except in calls of an allowed tool that needs one.
//!
//! The runs follow each other: a session in each era that the server speaks, a short one for each version of the legacy
//! era, one for lines that are no messages; over HTTP also two at once. A child is ended after each run by the
//! [shutdown steps](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio#shutdown).
//!
//! This module says what is sent, and the private module `engine` sends and records it.

mod client;
mod features;
mod http;
mod lines;
mod openers;
mod probes;
mod resilience;
mod runs;
mod source;

pub use client::{ClientValidator, StopReason};

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::session::{Limits, NegotiationFailure, TransportError};
use mcpjoin_proto::{Raw, Version};
use mcpjoin_rules::Trace;

pub use self::openers::{Opener, OpenerResponse};
use self::runs::Runs;
use self::source::Source;
pub use crate::engine::Progress;
use crate::engine::ProgressFn;
use crate::engine::http::Inspector;
use mcpjoin::transport::{
    ChildCommand, Direction, HttpConnect, HttpSetupError, Inspected, SocketError, SpawnError,
};

/// Validates one server: records what it does, for the rules.
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use mcpjoin_rules::{Level, Selection, check_server};
/// use mcpjoin::transport::ChildCommand;
/// use mcpjoin_diagnostics::validate::Validator;
///
/// let trace = Validator::new(ChildCommand::new("./my-server")).run().await?;
/// let report = check_server(&trace, &Selection::default());
/// for result in report.failed() {
///     println!("{}: {}", result.rule.slug, result.rule.sentence);
/// }
/// assert!(!report.has_failed(Level::Must));
/// # Ok(())
/// # }
/// ```
pub struct Validator {
    server: Server,
    look: Look,
    progress: ProgressFn,
    /// Over HTTP.
    inspector: Option<Inspector>,
}

/// What a server is asked, and for how long.
struct Look {
    limits: Limits,
    legacy: bool,
    modern: bool,
    version: Option<Version>,
    answer: Duration,
    /// Whether the caller has set `answer`.
    bounded: bool,
    resilience: bool,
    consent: features::Consent,
}

impl Look {
    /// Applies [`Validator::respond_within`] to the first response of a run, unless the limits say something else.
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

/// From the end of its input to SIGTERM. A server that ends slowly need not be killed: it gets more time than a client gives.
const END_OF_INPUT_GRACE: Duration = Duration::from_secs(5);
/// From SIGTERM to SIGKILL.
const TERMINATE_GRACE: Duration = Duration::from_secs(2);

/// How the server is reached.
enum Server {
    /// Lines, over a stream of bytes.
    Lines(Source),
    Http(Box<HttpConnect>),
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValidateError {
    /// The program could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// There is no connection to its socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// There is no connection over QUIC.
    #[error(transparent)]
    Quic(#[from] mcpjoin_quic::endpoint::QuicError),
    /// The function that connects has failed.
    #[error("no connection: {0}")]
    Stream(#[from] std::io::Error),
    /// No session was opened in any era.
    #[error("{0}")]
    NoSession(#[source] NegotiationFailure),
    /// The URL, a header or a certificate cannot be used.
    #[error(transparent)]
    Setup(#[from] HttpSetupError),
    /// There is no connection, or no response.
    #[error("no connection or no response: {0}")]
    Unreachable(TransportError),
    /// The server wants a token, or refuses the one that it was given.
    #[error(
        "authorization required: status {status}{}",
        reason.as_ref().map(|reason| format!(", {reason}")).unwrap_or_default()
    )]
    Unauthorized {
        /// 401 or 403.
        status: u16,
        /// Why it refuses, if it says so: `error` and `error_description` of `WWW-Authenticate`.
        reason: Option<String>,
        /// How it refuses, where it wants a token: [`Trace::authorization`], which can be checked.
        seen: Box<Trace>,
    },
    /// The server redirects. A redirect is not followed: only the named URL is validated.
    #[error(
        "the server redirects (status {status}) {}",
        location.as_deref().map_or_else(|| "without a Location".to_owned(), |to| format!("to {to}"))
    )]
    Redirected {
        /// The status of the response.
        status: u16,
        /// Its target, without user, password and query; `None` when that cannot be read.
        location: Option<String>,
    },
    /// The response is not one of this protocol.
    #[error("the URL answers, but not as an MCP server: status {status}, {}", content_type.as_deref().unwrap_or("no content type"))]
    NotMcp {
        /// The status of the response.
        status: u16,
        /// Its content type.
        content_type: Option<String>,
        /// The beginning of its body.
        head: Bytes,
    },
}

impl Validator {
    /// Validates the server that this command starts.
    #[must_use]
    pub fn new(command: ChildCommand) -> Self {
        Self::of(Server::Lines(Source::Child(command))).end_within(END_OF_INPUT_GRACE)
    }

    /// Validates the server at a URL: over Streamable HTTP; over HTTP+SSE where it refuses `initialize` with the status
    /// 400, 404 or 405 and names an endpoint instead, or where [only that is to be tried](HttpConnect::legacy_sse). The
    /// server is running, and is not started.
    ///
    /// The given headers are sent with every request and never recorded, and so is the authorization of the
    /// [credentials](HttpConnect::credentials), which are not asked for another one when a request is refused. A server
    /// that wants a token is also asked without one, and the documents that say where a token is to be had are fetched:
    /// at most fifteen further requests, without `Authorization` and `Cookie`; those for the documents without any
    /// header of the user. Every server is asked for the two well-known addresses of such documents.
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

    /// Calls `inspector` for every message over HTTP, as a line. For a child, with its [command](ChildCommand::inspected).
    #[must_use]
    pub fn inspected(mut self, inspector: impl FnMut(Direction, Inspected<'_>) + Send + 'static) -> Self {
        self.inspector = Some(Box::new(inspector));
        self
    }

    fn of(server: Server) -> Self {
        let look = Look {
            limits: Limits::default(),
            legacy: true,
            modern: true,
            version: None,
            answer: Trace::default().respond_within,
            bounded: false,
            resilience: false,
            consent: features::Consent::default(),
        };
        Self { server, look, progress: Box::new(|_| {}), inspector: None }
    }

    /// Sets the limits of messages, and how long the first response of a run may take ([`Limits::initialize`], 30 s;
    /// where the era is not known, the probe for it [`Limits::probe`], 5 s).
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.look.limits = limits;
        self
    }

    /// Opens no session of the legacy era.
    #[must_use]
    pub const fn without_legacy(mut self) -> Self {
        self.look.legacy = false;
        self
    }

    /// Opens no session of the modern era.
    #[must_use]
    pub const fn without_modern(mut self) -> Self {
        self.look.modern = false;
        self
    }

    /// Sets the version of the long session in the legacy era. Default: the newest.
    #[must_use]
    pub fn legacy_version(mut self, version: Version) -> Self {
        self.look.version = Some(version);
        self
    }

    /// Also calls this tool, with these arguments: a JSON object, `None` for an empty one. It is called once in each
    /// era that the server speaks, with a token for its progress; its response may take as long as [any
    /// other](Self::respond_within). A tool that does not exist is called as well. A tool that the server does not list,
    /// or whose schema does not allow these arguments, is called all the same, and [`Trace::calls`] says so.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::transport::ChildCommand;
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

    /// Also calls the tools that say that they only read (`annotations.readOnlyHint`), reads listed resources, and gets
    /// prompts that need no argument: at most twenty of each, once in each era. A tool with required arguments is
    /// called without them, which it must refuse; one that takes 200 ms or more is called again and cancelled. The
    /// first that needs a capability that we have not declared is called about eight times with it declared, and its
    /// requests for input are declined. The first that may be a task is called twice as one, and cancelled the second
    /// time; one that may not, once. What a server says about its tools is believed.
    #[must_use]
    pub const fn read_only_tools(mut self) -> Self {
        self.look.consent.read_only = true;
        self
    }

    /// Sets how long a response may take. Default: 10 s. A later one is reported as late, and is awaited for 2 s more.
    /// The first response of a run may not take longer either, unless [`limits`](Self::limits) say so.
    #[must_use]
    pub const fn respond_within(mut self, time: Duration) -> Self {
        self.look.answer = time;
        self.look.bounded = true;
        self
    }

    /// Sets how long the process of a server may take to end after its input has ended. Default: 5 s, more than a client
    /// gives. One that takes longer is asked to end by a signal, which is reported.
    #[must_use]
    pub fn end_within(mut self, time: Duration) -> Self {
        if let Server::Lines(Source::Child(command)) = &mut self.server {
            *command = command.clone().shutdown(time, TERMINATE_GRACE);
        }
        self
    }

    /// Also puts the server under stress, in further runs: many requests at once, a reader that waits, a request of 1
    /// MiB, the end of its input at bad moments, a signal; over HTTP responses that are read late and slowly, requests
    /// in pieces, connections that are closed early, twenty sessions, and a stream that is cut and resumed, for which
    /// the first tool of [`call`](Self::call) is called once more. It takes about ten seconds longer. Nothing else is
    /// called.
    #[must_use]
    pub const fn resilience(mut self) -> Self {
        self.look.resilience = true;
        self
    }

    /// Calls `progress` before each message that is sent. It must not block.
    #[must_use]
    pub fn on_progress(mut self, progress: impl FnMut(Progress<'_>) + Send + 'static) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// Performs all runs. Needs a tokio runtime with I/O and time. Every run ends by itself: after two requests without
    /// a response, 20,000 messages or 64 MiB, nothing more is sent in it.
    ///
    /// Dropping the future kills the server at once.
    ///
    /// # Errors
    /// When the program does not start, or no session can be opened.
    pub async fn run(mut self) -> Result<Trace, ValidateError> {
        self.look.bound();
        match self.server {
            Server::Lines(source) => Runs::over_lines(self.look, self.progress, source).all().await,
            Server::Http(connect) => {
                Runs::over_http(self.look, self.progress, self.inspector, &connect)?.all().await
            }
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
