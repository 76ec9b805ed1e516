//! A client of an orchestrator. It keeps one connection and reconnects in the background.
//!
//! [`Orchestrator`] is the client, [`Bridge`] an MCP server on top of it, and [`serve_compat`] a bridge that responds
//! like Orchestra's first version. Used by the command line's `bridge --orchestrator-addr`. Nothing here subscribes to
//! events: after a `Subscribe`, the orchestrator of Orchestra 1.0 crashes at the next event.
//!
//! The frames are those of Orchestra's `transport.stdio`. `docs/orchestra.md` lists where the MCP side differs, with
//! the test of each difference.
//!
//! A read is retried if the connection is lost. A tool call is retried only if no byte of it was sent, so it runs at
//! most once.

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
pub use error::{OrchestratorError, OrchestratorErrorKind, SetupError, Unreached};
pub use stream::{StreamItem, ToolStream};

/// Maximum attempts of a read whose connection is lost.
const MAX_ATTEMPTS: usize = 3;
/// Delay between two attempts to connect over TCP.
const TCP_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Options and time limits of an [`Orchestrator`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OrchestratorOptions {
    /// Time limit for a tool call. Default: 10 min. Orchestra's own client has none.
    pub tool_call: Duration,
    /// Time limit for any other exchange. Default: 60 s.
    pub read: Duration,
    /// How long a call waits for a connection before it fails. Default: 4 s.
    pub wait: Duration,
    /// Maximum number of exchanges at once. Default: 100, the limit of Orchestra's servers. One of them is reserved for
    /// health requests. Further calls are queued.
    pub streams: usize,
    /// Maximum number of queued calls. Default: 1,024. Further calls fail at once.
    pub waiting: usize,
    /// Time limit for one attempt to connect. Default: 3 s.
    pub connect: Duration,
    /// Idle timeout of the connection. Default: 10 s. The timer restarts with the first packet that is sent after one
    /// was received ([RFC 9000, 10.1](https://www.rfc-editor.org/rfc/rfc9000#section-10.1)), so a lost peer is detected
    /// after this and `keep_alive` together at the latest: 15 s.
    pub idle: Duration,
    /// Interval of keep-alive packets. Default: 5 s.
    pub keep_alive: Duration,
    /// After this time without any packet from the server, counted from a request, a second connection is tried. It
    /// replaces the first one if that stays silent. Default: 1 s; if 8 round-trip times are less, then those, but at
    /// least 250 ms. During a longer exchange, the server gets a health request whenever nothing was received for the
    /// full time.
    pub silence: Duration,
    /// If no response was received for this time, a tool call is preceded by a health request. Default: 10 ms, less
    /// than a server needs to restart. A tool call on a dead connection is lost and must not be retried.
    pub health_check_after: Duration,
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
            health_check_after: Duration::from_millis(10),
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

/// A client of one orchestrator. Cheap to clone; dropping the last clone closes the connection.
///
/// The future of every call may be dropped: that resets its stream. As usual in Orchestra, a tool that is already
/// running goes on.
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
    /// One permit for each exchange in progress.
    permits: Semaphore,
    /// The number of queued calls.
    waiting: AtomicUsize,
    /// A random prefix that makes request ids unique.
    prefix: String,
    last_id: AtomicU64,
    epoch: Instant,
    /// When the last response was received, in milliseconds since `epoch`.
    last_received: AtomicU64,
}

/// Whether to retry an exchange whose request may have arrived.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Retry {
    Always,
    OnlyUnsent,
}

/// A request and how to send it.
struct Exchange {
    request: Request,
    /// The kind in request ids, as in Orchestra's own `stdio-lt-...`.
    kind: &'static str,
    /// The kind in messages to a user.
    name: &'static str,
    retry: Retry,
}

/// Sends a request that may be repeated, and returns the response of the same kind.
macro_rules! read {
    ($client:ident, $kind:literal, $name:literal, $request:ident($value:expr)) => {
        match $client.send(repeatable(Request::$request($value), $kind, $name)).await? {
            Response::$request(response) => Ok(response),
            other => Err($client.unexpected(other, $name, false)),
        }
    };
}

impl Orchestrator {
    /// Creates a client of the orchestrator at `host:port`, over QUIC with these certificates. It returns at once and
    /// connects in the background.
    ///
    /// # Errors
    /// [`SetupError`] if the address or the certificates are unusable.
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
            .expect("reading certificates does not panic, and is never aborted")?;
        Ok(Self::new(address, Some(certificates), Some(tls), options))
    }

    /// Creates a client that uses the orchestrator's plain TCP port: one connection for each exchange, without
    /// encryption and authentication. It does not connect before the first call.
    ///
    /// # Errors
    /// [`SetupError`] if the address is unusable.
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

    /// The orchestrator's address, `host:port` as the caller gave it.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// Waits for a connection and returns its number, counted since the client was created. If `after` is not 0, waits
    /// for a connection with a greater number. Over TCP this never returns.
    ///
    /// # Errors
    /// [`SetupError::Refused`] if the first handshake was rejected by either side. There will be no connection.
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

    /// The error of the last attempt to connect, while there is no connection. `None` before the first attempt has
    /// ended, and over TCP.
    #[must_use]
    pub fn last_connect_error(&self) -> Option<String> {
        let (reconnector, _) = self.0.reconnector.as_ref()?;
        match &*reconnector.watch().borrow() {
            State::Disconnected(why) => why.clone(),
            State::Refused(error) => Some(error.kind.to_string()),
            State::Open(..) | State::Closed => None,
        }
    }

    /// Closes the connection and waits at most `limit` until the server is informed. Calls in progress and later calls
    /// fail.
    pub async fn close(&self, limit: Duration) {
        self.0.permits.close();
        if let Some((reconnector, task)) = &self.0.reconnector {
            task.abort();
            reconnector.close(limit).await;
        }
    }

    /// Asks for the orchestrator's health.
    ///
    /// # Errors
    /// [`OrchestratorError`], as for all other calls.
    pub async fn health(&self) -> Result<HealthResult, OrchestratorError> {
        read!(self, "h", "health", Health(HealthRequest {}))
    }

    /// Lists the tools. They are unordered, and a name may occur more than once.
    ///
    /// # Errors
    /// [`OrchestratorError`].
    pub async fn list_tools(&self) -> Result<Vec<ToolDefinition>, OrchestratorError> {
        read!(self, "lt", "list_tools", ListTools(ListToolsRequest {})).map(|response| response.tools)
    }

    /// Calls a tool, at most once. A tool that failed is not an error here; see [`ToolResponse::success`].
    ///
    /// # Errors
    /// [`OrchestratorError`], which says whether the tool may have run.
    pub async fn tool_call(&self, request: ToolRequest) -> Result<ToolResponse, OrchestratorError> {
        self.check_alive().await?;
        let request = Request::ToolCall(request);
        let send = Exchange { request, kind: "tc", name: "tool_call", retry: Retry::OnlyUnsent };
        match self.send(send).await? {
            Response::ToolCall(response) => Ok(response),
            other => Err(self.unexpected(other, "tool_call", true)),
        }
    }

    /// Lists the prompts.
    ///
    /// # Errors
    /// [`OrchestratorError`].
    pub async fn list_prompts(&self) -> Result<Vec<PromptDefinition>, OrchestratorError> {
        read!(self, "lp", "list_prompts", ListPrompts(ListPromptsRequest {})).map(|response| response.prompts)
    }

    /// Returns a prompt with its arguments inserted. Orchestra's standalone orchestrator responds to every prompt with
    /// a description that says why there are no messages.
    ///
    /// # Errors
    /// [`OrchestratorError`].
    pub async fn prompt_get(
        &self,
        request: PromptGetRequest,
    ) -> Result<PromptGetResponse, OrchestratorError> {
        read!(self, "pg", "prompt_get", PromptGet(request))
    }

    /// Reads a stored document. If it does not exist, the response is empty: no contents, version or metadata.
    ///
    /// # Errors
    /// [`OrchestratorError`].
    pub async fn storage_read(
        &self,
        request: StorageReadRequest,
    ) -> Result<StorageReadResponse, OrchestratorError> {
        read!(self, "rr", "storage_read", StorageRead(request))
    }

    /// Lists the stored documents. If the storage failed, the list is empty.
    ///
    /// # Errors
    /// [`OrchestratorError`].
    pub async fn storage_list(
        &self,
        request: StorageListRequest,
    ) -> Result<Vec<StorageEntry>, OrchestratorError> {
        read!(self, "rl", "storage_list", StorageList(request)).map(|response| response.entries)
    }

    /// Checks with a health request that the connection is alive, unless a response was received recently. A tool call
    /// on a dead connection would be lost and must not be retried.
    async fn check_alive(&self) -> Result<(), OrchestratorError> {
        let silent = self.0.since_epoch().saturating_sub(self.0.last_received.load(Ordering::Relaxed));
        let Some((reconnector, _)) = &self.0.reconnector else { return Ok(()) };
        let is_open = matches!(&*reconnector.watch().borrow(), State::Open(..));
        if !is_open || Duration::from_millis(silent) < self.0.options.health_check_after {
            return Ok(());
        }
        match self.health().await {
            // Any response shows that the server is alive.
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

    async fn send(&self, exchange: Exchange) -> Result<Response, OrchestratorError> {
        let request_id = self.id(exchange.kind);
        let frame = self.encoded(&request_id, exchange.request)?;
        let calls = exchange.retry == Retry::OnlyUnsent;
        let after = if calls { self.0.options.tool_call } else { self.0.options.read };
        let begun = Instant::now();
        tracing::debug!(target: "mcpjoin", id = request_id, bytes = frame.len(), "asks {}", exchange.name);
        let answer = match timeout(after, self.exchange(&frame, exchange.retry)).await {
            Ok(answer) => answer.map_err(|kind| self.error(kind))?,
            Err(_) => return Err(self.error(OrchestratorErrorKind::TimedOut { after, maybe_done: calls })),
        };
        self.note_received();
        let took = begun.elapsed().as_millis();
        tracing::debug!(target: "mcpjoin", id = request_id, bytes = answer.len(), ms = took, "is answered");
        let response = self.decoded(answer, calls)?;
        let answered = response.response;
        let answered = answered.ok_or_else(|| {
            self.error(OrchestratorErrorKind::Unexpected { asked: exchange.name, maybe_done: calls })
        })?;
        self.check_id(&request_id, response.request_id, exchange.name, calls)?;
        Ok(answered)
    }

    fn decoded(&self, frame: Bytes, maybe_done: bool) -> Result<PluginResponse, OrchestratorError> {
        wire::decode(frame)
            .map_err(|error| self.error(OrchestratorErrorKind::Answer { error: Arc::new(error), maybe_done }))
    }

    /// Checks the id of a response. Orchestrators copy it from the request; an empty one is accepted.
    fn check_id(
        &self,
        sent: &str,
        received: String,
        name: &'static str,
        maybe_done: bool,
    ) -> Result<(), OrchestratorError> {
        if received.is_empty() || received == sent {
            return Ok(());
        }
        Err(self.error(OrchestratorErrorKind::Another { asked: name, id: received, maybe_done }))
    }

    /// Records that a response was received now.
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

    /// Runs an exchange, with retries as far as they are allowed.
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
                let exchange = exchange::over_quic(&connection, frame);
                Ok(exchange::watched(reconnector, &connection, exchange).await)
            }
            None => {
                let stream = self.connect_tcp().await?;
                Ok(exchange::over_tcp(stream, frame).await)
            }
        }
    }

    /// Connects over TCP, retrying within the time that a call waits for a connection.
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

    /// Waits for permission to run an exchange. Fails if the queue is full.
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

    /// The error for a response of another kind. An orchestrator reports every error as a failed tool call.
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

/// Random bytes as hexadecimal digits.
fn random(bytes: usize) -> String {
    let mut filled = vec![0; bytes];
    // Without random numbers two clients use the same ids, which no orchestrator checks.
    let _ = getrandom::fill(&mut filled);
    filled.iter().map(|byte| format!("{byte:02x}")).collect()
}
