//! Following a task to its end: looks at it from time to time and when something is told, answers what it asks, and ends
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
use super::board::News;
use super::dialect::{Dialect, Patience, is_whole};
use crate::connection::CallEvent;

/// Between two looks at a task that says nothing of it: what the TypeScript SDK takes, too.
const USUAL: Duration = Duration::from_secs(1);
/// A look is never sooner than this after the one before: what asking in rounds begins with (`connection::rounds`).
const SHORTEST: Duration = Duration::from_millis(100);
/// A look is never later than this: well before the half hour after which a session that is at rest is ended.
const LONGEST: Duration = Duration::from_secs(5 * 60);
/// So many looks one after the other may go astray; then the last one's error is the end. As often as a lost request is made
/// again elsewhere: a look changes nothing.
const ASTRAY: u32 = 3;
/// The longest that a task is followed which the server keeps for ever and whose caller says nothing: a day.
const AT_MOST: Duration = Duration::from_secs(24 * 60 * 60);

/// What is followed, and how.
pub(super) struct Follow {
    pub(super) client: Client,
    pub(super) id: String,
    /// As the server said when it began.
    pub(super) created: Option<Arc<ExtensionTask>>,
    pub(super) patience: Patience,
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
    ending: Pin<Box<dyn Future<Output = Result<Ended, ClientError>> + Send>>,
    events: Arc<Events>,
    ended: Option<Result<Ended, ClientError>>,
}

/// How it stood, for whoever wants to know: the newest replaces those that nobody has taken, as with progress.
#[derive(Default)]
struct Events(Mutex<VecDeque<ExtensionTask>>);

impl Events {
    fn tell(&self, task: &ExtensionTask) {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.clear();
        events.push_back(task.clone());
    }

    fn take(&self) -> Option<ExtensionTask> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// What was learned of it.
enum Told {
    /// How it stands.
    Task(Box<ExtensionTask>),
    /// What came of it.
    Result(Result<Raw, ClientError>),
    /// That it has changed.
    Something,
}

/// What the task makes us do beside looking at it: gives its result, where that is what it is waited for there.
type Side = Pin<Box<dyn Future<Output = Result<Option<Raw>, ClientError>> + Send>>;
type Look = Pin<Box<dyn Future<Output = Result<ExtensionTask, ClientError>> + Send>>;

impl Following {
    pub(super) fn new(follow: Follow) -> Self {
        let events = Arc::new(Events::default());
        let ending = Box::pin(follow.run(events.clone()));
        Self { ending, events, ended: None }
    }

    /// The next change; `None` at the end. It runs in here, so whoever is woken finds what was told.
    pub(in super::super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<CallEvent>> {
        if self.ended.is_none()
            && let Poll::Ready(ended) = self.ending.as_mut().poll(cx)
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
            None => self.ending.as_mut().poll(cx),
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
        let news = Arc::new(News::default());
        let mut listening = Box::pin(dialect.listen(&self.client, &self.id, &news)).fuse();
        let began = Instant::now();
        let mut course = Course {
            until: after(began, self.within.unwrap_or(AT_MOST)),
            began,
            astray: 0,
            answered: BTreeSet::new(),
            rounds: 0,
            seen: None,
        };
        let mut side: Option<Side> = None;
        // What was said at the beginning is no news to be checked, but how often to look is.
        let mut look = match &self.created {
            Some(task) => {
                course.see(&self, task, &events);
                if task.status.is_final() {
                    self.look(dialect, began, &news)
                } else {
                    self.later(dialect, task, &news)
                }
            }
            None => self.look(dialect, began, &news),
        };
        loop {
            let told = tokio::select! {
                biased;
                done = async { side.as_mut().expect("it is there").await }, if side.is_some() => {
                    side = None;
                    match done {
                        Ok(Some(result)) => Told::Result(Ok(result)),
                        Ok(None) => Told::Something,
                        Err(error) if dialect.fetches() && error.is_retryable() => Told::Something,
                        Err(error) if dialect.fetches() && error.remote().is_some() => Told::Result(Err(error)),
                        Err(error) => return Err(error),
                    }
                }
                task = news.next() => Told::Task(Box::new(task)),
                () = &mut listening => continue,
                looked = &mut look => match looked {
                    Ok(task) => {
                        course.astray = 0;
                        look = self.later(dialect, &task, &news);
                        if !is_whole(dialect, &task) {
                            let what = format!("a task that is {} lacks what it ended with", task.status.as_str());
                            return Err(ClientError::BadResult { method: Method::GetTask, what });
                        }
                        Told::Task(Box::new(task))
                    }
                    Err(error) if error.is_retryable() && course.astray < ASTRAY => {
                        course.astray += 1;
                        look = self.look(dialect, Instant::now() + USUAL, &news);
                        continue;
                    }
                    Err(error) => return Err(self.unknown(error)),
                },
                () = sleep_until(course.until) => {
                    let (id, after) = (self.id.clone(), began.elapsed());
                    return Err(ClientError::TaskTimedOut { id, after });
                }
            };
            let task = match told {
                Told::Something => {
                    news.hurry();
                    continue;
                }
                Told::Task(task) => *task,
                Told::Result(result) => return self.over_there(dialect, result, course.seen).await,
            };
            course.see(&self, &task, &events);
            if task.status.is_final() {
                if is_whole(dialect, &task) {
                    return self.end(dialect, task, side).await;
                }
                news.hurry();
            } else if task.status == TaskStatus::InputRequired && side.is_none() {
                side = self.give(dialect, &task, &mut course)?;
            }
        }
    }

    /// What a task that waits for input is given.
    fn give(
        &self,
        dialect: Dialect,
        task: &ExtensionTask,
        course: &mut Course,
    ) -> Result<Option<Side>, ClientError> {
        let (client, id, patience) = (self.client.clone(), self.id.clone(), self.patience);
        let limit = client.inner.max_rounds;
        let too_many = || ClientError::TooManyRounds { method: Method::CallTool, limit };
        if dialect.fetches() {
            // More than once only when it went astray.
            if course.rounds >= limit {
                return Err(too_many());
            }
            course.rounds += 1;
            // It asks on the answer to this, which comes when the task is over: only the task's own time bounds it.
            let left = course.until.saturating_duration_since(Instant::now());
            let patience = Patience { timeout: Some(left), total: Some(left) };
            return Ok(Some(Box::pin(async move { dialect.fetch(&client, &id, patience).await.map(Some) })));
        }
        let asked = task.input_requests.iter().flat_map(InputRequests::iter);
        let fresh: InputRequests = asked
            .filter(|(key, _)| !course.answered.contains(*key))
            .map(|(key, question)| (key, question.clone()))
            .collect();
        if fresh.is_empty() {
            return Ok(None);
        }
        if course.rounds >= limit {
            return Err(too_many());
        }
        course.rounds += 1;
        course.answered.extend(fresh.keys().map(str::to_owned));
        Ok(Some(Box::pin(async move {
            let answers = client.inner.answers.clone().answer_all(Method::CallTool, fresh).await?;
            let mut astray = 0;
            loop {
                // Answers to what is answered already are passed over, so they may be sent again.
                match dialect.update(&client, &id, answers.clone(), patience).await {
                    Err(error) if error.is_retryable() && astray < ASTRAY => astray += 1,
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
        side: Option<Side>,
    ) -> Result<Ended, ClientError> {
        if !self.fetch {
            return Ok(Ended { task: Box::new(task), result: None });
        }
        let result = match &task.status {
            TaskStatus::Cancelled => Err(self.cancelled(&task)),
            _ if dialect.fetches() => self.fetched(dialect, side).await,
            TaskStatus::Completed => Ok(task.result.take().unwrap_or_else(Raw::empty_object)),
            _ => {
                let lost = || mcpjoin_proto::ErrorObject::internal("the task has failed");
                Err(CallError::Remote(task.error.clone().unwrap_or_else(lost)).into())
            }
        };
        Ok(Ended { task: Box::new(task), result: Some(result) })
    }

    /// The result of a task that is over, which has to be fetched.
    async fn fetched(&self, dialect: Dialect, side: Option<Side>) -> Result<Raw, ClientError> {
        if let Some(side) = side {
            match side.await {
                Ok(Some(result)) => return Ok(result),
                Err(error) if !error.is_retryable() => return Err(error),
                _ => {}
            }
        }
        let mut astray = 0;
        loop {
            match dialect.fetch(&self.client, &self.id, self.patience).await {
                Err(error) if error.is_retryable() && astray < ASTRAY => astray += 1,
                outcome => return outcome,
            }
        }
    }

    /// The result came, or an error in its place, before the task was seen to be over.
    async fn over_there(
        &self,
        dialect: Dialect,
        result: Result<Raw, ClientError>,
        seen: Option<ExtensionTask>,
    ) -> Result<Ended, ClientError> {
        let now = dialect.status(&self.client, &self.id, self.patience).await;
        let task = match (now, seen) {
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

    /// The next look, as soon as the task wants it.
    fn later(&self, dialect: Dialect, task: &ExtensionTask, news: &Arc<News>) -> Look {
        self.look(dialect, Instant::now() + pause(task), news)
    }

    /// A look at the task then, or when it is due before.
    fn look(&self, dialect: Dialect, at: Instant, news: &Arc<News>) -> Look {
        let (client, id, patience, news) =
            (self.client.clone(), self.id.clone(), self.patience, news.clone());
        Box::pin(async move {
            tokio::select! {
                () = sleep_until(at) => {}
                () = news.hurried() => {}
            }
            dialect.status(&client, &id, patience).await
        })
    }
}

/// How far it is followed.
struct Course {
    began: Instant,
    /// It is given up then.
    until: Instant,
    /// Looks that went astray one after the other.
    astray: u32,
    /// The names of the questions that were answered: each has one answer in the life of the task.
    answered: BTreeSet<String>,
    rounds: usize,
    /// As it was seen last.
    seen: Option<ExtensionTask>,
}

impl Course {
    /// Takes note of how it stands now.
    fn see(&mut self, follow: &Follow, task: &ExtensionTask, events: &Events) {
        // The server may throw it away then, counted by its own clock from a moment that was not after we began to look.
        let kept = task.ttl_ms.map_or(AT_MOST, |ttl| Duration::from_millis(u64::try_from(ttl).unwrap_or(0)));
        // One look more is due after its time, and may take its own.
        let grace = pause(task).saturating_add(follow.patience.timeout.unwrap_or(GRACE));
        let until = follow.within.unwrap_or_else(|| kept.saturating_add(grace).min(AT_MOST));
        self.until = after(self.began, until);
        let same = |seen: &ExtensionTask| {
            seen.status == task.status
                && seen.status_message == task.status_message
                && seen.last_updated_at == task.last_updated_at
        };
        if !self.seen.as_ref().is_some_and(same) {
            events.tell(task);
            self.seen = Some(task.clone());
        }
    }
}

/// For the last look at a task whose time is up: as long as a request may take
/// ([`Limits::request`](mcpjoin_proto::session::Limits)) by default.
const GRACE: Duration = Duration::from_secs(60);

/// That much later; a year later where there is no such time.
fn after(began: Instant, time: Duration) -> Instant {
    began.checked_add(time).unwrap_or_else(|| began + AT_MOST * 365)
}

/// How long until the next look: what the server asks for, within bounds, and never so long that a task which is kept for
/// a moment is gone before.
fn pause(task: &ExtensionTask) -> Duration {
    let asked = |milliseconds: i64| Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0));
    let pause = task.poll_interval_ms.map_or(USUAL, asked);
    let half = task.ttl_ms.map_or(LONGEST, |ttl| asked(ttl) / 2);
    pause.min(half).clamp(SHORTEST, LONGEST)
}

/// An error of the server that means that it does not know the task.
pub(super) fn is_unknown(error: &ClientError) -> bool {
    error.remote().is_some_and(|error| error.code == code::INVALID_PARAMS)
}
