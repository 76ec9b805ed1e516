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

/// Refuses calls of `good` whose header is missing, as a server of 2026-07-28 does.
async fn strict(marked: bool) -> Scripted {
    Scripted::new(move |seen: Seen, talk: Talk| async move {
        match seen.about().as_str() {
            "tools/list" if seen.json()["params"]["cursor"].is_null() => {
                let mut first = json!({"resultType": "complete", "tools": [], "nextCursor": "2"});
                if !marked {
                    first.as_object_mut().unwrap().remove("nextCursor");
                }
                assert_eq!(seen.header("mcp-method"), Some("tools/list"));
                assert!(seen.json()["params"]["_meta"]["progressToken"].is_null());
                talk.json(&seen.result(&first)).await
            }
            "tools/list" => talk.json(&seen.result(&tools())).await,
            "tools/call" if seen.header("mcp-param-region").is_none() => {
                let error = seen.error(-32020, "Header mismatch");
                talk.answer(400, &[("Content-Type", "application/json")], &error).await
            }
            "tools/call" => talk.json(&seen.result(&text("mirrored"))).await,
            _ => modern(seen, talk).await,
        }
    })
    .await
}

#[test]
fn a_call_that_was_refused_for_its_headers_lists_the_tools_and_is_made_once_more() {
    run(async {
        for marked in [true, false] {
            let server = strict(marked).await;
            let client = server.connect().await.unwrap();
            let arguments = Raw::parse(r#"{"region":"eu"}"#).unwrap();
            let outcome = client.call_tool("good", Some(arguments)).await;
            if marked {
                outcome.unwrap();
                assert_eq!(server.abouts()[1..], ["tools/call", "tools/list", "tools/list", "tools/call"]);
            } else {
                let error = outcome.unwrap_err().to_string();
                assert!(error.contains("-32020"), "{error}");
                assert_eq!(server.abouts()[1..], ["tools/call", "tools/list"]);
            }
        }
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
