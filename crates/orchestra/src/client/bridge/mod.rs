//! The bridge: an MCP server, in all revisions, whose tools, prompts and resources are those of an orchestrator.
//!
//! Used by the command line's `bridge --orchestrator-addr`. Opening a session, agreeing on a version, `ping`, log levels
//! and cancelling are the server's own, so they work while the orchestrator is still away. Everything else becomes one
//! exchange or a few, and nothing is kept of their answers.
//!
//! | MCP | Orchestra |
//! |---|---|
//! | `tools/list` | list tools: sorted by name, of several of one name the first, without a schema that of any object |
//! | `tools/call` | tool call, `caller_plugin` `transport.stdio`; `_meta.traceparent` is `trace_parent`, `_meta["orchestra/provider"]` is `provider` |
//! | `prompts/list`, `prompts/get` | list prompts, prompt get |
//! | `resources/list` | storage list of `features/`, `notes/` and `docs/` |
//! | `resources/read` | storage read of `FOLDER/NAME.md` for `orchestra://FOLDER/NAME` |
//!
//! The result of a tool is the text that Orchestra's own bridge gives: the member `text`, or the JSON of all of it. Where
//! there is more than a text, `structuredContent` has all of it, from 2025-06-18 on. A failed tool is a result with
//! `isError`, and `_meta["orchestra/errorCode"]` has its code.
//!
//! A tool of [`BridgeOptions::streamed`] is asked to answer bit by bit (`StreamStart`, which has neither trace nor session).
//! What comes is told as progress where that was asked for, and the result at the end has all of it: as text, as bytes
//! where it is none, and, where every chunk is JSON, as `structuredContent.chunks` as well. A far end that does not answer
//! so has run nothing, and is asked as for any other tool.
//!
//! What a session is called in Orchestra stands in `capabilities.experimental.orchestra.sessionId`: tools are locked for it.

mod handler;
mod lists;
mod prompts;
mod resources;
mod results;
mod streams;
mod tools;

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcpjoin_proto::Raw;
use mcpjoin_proto::session::{CloseCause, Limits};
use mcpjoin_proto::types::{PromptsCapability, ResourcesCapability, ServerCapabilities, ToolsCapability};
use tokio::time::{Instant, sleep};

use super::super::value::Numbers;
use super::super::wire::MAX_FRAME;
use super::reconnect::jittered;
use super::{Orchestrator, SetupError, random};
use handler::Translator;
use mcpjoin::Server;
use mcpjoin::link::Link;
use mcpjoin::server::BuildError;

pub(super) use handler::{exchange_error, to_raw};
pub(super) use results::text_of;
pub(super) use tools::{arguments, schema_of};

/// The name that Orchestra's own bridge gives itself.
const NAME: &str = "orchestra";

/// How often it is looked whether the tools are still the same while the orchestrator may be starting its plugins, a tenth
/// more or less.
const SETTLING_INTERVAL: Duration = Duration::from_millis(900);

/// How a [`Bridge`] behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BridgeOptions {
    /// How often it is looked whether the tools are still the same, a tenth more or less: 30 s. `None`: only when the
    /// connection was made anew, and for as long after that as [`settling`](Self::settling) says. Nobody is asked while no
    /// client would hear of it.
    pub poll: Option<Duration>,
    /// How long after each connection it is looked every second: 15 s. An orchestrator listens before its plugins are up,
    /// and starts one after the other.
    pub settling: Duration,
    /// What becomes of a number in arguments that Orchestra cannot carry: it is refused.
    pub numbers: Numbers,
    /// The bounds of the MCP side; a message is at most 16 MiB there, as a frame is on the other side.
    pub limits: Limits,
    /// How many entries a page of a list has: 1,000.
    pub page: usize,
    /// How often a client that has asked for progress is told that its call still runs: 5 s. Orchestra says nothing about
    /// it, so what is told is how long that has been.
    pub heartbeat: Duration,
    /// The tools that are asked to answer bit by bit: none. Which ones can, Orchestra does not say.
    pub streamed: BTreeSet<String>,
    /// Whether a tool that does not exist is the error -32602, as the specification of MCP says, and not a result that has
    /// failed, as with Orchestra's own bridge: no.
    pub strict: bool,
}

impl Default for BridgeOptions {
    fn default() -> Self {
        let mut limits = Limits::default();
        limits.message = MAX_FRAME;
        Self {
            poll: Some(Duration::from_secs(30)),
            settling: Duration::from_secs(15),
            numbers: Numbers::Exact,
            limits,
            page: 1000,
            heartbeat: Duration::from_secs(5),
            streamed: BTreeSet::new(),
            strict: false,
        }
    }
}

/// An MCP server that stands for an orchestrator. Cheap to clone.
///
/// ```no_run
/// use mcpjoin::Link;
/// use mcpjoin_orchestra::certs::Certificates;
/// use mcpjoin_orchestra::client::{Bridge, BridgeOptions, Orchestrator, OrchestratorOptions};
///
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let certificates = Certificates::in_directory(Certificates::default_directory()?);
/// let orchestrator =
///     Orchestrator::quic("localhost:50100", certificates, OrchestratorOptions::default()).await?;
/// Bridge::new(orchestrator, BridgeOptions::default())?.serve(Link::stdio()?).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Bridge {
    server: Server,
    poll: Option<Duration>,
    settling: Duration,
    shared: Arc<Shared>,
}

/// What the handler and the watch share.
struct Shared {
    orchestrator: Orchestrator,
    numbers: Numbers,
    page: usize,
    message: usize,
    heartbeat: Duration,
    streamed: BTreeSet<String>,
    strict: bool,
    /// What tools are locked for in Orchestra: one bridge is one session.
    session: String,
    /// A digest of the tools that a client was told of last.
    sent_tools: Mutex<Option<u64>>,
}

impl Bridge {
    /// The bridge to that orchestrator. Nothing is asked of it yet.
    ///
    /// # Errors
    /// None with the versions that are known; the server's own description is checked as any other.
    pub fn new(orchestrator: Orchestrator, options: BridgeOptions) -> Result<Self, BuildError> {
        let shared = Arc::new(Shared {
            orchestrator,
            numbers: options.numbers,
            page: options.page.max(1),
            message: options.limits.message,
            heartbeat: options.heartbeat,
            streamed: options.streamed,
            strict: options.strict,
            session: session_id(),
            sent_tools: Mutex::default(),
        });
        let mut tools = ToolsCapability::default();
        tools.list_changed = Some(true);
        let session = BTreeMap::from([("sessionId", &shared.session)]);
        // Two texts can always be written.
        let session = Raw::from_value(&session).unwrap_or_else(|_| Raw::empty_object());
        let capabilities = ServerCapabilities::default()
            .with_experimental(BTreeMap::from([(NAME.to_owned(), session)]))
            .with_tools(tools)
            .with_prompts(PromptsCapability::default())
            .with_resources(ResourcesCapability::default())
            .with_logging(Raw::empty_object());
        let server = Server::builder(NAME, env!("CARGO_PKG_VERSION"))
            .limits(options.limits)
            // The document that Orchestra's clients were written after shows no more than a version.
            .lenient_opening()
            .handler(capabilities, Translator(shared.clone()))
            .build()?;
        Ok(Self { server, poll: options.poll, settling: options.settling, shared })
    }

    /// The server, to be served over any link. Who serves it by hand also runs [`Bridge::watch`].
    #[must_use]
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// The orchestrator.
    #[must_use]
    pub fn orchestrator(&self) -> &Orchestrator {
        &self.shared.orchestrator
    }

    /// Serves a client until it has gone, and says why that was. Dropping the future ends the connection to the client.
    ///
    /// # Errors
    /// [`SetupError`] when the orchestrator and we turn out not to accept each other at the first handshake: there is
    /// nothing that could be served.
    pub async fn serve(&self, link: Link) -> Result<CloseCause, SetupError> {
        tokio::select! {
            biased;
            error = self.watch() => Err(error),
            cause = self.server.serve(link) => Ok(cause),
        }
    }

    /// Looks whether the tools change, and tells the clients. Ends only when there will never be a connection, and says
    /// why.
    pub async fn watch(&self) -> SetupError {
        let mut seen = 0;
        let mut settled = Instant::now();
        loop {
            let settling = (Instant::now() < settled).then_some(SETTLING_INTERVAL);
            let pause = async {
                match self.poll.into_iter().chain(settling).min() {
                    Some(pause) => sleep(jittered(pause)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                connected = self.shared.orchestrator.connected(seen) => match connected {
                    // Who asks while there is the first connection has nothing to compare with.
                    Ok(number) => {
                        let again = seen > 0;
                        seen = number;
                        settled = Instant::now() + self.settling;
                        if again {
                            self.check_tools().await;
                        }
                    }
                    Err(error) => return error,
                },
                () = pause => self.check_tools().await,
            }
        }
    }

    /// Tells the clients when the tools are others than those that one was told of last.
    async fn check_tools(&self) {
        let handle = self.server.handle();
        if !handle.is_heard_of_tools() {
            return;
        }
        match self.shared.orchestrator.list_tools().await {
            Ok(tools) => {
                let changed = self.shared.record_tools(&tools::tools_for_client(tools).0);
                if changed && handle.notify_tools_changed().is_err() {
                    tracing::debug!(target: "mcpjoin", "the tools are declared not to change");
                }
            }
            // It is asked again at the next time.
            Err(error) => tracing::debug!(target: "mcpjoin", %error, "the tools were not looked at"),
        }
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bridge")
            .field("orchestrator", &self.shared.orchestrator)
            .field("poll", &self.poll)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Keeps what a client is told of the tools.
    fn record_tools(&self, tools: &[(String, Raw)]) -> bool {
        let mut digest = DefaultHasher::new();
        for (_, tool) in tools {
            tool.as_str().hash(&mut digest);
        }
        let digest = digest.finish();
        let before = self.sent_tools.lock().unwrap_or_else(PoisonError::into_inner).replace(digest);
        before.is_some_and(|before| before != digest)
    }
}

/// A UUID of version 4: what Orchestra's own bridge names a session with.
fn session_id() -> String {
    let digits = random(16);
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    // The variant takes two bits of a digit; of the four that it can be one is as good as another.
    format!("{}-{}-4{}-a{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}
