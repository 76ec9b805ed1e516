//! Faults of requests and results of the modern era.

use super::super::fault::{Of, Received, Row, edited, error, modern};

const LIST: &str = "tools/list";
const DISCOVER: &str = "server/discover";

const VERSION: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#;
const CLIENT: &str = "\"io.modelcontextprotocol/clientInfo\"";
const CAPABILITIES: &str = r#""io.modelcontextprotocol/clientCapabilities":{}"#;

pub(super) fn rows() -> Vec<Row> {
    [results(), requests(), others()].into_iter().flatten().collect()
}

fn results() -> Vec<Row> {
    vec![
        modern("discover-implemented").refuse(DISCOVER, -32603),
        modern("discover-versions").answers(|reply| match reply.contains("\"supportedVersions\"") {
            true => reply.replace("\"2026-07-28\"", "\"2099-01-01\""),
            false => reply,
        }),
        modern("discover-capabilities").of(Of::Bare).swap(
            DISCOVER,
            r#""capabilities":{}"#,
            r#""capabilities":[]"#,
        ),
        modern("result-type-present").swap(LIST, r#""resultType":"complete","#, ""),
        modern("result-type-known").swap(LIST, r#""resultType":"complete""#, r#""resultType":"done""#),
        modern("input-required-where-allowed").swap(
            LIST,
            r#""resultType":"complete""#,
            r#""resultType":"input_required","inputRequests":{},"requestState":"a""#,
        ),
        modern("server-info-in-results").swap(
            LIST,
            "modelcontextprotocol/serverInfo",
            "modelcontextprotocol/server",
        ),
        modern("cache-ttl")
            .answer(LIST, |reply| edited(&reply, |reply| reply["result"]["ttlMs"] = (-1).into())),
        modern("cache-ttl")
            .answer(LIST, |reply| edited(&reply, |reply| reply["result"]["ttlMs"] = "0".into())),
        modern("cache-scope").swap(LIST, r#""cacheScope":"private""#, r#""cacheScope":"shared""#),
    ]
}

fn requests() -> Vec<Row> {
    fn unnamed(received: &Received) -> bool {
        received.method == DISCOVER && received.line.contains(VERSION) && !received.line.contains(CLIENT)
    }
    vec![
        modern("missing-capabilities-refused").receive(|line| match line.contains(CAPABILITIES) {
            true => line,
            false => line.replace(VERSION, &format!("{VERSION}{CAPABILITIES},")),
        }),
        modern("missing-version-refused").receive(|line| match line.contains("/protocolVersion") {
            true => line,
            false => line.replace(CAPABILITIES, &format!("{VERSION}{CAPABILITIES}")),
        }),
        modern("missing-meta-refused").receive(|line| {
            let meta = format!(r#""server/discover","params":{{"_meta":{{{VERSION}{CAPABILITIES}}}}}"#);
            line.replace(r#""server/discover","params":{}"#, &meta)
        }),
        modern("client-info-optional").say(|received, reply| {
            vec![if unnamed(received) { error(&reply, -32603).into() } else { reply.into() }]
        }),
        modern("unsupported-version-code").answers(|reply| reply.replace("-32022", "-32602")),
        modern("unsupported-version-list").answers(|reply| reply.replace("\"supported\"", "\"speaks\"")),
        modern("unsupported-version-requested").answers(|reply| reply.replace("\"requested\"", "\"wanted\"")),
        modern("unsupported-version-requested")
            .answers(|reply| reply.replace("\"requested\":\"1999-01-01\"", "\"requested\":\"2026-07-28\"")),
    ]
}

fn others() -> Vec<Row> {
    vec![
        modern("initialize-error-names-versions").of(Of::ModernAlone).in_both().say(|received, reply| {
            let refused = received.method == "initialize";
            vec![if refused { reply.replace("2026-07-28", "a later one").into() } else { reply.into() }]
        }),
        modern("removed-method-unknown").answer("ping", |reply| {
            edited(&reply, |reply| {
                let members = reply.as_object_mut().unwrap();
                members.remove("error");
                let info =
                    serde_json::json!({"io.modelcontextprotocol/serverInfo": {"name": "a", "version": "1"}});
                let result = serde_json::json!({"resultType": "complete", "_meta": info});
                members.insert("result".into(), result);
            })
        }),
        modern("no-cancellation-by-server").ahead(
            LIST,
            &[r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#],
        ),
    ]
}
