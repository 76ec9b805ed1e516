//! `mcpjoin doctor`: what is printed, and the exit code. Which fault gets which finding is tested in the library.

use std::io::{BufRead, BufReader};

use super::support::{command, line, run, start};

#[test]
fn r72_a_healthy_server_is_told_in_a_line_for_each_phase() {
    let ran = line("doctor demo:").exits(0);
    let phases: Vec<&str> = ran.stdout.lines().take(6).map(|line| line[..10].trim_end()).collect();
    assert_eq!(phases, ["resolve", "spawn", "probe", "initialize", "list", "shut down"], "{}", ran.stdout);
    for part in ["mcpjoin-demo", "protocol 2026-07-28 (modern)", " tools, ", "exit code 0"] {
        assert!(ran.stdout.contains(part), "{part:?} is missing in {}", ran.stdout);
    }
    let last = ran.stdout.lines().last().unwrap();
    assert_eq!(last, "no fault found: 15 checks, 1 not run (the program needs no runtime)");
    assert_eq!(ran.stderr, "");
}

#[test]
fn both_eras_of_a_server_are_examined() {
    let ran = line("doctor --era legacy demo:").exits(0);
    assert!(ran.stdout.contains("protocol 2025-11-25 (legacy)"), "{}", ran.stdout);
    assert!(ran.stdout.contains("not run: the legacy era was asked for"), "{}", ran.stdout);
}

#[test]
fn f22_a_fault_is_told_in_full_and_in_the_exit_code() {
    let ran = run(["doctor", "sh", "-c", "echo 'no \u{1b}[31mkey' >&2; exit 7"]).exits(1);
    for part in [
        "fault: the server ended: exit code 7, before it could be talked to (died)",
        "  means    it gave up",
        "  ended    exit code 7",
        "  stderr   no \\u{1b}[31mkey",
        "  try      mend what its standard error names",
        "1 fault found: 3 checks, 13 not run (",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} is missing in {}", ran.stdout);
    }
    assert_eq!(ran.stderr, "");
}

#[test]
fn f23_with_json_there_is_one_document() {
    let document = line("doctor --json demo:").exits(0).json();
    assert_eq!(document["healthy"], true);
    assert_eq!(document["protocolVersion"], "2026-07-28");
    assert_eq!(document["serverInfo"]["name"], "mcpjoin-demo");
    assert_eq!(document["findings"], serde_json::json!([]));
    assert_eq!(document["phases"][4]["phase"], "list");
    assert!(document["phases"][4]["elapsedMs"].is_u64());
    assert_eq!(document["lists"][0]["method"], "tools/list");
    assert_eq!(document["checks"].as_array().unwrap().len(), 16);

    let ran = run(["doctor", "--json", "sh", "-c", "echo fatal >&2; exit 7"]).exits(1);
    assert_eq!(ran.stderr, "");
    let document = ran.json();
    assert_eq!(document["healthy"], false);
    let finding = &document["findings"][0];
    assert_eq!((finding["id"].as_str(), finding["phase"].as_str()), (Some("died"), Some("initialize")));
    assert_eq!(finding["status"]["code"], 7);
    assert_eq!(finding["stderr"][0], "fatal");
}

#[test]
fn what_cannot_be_started_is_a_fault_too() {
    let ran = line("doctor mcpjoin-no-such-program --flag").exits(1);
    assert!(ran.stdout.contains("(program-missing)"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("spawn              - not run: the server was not started"),
        "{}",
        ran.stdout
    );
}

#[test]
fn doctor_needs_a_server() {
    line("doctor").exits(2).says(&["no server is named", "mcpjoin doctor COMMAND"]);
    line("doctor --no-such-option demo:").exits(2);
    line("doctor https://example.org/mcp").exits(2).says(&["E_NOT_BUILT"]);
}

#[test]
fn f25_no_value_of_a_variable_is_shown() {
    let script = "echo \"key $KEY, flag $FLAG\" >&2; echo \"$KEY\"; exit 1";
    for json in [&[][..], &["--json"]] {
        let mut words = vec!["doctor", "-e", "KEY=hunter2-secret", "-e", "FLAG=true"];
        words.extend(json);
        words.extend(["sh", "-c", script]);
        let ran = run(words).exits(1);
        assert!(!ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"), "{}", ran.stdout);
        assert!(ran.stdout.contains("key ***"), "{}", ran.stdout);
        if !json.is_empty() {
            assert_eq!(ran.json()["healthy"], false);
        }
    }
}

#[test]
fn a_signal_ends_an_examination_and_everything_that_it_started() {
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let mut running = start(command(["doctor", "-v", "sh", "-c", "echo up >&2; exec cat >/dev/null"]));
        // The server has said that it runs.
        let stderr = running.child.stderr.take().unwrap();
        let said = BufReader::new(stderr).lines().map(Result::unwrap).any(|line| line.ends_with("up"));
        assert!(said);
        running.signal(name);
        running.finish().exits(code);
    }
}
