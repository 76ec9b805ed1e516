//! Tasks: calls whose result is fetched later.
//!
//! Two protocols share one store. At 2025-11-25 tasks are part of the core, and a client asks for one with its call
//! (`core`). At 2026-07-28 they are the extension `io.modelcontextprotocol/tasks`, and the server decides to return one
//! (`extension`). A tool that is marked ([`TypedTool::as_task`](super::TypedTool::as_task)) or starts a task itself
//! ([`Context::start_task`]) serves both; other clients wait for its result. Used by `service` and `context`.
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>,
//! <https://modelcontextprotocol.io/seps/2663-tasks-extension>
//!
//! Only its owner can see a task (`Owner`). A task outlives its request, and its connection if its owner does. It never
//! outlives its server, but what is known of it may, in a store that several processes share (`shared`). The limits are
//! [`MAX_TASKS`] and [`MAX_BYTES`] in total, [`MAX_TASKS_PER_OWNER`] and [`MAX_BYTES_PER_OWNER`] per owner, and [`MAX_TTL`] from
//! creation, after which a running task is cancelled.

mod core;
mod extension;
mod replica;
mod shared;
mod store;
mod task_store;
mod time;

use std::future::{Future, ready};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::TaskStatus;
use mcpjoin_proto::{ErrorObject, Raw};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout_at};

pub(super) use self::core::related;
pub use self::extension::{is_declared, undeclared};
pub(super) use self::replica::Replica;
pub(super) use self::shared::{ReadContent, SharedTasks, content};
use self::store::{Outcome, State};
pub(super) use self::store::{Task, Tasks};
pub use self::task_store::{FoundTask, TaskRecord, TaskStore, TaskStoreError, TaskStored};
use super::tools::ToolEntry;
use super::{Context, Shared};
use crate::background;
use crate::handler::ResponseFuture;

/// Maximum number of tasks of a server. Beyond that the oldest ended task is removed; if none has ended, the call is
/// refused.
const MAX_TASKS: usize = 1024;

/// Maximum number of tasks of one principal or session, by the same rule: an eighth, so that others find capacity.
const MAX_TASKS_PER_OWNER: usize = MAX_TASKS / 8;

/// Maximum bytes of the parameters and HTTP heads of running tasks and of the results of ended ones, by the same rule.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// The same for one principal or session: three messages of maximum size.
const MAX_BYTES_PER_OWNER: usize = MAX_BYTES / 8;

/// How long a task is kept from its creation, unless the client asks for less. Long enough for a person to return from
/// a break.
const MAX_TTL: Duration = Duration::from_secs(60 * 60);

/// The poll interval that clients are asked to use, in milliseconds.
const POLL_INTERVAL_MS: i64 = 1000;

/// The protocol of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Tasks of the core of 2025-11-25.
    Core,
    /// Tasks of the extension.
    Extension,
}

/// The owner of a task. No other client learns that it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Owner {
    /// The verified principal, in any session.
    Principal(Box<str>),
    /// The client of this session, until the session ends.
    Session(u64),
    /// Everyone who knows the id, where there are neither sessions nor principals. Its 128 random bits cannot be
    /// guessed.
    Bearer,
}

/// Which requests can see a task: those of the same protocol and owner. The other protocol cannot express its content.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TaskScope {
    protocol: Protocol,
    owner: Owner,
}

impl TaskScope {
    /// The verified principal that owns it.
    fn principal(&self) -> Option<&str> {
        match &self.owner {
            Owner::Principal(principal) => Some(principal),
            Owner::Session(_) | Owner::Bearer => None,
        }
    }
}

impl Protocol {
    /// Returns the protocol in which a request may use tasks; `None` if it may not.
    fn of(server: &Shared, cx: &Context) -> Option<Self> {
        if !server.offers_tasks() {
            return None;
        }
        match cx.profile() {
            profile if profile.core_tasks => cx.0.session.map(|_| Self::Core),
            profile => profile.result_type.then_some(Self::Extension),
        }
    }

    fn scope(self, cx: &Context) -> TaskScope {
        let owner = match (cx.origin().and_then(|origin| origin.principal.clone()), self, cx.0.session) {
            (Some(principal), ..) => Owner::Principal(principal),
            (None, Self::Core, Some(session)) => Owner::Session(session),
            (None, ..) => Owner::Bearer,
        };
        TaskScope { protocol: self, owner }
    }

    /// Returns the outcome of a task whose work has returned this result.
    fn end_of(self, result: Raw) -> Outcome {
        match self {
            Self::Core => core::end_of(result),
            Self::Extension => Outcome::Completed(result),
        }
    }

    /// Returns the response to a call that has become a task.
    fn reply(self, task: &Task) -> Result<Reply, ErrorObject> {
        match self {
            Self::Core => core::created(task).map(Reply::Complete),
            Self::Extension => extension::shown(task).map(Reply::Task),
        }
    }
}

/// The two functions that use tasks. They are called through pointers, which are set where tasks are declared, so that a
/// program whose servers have no tasks is linked without their code.
#[derive(Debug)]
pub(super) struct TaskMethods {
    /// Answers the call of a tool: with its result, or with a task.
    pub(super) call: fn(&Arc<Shared>, Arc<ToolEntry>, Context) -> ResponseFuture,
    /// Answers a request about tasks.
    pub(super) answer: fn(Arc<Shared>, Context) -> ResponseFuture,
}

pub(super) static METHODS: TaskMethods =
    TaskMethods { call, answer: |server, cx| Box::pin(answer(server, cx)) };

fn call(server: &Arc<Shared>, entry: Arc<ToolEntry>, cx: Context) -> ResponseFuture {
    let started = match Protocol::of(server, &cx) {
        Some(Protocol::Core) => core::call(server, &entry, &cx),
        Some(Protocol::Extension) => extension::call(server, &entry, &cx),
        None => Ok(None),
    };
    match started {
        Ok(Some(started)) => started,
        Ok(None) => entry.call(cx),
        Err(error) => Box::pin(ready(Err(error))),
    }
}

async fn answer(server: Arc<Shared>, cx: Context) -> Result<Reply, ErrorObject> {
    match Protocol::of(&server, &cx) {
        Some(Protocol::Core) => core::answer(&server, cx).await,
        Some(Protocol::Extension) => extension::answer(&server, &cx).await,
        None => Err(ErrorObject::method_not_found(cx.0.method.as_str())),
    }
}

/// Whether this server, or one that is mounted on it, keeps a task with this id for the client of the request, passes the
/// request to the replica that does, or asks a store for it.
pub(super) fn keeps(server: &Shared, cx: &Context, id: &str) -> bool {
    let own = Protocol::of(server, cx).is_some_and(|protocol| {
        let scope = protocol.scope(cx);
        server.tasks.find(id, &scope).is_some()
            || protocol == Protocol::Extension && replica::owner(server, id).is_some()
            || server.shared_tasks(&scope).is_some() && server.keys.task_owner(id).is_some()
    });
    own || server.mounted().iter().any(|server| keeps(server, cx, id))
}

/// Returns the task with this id, if it is in scope. The error does not tell a removed task from a task of another
/// owner.
async fn find(server: &Shared, id: &str, scope: &TaskScope) -> Result<Arc<Task>, ErrorObject> {
    let (found, text) = match server.shared_tasks(scope) {
        // The store is not asked for what none of its processes has issued.
        Some((shared, owner)) if server.keys.task_owner(id).is_some() => {
            let found = shared.find(server, id, scope, &owner).await.map_err(shared::failed)?;
            (found, "unknown task: it does not exist, or is no longer stored")
        }
        _ if server.has_issued(id) => {
            (server.tasks.find(id, scope), "unknown task: this server process does not store it")
        }
        _ => (server.tasks.find(id, scope), "unknown task: this server did not issue the id"),
    };
    found.ok_or_else(|| ErrorObject::invalid_params(text))
}

/// Ends a task, once. Returns whether this call has ended it.
async fn end(server: &Shared, task: &Task, end: Outcome) -> Result<bool, ErrorObject> {
    match server.shared_tasks(&task.scope) {
        Some(_) if task.is_over() => Ok(false),
        Some((shared, owner)) => shared.end(owner, task, end).await.map_err(shared::failed),
        None => Ok(task.end(end)),
    }
}

/// Starts work as a task, which is kept for `ttl`. Returns the response with the task.
async fn start<Fut>(
    server: &Arc<Shared>,
    cx: &Context,
    protocol: Protocol,
    ttl: Duration,
    work: impl FnOnce(Context) -> Fut,
) -> Result<Reply, ErrorObject>
where
    Fut: Future<Output = Result<Reply, ErrorObject>> + Send + 'static,
{
    let beginning = insert(server, cx, protocol, ttl)?;
    SharedTasks::begin(server, &beginning.task).await?;
    beginning.launch(cx, work)
}

/// Starts the call of a tool as a task.
fn start_call(
    server: &Arc<Shared>,
    cx: &Context,
    protocol: Protocol,
    ttl: Duration,
    entry: &Arc<ToolEntry>,
) -> ResponseFuture {
    let (server, cx, entry) = (server.clone(), cx.clone(), entry.clone());
    Box::pin(async move { start(&server, &cx, protocol, ttl, |cx| entry.call(cx)).await })
}

/// Starts a task from within a handler, for clients of the extension.
pub(super) async fn start_from_handler<Fut>(
    server: &Arc<Shared>,
    cx: &Context,
    work: impl FnOnce(Context) -> Fut,
) -> Result<Reply, ErrorObject>
where
    Fut: Future<Output = Result<Reply, ErrorObject>> + Send + 'static,
{
    start(server, cx, Protocol::Extension, MAX_TTL, work).await
}

/// Creates a task, and adds it to those of the server.
fn insert<'a>(
    server: &'a Arc<Shared>,
    cx: &Context,
    protocol: Protocol,
    ttl: Duration,
) -> Result<Beginning<'a>, ErrorObject> {
    // What its context keeps while it runs.
    let asked = cx.params().map_or(0, |params| params.raw().len()) + cx.head_bytes();
    let replica = server.replica.as_ref().map_or("", |replica| &*replica.name);
    let mut task = Task::new(server.keys.task_id(replica)?, protocol.scope(cx), cx.0.session, ttl, asked);
    task.process = server.shared_tasks(&task.scope).map(|(shared, _)| shared.process().into());
    let task = Arc::new(task);
    if server.tasks.insert(&task)? {
        background::spawn(expire_tasks(Arc::downgrade(server)));
    }
    Ok(Beginning { server, task, runs: false })
}

/// A task whose work does not run yet. Dropping it forgets the task: the store does not take it, its request was cancelled, or
/// its handler has panicked.
struct Beginning<'a> {
    server: &'a Arc<Shared>,
    task: Arc<Task>,
    runs: bool,
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        if self.runs {
            return;
        }
        self.server.tasks.remove(&self.task);
        let (server, task) = (self.server.clone(), self.task.clone());
        let forgotten = Outcome::Cancelled("the work of this task has not begun".into());
        if task.process.is_none() {
            task.end(forgotten);
        } else if Handle::try_current().is_ok() {
            // The store may have it, and would count it.
            background::spawn(async move {
                // If the store fails, the task stays there until it expires.
                let _ = end(&server, &task, forgotten).await;
            });
        }
    }
}

impl Beginning<'_> {
    /// Runs the work of a task that is known to all who may ask for it.
    fn launch<Fut>(mut self, cx: &Context, work: impl FnOnce(Context) -> Fut) -> Result<Reply, ErrorObject>
    where
        Fut: Future<Output = Result<Reply, ErrorObject>> + Send + 'static,
    {
        let (server, task) = (self.server.clone(), self.task.clone());
        tracing::debug!(target: "mcpjoin", task = task.shown(), "a task has begun");
        let work = work(cx.in_task(task.clone()));
        let work = {
            let task = task.clone();
            async move {
                let end = match AssertUnwindSafe(work).catch_unwind().await {
                    Err(_) => Outcome::Failed(ErrorObject::internal("the handler of this task failed")),
                    Ok(Ok(Reply::Complete(result))) => task.scope.protocol.end_of(result),
                    Ok(Ok(_)) => Outcome::Failed(ErrorObject::internal(
                        "a task asks through its context, and does not answer with a question",
                    )),
                    Ok(Err(error)) => Outcome::Failed(error),
                };
                match server.shared_tasks(&task.scope) {
                    Some((shared, owner)) => shared.finish(owner, &task, end).await,
                    None => {
                        task.end(end);
                    }
                }
            }
        };
        // The first state: the task may end before the client has received it.
        let reply = task.scope.protocol.reply(&task)?;
        let states = task.watch();
        self.runs = true;
        // The task is in the store, and the first part of its handler has run. It may have been cancelled.
        task.set_abort_handle(background::spawn(work).abort_handle());
        background::spawn(notify(Arc::downgrade(self.server), task, states));
        Ok(reply)
    }
}

/// Removes expired tasks, as long as there are tasks. One for all tasks, so a task that is removed early leaves nothing
/// behind.
async fn expire_tasks(server: Weak<Shared>) {
    loop {
        let Some(there) = server.upgrade() else { return };
        let Some(next) = there.tasks.next_expiry() else { return };
        let expiry_changed = there.tasks.expiry_changed();
        drop(there);
        tokio::select! {
            () = sleep_until(next) => {}
            () = expiry_changed.notified() => {}
        }
    }
}

/// Notifies clients, and the store of the task, of every change of a task until it ends.
async fn notify(server: Weak<Shared>, task: Arc<Task>, mut states: watch::Receiver<State>) {
    let mut last_status = TaskStatus::Working;
    let mut due = task.expires;
    loop {
        let changed = timeout_at(due, states.changed()).await;
        let Some(server) = server.upgrade() else { return };
        match changed {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            // Ends the task.
            Err(_) => server.tasks.purge(),
        }
        due = task.expires;
        if let Some((shared, owner)) = server.shared_tasks(&task.scope) {
            due = shared.keep(owner, &task).await;
        }
        match task.scope.protocol {
            Protocol::Core => core::notify(&server, &task, &mut last_status),
            Protocol::Extension => extension::notify(&server, &task),
        }
        if task.is_over() {
            match task.process {
                Some(_) => server.tasks.remove(&task),
                None => server.tasks.keep_result(&task),
            }
            break;
        }
    }
    tracing::debug!(target: "mcpjoin", task = task.shown(), "a task is over");
}

#[cfg(test)]
mod tests;
