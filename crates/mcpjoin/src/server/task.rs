//! Tasks: calls whose result is fetched later. The extension `io.modelcontextprotocol/tasks` of 2026-07-28.
//!
//! <https://modelcontextprotocol.io/seps/2663-tasks-extension>. A tool that is marked
//! ([`TypedTool::as_task`](super::TypedTool::as_task)) or begins one itself ([`Context::begin_task`]) runs as a task for
//! clients that declare the extension, and in place for all others. A task outlives its connection, not its server. At
//! most [`MAX_TASKS`] are kept, each for [`TTL`] from its creation; a task that still runs then is called off.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt as _;
use mcpjoin_proto::session::{Asker, Reply};
use mcpjoin_proto::types::{
    ExtensionTask, InputRequest, InputRequests, TaskParams, TaskStatus, UpdateTaskParams, task,
};
use mcpjoin_proto::{ErrorObject, Method, Raw, Request};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::{Context, Shared, capability};

/// Tasks that a server keeps at once. Beyond, the oldest that is over makes room; when none is, a call is refused.
const MAX_TASKS: usize = 1024;

/// How long a task is kept from its creation: long enough for a person to come back after a break.
const TTL: Duration = Duration::from_secs(60 * 60);

/// How often a client is asked to look, in milliseconds.
const POLL_INTERVAL: i64 = 1000;

/// The tasks of a server.
#[derive(Default)]
pub(super) struct Tasks(Mutex<Vec<Arc<Task>>>);

/// A task.
pub(super) struct Task {
    id: String,
    created_at: String,
    expires: Instant,
    /// Told of every change.
    state: watch::Sender<State>,
    abort: Mutex<Option<AbortHandle>>,
}

#[derive(Clone)]
struct State {
    updated_at: String,
    asked: u64,
    questions: InputRequests,
    answers: BTreeMap<String, Raw>,
    end: Option<End>,
}

#[derive(Clone)]
enum End {
    Completed(Raw),
    Failed(ErrorObject),
    Cancelled,
}

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Task>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn purge(tasks: &mut Vec<Arc<Task>>) {
        let now = Instant::now();
        tasks.retain(|task| {
            let keep = now < task.expires;
            if !keep {
                task.end(End::Cancelled);
            }
            keep
        });
    }

    fn insert(&self, task: Arc<Task>) -> Result<(), ErrorObject> {
        let mut tasks = self.lock();
        Self::purge(&mut tasks);
        if tasks.len() >= MAX_TASKS {
            let over = tasks.iter().position(|task| task.is_over()).ok_or_else(|| {
                ErrorObject::internal(format!("too many tasks: {MAX_TASKS} of them are under way"))
            })?;
            tasks.remove(over);
        }
        tasks.push(task);
        Ok(())
    }

    fn find(&self, id: &str) -> Result<Arc<Task>, ErrorObject> {
        let mut tasks = self.lock();
        Self::purge(&mut tasks);
        tasks
            .iter()
            .find(|task| task.id == id)
            .cloned()
            .ok_or_else(|| ErrorObject::invalid_params("unknown task"))
    }
}

impl Task {
    fn new() -> Result<Self, ErrorObject> {
        let created_at = now();
        let state = State {
            updated_at: created_at.clone(),
            asked: 0,
            questions: InputRequests::new(),
            answers: BTreeMap::new(),
            end: None,
        };
        Ok(Self {
            id: random_id()?,
            created_at,
            expires: Instant::now() + TTL,
            state: watch::Sender::new(state),
            abort: Mutex::default(),
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.state.borrow().end.is_some()
    }

    /// Waits until the task is over.
    pub(super) async fn over(&self) {
        // The sender lives as long as `self`.
        let _ = self.state.subscribe().wait_for(|state| state.end.is_some()).await;
    }

    /// Asks the client, and waits for its answer.
    pub(super) async fn ask(&self, question: InputRequest) -> Raw {
        let mut name = String::new();
        let mut states = self.state.subscribe();
        self.change(|state| {
            state.asked += 1;
            name = format!("ask-{}", state.asked);
            state.questions.insert(name.clone(), question);
        });
        // The sender lives as long as `self`.
        let _ = states.wait_for(|state| state.answers.contains_key(&name)).await;
        let mut answer = None;
        self.change(|state| answer = state.answers.remove(&name));
        answer.unwrap_or_else(Raw::empty_object)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.state.send_modify(|state| {
            change(state);
            state.updated_at = now();
        });
    }

    /// Ends it, once.
    fn end(&self, end: End) -> bool {
        let mut ended = false;
        self.state.send_if_modified(|state| {
            if state.end.is_none() {
                state.questions = InputRequests::new();
                state.end = Some(end);
                state.updated_at = now();
                ended = true;
            }
            ended
        });
        if ended && let Some(abort) = self.abort.lock().unwrap_or_else(PoisonError::into_inner).take() {
            abort.abort();
        }
        ended
    }

    /// As the client sees it.
    fn shown(&self) -> ExtensionTask {
        let state = self.state.borrow().clone();
        let status = match &state.end {
            Some(End::Completed(_)) => TaskStatus::Completed,
            Some(End::Failed(_)) => TaskStatus::Failed,
            Some(End::Cancelled) => TaskStatus::Cancelled,
            None if state.questions.is_empty() => TaskStatus::Working,
            None => TaskStatus::InputRequired,
        };
        let ttl = i64::try_from(TTL.as_millis()).ok();
        let shown = ExtensionTask::new(&self.id, status, &self.created_at, state.updated_at, ttl)
            .with_poll_interval_ms(POLL_INTERVAL);
        match state.end {
            Some(End::Completed(result)) => shown.with_result(result),
            Some(End::Failed(error)) => shown.with_status_message(error.message.as_str()).with_error(error),
            Some(End::Cancelled) => shown,
            None if state.questions.is_empty() => shown,
            None => shown.with_input_requests(state.questions),
        }
    }

    fn write(&self) -> Result<Raw, ErrorObject> {
        Raw::from_value(&self.shown()).map_err(|error| ErrorObject::internal(error.to_string()))
    }
}

/// Whether the client speaks the extension.
pub(super) fn is_declared(asker: &Asker) -> bool {
    asker.capabilities.extensions.as_ref().is_some_and(|known| known.contains_key(task::EXTENSION))
}

/// The error for a client that does not.
pub(super) fn undeclared() -> ErrorObject {
    capability::error(
        &capability::of_tasks(),
        "this request needs a client that declares the extension for tasks",
    )
}

/// Begins work as a task.
pub(super) fn begin<Fut>(
    server: &Arc<Shared>,
    cx: &Context,
    work: impl FnOnce(Context) -> Fut,
) -> Result<Reply, ErrorObject>
where
    Fut: Future<Output = Result<Reply, ErrorObject>> + Send + 'static,
{
    let task = Arc::new(Task::new()?);
    server.tasks.insert(task.clone())?;
    let work = {
        let (task, work) = (task.clone(), work(cx.in_task(task.clone())));
        async move {
            let end = match AssertUnwindSafe(work).catch_unwind().await {
                Err(_) => End::Failed(ErrorObject::internal("the handler of this task failed")),
                Ok(Ok(Reply::Complete(result))) => End::Completed(result),
                Ok(Ok(_)) => End::Failed(ErrorObject::internal(
                    "a task asks through its context, and does not answer with a question",
                )),
                Ok(Err(error)) => End::Failed(error),
            };
            task.end(end);
        }
    };
    let shown = task.write()?;
    let states = task.state.subscribe();
    let handle = tokio::spawn(work).abort_handle();
    *task.abort.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
    tokio::spawn(tell(server.clone(), task, states));
    Ok(Reply::Task(shown))
}

/// Tells those who listen of every change, until the task is over or its time is up.
async fn tell(server: Arc<Shared>, task: Arc<Task>, mut states: watch::Receiver<State>) {
    loop {
        match timeout_at(task.expires, states.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => {
                Tasks::purge(&mut server.tasks.lock());
                return;
            }
        }
        if let Ok(shown) = task.write() {
            let limit = MAX_TASKS;
            server.each_connection(|outbox| outbox.task_changed(&task.id, shown.clone(), limit));
        }
        if task.is_over() {
            return;
        }
    }
}

/// Answers `tasks/get`, `tasks/update` and `tasks/cancel`.
pub(super) fn answer(
    server: &Shared,
    request: &Request,
    asker: Option<&Asker>,
) -> Result<Reply, ErrorObject> {
    if !asker.is_some_and(is_declared) {
        return Err(undeclared());
    }
    let params = request.params.as_ref().ok_or_else(|| ErrorObject::invalid_params("`params` is missing"))?;
    let invalid = |error: mcpjoin_proto::json::ReadError| ErrorObject::invalid_params(error.to_string());
    match request.method {
        Method::UpdateTask => {
            let params: UpdateTaskParams = params.raw().decode().map_err(invalid)?;
            let task = server.tasks.find(&params.task_id)?;
            task.change(|state| {
                for (name, answer) in params.input_responses {
                    // What was not asked, or is answered already, is passed over.
                    if state.questions.remove(&name).is_some() {
                        state.answers.insert(name, answer.into_raw());
                    }
                }
            });
            Ok(Reply::empty())
        }
        Method::CancelTask => {
            let params: TaskParams = params.raw().decode().map_err(invalid)?;
            server.tasks.find(&params.task_id)?.end(End::Cancelled);
            Ok(Reply::empty())
        }
        _ => {
            let params: TaskParams = params.raw().decode().map_err(invalid)?;
            server.tasks.find(&params.task_id)?.write().map(Reply::Complete)
        }
    }
}

/// A name that nobody guesses: 128 random bits.
pub(super) fn random_id() -> Result<String, ErrorObject> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|_| ErrorObject::internal("this system gives no random numbers to name a task with"))?;
    Ok(super::input::hex(&bytes))
}

/// The time of day, as ISO 8601 has it.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    iso_8601(since.as_secs())
}

/// Days to a date in the Gregorian calendar, counted in eras of 400 years that begin on 1 March.
fn iso_8601(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::iso_8601;

    #[test]
    fn seconds_become_dates() {
        assert_eq!(iso_8601(0), "1970-01-01T00:00:00Z");
        assert_eq!(iso_8601(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(iso_8601(1_785_196_800), "2026-07-28T00:00:00Z");
        assert_eq!(iso_8601(4_107_542_399), "2100-02-28T23:59:59Z");
    }
}
