//! Tests of a client's lists in pages, and of its streams of notifications.

use mcpjoin_test_support::scripted;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use mcpjoin::client::{Client, ClientError};
use mcpjoin::proto::session::CallError;
use mcpjoin::proto::types::SubscriptionFilter;
use mcpjoin::proto::{ErrorObject, Method, Request};
use scripted::{Scripted, builder, legacy, modern, note_notifications, text, value};
use serde_json::{Value, json};

fn cursor(request: &Request) -> Value {
    value(request.params.as_ref())["cursor"].clone()
}

/// Serves tools in pages: the items of each page, and the cursor of the next.
async fn paged(
    builder: mcpjoin::client::ClientBuilder,
    page: impl Fn(&Value) -> (Vec<u32>, Value) + Send + 'static,
) -> Client {
    let (client, server) = legacy(builder).await;
    drop(server.serve(move |request| {
        let (names, next) = page(&cursor(request));
        let tools: Vec<Value> = names
            .into_iter()
            .map(|name| json!({"name": name.to_string(), "inputSchema": {"type": "object"}}))
            .collect();
        Ok(if next.is_null() { json!({"tools": tools}) } else { json!({"tools": tools, "nextCursor": next}) })
    }));
    client
}

fn three_pages(cursor: &Value) -> (Vec<u32>, Value) {
    match cursor.as_str() {
        None => (vec![1, 2], json!("")),
        // The empty string is a valid cursor, and a page may be empty.
        Some("") => (vec![], json!("z")),
        Some(cursor) => {
            assert_eq!(cursor, "z", "not a cursor of ours");
            (vec![3], Value::Null)
        }
    }
}

#[tokio::test(start_paused = true)]
async fn f18_all_pages_are_read_and_the_empty_cursor_is_one() {
    let client = paged(builder(), three_pages).await;
    let names = |tools: Vec<mcpjoin::proto::types::Tool>| -> Vec<String> {
        tools.into_iter().map(|tool| tool.name).collect()
    };
    assert_eq!(names(client.list_tools().all().await.expect("three pages")), ["1", "2", "3"]);
    let streamed: Vec<_> = client.list_tools().map(|tool| tool.expect("a tool")).collect().await;
    assert_eq!(names(streamed), ["1", "2", "3"]);
    let mut pages = client.list_tools();
    assert_eq!(pages.next().await.expect("one").expect("a tool").name, "1");
    assert_eq!(names(pages.all().await.expect("the rest")), ["2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn c66_f18_pages_in_a_circle_are_noticed() {
    let client = paged(builder(), |cursor| match cursor.as_str() {
        None => (vec![1], json!("a")),
        Some("a") => (vec![2], json!("b")),
        _ => (vec![3], json!("a")),
    })
    .await;
    let mut pages = client.list_tools();
    for _ in 0..3 {
        pages.next().await.expect("an item").expect("a tool");
    }
    let error = pages.next().await.expect("an end").expect_err("a loop");
    assert_eq!(error, ClientError::RepeatedCursor { method: Method::ListTools, cursor: "a".into() });
    assert!(pages.next().await.is_none());
    assert!(!error.is_fatal());
}

#[tokio::test(start_paused = true)]
async fn c66_pages_without_an_end_are_given_up() {
    let endless = |cursor: &Value| {
        let page = cursor.as_str().map_or(0, |text| text.parse::<u32>().expect("ours"));
        (vec![page], json!((page + 1).to_string()))
    };
    let client = paged(builder(), endless).await;
    let error = client.list_tools().all().await.expect_err("no end");
    assert_eq!(error, ClientError::TooManyPages { method: Method::ListTools, limit: 1000 });
    let client = paged(builder().max_pages(1), endless).await;
    let mut pages = client.list_tools();
    pages.next().await.expect("an item").expect("the first page");
    let error = pages.next().await.expect("an end").expect_err("one page is too many");
    assert_eq!(error, ClientError::TooManyPages { method: Method::ListTools, limit: 1 });
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_collected_has_a_total_in_bytes() {
    // Ten pages of 9 MiB: the eighth passes 64 MiB.
    let (client, server) = legacy(builder()).await;
    let (large, asked) = ("x".repeat(9 << 20), Arc::new(Mutex::new(0)));
    let requests = asked.clone();
    drop(server.serve(move |_| {
        let mut page = requests.lock().expect("nobody panics with it");
        *page += 1;
        let next = (*page < 10).then(|| page.to_string());
        let tool = json!({"name": page.to_string(), "inputSchema": {"type": "object"}});
        let mut result = json!({"tools": [tool], "_meta": {"x/large": large}});
        if let Some(next) = next {
            result["nextCursor"] = next.into();
        }
        Ok(result)
    }));
    let error = client.list_tools().all().await.expect_err("more than 64 MiB");
    assert_eq!(error, ClientError::ListTooLarge { method: Method::ListTools, limit: 64 << 20 });
    assert_eq!(*asked.lock().unwrap(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_which_a_hundred_thousand_items_were_returned_is_not_begun_again() {
    for (items, begun) in [(99_999, 2), (100_000, 1)] {
        let (client, server) = legacy(builder()).await;
        let beginnings = Arc::new(Mutex::new(0));
        let counted = beginnings.clone();
        drop(server.serve(move |request| {
            if !cursor(request).is_null() {
                return Err(ErrorObject::invalid_params("the cursor has expired"));
            }
            *counted.lock().expect("nobody panics with it") += 1;
            let item = |uri: u32| json!({"uri": uri.to_string(), "name": ""});
            let resources: Vec<Value> = (0..items).map(item).collect();
            Ok(json!({"resources": resources, "nextCursor": "a"}))
        }));
        let listed: Vec<_> = client.list_resources().collect().await;
        assert_eq!(listed.len(), 1 + items as usize);
        assert!(listed.last().is_some_and(Result::is_err), "the cursor was refused");
        assert_eq!(*beginnings.lock().unwrap(), begun, "{items}");
    }
}

/// Refuses the last cursor of three pages this many times, with this error. Returns the log of requested cursors.
async fn refusing(times: usize, error: ErrorObject) -> (Client, Arc<Mutex<Vec<Value>>>) {
    let (client, server) = legacy(builder()).await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (seen, mut left) = (asked.clone(), times);
    drop(server.serve(move |request| {
        let cursor = cursor(request);
        seen.lock().expect("nobody panics with it").push(cursor.clone());
        if cursor == "z" && left > 0 {
            left -= 1;
            return Err(error.clone());
        }
        let (names, next) = three_pages(&cursor);
        let tool = |name: u32| json!({"name": name.to_string(), "inputSchema": {"type": "object"}});
        let tools: Vec<Value> = names.into_iter().map(tool).collect();
        Ok(if next.is_null() { json!({"tools": tools}) } else { json!({"tools": tools, "nextCursor": next}) })
    }));
    (client, asked)
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_cursor_is_refused_is_begun_again_once_and_gives_nothing_twice() {
    let names = |tools: Vec<mcpjoin::proto::types::Tool>| -> Vec<String> {
        tools.into_iter().map(|tool| tool.name).collect()
    };
    let expired = || ErrorObject::invalid_params("the cursor has expired");
    let (client, asked) = refusing(1, expired()).await;
    let streamed: Vec<_> = client.list_tools().map(|tool| tool.expect("a tool")).collect().await;
    assert_eq!(names(streamed), ["1", "2", "3"]);
    let again = [Value::Null, json!(""), json!("z"), Value::Null, json!(""), json!("z")];
    assert_eq!(*asked.lock().unwrap(), again);
    let (client, _) = refusing(1, expired()).await;
    assert_eq!(names(client.list_tools().all().await.expect("all of it")), ["1", "2", "3"]);
    let (client, _) = refusing(1, expired()).await;
    let mut pages = client.list_tools();
    assert_eq!(pages.next().await.expect("one").expect("a tool").name, "1");
    assert_eq!(names(pages.all().await.expect("the rest")), ["2", "3"]);
    // The second refusal is an error for the caller, and no item was repeated before it.
    let (client, asked) = refusing(2, expired()).await;
    let streamed: Vec<_> = client.list_tools().collect().await;
    assert_eq!(streamed.len(), 3, "{streamed:?}");
    assert!(matches!(streamed[2], Err(ClientError::Call(CallError::Remote(_)))), "{streamed:?}");
    assert_eq!(*asked.lock().unwrap(), again);
    // An error that is unrelated to the cursor is returned at once.
    let (client, asked) = refusing(1, ErrorObject::internal("out of order")).await;
    client.list_tools().all().await.expect_err("out of order");
    assert_eq!(asked.lock().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn every_list_has_pages_and_a_page_that_fails_ends_it() {
    let (client, server) = legacy(builder()).await;
    drop(server.serve(|request| {
        Ok(match request.method {
            Method::ListResources => json!({"resources": [{"uri": "a:b", "name": "n"}]}),
            Method::ListResourceTemplates => {
                json!({"resourceTemplates": [{"uriTemplate": "a:{b}", "name": "n"}]})
            }
            Method::ListPrompts => json!({"prompts": [{"name": "n"}]}),
            _ => json!({"tools": "none"}),
        })
    }));
    assert_eq!(client.list_resources().all().await.expect("a list")[0].uri, "a:b");
    assert_eq!(client.list_resource_templates().all().await.expect("a list")[0].uri_template, "a:{b}");
    assert_eq!(client.list_prompts().all().await.expect("a list")[0].name, "n");
    let mut tools = client.list_tools();
    let error = tools.next().await.expect("an end").expect_err("no list");
    assert!(matches!(error, ClientError::BadResult { method: Method::ListTools, .. }), "{error:?}");
    assert!(tools.next().await.is_none());
}

/// Acknowledges a stream with these filters, and returns the id of the stream.
async fn acknowledge(server: &mut Scripted, honoured: Value) -> (Request, i64) {
    let request = server.expect("subscriptions/listen").await;
    let id = request.id.as_i64().expect("ours");
    server
        .notify("notifications/subscriptions/acknowledged", tagged(id, json!({"notifications": honoured})))
        .await;
    (request, id)
}

fn tagged(id: i64, mut params: Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": id});
    params
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_acknowledged_brings_what_it_honours_and_ends_when_the_server_ends_it() {
    let (builder, mut received) = note_notifications(builder());
    let (client, mut server) = modern(builder).await;
    let filter = SubscriptionFilter::default().with_tools_list_changed(true).with_prompts_list_changed(true);
    let (stream, id) = tokio::join!(client.listen(filter), async {
        let (request, id) = acknowledge(&mut server, json!({"toolsListChanged": true})).await;
        let asked = value(request.params.as_ref())["notifications"].clone();
        assert_eq!(asked, json!({"toolsListChanged": true, "promptsListChanged": true}));
        id
    });
    let mut stream = stream.expect("acknowledged");
    assert_eq!(stream.id().and_then(|id| id.as_i64()), Some(id));
    assert_eq!(stream.acknowledged().tools_list_changed, Some(true));
    assert_eq!(stream.acknowledged().prompts_list_changed, None);

    server.notify("notifications/tools/list_changed", tagged(id, json!({}))).await;
    let told = stream.next().await.expect("open").expect("a notification");
    assert_eq!(told.method, Method::ToolListChanged);
    // A stream has no maximum lifetime.
    tokio::time::advance(std::time::Duration::from_secs(100_000)).await;
    server.notify("notifications/tools/list_changed", tagged(id, json!({}))).await;
    server
        .result(
            id.into(),
            json!({"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": id}}),
        )
        .await;
    assert!(stream.next().await.expect("what came before the end").is_ok());
    assert!(stream.next().await.is_none());
    assert!(stream.next().await.is_none());
    assert_eq!((stream.id(), stream.dropped()), (None, 0));
    drop((stream, client));
    assert!(received.recv().await.is_none(), "what belongs to a stream does not come twice");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_dropped_is_cancelled_and_one_that_is_lost_says_so() {
    let (client, mut server) = modern(builder()).await;
    let (stream, (_, id)) =
        tokio::join!(client.listen(SubscriptionFilter::default()), acknowledge(&mut server, json!({})));
    drop(stream.expect("acknowledged"));
    let cancelled = server.notification().await;
    assert_eq!(cancelled.method, Method::Cancelled);
    assert_eq!(value(cancelled.params.as_ref())["requestId"], id);

    let (stream, _) =
        tokio::join!(client.listen(SubscriptionFilter::default()), acknowledge(&mut server, json!({})));
    let mut stream = stream.expect("acknowledged");
    drop(server);
    assert!(stream.next().await.expect("an end").expect_err("lost").is_fatal());
    assert!(stream.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_never_acknowledged_is_none() {
    let (client, mut server) = modern(builder()).await;
    let (stream, ()) = tokio::join!(client.listen(SubscriptionFilter::default()), async {
        let request = server.expect("subscriptions/listen").await;
        server.result(request.id, json!({"resultType": "complete"})).await;
    });
    assert!(matches!(stream, Err(ClientError::BadResult { method: Method::Listen, .. })), "{stream:?}");
    let timed_out = client.listen(SubscriptionFilter::default()).await.expect_err("silence");
    assert!(timed_out.is_retryable(), "{timed_out:?}");
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_subscribed_to_with_a_request_in_the_legacy_era() {
    let (builder, mut received) = note_notifications(builder());
    let (client, mut server) = legacy(builder).await;
    let (subscribed, ()) = tokio::join!(client.subscribe("a:b"), async {
        let request = server.expect("resources/subscribe").await;
        assert_eq!(value(request.params.as_ref()), json!({"uri": "a:b"}));
        server.result(request.id, json!({})).await;
    });
    subscribed.expect("subscribed");
    server.notify("notifications/resources/updated", json!({"uri": "a:b"})).await;
    assert_eq!(received.recv().await.expect("received").method, Method::ResourceUpdated);
    let (unsubscribed, ()) = tokio::join!(client.unsubscribe("a:b"), async {
        let request = server.expect("resources/unsubscribe").await;
        server.result(request.id, json!({})).await;
    });
    unsubscribed.expect("unsubscribed");
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_subscribed_to_with_a_stream_in_the_modern_era() {
    let (builder, mut received) = note_notifications(builder());
    let (client, mut server) = modern(builder).await;
    let (subscribed, id) = tokio::join!(client.subscribe("a:b"), async {
        let (request, id) = acknowledge(&mut server, json!({"resourceSubscriptions": ["a:b"]})).await;
        assert_eq!(
            value(request.params.as_ref())["notifications"],
            json!({"resourceSubscriptions": ["a:b"]})
        );
        id
    });
    subscribed.expect("subscribed");
    client.subscribe("a:b").await.expect("twice is once");
    server.notify("notifications/resources/updated", tagged(id, json!({"uri": "a:b"}))).await;
    assert_eq!(received.recv().await.expect("received").method, Method::ResourceUpdated);
    client.unsubscribe("a:b").await.expect("unsubscribed");
    let cancelled = server.notification().await;
    assert_eq!(value(cancelled.params.as_ref())["requestId"], id);

    let (refused, _) = tokio::join!(client.subscribe("a:c"), acknowledge(&mut server, json!({})));
    assert_eq!(refused.expect_err("not honoured"), ClientError::NotHonoured { uri: "a:c".into() });
    assert_eq!(server.notification().await.method, Method::Cancelled);

    // The stream lives as long as the client, and does not keep it alive.
    let (subscribed, _) = tokio::join!(
        client.subscribe("a:d"),
        acknowledge(&mut server, json!({"resourceSubscriptions": ["a:d"]}))
    );
    subscribed.expect("subscribed");
    drop(client);
    while server.message().await.is_some() {}
    assert!(received.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn legacy_notifications_are_received_without_a_subscription() {
    let (builder, mut received) = note_notifications(builder());
    let (client, mut server) = legacy(builder).await;
    let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
        let request = server.expect("tools/call").await;
        server.notify("notifications/message", json!({"level": "info", "data": {"a": 1}})).await;
        server.notify("notifications/tools/list_changed", json!({})).await;
        server.result(request.id, text("ok")).await;
    });
    result.expect("a result");
    assert_eq!(received.recv().await.expect("received").method, Method::LogMessage);
    assert_eq!(received.recv().await.expect("received").method, Method::ToolListChanged);
}
