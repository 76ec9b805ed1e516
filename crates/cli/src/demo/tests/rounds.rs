//! Tests of tools that request input explicitly: line by line in the modern era, and through clients of both eras.

use mcpjoin::proto::types::{ElicitAction, ElicitResult};
use serde_json::{Value, json};

use super::{Asked, ERAS, Wire, answering, builder, call, connect, run, server, silent, text, value};

/// Calls the tool of that name with these responses and this state.
async fn round(wire: &mut Wire, tool: &str, responses: Value, state: &Value) -> Value {
    let mut params = json!({ "name": format!("test_input_required_result_{tool}"), "arguments": {} });
    if !responses.is_null() {
        params["inputResponses"] = responses;
    }
    if !state.is_null() {
        params["requestState"] = state.clone();
    }
    wire.ask("tools/call", params).await
}

/// The result of a call that requires input.
async fn asks(wire: &mut Wire, tool: &str, responses: Value, state: &Value) -> Value {
    let answer = round(wire, tool, responses, state).await;
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    answer["result"].clone()
}

/// The text of the final result.
async fn ends(wire: &mut Wire, tool: &str, responses: Value, state: &Value) -> String {
    let answer = round(wire, tool, responses, state).await;
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

fn elicited(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

fn sampled(text: &str) -> Value {
    json!({ "role": "assistant", "content": { "type": "text", "text": text }, "model": "m" })
}

fn roots() -> Value {
    json!({ "roots": [{ "uri": "file:///test/root", "name": "Test Root" }] })
}

const NONE: Value = Value::Null;

#[test]
fn input_required_result_basic_elicitation() {
    run(async {
        let mut wire = Wire::able();
        let first = asks(&mut wire, "elicitation", NONE, &NONE).await;
        let question = &first["inputRequests"]["user_name"];
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(question["params"]["message"], "What is your name?");
        assert_eq!(
            question["params"]["requestedSchema"],
            json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] })
        );
        let answer = json!({ "user_name": elicited(json!({ "name": "Alice" })) });
        assert_eq!(ends(&mut wire, "elicitation", answer, &NONE).await, "Hello, Alice!");
        let declined = json!({ "user_name": { "action": "decline" } });
        assert_eq!(ends(&mut wire, "elicitation", declined, &NONE).await, "Hello, (not said)!");
    });
}

#[test]
fn input_required_result_basic_sampling() {
    run(async {
        let mut wire = Wire::able();
        let first = asks(&mut wire, "sampling", NONE, &NONE).await;
        let question = &first["inputRequests"]["capital_question"];
        assert_eq!(question["method"], "sampling/createMessage");
        assert_eq!(question["params"]["messages"][0]["content"]["text"], "What is the capital of France?");
        let answer = json!({ "capital_question": sampled("Paris.") });
        assert_eq!(ends(&mut wire, "sampling", answer, &NONE).await, "The model says: Paris.");
    });
}

#[test]
fn input_required_result_basic_list_roots() {
    run(async {
        let mut wire = Wire::able();
        let first = asks(&mut wire, "list_roots", NONE, &NONE).await;
        assert_eq!(first["inputRequests"], json!({ "client_roots": { "method": "roots/list" } }));
        let answer = json!({ "client_roots": roots() });
        assert_eq!(ends(&mut wire, "list_roots", answer, &NONE).await, "Roots: file:///test/root");
    });
}

#[test]
fn input_required_result_request_state() {
    run(async {
        let mut wire = Wire::able();
        let first = asks(&mut wire, "request_state", NONE, &NONE).await;
        assert!(first["requestState"].is_string());
        let answer = json!({ "confirm": elicited(json!({ "ok": true })) });
        let last = ends(&mut wire, "request_state", answer.clone(), &first["requestState"]).await;
        assert!(last.contains("state-ok"), "{last}");
        // A response without the state belongs to no request of this tool.
        asks(&mut wire, "request_state", answer, &NONE).await;
    });
}

#[test]
fn input_required_result_tampered_state() {
    run(async {
        let mut wire = Wire::able();
        let first = asks(&mut wire, "tampered_state", NONE, &NONE).await;
        let state = first["requestState"].as_str().unwrap().to_owned();
        let answer = json!({ "confirm": elicited(json!({ "ok": true })) });
        let other = if state.starts_with('0') { '1' } else { '0' };
        for tampered in [
            format!("{state}-TAMPERED"),
            format!("{other}{}", &state[1..]),
            state[..state.len() - 1].to_owned(),
        ] {
            assert_ne!(tampered, state);
            let refused = round(&mut wire, "tampered_state", answer.clone(), &json!(tampered)).await;
            assert_eq!(refused["error"]["code"], -32602, "{tampered}");
        }
        // The state is not valid for another tool.
        let refused = round(&mut wire, "request_state", answer.clone(), &json!(state)).await;
        assert_eq!(refused["error"]["code"], -32602);
        assert!(ends(&mut wire, "tampered_state", answer, &json!(state)).await.contains("state-ok"));
    });
}

#[test]
fn input_required_result_multiple_input_requests() {
    run(async {
        let mut wire = Wire::able();
        let first = asks(&mut wire, "multiple_inputs", NONE, &NONE).await;
        let methods: Vec<_> = ["user_name", "greeting", "client_roots"]
            .map(|name| first["inputRequests"][name]["method"].as_str().unwrap().to_owned())
            .into();
        assert_eq!(methods, ["elicitation/create", "sampling/createMessage", "roots/list"]);
        let state = first["requestState"].clone();
        let mut answers =
            json!({ "user_name": elicited(json!({ "name": "Alice" })), "client_roots": roots() });
        asks(&mut wire, "multiple_inputs", answers.clone(), &state).await;
        answers["greeting"] = sampled("Hello there!");
        let last = ends(&mut wire, "multiple_inputs", answers, &state).await;
        assert_eq!(last, "Alice: Hello there!. Roots: file:///test/root");
    });
}

#[test]
fn input_required_result_multi_round() {
    run(async {
        let mut wire = Wire::able();
        let first = asks(&mut wire, "multi_round", NONE, &NONE).await;
        assert_eq!(first["inputRequests"]["step1"]["params"]["message"], "Step 1: What is your name?");
        let name = json!({ "step1": elicited(json!({ "name": "Alice" })) });
        let second = asks(&mut wire, "multi_round", name, &first["requestState"]).await;
        assert_eq!(
            second["inputRequests"]["step2"]["params"]["message"],
            "Step 2: What is your favorite color?"
        );
        assert_ne!(first["requestState"], second["requestState"]);
        for (step, state) in [("step1", &first), ("step2", &second)] {
            let again = asks(&mut wire, "multi_round", json!({}), &state["requestState"]).await;
            assert!(again["inputRequests"][step].is_object(), "{again}");
        }
        let color = json!({ "step2": elicited(json!({ "color": "blue" })) });
        assert_eq!(ends(&mut wire, "multi_round", color, &second["requestState"]).await, "Alice likes blue");
    });
}

#[test]
fn input_required_result_missing_input_response() {
    run(async {
        let mut wire = Wire::able();
        for responses in [json!({}), json!({ "wrong_key": elicited(json!({ "data": "wrong" })) })] {
            let again = asks(&mut wire, "elicitation", responses, &NONE).await;
            assert!(again["inputRequests"]["user_name"].is_object());
        }
    });
}

#[test]
fn input_required_result_non_tool_request() {
    run(async {
        let mut wire = Wire::able();
        let name = json!({ "name": "test_input_required_result_prompt" });
        let first = wire.result("prompts/get", name.clone()).await;
        assert_eq!(first["resultType"], "input_required");
        let question = &first["inputRequests"]["user_context"]["params"];
        assert_eq!(question["message"], "What context should the prompt use?");
        let mut params = name;
        params["inputResponses"] = json!({ "user_context": elicited(json!({ "context": "tests" })) });
        let last = wire.result("prompts/get", params).await;
        assert_eq!(last["resultType"], "complete");
        assert_eq!(last["messages"][0]["content"]["text"], "A prompt for this context: tests");
        for era in ERAS {
            let prompt = answering(era).await.0.get_prompt("test_input_required_result_prompt", ()).await;
            let prompt = prompt.unwrap();
            assert_eq!(prompt.messages[0].content.as_text(), Some("A prompt for this context: so"));
        }
    });
}

#[test]
fn input_required_result_result_type() {
    run(async {
        let mut wire = Wire::able();
        assert_eq!(asks(&mut wire, "elicitation", NONE, &NONE).await["resultType"], "input_required");
        assert_eq!(wire.call("greet", json!({ "name": "x" })).await["resultType"], "complete");
    });
}

#[test]
fn input_required_result_unsupported_methods() {
    run(async {
        let mut wire = Wire::able();
        for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
            let brought = json!({ "inputResponses": {}, "requestState": "x" });
            assert_eq!(wire.result(method, brought).await["resultType"], "complete", "{method}");
        }
    });
}

#[test]
fn input_required_result_capability_check() {
    run(async {
        for (declared, asked) in [
            (json!({ "sampling": {} }), vec!["greeting"]),
            (json!({ "elicitation": {} }), vec!["user_name"]),
            (json!({ "roots": {}, "elicitation": { "url": {} } }), vec!["client_roots"]),
            (
                json!({ "roots": {}, "elicitation": {}, "sampling": {} }),
                vec!["user_name", "greeting", "client_roots"],
            ),
        ] {
            let mut wire = Wire::modern(&server(), declared.clone());
            let first = asks(&mut wire, "capabilities", NONE, &NONE).await;
            let names: Vec<_> =
                first["inputRequests"].as_object().unwrap().keys().map(String::as_str).collect();
            let mut expected = asked;
            expected.sort_unstable();
            let mut sorted = names;
            sorted.sort_unstable();
            assert_eq!(sorted, expected, "{declared}");
        }
        for era in ERAS {
            let nothing =
                call(&silent(era).await, "test_input_required_result_capabilities", json!({})).await;
            assert_eq!(text(&nothing), "This client answers no questions");
        }
    });
}

#[test]
fn input_required_result_ignore_extra_params() {
    run(async {
        let mut wire = Wire::able();
        let answers = json!({
            "user_name": elicited(json!({ "name": "Alice" })),
            "unknown_extra_key": elicited(json!({ "foo": "bar" })),
            "another_unexpected": elicited(json!({ "baz": 123 }))
        });
        assert_eq!(ends(&mut wire, "elicitation", answers, &NONE).await, "Hello, Alice!");
    });
}

#[test]
fn input_required_result_validate_input() {
    run(async {
        let mut wire = Wire::able();
        for malformed in [
            json!({ "user_name": 12345 }),
            json!({ "user_name": { "content": {} } }),
            json!({ "user_name": { "action": "accept", "content": [] } }),
            json!("user_name"),
        ] {
            let answer = round(&mut wire, "elicitation", malformed.clone(), &NONE).await;
            assert_eq!(answer["error"]["code"], -32602, "{malformed}");
        }
        let nothing = json!({ "name": "test_input_required_result_elicitation", "inputResponses": null });
        assert_eq!(wire.result("tools/call", nothing).await["resultType"], "input_required");
    });
}

#[test]
fn every_round_is_played_in_both_eras() {
    run(async {
        for era in ERAS {
            let (client, _) = answering(era).await;
            for (tool, said) in [
                ("elicitation", "Hello, Ada!"),
                ("sampling", "The model says: Paris"),
                ("list_roots", "Roots: file:///home"),
                ("request_state", "state-ok, and the user's answer is accept"),
                ("tampered_state", "state-ok, and the user's answer is accept"),
                ("multiple_inputs", "Ada: Paris. Roots: file:///home"),
                ("multi_round", "Ada likes blue"),
                ("capabilities", "Answered: user_name, greeting, client_roots"),
            ] {
                let result = call(&client, &format!("test_input_required_result_{tool}"), json!({})).await;
                assert_eq!(text(&result), said, "{era:?} {tool}");
            }
        }
    });
}

#[test]
fn who_says_no_is_not_asked_again() {
    run(async {
        for era in ERAS {
            let asked = Asked::default();
            let declining = builder(era).elicitation({
                let asked = asked.clone();
                move |params| {
                    asked.lock().unwrap().push(value(&params)["message"].clone());
                    async { Ok(ElicitResult::new(ElicitAction::Decline)) }
                }
            });
            let client = connect(&server(), declining).await;
            let result = call(&client, "test_input_required_result_multi_round", json!({})).await;
            assert_eq!(text(&result), "(not said) likes (not said)");
            let asked = asked.lock().unwrap().clone();
            assert_eq!(
                asked,
                ["Step 1: What is your name?", "Step 2: What is your favorite color?"],
                "{era:?}"
            );
        }
    });
}
