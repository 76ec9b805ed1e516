//! Tests of handlers that request input from their client: written once, for both eras.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{
    ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, ElicitUrlParams, ElicitationSchema, Members,
    Prompt, Resource, Root,
};
use mcpjoin::proto::{Era, ErrorObject, Raw};
use mcpjoin::server::{Context, HandlerError, InputError, Json, Server, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{BOTH_ERAS, Wire, ask, builder, call, connect, raw, run, text};

#[derive(Deserialize, JsonSchema)]
struct Delete {
    path: String,
}

fn question(message: &str) -> ElicitFormParams {
    ElicitFormParams::new(message, ElicitationSchema::new(Members::new()))
}

async fn delete(arguments: Delete, cx: Context) -> Result<String, InputError> {
    let roots = cx.list_roots().await?;
    let sure = cx.elicit(question(&format!("Delete {}?", arguments.path))).await?;
    if sure.action != ElicitAction::Accept {
        return Ok("kept".into());
    }
    let really = cx.elicit(question("Really?")).await?;
    Ok(format!("{} in {}: {}", arguments.path, roots.roots[0].uri, really.action.as_str()))
}

/// A server with one tool that requests input three times, and the number of runs of its handler.
fn server() -> (Server, Arc<AtomicUsize>) {
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = begun.clone();
    let server = Server::builder("s", "1")
        .tool(tool("delete"), move |arguments: Delete, cx: Context| {
            counted.fetch_add(1, Ordering::Relaxed);
            delete(arguments, cx)
        })
        .tool(tool("visit"), |_: Delete, cx: Context| async move {
            let result = cx.elicit(ElicitUrlParams::new("Pay", "https://example.org/pay")).await?;
            Ok::<_, HandlerError>(result.action.as_str().to_owned())
        })
        .prompt(Prompt::new("p"), |_, cx: Context| async move {
            let answer = cx.elicit(question("For the prompt?")).await?;
            Ok::<_, HandlerError>(answer.action.as_str().to_owned())
        })
        .resource(Resource::new("x://1", "1"), |_, cx: Context| async move {
            let answer = cx.elicit(question("For the resource?")).await?;
            Ok::<_, HandlerError>(answer.action.as_str().to_owned())
        })
        .build()
        .unwrap();
    (server, begun)
}

fn answering(era: Era) -> ClientBuilder {
    builder().era(EraChoice::Only(era)).roots(vec![Root::new("file:///home")]).elicitation(
        |params| async move {
            let ElicitParams::Form(params) = params else {
                return Ok(ElicitResult::new(ElicitAction::Cancel));
            };
            match params.message.as_str() {
                "Delete keep?" => Ok(ElicitResult::new(ElicitAction::Decline)),
                "Delete fail?" => Err(ErrorObject::internal("nobody is there")),
                _ => Ok(ElicitResult::new(ElicitAction::Accept)),
            }
        },
    )
}

#[test]
fn one_handler_asks_in_both_eras() {
    run(async {
        for (era, begins) in [(Era::Legacy, 1), (Era::Modern, 4)] {
            let (server, begun) = server();
            let client = connect(&server, answering(era)).await;
            let result = client.call_tool("delete", Some(raw(&json!({ "path": "it" })))).await.unwrap();
            assert_eq!(result.content[0].as_text(), Some("it in file:///home: accept"));
            assert_eq!(begun.load(Ordering::Relaxed), begins);
            let result = client.call_tool("delete", Some(raw(&json!({ "path": "keep" })))).await.unwrap();
            assert_eq!(result.content[0].as_text(), Some("kept"));
            let prompt = client.get_prompt("p", ()).await.unwrap();
            assert_eq!(prompt.messages[0].content.as_text(), Some("accept"));
            let resource = client.read_resource("x://1").await.unwrap();
            let contents: Value = raw_value(&resource.contents[0]);
            assert_eq!(contents["text"], "accept");
        }
    });
}

#[test]
fn a_question_for_a_yes_is_one_in_both_eras() {
    run(async {
        let server = Server::builder("s", "1")
            .tool(tool("clear"), |arguments: Delete, cx: Context| async move {
                Ok::<_, HandlerError>(Json(cx.confirm(format!("Delete {}?", arguments.path)).await?))
            })
            .build()
            .unwrap();
        for era in BOTH_ERAS {
            let answers = [ElicitAction::Accept, ElicitAction::Decline, ElicitAction::Cancel];
            for (action, said) in answers.into_iter().zip([true, false, false]) {
                let client = builder().era(EraChoice::Only(era)).elicitation_form(move |form| {
                    assert_eq!(form.message, "Delete all?");
                    assert!(form.requested_schema.properties.is_empty());
                    std::future::ready(Ok(ElicitResult::new(action.clone())))
                });
                let client = connect(&server, client).await;
                let result = client.call_tool("clear", json!({ "path": "all" })).await.unwrap();
                assert_eq!(result.decode(), Ok(said), "{era:?}");
            }
        }
    });
}

fn raw_value(value: &impl serde::Serialize) -> Value {
    crate::value(&Raw::from_value(value).unwrap())
}

#[test]
fn what_the_client_has_not_declared_is_not_asked() {
    run(async {
        let (server, _) = server();
        let legacy = connect(&server, builder().era(EraChoice::Only(Era::Legacy))).await;
        let result = call(&legacy, "delete", json!({ "path": "it" })).await.unwrap();
        assert_eq!(result["isError"], true);
        assert_eq!(text(&result), "the client does not declare the capability `roots`");
        let form_alone = connect(&server, answering(Era::Legacy)).await;
        let result = call(&form_alone, "visit", json!({ "path": "it" })).await.unwrap();
        assert_eq!(text(&result), "the client does not declare the capability `elicitation.url`");
        let url = connect(&server, answering(Era::Legacy).elicitation_url(true)).await;
        assert_eq!(text(&call(&url, "visit", json!({ "path": "it" })).await.unwrap()), "cancel");

        let modern = connect(&server, builder().era(EraChoice::Only(Era::Modern))).await;
        let error = call(&modern, "delete", json!({ "path": "it" })).await.unwrap_err();
        assert_eq!(error.code, -32021);
        assert_eq!(crate::value(&error.data.unwrap()), json!({ "requiredCapabilities": { "roots": {} } }));
    });
}

#[test]
fn a_question_that_fails_fails_the_call() {
    run(async {
        let (server, _) = server();
        let client = connect(&server, answering(Era::Legacy)).await;
        let result = call(&client, "delete", json!({ "path": "fail" })).await.unwrap();
        assert_eq!(result["isError"], true);
        assert!(text(&result).contains("nobody is there"), "{result}");
    });
}

/// A scripted modern client that sends each round.
pub(crate) struct Rounds(Wire, i64);

impl Rounds {
    pub(crate) fn new(server: &Server) -> Self {
        Self(Wire::new(server), 0)
    }

    async fn call(&mut self, arguments: Value, responses: Value, state: Value) -> Value {
        self.tool("delete", arguments, responses, state).await
    }

    pub(crate) async fn tool(
        &mut self,
        tool: &str,
        arguments: Value,
        responses: Value,
        state: Value,
    ) -> Value {
        self.1 += 1;
        let mut params = json!({
            "name": tool, "arguments": arguments,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": { "roots": {}, "elicitation": { "form": {} } },
                "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "0" }
            }
        });
        if !responses.is_null() {
            params["inputResponses"] = responses;
        }
        if !state.is_null() {
            params["requestState"] = state;
        }
        self.0.ask(&crate::request(self.1, "tools/call", &params)).await
    }
}

fn it() -> Value {
    json!({ "path": "it" })
}

fn roots() -> Value {
    json!({ "ask-1": { "roots": [{ "uri": "file:///x" }] } })
}

#[test]
fn rounds_have_names_in_the_order_of_asking_and_a_state_that_carries_the_answers() {
    run(async {
        let (server, _) = server();
        let mut client = Rounds::new(&server);
        let first = client.call(it(), Value::Null, Value::Null).await["result"].clone();
        assert_eq!(first["resultType"], "input_required");
        assert_eq!(first["inputRequests"], json!({ "ask-1": { "method": "roots/list" } }));
        let second = client.call(it(), roots(), first["requestState"].clone()).await["result"].clone();
        assert_eq!(second["inputRequests"]["ask-2"]["method"], "elicitation/create");
        assert_eq!(second["inputRequests"].as_object().unwrap().len(), 1);
        let yes = json!({ "ask-2": { "action": "accept" }, "more": { "is": "passed over" } });
        let third = client.call(it(), yes, second["requestState"].clone()).await["result"].clone();
        assert_eq!(third["inputRequests"]["ask-3"]["params"]["message"], "Really?");
        let cancel = json!({ "ask-3": { "action": "cancel" } });
        let last = client.call(it(), cancel, third["requestState"].clone()).await["result"].clone();
        assert_eq!(text(&last), "it in file:///x: cancel");
        assert_eq!(last["resultType"], "complete");
    });
}

#[test]
fn a_missing_answer_is_asked_for_again() {
    run(async {
        let (server, _) = server();
        let mut client = Rounds::new(&server);
        let first = client.call(it(), Value::Null, Value::Null).await["result"].clone();
        for responses in [Value::Null, json!({}), json!({ "ask-2": { "action": "accept" } })] {
            let again = client.call(it(), responses, first["requestState"].clone()).await;
            assert_eq!(again["result"]["inputRequests"], first["inputRequests"]);
        }
        let without_state = client.call(it(), roots(), Value::Null).await;
        assert_eq!(without_state["result"]["inputRequests"], first["inputRequests"]);
    });
}

#[test]
fn a_state_is_valid_for_its_request_alone_and_for_ten_minutes() {
    run(async {
        let (server, _) = server();
        let mut client = Rounds::new(&server);
        let first = client.call(it(), Value::Null, Value::Null).await["result"].clone();
        let second = client.call(it(), roots(), first["requestState"].clone()).await["result"].clone();
        let state = second["requestState"].as_str().unwrap().to_owned();
        assert!(!state.contains("file:///x"), "the client reads nothing of it");
        let middle = state.len() / 2;
        let other = if &state[middle..=middle] == "A" { "B" } else { "A" };
        let mut forged = vec![
            json!(format!("{}{other}{}", &state[..middle], &state[middle + 1..])),
            json!(format!("{state}A")),
            json!(state[..state.len() - 1]),
            json!(state[1..]),
            json!(format!("00{}", &state[2..])),
            json!(""),
            json!("."),
            json!("é.é.é"),
            json!(7),
        ];
        // Another process has another key.
        let mut other = Rounds::new(&self::server().0);
        forged.push(other.call(it(), Value::Null, Value::Null).await["result"]["requestState"].clone());
        for forged in forged {
            let answer = client.call(it(), json!({ "ask-2": { "action": "accept" } }), forged.clone()).await;
            assert_eq!(answer["error"]["code"], -32602, "{forged}");
        }
        let elsewhere = json!({ "path": "something else" });
        let answer = client.call(elsewhere, roots(), first["requestState"].clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "an answer about one call is none about another");
        let bad = client.call(it(), json!({ "ask-1": { "roots": 7 } }), first["requestState"].clone()).await;
        assert_eq!(bad["error"]["code"], -32602);
        let bad = client.call(it(), json!([]), first["requestState"].clone()).await;
        assert_eq!(bad["error"]["code"], -32602);

        tokio::time::advance(Duration::from_secs(590)).await;
        let in_time = client.call(it(), roots(), first["requestState"].clone()).await;
        assert_eq!(in_time["result"]["inputRequests"]["ask-2"]["method"], "elicitation/create");
        tokio::time::advance(Duration::from_secs(11)).await;
        let late = client.call(it(), roots(), first["requestState"].clone()).await;
        assert_eq!(late["error"]["code"], -32602);
        assert!(late["error"]["message"].as_str().unwrap().contains("expired"));
    });
}

#[test]
fn every_call_asks_for_itself() {
    run(async {
        for era in BOTH_ERAS {
            let (server, _) = server();
            let client = connect(&server, answering(era)).await;
            let calls = (0..20).map(|number| {
                let client = client.clone();
                tokio::spawn(async move {
                    let path = if number % 2 == 0 { "keep".to_owned() } else { number.to_string() };
                    client.call_tool("delete", Some(raw(&json!({ "path": path })))).await.unwrap()
                })
            });
            let calls: Vec<_> = calls.collect();
            for (number, call) in calls.into_iter().enumerate() {
                let result = call.await.unwrap();
                let said = result.content[0].as_text().unwrap();
                let expected = if number % 2 == 0 {
                    "kept".to_owned()
                } else {
                    format!("{number} in file:///home: accept")
                };
                assert_eq!(said, expected);
            }
            ask(&client, "tools/list", json!({})).await.unwrap();
        }
    });
}
