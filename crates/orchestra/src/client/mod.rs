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
mod reconnect;
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
use error::AttemptError;
use mcpjoin_quic::endpoint::{ClientTls, QuicOptions};
use reconnect::{Counted, Reconnector, State};

pub use bridge::{Bridge, BridgeOptions};
pub use compat::serve_compat;
pub use error::{OrchestratorError, OrchestratorErrorKind, SetupError};
pub use stream::{Streamed, ToolStream};

/// A read is tried so often when the connection is lost under it.
const MAX_ATTEMPTS: usize = 3;
/// The pause between two attempts to reach an orchestrator over TCP.
const TCP_RETRY_DELAY: Duration = Duration::from_millis(100);

/// How calls to an orchestrator are made, and what bounds them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OrchestratorOptions {
    /// How long a call of a tool may take, everything included: 10 min. Orchestra's own client has no bound.
    pub tool_call: Duration,
    /// How long any other exchange may take, everything included: 60 s.
    pub read: Duration,
    /// How long a call waits for a connection while there is none, before it fails and says why: 4 s.
    pub wait: Duration,
    /// How many exchanges are under way at once: 100, which is what Orchestra's servers allow. One of them is kept for
    /// asking whether the far end still lives. Others wait.
    pub streams: usize,
    /// How many calls may wait for their turn: 1,024. Those beyond fail at once.
    pub waiting: usize,
    /// How long one attempt to connect may take: 3 s.
    pub connect: Duration,
    /// A connection is lost when nothing has come for so long: 10 s. The time begins anew with the first thing that is sent
    /// after something came ([RFC 9000, 10.1](https://www.rfc-editor.org/rfc/rfc9000#section-10.1)): a peer that is gone is
    /// noticed after this and `keep_alive` together, 15 s, at the latest.
    pub idle: Duration,
    /// So often something is sent when there is nothing to say: 5 s.
    pub keep_alive: Duration,
    /// When nothing at all has come for so long after something was sent, another connection is tried beside the silent
    /// one, and takes its place when that still says nothing: 1 s, and for a near peer 8 times as long as there and back,
    /// but at least 250 ms. While an answer is waited for, the far end is asked how it is whenever nothing has come for all
    /// of this time.
    pub silence: Duration,
    /// When no answer has come for so long, a call of a tool is preceded by the question whether the far end is there:
    /// 10 ms, in which nobody is ended, started again and listening. What goes into a dead connection is lost, and a call cannot be made again.
    pub doubt: Duration,
}

impl Default for OrchestratorOptions {
    fn default() -> Self {
        Self {
            tool_call: Duration::from_secs(600),
            read: Duration::from_secs(60),
            wait: Duration::from_secs(4),
            streams: 100,
            waiting: 1024,
            connect: Duration::from_secs(3),
            idle: Duration::from_secs(10),
            keep_alive: Duration::from_secs(5),
            silence: Duration::from_secs(1),
            doubt: Duration::from_millis(10),
        }
    }
}

impl OrchestratorOptions {
    fn quic(&self) -> QuicOptions {
        let mut options = QuicOptions::default();
        options.connect_timeout = self.connect;
        options.idle = self.idle;
        options.keep_alive = self.keep_alive;
        options
    }
}

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
    reconnector: Option<(Arc<Reconnector>, JoinHandle<()>)>,
    options: OrchestratorOptions,
    /// One for each exchange that is under way.
    permits: Semaphore,
    /// How many wait for one.
    waiting: AtomicUsize,
    /// What makes the ids of this handle different from those of others.
    prefix: String,
    last_id: AtomicU64,
    epoch: Instant,
    /// When something came back last, in milliseconds from the epoch.
    last_received: AtomicU64,
}

/// Whether an exchange may be made again when it is not known whether the first has arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Retry {
    Always,
    OnlyUnsent,
}

/// What may be called.
struct Exchange {
    request: Request,
    /// The kind, in ids: `stdio-lt-...` as Orchestra's own writes them.
    kind: &'static str,
    /// The kind, for people.
    name: &'static str,
    retry: Retry,
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
        check_address(address)?;
        let source = certificates.clone();
        let tls: ClientTls = tokio::task::spawn_blocking(move || source.client(CLIENT_NAME, ALPN))
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
        check_address(address)?;
        Ok(Self::new(address, None, None, options))
    }

    fn new(
        address: &str,
        certificates: Option<Certificates>,
        tls: Option<ClientTls>,
        options: OrchestratorOptions,
    ) -> Self {
        let address: Arc<str> = address.into();
        let reconnector = certificates.map(|certificates| {
            let reconnector = Arc::new(Reconnector::new(address.clone(), certificates, options.clone()));
            let running = reconnector.clone();
            let task = tokio::spawn(async move { running.run(tls).await });
            (reconnector, task)
        });
        Self(Arc::new(Handle {
            address,
            reconnector,
            permits: Semaphore::new(options.streams.saturating_sub(1).max(1)),
            waiting: AtomicUsize::new(0),
            options,
            prefix: random(4),
            last_id: AtomicU64::new(0),
            epoch: Instant::now(),
            last_received: AtomicU64::new(0),
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
        if let Some((reconnector, _)) = &self.0.reconnector {
            let mut state = reconnector.watch();
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
        let (reconnector, _) = self.0.reconnector.as_ref()?;
        match &*reconnector.watch().borrow() {
            State::Disconnected(why) => why.clone(),
            State::Refused(error) => Some(error.kind.to_string()),
            State::Open(..) | State::Closed => None,
        }
    }

    /// Ends the connection in good order and tells the far end, which may take `most`. Calls under way fail, and so does
    /// every later one.
    pub async fn close(&self, limit: Duration) {
        self.0.permits.close();
        if let Some((reconnector, task)) = &self.0.reconnector {
            task.abort();
            reconnector.close(limit).await;
        }
    }

    // ---- the calls ----

    /// Asks whether it is well.
    ///
    /// # Errors
    /// [`OrchestratorError`], as with all other calls.
    pub async fn health(&self) -> Result<HealthResult, OrchestratorError> {
        match self.send(repeatable(Request::Health(HealthRequest {}), "h", "health")).await? {
            Response::Health(result) => Ok(result),
            other => Err(self.unexpected(other, "health", false)),
        }
    }

    /// The tools that there are, as they come: in no order, and one name perhaps more than once.
    ///
    /// # Errors
    /// [`OrchestratorError`].
    pub async fn list_tools(&self) -> Result<Vec<ToolDefinition>, OrchestratorError> {
        match self.send(repeatable(Request::ListTools(ListToolsRequest {}), "lt", "list_tools")).await? {
            Response::ListTools(list) => Ok(list.tools),
            other => Err(self.unexpected(other, "list_tools", false)),
        }
    }

    /// Calls a tool, at most once. A tool that has failed is no error here: [`ToolResponse::success`] says it.
    ///
    /// # Errors
    /// [`OrchestratorError`], which says where the tool may have run all the same.
    pub async fn tool_call(&self, request: ToolRequest) -> Result<ToolResponse, OrchestratorError> {
        self.check_alive().await?;
        let request = Request::ToolCall(request);
        let send = Exchange { request, kind: "tc", name: "tool_call", retry: Retry::OnlyUnsent };
        match self.send(send).await? {
            Response::ToolCall(response) => Ok(response),
            other => Err(self.unexpected(other, "tool_call", true)),
        }
    }

    /// The prompts that there are.
    ///
    /// # Errors
    /// [`OrchestratorError`].
    pub async fn list_prompts(&self) -> Result<Vec<PromptDefinition>, OrchestratorError> {
        match self.send(repeatable(Request::ListPrompts(ListPromptsRequest {}), "lp", "list_prompts")).await?
        {
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
        match self.send(repeatable(Request::PromptGet(request), "pg", "prompt_get")).await? {
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
        match self.send(repeatable(Request::StorageRead(request), "rr", "storage_read")).await? {
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
        match self.send(repeatable(Request::StorageList(request), "rl", "storage_list")).await? {
            Response::StorageList(list) => Ok(list.entries),
            other => Err(self.unexpected(other, "storage_list", false)),
        }
    }

    // ---- how ----

    /// A call of a tool that goes into a dead connection is lost, and cannot be made again. So where nothing has come for
    /// a while, something is asked first that can be.
    async fn check_alive(&self) -> Result<(), OrchestratorError> {
        let silent = self.0.since_epoch().saturating_sub(self.0.last_received.load(Ordering::Relaxed));
        let Some((reconnector, _)) = &self.0.reconnector else { return Ok(()) };
        let is_open = matches!(&*reconnector.watch().borrow(), State::Open(..));
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
            })
            | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn send(&self, send: Exchange) -> Result<Response, OrchestratorError> {
        let request_id = self.id(send.kind);
        let frame = self.encoded(&request_id, send.request)?;
        let calls = send.retry == Retry::OnlyUnsent;
        let after = if calls { self.0.options.tool_call } else { self.0.options.read };
        let begun = Instant::now();
        tracing::debug!(target: "mcpjoin", id = request_id, bytes = frame.len(), "asks {}", send.name);
        let answer = match timeout(after, self.exchange(&frame, send.retry)).await {
            Ok(answer) => answer.map_err(|kind| self.error(kind))?,
            Err(_) => return Err(self.error(OrchestratorErrorKind::TimedOut { after, maybe_done: calls })),
        };
        self.note_received();
        let took = begun.elapsed().as_millis();
        tracing::debug!(target: "mcpjoin", id = request_id, bytes = answer.len(), ms = took, "is answered");
        let response = self.decoded(answer, calls)?;
        let answered = response.response;
        let answered = answered.ok_or_else(|| {
            self.error(OrchestratorErrorKind::Unexpected { asked: send.name, maybe_done: calls })
        })?;
        self.check_id(&request_id, response.request_id, send.name, calls)?;
        Ok(answered)
    }

    fn decoded(&self, frame: Bytes, maybe_done: bool) -> Result<PluginResponse, OrchestratorError> {
        wire::decode(frame)
            .map_err(|error| self.error(OrchestratorErrorKind::Answer { error: Arc::new(error), maybe_done }))
    }

    /// Every orchestrator gives the id of the request back. Who leaves it out cannot mean another one.
    fn check_id(
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
    fn note_received(&self) {
        self.0.last_received.store(self.0.since_epoch(), Ordering::Relaxed);
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
    async fn exchange(&self, frame: &Bytes, retry: Retry) -> Result<Bytes, OrchestratorErrorKind> {
        let _turn = self.acquire_permit().await?;
        let mut tries = 0;
        loop {
            let error = match self.attempt(frame).await? {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            tries += 1;
            let why = match &error {
                AttemptError::Unsent(why) => why,
                AttemptError::Lost(why) if retry == Retry::Always => why,
                _ => return Err(error.into_kind(retry == Retry::OnlyUnsent)),
            };
            if tries == MAX_ATTEMPTS {
                return Err(error.into_kind(retry == Retry::OnlyUnsent));
            }
            tracing::debug!(target: "mcpjoin", why, "asking the orchestrator again");
        }
    }

    async fn attempt(&self, frame: &Bytes) -> Result<Result<Bytes, AttemptError>, OrchestratorErrorKind> {
        match &self.0.reconnector {
            Some((reconnector, _)) => {
                let connection = reconnector.connection().await?;
                let exchange = exchange::exchange_over_quic(&connection, frame);
                Ok(exchange::watched(reconnector, &connection, exchange).await)
            }
            None => {
                let stream = self.connect_tcp().await?;
                Ok(exchange::exchange_over_tcp(stream, frame).await)
            }
        }
    }

    /// A connection over TCP, within the time that a call waits for one.
    async fn connect_tcp(&self) -> Result<tokio::net::TcpStream, OrchestratorErrorKind> {
        let after = self.0.options.wait;
        let begun = Instant::now();
        loop {
            let left = after.saturating_sub(begun.elapsed());
            match super::tcp(&self.0.address, left.min(self.0.options.connect)).await {
                Ok(stream) => return Ok(stream),
                Err(error) if begun.elapsed() + TCP_RETRY_DELAY >= after => {
                    return Err(OrchestratorErrorKind::Unconnected { after, why: error.to_string() });
                }
                Err(_) => sleep(TCP_RETRY_DELAY).await,
            }
        }
    }

    /// A turn of its own, when there is room to wait for one.
    async fn acquire_permit(&self) -> Result<SemaphorePermit<'_>, OrchestratorErrorKind> {
        if let Ok(permit) = self.0.permits.try_acquire() {
            return Ok(permit);
        }
        let waiting = self.0.options.waiting;
        let _waiting = Counted::new(&self.0.waiting);
        if self.0.waiting.load(Ordering::Relaxed) > waiting {
            return Err(OrchestratorErrorKind::Busy { waiting });
        }
        self.0.permits.acquire().await.map_err(|_| OrchestratorErrorKind::Closed)
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
        if let Some((reconnector, task)) = &self.reconnector {
            task.abort();
            reconnector.close_now();
        }
    }
}

const fn repeatable(request: Request, kind: &'static str, name: &'static str) -> Exchange {
    Exchange { request, kind, name, retry: Retry::Always }
}

fn check_address(address: &str) -> Result<(), SetupError> {
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
