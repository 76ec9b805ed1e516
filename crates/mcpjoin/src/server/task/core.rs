//! Tasks of the core of 2025-11-25.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>. The client asks for a task with
//! its call (`task`), polls it (`tasks/get`), and fetches the result with a request that waits for it (`tasks/result`).
//! Requests of the task for input are requests of the server, sent on the stream of the newest `tasks/result`: older
//! ones may have been abandoned.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mcpjoin_proto::session::{CallError, NotifyRefused, Reply};
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::types::{
    CreateTaskResult, LogMessageParams, LoggingLevel, Members, Meta, ProgressParams, ProtocolType,
    RelatedTask, Task as ShownTask, TaskMetadata, TaskParams, TaskStatus, TaskSupport,
};
use mcpjoin_proto::{ErrorObject, Kind as JsonKind, Method, Notification, Payload, Raw, code};

use super::super::list::page_of;
use super::super::subscription::TaskChange;
use super::super::tools::ToolEntry;
use super::super::{Context, InputError, Shared, decode_params, encode};
use super::time::iso_8601;
use super::{
    MAX_TASKS, MAX_TTL, Outcome, POLL_INTERVAL_MS, Protocol, State, Task, end, find, shared, start_call,
};
use crate::handler::ResponseFuture;

/// The minimum time for which a task is kept: a client that polls as asked has two tries.
const MIN_TTL: Duration = Duration::from_millis(2 * POLL_INTERVAL_MS as u64);

/// Maximum number of characters of a tool's error text in `statusMessage`.
const MAX_STATUS_MESSAGE_CHARS: usize = 200;

/// Returns the task that a call becomes; `None` if the tool is called in place.
pub(super) fn call(
    server: &Arc<Shared>,
    entry: &Arc<ToolEntry>,
    cx: &Context,
) -> Result<Option<ResponseFuture>, ErrorObject> {
    let asked = metadata(cx.params())?;
    match (asked, entry.mode.tasks.support()) {
        (None, Some(TaskSupport::Required)) => {
            Err(wrong_use(&format!("the tool {} runs only as a task: ask for one with `task`", entry.name())))
        }
        (Some(_), None) => Err(wrong_use(&format!("the tool {} does not run as a task", entry.name()))),
        (None, _) => Ok(None),
        (Some(asked), Some(_)) => {
            Ok(Some(start_call(server, cx, Protocol::Core, granted(asked.ttl)?, entry)))
        }
    }
}

/// Decodes the request for a task in a call.
fn metadata(params: Option<&Payload>) -> Result<Option<TaskMetadata>, ErrorObject> {
    let asked = params.and_then(|params| params.raw().member("task"));
    let Some(asked) = asked.filter(|asked| asked.kind() != JsonKind::Null) else { return Ok(None) };
    TaskMetadata::read(&asked)
        .map(Some)
        .map_err(|error| ErrorObject::invalid_params(format!("`task`: {error}")))
}

/// Returns how long a task is kept, for a requested time in milliseconds.
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
        if let Some((shared, owner)) = server.shared_tasks(&scope) {
            let tasks = shared.list(server, &scope, &owner).await?;
            let page = page_of(&tasks, u64::MAX, cx.params(), "tasks", server.page_size, Raw::clone);
            return page.map(Reply::Complete);
        }
        let (tasks, last) = server.tasks.of(&scope);
        let page = page_of(&tasks, last, cx.params(), "tasks", server.page_size, |task| {
            shown(task, &task.state()).to_raw().unwrap_or_else(|_| Raw::empty_object())
        });
        return page.map(Reply::Complete);
    }
    let params: TaskParams = decode_params(cx.params())?;
    let task = find(server, &params.task_id, &scope).await?;
    match cx.0.method {
        Method::GetTask => {}
        Method::CancelTask => {
            if !end(server, &task, Outcome::Cancelled("The task was cancelled by request.".into())).await? {
                let status = task.state().status();
                let text = format!("the task cannot be cancelled: its status is `{}`", status.as_str());
                return Err(ErrorObject::invalid_params(text));
            }
        }
        Method::GetTaskResult => return shared::result(server, &task, result(&task, &cx)).await,
        _ => return Err(ErrorObject::method_not_found(cx.0.method.as_str())),
    }
    encode(&shown(&task, &task.state())).map(Reply::Complete)
}

/// Waits for the result of a task. Meanwhile sends its requests for input, unless a later `tasks/result` takes over.
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
                // The later request sends them again.
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
                // The request for input stays open: its owner may return in another session.
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
            waiting.add(number);
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

/// Returns what the call would have returned without a task.
fn outcome(task: &Task, end: &Outcome) -> Result<Reply, ErrorObject> {
    match end {
        Outcome::Completed(result) | Outcome::ToolError(result, _) => {
            Ok(Reply::Complete(related(result.clone(), &task.id)))
        }
        Outcome::Failed(error) => Err(error.clone()),
        Outcome::Cancelled(why) => Err(ErrorObject::internal(&**why)),
    }
}

/// Adds the id of the task to the `_meta` of an object. An object that cannot be decoded (because of a duplicate name)
/// is returned unchanged.
pub(in super::super) fn related(object: Raw, task: &str) -> Raw {
    let with = || {
        let mut members = Members::read(&object).ok()?;
        let meta = members.get("_meta").and_then(|meta| Meta::read(meta).ok());
        members.insert("_meta", meta_of(meta, task)?.to_raw().ok()?);
        members.to_raw().ok()
    };
    with().unwrap_or(object)
}

fn meta_of(meta: Option<Meta>, task: &str) -> Option<Meta> {
    let related = RelatedTask::new(task).to_raw().ok()?;
    Some(meta.unwrap_or_default().with(key::RELATED_TASK, related))
}

/// Returns the result of a call that asked for a task.
pub(super) fn created(task: &Task) -> Result<Raw, ErrorObject> {
    encode(&CreateTaskResult::new(shown(task, &task.state())))
}

/// Returns the task as the client sees it.
fn shown(task: &Task, state: &State) -> ShownTask {
    let ttl = i64::try_from(task.ttl.as_millis()).ok();
    let shown =
        ShownTask::new(&task.id, state.status(), iso_8601(task.created.as_secs()), &state.updated_at, ttl)
            .with_poll_interval(POLL_INTERVAL_MS);
    match &state.end {
        Some(Outcome::ToolError(_, Some(message))) => shown.with_status_message(message),
        Some(Outcome::Failed(error)) => shown.with_status_message(&error.message),
        Some(Outcome::Cancelled(why)) => shown.with_status_message(&**why),
        _ => shown,
    }
}

/// Returns the task as the list of a task store has it: with a short message.
pub(super) fn listed(task: &Task, state: &State) -> ShownTask {
    let mut shown = shown(task, state);
    shown.status_message =
        shown.status_message.map(|message| message.chars().take(MAX_STATUS_MESSAGE_CHARS).collect());
    shown
}

/// Returns the outcome of a task whose tool returned this result. A result with `isError` is a failure.
pub(super) fn end_of(result: Raw) -> Outcome {
    if result.member("isError").is_none_or(|is_error| is_error.as_str() != "true") {
        return Outcome::Completed(result);
    }
    let content: Option<Vec<Raw>> = result.member("content").and_then(|content| Vec::read(&content).ok());
    let said = content.unwrap_or_default().iter().find_map(|content| {
        let text = content.member("text")?.to_string_value()?.into_owned();
        Some(text.chars().take(MAX_STATUS_MESSAGE_CHARS).collect())
    });
    Outcome::ToolError(result, said)
}

/// Notifies the session of the task if the status has changed.
pub(super) fn notify(server: &Shared, task: &Task, last_status: &mut TaskStatus) {
    let shown = shown(task, &task.state());
    let status = shown.status.clone();
    if status == *last_status {
        return;
    }
    if let (Some(session), Ok(shown)) = (task.session, encode(&shown)) {
        // A session belongs to one client.
        let change = TaskChange { method: Method::TaskStatus, task: shown, principal: None };
        server.with_connection(session, |outbox| outbox.task_changed(&task.id, change, MAX_TASKS));
    }
    *last_status = status;
}

impl Task {
    /// Notifies the session of the task of its progress, if the call asked for progress.
    pub(in super::super) fn progress(
        &self,
        cx: &Context,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) {
        let token = cx.request().and_then(|request| request.progress_token.clone());
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
        if let Ok(params) = params.to_raw() {
            cx.0.server.with_connection(session, |outbox| outbox.task_progress(&self.id, params, MAX_TASKS));
        }
    }

    /// Sends a log message to the session of the task.
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
        let params = params.to_raw().map_err(|error| NotifyRefused::Invalid(error.to_string()))?;
        let params = Payload::from_raw(params);
        cx.connection().notify(Notification { method: Method::LogMessage, params: Some(params) })
    }
}
