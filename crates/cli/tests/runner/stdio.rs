//! Tests of servers and clients on standard input and output, as the source documents require them.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use super::support::{command, line, start};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

/// The output of the demonstration server for these lines, followed by the end of its input.
fn served(lines: &[&str]) -> super::support::Ran {
    let mut serve = command(["serve", "demo", "--full"]);
    serve.stdin(Stdio::piped());
    let mut running = start(serve);
    let mut stdin = running.child.stdin.take().unwrap();
    for line in lines {
        writeln!(stdin, "{line}").unwrap();
    }
    drop(stdin);
    running.finish()
}

#[test]
fn r42_a_server_writes_nothing_but_messages_to_its_output() {
    let ran = served(&[
        "not a message",
        INITIALIZE,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"test_tool_with_logging"}}"#,
    ])
    .exits(0);
    let mut answered = Vec::new();
    for line in ran.stdout.lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        answered.extend(message.get("id").cloned());
    }
    // The call of a tool that waits between its steps also gets its response after the end of the input.
    assert_eq!(answered, [Value::Null, 1.into(), 2.into(), 3.into()], "{}", ran.stdout);
}

#[test]
fn r38_a_server_logs_to_standard_error_and_a_client_shows_it_when_asked() {
    let script = super::support::legacy(
        "echo 'a word of the server' >&2; read -r line; printf '%s\\n' '{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"tools\":[]}}'; cat >/dev/null",
    );
    let run = |options: &[&str]| {
        let mut words = vec!["list", "--era", "legacy"];
        words.extend(options);
        words.extend(["sh", "-c", &script]);
        super::support::run(words).exits(0)
    };
    assert!(!run(&[]).stderr.contains("a word of the server"));
    let shown = run(&["-v"]);
    assert!(shown.stderr.contains("a word of the server"), "{}", shown.stderr);
    assert!(!shown.stdout.contains("a word of the server"), "{}", shown.stdout);
}

#[test]
fn r47_spawn_initialize_initialized_list_call_close_exit_in_this_order() {
    let log = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("r47-{}", std::process::id()));
    let script = format!(
        "tee '{}' | '{}' serve demo --full; echo \"exit $?\" >> '{}'",
        log.display(),
        env!("CARGO_BIN_EXE_mcpjoin"),
        log.display()
    );
    let words = ["call", "--era", "legacy", "echo", "message=hi", "--", "sh", "-c", &script];
    assert_eq!(super::support::run(words).exits(0).stdout, "hi\n");
    let received = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    let methods: Vec<String> = received
        .lines()
        .map(|line| match serde_json::from_str::<Value>(line) {
            Ok(message) => message["method"].as_str().unwrap().to_owned(),
            Err(_) => line.to_owned(),
        })
        .collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/list", "tools/call", "exit 0"]);
}

#[test]
fn answers_that_cannot_be_written_are_no_success() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut serve = command(["serve", "demo", "--full"]);
    serve.stdin(Stdio::piped()).stdout(full());
    let mut running = start(serve);
    let mut stdin = running.child.stdin.take().unwrap();
    writeln!(stdin, "{INITIALIZE}").unwrap();
    drop(stdin);
    running.finish().exits(4).says(&[
        "(E_LINK)",
        "No space left on device",
        "where standard input and output are connected",
    ]);
    // A server without requests has no responses to write.
    let mut serve = command(["serve", "demo", "--full"]);
    serve.stdout(full());
    start(serve).finish().exits(0);
}

#[test]
fn c19_the_end_of_input_ends_the_demonstration_with_zero() {
    let ran = served(&[]).exits(0);
    assert_eq!(ran.stdout, "");
    line("list demo:").exits(0);
}
