//! Validates a client: serves it and records what it does, to be [checked](mcpjoin_rules::check_client).
//!
//! Used by `mcpjoin validate --client`, and by programs that test a client of their own. The caller gives a real
//! server; this module stands in front of it, forwards the messages of both sides, and records them. Two things are
//! changed on the way: the last entries of a list are sent as a page of their own, and over HTTP every other response
//! is sent on a stream. In addition, a client of the legacy era receives what the rules need: pings, an unknown request
//! and unknown notifications, arrays where its version has them, requests for its roots. It is asked for a message of
//! its model only in ways that it has to refuse, and only the server itself asks its user. The response to `initialize`
//! is delayed for a moment, which shows whether the client waits for it.

mod http;
mod pages;
mod probes;
mod recorder;
mod sessions;
mod stream;

use std::time::Duration;

use mcpjoin_proto::session::{Limits, ProcessExit};
use mcpjoin_rules::Trace;

use mcpjoin::server::Server;
use mcpjoin::transport::Link;
use mcpjoin::transport::{HttpListener, HttpOptions};

/// How long the response to `initialize` is delayed.
const INITIALIZE_DELAY: Duration = Duration::from_millis(100);
/// How long a client may take to respond to our probes, until the responses to its own requests are sent.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves a client and records what it does.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use mcpjoin_rules::{Level, Selection, check_client};
/// use mcpjoin::transport::Link;
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
/// let report = check_client(&trace, &Selection::for_clients([], [])?);
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

/// Why the validation of clients ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The time is over, or the caller has seen enough.
    Over,
    /// The client has sent us this signal.
    Signal(i32),
    /// The process of the client has ended, with this status.
    Gone(Option<ProcessExit>),
}

impl ClientValidator {
    /// Validates clients of this server.
    #[must_use]
    pub fn new(server: Server) -> Self {
        let answer = Trace::default().respond_within;
        Self { server, limits: Limits::default(), answer, refuse: false, disturb: false }
    }

    /// Sets the limits of messages.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how long a response may take. Default: 10 s. A client that has disconnected before is not checked for
    /// missing responses.
    #[must_use]
    pub const fn respond_within(mut self, time: Duration) -> Self {
        self.answer = time;
        self
    }

    /// Responds to `initialize` with a version that never existed: the client must disconnect then. In the modern era,
    /// every request over HTTP is refused because of its version, which the client must not take for a server of the
    /// legacy era; on a stream, `server/discover` gets an error of such a server, and the client must send
    /// `initialize`.
    #[must_use]
    pub const fn refusing(mut self) -> Self {
        self.refuse = true;
        self
    }

    /// Does what a server may do and a client must tolerate: in each session one cursor is refused; over HTTP a call is
    /// refused for its headers, and a session of the legacy era is lost after twelve requests. The work of a client may
    /// fail then, if it does not retry.
    #[must_use]
    pub const fn disturbing(mut self) -> Self {
        self.disturb = true;
        self
    }

    /// Serves the client at the other end of a stream of lines until it closes its side, `end` is ready, or 20,000
    /// messages or 64 MiB are recorded. Needs a tokio runtime with time.
    ///
    /// The trace has one run for each session: [`Channel::Stdio`](mcpjoin_rules::Channel::Stdio). Without a message
    /// there is no run.
    pub async fn serve(self, link: Link, end: impl Future<Output = StopReason>) -> Trace {
        stream::serve(self, link, end).await
    }

    /// Serves every client of the listener until `end` is ready: over Streamable HTTP in both eras, and over HTTP+SSE.
    /// It also ends after 20,000 messages or 64 MiB, and when `idle` has passed without a connection after the first
    /// request. A request without a message counts as one, and addresses and headers count as bytes. Needs a tokio
    /// runtime with I/O and time.
    ///
    /// A run is one session, or all requests of the modern era together. Headers that authorize a client are not
    /// recorded.
    pub async fn serve_http(
        self,
        listener: HttpListener,
        options: HttpOptions,
        idle: Option<Duration>,
        end: impl Future<Output = StopReason>,
    ) -> Trace {
        http::serve(self, listener, options, idle, end).await
    }
}
