//! The report for a person: chapter by chapter, each fault with the message that shows it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use mcpjoin::check::{Chapter, Level};

use super::openers;
use super::report::{Compared, Document, Found, Judged, Ruling, Said, Seen, Server, cut};
use crate::ui::{BAD, FAINT, HEADING, NAME, Ui};
use crate::visible;

/// Of the places where one rule was broken, so many are shown.
const FINDINGS: usize = 3;
/// A line is cut after so many characters.
const SHOWN: usize = 300;

/// All of it. `all`: the rules that held, too.
pub(super) fn document(ui: &Ui, document: &Document, all: bool) -> String {
    let mut out = String::new();
    for server in &document.servers {
        match &server.seen {
            Ok(Seen::Judged(judged)) => self::judged(&mut out, server, judged, all),
            Ok(Seen::Openers(rows)) => openers::table(&mut out, &server.shown, rows),
            // One that stands alone is told as every failure is.
            Err(_) if !document.several => continue,
            Err(failure) => {
                let problem = ui.hidden(&failure.message);
                let _ = writeln!(
                    out,
                    "{HEADING}{}{HEADING:#}\n\n  {BAD}not judged{BAD:#}: {} {FAINT}({}){FAINT:#}",
                    visible::line(&server.shown),
                    visible::line(&problem),
                    failure.id
                );
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

fn judged(out: &mut String, server: &Server, judged: &Judged, all: bool) {
    let name = if server.place.is_some() && server.label != server.shown {
        format!("{}: {}", server.label, server.shown)
    } else {
        server.shown.clone()
    };
    heading(out, &name, judged, server.took);
    for chapter in Chapter::ALL {
        let rulings: Vec<&Ruling> =
            judged.rulings.iter().filter(|ruling| ruling.rule.chapter == chapter).collect();
        let counts = Ruling::counts(rulings.iter().copied());
        if counts.ran() == 0 {
            // The summary says why.
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
        for ruling in rulings {
            match &ruling.said {
                Said::Failed(places) => broken(out, ruling, &places.found),
                Said::Passed if all => {
                    let _ = writeln!(out, "  {NAME}{}{NAME:#} passed", ruling.rule.slug);
                }
                Said::Passed | Said::Skipped(_) => {}
            }
        }
    }
    summary(out, judged);
    if let Some(clients) = &judged.clients {
        clients.page(out);
    }
}

fn heading(out: &mut String, shown: &str, judged: &Judged, took: Duration) {
    let mut versions: Vec<&str> = Vec::new();
    for run in &judged.runs {
        if !versions.contains(&run.version.as_str()) {
            versions.push(run.version.as_str());
        }
    }
    let _ = writeln!(
        out,
        "{HEADING}{}{HEADING:#}, protocol {}, {} runs in {:.1} s",
        visible::line(shown),
        visible::line(&versions.join(", ")),
        judged.runs.len(),
        took.as_secs_f64()
    );
}

fn broken(out: &mut String, ruling: &Ruling, findings: &[Found]) {
    let rule = ruling.rule;
    let known = findings.iter().filter(|found| found.known).count();
    let Some(level) = ruling.fault() else {
        let _ = writeln!(out, "  {FAINT}known{FAINT:#} {NAME}{}{NAME:#}: {}", rule.slug, rule.sentence);
        return;
    };
    let label =
        if level == Level::Must { format!("{BAD}{}{BAD:#}", level.as_str()) } else { level.as_str().into() };
    let _ = writeln!(out, "  {label} {NAME}{}{NAME:#}: {}", rule.slug, rule.sentence);
    for found in findings.iter().filter(|found| !found.known).take(FINDINGS) {
        let problem = cut(&found.problem, SHOWN);
        let times = if found.count > 1 { format!(", {} times", found.count) } else { String::new() };
        let _ = writeln!(
            out,
            "    {} {FAINT}({}{times}){FAINT:#}",
            visible::line(&problem),
            visible::line(&found.run)
        );
        for (name, line) in [("sent", &found.sent), ("received", &found.received)] {
            if let Some(line) = line {
                let _ = writeln!(out, "    {FAINT}{name:<8}{FAINT:#} {}", visible::line(&cut(line, SHOWN)));
            }
        }
        let _ = writeln!(out, "    {FAINT}see{FAINT:#}      {}", found.address);
    }
    let more = (findings.len() + ruling.left_out() - known).saturating_sub(FINDINGS);
    if more > 0 {
        let _ = writeln!(out, "    and {more} more");
    }
    if known > 0 {
        let _ = writeln!(out, "    and {known} that the baseline has");
    }
}

/// What ran and what did not, and why not: always all of it.
fn summary(out: &mut String, judged: &Judged) {
    let counts = judged.counts();
    let of = |level: Level| {
        let count = judged.rulings.iter().filter(|ruling| ruling.fault() == Some(level)).count();
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
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for ruling in &judged.rulings {
        if let Said::Skipped(why) = &ruling.said {
            reasons.entry(why).or_default().push(ruling.rule.slug);
        }
    }
    for chapter in Chapter::ALL {
        let of = |ruling: &&Ruling| ruling.rule.chapter == chapter;
        let all: Vec<&str> = judged.rulings.iter().filter(of).map(|ruling| ruling.rule.slug).collect();
        // A chapter is said in one word when all of it is skipped for one reason.
        let whole =
            reasons.values_mut().find(|slugs| all.len() > 1 && all.iter().all(|slug| slugs.contains(slug)));
        if let Some(slugs) = whole {
            slugs.retain(|slug| !all.contains(slug));
            slugs.push(chapter.as_str());
        }
    }
    for (why, slugs) in reasons {
        let _ = writeln!(out, "  {FAINT}skipped: {}:{FAINT:#} {}", visible::line(why), slugs.join(", "));
    }
}

/// What the baseline has and nobody finds any more.
fn stale(out: &mut String, compared: &Compared) {
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
        let _ = writeln!(
            out,
            "  {}{NAME}{}{NAME:#}: {} {FAINT}({}){FAINT:#}",
            server.unwrap_or_default(),
            visible::line(&stale.rule),
            visible::line(&stale.problem),
            visible::line(&stale.run)
        );
    }
}

/// How many servers came to what.
fn servers(out: &mut String, document: &Document) {
    let (mut judged, mut faulty, mut failed) = (0, 0, 0);
    for server in &document.servers {
        match &server.seen {
            Ok(Seen::Judged(report)) if report.has_failed(document.least) => faulty += 1,
            Ok(_) => judged += 1,
            Err(_) => failed += 1,
        }
    }
    let _ = writeln!(
        out,
        "{HEADING}{} servers{HEADING:#}: {judged} without faults, {faulty} with faults, {failed} not judged",
        document.servers.len()
    );
}
