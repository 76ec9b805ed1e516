//! `mcpjoin validate --rules`: the book, for a person and for a program.

use std::fmt::Write;

use mcpjoin::check::Rule;
use serde_json::{Value, json};

use crate::ui::{FAINT, HEADING, NAME};
use crate::visible;

/// The book for a person.
pub(super) fn page(rules: impl Iterator<Item = &'static Rule>) -> String {
    let mut out = String::new();
    let mut last = None;
    for rule in rules {
        if last.replace(rule.chapter) != Some(rule.chapter) {
            let gap = if out.is_empty() { "" } else { "\n" };
            let chapter = rule.chapter;
            let _ = writeln!(out, "{gap}{HEADING}{}{HEADING:#} ({})", chapter.title(), chapter.as_str());
        }
        let _ = writeln!(out, "  {NAME}{}{NAME:#} {}, {}", rule.slug, rule.level().as_str(), revisions(rule));
        let _ = writeln!(out, "    {}", rule.sentence);
        let _ = writeln!(out, "    {FAINT}{}{FAINT:#}", rule.address().unwrap_or_default());
    }
    out
}

/// The book for a program: an array.
pub(super) fn document(rules: impl Iterator<Item = &'static Rule>) -> String {
    let rules: Vec<Value> = rules
        .map(|rule| {
            json!({
                "rule": rule.slug,
                "chapter": rule.chapter.as_str(),
                "level": rule.level().as_str().to_lowercase(),
                "sentence": rule.sentence,
                "address": rule.address(),
                "since": rule.first().map(|version| version.as_str()),
                "until": rule.last().map(|version| version.as_str()),
            })
        })
        .collect();
    visible::json(&Value::Array(rules).to_string())
}

fn revisions(rule: &Rule) -> String {
    match (rule.first(), rule.last()) {
        (Some(first), Some(last)) if first.as_str() == last.as_str() => first.to_string(),
        (Some(first), Some(last)) => format!("{first} to {last}"),
        _ => String::new(),
    }
}
