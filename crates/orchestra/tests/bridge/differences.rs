//! Where the bridge differs from Orchestra's own: lines that the original accepts or misreads, and the table of
//! `docs/orchestra.md`, each row of which has its tests.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Stage, Wire, initialize, run, usual};

/// The response to each of these lines: its code and its id.
#[test]
fn lines_that_the_original_accepts_are_refused_with_the_reason() {
    let deep = |depth: usize| {
        let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
        format!(r#"{{"jsonrpc":"2.0","id":7,"x":{open}{close},"method":"ping"}}"#).into_bytes()
    };
    let cases: [(Vec<u8>, i64, Value); 19] = [
        (br#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#.into(), -32600, json!(null)),
        (br#"{"jsonrpc":"2.0","id":[],"method":"ping"}"#.into(), -32600, json!(null)),
        (br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#.into(), -32600, json!(null)),
        (br#"{"id":7,"method":"ping"}"#.into(), -32600, json!(7)),
        (br#"{"jsonrpc":"2.0","id":7,"method":"ping","params":null}"#.into(), -32602, json!(7)),
        (br#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}"#.into(), -32602, json!(7)),
        (br#"{"jsonrpc":"2.0","id":7,"method":"ping","params":5}"#.into(), -32602, json!(7)),
        // With two ids it is unclear which one is meant.
        (br#"{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}"#.into(), -32600, json!(null)),
        (br#"{"jsonrpc":"2.0","id":7,"method":"tools/list","method":"ping"}"#.into(), -32600, json!(7)),
        (br#"{"jsonrpc":"2.0","id":7,"method":"notifications/foo"}"#.into(), -32601, json!(7)),
        (br#"{"jsonrpc":"2.0","id":7,"method":"ping","x":"\ud800"}"#.into(), -32700, json!(7)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"x\":\"\xff\"}".into(), -32700, json!(7)),
        (deep(129), -32700, json!(7)),
        (deep(4000), -32700, json!(7)),
        (br#""ping""#.into(), -32600, json!(null)),
        (b"7".into(), -32600, json!(null)),
        (b"null".into(), -32600, json!(null)),
        (br#"{"jsonrpc":"2.0","id":7,"#.into(), -32700, json!(7)),
        (
            json!({ "jsonrpc": "2.0", "id": 7, "method": "initialize", "params": initialize("2025-11-25") })
                .to_string()
                .into_bytes(),
            -32600,
            json!(7),
        ),
    ];
    run(async {
        let stage = Stage::new(usual).await;
        let mut wire = stage.opened().await;
        for (line, code, id) in cases {
            wire.send_line(&line).await;
            let answer = wire.next().await;
            let line = String::from_utf8_lossy(&line);
            assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{line}: {answer}");
        }
        wire.send_line(deep(128)).await;
        assert_eq!(wire.next().await["result"], json!({}));
    });
}

#[test]
fn before_the_session_is_opened_nothing_is_answered_but_ping() {
    run(async {
        let stage = Stage::new(usual).await;
        let mut wire = Wire::new(&stage.bridge);
        assert_eq!(wire.ask("ping", &json!({})).await["result"], json!({}));
        for method in ["tools/list", "prompts/list", "resources/list"] {
            assert_eq!(wire.ask(method, &json!({})).await["error"]["code"], -32600, "{method}");
        }
        let call = wire.call("echo", &json!({})).await;
        assert_eq!(call["error"]["code"], -32600, "{call}");
        assert!(stage.scripted.requests().is_empty());
        let opened = wire.ask("initialize", &initialize("2025-11-25")).await;
        assert!(opened["result"].is_object(), "{opened}");
    });
}

/// The names of the tests in these directories.
fn tests(folders: &[&str]) -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(crates.join(folder)).unwrap());
    files.flat_map(|file| named(&std::fs::read_to_string(file.unwrap().path()).unwrap())).collect()
}

fn named(text: &str) -> Vec<String> {
    let name = |behind: &str| Some(behind.split_once("fn ")?.1.split_once('(')?.0.to_owned());
    text.split("#[test]").skip(1).filter_map(name).collect()
}

/// A row names its tests in a comment, which is not visible on the page.
#[test]
fn each_row_of_the_table_of_differences_has_its_tests() {
    let page = include_str!("../../../../docs/orchestra.md");
    let tests = tests(&["orchestra/tests/base", "orchestra/tests/bridge", "cli/tests/runner"]);
    let table = page.lines().skip_while(|line| *line != "| the original | mcpjoin |").skip(2);
    let rows: Vec<&str> = table.take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 40, "{} rows", rows.len());
    for row in rows {
        let comment = row.split_once("<!-- ").and_then(|(_, behind)| behind.strip_suffix(" --> |"));
        for name in comment.unwrap_or_else(|| panic!("without a test: {row}")).split(", ") {
            assert!(tests.contains(name), "there is no test {name:?}: {row}");
        }
    }
}
