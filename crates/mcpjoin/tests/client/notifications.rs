//! Tests of the functions for notifications, and of streams of notifications in the legacy era.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcpjoin::client::{Client, ClientBuilder};
use mcpjoin::proto::types::{LoggingLevel, Prompt, Resource, SubscriptionFilter};
use mcpjoin::proto::{Era, ErrorObject, Message, Method, Version};
use mcpjoin::server::{Context, NoArguments, Server, tool};
use mcpjoin_test_support::scripted::{Scripted, builder, legacy, modern, note_notifications, value};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use crate::typed::connected;

/// What was received next. An hour of the paused clock without anything fails the test.
async fn next<T>(received: &mut UnboundedReceiver<T>) -> T {
    timeout(Duration::from_secs(3600), received.recv()).await.expect("it was told").expect("somebody tells")
}

/// Whether nothing is received for half a minute of the paused clock, which is less than a request may take.
async fn is_silent<T>(received: &mut UnboundedReceiver<T>) -> bool {
    timeout(Duration::from_secs(30), received.recv()).await.is_err()
}

async fn says(_: NoArguments, cx: Context) {
    cx.log(LoggingLevel::Debug, "quiet");
    cx.log(LoggingLevel::Info, "loud");
}

fn changing() -> Server {
    Server::builder("s", "1")
        .dynamic_tools()
        .dynamic_prompts()
        .dynamic_resources()
        .subscriptions()
        .logging()
        .tool(tool("says"), says)
        .resource(Resource::new("x://1", "1"), |_, _| async { "one" })
        .build()
        .expect("a server")
}

/// A client that notes which lists have changed, and how long they are now.
fn counting(builder: ClientBuilder) -> (ClientBuilder, UnboundedReceiver<(&'static str, usize)>) {
    let (tell, received) = unbounded_channel();
    let [tools, prompts, resources] = [(); 3].map(|()| tell.clone());
    let builder = builder
        .on_tools_changed(move |client| {
            let tell = tools.clone();
            async move {
                let tools = client.list_tools().all().await.expect("a list");
                let _ = tell.send(("tools", tools.len()));
            }
        })
        .on_prompts_changed(move |client| {
            let tell = prompts.clone();
            async move {
                let prompts = client.list_prompts().all().await.expect("a list");
                let _ = tell.send(("prompts", prompts.len()));
            }
        })
        .on_resources_changed(move |client| {
            let tell = resources.clone();
            async move {
                let resources = client.list_resources().all().await.expect("a list");
                let _ = tell.send(("resources", resources.len()));
            }
        });
    (builder, received)
}

#[tokio::test(start_paused = true)]
async fn changes_of_lists_are_received_alike_in_every_revision() {
    for version in Version::ALL {
        let server = changing();
        let (builder, mut received) = counting(builder());
        let client = connected(&server, builder, &version).await;
        assert_eq!(client.list_tools().all().await.expect("a list").len(), 1, "now it is cached");
        let handle = server.handle();
        handle.add_tool(tool("more"), |_: NoArguments, _| async {}).expect("the list may change");
        assert_eq!(next(&mut received).await, ("tools", 2), "{version}");
        handle.add_prompt(Prompt::new("p"), |_, _| async { "" }).expect("the list may change");
        assert_eq!(next(&mut received).await, ("prompts", 1), "{version}");
        handle.add_resource(Resource::new("x://2", "2"), |_, _| async { "" }).expect("the list may change");
        assert_eq!(next(&mut received).await, ("resources", 2), "{version}");
        assert!(is_silent(&mut received).await, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn updated_resources_are_received_alike_in_every_revision() {
    for version in Version::ALL {
        let server = changing();
        let (tell, mut received) = unbounded_channel();
        let builder = builder().on_resource_updated(move |client, uri| {
            let tell = tell.clone();
            async move {
                let contents = client.read_resource(&uri).await.expect("contents");
                let _ = tell.send((uri, contents.to_text()));
            }
        });
        let client = connected(&server, builder, &version).await;
        client.subscribe("x://1").await.expect("it declares subscriptions");
        server.handle().notify_resource_updated("x://2");
        server.handle().notify_resource_updated("x://1");
        assert_eq!(next(&mut received).await, ("x://1".to_owned(), "one".to_owned()), "{version}");
        assert!(is_silent(&mut received).await, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_is_received_however_many_other_resources_are_updated_with_it() {
    for version in Version::ALL {
        let server = changing();
        let (tell, mut received) = unbounded_channel();
        let builder = builder().on_resource_updated(move |_, uri| {
            let _ = tell.send(uri);
            async {}
        });
        let client = connected(&server, builder, &version).await;
        client.subscribe("x://1").await.expect("it declares subscriptions");
        for other in 0..2000 {
            server.handle().notify_resource_updated(&format!("y://{other}"));
        }
        server.handle().notify_resource_updated("x://1");
        assert_eq!(next(&mut received).await, "x://1", "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_of_the_layer_that_sees_a_subscription_is_received() {
    let server = Server::builder("s", "1")
        .subscriptions()
        .resource(Resource::new("x://1", "1"), |_, _| async { "one" })
        .layer(|request, cx, next| async move {
            let is_subscription = request.method == Method::Subscribe;
            let response = next.run(request).await;
            if is_subscription {
                cx.server().notify_resource_updated("x://1");
            }
            response
        })
        .build()
        .expect("a server");
    let (tell, mut received) = unbounded_channel();
    let builder = builder().on_resource_updated(move |_, uri| {
        let _ = tell.send(uri);
        async {}
    });
    let client = connected(&server, builder, &Version::V2025_11_25).await;
    client.subscribe("x://1").await.expect("it declares subscriptions");
    assert_eq!(next(&mut received).await, "x://1");
}

#[tokio::test(start_paused = true)]
async fn log_messages_are_received_from_info_on_until_another_level_is_set_in_every_revision() {
    for version in Version::ALL {
        let (tell, mut received) = unbounded_channel();
        let builder = builder().on_log(move |message| drop(tell.send(message.data.as_str().to_owned())));
        let client = connected(&changing(), builder, &version).await;
        client.call_tool("says", ()).await.expect("a result");
        assert_eq!(next(&mut received).await, "\"loud\"", "{version}");
        client.set_level(LoggingLevel::Debug).await.expect("it declares logging");
        client.call_tool("says", ()).await.expect("a result");
        assert_eq!(next(&mut received).await, "\"quiet\"", "{version}");
        assert_eq!(next(&mut received).await, "\"loud\"", "{version}");
        assert!(is_silent(&mut received).await, "{version}");
    }
}

/// A client that counts the changes of the list of tools.
fn noting(builder: ClientBuilder) -> (ClientBuilder, UnboundedReceiver<()>) {
    let (tell, received) = unbounded_channel();
    let builder = builder.on_tools_changed(move |_| {
        let _ = tell.send(());
        async {}
    });
    (builder, received)
}

/// Reads the request for a stream, and returns its id and its filter.
async fn asked_to_listen(server: &mut Scripted) -> (i64, Value) {
    let request = server.expect("subscriptions/listen").await;
    let filter = value(request.params.as_ref())["notifications"].clone();
    (request.id.as_i64().expect("ours"), filter)
}

/// Sends a notification of a stream.
async fn tell(server: &mut Scripted, stream: i64, method: &str, mut params: Value) {
    params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": stream });
    server.notify(method, params).await;
}

async fn acknowledge(server: &mut Scripted, stream: i64, filter: Value) {
    let params = json!({ "notifications": filter });
    tell(server, stream, "notifications/subscriptions/acknowledged", params).await;
}

#[tokio::test(start_paused = true)]
async fn the_stream_is_opened_before_the_first_request_and_again_when_it_ends() {
    let (builder, mut received) = noting(builder());
    let (builder, mut everything) = note_notifications(builder);
    let (client, mut server) = modern(builder).await;
    let mut call = client.call_tool("t", ());
    assert!(mcpjoin_test_support::poll_once(&mut Box::pin(call.next_event())).is_pending());
    let (stream, filter) = asked_to_listen(&mut server).await;
    assert_eq!(filter, json!({ "toolsListChanged": true }), "only what is registered");
    server.expect("tools/call").await;
    acknowledge(&mut server, stream, filter).await;
    tell(&mut server, stream, "notifications/tools/list_changed", json!({})).await;
    next(&mut received).await;
    assert_eq!(next(&mut everything).await.method, Method::ToolListChanged, "as in the legacy era");

    // The server ends the stream. A change may be missed until there is another one.
    let end = json!({
        "resultType": "complete", "_meta": { "io.modelcontextprotocol/subscriptionId": stream }
    });
    server.result(stream.into(), end).await;
    let (again, filter) = asked_to_listen(&mut server).await;
    assert!(is_silent(&mut received).await);
    acknowledge(&mut server, again, filter).await;
    next(&mut received).await;
    tell(&mut server, again, "notifications/tools/list_changed", json!({})).await;
    next(&mut received).await;
    drop((call, client));
    while server.message().await.is_some() {}
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_the_stream_is_not_asked_again() {
    let (builder, mut received) = noting(builder());
    let (client, mut server) = modern(builder).await;
    let (stream, _) = asked_to_listen(&mut server).await;
    server.say(stream.into(), Err(ErrorObject::method_not_found("subscriptions/listen"))).await;
    assert!(is_silent(&mut received).await);
    drop(client);
    assert_eq!(server.message().await, None, "no second request");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_never_lasts_is_given_up() {
    let (builder, mut received) = noting(builder());
    let (client, mut server) = modern(builder).await;
    for _ in 0..10 {
        let (stream, _) = asked_to_listen(&mut server).await;
        server.result(stream.into(), json!({ "resultType": "complete" })).await;
    }
    assert!(is_silent(&mut received).await);
    drop(client);
    assert_eq!(server.message().await, None, "ten attempts");
}

#[tokio::test(start_paused = true)]
async fn no_stream_is_opened_for_what_the_server_does_not_declare() {
    let (link, mut server) = Scripted::pair();
    server.capabilities = json!({ "tools": {}, "logging": {} });
    let (builder, _received) = noting(builder());
    let builder = builder.on_log(|_| {});
    let (client, ()) = tokio::join!(builder.connect(link), server.open_modern());
    let client = client.expect("connects");
    assert!(timeout(Duration::from_secs(30), server.message()).await.is_err(), "nothing is sent");
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_function_runs_once_at_a_time_changes_meanwhile_count_as_one_and_a_panic_is_contained() {
    let (gate, runs) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (tell, mut received) = unbounded_channel();
    let (handler_gate, handler_runs) = (gate.clone(), runs.clone());
    let builder = builder().on_tools_changed(move |_| {
        let (gate, tell) = (handler_gate.clone(), tell.clone());
        let run = handler_runs.fetch_add(1, Ordering::Relaxed);
        async move {
            let _ = tell.send(run);
            gate.acquire().await.expect("it is never closed").forget();
            assert!(run != 0, "the first run panics");
        }
    });
    let (client, mut server) = legacy(builder).await;
    server.notify("notifications/tools/list_changed", json!({})).await;
    assert_eq!(next(&mut received).await, 0);
    for _ in 0..100 {
        server.notify("notifications/tools/list_changed", json!({})).await;
    }
    assert!(is_silent(&mut received).await, "the first run has not ended");
    gate.add_permits(1);
    assert_eq!(next(&mut received).await, 1, "it goes on after a panic");
    gate.add_permits(1);
    assert!(is_silent(&mut received).await, "a hundred changes were one");
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn functions_keep_the_connection_open_only_while_they_run() {
    for era in [Era::Legacy, Era::Modern] {
        let gate = Arc::new(Semaphore::new(0));
        let (tell, mut received) = unbounded_channel();
        let handler_gate = gate.clone();
        let builder = builder().on_tools_changed(move |client| {
            let (gate, tell) = (handler_gate.clone(), tell.clone());
            async move {
                let _ = tell.send(client.is_closed());
                gate.acquire().await.expect("it is never closed").forget();
                let _ = tell.send(client.is_closed());
            }
        });
        let (client, mut server) =
            if era == Era::Modern { modern(builder).await } else { legacy(builder).await };
        if era == Era::Modern {
            let (stream, filter) = asked_to_listen(&mut server).await;
            acknowledge(&mut server, stream, filter).await;
            tell_changed(&mut server, stream).await;
        } else {
            server.notify("notifications/tools/list_changed", json!({})).await;
        }
        assert!(!next(&mut received).await, "{era:?}");
        drop(client);
        assert!(timeout(Duration::from_secs(30), server.message()).await.is_err(), "{era:?}: it is open");
        gate.add_permits(1);
        assert!(!next(&mut received).await, "{era:?}");
        while let Some(message) = server.message().await {
            let is_cancel =
                matches!(message, Message::Notification(note) if note.method == Method::Cancelled);
            assert!(is_cancel, "{era:?}: only the stream ends");
        }
        assert_eq!(received.recv().await, None, "{era:?}: the function is dropped");
    }
}

async fn tell_changed(server: &mut Scripted, stream: i64) {
    tell(server, stream, "notifications/tools/list_changed", json!({})).await;
}

/// Reads a request about a resource, and confirms it.
async fn confirm(server: &mut Scripted, method: &str, uri: &str) {
    let request = server.expect(method).await;
    assert_eq!(value(request.params.as_ref())["uri"], uri);
    server.result(request.id, json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_the_legacy_era_has_what_its_filter_selects_and_the_server_declares() {
    for version in Version::ALL.into_iter().filter(|version| version.era() == Some(Era::Legacy)) {
        let server = changing();
        let client = connected(&server, builder(), &version).await;
        let filter = SubscriptionFilter::default()
            .with_tools_list_changed(true)
            .with_resource_subscriptions(vec!["x://1".to_owned()])
            .with_task_ids(vec!["1".to_owned()]);
        let mut stream = client.listen(filter.clone()).await.expect("a stream");
        let mut honoured = filter;
        honoured.task_ids = None;
        assert_eq!(*stream.acknowledged(), honoured, "{version}");
        assert_eq!((stream.id(), stream.dropped()), (None, 0));
        let handle = server.handle();
        handle.add_prompt(Prompt::new("p"), |_, _| async { "" }).expect("the list may change");
        handle.add_tool(tool("more"), |_: NoArguments, _| async {}).expect("the list may change");
        assert_eq!(told(&mut stream).await, Method::ToolListChanged, "{version}");
        handle.notify_resource_updated("x://1");
        assert_eq!(told(&mut stream).await, Method::ResourceUpdated, "{version}");
        client.close().await;
        assert!(stream.next().await.expect("an end").expect_err("closed").is_fatal(), "{version}");
        assert!(stream.next().await.is_none());
    }
}

async fn told(stream: &mut mcpjoin::client::Subscription) -> Method {
    let next = timeout(Duration::from_secs(3600), stream.next()).await.expect("it was told");
    next.expect("open").expect("a notification").method
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_unsubscribed_from_with_its_last_subscriber() {
    let filter = || SubscriptionFilter::default().with_resource_subscriptions(vec!["a:b".to_owned()]);
    let (client, mut server) = legacy(builder()).await;
    let listen = async |server: &mut Scripted, client: &Client| {
        let (stream, ()) =
            tokio::join!(client.listen(filter()), confirm(server, "resources/subscribe", "a:b"));
        stream.expect("a stream")
    };
    let first = listen(&mut server, &client).await;
    let second = listen(&mut server, &client).await;
    drop(first);
    drop(second);
    confirm(&mut server, "resources/unsubscribe", "a:b").await;

    // A stream and a subscription of the caller's own need the resource independently.
    let stream = listen(&mut server, &client).await;
    let (subscribed, ()) =
        tokio::join!(client.subscribe("a:b"), confirm(&mut server, "resources/subscribe", "a:b"));
    subscribed.expect("subscribed");
    client.unsubscribe("a:b").await.expect("the stream still needs it");
    drop(stream);
    confirm(&mut server, "resources/unsubscribe", "a:b").await;

    // What the server does not declare is not honoured.
    let (link, mut server) = Scripted::pair();
    server.capabilities = json!({});
    let (client, ()) = tokio::join!(builder().connect(link), server.open_legacy("2025-11-25"));
    let client = client.expect("connects");
    let stream = client.listen(filter().with_tools_list_changed(true)).await.expect("nothing is sent");
    assert_eq!(*stream.acknowledged(), SubscriptionFilter::default());
}

/// Checks that nothing waits at the server: its next message is a ping of the client.
async fn sent_nothing(server: &mut Scripted, client: &Client) {
    let (pong, ()) = tokio::join!(client.ping(), async {
        let ping = server.expect("ping").await;
        server.result(ping.id, json!({})).await;
    });
    pong.expect("a pong");
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_kept_for_who_was_subscribing_when_the_last_stream_with_it_was_dropped() {
    let filter = || SubscriptionFilter::default().with_resource_subscriptions(vec!["a:b".to_owned()]);
    let (client, mut server) = legacy(builder()).await;
    let first = tokio::join!(client.listen(filter()), confirm(&mut server, "resources/subscribe", "a:b")).0;
    let first = first.expect("a stream");

    let mut second = Box::pin(client.listen(filter()));
    assert!(mcpjoin_test_support::poll_once(&mut second).is_pending());
    let request = server.expect("resources/subscribe").await;
    drop(first);
    server.result(request.id, json!({})).await;
    let second = second.await.expect("a stream");
    sent_nothing(&mut server, &client).await;

    let mut subscribing = Box::pin(client.subscribe("a:b"));
    assert!(mcpjoin_test_support::poll_once(&mut subscribing).is_pending());
    let request = server.expect("resources/subscribe").await;
    drop(second);
    server.result(request.id, json!({})).await;
    subscribing.await.expect("subscribed");
    sent_nothing(&mut server, &client).await;
    tokio::join!(client.unsubscribe("a:b"), confirm(&mut server, "resources/unsubscribe", "a:b"))
        .0
        .expect("nothing needs it any more");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_abandoned_while_it_is_made_is_ended() {
    let (client, mut server) = legacy(builder()).await;
    let mut subscribing = Box::pin(client.subscribe("a:b"));
    assert!(mcpjoin_test_support::poll_once(&mut subscribing).is_pending());
    server.expect("resources/subscribe").await;
    drop(subscribing);
    assert_eq!(server.notification().await.method, Method::Cancelled);
    // The server may have subscribed before it has read the cancellation.
    let ended = confirm(&mut server, "resources/unsubscribe", "a:b");
    timeout(Duration::from_secs(30), ended).await.expect("it is ended");
    sent_nothing(&mut server, &client).await;
}

#[tokio::test(start_paused = true)]
async fn the_subscription_of_a_caller_is_opened_again_when_a_modern_server_ends_its_stream() {
    let (tell, mut received) = unbounded_channel();
    let builder = builder().on_resource_updated(move |_, uri| {
        let _ = tell.send(uri);
        async {}
    });
    let (client, mut server) = modern(builder).await;
    let (subscribed, stream) = tokio::join!(client.subscribe("a:b"), async {
        let (stream, filter) = asked_to_listen(&mut server).await;
        acknowledge(&mut server, stream, filter).await;
        stream
    });
    subscribed.expect("subscribed");
    server.result(stream.into(), json!({ "resultType": "complete" })).await;
    let (again, filter) =
        timeout(Duration::from_secs(30), asked_to_listen(&mut server)).await.expect("again");
    assert_eq!(filter, json!({ "resourceSubscriptions": ["a:b"] }));
    assert!(is_silent(&mut received).await);
    acknowledge(&mut server, again, filter).await;
    assert_eq!(next(&mut received).await, "a:b", "an update may have been missed");
    tell_updated(&mut server, again).await;
    assert_eq!(next(&mut received).await, "a:b");
    client.unsubscribe("a:b").await.expect("the stream is ended");
    assert_eq!(server.notification().await.method, Method::Cancelled);
}

async fn tell_updated(server: &mut Scripted, stream: i64) {
    tell(server, stream, "notifications/resources/updated", json!({ "uri": "a:b" })).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_acknowledges_a_stream_is_given_up() {
    let (builder, mut received) = noting(builder());
    let (client, mut server) = modern(builder).await;
    for _ in 0..10 {
        asked_to_listen(&mut server).await;
        assert_eq!(server.notification().await.method, Method::Cancelled, "it has timed out");
    }
    assert!(timeout(Duration::from_secs(3600), server.message()).await.is_err(), "ten attempts");
    assert!(received.try_recv().is_err());
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn of_unread_notifications_the_newest_are_kept() {
    let (client, mut server) = legacy(builder()).await;
    let filter = SubscriptionFilter::default().with_tools_list_changed(true);
    let mut stream = client.listen(filter).await.expect("a stream");
    for _ in 0..1026 {
        server.notify("notifications/tools/list_changed", json!({})).await;
    }
    let (pong, ()) = tokio::join!(client.ping(), async {
        let ping = server.expect("ping").await;
        server.result(ping.id, json!({})).await;
    });
    pong.expect("so all of them have arrived");
    assert_eq!(stream.dropped(), 2);
    assert_eq!(told(&mut stream).await, Method::ToolListChanged);
}
