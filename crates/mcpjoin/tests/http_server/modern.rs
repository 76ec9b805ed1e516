//! Tests of the server with 2026-07-28 over HTTP: checklist 4M-S of the specification's digest.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use mcpjoin::proto::Raw;
use mcpjoin::proto::session::Limits;
use mcpjoin::proto::types::{LoggingLevel, Tool};
use mcpjoin::server::Context;
use mcpjoin::transport::HttpOptions;
use serde_json::{Value, json};

use crate::support::{Gate, MODERN, Peer, begins, builder, modern, peer, run, server, settle, text};

fn options() -> HttpOptions {
    HttpOptions::new()
}

#[test]
fn a_call_is_answered_with_plain_json() {
    run(async {
        let (peer, _) = peer(options());
        let reply = peer.call(1, "echo", json!({ "message": "hi" })).await;
        assert_eq!((reply.status, reply.kind()), (200, "application/json"));
        assert!(!reply.headers.contains_key("mcp-session-id"));
        let answer = reply.json().await;
        assert_eq!((text(&answer), &answer["id"]), ("hi", &json!(1)));
        assert_eq!(answer["result"]["resultType"], "complete");
        assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "s");
    });
}

#[test]
fn discovery_works_without_anything_before_it() {
    run(async {
        let (peer, _) = peer(options());
        for id in ["a", "b"] {
            let answer = peer.ask(id, "server/discover", json!({})).await.json().await;
            assert_eq!(answer["id"], id);
            let versions = answer["result"]["supportedVersions"].as_array().unwrap();
            assert!(versions.contains(&json!(MODERN)), "{answer}");
        }
    });
}

#[test]
fn get_and_delete_are_not_allowed_where_no_legacy_revision_is_offered() {
    run(async {
        let gate = Gate::new();
        let server = builder(&gate).versions([mcpjoin::proto::Version::V2026_07_28]).build().unwrap();
        let peer = Peer::new(&server, options());
        for method in [Method::GET, Method::DELETE, Method::PUT, Method::OPTIONS] {
            let reply = peer.send(method.clone(), "/mcp", "").await;
            assert_eq!((reply.status, &reply.headers["allow"]), (405, &"POST".parse().unwrap()), "{method}");
        }
        assert_eq!(peer.send(Method::GET, "/sse", "").await.status, 404);
        let refused = peer.post(crate::support::initialize("2025-11-25", json!({}))).await;
        assert_eq!(refused.error().await, (400, -32022));
        assert_eq!(text(&peer.call(1, "echo", json!({ "message": "x" })).await.json().await), "x");
    });
}

#[test]
fn a_session_and_a_last_event_mean_nothing() {
    run(async {
        let (peer, _) = peer(options());
        let peer = peer.with("mcp-session-id", "0123").with("last-event-id", "1-1");
        let reply = peer.call(1, "echo", json!({ "message": "hi" })).await;
        assert!(!reply.headers.contains_key("mcp-session-id"));
        assert_eq!(text(&reply.json().await), "hi");
        assert_eq!(peer.service.sessions(), 0);
    });
}

#[test]
fn a_notification_is_accepted_without_a_body() {
    run(async {
        let (peer, _) = peer(options());
        let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {
            "requestId": 1, "_meta": { "io.modelcontextprotocol/protocolVersion": MODERN }
        } });
        let reply = peer.with("mcp-protocol-version", MODERN).post(cancelled).await;
        assert_eq!(reply.status, 202);
        assert!(reply.bytes().await.is_empty());
    });
}

#[test]
fn r80_the_status_says_what_kind_of_error_it_is() {
    run(async {
        let (peer, _) = peer(options());
        assert_eq!(peer.ask(1, "no/such", json!({})).await.error().await, (404, -32601));
        assert_eq!(peer.ask(1, "tasks/get", json!({ "taskId": "t" })).await.error().await, (404, -32601));
        assert_eq!(peer.call(1, "nope", json!({})).await.error().await, (200, -32602));
        assert_eq!(
            peer.ask(1, "resources/read", json!({ "uri": "x://no" })).await.error().await,
            (200, -32602)
        );
        assert_eq!(peer.modern("x", "").post("{").await.error().await, (400, -32700));
        assert_eq!(peer.modern("x", "").post("").await.error().await, (400, -32700));
        let panics = peer.call(1, "panics", json!({})).await;
        assert_eq!(panics.status, 200);
        let panics = panics.json().await;
        assert_eq!(panics["error"]["code"], -32603);
        assert!(!panics.to_string().contains("s3cret"));
        let opens = modern(1, "initialize", json!({ "protocolVersion": MODERN }));
        assert_eq!(peer.modern("initialize", "").post(opens).await.error().await, (404, -32601));
        assert_eq!(text(&peer.call(1, "echo", json!({ "message": "x" })).await.json().await), "x");
    });
}

#[test]
fn headers_that_disagree_with_the_body_are_refused_before_anything_runs() {
    run(async {
        let (peer, gate) = peer(options());
        let body = modern(1, "tools/call", json!({ "name": "wait", "arguments": {} }));
        let good = peer.modern("tools/call", "wait");
        for (name, value) in [
            ("mcp-protocol-version", ""),
            ("mcp-protocol-version", "2025-11-25"),
            ("mcp-method", ""),
            ("mcp-method", "Tools/call"),
            ("mcp-name", ""),
            ("mcp-name", "echo"),
            ("mcp-name", "=?base64?!!!?="),
        ] {
            let reply = good.with(name, value).post(&body).await;
            assert_eq!(reply.error().await, (400, -32020), "{name}: {value}");
        }
        assert_eq!(gate.begun(), 0);
        gate.open.add_permits(1);
        let padded = good.with("mcp-name", " =?base64?d2FpdA==?= ");
        assert_eq!(text(&padded.post(&body).await.json().await), "waited");
    });
}

#[test]
fn arguments_that_a_schema_marks_are_repeated_in_headers() {
    run(async {
        let (peer, _) = peer(options());
        let arguments = json!({ "region": "eu west" });
        assert_eq!(peer.call(1, "marked", arguments.clone()).await.error().await, (400, -32020));
        let other = peer.with("mcp-param-region", "us");
        assert_eq!(other.call(1, "marked", arguments.clone()).await.error().await, (400, -32020));
        let same = peer.with("mcp-param-region", "eu west");
        assert_eq!(text(&same.call(1, "marked", arguments).await.json().await), "marked");
        assert_eq!(text(&peer.call(1, "marked", json!({})).await.json().await), "marked");
        assert_eq!(same.call(1, "marked", json!({ "region": null })).await.error().await, (400, -32020));
    });
}

#[test]
fn versions_and_members_of_meta_are_checked() {
    run(async {
        let (peer, _) = peer(options());
        let mut body = modern(1, "tools/list", json!({}));
        body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01".into();
        let reply =
            peer.modern("tools/list", "").with("mcp-protocol-version", "2099-01-01").post(&body).await;
        assert_eq!(reply.status, 400);
        let error = reply.json().await["error"].clone();
        assert_eq!(
            (error["code"].as_i64(), &error["data"]["requested"]),
            (Some(-32022), &json!("2099-01-01"))
        );
        assert!(error["data"]["supported"].as_array().unwrap().contains(&json!(MODERN)));
        let mut body = modern(1, "tools/list", json!({}));
        body["params"]["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
        assert_eq!(peer.modern("tools/list", "").post(&body).await.error().await, (400, -32602));
    });
}

#[test]
fn a_missing_capability_is_named_with_status_400() {
    run(async {
        let (peer, _) = peer(options());
        let reply = peer.call(1, "ask", json!({})).await;
        assert_eq!(reply.status, 400);
        let answer = reply.json().await;
        assert_eq!(answer["error"]["code"], -32021);
        assert!(answer["error"]["data"]["requiredCapabilities"]["elicitation"].is_object(), "{answer}");
        // The server infers nothing from an earlier request.
        let mut able = modern(2, "tools/call", json!({ "name": "ask", "arguments": {} }));
        able["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": {} });
        let asked = peer.modern("tools/call", "ask").post(&able).await.json().await;
        assert_eq!(asked["result"]["resultType"], "input_required");
        assert_eq!(peer.call(3, "ask", json!({})).await.error().await, (400, -32021));
    });
}

fn stepping(id: i64, n: u64) -> Value {
    let params = json!({ "name": "steps", "arguments": { "n": n }, "_meta": { "progressToken": "t" } });
    modern(id, "tools/call", params)
}

#[test]
fn what_comes_before_the_reply_makes_a_stream_that_ends_with_it() {
    run(async {
        let (peer, gate) = peer(options());
        gate.open.add_permits(2);
        let mut reply = peer.modern("tools/call", "steps").post(stepping(7, 2)).await;
        assert_eq!((reply.status, reply.kind()), (200, "text/event-stream"));
        assert_eq!(reply.headers["x-accel-buffering"], "no");
        assert_eq!(reply.headers["cache-control"], "no-cache");
        let mut progress = 0.0;
        let last = loop {
            let (id, message) = reply.message_with_id().await.unwrap();
            assert_eq!(id, "", "a modern stream cannot be resumed");
            if message.get("id").is_some() {
                break message;
            }
            assert_eq!(message["params"]["progressToken"], "t");
            let now = message["params"]["progress"].as_f64().unwrap();
            assert!(now > progress);
            progress = now;
        };
        assert_eq!((text(&last), &last["id"]), ("stepped", &json!(7)));
        assert_eq!(reply.message().await, None);
    });
}

#[test]
fn without_a_token_or_a_level_there_is_nothing_to_stream() {
    run(async {
        let (peer, gate) = peer(options());
        gate.open.add_permits(1);
        assert_eq!(peer.call(1, "steps", json!({})).await.kind(), "application/json");
        assert_eq!(peer.call(1, "log", json!({})).await.kind(), "application/json");
        let mut body = modern(1, "tools/call", json!({ "name": "log", "arguments": {} }));
        body["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = "error".into();
        let caller = peer.modern("tools/call", "log");
        assert_eq!(caller.post(&body).await.kind(), "application/json");
        body["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = "info".into();
        let mut reply = caller.post(&body).await;
        assert_eq!(reply.message().await.unwrap()["params"]["data"], "careful");
        assert_eq!(text(&reply.message().await.unwrap()), "logged");
        assert_eq!(reply.message().await, None);
    });
}

#[test]
fn json_only_sends_nothing_before_the_reply() {
    run(async {
        let (peer, gate) = peer(options().json_only(true));
        gate.open.add_permits(1);
        let reply = peer.modern("tools/call", "steps").post(stepping(1, 1)).await;
        assert_eq!(text(&reply.json().await), "stepped");
    });
}

#[test]
fn f119_a_silent_stream_is_kept_alive_by_comments() {
    run(async {
        let (peer, gate) = peer(options());
        let mut reply = peer.call(1, "wait", json!({})).await;
        // There was no message for so long that the server has begun the response without one.
        assert_eq!(reply.kind(), "text/event-stream");
        for _ in 0..240 {
            assert_eq!(reply.piece().await.unwrap(), ": \n\n");
        }
        gate.open.add_permits(1);
        assert_eq!(text(&reply.message().await.unwrap()), "waited");
        assert_eq!(reply.piece().await, None);
    });
}

#[test]
fn f128_a_client_that_vanishes_cancels_and_the_next_is_served() {
    run(async {
        let (peer, gate) = peer(options());
        // The client disconnects before the response has begun.
        let body = modern(1, "tools/call", json!({ "name": "wait", "arguments": {} }));
        let caller = peer.modern("tools/call", "wait");
        let mut call = Box::pin(caller.post(&body));
        begins(&mut call).await;
        assert_eq!((gate.begun(), gate.dropped()), (1, 0));
        drop(call);
        settle().await;
        assert_eq!(gate.dropped(), 1);
        // The client disconnects in the middle of the response.
        let stream = peer.call(1, "wait", json!({})).await;
        assert_eq!(stream.kind(), "text/event-stream");
        drop(stream);
        settle().await;
        assert_eq!(gate.dropped(), 2);
        assert_eq!(text(&peer.call(1, "echo", json!({ "message": "x" })).await.json().await), "x");
    });
}

#[test]
fn cve_2026_25536_two_clients_with_equal_ids_get_their_own_replies() {
    run(async {
        let (server, _) = server();
        let (one, other) = (Peer::new(&server, options()), Peer::new(&server, options()));
        // Also two clients of one service.
        let third = one.clone();
        let ask = async |peer: &Peer, name: &str| {
            for id in 0..1_000 {
                let message = format!("{name}-{id}");
                let answer = peer.call(id, "echo", json!({ "message": message })).await.json().await;
                assert_eq!((text(&answer), &answer["id"]), (message.as_str(), &json!(id)));
            }
        };
        let mut all = pin!(futures_util::future::join3(ask(&one, "a"), ask(&other, "b"), ask(&third, "c")));
        all.as_mut().await;
    });
}

#[test]
fn cve_2026_111770_calls_with_one_id_at_once_do_not_meet() {
    run(async {
        let (peer, gate) = peer(options());
        let wait = peer.modern("tools/call", "wait");
        let body = modern(1, "tools/call", json!({ "name": "wait", "arguments": {} }));
        let mut waiting = Box::pin(wait.post(&body));
        begins(&mut waiting).await;
        assert_eq!(text(&peer.call(1, "echo", json!({ "message": "x" })).await.json().await), "x");
        gate.open.add_permits(1);
        assert_eq!(text(&waiting.await.json().await), "waited");
    });
}

fn listen(id: i64, notifications: Value) -> Value {
    modern(id, "subscriptions/listen", json!({ "notifications": notifications }))
}

#[test]
fn two_streams_are_independent_and_get_what_they_asked_for() {
    run(async {
        let (server, _) = server();
        let peer = Peer::new(&server, options());
        let asking = peer.modern("subscriptions/listen", "");
        let mut tools = asking.post(listen(1, json!({ "toolsListChanged": true }))).await;
        let uris = json!({ "resourceSubscriptions": ["x://1"] });
        let mut resources = asking.post(listen(2, uris)).await;
        for (stream, id) in [(&mut tools, 1), (&mut resources, 2)] {
            let first = stream.message().await.unwrap();
            assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
            assert_eq!(first["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
        }
        assert!(server.handle().remove_tool("echo").unwrap());
        server.handle().notify_resource_updated("x://1");
        assert_eq!(tools.message().await.unwrap()["method"], "notifications/tools/list_changed");
        let updated = resources.message().await.unwrap();
        assert_eq!(
            (&updated["method"], &updated["params"]["uri"]),
            (&json!("notifications/resources/updated"), &json!("x://1"))
        );
        tools.is_silent().await;
        drop(tools);
        server.handle().notify_resource_updated("x://1");
        assert_eq!(resources.message().await.unwrap()["params"]["uri"], "x://1");
        resources.is_silent().await;
    });
}

#[test]
fn a_long_call_without_news_is_answered_in_time() {
    run(async {
        let (peer, gate) = peer(options());
        let mut reply = Box::pin(peer.call(1, "wait", json!({})));
        begins(&mut reply).await;
        tokio::time::advance(Duration::from_secs(10)).await;
        begins(&mut reply).await;
        gate.open.add_permits(1);
        let reply = reply.await;
        assert_eq!(text(&reply.json().await), "waited");
    });
}

#[test]
fn n92_a_client_that_takes_nothing_is_given_up_and_holds_a_bounded_amount() {
    run(async {
        let gate = Gate::new();
        let mut limits = Limits::default();
        (limits.message, limits.queued_replies) = (10_000, 1_000);
        let server = builder(&gate).limits(limits).build().unwrap();
        let peer = Peer::new(&server, options());
        gate.open.add_permits(1_000);
        let mut reply = peer.modern("tools/call", "steps").post(stepping(1, 1_000)).await;
        assert_eq!(reply.kind(), "text/event-stream");
        for _ in 0..50 {
            settle().await;
        }
        // A client that goes on reading receives all notifications.
        gate.open.add_permits(1_000);
        let mut reader = peer.modern("tools/call", "steps").post(stepping(2, 1_000)).await;
        let mut last = None;
        while let Some(message) = reader.message().await {
            last = Some(message);
        }
        assert_eq!(text(&last.unwrap()), "stepped");
        for _ in 0..40 {
            tokio::time::advance(Duration::from_secs(1)).await;
            settle().await;
        }
        let mut held = 0;
        while let Some(piece) = reply.piece().await {
            held += piece.len();
            assert!(!piece.windows(7).any(|part| part == b"stepped"), "it was not given up");
        }
        assert!(held <= 12_000, "{held}");
        assert_eq!(text(&peer.call(3, "echo", json!({ "message": "x" })).await.json().await), "x");
    });
}

#[test]
fn a_notification_after_the_response_reaches_no_other_client() {
    run(async {
        let (gate, kept) = (Gate::new(), Arc::new(Mutex::new(None)));
        let keeping = kept.clone();
        let tool = Tool::new("keeps", Raw::parse(r#"{"type":"object"}"#).unwrap());
        let server = builder(&gate).raw_tool(tool, move |_, cx: Context| {
            keeping.lock().unwrap().replace(cx);
            async { "kept".to_owned() }
        });
        let peer = Peer::new(&server.build().unwrap(), options());
        assert_eq!(text(&peer.call(1, "keeps", json!({})).await.json().await), "kept");
        // Another client, whose call has the same id, and which asks for all notifications.
        let wants = json!({ "progressToken": 7, "io.modelcontextprotocol/logLevel": "debug" });
        let mut other =
            Box::pin(peer.ask(1, "tools/call", json!({ "name": "wait", "arguments": {}, "_meta": wants })));
        begins(&mut other).await;
        let context: Context = kept.lock().unwrap().take().unwrap();
        context.progress(1.0, None, Some("how far the first is"));
        context.log(LoggingLevel::Error, "a secret of the first");
        settle().await;
        gate.open.add_permits(1);
        let reply = other.await;
        assert_eq!(reply.kind(), "application/json", "nothing was told before the answer");
        assert_eq!(text(&reply.json().await), "waited");
    });
}
