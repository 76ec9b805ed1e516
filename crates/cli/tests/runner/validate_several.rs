//! Tests of `mcpjoin validate` with several servers and with a whole configuration: one document, four servers at a time, and
//! no result hides another.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::support::{command, line, run, scratch, start};
use super::terminal;

const BINARY: &str = env!("CARGO_BIN_EXE_mcpjoin");

/// A configuration file, removed when this is dropped.
struct Configuration(PathBuf);

impl Configuration {
    fn new(name: &str, servers: &Value) -> Self {
        let path = scratch(name).with_extension("json");
        std::fs::write(&path, serde_json::to_string_pretty(&json!({ "mcpServers": servers })).unwrap())
            .unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Configuration {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An entry for the demonstration server behind a `sed` program.
fn demo(fault: &str) -> Value {
    json!({ "command": "sh", "args": ["-c", format!("'{BINARY}' serve demo --full | sed -u '{fault}'")] })
}

/// The outcome of each server.
fn outcomes(report: &Value) -> Vec<(String, String)> {
    let servers = report["servers"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let outcome = |server: &Value| match &server["error"]["id"] {
        Value::String(id) => id.clone(),
        _ => format!("failed {}", server["failed"]),
    };
    servers.map(|server| (text(&server["server"]), outcome(server))).collect()
}

fn pairs(outcomes: &[(String, String)]) -> Vec<(&str, &str)> {
    outcomes.iter().map(|(server, outcome)| (server.as_str(), outcome.as_str())).collect()
}

#[test]
fn a_whole_configuration_is_one_document_and_a_bad_entry_hides_no_other() {
    let file = Configuration::new(
        "validate-all",
        &json!({
            "good": demo(""),
            "faulty": demo(r#"s/"id":2,"result":{}/"id":2,"result":{"pong":true}/"#),
            "missing": { "command": "/nowhere/mcpjoin-no-such-program" },
            "broken": { "command": 7 },
            "off": { "command": "mcpjoin-must-not-be-started", "disabled": true },
        }),
    );
    let options = ["validate", "--era", "legacy", "--rule", "lifecycle", "--config", file.path()];
    let ran = run(options.iter().chain(&["--json"])).exits(4).says(&["off is disabled and skipped"]);
    let report = ran.json();
    let expected = [
        ("good", "failed 0"),
        ("faulty", "failed 1"),
        ("missing", "E_SPAWN_NOT_FOUND"),
        ("broken", "E_CONFIG"),
    ];
    let mut expected = expected.to_vec();
    // In the order of the file.
    let text = std::fs::read_to_string(&file.0).unwrap();
    expected.sort_by_key(|(name, _)| text.find(&format!("\"{name}\"")));
    assert_eq!(pairs(&outcomes(&report)), expected, "{report:#}");

    let ran = run(options).exits(4).says(&["(E_SPAWN_NOT_FOUND)", "(E_CONFIG)"]);
    assert!(ran.stdout.contains("MUST ping-empty"), "{}", ran.stdout);
    // By the name of the entry, as the others.
    assert!(ran.stdout.contains("\nmissing: not checked: "), "{}", ran.stdout);
    assert!(
        ran.stdout.ends_with("4 servers: 1 without faults, 1 with faults, 2 not checked\n"),
        "{}",
        ran.stdout
    );

    let sarif = run(options.iter().chain(&["--format", "sarif"])).exits(4).json();
    assert_eq!(sarif["runs"].as_array().unwrap().len(), 1, "services take one run");
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let wanted = text.lines().position(|line| line.contains("\"faulty\"")).unwrap() + 1;
    for result in results {
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["region"]["startLine"], wanted, "the entry's line");
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(
            uri.ends_with(file.0.file_name().unwrap().to_str().unwrap()) && !uri.starts_with('/'),
            "{uri}"
        );
        assert!(result["message"]["text"].as_str().unwrap().starts_with("faulty: "), "{result}");
    }
    assert!(!results.is_empty());
    let notes = sarif["runs"][0]["invocations"][0]["toolExecutionNotifications"].as_array().unwrap();
    assert_eq!(notes.len(), 2, "{notes:?}");

    let junit = run(options.iter().chain(&["--format", "junit"])).exits(4).stdout;
    assert!(junit.contains("errors=\"2\"") && junit.contains("name=\"good: Lifecycle"), "{junit}");
}

#[test]
fn servers_are_named_by_words_that_stand_alone_and_by_also() {
    let file = Configuration::new("validate-named", &json!({ "a": demo(""), "b": demo("") }));
    let of_file = format!("{}#b", file.path());
    let words = ["validate", "--json", "--rule", "stdio", "--config", file.path(), "--also", "a"];
    let ran = run(words.iter().copied().chain(["--also", "./no/such", "demo:", "demo:"])).exits(4);
    let expected = [
        ("mcpjoin serve demo", "failed 0"),
        ("mcpjoin serve demo", "failed 0"),
        ("a", "failed 0"),
        ("./no/such", "E_SPAWN_NOT_FOUND"),
    ];
    assert_eq!(pairs(&outcomes(&ran.json())), expected);
    assert_eq!(ran.stderr, "", "the document says it");
    let ran = run(["validate", "--json", "--rule", "stdio", &of_file, "demo:"]).exits(0);
    assert_eq!(pairs(&outcomes(&ran.json())), [("b", "failed 0"), ("mcpjoin serve demo", "failed 0")]);
    // `--also` with a single server gives one report, not a list.
    let ran = run(["validate", "--json", "--rule", "stdio", "--also", "demo:"]).exits(0);
    assert!(ran.json()["rules"].is_array());
    // A configuration with one entry gives a list with one report.
    let one = Configuration::new("validate-one", &json!({ "only": demo("") }));
    let ran = run(["validate", "--json", "--rule", "stdio", "--config", one.path()]).exits(0);
    assert_eq!(pairs(&outcomes(&ran.json())), [("only", "failed 0")]);

    assert!(line("validate demo: --json --rule stdio").exits(0).json()["rules"].is_array());
    line("validate demo: ./a b").exits(4).says(&["(E_SPAWN_NOT_FOUND)"]);
    line("validate --trace /dev/null demo: demo:").exits(2).says(&["several are named"]);
    line("validate --rules --also demo:").exits(2).says(&["--rules takes no server"]);
    let none = Configuration::new("validate-none", &json!({}));
    run(["validate", "--config", none.path()]).exits(2).says(&["(E_CONFIG)", "no usable entry"]);
}

#[test]
fn four_servers_are_looked_at_at_once_and_no_more() {
    let log = scratch("validate-at-once");
    let entry = json!({
        "command": "sh",
        "args": ["-c", format!("echo + >> '{0}'; '{BINARY}' serve demo --full; echo - >> '{0}'", log.display())],
    });
    let entries: serde_json::Map<_, _> = (0..6).map(|number| (format!("s{number}"), entry.clone())).collect();
    let file = Configuration::new("validate-six", &Value::Object(entries));
    let words = ["validate", "--json", "--era", "modern", "--rule", "stdio", "--config", file.path()];
    let report = run(words).exits(0).json();
    assert_eq!(report["servers"].as_array().unwrap().len(), 6);
    let (mut now, mut most) = (0, 0);
    for sign in std::fs::read_to_string(&log).unwrap().lines() {
        now += if sign == "+" { 1 } else { -1 };
        most = most.max(now);
    }
    std::fs::remove_file(&log).unwrap();
    assert!((2..=4).contains(&most), "{most} at once");
    assert_eq!(now, 0);
}

#[test]
fn what_well_known_clients_make_of_the_tools_is_reported_beside_the_rules() {
    let tools =
        r#"{"name":"look.up\\u001b[2J","inputSchema":{"type":"object","anyOf":[{"required":["a"]}]}}"#;
    let fault = format!(r#"s/"tools":\[.*\]/"tools":[{tools}]/"#);
    let file = Configuration::new("validate-clients", &json!({ "files": demo(&fault) }));
    let words =
        ["validate", "--compatibility", "--era", "legacy", "--rule", "stdio", "--config", file.path()];
    let report = run(words.iter().chain(&["--json"])).exits(0).json();
    let clients = &report["servers"][0]["clients"];
    assert_eq!(clients["tools"], 1, "{report:#}");
    let finding =
        clients["clients"].as_array().unwrap().iter().flat_map(|it| it["findings"].as_array().unwrap());
    let finding = finding.clone().next().expect("some client does not take it");
    assert_eq!(finding["tool"], "look.up\u{1b}[2J");
    assert!(finding["source"].as_str().unwrap().starts_with("https://"), "{finding}");
    let text = run(words).exits(0).stdout;
    assert!(text.contains("Well-known clients: 1 tools") && text.contains("look.up\\u{1b}[2J: "), "{text}");
    // The tools of the demonstration server, and a server without tools.
    let text = line("validate --compatibility --era modern --rule stdio demo:").exits(0).stdout;
    assert!(text.contains("Well-known clients: "), "{text}");
    line("validate --compatibility --format junit demo:")
        .exits(2)
        .says(&["prints a table, as text or JSON only"]);
}

#[test]
fn a_signal_ends_all_of_them() {
    let entry = json!({ "command": "sh", "args": ["-c", "echo up >&2; cat >/dev/null"] });
    let file = Configuration::new("validate-signal", &json!({ "a": entry, "b": entry, "c": entry }));
    let mut running = start(command(["validate", "-v", "--config", file.path()]));
    let mut stderr = std::io::BufReader::new(running.child.stderr.take().unwrap());
    let (mut text, mut up) = (String::new(), 0);
    while up < 3 {
        text.clear();
        assert!(std::io::BufRead::read_line(&mut stderr, &mut text).unwrap() > 0);
        up += usize::from(text.contains("server:"));
    }
    running.signal("TERM");
    running.finish().exits(143);
}

#[test]
fn a_baseline_distinguishes_servers() {
    let fault = r#"s/"id":2,"result":{}/"id":2,"result":{"pong":true}/"#;
    let file = Configuration::new("validate-apart", &json!({ "a": demo(fault), "b": demo("") }));
    let baseline = scratch("validate-apart-baseline.json");
    let path = baseline.display().to_string();
    let options = ["validate", "--era", "legacy", "--rule", "ping-empty", "--baseline", &path, "--config"];
    run(options.iter().copied().chain([file.path(), "--update-baseline"])).exits(0);
    run(options.iter().copied().chain([file.path()])).exits(0);
    // The same fault of another server is not in the baseline.
    let other = Configuration::new("validate-other", &json!({ "a": demo(fault), "b": demo(fault) }));
    let ran = run(options.iter().copied().chain([other.path()])).exits(1);
    assert!(ran.stdout.contains("1 without faults, 1 with faults"), "{}", ran.stdout);
    // A single server is matched by its name.
    run(options.iter().copied().chain([other.path(), "a"])).exits(0);
    run(options.iter().copied().chain([other.path(), "b"])).exits(1);
    std::fs::remove_file(&baseline).unwrap();
}

#[test]
fn how_far_it_is_is_shown_on_a_terminal_and_taken_away() {
    let words = ["validate", "--era", "modern", "--rule", "stdio", "demo:", "demo:"];
    let seen = terminal::seen(&[], "", "", &words);
    assert_eq!(seen.exit, 0, "{}", seen.shown);
    assert!(seen.shown.contains("[----------",), "{:?}", seen.shown);
    assert!(seen.shown.contains("] 1 of 2"), "{:?}", seen.shown);
    let remaining = terminal::remaining(&seen.shown);
    assert!(
        !remaining.contains(" of 2") && remaining.contains(": 2 without faults, 0 with faults"),
        "{remaining}"
    );
    // Progress is not shown without a terminal.
    assert_eq!(run(words).exits(0).stderr, "");
}
