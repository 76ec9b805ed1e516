//! The report for a program: one JSON document, its members in the order of their names. Unknown values are absent.
//!
//! Also the list of rules (`validate --rules --json`).

use std::collections::BTreeMap;

use mcpjoin_rules::{Level, Rule};
use serde::Serialize;
use serde_json::Value;

use super::calls::CallWarning;
use super::compatibility::Clients;
use super::openers;
use super::report::{
    Comparison, Document, Examination, Finding, RuleOutcome, RuleResult, RuleResults, Run, Server, lower_case,
};
use crate::commands::{document_of, joined};
use crate::ui::Ui;

/// The report on several servers. The report on one server has the members of [`JsonServer`] in place of `servers`.
#[derive(Serialize)]
struct JsonServers<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    servers: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<&'a Comparison>,
}

/// A server, with the members of [`JsonResults`] where the rules were applied.
#[derive(Serialize)]
struct JsonServer<'a> {
    /// Its label, if there are several servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    /// Its command or address.
    command: &'a str,
    /// With `--eras`: each first request and its response.
    #[serde(skip_serializing_if = "Option::is_none")]
    openers: Option<Vec<openers::JsonRow<'a>>>,
    /// Why it was not examined, or not completely, in the form of every verb.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

/// The results of the rules.
#[derive(Serialize)]
struct JsonResults<'a> {
    runs: &'a [Run],
    /// The number of rules that passed or failed.
    ran: usize,
    passed: usize,
    failed: usize,
    skipped: usize,
    /// With a baseline: the number of rules with known findings alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    known: Option<usize>,
    /// Each with the members of [`JsonRule`] and of [`JsonRuleResult`].
    rules: Vec<Value>,
    /// The calls of `--call` that did not do what was intended.
    #[serde(skip_serializing_if = "<[CallWarning]>::is_empty")]
    calls: &'a [CallWarning],
    /// With `--compatibility`.
    #[serde(skip_serializing_if = "Option::is_none")]
    clients: Option<&'a Clients>,
}

/// A rule.
#[derive(Serialize)]
struct JsonRule<'a> {
    rule: &'a str,
    chapter: &'a str,
    #[serde(serialize_with = "lower_case")]
    level: Level,
    sentence: &'a str,
    /// The page of the specification.
    address: Option<String>,
}

/// The first and the last revision that have a rule.
#[derive(Serialize)]
struct JsonRevisions<'a> {
    since: Option<&'a str>,
    until: Option<&'a str>,
}

/// The result of a rule.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonRuleResult<'a> {
    /// `passed`, `failed` or `skipped`.
    outcome: &'a str,
    /// Why it was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    /// The members of [`Finding`], and with a baseline `known`.
    #[serde(skip_serializing_if = "Option::is_none")]
    findings: Option<Vec<Value>>,
    /// The number of findings beyond the limit.
    #[serde(skip_serializing_if = "is_zero")]
    left_out: usize,
}

impl<'a> JsonRule<'a> {
    /// `level`: that of its findings, or its own.
    fn new(rule: &'a Rule, level: Level) -> Self {
        let (chapter, address) = (rule.chapter.as_str(), rule.address());
        Self { rule: rule.slug, chapter, level, sentence: rule.sentence, address }
    }
}

/// For `skip_serializing_if`.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The report: one object. For several servers it contains an array of them.
pub(super) fn document(ui: &Ui, document: &Document) -> String {
    let baseline = document.baseline.as_ref();
    let servers = document.servers.iter().map(|server| of_server(ui, server, document));
    if document.several {
        return document_of(&JsonServers { servers: Some(servers.collect()), baseline });
    }
    document_of(&joined(&servers.take(1).next(), &JsonServers { servers: None, baseline }))
}

/// The rules: an array.
pub(super) fn book(rules: impl Iterator<Item = &'static Rule>) -> String {
    let of_rule = |rule: &'static Rule| {
        let since = rule.first().map(|version| version.as_str());
        let until = rule.last().map(|version| version.as_str());
        joined(&JsonRule::new(rule, rule.level()), &JsonRevisions { since, until })
    };
    document_of(&rules.map(of_rule).collect::<Vec<_>>())
}

fn of_server(ui: &Ui, server: &Server, document: &Document) -> Value {
    let (judged, openers) = match &server.outcome {
        Ok(Examination::Rules(judged)) => (Some(of_judged(judged, document.baseline.is_some())), None),
        Ok(Examination::Openers(rows)) => (None, Some(rows.iter().map(openers::Row::document).collect())),
        Err(_) => (None, None),
    };
    let command = server.shown.as_str();
    let error = server.failure().map(|failure| {
        let mut error = failure.json();
        ui.hide_in(&mut error);
        error["error"].take()
    });
    let server = document.several.then_some(server.label.as_str());
    joined(&JsonServer { server, command, openers, error }, &judged)
}

fn of_judged(judged: &RuleResults, compared: bool) -> JsonResults<'_> {
    let counts = judged.counts();
    JsonResults {
        runs: &judged.runs,
        ran: counts.ran(),
        passed: counts.passed,
        failed: counts.failed,
        skipped: counts.skipped,
        known: compared.then_some(counts.known),
        rules: judged.results.iter().map(|result| of_result(result, compared)).collect(),
        calls: &judged.calls,
        clients: judged.clients.as_ref(),
    }
}

fn of_result(result: &RuleResult, compared: bool) -> Value {
    let found = |found: &Finding| joined(found, &compared.then(|| BTreeMap::from([("known", found.known)])));
    let (outcome, findings) = match &result.outcome {
        RuleOutcome::Passed => ("passed", None),
        RuleOutcome::Skipped(_) => ("skipped", None),
        RuleOutcome::Failed(places) => ("failed", Some(places.found.iter().map(found).collect())),
    };
    let rule = JsonRule::new(result.rule, result.level());
    let (why, left_out) = (result.skipped(), result.omitted());
    joined(&rule, &JsonRuleResult { outcome, why, findings, left_out })
}
