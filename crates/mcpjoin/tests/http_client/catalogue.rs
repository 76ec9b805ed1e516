//! Arguments that travel in headers.

use std::sync::{Arc, Mutex};

use mcpjoin::Client;
use mcpjoin::proto::Raw;
use serde_json::{Value, json};

use crate::scripted::{Scripted, Seen, Talk, builder, legacy, modern, run, text};

fn tools() -> Value {
    let tool = |name: &str, mark: &str| {
        json!({"name": name, "inputSchema": {"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": mark}, "n": {"type": "number"}}}})
    };
    json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private",
        "tools": [tool("good", "Region"), tool("bad", "Re gion"), {"name": "plain", "inputSchema": {"type": "object"}}]})
}

async fn server(era: &'static str) -> Scripted {
    Scripted::new(move |seen: Seen, talk: Talk| async move {
        match (seen.about().as_str(), era) {
            ("tools/list", _) => talk.json(&seen.result(&tools())).await,
            ("tools/call", "modern") => {
                let region = seen.header("mcp-param-region").unwrap_or("none").to_owned();
                talk.json(&seen.result(&text(&region))).await
            }
            (_, "modern") => modern(seen, talk).await,
            (_, version) => legacy(version, "s", seen, talk).await,
        }
    })
    .await
}

async fn names(client: &Client) -> Vec<String> {
    client.list_tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

#[test]
fn s18_a_tool_with_invalid_marks_is_left_out_and_reported() {
    run(async {
        let server = server("modern").await;
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let tell = told.clone();
        let client = builder()
            .on_violation(move |violation| tell.lock().unwrap().push(violation.to_string()))
            .connect(server.link().build().unwrap())
            .await
            .unwrap();
        assert_eq!(names(&client).await, ["good", "plain"]);
        let page = client.list_tools_page(mcpjoin::proto::types::PageParams::new()).await.unwrap();
        assert_eq!(page.tools.len(), 2);
        let told = told.lock().unwrap().clone();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("`bad` is left out") && told[0].contains("Re gion"), "{told:?}");
    });
}

#[test]
fn a_legacy_session_leaves_nothing_out() {
    run(async {
        let server = server("2025-11-25").await;
        let client = server.connect().await.unwrap();
        assert_eq!(names(&client).await, ["good", "bad", "plain"]);
    });
}

#[test]
fn s18_marked_arguments_are_repeated_in_headers() {
    run(async {
        let server = server("modern").await;
        let client = server.connect().await.unwrap();
        let region = async |arguments: &str| {
            let arguments = Raw::parse(arguments.to_owned()).unwrap();
            let result = client.call_tool("good", Some(arguments)).await;
            result.map(|result| serde_json::to_value(&result.content).unwrap()[0]["text"].clone())
        };
        assert_eq!(region(r#"{"region":"eu"}"#).await.unwrap(), "none", "nobody has listed the tools");
        names(&client).await;
        assert_eq!(region(r#"{"region":"eu"}"#).await.unwrap(), "eu");
        assert_eq!(region(r#"{"region":"ü"}"#).await.unwrap(), "=?base64?w7w=?=");
        assert_eq!(region(r#"{"region":null,"n":1.5}"#).await.unwrap(), "none");
        let error = region(r#"{"region":{}}"#).await.unwrap_err().to_string();
        assert!(error.contains("not sent") && error.contains("Mcp-Param-Region"), "{error}");
    });
}
