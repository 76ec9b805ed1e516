//! Tests of the reports of `mcpjoin validate`: each format has the same findings, text of a server breaks no format, and
//! findings in the baseline do not count as failures.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::support::{Ran, line, program, run, scratch, start};

const BINARY: &str = env!("CARGO_BIN_EXE_mcpjoin");
/// Breaks a MUST in the first response to a ping.
const MUST: &str = r#"s/"id":2,"result":{}/"id":2,"result":{"pong":true}/"#;

/// Validates the legacy era of the demonstration server behind a `sed` program.
#[track_caller]
fn faulty(options: &[&str], fault: &str) -> Ran {
    let script = format!("'{BINARY}' serve demo --full | sed -u '{fault}'");
    let mut words = vec!["validate", "--era", "legacy"];
    words.extend(options);
    words.extend(["sh", "-c", &script]);
    run(words)
}

fn failed(report: &Value) -> Vec<&str> {
    let rules = report["rules"].as_array().unwrap().iter();
    rules.filter(|rule| rule["outcome"] == "failed").map(|rule| rule["rule"].as_str().unwrap()).collect()
}

/// A suite, the name of a case in it, and the elements in that case, each with its message and its text.
type Case = (String, String, Vec<(String, String)>);

/// Parses a report with a standard XML parser. Returns each case with its suite, name and content.
#[track_caller]
fn parsed(xml: &str) -> Vec<Case> {
    const PARSE: &str = "import json, sys, xml.etree.ElementTree as tree\n\
        root = tree.fromstring(sys.stdin.buffer.read())\n\
        print(json.dumps([[s.get('name'), c.get('name'), [[e.tag, (e.get('message') or '') + '|' + (e.text or '')] for e in c]]\
        for s in root for c in s]))";
    let mut parser = Command::new("python3");
    let mut parser = parser.args(["-c", PARSE]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    parser.stdin.take().unwrap().write_all(xml.as_bytes()).unwrap();
    let output = parser.wait_with_output().unwrap();
    assert!(output.status.success(), "no XML: {xml}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn f23_each_format_says_the_same_and_ends_the_same() {
    let text = faulty(&[], MUST).exits(1).stdout;
    assert!(text.contains("MUST ping-empty: ") && text.contains("failed 1 (1 MUST), skipped "), "{text}");

    let json = faulty(&["--format", "json"], MUST).exits(1).json();
    assert_eq!(failed(&json), ["ping-empty"]);
    let findings =
        json["rules"].as_array().unwrap().iter().find(|rule| rule["rule"] == "ping-empty").unwrap();
    let findings = findings["findings"].as_array().unwrap();

    let sarif = faulty(&["--format", "sarif"], MUST).exits(1).json();
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), findings.len(), "one result for each finding");
    for (result, finding) in results.iter().zip(findings) {
        assert_eq!((&result["ruleId"], &result["level"]), (&"ping-empty".into(), &"error".into()));
        let rule =
            &run["tool"]["driver"]["rules"][usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap()];
        assert_eq!(rule["id"], "ping-empty");
        assert!(rule["helpUri"].as_str().unwrap().starts_with("https://modelcontextprotocol.io/"), "{rule}");
        assert_eq!(result["partialFingerprints"]["mcpjoin/v1"], finding["fingerprint"]);
        assert_eq!(result["occurrenceCount"], finding["count"]);
        let place = result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"].as_str().unwrap();
        assert!(place.ends_with(&format!("/{}", finding["run"].as_str().unwrap())), "{place}");
        assert!(result["properties"]["received"].as_str().unwrap().contains("pong"));
    }
    let figures = &run["properties"]["servers"][0];
    assert_eq!((&figures["ran"], &figures["failed"]), (&json["ran"], &json["failed"]));
    let skipped = figures["skipped"].as_object().unwrap();
    assert_eq!(skipped.len() as u64, json["skipped"].as_u64().unwrap());
    assert!(skipped.values().all(Value::is_string));

    let cases = parsed(&faulty(&["--format", "junit"], MUST).exits(1).stdout);
    assert_eq!(cases.len() as u64, json["ran"].as_u64().unwrap() + json["skipped"].as_u64().unwrap());
    let having = |tag: &str| {
        cases.iter().filter(|(.., all)| all.iter().any(|(name, _)| name == tag)).collect::<Vec<_>>()
    };
    assert_eq!(having("skipped").len() as u64, json["skipped"].as_u64().unwrap());
    let [(suite, case, said)] = &having("failure")[..] else { panic!("one case fails: {cases:?}") };
    assert!(suite.ends_with(": Lifecycle and versions") && case == "ping-empty", "{suite} {case}");
    assert!(said[0].1.contains("is not empty") && said[0].1.contains("received {"), "{}", said[0].1);
}

#[test]
fn what_is_no_fault_fails_no_case() {
    let fault = r#"s/"io.modelcontextprotocol\/serverInfo"/"com.example\/serverInfo"/"#;
    let script = format!("'{BINARY}' serve demo --full | sed -u '{fault}'");
    let told = |options: &[&str], code| {
        let words = [&["validate", "--era", "modern", "--format"], options, &["sh", "-c", &script]].concat();
        run(words).exits(code).stdout
    };
    let outcome = |xml: &str| {
        let cases = parsed(xml);
        let (.., all) = cases.into_iter().find(|(_, name, _)| name == "server-info-in-results").unwrap();
        all[0].0.clone()
    };
    assert_eq!(outcome(&told(&["junit"], 0)), "system-out");
    assert_eq!(outcome(&told(&["junit", "--strict"], 1)), "failure");
    assert!(told(&["sarif"], 0).contains(r#""level": "warning""#));
}

#[test]
fn a_server_that_is_not_there_is_reported_in_each_format() {
    for (format, told) in [
        ("text", ""),
        ("json", ""),
        ("sarif", r#""executionSuccessful": false"#),
        ("junit", r#" type="E_SPAWN_NOT_FOUND">"#),
    ] {
        let ran = run(["validate", "--format", format, "mcpjoin-no-such-program"]).exits(4);
        assert!(ran.stderr.contains("E_SPAWN_NOT_FOUND"), "{}", ran.stderr);
        assert_eq!(ran.stdout.is_empty(), told.is_empty(), "{}", ran.stdout);
        assert!(ran.stdout.contains(told), "{}", ran.stdout);
    }
    line("validate --json --format sarif demo:").exits(2).says(&["cannot be used with", "E_USAGE"]);
    line("validate --format html demo:").exits(2).says(&["text, json, sarif, junit"]);
    line("validate --rules --format junit").exits(2).says(&["prints text or JSON only"]);
    // After the target, the option is passed to the server, and a message says so.
    run(["validate", "mcpjoin-no-such-program", "--format", "sarif"])
        .exits(4)
        .says(&["--format is passed to"]);
}

/// A server whose ping responses contain hostile text, one of them large: the demonstration server behind a Python program.
/// `once` is a missing file. The process that creates it sends the large response.
fn hostile(once: &Path) -> String {
    const FILTER: &str = r#"
import os, sys
text = r'"a\u001b[2J\u0000\u0007\ud800\ufffe\uffff]]> {0} [x](http://evil) <!-- & \"' + "\u202e\u0085\ufffe\uffff" + '"'
try:
    os.close(os.open("ONCE", os.O_CREAT | os.O_EXCL))
    large = '"' + "x" * 5_000_000 + '"'
except FileExistsError:
    large = text
for line in sys.stdin:
    if '"result":{}' in line:
        line = line.replace('"result":{}', '"result":{' + text + ':' + large + '}')
        large = text
    sys.stdout.write(line)
    sys.stdout.flush()
"#;
    let filter = FILTER.replace("ONCE", once.to_str().unwrap());
    format!(
        "'{BINARY}' serve demo --full | PYTHONIOENCODING=utf-8 python3 -c '{}'",
        filter.replace('\'', r"'\''")
    )
}

#[test]
fn i167_no_text_of_a_server_breaks_a_format_or_fills_it() {
    for format in ["text", "json", "sarif", "junit"] {
        let words = ["validate", "--era", "legacy", "--protocol-version", "2024-11-05", "--format", format];
        let once = scratch("validate-hostile");
        // The text output also lists all of the rules.
        let all = (format == "text").then_some("-v");
        let ran = run(words.iter().copied().chain(all).chain(["sh", "-c", &hostile(&once)])).exits(1);
        std::fs::remove_file(&once).unwrap();
        let forbidden = |c: char| {
            (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202e}' | '\u{fffe}' | '\u{ffff}')
        };
        // JSON may contain these two characters, which are not control characters and have no effect on a terminal.
        let found = ran
            .stdout
            .chars()
            .find(|c| forbidden(*c) && !(format != "junit" && matches!(c, '\u{fffe}' | '\u{ffff}')));
        assert_eq!(found, None, "{format}");
        // Each JUnit case contains the command, and each quote in it takes six characters.
        let limit = if format == "junit" { 800_000 } else { 400_000 };
        assert!(ran.stdout.len() < limit, "{format}: {} bytes", ran.stdout.len());
        assert!(ran.stdout.contains("ping-empty"), "{format}");
        match format {
            "text" => {}
            "junit" => assert!(parsed(&ran.stdout).len() > 50),
            _ => _ = ran.json(),
        }
        if format == "sarif" {
            for result in ran.json()["runs"][0]["results"].as_array().unwrap() {
                let text = result["message"]["text"].as_str().unwrap();
                let rest = text.replace("{{", "").replace("}}", "");
                assert!(!rest.contains(['{', '}']) && !text.contains("]("), "{text}");
            }
        }
    }
}

#[test]
fn i166_no_secret_is_in_any_format() {
    let fault = format!(
        "'{BINARY}' serve demo --full | sed -u \"s/\\\"result\\\":{{}}/\\\"result\\\":{{\\\"pong\\\":\\\"$KEY\\\"}}/\""
    );
    for format in ["text", "json", "sarif", "junit"] {
        let words = ["validate", "--era", "legacy", "-e", "KEY=hunter2<quoted>", "--format", format];
        let ran = run(words.iter().copied().chain(["sh", "-c", &fault])).exits(1);
        assert!(ran.stdout.contains("***"), "{format}: {}", ran.stdout);
        assert!(!ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"), "{format}");
    }
}

/// Writes a file with the baseline of that fault.
#[track_caller]
fn written(file: &Path, fault: &str) {
    let path = file.display().to_string();
    faulty(&["--baseline", &path, "--update-baseline"], fault).exits(0).says(&["findings written to"]);
}

#[test]
fn what_the_baseline_has_is_reported_and_no_fault() {
    let file = scratch("validate-baseline.json");
    let path = file.display().to_string();
    written(&file, MUST);
    let first = std::fs::read_to_string(&file).unwrap();
    // The baseline contains nothing that differs from run to run.
    written(&file, MUST);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), first);

    let ran = faulty(&["--baseline", &path], MUST).exits(0);
    assert!(
        ran.stdout.contains("known ping-empty") && ran.stdout.contains("failed 1 (1 known)"),
        "{}",
        ran.stdout
    );
    let report = faulty(&["--baseline", &path, "--json"], MUST).exits(0).json();
    assert_eq!((&report["failed"], &report["known"]), (&1.into(), &1.into()));
    assert_eq!(report["baseline"]["stale"], serde_json::json!([]));

    // A fault that is not in the baseline is a failure.
    let both = format!(r#"{MUST};s/"serverInfo":/"serverinfo":/"#);
    let ran = faulty(&["--baseline", &path], &both).exits(1);
    assert!(ran.stdout.contains("MUST initialize-server-info"), "{}", ran.stdout);
    assert!(ran.stdout.contains("failed 2 (1 MUST, 1 known)"), "{}", ran.stdout);
    let sarif = faulty(&["--baseline", &path, "--format", "sarif"], &both).exits(1).json();
    for result in sarif["runs"][0]["results"].as_array().unwrap() {
        let known = result["ruleId"] == "ping-empty";
        assert_eq!(result["baselineState"], if known { "unchanged" } else { "new" }, "{result}");
        assert_eq!(result["suppressions"].is_array(), known);
    }
    let cases = parsed(&faulty(&["--baseline", &path, "--format", "junit"], &both).exits(1).stdout);
    let outcome = |rule: &str| &cases.iter().find(|(_, name, _)| name == rule).unwrap().2[0];
    assert_eq!(outcome("ping-empty").0, "skipped");
    assert!(outcome("ping-empty").1.starts_with("known"));
    assert_eq!(outcome("initialize-server-info").0, "failure");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn what_the_baseline_has_and_nobody_finds_is_reported_and_taken_out() {
    let file = scratch("validate-stale.json");
    let path = file.display().to_string();
    written(&file, MUST);
    let ran = faulty(&["--baseline", &path], "").exits(0);
    assert!(
        ran.stdout.contains("not found again") && ran.stdout.contains("  ping-empty: "),
        "{}",
        ran.stdout
    );
    // A finding of a rule that did not run is not reported as fixed.
    let ran = faulty(&["--baseline", &path, "--rule", "stdio"], "").exits(0);
    assert!(!ran.stdout.contains("not found again"), "{}", ran.stdout);
    faulty(&["--baseline", &path, "--rule", "stdio", "--update-baseline"], "").exits(0);
    assert!(std::fs::read_to_string(&file).unwrap().contains("ping-empty"));
    faulty(&["--baseline", &path, "--update-baseline"], "").exits(0).says(&["0 findings written"]);
    assert!(!std::fs::read_to_string(&file).unwrap().contains("ping-empty"));
    faulty(&["--baseline", &path], MUST).exits(1);
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_baseline_that_cannot_be_used_is_reported_before_anything_is_started() {
    let file = scratch("validate-bad.json");
    let path = file.display().to_string();
    let ran = run(["validate", "--baseline", &path, "mcpjoin-no-such-program"]);
    ran.exits(2).says(&["cannot be used", "--update-baseline writes it"]);
    for (text, said) in [
        ("{", "cannot be used"),
        ("[]", "it has no mcpjoinBaseline"),
        (r#"{"mcpjoinBaseline":2,"findings":[]}"#, "newer"),
        (r#"{"mcpjoinBaseline":1}"#, "no array \"findings\""),
        (r#"{"mcpjoinBaseline":1,"findings":[{"rule":"a"}]}"#, "finding 1 has no fingerprint"),
    ] {
        std::fs::write(&file, text).unwrap();
        run(["validate", "--baseline", &path, "mcpjoin-no-such-program"]).exits(2).says(&[said]);
    }
    std::fs::remove_file(&file).unwrap();
    line("validate --update-baseline demo:").exits(2).says(&["--baseline"]);
    // A folder is not a baseline file, and the findings are reported anyway.
    let ran = run(["validate", "--rule", "stdio", "--baseline", "/", "--update-baseline", "demo:"]);
    ran.exits(2).says(&["the baseline / cannot be"]);
}

#[test]
fn a_full_disk_does_not_cost_the_findings_of_the_baseline() {
    let file = scratch("validate-full.json");
    let path = file.display().to_string();
    written(&file, MUST);
    let before = std::fs::read_to_string(&file).unwrap();
    let limited = format!(
        "trap '' XFSZ; ulimit -f 0; exec '{BINARY}' validate --rule stdio --baseline '{path}' --update-baseline demo:"
    );
    let ran = start(program("sh", ["-c", &limited])).finish().exits(2);
    ran.says(&["(E_OUTPUT)", "cannot be written: File too large", "free some space"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    let folder = std::fs::read_dir(file.parent().unwrap()).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap().to_owned();
    let beside =
        folder.filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with(&name));
    assert_eq!(beside.count(), 1);
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn every_command_of_the_page_for_ci_works_as_it_stands_there() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/validate-in-ci.md");
    let page = std::fs::read_to_string(page).unwrap();
    let folder = scratch("validate-ci");
    std::fs::create_dir(&folder).unwrap();
    let entry = serde_json::json!({ "command": BINARY, "args": ["serve", "demo", "--full"] });
    let servers = serde_json::json!({ "mcpServers": { "files": entry, "search": entry } });
    std::fs::write(folder.join(".mcp.json"), servers.to_string()).unwrap();
    let mut count = 0;
    for text in page.lines().flat_map(|text| text.split('`')) {
        let text = text.trim().trim_start_matches(['$', '-', ' ']).trim_start_matches("run: ");
        let Some(words) = text.strip_prefix("mcpjoin validate ").filter(|words| words.contains(['.', '/']))
        else {
            continue;
        };
        let (words, file) =
            words.split_once(" > ").map_or((words, None), |(words, file)| (words, Some(file)));
        let words = words.replace("./my-server --stdio", "demo:");
        let mut command = super::support::command(["validate", "--era", "modern"]);
        let ran = start({
            command.args(words.split(' ')).current_dir(&folder);
            command
        });
        let ran = ran.finish().exits(0);
        match file {
            Some("mcp.sarif") => assert_eq!(ran.json()["version"], "2.1.0"),
            Some("mcp-junit.xml") => assert!(!parsed(&ran.stdout).is_empty()),
            _ => assert!(ran.stdout.contains("ran "), "{words}: {}", ran.stdout),
        }
        count += 1;
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(count >= 7, "only {count} commands were found");
}
