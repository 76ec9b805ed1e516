//! Tests of streams that a handler closes, and of clients that poll for the result, since 2025-11-25.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server>

use std::time::Duration;

use mcpjoin::transport::HttpOptions;
use serde_json::{Value, json};

use crate::support::{LEGACY, Peer, Reply, peer, run, settle, text};

async fn resume(session: &Peer, after: &str) -> Reply {
    session.with("last-event-id", after).get().await
}

fn progress(message: &Value) -> (&str, f64) {
    (message["method"].as_str().unwrap(), message["params"]["progress"].as_f64().unwrap())
}

#[test]
fn a_stream_is_closed_in_the_middle_of_a_call_and_its_result_is_fetched() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new().retry(Duration::from_millis(1_234)));
        let session = peer.open(LEGACY).await;
        let reply = session.call_in_session(1, "part", json!({})).await;
        assert_eq!((reply.status, reply.kind()), (200, "text/event-stream"));
        let stream = String::from_utf8(reply.bytes().await).unwrap();
        let (primes, rest) = stream.split_once("\n\n").unwrap();
        let mut primes: Vec<&str> = primes.lines().collect();
        primes.sort_unstable();
        assert_eq!(primes, ["data: ", "id: 1-0", "retry: 1234"]);
        assert!(rest.contains("id: 1-1\n") && rest.contains("notifications/progress"), "{rest}");
        assert_eq!(rest.matches("\n\n").count(), 1, "{rest}");
        // The client resumes before the result exists.
        let mut resumed = resume(&session, "1-1").await;
        assert_eq!(resumed.event().await.unwrap(), ("1-1".into(), String::new()));
        gate.open.add_permits(1);
        let (id, result) = resumed.message_with_id().await.unwrap();
        assert_eq!((id.as_str(), text(&result), &result["id"]), ("1-2", "parted", &json!(1)));
        assert_eq!(resumed.message().await, None);
    });
}

#[test]
fn a_result_waits_for_a_client_that_comes_late() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let mut reply = session.call_in_session("r", "part", json!({})).await;
        while reply.event().await.is_some() {}
        drop(reply);
        gate.open.add_permits(1);
        settle().await;
        tokio::time::advance(Duration::from_secs(600)).await;
        settle().await;
        for after in ["1-1", "1-0", "1-1"] {
            let mut resumed = resume(&session, after).await;
            let mut last = Value::Null;
            while let Some(message) = resumed.message().await {
                last = message;
            }
            assert_eq!((text(&last), &last["id"]), ("parted", &json!("r")), "after {after}");
        }
    });
}

#[test]
fn a_client_is_sent_away_again_and_again() {
    run(async {
        const TIMES: usize = 5;
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let mut reply = session.call_in_session(1, "part", json!({ "n": TIMES })).await;
        let mut seen = Vec::new();
        for time in 1..=TIMES {
            // Each stream begins with the priming event.
            let (id, data) = reply.event().await.unwrap();
            assert_eq!((id, data.as_str()), (format!("1-{}", time - 1), ""));
            let (id, message) = reply.message_with_id().await.unwrap();
            seen.push(progress(&message).1);
            assert_eq!(reply.message().await, None, "time {time}");
            reply = resume(&session, &id).await;
            gate.open.add_permits(1);
        }
        assert_eq!(seen, [1.0, 2.0, 3.0, 4.0, 5.0]);
        let (id, result) = reply.message_with_id().await.unwrap();
        assert_eq!((id.as_str(), text(&result)), ("1-6", "parted"));
        assert_eq!(reply.message().await, None);
    });
}

#[test]
fn who_has_left_already_is_not_sent_away() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let mut reply = session.call_in_session(1, "part", json!({ "n": 2 })).await;
        while reply.event().await.is_some() {}
        // The handler does its second step, and asks to close the stream, while no client reads.
        gate.open.add_permits(1);
        settle().await;
        let mut resumed = resume(&session, "1-1").await;
        assert_eq!(progress(&resumed.message().await.unwrap()), ("notifications/progress", 2.0));
        gate.open.add_permits(1);
        assert_eq!(text(&resumed.message().await.unwrap()), "parted");
        assert_eq!(resumed.message().await, None);
    });
}

#[test]
fn a_client_that_comes_back_before_the_stream_was_read_to_its_end_gets_all_of_it() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let mut first = session.call_in_session(1, "part", json!({})).await;
        let mut second = resume(&session, "1-0").await;
        gate.open.add_permits(1);
        assert_eq!(progress(&second.message().await.unwrap()), ("notifications/progress", 1.0));
        assert_eq!(text(&second.message().await.unwrap()), "parted");
        assert_eq!(second.message().await, None);
        assert_eq!(first.message().await, None);
    });
}

#[test]
fn nothing_is_closed_where_the_client_would_not_come_back_or_lose_something() {
    run(async {
        let options = HttpOptions::new;
        for (version, options) in [
            ("2025-03-26", options()),
            ("2025-06-18", options()),
            (LEGACY, options().without_resumption()),
            (LEGACY, options().json_only(true)),
        ] {
            let described = format!("{version} {options:?}");
            let (peer, gate) = peer(options);
            let session = peer.open(version).await;
            gate.open.add_permits(1);
            assert_eq!(
                text(&whole(session.call_in_session(1, "part", json!({})).await).await),
                "parted",
                "{described}"
            );
        }
        let (stateless, gate) = peer(options().stateless(true));
        gate.open.add_permits(1);
        let stateless = stateless.with("mcp-protocol-version", LEGACY);
        assert_eq!(text(&whole(stateless.call_in_session(1, "part", json!({})).await).await), "parted");
        let (modern, gate) = peer(options());
        gate.open.add_permits(1);
        assert_eq!(text(&whole(modern.call(1, "part", json!({})).await).await), "parted");
    });
}

/// The last message of a response, whose messages all arrive on its own stream.
async fn whole(mut reply: Reply) -> Value {
    if reply.kind() == "application/json" {
        return reply.json().await;
    }
    let mut last = Value::Null;
    while let Some(message) = reply.message().await {
        last = message;
    }
    last
}
