//! Tasks of the extension `io.modelcontextprotocol/tasks` of 2026-07-28.
//!
//! <https://modelcontextprotocol.io/seps/2663-tasks-extension>. The server answers a call with a task if the client
//! declares the extension. The client polls the task, and sends the input that it asks for.

use std::sync::Arc;

use mcpjoin_proto::session::{ClientInfo, Reply};
use mcpjoin_proto::types::{ExtensionTask, TaskParams, UpdateTaskParams, task};
use mcpjoin_proto::{ErrorObject, Method, Raw};

use super::super::subscription::TaskChange;
use super::super::tools::ToolEntry;
use super::super::{Context, Shared, capability, decode_params, encode};
use super::time::iso_8601;
use super::{
    MAX_TASKS, MAX_TTL, Outcome, POLL_INTERVAL_MS, Protocol, Task, end, find, replica, shared, start_call,
};
use crate::handler::ResponseFuture;

/// Whether the client declares the extension.
#[must_use]
pub fn is_declared(client: &ClientInfo) -> bool {
    client.capabilities.extensions.as_ref().is_some_and(|known| known.contains_key(task::EXTENSION))
}

/// Returns the error for a client that does not.
#[must_use]
pub fn undeclared() -> ErrorObject {
    capability::error(
        &capability::of_tasks(),
        "this request needs a client that declares the extension for tasks",
    )
}

/// Returns the task that a call becomes; `None` if the tool is called in place.
pub(super) fn call(
    server: &Arc<Shared>,
    entry: &Arc<ToolEntry>,
    cx: &Context,
) -> Result<Option<ResponseFuture>, ErrorObject> {
    if entry.mode.tasks.methods.is_none() {
        return Ok(None);
    }
    let declared = cx.client().is_some_and(|client| is_declared(client));
    if entry.mode.tasks.required && !declared {
        return Err(undeclared());
    }
    if !(entry.mode.tasks.whole && declared) {
        return Ok(None);
    }
    Ok(Some(start_call(server, cx, Protocol::Extension, MAX_TTL, entry)))
}

/// Answers `tasks/get`, `tasks/update` and `tasks/cancel`.
pub(super) async fn answer(server: &Shared, cx: &Context) -> Result<Reply, ErrorObject> {
    if !cx.client().is_some_and(|client| is_declared(client)) {
        return Err(undeclared());
    }
    if let Some(forwarded) = replica::forward(server, cx) {
        return forwarded.await.map(Reply::Complete);
    }
    let scope = Protocol::Extension.scope(cx);
    match cx.0.method {
        Method::UpdateTask => {
            let params: UpdateTaskParams = decode_params(cx.params())?;
            let task = find(server, &params.task_id, &scope).await?;
            task.answer(
                params.input_responses.into_iter().map(|(name, answer)| (name, Ok(answer.into_raw()))),
            );
            if let Some((shared, _)) = server.shared_tasks(&scope) {
                shared.pass_answers(&task).await.map_err(shared::failed)?;
            }
            Ok(Reply::empty())
        }
        Method::CancelTask => {
            let params: TaskParams = decode_params(cx.params())?;
            let task = find(server, &params.task_id, &scope).await?;
            end(server, &task, Outcome::Cancelled("cancelled by request".into())).await?;
            Ok(Reply::empty())
        }
        _ => {
            let params: TaskParams = decode_params(cx.params())?;
            shown(&*find(server, &params.task_id, &scope).await?).map(Reply::Complete)
        }
    }
}

/// Returns the task as the client sees it.
pub(super) fn shown(task: &Task) -> Result<Raw, ErrorObject> {
    let state = task.state();
    let ttl = i64::try_from(task.ttl.as_millis()).ok();
    let shown = ExtensionTask::new(
        &task.id,
        state.status(),
        iso_8601(task.created.as_secs()),
        &state.updated_at,
        ttl,
    )
    .with_poll_interval_ms(POLL_INTERVAL_MS);
    let shown = match &state.end {
        Some(Outcome::Completed(result) | Outcome::ToolError(result, _)) => shown.with_result(result.clone()),
        Some(Outcome::Failed(error)) => {
            shown.with_status_message(error.message.as_str()).with_error(error.clone())
        }
        Some(Outcome::Cancelled(_)) => shown,
        None if state.questions.is_empty() => shown,
        None => shown.with_input_requests(state.questions.clone()),
    };
    drop(state);
    encode(&shown)
}

/// Notifies everyone who listens to the task and to whom it belongs.
pub(super) fn notify(server: &Shared, task: &Task) {
    if let Ok(shown) = shown(task) {
        let principal = task.scope.principal();
        server.each_listener(&Method::Tasks, &task.id, &|outbox| {
            let (task_id, task, principal) = (&task.id, shown.clone(), principal.map(Into::into));
            outbox.task_changed(task_id, TaskChange { method: Method::Tasks, task, principal }, MAX_TASKS);
        });
    }
}
