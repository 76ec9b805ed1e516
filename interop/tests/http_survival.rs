//! The library against the published `server-everything`, which stores the events of its streams, over a bad network: the
//! reply to a call is cut at every byte, a proxy drops silent connections, and the server restarts during a session.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use interop::{Listening, Peer, Way};
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::Raw;
use mcpjoin::{Client, Link};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, RwLock};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::timeout;

/// The time limit of a test: a test that hangs fails.
const DEADLINE: Duration = Duration::from_secs(150);

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(DEADLINE, test).await.expect("the test hangs") })
}

fn everything() -> Listening {
    let server = Peer::installed("node_modules/.bin/mcp-server-everything").arg("streamableHttp");
    Listening::on_a_port(&server, Way::Http, "/mcp")
}

/// Restarts the server on another thread, so that the client can run at the same time.
async fn started_again(mut server: Listening) -> Listening {
    spawn_blocking(move || {
        server.start_again();
        server
    })
    .await
    .unwrap()
}

/// A connected client, and the rule violations that it has reported.
async fn connect(address: SocketAddr) -> (Client, Arc<Mutex<Vec<String>>>) {
    let broken: Arc<Mutex<Vec<String>>> = Arc::default();
    let received = broken.clone();
    let client = Client::builder("survival", "1")
        .on_violation(move |violation| received.lock().unwrap().push(violation.to_string()))
        .connect(Link::http(format!("http://{address}/mcp")).build().unwrap())
        .await
        .unwrap();
    (client, broken)
}

/// The result of a call.
struct Ended {
    outcome: Result<String, String>,
    /// The reported progress values.
    progress: Vec<f64>,
    at: Instant,
}

/// Runs an operation of this many seconds that reports progress in this many steps.
async fn call(client: &Client, seconds: &str, steps: u32, total: Duration) -> Ended {
    let arguments = Raw::parse(format!("{{\"duration\":{seconds},\"steps\":{steps}}}")).unwrap();
    let mut call = client.call_tool("trigger-long-running-operation", Some(arguments)).total(total);
    let mut progress = Vec::new();
    while let Some(event) = call.next_event().await {
        let CallEvent::Progress(told) = event else { panic!("{event:?}") };
        progress.push(told.progress);
    }
    let result = call.await.map_err(|error| error.to_string());
    let outcome = result.map(|result| {
        let content = serde_json::to_value(&result.content).unwrap();
        content[0]["text"].as_str().unwrap().to_owned()
    });
    Ended { outcome, progress, at: Instant::now() }
}

fn completed(seconds: &str, steps: u32) -> String {
    let seconds: f64 = seconds.parse().unwrap();
    format!("Long running operation completed. Duration: {seconds} seconds, Steps: {steps}.")
}

/// Checks that no progress was reported twice, and only values that the operation reports.
fn grows(progress: &[f64], steps: u32) {
    let told: Vec<f64> = (1..=steps).map(f64::from).collect();
    let known = progress.iter().all(|step| told.contains(step));
    assert!(known && progress.is_sorted_by(|a, b| a < b), "{progress:?}");
}

async fn echo(client: &Client, message: &str) -> Result<String, String> {
    let arguments = Raw::parse(format!("{{\"message\":\"{message}\"}}")).unwrap();
    let result = client.call_tool("echo", Some(arguments)).await.map_err(|error| error.to_string())?;
    let content = serde_json::to_value(&result.content).unwrap();
    Ok(content[0]["text"].as_str().unwrap().to_owned())
}

// ---- the network ----

/// The number of steps that a cut call reports.
const STEPS: u32 = 3;
/// A cut position after the end of every reply.
const WHOLE: u64 = 99_999;
/// The duration of a cut call: the cut happens earlier, and the client waits longer before it resumes the stream. The
/// last digits of the number contain the position of the cut.
fn seconds(cut: u64) -> String {
    format!("0.1{cut:05}")
}

/// The byte of the reply at which to cut, if the request is a call with such a position in its arguments.
fn cut_of(request: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(request);
    let digits = text.split_once("\"duration\":0.1")?.1.get(..5)?;
    digits.parse().ok()
}

/// How long a proxy keeps a silent connection, with silence in both directions.
#[derive(Clone, Copy)]
struct Patience {
    all: Duration,
    /// For a stream that was resumed from an event. The server's store replays the earlier events on it, but sends no later
    /// ones.
    resumed: Duration,
}

/// The record of one call.
#[derive(Clone, Default)]
struct Cut {
    /// How often the call was sent.
    sent: usize,
    /// The forwarded bytes of its reply, and the time of the cut.
    passed: Vec<u8>,
    at: Option<Instant>,
}

/// A proxy in front of the server that cuts the replies of calls that request it, and drops silent connections.
struct Proxy {
    address: SocketAddr,
    cuts: Arc<Mutex<BTreeMap<u64, Cut>>>,
    /// Notified for every connection that was dropped because of silence.
    dropped: Arc<Notify>,
    /// While a test holds the write lock, new connections wait for the server.
    way: Arc<RwLock<()>>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    async fn new(server: SocketAddr, patience: Patience) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cuts: Arc<Mutex<BTreeMap<u64, Cut>>> = Arc::default();
        let dropped = Arc::new(Notify::new());
        let way = Arc::new(RwLock::new(()));
        let (noted, told, open) = (cuts.clone(), dropped.clone(), way.clone());
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (noted, told, open) = (noted.clone(), told.clone(), open.clone());
                connections.spawn(async move {
                    drop(open.read().await);
                    let server = TcpStream::connect(server).await.unwrap();
                    if pass(client, server, patience, &noted).await == Over::Silent {
                        told.notify_one();
                    }
                });
            }
        });
        Self { address, cuts, dropped, way, task }
    }

    fn cut(&self, cut: u64) -> Cut {
        self.cuts.lock().unwrap()[&cut].clone()
    }
}

#[derive(PartialEq, Eq)]
enum Over {
    Ended,
    Silent,
    Cut,
}

/// Forwards one connection in both directions, until a peer closes it or the reply must be cut.
async fn pass(
    mut client: TcpStream,
    mut server: TcpStream,
    patience: Patience,
    cuts: &Mutex<BTreeMap<u64, Cut>>,
) -> Over {
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let (mut up, mut down) = (vec![0; 16 * 1024], vec![0; 16 * 1024]);
    let (mut request, mut answered, mut cut) = (Vec::new(), false, None);
    loop {
        let resumed = request.windows(14).any(|head| head.eq_ignore_ascii_case(b"last-event-id:"));
        let received = async {
            tokio::select! {
                read = client.read(&mut up) => (true, read),
                read = server.read(&mut down) => (false, read),
            }
        };
        let opens = request.windows(12).any(|part| part == b"\"initialize\"");
        // Silence counts only after the response has begun. The time before that, and for opening a session, depends on the
        // machine.
        let patience = match (answered && !opens, resumed) {
            (false, _) => DEADLINE,
            (true, true) => patience.resumed,
            (true, false) => patience.all,
        };
        let Ok((upwards, read)) = timeout(patience, received).await else { return Over::Silent };
        let Ok(read @ 1..) = read else { return Over::Ended };
        if upwards {
            if answered {
                // The next request on the same connection.
                (request, answered, cut) = (Vec::new(), false, None);
            }
            request.extend_from_slice(&up[..read]);
            if cut.is_none() {
                cut = cut_of(&request);
                if let Some(cut) = cut {
                    cuts.lock().unwrap().entry(cut).or_default().sent += 1;
                }
            }
            if server.write_all(&up[..read]).await.is_err() {
                return Over::Ended;
            }
            continue;
        }
        answered = true;
        let mut piece = &down[..read];
        let mut over = false;
        if let Some(place) = cut {
            let mut cuts = cuts.lock().unwrap();
            let cut = cuts.entry(place).or_default();
            let left = usize::try_from(place).unwrap() - cut.passed.len();
            piece = &piece[..piece.len().min(left)];
            cut.passed.extend_from_slice(piece);
            over = piece.len() == left;
            if over {
                cut.at = Some(Instant::now());
            }
        }
        if client.write_all(piece).await.is_err() {
            return Over::Ended;
        }
        if over {
            return Over::Cut;
        }
    }
}

/// A proxy that only cuts replies.
const CUTTING: Patience = Patience { all: DEADLINE, resumed: DEADLINE };

/// Makes calls with each of these cuts, one after the other on each of the clients.
async fn cut_at(cuts: impl Iterator<Item = u64>, clients: &[Client]) -> BTreeMap<u64, Ended> {
    let cuts = Arc::new(Mutex::new(cuts.collect::<VecDeque<_>>()));
    let mut workers = JoinSet::new();
    for client in clients {
        let (cuts, client) = (cuts.clone(), client.clone());
        workers.spawn(async move {
            let mut ended = Vec::new();
            loop {
                let Some(cut) = cuts.lock().unwrap().pop_front() else { return ended };
                ended.push((cut, call(&client, &seconds(cut), STEPS, DEADLINE).await));
            }
        });
    }
    workers.join_all().await.into_iter().flatten().collect()
}

/// The first cut position after an event with an id, and the last position in the reply.
async fn places(client: &Client, proxy: &Proxy) -> (u64, u64) {
    let ended = call(client, &seconds(WHOLE), STEPS, DEADLINE).await;
    assert_eq!(ended.outcome.unwrap(), completed(&seconds(WHOLE), STEPS));
    let reply = String::from_utf8(proxy.cut(WHOLE).passed).unwrap();
    let id = reply.find("\nid: ").unwrap();
    let first = id + reply[id..].find("\n\n").unwrap() + 2;
    (u64::try_from(first).unwrap(), u64::try_from(reply.len()).unwrap())
}

/// Checks that every reply that can be recovered arrived once: if the cut is after the first event with an id. Returns
/// the number of replies.
fn nothing_is_lost(ended: &BTreeMap<u64, Ended>, proxy: &Proxy) -> usize {
    let mut kept = 0;
    for (cut, Ended { outcome, progress, at }) in ended {
        let Cut { sent, passed, at: cut_at } = proxy.cut(*cut);
        assert_eq!(sent, 1, "cut at {cut}: a call was repeated");
        let text = String::from_utf8_lossy(&passed).into_owned();
        let resumable = text.split_once("\nid: ").is_some_and(|(_, event)| event.contains("\n\n"));
        match outcome {
            Ok(reply) => {
                assert_eq!(reply, &completed(&seconds(*cut), STEPS));
                assert!(resumable, "cut at {cut}: the reply comes from elsewhere");
                kept += 1;
            }
            Err(error) => {
                assert!(!resumable, "cut at {cut}: {error}");
                let after = at.duration_since(cut_at.unwrap());
                // On an idle machine it is one second, which a test of the library checks; here many calls run concurrently.
                assert!(after < Duration::from_secs(10), "cut at {cut}: it failed after {after:?}");
                let why = [
                    "the connection was lost before a response",
                    "the event stream was cut off before the reply",
                ];
                assert!(why.iter().any(|why| error.contains(why)), "cut at {cut}: {error}");
            }
        }
        grows(progress, STEPS);
    }
    kept
}

/// This many clients, each in its own session, and the rule violations that they have reported.
async fn clients(count: usize, proxy: &Proxy) -> (Vec<Client>, Vec<Arc<Mutex<Vec<String>>>>) {
    let mut all = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (client, broken) = connect(proxy.address).await;
        all.0.push(client);
        all.1.push(broken);
    }
    all
}

#[test]
fn a_reply_cut_at_every_byte_is_neither_lost_nor_doubled() {
    run(async {
        let server = everything();
        let proxy = Proxy::new(server.address(), CUTTING).await;
        // On the server a call continues after it has failed at the client, and its late messages are no fault. So these
        // calls use other sessions than those below.
        let (failing, _) = clients(16, &proxy).await;
        let (first, last) = places(&failing[0], &proxy).await;
        let ended = cut_at(1..first, &failing).await;
        assert_eq!((ended.len() as u64, nothing_is_lost(&ended, &proxy)), (first - 1, 0));

        let (kept, broken) = clients(64, &proxy).await;
        let ended = cut_at(first..=last, &kept).await;
        assert_eq!(nothing_is_lost(&ended, &proxy) as u64, last - first + 1);
        // A duplicate message would be a rule violation.
        let broken: Vec<String> = broken.iter().flat_map(|rules| rules.lock().unwrap().clone()).collect();
        assert_eq!(broken, [""; 0]);
        for client in failing.into_iter().chain(kept) {
            client.close().await;
        }
    });
}

/// On a resumed stream, the server's store replays the messages of all streams of the session.
#[test]
fn of_calls_in_one_session_each_gets_its_own_however_they_are_cut() {
    run(async {
        let server = everything();
        let proxy = Proxy::new(server.address(), CUTTING).await;
        let (client, broken) = connect(proxy.address).await;
        let (first, last) = places(&client, &proxy).await;
        let cuts: Vec<u64> = (1..=last).step_by(7).collect();
        let ended = cut_at(cuts.iter().copied(), &vec![client.clone(); 32]).await;
        let kept = cuts.iter().filter(|cut| **cut >= first).count();
        assert_eq!((ended.len(), nothing_is_lost(&ended, &proxy)), (cuts.len(), kept));
        assert_eq!(echo(&client, "still here").await.unwrap(), "Echo: still here");
        // Late messages of failed calls arrive with the others, and each of them once.
        let mut received: BTreeMap<String, u32> = BTreeMap::new();
        for told in broken.lock().unwrap().iter() {
            *received.entry(told.clone()).or_default() += 1;
        }
        for (told, count) in received {
            let most = if told.starts_with("progress for") { STEPS } else { 1 };
            // The server's store also has the event that opens a stream, as an empty object.
            assert!(count <= most || told.contains("begins `{}`"), "{count} times {told}");
        }
        client.close().await;
    });
}

#[test]
fn a_server_that_is_restarted_is_used_again() {
    run(async {
        let mut server = everything();
        let (client, broken) = connect(server.address()).await;
        for round in 0..2 {
            let message = format!("round {round}");
            assert_eq!(echo(&client, &message).await.unwrap(), format!("Echo: {message}"));
            server.crash();
            server = started_again(server).await;
        }
        let ended = call(&client, "0.3", 3, DEADLINE).await;
        assert_eq!(ended.outcome.unwrap(), completed("0.3", 3));
        grows(&ended.progress, 3);
        assert_eq!(*broken.lock().unwrap(), [""; 0]);
        client.close().await;
    });
}

/// Starts a call of ten minutes, and returns after its first progress.
async fn under_way(client: &Client, total: Duration) -> JoinHandle<Ended> {
    let (client, began) = (client.clone(), Arc::new(Notify::new()));
    let told = began.clone();
    let calling = tokio::spawn(async move {
        let arguments = Raw::parse("{\"duration\":600,\"steps\":3000}").unwrap();
        let mut call = client.call_tool("trigger-long-running-operation", Some(arguments)).total(total);
        let mut progress = Vec::new();
        while let Some(event) = call.next_event().await {
            let CallEvent::Progress(step) = event else { panic!("{event:?}") };
            progress.push(step.progress);
            told.notify_one();
        }
        let outcome = call.await.map(|_| "a result".to_owned()).map_err(|error| error.to_string());
        Ended { outcome, progress, at: Instant::now() }
    });
    began.notified().await;
    calling
}

#[test]
fn a_call_in_flight_when_the_server_is_restarted_fails_with_the_reason() {
    run(async {
        let mut server = everything();
        let proxy = Proxy::new(server.address(), CUTTING).await;
        let (client, _) = connect(proxy.address).await;
        let calling = under_way(&client, DEADLINE).await;
        // However long the restart takes, no connection is refused.
        let starting = proxy.way.write().await;
        server.crash();
        let server = started_again(server).await;
        drop(starting);
        let back = Instant::now();
        let ended = calling.await.unwrap();
        let error = ended.outcome.unwrap_err();
        for why in ["the event stream was cut off before the reply", "No valid session ID provided"] {
            assert!(error.contains(why), "{error}");
        }
        // The delay between two attempts is at most 10 s.
        let after = ended.at.duration_since(back);
        assert!(after < Duration::from_secs(30), "{after:?}");
        grows(&ended.progress, 3000);
        assert_eq!(echo(&client, "again").await.unwrap(), "Echo: again");
        client.close().await;
        drop(server);
    });
}

#[test]
fn a_call_in_flight_when_the_server_goes_away_fails_within_its_timeout() {
    run(async {
        let mut server = everything();
        let (client, _) = connect(server.address()).await;
        let calling = under_way(&client, Duration::from_secs(4)).await;
        let gone = Instant::now();
        server.crash();
        let ended = calling.await.unwrap();
        let error = ended.outcome.unwrap_err();
        assert!(error.contains("tools/call was not answered within 4 s"), "{error}");
        let after = ended.at.duration_since(gone);
        assert!(after < Duration::from_secs(20), "{after:?}");
        grows(&ended.progress, 3000);
        // The next call fails without a delay.
        let error = echo(&client, "nobody").await.unwrap_err();
        assert!(error.contains("nothing listens there"), "{error}");
        let server = started_again(server).await;
        assert_eq!(echo(&client, "again").await.unwrap(), "Echo: again");
        client.close().await;
        drop(server);
    });
}

#[test]
fn a_call_whose_server_does_not_come_back_fails_soon_and_says_what_was_tried() {
    run(async {
        let mut server = everything();
        let (client, _) = connect(server.address()).await;
        let calling = under_way(&client, DEADLINE).await;
        server.crash();
        let gone = Instant::now();
        let ended = calling.await.unwrap();
        let error = ended.outcome.unwrap_err();
        for why in
            ["the event stream was cut off before the reply", "attempts to resume it within 5 s", "refused"]
        {
            assert!(error.contains(why), "{error}");
        }
        let after = ended.at.duration_since(gone);
        assert!(after < Duration::from_secs(30), "{after:?}");
        grows(&ended.progress, 3000);
        drop(client);
    });
}

/// The result of a call through a proxy, and the number of connections that the proxy dropped during the call.
async fn dropped_meanwhile(
    proxy: &Proxy,
    client: &Client,
    seconds: &'static str,
    steps: u32,
) -> (Ended, usize) {
    let client = client.clone();
    let calling = tokio::spawn(async move { call(&client, seconds, steps, DEADLINE).await });
    let mut drops = 0;
    let dropped = async {
        loop {
            proxy.dropped.notified().await;
            drops += 1;
        }
    };
    let ended = tokio::select! {
        ended = calling => ended.unwrap(),
        () = dropped => unreachable!(),
    };
    (ended, drops)
}

#[test]
fn a_call_that_is_silent_behind_a_proxy_that_drops_what_is_silent_gets_its_reply_once() {
    run(async {
        let server = everything();
        let short = Duration::from_millis(300);
        let proxy = Proxy::new(server.address(), Patience { all: short, resumed: short }).await;
        let (client, broken) = connect(proxy.address).await;
        let (ended, drops) = dropped_meanwhile(&proxy, &client, "20", 1).await;
        assert_eq!(ended.outcome.unwrap(), completed("20", 1));
        grows(&ended.progress, 1);
        assert!(drops >= 8, "{drops}");
        assert_eq!(*broken.lock().unwrap(), [""; 0]);
        client.close().await;
    });
}

/// On a resumed stream, the server's store sends no later messages, and the stream stays open.
#[test]
fn a_call_that_outlasts_its_resumption_gets_its_reply_once() {
    run(async {
        let server = everything();
        let patience = Patience { all: Duration::from_millis(300), resumed: DEADLINE };
        let proxy = Proxy::new(server.address(), patience).await;
        let (client, broken) = connect(proxy.address).await;
        let (ended, _) = dropped_meanwhile(&proxy, &client, "9", 2).await;
        assert_eq!(ended.outcome.unwrap(), completed("9", 2));
        grows(&ended.progress, 2);
        assert_eq!(*broken.lock().unwrap(), [""; 0]);
        client.close().await;
    });
}

#[test]
fn a_proxy_that_drops_what_is_silent_costs_a_call_nothing() {
    run(async {
        let server = everything();
        let short = Duration::from_millis(300);
        let proxy = Proxy::new(server.address(), Patience { all: short, resumed: short }).await;
        let (client, _) = connect(proxy.address).await;
        let (ended, drops) = dropped_meanwhile(&proxy, &client, "6", 4).await;
        assert_eq!(ended.outcome.unwrap(), completed("6", 4));
        grows(&ended.progress, 4);
        assert!(drops >= 3, "{drops}");
        assert_eq!(echo(&client, "again").await.unwrap(), "Echo: again");
        client.close().await;
    });
}
