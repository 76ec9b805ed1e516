//! Tests of `--trace FILE` and of the output with `-vv`.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::support::{call_legacy, legacy, line, run, scratch};

/// Runs a command with a trace file, and returns the lines of the trace.
fn traced(words: &[&str]) -> (super::support::Ran, Vec<Value>) {
    let path = scratch(&format!("trace-{}", words.concat().len()));
    let (verb, rest) = words.split_first().unwrap();
    let mut all = vec![*verb, "--trace", path.to_str().unwrap()];
    all.extend(rest);
    let ran = run(all);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    let lines = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (ran, lines)
}

#[test]
fn everything_that_crosses_is_written_down_in_order() {
    let (ran, lines) = traced(&["call", "--era", "legacy", "demo:", "echo", "message=hi"]);
    assert_eq!((ran.exits(0).stdout, lines.len()), ("hi\n".to_owned(), 7));
    let crossed: Vec<(&str, &str)> = lines
        .iter()
        .map(|line| {
            let method = line["message"]["method"].as_str().unwrap_or("result");
            (line["direction"].as_str().unwrap(), method)
        })
        .collect();
    assert_eq!(
        crossed,
        [
            ("sent", "initialize"),
            ("received", "result"),
            ("sent", "notifications/initialized"),
            ("sent", "tools/list"),
            ("received", "result"),
            ("sent", "tools/call"),
            ("received", "result"),
        ]
    );
    assert_eq!(lines[6]["message"]["result"]["content"][0]["text"], "hi");
    let times: Vec<&str> = lines.iter().map(|line| line["time"].as_str().unwrap()).collect();
    assert!(times.is_sorted() && times.iter().all(|time| time.len() == 27), "{times:?}");
}

#[test]
fn every_verb_with_a_server_has_a_trace() {
    for (words, method) in [
        (&["list", "demo:"][..], "prompts/list"),
        (&["read", "demo:full", "test://static-text"], "resources/read"),
        (&["prompt", "demo:full", "test_simple_prompt"], "prompts/get"),
        (&["complete", "demo:full", "prompt:test_prompt_with_arguments", "arg1"], "completion/complete"),
        (&["ping", "demo:"], "server/discover"),
    ] {
        let (ran, lines) = traced(words);
        ran.exits(0);
        assert!(lines.iter().any(|line| line["message"]["method"] == method), "{words:?}: {lines:?}");
    }
}

#[test]
fn i166_a_trace_has_no_secret_and_what_is_no_message_as_text() {
    let script = legacy(
        r#"echo "{\"its\":\"$TOKEN\"}" >&2; echo "no message, but $TOKEN"; read -r line
printf '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"%s"}],"escaped":"h\\u0075nter2","%s":1}}\n' "$TOKEN" "$TOKEN"; cat >/dev/null"#,
    );
    let words = ["list", "--era", "legacy", "-e", "TOKEN=hunter2", "sh", "-c", &script];
    let (ran, lines) = traced(&words);
    ran.exits(0);
    let all = format!("{lines:?}");
    assert!(!all.contains("hunter2"), "{all}");
    let find = |direction: &str, text: &str| {
        lines.iter().any(|line| line["direction"] == direction && line["text"] == text)
    };
    assert!(find("stderr", r#"{"its":"***"}"#) && find("received", "no message, but ***"), "{all}");
    let result = &lines
        .iter()
        .find(|line| line["message"]["id"] == 2 && line["direction"] == "received")
        .unwrap()["message"]["result"];
    assert_eq!(
        (&result["tools"][0]["name"], &result["escaped"], &result["***"]),
        (&"***".into(), &"***".into(), &1.into())
    );
}

#[test]
fn i176_a_trace_that_cannot_be_written_is_reported_and_harms_nothing() {
    let ran = line("call --trace /dev/full demo: echo message=hi").exits(0);
    assert_eq!(ran.stdout, "hi\n");
    assert_eq!(ran.stderr.matches("warning: the trace ends here").count(), 1, "{}", ran.stderr);
    let ran = line("call --trace /no/such/folder/x demo: echo message=hi").exits(2);
    ran.says(&["(E_USAGE)", "/no/such/folder/x"]);
}

#[test]
fn a_trace_of_what_fails_has_what_came_before() {
    let (ran, lines) = traced(&["list", "sh", "-c", "echo Welcome; echo fatal >&2; exit 7"]);
    ran.exits(4);
    let texts: Vec<&str> = lines.iter().filter_map(|line| line["text"].as_str()).collect();
    assert!(texts.contains(&"Welcome") && texts.contains(&"fatal"), "{texts:?}");
}

#[test]
fn vv_shows_what_the_connection_notices_and_v_does_not() {
    let body = r#"read -r line; echo '{"jsonrpc":"2.0","id":99,"result":{}}'; echo '{"jsonrpc":"2.0","id":2,"result":{}}'
read -r line; echo '{"jsonrpc":"2.0","id":3,"result":{"content":[]}}'; cat >/dev/null"#;
    let noticed = "mcpjoin: [debug] the peer broke a rule, violation: ";
    call_legacy(&["-vv"], body).exits(0).says(&[noticed, "99"]);
    assert!(!call_legacy(&["-v"], body).exits(0).stderr.contains(noticed));
}
