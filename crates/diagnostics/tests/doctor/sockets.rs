//! Tests of servers on TCP ports and Unix sockets: absent, another file, another protocol, and healthy ones.

use std::path::PathBuf;
use std::time::Duration;

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::session::Limits;
use mcpjoin::server::{NoArguments, tool};
use mcpjoin::transport::{Listener, SocketConnect};
use mcpjoin::{Client, Link, Server};
use mcpjoin_diagnostics::doctor::{Check, Doctor, Outcome, Phase, Report};
use mcpjoin_test_support::Folder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

use crate::alone;
use crate::ports::Closed;
use crate::support::run;

fn client() -> ClientBuilder {
    let mut limits = Limits::default();
    limits.probe = Duration::from_secs(2);
    limits.initialize = Duration::from_secs(2);
    Client::builder("test", "1.0.0").limits(limits)
}

async fn examined(connect: SocketConnect) -> Report {
    Doctor::new(connect.timeout(Duration::from_secs(3)), client()).examine().await
}

fn server() -> Server {
    Server::builder("up", "1").tool(tool("t"), |_: NoArguments, _| async { "x" }).build().unwrap()
}

/// A path for a socket, and its folder.
fn place() -> (Folder, PathBuf) {
    let folder = Folder::new();
    std::fs::create_dir(folder.path()).unwrap();
    let place = folder.file("server.sock");
    (folder, place)
}

/// Answers the first bytes of each client with these bytes, and disconnects. Without bytes it never answers.
async fn answering(words: &'static [u8]) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let task = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut piece = [0; 8192];
            let _ = stream.read(&mut piece).await;
            if words.is_empty() {
                kept.push(stream);
            } else {
                let _ = stream.write_all(words).await;
            }
        }
    });
    (address, task)
}

#[test]
fn a_healthy_server_has_no_finding_on_a_port_and_on_a_socket() {
    run(async {
        let (_folder, place) = place();
        let tcp = Listener::tcp("127.0.0.1:0").await.unwrap();
        let unix = Listener::unix(&place).await.unwrap();
        let address = tcp.address().socket_addr().unwrap().to_string();
        let one = tokio::spawn(async move { server().serve_all(tcp, std::future::pending()).await });
        let other = tokio::spawn(async move { server().serve_all(unix, std::future::pending()).await });
        for connect in [Link::tcp(&address), Link::unix(&place)] {
            let report = examined(connect).await;
            assert!(report.is_healthy(), "{report:#?}");
            let phases: Vec<Phase> = report.steps.iter().map(|step| step.phase).collect();
            let expected = [
                Phase::Resolve,
                Phase::Connect,
                Phase::Probe,
                Phase::Initialize,
                Phase::List,
                Phase::ShutDown,
            ];
            assert_eq!(phases, expected);
            let passed = |place: usize| report.steps[place].outcome == Outcome::Passed;
            assert!([0, 1, 2, 4, 5].into_iter().all(passed), "{report:#?}");
            assert_eq!(report.checks_not_run().count(), 0, "{report:#?}");
        }
        one.abort();
        other.abort();
    });
}

#[test]
fn a_path_without_a_socket_is_found() {
    run(async {
        let (_folder, place) = place();
        alone(&examined(Link::unix(&place)).await, "socket-missing", Check::Address);
        std::fs::write(&place, "").unwrap();
        alone(&examined(Link::unix(&place)).await, "not-a-socket", Check::Address);
        let finding = examined(Link::unix(std::env::temp_dir())).await;
        let finding = alone(&finding, "not-a-socket", Check::Address);
        assert!(finding.seen.contains("a directory"), "{finding:#?}");
        // The server has exited, and its socket still exists.
        std::fs::remove_file(&place).unwrap();
        drop(UnixListener::bind(&place).unwrap());
        let report = examined(Link::unix(&place)).await;
        let finding = alone(&report, "refused", Check::Reached);
        assert!(finding.meaning.contains("earlier server"), "{finding:#?}");
    });
}

#[test]
fn a_port_without_a_server_is_found() {
    run(async {
        let closed = Closed::tcp();
        alone(&examined(Link::tcp(closed.to_string())).await, "refused", Check::Reached);
        alone(&examined(Link::tcp("no-such-host.invalid:1")).await, "unresolved", Check::Address);
        alone(&examined(Link::tcp("localhost")).await, "no-address", Check::Address);
    });
}

#[test]
fn another_protocol_is_recognised_by_its_first_bytes() {
    run(async {
        for (words, id, check) in [
            (
                &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"[..],
                "speaks-http",
                Check::Protocol,
            ),
            (b"\x15\x03\x01\x00\x02\x02\x46\n", "speaks-tls", Check::Protocol),
            (b"SSH-2.0-OpenSSH_9.6\r\n", "not-mcp", Check::Protocol),
            (b"-ERR unknown command\r\n", "not-mcp", Check::Protocol),
            (b"220 mail.example ESMTP\r\n", "not-mcp", Check::Protocol),
            (b"", "silent", Check::Opening),
        ] {
            let (address, task) = answering(words).await;
            let report = examined(Link::tcp(address)).await;
            let finding = alone(&report, id, check);
            assert_eq!(finding.evidence.received.is_empty(), words.is_empty(), "{finding:#?}");
            task.abort();
        }
    });
}

#[test]
fn a_banner_of_another_protocol_ends_the_examination() {
    run(async {
        for (banner, seen) in [
            (&b"SSH-2.0-OpenSSH_9.6p1\r\n"[..], "is an SSH server"),
            (b"220 (vsFTPd 3.0.5)\r\n", "speaks FTP"),
            (b"hello, who is there?\r\n", "not with JSON-RPC messages"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let task = tokio::spawn(async move {
                let mut kept = Vec::new();
                while let Ok((mut stream, _)) = listener.accept().await {
                    let _ = stream.write_all(banner).await;
                    kept.push(stream);
                }
            });
            // The timeout is a minute, and must not be reached.
            let mut limits = Limits::default();
            limits.probe = Duration::from_millis(400);
            limits.initialize = Duration::from_secs(60);
            let client = Client::builder("test", "1.0.0").limits(limits);
            let report = Doctor::new(Link::tcp(address), client).examine().await;
            let finding = alone(&report, "not-mcp", Check::Protocol);
            assert!(finding.seen.contains(seen), "{finding:#?}");
            assert!(report.took < Duration::from_secs(20), "{report:#?}");
            task.abort();
        }
    });
}

#[test]
fn a_server_that_disconnects_is_found() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let task = tokio::spawn(async move { while listener.accept().await.is_ok() {} });
        let report = examined(Link::tcp(address)).await;
        let finding = alone(&report, "closed", Check::Life);
        assert_eq!(finding.phase, Phase::Initialize);
        task.abort();
    });
}
