//! The metrics of a bridge, as programs read them that none of us wrote: the parser of OpenMetrics of the official client for
//! Python, and promtool, which finds what breaks the practice of Prometheus.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what is not as it should be fails the test")]

use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use interop::{Folder, Redis};
use serde_json::{Value, json};

/// Far more than the calls take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// Prints the families of the metrics on standard input as JSON: name, type, unit, and the number of samples.
const PARSER: &str = "
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = text_string_to_metric_families(sys.stdin.read())
print(json.dumps({f.name: [f.type, f.unit, len(f.samples)] for f in families}))
";

/// A bridge, which ends with the test.
struct Bridge {
    mcpjoin: PathBuf,
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    pages: String,
    url: String,
}

impl Bridge {
    fn start(words: &[&str]) -> Self {
        let mcpjoin = interop::mcpjoin().unwrap();
        let addresses = ["bridge", "--listen", "http://127.0.0.1:0/mcp", "--admin", "http://127.0.0.1:0"];
        let mut command = Command::new(&mcpjoin);
        command.args(addresses).args(words).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut bridge = Self { mcpjoin, child, lines, pages: String::new(), url: String::new() };
        bridge.pages = bridge.printed("state and metrics at http://");
        bridge.url = bridge.printed("listening on ");
        bridge
    }

    /// The rest of the next line that begins so.
    fn printed(&mut self, before: &str) -> String {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        lines.find_map(|line| line.strip_prefix(before).map(ToOwned::to_owned)).unwrap()
    }

    /// Begins a call of a tool.
    fn call(&self, tool: &str, argument: &str) -> Child {
        let words = ["call", &*self.url, tool, argument];
        let mut command = Command::new(&self.mcpjoin);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// The metrics in the format of this media type.
    fn metrics(&self, accept: &str) -> String {
        let mut stream = TcpStream::connect(self.pages.split('/').next().unwrap()).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nhost: x\r\naccept: {accept}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(accept), "{head}");
        text.to_owned()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a program says to this text.
fn said(command: &mut Command, text: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn succeeds(call: Child) {
    let output = call.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_parser_of_the_official_client_for_python_takes_the_metrics_of_a_bridge() {
    let bridge = Bridge::start(&["demo:"]);
    succeeds(bridge.call("echo", "message=a\"b\\c"));
    let text = bridge.metrics("application/openmetrics-text");
    let output = said(Command::new(interop::server("venv/bin/python").unwrap()).args(["-c", PARSER]), &text);
    assert!(output.status.success(), "{text}");
    let families: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kind = |name: &str| (families[name][0].clone(), families[name][1].clone());
    assert_eq!(kind("mcp_server_operation_duration_seconds"), (json!("histogram"), json!("seconds")));
    assert_eq!(kind("mcpjoin_calls"), (json!("counter"), json!("")));
    assert_eq!(kind("mcpjoin_target_up"), (json!("gauge"), json!("")));
    assert!(families["mcpjoin_calls"][2].as_u64() >= Some(1), "{families}");
}

#[test]
fn promtool_finds_no_fault_in_the_metrics_of_a_bridge_while_calls_are_under_way() {
    let promtool = interop::tool(&["promtool"], "promtool of Prometheus 2.15 or newer").unwrap();
    let check = |text: &str| said(Command::new(&promtool).args(["check", "metrics"]), text);
    let fault = check("# TYPE calls counter\ncalls 1\n");
    assert!(!fault.status.success(), "it finds a counter without a help and without `_total`");
    // With state of several bridges, so that there are those metrics, too.
    let (redis, folder) = (Redis::start(&[]).unwrap(), Folder::new("promtool"));
    let [keys, audit] = ["keys", "audit"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    fs::write(&keys, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
    let state = ["--key-file", &keys, "--state", &redis.url(), "--audit", &audit];
    let bridge = Bridge::start(&[&state[..], &["--join", "a=demo:full", "--join", "b=demo:"]].concat());
    let mut endless = bridge.call("a__slow_compute", "seconds=600");
    let mut calls =
        vec![bridge.call("a__test_error_handling", "--no-input"), bridge.call("b__echo", "message=a\"b\\c")];
    let mut wanted = vec![
        "mcpjoin_state_up 1\n",
        "error_type=\"tool_error\"",
        "echo\",outcome=\"ok\"",
        "in_flight{mcpjoin_target=\"a\"} 1\n",
    ];
    // Until each kind of traffic is in the metrics.
    let since = Instant::now();
    while !wanted.is_empty() {
        let text = bridge.metrics("text/plain");
        let Output { status, stdout, stderr } = check(&text);
        let printed = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(status.success() && printed.concat().is_empty(), "{printed:?} about\n{text}");
        assert!(since.elapsed() < DEADLINE, "{text}");
        if wanted.iter().all(|wanted| text.contains(wanted)) {
            wanted.clear();
        }
    }
    endless.kill().unwrap();
    calls.push(endless);
    for mut call in calls {
        call.wait().unwrap();
    }
}
