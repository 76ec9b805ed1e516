//! Tests of tools that run as tasks: line by line, and with clients of both eras that do not support tasks.

use std::time::Duration;

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::{Era, Version};
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

use super::{
    ERAS, Wire, answering, builder, call, connect, filled_in, meta, refused, run, server, silent, text,
};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn able() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "extensions": { EXTENSION: {} } })
}

fn with_tasks() -> Wire {
    Wire::modern(&server(), able())
}

/// A client of the last revision without tasks.
fn before_tasks() -> ClientBuilder {
    builder(Era::Legacy).protocol_version(Version::V2025_06_18)
}

/// Starts a task and returns its id.
async fn begin(wire: &mut Wire, tool: &str, arguments: Value) -> Value {
    let begun = wire.call(tool, arguments).await;
    assert_eq!(begun["resultType"], "task", "{begun}");
    begun["taskId"].clone()
}

async fn get(wire: &mut Wire, task: &Value) -> Value {
    let shown = wire.result("tasks/get", json!({ "taskId": task })).await;
    assert_eq!((&shown["resultType"], &shown["taskId"]), (&json!("complete"), task));
    shown
}

/// Waits for the notification that a task has ended, and returns the task.
async fn ended(wire: &mut Wire, task: &Value) -> Value {
    wire.request("subscriptions/listen", json!({ "notifications": { "taskIds": [task] } })).await;
    assert_eq!(wire.next().await["method"], "notifications/subscriptions/acknowledged");
    loop {
        let told = wire.next().await;
        assert_eq!((&told["method"], &told["params"]["taskId"]), (&json!("notifications/tasks"), task));
        if told["params"]["status"] != "working" {
            return get(wire, task).await;
        }
    }
}

fn is_acknowledged(acknowledgement: &Value) {
    assert_eq!(acknowledgement["resultType"], "complete");
    for member in ["taskId", "status", "result", "error", "inputRequests"] {
        assert!(acknowledgement[member].is_null(), "{acknowledgement}");
    }
}

#[test]
fn tasks_lifecycle() {
    run(async {
        let mut wire = with_tasks();
        let greeted = wire.call("greet", json!({ "name": "World" })).await;
        assert_eq!(greeted["resultType"], "complete");
        assert_eq!(greeted["content"][0]["text"], "Hello, World!");

        let begun = wire.call("slow_compute", json!({ "seconds": 2, "label": "Sum" })).await;
        assert_eq!((&begun["resultType"], &begun["status"]), (&json!("task"), &json!("working")));
        for member in ["task", "result", "error", "inputRequests"] {
            assert!(begun[member].is_null(), "{begun}");
        }
        for moment in ["createdAt", "lastUpdatedAt"] {
            assert_eq!(begun[moment].as_str().unwrap().len(), "2026-07-28T00:00:00Z".len());
        }
        let task = begun["taskId"].clone();
        assert_eq!(get(&mut wire, &task).await["status"], "working");
        let done = ended(&mut wire, &task).await;
        assert_eq!(done["status"], "completed");
        assert_eq!(done["result"]["content"][0]["text"], "Sum is there, after 2 s");
        is_acknowledged(&wire.result("tasks/cancel", json!({ "taskId": task })).await);
        assert_eq!(get(&mut wire, &task).await["status"], "completed", "too late to be cancelled");

        let fails = begin(&mut wire, "failing_job", json!({})).await;
        assert_eq!(get(&mut wire, &fails).await["status"], "working");
        let failed = ended(&mut wire, &fails).await;
        assert_eq!((&failed["status"], &failed["result"]["isError"]), (&json!("completed"), &json!(true)));

        let breaks = begin(&mut wire, "protocol_error_job", json!({})).await;
        let broken = ended(&mut wire, &breaks).await;
        assert_eq!((&broken["status"], &broken["result"]), (&json!("failed"), &Value::Null));
        assert_eq!(broken["error"], json!({ "code": -32603, "message": "This job has broken down" }));
        assert_eq!(broken["statusMessage"], "This job has broken down");

        let long = begin(&mut wire, "slow_compute", json!({ "seconds": 60 })).await;
        is_acknowledged(&wire.result("tasks/cancel", json!({ "taskId": long })).await);
        assert_eq!(get(&mut wire, &long).await["status"], "cancelled");
        advance(Duration::from_secs(60)).await;
        assert_eq!(get(&mut wire, &long).await["status"], "cancelled");
    });
}

#[test]
fn tasks_capability_negotiation() {
    run(async {
        let mut wire = Wire::modern(&server(), json!({}));
        let discovered = wire.result("server/discover", json!({})).await;
        assert!(discovered["capabilities"]["extensions"][EXTENSION].is_object());
        assert!(discovered["capabilities"]["tasks"].is_null());
        for (method, params) in [
            ("tasks/get", json!({ "taskId": "x" })),
            ("tasks/update", json!({ "taskId": "x", "inputResponses": {} })),
            ("tasks/cancel", json!({ "taskId": "x" })),
        ] {
            assert_eq!(wire.code(method, params).await, -32021, "{method}");
        }
        let result = wire.call("slow_compute", json!({ "seconds": 0 })).await;
        assert_eq!((&result["resultType"], &result["taskId"]), (&json!("complete"), &Value::Null));
        // The capabilities of a client apply to a single request.
        wire.says(Some(meta(json!({ "extensions": { EXTENSION: {} } }))));
        begin(&mut wire, "slow_compute", json!({ "seconds": 1 })).await;
    });
}

#[test]
fn tasks_wire_fields() {
    run(async {
        let mut wire = with_tasks();
        let begun = wire.call("slow_compute", json!({ "seconds": 1 })).await;
        assert!(begun["ttlMs"].is_u64() && begun["pollIntervalMs"].is_u64(), "{begun}");
        assert!(begun["ttl"].is_null() && begun["pollInterval"].is_null());
        let time = Duration::from_millis(begun["ttlMs"].as_u64().unwrap());
        ended(&mut wire, &begun["taskId"]).await;
        // One second has passed so far. After this, one second of the lifetime remains.
        advance(time - Duration::from_secs(2)).await;
        let almost = get(&mut wire, &begun["taskId"]).await;
        assert_eq!(almost["status"], "completed");
        assert!(almost["result"]["_meta"]["io.modelcontextprotocol/related-task"].is_null());
    });
}

#[test]
fn tasks_request_state_removal() {
    run(async {
        let mut wire = with_tasks();
        let begun = wire.call("slow_compute", json!({ "seconds": 60 })).await;
        assert!(begun.get("requestState").is_none());
        assert!(get(&mut wire, &begun["taskId"]).await.get("requestState").is_none());
    });
}

#[test]
fn tasks_mrtr_input() {
    run(async {
        let mut wire = with_tasks();
        for (confirm, said) in [(true, "notes.txt would be gone now"), (false, "notes.txt stays")] {
            let task = begin(&mut wire, "confirm_delete", json!({ "filename": "notes.txt" })).await;
            let waits = get(&mut wire, &task).await;
            assert_eq!(waits["status"], "input_required");
            let questions = waits["inputRequests"].as_object().unwrap();
            let (name, question) = questions.iter().next().unwrap();
            assert_eq!(question["method"], "elicitation/create");
            assert_eq!(question["params"]["message"], "Delete notes.txt?");
            let answer = json!({ name: { "action": "accept", "content": { "confirm": confirm } } });
            let update = json!({ "taskId": task, "inputResponses": answer });
            is_acknowledged(&wire.result("tasks/update", update).await);
            let done = get(&mut wire, &task).await;
            assert_eq!(
                (&done["status"], &done["result"]["content"][0]["text"]),
                (&json!("completed"), &json!(said))
            );
        }

        let task = begin(&mut wire, "multi_input", json!({})).await;
        let mut answered = Vec::new();
        for open in [2, 1] {
            let waits = get(&mut wire, &task).await;
            assert_eq!(waits["status"], "input_required");
            let questions = waits["inputRequests"].as_object().unwrap();
            assert_eq!(questions.len(), open);
            let name = questions.keys().next().unwrap().clone();
            assert!(!answered.contains(&name));
            let content = json!({ "name": questions[&name]["params"]["message"] });
            let answer = json!({ &name: { "action": "accept", "content": content } });
            wire.result("tasks/update", json!({ "taskId": task, "inputResponses": answer })).await;
            answered.push(name);
        }
        let done = get(&mut wire, &task).await;
        assert_eq!(done["result"]["content"][0]["text"], "Who comes first?, then Who comes second?");
    });
}

#[test]
fn tasks_dispatch_and_envelope() {
    run(async {
        let mut wire = with_tasks();
        for method in ["tasks/result", "tasks/list"] {
            assert_eq!(wire.code(method, json!({ "taskId": "x" })).await, -32601, "{method}");
        }
        begin(&mut wire, "failing_job", json!({})).await;
        let hinted = json!({ "name": "greet", "arguments": { "name": "n" }, "task": { "ttl": 60_000 } });
        let greeted = wire.result("tools/call", hinted).await;
        assert_eq!((&greeted["resultType"], &greeted["taskId"]), (&json!("complete"), &Value::Null));
        let at_once = begin(&mut wire, "slow_compute", json!({ "seconds": 0 })).await;
        assert_eq!(get(&mut wire, &at_once).await["resultType"], "complete");
        let waits = begin(&mut wire, "confirm_delete", json!({ "filename": "f" })).await;
        let unknown = json!({ "taskId": waits, "inputResponses": { "unknown-key": { "ignored": true } } });
        is_acknowledged(&wire.result("tasks/update", unknown).await);
        assert_eq!(get(&mut wire, &waits).await["status"], "input_required");
        for method in ["tasks/get", "tasks/cancel"] {
            assert_eq!(wire.code(method, json!({ "taskId": "nobody-gave-this" })).await, -32602, "{method}");
        }
    });
}

#[test]
fn tasks_status_notifications() {
    run(async {
        let mut wire = with_tasks();
        let begun = Instant::now();
        let task = begin(&mut wire, "slow_compute", json!({ "seconds": 5 })).await;
        let done = ended(&mut wire, &task).await;
        assert_eq!((&done["status"], begun.elapsed()), (&json!("completed"), Duration::from_secs(5)));
    });
}

#[test]
fn tasks_required_task_error() {
    run(async {
        let mut wire = Wire::modern(&server(), json!({}));
        let answer = wire.ask("tools/call", json!({ "name": "failing_job", "arguments": {} })).await;
        assert_eq!(answer["error"]["code"], -32021);
        let required = json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } });
        assert_eq!(answer["error"]["data"], required);
        for tool in ["failing_job", "test_tool_with_task"] {
            assert_eq!(refused(&silent(Era::Modern).await, tool, json!({})).await.code, -32021);
            assert_eq!(refused(&silent(Era::Legacy).await, tool, json!({})).await.code, -32601);
        }
        // Before 2025-11-25 there are no tasks, and clients wait for the result.
        let result = call(&connect(&server(), before_tasks()).await, "failing_job", json!({})).await;
        assert_eq!((result.is_error, text(&result)), (Some(true), "This job fails, as it always does"));
    });
}

#[test]
fn tasks_mrtr_composition() {
    run(async {
        let mut wire = with_tasks();
        let first = wire.call("test_tool_with_task", json!({})).await;
        assert_eq!((&first["resultType"], &first["taskId"]), (&json!("input_required"), &Value::Null));
        assert_eq!(first["inputRequests"]["user_name"]["method"], "elicitation/create");
        let answer = json!({ "user_name": { "action": "accept", "content": { "name": "Alice" } } });
        let params = json!({ "name": "test_tool_with_task", "arguments": {}, "inputResponses": answer });
        let second = wire.result("tools/call", params).await;
        assert_eq!(second["resultType"], "task");
        assert!(second["requestState"].is_null() && second["inputRequests"].is_null());
        let done = ended(&mut wire, &second["taskId"]).await;
        assert_eq!(done["status"], "completed");
        assert_eq!(done["result"]["content"][0]["text"], "Hello, Alice!");
    });
}

#[test]
fn clients_that_know_no_tasks_wait_in_both_eras() {
    run(async {
        for era in ERAS {
            let (client, asked) = answering(era).await;
            let deleted = call(&client, "confirm_delete", json!({ "filename": "f" })).await;
            assert_eq!(text(&deleted), "f would be gone now");
            assert_eq!(text(&call(&client, "multi_input", json!({})).await), "Ada, then Ada");
            assert_eq!(asked.lock().unwrap().len(), 3, "each question once");
            assert_eq!(text(&call(&client, "greet", json!({ "name": "n" })).await), "Hello, n!");
            let broken = refused(&client, "protocol_error_job", json!({})).await;
            assert_eq!((broken.code, broken.message.as_str()), (-32603, "This job has broken down"));
        }
        let client = before_tasks().elicitation(|params| async move { Ok(filled_in(&params)) });
        let client = connect(&server(), client).await;
        assert_eq!(text(&call(&client, "test_tool_with_task", json!({})).await), "Hello, Ada!");
    });
}

#[test]
fn a_computation_that_is_cancelled_is_seen_to_stop() {
    run(async {
        for era in ERAS {
            let mut wire = match era {
                Era::Legacy => Wire::legacy(&server()).await,
                Era::Modern => Wire::able(),
            };
            let running = async |wire: &mut Wire| {
                wire.call("running_computations", json!({})).await["structuredContent"]["running"].clone()
            };
            assert_eq!(running(&mut wire).await, 0);
            let params =
                |seconds: u64| json!({ "name": "slow_compute", "arguments": { "seconds": seconds } });
            let call = wire.request("tools/call", params(600)).await;
            wire.request("tools/call", params(600)).await;
            assert_eq!(running(&mut wire).await, 2, "{era:?}");
            let params = json!({ "requestId": call });
            wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))
                .await;
            // Messages are processed in order.
            assert_eq!(running(&mut wire).await, 1, "{era:?}");
            // The other call runs to its end.
            assert_eq!(wire.next().await["id"], call + 1, "{era:?}");
            assert_eq!(running(&mut wire).await, 0, "{era:?}");
        }
    });
}

#[test]
fn tasks_of_the_core_are_asked_for_by_the_client() {
    run(async {
        let mut wire = Wire::legacy(&server()).await;
        let call =
            json!({ "name": "slow_compute", "arguments": { "seconds": 2 }, "task": { "ttl": 60_000 } });
        let task = wire.result("tools/call", call).await["task"].clone();
        assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &json!(60_000)));
        let result = wire.result("tasks/result", json!({ "taskId": task["taskId"] })).await;
        assert_eq!(result["content"][0]["text"], "The result is there, after 2 s");
        for (tool, status) in [("failing_job", "failed"), ("protocol_error_job", "failed")] {
            let call = json!({ "name": tool, "arguments": {}, "task": {} });
            let task = wire.result("tools/call", call).await["task"]["taskId"].clone();
            let answer = wire.ask("tasks/result", json!({ "taskId": task })).await;
            assert_eq!(answer["error"].is_null(), tool == "failing_job", "{answer}");
            let shown = wire.result("tasks/get", json!({ "taskId": task })).await;
            assert_eq!(shown["status"], status, "the other way round than in the extension");
        }
        assert_eq!(wire.result("tasks/list", json!({})).await["tasks"].as_array().unwrap().len(), 3);
    });
}
