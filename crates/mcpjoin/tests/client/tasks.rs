//! Tests of a client whose tool calls become tasks: the tasks extension of the modern era, and the tasks of 2025-11-25.
#![allow(clippy::panic, reason = "what is not as it should be fails the test")]

use mcpjoin_test_support::scripted;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcpjoin::client::{ClientBuilder, ClientError, TaskHandle, TaskOutcome, ToolCall};
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::session::{CallError, CallRefused, EraChoice};
use mcpjoin::proto::types::{
    CallToolResult, ElicitFormParams, ElicitParams, ElicitResult, ElicitationSchema, ExtensionTask, Members,
    TaskStatus,
};
use mcpjoin::proto::{Era, ErrorObject, Message, Method, Request};
use mcpjoin::server::{Context, HandlerError, NoArguments, Server, tool};
use mcpjoin::{Client, Link};
use scripted::{Scripted, builder, legacy, modern, raw, text, value};
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

const RELATED: &str = "io.modelcontextprotocol/related-task";

async fn elicit(params: ElicitParams) -> Result<ElicitResult, ErrorObject> {
    let ElicitParams::Form(form) = params else { return Err(ErrorObject::internal("no form")) };
    let result = json!({"action": "accept", "content": {"name": form.message}});
    Ok(raw(&result).decode().expect("an answer"))
}

/// A client that accepts tasks and can answer form elicitations.
fn taking() -> ClientBuilder {
    builder().tasks(true).elicitation(elicit)
}

/// A task of the tasks extension.
fn task(status: &str, with: Value) -> Value {
    let mut task = json!({
        "resultType": "complete", "taskId": "t-1", "status": status,
        "createdAt": "2026-11-22T08:00:00Z", "lastUpdatedAt": "2026-11-22T08:00:00Z",
        "ttlMs": 3_600_000, "pollIntervalMs": 5000,
    });
    merge(&mut task, with);
    task
}

/// A task of 2025-11-25.
fn core_task(status: &str, with: Value) -> Value {
    let mut task = json!({
        "taskId": "t-1", "status": status,
        "createdAt": "2026-11-22T08:00:00Z", "lastUpdatedAt": "2026-11-22T08:00:00Z",
        "ttl": 3_600_000, "pollInterval": 5000,
    });
    merge(&mut task, with);
    task
}

fn merge(into: &mut Value, with: Value) {
    let Value::Object(with) = with else { panic!("an object") };
    into.as_object_mut().expect("an object").extend(with);
}

fn created(with: Value) -> Value {
    let mut task = task("working", with);
    task["resultType"] = json!("task");
    task
}

fn question(message: &str) -> Value {
    json!({"method": "elicitation/create", "params": {
        "message": message, "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}
    }})
}

fn said(result: &CallToolResult) -> Value {
    let result: Value = raw_value(result);
    result["content"][0]["text"].clone()
}

fn raw_value<T: serde::Serialize>(of: &T) -> Value {
    serde_json::to_value(of).expect("JSON")
}

/// The parameters of a request without the metadata of the envelope.
fn params(request: &Request) -> Value {
    let mut params = value(request.params.as_ref());
    params.as_object_mut().expect("an object").remove("_meta");
    params
}

impl Extension {
    async fn begin(mut server: Scripted, with: Value) -> Self {
        let call = server.expect("tools/call").await;
        let meta = value(call.params.as_ref())["_meta"].clone();
        let declared = &meta["io.modelcontextprotocol/clientCapabilities"]["extensions"];
        assert_eq!(*declared, json!({"io.modelcontextprotocol/tasks": {}}));
        server.result(call.id, created(with)).await;
        let listen = server.expect("subscriptions/listen").await;
        assert_eq!(params(&listen)["notifications"], json!({"taskIds": ["t-1"]}));
        Self { server, listen }
    }

    /// Begins with a server that refuses to send task notifications.
    async fn deaf(server: Scripted, with: Value) -> Scripted {
        let Self { mut server, listen } = Self::begin(server, with).await;
        server.say(listen.id, Err(ErrorObject::method_not_found("subscriptions/listen"))).await;
        server
    }

    async fn acknowledge(&mut self) {
        let id = raw_value(&self.listen.id);
        let params = json!({
            "notifications": {"taskIds": ["t-1"]}, "_meta": {"io.modelcontextprotocol/subscriptionId": id}
        });
        self.server.notify("notifications/subscriptions/acknowledged", params).await;
    }

    async fn tell(&mut self, mut task: Value) {
        task["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": raw_value(&self.listen.id)});
        self.server.notify("notifications/tasks", task).await;
    }
}

/// A server that has answered a call with a task, and has received the client's subscription to that task.
struct Extension {
    server: Scripted,
    listen: Request,
}

/// Answers the next `tasks/get`.
async fn look(server: &mut Scripted, task: Value) -> Instant {
    let get = server.expect("tasks/get").await;
    assert_eq!(params(&get), json!({"taskId": "t-1"}));
    let at = Instant::now();
    server.result(get.id, task).await;
    at
}

fn done() -> Value {
    task("completed", json!({"result": text("done")}))
}

async fn events(call: &mut ToolCall) -> Vec<(String, Option<String>)> {
    let mut events = Vec::new();
    while let Some(event) = call.next_event().await {
        let CallEvent::Task(task) = event else { panic!("{event:?}") };
        events.push((task.status.as_str().to_owned(), task.status_message));
    }
    events
}

// ---- the extension ----

#[tokio::test(start_paused = true)]
async fn a_call_that_becomes_a_task_ends_with_its_result() {
    let (client, server) = modern(taking()).await;
    let mut call = client.call_tool("t", ());
    let (seen, ()) = tokio::join!(events(&mut call), async {
        let mut server = Extension::deaf(server, json!({"statusMessage": "begun"})).await;
        let began = Instant::now();
        let first =
            look(&mut server, task("working", json!({"statusMessage": "half", "pollIntervalMs": 250}))).await;
        assert_eq!(first - began, Duration::from_secs(5));
        // An unchanged status makes no event.
        let second =
            look(&mut server, task("working", json!({"statusMessage": "half", "pollIntervalMs": 250}))).await;
        assert_eq!(second - first, Duration::from_millis(250));
        // Two examples of the specification give this response the result type "task".
        let mut last = done();
        last["resultType"] = json!("task");
        look(&mut server, last).await;
    });
    let seen: Vec<_> = seen.iter().map(|(status, message)| (status.as_str(), message.as_deref())).collect();
    assert_eq!(seen, [("working", Some("begun")), ("working", Some("half")), ("completed", None)]);
    assert_eq!(said(&call.await.expect("a result")), "done");
}

#[tokio::test(start_paused = true)]
async fn looks_are_as_often_as_the_server_wants_within_bounds() {
    for (interval, ttl, pause) in [
        (json!(700), json!(null), 700),
        (json!(null), json!(null), 1000),
        (json!(0), json!(null), 100),
        (json!(-5), json!(null), 100),
        (json!(1_000_000_000_000_i64), json!(null), 300_000),
        // The task would expire before the client polls it.
        (json!(5000), json!(2000), 1000),
    ] {
        let (client, server) = modern(taking()).await;
        let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
            let mut timing = json!({"ttlMs": ttl});
            if !interval.is_null() {
                timing["pollIntervalMs"] = interval.clone();
            }
            let mut server = Extension::deaf(server, timing).await;
            let began = Instant::now();
            let looked = look(&mut server, done()).await;
            if interval.is_null() {
                return;
            }
            assert_eq!(looked - began, Duration::from_millis(pause), "{interval}");
        });
        result.expect("a result");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_of_it_is_looked_at_every_second() {
    let (client, server) = modern(taking()).await;
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let mut first = created(json!({}));
        first.as_object_mut().expect("an object").remove("pollIntervalMs");
        let mut server = server;
        let call = server.expect("tools/call").await;
        server.result(call.id, first).await;
        let listen = server.expect("subscriptions/listen").await;
        server.say(listen.id, Err(ErrorObject::method_not_found("subscriptions/listen"))).await;
        let began = Instant::now();
        assert_eq!(look(&mut server, done()).await - began, Duration::from_secs(1));
    });
    result.expect("a result");
}

#[tokio::test(start_paused = true)]
async fn a_status_notification_is_received_at_once() {
    let (client, server) = modern(taking()).await;
    let began = Instant::now();
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let mut server = Extension::begin(server, json!({})).await;
        server.acknowledge().await;
        // No notification covers what happened before the stream opened, so the client polls the task once.
        look(&mut server.server, task("working", json!({}))).await;
        let mut other = done();
        other["taskId"] = json!("t-2");
        server.tell(other).await;
        server.tell(task("completed", json!({"result": text("told")}))).await;
        // The client cancels the stream.
        assert_eq!(server.server.notification().await.method, Method::Cancelled);
    });
    assert_eq!(said(&result.expect("a result")), "told");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_notified_without_its_result_is_fetched() {
    let (client, server) = modern(taking()).await;
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let mut server = Extension::begin(server, json!({})).await;
        server.acknowledge().await;
        look(&mut server.server, task("working", json!({}))).await;
        server.tell(task("completed", json!({}))).await;
        look(&mut server.server, done()).await;
    });
    assert_eq!(said(&result.expect("a result")), "done");

    let (client, server) = modern(taking()).await;
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let mut server = Extension::deaf(server, json!({})).await;
        look(&mut server, task("completed", json!({}))).await;
    });
    assert!(matches!(result, Err(ClientError::BadResult { method: Method::GetTask, .. })), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn each_question_of_a_task_is_answered_once() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let client = builder().tasks(true).elicitation(move |params| {
        counted.fetch_add(1, Ordering::Relaxed);
        elicit(params)
    });
    let (client, server) = modern(client).await;
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let mut server = Extension::deaf(server, json!({})).await;
        let waits = |questions: Value| task("input_required", json!({"inputRequests": questions}));
        look(&mut server, waits(json!({"a": question("A?"), "b": question("B?")}))).await;
        let update = server.expect("tasks/update").await;
        let answer = |name: &str| json!({"action": "accept", "content": {"name": name}});
        let expected = json!({"taskId": "t-1", "inputResponses": {"a": answer("A?"), "b": answer("B?")}});
        assert_eq!(params(&update), expected);
        server.result(update.id, json!({"resultType": "complete"})).await;
        // The server has not processed the answer yet, and then it asks for more input.
        look(&mut server, waits(json!({"a": question("A?"), "b": question("B?")}))).await;
        look(&mut server, waits(json!({"b": question("B?"), "c": question("C?")}))).await;
        let update = server.expect("tasks/update").await;
        assert_eq!(params(&update)["inputResponses"], json!({"c": answer("C?")}));
        server.result(update.id, json!({"resultType": "complete"})).await;
        look(&mut server, done()).await;
    });
    result.expect("a result");
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn a_question_without_a_user_ends_the_command_and_the_task_stays() {
    let (client, server) = modern(builder().tasks(true)).await;
    let (result, mut server) = tokio::join!(client.call_tool("t", ()), async {
        let mut server = Extension::deaf(server, json!({})).await;
        look(&mut server, task("input_required", json!({"inputRequests": {"a": question("A?")}}))).await;
        server
    });
    assert!(matches!(result, Err(ClientError::UndeclaredInput { .. })), "{result:?}");
    client.close().await;
    assert_eq!(server.message().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_asks_again_and_again_is_given_up() {
    let (client, server) = modern(taking()).await;
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let mut server = Extension::deaf(server, json!({})).await;
        for round in 0..=10 {
            let key = format!("question {round}");
            look(&mut server, task("input_required", json!({"inputRequests": {key: question("?")}}))).await;
            if round < 10 {
                let update = server.expect("tasks/update").await;
                server.result(update.id, json!({"resultType": "complete"})).await;
            }
        }
    });
    assert!(matches!(result, Err(ClientError::TooManyRounds { limit: 10, .. })), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn lost_answers_are_sent_again_without_another_question() {
    let (client, server) = modern(taking()).await;
    let call = client.call_tool("t", ()).timeout(Duration::from_secs(1));
    let (result, ()) = tokio::join!(call, async {
        let mut server = Extension::deaf(server, json!({"pollIntervalMs": 200_000})).await;
        let waits = json!({"inputRequests": {"a": question("A?")}, "pollIntervalMs": 200_000});
        look(&mut server, task("input_required", waits)).await;
        let lost = server.expect("tasks/update").await;
        assert_eq!(server.notification().await.method, Method::Cancelled);
        let again = server.expect("tasks/update").await;
        assert_eq!(params(&again), params(&lost));
        server.result(again.id, json!({"resultType": "complete"})).await;
        look(&mut server, done()).await;
    });
    result.expect("a result");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_failed_or_was_called_off_says_so() {
    let end = async |with: Value, status: &str| {
        let (client, server) = modern(taking()).await;
        let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
            let mut server = Extension::deaf(server, json!({})).await;
            look(&mut server, task(status, with)).await;
        });
        result.expect_err("it has no result")
    };
    let failed = end(json!({"error": {"code": -32603, "message": "broken"}}), "failed").await;
    assert_eq!(failed.remote(), Some(&ErrorObject::internal("broken")));
    let cancelled = end(json!({"statusMessage": "by\nsomebody"}), "cancelled").await;
    assert_eq!(cancelled.to_string(), r"the task `t-1` was cancelled: by\nsomebody");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_loses_the_task_is_distinguished_from_one_that_dies() {
    let (client, server) = modern(taking()).await;
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let mut server = Extension::deaf(server, json!({})).await;
        let get = server.expect("tasks/get").await;
        server.say(get.id, Err(ErrorObject::invalid_params("no such task"))).await;
    });
    let lost = result.expect_err("it is lost");
    assert!(matches!(&lost, ClientError::UnknownTask { id, .. } if id == "t-1"), "{lost:?}");
    assert_eq!(lost.remote().map(|error| error.code), Some(-32602));
    assert!(lost.to_string().contains("no such task"), "{lost}");

    let (client, server) = modern(taking()).await;
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let mut server = Extension::deaf(server, json!({})).await;
        server.expect("tasks/get").await;
        drop(server);
    });
    assert!(result.as_ref().is_err_and(ClientError::is_fatal), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn three_looks_in_a_row_may_be_lost() {
    for lost in [3, 4] {
        let (client, server) = modern(taking()).await;
        let call = client.call_tool("t", ()).timeout(Duration::from_secs(2));
        let (result, ()) = tokio::join!(call, async {
            let mut server = Extension::deaf(server, json!({})).await;
            for _ in 0..lost {
                server.expect("tasks/get").await;
                assert_eq!(server.notification().await.method, Method::Cancelled);
            }
            if lost == 3 {
                look(&mut server, done()).await;
            }
        });
        match lost {
            3 => drop(result.expect("a result")),
            _ => assert!(matches!(result, Err(ClientError::Call(CallError::TimedOut { .. }))), "{result:?}"),
        }
    }
}

/// Reports the status "working" for ever.
async fn works_for_ever(server: Scripted, with: Value) {
    let mut server = Extension::deaf(server, with.clone()).await;
    while let Some(Message::Request(get)) = server.message().await {
        server.result(get.id, task("working", with.clone())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_wait_for_a_task_ends() {
    const MINUTE: Duration = Duration::from_secs(60);
    for (ttl, within, bound) in [
        (json!(600_000), None, 12 * MINUTE),
        (json!(600_000), Some(MINUTE), MINUTE),
        (json!(null), None, 24 * 60 * MINUTE),
        (json!(-1), None, MINUTE + Duration::from_millis(100)),
        (json!(i64::MAX), None, 24 * 60 * MINUTE),
    ] {
        let (client, server) = modern(taking()).await;
        let serving = tokio::spawn(works_for_ever(server, json!({"ttlMs": ttl, "pollIntervalMs": 60_000})));
        let mut call = client.call_tool("t", ());
        if let Some(within) = within {
            call = call.within(within);
        }
        let began = Instant::now();
        let error = call.await.expect_err("it never ends");
        assert!(matches!(error, ClientError::TaskTimedOut { .. }), "{error:?}");
        assert_eq!(began.elapsed(), bound, "{ttl}");
        serving.abort();
    }
    let (client, server) = modern(taking()).await;
    let call = client.call_tool("t", ()).within(Duration::MAX);
    let (result, ()) = tokio::join!(call, async {
        let mut server = Extension::deaf(server, json!({})).await;
        look(&mut server, done()).await;
    });
    result.expect("no time is too long to be said");
}

#[tokio::test(start_paused = true)]
async fn who_leaves_leaves_the_task_to_go_on() {
    let (client, server) = modern(taking()).await;
    let mut call = client.call_tool("t", ());
    let (event, begun) = tokio::join!(call.next_event(), Extension::begin(server, json!({})));
    let Some(CallEvent::Task(seen)) = event else { panic!("{event:?}") };
    drop(call);
    let mut server = begun.server;
    let left = server.notification().await;
    assert_eq!(left.method, Method::Cancelled);
    assert_eq!(value(left.params.as_ref())["requestId"], raw_value(&begun.listen.id));
    advance(Duration::from_secs(60)).await;
    // The client has sent nothing in between: the next request is the first message that the server receives.
    let handle = client.task(seen.task_id);
    let (cancelled, ()) = tokio::join!(handle.cancel(), async {
        let cancel = server.expect("tasks/cancel").await;
        assert_eq!(params(&cancel), json!({"taskId": "t-1"}));
        server.result(cancel.id, json!({"resultType": "complete"})).await;
    });
    cancelled.expect("acknowledged");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_no_tasks_is_given_none() {
    let (client, mut server) = modern(builder()).await;
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let call = server.expect("tools/call").await;
        let meta = value(call.params.as_ref())["_meta"].clone();
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"]["extensions"], Value::Null);
        server.result(call.id, created(json!({}))).await;
    });
    assert!(matches!(result, Err(ClientError::Call(CallError::InvalidResponse { .. }))), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn only_the_call_of_a_tool_becomes_a_task() {
    let (client, mut server) = modern(taking()).await;
    let (result, ()) = tokio::join!(client.get_prompt("p", ()), async {
        let request = server.expect("prompts/get").await;
        server.result(request.id, created(json!({}))).await;
    });
    assert!(matches!(result, Err(ClientError::BadResult { method: Method::GetPrompt, .. })), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn another_task_is_no_answer() {
    let (client, mut server) = modern(taking()).await;
    let handle = client.task("t-2");
    let (status, ()) = tokio::join!(handle.status(), async {
        let get = server.expect("tasks/get").await;
        server.result(get.id, done()).await;
    });
    assert!(matches!(status, Err(ClientError::BadResult { method: Method::GetTask, .. })), "{status:?}");
}

// ---- our own server, in memory ----

/// Lets this much virtual time pass.
async fn pass(time: Duration) {
    let never = tokio::time::timeout(time, std::future::pending::<()>()).await;
    assert!(never.is_err());
}

fn serving() -> Server {
    Server::builder("s", "1")
        .tool(tool("slow").as_task(), async |_: NoArguments, _| {
            pass(Duration::from_secs(90)).await;
            "slowly"
        })
        .tool(tool("asks").as_task(), async |_: NoArguments, cx: Context| {
            let answer =
                cx.elicit(ElicitFormParams::new("Who?", ElicitationSchema::new(Members::new()))).await;
            answer.map(|answer| raw_value(&answer)["content"]["name"].to_string())
        })
        .tool(tool("required").as_task().requires_tasks(), async |_: NoArguments, _| "required")
        .tool(tool("breaks").as_task(), async |_: NoArguments, _| {
            Err::<String, _>(HandlerError::protocol(ErrorObject::internal("broken")))
        })
        .tool(tool("quick"), async |_: NoArguments, _| "quickly")
        .build()
        .expect("a server")
}

const BOTH_ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

async fn connect(server: &Server, era: Era) -> Client {
    let (ours, theirs) = Link::memory();
    server.connect(theirs);
    taking().era(EraChoice::Only(era)).connect(ours).await.expect("connects")
}

async fn begin(client: &Client, tool: &str) -> TaskHandle {
    match client.call_tool(tool, ()).start().await {
        Ok(TaskOutcome::Task(task)) => task,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_is_left_and_taken_up_again_on_another_connection() {
    for era in BOTH_ERAS {
        let server = serving();
        let client = connect(&server, era).await;
        let began = Instant::now();
        let task = begin(&client, "slow").await;
        assert_eq!(task.created().map(|task| task.status.clone()), Some(TaskStatus::Working));
        assert_eq!(task.status().await.expect("it is there").status, TaskStatus::Working);
        let id = task.id().to_owned();
        drop(task);
        // In the legacy era the task belongs to the session.
        let client = if era == Era::Modern {
            client.close().await;
            connect(&server, era).await
        } else {
            client
        };
        let task = client.task(&id);
        assert_eq!(task.created(), None);
        assert_eq!(said(&task.result().await.expect("a result")), "slowly");
        // A client that has a stream receives a notification of the end; otherwise the next poll finds it.
        assert!(began.elapsed() - Duration::from_secs(90) < Duration::from_secs(2), "{:?}", began.elapsed());
        assert_eq!(task.wait().await.expect("it is over").status, TaskStatus::Completed);
        // The task keeps its result.
        assert_eq!(said(&task.result().await.expect("a result")), "slowly");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_is_called_off() {
    for era in BOTH_ERAS {
        let client = connect(&serving(), era).await;
        let task = begin(&client, "slow").await;
        let (error, cancelled) = tokio::join!(task.result(), async {
            pass(Duration::from_secs(10)).await;
            task.cancel().await
        });
        cancelled.expect("acknowledged");
        assert!(matches!(error, Err(ClientError::TaskCancelled { .. })), "{error:?}");
        let over: ExtensionTask = task.wait().await.expect("it is over");
        assert_eq!(over.status, TaskStatus::Cancelled);
        let unknown = client.task("nobody").result().await;
        assert!(matches!(unknown, Err(ClientError::UnknownTask { .. })), "{unknown:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_the_same_whether_it_is_a_task_or_not() {
    for era in BOTH_ERAS {
        let client = connect(&serving(), era).await;
        let Ok(TaskOutcome::Result(result)) = client.call_tool("quick", ()).start().await else {
            panic!("no result")
        };
        assert_eq!(said(&result.decode().expect("a result")), "quickly");
        for call in [client.call_tool("asks", ()), client.call_tool("asks", ()).as_task()] {
            assert_eq!(said(&call.await.expect("a result")), r#""Who?""#);
        }
        assert_eq!(said(&client.call_tool("required", ()).await.expect("a result")), "required");
        let failed = client.call_tool("breaks", ()).as_task().await.expect_err("it breaks");
        assert_eq!(failed.remote(), Some(&ErrorObject::internal("broken")));
    }
}

// ---- 2025-11-25 ----

/// A legacy server that runs tools as tasks, and a client that accepts tasks.
async fn core(builder: ClientBuilder) -> (Client, Scripted) {
    core_in("2025-11-25", builder).await
}

async fn core_in(version: &str, builder: ClientBuilder) -> (Client, Scripted) {
    let (link, mut server) = Scripted::pair();
    server.capabilities["tasks"] = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    let (client, ()) = tokio::join!(builder.connect(link), server.open_legacy(version));
    (client.expect("connects"), server)
}

fn tools() -> Value {
    let tool = |name: &str, support: Option<&str>| {
        let mut tool = json!({"name": name, "inputSchema": {"type": "object"}});
        if let Some(support) = support {
            tool["execution"] = json!({"taskSupport": support});
        }
        tool
    };
    json!({"tools": [
        tool("required", Some("required")), tool("optional", Some("optional")),
        tool("forbidden", Some("forbidden")), tool("plain", None)
    ]})
}

async fn list(server: &mut Scripted) {
    let list = server.expect("tools/list").await;
    server.result(list.id, tools()).await;
}

/// Answers the call with a new task.
async fn begun(server: &mut Scripted) {
    let call = server.expect("tools/call").await;
    assert_eq!(params(&call)["task"], json!({"ttl": 3_600_000}));
    // The caller does not receive progress, so the client asks for none.
    assert_eq!(value(call.params.as_ref())["_meta"]["progressToken"], Value::Null);
    server.result(call.id, json!({"task": core_task("working", json!({}))})).await;
}

/// Answers the next request for the result.
async fn fetched(server: &mut Scripted, result: Result<Value, ErrorObject>) {
    let fetch = server.expect("tasks/result").await;
    assert_eq!(params(&fetch), json!({"taskId": "t-1"}));
    server.say(fetch.id, result).await;
}

fn core_text(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}], "_meta": {RELATED: {"taskId": "t-1"}}})
}

#[tokio::test(start_paused = true)]
async fn core_a_tool_that_requires_a_task_is_given_one() {
    let (client, mut server) = core(taking()).await;
    for round in 0..2 {
        let mut call = client.call_tool("required", ());
        let (seen, ()) = tokio::join!(events(&mut call), async {
            if round == 0 {
                list(&mut server).await;
            }
            begun(&mut server).await;
            let began = Instant::now();
            let working = core_task("working", json!({"statusMessage": "half", "pollInterval": 250}));
            assert_eq!(look(&mut server, working).await - began, Duration::from_secs(5));
            look(&mut server, core_task("completed", json!({}))).await;
            fetched(&mut server, Ok(core_text("done"))).await;
        });
        assert_eq!(seen.len(), 3, "{seen:?}");
        assert_eq!(said(&call.await.expect("a result")), "done");
    }
}

#[tokio::test(start_paused = true)]
async fn core_a_tool_that_may_be_a_task_is_one_when_that_is_wanted() {
    let (client, mut server) = core(taking()).await;
    for (name, wanted, is_task) in [
        ("optional", false, false),
        ("optional", true, true),
        ("forbidden", true, false),
        ("plain", true, false),
        ("unlisted", true, false),
    ] {
        let call = client.call_tool(name, ());
        let call = if wanted { call.as_task().within(Duration::from_secs(90)) } else { call };
        let (result, ()) = tokio::join!(call, async {
            if name == "optional" && !wanted {
                list(&mut server).await;
            }
            let call = server.expect("tools/call").await;
            let asked = params(&call)["task"].clone();
            assert_eq!(asked, if is_task { json!({"ttl": 90_000}) } else { Value::Null }, "{name}");
            // A server may still answer at once.
            server.result(call.id, core_text("at once")).await;
        });
        assert_eq!(said(&result.expect("a result")), "at once");
    }
}

#[tokio::test(start_paused = true)]
async fn core_a_list_that_has_changed_is_read_again() {
    let (client, mut server) = core(taking()).await;
    for _ in 0..2 {
        let (result, ()) = tokio::join!(client.call_tool("plain", ()), async {
            list(&mut server).await;
            let call = server.expect("tools/call").await;
            server.result(call.id, core_text("done")).await;
        });
        result.expect("a result");
        server.notify("notifications/tools/list_changed", json!({})).await;
        // The client handles messages in order: when it has answered the ping, it has handled the notification.
        server.ask(7, "ping", json!({})).await;
    }
}

#[tokio::test(start_paused = true)]
async fn core_of_ten_thousand_tools_the_kinds_are_remembered_and_of_one_more_not() {
    // The limit is 4 MiB for all names together, including the word for each tool's task support.
    const LONGEST: usize = (4 << 20) - "lastoptionaloptional".len();
    let long = |bytes: usize| vec!["x".repeat(bytes), "last".to_owned()];
    let many = |count: usize| (0..count).map(|name| name.to_string()).collect::<Vec<_>>();
    for (names, lists) in [(many(10_000), 1), (many(10_001), 2), (long(LONGEST), 1), (long(LONGEST + 1), 2)] {
        let (client, mut server) = core(taking()).await;
        let tool = |name: &String| {
            let (schema, support) = (json!({"type": "object"}), json!({"taskSupport": "optional"}));
            json!({"name": name, "inputSchema": schema, "execution": support})
        };
        let tools = json!({"tools": names.iter().map(tool).collect::<Vec<_>>()});
        let (last, count) = (names[names.len() - 1].clone(), names.len());
        for call in 0..2 {
            let (result, ()) = tokio::join!(client.call_tool(last.clone(), ()).as_task(), async {
                if call < lists {
                    let list = server.expect("tools/list").await;
                    server.result(list.id, tools.clone()).await;
                }
                let call = server.expect("tools/call").await;
                assert_eq!(params(&call)["task"], json!({"ttl": 3_600_000}), "{count}");
                server.result(call.id, core_text("done")).await;
            });
            result.expect("a result");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn core_a_server_that_declares_no_tasks_is_asked_for_none() {
    let (client, mut server) = legacy(taking()).await;
    let (result, ()) = tokio::join!(client.call_tool("required", ()).as_task(), async {
        let call = server.expect("tools/call").await;
        assert_eq!(params(&call)["task"], Value::Null);
        server.result(call.id, core_text("done")).await;
    });
    result.expect("a result");

    // Before 2025-11-25 there are no tasks, whatever a server declares.
    let (client, mut server) = core_in("2025-06-18", taking()).await;
    let (result, ()) = tokio::join!(client.call_tool("required", ()).as_task(), async {
        let call = server.expect("tools/call").await;
        server.result(call.id, core_text("done")).await;
    });
    result.expect("a result");
    let refused = client.task("t-1").status().await;
    let not_there = |error: &ClientError| {
        matches!(error, ClientError::Call(CallError::Refused(CallRefused::NotInVersion { .. })))
    };
    assert!(refused.as_ref().is_err_and(not_there), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn core_a_task_that_waits_for_input_asks_while_its_result_is_waited_for() {
    let (client, mut server) = core(taking()).await;
    let (result, ()) = tokio::join!(client.call_tool("required", ()), async {
        list(&mut server).await;
        begun(&mut server).await;
        look(&mut server, core_task("input_required", json!({}))).await;
        let fetch = server.expect("tasks/result").await;
        let mut asked = question("Who?")["params"].clone();
        asked["_meta"] = json!({RELATED: {"taskId": "t-1"}});
        let answer = server.ask(70, "elicitation/create", asked).await;
        let expected = json!({
            "action": "accept", "content": {"name": "Who?"}, "_meta": {RELATED: {"taskId": "t-1"}}
        });
        assert_eq!(value(answer.outcome.ok().as_ref()), expected);
        // This is far longer than the timeout of a request, which limits only each poll.
        for _ in 0..20 {
            look(&mut server, core_task("working", json!({}))).await;
        }
        server.result(fetch.id, core_text("answered")).await;
        look(&mut server, core_task("completed", json!({}))).await;
    });
    assert_eq!(said(&result.expect("a result")), "answered");
}

#[tokio::test(start_paused = true)]
async fn core_a_status_notification_is_received_at_once() {
    let (client, mut server) = core(taking()).await;
    let began = Instant::now();
    let (result, ()) = tokio::join!(client.call_tool("required", ()), async {
        list(&mut server).await;
        begun(&mut server).await;
        server.notify("notifications/tasks/status", core_task("completed", json!({}))).await;
        fetched(&mut server, Ok(core_text("told"))).await;
    });
    assert_eq!(said(&result.expect("a result")), "told");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn core_a_task_that_failed_gives_what_the_call_would_have_given() {
    let failed = async |outcome: Result<Value, ErrorObject>| {
        let (client, mut server) = core(taking()).await;
        let (result, ()) = tokio::join!(client.call_tool("required", ()), async {
            list(&mut server).await;
            begun(&mut server).await;
            look(&mut server, core_task("failed", json!({}))).await;
            fetched(&mut server, outcome).await;
        });
        result
    };
    let mut is_error = core_text("no luck");
    is_error["isError"] = json!(true);
    assert_eq!(failed(Ok(is_error)).await.expect("a result").is_error, Some(true));
    let error = failed(Err(ErrorObject::internal("broken"))).await.expect_err("no result");
    assert_eq!(error.remote(), Some(&ErrorObject::internal("broken")));
}

#[tokio::test(start_paused = true)]
async fn core_a_cancelled_task_is_distinguished_from_a_failed_one() {
    let (client, mut server) = core(taking()).await;
    let (result, ()) = tokio::join!(client.call_tool("required", ()), async {
        list(&mut server).await;
        begun(&mut server).await;
        look(&mut server, core_task("input_required", json!({}))).await;
        // The TypeScript SDK answers with this error in that case.
        fetched(&mut server, Err(ErrorObject::internal("no result"))).await;
        look(&mut server, core_task("cancelled", json!({}))).await;
    });
    assert!(matches!(result, Err(ClientError::TaskCancelled { .. })), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn core_a_lost_result_is_fetched_again() {
    let (client, mut server) = core(taking()).await;
    let call = client.call_tool("required", ()).timeout(Duration::from_secs(1));
    let (result, ()) = tokio::join!(call, async {
        list(&mut server).await;
        begun(&mut server).await;
        look(&mut server, core_task("completed", json!({}))).await;
        server.expect("tasks/result").await;
        assert_eq!(server.notification().await.method, Method::Cancelled);
        fetched(&mut server, Ok(core_text("again"))).await;
    });
    assert_eq!(said(&result.expect("a result")), "again");
}

#[tokio::test(start_paused = true)]
async fn core_a_handle_asks_cancels_and_lists() {
    let (client, mut server) = core(taking()).await;
    let (task, ()) = tokio::join!(begin(&client, "optional"), async {
        list(&mut server).await;
        begun(&mut server).await;
    });
    let (status, ()) = tokio::join!(task.status(), async {
        look(&mut server, core_task("working", json!({"statusMessage": "half"}))).await;
    });
    assert_eq!(status.expect("it is there").status_message.as_deref(), Some("half"));
    let (cancelled, ()) = tokio::join!(task.cancel(), async {
        let cancel = server.expect("tasks/cancel").await;
        server.result(cancel.id, core_task("cancelled", json!({}))).await;
    });
    cancelled.expect("it is off");
    let (over, ()) = tokio::join!(task.wait(), async {
        look(&mut server, core_task("cancelled", json!({}))).await;
    });
    assert_eq!(over.expect("it is over").status, TaskStatus::Cancelled);
    let (tasks, ()) = tokio::join!(client.list_tasks().all(), async {
        for next in [Some("2"), None] {
            let page = server.expect("tasks/list").await;
            let mut result = json!({"tasks": [core_task("working", json!({}))]});
            if let Some(next) = next {
                result["nextCursor"] = json!(next);
            }
            server.result(page.id, result).await;
        }
    });
    assert_eq!(tasks.expect("two").len(), 2);
}
