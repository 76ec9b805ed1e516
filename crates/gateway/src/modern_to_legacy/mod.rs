//! Clients of the modern era before a server of the legacy era.
//!
//! A modern client asks and is answered: there is no session, and nothing comes to it that does not belong to a request of
//! its own. A legacy server has a session in which it asks, logs and tells by itself. So here what the server does is
//! given to the requests that it belongs to: its questions end the request that it handles, and the client's next one
//! goes on with it (`rounds`, `parked`); its log messages go to a request that wants them (`flights`, `logging`); what it
//! tells of its lists and resources goes to the streams that are for it (`listening`). Parameters, results, questions and
//! errors are put into the words of the other era (`translate`), and nothing else of them is touched.
//!
//! Called by the gateway, one for each server and for all runs of it. Which server a call is made at that can be asked
//! something, the gateway says ([`Lanes`]): what is asked then is about that call and no other (`flights`). It never
//! starts or ends a server, and never makes a call again that the server may have begun.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>

mod flights;
mod listening;
mod logging;
mod parked;
mod rounds;
mod tasks;
mod translate;
mod visited;

use std::future::pending;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use mcpjoin_proto::session::{Asker, Call, CallError, CallRefused, Reply};
use mcpjoin_proto::types::{ListenParams, LoggingLevel, SubscriptionFilter};
use mcpjoin_proto::{ErrorObject, Method, Notification, Payload, Raw, Request};
use tokio::time::Instant;

use self::flights::{Flight, Flights, Here};
use self::listening::{Keeper, Listeners};
use self::logging::Level;
use self::parked::{Bounds, Parking};
use self::rounds::Parked;
use self::tasks::Required;
use self::visited::Visited;
use super::relaying;
use super::telling::Telling;
use mcpjoin::client::Client;
use mcpjoin::connection::{Connection, Context};

/// How long a server may take to take a level of log messages: it delays a call, and is worth no more.
const LEVEL: Duration = Duration::from_secs(5);

/// What the servers have in common that the same clients share.
#[derive(Clone)]
pub(super) struct Common {
    /// How long a call may take without a sign of life.
    timeout: Duration,
    /// Several clients share them.
    shared: bool,
    /// The clients have declared something that they can be asked.
    can_be_asked: bool,
    /// The calls that wait for their clients, at whichever of the servers.
    parking: Arc<Parking<Parked>>,
    /// Told when a call ends.
    ended: Arc<dyn Fn() + Send + Sync>,
}

/// What modern clients are given of a legacy server. One per server, for all of its runs.
pub(super) struct ModernToLegacy {
    common: Common,
    listeners: Arc<Listeners>,
    /// What the clients say that they can do: all that share a server say the same.
    asker: OnceLock<Arc<Asker>>,
    /// The run that is current, once somebody has asked it for something.
    run: Mutex<Option<Arc<Run>>>,
}

/// What is known of one run of the server.
struct Run {
    connection: Connection,
    flights: Arc<Flights<Context>>,
    level: Level,
    visited: Visited,
    tasks: Required,
    keeper: Mutex<Option<Keeper>>,
}

/// Where a call may be made whose client can be asked something.
pub(super) trait Lanes {
    /// Waits for a server at which it is the turn of this request.
    ///
    /// # Errors
    /// What the client is answered when there is none.
    fn claim(&self, cx: &Context) -> impl Future<Output = Result<Claim, ErrorObject>> + Send;
}

/// The turn of one call at one run of a server, until this is dropped.
pub(super) struct Claim {
    run: Arc<Run>,
    flight: Flight<Context>,
}

impl Common {
    /// `timeout`: of a call without a sign of life. `shared`: several clients share the servers. `can_be_asked`: the clients have declared something that they can be
    /// asked. `ended` is told each time a call ends, and must not block.
    pub(super) fn new(
        timeout: Duration,
        shared: bool,
        can_be_asked: bool,
        ended: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let parking = Arc::new(Parking::new(Bounds::default()));
        Self { timeout, shared, can_be_asked, parking, ended: Arc::new(ended) }
    }

    /// Whether calls wait for their clients.
    pub(super) fn has_parked(&self) -> bool {
        self.parking.len() > 0
    }
}

impl ModernToLegacy {
    pub(super) fn new(common: Common) -> Self {
        Self { common, listeners: Arc::new(Listeners::new()), asker: OnceLock::new(), run: Mutex::default() }
    }

    /// The turn of this request at the run that has this connection; `None`: it is another's.
    pub(super) fn claim(&self, upstream: &Client, cx: &Context) -> Option<Claim> {
        self.hear_of(cx);
        let run = self.run(upstream.connection());
        let flight = run.flights.claim(here(cx))?;
        Some(Claim { run, flight })
    }

    /// Whether no other call that can be asked something has its turn at the current run: one was left unanswered.
    pub(super) fn is_abandoned(&self) -> bool {
        self.current().is_some_and(|run| run.flights.is_abandoned())
    }

    /// Since when nothing of it is in use: no call is under way, and no stream is open; `None`: something is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        if !self.listeners.is_empty() {
            return None;
        }
        self.current().map_or_else(|| Some(Instant::now()), |run| run.flights.idle_since())
    }

    /// Something has ended that others may have waited for.
    pub(super) fn ended(&self) {
        (self.common.ended)();
    }

    /// What the clients can do, as the first one says.
    fn hear_of(&self, cx: &Context) {
        if let Some(asker) = cx.asker() {
            let _ = self.asker.get_or_init(|| asker.clone());
        }
    }

    /// Answers a request of a client. Cancelled by dropping it.
    ///
    /// # Errors
    /// What the client is answered in place of a result.
    pub(super) async fn request(
        self: &Arc<Self>,
        lanes: &impl Lanes,
        upstream: &Client,
        request: Request,
        cx: Context,
        telling: &Telling,
    ) -> Result<Reply, ErrorObject> {
        let Request { method, params, .. } = request;
        if !is_modern(&method, &cx) {
            return Err(ErrorObject::method_not_found(method.as_str()));
        }
        let run = self.run(upstream.connection());
        self.hear_of(&cx);
        if method == Method::Listen {
            return self.listen(upstream, &run, params, &cx).await;
        }
        if self.listeners.has_named() {
            let settled = self.keeper(&run);
            self.listeners.settle(settled).await;
        }
        if method.may_need_input() {
            return self.in_rounds(lanes, method, params, &cx, telling).await;
        }
        let flight = run.flights.begin(Some(here(&cx)));
        run.settle_level(&cx).await;
        let call = call(&method, params.as_ref(), &cx, self.common.timeout);
        flight.sent();
        let outcome = relaying::forward(run.connection.call(call), &cx).await;
        if is_settled(&outcome) {
            flight.answered();
        }
        drop(flight);
        match outcome {
            Ok(result) => Ok(Reply::Complete(translate::result(&method, result))),
            Err(error) => Err(failed(error, &run.connection, &cx, telling).await),
        }
    }

    /// Answers what the server asks.
    ///
    /// # Errors
    /// What the server is answered in place of a result.
    pub(super) async fn upstream_request(&self, request: Request, cx: Context) -> Result<Reply, ErrorObject> {
        let Request { method, params, .. } = request;
        let run = self.run(&cx.connection());
        let nobody = Asker::default();
        let asker = self.asker.get().map_or(&nobody, |asker| &**asker);
        let params = params.map(Payload::into_raw);
        let bytes = method.as_str().len() + params.as_ref().map_or(0, Raw::len);
        let question = translate::question(&method, params, &asker.capabilities)?;
        run.flights.ask(question, bytes)?.answer().await.map(Reply::Complete)
    }

    /// Hears what the server tells by itself.
    pub(super) fn upstream_notification(&self, notification: Notification) {
        match notification.method {
            Method::ToolListChanged
            | Method::PromptListChanged
            | Method::ResourceListChanged
            | Method::ResourceUpdated => {
                if let Some(run) = self.current().filter(|_| notification.method == Method::ToolListChanged) {
                    run.tasks.forget();
                }
                self.listeners.tell(&notification);
            }
            Method::LogMessage => self.log(notification),
            // What no revision knows belongs to no request.
            Method::Other(_) => match self.current().and_then(|run| run.flights.only_client()) {
                Some(cx) => tell(&cx, notification),
                None => dropped(&notification),
            },
            _ => {
                if let Some(run) = self.current() {
                    run.hear(&notification);
                }
            }
        }
    }

    /// Tells the client whose it is what the server logs. A level that is missing or unknown is not known to be wanted.
    fn log(&self, notification: Notification) {
        let hearer =
            level_of(&notification).and_then(|level| self.current()?.flights.hearer(level, &notification));
        match hearer {
            Some(cx) => tell(&cx, notification),
            None => dropped(&notification),
        }
    }

    /// A request to a server of the modern era begins, which needs nothing of what is here but to know whose log messages
    /// are whose.
    pub(super) fn begin_untranslated(&self, upstream: &Client, cx: &Context) -> Untranslated {
        let flight = self.run(upstream.connection()).flights.begin(Some(here(cx)));
        flight.sent();
        Untranslated(flight)
    }

    /// The client to be told what a modern server says beside its streams. A log message goes to a call that wants it; what is
    /// left is told only where all calls are one client's, on the way of its oldest call.
    pub(super) fn hearer(&self, notification: &Notification) -> Option<Context> {
        let run = self.current()?;
        let log = || level_of(notification).filter(|_| notification.method == Method::LogMessage);
        log().and_then(|level| run.flights.hearer(level, notification)).or_else(|| run.flights.only_client())
    }

    /// A new run of the server is there: what the streams name is asked for anew, and everything may be another now. The
    /// level of log messages is told with the next request that wants some.
    pub(super) async fn began(&self, upstream: &Client) {
        let run = self.run(upstream.connection());
        if self.listeners.has_named() {
            let _ = self.keeper(&run);
        }
        self.listeners.tell_all_lists();
        self.ended();
    }

    fn current(&self) -> Option<Arc<Run>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The run that has this connection.
    fn run(&self, connection: &Connection) -> Arc<Run> {
        let mut current = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = current.as_ref().filter(|run| run.connection.is(connection)) {
            return run.clone();
        }
        let Common { shared, can_be_asked, ended, .. } = self.common.clone();
        // A modern server asks in its results.
        let asks = connection.peer().is_none_or(|peer| peer.profile.initialize);
        let run = Arc::new(Run {
            connection: connection.clone(),
            flights: Arc::new(Flights::new(shared, can_be_asked && asks, move || ended())),
            level: Level::default(),
            visited: Visited::default(),
            tasks: Required::default(),
            keeper: Mutex::default(),
        });
        // One that is over may be the one before the current one.
        if connection.close_cause().is_none() {
            *current = Some(run.clone());
        }
        run
    }

    /// Whoever asks the run for what the streams name; tells how far it is.
    fn keeper(&self, run: &Run) -> tokio::sync::watch::Receiver<u64> {
        let mut keeper = run.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let keeper = keeper.get_or_insert_with(|| {
            let (connection, flights) = (run.connection.clone(), run.flights.clone());
            self.listeners.keep(move |method, params| {
                let flight = flights.begin(None);
                flight.sent();
                let calling = connection.call(Call::new(method.clone()).with_params(params));
                async move {
                    let outcome = calling.await;
                    if is_settled(&outcome) {
                        flight.answered();
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
        keeper.settled()
    }

    /// Opens a stream, which lives until this is dropped.
    async fn listen(
        &self,
        upstream: &Client,
        run: &Run,
        params: Option<Payload>,
        cx: &Context,
    ) -> Result<Reply, ErrorObject> {
        let filter = match params.map(|params| params.raw().decode::<ListenParams>()) {
            Some(Ok(params)) => params.notifications,
            Some(Err(error)) => return Err(ErrorObject::invalid_params(error.to_string())),
            None => SubscriptionFilter::default(),
        };
        let id = cx.request_id().and_then(|id| Raw::from_value(id).ok()).unwrap_or_else(Raw::null);
        let peer = upstream.peer();
        let hears = cx.clone();
        let tells = Box::new(move |notification| tell(&hears, notification));
        let _listener = self.listeners.listen(id, filter, peer.server_capabilities(), tells)?;
        if self.listeners.has_named() {
            let _ = self.keeper(run);
        }
        pending().await
    }
}

/// A request at a server of the modern era, until this is dropped.
pub(super) struct Untranslated(Flight<Context>);

impl Untranslated {
    /// The server is done with it.
    pub(super) fn is_over<T>(&self, outcome: &Result<T, CallError>) {
        if is_settled(outcome) {
            self.0.answered();
        }
    }
}

impl Run {
    /// Has the server told from which level on log messages are wanted, when the asker wants any.
    async fn settle_level(&self, cx: &Context) {
        let wants = cx.request().is_some_and(|request| request.log_level.is_some());
        let peer = self.connection.peer();
        let server = peer.as_ref().and_then(|peer| peer.server_capabilities());
        if !wants || server.is_none_or(|server| server.logging.is_none()) {
            return;
        }
        let tell = async |level: LoggingLevel| {
            let level = Raw::string(level.as_str());
            let params = Payload::from_raw(Raw::empty_object()).with_member("level", &level);
            let call = Call::new(Method::SetLevel).with_params(params.into_raw()).with_timeout(LEVEL);
            let outcome = self.connection.call(call).await;
            if let Err(error) = &outcome {
                tracing::debug!(target: "mcpjoin", %error, "the server did not take a level of log messages");
            }
            outcome.is_ok()
        };
        self.level.settle(|| self.flights.lowest_level(), tell).await;
    }

    /// Hears what is for nobody else.
    fn hear(&self, notification: &Notification) {
        if notification.method == Method::ElicitationComplete {
            let id = notification.params.as_ref().and_then(|params| params.raw().member("elicitationId"));
            if let Some(id) = id.as_ref().and_then(Raw::to_string_value) {
                self.visited.note(&id);
            }
        }
    }
}

/// Whether a modern server has such a method. What no revision knows is the server's to refuse; tasks are an extension,
/// which no legacy server has.
fn is_modern(method: &Method, cx: &Context) -> bool {
    let of_tasks = matches!(method, Method::GetTask | Method::CancelTask | Method::UpdateTask);
    let facts = method.facts();
    !of_tasks
        && facts.is_none_or(|facts| cx.profile().is_none_or(|profile| facts.exists_in(&profile.version)))
}

/// A client that is here.
fn here(cx: &Context) -> Here<Context> {
    let level = cx.request().and_then(|request| request.log_level);
    Here { client: cx.clone(), level }
}

/// The call for a request.
fn call(method: &Method, params: Option<&Payload>, cx: &Context, timeout: Duration) -> Call {
    let params = params.map(|params| translate::params(method, params));
    relaying::call(method.clone(), params, cx, timeout)
}

fn level_of(notification: &Notification) -> Option<LoggingLevel> {
    notification.params.as_ref()?.raw().member("level")?.decode().ok()
}

fn dropped(notification: &Notification) {
    tracing::debug!(target: "mcpjoin", method = %notification.method, "a notification has no recipient");
}

fn tell(cx: &Context, notification: Notification) {
    if let Err(error) = cx.notify(notification) {
        tracing::debug!(target: "mcpjoin", %error, "what belongs to a request was not handed on");
    }
}

/// Whether the server is done with a call: it has answered it, in whatever way, or has never had it, or is gone.
fn is_settled<T>(outcome: &Result<T, CallError>) -> bool {
    !matches!(outcome, Err(CallError::TimedOut { .. } | CallError::Cancelled | CallError::Lost(_)))
}

/// What the client is answered when a call has brought no result.
async fn failed(error: CallError, connection: &Connection, cx: &Context, telling: &Telling) -> ErrorObject {
    match (error, cx.profile()) {
        (CallError::Remote(error), Some(profile)) => translate::error(profile, error),
        (error, _) => telling.ended(error, connection).await,
    }
}
