//! Clients with the core tasks of 2025-11-25, as npm and PyPI publish them, against `mcpjoin serve demo --full`: version 1 of the
//! TypeScript SDK and of the Python SDK, each over pipes and over Streamable HTTP. Their scripts in `interop/clients/` print
//! the outcome of each check, and all outcomes must be right. The clients of the later versions, and of rmcp, have no core
//! tasks.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use interop::NODE;
use serde_json::Value;

const PYTHON: &str = "venv/bin/python";

/// The time limit of a script: far more than it takes on a busy machine, and less than the 180 s after which nextest ends
/// a test.
const LIMIT: Duration = Duration::from_secs(150);
/// The time in which a server must end after its client.
const GRACE: Duration = Duration::from_secs(10);

const TYPESCRIPT: [&str; 8] = ["open", "stream", "input", "failure", "cancel", "list", "misuse", "end"];
const PYTHON_SDK: [&str; 9] = ["open", "poll", "wait", "input", "failure", "cancel", "list", "misuse", "end"];

/// A process that is ended when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already; then `kill` fails.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

/// Starts a server that listens, and returns its address.
fn listening(mark: &str) -> (Running, String) {
    let mut server = Command::new(interop::mcpjoin().unwrap())
        .args(["serve", "demo", "--full", "--listen", "http://127.0.0.1:0"])
        .env(interop::MARK, mark)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(server.stderr.take().unwrap());
    let running = Running(server);
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let address = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).trim().to_owned();
    // Reads to the end, because a full pipe would block the server.
    thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
    (running, address)
}

/// Runs a script on that server, and checks that it runs all these checks with the outcome `right`.
fn all_right(program: &str, script: &str, checks: &[&str], server: &[OsString], mark: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut child = Command::new(interop::server(program).unwrap())
        .arg(folder.join("clients").join(script))
        .args(server)
        .env(interop::MARK, mark)
        // The servers are local, so no proxy is used.
        .env("NO_PROXY", "127.0.0.1")
        .env("no_proxy", "127.0.0.1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let running = Running(child);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut said = String::new();
        stdout.read_to_string(&mut said).unwrap();
        // The receiver may have reached its time limit.
        let _ = sender.send(said);
    });
    let said = receiver.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{script} has not ended in {LIMIT:?}"));
    drop(running);
    let mut lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    assert!(lines.next().is_some_and(|first| first["version"].is_string()), "{said}");
    let (mut done, mut wrong) = (Vec::new(), String::new());
    for line in lines {
        done.push(line["check"].as_str().unwrap().to_owned());
        if line["outcome"] != "right" {
            wrong += &format!("{line}\n");
        }
    }
    assert!(wrong.is_empty(), "{script}:\n{wrong}");
    assert_eq!(done, checks);
}

fn over_pipes(program: &str, script: &str, checks: &[&str]) {
    let mark = format!("{script}-{}", std::process::id());
    let binary = interop::mcpjoin().unwrap().into_os_string();
    all_right(
        program,
        script,
        checks,
        &["--".into(), binary, "serve".into(), "demo".into(), "--full".into()],
        &mark,
    );
    let begun = Instant::now();
    while let left @ [_, ..] = &interop::running(&mark).unwrap()[..] {
        assert!(begun.elapsed() < GRACE, "left running: {left:?}");
        thread::yield_now();
    }
}

fn over_http(program: &str, script: &str, checks: &[&str]) {
    let mark = format!("{script}-http-{}", std::process::id());
    let (_server, address) = listening(&mark);
    all_right(program, script, checks, &[address.into()], &mark);
}

#[test]
fn typescript_sdk_1() {
    over_pipes(NODE, "sdk-1-tasks.mjs", &TYPESCRIPT);
}

#[test]
fn typescript_sdk_1_over_http() {
    over_http(NODE, "sdk-1-tasks.mjs", &TYPESCRIPT);
}

#[test]
fn python_sdk_1() {
    over_pipes(PYTHON, "python-sdk-1-tasks.py", &PYTHON_SDK);
}

#[test]
fn python_sdk_1_over_http() {
    over_http(PYTHON, "python-sdk-1-tasks.py", &PYTHON_SDK);
}
