//! `mcpjoin list`: what a server has, shown as it is received. Without a server, `health` prints a line for each of them.

mod health;
mod output;

use std::convert::Infallible;
use std::ops::ControlFlow;

use mcpjoin::client::Client;
use tokio::sync::{Semaphore, mpsc};

pub(super) use self::output::Detail;
use self::output::Output;
use super::lists::{
    ALL, MAX_PAGES, Part, Section, ServerFacts, ServerPart, Stopped, read, read_each, report_server_failures,
};
use super::{report_failures, target_of, written};
use crate::args::{Connect, List};
use crate::connect::{About, ServerOutput, Stop, with_server};
use crate::exit::{Exit, Signal};
use crate::failure::Failure;
use crate::progress::Waiting;
use crate::ui::Ui;

/// How much of each item is shown.
pub(super) const fn detail(args: &List) -> Detail {
    match (args.describe, args.signatures) {
        (true, _) => Detail::Whole,
        (false, true) => Detail::Signatures,
        (false, false) => Detail::Rows,
    }
}

/// Lists what the server has, or every server of the configuration. `escaped`: `--` stood before the first word.
pub(crate) fn run(ui: &Ui, args: List, escaped: bool) -> Result<Exit, Failure> {
    let max_pages = args.max_pages.map_or(MAX_PAGES, |pages| pages as usize);
    let detail = detail(&args);
    if args.words.is_empty() && args.connect.server().is_none() {
        let connect = args.connect.answering(args.questions);
        return match ui.json || detail != Detail::Rows {
            true => every(ui, &connect, detail, max_pages),
            false => health::run(ui, &connect, max_pages, args.watch),
        };
    }
    if args.watch.is_some() {
        let problem = "--watch is for all servers of the configuration, but one server is named";
        return Err(Failure::usage(problem, "mcpjoin list --watch"));
    }
    let target = target_of(ui, "list", &args.connect, args.words, escaped)?;
    let connect = args.connect.answering(args.questions);
    Ok(with_server(ui, &target, &connect, async |client, about| {
        list(ui, client, about, &ALL, detail, max_pages).await
    }))
}

/// Lists what a server has in these lists.
pub(super) async fn list(
    ui: &Ui,
    client: &Client,
    about: &About,
    wanted: &[&'static Section],
    detail: Detail,
    max_pages: usize,
) -> Result<Exit, Failure> {
    let facts = ServerFacts::of(client);
    ui.styled_remark(&facts.header);
    let mut output = Output::new(ui, detail, false);
    output.begin_server(None, facts);
    // Reading and writing take turns: the line of progress would mix with the output, and a second page would be in memory.
    let (parts, mut received) = mpsc::channel(1);
    let turn = Semaphore::new(0);
    let reading = async {
        let on_part = async |part| {
            parts.send(part).await.map_err(|_| Stopped)?;
            turn.acquire().await.map_err(|_| Stopped)?.forget();
            Ok(())
        };
        // A failure that ends the connection is received as a part, too.
        let _ = read(ui, client, &about.tools, wanted, max_pages, on_part).await;
        drop(parts);
        std::future::pending::<Infallible>().await
    };
    let mut failures = Vec::new();
    let writing = async {
        loop {
            let part = tokio::select! {
                biased;
                signal = about.stop.raised() => {
                    output.interrupt(signal);
                    break;
                }
                part = Waiting::new(ui, "waiting").wait(received.recv()) => part,
            };
            let Some(part) = part else { break };
            if let Part::Failed(_, failure) = &part {
                failures.push(about.endpoint.and_received((**failure).clone()));
            }
            if let Err(Stopped) = output.write(part).await {
                break;
            }
            turn.add_permits(1);
        }
        // Stops the reader.
        turn.close();
        drop(received);
        let _ = output.end_server().await;
        output.end().await
    };
    let outcome = tokio::select! {
        outcome = writing => outcome,
        never = reading => match never {},
    };
    match written(ui, outcome) {
        Exit::Done => report_failures(ui, failures),
        exit => Ok(exit),
    }
}

fn every(ui: &Ui, connect: &Connect, detail: Detail, max_pages: usize) -> Result<Exit, Failure> {
    read_each(ui, connect, &ALL, max_pages, true, async |servers, stop| {
        let mut output = Output::new(ui, detail, true);
        let mut failures = Vec::new();
        for server in servers {
            if let Err(Stopped) = one_of_several(ui, &mut output, server, &mut failures, stop).await {
                break;
            }
        }
        let outcome = output.end().await;
        let stopped = outcome.is_err();
        let exit = written(ui, outcome);
        let failed = report_server_failures(ui, &failures);
        match (stopped, exit) {
            (true, exit) => ControlFlow::Break(exit),
            (false, Exit::Done) => ControlFlow::Continue(failed),
            (false, exit) => ControlFlow::Continue(exit),
        }
    })
}

/// Shows what one of several servers has.
async fn one_of_several(
    ui: &Ui,
    output: &mut Output<'_>,
    mut server: ServerOutput<ServerPart>,
    failures: &mut Vec<(String, Failure)>,
    stop: &Stop,
) -> Result<(), Stopped> {
    let name = server.name.clone();
    let mut has_begun = false;
    let mut has_failed = false;
    loop {
        let part = tokio::select! {
            biased;
            signal = stop.raised() => return interrupted(output, has_begun, signal).await,
            part = server.next(ui) => part,
        };
        let Some(part) = part else { break };
        match part {
            ServerPart::Facts(facts) => {
                has_begun = true;
                output.begin_server(Some(&name), *facts);
            }
            ServerPart::List(part) => {
                if let Part::Failed(_, failure) = &part {
                    has_failed = true;
                    failures.push((name.clone(), (**failure).clone()));
                }
                output.write(part).await?;
            }
        }
    }
    let outcome = tokio::select! {
        biased;
        signal = stop.raised() => return interrupted(output, has_begun, signal).await,
        outcome = server.outcome(ui) => outcome,
    };
    if has_begun {
        output.end_server().await?;
    }
    if let Err(failure) = outcome {
        if !has_begun {
            output.absent_server(&name, &failure).await?;
        }
        // The outcome is the same failure, with what is known about the end of the connection.
        if has_failed {
            failures.pop();
        }
        failures.push((name, failure));
    }
    Ok(())
}

/// Ends the output at a signal, first that of the server that has begun.
async fn interrupted(output: &mut Output<'_>, has_begun: bool, signal: Signal) -> Result<(), Stopped> {
    output.interrupt(signal);
    if has_begun {
        output.end_server().await?;
    }
    Err(Stopped)
}
