//! Tests of `mcpjoin validate --client` and `--resilience`. Our own client passes over both transports, a fault of a client is
//! found, and the report is written to the requested file. The demonstration server passes the resilience rules.

use std::io::{BufRead as _, BufReader};

use serde_json::Value;

use super::orphans::{guards, until};
use super::support::{Running, command, line, marked, run, scratch, start};

const BINARY: &str = env!("CARGO_BIN_EXE_mcpjoin");

/// The outcome of one rule.
#[track_caller]
fn outcome<'r>(report: &'r Value, rule: &str) -> &'r str {
    let rules = report["rules"].as_array().unwrap();
    rules.iter().find(|result| result["rule"] == rule).unwrap()["outcome"].as_str().unwrap()
}

#[test]
fn our_client_that_starts_the_validator_is_clean() {
    let file = scratch("validate-client.json");
    let report = file.to_str().unwrap();
    let validator = ["--", BINARY, "validate", "--client", "--json", "--report", report];
    run(["list", "--era", "legacy"].into_iter().chain(validator)).exits(0);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(report["failed"], 0, "{report:#}");
    for rule in ["client-ping-answered", "client-unknown-method-code", "client-closes-input"] {
        assert_eq!(outcome(&report, rule), "passed", "{rule}");
    }
}

#[test]
fn our_client_that_the_validator_starts_is_clean() {
    let validator = ["validate", "--client", "--json", "--listen", "http://127.0.0.1:0/mcp"];
    let client = ["--", BINARY, "list", "--era", "modern", "{url}"];
    let report = run(validator.into_iter().chain(client)).exits(0).json();
    assert_eq!(report["failed"], 0, "{report:#}");
    for rule in ["client-meta-complete", "client-method-header", "client-version-header-agrees"] {
        assert_eq!(outcome(&report, rule), "passed", "{rule}");
    }
}

#[test]
fn a_client_is_disturbed_only_when_that_is_asked_for() {
    let rule = |options: &[&str]| {
        let validator = ["validate", "--client", "--json", "--listen", "http://127.0.0.1:0/mcp"];
        let client = ["--", BINARY, "list", "--json", "--era", "modern", "{url}"];
        let ran = run(validator.iter().chain(options).chain(&client).copied()).exits(0);
        assert_eq!(ran.json()["failed"], 0, "{}", ran.stdout);
        // The client's output goes to standard error: it is complete, and nothing is repeated.
        let names =
            ran.stderr.lines().filter(|line| line.starts_with("      \"name\": \"test_simple_text\""));
        assert_eq!(names.count(), 1, "{}", ran.stderr);
        outcome(&ran.json(), "client-restarts-list-after-bad-cursor").to_owned()
    };
    assert_eq!(rule(&[]), "skipped", "nobody has asked for it");
    assert_eq!(rule(&["--disturb"]), "passed", "our own list begins again");
}

#[test]
fn a_client_with_a_fault_makes_the_exit_code_1() {
    let script = format!(
        r#"printf '{{"jsonrpc":"2.0","id":1,"method":"tools/list"}}\n' | '{BINARY}' validate --client --report /dev/stderr >/dev/null"#
    );
    let validated = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let report = String::from_utf8_lossy(&validated.stderr);
    assert_eq!(validated.status.code(), Some(1), "{report}");
    assert!(report.contains("client-opens-with-initialize"), "{report}");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    line("validate --listen http://127.0.0.1:0/mcp demo:").exits(2);
    line("validate --client my-client").exits(2);
    line("validate --client --compatibility").exits(2).says(&["cannot be used with"]);
    line("validate --client --call echo").exits(2).says(&["cannot be used with"]);
    // This option is refused because it differs by one letter from another option.
    line("validate --clients demo:").exits(2).says(&["--clients"]);
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

#[test]
fn the_demo_bears_it_over_http() {
    let mut running = start(command(["serve", "demo", "--full", "--listen", "http://127.0.0.1:0/mcp"]));
    let mut said = String::new();
    BufReader::with_capacity(1, running.child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let url = said.trim_end().strip_prefix("listening on ").unwrap_or_else(|| panic!("{said}"));
    let report = line(&format!("validate --json --resilience --rule resilience {url}")).exits(0).json();
    assert_eq!((&report["ran"], &report["failed"]), (&7.into(), &0.into()), "{report:#}");
    let whys = report["rules"].as_array().unwrap().iter().filter_map(|rule| rule["why"].as_str());
    let whys: std::collections::BTreeSet<&str> = whys.collect();
    assert!(
        whys.iter().any(|why| why.contains("mcpjoin did not start the server")) && whys.len() == 2,
        "{whys:?}"
    );
    running.signal("TERM");
    running.finish().exits(143);
}

/// A client that sends nothing, and has started a process that ignores signals and has left its process group.
const LAUNCHER: &str = r#"setsid sh -c 'trap "" TERM HUP INT PIPE; echo ready; while :; do sleep 1000; done' & sleep 1000 &
cat; echo end of input; wait"#;

/// Validates that client.
fn look(options: &[&str]) -> std::process::Command {
    let validator = ["validate", "--client", "--listen", "http://127.0.0.1:0/mcp"].iter().chain(options);
    command(validator.chain(&["--", "sh", "-c", LAUNCHER, "{url}"]))
}

/// Waits until the client's input has ended and the process that it started is ready.
fn launched(running: &mut Running) {
    let mut said = BufReader::new(running.child.stderr.take().unwrap()).lines();
    let (mut ready, mut input) = (false, false);
    while !(ready && input) {
        let line = said.next().expect("it ended").unwrap();
        ready |= line == "ready";
        input |= line == "end of input";
    }
    // The rest of the output must be read, or the client could fail when it writes.
    std::thread::spawn(move || said.for_each(drop));
}

#[test]
fn d78_after_the_time_nothing_is_left_of_the_client() {
    let mut running = start(look(&["--for", "300ms"]));
    // Waits for the exit, not for the end of the outputs: a process left behind would keep the outputs open until the cleanup.
    assert_eq!(running.child.wait().unwrap().code(), Some(4));
    assert_eq!(marked(&running.mark), []);
}

#[test]
fn d78_after_a_signal_nothing_is_left_of_the_client_and_the_exit_code_says_it() {
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let mut running = start(look(&[]));
        launched(&mut running);
        running.signal(signal);
        running.finish().exits(code);
    }
}

#[test]
fn a_signal_ends_a_look_at_clients_that_come_by_themselves() {
    let file = scratch("validate-client-signal.txt");
    let report = file.to_str().unwrap();
    let mut running =
        start(command(["validate", "--client", "--listen", "http://127.0.0.1:0/mcp", "--report", report]));
    let mut said = String::new();
    BufReader::with_capacity(1, running.child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let url = said.trim_end().strip_prefix("listening on ").unwrap_or_else(|| panic!("{said}"));
    line(&format!("ping -n 1 --era modern {url}")).exits(0);
    running.signal("INT");
    running.finish().exits(130);
    // The results up to the interrupt are reported.
    let report = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(report.contains("\nran "), "{report}");
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

/// The output for a client that we started and that sends nothing.
#[track_caller]
fn silent(command: &[&str], says: &[&str]) {
    let validator = ["validate", "--client", "--listen", "http://127.0.0.1:0/mcp", "--"];
    let ran = run(validator.iter().chain(command)).exits(4).says(&["(E_NO_CLIENT)", "try "]);
    ran.says(says);
}

#[test]
fn a_client_whose_command_fails_is_reported_with_its_end_and_its_last_words() {
    let fails = "echo no token was found >&2; exit 7";
    silent(&["sh", "-c", fails, "{url}"], &["exit code 7", "stderr   no token was found", "by itself"]);
    silent(&["sh", "-c", "kill -KILL $$", "{url}"], &["signal 9", "command  sh -c"]);
    silent(&["sh", "-c", "mcpjoin-no-such-client {url}"], &["exit code 127", "not found", "install it"]);
    silent(&["true"], &["exit code 0", "{url} in its command is replaced by it"]);
    let words = ["validate", "--client", "--listen", "http://127.0.0.1:0/mcp", "--for", "50ms", "--json"];
    let failure = run(words.iter().chain(&["--", "sh", "-c", "exec sleep 1000", "{url}"]))
        .exits(4)
        .says(&["E_NO_CLIENT"]);
    let document: Value = serde_json::from_str(failure.stderr.lines().last().unwrap()).unwrap();
    assert!(document["error"]["message"].as_str().unwrap().ends_with("in 50 ms"), "{document}");
    assert!(document["error"]["status"].is_null(), "{document}");
}

/// A client that we start does not inherit the secrets that mcpjoin reads for itself.
#[test]
fn d84_no_client_gets_a_secret_that_is_for_this_program() {
    let script = "echo \"[$MCPJOIN_CLIENT_SECRET][$MCPJOIN_INPUT_KEY][$OTHER]\" >&2; exit 7";
    let mut command = command([
        "validate",
        "--client",
        "--listen",
        "http://127.0.0.1:0/mcp",
        "--",
        "sh",
        "-c",
        script,
        "{url}",
    ]);
    command.env("MCPJOIN_CLIENT_SECRET", "hunter2").env("MCPJOIN_INPUT_KEY", "hunter3").env("OTHER", "o");
    start(command).finish().exits(4).says(&["stderr   [][][o]"]);
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_is_done() {
    let started = scratch("validate-client-started");
    let touch = started.to_str().unwrap();
    let validator = ["validate", "--client", "--listen", "http://127.0.0.1:0/mcp", "--report"];
    for place in ["/nowhere/report.txt", env!("CARGO_MANIFEST_DIR")] {
        let words = validator.iter().copied().chain([place, "--", "touch", touch, "{url}"]);
        run(words).exits(2).says(&["could not be written", place]);
        assert!(!started.exists(), "the client was started");
    }
    // Without a report, no file is left, and an existing file stays unchanged.
    let file = scratch("validate-client-none.txt");
    let words = || validator.iter().copied().chain([file.to_str().unwrap(), "--", "true", "{url}"]);
    run(words()).exits(4);
    assert!(!file.exists());
    std::fs::write(&file, "earlier").unwrap();
    run(words()).exits(4);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "earlier");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_validator_without_a_client_leaves_the_report_of_another_one() {
    let file = scratch("validate-client-two.txt");
    let report = file.to_str().unwrap();
    let mut idle = command(["validate", "--client", "--report", report]);
    idle.stdin(std::process::Stdio::piped());
    let mut idle = start(idle);
    until(|| file.exists().then_some(()));
    run(["list", "--era", "legacy", "--", BINARY, "validate", "--client", "--report", report]).exits(0);
    drop(idle.child.stdin.take());
    idle.finish().exits(4).says(&["(E_NO_CLIENT)"]);
    assert!(std::fs::read_to_string(&file).unwrap().contains("passed"), "the report is gone");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_client_that_cannot_be_started_is_reported() {
    let words = "validate --client --listen http://127.0.0.1:0/mcp -- /nowhere/client {url}";
    line(words).exits(4).says(&["/nowhere/client", "check that it is on PATH"]);
}
