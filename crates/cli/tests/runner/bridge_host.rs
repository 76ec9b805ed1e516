//! Tests of `bridge --listen orchestra://...` and `doctor orchestra://...`: servers offered to Orchestra's clients.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcpjoin::client::{Client, ClientError};
use mcpjoin::proto::Raw;
use mcpjoin::proto::types::CallToolParams;
use mcpjoin::transport::ChildCommand;
use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::value::{Numbers, Struct};
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::plugin_response::Response;
use mcpjoin_orchestra::wire::{
    self, ListToolsRequest, PluginRequest, PluginResponse, ToolRequest, WireError,
};
use mcpjoin_orchestra::{ALPN, CLIENT_NAME};
use mcpjoin_quic::endpoint::{self as quic, Connection, QuicErrorKind, QuicOptions};
use tokio::sync::watch;
use tokio::time::timeout;

use super::bridge_backend::Backend;
use super::config::Folder;
use super::ports::Port;
use super::support::{Ran, Running, command, line, run, scratch, start};

/// The timeout of each test: a hang is a failure.
const DEADLINE: Duration = Duration::from_secs(50);

fn within<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(DEADLINE, test).await.expect("the test hangs") })
}

/// A folder of certificates for one test. The first program that needs it creates it.
struct Certs(PathBuf);

impl Certs {
    fn new(name: &str) -> Self {
        Self(scratch(&format!("bridge-host-{name}")))
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn word(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Certs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A listening host. Killed when this is dropped.
struct Host {
    running: Option<Running>,
    address: String,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Host {
    /// Starts the host, and waits until it prints the address on which it listens.
    fn start(words: &[&str]) -> Self {
        Self::started(start(command(words)))
    }

    fn started(mut running: Running) -> Self {
        let stderr = running.child.stderr.take().unwrap();
        let mut host =
            Self { running: Some(running), address: String::new(), stderr: BufReader::new(stderr) };
        let mut before = String::new();
        while host.address.is_empty() {
            let said = host.says();
            assert!(!said.is_empty(), "it has ended: {before}");
            match said.strip_prefix("listening on orchestra://") {
                Some(address) => address.clone_into(&mut host.address),
                // Other lines name the entry and its file.
                None => before.push_str(&said),
            }
        }
        host
    }

    /// The next line of its standard error.
    fn says(&mut self) -> String {
        let mut said = String::new();
        self.stderr.read_line(&mut said).unwrap();
        said.trim_end().to_owned()
    }

    fn signal(&self, signal: &str) {
        self.running.as_ref().unwrap().signal(signal);
    }

    fn finish(mut self) -> Ran {
        self.running.take().unwrap().finish()
    }

    /// Kills it without closing its connections.
    fn killed(mut self) {
        let mut running = self.running.take().unwrap();
        running.child.kill().unwrap();
        running.child.wait().unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

/// A connection that detects a lost host quickly.
async fn connect(certs: &Path, address: &str) -> Connection {
    let tls = Certificates::in_directory(certs).client(CLIENT_NAME, ALPN).unwrap();
    let mut options = QuicOptions::default();
    options.idle = Duration::from_secs(2);
    options.keep_alive = Duration::from_millis(500);
    quic::connect(address, &tls, &options).await.unwrap()
}

async fn ask(connection: &Connection, request: Request) -> Result<Response, WireError> {
    let request = PluginRequest { request_id: "an id".to_owned(), request: Some(request) };
    let lost = |error: quic::QuicError| std::io::Error::other(error.to_string());
    let (mut send, mut receive) = connection.open().await.map_err(lost)?;
    wire::write(&mut send, &request).await?;
    let _ = send.finish();
    let answer: PluginResponse = wire::read(&mut receive).await?;
    Ok(answer.response.unwrap())
}

fn call(tool: &str, arguments: &str) -> Request {
    let arguments = Struct::from_json(&Raw::parse(arguments.to_owned()).unwrap(), Numbers::Exact).unwrap();
    let request =
        ToolRequest { tool_name: tool.to_owned(), arguments: Some(arguments), ..ToolRequest::default() };
    Request::ToolCall(request)
}

/// The text that a tool returns.
async fn text(connection: &Connection, tool: &str, arguments: &str) -> Result<String, WireError> {
    let Response::ToolCall(answer) = ask(connection, call(tool, arguments)).await? else { panic!("a call") };
    assert!(answer.success, "{answer:?}");
    let json: serde_json::Value =
        serde_json::from_str(answer.result.unwrap().to_json().unwrap().json.as_str()).unwrap();
    Ok(json["text"].as_str().unwrap().to_owned())
}

#[test]
fn the_demonstration_is_offered_until_a_signal_comes() {
    let certs = Certs::new("demo");
    let host =
        Host::start(&["bridge", "--listen", "orchestra://127.0.0.1:0", "--certs-dir", certs.word(), "demo:"]);
    within(async {
        let connection = connect(certs.path(), &host.address).await;
        assert_eq!(connection.peer_name().as_deref(), Some("orchestrator"));
        let Response::ListTools(list) =
            ask(&connection, Request::ListTools(ListToolsRequest {})).await.unwrap()
        else {
            panic!("a list")
        };
        assert!(list.tools.iter().any(|tool| tool.name == "echo"), "{list:?}");
        assert_eq!(text(&connection, "echo", r#"{"message":"hi"}"#).await.unwrap(), "hi");
        host.signal("TERM");
        let ended = connection.closed().await;
        assert!(matches!(ended.kind, QuicErrorKind::Closed { code: 0, .. }), "{ended:?}");
    });
    assert_eq!(host.finish().exits(143).stdout, "");
}

#[test]
fn several_servers_are_offered_together_and_one_that_is_not_allowed_in_says_why() {
    let certs = Certs::new("several");
    let other = Certs::new("several-other");
    let mut host = Host::start(&[
        "bridge",
        "--listen",
        "orchestra://127.0.0.1:0",
        "--certs-dir",
        certs.word(),
        "--also",
        "demo:",
        "demo:",
    ]);
    within(async {
        let connection = connect(certs.path(), &host.address).await;
        assert_eq!(text(&connection, "echo", r#"{"message":"hi"}"#).await.unwrap(), "hi");
        let tls = Certificates::in_directory(other.path()).client(CLIENT_NAME, ALPN).unwrap();
        quic::connect(&host.address, &tls, &QuicOptions::default()).await.unwrap_err();
    });
    // Printed without -v, because the operator has no other way to learn of it.
    let said = host.says();
    assert!(said.starts_with("warning: a connection was refused: "), "{said}");
    host.signal("INT");
    host.finish().exits(130);
}

#[test]
fn what_cannot_be_used_ends_it_at_once_with_exit_code_2() {
    let certs = Certs::new("misuse");
    for address in ["orchestra:", "orchestra://", "orchestra://127.0.0.1:0/path", "127.0.0.1:0"] {
        run(["bridge", "--listen", address, "demo:"]).exits(2).says(&["not an address to listen on"]);
    }
    line("bridge --listen orchestra://127.0.0.1:0 --cert x demo:").exits(2).says(&["--key"]);
    line("bridge --listen orchestra://127.0.0.1:0").exits(2).says(&["no server is named"]);
    line("bridge --listen orchestra://127.0.0.1:0 --trace /dev/null demo: demo:").exits(2).says(&["--trace"]);
    // A file at the path of the folder.
    std::fs::write(certs.path(), "").unwrap();
    run(["bridge", "--listen", "orchestra://127.0.0.1:0", "--certs-dir", certs.word(), "demo:"])
        .exits(2)
        .says(&["(E_CERTIFICATE)", "is a file", "--certs-dir"]);
    std::fs::remove_file(certs.path()).unwrap();
}

#[test]
fn a_server_that_does_not_start_is_reported_as_by_other_verbs() {
    let certs = Certs::new("unstarted");
    run([
        "bridge",
        "--listen",
        "orchestra://127.0.0.1:0",
        "--certs-dir",
        certs.word(),
        "sh",
        "-c",
        "echo no luck >&2; exit 7",
    ])
    .exits(4)
    .says(&["exit code 7", "no luck"]);
}

/// Asks a client of the bridge for the square of a number.
async fn square(client: &Client, n: u64) -> Result<(), ClientError> {
    let mut params = CallToolParams::new("square");
    params.arguments = Some(Raw::parse(format!(r#"{{"n":{n}}}"#)).unwrap());
    let result = client.call_tool_with(params).await?;
    assert_eq!(result.content[0].as_text(), Some(&*(n * n).to_string()));
    Ok(())
}

/// Group H: the host is killed and restarted under a load of 16 calls. The next call succeeds within 2 s, and no call runs
/// twice. The bridge, the host that is killed, and in this test the MCP client and the MCP server, are separate processes.
#[test]
fn h158_a_host_that_is_killed_under_load_is_there_for_the_bridges_next_call_and_nothing_runs_twice() {
    let certs = Certs::new("killed");
    let backend = Backend::new();
    let started = |address: &str| {
        let address = format!("orchestra://{address}");
        Host::start(&["bridge", "--listen", &address, "--certs-dir", certs.word(), &backend.target])
    };
    let port = Port::claim_udp().unwrap();
    let address = format!("127.0.0.1:{}", port.number());
    let host = started(&address);
    let stderr: Arc<Mutex<Vec<String>>> = Arc::default();
    within(async {
        let received = stderr.clone();
        let bridge = ChildCommand::new(env!("CARGO_BIN_EXE_mcpjoin"))
            .args(["bridge", "--orchestrator-addr", &address, "--certs-dir", certs.word()])
            .stderr(move |line| received.lock().unwrap().push(String::from_utf8_lossy(line).into_owned()));
        let client = Client::builder("load", "1").connect(bridge.start().await.unwrap()).await.unwrap();
        let next = Arc::new(AtomicU64::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let right = watch::Sender::new(Vec::<u64>::new());
        let failed = watch::Sender::new(Vec::<String>::new());
        let load = || {
            let (client, next, over) = (client.clone(), next.clone(), over.clone());
            let (right, failed) = (right.clone(), failed.clone());
            tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    let n = next.fetch_add(1, Ordering::SeqCst);
                    match square(&client, n).await {
                        Ok(()) => right.send_modify(|right| right.push(n)),
                        Err(error) => failed.send_modify(|failed| failed.push(error.to_string())),
                    }
                }
            })
        };
        let loads: Vec<_> = (0..16).map(|_| load()).collect();
        right.subscribe().wait_for(|right| right.len() >= 200).await.unwrap();
        // Sixteen calls are in progress when the host is killed.
        backend.open.send_replace(false);
        backend.running(16).await;
        host.killed();
        let starting = Instant::now();
        let host = started(&address);
        // On a busy machine, where starting takes long, everything else takes longer too.
        let most = Duration::from_secs(2).max(10 * starting.elapsed());
        backend.open.send_replace(true);

        let since = Instant::now();
        let n = next.fetch_add(1, Ordering::SeqCst);
        square(&client, n).await.unwrap();
        assert!(since.elapsed() < most, "{:?} and not {most:?}", since.elapsed());
        right.send_modify(|right| right.push(n));
        // It is unknown whether those sixteen calls ran, so each of them returns an error.
        let failures = failed.subscribe().wait_for(|failed| failed.len() >= 16).await.unwrap().clone();
        for failure in &failures {
            assert!(failure.contains("the request may have been executed"), "{failure}");
            assert!(failure.contains(&address), "{failure}");
        }
        let enough = right.borrow().len() + 200;
        right.subscribe().wait_for(|right| right.len() >= enough).await.unwrap();
        over.store(true, Ordering::SeqCst);
        for load in loads {
            load.await.unwrap();
        }
        assert_eq!(failed.borrow().len(), 16, "{:?}", *failed.borrow());
        let calls = backend.calls();
        assert!(calls.values().all(|times| *times == 1), "a call has run twice");
        assert!(right.borrow().iter().all(|n| calls.get(n) == Some(&1)));
        assert_eq!(backend.sessions(), 2, "one of each host");
        client.close().await;
        host.signal("TERM");
        host.finish().exits(143);
    });
    let told = |again: &str| format!("transport.stdio: connected{again} to orchestrator at {address}");
    let stderr = stderr.lock().unwrap();
    let connected: Vec<_> = stderr.iter().filter(|line| line.contains("connected")).collect();
    assert_eq!(connected, [&told(""), &told(" again")], "the connection was made again once: {stderr:?}");
}

/// All options together: three addresses, and two entries of two configuration files.
#[test]
fn entries_of_configurations_are_offered_on_several_addresses_at_once() {
    let certs = Certs::new("entries");
    let folder = Folder::new("bridge-entries");
    let file = |name: &str, entry: &str| {
        let server = serde_json::json!({
            "command": env!("CARGO_BIN_EXE_mcpjoin"), "args": ["serve", "demo", "--full"], "disabledTools": ["add"],
        });
        let path = folder.file(name, serde_json::json!({ "mcpServers": { entry: server } }).to_string());
        path.to_str().unwrap().to_owned()
    };
    // One file is discovered, and one is named.
    file(".mcp.json", "one");
    let named = format!("{}#two", file("second.json", "two"));
    let mut host = Host::started(start(folder.command(&[
        "bridge",
        "--listen",
        "orchestra://127.0.0.1:0",
        "--listen",
        "orchestra://127.0.0.1:0",
        "--listen",
        "orchestra+tcp://127.0.0.1:0",
        "--certs-dir",
        certs.word(),
        "--also",
        &named,
        "one",
    ])));
    let other = host.says();
    let other = other.strip_prefix("listening on orchestra://").unwrap_or_else(|| panic!("{other}"));
    let plain = host.says();
    let plain = plain.strip_prefix("listening on orchestra+tcp://").unwrap_or_else(|| panic!("{plain}"));
    within(async {
        for address in [&*host.address, other] {
            let connection = connect(certs.path(), address).await;
            // The provider of a call is the name of an entry.
            for (provider, is_known) in [("", true), ("one", true), ("two", true), ("three", false)] {
                let Request::ToolCall(mut asked) = call("echo", r#"{"message":"hi"}"#) else { panic!() };
                provider.clone_into(&mut asked.provider);
                let answer = ask(&connection, Request::ToolCall(asked)).await.unwrap();
                let Response::ToolCall(answer) = answer else { panic!("{answer:?}") };
                // An unknown provider can also be answered by the last provider that has the tool.
                assert!(answer.success || !is_known, "{provider}: {answer:?}");
            }
        }
    });
    let words =
        ["call", "echo", "message=hi", "--", env!("CARGO_BIN_EXE_mcpjoin"), "bridge", "--tcp-addr", plain];
    assert_eq!(run(words).exits(0).stdout, "hi\n");
    // A tool that the entries do not allow is neither listed nor callable (F24).
    let bridge = ["--", env!("CARGO_BIN_EXE_mcpjoin"), "bridge", "--tcp-addr", plain];
    let offered = run([&["list", "--json"][..], &bridge[..]].concat()).exits(0).stdout;
    assert!(offered.contains("\"echo\"") && !offered.contains("\"add\""), "{offered}");
    run([&["call", "add", "a=1", "b=2"][..], &bridge[..]].concat()).exits(5);
    host.signal("TERM");
    host.finish().exits(143);
}

#[test]
fn doctor_reports_health_certificates_and_tools_of_an_orchestrator() {
    let certs = Certs::new("doctor");
    let host =
        Host::start(&["bridge", "--listen", "orchestra://127.0.0.1:0", "--certs-dir", certs.word(), "demo:"]);
    let address = format!("orchestra://{}", host.address);
    let ran = run(["doctor", "--certs-dir", certs.word(), &address]).exits(0);
    for part in ["certificates", "connect", "orchestrator at", "orchestrator ok", "echo", "no fault found"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let report = run(["doctor", "--json", "--certs-dir", certs.word(), &address]).exits(0).json();
    assert_eq!(report["healthy"], true);
    assert_eq!(report["orchestrator"]["health"]["status"], "STATUS_HEALTHY");
    assert_eq!(report["orchestrator"]["name"], "orchestrator");
    assert!(report["orchestrator"]["tools"].as_array().unwrap().iter().any(|tool| tool == "echo"));
    assert!(
        report["orchestrator"]["certificates"]
            .as_array()
            .unwrap()
            .iter()
            .any(|file| file["name"] == "Orchestra CA")
    );

    // The certificates of another folder.
    let other = Certs::new("doctor-other");
    Certificates::in_directory(other.path()).client(CLIENT_NAME, ALPN).unwrap();
    let report = run(["doctor", "--json", "--certs-dir", other.word(), &address]).exits(1).json();
    assert_eq!(report["findings"][0]["id"], "server-certificate");
    assert_eq!(report["phases"][3]["outcome"], "notRun");
    // No certificates, and none are created.
    let none = Certs::new("doctor-none");
    let report = run(["doctor", "--json", "--certs-dir", none.word(), &address]).exits(1).json();
    assert_eq!(report["findings"][0]["id"], "no-certificates");
    assert!(!none.path().exists());
    host.signal("TERM");
    host.finish().exits(143);

    let report =
        run(["doctor", "--json", "--certs-dir", certs.word(), "--connect-timeout", "2s", &address]).exits(1);
    assert_eq!(report.json()["findings"][0]["id"], "unreached");
    for wrong in [
        vec!["doctor", "-e", "A=1", "orchestra://localhost:1"],
        vec!["doctor", "--cert", "client.pem", "--key", "client.key", "orchestra://localhost:1"],
        vec!["doctor", "--no-auth", "orchestra://localhost:1"],
        vec!["doctor", "--certs-dir", "x", "demo:"],
    ] {
        run(wrong).exits(2).says(&["leave out"]);
    }
}
