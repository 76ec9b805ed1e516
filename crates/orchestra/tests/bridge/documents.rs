//! Prompts and resources.

use mcpjoin::transport::{Link, SocketError};
use mcpjoin_diagnostics::validate::Validator;
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::plugin_response::Response;
use mcpjoin_orchestra::wire::{
    ContentBlock, ListPromptsResponse, PluginRequest, PromptArgument, PromptDefinition, PromptGetResponse,
    PromptMessage, StorageEntry, StorageListResponse, StorageReadResponse,
};
use mcpjoin_rules::{Outcome, Selection, check_server};
use serde_json::json;

use crate::support::{Act, Stage, healthy, of_json, refusal, run, usual};

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
                message("system", None),
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
                    // The original writes {"type":""}, which is not MCP, and any role unchanged.
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

/// Orchestra's programs have no error for a prompt: each of these texts is the description of one without messages.
#[test]
fn a_prompt_that_cannot_be_had_is_an_error_with_the_code_that_mcp_has_for_it() {
    run(async {
        let stage = Stage::new(|request| {
            let Some(Request::PromptGet(get)) = &request.request else { return healthy() };
            match get.prompt_name.split_once(' ') {
                Some(("code", code)) => Act::Say(refusal(code, "its text")),
                _ => Act::Say(Response::PromptGet(PromptGetResponse {
                    description: get.prompt_name.clone(),
                    messages: Vec::new(),
                })),
            }
        })
        .await;
        let mut wire = stage.opened().await;
        for (name, code) in [
            ("code not_found", -32602),
            ("code validation_error", -32602),
            ("code handler_error", -32603),
            ("no plugin provides prompt \"x\"", -32602),
            ("prompt \"x\" not found", -32602),
            ("prompt handler error: no such goal", -32603),
            ("failed to route prompt get to plugin \"p\": EOF", -32603),
            ("plugin returned non-prompt-get response", -32603),
        ] {
            let answer = wire.ask("prompts/get", &json!({ "name": name })).await;
            assert_eq!(answer["error"]["code"], code, "{name}: {answer}");
            let message = answer["error"]["message"].as_str().unwrap();
            let (said, data) = match name.split_once(' ') {
                Some(("code", code)) => ("its text", json!({ "errorCode": code })),
                _ => (name, json!(null)),
            };
            assert!(message.contains(said), "{answer}");
            assert_eq!(answer["error"]["data"], data);
        }
        let empty = wire.ask("prompts/get", &json!({ "name": "about no plugin" })).await;
        assert_eq!(empty["result"], json!({ "description": "about no plugin", "messages": [] }));
    });
}

fn storage(request: &PluginRequest) -> Act {
    let entry = |path: &str, size| StorageEntry { path: path.into(), size, version: 1, modified_at: None };
    match request.request.as_ref().unwrap() {
        Request::StorageList(list) => {
            let entries = [
                entry("features/shop/FEAT-2.md", 12),
                entry("features/shop/FEAT-1.md", 0),
                entry("notes/with space é#?.md", 7),
                entry("notes/100%25.md", 7),
                entry("docs/intro.md", 5),
                entry("docs/hollow.md", 0),
                entry("docs/torn.md", 9),
                entry("docs/.md", 1),
            ];
            let mut entries: Vec<_> =
                entries.into_iter().filter(|entry| entry.path.starts_with(&list.prefix)).collect();
            entries.push(entry("elsewhere/x.md", 1));
            Act::Say(Response::StorageList(StorageListResponse { entries }))
        }
        Request::StorageRead(read) => {
            let stored = match read.path.as_str() {
                "docs/intro.md" => StorageReadResponse {
                    content: "# Hello".into(),
                    version: 3,
                    ..StorageReadResponse::default()
                },
                "notes/with space é#?.md" | "notes/100%.md" | "docs/a/b.md" => StorageReadResponse {
                    content: read.path.clone().into(),
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
                // The response of the original's storage for a missing document.
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
                { "uri": "orchestra://docs/hollow", "name": "hollow", "mimeType": "text/markdown" },
                { "uri": "orchestra://docs/intro", "name": "intro", "mimeType": "text/markdown" },
                { "uri": "orchestra://docs/torn", "name": "torn", "mimeType": "text/markdown" },
                { "uri": "orchestra://features/shop/FEAT-1", "name": "shop/FEAT-1", "mimeType": "text/markdown" },
                { "uri": "orchestra://features/shop/FEAT-2", "name": "shop/FEAT-2", "mimeType": "text/markdown" },
                { "uri": "orchestra://notes/100%2525", "name": "100%25", "mimeType": "text/markdown" },
                { "uri": "orchestra://notes/with%20space%20%C3%A9%23%3F", "name": "with space é#?",
                  "mimeType": "text/markdown" },
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
        let template = |folder: &str, name: &str| {
            json!({
                "uriTemplate": format!("orchestra://{folder}/{{id}}"), "name": name,
                "description": format!("Access {name} by ID"), "mimeType": "text/markdown",
            })
        };
        assert_eq!(
            templates["result"]["resourceTemplates"],
            json!([
                template("docs", "Project Documentation"),
                template("features", "Project Features"),
                template("notes", "Project Notes"),
            ])
        );
    });
}

#[test]
fn a_document_is_read_under_its_uri_and_under_its_bare_name() {
    run(async {
        let stage = Stage::new(storage).await;
        let mut wire = stage.opened().await;
        for (uri, path) in [
            ("orchestra://notes/with%20space%20%C3%A9%23%3F", "notes/with space é#?.md"),
            // As the original lists it, and what the Python SDK makes of that.
            ("orchestra://notes/with space é#?", "notes/with space é#?.md"),
            ("orchestra://notes/with%20space%20%c3%a9#?", "notes/with space é#?.md"),
            ("orchestra://notes/100%25", "notes/100%.md"),
            ("orchestra://notes/100%", "notes/100%.md"),
            // How RFC 6570 expands the template with `a/b`.
            ("orchestra://docs/a%2Fb", "docs/a/b.md"),
        ] {
            let read = wire.ask("resources/read", &json!({ "uri": uri })).await;
            assert_eq!(
                read["result"]["contents"],
                json!([{ "uri": uri, "mimeType": "text/markdown", "text": path }]),
                "{read}"
            );
        }
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
        // Reading it returns nothing, not even a version; but it is in the list.
        let hollow = wire.ask("resources/read", &json!({ "uri": "orchestra://docs/hollow" })).await;
        assert_eq!(hollow["result"]["contents"][0]["text"], "");
        // Reading it returns nothing although it is not empty: Orchestra's storage does not report the problem.
        let torn = wire.ask("resources/read", &json!({ "uri": "orchestra://docs/torn" })).await;
        assert_eq!(torn["error"]["code"], -32603, "{torn}");
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
        let mut modern = crate::support::Wire::new(&stage.bridge);
        for (uri, says) in [
            ("orchestra://docs/none", "resource not found"),
            ("orchestra://notes/refused", "resource not found"),
            ("file:///etc/passwd", "unsupported URI scheme"),
            ("orchestra://secrets/a", "unknown resource type: \"secrets\""),
        ] {
            let missing = wire.ask("resources/read", &json!({ "uri": uri })).await;
            assert_eq!(missing["error"]["code"], -32002, "{missing}");
            assert_eq!(missing["error"]["data"], json!({ "uri": uri }));
            assert!(missing["error"]["message"].as_str().unwrap().contains(says), "{missing}");
            let missing = modern.ask_modern("resources/read", json!({ "uri": uri })).await;
            assert_eq!(missing["error"]["code"], -32602);
        }
        let broken = wire.ask("resources/read", &json!({ "uri": "orchestra://notes/broken" })).await;
        assert_eq!(
            (&broken["error"]["code"], &broken["error"]["data"]),
            (&json!(-32603), &json!({ "errorCode": "storage_error" }))
        );
        let asked = stage.scripted.requests().len();
        for uri in [
            "orchestra://docs",
            "orchestra://docs/",
            "orchestra://docs/../ca",
            "orchestra://docs/a//b",
            "orchestra://docs/%2e%2e/ca",
            "orchestra://docs/..%2fca",
            "orchestra://docs/a/%2E%2E%2Fca",
            "orchestra://docs/%2Fetc%2Fpasswd",
            "orchestra://docs/..%5Cca",
            "orchestra://docs/%FF",
        ] {
            let wrong = wire.ask("resources/read", &json!({ "uri": uri })).await;
            assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
            assert!(wrong["error"]["message"].as_str().unwrap().contains("invalid resource URI"), "{wrong}");
        }
        assert_eq!(stage.scripted.requests().len(), asked, "nothing was asked for these");
    });
}

#[test]
fn our_own_rules_find_no_fault_of_the_bridge() {
    run(async {
        let stage = Stage::new(|request| match &request.request {
            // As Orchestra's orchestrator reports it.
            Some(Request::PromptGet(get)) if !["plan", "write"].contains(&&*get.prompt_name) => {
                Act::Say(Response::PromptGet(PromptGetResponse {
                    description: format!("no plugin provides prompt {:?}", get.prompt_name),
                    messages: Vec::new(),
                }))
            }
            Some(Request::PromptGet(_) | Request::ListPrompts(_)) => prompts(request),
            Some(Request::StorageRead(_) | Request::StorageList(_)) => storage(request),
            _ => usual(request),
        })
        .await;
        let bridge = stage.bridge.clone();
        let validator = Validator::stream(move || {
            let (ours, theirs) = tokio::io::duplex(256 * 1024);
            let [ours, theirs] = [ours, theirs].map(|end| {
                let (reader, writer) = tokio::io::split(end);
                Link::stream(reader, writer, "test")
            });
            let bridge = bridge.clone();
            tokio::spawn(async move { bridge.serve(theirs).await });
            async { Ok::<Link, SocketError>(ours) }
        });
        let trace = validator.run().await.unwrap();
        let report = check_server(&trace, &Selection::default());
        let failed: Vec<_> = report.failed().map(|verdict| (verdict.rule.slug, &verdict.outcome)).collect();
        assert!(failed.is_empty(), "{failed:?}");
        let passed = |slug: &str| {
            let verdict = report.results.iter().find(|verdict| verdict.rule.slug == slug).unwrap();
            matches!(verdict.outcome, Outcome::Passed)
        };
        assert!(passed("resource-uri-valid"));
    });
}
