//! The bridge: an MCP server of all revisions whose tools, prompts and resources are those of an orchestrator.
//!
//! Used by the command line's `bridge --orchestrator-addr`. The server itself handles initialization, `ping`, log
//! levels and cancellation, so these work while the orchestrator is unreachable. Every other request becomes one or a
//! few exchanges. Results are not cached.
//!
//! | MCP | Orchestra |
//! |---|---|
//! | `tools/list` | list tools: sorted by name, the first of each name; a missing schema becomes that of any object |
//! | `tools/call` | tool call, `caller_plugin` `transport.stdio`; `_meta.traceparent` is `trace_parent`, `_meta["orchestra/provider"]` is `provider` |
//! | `prompts/list`, `prompts/get` | list prompts, prompt get |
//! | `resources/list` | storage list of `features/`, `notes/` and `docs/` |
//! | `resources/read` | storage read of `FOLDER/NAME.md` for `orchestra://FOLDER/NAME` |
//!
//! The result of a tool is the same text as from Orchestra's own bridge: the member `text`, or the JSON of the whole
//! result. If there is more than that text, `structuredContent` has the whole result, from 2025-06-18 on. A failed tool
//! is a result with `isError`, and `_meta["orchestra/errorCode"]` has its code.
//!
//! A tool in [`BridgeOptions::streamed`] is called with `StreamStart`, which has neither trace nor session. Its chunks
//! are reported as progress if the client requested that. The result has all of them: as text, as bytes if they are not
//! UTF-8, and also as `structuredContent.chunks` if every chunk is JSON. If the server does not stream the tool, it has
//! not run, and is called like any other.
//!
//! `capabilities.experimental.orchestra.sessionId` has the name of the session in Orchestra, which tools use for locks.

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
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::Raw;
use mcpjoin_proto::session::{CloseCause, Limits};
use mcpjoin_proto::types::{PromptsCapability, ResourcesCapability, ServerCapabilities, ToolsCapability};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::super::value::Numbers;
use super::super::wire::MAX_FRAME;
use super::reconnect::jittered;
use super::{Orchestrator, SetupError, random};
use handler::Translator;
use mcpjoin::Server;
use mcpjoin::server::BuildError;
use mcpjoin::transport::Link;

pub(super) use handler::{exchange_error, to_raw};
pub(super) use results::text_of;
pub(super) use tools::{arguments, schema_of};

/// The server name of Orchestra's own bridge.
const NAME: &str = "orchestra";

/// Interval of the checks for changed tools after a connection, while the orchestrator may be starting its plugins. It
/// is changed at random by up to 10 %.
const SETTLING_INTERVAL: Duration = Duration::from_millis(900);

/// Options of a [`Bridge`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BridgeOptions {
    /// Interval of the checks for changed tools, changed at random by up to 10 %. Default: 30 s. `None` checks only
    /// after a reconnect, and then for the time in [`settling`](Self::settling). No check is made while no client
    /// listens for changes.
    pub poll: Option<Duration>,
    /// How long the tools are checked every second after each connection. Default: 15 s. An orchestrator listens before
    /// its plugins are running, and starts them one after the other.
    pub settling: Duration,
    /// How to treat a number in arguments that Orchestra cannot represent. Default: reject it.
    pub numbers: Numbers,
    /// The limits of the MCP side. By default a message has at most 16 MiB there, like a frame.
    pub limits: Limits,
    /// Maximum entries of a page. Default: 1,000.
    pub page: usize,
    /// Interval of progress reports to a client that requested them. Default: 5 s. Orchestra reports no progress, so
    /// the reports contain the elapsed time.
    pub heartbeat: Duration,
    /// The tools that are called as streams. Default: none. Orchestra does not say which tools can stream.
    pub streamed: BTreeSet<String>,
    /// Whether an unknown tool is the error -32602, as in the MCP specification. Default: no, it is a failed result, as
    /// from Orchestra's own bridge.
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

/// An MCP server that represents an orchestrator. Cheap to clone.
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

/// State that the handler and the tool checks share.
struct Shared {
    orchestrator: Orchestrator,
    numbers: Numbers,
    page: usize,
    message: usize,
    heartbeat: Duration,
    streamed: BTreeSet<String>,
    strict: bool,
    /// The session id in Orchestra, which tools use for locks. A bridge is one session.
    session: String,
    /// A digest of the tools that were last sent to a client.
    sent_tools: Mutex<Option<u64>>,
}

impl Bridge {
    /// Creates the bridge to an orchestrator. No request is sent yet.
    ///
    /// # Errors
    /// None with the known versions; the server's description is validated like any other.
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
        // Two strings can always be serialized.
        let session = Raw::from_value(&session).unwrap_or_else(|_| Raw::empty_object());
        let capabilities = ServerCapabilities::default()
            .with_experimental([(NAME, session)])
            .with_tools(tools)
            .with_prompts(PromptsCapability::default())
            .with_resources(ResourcesCapability::default())
            .with_logging(Raw::empty_object());
        let server = Server::builder(NAME, env!("CARGO_PKG_VERSION"))
            .limits(options.limits)
            // Clients of Orchestra were written to a document that shows nothing but a version here.
            .lenient_opening()
            .handler(capabilities, Translator(shared.clone()))
            .build()?;
        Ok(Self { server, poll: options.poll, settling: options.settling, shared })
    }

    /// The MCP server, to be served over any link. Also run [`Bridge::watch`] then.
    #[must_use]
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// The client of the orchestrator.
    #[must_use]
    pub fn orchestrator(&self) -> &Orchestrator {
        &self.shared.orchestrator
    }

    /// Serves a client until it disconnects, and returns the cause. Dropping the future closes the connection to the
    /// client.
    ///
    /// # Errors
    /// [`SetupError`] if the first handshake with the orchestrator is rejected by either side: there is nothing to
    /// serve.
    pub async fn serve(&self, link: Link) -> Result<CloseCause, SetupError> {
        tokio::select! {
            biased;
            error = self.watch() => Err(error),
            cause = self.server.serve(link) => Ok(cause),
        }
    }

    /// Checks the tools for changes and notifies the clients. Returns only if there will never be a connection.
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
                    // No check after the first connection: no client has seen other tools yet.
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

    /// Notifies the clients if the tools differ from those that were last sent.
    async fn check_tools(&self) {
        let handle = self.server.handle();
        if !handle.has_tool_listeners() {
            return;
        }
        match self.shared.orchestrator.list_tools().await {
            Ok(tools) => {
                let changed = self.shared.record_tools(&tools::tools_for_client(tools).0);
                if changed && handle.notify_tools_changed().is_err() {
                    tracing::debug!(target: "mcpjoin", "the tools are declared not to change");
                }
            }
            // The next check tries again.
            Err(error) => tracing::debug!(target: "mcpjoin", %error, "the tools were not listed"),
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
    /// Records the tools that a client gets. Returns whether they differ from the last ones.
    fn record_tools(&self, tools: &[(String, Raw)]) -> bool {
        let mut digest = DefaultHasher::new();
        for (_, tool) in tools {
            tool.as_str().hash(&mut digest);
        }
        let digest = digest.finish();
        let before = self.sent_tools.lock().replace(digest);
        before.is_some_and(|before| before != digest)
    }
}

/// A UUID of version 4, the session id of Orchestra's own bridge.
fn session_id() -> String {
    let digits = random(16);
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    // The variant uses two bits of a digit; any of its four values is valid.
    format!("{}-{}-4{}-a{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}
