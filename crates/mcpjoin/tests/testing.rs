//! Tests of what tests use: the scripted client and server, and the messages with which checks fail.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use mcpjoin::proto::types::{
    CallToolResult, ElicitFormParams, ElicitResult, ElicitationSchema, InputRequest, Members, Prompt,
    Resource, ResourceTemplate, Root,
};
use mcpjoin::proto::{ErrorObject, Version};
use mcpjoin::server::{Context, HandlerError, Json, NoArguments, Server, handlers, tool};
use mcpjoin::testing::{ExpectTool as _, ServerScript, TestClient, TestServer, assert_json_eq, snapshot};
use mcpjoin::{Client, Link};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Runs a test on a paused clock that advances only while all tasks wait.
fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(36_000), test).await.expect("the test hangs");
    });
}

/// The message with which a test fails.
fn failure(test: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(test)).expect_err("the test fails");
    panic.downcast_ref::<String>().expect("a text").clone()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

async fn asks(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    let question = ElicitFormParams::new("Who?", ElicitationSchema::new(Members::new()));
    let who = cx.elicit(question).await?;
    let name: Option<String> = who.content.and_then(|content| content.get("name")?.decode().ok());
    let roots = cx.list_roots().await?.roots;
    let greeting = cx.sample_text("Greet.", 10).await?;
    Ok(format!("{greeting}, {} in {}", name.unwrap_or_default(), roots[0].uri))
}

fn server() -> Server {
    Server::builder("s", "1")
        .tool(tool("add"), |n: Add, _| async move {
            n.a.checked_add(n.b).map(Json).ok_or_else(|| HandlerError::new("the sum is too large"))
        })
        .tool(tool("asks"), asks)
        .build()
        .unwrap()
}

#[test]
fn a_plain_question_is_answered_without_values() {
    run(async {
        let server = Server::builder("s", "1")
            .tool(tool("sure"), |_: NoArguments, cx: Context| async move {
                Ok::<_, HandlerError>(cx.confirm("Sure?").await?.to_string())
            })
            .build()
            .unwrap();
        let script = TestClient::script().accepts(()).declines().elicits(ElicitResult::cancel());
        let client = script.connect(&server).await;
        for expected in ["true", "false", "false"] {
            client.call_tool("sure", ()).await.expect_text(expected);
        }
    });
}

#[test]
fn a_server_is_tested_in_every_version() {
    run(async {
        for version in Version::ALL {
            let client = TestClient::script().version(version.clone()).connect(&server()).await;
            assert_eq!(client.profile().version, version);
            let sum = client.call_tool("add", json!({ "a": 2, "b": 40 })).await.expect_ok();
            assert_eq!(sum.decode::<i64>().unwrap(), 42);
            assert_json_eq(&sum.content, json!([{ "type": "text", "text": "42" }]));
            client.call_tool("add", json!({ "a": i64::MAX, "b": 1 })).await.expect_tool_error("too large");
            assert!(client.call_tool("none", json!({})).await.expect_error(-32602).message.contains("none"));
        }
    });
}

#[test]
fn tools_of_a_scripted_server_answer_every_call_in_every_version() {
    run(async {
        for version in Version::ALL {
            let (client, server) = TestServer::script()
                .version(version.clone())
                .tool("add", Json(42))
                .tool("greet", "Hello")
                .tool("fails", CallToolResult::error("no luck"))
                .expect("prompts/get")
                .reply(json!({ "messages": [] }))
                .connect()
                .await;
            let tools = client.list_tools().all().await.unwrap();
            assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["add", "greet", "fails"]);
            client.call_tool("add", json!({ "a": 2 })).await.expect_value(42);
            client.call_tool("greet", ()).await.expect_text("Hello");
            client.call_tool("fails", ()).await.expect_tool_error("no luck");
            client.get_prompt("p", ()).await.unwrap();
            client.call_tool("add", json!({ "a": 3 })).await.expect_value(42);
            assert_eq!(server.calls("add"), [json!({ "a": 2 }), json!({ "a": 3 })], "{version}");
            assert_eq!(server.calls("greet"), [Value::Null]);
            let received: Vec<String> = server.requests().into_iter().map(|one| one.method).collect();
            let call = "tools/call";
            assert_eq!(received, ["tools/list", call, call, call, "prompts/get", call], "{version}");
        }
    });
}

struct Counter;

#[handlers]
impl Counter {
    #[tool]
    async fn count(&self, from: u32, cx: Context) -> Result<Json<u32>, HandlerError> {
        Ok(Json(from + u32::from(cx.confirm("One more?").await?)))
    }
}

#[test]
fn the_handlers_of_a_type_are_tested_without_a_server_of_ones_own() {
    run(async {
        for version in [Version::V2025_06_18, Version::V2026_07_28] {
            let script = TestClient::script().version(version).accepts(json!({})).declines();
            let client = script.connect_handlers(Counter).await;
            client.call_tool("count", json!({ "from": 41 })).await.expect_value(42);
            client.call_tool("count", json!({ "from": 41 })).await.expect_value(41);
        }
        let client = TestClient::connect_handlers(Arc::new(Counter)).await;
        assert_eq!(client.list_tools().all().await.unwrap().len(), 1);
        let error = client.call_tool("count", json!({ "from": 1 })).await.expect_error(-32021);
        assert!(error.message.contains("elicitation"), "the script has no answer: {}", error.message);
    });
}

struct Broken;

#[handlers]
impl Broken {
    #[resource("note://{}")]
    fn note(&self) -> &'static str {
        "text"
    }
}

#[test]
fn handlers_that_are_no_valid_server_fail_the_test() {
    let told = failure(|| run(async { drop(TestClient::connect_handlers(Broken).await) }));
    assert!(told.starts_with("the handlers are no valid server: "), "{told}");
}

#[test]
fn another_tool_than_the_scripted_ones_fails_the_test() {
    let told = failure(|| {
        run(async {
            let (link, _server) = TestServer::script().tool("add", Json(42)).start();
            let client = Client::builder("c", "1").connect(link).await.unwrap();
            drop(client.call_tool("subtract", ()).await);
        });
    });
    assert_eq!(told, "the script expects nothing more, and the client sent tools/call");
    for (result, expected) in [
        (failure(|| Ok(CallToolResult::text("b")).expect_text("a")), "the text of the result differs"),
        (failure(|| Ok(CallToolResult::error("broken")).expect_text("a")), "the tool failed: broken"),
        (failure(|| Ok(CallToolResult::text("1")).expect_value(2)), "the value of the result differs"),
        (
            failure(|| {
                drop(
                    TestServer::script()
                        .tool("t", Err::<(), _>(HandlerError::protocol(ErrorObject::internal("x")))),
                );
            }),
            "the result of t is an error of the protocol",
        ),
    ] {
        assert!(result.contains(expected), "{result}");
    }
}

#[test]
fn scripted_answers_are_given_in_order_in_both_eras() {
    run(async {
        for version in [Version::V2025_11_25, Version::V2026_07_28] {
            let client = TestClient::script()
                .version(version)
                .roots(vec![Root::new("file:///home")])
                .accepts(json!({ "name": "Ada" }))
                .generates("Hello")
                .declines()
                .generates("Good day")
                .connect(&server())
                .await;
            client.call_tool("asks", json!({})).await.expect_text("Hello, Ada in file:///home");
            client.call_tool("asks", json!({})).await.expect_text("Good day,  in file:///home");
            let asked = client.questions();
            let asked: Vec<&str> = asked.iter().map(InputRequest::method).collect();
            assert_eq!(asked, ["elicitation/create", "sampling/createMessage"].repeat(2));
        }
    });
}

#[test]
fn questions_without_an_answer_and_answers_without_a_question_fail_the_test() {
    for version in [Version::V2025_11_25, Version::V2026_07_28] {
        let script = || TestClient::script().version(version.clone()).roots(vec![Root::new("file:///home")]);
        let no_answer = failure(|| {
            run(async {
                let client = script().accepts(json!({})).generates("Hello").connect(&server()).await;
                client.call_tool("asks", json!({})).await.expect_ok();
                // The test goes on although the call has failed.
                drop(client.call_tool("asks", json!({})).await);
            });
        });
        assert!(no_answer.contains("the server asked elicitation/create"), "{no_answer}");
        assert!(
            no_answer.contains("Who?") && no_answer.ends_with("the script has no answer left"),
            "{no_answer}"
        );
        let other = failure(|| {
            run(async {
                let client =
                    script().accepts(json!({})).accepts(json!({})).generates("").connect(&server()).await;
                drop(client.call_tool("asks", json!({})).await);
            });
        });
        assert!(other.ends_with("the script has another kind of answer next"), "{other}");
        let unused = failure(|| run(async { drop(script().declines().connect(&server()).await) }));
        assert_eq!(unused, "1 of the scripted answers were not asked for");
    }
}

#[test]
fn a_failed_check_says_what_was_received() {
    // Made before it is checked: a check is no future.
    let outcome = |tool: &'static str, a: i64| {
        let outcome = Arc::new(Mutex::new(None));
        let kept = outcome.clone();
        run(async move {
            let client = TestClient::connect(&server()).await;
            *kept.lock() = Some(client.call_tool(tool, json!({ "a": a, "b": 1 })).await);
        });
        outcome.lock().take().unwrap()
    };
    let failed = || outcome("add", i64::MAX);
    let unknown = || outcome("none", 1);
    let sum = || outcome("add", 1);
    assert_eq!(failure(|| drop(failed().expect_ok())), "the tool failed: the sum is too large");
    assert!(failure(|| drop(unknown().expect_ok())).starts_with("the call failed: "));
    let other = failure(|| drop(failed().expect_tool_error("disk")));
    assert_eq!(other, "the tool failed, but not with \"disk\": the sum is too large");
    assert!(failure(|| drop(sum().expect_tool_error("disk"))).contains("\"structuredContent\": 2"));
    assert!(failure(|| drop(sum().expect_error(-32602))).starts_with("no error -32602, but a result: "));
    assert!(failure(|| drop(unknown().expect_error(-32603))).contains("-32602"));
    let differs = failure(|| sum().expect_value(json!({ "sum": 2 })));
    assert!(differs.contains("at the top: received 2, expected {\"sum\":2}"), "{differs}");
    assert!(failure(|| sum().expect_text("3")).contains("the text of the result differs"));
}

#[test]
fn a_snapshot_does_not_depend_on_the_order_of_members() {
    let server = Server::builder("s", "1")
        .tool(tool("none").description("D").title("T"), |_: NoArguments, _| async { "" })
        .resource(Resource::new("x://1", "one"), |_, _| async { "" })
        .resource_template(ResourceTemplate::new("x://{id}", "any"), |_, _| async { "" })
        .prompt(Prompt::new("p"), |_, _| async { "" })
        .build()
        .unwrap();
    run(async move {
        let client = TestClient::connect(&server).await;
        let text = snapshot(&client).await.unwrap();
        let names: Vec<&str> =
            text.lines().filter_map(|line| line.trim().strip_prefix('"')?.split('"').next()).collect();
        let tool = ["tools", "description", "inputSchema"];
        let places = tool.map(|name| names.iter().position(|found| *found == name).expect(name));
        assert!(places.is_sorted(), "{text}");
        let lists: Vec<&str> = text.lines().filter(|line| line.starts_with("  \"")).collect();
        assert_eq!(
            lists,
            ["  \"prompts\": [", "  \"resourceTemplates\": [", "  \"resources\": [", "  \"tools\": ["]
        );
    });
}

fn result(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

async fn connect(link: Link) -> (Client, Arc<Mutex<Vec<String>>>) {
    let violations = Arc::new(Mutex::new(Vec::new()));
    let noted = violations.clone();
    let builder =
        Client::builder("c", "1").on_violation(move |violation| noted.lock().push(violation.to_string()));
    (builder.connect(link).await.unwrap(), violations)
}

#[test]
fn a_scripted_server_opens_every_version_and_plays_its_script() {
    run(async {
        for version in Version::ALL {
            let (link, _server) = TestServer::script()
                .version(version.clone())
                .expect_with("tools/call", json!({ "name": "slow", "arguments": { "n": 1 } }))
                .delay(Duration::from_secs(50))
                .reply(result("slow"))
                .expect("tools/list")
                .reply(json!({ "tools": [] }))
                .expect("tools/call")
                .reply_error(ErrorObject::internal("broken"))
                .start();
            let (client, violations) = connect(link).await;
            assert_eq!(client.profile().version, version);
            let (begin, arguments) = (Instant::now(), mcpjoin::proto::Raw::parse(r#"{"n":1}"#).unwrap());
            client.call_tool("slow", Some(arguments)).await.expect_text("slow");
            assert!(begin.elapsed() >= Duration::from_secs(50));
            assert!(client.list_tools().all().await.unwrap().is_empty());
            client.call_tool("any", ()).await.expect_error(-32603);
            assert_eq!(*violations.lock(), [""; 0], "{version}");
        }
    });
}

#[test]
fn faults_of_a_scripted_server_reach_the_client() {
    run(async {
        let (link, _server) = TestServer::script()
            .expect("tools/call")
            .progress(1.0, Some(2.0))
            .expect("notifications/cancelled")
            .send("{]\n")
            .notify("notifications/message", json!({ "level": "info", "data": "d" }))
            .expect("tools/call")
            .reply(result("twice"))
            .reply(result("twice"))
            .expect("tools/call")
            .close()
            .start();
        let (client, violations) = connect(link).await;
        let lost = client.call_tool("lost", ()).await.unwrap_err();
        assert!(lost.is_retryable(), "{lost}");
        client.call_tool("twice", ()).await.expect_text("twice");
        assert!(client.call_tool("last", ()).await.unwrap_err().is_fatal());
        assert!(violations.lock().len() >= 2, "{violations:?}");
    });
}

/// The message with which a script fails that a client does not follow.
fn misplayed(script: ServerScript) -> String {
    failure(|| {
        run(async {
            let (link, _server) = script.start();
            let (client, _) = connect(link).await;
            drop(client.call_tool("add", ()).await);
        });
    })
}

#[test]
fn a_client_that_does_not_follow_the_script_fails_the_test_and_never_waits() {
    let script = TestServer::script;
    assert_eq!(
        misplayed(script().expect("tools/list")),
        "the script expects tools/list, and the client sent tools/call"
    );
    assert_eq!(misplayed(script()), "the script expects nothing more, and the client sent tools/call");
    assert_eq!(
        misplayed(script().expect("tools/call").reply(result("")).expect("tools/list").expect("tools/call")),
        "the client has not sent: tools/list, tools/call"
    );
    let differ = misplayed(script().expect_with("tools/call", json!({ "name": "sub" })));
    assert_eq!(differ, "the parameters of tools/call differ:\n  /name: received \"add\", expected \"sub\"");
    let refused = Arc::new(Mutex::new(String::new()));
    let kept = refused.clone();
    failure(|| {
        run(async move {
            let (link, _server) = script().expect("tools/list").start();
            let (client, _) = connect(link).await;
            *kept.lock() = client.call_tool("add", ()).await.unwrap_err().to_string();
        });
    });
    assert!(refused.lock().contains("the script expects tools/list"), "{}", refused.lock());
}
