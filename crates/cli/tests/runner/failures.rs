//! Tests of failures and their messages.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use super::support::{call_legacy, command, legacy, legacy_with, line, run, start};

/// Returns an empty list for `tools/list`.
const NO_TOOL: &str =
    r#"read -r line; printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}'; cat >/dev/null"#;

#[test]
fn r8_a_missing_program_is_reported_at_once() {
    let took =
        || line("list --json mcpjoin-no-such-program").exits(4).failure()["elapsedMs"].as_u64().unwrap();
    // The machine may be busy during one run, but not during all three.
    assert!((0..3).any(|_| took() < 200), "never within 0.2 s");
    let ran = line("list mcpjoin-no-such-program --flag").exits(4);
    assert_eq!(ran.stdout, "");
    ran.says(&[
        "(E_SPAWN_NOT_FOUND)",
        "doing    spawn",
        "command  mcpjoin-no-such-program --flag",
        "try      ",
    ]);
}

#[test]
fn a_version_that_does_not_exist_is_named_with_those_that_exist() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2031-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}"#;
    let script = format!("read -r line; printf '%s\\n' '{answer}'; cat >/dev/null");
    let exist = "mcpjoin speaks 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28";
    let said = "the server speaks protocol version 2031-01-01, which this client does not";
    let ran = run(["list", "--era", "legacy", "sh", "-c", &script]).exits(4);
    ran.says(&["(E_VERSION)", said, "try      update the server, or report this to its authors (", exist]);
    let ran = run(["doctor", "--era", "legacy", "sh", "-c", &script]).exits(1);
    for part in [said, "(version)", exist] {
        assert!(ran.stdout.contains(part), "{part:?} is missing in {}", ran.stdout);
    }
    // Another version that exists needs another option.
    let other = script.replace("2031-01-01", "2025-03-26");
    let words = ["list", "--era", "legacy", "--protocol-version", "2025-06-18", "sh", "-c", &other];
    run(words).exits(4).says(&["2025-03-26, which", "try      leave out --protocol-version"]);
}

#[test]
fn what_a_server_leaves_out_is_named_in_the_words_of_the_protocol() {
    for (result, said) in [
        ("[]", "the answer to initialize is not valid: invalid type: an array, expected an object"),
        ("{}", "the answer to initialize is not valid: `protocolVersion` is missing"),
    ] {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        let script = format!("read -r line; printf '%s\\n' '{answer}'; cat >/dev/null");
        run(["list", "--era", "legacy", "sh", "-c", &script]).exits(4).says(&[said, "(E_BAD_REPLY)"]);
    }
}

#[test]
fn an_answer_whose_id_is_given_twice_is_named() {
    let list = |answer: &str| legacy(&format!("read -r line; printf '%s\\n' '{answer}'; cat >/dev/null"));
    let limit = ["--json", "--era", "legacy"];
    // Neither of two ids can be trusted, and the request that waits gets no other answer.
    let twice = list(r#"{"jsonrpc":"2.0","id":2,"id":2,"result":{"tools":[]}}"#);
    for (verb, method) in [("list", "tools/list"), ("ping", "ping")] {
        let failure = run([&[verb], &limit[..], &["sh", "-c", &twice]].concat()).exits(5).failure();
        assert_eq!(failure["id"], "E_BAD_REPLY", "{failure}");
        let said =
            format!("the answer to {method} is not valid: the member \"id\" appears twice, at byte 25: ");
        let message = failure["message"].as_str().unwrap();
        assert!(message.starts_with(&said), "{failure}");
        // An excerpt can be copied.
        assert!(message.ends_with(r#""id":2,"result":{"tools":[]}}"#), "{failure}");
    }
    // Of another member the answer is known.
    let twice = list(r#"{"jsonrpc":"2.0","id":2,"result":{},"result":{"tools":[]}}"#);
    let failure = run([&["list"], &limit[..], &["sh", "-c", &twice]].concat()).exits(5).failure();
    assert_eq!(failure["id"], "E_BAD_REPLY", "{failure}");
    assert!(
        failure["message"].as_str().unwrap().contains("the member \"result\" appears twice"),
        "{failure}"
    );
}

#[test]
fn an_answer_with_the_id_of_no_request_is_named_before_the_timeout() {
    let answer =
        |id: &str| format!(r#"printf '%s\n' '{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[]}}}}'"#);
    let server = |id: &str| legacy(&format!("read -r line; {}; cat >/dev/null", answer(id)));
    for id in ["77", r#""2""#, r#""x\u001b[2J""#] {
        // The request has a minute.
        let failure = run(["list", "--json", "--era", "legacy", "sh", "-c", &server(id)]).exits(5).failure();
        assert_eq!(failure["id"], "E_BAD_REPLY", "{failure}");
        let said = format!("the answer to tools/list is not valid: it has the id {id}, which no request has");
        assert_eq!(failure["message"], said);
        assert!(failure["elapsedMs"].as_u64().unwrap() < 30_000, "{failure}");
    }
    // The answer to one of two requests leaves the other one.
    let both = format!("read -r line; read -r line; {}; {}; cat >/dev/null", answer("77"), answer("2"));
    let server = legacy_with(r#""tools":{},"prompts":{}"#, &both);
    let listed = run(["list", "--json", "--era", "legacy", "sh", "-c", &server]).exits(5).json();
    assert!(listed["tools"].as_array().unwrap().is_empty(), "{listed}");
    assert!(listed.to_string().contains("the id 77, which no request has"), "{listed}");
}

#[test]
fn a_call_is_answered_although_a_response_to_no_request_came_before() {
    // As a server that answers the notification `initialized`.
    let stray = r#"printf '%s\n' '{"jsonrpc":"2.0","id":0,"result":{}}'"#;
    let tools = r#"printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}}'"#;
    let result =
        r#"printf '%s\n' '{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"done"}]}}'"#;
    // The call takes longer than a list may.
    let server = legacy(&format!(
        "read -r line; {stray}; {tools}; read -r line; {stray}; sleep 3; {result}; cat >/dev/null"
    ));
    let ran = run(["call", "--era", "legacy", "x", "--", "sh", "-c", &server]).exits(0);
    assert_eq!(ran.stdout, "done\n", "{}", ran.stderr);
    ran.says(&[
        "warning: the server has sent a response while tools/call waits: it has the id 0, which no request has; Ctrl-C \
         cancels the call",
    ]);
}

#[test]
fn a_second_answer_to_another_request_is_named_while_a_request_waits() {
    let first = r#"printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}'"#;
    let twice = format!("read -r line; {first}; read -r line; {first}; cat >/dev/null");
    let words = ["call", "--era", "legacy", "--timeout", "3s", "x", "--", "sh", "-c", &legacy(&twice)];
    let ran = run(words).exits(4);
    // The warning comes before the timeout.
    assert!(ran.stderr.find("warning") < ran.stderr.find("error"), "{}", ran.stderr);
    ran.says(&[
        "warning: the server has answered the request 2 twice, and tools/call not yet",
        "; the server has sent a second response to the request 2 (E_TIMEOUT)",
        "try      that may have been the answer",
    ]);
}

#[test]
fn an_error_without_an_id_is_named_where_a_call_gets_no_answer() {
    let parse_error = r#"printf '%s\n' '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}'"#;
    let ran =
        call_legacy(&["--timeout", "1s"], &format!("read -r line; {parse_error}; cat >/dev/null")).exits(4);
    ran.says(&[
        "; the server has sent an error response without an id (E_TIMEOUT)",
        "may have been the answer",
    ]);
}

#[test]
fn an_answer_in_an_array_fails_its_call_at_once() {
    let array = r#"printf '%s\n' '[{"jsonrpc":"2.0","id":2,"result":{"content":[]}}]'"#;
    let ran = call_legacy(&[], &format!("read -r line; {array}; cat >/dev/null")).exits(5);
    ran.says(&["the answer to tools/call is not valid: it is in an array", "(E_BAD_REPLY)", "this is a bug"]);
}

#[test]
fn a_message_without_a_newline_is_named() {
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}"#;
    let opening = format!("read -r line; printf '%s' '{answer}'; cat >/dev/null");
    let list = legacy(
        r#"read -r line; printf '%s' '{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}'; cat >/dev/null"#,
    );
    let limits = ["--era", "legacy", "--connect-timeout", "1s", "--timeout", "1s", "sh", "-c"];
    let said = "; the server has written a text without a newline at its end";
    for (script, id, start) in
        [(&opening, "E_SILENT", answer), (&list, "E_TIMEOUT", r#"{"jsonrpc":"2.0","id":2"#)]
    {
        let failure = run([&["list", "--json"], &limits[..], &[script]].concat()).exits(4).failure();
        assert_eq!(failure["id"], id, "{failure}");
        assert!(failure["message"].as_str().unwrap().ends_with(said), "{failure}");
        assert!(failure["stdout"].as_str().unwrap().starts_with(start), "{failure}");
        assert!(
            failure["hint"].as_str().unwrap().starts_with("let the server end each message"),
            "{failure}"
        );
        let ran = run([&["doctor"], &limits[..], &[script]].concat()).exits(1);
        for part in [
            "; the program has written a text without a newline at its end",
            "  try      let the server write a newline behind",
        ] {
            assert!(ran.stdout.contains(part), "{part:?} is missing in {}", ran.stdout);
        }
    }
    // It is read at the end of the output, and named with the failure that follows.
    let ends = format!("read -r line; printf '%s' '{answer}'")
        .replace("{},\"serverInfo", "{\"tools\":{}},\"serverInfo");
    let ran = run(["list", "--era", "legacy", "sh", "-c", &ends]).exits(4);
    ran.says(&["(E_SERVER_EXITED)", "; its last message had no newline at its end", "stdout   {"]);
    let ran = run(["doctor", "--era", "legacy", "sh", "-c", &ends]).exits(1);
    assert!(ran.stdout.contains("; its last message had no newline at its end (died)"), "{}", ran.stdout);
    // A server that says nothing has no such text.
    let silent = run([&["list", "--json"], &limits[..], &["cat >/dev/null"]].concat()).exits(4).failure();
    assert!(
        !silent["message"].as_str().unwrap().contains("newline") && silent["stdout"].is_null(),
        "{silent}"
    );
}

#[test]
fn a_reply_that_was_cut_off_is_a_lost_connection() {
    let whole = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"ab"}]}}"#;
    // Cut in a name, in the id, behind the id, in the result, before the last brace.
    for length in [9, 24, 26, 60, whole.len() - 1] {
        for (end, status) in [("exit 7", true), ("exec >&-; cat >/dev/null", false)] {
            let body = format!("read -r line; printf '%s' '{}'; {end}", &whole[..length]);
            let failure = call_legacy(&["--json"], &body).exits(4).failure();
            assert_eq!(failure["id"], "E_CUT_OFF", "{failure}");
            let message = failure["message"].as_str().unwrap();
            assert!(message.starts_with("the reply was cut off: the server "), "{message}");
            assert!(message.ends_with(&format!(" after {length} bytes of a message")), "{message}");
            assert_eq!(failure["status"]["code"] == 7, status, "{failure}");
        }
    }
    // A whole message needs no line feed. A cut-off line with a line feed is a bad reply, because nothing follows it.
    call_legacy(&[], &format!("read -r line; printf '%s' '{whole}'")).exits(0);
    let body = format!("read -r line; echo '{}'; exit 7", &whole[..60]);
    assert_eq!(call_legacy(&["--json"], &body).exits(5).failure()["id"], "E_BAD_REPLY");
    // While the session opens, and over a socket.
    let failure =
        run(["list", "--json", "sh", "-c", r#"read -r line; printf '{"jsonrpc":"2.0","id":1,"resu'"#]);
    assert_eq!(failure.exits(4).failure()["id"], "E_CUT_OFF");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0]).unwrap();
        stream.write_all(br#"{"jsonrpc":"2.0","id":1,"resu"#).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let failure = run(["list", "--json", "--era", "legacy", &address]).exits(4).failure();
    assert_eq!(
        failure["message"],
        "the reply was cut off: the server closed the connection after 29 bytes of a message"
    );
}

#[test]
fn text_in_another_encoding_is_named() {
    let reply = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    for (encoding, named) in
        [("UTF-16LE", "UTF-16LE"), ("UTF-16BE", "UTF-16BE"), ("UTF-16", "UTF-16LE"), ("UTF-32LE", "UTF-32LE")]
    {
        for end in ["", "; cat >/dev/null"] {
            let script = format!("read -r line; echo '{reply}' | iconv -t {encoding}{end}");
            for verb in ["list", "validate"] {
                let words =
                    [verb, "--json", "--era", "legacy", "--connect-timeout", "1s", "sh", "-c", &script];
                let failure = run(words).exits(4).failure();
                assert_eq!(failure["id"], "E_ENCODING", "{encoding}{end}: {failure}");
                let message = format!("the output of the server is {named}, but messages must be UTF-8");
                assert_eq!(failure["message"], message);
            }
        }
    }
}

#[test]
fn f29_a_path_that_does_not_exist_is_an_error_and_nothing_else() {
    for words in ["list ./nope/server", "list /nope/server x", "call ./nope/server tool", "list nope/server"]
    {
        line(words).exits(4).says(&["(E_SPAWN_NOT_FOUND)", "nope/server", "check the path"]);
    }
}

#[test]
fn a_file_that_cannot_be_run_says_why() {
    line("list /etc/passwd").exits(4).says(&["(E_SPAWN_NOT_EXECUTABLE)", "chmod"]);
    line("list /tmp").exits(4).says(&["(E_SPAWN_DIRECTORY)"]);
    line("list --cwd /no/such/folder cat").exits(4).says(&["(E_SPAWN_CWD)"]);
}

#[test]
fn a_server_that_ends_at_once_leaves_its_last_words() {
    // The failure is reported at once, although a response may take an hour.
    let ran = run(["list", "--connect-timeout", "1h", "sh", "-c", "echo fatal >&2; exit 7"]).exits(4);
    assert_eq!(ran.stdout, "");
    ran.says(&[
        "(E_SERVER_EXITED)",
        "ended    exit code 7",
        "stderr   fatal",
        "command  sh -c 'echo fatal >&2; exit 7'",
    ]);
}

#[test]
fn a_failure_is_one_json_object_with_json() {
    let ran = run(["list", "--json", "sh", "-c", "echo fatal >&2; exit 7"]).exits(4);
    assert_eq!(ran.stdout, "");
    let failure = ran.failure();
    assert_eq!(failure["id"], "E_SERVER_EXITED");
    assert_eq!(failure["exitCode"], 4);
    assert_eq!(failure["phase"], "initialize");
    assert_eq!(failure["status"]["code"], 7);
    assert_eq!(failure["stderr"][0], "fatal");
    assert!(failure["elapsedMs"].is_u64());
    assert!(!failure["hint"].as_str().unwrap().is_empty());
}

#[test]
fn a_signal_that_ended_the_server_is_named() {
    call_legacy(&[], "kill -9 $$").exits(4).says(&[
        "(E_SERVER_EXITED)",
        "doing    call",
        "ended    signal 9",
    ]);
}

#[test]
fn a_server_that_dies_in_the_middle_of_a_call_leaves_its_last_words() {
    let ran = call_legacy(&[], "read -r line; echo 'out of luck' >&2; exit 3").exits(4);
    ran.says(&["(E_SERVER_EXITED)", "doing    call", "ended    exit code 3", "stderr   out of luck"]);
}

#[test]
fn what_is_no_server_is_reported_with_its_first_words() {
    let ran = run(["list", "--connect-timeout", "2s", "sh", "-c", "echo Welcome; cat >/dev/null"]).exits(4);
    ran.says(&["(E_NOT_MCP)", "stdout   Welcome"]);
    let garbage =
        "while read -r x; do :; done & i=0; while [ $i -lt 40 ]; do echo banner $i; i=$((i+1)); done; wait";
    run(["list", "sh", "-c", garbage]).exits(4).says(&["(E_NOT_MCP)", "stdout   banner 0"]);
}

#[test]
fn a_silent_server_is_given_up() {
    let began = Instant::now();
    let ran = run(["list", "--connect-timeout", "200ms", "sh", "-c", "cat >/dev/null"]).exits(4);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    ran.says(&["(E_SILENT)", "doing    initialize", "--connect-timeout"]);
}

#[test]
fn an_answer_that_does_not_come_is_a_timeout() {
    let ran = call_legacy(&["--timeout", "200ms"], "cat >/dev/null").exits(4);
    ran.says(&["(E_TIMEOUT)", "tools/call", "200 ms", "--timeout"]);
    // A list that does not come is no reason to give up the call.
    let script = legacy("cat >/dev/null");
    let call = |words: &[&str]| {
        run([&["call", "--era", "legacy", "--timeout", "200ms"], words, &["--", "sh", "-c", &script]]
            .concat())
    };
    let force = "--force sends the call without the list of tools";
    call(&["x"]).exits(4).says(&["(E_TIMEOUT)", "tools/list", force]);
    // Its words would need the schema all the same.
    let ran = call(&["x", "a=1"]).exits(4).says(&["(E_TIMEOUT)", "tools/list"]);
    assert!(!ran.stderr.contains(force), "{}", ran.stderr);
}

#[test]
fn f22_an_error_of_the_server_and_a_result_that_is_one_are_reported_in_the_exit_code() {
    let error = r#"read -r line; printf '%s\n' '{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no","data":{"why":1}}}'; cat >/dev/null"#;
    let ran = call_legacy(&[], error).exits(5).says(&[
        "(E_SERVER_ERROR)",
        "JSON-RPC error -32602: no",
        r#"{"why":1}"#,
    ]);
    assert_eq!(ran.stdout, "");
    let failure = call_legacy(&["--json"], error).exits(5).failure();
    assert_eq!(failure["jsonrpc"]["code"], -32602);
    assert_eq!(failure["jsonrpc"]["data"]["why"], 1);

    let failed = r#"read -r line; printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"broken"}],"isError":true}}'; cat >/dev/null"#;
    let ran = call_legacy(&[], failed).exits(5);
    assert_eq!(ran.stdout, "broken\n");
    assert_eq!(call_legacy(&["--json"], failed).exits(5).json()["isError"], true);

    // Some servers write a word here. Without a message their failures would look like successes.
    let words = failed.replace(":true}", r#":"yes"}"#);
    let ran = call_legacy(&[], &words).exits(5).says(&[r#"isError "yes", taken as true"#]);
    assert_eq!(ran.stdout, "broken\n");
    call_legacy(&[], &failed.replace(":true}", ":null}")).exits(0);
}

#[test]
fn a_version_that_the_server_does_not_speak_is_reported() {
    let script = legacy("cat >/dev/null");
    let ran = run(["list", "--protocol-version", "2024-11-05", "sh", "-c", &script]).exits(4);
    ran.says(&["(E_VERSION)", "2025-11-25", "2024-11-05"]);
}

#[test]
fn a_message_above_the_limit_names_the_limit() {
    let big = r#"read -r line; printf '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"%05000d"}]}}\n' 1; cat >/dev/null"#;
    let ran = call_legacy(&["--max-message-size", "4KiB", "--timeout", "5s"], big).exits(4);
    ran.says(&["(E_TOO_LARGE)", "4096", "--max-message-size"]);
    // A list above the limit does not hide the other lists.
    let lists = r#"read -r line; read -r line; printf '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"%05000d"}]}}\n' 1
printf '%s\n' '{"jsonrpc":"2.0","id":3,"result":{"prompts":[{"name":"there"}]}}'; cat >/dev/null"#;
    let script = legacy_with(r#""tools":{},"prompts":{}"#, lists);
    let list = ["list", "--json", "--max-message-size", "4KiB", "--era", "legacy", "sh", "-c", &script];
    let ran = run(list).exits(4);
    let json = ran.json();
    assert_eq!(
        (&json["errors"][0]["id"], &json["prompts"][0]["name"]),
        (&"E_TOO_LARGE".into(), &"there".into())
    );
    // The limit also applies to messages that we send.
    let argument = format!("a={}", "x".repeat(8192));
    let ran = run([
        "call",
        "--max-message-size",
        "4KiB",
        "--era",
        "legacy",
        "x",
        &argument,
        "--",
        "sh",
        "-c",
        &legacy(NO_TOOL),
    ])
    .exits(2);
    ran.says(&["(E_TOO_LARGE)", "4096", "--max-message-size"]);
}

#[test]
fn i166_values_of_variables_are_shown_nowhere() {
    let secret = "hunter2-and-more";
    let variable = format!("TOKEN={secret}");
    for options in [&["-vv"][..], &["--json"], &[]] {
        let mut words = vec!["list", "-e", &variable];
        words.extend(options);
        words.extend(["sh", "-c", "echo token is $TOKEN >&2; echo $TOKEN; exit 1"]);
        let ran = run(words).exits(4);
        assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
        assert!(ran.stderr.contains("token is ***"), "{}", ran.stderr);
    }
    // Secrets are also hidden where the server sends them: in the response to the request for log messages, in a log message,
    // and in an error.
    let told = r#"read -r line; echo '{"jsonrpc":"2.0","id":2,"result":{}}'
read -r line; echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"its '"$TOKEN"'"}}'
echo '{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no '"$TOKEN"'","data":{"of":"'"$TOKEN"'"}}}'; cat >/dev/null"#;
    for option in ["-q", "-v", "--json"] {
        let ran = call_legacy(&["-e", &variable, option], told);
        assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
    }
    call_legacy(&["-e", &variable, "-v"], told).exits(5).says(&["[info] its ***", "no ***"]);

    let ran = run(["list", "mcpjoin-no-such", "postgres://me:hunter2@host/db"]).exits(4);
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    let ran = run(["list", "https://me:hunter2@host/mcp"]).exits(2);
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
}

#[test]
fn i167_what_a_server_sends_cannot_drive_the_terminal() {
    let ran = run(["list", "sh", "-c", r"printf '\033[2Jgone\007\n' >&2; exit 1"]).exits(4);
    assert!(!ran.stderr.contains(['\u{1b}', '\u{7}']), "{}", ran.stderr);
    ran.says(&[r"\u{1b}[2Jgone\u{7}"]);
    let error = r#"read -r line; printf '{"jsonrpc":"2.0","id":2,"error":{"code":1,"message":"\\u001b[2J\\u202e"}}\n'; cat >/dev/null"#;
    call_legacy(&[], error).exits(5).says(&[r"\u{1b}[2J\u{202e}"]);
}

#[test]
fn standard_error_that_is_closed_changes_nothing() {
    let mut command = command(["list", "mcpjoin-no-such-program"]);
    command.stderr(std::fs::File::options().write(true).open("/dev/full").unwrap());
    start(command).finish().exits(4);
}

#[test]
fn a_bound_below_what_opens_a_session_is_reported_at_once() {
    let ran = line("list --max-message-size 1 demo:").exits(2);
    ran.says(&["E_TOO_LARGE", "server/discover was not sent", "raise --max-message-size"]);
}

#[test]
fn what_was_no_message_is_shown_once_and_spelled_one_way() {
    let noise = r"i=0; while [ $i -lt 25 ]; do printf 'Gr\303\274\303\237e \033[1m\n'; i=$((i+1)); done; exec cat >/dev/null";
    let ran = run(["list", "sh", "-c", noise]).exits(4);
    assert!(
        ran.stderr.starts_with("error: received 20 lines that are not messages (E_NOT_MCP)\n"),
        "{}",
        ran.stderr
    );
    ran.says(&["stdout   Grüße \\u{1b}[1m"]);
    let silent = r"echo hello; exec cat >/dev/null";
    let ran = run(["list", "--era", "legacy", "--connect-timeout", "300ms", "sh", "-c", silent]).exits(4);
    ran.says(&[
        "error: no answer to initialize within 300 ms, but received lines that are not messages (E_NOT_MCP)\n",
        "stdout   hello",
    ]);
}

#[test]
fn a_server_that_closes_its_output_and_lives_has_not_ended() {
    let ran = call_legacy(&[], "exec >&-; exec cat >/dev/null").exits(4);
    assert!(!ran.stderr.contains("ended"), "{}", ran.stderr);
    ran.says(&["the server closed its standard output", "(E_SERVER_EXITED)"]);
}

#[test]
fn both_refusals_of_a_size_give_its_unit() {
    line("list --max-message-size 1 demo:").exits(2).says(&["above the limit `message` of 1 bytes"]);
    line("call --max-message-size 1KiB demo: echo message=hi")
        .exits(4)
        .says(&["above the limit `message` of 1024 bytes"]);
}
