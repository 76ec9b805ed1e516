//! Tests of the server's memory limits: bodies, responses and events have totals, and each client has a share.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::request::Parts;
use http_body::{Body, Frame};
use mcpjoin::Server;
use mcpjoin::proto::Raw;
use mcpjoin::proto::session::Limits;
use mcpjoin::proto::types::Tool;
use mcpjoin::server::Context as Call;
use mcpjoin::transport::HttpOptions;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tower_service::Service as _;

use crate::support::{Gate, LEGACY, Peer, Reply, begins, builder, call, modern, run, settle, text};

const KIB: usize = 1024;

/// The size limit of one message, which is also the minimum of the other limits.
const MESSAGE: usize = 100 * KIB;

/// A body whose pieces arrive when the test sends them.
struct Pieces(mpsc::UnboundedReceiver<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

fn who(parts: &Parts) -> Option<String> {
    parts.headers.get("x-who").map(|value| value.to_str().unwrap().to_owned())
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.message = MESSAGE;
    limits
}

fn limited(options: HttpOptions) -> (Peer, Gate) {
    let gate = Gate::new();
    let server = builder(&gate).limits(limits()).build().unwrap();
    (Peer::new(&server, options.principal(who)), gate)
}

/// The remaining pieces of a body, the sender for them, and the pending reply.
type Upload = (VecDeque<Bytes>, mpsc::UnboundedSender<Bytes>, Pin<Box<dyn Future<Output = Reply>>>);

impl Peer {
    /// Begins a call of `steps` with a body of this many bytes: returns the remaining pieces, their sender, and the reply.
    fn uploads(&self, bytes: usize) -> Upload {
        let body = |padding: usize| {
            let arguments = json!({ "n": 1, "padding": "x".repeat(padding) });
            modern(1, "tools/call", json!({ "name": "steps", "arguments": arguments })).to_string()
        };
        let body = Bytes::from(body(bytes - body(0).len()));
        assert_eq!(body.len(), bytes);
        let pieces =
            (0..bytes).step_by(10 * KIB).map(|at| body.slice(at..bytes.min(at + 10 * KIB))).collect();
        let (sender, pending) = mpsc::unbounded_channel();
        let (parts, _) =
            self.modern("tools/call", "steps").request(http::Method::POST, "/mcp", "").into_parts();
        let mut service = self.service.clone();
        let request = Request::from_parts(parts, Pieces(pending));
        let reply = Box::pin(async move { Reply::of(service.call(request).await.unwrap()) });
        (pieces, sender, reply)
    }

    /// The same, with all but the last piece sent.
    async fn uploads_most(
        &self,
        bytes: usize,
    ) -> (Bytes, mpsc::UnboundedSender<Bytes>, Pin<Box<dyn Future<Output = Reply>>>) {
        let (mut pieces, sender, mut reply) = self.uploads(bytes);
        let last = pieces.pop_back().unwrap();
        for piece in pieces {
            sender.send(piece).unwrap();
        }
        begins(&mut reply).await;
        (last, sender, reply)
    }
}

async fn refused(reply: Reply) -> String {
    assert_eq!((reply.status, &reply.headers["retry-after"]), (503, &"1".parse().unwrap()));
    reply.json().await["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn bodies_that_are_read_have_a_total_and_each_client_a_share() {
    run(async {
        let (peer, _) = limited(HttpOptions::new().max_body_bytes(250 * KIB, 120 * KIB));
        let [a, b, c] = ["a", "b", "c"].map(|who| peer.with("x-who", who));
        let first = a.uploads_most(MESSAGE).await;
        assert_eq!(peer.service.body_bytes(), 90 * KIB);
        let began = Instant::now();
        let (pieces, sender, reply) = a.uploads(MESSAGE);
        pieces.into_iter().for_each(|piece| sender.send(piece).unwrap());
        assert_eq!(
            refused(reply.await).await,
            format!("the limit `max_body_bytes` of {} bytes for one client is reached", 120 * KIB)
        );
        assert_eq!(began.elapsed(), Duration::from_secs(2), "it waits for room");
        let second = b.uploads_most(MESSAGE).await;
        let (pieces, sender, reply) = c.uploads(MESSAGE);
        pieces.into_iter().for_each(|piece| sender.send(piece).unwrap());
        assert_eq!(
            refused(reply.await).await,
            format!("the limit `max_body_bytes` of {} bytes for all clients together is reached", 250 * KIB)
        );
        // A small body that arrives in one piece counts towards no limit.
        assert_eq!(text(&c.call(1, "echo", json!({ "message": "hi" })).await.json().await), "hi");
        drop((first, second));
        assert_eq!(peer.service.body_bytes(), 0);
    });
}

#[test]
fn a_body_for_which_there_is_room_in_time_is_read() {
    run(async {
        let (peer, gate) = limited(HttpOptions::new().max_body_bytes(0, 0));
        let first = peer.uploads_most(MESSAGE).await;
        let (pieces, sender, mut reply) = peer.uploads(MESSAGE);
        pieces.into_iter().for_each(|piece| sender.send(piece).unwrap());
        drop(sender);
        begins(&mut reply).await;
        assert_eq!(peer.service.body_bytes(), MESSAGE, "the limit is that of a message at least");
        drop(first);
        gate.open.add_permits(1);
        assert_eq!(text(&reply.await.json().await), "stepped");
    });
}

#[test]
fn the_body_of_a_call_is_counted_until_the_call_is_over() {
    run(async {
        let (peer, gate) = limited(HttpOptions::new());
        let (last, sender, mut reply) = peer.uploads_most(MESSAGE).await;
        sender.send(last).unwrap();
        drop(sender);
        begins(&mut reply).await;
        assert_eq!(peer.service.body_bytes(), MESSAGE);
        gate.open.add_permits(1);
        let reply = reply.await;
        settle().await;
        assert_eq!(peer.service.body_bytes(), 0);
        assert_eq!(text(&reply.json().await), "stepped");
        // The client of this upload disconnects.
        let (last, sender, mut reply) = peer.uploads_most(MESSAGE).await;
        sender.send(last).unwrap();
        drop(sender);
        begins(&mut reply).await;
        drop(reply);
        settle().await;
        assert_eq!(peer.service.body_bytes(), 0);
    });
}

/// Sends a call that asks for no progress, so that the response is JSON.
async fn echo(peer: &Peer, length: usize) -> Reply {
    peer.call(1, "echo", json!({ "message": "x".repeat(length) })).await
}

#[test]
fn responses_that_are_not_taken_have_a_total_and_each_client_a_share() {
    run(async {
        let (peer, _) = limited(HttpOptions::new().max_response_bytes(250 * KIB, 120 * KIB));
        let [a, b, c] = ["a", "b", "c"].map(|who| peer.with("x-who", who));
        let first = echo(&a, 90 * KIB).await;
        assert!(peer.service.response_bytes() > 90 * KIB);
        let reply = echo(&a, 90 * KIB).await;
        assert_eq!(reply.status, 503);
        let error = reply.json().await;
        let limit =
            format!("the limit `max_response_bytes` of {} bytes for one client is reached", 120 * KIB);
        assert_eq!((&error["id"], &error["error"]["message"]), (&json!(1), &json!(limit)));
        let second = echo(&b, 90 * KIB).await;
        let error = echo(&c, 90 * KIB).await.json().await;
        let limit = format!(
            "the limit `max_response_bytes` of {} bytes for all clients together is reached",
            250 * KIB
        );
        assert_eq!(error["error"]["message"], json!(limit));
        // Each client gets its response while there is room.
        let third = echo(&c, 10 * KIB).await;
        for (reply, length) in [(first, 90), (second, 90), (third, 10)] {
            assert_eq!(text(&reply.json().await).len(), length * KIB);
        }
        assert_eq!(peer.service.response_bytes(), 0);
        drop(echo(&a, 90 * KIB).await);
        assert_eq!(peer.service.response_bytes(), 0, "a response that is not read");
    });
}

#[test]
fn the_responses_of_a_batch_count_like_others() {
    run(async {
        let (peer, _) = limited(HttpOptions::new().max_response_bytes(120 * KIB, 120 * KIB));
        let session = peer.open("2025-03-26").await;
        let part = |id: i64| {
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "echo", "arguments": { "message": "x".repeat(40 * KIB) } } })
        };
        let batch = json!([part(1), part(2)]);
        let held = session.post(&batch).await;
        assert!(peer.service.response_bytes() > 80 * KIB);
        let answers = session.post(&batch).await.json().await;
        let mut ids = Vec::new();
        for answer in answers.as_array().unwrap() {
            assert_eq!(answer["error"]["code"], -32603, "{answer}");
            ids.push(answer["id"].as_i64().unwrap());
        }
        ids.sort_unstable();
        assert_eq!(ids, [1, 2]);
        assert_eq!(held.json().await.as_array().unwrap().len(), 2);
        assert_eq!(peer.service.response_bytes(), 0);
    });
}

/// A server whose tool reports progress, and then returns a long result.
fn long() -> Server {
    let any = Raw::parse(r#"{"type":"object"}"#).unwrap();
    Server::builder("s", "1")
        .raw_tool(Tool::new("long", any), |_, cx: Call| async move {
            cx.progress(1.0, None, None);
            tokio::task::yield_now().await;
            "x".repeat(90 * KIB)
        })
        .limits(limits())
        .build()
        .unwrap()
}

#[test]
fn a_stream_without_room_for_the_result_ends_with_an_error_or_is_resumed_later() {
    run(async {
        let peer =
            Peer::new(&long(), HttpOptions::new().principal(who).max_response_bytes(120 * KIB, 120 * KIB));
        let told = json!({ "name": "long", "arguments": {}, "_meta": { "progressToken": 1 } });
        // A stream whose result was not read holds the room.
        let mut holds = peer.ask(1, "tools/call", told.clone()).await;
        settle().await;
        let mut reply = peer.ask(1, "tools/call", told).await;
        assert_eq!(reply.message().await.unwrap()["method"], "notifications/progress");
        let last = reply.message().await.unwrap();
        assert_eq!((&last["id"], &last["error"]["code"]), (&json!(1), &json!(-32603)));
        assert_eq!(reply.message().await, None);
        // In a session the server keeps the result for a client that resumes.
        let session = peer.open(LEGACY).await;
        let mut reply = session.post(call(1, "long", json!({}))).await;
        settle().await;
        let mut seen = String::new();
        while let Some((id, message)) = reply.event().await {
            assert!(!message.contains("result"));
            seen = id;
        }
        assert_eq!(seen, "1-1");
        let resume = session.with("last-event-id", &seen);
        assert_eq!(resume.get().await.status, 503, "there is no room yet");
        assert_eq!(holds.message().await.unwrap()["method"], "notifications/progress");
        assert_eq!(text(&holds.message().await.unwrap()).len(), 90 * KIB);
        drop(holds);
        assert_eq!(text(&resume.get().await.message().await.unwrap()).len(), 90 * KIB);
        drop((reply, session));
        assert_eq!(peer.service.response_bytes(), 0);
    });
}

#[test]
fn what_no_stream_waits_for_is_not_kept_where_there_is_little_room() {
    run(async {
        for (held, kept) in [(20, true), (50, false)] {
            let server = builder(&Gate::new()).limits(limits()).build().unwrap();
            let options = HttpOptions::new().without_resumption().principal(who);
            let peer = Peer::new(&server, options.max_response_bytes(120 * KIB, 120 * KIB));
            let session = peer.open(LEGACY).await;
            let response = echo(&peer.with("x-who", "other"), held * KIB).await;
            let before = peer.service.response_bytes();
            server.handle().notify_tools_changed().unwrap();
            settle().await;
            assert_eq!(peer.service.response_bytes() > before, kept, "{held} KiB are held");
            drop(response);
            let mut stream = session.get().await;
            if kept {
                assert_eq!(stream.message().await.unwrap()["method"], "notifications/tools/list_changed");
            } else {
                stream.is_silent().await;
            }
            drop(stream);
            assert_eq!(peer.service.response_bytes(), 0);
        }
    });
}

// ---- the number of sessions ----

async fn opens(peer: &Peer) -> Option<Peer> {
    let reply = peer.post(crate::support::initialize(LEGACY, json!({}))).await;
    if reply.status != 200 {
        assert_eq!(refused(reply).await, "too many sessions");
        return None;
    }
    let id = reply.headers["mcp-session-id"].to_str().unwrap().to_owned();
    Some(peer.with("mcp-session-id", &id).with("mcp-protocol-version", LEGACY))
}

async fn is_open(session: &Peer) -> bool {
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    match session.post(ping).await.status {
        200 => true,
        404 => false,
        status => panic!("{status}"),
    }
}

/// Lets this much time pass.
async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

#[test]
fn one_client_holds_at_most_half_of_the_sessions_while_another_wants_one() {
    run(async {
        let (peer, _) = limited(HttpOptions::new().max_sessions(4));
        let [a, b, c] = ["a", "b", "c"].map(|who| peer.with("x-who", who));
        let mut of_a = Vec::new();
        for _ in 0..4 {
            of_a.push(opens(&a).await.unwrap());
            pass(1).await;
        }
        assert!(opens(&a).await.is_none(), "all are its own, and none was idle for long");
        let listening = of_a[0].get().await;
        assert!(opens(&b).await.is_some());
        assert!(is_open(&of_a[0]).await && !is_open(&of_a[1]).await, "the longest idle one without a stream");
        assert!(opens(&a).await.is_none(), "who holds more than half takes nothing");
        assert!(opens(&b).await.is_some());
        assert_eq!(peer.service.sessions(), 4);
        assert!(opens(&b).await.is_none(), "who holds half takes nothing");
        assert!(opens(&c).await.is_some(), "who has none takes one of the client that holds most");
        assert!(opens(&c).await.is_none(), "and no more than makes them equal");
        assert_eq!(peer.service.sessions(), 4);
        drop(listening);
    });
}

#[test]
fn streams_and_calls_end_only_where_a_client_has_more_than_half() {
    run(async {
        let (peer, _) = limited(HttpOptions::new().max_sessions(4));
        let [a, b] = ["a", "b"].map(|who| peer.with("x-who", who));
        let mut streams = Vec::new();
        for _ in 0..4 {
            let session = opens(&a).await.unwrap();
            streams.push(session.get().await);
            pass(1).await;
        }
        pass(100).await;
        assert!(opens(&a).await.is_none(), "a session with a stream is not idle");
        for _ in 0..2 {
            assert!(opens(&b).await.is_some());
        }
        assert!(opens(&b).await.is_none());
        for (place, stream) in streams.iter_mut().enumerate() {
            stream.event().await.unwrap();
            let ended = tokio::time::timeout(Duration::from_secs(1), stream.message()).await;
            assert_eq!(ended == Ok(None), place < 2, "{place}: {ended:?}");
        }
    });
}

#[test]
fn the_longest_idle_session_ends_before_anyone_is_refused() {
    run(async {
        let (peer, _) = limited(HttpOptions::new().max_sessions(3));
        let mut sessions = Vec::new();
        for _ in 0..3 {
            sessions.push(opens(&peer).await.unwrap());
            pass(10).await;
        }
        assert!(is_open(&sessions[0]).await);
        // The second session has been idle for 59 s.
        pass(39).await;
        assert!(opens(&peer).await.is_none());
        pass(1).await;
        let fourth = opens(&peer).await.unwrap();
        let mut open = Vec::new();
        for session in sessions.iter().chain([&fourth]) {
            open.push(is_open(session).await);
        }
        assert_eq!(open, [true, false, true, true]);
    });
}

#[test]
fn the_only_session_ends_for_another_client_only_after_it_was_idle() {
    run(async {
        let (peer, _) = limited(HttpOptions::new().max_sessions(1));
        let [a, b] = ["a", "b"].map(|who| peer.with("x-who", who));
        let session = opens(&a).await.unwrap();
        let stream = session.get().await;
        pass(100).await;
        assert!(opens(&b).await.is_none(), "it is in use");
        drop(stream);
        assert!(opens(&b).await.is_none(), "it was in use until now");
        pass(60).await;
        assert!(opens(&b).await.is_some());
        assert!(!is_open(&session).await);
    });
}

#[test]
fn a_place_that_came_to_nothing_is_free_again() {
    run(async {
        let (peer, _) = limited(HttpOptions::new().max_sessions(2));
        let a = peer.with("x-who", "a");
        for _ in 0..5 {
            let refused: Value = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": 7 });
            assert!(!a.post(refused).await.headers.contains_key("mcp-session-id"));
        }
        let session = opens(&a).await.unwrap();
        assert_eq!(session.send(http::Method::DELETE, "/mcp", "").await.status, 204);
        for _ in 0..2 {
            assert!(opens(&a).await.is_some());
        }
        assert!(opens(&a).await.is_none());
    });
}
