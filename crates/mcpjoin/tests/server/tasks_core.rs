//! Tests of a server's tasks as the core protocol of 2025-11-25 defines them.

use std::time::Duration;

use mcpjoin::proto::ErrorObject;
use mcpjoin::proto::types::{
    CreateMessageParams, ElicitFormParams, ElicitationSchema, InputRequests, InputRequired, LoggingLevel,
    Members, Role, SamplingMessage, TextContent,
};
use mcpjoin::server::{Context, HandlerError, NoArguments, Server, ServerBuilder, tool};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::{Wire, run, text};

const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Lets this much time pass on the paused clock.
async fn pass(time: Duration) {
    let never = tokio::time::timeout(time, std::future::pending::<()>()).await;
    assert!(never.is_err());
}

fn form(message: &str) -> ElicitFormParams {
    ElicitFormParams::new(message, ElicitationSchema::new(Members::new()))
}

fn builder() -> ServerBuilder {
    Server::builder("s", "1")
        .logging()
        .tool(tool("plain"), |_: NoArguments, _| async { "plain" })
        .tool(tool("quick").as_task(), |_: NoArguments, _| async { "done" })
        .tool(tool("required").as_task().requires_tasks(), |_: NoArguments, _| async { "done" })
        .tool(tool("never").as_task(), |_: NoArguments, _| std::future::pending::<()>())
        .tool(tool("slow").as_task(), |_: NoArguments, _| async {
            pass(Duration::from_secs(5)).await;
            "late"
        })
        .tool(tool("panics").as_task(), |_: NoArguments, _| async { panic!("secret") as String })
        .tool(tool("fails").as_task(), |_: NoArguments, _| async {
            Err::<String, _>(HandlerError::new("no luck"))
        })
        .tool(tool("breaks").as_task(), |_: NoArguments, _| async {
            Err::<String, _>(HandlerError::protocol(ErrorObject::internal("broken")))
        })
        .tool(tool("asks").as_task(), |_: NoArguments, cx: Context| async move {
            let answer = cx.elicit(form("Go on?")).await?;
            Ok::<_, HandlerError>(answer.action.as_str().to_owned())
        })
        .tool(tool("asks-all").as_task(), |_: NoArguments, cx: Context| async move {
            let roots = cx.list_roots().await?.roots.len();
            let message = SamplingMessage::new(Role::User, TextContent::new("hm"));
            let sampled = cx.sample(CreateMessageParams::new(vec![message], 10)).await?.model;
            Ok::<_, HandlerError>(format!("{roots} {sampled}"))
        })
        .tool(tool("asks-twice").as_task(), |_: NoArguments, cx: Context| async move {
            let (first, second) = tokio::join!(cx.elicit(form("First?")), cx.elicit(form("Second?")));
            Ok::<_, HandlerError>(format!("{} {}", first?.action.as_str(), second?.action.as_str()))
        })
        .tool(tool("asks-by-hand").requires_tasks(), |_: NoArguments, cx: Context| async move {
            if cx.input_responses()?.is_none() {
                let questions = InputRequests::new().with("q", form("Begin?").into());
                let input = InputRequired::default().with_input_requests(questions);
                return Err(HandlerError::need_input(input));
            }
            cx.start_task(|cx| async move {
                let answer = cx.elicit(form("Go on?")).await?;
                Ok::<_, HandlerError>(answer.action.as_str().to_owned())
            })
            .await
        })
        .tool(tool("tells").as_task(), |_: NoArguments, cx: Context| async move {
            cx.progress(1.0, Some(3.0), Some("one"));
            cx.log(LoggingLevel::Info, "said");
            pass(Duration::from_secs(1)).await;
            cx.progress(1.0, Some(3.0), Some("no more than before"));
            pass(Duration::from_secs(1)).await;
            cx.progress(2.0, Some(3.0), None);
            pass(Duration::from_secs(1)).await;
            "told"
        })
}

fn server() -> Server {
    builder().build().unwrap()
}

/// A client that declares every capability for requests from the server.
struct Peer {
    wire: Wire,
    last: i64,
    /// The requests and notifications that the server has sent, not yet read by the test.
    told: Vec<Value>,
}

impl Peer {
    async fn new(server: &Server) -> Self {
        Self::of(server, json!({ "elicitation": {}, "sampling": {}, "roots": {} })).await.0
    }

    async fn of(server: &Server, capabilities: Value) -> (Self, Value) {
        let mut open = crate::initialize("2025-11-25");
        open["params"]["capabilities"] = capabilities;
        Self::opened(server, &open).await
    }

    async fn opened(server: &Server, open: &Value) -> (Self, Value) {
        let mut wire = Wire::new(server);
        let opened = wire.ask(open).await["result"].clone();
        wire.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        (Self { wire, last: 0, told: Vec::new() }, opened)
    }

    async fn send(&mut self, method: &str, params: &Value) -> i64 {
        self.last += 1;
        self.wire.send(&crate::request(self.last, method, params).to_string()).await;
        self.last
    }

    /// The response to that request; messages that the server sends before it are kept.
    async fn answer(&mut self, id: i64) -> Value {
        loop {
            let message = self.wire.next().await;
            if message["id"] == id && message["method"] == Value::Null {
                return message;
            }
            self.told.push(message);
        }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, &params).await;
        self.answer(id).await
    }

    async fn code(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.ask(method, params).await;
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer}"))
    }

    /// The next request or notification of the server.
    async fn next_told(&mut self) -> Value {
        if self.told.is_empty() { self.wire.next().await } else { self.told.remove(0) }
    }

    /// The next request or notification of the server with that method.
    async fn told(&mut self, method: &str) -> Value {
        loop {
            let message = self.next_told().await;
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Expects a new request in place of another, and the cancellation of the old one, in either order.
    async fn asked_anew(&mut self, before: &Value) -> Value {
        let (mut question, mut cancelled) = (Value::Null, Value::Null);
        while question.is_null() || cancelled.is_null() {
            let message = self.next_told().await;
            match message["method"].as_str() {
                Some("elicitation/create") => question = message,
                Some("notifications/cancelled") => cancelled = message["params"]["requestId"].clone(),
                _ => {}
            }
        }
        assert_eq!(cancelled, before["id"]);
        question
    }

    async fn reply(&mut self, to: &Value, result: Value) {
        let reply = json!({ "jsonrpc": "2.0", "id": to["id"], "result": result });
        self.wire.send(&reply.to_string()).await;
    }

    async fn create(&mut self, tool: &str) -> Value {
        let answer = self.ask("tools/call", json!({ "name": tool, "task": {} })).await;
        let task = answer["result"]["task"].clone();
        assert_eq!(task["status"], "working", "{answer}");
        task
    }

    async fn begin(&mut self, tool: &str) -> Value {
        self.create(tool).await["taskId"].clone()
    }

    async fn get(&mut self, task: &Value) -> Value {
        self.ask("tasks/get", json!({ "taskId": task })).await["result"].clone()
    }

    async fn result(&mut self, task: &Value) -> Value {
        self.ask("tasks/result", json!({ "taskId": task })).await
    }

    async fn list(&mut self) -> Vec<Value> {
        let answer = self.ask("tasks/list", json!({})).await;
        answer["result"]["tasks"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
    }
}

#[test]
fn tasks_are_declared_in_the_words_of_each_revision() {
    run(async {
        let declared = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
        for (version, expected) in [
            ("2024-11-05", Value::Null),
            ("2025-03-26", Value::Null),
            ("2025-06-18", Value::Null),
            ("2025-11-25", declared),
        ] {
            let (mut peer, opened) = Peer::opened(&server(), &crate::initialize(version)).await;
            assert_eq!(opened["protocolVersion"], version);
            assert_eq!(opened["capabilities"]["tasks"], expected, "{version}");
            assert_eq!(opened["capabilities"]["extensions"], Value::Null);
            let tools = peer.ask("tools/list", json!({})).await["result"]["tools"].clone();
            let support = |name: &str| {
                let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
                tool["execution"].clone()
            };
            let (optional, required) = match expected {
                Value::Null => (Value::Null, Value::Null),
                _ => (json!({ "taskSupport": "optional" }), json!({ "taskSupport": "required" })),
            };
            let named = ["plain", "quick", "required", "asks-by-hand"].map(support);
            assert_eq!(named, [Value::Null, optional, required.clone(), required], "{version}");
        }
        let plain = Server::builder("s", "1").tool(tool("plain"), |_: NoArguments, _| async { "plain" });
        let (_, opened) = Peer::of(&plain.build().unwrap(), json!({})).await;
        assert_eq!(opened["capabilities"], json!({ "tools": {} }));
        let mut modern = Wire::new(&server());
        let discovered = modern
            .ask(&crate::request(
                1,
                "server/discover",
                &json!({ "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {}
                } }),
            ))
            .await;
        let capabilities = &discovered["result"]["capabilities"];
        assert_eq!(capabilities["tasks"], Value::Null);
        assert_eq!(capabilities["extensions"], json!({ "io.modelcontextprotocol/tasks": {} }));
    });
}

#[test]
fn a_call_that_asks_for_a_task_is_answered_at_once() {
    run(async {
        let mut peer = Peer::new(&server()).await;
        let begun = Instant::now();
        let answer = peer.ask("tools/call", json!({ "name": "slow", "task": { "ttl": 60_000 } })).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let task = answer["result"]["task"].clone();
        assert_eq!(answer["result"], json!({ "task": task }));
        let id = task["taskId"].as_str().unwrap();
        assert!(id.len() == 64 && id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{id}");
        let created = task["createdAt"].as_str().unwrap();
        assert_eq!(created.len(), "2025-11-25T10:30:00Z".len());
        assert_eq!(
            task,
            json!({
                "taskId": id, "status": "working", "createdAt": created, "lastUpdatedAt": created,
                "ttl": 60_000, "pollInterval": 1000
            })
        );
        assert_eq!(peer.get(&task["taskId"]).await, task);
        assert_ne!(peer.create("slow").await["taskId"], id);
    });
}

#[test]
fn the_result_is_waited_for_and_names_its_task() {
    run(async {
        let mut peer = Peer::new(&server()).await;
        let task = peer.begin("slow").await;
        let begun = Instant::now();
        let waiting = peer.send("tasks/result", &json!({ "taskId": task })).await;
        // A request for the status is answered meanwhile.
        assert_eq!(peer.get(&task).await["status"], "working");
        let answer = peer.answer(waiting).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
        assert_eq!(text(&answer["result"]), "late");
        assert_eq!(answer["result"]["_meta"], json!({ RELATED: { "taskId": task } }));
        assert_eq!(peer.get(&task).await["status"], "completed");
        // A second request for the result is answered at once.
        assert_eq!(peer.result(&task).await["result"], answer["result"]);
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
    });
}

#[test]
fn a_task_fails_when_its_tool_says_so_and_has_the_result_all_the_same() {
    run(async {
        let mut peer = Peer::new(&server()).await;
        let task = peer.begin("fails").await;
        let answer = peer.result(&task).await;
        assert_eq!((text(&answer["result"]), &answer["result"]["isError"]), ("no luck", &json!(true)));
        assert_eq!(answer["result"]["_meta"], json!({ RELATED: { "taskId": task } }));
        let shown = peer.get(&task).await;
        assert_eq!((&shown["status"], &shown["statusMessage"]), (&json!("failed"), &json!("no luck")));
        let invalid = json!({ "name": "quick", "arguments": { "x": 1 }, "task": null });
        assert_eq!(text(&peer.ask("tools/call", invalid).await["result"]), "done");
    });
}

#[test]
fn a_task_fails_with_the_error_of_its_call() {
    run(async {
        let mut peer = Peer::new(&server()).await;
        let task = peer.begin("breaks").await;
        let error = json!({ "code": -32603, "message": "broken" });
        assert_eq!(peer.result(&task).await["error"], error);
        let shown = peer.get(&task).await;
        assert_eq!((&shown["status"], &shown["statusMessage"]), (&json!("failed"), &json!("broken")));
        assert_eq!((&shown["result"], &shown["error"]), (&Value::Null, &Value::Null));
        let panics = peer.begin("panics").await;
        let answer = peer.result(&panics).await;
        assert_eq!(answer["error"]["code"], -32603);
        assert!(!answer.to_string().contains("secret"));
    });
}

#[test]
fn a_tool_is_called_the_way_it_says() {
    run(async {
        let mut peer = Peer::new(&server()).await;
        let call = |name: &str| json!({ "name": name, "task": { "ttl": 1 } });
        assert_eq!(peer.code("tools/call", call("plain")).await, -32601);
        assert_eq!(peer.code("tools/call", call("absent")).await, -32602);
        assert_eq!(peer.code("tools/call", json!({ "name": "required" })).await, -32601);
        assert_eq!(text(&peer.ask("tools/call", json!({ "name": "quick" })).await["result"]), "done");
        for task in [json!(1), json!([]), json!({ "ttl": "1" }), json!({ "ttl": -1 }), json!({ "ttl": 1.5 })]
        {
            let code = peer.code("tools/call", json!({ "name": "quick", "task": task })).await;
            assert_eq!(code, -32602, "{task}");
        }
        assert!(peer.list().await.is_empty());
    });
}

#[test]
fn who_declares_no_tasks_ignores_what_is_said_of_them() {
    run(async {
        let plain = Server::builder("s", "1").tool(tool("plain"), |_: NoArguments, _| async { "plain" });
        let mut peer = Peer::new(&plain.build().unwrap()).await;
        let answer = peer.ask("tools/call", json!({ "name": "plain", "task": { "ttl": 1 } })).await;
        assert_eq!(text(&answer["result"]), "plain");
        for method in ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"] {
            assert_eq!(peer.code(method, json!({ "taskId": "x" })).await, -32601, "{method}");
        }
        // The previous revision has no tasks either.
        let (mut older, _) = Peer::opened(&server(), &crate::initialize("2025-06-18")).await;
        for name in ["plain", "quick", "required"] {
            let answer = older.ask("tools/call", json!({ "name": name, "task": {} })).await;
            assert!(["plain", "done"].contains(&text(&answer["result"])), "{answer}");
        }
        for method in ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"] {
            assert_eq!(older.code(method, json!({ "taskId": "x" })).await, -32601, "{method}");
        }
    });
}

#[test]
fn what_names_no_task_is_refused() {
    run(async {
        let mut peer = Peer::new(&server()).await;
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            for params in [json!({ "taskId": "unknown" }), json!({ "taskId": 1 }), json!({})] {
                assert_eq!(peer.code(method, params.clone()).await, -32602, "{method} {params}");
            }
        }
        for cursor in [json!("unknown"), json!("tasks-1"), json!("tools-0"), json!(1)] {
            assert_eq!(peer.code("tasks/list", json!({ "cursor": cursor })).await, -32602, "{cursor}");
        }
        // This method belongs to the extension only.
        let params = json!({ "taskId": "x", "inputResponses": {} });
        assert_eq!(peer.code("tasks/update", params).await, -32601);
    });
}

#[test]
fn a_task_is_cancelled_once_and_stays_so() {
    run(async {
        struct Dropped(mpsc::UnboundedSender<()>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.send(()).unwrap();
            }
        }
        let (dropped, mut drops) = mpsc::unbounded_channel();
        let server = builder()
            .tool(tool("held").as_task(), move |_: NoArguments, _| {
                let held = Dropped(dropped.clone());
                async move {
                    let _held = held;
                    std::future::pending::<()>().await;
                }
            })
            .build()
            .unwrap();
        let mut peer = Peer::new(&server).await;
        let task = peer.begin("held").await;
        let waiting = peer.send("tasks/result", &json!({ "taskId": task })).await;
        let cancelled = peer.send("tasks/cancel", &json!({ "taskId": task })).await;
        let mut answers = [peer.wire.next().await, peer.wire.next().await, peer.wire.next().await];
        answers.sort_by_key(|answer| answer["id"].as_i64());
        let [told, waited, shown] = answers;
        assert_eq!((&waited["id"], &shown["id"]), (&json!(waiting), &json!(cancelled)));
        assert_eq!((&shown["result"]["taskId"], &shown["result"]["status"]), (&task, &json!("cancelled")));
        assert_eq!(waited["error"]["code"], -32603);
        assert_eq!(told["params"]["status"], "cancelled");
        drops.recv().await.unwrap();
        assert_eq!(peer.get(&task).await["status"], "cancelled");
        assert_eq!(peer.code("tasks/cancel", json!({ "taskId": task })).await, -32602);
        for tool in ["quick", "fails"] {
            let task = peer.begin(tool).await;
            peer.result(&task).await;
            let refused = peer.ask("tasks/cancel", json!({ "taskId": task })).await;
            assert_eq!(refused["error"]["code"], -32602);
            let status = peer.get(&task).await["status"].clone();
            assert!(refused["error"]["message"].as_str().unwrap().contains(status.as_str().unwrap()));
        }
    });
}

#[test]
fn what_a_task_asks_goes_out_with_the_request_for_its_result() {
    run(async {
        let mut peer = Peer::new(&server()).await;
        let task = peer.begin("asks").await;
        let told = peer.told("notifications/tasks/status").await;
        assert_eq!((&told["params"]["taskId"], &told["params"]["status"]), (&task, &json!("input_required")));
        assert_eq!(told["params"]["_meta"], Value::Null);
        assert_eq!(peer.get(&task).await["status"], "input_required");
        // The server sends no request to the client until a client waits for the result.
        peer.wire.is_silent().await;
        let waiting = peer.send("tasks/result", &json!({ "taskId": task })).await;
        let question = peer.told("elicitation/create").await;
        assert_eq!(question["params"]["message"], "Go on?");
        assert_eq!(question["params"]["_meta"], json!({ RELATED: { "taskId": task } }));
        assert_eq!(peer.get(&task).await["status"], "input_required");
        peer.reply(&question, json!({ "action": "decline" })).await;
        let answer = peer.answer(waiting).await;
        assert_eq!(text(&answer["result"]), "decline");
        let mut told = peer.told("notifications/tasks/status").await;
        if told["params"]["status"] == "working" {
            // The answer wakes both the work and the sender of status notifications; either may run first.
            told = peer.told("notifications/tasks/status").await;
        }
        assert_eq!(told["params"]["status"], "completed");
    });
}

#[test]
fn a_task_asks_the_model_and_for_roots_as_well() {
    run(async {
        let mut peer = Peer::new(&server()).await;
        let task = peer.begin("asks-all").await;
        let waiting = peer.send("tasks/result", &json!({ "taskId": task })).await;
        let roots = peer.told("roots/list").await;
        assert_eq!(roots["params"], json!({ "_meta": { RELATED: { "taskId": task } } }));
        peer.reply(&roots, json!({ "roots": [] })).await;
        let sampling = peer.told("sampling/createMessage").await;
        assert_eq!(sampling["params"]["_meta"][RELATED]["taskId"], task);
        let message = json!({ "role": "assistant", "content": { "type": "text", "text": "" }, "model": "m" });
        peer.reply(&sampling, message).await;
        assert_eq!(text(&peer.answer(waiting).await["result"]), "0 m");
    });
}

#[test]
fn an_answer_that_is_an_error_reaches_the_tool() {
    run(async {
        let mut peer = Peer::new(&server()).await;
        let task = peer.begin("asks").await;
        let waiting = peer.send("tasks/result", &json!({ "taskId": task })).await;
        let question = peer.told("elicitation/create").await;
        let refusal = json!({
            "jsonrpc": "2.0", "id": question["id"], "error": { "code": -1, "message": "nobody is here" }
        });
        peer.wire.send(&refusal.to_string()).await;
        let answer = peer.answer(waiting).await;
        assert_eq!(answer["result"]["isError"], true);
        assert!(text(&answer["result"]).contains("nobody is here"));
        // A task does not send a request whose capability its client has not declared.
        let (mut other, _) = Peer::of(&server(), json!({})).await;
        let task = other.begin("asks").await;
        let answer = other.result(&task).await;
        assert!(text(&answer["result"]).contains("elicitation"), "{answer}");
    });
}

#[test]
fn the_request_that_asked_last_for_the_result_is_asked() {
    run(async {
        let mut peer = Peer::new(&server()).await;
        let task = peer.begin("asks").await;
        let first = peer.send("tasks/result", &json!({ "taskId": task })).await;
        let left = peer.told("elicitation/create").await;
        // A client may abandon the first request silently, and ask again.
        let second = peer.send("tasks/result", &json!({ "taskId": task })).await;
        let asked = peer.asked_anew(&left).await;
        // It may also cancel the second request: then the server asks again on the first.
        let taken_back = json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": second }
        });
        peer.wire.send(&taken_back.to_string()).await;
        let again = peer.asked_anew(&asked).await;
        peer.reply(&again, json!({ "action": "accept", "content": {} })).await;
        assert_eq!(text(&peer.answer(first).await["result"]), "accept");
    });
}

#[test]
fn several_questions_are_asked_at_once() {
    run(async {
        let mut peer = Peer::new(&server()).await;
        let task = peer.begin("asks-twice").await;
        let waiting = peer.send("tasks/result", &json!({ "taskId": task })).await;
        let (one, other) = (peer.told("elicitation/create").await, peer.told("elicitation/create").await);
        let (first, second) = if one["params"]["message"] == "First?" { (one, other) } else { (other, one) };
        peer.reply(&second, json!({ "action": "cancel" })).await;
        assert_eq!(peer.get(&task).await["status"], "input_required");
        peer.reply(&first, json!({ "action": "decline" })).await;
        assert_eq!(text(&peer.answer(waiting).await["result"]), "decline cancel");
    });
}

#[test]
fn a_tool_that_begins_its_task_itself_is_one_from_its_beginning() {
    run(async {
        let mut peer = Peer::new(&server()).await;
        let task = peer.begin("asks-by-hand").await;
        let waiting = peer.send("tasks/result", &json!({ "taskId": task })).await;
        for message in ["Begin?", "Go on?"] {
            let question = peer.told("elicitation/create").await;
            assert_eq!(question["params"]["message"], message);
            assert_eq!(question["params"]["_meta"][RELATED]["taskId"], task);
            peer.reply(&question, json!({ "action": "accept", "content": {} })).await;
        }
        assert_eq!(text(&peer.answer(waiting).await["result"]), "accept");
        assert_eq!(peer.list().await.len(), 1);
    });
}

#[test]
fn progress_and_log_messages_name_the_task() {
    run(async {
        let mut peer = Peer::new(&server()).await;
        let call = json!({ "name": "tells", "task": {}, "_meta": { "progressToken": "p" } });
        let task = peer.ask("tools/call", call).await["result"]["task"]["taskId"].clone();
        assert_eq!(text(&peer.result(&task).await["result"]), "told");
        let meta = json!({ RELATED: { "taskId": task } });
        let progress = |value: Value| json!({ "method": "notifications/progress", "params": value });
        let mut told: Vec<Value> = peer.told.drain(..).collect();
        for message in &mut told {
            message.as_object_mut().unwrap().remove("jsonrpc");
        }
        let log = json!({ "method": "notifications/message", "params": {
            "level": "info", "data": "said", "_meta": meta
        } });
        let first = json!({
            "progressToken": "p", "progress": 1, "total": 3, "message": "one", "_meta": meta
        });
        let last = json!({ "progressToken": "p", "progress": 2, "total": 3, "_meta": meta });
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told.contains(&log) && told.contains(&progress(first)), "{told:?}");
        assert_eq!(told[2], progress(last));
        assert_eq!(peer.told("notifications/tasks/status").await["params"]["status"], "completed");
        // A client that has not asked for status notifications receives none.
        let silent = peer.begin("tells").await;
        peer.result(&silent).await;
        assert!(peer.told.iter().all(|message| message["method"] != "notifications/progress"));
    });
}

#[test]
fn tasks_are_listed_in_pages() {
    run(async {
        let mut peer = Peer::new(&builder().page_size(2).build().unwrap()).await;
        let mut begun = Vec::new();
        for _ in 0..5 {
            begun.push(peer.begin("never").await);
        }
        let (mut listed, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
        loop {
            let page = peer.ask("tasks/list", json!({ "cursor": cursor })).await["result"].clone();
            assert_eq!(page["_meta"], Value::Null);
            listed.extend(page["tasks"].as_array().unwrap().clone());
            cursor = page["nextCursor"].clone();
            pages += 1;
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(pages, 3);
        assert_eq!(listed.iter().map(|task| task["taskId"].clone()).collect::<Vec<_>>(), begun);
        for task in &listed {
            assert_eq!(peer.get(&task["taskId"]).await, *task);
        }
    });
}

#[test]
fn a_task_is_kept_for_as_long_as_was_granted() {
    run(async {
        let mut peer = Peer::new(&server()).await;
        for (asked, granted) in [
            (json!({ "ttl": 60_000 }), 60_000),
            (json!({}), 3_600_000),
            (json!({ "ttl": i64::MAX }), 3_600_000),
            (json!({ "ttl": 0 }), 2000),
        ] {
            let call = json!({ "name": "never", "task": asked });
            let task = peer.ask("tools/call", call).await["result"]["task"].clone();
            assert_eq!(task["ttl"], granted);
            let id = task["taskId"].clone();
            let waiting = peer.send("tasks/result", &json!({ "taskId": id })).await;
            pass(Duration::from_millis(granted - 1)).await;
            assert_eq!(peer.get(&id).await["status"], "working");
            let begun = Instant::now();
            let answer = peer.answer(waiting).await;
            assert_eq!(begun.elapsed(), Duration::from_millis(1));
            assert_eq!(answer["error"]["code"], -32603, "{answer}");
            assert_eq!(peer.code("tasks/get", json!({ "taskId": id })).await, -32602);
            assert!(peer.list().await.is_empty());
        }
        let quick = peer.begin("quick").await;
        peer.result(&quick).await;
        pass(Duration::from_secs(3_600)).await;
        assert_eq!(peer.code("tasks/result", json!({ "taskId": quick })).await, -32602);
    });
}

#[test]
fn the_tasks_of_one_client_are_limited_and_leave_room_for_others() {
    run(async {
        let server = server();
        let mut peer = Peer::new(&server).await;
        let quick = peer.begin("quick").await;
        peer.result(&quick).await;
        for _ in 0..128 {
            peer.begin("never").await;
        }
        // The completed task was removed to make room.
        assert_eq!(peer.code("tasks/get", json!({ "taskId": quick })).await, -32602);
        assert_eq!(peer.code("tools/call", json!({ "name": "never", "task": {} })).await, -32603);
        let mut other = Peer::new(&server).await;
        other.begin("never").await;
        assert_eq!(other.list().await.len(), 1);
    });
}

#[test]
fn a_handler_that_panics_before_its_future_leaves_no_task() {
    run(async {
        let broken = tool("broken").as_task();
        let server = builder()
            .tool(broken, |_: NoArguments, cx: Context| {
                assert!(cx.principal().is_some(), "on purpose");
                std::future::ready("done")
            })
            .build()
            .unwrap();
        let mut peer = Peer::new(&server).await;
        assert_eq!(peer.code("tools/call", json!({ "name": "broken", "task": {} })).await, -32603);
        assert_eq!(peer.list().await, [] as [Value; 0]);
    });
}

#[test]
fn the_tasks_of_one_client_hold_32_mib_of_parameters_and_results() {
    run(async {
        const LARGE: usize = 9 * 1024 * 1024;
        let server = builder()
            .tool(tool("large").as_task(), |_: NoArguments, _| async { "x".repeat(LARGE) })
            .build()
            .unwrap();
        let mut peer = Peer::new(&server).await;
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let task = peer.begin("large").await;
            assert_eq!(text(&peer.result(&task).await["result"]).len(), LARGE);
            tasks.push(task);
        }
        assert_eq!(peer.code("tasks/get", json!({ "taskId": tasks[0] })).await, -32602);
        assert_eq!(peer.get(&tasks[1]).await["status"], "completed");
        let call = json!({ "name": "never", "task": {}, "_meta": { "x": "x".repeat(LARGE) } });
        for _ in 0..3 {
            assert_eq!(peer.ask("tools/call", call.clone()).await["error"], Value::Null);
        }
        assert_eq!(peer.list().await.len(), 3, "what is over has made room");
        assert_eq!(peer.code("tools/call", call).await, -32603);
    });
}

#[test]
fn a_task_is_seen_in_its_own_session_alone_and_ends_with_it() {
    run(async {
        let (begun, mut running) = watch::channel(0);
        struct Counted(watch::Sender<i32>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.send_modify(|count| *count -= 1);
            }
        }
        let server = builder()
            .tool(tool("counted").as_task(), move |_: NoArguments, _| {
                begun.send_modify(|count| *count += 1);
                let counted = Counted(begun.clone());
                async move {
                    let _counted = counted;
                    std::future::pending::<()>().await;
                }
            })
            .build()
            .unwrap();
        let (mut mine, mut other) = (Peer::new(&server).await, Peer::new(&server).await);
        let task = mine.begin("counted").await;
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            assert_eq!(other.code(method, json!({ "taskId": task })).await, -32602, "{method}");
        }
        assert!(other.list().await.is_empty());
        // It is no task of the extension either.
        let mut modern = Wire::new(&server);
        let answer = modern
            .ask(&crate::request(
                1,
                "tasks/get",
                &json!({ "taskId": task, "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {
                        "extensions": { "io.modelcontextprotocol/tasks": {} }
                    }
                } }),
            ))
            .await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        assert_eq!(mine.get(&task).await["status"], "working");
        running.wait_for(|count| *count == 1).await.unwrap();
        mine.wire.finish().await;
        running.wait_for(|count| *count == 0).await.unwrap();
        assert!(other.told.is_empty(), "what became of it is told to nobody else");
    });
}

#[test]
fn a_task_that_has_made_room_for_another_leaves_nothing_behind() {
    run(async {
        let server = server();
        let mut peer = Peer::new(&server).await;
        let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let before = alive();
        for _ in 0..300 {
            let answer = peer.ask("tools/call", json!({ "name": "quick", "task": {} })).await;
            let task = answer["result"]["task"]["taskId"].clone();
            let ended = peer.ask("tasks/result", json!({ "taskId": task })).await;
            assert_eq!(text(&ended["result"]), "done");
        }
        // The tasks are freed now, an hour before the last of them would expire.
        pass(Duration::from_secs(1)).await;
        assert!(alive() <= before + 1, "{before} before, {} now", alive());
    });
}
