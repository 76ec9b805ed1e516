//! Several servers at once: each is started or reached, used and ended like a single one. A failure of one is a result beside
//! the results of the others.
//!
//! The output of the servers is consumed in their order while they run. A server whose turn has not come waits when its channel
//! is full, so that little output is buffered.

use std::future::Future;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcpjoin::client::Client;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;

use super::signals::{PRINT_TIMEOUT, Stop};
use super::{Endpoint, Plan, with_each_plan};
use crate::args::Connect;
use crate::config::ToolFilter;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::progress::Waiting;
use crate::target::Target;
use crate::ui::Ui;

/// How many servers run at once, where the configuration says nothing else. Each may be a program with child processes.
const MAX_RUNNING_SERVERS: usize = 8;
/// How long the start of a program counts as one: afterwards it mostly waits.
const START_TIME: Duration = Duration::from_secs(2);
/// How many programs start at once at least, also on a machine with one processor.
const MIN_STARTING_PROGRAMS: usize = 2;
/// How many parts of a server's output are buffered until its turn.
const MAX_BUFFERED_PARTS: usize = 1;

/// Takes the parts of a server's output. It is closed when the consumer has gone.
pub(crate) type Parts<T> = mpsc::Sender<T>;

/// The output of one server.
pub(crate) struct ServerOutput<T> {
    /// The name of its entry, or its command or address.
    pub(crate) name: String,
    waiting: String,
    parts: mpsc::Receiver<T>,
    outcome: oneshot::Receiver<Result<(), Failure>>,
}

impl<T> ServerOutput<T> {
    /// The next part; `None` after the last one. The line of progress names the server meanwhile.
    pub(crate) async fn next(&mut self, ui: &Ui) -> Option<T> {
        Waiting::new(ui, &self.waiting).wait(self.parts.recv()).await
    }

    /// The outcome, once the last part has been read.
    pub(crate) async fn outcome(self, ui: &Ui) -> Result<(), Failure> {
        Waiting::new(ui, &self.waiting).wait(self.outcome).await.unwrap_or_else(|_| Err(lost()))
    }

    /// The only part, or the failure. The line of progress names the server meanwhile.
    pub(crate) async fn result(mut self, ui: &Ui) -> Result<T, Failure> {
        let part = self.next(ui).await;
        self.outcome(ui).await?;
        part.ok_or_else(lost)
    }

    /// [`result`](Self::result) without a line of progress.
    pub(crate) async fn quiet_result(mut self) -> Result<T, Failure> {
        let part = self.parts.recv().await;
        self.outcome.await.unwrap_or_else(|_| Err(lost()))?;
        part.ok_or_else(lost)
    }
}

/// The failure of a server without an outcome.
pub(crate) fn lost() -> Failure {
    Failure::new("E_INTERNAL", Exit::Connection, Phase::List, "this server could not be checked")
        .hint("this is a bug in mcpjoin: report it to its authors")
}

/// Takes the outcome of the work with a server.
type Outcome = oneshot::Sender<Result<(), Failure>>;

/// Work with the plan for a server.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = Result<T, Failure>>>>;

/// Runs `work` with a limited number of servers at once, and with the time that it took to open each session, while `consume`
/// reads their output in their order. When `consume` breaks off, or after a signal, the rest is ended with everything that was
/// started. `consume` may wait for the signal.
pub(crate) fn with_each_server<T: 'static, F>(
    ui: &Ui,
    targets: &[Target],
    connect: &Connect,
    work: impl Fn(Ui, Client, ToolFilter, Parts<T>, Duration) -> F + Clone + 'static,
    consume: impl AsyncFnOnce(Vec<ServerOutput<T>>, &Stop) -> ControlFlow<Exit, Exit>,
) -> Exit
where
    F: Future<Output = Result<(), Failure>> + 'static,
{
    let connected = move |ui: Ui, _, plan: Plan, parts: Parts<T>, done: Outcome| {
        let work = work.clone();
        async move { one(&ui, plan, work, parts, done).await }
    };
    each(ui, targets, connect, None, connected, consume)
}

/// [`with_each_server`] for a verb that opens the connections itself, if any, and has one [result](ServerOutput::result) for each
/// server. `work` gets the name of the server. At most `max_running` servers run at once.
pub(crate) fn with_each<T: 'static>(
    ui: &Ui,
    targets: &[Target],
    connect: &Connect,
    max_running: Option<usize>,
    work: impl Fn(Ui, String, Plan) -> Work<T> + Clone + 'static,
    consume: impl AsyncFnOnce(Vec<ServerOutput<T>>) -> Exit,
) -> Exit {
    let whole = move |ui: Ui, name: String, plan: Plan, parts: Parts<T>, done: Outcome| {
        let outcome = work(ui, name, plan);
        async move {
            let outcome = match outcome.await {
                // The channel holds one part, so this does not wait.
                Ok(result) => parts.send(result).await.map_err(|_| lost()),
                Err(failure) => Err(failure),
            };
            let _ = done.send(outcome);
        }
    };
    each(ui, targets, connect, max_running, whole, async |servers, _: &Stop| {
        ControlFlow::Continue(consume(servers).await)
    })
}

/// Runs `work` with each plan, and `consume` with their output.
fn each<T: 'static, F>(
    ui: &Ui,
    targets: &[Target],
    connect: &Connect,
    max_running: Option<usize>,
    work: impl Fn(Ui, String, Plan, Parts<T>, Outcome) -> F + Clone + 'static,
    consume: impl AsyncFnOnce(Vec<ServerOutput<T>>, &Stop) -> ControlFlow<Exit, Exit>,
) -> Exit
where
    F: Future<Output = ()> + 'static,
{
    with_each_plan(ui, targets, connect, async |plans, mut signals| {
        let endpoints: Vec<_> = plans.iter().flatten().map(|plan| plan.endpoint.clone()).collect();
        // The future that opens a connection is not `Send`.
        let local = LocalSet::new();
        let mut running = JoinSet::new();
        let max_running = max_running.or_else(|| connect.configured.readings.at_once());
        let permits = Arc::new(Semaphore::new(max_running.unwrap_or(MAX_RUNNING_SERVERS)));
        // Programs that start at the same time delay each other, mostly those that are loaded by Node.js or Python.
        let processors = std::thread::available_parallelism().map_or(MIN_STARTING_PROGRAMS, NonZero::get);
        let starts = Arc::new(Semaphore::new(processors.max(MIN_STARTING_PROGRAMS)));
        let mut outputs = Vec::new();
        for (target, plan) in targets.iter().zip(plans) {
            let starts = starts.clone();
            let (ui, permits, work, name) = (ui.clone(), permits.clone(), work.clone(), target.label());
            let (sender, parts) = mpsc::channel(MAX_BUFFERED_PARTS);
            let (done, outcome) = oneshot::channel();
            let waiting = format!("waiting for {name}");
            outputs.push(ServerOutput { name: name.clone(), waiting, parts, outcome });
            running.spawn_local_on(
                async move {
                    // The semaphore is fair and never closed: servers start in their order.
                    let _permit = permits.acquire().await;
                    match plan {
                        Ok(plan) => {
                            let is_program = plan.endpoint.child().is_some();
                            let start = if is_program { starts.acquire().await.ok() } else { None };
                            let mut working = pin!(work(ui, name, plan, sender, done));
                            if timeout(START_TIME, working.as_mut()).await.is_err() {
                                drop(start);
                                working.await;
                            }
                        }
                        Err(failure) => drop(done.send(Err(failure))),
                    }
                },
                &local,
            );
        }
        let stop = Stop::default();
        let mut consuming = Box::pin(local.run_until(consume(outputs, &stop)));
        let outcome = signals.until(consuming.as_mut()).await;
        if let Err(signal) = outcome {
            ui.line_over();
            stop.raise(signal);
            if stop.has_listener() {
                // A second signal ends the wait.
                let _ = signals.until(timeout(PRINT_TIMEOUT, consuming.as_mut())).await;
            }
        }
        drop(consuming);
        let (exit, abort) = match outcome {
            Ok(ControlFlow::Continue(exit)) => (exit, false),
            Ok(ControlFlow::Break(exit)) => (exit, true),
            Err(signal) => (Exit::Signal(signal), true),
        };
        match signals.until(ended(&local, running, &endpoints, abort)).await {
            Err(signal) if !abort => Exit::Signal(signal),
            _ => exit,
        }
    })
}

/// Waits for the servers that are about to end. `abort`: ends all of them now. A task that is dropped ends what it has started.
async fn ended(local: &LocalSet, mut running: JoinSet<()>, endpoints: &[Endpoint], abort: bool) {
    if !abort {
        local.run_until(async { while running.join_next().await.is_some() {} }).await;
        return;
    }
    local.run_until(running.shutdown()).await;
    for endpoint in endpoints {
        endpoint.ended().await;
    }
}

async fn one<T, F>(
    ui: &Ui,
    plan: Plan,
    work: impl Fn(Ui, Client, ToolFilter, Parts<T>, Duration) -> F,
    parts: Parts<T>,
    done: Outcome,
) where
    F: Future<Output = Result<(), Failure>>,
{
    let started = Instant::now();
    let (endpoint, shown, tools) = (plan.endpoint.clone(), plan.shown.clone(), plan.tools.clone());
    let outcome = match plan.open(ui).await {
        Ok(client) => {
            let outcome = work(ui.clone(), client.clone(), tools, parts, started.elapsed()).await;
            if outcome.is_ok() {
                // The next server is shown while this one exits.
                let _ = done.send(outcome);
                client.close().await;
                return;
            }
            client.close().await;
            outcome
        }
        Err(failure) => {
            drop(parts);
            endpoint.ended().await;
            Err(failure)
        }
    };
    let outcome = outcome.map_err(|failure| endpoint.explain(failure).with(&shown, started.elapsed()));
    let _ = done.send(outcome);
}
