//! A bridge and a server under clients that open, cancel, break off and send garbage: what they hold at rest does not grow.
//!
//! Without `MCPJOIN_SOAK_SECONDS` it takes some seconds, in which a leak of 100 KiB for each session is seen. `cargo xtask
//! release-check` runs it for an hour, in which one of 100 bytes is.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is not as it should be fails the test")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use interop::{MARK, running};
use mcpjoin::proto::Era;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::{Client, Link};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

/// The environment variable with the seconds of load.
const SECONDS: &str = "MCPJOIN_SOAK_SECONDS";
const DEFAULT_SECONDS: u64 = 10;
/// Clients at once.
const WORKERS: u64 = 4;
/// What the heap at rest may have grown by from the middle of the load to its end, in KiB. The allocator keeps what it once had, and
/// takes more as pieces of different ages lie side by side.
const MAX_GROWTH_KIB: u64 = 2 * 1024;
/// Descriptors and threads at rest that the end may have more than the middle: idle connections to the server, and timers.
const MAX_MORE: u64 = 4;
/// Far more than sessions take to end on a busy machine.
const REST: Duration = Duration::from_secs(120);

/// A process of the binary. It is killed when this is dropped.
struct Process {
    child: Child,
    url: String,
    /// Its pages for operators, if it has them.
    pages: Option<String>,
}

impl Process {
    fn start(words: &[&str], mark: &str) -> Self {
        let mut command = Command::new(interop::mcpjoin().unwrap());
        command.args(words).env(MARK, mark).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let (mut own, mut url) = (Self { child, url: String::new(), pages: None }, None);
        while url.is_none() {
            let line = lines.next().expect("it listens");
            if let Some(pages) = line.strip_prefix("state and metrics at http://") {
                own.pages = pages.split('/').next().map(ToOwned::to_owned);
            }
            url = line.strip_prefix("listening on ").map(ToOwned::to_owned);
        }
        own.url = url.unwrap();
        // Its warnings are read, because a process with a full pipe would wait.
        std::thread::spawn(move || lines.for_each(drop));
        own
    }

    /// The sessions that its page counts.
    fn sessions(&self) -> Option<u64> {
        let mut stream = TcpStream::connect(self.pages.as_ref()?).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let counts = page.lines().filter_map(|line| line.strip_prefix("mcpjoin_sessions"));
        counts.map(|count| count.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    fn held(&self) -> Held {
        let folder = format!("/proc/{}", self.child.id());
        let status = fs::read_to_string(format!("{folder}/status")).unwrap();
        let number = |name: &str| -> u64 {
            let rest = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            rest.split_whitespace().next().unwrap().parse().unwrap()
        };
        let descriptors = fs::read_dir(format!("{folder}/fd")).unwrap().count() as u64;
        Held { heap: number("RssAnon:"), descriptors, threads: number("Threads:") }
    }

    /// Ends it with SIGTERM, and checks that it ends as it should.
    fn end(mut self) {
        Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status().unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(143), "{} was ended", self.url);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process holds at rest.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// KiB of its own memory that are in use.
    heap: u64,
    descriptors: u64,
    threads: u64,
}

/// Connects a client of the era, and calls a tool of one of the servers behind the bridge.
async fn calls(url: &str, era: Era, server: &str) {
    let client = connected(url, era).await;
    assert!(!client.list_tools().all().await.unwrap().is_empty());
    let message = "x".repeat(2_000);
    let result = client.call_tool(format!("{server}__echo"), json!({ "message": message })).await.unwrap();
    assert_eq!(result.content[0].as_text(), Some(&*message));
    client.close().await;
}

/// Connects a client of the era, and cancels a call that would take long.
async fn cancels(url: &str, era: Era, server: &str) {
    let client = connected(url, era).await;
    let endless = format!("{server}__slow_compute");
    let call = client.call_tool(&endless, json!({ "seconds": 600 }));
    timeout(Duration::from_millis(20), call).await.expect_err("the call has not ended");
    client.close().await;
}

async fn connected(url: &str, era: Era) -> Client {
    let builder = Client::builder("soak", "1").era(EraChoice::Only(era));
    builder.connect(Link::http(url).build().unwrap()).await.unwrap()
}

/// Sends this as the body of a request, reads the beginning of the response, and breaks off.
fn breaks_off(url: &str, body: &str) {
    let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut line = [0; 9];
    stream.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"HTTP/1.1 ");
}

/// The beginning of a session that its client leaves: it ends when it is idle.
const LEFT: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

/// No message.
const GARBAGE: &str = r#"{"a":[{]"#;

/// Loads the bridge for this time with clients of all kinds, and returns when nothing of them is left.
async fn load(bridge: &Process, time: Duration) -> u64 {
    let (until, number) = (Instant::now() + time, Arc::new(AtomicU64::new(0)));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (url, number) = (bridge.url.clone(), number.clone());
        workers.spawn(async move {
            while Instant::now() < until {
                let turn = number.fetch_add(1, Ordering::Relaxed);
                let server = ["far", "near"][usize::from(turn / 6 % 2 == 1)];
                match turn % 6 {
                    0 => calls(&url, Era::Legacy, server).await,
                    1 => calls(&url, Era::Modern, server).await,
                    2 => cancels(&url, Era::Legacy, server).await,
                    3 => cancels(&url, Era::Modern, server).await,
                    4 => breaks_off(&url, LEFT),
                    _ => breaks_off(&url, GARBAGE),
                }
            }
        });
    }
    workers.join_all().await;
    let (since, mut pace) = (Instant::now(), interval(Duration::from_millis(100)));
    while bridge.sessions() != Some(0) {
        assert!(since.elapsed() < REST, "{:?} sessions do not end", bridge.sessions());
        pace.tick().await;
    }
    number.load(Ordering::Relaxed)
}

#[test]
fn what_a_bridge_and_a_server_hold_at_rest_does_not_grow() {
    let seconds = std::env::var(SECONDS).map_or(DEFAULT_SECONDS, |seconds| seconds.parse().unwrap());
    let half = Duration::from_secs(seconds) / 2;
    let mark = format!("soak-{}", std::process::id());
    let far = Process::start(&["serve", "demo", "--full", "--listen", "http://127.0.0.1:0/mcp"], &mark);
    let joined = ["--join", &format!("far={}", far.url), "--join", "near=demo:full", "--session-idle", "1s"];
    let listening = ["bridge", "--listen", "http://127.0.0.1:0/mcp", "--admin", "http://127.0.0.1:0"];
    let bridge = Process::start(&[&listening[..], &joined].concat(), &mark);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let first = runtime.block_on(load(&bridge, half));
    let middle = [&far, &bridge].map(Process::held);
    let second = runtime.block_on(load(&bridge, half));
    let end = [&far, &bridge].map(Process::held);
    println!("{first} and {second} clients; the server and the bridge hold {middle:?}, and then {end:?}");
    for (before, after) in middle.iter().zip(&end) {
        assert!(after.heap <= before.heap + MAX_GROWTH_KIB, "{before:?} {after:?}");
        assert!(after.descriptors <= before.descriptors + MAX_MORE, "{before:?} {after:?}");
        assert!(after.threads <= before.threads + MAX_MORE, "{before:?} {after:?}");
    }
    bridge.end();
    far.end();
    assert_eq!(running(&mark).unwrap(), Vec::<String>::new());
}
