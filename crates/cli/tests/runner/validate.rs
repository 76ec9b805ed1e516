//! Tests of `mcpjoin validate`: the demonstration server passes, faults around it are found, no tool is called, and the exit
//! code matches the result.
//!
//! A fault is a `sed` program between the demonstration server and the validator.

use serde_json::Value;

use super::ports::Closed;
use super::support::{Ran, command, legacy, line, read_request, run, start};

const BINARY: &str = env!("CARGO_BIN_EXE_mcpjoin");

/// Validates the demonstration server behind a fault.
#[track_caller]
fn faulty(options: &[&str], fault: &str) -> Ran {
    let script = format!("'{BINARY}' serve demo --full | sed -u '{fault}'");
    let mut words = vec!["validate", "--json"];
    words.extend(options);
    words.extend(["sh", "-c", &script]);
    run(words)
}

/// The rules that failed.
fn failed(report: &Value) -> Vec<&str> {
    let rules = report["rules"].as_array().unwrap().iter();
    rules.filter(|rule| rule["outcome"] == "failed").map(|rule| rule["rule"].as_str().unwrap()).collect()
}

#[test]
fn r71_the_demo_is_clean_in_both_eras() {
    let ran = line("validate --json demo:").exits(0);
    let report = ran.json();
    assert_eq!(failed(&report), [""; 0], "{report:#}");
    assert_eq!(ran.stderr, "");
    let ran = report["ran"].as_u64().unwrap();
    assert!(ran > 100, "only {ran} rules ran");
    assert_eq!(report["passed"], report["ran"]);
    assert_eq!(report["runs"][0]["protocolVersion"], "2026-07-28");
    for version in ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"] {
        let runs = report["runs"].as_array().unwrap();
        assert!(runs.iter().any(|run| run["protocolVersion"] == version), "{version}");
    }
    for rule in report["rules"].as_array().unwrap() {
        assert_eq!(rule["outcome"] == "skipped", rule["why"].is_string(), "{rule}");
    }
}

#[test]
fn every_revision_of_the_demo_is_clean() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2026-07-28"] {
        let report = line(&format!("validate --json --protocol-version {version} demo:")).exits(0).json();
        assert_eq!(report["runs"][0]["protocolVersion"], version);
        assert_eq!(failed(&report), [""; 0], "{report:#}");
        let batch = report["rules"].as_array().unwrap().iter().find(|rule| rule["rule"] == "batch-answered");
        let batching = version == "2025-03-26";
        assert_eq!(batch.unwrap()["outcome"], if batching { "passed" } else { "skipped" }, "{version}");
    }
}

/// Faults of a process. The faults of messages are tested with the same server in crates/diagnostics/tests/validate/.
#[test]
fn f27_faults_of_a_process_are_found_each_by_its_rule() {
    // The second process keeps the pipes open until a signal ends it.
    for (rule, then) in [("ends-in-order", "exit 3"), ("ends-with-its-input", "exec sleep 1000")] {
        let script = format!("'{BINARY}' serve demo --full; {then}");
        let report = run(["validate", "--json", "--era", "modern", "sh", "-c", &script]).exits(0).json();
        assert_eq!(failed(&report), [rule], "{report:#}");
    }
}

#[test]
fn a_fault_of_a_child_is_found_by_its_rule() {
    let report = faulty(&["--era", "legacy"], r#"s/"result":{}/"result":[]/"#).exits(1).json();
    assert_eq!(failed(&report), ["result-is-object"], "{report:#}");
}

#[test]
fn r44_the_time_of_an_answer_is_bounded_by_an_option() {
    let slow = format!(
        r#"'{BINARY}' serve demo --full | while IFS= read -r line; do
case "$line" in *'"result":{{}}'*) sleep 0.4;; esac; printf '%s\n' "$line"; done"#
    );
    let outcome = |options: &[&str]| {
        let mut words = vec!["validate", "--json", "--era", "legacy", "--rule", "answer-in-time"];
        // The first response includes the time for the start.
        words.extend(["--connect-timeout", "20s"]);
        words.extend(options);
        words.extend(["sh", "-c", &slow]);
        // A failed recommendation does not change the exit code.
        run(words).exits(0).json()["rules"][0]["outcome"].clone()
    };
    assert_eq!(outcome(&["-t", "20ms"]), "failed");
    assert_eq!(outcome(&["-t", "60s"]), "passed");
}

#[test]
fn a_should_counts_when_it_is_asked_to() {
    let fault = r#"s/"io.modelcontextprotocol\/serverInfo"/"com.example\/serverInfo"/"#;
    let report = faulty(&["--era", "modern"], fault).exits(0).json();
    assert_eq!(failed(&report), ["server-info-in-results"]);
    faulty(&["--era", "modern", "--strict"], fault).exits(1);
    faulty(&["--era", "modern", "--strict", "--skip", "server-info-in-results"], fault).exits(0);
}

/// The messages that the demonstration server receives when it is validated with these options.
#[track_caller]
fn sent(name: &str, options: &[&str]) -> Vec<Value> {
    let log = super::support::scratch(name);
    let script = format!("tee -a '{}' | '{BINARY}' serve demo --full", log.display());
    let ran = run([&["validate"], options, &["sh", "-c", &script]].concat());
    ran.exits(0);
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    // Some lines are not messages.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The values of this member in the requests of a method, each once.
fn named<'m>(sent: &'m [Value], method: &str, member: &str) -> Vec<&'m str> {
    let of = sent.iter().filter(|message| message["method"] == method);
    let mut names: Vec<&str> = of.map(|message| message["params"][member].as_str().unwrap_or("-")).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn f28_nothing_of_the_server_is_called() {
    let sent = sent("validate-sent", &[]);
    let has = |method: &str| sent.iter().any(|message| message["method"] == method);
    assert!(has("tools/list") && has("server/discover") && has("initialize"));
    assert!(!has("tools/call"));
    // Names that do not exist may be requested, but nothing that the demonstration server offers.
    let listed = line("list --json demo:").exits(0).json();
    for (method, member, list, name) in [
        ("resources/read", "uri", "resources", "uri"),
        ("resources/subscribe", "uri", "resources", "uri"),
        ("prompts/get", "name", "prompts", "name"),
    ] {
        let there: Vec<&str> =
            listed[list].as_array().unwrap().iter().map(|it| it[name].as_str().unwrap()).collect();
        assert!(!there.is_empty());
        assert!(named(&sent, method, member).iter().all(|name| !there.contains(name)), "{method}");
    }
}

#[test]
fn a_tool_is_called_when_it_is_named() {
    let sent = sent("validate-called", &["--call", r#"echo={"message":"hi"}"#]);
    let calls = sent.iter().filter(|message| message["method"] == "tools/call");
    let echo: Vec<&Value> = calls.filter(|call| call["params"]["name"] == "echo").collect();
    assert!(echo.len() >= 2, "once in each era: {echo:?}");
    assert!(echo.iter().all(|call| call["params"]["arguments"] == serde_json::json!({"message": "hi"})));
    let others = named(&sent, "tools/call", "name");
    assert!(others.len() <= 2, "beside it one that does not exist: {others:?}");

    // With a name that does not exist, no rule is checked, which is not a success.
    let ran = line("validate --json --era modern --rule tools --call ecko --call echo demo:").exits(2);
    let ran = ran.says(&[
        "--call ecko: the server does not list it; the server rejected it: error -32602",
        "--call echo: its arguments do not conform to its inputSchema: ",
    ]);
    assert_eq!(ran.json()["calls"][0]["listed"], false);
    assert!(ran.json()["calls"][1]["problem"].as_str().unwrap().contains("message"), "{}", ran.stdout);
    line("validate --era modern --rule tools --call echo demo:").exits(0).says(&["warning: --call echo"]);

    line("validate --call =x demo:").exits(2).says(&["the name of a tool is missing"]);
    line("validate --call echo=7 demo:").exits(2).says(&["must be a JSON object"]);
    line("validate --call echo={ demo:").exits(2).says(&["not valid JSON"]);
    line("validate --call echo --eras demo:").exits(2).says(&["cannot be used with"]);
}

#[test]
fn tools_that_say_that_they_only_read_are_called_when_they_may_be() {
    let sent = sent("validate-reading", &["--read-only-tools"]);
    let listed = line("list --json demo:").exits(0).json();
    let writing: Vec<&str> = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|tool| tool["annotations"]["readOnlyHint"] != true)
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    let called = named(&sent, "tools/call", "name");
    assert!(!called.is_empty() && called.iter().all(|name| !writing.contains(name)), "{called:?}");
    assert!(!named(&sent, "resources/read", "uri").is_empty());
}

#[test]
fn f24_what_the_configuration_does_not_allow_is_not_called() {
    let file = super::support::scratch("validate-filter").with_extension("json");
    let entry = serde_json::json!({ "command": BINARY, "args": ["serve", "demo", "--full"], "disabled_tools": ["add*"] });
    let servers = serde_json::json!({ "mcpServers": { "filtered": entry } });
    std::fs::write(&file, servers.to_string()).unwrap();
    let config = file.display().to_string();
    let ask = |options: &[&str]| {
        run([&["validate", "--era", "modern", "--config", &config], options, &["filtered"]].concat())
    };
    ask(&["--call", "add"]).exits(2).says(&["(E_NOT_ALLOWED)"]);
    ask(&["--read-only-tools"]).exits(2).says(&["--call TOOL"]);
    ask(&["--call", r#"echo={"message":"hi"}"#]).exits(0);
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn f23_one_document_and_the_report_for_a_person() {
    let fault = r#"s/"id":2,"result":{}/"id":2,"result":{"pong\\u001b[2J":true}/"#;
    let ran = faulty(&["--era", "legacy"], fault).exits(1);
    let finding = &ran.json()["rules"]
        .as_array()
        .unwrap()
        .iter()
        .find(|rule| rule["rule"] == "ping-empty")
        .unwrap()["findings"][0]
        .clone();
    assert_eq!(finding["level"], "must");
    assert!(finding["address"].as_str().unwrap().ends_with("/basic/utilities/ping#behavior-requirements"));
    assert!(finding["sent"].as_str().unwrap().contains("\"ping\""));
    assert!(finding["received"].as_str().unwrap().contains("pong"));

    let script = format!("'{BINARY}' serve demo --full | sed -u '{fault}'");
    let ran = run(["validate", "--era", "legacy", "sh", "-c", &script]).exits(1);
    for part in ["MUST ping-empty: ", "received", "  spec      \"", "failed 1 (1 MUST), skipped "] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains('\u{1b}'), "{}", ran.stdout);
}

#[test]
fn the_page_is_80_columns_wide_but_for_messages_which_are_whole() {
    // Longer than what is kept of a message.
    let long = format!(r#"s/"id":2,"result":{{}}/"id":2,"result":{{"pong":"{}"}}/"#, "a, b".repeat(2_000));
    let script = format!("'{BINARY}' serve demo --full | sed -u '{long}'");
    let ran = run(["validate", "--era", "legacy", "sh", "-c", &script]).exits(1);
    let is_whole = |line: &str| ["  sent", "  received"].iter().any(|label| line.starts_with(label));
    let mut lines = ran.stdout.lines().filter(|line| !is_whole(line) && !line.contains("https://"));
    // The second line is the command, as it was typed.
    let wide = lines.find(|line| line.chars().count() > 80 && !line.starts_with("sh -c "));
    assert_eq!(wide, None, "{}", ran.stdout);
    assert!(ran.stdout.contains("            [the first 4096 characters]\n"), "{}", ran.stdout);
    let sent = ran.stdout.lines().find_map(|line| line.strip_prefix("  sent      ")).unwrap();
    assert!(serde_json::from_str::<Value>(sent).is_ok(), "{sent}");
}

#[test]
fn skipped_rules_take_one_line_and_with_v_one_for_each_reason() {
    let ran = line("validate demo:").exits(0);
    let (_, figures) = ran.stdout.split_once("\nran ").unwrap();
    let figures = figures.lines().next().unwrap();
    let skipped: usize = figures.rsplit_once("skipped ").unwrap().1.parse().unwrap();
    let line_of = format!("\n  skipped {skipped}: not applicable, ");
    let (_, reason) = ran.stdout.split_once(&line_of).unwrap_or_else(|| panic!("{}", ran.stdout));
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        reason.ends_with(
            "(-v lists them; --call, --protocol-version, --read-only-tools, --resilience check more)"
        ),
        "{reason}"
    );
    let quiet = line("validate -q demo:").exits(0).stdout;
    assert_eq!(quiet.lines().count(), 1, "{quiet}");
    assert!(quiet.contains(" (2024-11-05 to 2026-07-28): no violations in "), "{quiet}");
    assert!(
        ran.stdout.starts_with(quiet.split(" in ").next().unwrap()),
        "the verdict is first: {}",
        ran.stdout
    );
    let all = line("validate -v demo:").exits(0).stdout;
    assert!(all.contains("  skipped: no icons were seen: icons-valid, icon-source\n"), "{all}");
    assert!(all.contains(&format!("\nran {figures}\n")), "{all}");
}

#[test]
fn f22_the_exit_code_says_how_it_went() {
    line("validate").exits(2).says(&["no server is named"]);
    line("validate --rule nothing demo:").exits(2).says(&["no rule or chapter nothing", "--rules"]);
    line("validate --era modern --protocol-version 2025-11-25 demo:")
        .exits(2)
        .says(&["contradict each other"]);
    line("validate mcpjoin-no-such-program").exits(4).says(&["(E_SPAWN_NOT_FOUND)"]);
    run(["validate", "sh", "-c", "echo fatal >&2; exit 7"]).exits(4).says(&[
        "(E_SERVER_EXITED)",
        "ended    exit code 7",
        "stderr   fatal",
    ]);
    run(["validate", "--connect-timeout", "200ms", "sh", "-c", "cat >/dev/null"])
        .exits(4)
        .says(&["(E_SILENT)"]);
    let garbage = "i=0; while [ $i -lt 40 ]; do echo banner $i; i=$((i+1)); done; cat >/dev/null";
    run(["validate", "sh", "-c", garbage]).exits(4).says(&["(E_NOT_MCP)", "stdout   banner 0"]);
    let refused = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"not today"}}'; cat >/dev/null"#;
    let failure = run(["validate", "--json", "sh", "-c", refused]).exits(4).failure();
    assert_eq!(failure["id"], "E_REFUSED");
}

#[test]
fn a_server_that_dies_in_the_middle_is_checked_by_what_it_did() {
    let script = legacy("read -r line; exit 3");
    let report = run(["validate", "--json", "--era", "legacy", "sh", "-c", &script]).exits(1).json();
    assert!(failed(&report).contains(&"request-answered"), "{report:#}");
}

#[test]
fn a_signal_ends_it_and_everything_that_it_started() {
    let mut running = start(command(["validate", "-v", "sh", "-c", "echo up >&2; cat >/dev/null"]));
    // Wait until the server reports that it runs.
    let mut stderr = std::io::BufReader::new(running.child.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("server:") {
        text.clear();
        assert!(std::io::BufRead::read_line(&mut stderr, &mut text).unwrap() > 0);
    }
    running.signal("TERM");
    running.finish().exits(143);
}

#[test]
fn the_book_is_printed_without_a_server() {
    let ran = line("validate --rules").exits(0);
    assert!(
        ran.stdout.starts_with("Base protocol (base)\n  jsonrpc-version MUST, 2024-11-05 to 2026-07-28\n")
    );
    let book = line("validate --rules --json --rule stdio").exits(0).json();
    assert!(
        book.as_array().unwrap().iter().all(|rule| rule["chapter"] == "stdio" && rule["address"].is_string())
    );
}

/// The demonstration server over HTTP. Ended when this is dropped.
struct Demo {
    running: Option<super::support::Running>,
    url: String,
}

impl Demo {
    fn start() -> Self {
        let mut running = start(command(["serve", "demo", "--full", "--listen", "http://127.0.0.1:0/mcp"]));
        let stderr = running.child.stderr.take().unwrap();
        let mut demo = Self { running: Some(running), url: String::new() };
        let mut said = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::with_capacity(1, stderr), &mut said).unwrap();
        demo.url =
            said.trim_end().strip_prefix("listening on ").unwrap_or_else(|| panic!("{said}")).to_owned();
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

/// The rules of the versions that were requested are checked, and the title does not say that the server speaks them.
#[test]
fn a_version_of_a_server_that_does_not_exist_is_reported() {
    let version = r#"s/"protocolVersion":"[^"]*"/"protocolVersion":"1999-01-01"/"#;
    let script = format!("'{BINARY}' serve demo | sed -u '{version}'");
    let ran = run(["validate", "--era", "legacy", "--rule", "lifecycle", "sh", "-c", &script]).exits(1);
    let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "(initialize is answered with 1999-01-01; checked as 2024-11-05 to 2025-11-25): 1 MUST broken",
        "MUST unknown-version-not-accepted: the response has the version 1999-01-01, which does not exist --> ",
        " (6 times)",
        "fix Answer a version that you do not support with the latest one that you support.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn r71_the_demo_is_clean_over_http_in_both_eras() {
    let demo = Demo::start();
    let report = line(&format!("validate --json --strict {}", demo.url)).exits(0).json();
    assert_eq!(failed(&report), [""; 0], "{report:#}");
    let ran = report["ran"].as_u64().unwrap();
    assert!(ran > 90, "only {ran} rules ran");
    assert_eq!(report["command"], demo.url.as_str());
    let sse = format!("sse+{}", demo.url.replace("/mcp", "/sse"));
    let report = line(&format!("validate --json --strict {sse}")).exits(0).json();
    assert_eq!(failed(&report), [""; 0], "{report:#}");
    for (chapter, outcome) in [("http-sse", "passed"), ("http", "skipped"), ("stdio", "skipped")] {
        let rules = report["rules"].as_array().unwrap().iter().filter(|rule| rule["chapter"] == chapter);
        assert!(rules.clone().all(|rule| rule["outcome"] == outcome), "{chapter}: {report:#}");
    }
    // In text output, chapters without any result are left out, and `-v` gives the reason in one line.
    let ran = line(&format!("validate -v {}", demo.url)).exits(0);
    assert!(
        ran.stdout.contains("\nStreamable HTTP: ") && !ran.stdout.contains("\nHTTP+SSE: "),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("  skipped: the server was not run as a child: stdio\n"), "{}", ran.stdout);
}

#[test]
fn what_crosses_over_http_is_written_down_without_the_headers() {
    let demo = Demo::start();
    let trace = super::support::scratch("validate-http-trace");
    let words = ["validate", "--era", "modern", "-H", "X-Key: hunter2", "--trace"];
    let mut words: Vec<&str> = words.to_vec();
    let path = trace.display().to_string();
    words.extend([path.as_str(), &demo.url]);
    let ran = run(words).exits(0);
    let lines = std::fs::read_to_string(&trace).unwrap();
    std::fs::remove_file(&trace).unwrap();
    assert!(lines.lines().count() > 20 && lines.contains("server/discover"), "{lines}");
    assert!(!lines.contains("hunter2") && !ran.stdout.contains("hunter2"), "{lines}");
}

/// A server that requires a token. With `documents`, its metadata exist at the address that it names. It ends with the test.
fn guarded(documents: bool) -> String {
    use std::io::Write as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let url = format!("{origin}/mcp");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (head, _) = read_request(&stream);
            let named = "/.well-known/oauth-protected-resource/mcp";
            let (status, body) = match head.split(' ').nth(1).unwrap_or_default() {
                "/mcp" => ("401 Unauthorized", String::new()),
                path if path == named && documents => (
                    "200 OK",
                    format!(r#"{{"resource":"{origin}/mcp","authorization_servers":["{origin}"]}}"#),
                ),
                "/.well-known/oauth-authorization-server" => (
                    "200 OK",
                    format!(
                        concat!(
                            r#"{{"issuer":"{0}","authorization_endpoint":"{0}/a","token_endpoint":"{0}/t","#,
                            r#""response_types_supported":["code"],"code_challenge_methods_supported":["S256"],"#,
                            r#""client_id_metadata_document_supported":true}}"#
                        ),
                        origin
                    ),
                ),
                _ => ("404 Not Found", String::new()),
            };
            let challenge = format!(
                "Bearer error=\"invalid_token\", error_description=\"it ended yesterday\", \
                 resource_metadata=\"{origin}{named}\""
            );
            let reply = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                 www-authenticate: {challenge}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(reply.as_bytes());
        }
    });
    url
}

#[test]
fn f22_a_server_that_requires_a_token_is_checked_by_how_it_requires_it_and_exits_with_3_or_1() {
    let right = guarded(true);
    let told =
        ["(E_AUTH)", "status 401, invalid_token: it ended yesterday", "--header", "mcpjoin auth login"];
    let ran = line(&format!("validate {right}")).exits(3).says(&told);
    let page = ran.stdout;
    assert!(page.contains("): no violations in ") && page.contains("\nran 1"), "{page}");
    let ran = line(&format!("validate --json {right}")).exits(3);
    let report = ran.json();
    assert_eq!((&report["error"]["id"], &report["failed"]), (&"E_AUTH".into(), &0.into()), "{report}");
    let ran = line(&format!("validate --format junit {right}")).exits(3);
    assert!(
        ran.stdout.contains("<error message=\"") && ran.stdout.contains(" type=\"E_AUTH\""),
        "{}",
        ran.stdout
    );
    let report = line(&format!("validate --format sarif {right}")).exits(3).json();
    assert_eq!(report["runs"][0]["invocations"][0]["executionSuccessful"], false, "{report}");
    let wrong = guarded(false);
    let ran = line(&format!("validate {wrong}")).exits(1).says(&told);
    assert!(ran.stdout.contains("MUST resource-metadata-found"), "{}", ran.stdout);
    line(&format!("validate --skip resource-metadata-found {wrong}")).exits(3);
}

#[test]
fn f22_the_exit_code_says_how_it_went_over_http() {
    let closed = Closed::tcp();
    line(&format!("validate http://{closed}/mcp")).exits(4).says(&[
        "(E_CONNECT)",
        "no connection: POST ",
        "connection refused: nothing listens there",
    ]);
    line("validate http://me:hunter2@localhost/mcp").exits(2).says(&["is not an address", "password"]);
    // The target of a redirect is suggested, unless it redirects back.
    for (to, advice) in [("/mcp?again", "redirects to the same address"), ("/mcp/", "use that address if")] {
        let circular = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", circular.local_addr().unwrap());
        let reply = format!(
            "HTTP/1.1 307 Go\r\nlocation: {origin}{to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        std::thread::spawn(move || {
            for stream in circular.incoming() {
                let (mut stream, reply) = (stream.unwrap(), reply.clone());
                std::thread::spawn(move || {
                    let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
                    let _ = std::io::Write::write_all(&mut stream, reply.as_bytes());
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                    // Wait until the client has read the response and disconnected.
                    let _ = std::io::copy(&mut stream, &mut std::io::sink());
                });
            }
        });
        line(&format!("validate {origin}/mcp")).exits(4).says(&["(E_NO_ENDPOINT)", "307", advice]);
    }
    let demo = Demo::start();
    let wrong = demo.url.replace("/mcp", "/elsewhere");
    line(&format!("validate {wrong}")).exits(4).says(&["(E_NO_ENDPOINT)", "status 404"]);
    line(&format!("validate --cwd / {}", demo.url)).exits(2).says(&["--cwd is for a server run as a child"]);
}
