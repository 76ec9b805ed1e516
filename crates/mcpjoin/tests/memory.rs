//! Tests of the memory that a client uses while a child sends much data, or has many pending responses. They measure the
//! peak of this process, so they are in a program of their own, and run one after the other.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use mcpjoin_test_support as support;
use std::sync::{Mutex, PoisonError};

use mcpjoin::Client;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::EraChoice;
use support::{fixture, raw, run};

static ONE_BY_ONE: Mutex<()> = Mutex::new(());

/// The memory of this process, or its peak, in KiB.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Runs the test, and returns by how many KiB the peak of the process has grown.
fn growth(test: impl Future<Output = ()>) -> u64 {
    let _alone = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory("VmRSS");
    run(test);
    memory("VmHWM").saturating_sub(before)
}

#[test]
fn f1_e89_ten_thousand_calls_that_a_child_reads_before_it_answers_in_reverse_get_their_own_replies() {
    let grown = growth(async {
        let link = fixture("reverse.py").arg("10000").start().await.unwrap();
        let client = Client::builder("c", "1").era(EraChoice::Only(Era::Legacy)).connect(link).await.unwrap();
        let calls = (0..10_000).map(|n| {
            let arguments = raw(&format!(r#"{{"n":{n}}}"#));
            client.call_tool("number", Some(arguments)).into_future()
        });
        let results = futures_util::future::join_all(calls).await;
        for (n, result) in results.into_iter().enumerate() {
            assert_eq!(result.unwrap().content[0].as_text(), Some(n.to_string().as_str()));
        }
        assert_eq!(client.connection().in_flight(), (0, 0));
        client.close().await;
    });
    assert!(grown < 64 * 1024, "{grown} KiB");
}

#[test]
fn a1_a_gibibyte_without_a_line_feed_fills_no_memory() {
    let grown = growth(async {
        let link = fixture("bytes.py").start().await.unwrap();
        let client = Client::builder("c", "1").era(EraChoice::Only(Era::Legacy)).connect(link).await.unwrap();
        let result = client.call_tool("gibibyte", ()).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("fine"));
        client.ping().await.unwrap();
        client.close().await;
    });
    // The limit of a message, and 16 MiB.
    assert!(grown < 26 * 1024, "{grown} KiB");
}

/// Sends a request, and reads the head of the response, and its body if the head has a content length.
async fn ask(stream: &mut tokio::net::TcpStream, method: &str, headers: &str, body: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let length = body.len();
    let request = format!(
        "{method} /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().unwrap());
    stream.read_exact(&mut vec![0; length]).await.unwrap();
    head
}

#[test]
fn an_http_session_that_lies_idle_holds_4_kib_at_most_and_10_with_an_open_stream() {
    use mcpjoin::server::{NoArguments, Server, tool};
    use mcpjoin::transport::{HttpListener, HttpOptions};
    use tokio::net::TcpStream;

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    const CALL: &str =
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait","arguments":{}}}"#;

    let _alone = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
    run(async {
        // The handler is not ready at once, so that the call allocates everything that a call can need.
        let server = Server::builder("s", "1").tool(tool("wait"), |_: NoArguments, _| async {
            tokio::task::yield_now().await;
            "waited"
        });
        let server = server.build().unwrap();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let address = listener.address();
        let serving = tokio::spawn(async move {
            server.serve_http(listener, HttpOptions::new(), std::future::pending()).await;
        });
        let mut connection = TcpStream::connect(address).await.unwrap();
        let mut sessions = Vec::new();
        let mut streams = Vec::new();
        let mut open_sessions = async |sessions: &mut Vec<String>, count: usize, then: &[&str]| {
            for _ in 0..count {
                let head = ask(&mut connection, "POST", "", INITIALIZE).await;
                let id = head.lines().find(|line| line.starts_with("mcp-session-id: ")).unwrap();
                let headers = format!("{id}\r\nmcp-protocol-version: 2025-11-25\r\n");
                for body in then {
                    let head = ask(&mut connection, "POST", &headers, body).await;
                    assert!(head.starts_with("HTTP/1.1 20"), "{head}");
                }
                sessions.push(headers);
            }
        };
        let open_streams = async |streams: &mut Vec<std::net::TcpStream>, sessions: &[String]| {
            for headers in sessions {
                let mut stream = TcpStream::connect(address).await.unwrap();
                let head = ask(&mut stream, "GET", headers, "").await;
                assert!(head.starts_with("HTTP/1.1 200"), "{head}");
                // The stream leaves the runtime, which would use memory for the client's side too.
                streams.push(stream.into_std().unwrap());
            }
        };
        open_sessions(&mut sessions, 100, &[INITIALIZED, CALL]).await;
        open_streams(&mut streams, &sessions).await;
        let before = memory("RssAnon");
        sessions.clear();
        open_sessions(&mut sessions, 2000, &[INITIALIZED]).await;
        let idle = memory("RssAnon") - before;
        assert!(idle <= 2000 * 4, "{idle} KiB for 2000 sessions");
        open_streams(&mut streams, &sessions[..300]).await;
        let streaming = memory("RssAnon") - before - idle;
        assert!(streaming <= 300 * 6, "{streaming} KiB for 300 streams");
        // The memory of a call is kept until the next sweep.
        let before = memory("RssAnon");
        open_sessions(&mut sessions, 1000, &[INITIALIZED, CALL]).await;
        let called = memory("RssAnon") - before;
        assert!(called <= 1000 * 5, "{called} KiB for 1000 sessions that have called");
        serving.abort();
    });
}
