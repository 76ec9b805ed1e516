//! A server from plain functions.
//!
//! A [`Server`] is described once ([`Server::builder`]) and serves any number of connections at once, in both eras
//! and all revisions. Each handler is written once: what differs between the revisions is put in and taken out
//! around it. It runs in the task of its connection, beside all other handlers of that connection; see
//! [`blocking`] and [`spawned`] for those that keep a thread busy.
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

mod asking;
mod blocking;
mod builder;
pub(crate) mod capability;
mod completion;
mod context;
mod emulated_rounds;
mod error;
mod handle;
#[cfg(feature = "http")]
mod http;
pub(crate) mod input;
mod list;
pub(crate) mod listening;
mod output;
mod prompts;
mod resources;
pub(crate) mod schema;
mod seal;
mod service;
mod subscription;
mod task;
mod template;
pub(crate) mod tools;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::task::{Context as TaskContext, Poll};

use mcpjoin_proto::session::{Asker, CloseCause, Limits, Role, ServerRole};
use mcpjoin_proto::{Profile, Raw};
use serde::Serialize;
use tokio::task::JoinHandle;

pub use blocking::{Offloaded, blocking, spawned};
pub use builder::{BuildError, ServerBuilder};
pub use context::Context;
pub use error::HandlerError;
pub use handle::{ChangeError, ServerHandle};
pub use input::{InputError, PendingInput};
pub use output::{CompletionOutput, Json, PromptOutput, ResourceOutput, ToolOutput, ToolReply};
pub use prompts::PromptArguments;
pub use resources::ReadRequest;
/// What derives the schemas of arguments and results, in the version that this crate uses.
pub use schemars;
pub use seal::StateKey;
pub use template::Variables;
pub use tools::{NoArguments, TypedTool, tool};

use self::completion::Completions;
use self::list::List;
use self::prompts::PromptEntry;
use self::resources::{ResourceEntry, TemplateEntry};
use self::seal::Keys;
use self::service::Service;
use self::subscription::Outbox;
use self::task::Tasks;
use self::tools::ToolEntry;
use crate::connection::{Connection, Driver, Setup};
use crate::handler::ErasedHandler;
use crate::link::Link;

/// A server: what it offers, for any number of connections. Cheap to clone.
///
/// Its tasks ([`ServerBuilder::tasks`]) are cancelled when the last clone and the last connection are gone.
#[derive(Clone)]
pub struct Server(Arc<Shared>, #[expect(dead_code, reason = "held for what its drop does")] Arc<Lifetime>);

/// Held by each clone of a server and by each connection. The work of a task holds the server as well, through its context;
/// that alone must not keep the task running.
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

/// What all connections of a server share.
struct Shared {
    role: Arc<ServerRole>,
    limits: Arc<Limits>,
    page_size: usize,
    offer: RwLock<Offer>,
    /// Who answers in place of the offer.
    custom_handler: Option<Arc<dyn ErasedHandler>>,
    completions: Completions,
    tasks: Tasks,
    connections: Mutex<Connections>,
    /// Seal the states that clients keep, and sign the ids of tasks.
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
    open: BTreeMap<u64, (Connection, Arc<Outbox>)>,
}

impl Server {
    /// Begins the description of a server with that name and version of its own.
    pub fn builder(name: &str, version: &str) -> ServerBuilder {
        ServerBuilder::new(name, version)
    }

    /// Serves a peer until the connection is over, and says why it is. Dropping the future ends the connection.
    pub async fn serve(&self, link: Link) -> CloseCause {
        let (connection, serving) = self.open(link, true);
        // In a task, also here: a runtime with several threads polls the future that it was started with on a thread
        // that has to be woken for everything that comes in (measured: 1.2 times the CPU time per call).
        let _task = AbortOnDrop(tokio::spawn(serving));
        connection.closed().await
    }

    /// Serves a peer in a task of the current runtime, as long as the connection lives: with or without the handle.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn connect(&self, link: Link) -> Connection {
        let (connection, serving) = self.open(link, true);
        tokio::spawn(serving);
        connection
    }

    /// To change what it offers, and to tell of changes.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        ServerHandle::new(self.0.clone())
    }

    /// `one_client`: all that comes over the link comes from one client.
    fn open(&self, link: Link, one_client: bool) -> (Connection, Serving) {
        let number = {
            let mut connections = self.0.connections();
            connections.last += 1;
            connections.last
        };
        let entry = ConnectionEntry { server: self.clone(), number };
        let role = if one_client { self.0.role.clone() } else { self.0.role_for_many() };
        let setup = Setup {
            role: Role::Server(role),
            limits: self.0.limits.clone(),
            on_violation: None,
            notification_observer: None,
        };
        let service = Service { server: self.0.clone(), session: one_client.then_some(number) };
        let (connection, driver) = Connection::new(link, setup, service);
        let outbox = Arc::new(Outbox::default());
        self.0.connections().open.insert(number, (connection.clone(), outbox.clone()));
        (connection.clone(), Serving { driver, connection, outbox, place: None, _entry: entry })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("info", &self.0.role.info).finish_non_exhaustive()
    }
}

/// A task that ends when nobody waits for it any more.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection that is served, until it is over. Written out, for there may be ten thousands of them at rest, and an
/// `async` function would keep the driver three times.
struct Serving {
    driver: Driver,
    connection: Connection,
    outbox: Arc<Outbox>,
    /// The place of the outbox among those who wait for room.
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

/// The entry of a connection in the server's list of them.
struct ConnectionEntry {
    server: Server,
    number: u64,
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        let server = &self.server.0;
        server.connections().open.remove(&self.number);
        server.tasks.session_ended(self.number);
    }
}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, Offer> {
        self.offer.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Offer> {
        self.offer.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn each_connection(&self, change: impl Fn(&Outbox)) {
        for (_, outbox) in self.connections().open.values() {
            change(outbox);
        }
    }

    /// One connection, if it is still there.
    fn with_connection(&self, connection: u64, change: impl FnOnce(&Outbox)) {
        if let Some((_, outbox)) = self.connections().open.get(&connection) {
            change(outbox);
        }
    }

    /// What it declares where it cannot tell its clients apart: no tasks of the core, which everybody could list.
    fn role_for_many(&self) -> Arc<ServerRole> {
        if self.role.capabilities.tasks.is_none() {
            return self.role.clone();
        }
        let mut role = (*self.role).clone();
        role.capabilities.tasks = None;
        Arc::new(role)
    }

    fn offers_tasks(&self) -> bool {
        let extensions = self.role.capabilities.extensions.as_ref();
        extensions.is_some_and(|known| known.contains_key(mcpjoin_proto::types::task::EXTENSION))
    }

    /// Whether a request of that client may be answered with a task.
    fn may_return_task(&self, profile: &Profile, asker: Option<&Arc<Asker>>) -> bool {
        profile.result_type && self.offers_tasks() && asker.is_some_and(|asker| task::is_declared(asker))
    }
}

/// A description as the lists show it.
fn description_json<T: Serialize>(name: &str, description: &T) -> Result<Raw, BuildError> {
    Raw::from_value(description)
        .map_err(|error| BuildError::NotWritable { name: name.to_owned(), problem: error.to_string() })
}
