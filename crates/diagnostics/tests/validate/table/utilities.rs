//! Faults of pages, completion and log messages.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::super::fault::{Of, Row, STDIO, edited, error, legacy, modern};

const TOOLS: &str = "tools/list";
const COMPLETE: &str = "completion/complete";
const LEVEL: &str = "logging/setLevel";

pub(super) fn rows() -> Vec<Row> {
    [pages(), completion(), logging()].into_iter().flatten().collect()
}

/// Adds this second page to the list of prompts.
fn second(row: Row, page: impl Fn(usize, Value) -> Value + Send + Sync + 'static) -> Row {
    let pages = AtomicUsize::new(0);
    row.say(move |received, reply| {
        if received.method != "prompts/list" {
            return vec![reply.into()];
        }
        if received.nth == 0 {
            return vec![edited(&reply, |reply| reply["result"]["nextCursor"] = "a".into()).into()];
        }
        if !received.line.contains("\"cursor\":\"a\"") {
            return vec![reply.into()];
        }
        let reply = edited(&reply, |reply| {
            reply.as_object_mut().unwrap().remove("error");
            let result = json!({
                "prompts": [],
                "resultType": "complete",
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "a", "version": "1"}}
            });
            reply["result"] = page(pages.fetch_add(1, Ordering::Relaxed), result);
        });
        vec![reply.into()]
    })
}

fn pages() -> Vec<Row> {
    fn around(_: usize, mut page: Value) -> Value {
        page["nextCursor"] = "a".into();
        page
    }
    fn other(nth: usize, mut page: Value) -> Value {
        page["prompts"] = json!([{"name": format!("prompt-{nth}")}]);
        page
    }
    fn public(_: usize, mut page: Value) -> Value {
        page["cacheScope"] = "public".into();
        page
    }
    fn unknown(row: Row) -> Row {
        row.say(|received, reply| {
            let here = received.method == TOOLS && reply.contains("\"error\"");
            vec![if here { error(&reply, -32603).into() } else { reply.into() }]
        })
    }
    vec![
        legacy("next-cursor-is-string").edit(TOOLS, |result| result["nextCursor"] = 7.into()),
        modern("next-cursor-is-string").edit(TOOLS, |result| result["nextCursor"] = 7.into()),
        second(legacy("pages-end"), around),
        second(modern("pages-end"), around),
        second(legacy("cursor-stable"), other),
        second(modern("cursor-stable"), other),
        second(modern("cache-scope-of-pages"), public),
        unknown(legacy("bad-cursor-code")),
        unknown(modern("bad-cursor-code")),
    ]
}

fn completion() -> Vec<Row> {
    fn unnamed(row: Row) -> Row {
        row.say(|received, reply| {
            let here = received.method == COMPLETE && !received.line.contains("\"argument\"");
            vec![if here { error(&reply, -32603).into() } else { reply.into() }]
        })
    }
    vec![
        legacy("completion-values").edit(COMPLETE, |result| result["completion"]["values"] = json!([7])),
        modern("completion-values").edit(COMPLETE, |result| result["completion"]["total"] = "many".into()),
        legacy("completion-refused-as-undeclared").of(Of::Bare).refuse(COMPLETE, -32603),
        modern("completion-refused-as-undeclared").of(Of::Bare).refuse(COMPLETE, -32603),
        legacy("completion-unknown-prompt-code").refuse(COMPLETE, -32603),
        modern("completion-unknown-prompt-code").refuse(COMPLETE, -32603),
        unnamed(legacy("completion-missing-argument-code")),
        unnamed(modern("completion-missing-argument-code")),
    ]
}

fn logging() -> Vec<Row> {
    const LOUD: &str =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"loud","data":"a"}}"#;
    const INFO: &str =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a"}}"#;
    vec![
        legacy("unknown-log-level-code").say(|received, reply| {
            let here = received.method == LEVEL && reply.contains("\"error\"");
            vec![if here { error(&reply, -32603).into() } else { reply.into() }]
        }),
        legacy("set-level-empty").edit(LEVEL, |result| result["level"] = "error".into()),
        legacy("log-message-complete").ahead(TOOLS, &[LOUD]),
        // The log level that was set is ignored.
        legacy("log-level-kept").say(|received, reply| {
            let here = received.method == TOOLS && received.nth == 2;
            if here { vec![INFO.into(), reply.into()] } else { vec![reply.into()] }
        }),
        modern("log-asked-for").over(STDIO).ahead(TOOLS, &[INFO]),
    ]
}
