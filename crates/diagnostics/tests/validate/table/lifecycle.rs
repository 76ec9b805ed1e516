//! Faults of the opening of a legacy session, of versions, and of declared capabilities.

use super::super::fault::{Of, Over, Received, Row, STDIO, edited, legacy, modern};

const LIST: &str = "tools/list";
const OPEN: &str = "initialize";

pub(super) fn rows() -> Vec<Row> {
    [initialize(), versions(), capabilities()].into_iter().flatten().collect()
}

fn initialize() -> Vec<Row> {
    fn early(received: &Received) -> bool {
        received.method == "ping" && received.before.contains("\"initialize\"")
    }
    vec![
        legacy("silent-before-initialize").over(STDIO).change(|it| {
            let log =
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"up"}}"#;
            it.first = vec![log.into()];
        }),
        legacy("initialize-version").swap(OPEN, r#""protocolVersion":"#, r#""protocolversion":"#),
        legacy("initialize-capabilities").of(Of::Bare).swap(OPEN, r#""capabilities":"#, r#""Capabilities":"#),
        legacy("initialize-server-info").swap(OPEN, r#""serverInfo":"#, r#""serverinfo":"#),
        legacy("initialize-server-info").answer(OPEN, |reply| {
            edited(&reply, |reply| reply["result"]["serverInfo"]["version"] = 1.into())
        }),
        legacy("ping-empty").swap("ping", r#""result":{}"#, r#""result":{"pong":true}"#),
        legacy("ping-before-initialized").silent(early),
        legacy("no-request-before-initialized").say(|received, reply| {
            let request = r#"{"jsonrpc":"2.0","id":"s","method":"mcpjoin/a-question"}"#;
            if early(received) { vec![request.into(), reply.into()] } else { vec![reply.into()] }
        }),
    ]
}

fn versions() -> Vec<Row> {
    fn with_version(line: &str, version: &str, other: &str) -> Option<String> {
        let (one, other) =
            (format!("\"protocolVersion\":\"{version}\""), format!("\"protocolVersion\":\"{other}\""));
        (line.contains("\"initialize\"") && line.contains(&one)).then(|| line.replace(&one, &other))
    }
    vec![
        legacy("unknown-version-not-accepted").say(|received, reply| {
            let unknown = received.method == OPEN && received.line.contains("1999-01-01");
            vec![if unknown { reply.replace("2025-11-25", "1999-01-01").into() } else { reply.into() }]
        }),
        // Two versions are exchanged.
        legacy("offered-version-spoken").receive(|line| {
            let other = with_version(&line, "2025-11-25", "2025-06-18")
                .or_else(|| with_version(&line, "2025-06-18", "2025-11-25"));
            other.unwrap_or(line)
        }),
        legacy("latest-version-offered")
            .receive(|line| with_version(&line, "1999-01-01", "2025-06-18").unwrap_or(line)),
    ]
}

fn capabilities() -> Vec<Row> {
    const DISCOVER: &str = "server/discover";
    const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#;
    const LOG: &str =
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"up"}}"#;
    /// A capability is used without being declared.
    fn undeclared(row: Row, declared: &'static str, notified: &'static str) -> Row {
        row.say(move |received, reply| match &*received.method {
            OPEN => vec![reply.replace(declared, "").into()],
            LIST if received.nth == 0 => vec![notified.into(), reply.into()],
            _ => vec![reply.into()],
        })
    }
    vec![
        legacy("capabilities-are-objects").swap(OPEN, r#""logging":{}"#, r#""logging":true"#),
        modern("capabilities-are-objects").swap(DISCOVER, r#""completions":{}"#, r#""completions":true"#),
        legacy("capability-flags-are-booleans").swap(OPEN, r#""listChanged":true"#, r#""listChanged":1"#),
        modern("capability-flags-are-booleans").swap(DISCOVER, r#""subscribe":true"#, r#""subscribe":"yes""#),
        legacy("declared-list-exists").refuse(LIST, -32601),
        modern("declared-list-exists").over(&[Over::Stdio]).refuse(LIST, -32601),
        // The list exists, but its capability is not declared.
        legacy("features-declared").swap(OPEN, r#""prompts":{"listChanged":true},"#, ""),
        modern("features-declared").swap(DISCOVER, r#""prompts":{"listChanged":true},"#, ""),
        modern("undeclared-list-unknown").of(Of::Bare).refuse("prompts/list", -32603),
        legacy("client-capability-respected")
            .ahead(LIST, &[r#"{"jsonrpc":"2.0","id":"s","method":"roots/list"}"#]),
        undeclared(legacy("notification-capability-declared"), r#""listChanged":true"#, CHANGED),
        undeclared(legacy("logging-declared"), r#""logging":{},"#, LOG),
    ]
}
