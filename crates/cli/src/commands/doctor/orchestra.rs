//! `mcpjoin doctor orchestra://host:port`: what is wrong with an orchestrator, or with our way to it.

use std::fmt::Write;

use mcpjoin::bridge::orchestra::certs::Certificates;
use mcpjoin::bridge::orchestra::wire::ToolDefinition;
use mcpjoin::doctor::{OrchestraDoctor, OrchestraReport, Outcome};
use serde_json::{Map, Value, json};

use super::{faults, milliseconds};
use crate::args::Doctor;
use crate::commands::written;
use crate::connect::{Signals, certificates_folder};
use crate::exit::Exit;
use crate::failure::{Failure, Phase, seconds};
use crate::target::shown;
use crate::ui::{BAD, FAINT, HEADING, Ui};
use crate::visible;

/// The address, where an orchestrator is what was named.
pub(super) fn address(args: &Doctor, escaped: bool) -> Option<String> {
    let [word] = &*args.words else { return None };
    let (scheme, address) = word.to_str()?.split_once("://")?;
    (!escaped && scheme.eq_ignore_ascii_case("orchestra")).then(|| address.to_owned())
}

/// What is for an orchestrator alone is refused for anything else.
pub(super) fn refuse(args: &Doctor) -> Result<(), Failure> {
    let given = [
        ("--certs-dir", args.connect.certs_dir.is_some()),
        ("--server-name", args.connect.server_name.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        Some((option, _)) => {
            let problem = format!("{option} is for an orchestrator (orchestra://host:port)");
            Err(Failure::usage(problem, format!("leave out {option}")))
        }
        None => Ok(()),
    }
}

/// Examines the orchestrator.
pub(super) fn run(ui: &Ui, args: &Doctor, address: &str) -> Result<Exit, Failure> {
    if address.is_empty() || address.contains(['/', '?', '#', '@']) {
        let word = args.words.first().map(|word| shown(word)).unwrap_or_default();
        return Err(Failure::usage(format!("{word} is no address"), "write orchestra://host:port"));
    }
    let connect = &args.connect;
    let of_others = [
        ("-e", !connect.env.is_empty()),
        ("--env-clean", connect.env_clean),
        ("--cwd", connect.cwd.is_some()),
        ("--header", !connect.header.is_empty()),
        ("--server", connect.server.is_some()),
        ("--trace", connect.trace.is_some()),
        ("--era", connect.era.asked().is_some()),
        ("--protocol-version", connect.protocol_version.is_some()),
        ("--max-message-size", connect.max_message_size.is_some()),
        ("--config", connect.configured.config.is_some()),
        ("--mcp-config", !connect.configured.mcp_config.is_empty()),
    ];
    if let Some((option, _)) = of_others.into_iter().find(|(_, given)| *given) {
        let problem = format!("{option} is for an MCP server, and an orchestrator is none");
        return Err(Failure::usage(problem, format!("leave out {option}")));
    }
    let directory = certificates_folder(args.connect.certs_dir.as_deref())?;
    let mut certificates = Certificates::in_directory(directory);
    if let Some(file) = &connect.ca {
        certificates = certificates.ca(file);
    }
    if let Some(name) = &args.connect.server_name {
        certificates = certificates.server_name(name);
    }
    let mut doctor = OrchestraDoctor::new(address, certificates);
    if let Some(time) = connect.connect_timeout {
        doctor = doctor.connect_timeout(time);
    }
    if let Some(time) = connect.timeout {
        doctor = doctor.answer_timeout(time);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::system(Phase::Connect, &error))?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(|error| Failure::system(Phase::Connect, &error))?;
        let report = tokio::select! {
            biased;
            signal = signals.next() => return Ok(Exit::Signal(signal)),
            report = doctor.examine() => report,
        };
        let healthy = report.is_healthy();
        let text = match ui.json {
            true => visible::json(&document(address, &report).to_string()),
            false => page(&report, ui.verbosity() > 0),
        };
        let outcome = tokio::select! {
            biased;
            signal = signals.next() => return Ok(Exit::Signal(signal)),
            outcome = ui.aside(move |ui| ui.page(&text)) => outcome,
        };
        Ok(match written(ui, outcome) {
            Exit::Done if !healthy => Exit::Faults,
            exit => exit,
        })
    })
}

// ---- for a person ----

/// A line for each part, the tools, then what is wrong.
fn page(report: &OrchestraReport, everything: bool) -> String {
    let mut out = String::new();
    for step in &report.steps {
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
        let _ = writeln!(out, "{HEADING}{:<12}{HEADING:#} {took:>9} {mark}{detail}{end}", step.part.as_str());
    }
    let mut row = |label: &str, text: &str| {
        let _ = writeln!(out, "{FAINT}{label:<22}{FAINT:#} {}", visible::line(text));
    };
    if everything {
        for file in &report.certificates.files {
            row("file", &certificate(file));
        }
    }
    for tool in names(&report.tools) {
        row("tool", tool);
    }
    for note in &report.notes {
        row("note", note);
    }
    out.push('\n');
    let findings = report.findings.iter();
    faults(&mut out, findings.map(|found| (found.id, &*found.seen, &*found.meaning, &*found.advice)));
    out
}

/// The names, as one list of them is in another order each time.
fn names(tools: &[ToolDefinition]) -> Vec<&str> {
    let mut names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    names.sort_unstable();
    names
}

fn certificate(file: &mcpjoin::bridge::orchestra::certs::CertificateFile) -> String {
    let path = file.path.display();
    match &file.facts {
        Some(facts) => {
            let name = facts.common_name.as_deref().unwrap_or("no name");
            let (from, to) = facts.validity();
            format!("{path}: {name}, from {from} to {to}")
        }
        None => path.to_string(),
    }
}

// ---- for a program ----

/// All of it as one JSON object. What is not known is absent.
fn document(address: &str, report: &OrchestraReport) -> Value {
    let mut root = Map::new();
    root.insert("address".into(), json!(format!("orchestra://{address}")));
    root.insert("healthy".into(), json!(report.is_healthy()));
    root.insert("elapsedMs".into(), json!(milliseconds(report.took)));
    let steps = report.steps.iter().map(|step| {
        let outcome = match step.outcome {
            Outcome::Passed => "passed",
            Outcome::NotRun(_) => "notRun",
            _ => "failed",
        };
        let mut object = json!({ "phase": step.part.as_str(), "outcome": outcome, "detail": step.detail });
        if let Some(took) = step.took {
            object["elapsedMs"] = json!(milliseconds(took));
        }
        object
    });
    root.insert("phases".into(), steps.collect());
    let files = report.certificates.files.iter().map(|file| {
        let mut object = json!({ "path": file.path.display().to_string() });
        if let Some(facts) = &file.facts {
            object["name"] = json!(facts.common_name);
            let (from, to) = facts.validity();
            (object["notBefore"], object["notAfter"]) = (json!(from), json!(to));
        }
        if let Some(problem) = &file.problem {
            object["problem"] = json!(problem);
        }
        object
    });
    root.insert("certificates".into(), files.collect());
    if let Some(peer) = &report.peer {
        root.insert("peer".into(), json!(peer));
    }
    if let Some(health) = &report.health {
        let status = health.status().as_str_name();
        let health = json!({ "status": status, "message": health.message, "details": health.details });
        root.insert("health".into(), health);
    }
    root.insert("tools".into(), json!(names(&report.tools)));
    root.insert("notes".into(), json!(report.notes));
    let findings = report.findings.iter().map(|finding| {
        json!({
            "id": finding.id,
            "phase": finding.part.as_str(),
            "seen": finding.seen,
            "meaning": finding.meaning,
            "advice": finding.advice,
        })
    });
    root.insert("findings".into(), findings.collect());
    Value::Object(root)
}
