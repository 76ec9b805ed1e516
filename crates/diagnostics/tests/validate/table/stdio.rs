//! Faults of the reading and writing of lines by a process.

use std::sync::Arc;

use super::super::fault::{Row, STDIO, legacy, modern};

const LIST: &str = "tools/list";

pub(super) fn rows() -> Vec<Row> {
    fn changed(row: Row, change: impl Fn(String) -> Vec<u8> + Send + Sync + 'static) -> Row {
        row.over(STDIO).say(move |received, reply| {
            let here = received.method == LIST && received.nth == 0;
            vec![if here { change(reply) } else { reply.into() }]
        })
    }
    let rows = vec![
        legacy("only-messages").change(|it| it.first = vec![b"Server is running on stdio".to_vec()]),
        modern("only-messages").ahead(LIST, &["DEBUG listing tools"]),
        changed(legacy("utf-8"), |reply| latin(&reply)),
        changed(modern("utf-8"), |reply| latin(&reply)),
        changed(legacy("no-byte-order-mark"), |reply| format!("\u{feff}{reply}").into()),
        changed(modern("no-byte-order-mark"), |reply| format!("\u{feff}{reply}").into()),
        changed(legacy("one-line-each"), |reply| reply.replace("\"result\"", "\n  \"result\"").into()),
        changed(modern("one-line-each"), |reply| reply.replace(",\"result\"", "\n,\n\"result\"").into()),
        changed(legacy("no-array-written"), |reply| format!("[{reply}]").into()),
        changed(modern("no-array-written"), |reply| format!("[{reply}]").into()),
        modern("no-request-written").ahead(LIST, &[r#"{"jsonrpc":"2.0","id":"s","method":"ping"}"#]),
        legacy("several-lines-at-once").change(|it| it.together = Arc::new(one_of_two)),
        modern("several-lines-at-once").change(|it| it.together = Arc::new(one_of_two)),
        legacy("whole-lines").change(|it| it.hasty = true),
        modern("whole-lines").change(|it| it.hasty = true),
    ];
    rows.into_iter().map(|row| row.over(STDIO)).collect()
}

/// Takes only the first of two messages that arrive in one read. The condition matches only two requests of the same method,
/// because other tests also send several messages at once.
fn one_of_two(mut lines: Vec<String>) -> Vec<String> {
    let method = |line: &String| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message.get("id")?;
        message["method"].as_str().map(str::to_owned)
    };
    if lines.len() == 2 && method(&lines[0]).is_some() && method(&lines[0]) == method(&lines[1]) {
        lines.truncate(1);
    }
    lines
}

/// Replaces the first letter of a description by é in Latin-1.
fn latin(reply: &str) -> Vec<u8> {
    let at = reply.find("\"description\":\"").unwrap() + "\"description\":\"".len();
    let mut bytes = reply.as_bytes().to_vec();
    bytes[at] = 0xe9;
    bytes
}
