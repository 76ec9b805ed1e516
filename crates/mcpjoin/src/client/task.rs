//! Tasks: calls of tools whose result is fetched later, as handles and as results that are waited for.
//!
//! A client takes them when it was built so ([`ClientBuilder::tasks`](super::ClientBuilder::tasks)). Then a call simply
//! takes longer: [`Client::call_tool`] follows the task to its end. Who wants the task itself begins the call instead
//! ([`ToolCall::start`]), keeps the [`TaskHandle`] or only its id, and takes it up again later ([`Client::task`]), over
//! another connection if need be. It is the same in both eras: the tasks of 2025-11-25
//! (<https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>) and those of the extension
//! (<https://modelcontextprotocol.io/seps/2663-tasks-extension>).
//!
//! Nothing here calls a task off by itself: whoever drops a handle, or what waits for a result, leaves the task to go on at
//! the server. [`TaskHandle::cancel`] ends it.

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

pub(super) use self::dialect::{Timeouts, created, look_up_task_metadata, needs_task_support, task_metadata};
pub(super) use self::follow::Following;
pub(super) use self::registry::TaskRegistry;

use self::dialect::Dialect;
use self::follow::Follow;
use super::round_trip::ToolCall;
use super::{Client, ClientError, Pages, decode};
use crate::connection::CallEvent;

/// A task at the server, by its id. Cheap to clone.
///
/// Dropping it changes nothing: the task goes on. It can be had again with [`Client::task`].
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

    /// Its name, by which it can be taken up again. Whoever knows it may be able to see the task's result: it is a secret
    /// where the server asks nobody who he is.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What the server said when the task began, in the shape of the extension in both eras; `None` for one that was taken
    /// up by its id.
    #[must_use]
    pub fn created(&self) -> Option<&ExtensionTask> {
        self.created.as_deref()
    }

    /// How it stands now (`tasks/get`), in the shape of the extension in both eras.
    ///
    /// # Errors
    /// As every call; [`ClientError::UnknownTask`] when the server does not know it, or no longer.
    pub async fn status(&self) -> Result<ExtensionTask, ClientError> {
        let status = Dialect::of(&self.client).status(&self.client, &self.id, Timeouts::default()).await;
        status.map_err(|error| unknown(&self.id, error))
    }

    /// Asks the server to call it off (`tasks/cancel`). A server of the extension may take its time, or finish the task
    /// all the same: [`TaskHandle::status`] tells. Dropping the future before its end leaves open whether the server was
    /// asked.
    ///
    /// # Errors
    /// As every call. A server of 2025-11-25 refuses it for a task that is over, with the same code as for one that it does
    /// not know.
    pub async fn cancel(&self) -> Result<(), ClientError> {
        Dialect::of(&self.client).cancel(&self.client, &self.id).await
    }

    /// Waits until it is over, whatever it ends with, and tells how. What it asks meanwhile is answered. The bounds are
    /// those of [`TaskHandle::result`]; dropping the future only ends the waiting.
    ///
    /// # Errors
    /// As for [`TaskHandle::result`], but a task that failed or was called off is over and no error.
    pub async fn wait(&self) -> Result<ExtensionTask, ClientError> {
        let mut following = Following::new(self.follow(Timeouts::default(), None, false));
        poll_fn(|cx| following.poll_end(cx)).await.map(|ended| *ended.task)
    }

    /// Waits until it is over and gives its result.
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

/// The result of a task, waited for: zero or more [`CallEvent`]s, then what the call would have given.
///
/// The task is looked at as often as the server wants, but not more often than every 100 ms, not less than every 5 min, and
/// every second when it says nothing; a server that tells of changes by itself is heard. Up to three looks in a row may be
/// lost. What the task asks is answered by what the client was built with, each question once, and in at most
/// [`max_rounds`](super::ClientBuilder::max_rounds) rounds. It always ends: with the task, after the time that
/// [`TaskResult::within`] says, or once the server keeps the task no longer, a day at most.
///
/// Nothing is sent before the first poll; the setters belong before it. Dropping it leaves the task to go on at the server.
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
    /// How long each round trip may take. Absent: the connection's own
    /// ([`Limits::request`](mcpjoin_proto::session::Limits), 60 s).
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.timeout = Some(timeout);
        self
    }

    /// How long to wait for the end in all. Absent: for as long as the server keeps the task, counted from the first look,
    /// and a day where it keeps it for ever.
    pub const fn within(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    /// How the task stands, each time that it has changed; `None` when the result is there, to be awaited. Cancel-safe.
    pub async fn next_event(&mut self) -> Option<CallEvent> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    /// The result as the server sent it.
    ///
    /// # Errors
    /// As awaiting does; whether it is the result of a tool is not looked at.
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

/// The tool's result. The errors are those of the call ([`ClientError::remote`] when the task failed with the server's
/// error), and besides [`ClientError::UnknownTask`], [`ClientError::TaskCancelled`] and [`ClientError::TaskTimedOut`].
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

/// What a call came to that was begun and not waited for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TaskOutcome {
    /// A task, which goes on at the server.
    Task(TaskHandle),
    /// A result, at once, as the server sent it: the tool was not run as a task.
    Result(Raw),
}

/// A call being begun: ends as soon as there is a task, or a result where there is none. Made by [`ToolCall::start`].
///
/// Dropping it before its end cancels the request, as with every call; whether a task has begun then is not known.
#[must_use = "nothing is sent before it is polled"]
#[derive(Debug)]
pub struct StartedCall(ToolCall);

impl StartedCall {
    pub(super) const fn new(call: ToolCall) -> Self {
        Self(call)
    }

    /// What comes before there is a task or a result; `None` when one of them is there, to be awaited. Cancel-safe.
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
    /// A task that was begun before, on this connection or another one, by its id. Nothing is sent. Servers of 2025-11-25
    /// may know it only in the session in which it began, and others only for the same authorization.
    pub fn task(&self, id: impl Into<String>) -> TaskHandle {
        TaskHandle::new(self.clone(), id.into(), None)
    }

    /// All tasks that the server keeps for us, page after page: 2025-11-25 alone, and only where the server declares
    /// `tasks.list`. The extension has no such list, and there it is refused.
    pub fn list_tasks(&self) -> Pages<Task> {
        Pages::new(self.clone())
    }
}

/// The server's error about a task, told apart when it means that the task is unknown.
fn unknown(id: &str, error: ClientError) -> ClientError {
    match error.remote() {
        Some(remote) if follow::is_unknown(&error) => {
            ClientError::UnknownTask { id: id.to_owned(), error: Box::new(remote.clone()) }
        }
        _ => error,
    }
}
