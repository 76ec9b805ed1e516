//! Tests of MCP over real TCP and Unix sockets of this machine: both ends ours, or one end scripted byte by byte.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use mcpjoin_test_support as support;
use mcpjoin_test_support::ports;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcpjoin::Client;
use mcpjoin::proto::session::{CloseCause, EraChoice, Inbound, Limits, TransportEndKind};
use mcpjoin::proto::{Era, Message};
use mcpjoin::server::{NoArguments, Server, tool};
use mcpjoin::transport::{Link, ListenAddress, Listener, SocketErrorKind};
use ports::Closed;
use serde_json::{Value, json};
use support::{bare, big, end, note, params, run};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream, UnixSocket, UnixStream};
use tokio::sync::{Notify, oneshot};

/// A folder that is removed at the end of the test, also when the test fails.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcpjoin-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The signals that the tools of the server below wait for and send.
#[derive(Clone, Default)]
struct Gate {
    began: Arc<Notify>,
    go_on: Arc<Notify>,
    runs: Arc<AtomicUsize>,
}

fn server(gate: &Gate, limits: Limits) -> Server {
    let (slow, count) = (gate.clone(), gate.clone());
    Server::builder("s", "1")
        .limits(limits)
        .tool(tool("hello"), |_: NoArguments, cx| async move {
            let origin = cx.origin().map(|origin| (origin.link, origin.peer.clone()));
            let (link, peer) = origin.unwrap();
            format!("{link} {}", peer.unwrap_or_default())
        })
        .tool(tool("large"), |_: NoArguments, _| async { "x".repeat(4 * 1024 * 1024) })
        .tool(tool("slow"), move |_: NoArguments, _| {
            let gate = slow.clone();
            async move {
                gate.began.notify_one();
                gate.go_on.notified().await;
                "at last"
            }
        })
        .tool(tool("count"), move |_: NoArguments, _| {
            let gate = count.clone();
            async move { gate.runs.fetch_add(1, Ordering::SeqCst).to_string() }
        })
        .build()
        .unwrap()
}

/// Serves on a listener until the sender fires; the task returns the result of serving.
fn serve(server: Server, listener: Listener) -> (oneshot::Sender<()>, tokio::task::JoinHandle<()>) {
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        server.serve_all(listener, async { drop(stopped.await) }).await;
    });
    (stop, serving)
}

async fn tcp() -> (Listener, String) {
    let listener = Listener::tcp("127.0.0.1:0").await.unwrap();
    let address = listener.address().socket_addr().unwrap().to_string();
    (listener, address)
}

async fn connect(link: Link, era: Era) -> Client {
    Client::builder("c", "1").era(EraChoice::Only(era)).connect(link).await.unwrap()
}

fn text(result: &mcpjoin::proto::types::CallToolResult) -> String {
    let content: Value = serde_json::from_str(&serde_json::to_string(&result.content).unwrap()).unwrap();
    content[0]["text"].as_str().unwrap().to_owned()
}

/// A scripted client.
struct Wire<S> {
    stream: BufReader<S>,
}

impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin> Wire<S> {
    fn new(stream: S) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    async fn send(&mut self, value: &Value) {
        self.stream.write_all(format!("{value}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    async fn open(&mut self) {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "w", "version": "1"}});
        self.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
        self.receive().await;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }
}

fn call(id: i64, name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}})
}

#[test]
fn both_eras_are_spoken_over_both_kinds_of_sockets_by_many_clients_at_once() {
    run(async {
        let folder = Folder::new("both");
        let path = folder.file("s");
        let server = server(&Gate::default(), Limits::default());
        let (listener, address) = tcp().await;
        let handle = listener.handle();
        let over_tcp = serve(server.clone(), listener);
        let over_unix = serve(server, Listener::unix(&path).await.unwrap());
        let mut clients = Vec::new();
        for era in [Era::Legacy, Era::Modern] {
            let by_port = connect(Link::tcp(address.clone()).await.unwrap(), era).await;
            assert!(text(&by_port.call_tool("hello", ()).await.unwrap()).starts_with("tcp 127.0.0.1:"));
            let by_file = connect(Link::unix(&path).await.unwrap(), era).await;
            let us = format!("unix process {} of user ", std::process::id());
            assert!(text(&by_file.call_tool("hello", ()).await.unwrap()).starts_with(&us));
            let large = by_port.call_tool("large", ()).await.unwrap();
            assert_eq!(text(&large).len(), 4 * 1024 * 1024);
            clients.extend([by_port, by_file]);
        }
        assert_eq!((handle.open(), handle.accepted(), handle.refused(), handle.failed()), (2, 2, 0, 0));
        for client in &clients {
            client.ping().await.unwrap();
        }
        for client in clients {
            assert_eq!(client.close().await, CloseCause::Local);
        }
        for (stop, serving) in [over_tcp, over_unix] {
            stop.send(()).unwrap();
            serving.await.unwrap();
        }
        assert_eq!(handle.open(), 0);
    });
}

#[test]
fn a12_a21_bytes_that_come_one_by_one_make_the_same_message() {
    run(async {
        let folder = Folder::new("bytes");
        let path = folder.file("s");
        let (by_port, address) = tcp().await;
        let text = "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{\"x\":\"é€😀\"}}\n";
        async fn drip(mut stream: impl tokio::io::AsyncWrite + Unpin, text: &str) {
            for byte in text.as_bytes() {
                stream.write_all(&[*byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
        }
        for mut listener in [by_port, Listener::unix(&path).await.unwrap()] {
            match listener.address() {
                ListenAddress::Unix(path) => drip(UnixStream::connect(path).await.unwrap(), text).await,
                _ => {
                    let stream = TcpStream::connect(&address).await.unwrap();
                    stream.set_nodelay(true).unwrap();
                    drip(stream, text).await;
                }
            }
            let mut link = bare(listener.accept().await);
            assert_eq!(params(&mut link).await["x"], "é€😀");
            assert_eq!(end(&mut link).await.kind, TransportEndKind::EndOfStream);
        }
    });
}

#[test]
fn a_client_that_closes_its_side_gets_what_it_has_asked_for() {
    run(async {
        let gate = Gate::default();
        let (listener, address) = tcp().await;
        let (_stop, _serving) = serve(server(&gate, Limits::default()), listener);
        let mut wire = Wire::new(TcpStream::connect(&address).await.unwrap());
        wire.open().await;
        wire.send(&call(1, "slow")).await;
        wire.stream.shutdown().await.unwrap();
        gate.began.notified().await;
        gate.go_on.notify_one();
        assert_eq!(wire.receive().await["id"], 1);
        let mut rest = Vec::new();
        assert_eq!(wire.stream.read_to_end(&mut rest).await.unwrap(), 0);
    });
}

#[test]
fn a_reset_in_the_middle_of_a_message_ends_that_connection_alone() {
    run(async {
        let (mut listener, address) = tcp().await;
        let handle = listener.handle();
        let stream = TcpStream::connect(&address).await.unwrap();
        let mut link = bare(listener.accept().await);
        let mut wire = Wire::new(stream);
        wire.send(&json!({"jsonrpc": "2.0", "method": "m", "params": {"x": 1}})).await;
        assert_eq!(params(&mut link).await["x"], 1);
        wire.stream.write_all(br#"{"jsonrpc":"2.0","id":1,"meth"#).await.unwrap();
        wire.stream.get_ref().set_zero_linger().unwrap();
        drop(wire);
        // The link may have read the incomplete message or not.
        let cause = loop {
            match link.recv().await {
                Inbound::Malformed { .. } => {}
                Inbound::Closed { cause } => break cause,
                other => panic!("{other:?}"),
            }
        };
        let TransportEndKind::Failed(error) = &cause.kind else { panic!("an orderly end: {cause:?}") };
        assert!(error.retryable && error.message.contains("reset"), "{error}");
        assert_eq!(handle.open(), 1);
        drop(link);
        assert_eq!(handle.open(), 0);

        // The same for a client whose server resets the connection during a call.
        let far = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let link = Link::tcp(far.local_addr().unwrap().to_string()).await.unwrap();
        let (stream, _) = far.accept().await.unwrap();
        let mut wire = Wire::new(stream);
        let connecting = tokio::spawn(connect(link, Era::Legacy));
        let opening = wire.receive().await;
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "s", "version": "1"}});
        wire.send(&json!({"jsonrpc": "2.0", "id": opening["id"], "result": result})).await;
        let client = connecting.await.unwrap();
        assert_eq!(wire.receive().await["method"], "notifications/initialized");
        let answer = async {
            assert_eq!(wire.receive().await["method"], "tools/call");
            wire.stream.write_all(br#"{"jsonrpc":"2.0","#).await.unwrap();
            wire.stream.get_ref().set_zero_linger().unwrap();
            drop(wire);
        };
        let (result, ()) = tokio::join!(client.call_tool("t", ()), answer);
        let error = result.unwrap_err();
        assert!(error.is_fatal() && error.to_string().contains("reset"), "{error}");
        assert!(matches!(client.closed().await, CloseCause::Link(_)));
    });
}

#[test]
fn a_peer_that_never_reads_is_given_up_and_learns_that_something_is_missing() {
    run(async {
        let mut limits = Limits::default();
        limits.write_stall = Duration::from_millis(200);
        let (mut listener, address) = tcp().await;
        let mut wire = Wire::new(TcpStream::connect(&address).await.unwrap());
        let connection = server(&Gate::default(), limits).connect(listener.accept().await);
        wire.open().await;
        // The messages are larger than the buffers of both ends.
        for id in 1..=8 {
            wire.send(&call(id, "large")).await;
        }
        let cause = connection.closed().await;
        assert!(matches!(cause, CloseCause::Stalled { .. }), "{cause}");
        assert_eq!(listener.handle().open(), 0);
        let mut all = Vec::new();
        let error = wire.stream.read_to_end(&mut all).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn who_comes_beyond_the_bound_is_closed_and_counted() {
    run(async {
        let (listener, address) = tcp().await;
        let mut listener = listener.max_connections(1);
        let handle = listener.handle();
        let first = TcpStream::connect(&address).await.unwrap();
        let link = listener.accept().await;
        let mut second = TcpStream::connect(&address).await.unwrap();
        let mut rest = Vec::new();
        tokio::select! {
            biased;
            _ = listener.accept() => panic!("one too many"),
            read = second.read_to_end(&mut rest) => assert_eq!(read.unwrap(), 0),
        }
        assert_eq!((handle.open(), handle.accepted(), handle.refused()), (1, 1, 1));
        drop((first, link));
        assert_eq!(handle.open(), 0);
        let _third = TcpStream::connect(&address).await.unwrap();
        let _link = listener.accept().await;
        assert_eq!((handle.open(), handle.accepted(), handle.refused()), (1, 2, 1));
    });
}

#[test]
fn a_server_that_shuts_down_finishes_what_it_has_begun_and_accepts_no_connection() {
    run(async {
        let folder = Folder::new("ends");
        let path = folder.file("s");
        let gate = Gate::default();
        let (stop, serving) = serve(server(&gate, Limits::default()), Listener::unix(&path).await.unwrap());
        let busy = connect(Link::unix(&path).await.unwrap(), Era::Legacy).await;
        let idle = connect(Link::unix(&path).await.unwrap(), Era::Modern).await;
        let calling = tokio::spawn({
            let client = busy.clone();
            async move { client.call_tool("slow", ()).await }
        });
        gate.began.notified().await;
        stop.send(()).unwrap();
        // An idle client is disconnected at once, and new clients do not find the socket.
        let CloseCause::Link(end) = idle.closed().await else { panic!("{:?}", idle.close_cause()) };
        assert_eq!(end.kind, TransportEndKind::EndOfStream);
        assert!(!path.exists());
        assert!(!serving.is_finished() && !calling.is_finished());
        gate.go_on.notify_one();
        assert_eq!(text(&calling.await.unwrap().unwrap()), "at last");
        serving.await.unwrap();
        assert!(matches!(busy.closed().await, CloseCause::Link(_)));
    });
}

#[test]
fn a_server_that_ends_waits_for_its_tools_no_longer_than_it_may() {
    run(async {
        let mut limits = Limits::default();
        limits.drain = Duration::from_millis(50);
        let gate = Gate::default();
        let (listener, address) = tcp().await;
        let (stop, serving) = serve(server(&gate, limits), listener);
        let client = connect(Link::tcp(address).await.unwrap(), Era::Modern).await;
        let (result, ()) = tokio::join!(client.call_tool("slow", ()), async {
            gate.began.notified().await;
            stop.send(()).unwrap();
        });
        let error = result.unwrap_err();
        assert_eq!(error.remote().map(|error| error.code), Some(-32603), "{error}");
        serving.await.unwrap();
    });
}

#[test]
fn what_is_said_last_arrives_although_the_peer_goes_on_talking() {
    run(async {
        let gate = Gate::default();
        let (listener, address) = tcp().await;
        let (stop, serving) = serve(server(&gate, Limits::default()), listener);
        let mut wire = Wire::new(TcpStream::connect(&address).await.unwrap());
        wire.open().await;
        wire.send(&call(1, "slow")).await;
        gate.began.notified().await;
        stop.send(()).unwrap();
        // The server reads none of this: closing a socket with unread data would reset the connection.
        let padding = json!({"jsonrpc": "2.0", "method": "m", "params": {"x": "x".repeat(64 * 1024)}});
        for _ in 0..4 {
            wire.send(&padding).await;
        }
        gate.go_on.notify_one();
        assert_eq!(wire.receive().await["id"], 1);
        let mut rest = Vec::new();
        assert_eq!(wire.stream.read_to_end(&mut rest).await.unwrap(), 0);
        drop(wire);
        serving.await.unwrap();
    });
}

#[test]
fn dropping_the_future_of_a_server_ends_everything() {
    run(async {
        let (listener, address) = tcp().await;
        let handle = listener.handle();
        let serving = server(&Gate::default(), Limits::default());
        let serving = tokio::spawn(async move { serving.serve_all(listener, std::future::pending()).await });
        let client = connect(Link::tcp(address.clone()).await.unwrap(), Era::Modern).await;
        serving.abort();
        assert!(serving.await.unwrap_err().is_cancelled());
        assert!(matches!(client.closed().await, CloseCause::Link(_)));
        assert_eq!(handle.open(), 0);
        let error = Link::tcp(address).await.unwrap_err();
        assert!(matches!(error.kind, SocketErrorKind::Unreached(_)), "{error}");
    });
}

#[test]
fn a_request_that_a_web_page_makes_a_browser_send_is_not_handled() {
    run(async {
        let gate = Gate::default();
        let (listener, address) = tcp().await;
        let (_stop, _serving) = serve(server(&gate, Limits::default()), listener);
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "count",
            "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}}}});
        for head in [
            "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\n\r\n",
            "GET / HTTP/1.0\n\n",
            "\u{16}\u{3}\u{1}hello\n",
        ] {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            stream.write_all(format!("{head}{call}\n").as_bytes()).await.unwrap();
            let mut said = Vec::new();
            // The connection may be reset, but the server sends nothing.
            let _ = stream.read_to_end(&mut said).await;
            assert_eq!(String::from_utf8_lossy(&said), "");
        }
        assert_eq!(gate.runs.load(Ordering::SeqCst), 0);
        // A malformed JSON line is an error as on other transports, and the next line is handled.
        let mut wire = Wire::new(TcpStream::connect(&address).await.unwrap());
        wire.stream.write_all(b"{\"jsonrpc\"\n").await.unwrap();
        assert_eq!(wire.receive().await["error"]["code"], -32700);
        wire.send(&call).await;
        assert_eq!(wire.receive().await["result"]["content"][0]["text"], "0");
    });
}

#[test]
fn a_server_that_closes_at_the_probe_is_reached_again_with_initialize() {
    run(async {
        let far = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let link = Link::tcp(far.local_addr().unwrap().to_string()).await.unwrap();
        let connecting = tokio::spawn(Client::builder("c", "1").connect(link));
        let mut wire = Wire::new(far.accept().await.unwrap().0);
        assert_eq!(wire.receive().await["method"], "server/discover");
        drop(wire);
        let mut wire = Wire::new(far.accept().await.unwrap().0);
        let opening = wire.receive().await;
        assert_eq!(opening["method"], "initialize");
        let result = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "serverInfo": {"name": "s", "version": "1"}});
        wire.send(&json!({"jsonrpc": "2.0", "id": opening["id"], "result": result})).await;
        let client = connecting.await.unwrap().unwrap();
        assert_eq!(client.profile().era, Era::Legacy);
        assert_eq!(wire.receive().await["method"], "notifications/initialized");
    });
}

#[test]
fn an_address_that_is_not_reached_is_named_with_the_error() {
    run(async {
        let closed = Closed::tcp();
        let address = closed.to_string();
        let error = Link::tcp(address.clone()).await.unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("tcp://{address}: no connection ({address}: ")), "{text}");
        let SocketErrorKind::Unreached(attempts) = error.kind else { panic!("{error:?}") };
        let refused = attempts[0].error.as_ref().map(std::io::Error::kind);
        assert_eq!((attempts.len(), refused), (1, Some(std::io::ErrorKind::ConnectionRefused)));

        // The listener binds each address of the name: one or two, as this machine resolves it.
        let port = address.rsplit_once(':').unwrap().1;
        let error = Link::tcp(format!("localhost:{port}")).await.unwrap_err();
        let SocketErrorKind::Unreached(attempts) = &error.kind else { panic!("{error:?}") };
        assert!(attempts.iter().all(|attempt| attempt.error.is_some()), "{error}");
        assert!(attempts.iter().any(|attempt| attempt.address.to_string() == address), "{error}");

        let error = Link::tcp("nowhere").await.unwrap_err();
        assert!(matches!(error.kind, SocketErrorKind::Address(_)), "{error}");
        assert!(matches!(Listener::tcp("nowhere").await.unwrap_err().kind, SocketErrorKind::Address(_)));
        let error = Link::unix("/nowhere/at/all").await.unwrap_err();
        assert!(error.to_string().starts_with("unix:/nowhere/at/all: "), "{error}");
        let SocketErrorKind::System(error) = error.kind else { panic!("{error:?}") };
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    });
}

#[test]
fn connecting_takes_no_longer_than_it_may() {
    run(async {
        let full = Duration::from_millis(100);
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        let error = loop {
            match Link::tcp(address.to_string()).timeout(full).await {
                Ok(link) => waiting.push(link),
                Err(error) => break error,
            }
            assert!(waiting.len() < 8, "nobody accepts, and nobody is kept waiting");
        };
        assert_eq!(
            error.to_string(),
            format!("tcp://{address}: no connection within 100 ms ({address}: no answer)")
        );

        let folder = Folder::new("full");
        let path = folder.file("s");
        let socket = UnixSocket::new_stream().unwrap();
        socket.bind(&path).unwrap();
        let _listener = socket.listen(1).unwrap();
        let mut waiting = Vec::new();
        let error = loop {
            match Link::unix(&path).timeout(full).await {
                Ok(link) => waiting.push(link),
                Err(error) => break error,
            }
            assert!(waiting.len() < 8, "nobody accepts, and nobody is kept waiting");
        };
        assert!(matches!(error.kind, SocketErrorKind::NotAccepted { after } if after == full), "{error}");
        // A listener is active on the path, although its backlog is full.
        let error = Listener::unix(&path).await.unwrap_err();
        assert!(matches!(error.kind, SocketErrorKind::InUse), "{error}");
    });
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn the_file_of_a_unix_socket_is_for_its_owner_and_goes_with_its_listener() {
    run(async {
        let folder = Folder::new("file");
        let path = folder.file("s");
        let listener = Listener::unix(&path).await.unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(listener.address().to_string(), format!("unix:{}", path.display()));
        // A listener is active: its socket is not replaced.
        let error = Listener::unix(&path).await.unwrap_err();
        assert!(matches!(error.kind, SocketErrorKind::InUse), "{error}");
        assert_eq!(error.to_string(), format!("unix:{}: another server listens there", path.display()));
        assert!(path.exists());
        // A socket whose permissions were widened on purpose is still ours.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o660)).unwrap();
        drop(listener);
        assert!(!path.exists());

        // No listener is active any more: the socket is replaced.
        let stale = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(stale);
        assert!(path.exists());
        let first = Listener::unix(&path).await.unwrap();
        assert_eq!(mode(&path), 0o600);
        // The path was removed and created again by another process, so it is not ours to remove.
        std::fs::remove_file(&path).unwrap();
        let second = Listener::unix(&path).await.unwrap();
        drop(first);
        assert!(path.exists());
        Link::unix(&path).await.unwrap();
        drop(second);
        assert!(!path.exists());
    });
}

#[test]
fn no_other_file_is_ever_replaced() {
    run(async {
        let folder = Folder::new("other");
        let (file, way) = (folder.file("file"), folder.file("way"));
        std::fs::write(&file, "mine").unwrap();
        symlink(folder.file("nowhere"), &way).unwrap();
        for path in [&file, &way, &folder.0] {
            let error = Listener::unix(path).await.unwrap_err();
            assert!(matches!(error.kind, SocketErrorKind::NotASocket), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
        assert!(Listener::unix(folder.file("no/s")).await.is_err());
    });
}

#[test]
fn of_many_that_want_one_stale_file_exactly_one_gets_it() {
    run(async {
        let folder = Folder::new("many");
        let path = folder.file("s");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let all = (0..16).map(|_| Listener::unix(&path));
        let (won, lost): (Vec<_>, Vec<_>) =
            futures_util::future::join_all(all).await.into_iter().partition(Result::is_ok);
        assert_eq!((won.len(), lost.len()), (1, 15));
        assert!(lost.iter().all(|lost| matches!(lost.as_ref().unwrap_err().kind, SocketErrorKind::InUse)));
        Link::unix(&path).await.unwrap();
    });
}

#[test]
fn a_link_that_is_dropped_in_the_middle_of_a_message_resets() {
    run(async {
        let (mut listener, address) = tcp().await;
        let mut far = TcpStream::connect(&address).await.unwrap();
        let mut link = bare(listener.accept().await);
        link.push(note("{}"));
        link.flush().await.unwrap();
        for _ in 0..16 {
            link.push(big(1024 * 1024));
        }
        let _ = support::poll_once(&mut Box::pin(link.flush()));
        drop(link);
        let mut all = Vec::new();
        let error = far.read_to_end(&mut all).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn full_sockets_both_ways_do_not_lock() {
    run(async {
        let (mut listener, address) = tcp().await;
        let (ours, theirs) = tokio::join!(async { Link::tcp(address).await.unwrap() }, listener.accept());
        let talk = async |link: Link| {
            let mut link = bare(link);
            let (mut pushed, mut received) = (0, 0);
            while received < 16 {
                while pushed < 16 && link.has_room() {
                    link.push(big(1024 * 1024));
                    pushed += 1;
                }
                match link.recv().await {
                    Inbound::Message { message: Message::Notification(_), .. } => received += 1,
                    other => panic!("{other:?}"),
                }
            }
            link.flush().await.unwrap();
            link.close().await
        };
        tokio::join!(talk(ours), talk(theirs));
    });
}
