//! The way to several servers at once: each is started or reached, worked with and ended like one alone, and what goes wrong
//! with one is a result beside those of the others.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use mcpjoin::client::Client;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

use super::{Plan, Signals, opening, with_each_plan};
use crate::args::Connect;
use crate::config::{self, ToolFilter};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::progress::Waiting;
use crate::target::Target;
use crate::ui::Ui;

/// So many servers are run at once, where the configuration says nothing else: each of them may be a program with others
/// below it.
const AT_ONCE: usize = 8;

/// What is done with each server.
pub(crate) type Work<T> = fn(Ui, Client, ToolFilter) -> Pin<Box<dyn Future<Output = Result<T, Failure>>>>;

/// What came of one server.
pub(crate) struct Answer<T> {
    /// The name of its entry, or its command or address.
    pub(crate) name: String,
    pub(crate) outcome: Result<T, Failure>,
}

/// What is done with the way to each server, before there is a connection.
type Done<T> = Pin<Box<dyn Future<Output = Result<T, Failure>>>>;

/// Works with all of them and then tells what came of it, in their order. A signal ends it, and what was started.
pub(crate) fn with_each_server<T: 'static>(
    ui: &Ui,
    targets: &[Target],
    connect: &Connect,
    work: Work<T>,
    told: impl AsyncFnOnce(Vec<Answer<T>>) -> Exit,
) -> Exit {
    with_each(ui, targets, connect, move |ui, plan| Box::pin(async move { one(&ui, plan, work).await }), told)
}

/// [`with_each_server`] for a verb that connects by itself, or does not.
pub(crate) fn with_each<T: 'static>(
    ui: &Ui,
    targets: &[Target],
    connect: &Connect,
    work: impl Fn(Ui, Plan) -> Done<T> + Clone + 'static,
    told: impl AsyncFnOnce(Vec<Answer<T>>) -> Exit,
) -> Exit {
    with_each_plan(ui, targets, connect, async |plans| {
        let mut signals = match Signals::listen() {
            Ok(signals) => signals,
            Err(error) => {
                let failure = Failure::system(Phase::Spawn, &error);
                ui.failure(&failure);
                return failure.exit;
            }
        };
        let children: Vec<_> = plans.iter().flatten().filter_map(|plan| plan.way.child()).collect();
        let names: Vec<String> = targets.iter().map(Target::label).collect();
        // A connection is opened by what need not go from thread to thread.
        let local = LocalSet::new();
        let mut running = JoinSet::new();
        let room = Arc::new(Semaphore::new(config::at_once(&connect.configured).unwrap_or(AT_ONCE)));
        for (place, plan) in plans.into_iter().enumerate() {
            let (ui, room, work) = (ui.clone(), room.clone(), work.clone());
            running.spawn_local_on(
                async move {
                    // It is never closed.
                    let _room = room.acquire().await;
                    let outcome = match plan {
                        Ok(plan) => work(ui, plan).await,
                        Err(failure) => Err(failure),
                    };
                    (place, outcome)
                },
                &local,
            );
        }
        let mut outcomes: Vec<Option<Result<T, Failure>>> = names.iter().map(|_| None).collect();
        let all = async {
            while let Some(done) = running.join_next().await {
                // One that is lost is told below.
                if let Ok((place, outcome)) = done {
                    outcomes[place] = Some(outcome);
                }
            }
        };
        let signal = tokio::select! {
            biased;
            signal = signals.next() => Some(signal),
            () = Waiting::new(ui, "waiting").wait(local.run_until(all)) => None,
        };
        if let Some(signal) = signal {
            // Dropped, they end what they have started; who asks twice does not wait for that.
            let ended = async {
                local.run_until(running.shutdown()).await;
                for child in &children {
                    let _ = child.ended().await;
                }
            };
            tokio::select! {
                biased;
                _ = signals.next() => {}
                () = ended => {}
            }
            return Exit::Signal(signal);
        }
        let lost = || {
            Err(Failure::new("E_INTERNAL", Exit::Connection, Phase::List, "this server was lost on the way")
                .hint("this is a fault of mcpjoin: tell its authors"))
        };
        let answers = names.into_iter().zip(outcomes);
        told(answers.map(|(name, outcome)| Answer { name, outcome: outcome.unwrap_or_else(lost) }).collect())
            .await
    })
}

async fn one<T>(ui: &Ui, plan: Plan, work: Work<T>) -> Result<T, Failure> {
    let started = Instant::now();
    let (child, shown) = (plan.way.child(), plan.shown.clone());
    let over_http = plan.way.http().is_some();
    let link = async || plan.way.link().await;
    let opened = opening::open(ui, link, child.as_ref(), plan.client, plan.first, plan.remembered).await;
    let outcome = match opened {
        Ok(client) => {
            let outcome = work(ui.clone(), client.clone(), plan.tools).await;
            client.close().await;
            outcome
        }
        Err(failure) => {
            if let Some(child) = &child {
                child.ended().await;
            }
            Err(failure)
        }
    };
    outcome.map_err(|failure| {
        let failure = match &child {
            Some(child) => failure.stderr(&child.stderr()),
            None if over_http => failure.over_http(),
            None => failure.over_a_socket(),
        };
        failure.with(&shown, started.elapsed())
    })
}
