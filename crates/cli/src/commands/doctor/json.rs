//! The report for a program: one JSON object, its members in the order of their names. Unknown values are absent.

use std::fmt::Write;
use std::time::Duration;

use mcpjoin::proto::session::ProcessExit;
use mcpjoin_diagnostics::doctor::{EnvironmentFinding, Finding, Orchestrator, Outcome, Report};
use mcpjoin_quic::endpoint::CertificateFacts;
use serde_json::{Value, json};

use crate::commands::{filled, present};
use crate::ui::Ui;

/// The report. `target`: the command or the address. `surroundings`: faults of the machine that may be the cause.
pub(super) fn of(target: &str, report: &Report, surroundings: &[EnvironmentFinding]) -> Value {
    let info = report.peer.as_ref().and_then(|peer| peer.info.as_ref());
    let phases = report.steps.iter().map(|step| {
        present(json!({
            "phase": step.phase.as_str(),
            "outcome": outcome(step.outcome),
            "detail": step.detail,
            "elapsedMs": step.took.map(milliseconds),
        }))
    });
    let lists = report.lists.iter().map(|list| {
        json!({
            "method": list.method.as_str(),
            "items": list.items,
            "elapsedMs": milliseconds(list.took),
        })
    });
    let addresses: Vec<String> = report.addresses.iter().map(ToString::to_string).collect();
    present(json!({
        "target": target,
        "healthy": report.is_healthy() && surroundings.is_empty(),
        "elapsedMs": milliseconds(report.took),
        "phases": phases.collect::<Value>(),
        "checks": report.checks.iter().map(|(it, how)| check(it.as_str(), *how)).collect::<Value>(),
        "findings": report.findings.iter().map(finding).collect::<Value>(),
        "surroundings": filled(surroundings).map(machine_findings),
        "notes": report.notes,
        // The last lines of standard error.
        "stderr": filled(&report.stderr),
        "addresses": filled(&addresses),
        "certificate": report.certificate.as_ref().map(certificate),
        "orchestrator": report.orchestrator.as_deref().map(orchestrator),
        "protocolVersion": report.peer.as_ref().map(|peer| peer.profile.version.as_str()),
        "serverInfo": info.map(|info| json!({ "name": info.name, "version": info.version })),
        "lists": lists.collect::<Value>(),
    }))
}

/// A check and its outcome.
pub(super) fn check(check: &str, how: Outcome) -> Value {
    let why = if let Outcome::NotRun(why) = how { Some(why) } else { None };
    present(json!({ "check": check, "outcome": outcome(how), "why": why }))
}

/// Findings about the machine.
pub(super) fn machine_findings(findings: &[EnvironmentFinding]) -> Value {
    let document = |finding: &EnvironmentFinding| {
        json!({
            "id": finding.id,
            "check": finding.check.as_str(),
            "part": finding.check.part().as_str(),
            "seen": finding.seen,
            "meaning": finding.meaning,
            "advice": finding.advice,
        })
    };
    findings.iter().map(document).collect()
}

/// The outcome in documents.
pub(super) const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::NotRun(_) => "notRun",
        _ => "failed",
    }
}

/// A finding about a server, with its evidence.
fn finding(finding: &Finding) -> Value {
    let evidence = &finding.evidence;
    let violations: Vec<String> = evidence.violations.iter().map(ToString::to_string).collect();
    let status = evidence.exit.map(|exit| match exit {
        ProcessExit::Code(code) => json!({ "code": code }),
        ProcessExit::Signal(signal) => json!({ "signal": signal }),
    });
    let error = evidence.error.as_ref();
    let processes = evidence.processes.iter().map(|it| json!({ "pid": it.pid, "name": it.name }));
    present(json!({
        "id": finding.id,
        "check": finding.check.as_str(),
        "phase": finding.phase.as_str(),
        "seen": finding.seen,
        "meaning": finding.meaning,
        "advice": finding.advice,
        "status": status,
        "stderr": filled(&evidence.stderr),
        "stdout": filled(&evidence.stdout),
        "received": filled(&evidence.received),
        "requests": filled(&evidence.requests),
        "body": evidence.body,
        "jsonrpc": error.map(|error| json!({ "code": error.code, "message": error.message })),
        "violations": filled(&violations),
        // The processes that the server has started and not ended.
        "processes": filled(&processes.collect::<Vec<_>>()),
    }))
}

fn certificate(facts: &CertificateFacts) -> Value {
    let (not_before, not_after) = facts.validity();
    json!({
        "subject": facts.subject,
        "issuer": facts.issuer,
        "names": facts.names,
        "notBefore": not_before,
        "notAfter": not_after,
        "pin": pin(facts),
    })
}

/// The hash of the key of a certificate in the syntax of `--pin`.
pub(super) fn pin(facts: &CertificateFacts) -> String {
    facts.key_hash.iter().fold("sha256:".to_owned(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn orchestrator(known: &Orchestrator) -> Value {
    let certificates = known.certificates.files.iter().map(|file| {
        let mut document = json!({ "path": file.path.display().to_string() });
        if let Some(facts) = &file.facts {
            // The common name is null where the certificate has none.
            document["name"] = json!(facts.common_name);
            let (not_before, not_after) = facts.validity();
            document["notBefore"] = json!(not_before);
            document["notAfter"] = json!(not_after);
        }
        if let Some(problem) = &file.problem {
            document["problem"] = json!(problem);
        }
        document
    });
    let health = known.health.as_ref().map(|health| {
        let status = health.status().as_str_name();
        json!({ "status": status, "message": health.message, "details": health.details })
    });
    let mut tools: Vec<&str> = known.tools.iter().map(|tool| tool.name.as_str()).collect();
    tools.sort_unstable();
    present(json!({
        "certificates": certificates.collect::<Value>(),
        "name": known.name,
        "health": health,
        "tools": tools,
    }))
}

/// The members that may contain text of a server.
const TEXTS_OF_SERVERS: [&str; 22] = [
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

/// Hides secrets in text that a server may have sent. Other members are not touched: a secret that is part of our own
/// words would break the document.
pub(super) fn hide(ui: &Ui, value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| hide(ui, item)),
        Value::Object(members) => {
            for (name, member) in members {
                if TEXTS_OF_SERVERS.contains(&name.as_str()) {
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
