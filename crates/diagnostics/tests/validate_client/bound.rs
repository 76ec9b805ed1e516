//! Tests that the validation of a client that never stops is bounded, also over a single open connection.

use std::future::pending;
use std::time::Duration;

use mcpjoin::transport::{HttpListener, HttpOptions};
use mcpjoin_diagnostics::validate::ClientValidator;
use mcpjoin_rules::{Trace, What};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{link, server};

/// The timeout of a test.
const DEADLINE: Duration = Duration::from_secs(60);
/// The limit of the recorded bytes.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// The limit of open connections.
const CONNECTIONS: usize = 1000;

/// The trace of a client that sends these requests over one connection until it is closed.
async fn noted(requests: String) -> Trace {
    let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
    let address = listener.address();
    let looking = ClientValidator::new(server()).serve_http(listener, HttpOptions::new(), None, pending());
    let asking = async {
        let (mut answers, mut to) = TcpStream::connect(address).await.unwrap().into_split();
        let reading =
            tokio::spawn(async move { tokio::io::copy(&mut answers, &mut tokio::io::sink()).await });
        while to.write_all(requests.as_bytes()).await.is_ok() {}
        let _ = reading.await;
    };
    let both = async { tokio::join!(looking, asking).0 };
    timeout(DEADLINE, both).await.expect("it goes on for ever")
}

/// The number of recorded requests and of messages of the server, and the bytes of both.
fn counted(trace: &Trace) -> (usize, usize, usize) {
    let (mut requests, mut said, mut bytes) = (0, 0, 0);
    for event in trace.runs.iter().flat_map(|run| &run.events) {
        match &event.what {
            What::Requested(_, request) => {
                requests += 1;
                bytes += request.url.len();
            }
            What::Received(line) => bytes += line.bytes().len(),
            What::Sent(_, line) => {
                said += 1;
                bytes += line.bytes().len();
            }
            _ => {}
        }
    }
    (requests, said, bytes)
}

/// A request without a body.
fn bare(method: &str, target: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
}

#[tokio::test]
async fn requests_without_a_message_are_counted() {
    let trace = noted(bare("GET", "/mcp") + &bare("DELETE", "/mcp")).await;
    let (requests, said, _) = counted(&trace);
    // Each request is refused with a message.
    assert_eq!((requests, said), (10_000, 10_000));
}

#[tokio::test]
async fn a_client_of_which_no_more_is_noted_has_not_closed_our_input() {
    let (mut theirs, ours) = tokio::io::duplex(64 * 1024);
    let looking = ClientValidator::new(server()).serve(link(ours), pending());
    let telling = async {
        let line = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/none\"}\n".repeat(100);
        while theirs.write_all(line.as_bytes()).await.is_ok() {}
    };
    let both = async { tokio::join!(looking, telling).0 };
    let trace = timeout(DEADLINE, both).await.expect("it goes on for ever");
    let events = || trace.runs.iter().flat_map(|run| &run.events);
    assert!(events().count() >= 20_000);
    assert!(!events().any(|event| matches!(event.what, What::InputClosed)));
}

#[tokio::test]
async fn addresses_are_part_of_the_bytes() {
    let target = format!("/mcp?{}", "x".repeat(60_000));
    let (.., bytes) = counted(&noted(bare("GET", &target)).await);
    assert!((MOST_BYTES..MOST_BYTES + 2 * target.len()).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn messages_are_counted_while_their_connection_stays() {
    let long = "x".repeat(1024 * 1024);
    let body = format!(r#"{{"jsonrpc":"2.0","method":"notifications/none","params":{{"x":"{long}"}}}}"#);
    let head = format!("Content-Type: application/json\r\nContent-Length: {}", body.len());
    let trace = noted(format!("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n\r\n{body}")).await;
    let (requests, _, bytes) = counted(&trace);
    assert_eq!(requests, 64);
    assert!((MOST_BYTES..MOST_BYTES + 2 * body.len()).contains(&bytes), "{bytes}");
}

/// Sends a request over an open connection, and waits for the refusal.
async fn is_answered(client: &mut TcpStream) {
    client.write_all(bare("GET", "/mcp").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        assert!(client.read_buf(&mut answer).await.unwrap() > 0, "it was closed");
    }
}

#[tokio::test]
async fn a_thousand_connections_are_checked_at_once_and_one_more_waits_for_its_place() {
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).unwrap();
    let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
    let address = listener.address();
    let looking = ClientValidator::new(server()).serve_http(listener, HttpOptions::new(), None, pending());
    let asking = async {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut client = TcpStream::connect(address).await.unwrap();
            is_answered(&mut client).await;
            clients.push(client);
        }
        let mut more = TcpStream::connect(address).await.unwrap();
        more.write_all(bare("GET", "/mcp").as_bytes()).await.unwrap();
        // This request was sent before the following ones.
        for client in &mut clients {
            is_answered(client).await;
        }
        let early = more.try_read(&mut [0; 1]).map_err(|error| error.kind());
        assert_eq!(early, Err(std::io::ErrorKind::WouldBlock));
        clients.pop();
        assert!(more.read(&mut [0; 1]).await.unwrap() > 0);
    };
    let both = async {
        tokio::select! { _ = looking => panic!("it ended"), () = asking => {} }
    };
    timeout(DEADLINE, both).await.expect("the place of the one that left is not given");
}
