//! The metrics of a bridge, as a program reads them that none of us wrote: the parser of OpenMetrics of the official
//! client for Python.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "what is not as it should be fails the test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// Prints the families of the metrics on standard input as JSON: name, type, unit, and the number of samples.
const PARSER: &str = "
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = text_string_to_metric_families(sys.stdin.read())
print(json.dumps({f.name: [f.type, f.unit, len(f.samples)] for f in families}))
";

/// Ends the bridge with the test.
struct Bridge(Child);

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_parser_of_the_official_client_for_python_takes_the_metrics_of_a_bridge() {
    let mcpjoin = interop::mcpjoin().unwrap();
    let words = ["bridge", "--listen", "http://127.0.0.1:0/mcp", "--admin", "http://127.0.0.1:0", "demo:"];
    let child = Command::new(&mcpjoin).args(words).stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut bridge = Bridge(child.unwrap());
    let mut lines = BufReader::new(bridge.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut printed =
        |before: &str| lines.find_map(|line| line.strip_prefix(before).map(ToOwned::to_owned)).unwrap();
    let pages = printed("state and metrics at http://");
    let url = printed("listening on ");
    let call = Command::new(&mcpjoin).args(["call", &url, "echo", "message=a\"b\\c"]).output().unwrap();
    assert!(call.status.success(), "{}", String::from_utf8_lossy(&call.stderr));

    let mut stream = TcpStream::connect(pages.split('/').next().unwrap()).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, text) = answer.split_once("\r\n\r\n").unwrap();

    let mut parser = Command::new(interop::server("venv/bin/python").unwrap())
        .args(["-c", PARSER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    parser.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = parser.wait_with_output().unwrap();
    assert!(output.status.success(), "{text}");
    let families: Value = serde_json::from_slice(&output.stdout).unwrap();
    let kind = |name: &str| (families[name][0].clone(), families[name][1].clone());
    assert_eq!(kind("mcp_server_operation_duration_seconds"), (json!("histogram"), json!("seconds")));
    assert_eq!(kind("mcpjoin_calls"), (json!("counter"), json!("")));
    assert_eq!(kind("mcpjoin_target_up"), (json!("gauge"), json!("")));
    assert!(families["mcpjoin_calls"][2].as_u64() >= Some(1), "{families}");
}
