//! Tests of the behaviour that is the same over HTTP and over stdio: connecting, listing, the kinds of errors, and how a
//! caller changes from one to the other.

use std::future::pending;
use std::time::Duration;

use mcpjoin::client::{Client, ClientError};
use mcpjoin::proto::Era;
use mcpjoin::proto::session::{CallError, EraChoice, TransportErrorKind};
use mcpjoin::server::{NoArguments, tool};
use mcpjoin::transport::{HttpListener, HttpOptions};
use mcpjoin::{Link, Server};
use serde_json::json;

use crate::scripted::{Scripted, Seen, Talk, builder, modern, run};

/// A server with one tool, which returns the kind of link of the call.
fn server() -> Server {
    Server::builder("alike", "1")
        .tool(tool("kind").description("By what it is asked"), |_: NoArguments, cx| async move {
            cx.origin().map_or("none", |origin| origin.link)
        })
        .build()
        .unwrap()
}

/// The whole use of a client over any link: it connects, lists, calls and closes. Returns the server's name, its tools,
/// and the text of the tool's result.
async fn all_of_it(link: Link, era: Era) -> (String, Vec<String>, String) {
    let client = builder().era(EraChoice::Only(era)).connect(link).await.unwrap();
    let name = client.server_name().unwrap().to_owned();
    let tools = client.list_tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect();
    let said = client.call_tool("kind", ()).await.unwrap();
    let said = said.content[0].as_text().unwrap().to_owned();
    client.close().await;
    (name, tools, said)
}

/// A link to the same server over a stream of lines, as a child process has it.
fn over_lines() -> Link {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(theirs);
    server().connect(Link::stream(reader, writer, "lines"));
    let (reader, writer) = tokio::io::split(ours);
    Link::stream(reader, writer, "lines")
}

#[test]
fn r65_r74_r86_a_client_connects_and_lists_over_both_and_only_the_link_is_another() {
    run(async {
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let url = listener.url();
        let serving = tokio::spawn(async move {
            server().serve_http(listener, HttpOptions::new(), pending()).await;
        });
        for era in [Era::Legacy, Era::Modern] {
            let over_http = all_of_it(Link::http(&url).build().unwrap(), era).await;
            let over_lines = all_of_it(over_lines(), era).await;
            assert_eq!((&over_http.0, &over_http.1), (&over_lines.0, &over_lines.1));
            assert_eq!((over_http.0.as_str(), over_http.1), ("alike", vec!["kind".to_owned()]));
            assert_eq!((over_http.2.as_str(), over_lines.2.as_str()), ("http", "lines"));
        }
        serving.abort();
    });
}

/// A client of a server that answers the call of each tool in a different wrong way.
async fn wronged() -> (Scripted, Client) {
    let server = Scripted::new(|seen: Seen, talk: Talk| async move {
        if seen.about() != "tools/call" {
            return modern(seen, talk).await;
        }
        match seen.json()["params"]["name"].as_str().unwrap() {
            "status" => talk.status(503).await,
            "malformed" => talk.json("{\"jsonrpc\": \"2.0\",").await,
            "no result" => talk.json(&seen.result(&json!({"content": 7}))).await,
            _ => {
                talk.gone().await;
                None
            }
        }
    })
    .await;
    let client = builder().connect(server.link().build().unwrap()).await.unwrap();
    (server, client)
}

#[test]
fn r79_errors_over_http_are_distinguished_and_name_the_server() {
    run(async {
        let (server, client) = wronged().await;
        // A caller that has an error also has the client, and the client has its server's name.
        assert_eq!(client.server_name(), Some("scripted"));
        let error = async |tool: &str| client.call_tool(tool, ()).await.unwrap_err();
        // A connection error contains the address, the request, and the response.
        let lost = error("status").await;
        assert!(
            matches!(&lost, ClientError::Call(CallError::Lost(lost)) if lost.kind == TransportErrorKind::Broken)
        );
        for part in [&*server.url(), "tools/call", "503"] {
            assert!(lost.to_string().contains(part), "{part} is not in {lost}");
        }
        // A protocol error contains the fault and its place.
        let malformed = error("malformed").await;
        assert!(matches!(malformed, ClientError::Call(CallError::InvalidResponse { .. })), "{malformed:?}");
        assert!(malformed.to_string().contains("not JSON"), "{malformed}");
        let bad = error("no result").await;
        assert!(matches!(bad, ClientError::BadResult { .. }), "{bad:?}");
        assert!(bad.to_string().contains("tools/call is not valid: content"), "{bad}");
        // A timeout.
        let late = client.call_tool("silent", ()).timeout(Duration::from_millis(100)).await.unwrap_err();
        assert!(matches!(late, ClientError::Call(CallError::TimedOut { .. })), "{late:?}");
        assert!(late.to_string().contains("not answered within 100 ms"), "{late}");
        assert!(!client.is_closed(), "none of them is about more than its call");
        // For a server that has never answered, the error names the address.
        let gone = Link::http("http://127.0.0.1:1/mcp").build().unwrap();
        let error = builder().connect(gone).await.unwrap_err();
        let text = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        assert!(format!("{error} {text}").contains("http://127.0.0.1:1/mcp"), "{error}: {text}");
    });
}
