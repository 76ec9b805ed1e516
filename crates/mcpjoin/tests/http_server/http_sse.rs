//! Tests of the server with HTTP+SSE of 2024-11-05: section 5 of the specification's digest.

use http::Method;
use mcpjoin::transport::HttpOptions;
use serde_json::json;

use crate::support::{Peer, Reply, call, initialize, peer, run, server, settle, text};

/// Opens the stream, and returns it with the endpoint for messages.
async fn open(peer: &Peer) -> (Reply, String) {
    let mut stream = peer.with("content-type", "").send(Method::GET, "/sse", "").await;
    assert_eq!((stream.status, stream.kind()), (200, "text/event-stream"));
    let first = stream.piece().await.unwrap();
    let first = std::str::from_utf8(&first).unwrap();
    let endpoint = first.strip_prefix("event: endpoint\ndata: ").unwrap().trim_end().to_owned();
    assert!(endpoint.starts_with("/messages?"), "{endpoint}");
    (stream, endpoint)
}

#[test]
fn a_conversation_goes_out_by_post_and_comes_in_on_the_stream() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let (mut stream, endpoint) = open(&peer).await;
        let post = async |body: serde_json::Value| {
            let peer = peer.with("accept", "");
            let reply = peer.send(Method::POST, &endpoint, body.to_string()).await;
            assert_eq!(reply.status, 202);
            assert!(reply.bytes().await.is_empty());
        };
        post(initialize("2024-11-05", json!({}))).await;
        let opened = stream.message().await.unwrap();
        assert_eq!(opened["result"]["protocolVersion"], "2024-11-05");
        post(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        post(call(1, "echo", json!({ "message": "hi" }))).await;
        let (id, answer) = stream.message_with_id().await.unwrap();
        assert_eq!((id.as_str(), text(&answer)), ("", "hi"));
        post(json!({ "jsonrpc": "2.0", "id": 2, "method": "no/such" })).await;
        assert_eq!(stream.message().await.unwrap()["error"]["code"], -32601);
        stream.is_silent().await;
    });
}

#[test]
fn what_the_server_says_by_itself_comes_on_the_stream_too() {
    run(async {
        let (server, gate) = server();
        let peer = Peer::new(&server, HttpOptions::new());
        let (mut stream, endpoint) = open(&peer).await;
        for body in [
            initialize("2025-06-18", json!({ "elicitation": {} })),
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        ] {
            assert_eq!(peer.send(Method::POST, &endpoint, body.to_string()).await.status, 202);
        }
        assert_eq!(stream.message().await.unwrap()["result"]["protocolVersion"], "2025-06-18");
        assert!(server.handle().remove_tool("log").unwrap());
        assert_eq!(stream.message().await.unwrap()["method"], "notifications/tools/list_changed");
        let body = call(1, "ask", json!({})).to_string();
        assert_eq!(peer.send(Method::POST, &endpoint, body).await.status, 202);
        let question = stream.message().await.unwrap();
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "cancel" } });
        assert_eq!(peer.send(Method::POST, &endpoint, answer.to_string()).await.status, 202);
        assert_eq!(text(&stream.message().await.unwrap()), "cancel");
        gate.open.add_permits(1);
        let body = call(2, "steps", json!({ "n": 1 })).to_string();
        assert_eq!(peer.send(Method::POST, &endpoint, body).await.status, 202);
        assert_eq!(stream.message().await.unwrap()["method"], "notifications/progress");
        assert_eq!(stream.message().await.unwrap()["id"], 2);
    });
}

#[test]
fn the_end_of_the_stream_ends_the_session() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let (stream, endpoint) = open(&peer).await;
        assert_eq!(peer.service.sessions(), 1);
        for body in [initialize("2024-11-05", json!({})), call(1, "wait", json!({}))] {
            assert_eq!(peer.send(Method::POST, &endpoint, body.to_string()).await.status, 202);
        }
        assert_eq!((gate.begun(), gate.dropped()), (1, 0));
        drop(stream);
        settle().await;
        assert_eq!((peer.service.sessions(), gate.dropped()), (0, 1));
        let reply = peer.send(Method::POST, &endpoint, call(2, "echo", json!({})).to_string()).await;
        assert_eq!(reply.error().await, (404, -32600));
    });
}

#[test]
fn sessions_of_the_two_transports_are_not_mixed_up() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let (_stream, endpoint) = open(&peer).await;
        let id = endpoint.split_once('=').unwrap().1;
        assert_eq!(peer.with("mcp-session-id", id).call_in_session(1, "echo", json!({})).await.status, 404);
        assert_eq!(peer.with("mcp-session-id", id).send(Method::DELETE, "/mcp", "").await.status, 404);
        let session = peer.open("2025-06-18").await;
        let id = &session.headers.iter().find(|(name, _)| name == "mcp-session-id").unwrap().1;
        let path = format!("/messages?sessionId={id}");
        assert_eq!(peer.send(Method::POST, &path, call(1, "echo", json!({})).to_string()).await.status, 404);
    });
}

#[test]
fn what_is_no_message_is_refused_where_it_was_sent() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let (mut stream, endpoint) = open(&peer).await;
        assert_eq!(peer.send(Method::POST, &endpoint, "{").await.error().await, (400, -32700));
        assert_eq!(peer.send(Method::POST, "/messages", "{}").await.status, 404);
        assert_eq!(peer.send(Method::POST, "/messages?sessionId=x", "{}").await.status, 404);
        let reply = peer.send(Method::GET, &endpoint, "").await;
        assert_eq!((reply.status, &reply.headers["allow"]), (405, &"POST".parse().unwrap()));
        let reply = peer.send(Method::POST, "/sse", "{}").await;
        assert_eq!((reply.status, &reply.headers["allow"]), (405, &"GET".parse().unwrap()));
        assert_eq!(
            peer.with("content-type", "text/plain").send(Method::POST, &endpoint, "{}").await.status,
            415
        );
        stream.is_silent().await;
    });
}
