//! Tests of the rules for clients, over lines. A scripted client does everything right in both eras, and each fault changes
//! one of its lines.

use std::future::pending;
use std::time::Duration;

use mcpjoin_diagnostics::validate::{ClientValidator, StopReason};
use mcpjoin_rules::Trace;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

use super::{checked, failed_rules, link, server};

/// The silence after which no further message is expected: twice the delay of the response to `initialize`.
const QUIET: Duration = Duration::from_millis(300);

const META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"}}"#;

pub(super) const LEGACY: [&str; 7] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"roots":{}},"clientInfo":{"name":"raw","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":CURSOR}}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"ask","_meta":{"progressToken":"t"}}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"wait","_meta":{"progressToken":"u"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#,
];

const MODERN: [&str; 6] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":META}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":META}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":CURSOR,"_meta":META}}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"ask","_meta":META}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"ask","requestState":STATE,"inputResponses":{"sure":{"action":"accept","content":{"sure":true}}},"_meta":META}}"#,
    r#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"quiet","_meta":META}}"#,
];

/// The responses of the client: a text in the request, and the rest of the response.
const ANSWERS: [(&str, &str); 5] = [
    ("\"ping\"", r#""result":{}}"#),
    ("no-such-method", r#""error":{"code":-32601,"message":"no"}}"#),
    ("roots/list", r#""result":{"roots":[{"uri":"file:///tmp"}]}}"#),
    ("elicitation/create", r#""result":{"action":"accept","content":{"sure":true}}}"#),
    ("sampling/createMessage", r#""error":{"code":-32602,"message":"no"}}"#),
];

/// The rule that is broken, a text in a line of the client, and its replacement. A line that contains the text after `DROP:`
/// is not sent at all.
pub(super) type Fault = (&'static str, &'static str, &'static str);

const LEGACY_FAULTS: [Fault; 35] = [
    ("client-jsonrpc-version", r#""2.0","id":2,"#, r#""1.0","id":2,"#),
    ("client-message-shape", r#""method":"tools/list"}"#, r#""method":"tools/list","params":[]}"#),
    ("client-unique-members", r#""id":2,"#, r#""id":2,"id":2,"#),
    ("client-request-id", r#""id":2,"#, r#""id":null,"#),
    ("client-request-id-not-reused", r#""id":3,"#, r#""id":2,"#),
    (
        "client-notification-without-id",
        r#""method":"notifications/cancelled""#,
        r#""id":9,"method":"notifications/cancelled""#,
    ),
    ("client-response-id", "LOOK-ping\",\"result\"", "PING\",\"result\""),
    ("client-answered-once", r#"no"}}"#, "no\"}}\nAGAIN"),
    ("client-ping-answered", r#""result":{}}"#, r#""error":{"code":-32601,"message":"what"}}"#),
    // The client does not answer the ping, and stays connected until the timeout.
    ("client-ping-answered", r#"{"jsonrpc":"2.0","id":"LOOK-ping","result":{}}"#, "WAIT 12"),
    ("client-unknown-method-refused", r#""error":{"code":-32601,"message":"no"}}"#, r#""result":{}}"#),
    ("client-unknown-method-code", "-32601", "-32603"),
    ("client-result-or-error", r#""result":{}}"#, r#""result":{},"error":{"code":1,"message":"a"}}"#),
    ("client-result-is-object", r#""result":{}}"#, r#""result":[]}"#),
    ("client-error-shape", r#""code":-32601"#, r#""code":"-32601""#),
    (
        "client-notification-not-answered",
        r#""id":2,"method":"tools/list"}"#,
        "\"id\":2,\"method\":\"tools/list\"}\nNULL",
    ),
    ("client-cancels-what-is-under-way", r#""requestId":5"#, r#""requestId":55"#),
    (
        "client-never-cancels-initialize",
        r#""method":"notifications/initialized"}"#,
        "\"method\":\"notifications/initialized\"}\nCANCEL",
    ),
    ("client-progress-token", r#""progressToken":"t""#, r#""progressToken":{}"#),
    ("client-cursor-unchanged", "CURSOR", r#""1""#),
    (
        "client-opens-with-initialize",
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize""#,
        "FIRST{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"",
    ),
    (
        "client-initialize-complete",
        r#""clientInfo":{"name":"raw","version":"1"}"#,
        r#""clientInfo":{"name":"raw"}"#,
    ),
    ("client-version-exists", r#""protocolVersion":"2025-11-25""#, r#""protocolVersion":"2025-11-26""#),
    (
        "client-waits-for-initialize",
        r#""clientInfo":{"name":"raw","version":"1"}}}"#,
        "\"clientInfo\":{\"name\":\"raw\",\"version\":\"1\"}}}\nEARLY",
    ),
    ("client-sends-initialized", r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, ""),
    (
        "client-undeclared-not-asked",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"resources/list"}"#,
    ),
    (
        "client-respects-version",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"server/discover"}"#,
    ),
    ("client-meta-key-names", r#""progressToken":"t""#, r#""progressToken":"t","a b":1"#),
    (
        "client-only-messages",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\nhello",
    ),
    (
        "client-one-line-each",
        r#""method":"notifications/initialized"}"#,
        "\"method\":\n\"notifications/cancelled\",\"params\":{\"requestId\":1}}\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
    ),
    (
        "client-no-array",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        r#"[{"jsonrpc":"2.0","id":2,"method":"tools/list"}]"#,
    ),
    ("client-no-byte-order-mark", r#"{"jsonrpc":"2.0","id":1,"#, "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,"),
    ("client-root-is-file", "file:///tmp", "https://tmp"),
    ("client-elicitation-action", r#""action":"accept","#, r#""action":"yes","#),
    ("client-elicitation-conforms", r#"{"sure":true}"#, r#"{"sure":"yes"}"#),
];

const MODERN_FAULTS: [Fault; 16] = [
    (
        "client-sends-no-response",
        r#""id":6,"method":"tools/call","params":{"name":"quiet","_meta":META}}"#,
        r#""id":6,"result":{}}"#,
    ),
    (
        "client-request-id-not-reused",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":META}}"#,
        "LISTEN",
    ),
    (
        "client-meta-complete",
        r#""id":6,"method":"tools/call","params":{"name":"quiet","_meta":META}}"#,
        r#""id":6,"method":"tools/call","params":{"name":"quiet","_meta":BARE}}"#,
    ),
    (
        "client-info-sent",
        r#""id":2,"method":"tools/list","params":{"_meta":META}}"#,
        r#""id":2,"method":"tools/list","params":{"_meta":UNNAMED}}"#,
    ),
    (
        "client-info-complete",
        r#""id":2,"method":"tools/list","params":{"_meta":META}}"#,
        r#""id":2,"method":"tools/list","params":{"_meta":NAMED}}"#,
    ),
    (
        "client-extension-names",
        r#""id":2,"method":"tools/list","params":{"_meta":META}}"#,
        r#""id":2,"method":"tools/list","params":{"_meta":EXTENDED}}"#,
    ),
    (
        "client-known-method",
        r#""method":"tools/call","params":{"name":"quiet","#,
        r#""method":"ping","params":{"#,
    ),
    (
        "client-discovers-first",
        r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":META}}"#,
        "REQUEST11,\"method\":\"tools/list\",\"params\":{\"_meta\":META}}\n\
         REQUEST1,\"method\":\"server/discover\",\"params\":{\"_meta\":META}}",
    ),
    (
        "client-cancels-by-notification",
        r#""id":6,"method":"tools/call","params":{"name":"quiet","_meta":META}}"#,
        r#""method":"$/cancelRequest","params":{"id":4}}"#,
    ),
    ("client-cursor-unchanged", "CURSOR", r#""1""#),
    ("client-echoes-state", "STATE", r#""forged""#),
    (
        "client-adds-no-state",
        r#""params":{"name":"quiet","#,
        r#""params":{"requestState":"mine","name":"quiet","#,
    ),
    ("client-answers-inputs", r#"{"sure":{"action""#, r#"{"sore":{"action""#),
    (
        "client-state-for-its-request-alone",
        r#""name":"ask","requestState""#,
        r#""name":"quiet","requestState""#,
    ),
    ("client-elicitation-conforms", r#"{"sure":true}"#, "{}"),
    (
        "client-elicitation-declared",
        r#"{"sure":true}}},"_meta":META}}"#,
        r#"{"sure":true}}},"_meta":DECLARED-NOT}}"#,
    ),
];

/// Expands the abbreviations of longer texts.
fn written_out(line: &str) -> String {
    let without = |part: &str| META.replace(part, "");
    line.replace("META", META)
        .replace("BARE", &without(r#""io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"#))
        .replace("UNNAMED", &without(r#","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"}"#))
        .replace("NAMED", &without(r#","version":"1""#))
        .replace("EXTENDED", &META.replace(r#"{"elicitation":{}}"#, r#"{"elicitation":{},"extensions":{"ui":{}}}"#))
        .replace("DECLARED-NOT", &META.replace(r#"{"elicitation":{}}"#, "{}"))
        .replace("NULL", r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"what"}}"#)
        .replace("CANCEL", r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .replace("EARLY", r#"{"jsonrpc":"2.0","id":8,"method":"tools/list"}"#)
        .replace("FIRST", "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tools/list\"}\n")
        .replace("AGAIN", r#"{"jsonrpc":"2.0","id":"mcpjoin-look-0-unknown-method","error":{"code":-32601,"message":"no"}}"#)
        .replace(
            "LISTEN",
            &format!(
                "{0}\n{0}",
                format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"wait","_meta":{META}}}}}"#)
            ),
        )
        .replace("LOOK", "mcpjoin-look-0")
        .replace("PING\"", "mcpjoin-look-0-pong\"")
        .replace("REQUEST", "{\"jsonrpc\":\"2.0\",\"id\":")
}

/// Values from the server that the client has to return.
#[derive(Default)]
struct Told {
    cursor: String,
    state: String,
    /// The task that was started last.
    task: String,
    /// The id of the last elicitation request.
    question: String,
    /// The request that the client does not answer.
    silent: &'static str,
}

/// Reads messages until the server is silent, and answers requests.
async fn receive(
    reader: &mut (impl tokio::io::AsyncBufRead + Unpin),
    writer: &mut (impl tokio::io::AsyncWrite + Unpin),
    told: &mut Told,
    fault: Option<Fault>,
) {
    let mut line = String::new();
    while let Ok(Ok(1..)) = timeout(QUIET, reader.read_line(&mut line)).await {
        let message: serde_json::Value = serde_json::from_str(&line).unwrap();
        let text = |value: &serde_json::Value| value.as_str().map(|text| format!("{text:?}"));
        told.cursor =
            text(&message["result"]["nextCursor"]).unwrap_or_else(|| std::mem::take(&mut told.cursor));
        told.state =
            text(&message["result"]["requestState"]).unwrap_or_else(|| std::mem::take(&mut told.state));
        told.task =
            text(&message["result"]["task"]["taskId"]).unwrap_or_else(|| std::mem::take(&mut told.task));
        if message["method"] == "elicitation/create" {
            told.question = message["id"].to_string();
        }
        if let Some(batch) = message.as_array() {
            let pong = |asked: &serde_json::Value| format!(r#"REQUEST{},"result":{{}}}}"#, asked["id"]);
            let pongs: Vec<String> = batch.iter().map(pong).collect();
            send(writer, &format!("[{}]", pongs.join(",")), told, fault).await;
        }
        let answer = ANSWERS.iter().find(|(asked, _)| line.contains(asked));
        let answer = answer.filter(|(asked, _)| *asked != told.silent);
        if let (Some((_, answer)), false) =
            (answer, !message["method"].is_string() || message["id"].is_null())
        {
            let task = &message["params"]["_meta"]["io.modelcontextprotocol/related-task"];
            let meta = format!(r#""result":{{"_meta":{{"io.modelcontextprotocol/related-task":{task}}},"#);
            let answer =
                if task.is_null() { (*answer).to_owned() } else { answer.replace(r#""result":{"#, &meta) };
            send(writer, &format!(r#"{{"jsonrpc":"2.0","id":{},{answer}"#, message["id"]), told, fault).await;
        }
        line.clear();
    }
}

async fn send(
    writer: &mut (impl tokio::io::AsyncWrite + Unpin),
    line: &str,
    told: &Told,
    fault: Option<Fault>,
) {
    let (mut line, mut changed) = (line.to_owned(), false);
    // A value that was not received cannot be returned.
    let lacks = |name: &str, given: &str| line.contains(name) && given.is_empty();
    if lacks("CURSOR", &told.cursor) || lacks("STATE", &told.state) || lacks("TASK", &told.task) {
        return;
    }
    if let Some((_, from, to)) = fault {
        let from = from.replace("LOOK", "mcpjoin-look-0");
        if let Some(dropped) = from.strip_prefix("DROP:")
            && line.replace("CURSOR", &told.cursor).contains(dropped)
        {
            return;
        }
        changed = line.contains(&from);
        line = line.replace(&from, to);
    }
    let line = written_out(&line).replace("CURSOR", &told.cursor).replace("STATE", &told.state);
    let line = line.replace("TASK", &told.task).replace("QUESTION", &told.question);
    if changed && line.is_empty() {
        return;
    }
    for part in line.split('\n') {
        match part.strip_prefix("WAIT ") {
            Some(seconds) => {
                let time = Duration::from_secs_f64(seconds.parse().unwrap());
                let _ = timeout(time, pending::<()>()).await;
            }
            None => {
                let _ = writer.write_all(format!("{part}\n").as_bytes()).await;
            }
        }
    }
}

async fn looked_at(lines: &[&str], fault: Option<Fault>) -> Trace {
    looked_at_by(ClientValidator::new(server()), lines, "", fault).await
}

/// Validates a client that does not answer the request `silent`.
pub(super) async fn looked_at_by(
    validator: ClientValidator,
    lines: &[&str],
    silent: &'static str,
    fault: Option<Fault>,
) -> Trace {
    let (theirs, ours) = tokio::io::duplex(64 * 1024);
    let client = async {
        let (reader, mut writer) = tokio::io::split(theirs);
        let mut reader = BufReader::new(reader);
        let mut told = Told { silent, ..Told::default() };
        for line in lines {
            send(&mut writer, line, &told, fault).await;
            receive(&mut reader, &mut writer, &mut told, fault).await;
        }
        // Responses are expected until this timeout.
        let _ = timeout(Duration::from_secs(12), receive(&mut reader, &mut writer, &mut told, fault)).await;
    };
    let looking = validator.serve(link(ours), pending());
    let (trace, ()) = tokio::join!(looking, client);
    trace
}

#[tokio::test(start_paused = true)]
async fn f27_a_client_without_a_fault_has_no_finding() {
    for lines in [&LEGACY[..], &MODERN[..]] {
        let report = checked(&looked_at(lines, None).await);
        assert_eq!(failed_rules(&report), [""; 0], "{:#?}", report.failed().collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn f27_each_fault_of_a_client_is_found_by_its_rule_and_by_no_other() {
    let mut wrong = Vec::new();
    let legacy = LEGACY_FAULTS.iter().map(|fault| (&LEGACY[..], *fault));
    let modern = MODERN_FAULTS.iter().map(|fault| (&MODERN[..], *fault));
    for (lines, fault) in legacy.chain(modern) {
        let report = checked(&looked_at(lines, Some(fault)).await);
        let failed_rules = failed_rules(&report);
        if failed_rules != [fault.0] {
            wrong.push(format!("{}: {failed_rules:?}", fault.0));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(start_paused = true)]
async fn f27_a_signal_before_the_end_of_input_is_found() {
    let (theirs, ours) = tokio::io::duplex(64 * 1024);
    let end = async {
        let _ = timeout(Duration::from_secs(1), pending::<()>()).await;
        StopReason::Signal(15)
    };
    let looking = ClientValidator::new(server()).serve(link(ours), end);
    let client = async {
        let (_reader, mut writer) = tokio::io::split(theirs);
        send(&mut writer, LEGACY[0], &Told::default(), None).await;
        pending::<()>().await;
    };
    let trace = tokio::select! {
        trace = looking => trace,
        () = client => unreachable!("it never ends"),
    };
    assert_eq!(failed_rules(&checked(&trace)), ["client-closes-input"]);
}
