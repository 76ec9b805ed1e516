//! The two kinds of tasks. The only place that knows the differences.
//!
//! Tasks of the core of 2025-11-25 (<https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>)
//! are requested with the call. Their changes are notified without a subscription. Their result is fetched with
//! `tasks/result`, which also carries their requests for input.
//!
//! Tasks of the extension (<https://modelcontextprotocol.io/seps/2663-tasks-extension>) are the server's choice. Their
//! changes are notified on a stream. They contain their result and their requests for input, which are answered with
//! `tasks/update`.
//!
//! Both are represented in the shape of the extension. Used by `task` and its parts.

use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::{CallError, Reply};
use mcpjoin_proto::types::{
    CallToolParams, CreateTaskResult, EmptyResult, ExtensionTask, InputResponses, ProtocolType,
    SubscriptionFilter, Task, TaskMetadata, TaskParams, TaskStatus, TaskSupport, UpdateTaskParams,
};
use mcpjoin_proto::{Method, Payload, Raw};

use super::super::{Client, ClientError, complete, decode, encode};
use super::registry::TaskUpdates;

/// How long a server of 2025-11-25 is asked to keep a task by default, from its creation: an hour, as our own server
/// does. Long enough for a person to return from a break.
const DEFAULT_TTL: Duration = Duration::from_secs(60 * 60);

/// The kind of tasks that the revision has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Dialect {
    /// Those of 2025-11-25.
    Core,
    /// Those of the extension. If the revision has neither kind, the requests are refused before they are sent.
    Extension,
}

/// The timeouts of a request; `None`: the connection's.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Timeouts {
    /// Without a sign of life.
    pub(in super::super) timeout: Option<Duration>,
    /// In total.
    pub(in super::super) total: Option<Duration>,
}

impl Dialect {
    pub(in super::super) fn of(client: &Client) -> Self {
        if client.profile().core_tasks { Self::Core } else { Self::Extension }
    }

    /// Whether the result is kept apart from the task, and has to be fetched.
    pub(super) const fn fetches(self) -> bool {
        matches!(self, Self::Core)
    }

    /// Returns the current state of the task.
    pub(super) async fn status(
        self,
        client: &Client,
        id: &str,
        timeouts: Timeouts,
    ) -> Result<ExtensionTask, ClientError> {
        let method = Method::GetTask;
        let reply = send(client, method.clone(), &TaskParams::new(id), timeouts).await?;
        let result = match reply {
            // Two examples in the extension's specification give this result the type `task`, and its text the type
            // `complete`.
            Reply::Complete(result) | Reply::Task(result) => result,
            Reply::Verbatim(result) => result.into_raw(),
            other @ Reply::NeedInput(_) => complete(&method, other)?,
        };
        let task = self.read(&method, &result)?;
        if task.task_id != id {
            return Err(ClientError::BadResult { method, what: "it is another task".into() });
        }
        Ok(task)
    }

    /// Cancels the task.
    pub(super) async fn cancel(self, client: &Client, id: &str) -> Result<(), ClientError> {
        let method = Method::CancelTask;
        let reply = send(client, method.clone(), &TaskParams::new(id), Timeouts::default()).await?;
        // The content does not matter: the next poll of the task says more.
        complete(&method, reply).map(drop)
    }

    /// Fetches the result of a task that is kept apart from it. The server responds when the task has ended.
    pub(super) async fn fetch(
        self,
        client: &Client,
        id: &str,
        timeouts: Timeouts,
    ) -> Result<Raw, ClientError> {
        let method = Method::GetTaskResult;
        let reply = send(client, method.clone(), &TaskParams::new(id), timeouts).await?;
        complete(&method, reply)
    }

    /// Sends the input that the task has asked for.
    pub(super) async fn update(
        self,
        client: &Client,
        id: &str,
        answers: InputResponses,
        timeouts: Timeouts,
    ) -> Result<(), ClientError> {
        let method = Method::UpdateTask;
        let reply = send(client, method.clone(), &UpdateTaskParams::new(id, answers), timeouts).await?;
        decode::<EmptyResult>(&method, &complete(&method, reply)?).map(drop)
    }

    /// Receives every change of the task that the server notifies. A server that notifies nothing is no problem,
    /// because the task is polled anyway.
    pub(super) async fn listen(self, client: &Client, id: &str, updates: &Arc<TaskUpdates>) {
        match self {
            Self::Core => {
                let _watch = client.inner.tasks.watch(id, updates);
                std::future::pending::<()>().await;
            }
            Self::Extension => {
                let filter = SubscriptionFilter::default().with_task_ids(vec![id.to_owned()]);
                let mut stream = match client.open_stream(filter).await {
                    Ok(stream) => stream,
                    Err(error) => {
                        tracing::debug!(target: "mcpjoin", %error, "the client is not notified of a task");
                        return;
                    }
                };
                // Changes before the stream was open are not notified.
                updates.poll_now();
                while let Some(Ok(notification)) = stream.next().await {
                    if notification.method == Method::Tasks {
                        let task = notification.params.map(Payload::into_raw);
                        updates.publish(task.and_then(|task| self.read(&Method::Tasks, &task).ok()), id);
                    }
                }
            }
        }
    }

    /// Decodes a task.
    pub(super) fn read(self, method: &Method, task: &Raw) -> Result<ExtensionTask, ClientError> {
        match self {
            Self::Core => decode::<Task>(method, task).map(to_extension),
            Self::Extension => decode(method, task),
        }
    }

    /// Returns the task that a call has become, if its result is one. `asked`: the server was asked for a task.
    pub(in super::super) fn created(
        self,
        asked: bool,
        result: &Raw,
    ) -> Result<Option<ExtensionTask>, ClientError> {
        let method = Method::CallTool;
        match self {
            // A server may return a result although it was asked for a task.
            Self::Core if !asked || result.member("task").is_none() || result.member("content").is_some() => {
                Ok(None)
            }
            Self::Core => {
                decode::<CreateTaskResult>(&method, result).map(|created| Some(to_extension(created.task)))
            }
            Self::Extension => decode(&method, result).map(Some),
        }
    }
}

/// Whether a call must find out first if its tool requires a task.
pub(in super::super) fn needs_task_support(client: &Client, params: &CallToolParams) -> bool {
    let server = client.inner.peer.server_capabilities();
    client.inner.answers.takes_tasks
        && params.task.is_none()
        && Dialect::of(client) == Dialect::Core
        && server
            .and_then(|server| server.tasks.as_ref())
            .is_some_and(|tasks| tasks.covers(&Method::CallTool))
}

/// Returns what a call sends to ask for a task, if its tool runs as one. `requested`: even if the tool does not require
/// it.
pub(in super::super) async fn look_up_task_metadata(
    client: Client,
    tool: String,
    requested: bool,
    within: Option<Duration>,
) -> Option<TaskMetadata> {
    task_metadata(client.inner.tasks.support(&client, &tool).await.as_ref(), requested, within)
}

/// As [`look_up_task_metadata`], if the tool's support for tasks is known.
pub(in super::super) fn task_metadata(
    support: Option<&TaskSupport>,
    requested: bool,
    within: Option<Duration>,
) -> Option<TaskMetadata> {
    let asks = match support {
        Some(TaskSupport::Required) => true,
        Some(TaskSupport::Optional) => requested,
        _ => false,
    };
    let ttl = i64::try_from(within.unwrap_or(DEFAULT_TTL).as_millis()).unwrap_or(i64::MAX);
    asks.then(|| TaskMetadata::default().with_ttl(ttl))
}

/// Whether the task contains everything that its status requires.
pub(super) const fn is_complete(dialect: Dialect, task: &ExtensionTask) -> bool {
    match (dialect, &task.status) {
        (Dialect::Extension, TaskStatus::Completed) => task.result.is_some(),
        (Dialect::Extension, TaskStatus::Failed) => task.error.is_some(),
        _ => true,
    }
}

/// Converts a task of the core to the shape of the extension, without loss.
fn to_extension(task: Task) -> ExtensionTask {
    let mut neutral =
        ExtensionTask::new(task.task_id, task.status, task.created_at, task.last_updated_at, task.ttl);
    neutral.status_message = task.status_message;
    neutral.poll_interval_ms = task.poll_interval;
    neutral.meta = task.meta;
    neutral
}

async fn send<P: ProtocolType + Sync>(
    client: &Client,
    method: Method,
    params: &P,
    timeouts: Timeouts,
) -> Result<Reply, ClientError> {
    let mut call = client.call(method.clone()).with_params(encode(&method, params)?);
    call.timeout = timeouts.timeout;
    call.total = timeouts.total;
    let reply: Result<Reply, CallError> = client.inner.connection.call(call).await;
    Ok(reply?)
}
