//! Describes a server.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use mcpjoin_proto::session::{Limits, Reply, ServerRole};
use mcpjoin_proto::types::{
    CompleteParams, Implementation, PromptsCapability, Reference, Resource, ResourcesCapability,
    ServerCapabilities, TaskRequestsCapability, TasksCapability, Tool, ToolsCapability, task,
};
use mcpjoin_proto::{ErrorObject, Raw, Request, Version};
use parking_lot::{Mutex, RwLock};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::completion::Completions;
use super::layer::Layer;
use super::prompts::PromptEntry;
use super::resources::{ResourceEntry, TemplateEntry};
use super::schema::Inputs;
use super::seal::{Keys, StateKey};
use super::task::Tasks;
use super::tools::{TaskMode, ToolEntry, VisibleTools};
use super::{
    CompletionOutput, Context, Handlers, Lifetime, Next, Offer, PromptDescription, PromptOutput, ReadRequest,
    ResourceOutput, ResourceTemplateDescription, Server, Shared, ToolOutput, TypedTool,
};
use crate::handler::{ErasedHandler, Handler, ResponseFuture};
#[cfg(feature = "otel")]
use crate::otel::{self, Instruments};

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
    #[error("the type of the arguments of the prompt `{prompt}` is no struct")]
    PromptArgumentsAreNoStruct {
        /// The name of the prompt.
        prompt: String,
    },
    /// The type of a resource template's variables is no struct.
    #[error("the type of the variables of the URI template `{template}` is no struct")]
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
    tasks: bool,
    state_key: Option<StateKey>,
    accepted_keys: Vec<StateKey>,
    offer: Offer,
    inputs: Inputs,
    completions: Completions,
    custom_handler: Option<(ServerCapabilities, Arc<dyn ErasedHandler>)>,
    layers: Vec<Box<Layer>>,
    #[cfg(feature = "otel")]
    telemetry: Option<Arc<Instruments>>,
    visible_tools: Option<Box<VisibleTools>>,
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
            tasks: false,
            state_key: None,
            accepted_keys: Vec::new(),
            offer: Offer::default(),
            inputs: Inputs::default(),
            completions: Completions::default(),
            custom_handler: None,
            layers: Vec::new(),
            #[cfg(feature = "otel")]
            telemetry: None,
            visible_tools: None,
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
    /// A server keeps at most 1,024 tasks with 256 MiB of parameters and results, and for one principal or session at
    /// most 128 tasks with 32 MiB. Each task is kept for at most an hour, and cancelled if it still runs then.
    ///
    /// A task belongs to the principal ([`HttpOptions::principal`](crate::transport::HttpOptions::principal)) of its
    /// request. Without a principal it belongs at 2025-11-25 to the session, and ends with it; in the modern era it
    /// belongs to everyone who knows its id, which has 128 random bits. A task lives in the process that started it, so
    /// requests about it must reach the same replica.
    pub fn tasks(mut self) -> Self {
        self.0.tasks = true;
        self
    }

    /// Sets the key for what clients keep between two requests: the encrypted state of a request for input
    /// (`requestState` of 2026-07-28), and the signed ids of tasks. Default: a random key for each server.
    ///
    /// Replicas that share their clients ([`HttpOptions::stateless`](crate::transport::HttpOptions::stateless)) need the
    /// same key; otherwise one replica refuses the states of another with -32602. Their clocks may differ by up to a
    /// minute. Tasks stay with their replica ([`ServerBuilder::tasks`]).
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
            self.0.tasks |= entry.tasks.any();
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

    /// Adds a tool whose arguments stay JSON. They are an object that was not checked against the schema.
    pub fn raw_tool<F, Fut>(self, tool: Tool, f: F) -> Self
    where
        F: Fn(Raw, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: ToolOutput> + Send + 'static,
    {
        self.with_tool(ToolEntry::new(tool, TaskMode::default(), f))
    }

    /// Adds a resource.
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
    /// which stands for one or more characters of any kind.
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
        let registered = self.capabilities();
        let described = *self.0;
        let (capabilities, custom_handler) = match described.custom_handler {
            Some((declared, handler)) => (declared, Some(handler)),
            None => (registered, None),
        };
        let mut role = ServerRole::new(described.info, capabilities);
        role.instructions = described.instructions;
        role.versions = described.versions;
        role.lenient_opening = described.lenient;
        let shared = Arc::new(Shared {
            role: role.into(),
            limits: Arc::new(described.limits),
            page_size: described.page_size,
            inline_handlers: described.inline_handlers,
            offer: RwLock::new(described.offer),
            custom_handler,
            layers: described.layers,
            #[cfg(feature = "otel")]
            telemetry: described.telemetry,
            visible_tools: described.visible_tools,
            completions: described.completions,
            tasks: Tasks::default(),
            connections: Mutex::default(),
            keys: Keys::new(described.state_key, described.accepted_keys),
        });
        let lifetime = Lifetime::of(&shared);
        Ok(Server(shared, lifetime))
    }

    /// Returns the capabilities of exactly what was registered.
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
        if self.0.tasks {
            // The session declares the one that the revision has.
            let extensions = BTreeMap::from([(task::EXTENSION.to_owned(), Raw::empty_object())]);
            let calls = Raw::from_value(&BTreeMap::from([("call", Raw::empty_object())]));
            let calls = calls.unwrap_or_else(|_| Raw::empty_object());
            let core = TasksCapability::default()
                .with_list(Raw::empty_object())
                .with_cancel(Raw::empty_object())
                .with_requests(TaskRequestsCapability::default().with_tools(calls));
            capabilities = capabilities.with_extensions(extensions).with_tasks(core);
        }
        capabilities
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder").field("info", &self.0.info).finish_non_exhaustive()
    }
}
