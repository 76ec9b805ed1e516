//! Tests of the requirements of the source documents that no other test covers, one test per number: see
//! `requirements/table.txt`, and `cargo xtask requirements` for all requirements with their tests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::proto::session::{EraChoice, Limits, Role, ServerRole, Session, State};
use mcpjoin::proto::types::{
    CallToolParams, CallToolResult, ClientCapabilities, Implementation, InitializeParams, InitializeResult,
    ServerCapabilities, Tool,
};
use mcpjoin::proto::{Era, ErrorObject, Raw, RequestId, Version, code};
use mcpjoin::server::{NoArguments, tool};
use mcpjoin::transport::Direction;
use mcpjoin::{Client, Link, Server};

fn text(value: &impl serde::Serialize) -> String {
    Raw::from_value(value).unwrap().to_string()
}

fn parse(text: &str) -> Raw {
    Raw::parse(text.to_owned()).unwrap()
}

fn server() -> Server {
    Server::builder("s", "1").tool(tool("hello"), |_: NoArguments, _| async { "hello" }).build().unwrap()
}

#[test]
fn r5_a_remote_error_shows_its_code_and_message() {
    let error = ErrorObject::new(code::METHOD_NOT_FOUND, "no such thing");
    assert_eq!(error.to_string(), "JSON-RPC error -32601: no such thing");
}

#[tokio::test]
async fn r37_a_line_of_ten_mebibytes_is_accepted() {
    let limit = Limits::default().message;
    assert_eq!(limit, 10 * 1024 * 1024);
    let server = Server::builder("s", "1")
        .tool(tool::<Long>("length"), |long: Long, _| async move { long.text.len().to_string() })
        .build()
        .unwrap();
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(theirs);
    server.connect(Link::stream(reader, writer, "duplex"));
    let (reader, writer) = tokio::io::split(ours);
    let client = Client::builder("c", "1")
        .era(EraChoice::Only(Era::Legacy))
        .connect(Link::stream(reader, writer, "duplex"))
        .await
        .unwrap();
    let arguments = |length: usize| Some(parse(&format!("{{\"text\":\"{}\"}}", "x".repeat(length))));
    // The rest of the line around the text.
    let around = br#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"_meta":{"progressToken":2},"name":"length","arguments":{"text":""}}}"#;
    let length = limit - around.len();
    let longest = client.call_tool("length", arguments(length)).await.unwrap();
    assert_eq!(longest.content[0].as_text(), Some(&*length.to_string()));
    let refused = client.call_tool("length", arguments(limit)).await.unwrap_err();
    assert!(refused.to_string().contains("above the limit `message`"), "{refused}");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Long {
    text: String,
}

#[test]
fn r41_the_five_codes_mean_what_json_rpc_says() {
    let answer = |line: &str| {
        let error = mcpjoin::proto::decode::decode(&line.to_owned().into(), &Limits::default().decode);
        error.unwrap_err().code()
    };
    assert_eq!(answer("{"), code::PARSE_ERROR);
    assert_eq!(answer(r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#), code::INVALID_REQUEST);
    assert_eq!(answer(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":1}"#), code::INVALID_PARAMS);
    assert_eq!(ErrorObject::method_not_found("x").code, code::METHOD_NOT_FOUND);
    assert_eq!(ErrorObject::internal("x").code, code::INTERNAL_ERROR);
}

#[test]
fn r49_an_id_is_a_number_or_a_string_everywhere() {
    for id in [RequestId::from(7), RequestId::from("seven")] {
        assert_eq!(parse(&text(&id)).decode::<RequestId>().unwrap(), id);
    }
    assert!(parse("null").decode::<RequestId>().is_err());
    assert!(parse("1.5").decode::<RequestId>().is_err());
}

#[test]
fn r50_the_five_standard_codes_have_names() {
    let codes = [
        code::PARSE_ERROR,
        code::INVALID_REQUEST,
        code::METHOD_NOT_FOUND,
        code::INVALID_PARAMS,
        code::INTERNAL_ERROR,
    ];
    assert_eq!(codes, [-32700, -32600, -32601, -32602, -32603]);
}

#[test]
fn r51_initialize_is_written_in_camel_case_and_instructions_may_be_absent() {
    let info = Implementation::new("n", "1");
    let params = InitializeParams::new(Version::V2025_11_25, ClientCapabilities::default(), info.clone());
    let expected =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"1"}}"#;
    assert_eq!(text(&params), expected);
    let result = InitializeResult::new(Version::V2025_11_25, ServerCapabilities::default(), info);
    assert!(!text(&result).contains("instructions"));
    let read: InitializeResult = parse(&text(&result)).decode().unwrap();
    assert_eq!(read.instructions, None);
}

#[test]
fn r52_capabilities_that_are_not_declared_are_absent() {
    assert_eq!(text(&ClientCapabilities::default()), "{}");
    assert_eq!(text(&ServerCapabilities::default()), "{}");
    let declared: ServerCapabilities = parse(r#"{"tools":{}}"#).decode().unwrap();
    assert!(declared.tools.is_some() && declared.resources.is_none() && declared.prompts.is_none());
}

#[test]
fn r53_a_tool_a_call_and_a_result_have_the_fields_of_the_specification() {
    let tool = Tool::new("t", parse(r#"{"type":"object"}"#));
    assert_eq!(text(&tool), r#"{"name":"t","inputSchema":{"type":"object"}}"#);
    let mut call = CallToolParams::new("t");
    assert_eq!(text(&call), r#"{"name":"t"}"#);
    call.arguments = Some(parse(r#"{"a":1}"#));
    assert_eq!(text(&call), r#"{"name":"t","arguments":{"a":1}}"#);
    let result = CallToolResult::error("no");
    assert_eq!(text(&result), r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#);
}

#[tokio::test]
async fn r56_a_connection_sends_requests_notifies_and_closes_over_any_link() {
    let (ours, theirs) = Link::memory();
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let seen = kinds.clone();
    let inspected = ours.inspected(move |way, crossed| {
        if way == Direction::Out {
            seen.lock().unwrap().push(format!("{crossed:?}"));
        }
    });
    server().connect(theirs);
    let client =
        Client::builder("c", "1").era(EraChoice::Only(Era::Legacy)).connect(inspected).await.unwrap();
    client.ping().await.unwrap();
    assert_eq!(client.connection().state(), State::Ready);
    client.close().await;
    assert_eq!(client.connection().state(), State::Disconnected);
    let sent = kinds.lock().unwrap().join("\n");
    for method in ["Initialize,", "Initialized,", "Ping,"] {
        assert!(sent.contains(method), "{method} was not sent: {sent}");
    }
}

#[tokio::test]
async fn r57_one_reader_serves_calls_notifications_and_questions_of_the_server_alike() {
    let (ours, theirs) = Link::memory();
    let server = Server::builder("s", "1")
        .logging()
        .tool(tool("busy"), |_: NoArguments, cx: mcpjoin::server::Context| async move {
            for step in 1..=3 {
                cx.progress(f64::from(step), Some(3.0), None);
            }
            let roots = cx.list_roots().await?;
            Ok::<_, mcpjoin::server::HandlerError>(roots.roots.len().to_string())
        })
        .build()
        .unwrap();
    server.connect(theirs);
    let client = Client::builder("c", "1")
        .era(EraChoice::Only(Era::Legacy))
        .roots(vec![mcpjoin::proto::types::Root::new("file:///a")])
        .connect(ours)
        .await
        .unwrap();
    let calls = (0..50).map(|_| client.call_tool("busy", ()));
    for result in futures_util::future::join_all(calls.map(IntoFuture::into_future)).await {
        let result = result.unwrap();
        assert_eq!(result.content[0].as_text(), Some("1"));
    }
}

#[tokio::test(start_paused = true)]
async fn r70_the_timeout_can_be_set_for_one_request_and_for_all() {
    let never = || {
        Server::builder("s", "1")
            .tool(tool("never"), |_: NoArguments, _| std::future::pending::<&str>())
            .build()
            .unwrap()
    };
    let mut limits = Limits::default();
    limits.request = Duration::from_secs(7);
    let (ours, theirs) = Link::memory();
    never().connect(theirs);
    let client = Client::builder("c", "1").limits(limits).connect(ours).await.unwrap();
    let began = tokio::time::Instant::now();
    let error = client.call_tool("never", ()).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), 7);
    assert_eq!(error.to_string(), "tools/call was not answered within 7 s");
    let error = client.call_tool("never", ()).timeout(Duration::from_millis(1500)).await.unwrap_err();
    assert_eq!(error.to_string(), "tools/call was not answered within 1500 ms");
}

#[test]
fn r54_a_session_begins_disconnected_and_connects_when_it_is_opened() {
    let role = ServerRole::new(Implementation::new("s", "1"), ServerCapabilities::default());
    let mut session = Session::new(Role::Server(role.into()), Default::default(), Limits::default());
    assert_eq!(session.state(), State::Disconnected);
    session.open(mcpjoin::proto::Time::ZERO);
    assert_eq!(session.state(), State::Connecting);
}
