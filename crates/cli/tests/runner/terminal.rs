//! Tests in a terminal: transient output and its removal, escaped server output, Ctrl-C, and pipes.
//!
//! `fixtures/terminal.py` creates the terminal, types the keys, and reports what was shown.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::support::{Ran, legacy, program, start};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mcpjoin");
/// The only control sequence that the binary writes to move the cursor: it returns to the first column and clears the line.
const TAKEN_AWAY: &str = "\r\u{1b}[K";

pub(super) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../test-support/fixtures").join(name)
}

pub(super) struct Seen {
    pub(super) shown: String,
    pub(super) exit: i64,
    seconds: f64,
}

/// A command that runs a program in a terminal. The keys are typed once the marker has been shown.
pub(crate) fn typed(marker: &str, keys: &str, words: &[&str]) -> Command {
    let mut terminal = program("python3", [fixture("terminal.py")]);
    terminal.args([marker, keys, PROGRAM]).args(words);
    terminal.env("TERM", "xterm-256color");
    terminal
}

/// Runs the binary in a terminal. The keys are typed once the marker has been shown. Asserts that no process is left, and that
/// the terminal settings are restored.
#[track_caller]
pub(super) fn seen(variables: &[(&str, &str)], marker: &str, keys: &str, words: &[&str]) -> Seen {
    let mut terminal = typed(marker, keys, words);
    terminal.envs(variables.iter().copied());
    let told = start(terminal).finish().exits(0).json();
    assert_eq!(told["restored"], true, "{told}");
    Seen {
        shown: told["shown"].as_str().unwrap().to_owned(),
        exit: told["exit"].as_i64().unwrap(),
        seconds: told["seconds"].as_f64().unwrap(),
    }
}

/// [`seen`] with several markers, each with its keys.
#[track_caller]
pub(super) fn seen_in_steps(variables: &[(&str, &str)], steps: &[(&str, &str)], words: &[&str]) -> Seen {
    seen(variables, "steps", &serde_json::to_string(steps).unwrap(), words)
}

/// The final content of a terminal, without the cleared lines.
pub(super) fn remaining(shown: &str) -> String {
    let lines = shown.split("\r\n").map(|line| line.rsplit(TAKEN_AWAY).next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn progress_is_shown_while_it_goes_on_and_only_the_result_remains() {
    for era in ["legacy", "modern"] {
        let seen = seen(&[], "", "", &["call", "--era", era, "demo:full", "test_tool_with_progress"]);
        assert_eq!(seen.exit, 0, "{}", seen.shown);
        // The steps that are drawn depend on the speed of the machine: a step can be replaced before it is shown.
        let steps = [
            "[--------------------]   0%  Begun",
            "[##########----------]  50%  Half done",
            "[####################] 100%  Done",
        ];
        let drawn = steps.iter().any(|step| seen.shown.contains(&format!("{TAKEN_AWAY}{step}")));
        assert!(drawn, "{:?}", seen.shown);
        assert_eq!(remaining(&seen.shown), "Tool with progress executed successfully\n");
    }
}

#[test]
fn i175_a_terminal_that_can_do_nothing_gets_nothing_that_it_cannot_do() {
    for variables in [
        &[("TERM", "dumb")][..],
        &[("TERM", "dumb"), ("CI", "true")],
        &[("TERM", "dumb"), ("NO_COLOR", "1"), ("LC_ALL", "C")],
    ] {
        let call = seen(variables, "", "", &["call", "demo:full", "test_tool_with_progress"]);
        assert_eq!(call.shown, "Tool with progress executed successfully\r\n");
        let list = seen(variables, "", "", &["list", "demo:"]);
        assert!(list.shown.contains("echo") && !list.shown.contains('\u{1b}'), "{:?}", list.shown);
    }
    let list = seen(&[("NO_COLOR", "1")], "", "", &["list", "demo:"]);
    assert!(!list.shown.contains('\u{1b}'), "{:?}", list.shown);
    let list = seen(&[], "", "", &["list", "demo:"]);
    assert!(list.shown.contains("\u{1b}["), "{:?}", list.shown);
    let narrow = seen(&[("COLUMNS", "1"), ("NO_COLOR", "1")], "", "", &["list", "demo:"]);
    assert_eq!(narrow.exit, 0, "{}", narrow.shown);
}

/// A call that reports that it is in progress, and continues with the given script.
fn busy(server: &str) -> String {
    legacy(&format!("read -r line; echo ready >&2; {server}"))
}

#[test]
fn i170_ctrl_c_ends_a_call_and_restores_the_terminal() {
    let script = busy("cat >/dev/null");
    let call = ["call", "-v", "--era", "legacy", "--force", "x", "--", "sh", "-c", &script];
    let seen = seen(&[], "ready", "^C", &call);
    assert_eq!(seen.exit, 130, "{:?}", seen.shown);
    assert!(seen.seconds < 5.0, "{}", seen.seconds);
}

#[test]
fn i170_ctrl_c_twice_ends_at_once_what_does_not_want_to_go() {
    let script = busy("trap '' TERM; while :; do sleep 1000 & wait; done");
    let call = ["call", "-v", "--era", "legacy", "--force", "x", "--", "sh", "-c", &script];
    let once = seen(&[], "ready", "^C", &call);
    assert_eq!(once.exit, 130, "{:?}", once.shown);
    assert!(once.shown.contains("stopping the server ... (Ctrl-C again: now)"), "{:?}", once.shown);
    assert!((2.0..6.0).contains(&once.seconds), "{}", once.seconds);
    let twice = seen(&[], "ready", "+^C", &call);
    assert_eq!(twice.exit, 130, "{:?}", twice.shown);
    assert!(twice.seconds < 1.5, "{}", twice.seconds);
}

#[test]
fn i170_ctrl_c_during_progress_leaves_no_line_behind() {
    let script = legacy(
        r#"read -r line; while :; do printf '%s\n' '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":'"$((n=n+1))"',"message":"working"}}'; sleep 0.02; done"#,
    );
    let call = ["call", "--era", "legacy", "--force", "x", "--", "sh", "-c", &script];
    let seen = seen(&[], "working", "+^C", &call);
    assert_eq!(seen.exit, 130, "{:?}", seen.shown);
    let last = remaining(&seen.shown);
    assert!(!last.contains("working"), "{last:?}: {:?}", seen.shown);
}

/// Sequences that a terminal would interpret or hide: ESC, CSI, OSC 8 and 52, BEL, C1, directions, no width, tags.
const HOSTILE: &str = r"\u001b[2J\u001b]8;;http://evil\u0007x\u001b]52;c;aGk=\u0007\u009b31m\u202e\u2066\u200b\ufeff\udb40\udc41\r\b";

#[track_caller]
fn harmless(shown: &str) {
    let own = shown.replace(TAKEN_AWAY, "").replace("\r\n", "\n");
    let bad = |c: char| {
        c.is_control() && c != '\n'
            || matches!(c, '\u{200b}' | '\u{202e}' | '\u{2066}' | '\u{feff}' | '\u{e0041}')
    };
    assert!(!own.contains(bad), "{own:?}");
    assert!(own.contains("\\u{1b}[2J") && own.contains("\\u{e0041}"), "{own:?}");
}

#[test]
fn i167_nothing_that_a_server_says_drives_a_terminal() {
    let options = ["--color", "never", "--era", "legacy"];
    let with = |verb: &str, more: &[&str], operands: &[&str], script: &str| {
        let mut words = vec![verb];
        words.extend(options);
        words.extend(more);
        words.extend(operands);
        words.extend(["--", "sh", "-c", script]);
        seen(&[], "", "", &words)
    };
    // In a result, a progress message, a log message, and standard error.
    let script = legacy(&format!(
        r#"read -r line
printf '%s\n' '{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":2,"progress":1,"message":"{HOSTILE}"}}}}' '{{"jsonrpc":"2.0","id":2,"result":{{"content":[{{"type":"text","text":"{HOSTILE}"}},{{"type":"{HOSTILE}"}}]}}}}'
cat >/dev/null"#
    ));
    let ran = with("call", &["--force"], &["x"], &script);
    assert_eq!(ran.exit, 0, "{:?}", ran.shown);
    harmless(&ran.shown);
    let ran = with("call", &["--force", "--json"], &["x"], &script);
    assert_eq!(ran.exit, 0, "{:?}", ran.shown);
    let json: Value = serde_json::from_str(&remaining(&ran.shown).replace('\n', "")).unwrap();
    let text: String = serde_json::from_str(&format!("\"{HOSTILE}\"")).unwrap();
    assert_eq!(json["content"][0]["text"], text);
    assert!(!remaining(&ran.shown).contains('\u{1b}'), "{:?}", ran.shown);

    let script = legacy(&format!(
        r#"printf '\033[2J\233\342\200\256\363\240\201\201\n' >&2
read -r line; printf '%s\n' '{{"jsonrpc":"2.0","id":2,"result":{{}}}}' '{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":"{HOSTILE}"}}}}'
read -r line; printf '%s\n' '{{"jsonrpc":"2.0","id":3,"error":{{"code":1,"message":"{HOSTILE}","data":"{HOSTILE}"}}}}'
cat >/dev/null"#
    ));
    let ran = with("call", &["-vv", "--force"], &["x"], &script);
    assert_eq!(ran.exit, 5, "{:?}", ran.shown);
    harmless(&ran.shown);

    // In names, titles and descriptions, and in the name of the server.
    let script = format!(
        r#"read -r line
printf '%s\n' '{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"{HOSTILE}","version":"{HOSTILE}"}}}}}}'
read -r line; read -r line
printf '%s\n' '{{"jsonrpc":"2.0","id":2,"result":{{"tools":[{{"name":"{HOSTILE}","description":"{HOSTILE}"}},{{"name":"b","title":"{HOSTILE}"}}]}}}}'
cat >/dev/null"#
    );
    let ran = with("list", &[], &[], &script);
    assert_eq!(ran.exit, 0, "{:?}", ran.shown);
    harmless(&ran.shown);
}

/// The result of a shell pipeline with the binary. The binary's own exit code is its last line on standard error.
fn piped(words: &str, reader: &str) -> Ran {
    let line = format!("{{ '{PROGRAM}' {words}; echo \"exit $?\" >&2; }} | {reader}");
    start(program("sh", ["-c", &line])).finish()
}

#[test]
fn i169_through_a_pipe_that_is_closed_early_it_is_quiet() {
    let ran = piped("list -q demo:", "head -1");
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("Tools\n", "exit 0\n"));
    let ran = piped("call demo:full test_tool_with_progress", "true");
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", "exit 0\n"));
    // More than a pipe can hold.
    let long = "x".repeat(100_000);
    let many = piped(&format!("call demo: echo message='first\n{long}\nlast'"), "head -1");
    assert_eq!((many.stdout.as_str(), many.stderr.as_str()), ("first\n", "exit 0\n"));
}
