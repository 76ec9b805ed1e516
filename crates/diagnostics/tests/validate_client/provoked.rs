//! Tests of situations that the validator provokes: correct clients pass, and for each rule a faulty client fails this rule
//! alone.

use std::future::pending;
use std::time::Duration;

use mcpjoin_diagnostics::validate::{ClientValidator, StopReason};
use mcpjoin_rules::{Outcome, Trace};
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::faults::{Fault, LEGACY, looked_at_by};
use super::{checked, failed_rules, link, server};

/// A client's lines, the request that it does not answer, its validator, and its faults.
struct Script {
    name: &'static str,
    validator: fn() -> ClientValidator,
    silent: &'static str,
    lines: &'static [&'static str],
    faults: &'static [Fault],
}

fn plain() -> ClientValidator {
    ClientValidator::new(server())
}

const SCRIPTS: [Script; 9] = [
    Script {
        name: "what it is asked and told",
        validator: plain,
        silent: "",
        lines: &[
            r#"REQUEST1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"sampling":{}},"clientInfo":{"name":"raw","version":"1"}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"REQUEST2,"method":"tools/list"}"#,
            "WAIT 6",
            r#"REQUEST4,"method":"tools/call","params":{"name":"quiet"}}"#,
            r#"REQUEST5,"method":"prompts/get","params":{"name":"still"}}"#,
            "WAIT 20",
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#,
            "WAIT 11",
            r#"REQUEST6,"method":"prompts/get","params":{"name":"still"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6}}"#,
            r#"REQUEST7,"method":"ping"}"#,
        ],
        faults: &[
            ("client-bad-cancel-ignored", "DROP:LOOK-after-cancel", ""),
            ("client-unknown-completion-ignored", "DROP:LOOK-after-elicitation", ""),
            (
                "client-undeclared-task-ignored",
                r#"LOOK-undeclared-task","result":{"roots":[{"uri":"file:///tmp"}]}}"#,
                r#"mcpjoin-look-0-undeclared-task","error":{"code":-32602,"message":"no"}}"#,
            ),
            (
                "client-task-capability-declared",
                r#"LOOK-undeclared-task","result":{"roots":[{"uri":"file:///tmp"}]}}"#,
                r#"mcpjoin-look-0-undeclared-task","result":{"task":{"taskId":"t"}}}"#,
            ),
            (
                "client-refuses-undeclared-sampling-tools",
                r#"LOOK-undeclared-sampling-tools","error":{"code":-32602,"message":"no"}}"#,
                r#"mcpjoin-look-0-undeclared-sampling-tools","result":{"role":"assistant","model":"m","content":{"type":"text","text":"a"}}}"#,
            ),
            (
                "client-root-change-told",
                r#"LOOK-list-1","result":{"roots":[{"uri":"file:///tmp"#,
                r#"mcpjoin-look-0-list-1","result":{"roots":[{"uri":"file:///other"#,
            ),
            ("client-elicitation-has-mode", r#"{"form":{},"url":{}}"#, r#"{"paper":{}}"#),
            ("client-cancels-after-timeout", r#"DROP:"requestId":5"#, ""),
        ],
    },
    Script {
        name: "what a model is asked with tools",
        validator: plain,
        silent: "",
        lines: &[
            r#"REQUEST1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{},"sampling":{"tools":{}}},"clientInfo":{"name":"raw","version":"1"}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"REQUEST2,"method":"tools/list"}"#,
        ],
        faults: &[
            (
                "client-sampling-results-checked",
                r#"LOOK-missing-tool-result","error":{"code":-32602"#,
                r#"mcpjoin-look-0-missing-tool-result","error":{"code":-32603"#,
            ),
            (
                "client-sampling-results-checked",
                r#"LOOK-mixed-tool-result","error":{"code":-32602,"message":"no"}}"#,
                r#"mcpjoin-look-0-mixed-tool-result","result":{"role":"assistant","model":"m","content":{"type":"text","text":"a"}}}"#,
            ),
        ],
    },
    Script {
        name: "arrays",
        validator: plain,
        silent: "",
        lines: &[
            r#"REQUEST1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"roots":{}},"clientInfo":{"name":"raw","version":"1"}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"REQUEST2,"method":"tools/list"}"#,
            "WAIT 11",
            r#"REQUEST3,"method":"ping"}"#,
        ],
        faults: &[("client-receives-batches", "DROP:LOOK-batch-1", "")],
    },
    Script {
        name: "tasks",
        validator: plain,
        silent: "",
        lines: &[
            LEGACY[0],
            LEGACY[1],
            r#"REQUEST2,"method":"tools/list"}"#,
            r#"REQUEST3,"method":"tools/list","params":{"cursor":CURSOR}}"#,
            r#"REQUEST4,"method":"tools/list","params":{"cursor":CURSOR}}"#,
            r#"REQUEST5,"method":"tools/list","params":{"cursor":CURSOR}}"#,
            r#"REQUEST6,"method":"prompts/get","params":{"name":"one"}}"#,
            r#"REQUEST7,"method":"tools/call","params":{"name":"slow","task":{"ttl":60000}}}"#,
            "WAIT 1",
            r#"REQUEST8,"method":"tasks/get","params":{"taskId":TASK}}"#,
            "WAIT 1",
            r#"REQUEST9,"method":"tasks/get","params":{"taskId":TASK}}"#,
            "WAIT 1",
            r#"REQUEST10,"method":"tasks/get","params":{"taskId":TASK}}"#,
            r#"REQUEST20,"method":"tools/call","params":{"name":"wonder","task":{"ttl":60000}}}"#,
            "WAIT 1",
            r#"REQUEST21,"method":"tasks/get","params":{"taskId":TASK}}"#,
            "WAIT 1",
            r#"REQUEST22,"method":"tasks/get","params":{"taskId":TASK}}"#,
            "WAIT 1",
            r#"REQUEST23,"method":"tasks/get","params":{"taskId":TASK}}"#,
            "WAIT 1",
            r#"REQUEST24,"method":"tasks/get","params":{"taskId":TASK}}"#,
            r#"REQUEST25,"method":"tasks/result","params":{"taskId":TASK}}"#,
            r#"REQUEST30,"method":"tools/call","params":{"name":"slow","task":{"ttl":60000}}}"#,
            "WAIT 2",
            r#"REQUEST31,"method":"tasks/cancel","params":{"taskId":TASK}}"#,
            r#"REQUEST40,"method":"tools/call","params":{"name":"quiet"}}"#,
            "WAIT 15",
            r#"REQUEST41,"method":"ping"}"#,
        ],
        faults: &[
            ("client-task-declared-alone", r#"{"name":"one"}"#, r#"{"name":"one","task":{}}"#),
            ("client-task-as-tool-says", r#"{"name":"quiet"}"#, r#"{"name":"quiet","task":{}}"#),
            (
                "client-respects-poll-interval",
                r#"REQUEST8,"method":"tasks/get","params":{"taskId":TASK}}"#,
                "REQUEST80,\"method\":\"tasks/get\",\"params\":{\"taskId\":TASK}}\n\
                 REQUEST81,\"method\":\"tasks/get\",\"params\":{\"taskId\":TASK}}\n\
                 REQUEST82,\"method\":\"tasks/get\",\"params\":{\"taskId\":TASK}}\n\
                 REQUEST83,\"method\":\"tasks/get\",\"params\":{\"taskId\":TASK}}",
            ),
            ("client-polls-to-the-end", "DROP:REQUEST10,", ""),
            ("client-fetches-when-input-required", "DROP:REQUEST25,", ""),
            (
                "client-related-task-named",
                r#""_meta":{"io.modelcontextprotocol/related-task":"#,
                r#""_meta":{"task":"#,
            ),
            (
                "client-no-related-task",
                r#"REQUEST8,"method":"tasks/get","params":{"taskId":TASK}}"#,
                r#"REQUEST8,"method":"tasks/get","params":{"taskId":TASK,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":TASK}}}}"#,
            ),
            (
                "client-cancels-tasks-by-method",
                r#"REQUEST31,"method":"tasks/cancel","params":{"taskId":TASK}}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":30}}"#,
            ),
        ],
    },
    Script {
        name: "a question that is cancelled",
        validator: plain,
        silent: "elicitation/create",
        lines: &[
            LEGACY[0],
            LEGACY[1],
            r#"REQUEST4,"method":"tools/call","params":{"name":"ask"}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}"#,
            "WAIT 2",
            r#"REQUEST5,"method":"ping"}"#,
        ],
        faults: &[(
            "client-cancelled-not-answered",
            r#"REQUEST5,"method":"ping"}"#,
            "REQUESTQUESTION,\"result\":{\"action\":\"cancel\"}}\nREQUEST5,\"method\":\"ping\"}",
        )],
    },
    Script {
        name: "a version that it has asked for",
        validator: plain,
        silent: "",
        lines: &[
            r#"REQUEST1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        ],
        faults: &[(
            "client-accepts-offered-version",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"REQUEST9,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}"#,
        )],
    },
    Script {
        name: "pages",
        validator: plain,
        silent: "",
        lines: &[
            r#"REQUEST1,"method":"server/discover","params":{"_meta":META}}"#,
            r#"REQUEST2,"method":"tools/list","params":{"_meta":META}}"#,
            "WAIT 1",
            r#"REQUEST3,"method":"tools/list","params":{"cursor":CURSOR,"_meta":META}}"#,
            "WAIT 1",
            r#"REQUEST4,"method":"tools/list","params":{"cursor":CURSOR,"_meta":META}}"#,
            r#"REQUEST5,"method":"tools/list","params":{"cursor":CURSOR,"_meta":META}}"#,
            r#"REQUEST6,"method":"tools/list","params":{"cursor":CURSOR,"_meta":META}}"#,
            r#"REQUEST7,"method":"prompts/list","params":{"_meta":META}}"#,
            r#"REQUEST8,"method":"prompts/list","params":{"cursor":CURSOR,"_meta":META}}"#,
            r#"REQUEST9,"method":"prompts/list","params":{"cursor":CURSOR,"_meta":META}}"#,
            "WAIT 4",
            r#"REQUEST10,"method":"tools/call","params":{"name":"quiet","_meta":META}}"#,
        ],
        faults: &[
            ("client-empty-cursor-goes-on", r#"DROP:"cursor":"""#, ""),
            ("client-lists-all-pages", r#""cursor":CURSOR,"#, ""),
            (
                "client-stops-without-cursor",
                r#"REQUEST9,"method":"prompts/list","params":{"cursor":CURSOR,"_meta":META}}"#,
                "REQUEST91,\"method\":\"prompts/list\",\"params\":{\"cursor\":CURSOR,\"_meta\":META}}\n\
                 REQUEST92,\"method\":\"prompts/list\",\"params\":{\"cursor\":CURSOR,\"_meta\":META}}\n\
                 REQUEST93,\"method\":\"prompts/list\",\"params\":{\"cursor\":CURSOR,\"_meta\":META}}",
            ),
            (
                "client-no-polling-by-ttl",
                r#"REQUEST8,"method":"prompts/list","params":{"cursor":CURSOR,"_meta":META}}"#,
                "REQUEST81,\"method\":\"prompts/list\",\"params\":{\"cursor\":CURSOR,\"_meta\":META}}\nWAIT 1.02\n\
                 REQUEST82,\"method\":\"prompts/list\",\"params\":{\"cursor\":CURSOR,\"_meta\":META}}\nWAIT 1.02\n\
                 REQUEST83,\"method\":\"prompts/list\",\"params\":{\"cursor\":CURSOR,\"_meta\":META}}\nWAIT 1.02\n\
                 REQUEST84,\"method\":\"prompts/list\",\"params\":{\"cursor\":CURSOR,\"_meta\":META}}",
            ),
        ],
    },
    Script {
        name: "a cursor that is refused",
        validator: || plain().disturbing(),
        silent: "",
        lines: &[
            r#"REQUEST1,"method":"server/discover","params":{"_meta":META}}"#,
            r#"REQUEST2,"method":"prompts/list","params":{"_meta":META}}"#,
            r#"REQUEST3,"method":"prompts/list","params":{"cursor":CURSOR,"_meta":META}}"#,
            r#"REQUEST4,"method":"prompts/list","params":{"cursor":CURSOR,"_meta":META}}"#,
            r#"REQUEST5,"method":"prompts/list","params":{"_meta":META}}"#,
        ],
        faults: &[(
            "client-restarts-list-after-bad-cursor",
            r#"REQUEST5,"method":"prompts/list","params":{"_meta":META}}"#,
            r#"REQUEST5,"method":"prompts/list","params":{"cursor":"","_meta":META}}"#,
        )],
    },
    Script {
        name: "a server of the other era",
        validator: || plain().refusing(),
        silent: "",
        lines: &[
            r#"REQUEST1,"method":"server/discover","params":{"_meta":META}}"#,
            r#"REQUEST2,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}"#,
        ],
        faults: &[(
            "client-falls-back-on-any-error",
            r#"REQUEST2,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}"#,
            concat!(
                r#"REQUEST2,"method":"tools/list","params":{"_meta":META}}"#,
                "\nWAIT 1\n",
                r#"REQUEST3,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}"#,
            ),
        )],
    },
];

#[tokio::test(start_paused = true)]
async fn f27_what_a_client_makes_of_what_is_provoked_is_found_by_its_rule_and_by_no_other() {
    let mut wrong = Vec::new();
    for script in &SCRIPTS {
        let clean = checked(&looked_at_by((script.validator)(), script.lines, script.silent, None).await);
        if !failed_rules(&clean).is_empty() {
            wrong.push(format!("{}: {:#?}", script.name, clean.failed().collect::<Vec<_>>()));
        }
        for fault in script.faults {
            let own = clean.results.iter().find(|result| result.rule.slug == fault.0).unwrap();
            if own.outcome != Outcome::Passed && fault.0 != "client-root-change-told" {
                wrong.push(format!("{} is not put to the test: {:?}", fault.0, own.outcome));
            }
            let trace = looked_at_by((script.validator)(), script.lines, script.silent, Some(*fault)).await;
            let failed_rules = failed_rules(&checked(&trace));
            if failed_rules != [fault.0] {
                wrong.push(format!("{}: {failed_rules:?}", fault.0));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A client that closes the validator's input, and sends a signal after that time.
async fn leaves(after: Duration) -> Trace {
    let (theirs, ours) = tokio::io::duplex(64 * 1024);
    let end = async {
        let _ = timeout(Duration::from_secs(1) + after, pending::<()>()).await;
        StopReason::Signal(15)
    };
    let client = async {
        let (_reader, mut writer) = tokio::io::split(theirs);
        let _ = writer.write_all(format!("{}\n", LEGACY[0]).as_bytes()).await;
        let _ = timeout(Duration::from_secs(1), pending::<()>()).await;
        let _ = writer.shutdown().await;
        pending::<()>().await;
    };
    tokio::select! {
        trace = plain().serve(link(ours), end) => trace,
        () = client => unreachable!("it never ends"),
    }
}

#[tokio::test(start_paused = true)]
async fn f27_a_signal_with_the_end_of_input_is_found_and_a_later_one_is_none() {
    assert_eq!(failed_rules(&checked(&leaves(Duration::from_millis(20)).await)), ["client-waits-for-exit"]);
    assert_eq!(failed_rules(&checked(&leaves(Duration::ZERO).await)), ["client-waits-for-exit"]);
    assert_eq!(failed_rules(&checked(&leaves(Duration::from_millis(200)).await)), [""; 0]);
}
