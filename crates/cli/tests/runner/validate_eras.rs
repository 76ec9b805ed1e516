//! Tests of `mcpjoin validate --eras`, which sends each possible first request, and of servers behind a socket.

use serde_json::Value;

use super::ports::Closed;
use super::support::{Ran, command, line, run, start};

/// The demonstration server on a listener. Ended when this is dropped.
struct Demo {
    running: Option<super::support::Running>,
    address: String,
    /// Its output beside its address.
    said: String,
}

impl Demo {
    fn start(listen: &str, lines: usize) -> Self {
        let mut running = start(command(["serve", "demo", "--full", "--listen", listen]));
        let stderr = running.child.stderr.take().unwrap();
        let mut demo = Self { running: Some(running), address: String::new(), said: String::new() };
        let mut stderr = std::io::BufReader::with_capacity(1, stderr);
        for _ in 0..lines {
            std::io::BufRead::read_line(&mut stderr, &mut demo.said).unwrap();
        }
        let first = demo.said.lines().next().unwrap();
        demo.address = first.strip_prefix("listening on ").unwrap_or_else(|| panic!("{first}")).to_owned();
        demo
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

/// For each opening request: its method, its version, and the response.
fn answers(report: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let openers = report["openers"].as_array().unwrap().iter();
    openers.map(|it| (text(&it["method"]), text(&it["protocolVersion"]), text(&it["answer"]))).collect()
}

/// Asserts the responses of the demonstration server, which are the same over each transport.
#[track_caller]
fn is_the_demo(ran: Ran) {
    let report = ran.exits(0).json();
    let answers = answers(&report);
    let expected = [
        ("server/discover", "2026-07-28", "versions"),
        ("server/discover", "1999-01-01", "refused"),
        ("server/discover", "-", "refused"),
        ("tools/list", "2026-07-28", "result"),
        ("initialize", "2025-11-25", "version"),
        ("initialize", "2025-06-18", "version"),
        ("initialize", "2025-03-26", "version"),
        ("initialize", "2024-11-05", "version"),
        ("initialize", "2026-07-28", "version"),
        ("initialize", "1999-01-01", "version"),
        ("initialize", "-", "refused"),
        ("tools/list", "-", "refused"),
    ];
    let answers: Vec<_> = answers.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
    assert_eq!(answers, expected, "{report:#}");
    for opener in report["openers"].as_array().unwrap() {
        assert!(opener["elapsedMs"].is_u64() && opener["opens"].is_boolean(), "{opener}");
    }
    assert_eq!(report["openers"][1]["code"], -32022);
    assert_eq!(report["openers"][7]["version"], "2024-11-05");
}

#[test]
fn the_table_is_the_same_over_every_transport() {
    is_the_demo(line("validate --eras --json demo:"));
    for listen in ["http://127.0.0.1:0/mcp", "tcp://127.0.0.1:0"] {
        let demo = Demo::start(listen, 1);
        is_the_demo(line(&format!("validate --eras --json {}", demo.address)));
    }
    let demo = Demo::start("quic://127.0.0.1:0", 2);
    let (_, pin) = demo.said.split_once("--pin ").unwrap_or_else(|| panic!("{}", demo.said));
    let pin = pin.split_whitespace().next().unwrap();
    is_the_demo(line(&format!("validate --eras --json --pin {pin} {}", demo.address)));
}

#[test]
fn a_server_over_quic_is_validated_on_one_stream_and_with_one_for_each_request() {
    let demo = Demo::start("quic://127.0.0.1:0", 2);
    let pin = demo.said.split_once("--pin ").unwrap().1.split_whitespace().next().unwrap();
    let trace = super::support::scratch("validate-quic-trace");
    let words = ["validate", "--json", "--strict", "--resilience", "--pin", pin, "--trace"];
    let ran = run(words.iter().copied().chain([trace.to_str().unwrap(), &demo.address])).exits(0);
    let report = ran.json();
    assert!(report["ran"].as_u64().unwrap() > 100 && report["failed"] == 0, "{report:#}");
    let runs = report["runs"].as_array().unwrap();
    assert!(runs.iter().any(|run| run["name"] == "a stream for each request"), "{runs:?}");
    let outcome = |slug: &str| {
        let rules = report["rules"].as_array().unwrap();
        rules.iter().find(|rule| rule["rule"] == slug).unwrap()["outcome"].as_str().unwrap().to_owned()
    };
    for rule in ["whole-lines", "bad-json-code", "many-requests-answered"] {
        assert_eq!(outcome(rule), "passed", "{rule}");
    }
    for rule in ["ends-with-its-input", "ends-at-sigterm", "same-after-restart", "origin-validated"] {
        assert_eq!(outcome(rule), "skipped", "{rule}");
    }
    let lines = std::fs::read_to_string(&trace).unwrap();
    std::fs::remove_file(&trace).unwrap();
    assert!(lines.lines().count() > 100 && lines.contains("server/discover"), "{lines}");
    // A server that is not trusted is not validated.
    let other = "ab".repeat(32);
    let ran = line(&format!("validate --json --pin sha256:{other} {}", demo.address)).exits(4);
    assert_eq!(ran.failure()["id"], "E_TLS");
}

#[test]
fn of_several_servers_the_table_says_which_are_opened_and_validates_none() {
    let ran = line("validate --eras --also demo: --also ./no/such demo:").exits(4);
    let last = ran.stdout.lines().last().unwrap();
    assert_eq!(last, "3 servers: 2 accept an opening request, 0 accept none, 1 not reached");
    assert!(!ran.stdout.contains("faults"), "{}", ran.stdout);
}

#[test]
fn a_server_behind_a_socket_is_validated() {
    let demo = Demo::start("tcp://127.0.0.1:0", 1);
    let report = line(&format!("validate --json --strict {}", demo.address)).exits(0).json();
    assert!(report["ran"].as_u64().unwrap() > 50 && report["failed"] == 0, "{report:#}");
    assert_eq!(report["command"], demo.address);
    let trace = super::support::scratch("validate-socket-trace");
    let path = trace.display().to_string();
    run(["validate", "--era", "modern", "--trace", &path, &demo.address]).exits(0);
    let lines = std::fs::read_to_string(&trace).unwrap();
    std::fs::remove_file(&trace).unwrap();
    assert!(lines.lines().count() > 20 && lines.contains("server/discover"), "{lines}");
    drop(demo);
    let closed = Closed::tcp();
    line(&format!("validate tcp://{closed}")).exits(4).says(&["(E_CONNECT)", "url"]);
}

#[test]
fn each_answer_has_its_row_and_no_text_of_a_server_its_way() {
    let script = r#"
read -r line
answer() { printf '%s\n' "{\"jsonrpc\":\"2.0\",\"id\":1,$1}"; }
case "$line" in
  *discover*1999-*) answer '"result":{"supportedVersions":"none"}';;
  *discover*2026-*) answer '"error":{"code":-32601,"message":"no\u001b[2J\nsuch"}';;
  *discover*) exit 3;;
  *initialize*2025-11-25*) answer '"result":{"protocolVersion":"\u001b[31mred"}';;
  *initialize*2025-06-18*) printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":7}';;
  *initialize*2025-03-26*) i=0; while [ $i -lt 40 ]; do echo "banner $i"; i=$((i+1)); done;;
  *initialize*2024-11-05*) while read -r line; do :; done;;
  *) answer '"result":{}';;
esac
exec cat >/dev/null"#;
    let words = ["validate", "--eras", "--connect-timeout", "2s", "--json", "sh", "-c", script];
    let report = run(words).exits(0).json();
    let seen: Vec<_> = answers(&report).into_iter().map(|(.., answer)| answer).collect();
    assert_eq!(
        seen,
        [
            "refused",
            "result",
            "closed",
            "result",
            "version",
            "result",
            "unreadable",
            "silent",
            "result",
            "result",
            "result",
            "result",
        ],
        "{report:#}"
    );
    let words = ["validate", "--eras", "--era", "modern", "sh", "-c", script];
    let text = run(words).exits(0).stdout;
    assert!(
        text.contains("\n          (exit code 3)")
            && text.contains("error -32601:\n          no\\u{1b}[2J\\u{a}such"),
        "{text}"
    );
    let (_, rows) = text.split_once("\n\n").unwrap();
    let rows = rows.lines().filter(|line| !line.starts_with("          "));
    assert_eq!(rows.count(), 4, "a row for each of the four openers: {text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn the_openers_are_those_that_the_options_leave() {
    let count = |options: &str| {
        let report = line(&format!("validate --eras --json {options} demo:")).exits(0).json();
        report["openers"].as_array().unwrap().len()
    };
    assert_eq!(count("--era legacy"), 8);
    assert_eq!(count("--era modern"), 4);
    assert_eq!(count("--protocol-version 2025-03-26"), 1);
    // If no opening request succeeds, there is no connection.
    let ran = run(["validate", "--eras", "sh", "-c", "read -r line; exit 7"]).exits(4);
    assert!(ran.stdout.contains("0 of 12 opening requests accepted"), "{}", ran.stdout);
    line("validate --eras mcpjoin-no-such-program").exits(4).says(&["(E_SPAWN_NOT_FOUND)"]);
    line("validate --eras --format sarif demo:").exits(2).says(&["prints a table"]);
    line("validate --eras --strict demo:").exits(2).says(&["cannot be used with"]);
}
