//! Tests of a server without legacy sessions.

use http::Method;
use mcpjoin::transport::HttpOptions;
use serde_json::json;

use crate::support::{LEGACY, Reply, call, initialize, peer, run, text};

#[test]
fn a_legacy_request_stands_for_itself() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new().stateless(true));
        let reply = peer.post(initialize(LEGACY, json!({}))).await;
        assert!(!reply.headers.contains_key("mcp-session-id"));
        assert_eq!(reply.json().await["result"]["protocolVersion"], LEGACY);
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(peer.post(initialized).await.status, 202);
        for (header, wraps) in [(LEGACY, false), ("", true)] {
            // The first revision with this transport had no such header, but it had batches.
            let peer = peer.with("mcp-protocol-version", header);
            for id in 1..5 {
                let answer = peer.post(call(id, "echo", json!({ "message": "hi" }))).await.json().await;
                assert_eq!((text(&answer), &answer["id"]), ("hi", &json!(id)));
            }
            let batch = peer.post(json!([call(1, "echo", json!({ "message": "hi" }))])).await;
            assert_eq!(batch.status, if wraps { 200 } else { 400 });
        }
        gate.open.add_permits(1);
        let mut reply: Reply = peer.post(call("s", "steps", json!({ "n": 1 }))).await;
        assert_eq!(reply.message().await.unwrap()["method"], "notifications/progress");
        assert_eq!(reply.message().await.unwrap()["id"], "s");
        assert_eq!(reply.message().await, None);
        assert_eq!(peer.service.sessions(), 0);
    });
}

#[test]
fn there_is_nothing_but_post() {
    run(async {
        let (peer, _) = peer(HttpOptions::new().stateless(true));
        for (method, path, status) in
            [(Method::GET, "/mcp", 405), (Method::GET, "/sse", 404), (Method::POST, "/messages", 404)]
        {
            assert_eq!(peer.send(method.clone(), path, "").await.status, status, "{method} {path}");
        }
        let stale = peer.with("mcp-session-id", "00000000000000000000000000000000");
        assert_eq!(stale.post(call(1, "echo", json!({}))).await.status, 200);
    });
}

#[test]
fn no_question_is_asked_without_a_user() {
    run(async {
        let (peer, _) = peer(HttpOptions::new().stateless(true));
        let answer =
            peer.with("mcp-protocol-version", LEGACY).post(call(1, "ask", json!({}))).await.json().await;
        assert!(answer["result"]["isError"] == json!(true) || answer["error"].is_object(), "{answer}");
    });
}

#[test]
fn what_one_client_sets_is_not_set_for_another() {
    run(async {
        let (peer, _) = peer(HttpOptions::new().stateless(true));
        let peer = peer.with("mcp-protocol-version", LEGACY);
        let set = json!({ "jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": { "level": "emergency" } });
        assert_eq!(peer.post(set).await.json().await["result"], json!({}));
        let mut other = peer.post(call(1, "log", json!({}))).await;
        assert_eq!(other.message().await.unwrap()["params"]["data"], "careful");
        assert_eq!(text(&other.message().await.unwrap()), "logged");
    });
}
