//! Tests of `shell`: scripts on standard input, and a person at a terminal.

use std::io::Write;
use std::process::Stdio;

use super::support::{Ran, command, legacy, legacy_with, scratch, start};
use super::terminal::seen_in_steps;

/// Runs a script in a session.
#[track_caller]
fn script(options: &[&str], lines: &str) -> Ran {
    let mut words = vec!["shell"];
    words.extend(options);
    let mut command = command(words);
    command.stdin(Stdio::piped());
    let mut running = start(command);
    running.child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    running.finish()
}

/// A server of the legacy era that lists no tools, and runs this shell code for each call: `answer TEXT` is a result.
fn server(calls: &str) -> String {
    let body = r#"answer() { printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$id" "$1"; }
n=0
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *tools/list*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}\n' "$id";;
    *tools/call*) CALLS;;
  esac
done"#;
    legacy_with(r#""tools":{"listChanged":true},"logging":{}"#, &body.replace("CALLS", calls))
}

#[test]
fn a_script_runs_in_one_session() {
    let lines = "# two calls\n\ncall add a=2 b=40\ncall --json add a=1 b=1\nread demo://about\n\
                 prompt translate text=Hi\ncomplete prompt:translate language=\ntools\nexit\ncall nothing\n";
    let ran = script(&["demo:"], lines).exits(0);
    let parts = [
        "{\"sum\":42.0}\n",
        "\"content\"",
        "This server is built into mcpjoin.",
        "user:",
        "English\nFrench\n",
        "echo",
    ];
    let mut rest = ran.stdout.as_str();
    for part in parts {
        let at = rest
            .find(part)
            .unwrap_or_else(|| panic!("{part:?} is missing or in the wrong place: {}", ran.stdout));
        rest = &rest[at + part.len()..];
    }
    assert!(!ran.stdout.contains("mcpjoin>"), "{}", ran.stdout);
}

#[test]
fn what_a_server_remembers_stays_between_the_calls() {
    let server = server("n=$((n+1)); answer \"call $n\"");
    let ran = script(&["--era", "legacy", "--", "sh", "-c", &server], "call x\ncall x\ncall x\n").exits(0);
    assert_eq!(ran.stdout, "call 1\ncall 2\ncall 3\n");
}

#[test]
fn a_request_whose_answer_has_an_unknown_id_ends_before_its_timeout() {
    let body = r#"while read -r line; do
  case $line in *resources/read*) printf '{"jsonrpc":"2.0","id":77,"result":{"contents":[]}}\n';; esac
done"#;
    let server = legacy_with(r#""resources":{}"#, body);
    let begun = std::time::Instant::now();
    let ran = script(&["--era", "legacy", "--", "sh", "-c", &server], "read test://a\n").exits(5);
    ran.says(&["(E_BAD_REPLY)", "it has the id 77, which no request has"]);
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn a_script_ends_at_the_first_failure_with_its_code() {
    for (line, code, id) in [
        ("call divide a=1 b=0", 5, "returned an error"),
        (
            "call nothing",
            5,
            "try      see the tools: list\n  or       see the parameters of one: tool NAME\n",
        ),
        ("tool nothing", 5, "try      see the tools: list\n"),
        ("read nothing:", 5, "try      see the resources and the URI templates: list\n"),
        ("call add a=x b=1", 2, "(E_USAGE)"),
        ("nonsense", 2, "nonsense is not a command of the shell"),
        ("call --timeout 1s add", 2, "--timeout applies to the whole session"),
        ("call 'x", 2, "a quotation mark is not closed"),
        ("read", 2, "(E_USAGE)"),
        ("call --nonsense", 2, "--nonsense"),
    ] {
        let ran = script(&["demo:"], &format!("call add a=1 b=1\n{line}\ncall add a=1 b=2\n")).exits(code);
        assert!(ran.stdout.starts_with("{\"sum\":2.0}\n"), "{line}: {}", ran.stdout);
        assert!(!ran.stdout.contains("3.0"), "{line}: {}", ran.stdout);
        ran.says(&[id]);
    }
}

#[test]
fn a_server_that_dies_is_said_and_started_again() {
    let dies = legacy("read -r line; exit 7");
    let lines = "call x\n";
    let ran = script(&["--era", "legacy", "--", "sh", "-c", &dies], lines).exits(4);
    ran.says(&["warning: the server ended", "exit code 7", "(E_SERVER_EXITED)"]);
    // The next command meets the server that was started again.
    let flag = scratch("shell-died");
    let calls =
        format!("if [ ! -e {flag} ]; then : > {flag}; exit 7; fi; answer again", flag = flag.display());
    let server = server(&calls);
    let words = ["shell", "--era", "legacy", "--", "sh", "-c", &server];
    let steps = [("mcpjoin> ", "call x\r"), ("runs again", "call x\r"), ("again\r\n", "exit\r")];
    let seen = seen_in_steps(&[("NO_COLOR", "1")], &steps, &words);
    assert_eq!(seen.exit, 0, "{}", seen.shown);
    assert!(seen.shown.contains("restarting it") && seen.shown.contains("again\r\n"), "{}", seen.shown);
    std::fs::remove_file(flag).unwrap();
}

#[test]
fn a_person_types_completes_and_leaves() {
    let folder = scratch("shell-state");
    let state = folder.to_str().unwrap();
    let words = ["shell", "demo:"];
    let variables = [("NO_COLOR", "1"), ("XDG_STATE_HOME", state)];
    let steps = [
        ("mcpjoin> ", "pi\t\r"),
        ("answered ", "call add a=20 b=22\r"),
        ("42.0}\r\n", "nonsense\r"),
        ("not a command", "exit\r"),
    ];
    let seen = seen_in_steps(&variables, &steps, &words);
    assert_eq!(seen.exit, 0, "{}", seen.shown);
    for part in [
        "connected to mcpjoin-demo",
        "answered ",
        "{\"sum\":42.0}\r\n",
        "nonsense is not a command of the shell",
    ] {
        assert!(seen.shown.contains(part), "{part:?} is missing in: {}", seen.shown);
    }
    let history = std::fs::read_to_string(folder.join("mcpjoin/shell-history")).unwrap();
    assert!(history.contains("call add a=20 b=22"), "{history}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_question_is_asked_while_a_call_of_the_shell_runs() {
    let steps = [
        ("mcpjoin> ", "call test_elicitation message=who\r"),
        ("(username)", "Ada\r"),
        ("(email)", "ada@example.com\r"),
        ("Send this", "\r"),
        ("action: accept", "exit\r"),
    ];
    let seen = seen_in_steps(&[("NO_COLOR", "1")], &steps, &["shell", "demo:full"]);
    assert_eq!(seen.exit, 0, "{}", seen.shown);
    assert!(seen.shown.contains("demo:full asks:"), "{}", seen.shown);
}

#[test]
fn a_question_at_the_prompt_is_asked_after_the_line() {
    let question = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}"#;
    let log = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":"{text}"}}}}"#
        )
    };
    for (answer, keys, told) in [("Send this", "\r", "accept"), ("name: text", "^C", "cancel")] {
        let received =
            format!(r#"*\"action\":\"{told}\"*) printf '%s\n' '{}';;"#, log(&format!("got {told}")));
        let server = server(":").replacen("n=0", &format!("printf '%s\\n' '{question}'"), 1);
        let server = server.replacen("*tools/list*)", &format!("{received} *tools/list*)"), 1);
        let mut steps = vec![("press Enter to see it", "\r"), ("name: text", "Ada\r"), (answer, keys)];
        if answer == "name: text" {
            steps.remove(1);
        }
        steps.push(("server: [info] got", "exit\r"));
        let words = ["shell", "--era", "legacy", "--", "sh", "-c", &server];
        let seen = seen_in_steps(&[("NO_COLOR", "1")], &steps, &words);
        assert_eq!(seen.exit, 0, "{}", seen.shown);
        assert!(seen.shown.contains(&format!("got {told}")), "{}", seen.shown);
    }
}

#[test]
fn ctrl_c_cancels_the_call_and_not_the_shell() {
    for era in ["legacy", "modern"] {
        ctrl_c_in(era);
    }
}

fn ctrl_c_in(era: &str) {
    let steps = [
        ("mcpjoin> ", "call test_elicitation message=who\r"),
        ("(username)", "^C"),
        ("cancelled", "call add a=20 b=22\r"),
        ("42.0}\r\n", "half a line^C"),
        ("mcpjoin> ", "call test_elicitation message=who\r"),
        ("(username)", "^C"),
        ("cancelled", "exit\r"),
    ];
    let seen = seen_in_steps(&[("NO_COLOR", "1")], &steps, &["shell", "--era", era, "demo:full"]);
    assert_eq!(seen.exit, 0, "{}", seen.shown);
}

#[test]
fn what_the_server_says_goes_above_the_line_that_is_edited() {
    let notes = r#"printf '%s\n' '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hello \u001b[2J"}}'"#;
    let changes = r#"printf '%s\n' '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'"#;
    let server = server(":").replacen("n=0", &format!("{notes}; {changes}"), 1);
    let steps = [("the server's tools have changed", "exit\r")];
    let words = ["shell", "--era", "legacy", "--", "sh", "-c", &server];
    let seen = seen_in_steps(&[("NO_COLOR", "1")], &steps, &words);
    assert_eq!(seen.exit, 0, "{}", seen.shown);
    assert!(seen.shown.contains("server: [info] hello \\u{1b}[2J"), "{}", seen.shown);
}

#[test]
fn watch_shows_a_resource_each_time_it_changes() {
    for era in ["legacy", "modern"] {
        let steps = [
            ("mcpjoin> ", "watch test://watched-resource\r"),
            ("Ctrl-C ends it", "^C"),
            ("cancelled", "exit\r"),
        ];
        let seen = seen_in_steps(&[("NO_COLOR", "1")], &steps, &["shell", "--era", era, "demo:full"]);
        assert_eq!(seen.exit, 0, "{}", seen.shown);
    }
    let update = r#"printf '%s\n' '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}'"#;
    let body = format!(
        "read -r line; printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{{}}}}'; {update}; read -r line; \
         printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{{\"contents\":[{{\"uri\":\"a:b\",\"text\":\"new\"}}]}}}}'; exit 7"
    );
    let server = legacy_with(r#""resources":{"subscribe":true}"#, &body);
    let ran = script(&["--era", "legacy", "--", "sh", "-c", &server], "watch a:b\n").exits(4);
    assert_eq!(ran.stdout, "new");
    ran.says(&["a:b has changed:"]);
}

#[test]
fn a_line_of_a_script_is_bounded() {
    let ran = script(&["demo:"], &format!("# {}\n", "x".repeat(1 << 20))).exits(2);
    ran.says(&["a line has more than 1048576 bytes"]);
}
