//! Tests of calls that become tasks: followed, detached, resumed by another process, and cancelled.

use std::io::{BufRead, BufReader};

use serde_json::json;

use super::sockets::Demo;
use super::support::{Running, command, line, run, start};

/// Starts the command with `-v`, and waits until it follows a task in progress.
fn following(words: &str) -> Running {
    let mut running = start(command(words.split(' ')));
    let mut stderr = BufReader::with_capacity(1, running.child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("working") {
        assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "it follows no task: {said}");
    }
    // The rest is not read: the pipe has room for all of the output.
    running.child.stderr = Some(stderr.into_inner());
    running
}

/// Polls until this number of computations is running. The timeout of the run ends a test that waits forever.
fn until_running(url: &str, count: i64) {
    let running = || {
        line(&format!("call --json {url} running_computations")).exits(0).json()["structuredContent"].clone()
    };
    while running() != json!({ "running": count }) {}
}

/// Starts a detached computation of one second. Returns its id, and the command line that resumes it.
fn left(options: &str, url: &str) -> (String, String) {
    let ran = line(&format!("call --detach {options} {url} slow_compute seconds=1 label=it")).exits(0);
    let again = ran.stderr.strip_prefix("resume it with: mcpjoin ");
    let again = again.unwrap_or_else(|| panic!("no line in {}", ran.stderr));
    assert_eq!(again.lines().count(), 1, "{}", ran.stderr);
    (ran.stdout.trim_end().to_owned(), again.trim_end().to_owned())
}

#[test]
fn a_call_that_becomes_a_task_gives_its_result() {
    let ran = line("call demo:full slow_compute seconds=1").exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("The result is there, after 1 s\n", ""));
    line("call -v demo:full slow_compute seconds=0").exits(0).says(&["working\n", "completed\n"]);
}

#[test]
fn a_tool_that_only_runs_as_a_task_ends_as_it_does() {
    for era in ["modern", "legacy"] {
        let ran = line(&format!("call --era {era} demo:full failing_job")).exits(5);
        assert_eq!(ran.stdout, "This job fails, as it always does\n");
        ran.says(&["tool `failing_job` returned an error"]);
    }
    let ran = line("call demo:full protocol_error_job").exits(5);
    ran.says(&["(E_SERVER_ERROR)", "-32603", "This job has broken down"]);
}

#[test]
fn a_task_is_taken_up_again_by_another_process() {
    let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
    let (id, again) = left("--era modern", &url);
    assert_eq!(again, format!("call --task {id} --era modern {url}"));
    let ran = line(&again).exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("it is there, after 1 s\n", ""));
    // The server keeps the result, and it equals the output of a call.
    let again = line(&format!("call --json --task {id} {url}")).exits(0).json();
    let call = line(&format!("call --json {url} slow_compute seconds=1 label=it")).exits(0).json();
    assert_eq!(again["content"], call["content"]);

    let left = line(&format!("call --json --detach {url} slow_compute seconds=1 label=it")).exits(0);
    assert_eq!(left.stderr, "");
    let task = left.json();
    assert_eq!(task["status"], "working");
    let id = task["taskId"].as_str().unwrap();
    let ran = line(&format!("call --json --task {id} {url}")).exits(0);
    assert_eq!(ran.json()["content"], call["content"]);
    // A failure has the same exit code when another process waits for it.
    let fails = line(&format!("call --detach {url} failing_job")).exits(0);
    let ran = line(&format!("call --task {} {url}", fails.stdout.trim_end())).exits(5);
    assert_eq!(ran.stdout, "This job fails, as it always does\n");
    ran.says(&[&format!("task `{}` returned an error", fails.stdout.trim_end())]);
    server.ends("TERM", 143);
}

#[test]
fn a_task_of_a_session_may_end_with_it_and_that_is_said() {
    let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
    let ran = line(&format!("call --detach --era legacy {url} slow_compute seconds=60")).exits(0);
    let id = ran.stdout.trim_end().to_owned();
    ran.says(&[&format!("call --task {id} --era legacy {url}\n"), "only until its session ends"]);
    line(&format!("call --task {id} --era legacy {url}")).exits(5).says(&["(E_UNKNOWN_TASK)"]);
    server.ends("TERM", 143);
}

#[test]
fn a_header_that_is_a_secret_is_not_in_the_line() {
    let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
    let header = "Authorization: Bearer hunter2hunter2";
    let ran = run(["call", "--detach", "-H", header, &url, "slow_compute", "seconds=0"]).exits(0);
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    ran.says(&["-H 'Authorization: "]);
    server.ends("TERM", 143);
}

#[test]
fn what_is_answered_at_once_is_no_task() {
    let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
    let ran = line(&format!("call --detach {url} greet name=Ada")).exits(0);
    assert_eq!(ran.stdout, "Hello, Ada!\n");
    assert_eq!(ran.stderr, "greet returned its result at once: there is no task\n");
    server.ends("TERM", 143);
}

#[test]
fn a_task_of_a_child_would_end_with_it_and_is_not_begun() {
    let ran = line("call --detach demo:full slow_compute seconds=60").exits(2);
    assert_eq!(ran.stdout, "");
    ran.says(&["(E_USAGE)", "would end with this command", "mcpjoin bridge --listen", "mcpjoin shell"]);
    line("call --task 1 demo:full").exits(5).says(&["(E_UNKNOWN_TASK)", "unknown task", "try "]);
}

#[test]
fn an_id_that_nobody_knows_is_reported() {
    let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
    let ran = line(&format!("call --json --task nobody {url}")).exits(5);
    let failure = ran.failure();
    assert_eq!(failure["id"], "E_UNKNOWN_TASK", "{failure}");
    assert!(failure.to_string().contains("unknown task"), "{failure}");
    server.ends("TERM", 143);
}

#[test]
fn a_task_takes_no_tool() {
    for words in [
        "call --task a demo: echo",
        "call --task a",
        "call --task a --detach demo:",
        "call --task a --tool echo demo:",
        "call --task a --args {} demo:",
    ] {
        let ran = line(words).exits(2);
        assert_eq!(ran.stdout, "", "{words}");
    }
    line("call --task a demo: echo").says(&["echo is an extra word"]);
}

#[test]
fn i170_a_task_that_is_waited_for_is_called_off() {
    let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let running = following(&format!("call -v {url} slow_compute seconds=600"));
        until_running(&url, 1);
        running.signal(signal);
        running.finish().exits(code);
        until_running(&url, 0);
    }
    server.ends("TERM", 143);
}

#[test]
fn a_task_that_was_left_is_called_off_by_ctrl_c_alone() {
    let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
    let ran = line(&format!("call --detach {url} slow_compute seconds=600")).exits(0);
    let again = format!("call -v --task {} {url}", ran.stdout.trim_end());
    let running = following(&again);
    running.signal("TERM");
    running.finish().exits(143);
    until_running(&url, 1);
    let running = following(&again);
    running.signal("INT");
    running.finish().exits(130);
    until_running(&url, 0);
    line(&again).exits(5).says(&["(E_TASK_CANCELLED)", "was cancelled"]);
    server.ends("TERM", 143);
}

#[test]
fn a_task_whose_question_is_not_answered_is_cancelled() {
    let stands = r#""taskId":"t","createdAt":"x","lastUpdatedAt":"x","ttlMs":null,"pollIntervalMs":100"#;
    let form = r#"{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}"#;
    let mut script = String::new();
    for (id, reply) in [
        (1, r#""result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#.to_owned()),
        (2, format!(r#""result":{{"resultType":"task","status":"working",{stands}}}"#)),
        (3, r#""error":{"code":-32601,"message":"nobody is told"}"#.to_owned()),
        (4, format!(r#""result":{{"resultType":"complete","status":"input_required","inputRequests":{{"a":{form}}},{stands}}}"#)),
    ] {
        script += &format!("read -r line; printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":{id},{reply}}}'\n");
    }
    script += "read -r line; echo \"received $line\" >&2; cat >/dev/null";
    let ran = run(["call", "-v", "--era", "modern", "--force", "x", "--", "sh", "-c", &script]).exits(5);
    ran.says(&["(E_NEEDS_INPUT)", "elicitation/create", "received ", "tasks/cancel"]);
}

#[test]
fn a_task_whose_server_is_not_reached_any_more_can_be_taken_up_again() {
    let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
    let call = following(&format!("call -v {url} slow_compute seconds=60"));
    drop(server);
    let ran = call.finish().exits(4).says(&["the task may still run: mcpjoin call --task "]);
    let line = ran.stderr.split_once("may still run: mcpjoin ").unwrap().1.lines().next().unwrap();
    assert!(line.ends_with(&format!("-v {url} resumes it")), "{line}");
}
