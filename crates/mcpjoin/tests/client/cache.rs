//! Tests of the client's cache of results: how long an entry is valid, which clients may share it, and what invalidates it.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching>

use mcpjoin_test_support::scripted;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use mcpjoin::client::{Cache, Client, ClientBuilder, Restart};
use mcpjoin::proto::types::{Meta, PageParams, Root, SubscriptionFilter};
use mcpjoin::proto::{ErrorObject, Message, Method, Notification, Payload, Raw, Request, Response};
use scripted::{Scripted, builder, legacy, raw, value};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::time::advance;

/// A server's response to a request: a JSON text, or an error.
type Answer = Result<String, ErrorObject>;

/// A server that answers every request by a function and logs the requests.
struct Server {
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    tell: UnboundedSender<(&'static str, Value)>,
}

impl Server {
    /// The methods of the requests since the previous call of this function.
    fn asked(&self) -> Vec<String> {
        self.asked_with().into_iter().map(|(method, _)| method).collect()
    }

    /// The same, with the parameters of each request.
    fn asked_with(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.asked.lock().expect("nobody panics with it"))
    }

    /// Sends a notification on the open stream, and waits until the client has handled it.
    async fn tell(&self, client: &Client, method: &'static str, params: Value) {
        self.tell.send((method, params)).expect("the server is there");
        client.ping().await.expect("what comes after it");
        self.asked();
    }
}

/// A client of 2026-07-28 and its server, which describes itself with this `server/discover` result.
async fn connect_as(
    builder: ClientBuilder,
    info: Value,
    mut answer: impl FnMut(&Request) -> Answer + Send + 'static,
) -> (Client, Server) {
    let (link, mut server) = Scripted::pair();
    let discovered = json!({
        "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "supportedVersions": ["2026-07-28"],
        "capabilities": server.capabilities, "_meta": {"io.modelcontextprotocol/serverInfo": info},
    });
    let (tell, mut told) = mpsc::unbounded_channel::<(&'static str, Value)>();
    let asked: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let log = asked.clone();
    tokio::spawn(async move {
        let mut stream = None;
        loop {
            let request = tokio::select! {
                biased;
                Some((method, mut params)) = told.recv() => {
                    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": stream});
                    server.notify(method, params).await;
                    continue;
                }
                message = server.message() => match message {
                    Some(Message::Request(request)) => request,
                    Some(_) => continue,
                    None => return,
                },
            };
            let params = value(request.params.as_ref());
            log.lock()
                .expect("nobody panics with it")
                .push((request.method.as_str().to_owned(), params.clone()));
            let said = match request.method {
                Method::Listen => {
                    stream = request.id.as_i64();
                    let meta = json!({"io.modelcontextprotocol/subscriptionId": stream});
                    let honoured = json!({"notifications": params["notifications"], "_meta": meta});
                    server.notify("notifications/subscriptions/acknowledged", honoured).await;
                    continue;
                }
                Method::Discover if stream.is_some() || log_is_opening(&log) => Ok(discovered.to_string()),
                _ => answer(&request),
            };
            let outcome = said.map(|text| Payload::from_raw(Raw::parse(text).expect("JSON")));
            server.send(Response { id: Some(request.id), outcome }).await;
        }
    });
    let client = builder.connect(link).await.expect("connects");
    let server = Server { asked, tell };
    server.asked();
    (client, server)
}

/// Whether the client has sent only the opening requests so far.
fn log_is_opening(log: &Mutex<Vec<(String, Value)>>) -> bool {
    log.lock().expect("nobody panics with it").len() == 1
}

async fn connect(
    builder: ClientBuilder,
    answer: impl FnMut(&Request) -> Answer + Send + 'static,
) -> (Client, Server) {
    connect_as(builder, json!({"name": "scripted", "version": "1"}), answer).await
}

/// A result for any cacheable method, with these cache hints.
fn result(method: &Method, hints: &Value) -> Value {
    let mut result = match method {
        Method::ListTools => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
        Method::ListPrompts => json!({"prompts": [{"name": "p"}]}),
        Method::ListResources => json!({"resources": [{"uri": "a:b", "name": "r"}]}),
        Method::ListResourceTemplates => {
            json!({"resourceTemplates": [{"uriTemplate": "a:{b}", "name": "t"}]})
        }
        Method::ReadResource => json!({"contents": [{"uri": "a:b", "text": "x"}]}),
        Method::Discover => json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}),
        Method::GetPrompt => json!({"messages": []}),
        Method::Complete => json!({"completion": {"values": []}}),
        _ => json!({"content": []}),
    };
    result["resultType"] = json!("complete");
    for (key, hint) in hints.as_object().expect("hints") {
        result[key] = hint.clone();
    }
    result
}

/// Answers every request with these cache hints.
fn hinting(hints: Value) -> impl FnMut(&Request) -> Answer + Send + 'static {
    move |request| Ok(result(&request.method, &hints).to_string())
}

fn fresh(millis: i64) -> Value {
    json!({"ttlMs": millis, "cacheScope": "public"})
}

const LIST: [&str; 1] = ["tools/list"];
const NOTHING: [&str; 0] = [];

async fn list(client: &Client) -> usize {
    client.list_tools().all().await.expect("a list").len()
}

#[tokio::test(start_paused = true)]
async fn a_result_is_given_again_until_its_time_is_over() {
    let (client, server) = connect(builder(), hinting(fresh(1000))).await;
    assert_eq!((list(&client).await, server.asked()), (1, LIST.map(String::from).to_vec()));
    advance(Duration::from_millis(999)).await;
    assert_eq!((list(&client).await, server.asked().len()), (1, 0), "fresh while now < received + ttlMs");
    advance(Duration::from_millis(1)).await;
    assert_eq!(
        (list(&client).await, server.asked()),
        (1, LIST.map(String::from).to_vec()),
        "stale on the dot"
    );
    assert_eq!((list(&client).await, server.asked().len()), (1, 0), "fresh again");
}

#[tokio::test(start_paused = true)]
async fn without_a_positive_hint_nothing_is_kept() {
    for hints in [json!({}), json!({"cacheScope": "public"}), fresh(0), fresh(-1), fresh(i64::MIN)] {
        let (client, server) = connect(builder(), hinting(hints.clone())).await;
        list(&client).await;
        list(&client).await;
        assert_eq!(server.asked(), ["tools/list", "tools/list"], "{hints}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_largest_hint_counts_as_a_day() {
    let (client, server) = connect(builder(), hinting(fresh(i64::MAX))).await;
    list(&client).await;
    advance(Duration::from_secs(24 * 60 * 60 - 1)).await;
    list(&client).await;
    assert_eq!(server.asked(), LIST);
    advance(Duration::from_secs(1)).await;
    list(&client).await;
    assert_eq!(server.asked(), LIST);
}

#[tokio::test(start_paused = true)]
async fn time_runs_from_the_arrival_and_not_from_the_first_poll() {
    let (client, server) = connect(builder(), hinting(fresh(1000))).await;
    let mut read = client.read_resource("a:b");
    assert!(scripted::poll_once(&mut read).is_pending());
    // The response arrives, and the caller does not poll for it.
    client.ping().await.expect("an answer behind it");
    advance(Duration::from_millis(600)).await;
    read.await.expect("a result");
    server.asked();
    advance(Duration::from_millis(399)).await;
    client.read_resource("a:b").await.expect("a result");
    assert_eq!(server.asked(), NOTHING);
    advance(Duration::from_millis(1)).await;
    client.read_resource("a:b").await.expect("a result");
    assert_eq!(server.asked(), ["resources/read"]);
}

/// Sends every request whose result can be cached.
async fn ask_all(client: &Client) {
    client.list_tools().all().await.expect("tools");
    client.list_prompts().all().await.expect("prompts");
    client.list_resources().all().await.expect("resources");
    client.list_resource_templates().all().await.expect("templates");
    client.read_resource("a:b").await.expect("contents");
    client.discover().await.expect("the server");
}

const ALL: [&str; 6] = [
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "server/discover",
];

#[tokio::test(start_paused = true)]
async fn six_methods_are_kept_and_no_others() {
    let (client, server) = connect(builder(), hinting(fresh(1000))).await;
    ask_all(&client).await;
    assert_eq!(server.asked(), ALL);
    ask_all(&client).await;
    // A request for the first page alone has the same cache entry.
    let page = PageParams::new();
    client.list_tools().page(page.clone()).await.expect("tools");
    client.list_prompts().page(page.clone()).await.expect("prompts");
    client.list_resources().page(page.clone()).await.expect("resources");
    client.list_resource_templates().page(page).await.expect("templates");
    assert_eq!(server.asked(), NOTHING);
    for _ in 0..2 {
        client.call_tool("t", ()).await.expect("a result");
        client.get_prompt("p", ()).await.expect("a prompt");
        client.ping().await.expect("it lives");
    }
    let others = ["tools/call", "prompts/get", "server/discover"];
    assert_eq!(server.asked(), [others, others].concat(), "a ping that asks nobody would be none");
}

#[tokio::test(start_paused = true)]
async fn other_parameters_are_another_question() {
    let (client, server) = connect(builder(), hinting(fresh(1000))).await;
    let page = |cursor: Option<&str>| {
        let mut params = PageParams::new();
        params.cursor = cursor.map(str::to_owned);
        params
    };
    let meta = |key: &str| Meta::default().with(key, raw(&json!("v")));
    let ask = async || {
        for cursor in [None, Some(""), Some("a")] {
            client.list_tools().page(page(cursor)).await.expect("a page");
        }
        client.read_resource("a:b").await.expect("contents");
        client.read_resource("a:c").await.expect("contents");
        client.read_resource("a:b").meta(meta("example.org/language")).await.expect("contents");
        server.asked().len()
    };
    assert_eq!(ask().await, 6);
    assert_eq!(ask().await, 0);
    // Metadata for tracing does not change the result.
    client.read_resource("a:b").meta(meta("traceparent")).await.expect("contents");
    assert_eq!(server.asked(), NOTHING);
}

/// Serves a list in pages: the items, the next cursor, and the cache hints of each.
fn paged(
    mut page: impl FnMut(Option<&str>) -> Result<(&'static [u32], Option<&'static str>, Value), ErrorObject>
    + Send
    + 'static,
) -> impl FnMut(&Request) -> Answer + Send + 'static {
    move |request| {
        let params = value(request.params.as_ref());
        let (names, next, hints) = page(params["cursor"].as_str())?;
        let mut result = result(&request.method, &hints);
        result["tools"] = names
            .iter()
            .map(|name| json!({"name": name.to_string(), "inputSchema": {"type": "object"}}))
            .collect();
        if let Some(next) = next {
            result["nextCursor"] = json!(next);
        }
        Ok(result.to_string())
    }
}

async fn names(client: &Client) -> String {
    let tools = client.list_tools().all().await.expect("a list");
    tools.into_iter().map(|tool| tool.name).collect()
}

fn cursors(server: &Server) -> Vec<Value> {
    server.asked_with().into_iter().map(|(_, params)| params["cursor"].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn each_page_is_fresh_for_itself_and_asked_for_with_its_cursor() {
    let (client, server) = connect(
        builder(),
        paged(|cursor| {
            Ok(match cursor {
                None => (&[1], Some("b"), fresh(3000)),
                Some("b") => (&[2], Some("c"), fresh(1000)),
                _ => (&[3], None, fresh(2000)),
            })
        }),
    )
    .await;
    assert_eq!(names(&client).await, "123");
    assert_eq!(cursors(&server), [Value::Null, json!("b"), json!("c")]);
    assert_eq!(names(&client).await, "123");
    assert_eq!(cursors(&server).len(), 0);
    advance(Duration::from_millis(1500)).await;
    assert_eq!(names(&client).await, "123");
    assert_eq!(cursors(&server), [json!("b")]);
    advance(Duration::from_millis(500)).await;
    assert_eq!(names(&client).await, "123");
    assert_eq!(cursors(&server), [json!("c")]);
    advance(Duration::from_millis(1000)).await;
    assert_eq!(names(&client).await, "123");
    assert_eq!(cursors(&server), [Value::Null, json!("b")]);
}

/// A list whose cursor is refused at its second use, because the list has changed meanwhile.
fn changing() -> impl FnMut(&Request) -> Answer + Send + 'static {
    let mut lists = 0;
    let mut used = 0;
    paged(move |cursor| match cursor {
        None => {
            lists += 1;
            Ok(if lists == 1 { (&[1], Some("old"), fresh(9000)) } else { (&[4], Some("new"), fresh(9000)) })
        }
        Some("old") => {
            used += 1;
            if used == 1 {
                Ok((&[2], None, fresh(1000)))
            } else {
                Err(ErrorObject::invalid_params("unknown cursor"))
            }
        }
        Some(_) => Ok((&[5], None, fresh(9000))),
    })
}

#[tokio::test(start_paused = true)]
async fn a_cursor_from_memory_that_is_refused_begins_the_list_again() {
    let (client, server) = connect(builder(), changing()).await;
    assert_eq!(names(&client).await, "12");
    advance(Duration::from_secs(2)).await;
    server.asked();
    assert_eq!(names(&client).await, "45", "and nothing of the list before");
    assert_eq!(cursors(&server), [json!("old"), Value::Null, json!("new")]);
    assert_eq!(names(&client).await, "45");
    assert_eq!(cursors(&server).len(), 0);

    // Items that the caller already has cannot be withdrawn, and are not given a second time.
    let (client, server) = connect(builder(), changing()).await;
    assert_eq!(names(&client).await, "12");
    advance(Duration::from_secs(2)).await;
    let told: Vec<_> = client.list_tools().collect().await;
    let told: String = told.into_iter().map(|tool| tool.expect("a tool").name).collect();
    assert_eq!(told, "145");
    server.asked();
    assert_eq!(names(&client).await, "45");
    assert_eq!(cursors(&server).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_that_is_refused_twice_is_an_error_and_leaves_nothing_remembered() {
    let refuse = paged(|cursor| match cursor {
        None => Ok((&[1], Some("b"), fresh(1000))),
        Some(_) => Err(ErrorObject::invalid_params("unknown cursor")),
    });
    let (client, server) = connect(builder(), refuse).await;
    client.list_tools().all().await.expect_err("never a second page");
    assert_eq!(cursors(&server), [Value::Null, json!("b"), Value::Null, json!("b")], "begun again once");
    let mut second = PageParams::new();
    second.cursor = Some("b".into());
    list_first(&client).await;
    server.asked();
    client.list_tools().page(second).await.expect_err("refused");
    list_first(&client).await;
    assert_eq!(cursors(&server), [json!("b"), Value::Null], "the first page is forgotten with it");
}

async fn list_first(client: &Client) {
    client.list_tools().page(PageParams::new()).await.expect("a first page");
}

fn everything() -> SubscriptionFilter {
    SubscriptionFilter::default()
        .with_tools_list_changed(true)
        .with_prompts_list_changed(true)
        .with_resources_list_changed(true)
        .with_resource_subscriptions(vec!["a:b".into()])
}

#[tokio::test(start_paused = true)]
async fn a_notification_makes_stale_what_it_is_about_and_nothing_else() {
    let (client, server) = connect(builder(), hinting(fresh(100_000))).await;
    // The caller does not read the events of the stream.
    let _stream = client.listen(everything()).await.expect("a stream");
    let ask = async || {
        client.list_tools().all().await.expect("tools");
        client.list_prompts().all().await.expect("prompts");
        client.list_resources().all().await.expect("resources");
        client.list_resource_templates().all().await.expect("templates");
        client.read_resource("a:b").await.expect("contents");
        server.asked()
    };
    ask().await;
    for (method, params, stale) in [
        ("notifications/tools/list_changed", json!({}), &["tools/list"][..]),
        ("notifications/prompts/list_changed", json!({}), &["prompts/list"]),
        ("notifications/resources/list_changed", json!({}), &["resources/list", "resources/templates/list"]),
        ("notifications/resources/updated", json!({"uri": "a:b"}), &["resources/read"]),
        ("notifications/resources/updated", json!({"uri": "a:b/below"}), &["resources/read"]),
        ("notifications/resources/updated", json!({"uri": "a:b?page=2"}), &["resources/read"]),
        ("notifications/resources/updated", json!({"uri": "a:b#top"}), &["resources/read"]),
        ("notifications/resources/updated", json!({"uri": "a:bc"}), &[]),
        ("notifications/resources/updated", json!({"uri": "a:other"}), &[]),
    ] {
        server.tell(&client, method, params.clone()).await;
        assert_eq!(ask().await, stale, "{method} {params}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_before_a_change_is_not_kept_after_it() {
    let cache = Cache::new();
    let (client, server) = connect(builder().cache(cache.clone()), hinting(fresh(100_000))).await;
    let _stream = client.listen(everything()).await.expect("a stream");
    for (method, params) in [
        ("notifications/resources/updated", json!({"uri": "a:b"})),
        // The client does not know which resources contain which others.
        ("notifications/resources/updated", json!({"uri": "a:other"})),
    ] {
        let mut read = client.read_resource("a:b");
        assert!(scripted::poll_once(&mut read).is_pending());
        server.tell(&client, method, params).await;
        read.await.expect("contents");
        client.read_resource("a:b").await.expect("contents");
        assert_eq!(server.asked(), ["resources/read"]);
        cache.clear();
    }
    let mut read = client.read_resource("a:b");
    assert!(scripted::poll_once(&mut read).is_pending());
    cache.clear();
    read.await.expect("contents");
    assert!(cache.is_empty(), "cleared while it was under way");
}

#[tokio::test(start_paused = true)]
async fn what_depended_on_answers_is_not_kept() {
    let (client, server) = connect(builder().roots(vec![Root::new("file:///a")]), move |request| {
        let params = value(request.params.as_ref());
        Ok(if params["inputResponses"].is_null() {
            json!({"resultType": "input_required", "requestState": "s", "ttlMs": 9000, "cacheScope": "public",
                "inputRequests": {"r": {"method": "roots/list"}}})
            .to_string()
        } else {
            result(&request.method, &fresh(9000)).to_string()
        })
    })
    .await;
    for _ in 0..2 {
        client.read_resource("a:b").await.expect("contents");
        assert_eq!(server.asked(), ["resources/read", "resources/read"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_for_everybody_is_shared_and_nothing_else() {
    let share = async |scope: &str, first: Option<&str>, second: Option<&str>| {
        let cache = Cache::new();
        let hints = json!({"ttlMs": 1000, "cacheScope": scope});
        let builder = |partition: Option<&str>| match partition {
            Some(partition) => builder().cache(cache.clone()).cache_partition(partition),
            None => builder().cache(cache.clone()),
        };
        let (one, server) = connect(builder(first), hinting(hints.clone())).await;
        ask_all(&one).await;
        ask_all(&one).await;
        assert_eq!(server.asked(), ALL, "its own are always known");
        let (other, server) = connect(builder(second), hinting(hints)).await;
        ask_all(&other).await;
        server.asked().is_empty()
    };
    assert!(share("public", None, None).await);
    assert!(share("public", Some("ada"), Some("bob")).await);
    assert!(!share("private", None, None).await, "nobody knows whose they are");
    assert!(!share("private", Some("ada"), None).await);
    assert!(!share("private", Some("ada"), Some("bob")).await);
    assert!(share("private", Some("ada"), Some("ada")).await);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_say_for_whom_it_is_is_private() {
    let cache = Cache::new();
    let (one, _server) = connect(builder().cache(cache.clone()), hinting(json!({"ttlMs": 1000}))).await;
    list(&one).await;
    assert_eq!(cache.len(), 1);
    let (other, server) = connect(builder().cache(cache), hinting(fresh(1000))).await;
    list(&other).await;
    assert_eq!(server.asked(), LIST);
}

#[tokio::test(start_paused = true)]
async fn a_page_after_a_private_one_is_private_too() {
    let private = || json!({"ttlMs": 1000, "cacheScope": "private"});
    let pages = move || {
        paged(move |cursor| {
            Ok(match cursor {
                None => (&[1], Some("b"), private()),
                Some(_) => (&[2], None, fresh(1000)),
            })
        })
    };
    let cache = Cache::new();
    let (one, server) = connect(builder().cache(cache.clone()), pages()).await;
    names(&one).await;
    names(&one).await;
    assert_eq!(server.asked().len(), 2);
    let (other, server) = connect(builder().cache(cache.clone()), pages()).await;
    assert_eq!(names(&other).await, "12");
    assert_eq!(server.asked().len(), 2, "the second page is as private as the first one");
    // Only a later page is requested: the client does not know whether the first page is private.
    let cache = Cache::new();
    let mut second = PageParams::new();
    second.cursor = Some("b".into());
    for _ in 0..2 {
        let (client, server) = connect(builder().cache(cache.clone()), pages()).await;
        client.list_tools().page(second.clone()).await.expect("a page");
        client.list_tools().page(second.clone()).await.expect("a page");
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_becomes_private_is_not_given_to_others_any_more() {
    let mut times = 0;
    let cache = Cache::new();
    let (one, _server) = connect(builder().cache(cache.clone()), move |request| {
        times += 1;
        let scope = if times == 1 { "public" } else { "private" };
        Ok(result(&request.method, &json!({"ttlMs": 1000, "cacheScope": scope})).to_string())
    })
    .await;
    list(&one).await;
    list(&one.uncached()).await;
    let (other, server) = connect(builder().cache(cache), hinting(fresh(1000))).await;
    list(&other).await;
    assert_eq!(server.asked(), LIST);
}

#[tokio::test(start_paused = true)]
async fn another_server_and_a_client_that_can_do_more_find_nothing() {
    let cache = Cache::new();
    let info = |version: &str| json!({"name": "scripted", "version": version});
    let ask = async |builder: ClientBuilder, version: &str| {
        let builder = builder.cache(cache.clone()).cache_partition("ada");
        let (client, server) = connect_as(builder, info(version), hinting(fresh(1000))).await;
        list(&client).await;
        server.asked().len()
    };
    assert_eq!(ask(builder(), "1").await, 1);
    assert_eq!(ask(builder(), "1").await, 0);
    assert_eq!(ask(builder(), "2").await, 1, "another version of the program");
    assert_eq!(
        ask(builder().roots(Vec::new()), "1").await,
        1,
        "a server may offer more to a client that can do more"
    );
    assert_eq!(ask(Client::builder("other", "9"), "1").await, 0, "names are for display");
}

#[tokio::test(start_paused = true)]
async fn the_least_recently_used_go_when_there_is_no_room() {
    let cache = Cache::with_bounds(3, 1 << 20);
    let (client, server) = connect(builder().cache(cache.clone()), hinting(fresh(100_000))).await;
    let read = async |uri: &str| {
        client.read_resource(uri).await.expect("contents");
        server.asked().len()
    };
    for uri in ["a:1", "a:2", "a:3"] {
        assert_eq!(read(uri).await, 1);
    }
    assert_eq!((read("a:1").await, cache.len()), (0, 3));
    assert_eq!((read("a:4").await, cache.len()), (1, 3));
    assert_eq!([read("a:1").await, read("a:3").await, read("a:4").await], [0, 0, 0]);
    assert_eq!(read("a:2").await, 1, "used least recently");
    cache.clear();
    assert_eq!((cache.len(), cache.bytes()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_cache_has_a_bound_in_bytes() {
    let text = "x".repeat(10_000);
    let long = move |request: &Request| {
        let uri = value(request.params.as_ref())["uri"].clone();
        let text = if uri == "a:large" { text.repeat(4) } else { text.clone() };
        let mut result = result(&request.method, &fresh(100_000));
        result["contents"] = json!([{"uri": uri, "text": text}]);
        Ok(result.to_string())
    };
    let cache = Cache::with_bounds(100, 32_000);
    let (client, server) = connect(builder().cache(cache.clone()), long).await;
    for place in 0..10 {
        client.read_resource(format!("a:{place}")).await.expect("contents");
        assert!(cache.bytes() <= 32_000, "{}", cache.bytes());
    }
    assert_eq!(cache.len(), 3);
    client.read_resource("a:large").await.expect("contents");
    assert_eq!(cache.len(), 3, "larger than the cache: it drives nothing out");
    server.asked();
    client.read_resource("a:9").await.expect("contents");
    client.read_resource("a:large").await.expect("contents");
    assert_eq!(server.asked(), ["resources/read"]);
    for bounds in [(0, 1 << 20), (10, 0)] {
        let cache = Cache::with_bounds(bounds.0, bounds.1);
        let (client, _server) = connect(builder().cache(cache.clone()), hinting(fresh(1000))).await;
        list(&client).await;
        assert!(cache.is_empty(), "{bounds:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_wants_no_cache_has_none_and_anew_asks_and_is_remembered() {
    let (client, server) = connect(builder().no_cache(), hinting(fresh(1000))).await;
    ask_all(&client).await;
    ask_all(&client).await;
    assert_eq!(server.asked(), [ALL, ALL].concat());

    let mut times = 0;
    let (client, server) = connect(builder(), move |request| {
        times += 1;
        let mut result = result(&request.method, &fresh(1000));
        result["tools"][0]["name"] = json!(times.to_string());
        Ok(result.to_string())
    })
    .await;
    assert_eq!([names(&client).await, names(&client).await], ["1", "1"]);
    assert_eq!([names(&client.uncached()).await, names(&client).await], ["2", "2"]);
    assert_eq!(server.asked(), ["tools/list", "tools/list"]);
}

#[tokio::test(start_paused = true)]
async fn older_revisions_have_no_hints_and_nothing_of_them_is_kept() {
    let cache = Cache::new();
    let (client, server) = legacy(builder().cache(cache.clone())).await;
    let asked = Arc::new(Mutex::new(0));
    let count = asked.clone();
    drop(server.serve(move |request| {
        *count.lock().expect("nobody panics with it") += 1;
        Ok(result(&request.method, &fresh(1000)))
    }));
    list(&client).await;
    list(&client).await;
    assert_eq!((*asked.lock().expect("nobody panics with it"), cache.len()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn what_comes_from_memory_is_what_came_over_the_wire_byte_for_byte() {
    let text = concat!(
        r#"{ "z":1.50, "contents" : [ {"uri":"a:b","text":"\u00e4\/", "n":123456789012345678901234567890}],"#,
        r#""resultType":"complete","ttlMs":1000,"cacheScope":"private"  }"#
    );
    let (client, server) = connect(builder(), move |_| Ok(text.into())).await;
    let came = client.read_resource("a:b").raw().await.expect("a result");
    assert_eq!(came.as_str(), text);
    let again = client.read_resource("a:b").raw().await.expect("a result");
    assert_eq!((again.as_str(), server.asked().len()), (text, 1));

    // The schema of a tool is kept exactly too: the order of keys, the text of numbers, unknown annotations.
    let schema = concat!(
        r#"{"$schema":"https://json-schema.org/draft/2020-12/schema", "type":"object","z":0,"#,
        r#""properties":{"n":{"type":"number","maximum":1E400,"x-y":[1.0]}},"$defs":{"a":true}}"#
    );
    let tools = format!(
        r#"{{"tools":[{{"name":"t","inputSchema":{schema},"outputSchema":{schema}}}],"resultType":"complete","ttlMs":1000,"cacheScope":"public"}}"#
    );
    let (client, server) = connect(builder(), move |_| Ok(tools.clone())).await;
    for _ in 0..2 {
        let tool = client.list_tools().all().await.expect("a list").remove(0);
        assert_eq!(tool.input_schema.as_str(), schema);
        assert_eq!(tool.output_schema.expect("a schema").as_str(), schema);
    }
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn two_that_ask_at_once_are_both_answered() {
    let (client, server) = connect(builder(), hinting(fresh(1000))).await;
    let (one, other) = tokio::join!(list(&client), list(&client));
    assert_eq!((one, other), (1, 1));
    assert_eq!(server.asked().len(), 2, "neither waits for the other");
    list(&client).await;
    assert_eq!(server.asked(), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_result_of_its_method_is_not_kept() {
    let mut times = 0;
    let (client, server) = connect(builder(), move |request| {
        times += 1;
        let mut result = result(&request.method, &fresh(1000));
        if times < 4 {
            result["contents"] = json!("none");
            result["tools"] = json!(7);
        }
        Ok(result.to_string())
    })
    .await;
    client.read_resource("a:b").raw().await.expect("whatever came");
    client.list_tools().all().await.expect_err("no list");
    client.list_tools().page(PageParams::new()).await.expect_err("no list");
    client.read_resource("a:b").await.expect("contents");
    list(&client).await;
    assert_eq!(server.asked().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_closed_gives_nothing_from_memory() {
    let (client, server) = connect(builder(), hinting(fresh(100_000))).await;
    ask_all(&client).await;
    client.close().await;
    assert_eq!(server.asked().len(), 6);
    assert!(client.list_tools().all().await.expect_err("closed").is_fatal());
    assert!(client.read_resource("a:b").await.expect_err("closed").is_fatal());
    assert!(client.discover().await.expect_err("closed").is_fatal());
}

/// Restarts a server, each time with the next of these versions, and returns the number of requests of each run.
async fn runs(builder: ClientBuilder, versions: &'static [&'static str]) -> Vec<usize> {
    let asked: Arc<Mutex<Vec<usize>>> = Arc::default();
    let log = asked.clone();
    let ended: Arc<tokio::sync::Notify> = Arc::default();
    let end = ended.clone();
    let start = move || {
        let (link, mut server) = Scripted::pair();
        let (log, end) = (log.clone(), end.clone());
        let run = {
            let mut log = log.lock().expect("nobody panics with it");
            log.push(0);
            log.len() - 1
        };
        tokio::spawn(async move {
            loop {
                let message = tokio::select! {
                    message = server.message() => message,
                    () = end.notified() => return,
                };
                let Some(Message::Request(request)) = message else { return };
                let said = if request.method == Method::Discover {
                    json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                        "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
                        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": versions[run]}}})
                } else {
                    log.lock().expect("nobody panics with it")[run] += 1;
                    result(&request.method, &fresh(100_000))
                };
                server.result(request.id, said).await;
            }
        });
        std::future::ready(Ok::<_, std::io::Error>(link))
    };
    let restarting = builder.restarting(Restart::default(), start).await.expect("starts");
    let mut runs = restarting.runs();
    for place in 0..versions.len() {
        let client = runs.next().await.expect("a run");
        list(&client).await;
        list(&client).await;
        if place + 1 < versions.len() {
            ended.notify_one();
        }
    }
    restarting.close().await;
    std::mem::take(&mut *asked.lock().expect("nobody panics with it"))
}

#[tokio::test(start_paused = true)]
async fn a_run_begins_with_nothing_unless_its_cache_is_shared_and_its_server_the_same() {
    assert_eq!(runs(builder(), &["1", "1"]).await, [1, 1], "a cache of its own is that of one run");
    let shared = || builder().cache(Cache::new());
    assert_eq!(runs(shared(), &["1", "1", "2"]).await, [1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_notification_that_belongs_to_no_stream_is_received_too() {
    let cache = Cache::new();
    let (modern, _server) = connect(builder().cache(cache.clone()), hinting(fresh(100_000))).await;
    ask_all(&modern).await;
    let known = cache.len();
    // A client of an older revision caches nothing, but still receives change notifications.
    let (client, mut server) = legacy(builder().cache(cache.clone())).await;
    server.send(Notification { method: Method::ToolListChanged, params: None }).await;
    let served = server.serve(|request| Ok(result(&request.method, &json!({}))));
    client.ping().await.expect("an answer behind it");
    assert_eq!(cache.len(), known - 1);
    drop(served);
}
