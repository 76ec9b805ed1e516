//! What `mcpjoin validate` prints: the report and the book, for a person and for a program.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use mcpjoin::check::{Chapter, Finding, Level, Outcome, Report, Rule, Trace, Verdict};
use serde_json::{Map, Value, json};

use crate::ui::{BAD, FAINT, HEADING, NAME};
use crate::visible;

/// Of the places where one rule was broken, so many are shown to a person.
const FINDINGS: usize = 3;
/// A line is cut for a person after so many characters.
const SHOWN: usize = 300;
/// And for a program.
const KEPT: usize = 4096;

/// The report for a person. `all`: the rules that held, too.
pub(super) fn report(shown: &str, trace: &Trace, report: &Report, took: Duration, all: bool) -> String {
    let mut versions: Vec<&str> = Vec::new();
    for run in &trace.runs {
        if !versions.contains(&run.version.as_str()) {
            versions.push(run.version.as_str());
        }
    }
    let mut out = format!(
        "{HEADING}{}{HEADING:#}, protocol {}, {} runs in {:.1} s\n",
        visible::line(shown),
        versions.join(", "),
        trace.runs.len(),
        took.as_secs_f64()
    );
    for chapter in Chapter::ALL {
        let verdicts: Vec<&Verdict> =
            report.verdicts.iter().filter(|verdict| verdict.rule.chapter == chapter).collect();
        let passed = verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Passed).count();
        let failed = verdicts.iter().filter(|verdict| matches!(verdict.outcome, Outcome::Failed(_))).count();
        if passed + failed == 0 {
            // The summary says why.
            continue;
        }
        let _ = writeln!(
            out,
            "\n{HEADING}{}{HEADING:#}: {passed} passed, {failed} failed, {} skipped",
            chapter.title(),
            verdicts.len() - passed - failed
        );
        for verdict in verdicts {
            match &verdict.outcome {
                Outcome::Failed(findings) => broken(&mut out, verdict, findings),
                Outcome::Passed if all => {
                    let _ = writeln!(out, "  {NAME}{}{NAME:#} passed", verdict.rule.slug);
                }
                _ => {}
            }
        }
    }
    summary(&mut out, report);
    out
}

fn broken(out: &mut String, verdict: &Verdict, findings: &[Finding]) {
    let rule = verdict.rule;
    let level = verdict.level();
    let label =
        if level == Level::Must { format!("{BAD}{}{BAD:#}", level.as_str()) } else { level.as_str().into() };
    let _ = writeln!(out, "  {label} {NAME}{}{NAME:#}: {}", rule.slug, rule.sentence);
    for finding in findings.iter().take(FINDINGS) {
        let _ = writeln!(out, "    {} {FAINT}({}){FAINT:#}", visible::line(&finding.problem), finding.run);
        let lines = [("sent", &finding.sent), ("received", &finding.received)];
        for (name, line) in lines {
            if let Some(line) = line {
                let _ = writeln!(out, "    {FAINT}{name:<8}{FAINT:#} {}", visible::line(&cut(line, SHOWN)));
            }
        }
        let _ = writeln!(out, "    {FAINT}see{FAINT:#}      {}", finding.address);
    }
    if findings.len() > FINDINGS {
        let _ = writeln!(out, "    and {} more", findings.len() - FINDINGS);
    }
}

/// What ran and what did not, and why not: always all of it.
fn summary(out: &mut String, report: &Report) {
    let levels = [Level::Must, Level::Should, Level::Advice].map(|level| {
        let count = report.failed().filter(|verdict| verdict.level() == level).count();
        (count > 0).then(|| format!("{count} {}", level.as_str()))
    });
    let levels: Vec<String> = levels.into_iter().flatten().collect();
    let levels = if levels.is_empty() { String::new() } else { format!(" ({})", levels.join(", ")) };
    let _ = writeln!(
        out,
        "\n{HEADING}ran {}{HEADING:#}, passed {}, failed {}{levels}, skipped {}",
        report.ran(),
        report.passed().count(),
        report.failed().count(),
        report.skipped().count()
    );
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for verdict in report.skipped() {
        if let Outcome::Skipped(why) = verdict.outcome {
            reasons.entry(why).or_default().push(verdict.rule.slug);
        }
    }
    for chapter in Chapter::ALL {
        let of = |verdict: &&Verdict| verdict.rule.chapter == chapter;
        let all: Vec<&str> = report.verdicts.iter().filter(of).map(|verdict| verdict.rule.slug).collect();
        // A chapter is said in one word when all of it is skipped for one reason.
        let whole =
            reasons.values_mut().find(|slugs| all.len() > 1 && all.iter().all(|slug| slugs.contains(slug)));
        if let Some(slugs) = whole {
            slugs.retain(|slug| !all.contains(slug));
            slugs.push(chapter.as_str());
        }
    }
    for (why, slugs) in reasons {
        let _ = writeln!(out, "  {FAINT}skipped: {why}:{FAINT:#} {}", slugs.join(", "));
    }
}

/// The report for a program.
pub(super) fn report_json(shown: &str, trace: &Trace, report: &Report) -> String {
    let runs: Vec<Value> = trace
        .runs
        .iter()
        .map(|run| json!({ "name": run.name, "protocolVersion": run.version.as_str() }))
        .collect();
    let rules: Vec<Value> = report.verdicts.iter().map(verdict_json).collect();
    pretty(&json!({
        "command": shown,
        "runs": runs,
        "ran": report.ran(),
        "passed": report.passed().count(),
        "failed": report.failed().count(),
        "skipped": report.skipped().count(),
        "rules": rules,
    }))
}

fn verdict_json(verdict: &Verdict) -> Value {
    let rule = verdict.rule;
    let mut out = Map::new();
    out.insert("rule".into(), json!(rule.slug));
    out.insert("chapter".into(), json!(rule.chapter.as_str()));
    out.insert("level".into(), json!(verdict.level().as_str().to_lowercase()));
    out.insert("sentence".into(), json!(rule.sentence));
    out.insert("address".into(), json!(rule.address()));
    match &verdict.outcome {
        Outcome::Passed => _ = out.insert("outcome".into(), json!("passed")),
        Outcome::Skipped(why) => {
            out.insert("outcome".into(), json!("skipped"));
            out.insert("why".into(), json!(why));
        }
        Outcome::Failed(findings) => {
            out.insert("outcome".into(), json!("failed"));
            out.insert("findings".into(), findings.iter().map(finding_json).collect());
        }
    }
    Value::Object(out)
}

fn finding_json(finding: &Finding) -> Value {
    let mut out = json!({
        "problem": finding.problem,
        "run": finding.run,
        "protocolVersion": finding.version.as_str(),
        "level": finding.level.as_str().to_lowercase(),
        "address": finding.address,
    });
    for (name, line) in [("sent", &finding.sent), ("received", &finding.received)] {
        if let Some(line) = line {
            out[name] = json!(cut(line, KEPT));
        }
    }
    out
}

/// The book for a person.
pub(super) fn book(rules: impl Iterator<Item = &'static Rule>) -> String {
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
pub(super) fn book_json(rules: impl Iterator<Item = &'static Rule>) -> String {
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
    pretty(&Value::Array(rules))
}

fn revisions(rule: &Rule) -> String {
    match (rule.first(), rule.last()) {
        (Some(first), Some(last)) if first.as_str() == last.as_str() => first.to_string(),
        (Some(first), Some(last)) => format!("{first} to {last}"),
        _ => String::new(),
    }
}

fn pretty(value: &Value) -> String {
    visible::json(&value.to_string())
}

pub(super) fn cut(line: &Bytes, characters: usize) -> String {
    let text = String::from_utf8_lossy(line);
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}
