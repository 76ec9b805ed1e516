//! Tests of tools with special input schemas, and of the list of tools.

use serde_json::{Value, json};

use super::{ERAS, call, run, silent, text, value};

#[test]
fn json_schema_2020_12() {
    run(async {
        for era in ERAS {
            let client = silent(era).await;
            let tools = client.list_tools().all().await.unwrap();
            let tool = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool").unwrap();
            let address = json!({
                "$anchor": "addressDef", "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } }
            });
            assert_eq!(
                value(&tool.input_schema),
                json!({
                    "$schema": "https://json-schema.org/draft/2020-12/schema",
                    "type": "object",
                    "$defs": { "address": address },
                    "properties": {
                        "name": { "type": "string" },
                        "address": { "$ref": "#/$defs/address" },
                        "contactMethod": { "type": "string", "enum": ["phone", "email"] },
                        "phone": { "type": "string" },
                        "email": { "type": "string" }
                    },
                    "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
                    "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
                    "then": { "required": ["phone"] },
                    "else": { "required": ["email"] },
                    "additionalProperties": false
                })
            );
        }
    });
}

#[test]
fn the_handler_asks_for_what_the_schema_asks_for() {
    run(async {
        for era in ERAS {
            let client = silent(era).await;
            for (arguments, said) in [
                (json!({ "email": "a@b" }), Ok("Somebody can be reached at a@b")),
                (
                    json!({ "name": "Ada", "address": { "city": "Ulm" }, "contactMethod": "phone", "phone": "1" }),
                    Ok("Ada in Ulm can be reached at 1"),
                ),
                (
                    json!({ "contactMethod": "email", "email": "a", "phone": "1" }),
                    Ok("Somebody can be reached at a"),
                ),
                (json!({ "contactMethod": "phone", "email": "a" }), Err("`phone` is missing")),
                (json!({ "phone": "1" }), Err("`email` is missing")),
                (json!({}), Err("`email` is missing")),
            ] {
                let result = call(&client, "json_schema_2020_12_tool", arguments).await;
                assert_eq!(result.is_error == Some(true), said.is_err(), "{result:?}");
                assert_eq!(text(&result), said.unwrap_or_else(|said| said));
            }
            for wrong in [json!({ "email": "a", "more": 1 }), json!({ "email": "a", "contactMethod": "fax" })]
            {
                let result = call(&client, "json_schema_2020_12_tool", wrong).await;
                assert_eq!(result.is_error, Some(true));
            }
        }
    });
}

#[test]
fn an_argument_says_which_header_repeats_it() {
    run(async {
        for era in ERAS {
            let client = silent(era).await;
            let tools = client.list_tools().all().await.unwrap();
            let tool = tools.iter().find(|tool| tool.name == "test_custom_header").unwrap();
            let region = &value(&tool.input_schema)["properties"]["region"];
            assert_eq!((&region["type"], &region["x-mcp-header"]), (&json!("string"), &json!("Region")));
            let others =
                tools.iter().filter(|tool| value(&tool.input_schema).to_string().contains("x-mcp-header"));
            assert_eq!(others.count(), 1);
            let result = call(&client, "test_custom_header", json!({ "region": "Hello" })).await;
            assert_eq!(text(&result), "Handled in Hello");
        }
    });
}

/// What a model requires of a tool: a name that every client accepts, a description, and a schema of an object.
#[test]
fn tools_list() {
    run(async {
        let mut names = Vec::new();
        for era in ERAS {
            let client = silent(era).await;
            let tools = client.list_tools().all().await.unwrap();
            assert_eq!(tools.len(), 40);
            for tool in &tools {
                let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
                assert!(
                    (1..=128).contains(&tool.name.len()) && tool.name.bytes().all(allowed),
                    "{}",
                    tool.name
                );
                assert!(tool.description.as_ref().is_some_and(|text| !text.is_empty()), "{}", tool.name);
                assert_eq!(value(&tool.input_schema)["type"], "object", "{}", tool.name);
                let arguments = &value(&tool.input_schema)["properties"];
                let described = arguments.as_object().into_iter().flatten();
                if tool.name != "json_schema_2020_12_tool" {
                    for (name, argument) in described {
                        assert_ne!(argument["description"], Value::Null, "{}: {name}", tool.name);
                        // JSON Schema allows several types, but some model providers do not.
                        assert!(argument["type"].is_string(), "{}: {name}", tool.name);
                    }
                }
            }
            names.push(tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>());
            let again = client.list_tools().all().await.unwrap();
            names.push(again.into_iter().map(|tool| tool.name).collect());
        }
        assert!(names.iter().all(|list| list == &names[0]), "the order stays: {names:?}");
        for name in EXPECTED {
            assert!(names[0].iter().any(|known| known == name), "{name} is missing");
        }
    });
}

/// The tools that the official suite expects.
const EXPECTED: [&str; 35] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_error_handling",
    "test_sampling",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_reconnection",
    "json_schema_2020_12_tool",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_logging_tool",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "test_custom_header",
    "greet",
    "slow_compute",
    "failing_job",
    "protocol_error_job",
    "confirm_delete",
    "multi_input",
    "test_tool_with_task",
];
