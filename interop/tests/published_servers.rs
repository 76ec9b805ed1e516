//! `mcpjoin list` and `mcpjoin call` on servers as npm and PyPI publish them: right results, in the era that each
//! speaks, and no process left. server-everything and server-memory know `initialize` alone, mcp-server-time speaks
//! 2026-07-28 first.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use interop::{MARK, running, server};
use serde_json::{Value, json};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// What one run of the binary came to.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ran {
    /// The one JSON document on stdout of a run that succeeded.
    fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not one JSON document ({error}): {}", self.stdout))
    }

    /// What a run that succeeded printed for a person.
    fn text(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        &self.stdout
    }
}

fn everything() -> PathBuf {
    server("node_modules/.bin/mcp-server-everything").unwrap()
}

fn memory() -> PathBuf {
    server("node_modules/.bin/mcp-server-memory").unwrap()
}

fn time() -> PathBuf {
    server("venv/bin/mcp-server-time").unwrap()
}

/// `mcpjoin WORDS -- SERVER`, with variables added to the environment. Once it has ended, nothing that it started may
/// run.
fn mcpjoin_with(environment: &[(&str, &str)], words: &[&str], server: &PathBuf) -> Ran {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let binary = BINARY.get_or_init(|| interop::mcpjoin().unwrap());
    let mark = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    let output = Command::new(binary)
        .args(words)
        .arg("--")
        .arg(server)
        .env(MARK, &mark)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let left = running(&mark).unwrap();
    assert!(left.is_empty(), "mcpjoin {} left {left:?}", words.join(" "));
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn mcpjoin(words: &[&str], server: &PathBuf) -> Ran {
    mcpjoin_with(&[], words, server)
}

/// The names of the tools of `list --json`.
fn tools(list: &Value) -> BTreeSet<&str> {
    let tools = list["tools"].as_array().unwrap_or_else(|| panic!("no tools in {list}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// The text of the first content of `call --json`.
fn first_text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"))
}

#[test]
fn the_scan_for_processes_finds_one_that_is_left() {
    let mark = format!("control-{}", std::process::id());
    let mut left =
        Command::new("cat").env(MARK, &mark).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // `spawn` may return before the new program has its environment; its first answer comes after that.
    left.stdin.as_mut().unwrap().write_all(b"!").unwrap();
    left.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    assert_eq!(running(&mark).unwrap(), ["cat"]);
    drop(left.stdin.take());
    assert!(left.wait().unwrap().success());
    assert!(running(&mark).unwrap().is_empty());
}

#[test]
fn everything_is_listed_for_a_person() {
    let ran = mcpjoin(&["list"], &everything());
    for name in ["echo", "get-sum", "get-tiny-image", "trigger-long-running-operation"] {
        assert!(ran.text().contains(name), "{name} is missing in {}", ran.stdout);
    }
}

#[test]
fn everything_is_listed_in_json_with_its_schemas() {
    let list = mcpjoin(&["list", "--json"], &everything()).json();
    assert_eq!(list["protocolVersion"], LEGACY);
    assert_eq!(list["serverInfo"]["name"], "mcp-servers/everything");
    let names = tools(&list);
    for name in ["echo", "get-env", "get-structured-content", "get-sum", "get-tiny-image"] {
        assert!(names.contains(name), "{name} is missing in {names:?}");
    }
    let sum = list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "get-sum").unwrap();
    assert_eq!(sum["inputSchema"]["properties"]["a"]["type"], "number");
    assert_eq!(sum["inputSchema"]["required"], json!(["a", "b"]));
}

#[test]
fn everything_echoes() {
    let ran = mcpjoin(&["call", "echo", "message=hello world"], &everything());
    assert_eq!(ran.text().trim_end(), "Echo: hello world");
    let result = mcpjoin(&["call", "--json", "echo", "message=\u{e9}\u{1f600}\n2"], &everything()).json();
    assert_eq!(first_text(&result), "Echo: \u{e9}\u{1f600}\n2");
}

#[test]
fn everything_sums_numbers_that_the_schema_made_of_words() {
    let ran = mcpjoin(&["call", "get-sum", "a=2", "b=40"], &everything());
    assert_eq!(ran.text().trim_end(), "The sum of 2 and 40 is 42.");
}

#[test]
fn everything_returns_pictures_and_structured_content() {
    let picture = mcpjoin(&["call", "--json", "get-tiny-image"], &everything()).json();
    let contents = picture["content"].as_array().unwrap();
    let image = contents.iter().find(|content| content["type"] == "image").unwrap();
    assert_eq!(image["mimeType"], "image/png");
    assert!(image["data"].as_str().unwrap().starts_with("iVBORw0KGgo"), "not a PNG");

    let words = ["call", "--json", "get-structured-content", "location=Chicago"];
    let weather = mcpjoin(&words, &everything()).json();
    assert!(weather["structuredContent"]["temperature"].is_number(), "{weather}");
}

#[test]
fn everything_refuses_a_tool_that_it_does_not_have() {
    let ran = mcpjoin(&["call", "no-such-tool"], &everything());
    assert_eq!(ran.code, Some(5), "{}{}", ran.stdout, ran.stderr);
    assert!(format!("{}{}", ran.stdout, ran.stderr).contains("no-such-tool"), "{}", ran.stderr);
}

#[test]
fn memory_keeps_what_it_is_told_from_one_run_to_the_next() {
    let folder = std::env::temp_dir().join(format!("mcpjoin-memory-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("graph.jsonl");
    let environment = [("MEMORY_FILE_PATH", file.to_str().unwrap())];
    let entities =
        r#"entities:=[{"name":"Ada","entityType":"person","observations":["wrote the first program"]}]"#;

    let list = mcpjoin_with(&environment, &["list", "--json"], &memory()).json();
    assert_eq!(list["protocolVersion"], LEGACY);
    assert!(tools(&list).is_superset(&BTreeSet::from(["create_entities", "read_graph"])));

    let created =
        mcpjoin_with(&environment, &["call", "--json", "create_entities", entities], &memory()).json();
    assert_eq!(created["structuredContent"]["entities"][0]["name"], "Ada");
    let graph = mcpjoin_with(&environment, &["call", "--json", "read_graph"], &memory()).json();
    let expected = json!([
        {"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}
    ]);
    assert_eq!(graph["structuredContent"]["entities"], expected);
    assert!(first_text(&graph).contains("wrote the first program"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn time_speaks_the_modern_era() {
    let list = mcpjoin(&["list", "--json"], &time()).json();
    assert_eq!(list["protocolVersion"], MODERN);
    assert_eq!(tools(&list), BTreeSet::from(["convert_time", "get_current_time"]));

    let now = mcpjoin(&["call", "--json", "get_current_time", "timezone=Etc/UTC"], &time()).json();
    assert_eq!(now["structuredContent"]["timezone"], "Etc/UTC");
    assert!(now["structuredContent"]["datetime"].as_str().unwrap().ends_with("+00:00"), "{now}");
}

#[test]
fn time_converts_between_zones() {
    let words = ["call", "convert_time", "source_timezone=UTC", "time=12:00", "target_timezone=Asia/Tokyo"];
    let ran = mcpjoin(&words, &time());
    assert!(ran.text().contains("T21:00:00+09:00"), "{}", ran.stdout);
}

#[test]
fn time_is_also_reached_in_the_legacy_era() {
    let list = mcpjoin(&["list", "--json", "--era", "legacy"], &time()).json();
    assert_eq!(list["protocolVersion"], LEGACY);
    assert_eq!(tools(&list), BTreeSet::from(["convert_time", "get_current_time"]));
}

#[test]
fn time_refuses_a_zone_that_does_not_exist() {
    let ran = mcpjoin(&["call", "get_current_time", "timezone=Nowhere/Land"], &time());
    assert_eq!(ran.code, Some(5), "{}{}", ran.stdout, ran.stderr);
    assert!(format!("{}{}", ran.stdout, ran.stderr).contains("Nowhere/Land"), "{}", ran.stderr);
}
