//! Tests of sessions that only one of two processes can serve, while their requests come to either. Two services stand for two
//! processes. They reach each other over TCP, and the clients of these tests call them directly.

use std::future::pending;

use mcpjoin::Server;
use mcpjoin::proto::Raw;
use mcpjoin::proto::types::Tool;
use mcpjoin::server::{Context, SealingKeys, StateKey};
use mcpjoin::transport::{Admitted, HttpListener, HttpOptions, Replicas};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::stored_sessions::at;
use crate::support::{Gate, LEGACY, Peer, builder, run_for_real, text, until};

/// A process. Aborting its task ends it like SIGKILL: its connections break.
struct Process {
    peer: Peer,
    url: String,
    task: JoinHandle<()>,
}

fn keys(number: u8) -> SealingKeys {
    SealingKeys::new(StateKey::from_bytes([number; 32]), [])
}

async fn process(server: &Server, key: u8, options: HttpOptions) -> Process {
    let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
    let url = format!("http://{}", listener.address());
    let replicas = Replicas::new(&url, keys(key), &[]).unwrap();
    // Another host than that of the address, as for the clients behind a balancer.
    let options = options.replicas(replicas).allow_host("example.com").unwrap();
    let peer = Peer::new(server, options).with("host", "example.com");
    let serving = listener.serve(peer.service.clone(), pending());
    Process { peer, url, task: tokio::spawn(serving) }
}

/// Two processes that have the same kind of server, but not the same server.
async fn two(gate: &Gate) -> [Process; 2] {
    let server = || builder(gate).build().unwrap();
    [process(&server(), 1, HttpOptions::new()).await, process(&server(), 1, HttpOptions::new()).await]
}

#[test]
fn a_session_is_used_at_either_process() {
    run_for_real(async {
        let gate = Gate::new();
        let [one, other] = two(&gate).await;
        let session = one.peer.open(LEGACY).await;
        let elsewhere = at(&session, &other.peer);
        let reply = elsewhere.call_in_session(1, "echo", json!({ "message": "hé" })).await;
        assert_eq!((reply.status, reply.kind()), (200, "application/json"));
        assert_eq!(text(&reply.json().await), "hé");
        assert_eq!((one.peer.service.sessions(), other.peer.service.sessions()), (1, 0));
        // A stream is passed on as it comes.
        let mut reply = elsewhere.call_in_session(2, "steps", json!({ "n": 2 })).await;
        assert_eq!(reply.message().await.unwrap()["params"]["progress"], 1.0);
        gate.open.add_permits(1);
        let (id, second) = reply.message_with_id().await.unwrap();
        assert_eq!(second["params"]["progress"], 2.0);
        drop(reply);
        // It is resumed at either.
        gate.open.add_permits(1);
        let mut resumed = elsewhere.with("last-event-id", &id).get().await;
        assert_eq!(text(&resumed.message().await.unwrap()), "stepped");
        assert_eq!(resumed.message().await, None);
        // A question on the stream of a call through the other process is answered through that one, too.
        let mut asking = elsewhere.call_in_session(3, "ask", json!({})).await;
        let asked = asking.message().await.unwrap();
        assert_eq!(asked["method"], "elicitation/create");
        let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "action": "decline" } });
        assert_eq!(elsewhere.post(answer).await.status, 202);
        assert_eq!(text(&asking.message().await.unwrap()), "decline");
        // Ended at the other process, it is ended.
        assert_eq!(elsewhere.send(http::Method::DELETE, "/mcp", "").await.status, 204);
        for session in [&session, &elsewhere] {
            assert_eq!(session.call_in_session(4, "echo", json!({})).await.status, 404);
        }
        assert_eq!(one.peer.service.sessions(), 0);
    });
}

#[test]
fn the_stream_of_a_session_is_open_through_the_other_process_and_ends_when_that_one_shuts_down() {
    run_for_real(async {
        let gate = Gate::new();
        let server = builder(&gate).build().unwrap();
        let one = process(&server, 1, HttpOptions::new()).await;
        let other = process(&builder(&gate).build().unwrap(), 1, HttpOptions::new()).await;
        let session = one.peer.open(LEGACY).await;
        let mut stream = at(&session, &other.peer).get().await;
        assert_eq!(stream.status, 200);
        assert!(server.handle().remove_tool("log").unwrap());
        assert_eq!(stream.message().await.unwrap()["method"], "notifications/tools/list_changed");
        tokio::join!(other.peer.service.drain(), async { assert_eq!(stream.message().await, None) });
        assert_eq!(one.peer.service.sessions(), 1);
    });
}

#[test]
fn a_session_of_2024_11_05_is_used_at_either_process() {
    run_for_real(async {
        let [one, other] = two(&Gate::new()).await;
        let mut stream = one.peer.send(http::Method::GET, "/sse", "").await;
        let endpoint = stream.event().await.unwrap().1;
        let open = crate::support::initialize("2024-11-05", json!({}));
        let reply = other.peer.send(http::Method::POST, &endpoint, open.to_string()).await;
        assert_eq!(reply.status, 202);
        assert_eq!(stream.message().await.unwrap()["result"]["protocolVersion"], "2024-11-05");
        let unknown = other.peer.send(http::Method::POST, &format!("{endpoint}A"), "{}").await;
        assert_eq!(unknown.status, 404);
        // The id is none of the other transport.
        let id = endpoint.split_once('=').unwrap().1;
        assert_eq!(
            other.peer.with("mcp-session-id", id).call_in_session(1, "echo", json!({})).await.status,
            404
        );
    });
}

#[test]
fn calls_of_a_process_that_ends_get_errors_and_its_sessions_are_over() {
    run_for_real(async {
        let gate = Gate::new();
        let [one, other] = two(&gate).await;
        let session = one.peer.open(LEGACY).await;
        let elsewhere = at(&session, &other.peer);
        let mut streamed = elsewhere.call_in_session("a", "steps", json!({ "n": 2 })).await;
        assert!(streamed.message().await.is_some());
        let waiting = tokio::spawn({
            let elsewhere = elsewhere.clone();
            async move { elsewhere.call_in_session("b", "wait", json!({})).await }
        });
        until(&gate.begun, 1).await;
        one.task.abort();
        let ended = streamed.message().await.unwrap();
        assert_eq!((&ended["id"], &ended["error"]["code"]), (&json!("a"), &json!(-32603)), "{ended}");
        assert_eq!(streamed.message().await, None);
        let ended = waiting.await.unwrap();
        let status = ended.status;
        let message = ended.message_or_json().await;
        assert!(matches!(status, 200 | 502) && message["id"] == "b", "{status} {message}");
        assert_eq!(message["error"]["code"], -32603, "{message}");
        let over = elsewhere.call_in_session(1, "echo", json!({})).await;
        assert_eq!(
            (over.status, over.json().await["error"]["message"].clone()),
            (404, json!("no such session; initialize again"))
        );
        // Another process at the same address does not have it.
        let address = one.url.strip_prefix("http://").unwrap();
        let again = HttpListener::bind(format!("http://{address}/mcp")).await.unwrap();
        let replicas = Replicas::new(&one.url, keys(1), &[]).unwrap();
        let fresh = Peer::new(&builder(&gate).build().unwrap(), HttpOptions::new().replicas(replicas));
        let serving = tokio::spawn(again.serve(fresh.service.clone(), pending()));
        for session in [&elsewhere, &at(&session, &fresh).with("host", "localhost")] {
            assert_eq!(session.call_in_session(1, "echo", json!({})).await.status, 404);
        }
        serving.abort();
    });
}

#[test]
fn a_session_belongs_to_its_principal_and_to_the_keys_at_either_process() {
    run_for_real(async {
        let who = Raw::parse(r#"{"type":"object"}"#).unwrap();
        let server = || {
            let tool = Tool::new("who", who.clone());
            let server = Server::builder("s", "1").raw_tool(tool, |_, cx: Context| async move {
                let origin = cx.origin().unwrap();
                format!("{:?} {:?}", origin.principal, origin.peer)
            });
            server.build().unwrap()
        };
        let bearer = |parts: &http::request::Parts| {
            parts.headers.get("user").map(|value| value.to_str().unwrap().to_owned())
        };
        // Each process names the principals in its own way: that of the first counts.
        let options = HttpOptions::new().principal(bearer);
        let one = process(&server(), 1, HttpOptions::new().principal(bearer)).await;
        let other = process(&server(), 1, options.clone()).await;
        let foreign = process(&server(), 2, options).await;
        let session = one.peer.with("user", "ada").open(LEGACY).await;
        let elsewhere = at(&session, &other.peer);
        let said = elsewhere.call_in_session(1, "who", json!({})).await.json().await;
        // The client of this test has no address.
        assert_eq!(text(&said), "Some(\"ada\") None");
        for refused in
            [elsewhere.with("user", "bob"), elsewhere.with("user", ""), at(&session, &foreign.peer)]
        {
            assert_eq!(refused.call_in_session(1, "who", json!({})).await.status, 404);
        }
        // No seal, and no seal of another session, is accepted.
        let id = &session.headers.iter().find(|(name, _)| name == "mcp-session-id").unwrap().1;
        for seal in ["", "AAAA", id] {
            let request = one.peer.with("mcp-session-id", id).with("host", "evil.example");
            let request = if seal.is_empty() { request } else { request.with("mcpjoin-passed", seal) };
            assert_eq!(request.call_in_session(1, "who", json!({})).await.status, 403, "{seal}");
        }
        let unsealed = session.with("mcpjoin-passed", id);
        assert_eq!(unsealed.call_in_session(1, "who", json!({})).await.status, 403);
    });
}

#[test]
fn both_processes_ask_the_admission() {
    run_for_real(async {
        let options = || {
            HttpOptions::new().bearer_tokens(|token| async move {
                token.strip_prefix("token of ").map(|who| Admitted::new(who).with_scopes(["all"]))
            })
        };
        let server = || builder(&Gate::new()).build().unwrap();
        let one = process(&server(), 1, options()).await;
        let other = process(&server(), 1, options()).await;
        let session = one.peer.with("authorization", "Bearer token of ada").open(LEGACY).await;
        let elsewhere = at(&session, &other.peer);
        let echo = async |session: &Peer| session.call_in_session(1, "echo", json!({})).await.status;
        assert_eq!(echo(&elsewhere).await, 200);
        assert_eq!(echo(&elsewhere.with("authorization", "")).await, 401);
        assert_eq!(echo(&elsewhere.with("authorization", "Bearer token of bob")).await, 404);
    });
}

#[test]
fn a_process_that_gives_no_response_is_not_asked_twice() {
    run_for_real(async {
        // Takes the requests and closes the connections.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let taken = tokio::spawn(async move {
            let mut requests = Vec::new();
            while requests.last() != Some(&"end") {
                let (mut stream, _) = silent.accept().await.unwrap();
                let mut bytes = Vec::new();
                let request = loop {
                    assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
                    let text = String::from_utf8_lossy(&bytes);
                    let mut ids = ["once", "end"].into_iter();
                    if let Some(id) = ids.find(|id| text.contains(&format!("\"id\":\"{id}\""))) {
                        break id;
                    }
                };
                requests.push(request);
            }
            requests
        });
        let gate = Gate::new();
        let one = builder(&gate).build().unwrap();
        let options = HttpOptions::new().replicas(Replicas::new(&url, keys(1), &[]).unwrap());
        let session = Peer::new(&one, options).open(LEGACY).await;
        let other = process(&builder(&gate).build().unwrap(), 1, HttpOptions::new()).await;
        let elsewhere = at(&session, &other.peer).with("host", "example.com");
        for message in ["once", "end"] {
            let reply = elsewhere.call_in_session(message, "echo", json!({})).await;
            assert_eq!(reply.status, 502);
            let error = reply.json().await;
            assert_eq!(error["id"], message);
            assert!(error["error"]["message"].as_str().unwrap().contains("may have processed"), "{error}");
        }
        assert_eq!(taken.await.unwrap(), ["once", "end"]);
    });
}

#[test]
fn what_names_a_process_that_has_ended_is_refused_without_ending_a_session() {
    run_for_real(async {
        // A port at which nothing listens any more.
        let ended = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", ended.local_addr().unwrap());
        drop(ended);
        let marked = Replicas::new(&url, keys(1), &[]).unwrap().mark("waiting");
        let other = process(&builder(&Gate::new()).build().unwrap(), 1, HttpOptions::new()).await;
        let params = json!({ "name": "echo", "arguments": { "message": "m" }, "requestState": marked });
        let again = other.peer.ask(7, "tools/call", params).await;
        let status = again.status;
        let error = again.json().await;
        assert_eq!(
            (status, &error["id"], &error["error"]["code"]),
            (200, &json!(7), &json!(-32602)),
            "{error}"
        );
        let message = "`requestState` is of a process that has ended, and the call with it: send the call again without it";
        assert_eq!(error["error"]["message"], message);
        // A client whose answer comes too late has done nothing wrong.
        let session = other.peer.open(LEGACY).await;
        let answer = json!({ "jsonrpc": "2.0", "id": marked, "result": { "action": "decline" } });
        assert_eq!(session.post(answer).await.status, 202);
        assert_eq!(session.call_in_session(1, "echo", json!({ "message": "m" })).await.status, 200);
    });
}

#[test]
fn an_address_of_a_process_is_checked() {
    let why = |url: &str| Replicas::new(url, keys(1), &[]).map(drop).unwrap_err().to_string();
    for url in ["10.0.0.5:8081", "ftp://a", "http://user@a", "http://a/?b", "http://a/#b", ""] {
        assert!(why(url).contains("other processes cannot reach this process"), "{url}");
    }
    for url in ["http://0.0.0.0:1", "http://[::]:1", "http://a:0"] {
        assert!(why(url).contains("no process can connect to it"), "{url}");
    }
    assert!(why(&format!("http://{}", "a".repeat(600))).contains("512 bytes"));
    assert!(Replicas::new("https://a/b/", keys(1), &[b"no certificate".to_vec()]).is_err());
    assert!(Replicas::new("https://a/b/", keys(1), &[]).is_ok());
}
