//! Tests of how a client connects, in both eras, and of its errors when it cannot.

use mcpjoin_test_support::scripted;
use std::time::Duration;

use mcpjoin::Client;
use mcpjoin::client::{ConnectError, Phase};
use mcpjoin::proto::session::{CloseCause, EraChoice, Limits, NegotiationFailure, State};
use mcpjoin::proto::types::{Implementation, Root};
use mcpjoin::proto::{Era, ErrorObject, Message, Method, Raw, Version};
use mcpjoin::transport::Link;
use scripted::{Scripted, builder, legacy, modern, note_violations, text, value};
use serde_json::json;

async fn fails(link: Link, builder: mcpjoin::client::ClientBuilder) -> ConnectError {
    builder.connect(link).await.expect_err("no agreement")
}

#[tokio::test(start_paused = true)]
async fn r54_r66_f20_a_legacy_session_is_opened_once_and_in_order() {
    let (link, mut server) = Scripted::pair();
    let connecting = tokio::spawn(builder().connect(link));
    let probe = server.expect("server/discover").await;
    server.say(probe.id, Err(ErrorObject::method_not_found("server/discover"))).await;
    let initialize = server.expect("initialize").await;
    let params = value(initialize.params.as_ref());
    assert_eq!(params["protocolVersion"], "2025-11-25");
    assert_eq!(params["clientInfo"], json!({"name": "test", "version": "1.0.0"}));
    assert_eq!(params["capabilities"], json!({}), "nothing was registered");
    assert!(!connecting.is_finished(), "there is no client before there is an agreement");
    let result = json!({
        // Not the requested version, but one that the client speaks.
        "protocolVersion": "2025-03-26", "capabilities": {"tools": {}}, "instructions": "be kind",
        "serverInfo": {"name": "strict", "version": "7"},
    });
    server.result(initialize.id, result).await;
    let initialized = server.notification().await;
    assert_eq!(initialized.method, Method::Initialized);
    let client = connecting.await.expect("no panic").expect("connects");
    assert_eq!(client.connection().state(), State::Ready);
    assert_eq!(client.profile().version, Version::V2025_03_26);
    assert_eq!(client.server_name(), Some("strict"));
    assert_eq!(client.peer().instructions.as_deref(), Some("be kind"));
    assert_eq!((client.close_cause(), client.exit()), (None, None));
    for _ in 0..2 {
        // The call is the next request: the client sends neither `initialize` nor `initialized`.
        let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
            let request = server.expect("tools/call").await;
            server.result(request.id, text("ok")).await;
        });
        result.expect("a result");
    }
}

#[tokio::test(start_paused = true)]
async fn r67_nothing_but_the_opening_is_sent_before_the_agreement() {
    let (link, mut server) = Scripted::pair();
    let connecting = tokio::spawn(async move {
        let client = builder().era(EraChoice::Only(Era::Legacy)).connect(link).await?;
        let tools = client.list_tools().all().await;
        let resources = client.list_resources().all().await;
        let result = client.call_tool("t", ()).await;
        Ok::<_, ConnectError>((tools, resources, result))
    });
    let initialize = server.expect("initialize").await;
    tokio::select! {
        biased;
        message = server.message() => panic!("too early: {message:?}"),
        () = tokio::task::yield_now() => {}
    }
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": server.capabilities,
        "serverInfo": {"name": "s", "version": "1"}});
    server.result(initialize.id, result).await;
    assert_eq!(server.notification().await.method, Method::Initialized);
    let served = server.serve(|request| {
        Ok(match request.method {
            Method::ListTools => json!({"tools": []}),
            Method::ListResources => json!({"resources": []}),
            _ => text("ok"),
        })
    });
    let (tools, resources, result) = connecting.await.expect("no panic").expect("connects");
    tools.expect("works after");
    resources.expect("works after");
    result.expect("works after");
    served.await.expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn r66_a_modern_server_is_discovered_and_nothing_else() {
    let (client, mut server) = modern(builder()).await;
    assert_eq!(client.profile().era, Era::Modern);
    assert_eq!(client.connection().state(), State::Ready);
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let request = server.expect("tools/call").await;
        server.result(request.id, text("ok")).await;
    });
    result.expect("a result");
}

#[tokio::test(start_paused = true)]
async fn c56_a_version_that_the_client_does_not_speak_ends_it_and_both_are_named() {
    let (link, mut server) = Scripted::pair();
    let (error, ()) = tokio::join!(fails(link, builder().era(EraChoice::Only(Era::Legacy))), async {
        let request = server.expect("initialize").await;
        let result = json!({"protocolVersion": "1999-01-01", "capabilities": {},
            "serverInfo": {"name": "s", "version": "1"}});
        server.result(request.id, result).await;
        // The client closes the connection without another message.
        assert!(server.message().await.is_none());
    });
    assert_eq!(error.phase, Phase::Initialize);
    assert!(
        matches!(&error.cause, CloseCause::Opening(NegotiationFailure::UnsupportedVersion { .. })),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(text.contains("1999-01-01") && text.contains("2025-11-25"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn one_version_alone_is_offered_and_accepted() {
    let (link, mut server) = Scripted::pair();
    let only = builder().protocol_version(Version::V2025_06_18);
    let (client, ()) = tokio::join!(only.connect(link), async {
        let request = server.expect("initialize").await;
        assert_eq!(value(request.params.as_ref())["protocolVersion"], "2025-06-18");
        let result = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "serverInfo": {"name": "s", "version": "1"}});
        server.result(request.id, result).await;
    });
    assert_eq!(client.expect("connects").profile().version, Version::V2025_06_18);

    let (link, mut server) = Scripted::pair();
    let only = builder().protocol_version(Version::V2025_06_18);
    let (error, ()) = tokio::join!(fails(link, only), async {
        let request = server.expect("initialize").await;
        let result = json!({"protocolVersion": "2025-03-26", "capabilities": {},
            "serverInfo": {"name": "s", "version": "1"}});
        server.result(request.id, result).await;
    });
    assert_eq!(error.phase, Phase::Initialize);

    let (link, mut server) = Scripted::pair();
    let only = builder().protocol_version(Version::V2026_07_28);
    let (client, ()) = tokio::join!(only.connect(link), server.open_modern());
    assert_eq!(client.expect("connects").profile().version, Version::V2026_07_28);
}

#[tokio::test(start_paused = true)]
async fn r83_a_refused_or_unanswered_opening_says_which_part_and_how_long_it_took() {
    let (link, mut server) = Scripted::pair();
    let (error, ()) = tokio::join!(fails(link, builder().era(EraChoice::Only(Era::Legacy))), async {
        let request = server.expect("initialize").await;
        server.say(request.id, Err(ErrorObject::new(-32000, "licence expired"))).await;
    });
    assert_eq!(error.phase, Phase::Initialize);
    assert!(error.to_string().contains("licence expired"), "{error}");

    let (link, server) = Scripted::pair();
    let error = fails(link, builder()).await;
    drop(server);
    let limits = Limits::default();
    assert_eq!(error.phase, Phase::Initialize, "the probe was given up before");
    assert_eq!(error.took, limits.probe + limits.initialize);

    let (link, server) = Scripted::pair();
    let error = fails(link, builder().era(EraChoice::Only(Era::Modern))).await;
    drop(server);
    assert_eq!(error.phase, Phase::Probe);

    let (link, mut server) = Scripted::pair();
    let (error, ()) = tokio::join!(fails(link, builder()), async {
        server.request().await;
        server.link.close().await;
    });
    assert_eq!(error.phase, Phase::Opening);
    assert!(error.link_end().is_some(), "{error:?}");
    assert_eq!(error.took, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_connecting_that_is_dropped_closes_the_link() {
    let (link, mut server) = Scripted::pair();
    let connecting = tokio::spawn(builder().connect(link));
    server.expect("server/discover").await;
    connecting.abort();
    assert!(server.message().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn f20_what_is_declared_is_what_was_registered() {
    let rooted = builder()
        .roots(vec![Root::new("file:///a")])
        .implementation(Implementation::new("named", "2").with_title("A name"));
    let full = |builder: mcpjoin::client::ClientBuilder| {
        builder
            .sampling(|_| async { Err(ErrorObject::internal("no model")) })
            .sampling_tools(true)
            .elicitation(|_| async { Err(ErrorObject::internal("no user")) })
            .elicitation_url(true)
    };
    let bare = builder()
        .sampling(|_| async { Err(ErrorObject::internal("no model")) })
        .elicitation(|_| async { Err(ErrorObject::internal("no user")) });
    let expected = [
        (json!({"roots": {"listChanged": true}}), rooted),
        (json!({"sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}}), full(builder())),
        (json!({"sampling": {}, "elicitation": {"form": {}}}), bare),
        (
            json!({"extensions": {"a.example/b": {"c": 1}, "io.modelcontextprotocol/tasks": {}}}),
            builder().tasks(true).extension("a.example/b", Raw::parse(r#"{"c":1}"#).unwrap()),
        ),
        // A flag without its handler declares nothing.
        (json!({}), builder().sampling_tools(true).sampling_context(true).elicitation_url(true)),
    ];
    for (declared, builder) in expected {
        let (link, mut server) = Scripted::pair();
        let connecting = tokio::spawn(builder.connect(link));
        let probe = server.expect("server/discover").await;
        let meta = value(probe.params.as_ref())["_meta"].clone();
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], declared);
        server.say(probe.id, Err(ErrorObject::method_not_found("server/discover"))).await;
        let initialize = server.expect("initialize").await;
        assert_eq!(value(initialize.params.as_ref())["capabilities"], declared);
        connecting.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn the_server_may_ping_and_tell_and_nothing_is_asked_of_a_client_that_declares_nothing() {
    let (builder, violations) = note_violations(builder());
    let (client, mut server) = legacy(builder).await;
    assert_eq!(value(server.ask(1, "ping", json!({})).await.outcome.ok().as_ref()), json!({}));
    for method in ["roots/list", "sampling/createMessage", "elicitation/create", "x/y"] {
        let error = server.ask(2, method, json!({})).await.outcome.expect_err("not declared");
        assert_eq!(error.code, -32601, "{method}");
    }
    drop(violations);

    // A modern server must not send requests, and gets no response: the next message it receives is the client's call.
    let (client, mut server) = {
        drop(client);
        modern(scripted::builder()).await
    };
    server.notify("notifications/message", json!({"level": "info", "data": "x"})).await;
    let request = mcpjoin::proto::Request { id: 1.into(), method: Method::ListRoots, params: None };
    server.send(Message::Request(request)).await;
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let request = server.expect("tools/call").await;
        server.result(request.id, text("ok")).await;
    });
    result.expect("a result");
    let _: Client = client;
}
