//! The task store: what other processes need to know of a task.
//!
//! Without a store a task is known to the process that runs it. With one, `shared` answers requests about a task in any process,
//! and the result of a task survives its process. This module knows no store: the crate `mcpjoin-redis` has one.
//!
//! <https://modelcontextprotocol.io/seps/2663-tasks-extension>

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use mcpjoin_proto::Raw;
use serde::{Deserialize, Serialize};

/// What a store keeps of one task.
///
/// Stores write it in a form of their own, for example as JSON by `serde`. `Debug` shows none of its content.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskRecord {
    /// The id of the task.
    pub id: Box<str>,
    /// To whom it belongs, as an opaque text. For any other owner it does not exist.
    pub owner: Box<str>,
    /// The process that runs it.
    pub process: Box<str>,
    /// When it was created, since 1970: the order of a list.
    pub created: Duration,
    /// Whether it has ended. A task that has ended never changes again.
    pub is_over: bool,
    /// The task as a list of tasks shows it, some hundred bytes.
    pub listed: Raw,
    /// Its open requests for input, or its result. [`TaskStore::list`] may leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Raw>,
}

impl TaskRecord {
    /// The record of a task that has not ended, of no process.
    #[must_use]
    pub fn new(id: &str, owner: &str, created: Duration, listed: Raw) -> Self {
        let (id, owner, process) = (id.into(), owner.into(), "".into());
        Self { id, owner, process, created, is_over: false, listed, content: None }
    }
}

/// A record, and whether its process is there.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FoundTask {
    /// The record.
    pub record: TaskRecord,
    /// Whether its process has called [`TaskStore::attend`] or [`TaskStore::create`] within the last 5 s.
    pub is_attended: bool,
}

impl FoundTask {
    /// A record, and whether its process is there.
    #[must_use]
    pub const fn new(record: TaskRecord, is_attended: bool) -> Self {
        Self { record, is_attended }
    }
}

impl fmt::Debug for TaskRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskRecord")
            .field("is_over", &self.is_over)
            .field("content", &self.content.as_ref().map(Raw::len))
            .finish_non_exhaustive()
    }
}

/// Why a store does not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskStoreError {
    /// It gives no answer, or too late. It may do so later.
    #[error("the task store is not available: {0}")]
    Unavailable(Box<str>),
    /// It does not take this record or message: it is too large, or there are too many of this owner.
    #[error("the task store takes no more: {0}")]
    Refused(Box<str>),
}

/// The answer of a store.
pub type TaskStored<'a, T> = Pin<Box<dyn Future<Output = Result<T, TaskStoreError>> + Send + 'a>>;

/// Stores tasks, so that several processes of one server can answer requests about each of them:
/// [`ServerBuilder::task_store`](crate::server::ServerBuilder::task_store).
///
/// One process runs a task, from its start to its end, and no other one ever runs it again. The end is written once
/// ([`update`](Self::update)), whichever process writes it. So a process that was taken for dead cannot change what clients were
/// told. Each process has a name, which is new in each run.
///
/// `id` and `owner` may be anything that a client sends. Dropping a future must be harmless.
pub trait TaskStore: Send + Sync + 'static {
    /// Stores a new task for this time from now, and counts as [`attend`](Self::attend) of its process.
    fn create<'a>(&'a self, task: &'a TaskRecord, keep: Duration) -> TaskStored<'a, ()>;

    /// Replaces the record of a task that has not ended, and leaves its time as it is. Returns false, and changes nothing, if the
    /// task has ended or is not there. Must be atomic: of two processes that write the end one gets true.
    fn update<'a>(&'a self, task: &'a TaskRecord) -> TaskStored<'a, bool>;

    /// Returns the task with this id. `None`: this owner has none.
    fn open<'a>(&'a self, id: &'a str, owner: &'a str) -> TaskStored<'a, Option<FoundTask>>;

    /// Returns the tasks of an owner, in any order.
    fn list<'a>(&'a self, owner: &'a str) -> TaskStored<'a, Vec<FoundTask>>;

    /// Leaves a message for a process. It is delivered at least once, or not at all if the process does not come within a minute.
    fn send<'a>(&'a self, process: &'a str, message: &'a Raw) -> TaskStored<'a, ()>;

    /// Says that this process is there, and takes its messages in their order. Called twice a second while it runs a task.
    /// A store may wait for a message, for a second at most. After 5 s without a call the process is regarded as gone.
    fn attend<'a>(&'a self, process: &'a str) -> TaskStored<'a, Vec<Raw>>;
}
