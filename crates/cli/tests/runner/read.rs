//! Tests of `mcpjoin read`.

use std::path::Path;

use serde_json::Value;

use super::support::{answering, ask_legacy, line, run, scratch};

/// The start of the PNG image of the demonstration server.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

#[test]
fn a_resource_is_printed_byte_for_byte() {
    for era in ["legacy", "modern"] {
        let ran = line(&format!("read --era {era} demo:full test://static-text")).exits(0);
        assert_eq!(ran.stdout, "This is the content of the static text resource.");
        assert_eq!(ran.stderr, "");
        let ran = line(&format!("read --era {era} demo:full test://static-binary")).exits(0);
        assert!(ran.bytes.starts_with(PNG) && ran.bytes.len() == 69, "{:?}", ran.bytes);
        let ran = line(&format!("read --era {era} demo:full test://template/a%20b/data")).exits(0);
        assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap()["id"], "a b");
    }
}

#[test]
fn the_bytes_are_written_to_a_file() {
    let path = scratch("read");
    let name = path.to_str().unwrap();
    let ran = run(["read", "-o", name, "demo:full", "test://static-binary"]).exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr), ("", format!("69 bytes written to {name}\n")));
    assert!(std::fs::read(&path).unwrap().starts_with(PNG));
    // An existing file is replaced. It stays unchanged if there is no new content.
    let ran = run(["read", "-q", "--output", name, "demo:full", "test://static-text"]).exits(0);
    assert_eq!(ran.stderr, "");
    let text = "This is the content of the static text resource.";
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    run(["read", "-o", name, "demo:full", "test://nothing"]).exits(5);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    std::fs::remove_file(&path).unwrap();
    assert!(!Path::new(name).exists());

    assert!(line("read -o - demo:full test://static-binary").exits(0).bytes.starts_with(PNG));
    line("read -o /no/such/folder/x demo:full test://static-text").exits(2).says(&["(E_OUTPUT)"]);
    line("read -o /dev/full demo:full test://static-text").exits(2).says(&["(E_OUTPUT)"]);
}

#[test]
fn several_contents_are_shown_one_below_the_other() {
    let contents = r#"{"contents":[{"uri":"a:1","text":"one"},{"uri":"a:2","mimeType":"x/y","blob":"AAEC"},{"uri":"a:3","text":"three\n"}],"own":1.50}"#;
    let ran = ask_legacy(&["read", "a:b"], &answering(contents)).exits(0);
    assert_eq!(ran.stdout, "one\n[binary, a:2, x/y, 3 bytes]\nthree\n");
    let ran = ask_legacy(&["read", "--json", "a:b"], &answering(contents)).exits(0);
    assert_eq!(ran.json(), serde_json::from_str::<Value>(contents).unwrap());
    assert!(ran.stdout.contains("1.50"), "{}", ran.stdout);
    let path = scratch("read-several");
    ask_legacy(&["read", "-o", path.to_str().unwrap(), "a:b"], &answering(contents))
        .exits(2)
        .says(&["(E_USAGE)", "3 contents"]);
    assert!(!path.exists());
    assert_eq!(ask_legacy(&["read", "a:b"], &answering(r#"{"contents":[]}"#)).exits(0).stdout, "");
}

#[test]
fn f22_what_is_no_resource_is_reported() {
    let ran = line("read demo:full test://nothing").exits(5);
    assert_eq!(ran.stdout, "");
    let hint = "see the resources and the URI templates: mcpjoin list demo:full\n";
    ran.says(&["(E_SERVER_ERROR)", "doing    read", "test://nothing", hint]);
    let error = r#"read -r line; printf '%s\n' '{"jsonrpc":"2.0","id":2,"error":{"code":-32002,"message":"none"}}'; cat >/dev/null"#;
    let failure = ask_legacy(&["read", "--json", "a:b"], error).exits(5).failure();
    assert_eq!((&failure["phase"], &failure["jsonrpc"]["code"]), (&"read".into(), &(-32002).into()));
    for result in [r#"{"contents":7}"#, "7", r#"{"contents":[{"blob":"*"}]}"#, r#"{"contents":[{}]}"#] {
        ask_legacy(&["read", "a:b"], &answering(result)).exits(5).says(&["(E_BAD_REPLY)"]);
    }
    let script = super::support::legacy("cat >/dev/null");
    let ran = run(["read", "--era", "legacy", "a:b", "--", "sh", "-c", &script]).exits(5);
    ran.says(&["(E_NOT_OFFERED)", "resources and prompts: mcpjoin list --era legacy -- sh -c '"]);
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let ran = line("read -o /no/such/folder/x demo:full test://static-text").exits(2);
    assert_eq!(ran.stdout, "");
    ran.says(&["/no/such/folder/x could not be written: ", "(E_OUTPUT)"]);
}
