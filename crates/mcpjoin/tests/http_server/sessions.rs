//! Tests of the server's table of legacy sessions: which client may use a session, their maximum number, their lifetime.

use std::collections::HashSet;
use std::time::Duration;

use http::Method;
use http::request::Parts;
use mcpjoin::proto::session::Limits;
use mcpjoin::transport::HttpOptions;
use serde_json::{Value, json};

use crate::support::{
    Gate, LEGACY, Peer, begins, builder, call, initialize, peer, run, server, settle, text,
};

fn bearer(parts: &Parts) -> Option<String> {
    parts.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned())
}

#[test]
fn f111_ids_are_128_bits_that_no_one_guesses() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let mut ids = HashSet::new();
        let mut ones = 0;
        for _ in 0..500 {
            let reply = peer.post(initialize(LEGACY, json!({}))).await;
            let id = reply.headers["mcp-session-id"].to_str().unwrap().to_owned();
            assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
            ones += u128::from_str_radix(&id, 16).unwrap().count_ones();
            assert!(ids.insert(id));
        }
        // About half of 64,000 bits must be ones, within ten standard deviations.
        assert!((30_700..33_300).contains(&ones), "{ones}");
    });
}

#[test]
fn cve_2026_52869_a_session_belongs_to_the_client_that_opened_it() {
    run(async {
        let (peer, _) = peer(HttpOptions::new().principal(bearer));
        let session = peer.with("authorization", "Bearer a").open(LEGACY).await;
        assert_eq!(session.call_in_session(1, "echo", json!({})).await.status, 200);
        for other in [session.with("authorization", "Bearer b"), session.with("authorization", "")] {
            assert_eq!(other.call_in_session(1, "echo", json!({})).await.error().await, (404, -32600));
            assert_eq!(other.get().await.status, 404);
            assert_eq!(other.with("last-event-id", "0-0").get().await.status, 404);
            assert_eq!(other.send(Method::DELETE, "/mcp", "").await.status, 404);
        }
        assert_eq!(session.call_in_session(1, "echo", json!({})).await.status, 200);
    });
}

#[test]
fn cve_2026_33946_a_stranger_cannot_take_the_stream_of_a_session() {
    run(async {
        let (peer, _) = peer(HttpOptions::new().principal(bearer));
        let session = peer.with("authorization", "Bearer a").open(LEGACY).await;
        let mut stream = session.get().await;
        assert_eq!(stream.event().await.unwrap().0, "0-0");
        let thief = session.with("authorization", "Bearer b");
        assert_eq!(thief.get().await.status, 404);
        assert_eq!(thief.with("last-event-id", "0-0").get().await.status, 404);
        stream.is_silent().await;
        // A second stream of the owner is refused too, so it cannot replace the first by accident.
        assert_eq!(session.get().await.status, 409);
    });
}

#[test]
fn cve_2026_63128_what_does_not_initialize_makes_no_session() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let bad_header = peer.with("mcp-protocol-version", "\u{1}x".trim_start_matches('\u{1}'));
        for id in 0..20_000 {
            let reply = match id % 5 {
                0 => peer.call_in_session(id, "echo", json!({})).await,
                1 => peer.post("{").await,
                2 => peer.post(json!({ "jsonrpc": "2.0", "id": id, "method": "initialize" })).await,
                3 => bad_header.call_in_session(id, "echo", json!({})).await,
                _ => peer.with("content-type", "text/plain").post(initialize(LEGACY, json!({}))).await,
            };
            assert!(!reply.headers.contains_key("mcp-session-id"));
        }
        assert_eq!(peer.service.sessions(), 0);
    });
}

#[test]
fn cve_2026_59951_sessions_are_capped_and_a_client_beyond_is_asked_to_come_again() {
    run(async {
        let (peer, _) = peer(HttpOptions::new().max_sessions(100));
        let mut refused = 0;
        for _ in 0..100_000 {
            let reply = peer.post(initialize(LEGACY, json!({}))).await;
            if reply.status == 503 {
                assert_eq!(reply.headers["retry-after"], "1");
                refused += 1;
            }
        }
        assert_eq!((peer.service.sessions(), refused), (100, 99_900));
        // Modern clients need no session.
        assert_eq!(peer.call(1, "echo", json!({})).await.status, 200);
    });
}

#[test]
fn a_session_begins_with_a_message_of_its_own_bound() {
    run(async {
        // An `initialize` of exactly this length, with extra members in the client's capabilities.
        let of_length = |length: usize| {
            let mut message = initialize(LEGACY, json!({ "experimental": { "x": {} } }));
            let pad = length - message.to_string().len() - r#""p":"""#.len();
            message["params"]["capabilities"]["experimental"]["x"] = json!({ "p": "x".repeat(pad) });
            assert_eq!(message.to_string().len(), length);
            message
        };
        for (options, limit) in
            [(HttpOptions::new(), 64 * 1024), (HttpOptions::new().max_initialize(1_000), 1_000)]
        {
            let (peer, _) = peer(options.clone());
            assert_eq!(peer.post(of_length(limit)).await.status, 200);
            let reply = peer.post(of_length(limit + 1)).await;
            assert_eq!(reply.status, 413);
            let why = reply.json().await["error"]["message"].to_string();
            assert!(why.contains(&format!("`initialize` of {limit} bytes")), "{why}");
            assert_eq!(peer.service.sessions(), 1);
            // The same without sessions, and over HTTP+SSE.
            let stateless = Peer::new(&server().0, options.stateless(true));
            assert_eq!(stateless.post(of_length(limit + 1)).await.status, 413);
            let mut stream = peer.send(Method::GET, "/sse", "").await;
            let endpoint = stream.event().await.unwrap().1;
            let long = peer.send(Method::POST, &endpoint, of_length(limit + 1).to_string()).await;
            assert_eq!(long.status, 413);
            let fits = peer.send(Method::POST, &endpoint, of_length(limit).to_string()).await;
            assert_eq!(fits.status, 202);
            assert_eq!(stream.message().await.unwrap()["id"], "open");
        }
        let (peer, _) = peer(HttpOptions::new().max_initialize(1));
        assert_eq!(peer.post(initialize(LEGACY, json!({}))).await.status, 413);
        // Other messages have the general size limit.
        assert_eq!(peer.call(1, "echo", json!({ "message": "x".repeat(100_000) })).await.status, 200);
        assert_eq!(peer.service.sessions(), 0);
    });
}

#[test]
fn a_session_whose_connection_is_over_is_not_counted_and_takes_no_place() {
    run(async {
        // The server gives up a client that does not read its pending responses.
        let mut limits = Limits::default();
        (limits.message, limits.queued_replies, limits.write_stall) = (4_096, 4_096, Duration::from_secs(3));
        let server = builder(&Gate::new()).limits(limits).build().unwrap();
        let peer = Peer::new(&server, HttpOptions::new().max_sessions(2));
        let session = peer.open(LEGACY).await;
        let mut stream = peer.send(Method::GET, "/sse", "").await;
        let endpoint = stream.event().await.unwrap().1;
        let say = async |message: Value| {
            assert_eq!(peer.send(Method::POST, &endpoint, message.to_string()).await.status, 202);
        };
        say(initialize("2024-11-05", json!({}))).await;
        say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        assert_eq!(peer.post(initialize(LEGACY, json!({}))).await.status, 503);
        for id in 0..6 {
            say(call(id, "echo", json!({ "message": "x".repeat(3_000) }))).await;
        }
        assert_eq!(peer.service.sessions(), 2);
        // The server waits one more second for the pending responses to be sent.
        for passing in [4, 2] {
            settle().await;
            tokio::time::advance(Duration::from_secs(passing)).await;
        }
        settle().await;
        assert_eq!(peer.service.sessions(), 1);
        let another = peer.open(LEGACY).await;
        assert_eq!(peer.service.sessions(), 2);
        assert_eq!(peer.post(initialize(LEGACY, json!({}))).await.status, 503);
        for open in [session, another] {
            assert_eq!(open.call_in_session(1, "echo", json!({})).await.status, 200);
        }
        // Sessions that the server has ended itself are not counted either.
        peer.service.drain().await;
        assert_eq!(peer.service.sessions(), 0);
    });
}

#[test]
fn cve_2026_67430_a_session_that_is_not_used_is_over_after_its_time() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new().session_idle(Duration::from_secs(100)));
        let idle = peer.open(LEGACY).await;
        let (used, streaming, working) =
            (peer.open(LEGACY).await, peer.open(LEGACY).await, peer.open(LEGACY).await);
        let mut stream = streaming.get().await;
        let mut call = Box::pin(working.call_in_session(1, "wait", json!({})));
        begins(&mut call).await;
        for _ in 0..12 {
            tokio::time::advance(Duration::from_secs(10)).await;
            assert_eq!(used.call_in_session(1, "echo", json!({})).await.status, 200);
        }
        assert_eq!(peer.service.sessions(), 3);
        assert_eq!(idle.call_in_session(1, "echo", json!({})).await.status, 404);
        stream.is_silent().await;
        drop(stream);
        gate.open.add_permits(1);
        assert_eq!(text(&call.await.message().await.unwrap()), "waited");
        settle().await;
        tokio::time::advance(Duration::from_secs(200)).await;
        settle().await;
        assert_eq!(peer.service.sessions(), 0);
        // The same again, after the last session has ended.
        peer.open(LEGACY).await;
        assert_eq!(peer.service.sessions(), 1);
        settle().await;
        tokio::time::advance(Duration::from_secs(200)).await;
        settle().await;
        assert_eq!(peer.service.sessions(), 0);
    });
}

#[test]
fn ending_a_session_ends_its_requests_in_flight() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let mut stream = session.get().await;
        assert_eq!(stream.event().await.unwrap().0, "0-0");
        let mut waiting = Box::pin(session.call_in_session(1, "wait", json!({})));
        begins(&mut waiting).await;
        assert_eq!(session.send(Method::DELETE, "/mcp", "").await.status, 204);
        // Not 404: clients send again what is refused so, and this call has begun.
        assert_eq!(waiting.await.error().await, (500, -32603));
        assert_eq!(session.call_in_session(2, "echo", json!({})).await.error().await, (404, -32600));
        assert_eq!(stream.message().await, None);
        settle().await;
        assert_eq!(gate.dropped(), 1);
    });
}

#[test]
fn dropping_the_service_ends_everything() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let mut waiting = Box::pin(session.call_in_session(1, "wait", json!({})));
        begins(&mut waiting).await;
        drop(waiting);
        settle().await;
        assert_eq!((gate.begun(), gate.dropped()), (1, 0));
        drop((peer, session));
        settle().await;
        assert_eq!(gate.dropped(), 1);
    });
}

#[test]
fn f113_a_refused_client_gets_the_time_of_its_next_try() {
    run(async {
        let (peer, _) = peer(HttpOptions::new().max_sessions(1));
        let session = peer.open(LEGACY).await;
        for reply in
            [peer.post(initialize(LEGACY, json!({}))).await, peer.send(Method::GET, "/sse", "").await]
        {
            assert_eq!((reply.status, &reply.headers["retry-after"]), (503, &"1".parse().unwrap()));
        }
        assert_eq!(session.send(Method::DELETE, "/mcp", "").await.status, 204);
        assert_eq!(peer.send(Method::GET, "/sse", "").await.status, 200);
    });
}
