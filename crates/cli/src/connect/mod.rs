//! A command's way to a server and back: starts it, connects, lets the command work, and ends everything that was
//! started, whatever happens. Signals are heard all the way.
//!
//! Called by the commands that talk to a server. It judges no result and prints only what it takes to connect.

mod authorization;
mod consent;
mod environment;
mod file;
mod headers;
mod http;
mod opening;
mod orchestra;
mod plan;
mod quic;
mod several;
mod signals;
mod stop;
mod trace;
mod way;

use std::time::{Duration, Instant};

use mcpjoin::client::Client;
use mcpjoin::link::ChildHandle;
use mcpjoin::proto::types::LogMessageParams;
use mcpjoin::proto::{Method, Notification};
use tokio::time::timeout;

use crate::args::{Configured, Connect};
use crate::config::ToolFilter;
use crate::exit::{Exit, Signal};
use crate::failure::{Failure, Phase};
use crate::guard::Guarded;
use crate::progress::Waiting;
use crate::target::Target;
use crate::ui::Ui;
use crate::visible;

pub(crate) use crate::config::Place;
pub(crate) use authorization::{Access, folder as logins_folder, unusable as unusable_login};
pub(crate) use environment::{CLIENT_SECRET, without_ours};
pub(crate) use file::{bounded, read as read_file};
pub(crate) use http::{certificates, refused};
pub(crate) use orchestra::certificates_folder;
pub(crate) use plan::{Plan, limits};
pub(crate) use quic::unusable;
pub(crate) use several::{Coming, with_each, with_each_server};
pub(crate) use signals::Signals;
pub(crate) use stop::Stop;
pub(crate) use trace::stamp;
pub(crate) use way::Way;

/// How long the keeper of the child may take once everything has been killed at once.
const KILLED: Duration = Duration::from_secs(1);

/// How long a call of the system may go on that nobody waits for any more, as resolving a name.
const UNHEARD: Duration = Duration::from_millis(500);

/// Connects to the server, runs `work`, and ends everything. The exit is that of `work`, or says what came between.
pub(crate) fn with_server(
    ui: &Ui,
    target: &Target,
    connect: &Connect,
    work: impl AsyncFnOnce(&Client) -> Result<Exit, Failure>,
) -> Exit {
    with_plan(ui, target, connect, async |plan| {
        run(plan, ui, async |_| {}, async |client: &Client, _: &Stop| work(client).await).await
    })
}

/// [`with_server`] for verbs that see tools: `work` is told which of them the configuration allows, and when a signal has
/// come: who waits for that is given a moment to end by itself.
pub(crate) fn with_tools(
    ui: &Ui,
    target: &Target,
    connect: &Connect,
    work: impl AsyncFnOnce(&Client, &ToolFilter, &Stop) -> Result<Exit, Failure>,
) -> Exit {
    with_plan(ui, target, connect, async |plan| {
        let tools = plan.tools.clone();
        run(plan, ui, async |_| {}, async |client: &Client, stop: &Stop| work(client, &tools, stop).await)
            .await
    })
}

/// What is known of a server beside what it says itself.
pub(crate) struct About {
    /// Its command or its address, as it would be typed.
    pub(crate) shown: String,
    /// How messages travel to it, in a word.
    pub(crate) transport: &'static str,
    /// The entry of a configuration that it is.
    pub(crate) entry: Option<(String, Place)>,
    /// Which of its tools may be seen.
    pub(crate) tools: ToolFilter,
}

/// [`with_server`] for verbs that tell of the server itself.
pub(crate) fn with_about(
    ui: &Ui,
    target: &Target,
    connect: &Connect,
    work: impl AsyncFnOnce(&Client, &About) -> Result<Exit, Failure>,
) -> Exit {
    with_plan(ui, target, connect, async |plan| {
        let about = About {
            shown: plan.shown.clone(),
            transport: match target {
                Target::Orchestrator(_) => "orchestra",
                _ => plan.way.name(),
            },
            entry: plan.place.clone().map(|place| (target.label(), place)),
            tools: plan.tools.clone(),
        };
        run(plan, ui, async |_| {}, async |client: &Client, _: &Stop| work(client, &about).await).await
    })
}

/// [`with_server`] for verbs that call tools, with a client that takes tasks. `tool` is the one that will be called; when
/// the configuration does not allow it, nothing is started. When a signal ends the work, `farewell` comes before the
/// connection is closed; a second signal ends that, too.
pub(crate) fn with_tasks(
    ui: &Ui,
    target: &Target,
    connect: &Connect,
    tool: Option<&str>,
    farewell: impl AsyncFnOnce(Signal),
    work: impl AsyncFnOnce(&Client) -> Result<Exit, Failure>,
) -> Exit {
    with_plan(ui, target, connect, async |plan| {
        if let Err(failure) = tool.map_or(Ok(()), |tool| plan.tools.permit(tool)) {
            ui.failure(&failure);
            return failure.exit;
        }
        run(plan.taking_tasks(), ui, farewell, async |client: &Client, _: &Stop| work(client).await).await
    })
}

/// Runs `work` on a runtime of its own, with what it takes to start the server and to connect to it; whatever is left
/// of what was started then is ended, and named when that is impossible. `work` hears signals by itself.
pub(crate) fn with_plan(
    ui: &Ui,
    target: &Target,
    connect: &Connect,
    work: impl AsyncFnOnce(Plan) -> Exit,
) -> Exit {
    with_plans(ui, std::slice::from_ref(target), connect, async |plans| match plans.into_iter().next() {
        Some(plan) => work(plan).await,
        None => Exit::Done,
    })
}

/// [`with_plan`] for several servers: one plan for each target, in their order.
pub(crate) fn with_plans(
    ui: &Ui,
    targets: &[Target],
    connect: &Connect,
    work: impl AsyncFnOnce(Vec<Plan>) -> Exit,
) -> Exit {
    let plans: Result<Vec<Plan>, Failure> =
        targets.iter().map(|target| plan::plan(ui, target, connect)).collect();
    // What cannot be meant is told before anybody is asked.
    let asked = plans.and_then(|plans| {
        let mut plans: Vec<_> = plans.into_iter().map(Ok).collect();
        consent::ask(ui, &mut plans);
        plans.into_iter().collect()
    });
    let plans: Vec<Plan> = match asked {
        Ok(plans) => plans,
        Err(failure) => {
            ui.failure(&failure);
            return failure.exit;
        }
    };
    let ways = plans.iter().map(|plan| plan.way.clone()).collect();
    within(ui, ways, work(plans))
}

/// [`with_plans`] for verbs to which a server that cannot be meant is a result: it hides none of the others.
pub(crate) fn with_each_plan(
    ui: &Ui,
    targets: &[Target],
    connect: &Connect,
    work: impl AsyncFnOnce(Vec<Result<Plan, Failure>>) -> Exit,
) -> Exit {
    // The configuration is for those that are entries of it, where there is one.
    let is_entry = |target: &Target| matches!(target, Target::Entry(_));
    let others = Connect { configured: Configured::default(), ..connect.clone() };
    let others = if targets.iter().any(is_entry) { &others } else { connect };
    let plan = |target| plan::plan(ui, target, if is_entry(target) { connect } else { others });
    let mut plans: Vec<_> = targets.iter().map(plan).collect();
    consent::ask(ui, &mut plans);
    let ways = plans.iter().flatten().map(|plan| plan.way.clone()).collect();
    within(ui, ways, work(plans))
}

/// Does the work on a runtime of its own.
fn within(ui: &Ui, ways: Vec<Way>, work: impl Future<Output = Exit>) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure = Failure::system(Phase::Spawn, &error);
            ui.failure(&failure);
            return failure.exit;
        }
    };
    // Dismissed when everything is over. Who starts nobody needs none.
    let _guarded = ways.iter().any(|way| way.child().is_some()).then(Guarded::start);
    let exit = runtime.block_on(work);
    // What has not been ended politely by now is killed with the tasks that held it. Nobody waits for a name server.
    runtime.shutdown_timeout(UNHEARD);
    for way in ways {
        for survivor in way.child().iter().flat_map(survivors) {
            ui.warning(&survivor);
        }
        if let Some(trace) = way.trace {
            trace.close();
        }
    }
    exit
}

async fn run(
    plan: Plan,
    ui: &Ui,
    farewell: impl AsyncFnOnce(Signal),
    work: impl AsyncFnOnce(&Client, &Stop) -> Result<Exit, Failure>,
) -> Exit {
    let started = Instant::now();
    let (child, shown) = (plan.way.child(), plan.shown.clone());
    let way = plan.way.clone();
    let fail = |failure: Failure| ui.failure(&way.told(failure).with(&shown, started.elapsed()));
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            let failure = Failure::system(Phase::Spawn, &error);
            let exit = failure.exit;
            fail(failure);
            return exit;
        }
    };
    let link = async || plan.way.link().await;
    let connecting = opening::open(ui, link, child.as_ref(), plan.client, plan.first, plan.remembered);
    // Dropped by the signal, it begins to end what it has started.
    let client = tokio::select! {
        biased;
        signal = signals.next() => Err(signal),
        client = Waiting::new(ui, "connecting").wait(connecting) => Ok(client),
    };
    let client = match client {
        Ok(Ok(client)) => client,
        Ok(Err(failure)) => {
            let exit = failure.exit;
            fail(failure);
            // Told at once; what was started may take its time to leave.
            if let Some(child) = child {
                tokio::select! {
                    biased;
                    signal = signals.next() => return Exit::Signal(signal),
                    _ = child.ended() => {}
                }
            }
            return exit;
        }
        Err(signal) => {
            if let Some(child) = child {
                tokio::select! {
                    biased;
                    _ = signals.next() => {}
                    _ = child.ended() => {}
                }
            }
            return Exit::Signal(signal);
        }
    };
    let stop = Stop::default();
    let mut working = Box::pin(work(&client, &stop));
    let outcome = tokio::select! {
        biased;
        signal = signals.next() => Err(signal),
        outcome = working.as_mut() => Ok(outcome),
    };
    let exit = match outcome {
        Ok(Ok(exit)) => exit,
        Ok(Err(failure)) => {
            let exit = failure.exit;
            fail(failure);
            exit
        }
        Err(signal) => {
            stop.raise(signal);
            let ending = async {
                let mut working = working;
                if stop.is_heard() {
                    // How it ended matters no more.
                    let _ = timeout(stop::PRINTED, working.as_mut()).await;
                }
                drop(working);
                farewell(signal).await;
            };
            tokio::select! {
                biased;
                _ = signals.next() => {}
                () = ending => {}
            }
            Exit::Signal(signal)
        }
    };
    tokio::select! {
        biased;
        // Nobody wants to wait any longer.
        signal = signals.next() => Exit::Signal(signal),
        _ = client.close() => exit,
    }
}

/// What is left of what the server has started: normally nothing.
fn survivors(child: &ChildHandle) -> Vec<String> {
    if child.pid().is_some() && child.report().is_none() {
        let waiting = tokio::runtime::Builder::new_current_thread().enable_time().build();
        // Without a runtime to wait in, what is known is told.
        let _ = waiting.map(|runtime| runtime.block_on(async { timeout(KILLED, child.ended()).await }));
    }
    let Some(report) = child.report() else { return Vec::new() };
    let left = report.survivors.iter().map(|left| {
        format!(
            "process {} ({}), which the server has started, is still there",
            left.pid,
            visible::line(&left.name)
        )
    });
    // Elsewhere it can never be seen.
    let blind = cfg!(target_os = "linux") && !report.complete;
    left.chain(blind.then(|| "/proc cannot be read: what the server has started may still be there".into()))
        .collect()
}

/// Shows a log message of the server.
pub(crate) fn show(ui: &Ui, notification: &Notification) {
    if notification.method != Method::LogMessage {
        return;
    }
    let Some(Ok(message)) =
        notification.params.as_ref().map(|params| params.raw().decode::<LogMessageParams>())
    else {
        return;
    };
    let text = message.data.to_string_value();
    let text = text.as_deref().unwrap_or_else(|| message.data.as_str());
    ui.server_line(&format!("[{}] {text}", message.level.as_str()));
}
