//! A client whose server is started again when it dies.
//!
//! The [specification](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio) wants a client
//! to start a server again that has ended unexpectedly. Here this is a choice ([`ClientBuilder::restarting`]), and a
//! layer above [`Client`], which never reconnects: each run of the server is a client of its own, with its own session,
//! era and peer. So nothing of one run is ever taken for something of another, and ordinary clients pay nothing for it.
//! Nothing here makes a call, and none is ever made again.

use std::error::Error;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::{Ask, CloseCause, LinkEnd, ProcessExit};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::error::link_end;
use super::opening::Plan;
use super::{Client, ClientBuilder, ConnectError};
use crate::link::Link;

/// How often and how soon a server is started again, and who hears of it.
///
/// The first pause is 0.1 s, and each one in a row is twice as long as the one before it, up to 30 s; half as much again
/// is added at random, within these bounds, so that many clients of one broken thing do not come back at once. After 5
/// starts in a row that fail, or end within 30 s, it is given up. A run that lasts longer begins the count anew. The
/// bounds of the pause and the stop are adversarial case 88 of the project.
#[derive(Clone)]
pub struct Restart {
    first: Duration,
    longest: Duration,
    starts: u32,
    settled: Duration,
    on_event: Option<OnEvent>,
}

/// Whoever wants to hear of starts and stop.
type OnEvent = Arc<dyn Fn(&RunEvent<'_>) + Send + Sync>;

impl Default for Restart {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(30),
            starts: 5,
            settled: Duration::from_secs(30),
            on_event: None,
        }
    }
}

impl Restart {
    /// The first pause, and the longest.
    #[must_use]
    pub const fn pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.first = first;
        self.longest = longest;
        self
    }

    /// After how many starts in a row that fail or end early it is given up: 5. The first start counts; with 1 an early
    /// end is the end, and 0 is as 1.
    #[must_use]
    pub const fn starts(mut self, starts: u32) -> Self {
        self.starts = starts;
        self
    }

    /// How long a run must last to count as one that works: 30 s, from the moment at which the peers agree.
    #[must_use]
    pub const fn settled(mut self, settled: Duration) -> Self {
        self.settled = settled;
        self
    }

    /// Hears of each start and each end. Must neither block nor panic.
    #[must_use]
    pub fn on_event(mut self, hear: impl Fn(&RunEvent<'_>) + Send + Sync + 'static) -> Self {
        self.on_event = Some(Arc::new(hear));
        self
    }

    /// Hears of each start and each end, beside whoever hears of them already.
    #[doc(hidden)]
    pub fn also_on_event(mut self, hear: impl Fn(&RunEvent<'_>) + Send + Sync + 'static) -> Self {
        let first = self.on_event.take();
        self.on_event = Some(Arc::new(move |event| {
            if let Some(first) = &first {
                first(event);
            }
            hear(event);
        }));
        self
    }

    fn emit(&self, event: &RunEvent<'_>) {
        tracing::debug!(target: "mcpjoin", ?event, "a server that is started again when it dies");
        if let Some(hear) = &self.on_event {
            hear(event);
        }
    }

    /// The pause after so many others in a row.
    fn pause(&self, before: u32) -> Duration {
        let doubled = self.first.saturating_mul(2_u32.saturating_pow(before));
        // So far that what is added at random does not pass the longest.
        let least = doubled.min(self.longest / 3 * 2).max(self.first.min(self.longest));
        let mut random = [0; 2];
        // Without chance all pauses are the shortest that they may be.
        let _ = getrandom::fill(&mut random);
        let part = u32::from(u16::from_le_bytes(random));
        least.saturating_add(least / 2 / u32::from(u16::MAX) * part).min(self.longest)
    }
}

impl fmt::Debug for Restart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restart")
            .field("first", &self.first)
            .field("longest", &self.longest)
            .field("starts", &self.starts)
            .field("settled", &self.settled)
            .finish_non_exhaustive()
    }
}

/// Something that has happened to a server which is started again when it dies.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunEvent<'a> {
    /// It runs, and the peers agree.
    Started {
        /// The number of the run: 1 for the first. Starts that failed have none.
        run: u64,
    },
    /// The run has ended, and nothing of it is left; or it was not started.
    Ended {
        /// How, or why.
        end: &'a RunExit,
        /// After what pause it is started again; `None`: it is given up.
        next: Option<Duration>,
    },
}

/// How a run has ended that nobody here has ended, or why a start brought no run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunExit {
    /// There is no link: the program is missing, nobody listens.
    #[error("{0}")]
    NotStarted(#[source] Arc<dyn Error + Send + Sync>),
    /// The peers did not agree.
    #[error("{0}")]
    NotOpened(#[from] ConnectError),
    /// The connection has ended.
    #[error("{0}")]
    Ended(#[from] CloseCause),
}

impl RunExit {
    /// How the link has ended, when that is what happened.
    #[must_use]
    pub const fn link_end(&self) -> Option<&LinkEnd> {
        match self {
            Self::NotStarted(_) => None,
            Self::NotOpened(error) => error.link_end(),
            Self::Ended(cause) => link_end(cause),
        }
    }

    /// How the server's process has ended, when it has and was ours.
    #[must_use]
    pub fn exit(&self) -> Option<ProcessExit> {
        self.link_end().and_then(|end| end.exit)
    }
}

/// Why there is no client now.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestartError {
    /// This side has closed it.
    #[error("the connection was closed by this side")]
    Closed,
    /// The server does not stay.
    #[error(
        "the server was given up after {starts} starts in a row that failed or did not last; the last: {last}"
    )]
    GivenUp {
        /// How often it was started in vain.
        starts: u32,
        /// What became of the last of them.
        #[source]
        last: RunExit,
    },
    /// It is being started again, and was not there in time.
    #[error("the server is being started again and was not there within {} ms; before: {last}", .after.as_millis())]
    TimedOut {
        /// How long it was waited for.
        after: Duration,
        /// How the run before has ended, or why the last start brought none.
        #[source]
        last: RunExit,
    },
}

/// A server that is started again when it dies, as its clients see it. Cheap to clone.
///
/// When the last handle is dropped, or [`RestartingClient::close`] is called, the server is ended and not started again;
/// a [`Client`] that was got from it is a handle on its run alone, and closing that stop everything, too.
#[derive(Clone, Debug)]
pub struct RestartingClient(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: watch::Receiver<State>,
    ending: watch::Sender<bool>,
    timeouts: Duration,
}

#[derive(Clone, Debug)]
enum State {
    /// It runs, or has just ended.
    Running { client: Client, run: u64 },
    /// It is being started again; this came before.
    Restarting(RunExit),
    /// It will not be started again.
    Ended(RestartError),
}

/// The runs of a server, one after the other: what has to be done again for each is done here.
///
/// It does not keep the server running.
#[derive(Clone, Debug)]
pub struct ClientStream {
    state: watch::Receiver<State>,
    seen: u64,
}

type Start = Box<dyn Fn() -> Starting + Send + Sync>;
type Starting = Pin<Box<dyn Future<Output = Result<Link, RunExit>> + Send>>;

impl ClientBuilder {
    /// Connects to a server that is started again when it dies: by itself, by a signal, because its connection broke or
    /// because it took nothing for too long. `start` makes a new link each time.
    ///
    /// What is under way when it dies fails at once, with its exit status and the end of its standard error, and is
    /// never made again by itself: a tool may have run although its answer was lost. What is registered in this builder
    /// holds for every run, and so do the roots that [`Client::set_roots`] has set. Everything else stop with the run:
    /// subscriptions in both eras, listening streams, the level of log messages, and what is remembered unless a
    /// [`ClientBuilder::cache`] was given. [`RestartingClient::runs`] is where
    /// they are asked for anew.
    ///
    /// The first start is made once: what was never there is told at once, with the reason.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::Client;
    /// use mcpjoin::client::Restart;
    /// use mcpjoin::link::ChildCommand;
    ///
    /// let command = ChildCommand::new("my-server");
    /// let server = Client::builder("my-client", "1.0.0")
    ///     .restarting(Restart::default(), move || command.clone().start())
    ///     .await?;
    ///
    /// let mut runs = server.runs();
    /// tokio::spawn(async move {
    ///     while let Some(client) = runs.next().await {
    ///         if let Err(error) = client.subscribe("file:///settings.json").await {
    ///             tracing::warn!(%error, "not told of changes in this run");
    ///         }
    ///     }
    /// });
    ///
    /// let result = server.client().await?.call_tool("settings", None).await?;
    /// # let _ = result;
    /// server.close().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RunExit`] when the first start fails. By then nothing of it is left.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub async fn restarting<F, S, E>(self, restart: Restart, start: F) -> Result<RestartingClient, RunExit>
    where
        F: Fn() -> S + Send + Sync + 'static,
        S: IntoFuture<Output = Result<Link, E>, IntoFuture: Send + 'static>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.restarting_until(restart, start, watch::channel(false).0).await
    }

    /// The same, and it stop when `ending` says so, wherever it is on its way: then the first start is
    /// [`CloseCause::Local`], and nothing of it is left either.
    #[doc(hidden)]
    pub async fn restarting_until<F, S, E>(
        self,
        restart: Restart,
        start: F,
        ending: watch::Sender<bool>,
    ) -> Result<RestartingClient, RunExit>
    where
        F: Fn() -> S + Send + Sync + 'static,
        S: IntoFuture<Output = Result<Link, E>, IntoFuture: Send + 'static>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let start = Box::new(move || -> Starting {
            let starting = start().into_future();
            Box::pin(
                async move { starting.await.map_err(|error| RunExit::NotStarted(Arc::from(error.into()))) },
            )
        });
        let (plan, ask) = self.plan();
        let timeouts = plan.limits.request;
        let (state, shown) = watch::channel(State::Ended(RestartError::Closed));
        let stop = ending.subscribe();
        let mut supervisor = Supervisor { plan, ask, restart, start, state, stop };
        let client = supervisor.open(ask).await.map_err(|why| match why {
            StartError::Failed(why) => why,
            StartError::Stopped => RunExit::Ended(CloseCause::Local),
        })?;
        supervisor.state.send_replace(State::Running { client: client.clone(), run: 1 });
        supervisor.restart.emit(&RunEvent::Started { run: 1 });
        tokio::spawn(supervisor.run(client));
        Ok(RestartingClient(Arc::new(Shared { state: shown, ending, timeouts })))
    }
}

impl RestartingClient {
    /// The client of the run that is current; while the server is being started again, that of the next one, for which
    /// it waits as long as a request may take ([`Limits::request`](mcpjoin_proto::session::Limits::request), 60 s).
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`RestartError`]: at once when the server was given up or closed.
    pub async fn client(&self) -> Result<Client, RestartError> {
        self.client_within(self.0.timeouts).await
    }

    /// As [`RestartingClient::client`], and waits so long.
    ///
    /// # Errors
    /// As there.
    pub async fn client_within(&self, timeouts: Duration) -> Result<Client, RestartError> {
        let mut state = self.0.state.clone();
        if let Some(known) = current_client(&state.borrow_and_update()) {
            return known;
        }
        let waiting = async {
            loop {
                // The last state stays when nobody is left to change it.
                let over = state.changed().await.is_err();
                match current_client(&state.borrow_and_update()) {
                    Some(known) => return known,
                    None if over => return Err(RestartError::Closed),
                    None => {}
                }
            }
        };
        match timeout(timeouts, waiting).await {
            Ok(known) => known,
            Err(_) => Err(RestartError::TimedOut { after: timeouts, last: self.last_end() }),
        }
    }

    /// The client of the run that is current, if there is one now.
    #[doc(hidden)]
    pub fn current(&self) -> Option<Client> {
        current_client(&self.0.state.borrow())?.ok()
    }

    fn last_end(&self) -> RunExit {
        match &*self.0.state.borrow() {
            State::Restarting(end) => end.clone(),
            // It has ended, and what it had started is still going.
            State::Running { client, .. } => {
                RunExit::Ended(client.close_cause().unwrap_or(CloseCause::Local))
            }
            State::Ended(RestartError::GivenUp { last, .. } | RestartError::TimedOut { last, .. }) => {
                last.clone()
            }
            State::Ended(RestartError::Closed) => RunExit::Ended(CloseCause::Local),
        }
    }

    /// The runs from the current one on.
    #[must_use]
    pub fn runs(&self) -> ClientStream {
        ClientStream { state: self.0.state.clone(), seen: 0 }
    }

    /// Ends the server, wherever it is on its way: a start under way is given up, a pause stop at once. Waits until
    /// nothing of it is left, and says why there is no client from now on.
    pub async fn close(&self) -> RestartError {
        self.0.ending.send_replace(true);
        self.closed().await
    }

    /// Waits until the server is closed or given up.
    pub async fn closed(&self) -> RestartError {
        let mut state = self.0.state.clone();
        match state.wait_for(|state| matches!(state, State::Ended(_))).await.as_deref() {
            Ok(State::Ended(why)) => why.clone(),
            _ => RestartError::Closed,
        }
    }
}

/// The client, or why there will be none; `None` while that is not known.
fn current_client(state: &State) -> Option<Result<Client, RestartError>> {
    match state {
        State::Running { client, .. } if !client.is_closed() => Some(Ok(client.clone())),
        State::Running { .. } | State::Restarting(_) => None,
        State::Ended(why) => Some(Err(why.clone())),
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.ending.send_replace(true);
    }
}

impl ClientStream {
    /// The client of the next run: first that of the current one, then one for each time that the server was started
    /// again; only the newest when there were several. `None` when the server is closed or given up. Cancel-safe.
    pub async fn next(&mut self) -> Option<Client> {
        loop {
            match &*self.state.borrow_and_update() {
                State::Running { client, run } if *run > self.seen => {
                    self.seen = *run;
                    return Some(client.clone());
                }
                State::Ended(_) => return None,
                State::Running { .. } | State::Restarting(_) => {}
            }
            self.state.changed().await.ok()?;
        }
    }

    /// The number of the run that came last: 1 for the first, 0 when none has come.
    #[must_use]
    pub const fn run(&self) -> u64 {
        self.seen
    }
}

/// Keeps the server running: the one task that changes the state.
struct Supervisor {
    plan: Plan,
    ask: Ask,
    restart: Restart,
    start: Start,
    state: watch::Sender<State>,
    stop: watch::Receiver<bool>,
}

/// A start has not brought a client.
enum StartError {
    Failed(RunExit),
    /// We are to end.
    Stopped,
}

/// Ready when we are to end.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Without a sender nobody is left to want anything.
    let _ = stop.wait_for(|ending| *ending).await;
}

impl Supervisor {
    async fn run(mut self, first: Client) {
        let why = self.run_all(first).await;
        self.state.send_replace(State::Ended(why));
    }

    /// Run after run, until there will be no other.
    async fn run_all(&mut self, mut client: Client) -> RestartError {
        // Starts in vain, and pauses, since the last run that lasted.
        let (mut failed_starts, mut pauses, mut run) = (0, 0, 1);
        loop {
            let began = Instant::now();
            let cause = tokio::select! {
                cause = client.closed() => cause,
                () = stopped(&mut self.stop) => client.close().await,
            };
            if cause == CloseCause::Local {
                return RestartError::Closed;
            }
            if began.elapsed() >= self.restart.settled {
                (failed_starts, pauses) = (0, 0);
            } else {
                failed_starts += 1;
            }
            // What was agreed is likely to be agreed again, and saves a server that bears no probe one.
            let mut hint = Some(client.profile().era);
            let mut end = RunExit::Ended(cause);
            client = loop {
                if failed_starts >= self.restart.starts.max(1) {
                    self.restart.emit(&RunEvent::Ended { end: &end, next: None });
                    return RestartError::GivenUp { starts: failed_starts, last: end };
                }
                let pause = self.restart.pause(pauses);
                pauses += 1;
                self.state.send_replace(State::Restarting(end.clone()));
                self.restart.emit(&RunEvent::Ended { end: &end, next: Some(pause) });
                tokio::select! {
                    () = sleep(pause) => {}
                    () = stopped(&mut self.stop) => return RestartError::Closed,
                }
                let ask = match (self.ask, hint.take()) {
                    (Ask::Auto, Some(era)) => Ask::Only(era),
                    (ask, _) => ask,
                };
                match self.open(ask).await {
                    Ok(client) => break client,
                    Err(StartError::Failed(why)) => end = why,
                    Err(StartError::Stopped) => return RestartError::Closed,
                }
                failed_starts += 1;
            };
            run += 1;
            self.state.send_replace(State::Running { client: client.clone(), run });
            self.restart.emit(&RunEvent::Started { run });
        }
    }

    /// One start.
    async fn open(&mut self, ask: Ask) -> Result<Client, StartError> {
        let link = tokio::select! {
            started = (self.start)() => started.map_err(StartError::Failed)?,
            () = stopped(&mut self.stop) => return Err(StartError::Stopped),
        };
        let opening = self.plan.open(link, ask);
        let opened = tokio::select! {
            opened = opening.opened() => Some(opened),
            () = stopped(&mut self.stop) => None,
        };
        match opened {
            Some(Ok(peer)) => Ok(opening.client(peer)),
            Some(Err(error)) => Err(StartError::Failed(error.into())),
            None => {
                opening.close().await;
                Err(StartError::Stopped)
            }
        }
    }
}

impl Drop for Supervisor {
    /// Whoever still waits is told, also when the runtime stop before we do.
    fn drop(&mut self) {
        self.state.send_if_modified(|state| {
            let open = !matches!(state, State::Ended(_));
            if open {
                *state = State::Ended(RestartError::Closed);
            }
            open
        });
    }
}

#[cfg(test)]
mod tests;
