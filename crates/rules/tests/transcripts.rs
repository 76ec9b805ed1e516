//! Tests of every rule for servers on transcripts: a server that keeps the rule has no finding, and a server that violates
//! it has findings of this rule only.
//!
//! The format of the files in `transcripts/`:
//!
//! ```text
//! ## RULE                          the following cases are about this rule
//! passes 2025-11-25                a server of this revision that keeps it: it passes, no rule has a finding
//! passes nothing 2025-11-25        the rule does not apply, and no rule has a finding
//! fails 2025-11-25                 a server that violates it: it has findings, and no other rule has
//!   ping > {~,"id":1 ..}           our message, with the name of the probe
//!   < {~,"id":1 ..}                a received message; \xNN is a byte
//!   after 11s                      time passes
//!   = 2025-06-18                   another run, of that revision
//!   input closed, output ended, ended 0, ended by signal 9, ended by force
//! passes 2025-11-25 http           over Streamable HTTP; `http-sse`: over HTTP+SSE
//!   1 POST ping [name: value; ..] > {~,"id":1 ..}     the first exchange: our request, with headers and body
//!   1 json {~,"id":1 ..}           the response: 200, a body of JSON, its end
//!   1 404 {~, ..}                  the same with another status, and any body or none
//!   1 head 200 [name: value; ..]   only a head; `1 sse`: the head of a stream
//!   1 < {~,"id":1 ..}              a message in the body
//!   1 event name=a id=b < data     an event
//!   1 retry 500                    the retry time of the stream, in milliseconds
//!   1 ended, 1 left, 1 broke       how the body ended
//!   2 GET probe at URL             a request to another address than the server's
//!   2 document {..}                a JSON document; `2 404` and the other forms work as well
//! ```
//!
//! `~` means `"jsonrpc":"2.0"`, `@` the `_meta` of a modern request, `%` the members of every modern result, `^` the cache
//! hints of a result.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

#[path = "transcripts/client.rs"]
mod client;
#[path = "transcripts/flood.rs"]
mod flood;
mod sentences;

use std::collections::BTreeMap;
use std::time::Duration;

use mcpjoin_proto::Version;
use mcpjoin_proto::codec::sse::Event;
use mcpjoin_proto::session::ProcessExit;
use mcpjoin_rules::{
    BodyEnd, Channel, Ended, Finding, HttpRequest, HttpResponse, Level, Line, Outcome, Probe, Report, Rule,
    Run, Selection, Trace, What, check_server, client_rules, rules,
};

const FILES: [(&str, &str); 14] = [
    ("authorization.txt", include_str!("transcripts/authorization.txt")),
    ("base.txt", include_str!("transcripts/base.txt")),
    ("content.txt", include_str!("transcripts/content.txt")),
    ("http.txt", include_str!("transcripts/http.txt")),
    ("http-modern.txt", include_str!("transcripts/http-modern.txt")),
    ("lifecycle.txt", include_str!("transcripts/lifecycle.txt")),
    ("modern.txt", include_str!("transcripts/modern.txt")),
    ("patterns.txt", include_str!("transcripts/patterns.txt")),
    ("prompts.txt", include_str!("transcripts/prompts.txt")),
    ("resources.txt", include_str!("transcripts/resources.txt")),
    ("resilience.txt", include_str!("transcripts/resilience.txt")),
    ("stdio.txt", include_str!("transcripts/stdio.txt")),
    ("tools.txt", include_str!("transcripts/tools.txt")),
    ("utilities.txt", include_str!("transcripts/utilities.txt")),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wanted {
    Passes,
    Nothing,
    Fails,
}

/// One case: the trace of a server, and the expected result of a rule.
struct Case {
    place: String,
    rule: &'static str,
    wanted: Wanted,
    trace: Trace,
}

/// The cases of files. `add` adds a line of a case to its trace; it gets the place of the line as well.
fn read(files: &[(&str, &'static str)], add: impl Fn(&mut Trace, &str, &str)) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (file, text) in files {
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
                trace.runs.push(opened("first", words, &place));
                cases.push(Case { place, rule, wanted, trace });
            }
        }
    }
    cases
}

fn cases() -> Vec<Case> {
    let mut cases = read(&FILES, add);
    // Only the rules of this chapter apply to the runs under stress.
    for case in cases.iter_mut().filter(|case| case.place.starts_with("resilience.txt")) {
        case.trace.stress = std::mem::take(&mut case.trace.runs);
    }
    // Only the rules of this chapter apply to requests without a token.
    for case in cases.iter_mut().filter(|case| case.place.starts_with("authorization.txt")) {
        case.trace.authorization = case.trace.runs.pop();
    }
    cases
}

#[track_caller]
fn version(name: &str, place: &str) -> Version {
    let version = Version::parse(name);
    assert!(version.era().is_some(), "{place}: {name}");
    version
}

#[track_caller]
fn probe(name: &str, place: &str) -> Probe {
    let known = Probe::ALL.into_iter().find(|probe| probe.as_str() == name);
    known.unwrap_or_else(|| panic!("{place}: no probe {name}"))
}

/// A run from the words of its first line: a version, and optionally the transport.
#[track_caller]
fn opened(name: &str, words: &str, place: &str) -> Run {
    // Words behind these are a note for the reader.
    let mut words = words.split(' ');
    Run::new(name, version(words.next().unwrap(), place)).over(match words.next() {
        Some("http") => Channel::StreamableHttp,
        Some("http-sse") => Channel::HttpSse,
        _ => Channel::Stdio,
    })
}

/// Splits `[name: value; name: value]` from the text behind it.
fn headers(text: &str) -> (Vec<(Box<str>, bytes::Bytes)>, &str) {
    let Some((inside, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) else {
        return (Vec::new(), text);
    };
    let pairs = inside.split("; ").map(|pair| pair.split_once(": ").unwrap());
    (pairs.map(|(name, value)| (name.into(), value.to_owned().into())).collect(), rest.trim_start())
}

/// Adds one part of an HTTP exchange to a run.
fn exchanged(run: &mut Run, number: u32, event: &str, place: &str) {
    let now = run.events.last().map_or(Duration::ZERO, |event| event.at);
    let channel = run.channel;
    let mut note = |what| run.note_in(number, now, what);
    let (word, rest) = event.split_once(' ').unwrap_or((event, ""));
    let head = |status, headers: &[(&str, &str)]| {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).to_owned().into()));
        What::Responded(HttpResponse { status, headers: headers.collect() })
    };
    match word {
        "POST" | "GET" | "DELETE" => {
            let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let probe = probe(name, place);
            let url = rest.strip_prefix("at ").unwrap_or("http://localhost/mcp").into();
            let (headers, rest) = headers(rest);
            note(What::Requested(probe, HttpRequest { method: word.into(), url, headers }));
            if let Some(line) = rest.strip_prefix("> ") {
                note(What::Sent(probe, Line::new(bytes(line))));
            }
        }
        "document" => {
            note(head(200, &[("content-type", "application/json")]));
            note(What::Body(rest.to_owned().into()));
            note(What::BodyEnded(BodyEnd::Complete));
        }
        "head" => {
            let (status, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let (headers, _) = headers(rest);
            note(What::Responded(HttpResponse { status: status.parse().unwrap(), headers }));
        }
        "sse" => {
            let headers = [("content-type", "text/event-stream"), ("x-accel-buffering", "no")];
            note(head(200, &headers));
        }
        "event" => {
            let (words, data) = rest.split_once("< ").unwrap_or((rest, ""));
            let field = |name: &str| {
                let mut values = words.split(' ').filter_map(|word| word.strip_prefix(name));
                values.next().map(|value| value.to_owned().into())
            };
            let event = Event { name: field("name="), id: field("id="), data: bytes(data).into() };
            let named = event.name.as_ref().is_none_or(|name| name == "message");
            let message = named || channel == Channel::HttpSse && data.starts_with('{');
            note(What::Streamed(event));
            if message && !data.is_empty() {
                note(What::Received(Line::new(bytes(data))));
            }
        }
        "<" => note(What::Received(Line::new(bytes(rest)))),
        "retry" => note(What::Retry(Duration::from_millis(rest.parse().unwrap()))),
        "ended" => note(What::BodyEnded(BodyEnd::Complete)),
        "left" => note(What::BodyEnded(BodyEnd::Left)),
        "broke" => note(What::BodyEnded(BodyEnd::Broken("the connection was reset".into()))),
        status => {
            let status = if status == "json" { 200 } else { status.parse().unwrap() };
            if rest.starts_with(['{', '[']) {
                note(head(status, &[("content-type", "application/json")]));
                note(What::Received(Line::new(bytes(rest))));
            } else {
                note(head(status, &[]));
                note(What::Body(rest.to_owned().into()));
            }
            note(What::BodyEnded(BodyEnd::Complete));
        }
    }
}

fn add(trace: &mut Trace, event: &str, place: &str) {
    if let Some(words) = event.strip_prefix("= ") {
        trace.runs.push(opened("next", words, place));
        return;
    }
    let run = trace.runs.last_mut().unwrap();
    if let Some((number, event)) = event.split_once(' ')
        && let Ok(number) = number.parse()
    {
        exchanged(run, number, event, place);
        return;
    }
    let now = run.events.last().map_or(Duration::ZERO, |event| event.at);
    if let Some(line) = event.strip_prefix("< ") {
        run.note(now, What::Received(Line::new(bytes(line))));
    } else if let Some((name, line)) = event.split_once(" > ") {
        run.note(now, What::Sent(probe(name, place), Line::new(bytes(line))));
    } else if let Some(seconds) = event.strip_prefix("after ") {
        let seconds = seconds.strip_suffix('s').unwrap().parse().unwrap();
        // Time is recorded with events, so this adds one without another effect.
        run.note(
            now + Duration::from_secs(seconds),
            What::Sent(Probe::Answer, Line::new("{\"jsonrpc\":\"2.0\",\"id\":\"later\",\"result\":{}}")),
        );
    } else if event == "input closed" {
        run.note(now, What::InputClosed);
    } else if let Some(signal) = event.strip_prefix("signalled ") {
        run.note(now, What::Signalled(signal.parse().unwrap()));
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

/// The rules that a report says are broken.
fn failed(report: &Report) -> Vec<&'static str> {
    report.failed().map(|result| result.rule.slug).collect()
}

/// Fails unless the rule of each case, and no other rule, finds what the case says.
fn each_finds_its_fault(cases: &[Case], check: impl Fn(&Trace, &Selection) -> Report) {
    let mut wrong = Vec::new();
    for case in cases {
        let report = check(&case.trace, &Selection::default());
        let failed = failed(&report);
        let own = report.results.iter().find(|result| result.rule.slug == case.rule);
        let outcome = &own.unwrap_or_else(|| panic!("{}: no rule {}", case.place, case.rule)).outcome;
        let right = match case.wanted {
            Wanted::Passes => failed.is_empty() && *outcome == Outcome::Passed,
            Wanted::Nothing => failed.is_empty() && matches!(outcome, Outcome::Skipped(_)),
            Wanted::Fails => failed == [case.rule],
        };
        if !right {
            wrong.push(format!(
                "{}: {} {:?}, but {outcome:?}; {failed:?} fail",
                case.place, case.rule, case.wanted
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Fails unless each rule has a case that passes and one that fails.
fn each_has_both(cases: &[Case], rules: impl Iterator<Item = &'static Rule>) {
    let mut known: BTreeMap<&str, (bool, bool)> = BTreeMap::new();
    for case in cases {
        let known = known.entry(case.rule).or_default();
        known.0 |= case.wanted == Wanted::Passes;
        known.1 |= case.wanted == Wanted::Fails;
    }
    let without: Vec<&str> =
        rules.map(|rule| rule.slug).filter(|slug| known.get(slug) != Some(&(true, true))).collect();
    assert!(without.is_empty(), "{without:?}");
}

/// Fails unless the rules stand by chapter, each with a short sentence and at most one source for each revision.
fn are_in_order(rules: &[&Rule]) {
    for rule in rules {
        assert!(rule.sentence.ends_with('.') && rule.sentence.len() < 160, "{}", rule.sentence);
        assert!(!rule.sources.is_empty(), "{}", rule.slug);
        for version in &Version::ALL {
            let sources = rule.sources.iter().filter(|source| source.revisions.contains(version)).count();
            assert!(sources <= 1, "{} has {sources} sources for {version}", rule.slug);
        }
        assert!(rule.address().unwrap().starts_with("https://"), "{}", rule.slug);
    }
    assert!(rules.is_sorted_by_key(|rule| rule.chapter), "the chapters are mixed");
}

#[test]
fn f27_every_rule_finds_its_fault_and_no_other_rule_does() {
    each_finds_its_fault(&cases(), check_server);
}

#[test]
fn f27_every_rule_has_a_transcript_that_passes_and_one_that_fails() {
    each_has_both(&cases(), rules());
}

#[test]
fn the_book_is_in_order() {
    are_in_order(&rules().collect::<Vec<_>>());
    let mut slugs = std::collections::BTreeSet::new();
    for rule in rules().chain(client_rules()) {
        assert!(slugs.insert(rule.slug), "{} stands twice", rule.slug);
    }
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
    let used = |chapter: &mcpjoin_rules::Chapter| rules().any(|rule| rule.chapter == *chapter);
    let chapters = mcpjoin_rules::Chapter::ALL.into_iter().filter(used);
    let chapters: Vec<&str> = chapters.map(mcpjoin_rules::Chapter::as_str).collect();
    assert_eq!(count(&chapters, &[]), all);
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
    let report = check_server(&trace, &Selection::default());
    let [result] = report.failed().collect::<Vec<_>>()[..] else { panic!("{:?}", failed(&report)) };
    let Outcome::Failed(findings) = &result.outcome else { panic!("{result:?}") };
    let [Finding { run, version, level, sent, received, .. }] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((&**run, version.as_str(), *level), ("a look", "2024-11-05", Level::Must));
    assert!(sent.as_ref().unwrap().ends_with(b"\"none\"}") && received.as_ref().unwrap().ends_with(b"{}}"));
    assert!(report.has_failed(Level::Must));
    assert_eq!(report.ran() + report.skipped().count(), rules().count());
}

#[test]
fn results_of_a_tool_with_many_output_schemas_are_not_checked() {
    let is_checked = |schemas: usize| {
        let mut run = Run::new("a look", Version::parse("2025-11-25"));
        for id in 0..schemas {
            run.sent(Probe::List, format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#));
            run.received(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{{"name":"a","inputSchema":{{"type":"object"}},"outputSchema":{{"type":"object","required":["{id}"]}}}}]}}}}"#
            ));
        }
        run.sent(Probe::Call, r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"a"}}"#);
        run.received(
            r#"{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"{}"}],"structuredContent":{}}}"#,
        );
        let trace = Trace { runs: vec![run], ..Trace::default() };
        !failed(&check_server(&trace, &Selection::default())).is_empty()
    };
    assert!(is_checked(4) && !is_checked(5));
}

#[test]
fn a_run_by_a_revision_that_is_not_known_is_checked_by_no_rule() {
    let mut run = Run::new("a look", Version::parse("1999-01-01"));
    run.received("nonsense");
    let trace = Trace { runs: vec![run], ..Trace::default() };
    assert_eq!(check_server(&trace, &Selection::default()).ran(), 0);
}
