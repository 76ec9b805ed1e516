//! Tests of resources, prompts, and completions for their variables and arguments.

use std::collections::BTreeMap;

use mcpjoin::proto::Era;
use mcpjoin::proto::types::{
    CompleteArgument, CompleteParams, PromptReference, ResourceContents, ResourceTemplateReference,
};
use serde_json::{Value, json};

use super::{ERAS, run, silent, value};
use crate::demo::{PICTURE, offers};

/// The contents of a resource, in both eras.
fn read(uri: &'static str) -> Value {
    let mut read = None;
    run(async {
        for era in ERAS {
            let contents = value(&silent(era).await.read_resource(uri).await.unwrap().contents);
            assert_eq!(read.get_or_insert_with(|| contents.clone()), &contents);
        }
    });
    read.unwrap()
}

/// The messages of a prompt, in both eras.
fn prompt(name: &str, arguments: &[(&str, &str)]) -> Value {
    let mut got = None;
    run(async {
        for era in ERAS {
            let arguments: BTreeMap<_, _> = arguments.iter().copied().collect();
            let prompt = silent(era).await.get_prompt(name, arguments).await.unwrap();
            let messages = value(&prompt.messages);
            assert_eq!(got.get_or_insert_with(|| messages.clone()), &messages);
        }
    });
    got.unwrap()
}

#[test]
fn resources_list() {
    run(async {
        for era in ERAS {
            let client = silent(era).await;
            let listed = client.list_resources().all().await.unwrap();
            let uris: Vec<_> = listed.iter().map(|resource| resource.uri.as_str()).collect();
            assert_eq!(uris, ["test://static-text", "test://static-binary", "test://watched-resource"]);
            assert!(
                listed.iter().all(|resource| !resource.name.is_empty() && resource.description.is_some())
            );
            for resource in listed {
                client.read_resource(resource.uri).await.unwrap();
            }
            let templates = client.list_resource_templates().all().await.unwrap();
            assert_eq!(templates[0].uri_template, "test://template/{id}/data");
        }
    });
}

#[test]
fn resources_read_text() {
    let text = "This is the content of the static text resource.";
    assert_eq!(
        read("test://static-text"),
        json!([{ "uri": "test://static-text", "mimeType": "text/plain", "text": text }])
    );
}

#[test]
fn resources_read_binary() {
    assert_eq!(
        read("test://static-binary"),
        json!([{ "uri": "test://static-binary", "mimeType": "image/png", "blob": PICTURE }])
    );
}

#[test]
fn resources_templates_read() {
    let contents = read("test://template/123/data");
    assert_eq!(contents[0]["mimeType"], "application/json");
    let data: Value = serde_json::from_str(contents[0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(data, json!({ "id": "123", "templateTest": true, "data": "Data for ID: 123" }));
    // An id may contain any character.
    let contents = read("test://template/1%222/data");
    let data: Value = serde_json::from_str(contents[0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(data["id"], "1\"2");
}

#[test]
fn sep_2164_resource_not_found() {
    run(async {
        for (era, code) in [(Era::Legacy, -32002), (Era::Modern, -32602)] {
            let error = silent(era).await.read_resource("test://nothing").await.unwrap_err();
            let error = error.remote().unwrap();
            assert_eq!(error.code, code);
            assert_eq!(value(&error.data), json!({ "uri": "test://nothing" }));
        }
    });
}

#[test]
fn prompts_list() {
    run(async {
        for era in ERAS {
            let listed = silent(era).await.list_prompts().all().await.unwrap();
            let names: Vec<_> = listed.iter().map(|prompt| prompt.name.as_str()).collect();
            let expected = [
                "test_simple_prompt",
                "test_prompt_with_arguments",
                "test_prompt_with_embedded_resource",
                "test_prompt_with_image",
                "test_input_required_result_prompt",
            ];
            assert_eq!(names, expected);
            assert!(listed.iter().all(|prompt| prompt.description.is_some()));
            let arguments = listed.iter().flat_map(|prompt| prompt.arguments.iter().flatten());
            assert!(arguments.clone().count() == 3 && arguments.clone().all(|it| it.description.is_some()));
        }
    });
}

fn said(text: &str) -> Value {
    json!({ "role": "user", "content": { "type": "text", "text": text } })
}

#[test]
fn prompts_get_simple() {
    assert_eq!(prompt("test_simple_prompt", &[]), json!([said("This is a simple prompt for testing.")]));
}

#[test]
fn prompts_get_with_args() {
    let messages = prompt("test_prompt_with_arguments", &[("arg1", "hello"), ("arg2", "world")]);
    assert_eq!(messages, json!([said("Prompt with arguments: arg1='hello', arg2='world'")]));
    run(async {
        for era in ERAS {
            let one = BTreeMap::from([("arg1".to_owned(), "hello".to_owned())]);
            let error =
                silent(era).await.get_prompt(offers::PROMPT_WITH_ARGUMENTS, Some(one)).await.unwrap_err();
            assert!(error.remote().unwrap().message.contains("`arg2` is missing"), "{error}");
        }
    });
}

#[test]
fn prompts_get_embedded_resource() {
    let messages = prompt("test_prompt_with_embedded_resource", &[("resourceUri", "test://example")]);
    let resource = json!({
        "uri": "test://example", "mimeType": "text/plain", "text": "Embedded resource content for testing."
    });
    assert_eq!(
        messages,
        json!([
            { "role": "user", "content": { "type": "resource", "resource": resource } },
            said("Please process the embedded resource above."),
        ])
    );
}

#[test]
fn prompts_get_with_image() {
    let image = json!({ "type": "image", "data": PICTURE, "mimeType": "image/png" });
    assert_eq!(
        prompt("test_prompt_with_image", &[]),
        json!([{ "role": "user", "content": image }, said("Please analyze the image above.")])
    );
}

#[test]
fn completion_complete() {
    run(async {
        for era in ERAS {
            let client = silent(era).await;
            let words = CompleteParams::new(
                PromptReference::new(offers::PROMPT_WITH_ARGUMENTS),
                CompleteArgument::new("arg1", "he"),
            );
            assert_eq!(client.complete(words).await.unwrap().completion.values, ["hello", "help"]);
            let ids = CompleteParams::new(
                ResourceTemplateReference::new(offers::TEMPLATE),
                CompleteArgument::new("id", "10"),
            );
            assert_eq!(client.complete(ids).await.unwrap().completion.values, ["10", "100"]);
        }
    });
}

#[test]
fn a_link_of_a_tool_can_be_followed() {
    run(async {
        for era in ERAS {
            let client = silent(era).await;
            let result = super::call(&client, "test_resource_link", json!({})).await;
            let uri = value(&result.content[0])["uri"].as_str().unwrap().to_owned();
            let read = client.read_resource(uri).await.unwrap();
            assert!(matches!(&read.contents[..], [ResourceContents::Text(_)]));
        }
    });
}
