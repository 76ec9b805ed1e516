//! Each request that the host supports, and those that it does not.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcpjoin::proto::Raw;
use mcpjoin::proto::types::{
    BlobResourceContents, Content, ImageContent, Prompt, PromptArgument, PromptMessage, Resource,
    ResourceTemplate, Role, TextResourceContents, Tool,
};
use mcpjoin::server::{Context, NoArguments, PromptArguments, ReadRequest, Server, ServerBuilder, tool};
use mcpjoin_orchestra::host::HostLimits;
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::plugin_response::Response;
use mcpjoin_orchestra::wire::{
    self, BootRequest, HealthRequest, ListPromptsRequest, ListToolsRequest, PluginManifest, PluginRequest,
    PluginResponse, PromptGetRequest, Publish, ShutdownRequest, StorageDeleteRequest, StorageListRequest,
    StorageReadRequest, StorageWriteRequest, StreamCancel, StreamStart, Subscribe, ToolRequest, Unsubscribe,
};
use serde_json::json;
use tokio::sync::Barrier;

use crate::{Stage, bytes, call, json, offer, run};

const GOLDEN: &str = include_str!("../base/golden.txt");

/// A frame of the real programs with its length prefix.
fn golden(name: &str) -> Vec<u8> {
    let line = GOLDEN.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
    let hex = line.split(' ').nth(2).unwrap();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn frame(id: &str, request: Request) -> Vec<u8> {
    wire::encode(&PluginRequest { request_id: id.to_owned(), request: Some(request) }).unwrap().to_vec()
}

/// A server whose tool returns its name.
fn named(name: &'static str) -> ServerBuilder {
    Server::builder(name, "1")
        .tool(tool("who").description(name), move |_: NoArguments, _| async move { name })
        .tool(tool(name), move |_: NoArguments, _| async move { name })
}

fn tools_alone() -> Server {
    named("plain").build().unwrap()
}

#[test]
fn the_answers_of_the_real_orchestrator_are_ours() {
    run(async {
        let stage = Stage::of(&tools_alone()).await;
        for (request, id, answer) in [
            (Request::Health(HealthRequest {}), "h1", "health"),
            (Request::ListPrompts(ListPromptsRequest {}), "p1", "prompts_list_empty"),
            (Request::StorageList(StorageListRequest::default()), "s1", "storage_list_empty"),
        ] {
            assert_eq!(bytes(&stage.connection, &frame(id, request)).await, golden(answer), "{answer}");
        }
    });
}

#[test]
fn every_request_of_the_real_bridge_is_answered() {
    run(async {
        let stage = Stage::of(&tools_alone()).await;
        for line in GOLDEN.lines().filter(|line| line.split(' ').nth(1) == Some("request")) {
            let name = line.split(' ').next().unwrap();
            let asked = golden(name);
            let request: PluginRequest = wire::decode(asked[4..].to_vec().into()).unwrap();
            let answer = bytes(&stage.connection, &asked).await;
            let answer: PluginResponse = wire::decode(answer[4..].to_vec().into()).unwrap();
            assert_eq!(answer.request_id, request.request_id);
            match (request.request.unwrap(), answer.response.unwrap()) {
                (Request::ListTools(_), Response::ListTools(list)) => assert_eq!(list.tools.len(), 2),
                (Request::ListPrompts(_), Response::ListPrompts(list)) => assert_eq!(list.prompts, []),
                (Request::StorageList(_), Response::StorageList(list)) => assert_eq!(list.entries, []),
                (Request::ToolCall(call), Response::ToolCall(answer)) => {
                    assert_eq!(answer.error_code, "tool_not_found");
                    assert_eq!(answer.error_message, format!("no plugin provides tool {:?}", call.tool_name));
                }
                (Request::PromptGet(_), Response::ToolCall(answer)) => {
                    assert_eq!((answer.success, &*answer.error_code), (false, "not_found"));
                }
                (asked, answered) => panic!("{asked:?}: {answered:?}"),
            }
        }
    });
}

#[test]
fn tools_of_all_servers_are_one_sorted_list_and_the_last_of_one_name_wins() {
    run(async {
        let (first, second) = (named("first").build().unwrap(), named("second").build().unwrap());
        let offers = [offer("a", &first).await, offer("b", &second).await];
        let stage = Stage::with(offers, HostLimits::default()).await;
        // Before any list, and after one.
        for _ in 0..2 {
            assert_eq!(json(&stage.call("who", "{}").await.result), json!({ "text": "second" }));
            assert_eq!(json(&stage.call("first", "{}").await.result), json!({ "text": "first" }));
            let Response::ListTools(list) = stage.ask(Request::ListTools(ListToolsRequest {})).await else {
                panic!("a list")
            };
            let names: Vec<_> = list.tools.iter().map(|tool| (&*tool.name, &*tool.description)).collect();
            assert_eq!(names, [("first", ""), ("second", ""), ("who", "second")]);
            assert_eq!(json(&list.tools[0].input_schema)["type"], "object");
        }
        // A provider that names a server selects it; any other provider is ignored.
        for (provider, who) in [("a", "first"), ("b", "second"), ("openai", "second")] {
            let request = ToolRequest {
                tool_name: "who".to_owned(),
                provider: provider.to_owned(),
                ..ToolRequest::default()
            };
            let Response::ToolCall(answer) = stage.ask(Request::ToolCall(request)).await else { panic!() };
            assert_eq!(json(&answer.result), json!({ "text": who }), "{provider}");
        }
    });
}

#[test]
fn a_tool_that_is_not_permitted_is_neither_seen_nor_called() {
    run(async {
        let server = named("hidden").build().unwrap();
        let offer = offer("one", &server).await.tools(|tool| tool != "hidden");
        let stage = Stage::with([offer], HostLimits::default()).await;
        let Response::ListTools(list) = stage.ask(Request::ListTools(ListToolsRequest {})).await else {
            panic!("a list")
        };
        assert_eq!(list.tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["who"]);
        for provider in ["", "one"] {
            let request = ToolRequest {
                tool_name: "hidden".to_owned(),
                provider: provider.to_owned(),
                ..ToolRequest::default()
            };
            assert_eq!(stage.refused(Request::ToolCall(request)).await.0, "tool_not_found");
        }
    });
}

#[test]
fn a_tool_that_is_new_is_found_and_one_that_is_gone_is_not() {
    run(async {
        let server = named("plain").dynamic_tools().build().unwrap();
        let stage = Stage::of(&server).await;
        assert_eq!(stage.refused(call("late", "{}")).await.0, "tool_not_found");
        let handle = server.handle();
        handle.add_tool(tool("late"), |_: NoArguments, _| async { "here" }).unwrap();
        assert_eq!(json(&stage.call("late", "{}").await.result), json!({ "text": "here" }));
        handle.remove_tool("late").unwrap();
        assert_eq!(stage.refused(call("late", "{}")).await.0, "tool_not_found");
    });
}

#[test]
fn arguments_and_the_trace_arrive() {
    run(async {
        let schema = Raw::parse(r#"{"type":"object"}"#).unwrap();
        let echo = Tool::new("echo", schema);
        let server =
            Server::builder("echo", "1").raw_tool(echo, |arguments: Raw, context: Context| async move {
                let params: serde_json::Value =
                    serde_json::from_str(context.params().unwrap().raw().as_str()).unwrap();
                let trace = params["_meta"]["traceparent"].as_str().unwrap_or("none");
                format!("{} {trace}", arguments.as_str())
            });
        let stage = Stage::of(&server.build().unwrap()).await;
        let text = r#"{"a":[1,2.5,null,true,"x"],"b":{"c":{}},"n":-9007199254740992}"#;
        assert_eq!(json(&stage.call("echo", text).await.result)["text"], format!("{text} none"));
        let Request::ToolCall(request) = call("echo", "{}") else { panic!() };
        let request = ToolRequest { trace_parent: "00-a-b-01".to_owned(), ..request };
        let Response::ToolCall(answer) = stage.ask(Request::ToolCall(request)).await else { panic!() };
        assert_eq!(json(&answer.result)["text"], "{} 00-a-b-01");
    });
}

fn library() -> ServerBuilder {
    Server::builder("library", "1")
        .prompt(
            Prompt::new("greet").with_description("Greets").with_arguments([
                PromptArgument::new("who").with_description("Whom").with_required(true),
                PromptArgument::new("how"),
            ]),
            |arguments: PromptArguments, _| async move {
                let who = arguments.get("who").cloned().unwrap_or_default();
                vec![
                    PromptMessage::new(Role::User, Content::text(format!("hello {who}"))),
                    PromptMessage::new(
                        Role::Assistant,
                        Content::from(ImageContent::new("AAAA", "image/png")),
                    ),
                ]
            },
        )
        .resource(
            Resource::new("test://text", "text").with_mime_type("text/plain").with_size(5),
            |_: ReadRequest, _| async { "hello" },
        )
        .resource(Resource::new("test://bytes", "bytes"), |read: ReadRequest, _| async move {
            BlobResourceContents::new(read.uri, "AAEC/w==").with_mime_type("image/png")
        })
        .resource_template(
            ResourceTemplate::new("test://any/{id}", "any"),
            |read: ReadRequest, _| async move {
                let text = format!("any {}", read.variable("id"));
                TextResourceContents::new(read.uri, text)
            },
        )
}

#[test]
fn prompts_are_listed_and_filled_in() {
    run(async {
        let stage = Stage::of(&library().build().unwrap()).await;
        let Response::ListPrompts(list) = stage.ask(Request::ListPrompts(ListPromptsRequest {})).await else {
            panic!("a list")
        };
        let [prompt] = &*list.prompts else { panic!("{list:?}") };
        assert_eq!((&*prompt.name, &*prompt.description), ("greet", "Greets"));
        let arguments: Vec<_> = prompt
            .arguments
            .iter()
            .map(|argument| (&*argument.name, &*argument.description, argument.required))
            .collect();
        assert_eq!(arguments, [("who", "Whom", true), ("how", "", false)]);

        let get = |name: &str| {
            let arguments = BTreeMap::from([("who".to_owned(), "you".to_owned())]);
            Request::PromptGet(PromptGetRequest { prompt_name: name.to_owned(), arguments })
        };
        let Response::PromptGet(prompt) = stage.ask(get("greet")).await else { panic!("a prompt") };
        let messages = prompt.messages.iter().map(|message| {
            let content = message.content.as_ref().unwrap();
            (&*message.role, &*content.r#type, &*content.text)
        });
        let messages: Vec<_> = messages.collect();
        assert_eq!(messages, [("user", "text", "hello you"), ("assistant", "text", "[image: image/png]")]);
        let (code, message) = stage.refused(get("leave")).await;
        assert_eq!((&*code, &*message), ("not_found", r#"no plugin provides prompt "leave""#));
    });
}

#[test]
fn resources_are_documents() {
    run(async {
        let stage = Stage::of(&library().build().unwrap()).await;
        let list = async |prefix: &str, pattern: &str, storage_type: &str| {
            let list = StorageListRequest {
                prefix: prefix.to_owned(),
                pattern: pattern.to_owned(),
                storage_type: storage_type.to_owned(),
            };
            match stage.ask(Request::StorageList(list)).await {
                Response::StorageList(list) => list.entries,
                other => panic!("{other:?}"),
            }
        };
        let entries = list("docs/", "", "").await;
        let found: Vec<_> = entries.iter().map(|entry| (&*entry.path, entry.size)).collect();
        assert_eq!(found, [("docs/test%3A%2F%2Fbytes.md", 0), ("docs/test%3A%2F%2Ftext.md", 5)]);
        assert_eq!(list("", "*text.md", "markdown").await.len(), 1);
        assert_eq!(list("features/", "", "").await, []);
        assert_eq!(list("test:", "", "mcp").await[0].path, "test://bytes");

        let read = |path: &str, storage_type: &str| {
            let storage_type = storage_type.to_owned();
            Request::StorageRead(StorageReadRequest { path: path.to_owned(), storage_type })
        };
        for (path, storage_type) in
            [("docs/test%3A%2F%2Ftext.md", ""), ("test://text", "mcp"), ("docs/test://text.md", "markdown")]
        {
            let Response::StorageRead(document) = stage.ask(read(path, storage_type)).await else {
                panic!("{path}")
            };
            assert_eq!((&document.content[..], document.version), (&b"hello"[..], 0), "{path}");
            assert_eq!(json(&document.metadata)["uri"], "test://text");
        }
        let Response::StorageRead(bytes) = stage.ask(read("test://bytes", "mcp")).await else { panic!() };
        assert_eq!(&bytes.content[..], [0, 1, 2, 255]);
        assert_eq!(json(&bytes.metadata), json!({ "uri": "test://bytes", "mimeType": "image/png" }));
        // A resource of a template only.
        let Response::StorageRead(any) = stage.ask(read("test://any/7", "mcp")).await else { panic!() };
        assert_eq!(&any.content[..], b"any 7");
        assert_eq!(stage.refused(read("docs/nothing.md", "")).await.0, "not_found");
        let (code, message) = stage.refused(read("test://text", "sqlite")).await;
        assert_eq!((&*code, &*message), ("routing_error", r#"no plugin provides storage "sqlite""#));
    });
}

#[test]
fn what_our_orchestrator_does_not_support_is_refused_with_the_reason() {
    run(async {
        let stage = Stage::of(&tools_alone()).await;
        for request in [
            Request::Register(PluginManifest::default()),
            Request::Boot(BootRequest::default()),
            Request::Shutdown(ShutdownRequest::default()),
            Request::StorageWrite(StorageWriteRequest::default()),
            Request::StorageDelete(StorageDeleteRequest::default()),
            Request::StreamStart(StreamStart::default()),
            Request::StreamCancel(StreamCancel::default()),
            Request::Subscribe(Subscribe { topic: "t".to_owned(), ..Subscribe::default() }),
            // After a subscription this crashes the original.
            Request::Publish(Publish { topic: "t".to_owned(), ..Publish::default() }),
            Request::Unsubscribe(Unsubscribe::default()),
        ] {
            let (code, message) = stage.refused(request).await;
            assert_eq!((&*code, &*message), ("unknown_request", "unrecognized request type"));
        }
        // An empty frame is an empty request.
        let answer = bytes(&stage.connection, &[0, 0, 0, 0]).await;
        let answer: PluginResponse = wire::decode(answer[4..].to_vec().into()).unwrap();
        assert!(
            matches!(answer.response, Some(Response::ToolCall(answer)) if answer.error_code == "unknown_request")
        );
        assert_eq!(json(&stage.call("who", "{}").await.result), json!({ "text": "plain" }));
    });
}

#[test]
fn more_calls_than_streams_are_all_answered() {
    run(async {
        let schema = Raw::parse(r#"{"type":"object"}"#).unwrap();
        let server =
            Server::builder("echo", "1")
                .raw_tool(Tool::new("echo", schema), |arguments: Raw, _| async move {
                    arguments.as_str().to_owned()
                });
        let stage = Stage::of(&server.build().unwrap()).await;
        let calls = (0..250).map(|number| {
            let stage = &stage;
            async move {
                let text = format!(r#"{{"n":{number}}}"#);
                assert_eq!(json(&stage.call("echo", &text).await.result)["text"], text);
            }
        });
        futures_util::future::join_all(calls).await;
    });
}

/// As many streams as with the original at any time, although QUIC does not return the credit one by one.
#[test]
fn a_hundred_calls_run_at_once_on_a_connection_that_has_been_used_however_often() {
    run(async {
        let all = Arc::new(Barrier::new(100));
        let meet = move |_: NoArguments, _| {
            let all = all.clone();
            async move {
                all.wait().await;
                "met"
            }
        };
        let stage =
            Stage::of(&Server::builder("meeting", "1").tool(tool("meet"), meet).build().unwrap()).await;
        for _ in 0..16 {
            futures_util::future::join_all((0..100).map(|_| stage.call("meet", "{}"))).await;
            stage.ask(Request::Health(HealthRequest {})).await;
        }
    });
}
