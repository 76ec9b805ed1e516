//! The report for a person: the verdict, each broken rule with the specification's sentence, the messages that show it and the
//! fix, and the numbers.
//!
//! Called by `validate` for `--format text`. Messages are never wrapped, so that they can be copied.

use std::collections::BTreeMap;
use std::fmt::Write;

use mcpjoin::proto::Version;
use mcpjoin_rules::{Chapter, Level, Rule};
use unicode_width::UnicodeWidthStr as _;

use super::findings;
use super::openers;
use super::report::{Comparison, Document, Examination, RuleOutcome, RuleResult, RuleResults, Server};
use crate::fold::{Head, PAGE_COLUMNS, prose};
use crate::ui::{BAD, FAINT, HEADING, NAME, Ui};
use crate::visible::{self, cut_chars};

/// The longest command of a server.
const MAX_NAME_CHARS: usize = 200;
/// The longest problem on one line.
const MAX_SHOWN_CHARS: usize = 300;

/// How much of the report is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// One line for each server (`-q`).
    Verdict,
    Findings,
    /// Also the rules that passed and those that were skipped (`-v`).
    All,
}

/// The whole report.
pub(super) fn document(ui: &Ui, document: &Document, extent: Extent) -> String {
    let mut out = String::new();
    for server in &document.servers {
        match &server.outcome {
            Ok(Examination::Rules(checked)) => self::checked(&mut out, server, checked, extent),
            Ok(Examination::Openers(rows)) => openers::table(&mut out, &server.shown, rows),
            // The failure of a single server is printed as for every verb.
            Err(_) if !document.several => continue,
            Err(failure) => {
                let problem = ui.hidden(&failure.message);
                let name = visible::line(&server.label);
                let name = cut_chars(&name, MAX_NAME_CHARS);
                let text = format!("{HEADING}{}{HEADING:#}: {BAD}not checked{BAD:#}: ", visible::line(&name));
                let columns = name.width() + ": not checked: ".len();
                let problem =
                    format!("{} ({})", visible::line(&cut_chars(&problem, MAX_SHOWN_CHARS)), failure.id);
                prose(&mut out, &Head { text: &text, columns, indent: 2 }, &problem);
            }
        }
        if document.several && extent != Extent::Verdict {
            out.push('\n');
        }
    }
    if extent == Extent::Verdict {
        return out;
    }
    if let Some(compared) = &document.baseline {
        stale(&mut out, compared);
    }
    if document.several {
        servers(&mut out, document);
    }
    out
}

fn checked(out: &mut String, server: &Server, checked: &RuleResults, extent: Extent) {
    verdict(out, server, checked);
    if extent == Extent::Verdict {
        return;
    }
    if checked.named.is_some() {
        let _ = writeln!(out, "{FAINT}{}{FAINT:#}", visible::line(&cut_chars(&server.shown, MAX_NAME_CHARS)));
    }
    let mut broken: Vec<&RuleResult> =
        checked.results.iter().filter(|result| matches!(result.outcome, RuleOutcome::Failed(_))).collect();
    // New findings before those in the baseline, and the most binding first. The order of the chapters stays otherwise.
    broken.sort_by_key(|result| std::cmp::Reverse(result.fault()));
    for result in broken {
        findings::broken(out, result);
    }
    if extent == Extent::All {
        chapters(out, checked);
    }
    summary(out, checked, extent == Extent::All);
    if let Some(clients) = &checked.clients {
        clients.page(out);
    }
}

/// The verdict on one line: the server, its revisions, what is broken, and the time.
fn verdict(out: &mut String, server: &Server, checked: &RuleResults) {
    let of_entry = server.place.is_some() && server.label != server.shown;
    let name = match (&checked.named, of_entry) {
        (Some(named), true) => format!("{}: {named}", server.label),
        (Some(named), false) => named.clone(),
        (None, true) => format!("{}: {}", server.label, server.shown),
        (None, false) => server.shown.clone(),
    };
    let counts = checked.counts();
    let broken: Vec<String> = [Level::Must, Level::Should]
        .into_iter()
        .filter_map(|level| {
            let count = checked.results.iter().filter(|result| result.fault() == Some(level)).count();
            (count > 0).then(|| format!("{count} {}", level.as_str()))
        })
        .collect();
    let verdict = match (&*broken, counts.ran()) {
        ([], 0) => "nothing to check".to_owned(),
        ([], _) => "no violations".to_owned(),
        (broken, _) => format!("{} broken", broken.join(", ")),
    };
    let took = server.took.as_secs_f64();
    let mut versions = revisions(checked);
    if let Some(version) = &checked.unknown_version {
        let version = visible::line(version);
        versions = format!("initialize is answered with {version}; checked as {versions}");
    }
    titled(out, &name, &format!(" ({versions}): {verdict} in {took:.1} s"));
}

/// The revisions of the runs in ascending order: a range where none is missing.
fn revisions(checked: &RuleResults) -> String {
    let mut versions: Vec<&str> = checked.runs.iter().map(|run| run.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let known: Vec<&str> = Version::ALL.iter().map(Version::as_str).collect();
    let first = known.iter().position(|version| versions.first() == Some(version));
    let is_range = first.is_some_and(|first| known[first..].starts_with(&versions));
    match &versions[..] {
        [first, _, .., last] if is_range => format!("{first} to {last}"),
        versions => visible::line(&versions.join(", ")).into_owned(),
    }
}

/// The numbers of each chapter, and its rules that passed.
fn chapters(out: &mut String, checked: &RuleResults) {
    for chapter in Chapter::ALL {
        let results: Vec<&RuleResult> =
            checked.results.iter().filter(|result| result.rule.chapter == chapter).collect();
        let counts = RuleResult::counts(results.iter().copied());
        if counts.ran() == 0 {
            // The summary has the reason.
            continue;
        }
        let _ = writeln!(
            out,
            "\n{HEADING}{}{HEADING:#}: {} passed, {} failed, {} skipped",
            chapter.title(),
            counts.passed,
            counts.failed,
            counts.skipped
        );
        for result in results.iter().filter(|result| matches!(result.outcome, RuleOutcome::Passed)) {
            let _ = writeln!(out, "  {NAME}{}{NAME:#} passed", result.rule.slug);
        }
    }
}

/// A heading: the name of a server, and the text behind it.
pub(super) fn titled(out: &mut String, name: &str, rest: &str) {
    let name = cut_chars(name, MAX_NAME_CHARS);
    let name = visible::line(&name);
    let columns = name.width();
    if columns < PAGE_COLUMNS {
        let text = format!("{HEADING}{name}{HEADING:#}");
        prose(out, &Head { text: &text, columns, indent: 2 }, rest);
    } else {
        prose(out, &Head { text: "", columns: 0, indent: 2 }, &format!("{name}{rest}"));
    }
}

/// The numbers of rules. `all`: also the skipped rules, with the reason of each.
fn summary(out: &mut String, checked: &RuleResults, all: bool) {
    let counts = checked.counts();
    let of = |level: Level| {
        let count = checked.results.iter().filter(|result| result.fault() == Some(level)).count();
        (count > 0).then(|| format!("{count} {}", level.as_str()))
    };
    let mut parts: Vec<String> =
        [Level::Must, Level::Should, Level::Advice].into_iter().filter_map(of).collect();
    if counts.known > 0 {
        parts.push(format!("{} known", counts.known));
    }
    let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    let _ = writeln!(
        out,
        "\n{HEADING}ran {}{HEADING:#}, passed {}, failed {}{parts}, skipped {}",
        counts.ran(),
        counts.passed,
        counts.failed,
        counts.skipped
    );
    if !all {
        return skipped(out, checked);
    }
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for result in &checked.results {
        if let RuleOutcome::Skipped(why) = &result.outcome {
            reasons.entry(why).or_default().push(result.rule.slug);
        }
    }
    for chapter in Chapter::ALL {
        let of = |result: &&RuleResult| result.rule.chapter == chapter;
        let all: Vec<&str> = checked.results.iter().filter(of).map(|result| result.rule.slug).collect();
        // The name of a chapter stands for its rules if all are skipped for one reason.
        let whole =
            reasons.values_mut().find(|slugs| all.len() > 1 && all.iter().all(|slug| slugs.contains(slug)));
        if let Some(slugs) = whole {
            slugs.retain(|slug| !all.contains(slug));
            slugs.push(chapter.as_str());
        }
    }
    for (why, slugs) in reasons {
        let text = format!("{}: {}", visible::line(why), slugs.join(", "));
        prose(out, &Head { text: "  skipped: ", columns: 11, indent: 4 }, &text);
    }
}

/// The skipped rules on one line, with the options that check more of them.
fn skipped(out: &mut String, checked: &RuleResults) {
    let whys: Vec<&str> = checked.results.iter().filter_map(RuleResult::skipped).collect();
    if whys.is_empty() {
        return;
    }
    let mut options: Vec<&str> = whys
        .iter()
        .flat_map(|why| why.split([' ', '(', ')']).filter(|word| word.starts_with("--")))
        .map(|option| option.trim_end_matches([',', '.', ';']))
        .collect();
    options.sort_unstable();
    options.dedup();
    let more = match &options[..] {
        [] => String::new(),
        [option] => format!("; {option} checks more"),
        options => format!("; {} check more", options.join(", ")),
    };
    let text = format!("not applicable, the server did nothing that these rules check (-v lists them{more})");
    let label = format!("  {FAINT}skipped {}:{FAINT:#} ", whys.len());
    let columns = 12 + whys.len().to_string().len();
    prose(out, &Head { text: &label, columns, indent: 2 }, &text);
}

/// The entries of the baseline that were not found again.
fn stale(out: &mut String, compared: &Comparison) {
    if compared.stale.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "{HEADING}{}{HEADING:#}: {} not found again (--update-baseline removes them)",
        compared.file,
        compared.stale.len()
    );
    for stale in &compared.stale {
        let server = stale.server.as_ref().map(|server| format!("{}, ", visible::line(server)));
        let text = format!(
            "{}{}: {} ({})",
            server.unwrap_or_default(),
            visible::line(&stale.rule),
            visible::line(&cut_chars(&stale.problem, MAX_SHOWN_CHARS)),
            visible::line(&stale.run)
        );
        prose(out, &Head { text: "  ", columns: 2, indent: 4 }, &text);
    }
}

/// The numbers of servers by result. With `--eras`: how many of them an opener opens.
fn servers(out: &mut String, document: &Document) {
    let (mut passed, mut faulty, mut failed, mut open, mut shut) = (0, 0, 0, 0, 0);
    for server in &document.servers {
        match &server.outcome {
            Ok(Examination::Rules(report)) if report.has_failed(document.least) => faulty += 1,
            Ok(Examination::Rules(RuleResults { unauthorized: Some(_), .. })) => failed += 1,
            Ok(Examination::Rules(_)) => passed += 1,
            Ok(Examination::Openers(rows)) if rows.iter().any(openers::Row::is_open) => open += 1,
            Ok(Examination::Openers(_)) => shut += 1,
            Err(_) => failed += 1,
        }
    }
    let of = if open + shut > 0 {
        format!("{open} accept an opening request, {shut} accept none, {failed} not reached")
    } else {
        format!("{passed} without faults, {faulty} with faults, {failed} not checked")
    };
    let _ = writeln!(out, "{HEADING}{} servers{HEADING:#}: {of}", document.servers.len());
}

/// The rules for a person (`validate --rules`).
pub(super) fn book(rules: impl Iterator<Item = &'static Rule>) -> String {
    let mut out = String::new();
    let mut last = None;
    for rule in rules {
        if last.replace(rule.chapter) != Some(rule.chapter) {
            let gap = if out.is_empty() { "" } else { "\n" };
            let chapter = rule.chapter;
            let _ = writeln!(out, "{gap}{HEADING}{}{HEADING:#} ({})", chapter.title(), chapter.as_str());
        }
        let _ =
            writeln!(out, "  {NAME}{}{NAME:#} {}, {}", rule.slug, rule.level().as_str(), revisions_of(rule));
        let _ = writeln!(out, "    {}", rule.sentence);
        let _ = writeln!(out, "    {FAINT}{}{FAINT:#}", rule.address().unwrap_or_default());
    }
    out
}

fn revisions_of(rule: &Rule) -> String {
    match (rule.first(), rule.last()) {
        (Some(first), Some(last)) if first.as_str() == last.as_str() => first.to_string(),
        (Some(first), Some(last)) => format!("{first} to {last}"),
        _ => String::new(),
    }
}
