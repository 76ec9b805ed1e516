//! The report as JUnit XML for CI services: a suite for each server and chapter, a case for each rule. Advice, a SHOULD
//! without `--strict` and known findings fail no case.

use std::fmt::Write;

use mcpjoin_rules::Chapter;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::report::{Document, Examination, Finding, RuleOutcome, RuleResult, Server};
use crate::failure::Failure;
use crate::ui::Ui;
use crate::visible::{self, cut_chars};

/// The maximum number of findings of a rule: services truncate or refuse a long text.
const MAX_FINDINGS: usize = 20;
/// The longest message, and the longest problem, of a finding.
const MAX_TEXT_CHARS: usize = 1000;

/// The report.
pub(super) fn document(ui: &Ui, document: &Document) -> String {
    let mut report = Report::new("mcpjoin validate");
    for server in &document.servers {
        if let Ok(Examination::Rules(checked)) = &server.outcome {
            for chapter in Chapter::ALL {
                let results = checked.results.iter().filter(|result| result.rule.chapter == chapter);
                let class = line(&format!("{}.{}", server.label, chapter.as_str()));
                let cases: Vec<TestCase> = results.map(|result| case(result, &class, document)).collect();
                if !cases.is_empty() {
                    let mut suite = TestSuite::new(line(&format!("{}: {}", server.label, chapter.title())));
                    suite.add_test_cases(cases);
                    report.add_test_suite(suite);
                }
            }
        }
        if let Some(failure) = server.failure() {
            report.add_test_suite(not_examined(ui, server, failure));
        }
    }
    report.to_string().unwrap_or_default()
}

/// A suite with one case for a server that was not examined, or not completely.
fn not_examined(ui: &Ui, server: &Server, failure: &Failure) -> TestSuite {
    let name = line(&server.label);
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_type(failure.id);
    status.set_message(line(&ui.hidden(&failure.message)));
    status.set_description(text(&ui.hidden(&failure.hint)));
    let mut case = TestCase::new("connect", status);
    case.set_classname(&name);
    let mut suite = TestSuite::new(name);
    suite.add_test_case(case);
    suite
}

/// The case of a rule.
fn case(result: &RuleResult, class: &str, document: &Document) -> TestCase {
    let (mut status, mut out) = (TestCaseStatus::success(), None);
    match (&result.outcome, result.fault()) {
        (RuleOutcome::Passed, _) => {}
        (RuleOutcome::Skipped(why), _) => {
            status = TestCaseStatus::skipped();
            status.set_message(line(why));
        }
        (RuleOutcome::Failed(_), None) => {
            status = TestCaseStatus::skipped();
            status.set_message("known: in the baseline");
            out = Some(findings(result));
        }
        (RuleOutcome::Failed(places), Some(level)) if level >= document.least => {
            let problem = places.found.iter().find(|found| !found.known).map(|found| found.problem.as_str());
            status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_type(level.as_str());
            status.set_message(line(&cut_chars(problem.unwrap_or_default(), MAX_TEXT_CHARS)));
            status.set_description(findings(result));
        }
        (RuleOutcome::Failed(_), Some(_)) => out = Some(findings(result)),
    }
    let mut case = TestCase::new(result.rule.slug, status);
    case.set_classname(class);
    if let Some(out) = out {
        case.set_system_out(out);
    }
    case
}

/// The findings of a rule, with their messages.
fn findings(result: &RuleResult) -> String {
    let mut out = format!("{}: {}\n", result.level().as_str(), result.rule.sentence);
    let is_shown = |found: &&Finding| !found.known || result.fault().is_none();
    let all: Vec<&Finding> = result.found().iter().filter(is_shown).collect();
    for found in all.iter().take(MAX_FINDINGS) {
        let problem = cut_chars(&found.problem, MAX_TEXT_CHARS);
        let times = if found.count > 1 { format!(", {} times", found.count) } else { String::new() };
        let _ = writeln!(out, "\n{} ({}{times})", visible::line(&problem), visible::line(&found.run));
        for (name, message) in [("sent", &found.sent), ("received", &found.received)] {
            if let Some(message) = message {
                let _ = writeln!(out, "{name:<8} {}", visible::line(&cut_chars(message, MAX_TEXT_CHARS)));
            }
        }
        let _ = writeln!(out, "see      {}", found.address);
    }
    let more = (all.len() + result.omitted()).saturating_sub(MAX_FINDINGS);
    if more > 0 {
        let _ = writeln!(out, "\nand {more} more");
    }
    text(&out)
}

/// A text without characters that XML 1.0 cannot represent: `visible` escapes the control characters, and two more are
/// escaped in the same way here.
fn text(text: &str) -> String {
    visible::text(text).replace('\u{fffe}', "\\u{fffe}").replace('\u{ffff}', "\\u{ffff}")
}

/// A text in one line, for attributes.
fn line(text: &str) -> String {
    self::text(&visible::line(text))
}

#[cfg(test)]
mod tests {
    use quick_junit::{Report, TestSuite};

    use super::{line, text};

    /// The library drops control characters and escape sequences: none of them may reach it.
    #[test]
    fn no_text_ends_its_element_or_is_forbidden_or_loses_a_character() {
        let mut suite = TestSuite::new(line("a\nb\u{0}\u{1b}[1m\u{ffff}\u{fffe}\u{85}\t<\"'&>"));
        suite.set_system_out(text("<a b=\"c\">]]>&\n\u{7f}\u{1b}]0;x\u{7}"));
        let mut report = Report::new("r");
        report.add_test_suite(suite);
        let xml = report.to_string().unwrap();
        for part in [
            r#"name="a\u{a}b\u{0}\u{1b}[1m\u{ffff}\u{fffe}\u{85}\u{9}&lt;&quot;&apos;&amp;&gt;""#,
            "<system-out>&lt;a b=&quot;c&quot;&gt;]]&gt;&amp;\n\\u{7f}\\u{1b}]0;x\\u{7}</system-out>",
        ] {
            assert!(xml.contains(part), "{part} is not in {xml}");
        }
    }
}
