//! Clients of the modern era in front of a server of the legacy era.
//!
//! A modern client has no session: everything it receives belongs to one of its requests. A legacy server has a
//! session, in which it sends questions, log messages and notifications by itself. Here they are assigned to requests:
//! a question ends the request that it belongs to, and the client's next request continues it (`rounds`, `suspended`);
//! a log message goes to a request that wants it (`in_flight`); changes of lists and resources go to streams
//! (`subscriptions`). Parameters, results, questions and errors are translated (`translate`), and nothing else of them
//! changes.
//!
//! Used by `pool`, with one [`ModernToLegacy`] for each server and for all of its runs. It never starts or ends a
//! server, and never repeats a call that the server may have begun.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>

mod in_flight;
mod rounds;
mod subscriptions;
mod suspended;
mod tasks;
mod translate;
mod url_elicitation;

use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mcpjoin_proto::session::{Call, CallError, CallRefused, ClientInfo, Reply};
use mcpjoin_proto::types::{ListenParams, LoggingLevel, ProtocolType, SubscriptionFilter};
use mcpjoin_proto::{ErrorObject, Method, Notification, Payload, Raw, Request};
use parking_lot::Mutex;
use tokio::time::Instant;

use self::in_flight::{InFlight, RequestGuard, Requester, SessionLogLevel};
use self::rounds::SuspendedCall;
use self::subscriptions::{Streams, SubscriptionTask};
use self::suspended::{Bounds, Suspended};
use self::tasks::TaskTools;
use self::url_elicitation::CompletedPages;
use super::errors::{ErrorTexts, without_session_end};
use super::relay::{self, StreamSink};
use mcpjoin::client::Client;
use mcpjoin::connection::{Connection, Context};
use mcpjoin::transport::Replicas;

pub(super) use self::translate::discover_result;

/// How long a server may take to answer `logging/setLevel`, which delays a call.
const SET_LEVEL_TIMEOUT: Duration = Duration::from_secs(5);

/// What the servers of one pool have in common.
#[derive(Clone)]
pub(super) struct PoolState {
    /// How long a call may take without progress.
    timeout: Duration,
    /// The pool belongs to several clients.
    shared: bool,
    /// The clients have declared a capability that lets a server ask them something.
    can_be_asked: bool,
    /// The calls whose clients have left with questions, at any server of the pool.
    suspended: Arc<Suspended<SuspendedCall>>,
    /// Called when a request ends.
    on_end: Arc<dyn Fn() + Send + Sync>,
}

/// Answers modern clients by asking a legacy server. One for each server, for all of its runs.
pub(super) struct ModernToLegacy {
    pool: PoolState,
    streams: Arc<Streams>,
    /// What the clients can do. All clients of a server declare the same.
    client: OnceLock<Arc<ClientInfo>>,
    /// The current run, once a request needed it.
    run: Mutex<Option<Arc<Run>>>,
}

/// The state of one run of the server.
struct Run {
    connection: Connection,
    in_flight: Arc<InFlight<Context>>,
    log_level: SessionLogLevel,
    completed_pages: CompletedPages,
    task_tools: TaskTools,
    subscriptions: Mutex<Option<SubscriptionTask>>,
}

/// The right of one call to run at one run of a server, until this is dropped.
pub(super) struct Claim {
    run: Arc<Run>,
    request: RequestGuard<Context>,
}

impl PoolState {
    /// `timeout`: how long a call may take without progress. `shared`: the pool belongs to several clients.
    /// `can_be_asked`: they have declared a capability that lets a server ask them something. `on_end` is called each
    /// time a request ends, and must not block.
    pub(super) fn new(
        timeout: Duration,
        shared: bool,
        can_be_asked: bool,
        on_end: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let suspended = Arc::new(Suspended::new(Bounds::default(), SuspendedCall::abandon));
        Self { timeout, shared, can_be_asked, suspended, on_end: Arc::new(on_end) }
    }

    /// Whether calls wait for their clients.
    pub(super) fn has_suspended(&self) -> bool {
        self.suspended.len() > 0
    }

    /// Gives up the call that has waited for its client for the longest time, if another call can have its server then.
    /// `first` is the first server of the pool, which stays also when a call there was left unanswered.
    ///
    /// # Errors
    /// When this is possible; `None` if no such call waits.
    pub(super) fn give_up_absent(&self, first: &ModernToLegacy) -> Result<(), Option<Instant>> {
        let kept = first.current().filter(|_| self.shared);
        self.suspended.give_up_oldest(|call| call.frees_server(kept.as_ref()))
    }
}

impl ModernToLegacy {
    pub(super) fn new(pool: PoolState) -> Self {
        Self { pool, streams: Arc::new(Streams::new()), client: OnceLock::new(), run: Mutex::default() }
    }

    /// Claims the run of this connection for a call. `None`: another call owns it.
    pub(super) fn claim(&self, upstream: &Client, cx: &Context) -> Option<Claim> {
        self.learn_asker(cx);
        let run = self.run(upstream.connection());
        let request = run.in_flight.claim(requester(cx))?;
        Some(Claim { run, request })
    }

    /// Whether a request was left unanswered at the current run, so that no call that can be asked may begin there.
    pub(super) fn is_left_unanswered(&self) -> bool {
        self.current().is_some_and(|run| run.in_flight.is_left_unanswered())
    }

    /// Since when no request is in flight and no stream is open; `None` if one is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        if !self.streams.is_empty() {
            return None;
        }
        self.current().map_or_else(|| Some(Instant::now()), |run| run.in_flight.idle_since())
    }

    /// Reports that a request ended.
    pub(super) fn request_ended(&self) {
        (self.pool.on_end)();
    }

    fn learn_asker(&self, cx: &Context) {
        if let Some(client) = cx.client() {
            let _ = self.client.get_or_init(|| client.clone());
        }
    }

    /// Answers a request of a client. `claim` waits for a server at which a call may run. Cancelled by dropping the
    /// future.
    ///
    /// # Errors
    /// The error to answer the client with.
    pub(super) async fn request<F, Fut>(
        self: &Arc<Self>,
        claim: F,
        upstream: &Client,
        request: Request,
        cx: Context,
        errors: &ErrorTexts,
    ) -> Result<Reply, ErrorObject>
    where
        F: Fn() -> Fut + Send + Sync,
        Fut: Future<Output = Result<Claim, ErrorObject>> + Send,
    {
        let Request { method, params, .. } = request;
        if !is_modern(&method, &cx) {
            return Err(ErrorObject::method_not_found(method.as_str()));
        }
        let run = self.run(upstream.connection());
        self.learn_asker(&cx);
        if self.streams.have_named_resources() {
            let progress = self.subscription_progress(&run);
            self.streams.wait_subscribed(progress).await;
        }
        if method.may_need_input() {
            return self.in_rounds(claim, method, params, &cx, errors).await;
        }
        let guard = run.in_flight.begin(Some(requester(&cx)));
        run.update_log_level(&cx).await;
        let call = call(&method, params.as_ref(), &cx, self.pool.timeout);
        match run.forward(guard, call, &cx).await {
            Ok(result) => Ok(Reply::Complete(translate::result(&method, result))),
            Err(error) => Err(call_error(error, &run.connection, &cx, errors).await),
        }
    }

    /// Ends the call that waits for its client under this state, because the client does not receive its questions.
    pub(super) fn give_up(&self, state: &str, cx: &Context) {
        let replicas = cx.extension::<Replicas>();
        let handle = replicas.map_or(state, |replicas| replicas.unmarked(state));
        self.pool.suspended.give_up(handle, "the policy of this gateway refuses the questions of the call");
    }

    /// Answers a question of the server.
    ///
    /// # Errors
    /// The error to answer the server with.
    pub(super) async fn upstream_request(&self, request: Request, cx: Context) -> Result<Reply, ErrorObject> {
        let Request { method, params, .. } = request;
        let run = self.run(&cx.connection());
        let unknown = ClientInfo::default();
        let client = self.client.get().map_or(&unknown, |client| &**client);
        let params = params.map(Payload::into_raw);
        let bytes = method.as_str().len() + params.as_ref().map_or(0, Raw::len);
        let question = translate::question(&method, params, &client.capabilities)?;
        run.in_flight.ask(question, bytes)?.answer().await.map(Reply::Complete)
    }

    /// Delivers a notification of the server.
    pub(super) fn upstream_notification(&self, notification: Notification) {
        let run = self.current();
        let recipient = match notification.method {
            Method::ToolListChanged
            | Method::PromptListChanged
            | Method::ResourceListChanged
            | Method::ResourceUpdated => {
                if let Some(run) = run.filter(|_| notification.method == Method::ToolListChanged) {
                    run.task_tools.forget();
                }
                self.streams.notify(&notification);
                return;
            }
            Method::ElicitationComplete => {
                let params = notification.params.as_ref();
                let id = params.and_then(|params| params.raw().member("elicitationId"));
                if let (Some(run), Some(id)) = (run, id.as_ref().and_then(Raw::to_string_value)) {
                    run.completed_pages.add(&id);
                }
                return;
            }
            // A message whose level is missing or unknown is wanted by no request.
            Method::LogMessage => {
                level_of(&notification).and_then(|level| run?.in_flight.log_recipient(level, &notification))
            }
            // A notification that no revision defines belongs to no request.
            Method::Other(_) => run.and_then(|run| run.in_flight.only_client()),
            _ => return,
        };
        match recipient {
            Some(cx) => relay::notify(&cx, notification),
            None => {
                tracing::debug!(target: "mcpjoin", method = %notification.method, "a notification has no recipient");
            }
        }
    }

    /// Relays a request to a server of the modern era. Only its progress token changes.
    ///
    /// # Errors
    /// The error to answer the client with.
    pub(super) async fn relay_unchanged(
        &self,
        upstream: &Client,
        request: Request,
        cx: &Context,
        errors: &ErrorTexts,
    ) -> Result<Reply, ErrorObject> {
        let run = self.run(upstream.connection());
        let guard = run.in_flight.begin(Some(requester(cx)));
        let call = relay::call(request.method, request.params, cx, self.pool.timeout);
        match run.forward(guard, call, cx).await {
            Ok(result) => Ok(Reply::Verbatim(result)),
            Err(error) => Err(errors.call_error(error, &run.connection).await),
        }
    }

    /// The client that receives a notification which a modern server sends outside of its streams. A log message goes
    /// to a request that wants it. Anything else goes to the oldest request if all requests are those of one client.
    pub(super) fn unstreamed_recipient(&self, notification: &Notification) -> Option<Context> {
        let run = self.current()?;
        let level = level_of(notification).filter(|_| notification.method == Method::LogMessage);
        let recipient = level.and_then(|level| run.in_flight.log_recipient(level, notification));
        recipient.or_else(|| run.in_flight.only_client())
    }

    /// A new run of the server has started: notifies the streams that every list may have changed, subscribes again to the
    /// resources that they name, and notifies them that these may have changed. The log level is set by the next request that
    /// asks for one.
    pub(super) async fn restarted(&self, upstream: &Client) {
        let run = self.run(upstream.connection());
        self.streams.notify_all_lists();
        self.request_ended();
        if self.streams.have_named_resources() {
            let progress = self.subscription_progress(&run);
            self.streams.wait_subscribed(progress).await;
            self.streams.notify_all_resources();
        }
    }

    fn current(&self) -> Option<Arc<Run>> {
        self.run.lock().clone()
    }

    /// The run of this connection.
    fn run(&self, connection: &Connection) -> Arc<Run> {
        let mut current = self.run.lock();
        if let Some(run) = current.as_ref().filter(|run| run.connection.is(connection)) {
            return run.clone();
        }
        let PoolState { shared, can_be_asked, on_end, .. } = self.pool.clone();
        // A modern server asks in its results.
        let asks = connection.peer().is_none_or(|peer| peer.profile.initialize);
        let run = Arc::new(Run {
            connection: connection.clone(),
            in_flight: Arc::new(InFlight::new(shared, can_be_asked && asks, move || on_end())),
            log_level: SessionLogLevel::default(),
            completed_pages: CompletedPages::default(),
            task_tools: TaskTools::default(),
            subscriptions: Mutex::default(),
        });
        // A connection that has ended may be older than the current one.
        if connection.close_cause().is_none() {
            *current = Some(run.clone());
        }
        run
    }

    /// Starts the task that subscribes to resources at this run, if it does not exist yet. Returns its progress.
    fn subscription_progress(&self, run: &Run) -> tokio::sync::watch::Receiver<u64> {
        let mut task = run.subscriptions.lock();
        let task = task.get_or_insert_with(|| {
            let (connection, in_flight) = (run.connection.clone(), run.in_flight.clone());
            self.streams.subscribe_with(move |method, params| {
                let guard = in_flight.begin(None);
                guard.sent();
                let calling = connection.call(Call::new(method.clone()).with_params(params));
                async move {
                    let outcome = calling.await;
                    if is_answered(&outcome) {
                        guard.answered();
                    }
                    match outcome {
                        Ok(_) => true,
                        Err(CallError::Closed(_) | CallError::Refused(CallRefused::Closed)) => false,
                        Err(error) => {
                            tracing::debug!(target: "mcpjoin", %method, %error, "a subscription was refused");
                            true
                        }
                    }
                }
            })
        });
        task.progress()
    }

    /// Opens a stream, which lives until this future is dropped. Its notifications go to `sink`.
    ///
    /// # Errors
    /// The error to answer the client with.
    pub(super) async fn listen(
        &self,
        upstream: &Client,
        params: Option<Payload>,
        cx: &Context,
        sink: StreamSink,
    ) -> Result<Reply, ErrorObject> {
        let run = self.run(upstream.connection());
        self.learn_asker(cx);
        let filter = match params.map(|params| ListenParams::read(params.raw())) {
            Some(Ok(params)) => params.notifications,
            Some(Err(error)) => return Err(ErrorObject::invalid_params(error.to_string())),
            None => SubscriptionFilter::default(),
        };
        let id = cx.request_id().and_then(|id| Raw::from_value(id).ok()).unwrap_or_else(Raw::null);
        let peer = upstream.peer();
        let send = Box::new(move |notification| sink(notification));
        let _stream = self.streams.open(id, filter, peer.server_capabilities(), send)?;
        if self.streams.have_named_resources() {
            let _ = self.subscription_progress(&run);
        }
        pending().await
    }
}

impl Run {
    /// Makes the call of a request during which its client cannot be asked.
    async fn forward(
        &self,
        guard: RequestGuard<Context>,
        call: Call,
        cx: &Context,
    ) -> Result<Payload, CallError> {
        guard.sent();
        let outcome = relay::forward(self.connection.call(call), cx).await;
        if is_answered(&outcome) {
            guard.answered();
        }
        outcome
    }

    /// Sends `logging/setLevel` if the request asks for log messages and the server declares that it logs.
    async fn update_log_level(&self, cx: &Context) {
        let wants = cx.request().is_some_and(|request| request.log_level.is_some());
        let peer = self.connection.peer();
        let server = peer.as_ref().and_then(|peer| peer.server_capabilities());
        if !wants || server.is_none_or(|server| server.logging.is_none()) {
            return;
        }
        let send = async |level: LoggingLevel| {
            let level = Raw::string(level.as_str());
            let params = Payload::from_raw(Raw::empty_object()).with_member("level", &level);
            let call =
                Call::new(Method::SetLevel).with_params(params.into_raw()).with_timeout(SET_LEVEL_TIMEOUT);
            let outcome = self.connection.call(call).await;
            if let Err(error) = &outcome {
                tracing::debug!(target: "mcpjoin", %error, "the server did not take a level of log messages");
            }
            outcome.is_ok()
        };
        self.log_level.update(|| self.in_flight.lowest_log_level(), send).await;
    }
}

/// Whether the modern era has this method. The server itself refuses a method that no revision defines. Tasks are an
/// extension, which no legacy server has.
fn is_modern(method: &Method, cx: &Context) -> bool {
    let of_tasks = matches!(method, Method::GetTask | Method::CancelTask | Method::UpdateTask);
    let facts = method.facts();
    !of_tasks
        && facts.is_none_or(|facts| cx.profile().is_none_or(|profile| facts.exists_in(&profile.version)))
}

fn requester(cx: &Context) -> Requester<Context> {
    let log_level = cx.request().and_then(|request| request.log_level);
    Requester { client: cx.clone(), log_level }
}

/// The call that makes a client's request at the server.
fn call(method: &Method, params: Option<&Payload>, cx: &Context, timeout: Duration) -> Call {
    let wants_progress = relay::wants_progress(params, cx);
    let params = params.map(|params| translate::params(method, params));
    let mut call = relay::call(method.clone(), params, cx, timeout);
    // The translation removes the token.
    call.progress = wants_progress;
    call
}

fn level_of(notification: &Notification) -> Option<LoggingLevel> {
    notification.params.as_ref()?.raw().member("level")?.decode().ok()
}

/// Whether the server has finished a call: it answered, it never received the call, or it is gone.
fn is_answered<T>(outcome: &Result<T, CallError>) -> bool {
    !matches!(outcome, Err(CallError::TimedOut { .. } | CallError::Cancelled | CallError::Lost(_)))
}

/// The error for a client whose call has no result.
async fn call_error(
    error: CallError,
    connection: &Connection,
    cx: &Context,
    errors: &ErrorTexts,
) -> ErrorObject {
    match (error, cx.profile()) {
        (CallError::Remote(error), Some(profile)) => translate::error(profile, without_session_end(error)),
        (error, _) => errors.call_error(error, connection).await,
    }
}
