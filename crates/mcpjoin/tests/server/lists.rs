//! Tests of a server's resources, prompts, completions, pages, declared capabilities, and change notifications.

use std::time::Duration;

use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{
    PageParams, Prompt, PromptArgument, PromptReference, Resource, ResourceTemplate,
    ResourceTemplateReference, SubscriptionFilter,
};
use mcpjoin::proto::{Era, Method, Notification};
use mcpjoin::server::{BuildError, ChangeError, NoArguments, PromptArguments, ReadRequest, Server, tool};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::{BOTH_ERAS, Client, Wire, ask, builder, connect, in_era, initialize, run, value};

fn five() -> Server {
    let mut builder = Server::builder("s", "1").page_size(2).dynamic_tools();
    for name in ["e", "d", "c", "b", "a"] {
        builder = builder.tool(tool(name), |_: NoArguments, _| async {});
    }
    builder.build().unwrap()
}

fn names(page: &Value) -> Vec<&str> {
    page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn pages_are_read_in_the_order_of_registration() {
    run(async {
        for era in BOTH_ERAS {
            let client = in_era(&five(), era).await;
            let first = ask(&client, "tools/list", json!({})).await.unwrap();
            assert_eq!(names(&first), ["e", "d"]);
            let second = ask(&client, "tools/list", json!({ "cursor": first["nextCursor"] })).await.unwrap();
            assert_eq!(names(&second), ["c", "b"]);
            let third = ask(&client, "tools/list", json!({ "cursor": second["nextCursor"] })).await.unwrap();
            assert_eq!(names(&third), ["a"]);
            assert_eq!(third.get("nextCursor"), None);
            let all: Vec<String> =
                client.list_tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect();
            assert_eq!(all, ["e", "d", "c", "b", "a"]);
        }
    });
}

#[test]
fn pages_stay_right_while_the_list_changes() {
    run(async {
        let server = five();
        let client = in_era(&server, Era::Modern).await;
        let first = client.list_tools().page(PageParams::default()).await.unwrap();
        let handle = server.handle();
        assert!(handle.remove_tool("d").unwrap(), "the last of the first page");
        assert!(!handle.remove_tool("d").unwrap());
        handle.add_tool(tool("f"), |_: NoArguments, _| async {}).unwrap();
        handle.add_tool(tool("c").title("C"), |_: NoArguments, _| async {}).unwrap();
        let mut cursor = first.next_cursor;
        let mut rest = Vec::new();
        while let Some(next) = cursor {
            let page = client.list_tools().page(PageParams::default().with_cursor(next)).await.unwrap();
            rest.extend(page.tools.into_iter().map(|tool| (tool.name, tool.title)));
            cursor = page.next_cursor;
        }
        let rest: Vec<_> = rest.iter().map(|(name, title)| (name.as_str(), title.as_deref())).collect();
        assert_eq!(rest, [("c", Some("C")), ("b", None), ("a", None), ("f", None)]);
    });
}

#[test]
fn a_cursor_that_was_never_given_is_an_error_of_the_parameters() {
    run(async {
        let client = in_era(&five(), Era::Legacy).await;
        for cursor in [
            json!(""),
            json!("x"),
            json!("tools-"),
            json!("tools-06"),
            json!("tools-6"),
            json!("tools-+1"),
            json!("prompts-1"),
            json!("tools-ffffffffffffffffff"),
            json!(1),
            json!([]),
        ] {
            let error = ask(&client, "tools/list", json!({ "cursor": cursor })).await.unwrap_err();
            assert_eq!(error.code, -32602, "{cursor}");
        }
        ask(&client, "tools/list", json!({ "cursor": null })).await.unwrap();
    });
}

fn library() -> Server {
    Server::builder("library", "1")
        .subscriptions()
        .resource(Resource::new("doc://one", "one").with_mime_type("text/plain"), |_: ReadRequest, _| async {
            "the first"
        })
        .resource_template(ResourceTemplate::new("doc://{name}", "any"), |read: ReadRequest, _| async move {
            format!("about {}", read.variable("name"))
        })
        .resource_template(ResourceTemplate::new("doc://{shelf}/{name}", "shelf"), |read, _| async move {
            format!("{} on {}", read.variable("name"), read.variable("shelf"))
        })
        .resource_template(ResourceTemplate::new("doc://special-{name}", "special"), |read, _| async move {
            format!("special {}", read.variables["name"])
        })
        .prompt(
            Prompt::new("review").with_arguments(vec![
                PromptArgument::new("code").with_required(true),
                PromptArgument::new("style"),
            ]),
            |arguments: PromptArguments, _| async move { format!("Review {}", arguments["code"]) },
        )
        .completion(PromptReference::new("review"), |params, _| async move {
            (0..250).map(|number| format!("{}{number}", params.argument.value)).collect::<Vec<_>>()
        })
        .completion(ResourceTemplateReference::new("doc://{name}"), |_, _| async { vec!["one", "two"] })
        .build()
        .unwrap()
}

#[test]
fn a_resource_is_read_where_it_is_and_else_by_the_longest_template() {
    run(async {
        for era in BOTH_ERAS {
            let client = in_era(&library(), era).await;
            for (uri, read) in [
                ("doc://one", "the first"),
                ("doc://two", "about two"),
                ("doc://a%20b", "about a b"),
                ("doc://shelf/two", "two on shelf"),
                ("doc://special-one", "special one"),
            ] {
                let result = ask(&client, "resources/read", json!({ "uri": uri })).await.unwrap();
                assert_eq!(result["contents"][0]["text"], read);
                assert_eq!(result["contents"][0]["uri"], uri);
                let mime_type = (uri == "doc://one").then(|| json!("text/plain"));
                assert_eq!(result["contents"][0].get("mimeType"), mime_type.as_ref());
            }
            let templates = client.list_resource_templates().all().await.unwrap();
            assert_eq!(templates.len(), 3);
            assert_eq!(client.list_resources().all().await.unwrap().len(), 1);
        }
    });
}

#[test]
fn s21_a_resource_that_does_not_exist_has_the_code_of_its_era() {
    run(async {
        for (era, code) in [(Era::Legacy, -32002), (Era::Modern, -32602)] {
            let client = in_era(&library(), era).await;
            let error = ask(&client, "resources/read", json!({ "uri": "other://one" })).await.unwrap_err();
            assert_eq!(error.code, code);
            assert_eq!(value(&error.data.unwrap()), json!({ "uri": "other://one" }));
            for params in [json!({}), json!({ "uri": 1 })] {
                assert_eq!(ask(&client, "resources/read", params).await.unwrap_err().code, -32602);
            }
        }
        let legacy = in_era(&library(), Era::Legacy).await;
        let error = ask(&legacy, "resources/subscribe", json!({ "uri": "other://one" })).await.unwrap_err();
        assert_eq!(error.code, -32002);
    });
}

#[test]
fn prompts_need_their_required_arguments() {
    run(async {
        for era in BOTH_ERAS {
            let client = in_era(&library(), era).await;
            let params = json!({ "name": "review", "arguments": { "code": "x" } });
            let result = ask(&client, "prompts/get", params).await.unwrap();
            let message = json!({ "role": "user", "content": { "type": "text", "text": "Review x" } });
            assert_eq!(result["messages"], json!([message]));
            for (params, said) in [
                (json!({ "name": "review" }), "`code`"),
                (json!({ "name": "review", "arguments": { "style": "x" } }), "`code`"),
                (json!({ "name": "review", "arguments": { "code": 1 } }), "code"),
                (json!({ "name": "other" }), "unknown prompt: other"),
                (json!({}), "`name`"),
            ] {
                let error = ask(&client, "prompts/get", params).await.unwrap_err();
                assert_eq!(error.code, -32602);
                assert!(error.message.contains(said), "{error}");
            }
        }
    });
}

#[test]
fn at_most_a_hundred_values_are_proposed() {
    run(async {
        for era in BOTH_ERAS {
            let client = in_era(&library(), era).await;
            let of =
                |reference: Value| json!({ "ref": reference, "argument": { "name": "code", "value": "v" } });
            let prompt = of(json!({ "type": "ref/prompt", "name": "review" }));
            let result = ask(&client, "completion/complete", prompt).await.unwrap();
            let completion = &result["completion"];
            assert_eq!(completion["values"].as_array().unwrap().len(), 100);
            assert_eq!(completion["values"][99], "v99");
            assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(250), &json!(true)));
            let template = of(json!({ "type": "ref/resource", "uri": "doc://{name}" }));
            let result = ask(&client, "completion/complete", template).await.unwrap();
            assert_eq!(result, json!({ "completion": { "values": ["one", "two"] } }));
            let without = of(json!({ "type": "ref/resource", "uri": "doc://{shelf}/{name}" }));
            let result = ask(&client, "completion/complete", without).await.unwrap();
            assert_eq!(result, json!({ "completion": { "values": [] } }));
            let unknown = of(json!({ "type": "ref/prompt", "name": "no" }));
            assert_eq!(ask(&client, "completion/complete", unknown).await.unwrap_err().code, -32602);
        }
    });
}

async fn declared(server: &Server) -> Value {
    Wire::new(server).ask(&initialize("2025-11-25")).await["result"]["capabilities"].clone()
}

#[test]
fn c63_exactly_what_was_registered_is_declared_and_everything_else_refused() {
    run(async {
        let nothing = Server::builder("s", "1").build().unwrap();
        assert_eq!(declared(&nothing).await, json!({}));
        assert_eq!(
            declared(&library()).await,
            json!({ "resources": { "subscribe": true }, "prompts": {}, "completions": {} })
        );
        assert_eq!(declared(&five()).await, json!({ "tools": { "listChanged": true } }));
        let dynamic =
            Server::builder("s", "1").dynamic_resources().dynamic_prompts().logging().build().unwrap();
        assert_eq!(
            declared(&dynamic).await,
            json!({ "resources": { "listChanged": true }, "prompts": { "listChanged": true }, "logging": {} })
        );
        let mut wire = Wire::opened(&nothing).await;
        for method in
            ["tools/list", "tools/call", "resources/read", "prompts/get", "completion/complete", "tasks/get"]
        {
            let answer = wire.ask(&crate::request(1, method, &json!({}))).await;
            assert_eq!(answer["error"]["code"], -32601, "{method}");
        }
    });
}

/// A client, and the notifications that it receives.
async fn listening(server: &Server, era: Era) -> (Client, UnboundedReceiver<Notification>) {
    let (received, receiver) = mpsc::unbounded_channel();
    let builder = builder().era(EraChoice::Only(era)).on_notification(move |notification| {
        // The test may have dropped the receiver.
        drop(received.send(notification));
    });
    (connect(server, builder).await, receiver)
}

#[test]
fn changes_of_lists_reach_each_listener_and_a_storm_is_notified_once() {
    run(async {
        let server =
            Server::builder("s", "1").dynamic_tools().dynamic_resources().dynamic_prompts().build().unwrap();
        let (legacy, mut legacy_hears) = listening(&server, Era::Legacy).await;
        let modern = in_era(&server, Era::Modern).await;
        let filter =
            SubscriptionFilter::default().with_tools_list_changed(true).with_prompts_list_changed(true);
        let mut stream = modern.listen(filter).await.unwrap();
        let deaf = in_era(&server, Era::Modern).await;
        let handle = server.handle();
        for number in 0..10_000 {
            handle.add_tool(tool(number.to_string()), |_: NoArguments, _| async {}).unwrap();
        }
        assert_eq!(legacy_hears.recv().await.unwrap().method, Method::ToolListChanged);
        assert_eq!(stream.next().await.unwrap().unwrap().method, Method::ToolListChanged);
        handle.add_resource(Resource::new("x://1", "1"), |_, _| async { "" }).unwrap();
        handle.add_resource_template(ResourceTemplate::new("y://{z}", "z"), |_, _| async { "" }).unwrap();
        assert_eq!(legacy_hears.recv().await.unwrap().method, Method::ResourceListChanged);
        handle.add_prompt(Prompt::new("p"), |_, _| async { "" }).unwrap();
        assert_eq!(legacy_hears.recv().await.unwrap().method, Method::PromptListChanged);
        assert_eq!(
            stream.next().await.unwrap().unwrap().method,
            Method::PromptListChanged,
            "and no resources"
        );
        assert!(handle.remove_prompt("p").unwrap() && handle.remove_resource("y://{z}").unwrap());
        assert_eq!(legacy_hears.recv().await.unwrap().method, Method::ResourceListChanged);
        assert_eq!(legacy_hears.recv().await.unwrap().method, Method::PromptListChanged);
        assert_eq!(stream.next().await.unwrap().unwrap().method, Method::PromptListChanged);
        // Each notification was sent once: there is no other one.
        for client in [&legacy, &modern, &deaf] {
            assert_eq!(client.list_tools().all().await.unwrap().len(), 10_000);
        }
        assert!(legacy_hears.try_recv().is_err());
    });
}

#[test]
fn a_list_that_is_not_declared_to_change_does_not() {
    let server = library();
    let handle = server.handle();
    let error = handle.add_resource(Resource::new("x://1", "1"), |_, _| async { "" });
    assert!(matches!(error, Err(ChangeError::Fixed("resources"))));
    assert!(matches!(handle.remove_tool("t"), Err(ChangeError::Fixed("tools"))));
    assert!(matches!(handle.remove_prompt("review"), Err(ChangeError::Fixed("prompts"))));
}

#[test]
fn subscribers_are_notified_of_an_updated_resource() {
    run(async {
        let server = library();
        let handle = server.handle();
        let (legacy, mut legacy_hears) = listening(&server, Era::Legacy).await;
        let (modern, mut modern_hears) = listening(&server, Era::Modern).await;
        for client in [&legacy, &modern] {
            client.subscribe("doc://one").await.unwrap();
        }
        handle.notify_resource_updated("doc://two");
        handle.notify_resource_updated("doc://one");
        handle.notify_resource_updated("doc://one");
        for receiver in [&mut legacy_hears, &mut modern_hears] {
            let received = receiver.recv().await.unwrap();
            assert_eq!(received.method, Method::ResourceUpdated);
            assert_eq!(value(received.params.unwrap().raw())["uri"], "doc://one");
        }
        for client in [&legacy, &modern] {
            client.unsubscribe("doc://one").await.unwrap();
        }
        // The end of a stream is not acknowledged, so the test sends a request after it and waits for the response.
        ask(&modern, "resources/list", json!({})).await.unwrap();
        handle.notify_resource_updated("doc://one");
        for receiver in [&mut legacy_hears, &mut modern_hears] {
            let received = tokio::time::timeout(Duration::from_secs(60), receiver.recv()).await;
            assert!(received.is_err(), "{received:?}");
        }
    });
}

#[test]
fn a_template_that_cannot_be_matched_is_refused() {
    let build = |template: &str| {
        Server::builder("s", "1")
            .resource_template(ResourceTemplate::new(template, "t"), |_, _| async { "" })
            .build()
            .err()
    };
    assert!(matches!(build("x://{?path}"), Some(BuildError::Template { .. })));
    assert_eq!(build("x://{path}"), None);
    assert_eq!(build("x://{+path}"), None);
}
