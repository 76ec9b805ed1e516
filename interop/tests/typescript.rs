//! `mcpjoin list` and `mcpjoin call` on servers of the TypeScript SDK, as npm publishes them: checks results and exit
//! codes, and that no process is left. All of them support only `initialize`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what is not as it should be fails the test")]

use interop::{Folder, LEGACY, Peer, first_text};
use serde_json::json;

fn everything() -> Peer {
    Peer::installed("node_modules/.bin/mcp-server-everything")
}

fn filesystem(folder: &Folder) -> Peer {
    Peer::installed("node_modules/.bin/mcp-server-filesystem").arg(folder.path())
}

fn memory(folder: &Folder) -> Peer {
    Peer::installed("node_modules/.bin/mcp-server-memory")
        .env("MEMORY_FILE_PATH", folder.path().join("graph.jsonl"))
}

fn sequential_thinking() -> Peer {
    Peer::installed("node_modules/.bin/mcp-server-sequential-thinking")
}

#[test]
fn everything_is_listed_for_a_person() {
    let ran = everything().run(&["list"]);
    for name in ["echo", "get-sum", "get-tiny-image", "trigger-long-running-operation"] {
        assert!(ran.text().contains(name), "{name} is missing in {}", ran.stdout);
    }
}

#[test]
fn everything_is_listed_in_json_with_its_schemas() {
    let list = everything().run(&["list", "--json"]).json();
    assert_eq!(list["protocolVersion"], LEGACY);
    assert_eq!(list["serverInfo"]["name"], "mcp-servers/everything");
    let tools = list["tools"].as_array().unwrap();
    for name in ["echo", "get-env", "get-structured-content", "get-sum", "get-tiny-image"] {
        assert!(tools.iter().any(|tool| tool["name"] == name), "{name} is missing in {list}");
    }
    let sum = tools.iter().find(|tool| tool["name"] == "get-sum").unwrap();
    assert_eq!(sum["inputSchema"]["properties"]["a"]["type"], "number");
    assert_eq!(sum["inputSchema"]["required"], json!(["a", "b"]));
}

#[test]
fn everything_echoes() {
    let ran = everything().run(&["call", "echo", "message=hello world"]);
    assert_eq!(ran.text().trim_end(), "Echo: hello world");
    let result = everything().run(&["call", "--json", "echo", "message=\u{e9}\u{1f600}\n2"]).json();
    assert_eq!(first_text(&result), "Echo: \u{e9}\u{1f600}\n2");
}

#[test]
fn everything_sums_numbers_that_the_schema_made_of_words() {
    let ran = everything().run(&["call", "get-sum", "a=2", "b=40"]);
    assert_eq!(ran.text().trim_end(), "The sum of 2 and 40 is 42.");
}

#[test]
fn everything_returns_pictures_and_structured_content() {
    let picture = everything().run(&["call", "--json", "get-tiny-image"]).json();
    let contents = picture["content"].as_array().unwrap();
    let image = contents.iter().find(|content| content["type"] == "image").unwrap();
    assert_eq!(image["mimeType"], "image/png");
    assert!(image["data"].as_str().unwrap().starts_with("iVBORw0KGgo"), "not a PNG");

    let weather = everything().run(&["call", "--json", "get-structured-content", "location=Chicago"]).json();
    assert!(weather["structuredContent"]["temperature"].is_number(), "{weather}");
}

#[test]
fn everything_refuses_a_tool_that_it_does_not_have() {
    everything().run(&["call", "no-such-tool"]).refused_with("no-such-tool");
}

#[test]
fn filesystem_lists_and_reads_its_folder() {
    let folder = Folder::new("filesystem");
    std::fs::write(folder.path().join("a b.txt"), "the first line\nthe second \u{e9}\n").unwrap();
    std::fs::create_dir(folder.path().join("below")).unwrap();
    let server = filesystem(&folder);

    let (version, tools) = server.list(&["--era", "legacy"]);
    assert_eq!(version, LEGACY);
    assert!(tools.contains("list_directory") && tools.contains("read_text_file"), "{tools:?}");

    let path = format!("path={}", folder.path().display());
    let ran = server.run(&["call", "list_directory", &path]);
    assert_eq!(ran.text().trim_end(), "[FILE] a b.txt\n[DIR] below");
    let ran = server.run(&["call", "--json", "read_text_file", &format!("{path}/a b.txt")]);
    assert_eq!(first_text(&ran.json()), "the first line\nthe second \u{e9}\n");
}

#[test]
fn filesystem_refuses_what_is_outside_its_folder() {
    let (inside, outside) = (Folder::new("filesystem-inside"), Folder::new("filesystem-outside"));
    let secret = outside.path().join("secret.txt");
    std::fs::write(&secret, "the secret").unwrap();
    let ran = filesystem(&inside).run(&["call", "read_text_file", &format!("path={}", secret.display())]);
    ran.refused_with("outside allowed directories");
    assert!(!ran.stdout.contains("the secret"), "{}", ran.stdout);
}

#[test]
fn the_memory_server_keeps_its_entities_between_runs() {
    let folder = Folder::new("memory");
    let server = memory(&folder);
    let entities =
        r#"entities:=[{"name":"Ada","entityType":"person","observations":["wrote the first program"]}]"#;

    let (version, tools) = server.list(&[]);
    assert_eq!(version, LEGACY);
    assert!(tools.contains("create_entities") && tools.contains("read_graph"), "{tools:?}");

    let created = server.run(&["call", "--json", "create_entities", entities]).json();
    assert_eq!(created["structuredContent"]["entities"][0]["name"], "Ada");
    let graph = server.run(&["call", "--json", "read_graph"]).json();
    let expected = json!([
        {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}
    ]);
    assert_eq!(graph["structuredContent"]["entities"], expected);
    assert!(first_text(&graph).contains("wrote the first program"));
}

#[test]
fn sequential_thinking_counts_thoughts() {
    let server = sequential_thinking();
    let (version, tools) = server.list(&[]);
    assert_eq!(version, LEGACY);
    assert!(tools.contains("sequentialthinking") && tools.len() == 1, "{tools:?}");

    let thought = [
        "call",
        "--json",
        "sequentialthinking",
        "thought=2 and 2",
        "nextThoughtNeeded=true",
        "thoughtNumber=1",
        "totalThoughts=3",
    ];
    let result = server.run(&thought).json();
    let expected = json!({
        "thoughtNumber": 1, "totalThoughts": 3, "nextThoughtNeeded": true, "branches": [],
        "thoughtHistoryLength": 1
    });
    assert_eq!(result["structuredContent"], expected);
}

#[test]
fn sequential_thinking_refuses_arguments_that_lack_something() {
    let server = sequential_thinking();
    let local = server.run(&["call", "sequentialthinking", "thought=one"]);
    assert_eq!(local.code, Some(2), "{}", local.stderr);
    assert!(local.stderr.contains("`thoughtNumber`"), "{}", local.stderr);
    server.run(&["call", "--force", "sequentialthinking", "thought=one"]).refused_with("thoughtNumber");
}
