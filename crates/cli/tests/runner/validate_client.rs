//! `mcpjoin validate --client`: our own client is clean over both transports, a fault of a client is one, and the report is
//! where it was wanted; `--resilience`: the demo bears it.

use std::io::{BufRead as _, BufReader};

use serde_json::Value;

use super::orphans::{guards, until};
use super::support::{Running, command, line, marked, run, scratch, start};

const BINARY: &str = env!("CARGO_BIN_EXE_mcpjoin");

/// What became of one rule.
#[track_caller]
fn outcome<'r>(report: &'r Value, rule: &str) -> &'r str {
    let rules = report["rules"].as_array().unwrap();
    rules.iter().find(|verdict| verdict["rule"] == rule).unwrap()["outcome"].as_str().unwrap()
}

#[test]
fn our_client_that_starts_the_judge_is_clean() {
    let file = scratch("validate-client.json");
    let report = file.to_str().unwrap();
    let judge = ["--", BINARY, "validate", "--client", "--json", "--report", report];
    run(["list", "--era", "legacy"].into_iter().chain(judge)).exits(0);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(report["failed"], 0, "{report:#}");
    for rule in ["client-ping-answered", "client-unknown-method-code", "client-closes-input"] {
        assert_eq!(outcome(&report, rule), "passed", "{rule}");
    }
}

#[test]
fn our_client_that_the_judge_starts_is_clean() {
    let judge = ["validate", "--client", "--json", "--listen", "http://127.0.0.1:0/mcp"];
    let client = ["--", BINARY, "list", "--era", "modern", "{url}"];
    let report = run(judge.into_iter().chain(client)).exits(0).json();
    assert_eq!(report["failed"], 0, "{report:#}");
    for rule in ["client-meta-complete", "client-method-header", "client-version-header-agrees"] {
        assert_eq!(outcome(&report, rule), "passed", "{rule}");
    }
}

#[test]
fn a_client_with_a_fault_makes_the_exit_code_1() {
    let script = format!(
        r#"printf '{{"jsonrpc":"2.0","id":1,"method":"tools/list"}}\n' | '{BINARY}' validate --client --report /dev/stderr >/dev/null"#
    );
    let judged = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let report = String::from_utf8_lossy(&judged.stderr);
    assert_eq!(judged.status.code(), Some(1), "{report}");
    assert!(report.contains("client-opens-with-initialize"), "{report}");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    line("validate --listen http://127.0.0.1:0/mcp demo:").exits(2);
    line("validate --client my-client").exits(2);
    line("validate --client --rule id-type").exits(2).says(&["client-features"]);
    let book = line("validate --client --rules --json").exits(0).json();
    assert!(
        book.as_array().unwrap().iter().all(|rule| rule["rule"].as_str().unwrap().starts_with("client-"))
    );
}

#[test]
fn the_demo_bears_it() {
    let report = line("validate --json --resilience --rule resilience --era modern demo:").exits(0).json();
    assert_eq!((&report["ran"], &report["failed"]), (&7.into(), &0.into()), "{report:#}");
}

/// A client that says nothing, and has started one that heeds nothing and has left its group.
const LAUNCHER: &str = r#"setsid sh -c 'trap "" TERM HUP INT PIPE; echo ready; while :; do sleep 1000; done' & sleep 1000 &
cat; echo end of input; wait"#;

/// A look at it.
fn look(options: &[&str]) -> std::process::Command {
    let judge = ["validate", "--client", "--listen", "http://127.0.0.1:0/mcp"].iter().chain(options);
    command(judge.chain(&["--", "sh", "-c", LAUNCHER, "{url}"]))
}

/// Waits until the client has no input, and what it has started is there.
fn launched(running: &mut Running) {
    let mut said = BufReader::new(running.child.stderr.take().unwrap()).lines();
    let (mut ready, mut input) = (false, false);
    while !(ready && input) {
        let line = said.next().expect("it ended").unwrap();
        ready |= line == "ready";
        input |= line == "end of input";
    }
    // Read by nobody it could end by that.
    std::thread::spawn(move || said.for_each(drop));
}

#[test]
fn d78_after_the_time_nothing_is_left_of_the_client() {
    let mut running = start(look(&["--for", "300ms"]));
    // Not until its outputs end, too: whoever was left behind would hold them, until the run is cleared away.
    assert_eq!(running.child.wait().unwrap().code(), Some(4));
    assert_eq!(marked(&running.mark), []);
}

#[test]
fn d78_after_sigterm_nothing_is_left_of_the_client() {
    let mut running = start(look(&[]));
    launched(&mut running);
    running.signal("TERM");
    running.finish().exits(4);
}

#[test]
fn d78_after_sigkill_nothing_is_left_of_the_client() {
    let mut running = start(look(&[]));
    launched(&mut running);
    until(|| guards(running.child.id()).first().copied());
    assert!(marked(&running.mark).len() > 1, "there is nothing to end");
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    until(|| marked(&running.mark).is_empty().then_some(()));
}

#[test]
fn a_client_that_cannot_be_started_is_told() {
    let words = "validate --client --listen http://127.0.0.1:0/mcp -- /nowhere/client {url}";
    line(words).exits(4).says(&["/nowhere/client", "is it on PATH"]);
}
