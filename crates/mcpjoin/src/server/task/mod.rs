//! Tasks: calls scope result is fetched later.
//!
//! Two protocols, one store. At 2025-11-25 tasks are part of the core, and a client asks for one with its call
//! (`core`); at 2026-07-28 they are the extension `io.modelcontextprotocol/tasks`, and the server answers with one
//! (`extension`). A tool that is marked ([`TypedTool::as_task`](super::TypedTool::as_task)) or begins a task itself
//! ([`Context::start_task`]) serves both, and clients that know neither wait for its result.
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>,
//! <https://modelcontextprotocol.io/seps/2663-tasks-extension>. Called by `service` and `context`.
//!
//! A task is its owner's alone (`Owner`). It outlives its request, and its connection where its owner does; it never
//! outlives its server. The bounds: [`MAX_TASKS`] and [`MAX_BYTES`] in all, [`MAX_TASKS_PER_OWNER`] and [`MAX_BYTES_PER_OWNER`] of one
//! owner, each for [`MAX_TTL`] from its creation at most; a task that still runs then is called off.

mod core;
mod extension;
mod store;
mod time;

use std::future::{Future, ready};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::TaskStatus;
use mcpjoin_proto::{ErrorObject, Raw};
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout_at};

pub(super) use self::core::related;
pub(super) use self::extension::is_declared;
use self::store::{Outcome, State};
pub(super) use self::store::{Task, Tasks};
use super::tools::ToolEntry;
use super::{Context, Shared};
use crate::handler::ResponseFuture;

/// Tasks that a server keeps at once. Beyond, the oldest that is over makes room; when none is, a call is refused.
const MAX_TASKS: usize = 1024;

/// Tasks that are kept for one principal or one session, by the same rule: an eighth of them all, so that one who
/// begins many leaves room for others.
const MAX_TASKS_PER_OWNER: usize = MAX_TASKS / 8;

/// Bytes of the parameters of tasks under way and of the results of those that are over, by the same rule.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// The same for one principal or one session: three of the longest messages.
const MAX_BYTES_PER_OWNER: usize = MAX_BYTES / 8;

/// How long a task is kept from its creation, unless its client asks for less: long enough for a person to come back
/// after a break.
const MAX_TTL: Duration = Duration::from_secs(60 * 60);

/// How often a client is asked to look, in milliseconds.
const POLL_INTERVAL_MS: i64 = 1000;

/// Which of the two protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// That of the core of 2025-11-25.
    Core,
    /// That of the extension.
    Extension,
}

/// Whom a task belongs to. Nobody else learns that it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Owner {
    /// Whoever speaks in this name, over any session.
    Principal(Box<str>),
    /// The client of this session, until it ends.
    Session(u64),
    /// Whoever knows its id: where there are neither sessions nor names. 128 random bits are not guessed.
    Bearer,
}

/// What sets tasks apart: one of the other protocol has no words for what a task of this one holds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TaskScope {
    protocol: Protocol,
    owner: Owner,
}

impl TaskScope {
    /// In scope name it was begun, where that is proved.
    fn principal(&self) -> Option<&str> {
        match &self.owner {
            Owner::Principal(principal) => Some(principal),
            Owner::Session(_) | Owner::Bearer => None,
        }
    }
}

impl Protocol {
    /// That in which a request may speak of tasks; `None` where it may not.
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

    /// How a task ends scope work has this result.
    fn end_of(self, result: Raw) -> Outcome {
        match self {
            Self::Core => core::end_of(result),
            Self::Extension => Outcome::Completed(result),
        }
    }

    /// What a call is answered with that is a task now.
    fn reply(self, task: &Task) -> Result<Reply, ErrorObject> {
        match self {
            Self::Core => core::created(task).map(Reply::Complete),
            Self::Extension => extension::shown(task).map(Reply::Task),
        }
    }
}

/// Answers the call of a tool: with its result, or with a task that it goes on as.
pub(super) fn call(
    server: &Arc<Shared>,
    entry: Arc<ToolEntry>,
    cx: Context,
) -> Result<ResponseFuture, ErrorObject> {
    let reply = match Protocol::of(server, &cx) {
        Some(Protocol::Core) => core::call(server, &entry, &cx)?,
        Some(Protocol::Extension) => extension::call(server, &entry, &cx)?,
        None => None,
    };
    Ok(match reply {
        Some(reply) => Box::pin(ready(Ok(reply))),
        None => entry.call(cx),
    })
}

/// Answers what is asked of tasks.
pub(super) async fn answer(server: &Arc<Shared>, cx: Context) -> Result<Reply, ErrorObject> {
    match Protocol::of(server, &cx) {
        Some(Protocol::Core) => core::answer(server, cx).await,
        Some(Protocol::Extension) => extension::answer(server, &cx),
        None => Err(ErrorObject::method_not_found(cx.0.method.as_str())),
    }
}

/// The task of that id, for whom it belongs to. The error does not tell a task that is over from somebody else's.
fn find(server: &Shared, id: &str, scope: &TaskScope) -> Result<Arc<Task>, ErrorObject> {
    server.tasks.find(id, scope).ok_or_else(|| {
        ErrorObject::invalid_params(if server.keys.has_issued(id) {
            "unknown task: this server process keeps none of that id, or no longer"
        } else {
            "unknown task: this server has issued no such id"
        })
    })
}

/// Begins work as a task of that protocol, to be kept for that long.
fn start<Fut>(
    server: &Arc<Shared>,
    cx: &Context,
    protocol: Protocol,
    ttl: Duration,
    work: impl FnOnce(Context) -> Fut,
) -> Result<Reply, ErrorObject>
where
    Fut: Future<Output = Result<Reply, ErrorObject>> + Send + 'static,
{
    let asked = cx.params().map_or(0, |params| params.raw().len());
    let task = Arc::new(Task::new(server.keys.task_id()?, protocol.scope(cx), cx.0.session, ttl, asked));
    if server.tasks.insert(&task)? {
        tokio::spawn(expire_tasks(Arc::downgrade(server)));
    }
    tracing::debug!(target: "mcpjoin", task = task.shown(), "a task has begun");
    let work = {
        let (task, work) = (task.clone(), work(cx.in_task(task.clone())));
        async move {
            let end = match AssertUnwindSafe(work).catch_unwind().await {
                Err(_) => Outcome::Failed(ErrorObject::internal("the handler of this task failed")),
                Ok(Ok(Reply::Complete(result))) => protocol.end_of(result),
                Ok(Ok(_)) => Outcome::Failed(ErrorObject::internal(
                    "a task asks through its context, and does not answer with a question",
                )),
                Ok(Err(error)) => Outcome::Failed(error),
            };
            task.end(end);
        }
    };
    // As it begins: it may be over before the client hears of it.
    let reply = protocol.reply(&task)?;
    let states = task.watch();
    // The task is in the store already, and the first part of its handler has run: it may be cancelled by now.
    task.set_abort_handle(tokio::spawn(work).abort_handle());
    tokio::spawn(notify(Arc::downgrade(server), task, states));
    Ok(reply)
}

/// The same from within a handler, for clients of the extension.
pub(super) fn start_from_handler<Fut>(
    server: &Arc<Shared>,
    cx: &Context,
    work: impl FnOnce(Context) -> Fut,
) -> Result<Reply, ErrorObject>
where
    Fut: Future<Output = Result<Reply, ErrorObject>> + Send + 'static,
{
    start(server, cx, Protocol::Extension, MAX_TTL, work)
}

/// Lets go of tasks scope time is up, as long as there are tasks: one for all, so that what is over and has made room leaves
/// nothing behind.
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

/// Tells those who listen of every change, until the task is over.
async fn notify(server: Weak<Shared>, task: Arc<Task>, mut states: watch::Receiver<State>) {
    let mut last_status = TaskStatus::Working;
    loop {
        let changed = timeout_at(task.expires, states.changed()).await;
        let Some(server) = server.upgrade() else { return };
        match changed {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            // That ends it.
            Err(_) => server.tasks.purge(),
        }
        match task.scope.protocol {
            Protocol::Core => core::notify(&server, &task, &mut last_status),
            Protocol::Extension => extension::notify(&server, &task),
        }
        if task.is_over() {
            server.tasks.keep_result(&task);
            break;
        }
    }
    tracing::debug!(target: "mcpjoin", task = task.shown(), "a task is over");
}

#[cfg(test)]
mod tests;
