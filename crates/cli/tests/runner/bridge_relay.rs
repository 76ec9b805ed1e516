//! Tests of `bridge` between MCP peers: a server of any kind, for clients on standard input and output or at addresses.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{ChildStderr, ChildStdout, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use mcpjoin::Link;
use mcpjoin::client::Client;
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{CallToolResult, ElicitResult};
use mcpjoin::proto::{Era, Raw};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::orphans::until;
use super::quic::Certificates;
use super::sockets::Demo;
use super::support::{Mark, Ran, Running, command, line, marked, run, scratch, start};

/// The timeout of each test: a hang is a failure.
pub(super) const DEADLINE: Duration = Duration::from_secs(50);

/// A server in shell that answers every request of the legacy era. The call of `die` ends it. The call of `wait` gets no
/// response, and is noted on standard error.
const SHELL: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while read -r line; do
  id=$(printf '%s\n' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case $line in
    *'"method":"initialize"'*) answer '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"1"}}' ;;
    *'"name":"die"'*) echo 'the disk is gone' >&2; exit 7 ;;
    *'"name":"wait"'*) echo 'waiting' >&2 ;;
    *'"method":"tools/call"'*) answer '"result":{"content":[{"type":"text","text":"done"}]}' ;;
    *'"method":"tools/list"'*) answer '"result":{"tools":[{"name":"work","inputSchema":{"type":"object"}},{"name":"die","inputSchema":{"type":"object"}}]}' ;;
    *'"id":'*) answer '"error":{"code":-32601,"message":"no"}' ;;
    *) echo "told $line" >&2 ;;
  esac
done"#;

/// A bridge on standard input and output, and its client, which exchanges lines.
pub(super) struct Talk {
    pub(super) running: Running,
    lines: BufReader<ChildStdout>,
    /// The id of the last request.
    last: u64,
}

impl Talk {
    fn with(words: &[&str]) -> Self {
        let mut bridge = command(words);
        bridge.stdin(Stdio::piped());
        let mut running = start(bridge);
        let lines = BufReader::new(running.child.stdout.take().unwrap());
        Self { running, lines, last: 0 }
    }

    /// Like `with`, and opens the session.
    pub(super) fn open(words: &[&str]) -> Self {
        let mut talk = Self::with(words);
        let opened = talk.ask("initialize", initialize());
        assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{opened}");
        talk.tell("notifications/initialized", json!({}));
        talk
    }

    pub(super) fn say(&mut self, message: &Value) {
        writeln!(self.running.child.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request, and returns its id.
    pub(super) fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        self.say(&json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params }));
        self.last
    }

    pub(super) fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// The response to a request, and the messages before it.
    pub(super) fn answer(&mut self, id: u64) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return (message, before);
            }
            before.push(message);
        }
    }

    pub(super) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id).0
    }

    fn call(&mut self, tool: &str) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": {} }))
    }

    /// Closes the client's side.
    pub(super) fn finish(mut self) -> Ran {
        drop(self.running.child.stdin.take());
        self.running.finish()
    }
}

fn initialize() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": {} },
        "clientInfo": { "name": "t", "version": "1" },
    })
}

/// The request that opens a session.
pub(super) fn opening() -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize() }).to_string()
}

/// A bridge that listens at addresses. Ended when this is dropped.
pub(super) struct Bridge {
    running: Option<Running>,
    pub(super) addresses: Vec<String>,
    /// The lines that it printed before it listened.
    pub(super) before: Vec<String>,
    stderr: BufReader<ChildStderr>,
}

impl Bridge {
    /// Starts it, and waits until it has printed this number of listening addresses.
    fn at(words: &[&str], addresses: usize) -> Self {
        let mut running = start(command([&["bridge"], words].concat()));
        let stderr = BufReader::with_capacity(1, running.child.stderr.take().unwrap());
        let mut bridge = Self { running: Some(running), addresses: Vec::new(), before: Vec::new(), stderr };
        while bridge.addresses.len() < addresses {
            let said = bridge.says();
            match said.strip_prefix("listening on ") {
                Some(address) => bridge.addresses.push(address.to_owned()),
                None => bridge.before.push(said),
            }
        }
        bridge
    }

    /// A bridge at one address, in front of a server.
    pub(super) fn before(address: &str, server: &[&str]) -> Self {
        Self::at(&[&["--listen", address], server].concat(), 1)
    }

    /// The next line of its standard error.
    fn says(&mut self) -> String {
        let mut said = String::new();
        assert_ne!(self.stderr.read_line(&mut said).unwrap(), 0, "it has ended");
        said.trim_end().to_owned()
    }

    /// The next line that contains this word.
    pub(super) fn says_of(&mut self, word: &str) -> String {
        loop {
            let said = self.says();
            if said.contains(word) {
                return said;
            }
        }
    }

    fn mark(&self) -> &Mark {
        &self.running.as_ref().unwrap().mark
    }

    /// Ends the bridge with a signal. Asserts that no process is left and that standard output is empty.
    #[track_caller]
    pub(super) fn ends(mut self, signal: &str, code: i32) -> Ran {
        let mut running = self.running.take().unwrap();
        running.signal(signal);
        let mut stderr = String::new();
        self.stderr.read_to_string(&mut stderr).unwrap();
        running.child.stderr = None;
        let ran = running.finish().exits(code);
        assert_eq!(ran.stdout, "");
        Ran { stderr, ..ran }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

/// The number of running servers that the bridge has started.
fn servers(mark: &Mark) -> usize {
    marked(mark).iter().filter(|(_, words)| words.contains("serve demo")).count()
}

pub(super) fn within<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { timeout(DEADLINE, test).await.expect("the test hangs") })
}

/// A client of the library that fills in every form.
pub(super) async fn client(url: &str, era: Era) -> Client {
    let filled_in = json!({ "action": "accept", "content": { "username": "ada", "email": "a@b.example" } });
    let answer: ElicitResult = Raw::parse(filled_in.to_string()).unwrap().decode().unwrap();
    let client = Client::builder("t", "1").era(EraChoice::Only(era)).elicitation(move |_| {
        let answer = answer.clone();
        async { Ok(answer) }
    });
    client.connect(Link::http(url).build().unwrap()).await.unwrap()
}

pub(super) async fn call(client: &Client, tool: &str, arguments: Value) -> CallToolResult {
    client.call_tool(tool, Some(Raw::parse(arguments.to_string()).unwrap())).await.unwrap()
}

/// The content of a result, as JSON.
pub(super) fn text(result: &CallToolResult) -> String {
    format!("{:?}", result.content)
}

/// Exercises the demonstration server with a client on standard input and output, whatever lies between.
fn converse(talk: &mut Talk) {
    let list = talk.ask("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "echo"), "{list}");

    let told = json!({
        "name": "test_tool_with_progress", "arguments": {}, "_meta": { "progressToken": "a token" },
    });
    let id = talk.begin("tools/call", told);
    let (answer, before) = talk.answer(id);
    assert_eq!(answer["result"]["content"][0]["text"], "Tool with progress executed successfully");
    let progress: Vec<&Value> =
        before.iter().filter(|message| message["method"] == "notifications/progress").collect();
    assert_eq!(progress.len(), 3, "{before:?}");
    assert!(progress.iter().all(|told| told["params"]["progressToken"] == "a token"), "{before:?}");
    assert_eq!(progress[1]["params"]["message"], "Half done");

    let asking = json!({ "name": "test_elicitation", "arguments": { "message": "Who are you?" } });
    let id = talk.begin("tools/call", asking.clone());
    let question = talk.next();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert_eq!(question["params"]["message"], "Who are you?", "{question}");
    let form = json!({ "username": "ada", "email": "ada@example.com" });
    talk.say(&json!({
        "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": form },
    }));
    let (answer, _) = talk.answer(id);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("action: accept") && text.contains("ada@example.com"), "{text}");

    // The request is cancelled while the user is asked: the server cancels its own request, and sends nothing more.
    let id = talk.begin("tools/call", asking);
    let question = talk.next();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    talk.tell("notifications/cancelled", json!({ "requestId": id, "reason": "the user has gone" }));
    let back = talk.next();
    assert_eq!(back["method"], "notifications/cancelled", "{back}");
    assert_eq!(back["params"]["requestId"], question["id"], "{back}");
    let ping = talk.begin("ping", json!({}));
    let (_, before) = talk.answer(ping);
    assert!(before.is_empty(), "{before:?}");
}

#[test]
fn a_server_that_is_a_program_is_bridged_to_standard_input_and_output() {
    let mut talk = Talk::open(&["bridge", "demo:full"]);
    converse(&mut talk);
    assert_eq!(servers(&talk.running.mark), 1);
    let ran = talk.finish().exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn a_server_over_http_is_bridged_to_standard_input_and_output() {
    let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
    let sse = format!("sse+{}", url.replace("/mcp", "/sse"));
    for (url, words) in [(&url, &["bridge"][..]), (&url, &["bridge", "--era", "legacy"]), (&sse, &["bridge"])]
    {
        let mut talk = Talk::open(&[words, &[url]].concat());
        converse(&mut talk);
        assert_eq!(talk.finish().exits(0).stderr, "", "{words:?} {url}");
    }
    server.ends("TERM", 143);
}

/// Exercises the demonstration server with a client over HTTP, whatever lies between.
async fn visit(client: &Client) {
    let tools = client.list_tools().all().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "echo"));
    let mut calling = client.call_tool("test_tool_with_progress", ());
    let mut told = 0;
    while let Some(event) = calling.next_event().await {
        told += usize::from(matches!(event, CallEvent::Progress(_)));
    }
    assert!(told > 0, "no progress");
    assert!(text(&calling.await.unwrap()).contains("executed successfully"));
    let answered = call(client, "test_elicitation", json!({ "message": "Who are you?" })).await;
    assert!(text(&answered).contains("a@b.example"), "{answered:?}");
    let mut calling = client.call_tool("test_tool_with_progress", ());
    assert!(calling.next_event().await.is_some());
    drop(calling);
    assert!(text(&call(client, "echo", json!({ "message": "hi" })).await).contains("hi"));
}

#[test]
fn a_client_and_a_server_of_different_eras_are_joined() {
    for (ours, theirs) in [(Era::Modern, "legacy"), (Era::Legacy, "modern")] {
        let bridge = Bridge::at(&["--era", theirs, "--listen", "http://127.0.0.1:0/mcp", "demo:full"], 1);
        within(async {
            let client = client(&bridge.addresses[0], ours).await;
            visit(&client).await;
            client.close().await;
        });
        assert_eq!(bridge.ends("TERM", 143).stderr, "");
    }
    let mut talk = Talk::open(&["bridge", "--era", "modern", "demo:full"]);
    converse(&mut talk);
    talk.finish().exits(0);
}

#[test]
fn a_server_that_is_a_program_is_bridged_to_http_for_both_eras_and_each_session_has_its_own() {
    let bridge = Bridge::before("http://127.0.0.1:0/mcp", &["demo:full"]);
    assert_eq!(bridge.before, [""; 0]);
    let url = &bridge.addresses[0];
    assert_eq!(servers(bridge.mark()), 0, "nothing is started before it is needed");
    within(async {
        let one = client(url, Era::Legacy).await;
        let other = client(url, Era::Legacy).await;
        let modern = client(url, Era::Modern).await;
        for client in [&one, &other, &modern] {
            visit(client).await;
        }
        // One server for each session, and one for all clients without a session.
        assert_eq!(servers(bridge.mark()), 3);
        // The client ends its session with DELETE, and the server of that session exits.
        one.close().await;
        until(|| (servers(bridge.mark()) == 2).then_some(()));
        modern.close().await;
        assert!(text(&call(&other, "echo", json!({ "message": "still" })).await).contains("still"));
        // The remaining servers end with the bridge.
    });
    assert_eq!(bridge.ends("TERM", 143).stderr, "");
}

#[test]
fn old_clients_are_served_beside_at_a_path_of_their_own() {
    let bridge = Bridge::before("sse+http://127.0.0.1:0/events", &["demo:full"]);
    let url = &bridge.addresses[0];
    assert!(url.starts_with("sse+http://127.0.0.1:") && url.ends_with("/events"), "{url}");
    assert_eq!(line(&format!("call {url} echo message=hi")).exits(0).stdout, "hi\n");
    let newer = url.replace("sse+", "").replace("/events", "/mcp");
    let ran = line(&format!("list --json --era modern {newer}")).exits(0).json();
    assert_eq!(ran["protocolVersion"], "2026-07-28");
    until(|| (servers(bridge.mark()) <= 1).then_some(()));
    bridge.ends("INT", 130);
}

#[test]
fn every_address_is_served_at_once_whatever_its_kind() {
    let path = scratch("relay-socket");
    let unix = format!("unix:{}", path.display());
    let mut bridge = Bridge::at(
        &[
            "-v",
            "--listen",
            &unix,
            "--listen",
            "tcp://127.0.0.1:0",
            "--listen",
            "http://[::1]:0/mcp",
            "demo:full",
        ],
        3,
    );
    for address in bridge.addresses.clone() {
        for era in ["legacy", "modern"] {
            let ran = line(&format!("call --era {era} {address} echo message=hi")).exits(0);
            assert_eq!(ran.stdout, "hi\n", "{address}");
        }
    }
    assert_eq!(
        bridge.says_of("connection 1 to the server is there"),
        "connection 1 to the server is there: mcpjoin serve demo --full"
    );
    bridge.says_of("connection 1 to the server is over");
    bridge.ends("TERM", 143);
    assert!(!path.exists());
    // Over QUIC, the printed address has the pin of the bridge's key.
    let mut bridge = Bridge::before("quic://127.0.0.1:0", &["demo:full"]);
    let known = bridge.says_of("the key changes with every start; clients use: mcpjoin list ");
    let words = known.split("mcpjoin list ").nth(1).unwrap();
    assert_eq!(line(&format!("call {words} echo message=hi")).exits(0).stdout, "hi\n");
    bridge.ends("TERM", 143);
}

#[test]
fn a_server_that_dies_in_mid_call_is_named_with_how_it_ended_and_the_next_call_works() {
    for listens in [false, true] {
        let words = ["--era", "legacy", "--", "sh", "-c", SHELL];
        let (bridge, target) = if listens {
            let bridge = Bridge::at(&[&["--listen", "tcp://127.0.0.1:0"][..], &words].concat(), 1);
            let target = bridge.addresses[0].clone();
            (Some(bridge), vec![target])
        } else {
            (None, words.iter().map(|word| (*word).to_owned()).collect())
        };
        // The address is reached through a second bridge on standard input and output.
        let words: Vec<&str> = std::iter::once("bridge").chain(target.iter().map(String::as_str)).collect();
        let mut talk = Talk::open(&words);
        assert_eq!(talk.call("work")["result"]["content"][0]["text"], "done");
        let died = talk.call("die");
        let said = died["error"].to_string();
        // The server's standard error is shown to the user who started it, not to a client at an address.
        assert_eq!(
            (said.contains("exit code 7"), said.contains("the disk is gone")),
            (true, !listens),
            "{died}"
        );
        assert_eq!(died["error"]["code"], -32603, "{died}");
        let again = talk.call("work");
        assert_eq!(again["result"]["content"][0]["text"], "done", "{again}");
        let ran = talk.finish().exits(0);
        let said = match bridge {
            Some(bridge) => bridge.ends("TERM", 143).stderr,
            None => ran.stderr,
        };
        assert!(said.contains("exit code 7") && said.contains("is started again in"), "{said}");
    }
}

/// The signal is ours, and says nothing about the server.
#[test]
fn a_server_that_closes_its_output_and_lives_has_not_ended_by_a_signal() {
    let closes =
        SHELL.replace("echo 'the disk is gone' >&2; exit 7", "exec >&-; cat >/dev/null; exec sleep 1000");
    let mut talk = Talk::open(&["bridge", "--era", "legacy", "--", "sh", "-c", &closes]);
    let gone = talk.call("die");
    let message = gone["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("the peer closed the connection"), "{gone}");
    assert_eq!(talk.call("work")["result"]["content"][0]["text"], "done");
    let ran =
        talk.finish().exits(0).says(&["the server: the peer closed the connection", "it is started again"]);
    assert!(!ran.stderr.contains("signal"), "{}", ran.stderr);
}

#[test]
fn a_server_that_does_not_stay_is_given_up_and_both_sides_get_the_reason() {
    // The server answers the messages that open the session, and exits at the next request.
    let server = super::support::legacy("exec 2>&1; exit 7");
    let mut talk = Talk::open(&["bridge", "--era", "legacy", "--", "sh", "-c", &server]);
    let refused = until(|| {
        let answer = talk.call("work");
        (answer["error"]["data"]["gateway"] == "givenUp").then_some(answer)
    });
    let said = refused["error"]["message"].as_str().unwrap();
    assert!(said.contains("no longer restarted after 5 starts") && said.contains("exit code 7"), "{said}");
    talk.finish().exits(0).says(&["(exit code 7); it is not opened again"]);
}

#[test]
fn i170_what_is_in_progress_at_the_end_of_input_is_finished_and_a_signal_leaves_nothing() {
    let mut talk = Talk::open(&["bridge", "demo:full"]);
    let id = talk.begin("tools/call", json!({ "name": "test_tool_with_logging", "arguments": {} }));
    drop(talk.running.child.stdin.take());
    let (answer, _) = talk.answer(id);
    assert!(answer["result"]["content"].is_array(), "{answer}");
    talk.finish().exits(0);

    for (signal, code) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        let mut talk = Talk::open(&["bridge", "-v", "--era", "legacy", "--", "sh", "-c", SHELL]);
        talk.begin("tools/call", json!({ "name": "wait", "arguments": {} }));
        let mut stderr = BufReader::new(talk.running.child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("waiting") {
            said.clear();
            assert_ne!(stderr.read_line(&mut said).unwrap(), 0);
        }
        talk.running.signal(signal);
        talk.finish().exits(code);
    }
}

#[test]
fn d78_a_bridge_that_is_killed_leaves_nothing() {
    let deaf = format!("trap '' TERM HUP INT; {SHELL}\nsleep 1000");
    let words = ["bridge", "-v", "--era", "legacy", "--", "sh", "-c", &deaf];
    let mut talk = Talk::open(&words);
    assert_eq!(talk.call("work")["result"]["content"][0]["text"], "done");
    let guards = || super::orphans::guards(talk.running.child.id()).first().copied();
    until(guards);
    assert!(marked(&talk.running.mark).len() > 1);
    talk.running.signal("KILL");
    talk.running.child.wait().unwrap();
    until(|| marked(&talk.running.mark).is_empty().then_some(()));
}

#[test]
fn a_program_that_is_missing_is_reported_to_both_sides() {
    let mut talk = Talk::with(&["bridge", "./no-such-server"]);
    let refused = talk.ask("initialize", initialize());
    assert!(refused["error"]["message"].as_str().unwrap().contains("no such program"), "{refused}");
    talk.finish().exits(4).says(&["(E_SPAWN_NOT_FOUND)", "doing    spawn", "./no-such-server"]);

    let mut talk = Talk::with(&["bridge", "sh", "-c", "echo 'no luck' >&2; exit 3"]);
    let refused = talk.ask("initialize", initialize());
    let said = refused["error"].to_string();
    assert!(said.contains("exit code 3") && said.contains("no luck"), "{refused}");
    let ran = talk.finish().exits(4);
    ran.says(&["(E_SERVER_EXITED)", "ended    exit code 3", "stderr   no luck"]);

    // A bridge at an address reports this fault without waiting for a client.
    let ran = line("bridge --listen http://127.0.0.1:0/mcp ./no-such-server").exits(4);
    assert!(!ran.stderr.contains("listening on"), "{}", ran.stderr);
    ran.says(&["(E_SPAWN_NOT_FOUND)", "./no-such-server"]);
    // A word that could be the name of an entry is reported as by the other verbs.
    let ran = run(["bridge", "--listen", "http://127.0.0.1:0/mcp", "no-such-server"]).exits(4);
    ran.says(&["no-such-server: no configuration contains an entry of that name, and no program on PATH"]);
    // A fault that shows only when the server starts is reported to both the client and the operator. Only the operator sees
    // the server's standard error.
    let bridge = Bridge::before("tcp://127.0.0.1:0", &["sh", "-c", "echo 'no luck' >&2; exit 3"]);
    // The client does not receive the server's standard error, because any client can connect.
    let ran = line(&format!("ping --era legacy {}", bridge.addresses[0])).exits(4).says(&["exit code 3"]);
    assert!(!ran.stderr.contains("no luck"), "{}", ran.stderr);
    let said = bridge.ends("TERM", 143).stderr;
    assert!(said.contains("(E_SERVER_EXITED)") && said.contains("no luck"), "{said}");
}

#[test]
fn clients_of_a_port_that_do_not_speak_mcp_are_named_once_a_minute_and_shortly() {
    let bridge = Bridge::before("tcp://127.0.0.1:0", &["demo:"]);
    let address = bridge.addresses[0].strip_prefix("tcp://").unwrap();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).unwrap();
        // It may be closed before it has taken everything.
        let _ = stream.write_all(&[&[0xd3; 4000][..], b"\n"].concat());
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let said = bridge.ends("TERM", 143).stderr;
    let warnings: Vec<&str> = said.lines().filter(|line| line.contains("does not speak MCP")).collect();
    assert_eq!(warnings.len(), 1, "{said}");
    assert!(warnings[0].contains("127.0.0.1:") && warnings[0].len() < 400, "{said}");
}

#[test]
fn what_cannot_be_listened_on_or_be_meant_ends_it_at_once_with_two() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap();
    for scheme in ["http", "sse+http", "tcp"] {
        let ran = line(&format!("bridge --listen {scheme}://{port} demo:")).exits(2);
        ran.says(&["(E_LISTEN)", "check that the address is free"]);
    }
    for (words, told) in [
        ("", "no server is named"),
        ("--listen http://127.0.0.1:0/mcp", "no server is named"),
        ("--listen nonsense demo:", "not an address to listen on"),
        ("--listen http://127.0.0.1:0/sse demo:", "2024-11-05"),
        ("--listen orchestra://127.0.0.1:0 --listen tcp://127.0.0.1:0 demo:", "run two bridges"),
        ("--listen tcp://127.0.0.1:0 --also demo: demo:", "--also is for Orchestra's clients"),
        ("--listen tcp://127.0.0.1:0 --allow-host h demo:", "--allow-host is for clients over HTTP"),
        ("--listen orchestra://127.0.0.1:0 --allow-host h demo:", "--allow-host is for clients of MCP"),
        ("--listen orchestra://127.0.0.1:0 --max-sessions 1 demo:", "--max-sessions is for clients of MCP"),
        ("--listen tcp://127.0.0.1:0 --client-ca x demo:", "--client-ca is for clients over QUIC or HTTPS"),
        ("--listen http://127.0.0.1:0/ --allow-origin * demo:", "--allow-origin"),
        ("--listen http://127.0.0.1:0/ --allow-host http://h demo:", "--allow-host"),
        ("--listen http://127.0.0.1:0/ --max-sessions 0 demo:", "--max-sessions"),
        ("--auth-issuer https://a.example demo:", "--listen"),
        ("--listen http://127.0.0.1:0/ --auth-resource https://a.example demo:", "--auth-issuer"),
        ("--listen http://127.0.0.1:0/ --auth-scope a demo:", "--auth-issuer"),
        ("--listen http://127.0.0.1:0/ --auth-ca a demo:", "--auth-issuer"),
        (
            "--listen http://127.0.0.1:0/ --auth-issuer https://a.example --auth-ca /nowhere/ca.pem demo:",
            "--auth-ca FILE, where FILE is in PEM",
        ),
        (
            "--listen http://127.0.0.1:0/ --auth-issuer https://a.example --auth-ca /dev/null demo:",
            "--auth-ca FILE, where FILE is in PEM",
        ),
        (
            "--listen tcp://127.0.0.1:0 --auth-issuer https://a.example demo:",
            "--auth-issuer is for clients over HTTP",
        ),
        (
            "--listen http://127.0.0.1:0/ --listen tcp://127.0.0.1:0 --auth-issuer https://a.example demo:",
            "would need no token",
        ),
        (
            "--listen orchestra://127.0.0.1:0 --auth-issuer https://a.example demo:",
            "--auth-issuer is for clients of MCP",
        ),
        ("--listen http://127.0.0.1:0/ --auth-issuer http://a.example demo:", "--auth-issuer https://HOST"),
        ("--listen http://127.0.0.1:0/ --auth-issuer a.example demo:", "--auth-issuer https://HOST"),
        (
            "--listen http://127.0.0.1:0/ --auth-issuer https://a.example --auth-scope offline_access demo:",
            "--auth-scope",
        ),
        (
            "--listen http://127.0.0.1:0/ --auth-issuer https://a.example --auth-resource http://a.example/ demo:",
            "--auth-resource https://HOST/PATH",
        ),
        (
            "--listen http://0.0.0.0:0/ --auth-issuer https://a.example demo:",
            "--auth-resource https://HOST/PATH",
        ),
        ("--orchestrator-addr localhost:1 --auth-issuer https://a.example", "cannot be used with"),
        ("--max-sessions 1 demo:", "--listen"),
        ("--session-idle 1m demo:", "--listen"),
        ("--listen quic://127.0.0.1:0 --cert x demo:", "--key"),
        ("--cert x --key y demo:", "--cert is for a server over QUIC"),
        ("-H A:b demo:", "--header is for a server over HTTP"),
        ("--clients-ca x --orchestrator-addr localhost:1", "cannot be used with"),
        ("http://127.0.0.1:1/mcp http://127.0.0.1:2/mcp", "takes no words after"),
    ] {
        let words: Vec<&str> = std::iter::once("bridge").chain(words.split_whitespace()).collect();
        let ran = run(&words).exits(2);
        assert_eq!(ran.stdout, "", "{words:?}");
        ran.says(&[told]);
    }
}

#[test]
fn a_listener_that_everybody_can_reach_is_warned_of_once() {
    for (words, told) in [
        (&["--listen", "tcp://0.0.0.0:0", "--listen", "http://0.0.0.0:0/mcp"][..], "no encryption"),
        (&["--listen", "quic://0.0.0.0:0"], "there is no authentication"),
        (&["--listen", "quic://127.0.0.1:0"], ""),
    ] {
        let bridge = Bridge::at(&[words, &["demo:full"]].concat(), words.len() / 2);
        match told {
            "" => assert!(bridge.before.is_empty(), "{:?}", bridge.before),
            told => {
                let [warning] = &bridge.before[..] else { panic!("{:?}", bridge.before) };
                assert!(
                    warning.starts_with("warning: everyone who can reach") && warning.ends_with(told),
                    "{warning}"
                );
            }
        }
        bridge.ends("TERM", 143);
    }
}

#[test]
fn what_the_configuration_does_not_allow_is_in_no_list_and_cannot_be_called() {
    let entry = json!({ "mcpServers": { "ours": {
        "command": env!("CARGO_BIN_EXE_mcpjoin"), "args": ["serve", "demo", "--full"], "disabled_tools": ["add", "test_*"],
    } } })
    .to_string();
    let mut talk = Talk::open(&["bridge", "--mcp-config", &entry, "ours"]);
    let list = talk.ask("tools/list", json!({}))["result"]["tools"].to_string();
    assert!(list.contains("\"echo\"") && !list.contains("test_simple_text"), "{list}");
    let refused = talk.call("test_simple_text");
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let allowed = talk.ask("tools/call", json!({ "name": "echo", "arguments": { "message": "hi" } }));
    assert_eq!(allowed["result"]["content"][0]["text"], "hi", "{allowed}");
    talk.finish().exits(0);
}

#[test]
fn a_message_that_is_too_large_is_refused_with_the_reason_and_the_conversation_goes_on() {
    let mut talk = Talk::open(&["bridge", "demo:full"]);
    // 100 MiB, written by hand, because a JSON library would take too long for them.
    let piece = vec![b'x'; 1 << 20];
    let stdin = talk.running.child.stdin.as_mut().unwrap();
    write!(stdin, r#"{{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{{"name":"echo","x":""#)
        .unwrap();
    for _ in 0..100 {
        stdin.write_all(&piece).unwrap();
    }
    stdin.write_all(b"\"}}\n").unwrap();
    let refused = talk.next();
    assert_eq!(refused["id"], "big", "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("10485760 bytes"), "{refused}");
    let taken = talk.ask("tools/call", json!({ "name": "echo", "arguments": { "message": "hi" } }));
    assert_eq!(taken["result"]["content"][0]["text"], "hi");
    talk.finish().exits(0).says(&["10485760 bytes", "--max-message-size raises the limit"]);
    // The limit is that of both sides: it also applies to the server's responses.
    let mut talk = Talk::open(&["bridge", "--max-message-size", "4KiB", "demo:full"]);
    let refused = talk.ask("tools/list", json!({}));
    let said = refused["error"].to_string();
    assert!(said.contains("4096") && said.contains("tooLarge"), "{refused}");
    let taken = talk.ask("tools/call", json!({ "name": "echo", "arguments": { "message": "hi" } }));
    assert_eq!(taken["result"]["content"][0]["text"], "hi");
    talk.finish().exits(0).says(&["4096 bytes", "--max-message-size raises the limit"]);
}

/// The status of the response to an HTTP request, and the rest of the response.
pub(super) fn http(address: &str, head: &str, body: &str) -> (u16, String) {
    let authority = address.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(authority).unwrap();
    let head = if head.contains("host:") { head.to_owned() } else { format!("{head}host: {authority}\r\n") };
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\n{head}connection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[test]
fn who_may_come_over_http_and_for_how_long_is_what_the_options_say() {
    let bridge = Bridge::at(
        &[
            "--listen",
            "http://127.0.0.1:0/mcp",
            "--allow-host",
            "tools.example.com",
            "--allow-origin",
            "https://app.example.com",
            "--session-idle",
            "200ms",
            "demo:full",
        ],
        1,
    );
    let url = &bridge.addresses[0];
    let open = opening();
    assert_eq!(http(url, "host: evil.example\r\n", &open).0, 403);
    assert_eq!(http(url, "origin: https://evil.example\r\n", &open).0, 403);
    let head = "host: tools.example.com\r\norigin: https://app.example.com\r\n";
    let (status, answer) = http(url, head, &open);
    assert_eq!(status, 200, "{answer}");
    assert!(answer.contains("access-control-allow-origin: https://app.example.com"), "{answer}");
    // The server has been idle for the given time.
    until(|| (servers(bridge.mark()) == 0).then_some(()));
    assert_eq!(http(url, "", &open).0, 200);
    bridge.ends("TERM", 143);
}

#[test]
fn one_session_too_many_is_refused_for_now_and_a_message_too_large_names_the_option() {
    let words = ["--max-sessions", "1", "--max-message-size", "4KiB", "--listen", "http://127.0.0.1:0/mcp"];
    let bridge = Bridge::at(&[&words[..], &["--era", "legacy", "--", "sh", "-c", SHELL]].concat(), 1);
    let url = &bridge.addresses[0];
    let open = opening();
    // The session outlives its connection: it ends after 30 min without a request.
    let (status, answer) = http(url, "", &open);
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = http(url, "", &open);
    assert_eq!(status, 503, "{answer}");
    assert!(answer.to_ascii_lowercase().contains("retry-after: "), "{answer}");
    let (status, answer) = http(url, "", &"x".repeat(4097));
    assert_eq!(status, 413, "{answer}");
    assert!(answer.contains("4096 bytes; --max-message-size raises the limit"), "{answer}");
    bridge.ends("TERM", 143);
}

#[test]
fn clients_that_are_refused_for_the_same_again_and_again_are_one_failure() {
    let words = ["--max-sessions", "1", "--listen", "tcp://127.0.0.1:0", "--era", "legacy", "--"];
    let bridge = Bridge::at(&[&words[..], &["sh", "-c", SHELL]].concat(), 1);
    let authority = bridge.addresses[0].strip_prefix("tcp://").unwrap();
    let opened = || {
        let mut client = TcpStream::connect(authority).unwrap();
        writeln!(client, "{}", opening()).unwrap();
        let mut answer = String::new();
        BufReader::new(client.try_clone().unwrap()).read_line(&mut answer).unwrap();
        (client, answer)
    };
    let (_stays, answer) = opened();
    assert!(answer.contains("2025-11-25"), "{answer}");
    for _ in 0..3 {
        let (_, answer) = opened();
        assert!(answer.contains("no server is free for another client"), "{answer}");
    }
    let said = bridge.ends("TERM", 143).stderr;
    assert_eq!(said.matches("(E_REFUSED)").count(), 1, "{said}");
}

#[test]
fn a_client_that_ends_its_input_before_the_server_is_ready_gets_an_error_and_so_does_the_shell() {
    let silent = ["--era", "legacy", "--", "sh", "-c", "cat >/dev/null"];
    let mut talk = Talk::with(&[&["bridge"], &silent[..]].concat());
    let id = talk.begin("initialize", initialize());
    drop(talk.running.child.stdin.take());
    let said = "the server was not ready within 10 s after the client had closed its side";
    assert_eq!(talk.answer(id).0["error"]["message"], said);
    talk.finish().exits(4).says(&[
        said,
        "(E_TIMEOUT)",
        "keep standard input open until the response has come",
    ]);
}

#[test]
fn at_a_second_signal_what_is_in_progress_is_not_waited_for() {
    let words = ["-v", "--listen", "tcp://127.0.0.1:0", "--era", "legacy", "--", "sh", "-c", SHELL];
    let mut bridge = Bridge::at(&words, 1);
    let authority = bridge.addresses[0].strip_prefix("tcp://").unwrap().to_owned();
    let mut client = TcpStream::connect(&authority).unwrap();
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait","arguments":{}}}"#;
    let told = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    write!(client, "{}\n{told}\n{call}\n", opening()).unwrap();
    bridge.says_of("waiting");
    let began = Instant::now();
    bridge.running.as_ref().unwrap().signal("INT");
    // New connections are refused, and the existing one is awaited.
    until(|| TcpStream::connect(&authority).is_err().then_some(()));
    assert!(bridge.running.as_mut().unwrap().child.try_wait().unwrap().is_none());
    bridge.ends("INT", 130);
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[test]
fn what_the_server_is_to_get_is_what_the_options_say() {
    // The server knows one version, and returns its environment and directory.
    let server = SHELL
        .replace(r#"*'"method":"initialize"'*"#, r#"*'"protocolVersion":"2025-06-18"'*"#)
        .replace("2025-11-25", "2025-06-18")
        .replace(r#""text":"done""#, r#""text":"'"$ADA $PWD"'""#);
    let mut talk = Talk::with(&[
        "bridge",
        "--era",
        "legacy",
        "--protocol-version",
        "2025-06-18",
        "-e",
        "ADA=lovelace",
        "--cwd",
        "/",
        "-t",
        "4s",
        "--",
        "sh",
        "-c",
        &server,
    ]);
    let opened = talk.ask("initialize", initialize());
    assert_eq!(opened["result"]["serverInfo"]["name"], "shell", "{opened}");
    talk.tell("notifications/initialized", json!({}));
    let surroundings = talk.call("work");
    assert_eq!(surroundings["result"]["content"][0]["text"], "lovelace /", "{surroundings}");
    let late = talk.call("wait");
    assert_eq!(late["error"]["data"]["afterMs"], 4000, "{late}");
    talk.finish().exits(0);
}

#[test]
fn of_the_headers_of_a_client_none_reaches_the_server_and_ours_do() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = format!("http://{}/mcp", server.local_addr().unwrap());
    let (head, heads) = mpsc::channel();
    // Refuses every request, and reports the requests. Runs until the process of the test ends.
    thread::spawn(move || {
        for stream in server.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(stream);
            let mut asked = String::new();
            while !asked.ends_with("\r\n\r\n") && lines.read_line(&mut asked).is_ok_and(|read| read > 0) {}
            let _ = write!(
                lines.into_inner(),
                "HTTP/1.1 500 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
            if head.send(asked.to_ascii_lowercase()).is_err() {
                return;
            }
        }
    });
    let words = ["--era", "legacy", "-H", "X-Ada: lovelace", "--listen", "http://127.0.0.1:0/mcp"];
    let bridge = Bridge::at(&[&words[..], &[&upstream]].concat(), 1);
    let theirs = "authorization: Bearer hunter2\r\ncookie: who=hunter2\r\nx-theirs: hunter2\r\n";
    let (_, answer) = http(&bridge.addresses[0], theirs, &opening());
    assert!(answer.contains("\"error\""), "{answer}");
    let asked = heads.recv_timeout(DEADLINE).unwrap();
    for asked in std::iter::once(asked).chain(heads.try_iter()) {
        assert!(asked.contains("x-ada: lovelace\r\n"), "{asked}");
        assert!(!asked.contains("hunter2"), "{asked}");
    }
    bridge.ends("TERM", 143);
}

#[test]
fn over_http_it_asks_for_a_token_and_says_where_one_is_to_be_had() {
    let words = [
        "--listen",
        "http://0.0.0.0:0/mcp",
        "--auth-issuer",
        "http://127.0.0.1:1/as",
        "--auth-resource",
        "https://tools.example.com/mcp",
        "--auth-scope",
        "read",
        "--auth-scope",
        "write",
        "demo:full",
    ];
    let mut bridge = Bridge::at(&words, 1);
    let [warning] = &bridge.before[..] else { panic!("{:?}", bridge.before) };
    assert!(warning.starts_with("warning: no encryption: tokens can be read in transit"), "{warning}");
    assert_eq!(bridge.says(), "requires tokens of http://127.0.0.1:1/as for https://tools.example.com/mcp");
    let address = bridge.addresses[0].replace("0.0.0.0", "127.0.0.1");
    // By the public name, and by the address of this machine.
    for head in ["", "host: tools.example.com\r\n"] {
        let (status, answer) = http(&address, head, &opening());
        assert_eq!(status, 401, "{answer}");
        let challenge = "www-authenticate: Bearer resource_metadata=\"https://tools.example.com/.well-known/\
            oauth-protected-resource/mcp\", scope=\"read write\"\r\n";
        assert!(answer.contains(challenge), "{answer}");
    }
    assert_eq!(http(&address, "host: evil.example\r\n", &opening()).0, 403);
    // A token that does not have the form of that issuer's tokens is refused without a request to the issuer.
    let (status, answer) = http(&address, "authorization: Bearer hunter2\r\n", &opening());
    assert!(
        status == 401 && answer.contains("error=\"invalid_token\"") && !answer.contains("hunter2"),
        "{answer}"
    );
    bridge.ends("TERM", 143);
}

#[test]
fn over_quic_it_shows_its_certificate_and_admits_clients_that_the_authorities_have_signed() {
    let files = Certificates::new("relay-certificates");
    files.make("server");
    files.make("client");
    let path = |name| files.path(name);
    let (ca, cert, key) = (path("ca.pem"), path("client.pem"), path("client.key"));
    let (shown, its_key) = (path("server.pem"), path("server.key"));
    let words = ["--listen", "quic://127.0.0.1:0", "--cert", &shown, "--key", &its_key, "--client-ca", &ca];
    let bridge = Bridge::at(&[&words[..], &["demo:full"]].concat(), 1);
    let address = bridge.addresses[0].as_str();
    let call = ["echo", "message=hi"];
    let known = ["call", "--ca", &ca, "--cert", &cert, "--key", &key, address];
    assert_eq!(run([&known[..], &call].concat()).exits(0).stdout, "hi\n");
    run([&["call", "--ca", &ca, address][..], &call].concat()).exits(3).says(&["(E_AUTH)"]);
    bridge.ends("TERM", 143);
}

#[test]
fn what_crosses_to_the_server_is_written_down_with_the_number_of_the_connection() {
    let trace = scratch("relay-trace");
    let bridge =
        Bridge::at(&["--trace", trace.to_str().unwrap(), "--listen", "tcp://127.0.0.1:0", "demo:full"], 1);
    for _ in 0..2 {
        line(&format!("call --era legacy {} echo message=hi", bridge.addresses[0])).exits(0);
    }
    bridge.ends("TERM", 143);
    let lines = std::fs::read_to_string(&trace).unwrap();
    std::fs::remove_file(trace).unwrap();
    for connection in [1, 2] {
        let of_one: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|line: &Value| line["connection"] == connection)
            .collect();
        assert_eq!(of_one[0]["message"]["method"], "initialize", "{lines}");
        assert!(of_one.iter().any(|line| line["message"]["method"] == "tools/call"), "{lines}");
    }
}

#[test]
fn at_sigterm_the_session_at_a_server_over_http_is_ended() {
    let target = Bridge::before("http://127.0.0.1:0/mcp", &["demo:"]);
    let bridge = Bridge::before("http://127.0.0.1:0/mcp", &[&target.addresses[0]]);
    let (status, answer) = http(&bridge.addresses[0], "", &opening());
    assert_eq!(status, 200, "{answer}");
    assert_eq!(servers(target.mark()), 1);
    bridge.ends("TERM", 143);
    // Otherwise it would be there until the session has been idle for long.
    until(|| (servers(target.mark()) == 0).then_some(()));
}
