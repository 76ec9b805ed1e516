//! Faults of messages, their ids, error codes, and lines that cannot be parsed.

use super::super::fault::{Received, Row, STDIO, edited, legacy, modern};

const LIST: &str = "tools/list";

pub(super) fn rows() -> Vec<Row> {
    [messages(), answers(), errors(), input()].into_iter().flatten().collect()
}

fn messages() -> Vec<Row> {
    vec![
        legacy("jsonrpc-version").swap(LIST, r#""jsonrpc":"2.0""#, r#""jsonrpc":"1.0""#),
        modern("jsonrpc-version").swap(LIST, r#""jsonrpc":"2.0","#, ""),
        legacy("message-shape").ahead(LIST, &[r#"{"jsonrpc":"2.0","method":7}"#]),
        modern("message-shape")
            .ahead(LIST, &[r#"{"jsonrpc":"2.0","method":"notifications/progress","params":[1]}"#]),
        legacy("unique-members").swap(LIST, r#"{"jsonrpc""#, r#"{"jsonrpc":"2.0","jsonrpc""#),
        modern("unique-members").swap(LIST, r#""result":"#, r#""result":{},"result":"#),
        legacy("result-or-error").swap(
            LIST,
            r#""result":"#,
            r#""error":{"code":-32603,"message":"and"},"result":"#,
        ),
        modern("result-or-error").answer(LIST, |reply| {
            edited(&reply, |reply| _ = reply.as_object_mut().unwrap().remove("result"))
        }),
        legacy("result-has-id").answer(LIST, |reply| edited(&reply, |reply| reply["id"] = ().into())),
        modern("result-has-id")
            .answer(LIST, |reply| edited(&reply, |reply| _ = reply.as_object_mut().unwrap().remove("id"))),
        legacy("request-has-id").ahead(LIST, &[r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#]),
        modern("request-has-id").ahead(LIST, &[r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#]),
        legacy("notification-without-id").ahead(
            LIST,
            &[r#"{"jsonrpc":"2.0","id":"n","method":"notifications/message","params":{"level":"info","data":"a"}}"#],
        ),
        legacy("id-type").answer(LIST, |reply| edited(&reply, |reply| reply["id"] = true.into())),
        modern("id-type").answer(LIST, |reply| edited(&reply, |reply| reply["id"] = 7.5.into())),
        legacy("result-is-object").swap("ping", r#""result":{}"#, r#""result":[]"#),
        modern("result-is-object")
            .answer(LIST, |reply| edited(&reply, |reply| reply["result"] = "done".into())),
        legacy("error-members").answer(NO_METHOD, |reply| {
            edited(&reply, |reply| _ = reply["error"].as_object_mut().unwrap().remove("message"))
        }),
        modern("error-members")
            .answer(NO_METHOD, |reply| edited(&reply, |reply| reply["error"] = "not found".into())),
        legacy("error-code-integer").swap(NO_METHOD, r#""code":-32601"#, r#""code":"-32601""#),
        modern("error-code-integer").swap(NO_METHOD, r#""code":-32601"#, r#""code":-32601.5"#),
    ]
}

const NO_METHOD: &str = "mcpjoin/no-such-method";

fn answers() -> Vec<Row> {
    fn first(received: &Received) -> bool {
        received.method == LIST && received.nth == 0
    }
    fn after_cancel(received: &Received) -> bool {
        received.before.contains("mcpjoin-never-sent")
    }
    const STRAY: &str = r#"{"jsonrpc":"2.0","id":"nobody","result":{"resultType":"complete"}}"#;
    let twice = |received: &Received, reply: String| {
        let times = if first(received) { 2 } else { 1 };
        vec![reply.into_bytes(); times]
    };
    let changed = |reply: String| edited(&reply, |reply| reply["id"] = reply["id"].to_string().into());
    vec![
        legacy("request-answered").silent(first),
        modern("request-answered").silent(first),
        legacy("answered-once").say(twice),
        modern("answered-once").say(twice),
        legacy("id-given-back").answer(LIST, changed),
        modern("id-given-back").answer(LIST, changed),
        // The id is rounded to a floating-point number of 32 bits.
        legacy("id-given-back")
            .answers(|reply| reply.replace("\"id\":9007199254740991", "\"id\":9007199254740992")),
        legacy("response-to-a-request").ahead(LIST, &[STRAY]),
        modern("response-to-a-request").ahead(LIST, &[STRAY]),
        legacy("notification-not-answered").over(STDIO).change(answered),
        modern("notification-not-answered").over(STDIO).change(answered),
        legacy("answer-in-time").change(|it| it.slow = true),
        modern("answer-in-time").change(|it| it.slow = true),
        legacy("request-id-not-reused").ahead(
            LIST,
            &[
                r#"{"jsonrpc":"2.0","id":"again","method":"ping"}"#,
                r#"{"jsonrpc":"2.0","id":"again","method":"ping"}"#,
            ],
        ),
        legacy("unknown-cancel-ignored").silent(after_cancel),
        modern("unknown-cancel-ignored").over(STDIO).silent(after_cancel),
    ]
}

/// An unknown notification is refused as if it were a request.
fn answered(it: &mut super::super::fault::Fault) {
    it.told = std::sync::Arc::new(|received| {
        let refused = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"method not found"}}"#;
        if received.line.contains("no-such-notification") { vec![refused.into()] } else { Vec::new() }
    });
}

fn errors() -> Vec<Row> {
    let result = |reply: String| {
        edited(&reply, |reply| {
            let members = reply.as_object_mut().unwrap();
            members.remove("error");
            members.insert("result".into(), serde_json::json!({}));
        })
    };
    vec![
        legacy("unknown-method-refused").answer(NO_METHOD, result),
        legacy("unknown-method-code").refuse(NO_METHOD, -32603),
        modern("unknown-method-code").refuse(NO_METHOD, -32603),
        legacy("bad-json-code").answers(|reply| reply.replace("-32700", "-32603")),
        modern("bad-json-code").answers(|reply| reply.replace("-32700", "-32600")),
        legacy("invalid-request-code")
            .answers(|reply| reply.replace("-32600,\"message\":\"m", "-32603,\"message\":\"m")),
        modern("invalid-request-code")
            .answers(|reply| reply.replace("-32600,\"message\":\"m", "-32700,\"message\":\"m")),
        legacy("json-rpc-codes").refuse(LIST, -32650),
        modern("json-rpc-codes").refuse(LIST, -32768),
        modern("reserved-codes").refuse(LIST, -32050),
        modern("superseded-codes").refuse(LIST, -32002),
        modern("superseded-codes").refuse(LIST, -32042),
        modern("implementation-codes").refuse(LIST, -32010),
    ]
}

fn input() -> Vec<Row> {
    fn after_bad(received: &Received) -> bool {
        received.before == "this is no JSON"
    }
    vec![
        legacy("batch-answered").in_version("2025-03-26").say(|received, reply| {
            let batch = received.line.starts_with('[')
                || received.line.contains("\"ping\"") && reply.starts_with('[');
            vec![if batch {
                edited(&reply, |reply| _ = reply.as_array_mut().unwrap().pop()).into()
            } else {
                reply.into()
            }]
        }),
        legacy("goes-on-after-bad-line").silent(after_bad),
        modern("goes-on-after-bad-line").silent(after_bad),
    ]
}
