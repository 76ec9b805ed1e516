//! Describes a server.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::sync::{Mutex, RwLock};
use mcpjoin_proto::session::{Limits, Reply, ServerRole};
use mcpjoin_proto::types::{
    CompleteParams, Implementation, Members, PromptsCapability, ProtocolType, Reference, Resource,
    ResourcesCapability, ServerCapabilities, TaskRequestsCapability, TasksCapability, Tool, ToolsCapability,
    task,
};
use mcpjoin_proto::{ErrorObject, Raw, Request, Version};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::catalogue::{self, Source};
use super::completion::Completions;
use super::layer::Layer;
use super::mount::Mounts;
use super::prompts::PromptEntry;
use super::resources::{ResourceEntry, TemplateEntry};
use super::schema::Inputs;
use super::schema_profile::{ChosenProfile, ProfileChoice, SchemaProfile};
use super::task::{METHODS, ReadContent, Replica, SharedTasks, TaskMethods, TaskStore, Tasks};
use super::tools::{ToolEntry, VisibleTools};
use super::{
    CompletionOutput, Context, Handlers, Lifetime, Next, Offer, PromptDescription, PromptOutput, ReadRequest,
    ResourceOutput, ResourceTemplateDescription, Server, Shared, ToolOutput, TypedTool, capability,
};
use crate::handler::{ErasedHandler, Handler, ResponseFuture};
#[cfg(feature = "otel")]
use crate::otel::{self, Instruments};
use crate::seal::{Keys, StateKey};

/// Default number of entries in a page of a list: more than most servers offer, because not every client reads a second
/// page.
const PAGE_SIZE: usize = 1000;

/// Why a server cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two entries of one list have the same name or URI.
    #[error("there are two of the name `{name}` in the list of {list}")]
    Duplicate {
        /// The list.
        list: &'static str,
        /// The name or URI.
        name: String,
    },
    /// The schema of a tool's arguments is not that of an object.
    #[error("the schema of the arguments of the tool `{tool}` is not that of an object")]
    ArgumentsAreNoObject {
        /// The name of the tool.
        tool: String,
    },
    /// The type of a prompt's arguments is no struct.
    #[error("the type of the arguments of the prompt `{prompt}` is not a struct")]
    PromptArgumentsAreNoStruct {
        /// The name of the prompt.
        prompt: String,
    },
    /// The type of a resource template's variables is no struct.
    #[error("the type of the variables of the URI template `{template}` is not a struct")]
    VariablesAreNoStruct {
        /// The template.
        template: String,
    },
    /// The type of a resource template's variables has a field that is no variable of the template.
    #[error("the URI template `{template}` has no variable `{variable}`")]
    UnknownVariable {
        /// The template.
        template: String,
        /// The name of the field.
        variable: String,
    },
    /// A URI template has other expressions than `{name}` and one `{+name}`.
    #[error("the URI template `{template}` cannot be matched: {problem}")]
    Template {
        /// The template.
        template: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A description cannot be encoded as JSON: a number in it is not finite.
    #[error("the description of `{name}` cannot be written: {problem}")]
    NotWritable {
        /// The name of the described entry.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A completion refers to something that is neither a prompt nor a resource template.
    #[error("there is a completion for something that is neither a prompt nor a resource template")]
    UnknownReference,
    /// Two of the server itself and the servers mounted on it offer the same name or URI.
    #[error("`{name}` appears twice in the list of {list}: as {first}, and as {second}")]
    Collision {
        /// The list.
        list: &'static str,
        /// The joined name, the URI or the URI template.
        name: String,
        /// The first of them: its own name and its server.
        first: String,
        /// The second.
        second: String,
    },
    /// A server with a [`handler`](ServerBuilder::handler) of its own cannot be mounted: its names are not known.
    #[error("a server with a handler of its own cannot be mounted: {mount}")]
    MountedHandler {
        /// The server.
        mount: String,
    },
    /// A server that is mounted, or that others are mounted on, offers more than the
    /// [catalogue](super::catalogue::Catalogue::replace) accepts.
    #[error("more than 10,000 entries or 4 MiB of names, or ten times that with all other servers: {mount}")]
    TooManyEntries {
        /// The server.
        mount: String,
    },
    /// The server cannot be a replica of others ([`ServerBuilder::replica`]).
    #[error("the server cannot be the replica `{name}`: {problem}")]
    Replica {
        /// The name of the replica.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The server cannot share its tasks ([`ServerBuilder::task_store`]).
    #[error("the server cannot use a task store: {problem}")]
    TaskStore {
        /// What is wrong.
        problem: String,
    },
    /// None of the configured protocol versions is known.
    #[error("the server speaks no known protocol version")]
    NoVersion,
}

/// Describes a [`Server`]. Created by [`Server::builder`]. The server declares exactly the capabilities for which
/// something is registered here.
#[must_use]
pub struct ServerBuilder(Box<Description>);

/// The description so far. Boxed, because it moves with each call.
struct Description {
    info: Implementation,
    instructions: Option<String>,
    versions: Vec<Version>,
    lenient: bool,
    limits: Limits,
    page_size: usize,
    inline_handlers: bool,
    logging: bool,
    subscriptions: bool,
    dynamic: [bool; 3],
    tasks: Option<&'static TaskMethods>,
    state_key: Option<StateKey>,
    accepted_keys: Vec<StateKey>,
    replica: Option<Replica>,
    task_store: Option<(Arc<dyn TaskStore>, ReadContent)>,
    offer: Offer,
    inputs: Inputs,
    completions: Completions,
    custom_handler: Option<(ServerCapabilities, Arc<dyn ErasedHandler>)>,
    layers: Vec<Box<Layer>>,
    #[cfg(feature = "otel")]
    telemetry: Option<Arc<Instruments>>,
    visible_tools: Option<Box<VisibleTools>>,
    mounts: Vec<(Source, Server)>,
    profile_choice: Option<Box<ProfileChoice>>,
    #[cfg(feature = "json-schema")]
    validates_arguments: bool,
    problem: Option<BuildError>,
}

impl ServerBuilder {
    pub(super) fn new(name: &str, version: &str) -> Self {
        Self(Box::new(Description {
            info: Implementation::new(name, version),
            instructions: None,
            versions: Version::ALL.into(),
            lenient: false,
            limits: Limits::default(),
            page_size: PAGE_SIZE,
            inline_handlers: false,
            logging: false,
            subscriptions: false,
            dynamic: [false; 3],
            tasks: None,
            state_key: None,
            accepted_keys: Vec::new(),
            replica: None,
            task_store: None,
            offer: Offer::default(),
            inputs: Inputs::default(),
            completions: Completions::default(),
            custom_handler: None,
            layers: Vec::new(),
            #[cfg(feature = "otel")]
            telemetry: None,
            visible_tools: None,
            mounts: Vec::new(),
            profile_choice: None,
            #[cfg(feature = "json-schema")]
            validates_arguments: false,
            problem: None,
        }))
    }

    /// Sets the display name of the server.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.0.info = self.0.info.with_title(title);
        self
    }

    /// Sets the instructions for the model: how the server is meant to be used.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.0.instructions = Some(instructions.into());
        self
    }

    /// Sets the protocol versions of the server. Default: all five.
    pub fn versions(mut self, versions: impl IntoIterator<Item = Version>) -> Self {
        self.0.versions = versions.into_iter().collect();
        self
    }

    /// Accepts clients that open a session without their capabilities and their description, which the specification
    /// requires.
    #[doc(hidden)]
    pub fn lenient_opening(mut self) -> Self {
        self.0.lenient = true;
        self
    }

    /// Sets the limits of each connection: sizes, numbers and timeouts.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.0.limits = limits;
        self
    }

    /// Sets the number of entries in a page of a list, at least 1. Default: 1,000.
    pub fn page_size(mut self, entries: usize) -> Self {
        self.0.page_size = entries.max(1);
        self
    }

    /// Runs all handlers in the task of their connection on every runtime. By default a runtime with several threads runs
    /// each handler in a task of its own.
    ///
    /// In place a call costs less, but a handler that computes or blocks for a while delays every other message of its
    /// connection. Each poll of a handler that takes more than 50 ms is logged as a warning in either case.
    /// [`TypedTool::inline`] is the same for one tool. A [`Handler`] ([`ServerBuilder::handler`]) always runs in place.
    pub fn inline_handlers(mut self) -> Self {
        self.0.inline_handlers = true;
        self
    }

    /// Declares that the server sends log messages ([`Context::log`]).
    pub fn logging(mut self) -> Self {
        self.0.logging = true;
        self
    }

    /// Declares that clients can subscribe to resources
    /// ([`ServerHandle::notify_resource_updated`](super::ServerHandle::notify_resource_updated)).
    pub fn subscriptions(mut self) -> Self {
        self.0.subscriptions = true;
        self
    }

    /// Declares tasks: handlers may continue as a task ([`Context::start_task`]). A tool with [`TypedTool::as_task`] or
    /// [`TypedTool::requires_tasks`] declares them as well.
    ///
    /// This declares the extension of 2026-07-28, and the tasks of the core of 2025-11-25. The latter are not declared
    /// over HTTP [without sessions](crate::transport::HttpOptions::stateless), where every client could list the tasks of
    /// all others.
    ///
    /// A server keeps at most 1,024 tasks with 256 MiB of parameters, heads of HTTP requests and results, and for one principal or session at
    /// most 128 tasks with 32 MiB. Each task is kept for at most an hour, and cancelled if it still runs then.
    ///
    /// A task belongs to the principal ([`HttpOptions::principal`](crate::transport::HttpOptions::principal)) of its
    /// request. Without a principal it belongs at 2025-11-25 to the session, and ends with it; in the modern era it
    /// belongs to everyone who knows its id, which has 128 random bits. A task lives in the process that started it:
    /// requests about it must reach the same replica, or replicas pass them on ([`ServerBuilder::replica`]), or share what
    /// they know of tasks in a store ([`ServerBuilder::task_store`]).
    pub fn tasks(mut self) -> Self {
        self.0.tasks = Some(&METHODS);
        self
    }

    /// Sets the key for what clients keep between two requests: the encrypted state of a request for input
    /// (`requestState` of 2026-07-28), and the signed ids of tasks. Default: a random key for each server.
    ///
    /// Replicas that share their clients ([`HttpOptions::stateless`](crate::transport::HttpOptions::stateless)) need the
    /// same key; otherwise one replica refuses the states of another with -32602. Their clocks may differ by up to a
    /// minute. Tasks stay with their replica, which the others reach by [`ServerBuilder::replica`] or
    /// [`ServerBuilder::task_store`].
    ///
    /// To replace a key, first let every replica accept the new one ([`ServerBuilder::accept_state_key`]), then let
    /// every replica use the new one and accept the old one. Remove the old one ten minutes later.
    ///
    /// ```
    /// use mcpjoin::server::{Server, StateKey};
    ///
    /// # let (secret, former) = ([1; 32], [2; 32]);
    /// let server = Server::builder("tools", "1.0.0")
    ///     .state_key(StateKey::from_bytes(secret))
    ///     .accept_state_key(StateKey::from_bytes(former))
    ///     .build()?;
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    pub fn state_key(mut self, key: StateKey) -> Self {
        self.0.state_key = Some(key);
        self
    }

    /// Adds a key whose states are accepted. It is not used for new states. May be called several times.
    pub fn accept_state_key(mut self, key: StateKey) -> Self {
        self.0.accepted_keys.push(key);
        self
    }

    /// Makes this server one of several replicas that pass requests about tasks to each other. `name` is the name of this
    /// one: 1 to 64 bytes, another one for each replica, the same after a restart or not. All need one
    /// [`state_key`](Self::state_key).
    ///
    /// The id of a task contains the name of the replica that keeps it. The id is signed, so clients cannot change the name,
    /// but they can read it. When another replica receives `tasks/get`, `tasks/update` or `tasks/cancel` of 2026-07-28, it
    /// calls `forward` with that name, the request and its context, and returns the result unchanged. `forward` sends the
    /// request to that replica itself and not to the load balancer. A replica never forwards requests about its own tasks: one
    /// that it does not have, or has removed, is unknown. Tasks of the core of 2025-11-25 are not forwarded.
    ///
    /// `forward` checks nothing about the owner of the task; the replica that keeps it does. If requests have principals
    /// ([`tasks`](Self::tasks)), `forward` therefore sends the credentials of the caller (`cx.http()`), with a client for
    /// this request; otherwise the task is unknown to that replica. Without principals, one client for each replica serves
    /// everyone. The client declares tasks (`ClientBuilder::tasks`). The layers of both replicas see the request. When the
    /// caller's request is cancelled, the future of `forward` is dropped.
    ///
    /// Notifications about a task (`subscriptions/listen` with `taskIds`) come only from the replica that keeps it, so a
    /// client that listens elsewhere receives none, and polls as the specification requires. mcpjoin's client polls in any
    /// case. A [mounted](Self::mount) server has its own tasks and key, and so its own `replica`.
    ///
    /// ```
    /// # #[cfg(all(feature = "http-client", feature = "http-server"))] {
    /// use std::collections::HashMap;
    /// use std::sync::Arc;
    ///
    /// use mcpjoin::proto::{Era, ErrorObject, Payload, Raw, Request};
    /// use mcpjoin::proto::session::EraChoice;
    /// use mcpjoin::server::{Context, Server, StateKey};
    /// use mcpjoin::{Client, Link};
    ///
    /// /// Sends the request to the replica at this URL, with the credentials of the caller.
    /// async fn send(url: &str, request: Request, cx: &Context) -> Result<Raw, ErrorObject> {
    ///     let failed = |error: &dyn std::fmt::Display| {
    ///         ErrorObject::internal(format!("the replica that keeps this task did not answer: {error}"))
    ///     };
    ///     let mut link = Link::http(url);
    ///     let token = cx.header("authorization");
    ///     if let Some(token) = token {
    ///         link = link.header("authorization", token);
    ///     }
    ///     let link = link.build().map_err(|error| failed(&error))?;
    ///     let client = Client::builder("replica", "1.0.0").era(EraChoice::Only(Era::Modern)).tasks(true);
    ///     let client = client.connect(link).await.map_err(|error| failed(&error))?;
    ///     let params = request.params.map(Payload::into_raw);
    ///     let result = client.send_request(request.method.as_str(), params).await;
    ///     result.map_err(|error| error.remote().cloned().unwrap_or_else(|| failed(&error)))
    /// }
    ///
    /// # let secret = [1; 32];
    /// let urls = Arc::new(HashMap::from([("a", "http://10.0.0.1/mcp"), ("b", "http://10.0.0.2/mcp")]));
    /// let server = Server::builder("tools", "1.0.0")
    ///     .tasks()
    ///     .state_key(StateKey::from_bytes(secret))
    ///     .replica("a", move |owner: String, request: Request, cx: Context| {
    ///         let urls = urls.clone();
    ///         async move {
    ///             let url = urls.get(&*owner).ok_or_else(|| {
    ///                 ErrorObject::internal(format!("there is no replica `{owner}`, which keeps this task"))
    ///             })?;
    ///             send(url, request, &cx).await
    ///         }
    ///     })
    ///     .build()?;
    /// # }
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`build`](Self::build) fails with [`BuildError::Replica`] if the name is empty or too long, or without a `state_key`.
    pub fn replica<F, Fut>(mut self, name: impl Into<String>, forward: F) -> Self
    where
        F: Fn(String, Request, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Raw, ErrorObject>> + Send + 'static,
    {
        self.0.replica = Some(Replica::new(name.into(), forward));
        self
    }

    /// Shares the tasks of this server with the other processes that use the same store: each of them answers requests about a
    /// task, whichever runs it. All need one [`state_key`](Self::state_key) and the same name. The crate `mcpjoin-redis` has a store
    /// for Redis and Valkey.
    ///
    /// - A task is followed, listed, answered and cancelled in any process. What another process has to tell the one that runs the
    ///   task takes half a second at most.
    /// - A result is kept for the time of the task, also after the end of its process.
    /// - A task whose process dies fails within 5 s, with an error that says so. No process runs it again.
    /// - While the store is not available, a new task is refused, and requests about tasks fail with an error. A task that ends
    ///   meanwhile keeps its result until the store is back. Other requests do not use the store.
    ///
    /// This is for tasks of a principal, and for those of 2026-07-28 without one. A task of 2025-11-25 without a principal belongs
    /// to its session, and is known to the process of the session. Progress, log messages and notifications about a task come from
    /// the process that runs it. [`replica`](Self::replica) has no effect beside a store. A [mounted](Self::mount) server has
    /// a store of its own.
    ///
    /// ```
    /// use mcpjoin::server::{BuildError, NoArguments, Server, StateKey, TaskStore, tool};
    ///
    /// fn server(secret: [u8; 32], store: impl TaskStore) -> Result<Server, BuildError> {
    ///     Server::builder("reports", "1.0.0")
    ///         .state_key(StateKey::from_bytes(secret))
    ///         .task_store(store)
    ///         .tool(tool("report").as_task(), |_: NoArguments, _| async { "the report" })
    ///         .build()
    /// }
    /// ```
    ///
    /// # Errors
    /// [`build`](Self::build) fails with [`BuildError::TaskStore`] without a `state_key`.
    pub fn task_store(mut self, store: impl TaskStore) -> Self {
        self.0.task_store = Some((Arc::new(store), super::task::content));
        self
    }

    /// Declares that the tools may change while the server runs, through [`Server::handle`]. The server then has a list
    /// of tools even if it is empty.
    pub fn dynamic_tools(mut self) -> Self {
        self.0.dynamic[0] = true;
        self
    }

    /// As [`dynamic_tools`](Self::dynamic_tools), for resources and resource templates.
    pub fn dynamic_resources(mut self) -> Self {
        self.0.dynamic[1] = true;
        self
    }

    /// As [`dynamic_tools`](Self::dynamic_tools), for prompts.
    pub fn dynamic_prompts(mut self) -> Self {
        self.0.dynamic[2] = true;
        self
    }

    /// Answers all requests of clients with `handler`, for a server whose lists come from somewhere else.
    /// `capabilities` is what the server declares. Everything else that is registered here is ignored.
    ///
    /// The server still opens sessions, agrees on a version, answers `ping`, keeps subscriptions and log levels, and
    /// adds to each result what the revision requires. Report changed lists through
    /// [`ServerHandle`](super::ServerHandle).
    pub fn handler(mut self, capabilities: ServerCapabilities, handler: impl Handler) -> Self {
        self.0.custom_handler = Some((capabilities, Arc::new(Arc::new(handler))));
        self
    }

    /// Adds a layer: a function around every request that reaches a handler, also around those of a
    /// [`handler`](Self::handler) of your own. The first layer is the outermost.
    ///
    /// A layer may measure, change the request, answer it without running the rest, or change the result. It sees the
    /// method and the parameters of the [`Request`], and has the [`Context`] of the handler. It runs in the task of the
    /// connection, so it must not block. What the session answers
    /// itself passes no layer: `initialize`, `server/discover`, `ping`, `logging/setLevel` and `subscriptions/listen`.
    ///
    /// When the request is cancelled, the layer is dropped at its current await, together with the handler. A panic fails
    /// its request only. At 2026-07-28 a request that asks for input passes the layers once for each round. Leave
    /// questions to the handler: there, the input arrives with the repeated request, where the handler reads it as its own.
    ///
    /// ```
    /// use mcpjoin::proto::{ErrorObject, Method};
    /// use mcpjoin::server::Server;
    ///
    /// let server = Server::builder("tools", "1.0.0")
    ///     .layer(|request, cx, next| async move {
    ///         if request.method == Method::CallTool && !cx.has_scope("call") {
    ///             return Err(ErrorObject::invalid_request("calls need the scope `call`"));
    ///         }
    ///         let (method, start) = (request.method.clone(), tokio::time::Instant::now());
    ///         let response = next.run(request).await;
    ///         println!("{method} took {:?}, and is {}", start.elapsed(), if response.is_ok() { "fine" } else { "an error" });
    ///         response
    ///     })
    ///     .build()?;
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    pub fn layer<F, Fut>(mut self, layer: F) -> Self
    where
        F: Fn(Request, Context, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply, ErrorObject>> + Send + 'static,
    {
        let layer = move |request, cx, next| -> ResponseFuture { Box::pin(layer(request, cx, next)) };
        self.0.layers.push(Box::new(layer));
        self
    }

    /// Records a span and a duration for every request that reaches a handler, and for those that a handler sends to a legacy
    /// client, by the conventions of OpenTelemetry. Feature `otel`.
    ///
    /// It is a [`layer`](Self::layer), and passes what they pass: those that are registered before it are outside the span.
    /// Handlers run inside the span, also in tasks of their own, so what they log belongs to it. The work of a call that
    /// has become a task continues after its span. [`guide::opentelemetry`](crate::guide::opentelemetry) says what a program
    /// installs, and lists the attributes.
    ///
    /// The parent of a span is the context in the `_meta` of the request, and the context of the transport is linked to: over
    /// HTTP an `opentelemetry::Context` in the extensions of the request, or its `traceparent` header; elsewhere the current
    /// span. Without a context in `_meta`, it is the parent. Clients choose the ids of their traces, and whether they are sampled, as far as
    /// the program's sampler lets them.
    ///
    /// ```
    /// use mcpjoin::server::Server;
    ///
    /// let server = Server::builder("tools", "1.0.0").telemetry().build()?;
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    #[cfg(feature = "otel")]
    pub fn telemetry(mut self) -> Self {
        let instruments = Arc::<Instruments>::default();
        self.0.telemetry = Some(instruments.clone());
        self.layer(move |request, cx, next| {
            let connection = (*cx).clone();
            otel::receive(instruments.clone(), request, connection, |request| next.run(request))
        })
    }

    /// Shows each client only the tools for which `is_visible` returns true. A call of any other tool fails as the call of a
    /// tool that does not exist.
    ///
    /// The function is called for each tool when tools are listed, and once or twice for a call. It must not block. The
    /// [`Tool`] is as it was registered: the schema that is derived from its arguments is not part of it. Clients with
    /// another list are not notified: use
    /// [`notify_tools_changed`](super::ServerHandle::notify_tools_changed) if what one client sees changes. It has no
    /// effect on a server with a [`handler`](Self::handler) of its own. With a second call, the new function replaces the
    /// first.
    ///
    /// ```
    /// use mcpjoin::server::{NoArguments, Server, tool};
    ///
    /// let server = Server::builder("notes", "1.0.0")
    ///     .tool(tool("count").read_only(), |_: NoArguments, _| async { "three notes" })
    ///     .tool(tool("clear"), |_: NoArguments, _| async { "cleared" })
    ///     .visible_tools(|cx, tool| tool.name != "clear" || cx.has_scope("notes:write"))
    ///     .build()?;
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    pub fn visible_tools(
        mut self,
        is_visible: impl Fn(&Context, &Tool) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.0.visible_tools = Some(Box::new(is_visible));
        self
    }

    /// Makes `server` a part of this server. Its tools and prompts are offered with the prefix, as `PREFIX__name`;
    /// its resources and templates keep their URIs. The prefix may be empty, and a [`Source`] sets another
    /// separator. A joined name has at most 64 characters ([`Source::joined`]).
    ///
    /// Everything that the mounted server does, it does for the clients of this one: progress, log messages,
    /// requests for input, tasks, subscriptions to its resources, changes by its
    /// [`ServerHandle`](super::ServerHandle). Its layers and its [`visible_tools`](Self::visible_tools) apply
    /// within those of this server; it sees its own names. Its handlers run in place if either server says so.
    /// There is no connection in between, and each server can still be served on its own and mounted elsewhere,
    /// also if others are mounted on it.
    ///
    /// This server alone decides on versions, limits of connections, the size of pages, and who its clients are.
    /// It declares the capabilities of all, and has the instructions of all under headings, at most 8 KiB
    /// ([`catalogue::join_instructions`]). Lists contain its own entries first, then those of the mounted servers
    /// in their order. A list that a layer of a mounted server refuses is left out, and so is what a layer adds to
    /// a list.
    ///
    /// The mounted server seals `requestState` and signs the ids of tasks with its own key, so that a client
    /// cannot use the state of one server at another. Replicas therefore set [`state_key`](Self::state_key) on
    /// each mounted server, to a key of its own, and its own [`replica`](Self::replica) if it has tasks. The limits
    /// of tasks count for each server.
    ///
    /// If a name or URI is offered twice, [`build`](Self::build) fails. If a change later adds such an entry, only
    /// that of the first server is offered, and a warning is logged.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::server::{NoArguments, Server, tool};
    /// use mcpjoin::{Client, Link};
    ///
    /// let notes = Server::builder("notes", "1.0.0")
    ///     .tool(tool("count"), |_: NoArguments, _| async { "three notes" })
    ///     .build()?;
    /// let server = Server::builder("office", "1.0.0").mount("notes", notes).build()?;
    ///
    /// let (ours, theirs) = Link::memory();
    /// server.connect(theirs);
    /// let client = Client::builder("example", "1.0.0").connect(ours).await?;
    /// let result = client.call_tool("notes__count", ()).await?;
    /// assert_eq!(result.content[0].as_text(), Some("three notes"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`build`](Self::build): [`BuildError::Collision`], [`BuildError::MountedHandler`] and
    /// [`BuildError::TooManyEntries`].
    pub fn mount(mut self, prefix: impl Into<Source>, server: Server) -> Self {
        self.0.mounts.push((prefix.into(), server));
        self
    }

    /// Chooses how the schemas in the list of tools are written for each client, because models and their clients differ in which
    /// part of JSON Schema they take. Schemas of arguments and of results follow it, in all revisions.
    ///
    /// The function is called once for each page of the list, with the name and version by which the client describes itself:
    /// `None` if it does not. It must be fast, and must not block. Each list is written once for each profile that is in use.
    /// Tools accept the same arguments as without it. It has no effect on a server with a [`handler`](Self::handler) of its
    /// own, and none on the tools of a mounted server, which chooses for itself. With a second call, the new function replaces the first.
    ///
    /// ```
    /// use mcpjoin::server::{SchemaProfile, Server};
    ///
    /// let server = Server::builder("tools", "1.0.0")
    ///     .schema_profile(|client| match client {
    ///         Some(client) if client.name.starts_with("gemini") => SchemaProfile::simplest(),
    ///         _ => SchemaProfile::new(),
    ///     })
    ///     .build()?;
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    pub fn schema_profile(
        mut self,
        choose: impl Fn(Option<&Implementation>) -> SchemaProfile + Send + Sync + 'static,
    ) -> Self {
        self.0.profile_choice = Some(Box::new(move |client| ChosenProfile::new(choose(client))));
        self
    }

    /// Validates the arguments of all tools against their schemas, also of [raw tools](Self::raw_tool) and of those that are
    /// added later. [`TypedTool::validate_arguments`] does so for one tool.
    ///
    /// Arguments that are not valid never reach the handler. The caller gets a result with `isError`, for the model to read: the
    /// place, the rule and the value of up to eight violations. The schema is that of the tool, whatever
    /// [`schema_profile`](Self::schema_profile) shows; in the draft that it names, by default 2020-12. `format` is an
    /// annotation and not validated. Patterns are matched in linear time.
    ///
    /// Arguments whose validation would be more than about 100,000 applications of a schema are refused, also with `isError`. A
    /// schema that cannot be compiled (a reference to another document, a pattern with look-around) makes each call of its tool
    /// fail with -32603.
    #[cfg(feature = "json-schema")]
    pub fn validate_arguments(mut self) -> Self {
        self.0.validates_arguments = true;
        self
    }

    fn take<T>(&mut self, made: Result<T, BuildError>) -> Option<T> {
        made.map_err(|problem| self.0.problem.get_or_insert(problem)).ok()
    }

    fn fresh(&mut self, is_new: bool, list: &'static str, name: &str) {
        if !is_new {
            self.0.problem.get_or_insert_with(|| BuildError::Duplicate { list, name: name.to_owned() });
        }
    }

    fn with_tool(mut self, made: Result<ToolEntry, BuildError>) -> Self {
        if let Some(entry) = self.take(made) {
            self.0.tasks = self.0.tasks.or(entry.mode.tasks.methods);
            let name = entry.name().to_owned();
            let is_new = self.0.offer.tools.insert(&name, entry);
            self.fresh(is_new, "tools", &name);
        }
        self
    }

    /// Adds a tool. The first parameter of the handler defines its arguments, the output of the handler its result.
    ///
    /// ```
    /// use mcpjoin::server::{Json, Server, tool};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Add { a: i64, b: i64 }
    ///
    /// let server = Server::builder("calculator", "1.0.0")
    ///     .tool(tool("add").description("Adds two numbers"), |n: Add, _| async move { Json(n.a + n.b) })
    ///     .build()?;
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    pub fn tool<A, F, Fut>(mut self, tool: TypedTool<A>, f: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + 'static,
        F: Fn(A, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ToolOutput> + Send + 'static,
    {
        let made = ToolEntry::typed(tool, &mut self.0.inputs, f);
        self.with_tool(made)
    }

    /// Adds a tool whose arguments stay JSON. They are an object, which is checked against the schema only if the server
    /// validates arguments (`validate_arguments`, feature `json-schema`).
    pub fn raw_tool<F, Fut>(self, tool: Tool, f: F) -> Self
    where
        F: Fn(Raw, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ToolOutput> + Send + 'static,
    {
        self.with_tool(ToolEntry::new(tool, f))
    }

    /// Adds a resource with a fixed URI, which has priority over every template that matches it.
    pub fn resource<F, Fut>(mut self, resource: Resource, f: F) -> Self
    where
        F: Fn(ReadRequest, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ResourceOutput> + Send + 'static,
    {
        if let Some(entry) = self.take(ResourceEntry::new(&resource, f)) {
            let is_new = self.0.offer.resources.insert(&resource.uri, entry);
            self.fresh(is_new, "resources", &resource.uri);
        }
        self
    }

    /// Adds resources whose URIs match a template of [RFC 6570](https://www.rfc-editor.org/rfc/rfc6570#section-1.2):
    /// `{name}` stands for one or more characters except `/`, `?` and `#`. One expression of a template may be `{+name}`,
    /// which stands for one or more characters of any kind. Of several templates that match a URI, the one with the most
    /// literal text is used.
    ///
    /// The template is [`resource_template`](super::resource_template) for variables of a Rust type, or a
    /// [`ResourceTemplate`](mcpjoin_proto::types::ResourceTemplate) for a handler that receives a
    /// [`ReadRequest`].
    pub fn resource_template<T, F, Fut>(mut self, template: T, f: F) -> Self
    where
        T: ResourceTemplateDescription,
        F: Fn(T::Input, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ResourceOutput> + Send + 'static,
    {
        if let Some(entry) = self.take(TemplateEntry::new(template, f)) {
            let uri_template = entry.uri_template().to_owned();
            let is_new = self.0.offer.templates.insert(&uri_template, entry);
            self.fresh(is_new, "resource templates", &uri_template);
        }
        self
    }

    /// Adds a prompt. Its required arguments are present when the handler is called.
    ///
    /// The prompt is [`prompt`](fn@super::prompt) for arguments of a Rust type, or a
    /// [`Prompt`](mcpjoin_proto::types::Prompt) for a handler that receives
    /// [`PromptArguments`](super::PromptArguments).
    pub fn prompt<P, F, Fut>(mut self, prompt: P, f: F) -> Self
    where
        P: PromptDescription,
        F: Fn(P::Arguments, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: PromptOutput> + Send + 'static,
    {
        if let Some(entry) = self.take(PromptEntry::new(prompt, f)) {
            let name = entry.name().to_owned();
            let is_new = self.0.offer.prompts.insert(&name, entry);
            self.fresh(is_new, "prompts", &name);
        }
        self
    }

    /// Adds what the methods of `handlers` serve: a type with the attribute macro `handlers` (feature `macros`), or an
    /// [`Arc`] of one. May be called several times, and beside all other functions of the builder.
    ///
    /// ```
    /// # #[cfg(feature = "macros")] {
    /// use mcpjoin::server::{Json, Server, handlers};
    ///
    /// struct Calculator;
    ///
    /// #[handlers]
    /// impl Calculator {
    ///     /// Adds two numbers.
    ///     #[tool(read_only)]
    ///     async fn add(&self, a: i64, b: i64) -> Json<i64> {
    ///         Json(a + b)
    ///     }
    /// }
    ///
    /// let server = Server::builder("calculator", "1.0.0").handlers(Calculator).build()?;
    /// # }
    /// # Ok::<(), mcpjoin::server::BuildError>(())
    /// ```
    pub fn handlers(self, handlers: impl Handlers) -> Self {
        Arc::new(handlers).register(self)
    }

    /// Adds completions for the arguments of a prompt or the variables of a resource template.
    pub fn completion<F, Fut>(mut self, of: impl Into<Reference>, f: F) -> Self
    where
        F: Fn(CompleteParams, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: CompletionOutput> + Send + 'static,
    {
        let reference = of.into();
        let name = match &reference {
            Reference::Prompt(prompt) => prompt.name.clone(),
            Reference::Resource(template) => template.uri.clone(),
            _ => {
                self.0.problem.get_or_insert(BuildError::UnknownReference);
                return self;
            }
        };
        let is_new = self.0.completions.insert(&reference, f);
        self.fresh(is_new, "completions", &name);
        self
    }

    /// Builds the server.
    ///
    /// # Errors
    /// [`BuildError`]: the first problem of the description.
    pub fn build(self) -> Result<Server, BuildError> {
        if let Some(problem) = self.0.problem {
            return Err(problem);
        }
        if !self.0.versions.iter().any(|version| version.era().is_some()) {
            return Err(BuildError::NoVersion);
        }
        if let Some(replica) = &self.0.replica {
            replica.check(self.0.state_key.is_some())?;
        }
        let shared_tasks = match &self.0.task_store {
            None => None,
            Some(_) if self.0.state_key.is_none() => {
                let problem = "processes need a common key: `state_key`".to_owned();
                return Err(BuildError::TaskStore { problem });
            }
            Some((store, read)) => Some(
                SharedTasks::new(store.clone(), *read)
                    .map_err(|error| BuildError::TaskStore { problem: error.message })?,
            ),
        };
        let registered = self.capabilities();
        let mut described = *self.0;
        let (capabilities, custom_handler) = match described.custom_handler {
            Some((declared, handler)) => {
                described.mounts.clear();
                (declared, Some(handler))
            }
            None => (registered, None),
        };
        let mounts = match &*described.mounts {
            [] => None,
            mounted => Some(Arc::new(Mounts::new(&described.offer, mounted)?)),
        };
        let of_mounted = || described.mounts.iter().find_map(|(_, server)| server.0.task_methods);
        let task_methods = described.tasks.or_else(of_mounted);
        let mut role = ServerRole::new(described.info, capabilities);
        role.instructions = described.instructions;
        if mounts.is_some() {
            let own = role.instructions.as_deref().map(|text| ("", text));
            let mounted = described.mounts.iter().filter_map(|(source, server)| {
                let role = &server.0.role;
                let heading = if source.prefix().is_empty() { &*role.info.name } else { source.prefix() };
                Some((heading, role.instructions.as_deref()?))
            });
            role.instructions = catalogue::join_instructions(own.into_iter().chain(mounted));
        }
        role.versions = described.versions;
        role.lenient_opening = described.lenient;
        let shared = Arc::new(Shared {
            role: role.into(),
            limits: Arc::new(described.limits),
            page_size: described.page_size,
            inline_handlers: described.inline_handlers,
            offer: RwLock::new(described.offer),
            changes: AtomicU64::new(0),
            mounts,
            mounted_on: Mutex::default(),
            custom_handler,
            layers: described.layers,
            #[cfg(feature = "otel")]
            telemetry: described.telemetry,
            visible_tools: described.visible_tools,
            profile_choice: described.profile_choice,
            #[cfg(feature = "json-schema")]
            validates_arguments: described.validates_arguments,
            completions: described.completions,
            task_methods,
            tasks: Tasks::default(),
            replica: described.replica,
            shared_tasks,
            connections: Mutex::default(),
            known_peers: Mutex::default(),
            keys: Keys::new(described.state_key, described.accepted_keys),
        });
        let of_mounted = described.mounts.into_iter().map(|(_, server)| {
            let mut mounted_on = server.0.mounted_on.lock();
            mounted_on.retain(|other| other.strong_count() > 0);
            if !mounted_on.iter().any(|other| other.as_ptr() == Arc::as_ptr(&shared)) {
                mounted_on.push(Arc::downgrade(&shared));
            }
            drop(mounted_on);
            server.1
        });
        let lifetime = Lifetime(Arc::downgrade(&shared), of_mounted.collect());
        Ok(Server(shared, Arc::new(lifetime)))
    }

    /// Returns the capabilities of exactly what was registered and mounted.
    fn capabilities(&self) -> ServerCapabilities {
        let [tools, resources, prompts] = self.0.dynamic;
        let offer = &self.0.offer;
        let mut capabilities = ServerCapabilities::default();
        if tools || !offer.tools.is_empty() {
            let mut declared = ToolsCapability::default();
            declared.list_changed = tools.then_some(true);
            capabilities = capabilities.with_tools(declared);
        }
        if resources || self.0.subscriptions || !offer.resources.is_empty() || !offer.templates.is_empty() {
            let mut declared = ResourcesCapability::default();
            declared.list_changed = resources.then_some(true);
            declared.subscribe = self.0.subscriptions.then_some(true);
            capabilities = capabilities.with_resources(declared);
        }
        if prompts || !offer.prompts.is_empty() {
            let mut declared = PromptsCapability::default();
            declared.list_changed = prompts.then_some(true);
            capabilities = capabilities.with_prompts(declared);
        }
        if !self.0.completions.is_empty() {
            capabilities = capabilities.with_completions(Raw::empty_object());
        }
        if self.0.logging {
            capabilities = capabilities.with_logging(Raw::empty_object());
        }
        if self.0.tasks.is_some() {
            // The session declares the one that the revision has.
            let extensions = [(task::EXTENSION, Raw::empty_object())];
            let calls = Members::new().with("call", Raw::empty_object()).to_raw();
            let calls = calls.unwrap_or_else(|_| Raw::empty_object());
            let core = TasksCapability::default()
                .with_list(Raw::empty_object())
                .with_cancel(Raw::empty_object())
                .with_requests(TaskRequestsCapability::default().with_tools(calls));
            capabilities = capabilities.with_extensions(extensions).with_tasks(core);
        }
        for (_, server) in &self.0.mounts {
            capability::unite(&mut capabilities, &server.0.role.capabilities);
        }
        capabilities
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder").field("info", &self.0.info).finish_non_exhaustive()
    }
}
