//! `mcpjoin validate`: checks servers, or a client, against the rules of the specification.

mod baseline;
mod calls;
mod client;
mod compatibility;
mod examine;
mod findings;
mod json;
mod junit;
mod openers;
mod report;
mod sarif;
mod text;

use mcpjoin_rules::{Chapter, Level, Selection, rules};

use self::baseline::Baseline;
use self::examine::Options;
use self::report::{Document, Examination, RuleResults, Server};
use self::text::Extent;
use super::{refuse_orchestrator, refuse_trace, targets_of, written};
use crate::args::{Format, Validate};
use crate::config;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::target::{self, Target};
use crate::ui::Ui;

/// Examines the servers and applies the rules. `escaped`: `--` stood before the first word.
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
            (true, _) => "--eras prints a table, as text or JSON only",
            (_, true) => "--compatibility prints a table, as text or JSON only",
            _ => "",
        };
        if !problem.is_empty() {
            return Err(Failure::usage(problem, "leave out --format"));
        }
    }
    let selected = select(ui, &mut args, escaped)?;
    let baseline = match &args.baseline {
        Some(path) => Some(Baseline::read(path, args.update_baseline)?),
        None => None,
    };
    let options = Options::new(&args, selection);
    Ok(examine::all(ui, &selected.targets, options, async |servers| {
        let least = if args.strict { Level::Should } else { Level::Must };
        let document = Document { servers, several: selected.several, least, baseline: None };
        print_report(ui, &args, document, baseline).await
    }))
}

/// The selected servers.
struct Selected {
    targets: Vec<Target>,
    /// More than one was named, or a whole configuration.
    several: bool,
}

/// The servers in the order of the command line. `escaped`: `--` stood before the first word.
fn select(ui: &Ui, args: &mut Validate, escaped: bool) -> Result<Selected, Failure> {
    let words = std::mem::take(&mut args.words);
    let also = std::mem::take(&mut args.also);
    if words.is_empty()
        && also.is_empty()
        && args.connect.server().is_none()
        && args.connect.configured.is_named()
    {
        return Ok(Selected { targets: config::all(ui, &args.connect.configured, true)?, several: true });
    }
    let targets = targets_of(ui, "validate", &args.connect, words, also, escaped)?;
    targets.iter().try_for_each(|target| refuse_orchestrator(target, "validate"))?;
    let several = targets.len() > 1;
    if several {
        refuse_trace(&args.connect, "several are named")?;
    }
    Ok(Selected { targets, several })
}

/// Prints the rules. Examines no server.
fn book(ui: &Ui, args: &Validate, selection: &Selection) -> Result<Exit, Failure> {
    if !args.words.is_empty() || !args.also.is_empty() || args.connect.server().is_some() {
        return Err(Failure::usage("--rules takes no server", "mcpjoin validate --rules"));
    }
    let selected = rules().filter(|rule| selection.has(rule));
    let text = match args.form() {
        Format::Text => text::book(selected),
        Format::Json => json::book(selected),
        Format::Sarif | Format::Junit => {
            let problem = "--rules prints text or JSON only";
            return Err(Failure::usage(problem, "mcpjoin validate --rules --json"));
        }
    };
    Ok(written(ui, ui.result(&text)))
}

/// Prints the report.
async fn print_report(ui: &Ui, args: &Validate, mut document: Document, baseline: Option<Baseline>) -> Exit {
    let mut unwritten = None;
    if let (Some(baseline), Some(path)) = (baseline, &args.baseline) {
        baseline.compare(path, &mut document);
        if args.update_baseline {
            unwritten = update(ui, baseline, path, &mut document);
        }
    }
    // The failure of a single server is printed as for every verb. The JSON document on several servers contains it.
    if !(document.several && args.form() == Format::Json) {
        document.servers.iter().filter_map(Server::failure).for_each(|it| ui.failure(it));
    }
    let missing = warn_calls(ui, &document);
    let alone = !document.several && document.servers.iter().all(|server| server.outcome.is_err());
    let text = match args.form() {
        Format::Text | Format::Json if alone => String::new(),
        _ => render(ui, args, &document),
    };
    let exit =
        document.servers.iter().map(|server| exit(server, document.least)).max_by_key(|exit| exit.code());
    let is_page = args.form() == Format::Text;
    let outcome = ui
        .aside(move |ui| if is_page { ui.page_except(&text, findings::is_message) } else { ui.result(&text) })
        .await;
    match (written(ui, outcome), unwritten) {
        (Exit::Done, Some(exit)) => exit,
        (Exit::Done, None) => {
            let exits = exit.into_iter().chain(missing);
            exits.max_by_key(|exit| exit.code()).unwrap_or(Exit::Done)
        }
        (exit, _) => exit,
    }
}

/// Warns about calls of `--call` that did not do what was intended. Returns an exit code if no server has one of the
/// tools.
fn warn_calls(ui: &Ui, document: &Document) -> Option<Exit> {
    let checked = || {
        document.servers.iter().filter_map(|server| match &server.outcome {
            Ok(Examination::Rules(checked)) => Some((server, checked)),
            _ => None,
        })
    };
    for (server, checked) in checked() {
        let of = if document.several { format!("{}: ", server.label) } else { String::new() };
        for note in &checked.calls {
            ui.warning(&format!("{of}--call {}: {}", note.tool, note.problem));
        }
    }
    let mut wanted = checked().flat_map(|(_, checked)| &checked.calls).filter(|note| note.missing);
    let nowhere = |tool: &str| {
        checked().all(|(_, checked)| checked.calls.iter().any(|note| note.missing && note.tool == tool))
    };
    wanted.any(|note| nowhere(&note.tool)).then_some(Exit::Usage)
}

/// The report in the selected format.
fn render(ui: &Ui, args: &Validate, document: &Document) -> String {
    match args.form() {
        Format::Text => {
            let extent = match (args.output.quiet, ui.verbosity()) {
                (true, _) => Extent::Verdict,
                (false, 0) => Extent::Findings,
                (false, _) => Extent::All,
            };
            text::document(ui, document, extent)
        }
        Format::Json => json::document(ui, document),
        Format::Sarif => sarif::document(ui, document),
        Format::Junit => junit::document(ui, document),
    }
}

/// Writes the baseline, after which all findings are known. Returns the exit code of a failure.
fn update(ui: &Ui, baseline: Baseline, path: &std::path::Path, document: &mut Document) -> Option<Exit> {
    match baseline.update(path, document) {
        Ok(count) => {
            let file = target::shown(path.as_os_str());
            let stale = document.baseline.as_mut().map(|compared| std::mem::take(&mut compared.stale));
            let gone = stale.map_or(0, |stale| stale.len());
            ui.note(&format!("{count} findings written to {file}, {gone} removed"));
            for server in &mut document.servers {
                if let Ok(Examination::Rules(checked)) = &mut server.outcome {
                    checked.know_all();
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

/// The exit code of one server.
fn exit(server: &Server, least: Level) -> Exit {
    match &server.outcome {
        Ok(Examination::Rules(checked)) if checked.has_failed(least) => Exit::Faults,
        Ok(Examination::Rules(RuleResults { unauthorized: Some(failure), .. })) => failure.exit,
        Ok(Examination::Openers(rows)) if !rows.iter().any(openers::Row::is_open) => Exit::Connection,
        Ok(_) => Exit::Done,
        Err(failure) => failure.exit,
    }
}
