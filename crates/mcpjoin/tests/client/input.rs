//! Tests of a client's answers when a server needs input: as requests in the legacy era, as rounds in the modern era.
#![allow(clippy::panic, reason = "handlers that panic are tested, and a test fails by panicking")]

use mcpjoin_test_support::scripted;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcpjoin::client::{ClientBuilder, ClientError};
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::types::{
    CreateMessageParams, CreateMessageResult, ElicitAction, ElicitParams, ElicitResult, Root,
};
use mcpjoin::proto::{ErrorObject, Method, Payload, Request};
use scripted::{builder, legacy, modern, raw, text, value};
use serde_json::{Value, json};
use tokio::sync::Barrier;

async fn sample(_: CreateMessageParams) -> Result<CreateMessageResult, ErrorObject> {
    let result = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "hm"}});
    Ok(raw(&result).decode().expect("a message"))
}

async fn elicit(params: ElicitParams) -> Result<ElicitResult, ErrorObject> {
    match params {
        ElicitParams::Form(_) => {
            let result = json!({"action": "accept", "content": {"name": "Ada", "n": 1.50}});
            Ok(raw(&result).decode().expect("an answer"))
        }
        _ => Ok(ElicitResult::new(ElicitAction::Decline)),
    }
}

/// A client with a handler for every kind of input.
fn answering() -> ClientBuilder {
    builder()
        .roots(vec![Root::new("file:///work")])
        .sampling(sample)
        .elicitation(elicit)
        .elicitation_url(true)
}

fn sampling() -> Value {
    json!({"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5})
}

fn form() -> Value {
    json!({"mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}})
}

fn page() -> Value {
    json!({"mode": "url", "message": "Go", "url": "https://example.org/", "elicitationId": "e"})
}

fn answers() -> [(&'static str, Value, Value); 4] {
    [
        (
            "sampling/createMessage",
            sampling(),
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "hm"}}),
        ),
        ("elicitation/create", form(), json!({"action": "accept", "content": {"name": "Ada", "n": 1.5}})),
        ("elicitation/create", page(), json!({"action": "decline"})),
        ("roots/list", json!({}), json!({"roots": [{"uri": "file:///work"}]})),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_is_answered_while_its_call_goes_on() {
    let (client, mut server) = legacy(answering()).await;
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let request = server.expect("tools/call").await;
        for (method, params, expected) in answers() {
            let response = server.ask(70, method, params).await;
            assert_eq!(response.id, Some(70.into()));
            assert_eq!(value(response.outcome.ok().as_ref()), expected, "{method}");
        }
        let error = server.ask(71, "elicitation/create", json!({"mode": "form"})).await.outcome;
        assert_eq!(error.expect_err("no message").code, -32602);
        server.result(request.id, text("done")).await;
    });
    result.expect("a result");
}

/// Handlers that panic: some before they return a future, some inside it.
fn panicking() -> ClientBuilder {
    builder()
        .sampling(|params| {
            assert!(params.messages.is_empty(), "a secret of the sampling handler");
            sample(params)
        })
        .elicitation(|_| async { panic!("a secret of the elicitation handler") })
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_ends_its_question_alike_in_both_eras() {
    let questions = [("sampling/createMessage", sampling()), ("elicitation/create", form())];
    let (client, mut server) = legacy(panicking()).await;
    for (method, params) in questions.clone() {
        let error = server.ask(70, method, params).await.outcome.expect_err("it panicked");
        assert_eq!((error.code, error.message.contains("secret")), (-32603, false), "{method}");
    }
    let (pong, ()) = tokio::join!(client.ping(), async {
        let ping = server.expect("ping").await;
        server.result(ping.id, json!({})).await;
    });
    pong.expect("the connection goes on");

    let (client, mut server) = modern(panicking()).await;
    for (method, params) in questions {
        let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
            let request = server.expect("tools/call").await;
            server.result(request.id, need(json!({"q": {"method": method, "params": params}}), None)).await;
        });
        let Err(ClientError::InputFailed { error, .. }) = result else { panic!("{result:?}") };
        assert_eq!((error.code, error.message.contains("secret")), (-32603, false), "{method}");
    }
    let (pong, ()) = tokio::join!(client.ping(), async {
        let request = server.expect("server/discover").await;
        server.result(request.id, json!({"supportedVersions": ["2026-07-28"], "capabilities": {}})).await;
    });
    pong.expect("the connection goes on");
}

#[test]
fn a_question_is_answered_where_no_runtime_is_and_its_panic_is_contained() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    for (build, answered) in [(answering as fn() -> ClientBuilder, true), (panicking, false)] {
        let (client, mut server) = runtime.block_on(modern(build()));
        let serving = runtime.spawn(async move {
            let request = server.expect("tools/call").await;
            let question = json!({"q": {"method": "elicitation/create", "params": form()}});
            server.result(request.id, need(question, None)).await;
            if answered {
                let request = server.expect("tools/call").await;
                server.result(request.id, text("done")).await;
            }
        });
        // Another kind of executor polls the caller.
        let result = block_on(client.call_tool("t", ()));
        assert_eq!(result.is_ok(), answered, "{result:?}");
        runtime.block_on(serving).expect("no panic");
    }
}

/// Polls a future on this thread, which belongs to no runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::task::Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        let polled = future.as_mut().poll(&mut std::task::Context::from_waker(&waker));
        if let std::task::Poll::Ready(output) = polled {
            return output;
        }
        std::thread::park_timeout(Duration::from_secs(30));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_blocks_its_thread_holds_no_other_call_in_either_era() {
    /// A client whose handler blocks until the test releases it; it returns whether that happened in time.
    fn blocking() -> (ClientBuilder, std::sync::mpsc::Sender<()>) {
        let (let_go, wait) = std::sync::mpsc::channel();
        let wait = std::sync::Mutex::new(wait);
        let builder = builder().elicitation(move |params| {
            let released = wait.lock().expect("no panic").recv_timeout(Duration::from_secs(20));
            async move {
                released.map_err(|_| ErrorObject::internal("the other call was held"))?;
                elicit(params).await
            }
        });
        (builder, let_go)
    }

    let (builder, let_go) = blocking();
    let (client, mut server) = legacy(builder).await;
    let params = Some(Payload::from_raw(raw(&form())));
    server.send(Request { id: 70.into(), method: Method::Elicit, params }).await;
    let other = tokio::spawn(client.call_tool("other", ()).into_future());
    let request = server.expect("tools/call").await;
    server.result(request.id, text("done")).await;
    other.await.expect("no panic").expect("a result");
    let_go.send(()).expect("it waits");
    assert_eq!(value(server.response().await.outcome.ok().as_ref())["action"], "accept");

    let (builder, let_go) = blocking();
    let (client, mut server) = modern(builder).await;
    let asking = tokio::spawn(client.call_tool("asks", ()).into_future());
    let request = server.expect("tools/call").await;
    let question = json!({"q": {"method": "elicitation/create", "params": form()}});
    server.result(request.id, need(question, None)).await;
    let other = tokio::spawn(client.call_tool("other", ()).into_future());
    let request = server.expect("tools/call").await;
    assert_eq!(value(request.params.as_ref())["name"], "other");
    server.result(request.id, text("done")).await;
    other.await.expect("no panic").expect("a result");
    let_go.send(()).expect("it waits");
    let request = server.expect("tools/call").await;
    server.result(request.id, text("asked")).await;
    asking.await.expect("no panic").expect("a result");
}

#[tokio::test(start_paused = true)]
async fn callbacks_for_notifications_and_violations_may_panic() {
    let (received, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let build = || {
        let received = received.clone();
        builder()
            .on_notification(move |notification| {
                received.send(notification.method.to_string()).expect("the test listens");
                panic!("on a notification");
            })
            .on_violation(|_| panic!("on a violation"))
    };
    let (client, mut server) = legacy(build()).await;
    for _ in 0..2 {
        server.notify("notifications/tools/list_changed", json!({})).await;
        assert_eq!(receiver.recv().await.as_deref(), Some("notifications/tools/list_changed"));
    }
    server.result(777.into(), json!({})).await;
    let (pong, ()) = tokio::join!(client.ping(), async {
        let ping = server.expect("ping").await;
        server.result(ping.id, json!({})).await;
    });
    pong.expect("the connection goes on");
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_that_sends_an_undeclared_request_gets_an_error() {
    let (client, mut server) = legacy(builder().sampling(sample).elicitation(elicit)).await;
    let mut with_tools = sampling();
    with_tools["tools"] = json!([{"name": "t", "inputSchema": {"type": "object"}}]);
    for (method, params) in [("elicitation/create", page()), ("sampling/createMessage", with_tools)] {
        let error = server.ask(70, method, params).await.outcome.expect_err("not declared");
        assert_eq!(error.code, -32602, "{error:?}");
    }
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn new_roots_are_notified_to_a_legacy_server_and_answered_in_both_eras() {
    let (client, mut server) = legacy(answering()).await;
    client.set_roots([Root::new("file:///other")]).expect("roots are declared");
    assert_eq!(server.notification().await.method, Method::RootsListChanged);
    let answer = server.ask(1, "roots/list", json!({})).await;
    assert_eq!(value(answer.outcome.ok().as_ref()), json!({"roots": [{"uri": "file:///other"}]}));

    let (client, _server) = modern(answering()).await;
    client.set_roots(Vec::new()).expect("there is nothing to tell");
}

fn need(questions: Value, state: Option<&str>) -> Value {
    let mut result = json!({"resultType": "input_required"});
    if !questions.is_null() {
        result["inputRequests"] = questions;
    }
    if let Some(state) = state {
        result["requestState"] = json!(state);
    }
    result
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_gets_its_answers_in_the_request_made_again() {
    let (client, mut server) = modern(answering()).await;
    let arguments = raw(&json!({"big": 12345678901234567890_u64}));
    let call = client.call_tool("t", Some(arguments)).timeout(Duration::from_secs(5));
    let (result, ()) = tokio::join!(call, async {
        let mut questions = json!({});
        let mut expected = json!({});
        for (place, (method, params, answer)) in answers().into_iter().enumerate() {
            questions[place.to_string()] = json!({"method": method, "params": params});
            expected[place.to_string()] = answer;
        }
        let first = server.expect("tools/call").await;
        assert_eq!(value(first.params.as_ref())["inputResponses"], Value::Null);
        server.result(first.id.clone(), need(questions, Some("\u{1F600} \"\\ state\n"))).await;

        let second = server.expect("tools/call").await;
        assert_ne!(second.id, first.id);
        let params = value(second.params.as_ref());
        assert_eq!(params["inputResponses"], expected);
        assert_eq!(params["requestState"], "\u{1F600} \"\\ state\n");
        assert_eq!(params["arguments"], json!({"big": 12345678901234567890_u64}));
        assert_eq!(params["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(params["_meta"]["progressToken"], second.id.as_i64().expect("ours"));

        // A different input request without state: the client sends neither the old state nor the old responses again.
        server.result(second.id, need(json!({"r": {"method": "roots/list"}}), None)).await;
        let third = server.expect("tools/call").await;
        let params = value(third.params.as_ref());
        assert_eq!(params["requestState"], Value::Null);
        assert_eq!(params["inputResponses"], json!({"r": {"roots": [{"uri": "file:///work"}]}}));
        server.result(third.id, text("done")).await;
    });
    assert_eq!(result.expect("a result").content[0].as_text(), Some("done"));
}

#[tokio::test(start_paused = true)]
async fn prompts_and_resources_have_rounds_too() {
    let (client, mut server) = modern(answering()).await;
    let questions = || json!({"r": {"method": "roots/list"}});
    let (prompt, ()) = tokio::join!(client.get_prompt("p", json!({"a": "b"})), async {
        let request = server.expect("prompts/get").await;
        server.result(request.id, need(questions(), None)).await;
        let request = server.expect("prompts/get").await;
        let params = value(request.params.as_ref());
        assert_eq!(params["arguments"], json!({"a": "b"}));
        assert!(params["inputResponses"]["r"].is_object());
        server.result(request.id, json!({"resultType": "complete", "messages": []})).await;
    });
    assert_eq!(prompt.expect("a prompt").messages, []);
    let (resource, ()) = tokio::join!(client.read_resource("a:b"), async {
        let request = server.expect("resources/read").await;
        server.result(request.id, need(questions(), None)).await;
        let request = server.expect("resources/read").await;
        assert_eq!(value(request.params.as_ref())["uri"], "a:b");
        server.result(request.id, json!({"resultType": "complete", "contents": []})).await;
    });
    assert_eq!(resource.expect("a resource").contents, []);

    // Other methods do not have this result type, so it is an invalid result there.
    let (listed, ()) = tokio::join!(client.list_tools().all(), async {
        let request = server.expect("tools/list").await;
        server.result(request.id, need(questions(), None)).await;
    });
    listed.expect_err("a list may not ask");
}

#[tokio::test(start_paused = true)]
async fn questions_of_one_round_are_answered_at_the_same_time_and_no_clock_runs_meanwhile() {
    let both = Arc::new(Barrier::new(2));
    let (ours, theirs) = (both.clone(), both);
    let builder = builder()
        .sampling(move |params| {
            let barrier = ours.clone();
            async move {
                barrier.wait().await;
                tokio::time::advance(Duration::from_secs(100_000)).await;
                sample(params).await
            }
        })
        .elicitation(move |params| {
            let barrier = theirs.clone();
            async move {
                barrier.wait().await;
                elicit(params).await
            }
        });
    let (client, mut server) = modern(builder).await;
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let request = server.expect("tools/call").await;
        let questions = json!({
            "s": {"method": "sampling/createMessage", "params": sampling()},
            "e": {"method": "elicitation/create", "params": form()},
        });
        server.result(request.id, need(questions, None)).await;
        let request = server.expect("tools/call").await;
        server.result(request.id, text("done")).await;
    });
    result.expect("one would wait for the other for ever");
}

#[tokio::test(start_paused = true)]
async fn a_state_alone_is_given_back_after_a_pause_that_grows_up_to_ten_seconds() {
    let (client, mut server) = modern(builder()).await;
    let start = tokio::time::Instant::now();
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let mut seen = Vec::new();
        for round in 0..11 {
            let request = server.expect("tools/call").await;
            seen.push((start.elapsed().as_millis(), value(request.params.as_ref())["requestState"].clone()));
            assert_eq!(value(request.params.as_ref())["inputResponses"], Value::Null);
            if round < 10 {
                server.result(request.id, need(Value::Null, Some(&round.to_string()))).await;
            } else {
                server.result(request.id, text("done")).await;
            }
        }
        // The runtime's clock is exact to a millisecond.
        let times = [0, 100, 300, 700, 1500, 3100, 6300, 12_700, 22_700, 32_700, 42_700];
        for (round, ((at, state), expected)) in seen.into_iter().zip(times).enumerate() {
            assert!(at.abs_diff(expected) <= 12, "{at} ms, not {expected} ms");
            assert_eq!(state, round.checked_sub(1).map_or(Value::Null, |before| json!(before.to_string())));
        }
    });
    result.expect("a result");
}

#[tokio::test(start_paused = true)]
async fn a_result_can_be_had_as_it_was_sent_after_any_rounds() {
    let (client, mut server) = modern(builder()).await;
    let sent = json!({"resultType": "complete", "messages": 7, "own": [1.50]});
    let mut calling = client.get_prompt("p", ());
    let (result, ()) = tokio::join!(
        async {
            assert_eq!(calling.next_event().await, None);
            calling.raw().await
        },
        async {
            let request = server.expect("prompts/get").await;
            server.result(request.id, need(Value::Null, Some("later"))).await;
            let request = server.expect("prompts/get").await;
            assert_eq!(value(request.params.as_ref())["requestState"], "later");
            server.result(request.id, sent.clone()).await;
        }
    );
    let result = result.expect("no result of prompts/get, and yet what was sent");
    assert_eq!(serde_json::from_str::<Value>(result.as_str()).expect("JSON"), sent);
}

#[tokio::test(start_paused = true)]
async fn rounds_are_bounded() {
    let asked = Arc::new(AtomicUsize::new(0));
    let (client, server) = modern(answering()).await;
    let count = asked.clone();
    drop(server.serve(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(need(json!({"r": {"method": "roots/list"}}), None))
    }));
    let error = client.call_tool("t", ()).await.expect_err("no end");
    assert_eq!(error, ClientError::TooManyRounds { method: Method::CallTool, limit: 10 });
    assert_eq!(asked.load(Ordering::Relaxed), 11);
}

#[tokio::test(start_paused = true)]
async fn no_more_questions_are_answered_in_one_round_than_a_client_answers_at_once() {
    for (count, is_answered) in [(1024, true), (1025, false)] {
        let (client, server) = modern(answering()).await;
        drop(server.serve(move |request| {
            if value(request.params.as_ref())["inputResponses"].is_object() {
                return Ok(text("done"));
            }
            let roots = (0..count).map(|name| (name.to_string(), json!({"method": "roots/list"})));
            Ok(need(Value::Object(roots.collect()), None))
        }));
        match client.call_tool("t", ()).await {
            Ok(result) => assert!(is_answered, "{count}: {}", result.to_text()),
            Err(error) => {
                assert!(!is_answered, "{count}: {error}");
                let refused = matches!(&error, ClientError::BadResult { what, .. } if what.contains("1024"));
                assert!(refused, "{error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_without_an_answer_ends_the_call_and_is_not_made_again() {
    let (client, mut server) = modern(
        builder()
            .elicitation(elicit)
            .sampling(|_| async { Err(ErrorObject::new(-1, "User rejected sampling request")) }),
    )
    .await;
    let failed = |key: &str, asked| ClientError::InputFailed {
        method: Method::CallTool,
        key: key.into(),
        asked,
        error: Box::new(ErrorObject::new(-1, "User rejected sampling request")),
    };
    let undeclared =
        |key: &str, asked| ClientError::UndeclaredInput { method: Method::CallTool, key: key.into(), asked };
    let cases = [
        ("a", "sampling/createMessage", sampling(), failed("a", Method::CreateMessage)),
        ("b", "roots/list", json!({}), undeclared("b", Method::ListRoots)),
        ("c", "elicitation/create", page(), undeclared("c", Method::Elicit)),
        ("d", "x/y", json!({}), undeclared("d", Method::parse("x/y"))),
    ];
    for (key, method, params, expected) in cases {
        let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
            let request = server.expect("tools/call").await;
            server
                .result(request.id, need(json!({key: {"method": method, "params": params}}), Some("s")))
                .await;
        });
        assert_eq!(result.expect_err("no answer"), expected);
        assert!(!expected.is_fatal());
    }
    // The client has not repeated a request: the next message that the server receives is the ping.
    let (pong, ()) = tokio::join!(client.ping(), async {
        let request = server.expect("server/discover").await;
        server.result(request.id, json!({"supportedVersions": ["2026-07-28"], "capabilities": {}})).await;
    });
    pong.expect("alive");
}

#[tokio::test(start_paused = true)]
async fn progress_is_seen_in_every_round_and_dropping_cancels_the_last() {
    let (client, mut server) = modern(answering()).await;
    let mut call = client.call_tool("t", ());
    let (steps, last) = tokio::join!(
        async {
            let mut steps = Vec::new();
            while let Some(event) = call.next_event().await {
                let CallEvent::Progress(progress) = event else { panic!("{event:?}") };
                steps.push(progress.progress);
                if steps.len() == 2 {
                    break;
                }
            }
            steps
        },
        async {
            let mut last = None;
            for round in 1..=2 {
                let request = server.expect("tools/call").await;
                let token = request.id.as_i64().expect("ours");
                server
                    .notify("notifications/progress", json!({"progressToken": token, "progress": round}))
                    .await;
                if round == 1 {
                    tokio::task::yield_now().await;
                    tokio::task::yield_now().await;
                    server.result(request.id, need(json!({"r": {"method": "roots/list"}}), None)).await;
                } else {
                    last = Some(token);
                }
            }
            last.expect("two rounds")
        }
    );
    assert_eq!(steps, [1.0, 2.0]);
    assert_eq!(call.id().and_then(|id| id.as_i64()), Some(last));
    drop(call);
    let cancelled = server.notification().await;
    assert_eq!(value(cancelled.params.as_ref())["requestId"], last);
}
