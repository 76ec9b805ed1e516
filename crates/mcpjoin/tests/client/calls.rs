//! Tests of a client's calls: ids, order, errors, timeouts, cancelling, and the end of the connection.

use mcpjoin_test_support::scripted;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use mcpjoin::client::{Client, ClientError};
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::session::{CallError, CallRefused, CloseCause, EraChoice, Limits, State, Violation};
use mcpjoin::proto::types::{LoggingLevel, PageParams};
use mcpjoin::proto::{Era, ErrorObject, Message, Method, Raw, RequestId};
use mcpjoin::transport::Link;
use scripted::{Scripted, builder, legacy, modern, note_violations, poll_once, text, value};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

fn number(request: &mcpjoin::proto::Request) -> i64 {
    request.id.as_i64().expect("our ids are numbers")
}

fn arguments(value: &serde_json::Value) -> Option<Raw> {
    Some(scripted::raw(value))
}

#[tokio::test(start_paused = true)]
async fn r13_ids_begin_at_one_grow_and_are_unique_among_many_tasks() {
    let (link, mut server) = Scripted::pair();
    let connecting = tokio::spawn(builder().era(EraChoice::Only(Era::Legacy)).connect(link));
    let first = server.request().await;
    assert_eq!(number(&first), 1);
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"}});
    server.result(first.id, result).await;
    let client = connecting.await.expect("no panic").expect("connects");
    server.notification().await;
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.call_tool("t", ()).await })
        })
        .collect();
    let mut last = 1;
    for _ in 0..100 {
        let request = server.request().await;
        assert!(number(&request) > last, "{} after {last}", request.id);
        last = number(&request);
        server.result(request.id, text("ok")).await;
    }
    for task in tasks {
        task.await.expect("no panic").expect("a result");
    }
}

#[tokio::test(start_paused = true)]
async fn r14_r68_a_call_ends_with_its_result_its_error_or_in_time() {
    let (client, mut server) = legacy(builder()).await;
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let request = server.expect("tools/call").await;
        server.result(request.id, text("done")).await;
    });
    assert_eq!(result.expect("a result").content[0].as_text(), Some("done"));

    let (error, ()) = tokio::join!(client.call_tool("t", ()), async {
        let request = server.expect("tools/call").await;
        server.say(request.id, Err(ErrorObject::new(-32602, "no such tool: t"))).await;
    });
    let error = error.expect_err("an error");
    assert_eq!(
        error.remote().map(|error| (error.code, error.message.as_ref())),
        Some((-32602, "no such tool: t"))
    );
    assert!(!error.is_retryable() && !error.is_fatal());

    let before = tokio::time::Instant::now();
    let error =
        client.call_tool("t", ()).timeout(Duration::from_millis(30_000)).await.expect_err("no answer");
    assert_eq!(before.elapsed().as_secs(), 30);
    let after = Duration::from_secs(30);
    assert_eq!(error, CallError::TimedOut { method: Method::CallTool, after, total: false }.into());
    let request = server.expect("tools/call").await;
    let cancelled = server.notification().await;
    assert_eq!(cancelled.method, Method::Cancelled);
    assert_eq!(value(cancelled.params.as_ref())["requestId"], number(&request));
}

#[tokio::test(start_paused = true)]
async fn r14_the_limits_are_the_default_and_progress_extends_up_to_the_total() {
    let (client, mut server) = legacy(builder()).await;
    let before = tokio::time::Instant::now();
    client.ping().await.expect_err("no answer");
    assert_eq!(before.elapsed(), Limits::default().request);
    server.expect("ping").await;
    server.notification().await;

    let mut call = client.call_tool("t", ()).timeout(Duration::from_secs(10)).total(Duration::from_secs(25));
    assert_eq!(call.id(), None);
    let mut steps = 0;
    let (error, ()) = tokio::join!(
        async {
            while let Some(CallEvent::Progress(progress)) = call.next_event().await {
                steps += 1;
                assert_eq!(progress.progress, f64::from(steps));
            }
            call.await.expect_err("it never ends")
        },
        async {
            let request = server.expect("tools/call").await;
            let token = value(request.params.as_ref())["_meta"]["progressToken"].clone();
            for step in 1..=3 {
                tokio::time::advance(Duration::from_secs(7)).await;
                server
                    .notify("notifications/progress", json!({"progressToken": token, "progress": step}))
                    .await;
                tokio::task::yield_now().await;
            }
        }
    );
    assert_eq!(steps, 3);
    let after = Duration::from_secs(25);
    assert_eq!(error, CallError::TimedOut { method: Method::CallTool, after, total: true }.into());
}

#[tokio::test(start_paused = true)]
async fn r15_a_reply_with_another_id_is_the_result_of_no_call() {
    let (builder, violations) = note_violations(builder());
    let (client, mut server) = legacy(builder).await;
    let (result, id) = tokio::join!(client.call_tool("t", ()), async {
        let request = server.expect("tools/call").await;
        let id = number(&request);
        server.result(RequestId::from(id + 1000), text("another's")).await;
        server.result(RequestId::from(id.to_string().as_str()), text("a string is no number")).await;
        server.result(request.id, text("its own")).await;
        id
    });
    assert_eq!(result.expect("a result").content[0].as_text(), Some("its own"));
    let expected = [
        Violation::UnknownResponse { id: Some(RequestId::from(id + 1000)) },
        Violation::UnknownResponse { id: Some(RequestId::from(id.to_string().as_str())) },
    ];
    assert_eq!(*violations.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn r16_e89_ten_thousand_calls_answered_in_reverse_get_their_own_replies() {
    const CALLS: usize = 10_000;
    let (client, mut server) = legacy(builder()).await;
    let mut calls: FuturesUnordered<_> = (0..CALLS)
        .map(|n| {
            let call = client.call_tool("echo", arguments(&json!({"n": n})));
            async move { (n, call.await) }
        })
        .collect();
    let server = tokio::spawn(async move {
        let mut requests = Vec::with_capacity(CALLS);
        while requests.len() < CALLS {
            requests.push(server.request().await);
        }
        for request in requests.into_iter().rev() {
            let n = value(request.params.as_ref())["arguments"]["n"].to_string();
            server.result(request.id, text(&n)).await;
        }
        server
    });
    let mut order = Vec::with_capacity(CALLS);
    while let Some((n, result)) = calls.next().await {
        assert_eq!(result.expect("a result").content[0].as_text(), Some(n.to_string().as_str()));
        order.push(n);
    }
    assert_eq!(order.len(), CALLS);
    assert_eq!(order.first(), Some(&(CALLS - 1)), "the last was answered first");
    assert_eq!(client.connection().in_flight(), (0, 0));
    server.await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r17_everything_takes_a_shared_client_and_may_be_used_from_several_tasks() {
    fn shared<T: Clone + Send + Sync + 'static>(_: &T) {}
    let (client, server) = legacy(builder()).await;
    shared(&client);
    let server = server.serve(|request| match request.method {
        Method::ListTools => Ok(json!({"tools": [{"name": "a", "inputSchema": {"type": "object"}}]})),
        Method::CallTool => Ok(text("ok")),
        _ => Ok(json!({})),
    });
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..50 {
                    client.ping().await.expect("pong");
                    assert_eq!(client.list_tools().all().await.expect("tools").len(), 1);
                    client.call_tool("a", ()).await.expect("a result");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    drop(client);
    server.await.expect("the server saw the end");
}

#[tokio::test(start_paused = true)]
async fn r19_r22_r69_after_the_end_everything_fails_with_its_cause() {
    let (client, mut server) = legacy(builder().roots(Vec::new())).await;
    assert_eq!(client.connection().state(), State::Ready);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("t", ()).await }
    });
    server.expect("tools/call").await;
    let mut closing = Box::pin(client.close());
    assert!(poll_once(&mut closing).is_pending());
    assert_eq!(client.connection().state(), State::ShuttingDown);
    assert_eq!(closing.await, CloseCause::Local);
    assert_eq!(client.connection().state(), State::Disconnected);
    assert!(client.is_closed());
    assert_eq!(client.close_cause(), Some(CloseCause::Local));
    assert!(server.message().await.is_none(), "the link is closed");

    let errors = [
        waiting.await.expect("no panic").expect_err("closed"),
        client.call_tool("t", ()).await.expect_err("closed"),
        client.list_tools().all().await.expect_err("closed"),
        client.list_tools().page(PageParams::new()).await.expect_err("closed"),
        client.ping().await.expect_err("closed"),
        client.send_request("tools/list", None).await.expect_err("closed"),
    ];
    for error in errors {
        assert!(error.is_fatal() && !error.is_retryable(), "{error:?}");
    }
    let timed_out = CallError::TimedOut { method: Method::Ping, after: Duration::ZERO, total: false };
    let timed_out = ClientError::from(timed_out);
    assert!(timed_out.is_retryable() && !timed_out.is_fatal());
}

#[tokio::test(start_paused = true)]
async fn r22_a_server_that_goes_away_ends_all_calls_and_nothing_reconnects() {
    let (client, mut server) = legacy(builder()).await;
    let call = tokio::spawn(client.call_tool("t", ()));
    server.expect("tools/call").await;
    drop(server);
    let error = call.await.expect("no panic").expect_err("the server is gone");
    assert!(error.is_fatal(), "{error:?}");
    assert!(matches!(error.close_cause(), Some(CloseCause::Link(_))), "{error:?}");
    assert!(matches!(client.closed().await, CloseCause::Link(_)));
    assert!(client.call_tool("t", ()).await.expect_err("gone").is_fatal());
}

#[tokio::test(start_paused = true)]
async fn c63_what_the_server_did_not_declare_is_refused_before_sending() {
    let (link, mut server) = Scripted::pair();
    server.capabilities = json!({"resources": {}});
    let (client, ()) = tokio::join!(builder().connect(link), server.open_legacy("2025-11-25"));
    let client = client.expect("connects");
    let undeclared = |error: ClientError| match error {
        ClientError::Call(CallError::Refused(CallRefused::Undeclared { capability, .. })) => capability,
        other => panic!("{other:?}"),
    };
    assert_eq!(undeclared(client.call_tool("t", ()).await.expect_err("refused")), "tools");
    assert_eq!(undeclared(client.list_prompts().all().await.expect_err("refused")), "prompts");
    assert_eq!(undeclared(client.subscribe("a:b").await.expect_err("refused")), "resources.subscribe");
    assert_eq!(undeclared(client.set_level(LoggingLevel::Info).await.expect_err("refused")), "logging");
    assert_eq!(undeclared(client.set_roots(Vec::new()).expect_err("refused")), "roots");
    // The next request that the server receives is the permitted one.
    let (listed, ()) = tokio::join!(client.list_resources().all(), async {
        let request = server.expect("resources/list").await;
        server.result(request.id, json!({"resources": []})).await;
    });
    assert_eq!(listed.expect("a list"), []);
}

#[tokio::test(start_paused = true)]
async fn r82_r84_what_is_sent_is_what_the_specification_says() {
    let (client, mut server) = legacy(builder()).await;
    let tool = json!({"name": "a", "description": "d", "inputSchema": {"type": "object", "x-y": [1]}});
    let (tools, ()) = tokio::join!(client.list_tools().all(), async {
        let request = server.expect("tools/list").await;
        assert_eq!(value(request.params.as_ref()), json!({}));
        server.result(request.id, json!({"tools": [tool]})).await;
    });
    let tools = tools.expect("tools");
    assert_eq!((tools[0].name.as_str(), tools[0].description.as_deref()), ("a", Some("d")));
    assert_eq!(tools[0].input_schema.as_str(), r#"{"type":"object","x-y":[1]}"#);

    let call = client.call_tool("a", arguments(&json!({"big": 12345678901234567890_u64}))).progress(false);
    let (result, ()) = tokio::join!(call, async {
        let request = server.expect("tools/call").await;
        assert_eq!(
            value(request.params.as_ref()),
            json!({"name": "a", "arguments": {"big": 12345678901234567890_u64}})
        );
        server.result(request.id, json!({"content": [{"type": "new", "x": 1}], "isError": true})).await;
    });
    let result = result.expect("a failed tool is a result");
    assert_eq!(result.is_error, Some(true));

    // In the modern era each request contains the protocol version.
    let (client, mut server) = modern(builder()).await;
    let (_, ()) = tokio::join!(client.list_tools().all(), async {
        let request = server.expect("tools/list").await;
        let meta = value(request.params.as_ref())["_meta"].clone();
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "test");
        server.result(request.id, json!({"resultType": "complete", "tools": []})).await;
    });
}

#[tokio::test(start_paused = true)]
async fn r83_an_answer_that_is_none_says_what_is_wrong_and_where() {
    let (client, mut server) = legacy(builder()).await;
    let (error, ()) = tokio::join!(client.list_tools().all(), async {
        let request = server.expect("tools/list").await;
        server.result(request.id, json!({"tools": [{"name": "a", "inputSchema": {}}, {"name": 7}]})).await;
    });
    let error = error.expect_err("7 is no name");
    assert!(matches!(&error, ClientError::BadResult { method: Method::ListTools, .. }), "{error:?}");
    assert!(error.to_string().contains("tools[1].name"), "{error}");

    // Bytes on the stream that are no message: that call fails, and no other.
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(ours);
    let (their_reader, mut their_writer) = tokio::io::split(theirs);
    let mut lines = BufReader::new(their_reader).lines();
    let server = tokio::spawn(async move {
        let mut line = async || lines.next_line().await.expect("reads").expect("a line");
        line().await;
        let result = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}\n");
        their_writer.write_all(answer.as_bytes()).await.expect("writes");
        line().await;
        line().await;
        line().await;
        let answers = "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{},\"error\":7}\nnoise\n{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"content\":[]}}\n";
        their_writer.write_all(answers.as_bytes()).await.expect("writes");
        (line().await, their_writer)
    });
    let link = Link::stream(reader, writer, "duplex");
    let client = builder().era(EraChoice::Only(Era::Legacy)).connect(link).await.expect("connects");
    let (bad, good) = tokio::join!(client.call_tool("a", ()), client.call_tool("b", ()));
    let bad = bad.expect_err("both a result and an error");
    assert!(
        matches!(&bad, ClientError::Call(CallError::InvalidResponse { method: Method::CallTool, .. })),
        "{bad:?}"
    );
    assert!(bad.to_string().contains("tools/call"), "{bad}");
    good.expect("the other call is not touched");
    client.ping().await.expect_err("the server leaves at the next line");
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn e91_a_call_that_is_dropped_is_cancelled_once_and_its_late_reply_is_dropped() {
    let (builder, violations) = note_violations(builder());
    let (client, mut server) = legacy(builder).await;
    let mut call = Box::pin(client.call_tool("slow", ()));
    assert!(poll_once(&mut call).is_pending());
    let request = server.expect("tools/call").await;
    drop(call);
    let cancelled = server.notification().await;
    assert_eq!(cancelled.method, Method::Cancelled);
    assert_eq!(value(cancelled.params.as_ref())["requestId"], number(&request));
    server.result(request.id.clone(), text("too late")).await;
    let (next, ()) = tokio::join!(client.call_tool("next", ()), async {
        // The next message is the next call: the cancellation was sent only once.
        let request = server.expect("tools/call").await;
        server.result(request.id, text("ok")).await;
    });
    assert_eq!(next.expect("a result").content[0].as_text(), Some("ok"));
    assert_eq!(*violations.lock().unwrap(), [], "a response that crosses a cancellation breaks no rule");
    // A second response for the same id is reported.
    server.result(request.id.clone(), text("again")).await;
    let (pong, ()) = tokio::join!(client.ping(), async {
        let ping = server.expect("ping").await;
        server.result(ping.id, json!({})).await;
    });
    pong.expect("alive");
    assert_eq!(*violations.lock().unwrap(), [Violation::LateResponse { id: request.id }]);

    // A call that was never sent causes no cancellation either.
    drop(client.call_tool("never", ()));
    drop(client);
    assert!(server.message().await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e90_a_hundred_thousand_cancellations_racing_with_replies_leave_one_outcome_and_no_entry() {
    const RACES: usize = 100_000;
    const AT_ONCE: usize = 64;
    let (client, server) = legacy(builder()).await;
    let server = server.serve(|request| Ok(text(&value(request.params.as_ref())["name"].to_string())));
    let (answered, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let race = async |n: usize| {
        let name = n.to_string();
        let call = client.call_tool(name.clone(), ()).progress(false);
        let patience = async {
            for _ in 0..n % 24 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            result = call => {
                let result = result.expect("a result");
                assert_eq!(result.content[0].as_text(), Some(format!("\"{name}\"").as_str()));
                answered.fetch_add(1, Ordering::Relaxed);
            }
            () = patience => {
                dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    futures_util::stream::iter(0..RACES).for_each_concurrent(AT_ONCE, race).await;
    let (answered, dropped) = (answered.into_inner(), dropped.into_inner());
    assert_eq!(answered + dropped, RACES);
    assert!(
        answered > 0 && dropped > 0,
        "{answered} answered, {dropped} dropped: both ends of the race were seen"
    );
    // The pong arrives behind every earlier message.
    client.ping().await.expect("alive");
    assert_eq!(client.connection().in_flight(), (0, 0));
    drop(client);
    server.await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn f21_a_tool_is_called_once_whatever_happens() {
    let (client, mut server) = legacy(builder()).await;
    client.call_tool("t", ()).await.expect_err("never answered");
    server.expect("tools/call").await;
    assert_eq!(server.notification().await.method, Method::Cancelled);
    let call = tokio::spawn(client.call_tool("t", ()));
    let second = server.expect("tools/call").await;
    server.say(second.id, Err(ErrorObject::internal("try again"))).await;
    call.await.expect("no panic").expect_err("an error is an error");
    let call = tokio::spawn(client.call_tool("t", ()));
    server.expect("tools/call").await;
    server.link.close().await;
    call.await.expect("no panic").expect_err("lost");
    // The server has received all three requests; the end of the stream follows.
    assert!(server.message().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_room_goes_out_in_turn_and_leaves_no_trace_when_dropped() {
    let mut limits = Limits::default();
    limits.in_flight = 1;
    let (client, mut server) = legacy(builder().limits(limits)).await;
    let call = |name: &str| Box::pin(client.call_tool(name, ()).progress(false));
    let (mut first, mut second, mut third, mut fourth) = (call("1"), call("2"), call("3"), call("4"));
    for _ in 0..100 {
        assert!(poll_once(&mut first).is_pending());
        assert!(poll_once(&mut second).is_pending());
        assert!(poll_once(&mut third).is_pending());
        assert!(poll_once(&mut fourth).is_pending());
    }
    drop(second);
    let waiting = tokio::spawn(async move { (third.await, fourth.await) });
    for name in ["1", "3", "4"] {
        let request = server.expect("tools/call").await;
        assert_eq!(value(request.params.as_ref())["name"], name);
        server.result(request.id, text(name)).await;
    }
    first.await.expect("a result");
    let (third, fourth) = waiting.await.expect("no panic");
    assert_eq!(third.expect("a result").content[0].as_text(), Some("3"));
    assert_eq!(fourth.expect("a result").content[0].as_text(), Some("4"));
}

/// A call that has waited for room until its timeout is over, also for a caller that has polled its events before.
#[tokio::test(start_paused = true)]
async fn a_call_that_timed_out_waiting_for_room_is_over_and_never_sent() {
    let mut limits = Limits::default();
    (limits.in_flight, limits.request) = (1, Duration::from_secs(100));
    let (client, mut server) = legacy(builder().limits(limits)).await;
    let mut first = Box::pin(client.call_tool("first", ()).progress(false));
    assert!(poll_once(&mut first).is_pending());
    let mut second = client.call_tool("second", ()).progress(false).timeout(Duration::from_secs(5));
    let began = tokio::time::Instant::now();
    assert_eq!(second.next_event().await, None);
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    // A later poll returns the same, and room that becomes free now is not used for it.
    assert_eq!(second.next_event().await, None);
    let request = server.expect("tools/call").await;
    server.result(request.id, text("first")).await;
    first.await.expect("a result");
    let after = Duration::from_secs(5);
    let error = second.await.expect_err("it was told that it is over");
    assert_eq!(error, CallError::TimedOut { method: Method::CallTool, after, total: false }.into());
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    // The next message is the next call.
    let mut last = Box::pin(client.call_tool("last", ()).progress(false));
    assert!(poll_once(&mut last).is_pending());
    let request = server.expect("tools/call").await;
    assert_eq!(value(request.params.as_ref())["name"], "last");
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_closes_the_connection() {
    let (client, mut server) = legacy(builder()).await;
    let other = client.clone();
    drop(client);
    assert!(!other.is_closed());
    // A pending call keeps the connection open, as a handle does.
    let call = tokio::spawn(other.call_tool("t", ()));
    let request = server.expect("tools/call").await;
    drop(other);
    server.result(request.id, text("ok")).await;
    call.await.expect("no panic").expect("a result");
    assert!(server.message().await.is_none(), "the connection is closed");
}

#[tokio::test(start_paused = true)]
async fn c4_a_ping_is_a_request_that_the_era_has() {
    let (client, server) = legacy(builder()).await;
    let seen = Arc::new(std::sync::Mutex::new(BTreeSet::new()));
    let note = |seen: &Arc<std::sync::Mutex<BTreeSet<String>>>| {
        let seen = seen.clone();
        move |request: &mcpjoin::proto::Request| {
            seen.lock().unwrap().insert(request.method.as_str().to_owned());
            Ok(json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}))
        }
    };
    drop(server.serve(note(&seen)));
    client.ping().await.expect("pong");
    assert!(client.discover().await.is_err(), "no legacy revision has it");
    let (client, server) = modern(builder()).await;
    drop(server.serve(note(&seen)));
    client.ping().await.expect("pong");
    let seen: Vec<String> = seen.lock().unwrap().iter().cloned().collect();
    assert_eq!(seen, ["ping", "server/discover"]);
}

#[tokio::test(start_paused = true)]
async fn the_log_level_is_sent_once_to_legacy_servers_and_with_each_request_to_modern_ones() {
    let (client, mut server) = legacy(builder()).await;
    let (set, ()) = tokio::join!(client.set_level(LoggingLevel::Warning), async {
        let request = server.expect("logging/setLevel").await;
        assert_eq!(value(request.params.as_ref()), json!({"level": "warning"}));
        server.result(request.id, json!({})).await;
    });
    set.expect("set");

    let (client, mut server) = modern(builder()).await;
    let key = "io.modelcontextprotocol/logLevel";
    client.set_level(LoggingLevel::Warning).await.expect("remembered");
    for (call, expected) in [
        (client.call_tool("t", ()), json!("warning")),
        (client.call_tool("t", ()).log_level(LoggingLevel::Debug), json!("debug")),
    ] {
        let (result, ()) = tokio::join!(call, async {
            let request = server.expect("tools/call").await;
            assert_eq!(value(request.params.as_ref())["_meta"][key], expected);
            server.result(request.id, text("ok")).await;
        });
        result.expect("a result");
    }
}

#[tokio::test(start_paused = true)]
async fn any_request_can_be_made_and_gives_what_came_back() {
    let (client, mut server) = legacy(builder()).await;
    let params = Raw::parse(r#"{"a": 1.50}"#).expect("JSON");
    let (result, ()) = tokio::join!(client.send_request("x/y", Some(params)), async {
        let Some(Message::Request(request)) = server.message().await else { panic!("a request") };
        assert_eq!(request.params.as_ref().map(|params| params.raw().as_str()), Some(r#"{"a": 1.50}"#));
        server.result(request.id, json!({"b": null})).await;
    });
    assert_eq!(result.expect("a result").as_str(), r#"{"b":null}"#);
    let _: &Client = &client;
}
