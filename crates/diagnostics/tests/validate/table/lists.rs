//! Faults of lists: tools, prompts, resources, templates; and of requests for unknown items.

use serde_json::{Value, json};

use super::super::fault::{Of, Row, edited, error, legacy, modern};
use super::super::front::Raw;

const TOOLS: &str = "tools/list";
const PROMPTS: &str = "prompts/list";
const RESOURCES: &str = "resources/list";
const TEMPLATES: &str = "resources/templates/list";

pub(super) fn rows() -> Vec<Row> {
    [tools(), schemas(), again(), prompts(), resources(), templates(), absent()]
        .into_iter()
        .flatten()
        .collect()
}

/// Changes the first item of a list.
fn first(rule: &'static str, method: &'static str, list: &'static str, change: fn(&mut Value)) -> Vec<Row> {
    let row = |row: Row| row.edit(method, move |result| change(&mut result[list][0]));
    vec![row(legacy(rule)), row(modern(rule))]
}

fn drop_name(item: &mut Value) {
    item.as_object_mut().unwrap().remove("name");
}

fn tools() -> Vec<Row> {
    const LIST: &str = "tools";
    let rows = [
        first("tool-has-name", TOOLS, LIST, drop_name),
        first("tool-name-length", TOOLS, LIST, |tool| tool["name"] = "a".repeat(129).into()),
        first("tool-name-characters", TOOLS, LIST, |tool| tool["name"] = "two words".into()),
        first("tool-members", TOOLS, LIST, |tool| tool["description"] = 7.into()),
        first("tool-annotations", TOOLS, LIST, |tool| tool["annotations"]["readOnlyHint"] = "yes".into()),
        vec![
            legacy("tools-listed").edit(TOOLS, |result| result["tools"] = json!({})),
            modern("tools-listed").edit(TOOLS, |result| result["tools"] = ().into()),
            legacy("tool-names-unique").edit(TOOLS, |result| {
                result["tools"][1]["name"] = result["tools"][0]["name"].clone();
            }),
            legacy("tool-task-support").edit(TOOLS, |result| {
                result["tools"][0]["execution"] = json!({"taskSupport": "maybe"});
            }),
        ],
    ];
    rows.into_iter().flatten().collect()
}

fn schemas() -> Vec<Row> {
    const LIST: &str = "tools";
    let rows = [
        first("input-schema-valid", TOOLS, LIST, |tool| tool["inputSchema"]["properties"] = 7.into()),
        first("input-schema-valid", TOOLS, LIST, |tool| tool["inputSchema"]["type"] = "array".into()),
        first("output-schema-valid", TOOLS, LIST, |tool| {
            tool["outputSchema"] = json!({"type": "object", "required": "all"});
        }),
        first("tool-schema-references", TOOLS, LIST, |tool| {
            tool["inputSchema"]["properties"]["message"] = json!({"$ref": "#/$defs/none"});
        }),
    ];
    rows.into_iter().flatten().collect()
}

/// Faults of lists that are requested again.
fn again() -> Vec<Row> {
    /// Changes the later lists.
    fn last(row: Row, change: fn(&mut Vec<Value>)) -> Row {
        row.say(move |received, reply| {
            let here = received.method == TOOLS && received.nth >= 2 && reply.contains("\"result\"");
            if !here {
                return vec![reply.into()];
            }
            vec![edited(&reply, |reply| change(reply["result"]["tools"].as_array_mut().unwrap())).into()]
        })
    }
    vec![
        last(modern("tools-in-order"), |tools| tools.swap(0, 1)),
        last(legacy("list-change-told"), |tools| _ = tools.pop()),
        // The list on another connection differs.
        modern("list-not-by-connection").after(|sent, _, _, body| {
            let elsewhere = sent
                .extensions
                .get::<Raw>()
                .is_some_and(|Raw(raw)| raw.windows(10).any(|window| window == b"Mcp-Method"));
            if elsewhere && body.contains("\"tools\":[") {
                *body = edited(body, |reply| _ = reply["result"]["tools"].as_array_mut().unwrap().pop());
            }
        }),
    ]
}

fn prompts() -> Vec<Row> {
    const LIST: &str = "prompts";
    const GET: &str = "prompts/get";
    let message = |rule: &'static str, change: fn(&mut Value)| {
        let row = |row: Row| {
            row.reads().edit(GET, move |result| {
                if result["messages"][0].is_object() {
                    change(&mut result["messages"][0]);
                }
            })
        };
        vec![row(legacy(rule)), row(modern(rule))]
    };
    let rows = [
        first("prompt-has-name", PROMPTS, LIST, drop_name),
        first("prompt-members", PROMPTS, LIST, |prompt| prompt["title"] = 7.into()),
        first("prompt-arguments", PROMPTS, LIST, |prompt| prompt["arguments"] = json!([{"required": "no"}])),
        message("message-role", |message| message["role"] = "system".into()),
        message("message-content", |message| message["content"] = "hello".into()),
        vec![
            legacy("prompts-listed").edit(PROMPTS, |result| result["prompts"] = json!({})),
            modern("prompts-listed").edit(PROMPTS, |result| result["prompts"] = ().into()),
            legacy("prompt-names-unique").edit(PROMPTS, |result| {
                result["prompts"][1]["name"] = result["prompts"][0]["name"].clone();
            }),
            legacy("unknown-prompt-code").refuse(GET, -32603),
            modern("unknown-prompt-code").refuse(GET, -32603),
            legacy("prompt-has-messages").reads().edit(GET, |result| result["messages"] = json!({})),
            legacy("missing-prompt-argument-code").reads().say(|received, reply| {
                let here = received.method == GET && reply.contains("\"error\"") && received.nth > 0;
                vec![if here { error(&reply, -32603).into() } else { reply.into() }]
            }),
        ],
    ];
    rows.into_iter().flatten().collect()
}

fn resources() -> Vec<Row> {
    const LIST: &str = "resources";
    let rows = [
        first("resource-has-uri-and-name", RESOURCES, LIST, drop_name),
        first("resource-uri-valid", RESOURCES, LIST, |resource| resource["uri"] = "no uri".into()),
        first("resource-members", RESOURCES, LIST, |resource| resource["size"] = "large".into()),
        vec![
            legacy("resources-listed").edit(RESOURCES, |result| result["resources"] = json!({})),
            modern("resources-listed").edit(RESOURCES, |result| result["resources"] = ().into()),
            legacy("resource-uris-unique").edit(RESOURCES, |result| {
                result["resources"][1]["uri"] = result["resources"][0]["uri"].clone();
            }),
        ],
    ];
    rows.into_iter().flatten().collect()
}

fn templates() -> Vec<Row> {
    const LIST: &str = "resourceTemplates";
    let rows = [
        first("template-has-uri-and-name", TEMPLATES, LIST, drop_name),
        first("template-uri-valid", TEMPLATES, LIST, |template| template["uriTemplate"] = "test://{".into()),
        first("template-members", TEMPLATES, LIST, |template| template["mimeType"] = 7.into()),
        vec![
            legacy("templates-listed").edit(TEMPLATES, |result| result["resourceTemplates"] = json!({})),
            modern("templates-listed").edit(TEMPLATES, |result| result["resourceTemplates"] = ().into()),
        ],
    ];
    rows.into_iter().flatten().collect()
}

/// Replaces an error by a result.
fn result(reply: &str, members: Value) -> String {
    edited(reply, |reply| {
        reply.as_object_mut().unwrap().remove("error");
        reply["result"] = members;
    })
}

/// Adds the members that every cacheable result of the modern era has.
fn complete(mut members: Value) -> Value {
    members["resultType"] = "complete".into();
    members["ttlMs"] = 0.into();
    members["cacheScope"] = "private".into();
    members["_meta"] = json!({"io.modelcontextprotocol/serverInfo": {"name": "a", "version": "1"}});
    members
}

/// Faults of requests for resources that do not exist or have an invalid URI.
fn absent() -> Vec<Row> {
    const READ: &str = "resources/read";
    vec![
        modern("unknown-resource-not-empty")
            .answer(READ, |reply| result(&reply, complete(json!({"contents": []})))),
        legacy("unknown-resource-code").refuse(READ, -32603),
        modern("unknown-resource-code").refuse(READ, -32603),
        legacy("malformed-uri-refused").say(|received, reply| {
            let contents = json!({"contents": [{"uri": "test://a", "text": "a"}]});
            let here = received.method == READ && received.nth == 1;
            vec![if here { result(&reply, contents).into() } else { reply.into() }]
        }),
        modern("malformed-uri-refused").of(Of::Demo).say(|received, reply| {
            let contents = complete(json!({"contents": [{"uri": "test://a", "text": "a"}]}));
            let here = received.method == READ && received.nth == 1;
            vec![if here { result(&reply, contents).into() } else { reply.into() }]
        }),
        legacy("read-has-contents").reads().edit(READ, |result| result["contents"] = json!({})),
        modern("read-has-contents").reads().edit(READ, |result| result["contents"] = ().into()),
        legacy("read-contents-complete")
            .reads()
            .edit(READ, |result| result["contents"] = json!([{"uri": "test://a"}])),
        modern("read-contents-complete")
            .reads()
            .edit(READ, |result| result["contents"] = json!([{"text": "a"}])),
    ]
}
