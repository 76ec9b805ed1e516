//! The report for a program: one JSON document, its members in the order of their names. Unknown values are absent.
//!
//! Also the list of rules (`validate --rules --json`).

use mcpjoin_rules::Rule;
use serde_json::{Value, json};

use super::openers::Row;
use super::report::{Document, Examination, Finding, RuleOutcome, RuleResult, RuleResults, Server, level};
use crate::commands::{document_of, filled, joined, present};
use crate::ui::Ui;

/// The report: one object. For several servers it contains an array of them.
pub(super) fn document(ui: &Ui, document: &Document) -> String {
    let servers = document.servers.iter().map(|server| of_server(ui, server, document));
    let baseline = document.baseline.as_ref();
    if document.several {
        return document_of(&present(json!({ "servers": servers.collect::<Value>(), "baseline": baseline })));
    }
    let server = servers.take(1).next().unwrap_or_default();
    document_of(&joined(server, present(json!({ "baseline": baseline }))))
}

/// The rules: an array.
pub(super) fn book(rules: impl Iterator<Item = &'static Rule>) -> String {
    let of_rule = |rule: &'static Rule| {
        json!({
            "rule": rule.slug,
            "chapter": rule.chapter.as_str(),
            "level": level(rule.level()),
            "sentence": rule.sentence,
            "address": rule.address(),
            // The first and the last revision that have it.
            "since": rule.first().map(|version| version.as_str()),
            "until": rule.last().map(|version| version.as_str()),
        })
    };
    document_of(&rules.map(of_rule).collect::<Value>())
}

fn of_server(ui: &Ui, server: &Server, document: &Document) -> Value {
    let error = server.failure().map(|failure| {
        let mut error = failure.json();
        ui.hide_in(&mut error);
        error["error"].take()
    });
    let about = present(json!({
        "server": document.several.then_some(&server.label),
        "command": server.shown,
        // Why it was not examined, or not completely.
        "error": error,
    }));
    let results = match &server.outcome {
        Ok(Examination::Rules(checked)) => of_checked(checked, document.baseline.is_some()),
        Ok(Examination::Openers(rows)) => json!({ "openers": rows.iter().map(Row::json).collect::<Value>() }),
        Err(_) => json!({}),
    };
    joined(about, results)
}

/// `compared`: with a baseline.
fn of_checked(checked: &RuleResults, compared: bool) -> Value {
    let counts = checked.counts();
    present(json!({
        "runs": checked.runs,
        // The number of rules that passed or failed.
        "ran": counts.ran(),
        "passed": counts.passed,
        "failed": counts.failed,
        "skipped": counts.skipped,
        // The number of rules with known findings alone.
        "known": compared.then_some(counts.known),
        "rules": checked.results.iter().map(|result| of_result(result, compared)).collect::<Value>(),
        "calls": filled(&checked.calls),
        "clients": checked.clients,
    }))
}

fn of_result(result: &RuleResult, compared: bool) -> Value {
    let rule = result.rule;
    let of_finding = |found: &Finding| {
        let known = present(json!({ "known": compared.then_some(found.known) }));
        joined(json!(found), known)
    };
    let (outcome, findings) = match &result.outcome {
        RuleOutcome::Passed => ("passed", None),
        RuleOutcome::Skipped(_) => ("skipped", None),
        RuleOutcome::Failed(places) => {
            ("failed", Some(places.found.iter().map(of_finding).collect::<Value>()))
        }
    };
    let about = json!({
        "rule": rule.slug,
        "chapter": rule.chapter.as_str(),
        "level": level(result.level()),
        "sentence": rule.sentence,
        // The page of the specification.
        "address": rule.address(),
        "outcome": outcome,
    });
    let details = present(json!({
        // Why it was skipped.
        "why": result.skipped(),
        "findings": findings,
        // The number of findings beyond the limit.
        "leftOut": Some(result.omitted()).filter(|omitted| *omitted > 0),
    }));
    joined(about, details)
}
