//! Tests of `bridge --orchestrator-addr`, also under the name of the program that it replaces.

use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use mcpjoin_orchestra::CLIENT_NAME as CLIENT;
use rcgen::{CertificateParams, DistinguishedName, DnType, Issuer, KeyPair, PKCS_ED25519};
use serde_json::{Value, json};

use super::bridge_backend::Backend;
use super::ports::Closed;
use super::support::{Ran, Running, command, line, program, run, scratch, start, takes_less_than};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

/// A folder of certificates for one test, removed at its end.
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

/// A bridge whose output is read while it runs.
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
        self.tell(line);
        self.line()
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.running.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn line(&mut self) -> Value {
        let mut answer = String::new();
        self.lines.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    fn finish(mut self) -> Ran {
        drop(self.running.child.stdin.take());
        self.running.finish()
    }
}

/// An orchestrator of mcpjoin with the demonstration server behind it, and its address.
fn host(folder: &Folder) -> (Running, String) {
    host_of(folder, "demo:")
}

fn host_of(folder: &Folder, target: &str) -> (Running, String) {
    let mut host = start(command([
        "bridge",
        "--listen",
        "orchestra://127.0.0.1:0",
        "--certs-dir",
        folder.name(),
        target,
    ]));
    // The rest is not read: the pipe has room for all of the output.
    let mut stderr = BufReader::with_capacity(1, host.child.stderr.take().unwrap());
    let mut said = String::new();
    stderr.read_line(&mut said).unwrap();
    let address =
        said.trim_end().strip_prefix("listening on orchestra://").unwrap_or_else(|| panic!("{said}"));
    host.child.stderr = Some(stderr.into_inner());
    (host, address.to_owned())
}

/// An address without a listener, as long as the second value is held.
fn closed() -> (String, Closed) {
    let closed = Closed::udp();
    (closed.to_string(), closed)
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

    // The same for a client that starts the binary. `--compat 1.0` gives exactly the responses of the first version.
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

    // With -vv each exchange is logged.
    let mut words = served.to_vec();
    words.push("-vv");
    let mut bridge = Bridge::new(&words);
    bridge.ask(INITIALIZE);
    bridge.ask(call);
    bridge.finish().exits(0).says(&["asks tool_call", "is answered", "stdio-tc-"]);
    host.signal("TERM");
    host.finish().exits(143);
}

#[test]
fn h159_it_stays_while_the_orchestrator_is_away_and_says_where_it_looks_for_it() {
    let (folder, (address, _held)) = (Folder::new(), closed());
    let mut bridge = Bridge::new(&["bridge", "--orchestrator-addr", &address, "--certs-dir", folder.name()]);
    assert_eq!(bridge.ask(INITIALIZE)["id"], 1);
    assert_eq!(bridge.ask(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#)["result"], json!({}));
    let began = Instant::now();
    let away = bridge.ask(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"x"}}"#);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(away["error"]["code"], -32603);
    assert!(away["error"]["message"].as_str().unwrap().contains(&address), "{away}");
    assert_eq!(bridge.ask(r#"{"jsonrpc":"2.0","id":4,"method":"ping"}"#)["result"], json!({}), "it stays");
    let ran = bridge.finish().exits(0);
    let told = format!("transport.stdio: no orchestrator at {address} yet, trying again: ");
    assert!(ran.stderr.starts_with(&told) && ran.stderr.lines().count() == 1, "{}", ran.stderr);
}

/// Some messages of the library are for its callers, and the option that raises a limit differs from verb to verb.
#[test]
fn what_it_says_by_itself_is_true_of_it_and_of_use_to_who_runs_it() {
    let folder = Folder::new();
    let (host, address) = host(&folder);
    let mut bridge = Bridge::new(&["bridge", "--orchestrator-addr", &address, "--certs-dir", folder.name()]);
    bridge.ask(INITIALIZE);
    let mut call = |argument: &str| {
        let params = format!(r#"{{"name":"echo","arguments":{{"message":{argument}}}}}"#);
        bridge.ask(&format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{params}}}"#))
    };
    let refused = call(&format!("\"{}\"", "x".repeat(16 * 1024 * 1024)));
    assert!(refused["error"].is_object());
    // This takes longer than the library's warning threshold for a handler.
    call(&format!("[1{}]", ",1".repeat(300_000)));
    let ran = bridge.finish().exits(0).says(&["16777216 bytes", "; it is that of a frame of Orchestra"]);
    assert!(!ran.stderr.contains("--max-message-size"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("handler"), "{}", ran.stderr);
    host.signal("TERM");
    host.finish().exits(143);
}

#[test]
fn r36_a_signal_ends_it_at_once_also_while_it_waits_for_a_line() {
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let (folder, (address, _held)) = (Folder::new(), closed());
        let mut bridge =
            Bridge::new(&["bridge", "--orchestrator-addr", &address, "--certs-dir", folder.name()]);
        assert_eq!(bridge.ask(INITIALIZE)["id"], 1);
        let began = Instant::now();
        bridge.running.signal(signal);
        // Its input stays open, because the original program waits for it.
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
        (vec![], "no server is named"),
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
fn h147_h148_certificates_that_are_not_accepted_end_it_at_once_with_two_and_both_ends_say_why() {
    let (theirs, ours) = (Folder::new(), Folder::new());
    let (mut host, address) = host(&theirs);
    let mut said = BufReader::new(host.child.stderr.take().unwrap());
    let file = |folder: &Folder, name: &str| folder.0.join(name).to_str().unwrap().to_owned();
    let (closed, _held) = closed();
    // This run creates the client certificates in the folder.
    Bridge::new(&["bridge", "--orchestrator-addr", &closed, "--certs-dir", ours.name()]).finish();
    let (ca, crt, key) = (
        file(&theirs, "ca.crt"),
        file(&ours, &format!("{CLIENT}.crt")),
        file(&ours, &format!("{CLIENT}.key")),
    );
    let expired = expired(&theirs);
    let cases = [
        // First both sides use another certificate authority, then only one side does.
        (vec!["--certs-dir", ours.name()], "but not its signature", "it rejects our certificate"),
        (
            vec!["--certs-dir", theirs.name(), "--cert", &crt, "--key", &key],
            "it rejects our certificate",
            "but not its signature",
        ),
        (
            vec!["--certs-dir", ours.name(), "--ca", &ca, "--server-name", "nobody"],
            "not for the requested name (--server-name)",
            "it rejects our certificate",
        ),
    ];
    for (words, here, there) in cases {
        let all = [&["bridge", "--orchestrator-addr", &address], &words[..]].concat();
        let bridge = Bridge::new(&all);
        // Its input stays open.
        let mut running = bridge.running;
        let stdin = running.child.stdin.take();
        running.finish().exits(2).says(&[
            "(E_CERTIFICATE)",
            &address,
            here,
            "restart an orchestrator after a change of its certificates",
        ]);
        drop(stdin);
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.starts_with("warning: a connection was refused: ") && line.contains(there), "{line}");
    }
    // A fault of the files on disk is reported before a connection is made.
    let words = ["--certs-dir", theirs.name(), "--cert", &expired[0], "--key", &expired[1]];
    run([&["bridge", "--orchestrator-addr", &address], &words[..]].concat())
        .exits(2)
        .says(&["(E_CERTIFICATE)", "expired on 2020-02-29"]);
    std::fs::set_permissions(file(&ours, &format!("{CLIENT}.key")), std::fs::Permissions::from_mode(0o644))
        .unwrap();
    run(["bridge", "--orchestrator-addr", &address, "--certs-dir", ours.name()]).exits(2).says(&[
        "(E_CERTIFICATE)",
        &format!("{CLIENT}.key"),
        "chmod",
    ]);
    host.signal("TERM");
    drop(said);
    host.finish().exits(143);
}

/// A client certificate of the folder's own authority that has expired, and its key.
fn expired(folder: &Folder) -> [String; 2] {
    let read = |name: &str| std::fs::read_to_string(folder.0.join(name)).unwrap();
    let mut authority = CertificateParams::default();
    authority.distinguished_name = DistinguishedName::new();
    authority.distinguished_name.push(DnType::OrganizationName, "Orchestra");
    authority.distinguished_name.push(DnType::CommonName, "Orchestra CA");
    let key_of_authority = KeyPair::from_pem(&read("ca.key")).unwrap();
    let issuer = Issuer::from_params(&authority, &key_of_authority);
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 2, 29);
    let written = [params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem()];
    let files = ["expired.crt", "expired.key"].map(|name| folder.0.join(name));
    for (file, text) in files.iter().zip(written) {
        std::fs::write(file, text).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    files.map(|file| file.to_str().unwrap().to_owned())
}

/// The rows of this socket table of `/proc` for sockets that the process has open.
fn sockets(pid: u32, table: &str) -> Vec<String> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let sockets: Vec<String> = descriptors
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok()?.to_str().map(str::to_owned))
        .filter_map(|target| Some(target.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let known = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
    let is_ours = |line: &&str| line.split_whitespace().any(|word| sockets.iter().any(|inode| inode == word));
    known.lines().filter(is_ours).map(str::to_owned).collect()
}

#[test]
fn r35_the_bridge_listens_nowhere() {
    let folder = Folder::new();
    let (host, address) = host(&folder);
    let name = folder.0.join("transport-stdio");
    symlink(env!("CARGO_BIN_EXE_mcpjoin"), &name).unwrap();
    // An orchestrator starts its plugins this way: the bridge accepts the listen address, but does not listen on it.
    let words = ["--orchestrator-addr", &address, "--listen-addr=localhost:0", "--certs-dir", folder.name()];
    let mut bridge = program(name.to_str().unwrap(), words);
    bridge.stdin(Stdio::piped());
    let mut bridge = Bridge::started(bridge);
    assert_eq!(bridge.ask(INITIALIZE)["id"], 1);
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hi"}}}"#;
    assert_eq!(bridge.ask(call)["result"]["content"][0]["text"], "hi");
    let pid = bridge.running.child.id();
    for table in ["tcp", "tcp6"] {
        assert_eq!(sockets(pid, table), Vec::<String>::new());
    }
    let listening = sockets(pid, "unix");
    // The flag `__SO_ACCEPTCON` marks a listening socket.
    let is_listening = |line: &String| line.split_whitespace().nth(3) == Some("00010000");
    assert!(!listening.iter().any(is_listening), "{listening:?}");
    // The only socket belongs to the connection to the orchestrator, and accepts no connections. A QUIC server would answer
    // a packet of an unknown version with the versions that it supports.
    let [ours] = &[sockets(pid, "udp"), sockets(pid, "udp6")].concat()[..] else { panic!() };
    let (_, port) = ours.split_whitespace().nth(1).unwrap().rsplit_once(':').unwrap();
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.connect(("127.0.0.1", u16::from_str_radix(port, 16).unwrap())).unwrap();
    let mut packet = [0; 1200];
    packet[..23].copy_from_slice(b"\xc0\x0a\x0a\x0a\x0a\x088bytesId\x08anId0000");
    stranger.send(&packet).unwrap();
    assert_eq!(bridge.ask(&call.replace(":2,", ":3,"))["result"]["content"][0]["text"], "hi");
    stranger.set_nonblocking(true).unwrap();
    assert_eq!(stranger.recv(&mut packet).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    // The host does answer this packet, which shows that the packet is valid.
    let asker = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    asker.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    packet[..23].copy_from_slice(b"\xc0\x0a\x0a\x0a\x0a\x088bytesId\x08anId0000");
    asker.send_to(&packet, &address).unwrap();
    assert!(asker.recv(&mut [0; 1200]).unwrap() > 0);
    let ran = bridge.finish().exits(0);
    assert!(
        ran.stderr
            .starts_with("transport.stdio: --listen-addr is ignored, because this program does not listen\n"),
        "{}",
        ran.stderr
    );
    host.signal("TERM");
    host.finish().exits(143);
}

/// A bridge to a host of its own, with a call in progress.
fn in_progress(backend: &Backend, folder: &Folder) -> (Running, Bridge) {
    let (host, address) = host_of(folder, &backend.target);
    let mut bridge = Bridge::new(&["bridge", "--orchestrator-addr", &address, "--certs-dir", folder.name()]);
    assert_eq!(bridge.ask(INITIALIZE)["id"], 1);
    backend.open.send_replace(false);
    bridge.tell(
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"square","arguments":{"n":7}}}"#,
    );
    backend.wait_for(1);
    (host, bridge)
}

#[test]
fn h165_at_the_end_of_input_what_is_in_progress_is_finished_and_it_ends_with_0_within_two_seconds() {
    takes_less_than(Duration::from_secs(2), finished);
}

/// Closes the input of a bridge with a call in progress. Returns how long the bridge takes to complete the call and exit.
fn finished() -> Duration {
    let (backend, folder) = (Backend::new(), Folder::new());
    let (host, mut bridge) = in_progress(&backend, &folder);
    drop(bridge.running.child.stdin.take());
    let began = Instant::now();
    backend.open.send_replace(true);
    let answer = bridge.line();
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(7), &json!("49")));
    bridge.finish().exits(0);
    let took = began.elapsed();
    assert_eq!(backend.calls()[&7], 1);
    host.signal("TERM");
    host.finish().exits(143);
    took
}

#[test]
fn h165_when_the_orchestrator_is_gone_pending_calls_fail_and_the_bridge_stays() {
    let (backend, folder) = (Backend::new(), Folder::new());
    let (mut host, mut bridge) = in_progress(&backend, &folder);
    host.child.kill().unwrap();
    host.finish();
    let began = Instant::now();
    let answer = bridge.line();
    assert!(
        began.elapsed() < Duration::from_secs(19),
        "15 s, and what the machine needs: {:?}",
        began.elapsed()
    );
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32603)));
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("the request may have been executed"), "{message}");
    assert_eq!(bridge.ask(r#"{"jsonrpc":"2.0","id":8,"method":"ping"}"#)["result"], json!({}));
    bridge.finish().exits(0);
    backend.open.send_replace(true);
}

#[test]
fn an_orchestrator_without_an_address_is_the_one_where_orchestrators_listen() {
    let folder = Folder::new();
    // The original uses another default port than the one of its orchestrator.
    let mut words = vec!["bridge", "--certs-dir", folder.name(), "--orchestrator-addr"];
    let away = |words: &[&str]| {
        let mut bridge = Bridge::new(words);
        bridge.ask(INITIALIZE);
        bridge.tell(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#);
        bridge
    };
    let ours = away(&words);
    let name = folder.0.join("transport-stdio");
    std::fs::create_dir_all(&folder.0).unwrap();
    symlink(env!("CARGO_BIN_EXE_mcpjoin"), &name).unwrap();
    let mut theirs = program(name.to_str().unwrap(), ["-certs-dir", folder.name()]);
    theirs.stdin(Stdio::piped());
    let mut theirs = Bridge::started(theirs);
    theirs.ask(INITIALIZE);
    theirs.tell(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#);
    for (mut bridge, address, hint) in [(ours, "localhost:50100", false), (theirs, "localhost:9100", true)] {
        let answer = bridge.line();
        assert!(answer["error"]["message"].as_str().unwrap().contains(&format!("{address}: ")), "{answer}");
        let ran = bridge.finish().exits(0);
        assert_eq!(ran.stderr.contains("orchestrators listen on localhost:50100"), hint, "{}", ran.stderr);
    }
    words.extend(["--poll", "0", "--strict", "--stream", "a", "--stream", "b"]);
    let mut all = Bridge::new(&words);
    assert_eq!(all.ask(INITIALIZE)["id"], 1, "everything of it can be said at once");
    all.finish().exits(0);
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
    let (address, _held) = closed();
    let certs = folder.0.join("certs");
    let certs = format!("-certs-dir={}", certs.display());
    let mut bridge = program(name, ["-orchestrator-addr", &address, &certs]);
    bridge.stdin(Stdio::piped());
    let mut bridge = Bridge::started(bridge);
    assert_eq!(bridge.ask(INITIALIZE)["id"], 1);
    bridge.finish().exits(0);
    line(&format!("bridge -orchestrator-addr={address} -certs-dir")).exits(2);
}
