//! `bridge --listen orchestra://...`, and `doctor orchestra://...`: servers offered to Orchestra's clients.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcpjoin::bridge::orchestra::certs::Certificates;
use mcpjoin::bridge::orchestra::value::{Numbers, Struct};
use mcpjoin::bridge::orchestra::wire::plugin_request::Request;
use mcpjoin::bridge::orchestra::wire::plugin_response::Response;
use mcpjoin::bridge::orchestra::wire::{
    self, ListToolsRequest, PluginRequest, PluginResponse, ToolRequest, WireError,
};
use mcpjoin::bridge::orchestra::{ALPN, CLIENT_NAME};
use mcpjoin::link::Listener;
use mcpjoin::proto::Raw;
use mcpjoin::quic::{self, Connection, QuicErrorKind, QuicOptions};
use mcpjoin::server::{Server, tool};
use serde::Deserialize;
use tokio::time::timeout;

use super::support::{Ran, Running, command, line, run, scratch, start};

/// No test takes longer: a hang is a failure.
const DEADLINE: Duration = Duration::from_secs(50);

fn within<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(DEADLINE, test).await.expect("the test hangs") })
}

/// A folder of a test's own for certificates. It is made by whoever needs it first.
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

/// A host that listens. Ended when this is dropped.
struct Host {
    running: Option<Running>,
    address: String,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Host {
    /// Starts it, and waits until it says at which address it listens.
    fn start(words: &[&str]) -> Self {
        let mut running = start(command(words));
        let stderr = running.child.stderr.take().unwrap();
        let mut host =
            Self { running: Some(running), address: String::new(), stderr: BufReader::new(stderr) };
        let said = host.says();
        host.address =
            said.strip_prefix("listening on orchestra://").unwrap_or_else(|| panic!("{said}")).to_owned();
        host
    }

    /// Its next line.
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

    /// Without a word to anybody.
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

/// A connection that notices soon that the host is gone.
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

/// The text that a tool gives.
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
    // Unasked: nobody else can tell whoever runs it.
    let said = host.says();
    assert!(said.starts_with("warning: a connection was refused: "), "{said}");
    host.signal("INT");
    host.finish().exits(130);
}

#[test]
fn what_cannot_be_used_ends_it_at_once_with_exit_code_2() {
    let certs = Certs::new("misuse");
    for address in
        ["orchestra:", "orchestra://", "orchestra://127.0.0.1:0/path", "http://127.0.0.1:0", "127.0.0.1:0"]
    {
        run(["bridge", "--listen", address, "demo:"]).exits(2).says(&["no address to listen on"]);
    }
    line("bridge demo:").exits(2).says(&["--listen"]);
    line("bridge --listen orchestra://127.0.0.1:0 --cert x demo:").exits(2).says(&["--key"]);
    line("bridge --listen orchestra://127.0.0.1:0").exits(2).says(&["no server is named"]);
    line("bridge --listen orchestra://127.0.0.1:0 --trace /dev/null demo: demo:").exits(2).says(&["--trace"]);
    // A file where the folder should be.
    std::fs::write(certs.path(), "").unwrap();
    run(["bridge", "--listen", "orchestra://127.0.0.1:0", "--certs-dir", certs.word(), "demo:"])
        .exits(2)
        .says(&["E_LISTEN", "--certs-dir"]);
    std::fs::remove_file(certs.path()).unwrap();
}

#[test]
fn a_server_that_does_not_start_is_told_as_everywhere() {
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

#[derive(Deserialize, schemars::JsonSchema)]
struct Number {
    n: u64,
}

/// Group H: killed and restarted under load, the next call right within 2 s, and no call run twice.
#[test]
fn h158_a_host_that_is_killed_under_load_answers_again_and_runs_nothing_twice() {
    let certs = Certs::new("killed");
    within(async {
        let calls: Arc<Mutex<HashMap<u64, u32>>> = Arc::default();
        let counted = calls.clone();
        let square = move |Number { n }: Number, _| {
            *counted.lock().unwrap().entry(n).or_default() += 1;
            async move { (n * n).to_string() }
        };
        let server = Server::builder("counting", "1").tool(tool("square"), square).build().unwrap();
        let listener = Listener::tcp("127.0.0.1:0").await.unwrap();
        let target = listener.address().to_string();
        tokio::spawn(async move { server.serve_all(listener, std::future::pending()).await });

        let started = async |address: &str| {
            let words = [
                "bridge".to_owned(),
                "--listen".to_owned(),
                format!("orchestra://{address}"),
                "--certs-dir".to_owned(),
                certs.word().to_owned(),
                target.clone(),
            ];
            let start = move || Host::start(&words.each_ref().map(String::as_str));
            tokio::task::spawn_blocking(start).await.unwrap()
        };
        let next = Arc::new(AtomicU64::new(0));
        let right: Arc<Mutex<Vec<u64>>> = Arc::default();
        // Calls one number after the other, each once, until the connection is lost or there are enough.
        let load = |connection: Connection, most: usize| {
            let (next, right) = (next.clone(), right.clone());
            async move {
                while right.lock().unwrap().len() < most {
                    let n = next.fetch_add(1, Ordering::SeqCst);
                    match text(&connection, "square", &format!(r#"{{"n":{n}}}"#)).await {
                        Ok(text) => {
                            assert_eq!(text, (n * n).to_string());
                            right.lock().unwrap().push(n);
                        }
                        Err(_) => return,
                    }
                }
            }
        };
        let host = started("127.0.0.1:0").await;
        let address = host.address.clone();
        let connection = connect(certs.path(), &address).await;
        let loads: Vec<_> = (0..16).map(|_| tokio::spawn(load(connection.clone(), usize::MAX))).collect();
        while right.lock().unwrap().len() < 200 {
            tokio::task::yield_now().await;
        }
        tokio::task::spawn_blocking(move || host.killed()).await.unwrap();

        let host = started(&address).await;
        let since = Instant::now();
        let again = connect(certs.path(), &host.address).await;
        let n = next.fetch_add(1, Ordering::SeqCst);
        assert_eq!(text(&again, "square", &format!(r#"{{"n":{n}}}"#)).await.unwrap(), (n * n).to_string());
        right.lock().unwrap().push(n);
        assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
        // Who waited for the one that was killed hears that it is gone, and is not answered by the other.
        for load in loads {
            load.await.unwrap();
        }
        assert!(connection.ended().is_some());
        let most = right.lock().unwrap().len() + 200;
        for load in (0..16).map(|_| tokio::spawn(load(again.clone(), most))).collect::<Vec<_>>() {
            load.await.unwrap();
        }
        let (calls, right) = (calls.lock().unwrap(), right.lock().unwrap());
        assert!(right.len() >= 400);
        assert!(calls.values().all(|times| *times == 1), "a call has run twice");
        assert!(right.iter().all(|n| calls.get(n) == Some(&1)));
    });
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
    assert_eq!(report["health"]["status"], "STATUS_HEALTHY");
    assert_eq!(report["peer"], "orchestrator");
    assert!(report["tools"].as_array().unwrap().iter().any(|tool| tool == "echo"));
    assert!(report["certificates"].as_array().unwrap().iter().any(|file| file["name"] == "Orchestra CA"));

    // Certificates of another folder.
    let other = Certs::new("doctor-other");
    Certificates::in_directory(other.path()).client(CLIENT_NAME, ALPN).unwrap();
    let report = run(["doctor", "--json", "--certs-dir", other.word(), &address]).exits(1).json();
    assert_eq!(report["findings"][0]["id"], "O_SERVER_CERTIFICATE");
    assert_eq!(report["phases"][3]["outcome"], "notRun");
    // None at all, and none are made.
    let none = Certs::new("doctor-none");
    let report = run(["doctor", "--json", "--certs-dir", none.word(), &address]).exits(1).json();
    assert_eq!(report["findings"][0]["id"], "O_NO_CERTIFICATES");
    assert!(!none.path().exists());
    host.signal("TERM");
    host.finish().exits(143);

    let report =
        run(["doctor", "--json", "--certs-dir", certs.word(), "--connect-timeout", "2s", &address]).exits(1);
    assert_eq!(report.json()["findings"][0]["id"], "O_UNREACHED");
    for wrong in
        [vec!["doctor", "-e", "A=1", "orchestra://localhost:1"], vec!["doctor", "--certs-dir", "x", "demo:"]]
    {
        run(wrong).exits(2).says(&["leave out"]);
    }
}
