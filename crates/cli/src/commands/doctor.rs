//! `mcpjoin doctor`: what is wrong with a server. The library examines; here it is shown.

mod orchestra;
mod quic;

use std::fmt::Write;
use std::time::Duration;

use mcpjoin::doctor::{Doctor, Evidence, Finding, Outcome, QuicDoctor, Report, Step};
use mcpjoin::proto::session::ProcessExit;
use serde_json::{Map, Value, json};

use super::{misused, program, written};
use crate::args;
use crate::connect::{Plan, Signals, with_plan};
use crate::exit::Exit;
use crate::failure::{Failure, Phase, seconds};
use crate::target;
use crate::ui::{BAD, FAINT, HEADING, Ui};
use crate::visible;

/// Examines the server. `escaped`: `--` stood before the first word.
pub(crate) fn run(ui: &Ui, args: args::Doctor, escaped: bool) -> Result<Exit, Failure> {
    if let Some(address) = orchestra::address(&args, escaped) {
        return orchestra::run(ui, &args, &address);
    }
    orchestra::refuse(&args)?;
    let invocation = target::without_operands("doctor", args.connect.server.as_deref(), args.words, escaped)
        .map_err(misused)?;
    invocation.notes.iter().for_each(|note| ui.note(note));
    Ok(with_plan(ui, &invocation.target, &args.connect, async |plan| examine(plan, ui).await))
}

async fn examine(plan: Plan, ui: &Ui) -> Exit {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            let failure = Failure::system(Phase::Spawn, &error);
            ui.failure(&failure);
            return failure.exit;
        }
    };
    if let Some(connect) = plan.way.quic() {
        let doctor = QuicDoctor::new(connect.clone(), plan.client);
        return quic::examine(ui, &plan.shown, doctor, &mut signals).await;
    }
    let command = match program(&plan.way) {
        Ok(command) => command,
        Err(failure) => {
            ui.failure(&failure);
            return failure.exit;
        }
    };
    let child = command.handle();
    let shown = ui.clone();
    let doctor = Doctor::new(command, plan.client).on_phase(move |phase| {
        if shown.has_line() {
            shown.line(&format!("{phase} ..."));
        }
    });
    // Dropped by the signal, it begins to end what it has started.
    let report = tokio::select! {
        biased;
        signal = signals.next() => Err(signal),
        report = doctor.examine() => Ok(report),
    };
    let report = match report {
        Ok(report) => report,
        Err(signal) => {
            ui.line_over();
            tokio::select! {
                biased;
                _ = signals.next() => {}
                _ = child.ended() => {}
            }
            return Exit::Signal(signal);
        }
    };
    ui.line_over();
    // What a server wrote to standard error may hold what it was told.
    let text = if ui.json {
        let mut document = document(&plan.shown, &report);
        hide(ui, &mut document, false);
        visible::json(&document.to_string())
    } else {
        ui.hidden(&page(&report)).into_owned()
    };
    let outcome = tokio::select! {
        biased;
        signal = signals.next() => return Exit::Signal(signal),
        outcome = ui.aside(move |ui| ui.page(&text)) => outcome,
    };
    match written(ui, outcome) {
        Exit::Done if !report.is_healthy() => Exit::Faults,
        exit => exit,
    }
}

// ---- for a person ----

/// A line for each phase, then what is wrong.
fn page(report: &Report) -> String {
    let mut out = String::new();
    for step in &report.steps {
        line(&mut out, step);
    }
    for note in &report.notes {
        let _ = writeln!(out, "{FAINT}{:<20}{FAINT:#} {}", "note", visible::line(note));
    }
    // A finding that shows standard error shows it all.
    if !report.findings.iter().any(|finding| !finding.evidence.stderr.is_empty()) {
        lines(&mut out, "stderr", 20, &report.stderr);
    }
    out.push('\n');
    let count = report.findings.len();
    for (place, finding) in report.findings.iter().enumerate() {
        let which = if count == 1 { "fault:".to_owned() } else { format!("fault {} of {count}:", place + 1) };
        fault(&mut out, &which, finding);
        out.push('\n');
    }
    let verdict = if report.is_healthy() {
        format!("{HEADING}no fault found{HEADING:#}")
    } else {
        format!("{BAD}{count} {} found{BAD:#}", if count == 1 { "fault" } else { "faults" })
    };
    let _ = writeln!(out, "{verdict}: {}", figures(report));
    out
}

fn line(out: &mut String, step: &Step) {
    let took = step.took.map_or_else(|| "-".to_owned(), seconds);
    let (mark, end) = match step.outcome {
        Outcome::Failed => (format!("{BAD}"), format!("{BAD:#}")),
        Outcome::NotRun(_) => (format!("{FAINT}"), format!("{FAINT:#}")),
        _ => (String::new(), String::new()),
    };
    let detail = match step.outcome {
        Outcome::NotRun(why) => format!("not run: {why}"),
        _ => visible::line(&step.detail).into_owned(),
    };
    let _ = writeln!(out, "{HEADING}{:<10}{HEADING:#} {took:>9} {mark}{detail}{end}", step.phase.as_str());
}

fn fault(out: &mut String, which: &str, finding: &Finding) {
    let _ = writeln!(
        out,
        "{BAD}{which}{BAD:#} {} {FAINT}({}){FAINT:#}",
        visible::line(&finding.seen),
        finding.id
    );
    let mut row = |label: &str, text: &str| {
        let _ = writeln!(out, "  {FAINT}{label:<8}{FAINT:#} {}", visible::line(text));
    };
    row("means", &finding.meaning);
    let Evidence { exit, error, violations, processes, .. } = &finding.evidence;
    if let Some(exit) = exit {
        row("ended", &exit.to_string());
    }
    if let Some(data) = error.as_ref().and_then(|error| error.data.as_ref()) {
        row("data", data.as_str());
    }
    for violation in violations.iter().skip(1) {
        row("also", &violation.to_string());
    }
    for process in processes {
        row("process", &format!("{} ({})", process.pid, process.name));
    }
    lines(out, "  stderr", 10, &finding.evidence.stderr);
    lines(out, "  stdout", 10, &finding.evidence.stdout);
    let _ = writeln!(out, "  {FAINT}{:<8}{FAINT:#} {}", "try", visible::line(&finding.advice));
}

/// What was found on a way without a process: an id, what was seen, what it means and what to do for each, and how many.
fn faults<'a>(out: &mut String, found: impl ExactSizeIterator<Item = (&'a str, &'a str, &'a str, &'a str)>) {
    let count = found.len();
    for (place, (id, seen, meaning, advice)) in found.enumerate() {
        let which = if count == 1 { "fault:".to_owned() } else { format!("fault {} of {count}:", place + 1) };
        let seen = visible::line(seen);
        let _ = writeln!(out, "{BAD}{which}{BAD:#} {seen} {FAINT}({id}){FAINT:#}");
        for (label, text) in [("means", meaning), ("try", advice)] {
            let _ = writeln!(out, "  {FAINT}{label:<8}{FAINT:#} {}", visible::line(text));
        }
        out.push('\n');
    }
    let _ = match count {
        0 => writeln!(out, "{HEADING}no fault found{HEADING:#}"),
        1 => writeln!(out, "{BAD}1 fault found{BAD:#}"),
        _ => writeln!(out, "{BAD}{count} faults found{BAD:#}"),
    };
}

/// Lines of the server's, with a label before the first.
fn lines(out: &mut String, label: &str, width: usize, lines: &[String]) {
    for (place, line) in lines.iter().enumerate() {
        let label = if place == 0 { label } else { "" };
        let _ = writeln!(out, "{FAINT}{label:<width$}{FAINT:#} {}", visible::line(line));
    }
}

/// `12 checks, 4 not run (why)`
fn figures(report: &Report) -> String {
    let plural = |count: usize| if count == 1 { "check" } else { "checks" };
    let mut out = format!("{} {}", report.checks_run(), plural(report.checks_run()));
    let mut reasons: Vec<&str> = Vec::new();
    let mut skipped = 0;
    for (_, why) in report.checks_not_run() {
        skipped += 1;
        if !reasons.contains(&why) {
            reasons.push(why);
        }
    }
    if skipped > 0 {
        let _ = write!(out, ", {skipped} not run ({})", reasons.join("; "));
    }
    out
}

// ---- for a program ----

/// All of it as one JSON object. What is not known is absent.
fn document(command: &str, report: &Report) -> Value {
    let outcome = |outcome: Outcome| match outcome {
        Outcome::Passed => "passed",
        Outcome::NotRun(_) => "notRun",
        _ => "failed",
    };
    let mut root = Map::new();
    root.insert("command".into(), json!(command));
    root.insert("healthy".into(), json!(report.is_healthy()));
    root.insert("elapsedMs".into(), json!(milliseconds(report.took)));
    let steps = report.steps.iter().map(|step| {
        let mut object = json!({
            "phase": step.phase.as_str(), "outcome": outcome(step.outcome), "detail": step.detail
        });
        if let Some(took) = step.took {
            object["elapsedMs"] = json!(milliseconds(took));
        }
        object
    });
    root.insert("phases".into(), steps.collect());
    let checks = report.checks.iter().map(|(check, how)| {
        let mut object = json!({ "check": check.as_str(), "outcome": outcome(*how) });
        if let Outcome::NotRun(why) = how {
            object["why"] = json!(why);
        }
        object
    });
    root.insert("checks".into(), checks.collect());
    root.insert("findings".into(), report.findings.iter().map(object).collect());
    root.insert("notes".into(), json!(report.notes));
    if !report.stderr.is_empty() {
        root.insert("stderr".into(), json!(report.stderr));
    }
    if let Some(peer) = &report.peer {
        root.insert("protocolVersion".into(), json!(peer.profile.version.as_str()));
        if let Some(info) = &peer.info {
            root.insert("serverInfo".into(), json!({ "name": info.name, "version": info.version }));
        }
    }
    let lists = report.lists.iter().map(|list| {
        let took = milliseconds(list.took);
        json!({ "method": list.method.as_str(), "items": list.items, "elapsedMs": took })
    });
    root.insert("lists".into(), lists.collect());
    Value::Object(root)
}

fn object(finding: &Finding) -> Value {
    let mut out = json!({
        "id": finding.id,
        "check": finding.check.as_str(),
        "phase": finding.phase.as_str(),
        "seen": finding.seen,
        "meaning": finding.meaning,
        "advice": finding.advice,
    });
    let Evidence { exit, stderr, stdout, error, violations, processes, .. } = &finding.evidence;
    match exit {
        Some(ProcessExit::Code(code)) => out["status"] = json!({ "code": code }),
        Some(ProcessExit::Signal(signal)) => out["status"] = json!({ "signal": signal }),
        None => {}
    }
    for (name, lines) in [("stderr", stderr), ("stdout", stdout)] {
        if !lines.is_empty() {
            out[name] = json!(lines);
        }
    }
    if let Some(error) = error {
        out["jsonrpc"] = json!({ "code": error.code, "message": error.message });
    }
    if !violations.is_empty() {
        out["violations"] = violations.iter().map(ToString::to_string).collect();
    }
    if !processes.is_empty() {
        let shown = |process: &mcpjoin::link::Survivor| json!({ "pid": process.pid, "name": process.name });
        out["processes"] = processes.iter().map(shown).collect();
    }
    out
}

/// The members whose text is not all ours.
const FREE: [&str; 10] =
    ["command", "detail", "seen", "meaning", "stderr", "stdout", "message", "violations", "name", "version"];

/// Takes what must not be shown out of what a server may have said. Nothing else is touched: a value that hides in a
/// word of ours would break the document.
fn hide(ui: &Ui, value: &mut Value, free: bool) {
    match value {
        Value::String(text) if free => *text = ui.hidden(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(|item| hide(ui, item, free)),
        Value::Object(members) => {
            for (name, member) in members {
                hide(ui, member, FREE.contains(&name.as_str()));
            }
        }
        _ => {}
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
