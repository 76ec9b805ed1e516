//! What a client is made of, and connecting it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use mcpjoin_proto::session::{Ask, ClientRole, Limits, Presents, Violation};
use mcpjoin_proto::types::{
    ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, Implementation,
    Root,
};
use mcpjoin_proto::{ErrorObject, Notification, Profile, Raw, Version};

use super::connection_cache::{CacheConfig, CacheSource};
use super::input::{self, InputHandlers, OnNotification};
use super::opening::Plan;
use super::{Cache, Client, ConnectError};
use crate::connection::OnViolation;
use crate::connection::rounds::MAX_ROUNDS;
use crate::handler::{ErasedHandler, Handler};
use crate::link::Link;

/// Pages of one list (adversarial case 66).
const MAX_PAGES: usize = 1000;

/// A client to be. Made by [`Client::builder`].
///
/// What it can do for a server is declared by what is registered here, in both eras, and nothing else is.
#[must_use = "a builder connects nothing by itself"]
pub struct ClientBuilder {
    info: Implementation,
    ask: Ask,
    version: Option<Version>,
    limits: Limits,
    max_rounds: usize,
    max_pages: usize,
    answers: InputHandlers,
    custom_handler: Option<CustomHandler>,
    on_notification: Option<OnNotification>,
    on_violation: Option<OnViolation>,
    caching: CacheConfig,
}

/// Who answers and hears in place of what is registered, and what it can do for a server.
struct CustomHandler {
    capabilities: ClientCapabilities,
    handler: Arc<dyn ErasedHandler>,
    /// It stands for another client, and says of itself what that one says.
    relayed: Option<Arc<Presents>>,
}

impl ClientBuilder {
    pub(super) fn new(name: &str, version: &str) -> Self {
        Self {
            info: Implementation::new(name, version),
            ask: Ask::Auto,
            version: None,
            limits: Limits::default(),
            max_rounds: MAX_ROUNDS,
            max_pages: MAX_PAGES,
            answers: InputHandlers::default(),
            custom_handler: None,
            on_notification: None,
            on_violation: None,
            caching: CacheConfig::default(),
        }
    }

    /// How the client describes itself, with more than its name and version.
    pub fn implementation(mut self, info: Implementation) -> Self {
        self.info = info;
        self
    }

    /// Which era to ask for. Unless this says otherwise, the client finds out.
    pub const fn ask(mut self, ask: Ask) -> Self {
        self.ask = ask;
        self
    }

    /// Speak this version and no other. One of the legacy era is offered with `initialize` without a probe.
    pub fn protocol_version(mut self, version: Version) -> Self {
        if let Some(profile) = Profile::of(&version) {
            self.ask = Ask::Only(profile.era);
        }
        self.version = Some(version);
        self
    }

    /// The bounds of the connection.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How often a server may ask for input, or put a request off, before it is given up with
    /// [`ClientError::TooManyRounds`](super::ClientError::TooManyRounds): 10.
    pub const fn max_rounds(mut self, rounds: usize) -> Self {
        self.max_rounds = rounds;
        self
    }

    /// How many pages a list may have before it is given up with
    /// [`ClientError::TooManyPages`](super::ClientError::TooManyPages): 1,000.
    pub const fn max_pages(mut self, pages: usize) -> Self {
        self.max_pages = pages;
        self
    }

    /// Remembers results that the server calls fresh in this cache, for all clients that it is given to: results that are
    /// for everybody (`cacheScope` `public`) are shared by those of the same server, others by those of the same
    /// authorization ([`ClientBuilder::cache_partition`]).
    ///
    /// Servers are told apart by their URL where they are reached by one, and by what they say of themselves: name,
    /// version, revision and capabilities. A server could take another one's name, so one cache is for clients of one
    /// server, or of servers that are reached over HTTP. A server that says something else of itself after a restart
    /// finds nothing. Unless this is called, a client has a cache of its own, which is empty for each connection: also
    /// for each run of [`ClientBuilder::restarting`].
    pub fn cache(mut self, cache: Cache) -> Self {
        self.caching.source = CacheSource::Shared(cache);
        self
    }

    /// Remembers no result: everything is asked of the server. For one question at a time there is [`Client::uncached`].
    pub fn no_cache(mut self) -> Self {
        self.caching.source = CacheSource::Disabled;
        self
    }

    /// Names whose authorization the client uses: results that the server means for one user alone (`cacheScope`
    /// `private`) are shared by clients of the same [`Cache`] that have the same name here, and by no others. The name is
    /// kept with the results: it is not the secret itself. Another access token needs another name.
    ///
    /// Without it a link over HTTP knows by its `Authorization` header, or asks its
    /// [`Credentials`](crate::link::Credentials::cache_partition). Where nobody knows, private results are kept for the
    /// connection that brought them alone.
    pub fn cache_partition(mut self, name: impl Into<String>) -> Self {
        self.caching.partition = Some(name.into().into());
        self
    }

    /// The places that servers may work in. Declares `roots`; [`Client::set_roots`] changes them later.
    pub fn roots(mut self, roots: Vec<Root>) -> Self {
        self.answers.declare_roots(roots);
        self
    }

    /// InputHandlers servers that want a message from a model. Declares `sampling`.
    ///
    /// An error ends the server's question, and in the modern era the request that it belongs to; a panic is the error
    /// -32603. Each answer is made in a task of its own, so on a runtime with several threads it may block its thread for a
    /// while. The future is dropped when the server takes its question back, or the caller drops the request.
    pub fn sampling<F, A>(mut self, answer: F) -> Self
    where
        F: Fn(CreateMessageParams) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, ErrorObject>> + Send + 'static,
    {
        self.answers.set_sampling(answer);
        self
    }

    /// The model may use tools that a server's question brings along. Declares `sampling.tools`, where sampling is
    /// declared; without it such questions are refused.
    pub const fn sampling_tools(mut self, tools: bool) -> Self {
        self.answers.sampling_tools = tools;
        self
    }

    /// `includeContext` is heeded. Declares `sampling.context`, where sampling is declared.
    pub const fn sampling_context(mut self, context: bool) -> Self {
        self.answers.sampling_context = context;
        self
    }

    /// InputHandlers servers that want input from the user. Declares `elicitation` by form.
    ///
    /// An error ends the server's question, and in the modern era the request that it belongs to; a user who says no
    /// is no error, but an answer. ClientStream as [`ClientBuilder::sampling`] does.
    pub fn elicitation<F, A>(mut self, answer: F) -> Self
    where
        F: Fn(ElicitParams) -> A + Send + Sync + 'static,
        A: Future<Output = Result<ElicitResult, ErrorObject>> + Send + 'static,
    {
        self.answers.set_elicitation(answer);
        self
    }

    /// The user can also be asked with a page in a browser. Declares `elicitation.url`, where elicitation is declared;
    /// without it such questions are refused.
    pub const fn elicitation_url(mut self, url: bool) -> Self {
        self.answers.elicitation_url = url;
        self
    }

    /// The client takes tasks: a tool's result may come later, and is then fetched. Declares the extension
    /// `io.modelcontextprotocol/tasks` with every request of the modern era; a server of 2025-11-25 is asked for a task
    /// where the tool is run in no other way, which takes a look at the list of its tools before the first call. See
    /// [`TaskResult`](super::TaskResult) for how they are followed.
    pub const fn tasks(mut self, tasks: bool) -> Self {
        self.answers.takes_tasks = tasks;
        self
    }

    /// Declares an extension by its name (`io.modelcontextprotocol/oauth-client-credentials`), with its settings, which are
    /// an object. This is said and nothing else: what an extension demands is done by whoever declares it.
    pub fn extension(mut self, name: impl Into<String>, settings: Raw) -> Self {
        self.answers.extensions.insert(name.into(), settings);
        self
    }

    /// InputHandlers whatever a legacy server asks, and hears whatever a server tells, in place of what else is registered here
    /// (roots, sampling, elicitation, tasks, extensions, notifications). `capabilities` is what is declared. The handler is called by
    /// every connection that the builder makes; its context says by which.
    ///
    /// A modern server asks with its results: [`Client::send_request`] gives them as they are.
    pub fn handler(mut self, capabilities: ClientCapabilities, handler: impl Handler) -> Self {
        let handler: Arc<dyn ErasedHandler> = Arc::new(Arc::new(handler));
        self.custom_handler = Some(CustomHandler { capabilities, handler, relayed: None });
        self
    }

    /// The same for a client that stands for another one: nothing is held against what it declares, and results and
    /// progress come as they are. `presents` says word for word what it says of itself.
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

    /// Hears what the server tells by itself: changes of lists and resources, log messages. What belongs to a
    /// [`Subscription`](super::Subscription) does not come here. Must not block; a panic loses that
    /// notification and nothing else.
    pub fn on_notification(mut self, hear: impl Fn(Notification) + Send + Sync + 'static) -> Self {
        self.on_notification = Some(Arc::new(move |notification: Notification| {
            let method = notification.method.clone();
            input::contain_panic(&method, || hear(notification));
        }));
        self
    }

    /// Hears of every rule that the server breaks. The connection goes on. Must not block; a panic is logged.
    pub fn on_violation(mut self, hear: impl Fn(&Violation) + Send + Sync + 'static) -> Self {
        self.on_violation = Some(Arc::new(move |violation| {
            input::contain_panic(&"on_violation", || hear(violation));
        }));
        self
    }

    /// Hears of every rule that the server breaks, beside whoever hears of them already.
    #[cfg(unix)]
    #[doc(hidden)]
    pub fn also_on_violation(mut self, hear: impl Fn(&Violation) + Send + Sync + 'static) -> Self {
        let first = self.on_violation.take();
        self.on_violation = Some(Arc::new(move |violation| {
            if let Some(first) = &first {
                first(violation);
            }
            hear(violation);
        }));
        self
    }

    /// The bounds that it will keep.
    #[cfg(unix)]
    #[doc(hidden)]
    pub const fn limits_in_force(&self) -> &Limits {
        &self.limits
    }

    /// Connects: finds out how the server speaks, agrees with it, and is then ready. The connection is driven by a
    /// task of its own. Dropping the future ends everything that was begun.
    ///
    /// # Errors
    /// When the peers do not agree: with what was tried, what came back, and how the far end has ended. By then
    /// nothing of it is left, unless it does not leave when it is asked to: who waits for the error learns it at
    /// most 100 ms after it is certain, and what is left then is ended behind it, for as long as the runtime lives
    /// (`ChildHandle::ended` waits for that) and at once when it does not.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub async fn connect(self, link: Link) -> Result<Client, ConnectError> {
        let (plan, ask) = self.plan();
        let opening = plan.open(link, ask);
        let peer = opening.opened_or_failed_promptly().await?;
        Ok(opening.client(peer))
    }

    pub(super) fn plan(self) -> (Plan, Ask) {
        let answers = Arc::new(self.answers);
        let (capabilities, handler, relayed) = match self.custom_handler {
            Some(CustomHandler { capabilities, handler, relayed }) => (capabilities, Some(handler), relayed),
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
            max_rounds: self.max_rounds,
            max_pages: self.max_pages,
            answers,
            on_notification: self.on_notification,
            on_violation: self.on_violation,
            caching: self.caching,
        };
        (plan, self.ask)
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("info", &self.info)
            .field("ask", &self.ask)
            .field("version", &self.version)
            .field("answers", &self.answers)
            .finish_non_exhaustive()
    }
}
