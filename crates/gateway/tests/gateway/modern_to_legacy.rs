//! Tests of a client that speaks only the modern era in front of a server that speaks only the legacy era.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::client::ClientBuilder;
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::session::{EraChoice, Limits};
use mcpjoin::proto::types::{
    CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitParams, ElicitResult,
    ElicitUrlParams, ElicitationSchema, LoggingLevel, Members, Resource, Role, Root, SamplingMessage,
    SubscriptionFilter, TextContent,
};
use mcpjoin::proto::{Era, ErrorObject, Method, Raw, Version};
use mcpjoin::server::{Context, HandlerError, NoArguments, ServerBuilder, tool};
use mcpjoin::{Client, Link, Server};
use mcpjoin_gateway::{Gateway, GatewayBuilder};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::sync::mpsc;

/// The revisions that open with a handshake.
const LEGACY: [Version; 4] =
    [Version::V2024_11_05, Version::V2025_03_26, Version::V2025_06_18, Version::V2025_11_25];

/// Runs a test in virtual time. Ten hours count as a hang.
fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(36_000), test).await.expect("the test hangs");
    });
}

// ---- a server of this library ----

fn form(message: &str) -> ElicitFormParams {
    ElicitFormParams::new(message, ElicitationSchema::new(Members::new()))
}

fn message() -> CreateMessageParams {
    CreateMessageParams::new(vec![SamplingMessage::new(Role::User, TextContent::new("hm"))], 10)
}

/// Sends a text when it is dropped.
struct Ends(mpsc::UnboundedSender<&'static str>, &'static str);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

/// A server that asks in every way, and a channel that receives the starts and ends of its handlers.
fn tools(server: ServerBuilder) -> (ServerBuilder, mpsc::UnboundedReceiver<&'static str>) {
    let (tells, told) = mpsc::unbounded_channel();
    let (stays, asks) = (tells.clone(), tells);
    let server = server
        .logging()
        .subscriptions()
        .dynamic_tools()
        .resource(Resource::new("x://1", "1"), |_, cx: Context| async move {
            let answer = cx.elicit(form("For the resource?")).await?;
            Ok::<_, HandlerError>(answer.action.as_str().to_owned())
        })
        .tool(tool("plain"), |_: NoArguments, _| async { "plain" })
        .tool(tool("form"), |_: NoArguments, cx: Context| async move {
            let answer = cx.elicit(form("Sure?")).await?;
            Ok::<_, HandlerError>(answer.action.as_str().to_owned())
        })
        .tool(tool("page"), |_: NoArguments, cx: Context| async move {
            let answer = cx.elicit(ElicitUrlParams::new("Pay", "https://example.org/pay")).await?;
            Ok::<_, HandlerError>(answer.action.as_str().to_owned())
        })
        .tool(tool("sample"), |_: NoArguments, cx: Context| async move {
            Ok::<_, HandlerError>(cx.sample(message()).await?.model)
        })
        .tool(tool("roots"), |_: NoArguments, cx: Context| async move {
            Ok::<_, HandlerError>(cx.list_roots().await?.roots[0].uri.clone())
        })
        .tool(tool("both"), |_: NoArguments, cx: Context| async move {
            let (model, roots) = tokio::join!(cx.sample(message()), cx.list_roots());
            Ok::<_, HandlerError>(format!("{} {}", model?.model, roots?.roots[0].uri))
        })
        .tool(tool("ten"), |_: NoArguments, cx: Context| async move {
            let mut said = Vec::new();
            for number in 1..=10 {
                said.push(cx.elicit(form(&number.to_string())).await?.action.as_str().to_owned());
            }
            Ok::<_, HandlerError>(said.join(" "))
        })
        .tool(tool("says"), |_: NoArguments, cx: Context| async move {
            cx.log(LoggingLevel::Debug, "debug");
            cx.log(LoggingLevel::Error, "error");
            cx.progress(1.0, Some(2.0), Some("half"));
            cx.elicit(form("Sure?")).await?;
            cx.log(LoggingLevel::Error, "after");
            cx.progress(2.0, Some(2.0), None);
            Ok::<_, HandlerError>("said")
        })
        .tool(tool("stays"), move |_: NoArguments, _| {
            let ends = Ends(stays.clone(), "stayed");
            let _ = stays.send("stays");
            async move {
                let _ends = ends;
                std::future::pending::<String>().await
            }
        })
        .tool(tool("asks"), move |_: NoArguments, cx: Context| {
            let ends = Ends(asks.clone(), "asked");
            async move {
                let _ends = ends;
                match cx.elicit(form("Sure?")).await {
                    Ok(answer) => Ok(answer.action.as_str().to_owned()),
                    Err(error) => Err(HandlerError::new(format!("not answered: {error}"))),
                }
            }
        });
    (server, told)
}

fn server(version: Version) -> Server {
    tools(Server::builder("s", "1").versions([version])).0.build().unwrap()
}

fn gateway(server: &Server) -> GatewayBuilder {
    let server = server.clone();
    Gateway::builder(move || {
        let (ours, theirs) = Link::memory();
        server.connect(theirs);
        async { Ok::<_, std::io::Error>(ours) }
    })
}

// ---- a client of this library ----

fn modern() -> ClientBuilder {
    Client::builder("c", "1").era(EraChoice::Only(Era::Modern))
}

/// A client that answers everything.
fn able() -> ClientBuilder {
    modern()
        .roots(vec![Root::new("file:///home")])
        .sampling(async |_| Ok(CreateMessageResult::new(Role::Assistant, TextContent::new("hm"), "model")))
        .elicitation(async |params| {
            Ok(ElicitResult::new(match params {
                ElicitParams::Form(params) if params.message == "no" => ElicitAction::Decline,
                _ => ElicitAction::Accept,
            }))
        })
        .elicitation_url(true)
}

async fn connect(gateway: &Gateway, client: ClientBuilder) -> Client {
    let (ours, theirs) = Link::memory();
    let gateway = gateway.clone();
    tokio::spawn(async move { gateway.serve(theirs).await });
    client.connect(ours).await.unwrap()
}

async fn call(client: &Client, tool: &str) -> String {
    let result = client.call_tool(tool, ()).await.unwrap();
    result.content[0].as_text().unwrap().to_owned()
}

/// Makes a request and returns its result, complete or not, without `_meta`.
async fn ask(client: &Client, method: &str, params: Value) -> Result<Value, ErrorObject> {
    match client.send_request(method, Some(Raw::from_value(&params).unwrap())).await {
        Ok(result) => {
            let mut result: Value = result.decode().unwrap();
            result.as_object_mut().unwrap().remove("_meta");
            Ok(result)
        }
        Err(error) => Err(error.remote().unwrap_or_else(|| panic!("no answer: {error}")).clone()),
    }
}

/// The state that came with a question.
fn state(result: &Value) -> String {
    result["requestState"].as_str().unwrap_or_else(|| panic!("no question: {result}")).to_owned()
}

fn accepted() -> Value {
    json!({ "action": "accept", "content": {} })
}

// ---- scripted peers ----

struct Wire {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    /// What it declares as a client.
    capabilities: Value,
}

impl Wire {
    fn pair() -> (Self, Link) {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(theirs);
        let link = Link::stream(reader, writer, "test");
        let (reader, writer) = tokio::io::split(ours);
        let capabilities = json!({ "elicitation": { "form": {}, "url": {} }, "roots": {} });
        (Self { lines: BufReader::new(reader).lines(), writer, capabilities }, link)
    }

    /// A client of a gateway that cannot be asked anything, so that several of its calls share a server.
    fn without_capabilities(gateway: &Gateway) -> Self {
        Self { capabilities: json!({}), ..Self::client(gateway) }
    }

    /// A client of a gateway.
    fn client(gateway: &Gateway) -> Self {
        let (wire, link) = Self::pair();
        let gateway = gateway.clone();
        tokio::spawn(async move { gateway.serve(link).await });
        wire
    }

    async fn send(&mut self, line: &str) {
        self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> String {
        self.lines.next_line().await.unwrap().expect("a line")
    }

    async fn next(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap()
    }

    /// Nothing arrives for a minute.
    async fn is_silent(&mut self) {
        let line = tokio::time::timeout(Duration::from_secs(60), self.lines.next_line()).await;
        assert!(line.is_err(), "{line:?}");
    }

    /// The next message, which has this method; returns its id and its parameters.
    async fn expect(&mut self, method: &str) -> (Value, Value) {
        let next = self.next().await;
        assert_eq!(next["method"], method, "{next}");
        (next["id"].clone(), next["params"].clone())
    }

    async fn answer(&mut self, id: &Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()).await;
    }

    /// Answers `initialize`, as a server.
    async fn open(&mut self, version: &str, capabilities: Value) -> Value {
        let (id, params) = self.expect("initialize").await;
        let info = json!({ "name": "by hand", "version": "0" });
        self.answer(
            &id,
            json!({ "protocolVersion": version, "capabilities": capabilities, "serverInfo": info }),
        )
        .await;
        self.expect("notifications/initialized").await;
        params
    }

    /// Sends a modern request, with these additional members of `_meta`.
    async fn ask(&mut self, id: i64, method: &str, mut params: Value, meta: Value) {
        let mut all = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        });
        all.as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
        params["_meta"] = all;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string())
            .await;
    }
}

/// A gateway in front of scripted servers; the channel gives each server that is started.
fn by_hand() -> (GatewayBuilder, mpsc::UnboundedReceiver<Wire>) {
    let (starts, started) = mpsc::unbounded_channel();
    let builder = Gateway::builder(move || {
        let (wire, link) = Wire::pair();
        let _ = starts.send(wire);
        async { Ok::<_, std::io::Error>(link) }
    });
    (builder.era(EraChoice::Only(Era::Legacy)), started)
}

// ---- questions ----

#[test]
fn every_legacy_revision_serves_a_modern_client_and_asks_it() {
    run(async {
        for version in LEGACY {
            let gateway = gateway(&server(version.clone())).build();
            let client = connect(&gateway, able()).await;
            assert_eq!(client.profile().version, Version::V2026_07_28);
            assert_eq!(client.server_name(), Some("s"));
            let asks = match version {
                Version::V2024_11_05 | Version::V2025_03_26 => &["plain", "sample", "roots", "both"][..],
                Version::V2025_06_18 => &["plain", "sample", "roots", "both", "form", "ten"],
                _ => &["plain", "sample", "roots", "both", "form", "ten", "page"],
            };
            for tool in asks {
                let wanted = match *tool {
                    "plain" => "plain",
                    "sample" => "model",
                    "roots" => "file:///home",
                    "both" => "model file:///home",
                    "ten" => "accept accept accept accept accept accept accept accept accept accept",
                    _ => "accept",
                };
                assert_eq!(call(&client, tool).await, wanted, "{tool} at {version}");
            }
            if asks.contains(&"form") {
                let read = client.read_resource("x://1").await.unwrap();
                assert_eq!(
                    Raw::from_value(&read.contents[0]).unwrap().member("text").unwrap().as_str(),
                    "\"accept\""
                );
            }
            let names: Vec<String> =
                client.list_tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect();
            assert!(names.contains(&"plain".to_owned()), "{names:?}");
            gateway.close().await;
        }
    });
}

#[test]
fn questions_that_come_at_once_are_one_round() {
    run(async {
        let gateway = gateway(&server(Version::V2025_11_25)).build();
        let client = connect(&gateway, able()).await;
        let asked = ask(&client, "tools/call", json!({ "name": "both" })).await.unwrap();
        let questions = asked["inputRequests"].as_object().unwrap();
        assert_eq!(questions.len(), 2, "{asked}");
        let method = |key: &str| questions[key]["method"].as_str().unwrap();
        assert_eq!((method("ask-1"), method("ask-2")), ("sampling/createMessage", "roots/list"));
        // A question without an answer is asked again.
        let roots = json!({ "roots": [{ "uri": "file:///other" }] });
        let params =
            json!({ "name": "both", "requestState": state(&asked), "inputResponses": { "ask-2": roots } });
        let asked = ask(&client, "tools/call", params).await.unwrap();
        assert_eq!(asked["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["ask-1"]);
        let model = json!({ "role": "assistant", "content": { "type": "text", "text": "t" }, "model": "m" });
        let params =
            json!({ "name": "both", "requestState": state(&asked), "inputResponses": { "ask-1": model } });
        let result = ask(&client, "tools/call", params).await.unwrap();
        assert_eq!(result["content"][0]["text"], "m file:///other");
    });
}

#[test]
fn what_the_client_has_not_declared_is_refused_to_the_server() {
    run(async {
        let gateway = gateway(&server(Version::V2025_11_25)).build();
        let client = connect(&gateway, modern()).await;
        let result = client.call_tool("roots", ()).await.unwrap();
        assert_eq!(result.is_error, Some(true));
        let form_alone = modern().elicitation(async |_| Ok(ElicitResult::new(ElicitAction::Accept)));
        let client = connect(&gateway, form_alone).await;
        assert_eq!(call(&client, "form").await, "accept");
        let result = client.call_tool("page", ()).await.unwrap();
        assert_eq!(result.is_error, Some(true));
    });
}

#[test]
fn a_user_who_says_no_is_an_answer() {
    run(async {
        let gateway = gateway(&server(Version::V2025_11_25)).build();
        let declines = modern().elicitation(async |_| Ok(ElicitResult::new(ElicitAction::Decline)));
        let client = connect(&gateway, declines).await;
        assert_eq!(call(&client, "form").await, "decline");
    });
}

#[test]
fn the_call_of_a_client_that_never_returns_ends_and_the_server_gets_an_error() {
    run(async {
        // The server itself would wait longer.
        let mut limits = Limits::default();
        limits.request_total = Duration::from_secs(3_600);
        let server = Server::builder("s", "1").versions([Version::V2025_11_25]).limits(limits);
        let (builder, mut told) = tools(server);
        let gateway = gateway(&builder.build().unwrap()).build();
        let client = connect(&gateway, able()).await;
        let begun = tokio::time::Instant::now();
        let asked = ask(&client, "tools/call", json!({ "name": "asks" })).await.unwrap();
        assert_eq!(told.recv().await, Some("asked"));
        assert_eq!(begun.elapsed().as_secs(), 600);
        let params = json!({ "name": "asks", "requestState": state(&asked), "inputResponses": { "ask-1": accepted() } });
        let error = ask(&client, "tools/call", params).await.unwrap_err();
        assert!(error.message.contains("has expired"), "{}", error.message);
    });
}

#[test]
fn a_handle_is_good_once_and_for_its_own_request() {
    run(async {
        let gateway = gateway(&server(Version::V2025_11_25)).build();
        let client = connect(&gateway, able()).await;
        let asked = ask(&client, "tools/call", json!({ "name": "form" })).await.unwrap();
        let with = |name: &str, state: &str| json!({ "name": name, "requestState": state, "inputResponses": { "ask-1": accepted() } });
        let refused = async |params: Value, why: &str| {
            let error = ask(&client, "tools/call", params).await.unwrap_err();
            assert_eq!(error.code, -32602);
            assert!(error.message.contains(why), "{}", error.message);
        };
        refused(with("ten", &state(&asked)), "belongs to another request").await;
        refused(with("form", "mcpjoin-00000000000000000000000000000000"), "is unknown to this bridge").await;
        refused(
            json!({ "name": "form", "requestState": state(&asked), "inputResponses": [] }),
            "inputResponses",
        )
        .await;
        refused(
            json!({ "name": "form", "inputResponses": { "ask-1": accepted() } }),
            "without the `requestState`",
        )
        .await;
        // The handle is still valid after these refusals.
        let result = ask(&client, "tools/call", with("form", &state(&asked))).await.unwrap();
        assert_eq!(result["content"][0]["text"], "accept");
        refused(with("form", &state(&asked)), "was used already").await;
    });
}

#[test]
fn a_client_that_returns_learns_that_its_server_has_died() {
    run(async {
        let (builder, mut servers) = by_hand();
        let gateway = builder.build();
        let mut client = Wire::client(&gateway);
        client.ask(1, "tools/call", json!({ "name": "t" }), json!({})).await;
        let mut server = servers.recv().await.unwrap();
        server.open("2025-11-25", json!({ "tools": {} })).await;
        server.expect("tools/call").await;
        server.send(r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#).await;
        let state = state(&client.next().await["result"]);
        drop(server);
        let mut server = servers.recv().await.unwrap();
        server.open("2025-11-25", json!({ "tools": {} })).await;
        let answers = json!({ "ask-1": { "roots": [] } });
        client
            .ask(
                2,
                "tools/call",
                json!({ "name": "t", "requestState": state, "inputResponses": answers }),
                json!({}),
            )
            .await;
        let error = client.next().await;
        assert_eq!(error["id"], 2);
        assert_eq!(error["error"]["code"], -32603, "{error}");
        assert_eq!(error["error"]["data"]["gateway"], "serverEnded", "{error}");
        // The call is not repeated.
        server.is_silent().await;
    });
}

#[test]
fn a_question_that_comes_while_the_client_is_away_waits_for_the_next_round() {
    run(async {
        let (builder, mut servers) = by_hand();
        let gateway = builder.build();
        let mut client = Wire::client(&gateway);
        client.ask(1, "tools/call", json!({ "name": "t" }), json!({})).await;
        let mut server = servers.recv().await.unwrap();
        server.open("2025-11-25", json!({ "tools": {} })).await;
        let (id, _) = server.expect("tools/call").await;
        server.send(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#).await;
        let first = client.next().await["result"].clone();
        assert_eq!(first["inputRequests"], json!({ "ask-1": { "method": "roots/list" } }));
        server.send(r#"{"jsonrpc":"2.0","id":2,"method":"roots/list","params":{"own":1}}"#).await;
        client.is_silent().await;
        let back = |state: String, answers: Value| json!({ "name": "t", "requestState": state, "inputResponses": answers });
        let roots = json!({ "roots": [] });
        client.ask(2, "tools/call", back(state(&first), json!({ "ask-1": roots })), json!({})).await;
        assert_eq!(server.next().await, json!({ "jsonrpc": "2.0", "id": 1, "result": roots }));
        let second = client.next().await["result"].clone();
        assert_eq!(
            second["inputRequests"],
            json!({ "ask-2": { "method": "roots/list", "params": { "own": 1 } } })
        );
        // The server withdraws its question and answers while the client is away.
        server.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#).await;
        server.answer(&id, json!({ "content": [], "own": 7 })).await;
        client.is_silent().await;
        client.ask(3, "tools/call", back(state(&second), json!({ "ask-2": roots })), json!({})).await;
        let result = client.next().await["result"].clone();
        assert_eq!((&result["resultType"], &result["own"]), (&json!("complete"), &json!(7)));
        server.is_silent().await;
    });
}

#[test]
fn a_question_that_belongs_to_nothing_is_refused_and_a_ping_answered() {
    run(async {
        let (builder, mut servers) = by_hand();
        let gateway = builder.build();
        let mut client = Wire::client(&gateway);
        client.ask(1, "tools/list", json!({}), json!({})).await;
        let mut server = servers.recv().await.unwrap();
        server.open("2025-11-25", json!({ "tools": {} })).await;
        let (id, params) = server.expect("tools/list").await;
        assert_eq!(params, json!({}));
        server.send(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#).await;
        let refused = server.next().await;
        assert_eq!(refused["error"]["code"], -32603);
        let text = refused["error"]["message"].as_str().unwrap();
        assert!(text.contains("tools/call, prompts/get or resources/read"), "{text}");
        server.send(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#).await;
        assert_eq!(server.next().await, json!({ "jsonrpc": "2.0", "id": 2, "result": {} }));
        server.send(r#"{"jsonrpc":"2.0","id":3,"method":"own/question"}"#).await;
        assert_eq!(server.next().await["error"]["code"], -32601);
        server.answer(&id, json!({ "tools": [], "nextCursor": "n" })).await;
        let result = client.next().await["result"].clone();
        assert_eq!(result["nextCursor"], "n");
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
        // Methods that the modern era has removed are not forwarded.
        for (id, method) in [
            (2, "ping"),
            (3, "logging/setLevel"),
            (4, "resources/subscribe"),
            (5, "tasks/list"),
            (6, "tasks/get"),
        ] {
            client.ask(id, method, json!({}), json!({})).await;
            let answer = client.next().await;
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32601)), "{method}");
        }
        client.ask(7, "own/request", json!({ "a": 1 }), json!({})).await;
        let (id, params) = server.expect("own/request").await;
        assert_eq!(params, json!({ "a": 1 }));
        server.answer(&id, json!({})).await;
        assert_eq!(client.next().await["result"]["resultType"], "complete");
    });
}

#[test]
fn parameters_and_results_pass_byte_for_byte_but_for_the_envelope() {
    run(async {
        let (builder, mut servers) = by_hand();
        let gateway = builder.build();
        let mut client = Wire::client(&gateway);
        client
            .send(
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"n":1.50,"x":"\u0041","big":123456789012345678901234567890},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}, "own":{"a":1e5}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1","own":1},"own":[1, 2]}}}"#,
            )
            .await;
        let mut server = servers.recv().await.unwrap();
        let opened = server.open("2025-11-25", json!({ "tools": {} })).await;
        // From text, because the features of other crates decide how a value stores numbers.
        let capabilities: Value = serde_json::from_str(r#"{"elicitation":{},"own":{"a":1e5}}"#).unwrap();
        assert_eq!(opened["capabilities"], capabilities);
        assert_eq!(opened["clientInfo"], json!({ "name": "c", "version": "1", "own": 1 }));
        let line = server.line().await;
        assert!(
            line.ends_with(
                r#""params":{"name":"t","arguments":{"n":1.50,"x":"\u0041","big":123456789012345678901234567890},"_meta":{"own":[1, 2]}}}"#
            ),
            "{line}"
        );
        let id = serde_json::from_str::<Value>(&line).unwrap()["id"].clone();
        server
            .send(r#"{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object", "properties":{"n":{"type":"number","default":1.50}}},"own":[ ]}}"#)
            .await;
        let line = client.line().await;
        assert!(
            line.contains(r#""ask-1":{"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object", "properties":{"n":{"type":"number","default":1.50}}},"own":[ ]}}"#),
            "{line}"
        );
        let state = state(&serde_json::from_str::<Value>(&line).unwrap()["result"]);
        client
            .send(&format!(
                r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"t","arguments":{{"big":123456789012345678901234567890,"n":1.50,"x":"A"}},"requestState":"{state}","inputResponses":{{"ask-1":{{"action":"accept","content":{{"n":2.50}}, "own":0.0}}}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{"elicitation":{{}}, "own":{{"a":1e5}}}}}}}}}}"#
            ))
            .await;
        assert_eq!(
            server.line().await,
            r#"{"jsonrpc":"2.0","id":7,"result":{"action":"accept","content":{"n":2.50}, "own":0.0}}"#
        );
        server
            .send(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[ ], "own":1e400,"isError":false}}}}"#
            ))
            .await;
        let line = client.line().await;
        assert!(line.ends_with(r#""content":[ ], "own":1e400,"isError":false}}"#), "{line}");
    });
}

#[test]
fn a_call_that_needs_a_page_first_is_made_again_when_the_user_agrees() {
    run(async {
        let (builder, mut servers) = by_hand();
        let gateway = builder.build();
        let mut client = Wire::client(&gateway);
        client.ask(1, "tools/call", json!({ "name": "t" }), json!({})).await;
        let mut server = servers.recv().await.unwrap();
        server.open("2025-11-25", json!({ "tools": {} })).await;
        let refuse = |id: &Value| {
            let page =
                json!({ "mode": "url", "elicitationId": "e", "url": "https://example.org/", "message": "m" });
            let error = json!({ "code": -32042, "message": "visit", "data": { "elicitations": [page] } });
            json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()
        };
        let (id, _) = server.expect("tools/call").await;
        server.send(&refuse(&id)).await;
        let asked = client.next().await["result"].clone();
        let page = json!({ "mode": "url", "url": "https://example.org/", "message": "m" });
        assert_eq!(
            asked["inputRequests"],
            json!({ "page-1": { "method": "elicitation/create", "params": page } })
        );
        let back = |state: String, action: &str| json!({ "name": "t", "requestState": state, "inputResponses": { "page-1": { "action": action } } });
        client.ask(2, "tools/call", back(state(&asked), "accept"), json!({})).await;
        // The call is repeated at once, and again when the server reports completion.
        let (id, params) = server.expect("tools/call").await;
        assert_eq!(params, json!({ "name": "t" }));
        server.send(&refuse(&id)).await;
        let begun = tokio::time::Instant::now();
        tokio::time::advance(Duration::from_secs(7)).await;
        server
            .send(r#"{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e"}}"#)
            .await;
        let (id, _) = server.expect("tools/call").await;
        assert_eq!(begun.elapsed().as_secs(), 7);
        server.send(&refuse(&id)).await;
        // The server refuses again: the user is asked once more, and declines.
        let asked = client.next().await["result"].clone();
        client.ask(3, "tools/call", back(state(&asked), "decline"), json!({})).await;
        let error = client.next().await["error"].clone();
        assert_eq!(error["code"], -32603);
        assert!(error["message"].as_str().unwrap().contains("visit"), "{error}");
        server.is_silent().await;
    });
}

#[test]
fn errors_have_the_codes_of_the_modern_era() {
    run(async {
        let (builder, mut servers) = by_hand();
        let gateway = builder.build();
        let mut client = Wire::client(&gateway);
        let mut server = None;
        for (id, (given, wanted)) in
            [(-32002, -32602), (-32042, -32603), (-32022, -32603), (-32001, -32001), (5, 5)]
                .into_iter()
                .enumerate()
        {
            let id = i64::try_from(id).unwrap();
            client.ask(id, "resources/read", json!({ "uri": "x://1" }), json!({})).await;
            let server = match &mut server {
                Some(server) => server,
                none => {
                    let mut opened = servers.recv().await.unwrap();
                    opened.open("2025-11-25", json!({ "resources": {} })).await;
                    none.insert(opened)
                }
            };
            let (number, _) = server.expect("resources/read").await;
            let error = json!({ "code": given, "message": "m", "data": [1] });
            server.send(&json!({ "jsonrpc": "2.0", "id": number, "error": error }).to_string()).await;
            let answer = client.next().await;
            assert_eq!(answer["error"], json!({ "code": wanted, "message": "m", "data": [1] }));
        }
    });
}

// ---- notifications of the server ----

#[test]
fn progress_and_log_messages_come_with_the_request_that_wants_them() {
    run(async {
        let gateway = gateway(&server(Version::V2025_11_25)).build();
        let received = Arc::new(Mutex::new(Vec::new()));
        let receiver = received.clone();
        let client = able().on_notification(move |notification| {
            let data = notification.params.and_then(|params| params.raw().member("data"));
            receiver.lock().unwrap().push(format!(
                "{} {}",
                notification.method,
                data.unwrap_or_else(Raw::null)
            ));
        });
        let client = connect(&gateway, client).await;
        let mut calling = client.call_tool("says", ()).log_level(LoggingLevel::Warning);
        let mut progress = Vec::new();
        while let Some(event) = calling.next_event().await {
            if let CallEvent::Progress(reported) = event {
                progress.push((reported.progress, reported.message));
            }
        }
        assert_eq!(calling.await.unwrap().content[0].as_text(), Some("said"));
        assert_eq!(progress, [(1.0, Some("half".to_owned())), (2.0, None)]);
        assert_eq!(
            *received.lock().unwrap(),
            [r#"notifications/message "error""#, r#"notifications/message "after""#]
        );
        // A request without a log level receives none.
        received.lock().unwrap().clear();
        assert_eq!(call(&client, "says").await, "said");
        assert!(received.lock().unwrap().is_empty());
    });
}

#[test]
fn the_server_gets_the_lowest_level_that_is_wanted() {
    run(async {
        let (builder, mut servers) = by_hand();
        let gateway = builder.build();
        let mut client = Wire::without_capabilities(&gateway);
        let level = |level: &str| json!({ "io.modelcontextprotocol/logLevel": level });
        let log = |level: &str, data: &str| {
            json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": level, "data": data, "own": 1 } }).to_string()
        };
        client.ask(1, "tools/call", json!({ "name": "a" }), level("warning")).await;
        let mut server = servers.recv().await.unwrap();
        server.open("2025-11-25", json!({ "tools": {}, "logging": {} })).await;
        let (id, params) = server.expect("logging/setLevel").await;
        assert_eq!(params, json!({ "level": "warning" }));
        server.answer(&id, json!({})).await;
        let (first, params) = server.expect("tools/call").await;
        assert_eq!(params, json!({ "name": "a" }));
        client.ask(2, "tools/list", json!({}), level("debug")).await;
        let (id, params) = server.expect("logging/setLevel").await;
        assert_eq!(params, json!({ "level": "debug" }));
        server.answer(&id, json!({})).await;
        let (second, _) = server.expect("tools/list").await;
        server.send(&log("debug", "d")).await;
        server.send(&log("error", "e")).await;
        let told = client.next().await;
        assert_eq!(told["params"], json!({ "level": "debug", "data": "d", "own": 1 }));
        assert_eq!(client.next().await["params"]["data"], "e");
        // A request with a higher level does not raise the level of the server.
        client.ask(3, "tools/call", json!({ "name": "b" }), level("error")).await;
        let (third, _) = server.expect("tools/call").await;
        server.answer(&second, json!({ "tools": [] })).await;
        client.next().await;
        server.answer(&first, json!({ "content": [] })).await;
        client.next().await;
        client.ask(4, "tools/call", json!({ "name": "c" }), level("error")).await;
        let (id, params) = server.expect("logging/setLevel").await;
        assert_eq!(params, json!({ "level": "error" }));
        // A server that rejects the level is not asked again, and delays no request.
        server
            .send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": 1, "message": "no" } }).to_string())
            .await;
        let (fourth, _) = server.expect("tools/call").await;
        server.send(&log("warning", "w")).await;
        client.is_silent().await;
        for id in [third, fourth] {
            server.answer(&id, json!({ "content": [] })).await;
            client.next().await;
        }
    });
}

#[test]
fn our_client_listens_to_our_server() {
    run(async {
        let server = server(Version::V2025_06_18);
        let gateway = gateway(&server).build();
        let client = connect(&gateway, able()).await;
        let filter = SubscriptionFilter::default()
            .with_tools_list_changed(true)
            .with_resource_subscriptions(vec!["x://1".to_owned()]);
        let mut stream = client.listen(filter).await.unwrap();
        // Later requests wait until the subscription is made.
        assert_eq!(call(&client, "plain").await, "plain");
        server.handle().notify_resource_updated("x://1");
        assert_eq!(stream.next().await.unwrap().unwrap().method, Method::ResourceUpdated);
        server.handle().notify_tools_changed().unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap().method, Method::ToolListChanged);
    });
}

// ---- the end of a request ----

#[test]
fn a_client_that_cancels_cancels_the_servers_call_but_not_by_leaving_with_a_question() {
    run(async {
        let (builder, mut servers) = by_hand();
        let gateway = builder.build();
        let mut client = Wire::client(&gateway);
        client.ask(1, "tools/call", json!({ "name": "a" }), json!({})).await;
        let mut server = servers.recv().await.unwrap();
        server.open("2025-11-25", json!({ "tools": {} })).await;
        let (id, _) = server.expect("tools/call").await;
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}"#).await;
        let (_, params) = server.expect("notifications/cancelled").await;
        assert_eq!(params, json!({ "requestId": id, "reason": "enough" }));
        client.ask(2, "tools/call", json!({ "name": "b" }), json!({})).await;
        let (id, _) = server.expect("tools/call").await;
        server.send(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#).await;
        let asked = client.next().await["result"].clone();
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#).await;
        server.is_silent().await;
        let back = json!({ "name": "b", "requestState": state(&asked), "inputResponses": { "ask-1": { "roots": [] } } });
        client.ask(3, "tools/call", back, json!({})).await;
        server.next().await;
        // After its return the client cancels.
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#).await;
        let (_, params) = server.expect("notifications/cancelled").await;
        assert_eq!(params["requestId"], id);
    });
}

#[test]
fn a_call_without_a_sign_of_life_ends_and_no_time_passes_while_its_client_is_away() {
    run(async {
        let (builder, mut told) = tools(Server::builder("s", "1").versions([Version::V2025_11_25]));
        let gateway = gateway(&builder.build().unwrap()).timeout(Duration::from_secs(40)).build();
        let client = connect(&gateway, able()).await;
        let asked = ask(&client, "tools/call", json!({ "name": "asks" })).await.unwrap();
        tokio::time::advance(Duration::from_secs(300)).await;
        let params = json!({ "name": "asks", "requestState": state(&asked), "inputResponses": { "ask-1": accepted() } });
        let result = ask(&client, "tools/call", params).await.unwrap();
        assert_eq!(result["content"][0]["text"], "accept");
        assert_eq!(told.recv().await, Some("asked"));
        let begun = tokio::time::Instant::now();
        let error = ask(&client, "tools/call", json!({ "name": "stays" })).await.unwrap_err();
        assert_eq!(begun.elapsed().as_secs(), 40);
        assert!(error.message.contains("was not answered within 40 s"), "{}", error.message);
        assert_eq!((told.recv().await, told.recv().await), (Some("stays"), Some("stayed")));
    });
}

#[test]
fn a_tool_that_is_a_task_alone_simply_takes_longer() {
    run(async {
        let server = Server::builder("s", "1")
            .versions([Version::V2025_11_25])
            .tool(tool("task").requires_tasks().as_task(), |_: NoArguments, cx: Context| async move {
                let answer = cx.elicit(form("Go on?")).await?;
                Ok::<_, HandlerError>(answer.action.as_str().to_owned())
            })
            .build()
            .unwrap();
        let gateway = gateway(&server).build();
        let client = connect(&gateway, able()).await;
        for _ in 0..2 {
            assert_eq!(call(&client, "task").await, "accept");
        }
        let tools = ask(&client, "tools/list", json!({})).await.unwrap();
        assert_eq!(tools["tools"][0]["name"], "task");
        assert_eq!(tools["tools"][0]["execution"], Value::Null);
    });
}

#[test]
fn a_client_that_cancels_calls_the_task_off() {
    run(async {
        let (builder, mut servers) = by_hand();
        let gateway = builder.build();
        let mut client = Wire::without_capabilities(&gateway);
        client.ask(1, "tools/call", json!({ "name": "t", "arguments": { "a": 1 } }), json!({})).await;
        let mut server = servers.recv().await.unwrap();
        let tasks = json!({ "requests": { "tools": { "call": {} } }, "cancel": {} });
        server.open("2025-11-25", json!({ "tools": {}, "tasks": tasks })).await;
        let (id, _) = server.expect("tools/list").await;
        let other = json!({ "name": "o", "inputSchema": { "type": "object" } });
        server.answer(&id, json!({ "tools": [other], "nextCursor": "n" })).await;
        let (id, params) = server.expect("tools/list").await;
        assert_eq!(params, json!({ "cursor": "n" }));
        let tool = json!({ "name": "t", "inputSchema": { "type": "object" }, "execution": { "taskSupport": "required" } });
        server.answer(&id, json!({ "tools": [tool] })).await;
        let (id, params) = server.expect("tools/call").await;
        assert_eq!(params, json!({ "name": "t", "arguments": { "a": 1 }, "task": { "ttl": 3_600_000 } }));
        let date = "2026-01-01T00:00:00Z";
        let task = json!({ "taskId": "T", "status": "working", "createdAt": date, "lastUpdatedAt": date, "ttl": null });
        server.answer(&id, json!({ "task": task })).await;
        let (_, params) = server.expect("tasks/result").await;
        assert_eq!(params, json!({ "taskId": "T" }));
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
        server.expect("notifications/cancelled").await;
        let (id, params) = server.expect("tasks/cancel").await;
        assert_eq!(params, json!({ "taskId": "T" }));
        server.answer(&id, json!({})).await;
        // The list is not read again until it may have changed.
        client.ask(2, "tools/call", json!({ "name": "t" }), json!({})).await;
        let (_, params) = server.expect("tools/call").await;
        assert_eq!(params["task"], json!({ "ttl": 3_600_000 }));
        client.ask(3, "tools/call", json!({ "name": "o" }), json!({})).await;
        let (_, params) = server.expect("tools/call").await;
        assert_eq!(params, json!({ "name": "o" }));
        server.send(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).await;
        client.ask(4, "tools/call", json!({ "name": "t" }), json!({})).await;
        let (id, _) = server.expect("tools/list").await;
        // An error of the list delays no call.
        let failed = json!({ "code": -32603, "message": "no list" });
        server.send(&json!({ "jsonrpc": "2.0", "id": id, "error": failed }).to_string()).await;
        let (_, params) = server.expect("tools/call").await;
        assert_eq!(params, json!({ "name": "t" }));
    });
}

#[test]
fn a_server_that_does_not_list_its_tools_delays_all_waiting_requests_once() {
    run(async {
        let (builder, mut servers) = by_hand();
        let gateway = builder.build();
        let mut client = Wire::without_capabilities(&gateway);
        client.ask(1, "tools/call", json!({ "name": "t" }), json!({})).await;
        let mut server = servers.recv().await.unwrap();
        server
            .open("2025-11-25", json!({ "tools": {}, "tasks": { "requests": { "tools": { "call": {} } } } }))
            .await;
        server.expect("tools/list").await;
        client.ask(2, "tools/call", json!({ "name": "t" }), json!({})).await;
        client.ask(3, "tools/call", json!({ "name": "t" }), json!({})).await;
        server.expect("notifications/cancelled").await;
        for _ in 1..=3 {
            let (_, params) = server.expect("tools/call").await;
            assert_eq!(params, json!({ "name": "t" }));
        }
        // A later call reads the list again.
        client.ask(4, "tools/call", json!({ "name": "t" }), json!({})).await;
        server.expect("tools/list").await;
    });
}

// ---- over HTTP ----

#[test]
fn over_http_a_client_is_asked_and_leaving_is_cancelling() {
    use mcpjoin::transport::{HttpListener, HttpOptions};

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = async {
        let (builder, mut told) = tools(Server::builder("s", "1").versions([Version::V2025_11_25]));
        let gateway = gateway(&builder.build().unwrap()).build();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let url = format!("http://{}/mcp", listener.address());
        let serves = gateway.clone();
        tokio::spawn(async move {
            serves.serve_http(listener, HttpOptions::new(), std::future::pending()).await;
        });
        let client = able().connect(Link::http(&url).build().unwrap()).await.unwrap();
        for (tool, wanted) in [("both", "model file:///home"), ("page", "accept"), ("says", "said")] {
            assert_eq!(call(&client, tool).await, wanted);
        }
        let read = client.read_resource("x://1").await.unwrap();
        assert_eq!(read.contents.len(), 1);
        // The client leaves with the question, and returns.
        assert_eq!(call(&client, "asks").await, "accept");
        assert_eq!(told.recv().await, Some("asked"));
        let mut staying = client.call_tool("stays", ());
        tokio::select! {
            _ = staying.next_event() => panic!("it stays"),
            begun = told.recv() => assert_eq!(begun, Some("stays")),
        }
        drop(staying);
        assert_eq!(told.recv().await, Some("stayed"));
        gateway.close().await;
    };
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test hangs");
    });
}

/// Principals have separate servers.
#[test]
fn over_http_a_servers_questions_reach_no_other_principal() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use mcpjoin::transport::{HttpListener, HttpOptions};

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = async {
        let started = Arc::new(AtomicUsize::new(0));
        let (server, counts) = (server(Version::V2025_11_25), started.clone());
        let gateway = Gateway::builder(move || {
            counts.fetch_add(1, Ordering::Relaxed);
            let (ours, theirs) = Link::memory();
            server.connect(theirs);
            async { Ok::<_, std::io::Error>(ours) }
        })
        .build();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let url = format!("http://{}/mcp", listener.address());
        let options = HttpOptions::new()
            .principal(|head| head.headers.get("x-user")?.to_str().ok().map(ToOwned::to_owned));
        let serves = gateway.clone();
        tokio::spawn(async move { serves.serve_http(listener, options, std::future::pending()).await });
        let mut clients = Vec::new();
        for user in ["a", "b", "a"] {
            let link = Link::http(&url).header("x-user", user).build().unwrap();
            clients.push(able().connect(link).await.unwrap());
        }
        let asked = ask(&clients[0], "tools/call", json!({ "name": "form" })).await.unwrap();
        let back = json!({
            "name": "form", "requestState": state(&asked), "inputResponses": { "ask-1": accepted() },
        });
        let error = ask(&clients[1], "tools/call", back.clone()).await.unwrap_err();
        assert!(error.message.contains("is unknown to this bridge"), "{}", error.message);
        // The same principal may return over another connection.
        let result = ask(&clients[2], "tools/call", back).await.unwrap();
        assert_eq!(result["content"][0]["text"], "accept");
        assert_eq!(started.load(Ordering::Relaxed), 2);
        gateway.close().await;
    };
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test hangs");
    });
}
