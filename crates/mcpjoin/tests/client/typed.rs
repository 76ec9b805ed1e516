//! Tests that arguments, results and the values of forms pass as types, alike in every revision.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::Link;
use mcpjoin::client::{Client, ClientBuilder, ClientError};
use mcpjoin::proto::types::{
    CallToolResult, CompleteParams, ElicitFormParams, ElicitParams, ElicitResult, ElicitationSchema, Members,
    Prompt, PromptReference, Resource, ResourceContents, ResourceTemplate, ResourceTemplateReference,
    TextResourceContents, ToolValueError,
};
use mcpjoin::proto::{ErrorObject, Method, Raw, Version};
use mcpjoin::server::{Context, HandlerError, InputError, Json, NoArguments, PromptArguments, Server, tool};
use mcpjoin_test_support::scripted::{builder, legacy, text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A client of this revision over a link in memory.
pub(crate) async fn connected(server: &Server, builder: ClientBuilder, version: &Version) -> Client {
    let (ours, theirs) = Link::memory();
    server.connect(theirs);
    let client = builder.protocol_version(version.clone()).connect(ours).await.expect("connects");
    assert_eq!(client.profile().version, *version);
    client
}

#[derive(Serialize)]
struct Sum<'a> {
    a: i64,
    name: &'a str,
}

/// A server that completes with what it was given, and a tool that reports progress three times and asks for a name.
fn talkative() -> Server {
    let told = |params: CompleteParams, _: Context| async move {
        let known = params.context.and_then(|context| context.arguments).unwrap_or_default();
        vec![format!("{}={}", params.argument.name, params.argument.value), format!("{known:?}")]
    };
    Server::builder("s", "1")
        .prompt(Prompt::new("p"), |_: PromptArguments, _| async { "p" })
        .resource_template(ResourceTemplate::new("note://{a}/{b}", "note"), |_, _| async { "note" })
        .completion(PromptReference::new("p"), told)
        .completion(ResourceTemplateReference::new("note://{a}/{b}"), told)
        .tool(tool("counts"), |_: NoArguments, cx: Context| async move {
            for step in 1..=3 {
                cx.progress(f64::from(step), Some(3.0), None);
                tokio::task::yield_now().await;
            }
            "counted"
        })
        .tool(tool("asks"), |_: NoArguments, cx: Context| async move {
            let form = ElicitFormParams::new("Who?", ElicitationSchema::new(Members::new()));
            let answer = cx.elicit(form).await?;
            let values = Raw::from_value(&answer.content.unwrap_or_default())?;
            Ok::<_, HandlerError>(CallToolResult::structured(values))
        })
        .build()
        .expect("the server is valid")
}

#[tokio::test(start_paused = true)]
async fn completions_take_the_options_of_other_requests() {
    for version in [Version::V2025_06_18, Version::V2025_11_25, Version::V2026_07_28] {
        let client = connected(&talkative(), Client::builder("c", "1"), &version).await;
        let prompt = client.complete_prompt("p", "x", "R").timeout(Duration::from_secs(5)).await;
        assert_eq!(prompt.expect("a result").completion.values, ["x=R", "{}"], "{version}");
        let resource = client.complete_resource("note://{a}/{b}", "b", "R").given("a", "1").await;
        let values = resource.expect("a result").completion.values;
        assert_eq!(values, ["b=R", r#"{"a": "1"}"#], "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_is_given_to_a_function_while_the_call_is_awaited() {
    for version in [Version::V2025_11_25, Version::V2026_07_28] {
        let client = connected(&talkative(), Client::builder("c", "1"), &version).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let reports = seen.clone();
        let call = client.call_tool("counts", ()).progress(false).on_progress(move |progress| {
            reports.lock().expect("nobody panics with it").push(progress.progress);
        });
        assert_eq!(call.await.expect("a result").to_text(), "counted");
        let seen = seen.lock().expect("nobody panics with it");
        assert_eq!(seen.last(), Some(&3.0), "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_forms_is_given_the_form() {
    for version in [Version::V2025_11_25, Version::V2026_07_28] {
        let builder = Client::builder("c", "1").elicitation_form(|form| async move {
            ElicitResult::accept(
                json!({ "asked": form.message, "fields": form.requested_schema.properties.len() }),
            )
        });
        let client = connected(&talkative(), builder, &version).await;
        let values: serde_json::Value =
            client.call_tool("asks", ()).await.expect("a result").decode().expect("values");
        assert_eq!(values, json!({ "asked": "Who?", "fields": 0 }), "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_of_every_kind_arrive_as_serde_writes_them_and_raw_unchanged() {
    let (client, server) = legacy(builder()).await;
    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = sent.clone();
    drop(server.serve(move |request| {
        let arguments = request.params.as_ref().and_then(|params| params.arguments());
        let arguments = arguments.map(|arguments| arguments.as_str().to_owned());
        seen.lock().expect("nobody panics with it").push(arguments);
        Ok(text("ok"))
    }));
    // Digits that no number type has, an escape that is not needed, and an order that is not alphabetical.
    let exact = r#"{"z":123456789012345678901234567890.10,"b":1e400,"a":-0,"é":"\u00e9"}"#;
    let raw = Raw::parse(exact).expect("JSON");
    client.call_tool("t", json!({ "a": 2 })).await.expect("a result");
    let value = json!({ "a": [1, null] });
    client.call_tool("t", &value).await.expect("a result");
    assert_eq!(value["a"][0], 1, "it was borrowed");
    client.call_tool("t", Sum { a: 2, name: "x" }).await.expect("a result");
    client.call_tool("t", BTreeMap::from([("k", 1.5)])).await.expect("a result");
    client.call_tool("t", &raw).await.expect("a result");
    client.call_tool("t", Some(raw)).await.expect("a result");
    client.call_tool("t", None::<Raw>).await.expect("a result");
    client.call_tool("t", ()).await.expect("a result");
    let expected = [
        Some(r#"{"a":2}"#),
        Some(r#"{"a":[1,null]}"#),
        Some(r#"{"a":2,"name":"x"}"#),
        Some(r#"{"k":1.5}"#),
        Some(exact),
        Some(exact),
        None,
        None,
    ];
    assert_eq!(*sent.lock().unwrap(), expected.map(|arguments| arguments.map(str::to_owned)));
}

#[tokio::test(start_paused = true)]
async fn arguments_that_are_no_object_fail_when_the_call_is_awaited_and_nothing_is_sent() {
    let (client, mut server) = legacy(builder()).await;
    let refused = |error: ClientError, method: Method| match error {
        ClientError::BadParams { method: told, what } => {
            assert_eq!(told, method);
            what
        }
        other => panic!("{other:?}"),
    };
    let error = client.call_tool("t", json!([1])).await.expect_err("an array");
    assert_eq!(refused(error, Method::CallTool), "the arguments are not an object");
    let mut call = client.call_tool("t", 7);
    assert_eq!(call.next_event().await, None);
    assert_eq!(
        refused(call.await.expect_err("a number"), Method::CallTool),
        "the arguments are not an object"
    );
    client.call_tool("t", f64::NAN).await.expect_err("no number");
    let unwritable =
        client.call_tool("t", BTreeMap::from([((), 1)])).await.expect_err("a key that is no text");
    refused(unwritable, Method::CallTool);
    let error = client.get_prompt("p", json!({ "n": 1 })).await.expect_err("a number");
    assert!(refused(error, Method::GetPrompt).starts_with("n: "), "it says where");
    drop(client);
    assert_eq!(server.message().await, None, "nothing was sent");
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, PartialEq)]
struct Weather {
    celsius: f64,
    words: String,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn server() -> Server {
    Server::builder("s", "1")
        .tool(tool("add"), |n: Add, _| async move { Json(n.a + n.b) })
        .tool(tool("weather"), |_: NoArguments, _| async {
            Json(Weather { celsius: 21.5, words: "fair".into() })
        })
        .tool(tool("greet"), |_: NoArguments, _| async { String::from("hello") })
        .tool(tool("number"), |_: NoArguments, _| async { "42" })
        .tool(tool("fails"), |_: NoArguments, _| async {
            Err::<Json<i64>, _>(HandlerError::new("no such city"))
        })
        .prompt(Prompt::new("review"), |arguments: PromptArguments, _| async move {
            format!("review {}", arguments.get("language").map_or("nothing", String::as_str))
        })
        .resource(Resource::new("x://1", "1"), |_, _| async {
            let part = |text: &str| ResourceContents::from(TextResourceContents::new("x://1", text));
            vec![part("one"), part("two")]
        })
        .build()
        .expect("a server")
}

#[tokio::test(start_paused = true)]
async fn one_chain_of_calls_has_the_same_value_in_every_revision() {
    for version in Version::ALL {
        let client = connected(&server(), builder(), &version).await;
        let call = async |tool: &str| client.call_tool(tool, ()).await.expect("a result");
        let sum = client.call_tool("add", json!({ "a": 2, "b": 40 })).await.expect("a result").decode();
        assert_eq!(sum, Ok(42_i64), "{version}");
        let weather = Weather { celsius: 21.5, words: "fair".into() };
        assert_eq!(call("weather").await.decode(), Ok(weather), "{version}");
        assert_eq!(call("greet").await.decode(), Ok("hello".to_owned()), "{version}");
        assert_eq!(call("number").await.decode(), Ok("42".to_owned()), "{version}: what text does T want?");
        assert_eq!(call("number").await.decode(), Ok(42), "{version}");
        assert_eq!(call("greet").await.decode::<i64>(), Err(ToolValueError::Absent), "{version}");
        let failed = ToolValueError::Failed("no such city".into());
        assert_eq!(call("fails").await.decode::<i64>(), Err(failed.clone()), "{version}");
        assert_eq!(call("fails").await.into_result(), Err(failed), "{version}");
        assert_eq!(call("greet").await.into_result().expect("it worked").to_text(), "hello", "{version}");
        let prompt = client.get_prompt("review", json!({ "language": "Rust" })).await.expect("a prompt");
        assert_eq!(prompt.to_text(), "review Rust", "{version}");
        let read = client.read_resource("x://1").await.expect("contents");
        assert_eq!(read.to_text(), "one\ntwo", "{version}");
    }
}

#[derive(Deserialize, JsonSchema)]
struct Person {
    name: String,
    age: Option<u8>,
}

async fn who(_: NoArguments, cx: Context) -> Result<String, InputError> {
    let person = cx.elicit_as::<Person>("Who are you?").await?;
    Ok(person.map_or_else(|| "nobody".into(), |person| format!("{} {:?}", person.name, person.age)))
}

fn asking() -> Server {
    Server::builder("s", "1").tool(tool("who"), who).build().expect("a server")
}

/// Answers the form with this result.
async fn answered(
    version: &Version,
    answer: Result<ElicitResult, ErrorObject>,
) -> Result<String, ClientError> {
    let builder = builder().elicitation(move |params| {
        let required = Some(vec!["name".to_owned()]);
        assert!(matches!(&params, ElicitParams::Form(form) if form.requested_schema.required == required));
        let answer = answer.clone();
        async move { answer }
    });
    let client = connected(&asking(), builder, version).await;
    Ok(client.call_tool("who", ()).await?.to_text())
}

#[tokio::test(start_paused = true)]
async fn a_server_asks_for_a_type_alike_in_every_revision_that_has_elicitation() {
    for version in [Version::V2025_06_18, Version::V2025_11_25, Version::V2026_07_28] {
        let full = ElicitResult::accept(json!({ "name": "Ada", "age": 36 }));
        assert_eq!(answered(&version, full).await, Ok("Ada Some(36)".into()), "{version}");
        let half = ElicitResult::accept(BTreeMap::from([("name", "Ada")]));
        assert_eq!(answered(&version, half).await, Ok("Ada None".into()), "{version}");
        assert_eq!(answered(&version, Ok(ElicitResult::decline())).await, Ok("nobody".into()), "{version}");
        assert_eq!(answered(&version, Ok(ElicitResult::cancel())).await, Ok("nobody".into()), "{version}");
        let misfit = answered(&version, ElicitResult::accept(json!({ "name": 1 }))).await;
        let error = misfit.expect_err("a number is no name");
        assert!(error.to_string().contains("the answer to the form: name: "), "{version}: {error}");
    }
    ElicitResult::accept(json!([])).expect_err("no object");
    assert_eq!(ElicitResult::accept(()).map(|page| page.content), Ok(None), "a page has no values");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_distinguished_from_other_errors() {
    let (client, server) = legacy(builder()).await;
    let late = client.call_tool("t", ()).timeout(Duration::from_secs(1)).await.expect_err("no answer");
    assert!(late.is_timeout() && late.is_retryable(), "{late:?}");
    drop(server);
    let lost = client.call_tool("t", ()).await.expect_err("nobody is there");
    assert!(!lost.is_timeout(), "{lost:?}");
}
