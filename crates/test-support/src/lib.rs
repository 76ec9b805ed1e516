//! Shared test code of several crates: scripted servers, bad networks, ports, fixtures and checks for leaks of a process.
//!
//! Used only by tests; it is never published.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(missing_docs, missing_debug_implementations, reason = "read beside the tests that use it")]

pub mod events;
mod folder;
pub mod lossy;
pub mod ports;
pub mod scripted;
pub mod scripted_http;
pub mod tls;

pub use folder::Folder;
pub use interop::Redis;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mcpjoin::proto::session::{Inbound, Limits, Outbound, Route, TransportEnd};
use mcpjoin::proto::{Message, Method, Notification, Payload, Raw};
use mcpjoin::transport::{ChildCommand, Link, RawLink};

/// The time limit of a test: a test that hangs fails.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A shell command that reports that the script is ready, in the form that [`params`] reads. It contains no single quotes.
pub const READY: &str = r#"echo "{\"jsonrpc\":\"2.0\",\"method\":\"ready\",\"params\":{}}";"#;

/// A shell script as a child process.
pub fn sh(script: &str) -> ChildCommand {
    ChildCommand::new("/bin/sh").arg("-c").arg(script)
}

/// A script of `fixtures` as a child process.
pub fn fixture(name: &str) -> ChildCommand {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    // On a busy machine Python needs time to end, and must not be killed.
    ChildCommand::new("python3").arg(path).shutdown(DEADLINE, DEADLINE)
}

pub fn bare(link: Link) -> RawLink {
    link.raw(&Limits::default())
}

/// Runs a test on its own runtime, with the time limit.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, test).await.expect("the test hangs") })
}

/// Runs a test on a runtime with two threads, with twice the time limit: it is for tests over real and bad networks. Work that
/// is left does not delay its end.
pub fn run_on_threads<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let outcome =
        runtime.block_on(async { tokio::time::timeout(2 * DEADLINE, test).await.expect("the test hangs") });
    runtime.shutdown_background();
    outcome
}

/// Checks that an operation takes less than `bound` in at least one run: the machine may be busy in some runs, but a fault
/// that makes the operation slow does so in all of them. `once` returns the duration of a run.
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

/// Polls a future once, with a waker that does nothing.
pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A notification with a payload of `bytes` bytes.
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

/// The params of the next message, which must be a notification.
pub async fn params(link: &mut RawLink) -> serde_json::Value {
    match link.recv().await {
        Inbound::Message { message: Message::Notification(note), .. } => {
            note.params.expect("params").raw().decode().expect("JSON")
        }
        other => panic!("no notification but {other:?}"),
    }
}

/// The end of the link, which must be the next event.
pub async fn end(link: &mut RawLink) -> TransportEnd {
    match link.recv().await {
        Inbound::Closed { cause } => cause,
        other => panic!("not the end but {other:?}"),
    }
}

pub fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned()).expect("JSON")
}

/// Whether that process runs, and is neither a zombie nor being reaped.
pub fn lives(pid: u32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X' | 'x'))
}

fn state(pid: u32) -> Option<char> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    line[line.rfind(')')? + 1..].trim_start().chars().next()
}

/// The number of zombies among our children.
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

/// The inventory after all runtimes have ended. The keeper thread may still be returning from waking a task, with a waker
/// that keeps the runtime's driver open. There is no notification of its release, so this function polls.
pub fn settled() -> (Vec<String>, Vec<String>, usize) {
    let start = std::time::Instant::now();
    loop {
        let now = inventory();
        // A file of a runtime that is ending, or of the keeper reading the processes.
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

/// The resources that a process can leak: file descriptors by their targets, threads by their names, zombies.
fn inventory() -> (Vec<String>, Vec<String>, usize) {
    let mut files: Vec<_> = std::fs::read_dir("/proc/self/fd")
        .expect("/proc")
        .flatten()
        .filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.display().to_string()))
        .collect();
    files.sort();
    // Threads of the test harness have the names of tests, and start and end while another test runs.
    let mut threads: Vec<_> = std::fs::read_dir("/proc/self/task")
        .expect("/proc")
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
        .map(|name| name.trim_end().to_owned())
        .filter(|name| name.starts_with("mcpjoin") || name.starts_with("tokio"))
        .collect();
    threads.sort();
    (files, threads, zombies())
}
