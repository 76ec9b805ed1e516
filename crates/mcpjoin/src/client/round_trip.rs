//! Requests with options of their own: `tools/call`, `prompts/get`, `resources/read`, `completion/complete`.
//!
//! For all but the last one a server may ask for input.
//! The handlers of the client provide the input, and the request is sent again with a new id, the input and the
//! server's state, until there is a result.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>. A request that failed is never sent
//! again, because a tool may have run although its response was lost.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use mcpjoin_proto::session::{Call, CallError, Reply};
use mcpjoin_proto::types::{
    CallToolParams, CallToolResult, CompleteContext, CompleteParams, CompleteResult, GetPromptParams,
    GetPromptResult, InputRequired, InputResponses, LoggingLevel, Meta, ProgressParams, ProtocolType,
    ReadResourceParams, ReadResourceResult, TaskMetadata, TaskSupport,
};
use mcpjoin_proto::{Method, Raw, RequestId};
use tokio::time::Sleep;

use super::cache::ttl;
use super::connection_cache::{CacheTicket, Lookup};
use super::task::{
    Dialect, Following, StartedCall, TaskHandle, TaskOutcome, Timeouts, look_up_task_metadata,
    needs_task_support, task_metadata,
};
use super::{Client, ClientError, decode, encode};
use crate::connection::rounds::{FIRST_PAUSE, MAX_PAUSE, MAX_ROUNDS};
use crate::connection::{CallEvent, Calling};

/// A call of a tool in progress.
pub type ToolCall = RoundTrip<CallToolParams>;

/// A request for a prompt in progress.
pub type PromptCall = RoundTrip<GetPromptParams>;

/// A request for a resource in progress.
pub type ResourceRead = RoundTrip<ReadResourceParams>;

/// A request for completions in progress.
pub type CompletionCall = RoundTrip<CompleteParams>;

/// A request in progress that may take several rounds: zero or more [`CallEvent`]s, then the result.
///
/// Await it for the result, or call [`RoundTrip::next_event`] for the events before it. Nothing is sent before the
/// first poll, so call the setters before that. Dropping it before the result is there cancels the request and tells
/// the server so.
///
/// Each round has the timeouts of a request of its own. No timeout runs while input is being collected.
///
/// If a server runs the call as a task, and the client accepts tasks
/// ([`ClientBuilder::tasks`](super::ClientBuilder::tasks)), the task is polled until it ends, within the limits of
/// [`TaskResult`](super::TaskResult). From then on the events are [`CallEvent::Task`], and dropping the call leaves the
/// task running at the server.
#[must_use = "nothing is sent before it is polled"]
pub struct RoundTrip<P: RoundTripParams> {
    client: Client,
    params: P,
    timeout: Option<Duration>,
    total: Option<Duration>,
    progress: bool,
    on_progress: Option<OnProgress>,
    log_level: Option<LoggingLevel>,
    rounds: usize,
    pause: Duration,
    task: TaskOptions,
    /// Whether the tool supports tasks, if the caller knows.
    support: Option<TaskSupport>,
    stage: Stage,
    /// Permission to cache the result of the current request.
    cache_ticket: Option<CacheTicket>,
}

/// Receives the progress of a request that is awaited.
type OnProgress = Box<dyn FnMut(ProgressParams) + Send>;

/// How a call of a tool deals with tasks.
#[derive(Clone, Copy, Default)]
struct TaskOptions {
    /// The caller prefers a task, even if the tool does not require one.
    requested: bool,
    /// The caller wants the task itself, and does not wait for its end.
    detached: bool,
    /// How long to wait for the end of the task.
    within: Option<Duration>,
    /// Whether to ask for a task is known.
    resolved: bool,
}

enum Stage {
    Unsent,
    CheckingTaskSupport(Pin<Box<dyn Future<Output = Option<TaskMetadata>> + Send>>),
    Calling(Calling),
    AnsweringInput(Pin<Box<dyn Future<Output = Result<InputResponses, ClientError>> + Send>>),
    Pausing(Pin<Box<Sleep>>),
    Following(Following),
    TaskStarted(TaskHandle),
    /// Not decoded yet: the caller may want the raw result.
    Done(Result<Raw, ClientError>),
    Over,
}

mod sealed {
    pub trait Sealed {}
}

/// The parameters of a request that a [`RoundTrip`] sends. Sealed.
pub trait RoundTripParams: sealed::Sealed + ProtocolType + Unpin + Send {
    /// The result of the request.
    type Result: ProtocolType + Unpin + Send;

    /// The method of the request.
    #[doc(hidden)]
    const METHOD: Method;

    /// Whether a server may ask for input.
    #[doc(hidden)]
    const TAKES_INPUT: bool = true;

    /// Sets the members that make it a further round.
    #[doc(hidden)]
    fn set_input(&mut self, responses: Option<InputResponses>, state: Option<String>);

    #[doc(hidden)]
    fn state(&mut self) -> Option<String>;

    #[doc(hidden)]
    fn meta(&mut self) -> &mut Option<Meta>;

    #[doc(hidden)]
    fn meta_is_absent(&self) -> bool;

    /// The parameters of a tool call, which may become a task.
    #[doc(hidden)]
    fn tool(&mut self) -> Option<&mut CallToolParams>;
}

macro_rules! round_trip_params {
    ($($params:ident, $method:ident => $result:ident, $tool:expr;)*) => {$(
        impl sealed::Sealed for $params {}

        impl RoundTripParams for $params {
            type Result = $result;
            const METHOD: Method = Method::$method;

            fn set_input(&mut self, responses: Option<InputResponses>, state: Option<String>) {
                self.input_responses = responses;
                self.request_state = state;
            }

            fn state(&mut self) -> Option<String> {
                self.request_state.take()
            }

            fn meta(&mut self) -> &mut Option<Meta> {
                &mut self.meta
            }

            fn meta_is_absent(&self) -> bool {
                self.meta.is_none()
            }

            fn tool(&mut self) -> Option<&mut CallToolParams> {
                let tool: fn(&mut Self) -> Option<&mut CallToolParams> = $tool;
                tool(self)
            }
        }
    )*};
}

round_trip_params! {
    CallToolParams, CallTool => CallToolResult, |call| Some(call);
    GetPromptParams, GetPrompt => GetPromptResult, |_| None;
    ReadResourceParams, ReadResource => ReadResourceResult, |_| None;
}

impl sealed::Sealed for CompleteParams {}

impl RoundTripParams for CompleteParams {
    type Result = CompleteResult;
    const METHOD: Method = Method::Complete;
    const TAKES_INPUT: bool = false;

    fn set_input(&mut self, _: Option<InputResponses>, _: Option<String>) {}

    fn state(&mut self) -> Option<String> {
        None
    }

    fn meta(&mut self) -> &mut Option<Meta> {
        &mut self.meta
    }

    fn meta_is_absent(&self) -> bool {
        self.meta.is_none()
    }

    fn tool(&mut self) -> Option<&mut CallToolParams> {
        None
    }
}

impl<P: RoundTripParams> RoundTrip<P> {
    pub(super) const fn new(client: Client, params: P, progress: bool) -> Self {
        Self {
            client,
            params,
            timeout: None,
            total: None,
            progress,
            on_progress: None,
            log_level: None,
            rounds: 0,
            pause: FIRST_PAUSE,
            task: TaskOptions { requested: false, detached: false, within: None, resolved: false },
            support: None,
            stage: Stage::Unsent,
            cache_ticket: None,
        }
    }

    /// A request that is not sent. Awaiting it returns the error.
    pub(super) fn refused(client: Client, params: P, error: ClientError) -> Self {
        Self { stage: Stage::Done(Err(error)), ..Self::new(client, params, false) }
    }

    /// Sets how long each round may take without a sign of life. Progress resets it. Default: the connection's
    /// ([`Limits::request`](mcpjoin_proto::session::Limits), 60 s).
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how long each round may take in total, with or without progress. Default: the connection's
    /// ([`Limits::request_total`](mcpjoin_proto::session::Limits), 10 min).
    pub const fn total(mut self, total: Duration) -> Self {
        self.total = Some(total);
        self
    }

    /// Sets whether to ask for progress. Default: `true` for tools, `false` for prompts and resources.
    pub const fn progress(mut self, progress: bool) -> Self {
        self.progress = progress;
        self
    }

    /// Asks for progress, and gives it to a function while the request is awaited. A newer report replaces one that was not
    /// taken. What [`next_event`](Self::next_event) returns is not given to it.
    ///
    /// ```no_run
    /// # async fn example(client: mcpjoin::Client) -> Result<(), mcpjoin::client::ClientError> {
    /// let call = client.call_tool("index", ()).on_progress(|progress| println!("{}", progress.progress));
    /// println!("{}", call.await?.to_text());
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_progress(mut self, on_progress: impl FnMut(ProgressParams) + Send + 'static) -> Self {
        self.progress = true;
        self.on_progress = Some(Box::new(on_progress));
        self
    }

    /// Sets the minimum level of log messages for this request, in the modern era. Default: the level of
    /// [`Client::set_level`].
    pub const fn log_level(mut self, level: LoggingLevel) -> Self {
        self.log_level = Some(level);
        self
    }

    /// Sets the `_meta` of the request.
    pub fn meta(mut self, meta: Meta) -> Self {
        *self.params.meta() = Some(meta);
        self
    }

    /// Returns the id of the current request. Each round has another one; `None` between rounds.
    #[must_use]
    pub fn id(&self) -> Option<RequestId> {
        match &self.stage {
            Stage::Calling(calling) => calling.id(),
            _ => None,
        }
    }

    /// Returns the next event, or `None` when the result is ready to be awaited. Sends the request if it was not sent
    /// yet. Cancel-safe.
    pub async fn next_event(&mut self) -> Option<CallEvent> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    /// Returns the result as the server has sent it, including members that the specification does not name. Dropping
    /// the future cancels the request.
    ///
    /// # Errors
    /// See [`ClientError`]. The result is not checked against the type of the method.
    pub async fn raw(mut self) -> Result<Raw, ClientError> {
        poll_fn(|cx| self.poll_raw(cx)).await
    }

    /// Gives progress to the function for it until there is an outcome. Without such a function it does nothing.
    fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.on_progress.is_some() {
            match (ready!(self.poll_event(cx)), &mut self.on_progress) {
                (Some(CallEvent::Progress(progress)), Some(on_progress)) => on_progress(progress),
                (Some(_), _) => {}
                (None, _) => break,
            }
        }
        Poll::Ready(())
    }

    fn poll_raw(&mut self, cx: &mut Context<'_>) -> Poll<Result<Raw, ClientError>> {
        ready!(self.poll_progress(cx));
        loop {
            match &self.stage {
                Stage::Done(_) => {
                    if let Stage::Done(result) = std::mem::replace(&mut self.stage, Stage::Over) {
                        return Poll::Ready(result);
                    }
                }
                Stage::TaskStarted(_) | Stage::Over => return Poll::Ready(Err(CallError::Cancelled.into())),
                _ => ready!(self.step(cx)),
            }
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<CallEvent>> {
        loop {
            let event = match &mut self.stage {
                Stage::Calling(calling) => ready!(calling.poll_event(cx)),
                Stage::Following(following) => ready!(following.poll_event(cx)),
                _ => None,
            };
            if event.is_some() {
                return Poll::Ready(event);
            }
            if matches!(self.stage, Stage::Done(_) | Stage::TaskStarted(_) | Stage::Over) {
                return Poll::Ready(None);
            }
            ready!(self.step(cx));
        }
    }

    /// Advances by one stage.
    fn step(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stage = match &mut self.stage {
            Stage::Unsent => self.start_round(),
            Stage::CheckingTaskSupport(lookup) => {
                let task = ready!(lookup.as_mut().poll(cx));
                if let Some(call) = self.params.tool() {
                    call.task = task;
                }
                Stage::Unsent
            }
            Stage::Calling(calling) => {
                let reply = ready!(Pin::new(&mut *calling).poll(cx));
                let arrived = calling.arrived();
                if let (Ok(Reply::Complete(result)), Some(ticket)) = (&reply, self.cache_ticket.take())
                    && (ttl(result).is_zero() || P::Result::read(result).is_ok())
                {
                    self.client.inner.cache.keep(ticket, result, arrived, true);
                }
                self.handle_reply(reply)
            }
            Stage::AnsweringInput(answers) => match ready!(answers.as_mut().poll(cx)) {
                Ok(responses) => {
                    let state = self.params.state();
                    self.params.set_input(Some(responses), state);
                    Stage::Unsent
                }
                Err(error) => Stage::Done(Err(error)),
            },
            Stage::Pausing(sleep) => {
                ready!(sleep.as_mut().poll(cx));
                Stage::Unsent
            }
            Stage::Following(following) => Stage::Done(ready!(following.poll_result(cx))),
            Stage::Done(_) | Stage::TaskStarted(_) | Stage::Over => return Poll::Ready(()),
        };
        Poll::Ready(())
    }

    /// Sends the request, unless the client must first find out whether the tool requires a task.
    fn start_round(&mut self) -> Stage {
        if !self.task.resolved {
            self.task.resolved = true;
            if let Some(call) = self.params.tool()
                && needs_task_support(&self.client, call)
            {
                let TaskOptions { requested, within, .. } = self.task;
                match &self.support {
                    Some(support) => call.task = task_metadata(Some(support), requested, within),
                    None => {
                        let (client, tool) = (self.client.clone(), call.name.clone());
                        return Stage::CheckingTaskSupport(Box::pin(look_up_task_metadata(
                            client, tool, requested, within,
                        )));
                    }
                }
            }
        }
        self.send().unwrap_or_else(|error| Stage::Done(Err(error)))
    }

    fn send(&mut self) -> Result<Stage, ClientError> {
        let params = encode(&P::METHOD, &self.params)?;
        self.cache_ticket = match self.client.look_up(&P::METHOD, Some(&params)) {
            Lookup::Hit(result) => return Ok(Stage::Done(Ok(result))),
            Lookup::Miss(ticket) => ticket,
        };
        let mut call = Call::new(P::METHOD).with_params(params);
        call.lacks_meta = self.params.meta_is_absent();
        call.timeout = self.timeout;
        call.total = self.total;
        // A task may report progress as long as it lives, when nothing listens any more.
        call.progress = self.progress && !self.requests_task();
        call.log_level = self.log_level.or_else(|| self.client.requested_log_level());
        Ok(Stage::Calling(self.client.inner.connection.call(call)))
    }

    fn handle_reply(&mut self, reply: Result<Reply, CallError>) -> Stage {
        match reply {
            Ok(Reply::Complete(result)) if self.requests_task() => self.task_started(result),
            Ok(Reply::Complete(result)) => Stage::Done(Ok(result)),
            Ok(Reply::NeedInput(input)) => self.next_round(*input),
            // The client forwards results unchanged, and handles no rounds.
            Ok(Reply::Verbatim(result)) => Stage::Done(Ok(result.into_raw())),
            Ok(Reply::Task(task)) if self.params.tool().is_some() => self.task_started(task),
            Ok(Reply::Task(_)) => Stage::Done(Err(ClientError::BadResult {
                method: P::METHOD,
                what: "it is a task, but only tools/call can become a task".into(),
            })),
            Err(error) => Stage::Done(Err(error.into())),
        }
    }

    fn requests_task(&mut self) -> bool {
        self.client.inner.answers.takes_tasks && self.params.tool().is_some_and(|call| call.task.is_some())
    }

    /// The call has become a task, or the server has returned a result although it was asked for a task.
    fn task_started(&mut self, result: Raw) -> Stage {
        let asked = self.requests_task();
        match Dialect::of(&self.client).created(asked, &result) {
            Ok(None) => Stage::Done(Ok(result)),
            Err(error) => Stage::Done(Err(error)),
            Ok(Some(task)) => {
                let task = TaskHandle::new(self.client.clone(), task.task_id.clone(), Some(task));
                if self.task.detached {
                    return Stage::TaskStarted(task);
                }
                let timeouts = Timeouts { timeout: self.timeout, total: self.total };
                Stage::Following(task.following(timeouts, self.task.within))
            }
        }
    }

    /// The state and the input of each round replace those of the round before.
    fn next_round(&mut self, input: InputRequired) -> Stage {
        if !P::TAKES_INPUT {
            return Stage::Done(Err(ClientError::BadResult {
                method: P::METHOD,
                what: "it is not a complete result, which this method always has".into(),
            }));
        }
        let limit = MAX_ROUNDS;
        if self.rounds >= limit {
            return Stage::Done(Err(ClientError::TooManyRounds { method: P::METHOD, limit }));
        }
        self.rounds += 1;
        self.params.set_input(None, input.request_state);
        match input.input_requests {
            Some(questions) if !questions.is_empty() => {
                self.pause = FIRST_PAUSE;
                let answers = self.client.inner.answers.clone();
                Stage::AnsweringInput(Box::pin(answers.answer_all(P::METHOD, questions)))
            }
            // The server is overloaded, or waits for something of its own.
            _ => {
                let sleep = tokio::time::sleep(self.pause);
                self.pause = (self.pause * 2).min(MAX_PAUSE);
                Stage::Pausing(Box::pin(sleep))
            }
        }
    }
}

impl ToolCall {
    /// Prefers to run the tool as a task, even if the tool does not require it. Has no effect where the server decides,
    /// or if the client does not accept tasks.
    pub const fn as_task(mut self) -> Self {
        self.task.requested = true;
        self
    }

    /// Sets how long to wait for the end of the task that the call may become, and how long a server of 2025-11-25 is
    /// asked to keep it. Default: as long as the server keeps it; it is asked to keep it for an hour.
    pub const fn within(mut self, within: Duration) -> Self {
        self.task.within = Some(within);
        self
    }

    /// Sets what the server's list says about the tool (`execution.taskSupport`; [`TaskSupport::Forbidden`] if it says
    /// nothing), for callers that have read the list. Otherwise the client reads the list when it needs to know.
    #[doc(hidden)]
    pub fn task_support(mut self, support: TaskSupport) -> Self {
        self.support = Some(support);
        self
    }

    /// Starts the call without waiting for the end of a task. The tool runs as a task if it can, as with
    /// [`ToolCall::as_task`].
    ///
    /// ```no_run
    /// use mcpjoin::client::TaskOutcome;
    ///
    /// # async fn example(client: mcpjoin::Client) -> Result<(), mcpjoin::client::ClientError> {
    /// match client.call_tool("build", ()).start().await? {
    ///     TaskOutcome::Task(task) => println!("it runs as {}", task.id()),
    ///     TaskOutcome::Result(result) => println!("{}", result.as_str()),
    ///     _ => {}
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub const fn start(mut self) -> StartedCall {
        self.task.detached = true;
        StartedCall::new(self.as_task())
    }

    pub(super) fn poll_started(&mut self, cx: &mut Context<'_>) -> Poll<Result<TaskOutcome, ClientError>> {
        ready!(self.poll_progress(cx));
        loop {
            match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Done(result) => return Poll::Ready(result.map(TaskOutcome::Result)),
                Stage::TaskStarted(task) => return Poll::Ready(Ok(TaskOutcome::Task(task))),
                Stage::Over => return Poll::Ready(Err(CallError::Cancelled.into())),
                stage => self.stage = stage,
            }
            ready!(self.step(cx));
        }
    }
}

impl CompletionCall {
    /// Adds another argument, or another variable of the template, whose value is known. Since 2025-06-18.
    pub fn given(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let context = self.params.context.get_or_insert_with(CompleteContext::default);
        context.arguments.get_or_insert_default().insert(name.into(), value.into());
        self
    }
}

impl<P: RoundTripParams> Future for RoundTrip<P> {
    type Output = Result<P::Result, ClientError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(self.get_mut().poll_raw(cx));
        Poll::Ready(result.and_then(|result| decode(&P::METHOD, &result)))
    }
}

impl<P: RoundTripParams> fmt::Debug for RoundTrip<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoundTrip")
            .field("method", &P::METHOD)
            .field("id", &self.id())
            .field("rounds", &self.rounds)
            .finish_non_exhaustive()
    }
}
