//! Tests of a client that sends tool arguments in headers (`x-mcp-header`).

use std::sync::{Arc, Mutex};

use mcpjoin::Client;
use mcpjoin::client::Cache;
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
        let page = client.list_tools().page(mcpjoin::proto::types::PageParams::new()).await.unwrap();
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

/// A list of one tool whose argument has this header mark, with these cache hints.
fn marked(mark: &str, hints: &Value) -> Value {
    let mut list = json!({"resultType": "complete", "tools": [{"name": "t", "inputSchema": {"type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": mark}}}}]});
    for (key, hint) in hints.as_object().unwrap() {
        list[key] = hint.clone();
    }
    list
}

/// A server whose tool needs its argument in another header after each `tools/list`. It counts the lists, and accepts only
/// the header of the list with this number.
async fn renaming(accepted: usize, hints: Value) -> Scripted {
    let lists = Arc::new(Mutex::new(0));
    Scripted::new(move |seen: Seen, talk: Talk| {
        let (lists, hints) = (lists.clone(), hints.clone());
        async move {
            match seen.about().as_str() {
                "tools/list" => {
                    let number = {
                        let mut lists = lists.lock().unwrap();
                        *lists += 1;
                        *lists
                    };
                    talk.json(&seen.result(&marked(&format!("R{number}"), &hints))).await
                }
                "tools/call" if seen.header(&format!("mcp-param-r{accepted}")) == Some("eu") => {
                    talk.json(&seen.result(&text("mirrored"))).await
                }
                "tools/call" => {
                    let error = seen.error(-32020, "Header mismatch");
                    talk.answer(400, &[("Content-Type", "application/json")], &error).await
                }
                _ => modern(seen, talk).await,
            }
        }
    })
    .await
}

fn region() -> Option<Raw> {
    Some(Raw::parse(r#"{"region":"eu"}"#).unwrap())
}

#[test]
fn s18_a_list_that_has_changed_is_read_again_once_and_the_call_made_once_more() {
    run(async {
        let server = renaming(2, json!({})).await;
        let client = server.connect().await.unwrap();
        names(&client).await;
        client.call_tool("t", region()).await.unwrap();
        client.call_tool("t", region()).await.unwrap();
        let asked = ["tools/list", "tools/call", "tools/list", "tools/call", "tools/call"];
        assert_eq!(server.abouts()[1..], asked, "what was learnt is kept");
        // A server that refuses again after the second list gets no third request.
        let server = renaming(0, json!({})).await;
        let client = server.connect().await.unwrap();
        let error = client.call_tool("t", region()).await.unwrap_err().to_string();
        assert!(error.contains("-32020"), "{error}");
        assert_eq!(server.abouts()[1..], ["tools/call", "tools/list", "tools/call"]);
    });
}

#[test]
fn s18_arguments_are_mirrored_when_the_list_came_from_memory() {
    run(async {
        let hints = json!({"ttlMs": 60_000, "cacheScope": "public"});
        let server = renaming(1, hints.clone()).await;
        let client = server.connect().await.unwrap();
        assert_eq!((names(&client).await, names(&client).await), (vec!["t".into()], vec!["t".into()]));
        client.call_tool("t", region()).await.unwrap();
        assert_eq!(server.abouts()[1..], ["tools/list", "tools/call"], "the second list came from memory");

        // Another client has cached the list: this client learns of the change when the server refuses the call.
        let cache = Cache::new();
        let server = renaming(2, hints).await;
        let connect =
            async || builder().cache(cache.clone()).connect(server.link().build().unwrap()).await.unwrap();
        let (first, second) = (connect().await, connect().await);
        names(&first).await;
        assert_eq!(names(&second).await, ["t"]);
        second.call_tool("t", region()).await.unwrap();
        let asked: Vec<String> =
            server.abouts().into_iter().filter(|about| about != "server/discover").collect();
        assert_eq!(asked, ["tools/list", "tools/call", "tools/list", "tools/call"]);
    });
}

#[test]
fn s18_a_page_that_is_read_again_leaves_the_marks_of_the_others() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            match seen.about().as_str() {
                "tools/list" if seen.json()["params"]["cursor"].is_null() => {
                    // This page expires at once.
                    let page = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "public",
                        "tools": [{"name": "other", "inputSchema": {"type": "object"}}], "nextCursor": "2"});
                    talk.json(&seen.result(&page)).await
                }
                "tools/list" => {
                    // The keyword is written with an escape, so a search for its letters would not find it.
                    let hints = json!({"ttlMs": 60_000, "cacheScope": "public"});
                    let page = seen.result(&marked("Region", &hints));
                    talk.json(&page.replace("x-mcp-header", r"\u0078-mcp-header")).await
                }
                "tools/call" => {
                    let region = seen.header("mcp-param-region").unwrap_or("none").to_owned();
                    talk.json(&seen.result(&text(&region))).await
                }
                _ => modern(seen, talk).await,
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        for _ in 0..2 {
            assert_eq!(names(&client).await, ["other", "t"]);
            let result = client.call_tool("t", region()).await.unwrap();
            assert_eq!(serde_json::to_value(&result.content).unwrap()[0]["text"], "eu");
        }
        let lists = server.abouts().iter().filter(|about| *about == "tools/list").count();
        assert_eq!(lists, 3, "the second page came from memory");
    });
}

#[test]
fn s18_reading_the_list_again_has_an_end() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            match seen.about().as_str() {
                "tools/list" => {
                    let mut page = marked("Region", &json!({}));
                    page["nextCursor"] = json!("more");
                    page["tools"][0]["name"] = json!("another");
                    talk.json(&seen.result(&page)).await
                }
                "tools/call" => {
                    let error = seen.error(-32020, "Header mismatch");
                    talk.answer(400, &[("Content-Type", "application/json")], &error).await
                }
                _ => modern(seen, talk).await,
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        let error = client.call_tool("t", region()).await.unwrap_err().to_string();
        assert!(error.contains("-32020"), "{error}");
        assert_eq!(server.abouts().iter().filter(|about| *about == "tools/list").count(), 100);
    });
}
