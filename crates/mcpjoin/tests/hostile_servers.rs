//! Tests of a client with faulty servers as child processes: which error it returns, and how soon.
//!
//! Each server is a line of shell. The cases are those of the adversarial catalogue, groups A and C.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::Client;
use mcpjoin::client::{ClientBuilder, ConnectError};
use mcpjoin::proto::Era;
use mcpjoin::proto::session::{EraChoice, Limits, ProcessExit, Violation};
use mcpjoin::transport::{ChildCommand, SpawnErrorKind};
use tokio::time::timeout;

/// A shell command that answers `initialize` with the id 1.
const ANSWER: &str = r#"printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}'"#;

fn shell(script: &str) -> ChildCommand {
    ChildCommand::new("sh").arg("-c").arg(script)
}

fn legacy() -> ClientBuilder {
    Client::builder("c", "1").era(EraChoice::Only(Era::Legacy))
}

async fn refused(builder: ClientBuilder, script: &str) -> ConnectError {
    let link = shell(script).start().await.unwrap();
    timeout(DEADLINE, builder.connect(link)).await.expect("it waits").unwrap_err()
}

/// The timeout of each test: a hang is a failure.
const DEADLINE: Duration = Duration::from_secs(30);

/// Limits that are longer than any test, so that no timeout ends it.
fn patient() -> Limits {
    const LONG: Duration = Duration::from_secs(3600);
    let mut limits = Limits::default();
    (limits.probe, limits.initialize, limits.request) = (LONG, LONG, LONG);
    limits
}

#[tokio::test]
async fn c59_a_server_that_exits_at_once_is_reported_with_its_code() {
    let error = refused(legacy().limits(patient()), "exit 7").await;
    assert_eq!(error.exit(), Some(ProcessExit::Code(7)));
    assert!(error.to_string().contains("exit code 7"), "{error}");
    let either = Client::builder("c", "1").limits(patient());
    let error = refused(either, "kill -9 $$").await;
    assert_eq!(error.exit(), Some(ProcessExit::Signal(9)));
    // The client has started the server a second time, without the probe, and the error says so.
    assert!(error.to_string().contains("at both of two starts"), "{error}");
}

#[tokio::test]
async fn c60_the_last_words_of_a_server_are_in_the_error() {
    let error = refused(legacy(), "echo first >&2; echo 'fatal: DATABASE_URL missing' >&2; exit 1").await;
    assert!(error.to_string().contains("fatal: DATABASE_URL missing"), "{error}");
    let stderr = &error.link_end().unwrap().stderr;
    assert_eq!(&stderr[..], b"first\nfatal: DATABASE_URL missing\n");
}

#[tokio::test]
async fn c61_when_a_server_dies_every_call_in_flight_fails_at_once() {
    // The server dies when it has read three calls.
    let script = format!(
        "read -r line; {ANSWER}; read -r line; read -r a; read -r b; read -r c; echo 'out of memory' >&2; exit 3"
    );
    let link = shell(&script).start().await.unwrap();
    let client = legacy().limits(patient()).connect(link).await.unwrap();
    let calls = (0..3).map(|_| IntoFuture::into_future(client.call_tool("t", ())));
    for result in timeout(DEADLINE, futures_util::future::join_all(calls)).await.expect("they wait") {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("exit code 3") && error.contains("out of memory"), "{error}");
    }
    assert_eq!(client.exit(), Some(ProcessExit::Code(3)));
}

#[tokio::test]
async fn c62_each_reason_for_not_starting_has_its_own_error() {
    let kind = async |command: ChildCommand| command.start().await.unwrap_err().kind;
    let missing = kind(ChildCommand::new("mcpjoin-no-such-program")).await;
    assert!(matches!(missing, SpawnErrorKind::NotFound { .. }), "{missing:?}");
    let path = kind(ChildCommand::new("./nope/server")).await;
    assert!(matches!(path, SpawnErrorKind::NotFound { .. }), "{path:?}");
    let file = kind(ChildCommand::new("/etc/passwd")).await;
    assert!(matches!(file, SpawnErrorKind::NotExecutable { .. }), "{file:?}");
    let folder = kind(ChildCommand::new("/tmp")).await;
    assert!(matches!(folder, SpawnErrorKind::IsDirectory { .. }), "{folder:?}");
    let elsewhere = kind(ChildCommand::new("sh").current_dir("/no/such/folder")).await;
    assert!(matches!(elsewhere, SpawnErrorKind::WorkingDirectory { .. }), "{elsewhere:?}");
}

#[tokio::test]
async fn a16_a17_log_text_on_standard_output_is_reported_and_the_session_works() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let log = received.clone();
    let script = format!(
        "echo 'Starting server ...'; read -r line; printf 'log: '; {ANSWER}; {ANSWER}; read -r line; read -r line; printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{{\"tools\":[]}}}}'; cat >/dev/null"
    );
    let link = shell(&script).start().await.unwrap();
    let client = legacy()
        .on_violation(move |violation: &Violation| log.lock().unwrap().push(violation.to_string()))
        .connect(link)
        .await
        .unwrap();
    assert_eq!(client.list_tools().all().await.unwrap(), []);
    let received = received.lock().unwrap().join("\n");
    assert!(received.contains("it begins `Starting server ...`"), "{received}");
    assert!(received.contains("it begins `log: {"), "{received}");
}
