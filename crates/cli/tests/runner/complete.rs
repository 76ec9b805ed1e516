//! `mcpjoin complete`.

use serde_json::json;

use super::support::{answering, ask_legacy, line, run};

#[test]
fn proposals_stand_one_a_line() {
    for era in ["legacy", "modern"] {
        let ran = line(&format!("complete --era {era} demo:full prompt:test_prompt_with_arguments arg1=he"));
        let ran = ran.exits(0);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("hello\nhelp\n", ""));
        let words = format!("complete --era {era} demo:full test://template/{{id}}/data id=10");
        assert_eq!(line(&words).exits(0).stdout, "10\n100\n");
    }
    let all = line("complete demo:full resource:test://template/{id}/data id").exits(0);
    assert_eq!(all.stdout.lines().count(), 100);
    let none = line("complete demo:full test://template/{id}/data id=x").exits(0);
    assert_eq!((none.stdout.as_str(), none.stderr.as_str()), ("", "no proposals\n"));
}

#[test]
fn what_is_known_already_is_sent_along() {
    let body = r#"read -r line; echo "received $line" >&2; printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"completion":{"values":["a","b\nc"],"total":250,"hasMore":true,"own":1.50}}}'; cat >/dev/null"#;
    let words = ["complete", "-v", "prompt:p", "x=a=b", "--context", "y=1", "--context", "z="];
    let ran = ask_legacy(&words, body).exits(0);
    assert_eq!(ran.stdout, "a\nb\\u{a}c\n");
    let received = ran.stderr.split_once("received ").unwrap().1.lines().next().unwrap();
    let received: serde_json::Value = serde_json::from_str(received).unwrap();
    assert_eq!(received["params"]["ref"], json!({"type": "ref/prompt", "name": "p"}));
    assert_eq!(received["params"]["argument"], json!({"name": "x", "value": "a=b"}));
    assert_eq!(received["params"]["context"], json!({"arguments": {"y": "1", "z": ""}}));
    ran.says(&["the first 2 of 250\n"]);
    let ran = ask_legacy(&["complete", "--json", "prompt:p", "x"], body).exits(0);
    assert_eq!(ran.json()["completion"]["values"], json!(["a", "b\nc"]));
    assert!(ran.stdout.contains("1.50"), "{}", ran.stdout);
}

#[test]
fn f22_what_cannot_be_completed_is_exit_5() {
    line("complete demo: prompt:nothing a=b").exits(5).says(&["(E_SERVER_ERROR)", "doing    complete"]);
    for result in ["7", "{}", r#"{"completion":{"values":{}}}"#] {
        ask_legacy(&["complete", "prompt:p", "x"], &answering(result)).exits(5).says(&["(E_BAD_REPLY)"]);
    }
    let script = super::support::legacy("cat >/dev/null");
    let ran = run(["complete", "--era", "legacy", "prompt:p", "x", "--", "sh", "-c", &script]);
    ran.exits(5).says(&["(E_NOT_OFFERED)"]);
}
