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
mod completion;
mod context;
mod error;
mod form;
mod handle;
#[cfg(feature = "http-server")]
mod http;
pub(crate) mod input;
mod layer;
mod list;
pub(crate) mod listening;
mod output;
mod prompts;
mod resources;
pub(crate) mod schema;
mod seal;
mod service;
mod state;
mod subscription;
mod task;
mod template;
mod texts;
pub(crate) mod tools;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context as TaskContext, Poll};

use mcpjoin_proto::session::{ClientInfo, CloseCause, Role, ServerRole};
use mcpjoin_proto::{ErrorObject, Payload, Profile, Raw};
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

pub use blocking::{Offloaded, blocking, spawned};
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
/// The crate that derives the schemas of arguments and results, in the version that this crate uses.
pub use schemars;
pub use seal::StateKey;
#[cfg(feature = "macros")]
#[doc(hidden)]
pub use serde;
pub use state::{Handlers, blocking_with, with};
pub use template::Variables;
pub use tools::{NoArguments, TypedTool, tool};

use self::completion::Completions;
use self::layer::Layer;
use self::list::List;
use self::prompts::PromptEntry;
use self::resources::{ResourceEntry, TemplateEntry};
use self::seal::Keys;
use self::service::Service;
use self::subscription::Outbox;
use self::task::Tasks;
use self::tools::{ToolEntry, VisibleTools};
use crate::connection::{Connection, Driver, Layers, Setup};
use crate::handler::ErasedHandler;
#[cfg(feature = "otel")]
use crate::otel::{self, Instruments, Session};
use crate::transport::Link;

/// A server, for any number of connections. Cheap to clone.
///
/// Its tasks ([`ServerBuilder::tasks`]) are cancelled when the last clone and the last connection are gone.
#[derive(Clone)]
pub struct Server(Arc<Shared>, #[expect(dead_code, reason = "held for what its drop does")] Arc<Lifetime>);

/// Held by each clone of a server and by each connection. The work of a task holds the server as well, through its
/// context, but that alone must not keep the task running.
struct Lifetime(Weak<Shared>);

impl Lifetime {
    fn of(shared: &Arc<Shared>) -> Arc<Self> {
        Arc::new(Self(Arc::downgrade(shared)))
    }
}

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
    /// Answers all requests in place of the offer.
    custom_handler: Option<Arc<dyn ErasedHandler>>,
    /// The outermost first.
    layers: Vec<Box<Layer>>,
    #[cfg(feature = "otel")]
    telemetry: Option<Arc<Instruments>>,
    visible_tools: Option<Box<VisibleTools>>,
    completions: Completions,
    tasks: Tasks,
    connections: Mutex<Connections>,
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
    last: u64,
    open: HashMap<u64, (Connection, Arc<Outbox>)>,
}

impl Server {
    /// Creates the builder of a server with this name and version.
    pub fn builder(name: &str, version: &str) -> ServerBuilder {
        ServerBuilder::new(name, version)
    }

    /// Serves one connection until it has ended, and returns why. Dropping the future ends the connection.
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
        let number = {
            let mut connections = self.0.connections.lock();
            connections.last += 1;
            connections.last
        };
        let role = if one_client { self.0.role.clone() } else { self.0.role_for_many() };
        let setup = Setup {
            role: Role::Server(role),
            limits: self.0.limits.clone(),
            on_violation: None,
            notification_observer: None,
            layers: self.0.call_layers(),
        };
        let own_tasks = !self.0.inline_handlers && blocking::has_other_threads();
        let service = Service { server: self.0.clone(), session: one_client.then_some(number), own_tasks };
        let (connection, driver) = Connection::new(link, setup, service);
        let outbox = Arc::new(Outbox::default());
        let entry = ConnectionEntry {
            server: self.clone(),
            number,
            #[cfg(feature = "otel")]
            _session: self
                .0
                .telemetry
                .as_ref()
                .filter(|_| one_client)
                .map(|instruments| Session::of_server(instruments.clone(), connection.origin())),
        };
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
    #[cfg(feature = "otel")]
    _session: Option<Session>,
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        let server = &self.server.0;
        server.connections.lock().open.remove(&self.number);
        server.tasks.session_ended(self.number);
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

    fn each_connection(&self, change: impl Fn(&Outbox)) {
        for (_, outbox) in self.connections.lock().open.values() {
            change(outbox);
        }
    }

    /// Changes the outbox of one connection, if it still exists.
    fn with_connection(&self, connection: u64, change: impl FnOnce(&Outbox)) {
        if let Some((_, outbox)) = self.connections.lock().open.get(&connection) {
            change(outbox);
        }
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

    /// Whether the client of this request may see and call the tool.
    fn shows(&self, tool: &ToolEntry, cx: &Context) -> bool {
        self.visible_tools.as_ref().is_none_or(|is_visible| is_visible(cx, tool.description()))
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
fn decode_params<T: DeserializeOwned>(params: Option<&Payload>) -> Result<T, ErrorObject> {
    let params = params.ok_or_else(|| ErrorObject::invalid_params("`params` is missing"))?;
    params.raw().decode().map_err(|error| ErrorObject::invalid_params(error.to_string()))
}

/// Encodes a value that is part of a response.
fn encode<T: Serialize>(value: &T) -> Result<Raw, ErrorObject> {
    Raw::from_value(value).map_err(|error| ErrorObject::internal(error.to_string()))
}

/// Encodes the description of an entry as the lists contain it.
fn description_json<T: Serialize>(name: &str, description: &T) -> Result<Raw, BuildError> {
    Raw::from_value(description)
        .map_err(|error| BuildError::NotWritable { name: name.to_owned(), problem: error.to_string() })
}
