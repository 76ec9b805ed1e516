//! Two bridges that share state in a real Redis: as with sealing alone nothing but calls in progress is lost, sessions that do not fit
//! into an id are served by both, and a stream is resumed at the other bridge.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use interop::{Folder, Listening, Peer, Redis, Way};
use mcpjoin::Server;
use mcpjoin::proto::Raw;
use mcpjoin::proto::types::Tool;
use mcpjoin::server::Context;
use mcpjoin::transport::{HttpListener, HttpOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, interval, timeout};

use super::backends::{LISTENING, Servers};
use super::replicas::{CLIENTS, Replica, costs_only_calls_in_progress, key_options};

/// The time limit of a test: far more than it takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// The options of a bridge with a key and this Redis, which may take its time: the machine is busy.
fn options(folder: &std::path::Path, redis: &Redis) -> Vec<OsString> {
    let mut options = key_options(folder);
    options.extend(["--state", &redis.url(), "--state-timeout", "5s"].map(OsString::from));
    options
}

#[test]
fn a_killed_bridge_costs_only_the_calls_in_progress_there_with_sessions_in_redis_too() {
    let redis = Redis::start(&[]).unwrap();
    let servers = Servers::start("shared-state");
    let options = options(servers.folder.path(), &redis);
    // Every other legacy client says so much of itself that no id can contain it.
    let called = |client: usize| if client.is_multiple_of(4) { "x".repeat(5_000) } else { "load".to_owned() };
    let outcome = costs_only_calls_in_progress(&servers, LISTENING, &options, called);
    eprintln!("{}", outcome.text);
    assert_eq!(outcome.opened, CLIENTS / 2, "clients have initialized again");
}

/// A server with a tool that says `begun`, and ends when the gate opens.
async fn slow_server(gate: Arc<Semaphore>, runs: Arc<AtomicUsize>) -> String {
    let anything = Raw::parse(r#"{"type":"object"}"#).unwrap();
    let slow = move |_: Raw, cx: Context| {
        let (gate, runs) = (gate.clone(), runs.clone());
        async move {
            runs.fetch_add(1, Ordering::Relaxed);
            cx.progress(1.0, None, Some("begun"));
            gate.acquire().await.unwrap().forget();
            "slowly done".to_owned()
        }
    };
    let server = Server::builder("slow", "1").raw_tool(Tool::new("slow", anything), slow).build().unwrap();
    let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
    let url = listener.url();
    tokio::spawn(async move {
        server.serve_http(listener, HttpOptions::new(), std::future::pending::<()>()).await;
    });
    url
}

/// A request that was sent, and what has arrived of its response.
struct Asked {
    stream: TcpStream,
    said: String,
}

impl Asked {
    async fn send(port: u16, method: &str, head: &str, body: &str) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let length = body.len();
        let request = format!(
            "{method} /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{head}\
             accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        Self { stream, said: String::new() }
    }

    /// Reads until this text, or the end. Returns whether the text has arrived.
    async fn says(&mut self, text: &str) -> bool {
        while !self.said.contains(text) {
            let mut bytes = Vec::new();
            if self.stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                return false;
            }
            self.said += &String::from_utf8_lossy(&bytes);
        }
        true
    }

    /// The value of the first line that begins so.
    fn line(&self, begin: &str) -> String {
        let line = self.said.lines().find_map(|line| line.strip_prefix(begin));
        line.unwrap_or_else(|| panic!("no {begin} in {}", self.said)).trim().to_owned()
    }
}

/// Resumes a stream behind this event until it has said this text: one resumption gets what is there.
async fn resumed(port: u16, session: &str, after: &str, text: &str) -> String {
    let mut pace = interval(Duration::from_millis(200));
    loop {
        pace.tick().await;
        let mut asked = Asked::send(port, "GET", &format!("{session}last-event-id: {after}\r\n"), "").await;
        let is_there = asked.says(text).await;
        assert!(asked.said.starts_with("HTTP/1.1 200"), "{}", asked.said);
        if is_there {
            return asked.said;
        }
    }
}

/// `initialize` at this port. Returns the head of further requests.
async fn opened(port: u16, name: &str) -> String {
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": name, "version": "1" },
    } });
    let mut asked = Asked::send(port, "POST", "", &initialize.to_string()).await;
    assert!(asked.says("serverInfo").await, "{}", asked.said);
    format!("mcp-session-id: {}\r\nmcp-protocol-version: 2025-11-25\r\n", asked.line("mcp-session-id: "))
}

/// A call of `slow` that has sent progress.
async fn begun(port: u16, session: &str) -> Asked {
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "a__slow", "arguments": {}, "_meta": { "progressToken": "p" },
    } });
    let mut asked = Asked::send(port, "POST", session, &call.to_string()).await;
    assert!(asked.says("begun").await, "{}", asked.said);
    asked
}

#[test]
fn a_stream_is_resumed_at_the_other_bridge_also_after_its_own_was_killed() {
    let mut redis = Redis::start(&[]).unwrap();
    let folder = Folder::new("resumed");
    let (gate, runs) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let test = async {
        let target = slow_server(gate.clone(), runs.clone()).await;
        let mut options = options(folder.path(), &redis);
        options.extend(["--join".into(), format!("a={target}").into()]);
        let mut one = Replica::start(&options);
        let other = Replica::start(&options);
        // A short id is sealed; a long one is a name of Redis.
        for (number, name) in [(1, "short".to_owned()), (2, "x".repeat(5_000))] {
            let session = opened(one.port(), &name).await;
            assert_eq!(session.lines().next().unwrap().len() > 100, number == 1, "{session}");
            let asked = begun(one.port(), &session).await;
            let begin = asked.line("id: ");
            assert!(begin.ends_with("-0"), "{begin}");
            drop(asked);
            // What is there already, at the bridge that has never seen the stream.
            let first = resumed(other.port(), &session, &begin, "begun").await;
            assert!(!first.contains("slowly done"), "{first}");
            gate.add_permits(1);
            let whole = resumed(other.port(), &session, &begin, "slowly done").await;
            assert!(whole.contains("begun"), "{whole}");
            assert_eq!(runs.load(Ordering::Relaxed), number, "no call runs twice");
            // Its bridge dies; what was stored is there.
            one.kill();
            assert!(resumed(other.port(), &session, &begin, "slowly done").await.contains("begun"));
            one.start_again();
            assert!(resumed(one.port(), &session, &begin, "slowly done").await.contains("begun"));
        }
        // Redis is restarted, and empty. A sealed session goes on; another one has to be opened again.
        let (sealed, stored) =
            (opened(one.port(), "short").await, opened(one.port(), &"x".repeat(5_000)).await);
        redis.kill();
        redis.start_again().unwrap();
        let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }).to_string();
        let mut pace = interval(Duration::from_millis(200));
        let status = async |session: &str| {
            let mut asked = Asked::send(other.port(), "POST", session, &list).await;
            asked.says("\r\n\r\n").await;
            asked.said.get(9..12).unwrap().to_owned()
        };
        assert_eq!(status(&sealed).await, "200");
        // 503 until the bridge has reached it.
        while status(&stored).await == "503" {
            pace.tick().await;
        }
        assert_eq!(status(&stored).await, "404");
    };
    runtime.block_on(async { timeout(DEADLINE, test).await.expect("the test hangs") });
}

#[test]
fn a_call_whose_bridge_was_killed_ends_with_an_error_at_the_other_one_and_is_not_repeated() {
    let redis = Redis::start(&[]).unwrap();
    let folder = Folder::new("killed");
    let (gate, runs) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let test = async {
        let target = slow_server(gate.clone(), runs.clone()).await;
        let join = ["--join".into(), format!("a={target}").into()];
        let with_redis = [&options(folder.path(), &redis)[..], &join].concat();
        let sealed_alone = [&key_options(folder.path())[..], &join].concat();
        let (mut one, other) = (Replica::start(&with_redis), Replica::start(&with_redis));
        for (number, name) in [(1, "short".to_owned()), (2, "x".repeat(5_000))] {
            let session = opened(one.port(), &name).await;
            let asked = begun(one.port(), &session).await;
            let begin = asked.line("id: ");
            one.kill();
            let since = Instant::now();
            let said = resumed(other.port(), &session, &begin, "without a response").await;
            // A lease of 5 s, and the time between two attempts.
            assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
            assert!(
                said.contains("begun") && said.contains(r#""id":2"#) && said.contains("-32603"),
                "{said}"
            );
            assert_eq!(runs.load(Ordering::Relaxed), number, "no call runs twice");
            one.start_again();
        }
        // Without Redis an event has no id, and nothing can be resumed.
        let (mut one, other) = (Replica::start(&sealed_alone), Replica::start(&sealed_alone));
        let session = opened(one.port(), "short").await;
        let mut asked = begun(one.port(), &session).await;
        assert!(!asked.said.contains("\nid: "), "{}", asked.said);
        one.kill();
        assert!(!asked.says("no more").await, "the stream has ended");
        let head = format!("{session}last-event-id: 1-1\r\n");
        let mut refused = Asked::send(other.port(), "GET", &head, "").await;
        assert!(refused.says("streams of this session cannot be resumed").await, "{}", refused.said);
        assert!(refused.said.starts_with("HTTP/1.1 400"), "{}", refused.said);
        assert_eq!(runs.load(Ordering::Relaxed), 3);
    };
    runtime.block_on(async { timeout(DEADLINE, test).await.expect("the test hangs") });
}

/// The response to a request in a session: plain JSON, or the last event of a stream.
async fn response(port: u16, session: &str, method: &str, params: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 3, "method": method, "params": params }).to_string();
    let mut asked = Asked::send(port, "POST", session, &body).await;
    assert!(!asked.says("no more than the response").await);
    let said =
        asked.said.lines().rfind(|line| line.contains("jsonrpc")).unwrap_or_else(|| panic!("{}", asked.said));
    serde_json::from_str(said.strip_prefix("data: ").unwrap_or(said)).unwrap()
}

/// Begins a task, and returns its id.
async fn begun_task(port: u16, session: &str, tool: &str) -> String {
    let params = json!({ "name": tool, "arguments": { "message": "m" }, "task": { "ttl": 600_000 } });
    let created = response(port, session, "tools/call", params).await;
    created["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
}

/// The tasks that a bridge lists, or the code of its error.
async fn listed(port: u16, session: &str) -> Result<BTreeSet<String>, i64> {
    let list = response(port, session, "tasks/list", json!({})).await;
    if let Some(code) = list["error"]["code"].as_i64() {
        return Err(code);
    }
    let tasks = list["result"]["tasks"].as_array().unwrap_or_else(|| panic!("{list}"));
    Ok(tasks.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()).collect())
}

fn tasks<const N: usize>(ids: [&String; N]) -> Result<BTreeSet<String>, i64> {
    Ok(ids.map(Clone::clone).into())
}

/// The server takes all clients for one, and lists the tasks of all.
#[test]
fn tasks_are_listed_at_both_bridges_for_the_client_that_has_created_them() {
    let mut redis = Redis::start(&[]).unwrap();
    let folder = Folder::new("tasks");
    let server = Listening::new(&Peer::installed("servers/sdk-1-tasks.mjs"), Way::Http);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = async {
        let mut options = options(folder.path(), &redis);
        options.extend(["--join".into(), format!("a=http://{}/mcp", server.address()).into()]);
        let mut one = Replica::start(&options);
        let other = Replica::start(&options);
        let mut sessions = Vec::new();
        // Sealed, and in Redis.
        for name in ["short".to_owned(), "x".repeat(5_000)] {
            let (ada, bob) = (opened(one.port(), &name).await, opened(other.port(), &name).await);
            let waits = begun_task(one.port(), &ada, "a__waits").await;
            let ends = begun_task(other.port(), &ada, "a__required").await;
            let of_bob = begun_task(one.port(), &bob, "a__waits").await;
            for port in [one.port(), other.port()] {
                assert_eq!(listed(port, &ada).await, tasks([&waits, &ends]));
                assert_eq!(listed(port, &bob).await, tasks([&of_bob]));
                let result = response(port, &ada, "tasks/result", json!({ "taskId": ends })).await;
                assert_eq!(result["result"]["content"][0]["text"], "m", "{result}");
                let foreign = response(port, &ada, "tasks/get", json!({ "taskId": of_bob })).await;
                assert_eq!(foreign["error"]["code"], -32602, "{foreign}");
            }
            let cancelled = response(other.port(), &ada, "tasks/cancel", json!({ "taskId": waits })).await;
            assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
            let seen = response(one.port(), &ada, "tasks/get", json!({ "taskId": waits })).await;
            assert_eq!(seen["result"]["status"], "cancelled", "{seen}");
            sessions.push((ada, waits, ends));
        }
        one.kill();
        one.start_again();
        for (ada, waits, ends) in &sessions {
            for port in [one.port(), other.port()] {
                assert_eq!(listed(port, ada).await, tasks([waits, ends]), "after a bridge was killed");
            }
        }
        // Without Redis a part of the list would look like all of it. A task is created and followed all the same.
        redis.kill();
        let (ada, waits, ends) = &sessions[0];
        let mut pace = interval(Duration::from_millis(200));
        while listed(one.port(), ada).await != Err(-32603) {
            pace.tick().await;
        }
        let third = begun_task(one.port(), ada, "a__waits").await;
        for (id, port) in [(&third, other.port()), (waits, one.port())] {
            let task = response(port, ada, "tasks/get", json!({ "taskId": id })).await;
            assert_eq!(task["result"]["taskId"], **id, "{task}");
        }
        // Started again it is empty: a bridge lists what was created there.
        redis.start_again().unwrap();
        while listed(one.port(), ada).await.is_err() || listed(other.port(), ada).await.is_err() {
            pace.tick().await;
        }
        assert_eq!(listed(one.port(), ada).await, tasks([&third]));
        assert_eq!(listed(other.port(), ada).await, tasks([ends]));
    };
    runtime.block_on(async { timeout(DEADLINE, test).await.expect("the test hangs") });
}

/// Says something to Redis, and returns the first line of its answer.
async fn tell(redis: &Redis, words: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", redis.port())).await.unwrap();
    stream.write_all(format!("{words}\r\n").as_bytes()).await.unwrap();
    let mut said = String::new();
    while !said.ends_with("\r\n") {
        let mut bytes = Vec::new();
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "{said}");
        said += &String::from_utf8_lossy(&bytes);
    }
    said
}

/// The response of a request as text.
async fn said(port: u16, head: &str, body: &Value) -> String {
    let mut asked = Asked::send(port, "POST", head, &body.to_string()).await;
    assert!(!asked.says("no more than the response").await);
    asked.said
}

/// What goes wrong with Redis.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    Gone,
    Full,
    Slow,
}

impl Trouble {
    async fn begins(self, redis: &mut Redis) {
        match self {
            Self::Gone => redis.kill(),
            Self::Full => assert_eq!(tell(redis, "CONFIG SET maxmemory 1").await, "+OK\r\n"),
            Self::Slow => assert_eq!(tell(redis, "CLIENT PAUSE 600000 WRITE").await, "+OK\r\n"),
        }
    }

    async fn ends(self, redis: &mut Redis) {
        match self {
            Self::Gone => redis.start_again().unwrap(),
            Self::Full => assert_eq!(tell(redis, "CONFIG SET maxmemory 0").await, "+OK\r\n"),
            Self::Slow => assert_eq!(tell(redis, "CLIENT UNPAUSE").await, "+OK\r\n"),
        }
    }
}

#[test]
fn a_redis_that_is_gone_full_or_slow_costs_what_needs_it_and_nothing_else() {
    let mut redis = Redis::start(&[]).unwrap();
    let folder = Folder::new("trouble");
    let (gate, runs) = (Arc::new(Semaphore::new(1_000)), Arc::new(AtomicUsize::new(0)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let test = async {
        let target = slow_server(gate.clone(), runs.clone()).await;
        let mut options = key_options(folder.path());
        let (join, url) = (format!("a={target}"), redis.url());
        options.extend(["--join", &join, "--state", &url, "--state-timeout", "1s"].map(OsString::from));
        let (one, other) = (Replica::start(&options), Replica::start(&options));
        let params = json!({ "name": "a__slow", "arguments": {}, "_meta": { "progressToken": "p" } });
        let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
        let mut modern = call.clone();
        modern["params"]["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "modern", "version": "1" },
            "progressToken": "p",
        });
        let of_modern = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: a__slow\r\n";
        let mut initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "version": "1" },
        } });
        initialize["params"]["clientInfo"]["name"] = "x".repeat(5_000).into();
        let opens = async |status: &str| {
            let mut pace = interval(Duration::from_millis(200));
            loop {
                pace.tick().await;
                let said = said(one.port(), "", &initialize).await;
                if said.starts_with(&format!("HTTP/1.1 {status}")) {
                    return said;
                }
            }
        };
        let sealed = opened(one.port(), "short").await;
        let mut number = 0;
        for trouble in [Trouble::Full, Trouble::Slow, Trouble::Gone] {
            opens("200").await;
            let stored = opened(one.port(), &"x".repeat(5_000)).await;
            assert!(said(one.port(), &sealed, &call).await.contains("\nid: "), "{trouble:?}");
            trouble.begins(&mut redis).await;
            let refused = opens("503").await.to_lowercase();
            assert!(refused.contains("\r\nretry-after: 1\r\n"), "{trouble:?}: {refused}");
            for (port, head, call) in [
                (one.port(), of_modern, &modern),
                (other.port(), of_modern, &modern),
                (one.port(), &*sealed, &call),
                (other.port(), &*sealed, &call),
                (one.port(), &*stored, &call),
            ] {
                let began = Instant::now();
                let done = said(port, head, call).await;
                assert!(done.contains("begun") && done.contains("slowly done"), "{trouble:?}: {done}");
                assert!(
                    !done.contains("\nid: "),
                    "an event that is not stored has no id: {trouble:?}: {done}"
                );
                assert!(began.elapsed() < Duration::from_secs(20), "{trouble:?}: {:?}", began.elapsed());
            }
            // A bridge that has to ask Redis for the session. One that is full answers.
            let found = said(other.port(), &stored, &call).await;
            let status = if trouble == Trouble::Full { "200" } else { "503" };
            assert!(found.starts_with(&format!("HTTP/1.1 {status}")), "{trouble:?}: {found}");
            number += if trouble == Trouble::Full { 7 } else { 6 };
            assert_eq!(runs.load(Ordering::Relaxed), number, "no call runs twice: {trouble:?}");
            trouble.ends(&mut redis).await;
        }
        opens("200").await;
    };
    runtime.block_on(async { timeout(DEADLINE, test).await.expect("the test hangs") });
}
