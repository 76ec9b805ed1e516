//! What the tests of several crates share: servers played by hand, bad networks, ports, fixtures and what a process may leak.
//!
//! Used by tests alone; it is never published.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(missing_docs, missing_debug_implementations, reason = "read beside the tests that use it")]

pub mod events;
pub mod lossy;
pub mod ports;
pub mod scripted;
pub mod scripted_http;
pub mod tls;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mcpjoin::proto::session::{Inbound, Limits, Outbound, Route, TransportEnd};
use mcpjoin::proto::{Message, Method, Notification, Payload, Raw};
use mcpjoin::transport::{ChildCommand, Link, RawLink};

/// No test takes longer: a hang is a failure.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Shell: says that it is there, in the way that [`params`] understands. It has no single quotes in it.
pub const READY: &str = r#"echo "{\"jsonrpc\":\"2.0\",\"method\":\"ready\",\"params\":{}}";"#;

/// A script as a child.
pub fn sh(script: &str) -> ChildCommand {
    ChildCommand::new("/bin/sh").arg("-c").arg(script)
}

/// A script of `fixtures` as a child.
pub fn fixture(name: &str) -> ChildCommand {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    // Python takes its time to end where the machine is busy, and is not to be pushed.
    ChildCommand::new("python3").arg(path).shutdown(DEADLINE, DEADLINE)
}

pub fn bare(link: Link) -> RawLink {
    link.raw(&Limits::default())
}

/// Runs a test on a runtime of its own, within the deadline.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, test).await.expect("the test hangs") })
}

/// Holds that something takes less than `bound`: in one of its runs, because the machine may be busy in some of them, while a
/// fault that makes it slow does so in each. `once` says how long it took.
pub async fn takes_less_than(bound: Duration, mut once: impl AsyncFnMut() -> Duration) {
    let mut took = Vec::new();
    while took.len() < 10 {
        took.push(once().await);
        if took.last() < Some(&bound) {
            return;
        }
    }
    panic!("never below {bound:?}: {took:?}");
}

/// Polls a future once, with a waker that wakes nobody.
pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A notification with a payload of that many bytes.
pub fn big(bytes: usize) -> Outbound {
    note(&format!("{{\"x\":\"{}\"}}", "x".repeat(bytes - 8)))
}

/// A notification with these params.
pub fn note(params: &str) -> Outbound {
    let params = Payload::from_raw(raw(params));
    let message =
        Message::Notification(Notification { method: Method::parse("test/note"), params: Some(params) });
    Outbound::Message { message, route: Route::Session }
}

/// The params of the notification that comes next.
pub async fn params(link: &mut RawLink) -> serde_json::Value {
    match link.recv().await {
        Inbound::Message { message: Message::Notification(note), .. } => {
            note.params.expect("params").raw().decode().expect("JSON")
        }
        other => panic!("no notification but {other:?}"),
    }
}

/// The end, when it comes next.
pub async fn end(link: &mut RawLink) -> TransportEnd {
    match link.recv().await {
        Inbound::Closed { cause } => cause,
        other => panic!("not the end but {other:?}"),
    }
}

pub fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned()).expect("JSON")
}

/// Is that process there, and neither a zombie nor being taken away by its parent?
pub fn lives(pid: u32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X' | 'x'))
}

fn state(pid: u32) -> Option<char> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    line[line.rfind(')')? + 1..].trim_start().chars().next()
}

/// Zombies among our children.
pub fn zombies() -> usize {
    let us = std::process::id().to_string();
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok())
        .filter(|line| {
            let mut fields = line[line.rfind(')').unwrap_or(0) + 1..].split_ascii_whitespace();
            fields.next() == Some("Z") && fields.next() == Some(us.as_str())
        })
        .count()
}

/// The inventory once no runtime is left. The keeper may still be returning from waking us, with a waker in hand
/// that keeps the runtime's driver; that it has let go is nothing that anybody is told, so we look again.
pub fn settled() -> (Vec<String>, usize, usize) {
    let start = std::time::Instant::now();
    loop {
        let now = inventory();
        // A runtime that is going, or the keeper looking through the processes.
        let busy = |file: &String| {
            file.contains("eventpoll")
                || file == "/proc"
                || file.starts_with("/proc/") && !file.ends_with("/fd")
        };
        if !now.0.iter().any(busy) || start.elapsed() > DEADLINE {
            return now;
        }
        std::thread::yield_now();
    }
}

/// What a process can leak: file descriptors and what they are, threads, zombies.
fn inventory() -> (Vec<String>, usize, usize) {
    let mut files: Vec<_> = std::fs::read_dir("/proc/self/fd")
        .expect("/proc")
        .flatten()
        .filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.display().to_string()))
        .collect();
    files.sort();
    (files, std::fs::read_dir("/proc/self/task").expect("/proc").count(), zombies())
}
