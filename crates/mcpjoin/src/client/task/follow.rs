//! Waits for the end of a task: polls it, follows its notifications, provides the input that it asks for, and returns
//! what it ends with.
//!
//! It runs in the future of its caller, not in a task of its own. Dropping that future leaves nothing behind here; the
//! task continues at the server.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::sync::Mutex;
use futures_util::FutureExt as _;
use mcpjoin_proto::session::CallError;
use mcpjoin_proto::sorted_map::SortedSet;
use mcpjoin_proto::types::{ExtensionTask, InputRequests, TaskStatus};
use mcpjoin_proto::{Method, Raw, code};
use tokio::time::{Instant, sleep_until};

use super::super::{Client, ClientError};
use super::dialect::{Dialect, Timeouts, is_complete};
use super::registry::TaskUpdates;
use crate::connection::CallEvent;
use crate::connection::rounds::MAX_ROUNDS;

/// Interval between polls if the server states none. The TypeScript SDK uses the same.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum interval between polls: the first pause of multi-round requests (`connection::rounds`).
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum interval between polls: well below the half hour after which an idle session is ended.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// How many polls in a row may be lost before the error of the last one is returned. A poll changes nothing, so it may
/// be repeated.
const MAX_POLL_RETRIES: u32 = 3;
/// How long a task is followed at most, if the server keeps it forever and the caller sets no limit: a day.
const MAX_FOLLOW_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Which task is followed, and how.
pub(super) struct Follow {
    pub(super) client: Client,
    pub(super) id: String,
    /// The task as the server described it when it started.
    pub(super) created: Option<Arc<ExtensionTask>>,
    pub(super) timeouts: Timeouts,
    pub(super) within: Option<Duration>,
    /// Whether to return the result, or only the final state.
    pub(super) fetch: bool,
}

/// The end of a task.
pub(super) struct Ended {
    pub(super) task: Box<ExtensionTask>,
    /// The result; `None` if only the final state was wanted.
    pub(super) result: Option<Result<Raw, ClientError>>,
}

/// A task that is being followed.
pub(in super::super) struct Following {
    run: Pin<Box<dyn Future<Output = Result<Ended, ClientError>> + Send>>,
    events: Arc<Events>,
    ended: Option<Result<Ended, ClientError>>,
}

/// The state that the caller has not taken yet. A newer one replaces it, as with progress.
#[derive(Default)]
struct Events(Mutex<Option<ExtensionTask>>);

impl Events {
    fn set(&self, task: &ExtensionTask) {
        *self.0.lock() = Some(task.clone());
    }

    fn take(&self) -> Option<ExtensionTask> {
        self.0.lock().take()
    }
}

/// What was received about the task.
enum Update {
    /// Its state.
    Task(Box<ExtensionTask>),
    /// Its result.
    Result(Result<Raw, ClientError>),
    /// It has changed.
    Changed,
}

/// Work for a task that needs input. Returns the task's result where the result is what it waits for.
type InputTask = Pin<Box<dyn Future<Output = Result<Option<Raw>, ClientError>> + Send>>;
type PollFuture = Pin<Box<dyn Future<Output = Result<ExtensionTask, ClientError>> + Send>>;

impl Following {
    pub(super) fn new(follow: Follow) -> Self {
        let events = Arc::new(Events::default());
        let run = Box::pin(follow.run(events.clone()));
        Self { run, events, ended: None }
    }

    /// Returns the next change, or `None` at the end. The whole work runs in here, so every wake leads to this poll.
    pub(in super::super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<CallEvent>> {
        if self.ended.is_none()
            && let Poll::Ready(ended) = self.run.as_mut().poll(cx)
        {
            self.ended = Some(ended);
        }
        match self.events.take() {
            Some(task) => Poll::Ready(Some(CallEvent::Task(Box::new(task)))),
            None if self.ended.is_some() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<Ended, ClientError>> {
        match self.ended.take() {
            Some(ended) => Poll::Ready(ended),
            None => self.run.as_mut().poll(cx),
        }
    }

    /// Returns the result. Must not be polled again after that.
    pub(in super::super) fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<Raw, ClientError>> {
        self.poll_end(cx).map(|ended| match ended?.result {
            Some(result) => result,
            None => Err(CallError::Cancelled.into()),
        })
    }
}

impl Follow {
    /// Follows the task until it ends.
    async fn run(self, events: Arc<Events>) -> Result<Ended, ClientError> {
        let dialect = Dialect::of(&self.client);
        let updates = Arc::new(TaskUpdates::default());
        let mut listening = Box::pin(dialect.listen(&self.client, &self.id, &updates)).fuse();
        let began = Instant::now();
        let mut follow_state = FollowState {
            until: after(began, self.within.unwrap_or(MAX_FOLLOW_TIME)),
            began,
            failures: 0,
            answered: SortedSet::new(),
            rounds: 0,
            last: None,
        };
        let mut input: Option<InputTask> = None;
        // The first description needs no check, but its poll interval counts.
        let mut poll = match &self.created {
            Some(task) => {
                follow_state.record(&self, task, &events);
                if task.status.is_final() {
                    self.poll(dialect, began, &updates)
                } else {
                    self.poll_later(dialect, task, &updates)
                }
            }
            None => self.poll(dialect, began, &updates),
        };
        loop {
            let update = tokio::select! {
                biased;
                done = async { input.as_mut().expect("it is there").await }, if input.is_some() => {
                    input = None;
                    match done {
                        Ok(Some(result)) => Update::Result(Ok(result)),
                        Ok(None) => Update::Changed,
                        Err(error) if dialect.fetches() && error.is_retryable() => Update::Changed,
                        Err(error) if dialect.fetches() && error.remote().is_some() => Update::Result(Err(error)),
                        Err(error) => return Err(error),
                    }
                }
                task = updates.next() => Update::Task(Box::new(task)),
                () = &mut listening => continue,
                polled = &mut poll => match polled {
                    Ok(task) => {
                        follow_state.failures = 0;
                        poll = self.poll_later(dialect, &task, &updates);
                        if !is_complete(dialect, &task) {
                            let what = format!("a task with the status {} has neither result nor error", task.status.as_str());
                            return Err(ClientError::BadResult { method: Method::GetTask, what });
                        }
                        Update::Task(Box::new(task))
                    }
                    Err(error) if error.is_retryable() && follow_state.failures < MAX_POLL_RETRIES => {
                        follow_state.failures += 1;
                        poll = self.poll(dialect, Instant::now() + DEFAULT_POLL_INTERVAL, &updates);
                        continue;
                    }
                    Err(error) => return Err(self.unknown(error)),
                },
                () = sleep_until(follow_state.until) => {
                    let (id, after) = (self.id.clone(), began.elapsed());
                    return Err(ClientError::TaskTimedOut { id, after });
                }
            };
            let task = match update {
                Update::Changed => {
                    updates.poll_now();
                    continue;
                }
                Update::Task(task) => *task,
                Update::Result(result) => {
                    return self.end_with_result(dialect, result, follow_state.last).await;
                }
            };
            follow_state.record(&self, &task, &events);
            if task.status.is_final() {
                if is_complete(dialect, &task) {
                    return self.end(dialect, task, input).await;
                }
                updates.poll_now();
            } else if task.status == TaskStatus::InputRequired && input.is_none() {
                input = self.answer_input(dialect, &task, &mut follow_state)?;
            }
        }
    }

    /// Provides the input that the task asks for.
    fn answer_input(
        &self,
        dialect: Dialect,
        task: &ExtensionTask,
        follow_state: &mut FollowState,
    ) -> Result<Option<InputTask>, ClientError> {
        let (client, id, timeouts) = (self.client.clone(), self.id.clone(), self.timeouts);
        let limit = MAX_ROUNDS;
        let too_many = || ClientError::TooManyRounds { method: Method::CallTool, limit };
        if dialect.fetches() {
            // A second round happens only if the first request was lost.
            if follow_state.rounds >= limit {
                return Err(too_many());
            }
            follow_state.rounds += 1;
            // The server sends its requests for input during this request and responds when the task has ended. Only
            // the time limit of the task applies.
            let left = follow_state.until.saturating_duration_since(Instant::now());
            let timeouts = Timeouts { timeout: Some(left), total: Some(left) };
            return Ok(Some(Box::pin(async move { dialect.fetch(&client, &id, timeouts).await.map(Some) })));
        }
        let asked = task.input_requests.iter().flat_map(InputRequests::iter);
        let fresh: InputRequests = asked
            .filter(|(key, _)| !follow_state.answered.contains(*key))
            .map(|(key, question)| (key, question.clone()))
            .collect();
        if fresh.is_empty() {
            return Ok(None);
        }
        if follow_state.rounds >= limit {
            return Err(too_many());
        }
        follow_state.rounds += 1;
        for key in fresh.keys() {
            follow_state.answered.add(key.to_owned());
        }
        Ok(Some(Box::pin(async move {
            let answers = client.inner.answers.clone().answer_all(Method::CallTool, fresh).await?;
            let mut failures = 0;
            loop {
                // Input that was received already is ignored, so it may be sent again.
                match dialect.update(&client, &id, answers.clone(), timeouts).await {
                    Err(error) if error.is_retryable() && failures < MAX_POLL_RETRIES => failures += 1,
                    outcome => return outcome.map(|()| None),
                }
            }
        })))
    }

    /// Returns what the task has ended with.
    async fn end(
        &self,
        dialect: Dialect,
        mut task: ExtensionTask,
        input: Option<InputTask>,
    ) -> Result<Ended, ClientError> {
        if !self.fetch {
            return Ok(Ended { task: Box::new(task), result: None });
        }
        let result = match &task.status {
            TaskStatus::Cancelled => Err(self.cancelled(&task)),
            _ if dialect.fetches() => self.fetched(dialect, input).await,
            TaskStatus::Completed => Ok(task.result.take().unwrap_or_else(Raw::empty_object)),
            _ => {
                let lost = || mcpjoin_proto::ErrorObject::internal("the task has failed");
                Err(CallError::Remote(task.error.clone().unwrap_or_else(lost)).into())
            }
        };
        Ok(Ended { task: Box::new(task), result: Some(result) })
    }

    /// Fetches the result of a task that has ended.
    async fn fetched(&self, dialect: Dialect, input: Option<InputTask>) -> Result<Raw, ClientError> {
        if let Some(input) = input {
            match input.await {
                Ok(Some(result)) => return Ok(result),
                Err(error) if !error.is_retryable() => return Err(error),
                _ => {}
            }
        }
        let mut failures = 0;
        loop {
            match dialect.fetch(&self.client, &self.id, self.timeouts).await {
                Err(error) if error.is_retryable() && failures < MAX_POLL_RETRIES => failures += 1,
                outcome => return outcome,
            }
        }
    }

    /// Returns a result or error that arrived before the final state of the task.
    async fn end_with_result(
        &self,
        dialect: Dialect,
        result: Result<Raw, ClientError>,
        last: Option<ExtensionTask>,
    ) -> Result<Ended, ClientError> {
        let now = dialect.status(&self.client, &self.id, self.timeouts).await;
        let task = match (now, last) {
            (Ok(task), _) => task,
            // The server may have removed it together with its result.
            (Err(_), Some(task)) if result.is_ok() => task,
            (Err(error), _) => return Err(self.unknown(error)),
        };
        let result = match result {
            Err(_) if task.status == TaskStatus::Cancelled => Err(self.cancelled(&task)),
            result => result,
        };
        Ok(Ended { task: Box::new(task), result: self.fetch.then_some(result) })
    }

    fn cancelled(&self, task: &ExtensionTask) -> ClientError {
        ClientError::TaskCancelled { id: self.id.clone(), message: task.status_message.clone() }
    }

    fn unknown(&self, error: ClientError) -> ClientError {
        super::unknown(&self.id, error)
    }

    /// Polls the task at the interval that it states.
    fn poll_later(&self, dialect: Dialect, task: &ExtensionTask, updates: &Arc<TaskUpdates>) -> PollFuture {
        self.poll(dialect, Instant::now() + pause(task), updates)
    }

    /// Polls the task at that time, or earlier on request.
    fn poll(&self, dialect: Dialect, at: Instant, updates: &Arc<TaskUpdates>) -> PollFuture {
        let (client, id, timeouts, updates) =
            (self.client.clone(), self.id.clone(), self.timeouts, updates.clone());
        Box::pin(async move {
            tokio::select! {
                () = sleep_until(at) => {}
                () = updates.poll_requested() => {}
            }
            dialect.status(&client, &id, timeouts).await
        })
    }
}

/// How far the task was followed.
struct FollowState {
    began: Instant,
    /// The time limit.
    until: Instant,
    /// Polls that were lost in a row.
    failures: u32,
    /// The names of the input requests that were answered. Each is answered once in the life of the task.
    answered: SortedSet<String>,
    rounds: usize,
    /// The last known state.
    last: Option<ExtensionTask>,
}

impl FollowState {
    /// Records the current state.
    fn record(&mut self, follow: &Follow, task: &ExtensionTask, events: &Events) {
        // The server may remove it then, by its own clock, which started no later than ours.
        let kept =
            task.ttl_ms.map_or(MAX_FOLLOW_TIME, |ttl| Duration::from_millis(u64::try_from(ttl).unwrap_or(0)));
        // One more poll is due after that time, and may take as long as a request.
        let grace = pause(task).saturating_add(follow.timeouts.timeout.unwrap_or(FINAL_POLL_TIMEOUT));
        let until = follow.within.unwrap_or_else(|| kept.saturating_add(grace).min(MAX_FOLLOW_TIME));
        self.until = after(self.began, until);
        let same = |last: &ExtensionTask| {
            last.status == task.status
                && last.status_message == task.status_message
                && last.last_updated_at == task.last_updated_at
        };
        if !self.last.as_ref().is_some_and(same) {
            events.set(task);
            self.last = Some(task.clone());
        }
    }
}

/// The timeout of the last poll after the time limit: the default of
/// [`Limits::request`](mcpjoin_proto::session::Limits).
const FINAL_POLL_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a later instant; a year later if the clock cannot represent it.
fn after(began: Instant, time: Duration) -> Instant {
    began.checked_add(time).unwrap_or_else(|| began + MAX_FOLLOW_TIME * 365)
}

/// Returns the time until the next poll: what the server asks for, within limits, and at most half of the time for
/// which the server keeps the task.
fn pause(task: &ExtensionTask) -> Duration {
    let asked = |milliseconds: i64| Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0));
    let pause = task.poll_interval_ms.map_or(DEFAULT_POLL_INTERVAL, asked);
    let half = task.ttl_ms.map_or(MAX_POLL_INTERVAL, |ttl| asked(ttl) / 2);
    pause.min(half).clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
}

/// Whether the error of the server means that the task is unknown.
pub(super) fn is_unknown(error: &ClientError) -> bool {
    error.remote().is_some_and(|error| error.code == code::INVALID_PARAMS)
}
