//! Tasks: tool calls whose result is fetched later.
//!
//! A client accepts tasks if it was built so ([`ClientBuilder::tasks`](super::ClientBuilder::tasks)).
//! [`Client::call_tool`] then waits for the end of a task as for any result. To get the task itself, start the call
//! with [`ToolCall::start`], keep the [`TaskHandle`] or its id, and continue later with [`Client::task`], even over
//! another connection. The API is the same for the tasks of 2025-11-25
//! (<https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>) and for those of the extension
//! (<https://modelcontextprotocol.io/seps/2663-tasks-extension>).
//!
//! Nothing here cancels a task on its own: dropping a handle or a waiting future leaves the task running at the server.
//! [`TaskHandle::cancel`] cancels it.

mod dialect;
mod follow;
mod registry;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mcpjoin_proto::types::{CallToolResult, ExtensionTask, Task};
use mcpjoin_proto::{Method, Raw};

pub(super) use self::dialect::{Dialect, Timeouts, look_up_task_metadata, needs_task_support, task_metadata};
pub(super) use self::follow::Following;
pub(super) use self::registry::TaskRegistry;

use self::follow::Follow;
use super::round_trip::ToolCall;
use super::{Client, ClientError, Pages, decode};
use crate::connection::CallEvent;

/// A task at the server, by its id. Cheap to clone.
///
/// Dropping it has no effect on the task. [`Client::task`] returns a handle again.
#[derive(Clone)]
pub struct TaskHandle {
    client: Client,
    id: String,
    created: Option<Arc<ExtensionTask>>,
}

impl TaskHandle {
    pub(super) fn new(client: Client, id: String, created: Option<ExtensionTask>) -> Self {
        Self { client, id, created: created.map(Arc::new) }
    }

    /// Returns the id, by which the task can be found again. Treat it as a secret if the server does not authenticate
    /// its clients: everyone who knows it may be able to read the result.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the task as the server described it when it started, in the shape of the extension in both eras. `None`
    /// for a task that was looked up by its id.
    #[must_use]
    pub fn created(&self) -> Option<&ExtensionTask> {
        self.created.as_deref()
    }

    /// Returns the current state of the task (`tasks/get`), in the shape of the extension in both eras.
    ///
    /// # Errors
    /// See [`ClientError`]; [`ClientError::UnknownTask`] if the server does not know the task, or no longer.
    pub async fn status(&self) -> Result<ExtensionTask, ClientError> {
        let status = Dialect::of(&self.client).status(&self.client, &self.id, Timeouts::default()).await;
        status.map_err(|error| unknown(&self.id, error))
    }

    /// Asks the server to cancel the task (`tasks/cancel`).
    ///
    /// A server of the extension may take its time, or even complete the task: check [`TaskHandle::status`]. If the
    /// future is dropped before it is ready, the server may or may not have been asked.
    ///
    /// # Errors
    /// See [`ClientError`]. A server of 2025-11-25 refuses to cancel a task that has ended, with the same code as for
    /// an unknown task.
    pub async fn cancel(&self) -> Result<(), ClientError> {
        Dialect::of(&self.client).cancel(&self.client, &self.id).await
    }

    /// Waits until the task has ended in any way, and returns its final state.
    ///
    /// Requests of the task for input are handled meanwhile. The limits are those of [`TaskHandle::result`]. Dropping
    /// the future ends only the waiting.
    ///
    /// # Errors
    /// As for [`TaskHandle::result`], except that a task that has failed or was cancelled is not an error.
    pub async fn wait(&self) -> Result<ExtensionTask, ClientError> {
        let mut following = Following::new(self.follow(Timeouts::default(), None, false));
        poll_fn(|cx| following.poll_end(cx)).await.map(|ended| *ended.task)
    }

    /// Waits until the task has ended, and returns its result.
    pub fn result(&self) -> TaskResult {
        TaskResult { task: self.clone(), timeouts: Timeouts::default(), within: None, stage: Stage::Unsent }
    }

    fn follow(&self, timeouts: Timeouts, within: Option<Duration>, fetch: bool) -> Follow {
        let (client, id, created) = (self.client.clone(), self.id.clone(), self.created.clone());
        Follow { client, id, created, timeouts, within, fetch }
    }

    pub(super) fn following(&self, timeouts: Timeouts, within: Option<Duration>) -> Following {
        Following::new(self.follow(timeouts, within, true))
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle")
            .field("id", &self.id)
            .field("created", &self.created)
            .finish_non_exhaustive()
    }
}

/// The result of a task, in progress: zero or more [`CallEvent`]s, then the result of the call.
///
/// The task is polled as often as the server wants, but at least every 5 min and at most every 100 ms; every second if
/// the server does not say. Notifications about the task are used as well. Up to three polls in a row may be lost.
/// Requests of the task for input are handled by the functions that the client was built with, each request once, in at
/// most 10 rounds. It always ends: with the task, after the time of
/// [`TaskResult::within`], or when the server does not keep the task any longer, but at most after a day.
///
/// Nothing is sent before the first poll, so call the setters before that. Dropping it leaves the task running at the
/// server.
#[must_use = "nothing is sent before it is polled"]
pub struct TaskResult {
    task: TaskHandle,
    timeouts: Timeouts,
    within: Option<Duration>,
    stage: Stage,
}

enum Stage {
    Unsent,
    Following(Following),
    Over,
}

impl TaskResult {
    /// Sets how long each request may take. Default: the connection's
    /// ([`Limits::request`](mcpjoin_proto::session::Limits), 60 s).
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.timeout = Some(timeout);
        self
    }

    /// Sets how long to wait in total. Default: as long as the server keeps the task, from the first poll on, or a day
    /// if it keeps the task forever.
    pub const fn within(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    /// Returns the state of the task each time that it has changed, or `None` when the result is ready to be awaited.
    /// Cancel-safe.
    pub async fn next_event(&mut self) -> Option<CallEvent> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    /// Returns the result as the server has sent it.
    ///
    /// # Errors
    /// As awaiting it. The result is not checked against the type of a tool's result.
    pub async fn raw(mut self) -> Result<Raw, ClientError> {
        poll_fn(|cx| self.poll_raw(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<CallEvent>> {
        match self.following_mut() {
            Some(following) => following.poll_event(cx),
            None => Poll::Ready(None),
        }
    }

    fn poll_raw(&mut self, cx: &mut Context<'_>) -> Poll<Result<Raw, ClientError>> {
        let Some(following) = self.following_mut() else {
            return Poll::Ready(Err(mcpjoin_proto::session::CallError::Cancelled.into()));
        };
        let result = ready!(following.poll_result(cx));
        self.stage = Stage::Over;
        Poll::Ready(result)
    }

    fn following_mut(&mut self) -> Option<&mut Following> {
        if matches!(self.stage, Stage::Unsent) {
            self.stage = Stage::Following(self.task.following(self.timeouts, self.within));
        }
        match &mut self.stage {
            Stage::Following(following) => Some(following),
            _ => None,
        }
    }
}

/// Returns the tool's result. The errors are those of a call ([`ClientError::remote`] if the task has failed with an
/// error of the server), and [`ClientError::UnknownTask`], [`ClientError::TaskCancelled`] and
/// [`ClientError::TaskTimedOut`].
impl Future for TaskResult {
    type Output = Result<CallToolResult, ClientError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(self.get_mut().poll_raw(cx));
        Poll::Ready(result.and_then(|result| decode(&Method::CallTool, &result)))
    }
}

impl fmt::Debug for TaskResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskResult").field("task", &self.task).finish_non_exhaustive()
    }
}

/// The outcome of a call that was started without waiting for its result.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TaskOutcome {
    /// The call runs as a task at the server.
    Task(TaskHandle),
    /// The call has not become a task. The result as the server has sent it.
    Result(Raw),
}

/// A call that is being started. Ready as soon as there is a task, or a result if there is no task. Created by
/// [`ToolCall::start`].
///
/// Dropping it cancels the request, as with every call. Whether a task was started is not known then.
#[must_use = "nothing is sent before it is polled"]
#[derive(Debug)]
pub struct StartedCall(ToolCall);

impl StartedCall {
    pub(super) const fn new(call: ToolCall) -> Self {
        Self(call)
    }

    /// Returns the next event, or `None` when the outcome is ready to be awaited. Cancel-safe.
    pub async fn next_event(&mut self) -> Option<CallEvent> {
        self.0.next_event().await
    }
}

impl Future for StartedCall {
    type Output = Result<TaskOutcome, ClientError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().0.poll_started(cx)
    }
}

impl Client {
    /// Returns a handle to a task by its id, which may have started on another connection. Sends nothing. Servers of
    /// 2025-11-25 may know the task only in the session in which it started, others only for the same authorization.
    ///
    /// ```no_run
    /// # async fn example(client: mcpjoin::Client, id: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// let result = client.task(id).result().await?;
    /// println!("{}", result.to_text());
    /// # Ok(())
    /// # }
    /// ```
    pub fn task(&self, id: impl Into<String>) -> TaskHandle {
        TaskHandle::new(self.clone(), id.into(), None)
    }

    /// Lists all tasks that the server keeps for this client, at 2025-11-25 and if the server declares `tasks.list`.
    /// The extension has no such list, so the request is refused there.
    pub fn list_tasks(&self) -> Pages<Task> {
        Pages::new(self.clone())
    }
}

/// Turns an error of the server into [`ClientError::UnknownTask`] if it means that.
fn unknown(id: &str, error: ClientError) -> ClientError {
    match error.remote() {
        Some(remote) if follow::is_unknown(&error) => {
            ClientError::UnknownTask { id: id.to_owned(), error: Box::new(remote.clone()) }
        }
        _ => error,
    }
}
