//! The report for a person: chapter by chapter, each fault with the message that shows it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write;
use std::time::Duration;

use mcpjoin_rules::{Chapter, Level, Rule};
use unicode_width::UnicodeWidthStr as _;

use super::openers;
use super::report::{
    Comparison, Document, Examination, Finding, MAX_TEXT_CHARS, RuleOutcome, RuleResult, RuleResults, Server,
};
use crate::fold::{Head, PAGE_COLUMNS, prose, quoted};
use crate::ui::{BAD, FAINT, HEADING, NAME, Ui};
use crate::visible::{self, cut_chars};

/// The maximum number of findings of a rule.
const MAX_FINDINGS: usize = 3;
/// The longest command of a server.
const MAX_NAME_CHARS: usize = 200;
/// The longest message, and the longest problem.
const MAX_SHOWN_CHARS: usize = 300;

/// The whole report. `all`: with the rules that passed.
pub(super) fn document(ui: &Ui, document: &Document, all: bool) -> String {
    let mut out = String::new();
    for server in &document.servers {
        match &server.outcome {
            Ok(Examination::Rules(judged)) => self::judged(&mut out, server, judged, all),
            Ok(Examination::Openers(rows)) => openers::table(&mut out, &server.shown, rows),
            // The failure of a single server is printed as for every verb.
            Err(_) if !document.several => continue,
            Err(failure) => {
                let problem = ui.hidden(&failure.message);
                let name = visible::line(&server.shown);
                let _ = writeln!(
                    out,
                    "{HEADING}{}{HEADING:#}\n",
                    visible::line(&cut_chars(&name, MAX_NAME_CHARS))
                );
                let text = format!("  {BAD}not judged{BAD:#}: ");
                let problem =
                    format!("{} ({})", visible::line(&cut_chars(&problem, MAX_SHOWN_CHARS)), failure.id);
                prose(&mut out, &Head { text: &text, columns: 14, indent: 4 }, &problem);
            }
        }
        if document.several {
            out.push('\n');
        }
    }
    if let Some(compared) = &document.baseline {
        stale(&mut out, compared);
    }
    if document.several {
        servers(&mut out, document);
    }
    out
}

fn judged(out: &mut String, server: &Server, judged: &RuleResults, all: bool) {
    let name = if server.place.is_some() && server.label != server.shown {
        format!("{}: {}", server.label, server.shown)
    } else {
        server.shown.clone()
    };
    heading(out, &name, judged, server.took);
    for chapter in Chapter::ALL {
        let results: Vec<&RuleResult> =
            judged.results.iter().filter(|result| result.rule.chapter == chapter).collect();
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
        for result in results {
            match &result.outcome {
                RuleOutcome::Failed(places) => broken(out, result, &places.found),
                RuleOutcome::Passed if all => {
                    let _ = writeln!(out, "  {NAME}{}{NAME:#} passed", result.rule.slug);
                }
                RuleOutcome::Passed | RuleOutcome::Skipped(_) => {}
            }
        }
    }
    summary(out, judged, all);
    if let Some(clients) = &judged.clients {
        clients.page(out);
    }
}

fn heading(out: &mut String, shown: &str, judged: &RuleResults, took: Duration) {
    let mut versions: Vec<&str> = Vec::new();
    for run in &judged.runs {
        if !versions.contains(&run.version.as_str()) {
            versions.push(run.version.as_str());
        }
    }
    let versions = versions.join(", ");
    let rest = format!(
        ", protocol {}, {} {} in {:.1} s",
        visible::line(&versions),
        judged.runs.len(),
        if judged.runs.len() == 1 { "run" } else { "runs" },
        took.as_secs_f64()
    );
    titled(out, shown, &rest);
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

fn broken(out: &mut String, result: &RuleResult, findings: &[Finding]) {
    let rule = result.rule;
    let known = findings.iter().filter(|found| found.known).count();
    let Some(level) = result.fault() else {
        sentence(out, &format!("{FAINT}known{FAINT:#}"), "known".len(), rule);
        return;
    };
    let label =
        if level == Level::Must { format!("{BAD}{}{BAD:#}", level.as_str()) } else { level.as_str().into() };
    sentence(out, &label, level.as_str().len(), rule);
    for found in findings.iter().filter(|found| !found.known).take(MAX_FINDINGS) {
        let problem = cut_chars(&found.problem, MAX_SHOWN_CHARS);
        let times = if found.count > 1 { format!(", {} times", found.count) } else { String::new() };
        let problem = format!("{} ({}{times})", visible::line(&problem), visible::line(&found.run));
        prose(out, &Head { text: "    ", columns: 4, indent: 4 }, &problem);
        for (name, line) in [("sent", &found.sent), ("received", &found.received)] {
            if let Some(line) = line {
                let text = format!("    {FAINT}{name:<8}{FAINT:#} ");
                let shown: String = line.chars().take(MAX_SHOWN_CHARS).collect();
                let head = Head { text: &text, columns: 13, indent: 13 };
                quoted(out, &head, &visible::line(&shown), omitted(line).as_deref());
            }
        }
        let _ = writeln!(out, "    {FAINT}see{FAINT:#}      {}", found.address);
    }
    let more = (findings.len() + result.omitted() - known).saturating_sub(MAX_FINDINGS);
    if more > 0 {
        let _ = writeln!(out, "    and {more} more");
    }
    if known > 0 {
        let _ = writeln!(out, "    and {known} that the baseline has");
    }
}

/// A rule behind its level. `columns`: the width of the level.
fn sentence(out: &mut String, label: &str, columns: usize, rule: &Rule) {
    let text = format!("  {label} {NAME}{}{NAME:#}: ", rule.slug);
    let columns = columns + rule.slug.len() + 5;
    prose(out, &Head { text: &text, columns, indent: 4 }, rule.sentence);
}

/// How much of a line is not shown.
fn omitted(line: &str) -> Option<String> {
    let all = line.chars().count();
    // A line that was truncated before ends like this.
    let more = if all > MAX_TEXT_CHARS && line.ends_with('…') { "more than " } else { "" };
    (all > MAX_SHOWN_CHARS)
        .then(|| format!("the first {MAX_SHOWN_CHARS} of {more}{} characters", all.min(MAX_TEXT_CHARS)))
}

/// The numbers of rules. `all`: also the skipped rules, with the reason of each.
fn summary(out: &mut String, judged: &RuleResults, all: bool) {
    let counts = judged.counts();
    let of = |level: Level| {
        let count = judged.results.iter().filter(|result| result.fault() == Some(level)).count();
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
        return skipped(out, judged);
    }
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for result in &judged.results {
        if let RuleOutcome::Skipped(why) = &result.outcome {
            reasons.entry(why).or_default().push(result.rule.slug);
        }
    }
    for chapter in Chapter::ALL {
        let of = |result: &&RuleResult| result.rule.chapter == chapter;
        let all: Vec<&str> = judged.results.iter().filter(of).map(|result| result.rule.slug).collect();
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

/// The skipped rules in a few lines: a chapter that was not tested, options that would test more, and the rest.
fn skipped(out: &mut String, judged: &RuleResults) {
    let mut groups: BTreeMap<String, usize> = BTreeMap::new();
    let (mut order, mut rest) = (Vec::new(), 0);
    for chapter in Chapter::ALL {
        let results: Vec<&RuleResult> =
            judged.results.iter().filter(|result| result.rule.chapter == chapter).collect();
        let whys: Vec<&str> = results.iter().filter_map(|result| result.skipped()).collect();
        let whole = whys.len() == results.len() && whys.windows(2).all(|two| two[0] == two[1]);
        for why in &whys {
            let group = match why.split_once(": see --") {
                Some((_, options)) => format!("--{options} would show more"),
                None if whole && whys.len() > 1 => (*why).to_owned(),
                None => {
                    rest += 1;
                    continue;
                }
            };
            match groups.entry(group) {
                Entry::Vacant(entry) => {
                    order.push(entry.key().clone());
                    entry.insert(1);
                }
                Entry::Occupied(mut entry) => *entry.get_mut() += 1,
            }
        }
    }
    let mut lines: Vec<(usize, String)> =
        order.into_iter().map(|group| (groups.get(&group).copied().unwrap_or_default(), group)).collect();
    if rest > 0 {
        lines.push((rest, "nothing of what they judge was seen (-v says which, and why each)".into()));
    }
    for (count, why) in lines {
        let text = format!("  {FAINT}skipped {count:>3}:{FAINT:#} ");
        prose(out, &Head { text: &text, columns: 15, indent: 15 }, &visible::line(&why));
    }
}

/// The entries of the baseline that were not found again.
fn stale(out: &mut String, compared: &Comparison) {
    if compared.stale.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "{HEADING}{}{HEADING:#}: {} found no longer (--update-baseline takes them out)",
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
    let (mut judged, mut faulty, mut failed, mut open, mut shut) = (0, 0, 0, 0, 0);
    for server in &document.servers {
        match &server.outcome {
            Ok(Examination::Rules(report)) if report.has_failed(document.least) => faulty += 1,
            Ok(Examination::Rules(RuleResults { unauthorized: Some(_), .. })) => failed += 1,
            Ok(Examination::Rules(_)) => judged += 1,
            Ok(Examination::Openers(rows)) if rows.iter().any(openers::Row::is_open) => open += 1,
            Ok(Examination::Openers(_)) => shut += 1,
            Err(_) => failed += 1,
        }
    }
    let of = if open + shut > 0 {
        format!("{open} opened by some opener, {shut} by none, {failed} not reached; nothing was judged")
    } else {
        format!("{judged} without faults, {faulty} with faults, {failed} not judged")
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
        let _ = writeln!(out, "  {NAME}{}{NAME:#} {}, {}", rule.slug, rule.level().as_str(), revisions(rule));
        let _ = writeln!(out, "    {}", rule.sentence);
        let _ = writeln!(out, "    {FAINT}{}{FAINT:#}", rule.address().unwrap_or_default());
    }
    out
}

fn revisions(rule: &Rule) -> String {
    match (rule.first(), rule.last()) {
        (Some(first), Some(last)) if first.as_str() == last.as_str() => first.to_string(),
        (Some(first), Some(last)) => format!("{first} to {last}"),
        _ => String::new(),
    }
}
