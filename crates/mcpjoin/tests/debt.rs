//! Tests of two peers with many pending responses to each other: how much a peer still reads then, which requests it
//! defers, and that every wait ends.
//!
//! The session defines the rules (`mcpjoin_proto::session`, tested there over simulated pipes). These tests check them
//! over real byte streams with the real driver.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use mcpjoin::connection::Connection;
use mcpjoin::proto::session::{Call, CloseCause, EraChoice, Limits};
use mcpjoin::proto::types::{CreateMessageResult, ElicitAction, ElicitResult, Role, SamplingContent};
use mcpjoin::proto::{Era, Method, Raw};
use mcpjoin::server::{Context, HandlerError, NoArguments, tool};
use mcpjoin::{Client, Link, Server};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// The two ends of a pair of pipes that hold `bytes` each.
fn pipes(bytes: usize) -> (Link, Link) {
    let (ours, theirs) = tokio::io::duplex(bytes);
    let (reader, writer) = tokio::io::split(ours);
    let ours = Link::stream(reader, writer, "pipe");
    let (reader, writer) = tokio::io::split(theirs);
    (ours, Link::stream(reader, writer, "pipe"))
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

fn echo() -> Server {
    Server::builder("s", "1").tool(tool("echo"), |echo: Echo, _| async move { echo.message }).build().unwrap()
}

/// 10,000 calls of 64 KiB from each side would be 2.5 GB through an unoptimised build; the session's own test
/// makes them all. This number is enough to fill every buffer on the way dozens of times.
const CALLS: usize = 150;

#[tokio::test]
async fn two_peers_that_both_call_through_pipes_of_4_kib_never_block_each_other() {
    let text = "x".repeat(64 * 1024);
    let (ours, theirs) = pipes(4096);
    let asked = echo().connect(theirs);
    let client = Client::builder("c", "1")
        .era(EraChoice::Only(Era::Legacy))
        .sampling(|params| async move {
            let text = params.messages[0].content.as_slice()[0].clone();
            Ok(CreateMessageResult::new(Role::Assistant, text, "model"))
        })
        .connect(ours)
        .await
        .unwrap();
    let arguments = Raw::from_value(&serde_json::json!({ "message": text })).unwrap();
    let from_client = stream::iter(0..CALLS)
        .map(|_| async {
            let result = client.call_tool("echo", Some(arguments.clone())).await.unwrap();
            assert_eq!(result.content[0].as_text().map(str::len), Some(64 * 1024));
        })
        .buffer_unordered(CALLS)
        .count();
    let question = Raw::from_value(&serde_json::json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": text } }],
        "maxTokens": 1,
    }))
    .unwrap();
    let from_server = stream::iter(0..CALLS)
        .map(|_| async {
            let call = Call::new(Method::CreateMessage).with_params(question.clone());
            asked.call(call).await.unwrap();
        })
        .buffer_unordered(CALLS)
        .count();
    let both = futures_util::future::join(from_client, from_server);
    let (from_client, from_server) = tokio::time::timeout(Duration::from_secs(120), both).await.unwrap();
    assert_eq!((from_client, from_server), (CALLS, CALLS));
    assert_eq!(asked.in_flight(), (0, 0));
}

#[tokio::test]
async fn c67_two_thousand_calls_that_each_ask_back_are_answered_by_a_server_that_handles_sixteen() {
    let at_once = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (counting, peak) = (at_once, most.clone());
    let mut limits = Limits::default();
    limits.handling = 16;
    let server = Server::builder("s", "1")
        .limits(limits)
        .tool(tool("ask"), move |_: NoArguments, cx: Context| {
            let (counting, peak) = (counting.clone(), peak.clone());
            async move {
                peak.fetch_max(counting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let schema = serde_json::json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
                let answer = cx.elicit(Raw::from_value(&schema)?.decode::<mcpjoin::proto::types::ElicitParams>()?).await;
                counting.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, HandlerError>(if answer?.action == ElicitAction::Accept { "yes" } else { "no" })
            }
        })
        .build()
        .unwrap();
    let (ours, theirs) = pipes(4096);
    server.connect(theirs);
    let client = Client::builder("c", "1")
        .era(EraChoice::Only(Era::Legacy))
        .elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Accept)) })
        .connect(ours)
        .await
        .unwrap();
    let calls = (0..2000).map(|_| client.call_tool("ask", ()));
    let all = futures_util::future::join_all(calls.map(IntoFuture::into_future));
    for result in tokio::time::timeout(Duration::from_secs(60), all).await.unwrap() {
        assert_eq!(result.unwrap().content[0].as_text(), Some("yes"));
    }
    assert_eq!(most.load(Ordering::SeqCst), 16);
}

/// A client that requests megabytes and reads no response; returns the number of responses that the server made.
async fn deaf_client(requests: usize) -> (Connection, DuplexStream, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    let counting = made.clone();
    let server = Server::builder("s", "1")
        .tool(tool("megabyte"), move |_: NoArguments, _| {
            counting.fetch_add(1, Ordering::SeqCst);
            async { "x".repeat(1 << 20) }
        })
        .build()
        .unwrap();
    let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(theirs);
    let connection = server.connect(Link::stream(reader, writer, "pipe"));
    let mut said = String::from(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
    );
    for id in 1..=requests {
        said.push_str(&format!(
            "\n{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"megabyte\"}}}}"
        ));
    }
    said.push('\n');
    ours.write_all(said.as_bytes()).await.unwrap();
    (connection, ours, made)
}

#[tokio::test(start_paused = true)]
async fn e92_a_peer_that_reads_late_gets_everything_and_the_server_holds_little_meanwhile() {
    let (connection, mut ours, made) = deaf_client(400).await;
    // Virtual time passes only when all tasks wait: here, for the peer.
    let nothing: Result<(), _> = tokio::time::timeout(Duration::from_secs(20), std::future::pending()).await;
    assert!(nothing.is_err());
    // Each response is a megabyte: the server makes only as many as the limit of 8 MiB and the buffers on the way hold.
    let made = made.load(Ordering::SeqCst);
    assert!((1..=10).contains(&made), "{made} of 400 replies were made for a peer that reads none");
    let mut bytes = vec![0; 1 << 20];
    let mut lines = 0;
    while lines < 401 {
        let read = ours.read(&mut bytes).await.unwrap();
        lines += bytes[..read].iter().filter(|byte| **byte == b'\n').count();
    }
    assert_eq!(connection.in_flight(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_reads_is_given_up_after_thirty_seconds() {
    let began = tokio::time::Instant::now();
    let (connection, _ours, _) = deaf_client(400).await;
    let cause = connection.closed().await;
    assert!(matches!(cause, CloseCause::Stalled { .. }), "{cause}");
    let took = began.elapsed();
    assert!((30..35).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test]
async fn e93_a_small_call_behind_a_large_reply_waits_for_one_message_and_no_more() {
    let (ours, theirs) = pipes(64 * 1024);
    let server = Server::builder("s", "1")
        .tool(tool("large"), |_: NoArguments, _| async { "x".repeat(8 << 20) })
        .tool(tool("small"), |_: NoArguments, _| async { "small" })
        .build()
        .unwrap();
    server.connect(theirs);
    let client = Client::builder("c", "1").connect(ours).await.unwrap();
    let mut order = stream::iter(["large", "small", "large"])
        .map(|name| {
            let call = client.call_tool(name, ());
            async move {
                call.await.unwrap();
                name
            }
        })
        .buffer_unordered(3);
    let mut seen = Vec::new();
    while let Some(name) = order.next().await {
        seen.push(name);
    }
    assert_eq!(seen, ["large", "small", "large"], "the small one waits for 8 MiB and not for 16");
}

#[test]
fn sampling_content_is_a_block() {
    // The sampling response above relies on this: a single block may take the place of a list of one.
    let block: SamplingContent = Raw::parse(r#"{"type":"text","text":"x"}"#).unwrap().decode().unwrap();
    assert!(matches!(block, SamplingContent::Text(_)));
}

/// The messages of a scripted client to a server: the opening, and then the calls.
fn calls(from: usize, tools: &[&str]) -> String {
    let call = |(place, tool): (usize, &&str)| {
        let id = from + place;
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\"}}}}\n"
        )
    };
    tools.iter().enumerate().map(call).collect()
}

const OPENS: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

/// Reads until a line contains these words.
async fn expects(ours: &mut DuplexStream, words: &str) {
    let mut received = Vec::new();
    let mut piece = vec![0; 1 << 20];
    let all = async {
        while !received.windows(words.len()).any(|window| window == words.as_bytes()) {
            let length = ours.read(&mut piece).await.unwrap();
            assert_ne!(length, 0, "the server has ended");
            received.extend_from_slice(&piece[..length]);
        }
    };
    tokio::time::timeout(Duration::from_secs(5), all).await.unwrap_or_else(|_| panic!("nobody says {words}"));
}

/// Runs every ready task: virtual time passes only when all tasks wait for something else.
async fn settle() {
    let nothing: Result<(), _> = tokio::time::timeout(Duration::from_millis(1), std::future::pending()).await;
    assert!(nothing.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_begins_when_the_answer_before_it_leaves_is_polled_again() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let begun = tokio::sync::watch::Sender::new(false);
    let mut limits = Limits::default();
    limits.handling = 1;
    let server = Server::builder("s", "1")
        .limits(limits)
        .tool(tool("quick"), |_: NoArguments, _| async { "quick" })
        .tool(tool("waits"), {
            let (gate, begun) = (gate.clone(), begun.clone());
            move |_: NoArguments, _| {
                let (gate, begun) = (gate.clone(), begun.clone());
                async move {
                    begun.send_replace(true);
                    gate.acquire().await.unwrap().forget();
                    "waited"
                }
            }
        })
        .build()
        .unwrap();
    let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(theirs);
    server.connect(Link::stream(reader, writer, "pipe"));
    // The second handler begins when the first response is sent: after the handlers of that turn were polled.
    let said = format!("{OPENS}\n{}", calls(1, &["quick", "waits"]));
    ours.write_all(said.as_bytes()).await.unwrap();
    begun.subscribe().wait_for(|begun| *begun).await.unwrap();
    settle().await;
    gate.add_permits(1);
    expects(&mut ours, "waited").await;
}

/// The size of a pipe in the tests below.
const PIPE: usize = 1 << 20;
/// How much longer than the pipe the first response is: more than a link accepts before it has no room.
const OVER: usize = 400 * 1024;

/// A server with pending responses larger than the pipe, and one small response that its link does not accept any more.
/// It starts no further handler until the link has sent that data, and reads one more request.
async fn owes_more_than_a_pipe() -> DuplexStream {
    let mut limits = Limits::default();
    (limits.queued_replies, limits.waiting) = (1024, 1);
    let server = Server::builder("s", "1")
        .limits(limits)
        .tool(tool("large"), |_: NoArguments, _| async { "x".repeat(PIPE + OVER) })
        .tool(tool("small"), |_: NoArguments, _| async { format!("small{}", "y".repeat(2048)) })
        .tool(tool("last"), |_: NoArguments, _| async { "last" })
        .build()
        .unwrap();
    let (mut ours, theirs) = tokio::io::duplex(PIPE);
    let (reader, writer) = tokio::io::split(theirs);
    server.connect(Link::stream(reader, writer, "pipe"));
    ours.write_all(format!("{OPENS}\n{}", calls(1, &["large"])).as_bytes()).await.unwrap();
    settle().await;
    ours.write_all(calls(2, &["small"]).as_bytes()).await.unwrap();
    settle().await;
    ours
}

#[tokio::test(start_paused = true)]
async fn what_did_not_fit_into_the_link_leaves_when_the_peer_takes_everything_at_once() {
    let mut ours = owes_more_than_a_pipe().await;
    expects(&mut ours, "small").await;
}

#[tokio::test(start_paused = true)]
async fn what_came_while_too_much_was_owed_is_read_when_everything_has_left() {
    let mut ours = owes_more_than_a_pipe().await;
    // The first of these requests waits, and the second is not read yet.
    ours.write_all(calls(3, &["small", "last"]).as_bytes()).await.unwrap();
    settle().await;
    // The link has room again, and still has data to send.
    let mut taken = vec![0; OVER - 100 * 1024];
    ours.read_exact(&mut taken).await.unwrap();
    settle().await;
    expects(&mut ours, "last").await;
}

/// The client has 200 requests of a mebibyte at once, over a pipe and in memory, and answers all of them: it handles four at
/// once, eight wait, and it does not read the others until there is room.
#[tokio::test(start_paused = true)]
async fn two_hundred_requests_of_a_mebibyte_at_once_are_all_answered() {
    let message = "x".repeat(1 << 20);
    let arguments = Raw::from_value(&serde_json::json!({ "message": message })).unwrap();
    for (ours, theirs) in [pipes(64 * 1024), Link::memory()] {
        let mut limits = Limits::default();
        limits.handling = 4;
        let server = Server::builder("s", "1")
            .limits(limits)
            .tool(tool("measure"), |echo: Echo, _| async move {
                // The handler does not answer in the turn in which the request arrived.
                tokio::task::yield_now().await;
                echo.message.len().to_string()
            })
            .build()
            .unwrap();
        server.connect(theirs);
        let mut limits = Limits::default();
        limits.queued_calls = 512 << 20;
        let client = Client::builder("c", "1").limits(limits).connect(ours).await.unwrap();
        let calls = (0..200).map(|_| client.call_tool("measure", Some(arguments.clone())).into_future());
        for result in futures_util::future::join_all(calls).await {
            assert_eq!(result.unwrap().content[0].as_text(), Some("1048576"));
        }
    }
}

/// One read returns more requests than there is room for: the connection keeps the rest, and starts their handlers when
/// there is room.
#[tokio::test(start_paused = true)]
async fn what_was_read_at_once_and_finds_no_room_is_kept_and_answered() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let begun = tokio::sync::watch::Sender::new(0);
    let mut limits = Limits::default();
    (limits.handling, limits.waiting) = (1, 1);
    let server = Server::builder("s", "1")
        .limits(limits)
        .tool(tool("waits"), {
            let (gate, begun) = (gate.clone(), begun.clone());
            move |_: NoArguments, _| {
                let (gate, begun) = (gate.clone(), begun.clone());
                async move {
                    begun.send_modify(|begun| *begun += 1);
                    gate.acquire().await.unwrap().forget();
                    "waited"
                }
            }
        })
        .build()
        .unwrap();
    let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(theirs);
    let connection = server.connect(Link::stream(reader, writer, "pipe"));
    let said = format!("{OPENS}\n{}", calls(1, &["waits"; 20]));
    ours.write_all(said.as_bytes()).await.unwrap();
    settle().await;
    // One request is handled, and one waits; the session has not accepted the others yet.
    assert_eq!((*begun.borrow(), connection.in_flight()), (1, (0, 2)));
    let mut lines = tokio::io::BufReader::new(ours).lines();
    lines.next_line().await.unwrap().unwrap();
    for number in 1..=20 {
        gate.add_permits(1);
        let reply = lines.next_line().await.unwrap().unwrap();
        assert!(reply.contains(&format!("\"id\":{number},")) && reply.contains("waited"), "{reply}");
    }
    settle().await;
    assert_eq!((*begun.borrow(), connection.in_flight()), (20, (0, 0)));
}

/// A server that sends its client a request reads the response, however many requests arrive before it, and refuses the
/// requests that it has no room for.
#[tokio::test(start_paused = true)]
async fn what_is_asked_meanwhile_is_answered_behind_requests_that_find_no_room() {
    let mut limits = Limits::default();
    (limits.handling, limits.waiting) = (1, 1);
    let server = Server::builder("s", "1")
        .limits(limits)
        .tool(tool("asks"), |_: NoArguments, cx: Context| async move {
            let schema = serde_json::json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
            let answer = cx.elicit(Raw::from_value(&schema)?.decode::<mcpjoin::proto::types::ElicitParams>()?).await?;
            Ok::<_, HandlerError>(if answer.action == ElicitAction::Accept { "yes" } else { "no" })
        })
        .build()
        .unwrap();
    let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(theirs);
    server.connect(Link::stream(reader, writer, "pipe"));
    let opens = OPENS.replace("\"capabilities\":{}", "\"capabilities\":{\"elicitation\":{}}");
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    ours.write_all(format!("{opens}\n{ready}\n{}", calls(1, &["asks"])).as_bytes()).await.unwrap();
    let mut lines = tokio::io::BufReader::new(ours).lines();
    lines.next_line().await.unwrap().unwrap();
    let asked = lines.next_line().await.unwrap().unwrap();
    assert!(asked.contains("elicitation/create"), "{asked}");
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}"#;
    lines
        .get_mut()
        .get_mut()
        .write_all(format!("{}{answer}\n", calls(2, &["asks"; 3])).as_bytes())
        .await
        .unwrap();
    let mut replies = Vec::new();
    for _ in 0..3 {
        let line = lines.next_line().await.unwrap().unwrap();
        replies.push(serde_json::from_str::<serde_json::Value>(&line).unwrap());
    }
    let refused = replies.iter().filter(|reply| reply["error"]["data"]["limit"] == "waiting").count();
    assert_eq!(refused, 3, "{replies:?}");
    let answered = lines.next_line().await.unwrap().unwrap();
    assert!(answered.contains("\"id\":1,") && answered.contains("yes"), "{answered}");
}

/// A modern request on a stream that was opened with `initialize` reaches a handler that sees its era.
#[tokio::test(start_paused = true)]
async fn a_modern_request_on_a_stream_of_the_legacy_era_is_served_in_its_own() {
    let server = Server::builder("s", "1")
        .tool(tool("asks"), |_: NoArguments, cx: Context| async move {
            let schema = serde_json::json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
            let answer = cx.elicit(Raw::from_value(&schema)?.decode::<mcpjoin::proto::types::ElicitParams>()?).await?;
            Ok::<_, HandlerError>(if answer.action == ElicitAction::Accept { "yes" } else { "no" })
        })
        .build()
        .unwrap();
    let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(theirs);
    server.connect(Link::stream(reader, writer, "pipe"));
    let opens = OPENS.replace("\"capabilities\":{}", "\"capabilities\":{\"elicitation\":{}}");
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let modern = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"asks","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}"#;
    let said = format!("{opens}\n{ready}\n{modern}\n{}", calls(2, &["asks"]));
    ours.write_all(said.as_bytes()).await.unwrap();
    let mut lines = tokio::io::BufReader::new(ours).lines();
    let mut replies = Vec::new();
    for _ in 0..3 {
        let line = lines.next_line().await.unwrap().unwrap();
        replies.push(serde_json::from_str::<serde_json::Value>(&line).unwrap());
    }
    assert_eq!(replies[0]["result"]["protocolVersion"], "2025-11-25", "{replies:?}");
    let modern = replies.iter().find(|reply| reply["result"]["resultType"] == "input_required");
    assert_eq!(modern.unwrap()["id"], 1, "{replies:?}");
    let legacy = replies.iter().find(|reply| reply["method"] == "elicitation/create");
    assert!(legacy.is_some(), "{replies:?}");
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_used_again_at_once_is_answered_with_its_own_answer() {
    let server = Server::builder("s", "1")
        .tool(tool("large"), |_: NoArguments, _| async { "x".repeat(1 << 20) })
        .tool(tool("small"), |_: NoArguments, _| async { "small" })
        .build()
        .unwrap();
    let (mut ours, theirs) = tokio::io::duplex(4 << 20);
    let (reader, writer) = tokio::io::split(theirs);
    server.connect(Link::stream(reader, writer, "pipe"));
    let call = |id: u64, tool: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}"}}}}"#)
    };
    let said = [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#.to_owned(),
        // Its response is so large that it is sent before more handlers begin; the client has cancelled it by then.
        call(1, "large"),
        call(2, "small"),
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#.to_owned(),
        call(1, "small"),
        call(3, "small"),
        String::new(),
    ];
    // The connection reads all of them at once and passes them to the session together.
    ours.write_all(said.join("\n").as_bytes()).await.unwrap();
    let mut lines = tokio::io::BufReader::new(ours).lines();
    let mut replies = Vec::new();
    while replies.len() < 3 {
        let reply: serde_json::Value =
            serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        if let Some(text) = reply["result"]["content"][0]["text"].as_str() {
            replies.push((reply["id"].as_u64().unwrap(), text[..text.len().min(9)].to_owned()));
        }
    }
    replies.sort();
    let small = |id| (id, "small".to_owned());
    assert_eq!(replies, [small(1), small(2), small(3)]);
    let more = tokio::time::timeout(Duration::from_secs(10), lines.next_line()).await;
    assert!(more.is_err(), "{more:?}");
}

#[tokio::test]
async fn e100_ten_thousand_calls_that_wait_for_one_another_do_not_keep_the_thread() {
    const CALLS: usize = 10_000;
    let run = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let mut limits = Limits::default();
    limits.handling = 1;
    let (counting, opening) = (run.clone(), gate.clone());
    let server = Server::builder("s", "1")
        .limits(limits)
        .tool(tool("count"), move |_: NoArguments, _| {
            let (run, gate) = (counting.clone(), opening.clone());
            async move {
                drop(gate.acquire().await);
                run.fetch_add(1, Ordering::SeqCst);
                "counted"
            }
        })
        .build()
        .unwrap();
    let (ours, theirs) = pipes(64 * 1024);
    let asked = server.connect(theirs);
    let client = Client::builder("c", "1").era(EraChoice::Only(Era::Legacy)).connect(ours).await.unwrap();
    let calls = tokio::spawn(async move {
        let calls = (0..CALLS).map(|_| client.call_tool("count", ()).into_future());
        futures_util::future::join_all(calls).await.into_iter().filter(Result::is_ok).count()
    });
    // Wait until all calls have arrived: the first handler runs, and the others wait for it.
    while asked.in_flight() != (0, CALLS) {
        tokio::task::yield_now().await;
    }
    gate.add_permits(1);
    // Another task, which goes to the back of the run queue after each of its turns.
    let (mut last, mut most) = (0, 0);
    let other = tokio::spawn(poll_fn(move |cx| {
        let now = run.load(Ordering::SeqCst);
        most = most.max(now - last);
        last = now;
        cx.waker().wake_by_ref();
        if now < CALLS { Poll::Pending } else { Poll::Ready(most) }
    }));
    let most = other.await.unwrap();
    // In one turn the connection polls at most 64 woken handlers and starts at most 64 new ones.
    assert!(most <= 128, "{most} handlers ran while another task waited for the thread");
    assert_eq!(calls.await.unwrap(), CALLS);
}
