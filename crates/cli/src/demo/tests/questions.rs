//! Tests of tools that send requests to the client.

use mcpjoin::proto::Era;
use serde_json::{Value, json};

use super::{Asked, ERAS, Wire, answering, call, refused, run, server, silent, text};

/// The only elicitation request that the client received.
fn only(asked: &Asked) -> Value {
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked[0].clone()
}

#[test]
fn tools_call_sampling() {
    run(async {
        for era in ERAS {
            let (client, asked) = answering(era).await;
            let result = call(&client, "test_sampling", json!({ "prompt": "Which?" })).await;
            assert_eq!(text(&result), "LLM response: Paris");
            let message = json!({ "role": "user", "content": { "type": "text", "text": "Which?" } });
            assert_eq!(only(&asked)["messages"], json!([message]));
            assert_eq!(only(&asked)["maxTokens"], 100);
        }
    });
}

#[test]
fn tools_call_elicitation() {
    run(async {
        for era in ERAS {
            let (client, asked) = answering(era).await;
            let result = call(&client, "test_elicitation", json!({ "message": "Who?" })).await;
            let expected = r#"User response: action: accept, content: {"username":"Ada","email":"so"}"#;
            assert_eq!(text(&result), expected);
            let question = only(&asked);
            assert_eq!(question["message"], "Who?");
            assert_eq!(question["requestedSchema"]["required"], json!(["username", "email"]));
            for field in ["username", "email"] {
                assert_eq!(question["requestedSchema"]["properties"][field]["type"], "string");
            }
        }
    });
}

#[test]
fn elicitation_sep1034_defaults() {
    run(async {
        for era in ERAS {
            let (client, asked) = answering(era).await;
            let result = call(&client, "test_elicitation_sep1034_defaults", json!({})).await;
            assert!(
                text(&result).starts_with("Elicitation completed: action=accept, content={"),
                "{result:?}"
            );
            let status = ["active", "inactive", "pending"];
            assert_eq!(
                only(&asked)["requestedSchema"]["properties"],
                json!({
                    "name": { "type": "string", "default": "John Doe" },
                    "age": { "type": "integer", "default": 30 },
                    "score": { "type": "number", "default": 95.5 },
                    "status": { "type": "string", "enum": status, "default": "active" },
                    "verified": { "type": "boolean", "default": true },
                })
            );
        }
    });
}

#[test]
fn elicitation_sep1330_enums() {
    run(async {
        for era in ERAS {
            let (client, asked) = answering(era).await;
            call(&client, "test_elicitation_sep1330_enums", json!({})).await;
            let values = ["option1", "option2", "option3"];
            let titled = |kind: &str| {
                json!([
                    { "const": "value1", "title": format!("First {kind}") },
                    { "const": "value2", "title": format!("Second {kind}") },
                    { "const": "value3", "title": format!("Third {kind}") },
                ])
            };
            assert_eq!(
                only(&asked)["requestedSchema"]["properties"],
                json!({
                    "untitledSingle": { "type": "string", "enum": values },
                    "titledSingle": { "type": "string", "oneOf": titled("Option") },
                    "legacyEnum": {
                        "type": "string", "enum": ["opt1", "opt2", "opt3"],
                        "enumNames": ["Option One", "Option Two", "Option Three"]
                    },
                    "untitledMulti": { "type": "array", "items": { "type": "string", "enum": values } },
                    "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
                })
            );
        }
    });
}

#[test]
fn server_stateless_a_stream_has_notifications_and_an_answer_and_no_requests() {
    run(async {
        let mut wire = Wire::able();
        let mut meta = super::meta(json!({ "elicitation": {} }));
        meta["progressToken"] = json!("p");
        wire.says(Some(meta));
        let result = wire.call("test_streaming_elicitation", json!({})).await;
        assert_eq!(result["resultType"], "input_required");
        assert_eq!(wire.received.len(), 1);
        assert_eq!(wire.received[0]["method"], "notifications/progress");
        let (client, _) = answering(Era::Legacy).await;
        let result = call(&client, "test_streaming_elicitation", json!({})).await;
        assert_eq!(text(&result), r#"Elicitation completed: action=accept, content={"name":"Ada"}"#);
    });
}

#[test]
fn server_stateless_missing_capability() {
    run(async {
        let mut wire = Wire::modern(&server(), json!({}));
        let answer = wire.ask("tools/call", json!({ "name": "test_missing_capability" })).await;
        assert_eq!(answer["error"]["code"], -32021);
        assert_eq!(answer["error"]["data"], json!({ "requiredCapabilities": { "sampling": {} } }));
        let legacy = call(&silent(Era::Legacy).await, "test_missing_capability", json!({})).await;
        assert_eq!(legacy.is_error, Some(true));
        assert_eq!(text(&legacy), "the client does not declare the capability `sampling`");
        for era in ERAS {
            let (client, _) = answering(era).await;
            assert_eq!(
                text(&call(&client, "test_missing_capability", json!({})).await),
                "This client has a model"
            );
        }
    });
}

#[test]
fn a_client_that_declares_nothing_is_asked_nothing() {
    run(async {
        for tool in ["test_sampling", "test_elicitation", "test_elicitation_sep1330_enums"] {
            let arguments = json!({ "prompt": "p", "message": "m" });
            let legacy = call(&silent(Era::Legacy).await, tool, arguments.clone()).await;
            assert!(text(&legacy).contains("does not declare the capability"), "{legacy:?}");
            assert_eq!(refused(&silent(Era::Modern).await, tool, arguments).await.code, -32021);
        }
    });
}
