//! A client that restarts its server when the server exits.
//!
//! The [specification](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio) asks clients to
//! restart a server that has exited unexpectedly. Here this is optional ([`ClientBuilder::restarting`]), in a layer
//! above [`Client`], which never reconnects. Each run of the server is a client of its own, with its own session, era
//! and peer, so the state of one run is never mistaken for that of another, and other clients pay nothing for it.
//! Nothing here sends a request, and no request is repeated.

use std::error::Error;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::{CloseCause, EraChoice, ProcessExit, TransportEnd};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::error::link_end;
use super::opening::Plan;
use super::{Client, ClientBuilder, ConnectError};
use crate::background;
use crate::transport::Link;

/// When a server is restarted, and when it is given up.
///
/// The first pause is 100 ms. Each further pause is twice as long, up to 30 s, plus up to half of it at random, so that
/// many clients of one broken server do not reconnect at the same time. The server is given up after 5 starts in a row
/// that fail or last less than 30 s. A longer run resets the count.
///
/// ```
/// use std::time::Duration;
/// use mcpjoin::client::Restart;
///
/// let restart = Restart::default()
///     .pauses(Duration::from_secs(1), Duration::from_secs(60))
///     .starts(10)
///     .on_event(|event| println!("{event:?}"));
/// # let _ = restart;
/// ```
#[derive(Clone)]
pub struct Restart {
    first: Duration,
    longest: Duration,
    starts: u32,
    settled: Duration,
    on_event: Option<OnEvent>,
}

/// Receives starts and exits.
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
    /// Sets the first and the longest pause. Default: 100 ms and 30 s.
    #[must_use]
    pub const fn pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.first = first;
        self.longest = longest;
        self
    }

    /// Sets after how many starts in a row that fail or exit early the server is given up. Default: 5. The first start
    /// counts. With 1 an early exit is final; 0 is the same as 1.
    #[must_use]
    pub const fn starts(mut self, starts: u32) -> Self {
        self.starts = starts;
        self
    }

    /// Sets how long a run must last to count as successful, from when the peers agree. Default: 30 s.
    #[must_use]
    pub const fn settled(mut self, settled: Duration) -> Self {
        self.settled = settled;
        self
    }

    /// Receives each start and each exit. Must neither block nor panic.
    #[must_use]
    pub fn on_event(mut self, observer: impl Fn(&RunEvent<'_>) + Send + Sync + 'static) -> Self {
        self.on_event = Some(Arc::new(observer));
        self
    }

    /// As [`on_event`](Self::on_event), in addition to the function that is registered already.
    #[doc(hidden)]
    pub fn also_on_event(mut self, observer: impl Fn(&RunEvent<'_>) + Send + Sync + 'static) -> Self {
        let first = self.on_event.take();
        self.on_event = Some(Arc::new(move |event| {
            if let Some(first) = &first {
                first(event);
            }
            observer(event);
        }));
        self
    }

    fn emit(&self, event: &RunEvent<'_>) {
        tracing::debug!(target: "mcpjoin", ?event, "a server that is started again when it dies");
        if let Some(observer) = &self.on_event {
            observer(event);
        }
    }

    /// Returns the pause after `before` others in a row.
    fn pause(&self, before: u32) -> Duration {
        let doubled = self.first.saturating_mul(2_u32.saturating_pow(before));
        // Small enough that the random part does not exceed the longest pause.
        let least = doubled.min(self.longest / 3 * 2).max(self.first.min(self.longest));
        let mut random = [0; 2];
        // Without random numbers each pause is the shortest possible.
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

/// A start or an exit of a server that is restarted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RunEvent<'a> {
    /// The server runs, and the peers have agreed on a revision.
    Started {
        /// The number of the run, from 1. Failed starts have no number.
        run: u64,
    },
    /// The run has exited completely, or the start has failed.
    Ended {
        /// How it has exited, or why it did not start.
        end: &'a RunExit,
        /// The pause before the next start; `None` if the server is given up.
        next: Option<Duration>,
    },
}

/// How a run has ended on its own, or why a start has failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunExit {
    /// There is no transport: for example, the program is missing, or the connection was refused.
    #[error("{0}")]
    NotStarted(#[source] Arc<dyn Error + Send + Sync>),
    /// The peers did not agree on a revision.
    #[error("{0}")]
    NotOpened(#[from] ConnectError),
    /// The connection has ended.
    #[error("{0}")]
    Ended(#[from] CloseCause),
}

impl RunExit {
    /// Returns how the transport has ended, if that is what happened.
    #[doc(hidden)]
    #[must_use]
    pub const fn link_end(&self) -> Option<&TransportEnd> {
        match self {
            Self::NotStarted(_) => None,
            Self::NotOpened(error) => error.link_end(),
            Self::Ended(cause) => link_end(cause),
        }
    }

    /// Returns how the server's process has ended, if it is our child and has ended.
    #[must_use]
    pub fn exit(&self) -> Option<ProcessExit> {
        self.link_end().and_then(|end| end.exit)
    }
}

/// Why there is no client.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestartError {
    /// This side has closed the connection.
    #[error("the connection was closed by this side")]
    Closed,
    /// The server was given up.
    #[error(
        "the server is no longer restarted after {starts} starts in a row that failed or ended early; the \
         last: {last}"
    )]
    GivenUp {
        /// How many starts in a row have failed or exited early.
        starts: u32,
        /// The last of them.
        #[source]
        last: RunExit,
    },
    /// The server is being restarted, and was not ready in time.
    #[error("the server is restarting and was not ready within {} ms; before: {last}", .after.as_millis())]
    TimedOut {
        /// How long the caller has waited.
        after: Duration,
        /// How the previous run has ended, or why the last start has failed.
        #[source]
        last: RunExit,
    },
}

/// A client of a server that is restarted when it exits. Cheap to clone. Created by [`ClientBuilder::restarting`].
///
/// When the last handle is dropped, or when [`RestartingClient::close`] is called, the server is ended and not
/// restarted. A [`Client`] that it has returned belongs to one run; closing that client ends everything, too.
#[derive(Clone, Debug)]
pub struct RestartingClient(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: watch::Receiver<State>,
    ending: watch::Sender<bool>,
    wait_timeout: Duration,
}

#[derive(Clone, Debug)]
enum State {
    /// It runs, or has just exited.
    Running { client: Client, run: u64 },
    /// It is being restarted. How the last run or start has ended.
    Restarting(RunExit),
    /// It will not be restarted.
    Ended(RestartError),
}

/// The clients of a server's runs, one after another. Use it to set up again what ends with a run, such as
/// subscriptions.
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
    /// Connects to a server that is restarted when it exits, when its connection breaks, or when it does not read for
    /// too long. `start` creates a new transport for each start.
    ///
    /// When the server exits, pending requests fail immediately, with the exit status and the last lines of its
    /// standard error. They are never repeated, because a tool may have run although its response was lost. The
    /// functions that are registered in this builder apply to every run, and so do roots that [`Client::set_roots`] has
    /// set. Everything else ends with its run: subscriptions in both eras, streams of [`Client::listen`], the log level, and the
    /// cache unless [`ClientBuilder::cache`] has set one. Set these up again for each client that
    /// [`RestartingClient::runs`] returns.
    ///
    /// The first start is tried once, so a server that never worked is reported immediately.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// use mcpjoin::Client;
    /// use mcpjoin::client::Restart;
    /// use mcpjoin::transport::ChildCommand;
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
    ///             tracing::warn!(%error, "this run sends no updates");
    ///         }
    ///     }
    /// });
    ///
    /// let result = server.client().await?.call_tool("settings", ()).await?;
    /// # let _ = result;
    /// server.close().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RunExit`] if the first start fails. Everything that it has started has ended by then.
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

    /// As [`restarting`](Self::restarting), and ends when `ending` becomes true, even during the first start, which
    /// then fails with [`CloseCause::Local`].
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
        let (plan, era) = self.plan();
        let wait_timeout = plan.limits.request;
        let (state, shown) = watch::channel(State::Ended(RestartError::Closed));
        let stop = ending.subscribe();
        let mut supervisor = Supervisor { plan, era, restart, start, state, stop };
        let client = supervisor.open(era).await?;
        supervisor.state.send_replace(State::Running { client: client.clone(), run: 1 });
        supervisor.restart.emit(&RunEvent::Started { run: 1 });
        background::spawn(supervisor.run(client));
        Ok(RestartingClient(Arc::new(Shared { state: shown, ending, wait_timeout })))
    }
}

impl RestartingClient {
    /// Returns the client of the current run. While the server is being restarted, waits for the next run for as long
    /// as a request may take ([`Limits::request`](mcpjoin_proto::session::Limits::request), 60 s). Cancel-safe.
    ///
    /// # Errors
    /// [`RestartError`]: immediately if the server was given up or closed, otherwise after the timeout.
    pub async fn client(&self) -> Result<Client, RestartError> {
        self.client_within(self.0.wait_timeout).await
    }

    /// As [`RestartingClient::client`], with another timeout.
    ///
    /// # Errors
    /// As [`RestartingClient::client`].
    #[doc(hidden)]
    pub async fn client_within(&self, wait_timeout: Duration) -> Result<Client, RestartError> {
        let mut state = self.0.state.clone();
        if let Some(known) = current_client(&state.borrow_and_update()) {
            return known;
        }
        let waiting = async {
            loop {
                // The last state stays when the supervisor is gone.
                let over = state.changed().await.is_err();
                match current_client(&state.borrow_and_update()) {
                    Some(known) => return known,
                    None if over => return Err(RestartError::Closed),
                    None => {}
                }
            }
        };
        match timeout(wait_timeout, waiting).await {
            Ok(known) => known,
            Err(_) => Err(RestartError::TimedOut { after: wait_timeout, last: self.last_end() }),
        }
    }

    /// Returns the client of the current run, if there is one now.
    #[doc(hidden)]
    pub fn current(&self) -> Option<Client> {
        current_client(&self.0.state.borrow())?.ok()
    }

    fn last_end(&self) -> RunExit {
        match &*self.0.state.borrow() {
            State::Restarting(end) => end.clone(),
            // The run has ended, and what it has started is still running.
            State::Running { client, .. } => {
                RunExit::Ended(client.close_cause().unwrap_or(CloseCause::Local))
            }
            State::Ended(RestartError::GivenUp { last, .. } | RestartError::TimedOut { last, .. }) => {
                last.clone()
            }
            State::Ended(RestartError::Closed) => RunExit::Ended(CloseCause::Local),
        }
    }

    /// Returns the runs, from the current one on.
    ///
    /// ```no_run
    /// # async fn example(server: mcpjoin::client::RestartingClient) {
    /// let mut runs = server.runs();
    /// while let Some(client) = runs.next().await {
    ///     println!("{:?} has started", client.server_name());
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn runs(&self) -> ClientStream {
        ClientStream { state: self.0.state.clone(), seen: 0 }
    }

    /// Ends the server in any state: a start or a pause in progress ends immediately. Waits until everything has ended,
    /// and returns why there is no client any more.
    pub async fn close(&self) -> RestartError {
        self.0.ending.send_replace(true);
        self.closed().await
    }

    /// Waits until the server was closed or given up.
    pub async fn closed(&self) -> RestartError {
        let mut state = self.0.state.clone();
        match state.wait_for(|state| matches!(state, State::Ended(_))).await.as_deref() {
            Ok(State::Ended(why)) => why.clone(),
            _ => RestartError::Closed,
        }
    }
}

/// Returns the client, or why there will be none; `None` while that is not known.
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
    /// Returns the client of the next run: first the current one, then one for each restart. Runs that were missed are
    /// skipped. Returns `None` when the server was closed or given up. Cancel-safe.
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

    /// Returns the number of the last run that was returned: 1 for the first, 0 for none.
    #[doc(hidden)]
    #[must_use]
    pub const fn run(&self) -> u64 {
        self.seen
    }
}

/// Keeps the server running. The only task that changes the state.
struct Supervisor {
    plan: Plan,
    era: EraChoice,
    restart: Restart,
    start: Start,
    state: watch::Sender<State>,
    stop: watch::Receiver<bool>,
}

/// Ready when the server is to end.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Without a sender nothing can ask for the end, and nothing needs the server.
    let _ = stop.wait_for(|ending| *ending).await;
}

impl Supervisor {
    async fn run(mut self, first: Client) {
        let why = self.run_all(first).await;
        self.state.send_replace(State::Ended(why));
    }

    /// Runs the server again and again, until it is closed or given up.
    async fn run_all(&mut self, mut client: Client) -> RestartError {
        // Failed starts and pauses since the last successful run.
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
            // The era is probably the same again. Skips the probe, which some servers do not survive.
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
                    biased;
                    () = stopped(&mut self.stop) => return RestartError::Closed,
                    () = sleep(pause) => {}
                }
                let era = match (self.era, hint.take()) {
                    (EraChoice::Auto, Some(era)) => EraChoice::Only(era),
                    (era, _) => era,
                };
                match self.open(era).await {
                    Ok(client) => break client,
                    Err(RunExit::Ended(CloseCause::Local)) => return RestartError::Closed,
                    Err(why) => end = why,
                }
                failed_starts += 1;
            };
            run += 1;
            self.state.send_replace(State::Running { client: client.clone(), run });
            self.restart.emit(&RunEvent::Started { run });
        }
    }

    /// Starts the server once. If it is to end before that, the cause is [`CloseCause::Local`].
    async fn open(&mut self, era: EraChoice) -> Result<Client, RunExit> {
        let link = tokio::select! {
            biased;
            () = stopped(&mut self.stop) => return Err(CloseCause::Local.into()),
            started = (self.start)() => started?,
        };
        let opening = self.plan.open(link, era);
        let opened = tokio::select! {
            opened = opening.opened() => Some(opened),
            () = stopped(&mut self.stop) => None,
        };
        match opened {
            Some(Ok(peer)) => Ok(opening.client(peer)),
            Some(Err(error)) => Err(error.into()),
            None => {
                opening.close().await;
                Err(CloseCause::Local.into())
            }
        }
    }
}

impl Drop for Supervisor {
    /// Ends all waiting, also if the runtime shuts down first.
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
