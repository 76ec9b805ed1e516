//! Tests of `mcpjoin call`.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use super::support::{answering, call_legacy, command, line, run, start};

#[test]
fn echo_returns_its_argument() {
    let ran = line("call demo: echo message=hi").exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("hi\n", ""));
    let odd = "message=\u{e9}\u{1f600}\n2 = \"three\"";
    assert_eq!(run(["call", "demo:", "echo", odd]).exits(0).stdout, "\u{e9}\u{1f600}\n2 = \"three\"\n");
    let program = env!("CARGO_BIN_EXE_mcpjoin");
    let ran = run(["call", "echo", "message=hi", "--", program, "serve", "demo"]).exits(0);
    assert_eq!(ran.stdout, "hi\n");
}

#[test]
fn words_take_the_type_that_the_tool_asks_for() {
    let result = line("call --json demo: add a=2 b=40").exits(0).json();
    assert_eq!(result["structuredContent"], json!({"sum": 42.0}));
    // The schema of `echo` requires a string, so the value stays a string.
    assert_eq!(line("call demo: echo message=5").exits(0).stdout, "5\n");
    line("call demo: add a=two b=1").exits(2).says(&["(E_USAGE)", "`a` must be a number, got \"two\""]);
    line(r#"call demo: add a:="two" b:=1"#).exits(2).says(&["`a` must be a number, got \"two\""]);
    // With --force the server decides.
    line(r#"call --force demo: add a:="two" b:=1"#).exits(5);
    line("call --force demo: add a=two b=1")
        .exits(5)
        .says(&["sent because of --force: `a` must be a number"]);
}

#[test]
fn arguments_come_from_everywhere() {
    assert_eq!(run(["call", "--args", r#"{"message":"a"}"#, "demo:", "echo"]).exits(0).stdout, "a\n");
    let ran = run(["call", "--args", r#"{"message":"a"}"#, "demo:", "echo", "message=b"]).exits(0);
    assert_eq!(ran.stdout, "b\n");

    let path = std::env::temp_dir().join(format!("mcpjoin-call-{}", std::process::id()));
    std::fs::write(&path, r#"{"message":"from a file"}"#).unwrap();
    let operand = format!("@{}", path.display());
    assert_eq!(run(["call", "demo:", "echo", &operand]).exits(0).stdout, "from a file\n");
    std::fs::remove_file(&path).unwrap();

    let mut command = command(["call", "demo:", "echo", "-"]);
    command.stdin(Stdio::piped());
    let mut running = start(command);
    running.child.stdin.take().unwrap().write_all(br#"{"message":"from afar"}"#).unwrap();
    assert_eq!(running.finish().exits(0).stdout, "from afar\n");
}

#[test]
fn every_kind_of_content_is_shown() {
    for (tool, shown) in [
        ("test_simple_text", "This is a simple text response for testing.\n"),
        ("test_image_content", "[image, image/png, 69 bytes]\n"),
        ("test_audio_content", "[audio, audio/wav, 52 bytes]\n"),
        ("test_embedded_resource", "This is an embedded resource content.\n"),
        ("test_resource_link", "[resource_link, test://static-text, static-text, text/plain]\n"),
        (
            "test_multiple_content_types",
            "Multiple content types test:\n[image, image/png, 69 bytes]\n\
             {\"test\":\"data\",\"value\":123}\n",
        ),
        ("test_tool_with_logging", "Tool with logging executed successfully\n"),
        ("test_tool_with_progress", "Tool with progress executed successfully\n"),
    ] {
        for era in ["legacy", "modern"] {
            let ran = line(&format!("call --era {era} demo:full {tool}")).exits(0);
            assert_eq!(ran.stdout, shown, "{tool}");
            assert_eq!(ran.stderr, "", "{tool}");
        }
    }
}

#[test]
fn f22_a_result_that_is_an_error_is_exit_5() {
    let ran = line("call demo:full test_error_handling").exits(5);
    assert_eq!(ran.stdout, "This tool intentionally returns an error for testing\n");
    assert_eq!(ran.stderr, "tool `test_error_handling` returned an error\n");
    assert_eq!(line("call -q demo:full test_error_handling").exits(5).stderr, "");
    assert_eq!(line("call --json demo:full test_error_handling").exits(5).json()["isError"], true);
}

#[test]
fn f22_a_tool_that_does_not_exist_is_exit_5() {
    let ran = line("call demo: no-such-tool").exits(5);
    assert_eq!(ran.stdout, "");
    ran.says(&["(E_SERVER_ERROR)", "-32602", "no-such-tool", "doing    call", "mcpjoin serve demo"]);
    line("call demo: no-such-tool a=1").exits(5);
}

#[test]
fn log_messages_and_progress_are_shown_with_v() {
    for era in ["legacy", "modern"] {
        let ran = line(&format!("call -v --era {era} demo:full test_tool_with_logging")).exits(0);
        assert_eq!(ran.stdout, "Tool with logging executed successfully\n");
        ran.says(&["server: [info] Tool execution started\n", "server: [info] Tool execution completed\n"]);
        line(&format!("call -v --era {era} demo:full test_tool_with_progress"))
            .exits(0)
            .says(&["100 of 100: Done"]);
    }
}

#[test]
fn a_question_to_the_client_is_no_answer() {
    let modern = line("call --era modern demo:full test_elicitation message=who").exits(5);
    assert_eq!(modern.stdout, "");
    modern.says(&["elicitation"]);
    let legacy = line("call --era legacy demo:full test_sampling prompt=why").exits(5);
    assert!(format!("{}{}", legacy.stdout, legacy.stderr).contains("sampling"), "{}", legacy.stdout);
}

#[test]
fn f19_json_is_the_result_as_the_server_sent_it() {
    let result = r#"{"content":[{"type":"hologram","x":1.50},{"type":"text","text":"t"}],"structuredContent":[9007199254740993],"_meta":{"a/b":1},"own":true}"#;
    let body = format!(
        "read -r line; printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{result}}}'; cat >/dev/null"
    );
    let ran = call_legacy(&["--json"], &body).exits(0);
    let expected: serde_json::Value = serde_json::from_str(result).unwrap();
    assert_eq!(ran.json(), expected);
    assert!(ran.stdout.contains("1.50"), "{}", ran.stdout);
    assert_eq!(call_legacy(&[], &body).exits(0).stdout, "[hologram]\nt\n");
}

#[test]
fn f19_a_structured_result_without_content_is_shown() {
    let body = r#"read -r line; printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"structuredContent":{"a":1}}}'; cat >/dev/null"#;
    assert_eq!(call_legacy(&[], body).exits(0).stdout, "{\n  \"a\": 1\n}\n");
}

#[test]
fn i173_every_name_can_be_called() {
    let long = "x".repeat(10_000);
    for name in ["two words", "--", "-x", "a\nb", "a=b", "'", &long] {
        let ran = run(["call", &format!("--tool={name}"), "demo:"]).exits(5);
        // The error code shows that the server received the call: it has no such tool.
        assert!(ran.stderr.contains("-32602"), "{name}: {}", ran.stderr);
    }
    run(["call", "demo:", "two words"]).exits(5).says(&["two words"]);
    run(["call", "demo:", "a\nb"]).exits(5).says(&[r"unknown tool: a\nb"]);
}

#[test]
fn a_result_whose_content_is_no_array_is_no_result() {
    let body = answering(r#"{"content":"no"}"#);
    for options in [&[][..], &["--json"]] {
        let ran = call_legacy(options, &body).exits(5);
        assert_eq!(ran.stdout, "");
        ran.says(&["E_BAD_REPLY", "the result has no array `content`"]);
    }
}

#[test]
fn a_name_that_is_mistyped_is_reported_with_what_may_be_meant() {
    line("tool demo: ech").exits(5).says(&["(E_NO_TOOL)", "try      did you mean echo?"]);
    line("tool demo: nothing-like-it").exits(5).says(&["try      see the tools: mcpjoin list demo:\n"]);
    // The call is sent although the tool is not listed, and the server refuses it.
    line("call demo: ech message=hi").exits(5).says(&["the server has no tool ech; did you mean echo?"]);
    let said = "the tool declares no argument `mesage`; did you mean `message`?";
    let ran = line("call --force demo: echo mesage=hi").exits(5).says(&[said]);
    assert!(ran.stdout.contains("`message` is missing"), "{}", ran.stdout);
    line("prompt demo:full test_simple_promt").exits(5).says(&["did you mean test_simple_prompt?"]);
}

#[test]
fn arguments_that_break_the_schema_are_refused_with_the_command_that_shows_it() {
    let program = env!("CARGO_BIN_EXE_mcpjoin");
    let shows = format!("see the parameters: mcpjoin tool --era legacy add -- {program} serve demo");
    let ran = run(["call", "--era", "legacy", "add", "a=1", "--", program, "serve", "demo"]).exits(2);
    ran.says(&["error: `b` is required (E_USAGE)", &shows, "--force sends the call anyway"]);
    for (words, said) in [
        ("call demo: echo", "`message` is required"),
        ("call demo: echo message=a message=b", "`message` is given twice"),
        ("call demo: echo hi", "`hi` is not an argument; write hi=VALUE"),
        ("call demo: count to=99999999999999999999", "`to` must be at most 100, got "),
        ("call demo: echo message:hi", "`message:hi` is not an argument; write message=hi"),
        ("call demo: echo --message hi", "try      mcpjoin call demo: echo message=hi"),
        ("call demo: echo message=@/nowhere/x", "for the text @/nowhere/x write message=@@/nowhere/x"),
        (
            "call demo:full json_schema_2020_12_tool email=a other=1",
            "`other` is not an argument of this tool",
        ),
        (
            "call demo:full json_schema_2020_12_tool email=a address=x",
            "`address` must be an object, got \"x\". Pass JSON: 'address:={}'",
        ),
    ] {
        let ran = line(words).exits(2);
        assert_eq!(ran.stdout, "", "{words}");
        ran.says(&[said]);
    }
    let ran = line("call demo: echo message=hi other=1").exits(0);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("hi\n", "the tool declares no argument `other`; it is sent\n")
    );
    assert_eq!(run(["call", "demo:", "echo", r#"{"message":"whole"}"#]).exits(0).stdout, "whole\n");
    assert_eq!(line("call demo: echo message=@@x").exits(0).stdout, "@x\n");
}

/// A server that refuses the list of its tools, sends pages that form a loop, or lists another tool, and whose tools return
/// their arguments.
const UNLISTED: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        reply["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                           "serverInfo": {"name": "unlisted", "version": "1"}}
    elif message["method"] == "tools/list" and sys.argv[1] in ["loop", "hide"]:
        reply["result"] = {"tools": [{"name": "sub", "inputSchema": {"type": "object"}}]}
        if sys.argv[1] == "loop":
            reply["result"] = {"tools": [], "nextCursor": "again"}
    elif message["method"] == "tools/list":
        why = "the list is too large" if sys.argv[1] == "refuse" else "x" * 100000
        reply["error"] = {"code": -32603, "message": why}
    else:
        text = json.dumps(message["params"]["arguments"])
        reply["result"] = {"content": [{"type": "text", "text": text}]}
    print(json.dumps(reply), flush=True)
"#;

#[test]
fn arguments_whose_types_are_unknown_are_sent_as_text_with_a_note() {
    let call = |options: &[&str], words: &[&str], kind: &str| {
        let server = ["--era", "legacy", "--", "python3", "-c", UNLISTED, kind];
        let (before, command) = server.split_at(2);
        run([&["call"], options, before, &["sum"], words, command].concat()).exits(0)
    };
    let unknown = "the types of the arguments are not known, and values are sent as text; for JSON write ";
    let ran = call(&[], &["a=20", "b=hi", "c=true"], "refuse");
    assert_eq!(ran.stdout, "{\"a\": \"20\", \"b\": \"hi\", \"c\": \"true\"}\n");
    let failed = "tools/list failed: JSON-RPC error -32603: the list is too large; ";
    assert_eq!(ran.stderr, format!("{failed}{unknown}a:=20 c:=true\n"));
    // A note is no part of the result: it is printed with --json, too.
    let ran = call(&["--json"], &["b=hi"], "refuse").says(&[&format!("{failed}{unknown}NAME:=JSON\n")]);
    assert_eq!(ran.json()["content"][0]["text"], "{\"b\": \"hi\"}");
    let ran = call(&[], &["a=1"], "loop");
    let failed = "tools/list failed: the result of tools/list: its pages form a loop; ";
    assert_eq!(ran.stderr, format!("{failed}{unknown}a:=1\n"));
    // It is not known whether the server has the tool.
    let words = ["tool", "--era", "legacy", "sum", "--", "python3", "-c", UNLISTED, "loop"];
    run(words).exits(5).says(&["(E_BAD_REPLY)", "the result of tools/list: its pages form a loop"]);
    let ran = call(&[], &["a=1", "b=hi"], "hide");
    let similar = "the server has no tool sum; did you mean sub?";
    assert_eq!(ran.stderr, format!("{similar}\nthe server does not list this tool; {unknown}a:=1\n"));
    let ran = call(&[], &["a=1"], "refuse at length").says(&["xxx", unknown]);
    assert!(ran.stderr.len() < 1_000, "{}", ran.stderr);
    // Nothing depends on the types, or no note is wanted.
    assert_eq!(call(&[], &["a:=20"], "refuse").stderr, "");
    assert_eq!(call(&["-q"], &["a=20"], "refuse").stderr, "");
}

#[test]
fn the_example_of_every_tool_can_be_called() {
    // These end with an error: `greet` because its question is declined, the others always.
    for (target, failing) in [
        ("demo:", &["greet"][..]),
        ("demo:full", &["test_error_handling", "failing_job", "protocol_error_job"]),
    ] {
        let listed = run(["list", "--json", target]).exits(0).json();
        for tool in listed["tools"].as_array().unwrap() {
            let name = tool["name"].as_str().unwrap();
            let page = run(["tool", target, name]).exits(0).stdout;
            let example = page.split("Example\n  mcpjoin ").nth(1).unwrap_or_else(|| panic!("{page}"));
            let operands = example.trim_end().strip_prefix("call ").unwrap_or_else(|| panic!("{page}"));
            assert!(operands.starts_with(&format!("{target} ")), "{operands}");
            // As a shell reads it.
            let shell = std::process::Command::new("sh")
                .args(["-c", &format!("printf '%s\\n' {operands}")])
                .output()
                .unwrap();
            let operands = String::from_utf8(shell.stdout).unwrap();
            // What a tool may ask for.
            let mut words = vec!["call", "--no-input", "--root", "/", "--sampler", "echo Paris"];
            words.extend(operands.lines());
            run(words).exits(if failing.contains(&name) { 5 } else { 0 });
        }
    }
}

#[test]
fn log_messages_have_the_level_that_is_asked_for() {
    for era in ["legacy", "modern"] {
        let ran = line(&format!("call --log-level warning --era {era} demo:full test_logging_tool")).exits(0);
        assert_eq!(ran.stderr, "server: [warning] A message of the level warning\n", "{era}");
    }
    line("call --log-level loud demo:full test_logging_tool").exits(2).says(&["the levels are debug, info"]);
}

#[test]
fn pictures_go_to_the_folder_that_is_named() {
    let folder = super::support::scratch("call-output");
    let words = ["call", "--output", folder.to_str().unwrap(), "demo:full", "test_multiple_content_types"];
    for number in [1, 2] {
        let path = folder.join(format!("{number}.png"));
        let ran = run(words).exits(0);
        assert!(
            ran.stdout.contains(&format!("[image, image/png, 69 bytes, in {}]\n{{", path.display())),
            "{}",
            ran.stdout
        );
        assert!(std::fs::read(&path).unwrap().starts_with(b"\x89PNG"));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn signatures_are_a_line_for_each_tool() {
    let ran = line("list --signatures demo:").exits(0);
    assert!(
        ran.stdout.contains("\n  echo(message: string)\n  add(a: number, b: number)\n"),
        "{}",
        ran.stdout
    );
    line("list --signatures --json demo:").exits(2);
}
