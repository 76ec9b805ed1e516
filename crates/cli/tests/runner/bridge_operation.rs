//! Tests of how a bridge is run and watched: pages for monitoring, audit, HTTPS, systemd, several names of one port.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command};
use std::time::Duration;

use serde_json::{Value, json};

use super::orphans::until;
use super::quic::Certificates;
use super::support::{Running, command, run, scratch, start};

/// How long a test waits for a message on a socket: far more than it takes on a busy machine.
const LONGEST: Duration = Duration::from_secs(50);
/// A legacy server in shell whose tool `fails` fails, and whose tool `hangs` never answers.
const SHELL: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while read -r line; do
  id=$(printf '%s\n' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case $line in
    *'"method":"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"1"}}' ;;
    *'"name":"hangs"'*) ;;
    *'"name":"fails"'*) answer '{"content":[],"isError":true}' ;;
    *'"method":"tools/call"'*) answer '{"content":[{"type":"text","text":"done"}]}' ;;
    *'"method":"tools/list"'*) answer '{"tools":[{"name":"work","inputSchema":{"type":"object"}},{"name":"fails","inputSchema":{"type":"object"}}]}' ;;
  esac
done"#;

/// A bridge. Ended when this is dropped.
struct Bridge {
    running: Option<Running>,
    stderr: BufReader<ChildStderr>,
    /// The addresses of its clients.
    addresses: Vec<String>,
    /// The address of its pages for monitoring.
    admin: String,
}

impl Bridge {
    /// Starts it, and waits until it has printed this number of addresses.
    fn start(mut bridge: Command, addresses: usize) -> Self {
        bridge.env("BRIDGE_SECRET", "hunter2-of-the-bridge");
        let mut running = start(bridge);
        let stderr = BufReader::with_capacity(1, running.child.stderr.take().unwrap());
        let mut bridge = Self { running: Some(running), stderr, addresses: Vec::new(), admin: String::new() };
        while bridge.addresses.len() < addresses {
            let line = bridge.line();
            if let Some(address) = line.strip_prefix("listening on ") {
                bridge.addresses.push(address.to_owned());
            } else if let Some(pages) = line.strip_prefix("state and metrics at ") {
                bridge.admin = pages.split("/readyz").next().unwrap().to_owned();
            }
        }
        bridge
    }

    fn with(options: &[&str], server: &[&str]) -> Self {
        let listen = ["bridge", "--listen", "http://127.0.0.1:0/mcp"];
        Self::start(command([&listen, options, server].concat()), 1)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.stderr.read_line(&mut line).unwrap(), 0, "it has ended");
        line.trim_end().to_owned()
    }

    fn signal(&self, name: &str) {
        self.running.as_ref().unwrap().signal(name);
    }

    /// A page for monitoring: its status, its head, its body.
    fn page(&self, method: &str, path: &str) -> (u16, String, String) {
        let (_, place) = self.admin.split_once("://").unwrap();
        let mut stream = TcpStream::connect(place).unwrap();
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nhost: {place}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_owned(), body.to_owned())
    }

    fn readiness(&self) -> (u16, Value) {
        let (status, _, body) = self.page("GET", "/readyz");
        (status, serde_json::from_str(&body).unwrap())
    }

    /// Ends it with a signal. Asserts that no process is left.
    fn ends(mut self, signal: &str, code: i32) -> String {
        let mut running = self.running.take().unwrap();
        running.signal(signal);
        let mut stderr = String::new();
        self.stderr.read_to_string(&mut stderr).unwrap();
        running.child.stderr = None;
        running.finish().exits(code);
        stderr
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

fn call(url: &str, words: &[&str], code: i32) {
    run([&["call", "--era", "legacy", "--force", url], words].concat()).exits(code);
}

/// The value of a sample of OpenMetrics, by the beginning of its line.
fn sample(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
    line.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[test]
fn the_pages_for_monitoring_show_the_calls_and_the_state_of_the_server() {
    let bridge = Bridge::with(&["--admin", "http://127.0.0.1:0"], &["sh", "-c", SHELL]);
    assert_eq!(bridge.page("GET", "/healthz").0, 200);
    assert_eq!(
        bridge.readiness(),
        (
            200,
            json!({"ready": true, "draining": false, "targets": [
                {"name": "server", "state": "idle", "ready": true, "collisions": []},
            ]})
        )
    );
    let url = &bridge.addresses[0];
    run(["list", "--era", "legacy", url]).exits(0);
    call(url, &["work"], 0);
    call(url, &["fails"], 5);
    call(url, &["made-up-by-a-client"], 0);
    let (status, head, text) = bridge.page("GET", "/metrics");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let of_tool = |tool: &str| {
        format!(r#"mcpjoin_target="server",mcp_method_name="tools/call",gen_ai_tool_name="{tool}""#)
    };
    for (series, value) in [
        (format!(r#"mcpjoin_calls_total{{{},outcome="ok"}}"#, of_tool("work")), 1.0),
        (
            format!(
                r#"mcpjoin_calls_total{{{},outcome="tool_error",error_type="tool_error"}}"#,
                of_tool("fails")
            ),
            1.0,
        ),
        (format!(r#"mcpjoin_calls_total{{{},outcome="ok"}}"#, of_tool("_OTHER")), 1.0),
        (format!("mcp_server_operation_duration_seconds_count{{{}}}", of_tool("work")), 1.0),
        (r#"mcpjoin_calls_in_flight{mcpjoin_target="server"}"#.to_owned(), 0.0),
        (r#"mcpjoin_target_up{mcpjoin_target="server"}"#.to_owned(), 1.0),
        ("mcpjoin_server_starts_total".to_owned(), 4.0),
    ] {
        assert_eq!(sample(&text, &series), Some(value), "{series} in {text}");
    }
    assert!(text.contains("# TYPE mcp_server_operation_duration_seconds histogram"), "{text}");
    assert!(text.contains("# UNIT mcp_server_operation_duration_seconds seconds"), "{text}");
    assert!(!text.contains("made-up"), "{text}");
    for (method, path, expected) in [("GET", "/", 404), ("POST", "/metrics", 405), ("HEAD", "/readyz", 200)] {
        assert_eq!(bridge.page(method, path).0, expected, "{method} {path}");
    }
    bridge.ends("TERM", 143);
}

#[test]
fn the_pages_for_monitoring_say_whether_redis_is_there_and_the_bridge_is_ready_without_it() {
    let mut redis = mcpjoin_test_support::Redis::start(&[]).unwrap();
    let keys = scratch("state-keys");
    fs::write(&keys, "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=").unwrap();
    let url = redis.url();
    let shares = ["--key-file", keys.to_str().unwrap(), "--state", &url, "--state-timeout", "5s"];
    let bridge =
        Bridge::with(&[&["--admin", "http://127.0.0.1:0"][..], &shares].concat(), &["sh", "-c", SHELL]);
    let is_available = || {
        let (status, body) = bridge.readiness();
        assert_eq!(
            (status, body["state"]["address"].as_str()),
            (200, url.strip_prefix("redis://")),
            "{body}"
        );
        body["state"]["available"].as_bool().unwrap()
    };
    let metric = |series: &str| sample(&bridge.page("GET", "/metrics").2, series).unwrap();
    until(|| is_available().then_some(()));
    assert_eq!(metric("mcpjoin_state_up"), 1.0);
    for reason in ["unanswered", "refused", "foreign_record", "event_not_stored"] {
        assert_eq!(metric(&format!(r#"mcpjoin_state_failures_total{{reason="{reason}"}}"#)), 0.0, "{reason}");
    }
    redis.kill();
    until(|| (!is_available()).then_some(()));
    assert_eq!(metric("mcpjoin_state_up"), 0.0);
    assert!(metric(r#"mcpjoin_state_failures_total{reason="unanswered"}"#) >= 1.0);
    redis.start_again().unwrap();
    until(|| is_available().then_some(()));
    bridge.ends("TERM", 143);
}

#[test]
fn a_bridge_whose_server_does_not_start_is_alive_and_not_ready() {
    let bridge = Bridge::with(&["--admin", "http://127.0.0.1:0"], &["sh", "-c", "exit 9"]);
    run(["list", "--era", "legacy", &bridge.addresses[0]]).exits(4);
    let (status, body) = bridge.readiness();
    assert_eq!((status, &body["targets"][0]["state"]), (503, &json!("cooling down")), "{body}");
    let cause = body["targets"][0]["cause"].as_str().unwrap();
    assert!(cause.contains("exit code 9"), "{cause}");
    assert!(body["targets"][0]["nextAttemptSeconds"].as_f64().unwrap() <= 5.0, "{body}");
    assert_eq!(bridge.page("GET", "/healthz").0, 200);
    bridge.ends("TERM", 143);
}

#[test]
fn of_joined_servers_one_that_does_not_start_is_named_and_the_bridge_is_ready() {
    let audit = scratch("audit-joined.jsonl");
    let options = ["--admin", "http://127.0.0.1:0", "--audit", audit.to_str().unwrap()];
    let bridge = Bridge::with(&options, &["--join", "works=demo:", "--join", "broken=/nowhere/at-all"]);
    call(&bridge.addresses[0], &["works__echo", "message=hi"], 0);
    let (status, body) = bridge.readiness();
    let state = |target: usize| &body["targets"][target];
    assert_eq!(
        (status, &state(0)["name"], &state(1)["name"]),
        (200, &json!("works"), &json!("broken")),
        "{body}"
    );
    assert_eq!(state(1)["state"], "cooling down", "{body}");
    assert!(state(1)["cause"].as_str().unwrap().contains("/nowhere/at-all"), "{body}");
    let (_, _, metrics) = bridge.page("GET", "/metrics");
    let up = metrics.lines().filter(|line| line.contains("up{")).collect::<Vec<_>>();
    assert!(up.iter().any(|line| line.contains("\"broken\"") && line.ends_with(" 0")), "{up:?}");
    let lines = until(|| {
        let text = fs::read_to_string(&audit).unwrap_or_default();
        text.contains("tools/call").then_some(text)
    });
    let called = lines.lines().find(|line| line.contains("tools/call")).unwrap();
    assert!(called.contains("\"works\"") && called.contains("\"echo\""), "{called}");
    bridge.ends("TERM", 143);
}

/// Waits until an audit has this many lines, and returns them.
fn lines(path: &Path, number: usize) -> Vec<Value> {
    until(|| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<Value> = text.lines().map_while(|line| serde_json::from_str(line).ok()).collect();
        (lines.len() >= number).then_some(lines)
    })
}

#[test]
fn an_audit_has_one_line_for_each_call_without_secrets_and_follows_its_file_at_sighup() {
    let (file, moved) = (scratch("audit.jsonl"), scratch("audit-moved.jsonl"));
    let place = file.to_str().unwrap();
    let options = ["--audit", place, "--audit-arguments", "-e", "BRIDGE_SECRET"];
    let bridge = Bridge::with(&options, &["sh", "-c", SHELL]);
    let url = &bridge.addresses[0];
    call(url, &["work", "token=hunter2-of-the-bridge", "n=1"], 0);
    call(url, &["fails"], 5);
    let written = lines(&file, 2);
    let calls: Vec<&Value> = written.iter().filter(|line| line["method"] == "tools/call").collect();
    assert_eq!(calls.len(), 2, "{written:?}");
    assert_eq!(
        (&calls[0]["server"], &calls[0]["tool"], &calls[0]["outcome"], &calls[0]["arguments"]),
        (&json!("server"), &json!("work"), &json!("ok"), &json!({"token": "***", "n": "1"}))
    );
    assert!(calls[0]["address"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert_eq!(calls[0]["client"], "mcpjoin");
    assert!(calls[0]["ms"].as_f64().unwrap() > 0.0 && calls[0]["bytesOut"].as_u64().unwrap() > 0);
    assert!(calls[0]["time"].as_str().unwrap().ends_with('Z'));
    assert_eq!(calls[1]["outcome"], "tool_error");
    assert!(!fs::read_to_string(&file).unwrap().contains("hunter2"));
    // As logrotate does it.
    fs::rename(&file, &moved).unwrap();
    bridge.signal("HUP");
    until(|| file.exists().then_some(()));
    call(url, &["work"], 0);
    let after = lines(&file, 1);
    assert!(after.iter().any(|line| line["tool"] == "work" && line["arguments"] == json!({})), "{after:?}");
    assert_eq!(lines(&moved, written.len()).len(), written.len());
    bridge.ends("TERM", 143);
    for file in [file, moved] {
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn an_audit_without_arguments_has_none_and_a_file_that_cannot_be_opened_is_refused() {
    let file = scratch("audit-plain.jsonl");
    let bridge = Bridge::with(&["--audit", file.to_str().unwrap()], &["sh", "-c", SHELL]);
    call(&bridge.addresses[0], &["work", "a=private"], 0);
    lines(&file, 1);
    bridge.ends("TERM", 143);
    assert!(!fs::read_to_string(&file).unwrap().contains("private"));
    fs::remove_file(file).unwrap();
    let refused = run(["bridge", "--audit", "/nowhere/audit", "--listen", "http://127.0.0.1:0", "demo:"]);
    refused.exits(2).says(&["the audit cannot be written to /nowhere/audit"]);
}

#[test]
fn http_and_http_sse_are_served_at_one_port() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (http, sse) =
        (format!("http://127.0.0.1:{port}/tools"), format!("sse+http://127.0.0.1:{port}/events"));
    for order in [[&http, &sse], [&sse, &http]] {
        let words = ["bridge", "--listen", order[0], "--listen", order[1], "sh", "-c", SHELL];
        let bridge = Bridge::start(command(words), 2);
        assert_eq!(bridge.addresses, [&*http, &*sse]);
        for url in [&http, &sse] {
            run(["list", "--era", "legacy", url]).exits(0);
        }
        bridge.ends("TERM", 143);
    }
}

/// The program that a test needs.
fn installed(program: &str) -> Command {
    let found = Command::new(program).arg("--version").output();
    assert!(found.is_ok(), "{program} is missing: install it (apt-get install {program})");
    Command::new(program)
}

#[test]
fn https_has_the_certificate_of_its_files_also_after_they_have_changed() {
    let files = Certificates::new("https");
    files.make("server");
    let path = |name: &str| files.path(name);
    let (cert, key, ca) = (path("server.pem"), path("server.key"), path("ca.pem"));
    let words = ["bridge", "--listen", "https://127.0.0.1:0/mcp", "--cert", &cert, "--key", &key];
    let mut bridge = Bridge::start(command([&words[..], &["sh", "-c", SHELL]].concat()), 1);
    let url = bridge.addresses[0].clone();
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    run(["list", "--era", "legacy", "--ca", &ca, &url]).exits(0);
    // Another HTTP client, which would take HTTP/2 if it were offered.
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"curl","version":"1"}}}"#;
    let types = ["-H", "content-type: application/json", "-H", "accept: application/json, text/event-stream"];
    let output = installed("curl")
        .args(["--silent", "--show-error", "--max-time", "50", "--cacert", &ca])
        .args(["--write-out", "\n%{http_version} %{http_code}", "--data", initialize])
        .args(types)
        .arg(&url)
        .output()
        .unwrap();
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(answer.ends_with("\n1.1 200"), "{answer} {}", String::from_utf8_lossy(&output.stderr));
    assert!(answer.contains(r#""serverInfo":{"name":"shell""#), "{answer}");
    // Files that do not fit together leave the certificate in use. SIGHUP ends nothing.
    bridge.signal("HUP");
    let renewed = Certificates::new("https-renewed");
    renewed.make("server");
    fs::copy(renewed.path("server.pem"), &cert).unwrap();
    run(["list", "--era", "legacy", "--ca", &ca, &url]).exits(0);
    until(|| bridge.line().contains("the certificate before stays in use").then_some(()));
    fs::copy(renewed.path("server.key"), &key).unwrap();
    run(["list", "--era", "legacy", "--ca", &renewed.path("ca.pem"), &url]).exits(0);
    until(|| bridge.line().contains("the certificate was read again").then_some(()));
    run(["list", "--era", "legacy", "--ca", &ca, &url]).exits(4);
    bridge.ends("TERM", 143);
    let refused = run(["bridge", "--listen", "https://127.0.0.1:0", "demo:"]).exits(2);
    refused.says(&["https:// needs a certificate", "--cert FILE --key FILE"]);
}

/// A socket as systemd gives it to a service of `Type=notify`, and its path.
fn notify_socket(name: &str) -> (UnixDatagram, PathBuf) {
    let path = scratch(name);
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(LONGEST)).unwrap();
    (socket, path)
}

fn next_state(socket: &UnixDatagram) -> String {
    let mut message = [0; 1024];
    let length = socket.recv(&mut message).unwrap();
    String::from_utf8_lossy(&message[..length]).trim_end().to_owned()
}

#[test]
fn systemd_learns_when_clients_are_served_and_when_no_more_are_and_a_second_signal_cuts() {
    let files = Certificates::new("https-drain");
    files.make("server");
    let (cert, key, ca) = (files.path("server.pem"), files.path("server.key"), files.path("ca.pem"));
    let (socket, path) = notify_socket("notify");
    let words = ["bridge", "--listen", "https://127.0.0.1:0/mcp", "--cert", &cert, "--key", &key];
    let admin = ["--admin", "http://127.0.0.1:0", "sh", "-c", SHELL];
    let mut bridge = command([&words[..], &admin].concat());
    bridge.env("NOTIFY_SOCKET", &path);
    let bridge = Bridge::start(bridge, 1);
    assert_eq!(next_state(&socket), "READY=1");
    let hanging =
        start(command(["call", "--era", "legacy", "--force", "--ca", &ca, &bridge.addresses[0], "hangs"]));
    until(|| {
        let text = bridge.page("GET", "/metrics").2;
        let in_flight = sample(&text, r#"mcpjoin_calls_in_flight{mcpjoin_target="server"}"#);
        (in_flight == Some(1.0)).then_some(())
    });
    bridge.signal("TERM");
    assert_eq!(next_state(&socket), "STOPPING=1");
    // The call has 10 seconds to finish; new clients are sent elsewhere meanwhile.
    let (status, body) = until(|| Some(bridge.readiness()).filter(|(status, _)| *status == 503));
    assert_eq!((status, &body["draining"]), (503, &json!(true)));
    let began = std::time::Instant::now();
    bridge.ends("TERM", 143);
    assert!(began.elapsed() < Duration::from_secs(8), "the second signal did not end it");
    let mut hanging = hanging;
    let _ = hanging.child.kill();
    let _ = hanging.child.wait();
    fs::remove_file(path).unwrap();
}

/// The text of a file of this repository.
fn repository(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_option_of_the_page_about_running_exists() {
    let pages = [&["bridge", "--help"][..], &["help", "options"], &["help", "quic"]];
    let help: String = pages.map(|words| run(words).exits(0).stdout).concat();
    let mut options = 0;
    for file in [
        "docs/running.md",
        "docs/behind-nginx.md",
        "docs/kubernetes.md",
        "contrib/mcpjoin.service",
        "contrib/Containerfile",
        "contrib/kubernetes.yaml",
        "contrib/kubernetes-replicas.yaml",
        "contrib/compose.yaml",
        "docs/replicas.md",
        "docs/redis.md",
    ] {
        let text = repository(file);
        let other = ["podman ", "cargo ", "systemctl ", "kubectl ", "valkey-server", "docker run "];
        let commands = text.lines().filter(|line| !other.iter().any(|program| line.contains(program)));
        for word in commands.flat_map(|line| line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))) {
            if word.strip_prefix("--").is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
            {
                options += 1;
                let known =
                    |line: &str| line.split([' ', ',', '=']).any(|known| known.trim_end_matches('.') == word);
                assert!(help.lines().any(known), "{word} of {file} is no option of `bridge`");
            }
        }
    }
    assert!(options > 10, "the page has no commands");
}
