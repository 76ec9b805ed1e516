//! The client: connects to a server of any revision and asks it things.
//!
//! ```no_run
//! use mcpjoin::client::Client;
//! use mcpjoin::transport::Link;
//! use serde_json::json;
//!
//! # async fn example(link: Link) -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("my-client", "1.0.0").connect(link).await?;
//! for tool in client.list_tools().all().await? {
//!     println!("{}", tool.name);
//! }
//! let sum: i64 = client.call_tool("add", json!({ "a": 1, "b": 2 })).await?.decode()?;
//! println!("{sum}");
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! There is one method per method of the [specification](https://modelcontextprotocol.io/specification), named after
//! it. The methods are the same in both eras: where revisions differ, the client does what the server's revision says.
//! Results that a server marks as fresh are cached ([`Cache`]). Requests of the server are handled by the functions
//! that the [`ClientBuilder`] was given.
//!
//! The client does not know how messages travel, and it never sends a request twice. It belongs to one connection;
//! [`ClientBuilder::restarting`] is for servers that are restarted when they exit.

mod builder;
mod cache;
mod connection_cache;
mod error;
mod input;
mod notifications;
mod opening;
mod pages;
mod restart;
mod round_trip;
mod subscription;
mod task;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::sync::Mutex;
use mcpjoin_proto::session::{Call, CallRefused, Peer, ProcessExit, Reply, State};
use mcpjoin_proto::types::{
    CallToolParams, CompleteArgument, CompleteParams, DiscoverResult, EmptyResult, GetPromptParams,
    LoggingLevel, PageParams, Prompt, PromptReference, ProtocolType, ReadResourceParams, Resource,
    ResourceTemplate, ResourceTemplateReference, Root, SetLevelParams, Tool,
};
use mcpjoin_proto::{Kind, Method, Notification, Payload, Profile, Raw};
use serde::Serialize;
use tokio::task::JoinSet;

pub use crate::connection::Next;
pub use builder::ClientBuilder;
pub use cache::Cache;
pub use error::{ClientError, ConnectError, Phase};
pub use mcpjoin_proto::session::{CallError, CloseCause, EraChoice, Limits};
pub use pages::{Listed, Pages, RawPages};
pub use restart::{ClientStream, Restart, RestartError, RestartingClient, RunEvent, RunExit};
pub use round_trip::{CompletionCall, PromptCall, ResourceRead, RoundTrip, RoundTripParams, ToolCall};
pub use subscription::Subscription;
pub use task::{StartedCall, TaskHandle, TaskOutcome, TaskResult};

use self::connection_cache::{ConnectionCache, Lookup};
use self::input::{InputHandlers, OnNotification};
use self::notifications::Dispatch;
use self::pages::ToolFilter;
use self::subscription::{LegacySubscriptions, ResourceStreams};
use self::task::TaskRegistry;
use crate::connection::Connection;
#[cfg(all(unix, feature = "child"))]
use crate::transport::ChildHandle;

/// A connected client. Cheap to clone; all methods take `&self` and may be called from several tasks at once.
///
/// The connection closes when the last handle is dropped. Pending calls, lists and subscriptions are handles, too.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    /// Sends requests even if there is a cached result.
    uncached: bool,
}

struct Inner {
    /// Dropped before the connection.
    resource_streams: ResourceStreams,
    /// The tasks of the functions for notifications, which end with the last handle.
    notification_tasks: Mutex<JoinSet<()>>,
    #[cfg(all(unix, feature = "child"))]
    child: Option<ChildHandle>,
    connection: OpenConnection,
    peer: Arc<Peer>,
    answers: Arc<InputHandlers>,
    tasks: Arc<TaskRegistry>,
    on_notification: Option<OnNotification>,
    dispatch: Arc<Dispatch>,
    legacy_subscriptions: LegacySubscriptions,
    tool_filter: ToolFilter,
    cache: ConnectionCache,
    /// One more than the index of the level in [`LoggingLevel::ALL`]; 0: none.
    log_level: AtomicU8,
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
    /// Creates the builder of a client with this name and version.
    pub fn builder(name: &str, version: &str) -> ClientBuilder {
        ClientBuilder::new(name, version)
    }

    /// Returns the same client without cache lookups: its requests are always sent, and their results replace the
    /// cached ones.
    ///
    /// Use it for single requests, such as `client.uncached().list_tools()`, when you know better than the server's
    /// hint: for example after a call has failed because the tool is unknown.
    #[must_use]
    pub fn uncached(&self) -> Self {
        Self { inner: self.inner.clone(), uncached: true }
    }

    /// Returns the server: its name, its capabilities, its instructions.
    #[must_use]
    pub fn peer(&self) -> Arc<Peer> {
        self.inner.peer.clone()
    }

    /// Returns the facts of the revision that both sides use.
    #[must_use]
    pub fn profile(&self) -> &'static Profile {
        self.inner.peer.profile
    }

    /// Returns the name that the server states.
    #[must_use]
    pub fn server_name(&self) -> Option<&str> {
        self.inner.peer.info.as_ref().map(|info| info.name.as_str())
    }

    /// Returns whether the connection has ended or is closing. Every request fails from then on.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.inner.connection.state(), State::Disconnected | State::ShuttingDown)
    }

    /// Returns why the connection has ended, or `None` while it lives.
    #[must_use]
    pub fn close_cause(&self) -> Option<CloseCause> {
        self.inner.connection.close_cause()
    }

    /// Returns how the server's process has ended, if it is our child and has ended.
    #[must_use]
    pub fn exit(&self) -> Option<ProcessExit> {
        let told = self.close_cause().as_ref().and_then(error::link_end).and_then(|end| end.exit);
        #[cfg(all(unix, feature = "child"))]
        let told = told.or_else(|| self.inner.child.as_ref().and_then(ChildHandle::exit));
        told
    }

    /// Returns a handle to the server's process, if it is our child. After [`close`](Self::close) its report names the
    /// processes of the server that could not be ended.
    #[cfg(all(unix, feature = "child"))]
    #[must_use]
    pub fn child(&self) -> Option<ChildHandle> {
        self.inner.child.clone()
    }

    /// Returns the underlying connection, for requests that this type has no method for.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.inner.connection
    }

    /// Closes the connection, and waits until everything that its transport has started has ended. Pending requests
    /// fail.
    pub async fn close(&self) -> CloseCause {
        self.inner.connection.close();
        self.inner.connection.closed().await
    }

    /// Waits until the connection has ended for any reason, and everything that its transport has started has ended.
    /// Cancel-safe.
    pub async fn closed(&self) -> CloseCause {
        self.inner.connection.closed().await
    }

    /// Lists all tools. Pages are requested as they are needed.
    pub fn list_tools(&self) -> Pages<Tool> {
        Pages::new(self.clone())
    }

    /// Calls a tool. Await the call for its result, or read its progress first.
    ///
    /// `arguments` is anything that serde writes as an object: a struct, a map, `json!({..})`, or a [`Raw`], which is sent
    /// unchanged. `()` and `None` are no arguments. [`call_tool_with`](Self::call_tool_with) takes a `Raw` without a copy.
    ///
    /// A tool that fails returns a result with `is_error`, which
    /// [`decode`](mcpjoin_proto::types::CallToolResult::decode) and
    /// [`into_result`](mcpjoin_proto::types::CallToolResult::into_result) turn into an error.
    ///
    /// If the client accepts tasks ([`ClientBuilder::tasks`]) and the call becomes a task, this waits for the end of
    /// the task.
    ///
    /// ```no_run
    /// use mcpjoin::connection::CallEvent;
    /// use serde_json::json;
    ///
    /// # async fn example(client: mcpjoin::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let sum: i64 = client.call_tool("add", json!({ "a": 1, "b": 2 })).await?.decode()?;
    ///
    /// let mut call = client.call_tool("index", json!({ "path": "src" }));
    /// while let Some(event) = call.next_event().await {
    ///     if let CallEvent::Progress(progress) = event {
    ///         println!("{} of {:?}", progress.progress, progress.total);
    ///     }
    /// }
    /// println!("{sum} {}", call.await?.to_text());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ClientError`] when the call is awaited: there is no result, which does not mean that the tool has not run.
    /// [`ClientError::BadParams`] if `arguments` is not an object or cannot be encoded. Nothing is sent then.
    pub fn call_tool(&self, name: impl Into<String>, arguments: impl Serialize) -> ToolCall {
        let mut params = CallToolParams::new(name);
        match object(&Method::CallTool, encode_arguments(&Method::CallTool, &arguments)) {
            Ok(arguments) => {
                params.arguments = arguments;
                self.call_tool_with(params)
            }
            Err(error) => RoundTrip::refused(self.clone(), params, error),
        }
    }

    /// Calls a tool with all parameters that the specification has.
    pub fn call_tool_with(&self, params: CallToolParams) -> ToolCall {
        RoundTrip::new(self.clone(), params, true)
    }

    /// Lists all resources. Pages are requested as they are needed.
    pub fn list_resources(&self) -> Pages<Resource> {
        Pages::new(self.clone())
    }

    /// Lists all resource templates. Pages are requested as they are needed.
    pub fn list_resource_templates(&self) -> Pages<ResourceTemplate> {
        Pages::new(self.clone())
    }

    /// Reads a resource.
    pub fn read_resource(&self, uri: impl Into<String>) -> ResourceRead {
        RoundTrip::new(self.clone(), ReadResourceParams::new(uri), false)
    }

    /// Lists all prompts. Pages are requested as they are needed.
    pub fn list_prompts(&self) -> Pages<Prompt> {
        Pages::new(self.clone())
    }

    /// Gets a prompt with its arguments filled in.
    ///
    /// `arguments` is anything that serde writes as an object of strings: a struct, a map, `json!({..})`. `()` and `None`
    /// are no arguments.
    ///
    /// ```no_run
    /// use serde_json::json;
    ///
    /// # async fn example(client: mcpjoin::Client) -> Result<(), mcpjoin::client::ClientError> {
    /// let prompt = client.get_prompt("review", json!({ "language": "Rust" })).await?;
    /// println!("{}", prompt.to_text());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ClientError`] when the call is awaited; [`ClientError::BadParams`] if `arguments` is not an object of strings.
    pub fn get_prompt(&self, name: impl Into<String>, arguments: impl Serialize) -> PromptCall {
        let method = Method::GetPrompt;
        let mut params = GetPromptParams::new(name);
        let arguments = object(&method, encode_arguments(&method, &arguments)).and_then(|arguments| {
            let strings = arguments.map(|arguments| arguments.decode()).transpose();
            strings.map_err(|error| ClientError::BadParams { method, what: error.to_string() })
        });
        match arguments {
            Ok(arguments) => {
                params.arguments = arguments;
                RoundTrip::new(self.clone(), params, false)
            }
            Err(error) => RoundTrip::refused(self.clone(), params, error),
        }
    }

    /// Completes the value of an argument of a prompt, from what the user has typed so far.
    ///
    /// ```no_run
    /// # async fn example(client: mcpjoin::Client) -> Result<(), mcpjoin::client::ClientError> {
    /// let languages = client.complete_prompt("review", "language", "Ru").await?.completion.values;
    /// let files = client.complete_resource("file:///{folder}/{name}", "name", "REA").given("folder", "docs").await?;
    /// # drop((languages, files));
    /// # Ok(())
    /// # }
    /// ```
    pub fn complete_prompt(
        &self,
        prompt: impl Into<String>,
        argument: impl Into<String>,
        value: impl Into<String>,
    ) -> CompletionCall {
        let argument = CompleteArgument::new(argument, value);
        self.complete(CompleteParams::new(PromptReference::new(prompt), argument))
    }

    /// Completes the value of a variable of a resource template, as [`complete_prompt`](Self::complete_prompt) does.
    pub fn complete_resource(
        &self,
        uri_template: impl Into<String>,
        variable: impl Into<String>,
        value: impl Into<String>,
    ) -> CompletionCall {
        let variable = CompleteArgument::new(variable, value);
        self.complete(CompleteParams::new(ResourceTemplateReference::new(uri_template), variable))
    }

    /// Completes a value with all parameters that the specification has.
    pub fn complete(&self, params: CompleteParams) -> CompletionCall {
        RoundTrip::new(self.clone(), params, false)
    }

    /// Checks whether the server responds: with `ping`, or with `server/discover` in the modern era, which has no
    /// `ping`.
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

    /// Asks a modern server for its description: versions, capabilities, instructions.
    ///
    /// # Errors
    /// See [`ClientError`]. Always refused in the legacy era.
    pub async fn discover(&self) -> Result<DiscoverResult, ClientError> {
        self.request_cached(Method::Discover, None, true).await
    }

    /// Sets the minimum level of the log messages that the client wants. In the legacy era this is a request; in the
    /// modern era it is sent with each request from now on.
    ///
    /// # Errors
    /// See [`ClientError`]. Refused if the server does not declare logging.
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
        self.set_request_level(level);
        Ok(())
    }

    /// Sets the level that is sent with each request of the modern era.
    fn set_request_level(&self, level: LoggingLevel) {
        let place = LoggingLevel::ALL.iter().position(|known| *known == level);
        let place = place.and_then(|place| u8::try_from(place + 1).ok()).unwrap_or_default();
        self.inner.log_level.store(place, Ordering::Relaxed);
    }

    /// Replaces the roots, and notifies a server of the legacy era.
    ///
    /// # Errors
    /// Fails if roots were not declared ([`ClientBuilder::roots`]), or if the notification cannot be sent.
    pub fn set_roots(&self, roots: impl IntoIterator<Item = Root>) -> Result<(), ClientError> {
        if !self.inner.answers.replace_roots(roots.into_iter().collect()) {
            let refused = CallRefused::Undeclared { method: Method::ListRoots, capability: "roots" };
            return Err(CallError::Refused(refused).into());
        }
        if self.has(&Method::RootsListChanged) {
            let changed = Notification { method: Method::RootsListChanged, params: None };
            self.inner.connection.notify(changed)?;
        }
        Ok(())
    }

    /// Sends any request and returns the result unchanged, even if it asks for input or is a task.
    ///
    /// # Errors
    /// See [`ClientError`]. Refused if the revision has no such method, or if the server has not declared the
    /// capability.
    pub async fn send_request(&self, method: &str, params: Option<Raw>) -> Result<Raw, ClientError> {
        let method = Method::parse(method);
        let mut call = self.call(method.clone());
        call.params = params.map(Payload::from_raw);
        match self.inner.connection.call(call).await? {
            Reply::Complete(result) | Reply::Task(result) => Ok(result),
            Reply::Verbatim(result) => Ok(result.into_raw()),
            Reply::NeedInput(input) => {
                input.to_raw().map_err(|error| ClientError::BadResult { method, what: error.to_string() })
            }
        }
    }

    /// Returns whether the revision of the connection has a method.
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

    async fn request<P: ProtocolType + Sync, R: ProtocolType>(
        &self,
        method: Method,
        params: &P,
    ) -> Result<R, ClientError> {
        let call = self.call(method.clone()).with_params(encode(&method, params)?);
        let reply = self.inner.connection.call(call).await?;
        decode(&method, &complete(&method, reply)?)
    }

    async fn request_page<R: ProtocolType>(
        &self,
        method: Method,
        params: &PageParams,
    ) -> Result<R, ClientError> {
        // All pages of a list have the scope of its first page, which is not known here.
        let first = params.cursor.is_none();
        let outcome = self.request_cached(method.clone(), Some(encode(&method, params)?), first).await;
        if let Err(ClientError::Call(CallError::Remote(_))) = &outcome
            && !first
        {
            self.inner.cache.forget(&method);
        }
        outcome
    }

    /// Returns a cached result, or sends the request. `shared`: the result may be given to others.
    async fn request_cached<R: ProtocolType>(
        &self,
        method: Method,
        params: Option<Raw>,
        shared: bool,
    ) -> Result<R, ClientError> {
        let ticket = match self.look_up(&method, params.as_ref()) {
            Lookup::Hit(result) => return decode(&method, &result),
            Lookup::Miss(ticket) => ticket,
        };
        let mut call = self.call(method.clone());
        call.params = params.map(Payload::from_raw);
        let mut calling = self.inner.connection.call(call);
        let result = complete(&method, (&mut calling).await?)?;
        let value = decode(&method, &result)?;
        if let Some(ticket) = ticket {
            self.inner.cache.keep(ticket, &result, calling.arrived(), shared);
        }
        Ok(value)
    }

    /// Looks into the cache. Returns nothing if the connection has ended: everything fails then.
    fn look_up(&self, method: &Method, params: Option<&Raw>) -> Lookup {
        if !method.is_cacheable() || self.is_closed() {
            return Lookup::Miss(None);
        }
        self.inner.cache.look_up(method, params, self.uncached)
    }

    async fn request_without_params<R: ProtocolType>(&self, method: Method) -> Result<R, ClientError> {
        let reply = self.inner.connection.call(self.call(method.clone())).await?;
        decode(&method, &complete(&method, reply)?)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.server_name())
            .field("version", &self.profile().version)
            .field("state", &self.inner.connection.state())
            .finish_non_exhaustive()
    }
}

fn encode<P: ProtocolType>(method: &Method, params: &P) -> Result<Raw, ClientError> {
    params
        .to_raw()
        .map_err(|error| ClientError::BadParams { method: method.clone(), what: error.to_string() })
}

/// Encodes arguments of the caller's own type.
fn encode_arguments<T: Serialize>(method: &Method, arguments: &T) -> Result<Raw, ClientError> {
    Raw::from_value(arguments)
        .map_err(|error| ClientError::BadParams { method: method.clone(), what: error.to_string() })
}

/// Checks that arguments are an object, or `null`, which is none.
fn object(method: &Method, arguments: Result<Raw, ClientError>) -> Result<Option<Raw>, ClientError> {
    let arguments = arguments?;
    match arguments.kind() {
        Kind::Object => Ok(Some(arguments)),
        Kind::Null => Ok(None),
        _ => Err(ClientError::BadParams {
            method: method.clone(),
            what: "the arguments are not an object".into(),
        }),
    }
}

fn decode<R: ProtocolType>(method: &Method, result: &Raw) -> Result<R, ClientError> {
    R::read(result)
        .map_err(|error| ClientError::BadResult { method: method.clone(), what: error.to_string() })
}

/// Returns the result of a method that has no other kind of reply.
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
