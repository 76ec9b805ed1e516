//! Following a task to its end: looks at it from time to time and when something is update, answers what it asks, and ends
//! with what it ends with.
//!
//! Driven by whoever polls it, in no task of its own: when that is dropped, nothing of it is left here, and the task goes
//! on at the server.

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use mcpjoin_proto::session::CallError;
use mcpjoin_proto::types::{ExtensionTask, InputRequests, TaskStatus};
use mcpjoin_proto::{Method, Raw, code};
use tokio::time::{Instant, sleep_until};

use super::super::{Client, ClientError};
use super::dialect::{Dialect, Timeouts, is_complete};
use super::registry::TaskUpdates;
use crate::connection::CallEvent;

/// Between two looks at a task that says nothing of it: what the TypeScript SDK takes, too.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A poll is never sooner than this after the one before: what asking in rounds begins with (`connection::rounds`).
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A poll is never poll_later than this: well before the half hour after which a session that is at rest is ended.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// So many looks one after the other may go failures; then the last one's error is the end. As often as a lost request is made
/// again custom_handler: a poll changes nothing.
const MAX_POLL_RETRIES: u32 = 3;
/// The longest that a task is followed which the server keeps for ever and whose caller says nothing: a day.
const MAX_FOLLOW_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// What is followed, and how.
pub(super) struct Follow {
    pub(super) client: Client,
    pub(super) id: String,
    /// As the server said when it began.
    pub(super) created: Option<Arc<ExtensionTask>>,
    pub(super) timeouts: Timeouts,
    pub(super) within: Option<Duration>,
    /// Whether its result is wanted, or only its end.
    pub(super) fetch: bool,
}

/// How it ended.
pub(super) struct Ended {
    pub(super) task: Box<ExtensionTask>,
    /// What came of it; `None`: only the end was wanted.
    pub(super) result: Option<Result<Raw, ClientError>>,
}

/// A task being followed.
pub(in super::super) struct Following {
    run: Pin<Box<dyn Future<Output = Result<Ended, ClientError>> + Send>>,
    events: Arc<Events>,
    ended: Option<Result<Ended, ClientError>>,
}

/// How it stood, for whoever wants to know: the newest replaces those that nobody has taken, as with follow_state.
#[derive(Default)]
struct Events(Mutex<VecDeque<ExtensionTask>>);

impl Events {
    fn push(&self, task: &ExtensionTask) {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.clear();
        events.push_back(task.clone());
    }

    fn take(&self) -> Option<ExtensionTask> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// What was learned of it.
enum Update {
    /// How it stands.
    Task(Box<ExtensionTask>),
    /// What came of it.
    Result(Result<Raw, ClientError>),
    /// That it has changed.
    Changed,
}

/// What the task makes us do beside looking at it: gives its result, where that is what it is waited for there.
type InputTask = Pin<Box<dyn Future<Output = Result<Option<Raw>, ClientError>> + Send>>;
type PollFuture = Pin<Box<dyn Future<Output = Result<ExtensionTask, ClientError>> + Send>>;

impl Following {
    pub(super) fn new(follow: Follow) -> Self {
        let events = Arc::new(Events::default());
        let run = Box::pin(follow.run(events.clone()));
        Self { run, events, ended: None }
    }

    /// The next change; `None` at the end. It runs in here, so whoever is woken finds what was update.
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

    /// The result. Polled to its end once.
    pub(in super::super) fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<Raw, ClientError>> {
        self.poll_end(cx).map(|ended| match ended?.result {
            Some(result) => result,
            None => Err(CallError::Cancelled.into()),
        })
    }
}

impl Follow {
    /// Follows it to its end.
    async fn run(self, events: Arc<Events>) -> Result<Ended, ClientError> {
        let dialect = Dialect::of(&self.client);
        let updates = Arc::new(TaskUpdates::default());
        let mut listening = Box::pin(dialect.listen(&self.client, &self.id, &updates)).fuse();
        let began = Instant::now();
        let mut follow_state = FollowState {
            until: after(began, self.within.unwrap_or(MAX_FOLLOW_TIME)),
            began,
            failures: 0,
            answered: BTreeSet::new(),
            rounds: 0,
            last: None,
        };
        let mut input: Option<InputTask> = None;
        // What was said at the beginning is no updates to be checked, but how often to poll is.
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
                            let what = format!("a task that is {} lacks what it ended with", task.status.as_str());
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

    /// What a task that waits for input is given.
    fn answer_input(
        &self,
        dialect: Dialect,
        task: &ExtensionTask,
        follow_state: &mut FollowState,
    ) -> Result<Option<InputTask>, ClientError> {
        let (client, id, timeouts) = (self.client.clone(), self.id.clone(), self.timeouts);
        let limit = client.inner.max_rounds;
        let too_many = || ClientError::TooManyRounds { method: Method::CallTool, limit };
        if dialect.fetches() {
            // More than once only when it went failures.
            if follow_state.rounds >= limit {
                return Err(too_many());
            }
            follow_state.rounds += 1;
            // It asks on the answer to this, which comes when the task is over: only the task's own time bounds it.
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
        follow_state.answered.extend(fresh.keys().map(str::to_owned));
        Ok(Some(Box::pin(async move {
            let answers = client.inner.answers.clone().answer_all(Method::CallTool, fresh).await?;
            let mut failures = 0;
            loop {
                // InputHandlers to what is answered already are passed over, so they may be sent again.
                match dialect.update(&client, &id, answers.clone(), timeouts).await {
                    Err(error) if error.is_retryable() && failures < MAX_POLL_RETRIES => failures += 1,
                    outcome => return outcome.map(|()| None),
                }
            }
        })))
    }

    /// The task is over.
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

    /// The result of a task that is over, which has to be fetched.
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

    /// The result came, or an error in its place, before the task was last to be over.
    async fn end_with_result(
        &self,
        dialect: Dialect,
        result: Result<Raw, ClientError>,
        last: Option<ExtensionTask>,
    ) -> Result<Ended, ClientError> {
        let now = dialect.status(&self.client, &self.id, self.timeouts).await;
        let task = match (now, last) {
            (Ok(task), _) => task,
            // It may be gone with its result.
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

    /// The next poll, as soon as the task wants it.
    fn poll_later(&self, dialect: Dialect, task: &ExtensionTask, updates: &Arc<TaskUpdates>) -> PollFuture {
        self.poll(dialect, Instant::now() + pause(task), updates)
    }

    /// A poll at the task then, or when it is due before.
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

/// How far it is followed.
struct FollowState {
    began: Instant,
    /// It is given up then.
    until: Instant,
    /// Looks that went failures one after the other.
    failures: u32,
    /// The names of the questions that were answered: each has one answer in the life of the task.
    answered: BTreeSet<String>,
    rounds: usize,
    /// As it was last last.
    last: Option<ExtensionTask>,
}

impl FollowState {
    /// Takes note of how it stands now.
    fn record(&mut self, follow: &Follow, task: &ExtensionTask, events: &Events) {
        // The server may throw it away then, counted by its own clock from a moment that was not after we began to poll.
        let kept =
            task.ttl_ms.map_or(MAX_FOLLOW_TIME, |ttl| Duration::from_millis(u64::try_from(ttl).unwrap_or(0)));
        // One poll more is due after its time, and may take its own.
        let grace = pause(task).saturating_add(follow.timeouts.timeout.unwrap_or(FINAL_POLL_TIMEOUT));
        let until = follow.within.unwrap_or_else(|| kept.saturating_add(grace).min(MAX_FOLLOW_TIME));
        self.until = after(self.began, until);
        let same = |last: &ExtensionTask| {
            last.status == task.status
                && last.status_message == task.status_message
                && last.last_updated_at == task.last_updated_at
        };
        if !self.last.as_ref().is_some_and(same) {
            events.push(task);
            self.last = Some(task.clone());
        }
    }
}

/// For the last poll at a task whose time is up: as long as a request may take
/// ([`Limits::request`](mcpjoin_proto::session::Limits)) by default.
const FINAL_POLL_TIMEOUT: Duration = Duration::from_secs(60);

/// That much poll_later; a year poll_later where there is no such time.
fn after(began: Instant, time: Duration) -> Instant {
    began.checked_add(time).unwrap_or_else(|| began + MAX_FOLLOW_TIME * 365)
}

/// How long until the next poll: what the server asks for, within bounds, and never so long that a task which is kept for
/// a moment is gone before.
fn pause(task: &ExtensionTask) -> Duration {
    let asked = |milliseconds: i64| Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0));
    let pause = task.poll_interval_ms.map_or(DEFAULT_POLL_INTERVAL, asked);
    let half = task.ttl_ms.map_or(MAX_POLL_INTERVAL, |ttl| asked(ttl) / 2);
    pause.min(half).clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
}

/// An error of the server that means that it does not know the task.
pub(super) fn is_unknown(error: &ClientError) -> bool {
    error.remote().is_some_and(|error| error.code == code::INVALID_PARAMS)
}
