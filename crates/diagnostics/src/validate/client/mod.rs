//! Serves a client and notes what it does, to be [judged](mcpjoin_rules::judge_client).
//!
//! Called by `mcpjoin validate --client` and by whoever tests a client of their own. The server is a real one, which
//! comes in; we stand in front of it, pass on what either side says, and note it. Two things are changed on the way: the
//! last entries of a list come as a page of their own, and over HTTP every other answer comes on a stream. Beside that,
//! a client of the legacy era gets what the rules need: pings, a request and notifications that nobody knows, arrays
//! where there are some, questions for its roots. It is asked for a message of its model in ways alone that it has to
//! refuse, and its user is asked nothing, but by the server itself. An answer to `initialize` is held back for a moment:
//! who does not wait for it shows.

mod body;
mod http;
mod pages;
mod probes;
mod recorder;
mod sessions;
mod stream;

use std::future::Future;
use std::time::Duration;

use mcpjoin_proto::session::{Limits, ProcessExit};
use mcpjoin_rules::Trace;

use mcpjoin::link::Link;
use mcpjoin::link::{HttpListener, HttpOptions};
use mcpjoin::server::Server;

/// How long the answer to `initialize` is held back.
const HELD: Duration = Duration::from_millis(100);
/// How long a client has for the answers to our probes until it gets its own.
const PATIENCE: Duration = Duration::from_secs(2);

/// Serves a client and notes what it does.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use mcpjoin_rules::{Level, Selection, judge_client};
/// use mcpjoin::link::Link;
/// use mcpjoin_diagnostics::validate::ClientValidator;
/// use mcpjoin::{Client, Server};
///
/// let server = Server::builder("mine", "1").build()?;
/// let (theirs, ours) = tokio::io::duplex(4096);
/// let link = |io| {
///     let (reader, writer) = tokio::io::split(io);
///     Link::stream(reader, writer, "duplex")
/// };
/// let looking = ClientValidator::new(server).serve(link(ours), std::future::pending());
/// let client = async {
///     let client = Client::builder("theirs", "1").connect(link(theirs)).await?;
///     client.close().await;
///     Ok::<_, mcpjoin::client::ConnectError>(())
/// };
/// let (trace, connected) = tokio::join!(looking, client);
/// connected?;
/// let report = judge_client(&trace, &Selection::for_clients([], [])?);
/// assert!(!report.has_failed(Level::Must));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct ClientValidator {
    server: Server,
    limits: Limits,
    answer: Duration,
    refuse: bool,
    disturb: bool,
}

/// Why nobody is looked at any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leaving {
    /// The time is over, or whoever looks has seen enough.
    Over,
    /// The client has sent this signal to us.
    Signal(i32),
    /// The client's process has ended, so: it needs nothing any more.
    Gone(Option<ProcessExit>),
}

impl ClientValidator {
    /// In front of this server.
    #[must_use]
    pub fn new(server: Server) -> Self {
        let answer = Trace::default().answer_within;
        Self { server, limits: Limits::default(), answer, refuse: false, disturb: false }
    }

    /// The bounds of messages.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How long an answer may take: 10 s. A client that has left before is not judged by what it has not answered.
    #[must_use]
    pub const fn answer_within(mut self, time: Duration) -> Self {
        self.answer = time;
        self
    }

    /// Answers `initialize` with a version that never existed: a client is to leave then. In the modern era, every
    /// request is refused over HTTP because of its version, which the client is not to take for a server of the legacy
    /// era; on a stream `server/discover` brings an error of such a server, after which it is to send `initialize`.
    #[must_use]
    pub const fn refusing(mut self) -> Self {
        self.refuse = true;
        self
    }

    /// Does what a server may do, and a client is to bear: in each session one cursor is refused; over HTTP a call is
    /// refused for its headers, and a session of the legacy era is lost after twelve requests. What a client has wanted
    /// may fail then, if it does not try again.
    #[must_use]
    pub const fn disturbing(mut self) -> Self {
        self.disturb = true;
        self
    }

    /// Serves the client at the other end of a stream of lines until it closes its side, or `end` is ready. It ends by
    /// itself after 20,000 messages or 64 MiB, too. Needs a tokio runtime with time.
    ///
    /// What was noted is in the trace, in one run for each session: [`Channel::Stdio`](mcpjoin_rules::Channel::Stdio).
    /// Without a message there is no run.
    pub async fn serve(self, link: Link, end: impl Future<Output = Leaving>) -> Trace {
        stream::serve(self, link, end).await
    }

    /// Serves every client that comes to the listener until `end` is ready: over Streamable HTTP in both eras, and over
    /// HTTP+SSE. It ends by itself after 20,000 messages or 64 MiB, and when `idle` has passed without a connection
    /// after the first request. A request without a message counts as one, and addresses and headers are part of the
    /// 64 MiB. Needs a tokio runtime with I/O and time.
    ///
    /// A run is one session, or all requests of the modern era together. Headers by which somebody is let in are not
    /// noted.
    pub async fn serve_http(
        self,
        listener: HttpListener,
        options: HttpOptions,
        idle: Option<Duration>,
        end: impl Future<Output = Leaving>,
    ) -> Trace {
        http::serve(self, listener, options, idle, end).await
    }
}
