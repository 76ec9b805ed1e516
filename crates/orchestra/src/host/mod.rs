//! The orchestrator's side: MCP servers, offered to Orchestra's clients.
//!
//! A [`Host`] answers the requests of `orchestra.plugin.v1` that a client of an orchestrator makes, from one or more MCP
//! servers. Called by `mcpjoin bridge --listen orchestra://...`, by programs that want the same, and by the bridge's tests.
//! It starts no server and listens to nobody by itself: it is given both. It runs no call twice, keeps nothing between
//! calls but the names of what each server has, and never sends a client anything that it has not asked for.
//!
//! # What becomes of each request
//!
//! | request | answer |
//! |---|---|
//! | health | `STATUS_HEALTHY` and `orchestrator ok`; with a server that is not there `STATUS_DEGRADED`, without any `STATUS_UNHEALTHY`, and `details` has the reason under the server's name |
//! | list tools | the tools of all servers, sorted by name; of two of one name that of the server which was given last. A server that does not answer is left out and logged; when none answers, an error |
//! | tool call | see below |
//! | list prompts, prompt get | as tools. A text is a block `text`, an embedded text resource a block `resource`; anything else becomes a text that names it, because Orchestra's blocks hold nothing but text |
//! | storage list, storage read | the resources, see below |
//! | all others | the error `unknown_request`, also where the original accepts, ignores or falls over: `register`, `boot`, `shutdown`, writing and deleting, streams, subscriptions, and a request that is empty |
//!
//! An error is always a `tool_call` answer with `success` false, whatever was asked. The original has that form, but for a
//! prompt that it does not have, which it answers with a description alone, and for a document, which is empty then: no
//! client can tell either from a success. The id of the request comes back in every answer. A frame that is no request is
//! logged and answered with the end of the stream and no byte, and the connection goes on.
//!
//! # Tool calls
//!
//! The call goes to the server that has offered the tool last; with a `provider` that is the name of a server, to that one.
//! Names are remembered from the last list, and a name that is not known is looked for anew. `trace_parent` arrives
//! as `_meta.traceparent`. When the client resets its stream or goes away, the MCP call is cancelled. No call is made again.
//!
//! `result` has one of three forms:
//!
//! 1. one text and nothing else: `{"text": ...}`;
//! 2. a structured result that is an object, with no content beside it or with its own JSON as the one text: its members;
//! 3. everything else: `content` with the server's own blocks, `structuredContent` where there is any, and `text`: all
//!    texts in lines, with `[image: image/png]` and the like for what is no text, so that who knows `text` alone sees no
//!    base64.
//!
//! A structured result with a number that a float of 64 bits does not hold comes as its text (form 3 without
//! `structuredContent`), and the member `structuredContentOmitted` says which number it was.
//!
//! | error code | when |
//! |---|---|
//! | `tool_not_found` | no server has such a tool |
//! | `tool_error` | the tool says that it has failed (`isError`): its texts are the message, `result` is its result |
//! | `validation_error` | the arguments are no JSON, or the server says that they are wrong (-32602) |
//! | `handler_error` | any other JSON-RPC error: `result.error` has its code, message and data |
//! | `timeout` | the server did not answer in time; it was told that nobody waits any more |
//! | `routing_error` | the server is not there, or ended during the call: whether the tool has run is not known then |
//! | `invalid_response` | what the server answered is no result, or longer than a frame |
//! | `not_found` | there is no such prompt or resource |
//! | `storage_error` | the resource cannot be read |
//!
//! # Resources
//!
//! Orchestra's clients know three folders, and reach a document by its name in one of them. A resource is the document
//! `docs/NAME.md`, where NAME is its URI with everything but letters, digits and `-._~` percent-encoded; to
//! `transport.stdio` it is `orchestra://docs/NAME`. With `storage_type` `mcp` the path is the URI itself. Both are read,
//! whatever the storage type is, and a URI that no list has is asked of every server that has resources, the last first: it
//! may be one of a template. Storage types other than `mcp`, `markdown` and none do not exist here.
//!
//! A list takes the paths that begin with `prefix` and match `pattern` (`*` and `?`, against the path or its last part).
//! `content` is the first text or the decoded bytes; `metadata` has `uri` and `mimeType`, and under `contents` what came
//! beside it. MCP has no versions: `version` is 0.

mod catalogue;
mod error;
mod exchange;
mod offer;
mod prompts;
mod serve;
mod storage;
mod tools;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mcpjoin_proto::types::{Prompt, Resource, Tool};
use tokio::sync::Semaphore;

use self::catalogue::Catalogue;
use self::error::RequestError;
use super::wire::plugin_request::Request;
use super::wire::plugin_response::Response;
use super::wire::{HealthResult, PluginRequest, PluginResponse, health_result};
use mcpjoin_quic::endpoint::QuicOptions;

pub use offer::Offer;

/// What a healthy orchestrator says of itself: the original's words.
const HEALTHY: &str = "orchestrator ok";

/// The bounds of a [`Host`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostLimits {
    /// How long a server that is being started again is waited for: 10 s.
    pub restart_wait: Duration,
    /// How long a request may take to arrive, from the moment at which its stream or connection is there: 30 s.
    pub read: Duration,
    /// How long an answer may take to be taken: 30 s.
    pub write: Duration,
    /// How long exchanges in progress may go on when the host is to end: 10 s.
    pub drain: Duration,
    /// Connections at once, on each listener: 256. Who comes beyond that is refused.
    pub connections: usize,
    /// Bytes of requests that are arriving or being answered at once, on all connections: 128 MiB. Beyond that a frame
    /// waits, within `read`.
    pub request_bytes: usize,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            restart_wait: Duration::from_secs(10),
            read: Duration::from_secs(30),
            write: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            connections: 256,
            request_bytes: 128 * 1024 * 1024,
        }
    }
}

/// How the host's connections behave: 100 streams at once as with the original, and a dead client noticed within 15 s.
/// Up to 114 are let in, because credit for streams that have ended is given back an eighth at a time.
#[must_use]
pub fn quic_options() -> QuicOptions {
    let mut options = QuicOptions::default();
    options.streams = 114;
    options.idle = Duration::from_secs(10);
    options.keep_alive = Duration::from_secs(5);
    options
}

/// Answers as an orchestrator does, from MCP servers. Cheap to clone.
///
/// ```no_run
/// use mcpjoin_orchestra::certs::Certificates;
/// use mcpjoin_orchestra::host::{self, Host, HostLimits, Offer};
/// use mcpjoin_orchestra::{ALPN, LISTEN_ADDRESS, SERVER_NAME};
/// use mcpjoin::client::{Client, Restart};
/// use mcpjoin::link::ChildCommand;
/// use mcpjoin_quic::endpoint::Listener;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let command = ChildCommand::new("my-server");
/// let server = Client::builder("my-host", "1.0.0")
///     .restarting(Restart::default(), move || command.clone().start())
///     .await?;
/// let host = Host::new([Offer::restarting("my-server", server)], HostLimits::default());
///
/// let certificates = Certificates::in_directory(Certificates::default_directory()?);
/// let tls = move || certificates.server(SERVER_NAME, true, ALPN);
/// let listener = Listener::bind(LISTEN_ADDRESS, tls, host::quic_options()).await?;
/// host.serve(listener, async { tokio::signal::ctrl_c().await.unwrap_or_default() }).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner {
    offers: Arc<[Offer]>,
    limits: HostLimits,
    tools: Catalogue<Tool>,
    prompts: Catalogue<Prompt>,
    resources: Catalogue<Resource>,
    /// Room for requests, in units of [`exchange::UNIT`].
    room: Arc<Semaphore>,
}

impl Host {
    /// Offers these servers. Where two have something of one name, the later one wins.
    #[must_use]
    pub fn new(offers: impl IntoIterator<Item = Offer>, limits: HostLimits) -> Self {
        let offers: Arc<[Offer]> = offers.into_iter().collect();
        let wait = limits.restart_wait;
        let room = Arc::new(Semaphore::new(exchange::units(limits.request_bytes)));
        let inner = Inner {
            tools: Catalogue::new(offers.clone(), wait),
            prompts: Catalogue::new(offers.clone(), wait),
            resources: Catalogue::new(offers.clone(), wait),
            offers,
            limits,
            room,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The servers.
    #[must_use]
    pub fn offers(&self) -> &[Offer] {
        &self.inner.offers
    }

    /// Answers one request. Never fails: what goes wrong is in the answer. Dropping the future cancels what it has asked
    /// of a server.
    pub async fn answer(&self, request: PluginRequest) -> PluginResponse {
        let PluginRequest { request_id, request } = request;
        let answer = match request {
            Some(Request::Health(_)) => Ok(Response::Health(self.health().await)),
            Some(Request::ListTools(_)) => self.list_tools().await.map(Response::ListTools),
            Some(Request::ToolCall(call)) => self.tool_call(call).await.map(Response::ToolCall),
            Some(Request::ListPrompts(_)) => self.list_prompts().await.map(Response::ListPrompts),
            Some(Request::PromptGet(get)) => self.prompt_get(get).await.map(Response::PromptGet),
            Some(Request::StorageRead(read)) => self.storage_read(read).await.map(Response::StorageRead),
            Some(Request::StorageList(list)) => self.storage_list(list).await.map(Response::StorageList),
            _ => Err(RequestError::unknown_request()),
        };
        let response = answer.unwrap_or_else(|refusal| Response::ToolCall(refusal.into_response()));
        PluginResponse { request_id, response: Some(response) }
    }

    async fn health(&self) -> HealthResult {
        let states = join_all(self.inner.offers.iter().map(|offer| async move {
            // Whoever asks wants to know what is, not what will be.
            let unavailable = offer.reached(Duration::ZERO).await.err();
            unavailable.map(|unavailable| (offer.name().to_owned(), unavailable.reason))
        }));
        let details: BTreeMap<String, String> = states.await.into_iter().flatten().collect();
        let servers = self.inner.offers.len();
        let (status, message) = match details.len() {
            0 => (health_result::Status::Healthy, HEALTHY.to_owned()),
            unavailable if unavailable < servers => (
                health_result::Status::Degraded,
                format!("{unavailable} of {servers} MCP servers are not there"),
            ),
            _ => (health_result::Status::Unhealthy, "no MCP server is there".to_owned()),
        };
        HealthResult { status: status.into(), message, details }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("offers", &self.inner.offers)
            .field("limits", &self.inner.limits)
            .finish_non_exhaustive()
    }
}
