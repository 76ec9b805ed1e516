//! Tests of failures as text and as JSON.

use std::time::Duration;

use mcpjoin::proto::session::{
    CallError, CloseCause, NegotiationFailure, ProcessExit, TransportEnd, TransportEndKind, TransportError,
    TransportErrorReason,
};

use super::{Failure, Phase};
use crate::exit::Exit;

fn died() -> Failure {
    let last = TransportEnd {
        kind: TransportEndKind::EndOfStream,
        exit: Some(ProcessExit::Code(7)),
        stderr: "one\n\nfatal: \u{1b}[31mno key\u{1b}[0m\n".into(),
    };
    let ended = NegotiationFailure::Ended { last, probe: None, garbage: Some("Hello\n".into()) };
    Failure::closed(&CloseCause::Opening(ended), Phase::Probe)
        .with("sh -c 'exit 7'", Duration::from_millis(12))
}

/// The text without its styles.
fn plain(failure: &Failure) -> String {
    anstream::adapter::strip_str(&failure.block(false)).to_string()
}

#[test]
fn a_failure_is_one_block() {
    let expected = "\
error: the server exited before the session was open (E_SERVER_EXITED)
  doing    probe
  command  sh -c 'exit 7'
  after    12 ms
  ended    exit code 7
  stderr   one
           fatal: \\u{1b}[31mno key\\u{1b}[0m
  stdout   Hello\\u{a}
  try      run the command by itself in a terminal; -v shows its standard error";
    assert_eq!(plain(&died()), expected);
}

/// One command a row, and one text for a program.
#[test]
fn what_can_be_tried_in_the_place_of_the_hint_has_its_own_row() {
    let failure = Failure::usage("no server is named", "mcpjoin list TARGET").or("mcpjoin list COMMAND");
    let expected = "error: no server is named (E_USAGE)\n  try      mcpjoin list TARGET\n  or       mcpjoin list COMMAND";
    assert_eq!(plain(&failure), expected);
    assert_eq!(failure.json()["error"]["hint"], "mcpjoin list TARGET, or mcpjoin list COMMAND");
}

#[test]
fn a_failure_is_one_object() {
    let error = &died().json()["error"];
    assert_eq!(error["id"], "E_SERVER_EXITED");
    assert_eq!(error["exitCode"], 4);
    assert_eq!(error["phase"], "probe");
    assert_eq!(error["status"]["code"], 7);
    assert_eq!(error["elapsedMs"], 12);
    assert_eq!(error["stderr"][0], "one");
    assert_eq!(error["stdout"], "Hello\n");
    assert!(error.get("jsonrpc").is_none());
}

#[test]
fn a_session_that_is_not_kept_is_a_matter_of_the_balancer() {
    let unknown = TransportError::new("x", true).because(TransportErrorReason::SessionNotKept);
    for phase in [Phase::Call, Phase::List] {
        let failure = Failure::call(&CallError::Lost(unknown.clone()), phase);
        assert!(failure.hint.contains("must share their sessions"), "{}", failure.hint);
    }
}

#[test]
fn of_a_long_stderr_the_end_is_shown() {
    let mut failure = Failure::new("E_X", Exit::Connection, Phase::Call, "x");
    let text: String = (0..100).map(|line| format!("line {line}\n")).collect();
    failure.keep_stderr(text.as_bytes());
    assert_eq!(failure.seen.stderr.len(), super::MAX_STDERR_LINES);
    assert_eq!(failure.seen.stderr.last().unwrap(), "line 99");
    failure.keep_stderr("é".repeat(10_000).as_bytes());
    assert_eq!(failure.seen.stderr[0].chars().count(), super::MAX_LINE_CHARS + 1);
    failure.keep_stderr(b"\xff\xfe\n");
    assert_eq!(failure.seen.stderr, ["\u{fffd}\u{fffd}"]);
}
