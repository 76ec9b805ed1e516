//! One broken rule for a person: level, name and problem; where it was seen; the specification's sentence; what was sent and
//! received; the fix.
//!
//! Called by `text`. Findings with the same problem are one, with all places where they were seen.

use std::fmt::Write;

use mcpjoin::proto::Version;
use mcpjoin_rules::Level;

use super::report::{Finding, MAX_TEXT_CHARS, RuleResult};
use crate::fold::{Head, prose};
use crate::ui::{BAD, FAINT, HEADING, NAME};
use crate::visible::{self, counted, cut_chars};

/// The maximum number of problems of a rule.
const MAX_PROBLEMS: usize = 3;
/// The maximum number of places of a problem.
const MAX_PLACES: usize = 6;
/// The longest problem, and the longest name of a place.
const MAX_SHOWN_CHARS: usize = 300;
/// The column of what stands behind a label.
const COLUMNS: usize = 12;

/// The findings of a rule that have one problem.
struct Problem<'a> {
    /// The one whose messages are shown.
    first: &'a Finding,
    count: usize,
    /// What was sent: the method, or the beginning of the request.
    methods: Vec<String>,
    runs: Vec<&'a str>,
}

/// Writes a broken rule. One whose findings are all in the baseline takes a line.
pub(super) fn broken(out: &mut String, result: &RuleResult) {
    let rule = result.rule;
    let known = result.found().iter().filter(|found| found.known).count();
    let Some(level) = result.fault() else {
        let text = format!("\n{FAINT}known{FAINT:#} {NAME}{}{NAME:#}: ", rule.slug);
        let columns = "known : ".len() + rule.slug.len();
        prose(
            out,
            &Head { text: &text, columns, indent: 2 },
            &format!("{} in the baseline", counted(known, "finding")),
        );
        return;
    };
    let problems = problems(result.found().iter().filter(|found| !found.known));
    let (style, name) = if level == Level::Must { (BAD, level.as_str()) } else { (HEADING, level.as_str()) };
    for (place, problem) in problems.iter().take(MAX_PROBLEMS).enumerate() {
        let shown = cut_chars(&problem.first.problem, MAX_SHOWN_CHARS);
        let shown = visible::line(&shown);
        if place == 0 {
            let text = format!("\n{style}{name}{style:#} {NAME}{}{NAME:#}: ", rule.slug);
            let columns = name.len() + rule.slug.len() + " : ".len();
            prose(out, &Head { text: &text, columns, indent: 2 }, &shown);
        } else {
            labelled(out, "also", &shown);
        }
        let text = format!("  {NAME}-->{NAME:#} ");
        prose(out, &Head { text: &text, columns: 6, indent: 6 }, &seen(problem));
        if place == 0 {
            specified(out, result, problem.first);
        }
        for (label, line) in [("sent", &problem.first.sent), ("received", &problem.first.received)] {
            if let Some(line) = line {
                message(out, label, line);
            }
        }
    }
    let shown: usize = problems.iter().take(MAX_PROBLEMS).map(|problem| problem.count).sum();
    let all: usize =
        result.found().iter().filter(|found| !found.known).map(|found| found.count).sum::<usize>()
            + result.omitted();
    if all > shown {
        labelled(out, "more", &format!("{} other findings (--json lists them)", all - shown));
    }
    if known > 0 {
        labelled(out, "known", &format!("{known} in the baseline"));
    }
    if let Some(fix) = rule.fix() {
        labelled(out, "fix", fix);
    }
    let sdks: Vec<&str> = rule.sdks().collect();
    if let [first, others @ ..] = &sdks[..] {
        let others = others.iter().fold(String::new(), |list, sdk| format!("{list}, {sdk}"));
        let text = format!("servers built with {first}{others} have this finding: the SDK may be the cause");
        labelled(out, "sdk", &text);
    }
}

/// The sentence of the specification to the letter, or the rule where it is based on something else, with the address.
fn specified(out: &mut String, result: &RuleResult, found: &Finding) {
    match result.rule.quote(&Version::parse(&found.version)) {
        Some(quote) => labelled(out, "spec", &format!("\"{quote}\"")),
        None => labelled(out, "rule", result.rule.sentence),
    }
    let _ = writeln!(out, "{:COLUMNS$}{FAINT}{}{FAINT:#}", "", found.address);
}

fn labelled(out: &mut String, label: &str, text: &str) {
    let head = format!("  {FAINT}{label:<9}{FAINT:#} ");
    prose(out, &Head { text: &head, columns: COLUMNS, indent: COLUMNS }, text);
}

/// Whether a line of the page is a message, which is not wrapped either where the terminal is narrow.
pub(super) fn is_message(line: &str) -> bool {
    let line = anstream::adapter::strip_str(line).to_string();
    ["  sent      ", "  received  "].iter().any(|label| line.starts_with(label))
}

/// A message, whole and on one line.
fn message(out: &mut String, label: &str, line: &str) {
    let _ = writeln!(out, "  {FAINT}{label:<9}{FAINT:#} {}", visible::line(line));
    // A line that was truncated before ends like this.
    if line.chars().count() > MAX_TEXT_CHARS && line.ends_with('…') {
        let _ = writeln!(out, "{:COLUMNS$}[the first {MAX_TEXT_CHARS} characters]", "");
    }
}

/// The findings by their problems, in their order.
fn problems<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<Problem<'a>> {
    let mut problems: Vec<Problem<'a>> = Vec::new();
    for found in findings {
        let at = problems.iter().position(|problem| problem.first.problem == found.problem);
        let at = at.unwrap_or_else(|| {
            problems.push(Problem { first: found, count: 0, methods: Vec::new(), runs: Vec::new() });
            problems.len() - 1
        });
        let problem = &mut problems[at];
        problem.count += found.count;
        let method = found.sent.as_deref().map(method).unwrap_or_default();
        if !method.is_empty() && !problem.methods.contains(&method) {
            problem.methods.push(method);
        }
        if !problem.runs.contains(&&*found.run) {
            problem.runs.push(&found.run);
        }
    }
    problems
}

/// Where a problem was seen: the methods, the runs, and how often.
fn seen(problem: &Problem<'_>) -> String {
    let list = |names: Vec<&str>| {
        let more = names.len().saturating_sub(MAX_PLACES);
        let names: Vec<String> = names
            .into_iter()
            .take(MAX_PLACES)
            .map(|name| visible::line(&cut_chars(name, MAX_SHOWN_CHARS)).into_owned())
            .collect();
        let names = names.join(", ");
        if more > 0 { format!("{names} and {more} more") } else { names }
    };
    let methods = list(problem.methods.iter().map(String::as_str).collect());
    let runs = list(problem.runs.clone());
    let places = if methods.is_empty() { runs } else { format!("{methods} in {runs}") };
    if problem.count > 1 { format!("{places} ({} times)", problem.count) } else { places }
}

/// The method in a message, or the verb of an HTTP request without one.
fn method(sent: &str) -> String {
    let method = sent.split_once(r#""method":""#).and_then(|(_, rest)| rest.split_once('"'));
    match method {
        Some((method, _)) => cut_chars(method, MAX_SHOWN_CHARS),
        None if sent.starts_with(['{', '[']) => String::new(),
        None => sent
            .split(' ')
            .next()
            .filter(|word| ["GET", "POST", "DELETE"].contains(word))
            .unwrap_or("")
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin_rules::{Level, rules};

    use super::super::report::{Finding, Findings, RuleOutcome, RuleResult};
    use super::broken;

    fn found(problem: &str, run: &str, method: &str) -> Finding {
        Finding {
            count: 1,
            problem: problem.into(),
            run: run.into(),
            version: "2025-11-25".into(),
            level: Level::Should,
            address: "https://modelcontextprotocol.io/a".into(),
            sent: Some(format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"cursor":"{}"}}}}"#,
                "x ".repeat(60)
            )),
            received: Some("{}".into()),
            fingerprint: format!("{problem}{run}{method}"),
            known: false,
        }
    }

    fn page(found: Vec<Finding>) -> String {
        let rule = rules().find(|rule| rule.slug == "bad-cursor-code").unwrap();
        let mut out = String::new();
        broken(&mut out, &RuleResult { rule, outcome: RuleOutcome::Failed(Findings { found, omitted: 2 }) });
        anstream::adapter::strip_str(&out).to_string()
    }

    #[test]
    fn one_problem_is_said_once_with_all_its_places_the_sentence_the_messages_and_the_fix() {
        let all = page(vec![
            found("got a result", "legacy", "tools/list"),
            found("got a result", "legacy", "prompts/list"),
            found("got a result", "modern", "tools/list"),
            found("the code is 7", "modern", "tools/list"),
        ]);
        for part in [
            "\nSHOULD bad-cursor-code: got a result\n  --> tools/list, prompts/list in legacy, modern (3 times)\n",
            "  spec      \"Invalid cursors SHOULD result in an error with code -32602 (Invalid\n            params).\"\n",
            "            https://modelcontextprotocol.io/a\n",
            "  also      the code is 7\n  --> tools/list in modern\n",
            "  more      2 other findings (--json lists them)\n",
            "  fix       Answer a cursor",
            "  sdk       servers built with @modelcontextprotocol/sdk,\n",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
        assert_eq!(all.matches("got a result").count(), 1, "{all}");
        // A message is one line that can be copied.
        let sent = all.lines().find_map(|line| line.strip_prefix("  sent      ")).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(sent).is_ok(), "{sent}");
        let wide = all.lines().find(|line| line.chars().count() > 80 && !line.contains(['{', '/']));
        assert_eq!(wide, None);
    }

    #[test]
    fn what_the_baseline_has_takes_a_line() {
        let known = Finding { known: true, ..found("got a result", "legacy", "tools/list") };
        let rule = rules().find(|rule| rule.slug == "bad-cursor-code").unwrap();
        let outcome = RuleOutcome::Failed(Findings { found: vec![known], omitted: 0 });
        let mut out = String::new();
        broken(&mut out, &RuleResult { rule, outcome });
        let plain = anstream::adapter::strip_str(&out).to_string();
        assert_eq!(plain, "\nknown bad-cursor-code: 1 finding in the baseline\n");
    }
}
