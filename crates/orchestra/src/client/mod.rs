//! A client of an orchestrator: calls over one connection that is made when it can be, and made again when it is lost.
//!
//! [`Orchestrator`] is the handle, [`Bridge`] the MCP server that stands on it, [`serve_compat`] the one that answers as
//! Orchestra's own did in its first version. Used by the command line's `bridge --orchestrator-addr`. Nothing here ever
//! subscribes to events: a `Subscribe` makes the orchestrator of Orchestra 1.0 crash at the next event.
//!
//! The frames are those of Orchestra's `transport.stdio`. Where the MCP side is different, and which test shows it, stands in
//! `docs/orchestra.md`.
//!
//! A read is made again when the connection is lost under it. The call of a tool is made again only when not a byte of it
//! can have left: it runs at most once.

mod bridge;
mod compat;
mod error;
mod exchange;
mod keeping;
mod options;
mod stream;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::certs::Certificates;
use super::wire::{
    self, HealthRequest, HealthResult, ListPromptsRequest, ListToolsRequest, PluginRequest, PluginResponse,
    PromptDefinition, PromptGetRequest, PromptGetResponse, StorageEntry, StorageListRequest,
    StorageReadRequest, StorageReadResponse, ToolDefinition, ToolRequest, ToolResponse,
    plugin_request::Request, plugin_response::Response,
};
use super::{ALPN, CLIENT_NAME};
use error::Fault;
use keeping::{Keeping, State};
use mcpjoin_quic::endpoint::ClientTls;

pub use bridge::{Bridge, BridgeOptions};
pub use compat::serve_compat;
pub use error::{OrchestratorError, OrchestratorErrorKind, SetupError};
pub use options::OrchestratorOptions;
pub use stream::{Streamed, ToolStream};

/// A read is tried so often when the connection is lost under it.
const TRIES: usize = 3;
/// The pause between two attempts to reach an orchestrator over TCP.
const TCP_PAUSE: Duration = Duration::from_millis(100);

/// A handle on one orchestrator. Cheap to clone; the connection ends with the last of the clones.
///
/// Every call may be dropped where it waits: its stream is reset then. That does not stop a tool that is running, which
/// is Orchestra's way.
///
/// ```no_run
/// use mcpjoin_orchestra::certs::Certificates;
/// use mcpjoin_orchestra::client::{Orchestrator, OrchestratorOptions};
///
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let certificates = Certificates::in_directory(Certificates::default_directory()?);
/// let orchestrator =
///     Orchestrator::quic("localhost:50100", certificates, OrchestratorOptions::default()).await?;
/// for tool in orchestrator.list_tools().await? {
///     println!("{}", tool.name);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Orchestrator(Arc<Handle>);

struct Handle {
    address: Arc<str>,
    keeping: Option<(Arc<Keeping>, JoinHandle<()>)>,
    options: OrchestratorOptions,
    /// One for each exchange that is under way.
    turns: Semaphore,
    /// How many wait for one.
    waiting: AtomicUsize,
    /// What makes the ids of this handle different from those of others.
    prefix: String,
    last_id: AtomicU64,
    epoch: Instant,
    /// When something came back last, in milliseconds from the epoch.
    heard: AtomicU64,
}

/// Whether an exchange may be made again when it is not known whether the first has arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Always,
    OnlyUnsent,
}

/// What may be called.
struct Ask {
    request: Request,
    /// The kind, in ids: `stdio-lt-...` as Orchestra's own writes them.
    kind: &'static str,
    /// The kind, for people.
    name: &'static str,
    repeat: Repeat,
}

impl Orchestrator {
    /// A handle on the orchestrator at `host:port`, over QUIC with the certificates given. It is there at once; the
    /// connection is made in the background, now and whenever it was lost.
    ///
    /// # Errors
    /// [`SetupError`] when the address or the certificates cannot be used.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    pub async fn quic(
        address: &str,
        certificates: Certificates,
        options: OrchestratorOptions,
    ) -> Result<Self, SetupError> {
        checked(address)?;
        let read = certificates.clone();
        let tls: ClientTls = tokio::task::spawn_blocking(move || read.client(CLIENT_NAME, ALPN))
            .await
            .expect("reading certificates does not panic, and nobody aborts it")?;
        Ok(Self::new(address, Some(certificates), Some(tls), options))
    }

    /// The same over the orchestrator's plain TCP port: a connection for each exchange, without encryption and without
    /// names. Nothing is connected to before the first call.
    ///
    /// # Errors
    /// [`SetupError`] when the address cannot be used.
    pub fn tcp(address: &str, options: OrchestratorOptions) -> Result<Self, SetupError> {
        checked(address)?;
        Ok(Self::new(address, None, None, options))
    }

    fn new(
        address: &str,
        certificates: Option<Certificates>,
        tls: Option<ClientTls>,
        options: OrchestratorOptions,
    ) -> Self {
        let address: Arc<str> = address.into();
        let keeping = certificates.map(|certificates| {
            let keeping = Arc::new(Keeping::new(address.clone(), certificates, options.clone()));
            let kept = keeping.clone();
            let task = tokio::spawn(async move { kept.keep(tls).await });
            (keeping, task)
        });
        Self(Arc::new(Handle {
            address,
            keeping,
            turns: Semaphore::new(options.streams.saturating_sub(1).max(1)),
            waiting: AtomicUsize::new(0),
            options,
            prefix: random(4),
            last_id: AtomicU64::new(0),
            epoch: Instant::now(),
            heard: AtomicU64::new(0),
        }))
    }

    /// The orchestrator as `host:port`, as it was named.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// Waits until there is a connection, and says the how manyth it is since the handle was made; over TCP that is
    /// never. With `after`, until there is a later one than that.
    ///
    /// # Errors
    /// [`SetupError::Refused`] when the first handshake that came about was refused, by us or by them: then there will be
    /// no connection.
    pub async fn connected(&self, after: u64) -> Result<u64, SetupError> {
        if let Some((keeping, _)) = &self.0.keeping {
            let mut state = keeping.watch();
            loop {
                match &*state.borrow_and_update() {
                    State::Open(_, number) if *number > after => return Ok(*number),
                    State::Refused(error) => return Err(SetupError::Refused(error.clone())),
                    _ => {}
                }
                if state.changed().await.is_err() {
                    break;
                }
            }
        }
        std::future::pending().await
    }

    /// What came of the last attempt to connect, while there is no connection; `None` before the first one has ended, and
    /// over TCP.
    #[must_use]
    pub fn away(&self) -> Option<String> {
        let (keeping, _) = self.0.keeping.as_ref()?;
        match &*keeping.watch().borrow() {
            State::Away(why) => why.clone(),
            State::Refused(error) => Some(error.kind.to_string()),
            State::Open(..) | State::Closed => None,
        }
    }

    /// Ends the connection in good order and tells the far end, which may take `most`. Calls under way fail, and so does
    /// every later one.
    pub async fn close(&self, most: Duration) {
        self.0.turns.close();
        if let Some((keeping, task)) = &self.0.keeping {
            task.abort();
            keeping.close(most).await;
        }
    }

    // ---- the calls ----

    /// Asks whether it is well.
    ///
    /// # Errors
    /// [`OrchestratorError`], as with all other calls.
    pub async fn health(&self) -> Result<HealthResult, OrchestratorError> {
        match self.ask(read(Request::Health(HealthRequest {}), "h", "health")).await? {
            Response::Health(result) => Ok(result),
            other => Err(self.unexpected(other, "health", false)),
        }
    }

    /// The tools that there are, as they come: in no order, and one name perhaps more than once.
    ///
    /// # Errors
    /// [`OrchestratorError`].
    pub async fn list_tools(&self) -> Result<Vec<ToolDefinition>, OrchestratorError> {
        match self.ask(read(Request::ListTools(ListToolsRequest {}), "lt", "list_tools")).await? {
            Response::ListTools(list) => Ok(list.tools),
            other => Err(self.unexpected(other, "list_tools", false)),
        }
    }

    /// Calls a tool, at most once. A tool that has failed is no error here: [`ToolResponse::success`] says it.
    ///
    /// # Errors
    /// [`OrchestratorError`], which says where the tool may have run all the same.
    pub async fn tool_call(&self, request: ToolRequest) -> Result<ToolResponse, OrchestratorError> {
        self.look_for_signs_of_life().await?;
        let request = Request::ToolCall(request);
        let ask = Ask { request, kind: "tc", name: "tool_call", repeat: Repeat::OnlyUnsent };
        match self.ask(ask).await? {
            Response::ToolCall(response) => Ok(response),
            other => Err(self.unexpected(other, "tool_call", true)),
        }
    }

    /// The prompts that there are.
    ///
    /// # Errors
    /// [`OrchestratorError`].
    pub async fn list_prompts(&self) -> Result<Vec<PromptDefinition>, OrchestratorError> {
        match self.ask(read(Request::ListPrompts(ListPromptsRequest {}), "lp", "list_prompts")).await? {
            Response::ListPrompts(list) => Ok(list.prompts),
            other => Err(self.unexpected(other, "list_prompts", false)),
        }
    }

    /// A prompt, filled in. Orchestra's standalone orchestrator answers every prompt with a description that says why
    /// there are no messages.
    ///
    /// # Errors
    /// [`OrchestratorError`].
    pub async fn prompt_get(
        &self,
        request: PromptGetRequest,
    ) -> Result<PromptGetResponse, OrchestratorError> {
        match self.ask(read(Request::PromptGet(request), "pg", "prompt_get")).await? {
            Response::PromptGet(prompt) => Ok(prompt),
            other => Err(self.unexpected(other, "prompt_get", false)),
        }
    }

    /// What is stored under a path. What does not exist comes back empty: no contents, no version and no metadata.
    ///
    /// # Errors
    /// [`OrchestratorError`].
    pub async fn storage_read(
        &self,
        request: StorageReadRequest,
    ) -> Result<StorageReadResponse, OrchestratorError> {
        match self.ask(read(Request::StorageRead(request), "rr", "storage_read")).await? {
            Response::StorageRead(contents) => Ok(contents),
            other => Err(self.unexpected(other, "storage_read", false)),
        }
    }

    /// What is stored. A store that has failed comes back as an empty list.
    ///
    /// # Errors
    /// [`OrchestratorError`].
    pub async fn storage_list(
        &self,
        request: StorageListRequest,
    ) -> Result<Vec<StorageEntry>, OrchestratorError> {
        match self.ask(read(Request::StorageList(request), "rl", "storage_list")).await? {
            Response::StorageList(list) => Ok(list.entries),
            other => Err(self.unexpected(other, "storage_list", false)),
        }
    }

    // ---- how ----

    /// A call of a tool that goes into a dead connection is lost, and cannot be made again. So where nothing has come for
    /// a while, something is asked first that can be.
    async fn look_for_signs_of_life(&self) -> Result<(), OrchestratorError> {
        let silent = self.0.since_epoch().saturating_sub(self.0.heard.load(Ordering::Relaxed));
        let Some((keeping, _)) = &self.0.keeping else { return Ok(()) };
        let is_open = matches!(&*keeping.watch().borrow(), State::Open(..));
        if !is_open || Duration::from_millis(silent) < self.0.options.doubt {
            return Ok(());
        }
        match self.health().await {
            // It is there, whatever it thinks of the question.
            Err(OrchestratorError {
                kind:
                    OrchestratorErrorKind::Remote { .. }
                    | OrchestratorErrorKind::Unexpected { .. }
                    | OrchestratorErrorKind::Answer { .. }
                    | OrchestratorErrorKind::Another { .. },
                ..
            }) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    async fn ask(&self, ask: Ask) -> Result<Response, OrchestratorError> {
        let request_id = self.id(ask.kind);
        let frame = self.encoded(&request_id, ask.request)?;
        let calls = ask.repeat == Repeat::OnlyUnsent;
        let after = if calls { self.0.options.tool_call } else { self.0.options.read };
        let begun = Instant::now();
        tracing::debug!(target: "mcpjoin", id = request_id, bytes = frame.len(), "asks {}", ask.name);
        let answer = match timeout(after, self.exchange(&frame, ask.repeat)).await {
            Ok(answer) => answer.map_err(|kind| self.error(kind))?,
            Err(_) => return Err(self.error(OrchestratorErrorKind::TimedOut { after, maybe_done: calls })),
        };
        self.has_heard();
        let took = begun.elapsed().as_millis();
        tracing::debug!(target: "mcpjoin", id = request_id, bytes = answer.len(), ms = took, "is answered");
        let response = self.decoded(answer, calls)?;
        let answered = response.response;
        let answered = answered.ok_or_else(|| {
            self.error(OrchestratorErrorKind::Unexpected { asked: ask.name, maybe_done: calls })
        })?;
        self.is_ours(&request_id, response.request_id, ask.name, calls)?;
        Ok(answered)
    }

    fn decoded(&self, frame: Bytes, maybe_done: bool) -> Result<PluginResponse, OrchestratorError> {
        wire::decode(frame)
            .map_err(|error| self.error(OrchestratorErrorKind::Answer { error: Arc::new(error), maybe_done }))
    }

    /// Every orchestrator gives the id of the request back. Who leaves it out cannot mean another one.
    fn is_ours(
        &self,
        asked: &str,
        answered: String,
        name: &'static str,
        maybe_done: bool,
    ) -> Result<(), OrchestratorError> {
        if answered.is_empty() || answered == asked {
            return Ok(());
        }
        Err(self.error(OrchestratorErrorKind::Another { asked: name, id: answered, maybe_done }))
    }

    /// Something has come.
    fn has_heard(&self) {
        self.0.heard.store(self.0.since_epoch(), Ordering::Relaxed);
    }

    fn id(&self, kind: &str) -> String {
        let number = self.0.last_id.fetch_add(1, Ordering::Relaxed);
        format!("stdio-{kind}-{}-{number}", self.0.prefix)
    }

    fn encoded(&self, id: &str, request: Request) -> Result<Bytes, OrchestratorError> {
        let request = PluginRequest { request_id: id.to_owned(), request: Some(request) };
        wire::encode(&request).map_err(|error| self.error(OrchestratorErrorKind::Request(Arc::new(error))))
    }

    /// The exchange, repeated as far as it may be.
    async fn exchange(&self, frame: &Bytes, repeat: Repeat) -> Result<Bytes, OrchestratorErrorKind> {
        let _turn = self.turn().await?;
        let mut tries = 0;
        loop {
            let fault = match self.attempt(frame).await? {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            tries += 1;
            let (why, maybe_done) = match fault {
                Fault::Unsent(why) => (why, false),
                Fault::Lost(why) => (why, repeat == Repeat::OnlyUnsent),
                Fault::Answer(error) => {
                    let maybe_done = repeat == Repeat::OnlyUnsent;
                    return Err(OrchestratorErrorKind::Answer { error: Arc::new(error), maybe_done });
                }
            };
            if maybe_done || tries == TRIES {
                return Err(OrchestratorErrorKind::Lost { why, maybe_done });
            }
            tracing::debug!(target: "mcpjoin", why, "asking the orchestrator again");
        }
    }

    async fn attempt(&self, frame: &Bytes) -> Result<Result<Bytes, Fault>, OrchestratorErrorKind> {
        match &self.0.keeping {
            Some((keeping, _)) => {
                let connection = keeping.connection().await?;
                let exchange = exchange::over_quic(&connection, frame);
                Ok(exchange::watched(keeping, &connection, exchange).await)
            }
            None => {
                let stream = self.reach().await?;
                Ok(exchange::over_tcp(stream, frame).await)
            }
        }
    }

    /// A connection over TCP, within the time that a call waits for one.
    async fn reach(&self) -> Result<tokio::net::TcpStream, OrchestratorErrorKind> {
        let after = self.0.options.wait;
        let begun = Instant::now();
        loop {
            let left = after.saturating_sub(begun.elapsed());
            match super::tcp(&self.0.address, left.min(self.0.options.connect)).await {
                Ok(stream) => return Ok(stream),
                Err(error) if begun.elapsed() + TCP_PAUSE >= after => {
                    return Err(OrchestratorErrorKind::Unconnected { after, why: error.to_string() });
                }
                Err(_) => sleep(TCP_PAUSE).await,
            }
        }
    }

    /// A turn of its own, when there is room to wait for one.
    async fn turn(&self) -> Result<SemaphorePermit<'_>, OrchestratorErrorKind> {
        if let Ok(turn) = self.0.turns.try_acquire() {
            return Ok(turn);
        }
        let waiting = self.0.options.waiting;
        let _place = Place::new(&self.0.waiting);
        if self.0.waiting.load(Ordering::Relaxed) > waiting {
            return Err(OrchestratorErrorKind::Busy { waiting });
        }
        self.0.turns.acquire().await.map_err(|_| OrchestratorErrorKind::Closed)
    }

    /// What another answer than the expected one says: an error of the orchestrator comes in the form of a failed call,
    /// whatever was asked.
    fn unexpected(&self, response: Response, asked: &'static str, maybe_done: bool) -> OrchestratorError {
        self.error(match response {
            Response::ToolCall(ToolResponse { success: false, error_code, error_message, .. }) => {
                OrchestratorErrorKind::Remote { code: error_code, message: error_message }
            }
            _ => OrchestratorErrorKind::Unexpected { asked, maybe_done },
        })
    }

    fn error(&self, kind: OrchestratorErrorKind) -> OrchestratorError {
        OrchestratorError { address: self.0.address.clone(), kind }
    }
}

impl fmt::Debug for Orchestrator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orchestrator").field("address", &self.0.address).finish_non_exhaustive()
    }
}

impl Handle {
    fn since_epoch(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some((keeping, task)) = &self.keeping {
            task.abort();
            keeping.shut();
        }
    }
}

const fn read(request: Request, kind: &'static str, name: &'static str) -> Ask {
    Ask { request, kind, name, repeat: Repeat::Always }
}

fn checked(address: &str) -> Result<(), SetupError> {
    match mcpjoin::internal::host_and_port(address) {
        Ok(_) => Ok(()),
        Err(_) => Err(SetupError::Address(address.to_owned())),
    }
}

/// So many random bytes, in hexadecimal digits.
fn random(bytes: usize) -> String {
    let mut filled = vec![0; bytes];
    // Without random numbers the ids of two handles are the same, which no orchestrator looks at.
    let _ = getrandom::fill(&mut filled);
    filled.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One that waits.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
