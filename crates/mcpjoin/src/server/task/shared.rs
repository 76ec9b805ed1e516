//! Tasks that several processes know, through a [`TaskStore`].
//!
//! Used by the rest of `task` for owners that another process can recognize: a principal, or any client that has the id. A task of a
//! session is known to the process of the session alone. The store decides what a task is: its end is written there first, once,
//! by the process that runs it, by one that cancels it, or by one that finds its process gone. So no client sees a task that has
//! ended go on, and what a process that was taken for dead writes later is refused. A task is never run by a second process.
//!
//! A process that runs tasks asks the store for its messages twice a second (answers, and tasks that others have ended), which also
//! says that it is there. Such a look costs less than a connection that waits for messages: clients look once a second as well, and
//! [`ServerBuilder::replica`](crate::server::ServerBuilder::replica) needs a way from each process to each other one.
//! <https://modelcontextprotocol.io/seps/2663-tasks-extension>

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mcpjoin_proto::session::{CallError, Reply};
use mcpjoin_proto::types::InputRequests;
use mcpjoin_proto::{ErrorObject, Raw};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::super::{InputError, Shared, encode, encode_value};
use super::store::{Outcome, State, Task, beginning};
use super::task_store::{FoundTask, TaskRecord, TaskStore, TaskStoreError};
use super::{MAX_TTL, Owner, Protocol, TaskScope, core};
use crate::background;
use crate::seal::{random_name, unix_time};
use crate::warning_rate::WarningRate;

/// How often a process takes its messages, and looks after a task of another one whose result a client waits for.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The time between two attempts to write a state when the store is not available.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The error of a task whose process is gone.
const LOST: &str = "the process of this task has ended, or has lost the task store; the task may have had effects, and is not run again";

/// The tasks that this process shares with others.
pub(in super::super) struct SharedTasks {
    store: Arc<dyn TaskStore>,
    read: ReadContent,
    /// The name of this process, new in each run.
    process: Box<str>,
    /// A task has begun, or the server is gone.
    begun: Arc<Notify>,
    /// Whether a task attends to the messages.
    is_attended: AtomicBool,
    warnings: WarningRate<&'static str>,
}

/// Reads the task in a record. Called through a pointer that `ServerBuilder::task_store` sets: a server without a store then links
/// neither it nor the types that it reads.
pub(in super::super) type ReadContent = fn(&TaskRecord) -> Option<Content>;

/// A task in a record.
#[derive(Serialize, Deserialize)]
pub(in super::super) struct Content {
    updated_at: String,
    ttl: Duration,
    questions: InputRequests,
    end: Option<Outcome>,
}

/// What a process tells the one that runs a task: answers; without them, that the task has ended.
#[derive(Serialize, Deserialize)]
struct Message {
    task: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    answers: Vec<(String, Result<Raw, ErrorObject>)>,
}

/// The error of a request that needs the store. Not a conversion: a public one would make `?` ambiguous in other crates.
pub(super) fn failed(error: TaskStoreError) -> ErrorObject {
    ErrorObject::internal(error.to_string())
}

impl Shared {
    /// Returns the store of the tasks in this scope, and their owner there; `None` if only this process knows them.
    pub(super) fn shared_tasks(&self, scope: &TaskScope) -> Option<(&SharedTasks, Box<str>)> {
        let shared = self.shared_tasks.as_ref()?;
        let protocol = match scope.protocol {
            Protocol::Core => "core",
            Protocol::Extension => "extension",
        };
        let principal = match &scope.owner {
            Owner::Principal(principal) => Some(principal),
            Owner::Bearer => None,
            Owner::Session(_) => return None,
        };
        // Servers of other names may use the same store.
        let owner = Raw::from_value(&(&*self.role.info.name, protocol, principal)).ok()?;
        Some((shared, owner.as_str().into()))
    }
}

impl SharedTasks {
    pub(in super::super) fn new(store: Arc<dyn TaskStore>, read: ReadContent) -> Result<Self, ErrorObject> {
        let (process, begun, is_attended) = (random_name()?.into(), Arc::default(), AtomicBool::new(false));
        Ok(Self { store, read, process, begun, is_attended, warnings: WarningRate::default() })
    }

    /// The name of this process.
    pub(super) fn process(&self) -> &str {
        &self.process
    }

    /// Stores a new task.
    pub(super) async fn begin(server: &Arc<Shared>, task: &Task) -> Result<(), ErrorObject> {
        let Some((shared, owner)) = server.shared_tasks(&task.scope) else { return Ok(()) };
        let record = shared.record(owner, task, &task.state())?;
        shared.store.create(&record, task.ttl).await.map_err(failed)?;
        if !shared.is_attended.swap(true, Ordering::Relaxed) {
            background::spawn(attend(Arc::downgrade(server)));
        }
        shared.begun.notify_one();
        Ok(())
    }

    fn record(&self, owner: Box<str>, task: &Task, state: &State) -> Result<TaskRecord, ErrorObject> {
        let content = Content {
            updated_at: state.updated_at.clone(),
            ttl: task.ttl,
            questions: state.questions.clone(),
            end: state.end.clone(),
        };
        Ok(TaskRecord {
            id: task.id.as_str().into(),
            owner,
            process: task.process.clone().unwrap_or_else(|| self.process.clone()),
            created: task.created,
            is_over: state.end.is_some(),
            listed: encode(&core::listed(task, state))?,
            content: Some(encode_value(&content)?),
        })
    }

    /// Writes the state of a task that runs here and has changed. Returns when to do it again: when its time is up, unless the
    /// store is not available.
    pub(super) async fn keep(&self, owner: Box<str>, task: &Task) -> Instant {
        if task.is_over() {
            return task.expires;
        }
        let record = self.record(owner.clone(), task, &task.state()).map_err(unwritable);
        let written = match record {
            Ok(record) => self.store.update(&record).await,
            Err(error) => Err(error),
        };
        match written {
            Ok(true) => {}
            Ok(false) => {
                // It is refused when it writes the end at the latest.
                let _ = self.refresh(&owner, task).await;
            }
            Err(TaskStoreError::Unavailable(_)) => return task.expires.min(Instant::now() + RETRY_INTERVAL),
            // No client can answer requests for input that the store does not have.
            Err(error) => self.finish(owner, task, Outcome::Failed(failed(error))).await,
        }
        task.expires
    }

    /// Ends a task in the store, then here, then in its process. Returns whether this call has ended it; otherwise it has the end
    /// that the store knows.
    pub(super) async fn end(
        &self,
        owner: Box<str>,
        task: &Task,
        end: Outcome,
    ) -> Result<bool, TaskStoreError> {
        let record = self.record(owner, task, &State::ended(end.clone())).map_err(unwritable)?;
        if !self.store.update(&record).await? {
            self.refresh(&record.owner, task).await?;
            return Ok(false);
        }
        task.end(end);
        if record.process != self.process {
            // It may have ended. If not, it is refused when it writes the end.
            let _ = self.send(task, Vec::new()).await;
        }
        Ok(true)
    }

    /// Ends a task whose work has ended, as soon as the store is there.
    pub(super) async fn finish(&self, owner: Box<str>, task: &Task, mut end: Outcome) {
        let mut is_refused = false;
        while !task.is_over() {
            match self.end(owner.clone(), task, end.clone()).await {
                Ok(_) => return,
                Err(TaskStoreError::Unavailable(_)) => sleep(RETRY_INTERVAL).await,
                Err(TaskStoreError::Refused(_)) if is_refused => {
                    task.end(end.clone());
                }
                Err(error) => {
                    is_refused = true;
                    end = Outcome::Failed(failed(error));
                }
            }
        }
    }

    /// Ends a task here that has ended in the store, or is not there any more.
    async fn refresh(&self, owner: &str, task: &Task) -> Result<(), TaskStoreError> {
        let found = self.store.open(&task.id, owner).await?;
        let end = match found {
            Some(found) if !found.record.is_over => return Ok(()),
            Some(found) => (self.read)(&found.record).and_then(|content| content.end),
            None => None,
        };
        task.end(end.unwrap_or(Outcome::Cancelled("the task store has lost this task".into())));
        Ok(())
    }

    /// Returns a task: the one that runs here, or what the store knows of it.
    pub(super) async fn find(
        &self,
        server: &Shared,
        id: &str,
        scope: &TaskScope,
        owner: &str,
    ) -> Result<Option<Arc<Task>>, TaskStoreError> {
        match self.store.open(id, owner).await? {
            Some(found) => self.found(server, found, scope).await,
            None => Ok(None),
        }
    }

    async fn found(
        &self,
        server: &Shared,
        found: FoundTask,
        scope: &TaskScope,
    ) -> Result<Option<Arc<Task>>, TaskStoreError> {
        let FoundTask { record, is_attended } = found;
        let here = server.tasks.find(&record.id, scope);
        if let (Some(task), false) = (here, record.is_over) {
            return Ok(Some(task));
        }
        let Some(content) = (self.read)(&record) else {
            self.warn(&record.id, "another version has written what the store has of a task");
            return Ok(None);
        };
        let task = stored(&record, content, scope);
        // A task of this process that does not run here has ended without a word.
        if !record.is_over && (!is_attended || record.process == self.process) {
            self.warn(&task.id, "a task has failed, because its process is gone");
            self.end(record.owner, &task, Outcome::Failed(ErrorObject::internal(LOST))).await?;
        }
        Ok(Some(Arc::new(task)))
    }

    fn warn(&self, id: &str, problem: &'static str) {
        if let Some(left_out) = self.warnings.due(problem) {
            tracing::warn!(target: "mcpjoin", task = beginning(id), left_out, "{problem}");
        }
    }

    /// Returns the tasks of an owner as a list shows them, in the order of their creation, with their numbers.
    pub(super) async fn list(
        &self,
        server: &Shared,
        scope: &TaskScope,
        owner: &str,
    ) -> Result<Vec<(u64, Arc<Raw>)>, ErrorObject> {
        let mut shown = Vec::new();
        for found in self.store.list(owner).await.map_err(failed)? {
            let number = u64::try_from(found.record.created.as_micros()).unwrap_or(u64::MAX);
            let FoundTask { record, is_attended } = &found;
            let mut listed = record.listed.clone();
            if !record.is_over && !is_attended {
                let found = self.find(server, &record.id, scope, owner).await.map_err(failed)?;
                let Some(task) = found else { continue };
                listed = encode(&core::listed(&task, &task.state()))?;
            }
            shown.push((number, Arc::new(listed)));
        }
        shown.sort_by_key(|(number, _)| *number);
        Ok(shown)
    }

    async fn send(
        &self,
        task: &Task,
        answers: Vec<(String, Result<Raw, ErrorObject>)>,
    ) -> Result<(), TaskStoreError> {
        let Some(process) = &task.process else { return Ok(()) };
        let message = Message { task: task.id.clone(), answers };
        self.store.send(process, &encode_value(&message).map_err(unwritable)?).await
    }

    /// Whether a task runs in this process.
    pub(super) fn runs(&self, task: &Task) -> bool {
        task.process.as_ref().is_none_or(|process| *process == self.process)
    }

    /// Passes the answers that a task of another process was given here to that process.
    pub(super) async fn pass_answers(&self, task: &Task) -> Result<(), TaskStoreError> {
        let answers: Vec<_> = task.take_answers();
        if self.runs(task) || answers.is_empty() {
            return Ok(());
        }
        self.send(task, answers.into_iter().map(|(name, answer)| (name, answer.map_err(written))).collect())
            .await
    }

    /// Keeps a task of another process as the store knows it, and passes its answers on, until it has ended.
    pub(super) async fn follow(&self, server: &Shared, task: &Task, owner: &str) {
        let mut answered: Vec<String> = Vec::new();
        let mut unsent = Vec::new();
        while !task.is_over() && Instant::now() < task.expires {
            let _ = tokio::time::timeout(LOOK_INTERVAL, task.answered()).await;
            for (name, answer) in task.take_answers() {
                answered.push(name.clone());
                unsent.push((name, answer.map_err(written)));
            }
            // What fails is tried again: the client waits for it.
            if !unsent.is_empty() && self.send(task, unsent.clone()).await.is_ok() {
                unsent.clear();
            }
            match self.find(server, &task.id, &task.scope, owner).await {
                Ok(Some(fresh)) => task.take_state(&fresh.state(), &answered),
                Ok(None) => break,
                Err(_) => {}
            }
        }
        task.end(Outcome::Cancelled("the time of this task is up".into()));
    }
}

impl Drop for SharedTasks {
    fn drop(&mut self) {
        self.begun.notify_one();
    }
}

/// Waits for the result of a task of another process.
pub(super) async fn result(
    server: &Shared,
    task: &Task,
    waiting: impl Future<Output = Result<Reply, ErrorObject>>,
) -> Result<Reply, ErrorObject> {
    let Some((shared, owner)) = server.shared_tasks(&task.scope) else { return waiting.await };
    if shared.runs(task) || task.is_over() {
        return waiting.await;
    }
    let follow = async {
        shared.follow(server, task, &owner).await;
        std::future::pending().await
    };
    tokio::select! {
        biased;
        reply = waiting => reply,
        reply = follow => reply,
    }
}

pub(in super::super) fn content(record: &TaskRecord) -> Option<Content> {
    record.content.as_ref()?.decode().ok()
}

/// Returns the task that a record describes.
fn stored(record: &TaskRecord, content: Content, scope: &TaskScope) -> Task {
    let mut task = Task::new(record.id.clone().into(), scope.clone(), None, content.ttl, 0);
    task.created = record.created;
    task.process = Some(record.process.clone());
    let left = record.created.saturating_add(content.ttl).saturating_sub(unix_time());
    task.expires = Instant::now() + left.min(MAX_TTL);
    task.set_state(State::new(content.updated_at, content.questions, content.end));
    task
}

/// The error of an answer, for the process of the task.
fn written(error: InputError) -> ErrorObject {
    match error {
        InputError::Failed(CallError::Remote(error)) | InputError::Refused(error) => error,
        error => ErrorObject::internal(error.to_string()),
    }
}

fn unwritable(error: ErrorObject) -> TaskStoreError {
    TaskStoreError::Refused(error.message.into())
}

/// Takes the messages of this process while it runs tasks, until the server is gone.
async fn attend(server: Weak<Shared>) {
    loop {
        let Some(there) = server.upgrade() else { return };
        let Some(shared) = &there.shared_tasks else { return };
        let begun = shared.begun.clone();
        if !there.tasks.any_shared_runs() {
            drop(there);
            begun.notified().await;
            continue;
        }
        let messages = shared.store.attend(&shared.process).await.unwrap_or_default();
        for message in messages {
            let Ok(Message { task, answers }) = message.decode() else { continue };
            let Some(task) = there.tasks.shared(&task) else { continue };
            match there.shared_tasks(&task.scope) {
                // It is refused when it writes the end at the latest.
                Some((shared, owner)) if answers.is_empty() => drop(shared.refresh(&owner, &task).await),
                _ => {}
            }
            let read = |error| InputError::Failed(CallError::Remote(error));
            task.answer(answers.into_iter().map(|(name, answer)| (name, answer.map_err(read))));
        }
        drop(there);
        sleep(LOOK_INTERVAL).await;
    }
}
