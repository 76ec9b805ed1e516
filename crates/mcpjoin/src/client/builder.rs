//! The parts of a client, and connecting it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use mcpjoin_proto::session::{Call, CallError, ClientRole, EraChoice, Limits, Presents, Reply, Violation};
use mcpjoin_proto::types::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitFormParams, ElicitParams,
    ElicitResult, Implementation, LogMessageParams, ProtocolType, ResourceUpdatedParams, Root,
};
use mcpjoin_proto::{ErrorObject, Method, Notification, Profile, Raw, Version};

use super::connection_cache::{CacheConfig, CacheSource};
use super::input::{self, InputHandlers, OnNotification};
use super::notifications::NotificationHandlers;
use super::opening::Plan;
use super::{Cache, Client, ConnectError, Next};
use crate::connection::{Layer, Layers, OnViolation, OutcomeFuture};
use crate::handler::{ErasedHandler, Handler};
#[cfg(feature = "otel")]
use crate::otel::{self, Instruments};
use crate::transport::Link;

/// Maximum number of pages of one list.
const MAX_PAGES: usize = 1000;

/// Configures a [`Client`]. Created by [`Client::builder`].
///
/// The client declares exactly the capabilities for which a handler is registered here, in both eras.
///
/// ```
/// use mcpjoin::Client;
/// use mcpjoin::proto::types::{ElicitParams, ElicitResult, Root};
///
/// let builder = Client::builder("my-client", "1.0.0")
///     .roots(vec![Root::new("file:///home/me/project")])
///     .elicitation(|_: ElicitParams| async { Ok(ElicitResult::decline()) })
///     .on_tools_changed(|client| async move {
///         println!("there are {:?} tools", client.list_tools().all().await.map(|tools| tools.len()));
///     });
/// # let _ = builder;
/// ```
#[must_use = "a builder connects nothing by itself"]
pub struct ClientBuilder {
    info: Implementation,
    era: EraChoice,
    version: Option<Version>,
    limits: Limits,
    max_pages: usize,
    answers: InputHandlers,
    custom_handler: Option<CustomHandler>,
    on_notification: Option<OnNotification>,
    notification_handlers: NotificationHandlers,
    on_violation: Option<OnViolation>,
    layers: Vec<Box<Layer>>,
    #[cfg(feature = "otel")]
    telemetry: Option<Arc<Instruments>>,
    caching: CacheConfig,
}

/// A handler in place of the registered functions, and the capabilities that it declares.
struct CustomHandler {
    capabilities: ClientCapabilities,
    handler: Arc<dyn ErasedHandler>,
    /// The client stands for another one, and describes itself as that one does.
    relayed: Option<Arc<Presents>>,
}

impl ClientBuilder {
    pub(super) fn new(name: &str, version: &str) -> Self {
        Self {
            info: Implementation::new(name, version),
            era: EraChoice::Auto,
            version: None,
            limits: Limits::default(),
            max_pages: MAX_PAGES,
            answers: InputHandlers::default(),
            custom_handler: None,
            on_notification: None,
            notification_handlers: NotificationHandlers::default(),
            on_violation: None,
            layers: Vec::new(),
            #[cfg(feature = "otel")]
            telemetry: None,
            caching: CacheConfig::default(),
        }
    }

    /// Describes the client with more than its name and version.
    pub fn implementation(mut self, info: Implementation) -> Self {
        self.info = info;
        self
    }

    /// Sets which era to request. By default the client detects it: it sends `server/discover` and falls back to
    /// `initialize`.
    pub const fn era(mut self, era: EraChoice) -> Self {
        self.era = era;
        self
    }

    /// Uses this protocol version only. A version of the legacy era is offered with `initialize`, without a probe
    /// before it.
    pub fn protocol_version(mut self, version: Version) -> Self {
        if let Some(profile) = Profile::of(&version) {
            self.era = EraChoice::Only(profile.era);
        }
        self.version = Some(version);
        self
    }

    /// Sets the limits of the connection: sizes, numbers and timeouts.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how many pages a list may have before it fails with
    /// [`ClientError::TooManyPages`](super::ClientError::TooManyPages). Default: 1,000.
    pub const fn max_pages(mut self, pages: usize) -> Self {
        self.max_pages = pages;
        self
    }

    /// Caches results in `cache`, which may be shared by several clients.
    ///
    /// A cached result is used while the server marks it as fresh. Results with the `cacheScope` `public` are shared by
    /// all clients of the same server, others by clients with the same authorization
    /// ([`ClientBuilder::cache_partition`]).
    ///
    /// Servers are identified by their URL, where they have one, and by what they state: name, version, revision and
    /// capabilities. A server could state another one's name, so share a cache only between clients of one server, or
    /// of servers that are reached over HTTP. A server that states something else after a restart finds no entries. By
    /// default each connection has an empty cache of its own, and so does each run of [`ClientBuilder::restarting`].
    pub fn cache(mut self, cache: Cache) -> Self {
        self.caching.source = CacheSource::Shared(cache);
        self
    }

    /// Disables the cache: every request is sent to the server. [`Client::uncached`] does so for single requests.
    pub fn no_cache(mut self) -> Self {
        self.caching.source = CacheSource::Disabled;
        self
    }

    /// Names the authorization that the client uses.
    ///
    /// Results that the server means for one user (`cacheScope` `private`) are shared by clients of the same [`Cache`]
    /// with the same name, and by no others. The name is stored with the results, so do not use the secret itself. Use
    /// another name for another access token.
    ///
    /// Without this call, a transport over HTTP derives it from its `Authorization` header or asks its
    /// [`Credentials`](crate::transport::Credentials::cache_partition). If neither is known, private results are used only
    /// on the connection that received them.
    pub fn cache_partition(mut self, name: impl Into<String>) -> Self {
        self.caching.partition = Some(name.into().into());
        self
    }

    /// Sets the directories that servers may work in. Declares `roots`. [`Client::set_roots`] changes them later.
    pub fn roots(mut self, roots: impl IntoIterator<Item = Root>) -> Self {
        self.answers.declare_roots(roots.into_iter().collect());
        self
    }

    /// Handles requests of servers for a message from a model. Declares `sampling`.
    ///
    /// An error answers the server's request, and in the modern era it also fails the request that it belongs to. A
    /// panic counts as the error -32603. Each call runs in a task of its own. A call that blocks its thread delays other
    /// tasks of the runtime, and on a runtime with one thread the whole connection: put such work, like reading a line from a
    /// terminal, into [`tokio::task::spawn_blocking`]. The future is dropped when the server cancels its request, or when the
    /// caller drops the request that it belongs to.
    pub fn sampling<F, A>(mut self, answer: F) -> Self
    where
        F: Fn(CreateMessageParams) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, ErrorObject>> + Send + 'static,
    {
        self.answers.sampling = Some(input::input_handler(Method::CreateMessage, answer));
        self
    }

    /// Accepts sampling requests that bring tools for the model. Declares `sampling.tools`, if sampling is declared.
    /// Default: `false`, and such requests are refused.
    pub const fn sampling_tools(mut self, tools: bool) -> Self {
        self.answers.sampling_tools = tools;
        self
    }

    /// Supports `includeContext`. Declares `sampling.context`, if sampling is declared. Default: `false`.
    pub const fn sampling_context(mut self, context: bool) -> Self {
        self.answers.sampling_context = context;
        self
    }

    /// Handles requests of servers for input from the user. Declares `elicitation` with forms.
    ///
    /// A user who declines is a result and not an error. An error answers the server's request, and in the modern era
    /// it also fails the request that it belongs to. Runs as [`ClientBuilder::sampling`] does.
    pub fn elicitation<F, A>(mut self, answer: F) -> Self
    where
        F: Fn(ElicitParams) -> A + Send + Sync + 'static,
        A: Future<Output = Result<ElicitResult, ErrorObject>> + Send + 'static,
    {
        self.answers.elicitation = Some(input::input_handler(Method::Elicit, answer));
        self
    }

    /// Handles requests of servers to fill in a form, and no others, as [`elicitation`](Self::elicitation) does. Of the two,
    /// the one that is called last counts.
    ///
    /// ```
    /// use mcpjoin::Client;
    /// use mcpjoin::proto::types::ElicitResult;
    /// use serde_json::json;
    ///
    /// let builder = Client::builder("my-client", "1.0.0").elicitation_form(|form| async move {
    ///     println!("{} {:?}", form.message, form.requested_schema.properties);
    ///     ElicitResult::accept(json!({ "name": "Ada" }))
    /// });
    /// # let _ = builder;
    /// ```
    pub fn elicitation_form<F, A>(mut self, answer: F) -> Self
    where
        F: Fn(ElicitFormParams) -> A + Send + Sync + 'static,
        A: Future<Output = Result<ElicitResult, ErrorObject>> + Send + 'static,
    {
        self.answers.elicitation_url = false;
        let answer = Arc::new(answer);
        self.elicitation(move |question| {
            let answer = answer.clone();
            async move {
                match question {
                    ElicitParams::Form(form) => answer(form).await,
                    _ => Err(ErrorObject::invalid_params("only forms are declared")),
                }
            }
        })
    }

    /// Accepts requests to open a page in the user's browser. Declares `elicitation.url`, if elicitation is declared.
    /// Default: `false`, and such requests are refused.
    pub const fn elicitation_url(mut self, url: bool) -> Self {
        self.answers.elicitation_url = url;
        self
    }

    /// Accepts tasks: a server may return the result of a tool later, and the client then polls for it. Default:
    /// `false`.
    ///
    /// Declares the extension `io.modelcontextprotocol/tasks` with every request of the modern era. At 2025-11-25 the
    /// client asks for a task if the tool requires one; to find out, it reads the list of tools before the first call.
    /// [`TaskResult`](super::TaskResult) describes how tasks are polled.
    pub const fn tasks(mut self, tasks: bool) -> Self {
        self.answers.takes_tasks = tasks;
        self
    }

    /// Declares an extension by its name (such as `io.modelcontextprotocol/oauth-client-credentials`). `settings` is a
    /// JSON object.
    ///
    /// This only declares the extension. Implementing it is up to you.
    pub fn extension(mut self, name: impl Into<String>, settings: Raw) -> Self {
        self.answers.extensions.insert(name.into(), settings);
        self
    }

    /// Answers all requests of legacy servers, and receives all notifications, in place of everything else that is
    /// registered here (roots, sampling, elicitation, tasks, extensions, notifications).
    ///
    /// `capabilities` is what the client declares. All connections of this builder share the handler; its context says
    /// which one it is called for. A modern server asks for input with its results: [`Client::send_request`] returns
    /// these unchanged.
    pub fn handler(mut self, capabilities: ClientCapabilities, handler: impl Handler) -> Self {
        let handler: Arc<dyn ErasedHandler> = Arc::new(Arc::new(handler));
        self.custom_handler = Some(CustomHandler { capabilities, handler, relayed: None });
        self
    }

    /// As [`handler`](Self::handler), for a client that stands for another one: its requests are not checked against
    /// the declared capabilities, and results and progress are passed on unchanged. `presents` is how it describes
    /// itself, word for word.
    #[doc(hidden)]
    pub fn relay(
        mut self,
        capabilities: ClientCapabilities,
        presents: Presents,
        handler: impl Handler,
    ) -> Self {
        self = self.handler(capabilities, handler);
        if let Some(custom_handler) = &mut self.custom_handler {
            custom_handler.relayed = Some(Arc::new(presents));
        }
        self
    }

    /// Runs `handler` when the list of tools has changed, in both eras.
    ///
    /// In the modern era the client opens a stream for it, before every request of yours, if the server declares
    /// `tools.listChanged`. A stream that ends is opened again after a pause, from 100 ms to 10 s, and the handler is run
    /// because a change may have been missed. It is given up after 10 failures or short streams in a row, or when the server
    /// refuses it; that is logged.
    ///
    /// The handler is given a client of the connection, which stays open while the handler runs. Each handler has a task of
    /// its own and is run for one change after the other; changes that arrive while it runs count as one. A panic is logged.
    ///
    /// ```
    /// use mcpjoin::Client;
    ///
    /// let builder = Client::builder("my-client", "1.0.0").on_tools_changed(|client| async move {
    ///     match client.list_tools().all().await {
    ///         Ok(tools) => println!("there are {} tools", tools.len()),
    ///         Err(error) => eprintln!("{error}"),
    ///     }
    /// });
    /// # let _ = builder;
    /// ```
    pub fn on_tools_changed<F, A>(self, handler: F) -> Self
    where
        F: Fn(Client) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        self.on(Method::ToolListChanged, move |client, _: Raw| handler(client))
    }

    /// Runs `handler` when the list of prompts has changed, as [`on_tools_changed`](Self::on_tools_changed) does.
    pub fn on_prompts_changed<F, A>(self, handler: F) -> Self
    where
        F: Fn(Client) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        self.on(Method::PromptListChanged, move |client, _: Raw| handler(client))
    }

    /// Runs `handler` when the list of resources or of templates has changed, as
    /// [`on_tools_changed`](Self::on_tools_changed) does.
    pub fn on_resources_changed<F, A>(self, handler: F) -> Self
    where
        F: Fn(Client) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        self.on(Method::ResourceListChanged, move |client, _: Raw| handler(client))
    }

    /// Runs `handler` with the URI of a resource that has changed, in both eras.
    ///
    /// [`Client::subscribe`] says which resources these are; the URI may be that of a sub-resource. Each change is one run,
    /// one after the other. Up to 1,024 changes and 4 MiB wait; beyond that the oldest are dropped. A panic is logged.
    ///
    /// ```
    /// use mcpjoin::Client;
    ///
    /// let builder = Client::builder("my-client", "1.0.0").on_resource_updated(|client, uri| async move {
    ///     if let Ok(contents) = client.read_resource(uri).await {
    ///         println!("{}", contents.to_text());
    ///     }
    /// });
    /// # let _ = builder;
    /// ```
    pub fn on_resource_updated<F, A>(self, handler: F) -> Self
    where
        F: Fn(Client, String) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        self.on(Method::ResourceUpdated, move |client, params: ResourceUpdatedParams| {
            handler(client, params.uri)
        })
    }

    /// Runs `handler` for each log message of the server, in both eras.
    ///
    /// The client asks for the level `info` and above, if the server declares logging: once after connecting in the legacy
    /// era, and with each request in the modern era, where a server logs only for a request. [`Client::set_level`] and
    /// [`RoundTrip::log_level`](super::RoundTrip::log_level) set another level.
    ///
    /// Runs in a task of its own, for one message after the other. Up to 1,024 messages and 4 MiB wait; beyond that the
    /// oldest are dropped. A panic is logged.
    ///
    /// ```
    /// use mcpjoin::Client;
    ///
    /// let builder = Client::builder("my-client", "1.0.0")
    ///     .on_log(|message| println!("{}: {}", message.level.as_str(), message.data));
    /// # let _ = builder;
    /// ```
    pub fn on_log(self, handler: impl Fn(LogMessageParams) + Send + Sync + 'static) -> Self {
        self.on(Method::LogMessage, move |_: Client, message: LogMessageParams| {
            handler(message);
            std::future::ready(())
        })
    }

    fn on<P, F, A>(mut self, method: Method, handler: F) -> Self
    where
        P: ProtocolType + 'static,
        F: Fn(Client, P) -> A + Send + Sync + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        self.notification_handlers.register(method, handler);
        self
    }

    /// Adds a layer: a function around every request that the client sends. The first layer is the outermost.
    ///
    /// A layer may log, measure, change the request, answer it without running the rest, or change the outcome. It sees the
    /// method and the parameters of the [`Call`], to which the connection then adds what the revision requires. What the
    /// client sends by itself passes, too: the pages of a list, the polls of a task, the streams of
    /// [`on_tools_changed`](Self::on_tools_changed), the requests of [`Client::connection`]. At 2026-07-28 each round of
    /// input is a request of its own. The handshake (`initialize`, or the `server/discover` before the first request),
    /// notifications, and lookups that the [`Cache`] answers pass no layer. The cache keeps what the layers return.
    ///
    /// A layer runs where the request is awaited. When the request is dropped, the layer is dropped at its current await. The
    /// timeouts of the request start when [`Next::run`] sends it: a layer that waits needs a timeout of its own. All
    /// connections of this builder share the function, as those of [`restarting`](Self::restarting) do. A panic reaches
    /// the caller of the request.
    ///
    /// ```
    /// use mcpjoin::Client;
    /// use mcpjoin::proto::{Payload, Raw};
    ///
    /// let builder = Client::builder("my-client", "1.0.0").layer(|mut call, next| async move {
    ///     let params = call.params.unwrap_or_else(|| Payload::from_raw(Raw::empty_object()));
    ///     call.params = Some(params.with_meta_member("com.example/tenant", &Raw::string("blue")));
    ///     let (method, start) = (call.method.clone(), tokio::time::Instant::now());
    ///     let outcome = next.run(call).await;
    ///     println!("{method} took {:?}, and is {}", start.elapsed(), if outcome.is_ok() { "fine" } else { "an error" });
    ///     outcome
    /// });
    /// # let _ = builder;
    /// ```
    pub fn layer<F, Fut>(mut self, layer: F) -> Self
    where
        F: Fn(Call, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply, CallError>> + Send + 'static,
    {
        self.layers.push(Box::new(move |call, next| -> OutcomeFuture { Box::pin(layer(call, next)) }));
        self
    }

    /// Records a span and a duration for every request that the client sends, and for those that a legacy server sends to
    /// it, by the conventions of OpenTelemetry. Feature `otel`.
    ///
    /// It is a [`layer`](Self::layer), and passes what they pass: those that are registered before it are outside the span.
    /// The context of the trace travels in `_meta`, unless the caller has put a `traceparent` there. A request for a stream
    /// of notifications carries the current context and has no span. [`guide::opentelemetry`](crate::guide::opentelemetry)
    /// says what a program installs, and lists the attributes.
    ///
    /// ```
    /// use mcpjoin::Client;
    ///
    /// let builder = Client::builder("my-client", "1.0.0").telemetry();
    /// # let _ = builder;
    /// ```
    #[cfg(feature = "otel")]
    pub fn telemetry(mut self) -> Self {
        let instruments = Arc::<Instruments>::default();
        self.telemetry = Some(instruments.clone());
        self.layer(move |call, next| otel::send(instruments.clone(), call, next))
    }

    /// As [`telemetry`](Self::telemetry), for [`relay`](Self::relay): the context that a request came with is replaced.
    #[cfg(all(feature = "otel", feature = "server"))]
    #[doc(hidden)]
    pub fn relay_telemetry(mut self, relaying: &otel::Relaying) -> Self {
        let instruments = relaying.instruments();
        self.telemetry = Some(instruments.clone());
        self.layer(move |call, next| otel::relay(instruments.clone(), call, next))
    }

    /// Receives the notifications that the server sends on its own, as they are: changed lists and resources, log
    /// messages. A modern server sends some only to clients that listen: see [`on_tools_changed`](Self::on_tools_changed).
    ///
    /// Notifications of a [`Subscription`](super::Subscription) are not included. Must not block. A panic is logged and
    /// loses only that notification.
    pub fn on_notification(mut self, observer: impl Fn(Notification) + Send + Sync + 'static) -> Self {
        self.on_notification = Some(Arc::new(move |notification: Notification| {
            let method = notification.method.clone();
            input::contain_panic(&method, || observer(notification));
        }));
        self
    }

    /// Receives every rule that the server violates. The connection continues. Must not block. A panic is logged.
    pub fn on_violation(mut self, observer: impl Fn(&Violation) + Send + Sync + 'static) -> Self {
        self.on_violation = Some(Arc::new(move |violation| {
            input::contain_panic(&"on_violation", || observer(violation));
        }));
        self
    }

    /// As [`on_violation`](Self::on_violation), in addition to the function that is registered already.
    #[cfg(unix)]
    #[doc(hidden)]
    pub fn also_on_violation(mut self, observer: impl Fn(&Violation) + Send + Sync + 'static) -> Self {
        let first = self.on_violation.take();
        self.on_violation = Some(Arc::new(move |violation| {
            if let Some(first) = &first {
                first(violation);
            }
            observer(violation);
        }));
        self
    }

    /// Returns the limits that the client will use.
    #[cfg(unix)]
    #[doc(hidden)]
    pub const fn limits_in_force(&self) -> &Limits {
        &self.limits
    }

    /// Connects to a server in this process, in memory, as [`connect`](Self::connect) does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::server::{NoArguments, tool};
    /// use mcpjoin::{Client, Server};
    ///
    /// let server = Server::builder("s", "1.0.0").tool(tool("hi"), |_: NoArguments, _| async { "hi" }).build()?;
    /// let client = Client::builder("c", "1.0.0").connect_to(&server).await?;
    /// assert_eq!(client.call_tool("hi", ()).await?.to_text(), "hi");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ConnectError`], as `connect`.
    ///
    /// # Panics
    /// As `connect`.
    #[cfg(feature = "server")]
    pub async fn connect_to(self, server: &crate::Server) -> Result<Client, ConnectError> {
        let (ours, theirs) = Link::memory();
        server.connect(theirs);
        self.connect(ours).await
    }

    /// Connects: detects the era of the server, agrees on a revision, and returns the client when it is ready.
    ///
    /// The connection is driven by a task of its own. Dropping the future ends everything that was started.
    ///
    /// ```no_run
    /// # async fn example(link: mcpjoin::Link) -> Result<(), Box<dyn std::error::Error>> {
    /// let client = mcpjoin::Client::builder("my-client", "1.0.0").connect(link).await?;
    /// println!("{:?} at {}", client.server_name(), client.profile().version);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ConnectError`] if the peers do not agree: what was tried, what was received, and how the transport has ended.
    ///
    /// The error is returned at most 100 ms after the failure is certain. A child process that has not ended by then is
    /// ended in the background for as long as the runtime lives (`ChildHandle::ended` waits for it), and immediately
    /// when the runtime ends.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub async fn connect(self, link: Link) -> Result<Client, ConnectError> {
        let (plan, era) = self.plan();
        let opening = plan.open(link, era);
        let peer = opening.opened_or_failed_promptly().await?;
        Ok(opening.client(peer))
    }

    pub(super) fn plan(self) -> (Plan, EraChoice) {
        let answers = Arc::new(self.answers);
        let mut notification_handlers = self.notification_handlers;
        let (capabilities, handler, relayed) = match self.custom_handler {
            Some(CustomHandler { capabilities, handler, relayed }) => {
                notification_handlers = NotificationHandlers::default();
                (capabilities, Some(handler), relayed)
            }
            None => (answers.capabilities(), None, None),
        };
        let mut role = ClientRole::new(self.info, capabilities);
        role.version = self.version;
        role.relays = relayed.is_some();
        role.presents = relayed;
        let plan = Plan {
            role,
            handler,
            limits: self.limits,
            max_pages: self.max_pages,
            answers,
            on_notification: self.on_notification,
            notification_handlers,
            on_violation: self.on_violation,
            layers: Layers((!self.layers.is_empty()).then(|| Arc::new(self.layers))),
            #[cfg(feature = "otel")]
            telemetry: self.telemetry,
            caching: self.caching,
        };
        (plan, self.era)
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("info", &self.info)
            .field("era", &self.era)
            .field("version", &self.version)
            .field("answers", &self.answers)
            .finish_non_exhaustive()
    }
}
