//! Tests of a server's tools: arguments, results, failures, and handlers that misbehave.

use std::sync::Arc;
use std::time::Duration;

use mcpjoin::client::ClientBuilder;
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::types::{
    CallToolResult, Content, InputRequired, LoggingLevel, ResourceLink, Tool, ToolAnnotations,
};
use mcpjoin::proto::{ErrorObject, Raw, Version};
use mcpjoin::server::{BuildError, HandlerError, Json, NoArguments, Server, ServerBuilder, blocking, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::told::{Told, hearing};
use crate::{
    BOTH_ERAS, Wire, ask, builder, call, connect, in_era, in_version, raw, request, run, text, value,
};

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    #[serde(default)]
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

fn calculator() -> ServerBuilder {
    Server::builder("calculator", "1")
        .tool(tool("add").description("Adds").read_only(), |numbers: Add, _| async move {
            Json(Sum { sum: numbers.a + numbers.b })
        })
        .tool(tool("bare"), |numbers: Add, _| async move { Json(vec![numbers.a, numbers.b]) })
        .tool(tool("greet"), |_: NoArguments, _| async { "hello" })
        .raw_tool(Tool::new("echo", raw(&json!({ "type": "object" }))), |arguments: Raw, _| async move {
            arguments.as_str().to_owned()
        })
}

#[test]
fn arguments_and_results_are_typed() {
    run(async {
        let server = calculator().build().unwrap();
        for era in BOTH_ERAS {
            let client = in_era(&server, era).await;
            let result = call(&client, "add", json!({ "a": 2, "b": 40 })).await.unwrap();
            assert_eq!(result["structuredContent"], json!({ "sum": 42 }));
            assert_eq!(text(&result), r#"{"sum":42}"#, "the same as text");
            assert_eq!(result.get("isError"), None);
            let result = call(&client, "add", json!({ "a": 2 })).await.unwrap();
            assert_eq!(result["structuredContent"], json!({ "sum": 2 }), "b has a default");
            let result = ask(&client, "tools/call", json!({ "name": "greet" })).await.unwrap();
            assert_eq!(text(&result), "hello");
            let result = call(&client, "echo", json!({ "n": 1.50, "z": 1, "a": 2 })).await.unwrap();
            let echoed: Value = serde_json::from_str(text(&result)).unwrap();
            assert_eq!(echoed, json!({ "a": 2, "n": 1.5, "z": 1 }));
        }
    });
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A model reads the list: the name and the documentation of a type of Rust would tell it nothing. And some APIs of models refuse an
/// object without `properties`.
#[test]
fn a_tool_without_arguments_is_listed_with_the_schema_of_an_empty_object() {
    run(async {
        let server = Server::builder("s", "1")
            .tool(tool("none"), |_: NoArguments, _| async { "" })
            .tool(tool("own"), |Nothing {}: Nothing, _| async { "" })
            .build()
            .unwrap();
        for era in BOTH_ERAS {
            let tools = in_era(&server, era).await.list_tools().all().await.unwrap();
            assert_eq!(value(&tools[0].input_schema), json!({ "type": "object", "properties": {} }));
            assert_eq!(value(&tools[1].input_schema)["properties"], json!({}));
        }
    });
}

#[test]
fn raw_arguments_arrive_as_they_were_written() {
    run(async {
        let server = calculator().build().unwrap();
        let mut wire = Wire::opened(&server).await;
        wire.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"z":1.50, "a":18446744073709551616},"name":"\u0065cho"}}"#).await;
        let answer = wire.next().await;
        assert_eq!(text(&answer["result"]), r#"{"z":1.50, "a":18446744073709551616}"#);
    });
}

#[test]
fn s10_arguments_that_do_not_fit_are_a_result_that_names_the_member() {
    run(async {
        let server = calculator().build().unwrap();
        for era in BOTH_ERAS {
            let client = in_era(&server, era).await;
            for (arguments, named) in
                [(json!({ "a": "two" }), "a:"), (json!({}), "`a`"), (json!({ "a": 1, "b": [] }), "b:")]
            {
                let result = call(&client, "add", arguments).await.unwrap();
                assert_eq!(result["isError"], true);
                assert!(text(&result).contains(named), "{result}");
            }
        }
    });
}

#[test]
fn c12_an_unknown_tool_is_an_error_of_the_parameters() {
    run(async {
        let server = calculator().build().unwrap();
        for era in BOTH_ERAS {
            let client = in_era(&server, era).await;
            let error = call(&client, "no\nsuch", json!({})).await.unwrap_err();
            assert_eq!(error.code, -32602);
            assert_eq!(error.message, "unknown tool: no\\nsuch");
        }
    });
}

#[test]
fn b38_parameters_of_the_wrong_kind_are_an_error_and_the_server_lives() {
    run(async {
        let server = calculator().build().unwrap();
        let mut wire = Wire::opened(&server).await;
        for params in [
            json!({ "name": "add", "arguments": [1, 2] }),
            json!({ "name": "add", "arguments": "a" }),
            json!({ "name": "add", "arguments": 1 }),
            json!({ "name": 1 }),
            json!({ "name": null }),
            json!({ "arguments": {} }),
            json!({}),
        ] {
            let answer = wire.ask(&request(1, "tools/call", &params)).await;
            assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
            assert_eq!(answer["id"], 1);
        }
        wire.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call"}"#).await;
        assert_eq!(wire.next().await["error"]["code"], -32602);
        for params in ["[]", "\"x\"", "7"] {
            wire.send(&format!(r#"{{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{params}}}"#))
                .await;
            let answer = wire.next().await;
            assert!([-32602, -32600].contains(&answer["error"]["code"].as_i64().unwrap()), "{answer}");
        }
        let answer = wire.ask(&request(4, "tools/call", &json!({ "name": "add", "arguments": null }))).await;
        assert_eq!(answer["result"]["isError"], true, "no arguments, of which one must be there");
        let answer = wire.ask(&request(5, "tools/list", &json!({}))).await;
        assert_eq!(answer["result"]["tools"].as_array().unwrap().len(), 4);
    });
}

#[test]
fn structured_results_are_sent_as_each_revision_defines_them() {
    run(async {
        let server = calculator().build().unwrap();
        let expected = [
            (Version::V2024_11_05, None, None),
            (Version::V2025_03_26, None, None),
            (Version::V2025_06_18, Some("object"), Some(json!({ "result": [1, 2] }))),
            (Version::V2025_11_25, Some("object"), Some(json!({ "result": [1, 2] }))),
            (Version::V2026_07_28, Some("array"), Some(json!([1, 2]))),
        ];
        for (version, schema, structured) in expected {
            let client = match version {
                Version::V2026_07_28 => in_era(&server, mcpjoin::proto::Era::Modern).await,
                _ => in_version(&server, version.clone()).await,
            };
            let result = call(&client, "bare", json!({ "a": 1, "b": 2 })).await.unwrap();
            assert_eq!(result.get("structuredContent"), structured.as_ref(), "{version}");
            assert_eq!(text(&result), "[1,2]", "{version}");
            let tools = client.list_tools().all().await.unwrap();
            let bare = tools.iter().find(|tool| tool.name == "bare").unwrap();
            let shown = bare.output_schema.as_ref().map(value);
            assert_eq!(shown.as_ref().and_then(|schema| schema["type"].as_str()), schema, "{version}");
            if let (Some("object"), Some(shown)) = (schema, shown) {
                assert_eq!(shown["properties"]["result"]["type"], "array");
                assert_eq!(shown["required"], json!(["result"]));
            }
        }
    });
}

#[derive(Serialize, JsonSchema)]
struct Named {
    name: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
enum Either {
    Left(Named),
    Right(Named),
}

#[derive(Serialize, JsonSchema)]
enum Chain {
    End,
    Next(Box<Self>),
}

#[test]
fn schemas_stay_whole_when_they_are_put_into_an_object() {
    run(async {
        let server = Server::builder("s", "1")
            .tool(tool("either"), |_: NoArguments, _| async {
                Json([Either::Left, Either::Right].map(|either| either(Named { name: "x".into() })))
            })
            .tool(tool("chain"), |_: NoArguments, _| async { Json(Chain::Next(Box::new(Chain::End))) })
            .build()
            .unwrap();
        let client = in_version(&server, Version::V2025_11_25).await;
        let tools = client.list_tools().all().await.unwrap();
        let either = value(tools[0].output_schema.as_ref().unwrap());
        assert!(either["$defs"]["Named"].is_object(), "where its references lead: {either}");
        assert!(either["properties"]["result"].get("$defs").is_none());
        assert_eq!(tools[1].output_schema, None, "it speaks of itself, so it cannot be put into another");
        let result = call(&client, "chain", json!({})).await.unwrap();
        assert!(result["structuredContent"].is_object());
    });
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Widths {
    small: u8,
    some: Vec<Option<usize>>,
    known: i64,
}

#[test]
fn schemas_have_no_formats_that_only_rust_knows() {
    run(async {
        let server =
            Server::builder("s", "1").tool(tool("same"), |widths: Widths, _| async { Json(widths) }).build();
        let client = in_version(&server.unwrap(), Version::V2025_11_25).await;
        let tools = client.list_tools().all().await.unwrap();
        for schema in [&tools[0].input_schema, tools[0].output_schema.as_ref().unwrap()] {
            assert!(!schema.as_str().contains("uint"), "{schema}");
            assert!(schema.as_str().contains("int64"), "{schema}");
        }
    });
}

#[test]
fn content_that_a_revision_does_not_have_is_sent_as_text() {
    run(async {
        let server = Server::builder("s", "1")
            .tool(tool("link"), |_: NoArguments, _| async {
                Content::ResourceLink(ResourceLink::new("x://1", "one"))
            })
            .build()
            .unwrap();
        let old = in_version(&server, Version::V2025_03_26).await;
        assert_eq!(text(&call(&old, "link", json!({})).await.unwrap()), "x://1");
        let new = in_version(&server, Version::V2025_06_18).await;
        let result = call(&new, "link", json!({})).await.unwrap();
        assert_eq!(result["content"][0]["type"], "resource_link");
    });
}

#[test]
fn a_failure_becomes_what_it_is() {
    run(async {
        let server = Server::builder("s", "1")
            .tool(tool("own"), |_: NoArguments, _| async {
                Err::<String, _>(HandlerError::new("the disk is full"))
            })
            .tool(tool("io"), |_: NoArguments, _| async {
                Err(std::io::Error::other("gone"))?;
                Ok::<_, HandlerError>(())
            })
            .tool(tool("protocol"), |_: NoArguments, _| async {
                Err::<String, _>(ErrorObject::new(7, "seven"))
            })
            .tool(tool("result"), |_: NoArguments, _| async { CallToolResult::error("by hand") })
            .build()
            .unwrap();
        for era in BOTH_ERAS {
            let client = in_era(&server, era).await;
            for (name, said) in [("own", "the disk is full"), ("io", "gone"), ("result", "by hand")] {
                let result = call(&client, name, json!({})).await.unwrap();
                assert_eq!((text(&result), &result["isError"]), (said, &json!(true)));
            }
            let error = call(&client, "protocol", json!({})).await.unwrap_err();
            assert_eq!(error, ErrorObject::new(7, "seven"));
        }
    });
}

#[test]
fn b53_a_panic_ends_its_call_alone_and_keeps_its_words_to_itself() {
    run(async {
        let panics = async |_: NoArguments, _: mcpjoin::server::Context| -> String { panic!("secret") };
        let server = calculator()
            .tool(tool("here"), panics)
            .tool(tool("blocking"), blocking(|_: NoArguments, _| -> String { panic!("secret") }))
            .build()
            .unwrap();
        for era in BOTH_ERAS {
            let client = in_era(&server, era).await;
            for name in ["here", "blocking"] {
                let error = call(&client, name, json!({})).await.unwrap_err();
                assert_eq!(error.code, -32603, "{name}");
                assert!(!error.message.contains("secret") && error.data.is_none());
            }
            assert_eq!(text(&call(&client, "greet", json!({})).await.unwrap()), "hello");
        }
    });
}

#[test]
fn b53_a_handler_that_panics_when_it_is_dropped_ends_nothing_else() {
    struct Bomb(mpsc::UnboundedSender<()>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            let _ = self.0.send(());
            panic!("secret");
        }
    }
    run(async {
        let (dropped, mut drops) = mpsc::unbounded_channel();
        let server = calculator()
            .tool(tool("bomb"), move |_: NoArguments, _: mcpjoin::server::Context| {
                let bomb = Bomb(dropped.clone());
                async move {
                    let _bomb = bomb;
                    std::future::pending::<String>().await
                }
            })
            .build()
            .unwrap();
        for era in BOTH_ERAS {
            let client = in_era(&server, era).await;
            let left = tokio::time::timeout(Duration::from_millis(10), call(&client, "bomb", json!({})));
            assert!(left.await.is_err());
            drops.recv().await.unwrap();
            assert_eq!(text(&call(&client, "greet", json!({})).await.unwrap()), "hello");
        }
    });
}

#[test]
fn e94_a_panicking_a_blocking_and_a_never_ending_handler_beside_healthy_ones() {
    run(async {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let (started, mut starts) = mpsc::unbounded_channel();
        let server = calculator()
            .tool(tool("panics"), |_: NoArguments, _| async { panic!("on purpose") as String })
            .tool(tool("never"), |_: NoArguments, _| std::future::pending::<String>())
            .tool(
                tool("blocks"),
                blocking(move |_: NoArguments, _| {
                    started.send(()).unwrap();
                    // This blocks its thread until the test releases it.
                    held.lock().unwrap().recv().unwrap();
                    "done"
                }),
            )
            .build()
            .unwrap();
        let client = in_era(&server, mcpjoin::proto::Era::Legacy).await;
        let never = client.clone();
        let never = tokio::spawn(async move { call(&never, "never", json!({})).await });
        let blocks = client.clone();
        let blocks = tokio::spawn(async move { call(&blocks, "blocks", json!({})).await });
        starts.recv().await.unwrap();
        for a in 0..100 {
            assert_eq!(call(&client, "panics", json!({})).await.unwrap_err().code, -32603);
            let result = call(&client, "add", json!({ "a": a })).await.unwrap();
            assert_eq!(result["structuredContent"], json!({ "sum": a }));
        }
        release.send(()).unwrap();
        assert_eq!(text(&blocks.await.unwrap().unwrap()), "done");
        assert!(!never.is_finished());
        never.abort();
    });
}

#[test]
fn blocking_work_learns_that_its_caller_is_gone() {
    run(async {
        let (told, mut tells) = mpsc::unbounded_channel();
        let (begun, mut begins) = mpsc::unbounded_channel();
        let server = Server::builder("s", "1")
            .tool(
                tool("blocks"),
                blocking(move |_: NoArguments, cx: mcpjoin::server::Context| {
                    begun.send(()).unwrap();
                    while !cx.is_cancelled() {
                        std::thread::yield_now();
                    }
                    told.send(()).unwrap();
                }),
            )
            .build()
            .unwrap();
        let client = in_era(&server, mcpjoin::proto::Era::Modern).await;
        let calling = tokio::spawn(async move { call(&client, "blocks", json!({})).await });
        begins.recv().await.unwrap();
        calling.abort();
        tells.recv().await.unwrap();
    });
}

#[test]
fn dropped_log_messages_are_counted_and_reported() {
    let (tell, mut told) = mpsc::unbounded_channel();
    hearing(Told(tell), || {
        run(async {
            let mut limits = mcpjoin::proto::session::Limits::default();
            limits.queued_replies = 64 * 1024;
            let server = Server::builder("s", "1")
                .logging()
                .limits(limits)
                .tool(tool("talks"), |_: NoArguments, cx: mcpjoin::server::Context| async move {
                    // The connection sends nothing until the handler returns.
                    for _ in 0..1000 {
                        cx.log(LoggingLevel::Info, "x".repeat(1000));
                    }
                })
                .build()
                .unwrap();
            for era in BOTH_ERAS {
                let (received, mut receiver) = mpsc::unbounded_channel();
                let client =
                    builder().era(mcpjoin::proto::session::EraChoice::Only(era)).on_notification(move |_| {
                        received.send(()).unwrap();
                    });
                let client = connect(&server, client).await;
                client.set_level(LoggingLevel::Info).await.unwrap();
                client.call_tool("talks", ()).await.unwrap();
                let mut came = 0;
                while receiver.try_recv().is_ok() {
                    came += 1;
                }
                assert!((1..1000).contains(&came), "{came}");
                // On a busy machine there may be a line about a slow handler too.
                let line = loop {
                    let line = told.recv().await.unwrap();
                    if line.contains("log messages were dropped") {
                        break line;
                    }
                };
                assert!(line.contains(&format!("count: {}; ", 1000 - came)), "{came} came: {line}");
                client.close().await;
            }
            while let Ok(line) = told.try_recv() {
                assert!(!line.contains("dropped"), "once for all that were dropped at once: {line}");
            }
        });
    });
}

#[test]
fn progress_and_log_messages_go_with_their_request() {
    run(async {
        let server = Server::builder("s", "1")
            .logging()
            .tool(tool("works"), |_: NoArguments, cx: mcpjoin::server::Context| async move {
                cx.progress(0.5, Some(1.0), Some("half"));
                cx.log(LoggingLevel::Debug, "not wanted");
                cx.log_as(Some("part"), LoggingLevel::Error, json!({ "wanted": true }));
                tokio::task::yield_now().await;
            })
            .build()
            .unwrap();
        for era in BOTH_ERAS {
            let (received, mut receiver) = mpsc::unbounded_channel();
            let client = connect(
                &server,
                builder().era(mcpjoin::proto::session::EraChoice::Only(era)).on_notification(
                    move |notification| {
                        received.send(notification).unwrap();
                    },
                ),
            )
            .await;
            client.set_level(LoggingLevel::Error).await.unwrap();
            let mut calling = client.call_tool("works", ());
            let event = calling.next_event().await;
            let Some(CallEvent::Progress(progress)) = event else { panic!("{event:?}") };
            assert_eq!(
                (progress.progress, progress.total, progress.message.as_deref()),
                (0.5, Some(1.0), Some("half"))
            );
            calling.await.unwrap();
            let received = receiver.recv().await.unwrap();
            let params = value(received.params.as_ref().unwrap().raw());
            assert_eq!(
                (&params["level"], &params["logger"], &params["data"]),
                (&json!("error"), &json!("part"), &json!({ "wanted": true }))
            );
            assert!(receiver.try_recv().is_err());
        }
    });
}

#[test]
fn without_logging_nothing_is_logged_and_nothing_fails() {
    run(async {
        let server = Server::builder("s", "1")
            .tool(tool("logs"), |_: NoArguments, cx: mcpjoin::server::Context| async move {
                cx.log(LoggingLevel::Emergency, "nobody asked");
            })
            .build()
            .unwrap();
        let mut wire = Wire::opened(&server).await;
        let answer = wire.ask(&request(1, "tools/call", &json!({ "name": "logs" }))).await;
        assert_eq!(answer["result"]["content"], json!([]));
    });
}

#[test]
fn a_description_keeps_all_that_it_says() {
    run(async {
        let server = Server::builder("s", "1")
            .tool(
                tool("t")
                    .title("T")
                    .annotations(ToolAnnotations::default().with_idempotent_hint(true))
                    .read_only(),
                |_: Add, _| async {},
            )
            .build()
            .unwrap();
        let client = in_era(&server, mcpjoin::proto::Era::Modern).await;
        let tools = ask(&client, "tools/list", json!({})).await.unwrap();
        let tool = &tools["tools"][0];
        assert_eq!(tool["title"], "T");
        assert_eq!(tool["annotations"], json!({ "readOnlyHint": true, "idempotentHint": true }));
        assert_eq!(tool["inputSchema"]["type"], "object");
        assert_eq!(tool["inputSchema"]["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(tool["inputSchema"]["required"], json!(["a"]));
        assert_eq!(tool.get("outputSchema"), None);
    });
}

#[test]
fn what_cannot_be_a_tool_is_refused() {
    let typed = Server::builder("s", "1").tool(tool("n"), |_: i64, _| async {}).build();
    assert_eq!(typed.err(), Some(BuildError::ArgumentsAreNoObject { tool: "n".into() }));
    let given = Server::builder("s", "1").raw_tool(Tool::new("n", raw(&json!({}))), |_, _| async {}).build();
    assert_eq!(given.err(), Some(BuildError::ArgumentsAreNoObject { tool: "n".into() }));
    let twice = calculator().tool(tool("add"), |_: NoArguments, _| async {}).build();
    assert_eq!(twice.err(), Some(BuildError::Duplicate { list: "tools", name: "add".into() }));
}

#[test]
fn a_request_for_input_made_by_hand_comes_back_with_its_state() {
    run(async {
        let server = Server::builder("s", "1")
            .tool(tool("later"), |_: NoArguments, cx: mcpjoin::server::Context| async move {
                cx.request_state().ok_or_else(|| {
                    HandlerError::need_input(InputRequired::default().with_request_state("come again"))
                })
            })
            .build()
            .unwrap();
        let client = in_era(&server, mcpjoin::proto::Era::Modern).await;
        let result = client.call_tool("later", ()).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("come again"));
    });
}

#[test]
fn many_connections_are_served_at_once() {
    run(async {
        let server = calculator().build().unwrap();
        let mut clients = Vec::new();
        for number in 0..50 {
            let builder: ClientBuilder = builder();
            clients.push((number, connect(&server, builder).await));
        }
        for (number, client) in clients {
            let result: Value = call(&client, "add", json!({ "a": number })).await.unwrap();
            assert_eq!(result["structuredContent"]["sum"], number);
            tokio::time::timeout(Duration::from_secs(5), client.close()).await.unwrap();
        }
    });
}
