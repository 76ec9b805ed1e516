//! Tests of a joined gateway with a target or a client that misbehaves: it is bounded and named in the log, and the other
//! target and the other clients are served.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{CreateMessageResult, LoggingLevel, SubscriptionFilter};
use mcpjoin::proto::{Era, Version};
use mcpjoin::transport::{
    Accept, Admitted, HttpBody, HttpOptions, HttpService, ListenAddress, Listener, MemoryEvents,
};
use mcpjoin::{Client, Link};
use mcpjoin_gateway::{Gateway, GatewayBuilder, GatewayEvent, JoinedGateway, TargetOptions};
use mcpjoin_test_support::events::{Told, hearing};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::io::{ReadHalf, WriteHalf, split};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, timeout};
use tower_service::Service as _;

use super::joined::{Target, builder, call, connect, one_of_everything, refused, tools};
use super::{passes, run};

/// The eras of the client and of the scripted target.
const ERAS: [(Era, Era); 4] = [
    (Era::Legacy, Era::Legacy),
    (Era::Legacy, Era::Modern),
    (Era::Modern, Era::Legacy),
    (Era::Modern, Era::Modern),
];
/// Tools of one target that are offered.
const MAX_TOOLS: usize = 10_000;

/// Runs a test, and returns the warnings of the gateway.
fn warned(test: impl Future<Output = ()>) -> Vec<String> {
    let (tell, mut told) = unbounded_channel();
    hearing(Told(tell), || run(test));
    std::iter::from_fn(|| told.try_recv().ok()).collect()
}

/// Fails unless there are between one and `most` warnings about the target.
#[track_caller]
fn assert_named(warnings: &[String], target: &str, about: &str, most: usize) {
    let named = format!("server: \"{target}\"");
    let found = warnings.iter().filter(|text| text.contains(&named) && text.contains(about)).count();
    assert!((1..=most).contains(&found), "{found} of {most} about `{about}`: {warnings:#?}");
}

/// A scripted server, from the side of the server.
struct Scripted {
    era: Era,
    /// The id of the open stream of a modern server.
    stream: Value,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Scripted {
    /// Sends a message. Returns whether the gateway still takes messages.
    async fn say(&mut self, message: Value) -> bool {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.is_ok()
    }

    async fn notify(&mut self, method: &str, params: Value) -> bool {
        self.say(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await
    }

    async fn tools_changed(&mut self) -> bool {
        let params = match self.era {
            Era::Modern => json!({ "_meta": { "io.modelcontextprotocol/subscriptionId": self.stream } }),
            _ => json!({}),
        };
        self.notify("notifications/tools/list_changed", params).await
    }

    async fn answer(&mut self, request: &Value, mut result: Value) -> bool {
        if self.era == Era::Modern {
            result["resultType"] = json!("complete");
            if request["method"].as_str().is_some_and(|method| method.ends_with("/list")) {
                (result["ttlMs"], result["cacheScope"]) = (json!(0), json!("private"));
            }
        }
        self.say(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await
    }

    async fn receive(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Answers the opening and what belongs to it. Returns the next other request; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            let message = self.receive().await?;
            let capabilities = json!({
                "tools": { "listChanged": true }, "logging": {}, "resources": { "subscribe": true },
            });
            let info = json!({ "name": "scripted", "version": "1" });
            let result = match message["method"].as_str().unwrap_or_default() {
                "initialize" => json!({
                    "protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info,
                }),
                "server/discover" => json!({
                    "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                    "ttlMs": 0, "cacheScope": "private",
                    "_meta": { "io.modelcontextprotocol/serverInfo": info },
                }),
                "logging/setLevel" => json!({}),
                "subscriptions/listen" => {
                    let notifications = &message["params"]["notifications"];
                    let meta = json!({ "io.modelcontextprotocol/subscriptionId": message["id"] });
                    let params = json!({ "notifications": notifications, "_meta": meta });
                    self.stream = message["id"].clone();
                    self.notify("notifications/subscriptions/acknowledged", params).await;
                    continue;
                }
                "prompts/list" => json!({ "prompts": [] }),
                "resources/list" => json!({ "resources": [] }),
                "resources/templates/list" => json!({ "resourceTemplates": [] }),
                _ if message["id"].is_null() => continue,
                _ => return Some(message),
            };
            self.answer(&message, result).await;
        }
    }

    /// As [`next`](Self::next), and answers each list with these tools.
    async fn next_call(&mut self, tools: &[&str]) -> Option<Value> {
        loop {
            let request = self.next().await?;
            if request["method"] != "tools/list" {
                return Some(request);
            }
            let tools: Vec<Value> = tools.iter().map(|name| tool_named(name)).collect();
            self.answer(&request, json!({ "tools": tools })).await;
        }
    }
}

fn tool_named(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// A target whose servers follow this script.
fn scripted<F>(era: Era, script: impl Fn(Scripted) -> F + Send + Sync + 'static) -> GatewayBuilder
where
    F: Future<Output = ()> + Send + 'static,
{
    let start = move || {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (reader, writer) = split(near);
        let link = Link::stream(reader, writer, "scripted");
        let (reader, writer) = split(far);
        tokio::spawn(script(Scripted {
            era,
            stream: Value::Null,
            lines: BufReader::new(reader).lines(),
            writer,
        }));
        std::future::ready(Ok::<_, io::Error>(link))
    };
    Gateway::builder(start).era(EraChoice::Only(era))
}

/// A gateway that joins the scripted target `bad` and a healthy one, `b`.
fn beside(bad: GatewayBuilder) -> (JoinedGateway, Target) {
    beside_with(bad, TargetOptions::new())
}

fn beside_with(bad: GatewayBuilder, options: TargetOptions) -> (JoinedGateway, Target) {
    let b = Target::new(one_of_everything("b", &Version::V2025_06_18));
    let joined = Gateway::joined("both", "1").target_with("bad", options.clone(), bad);
    (joined.target_with("b", options, b.gateway()).build(), b)
}

// ---- targets ----

#[test]
fn a_target_that_floods_keeps_no_call_of_the_other_from_its_answer_and_is_named() {
    for (era, of) in ERAS {
        for method in ["notifications/message", "notifications/progress"] {
            let warnings = warned(async {
                let flood = move |mut server: Scripted| async move {
                    let Some(request) = server.next_call(&["floods"]).await else { return };
                    let token = request["params"]["_meta"]["progressToken"].clone();
                    let mut number = 0_u64;
                    loop {
                        number += 1;
                        let params = match method {
                            "notifications/message" => json!({ "level": "error", "data": number }),
                            _ => json!({ "progressToken": token, "progress": number }),
                        };
                        if !server.notify(method, params).await {
                            return;
                        }
                    }
                };
                let (gateway, _b) = beside(scripted(of, flood));
                let client = connect(&gateway, builder(era)).await;
                client.set_level(LoggingLevel::Debug).await.unwrap();
                assert_eq!(tools(&client).await.len(), 8, "{era:?} {of:?}");
                let floods = {
                    let client = client.clone();
                    tokio::spawn(async move { client.call_tool("bad__floods", ()).on_progress(|_| ()).await })
                };
                for _ in 0..50 {
                    assert_eq!(call(&client, "b__who").await, "b", "{era:?} {of:?}");
                }
                floods.abort();
                client.close().await;
                gateway.close().await;
            });
            assert_named(&warnings, "bad", "notifications", 1);
        }
    }
}

#[test]
fn a_client_is_warned_of_a_late_target_that_does_not_answer_set_level() {
    run(async {
        let late = |mut server: Scripted| async move {
            let Some(opening) = server.receive().await else { return };
            passes(Duration::from_secs(6)).await;
            let opened = json!({
                "protocolVersion": "2025-06-18", "capabilities": { "tools": {}, "logging": {} },
                "serverInfo": { "name": "late", "version": "1" },
            });
            server.answer(&opening, opened).await;
            while let Some(message) = server.receive().await {
                if message["method"] == "tools/list" {
                    server.answer(&message, json!({ "tools": [tool_named("late")] })).await;
                }
            }
        };
        let (gateway, _b) = beside(scripted(Era::Legacy, late));
        let (changes, mut changed) = unbounded_channel();
        let client = builder(Era::Legacy).on_tools_changed(move |client| {
            let changes = changes.clone();
            async move {
                let _ = changes.send(tools(&client).await.len());
            }
        });
        let client = connect(&gateway, client).await;
        client.set_level(LoggingLevel::Debug).await.unwrap();
        assert_eq!(timeout(Duration::from_secs(10), changed.recv()).await, Ok(Some(8)));
        client.close().await;
        gateway.close().await;
    });
}

#[test]
fn a_task_that_asks_in_a_notification_what_its_server_may_not_ask_is_ignored() {
    let task = |status: &str, more: Value| {
        let mut task = json!({
            "taskId": "t", "status": status, "ttlMs": 3_600_000, "pollIntervalMs": 5_000,
            "createdAt": "2026-11-22T08:00:00Z", "lastUpdatedAt": "2026-11-22T08:00:00Z",
        });
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        task
    };
    let question = json!({ "inputRequests": { "q": {
        "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1 },
    } } });
    let asks = move |mut server: Scripted| {
        let (created, asking) = (task("working", json!({})), task("input_required", question.clone()));
        async move {
            let mut meta = Value::Null;
            while let Some(message) = server.receive().await {
                let result = match message["method"].as_str().unwrap_or_default() {
                    "server/discover" => json!({
                        "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                        "capabilities": {
                            "tools": {}, "extensions": { "io.modelcontextprotocol/tasks": {} },
                        },
                        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "asks", "version": "1" } },
                    }),
                    "tools/list" => json!({ "tools": [tool_named("t")] }),
                    "tools/call" => {
                        let mut result = created.clone();
                        result["resultType"] = json!("task");
                        server.say(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).await;
                        continue;
                    }
                    "subscriptions/listen" => {
                        meta = json!({ "io.modelcontextprotocol/subscriptionId": message["id"] });
                        let notifications = &message["params"]["notifications"];
                        let params = json!({ "notifications": notifications, "_meta": meta });
                        server.notify("notifications/subscriptions/acknowledged", params).await;
                        continue;
                    }
                    // The first one comes when the stream is open.
                    "tasks/get" if !meta.is_null() => {
                        server.answer(&message, created.clone()).await;
                        let mut asking = asking.clone();
                        asking["_meta"] = std::mem::take(&mut meta);
                        server.notify("notifications/tasks", asking).await;
                        continue;
                    }
                    "tasks/get" => asking.clone(),
                    _ if message["id"].is_null() => continue,
                    other => panic!("{other}"),
                };
                server.answer(&message, result).await;
            }
        }
    };
    run(async {
        let (gateway, _b) = beside(scripted(Era::Modern, asks));
        let sampled = Arc::new(AtomicUsize::new(0));
        let counted = sampled.clone();
        let client = builder(Era::Modern).tasks(true).sampling(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok(CreateMessageResult::text("no", "m")) }
        });
        let client = connect(&gateway, client).await;
        let error = client.call_tool("bad__t", ()).await.unwrap_err().to_string();
        assert!(error.contains("does not allow the server to send sampling/createMessage"), "{error}");
        assert_eq!(sampled.load(Ordering::Relaxed), 0, "the client has answered it");
        client.close().await;
        gateway.close().await;
    });
}

#[test]
fn changes_of_lists_without_end_reach_a_client_five_times_a_second_at_most() {
    for (era, of) in ERAS {
        let warnings = warned(async {
            let flood = |mut server: Scripted| async move {
                if server.next_call(&["floods"]).await.is_none() {
                    return;
                }
                for _ in 0..10 {
                    for _ in 0..2_000 {
                        server.tools_changed().await;
                    }
                    passes(Duration::from_millis(100)).await;
                }
                while server.next_call(&["floods"]).await.is_some() {}
            };
            let (gateway, _b) = beside(scripted(of, flood));
            let received = Arc::new(AtomicUsize::new(0));
            let count = received.clone();
            let client = builder(era).on_notification(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            let client = connect(&gateway, client).await;
            let filter = SubscriptionFilter::default().with_tools_list_changed(true);
            let mut stream = client.listen(filter).await.unwrap();
            let begins = client.call_tool("bad__floods", ());
            assert!(timeout(Duration::from_millis(1), begins).await.is_err());
            let mut changes = 0;
            while timeout(Duration::from_secs(2), stream.next()).await.is_ok() {
                changes += 1;
            }
            assert!(changes <= 10, "{era:?} {of:?}: {changes}");
            assert!(received.load(Ordering::Relaxed) <= 40, "{era:?} {of:?}: {received:?}");
            assert_eq!(call(&client, "b__who").await, "b");
            client.close().await;
        });
        assert_named(&warnings, "bad", "notifications", 1);
    }
}

#[test]
fn a_call_that_a_target_never_answers_ends_after_the_timeout_and_the_target_is_named() {
    for (era, of) in ERAS {
        let warnings = warned(async {
            let stalls =
                |mut server: Scripted| async move { while server.next_call(&["stays"]).await.is_some() {} };
            let (gateway, _b) = beside(scripted(of, stalls).timeout(Duration::from_secs(60)));
            let client = connect(&gateway, builder(era)).await;
            let began = Instant::now();
            let waits = async {
                let calls =
                    (0..20).map(|_| client.call_tool("bad__stays", ()).timeout(Duration::from_secs(600)));
                join_all(calls).await
            };
            let others = async {
                for _ in 0..20 {
                    assert_eq!(call(&client, "b__who").await, "b", "{era:?} {of:?}");
                }
                began.elapsed()
            };
            let (waited, answered) = tokio::join!(waits, others);
            assert_eq!(answered, Duration::ZERO, "{era:?} {of:?}");
            for outcome in waited {
                let error = outcome.unwrap_err();
                let error = error.remote().unwrap_or_else(|| panic!("{era:?} {of:?}: {error}"));
                assert!(error.message.starts_with("bad: "), "{error}");
            }
            assert!(began.elapsed() >= Duration::from_secs(60) && began.elapsed() < Duration::from_secs(300));
            client.close().await;
        });
        assert_named(&warnings, "bad", "not answered", 2);
    }
}

#[test]
fn a_target_that_never_answers_a_list_is_left_out_after_five_seconds_and_at_once_from_then_on() {
    for (era, of) in ERAS {
        let warnings = warned(async {
            let stalls = |mut server: Scripted| async move { while server.next().await.is_some() {} };
            let (gateway, _b) = beside(scripted(of, stalls));
            let client = connect(&gateway, builder(era)).await;
            for pause in [10, 20] {
                for seconds in [5, 0, 0] {
                    let began = Instant::now();
                    assert_eq!(tools(&client).await.len(), 7, "{era:?} {of:?}");
                    assert_eq!(began.elapsed(), Duration::from_secs(seconds), "{era:?} {of:?}");
                }
                // Another client of the same caller does not wait either.
                let began = Instant::now();
                let other = connect(&gateway, builder(era)).await;
                assert_eq!(tools(&other).await.len(), 7, "{era:?} {of:?}");
                assert_eq!(began.elapsed(), Duration::ZERO, "{era:?} {of:?}");
                other.close().await;
                tokio::time::advance(Duration::from_secs(pause)).await;
            }
            let began = Instant::now();
            assert_eq!(call(&client, "b__who").await, "b");
            assert_eq!(began.elapsed(), Duration::ZERO);
            client.close().await;
        });
        assert_named(&warnings, "bad", "took too long", 1);
    }
}

#[test]
fn a_target_that_does_not_answer_a_further_page_keeps_no_list_of_the_others_from_its_end() {
    for (era, of) in ERAS {
        let warnings = warned(async {
            let stalls = |mut server: Scripted| async move {
                while let Some(request) = server.next().await {
                    if request["method"] == "tools/list" && request["params"]["cursor"].is_null() {
                        let page = json!({ "tools": [tool_named("first")], "nextCursor": "more" });
                        server.answer(&request, page).await;
                    }
                }
            };
            let (gateway, _b) = beside(scripted(of, stalls));
            let client = connect(&gateway, builder(era)).await;
            let began = Instant::now();
            assert_eq!(tools(&client).await.len(), 8, "{era:?} {of:?}");
            assert_eq!(began.elapsed(), Duration::from_secs(5), "{era:?} {of:?}");
            client.close().await;
        });
        assert_named(&warnings, "bad", "took too long", 1);
    }
}

#[test]
fn a_link_in_a_result_takes_no_interface_from_the_tool_of_another_target() {
    run(async {
        for (era, of) in ERAS {
            // The healthy target gives the same URI as a link.
            let shows = |mut server: Scripted| async move {
                while let Some(request) = server.next().await {
                    let mut tool = tool_named("shows");
                    tool["_meta"] = json!({ "ui": { "resourceUri": "b:/hidden" } });
                    let result = match request["method"].as_str().unwrap_or_default() {
                        "tools/list" => json!({ "tools": [tool] }),
                        "resources/read" => json!({
                            "contents": [{ "uri": "b:/hidden", "text": "of the tool" }],
                            "ttlMs": 0, "cacheScope": "private",
                        }),
                        other => panic!("{other}"),
                    };
                    server.answer(&request, result).await;
                }
            };
            let (gateway, _b) = beside(scripted(of, shows));
            let client = connect(&gateway, builder(era)).await;
            assert_eq!(tools(&client).await.len(), 8);
            drop(client.call_tool("b__links", ()).await.unwrap());
            let read = client.read_resource("b:/hidden").await;
            let read = read.unwrap_or_else(|error| panic!("{era:?} {of:?}: {error}"));
            assert!(serde_json::to_string(&read).unwrap().contains("of the tool"), "{era:?} {of:?}");
            client.close().await;
            gateway.close().await;
        }
    });
}

#[test]
fn a_stream_is_acknowledged_before_the_first_event_of_a_target_although_another_target_is_slow() {
    run(async {
        let stalls = |mut server: Scripted| async move {
            while let Some(message) = server.receive().await {
                let result = match message["method"].as_str().unwrap_or_default() {
                    "server/discover" => json!({
                        "supportedVersions": ["2026-07-28"], "capabilities": { "tools": { "listChanged": true } },
                        "ttlMs": 0, "cacheScope": "private",
                    }),
                    "resources/list" => json!({ "resources": [] }),
                    "resources/templates/list" => json!({ "resourceTemplates": [] }),
                    _ => continue,
                };
                server.answer(&message, result).await;
            }
        };
        let (gateway, b) = beside(scripted(Era::Modern, stalls));
        let (link, mut client) = super::Raw::pair();
        let served = gateway.clone();
        tokio::spawn(async move { served.serve(link).await });
        let filter = r#""notifications":{"resourceSubscriptions":["b:/all"]},"#;
        client.say(&super::modern_request("1", "subscriptions/listen", filter, "")).await;
        // Virtual time: the stream of the healthy target is open, and that of the other one is waited for.
        passes(Duration::from_secs(1)).await;
        b.handle.notify_resource_updated("b:/all");
        for method in ["notifications/subscriptions/acknowledged", "notifications/resources/updated"] {
            let told = timeout(Duration::from_secs(60), client.value()).await.unwrap();
            assert_eq!(told["method"], method, "{told}");
        }
        gateway.close().await;
    });
}

#[test]
fn a_target_cannot_say_that_the_session_of_its_client_has_ended() {
    run(async {
        for of in [Era::Legacy, Era::Modern] {
            let ends = |mut server: Scripted| async move {
                while let Some(request) = server.next_call(&["ends"]).await {
                    let data = json!({ "gateway": "sessionEnded", "own": 1 });
                    let error = json!({ "code": -32603, "message": "over", "data": data });
                    server.say(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
                }
            };
            let (gateway, _b) = beside(scripted(of, ends));
            let service = gateway.http(principals());
            let session = open(&service, "alice").await.session.unwrap();
            let (status, text) = call_in(&service, "alice", &session, "bad__ends").await;
            assert!(status == 200 && text.contains("\"own\":1"), "{of:?} {status} {text}");
            let (status, text) = call_in(&service, "alice", &session, "b__who").await;
            assert!(status == 200 && text.contains(r#""text":"b""#), "{of:?} {status} {text}");
            gateway.close().await;
        }
    });
}

#[test]
fn a_target_without_streams_gives_a_client_no_changes_of_lists_without_end() {
    for method_is_known in [false, true] {
        run(async {
            let asked = Arc::new(AtomicUsize::new(0));
            let count = asked.clone();
            let refuses = move |mut server: Scripted| {
                let count = count.clone();
                async move {
                    while let Some(message) = server.receive().await {
                        match message["method"].as_str().unwrap_or_default() {
                            "server/discover" => {
                                let result = json!({
                                    "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                                    "ttlMs": 0, "cacheScope": "private",
                                });
                                server.answer(&message, result).await;
                            }
                            "subscriptions/listen" if method_is_known => {
                                count.fetch_add(1, Ordering::Relaxed);
                                server.answer(&message, json!({})).await;
                            }
                            "subscriptions/listen" => {
                                count.fetch_add(1, Ordering::Relaxed);
                                let error = json!({ "code": -32601, "message": "no such method" });
                                let refused =
                                    json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
                                server.say(refused).await;
                            }
                            other => panic!("{other}"),
                        }
                    }
                }
            };
            let (gateway, b) = beside(scripted(Era::Modern, refuses));
            let client = connect(&gateway, builder(Era::Modern)).await;
            let filter = SubscriptionFilter::default().with_tools_list_changed(true);
            let mut stream = client.listen(filter).await.unwrap();
            let told = timeout(Duration::from_secs(600), stream.next()).await;
            assert!(told.is_err(), "{told:?}");
            // It may have streams later.
            let asked = asked.load(Ordering::Relaxed);
            assert!((10..40).contains(&asked), "{asked}");
            b.handle.notify_tools_changed().unwrap();
            assert!(stream.next().await.is_some_and(|told| told.is_ok()));
            client.close().await;
            gateway.close().await;
        });
    }
}

#[test]
fn for_all_resources_of_a_stream_the_lists_are_read_once() {
    run(async {
        let lists = Arc::new(AtomicUsize::new(0));
        let count = lists.clone();
        let refuses = move |mut server: Scripted| {
            let count = count.clone();
            async move {
                while let Some(message) = server.receive().await {
                    let result = match message["method"].as_str().unwrap_or_default() {
                        "initialize" => json!({
                            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                            "serverInfo": { "name": "scripted", "version": "1" },
                        }),
                        "resources/list" | "resources/templates/list" => {
                            count.fetch_add(1, Ordering::Relaxed);
                            let error = json!({ "code": -32601, "message": "no such method" });
                            server
                                .say(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }))
                                .await;
                            continue;
                        }
                        _ => continue,
                    };
                    server.answer(&message, result).await;
                }
            }
        };
        let (gateway, b) = beside(scripted(Era::Legacy, refuses));
        let client = connect(&gateway, builder(Era::Modern)).await;
        let mut uris: Vec<String> = (0..1_000).map(|uri| format!("x:/{uri}")).collect();
        uris.push("b:/all".to_owned());
        let filter = SubscriptionFilter::default().with_resource_subscriptions(uris.clone());
        let mut stream = client.listen(filter).await.unwrap();
        assert_eq!(lists.load(Ordering::Relaxed), 2);
        b.handle.notify_resource_updated("b:/all");
        assert!(stream.next().await.is_some_and(|told| told.is_ok()));
        // As at a server of its own, the number has a limit.
        uris.extend((0..24).map(|uri| format!("y:/{uri}")));
        let error = client.listen(SubscriptionFilter::default().with_resource_subscriptions(uris)).await;
        let error = error.expect_err("it is refused").to_string();
        assert!(error.contains("`subscriptions` of 1024"), "{error}");
        client.close().await;
        gateway.close().await;
    });
}

#[test]
fn the_progress_of_a_list_that_is_read_for_a_call_is_not_that_of_the_call() {
    run(async {
        for (era, of) in ERAS {
            let progresses = |mut server: Scripted| async move {
                while let Some(request) = server.next().await {
                    let token = &request["params"]["_meta"]["progressToken"];
                    if !token.is_null() {
                        let params = json!({ "progressToken": token, "progress": 1_000_000 });
                        server.notify("notifications/progress", params).await;
                    }
                    server.answer(&request, json!({ "tools": [tool_named("t")] })).await;
                }
            };
            let (gateway, _b) = beside(scripted(of, progresses));
            let client = connect(&gateway, builder(era)).await;
            let progress = Arc::new(Mutex::new(Vec::new()));
            let seen = progress.clone();
            let call = client.call_tool("b__tells", ()).on_progress(move |progress| {
                seen.lock().unwrap().push(progress.progress);
            });
            assert_eq!(call.await.unwrap().to_text(), "told");
            assert_eq!(*progress.lock().unwrap(), [1.0], "{era:?} {of:?}");
            client.close().await;
            gateway.close().await;
        }
    });
}

/// What the gateway reports about a target: how each start ended.
fn ends(bad: GatewayBuilder) -> (GatewayBuilder, Arc<Mutex<Vec<String>>>) {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let seen = ends.clone();
    let bad = bad.on_event(move |event| {
        if let GatewayEvent::Ended { end, .. } = event {
            seen.lock().unwrap().push(end.to_string());
        }
    });
    (bad, ends)
}

#[test]
fn a_target_that_never_opens_delays_a_client_by_five_seconds_and_its_start_ends_after_thirty() {
    run(async {
        for (era, of) in ERAS {
            let stalls = |mut server: Scripted| async move { while server.receive().await.is_some() {} };
            let (bad, ends) = ends(scripted(of, stalls));
            let (gateway, _b) = beside(bad);
            let began = Instant::now();
            let client = connect(&gateway, builder(era)).await;
            assert!(began.elapsed() <= Duration::from_secs(5), "{era:?} {of:?}");
            let began = Instant::now();
            assert_eq!(tools(&client).await.len(), 7, "{era:?} {of:?}");
            assert!(began.elapsed() <= Duration::from_secs(5), "{era:?} {of:?}");
            assert_eq!(call(&client, "b__who").await, "b");
            passes(Duration::from_secs(31)).await;
            assert_eq!(ends.lock().unwrap().len(), 1, "{era:?} {of:?}: {ends:?}");
            let error = refused(&client, "bad__any").await;
            assert!(error["message"].as_str().unwrap().starts_with("bad: "), "{error}");
            // It is started again and again, and costs each list nothing while it is known to fail.
            let began = Instant::now();
            for _ in 0..20 {
                assert_eq!(tools(&client).await.len(), 7, "{era:?} {of:?}");
            }
            assert!(began.elapsed() <= Duration::from_secs(5), "{era:?} {of:?}: {:?}", began.elapsed());
            client.close().await;
        }
    });
}

#[test]
fn a_target_that_dies_in_the_handshake_is_reported_each_time_and_costs_the_other_nothing() {
    run(async {
        for (era, of) in ERAS {
            let starts = Arc::new(AtomicUsize::new(0));
            let count = starts.clone();
            let dies = move |mut server: Scripted| {
                count.fetch_add(1, Ordering::Relaxed);
                async move { drop(server.receive().await) }
            };
            let (bad, ends) = ends(scripted(of, dies));
            let (gateway, _b) = beside(bad);
            let client = connect(&gateway, builder(era)).await;
            for _ in 0..60 {
                let began = Instant::now();
                assert_eq!(tools(&client).await.len(), 7, "{era:?} {of:?}");
                assert_eq!(call(&client, "b__who").await, "b");
                assert_eq!(began.elapsed(), Duration::ZERO);
                passes(Duration::from_secs(1)).await;
            }
            // After 0.5, 1, 2, 4, 8, 16 and 30 seconds.
            let starts = starts.load(Ordering::Relaxed);
            assert!((3..=8).contains(&starts), "{era:?} {of:?}: {starts}");
            assert!(ends.lock().unwrap().len() >= starts - 1, "{era:?} {of:?}: {ends:?}");
            client.close().await;
        }
    });
}

#[test]
fn of_a_hundred_thousand_tools_ten_thousand_are_offered_and_the_target_is_named() {
    for (era, of) in ERAS {
        for page_size in [100_000, 1_000] {
            let lists = Arc::new(AtomicUsize::new(0));
            let count = lists.clone();
            let warnings = warned(async {
                let many = move |mut server: Scripted| {
                    let count = count.clone();
                    async move {
                        while let Some(request) = server.next().await {
                            if request["method"] != "tools/list" {
                                server.answer(&request, text("one of many")).await;
                                continue;
                            }
                            count.fetch_add(1, Ordering::Relaxed);
                            let at: usize =
                                request["params"]["cursor"].as_str().map_or(0, |at| at.parse().unwrap());
                            let end = at + page_size;
                            let tools: Vec<Value> =
                                (at..end).map(|number| tool_named(&format!("t{number}"))).collect();
                            let mut result = json!({ "tools": tools });
                            if end < 100_000 {
                                result["nextCursor"] = json!(end.to_string());
                            }
                            server.answer(&request, result).await;
                        }
                    }
                };
                let (gateway, _b) = beside(scripted(of, many));
                let client = connect(&gateway, builder(era)).await;
                let names = tools(&client).await;
                let count = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
                assert_eq!((count("bad__"), count("b__")), (MAX_TOOLS, 7), "{era:?} {of:?}");
                assert_eq!(call(&client, "b__who").await, "b");
                assert_eq!(call(&client, "bad__t7").await, "one of many");
                client.close().await;
            });
            assert_named(&warnings, "bad", "is too long", 1);
            // What is offered is read, and little more.
            let lists = lists.load(Ordering::Relaxed);
            assert!(lists <= MAX_TOOLS.div_ceil(page_size) + 1, "{era:?} {of:?}: {lists} lists");
        }
    }
}

#[test]
fn a_list_without_an_end_is_read_for_a_thousand_pages_and_those_of_others_follow() {
    for (era, of) in ERAS {
        let lists = Arc::new(AtomicUsize::new(0));
        let count = lists.clone();
        let warnings = warned(async {
            let endless = move |mut server: Scripted| {
                let count = count.clone();
                async move {
                    while let Some(request) = server.next().await {
                        count.fetch_add(1, Ordering::Relaxed);
                        let at: u64 =
                            request["params"]["cursor"].as_str().map_or(0, |at| at.parse().unwrap());
                        let next = (at + 1).to_string();
                        let tools = [tool_named(&format!("t{at}"))];
                        server.answer(&request, json!({ "tools": tools, "nextCursor": next })).await;
                    }
                }
            };
            let (gateway, _b) = beside(scripted(of, endless));
            let client = connect(&gateway, builder(era)).await;
            // Once to find a name, and once for the client.
            let error = refused(&client, "bad__nothing").await;
            assert!(error["message"].as_str().unwrap().contains("bad__nothing"), "{error}");
            assert_eq!(lists.load(Ordering::Relaxed), 1000, "{era:?} {of:?}");
            assert_eq!(refused(&client, "bad__nothing").await, error);
            assert_eq!(lists.load(Ordering::Relaxed), 1000, "{era:?} {of:?}: it was read again");
            let names = tools(&client).await;
            assert_eq!(names.len(), 1007, "{era:?} {of:?}");
            assert_eq!(lists.load(Ordering::Relaxed), 2000, "{era:?} {of:?}");
            assert_eq!(call(&client, "b__who").await, "b");
            client.close().await;
        });
        assert_named(&warnings, "bad", "is too long", 1);
    }
}

#[test]
fn of_two_tools_of_one_name_the_first_is_offered_and_the_target_is_named() {
    for (era, of) in ERAS {
        let warnings = warned(async {
            let twice = |mut server: Scripted| async move {
                while let Some(request) = server.next().await {
                    if request["method"] != "tools/list" {
                        server.answer(&request, text("answered")).await;
                        continue;
                    }
                    let described = |name: &str, text: &str| {
                        let mut tool = tool_named(name);
                        tool["description"] = json!(text);
                        tool
                    };
                    let result = match request["params"]["cursor"].as_str() {
                        None => json!({
                            "tools": [described("x", "first"), described("x", "second"), described("y", "first")],
                            "nextCursor": "2",
                        }),
                        Some(_) => json!({ "tools": [described("y", "third"), described("z", "first")] }),
                    };
                    server.answer(&request, result).await;
                }
            };
            let (gateway, _b) = beside(scripted(of, twice));
            let client = connect(&gateway, builder(era)).await;
            // Two lists at the same time do not take each other's entries for a second one.
            let (one, other) = tokio::join!(client.list_tools().all(), client.list_tools().all());
            for listed in [one.unwrap(), other.unwrap()] {
                let of_bad: Vec<_> = listed
                    .iter()
                    .filter(|tool| tool.name.starts_with("bad__"))
                    .map(|tool| (&*tool.name, tool.description.as_deref()))
                    .collect();
                let first = Some("first");
                assert_eq!(
                    of_bad,
                    [("bad__x", first), ("bad__y", first), ("bad__z", first)],
                    "{era:?} {of:?}"
                );
                assert_eq!(listed.len(), 10);
            }
            assert_eq!(call(&client, "bad__x").await, "answered");
            assert_eq!(call(&client, "b__who").await, "b");
            client.close().await;
        });
        assert_named(&warnings, "bad", "more than once", 1);
    }
}

#[test]
fn two_targets_with_one_name_are_named_once_however_many_clients_come() {
    for version in [Version::V2025_06_18, Version::V2026_07_28] {
        let warnings = warned(async {
            let target = |name| Target::new(one_of_everything(name, &version)).gateway();
            let joined = Gateway::joined("both", "1");
            let joined = joined.target_with("a", TargetOptions::new().source(""), target("a"));
            let gateway = joined.target_with("b", TargetOptions::new().source(""), target("b")).build();
            for era in [Era::Legacy, Era::Modern].repeat(10) {
                let client = connect(&gateway, builder(era)).await;
                for _ in 0..2 {
                    assert_eq!(tools(&client).await.len(), 7, "{era:?} {version}");
                }
                client.close().await;
            }
            gateway.close().await;
        });
        assert_eq!(warnings.len(), 1, "{warnings:#?}");
        assert!(warnings[0].contains("7 names of other servers, the first who: of a and b"), "{warnings:?}");
    }
}

#[test]
fn a_target_that_renames_a_tool_in_mid_call_answers_that_call_and_takes_none_of_the_other_target() {
    run(async {
        for (era, of) in ERAS {
            let renames = |mut server: Scripted| async move {
                let Some(first) = server.next_call(&["old"]).await else { return };
                // The new name is one of the other target, which comes after this one.
                server.tools_changed().await;
                let Some(second) = server.next_call(&["stays"]).await else { return };
                server.answer(&second, text(&format!("renamed, as {}", second["params"]["name"]))).await;
                server.answer(&first, text("of the first call")).await;
                while let Some(request) = server.next_call(&["stays"]).await {
                    server.answer(&request, text("again")).await;
                }
            };
            let (gateway, _b) = beside_with(scripted(of, renames), TargetOptions::new().source(""));
            let client = connect(&gateway, builder(era)).await;
            let listed: BTreeSet<String> = tools(&client).await.into_iter().collect();
            assert!(listed.contains("old") && listed.contains("stays"), "{listed:?}");
            // A call of `b` with the name that is about to be taken, and the call during which it is.
            let stays = {
                let client = client.clone();
                tokio::spawn(
                    async move { client.call_tool("stays", ()).await.map(|result| result.to_text()) },
                )
            };
            let old = {
                let client = client.clone();
                tokio::spawn(async move { client.call_tool("old", ()).await.map(|result| result.to_text()) })
            };
            passes(Duration::from_secs(1)).await;
            assert!(!stays.is_finished() && !old.is_finished(), "{era:?} {of:?}");
            let listed = tools(&client).await;
            assert_eq!(
                listed.iter().filter(|name| *name == "stays").count(),
                1,
                "{era:?} {of:?}: {listed:?}"
            );
            assert!(!listed.contains(&"old".to_owned()), "{era:?} {of:?}: {listed:?}");
            assert_eq!(call(&client, "stays").await, "renamed, as \"stays\"");
            assert_eq!(old.await.unwrap().unwrap(), "of the first call");
            assert!(!stays.is_finished(), "{era:?} {of:?}: it was answered by another target");
            let error = refused(&client, "old").await;
            assert!(error["message"].as_str().unwrap().contains("old"), "{error}");
            assert_eq!(call(&client, "who").await, "b");
            stays.abort();
            client.close().await;
        }
    });
}

#[test]
fn a_response_with_the_id_of_another_request_answers_nothing_of_the_other_target() {
    for (era, of) in ERAS {
        let warnings = warned(async {
            let steals = |mut server: Scripted| async move {
                while let Some(request) = server.next_call(&["steals"]).await {
                    let own = request["id"].as_i64().unwrap();
                    // The first one is logged, and the server has chosen its length.
                    let others = [json!("x".repeat(4000)), json!(own.to_string()), Value::Null];
                    for id in others.into_iter().chain((own + 1..own + 200).map(|id| json!(id))) {
                        server.say(json!({ "jsonrpc": "2.0", "id": id, "result": text("stolen") })).await;
                    }
                    for _ in 0..200 {
                        server.answer(&request, text("own")).await;
                    }
                }
            };
            let (gateway, _b) = beside(scripted(of, steals));
            let (client, other) =
                (connect(&gateway, builder(era)).await, connect(&gateway, builder(era)).await);
            let stays = {
                let client = client.clone();
                tokio::spawn(
                    async move { client.call_tool("b__stays", ()).await.map(|result| result.to_text()) },
                )
            };
            passes(Duration::from_millis(1)).await;
            for _ in 0..3 {
                assert_eq!(call(&client, "bad__steals").await, "own", "{era:?} {of:?}");
                assert_eq!(call(&client, "b__who").await, "b");
                assert_eq!(call(&other, "b__who").await, "b");
            }
            assert_eq!(call(&other, "bad__steals").await, "own");
            assert!(!stays.is_finished(), "{era:?} {of:?}");
            stays.abort();
            client.close().await;
            other.close().await;
        });
        assert_named(&warnings, "bad", "a server has sent a response to request", 1);
        assert!(warnings.iter().all(|warning| warning.len() < 500), "{warnings:#?}");
    }
}

#[test]
fn a_client_that_a_target_refuses_makes_it_dead_for_no_other_client() {
    run(async {
        let starts = Arc::new(AtomicUsize::new(0));
        let count = starts.clone();
        let choosy = move |mut server: Scripted| {
            count.fetch_add(1, Ordering::Relaxed);
            async move {
                let Some(opening) = server.receive().await else { return };
                if opening["params"]["clientInfo"]["name"] == "odd" {
                    let error = json!({ "code": -32602, "message": "this client is odd" });
                    server.say(json!({ "jsonrpc": "2.0", "id": opening["id"], "error": error })).await;
                    return;
                }
                let opened = json!({
                    "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                    "serverInfo": { "name": "choosy", "version": "1" },
                });
                server.answer(&opening, opened).await;
                while server.next_call(&["t"]).await.is_some() {}
            }
        };
        let (gateway, _b) = beside(scripted(Era::Legacy, choosy));
        let legacy = |name: &str| Client::builder(name, "1").no_cache().era(EraChoice::Only(Era::Legacy));
        let first = connect(&gateway, legacy("first")).await;
        assert_eq!(tools(&first).await.len(), 8);
        first.close().await;
        let odd = connect(&gateway, legacy("odd")).await;
        assert_eq!(tools(&odd).await.len(), 7);
        passes(Duration::from_secs(600)).await;
        let began = Instant::now();
        let other = connect(&gateway, legacy("other")).await;
        assert_eq!((tools(&other).await.len(), began.elapsed()), (8, Duration::ZERO));
        let error = refused(&odd, "bad__t").await["message"].as_str().unwrap().to_owned();
        assert_eq!(error, "bad: this client is odd");
        // The client that is refused does not start it all the time.
        let before = starts.load(Ordering::Relaxed);
        assert!((10..40).contains(&before), "{before}");
        odd.close().await;
        let odd = Client::builder("odd", "1").no_cache().era(EraChoice::Only(Era::Modern));
        let odd = connect(&gateway, odd).await;
        for _ in 0..10 {
            refused(&odd, "bad__t").await;
        }
        assert_eq!(starts.load(Ordering::Relaxed), before + 1);
        for client in [odd, other] {
            client.close().await;
        }
        gateway.close().await;
    });
}

// ---- clients ----

/// The response of a service to a request with this token.
async fn ask(
    service: &HttpService,
    method: &str,
    token: &str,
    headers: &[(&str, &str)],
    body: Value,
) -> Reply {
    let mut request = Request::builder()
        .method(method)
        .uri("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {token}"));
    let accepted = if method == "GET" { "text/event-stream" } else { "application/json, text/event-stream" };
    request = request.header("accept", accepted);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let response = service.clone().call(request.body(Full::new(body)).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let header = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    Reply {
        status: head.status.as_u16(),
        session: header("mcp-session-id"),
        retry_after: header("retry-after"),
        body,
    }
}

struct Reply {
    status: u16,
    session: Option<String>,
    retry_after: Option<String>,
    body: HttpBody,
}

impl Reply {
    /// The whole body.
    async fn text(self) -> String {
        String::from_utf8(self.body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    /// The body until it contains this text.
    async fn text_until(&mut self, end: &str) -> String {
        let mut text = String::new();
        while !text.contains(end) {
            let frame = self.body.frame().await.unwrap_or_else(|| panic!("it ends before `{end}`: {text}"));
            text += std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap();
        }
        text
    }
}

const V: (&str, &str) = ("mcp-protocol-version", "2025-06-18");

async fn open(service: &HttpService, token: &str) -> Reply {
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" },
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let mut reply = ask(service, "POST", token, &[], body).await;
    if let Some(session) = reply.session.take() {
        let opened = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let told = ask(service, "POST", token, &[V, ("mcp-session-id", &session)], opened).await;
        assert_eq!(told.status, 202);
        reply.session = Some(session);
    }
    reply
}

/// The status and the text of a call in a session.
async fn call_in(service: &HttpService, token: &str, session: &str, tool: &str) -> (u16, String) {
    let params = json!({ "name": tool, "arguments": {} });
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
    let reply = ask(service, "POST", token, &[V, ("mcp-session-id", session)], body).await;
    (reply.status, reply.text().await)
}

/// The principal is the token.
fn principals() -> HttpOptions {
    HttpOptions::new().bearer_tokens(|token: String| async move { Some(Admitted::new(token)) })
}

/// A gateway that joins two healthy targets, `a` and `b`.
fn healthy(build: impl Fn(GatewayBuilder) -> GatewayBuilder) -> JoinedGateway {
    let target = |name| Target::new(one_of_everything(name, &Version::V2025_06_18)).gateway();
    let joined = Gateway::joined("both", "1").target("a", build(target("a")));
    joined.target("b", build(target("b"))).build()
}

#[test]
fn of_ten_thousand_sessions_of_one_client_a_hundred_are_open_and_another_client_is_served() {
    let warnings = warned(async {
        let gateway = healthy(|target| target.upstreams(100));
        let service = gateway.http(principals().max_sessions(100));
        let opened = join_all((0..10_000).map(|_| open(&service, "mallory"))).await;
        let (served, refused): (Vec<Reply>, Vec<Reply>) =
            opened.into_iter().partition(|reply| reply.status == 200);
        assert!((1..=100).contains(&served.len()), "{}", served.len());
        let mut reasons = Vec::new();
        for reply in refused {
            assert!(matches!(reply.status, 429 | 503), "{}", reply.status);
            assert!(reply.retry_after.is_some());
            reasons.push(reply.text().await);
        }
        // One for which no server may be started is refused, and does not open without a tool.
        let starts = reasons.iter().filter(|text| text.contains("tooManyStarts")).count();
        assert_eq!((served.len(), starts), (48, 52), "{:?}", reasons.last());
        assert!(gateway.running_servers() <= 200, "{}", gateway.running_servers());
        // Each client that was served has servers, at the latest after the delay for its starts.
        passes(Duration::from_secs(20)).await;
        for reply in &served {
            let (status, text) =
                call_in(&service, "mallory", reply.session.as_ref().unwrap(), "b__who").await;
            assert!(status == 200 && text.contains(r#""text":"b""#), "{status} {text}");
        }
        let began = Instant::now();
        let alice = open(&service, "alice").await;
        let (status, text) = call_in(&service, "alice", &alice.session.unwrap(), "a__who").await;
        assert!(status == 200 && text.contains(r#""text":"a""#), "{status} {text}");
        assert!(began.elapsed() < Duration::from_secs(1));
        gateway.close().await;
    });
    let named = |text: &&String| text.contains("client: principal mallory") && text.contains("session");
    assert_eq!(warnings.iter().filter(named).count(), 1, "{warnings:#?}");
}

#[test]
fn a_session_or_an_event_of_another_principal_is_not_found_and_the_client_is_named() {
    let warnings = warned(async {
        let gateway = healthy(|target| target);
        let service = gateway.http(principals().event_store(MemoryEvents::default()));
        let alices = open(&service, "alice").await.session.unwrap();
        let mallorys = open(&service, "mallory").await.session.unwrap();
        // A call of Alice is in progress, and its stream has an event.
        let params = json!({ "name": "b__stays", "arguments": {}, "_meta": { "progressToken": "secret" } });
        let stays = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params });
        let mut stays = ask(&service, "POST", "alice", &[V, ("mcp-session-id", &alices)], stays).await;
        let told = stays.text_until("\"secret\"").await;
        let event = told.rsplit("id: ").next().unwrap().lines().next().unwrap().to_owned();
        for (session, event) in [(&alices, None), (&alices, Some(&event)), (&mallorys, Some(&event))] {
            let mut headers = vec![V, ("mcp-session-id", &**session)];
            headers.extend(event.map(|event| ("last-event-id", &**event)));
            let reply = ask(&service, "GET", "mallory", &headers, Value::Null).await;
            if session == &alices {
                assert_eq!(reply.status, 404);
            } else {
                // An event of her own session, or none: of Alice's there is nothing.
                assert!(matches!(reply.status, 200 | 400), "{}", reply.status);
                let text = timeout(Duration::from_secs(5), reply.text()).await.unwrap_or_default();
                assert!(!text.contains("secret"), "{text}");
            }
        }
        let (status, text) = call_in(&service, "mallory", &alices, "b__who").await;
        assert!(status == 404 && !text.contains("\"b\""), "{status} {text}");
        let ended = ask(&service, "DELETE", "mallory", &[V, ("mcp-session-id", &alices)], Value::Null).await;
        assert_eq!(ended.status, 404);
        // Both sessions still work.
        for (token, session) in [("alice", &alices), ("mallory", &mallorys)] {
            let (status, text) = call_in(&service, token, session, "b__who").await;
            assert!(status == 200 && text.contains(r#""text":"b""#), "{token}: {status} {text}");
        }
        drop(stays);
        gateway.close().await;
    });
    let named = |text: &&String| text.contains("client: mallory") && text.contains("owner: alice");
    assert_eq!(warnings.iter().filter(named).count(), 1, "{warnings:#?}");
}

/// Accepts the links that are sent.
struct Links(UnboundedReceiver<Link>);

impl Accept for Links {
    type Client = Link;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Link>> {
        match self.0.poll_recv(cx) {
            Poll::Ready(Some(link)) => Poll::Ready(Ok(link)),
            _ => Poll::Pending,
        }
    }

    fn link(&mut self, client: Link) -> Link {
        client
    }
}

/// Notifications of 1 KiB that a flooding target sends for a call. Those that wait for a client may have 8 MiB.
const FLOOD: usize = 16_000;
const MOST_HELD: usize = 12_000;

/// A target whose tool sends [`FLOOD`] notifications before its result, and the number that was taken from it.
fn floods(of: Era, method: &'static str) -> (GatewayBuilder, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let count = taken.clone();
    let floods = move |mut server: Scripted| {
        let count = count.clone();
        async move {
            while let Some(request) = server.next_call(&["floods"]).await {
                let token = request["params"]["_meta"]["progressToken"].clone();
                for number in 0..FLOOD {
                    let text = "x".repeat(1000);
                    let params = match method {
                        "notifications/message" => json!({ "level": "error", "data": text }),
                        _ => json!({ "progressToken": token, "progress": number, "message": text }),
                    };
                    if !server.notify(method, params).await {
                        return;
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                }
                server.answer(&request, text("the end")).await;
            }
        }
    };
    (scripted(of, floods), taken)
}

/// A client that calls the flooding tool and has read nothing since. It has come over a listener.
async fn calls_and_reads_nothing(gateway: &JoinedGateway) -> (super::Raw, AbortOnDrop) {
    let (link, mut reader) = super::Raw::pair_of(1 << 16);
    let (accept, links) = unbounded_channel();
    accept.send(link).unwrap();
    let address = ListenAddress::Other { scheme: "memory", address: "127.0.0.1:1".parse().unwrap() };
    let (listener, serving) = (Listener::new(Links(links), address), gateway.clone());
    let served = tokio::spawn(async move { serving.serve_all(listener, std::future::pending()).await });
    reader.say(super::INITIALIZE).await;
    reader.line().await;
    reader.say(super::INITIALIZED).await;
    let params = json!({ "name": "bad__floods", "_meta": { "progressToken": 1 } });
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
    reader.say(&call.to_string()).await;
    (reader, AbortOnDrop(served))
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[test]
fn little_is_held_for_a_client_that_does_not_read_and_it_gets_its_result_when_it_does() {
    run(async {
        for of in [Era::Legacy, Era::Modern] {
            for method in ["notifications/message", "notifications/progress"] {
                let (bad, taken) = floods(of, method);
                let (gateway, _b) = beside(bad);
                let (mut reader, _served) = calls_and_reads_nothing(&gateway).await;
                let client = connect(&gateway, builder(Era::Legacy)).await;
                for _ in 0..10 {
                    assert_eq!(call(&client, "b__who").await, "b", "{of:?}");
                }
                passes(Duration::from_secs(10)).await;
                // Either it is not taken from the target, or it is dropped.
                let (taken, mut received) = (taken.load(Ordering::Relaxed), 0);
                while !reader.line().await.contains("the end") {
                    received += 1;
                }
                assert!(taken < MOST_HELD || received < MOST_HELD, "{of:?} {method}: {taken} {received}");
                client.close().await;
                gateway.close().await;
            }
        }
    });
}

#[test]
fn a_client_that_never_reads_is_disconnected_after_thirty_seconds_and_named() {
    for of in [Era::Legacy, Era::Modern] {
        let warnings = warned(async {
            let (gateway, _b) = beside(floods(of, "notifications/message").0);
            let (_reader, _served) = calls_and_reads_nothing(&gateway).await;
            let client = connect(&gateway, builder(Era::Legacy)).await;
            assert_eq!(gateway.sessions(), 2);
            passes(Duration::from_secs(40)).await;
            assert_eq!(gateway.sessions(), 1, "{of:?}: it stays");
            assert_eq!(call(&client, "b__who").await, "b", "{of:?}");
            client.close().await;
            gateway.close().await;
        });
        let named = |text: &&String| text.contains("client: c 1") && text.contains("read nothing");
        assert_eq!(warnings.iter().filter(named).count(), 1, "{of:?}: {warnings:#?}");
    }
}
