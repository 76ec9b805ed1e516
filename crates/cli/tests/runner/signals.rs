//! Signals: what was started is gone, whatever it does.

use std::io::{BufRead, BufReader};
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
fn b170_ctrl_c_ends_everything_within_five_seconds() {
    for (server, limit) in [(POLITE, 1500), (STUBBORN, 5500)] {
        let running = ready(&["list", "-v", "--connect-timeout", "1h", "sh", "-c", server]);
        let began = Instant::now();
        running.signal("INT");
        running.finish().exits(130);
        assert!(began.elapsed() < Duration::from_millis(limit), "{:?}", began.elapsed());
    }
}

#[test]
fn b170_ctrl_c_twice_ends_everything_at_once() {
    let running = ready(&["list", "-v", "--connect-timeout", "1h", "sh", "-c", STUBBORN]);
    let began = Instant::now();
    running.signal("INT");
    running.signal("INT");
    // Two signals of one kind may become one. The third is then the second.
    std::thread::sleep(Duration::from_millis(100));
    running.signal("INT");
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
fn b170_a_call_under_way_is_cancelled() {
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
