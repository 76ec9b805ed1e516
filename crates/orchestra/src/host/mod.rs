//! The host: offers MCP servers to Orchestra's clients, in the role of an orchestrator.
//!
//! A [`Host`] handles the `orchestra.plugin.v1` requests that a client sends to an orchestrator, with one or more MCP
//! servers. Used by `mcpjoin bridge --listen orchestra://...`, by other programs, and by the bridge's tests. It neither
//! starts servers nor opens listeners: the caller provides both. It never runs a call twice, stores nothing between
//! calls except the names of each server's items, and sends nothing that a client has not requested.
//!
//! # Requests and responses
//!
//! | request | response |
//! |---|---|
//! | health | `STATUS_HEALTHY` and `orchestrator ok`; `STATUS_DEGRADED` if a server is unavailable, `STATUS_UNHEALTHY` if all are; `details` has the reason under the server's name |
//! | list tools | the tools of all servers, sorted by name; of two tools with one name, that of the later server. A server that fails is left out and logged; if all fail, an error |
//! | tool call | see below |
//! | list prompts, prompt get | as for tools. A text becomes a block `text`, an embedded text resource a block `resource`; anything else becomes a text that names it, because Orchestra's blocks contain only text |
//! | storage list, storage read | the resources, see below |
//! | all others | the error `unknown_request`, also where the original accepts, ignores or crashes: `register`, `boot`, `shutdown`, writing and deleting, streams, subscriptions, and an empty request |
//!
//! An error is always a `tool_call` response with `success` false, whatever the request was. The original does the
//! same, except for an unknown prompt, where it sends only a description, and for an unknown document, where it sends
//! an empty one: no client can tell either from a success. Every response repeats the id of its request. An invalid
//! frame is logged; its stream ends without a byte, and the connection stays open.
//!
//! # Tool calls
//!
//! A call goes to the last server that has the tool, or to the server named by `provider`. Names are remembered from
//! the last list; an unknown name causes a new one. `trace_parent` is passed as `_meta.traceparent`. If the client
//! resets its stream or disconnects, the MCP call is cancelled. Calls are never retried.
//!
//! `result` has one of three forms:
//!
//! 1. for a single text: `{"text": ...}`;
//! 2. for a structured result that is an object, without content or with its own JSON as the only text: its members;
//! 3. otherwise: `content` with the server's blocks, `structuredContent` if there is any, and `text`, which joins all
//!    texts with line feeds and has `[image: image/png]` and the like for other blocks, so that a client that reads
//!    only `text` gets no base64.
//!
//! A structured result with a number that a 64-bit float cannot represent is sent in form 3 without
//! `structuredContent`. The member `structuredContentOmitted` names the number.
//!
//! | error code | meaning |
//! |---|---|
//! | `tool_not_found` | no server has the tool |
//! | `tool_error` | the tool failed (`isError`): the message has its texts, `result` its result |
//! | `validation_error` | the arguments are not JSON, or the server rejects them (-32602) |
//! | `handler_error` | any other JSON-RPC error: `result.error` has its code, message and data |
//! | `timeout` | the server did not respond in time, and the call was cancelled |
//! | `routing_error` | the server is unavailable, or ended during the call: then the tool may have run |
//! | `invalid_response` | the server's response is not a result, or exceeds a frame |
//! | `not_found` | the prompt or resource does not exist |
//! | `storage_error` | the resource cannot be read |
//!
//! # Resources
//!
//! Orchestra's clients know three folders and read a document by its name in one of them. A resource is the document
//! `docs/NAME.md`, where NAME is its URI with everything percent-encoded except letters, digits and `-._~`; for
//! `transport.stdio` it is `orchestra://docs/NAME`. With the `storage_type` `mcp`, the path is the URI itself. Both
//! forms can be read with any storage type. A URI that is in no list is requested from every server with resources, the
//! last one first, because it may belong to a template. The storage types are `mcp`, `markdown` and the empty one.
//!
//! A list has the paths that begin with `prefix` and match `pattern` (`*` and `?`, against the path or its last part).
//! `content` is the first text or the decoded bytes. `metadata` has `uri` and `mimeType`, and further contents under
//! `contents`. MCP has no versions: `version` is 0.

mod budget;
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

use self::budget::Budget;
use self::catalogue::Catalogue;
use self::error::RequestError;
use super::wire::plugin_request::Request;
use super::wire::plugin_response::Response;
use super::wire::{HealthResult, PluginRequest, PluginResponse, health_result};
use mcpjoin_quic::endpoint::QuicOptions;

pub use offer::Offer;

/// The health message of Orchestra's own orchestrator.
const HEALTHY: &str = "orchestrator ok";

/// The limits of a [`Host`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostLimits {
    /// How long to wait for a server that is restarting. Default: 10 s.
    pub restart_wait: Duration,
    /// Time limit for receiving a request, from the start of its stream or connection. Default: 30 s.
    pub read: Duration,
    /// Time limit for sending a response. Default: 30 s.
    pub write: Duration,
    /// Time limit for exchanges in progress when the host shuts down. Default: 10 s.
    pub drain: Duration,
    /// Maximum connections of each listener. Default: 256. Further ones are rejected.
    pub connections: usize,
    /// Maximum bytes of all requests that are being received or handled. Default: 128 MiB. Further frames wait, within
    /// `read`. One connection may have half of them, and all connections of one subscriber's addresses three quarters.
    pub request_bytes: usize,
    /// The same for responses that are being sent. Default: 128 MiB. Further ones wait, within `write`, and are then dropped.
    pub response_bytes: usize,
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
            response_bytes: 128 * 1024 * 1024,
        }
    }
}

/// QUIC options for the host's listeners: 100 streams at once, as in Orchestra, and a lost client is detected within 15
/// s. The limit is 114, because QUIC returns the credit for ended streams in steps of an eighth.
#[must_use]
pub fn quic_options() -> QuicOptions {
    let mut options = QuicOptions::default();
    options.streams = 114;
    options.idle = Duration::from_secs(10);
    options.keep_alive = Duration::from_secs(5);
    options
}

/// Handles Orchestra's requests with MCP servers. Cheap to clone.
///
/// ```no_run
/// use mcpjoin_orchestra::certs::Certificates;
/// use mcpjoin_orchestra::host::{self, Host, HostLimits, Offer};
/// use mcpjoin_orchestra::{ALPN, LISTEN_ADDRESS, SERVER_NAME};
/// use mcpjoin::client::{Client, Restart};
/// use mcpjoin::transport::ChildCommand;
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
    requests: Budget,
    responses: Budget,
}

impl Host {
    /// Creates a host with these servers. If two have an item of the same name, the later server is used.
    #[must_use]
    pub fn new(offers: impl IntoIterator<Item = Offer>, limits: HostLimits) -> Self {
        let offers: Arc<[Offer]> = offers.into_iter().collect();
        let wait = limits.restart_wait;
        let (requests, responses) = (Budget::new(limits.request_bytes), Budget::new(limits.response_bytes));
        let inner = Inner {
            tools: Catalogue::new(offers.clone(), wait),
            prompts: Catalogue::new(offers.clone(), wait),
            resources: Catalogue::new(offers.clone(), wait),
            offers,
            limits,
            requests,
            responses,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The servers.
    #[must_use]
    pub fn offers(&self) -> &[Offer] {
        &self.inner.offers
    }

    /// Handles one request. It never fails: errors are in the response. Dropping the future cancels the calls to the
    /// servers.
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
        let response = answer.unwrap_or_else(|error| Response::ToolCall(error.into_response()));
        PluginResponse { request_id, response: Some(response) }
    }

    async fn health(&self) -> HealthResult {
        let states = join_all(self.inner.offers.iter().map(|offer| async move {
            // Report the current state; do not wait for a restart.
            let unavailable = offer.reached(Duration::ZERO).await.err();
            unavailable.map(|unavailable| (offer.name().to_owned(), unavailable.reason))
        }));
        let details: BTreeMap<String, String> = states.await.into_iter().flatten().collect();
        let servers = self.inner.offers.len();
        let (status, message) = match details.len() {
            0 => (health_result::Status::Healthy, HEALTHY.to_owned()),
            unavailable if unavailable < servers => (
                health_result::Status::Degraded,
                format!("{unavailable} of {servers} MCP servers are unavailable"),
            ),
            _ => (health_result::Status::Unhealthy, "no MCP server is available".to_owned()),
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
