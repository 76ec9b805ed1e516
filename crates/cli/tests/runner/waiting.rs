//! Tests of the waiting line on a terminal, and of the cases without it. `script` of util-linux creates the terminal.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use super::support::{legacy, scratch, start};

/// Clears the line.
const AGAIN: &str = "\r\u{1b}[K";

/// The standard error of this command on a terminal. `seen` is called with all of the output each time more arrives.
fn shown(options: &[&str], variables: &[(&str, &str)], body: &str, mut seen: impl FnMut(&str)) -> String {
    let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
    let script = legacy(body);
    let mut words = vec![env!("CARGO_BIN_EXE_mcpjoin"), "call", "--era", "legacy", "--force"];
    words.extend(options);
    words.extend(["x", "--", "sh", "-c", &script]);
    let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let mut command = Command::new("script");
    command.args(["-q", "-e", "-c", &format!("{} >/dev/null", line.join(" ")), "/dev/null"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(variable);
    }
    command.env("TERM", "xterm").envs(variables.iter().copied());
    let mut running = start(command);
    let mut output = running.child.stdout.take().unwrap();
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = output.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        bytes.extend_from_slice(&buffer[..read]);
        seen(&String::from_utf8_lossy(&bytes));
    }
    running.finish().exits(0);
    String::from_utf8(bytes).unwrap()
}

/// Sends progress, and then the result.
const TELLING: &str = r#"read -r line
echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":50,"total":100,"message":"Half\u001b[2J done"}}'
echo '{"jsonrpc":"2.0","id":2,"result":{"content":[]}}'; cat >/dev/null"#;

#[test]
fn progress_is_a_bar_that_is_taken_away() {
    for variables in [&[][..], &[("NO_COLOR", "1")]] {
        let shown = shown(&[], variables, TELLING, |_| {});
        let bar = format!("{AGAIN}[##########----------]  50%  Half\\u{{1b}}[2J done{AGAIN}");
        assert!(shown.contains(&bar) && shown.ends_with(AGAIN), "{shown:?}");
    }
}

#[test]
fn where_no_line_can_be_drawn_there_is_none() {
    for (options, variables) in
        [(&["-q"][..], &[][..]), (&["--json"], &[]), (&[], &[("TERM", "dumb")]), (&[], &[("TERM", "")])]
    {
        let shown = shown(options, variables, TELLING, |_| {});
        assert_eq!(shown, "", "{options:?} {variables:?}");
    }
}

#[test]
fn a_call_without_progress_shows_how_long_it_takes() {
    let fifo = scratch("terminal");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let body = format!(
        r#"read -r line; read -r go <'{}'; echo '{{"jsonrpc":"2.0","id":2,"result":{{"content":[]}}}}'; cat >/dev/null"#,
        fifo.display()
    );
    let mut answered = false;
    let shown = shown(&[], &[], &body, |shown| {
        // The server responds after the line has been drawn twice.
        if !answered && shown.contains(&format!("{AGAIN}waiting 2 s")) {
            let mut go = std::fs::File::options().write(true).open(&fifo).unwrap();
            go.write_all(b"go\n").unwrap();
            answered = true;
        }
    });
    std::fs::remove_file(&fifo).unwrap();
    assert!(shown.contains(&format!("{AGAIN}waiting 1 s{AGAIN}waiting 2 s")), "{shown:?}");
    assert!(shown.ends_with(AGAIN), "{shown:?}");
}
