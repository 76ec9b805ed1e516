//! `mcpjoin doctor quic://host:port`: what is wrong with a server over QUIC, or with our way to it.

use std::fmt::Write;

use mcpjoin::doctor::{Outcome, QuicDoctor, QuicReport};
use mcpjoin::quic::CertificateFacts;
use serde_json::{Map, Value, json};

use super::{faults, hide, milliseconds};
use crate::commands::written;
use crate::connect::Signals;
use crate::exit::Exit;
use crate::failure::seconds;
use crate::ui::{BAD, FAINT, HEADING, Ui};
use crate::visible;

/// Examines the server.
pub(super) async fn examine(ui: &Ui, shown: &str, doctor: QuicDoctor, signals: &mut Signals) -> Exit {
    // Dropped by the signal, it leaves nothing open.
    let report = tokio::select! {
        biased;
        signal = signals.next() => return Exit::Signal(signal),
        report = doctor.examine() => report,
    };
    let healthy = report.is_healthy();
    let text = if ui.json {
        let mut document = document(shown, &report);
        hide(ui, &mut document, false);
        visible::json(&document.to_string())
    } else {
        ui.hidden(&page(&report, ui.verbosity() > 0)).into_owned()
    };
    let outcome = tokio::select! {
        biased;
        signal = signals.next() => return Exit::Signal(signal),
        outcome = ui.aside(move |ui| ui.page(&text)) => outcome,
    };
    match written(ui, outcome) {
        Exit::Done if !healthy => Exit::Faults,
        exit => exit,
    }
}

/// The key of a certificate, as `--pin` takes it.
fn pin(facts: &CertificateFacts) -> String {
    facts.key_hash.iter().fold("sha256:".to_owned(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

// ---- for a person ----

/// A line for each part, then what is wrong.
fn page(report: &QuicReport, everything: bool) -> String {
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
        let _ = writeln!(out, "{HEADING}{:<10}{HEADING:#} {took:>9} {mark}{detail}{end}", step.part.as_str());
    }
    let mut row = |label: &str, text: &str| {
        let _ = writeln!(out, "{FAINT}{label:<20}{FAINT:#} {}", visible::line(text));
    };
    if let (Some(facts), true) = (&report.certificate, everything) {
        let (from, to) = facts.validity();
        row("subject", &facts.subject);
        row("issuer", &facts.issuer);
        row("names", &facts.names.join(", "));
        row("valid", &format!("from {from} to {to}"));
        row("key", &pin(facts));
    }
    for note in &report.notes {
        row("note", note);
    }
    out.push('\n');
    let findings = report.findings.iter();
    faults(&mut out, findings.map(|found| (found.id, &*found.seen, &*found.meaning, &*found.advice)));
    out
}

// ---- for a program ----

/// All of it as one JSON object. What is not known is absent.
fn document(address: &str, report: &QuicReport) -> Value {
    let mut root = Map::new();
    root.insert("address".into(), json!(address));
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
    let addresses: Vec<String> = report.addresses.iter().map(ToString::to_string).collect();
    root.insert("addresses".into(), json!(addresses));
    if let Some(facts) = &report.certificate {
        let (from, to) = facts.validity();
        let certificate = json!({
            "subject": facts.subject,
            "issuer": facts.issuer,
            "names": facts.names,
            "notBefore": from,
            "notAfter": to,
            "pin": pin(facts),
        });
        root.insert("certificate".into(), certificate);
    }
    let lists = report.lists.iter().map(|list| {
        let took = milliseconds(list.took);
        json!({ "method": list.method.as_str(), "items": list.items, "elapsedMs": took })
    });
    root.insert("lists".into(), lists.collect());
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
