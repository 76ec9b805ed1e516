//! `bridge --orchestrator-addr`, also under the name of what it takes the place of.

use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{Ran, Running, command, line, program, run, scratch, start};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

/// A folder of certificates of a test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let path = scratch(&format!("bridge-certs-{}", FOLDERS.fetch_add(1, Ordering::Relaxed)));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A bridge whose lines are read while it runs.
struct Bridge {
    running: Running,
    lines: BufReader<std::process::ChildStdout>,
}

impl Bridge {
    fn new(words: &[&str]) -> Self {
        let mut bridge = command(words);
        bridge.stdin(Stdio::piped());
        Self::started(bridge)
    }

    fn started(bridge: std::process::Command) -> Self {
        let mut running = start(bridge);
        let lines = BufReader::new(running.child.stdout.take().unwrap());
        Self { running, lines }
    }

    fn ask(&mut self, line: &str) -> Value {
        writeln!(self.running.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.lines.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    fn finish(mut self) -> Ran {
        drop(self.running.child.stdin.take());
        self.running.finish()
    }
}

/// Our own orchestrator with the demonstration behind it, and its port.
fn host(folder: &Folder) -> (Running, String) {
    let mut host = start(command([
        "bridge",
        "--listen",
        "orchestra://127.0.0.1:0",
        "--certs-dir",
        folder.name(),
        "demo:",
    ]));
    // What follows is not read: the pipe holds more than is said here.
    let mut stderr = BufReader::with_capacity(1, host.child.stderr.take().unwrap());
    let mut said = String::new();
    stderr.read_line(&mut said).unwrap();
    let address =
        said.trim_end().strip_prefix("listening on orchestra://").unwrap_or_else(|| panic!("{said}"));
    host.child.stderr = Some(stderr.into_inner());
    (host, address.to_owned())
}

fn unused_address() -> String {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn r24_r34_r36_tools_of_an_orchestrator_on_standard_input_and_output() {
    let folder = Folder::new();
    let (host, address) = host(&folder);
    let mut bridge = Bridge::new(&["bridge", "--orchestrator-addr", &address, "--certs-dir", folder.name()]);
    assert_eq!(bridge.ask(INITIALIZE)["result"]["serverInfo"]["name"], "orchestra");
    let list = bridge.ask(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    let tools = list["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "echo"), "{list}");
    let call = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hi"}}}"#;
    assert_eq!(bridge.ask(call)["result"]["content"], json!([{ "type": "text", "text": "hi" }]));
    let ran = bridge.finish().exits(0);
    assert_eq!(ran.stderr, format!("transport.stdio: connected to orchestrator at {address}\n"));

    // The same for a client of the binary itself, and to the letter of the first version.
    let served = ["bridge", "--orchestrator-addr", &address, "--certs-dir", folder.name()];
    let mut words = vec!["call", "echo", "message=hi", "--", env!("CARGO_BIN_EXE_mcpjoin")];
    words.extend(served);
    assert_eq!(run(words).exits(0).stdout, "hi\n");
    let mut words = served.to_vec();
    words.extend(["--compat", "1.0"]);
    let mut bridge = Bridge::new(&words);
    assert_eq!(
        bridge.ask(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#
        ),
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "protocolVersion": "2024-11-05",
            "capabilities": { "tools": {} }, "serverInfo": { "name": "orchestra", "version": "1.0.0" } } })
    );
    assert!(bridge.ask(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#)["result"]["tools"].is_array());
    bridge.finish().exits(0);
    host.signal("TERM");
    host.finish().exits(143);
}

#[test]
fn it_stays_while_the_orchestrator_is_away_and_says_where_it_looks_for_it() {
    let (folder, address) = (Folder::new(), unused_address());
    let mut bridge = Bridge::new(&["bridge", "--orchestrator-addr", &address, "--certs-dir", folder.name()]);
    assert_eq!(bridge.ask(INITIALIZE)["id"], 1);
    assert_eq!(bridge.ask(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#)["result"], json!({}));
    let began = Instant::now();
    let away = bridge.ask(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(away["error"]["code"], -32603);
    assert!(away["error"]["message"].as_str().unwrap().contains(&address), "{away}");
    let ran = bridge.finish().exits(0);
    assert_eq!(ran.stderr, "");
}

#[test]
fn r36_a_signal_ends_it_at_once_also_while_it_waits_for_a_line() {
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let (folder, address) = (Folder::new(), unused_address());
        let mut bridge =
            Bridge::new(&["bridge", "--orchestrator-addr", &address, "--certs-dir", folder.name()]);
        assert_eq!(bridge.ask(INITIALIZE)["id"], 1);
        let began = Instant::now();
        bridge.running.signal(signal);
        // Its input stays open: the original waits for it.
        let stdin = bridge.running.child.stdin.take();
        bridge.running.finish().exits(code);
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        drop(stdin);
    }
}

#[test]
fn what_cannot_be_used_ends_it_at_once_with_two() {
    let folder = Folder::new();
    let certs = ["--certs-dir", folder.name()];
    for (words, says) in [
        (vec!["--orchestrator-addr", "localhost"], "host:port"),
        (vec!["--orchestrator-addr", ""], "host:port"),
        (vec!["--orchestrator-addr", "h:1", "--poll", "often"], "--poll"),
        (vec!["--orchestrator-addr", "h:1", "--compat", "2.0"], "--compat"),
        (vec!["--orchestrator-addr", "h:1", "--listen", "orchestra://localhost:1"], "--listen"),
        (vec!["--orchestrator-addr", "h:1", "--tcp-addr", "h:2"], "--tcp-addr"),
        (vec!["--orchestrator-addr", "h:1", "--cert", "x"], "--key"),
        (vec!["--orchestrator-addr", "h:1", "demo:"], "TARGET"),
        (vec!["--listen", "orchestra://localhost:1", "--lossy-numbers", "demo:"], "orchestrator-addr"),
        (vec![], "--listen"),
    ] {
        let all = ["bridge"].iter().chain(&certs).copied().chain(words.iter().copied());
        let ran = run(all).exits(2);
        assert!(ran.stderr.contains(says), "{words:?}: {}", ran.stderr);
    }
    let missing = folder.0.join("none.pem");
    let missing = missing.to_str().unwrap();
    let ran = run([
        "bridge",
        "--orchestrator-addr",
        "h:1",
        certs[0],
        certs[1],
        "--cert",
        missing,
        "--key",
        missing,
    ]);
    ran.exits(2).says(&["(E_CERTIFICATE)", "none.pem"]);
}

#[test]
fn an_orchestrator_of_another_authority_ends_it_at_once_with_two() {
    let (theirs, ours) = (Folder::new(), Folder::new());
    let (host, address) = host(&theirs);
    let bridge = Bridge::new(&["bridge", "--orchestrator-addr", &address, "--certs-dir", ours.name()]);
    // Its input stays open.
    let mut running = bridge.running;
    let stdin = running.child.stdin.take();
    running.finish().exits(2).says(&["(E_CERTIFICATE)", &address, "certificate"]);
    drop(stdin);
    host.signal("TERM");
    host.finish().exits(143);
}

#[test]
fn called_as_transport_stdio_it_reads_flags_as_go_does() {
    let folder = Folder::new();
    std::fs::create_dir_all(&folder.0).unwrap();
    let name = folder.0.join("transport-stdio");
    symlink(env!("CARGO_BIN_EXE_mcpjoin"), &name).unwrap();
    let name = name.to_str().unwrap();
    let help = start(program(name, ["-h"])).finish().exits(0);
    assert!(help.stderr.contains("Usage of transport-stdio:") && help.stdout.is_empty(), "{}", help.stderr);
    let wrong = start(program(name, ["-nothing"])).finish().exits(2);
    assert!(wrong.stderr.contains("flag provided but not defined: -nothing"), "{}", wrong.stderr);
    let address = unused_address();
    let certs = folder.0.join("certs");
    let certs = format!("-certs-dir={}", certs.display());
    let mut bridge = program(name, ["-orchestrator-addr", &address, &certs]);
    bridge.stdin(Stdio::piped());
    let mut bridge = Bridge::started(bridge);
    assert_eq!(bridge.ask(INITIALIZE)["id"], 1);
    bridge.finish().exits(0);
    line(&format!("bridge -orchestrator-addr={address} -certs-dir")).exits(2);
}
