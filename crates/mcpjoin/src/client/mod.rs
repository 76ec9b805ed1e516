//! The client: connects to a server of any revision and asks it things.
//!
//! ```no_run
//! use mcpjoin::client::Client;
//! use mcpjoin::link::Link;
//! use mcpjoin::proto::Raw;
//!
//! # async fn example(link: Link) -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("my-client", "1.0.0").connect(link).await?;
//! for tool in client.list_tools().all().await? {
//!     println!("{}", tool.name);
//! }
//! let result = client.call_tool("add", Some(Raw::parse(r#"{"a":1,"b":2}"#)?)).await?;
//! # let _ = result;
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! There is one method per method of the [specification](https://modelcontextprotocol.io/specification), named after
//! it, with its parameters as one value and its result as another, and the same in both eras: where a revision does
//! something in another way, the client does it that way. Results that a server calls fresh are remembered for as long
//! ([`Cache`]). What a server asks for meanwhile is answered by what the
//! [`ClientBuilder`] was given. Nothing here knows how messages travel, and nothing is ever sent twice by itself. A client
//! stays with its connection; [`ClientBuilder::restarting`] is for servers that are to be started again when they die.

mod builder;
mod cache;
mod catalogue;
mod connection_cache;
mod error;
mod input;
mod opening;
mod pages;
mod restart;
mod round_trip;
mod subscription;
mod task;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use mcpjoin_proto::session::{Call, CallError, CallRefused, CloseCause, Peer, ProcessExit, Reply, State};
use mcpjoin_proto::types::{
    CallToolParams, CompleteParams, CompleteResult, DiscoverResult, EmptyResult, GetPromptParams,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, LoggingLevel,
    PageParams, Prompt, ReadResourceParams, Resource, ResourceTemplate, Root, SetLevelParams, Tool,
};
use mcpjoin_proto::{Method, Notification, Payload, Profile, Raw};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use builder::ClientBuilder;
pub use cache::Cache;
pub use error::{ClientError, ConnectError, Phase};
pub use pages::{Listed, Pages};
pub use restart::{ClientStream, Restart, RestartError, RestartingClient, RunEvent, RunExit};
pub use round_trip::{PromptCall, ResourceRead, RoundTrip, RoundTripParams, ToolCall};
pub use subscription::Subscription;
pub use task::{StartedCall, TaskHandle, TaskOutcome, TaskResult};

use self::catalogue::Catalogue;
use self::connection_cache::{ConnectionCache, Lookup};
use self::input::{InputHandlers, OnNotification};
use self::subscription::ResourceStreams;
use self::task::TaskRegistry;
use crate::connection::Connection;
#[cfg(unix)]
use crate::link::ChildHandle;

/// A client that is connected. Cheap to clone; everything takes `&self` and may be used from several tasks at once.
///
/// When the last handle is dropped the connection is closed; calls, lists and subscriptions under way are handles,
/// too.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    /// Asks also for what is remembered.
    uncached: bool,
}

struct Inner {
    /// Ended before the connection is.
    resource_streams: ResourceStreams,
    #[cfg(unix)]
    child: Option<ChildHandle>,
    connection: OpenConnection,
    peer: Arc<Peer>,
    answers: Arc<InputHandlers>,
    tasks: Arc<TaskRegistry>,
    on_notification: Option<OnNotification>,
    catalogue: Catalogue,
    cache: ConnectionCache,
    /// One more than the place of the level in [`LoggingLevel::ALL`]; 0: none.
    log_level: AtomicU8,
    max_rounds: usize,
    max_pages: usize,
}

/// A connection that is closed when this is dropped.
struct OpenConnection(Connection);

impl Deref for OpenConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Client {
    /// Begins to build a client that describes itself with this name and version.
    pub fn builder(name: &str, version: &str) -> ClientBuilder {
        ClientBuilder::new(name, version)
    }

    /// The same client, which asks the server also for what it remembers as fresh; what comes is remembered in its
    /// place. For one question: `client.uncached().list_tools()`.
    ///
    /// There may be reasons to know better than the server's hint: a call that fails because the tool is unknown.
    #[must_use]
    pub fn uncached(&self) -> Self {
        Self { inner: self.inner.clone(), uncached: true }
    }

    // ---- facts ----

    /// The server: its name, what it can do, how it wants to be used.
    #[must_use]
    pub fn peer(&self) -> Arc<Peer> {
        self.inner.peer.clone()
    }

    /// The facts of the revision that is spoken.
    #[must_use]
    pub fn profile(&self) -> &'static Profile {
        self.inner.peer.profile
    }

    /// The server's name, as it gives it.
    #[must_use]
    pub fn server_name(&self) -> Option<&str> {
        self.inner.peer.info.as_ref().map(|info| info.name.as_str())
    }

    /// Where the connection stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.inner.connection.state()
    }

    /// Whether the connection is over: every call fails from now on.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.state(), State::Disconnected | State::ShuttingDown)
    }

    /// Why the connection is over; `None` while it is not.
    #[must_use]
    pub fn close_cause(&self) -> Option<CloseCause> {
        self.inner.connection.close_cause()
    }

    /// How the server's process has ended, when it has and was ours.
    #[must_use]
    pub fn exit(&self) -> Option<ProcessExit> {
        let told = self.close_cause().as_ref().and_then(error::link_end).and_then(|end| end.exit);
        #[cfg(unix)]
        let told = told.or_else(|| self.inner.child.as_ref().and_then(ChildHandle::exit));
        told
    }

    /// Watches the server's process, when it is a child of ours. Once [`close`](Self::close) has returned its report
    /// names what could not be ended of what the server had started.
    #[cfg(unix)]
    #[must_use]
    pub fn child(&self) -> Option<ChildHandle> {
        self.inner.child.clone()
    }

    /// The connection below: for requests that this type has no method for.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.inner.connection
    }

    /// Closes the connection and waits until everything that its link has started is gone. Calls under way fail.
    pub async fn close(&self) -> CloseCause {
        self.inner.connection.close();
        self.inner.connection.closed().await
    }

    /// Waits until the connection is over, for whatever reason, and everything that its link has started is gone.
    pub async fn closed(&self) -> CloseCause {
        self.inner.connection.closed().await
    }

    // ---- tools ----

    /// All tools, page after page.
    pub fn list_tools(&self) -> Pages<Tool> {
        Pages::new(self.clone())
    }

    /// One page of tools.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_tools_page(&self, params: PageParams) -> Result<ListToolsResult, ClientError> {
        let mut page: ListToolsResult = self.request_page(Method::ListTools, &params).await?;
        self.inner.catalogue.retain(&mut page.tools);
        Ok(page)
    }

    /// Calls a tool. The arguments are a JSON object. Await it, or look at its progress first.
    ///
    /// A tool that fails gives a result that says so (`is_error`); an error means that there is no result, and not that
    /// the tool has not run.
    ///
    /// A client that takes tasks ([`ClientBuilder::tasks`]) waits for the end of the task that it may become.
    pub fn call_tool(&self, name: impl Into<String>, arguments: Option<Raw>) -> ToolCall {
        let mut params = CallToolParams::new(name);
        params.arguments = arguments;
        self.call_tool_with(params)
    }

    /// Calls a tool with all that the parameters can say.
    pub fn call_tool_with(&self, params: CallToolParams) -> ToolCall {
        RoundTrip::new(self.clone(), params, true)
    }

    // ---- resources ----

    /// All resources, page after page.
    pub fn list_resources(&self) -> Pages<Resource> {
        Pages::new(self.clone())
    }

    /// One page of resources.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_resources_page(&self, params: PageParams) -> Result<ListResourcesResult, ClientError> {
        self.request_page(Method::ListResources, &params).await
    }

    /// All resource templates, page after page.
    pub fn list_resource_templates(&self) -> Pages<ResourceTemplate> {
        Pages::new(self.clone())
    }

    /// One page of resource templates.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_resource_templates_page(
        &self,
        params: PageParams,
    ) -> Result<ListResourceTemplatesResult, ClientError> {
        self.request_page(Method::ListResourceTemplates, &params).await
    }

    /// Reads a resource.
    pub fn read_resource(&self, uri: impl Into<String>) -> ResourceRead {
        RoundTrip::new(self.clone(), ReadResourceParams::new(uri), false)
    }

    // ---- prompts ----

    /// All prompts, page after page.
    pub fn list_prompts(&self) -> Pages<Prompt> {
        Pages::new(self.clone())
    }

    /// One page of prompts.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_prompts_page(&self, params: PageParams) -> Result<ListPromptsResult, ClientError> {
        self.request_page(Method::ListPrompts, &params).await
    }

    /// Has a prompt filled in.
    pub fn get_prompt(
        &self,
        name: impl Into<String>,
        arguments: Option<BTreeMap<String, String>>,
    ) -> PromptCall {
        let mut params = GetPromptParams::new(name);
        params.arguments = arguments;
        RoundTrip::new(self.clone(), params, false)
    }

    // ---- the rest ----

    /// Proposals for the value of an argument.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn complete(&self, params: CompleteParams) -> Result<CompleteResult, ClientError> {
        self.request(Method::Complete, &params).await
    }

    /// Whether the server answers: `ping`, or `server/discover` in the modern era, which has no `ping`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn ping(&self) -> Result<(), ClientError> {
        if self.has(&Method::Ping) {
            self.request_without_params::<EmptyResult>(Method::Ping).await.map(drop)
        } else {
            self.uncached().discover().await.map(drop)
        }
    }

    /// What a modern server is and speaks.
    ///
    /// # Errors
    /// See [`ClientError`]; in the legacy era it is always refused.
    pub async fn discover(&self) -> Result<DiscoverResult, ClientError> {
        self.request_cached(Method::Discover, None, true).await
    }

    /// From which level on log messages are wanted. In the legacy era the server is told; in the modern era it is
    /// remembered and said with each request from now on.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn set_level(&self, level: LoggingLevel) -> Result<(), ClientError> {
        if self.has(&Method::SetLevel) {
            return self
                .request::<_, EmptyResult>(Method::SetLevel, &SetLevelParams::new(level))
                .await
                .map(drop);
        }
        if self.inner.peer.server_capabilities().is_none_or(|server| server.logging.is_none()) {
            let refused = CallRefused::Undeclared { method: Method::SetLevel, capability: "logging" };
            return Err(CallError::Refused(refused).into());
        }
        let place = LoggingLevel::ALL.iter().position(|known| *known == level);
        let place = place.and_then(|place| u8::try_from(place + 1).ok()).unwrap_or_default();
        self.inner.log_level.store(place, Ordering::Relaxed);
        Ok(())
    }

    /// Other roots from now on, and in the legacy era the server is told so.
    ///
    /// # Errors
    /// When roots were not declared ([`ClientBuilder::roots`]), or the server cannot be told.
    pub fn set_roots(&self, roots: Vec<Root>) -> Result<(), ClientError> {
        if !self.inner.answers.replace_roots(roots) {
            let refused = CallRefused::Undeclared { method: Method::ListRoots, capability: "roots" };
            return Err(CallError::Refused(refused).into());
        }
        if self.has(&Method::RootsListChanged) { self.notify_roots_list_changed() } else { Ok(()) }
    }

    /// Tells a legacy server that the roots have changed.
    ///
    /// # Errors
    /// When roots were not declared, or in the modern era, which has no such notification.
    pub fn notify_roots_list_changed(&self) -> Result<(), ClientError> {
        let notification = Notification { method: Method::RootsListChanged, params: None };
        Ok(self.inner.connection.notify(notification)?)
    }

    /// Makes any request and gives what came back as it is: also a result that asks for input, or a task.
    ///
    /// # Errors
    /// See [`ClientError`]. What the agreed revision has no place for, or the server has not declared, is refused.
    pub async fn send_request(&self, method: &str, params: Option<Raw>) -> Result<Raw, ClientError> {
        let method = Method::parse(method);
        let mut call = self.call(method.clone());
        call.params = params.map(Payload::from_raw);
        match self.inner.connection.call(call).await? {
            Reply::Complete(result) | Reply::Task(result) => Ok(result),
            Reply::Verbatim(result) => Ok(result.into_raw()),
            Reply::NeedInput(input) => Raw::from_value(&*input)
                .map_err(|error| ClientError::BadResult { method, what: error.to_string() }),
        }
    }

    // ---- how requests are made ----

    /// Whether the revision that is spoken has a method.
    fn has(&self, method: &Method) -> bool {
        method.facts().is_some_and(|facts| facts.exists_in(&self.profile().version))
    }

    fn requested_log_level(&self) -> Option<LoggingLevel> {
        let place = self.inner.log_level.load(Ordering::Relaxed);
        LoggingLevel::ALL.get(usize::from(place).checked_sub(1)?).copied()
    }

    fn call(&self, method: Method) -> Call {
        let mut call = Call::new(method);
        call.log_level = self.requested_log_level();
        call
    }

    async fn request<P: Serialize + Sync, R: DeserializeOwned>(
        &self,
        method: Method,
        params: &P,
    ) -> Result<R, ClientError> {
        let call = self.call(method.clone()).with_params(encode(&method, params)?);
        let reply = self.inner.connection.call(call).await?;
        decode(&method, &complete(&method, reply)?)
    }

    async fn request_page<R: DeserializeOwned>(
        &self,
        method: Method,
        params: &PageParams,
    ) -> Result<R, ClientError> {
        // The pages of a list have one scope, and here that of the first one is not known.
        let first = params.cursor.is_none();
        let outcome = self.request_cached(method.clone(), Some(encode(&method, params)?), first).await;
        if let Err(ClientError::Call(CallError::Remote(_))) = &outcome
            && !first
        {
            self.inner.cache.forget(&method);
        }
        outcome
    }

    /// Gives what is remembered, or asks; `shared`: the answer may be given to others.
    async fn request_cached<R: DeserializeOwned>(
        &self,
        method: Method,
        params: Option<Raw>,
        shared: bool,
    ) -> Result<R, ClientError> {
        let asked = match self.look_up(&method, params.as_ref()) {
            Lookup::Hit(result) => return decode(&method, &result),
            Lookup::Miss(asked) => asked,
        };
        let mut call = self.call(method.clone());
        call.params = params.map(Payload::from_raw);
        let mut calling = self.inner.connection.call(call);
        let result = complete(&method, (&mut calling).await?)?;
        let value = decode(&method, &result)?;
        if let Some(asked) = asked {
            self.inner.cache.keep(asked, &result, calling.arrived(), shared);
        }
        Ok(value)
    }

    /// What is remembered. Nothing when the connection is over: everything fails then.
    fn look_up(&self, method: &Method, params: Option<&Raw>) -> Lookup {
        if !method.is_cacheable() || self.is_closed() {
            return Lookup::Miss(None);
        }
        self.inner.cache.look_up(method, params, self.uncached)
    }

    async fn request_without_params<R: DeserializeOwned>(&self, method: Method) -> Result<R, ClientError> {
        let reply = self.inner.connection.call(self.call(method.clone())).await?;
        decode(&method, &complete(&method, reply)?)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.server_name())
            .field("version", &self.profile().version)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

fn encode<P: Serialize + ?Sized>(method: &Method, params: &P) -> Result<Raw, ClientError> {
    Raw::from_value(params)
        .map_err(|error| ClientError::BadParams { method: method.clone(), what: error.to_string() })
}

fn decode<R: DeserializeOwned>(method: &Method, result: &Raw) -> Result<R, ClientError> {
    result
        .decode()
        .map_err(|error| ClientError::BadResult { method: method.clone(), what: error.to_string() })
}

/// The result of a method that has no other kind of reply.
fn complete(method: &Method, reply: Reply) -> Result<Raw, ClientError> {
    match reply {
        Reply::Complete(result) => Ok(result),
        Reply::Verbatim(result) => Ok(result.into_raw()),
        Reply::NeedInput(_) | Reply::Task(_) => Err(ClientError::BadResult {
            method: method.clone(),
            what: "it is not a complete result, which this method always has".into(),
        }),
    }
}
