//! Tests of `mcpjoin prompt`.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use super::support::{ask_legacy, command, line, run, start};

const FILLED_IN: &str = "user:\nPrompt with arguments: arg1='hello', arg2='two words'\n";

#[test]
fn a_prompt_is_filled_in_from_everywhere() {
    for era in ["legacy", "modern"] {
        let ran = run([
            "prompt",
            "--era",
            era,
            "demo:full",
            "test_prompt_with_arguments",
            "arg1=hello",
            "arg2=two words",
        ])
        .exits(0);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), (FILLED_IN, ""));
    }
    let simple = line("prompt demo:full test_simple_prompt").exits(0);
    assert_eq!(simple.stdout, "user:\nThis is a simple prompt for testing.\n");
    let object = r#"{"arg1":"x","arg2":"two words"}"#;
    let ran =
        run(["prompt", "--args", object, "demo:full", "test_prompt_with_arguments", r#"arg1:="hello""#]);
    assert_eq!(ran.exits(0).stdout, FILLED_IN);
    let mut command = command(["prompt", "demo:full", "test_prompt_with_arguments", "arg1=hello", "-"]);
    command.stdin(Stdio::piped());
    let mut running = start(command);
    running.child.stdin.take().unwrap().write_all(object.as_bytes()).unwrap();
    assert_eq!(running.finish().exits(0).stdout, FILLED_IN);
    let json = line("prompt --json demo:full test_simple_prompt").exits(0).json();
    assert_eq!(json["messages"][0]["role"], "user");
}

/// Lists one prompt and writes every request to standard error.
const LISTING: &str = r#"while read -r line; do echo "received $line" >&2; case "$line" in
*prompts/list*) printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"prompts":[{"name":"p","arguments":[{"name":"one","description":"The first.\nMore","required":true},{"name":"two","required":true},{"name":"three"}]}]}}';;
*prompts/get*) printf '%s\n' '{"jsonrpc":"2.0","id":3,"result":{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"assistant","content":{"type":"image","data":"AAAA","mimeType":"image/png"}}],"own":[1.50]}}';;
esac; done"#;

#[test]
fn what_a_prompt_requires_is_asked_for_before_the_server_is() {
    let ran = ask_legacy(&["prompt", "-v", "p", "two=2", "four=4"], LISTING).exits(2);
    assert_eq!(ran.stdout, "");
    assert!(!ran.stderr.contains("prompts/get"), "{}", ran.stderr);
    ran.says(&["(E_USAGE)", "p also needs one (The first.)", "try      add one=..."]);
    let failure = ask_legacy(&["prompt", "--json", "p"], LISTING).exits(2).failure();
    assert_eq!(failure["message"], "p needs one (The first.), two");

    let ran = ask_legacy(&["prompt", "p", "one=1", "two=", "four=4"], LISTING).exits(0);
    assert_eq!(ran.stdout, "user:\na\n\nassistant:\n[image, image/png, 3 bytes]\n");
    assert_eq!(ran.stderr, "p has no argument four\n");
    let ran = ask_legacy(&["prompt", "--json", "p", "one=1", "two=2"], LISTING).exits(0);
    assert!(ran.stdout.contains("1.50"), "{}", ran.stdout);
    // A prompt that is not listed is requested anyway.
    ask_legacy(&["prompt", "-v", "unlisted"], LISTING).exits(0).says(&[r#""name":"unlisted""#]);
}

#[test]
fn arguments_that_are_no_texts_are_refused_before_anything_is_started() {
    for argument in ["arg1:=5", "arg1:={}", "arg1:=null"] {
        let ran = run(["prompt", "p", argument, "--", "mcpjoin-no-such-program"]).exits(2);
        ran.says(&["(E_USAGE)", "must be a text"]);
    }
    let ran = run(["prompt", "--args", r#"{"a":true}"#, "p", "--", "mcpjoin-no-such-program"]).exits(2);
    ran.says(&["`a` must be a text, got true. a=VALUE sends VALUE as it is"]);
}

#[test]
fn f22_a_prompt_that_does_not_exist_is_exit_5() {
    line("prompt demo: nothing").exits(5).says(&[
        "(E_SERVER_ERROR)",
        "doing    prompt",
        "with --json also their arguments: mcpjoin list demo:\n",
    ]);
    let no_messages = r#"while read -r line; do case "$line" in *prompts/get*) printf '%s\n' '{"jsonrpc":"2.0","id":3,"result":{}}';;
*) printf '%s\n' '{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"cannot list"}}';; esac; done"#;
    ask_legacy(&["prompt", "p"], no_messages).exits(5).says(&["(E_BAD_REPLY)", "no array `messages`"]);
    let script = super::support::legacy("cat >/dev/null");
    let ran = run(["prompt", "--era", "legacy", "p", "--", "sh", "-c", &script]).exits(5);
    ran.says(&["(E_NOT_OFFERED)"]);
    let failure: Value = line("prompt --json demo: nothing").exits(5).failure();
    assert_eq!(failure["phase"], "prompt");
}
