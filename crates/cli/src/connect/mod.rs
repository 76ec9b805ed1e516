//! Connects a command to its server: starts or reaches the server, runs the command's work, and ends every process that was
//! started, whatever happens. Signals are handled the whole time.
//!
//! Called by the commands that talk to a server. It checks no result, and prints only what concerns the connection.

mod authorization;
mod consent;
mod endpoint;
mod environment;
mod network;
mod orchestra;
mod plan;
mod session;
mod several;
mod signals;
mod trace;
mod unmatched;

use std::convert::Infallible;
use std::time::{Duration, Instant};

use mcpjoin::client::Client;
use mcpjoin::transport::ChildHandle;
use tokio::time::{sleep, timeout};

use crate::args::{Configured, Connect};
use crate::config::ToolFilter;
use crate::exit::{Exit, Signal};
use crate::failure::{Failure, Phase};
use crate::guard::OrphanGuard;
use crate::progress::Waiting;
use crate::target::Target;
use crate::ui::Ui;
use crate::visible;

pub(crate) use crate::config::Place;
pub(crate) use authorization::{Access, folder as logins_folder, hide_token, unusable as unusable_login};
pub(crate) use endpoint::Endpoint;
pub(crate) use environment::{CLIENT_SECRET, STATE_URL, without_ours};
pub(crate) use network::{
    bounded, certificates, certificates_folder, is_readable_by_others, orchestra_certificates, private_key,
    read_file, refused, secret_file, unusable,
};
pub(crate) use plan::{Plan, limits};
pub(crate) use session::{Session, with_session};
pub(crate) use several::{ServerOutput, Work, lost, with_each, with_each_server};
pub(crate) use signals::{Signals, Stop};
pub(crate) use trace::{stamp, without_secrets};

/// How long the supervisor of the child may take to report after everything was killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a server may take to end after Ctrl-C before the user learns what to do.
const STOP_NOTE_DELAY: Duration = Duration::from_millis(300);

/// How long the runtime waits at the end for a blocking system call, such as resolving a name.
const RUNTIME_SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// What the command line knows of a server, and how work with it is stopped.
pub(crate) struct About {
    /// The command or the address as the user would type it.
    pub(crate) shown: String,
    /// The transport, in a word.
    pub(crate) transport: &'static str,
    /// The name and the place of its entry, where it is an entry.
    pub(crate) entry: Option<(String, Place)>,
    /// The server's end of the connection.
    pub(crate) endpoint: Endpoint,
    /// The tools that may be listed.
    pub(crate) tools: ToolFilter,
    /// Work that waits for it has [`PRINT_TIMEOUT`](signals::PRINT_TIMEOUT) to end by itself after a signal.
    pub(crate) stop: Stop,
}

impl About {
    fn of(target: &Target, plan: &Plan) -> Self {
        Self {
            shown: plan.shown.clone(),
            transport: plan.endpoint.transport(),
            entry: plan.place.clone().map(|place| (target.label(), place)),
            endpoint: plan.endpoint.clone(),
            tools: plan.tools.clone(),
            stop: Stop::default(),
        }
    }
}

/// Connects to the server, runs `work`, and ends everything. Returns the exit of `work`, or the exit of what prevented it.
pub(crate) fn with_server(
    ui: &Ui,
    target: &Target,
    connect: &Connect,
    work: impl AsyncFnOnce(&Client, &About) -> Result<Exit, Failure>,
) -> Exit {
    with_plan(ui, target, connect, async |plan, signals| {
        let about = About::of(target, &plan);
        run(plan, ui, signals, &about, async |_| {}, work).await
    })
}

/// [`with_server`] for verbs that call tools, with a client that supports tasks. When `permit` refuses the plan, nothing
/// is started. When a signal ends the work, `farewell` runs before the connection is
/// closed. A second signal ends `farewell`, too.
pub(crate) fn with_tasks(
    ui: &Ui,
    target: &Target,
    connect: &Connect,
    permit: impl FnOnce(&Plan) -> Result<(), Failure>,
    farewell: impl AsyncFnOnce(Signal),
    work: impl AsyncFnOnce(&Client) -> Result<Exit, Failure>,
) -> Exit {
    with_plan(ui, target, connect, async |plan, signals| {
        if let Err(failure) = permit(&plan) {
            return failed(ui, &failure);
        }
        let about = About::of(target, &plan);
        run(plan.taking_tasks(), ui, signals, &about, farewell, async |client: &Client, _: &About| {
            work(client).await
        })
        .await
    })
}

/// Runs `work` with the plan for one server. Afterwards every process that is left of the server is ended, and a warning names
/// one that cannot be. `work` handles signals itself.
pub(crate) fn with_plan(
    ui: &Ui,
    target: &Target,
    connect: &Connect,
    work: impl AsyncFnOnce(Plan, Signals) -> Exit,
) -> Exit {
    with_plans(ui, std::slice::from_ref(target), connect, async |plans, signals| {
        match plans.into_iter().next() {
            Some(plan) => work(plan, signals).await,
            None => Exit::Done,
        }
    })
}

/// [`with_plan`] for several servers: one plan for each target, in their order.
pub(crate) fn with_plans(
    ui: &Ui,
    targets: &[Target],
    connect: &Connect,
    work: impl AsyncFnOnce(Vec<Plan>, Signals) -> Exit,
) -> Exit {
    let plans: Result<Vec<Plan>, Failure> =
        targets.iter().map(|target| plan::plan(ui, target, connect)).collect();
    // A target that cannot be used is reported before the user is asked anything.
    let asked = plans.and_then(|plans| {
        let mut plans: Vec<_> = plans.into_iter().map(Ok).collect();
        consent::ask(ui, &mut plans);
        plans.into_iter().collect::<Result<Vec<Plan>, Failure>>()
    });
    match asked {
        Ok(plans) => {
            let endpoints = plans.iter().map(|plan| plan.endpoint.clone()).collect();
            on_runtime(ui, endpoints, Signals::listen, async |mut signals| {
                match signals.until(settled(ui, plans.into_iter().map(Ok).collect())).await {
                    Ok(plans) => work(plans.into_iter().flatten().collect(), signals).await,
                    Err(signal) => Exit::Signal(signal),
                }
            })
        }
        Err(failure) => failed(ui, &failure),
    }
}

/// The plans to follow, once it is known where URLs without a path lead.
async fn settled(ui: &Ui, plans: Vec<Result<Plan, Failure>>) -> Vec<Result<Plan, Failure>> {
    let mut settled = Vec::with_capacity(plans.len());
    for plan in plans {
        settled.push(match plan {
            Ok(plan) => Ok(plan.settled(ui).await),
            Err(failure) => Err(failure),
        });
    }
    settled
}

/// [`with_plans`] for verbs that report a target without a plan as a result, so that it hides none of the others.
fn with_each_plan(
    ui: &Ui,
    targets: &[Target],
    connect: &Connect,
    work: impl AsyncFnOnce(Vec<Result<Plan, Failure>>, Signals) -> Exit,
) -> Exit {
    // Where one target is an entry, the configuration is for the entries alone.
    let is_entry = |target: &Target| matches!(target, Target::Entry(_));
    let others = Connect { configured: Configured::default(), ..connect.clone() };
    let others = if targets.iter().any(is_entry) { &others } else { connect };
    let plan = |target| plan::plan(ui, target, if is_entry(target) { connect } else { others });
    let mut plans: Vec<_> = targets.iter().map(plan).collect();
    consent::ask(ui, &mut plans);
    let endpoints = plans.iter().flatten().map(|plan| plan.endpoint.clone()).collect();
    on_runtime(ui, endpoints, Signals::listen, async |mut signals| {
        match signals.until(settled(ui, plans)).await {
            Ok(plans) => work(plans, signals).await,
            Err(signal) => Exit::Signal(signal),
        }
    })
}

/// Prints the failure and returns its exit.
fn failed(ui: &Ui, failure: &Failure) -> Exit {
    ui.failure(failure);
    failure.exit
}

/// Runs the work of a server, which connects to no other one. The work itself calls [`Signals::watch`].
pub(crate) fn serving(ui: &Ui, work: impl AsyncFnOnce(Signals) -> Exit) -> Exit {
    on_runtime(ui, Vec::new(), Signals::listen_unwatched, work)
}

/// Runs the work on a new runtime, and ends what is left of the servers.
fn on_runtime(
    ui: &Ui,
    endpoints: Vec<Endpoint>,
    listen: fn() -> std::io::Result<Signals>,
    work: impl AsyncFnOnce(Signals) -> Exit,
) -> Exit {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(ui, &Failure::system(Phase::Spawn, &error)),
    };
    // Without a child there is no orphan.
    let _guard = endpoints.iter().any(|endpoint| endpoint.child().is_some()).then(OrphanGuard::start);
    let exit = runtime.block_on(async {
        let exit = match listen() {
            Ok(signals) => work(signals).await,
            Err(error) => failed(ui, &Failure::system(Phase::Spawn, &error)),
        };
        for endpoint in &endpoints {
            endpoint.bridges_ended().await;
        }
        exit
    });
    // Dropping the tasks kills children that have not exited by now.
    runtime.shutdown_timeout(RUNTIME_SHUTDOWN_TIMEOUT);
    for endpoint in endpoints {
        for survivor in endpoint.child().iter().flat_map(survivors) {
            ui.warning(&survivor);
        }
        if let Some(trace) = endpoint.trace {
            trace.close();
        }
    }
    exit
}

async fn run(
    plan: Plan,
    ui: &Ui,
    mut signals: Signals,
    about: &About,
    farewell: impl AsyncFnOnce(Signal),
    work: impl AsyncFnOnce(&Client, &About) -> Result<Exit, Failure>,
) -> Exit {
    let started = Instant::now();
    let endpoint = plan.endpoint.clone();
    let fail =
        |failure: Failure| failed(ui, &endpoint.explain(failure).with(&about.shown, started.elapsed()));
    // When a signal drops this future, the client begins to end the server.
    let client = match signals.until(Waiting::new(ui, "connecting").wait(plan.open(ui))).await {
        Ok(client) => client.map_err(&fail),
        Err(signal) => Err(Exit::Signal(signal)),
    };
    let client = match client {
        Ok(client) => client,
        Err(exit) => {
            // The failure has been printed. The child may need time to exit, and a session to be ended.
            let ending = async {
                match exit {
                    Exit::Signal(signal) => stopping(ui, signal, endpoint.ended()).await,
                    _ => endpoint.ended().await,
                }
            };
            return match signals.until(ending).await {
                Err(signal) if !matches!(exit, Exit::Signal(_)) => Exit::Signal(signal),
                _ => exit,
            };
        }
    };
    let mut working = Box::pin(work(&client, about));
    let exit = match signals.until(working.as_mut()).await {
        Ok(outcome) => outcome.unwrap_or_else(fail),
        Err(signal) => {
            about.stop.raise(signal);
            let ending = async {
                if about.stop.has_listener() {
                    // The exit is that of the signal, however the work ends.
                    let _ = timeout(signals::PRINT_TIMEOUT, working.as_mut()).await;
                }
                drop(working);
                farewell(signal).await;
            };
            // A second signal ends the wait.
            let _ = signals.until(ending).await;
            Exit::Signal(signal)
        }
    };
    let closing = async {
        match exit {
            Exit::Signal(signal) => stopping(ui, signal, client.close()).await,
            _ => client.close().await,
        }
    };
    signals.until(closing).await.map_or_else(Exit::Signal, |_| exit)
}

/// Waits for the end of a server after a signal. Where that takes long, says how it goes faster.
async fn stopping<T>(ui: &Ui, signal: Signal, closing: impl Future<Output = T>) -> T {
    let noted = async {
        sleep(STOP_NOTE_DELAY).await;
        if signal == Signal::Interrupt && ui.is_watched() {
            ui.note("stopping the server ... (Ctrl-C again: now)");
        }
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        outcome = closing => outcome,
        never = noted => match never {},
    }
}

/// A warning for each process of the server that is still running: normally there is none.
fn survivors(child: &ChildHandle) -> Vec<String> {
    if child.pid().is_some() && child.report().is_none() {
        let waiting = tokio::runtime::Builder::new_current_thread().enable_time().build();
        // Without a runtime to wait in, what is known by now is reported.
        let _ = waiting.map(|runtime| runtime.block_on(async { timeout(KILL_TIMEOUT, child.ended()).await }));
    }
    let Some(report) = child.report() else { return Vec::new() };
    let left = report.survivors.iter().map(|left| {
        let name = visible::line(&left.name);
        format!("process {} ({name}), which the server started, is still running", left.pid)
    });
    // On other systems the processes can never be listed.
    let blind = cfg!(target_os = "linux") && !report.complete;
    left.chain(blind.then(|| "/proc cannot be read: processes of the server may still run".into())).collect()
}
