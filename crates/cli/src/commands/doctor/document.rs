//! A report for a program: one JSON object. What is not known is absent.

use std::fmt::Write;
use std::time::Duration;

use mcpjoin::doctor::{EnvironmentFinding, Evidence, Finding, Orchestrator, Outcome, Report};
use mcpjoin::proto::session::ProcessExit;
use mcpjoin::quic::CertificateFacts;
use serde_json::{Map, Value, json};

use crate::ui::Ui;

/// All of it. `target`: the command or the address. `surroundings`: what of the machine bears on it.
pub(super) fn of(target: &str, report: &Report, surroundings: &[EnvironmentFinding]) -> Value {
    let mut root = Map::new();
    root.insert("target".into(), json!(target));
    root.insert("healthy".into(), json!(report.is_healthy() && surroundings.is_empty()));
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
    root.insert("findings".into(), report.findings.iter().map(finding).collect());
    if !surroundings.is_empty() {
        root.insert("surroundings".into(), surroundings.iter().map(of_environment).collect());
    }
    root.insert("notes".into(), json!(report.notes));
    if !report.stderr.is_empty() {
        root.insert("stderr".into(), json!(report.stderr));
    }
    if !report.addresses.is_empty() {
        root.insert("addresses".into(), report.addresses.iter().map(ToString::to_string).collect());
    }
    if let Some(facts) = &report.certificate {
        root.insert("certificate".into(), certificate(facts));
    }
    if let Some(known) = &report.orchestrator {
        root.insert("orchestrator".into(), orchestrator(known));
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

/// One finding about the machine.
pub(super) fn of_environment(finding: &EnvironmentFinding) -> Value {
    json!({
        "id": finding.id,
        "check": finding.check.as_str(),
        "part": finding.check.part().as_str(),
        "seen": finding.seen,
        "meaning": finding.meaning,
        "advice": finding.advice,
    })
}

pub(super) const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::NotRun(_) => "notRun",
        _ => "failed",
    }
}

/// One finding.
pub(super) fn finding(finding: &Finding) -> Value {
    let mut out = json!({
        "id": finding.id,
        "check": finding.check.as_str(),
        "phase": finding.phase.as_str(),
        "seen": finding.seen,
        "meaning": finding.meaning,
        "advice": finding.advice,
    });
    let Evidence { exit, body, requests, error, violations, processes, .. } = &finding.evidence;
    let Evidence { stderr, stdout, received, .. } = &finding.evidence;
    match exit {
        Some(ProcessExit::Code(code)) => out["status"] = json!({ "code": code }),
        Some(ProcessExit::Signal(signal)) => out["status"] = json!({ "signal": signal }),
        None => {}
    }
    for (name, lines) in
        [("stderr", stderr), ("stdout", stdout), ("received", received), ("requests", requests)]
    {
        if !lines.is_empty() {
            out[name] = json!(lines);
        }
    }
    if let Some(body) = body {
        out["body"] = json!(body);
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

fn certificate(facts: &CertificateFacts) -> Value {
    let (from, to) = facts.validity();
    json!({
        "subject": facts.subject,
        "issuer": facts.issuer,
        "names": facts.names,
        "notBefore": from,
        "notAfter": to,
        "pin": pin(facts),
    })
}

/// The key of a certificate, as `--pin` takes it.
pub(super) fn pin(facts: &CertificateFacts) -> String {
    facts.key_hash.iter().fold("sha256:".to_owned(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn orchestrator(known: &Orchestrator) -> Value {
    let mut root = Map::new();
    let files = known.certificates.files.iter().map(|file| {
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
    if let Some(name) = &known.name {
        root.insert("name".into(), json!(name));
    }
    if let Some(health) = &known.health {
        let status = health.status().as_str_name();
        let health = json!({ "status": status, "message": health.message, "details": health.details });
        root.insert("health".into(), health);
    }
    let mut names: Vec<&str> = known.tools.iter().map(|tool| tool.name.as_str()).collect();
    names.sort_unstable();
    root.insert("tools".into(), json!(names));
    Value::Object(root)
}

/// The members whose text is not all ours.
const FREE: [&str; 22] = [
    "target",
    "detail",
    "seen",
    "meaning",
    "advice",
    "stderr",
    "stdout",
    "received",
    "requests",
    "body",
    "message",
    "violations",
    "name",
    "version",
    "notes",
    "details",
    "tools",
    "subject",
    "issuer",
    "names",
    "path",
    "problem",
];

/// Takes what must not be shown out of what a server may have said. Nothing else is touched: a value that hides in a
/// word of ours would break the document.
pub(super) fn hide(ui: &Ui, value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| hide(ui, item)),
        Value::Object(members) => {
            for (name, member) in members {
                if FREE.contains(&name.as_str()) {
                    ui.hide_in(member);
                } else {
                    hide(ui, member);
                }
            }
        }
        _ => {}
    }
}

pub(super) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
