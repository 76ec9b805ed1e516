//! Faults of cancellation, progress, subscriptions, input, sampling, elicitation and tasks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::super::fault::{Of, Row, STDIO, Said, legacy, modern};

const CALL: &str = "tools/call";
const TOOLS: &str = "tools/list";
const ECHO: (&str, &str) = ("echo", r#"{"message":"x"}"#);

pub(super) fn rows() -> Vec<Row> {
    [cancelling(), progress(), subscriptions(), input(), rounds(), questions(), sampling(), tasks(), life()]
        .into_iter()
        .flatten()
        .collect()
}

fn cancelling() -> Vec<Row> {
    const CANCELLED: &str = "notifications/cancelled";
    fn deaf(row: Row, of: fn(&str) -> bool) -> Row {
        // Only once, because a stream of change notifications is also ended by a cancellation.
        let had = AtomicBool::new(false);
        row.silent(move |received| {
            received.before.contains(CANCELLED) && of(&received.before) && !had.swap(true, Ordering::Relaxed)
        })
    }
    fn completed(line: &str) -> bool {
        line.contains("\"requestId\"") && !line.contains("mcpjoin-never-sent")
    }
    fn malformed(line: &str) -> bool {
        !line.contains("\"requestId\"")
    }
    vec![
        deaf(legacy("completed-cancel-ignored"), completed),
        deaf(modern("completed-cancel-ignored").over(STDIO), completed),
        deaf(legacy("malformed-cancel-ignored"), malformed),
        deaf(modern("malformed-cancel-ignored").over(STDIO), malformed),
        legacy("server-cancels-its-own").ahead(
            TOOLS,
            &[r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#],
        ),
        answered(legacy("cancelled-not-answered")),
        answered(modern("cancelled-not-answered")),
    ]
}

/// A cancelled call gets an error as its response.
fn answered(row: Row) -> Row {
    const SLOW: &str = "\"test_simple_text\"";
    let row = row.over(STDIO).reads().silent(|received| {
        // After the call that was completed.
        received.method == CALL && received.line.contains(SLOW) && received.nth > 1
    });
    row.change(|it| {
        it.busy = true;
        it.told = Arc::new(|received| {
            if received.method != "notifications/cancelled" || !received.before.contains(SLOW) {
                return Vec::new();
            }
            let told: Value = serde_json::from_str(&received.line).unwrap();
            let error = json!({"code": -32603, "message": "cancelled"});
            let reply = json!({"jsonrpc": "2.0", "id": told["params"]["requestId"], "error": error});
            vec![reply.to_string().into()]
        });
    })
}

fn progress() -> Vec<Row> {
    fn told(token: &str, progress: &str) -> Said {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{progress}}}}}"#
        )
        .into()
    }
    /// Changes the response to a call to these messages.
    fn with(row: Row, messages: fn(Said) -> Vec<Said>) -> Row {
        row.call(ECHO.0, ECHO.1).say(move |received, reply| {
            let here = received.method == CALL && received.line.contains("\"echo\"");
            if here { messages(reply.into()) } else { vec![reply.into()] }
        })
    }
    const OURS: &str = "\"mcpjoin-0\"";
    const NOBODY: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"nobody","progress":1}}"#;
    vec![
        with(legacy("progress-complete"), |reply| vec![told(OURS, "\"half\""), reply]),
        with(modern("progress-complete"), |reply| vec![told(OURS, "\"half\""), reply]),
        legacy("progress-token-known").ahead(TOOLS, &[NOBODY]),
        modern("progress-token-known").over(STDIO).ahead(TOOLS, &[NOBODY]),
        with(legacy("progress-increases"), |reply| vec![told(OURS, "1"), told(OURS, "1"), reply]),
        with(modern("progress-increases"), |reply| vec![told(OURS, "2"), told(OURS, "1"), reply]),
        with(legacy("progress-stops"), |reply| vec![reply, told(OURS, "1")]),
        with(modern("progress-stops"), |reply| vec![reply, told(OURS, "1")]),
        legacy("progress-token-of-server").ahead(
            TOOLS,
            &[r#"{"jsonrpc":"2.0","id":"s","method":"ping","params":{"_meta":{"progressToken":1.5}}}"#],
        ),
    ]
}

/// Over lines; the faults over HTTP are in the table of its chapter.
fn subscriptions() -> Vec<Row> {
    vec![
        modern("listen-acknowledged").over(STDIO).answers(|line| {
            line.replace("notifications/subscriptions/acknowledged", "notifications/tools/list_changed")
        }),
        modern("listen-filtered").over(STDIO).answers(|line| {
            line.replace("\"toolsListChanged\":true", "\"toolsListChanged\":true,\"promptsListChanged\":true")
        }),
    ]
}

/// A call whose result requires this input.
fn asks(rule: &'static str, members: fn() -> Value) -> Row {
    modern(rule).call(ECHO.0, ECHO.1).edit(CALL, move |result| {
        let meta = result["_meta"].clone();
        *result = members();
        result["resultType"] = "input_required".into();
        result["_meta"] = meta;
    })
}

fn input() -> Vec<Row> {
    vec![
        asks("input-required-says-what", || json!({})),
        asks("input-requests-known", || json!({"inputRequests": {"a": {"method": "ping"}}})),
        asks("input-requests-declared", || json!({"inputRequests": {"a": {"method": "roots/list"}}})),
        modern("missing-client-capability-code").call(ECHO.0, ECHO.1).say(|received, reply| {
            let here = received.method == CALL && received.line.contains("\"echo\"");
            vec![if here { super::super::fault::error(&reply, -32021).into() } else { reply.into() }]
        }),
    ]
}

/// A call of a tool that requests input, from a client that declares all kinds of input.
fn asking(rule: &'static str, of: &'static str, change: fn(&str) -> String) -> Row {
    modern(rule).of(Of::Small).reads().say(move |received, reply| {
        let here = received.method == CALL && received.line.contains(of);
        vec![if here { change(&reply) } else { reply }.into()]
    })
}

/// Replaces a response by a result.
fn result(reply: &str, members: &Value) -> String {
    let id = &serde_json::from_str::<Value>(reply).unwrap()["id"];
    let mut result = members.clone();
    result["_meta"] = json!({"io.modelcontextprotocol/serverInfo": {"name": "small", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn rounds() -> Vec<Row> {
    const DECLARED: &str = r#""elicitation":{"form":{}}"#;
    fn refused(reply: &str) -> String {
        super::super::fault::error(&result(reply, &json!({})), -32602)
    }
    fn requests(reply: &str, method: &str, params: &Value) -> String {
        let requests = json!({"a": {"method": method, "params": params}});
        result(reply, &json!({"resultType": "input_required", "inputRequests": requests}))
    }
    fn sampled(reply: &str, name: &str, value: Value) -> String {
        let message = json!({"role": "user", "content": {"type": "text", "text": "hello"}});
        let mut params = json!({"maxTokens": 1, "messages": [message]});
        params[name] = value;
        requests(reply, "sampling/createMessage", &params)
    }
    // Only the first request that follows a decline.
    let had = AtomicBool::new(false);
    vec![
        asking("input-asked-again", r#""inputResponses":{}"#, refused),
        asking("unknown-input-ignored", "mcpjoin-unasked", refused),
        asking("bad-input-refused", r#""inputResponses":"mcpjoin""#, |reply| {
            result(reply, &json!({"resultType": "complete", "content": []}))
        }),
        modern("elicitation-decline-handled").of(Of::Small).reads().silent(move |received| {
            received.before.contains("\"decline\"") && !had.swap(true, Ordering::Relaxed)
        }),
        asking("elicitation-mode-declared", DECLARED, |reply| {
            let params = json!({"mode": "url", "message": "Go", "url": "https://example.com/"});
            requests(reply, "elicitation/create", &params)
        }),
        asking("sampling-tools-declared", DECLARED, |reply| {
            sampled(reply, "tools", json!([{"name": "a", "inputSchema": {"type": "object"}}]))
        }),
        asking("sampling-context-declared", DECLARED, |reply| {
            sampled(reply, "includeContext", "thisServer".into())
        }),
    ]
}

/// The additional rule that fails when a client without capabilities receives a request.
const ASKED: &[(&str, &str)] =
    &[("client-capability-respected", "a look declares nothing: whatever is asked for, is not declared")];
const ASKED_IN_RESULT: &[(&str, &str)] =
    &[("input-requests-declared", "a look declares nothing: whatever is asked for, is not declared")];

fn questions() -> Vec<Row> {
    fn elicited(rule: &'static str, message: &'static [&'static str], params: fn() -> Value) -> [Row; 2] {
        [
            legacy(rule).ahead(TOOLS, message).also(ASKED),
            Row { rule, also: ASKED_IN_RESULT, ..asks(rule, params) },
        ]
    }
    let rows = [
        elicited(
            "elicitation-complete",
            &[r#"{"jsonrpc":"2.0","id":"s","method":"elicitation/create","params":{"message":"Who?"}}"#],
            || json!({"inputRequests": {"a": {"method": "elicitation/create", "params": {"message": "Who?"}}}}),
        ),
        elicited(
            "elicitation-url-secure",
            &[
                r#"{"jsonrpc":"2.0","id":"s","method":"elicitation/create","params":{"mode":"url","message":"Go","elicitationId":"e","url":"http://example.com/"}}"#,
            ],
            || {
                let params = json!({"mode": "url", "message": "Go", "url": "http://example.com/"});
                json!({"inputRequests": {"a": {"method": "elicitation/create", "params": params}}})
            },
        ),
        elicited(
            "elicitation-form-without-links",
            &[
                r#"{"jsonrpc":"2.0","id":"s","method":"elicitation/create","params":{"message":"See https://example.com","requestedSchema":{"type":"object","properties":{}}}}"#,
            ],
            || {
                let schema = json!({"type": "object", "properties": {}});
                let params = json!({"message": "See https://example.com", "requestedSchema": schema});
                json!({"inputRequests": {"a": {"method": "elicitation/create", "params": params}}})
            },
        ),
    ];
    let others = [
        legacy("elicitation-error-complete").call(ECHO.0, ECHO.1).say(|received, reply| {
            let here = received.method == CALL && received.line.contains("\"echo\"");
            vec![if here { super::super::fault::error(&reply, -32042).into() } else { reply.into() }]
        }),
        legacy("elicitation-completion-known").ahead(
            TOOLS,
            &[r#"{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e"}}"#],
        ),
    ];
    rows.into_iter().flatten().chain(others).collect()
}

fn sampling() -> Vec<Row> {
    let rows = [
        legacy("sampling-message-complete").ahead(
            TOOLS,
            &[r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[{"role":"user"}]}}"#],
        ),
        legacy("sampling-tool-results-balanced").ahead(
            TOOLS,
            &[
                r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[{"role":"assistant","content":{"type":"tool_use","id":"u","name":"a","input":{}}}]}}"#,
            ],
        ),
        legacy("sampling-tool-result-conforms").ahead(
            TOOLS,
            &[
                r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"maxTokens":1,"tools":[{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["n"]}}],"messages":[{"role":"assistant","content":{"type":"tool_use","id":"u","name":"a","input":{}}},{"role":"user","content":{"type":"tool_result","toolUseId":"u","content":[],"structuredContent":{"m":1}}}]}}"#,
            ],
        ),
    ];
    rows.into_iter().map(|row| row.also(ASKED)).collect()
}

/// Calls read-only tools, also as a task.
fn reading(rule: &'static str) -> Row {
    legacy(rule).of(Of::Small).reads()
}

fn of_task(rule: &'static str, method: &'static str, change: fn(&mut Value)) -> Row {
    reading(rule).edit(method, change)
}

fn tasks() -> Vec<Row> {
    vec![
        of_task("task-created", CALL, |result| {
            if result["task"].is_object() {
                *result = json!({"content": []});
            }
        }),
        of_task("task-complete", CALL, |result| {
            if result["task"].is_object() {
                result["task"]["ttl"] = "long".into();
            }
        }),
        of_task("task-begins-working", CALL, |result| {
            if result["task"].is_object() {
                result["task"]["status"] = "completed".into();
            }
        }),
        // A slow result arrives on a stream.
        of_task("related-task-named", "tasks/result", |result| {
            result.as_object_mut().unwrap().remove("_meta");
        })
        .on_streams(|frame| frame.replace("modelcontextprotocol/related-task", "modelcontextprotocol/task")),
        of_task("related-task-not-repeated", "tasks/get", |result| {
            result["_meta"] = json!({"io.modelcontextprotocol/related-task": {"taskId": "a"}});
        }),
        reading("terminal-task-not-cancelled").refuse("tasks/cancel", -32603),
        // The tool declares that it requires a task, but runs without one.
        legacy("task-required-refused").reads().edit(TOOLS, |result| {
            result["tools"][2]["execution"] = json!({"taskSupport": "required"});
        }),
        reading("task-forbidden-refused").say(|received, reply| {
            let here = received.method == CALL && received.line.contains("\"task\":{");
            vec![if here { reply.replace("-32601", "-32603") } else { reply }.into()]
        }),
        legacy("unknown-task-refused").refuse("tasks/get", -32603),
        legacy("bad-task-cursor-refused").refuse("tasks/list", -32603),
        legacy("task-capability-declared").of(Of::Plain).call("one", "{}").edit(CALL, |result| {
            result["task"] = json!({
                "taskId": "a-task-of-its-own",
                "status": "working",
                "createdAt": "2026-01-01T00:00:00Z",
                "lastUpdatedAt": "2026-01-01T00:00:00Z",
                "ttl": null
            });
        }),
    ]
}

/// Faults of the states of tasks.
fn life() -> Vec<Row> {
    const GET: &str = "tasks/get";
    /// Replaces the id of each new task.
    fn named(rule: &'static str, name: impl Fn(usize, &str) -> String + Send + Sync + 'static) -> Row {
        let count = AtomicUsize::new(0);
        reading(rule).edit(CALL, move |result| {
            if let Some(id) = result["task"]["taskId"].as_str() {
                result["task"]["taskId"] = name(count.fetch_add(1, Ordering::Relaxed), id).into();
            }
        })
    }
    const TOLD: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mcpjoin-task","progress":1}}"#;
    let first = Mutex::new(None);
    let of_end = |frame: &String| frame.contains("modelcontextprotocol/related-task");
    vec![
        named("task-id-unique", move |_, id| {
            first.lock().unwrap().get_or_insert_with(|| id.to_owned()).clone()
        }),
        named("task-id-unguessable", |count, _| format!("task-number-{count:03}")),
        reading("task-transitions").say(|received, reply| {
            // The earlier requests are one for an unknown task, one for a task in progress, and one for a completed task.
            let here = received.method == GET && received.nth == 3;
            vec![if here { reply.replace("\"completed\"", "\"working\"") } else { reply }.into()]
        }),
        of_task("task-result-as-of-call", "tasks/result", |result| {
            result.as_object_mut().unwrap().remove("content");
        })
        .on_streams(move |frame| match of_end(&frame) {
            true => frame.replace("\"content\":", "\"contents\":"),
            false => frame,
        }),
        of_task("task-listed", "tasks/list", |result| result["tasks"] = json!([])),
        reading("task-progress-stops")
            .say(|received, reply| {
                let here = received.method == "tasks/result" && reply.contains("\"content\"");
                let told = here.then(|| TOLD.into());
                [reply.into()].into_iter().chain(told).collect()
            })
            .on_streams(move |frame| match of_end(&frame) {
                true => format!("{frame}data: {TOLD}\n\n"),
                false => frame,
            }),
        of_task("cancelled-task-status", "tasks/cancel", |result| result["status"] = "working".into()),
        of_task("failed-task-says-why", GET, |result| {
            if result["status"] == "completed" {
                result["status"] = "failed".into();
            }
        }),
        legacy("undeclared-task-ignored").of(Of::Plain).reads().say(|received, reply| {
            let here = received.method == CALL && received.line.contains("\"task\":{");
            vec![if here { super::super::fault::error(&reply, -32602) } else { reply }.into()]
        }),
    ]
}
