//! The way to several servers at once: each is started or reached, worked with and ended like one alone, and what goes wrong
//! with one is a result beside those of the others.
//!
//! What comes of them is told in their order while they are worked with. One whose turn has not come waits once it is ahead
//! by as much as its channel holds: however much they have to tell, little of it is kept.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use mcpjoin::client::Client;
use mcpjoin::link::ChildHandle;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;

use super::stop::{self, Stop};
use super::{Plan, Signals, opening, with_each_plan};
use crate::args::Connect;
use crate::config::ToolFilter;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::progress::Waiting;
use crate::target::Target;
use crate::ui::Ui;

/// So many servers are run at once, where the configuration says nothing else: each of them may be a program with others
/// below it.
const AT_ONCE: usize = 8;
/// So many parts of what a server has to tell are kept until its turn comes.
const AHEAD: usize = 1;

/// Where what is found out about a server goes. When nobody wants to know any more, it is closed.
pub(crate) type Parts<T> = mpsc::Sender<T>;

/// What comes of one server.
pub(crate) struct Coming<T> {
    /// The name of its entry, or its command or address.
    pub(crate) name: String,
    waiting: String,
    parts: mpsc::Receiver<T>,
    outcome: oneshot::Receiver<Result<(), Failure>>,
}

impl<T> Coming<T> {
    /// The next part; `None` when there is none any more. A person who waits is told for whom.
    pub(crate) async fn next(&mut self, ui: &Ui) -> Option<T> {
        Waiting::new(ui, &self.waiting).wait(self.parts.recv()).await
    }

    /// How it went, once the last part has come.
    pub(crate) async fn outcome(self, ui: &Ui) -> Result<(), Failure> {
        Waiting::new(ui, &self.waiting).wait(self.outcome).await.unwrap_or_else(|_| Err(lost()))
    }
}

fn lost() -> Failure {
    Failure::new("E_INTERNAL", Exit::Connection, Phase::List, "this server was lost on the way")
        .hint("this is a fault of mcpjoin: tell its authors")
}

/// Where it goes how the work with a server went.
type Outcome = oneshot::Sender<Result<(), Failure>>;

/// What is done with the way to each server, before there is a connection.
type Done<T> = Pin<Box<dyn Future<Output = Result<T, Failure>>>>;

/// Works with all of them, so many at once, while it is told what comes of them, in their order. When that breaks off, or a
/// signal comes, for which whoever tells may wait, the rest is ended with everything that was started.
pub(crate) fn with_each_server<T: 'static, F>(
    ui: &Ui,
    targets: &[Target],
    connect: &Connect,
    work: impl Fn(Ui, Client, ToolFilter, Parts<T>) -> F + Clone + 'static,
    told: impl AsyncFnOnce(Vec<Coming<T>>, &Stop) -> ControlFlow<Exit, Exit>,
) -> Exit
where
    F: Future<Output = Result<(), Failure>> + 'static,
{
    let connected = move |ui: Ui, plan: Plan, parts: Parts<T>, done: Outcome| {
        let work = work.clone();
        async move { one(&ui, plan, work, parts, done).await }
    };
    each(ui, targets, connect, connected, told)
}

/// [`with_each_server`] for a verb that connects by itself, or does not, and has one thing to tell of each, when all of them
/// are done, in their order.
pub(crate) fn with_each<T: 'static>(
    ui: &Ui,
    targets: &[Target],
    connect: &Connect,
    work: impl Fn(Ui, Plan) -> Done<T> + Clone + 'static,
    told: impl AsyncFnOnce(Vec<Result<T, Failure>>) -> Exit,
) -> Exit {
    let whole = move |ui: Ui, plan: Plan, parts: Parts<T>, done: Outcome| {
        let outcome = work(ui, plan);
        async move {
            let outcome = match outcome.await {
                // There is room for one, and nothing if nobody wants to know.
                Ok(answer) => parts.send(answer).await.map_err(|_| lost()),
                Err(failure) => Err(failure),
            };
            let _ = done.send(outcome);
        }
    };
    each(ui, targets, connect, whole, async |servers, _: &Stop| {
        let mut answers = Vec::with_capacity(servers.len());
        for mut server in servers {
            let answer = server.next(ui).await;
            answers.push(server.outcome(ui).await.and_then(|()| answer.ok_or_else(lost)));
        }
        ControlFlow::Continue(told(answers).await)
    })
}

fn each<T: 'static, F>(
    ui: &Ui,
    targets: &[Target],
    connect: &Connect,
    work: impl Fn(Ui, Plan, Parts<T>, Outcome) -> F + Clone + 'static,
    told: impl AsyncFnOnce(Vec<Coming<T>>, &Stop) -> ControlFlow<Exit, Exit>,
) -> Exit
where
    F: Future<Output = ()> + 'static,
{
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
        // A connection is opened by what need not go from thread to thread.
        let local = LocalSet::new();
        let mut running = JoinSet::new();
        let room = Arc::new(Semaphore::new(connect.configured.readings.at_once().unwrap_or(AT_ONCE)));
        let mut coming = Vec::new();
        for (target, plan) in targets.iter().zip(plans) {
            let (ui, room, work) = (ui.clone(), room.clone(), work.clone());
            let (parts, receiver) = mpsc::channel(AHEAD);
            let (done, outcome) = oneshot::channel();
            let name = target.label();
            let waiting = format!("waiting for {name}");
            coming.push(Coming { name, waiting, parts: receiver, outcome });
            running.spawn_local_on(
                async move {
                    // It is never closed. Whose turn comes first is let in first.
                    let _room = room.acquire().await;
                    match plan {
                        Ok(plan) => work(ui, plan, parts, done).await,
                        Err(failure) => drop(done.send(Err(failure))),
                    }
                },
                &local,
            );
        }
        let stop = Stop::default();
        let mut telling = Box::pin(local.run_until(told(coming, &stop)));
        let told = tokio::select! {
            biased;
            signal = signals.next() => Err(signal),
            told = telling.as_mut() => Ok(told),
        };
        let told = match told {
            Ok(told) => told,
            Err(signal) => {
                stop.raise(signal);
                if stop.is_heard() {
                    tokio::select! {
                        biased;
                        _ = signals.next() => {}
                        _ = timeout(stop::PRINTED, telling.as_mut()) => {}
                    }
                }
                ControlFlow::Break(Exit::Signal(signal))
            }
        };
        drop(telling);
        let (exit, rest) = match told {
            ControlFlow::Continue(exit) => (exit, false),
            ControlFlow::Break(exit) => (exit, true),
        };
        tokio::select! {
            biased;
            // Nobody wants to wait any longer.
            signal = signals.next() => if rest { exit } else { Exit::Signal(signal) },
            () = ended(&local, running, &children, rest) => exit,
        }
    })
}

/// Waits for those that are about to end; `now`: has all of them end. Dropped, they end what they have started.
async fn ended(local: &LocalSet, mut running: JoinSet<()>, children: &[ChildHandle], now: bool) {
    if !now {
        local.run_until(async { while running.join_next().await.is_some() {} }).await;
        return;
    }
    local.run_until(running.shutdown()).await;
    for child in children {
        let _ = child.ended().await;
    }
}

async fn one<T, F>(
    ui: &Ui,
    plan: Plan,
    work: impl Fn(Ui, Client, ToolFilter, Parts<T>) -> F,
    parts: Parts<T>,
    done: Outcome,
) where
    F: Future<Output = Result<(), Failure>>,
{
    let started = Instant::now();
    let (child, shown, way) = (plan.way.child(), plan.shown.clone(), plan.way.clone());
    let link = async || plan.way.link().await;
    let opened = opening::open(ui, link, child.as_ref(), plan.client, plan.first, plan.remembered).await;
    let outcome = match opened {
        Ok(client) => {
            let outcome = work(ui.clone(), client.clone(), plan.tools, parts).await;
            if outcome.is_ok() {
                // It may take its time to leave; the next is told of meanwhile.
                let _ = done.send(outcome);
                client.close().await;
                return;
            }
            client.close().await;
            outcome
        }
        Err(failure) => {
            drop(parts);
            if let Some(child) = &child {
                child.ended().await;
            }
            Err(failure)
        }
    };
    let outcome = outcome.map_err(|failure| way.told(failure).with(&shown, started.elapsed()));
    let _ = done.send(outcome);
}
