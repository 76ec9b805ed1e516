//! Tests of the schemas that a server shows to each client, and of arguments that are validated against them.

use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::Tool;
use mcpjoin::proto::{Era, Version};
use mcpjoin::server::{Json, SchemaProfile, Server, ServerBuilder, tool};
use mcpjoin::{Client, server};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{BOTH_ERAS, call, connect, in_era, in_version, raw, run, text, value};

#[derive(Serialize, Deserialize, JsonSchema, Debug, PartialEq)]
struct Place {
    x: i64,
    name: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, PartialEq)]
struct Route {
    from: Place,
    to: Option<Place>,
    stops: Option<Vec<Place>>,
    speed: Option<f64>,
}

fn router() -> ServerBuilder {
    Server::builder("router", "1").tool(tool("route"), |route: Route, _| async move { Json(route) }).raw_tool(
        Tool::new(
            "raw",
            raw(&json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/a" } },
                "$defs": { "a": { "type": ["integer", "null"] } } })),
        ),
        |arguments, _| async move { arguments.as_str().to_owned() },
    )
}

fn for_gemini(builder: ServerBuilder) -> Server {
    let simple = |client: Option<&mcpjoin::proto::types::Implementation>| match client {
        Some(client) if client.name == "gemini" && client.version == "1" => SchemaProfile::simplest(),
        _ => SchemaProfile::new(),
    };
    builder.schema_profile(simple).build().unwrap()
}

async fn tools(client: &Client) -> Vec<Tool> {
    client.list_tools().all().await.unwrap()
}

async fn gemini(server: &Server, era: Era, version: &str) -> Client {
    connect(server, Client::builder("gemini", version).era(EraChoice::Only(era))).await
}

#[test]
fn each_client_is_shown_the_schemas_of_its_profile() {
    run(async {
        for (era, is_filtered) in BOTH_ERAS.into_iter().flat_map(|era| [(era, false), (era, true)]) {
            let builder = if is_filtered { router().visible_tools(|_, _| true) } else { router() };
            let server = for_gemini(builder);
            // The other client comes first and last: what is cached for one is not shown to the other.
            let plain = tools(&in_era(&server, era).await).await;
            let shown = tools(&gemini(&server, era, "1").await).await;
            let other = tools(&gemini(&server, era, "2").await).await;
            assert_eq!(plain[0].input_schema, other[0].input_schema);
            assert_eq!(plain[0].output_schema, other[0].output_schema);
            assert!(value(&plain[0].input_schema)["$defs"]["Place"].is_object());
            for schema in
                [&shown[0].input_schema, shown[0].output_schema.as_ref().unwrap(), &shown[1].input_schema]
            {
                for keyword in ["$ref", "$defs", "null", "format"] {
                    assert!(!schema.as_str().contains(keyword), "{era:?} {keyword}: {}", schema.as_str());
                }
            }
            let route = value(&shown[0].input_schema);
            let place = json!({ "type": "object", "required": ["x"],
                "properties": { "x": { "type": "integer" }, "name": { "type": "string" } } });
            assert_eq!(route["properties"]["from"], place);
            assert_eq!(route["properties"]["to"], place);
            assert_eq!(route["properties"]["stops"], json!({ "type": "array", "items": place }));
            assert_eq!(route["required"], json!(["from"]));
            assert_eq!(value(&shown[1].input_schema)["properties"], json!({ "a": { "type": "integer" } }));
        }
    });
}

/// Values of any kind, which the schema of their type says with `true`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Anything {
    any: Value,
    several: Vec<Value>,
    by_name: std::collections::HashMap<String, Value>,
}

#[test]
fn the_schema_of_a_property_that_may_have_any_value_is_an_object_in_all_revisions() {
    run(async {
        let server = Server::builder("s", "1")
            .tool(tool("echo"), |anything: Anything, _| async move { Json(anything) })
            .tool(tool("any"), |anything: Anything, _| async move { Json(anything.any) })
            .build()
            .unwrap();
        for version in Version::ALL {
            let client = if version.era() == Some(Era::Modern) {
                in_era(&server, Era::Modern).await
            } else {
                in_version(&server, version.clone()).await
            };
            for tool in tools(&client).await {
                for schema in [Some(&tool.input_schema), tool.output_schema.as_ref()].into_iter().flatten() {
                    let schema = value(schema);
                    let properties = schema["properties"].as_object().into_iter().flatten();
                    for (name, property) in properties {
                        assert!(property.is_object(), "{version} {}: {name} is {property}", tool.name);
                    }
                }
                assert_eq!(value(&tool.input_schema)["additionalProperties"], false);
            }
            let arguments = json!({ "any": [1, null], "several": [true, "x"], "by_name": { "a": {} } });
            let echoed = call(&client, "echo", arguments.clone()).await.unwrap();
            assert_eq!(serde_json::from_str::<Value>(text(&echoed)).unwrap(), arguments);
        }
    });
}

#[test]
fn arguments_and_results_by_a_simpler_schema_are_those_of_the_tool() {
    run(async {
        for era in BOTH_ERAS {
            let server = for_gemini(router());
            let client = gemini(&server, era, "1").await;
            let arguments = json!({ "from": { "x": 1 }, "to": { "x": 2, "name": "B" } });
            let result = call(&client, "route", arguments).await.unwrap();
            let expected = json!({ "from": { "x": 1, "name": null }, "to": { "x": 2, "name": "B" }, "stops": null, "speed": null });
            assert_eq!(result["structuredContent"], expected);
            // Those that the tool's own schema allows are accepted as well.
            assert_eq!(
                call(&client, "route", expected.clone()).await.unwrap()["structuredContent"],
                expected
            );
            let shown = tools(&client).await[0].output_schema.clone().unwrap();
            let nonconformity = mcpjoin_schema::nonconformity(&shown, &raw(&expected));
            assert_eq!(nonconformity, None, "{}", shown.as_str());
        }
    });
}

#[test]
fn a_profile_for_all_is_followed_in_all_revisions() {
    run(async {
        for version in Version::ALL {
            let server =
                router().schema_profile(|_| SchemaProfile::new().inline_references()).build().unwrap();
            let client = if version.era() == Some(Era::Modern) {
                in_era(&server, Era::Modern).await
            } else {
                in_version(&server, version.clone()).await
            };
            for tool in tools(&client).await {
                assert!(!tool.input_schema.as_str().contains("$ref"), "{version}");
                assert!(tool.input_schema.as_str().contains("null"), "{version}");
                assert_eq!(
                    tool.output_schema.is_some(),
                    tool.name == "route" && client.profile().structured_content
                );
                assert!(
                    tool.output_schema.is_none_or(|output| !output.as_str().contains("$ref")),
                    "{version}"
                );
            }
        }
    });
}

#[cfg(feature = "json-schema")]
mod validated {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use mcpjoin::proto::types::{ElicitAction, ElicitFormParams, ElicitResult, ElicitationSchema, Members};
    use mcpjoin::server::{Context, HandlerError, Result};

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    struct Order {
        #[schemars(range(min = 1, max = 10))]
        count: u32,
        #[schemars(length(max = 3), regex(pattern = "^[a-z]*$"))]
        #[serde(default)]
        name: String,
    }

    fn echo() -> Tool {
        Tool::new("echo", raw(&json!({ "type": "object", "properties": { "a": { "maximum": 5 } } })))
    }

    /// Calls a tool with arguments that it refuses, and returns what it says.
    async fn refused(client: &Client, tool: &str, arguments: Value) -> String {
        let result = call(client, tool, arguments).await.unwrap();
        assert_eq!(result["isError"], true, "{result}");
        text(&result).to_owned()
    }

    #[test]
    fn what_a_schema_promises_is_refused_in_every_revision_and_the_handler_does_not_run() {
        run(async {
            for version in Version::ALL {
                let ran = Arc::new(AtomicUsize::new(0));
                let counted = ran.clone();
                let server = Server::builder("s", "1")
                    .tool(tool("order").validate_arguments(), move |order: Order, _| {
                        counted.fetch_add(1, Ordering::Relaxed);
                        async move { format!("{} {}", order.count, order.name) }
                    })
                    .tool(tool("lax"), |order: Order, _| async move { order.count.to_string() })
                    .build()
                    .unwrap();
                let client = if version.era() == Some(Era::Modern) {
                    in_era(&server, Era::Modern).await
                } else {
                    in_version(&server, version.clone()).await
                };
                let few = refused(&client, "order", json!({ "count": 0 })).await;
                assert_eq!(few, "invalid arguments: count: 0 violates minimum: 1", "{version}");
                let both = refused(&client, "order", json!({ "count": 11, "name": "Abcd" })).await;
                for part in ["count: 11 violates maximum: 10", "violates maxLength: 3", "violates pattern"] {
                    assert!(both.contains(part), "{both}");
                }
                let absent = refused(&client, "order", json!({})).await;
                assert_eq!(absent, "invalid arguments: count: missing, violates required");
                assert_eq!(ran.load(Ordering::Relaxed), 0, "{version}");
                let good = call(&client, "order", json!({ "count": 10, "name": "abc" })).await.unwrap();
                assert_eq!(text(&good), "10 abc");
                // The tool beside it does not validate.
                assert_eq!(text(&call(&client, "lax", json!({ "count": 0 })).await.unwrap()), "0");
            }
        });
    }

    #[test]
    fn a_server_validates_the_arguments_of_all_tools_also_of_those_added_later() {
        run(async {
            for era in BOTH_ERAS {
                let server = Server::builder("s", "1")
                    .validate_arguments()
                    .dynamic_tools()
                    .tool(tool("order"), |order: Order, _| async move { order.count.to_string() })
                    .raw_tool(echo(), |arguments, _| async move { arguments.as_str().to_owned() })
                    .build()
                    .unwrap();
                server.handle().add_tool(tool("later"), |order: Order, _| async move { order.name }).unwrap();
                let mut raw_later = echo();
                raw_later.name = "raw_later".into();
                server.handle().add_raw_tool(raw_later, |_, _| async { "later" }).unwrap();
                let client = in_era(&server, era).await;
                for name in ["order", "later"] {
                    let said = refused(&client, name, json!({ "count": 0 })).await;
                    assert_eq!(said, "invalid arguments: count: 0 violates minimum: 1", "{name}");
                }
                for name in ["echo", "raw_later"] {
                    let said = refused(&client, name, json!({ "a": 6 })).await;
                    assert_eq!(said, "invalid arguments: a: 6 violates maximum: 5", "{name}");
                }
                assert_eq!(text(&call(&client, "echo", json!({ "a": 5.0 })).await.unwrap()), r#"{"a":5.0}"#);
            }
        });
    }

    #[test]
    fn arguments_beyond_the_work_are_refused_and_a_schema_that_does_not_compile_is_an_error() {
        run(async {
            let list = json!({ "type": "object", "properties": { "a": { "items": { "type": "integer" } } } });
            let bad = json!({ "type": "object", "properties": { "a": { "pattern": "(?=a)" } } });
            let server = Server::builder("s", "1")
                .validate_arguments()
                .raw_tool(Tool::new("list", raw(&list)), |_, _| async { "done" })
                .raw_tool(Tool::new("bad", raw(&bad)), |_, _| async { "done" })
                .build()
                .unwrap();
            for era in BOTH_ERAS {
                let client = in_era(&server, era).await;
                let said = refused(&client, "list", json!({ "a": vec![1; 100_000] })).await;
                assert_eq!(said, "invalid arguments: the value is too large to be validated");
                assert_eq!(
                    text(&call(&client, "list", json!({ "a": vec![1; 50_000] })).await.unwrap()),
                    "done"
                );
                for _ in 0..2 {
                    let error = call(&client, "bad", json!({})).await.unwrap_err();
                    assert_eq!(error.code, -32603);
                    assert!(
                        error.message.starts_with("the tool bad: the schema cannot be compiled: "),
                        "{error:?}"
                    );
                }
            }
        });
    }

    #[test]
    fn a_tool_that_asks_and_a_task_are_validated_too() {
        run(async {
            let server = Server::builder("s", "1")
                .tool(tool("asks").validate_arguments(), |order: Order, cx: Context| async move {
                    let question = ElicitFormParams::new("Sure?", ElicitationSchema::new(Members::new()));
                    let answer = cx.elicit(question).await?;
                    Ok::<_, HandlerError>(format!("{} {}", order.count, answer.action.as_str()))
                })
                .tool(tool("task").validate_arguments().as_task(), |order: Order, _| async move {
                    order.count.to_string()
                })
                .build()
                .unwrap();
            for era in BOTH_ERAS {
                let builder = Client::builder("test", "0").era(EraChoice::Only(era)).tasks(true);
                let builder = builder.elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Accept)) });
                let client = connect(&server, builder).await;
                let asked = client.call_tool("asks", json!({ "count": 3 })).await.unwrap();
                assert_eq!(asked.to_text(), "3 accept");
                for name in ["asks", "task"] {
                    let failed = client.call_tool(name, json!({ "count": 0 })).await.unwrap();
                    assert_eq!(failed.is_error, Some(true), "{name}");
                    assert_eq!(failed.to_text(), "invalid arguments: count: 0 violates minimum: 1", "{name}");
                }
                assert_eq!(client.call_tool("task", json!({ "count": 4 })).await.unwrap().to_text(), "4");
            }
        });
    }

    struct Shop;

    #[server::handlers]
    impl Shop {
        #[tool(validate)]
        fn order(&self, #[schemars(range(min = 1))] count: u32) -> Result<String> {
            Ok(count.to_string())
        }
    }

    #[test]
    fn a_method_with_validate_is_validated() {
        run(async {
            for era in BOTH_ERAS {
                let client = in_era(&Server::builder("s", "1").handlers(Shop).build().unwrap(), era).await;
                let said = refused(&client, "order", json!({ "count": 0 })).await;
                assert_eq!(said, "invalid arguments: count: 0 violates minimum: 1");
                assert_eq!(text(&call(&client, "order", json!({ "count": 1 })).await.unwrap()), "1");
            }
        });
    }
}
