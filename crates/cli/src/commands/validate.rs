//! `mcpjoin validate`: is this server right?

mod page;

use std::time::{Duration, Instant};

use mcpjoin::check::{Chapter, Level, Report, Selection, Trace, judge, rules};
use mcpjoin::proto::session::CloseCause;
use mcpjoin::validate::{ValidateError, Validator};

use super::{misused, program, written};
use crate::args::{Connect, Validate};
use crate::connect::{Signals, Way, limits, refused, with_plan};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target;
use crate::ui::Ui;

/// Of what a server answered that is no message, so many characters are shown.
const GARBAGE: usize = 200;

/// Looks at the server, and judges it. `escaped`: `--` stood before the first word.
pub(crate) fn run(ui: &Ui, args: Validate, escaped: bool) -> Result<Exit, Failure> {
    let only = args.rule.iter().map(String::as_str);
    let selection = Selection::new(only, args.skip.iter().map(String::as_str)).map_err(|error| {
        let chapters = Chapter::ALL.map(Chapter::as_str).join(", ");
        let hint = format!("mcpjoin validate --rules shows the rules; the chapters are {chapters}");
        Failure::usage(error.to_string(), hint)
    })?;
    if args.rules {
        if !args.words.is_empty() || args.connect.server.is_some() {
            return Err(Failure::usage("--rules looks at no server", "mcpjoin validate --rules"));
        }
        let selected = rules().filter(|rule| selection.has(rule));
        let text = if ui.json { page::book_json(selected) } else { page::book(selected) };
        return Ok(written(ui, ui.result(&text)));
    }
    let invocation =
        target::without_operands("validate", args.connect.server.as_deref(), args.words, escaped)
            .map_err(misused)?;
    invocation.notes.iter().for_each(|note| ui.note(note));
    let least = if args.strict { Level::Should } else { Level::Must };
    Ok(with_plan(ui, &invocation.target, &args.connect, async |plan| {
        let began = Instant::now();
        let shown = plan.shown.clone();
        let mut signals = match Signals::listen() {
            Ok(signals) => signals,
            Err(error) => return failed(ui, Failure::system(Phase::Spawn, &error), &shown, began),
        };
        let child = plan.way.child();
        let fail = |failure: Failure| {
            let failure = if child.is_none() { failure.over_http() } else { failure };
            failed(ui, failure, &shown, began)
        };
        let of = match server(&plan.way) {
            Ok(of) => of,
            Err(failure) => return fail(failure),
        };
        let looking = validator(ui, &args.connect, of, plan.first).run();
        // Dropped by the signal, it ends what it has started.
        let outcome = tokio::select! {
            biased;
            signal = signals.next() => Err(signal),
            outcome = looking => Ok(outcome),
        };
        ui.line_over();
        let outcome = match outcome {
            Ok(outcome) => outcome,
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
        let trace = match outcome {
            Ok(trace) => trace,
            Err(error) => return fail(failure(error)),
        };
        let report = judge(&trace, &selection);
        let text = text(ui, &shown, &trace, &report, began.elapsed());
        told(ui, &mut signals, text, report.has_failed(least)).await
    }))
}

/// Prints the report. `failed`: what is in it is a fault.
async fn told(ui: &Ui, signals: &mut Signals, text: String, failed: bool) -> Exit {
    let outcome = tokio::select! {
        biased;
        signal = signals.next() => return Exit::Signal(signal),
        outcome = ui.aside(move |ui| ui.result(&text)) => outcome,
    };
    match written(ui, outcome) {
        Exit::Done if failed => Exit::Faults,
        exit => exit,
    }
}

fn text(ui: &Ui, shown: &str, trace: &Trace, report: &Report, took: Duration) -> String {
    let text = if ui.json {
        page::report_json(shown, trace, report)
    } else {
        page::report(shown, trace, report, took, ui.verbosity() > 0)
    };
    // A server's words stand in it.
    ui.hidden(&text).into_owned()
}

/// The server that is to be looked at.
fn server(way: &Way) -> Result<Validator, Failure> {
    let Some(connect) = way.http() else { return program(way).map(Validator::new) };
    let of = Validator::http(connect.clone());
    Ok(match way.trace() {
        Some(trace) => of.tapped(trace.tap()),
        None => of,
    })
}

/// How closely it is to be looked at.
fn validator(ui: &Ui, connect: &Connect, validator: Validator, first: Phase) -> Validator {
    let mut validator = validator.limits(limits(connect));
    if let Some(time) = connect.timeout {
        validator = validator.answer_within(time);
    }
    let (mut legacy, mut modern) = (connect.era.has_legacy(), connect.era.has_modern());
    if let Some(version) = &connect.protocol_version {
        if first == Phase::Initialize {
            validator = validator.legacy_version(version.clone());
            modern = false;
        } else {
            legacy = false;
        }
    }
    if !legacy {
        validator = validator.without_legacy();
    }
    if !modern {
        validator = validator.without_modern();
    }
    let (ui, mut number) = (ui.clone(), 0);
    validator.on_progress(move |progress| {
        if ui.has_line() {
            ui.line(&format!("run {}, {}: {}", progress.number, progress.run, progress.probe.as_str()));
        } else if number != progress.number {
            ui.detail(&format!("run {}: {}", progress.number, progress.run));
        }
        number = progress.number;
    })
}

fn failure(error: ValidateError) -> Failure {
    match error {
        ValidateError::Spawn(error) => Failure::spawn(&error),
        ValidateError::NoSession(failure) => {
            Failure::closed(&CloseCause::Opening(failure), Phase::Initialize)
        }
        ValidateError::Setup(error) => refused(&error),
        error @ ValidateError::Unreachable { .. } => {
            Failure::new("E_CONNECT", Exit::Connection, Phase::Connect, error.to_string())
                .hint("does a server listen there, and may you reach it?")
        }
        error @ ValidateError::Unauthorized { .. } => {
            Failure::new("E_AUTH", Exit::Authorization, Phase::Probe, error.to_string())
                .hint("say who you are: --header 'Authorization: Bearer ...', or --header @FILE; if you did, it is not accepted")
        }
        error @ ValidateError::Redirected { .. } => {
            Failure::new("E_NO_ENDPOINT", Exit::Connection, Phase::Probe, error.to_string())
                .hint("nothing was sent there: name that address if it is the right one")
        }
        ValidateError::NotMcp { status, ref head, .. } => {
            let (id, hint) = match status {
                429 | 500.. => ("E_LINK", "try again; see what the server itself says about it"),
                _ => (
                    "E_NO_ENDPOINT",
                    "is the path right? It is often /mcp, or /sse for the HTTP+SSE of 2024-11-05",
                ),
            };
            let mut failure = Failure::new(id, Exit::Connection, Phase::Probe, error.to_string()).hint(hint);
            if !head.is_empty() {
                failure.seen.garbage = Some(page::cut(head, GARBAGE));
            }
            failure
        }
        error => Failure::new("E_VALIDATE", Exit::Connection, Phase::Initialize, error.to_string()),
    }
}

fn failed(ui: &Ui, failure: Failure, shown: &str, began: Instant) -> Exit {
    let exit = failure.exit;
    ui.failure(&failure.with(shown, began.elapsed()));
    exit
}
