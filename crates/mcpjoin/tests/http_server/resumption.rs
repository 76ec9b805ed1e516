//! Tests of streams of legacy sessions that break, and of clients that resume them.

use std::time::Duration;

use mcpjoin::transport::{EventId, HttpOptions, MemoryEvents};
use serde_json::{Value, json};
use tokio::time::advance;

use crate::support::{LEGACY, Peer, Reply, begins, peer, run, server, settle, text};

async fn resume(session: &Peer, after: &str) -> Reply {
    session.with("last-event-id", after).get().await
}

fn cancelled(id: i64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } })
}

/// The rest of a stream: ids and messages, without the priming event.
async fn rest(mut reply: Reply) -> Vec<(String, Value)> {
    let mut rest = Vec::new();
    while let Some(message) = reply.message_with_id().await {
        rest.push(message);
    }
    rest
}

#[test]
fn the_newest_revision_primes_its_streams_and_the_others_do_not() {
    run(async {
        for (version, primed) in [("2025-03-26", false), ("2025-06-18", false), (LEGACY, true)] {
            let (peer, gate) = peer(HttpOptions::new());
            let session = peer.open(version).await;
            gate.open.add_permits(1);
            let mut reply = session.call_in_session(1, "steps", json!({ "n": 1 })).await;
            let first = reply.event().await.unwrap();
            assert_eq!(first == ("1-0".into(), String::new()), primed, "{version}: {first:?}");
            let mut stream = session.get().await;
            if primed {
                assert_eq!(stream.event().await.unwrap(), ("0-0".into(), String::new()));
            }
            stream.is_silent().await;
        }
    });
}

#[test]
fn f116_a_stream_cut_at_any_event_is_resumed_without_loss_or_doubling() {
    run(async {
        const STEPS: usize = 5;
        for cut in 0..=STEPS + 1 {
            let (peer, gate) = peer(HttpOptions::new());
            let session = peer.open(LEGACY).await;
            let mut reply = session.call_in_session("r", "steps", json!({ "n": STEPS })).await;
            let mut seen = vec![reply.event().await.unwrap()];
            for event in 0..cut {
                if event > 0 {
                    gate.open.add_permits(1);
                }
                seen.push(reply.event().await.unwrap());
            }
            drop(reply);
            // The call goes on while no client reads.
            gate.open.add_permits(1);
            settle().await;
            let after = seen.last().unwrap().0.clone();
            gate.open.add_permits(STEPS);
            let resumed = resume(&session, &after).await;
            // Behind the last event there is nothing to resume.
            assert_eq!(resumed.status, if cut > STEPS { 405 } else { 200 }, "cut after {cut}");
            if cut <= STEPS {
                seen.extend(rest(resumed).await.into_iter().map(|(id, message)| (id, message.to_string())));
            }
            let numbers: Vec<String> = (0..seen.len()).map(|number| format!("1-{number}")).collect();
            let ids: Vec<&String> = seen.iter().map(|(id, _)| id).collect();
            assert_eq!(ids, numbers.iter().collect::<Vec<_>>(), "cut after {cut}");
            let last: Value = serde_json::from_str(&seen.last().unwrap().1).unwrap();
            assert_eq!((text(&last), &last["id"]), ("stepped", &json!("r")));
        }
    });
}

#[test]
fn a_stream_that_is_over_can_be_read_again_from_any_event() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        gate.open.add_permits(3);
        let whole = rest(session.call_in_session(1, "steps", json!({ "n": 3 })).await).await;
        for seen in 0..whole.len() {
            let again = resume(&session, &format!("1-{seen}")).await;
            assert_eq!(rest(again).await, whole[seen..], "after {seen}");
        }
    });
}

/// The SDK for TypeScript resumes each stream that ends without a result, also that of a call which it has cancelled, and stops at 405.
/// An empty stream would end without a result, too.
#[test]
fn a_stream_is_refused_with_405_when_it_is_over_and_nothing_was_missed() {
    run(async {
        for steps in 0..3 {
            let (peer, gate) = peer(HttpOptions::new());
            let session = peer.open(LEGACY).await;
            let tool = if steps == 0 { "wait" } else { "steps" };
            let mut reply = session.call_in_session(1, tool, json!({ "n": 5 })).await;
            let mut ids = vec![reply.event().await.unwrap().0];
            for step in 1..=steps {
                ids.push(reply.message_with_id().await.unwrap().0);
                if step < steps {
                    gate.open.add_permits(1);
                }
            }
            assert_eq!(session.post(cancelled(1)).await.status, 202);
            assert_eq!(reply.message().await, None, "there is no response");
            let (last, before) = ids.split_last().unwrap();
            for (missed, after) in before.iter().rev().enumerate() {
                assert_eq!(rest(resume(&session, after).await).await.len(), missed + 1, "after {after}");
            }
            for _ in 0..2 {
                let refused = resume(&session, last).await;
                assert_eq!(refused.status, 405, "after {last}");
                assert_eq!(refused.headers["allow"], "POST, DELETE");
            }
            assert_eq!(resume(&session, "1-9").await.status, 400);
        }
        // So is a stream behind its response, even while its first reader is there.
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let mut reply = session.call_in_session(1, "wait", json!({})).await;
        reply.event().await.unwrap();
        gate.open.add_permits(1);
        let (last, _) = reply.message_with_id().await.unwrap();
        assert_eq!(resume(&session, &last).await.status, 405);
        drop(reply);
        assert_eq!(resume(&session, &last).await.status, 405);
    });
}

#[test]
fn the_streams_of_calls_that_were_cancelled_are_kept_within_the_limits_of_the_store() {
    run(async {
        let (server, _gate) = server();
        let store = std::sync::Arc::new(MemoryEvents::with_limits(4_096, 6_000));
        let peer = Peer::new(&server, HttpOptions::new().event_store(Shared(store.clone())));
        let session = peer.open(LEGACY).await;
        for id in 1..=100 {
            let mut reply = session.call_in_session(id, "wait", json!({})).await;
            assert_eq!(reply.event().await.unwrap().0, format!("{id}-0"));
            assert_eq!(session.post(cancelled(id)).await.status, 202);
            assert_eq!(reply.message().await, None);
            assert!((1..=4_096).contains(&store.bytes()), "{}", store.bytes());
        }
        assert_eq!(resume(&session, "100-0").await.status, 405);
        assert_eq!(resume(&session, "1-0").await.status, 400, "the oldest is not kept");
    });
}

#[test]
fn only_the_stream_of_the_event_is_replayed() {
    run(async {
        let (server, gate) = server();
        let peer = Peer::new(&server, HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let mut standing = session.get().await;
        assert_eq!(standing.event().await.unwrap().0, "0-0");
        gate.open.add_permits(1);
        let call = rest(session.call_in_session(1, "steps", json!({ "n": 1 })).await).await;
        assert!(server.handle().remove_tool("log").unwrap());
        let (id, _) = standing.message_with_id().await.unwrap();
        assert_eq!(id, "0-1");
        assert_eq!(rest(resume(&session, "1-0").await).await, call);
        let mut again = resume(&session, "0-0").await;
        assert_eq!(again.message_with_id().await.unwrap().0, "0-1");
        // The older one of two readers ends.
        assert_eq!(standing.message().await, None);
        assert!(server.handle().remove_tool("ask").unwrap());
        assert_eq!(again.message_with_id().await.unwrap().0, "0-2");
        again.is_silent().await;
    });
}

#[test]
fn what_came_while_the_standing_stream_was_away_is_not_lost() {
    run(async {
        let (server, _) = server();
        let peer = Peer::new(&server, HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let mut stream = session.get().await;
        assert_eq!(stream.event().await.unwrap().0, "0-0");
        drop(stream);
        assert!(server.handle().remove_tool("log").unwrap());
        settle().await;
        // One client resumes with a last event id, and one without.
        let mut resumed = resume(&session, "0-0").await;
        assert_eq!(resumed.message_with_id().await.unwrap().0, "0-1");
        drop(resumed);
        assert!(server.handle().remove_tool("ask").unwrap());
        settle().await;
        let mut fresh = session.get().await;
        assert_eq!(fresh.event().await.unwrap(), ("0-1".into(), String::new()));
        assert_eq!(fresh.message_with_id().await.unwrap().0, "0-2");
        fresh.is_silent().await;
    });
}

#[test]
fn a_call_without_news_can_be_resumed_after_a_second() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let mut reply = session.call_in_session(1, "wait", json!({})).await;
        assert_eq!(reply.event().await.unwrap(), ("1-0".into(), String::new()));
        drop(reply);
        gate.open.add_permits(1);
        settle().await;
        let rest = rest(resume(&session, "1-0").await).await;
        assert_eq!((rest.len(), text(&rest[0].1)), (1, "waited"));
        assert_eq!((gate.begun(), gate.dropped()), (1, 0));
    });
}

#[test]
fn what_cannot_be_resumed_is_refused() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        gate.open.add_permits(1);
        rest(session.call_in_session(1, "steps", json!({ "n": 1 })).await).await;
        for after in ["1", "x", "1-99", "7-0", "-1", "1-", "18446744073709551616-0", "1-1-1"] {
            assert_eq!(resume(&session, after).await.status, 400, "{after:?}");
        }
        // A client cannot resume a stream of another session.
        let other = peer.open(LEGACY).await;
        assert_eq!(resume(&other, "1-0").await.status, 400);
        // A response that was plain JSON was no stream.
        let mut waiting = Box::pin(other.call_in_session(1, "wait", json!({})));
        begins(&mut waiting).await;
        drop(waiting);
        assert_eq!(resume(&other, "1-0").await.status, 400);
    });
}

#[test]
fn events_that_are_not_kept_any_more_are_not_passed_over_in_silence() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new().event_store(MemoryEvents::with_limits(700, 1 << 20)));
        let session = peer.open(LEGACY).await;
        gate.open.add_permits(20);
        let whole = rest(session.call_in_session(1, "steps", json!({ "n": 20 })).await).await;
        assert_eq!(resume(&session, "1-0").await.status, 400);
        let last = whole.len();
        assert_eq!(rest(resume(&session, &format!("1-{}", last - 1)).await).await, whole[last - 1..]);
    });
}

#[test]
fn without_a_store_there_are_no_ids_and_nothing_is_resumed() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new().without_resumption());
        let session = peer.open(LEGACY).await;
        gate.open.add_permits(1);
        let mut reply = session.call_in_session(1, "steps", json!({ "n": 1 })).await;
        let (id, data) = reply.event().await.unwrap();
        assert!(id.is_empty() && data.contains("progress"), "{id} {data}");
        assert_eq!(resume(&session, "1-0").await.status, 400);
    });
}

#[test]
fn what_is_kept_is_bounded_and_goes_with_its_session() {
    run(async {
        let (server, gate) = server();
        let store = std::sync::Arc::new(MemoryEvents::with_limits(4_096, 6_000));
        let peer = Peer::new(&server, HttpOptions::new().event_store(Shared(store.clone())));
        let mut sessions = Vec::new();
        for _ in 0..10 {
            let session = peer.open(LEGACY).await;
            gate.open.add_permits(50);
            rest(session.call_in_session(1, "steps", json!({ "n": 50 })).await).await;
            sessions.push(session);
            assert!(store.bytes() <= 6_000, "{}", store.bytes());
        }
        assert!(store.bytes() > 0);
        for session in sessions {
            assert_eq!(session.send(http::Method::DELETE, "/mcp", "").await.status, 204);
        }
        assert_eq!(store.bytes(), 0);
    });
}

/// A store that the test can inspect.
struct Shared(std::sync::Arc<MemoryEvents>);

impl mcpjoin::transport::EventStore for Shared {
    fn append(
        &self,
        session: &mcpjoin::transport::SessionId,
        event: mcpjoin::transport::Event,
    ) -> Option<mcpjoin::transport::Confirmation> {
        self.0.append(session, event)
    }

    fn replay<'a>(
        &'a self,
        session: &'a mcpjoin::transport::SessionId,
        after: EventId,
        before: u64,
    ) -> mcpjoin::transport::Replay<'a> {
        self.0.replay(session, after, before)
    }

    fn forget(&self, session: &mcpjoin::transport::SessionId) {
        self.0.forget(session);
    }
}

/// An exchange uses the timer of the one before it in its session.
#[test]
fn each_call_has_the_whole_delay_before_its_response_becomes_a_stream() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let call = |id: i64| Box::pin(session.call_in_session(id, "wait", json!({})));
        for id in 1..=3 {
            // Answered 60 ms after it began, so that 40 ms are left of its delay of 100 ms.
            let mut answered = call(id);
            begins(&mut answered).await;
            advance(Duration::from_millis(60)).await;
            gate.open.add_permits(1);
            assert_eq!(answered.await.kind(), "application/json", "call {id}");

            let mut slow = call(id + 10);
            begins(&mut slow).await;
            advance(Duration::from_millis(99)).await;
            begins(&mut slow).await;
            advance(Duration::from_millis(2)).await;
            assert_eq!(slow.await.kind(), "text/event-stream", "call {id}");
            gate.open.add_permits(1);
            settle().await;
        }
    });
}
