//! Tests of the introduction: each tool, prompt and resource, in both eras.

use std::collections::BTreeMap;

use mcpjoin::Client;
use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::Limits;
use mcpjoin::proto::types::{
    CompleteArgument, CompleteParams, ElicitAction, ElicitResult, PromptReference, ResourceTemplateReference,
};
use serde_json::json;

use super::{ERAS, builder, call, connect, filled_in, refused, run, text, value};
use crate::demo::Demo;

async fn introduced(builder: ClientBuilder) -> Client {
    connect(&Demo::Introduction.server(Limits::default()).unwrap(), builder).await
}

#[test]
fn the_introduction_is_short_and_the_full_server_begins_as_it_does() {
    run(async {
        for era in ERAS {
            let tools = introduced(builder(era)).await.list_tools().all().await.unwrap();
            let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
            assert_eq!(names, ["echo", "add", "divide", "count", "greet"]);
            assert!(tools.iter().all(|tool| tool.description.is_some()));
            let full = super::silent(era).await.list_tools().all().await.unwrap();
            assert_eq!(value(&full[..2].to_vec()), value(&tools[..2].to_vec()));
        }
    });
}

#[test]
fn the_tools_calculate_and_a_division_by_zero_is_the_error_of_a_tool() {
    run(async {
        for era in ERAS {
            let client = introduced(builder(era)).await;
            assert_eq!(text(&call(&client, "echo", json!({ "message": "hi" })).await), "hi");
            let sum = call(&client, "add", json!({ "a": 2, "b": 40 })).await;
            assert_eq!(value(&sum.structured_content), json!({ "sum": 42.0 }));
            let half = call(&client, "divide", json!({ "a": 1, "b": 2 })).await;
            assert_eq!(value(&half.structured_content), json!({ "quotient": 0.5 }));
            let failed = call(&client, "divide", json!({ "a": 1, "b": 0 })).await;
            assert_eq!(failed.is_error, Some(true));
            assert_eq!(text(&failed), "`b` is 0, and no number can be divided by 0");
            assert_eq!(text(&call(&client, "count", json!({})).await), "Counted to 3");
            for to in [0, 101] {
                refused_or_failed(&client, to).await;
            }
        }
    });
}

/// Asserts that the tool does not count outside of its bounds.
async fn refused_or_failed(client: &Client, to: u8) {
    let failed = call(client, "count", json!({ "to": to })).await;
    assert_eq!(failed.is_error, Some(true), "{to}: {failed:?}");
}

#[test]
fn counting_reports_each_number() {
    let server = Demo::Introduction.server(Limits::default()).unwrap();
    run(async {
        let mut wire = super::Wire::modern(&server, json!({}));
        let mut meta = super::meta(json!({}));
        meta["progressToken"] = json!("t");
        wire.says(Some(meta));
        wire.call("count", json!({ "to": 2 })).await;
        let told: Vec<_> = wire.received.iter().map(|message| message["params"].clone()).collect();
        assert_eq!(
            told,
            [1, 2].map(|number| json!({
                "progressToken": "t", "progress": number, "total": 2, "message": number.to_string()
            }))
        );
    });
}

#[test]
fn the_greeting_asks_for_a_missing_name() {
    run(async {
        for era in ERAS {
            let asked = introduced(builder(era).elicitation(async |form| Ok(filled_in(&form)))).await;
            assert_eq!(text(&call(&asked, "greet", json!({})).await), "Hello, Ada!");
            assert_eq!(text(&call(&asked, "greet", json!({ "name": "Bo" })).await), "Hello, Bo!");
            let declines =
                introduced(builder(era).elicitation(async |_| Ok(ElicitResult::new(ElicitAction::Decline))))
                    .await;
            let declined = call(&declines, "greet", json!({})).await;
            assert_eq!((text(&declined), declined.is_error), ("no name was given", Some(true)));
            // A client that cannot be asked.
            let silent = introduced(builder(era)).await;
            assert_eq!(text(&call(&silent, "greet", json!({ "name": "Bo" })).await), "Hello, Bo!");
            let message = if era == Era::Legacy {
                text(&call(&silent, "greet", json!({})).await).to_owned()
            } else {
                refused(&silent, "greet", json!({})).await.message
            };
            assert!(message.contains("elicitation"), "{message}");
        }
    });
}

#[test]
fn the_prompt_and_the_resources_know_the_languages() {
    run(async {
        for era in ERAS {
            let client = introduced(builder(era)).await;
            let arguments = BTreeMap::from([("text", "Hello"), ("language", "German")]);
            let prompt = client.get_prompt("translate", arguments).await.unwrap();
            let said = value(&prompt.messages[0].content)["text"].clone();
            assert_eq!(said, "Translate this text into German:\n\nHello");
            let about = client.read_resource("demo://about").await.unwrap();
            assert!(value(&about.contents[0])["text"].as_str().unwrap().contains("built into mcpjoin"));
            let greeting = client.read_resource("demo://greeting/French").await.unwrap();
            assert_eq!(value(&greeting.contents[0])["text"], "Bonjour");
            let error = client.read_resource("demo://greeting/Klingon").await.unwrap_err();
            assert_eq!(value(&error.remote().unwrap().data)["uri"], "demo://greeting/Klingon");
            for reference in [
                PromptReference::new("translate").into(),
                mcpjoin::proto::types::Reference::from(ResourceTemplateReference::new(
                    "demo://greeting/{language}",
                )),
            ] {
                let asked = CompleteParams::new(reference, CompleteArgument::new("language", "g"));
                assert_eq!(client.complete(asked).await.unwrap().completion.values, ["German"]);
            }
        }
    });
}
