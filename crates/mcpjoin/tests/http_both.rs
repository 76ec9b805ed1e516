//! Tests of our client with our server over HTTP on a bad network: streams that are cut at every byte, a proxy that
//! drops silent connections, and a server that is restarted during calls.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use mcpjoin_test_support::ports;
use std::collections::BTreeMap;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::LoggingLevel;
use mcpjoin::proto::{Era, Raw};
use mcpjoin::server::{NoArguments, tool};
use mcpjoin::transport::{HttpListener, HttpOptions};
use mcpjoin::{Client, Link, Server};
use ports::Port;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The timeout of each test, also on the busiest machine: a hang is a failure. (The longest test takes 10 s on an idle
/// machine, and took 40 s during other builds.)
const DEADLINE: Duration = Duration::from_secs(150);

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, test).await.expect("the test hangs") })
}

#[derive(Clone, Default)]
struct Gate {
    /// The number of executions of each call, by the call's argument.
    ran: Arc<Mutex<BTreeMap<u64, usize>>>,
    began: Arc<Notify>,
    go_on: Arc<Notify>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Numbered {
    cut: u64,
}

fn server(gate: &Gate) -> Server {
    let (steps, plain, slow) = (gate.clone(), gate.clone(), gate.clone());
    let note = |gate: &Gate, n: u64| *gate.ran.lock().unwrap().entry(n).or_default() += 1;
    Server::builder("both", "1")
        .logging()
        .dynamic_tools()
        .tool(tool("steps"), move |n: Numbered, cx| {
            note(&steps, n.cut);
            async move {
                for step in 0..3 {
                    cx.log(LoggingLevel::Info, json!({"cut": n.cut, "step": step}));
                }
                format!("done {}", n.cut)
            }
        })
        .tool(tool("plain"), move |n: Numbered, _| {
            note(&plain, n.cut);
            async move { format!("done {}", n.cut) }
        })
        .tool(tool("slow"), move |_: NoArguments, cx| {
            let gate = slow.clone();
            async move {
                cx.log(LoggingLevel::Info, "it begins");
                gate.began.notify_one();
                gate.go_on.notified().await;
                "at last"
            }
        })
        .build()
        .unwrap()
}

/// A running server; dropping it ends it at once, as a crash does.
struct Up {
    address: SocketAddr,
    /// Reserves the port while no server listens on it.
    port: Arc<Port>,
    task: JoinHandle<()>,
    server: Server,
}

impl Drop for Up {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Up {
    async fn new(gate: &Gate) -> Self {
        Self::at(Arc::new(Port::claim().unwrap()), gate).await
    }

    async fn at(port: Arc<Port>, gate: &Gate) -> Self {
        let listener = HttpListener::bind(format!("http://127.0.0.1:{}/mcp", port.number())).await.unwrap();
        let address = listener.address();
        let server = server(gate);
        let serving = server.clone();
        let options = HttpOptions::new().retry(Duration::from_millis(100));
        let task = tokio::spawn(async move { serving.serve_http(listener, options, pending()).await });
        Self { address, port, task, server }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Ends the server as a crash does, and starts another one on the same port.
    async fn restart(self, gate: &Gate) -> Self {
        let port = self.port.clone();
        self.task.abort();
        while !self.task.is_finished() {
            tokio::task::yield_now().await;
        }
        drop(self);
        Self::at(port, gate).await
    }
}

async fn connect(url: &str, era: Era) -> (Client, Arc<Mutex<Vec<String>>>) {
    let (client, notes, _) = connect_and_hear(url, era).await;
    (client, notes)
}

/// A client, the notifications that it has received, and a signal for each of them.
async fn connect_and_hear(url: &str, era: Era) -> (Client, Arc<Mutex<Vec<String>>>, Arc<Notify>) {
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let (received, told) = (notes.clone(), Arc::new(Notify::new()));
    let tell = told.clone();
    let client = Client::builder("both", "1")
        .era(EraChoice::Only(era))
        .on_notification(move |note| {
            let params = note.params.map(|params| params.raw().as_str().to_owned()).unwrap_or_default();
            received.lock().unwrap().push(format!("{} {params}", note.method));
            tell.notify_one();
        })
        .connect(Link::http(url).build().unwrap())
        .await
        .unwrap();
    client.set_level(LoggingLevel::Debug).await.unwrap();
    (client, notes, told)
}

async fn call(client: &Client, tool: &str, cut: u64) -> Result<String, String> {
    let arguments = match tool {
        "slow" => None,
        _ => Some(Raw::parse(json!({"cut": cut}).to_string()).unwrap()),
    };
    let result = client.call_tool(tool, arguments).await.map_err(|error| error.to_string())?;
    let content = serde_json::to_value(&result.content).unwrap();
    Ok(content[0]["text"].as_str().unwrap().to_owned())
}

/// A proxy to the server that cuts connections. It keeps the bytes that it passed of each cut response, by call.
struct Proxy {
    port: u16,
    passed: Arc<Mutex<BTreeMap<u64, Vec<u8>>>>,
    /// Notified of every connection that has ended.
    dropped: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Passes as many bytes of the response as the argument of the call says, then breaks the connection.
    async fn cutting(server: SocketAddr) -> Self {
        Self::new(server, None).await
    }

    /// Breaks every event stream that is silent for this long. It does not break a connection whose response has not begun:
    /// on a busy machine a response may take as long.
    async fn impatient(server: SocketAddr, patience: Duration) -> Self {
        Self::new(server, Some(patience)).await
    }

    async fn new(server: SocketAddr, patience: Option<Duration>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let passed: Arc<Mutex<BTreeMap<u64, Vec<u8>>>> = Arc::default();
        let dropped = Arc::new(Notify::new());
        let (noted, told) = (passed.clone(), dropped.clone());
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (noted, told) = (noted.clone(), told.clone());
                connections.spawn(async move {
                    let server = TcpStream::connect(server).await.unwrap();
                    pass(client, server, patience, &noted).await;
                    told.notify_one();
                });
            }
        });
        Self { port, passed, dropped, task }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }
}

/// The cut position in a request, if it is a call that has one.
fn cut_of(request: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(request);
    let digits = text.split_once("\"cut\":")?.1;
    let end = digits.find(|c: char| !c.is_ascii_digit())?;
    digits[..end].parse().ok()
}

async fn pass(
    mut client: TcpStream,
    mut server: TcpStream,
    patience: Option<Duration>,
    passed: &Mutex<BTreeMap<u64, Vec<u8>>>,
) {
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let (mut up, mut down) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut request = Vec::new();
    let mut cut = None;
    // Whether an event stream has begun and not ended.
    let mut streaming = false;
    loop {
        let received = async {
            tokio::select! {
                read = client.read(&mut up) => (true, read),
                read = server.read(&mut down) => (false, read),
            }
        };
        let longest = patience.filter(|_| streaming).unwrap_or(DEADLINE);
        let Ok((upwards, Ok(read @ 1..))) = tokio::time::timeout(longest, received).await else {
            return;
        };
        if upwards {
            if patience.is_none() {
                request.extend_from_slice(&up[..read]);
                // The connection may have carried an earlier request.
                if let Some(found) = cut_of(&request) {
                    cut = Some(found);
                    request.clear();
                }
            }
            if server.write_all(&up[..read]).await.is_err() {
                return;
            }
            continue;
        }
        let mut piece = &down[..read];
        streaming |= String::from_utf8_lossy(piece).contains("text/event-stream");
        streaming &= !piece.ends_with(b"0\r\n\r\n");
        let mut over = false;
        if let Some(cut) = cut {
            let mut passed = passed.lock().unwrap();
            let before = passed.entry(cut).or_default();
            let left = usize::try_from(cut).unwrap() - before.len();
            piece = &piece[..piece.len().min(left)];
            before.extend_from_slice(piece);
            over = before.len() as u64 == cut;
        }
        if client.write_all(piece).await.is_err() || over {
            return;
        }
    }
}

/// Calls a tool once for every cut position up to this length, several calls at a time; returns the results by position.
async fn cut_everywhere(
    client: &Client,
    tool: &'static str,
    length: u64,
) -> BTreeMap<u64, Result<String, String>> {
    let mut outcomes = BTreeMap::new();
    let cuts: Vec<u64> = (1..=length).collect();
    for some in cuts.chunks(64) {
        let calls: Vec<_> = some
            .iter()
            .map(|cut| {
                let (client, cut) = (client.clone(), *cut);
                tokio::spawn(async move { (cut, call(&client, tool, cut).await) })
            })
            .collect();
        for call in calls {
            let (cut, outcome) = call.await.unwrap();
            outcomes.insert(cut, outcome);
        }
    }
    outcomes
}

/// A cut position behind the end of every response.
const WHOLE: u64 = 100_000;

/// The length of the response to a call on the wire.
async fn length(client: &Client, proxy: &Proxy, tool: &str) -> u64 {
    call(client, tool, WHOLE).await.unwrap();
    let length = proxy.passed.lock().unwrap()[&WHOLE].len();
    u64::try_from(length).unwrap()
}

#[test]
fn f116_a_legacy_stream_cut_at_every_byte_loses_and_doubles_nothing() {
    run(async {
        let gate = Gate::default();
        let up = Up::new(&gate).await;
        let proxy = Proxy::cutting(up.address).await;
        let (client, notes) = connect(&proxy.url(), Era::Legacy).await;
        let length = length(&client, &proxy, "steps").await;
        notes.lock().unwrap().clear();
        let outcomes = cut_everywhere(&client, "steps", length).await;
        let passed = proxy.passed.lock().unwrap().clone();
        let mut kept = 0;
        for (cut, outcome) in &outcomes {
            // The stream can be resumed as soon as the first event with an id is complete.
            let text = String::from_utf8_lossy(&passed[cut]).into_owned();
            let resumable = text.split_once("id: ").is_some_and(|(_, rest)| rest.contains("\n\n"));
            match outcome {
                Ok(text) => {
                    assert_eq!(text, &format!("done {cut}"));
                    kept += 1;
                }
                Err(error) => assert!(!resumable, "{cut} of {length}: {error}"),
            }
        }
        assert!(kept > length / 3, "{kept} of {length} were kept");
        let ran = gate.ran.lock().unwrap().clone();
        assert!(ran.values().all(|times| *times == 1), "a call was executed twice");
        let notes = notes.lock().unwrap().clone();
        let mut seen = BTreeMap::new();
        for note in notes.iter().filter(|note| note.starts_with("notifications/message")) {
            *seen.entry(note.clone()).or_insert(0) += 1;
        }
        assert!(seen.values().all(|times| *times == 1), "a notification came twice");
        for (cut, _) in outcomes.iter().filter(|(_, outcome)| outcome.is_ok()) {
            let of_it = seen.keys().filter(|note| note.contains(&format!("\"cut\":{cut},"))).count();
            assert_eq!(of_it, 3, "{cut}: a notification was lost");
        }
        client.close().await;
    });
}

#[test]
fn f117_a_modern_stream_cut_at_every_byte_fails_its_call_at_once_and_is_not_repeated() {
    run(async {
        for tool in ["steps", "plain"] {
            let gate = Gate::default();
            let up = Up::new(&gate).await;
            let proxy = Proxy::cutting(up.address).await;
            let (client, _) = connect(&proxy.url(), Era::Modern).await;
            let length = length(&client, &proxy, tool).await;
            let outcomes = cut_everywhere(&client, tool, length).await;
            for (cut, outcome) in &outcomes {
                match outcome {
                    // The message may be complete although the end of the body is missing.
                    Ok(text) => assert_eq!(text, &format!("done {cut}")),
                    Err(error) => assert!(error.contains("tools/call"), "{cut}: {error}"),
                }
            }
            assert!(outcomes[&length].is_ok());
            assert!(outcomes[&(length / 2)].is_err());
            assert!(gate.ran.lock().unwrap().values().all(|times| *times == 1), "a call was executed twice");
            client.close().await;
        }
    });
}

#[test]
fn a_server_that_is_restarted_is_used_again_in_both_eras() {
    run(async {
        for era in [Era::Modern, Era::Legacy] {
            let gate = Gate::default();
            let mut up = Up::new(&gate).await;
            let (client, _) = connect(&up.url(), era).await;
            for round in 0..3 {
                assert_eq!(call(&client, "steps", round).await.unwrap(), format!("done {round}"));
                up = up.restart(&gate).await;
            }
            assert_eq!(call(&client, "plain", 9).await.unwrap(), "done 9");
            assert!(gate.ran.lock().unwrap().values().all(|times| *times == 1));
            client.close().await;
        }
    });
}

#[test]
fn a_call_in_flight_when_the_server_is_restarted_fails_with_the_reason() {
    run(async {
        for era in [Era::Modern, Era::Legacy] {
            let gate = Gate::default();
            let up = Up::new(&gate).await;
            let (client, _) = connect(&up.url(), era).await;
            let calling = tokio::spawn({
                let client = client.clone();
                async move { call(&client, "slow", 0).await }
            });
            gate.began.notified().await;
            let up = up.restart(&gate).await;
            let error = calling.await.unwrap().unwrap_err();
            assert!(error.contains("the request failed: "), "{error}");
            assert_eq!(call(&client, "plain", 1).await.unwrap(), "done 1");
            client.close().await;
            drop(up);
        }
    });
}

#[test]
fn a_proxy_that_drops_silent_streams_costs_a_legacy_call_nothing() {
    run(async {
        let gate = Gate::default();
        let up = Up::new(&gate).await;
        let proxy = Proxy::impatient(up.address, Duration::from_millis(150)).await;
        let (client, notes, received) = connect_and_hear(&proxy.url(), Era::Legacy).await;
        let calling = tokio::spawn({
            let client = client.clone();
            async move { call(&client, "slow", 0).await }
        });
        gate.began.notified().await;
        // The proxy drops the stream of the session and that of the call; the client resumes both; they are dropped again.
        for _ in 0..8 {
            proxy.dropped.notified().await;
        }
        gate.go_on.notify_one();
        assert_eq!(calling.await.unwrap().unwrap(), "at last");
        let begins = notes.lock().unwrap().iter().filter(|note| note.contains("it begins")).count();
        assert_eq!(begins, 1);
        // The proxy has dropped the stream of the session as well, and the client has opened it again.
        up.server.handle().add_tool(tool("another"), |_: NoArguments, _| async { "x" }).unwrap();
        loop {
            let told = received.notified();
            if notes.lock().unwrap().iter().any(|note| note.contains("tools/list_changed")) {
                break;
            }
            told.await;
        }
        client.close().await;
    });
}

#[test]
fn a_thousand_calls_of_two_clients_with_equal_ids_do_not_cross() {
    run(async {
        for era in [Era::Modern, Era::Legacy] {
            let gate = Gate::default();
            let up = Up::new(&gate).await;
            let (one, _) = connect(&up.url(), era).await;
            let (two, _) = connect(&up.url(), era).await;
            let calls: Vec<_> = (0..1000_u64)
                .flat_map(|n| [(one.clone(), 2 * n), (two.clone(), 2 * n + 1)])
                .map(|(client, n)| tokio::spawn(async move { (n, call(&client, "plain", n).await) }))
                .collect();
            for call in calls {
                let (n, outcome) = call.await.unwrap();
                assert_eq!(outcome.unwrap(), format!("done {n}"));
            }
            let ran = gate.ran.lock().unwrap();
            assert_eq!(ran.len(), 2000);
            assert!(ran.values().all(|times| *times == 1));
        }
    });
}

#[test]
fn http_sse_works_with_our_own_server() {
    run(async {
        let gate = Gate::default();
        let up = Up::new(&gate).await;
        let url = format!("http://{}/sse", up.address);
        let link = Link::http(&url).legacy_sse().build().unwrap();
        let client = Client::builder("both", "1").connect(link).await.unwrap();
        for n in 0..20 {
            assert_eq!(call(&client, "steps", n).await.unwrap(), format!("done {n}"));
        }
        client.close().await;
    });
}

#[test]
fn cancelling_reaches_the_handler_in_both_eras() {
    run(async {
        for era in [Era::Modern, Era::Legacy] {
            let left = Arc::new(AtomicUsize::new(0));
            let gone = Arc::new(Notify::new());
            let began = Arc::new(Notify::new());
            let (count, tell, begin) = (left.clone(), gone.clone(), began.clone());
            let server = Server::builder("both", "1")
                .tool(tool("wait"), move |_: NoArguments, cx| {
                    let (count, tell, begin) = (count.clone(), tell.clone(), begin.clone());
                    async move {
                        struct Left(Arc<AtomicUsize>, Arc<Notify>);
                        impl Drop for Left {
                            fn drop(&mut self) {
                                self.0.fetch_add(1, Ordering::SeqCst);
                                self.1.notify_one();
                            }
                        }
                        let _left = Left(count, tell);
                        begin.notify_one();
                        cx.cancelled().await;
                        "never"
                    }
                })
                .build()
                .unwrap();
            let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
            let url = listener.url();
            let task =
                tokio::spawn(async move { server.serve_http(listener, HttpOptions::new(), pending()).await });
            let client = Client::builder("both", "1")
                .era(EraChoice::Only(era))
                .connect(Link::http(&url).build().unwrap())
                .await
                .unwrap();
            let calling = tokio::spawn({
                let client = client.clone();
                async move { client.call_tool("wait", ()).await }
            });
            began.notified().await;
            calling.abort();
            gone.notified().await;
            assert_eq!(left.load(Ordering::SeqCst), 1);
            client.close().await;
            task.abort();
        }
    });
}

#[test]
fn log_messages_of_a_call_are_received_over_http_in_both_eras() {
    run(async {
        for era in [Era::Legacy, Era::Modern] {
            let up = Up::new(&Gate::default()).await;
            let (tell, mut received) = tokio::sync::mpsc::unbounded_channel();
            let client = Client::builder("both", "1")
                .era(EraChoice::Only(era))
                .on_log(move |message| drop(tell.send((message.level, message.data.as_str().to_owned()))))
                .connect(Link::http(up.url()).build().unwrap())
                .await
                .unwrap();
            assert_eq!(call(&client, "steps", 7).await.unwrap(), "done 7");
            for step in 0..3 {
                let (level, data) = received.recv().await.unwrap();
                assert_eq!(level, LoggingLevel::Info, "{era:?}");
                assert_eq!(data, format!(r#"{{"cut":7,"step":{step}}}"#), "{era:?}");
            }
            // Info is below this level, so the server sends nothing more: the channel is empty when it closes.
            client.set_level(LoggingLevel::Error).await.unwrap();
            assert_eq!(call(&client, "steps", 8).await.unwrap(), "done 8");
            client.close().await;
            drop(client);
            assert_eq!(received.recv().await, None, "{era:?}");
        }
    });
}
