//! Tests of servers that are mounted on another one.

use std::sync::Arc;
use std::time::Duration;

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::session::{EraChoice, Reply};
use mcpjoin::proto::types::{
    CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitResult,
    ElicitationSchema, LoggingLevel, Members, Meta, Prompt, PromptArgument, PromptReference, Resource,
    ResourceTemplate, ResourceTemplateReference, Role, SamplingMessage, SubscriptionFilter, TextContent,
    Tool,
};
use mcpjoin::proto::{Era, ErrorObject, Method, Raw};
use mcpjoin::server::catalogue::{ORIGINAL_NAME, Source};
use mcpjoin::server::{
    BuildError, Context, HandlerError, NoArguments, PromptArguments, ReadRequest, Server, ServerBuilder,
    StateKey, tool,
};
use mcpjoin::{Client, Handler, connection};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{BOTH_ERAS, Wire, ask, builder, call, connect, in_era, initialize, raw, run, text, value};

const ORIGINAL: &str = ORIGINAL_NAME;

fn form(message: &str) -> ElicitFormParams {
    ElicitFormParams::new(message, ElicitationSchema::new(Members::new()))
}

/// A server with one of everything. Each says which server it belongs to.
fn notes() -> ServerBuilder {
    Server::builder("notes", "1")
        .instructions("How to use notes.")
        .subscriptions()
        .logging()
        .dynamic_tools()
        .dynamic_resources()
        .tool(tool("count"), |_: NoArguments, _| async { "three notes" })
        .tool(tool("asks"), |_: NoArguments, cx: Context| async move {
            let sure = cx.elicit(form("Sure?")).await?.action;
            let message = SamplingMessage::new(Role::User, TextContent::new("hm"));
            let model = cx.sample(CreateMessageParams::new(vec![message], 10)).await?.model;
            Ok::<_, HandlerError>(format!("{} {model}", sure.as_str()))
        })
        .tool(tool("tells"), |_: NoArguments, cx: Context| async move {
            cx.progress(1.0, Some(2.0), Some("half"));
            cx.log(LoggingLevel::Info, "said");
            "told"
        })
        .tool(tool("later").as_task(), |_: NoArguments, cx: Context| async move {
            let answer = cx.elicit(form("Now?")).await?;
            Ok::<_, HandlerError>(answer.action.as_str().to_owned())
        })
        .prompt(
            Prompt::new("review").with_arguments(vec![PromptArgument::new("code").with_required(true)]),
            |arguments: PromptArguments, _| async move { format!("Review {}", arguments["code"]) },
        )
        .completion(PromptReference::new("review"), |_, _| async { vec!["main.rs"] })
        .resource(Resource::new("note://all", "all"), |_: ReadRequest, _| async { "all notes" })
        .resource_template(ResourceTemplate::new("note://{id}", "note"), |read: ReadRequest, _| async move {
            format!("note {}", read.variable("id"))
        })
        .completion(ResourceTemplateReference::new("note://{id}"), |_, _| async { vec!["7"] })
}

/// A server with the notes mounted twice deep, and another one beside.
fn office() -> Server {
    let cellar = Server::builder("cellar", "1")
        .tool(tool("own"), |_: NoArguments, _| async { "of the cellar" })
        .mount("notes", notes().build().unwrap());
    let files = Server::builder("files", "1").tool(tool("count"), |_: NoArguments, _| async { "two files" });
    let files = files.resource(Resource::new("file:///a", "a"), |_: ReadRequest, _| async { "file a" });
    Server::builder("office", "1")
        .instructions("How to use the office.")
        .tool(tool("count"), |_: NoArguments, _| async { "one office" })
        .mount("cellar", cellar.build().unwrap())
        .mount(Source::new("files").separator("."), files.build().unwrap())
        .build()
        .unwrap()
}

async fn tools(client: &Client) -> Vec<String> {
    client.list_tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

fn answering(era: Era) -> ClientBuilder {
    builder()
        .era(EraChoice::Only(era))
        .tasks(true)
        .elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Accept)) })
        .sampling(|_| async { Ok(CreateMessageResult::text("hm", "a model")) })
}

#[test]
fn everything_of_mounted_servers_is_offered_in_both_eras() {
    run(async {
        let server = office();
        for era in BOTH_ERAS {
            let client = in_era(&server, era).await;
            let offered = [
                "count",
                "cellar__own",
                "cellar__notes__count",
                "cellar__notes__asks",
                "cellar__notes__tells",
                "cellar__notes__later",
                "files.count",
            ];
            assert_eq!(tools(&client).await, offered);
            for (name, said) in [
                ("count", "one office"),
                ("cellar__own", "of the cellar"),
                ("cellar__notes__count", "three notes"),
                ("files.count", "two files"),
            ] {
                assert_eq!(text(&call(&client, name, json!({})).await.unwrap()), said);
            }
            for unknown in ["own", "cellar__count", "notes__count", "files__count", "cellar__notes__x"] {
                let error = call(&client, unknown, json!({})).await.unwrap_err();
                assert_eq!((error.code, error.message), (-32602, format!("unknown tool: {unknown}")));
            }
            let prompts = client.list_prompts().all().await.unwrap();
            assert_eq!(prompts[0].name, "cellar__notes__review");
            let params = json!({ "name": "cellar__notes__review", "arguments": { "code": "x" } });
            let prompt = ask(&client, "prompts/get", params).await.unwrap();
            assert_eq!(prompt["messages"][0]["content"]["text"], "Review x");
            for reference in [
                json!({ "type": "ref/prompt", "name": "cellar__notes__review" }),
                json!({ "type": "ref/resource", "uri": "note://{id}" }),
            ] {
                let params = json!({ "ref": reference, "argument": { "name": "code", "value": "" } });
                let completion = ask(&client, "completion/complete", params).await.unwrap();
                assert_eq!(completion["completion"]["values"].as_array().unwrap().len(), 1);
            }
            for (uri, read) in [("note://all", "all notes"), ("note://7", "note 7"), ("file:///a", "file a")]
            {
                let result = ask(&client, "resources/read", json!({ "uri": uri })).await.unwrap();
                assert_eq!(
                    (&result["contents"][0]["text"], &result["contents"][0]["uri"]),
                    (&json!(read), &json!(uri))
                );
            }
            let missing = ask(&client, "resources/read", json!({ "uri": "other://1" })).await.unwrap_err();
            assert_eq!(missing.code, if era == Era::Legacy { -32002 } else { -32602 });
            assert_eq!(client.list_resources().all().await.unwrap().len(), 2);
            assert_eq!(client.list_resource_templates().all().await.unwrap().len(), 1);
        }
    });
}

#[test]
fn the_capabilities_and_instructions_are_those_of_all() {
    run(async {
        let opened = Wire::new(&office()).ask(&initialize("2025-11-25")).await["result"].clone();
        assert_eq!(
            opened["capabilities"],
            json!({
                "logging": {}, "completions": {}, "prompts": {},
                "resources": { "subscribe": true, "listChanged": true }, "tools": { "listChanged": true },
                "tasks": { "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } },
            })
        );
        let instructions = "How to use the office.\n\n## cellar\n\n## notes\n\nHow to use notes.";
        assert_eq!(opened["instructions"], instructions);
        let plain = Server::builder("s", "1").mount("a", Server::builder("a", "1").build().unwrap());
        let opened =
            Wire::new(&plain.build().unwrap()).ask(&initialize("2025-11-25")).await["result"].clone();
        assert_eq!((&opened["capabilities"], opened.get("instructions")), (&json!({}), None));
        let long = Server::builder("s", "1").instructions("é".repeat(9000)).build().unwrap();
        let server = Server::builder("s", "1").instructions("Own.").mount("", long).build().unwrap();
        let opened = Wire::new(&server).ask(&initialize("2025-11-25")).await["result"].clone();
        let instructions = opened["instructions"].as_str().unwrap();
        assert!(instructions.starts_with("Own.\n\n## s\n\né") && instructions.len() <= 8192);
    });
}

#[test]
fn input_progress_and_log_messages_work_through_mounts() {
    run(async {
        let server = office();
        for era in BOTH_ERAS {
            let (received, mut receiver) = mpsc::unbounded_channel();
            let client = answering(era).on_log(move |log| drop(received.send(value(&log.data))));
            let client = connect(&server, client).await;
            client.set_level(LoggingLevel::Debug).await.unwrap();
            let asked = client.call_tool("cellar__notes__asks", ()).await.unwrap();
            assert_eq!(asked.content[0].as_text(), Some("accept a model"));
            let mut tells = client.call_tool("cellar__notes__tells", ());
            let mut progress = Vec::new();
            while let Some(event) = tells.next_event().await {
                progress.push(format!("{event:?}"));
            }
            assert!(progress.iter().any(|event| event.contains("half")), "{progress:?}");
            assert_eq!(receiver.recv().await.unwrap(), "said");
        }
    });
}

/// Sends a modern request over a wire.
async fn modern(wire: &mut Wire, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": { "form": {} }, "extensions": { "io.modelcontextprotocol/tasks": {} }
        },
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "0" }
    });
    wire.ask(&crate::request(1, method, &params)).await
}

fn with_question(key: u8) -> Server {
    let asks = |_: NoArguments, cx: Context| async move {
        Ok::<_, HandlerError>(cx.elicit(form("Sure?")).await?.action.as_str().to_owned())
    };
    Server::builder("s", "1")
        .tool(tool("asks"), asks)
        .state_key(StateKey::from_bytes([key; 32]))
        .build()
        .unwrap()
}

#[test]
fn a_state_is_sealed_with_the_key_of_the_mounted_server() {
    run(async {
        let office = || Server::builder("o", "1").mount("a", with_question(1)).mount("b", with_question(2));
        let (one, two) = (office().build().unwrap(), office().build().unwrap());
        let asked = modern(&mut Wire::new(&one), "tools/call", json!({ "name": "a__asks" })).await;
        let state = asked["result"]["requestState"].clone();
        assert!(state.is_string(), "{asked}");
        let again = |tool: &str| {
            let responses = json!({ "ask-1": { "action": "accept" } });
            json!({ "name": tool, "requestState": state, "inputResponses": responses })
        };
        // The keys of the outer servers are random and not used.
        let answered = modern(&mut Wire::new(&two), "tools/call", again("a__asks")).await;
        assert_eq!(text(&answered["result"]), "accept");
        let foreign = modern(&mut Wire::new(&one), "tools/call", again("b__asks")).await;
        assert_eq!(foreign["error"]["code"], -32602);
        // Served on its own, the same server accepts it under its own name.
        let alone = modern(&mut Wire::new(&with_question(1)), "tools/call", again("asks")).await;
        assert_eq!(text(&alone["result"]), "accept");
    });
}

/// The pages of the list of tools, until `end` or the last page.
async fn pages(client: &Client, mut cursor: Value, end: usize) -> (Vec<String>, Value) {
    let mut pages = Vec::new();
    while pages.len() < end {
        let page = ask(client, "tools/list", json!({ "cursor": cursor })).await.unwrap();
        let names = page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
        pages.push(names.collect::<Vec<_>>().join(" "));
        cursor = page.get("nextCursor").cloned().unwrap_or_default();
        if cursor.is_null() {
            break;
        }
    }
    (pages, cursor)
}

/// A server with these tools.
fn with_tools(names: &[&str]) -> ServerBuilder {
    let mut server = Server::builder("s", "1").dynamic_tools();
    for name in names {
        server = server.tool(tool(*name), |_: NoArguments, _| async { "called" });
    }
    server
}

#[test]
fn pages_go_on_from_server_to_server_and_stay_right_while_entries_change() {
    run(async {
        for era in BOTH_ERAS {
            let b = with_tools(&["1", "2", "3"]).page_size(2).build().unwrap();
            let c = with_tools(&["1"]).build().unwrap();
            let empty = || with_tools(&[]).build().unwrap();
            let server = with_tools(&["own"]).page_size(3).mount("a", empty()).mount("b", b.clone());
            let server = server.mount("c", c.clone()).mount("d", empty()).build().unwrap();
            let client = in_era(&server, era).await;
            let (all, _) = pages(&client, Value::Null, 9).await;
            assert_eq!(all, ["own b__1 b__2", "b__3 c__1"], "no empty page follows");
            let (first, cursor) = pages(&client, Value::Null, 1).await;
            assert_eq!(first, ["own b__1 b__2"]);
            b.handle().remove_tool("2").unwrap();
            b.handle().add_tool(tool("4"), |_: NoArguments, _| async {}).unwrap();
            server.handle().add_tool(tool("late"), |_: NoArguments, _| async {}).unwrap();
            c.handle().remove_tool("1").unwrap();
            let (rest, _) = pages(&client, cursor.clone(), 9).await;
            assert_eq!(rest, ["b__3 b__4"], "each entry that stayed is listed once");
            for number in 5..9 {
                b.handle().add_tool(tool(number.to_string()), |_: NoArguments, _| async {}).unwrap();
            }
            let (rest, _) = pages(&client, cursor, 9).await;
            assert_eq!(rest, ["b__3 b__4 b__5", "b__6 b__7 b__8"]);
        }
    });
}

#[test]
fn hostile_cursors_are_errors_of_the_parameters() {
    run(async {
        let server = || with_tools(&["1", "2"]).page_size(1).mount("a", with_tools(&["1"]).build().unwrap());
        let client = in_era(&server().build().unwrap(), Era::Legacy).await;
        let cursor = |client: Client| async move { pages(&client, Value::Null, 1).await.1 };
        let own = cursor(client.clone()).await;
        ask(&client, "tools/list", json!({ "cursor": own })).await.unwrap();
        let other = server().mount("b", with_tools(&[]).build().unwrap()).build().unwrap();
        let foreign = cursor(in_era(&other, Era::Legacy).await).await;
        let cut = &own.as_str().unwrap()[1..];
        for hostile in
            [json!(""), json!("tools-1"), json!(cut), foreign, json!(1), json!("A".repeat(100_000))]
        {
            let error = ask(&client, "tools/list", json!({ "cursor": hostile })).await.unwrap_err();
            assert_eq!(error.code, -32602, "{hostile}");
        }
        // A replica with the same mounts continues.
        let replica = in_era(&server().build().unwrap(), Era::Legacy).await;
        assert_eq!(pages(&replica, own, 9).await.0, ["2", "a__1"]);
    });
}

#[test]
fn a_long_name_is_cut_and_keeps_its_original_in_meta() {
    run(async {
        let long = "n".repeat(100);
        let ui = json!({ "ui": { "resourceUri": "ui://panel" }, "ui/resourceUri": "ui://panel" });
        let described = Tool::new(&long, raw(&json!({ "type": "object" })));
        let described = described.with_meta(raw(&ui).decode::<Meta>().unwrap());
        let inner = Server::builder("s", "1").raw_tool(described, |_: Raw, _| async { "called" });
        let inner = inner.prompt(Prompt::new(&long), |_: PromptArguments, _| async { "prompted" });
        let middle = Server::builder("s", "1").mount("middle", inner.build().unwrap()).build().unwrap();
        let server = Server::builder("s", "1").mount("outer", middle).build().unwrap();
        for era in BOTH_ERAS {
            let client = in_era(&server, era).await;
            let listed = ask(&client, "tools/list", json!({})).await.unwrap()["tools"][0].clone();
            let name = listed["name"].as_str().unwrap();
            assert_eq!(name.len(), 64);
            assert!(name.starts_with("outer__middle__nnn"), "{name}");
            let mut meta = ui.clone();
            meta[ORIGINAL] = json!(long);
            assert_eq!(listed["_meta"], meta, "the original is that of the innermost server");
            assert_eq!(text(&call(&client, name, json!({})).await.unwrap()), "called");
            let prompt = ask(&client, "prompts/list", json!({})).await.unwrap()["prompts"][0].clone();
            assert_eq!((prompt["name"].as_str(), &prompt["_meta"][ORIGINAL]), (Some(name), &json!(long)));
            ask(&client, "prompts/get", json!({ "name": name })).await.unwrap();
        }
    });
}

#[test]
fn collisions_are_errors_that_name_both_sides() {
    let build = |server: ServerBuilder| server.build().unwrap_err();
    let tools = |names: &[&str]| with_tools(names).build().unwrap();
    let error = build(with_tools(&["a__x"]).mount("a", tools(&["x"])));
    assert_eq!(
        error.to_string(),
        "`a__x` appears twice in the list of tools: as `a__x` of the server itself, and as `x` of `s`, mounted at `a`"
    );
    let error = build(Server::builder("s", "1").mount("a__b", tools(&["c"])).mount("a", tools(&["b__c"])));
    assert!(matches!(error, BuildError::Collision { list: "tools", .. }), "{error}");
    // Not one server twice, if it has resources.
    let library = || {
        Server::builder("s", "1").resource(Resource::new("ui://panel", "p"), |_: ReadRequest, _| async { "" })
    };
    let error = build(
        Server::builder("s", "1")
            .mount("a", library().build().unwrap())
            .mount("b", library().build().unwrap()),
    );
    assert!(matches!(error, BuildError::Collision { list: "resources", .. }), "{error}");
    let template = || {
        let template = ResourceTemplate::new("x://{y}", "x");
        Server::builder("s", "1").resource_template(template, |_: ReadRequest, _| async { "" })
    };
    let error = build(template().mount("a", template().build().unwrap()));
    assert!(matches!(error, BuildError::Collision { list: "resource templates", .. }), "{error}");
    let prompt = |name: &str| {
        Server::builder("s", "1").prompt(Prompt::new(name), |_: PromptArguments, _| async { "" })
    };
    let error = build(prompt("a__p").mount("a", prompt("p").build().unwrap()));
    assert!(matches!(error, BuildError::Collision { list: "prompts", .. }), "{error}");
    // The same tool under two prefixes is none.
    let twice = tools(&["x"]);
    Server::builder("s", "1").mount("a", twice.clone()).mount("b", twice).build().unwrap();
}

struct Own;

impl Handler for Own {
    async fn request(
        &self,
        request: mcpjoin::proto::Request,
        _: connection::Context,
    ) -> Result<Reply, ErrorObject> {
        Err(ErrorObject::method_not_found(request.method.as_str()))
    }
}

#[test]
fn a_server_whose_names_are_not_known_or_too_many_is_not_mounted() {
    let own = Server::builder("s", "1").handler(mcpjoin::proto::types::ServerCapabilities::default(), Own);
    let error = Server::builder("s", "1").mount("a", own.build().unwrap()).build().unwrap_err();
    assert_eq!(error, BuildError::MountedHandler { mount: "`s`, mounted at `a`".into() });
    let many = with_tools(&[]).build().unwrap();
    for number in 0..=10_000 {
        many.handle().add_tool(tool(number.to_string()), |_: NoArguments, _| async {}).unwrap();
    }
    let error = Server::builder("s", "1").mount("a", many.clone()).build().unwrap_err();
    assert!(matches!(error, BuildError::TooManyEntries { .. }), "{error}");
    many.handle().remove_tool("0").unwrap();
    Server::builder("s", "1").mount("a", many).build().unwrap();
}

#[test]
fn changes_of_a_mounted_server_reach_the_clients_of_the_outer_one() {
    run(async {
        for era in BOTH_ERAS {
            let inner = with_tools(&["x"]).build().unwrap();
            let middle = with_tools(&["m"]).mount("inner", inner.clone()).build().unwrap();
            let server = Server::builder("s", "1").mount("middle", middle).build().unwrap();
            let (client, alone) = (in_era(&server, era).await, in_era(&inner, era).await);
            let filter = || SubscriptionFilter::default().with_tools_list_changed(true);
            let mut told = client.listen(filter()).await.unwrap();
            let mut told_alone = alone.listen(filter()).await.unwrap();
            assert!(inner.handle().has_tool_listeners());
            assert_eq!(tools(&client).await, ["middle__m", "middle__inner__x"]);
            inner.handle().add_tool(tool("y"), |_: NoArguments, _| async { "new" }).unwrap();
            for stream in [&mut told, &mut told_alone] {
                assert_eq!(stream.next().await.unwrap().unwrap().method, Method::ToolListChanged);
            }
            assert_eq!(tools(&client).await, ["middle__m", "middle__inner__x", "middle__inner__y"]);
            assert_eq!(tools(&alone).await, ["x", "y"]);
            assert_eq!(text(&call(&client, "middle__inner__y", json!({})).await.unwrap()), "new");
            inner.handle().remove_tool("x").unwrap();
            assert_eq!(told.next().await.unwrap().unwrap().method, Method::ToolListChanged);
            assert_eq!(call(&client, "middle__inner__x", json!({})).await.unwrap_err().code, -32602);
            // Added later, the entry of the first server is the one that is offered.
            server.handle().add_tool(tool("middle__inner__y"), |_: NoArguments, _| async { "own" }).unwrap();
            assert_eq!(text(&call(&client, "middle__inner__y", json!({})).await.unwrap()), "own");
            assert_eq!(tools(&client).await, ["middle__inner__y", "middle__m"]);
            server.handle().remove_tool("middle__inner__y").unwrap();
            assert_eq!(text(&call(&client, "middle__inner__y", json!({})).await.unwrap()), "new");
        }
    });
}

#[test]
fn subscriptions_to_resources_of_mounted_servers_work() {
    run(async {
        for era in BOTH_ERAS {
            let library = notes().build().unwrap();
            let middle = Server::builder("m", "1").mount("notes", library.clone()).build().unwrap();
            let other = Server::builder("o", "1").subscriptions().dynamic_resources().build().unwrap();
            let server =
                Server::builder("s", "1").mount("m", middle).mount("o", other.clone()).build().unwrap();
            let (received, mut receiver) = mpsc::unbounded_channel();
            let client =
                builder().era(EraChoice::Only(era)).on_notification(move |told| drop(received.send(told)));
            let client = connect(&server, client).await;
            client.subscribe("note://all").await.unwrap();
            if era == Era::Legacy {
                let error =
                    ask(&client, "resources/subscribe", json!({ "uri": "other://1" })).await.unwrap_err();
                assert_eq!(error.code, -32002);
            }
            other.handle().notify_resource_updated("note://all");
            library.handle().notify_resource_updated("note://7");
            library.handle().notify_resource_updated("note://all");
            let told = receiver.recv().await.unwrap();
            assert_eq!(told.method, Method::ResourceUpdated);
            assert_eq!(value(told.params.unwrap().raw())["uri"], "note://all");
            let more = tokio::time::timeout(Duration::from_secs(60), receiver.recv()).await;
            assert!(more.is_err(), "only the owner says so: {more:?}");
            client.unsubscribe("note://all").await.unwrap();
        }
    });
}

type Seen = Arc<Mutex<Vec<String>>>;

/// Notes the method and the name of each request.
fn noting(server: ServerBuilder, seen: &Seen, layer: &'static str) -> ServerBuilder {
    let seen = seen.clone();
    server.layer(move |request, _, next| {
        let name = request.params.as_ref().and_then(|params| params.name_string()).unwrap_or_default();
        seen.lock().push(format!("{layer} {} {name}", request.method));
        async move { next.run(request).await }
    })
}

#[test]
fn layers_of_mounted_servers_run_within_those_of_the_outer_one() {
    run(async {
        for era in BOTH_ERAS {
            let seen = Seen::default();
            let inner = noting(with_tools(&["x"]), &seen, "inner").build().unwrap();
            let server = noting(with_tools(&["own"]).mount("a", inner), &seen, "outer").build().unwrap();
            let client = in_era(&server, era).await;
            call(&client, "a__x", json!({})).await.unwrap();
            call(&client, "own", json!({})).await.unwrap();
            tools(&client).await;
            let expected = [
                "outer tools/call a__x",
                "inner tools/call x",
                "outer tools/call own",
                "outer tools/list ",
                "inner tools/list ",
            ];
            assert_eq!(*seen.lock(), expected, "{era:?}");
        }
    });
}

#[test]
fn a_list_that_a_layer_refuses_or_never_ends_leaves_the_others() {
    run(async {
        let refusing = with_tools(&["x"]).layer(|request, _, next| async move {
            match request.method {
                Method::ListTools => Err(ErrorObject::invalid_request("not for you")),
                _ => next.run(request).await,
            }
        });
        // Adds an entry that is no tool, and a page without an end.
        let endless = with_tools(&["x"]).layer(|request, _, next| async move {
            if request.method != Method::ListTools {
                return next.run(request).await;
            }
            Ok(Reply::Complete(raw(&json!({ "tools": [{ "name": "ghost" }], "nextCursor": "more" }))))
        });
        let (refusing, endless) = (refusing.build().unwrap(), endless.build().unwrap());
        let server =
            with_tools(&["own"]).mount("a", refusing.clone()).mount("b", with_tools(&["y"]).build().unwrap());
        let client = in_era(&server.build().unwrap(), Era::Modern).await;
        assert_eq!(tools(&client).await, ["own", "b__y"]);
        assert_eq!(text(&call(&client, "a__x", json!({})).await.unwrap()), "called");
        let server = Server::builder("s", "1").mount("a", refusing).build().unwrap();
        let error = ask(&in_era(&server, Era::Modern).await, "tools/list", json!({})).await.unwrap_err();
        assert_eq!(error.message, "not for you");
        let server = with_tools(&["own"]).mount("a", endless).build().unwrap();
        let page = ask(&in_era(&server, Era::Modern).await, "tools/list", json!({})).await.unwrap();
        assert_eq!(page["tools"].as_array().unwrap().len(), 1);
        assert!(page["nextCursor"].is_string(), "the request has ended");
    });
}

#[test]
fn tools_are_hidden_by_the_outer_and_by_the_mounted_server() {
    run(async {
        for era in BOTH_ERAS {
            let is_known = |cx: &Context| {
                let info = cx.client().and_then(|client| client.info.clone());
                info.is_some_and(|info| info.name == "test")
            };
            let inner = with_tools(&["a", "b", "c"]).page_size(1);
            let inner =
                inner.visible_tools(move |cx, tool| tool.name != "b" || is_known(cx)).build().unwrap();
            let server = with_tools(&["own"]).mount("m", inner);
            let server = server.visible_tools(move |cx, tool| tool.name != "m__c" || is_known(cx));
            let server = server.build().unwrap();
            let seeing = in_era(&server, era).await;
            assert_eq!(tools(&seeing).await, ["own", "m__a", "m__b", "m__c"]);
            assert_eq!(text(&call(&seeing, "m__c", json!({})).await.unwrap()), "called");
            let other = connect(&server, Client::builder("other", "1").era(EraChoice::Only(era))).await;
            assert_eq!(tools(&other).await, ["own", "m__a"]);
            let unknown = call(&other, "m__x", json!({})).await.unwrap_err();
            for hidden in ["m__b", "m__c"] {
                let error = call(&other, hidden, json!({})).await.unwrap_err();
                assert_eq!(error.message, unknown.message.replace("m__x", hidden));
                assert_eq!((error.code, error.data), (unknown.code, unknown.data.clone()));
                let wrong = async |name: &str| {
                    ask(&other, "tools/call", json!({ "name": name, "arguments": 1 })).await.unwrap_err()
                };
                assert_eq!(wrong(hidden).await, wrong("m__x").await, "{hidden}");
            }
        }
    });
}

/// A server with a task that waits for an answer.
fn with_task() -> ServerBuilder {
    Server::builder("s", "1").tool(tool("later").as_task(), |_: NoArguments, cx: Context| async move {
        let answer = cx.elicit(form("Now?")).await?;
        Ok::<_, HandlerError>(answer.action.as_str().to_owned())
    })
}

#[test]
fn tasks_of_mounted_servers_are_followed_to_their_results_in_both_dialects() {
    run(async {
        let server = office();
        for era in BOTH_ERAS {
            let client = connect(&server, answering(era)).await;
            let result = client.call_tool("cellar__notes__later", ()).await.unwrap();
            assert_eq!(result.content[0].as_text(), Some("accept"), "{era:?}");
        }
    });
}

#[test]
fn extension_tasks_are_found_by_their_id_and_tell_their_listeners() {
    run(async {
        let (a, b) = (with_task().build().unwrap(), with_task().build().unwrap());
        let server = Server::builder("o", "1").mount("a", a.clone()).mount("b", b.clone()).build().unwrap();
        let mut wire = Wire::new(&server);
        let begun = modern(&mut wire, "tools/call", json!({ "name": "a__later" })).await;
        let task = begun["result"]["taskId"].clone();
        assert_eq!(begun["result"]["status"], "working", "{begun}");
        let id = json!({ "taskId": task });
        // The other server does not have it, wherever it is asked.
        let foreign = modern(&mut Wire::new(&b), "tasks/get", id.clone()).await;
        assert_eq!(foreign["error"]["code"], -32602);
        for unknown in ["", "x", &"0".repeat(64)] {
            let error = modern(&mut wire, "tasks/get", json!({ "taskId": unknown })).await;
            assert_eq!(error["error"]["code"], -32602);
        }
        let mut listener = Wire::new(&server);
        let listen = json!({ "notifications": { "taskIds": [task] } });
        modern(&mut listener, "subscriptions/listen", listen).await;
        let shown = modern(&mut wire, "tasks/get", id.clone()).await;
        assert_eq!(shown["result"]["inputRequests"]["ask-1"]["params"]["message"], "Now?");
        let update = json!({ "taskId": task, "inputResponses": { "ask-1": { "action": "decline" } } });
        assert!(modern(&mut wire, "tasks/update", update).await["result"].is_object());
        while listener.next().await["params"]["status"] != "completed" {}
        let shown = modern(&mut wire, "tasks/get", id).await;
        assert_eq!(text(&shown["result"]["result"]), "decline");
    });
}

/// A legacy client that can be asked.
async fn asked(server: &Server) -> Wire {
    let mut open = initialize("2025-11-25");
    open["params"]["capabilities"] = json!({ "elicitation": {} });
    let mut wire = Wire::new(server);
    wire.ask(&open).await;
    wire.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    wire
}

#[test]
fn core_tasks_belong_to_the_session_of_the_outer_server() {
    run(async {
        let (a, b) = (with_task().build().unwrap(), with_task().build().unwrap());
        let server = Server::builder("o", "1").page_size(1).mount("a", a.clone()).mount("b", b);
        let server = server.build().unwrap();
        // One session at each server: their numbers must differ.
        let (mut wire, mut alone) = (asked(&server).await, asked(&a).await);
        let mut tasks = Vec::new();
        for name in ["a__later", "b__later"] {
            let params = json!({ "name": name, "task": { "ttl": 60_000 } });
            let begun = wire.ask(&crate::request(1, "tools/call", &params)).await;
            tasks.push(begun["result"]["task"]["taskId"].clone());
            assert!(tasks.iter().all(Value::is_string), "{begun}");
            let told = wire.next().await;
            assert_eq!(told["method"], "notifications/tasks/status", "{told}");
        }
        let mut listed = Vec::new();
        let mut cursor = Value::Null;
        loop {
            let page = wire.ask(&crate::request(2, "tasks/list", &json!({ "cursor": cursor }))).await;
            listed.extend(
                page["result"]["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].clone()),
            );
            match page["result"].get("nextCursor") {
                Some(next) => cursor = next.clone(),
                None => break,
            }
        }
        assert_eq!(listed, tasks);
        let nothing = alone.ask(&crate::request(2, "tasks/list", &json!({}))).await;
        assert_eq!(nothing["result"]["tasks"], json!([]));
        for task in &tasks {
            let foreign = alone.ask(&crate::request(3, "tasks/get", &json!({ "taskId": task }))).await;
            assert_eq!(foreign["error"]["code"], -32602);
            let shown = wire.ask(&crate::request(3, "tasks/get", &json!({ "taskId": task }))).await;
            assert_eq!(shown["result"]["taskId"], *task);
        }
        wire.send(&crate::request(4, "tasks/cancel", &json!({ "taskId": tasks[0] })).to_string()).await;
        let mut messages = [wire.next().await, wire.next().await];
        messages.sort_by_key(|message| message["id"].is_null());
        assert_eq!(messages[0]["result"]["status"], "cancelled", "{messages:?}");
        assert_eq!(messages[1]["method"], "notifications/tasks/status");
        // The task of `b` ends with the session.
        wire.finish().await;
        let mut second = asked(&server).await;
        let gone = second.ask(&crate::request(1, "tasks/get", &json!({ "taskId": tasks[1] }))).await;
        assert_eq!(gone["error"]["code"], -32602);
    });
}

/// Says when it is dropped.
struct Dropped(mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        // The test may have failed already.
        let _ = self.0.send(());
    }
}

#[test]
fn the_work_of_a_mounted_server_ends_with_the_outer_one() {
    run(async {
        let (tells, mut told) = mpsc::unbounded_channel();
        let inner = Server::builder("s", "1").tool(tool("never").as_task(), move |_: NoArguments, _| {
            let dropped = Dropped(tells.clone());
            async move {
                let _dropped = dropped;
                std::future::pending::<()>().await;
            }
        });
        let server = Server::builder("o", "1").mount("a", inner.build().unwrap()).build().unwrap();
        let (handle, mut wire) = (server.handle(), Wire::new(&server));
        let begun = modern(&mut wire, "tools/call", json!({ "name": "a__never" })).await;
        assert_eq!(begun["result"]["status"], "working", "{begun}");
        drop(server);
        assert!(told.try_recv().is_err(), "the connection holds it");
        wire.finish().await;
        assert_eq!(told.recv().await, Some(()));
        drop(handle);
    });
}

#[test]
fn handlers_of_mounted_servers_run_in_place_if_either_server_says_so() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let which_task = || {
            Server::builder("s", "1").tool(tool("task"), |_: NoArguments, _| async {
                tokio::task::try_id().map(|id| id.to_string()).unwrap_or_default()
            })
        };
        let outer = || Server::builder("o", "1");
        let inline = which_task().inline_handlers().build().unwrap();
        for (server, in_place) in [
            (outer().mount("a", which_task().build().unwrap()), false),
            (outer().mount("a", which_task().build().unwrap()).inline_handlers(), true),
            (outer().mount("a", inline), true),
        ] {
            let client = in_era(&server.build().unwrap(), Era::Modern).await;
            let [one, two] =
                [call(&client, "a__task", json!({})).await, call(&client, "a__task", json!({})).await];
            assert_eq!(one.unwrap() == two.unwrap(), in_place);
        }
    });
}
