//! Tool calls: the requests, and results as text, structure, failure and numbers.

use std::time::Duration;

use mcpjoin_orchestra::value::Numbers;
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::plugin_response::Response;
use mcpjoin_orchestra::wire::{PluginRequest, ToolResponse};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::{Act, Stage, Wire, done, healthy, of_json, quiet, run, usual};

/// Responds to every call with this result.
fn saying(result: Value) -> impl Fn(&PluginRequest) -> Act + Send + Sync + 'static {
    answering(ToolResponse { success: true, result: Some(of_json(&result)), ..ToolResponse::default() })
}

fn answering(response: ToolResponse) -> impl Fn(&PluginRequest) -> Act + Send + Sync + 'static {
    move |request| match request.request {
        Some(Request::ToolCall(_)) => Act::Say(Response::ToolCall(response.clone())),
        _ => healthy(),
    }
}

async fn result_of(script: impl Fn(&PluginRequest) -> Act + Send + Sync + 'static, version: &str) -> Value {
    let stage = Stage::new(script).await;
    let mut wire = Wire::opened(&stage.bridge, version).await;
    // Log messages are covered by other tests.
    wire.ask("logging/setLevel", &json!({ "level": "emergency" })).await;
    let mut answer = wire.call("x", &json!({})).await;
    answer["result"].take()
}

#[test]
fn r29_a_result_is_the_text_of_the_original_and_its_structure_beside_it() {
    let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
    let both = |said: &str, structure: Value| json!({ "content": [{ "type": "text", "text": said }], "structuredContent": structure });
    let cases = [
        (json!({ "text": "Created" }), text("Created")),
        // The original omits an empty text, which is not MCP.
        (json!({ "text": "" }), text("")),
        (json!({ "text": "a", "id": 7 }), both("a", json!({ "text": "a", "id": 7 }))),
        (json!({ "text": 5 }), both("", json!({ "text": 5 }))),
        (
            json!({ "b": [1, 1.5, true, null], "a": "<&>" }),
            both(
                r#"{"a":"\u003c\u0026\u003e","b":[1,1.5,true,null]}"#,
                json!({ "a": "<&>", "b": [1, 1.5, true, null] }),
            ),
        ),
        (json!({}), both("{}", json!({}))),
        // A member of that name from another program is not MCP content.
        (
            json!({ "text": "a", "content": [{ "type": "pear" }] }),
            both("a", json!({ "text": "a", "content": [{ "type": "pear" }] })),
        ),
    ];
    run(async {
        for (result, expected) in cases {
            assert_eq!(result_of(saying(result.clone()), "2025-06-18").await, expected, "{result}");
            let mut older = expected;
            older.as_object_mut().unwrap().remove("structuredContent");
            assert_eq!(result_of(saying(result.clone()), "2025-03-26").await, older, "{result}");
        }
        let nothing = ToolResponse { success: true, ..ToolResponse::default() };
        assert_eq!(result_of(answering(nothing), "2025-11-25").await, text(""));
    });
}

#[test]
fn blocks_that_our_host_has_passed_on_are_blocks_again() {
    let blocks = json!([
        { "type": "text", "text": "a" },
        { "type": "image", "data": "AAAA", "mimeType": "image/png" },
        { "type": "audio", "data": "AAAA", "mimeType": "audio/wav" },
    ]);
    let result =
        json!({ "content": blocks, "structuredContent": { "n": 1 }, "text": "a\n[image: image/png]" });
    run(async {
        let newest = result_of(saying(result.clone()), "2025-11-25").await;
        assert_eq!(newest, json!({ "content": blocks, "structuredContent": { "n": 1 } }));
        let oldest = result_of(saying(result), "2024-11-05").await;
        assert_eq!(oldest["content"][2]["type"], "text", "there is no sound in that revision");
    });
}

#[test]
fn r30_a_failed_tool_is_a_result_that_says_so_with_its_code() {
    let failed = |code: &str, message: &str| {
        answering(ToolResponse {
            error_code: code.into(),
            error_message: message.into(),
            ..ToolResponse::default()
        })
    };
    run(async {
        for version in ["2024-11-05", "2025-11-25"] {
            assert_eq!(
                result_of(failed("validation_error", ""), version).await,
                json!({
                    "content": [{ "type": "text", "text": "tool error: validation_error" }], "isError": true,
                    "_meta": { "orchestra/errorCode": "validation_error" },
                })
            );
            assert_eq!(
                result_of(failed("not_found", "no feature FEAT-1"), version).await,
                json!({
                    "content": [{ "type": "text", "text": "no feature FEAT-1" }], "isError": true,
                    "_meta": { "orchestra/errorCode": "not_found" },
                })
            );
        }
    });
}

#[test]
fn a_tool_that_does_not_exist_is_a_failed_result_and_an_error_to_who_wants_it_strict() {
    run(async {
        let stage = Stage::new(usual).await;
        let mut wire = stage.opened().await;
        let answer = wire.call("nobody", &json!({})).await;
        assert_eq!(answer["result"]["isError"], true, "as with the original: {answer}");
        assert_eq!(answer["result"]["_meta"]["orchestra/errorCode"], "tool_not_found");

        let mut options = quiet();
        options.strict = true;
        let stage = Stage::with(usual, options).await;
        let mut wire = stage.opened().await;
        let answer = wire.call("nobody", &json!({})).await;
        assert_eq!(
            answer["error"],
            json!({ "code": -32602, "message": "no plugin provides tool \"nobody\"" })
        );
        let answer = wire.call("fail", &json!({})).await;
        assert_eq!(answer["result"]["isError"], true, "a tool that fails is a result in any case");
    });
}

#[test]
fn r28_what_goes_out_is_what_the_original_sends() {
    run(async {
        let stage = Stage::new(usual).await;
        let mut wire = stage.opened().await;
        wire.ask("tools/call", &json!({ "name": "echo" })).await;
        wire.ask("tools/call", &json!({ "name": "echo", "arguments": null })).await;
        wire.call("echo", &json!({})).await;
        wire.ask(
            "tools/call",
            &json!({ "name": "echo", "arguments": { "k": null }, "_meta": {
                "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "orchestra/provider": "claude",
            } }),
        )
        .await;
        let calls = stage.scripted.calls();
        assert!(calls[0].arguments.is_none() && calls[1].arguments.is_none());
        assert!(calls[2].arguments.as_ref().unwrap().is_empty());
        assert_eq!(calls[3].arguments.as_ref().unwrap(), &of_json(&json!({ "k": null })));
        assert_eq!(calls[3].trace_parent, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        assert_eq!((calls[0].provider.as_str(), calls[3].provider.as_str()), ("", "claude"));
        for call in &calls {
            assert_eq!(call.caller_plugin, "transport.stdio");
            assert_eq!(call.session_id, calls[0].session_id);
        }
        let session = &calls[0].session_id;
        assert_eq!(session.len(), 36);
        assert_eq!((&session[14..15], &session[19..20]), ("4", "a"), "{session}");
        let ids: Vec<String> =
            stage.scripted.ids().into_iter().filter(|id| id.starts_with("stdio-tc-")).collect();
        assert_eq!(ids.len(), 4);
        assert!((1..4).all(|place| ids[place] != ids[place - 1]), "{ids:?}");
    });
}

#[test]
fn r33_parameters_that_are_wrong_are_not_sent() {
    run(async {
        let stage = Stage::new(usual).await;
        let mut wire = stage.opened().await;
        for (params, says) in [
            (json!({}), "missing required parameter: name"),
            (json!({ "name": "" }), "missing required parameter: name"),
            (json!({ "name": 7 }), "`name` is not a string"),
            (json!({ "name": "echo", "arguments": [1] }), "invalid arguments"),
            (json!({ "name": "echo", "arguments": "x" }), "invalid arguments"),
        ] {
            let answer = wire.ask("tools/call", &params).await;
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
            assert!(answer["error"]["message"].as_str().unwrap().contains(says), "{answer}");
        }
        assert!(stage.scripted.calls().is_empty());
    });
}

/// A number that no float represents, as it can only be written in a text.
const CALL: &str = r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"echo","arguments":{"rows":[{"id":12345678901234567890}]}}}"#;

#[test]
fn a_number_that_would_be_rounded_is_refused_with_its_place() {
    run(async {
        let stage = Stage::new(usual).await;
        let mut wire = stage.opened().await;
        wire.send_line(CALL).await;
        let answer = wire.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(9), &json!(-32602)));
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("rows[0].id: 12345678901234567890"), "{message}");
        assert!(stage.scripted.calls().is_empty());
    });
}

#[test]
fn with_lossy_numbers_it_is_rounded_as_by_the_original_and_that_is_reported() {
    run(async {
        let mut options = quiet();
        options.numbers = Numbers::Lossy;
        let stage = Stage::with(usual, options).await;
        let mut wire = stage.opened().await;
        wire.send_line(CALL).await;
        for says in ["in the arguments was rounded: rows[0].id: 12345678901234567890", "rows[0].id, which"] {
            let logged = wire.next().await;
            assert_eq!(logged["method"], "notifications/message");
            assert_eq!(logged["params"]["level"], "warning");
            assert!(logged["params"]["data"].as_str().unwrap().contains(says), "{logged}");
        }
        let answer = wire.next().await;
        let result = &answer["result"];
        assert_eq!(result["content"][0]["text"], r#"{"rows":[{"id":12345678901234567000}]}"#);
        assert_eq!(result["_meta"], json!({ "orchestra/numberBeyondExact": "rows[0].id" }));
    });
}

#[test]
fn a_number_that_a_float_holds_passes_at_every_size_and_is_reported_where_it_may_have_been_rounded() {
    run(async {
        let stage = Stage::new(usual).await;
        let mut wire = stage.opened().await;
        wire.ask("logging/setLevel", &json!({ "level": "emergency" })).await;
        for (number, text, structured, reported) in [
            ("9007199254740991", "9007199254740991", "9007199254740991", false),
            ("9007199254740994", "9007199254740994", "9007199254740994", true),
            ("1700000000000000000", "1700000000000000000", "1700000000000000000", true),
            // The text has the original's digits, which are those of another number.
            ("1152921504606846976", "1152921504606847000", "1152921504606846976", true),
            ("100000000000000000000", "100000000000000000000", "100000000000000000000", true),
            ("1000000000000000000000", "1e+21", "1e+21", false),
            ("1e300", "1e+300", "1e+300", false),
        ] {
            let params = format!(r#"{{"name":"echo","arguments":{{"k":{number}}}}}"#);
            wire.send_line(&format!(r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{params}}}"#))
                .await;
            let line = wire.line().await;
            assert!(line.contains(&format!(r#""text":"{{\"k\":{text}}}""#)), "{line}");
            assert!(line.contains(&format!(r#""structuredContent":{{"k":{structured}}}"#)), "{line}");
            assert_eq!(line.contains(r#""_meta":{"orchestra/numberBeyondExact":"k"}"#), reported, "{line}");
        }
    });
}

#[test]
fn progress_is_sent_to_callers_that_ask_for_it_while_a_tool_runs() {
    run(async {
        let (go, told) = watch::channel(false);
        let mut options = quiet();
        options.heartbeat = Duration::from_millis(20);
        let script = move |request: &PluginRequest| match request.request {
            Some(Request::ToolCall(_)) => Act::When(told.clone(), done(&json!({ "text": "at last" }))),
            _ => usual(request),
        };
        let stage = Stage::with(script, options).await;
        let mut wire = stage.opened().await;
        let id = wire.request("tools/call", &json!({ "name": "x", "_meta": { "progressToken": "p" } })).await;
        let mut last = 0.0;
        for _ in 0..3 {
            let beat = wire.next().await;
            assert_eq!(
                (&beat["method"], &beat["params"]["progressToken"]),
                (&json!("notifications/progress"), &json!("p"))
            );
            let progress = beat["params"]["progress"].as_f64().unwrap();
            assert!(progress > last, "{beat}");
            last = progress;
        }
        go.send(true).unwrap();
        loop {
            let message = wire.next().await;
            if message["id"] == id {
                assert_eq!(message["result"]["content"][0]["text"], "at last");
                break;
            }
            assert_eq!(message["method"], "notifications/progress");
        }
    });
}

#[test]
fn many_calls_at_once_are_all_answered_each_with_its_own() {
    run(async {
        let stage = Stage::new(usual).await;
        let mut wire = stage.opened().await;
        for number in 0..300 {
            wire.request(
                "tools/call",
                &json!({ "name": "echo", "arguments": { "text": format!("n{number}") } }),
            )
            .await;
        }
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..300 {
            let answer = wire.next().await;
            let id = answer["id"].as_i64().unwrap();
            // The first id is that of the initialization.
            assert_eq!(answer["result"]["content"][0]["text"], format!("n{}", id - 2), "{answer}");
            assert!(seen.insert(id));
        }
        assert_eq!(stage.scripted.calls().len(), 300);
    });
}

#[test]
fn in_the_modern_era_a_call_is_answered_as_well() {
    run(async {
        let stage = Stage::new(usual).await;
        let mut wire = Wire::new(&stage.bridge);
        let params = json!({ "name": "echo", "arguments": { "text": "hi" } });
        let answer = wire.ask_modern("tools/call", params).await;
        assert_eq!(answer["result"]["resultType"], "complete");
        assert_eq!(answer["result"]["content"], json!([{ "type": "text", "text": "hi" }]));
    });
}

#[test]
fn structure_that_does_not_fit_beside_its_text_is_left_out_and_that_is_said() {
    run(async {
        let stage = Stage::new(saying(json!({ "a": "x".repeat(9 * 1024 * 1024) }))).await;
        let mut wire = stage.opened().await;
        let answer = wire.call("x", &json!({})).await;
        assert!(answer["result"].get("structuredContent").is_none());
        assert!(answer["result"]["_meta"]["orchestra/structuredContentOmitted"].is_string());
        assert_eq!(answer["result"]["content"][0]["text"].as_str().unwrap().len(), 9 * 1024 * 1024 + 8);
    });
}
