//! A server from plain functions.
//!
//! A [`Server`] is described once ([`Server::builder`]) and serves any number of connections, in both eras and all
//! revisions. Each handler is written once: the server adapts its input and output to the revision. Handlers run
//! concurrently. On a runtime with several threads each runs in a task of its own, otherwise in the task of its
//! connection ([`ServerBuilder::inline_handlers`]). [`blocking`] runs those that block their thread;
//! [`with`] gives them a state.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server>
//!
//! ```
//! use mcpjoin::server::{HandlerError, Json, Server, tool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add { a: i64, b: i64 }
//!
//! let server = Server::builder("calculator", "1.0.0")
//!     .tool(tool("add").description("Adds two numbers"), |numbers: Add, _cx| async move {
//!         numbers.a.checked_add(numbers.b).map(Json).ok_or_else(|| HandlerError::new("too large"))
//!     })
//!     .build()?;
//! # Ok::<(), mcpjoin::server::BuildError>(())
//! ```

mod blocking;
mod builder;
pub(crate) mod capability;
pub mod catalogue;
mod completion;
mod context;
mod error;
mod form;
mod handle;
#[cfg(feature = "http-server")]
mod http;
pub(crate) mod input;
mod known_peers;
mod layer;
mod list;
pub(crate) mod listening;
mod mount;
mod output;
mod prompts;
mod resources;
pub(crate) mod schema;
mod schema_profile;
mod service;
mod state;
mod subscription;
pub(crate) mod task;
mod template;
mod texts;
pub(crate) mod tools;
#[cfg(feature = "json-schema")]
mod validation;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context as TaskContext, Poll};

use crate::sync::{Mutex, RwLock};
use mcpjoin_proto::session::{ClientInfo, CloseCause, Role, ServerRole};
use mcpjoin_proto::types::ProtocolType;
use mcpjoin_proto::{ErrorObject, Method, Payload, Profile, Raw};
use serde::Serialize;
use tokio::task::JoinHandle;

pub use crate::seal::{SealingKeys, StateKey};
pub use blocking::{Offloaded, blocking};
pub use builder::{BuildError, ServerBuilder};
pub use context::Context;
pub use error::{HandlerError, IntoHandlerError, Result};
pub use handle::{ChangeError, ServerHandle};
pub use input::{InputError, PendingInput};
pub use layer::Next;
/// Makes the methods of a type handlers, with less typing than [`with`].
///
/// ```
/// use std::sync::Mutex;
/// use mcpjoin::server::{Context, Json, Result, Server, handlers};
///
/// #[derive(Default)]
/// struct Store { notes: Mutex<Vec<String>> }
///
/// #[handlers]
/// impl Store {
///     /// Adds a note.
///     #[tool]
///     async fn add_note(
///         &self,
///         /// The text of the note.
///         text: String,
///         title: Option<String>,
///         cx: Context,
///     ) -> Result<Json<usize>> {
///         cx.progress(0.5, Some(1.0), None);
///         let mut notes = self.notes.lock().unwrap();
///         notes.push(title.map_or(text.clone(), |title| format!("{title}: {text}")));
///         Ok(Json(notes.len()))
///     }
///
///     /// A note.
///     #[resource("note://{place}", mime_type = "text/plain")]
///     fn note(&self, place: usize) -> String {
///         self.notes.lock().unwrap().get(place).cloned().unwrap_or_default()
///     }
///
///     /// Summarizes a note.
///     #[prompt]
///     fn summarize(&self, place: usize, language: Option<String>) -> String {
///         format!("Summarize in {}: {}", language.as_deref().unwrap_or("English"), self.note(place))
///     }
///
///     #[completion(prompt = "summarize", argument = "language")]
///     fn languages(&self, typed: String) -> Vec<&'static str> {
///         ["Dutch", "English"].into_iter().filter(|language| language.starts_with(&typed)).collect()
///     }
/// }
///
/// let server = Server::builder("notes", "1.0.0").handlers(Store::default()).build()?;
/// # Ok::<(), mcpjoin::server::BuildError>(())
/// ```
///
#[cfg(feature = "macros")]
pub use mcpjoin_macros::handlers;
#[cfg(feature = "macros")]
pub use mcpjoin_macros::{completion, prompt, resource, tool};
pub use mcpjoin_proto::session::Limits;
pub use output::{CompletionOutput, Json, PromptOutput, ResourceOutput, ToolOutput, ToolReply};
pub use prompts::{PromptArguments, PromptDescription, TypedPrompt, prompt};
pub use resources::{ReadRequest, ResourceTemplateDescription, TypedResourceTemplate, resource_template};
pub use schema_profile::SchemaProfile;
/// The crate that derives the schemas of arguments and results, in the version that this crate uses.
pub use schemars;
#[cfg(feature = "macros")]
#[doc(hidden)]
pub use serde;
pub use state::{Handlers, blocking_with, with};
pub use task::{FoundTask, TaskRecord, TaskStore, TaskStoreError, TaskStored};
pub use template::Variables;
pub use tools::{NoArguments, TypedTool, tool};

use self::completion::Completions;
use self::known_peers::KnownPeers;
use self::layer::Layer;
use self::list::List;
use self::mount::Mounts;
use self::prompts::PromptEntry;
use self::resources::{ResourceEntry, TemplateEntry};
use self::schema_profile::{ChosenProfile, ProfileChoice};
use self::service::Service;
use self::subscription::Outbox;
use self::task::{Replica, SharedTasks, TaskMethods, Tasks};
use self::tools::{ToolEntry, VisibleTools};
use crate::connection::{Connection, Driver, Layers, Setup};
use crate::handler::ErasedHandler;
#[cfg(feature = "otel")]
use crate::otel::{self, Instruments, Session};
use crate::seal::Keys;
use crate::transport::Link;

/// A server, for any number of connections. Cheap to clone.
///
/// Its tasks ([`ServerBuilder::tasks`]) are cancelled when the last clone and the last connection are gone.
#[derive(Clone)]
pub struct Server(Arc<Shared>, Arc<Lifetime>);

/// Held by each clone of a server and by each connection. The work of a task holds the server as well, through its
/// context, but that alone must not keep the task running.
///
/// It holds those of the mounted servers.
struct Lifetime(Weak<Shared>, #[expect(dead_code, reason = "held for what its drop does")] Vec<Arc<Self>>);

impl Drop for Lifetime {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.tasks.server_ended();
        }
    }
}

/// The state that all connections of a server share.
struct Shared {
    role: Arc<ServerRole>,
    limits: Arc<Limits>,
    page_size: usize,
    /// Handlers run in the task of their connection on every runtime.
    inline_handlers: bool,
    offer: RwLock<Offer>,
    /// How often the offer has changed.
    changes: AtomicU64,
    mounts: Option<Arc<Mounts>>,
    /// The servers that this one is mounted on.
    mounted_on: Mutex<Vec<Weak<Self>>>,
    /// Answers all requests in place of the offer.
    custom_handler: Option<Arc<dyn ErasedHandler>>,
    /// The outermost first.
    layers: Vec<Box<Layer>>,
    #[cfg(feature = "otel")]
    telemetry: Option<Arc<Instruments>>,
    visible_tools: Option<Box<VisibleTools>>,
    /// The schemas in the list of tools, by client. `None`: as they were registered.
    profile_choice: Option<Box<ProfileChoice>>,
    /// The arguments of all tools are validated.
    #[cfg(feature = "json-schema")]
    validates_arguments: bool,
    completions: Completions,
    /// Set if the server, or one that is mounted on it, declares tasks.
    task_methods: Option<&'static TaskMethods>,
    tasks: Tasks,
    /// The name of this replica, and the way to the others.
    replica: Option<Replica>,
    /// The store of the tasks that other processes know.
    shared_tasks: Option<SharedTasks>,
    connections: Mutex<Connections>,
    /// The clients that opened a session last.
    known_peers: Mutex<KnownPeers>,
    /// Encrypt the states that clients keep, and sign the ids of tasks.
    keys: Keys,
}

/// What a server offers.
#[derive(Default)]
struct Offer {
    tools: List<ToolEntry>,
    resources: List<ResourceEntry>,
    templates: List<TemplateEntry>,
    prompts: List<PromptEntry>,
}

#[derive(Default)]
struct Connections {
    open: HashMap<u64, (Connection, Arc<Outbox>)>,
    /// Those whose duration is measured. Beside the connections, because most servers have no telemetry.
    #[cfg(feature = "otel")]
    measured: HashMap<u64, Session>,
}

/// The number of the last connection. One for the process: a mounted server has tasks of the connections of another one.
static LAST_CONNECTION: AtomicU64 = AtomicU64::new(0);

impl Server {
    /// Creates the builder of a server with this name and version.
    pub fn builder(name: &str, version: &str) -> ServerBuilder {
        ServerBuilder::new(name, version)
    }

    /// Serves one connection until it has ended, and returns why. Dropping the future ends the connection.
    ///
    /// ```no_run
    /// # async fn example(server: mcpjoin::Server) -> std::io::Result<()> {
    /// let cause = server.serve(mcpjoin::Link::stdio()?).await;
    /// eprintln!("the client has gone: {cause}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn serve(&self, link: Link) -> CloseCause {
        let (connection, serving) = self.open(link, true);
        // In a task: a runtime with several threads polls its main future on a thread that must be woken for every
        // message. Measured: 1.2 times the CPU time per call.
        let _task = AbortOnDrop(tokio::spawn(serving));
        connection.closed().await
    }

    /// Serves one connection in a task of the current runtime. The connection lives with or without the returned
    /// handle.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::{Client, Link, Server};
    ///
    /// let (near, far) = Link::memory();
    /// Server::builder("empty", "1.0.0").build()?.connect(far);
    /// let client = Client::builder("test", "1.0.0").connect(near).await?;
    /// assert_eq!(client.server_name(), Some("empty"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn connect(&self, link: Link) -> Connection {
        let (connection, serving) = self.open(link, true);
        tokio::spawn(serving);
        connection
    }

    /// Returns a handle that changes what the server offers and notifies clients.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        ServerHandle::new(self.0.clone())
    }

    /// Opens a connection. `one_client`: everything on it comes from one client.
    fn open(&self, link: Link, one_client: bool) -> (Connection, Serving) {
        let number = 1 + LAST_CONNECTION.fetch_add(1, Ordering::Relaxed);
        let role = if one_client { self.0.role.clone() } else { self.0.role_for_many() };
        let setup = Setup {
            role: Role::Server(role),
            limits: self.0.limits.clone(),
            on_violation: None,
            notification_observer: None,
            layers: self.0.call_layers(),
        };
        let own_tasks = !self.0.inline_handlers && blocking::has_other_threads();
        let service = Service::new(self.0.clone(), one_client.then_some(number), own_tasks);
        let (connection, driver) = Connection::new(link, setup, service);
        let outbox = Arc::new(Outbox::default());
        let entry = ConnectionEntry { server: self.clone(), number };
        #[cfg(feature = "otel")]
        if let Some(instruments) = self.0.telemetry.as_ref().filter(|_| one_client) {
            let session = Session::of_server(instruments.clone(), connection.origin());
            self.0.connections.lock().measured.insert(number, session);
        }
        self.0.connections.lock().open.insert(number, (connection.clone(), outbox.clone()));
        (connection.clone(), Serving { driver, connection, outbox, place: None, _entry: entry })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("info", &self.0.role.info).finish_non_exhaustive()
    }
}

/// Aborts its task when it is dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs a connection until it has ended. Not an `async` function: there may be tens of thousands of idle connections,
/// and such a function would store the driver three times.
struct Serving {
    driver: Driver,
    connection: Connection,
    outbox: Arc<Outbox>,
    /// The place of the outbox in the queue of calls.
    place: Option<u64>,
    _entry: ConnectionEntry,
}

impl Future for Serving {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let Self { driver, connection, outbox, place, .. } = self.get_mut();
        let over = Pin::new(driver).poll(cx);
        if over.is_pending() {
            outbox.send(connection, place, cx);
        }
        over
    }
}

/// The entry of a connection in the server's table of connections.
struct ConnectionEntry {
    server: Server,
    number: u64,
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        let server = &self.server.0;
        server.connections.lock().open.remove(&self.number);
        #[cfg(feature = "otel")]
        let _ended = server.connections.lock().measured.remove(&self.number);
        server.session_ended(self.number);
    }
}

impl Shared {
    /// The layers around the requests that handlers send.
    fn call_layers(&self) -> Layers {
        #[cfg(feature = "otel")]
        if let Some(instruments) = self.telemetry.clone() {
            return Layers::of(move |call, next| otel::send(instruments.clone(), call, next));
        }
        Layers::default()
    }

    /// Returns the servers that this one is mounted on.
    fn mounted_on(&self) -> Vec<Arc<Self>> {
        self.mounted_on.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Changes the outboxes of all connections, those to servers that this one is mounted on included.
    fn each_connection(&self, change: &dyn Fn(&Outbox)) {
        for (_, outbox) in self.connections.lock().open.values() {
            change(outbox);
        }
        for server in self.mounted_on() {
            server.each_connection(change);
        }
    }

    /// The same for the connections on which a client listens for this change. The outbox of another one has no room for it, and
    /// would keep it while its client reads nothing.
    fn each_listener(&self, method: &Method, about: &str, change: &dyn Fn(&Outbox)) {
        for (connection, outbox) in self.open_connections() {
            if connection.has_listener(method, Some(about)) {
                change(&outbox);
            }
        }
        for server in self.mounted_on() {
            server.each_listener(method, about, change);
        }
    }

    /// Each connection has a lock of its own, which must not be taken under that of the list.
    fn open_connections(&self) -> Vec<(Connection, Arc<Outbox>)> {
        self.connections.lock().open.values().cloned().collect()
    }

    fn any_connection(&self, is_it: &dyn Fn(&Connection) -> bool) -> bool {
        self.open_connections().iter().any(|(connection, _)| is_it(connection))
            || self.mounted_on().iter().any(|server| server.any_connection(is_it))
    }

    /// Changes the outbox of one connection, if it still exists.
    fn with_connection(&self, connection: u64, change: impl FnOnce(&Outbox)) {
        if let Some(outbox) = self.outbox(connection) {
            change(&outbox);
        }
    }

    fn outbox(&self, connection: u64) -> Option<Arc<Outbox>> {
        let own = self.connections.lock().open.get(&connection).map(|(_, outbox)| outbox.clone());
        own.or_else(|| self.mounted_on().iter().find_map(|server| server.outbox(connection)))
    }

    /// Notifies the clients that are subscribed to a resource.
    fn resource_updated(self: &Arc<Self>, uri: &str) {
        for (connection, outbox) in self.open_connections() {
            // The outbox of a client has no room for what concerns others.
            if connection.has_listener(&Method::ResourceUpdated, Some(uri)) {
                outbox.resource_updated(uri, self.limits.subscriptions);
            }
        }
        let resources = self.role.capabilities.resources.as_ref();
        if resources.is_some_and(|resources| resources.subscribe == Some(true)) {
            for server in self.mounted_on() {
                if server.takes_update(uri, self) {
                    server.resource_updated(uri);
                }
            }
        }
    }

    /// A connection has ended, and nothing can ask for the tasks that belong to it.
    fn session_ended(&self, connection: u64) {
        self.tasks.session_ended(connection);
        for server in self.mounted() {
            server.session_ended(connection);
        }
    }

    /// Whether this server or a mounted one has issued the id of a task.
    fn has_issued(&self, task_id: &str) -> bool {
        self.keys.task_owner(task_id).is_some()
            || self.mounted().iter().any(|server| server.has_issued(task_id))
    }

    /// Returns the role for a transport that cannot tell its clients apart: without the tasks of the core, which every
    /// client could list.
    fn role_for_many(&self) -> Arc<ServerRole> {
        if self.role.capabilities.tasks.is_none() {
            return self.role.clone();
        }
        let mut role = (*self.role).clone();
        role.capabilities.tasks = None;
        Arc::new(role)
    }

    /// Whether the client of this request may see and call the tool that is offered under this name.
    fn shows(&self, tool: &ToolEntry, name: &str, cx: &Context) -> bool {
        let Some(is_visible) = &self.visible_tools else { return true };
        if tool.name() == name {
            return is_visible(cx, tool.description());
        }
        let mut joined = tool.description().clone();
        joined.name = name.to_owned();
        is_visible(cx, &joined)
    }

    /// Returns the profile of the schemas that a client is shown.
    fn schemas_for(&self, client: Option<&Arc<ClientInfo>>) -> Option<ChosenProfile> {
        let choose = self.profile_choice.as_ref()?;
        choose(client.and_then(|client| client.info.as_deref()))
    }

    fn offers_tasks(&self) -> bool {
        let extensions = self.role.capabilities.extensions.as_ref();
        extensions.is_some_and(|known| known.contains_key(mcpjoin_proto::types::task::EXTENSION))
    }

    /// Whether a request of this client may be answered with a task.
    fn may_return_task(&self, profile: &Profile, client: Option<&Arc<ClientInfo>>) -> bool {
        profile.result_type && self.offers_tasks() && client.is_some_and(|client| task::is_declared(client))
    }
}

/// Decodes the parameters of a request.
fn decode_params<T: ProtocolType>(params: Option<&Payload>) -> Result<T, ErrorObject> {
    let params = params.ok_or_else(|| ErrorObject::invalid_params("`params` is missing"))?;
    T::read(params.raw()).map_err(|error| ErrorObject::invalid_params(error.to_string()))
}

/// Encodes a type of the protocol that is part of a response.
fn encode<T: ProtocolType>(value: &T) -> Result<Raw, ErrorObject> {
    value.to_raw().map_err(|error| ErrorObject::internal(error.to_string()))
}

/// The same for any other type.
fn encode_value<T: Serialize>(value: &T) -> Result<Raw, ErrorObject> {
    Raw::from_value(value).map_err(|error| ErrorObject::internal(error.to_string()))
}

/// Encodes the description of an entry as the lists contain it.
fn description_json<T: ProtocolType>(name: &str, description: &T) -> Result<Raw, BuildError> {
    description
        .to_raw()
        .map_err(|error| BuildError::NotWritable { name: name.to_owned(), problem: error.to_string() })
}
