//! `mcpjoin validate URL`: a server that runs already is looked at over HTTP. Nothing of its surroundings is ours.

use std::time::Instant;

use mcpjoin::check::{Level, Selection, judge};
use mcpjoin::proto::Era;
use mcpjoin::validate::Validator;

use super::{failed, failure, text, told, validator};
use crate::args::Connect;
use crate::connect::Signals;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::secret;
use crate::target::{Http, shown};
use crate::ui::{Secrets, Ui};

/// Looks at the server, and judges it.
pub(super) fn run(
    ui: &Ui,
    server: &Http,
    connect: &Connect,
    selection: &Selection,
    least: Level,
) -> Result<Exit, Failure> {
    let word = server.to_string();
    // What a query holds may let somebody in.
    ui.hide(Secrets::new(&secret::values(&[word.clone().into()])));
    let shown = shown(word.as_ref());
    refuse(connect, &shown)?;
    let first = first(connect)?;
    let mut of = if server.sse { Validator::http_sse(&server.url) } else { Validator::http(&server.url) };
    if let Some(time) = connect.connect_timeout {
        of = of.connect_within(time);
    }
    let of = validator(ui, connect, of, first);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::system(Phase::Connect, &error))?;
    Ok(runtime.block_on(async {
        let began = Instant::now();
        let fail = |failure: Failure| failed(ui, failure.over_a_socket(), &shown, began);
        let mut signals = match Signals::listen() {
            Ok(signals) => signals,
            Err(error) => return fail(Failure::system(Phase::Connect, &error)),
        };
        let outcome = tokio::select! {
            biased;
            signal = signals.next() => Err(signal),
            outcome = of.run() => Ok(outcome),
        };
        ui.line_over();
        let trace = match outcome {
            Ok(Ok(trace)) => trace,
            Ok(Err(error)) => return fail(failure(error)),
            Err(signal) => return Exit::Signal(signal),
        };
        let report = judge(&trace, selection);
        let text = text(ui, &shown, &trace, &report, began.elapsed());
        told(ui, &mut signals, text, report.has_failed(least)).await
    }))
}

/// What is for a server that we start.
fn refuse(connect: &Connect, shown: &str) -> Result<(), Failure> {
    let of_a_child = [
        ("-e", !connect.env.is_empty()),
        ("--env-clean", connect.env_clean),
        ("--cwd", connect.cwd.is_some()),
    ];
    if let Some((option, _)) = of_a_child.iter().find(|(_, given)| *given) {
        let problem = format!("{option} is for a server that is run as a child, and {shown} runs already");
        return Err(Failure::usage(problem, format!("leave out {option}")));
    }
    if connect.trace.is_some() {
        let mut failure = Failure::usage(
            "not built yet in this version: --trace of a server that is looked at over HTTP",
            "leave out --trace: --json shows what was sent and received for each fault",
        );
        failure.id = "E_NOT_BUILT";
        return Err(failure);
    }
    Ok(())
}

/// What is asked first, by the options.
fn first(connect: &Connect) -> Result<Phase, Failure> {
    let era = connect.era.asked();
    let asked = connect.protocol_version.as_ref().and_then(|version| version.era());
    match (era, asked) {
        (Some(era), Some(asked)) if era != asked => Err(Failure::usage(
            "--era and --protocol-version ask for different eras",
            "leave out one of them",
        )),
        (era, asked) if era.or(asked) == Some(Era::Legacy) => Ok(Phase::Initialize),
        _ => Ok(Phase::Probe),
    }
}
