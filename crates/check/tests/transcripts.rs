//! Every rule on transcripts: where it holds nobody accuses, and where it is broken it alone does.
//!
//! The files in `transcripts/` read so:
//!
//! ```text
//! ## RULE                          what follows is about this rule
//! passes 2025-11-25                a server by this revision that keeps it: it passes, no rule accuses
//! passes nothing 2025-11-25        it has nothing to judge, and no rule accuses
//! fails 2025-11-25                 one that breaks it: it accuses, and no other rule does
//!   ping > {~,"id":1 ..}           what we send, with the name of the probe
//!   < {~,"id":1 ..}                what comes; \xNN is a byte
//!   after 11s                      time passes
//!   = 2025-06-18                   another run, by that revision
//!   input closed, output ended, ended 0, ended by signal 9, ended by force
//! ```
//!
//! `~` stands for `"jsonrpc":"2.0"`, `@` for the `_meta` of a modern request, `%` for the members that every modern
//! result has, `^` for the hints of one that may be kept.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

use std::collections::BTreeMap;
use std::time::Duration;

use mcpjoin_check::{
    Ended, Finding, Level, Line, Outcome, Probe, Report, Run, Selection, Trace, What, judge, rules,
};
use mcpjoin_proto::Version;
use mcpjoin_proto::session::ProcessExit;

const FILES: [(&str, &str); 4] = [
    ("base.txt", include_str!("transcripts/base.txt")),
    ("lifecycle.txt", include_str!("transcripts/lifecycle.txt")),
    ("modern.txt", include_str!("transcripts/modern.txt")),
    ("stdio.txt", include_str!("transcripts/stdio.txt")),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wanted {
    Passes,
    Nothing,
    Fails,
}

/// One server that was looked at, and what is to be said of it.
struct Case {
    place: String,
    rule: &'static str,
    wanted: Wanted,
    trace: Trace,
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (file, text) in FILES {
        let mut rule = "";
        for (number, line) in text.lines().enumerate() {
            let place = format!("{file}:{}", number + 1);
            if line.is_empty() || line.starts_with("# ") {
                continue;
            }
            if let Some(name) = line.strip_prefix("## ") {
                rule = name;
            } else if let Some(event) = line.strip_prefix("  ") {
                add(&mut cases.last_mut().unwrap().trace, event, &place);
            } else {
                let (words, wanted) = match line.strip_prefix("passes nothing ") {
                    Some(words) => (words, Wanted::Nothing),
                    None => match line.split_once(' ').unwrap() {
                        ("passes", words) => (words, Wanted::Passes),
                        ("fails", words) => (words, Wanted::Fails),
                        _ => panic!("{place}: {line}"),
                    },
                };
                let mut trace = Trace::default();
                trace.runs.push(Run::new("first", version(words.split(' ').next().unwrap(), &place)));
                cases.push(Case { place, rule, wanted, trace });
            }
        }
    }
    cases
}

#[track_caller]
fn version(name: &str, place: &str) -> Version {
    let version = Version::parse(name);
    assert!(version.era().is_some(), "{place}: {name}");
    version
}

fn add(trace: &mut Trace, event: &str, place: &str) {
    if let Some(name) = event.strip_prefix("= ") {
        trace.runs.push(Run::new("next", version(name, place)));
        return;
    }
    let run = trace.runs.last_mut().unwrap();
    let now = run.events.last().map_or(Duration::ZERO, |event| event.at);
    if let Some(line) = event.strip_prefix("< ") {
        run.note(now, What::Received(Line::new(bytes(line))));
    } else if let Some((name, line)) = event.split_once(" > ") {
        let probe = Probe::ALL.iter().find(|probe| probe.as_str() == name);
        let probe = *probe.unwrap_or_else(|| panic!("{place}: no probe {name}"));
        run.note(now, What::Sent(probe, Line::new(bytes(line))));
    } else if let Some(seconds) = event.strip_prefix("after ") {
        let seconds = seconds.strip_suffix('s').unwrap().parse().unwrap();
        // The time stands at an event: this one changes nothing.
        run.note(
            now + Duration::from_secs(seconds),
            What::Sent(Probe::Answer, Line::new("{\"jsonrpc\":\"2.0\",\"id\":\"later\",\"result\":{}}")),
        );
    } else if event == "input closed" {
        run.note(now, What::InputClosed);
    } else if event == "output ended" {
        run.note(now, What::OutputEnded);
    } else if let Some(how) = event.strip_prefix("ended ") {
        let exit = match how.strip_prefix("by signal ") {
            Some(signal) => Some(ProcessExit::Signal(signal.parse().unwrap())),
            None => how.parse().ok().map(ProcessExit::Code),
        };
        run.note(now, What::Ended(Ended { exit, forced: how == "by force" }));
    } else {
        panic!("{place}: {event}");
    }
}

fn bytes(line: &str) -> Vec<u8> {
    let line = line
        .replace('~', r#""jsonrpc":"2.0""#)
        .replace('@', r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#)
        .replace('%', r#""resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}"#)
        .replace('^', r#""ttlMs":0,"cacheScope":"private""#);
    let mut parts = line.split("\\x");
    let mut out = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        out.push(u8::from_str_radix(&part[..2], 16).unwrap());
        out.extend_from_slice(&part.as_bytes()[2..]);
    }
    out
}

fn accused(report: &Report) -> Vec<&'static str> {
    report.failed().map(|verdict| verdict.rule.slug).collect()
}

#[test]
fn f27_every_rule_finds_its_fault_and_no_other_accuses() {
    let mut wrong = Vec::new();
    for case in cases() {
        let report = judge(&case.trace, &Selection::default());
        let accused = accused(&report);
        let own = report.verdicts.iter().find(|verdict| verdict.rule.slug == case.rule);
        let outcome = &own.unwrap_or_else(|| panic!("{}: no rule {}", case.place, case.rule)).outcome;
        let right = match case.wanted {
            Wanted::Passes => accused.is_empty() && *outcome == Outcome::Passed,
            Wanted::Nothing => accused.is_empty() && matches!(outcome, Outcome::Skipped(_)),
            Wanted::Fails => accused == [case.rule],
        };
        if !right {
            wrong.push(format!(
                "{}: {} {:?}, but {outcome:?}; accused by {accused:?}",
                case.place, case.rule, case.wanted
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn f27_every_rule_has_a_transcript_that_passes_and_one_that_fails() {
    let mut known: BTreeMap<&str, (bool, bool)> = BTreeMap::new();
    for case in cases() {
        let known = known.entry(case.rule).or_default();
        known.0 |= case.wanted == Wanted::Passes;
        known.1 |= case.wanted == Wanted::Fails;
    }
    let without: Vec<&str> =
        rules().map(|rule| rule.slug).filter(|slug| known.get(slug) != Some(&(true, true))).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn the_book_is_in_order() {
    let mut slugs: Vec<&str> = Vec::new();
    for rule in rules() {
        assert!(!slugs.contains(&rule.slug), "{} stands twice", rule.slug);
        slugs.push(rule.slug);
        assert!(rule.sentence.ends_with('.') && rule.sentence.len() < 160, "{}", rule.sentence);
        assert!(!rule.sources.is_empty(), "{}", rule.slug);
        for version in &Version::ALL {
            let sources = rule.sources.iter().filter(|source| source.revisions.contains(version)).count();
            assert!(sources <= 1, "{} has {sources} sources for {version}", rule.slug);
        }
        assert!(rule.address().unwrap().starts_with("https://"), "{}", rule.slug);
    }
    assert!(rules().is_sorted_by_key(|rule| rule.chapter), "the chapters are mixed");
}

#[test]
fn rules_are_selected_by_name_and_by_chapter() {
    let count = |only: &[&str], without: &[&str]| {
        let selection = Selection::new(only.iter().copied(), without.iter().copied()).unwrap();
        rules().filter(|rule| selection.has(rule)).count()
    };
    let all = rules().count();
    assert_eq!(count(&[], &[]), all);
    assert_eq!(count(&["id-type"], &[]), 1);
    assert_eq!(count(&["base", "lifecycle", "stdio"], &[]), all);
    assert_eq!(count(&[], &["stdio"]) + count(&["stdio"], &[]), all);
    assert_eq!(count(&["stdio"], &["utf-8"]) + 1, count(&["stdio"], &[]));
    assert_eq!(Selection::new(["nothing"], []).unwrap_err().0, "nothing");
}

#[test]
fn a_finding_says_where_and_how_bindingly() {
    let mut run = Run::new("a look", Version::parse("2024-11-05"));
    run.sent(Probe::UnknownMethod, r#"{"jsonrpc":"2.0","id":1,"method":"none"}"#);
    run.received(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    let trace = Trace { runs: vec![run], ..Trace::default() };
    let report = judge(&trace, &Selection::default());
    let [verdict] = report.failed().collect::<Vec<_>>()[..] else { panic!("{:?}", accused(&report)) };
    let Outcome::Failed(findings) = &verdict.outcome else { panic!("{verdict:?}") };
    let [Finding { run, version, level, sent, received, .. }] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((&**run, version.as_str(), *level), ("a look", "2024-11-05", Level::Must));
    assert!(sent.as_ref().unwrap().ends_with(b"\"none\"}") && received.as_ref().unwrap().ends_with(b"{}}"));
    assert!(report.has_failed(Level::Must));
    assert_eq!(report.ran() + report.skipped().count(), rules().count());
}

#[test]
fn a_run_by_a_revision_that_is_not_known_is_judged_by_no_rule() {
    let mut run = Run::new("a look", Version::parse("1999-01-01"));
    run.received("nonsense");
    let trace = Trace { runs: vec![run], ..Trace::default() };
    assert_eq!(judge(&trace, &Selection::default()).ran(), 0);
}
