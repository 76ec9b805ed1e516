//! Two bridges with one key behind a balancer without stickiness, one of which is killed again and again: only the calls that
//! were in progress there fail, no call runs twice, and no client initializes again.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use interop::Port;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{interval, timeout};

use super::backends::{LISTENING, Servers, names};
use super::load::{Ended, Load};

/// The environment variable with the seconds in which bridges are killed. Without it each is killed three times.
const SECONDS: &str = "MCPJOIN_GATEWAY_SECONDS";
/// The time limit of the test without [`SECONDS`]: far more than it takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(300);
const CLIENTS: usize = 16;
/// The largest head of a request: more than that of a sealed session id.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// A process of a bridge at an address of its own.
pub(crate) struct Replica {
    port: Port,
    child: Child,
    /// Its options beside the address.
    options: Vec<OsString>,
}

impl Replica {
    pub(crate) fn start(options: &[OsString]) -> Self {
        let port = Port::claim().unwrap();
        let child = spawn(&port, options);
        Self { port, child, options: options.to_vec() }
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port.number()
    }

    /// Kills the process, and returns the time in which that happened.
    pub(crate) fn kill(&mut self) -> (Instant, Instant) {
        let from = Instant::now();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (from, Instant::now())
    }

    /// Starts it again at the same address.
    pub(crate) fn start_again(&mut self) {
        self.child = spawn(&self.port, &self.options);
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a bridge, and waits until it listens.
fn spawn(port: &Port, options: &[OsString]) -> Child {
    let mut command = Command::new(interop::mcpjoin().unwrap());
    command.args(["bridge", "--listen", &format!("http://127.0.0.1:{}/mcp", port.number())]);
    command.args(options);
    command.env("XDG_CACHE_HOME", "/dev/null");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let listens = lines.any(|line| line.contains("listening on http://"));
    assert!(listens, "the bridge does not listen");
    // Reads to the end: a bridge with a full pipe would block.
    thread::spawn(move || lines.for_each(drop));
    child
}

/// Sends each request to the next of these ports, on a connection of its own. A request is sent to another one only if the
/// connection was refused. Returns its address, and counts the sessions that clients open.
async fn balance(ports: [u16; 2], opened: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let next = Arc::new(AtomicUsize::new(0));
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let first = next.fetch_add(1, Ordering::Relaxed);
            let opened = opened.clone();
            // A client or a bridge that breaks off ends this connection alone.
            tokio::spawn(async move { forward(client, ports, first, &opened).await.unwrap_or_default() });
        }
    });
    url
}

async fn forward(
    mut client: TcpStream,
    ports: [u16; 2],
    first: usize,
    opened: &AtomicUsize,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    let end = loop {
        if let Some(end) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end;
        }
        assert!(head.len() < MAX_HEAD_BYTES, "the head of a request is too long");
        if client.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    };
    // Only `initialize` of an older client names neither a session nor a revision.
    let names = String::from_utf8_lossy(&head[..end]).to_ascii_lowercase();
    if !names.contains("\nmcp-session-id:") && !names.contains("\nmcp-protocol-version:") {
        opened.fetch_add(1, Ordering::Relaxed);
    }
    for attempt in 0..ports.len() {
        let Ok(mut bridge) = TcpStream::connect(("127.0.0.1", ports[(first + attempt) % ports.len()])).await
        else {
            continue;
        };
        // One request for each connection: the next one goes to the other bridge.
        let (head, rest) = head.split_at(end);
        bridge.write_all(&[head, b"\r\nconnection: close", rest].concat()).await?;
        copy_bidirectional(&mut client, &mut bridge).await?;
        return Ok(());
    }
    panic!("both bridges are gone");
}

/// A result belongs to its call; a call fails only if it was in progress when a bridge was killed.
fn check(calls: &[Ended], kills: &[(Instant, Instant)]) {
    for call in calls {
        match &call.outcome {
            Ok(text) => assert_eq!(*text, call.number.to_string(), "another result: {call:?}"),
            Err(_) => {
                let was_in_progress = kills.iter().any(|(from, to)| call.begun <= *to && *from <= call.ended);
                assert!(was_in_progress, "no bridge was killed during it: {call:?}");
            }
        }
    }
}

/// Writes a key for one test: base64 of 32 bytes. Returns the options of a bridge with it.
pub(crate) fn key_options(folder: &Path) -> Vec<OsString> {
    let keys = folder.join("keys");
    std::fs::write(&keys, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
    vec!["--key-file".into(), keys.into()]
}

/// Kills two bridges with these options again and again while clients call the servers behind them. Returns what has happened.
pub(crate) fn costs_only_calls_in_progress(
    servers: &Servers,
    options: &[OsString],
    called: impl Fn(usize) -> String,
) -> String {
    let seconds: Option<u64> = std::env::var(SECONDS).ok().map(|seconds| seconds.parse().unwrap());
    let options = [options, &["--config".into(), servers.configuration(LISTENING).into()]].concat();
    let mut replicas = [0, 1].map(|_| Replica::start(&options));
    let ports = [0, 1].map(|at: usize| replicas[at].port());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let opened = Arc::new(AtomicUsize::new(0));
    let (calls, kills) = runtime.block_on(async {
        let run = async {
            let url = balance(ports, opened.clone()).await;
            let load = Load::start_as(&url, CLIENTS, &names()[..LISTENING], called).await;
            for server in 0..LISTENING {
                load.reaches(server, Instant::now()).await;
            }
            let mut kills = Vec::new();
            let mut pace = interval(Duration::from_secs(1));
            for kill in 0..seconds.map_or(6, |seconds| usize::try_from(seconds).unwrap()) {
                pace.tick().await;
                let replica = &mut replicas[kill % 2];
                kills.push(replica.kill());
                replica.start_again();
                if seconds.is_none() {
                    let since = Instant::now();
                    for server in 0..LISTENING {
                        load.reaches(server, since).await;
                    }
                }
            }
            (load.end().await, kills)
        };
        match seconds {
            Some(_) => run.await,
            None => timeout(DEADLINE, run).await.expect("the test hangs"),
        }
    });
    let failed = calls.iter().filter(|call| call.outcome.is_err()).count();
    check(&calls, &kills);
    // Half of the clients are of the legacy era.
    assert_eq!(opened.load(Ordering::Relaxed), CLIENTS / 2, "clients have initialized again");
    servers.have_run_each_once(&calls);
    format!("{} calls, {} kills, {failed} failed", calls.len(), kills.len())
}

#[test]
fn a_killed_bridge_costs_only_the_calls_in_progress_there() {
    let servers = Servers::start("replicas");
    let options = key_options(servers.folder.path());
    let run = costs_only_calls_in_progress(&servers, &options, |_| "load".to_owned());
    eprintln!("{run}");
}
