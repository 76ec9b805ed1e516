//! Tests of the schemas that a server shows to each client, and of arguments that are validated against them.

use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::Tool;
use mcpjoin::proto::{Era, Version};
use mcpjoin::server::{Json, SchemaProfile, Server, ServerBuilder, tool};
use mcpjoin::Client;
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
