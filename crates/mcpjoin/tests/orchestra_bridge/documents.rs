//! Prompts and resources.

use std::collections::BTreeMap;

use mcpjoin::bridge::orchestra::wire::plugin_request::Request;
use mcpjoin::bridge::orchestra::wire::plugin_response::Response;
use mcpjoin::bridge::orchestra::wire::{
    ContentBlock, ListPromptsResponse, PluginRequest, PromptArgument, PromptDefinition, PromptGetResponse,
    PromptMessage, StorageEntry, StorageListResponse, StorageReadResponse,
};
use serde_json::json;

use crate::support::{Act, Stage, healthy, of_json, refusal, run};

fn message(role: &str, content: Option<(&str, &str)>) -> PromptMessage {
    let content = content.map(|(kind, text)| ContentBlock { r#type: kind.into(), text: text.into() });
    PromptMessage { role: role.into(), content }
}

fn prompts(request: &PluginRequest) -> Act {
    match request.request.as_ref().unwrap() {
        Request::ListPrompts(_) => {
            let argument = |name: &str, required| PromptArgument {
                name: name.into(),
                required,
                ..PromptArgument::default()
            };
            let prompt = |name: &str| PromptDefinition { name: name.into(), ..PromptDefinition::default() };
            let plan = PromptDefinition {
                description: "Plans".into(),
                arguments: vec![argument("goal", true), argument("tone", false)],
                ..prompt("plan")
            };
            Act::Say(Response::ListPrompts(ListPromptsResponse {
                prompts: vec![prompt("write"), plan, prompt("write")],
            }))
        }
        Request::PromptGet(get) => Act::Say(Response::PromptGet(PromptGetResponse {
            description: format!("{} {:?}", get.prompt_name, get.arguments),
            messages: vec![
                message("user", Some(("text", "Do it"))),
                message("assistant", Some(("text", "Done"))),
                message("user", None),
                message("user", Some(("resource", "# A page"))),
            ],
        })),
        _ => healthy(),
    }
}

#[test]
fn prompts_are_listed_and_filled_in() {
    run(async {
        let stage = Stage::new(prompts).await;
        let mut wire = stage.opened().await;
        let list = wire.ask("prompts/list", &json!({})).await;
        assert_eq!(
            list["result"],
            json!({ "prompts": [
                { "name": "plan", "description": "Plans",
                  "arguments": [{ "name": "goal", "required": true }, { "name": "tone" }] },
                { "name": "write" },
            ] })
        );
        let filled = wire.ask("prompts/get", &json!({ "name": "plan", "arguments": { "goal": "x" } })).await;
        assert_eq!(
            filled["result"],
            json!({
                "description": "plan {\"goal\": \"x\"}",
                "messages": [
                    { "role": "user", "content": { "type": "text", "text": "Do it" } },
                    { "role": "assistant", "content": { "type": "text", "text": "Done" } },
                    // The original writes {"type":""}, which is no MCP.
                    { "role": "user", "content": { "type": "text", "text": "" } },
                    { "role": "user", "content": { "type": "resource",
                        "resource": { "uri": "orchestra://prompt", "text": "# A page" } } },
                ],
            })
        );
        let none = wire.ask("prompts/get", &json!({ "name": "plan" })).await;
        assert_eq!(none["result"]["description"], "plan {}");
        for params in [json!({}), json!({ "name": "plan", "arguments": { "goal": 7 } })] {
            let wrong = wire.ask("prompts/get", &params).await;
            assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
        }
    });
}

fn storage(request: &PluginRequest) -> Act {
    let entry = |path: &str, size| StorageEntry { path: path.into(), size, version: 1, modified_at: None };
    match request.request.as_ref().unwrap() {
        Request::StorageList(list) => {
            let entries = match list.prefix.as_str() {
                "features/" => {
                    vec![entry("features/shop/FEAT-2.md", 12), entry("features/shop/FEAT-1.md", 0)]
                }
                "docs/" => vec![entry("docs/intro.md", 5), entry("elsewhere/x.md", 1), entry("docs/.md", 1)],
                _ => Vec::new(),
            };
            Act::Say(Response::StorageList(StorageListResponse { entries }))
        }
        Request::StorageRead(read) => {
            let stored = match read.path.as_str() {
                "docs/intro.md" => StorageReadResponse {
                    content: "# Hello".into(),
                    version: 3,
                    ..StorageReadResponse::default()
                },
                "docs/empty.md" => StorageReadResponse { version: 1, ..StorageReadResponse::default() },
                "docs/picture.md" => StorageReadResponse {
                    content: vec![0xff, 0xfe].into(),
                    metadata: Some(of_json(&json!({ "mimeType": "image/png" }))),
                    version: 1,
                },
                "notes/refused.md" => return Act::Say(refusal("not_found", "there is none")),
                "notes/broken.md" => return Act::Say(refusal("storage_error", "the disk is gone")),
                // What the original's storage says of what is not there.
                _ => StorageReadResponse::default(),
            };
            Act::Say(Response::StorageRead(stored))
        }
        _ => healthy(),
    }
}

#[test]
fn resources_are_the_documents_of_the_three_folders() {
    run(async {
        let stage = Stage::new(storage).await;
        let mut wire = stage.opened().await;
        let list = wire.ask("resources/list", &json!({})).await;
        assert_eq!(
            list["result"],
            json!({ "resources": [
                { "uri": "orchestra://docs/intro", "name": "intro", "mimeType": "text/markdown", "size": 5 },
                { "uri": "orchestra://features/shop/FEAT-1", "name": "shop/FEAT-1", "mimeType": "text/markdown" },
                { "uri": "orchestra://features/shop/FEAT-2", "name": "shop/FEAT-2", "mimeType": "text/markdown",
                  "size": 12 },
            ] })
        );
        let asked: Vec<String> = stage
            .scripted
            .requests()
            .into_iter()
            .filter_map(|request| match request {
                Request::StorageList(list) => Some(list.prefix),
                _ => None,
            })
            .collect();
        let mut sorted = asked.clone();
        sorted.sort();
        assert_eq!(sorted, ["docs/", "features/", "notes/"]);
        let templates = wire.ask("resources/templates/list", &json!({})).await;
        let shown: BTreeMap<&str, &str> = templates["result"]["resourceTemplates"]
            .as_array()
            .unwrap()
            .iter()
            .map(|template| (template["uriTemplate"].as_str().unwrap(), template["name"].as_str().unwrap()))
            .collect();
        let expected = [
            ("orchestra://docs/{id}", "Documentation"),
            ("orchestra://features/{id}", "Project Features"),
            ("orchestra://notes/{id}", "Notes"),
        ];
        assert_eq!(shown, BTreeMap::from(expected));
    });
}

#[test]
fn without_any_the_list_is_empty_and_not_null() {
    run(async {
        let stage = Stage::new(|request| match request.request {
            Some(Request::StorageList(_)) => Act::Say(Response::StorageList(StorageListResponse::default())),
            Some(Request::ListTools(_)) => Act::Say(crate::support::tools(&[])),
            Some(Request::ListPrompts(_)) => Act::Say(Response::ListPrompts(ListPromptsResponse::default())),
            _ => healthy(),
        })
        .await;
        let mut wire = stage.opened().await;
        assert_eq!(wire.ask("resources/list", &json!({})).await["result"], json!({ "resources": [] }));
        assert_eq!(wire.ask("tools/list", &json!({})).await["result"], json!({ "tools": [] }));
        assert_eq!(wire.ask("prompts/list", &json!({})).await["result"], json!({ "prompts": [] }));
    });
}

#[test]
fn a_document_is_read_as_text_and_what_is_none_as_bytes() {
    run(async {
        let stage = Stage::new(storage).await;
        let mut wire = stage.opened().await;
        let read = wire.ask("resources/read", &json!({ "uri": "orchestra://docs/intro" })).await;
        assert_eq!(
            read["result"],
            json!({ "contents": [
                { "uri": "orchestra://docs/intro", "mimeType": "text/markdown", "text": "# Hello" }
            ] })
        );
        let empty = wire.ask("resources/read", &json!({ "uri": "orchestra://docs/empty" })).await;
        assert_eq!(empty["result"]["contents"][0]["text"], "");
        let picture = wire.ask("resources/read", &json!({ "uri": "orchestra://docs/picture" })).await;
        assert_eq!(
            picture["result"]["contents"],
            json!([{ "uri": "orchestra://docs/picture", "mimeType": "image/png", "blob": "//4=" }])
        );
    });
}

#[test]
fn what_is_not_there_is_an_error_and_so_is_what_leads_out_of_the_folder() {
    run(async {
        let stage = Stage::new(storage).await;
        let mut wire = stage.opened().await;
        for uri in ["orchestra://docs/none", "orchestra://notes/refused"] {
            let missing = wire.ask("resources/read", &json!({ "uri": uri })).await;
            assert_eq!(missing["error"]["code"], -32002, "{missing}");
        }
        let mut modern = crate::support::Wire::new(&stage.bridge);
        let missing = modern.ask_modern("resources/read", json!({ "uri": "orchestra://docs/none" })).await;
        assert_eq!(missing["error"]["code"], -32602);
        let broken = wire.ask("resources/read", &json!({ "uri": "orchestra://notes/broken" })).await;
        assert_eq!(
            (&broken["error"]["code"], &broken["error"]["data"]),
            (&json!(-32603), &json!({ "errorCode": "storage_error" }))
        );
        let asked = stage.scripted.requests().len();
        for (uri, says) in [
            ("file:///etc/passwd", "unsupported URI scheme"),
            ("orchestra://docs", "invalid resource URI"),
            ("orchestra://docs/", "invalid resource URI"),
            ("orchestra://docs/../ca", "invalid resource URI"),
            ("orchestra://docs/a//b", "invalid resource URI"),
            ("orchestra://secrets/a", "unknown resource type: \"secrets\""),
        ] {
            let wrong = wire.ask("resources/read", &json!({ "uri": uri })).await;
            assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
            assert!(wrong["error"]["message"].as_str().unwrap().contains(says), "{wrong}");
        }
        assert_eq!(stage.scripted.requests().len(), asked, "nothing was asked for these");
    });
}
