//! `mcpjoin validate URL` on published servers: what they do against the specification is found, the same each time.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

mod reports;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// A server that listens. Ended when this is dropped.
struct Listening {
    child: Child,
    port: u16,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Listening {
    /// Starts it on a port that was free a moment ago, and waits until it says these words on its standard error.
    fn start(mut command: Command, port: impl FnOnce(&mut Command, u16), says: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        port(&mut command, free);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut listening = Self { child, port: free };
        let mut lines = BufReader::new(listening.child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        while !said.contains(says) {
            said = lines.next().unwrap_or_else(|| panic!("it ended before it said {says:?}")).unwrap();
        }
        // What it says later is read, so that it can go on.
        std::thread::spawn(move || lines.for_each(drop));
        listening
    }

    fn everything(transport: &str) -> Self {
        let mut command = Command::new(interop::server("node_modules/.bin/mcp-server-everything").unwrap());
        command.arg(transport);
        Self::start(command, |command, port| _ = command.env("PORT", port.to_string()), "port")
    }

    fn python(transport: &str) -> Self {
        let mut command = Command::new(interop::server("venv/bin/python").unwrap());
        command.args(["-c", PYTHON, transport]);
        Self::start(command, |command, port| _ = command.arg(port.to_string()), "running on")
    }

    /// The report, and the rules of these levels that were broken.
    fn validated(&self, scheme: &str, path: &str) -> (Value, Vec<(String, String)>) {
        static BINARY: OnceLock<PathBuf> = OnceLock::new();
        let url = format!("{scheme}://127.0.0.1:{}{path}", self.port);
        let output = Command::new(BINARY.get_or_init(|| interop::mcpjoin().unwrap()))
            .args(["validate", "--json", &url])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        let rules = report["rules"].as_array().unwrap().iter();
        let failed = rules
            .filter(|rule| rule["outcome"] == "failed")
            .map(|rule| (rule["level"].as_str().unwrap().into(), rule["rule"].as_str().unwrap().into()))
            .collect();
        (report, failed)
    }
}

/// A server with a tool and a prompt.
const PYTHON: &str = r#"
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("python", version="1")
@server.tool()
def echo(message: str) -> str:
    return message
@server.prompt()
def hello(name: str) -> str:
    return "hello " + name
server.run(transport=sys.argv[1], port=int(sys.argv[2]))
"#;

#[track_caller]
fn found(failed: &[(String, String)], wanted: &[(&str, &str)], report: &Value) {
    let failed: Vec<(&str, &str)> = failed.iter().map(|(level, rule)| (&**level, &**rule)).collect();
    assert_eq!(failed, wanted, "{report:#}");
}

#[test]
fn everything_over_streamable_http_has_these_faults() {
    let server = Listening::everything("streamableHttp");
    let (report, failed) = server.validated("http", "/mcp");
    let wanted = [
        ("should", "invalid-request-code"),
        ("must", "origin-validated"),
        ("advice", "host-validated"),
        ("must", "resumed-stream"),
        ("must", "ended-session-not-found"),
        ("advice", "unknown-session-not-found"),
        ("should", "unknown-resource-code"),
        ("should", "bad-cursor-code"),
        ("should", "completion-missing-argument-code"),
        ("should", "unknown-log-level-code"),
    ];
    found(&failed, &wanted, &report);
    assert!(report["ran"].as_u64().unwrap() > 50, "{report:#}");
}

#[test]
fn everything_over_http_sse_has_these_faults() {
    let server = Listening::everything("sse");
    let (report, failed) = server.validated("sse+http", "/sse");
    let wanted = [
        ("must", "sse-origin-validated"),
        ("should", "unknown-resource-code"),
        ("should", "bad-cursor-code"),
        ("should", "unknown-log-level-code"),
    ];
    found(&failed, &wanted, &report);
    // The URL alone says the same.
    let (_, failed) = server.validated("http", "/sse");
    found(&failed, &wanted, &report);
}

#[test]
fn python_over_streamable_http_has_these_faults_in_both_eras() {
    let server = Listening::python("streamable-http");
    let (report, failed) = server.validated("http", "/mcp");
    let wanted = [
        ("must", "version-header-agrees"),
        ("should", "unknown-resource-code"),
        ("should", "unknown-prompt-code"),
        ("should", "bad-cursor-code"),
    ];
    found(&failed, &wanted, &report);
    assert!(report["ran"].as_u64().unwrap() > 85, "{report:#}");
}

#[test]
fn python_over_http_sse_has_these_faults() {
    let server = Listening::python("sse");
    let (report, failed) = server.validated("sse+http", "/sse");
    let wanted = [
        ("should", "unknown-resource-code"),
        ("should", "unknown-prompt-code"),
        ("should", "bad-cursor-code"),
    ];
    found(&failed, &wanted, &report);
}
