//! Tasks as they are part of the core of 2025-11-25.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>. The client asks for a task with its
//! call (`task`), polls it (`tasks/get`), and fetches the result with a request that waits for it (`tasks/result`). What
//! a task asks its client meanwhile are requests of the server's own, sent on the stream of such a request: of the one
//! that was made last, for those before it may have been left without a word.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mcpjoin_proto::session::{CallError, NotifyRefused, Reply};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::types::{
    CallToolResult, CreateTaskResult, LogMessageParams, LoggingLevel, Members, Meta, ProgressParams,
    RelatedTask, Task as ShownTask, TaskMetadata, TaskParams, TaskStatus, TaskSupport,
};
use mcpjoin_proto::{ErrorObject, Kind as JsonKind, Method, Notification, Payload, Raw, code};

use super::super::list::page_of;
use super::super::subscription::TaskChange;
use super::super::tools::ToolEntry;
use super::super::{Context, InputError, Shared};
use super::{MAX_TASKS, MAX_TTL, Outcome, POLL_INTERVAL_MS, Protocol, State, Task, find, start};

/// The shortest time for which a task is kept: a client that asks as often as it is last_status to has two tries.
const MIN_TTL: Duration = Duration::from_millis(2 * POLL_INTERVAL_MS as u64);

/// What of a tool's own words is said about its failure: so many characters.
const MAX_STATUS_MESSAGE_CHARS: usize = 200;

/// The task that a call becomes; `None`: it is to be called in place.
pub(super) fn call(
    server: &Arc<Shared>,
    entry: &Arc<ToolEntry>,
    cx: &Context,
) -> Result<Option<Reply>, ErrorObject> {
    let asked = metadata(cx.params())?;
    match (asked, entry.tasks.support()) {
        (None, Some(TaskSupport::Required)) => {
            Err(wrong_use(&format!("the tool {} runs only as a task: ask for one with `task`", entry.name())))
        }
        (Some(_), None) => Err(wrong_use(&format!("the tool {} does not run as a task", entry.name()))),
        (None, _) => Ok(None),
        (Some(asked), Some(_)) => {
            let ttl = granted(asked.ttl)?;
            start(server, cx, Protocol::Core, ttl, |cx| entry.clone().call(cx)).map(Some)
        }
    }
}

/// What a call says that asks for a task.
fn metadata(params: Option<&Payload>) -> Result<Option<TaskMetadata>, ErrorObject> {
    let asked = params.and_then(|params| params.raw().member("task"));
    let Some(asked) = asked.filter(|asked| asked.kind() != JsonKind::Null) else { return Ok(None) };
    asked.decode().map(Some).map_err(|error| ErrorObject::invalid_params(format!("`task`: {error}")))
}

/// For how long a task is kept that was asked for so, in milliseconds.
fn granted(ttl: Option<i64>) -> Result<Duration, ErrorObject> {
    match ttl.map(u64::try_from) {
        None => Ok(MAX_TTL),
        Some(Ok(ttl)) => Ok(Duration::from_millis(ttl).clamp(MIN_TTL, MAX_TTL)),
        Some(Err(_)) => Err(ErrorObject::invalid_params("`task`: `ttl` is below 0")),
    }
}

fn wrong_use(text: &str) -> ErrorObject {
    ErrorObject::new(code::METHOD_NOT_FOUND, text)
}

/// Answers `tasks/get`, `tasks/list`, `tasks/cancel` and `tasks/result`.
pub(super) async fn answer(server: &Arc<Shared>, cx: Context) -> Result<Reply, ErrorObject> {
    let scope = Protocol::Core.scope(&cx);
    if cx.0.method == Method::ListTasks {
        let (tasks, last) = server.tasks.of(&scope);
        let page = page_of(&tasks, last, cx.params(), "tasks", server.page_size, |task| {
            Raw::from_value(&shown(task, &task.state())).unwrap_or_else(|_| Raw::empty_object())
        });
        return page.map(Reply::Complete);
    }
    let params = cx.params().ok_or_else(|| ErrorObject::invalid_params("`params` is missing"))?;
    let params: TaskParams =
        params.raw().decode().map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
    let task = find(server, &params.task_id, &scope)?;
    match cx.0.method {
        Method::GetTask => {}
        Method::CancelTask => {
            if !task.end(Outcome::Cancelled("The task was cancelled by request.")) {
                let status = task.state().status();
                let text = format!("the task cannot be cancelled: its status is `{}`", status.as_str());
                return Err(ErrorObject::invalid_params(text));
            }
        }
        Method::GetTaskResult => return result(&task, &cx).await,
        _ => return Err(ErrorObject::method_not_found(cx.0.method.as_str())),
    }
    written(&shown(&task, &task.state())).map(Reply::Complete)
}

fn written<T: serde::Serialize>(value: &T) -> Result<Raw, ErrorObject> {
    Raw::from_value(value).map_err(|error| ErrorObject::internal(error.to_string()))
}

/// The result of a task, as soon as it is there. Until then its questions are asked here, unless another request for the
/// result comes later.
async fn result(task: &Task, cx: &Context) -> Result<Reply, ErrorObject> {
    let waiting = Waiting::new(task);
    let (mut states, mut newest) = (task.watch(), task.waiting.subscribe());
    let mut asking = FuturesUnordered::new();
    let mut asked: Vec<String> = Vec::new();
    loop {
        {
            let state = states.borrow_and_update();
            if let Some(end) = &state.end {
                return outcome(task, end);
            }
            if newest.borrow_and_update().last() == Some(&waiting.number) {
                asked.retain(|name| state.questions.contains_key(name));
                for (name, question) in state.questions.iter() {
                    if !asked.iter().any(|asked| asked == name) {
                        asked.push(name.to_owned());
                        let (name, question) = (name.to_owned(), question.clone());
                        asking.push(async { (name, cx.ask_now(question, Some(&task.id)).await) });
                    }
                }
            } else {
                // Taken back: whoever came later asks them anew.
                asking.clear();
                asked.clear();
            }
        }
        tokio::select! {
            biased;
            // Both senders live as long as the task.
            _ = states.changed() => {}
            _ = newest.changed() => {}
            Some((name, answer)) = asking.next(), if !asking.is_empty() => match answer {
                // The question stays: its owner may come back in another session.
                Err(InputError::Failed(CallError::Closed(_))) => {}
                answer => task.answer([(name, answer)]),
            },
        }
    }
}

/// A request that waits for the result of a task.
struct Waiting<'a> {
    task: &'a Task,
    number: u64,
}

impl<'a> Waiting<'a> {
    fn new(task: &'a Task) -> Self {
        let mut number = 0;
        task.waiting.send_modify(|waiting| {
            number = waiting.last().map_or(0, |last| last + 1);
            waiting.insert(number);
        });
        Self { task, number }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.task.waiting.send_modify(|waiting| {
            waiting.remove(&self.number);
        });
    }
}

/// What the request would have been answered with that the task stands for.
fn outcome(task: &Task, end: &Outcome) -> Result<Reply, ErrorObject> {
    match end {
        Outcome::Completed(result) | Outcome::ToolError(result, _) => {
            Ok(Reply::Complete(related(result.clone(), &task.id)))
        }
        Outcome::Failed(error) => Err(error.clone()),
        Outcome::Cancelled(why) => Err(ErrorObject::internal(*why)),
    }
}

/// The object with the name of the task in its `_meta`. One that cannot be read (a name stands twice) stays as it is.
pub(in super::super) fn related(object: Raw, task: &str) -> Raw {
    let with = || {
        let mut members: Members<Raw> = object.decode().ok()?;
        let meta: Option<Meta> = members.get("_meta").and_then(|meta| meta.decode().ok());
        members.insert("_meta", Raw::from_value(&meta_of(meta, task)?).ok()?);
        Raw::from_value(&members).ok()
    };
    with().unwrap_or(object)
}

fn meta_of(meta: Option<Meta>, task: &str) -> Option<Meta> {
    let related = Raw::from_value(&RelatedTask::new(task)).ok()?;
    Some(meta.unwrap_or_default().with(key::RELATED_TASK, related))
}

/// The result of a call that asked for a task.
pub(super) fn created(task: &Task) -> Result<Raw, ErrorObject> {
    written(&CreateTaskResult::new(shown(task, &task.state())))
}

/// As the client sees it.
fn shown(task: &Task, state: &State) -> ShownTask {
    let ttl = i64::try_from(task.ttl.as_millis()).ok();
    let shown = ShownTask::new(&task.id, state.status(), &task.created_at, &state.updated_at, ttl)
        .with_poll_interval(POLL_INTERVAL_MS);
    match &state.end {
        Some(Outcome::ToolError(_, Some(message))) => shown.with_status_message(message),
        Some(Outcome::Failed(error)) => shown.with_status_message(&error.message),
        Some(Outcome::Cancelled(why)) => shown.with_status_message(*why),
        _ => shown,
    }
}

/// How a task ends scope tool has this result: one that says `isError` is a failure.
pub(super) fn end_of(result: Raw) -> Outcome {
    if result.member("isError").is_none_or(|is_error| is_error.as_str() != "true") {
        return Outcome::Completed(result);
    }
    let said = result.decode::<CallToolResult>().ok().and_then(|result| {
        let text = result.content.iter().find_map(|content| content.as_text())?;
        Some(text.chars().take(MAX_STATUS_MESSAGE_CHARS).collect())
    });
    Outcome::ToolError(result, said)
}

/// Tells the session that it was begun in when its status is another one.
pub(super) fn notify(server: &Shared, task: &Task, last_status: &mut TaskStatus) {
    let shown = shown(task, &task.state());
    let status = shown.status.clone();
    if status == *last_status {
        return;
    }
    if let (Some(session), Ok(shown)) = (task.session, written(&shown)) {
        // A session is one client's.
        let change = TaskChange { method: Method::TaskStatus, task: shown, principal: None };
        server.with_connection(session, |outbox| outbox.task_changed(&task.id, change, MAX_TASKS));
    }
    *last_status = status;
}

impl Task {
    /// Tells the session that it was begun in how far it is, when its request wanted to know.
    pub(in super::super) fn progress(
        &self,
        cx: &Context,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) {
        let token = cx.0.connection.request().and_then(|request| request.progress_token.clone());
        let (Protocol::Core, Some(session), Some(token)) = (self.scope.protocol, self.session, token) else {
            return;
        };
        if self.is_over() || !self.record_progress(progress) {
            return;
        }
        let mut params = ProgressParams::new(token, progress);
        params.total = total;
        params.message = message.map(ToOwned::to_owned);
        params.meta = meta_of(None, &self.id);
        if let Ok(params) = Raw::from_value(&params) {
            cx.0.server.with_connection(session, |outbox| outbox.task_progress(&self.id, params, MAX_TASKS));
        }
    }

    /// Says something in the session that it was begun in.
    pub(in super::super) fn log(
        &self,
        cx: &Context,
        level: LoggingLevel,
        logger: Option<&str>,
        data: Raw,
    ) -> Result<(), NotifyRefused> {
        if self.scope.protocol != Protocol::Core || self.is_over() {
            return Ok(());
        }
        let mut params = LogMessageParams::new(level, data);
        params.logger = logger.map(ToOwned::to_owned);
        params.meta = meta_of(None, &self.id);
        let params =
            Payload::from_value(&params).map_err(|error| NotifyRefused::Invalid(error.to_string()))?;
        cx.0.connection.connection().notify(Notification { method: Method::LogMessage, params: Some(params) })
    }
}
