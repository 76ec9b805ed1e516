//! Faults of the results of calls and prompts, and of annotations, icons and `_meta`.

use serde_json::{Value, json};

use super::super::fault::{Of, Row, edited, error, legacy, modern};

const CALL: &str = "tools/call";
const TOOLS: &str = "tools/list";
const ECHO: (&str, &str) = ("echo", r#"{"message":"x"}"#);

pub(super) fn rows() -> Vec<Row> {
    [content(), beside(), calls()].into_iter().flatten().collect()
}

/// A fault for each era that changes the result of a call.
fn called(rule: &'static str, change: fn(&mut Value)) -> Vec<Row> {
    let row = |row: Row| row.call(ECHO.0, ECHO.1).edit(CALL, change);
    vec![row(legacy(rule)), row(modern(rule))]
}

fn content() -> Vec<Row> {
    let rows = [
        called("content-kind", |result| result["content"] = json!([{"type": "video"}])),
        called("content-members", |result| result["content"] = json!([{"type": "text"}])),
        called("content-in-base64", |result| {
            result["content"] = json!([{"type": "image", "data": "%%%", "mimeType": "image/png"}]);
        }),
        called("content-mime-type", |result| {
            result["content"] = json!([{"type": "audio", "data": "AAAA", "mimeType": "wav"}]);
        }),
        called("embedded-resource-complete", |result| {
            result["content"] = json!([{"type": "resource", "resource": {"uri": "test://a"}}]);
        }),
        called("resource-link-valid", |result| {
            result["content"] = json!([{"type": "resource_link", "uri": "no uri", "name": "a"}]);
        }),
        vec![legacy("embedded-resource-declared").of(Of::Plain).call("one", "{}").edit(CALL, |result| {
            result["content"] = json!([{"type": "resource", "resource": {"uri": "test://a", "text": "a"}}]);
        })],
    ];
    rows.into_iter().flatten().collect()
}

fn beside() -> Vec<Row> {
    fn listed(rule: &'static str, change: fn(&mut Value)) -> Vec<Row> {
        let row = |row: Row| row.edit(TOOLS, change);
        vec![row(legacy(rule)), row(modern(rule))]
    }
    fn annotated(result: &mut Value) {
        result["resources"][0]["annotations"] = json!({"priority": 7});
    }
    let rows = [
        listed("icons-valid", |result| result["tools"][0]["icons"] = json!({})),
        listed("icon-source", |result| result["tools"][0]["icons"] = json!([{"src": "file:///a.png"}])),
        listed("meta-key-names", |result| result["_meta"]["-a"] = 1.into()),
        vec![
            legacy("annotations-valid").edit("resources/list", annotated),
            modern("annotations-valid").edit("resources/list", annotated),
            modern("extension-names").edit("server/discover", |result| {
                result["capabilities"]["extensions"] = json!({"tasks": {}});
            }),
            modern("trace-context-format")
                .edit(TOOLS, |result| result["_meta"]["traceparent"] = "00-a".into()),
        ],
    ];
    rows.into_iter().flatten().collect()
}

fn calls() -> Vec<Row> {
    /// The first call is the one of a tool that does not exist.
    fn unknown(row: Row, change: fn(String) -> String) -> Row {
        row.call(ECHO.0, ECHO.1).answer(CALL, change)
    }
    fn accepted(reply: String) -> String {
        edited(&reply, |reply| {
            reply.as_object_mut().unwrap().remove("error");
            reply["result"] = json!({
                "content": [],
                "isError": true,
                "resultType": "complete",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "a", "version": "1"}}
            });
        })
    }
    /// The call without a required argument succeeds.
    fn without(row: Row) -> Row {
        row.reads().say(|received, reply| {
            let here = received.method == CALL && received.line.contains("\"echo\"");
            vec![if here {
                accepted(reply).replace("\"isError\":true", "\"isError\":false").into()
            } else {
                reply.into()
            }]
        })
    }
    const ADD: (&str, &str) = ("add", r#"{"a":1,"b":2}"#);
    let rows = [
        called("call-has-content", |result| result["content"] = json!({})),
        called("call-members", |result| result["isError"] = "no".into()),
        vec![
            legacy("structured-content-conforms").call(ADD.0, ADD.1).edit(CALL, |result| {
                result["structuredContent"] = json!({});
                result["content"] = json!([{"type": "text", "text": "{}"}]);
            }),
            modern("structured-content-conforms").call(ADD.0, ADD.1).edit(CALL, |result| {
                result.as_object_mut().unwrap().remove("structuredContent");
            }),
            legacy("structured-content-as-text")
                .call(ADD.0, ADD.1)
                .edit(CALL, |result| result["content"] = json!([])),
            modern("structured-content-as-text")
                .call(ADD.0, ADD.1)
                .edit(CALL, |result| result["content"] = json!([])),
            unknown(legacy("unknown-tool-refused"), accepted),
            unknown(modern("unknown-tool-refused"), accepted),
            unknown(legacy("unknown-tool-code"), |reply| error(&reply, -32603)),
            unknown(modern("unknown-tool-code"), |reply| error(&reply, -32603)),
            without(legacy("bad-arguments-refused")),
            without(modern("bad-arguments-refused")),
        ],
    ];
    rows.into_iter().flatten().collect()
}
