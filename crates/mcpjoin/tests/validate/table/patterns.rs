//! Cancelling, progress, subscriptions, input, sampling, elicitation, tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::super::fault::{Of, Row, STDIO, Said, legacy, modern};

const CALL: &str = "tools/call";
const TOOLS: &str = "tools/list";
const ECHO: (&str, &str) = ("echo", r#"{"message":"x"}"#);

pub(super) fn rows() -> Vec<Row> {
    [cancelling(), progress(), subscriptions(), input(), questions(), sampling(), tasks()]
        .into_iter()
        .flatten()
        .collect()
}

fn cancelling() -> Vec<Row> {
    const CANCELLED: &str = "notifications/cancelled";
    fn deaf(row: Row, of: fn(&str) -> bool) -> Row {
        // Once: a stream of changes is also ended so.
        let had = AtomicBool::new(false);
        row.silent(move |heard| {
            heard.before.contains(CANCELLED) && of(&heard.before) && !had.swap(true, Ordering::Relaxed)
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

/// A call that was cancelled is answered with an error.
fn answered(row: Row) -> Row {
    const SLOW: &str = "\"test_simple_text\"";
    let row = row.over(STDIO).reads().silent(|heard| {
        // Once it was called to its end.
        heard.method == CALL && heard.line.contains(SLOW) && heard.nth > 1
    });
    row.change(|it| {
        it.busy = true;
        it.told = Arc::new(|heard| {
            if heard.method != "notifications/cancelled" || !heard.before.contains(SLOW) {
                return Vec::new();
            }
            let told: Value = serde_json::from_str(&heard.line).unwrap();
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
    /// With the answer to a call comes this.
    fn with(row: Row, messages: fn(Said) -> Vec<Said>) -> Row {
        row.call(ECHO.0, ECHO.1).say(move |heard, reply| {
            let here = heard.method == CALL && heard.line.contains("\"echo\"");
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

/// Over lines; over HTTP they are in the table of its chapter.
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

/// A call whose result asks for that.
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
        modern("missing-client-capability-code").call(ECHO.0, ECHO.1).say(|heard, reply| {
            let here = heard.method == CALL && heard.line.contains("\"echo\"");
            vec![if here { super::super::fault::error(&reply, -32021).into() } else { reply.into() }]
        }),
    ]
}

/// What is asked of a client that declares nothing.
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
        legacy("elicitation-error-complete").call(ECHO.0, ECHO.1).say(|heard, reply| {
            let here = heard.method == CALL && heard.line.contains("\"echo\"");
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
    ];
    rows.into_iter().map(|row| row.also(ASKED)).collect()
}

/// Calls what only reads, as a task, too: of that, there is something among all of the tools.
fn reading(rule: &'static str) -> Row {
    legacy(rule).reads().change(|it| it.whole = true)
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
        of_task("related-task-named", "tasks/result", |result| {
            result.as_object_mut().unwrap().remove("_meta");
        })
        .over(STDIO),
        // It comes on a stream.
        reading("related-task-named")
            .frame(|frame| frame.replace("modelcontextprotocol/related-task", "modelcontextprotocol/task")),
        of_task("related-task-not-repeated", "tasks/get", |result| {
            result["_meta"] = json!({"io.modelcontextprotocol/related-task": {"taskId": "a"}});
        }),
        reading("terminal-task-not-cancelled").refuse("tasks/cancel", -32603),
        // It says so, and does it all the same.
        legacy("task-required-refused").reads().edit(TOOLS, |result| {
            result["tools"][2]["execution"] = json!({"taskSupport": "required"});
        }),
        reading("task-forbidden-refused").say(|heard, reply| {
            let here = heard.method == CALL && heard.line.contains("\"task\":{");
            vec![if here { reply.replace("-32601", "-32603") } else { reply }.into()]
        }),
        legacy("unknown-task-refused").refuse("tasks/get", -32603),
        legacy("bad-task-cursor-refused").refuse("tasks/list", -32603),
        legacy("task-capability-declared").of(Of::Plain).call("one", "{}").edit(CALL, |result| {
            result["task"] = json!({
                "taskId": "t",
                "status": "working",
                "createdAt": "2026-01-01T00:00:00Z",
                "lastUpdatedAt": "2026-01-01T00:00:00Z",
                "ttl": null
            });
        }),
    ]
}
