//! The tasks of a server, and their states.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::sync::Mutex;
use mcpjoin_proto::sorted_map::SortedSet;
use mcpjoin_proto::types::{InputRequest, InputRequests, TaskStatus};
use mcpjoin_proto::{ErrorObject, Raw};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::super::InputError;
use super::time::now_iso_8601;
use super::{MAX_BYTES, MAX_BYTES_PER_OWNER, MAX_TASKS, MAX_TASKS_PER_OWNER, Owner, TaskScope};
use crate::seal::unix_time;

/// The tasks of a server.
#[derive(Default)]
pub(in super::super) struct Tasks {
    table: Mutex<TaskTable>,
    /// Another task expires next.
    expiry_changed: Arc<Notify>,
}

#[derive(Default)]
struct TaskTable {
    /// The tasks with their numbers, which only increase.
    tasks: Vec<(u64, Arc<Task>)>,
    last: u64,
    /// Whether the task that removes expired tasks is running.
    has_expiry_task: bool,
}

/// A task.
pub(in super::super) struct Task {
    pub(super) id: String,
    pub(super) scope: TaskScope,
    /// The session that it was started in, which receives its notifications.
    pub(super) session: Option<u64>,
    /// The process that runs it, if processes share it (`shared`).
    pub(super) process: Option<Box<str>>,
    /// When it was created, since 1970.
    pub(super) created: Duration,
    pub(super) ttl: Duration,
    pub(super) expires: Instant,
    /// The bytes of its call that it keeps: the parameters, and over HTTP the head of the request.
    request_bytes: usize,
    /// Notifies of every change.
    state: watch::Sender<State>,
    /// The numbers of the requests that wait for its result. The newest carries its requests for input.
    pub(super) waiting: watch::Sender<SortedSet<u64>>,
    /// The greatest progress so far.
    progress: Mutex<Option<f64>>,
    /// Aborts its work.
    abort: Mutex<Option<AbortHandle>>,
}

/// The state of a task.
pub(super) struct State {
    pub(super) updated_at: String,
    question_count: u64,
    /// The open requests for input, by name.
    pub(super) questions: InputRequests,
    answers: HashMap<String, Result<Raw, InputError>>,
    pub(super) end: Option<Outcome>,
}

/// How a task has ended.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Outcome {
    /// With a result.
    Completed(Raw),
    /// With a result that says that the tool has failed, and its error text.
    ToolError(Raw, Option<String>),
    /// With an error.
    Failed(ErrorObject),
    /// It was cancelled, and why.
    Cancelled(Cow<'static, str>),
}

impl TaskTable {
    fn purge(&mut self) {
        let now = Instant::now();
        self.tasks.retain(|(_, task)| {
            let keep = now < task.expires;
            if !keep {
                task.end(Outcome::Cancelled("the time of this task is up".into()));
            }
            keep
        });
    }

    /// Removes the oldest ended tasks until those that `counts` selects and this one are within the limits. Returns
    /// whether they are.
    fn make_room(&mut self, one: &Task, limits: (usize, usize), counts: impl Fn(&Task) -> bool) -> bool {
        let counts = |task: &Task| task.id != one.id && counts(task);
        loop {
            let (mut number, mut bytes) = (1, one.held_bytes());
            for (_, task) in self.tasks.iter().filter(|(_, task)| counts(task)) {
                number += 1;
                bytes += task.held_bytes();
            }
            if number == 1 || number <= limits.0 && bytes <= limits.1 {
                return true;
            }
            let over = self.tasks.iter().position(|(_, task)| counts(task) && task.is_over());
            let Some(over) = over else { return false };
            self.tasks.remove(over);
        }
    }

    /// Makes room for this task among those of its owner and among all.
    fn make_room_for(&mut self, one: &Task) -> Result<(), ErrorObject> {
        let is_of_one = |other: &Task| other.scope.owner == one.scope.owner;
        let of_one = (MAX_TASKS_PER_OWNER, MAX_BYTES_PER_OWNER);
        if one.scope.owner != Owner::Bearer && !self.make_room(one, of_one, is_of_one) {
            let text = format!(
                "too many tasks: {MAX_TASKS_PER_OWNER} of this client are running, or they take {MAX_BYTES_PER_OWNER} bytes"
            );
            return Err(ErrorObject::internal(text));
        }
        if !self.make_room(one, (MAX_TASKS, MAX_BYTES), |_| true) {
            let text =
                format!("too many tasks: {MAX_TASKS} of them are running, or they take {MAX_BYTES} bytes");
            return Err(ErrorObject::internal(text));
        }
        Ok(())
    }
}

impl Tasks {
    /// Removes expired tasks.
    pub(super) fn purge(&self) {
        self.table.lock().purge();
    }

    /// Removes expired tasks. Returns when the next task expires; `None` if there are no tasks, and the caller ends.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let mut table = self.table.lock();
        table.purge();
        let next = table.tasks.iter().map(|(_, task)| task.expires).min();
        table.has_expiry_task = next.is_some();
        next
    }

    /// Notified when another task expires next, or when the server is gone.
    pub(super) fn expiry_changed(&self) -> Arc<Notify> {
        self.expiry_changed.clone()
    }

    /// Adds a task. Returns whether no task removes expired tasks yet.
    pub(super) fn insert(&self, task: &Arc<Task>) -> Result<bool, ErrorObject> {
        let mut table = self.table.lock();
        table.purge();
        table.make_room_for(task)?;
        table.last += 1;
        let number = table.last;
        if table.tasks.iter().all(|(_, other)| task.expires < other.expires) {
            self.expiry_changed.notify_one();
        }
        table.tasks.push((number, task.clone()));
        Ok(!std::mem::replace(&mut table.has_expiry_task, true))
    }

    /// A task has ended. Its result takes the room of older ones.
    pub(super) fn keep_result(&self, task: &Task) {
        let mut table = self.table.lock();
        if table.tasks.iter().any(|(_, other)| other.id == task.id) {
            // Running tasks hold no more than before, so the result is kept in any case.
            let _ = table.make_room_for(task);
        }
    }

    /// Returns the task with this id, if it is in scope.
    pub(super) fn find(&self, id: &str, scope: &TaskScope) -> Option<Arc<Task>> {
        let mut table = self.table.lock();
        table.purge();
        let found = table.tasks.iter().find(|(_, task)| task.id == id && task.scope == *scope);
        found.map(|(_, task)| task.clone())
    }

    /// Removes a task that has not begun, or that a store keeps.
    pub(super) fn remove(&self, one: &Task) {
        self.table.lock().tasks.retain(|(_, task)| task.id != one.id);
    }

    /// Returns the task of any owner with this id that other processes know.
    pub(super) fn shared(&self, id: &str) -> Option<Arc<Task>> {
        let table = self.table.lock();
        let found = table.tasks.iter().find(|(_, task)| task.id == id && task.process.is_some());
        found.map(|(_, task)| task.clone())
    }

    /// Whether a task runs that other processes know.
    pub(super) fn any_shared_runs(&self) -> bool {
        self.table.lock().tasks.iter().any(|(_, task)| task.process.is_some() && !task.is_over())
    }

    /// Returns the tasks in scope, in the order of their creation, and the last number so far.
    pub(super) fn of(&self, scope: &TaskScope) -> (Vec<(u64, Arc<Task>)>, u64) {
        let mut table = self.table.lock();
        table.purge();
        let tasks = table.tasks.iter().filter(|(_, task)| task.scope == *scope).cloned().collect();
        (tasks, table.last)
    }

    /// There is neither a handle of the server nor a connection left, so no client can ask for a task.
    pub(in super::super) fn server_ended(&self) {
        for (_, task) in self.table.lock().tasks.drain(..) {
            task.end(Outcome::Cancelled("the server of this task has exited".into()));
        }
        self.expiry_changed.notify_one();
    }

    /// A session has ended, and nothing can ask for its tasks any more.
    pub(in super::super) fn session_ended(&self, session: u64) {
        self.table.lock().tasks.retain(|(_, task)| {
            let keep = task.scope.owner != Owner::Session(session);
            if !keep {
                task.end(Outcome::Cancelled("the session of this task has ended".into()));
            }
            keep
        });
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.expiry_changed.notify_one();
    }
}

impl Task {
    /// Its id in logs.
    pub(super) fn shown(&self) -> &str {
        beginning(&self.id)
    }

    pub(super) fn new(
        id: String,
        scope: TaskScope,
        session: Option<u64>,
        ttl: Duration,
        request_bytes: usize,
    ) -> Self {
        let state = State::new(now_iso_8601(), InputRequests::new(), None);
        Self {
            id,
            scope,
            session,
            process: None,
            created: unix_time(),
            ttl,
            expires: Instant::now() + ttl,
            request_bytes,
            state: watch::Sender::new(state),
            waiting: watch::Sender::new(SortedSet::new()),
            progress: Mutex::default(),
            abort: Mutex::default(),
        }
    }

    /// Returns the bytes that it holds: those of its request while it runs, those of its result afterwards.
    fn held_bytes(&self) -> usize {
        match &self.state().end {
            None => self.request_bytes,
            Some(Outcome::Completed(result) | Outcome::ToolError(result, _)) => result.len(),
            Some(Outcome::Failed(error)) => error.message.len() + error.data.as_ref().map_or(0, Raw::len),
            Some(Outcome::Cancelled(_)) => 0,
        }
    }

    pub(super) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    pub(super) fn state(&self) -> watch::Ref<'_, State> {
        self.state.borrow()
    }

    pub(in super::super) fn is_over(&self) -> bool {
        self.state.borrow().end.is_some()
    }

    /// Waits until the task has ended.
    pub(in super::super) async fn ended(&self) {
        // The sender lives as long as `self`.
        let _ = self.watch().wait_for(|state| state.end.is_some()).await;
    }

    /// Requests input from the client, and waits for it. Dropping the future withdraws the request.
    pub(in super::super) async fn ask(&self, question: InputRequest) -> Result<Raw, InputError> {
        let mut name = String::new();
        let mut states = self.watch();
        self.change(|state| {
            state.question_count += 1;
            name = format!("ask-{}", state.question_count);
            state.questions.insert(name.clone(), question);
        });
        let _asked = OpenQuestion { task: self, name: &name };
        // The sender lives as long as `self`.
        let _ = states.wait_for(|state| state.answers.contains_key(&name)).await;
        let mut answer = None;
        self.state.send_if_modified(|state| {
            answer = state.answers.remove(&name);
            false
        });
        answer.unwrap_or_else(|| Ok(Raw::empty_object()))
    }

    /// Takes input for open requests. Input for other names is ignored.
    pub(super) fn answer(&self, answers: impl IntoIterator<Item = (String, Result<Raw, InputError>)>) {
        self.change(|state| {
            for (name, answer) in answers {
                if state.questions.remove(&name).is_some() {
                    state.answers.insert(name, answer);
                }
            }
        });
    }

    /// Waits until there is input that [`ask`](Self::ask) has not taken.
    pub(super) async fn answered(&self) {
        // The sender lives as long as `self`.
        let _ = self.watch().wait_for(|state| !state.answers.is_empty()).await;
    }

    /// Takes the input that [`ask`](Self::ask) has not taken, because the task runs in another process.
    pub(super) fn take_answers(&self) -> Vec<(String, Result<Raw, InputError>)> {
        let mut answers = HashMap::new();
        self.state.send_if_modified(|state| {
            answers = std::mem::take(&mut state.answers);
            false
        });
        answers.into_iter().collect()
    }

    /// Takes over the state that another process has written, without the requests that were answered here.
    pub(super) fn take_state(&self, fresh: &State, answered: &[String]) {
        if let Some(end) = fresh.end.clone() {
            self.end(end);
            return;
        }
        self.state.send_modify(|state| {
            state.questions = fresh.questions.clone();
            for name in answered {
                state.questions.remove(name);
            }
            state.updated_at.clone_from(&fresh.updated_at);
        });
    }

    /// Sets the whole state.
    pub(super) fn set_state(&mut self, state: State) {
        self.state = watch::Sender::new(state);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_modify(|state| {
            change(state);
            state.updated_at = now_iso_8601();
        });
    }

    /// Sets the handle that aborts the work when the task ends. Aborts immediately if the task has ended.
    pub(super) fn set_abort_handle(&self, work: AbortHandle) {
        *self.abort.lock() = Some(work);
        if self.is_over() {
            self.abort_work();
        }
    }

    fn abort_work(&self) {
        if let Some(work) = self.abort.lock().take() {
            work.abort();
        }
    }

    /// Ends the task, once. Returns whether this call has ended it.
    pub(super) fn end(&self, end: Outcome) -> bool {
        let mut ended = false;
        self.state.send_if_modified(|state| {
            if state.end.is_none() {
                state.questions = InputRequests::new();
                state.end = Some(end);
                state.updated_at = now_iso_8601();
                ended = true;
            }
            ended
        });
        if ended {
            self.abort_work();
        }
        ended
    }

    /// Records progress. Returns whether it is greater than before.
    pub(super) fn record_progress(&self, progress: f64) -> bool {
        let mut last = self.progress.lock();
        let grows = progress.is_finite() && last.is_none_or(|last| progress > last);
        if grows {
            *last = Some(progress);
        }
        grows
    }
}

/// The start of an id, for logs. The whole id is a secret where clients are not authenticated.
pub(super) fn beginning(id: &str) -> &str {
    id.get(..8).unwrap_or_default()
}

impl State {
    pub(super) fn new(updated_at: String, questions: InputRequests, end: Option<Outcome>) -> Self {
        Self { updated_at, question_count: 0, questions, answers: HashMap::new(), end }
    }

    /// The state of a task that ends now.
    pub(super) fn ended(end: Outcome) -> Self {
        Self::new(now_iso_8601(), InputRequests::new(), Some(end))
    }

    /// Returns the status. A result that says that the tool has failed means `failed`.
    pub(super) fn status(&self) -> TaskStatus {
        match &self.end {
            Some(Outcome::Completed(_)) => TaskStatus::Completed,
            Some(Outcome::ToolError(..) | Outcome::Failed(_)) => TaskStatus::Failed,
            Some(Outcome::Cancelled(_)) => TaskStatus::Cancelled,
            None if self.questions.is_empty() => TaskStatus::Working,
            None => TaskStatus::InputRequired,
        }
    }
}

/// An open request for input, withdrawn when this is dropped.
struct OpenQuestion<'a> {
    task: &'a Task,
    name: &'a str,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.task.state.send_if_modified(|state| {
            state.answers.remove(self.name);
            let open = state.questions.remove(self.name).is_some();
            if open {
                state.updated_at = now_iso_8601();
            }
            open
        });
    }
}
