//! Tests of streams whose events are stored outside the process: an event is sent once it is stored, and any process resumes a
//! stream. Two services with the same stores stand for two processes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use mcpjoin::Server;
use mcpjoin::proto::RequestId;
use mcpjoin::transport::{
    Confirm, Confirmation, Event, EventId, EventStore, EventStoreError, HttpOptions, Replay, Replayed,
    SessionId, StreamEnd,
};
use serde_json::{Value, json};

use crate::stored_sessions::{Store, at};
use crate::support::{Gate, LEGACY, Peer, Reply, builder, run, settle};

/// What the store does with an event.
#[derive(Clone, Copy, Default)]
enum Mode {
    #[default]
    Stores,
    Waits,
    Refuses,
    /// It cannot be read either.
    IsGone,
}

/// A store of all processes.
#[derive(Clone, Default)]
struct Events(Arc<Inner>);

#[derive(Default)]
struct Inner {
    events: Mutex<Vec<(SessionId, Event)>>,
    waiting: Mutex<Vec<Confirm>>,
    mode: Mutex<Mode>,
    /// The requests with which streams have begun.
    begun: Mutex<Vec<(u64, Vec<RequestId>)>>,
    /// Whether the processes of all streams are taken for gone.
    are_gone: AtomicBool,
}

impl Events {
    fn becomes(&self, mode: Mode) {
        *self.0.mode.lock().unwrap() = mode;
    }

    fn confirm(&self) -> usize {
        let waiting = std::mem::take(&mut *self.0.waiting.lock().unwrap());
        waiting.into_iter().map(Confirm::stored).count()
    }

    fn len(&self) -> usize {
        self.0.events.lock().unwrap().len()
    }
}

impl EventStore for Events {
    fn append(&self, session: &SessionId, event: Event) -> Option<Confirmation> {
        let (confirm, confirmation) = Confirm::new();
        match *self.0.mode.lock().unwrap() {
            Mode::Stores => confirm.stored(),
            Mode::Waits => self.0.waiting.lock().unwrap().push(confirm),
            Mode::Refuses | Mode::IsGone => return Some(confirmation),
        }
        self.0.events.lock().unwrap().push((*session, event));
        Some(confirmation)
    }

    fn begin(&self, session: &SessionId, id: EventId, requests: &[RequestId]) -> Option<Confirmation> {
        self.0.begun.lock().unwrap().push((id.stream, requests.to_vec()));
        self.append(session, Event { id, bytes: Vec::new().into(), last: false })
    }

    fn replay<'a>(&'a self, session: &'a SessionId, after: EventId, before: u64) -> Replay<'a> {
        let events = self.0.events.lock().unwrap();
        let of_stream = events.iter().filter(|(of, event)| of == session && event.id.stream == after.stream);
        let known = of_stream.clone().any(|(_, event)| event.id == after);
        let is_over = of_stream.clone().any(|(_, event)| event.last);
        let later = of_stream.filter(|(_, event)| event.id.number > after.number && event.id.number < before);
        let later: Vec<Event> = later.map(|(_, event)| event.clone()).collect();
        drop(events);
        let begun = self.0.begun.lock().unwrap().iter().rfind(|(begun, _)| *begun == after.stream).cloned();
        let are_gone = self.0.are_gone.load(Ordering::Relaxed);
        let end = match begun.filter(|_| are_gone) {
            _ if is_over => StreamEnd::Ended,
            Some((_, requests)) => StreamEnd::ProcessGone(requests),
            None => StreamEnd::Open,
        };
        let is_gone = matches!(*self.0.mode.lock().unwrap(), Mode::IsGone);
        Box::pin(async move {
            if is_gone {
                return Err(EventStoreError("it is gone".into()));
            }
            Ok(known.then_some(Replayed { events: later, end }))
        })
    }

    fn forget(&self, session: &SessionId) {
        self.0.events.lock().unwrap().retain(|(of, _)| of != session);
    }

    fn is_shared(&self) -> bool {
        true
    }
}

/// Two processes of one server.
fn two(server: &Server, events: &Events) -> [Peer; 2] {
    let store = Store::default();
    let options = || HttpOptions::new().session_store(store.clone()).event_store(events.clone());
    [Peer::new(server, options()), Peer::new(server, options())]
}

/// A session that two processes of one server serve.
struct Opened {
    gate: Gate,
    events: Events,
    server: Server,
    /// At the process that has opened it.
    session: Peer,
    elsewhere: Peer,
}

async fn opened(version: &str) -> Opened {
    let (gate, events) = (Gate::new(), Events::default());
    let server = builder(&gate).build().unwrap();
    let [one, other] = two(&server, &events);
    let session = one.open(version).await;
    let elsewhere = at(&session, &other);
    Opened { gate, events, server, session, elsewhere }
}

async fn resume(session: &Peer, after: &str) -> Reply {
    session.with("last-event-id", after).get().await
}

/// The rest of a stream.
async fn rest(mut reply: Reply) -> Vec<(String, Value)> {
    let mut rest = Vec::new();
    while let Some(message) = reply.message_with_id().await {
        rest.push(message);
    }
    rest
}

#[test]
fn an_event_is_sent_when_it_is_stored() {
    run(async {
        let (gate, events) = (Gate::new(), Events::default());
        let [one, _] = two(&builder(&gate).build().unwrap(), &events);
        let session = one.open(LEGACY).await;
        events.becomes(Mode::Waits);
        let mut reply = session.call_in_session(1, "steps", json!({ "n": 1 })).await;
        assert_eq!(reply.status, 200);
        reply.is_silent().await;
        // What begins the stream, and the progress.
        assert_eq!(events.confirm(), 2);
        let (first, data) = reply.event().await.unwrap();
        assert!(first.ends_with("-0") && data.is_empty(), "{first} {data}");
        assert!(reply.message_with_id().await.unwrap().0.ends_with("-1"));
        gate.open.add_permits(1);
        reply.is_silent().await;
        assert_eq!(events.confirm(), 1);
        let (id, message) = reply.message_with_id().await.unwrap();
        assert!(id.ends_with("-2") && message["id"] == 1, "{id} {message}");
        assert_eq!(reply.message().await, None);
    });
}

#[test]
fn an_event_that_is_not_stored_is_sent_without_an_id_and_cannot_be_resumed() {
    run(async {
        let (gate, events) = (Gate::new(), Events::default());
        let [one, other] = two(&builder(&gate).build().unwrap(), &events);
        let session = one.open(LEGACY).await;
        events.becomes(Mode::Refuses);
        assert!(!has_ids(&session, &gate).await, "no line of an id");
        events.becomes(Mode::Stores);
        let mut reply = session.call_in_session(1, "steps", json!({ "n": 3 })).await;
        let (before, _) = reply.message_with_id().await.unwrap();
        assert!(before.ends_with("-1"), "{before}");
        events.becomes(Mode::Refuses);
        gate.open.add_permits(1);
        let (id, message) = reply.message_with_id().await.unwrap();
        assert_eq!((&*id, &message["params"]["progress"]), ("", &json!(2)));
        events.becomes(Mode::Stores);
        gate.open.add_permits(1);
        let (after, _) = reply.message_with_id().await.unwrap();
        assert!(after.ends_with("-3"), "{after}");
        // At both processes there are gaps before the event that has an id again.
        gate.open.add_permits(1);
        assert_eq!(rest(reply).await.len(), 1);
        assert_eq!(rest(resume(&at(&session, &other), &after).await).await.len(), 1);
        events.becomes(Mode::IsGone);
        let refused = resume(&at(&session, &other), &after).await;
        assert_eq!((refused.status, refused.headers["retry-after"].to_str().unwrap()), (503, "1"));
    });
}

/// Whether any event of a call has an id.
async fn has_ids(session: &Peer, gate: &Gate) -> bool {
    gate.open.add_permits(1);
    let reply = session.call_in_session(100, "steps", json!({ "n": 1 })).await;
    let bytes = String::from_utf8(reply.bytes().await).unwrap();
    assert!(
        bytes.contains("\"progress\"") && bytes.contains("stepped") && bytes.contains("retry: "),
        "{bytes}"
    );
    bytes.contains("id: ")
}

#[test]
fn a_stream_is_resumed_at_another_process() {
    run(async {
        let Opened { gate, session, elsewhere, .. } = opened(LEGACY).await;
        let mut reply = session.call_in_session(1, "steps", json!({ "n": 2 })).await;
        let (begin, _) = reply.event().await.unwrap();
        let (first, _) = reply.message_with_id().await.unwrap();
        drop(reply);
        // What is stored, and then the stream ends: the client asks again.
        let resumed = rest(resume(&elsewhere, &begin).await).await;
        assert_eq!(resumed.iter().map(|(id, _)| &**id).collect::<Vec<_>>(), [&*first]);
        assert_eq!(rest(resume(&elsewhere, &first).await).await, []);
        gate.open.add_permits(2);
        settle().await;
        let resumed = rest(resume(&elsewhere, &first).await).await;
        assert_eq!(resumed.len(), 2);
        assert_eq!(resumed[1].1["id"], 1);
        // A call of the other process has events of another stream, with the same number of the call.
        gate.open.add_permits(1);
        let own = rest(elsewhere.call_in_session(1, "steps", json!({ "n": 1 })).await).await;
        assert_ne!(own[0].0.split_once('-').unwrap().0, first.split_once('-').unwrap().0);
        assert_eq!(rest(resume(&session, &own[0].0).await).await, own[1..]);
    });
}

#[test]
fn another_process_knows_that_the_stream_of_a_cancelled_call_is_over() {
    run(async {
        let Opened { events, session, elsewhere, .. } = opened(LEGACY).await;
        let mut reply = session.call_in_session(1, "steps", json!({ "n": 2 })).await;
        let (begin, _) = reply.event().await.unwrap();
        let (first, _) = reply.message_with_id().await.unwrap();
        assert_eq!(rest(resume(&elsewhere, &first).await).await, [], "more may come");
        let cancelled =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
        assert_eq!(session.post(cancelled).await.status, 202);
        assert_eq!(reply.message().await, None);
        events.0.are_gone.store(true, Ordering::Relaxed);
        for process in [&session, &elsewhere] {
            assert_eq!(rest(resume(process, &begin).await).await.len(), 1);
            assert_eq!(resume(process, &first).await.status, 405);
        }
    });
}

#[test]
fn a_stream_whose_process_is_gone_ends_at_another_one_with_an_error_for_each_of_its_requests() {
    run(async {
        for version in [LEGACY, "2025-06-18"] {
            let Opened { gate, events, session, elsewhere, .. } = opened(version).await;
            let mut reply = session.call_in_session(1, "steps", json!({ "n": 2 })).await;
            let (first, _) = reply.message_with_id().await.unwrap();
            gate.open.add_permits(1);
            let (second, _) = reply.message_with_id().await.unwrap();
            drop(reply);
            assert_eq!(rest(resume(&elsewhere, &second).await).await, [], "its process is there");
            events.0.are_gone.store(true, Ordering::Relaxed);
            for (after, missed) in [(&first, 1), (&second, 0), (&second, 0)] {
                let resumed = rest(resume(&elsewhere, after).await).await;
                assert_eq!(resumed.len(), missed + 1, "{version}");
                let (id, error) = resumed.last().unwrap();
                assert_eq!((&error["id"], &error["error"]["code"]), (&json!(1), &json!(-32603)));
                // A client that asks once more learns that this was all.
                assert_eq!(resume(&elsewhere, id).await.status, 405, "{id}");
                let message = error["error"]["message"].as_str().unwrap();
                assert!(message.contains("has ended without a response"), "{message}");
            }
            // A process that has the stream knows better, and so does a store that has the response.
            gate.open.add_permits(1);
            let resumed = rest(resume(&session, &second).await).await;
            assert_eq!((resumed.len(), &resumed[0].1["id"]), (1, &json!(1)));
            let (last, _) = &resumed[0];
            assert_eq!(rest(resume(&elsewhere, &second).await).await, resumed);
            assert_eq!(resume(&elsewhere, last).await.status, 405);
            // Without the ids of its requests it is refused.
            let mut reply = session.call_in_session(2, "steps", json!({ "n": 2 })).await;
            let (first, _) = reply.message_with_id().await.unwrap();
            drop(reply);
            events.0.begun.lock().unwrap().iter_mut().for_each(|(_, requests)| requests.clear());
            assert_eq!(resume(&elsewhere, &first).await.status, 400);
        }
    });
}

#[test]
fn the_standing_stream_goes_on_at_another_process_after_what_was_missed() {
    run(async {
        let Opened { server, events, session, elsewhere, .. } = opened(LEGACY).await;
        let mut stream = session.get().await;
        let (begin, _) = stream.event().await.unwrap();
        assert!(server.handle().remove_tool("log").unwrap());
        let (missed, _) = stream.message_with_id().await.unwrap();
        drop(stream);
        // It answers no request, so the end of its process costs nothing.
        events.0.are_gone.store(true, Ordering::Relaxed);
        let mut resumed = resume(&elsewhere, &begin).await;
        assert_eq!(resumed.message_with_id().await.unwrap().0, missed);
        let (own, _) = resumed.event().await.unwrap();
        assert!(own.ends_with("-0") && own != begin, "{own}");
        assert!(server.handle().remove_tool("ask").unwrap());
        let (id, _) = resumed.message_with_id().await.unwrap();
        assert_eq!(id, own.replace("-0", "-1"));
        // A newer reader replaces it, wherever it has its id from.
        let mut again = resume(&elsewhere, &missed).await;
        assert_eq!(resumed.message().await, None);
        assert!(server.handle().remove_tool("echo").unwrap());
        assert!(again.message_with_id().await.is_some());
        for unknown in ["0-1", "9223372036854775809-1", "7-1"] {
            assert_eq!(resume(&elsewhere, unknown).await.status, 400, "{unknown}");
        }
    });
}

#[test]
fn a_shared_store_gets_no_events_of_other_sessions_and_forgets_those_of_a_session_that_was_ended() {
    run(async {
        let (gate, events) = (Gate::new(), Events::default());
        let server = builder(&gate).build().unwrap();
        let alone = Peer::new(&server, HttpOptions::new().event_store(events.clone()));
        let session = alone.open(LEGACY).await;
        gate.open.add_permits(2);
        let whole = rest(session.call_in_session(1, "steps", json!({ "n": 1 })).await).await;
        assert_eq!((&*whole[0].0, events.len()), ("1-1", 0));
        assert_eq!(rest(resume(&session, "1-1").await).await, whole[1..]);
        let [one, other] = two(&server, &events);
        let session = one.open(LEGACY).await;
        rest(session.call_in_session(1, "steps", json!({ "n": 1 })).await).await;
        assert_eq!(events.len(), 3);
        let elsewhere = at(&session, &other);
        assert_eq!(elsewhere.send(http::Method::DELETE, "/mcp", "").await.status, 204);
        assert_eq!(events.len(), 0);
        assert_eq!(elsewhere.send(http::Method::DELETE, "/mcp", "").await.status, 404);
    });
}
