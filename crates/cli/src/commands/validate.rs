//! `mcpjoin validate`: is this server right? Are these?

mod baseline;
mod book;
mod calls;
mod client;
mod compatibility;
mod fingerprint;
mod fold;
mod json;
mod junit;
mod look;
mod openers;
mod page;
mod refusal;
mod report;
mod sarif;
mod targets;

use mcpjoin::check::{Chapter, Level, Selection, rules};

use self::baseline::Baseline;
use self::look::Look;
use self::report::{Document, Judged, Seen, Server};
use super::written;
use crate::args::{Format, Validate};
use crate::connect::{Signals, with_each_plan};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::ui::Ui;

/// Looks at the servers, and judges them. `escaped`: `--` stood before the first word.
pub(crate) fn run(ui: &Ui, mut args: Validate, escaped: bool) -> Result<Exit, Failure> {
    if args.client.client {
        return client::run(ui, &args, escaped);
    }
    let only = args.rule.iter().map(String::as_str);
    let selection = Selection::new(only, args.skip.iter().map(String::as_str)).map_err(|error| {
        let chapters = Chapter::ALL.map(Chapter::as_str).join(", ");
        let hint = format!("mcpjoin validate --rules shows the rules; the chapters are {chapters}");
        Failure::usage(error.to_string(), hint)
    })?;
    if args.rules {
        return book(ui, &args, &selection);
    }
    if matches!(args.form(), Format::Sarif | Format::Junit) {
        let problem = match (args.eras, args.compatibility) {
            (true, _) => "--eras shows a table and judges nothing: it is printed as text or as JSON",
            (_, true) => "--compatibility shows a table: it is printed as text or as JSON",
            _ => "",
        };
        if !problem.is_empty() {
            return Err(Failure::usage(problem, "leave out --format"));
        }
    }
    let named = targets::named(ui, &mut args, escaped)?;
    let baseline = match &args.baseline {
        Some(path) => Some(Baseline::read(path, args.update_baseline)?),
        None => None,
    };
    let look = Look::new(&args, selection);
    Ok(with_each_plan(ui, &named.targets, &args.connect, async |plans| {
        let mut signals = match Signals::listen() {
            Ok(signals) => signals,
            Err(error) => {
                let failure = Failure::system(Phase::Spawn, &error);
                ui.failure(&failure);
                return failure.exit;
            }
        };
        let servers = match look::all(ui, &named.targets, plans, &look, &mut signals).await {
            Ok(servers) => servers,
            Err(signal) => return Exit::Signal(signal),
        };
        let least = if args.strict { Level::Should } else { Level::Must };
        let document = Document { servers, several: named.several, least, baseline: None };
        told(ui, &args, document, baseline, &mut signals).await
    }))
}

/// The rules, without a server.
fn book(ui: &Ui, args: &Validate, selection: &Selection) -> Result<Exit, Failure> {
    if !args.words.is_empty() || !args.also.is_empty() || args.connect.server.is_some() {
        return Err(Failure::usage("--rules looks at no server", "mcpjoin validate --rules"));
    }
    let selected = rules().filter(|rule| selection.has(rule));
    let text = match args.form() {
        Format::Text => book::page(selected),
        Format::Json => book::document(selected),
        Format::Sarif | Format::Junit => {
            let problem = "--rules is printed as text or as JSON";
            return Err(Failure::usage(problem, "mcpjoin validate --rules --json"));
        }
    };
    Ok(written(ui, ui.result(&text)))
}

/// Prints what was seen.
async fn told(
    ui: &Ui,
    args: &Validate,
    mut document: Document,
    baseline: Option<Baseline>,
    signals: &mut Signals,
) -> Exit {
    let mut unwritten = None;
    if let (Some(baseline), Some(path)) = (baseline, &args.baseline) {
        baseline.compare(path, &mut document);
        if args.update_baseline {
            unwritten = update(ui, baseline, path, &mut document);
        }
    }
    // One that stands alone is told as every failure is; of several the document says it, for a program.
    if !(document.several && args.form() == Format::Json) {
        document.servers.iter().filter_map(Server::failure).for_each(|it| ui.failure(it));
    }
    let missing = calls_told(ui, &document);
    let alone = !document.several && document.servers.iter().all(|server| server.seen.is_err());
    let text = match args.form() {
        Format::Text | Format::Json if alone => String::new(),
        _ => rendered(ui, args, &document),
    };
    let exit =
        document.servers.iter().map(|server| exit(server, document.least)).max_by_key(|exit| exit.code());
    let is_page = args.form() == Format::Text;
    let outcome = tokio::select! {
        biased;
        signal = signals.next() => return Exit::Signal(signal),
        outcome = ui.aside(move |ui| if is_page { ui.page(&text) } else { ui.result(&text) }) => outcome,
    };
    match (written(ui, outcome), unwritten) {
        (Exit::Done, Some(exit)) => exit,
        (Exit::Done, None) => {
            let exits = exit.into_iter().chain(missing);
            exits.max_by_key(|exit| exit.code()).unwrap_or(Exit::Done)
        }
        (exit, _) => exit,
    }
}

/// Tells which of the calls that were asked for show less than they were meant to. What comes of that: a tool that no
/// server has was not meant.
fn calls_told(ui: &Ui, document: &Document) -> Option<Exit> {
    let judged = || {
        document.servers.iter().filter_map(|server| match &server.seen {
            Ok(Seen::Judged(judged)) => Some((server, judged)),
            _ => None,
        })
    };
    for (server, judged) in judged() {
        let of = if document.several { format!("{}: ", server.label) } else { String::new() };
        for note in &judged.calls {
            ui.warning(&format!("{of}--call {}: {}", note.tool, note.problem));
        }
    }
    let mut wanted = judged().flat_map(|(_, judged)| &judged.calls).filter(|note| note.missing);
    let nowhere = |tool: &str| {
        judged().all(|(_, judged)| judged.calls.iter().any(|note| note.missing && note.tool == tool))
    };
    wanted.any(|note| nowhere(&note.tool)).then_some(Exit::Usage)
}

/// The report, in the form that was asked for.
fn rendered(ui: &Ui, args: &Validate, document: &Document) -> String {
    match args.form() {
        Format::Text => page::document(ui, document, ui.verbosity() > 0),
        Format::Json => json::document(ui, document),
        Format::Sarif => sarif::document(ui, document),
        Format::Junit => junit::document(ui, document),
    }
}

/// Writes the baseline afresh: everything that was found is known then. Why not, where that fails.
fn update(ui: &Ui, baseline: Baseline, path: &std::path::Path, document: &mut Document) -> Option<Exit> {
    match baseline.update(path, document) {
        Ok(count) => {
            let file = crate::target::shown(path.as_os_str());
            let stale = document.baseline.as_mut().map(|compared| std::mem::take(&mut compared.stale));
            let gone = stale.map_or(0, |stale| stale.len());
            ui.note(&format!("{count} findings are written to {file}, {gone} are taken out"));
            for server in &mut document.servers {
                if let Ok(Seen::Judged(judged)) = &mut server.seen {
                    judged.know_all();
                }
            }
            None
        }
        Err(failure) => {
            ui.failure(&failure);
            Some(failure.exit)
        }
    }
}

/// How it went with one of them.
fn exit(server: &Server, least: Level) -> Exit {
    match &server.seen {
        Ok(Seen::Judged(judged)) if judged.has_failed(least) => Exit::Faults,
        Ok(Seen::Judged(Judged { kept_out: Some(failure), .. })) => failure.exit,
        Ok(Seen::Openers(rows)) if !rows.iter().any(openers::Row::is_open) => Exit::Connection,
        Ok(_) => Exit::Done,
        Err(failure) => failure.exit,
    }
}
