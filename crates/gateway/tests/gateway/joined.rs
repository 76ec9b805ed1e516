//! Tests of a joined gateway: clients of both eras in front of targets of both eras.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::client::{ClientBuilder, Restart};
use mcpjoin::connection::Connection;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{
    CallToolResult, Content, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams,
    ElicitParams, ElicitResult, ElicitationSchema, LoggingLevel, Members, Prompt, PromptArgument,
    PromptReference, Resource, ResourceTemplate, ResourceTemplateReference, Role, Root, SamplingMessage,
    SubscriptionFilter, TextContent,
};
use mcpjoin::proto::{Era, ErrorObject, Raw, Version, code};
use mcpjoin::server::catalogue::ORIGINAL_NAME;
use mcpjoin::server::{
    Context, HandlerError, NoArguments, PromptArguments, ReadRequest, ServerBuilder, ServerHandle, tool,
};
use mcpjoin::{Client, Link, Server};
use mcpjoin_gateway::{
    Gateway, GatewayBuilder, GatewayEvent, JoinedBuilder, JoinedGateway, TargetOptions, TargetState,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{Instant, advance, timeout};

use super::{Raw as Peer, modern_request, passes, run};

/// What each pair of eras is tested with: the era of the client, and the version of the targets.
pub(super) const PAIRS: [(Era, Version); 4] = [
    (Era::Legacy, Version::V2025_06_18),
    (Era::Legacy, Version::V2026_07_28),
    (Era::Modern, Version::V2025_06_18),
    (Era::Modern, Version::V2026_07_28),
];

/// Waits until something holds, for a minute at most.
pub(super) async fn until(holds: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if holds() {
            return;
        }
        advance(Duration::from_millis(1)).await;
    }
    panic!("it does not hold after a minute");
}

/// A target in memory. Each start connects to the same server.
#[derive(Clone)]
pub(super) struct Target {
    server: Server,
    pub(super) handle: ServerHandle,
    /// The connections of its starts.
    connections: Arc<Mutex<Vec<Connection>>>,
    /// While false, starts fail.
    is_up: watch::Sender<bool>,
    /// While true, starts do not end.
    is_slow: watch::Sender<bool>,
}

impl Target {
    pub(super) fn new(builder: ServerBuilder) -> Self {
        let server = builder.build().unwrap();
        Self {
            handle: server.handle(),
            server,
            connections: Arc::default(),
            is_up: watch::Sender::new(true),
            is_slow: watch::Sender::new(false),
        }
    }

    pub(super) fn gateway(&self) -> GatewayBuilder {
        let target = self.clone();
        Gateway::builder(move || {
            let target = target.clone();
            async move {
                target.is_slow.subscribe().wait_for(|is_slow| !is_slow).await.unwrap();
                if !*target.is_up.borrow() {
                    return Err(std::io::Error::new(std::io::ErrorKind::NotFound, "it is switched off"));
                }
                let (near, far) = Link::memory();
                target.connections.lock().unwrap().push(target.server.connect(far));
                Ok(near)
            }
        })
    }

    fn starts(&self) -> usize {
        self.connections.lock().unwrap().len()
    }

    /// Ends all of its servers. No other is started until [`Target::comes_back`].
    pub(super) fn dies(&self) {
        self.is_up.send_replace(false);
        for connection in &*self.connections.lock().unwrap() {
            connection.close();
        }
    }

    pub(super) fn comes_back(&self) {
        self.is_up.send_replace(true);
    }
}

pub(super) fn form(message: &str) -> ElicitFormParams {
    ElicitFormParams::new(message, ElicitationSchema::new(Members::new()))
}

/// A server with one of everything, which says in each answer who it is. Its URIs begin with its name.
pub(super) fn one_of_everything(name: &'static str, version: &Version) -> ServerBuilder {
    Server::builder(name, "1")
        .versions([version.clone()])
        .instructions(format!("How to use {name}."))
        .subscriptions()
        .logging()
        .dynamic_tools()
        .dynamic_resources()
        .tool(tool("who"), move |_: NoArguments, _| async move { name })
        .tool(tool("asks"), |_: NoArguments, cx: Context| async move {
            Ok::<_, HandlerError>(cx.elicit(form("Sure?")).await?.action.as_str().to_owned())
        })
        .tool(tool("samples"), |_: NoArguments, cx: Context| async move {
            let message = SamplingMessage::new(Role::User, TextContent::new("hm"));
            Ok::<_, HandlerError>(cx.sample(CreateMessageParams::new(vec![message], 10)).await?.model)
        })
        .tool(tool("roots"), |_: NoArguments, cx: Context| async move {
            Ok::<_, HandlerError>(cx.list_roots().await?.roots.len().to_string())
        })
        .tool(tool("tells"), |_: NoArguments, cx: Context| async move {
            cx.progress(1.0, Some(2.0), Some("half"));
            cx.log(LoggingLevel::Warning, "said");
            "told"
        })
        .tool(tool("stays"), |_: NoArguments, cx: Context| async move {
            cx.progress(1.0, None, None);
            std::future::pending::<String>().await
        })
        .tool(tool("links"), move |_: NoArguments, _| async move {
            let link = json!({ "type": "resource_link", "uri": format!("{name}:/hidden"), "name": "h" });
            let link: Content = serde_json::from_value(link).unwrap();
            CallToolResult::new(vec![link])
        })
        .prompt(
            Prompt::new("review").with_arguments(vec![PromptArgument::new("code").with_required(true)]),
            move |arguments: PromptArguments, _| async move { format!("{name} {}", arguments["code"]) },
        )
        .completion(PromptReference::new("review"), move |_, _| async move { vec![format!("{name}.rs")] })
        .resource(Resource::new(format!("{name}:/all"), "all"), move |_: ReadRequest, _| async move {
            format!("all of {name}")
        })
        .resource(Resource::new("shared:/one", "one"), move |_: ReadRequest, _| async move {
            format!("one of {name}")
        })
        .resource_template(
            ResourceTemplate::new(format!("{name}:/by/{{id}}"), "by"),
            move |read: ReadRequest, _| async move { format!("{} of {name}", read.variable("id")) },
        )
        .completion(ResourceTemplateReference::new(format!("{name}:/by/{{id}}")), |_, _| async { vec!["7"] })
}

/// Two targets, `a` and `b`, and the gateway that joins them.
struct Two {
    a: Target,
    b: Target,
    gateway: JoinedGateway,
}

impl Two {
    fn new(version: &Version) -> Self {
        Self::with(version, JoinedBuilder::target_with, TargetOptions::new())
    }

    fn with(
        version: &Version,
        join: impl Fn(JoinedBuilder, &'static str, TargetOptions, GatewayBuilder) -> JoinedBuilder,
        options: TargetOptions,
    ) -> Self {
        let a = Target::new(one_of_everything("a", version));
        let b = Target::new(one_of_everything("b", version));
        let joined = join(Gateway::joined("both", "1"), "a", options.clone(), a.gateway());
        let gateway = join(joined, "b", options, b.gateway()).build();
        Self { a, b, gateway }
    }
}

pub(super) fn builder(era: Era) -> ClientBuilder {
    Client::builder("c", "1").no_cache().era(EraChoice::Only(era))
}

pub(super) async fn connect(gateway: &JoinedGateway, client: ClientBuilder) -> Client {
    let (near, far) = Link::memory();
    let gateway = gateway.clone();
    tokio::spawn(async move { gateway.serve(far).await });
    client.connect(near).await.unwrap()
}

pub(super) async fn tools(client: &Client) -> Vec<String> {
    client.list_tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

pub(super) async fn call(client: &Client, tool: &str) -> String {
    client.call_tool(tool, ()).await.unwrap().to_text()
}

/// The text of a call, or `refused` if it failed.
pub(super) async fn outcome(client: &Client, tool: &str) -> String {
    match client.call_tool(tool, ()).await {
        Ok(result) if result.is_error != Some(true) => result.to_text(),
        _ => "refused".to_owned(),
    }
}

async fn read(client: &Client, uri: &str) -> Result<String, i64> {
    match client.read_resource(uri).await {
        Ok(read) => {
            let read = serde_json::to_value(&read).unwrap();
            Ok(read["contents"][0]["text"].as_str().unwrap().to_owned())
        }
        Err(error) => Err(error.remote().unwrap_or_else(|| panic!("{error}")).code),
    }
}

/// The error of a call, as JSON.
pub(super) async fn refused(client: &Client, tool: &str) -> Value {
    let error = client.call_tool(tool, ()).await.unwrap_err();
    let error = error.remote().unwrap_or_else(|| panic!("{error}"));
    let data: Value = error.data.as_ref().map_or(Value::Null, |data| data.decode().unwrap());
    json!({ "message": error.message, "data": data })
}

/// The notifications that a client receives, by method.
fn received(client: ClientBuilder) -> (ClientBuilder, UnboundedReceiver<String>) {
    let (told, received) = unbounded_channel();
    let client = client.on_notification(move |told_of| {
        let _ = told.send(told_of.method.as_str().to_owned());
    });
    (client, received)
}

#[test]
fn everything_of_two_targets_is_offered_and_answered_by_its_own_target_in_every_pair_of_eras() {
    run(async {
        for (era, version) in PAIRS {
            let two = Two::new(&version);
            let client = connect(&two.gateway, builder(era)).await;
            assert_eq!(client.server_name(), Some("both"));
            let own = ["who", "asks", "samples", "roots", "tells", "stays", "links"];
            let wanted: Vec<String> =
                ["a", "b"].iter().flat_map(|of| own.map(|name| format!("{of}__{name}"))).collect();
            assert_eq!(tools(&client).await, wanted, "{era:?} {version}");
            assert_eq!(
                (call(&client, "a__who").await, call(&client, "b__who").await),
                ("a".into(), "b".into())
            );
            let prompts = client.list_prompts().all().await.unwrap();
            assert_eq!(prompts.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["a__review", "b__review"]);
            let prompt = client.get_prompt("b__review", json!({ "code": "x" })).await.unwrap();
            assert!(serde_json::to_string(&prompt).unwrap().contains("b x"), "{prompt:?}");
            let resources = client.list_resources().all().await.unwrap();
            let uris: BTreeSet<&str> = resources.iter().map(|it| &*it.uri).collect();
            assert_eq!(uris, ["a:/all", "b:/all", "shared:/one"].into());
            assert_eq!(read(&client, "b:/all").await.as_deref(), Ok("all of b"));
            let templates = client.list_resource_templates().all().await.unwrap();
            assert_eq!(
                templates.iter().map(|it| &*it.uri_template).collect::<Vec<_>>(),
                ["a:/by/{id}", "b:/by/{id}"]
            );
            assert_eq!(read(&client, "b:/by/7").await.as_deref(), Ok("7 of b"));
            let completed = client.complete_prompt("b__review", "code", "").await.unwrap();
            assert_eq!(completed.completion.values, ["b.rs"]);
            let completed = client.complete_resource("b:/by/{id}", "id", "").await.unwrap();
            assert_eq!(completed.completion.values, ["7"]);
            client.close().await;
            two.gateway.close().await;
        }
    });
}

#[test]
fn a_name_is_found_without_a_list_and_an_unknown_one_is_refused_as_the_client_typed_it() {
    run(async {
        for (era, version) in PAIRS {
            let two = Two::new(&version);
            let client = connect(&two.gateway, builder(era)).await;
            assert_eq!(call(&client, "b__who").await, "b", "{era:?} {version}");
            for name in ["who", "a__b__who", "c__who", "a__nothing"] {
                let error = refused(&client, name).await;
                assert!(error["message"].as_str().unwrap().contains(name), "{error}");
            }
            let error = client.read_resource("c:/all").await.unwrap_err();
            let error = error.remote().unwrap_or_else(|| panic!("{error}")).clone();
            assert_eq!(error.code, client.profile().resource_not_found);
            let data: Value = error.data.unwrap().decode().unwrap();
            assert_eq!(data, json!({ "uri": "c:/all" }), "{era:?} {version}");
            client.close().await;
        }
    });
}

#[test]
fn a_modern_client_learns_all_versions_and_methods_of_the_legacy_era_are_not_found() {
    run(async {
        let two = Two::new(&Version::V2026_07_28);
        let (link, mut client) = Peer::pair();
        let gateway = two.gateway.clone();
        tokio::spawn(async move { gateway.serve(link).await });
        client.say(&modern_request("1", "server/discover", "", "")).await;
        let versions = client.value().await["result"]["supportedVersions"].take();
        assert_eq!(versions, json!(Version::ALL.map(|version| version.as_str().to_owned())));
        for method in ["ping", "resources/subscribe", "resources/unsubscribe"] {
            client.say(&modern_request("2", method, r#""uri":"a:/all","#, "")).await;
            assert_eq!(client.value().await["error"]["code"], code::METHOD_NOT_FOUND, "{method}");
        }
    });
}

#[test]
fn the_first_target_owns_a_name_that_two_have_and_the_other_is_reported() {
    run(async {
        for (era, version) in PAIRS {
            let options = TargetOptions::new().source("");
            let two = Two::with(&version, JoinedBuilder::target_with, options);
            let client = connect(&two.gateway, builder(era)).await;
            let names = tools(&client).await;
            assert_eq!(names.iter().filter(|name| *name == "who").count(), 1, "{names:?}");
            assert_eq!(call(&client, "who").await, "a");
            assert_eq!(read(&client, "shared:/one").await.as_deref(), Ok("one of a"));
            let targets = two.gateway.targets();
            assert!(targets[0].collisions.is_empty(), "{targets:?}");
            assert!(
                targets[1].collisions.iter().any(|text| &**text == "tools: `who` is that of `a`"),
                "{era:?} {version}: {targets:?}"
            );
            client.close().await;
        }
    });
}

#[test]
fn a_name_that_is_too_long_is_cut_and_its_own_name_is_in_the_item() {
    run(async {
        for (era, version) in PAIRS {
            let long = "x".repeat(64);
            let name = long.clone();
            let target = Target::new(
                Server::builder("s", "1")
                    .versions([version.clone()])
                    .tool(tool(&long), |_: NoArguments, _| async { "long" }),
            );
            let gateway = Gateway::joined("both", "1").target("a", target.gateway()).build();
            let client = connect(&gateway, builder(era)).await;
            let listed = client.list_tools().all().await.unwrap().remove(0);
            assert_eq!(listed.name.chars().count(), 64);
            let item = serde_json::to_value(&listed).unwrap();
            assert_eq!(item["_meta"][ORIGINAL_NAME], name, "{item}");
            assert_eq!(call(&client, &listed.name).await, "long");
            client.close().await;
        }
    });
}

#[test]
fn progress_logs_and_cancellation_of_a_call_belong_to_its_target() {
    run(async {
        for (era, version) in PAIRS {
            let two = Two::new(&version);
            let (client, mut received) = received(builder(era));
            let client = connect(&two.gateway, client).await;
            client.set_level(LoggingLevel::Info).await.unwrap();
            let progress = Arc::new(Mutex::new(Vec::new()));
            let seen = progress.clone();
            let told = client.call_tool("b__tells", ()).on_progress(move |progress| {
                seen.lock().unwrap().push(progress.message.unwrap_or_default());
            });
            assert_eq!(told.await.unwrap().to_text(), "told", "{era:?} {version}");
            assert_eq!(*progress.lock().unwrap(), ["half"]);
            while received.recv().await.unwrap() != "notifications/message" {}
            // Dropping the call cancels it; the target answers the next one.
            let stays = client.call_tool("b__stays", ());
            assert!(timeout(Duration::from_secs(1), stays).await.is_err());
            assert_eq!(call(&client, "b__who").await, "b");
            client.close().await;
        }
    });
}

#[test]
fn an_elicitation_names_its_target_and_the_model_and_the_roots_are_refused_unless_allowed() {
    run(async {
        for (era, version) in PAIRS {
            for allowed in [false, true] {
                let options = TargetOptions::new().sampling(allowed).roots(allowed);
                let two = Two::with(&version, JoinedBuilder::target_with, options);
                let asked = Arc::new(Mutex::new(Vec::new()));
                let messages = asked.clone();
                let client = builder(era)
                    .roots(vec![Root::new("file:///home")])
                    .sampling(async |_| Ok(CreateMessageResult::text("hm", "a model")))
                    .elicitation(move |question| {
                        if let ElicitParams::Form(form) = question {
                            messages.lock().unwrap().push(form.message);
                        }
                        async { Ok(ElicitResult::new(ElicitAction::Decline)) }
                    });
                let client = connect(&two.gateway, client).await;
                assert_eq!(call(&client, "b__asks").await, "decline", "{era:?} {version}");
                assert_eq!(*asked.lock().unwrap(), ["[b] Sure?"]);
                let (model, roots) = if allowed { ("a model", "1") } else { ("refused", "refused") };
                assert_eq!(outcome(&client, "b__samples").await, model, "{era:?} {version}");
                assert_eq!(outcome(&client, "b__roots").await, roots, "{era:?} {version}");
                client.close().await;
            }
        }
    });
}

#[test]
fn a_page_that_a_target_wants_the_user_to_visit_names_it() {
    run(async {
        for era in [Era::Legacy, Era::Modern] {
            let pays = |_: NoArguments, _| async {
                let pages = r#"{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://b.example/","message":"Pay?"}]}"#;
                let error = ErrorObject::new(code::URL_ELICITATION_REQUIRED, "pay first");
                Err::<String, _>(HandlerError::protocol(error.with_data(Raw::parse(pages).unwrap())))
            };
            let target = Target::new(one_of_everything("b", &Version::V2025_11_25).tool(tool("pays"), pays));
            let gateway = Gateway::joined("both", "1").target("b", target.gateway()).build();
            let asked = Arc::new(Mutex::new(Vec::new()));
            let messages = asked.clone();
            let client = builder(era).elicitation_url(true).elicitation(move |question| {
                if let ElicitParams::Url(page) = question {
                    messages.lock().unwrap().push(page.message);
                }
                async { Ok(ElicitResult::new(ElicitAction::Decline)) }
            });
            let client = connect(&gateway, client).await;
            let error = client.call_tool("b__pays", ()).await.unwrap_err();
            if let Some(data) = error.remote().filter(|_| era == Era::Legacy).and_then(|it| it.data.clone()) {
                let pages: Value = data.decode().unwrap();
                asked.lock().unwrap().push(pages["elicitations"][0]["message"].as_str().unwrap().to_owned());
            }
            assert_eq!(*asked.lock().unwrap(), ["[b] Pay?"], "{era:?}: {error}");
            client.close().await;
        }
    });
}

#[test]
fn an_update_of_a_resource_reaches_the_client_that_has_subscribed_to_it() {
    run(async {
        for (era, version) in PAIRS {
            let two = Two::new(&version);
            let client = connect(&two.gateway, builder(era)).await;
            let filter = SubscriptionFilter::default().with_resource_subscriptions(vec!["b:/all".into()]);
            let mut stream = client.listen(filter).await.unwrap();
            // The other target's resource of this name is not subscribed to.
            two.a.handle.notify_resource_updated("b:/all");
            two.b.handle.notify_resource_updated("b:/all");
            let update = stream.next().await.unwrap().unwrap();
            assert_eq!(update.method.as_str(), "notifications/resources/updated", "{era:?} {version}");
            let second = timeout(Duration::from_secs(5), stream.next()).await;
            assert!(second.is_err(), "{era:?} {version}: {second:?}");
            client.close().await;
        }
    });
}

#[test]
fn a_subscription_ends_also_if_its_target_lists_the_resource_no_longer() {
    run(async {
        let two = Two::new(&Version::V2025_06_18);
        let client = connect(&two.gateway, builder(Era::Legacy)).await;
        client.subscribe("b:/all").await.unwrap();
        assert!(two.b.handle.remove_resource("b:/all").unwrap());
        passes(Duration::from_secs(60)).await;
        client.list_resources().all().await.unwrap();
        client.subscribe("b:/all").await.expect_err("no target lists it");
        client.unsubscribe("b:/all").await.unwrap();
        client.unsubscribe("b:/all").await.expect_err("it has ended");
    });
}

#[test]
fn a_stream_learns_that_a_resource_may_have_changed_while_its_target_was_gone() {
    run(async {
        for (era, version) in PAIRS {
            let two = Two::new(&version);
            let client = connect(&two.gateway, builder(era)).await;
            let filter = SubscriptionFilter::default().with_resource_subscriptions(vec!["b:/all".into()]);
            let mut stream = client.listen(filter).await.unwrap();
            passes(Duration::from_secs(60)).await;
            two.b.dies();
            passes(Duration::from_secs(60)).await;
            two.b.comes_back();
            let updated = timeout(Duration::from_secs(120), stream.next()).await;
            let updated = updated.unwrap_or_else(|_| panic!("{era:?} {version}")).unwrap().unwrap();
            assert_eq!(updated.method.as_str(), "notifications/resources/updated", "{era:?} {version}");
            let uri = updated.params.unwrap().uri().unwrap();
            assert_eq!(uri.as_str(), "\"b:/all\"", "{era:?} {version}");
            client.close().await;
        }
    });
}

#[test]
fn a_client_is_subscribed_again_at_a_target_that_was_given_up_and_opened_again() {
    run(async {
        for version in [Version::V2025_06_18, Version::V2026_07_28] {
            let given_up_at_once = |joined: JoinedBuilder, name, options, target: GatewayBuilder| {
                joined.target_with(name, options, target.restart(Restart::default().starts(1)))
            };
            let two = Two::with(&version, given_up_at_once, TargetOptions::new());
            let (client, mut received) = received(builder(Era::Legacy));
            let client = connect(&two.gateway, client).await;
            for uri in ["b:/all", "shared:/one", "b:/by/7"] {
                client.subscribe(uri).await.unwrap();
            }
            client.unsubscribe("b:/by/7").await.unwrap();
            for round in 0..3 {
                if round == 2 {
                    client.subscribe("b:/by/7").await.unwrap();
                }
                two.b.dies();
                passes(Duration::from_secs(60)).await;
                assert_eq!(tools(&client).await.len(), 7, "{version}");
                if round == 2 {
                    client.unsubscribe("b:/by/7").await.unwrap();
                    client.unsubscribe("b:/by/7").await.expect_err("the target says what it thinks of it");
                }
                two.b.comes_back();
                passes(Duration::from_secs(60)).await;
                assert_eq!(tools(&client).await.len(), 14, "{version}");
                // What changed while there was no server is not known.
                let missed = std::iter::from_fn(|| received.try_recv().ok());
                let missed = missed.filter(|method| method == "notifications/resources/updated").count();
                assert_eq!(missed, 1, "{version} {round}");
                for uri in ["b:/all", "shared:/one", "b:/by/7"] {
                    // What the other target owns is not subscribed to here.
                    two.b.handle.notify_resource_updated(uri);
                }
                passes(Duration::from_secs(1)).await;
                let told = std::iter::from_fn(|| received.try_recv().ok());
                let updates = told.filter(|method| method == "notifications/resources/updated").count();
                assert_eq!(updates, 1, "{version} {round}");
            }
            client.close().await;
        }
    });
}

#[test]
fn changes_of_several_lists_are_notified_once() {
    run(async {
        for (era, version) in PAIRS {
            let two = Two::new(&version);
            let client = connect(&two.gateway, builder(era)).await;
            let filter = SubscriptionFilter::default().with_tools_list_changed(true);
            let mut stream = client.listen(filter).await.unwrap();
            while timeout(Duration::from_secs(10), stream.next()).await.is_ok() {}
            for target in [&two.a, &two.b] {
                target.handle.add_tool(tool("new"), |_: NoArguments, _| async { "new" }).unwrap();
            }
            let change = timeout(Duration::from_secs(5), stream.next()).await.unwrap().unwrap().unwrap();
            assert_eq!(change.method.as_str(), "notifications/tools/list_changed", "{era:?} {version}");
            let second = timeout(Duration::from_secs(5), stream.next()).await;
            assert!(second.is_err(), "{era:?} {version}: {second:?}");
            assert_eq!(call(&client, "b__new").await, "new");
            client.close().await;
        }
    });
}

#[test]
fn a_dead_target_costs_only_its_own_tools_is_named_and_comes_back() {
    run(async {
        for (era, version) in PAIRS {
            let two = Two::new(&version);
            let client = connect(&two.gateway, builder(era)).await;
            let filter = SubscriptionFilter::default().with_tools_list_changed(true);
            let mut stream = client.listen(filter).await.unwrap();
            assert_eq!(tools(&client).await.len(), 14, "{era:?} {version}");
            two.b.dies();
            until(|| !two.gateway.targets()[1].state.is_ready()).await;
            // The first call waits for the first new start, which fails. From then on calls fail at once.
            refused(&client, "b__who").await;
            let began = Instant::now();
            let error = refused(&client, "b__who").await;
            assert!(began.elapsed() < Duration::from_millis(100), "{era:?} {version}: {error}");
            assert!(error["message"].as_str().unwrap().starts_with("b: "), "{error}");
            assert_eq!(error["data"]["target"], "b", "{error}");
            assert!(error["data"]["nextAttemptMs"].is_u64(), "{era:?} {version}: {error}");
            // A client that has never seen its list learns the cause as well.
            let late = connect(&two.gateway, builder(era)).await;
            let error = refused(&late, "b__who").await;
            assert!(error["message"].as_str().unwrap().starts_with("b: "), "{era:?} {version}: {error}");
            assert!(
                refused(&late, "a__nothing").await["message"].as_str().unwrap().starts_with("unknown tool")
            );
            let error = late.read_resource("b:/all").await.unwrap_err().to_string();
            assert!(error.contains("unknown resource: b:/all; b: "), "{era:?} {version}: {error}");
            late.close().await;
            assert_eq!(call(&client, "a__who").await, "a");
            let left = tools(&client).await;
            assert!(left.iter().all(|name| name.starts_with("a__")) && left.len() == 7, "{left:?}");
            let change = timeout(Duration::from_secs(5), stream.next()).await.unwrap().unwrap().unwrap();
            assert_eq!(change.method.as_str(), "notifications/tools/list_changed");
            let states: Vec<_> = two.gateway.targets().into_iter().map(|it| it.state).collect();
            assert_eq!(states[0], TargetState::Connected);
            assert!(!states[1].is_ready(), "{era:?} {version}: {states:?}");
            two.b.comes_back();
            let back = timeout(Duration::from_secs(120), async {
                while tools(&client).await.len() < 14 {
                    stream.next().await.unwrap().unwrap();
                }
            });
            back.await.unwrap_or_else(|_| panic!("{era:?} {version}: its tools do not come back"));
            assert_eq!(call(&client, "b__who").await, "b");
            client.close().await;
        }
    });
}

#[test]
fn a_call_waits_for_a_server_that_is_started_again_and_comes_back_at_once() {
    run(async {
        for (era, version) in PAIRS {
            let two = Two::new(&version);
            let client = connect(&two.gateway, builder(era)).await;
            assert_eq!(call(&client, "b__who").await, "b", "{era:?} {version}");
            let (starts, began) = (two.b.starts(), Instant::now());
            two.b.dies();
            two.b.comes_back();
            until(|| two.gateway.targets()[1].state != TargetState::Connected).await;
            assert_eq!(outcome(&client, "b__who").await, "b", "{era:?} {version}");
            assert!(began.elapsed() < Duration::from_secs(1), "{era:?} {version}: {:?}", began.elapsed());
            assert_eq!(two.b.starts(), starts + 1);
            // A server that is slow to start delays a call for two seconds.
            two.b.dies();
            two.b.is_slow.send_replace(true);
            two.b.comes_back();
            until(|| two.gateway.targets()[1].state != TargetState::Connected).await;
            let began = Instant::now();
            let error = refused(&client, "b__who").await;
            assert!(error["message"].as_str().unwrap().starts_with("b: "), "{era:?} {version}: {error}");
            assert_eq!(began.elapsed().as_secs(), 2, "{era:?} {version}: {error}");
            two.b.is_slow.send_replace(false);
            client.close().await;
            two.gateway.close().await;
        }
    });
}

#[test]
fn a_target_that_is_late_delays_the_others_by_five_seconds_at_most_and_joins_later() {
    run(async {
        for (era, version) in PAIRS {
            let two = Two::new(&version);
            two.b.is_slow.send_replace(true);
            let began = Instant::now();
            let client = connect(&two.gateway, builder(era)).await;
            assert_eq!(tools(&client).await.len(), 7, "{era:?} {version}");
            // Five seconds for the opening, and five for the list.
            assert!(began.elapsed() <= Duration::from_secs(11), "{era:?} {version}: {:?}", began.elapsed());
            let error = refused(&client, "b__who").await;
            assert!(error["message"].as_str().unwrap().starts_with("b: "), "{era:?} {version}: {error}");
            assert_eq!(call(&client, "a__who").await, "a");
            let filter = SubscriptionFilter::default().with_tools_list_changed(true);
            let mut stream = client.listen(filter).await.unwrap();
            two.b.is_slow.send_replace(false);
            let joined = timeout(Duration::from_secs(60), async {
                while tools(&client).await.len() < 14 {
                    stream.next().await.unwrap().unwrap();
                }
            });
            joined.await.unwrap_or_else(|_| panic!("{era:?} {version}: the target does not join"));
            client.close().await;
        }
    });
}

#[test]
fn a_list_has_pages_over_several_targets_and_a_foreign_cursor_is_refused() {
    run(async {
        for (era, version) in PAIRS {
            let target = |name| Target::new(one_of_everything(name, &version).page_size(3));
            let (a, b) = (target("a"), target("b"));
            let gateway =
                Gateway::joined("both", "1").target("a", a.gateway()).target("b", b.gateway()).build();
            let client = connect(&gateway, builder(era)).await;
            let names = tools(&client).await;
            let all: BTreeSet<&String> = names.iter().collect();
            assert_eq!((names.len(), all.len()), (14, 14), "{era:?} {version}: {names:?}");
            for cursor in ["", "x", "tools-3"] {
                let params = Raw::from_value(&json!({ "cursor": cursor })).unwrap();
                let error = client.send_request("tools/list", Some(params)).await.unwrap_err();
                assert_eq!(error.remote().unwrap().code, code::INVALID_PARAMS, "{cursor}");
            }
            client.close().await;
        }
    });
}

#[test]
fn a_link_in_a_result_is_read_at_the_target_that_gave_it_and_at_no_other() {
    run(async {
        for (era, version) in PAIRS {
            let two = Two::new(&version);
            let client = connect(&two.gateway, builder(era)).await;
            let not_found: i64 = client.profile().resource_not_found;
            assert_eq!(read(&client, "b:/hidden").await, Err(not_found));
            drop(client.call_tool("b__links", ()).await.unwrap());
            // The target refuses it with its own error: it was asked.
            let error = client.read_resource("b:/hidden").await.unwrap_err();
            assert!(!error.to_string().contains("unknown resource"), "{era:?} {version}: {error}");
            client.close().await;
        }
    });
}

#[test]
fn a_client_that_wants_log_messages_learns_which_target_has_no_server() {
    run(async {
        for (era, version) in PAIRS {
            for (level, is_told) in [(LoggingLevel::Info, true), (LoggingLevel::Error, false)] {
                let two = Two::new(&version);
                let (told, mut messages) = unbounded_channel();
                let client = builder(era).on_log(move |message| drop(told.send(message.data.to_string())));
                let client = connect(&two.gateway, client).await;
                client.set_level(level).await.unwrap();
                let filter = SubscriptionFilter::default().with_tools_list_changed(true);
                let _stream = client.listen(filter).await.unwrap();
                assert_eq!(tools(&client).await.len(), 14, "{era:?} {version}");
                two.b.dies();
                let message = timeout(Duration::from_secs(30), messages.recv()).await;
                assert_eq!(message.is_ok(), is_told, "{era:?} {version}: {message:?}");
                if let Ok(Some(message)) = message {
                    assert!(message.starts_with("\"b: no server is running"), "{message}");
                }
                client.close().await;
            }
        }
    });
}

#[test]
fn a_level_of_log_messages_that_does_not_exist_is_refused() {
    run(async {
        for version in [Version::V2025_06_18, Version::V2026_07_28] {
            let two = Two::new(&version);
            let client = connect(&two.gateway, builder(Era::Legacy)).await;
            for (level, is_known) in [("loud", false), ("emergency", true)] {
                let params = Raw::from_value(&json!({ "level": level })).unwrap();
                let set = client.send_request("logging/setLevel", Some(params)).await;
                let code = set.err().map(|error| error.remote().unwrap_or_else(|| panic!("{error}")).code);
                assert_eq!(code, (!is_known).then_some(code::INVALID_PARAMS), "{version} {level}");
            }
            client.close().await;
        }
    });
}

#[test]
fn the_interface_of_a_tool_is_read_at_its_target_although_no_list_of_resources_has_it() {
    run(async {
        for (era, version) in PAIRS {
            let target = |name: &'static str, meta: Value| {
                let listed = json!({ "name": "shows", "inputSchema": { "type": "object" }, "_meta": meta });
                let listed = serde_json::from_value(listed).unwrap();
                Target::new(one_of_everything(name, &version).raw_tool(listed, |_, _| async { "shown" }))
            };
            let nested = json!({ "ui": { "resourceUri": "ui://a/page" } });
            let (a, b) = (target("a", nested), target("b", json!({ "ui/resourceUri": "ui://b/page" })));
            let gateway =
                Gateway::joined("both", "1").target("a", a.gateway()).target("b", b.gateway()).build();
            let client = connect(&gateway, builder(era)).await;
            let listed = client.list_tools().all().await.unwrap();
            let listed = serde_json::to_string(&listed).unwrap();
            assert!(listed.contains("ui://a/page") && listed.contains("ui://b/page"), "{listed}");
            for uri in ["ui://a/page", "ui://b/page"] {
                // The target refuses it with its own error: it was asked.
                let error = client.read_resource(uri).await.unwrap_err().to_string();
                assert!(!error.contains("unknown resource"), "{era:?} {version}: {error}");
            }
            let error = client.read_resource("ui://c/page").await.unwrap_err().to_string();
            assert!(error.contains("unknown resource"), "{era:?} {version}: {error}");
            client.close().await;
        }
    });
}

#[test]
fn two_legacy_clients_share_no_server() {
    run(async {
        let two = Two::new(&Version::V2025_06_18);
        let one = connect(&two.gateway, builder(Era::Legacy)).await;
        assert_eq!((two.a.starts(), two.b.starts()), (1, 1));
        let other = connect(&two.gateway, builder(Era::Legacy)).await;
        assert_eq!((two.a.starts(), two.b.starts()), (2, 2));
        one.close().await;
        assert_eq!(call(&other, "a__who").await, "a");
    });
}

#[test]
fn instructions_of_all_targets_stand_under_their_names() {
    run(async {
        for (era, version) in PAIRS {
            let two = Two::new(&version);
            let client = connect(&two.gateway, builder(era)).await;
            let instructions = client.peer().instructions.clone().unwrap_or_default();
            assert_eq!(instructions, "## a\n\nHow to use a.\n\n## b\n\nHow to use b.", "{era:?} {version}");
            client.close().await;
        }
    });
}

#[test]
fn each_target_is_reached_alone_with_its_own_names() {
    run(async {
        for (era, version) in PAIRS {
            let two = Two::new(&version);
            let alone = two.gateway.target("b").unwrap().clone();
            let (near, far) = Link::memory();
            tokio::spawn(async move { alone.serve(far).await });
            let client = builder(era).connect(near).await.unwrap();
            assert_eq!(client.server_name(), Some("b"));
            assert_eq!(call(&client, "who").await, "b");
            assert!(two.gateway.target("c").is_none());
            client.close().await;
        }
    });
}

#[test]
fn the_opening_of_the_first_client_is_known_once_each_target_is_open_or_late() {
    run(async {
        for (era, version) in PAIRS {
            let two = Two::new(&version);
            two.b.is_slow.send_replace(true);
            let early = timeout(Duration::from_secs(60), two.gateway.opened()).await;
            assert!(early.is_err(), "no client has come");
            let client = connect(&two.gateway, builder(era)).await;
            drop(tools(&client).await);
            timeout(Duration::from_millis(1), two.gateway.opened()).await.unwrap();
            let states: Vec<_> = two.gateway.targets().into_iter().map(|it| it.state).collect();
            assert_eq!(states, [TargetState::Connected, TargetState::Starting], "{era:?} {version}");
            client.close().await;
        }
    });
}

#[test]
fn a_closed_gateway_says_so_and_refuses_each_client_once() {
    run(async {
        for (era, version) in PAIRS {
            let refusals = Arc::new(Mutex::new(0));
            let counted = refusals.clone();
            let a = Target::new(one_of_everything("a", &version)).gateway().on_event(move |event| {
                *counted.lock().unwrap() += usize::from(matches!(event, GatewayEvent::Refused { .. }));
            });
            let gateway = Gateway::joined("one", "1").target("a", a).build();
            let client = connect(&gateway, builder(era)).await;
            assert_eq!(call(&client, "a__who").await, "a");
            let stream = match era {
                Era::Modern => {
                    let filter = SubscriptionFilter::default().with_tools_list_changed(true);
                    Some(client.listen(filter).await.unwrap())
                }
                _ => None,
            };
            gateway.close().await;
            passes(Duration::from_secs(600)).await;
            // A stream ends with its server, and a session of the legacy era asks for another one.
            let expected = usize::from(era == Era::Legacy);
            assert_eq!(*refusals.lock().unwrap(), expected, "{era:?} {version}");
            let error = refused(&client, "a__who").await;
            assert_eq!(error["data"]["gateway"], "closed", "{era:?} {version}: {error}");
            drop(stream);
            client.close().await;
        }
    });
}
