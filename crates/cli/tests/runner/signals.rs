//! Signals: what was started is gone, whatever it does.

use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use super::support::{Running, command, legacy, start};

/// Says that it is there, and then does not go away when it is asked to.
const STUBBORN: &str = "trap '' TERM; echo ready >&2; while :; do sleep 1000 & wait; done";
/// Says that it is there, and goes away when its standard input ends.
const POLITE: &str = "echo ready >&2; cat >/dev/null";

/// Starts it and waits until the server has said that it is there.
fn ready(words: &[&str]) -> Running {
    let mut running = start(command(words));
    // What follows is not read: the pipe holds more than is said here.
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
        let running = ready(&["list", "-v", "--connect-timeout", "1h", "sh", "-c", server]);
        let began = Instant::now();
        running.signal("INT");
        running.finish().exits(130);
        assert!(began.elapsed() < Duration::from_millis(limit), "{:?}", began.elapsed());
    }
}

#[test]
fn i170_ctrl_c_twice_ends_everything_at_once() {
    let mut running = ready(&["list", "-v", "--connect-timeout", "1h", "sh", "-c", STUBBORN]);
    let began = Instant::now();
    // Signals of one kind that come together become one, so it is told until it is heard twice.
    while running.child.try_wait().unwrap().is_none() {
        running.signal("INT");
    }
    running.finish().exits(130);
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
}

#[test]
fn f10_terminate_ends_everything() {
    let running = ready(&["list", "-v", "--connect-timeout", "1h", "sh", "-c", POLITE]);
    running.signal("TERM");
    running.finish().exits(143);
}

#[test]
fn i170_a_call_under_way_is_cancelled() {
    // The server writes what it is told after the call.
    let script =
        legacy("read -r line; echo ready >&2; read -r line; echo \"heard $line\" >&2; cat >/dev/null");
    let running = ready(&["call", "-v", "--era", "legacy", "x", "--", "sh", "-c", &script]);
    running.signal("INT");
    running.finish().exits(130).says(&["notifications/cancelled"]);
}

#[test]
fn f10_a_grandchild_that_outlives_its_parent_is_ended() {
    let script = legacy("setsid sleep 1000 >/dev/null 2>&1 & read -r line; echo ready >&2; cat >/dev/null");
    let running = ready(&["call", "-v", "--era", "legacy", "x", "--", "sh", "-c", &script]);
    running.signal("TERM");
    running.finish().exits(143);
}

#[test]
fn i170_a_reader_that_does_not_read_holds_nothing_up() {
    // More than a pipe holds.
    let script = legacy(
        r#"read -r line; printf '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"%0200000d"}]}}\n' 1; cat >/dev/null"#,
    );
    let mut running = start(command(["call", "--era", "legacy", "x", "--", "sh", "-c", &script]));
    let mut stdout = running.child.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).unwrap();
    running.signal("TERM");
    running.finish().exits(143);
    drop(stdout);
}
