//! Tests of tools that return content.

use mcpjoin::proto::Era;
use serde_json::{Value, json};

use super::{ERAS, answering, call, run, silent, text, value};
use crate::demo::{PICTURE, SOUND};

/// Asserts that a tool without arguments returns this content in both eras.
fn gives(tool: &str, content: &Value) {
    run(async {
        for era in ERAS {
            let result = call(&silent(era).await, tool, json!({})).await;
            assert_eq!((value(&result.content), result.is_error), (content.clone(), None), "{era:?}");
        }
    });
}

#[test]
fn tools_call_simple_text() {
    let text = "This is a simple text response for testing.";
    gives("test_simple_text", &json!([{ "type": "text", "text": text }]));
}

#[test]
fn tools_call_image() {
    gives("test_image_content", &json!([{ "type": "image", "data": PICTURE, "mimeType": "image/png" }]));
}

#[test]
fn tools_call_audio() {
    gives("test_audio_content", &json!([{ "type": "audio", "data": SOUND, "mimeType": "audio/wav" }]));
}

#[test]
fn tools_call_embedded_resource() {
    let resource = json!({
        "uri": "test://embedded-resource", "mimeType": "text/plain",
        "text": "This is an embedded resource content."
    });
    gives("test_embedded_resource", &json!([{ "type": "resource", "resource": resource }]));
}

#[test]
fn tools_call_mixed_content() {
    let resource = json!({
        "uri": "test://mixed-content-resource", "mimeType": "application/json",
        "text": r#"{"test":"data","value":123}"#
    });
    gives(
        "test_multiple_content_types",
        &json!([
            { "type": "text", "text": "Multiple content types test:" },
            { "type": "image", "data": PICTURE, "mimeType": "image/png" },
            { "type": "resource", "resource": resource },
        ]),
    );
}

#[test]
fn a_link_leads_to_a_resource_that_can_be_read() {
    let link = json!({
        "type": "resource_link", "uri": "test://static-text", "name": "static-text", "mimeType": "text/plain"
    });
    gives("test_resource_link", &json!([link]));
}

#[test]
fn tools_call_error() {
    run(async {
        for era in ERAS {
            let result = call(&silent(era).await, "test_error_handling", json!({})).await;
            assert_eq!(result.is_error, Some(true));
            assert_eq!(text(&result), "This tool intentionally returns an error for testing");
        }
    });
}

#[test]
fn what_is_said_comes_back_and_sums_are_right_and_structured() {
    run(async {
        for era in ERAS {
            let client = silent(era).await;
            let odd = "é\u{1F600}\n\"\\";
            assert_eq!(text(&call(&client, "echo", json!({ "message": odd })).await), odd);
            let sum = call(&client, "add", json!({ "a": 1.5, "b": 40 })).await;
            assert_eq!(value(&sum.structured_content), json!({ "sum": 41.5 }));
            let wrong = call(&client, "add", json!({ "a": "one", "b": 1 })).await;
            assert_eq!(wrong.is_error, Some(true));
        }
    });
}

/// No tool fails unexpectedly: each tool without required arguments is called in both eras.
#[test]
fn every_tool_can_be_called_in_both_eras() {
    run(async {
        for era in ERAS {
            let (client, _) = answering(era).await;
            for tool in client.list_tools().all().await.unwrap() {
                let arguments = json!({
                    "message": "m", "prompt": "p", "a": 1, "b": 2, "name": "n", "seconds": 0, "filename": "f",
                    "region": "r"
                });
                let strict = tool.name == "json_schema_2020_12_tool";
                let arguments = if strict { json!({ "email": "e" }) } else { arguments };
                let called = client.call_tool(&tool.name, Some(super::raw(&arguments))).await;
                let fails = matches!(tool.name.as_str(), "test_error_handling" | "failing_job");
                let needs_tasks = matches!(tool.name.as_str(), "failing_job" | "test_tool_with_task");
                match called {
                    Ok(result) => {
                        assert_eq!(result.is_error == Some(true), fails, "{era:?} {}: {result:?}", tool.name);
                    }
                    Err(error) => {
                        let code = error.remote().map(|error| error.code);
                        let expected = match era {
                            _ if !needs_tasks => -32603,
                            // The tool requires a task, and the call requested none.
                            Era::Legacy => -32601,
                            Era::Modern => -32021,
                        };
                        assert!(needs_tasks || tool.name == "protocol_error_job", "{}: {error}", tool.name);
                        assert_eq!(code, Some(expected), "{era:?} {}", tool.name);
                    }
                }
            }
        }
    });
}
