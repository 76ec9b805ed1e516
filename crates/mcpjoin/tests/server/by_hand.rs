//! Tests of handlers that request input by hand, with their own names and state: written for the modern era, and emulated
//! in the others.

use std::time::Duration;

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{
    ClientCapabilities, ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, ElicitationSchema,
    InputRequests, InputRequired, ListRootsParams, ListRootsResult, Members, Prompt, Resource, Root,
    SamplingCapability,
};
use mcpjoin::server::{Context, HandlerError, InputError, NoArguments, Server, tool};
use serde_json::{Value, json};

use crate::{BOTH_ERAS, Wire, ask, builder, call, connect, run, text};

fn question(name: &str, message: &str) -> InputRequests {
    let form = ElicitFormParams::new(message, ElicitationSchema::new(Members::new()));
    InputRequests::new().with(name, form.into())
}

/// Requests two inputs in one round, then a third, and keeps its progress in the state.
async fn journey(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    let Some(so_far) = cx.open_request_state::<String>()? else {
        let roots = cx.input_response::<ListRootsResult>("where")?;
        let (Some(who), Some(roots)) = (cx.input_response::<ElicitResult>("who")?, roots) else {
            let both = question("who", "Who?").with("where", ListRootsParams::default().into());
            return Err(HandlerError::need_input(InputRequired::default().with_input_requests(both)));
        };
        let state = cx.seal_request_state(&format!("{} in {}", who.action.as_str(), roots.roots[0].uri))?;
        let last = InputRequired::default().with_input_requests(question("sure", "Sure?"));
        return Err(HandlerError::need_input(last.with_request_state(state)));
    };
    let Some(sure) = cx.input_response::<ElicitResult>("sure")? else {
        let again = InputRequired::default().with_input_requests(question("sure", "Sure?"));
        return Err(HandlerError::need_input(again.with_request_state(cx.seal_request_state(&so_far)?)));
    };
    Ok(format!("{so_far}: {}", sure.action.as_str()))
}

async fn who(cx: Context) -> Result<String, HandlerError> {
    match cx.input_response::<ElicitResult>("who")? {
        Some(who) => Ok(who.action.as_str().to_owned()),
        None => {
            let input = InputRequired::default().with_input_requests(question("who", "Who?"));
            Err(HandlerError::need_input(input))
        }
    }
}

fn server() -> Server {
    Server::builder("s", "1")
        .tool(tool("journey"), journey)
        .tool(tool("later").as_task(), journey)
        .tool(tool("who"), async |_: NoArguments, cx| who(cx).await)
        .tool(tool("output"), async |_: NoArguments, cx: Context| -> Result<InputRequired, InputError> {
            assert_eq!(cx.input_responses()?, None, "it never gets further");
            Ok(InputRequired::default().with_input_requests(question("refused", "Refuse?")))
        })
        .tool(tool("never-content"), async |_: NoArguments, _| {
            InputRequired::default().with_input_requests(question("who", "Who?"))
        })
        .tool(tool("put-off"), async |_: NoArguments, cx: Context| {
            let tried: u64 = cx.open_request_state()?.unwrap_or(0);
            if tried == 3 {
                return Ok("now");
            }
            let state = cx.seal_request_state(&(tried + 1))?;
            Err(HandlerError::need_input(InputRequired::default().with_request_state(state)))
        })
        .tool(tool("never"), async |_: NoArguments, _| InputRequired::default())
        .tool(tool("able"), async |_: NoArguments, cx: Context| {
            cx.may_ask(&ListRootsParams::default().into()).to_string()
        })
        .tool(tool("needs"), async |_: NoArguments, cx: Context| {
            cx.require(&ClientCapabilities::default().with_sampling(SamplingCapability::default()))?;
            Ok::<_, HandlerError>("there")
        })
        .prompt(Prompt::new("p"), async |_, cx| who(cx).await)
        .resource(Resource::new("x://1", "1"), async |_, cx| who(cx).await)
        .build()
        .unwrap()
}

fn answering(era: Era) -> ClientBuilder {
    builder().era(EraChoice::Only(era)).roots(vec![Root::new("file:///home")]).elicitation(
        |params| async move {
            match params {
                ElicitParams::Form(form) if form.message == "Refuse?" => {
                    Err(mcpjoin::proto::ErrorObject::internal("nobody is there"))
                }
                _ => Ok(ElicitResult::new(ElicitAction::Accept)),
            }
        },
    )
}

#[test]
fn questions_by_hand_are_answered_in_both_eras() {
    run(async {
        for era in BOTH_ERAS {
            let client = connect(&server(), answering(era)).await;
            let result = client.call_tool("journey", ()).await.unwrap();
            assert_eq!(result.content[0].as_text(), Some("accept in file:///home: accept"));
            let prompt = client.get_prompt("p", ()).await.unwrap();
            assert_eq!(prompt.messages[0].content.as_text(), Some("accept"));
            let read = ask(&client, "resources/read", json!({ "uri": "x://1" })).await;
            if era == Era::Legacy {
                assert_eq!(read.unwrap()["contents"][0]["text"], "accept");
            } else {
                assert_eq!(read.unwrap()["inputRequests"]["who"]["method"], "elicitation/create");
                client.read_resource("x://1").await.unwrap();
            }
        }
    });
}

#[test]
fn a_legacy_client_is_asked_what_it_has_declared_and_no_more_than_ten_times() {
    run(async {
        let server = server();
        let silent = connect(&server, builder().era(EraChoice::Only(Era::Legacy))).await;
        let result = call(&silent, "who", json!({})).await.unwrap();
        assert_eq!(result["isError"], true);
        assert_eq!(text(&result), "the client does not declare the capability `elicitation`");
        let error = ask(&silent, "prompts/get", json!({ "name": "p" })).await.unwrap_err();
        assert_eq!(error.code, -32603);

        let client = connect(&server, answering(Era::Legacy)).await;
        let result = call(&client, "output", json!({})).await.unwrap();
        assert!(text(&result).contains("nobody is there"), "{result}");
        let result = call(&client, "never-content", json!({})).await.unwrap();
        assert_eq!(text(&result), "asked for input 10 times and needs more");
    });
}

#[test]
fn a_handler_that_puts_its_call_off_is_called_again_after_a_while() {
    run(async {
        for era in BOTH_ERAS {
            let client = connect(&server(), answering(era)).await;
            let begun = tokio::time::Instant::now();
            let result = client.call_tool("put-off", ()).await.unwrap();
            assert_eq!(result.content[0].as_text(), Some("now"));
            assert_eq!(begun.elapsed(), Duration::from_millis(100 + 200 + 400), "{era:?}");
        }
    });
}

#[test]
fn a_handler_that_never_stops_putting_its_call_off_waits_ten_seconds_at_most_each_time() {
    run(async {
        let client = connect(&server(), answering(Era::Legacy)).await;
        let begun = tokio::time::Instant::now();
        let result = call(&client, "never", json!({})).await.unwrap();
        assert_eq!(text(&result), "asked for input 10 times and needs more");
        let took = begun.elapsed().as_millis();
        assert!(took.abs_diff(42_700) <= 12, "{took}");
    });
}

#[test]
fn a_legacy_client_brings_no_answers_to_what_it_was_not_asked() {
    run(async {
        let mut wire = Wire::opened(&server()).await;
        let params = json!({ "name": "who", "inputResponses": { "who": { "action": "accept" } } });
        let answer = wire.ask(&crate::request(1, "tools/call", &params)).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    });
}

#[test]
fn what_a_handler_needs_is_required_of_the_client() {
    run(async {
        for era in BOTH_ERAS {
            let client = connect(&server(), answering(era)).await;
            assert_eq!(text(&call(&client, "able", json!({})).await.unwrap()), "true");
            let missing = "the client does not declare the capability `sampling`";
            match (era, call(&client, "needs", json!({})).await) {
                (Era::Legacy, Ok(result)) => {
                    assert_eq!((&result["isError"], text(&result)), (&json!(true), missing));
                }
                (Era::Modern, Err(error)) => {
                    assert_eq!((error.code, error.message.as_str()), (-32021, missing));
                    let required = json!({ "requiredCapabilities": { "sampling": {} } });
                    assert_eq!(crate::value(&error.data.unwrap()), required);
                }
                other => panic!("{other:?}"),
            }
            let bare = connect(&server(), builder().era(EraChoice::Only(era))).await;
            assert_eq!(text(&call(&bare, "able", json!({})).await.unwrap()), "false");
        }
    });
}

/// A scripted modern client that sends each round.
struct Rounds(Wire, i64);

impl Rounds {
    async fn ask(&mut self, method: &str, mut params: Value) -> Value {
        self.1 += 1;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {
                "roots": {}, "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} }
            },
            "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "0" }
        });
        self.0.ask(&crate::request(self.1, method, &params)).await
    }

    async fn journey(&mut self, responses: Value, state: Value) -> Value {
        let mut params = json!({ "name": "journey", "inputResponses": responses });
        if !state.is_null() {
            params["requestState"] = state;
        }
        self.ask("tools/call", params).await
    }
}

fn both() -> Value {
    json!({ "who": { "action": "accept" }, "where": { "roots": [{ "uri": "file:///x" }] } })
}

#[test]
fn names_are_the_handlers_and_no_state_is_needed_for_them() {
    run(async {
        let mut client = Rounds(Wire::new(&server()), 0);
        for responses in [json!({}), Value::Null, json!({ "who": { "action": "accept" }, "else": {} })] {
            let first = client.journey(responses, Value::Null).await["result"].clone();
            assert_eq!(first["resultType"], "input_required");
            assert_eq!(first["inputRequests"]["where"], json!({ "method": "roots/list" }));
            assert_eq!(first["requestState"], Value::Null);
        }
        let second = client.journey(both(), Value::Null).await["result"].clone();
        assert_eq!(second["inputRequests"]["sure"]["method"], "elicitation/create");
        let sure = json!({ "sure": { "action": "decline" }, "else": { "is": "passed over" } });
        let last = client.journey(sure, second["requestState"].clone()).await["result"].clone();
        assert_eq!(text(&last), "accept in file:///x: decline");
        for malformed in [json!({ "who": 7 }), json!([]), json!("who"), json!({ "who": {}, "where": {} })] {
            let answer = client.journey(malformed.clone(), Value::Null).await;
            assert_eq!(answer["error"]["code"], -32602, "{malformed}");
        }
    });
}

#[test]
fn a_state_by_hand_is_sealed_for_its_request_and_ten_minutes() {
    run(async {
        let server = server();
        let mut client = Rounds(Wire::new(&server), 0);
        let state = client.journey(both(), Value::Null).await["result"]["requestState"].clone();
        let state = state.as_str().unwrap();
        assert!(!state.contains("file:///x"), "the client reads nothing of it");
        let changed = if state.ends_with('A') { "B" } else { "A" };
        let sure = json!({ "sure": { "action": "accept" } });
        for forged in [
            json!(format!("{state}-TAMPERED")),
            json!(format!("{}{changed}", &state[..state.len() - 1])),
            json!(&state[2..]),
            json!(7),
            json!(""),
        ] {
            let answer = client.journey(sure.clone(), forged.clone()).await;
            assert_eq!(answer["error"]["code"], -32602, "{forged}");
        }
        let elsewhere = json!({ "name": "journey", "arguments": { "a": 1 }, "requestState": state });
        assert_eq!(client.ask("tools/call", elsewhere).await["error"]["code"], -32602);
        tokio::time::advance(Duration::from_secs(590)).await;
        assert_eq!(client.journey(sure.clone(), json!(state)).await["result"]["resultType"], "complete");
        tokio::time::advance(Duration::from_secs(11)).await;
        let late = client.journey(sure, json!(state)).await;
        assert!(late["error"]["message"].as_str().unwrap().contains("expired"), "{late}");
    });
}

#[test]
fn a_task_is_asked_by_hand_too() {
    run(async {
        let mut client = Rounds(Wire::new(&server()), 0);
        let begun = client.ask("tools/call", json!({ "name": "later" })).await["result"].clone();
        assert_eq!(begun["resultType"], "task");
        let task = begun["taskId"].clone();
        let get = json!({ "taskId": task });
        let asked = client.ask("tasks/get", get.clone()).await["result"].clone();
        assert_eq!(asked["status"], "input_required");
        assert_eq!(asked["inputRequests"].as_object().unwrap().len(), 2);
        let mut answers = json!({});
        for (name, request) in asked["inputRequests"].as_object().unwrap() {
            let is_roots = request["method"] == "roots/list";
            answers[name] = if is_roots { both()["where"].clone() } else { both()["who"].clone() };
        }
        client.ask("tasks/update", json!({ "taskId": task, "inputResponses": answers })).await;
        let asked = client.ask("tasks/get", get.clone()).await["result"].clone();
        let name = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        assert!(answers.get(&name).is_none(), "a name is used once in the life of a task");
        // This is longer than a state at a client is valid.
        tokio::time::advance(Duration::from_secs(1_200)).await;
        let sure = json!({ name: { "action": "decline" } });
        client.ask("tasks/update", json!({ "taskId": task, "inputResponses": sure })).await;
        let done = client.ask("tasks/get", get).await["result"].clone();
        assert_eq!(done["status"], "completed");
        assert_eq!(text(&done["result"]), "accept in file:///x: decline");
    });
}
