//! Replays the transcripts of this folder against `mcpjoin serve demo --full`, over standard input and output and over HTTP+SSE.
//! The official conformance suite covers only Streamable HTTP. `README.md` describes the format; `scenarios.txt` lists
//! every server scenario of the suite, and why a scenario has no transcript.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod pattern;
mod peer;
mod script;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;

use peer::{Listening, Peer};
use script::{Script, Way, replay};

/// The number of replays at the same time: they mostly wait for the server.
const AT_ONCE: usize = 8;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "transcripts"].iter().collect()
}

/// Every transcript, sorted by file name.
fn scripts() -> Vec<Script> {
    let mut scripts = Vec::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_some_and(|extension| extension == "txt") && name != "scenarios" {
            let text = fs::read_to_string(&path).unwrap();
            scripts.push(Script::parse(&name, &text).unwrap_or_else(|why| panic!("{why}")));
        }
    }
    scripts.sort_by(|left, right| left.name.cmp(&right.name));
    scripts
}

/// Replays every transcript in every revision that this transport supports. Returns the number of replays.
fn replay_all(way: Way, open: impl Fn() -> Peer + Sync) -> usize {
    let scripts = scripts();
    let runs: Vec<_> = scripts
        .iter()
        .flat_map(|script| script.revisions(way).into_iter().map(move |revision| (script, revision)))
        .collect();
    let (next, wrong) = (Mutex::new(runs.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((script, revision)) = next.lock().unwrap().next() else { return };
                    if let Err(why) = replay(script, revision, open()) {
                        wrong.lock().unwrap().push(why);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} went wrong:\n\n{}", wrong.len(), runs.len(), wrong.join("\n\n"));
    runs.len()
}

#[test]
fn transcripts_are_replayed_over_standard_input_and_output() {
    assert!(replay_all(Way::Stdio, Peer::child) > 100);
}

#[test]
fn transcripts_are_replayed_over_http_sse() {
    let server = Listening::new();
    assert!(replay_all(Way::HttpSse, || server.peer()) > 70);
}

/// The scenarios of the suite, each with the transports for which it has no transcript.
fn scenarios() -> Vec<(String, Vec<Way>)> {
    let text = fs::read_to_string(folder().join("scenarios.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (name, without) = line.split_once(": ").unwrap_or((line, ""));
            let ways = match without.split_once(": ") {
                None if without.is_empty() => vec![],
                Some(("stdio", _)) => vec![Way::Stdio],
                Some(("HTTP+SSE", _)) => vec![Way::HttpSse],
                Some(("both", _)) => vec![Way::Stdio, Way::HttpSse],
                _ => panic!("no reason: {line}"),
            };
            (name.to_owned(), ways)
        })
        .collect()
}

#[test]
fn every_scenario_of_the_suite_has_a_transcript_or_a_reason() {
    let scenarios = scenarios();
    // The number of scenarios in version 0.2.0-alpha.12.
    assert_eq!(scenarios.len(), 65);
    let names: BTreeSet<_> = scenarios.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), 65);
    let scripts = scripts();
    let of = |script: &Script| script.name.split('@').next().unwrap_or_default().to_owned();
    for script in &scripts {
        assert!(names.contains(of(script).as_str()), "{} is the name of no scenario", script.name);
    }
    for (name, without) in &scenarios {
        let mine: Vec<_> = scripts.iter().filter(|script| of(script) == *name).collect();
        let modern_alone = mine.iter().all(|script| script.revisions(Way::HttpSse).is_empty());
        for way in [Way::Stdio, Way::HttpSse] {
            let has = mine.iter().any(|script| !script.revisions(way).is_empty());
            // A scenario of the modern era alone needs no transcript over HTTP+SSE, which that era does not have.
            let excused = way == Way::HttpSse && !mine.is_empty() && modern_alone;
            assert!(has != (without.contains(&way) || excused), "{name} over {way:?}: has one: {has}");
        }
    }
}

/// A line that does not match the server's message fails, and the error names the line.
#[test]
fn a_wrong_line_is_red() {
    let greet = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"Ada"}}}"#;
    let right = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"Hello, Ada!"}]}}"#;
    let server = Listening::new();
    let outcome = |revision: &str, lines: &str, peer: Peer| {
        let text = format!("revision: {revision}\n\n{lines}\n");
        replay(&Script::parse("test", &text).unwrap(), revision, peer)
    };
    for revision in ["2025-06-18", "2026-07-28"] {
        let peers: &[&dyn Fn() -> Peer] =
            if revision == "2026-07-28" { &[&Peer::child] } else { &[&Peer::child, &|| server.peer()] };
        for open in peers {
            outcome(revision, &format!("> {greet}\n< {right}"), open()).unwrap();
            for (wrong, says) in [
                (right.replace("Ada!", "Bob!"), "line 4: result.content[0].text"),
                (right.replace(r#""type":"text","#, ""), "line 4: result.content[0]: `type`"),
                (
                    right.replace(r#""type":"text","#, r#""type":"text","x":1,"#),
                    "line 4: result.content[0]: `x`",
                ),
                (right.replace(r#"{"type""#, r#"1,{"type""#), "line 4: result.content"),
                (right.replace(r#""id":1"#, r#""id":"1""#), "line 4: id"),
                (right.replace("result", "error"), "line 4: "),
            ] {
                let why = outcome(revision, &format!("> {greet}\n< {wrong}"), open()).unwrap_err();
                assert!(why.contains(says), "{says}: {why}");
            }
            // The server sends one line more than expected.
            let why = outcome(revision, &format!("> {greet}"), open()).unwrap_err();
            assert!(why.contains("the server says more"), "{why}");
            // In any order, but each line must match.
            let other = greet.replace(r#""id":1"#, r#""id":2"#);
            let twice = format!("> {greet}\n> {other}\n<* {right}\n<* {right}");
            assert!(outcome(revision, &twice, open()).unwrap_err().contains("line 6"));
        }
    }
    for (text, says) in [
        ("> {}", "revision"),
        ("revision: 2025-06-18\n> {", "line 2"),
        ("revision: 1999-01-01\n> {}", "line 1"),
        ("revision: 2025-06-18\n? {}", "line 2"),
        ("revision: 2025-06-18\n", "nothing"),
    ] {
        let why = Script::parse("test", text).unwrap_err();
        assert!(why.contains(says), "{why}");
    }
}
