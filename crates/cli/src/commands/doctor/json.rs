//! The report for a program: one JSON object, its members in the order of their names. Unknown values are absent.

use std::fmt::Write;
use std::time::Duration;

use mcpjoin::proto::session::ProcessExit;
use mcpjoin_diagnostics::doctor::{EnvironmentFinding, Finding, Orchestrator, Outcome, Report};
use mcpjoin_quic::endpoint::CertificateFacts;
use serde::Serialize;
use serde_json::Value;

use crate::commands::value_of;
use crate::ui::Ui;

/// The report on one server.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    /// The command or the address.
    target: &'a str,
    healthy: bool,
    elapsed_ms: u64,
    phases: Vec<Phase<'a>>,
    checks: Vec<JsonCheck>,
    findings: Vec<JsonFinding<'a>>,
    /// Faults of the machine that may be the cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    surroundings: Vec<JsonMachineFinding<'a>>,
    notes: &'a [String],
    /// The last lines of standard error.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stderr: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<String>,
    /// The certificate of the server, over QUIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<Certificate<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    orchestrator: Option<JsonOrchestrator<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_info: Option<ServerInfo<'a>>,
    lists: Vec<List<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Phase<'a> {
    phase: &'a str,
    /// `passed`, `failed` or `notRun`.
    outcome: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    elapsed_ms: Option<u64>,
}

/// A check and its outcome.
#[derive(Serialize)]
pub(super) struct JsonCheck {
    check: &'static str,
    /// `passed`, `failed` or `notRun`.
    outcome: &'static str,
    /// Why it was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

/// A finding about a server, with its evidence.
#[derive(Serialize)]
struct JsonFinding<'a> {
    id: &'a str,
    check: &'a str,
    phase: &'a str,
    seen: &'a str,
    meaning: &'a str,
    advice: &'a str,
    /// How the process ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stderr: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stdout: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    received: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    requests: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    /// The JSON-RPC error of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    jsonrpc: Option<JsonRpcError<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    violations: Vec<String>,
    /// The processes that the server has started and not ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    processes: Vec<Process<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Status {
    Code(i32),
    Signal(i32),
}

#[derive(Serialize)]
struct JsonRpcError<'a> {
    code: i64,
    message: &'a str,
}

#[derive(Serialize)]
struct Process<'a> {
    pid: u32,
    name: &'a str,
}

/// A finding about the machine.
#[derive(Serialize)]
pub(super) struct JsonMachineFinding<'a> {
    id: &'a str,
    check: &'a str,
    part: &'a str,
    seen: &'a str,
    meaning: &'a str,
    advice: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Certificate<'a> {
    subject: &'a str,
    issuer: &'a str,
    names: &'a [String],
    not_before: String,
    not_after: String,
    /// The hash of the key in the syntax of `--pin`.
    pin: String,
}

#[derive(Serialize)]
struct JsonOrchestrator<'a> {
    /// The files in the directory of certificates.
    certificates: Vec<CertificateFile<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<Value>,
    tools: Vec<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CertificateFile<'a> {
    path: String,
    /// The common name: null where the certificate has none, and absent where the file has no certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_after: Option<String>,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
}

#[derive(Serialize)]
struct ServerInfo<'a> {
    name: &'a str,
    version: &'a str,
}

/// A list of the server, and its number of items.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    method: &'a str,
    items: usize,
    elapsed_ms: u64,
}

/// The report. `target`: the command or the address. `surroundings`: faults of the machine that may be the cause.
pub(super) fn of(target: &str, report: &Report, surroundings: &[EnvironmentFinding]) -> Value {
    let info = report.peer.as_ref().and_then(|peer| peer.info.as_ref());
    let document = Document {
        target,
        healthy: report.is_healthy() && surroundings.is_empty(),
        elapsed_ms: milliseconds(report.took),
        phases: report
            .steps
            .iter()
            .map(|step| Phase {
                phase: step.phase.as_str(),
                outcome: outcome(step.outcome),
                detail: &step.detail,
                elapsed_ms: step.took.map(milliseconds),
            })
            .collect(),
        checks: report.checks.iter().map(|(check, how)| JsonCheck::new(check.as_str(), *how)).collect(),
        findings: report.findings.iter().map(finding).collect(),
        surroundings: surroundings.iter().map(machine_finding).collect(),
        notes: &report.notes,
        stderr: &report.stderr,
        addresses: report.addresses.iter().map(ToString::to_string).collect(),
        certificate: report.certificate.as_ref().map(certificate),
        orchestrator: report.orchestrator.as_deref().map(orchestrator),
        protocol_version: report.peer.as_ref().map(|peer| peer.profile.version.as_str()),
        server_info: info.map(|info| ServerInfo { name: &info.name, version: &info.version }),
        lists: report
            .lists
            .iter()
            .map(|list| List {
                method: list.method.as_str(),
                items: list.items,
                elapsed_ms: milliseconds(list.took),
            })
            .collect(),
    };
    value_of(&document)
}

impl JsonCheck {
    pub(super) const fn new(check: &'static str, how: Outcome) -> Self {
        let why = if let Outcome::NotRun(why) = how { Some(why) } else { None };
        Self { check, outcome: outcome(how), why }
    }
}

/// A finding about the machine.
pub(super) fn machine_finding(finding: &EnvironmentFinding) -> JsonMachineFinding<'_> {
    JsonMachineFinding {
        id: finding.id,
        check: finding.check.as_str(),
        part: finding.check.part().as_str(),
        seen: &finding.seen,
        meaning: &finding.meaning,
        advice: &finding.advice,
    }
}

/// The outcome in documents.
pub(super) const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::NotRun(_) => "notRun",
        _ => "failed",
    }
}

fn finding(finding: &Finding) -> JsonFinding<'_> {
    let evidence = &finding.evidence;
    JsonFinding {
        id: finding.id,
        check: finding.check.as_str(),
        phase: finding.phase.as_str(),
        seen: &finding.seen,
        meaning: &finding.meaning,
        advice: &finding.advice,
        status: evidence.exit.map(|exit| match exit {
            ProcessExit::Code(code) => Status::Code(code),
            ProcessExit::Signal(signal) => Status::Signal(signal),
        }),
        stderr: &evidence.stderr,
        stdout: &evidence.stdout,
        received: &evidence.received,
        requests: &evidence.requests,
        body: evidence.body.as_deref(),
        jsonrpc: evidence
            .error
            .as_ref()
            .map(|error| JsonRpcError { code: error.code, message: &error.message }),
        violations: evidence.violations.iter().map(ToString::to_string).collect(),
        processes: evidence.processes.iter().map(|it| Process { pid: it.pid, name: &it.name }).collect(),
    }
}

fn certificate(facts: &CertificateFacts) -> Certificate<'_> {
    let (not_before, not_after) = facts.validity();
    Certificate {
        subject: &facts.subject,
        issuer: &facts.issuer,
        names: &facts.names,
        not_before,
        not_after,
        pin: pin(facts),
    }
}

/// The hash of the key of a certificate in the syntax of `--pin`.
pub(super) fn pin(facts: &CertificateFacts) -> String {
    facts.key_hash.iter().fold("sha256:".to_owned(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn orchestrator(known: &Orchestrator) -> JsonOrchestrator<'_> {
    let certificates = known.certificates.files.iter().map(|file| {
        let facts = file.facts.as_ref();
        let (not_before, not_after) = facts.map(|facts| facts.validity()).unzip();
        CertificateFile {
            path: file.path.display().to_string(),
            name: facts.map(|facts| facts.common_name.as_deref()),
            not_before,
            not_after,
            problem: file.problem.as_deref(),
        }
    });
    let health = known.health.as_ref().map(|health| {
        let status = health.status().as_str_name();
        serde_json::json!({ "status": status, "message": health.message, "details": health.details })
    });
    let mut tools: Vec<&str> = known.tools.iter().map(|tool| tool.name.as_str()).collect();
    tools.sort_unstable();
    JsonOrchestrator { certificates: certificates.collect(), name: known.name.as_deref(), health, tools }
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
