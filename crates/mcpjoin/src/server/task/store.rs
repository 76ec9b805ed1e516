//! The tasks that a server keeps, and how each stands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcpjoin_proto::types::{InputRequest, InputRequests, TaskStatus};
use mcpjoin_proto::{ErrorObject, Raw};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::super::InputError;
use super::{MAX_BYTES, MAX_BYTES_PER_OWNER, MAX_TASKS, MAX_TASKS_PER_OWNER, Owner, TaskScope, time};

/// The tasks of a server.
#[derive(Default)]
pub(in super::super) struct Tasks {
    table: Mutex<TaskTable>,
    /// Another one than before is to be let go of next.
    expiry_changed: Arc<Notify>,
}

#[derive(Default)]
struct TaskTable {
    /// With their numbers, which only grow.
    tasks: Vec<(u64, Arc<Task>)>,
    last: u64,
    /// Somebody lets go of those scope time is up.
    has_expiry_task: bool,
}

/// A task.
pub(in super::super) struct Task {
    pub(super) id: String,
    pub(super) scope: TaskScope,
    /// The session that it was begun in, which is told of its changes where there is one.
    pub(super) session: Option<u64>,
    pub(super) created_at: String,
    pub(super) ttl: Duration,
    pub(super) expires: Instant,
    /// The bytes of the parameters that its work has.
    param_bytes: usize,
    /// Told of every change.
    state: watch::Sender<State>,
    /// The requests that wait for its result, by their numbers; the newest carries its questions.
    pub(super) waiting: watch::Sender<BTreeSet<u64>>,
    /// The greatest progress that was told.
    progress: Mutex<Option<f64>>,
    /// Ends its work.
    abort: Mutex<Option<AbortHandle>>,
}

/// How a task stands.
pub(super) struct State {
    pub(super) updated_at: String,
    question_count: u64,
    /// What it waits for, by names of its own.
    pub(super) questions: InputRequests,
    answers: BTreeMap<String, Result<Raw, InputError>>,
    pub(super) end: Option<Outcome>,
}

/// How a task has ended.
pub(super) enum Outcome {
    /// With a result.
    Completed(Raw),
    /// With a result that says that the tool has failed, and what it says about it.
    ToolError(Raw, Option<String>),
    /// With an error.
    Failed(ErrorObject),
    /// It was called off, and why.
    Cancelled(&'static str),
}

impl TaskTable {
    fn purge(&mut self) {
        let now = Instant::now();
        self.tasks.retain(|(_, task)| {
            let keep = now < task.expires;
            if !keep {
                task.end(Outcome::Cancelled("the time of this task is up"));
            }
            keep
        });
    }

    /// Keeps those that are counted here and this one within bounds: the oldest of them that are over make room.
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

    /// Makes room for this one among those of its owner and among all.
    fn make_room_for(&mut self, one: &Task) -> Result<(), ErrorObject> {
        let is_of_one = |other: &Task| other.scope.owner == one.scope.owner;
        let of_one = (MAX_TASKS_PER_OWNER, MAX_BYTES_PER_OWNER);
        if one.scope.owner != Owner::Bearer && !self.make_room(one, of_one, is_of_one) {
            let text = format!(
                "too many tasks: {MAX_TASKS_PER_OWNER} of this client are under way, or they hold {MAX_BYTES_PER_OWNER} bytes"
            );
            return Err(ErrorObject::internal(text));
        }
        if !self.make_room(one, (MAX_TASKS, MAX_BYTES), |_| true) {
            let text =
                format!("too many tasks: {MAX_TASKS} of them are under way, or they hold {MAX_BYTES} bytes");
            return Err(ErrorObject::internal(text));
        }
        Ok(())
    }
}

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, TaskTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of those scope time is up.
    pub(super) fn purge(&self) {
        self.lock().purge();
    }

    /// The same. Says when the next one's time is up; `None`: there is none, and nobody waits for it any more.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let mut table = self.lock();
        table.purge();
        let next = table.tasks.iter().map(|(_, task)| task.expires).min();
        table.has_expiry_task = next.is_some();
        next
    }

    /// Told when it is another one, or there is no server any more.
    pub(super) fn expiry_changed(&self) -> Arc<Notify> {
        self.expiry_changed.clone()
    }

    /// Puts a task in. Says whether nobody waits for the end of its time.
    pub(super) fn insert(&self, task: &Arc<Task>) -> Result<bool, ErrorObject> {
        let mut table = self.lock();
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

    /// A task is over, and its result takes the room of older ones.
    pub(super) fn keep_result(&self, task: &Task) {
        let mut table = self.lock();
        if table.tasks.iter().any(|(_, other)| other.id == task.id) {
            // Those under way hold no more than before: it is table beside them.
            let _ = table.make_room_for(task);
        }
    }

    /// The task of that name, for whom it belongs to.
    pub(super) fn find(&self, id: &str, scope: &TaskScope) -> Option<Arc<Task>> {
        let mut table = self.lock();
        table.purge();
        let found = table.tasks.iter().find(|(_, task)| task.id == id && task.scope == *scope);
        found.map(|(_, task)| task.clone())
    }

    /// Those that belong to somebody, in the order of their creation, and the last number that was given.
    pub(super) fn of(&self, scope: &TaskScope) -> (Vec<(u64, Arc<Task>)>, u64) {
        let mut table = self.lock();
        table.purge();
        let tasks = table.tasks.iter().filter(|(_, task)| task.scope == *scope).cloned().collect();
        (tasks, table.last)
    }

    /// There is neither a handle of the server nor a connection any more, so no client can ask for a task.
    pub(in super::super) fn server_ended(&self) {
        for (_, task) in self.lock().tasks.drain(..) {
            task.end(Outcome::Cancelled("the server of this task is gone"));
        }
        self.expiry_changed.notify_one();
    }

    /// A session is over, and whoever could ask for its tasks with it.
    pub(in super::super) fn session_ended(&self, session: u64) {
        self.lock().tasks.retain(|(_, task)| {
            let keep = task.scope.owner != Owner::Session(session);
            if !keep {
                task.end(Outcome::Cancelled("the session of this task is over"));
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
    /// The beginning of its id, for logs: the whole is a secret where nobody says who he is.
    pub(super) fn shown(&self) -> &str {
        self.id.get(..8).unwrap_or_default()
    }

    pub(super) fn new(
        id: String,
        scope: TaskScope,
        session: Option<u64>,
        ttl: Duration,
        param_bytes: usize,
    ) -> Self {
        let created_at = time::now();
        let state = State {
            updated_at: created_at.clone(),
            question_count: 0,
            questions: InputRequests::new(),
            answers: BTreeMap::new(),
            end: None,
        };
        Self {
            id,
            scope,
            session,
            created_at,
            ttl,
            expires: Instant::now() + ttl,
            param_bytes,
            state: watch::Sender::new(state),
            waiting: watch::Sender::new(BTreeSet::new()),
            progress: Mutex::default(),
            abort: Mutex::default(),
        }
    }

    /// The bytes that it holds: of its parameters while it goes on, then of its result.
    fn held_bytes(&self) -> usize {
        match &self.state().end {
            None => self.param_bytes,
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

    /// Waits until the task is over.
    pub(in super::super) async fn ended(&self) {
        // The sender lives as long as `self`.
        let _ = self.watch().wait_for(|state| state.end.is_some()).await;
    }

    /// Asks the client, and waits for its answer. Dropping it takes the question back.
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

    /// The answers to some of its questions. What was not asked, or is answered already, is passed over.
    pub(super) fn answer(&self, answers: impl IntoIterator<Item = (String, Result<Raw, InputError>)>) {
        self.change(|state| {
            for (name, answer) in answers {
                if state.questions.remove(&name).is_some() {
                    state.answers.insert(name, answer);
                }
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_modify(|state| {
            change(state);
            state.updated_at = time::now();
        });
    }

    /// Has the end of the task abort this work: at once when the task is over already.
    pub(super) fn set_abort_handle(&self, work: AbortHandle) {
        *self.abort.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
        if self.is_over() {
            self.abort_work();
        }
    }

    fn abort_work(&self) {
        if let Some(work) = self.abort.lock().unwrap_or_else(PoisonError::into_inner).take() {
            work.abort();
        }
    }

    /// Ends it, once. Says whether this was it.
    pub(super) fn end(&self, end: Outcome) -> bool {
        let mut ended = false;
        self.state.send_if_modified(|state| {
            if state.end.is_none() {
                state.questions = InputRequests::new();
                state.end = Some(end);
                state.updated_at = time::now();
                ended = true;
            }
            ended
        });
        if ended {
            self.abort_work();
        }
        ended
    }

    /// Whether this is more progress than was told before.
    pub(super) fn record_progress(&self, progress: f64) -> bool {
        let mut last = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let grows = progress.is_finite() && last.is_none_or(|last| progress > last);
        if grows {
            *last = Some(progress);
        }
        grows
    }
}

impl State {
    /// How it stands; with a result that says that the tool has failed, it has `failed`.
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

/// A question that somebody waits for the answer to.
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
                state.updated_at = time::now();
            }
            open
        });
    }
}
