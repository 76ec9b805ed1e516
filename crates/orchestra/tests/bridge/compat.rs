//! `--compat 1.0`: the responses in the first version's document with its three examples, through a scripted
//! orchestrator and through our own host.

use mcpjoin::Link;
use mcpjoin::client::Client;
use mcpjoin::proto::Raw;
use mcpjoin::proto::types::{CallToolResult, Tool};
use mcpjoin::server::Server;
use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::client::{Orchestrator, OrchestratorOptions, serve_compat};
use mcpjoin_orchestra::host::{self, Host, HostLimits, Offer};
use mcpjoin_orchestra::value::Numbers;
use mcpjoin_orchestra::wire::plugin_request::Request;
use mcpjoin_orchestra::wire::plugin_response::Response;
use mcpjoin_orchestra::wire::{ListToolsResponse, PluginRequest, ToolDefinition};
use mcpjoin_orchestra::{ALPN, SERVER_NAME};
use mcpjoin_quic::endpoint::Listener;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::support::{
    Act, Folder, Wire, bridge_with, done, handle, healthy, of_json, quiet, refusal, run, scripted,
};

/// The examples of the document, line by line.
const ASKED: [&str; 3] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"create_project","arguments":{"name":"My App"}}}"#,
];

fn schema() -> Value {
    json!({ "type": "object", "properties": { "name": { "type": "string" } } })
}

fn answers() -> [Value; 3] {
    [
        json!({ "jsonrpc": "2.0", "id": 1, "result": { "protocolVersion": "2024-11-05",
            "capabilities": { "tools": {} }, "serverInfo": { "name": "orchestra", "version": "1.0.0" } } }),
        json!({ "jsonrpc": "2.0", "id": 2, "result": { "tools": [{ "name": "create_project",
            "description": "Create a new project workspace", "inputSchema": schema() }] } }),
        json!({ "jsonrpc": "2.0", "id": 3, "result": { "content": [
            { "type": "text", "text": "Created project: My App (slug: my-app)" }] } }),
    ]
}

fn documented(request: &PluginRequest) -> Act {
    match request.request.as_ref().unwrap() {
        Request::ListTools(_) => Act::Say(Response::ListTools(ListToolsResponse {
            tools: vec![ToolDefinition {
                name: "create_project".into(),
                description: "Create a new project workspace".into(),
                input_schema: Some(of_json(&schema())),
            }],
        })),
        Request::ToolCall(call) if call.tool_name == "create_project" => {
            Act::Say(done(&json!({ "text": "Created project: My App (slug: my-app)" })))
        }
        Request::ToolCall(call) if call.tool_name == "whole" => Act::Say(done(&json!({ "b": 1, "a": "<" }))),
        Request::ToolCall(_) => Act::Say(refusal("validation_error", "title is missing")),
        _ => healthy(),
    }
}

fn compat(orchestrator: &Orchestrator) -> Wire {
    let orchestrator = orchestrator.clone();
    Wire::over(|link| async move { format!("{:?}", serve_compat(link, &orchestrator, Numbers::Exact).await) })
}

#[test]
fn the_examples_of_the_document_are_answered_exactly() {
    run(async {
        let (scripted, orchestrator) = scripted(documented).await;
        let mut wire = compat(&orchestrator);
        for (asked, answer) in ASKED.into_iter().zip(answers()) {
            wire.send_line(asked).await;
            assert_eq!(wire.next().await, answer);
        }
        let calls = scripted.calls();
        assert_eq!(calls[0].caller_plugin, "transport.stdio");
        assert_eq!(calls[0].arguments.as_ref().unwrap(), &of_json(&json!({ "name": "My App" })));
        let (rest, end) = wire.finish().await;
        assert!(rest.is_empty() && end.starts_with("Ok"), "{end}");
    });
}

#[test]
fn everything_else_that_the_document_says_is_answered_so_too() {
    run(async {
        let (_scripted, orchestrator) = scripted(documented).await;
        let mut wire = compat(&orchestrator);
        assert_eq!(wire.ask("ping", &json!({})).await["result"], json!({}));
        wire.send_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        wire.send_line(r#"{"jsonrpc":"2.0","method":"notifications/anything"}"#).await;
        let unknown = wire.ask("some/unknown", &json!({})).await;
        assert_eq!(unknown["error"], json!({ "code": -32601, "message": "method not found: some/unknown" }));
        for method in ["prompts/list", "resources/list", "server/discover", "logging/setLevel"] {
            assert_eq!(wire.ask(method, &json!({})).await["error"]["code"], -32601, "{method}");
        }
        let failed = wire.call("create_feature", &json!({})).await;
        assert_eq!(
            failed["result"],
            json!({ "content": [{ "type": "text", "text": "tool error: validation_error" }], "isError": true })
        );
        let whole = wire.call("whole", &json!({})).await;
        let text = r#"{"a":"\u003c","b":1}"#;
        assert_eq!(whole["result"], json!({ "content": [{ "type": "text", "text": text }] }));
        wire.send_line("{").await;
        let parse = wire.next().await;
        assert_eq!((&parse["error"]["code"], &parse["id"]), (&json!(-32700), &Value::Null));
        wire.send_line(r#"{"jsonrpc":"2.0","id":7}"#).await;
        assert_eq!(wire.next().await["error"]["code"], -32600);
        wire.send_line(r#"[{"jsonrpc":"2.0","id":7,"method":"ping"}]"#).await;
        assert_eq!(wire.next().await["error"]["code"], -32600);
        assert_eq!(wire.ask("tools/call", &json!({})).await["error"]["code"], -32602);
        let newest = crate::support::initialize("2025-11-25");
        assert_eq!(wire.ask("initialize", &newest).await["result"], answers()[0]["result"]);
    });
}

/// A server whose only tool is that of the document.
fn project_server() -> Server {
    let schema = Raw::from_value(&schema()).unwrap();
    let tool = Tool::new("create_project", schema).with_description("Create a new project workspace");
    Server::builder("projects", "1")
        .raw_tool(tool, |arguments: Raw, _| async move {
            let arguments: Value = arguments.decode().unwrap();
            let name = arguments["name"].as_str().unwrap();
            let slug = name.to_lowercase().replace(' ', "-");
            CallToolResult::text(format!("Created project: {name} (slug: {slug})"))
        })
        .build()
        .unwrap()
}

#[test]
fn the_examples_are_the_same_through_the_bridge_and_our_own_host() {
    let folder = Folder::new();
    let certificates = Certificates::in_directory(folder.path());
    run(async {
        let (ours, theirs) = Link::memory();
        project_server().connect(theirs);
        let client = Client::builder("host", "1").connect(ours).await.unwrap();
        let host = Host::new([Offer::client("projects", client)], HostLimits::default());
        let tls = {
            let certificates = certificates.clone();
            move || certificates.server(SERVER_NAME, true, ALPN)
        };
        let listener = Listener::bind("127.0.0.1:0", tls, host::quic_options()).await.unwrap();
        let address = listener.address();
        tokio::spawn(async move { host.serve(listener, std::future::pending()).await });
        let orchestrator = handle(address, &certificates).await;
        assert_eq!(orchestrator.health().await.unwrap().message, "orchestrator ok");

        let mut exact = compat(&orchestrator);
        let mut wire = Wire::new(&bridge_with(orchestrator, quiet()));
        for (place, (asked, answer)) in ASKED.into_iter().zip(answers()).enumerate() {
            exact.send_line(asked).await;
            assert_eq!(exact.next().await, answer);
            wire.send_line(asked).await;
            let mut came = wire.next().await;
            if place == 0 {
                // There may be more capabilities, and the version is ours.
                came["result"]["capabilities"] = json!({ "tools": {} });
                came["result"]["serverInfo"]["version"] = "1.0.0".into();
            }
            assert_eq!(came, answer);
        }
    });
}

/// A client without a line of its own, and what its bridge returns.
fn plain() -> (DuplexStream, JoinHandle<String>) {
    let orchestrator = Orchestrator::tcp("127.0.0.1:1", OrchestratorOptions::default()).unwrap();
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(far);
    let link = Link::stream(reader, writer, "test");
    let serving =
        tokio::spawn(
            async move { serve_compat(link, &orchestrator, Numbers::Exact).await.unwrap().to_string() },
        );
    (near, serving)
}

/// Requests that need no orchestrator, in lines.
fn pings(count: usize) -> String {
    (0..count).map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_no_response_is_not_read_any_more_and_left_after_thirty_seconds() {
    let (mut client, serving) = plain();
    let began = Instant::now();
    assert!(client.write_all(pings(100_000).as_bytes()).await.is_err(), "everything was read");
    let end = serving.await.unwrap();
    assert!(end.contains("the client has read nothing for 30 s"), "{end}");
    assert!((30..=40).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_faster_than_it_reads_gets_every_response() {
    let (client, serving) = plain();
    let (reader, mut writer) = tokio::io::split(client);
    let asks = async {
        writer.write_all(pings(50_000).as_bytes()).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let reads = async {
        let (mut lines, mut read) = (BufReader::new(reader).lines(), 0);
        while let Some(line) = lines.next_line().await.unwrap() {
            assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["result"], json!({}));
            read += 1;
            // It sends without a pause.
            tokio::task::yield_now().await;
        }
        read
    };
    assert_eq!(tokio::join!(asks, reads).1, 50_000);
    serving.await.unwrap();
}
