//! Tests of tools that run as tasks, as the extension of 2026-07-28 defines them.

use mcpjoin::proto::ErrorObject;
use mcpjoin::proto::types::{ElicitFormParams, ElicitationSchema, Members};
use mcpjoin::server::{Context, HandlerError, NoArguments, Server, ServerBuilder, StateKey, tool};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{Wire, run, text};

fn server() -> Server {
    Server::builder("s", "1")
        .tool(tool("work").as_task(), |_: NoArguments, cx: Context| async move {
            cx.progress(1.0, None, None);
            if cx.list_roots().await.is_ok() {
                return Err(HandlerError::new("this client has not declared roots"));
            }
            let question = ElicitFormParams::new("Go on?", ElicitationSchema::new(Members::new()));
            let answer = cx.elicit(question).await?;
            Ok::<_, HandlerError>(answer.action.as_str().to_owned())
        })
        .tool(tool("never").as_task(), |_: NoArguments, _| std::future::pending::<()>())
        .tool(tool("panics").as_task(), |_: NoArguments, _| async { panic!("secret") as String })
        .tool(tool("fails").as_task(), |_: NoArguments, _| async {
            Err::<String, _>(HandlerError::new("no luck"))
        })
        .tool(tool("breaks").as_task(), |_: NoArguments, _| async {
            Err::<String, _>(HandlerError::protocol(ErrorObject::internal("broken")))
        })
        .tool(tool("required").as_task().requires_tasks(), |_: NoArguments, _| async { "done" })
        .tool(tool("asks-first").requires_tasks(), |_: NoArguments, cx: Context| async move {
            let question = ElicitFormParams::new("Begin?", ElicitationSchema::new(Members::new()));
            let begin = cx.elicit(question).await?.action;
            cx.start_task(move |cx| async move {
                let question = ElicitFormParams::new("Go on?", ElicitationSchema::new(Members::new()));
                let go_on = cx.elicit(question).await?.action;
                Ok::<_, HandlerError>(format!("{} {}", begin.as_str(), go_on.as_str()))
            })
            .await
        })
        .build()
        .unwrap()
}

struct Modern(Wire, i64, bool);

impl Modern {
    fn new(server: &Server) -> Self {
        Self(Wire::new(server), 0, true)
    }

    async fn send(&mut self, method: &str, mut params: Value) {
        self.1 += 1;
        let extensions = if self.2 { json!({ "io.modelcontextprotocol/tasks": {} }) } else { json!({}) };
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {
                "elicitation": { "form": {} }, "extensions": extensions
            },
            "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "0" }
        });
        self.0.send(&crate::request(self.1, method, &params).to_string()).await;
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(method, params).await;
        self.0.next().await
    }

    async fn begin(&mut self, tool: &str) -> Value {
        let answer = self.ask("tools/call", json!({ "name": tool })).await;
        assert_eq!(answer["result"]["resultType"], "task", "{answer}");
        assert_eq!(answer["result"]["status"], "working");
        answer["result"]["taskId"].clone()
    }

    async fn get(&mut self, task: &Value) -> Value {
        self.ask("tasks/get", json!({ "taskId": task })).await["result"].clone()
    }
}

#[test]
fn a_task_is_asked_for_answered_and_fetched() {
    run(async {
        let mut client = Modern::new(&server());
        let task = client.begin("work").await;
        let listen = json!({ "notifications": { "taskIds": [task, "other"] } });
        let acknowledged = client.ask("subscriptions/listen", listen).await;
        assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([task, "other"]));
        let shown = client.get(&task).await;
        assert_eq!(shown["resultType"], "complete");
        assert_eq!(shown["status"], "input_required");
        assert_eq!(shown["inputRequests"]["ask-1"]["params"]["message"], "Go on?");
        assert_eq!((&shown["ttlMs"], &shown["pollIntervalMs"]), (&json!(3_600_000), &json!(1000)));
        let update = json!({ "taskId": task, "inputResponses": {
            "ask-1": { "action": "decline" }, "ask-9": { "is": "passed over" }
        } });
        client.send("tasks/update", update).await;
        let (mut acknowledged, mut last) = (false, Value::Null);
        while !acknowledged || last["status"] != "completed" {
            let message = client.0.next().await;
            match message["method"].as_str() {
                Some("notifications/tasks") => last = message["params"].clone(),
                None => acknowledged = message["result"]["resultType"] == "complete",
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(last["taskId"], task);
        let shown = client.get(&task).await;
        assert_eq!((&shown["status"], text(&shown["result"])), (&json!("completed"), "decline"));
    });
}

#[test]
fn a_task_ends_as_its_tool_does() {
    run(async {
        let mut client = Modern::new(&server());
        let fails = client.begin("fails").await;
        let shown = client.get(&fails).await;
        assert_eq!((&shown["status"], &shown["result"]["isError"]), (&json!("completed"), &json!(true)));
        let panics = client.begin("panics").await;
        let shown = client.get(&panics).await;
        assert_eq!((&shown["status"], &shown["error"]["code"]), (&json!("failed"), &json!(-32603)));
        assert!(!shown.to_string().contains("secret"));
        let breaks = client.begin("breaks").await;
        let shown = client.get(&breaks).await;
        assert_eq!((&shown["status"], &shown["statusMessage"]), (&json!("failed"), &json!("broken")));
        assert_eq!(shown["error"], json!({ "code": -32603, "message": "broken" }));
        assert_eq!(shown["result"], Value::Null);
        let never = client.begin("never").await;
        assert_eq!(client.get(&never).await["status"], "working");
        let cancelled = client.ask("tasks/cancel", json!({ "taskId": never })).await;
        assert_eq!(cancelled["result"]["resultType"], "complete");
        assert_eq!(client.get(&never).await["status"], "cancelled");
    });
}

#[test]
fn a_call_asks_before_its_task_begins_and_the_task_asks_for_itself() {
    run(async {
        let mut client = Modern::new(&server());
        let first = client.ask("tools/call", json!({ "name": "asks-first" })).await["result"].clone();
        assert_eq!(first["resultType"], "input_required");
        assert_eq!(first["taskId"], Value::Null);
        let begun = client
            .ask(
                "tools/call",
                json!({
                    "name": "asks-first", "requestState": first["requestState"],
                    "inputResponses": { "ask-1": { "action": "accept" } }
                }),
            )
            .await["result"]
            .clone();
        assert_eq!((&begun["resultType"], &begun["requestState"]), (&json!("task"), &Value::Null));
        let task = begun["taskId"].clone();
        let asked = client.get(&task).await;
        assert_eq!(asked["inputRequests"]["ask-1"]["params"]["message"], "Go on?");
        let update = json!({ "taskId": task, "inputResponses": { "ask-1": { "action": "decline" } } });
        client.ask("tasks/update", update).await;
        assert_eq!(text(&client.get(&task).await["result"]), "accept decline");
    });
}

#[test]
fn a_tool_that_requires_tasks_is_refused_to_clients_without_them() {
    run(async {
        let server = server();
        let mut client = Modern::new(&server);
        client.begin("required").await;
        client.2 = false;
        for tool in ["required", "asks-first"] {
            let answer = client.ask("tools/call", json!({ "name": tool })).await;
            assert_eq!(answer["error"]["code"], -32021, "{answer}");
            assert_eq!(
                answer["error"]["data"],
                json!({ "requiredCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } } })
            );
        }
        // The legacy era has no such extension, and before 2025-11-25 no tasks at all.
        let mut legacy = Wire::new(&server);
        legacy.ask(&crate::initialize("2025-06-18")).await;
        let answer = legacy.ask(&crate::request(1, "tools/call", &json!({ "name": "required" }))).await;
        assert_eq!(text(&answer["result"]), "done");
    });
}

#[test]
fn a_task_begun_by_hand_is_waited_for_where_there_are_none() {
    run(async {
        let counts = |builder: ServerBuilder| {
            builder
                .tool(tool("count"), |_: NoArguments, cx: Context| async move {
                    cx.start_task(|_| async { mcpjoin::server::Json(3) }).await
                })
                .build()
                .unwrap()
        };
        let plain = counts(Server::builder("s", "1"));
        let result =
            Modern::new(&plain).ask("tools/call", json!({ "name": "count" })).await["result"].clone();
        assert_eq!((&result["resultType"], &result["structuredContent"]), (&json!("complete"), &json!(3)));
        let with_tasks = counts(Server::builder("s", "1").tasks());
        let mut client = Modern::new(&with_tasks);
        let task = client.begin("count").await;
        assert_eq!(client.get(&task).await["result"]["structuredContent"], 3);
        client.2 = false;
        let result = client.ask("tools/call", json!({ "name": "count" })).await["result"].clone();
        assert_eq!(result["structuredContent"], 3);
    });
}

#[test]
fn a_task_is_kept_for_its_time_and_not_longer() {
    run(async {
        let mut client = Modern::new(&server());
        let never = client.begin("never").await;
        tokio::time::advance(std::time::Duration::from_secs(3_599)).await;
        assert_eq!(client.get(&never).await["status"], "working");
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        let answer = client.ask("tasks/get", json!({ "taskId": never })).await;
        assert_eq!(answer["error"]["code"], -32602);
    });
}

#[test]
fn a_task_is_cancelled_after_its_time_without_a_request() {
    run(async {
        struct Dropped(mpsc::UnboundedSender<()>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.send(()).unwrap();
            }
        }
        let (dropped, mut drops) = mpsc::unbounded_channel();
        let server = Server::builder("s", "1")
            .tool(tool("held").as_task(), move |_: NoArguments, _| {
                let held = Dropped(dropped.clone());
                async move {
                    let _held = held;
                    std::future::pending::<()>().await;
                }
            })
            .build()
            .unwrap();
        Modern::new(&server).begin("held").await;
        let begun = tokio::time::Instant::now();
        drops.recv().await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 3_600);
    });
}

#[test]
fn a_task_does_not_keep_its_server() {
    run(async {
        struct Dropped(mpsc::UnboundedSender<()>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.send(()).unwrap();
            }
        }
        let (dropped, mut drops) = mpsc::unbounded_channel();
        let of_server = Dropped(dropped.clone());
        let server = Server::builder("s", "1")
            .tool(tool("held").as_task(), move |_: NoArguments, cx: Context| {
                let _ = &of_server;
                let of_work = Dropped(dropped.clone());
                async move {
                    let _held = (of_work, cx);
                    std::future::pending::<()>().await;
                }
            })
            .build()
            .unwrap();
        let mut client = Modern::new(&server);
        client.begin("held").await;
        let ended = tokio::time::Instant::now();
        drop(server);
        client.0.finish().await;
        drops.recv().await.unwrap();
        drops.recv().await.unwrap();
        assert_eq!(ended.elapsed().as_secs(), 0);
    });
}

#[test]
fn a_task_outlives_its_connection_while_its_server_has_a_handle() {
    run(async {
        let server = server();
        let mut client = Modern::new(&server);
        let task = client.begin("never").await;
        client.0.finish().await;
        assert_eq!(Modern::new(&server).get(&task).await["status"], "working");
    });
}

#[test]
fn a_task_stays_with_its_replica_and_a_foreign_id_is_refused() {
    run(async {
        let replica = |key: u8| {
            Server::builder("s", "1")
                .state_key(StateKey::from_bytes([key; 32]))
                .tool(tool("never").as_task(), |_: NoArguments, _| std::future::pending::<()>())
                .build()
                .unwrap()
        };
        let task = Modern::new(&replica(1)).begin("never").await;
        let id = task.as_str().unwrap();
        let tampered = json!(format!("{}{}", &id[..id.len() - 1], if id.ends_with('0') { "1" } else { "0" }));
        for (key, task, why) in [
            (1, &task, "does not store it"),
            (2, &task, "did not issue the id"),
            (1, &tampered, "did not issue the id"),
        ] {
            let mut client = Modern::new(&replica(key));
            for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
                let answer = client.ask(method, json!({ "taskId": task, "inputResponses": {} })).await;
                assert_eq!(answer["error"]["code"], -32602, "{method}");
                let said = answer["error"]["message"].as_str().unwrap();
                assert!(said.starts_with("unknown task") && said.contains(why), "{said}");
            }
        }
    });
}

#[test]
fn no_more_tasks_are_kept_than_the_bound() {
    run(async {
        let mut client = Modern::new(&server());
        for _ in 0..1024 {
            client.begin("never").await;
        }
        let answer = client.ask("tools/call", json!({ "name": "never" })).await;
        assert_eq!(answer["error"]["code"], -32603);
    });
}

#[test]
fn clients_that_know_no_tasks_wait_for_the_result() {
    run(async {
        let server = server();
        let mut client = Modern::new(&server);
        client.2 = false;
        let answer = client.ask("tools/call", json!({ "name": "fails" })).await;
        assert_eq!(text(&answer["result"]), "no luck");
        for (method, params) in [
            ("tasks/get", json!({ "taskId": "x" })),
            ("tasks/cancel", json!({ "taskId": "x" })),
            ("subscriptions/listen", json!({ "notifications": { "taskIds": ["x"] } })),
        ] {
            let answer = client.ask(method, params).await;
            assert_eq!(answer["error"]["code"], -32021, "{method}");
        }
        let mut legacy = Wire::opened(&server).await;
        let answer = legacy.ask(&crate::request(1, "tools/call", &json!({ "name": "fails" }))).await;
        assert_eq!(text(&answer["result"]), "no luck");
    });
}
