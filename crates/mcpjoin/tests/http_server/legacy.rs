//! Tests of the server with 2025-03-26 to 2025-11-25 over HTTP: checklist 4L-S of the specification's digest.

use mcpjoin::transport::HttpOptions;
use serde_json::json;

use crate::support::{LEGACY, Peer, begins, call, peer, run, server, settle, text};

#[test]
fn a_session_is_opened_used_and_ended() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", LEGACY] {
            let session = peer.open(version).await;
            let reply = session.call_in_session(1, "echo", json!({ "message": "hi" })).await;
            assert_eq!((reply.status, reply.kind()), (200, "application/json"), "{version}");
            let answer = reply.json().await;
            assert_eq!(text(&answer), "hi");
            assert_eq!(answer["result"].get("resultType"), None, "{version}");
            assert_eq!(session.send(http::Method::DELETE, "/mcp", "").await.status, 204);
            let gone = session.call_in_session(2, "echo", json!({ "message": "hi" })).await;
            assert_eq!(gone.error().await, (404, -32600));
        }
        assert_eq!(peer.service.sessions(), 0);
    });
}

#[test]
fn a_version_that_is_not_offered_is_answered_with_the_newest_that_is() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let reply = peer.post(crate::support::initialize("2026-07-28", json!({}))).await;
        assert_eq!(reply.json().await["result"]["protocolVersion"], LEGACY);
    });
}

#[test]
fn f14_what_belongs_to_no_session_is_refused() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        assert_eq!(peer.call_in_session(1, "echo", json!({})).await.error().await, (400, -32600));
        let unknown = peer.with("mcp-session-id", "00000000000000000000000000000000");
        assert_eq!(unknown.call_in_session(1, "echo", json!({})).await.error().await, (404, -32600));
        assert_eq!(unknown.get().await.status, 404);
        let session = peer.open(LEGACY).await;
        let strange = session.with("mcp-protocol-version", "1999-01-01");
        assert_eq!(strange.call_in_session(1, "echo", json!({})).await.error().await, (400, -32022));
        let silent = session.with("mcp-protocol-version", "");
        assert_eq!(silent.call_in_session(1, "echo", json!({})).await.status, 200);
    });
}

#[test]
fn responses_and_notifications_are_accepted_without_a_body() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        for body in [
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 9 } }),
            json!({ "jsonrpc": "2.0", "method": "notifications/of/no/meaning" }),
            json!({ "jsonrpc": "2.0", "id": 77, "result": {} }),
        ] {
            let reply = session.post(&body).await;
            assert_eq!(reply.status, 202, "{body}");
            assert!(reply.bytes().await.is_empty());
        }
        assert_eq!(session.post("[]").await.error().await, (400, -32600));
        assert_eq!(session.post("{").await.error().await, (400, -32700));
        assert_eq!(session.call_in_session(1, "echo", json!({})).await.status, 200);
    });
}

#[test]
fn errors_of_handlers_have_status_200() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let unknown = json!({ "jsonrpc": "2.0", "id": 1, "method": "no/such" });
        assert_eq!(session.post(unknown).await.error().await, (200, -32601));
        let invalid = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} });
        assert_eq!(peer.post(invalid).await.error().await, (200, -32602));
        assert_eq!(peer.service.sessions(), 1);
    });
}

#[test]
fn a_second_initialize_is_refused_and_changes_nothing() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let again = session.post(crate::support::initialize("2025-06-18", json!({}))).await;
        assert!(!again.headers.contains_key("mcp-session-id"));
        assert_eq!(again.error().await, (200, -32600));
        assert_eq!(peer.service.sessions(), 1);
        assert_eq!(session.call_in_session(1, "echo", json!({})).await.status, 200);
    });
}

#[test]
fn what_the_server_asks_goes_on_the_stream_of_the_call_and_the_answer_comes_by_post() {
    run(async {
        for version in ["2025-06-18", LEGACY] {
            let (peer, _) = peer(HttpOptions::new());
            let session = peer.open(version).await;
            let mut reply = session.call_in_session(5, "ask", json!({})).await;
            let question = reply.message().await.unwrap();
            assert_eq!(question["method"], "elicitation/create");
            let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } });
            assert_eq!(session.post(answer).await.status, 202);
            assert_eq!(text(&reply.message().await.unwrap()), "decline");
            assert_eq!(reply.message().await, None);
        }
    });
}

#[test]
fn what_belongs_to_no_call_goes_on_the_stream_opened_with_get() {
    run(async {
        let (server, _) = server();
        let peer = Peer::new(&server, HttpOptions::new());
        let session = peer.open(LEGACY).await;
        // The notification waits until the stream is open.
        assert!(server.handle().remove_tool("echo").unwrap());
        settle().await;
        let mut stream = session.get().await;
        assert_eq!((stream.status, stream.kind()), (200, "text/event-stream"));
        let (id, message) = stream.message_with_id().await.unwrap();
        assert_eq!((id.as_str(), &message["method"]), ("0-1", &json!("notifications/tools/list_changed")));
        let mut call = session.call_in_session(1, "log", json!({})).await;
        assert_eq!(call.message().await.unwrap()["params"]["data"], "careful");
        assert_eq!(text(&call.message().await.unwrap()), "logged");
        stream.is_silent().await;
    });
}

#[test]
fn f124_a_second_stream_of_a_session_is_refused() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let stream = session.get().await;
        assert_eq!(session.get().await.status, 409);
        assert_eq!(peer.open(LEGACY).await.get().await.status, 200);
        drop(stream);
        settle().await;
        assert_eq!(session.get().await.status, 200);
    });
}

#[test]
fn leaving_is_not_cancelling() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let mut waiting = Box::pin(session.call_in_session(1, "wait", json!({})));
        begins(&mut waiting).await;
        drop(waiting);
        settle().await;
        assert_eq!((gate.begun(), gate.dropped()), (1, 0));
        let stream = session.call_in_session(2, "wait", json!({})).await;
        drop(stream);
        settle().await;
        assert_eq!((gate.begun(), gate.dropped()), (2, 0));
        gate.open.add_permits(2);
        settle().await;
        assert_eq!(gate.dropped(), 0);
        assert_eq!(session.call_in_session(1, "echo", json!({})).await.status, 200);
    });
}

#[test]
fn cancelling_ends_the_call_and_its_exchange() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let cancel = |id: i64| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        let mut waiting = Box::pin(session.call_in_session(1, "wait", json!({})));
        begins(&mut waiting).await;
        assert_eq!(session.post(cancel(1)).await.status, 202);
        assert_eq!(waiting.await.message().await, None);
        assert_eq!(gate.dropped(), 1);
        let mut stream = session.call_in_session(2, "wait", json!({})).await;
        assert_eq!(session.post(cancel(2)).await.status, 202);
        assert_eq!(stream.message().await, None);
        assert_eq!(gate.dropped(), 2);
        assert_eq!(session.call_in_session(2, "echo", json!({})).await.status, 200);
    });
}

#[test]
fn an_id_that_is_in_use_is_refused_without_disturbing_its_owner() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let mut waiting = Box::pin(session.call_in_session(1, "wait", json!({})));
        begins(&mut waiting).await;
        assert_eq!(session.call_in_session(1, "echo", json!({})).await.error().await, (400, -32600));
        gate.open.add_permits(1);
        assert_eq!(text(&waiting.await.json().await), "waited");
        assert_eq!(session.call_in_session(1, "echo", json!({})).await.status, 200);
    });
}

#[test]
fn sessions_do_not_share_ids() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let (one, other) = (peer.open(LEGACY).await, peer.open(LEGACY).await);
        let mut waiting = Box::pin(one.call_in_session(1, "wait", json!({})));
        begins(&mut waiting).await;
        for id in 0..1_000 {
            let message = format!("m{id}");
            let reply = other.call_in_session(id, "echo", json!({ "message": message })).await;
            assert_eq!(text(&reply.json().await), message);
        }
        gate.open.add_permits(1);
        assert_eq!(text(&waiting.await.json().await), "waited");
    });
}

#[test]
fn progress_comes_on_the_stream_of_its_call_before_the_result() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open("2025-06-18").await;
        let (mut one, mut other) = (
            session.post(call(1, "steps", json!({ "n": 2 }))).await,
            session.post(call(2, "steps", json!({ "n": 2 }))).await,
        );
        assert_eq!(one.message().await.unwrap()["params"]["progressToken"], 1);
        assert_eq!(other.message().await.unwrap()["params"]["progressToken"], 2);
        gate.open.add_permits(4);
        for (reply, id) in [(&mut one, 1), (&mut other, 2)] {
            let progress = reply.message().await.unwrap();
            assert_eq!(progress["params"]["progressToken"], id);
            assert_eq!(progress["params"]["progress"].as_f64(), Some(2.0));
            assert_eq!(reply.message().await.unwrap()["id"], id);
            assert_eq!(reply.message().await, None);
        }
    });
}
