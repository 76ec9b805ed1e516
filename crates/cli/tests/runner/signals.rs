//! Tests of signals: all child processes are gone after the binary ends, whatever they do.

use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::config::Folder;
use super::orphans::until;
use super::support::{Running, command, legacy, marked, start, takes_less_than};

/// Reports that it is ready, and ignores the request to end.
const STUBBORN: &str = "trap '' TERM; echo ready >&2; while :; do sleep 1000 & wait; done";
/// Reports that it is ready, and exits at the end of its standard input.
const POLITE: &str = "echo ready >&2; cat >/dev/null";

/// Starts the command, and waits until the server reports that it is ready.
fn ready(words: &[&str]) -> Running {
    let mut running = start(command(words));
    // The rest is not read: the pipe has room for all of the output.
    let mut stderr = BufReader::with_capacity(1, running.child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it ended before the server was there");
    }
    running.child.stderr = Some(stderr.into_inner());
    running
}

#[test]
fn i170_ctrl_c_ends_everything_within_five_seconds() {
    for (server, limit) in [(POLITE, 1500), (STUBBORN, 5500)] {
        takes_less_than(Duration::from_millis(limit), || {
            let running = ready(&["list", "-v", "--connect-timeout", "1h", "sh", "-c", server]);
            let began = Instant::now();
            running.signal("INT");
            running.finish().exits(130);
            began.elapsed()
        });
    }
}

#[test]
fn i170_ctrl_c_twice_ends_everything_at_once() {
    takes_less_than(Duration::from_millis(1500), || {
        let mut running = ready(&["list", "-v", "--connect-timeout", "1h", "sh", "-c", STUBBORN]);
        let began = Instant::now();
        // Pending signals of one kind merge into one, so the signal is sent until the process ends.
        while running.child.try_wait().unwrap().is_none() {
            running.signal("INT");
        }
        running.finish().exits(130);
        began.elapsed()
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_waits_for_its_client_watches_its_signals() {
    let mut serve = command(["serve", "demo"]);
    serve.stdin(Stdio::piped());
    let running = start(serve);
    let tasks = format!("/proc/{}/task", running.child.id());
    // The first messages are answered before this thread is started.
    until(|| {
        let mut names = std::fs::read_dir(&tasks).unwrap().map(|task| task.unwrap().path().join("comm"));
        names.any(|name| std::fs::read_to_string(name).is_ok_and(|name| name == "signals\n")).then_some(())
    });
    running.signal("TERM");
    running.finish().exits(143);
}

/// The writing end of a pipe that is full, and the reading end.
fn full_pipe() -> (Stdio, PipeReader) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    for length in [4096, 1] {
        while writer.write(&[b'x'; 4096][..length]).is_ok() {}
    }
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    (writer.into(), reader)
}

#[test]
fn the_second_signal_ends_a_command_that_is_stuck_and_its_guard_ends_the_server() {
    let folder = Folder::new("signals-stuck");
    let ready = folder.path().join("ready");
    assert!(Command::new("mkfifo").arg(&ready).status().unwrap().success());
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        // The command blocks while it writes to standard error, so it cannot react to the first signal.
        let script = legacy(&format!("echo ready >{}; {STUBBORN}", ready.display()));
        let mut list = command(["list", "--era", "legacy", "sh", "-c", &script]);
        let (stderr, reader) = full_pipe();
        list.stderr(stderr);
        let mut running = start(list);
        assert_eq!(std::fs::read_to_string(&ready).unwrap(), "ready\n");
        // Pending signals of one kind merge into one, so the signal is sent until the process ends.
        until(|| {
            running.signal(signal);
            running.child.try_wait().unwrap()
        });
        until(|| marked(&running.mark).is_empty().then_some(()));
        drop(reader);
        running.finish().exits(code);
    }
}

#[test]
fn f10_terminate_ends_everything() {
    let running = ready(&["list", "-v", "--connect-timeout", "1h", "sh", "-c", POLITE]);
    running.signal("TERM");
    running.finish().exits(143);
}

#[test]
fn i170_a_call_in_flight_is_cancelled() {
    // The server records what it receives after the call.
    let script =
        legacy("read -r line; echo ready >&2; read -r line; echo \"received $line\" >&2; cat >/dev/null");
    let running = ready(&["call", "-v", "--era", "legacy", "--force", "x", "--", "sh", "-c", &script]);
    running.signal("INT");
    running.finish().exits(130).says(&["notifications/cancelled"]);
}

#[test]
fn f10_a_grandchild_that_outlives_its_parent_is_ended() {
    let script = legacy("setsid sleep 1000 >/dev/null 2>&1 & read -r line; echo ready >&2; cat >/dev/null");
    let running = ready(&["call", "-v", "--era", "legacy", "--force", "x", "--", "sh", "-c", &script]);
    running.signal("TERM");
    running.finish().exits(143);
}

#[test]
fn i170_a_reader_that_does_not_read_holds_nothing_up() {
    // More than a pipe can hold.
    let script = legacy(
        r#"read -r line; printf '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"%0200000d"}]}}\n' 1; cat >/dev/null"#,
    );
    let mut running = start(command(["call", "--era", "legacy", "--force", "x", "--", "sh", "-c", &script]));
    let mut stdout = running.child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    running.signal("TERM");
    running.finish().exits(143);
    drop(stdout);
}

/// A list whose second page never arrives.
fn unending(name: &str) -> String {
    legacy(&format!(
        r#"read -r line; printf '%s\n' '{{"jsonrpc":"2.0","id":2,"result":{{"tools":[{{"name":"{name}","x":["\u007d"]}}],"nextCursor":"more"}}}}'; cat >/dev/null"#
    ))
}

/// Sends the signal when the tool has been printed. Returns all of standard output.
fn interrupted(command: Command, tool: &str, signal: &str, code: i32) -> String {
    let mut running = start(command);
    let mut stdout = running.child.stdout.take().unwrap();
    let mut printed = Vec::new();
    while !String::from_utf8_lossy(&printed).contains(tool) {
        let mut piece = [0; 4096];
        let length = stdout.read(&mut piece).unwrap();
        assert_ne!(length, 0, "it ended without the tool");
        printed.extend(&piece[..length]);
    }
    running.signal(signal);
    stdout.read_to_end(&mut printed).unwrap();
    running.finish().exits(code);
    String::from_utf8(printed).unwrap()
}

#[test]
fn i170_a_document_that_a_signal_ends_is_whole_and_says_so() {
    let script = unending("first");
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let list = command(["list", "--json", "--era", "legacy", "sh", "-c", &script]);
        let text = interrupted(list, "first", signal, code);
        let json: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(json["tools"][0]["name"], "first");
        assert_eq!(
            (&json["errors"][0]["id"], &json["errors"][0]["exitCode"]),
            (&"E_INTERRUPTED".into(), &code.into())
        );
    }
    // In text output, the items received so far are printed.
    let list = command(["list", "--describe", "--era", "legacy", "sh", "-c", &script]);
    assert_eq!(interrupted(list, "first", "INT", 130).lines().next(), Some("Tools"));
}

#[test]
fn a_list_that_a_signal_ends_does_not_say_that_the_server_has_nothing() {
    let script = legacy("read -r line; echo asked >&2; cat >/dev/null");
    let mut running = start(command(["list", "-v", "--era", "legacy", "sh", "-c", &script]));
    let mut stderr = BufReader::new(running.child.stderr.take().unwrap()).lines();
    assert!(stderr.any(|line| line.unwrap().contains("asked")));
    running.signal("INT");
    let ran = running.finish().exits(130);
    assert_eq!(ran.stdout, "");
}

#[test]
fn i170_a_document_of_several_servers_that_a_signal_ends_is_whole_and_says_so() {
    let folder = Folder::new("signals-several");
    let entry = |name: &str| {
        let script = Value::from(unending(&format!("of-{name}")));
        format!(r#""{name}": {{"command": "sh", "args": ["-c", {script}]}}"#)
    };
    let entries = [entry("a"), entry("b")].join(",");
    folder.file(".mcp.json", format!("{{\"mcpServers\": {{{entries}}}}}"));
    let list = folder.command(&["list", "--json", "--era", "legacy"]);
    let text = interrupted(list, "of-a", "INT", 130);
    let json: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(json["error"]["id"], "E_INTERRUPTED");
    assert_eq!(json["servers"][0]["server"]["errors"][0]["id"], "E_INTERRUPTED");
    assert_eq!(json["servers"].as_array().map(Vec::len), Some(1));
}
