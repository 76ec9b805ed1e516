//! `mcpjoin list`: what a server has, as it comes.

mod items;
mod reading;
mod writing;

use std::convert::Infallible;
use std::ops::ControlFlow;

use mcpjoin::client::Client;
use tokio::sync::{Semaphore, mpsc};

use super::{misused, written};
use crate::args::{Connect, List};
use crate::config::{self, ToolFilter};
use crate::connect::{ServerOutput, Stop, with_each_server, with_tools};
use crate::exit::{Exit, Signal};
use crate::failure::Failure;
use crate::progress::Waiting;
use crate::target;
use crate::ui::Ui;

pub(super) use items::{NAMES, table};
pub(super) use reading::{
    Absent, Enough, PAGES, PROMPTS, Part, RESOURCES, Section, TEMPLATES, TOOLS, broken, find, read,
};
use writing::Writing;
pub(super) use writing::{Facts, failed};

/// Everything, in the order in which it is shown.
pub(super) static ALL: [&Section; 4] = [&TOOLS, &RESOURCES, &TEMPLATES, &PROMPTS];

/// Lists what the server has, or every server of the configuration. `escaped`: `--` stood before the first word.
pub(crate) fn run(ui: &Ui, args: List, escaped: bool) -> Result<Exit, Failure> {
    let (describe, pages) = (args.describe, args.max_pages.map_or(PAGES, |pages| pages as usize));
    if args.words.is_empty() && args.connect.server.is_none() {
        return every(ui, &args.connect, describe, pages);
    }
    let invocation = target::without_operands("list", args.connect.server.as_deref(), args.words, escaped)
        .map_err(misused)?;
    invocation.notes.iter().for_each(|note| ui.note(note));
    Ok(with_tools(ui, &invocation.target, &args.connect, async |client, tools, stop| {
        list(ui, client, tools, describe, pages, stop).await
    }))
}

async fn list(
    ui: &Ui,
    client: &Client,
    filter: &ToolFilter,
    describe: bool,
    pages: usize,
    stop: &Stop,
) -> Result<Exit, Failure> {
    let facts = Facts::of(client);
    ui.styled_remark(&facts.header);
    let mut writing = Writing::new(ui, describe, false);
    writing.server(None, facts);
    // What is written while it is read would stand in the line of who waits, and there would be one more page: they take
    // turns.
    let (parts, mut coming) = mpsc::channel(1);
    let turn = Semaphore::new(0);
    let reading = async {
        let tell = async |part| {
            parts.send(part).await.map_err(|_| Enough)?;
            turn.acquire().await.map_err(|_| Enough)?.forget();
            Ok(())
        };
        // What ends the connection is told as a part, too.
        let _ = read(ui, client, filter, &ALL, pages, tell).await;
        drop(parts);
        std::future::pending::<Infallible>().await
    };
    let mut failures = Vec::new();
    let showing = async {
        loop {
            let part = tokio::select! {
                biased;
                signal = stop.raised() => {
                    writing.interrupted(signal);
                    break;
                }
                part = Waiting::new(ui, "waiting").wait(coming.recv()) => part,
            };
            let Some(part) = part else { break };
            if let Part::Broken(_, failure) = &part {
                failures.push((**failure).clone());
            }
            if let Err(Enough) = writing.tell(part).await {
                break;
            }
            turn.add_permits(1);
        }
        // Whoever reads on is told that nobody wants to know.
        turn.close();
        drop(coming);
        let _ = writing.server_over().await;
        writing.over().await
    };
    let outcome = tokio::select! {
        outcome = showing => outcome,
        never = reading => match never {},
    };
    match written(ui, outcome) {
        Exit::Done => failed(ui, failures),
        exit => Ok(exit),
    }
}

/// What comes of one server of several.
pub(super) enum Told {
    Server(Box<Facts>),
    Part(Part),
}

/// Reads these lists of each server of the configuration, and tells of them in their order.
pub(super) fn read_each(
    ui: &Ui,
    connect: &Connect,
    wanted: &'static [&'static Section],
    pages: usize,
    told: impl AsyncFnOnce(Vec<ServerOutput<Told>>, &Stop) -> ControlFlow<Exit, Exit>,
) -> Result<Exit, Failure> {
    if connect.trace.is_some() {
        let problem =
            "--trace writes down what crosses to one server, and all of the configuration are meant";
        return Err(Failure::usage(problem, "leave out --trace, or name one server"));
    }
    let targets = config::all(ui, &connect.configured)?;
    let work = move |ui: Ui, client: Client, filter: ToolFilter, parts: mpsc::Sender<Told>| async move {
        if parts.send(Told::Server(Box::new(Facts::of(&client)))).await.is_err() {
            return Ok(());
        }
        let tell = async |part| parts.send(Told::Part(part)).await.map_err(|_| Enough);
        read(&ui, &client, &filter, wanted, pages, tell).await
    };
    Ok(with_each_server(ui, &targets, connect, work, told))
}

/// Tells why some of them could not be read; the exit is that of the first.
pub(super) fn tell_failures(ui: &Ui, failures: &[(String, Failure)]) -> Exit {
    // In a document they stand with the others.
    let mut rest: Vec<&(String, Failure)> = failures.iter().filter(|_| !ui.json).collect();
    while let Some((_, failure)) = rest.first().copied() {
        // What several have in common, as that they lie where nobody trusts them, is told once.
        let same = |other: &Failure| {
            (other.id, &other.message, &other.seen.server)
                == (failure.id, &failure.message, &failure.seen.server)
        };
        let (alike, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(_, other)| same(other));
        rest = others;
        let names: Vec<&str> = alike.iter().map(|(name, _)| name.as_str()).collect();
        let message = format!("{}: {}", names.join(", "), failure.message);
        ui.failure(&Failure { message, ..failure.clone() });
    }
    failures.first().map_or(Exit::Done, |(_, failure)| failure.exit)
}

fn every(ui: &Ui, connect: &Connect, describe: bool, pages: usize) -> Result<Exit, Failure> {
    read_each(ui, connect, &ALL, pages, async |servers, stop| {
        let mut writing = Writing::new(ui, describe, true);
        let mut failures = Vec::new();
        for server in servers {
            if let Err(Enough) = one(ui, &mut writing, server, &mut failures, stop).await {
                break;
            }
        }
        let outcome = writing.over().await;
        let stopped = outcome.is_err();
        let exit = written(ui, outcome);
        let failed = tell_failures(ui, &failures);
        match (stopped, exit) {
            (true, exit) => ControlFlow::Break(exit),
            (false, Exit::Done) => ControlFlow::Continue(failed),
            (false, exit) => ControlFlow::Continue(exit),
        }
    })
}

/// Shows what comes of one of them.
async fn one(
    ui: &Ui,
    writing: &mut Writing<'_>,
    mut server: ServerOutput<Told>,
    failures: &mut Vec<(String, Failure)>,
    stop: &Stop,
) -> Result<(), Enough> {
    let name = server.name.clone();
    let mut has_begun = false;
    let mut is_broken = false;
    loop {
        let told = tokio::select! {
            biased;
            signal = stop.raised() => return interrupted(writing, has_begun, signal).await,
            told = server.next(ui) => told,
        };
        let Some(told) = told else { break };
        match told {
            Told::Server(facts) => {
                has_begun = true;
                writing.server(Some(&name), *facts);
            }
            Told::Part(part) => {
                if let Part::Broken(_, failure) = &part {
                    is_broken = true;
                    failures.push((name.clone(), (**failure).clone()));
                }
                writing.tell(part).await?;
            }
        }
    }
    let outcome = tokio::select! {
        biased;
        signal = stop.raised() => return interrupted(writing, has_begun, signal).await,
        outcome = server.outcome(ui) => outcome,
    };
    if has_begun {
        writing.server_over().await?;
    }
    if let Err(failure) = outcome {
        if !has_begun {
            writing.absent(&name, &failure).await?;
        }
        // What is known of the connection, too, is known only now.
        if is_broken {
            failures.pop();
        }
        failures.push((name, failure));
    }
    Ok(())
}

/// A signal has come: of the server of which something was told there is no more.
async fn interrupted(writing: &mut Writing<'_>, has_begun: bool, signal: Signal) -> Result<(), Enough> {
    writing.interrupted(signal);
    if has_begun {
        writing.server_over().await?;
    }
    Err(Enough)
}
