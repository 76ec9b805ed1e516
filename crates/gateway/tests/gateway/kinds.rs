//! Tests of tools that a legacy server runs only as tasks, as its list says: the limits of reading the list.

use std::time::Duration;

use mcpjoin::proto::Era;
use mcpjoin::proto::session::EraChoice;
use mcpjoin_gateway::Gateway;
use serde_json::{Value, json};

use super::{Raw, Servers, client, modern_request, passes, run};

/// The limits of the list.
const PAGES: usize = 1_000;
const TOOLS: usize = 10_000;
const TOOL_BYTES: usize = 4 * 1024 * 1024;

/// A modern client has called the tool, and the legacy server receives the request for its list next.
async fn called(tool: &str) -> (Gateway, Raw, Raw) {
    let (mut servers, start) = Servers::set();
    let gateway = Gateway::builder(start).era(EraChoice::Only(Era::Legacy)).build();
    let (mut client, _served) = client(&gateway);
    calls(&mut client, tool).await;
    let mut server = servers.next().await;
    let tasks = json!({ "requests": { "tools": { "call": {} } } });
    let capabilities = json!({ "tools": {}, "tasks": tasks });
    let info = json!({ "name": "s", "version": "1" });
    let result = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info });
    let initialize = server.value().await;
    answers(&mut server, &initialize, &result).await;
    assert_eq!(server.value().await["method"], "notifications/initialized");
    (gateway, client, server)
}

async fn calls(client: &mut Raw, tool: &str) {
    client.say(&modern_request("1", "tools/call", &format!(r#""name":"{tool}","#), "")).await;
}

async fn answers(server: &mut Raw, asked: &Value, result: &Value) {
    server.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }).to_string()).await;
}

/// A tool that runs only as a task.
fn required(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" }, "execution": { "taskSupport": "required" } })
}

/// The server receives a call; returns whether it asks for a task.
async fn is_task(server: &mut Raw, asked: &Value) -> bool {
    assert_eq!(asked["method"], "tools/call");
    answers(server, asked, &json!({ "content": [] })).await;
    asked["params"]["task"].is_object()
}

#[test]
fn a_list_of_tools_without_an_end_is_read_for_a_thousand_pages() {
    run(async {
        for (page_of_tool, is_known) in [(PAGES, true), (PAGES + 1, false)] {
            let (_gateway, _client, mut server) = called("t").await;
            for page in 1..=PAGES {
                let asked = server.value().await;
                assert_eq!(asked["method"], "tools/list", "{page}");
                let tools = if page == page_of_tool { vec![required("t")] } else { Vec::new() };
                answers(&mut server, &asked, &json!({ "tools": tools, "nextCursor": "n" })).await;
            }
            let asked = server.value().await;
            assert_eq!(is_task(&mut server, &asked).await, is_known);
        }
    });
}

#[test]
fn a_list_of_slow_pages_takes_half_of_the_time_of_the_call_that_needs_it() {
    run(async {
        let (_gateway, mut client, mut server) = called("t").await;
        let began = tokio::time::Instant::now();
        let asked = loop {
            let asked = server.value().await;
            if asked["method"] != "tools/list" {
                break asked;
            }
            passes(Duration::from_secs(50)).await;
            let page = json!({ "tools": [required("t")], "nextCursor": "n" });
            answers(&mut server, &asked, &page).await;
        };
        // The default of a call is ten minutes.
        assert_eq!(asked["method"], "notifications/cancelled");
        assert_eq!(began.elapsed().as_secs(), 300);
        let asked = server.value().await;
        assert_eq!((&asked["method"], &asked["params"]["task"]), (&json!("tools/call"), &Value::Null));
        let answer = client.value().await;
        assert_eq!(answer["error"]["data"]["gateway"], "timeout", "{answer}");
        assert_eq!(began.elapsed().as_secs(), 600);
    });
}

#[test]
fn the_number_of_tools_with_a_remembered_kind_is_limited() {
    run(async {
        let (_gateway, mut client, mut server) = called("0").await;
        let asked = server.value().await;
        let tools: Vec<Value> = (0..=TOOLS).map(|name| required(&name.to_string())).collect();
        answers(&mut server, &asked, &json!({ "tools": tools })).await;
        for (tool, is_known) in [(0, true), (TOOLS - 1, true), (TOOLS, false)] {
            if tool > 0 {
                calls(&mut client, &tool.to_string()).await;
            }
            let asked = server.value().await;
            assert_eq!(asked["params"]["name"], tool.to_string());
            assert_eq!(is_task(&mut server, &asked).await, is_known, "{tool}");
            client.line().await;
        }
    });
}

#[test]
fn the_names_of_the_tools_whose_kinds_are_remembered_have_a_total_in_bytes() {
    run(async {
        let long = |of: &str| of.repeat(TOOL_BYTES / 2 + 1);
        let (_gateway, mut client, mut server) = called(&long("a")).await;
        let asked = server.value().await;
        let tools = [required(&long("a")), required(&long("b")), required("c")];
        answers(&mut server, &asked, &json!({ "tools": tools })).await;
        for (tool, is_known) in [(long("a"), true), (long("b"), false), ("c".to_owned(), true)] {
            if !tool.starts_with('a') {
                calls(&mut client, &tool).await;
            }
            let asked = server.value().await;
            assert_eq!(asked["params"]["name"], tool);
            assert_eq!(is_task(&mut server, &asked).await, is_known, "{}", &tool[..1]);
            client.line().await;
        }
    });
}
