//! Tests of the failure block, for servers that are dead, missing, silent, print garbage or flood standard error. The block
//! is printed in time and contains everything that is known, both as text and as JSON.

use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::support::{Ran, call_legacy, command, legacy, run, start, takes_less_than};

/// In milliseconds. The failure of a dead server is reported 500 ms after its exit; 500 ms more are for its start.
const DEAD: Range<u64> = 0..1000;

/// Like [`both`], and asserts that the failure was reported within these milliseconds in at least one of several runs,
/// because the machine can be busy in some of them.
#[track_caller]
fn in_time(took: Range<u64>, options: &[&str], server: &[&str]) -> (Ran, Value) {
    let mut failures = (0..5).map(|_| both(options, server));
    let found = failures.find(|(_, failure)| {
        assert!(milliseconds(failure) >= took.start, "{failure}");
        milliseconds(failure) < took.end
    });
    found.unwrap_or_else(|| panic!("never below {} ms", took.end))
}

/// The output of the same command with and without `--json`.
fn both(options: &[&str], server: &[&str]) -> (Ran, Value) {
    let with = |json: &[&str]| {
        let mut words = vec!["list"];
        words.extend(json);
        words.extend(options);
        words.extend(server);
        start(command(words))
    };
    let (json, text) = (with(&["--json"]), with(&[]));
    let (json, text) = (json.finish().exits(4), text.finish().exits(4));
    assert_eq!((json.stdout.as_str(), text.stdout.as_str()), ("", ""));
    let failure = json.failure();
    assert_eq!(failure["exitCode"], 4, "{failure}");
    assert!(!failure["message"].as_str().unwrap().is_empty(), "{failure}");
    assert!(!failure["hint"].as_str().unwrap().is_empty(), "{failure}");
    (text, failure)
}

/// The labels of the rows of a block, in order.
fn labels(ran: &Ran) -> Vec<&str> {
    let rows = ran.stderr.lines().skip(1).filter(|line| !line.starts_with("   "));
    rows.map(|row| row.split_whitespace().next().unwrap()).collect()
}

fn milliseconds(failure: &Value) -> u64 {
    failure["elapsedMs"].as_u64().unwrap()
}

#[test]
fn g5_a_missing_program() {
    let (ran, failure) = in_time(0..200, &[], &["mcpjoin-no-such-program", "--flag", "two words"]);
    assert_eq!(labels(&ran), ["doing", "command", "after", "try"]);
    let ran = ran.says(&[
        "error: ",
        "(E_SPAWN_NOT_FOUND)",
        "\n  doing    spawn\n",
        "\n  command  mcpjoin-no-such-program --flag 'two words'\n",
    ]);
    // The searched directories are named on request.
    assert!(!ran.stderr.contains("/usr/bin"), "{}", ran.stderr);
    run(["list", "-v", "mcpjoin-no-such-program", "x"]).exits(4).says(&["  searched ", "/usr/bin\n"]);
    assert_eq!((&failure["id"], &failure["phase"]), (&"E_SPAWN_NOT_FOUND".into(), &"spawn".into()));
}

#[test]
fn g5_a_dead_server() {
    let (ran, failure) = in_time(DEAD, &[], &["sh", "-c", "echo 'no key' >&2; echo Hello; exit 7"]);
    assert_eq!(labels(&ran), ["doing", "command", "after", "ended", "stderr", "stdout", "try"]);
    ran.says(&[
        "(E_SERVER_EXITED)",
        "doing    initialize",
        "ended    exit code 7",
        "stderr   no key",
        "stdout   Hello",
    ]);
    assert_eq!(failure["status"]["code"], 7);
    assert_eq!(failure["stderr"], serde_json::json!(["no key"]));
    assert_eq!(failure["stdout"], "Hello");

    let (ran, failure) = in_time(DEAD, &["--era", "legacy"], &["sh", "-c", "kill -SEGV $$"]);
    ran.says(&["ended    signal 11"]);
    assert_eq!(failure["status"]["signal"], 11);
}

#[test]
fn g5_a_dead_server_in_front_of_what_does_not_go_away() {
    let script = "trap '' TERM; sh -c 'while :; do sleep 1; done' & echo 'no key' >&2; exit 7";
    takes_less_than(Duration::from_secs(6), || {
        let began = Instant::now();
        let (_, failure) = in_time(DEAD, &["--era", "legacy"], &["sh", "-c", script]);
        assert_eq!(failure["status"]["code"], 7, "{failure}");
        assert_eq!(failure["stderr"][0], "no key");
        began.elapsed()
    });
}

#[test]
fn g5_a_silent_server() {
    let server = ["sh", "-c", "echo 'waiting for the database' >&2; cat >/dev/null"];
    // The time of the probe and of `initialize`, without the seconds that it takes to end the server.
    let (ran, failure) = in_time(2000..3800, &["--connect-timeout", "1s"], &server);
    assert_eq!(labels(&ran), ["doing", "command", "after", "stderr", "try"]);
    ran.says(&[
        "(E_SILENT)",
        "no answer to initialize within 1 s",
        "doing    initialize",
        "stderr   waiting for the database",
        "--connect-timeout",
    ]);
    assert_eq!(failure["stderr"], serde_json::json!(["waiting for the database"]));
    assert!(failure.get("status").is_none(), "{failure}");
}

#[test]
fn g5_a_server_that_prints_garbage() {
    let lines = "i=0; while [ $i -lt 25 ]; do printf 'Welcome \\033[1m%d\\n' $i; i=$((i+1)); done; ";
    let server = format!("echo 'version 3' >&2; {lines} exec sleep 1000");
    // The failure comes after 20 lines. It waits neither for the timeout of a response nor for the exit of the server.
    let (ran, failure) = both(&["--connect-timeout", "1h"], &["sh", "-c", &server]);
    assert_eq!(labels(&ran), ["doing", "command", "after", "stderr", "stdout", "try"]);
    ran.says(&["(E_NOT_MCP)", "stderr   version 3", r"stdout   Welcome \u{1b}[1m0"]);
    assert_eq!(failure["stdout"], "Welcome \u{1b}[1m0");
    assert_eq!(failure["stderr"], serde_json::json!(["version 3"]));

    // The server prints fewer than twenty lines, and then nothing.
    let server = ["sh", "-c", "echo Welcome; cat >/dev/null"];
    let (ran, _) = in_time(2000..3800, &["--connect-timeout", "1s"], &server);
    ran.says(&["(E_NOT_MCP)", "stdout   Welcome"]);
}

#[test]
fn g5_d68_a_server_that_floods_its_standard_error() {
    // The server floods without end, and never answers.
    let began = Instant::now();
    let (ran, failure) = both(&["--connect-timeout", "300ms"], &["sh", "-c", "exec yes 'out of luck' >&2"]);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let ran = ran.says(&["(E_SILENT)", "stderr   "]);
    assert!(ran.stderr.lines().filter(|line| line.ends_with("out of luck")).count() >= 2, "{}", ran.stderr);
    assert!(ran.stderr.lines().count() < 30, "{}", ran.stderr);
    assert!(failure["stderr"].as_array().unwrap().len() > 5, "{failure}");

    // A long output on standard error is followed by a response.
    let script = legacy(
        r#"read -r line; head -c 2000000 /dev/zero | tr '\0' x >&2; printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}'; cat >/dev/null"#,
    );
    let ran = run(["list", "--era", "legacy", "sh", "-c", &script]).exits(0);
    assert_eq!(ran.stdout, "the server has no tools, resources or prompts\n");
}

#[test]
fn g5_a_call_that_is_not_answered() {
    let ran = call_legacy(&["--timeout", "2s"], "echo 'still loading' >&2; cat >/dev/null").exits(4);
    assert_eq!(labels(&ran), ["doing", "command", "after", "stderr", "try"]);
    ran.says(&["(E_TIMEOUT)", "doing    call", "stderr   still loading"]);
    let ran =
        call_legacy(&["--json", "--timeout", "2s"], "echo 'still loading' >&2; cat >/dev/null").exits(4);
    assert_eq!(ran.failure()["stderr"], serde_json::json!(["still loading"]));
}

#[test]
fn g5_of_several_failures_each_is_one_object() {
    // Two lists fail: standard error has one JSON object per line.
    let script = r#"read -r line
printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"sh","version":"1"}}}'
read -r line; read -r line; read -r line
printf '%s\n' '{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"one"}}' '{"jsonrpc":"2.0","id":3,"error":{"code":-2,"message":"two"}}'
cat >/dev/null"#;
    let mut list = command(["list", "--json", "--era", "legacy", "sh", "-c", script]);
    list.env("TERM", "xterm");
    let ran = start(list).finish().exits(5);
    assert!(ran.json().is_object());
    let codes: Vec<i64> = ran
        .stderr
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["error"]["jsonrpc"]["code"].as_i64().unwrap()
        })
        .collect();
    assert_eq!(codes, [-1, -2]);
}

#[test]
fn what_sends_back_what_it_reads_is_named_by_every_verb() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
    for words in [
        &["list", "cat"][..],
        &["ping", "cat"],
        &["validate", "cat"],
        &["call", "x", "--", "cat"],
        &["list", &address],
        &["validate", &address],
        &["call", &address, "x"],
    ] {
        run(words).exits(4).says(&["(E_NOT_MCP)", "sends our own messages back"]);
    }
    let ran = run(["doctor", "cat"]).exits(1);
    assert!(ran.stdout.contains("(echo)"), "{}", ran.stdout);
}

#[test]
fn an_unsolicited_response_does_not_count_as_silence() {
    let server = r#"while read -r line; do
        id=${line#*'"id":'}; id=${id%%[,\}]*}
        printf '{"jsonrpc":"2.0","id":"%s","result":{}}\n' "$id"
    done"#;
    for verb in ["list", "ping", "validate"] {
        let ran = run([verb, "--connect-timeout", "2s", "sh", "-c", server]).exits(4);
        ran.says(&["(E_BAD_REPLY)", "has the unknown id"]);
    }
}

#[test]
fn another_kind_of_server_is_named_by_what_it_says() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = std::io::Write::write_all(&mut stream, b"SSH-2.0-OpenSSH_9.6\r\n");
            kept.push(stream);
        }
    });
    // The first line is enough: the response timeout is not awaited.
    let begun = Instant::now();
    let ran = run(["list", "--connect-timeout", "2m", &address]).exits(4);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    ran.says(&["the server speaks SSH", "received SSH-2.0-OpenSSH_9.6", "-- ssh host command"]);
}

#[test]
fn a_server_that_ends_with_0_before_it_has_answered_is_reported_with_possible_causes() {
    let ran = call_legacy(&[], "exit 0").exits(4);
    ran.says(&["(E_SERVER_EXITED)", "exited with success before it responded", "exit code 0"]);
}
