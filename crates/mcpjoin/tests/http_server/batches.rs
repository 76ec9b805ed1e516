//! Tests of the server with batches of messages, in 2025-03-26 and in no other revision.

use std::time::Duration;

use mcpjoin::transport::HttpOptions;
use serde_json::{Value, json};

use crate::support::{LEGACY, begins, call, peer, run, text};

#[test]
fn b26_a_batch_is_answered_as_one_where_batches_are_allowed() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let session = peer.open("2025-03-26").await;
        let batch = json!([
            { "jsonrpc": "2.0", "id": 1, "method": "ping" },
            { "jsonrpc": "2.0", "method": "notifications/of/no/meaning" },
            call(2, "echo", json!({ "message": "hi" })),
            { "jsonrpc": "2.0", "id": 3, "method": "no/such" },
            7,
        ]);
        let answers = session.post(batch).await.json().await;
        let answers = answers.as_array().unwrap();
        assert_eq!(answers.len(), 4);
        let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap();
        assert_eq!(of(json!(1))["result"], json!({}));
        assert_eq!(text(of(json!(2))), "hi");
        assert_eq!(of(json!(3))["error"]["code"], -32601);
        assert_eq!(of(json!(null))["error"]["code"], -32600);
    });
}

#[test]
fn b26_a_batch_without_requests_is_accepted_and_one_without_messages_is_answered() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let session = peer.open("2025-03-26").await;
        let told = json!([
            { "jsonrpc": "2.0", "method": "notifications/of/no/meaning" },
            { "jsonrpc": "2.0", "id": 9, "result": {} },
        ]);
        assert_eq!(session.post(told).await.status, 202);
        let answers = session.post("[1, 2]").await.json().await;
        assert_eq!(answers.as_array().unwrap().len(), 2);
        assert_eq!(session.post("[]").await.error().await, (400, -32600));
    });
}

#[test]
fn ghsa_f897_a_batch_of_a_million_is_refused() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let session = peer.open("2025-03-26").await;
        let million = format!("[{}1]", "1,".repeat(999_999));
        assert_eq!(session.post(million).await.error().await, (400, -32600));
        assert_eq!(session.call_in_session(1, "echo", json!({})).await.status, 200);
    });
}

#[test]
fn b25_a_batch_is_refused_where_it_is_not_allowed() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let batch = json!([{ "jsonrpc": "2.0", "id": 1, "method": "ping" }]);
        for version in ["2024-11-05", "2025-06-18", LEGACY] {
            let session = peer.open(version).await;
            assert_eq!(session.post(&batch).await.error().await, (400, -32600), "{version}");
        }
        let session = peer.open("2025-03-26").await;
        let opening = json!([crate::support::initialize("2025-03-26", json!({}))]);
        assert_eq!(session.post(&opening).await.error().await, (400, -32600));
        assert_eq!(
            peer.with("mcp-protocol-version", "2026-07-28").post(&batch).await.error().await,
            (400, -32600)
        );
    });
}

#[test]
fn a_batch_in_which_a_call_reports_progress_is_a_stream() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open("2025-03-26").await;
        let batch = json!([call(1, "steps", json!({ "n": 1 })), call(2, "echo", json!({ "message": "x" }))]);
        let mut reply = session.post(&batch).await;
        assert_eq!(reply.message().await.unwrap()["method"], "notifications/progress");
        gate.open.add_permits(1);
        let answers = reply.message().await.unwrap();
        assert_eq!(answers.as_array().unwrap().len(), 2);
        assert_eq!(reply.message().await, None);
    });
}

#[test]
fn a_call_of_a_batch_can_be_cancelled() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open("2025-03-26").await;
        let batch = json!([call(1, "wait", json!({})), call(2, "wait", json!({}))]);
        let mut reply = Box::pin(session.post(&batch));
        begins(&mut reply).await;
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
        assert_eq!(session.post(cancel).await.status, 202);
        gate.open.add_permits(1);
        let answers = reply.await.json().await;
        assert_eq!((answers.as_array().unwrap().len(), &answers[0]["id"]), (1, &json!(2)));
        assert_eq!(gate.dropped(), 1);
    });
}

#[test]
fn a_call_that_a_batch_cancels_ends_and_its_id_is_free() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open("2025-03-26").await;
        let mut waiting = Box::pin(session.call_in_session(1, "wait", json!({})));
        begins(&mut waiting).await;
        let cancelled =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
        assert_eq!(session.post(json!([cancelled])).await.status, 202);
        let ended = tokio::time::timeout(Duration::from_secs(60), async { waiting.await.message().await });
        assert_eq!(ended.await.expect("it never ends"), None);
        assert_eq!(gate.dropped(), 1);
        let again = session.call_in_session(1, "echo", json!({ "message": "hi" })).await;
        assert_eq!(text(&again.json().await), "hi");
        // A batch that cancels one of its own requests.
        let batch = json!([call(2, "wait", json!({})), call(3, "echo", json!({ "message": "ho" })), {
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 }
        }]);
        let answers = session.post(batch).await.json().await;
        assert_eq!(answers.as_array().map(Vec::len), Some(1), "{answers}");
        let again = session.call_in_session(2, "echo", json!({ "message": "hi" })).await;
        assert_eq!(text(&again.json().await), "hi");
    });
}

#[test]
fn the_answer_to_a_batch_reaches_the_post_that_has_brought_it() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open("2025-03-26").await;
        let slow = json!([call(1, "wait", json!({})), call(2, "echo", json!({ "message": "x" }))]);
        // One batch without a readable id, and one with the id of a pending request of another POST.
        for malformed in [json!([7, 8]), json!([{ "jsonrpc": "2.0", "id": 1, "method": 7 }])] {
            let mut waiting = Box::pin(session.post(&slow));
            begins(&mut waiting).await;
            let answers = session.post(&malformed).await.json().await;
            let answers = answers.as_array().unwrap();
            assert_eq!(answers.len(), malformed.as_array().unwrap().len(), "{answers:?}");
            assert!(answers.iter().all(|answer| answer["error"]["code"] == -32600), "{answers:?}");
            gate.open.add_permits(1);
            let answers = waiting.await.message_or_json().await;
            let of = |id: i64| answers.as_array().unwrap().iter().find(|answer| answer["id"] == id).unwrap();
            assert_eq!((text(of(1)), text(of(2))), ("waited", "x"));
        }
    });
}

#[test]
fn a_malformed_part_is_answered_although_the_call_beside_it_is_cancelled() {
    run(async {
        let (peer, _gate) = peer(HttpOptions::new());
        let session = peer.open("2025-03-26").await;
        let mut waiting = Box::pin(session.post(json!([call(1, "wait", json!({})), 7])));
        begins(&mut waiting).await;
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
        assert_eq!(session.post(cancel).await.status, 202);
        let answers = waiting.await.message_or_json().await;
        assert_eq!(answers.as_array().map(Vec::len), Some(1), "{answers}");
        assert_eq!(answers[0]["error"]["code"], -32600);
    });
}

#[test]
fn a_batch_of_http_sse_is_answered_on_its_stream() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let mut stream = peer.send(http::Method::GET, "/sse", "").await;
        let endpoint = stream.event().await.unwrap().1;
        let tell = |body: Value| peer.send(http::Method::POST, &endpoint, body.to_string());
        assert_eq!(tell(crate::support::initialize("2025-03-26", json!({}))).await.status, 202);
        assert_eq!(stream.message().await.unwrap()["result"]["protocolVersion"], "2025-03-26");
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(tell(initialized).await.status, 202);
        let batch = json!([{ "jsonrpc": "2.0", "id": 1, "method": "ping" }, 7]);
        assert_eq!(tell(batch).await.status, 202);
        let answers = stream.message().await.unwrap();
        assert_eq!(answers.as_array().map(Vec::len), Some(2), "{answers}");
    });
}
