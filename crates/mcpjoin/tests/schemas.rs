//! Tests that the JSON Schemas of tools pass unchanged in both directions: the library neither interprets them nor follows
//! their references.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic#json-schema-usage>

use std::borrow::Cow;

use mcpjoin::proto::Era;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::PageParams;
use mcpjoin::server::{Json, tool};
use mcpjoin::{Client, Link, Server};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

/// Properties that a parser could change: the order of members, white space, numbers beyond the precision of floats,
/// escapes, keywords of 2020-12, of other drafts and of no draft, and references to various places.
const SCHEMA: &str = concat!(
    r#"{ "$schema":"https://json-schema.org/draft/2020-12/schema","$id":"http://127.0.0.1:9/a","type":"object","#,
    r##""z":1.50,"a":-0, "properties":{"n":{"type":"number","maximum":1E400,"multipleOf":0.10},"##,
    r##""b":{"$ref":"#/$defs/B"},"c":{"$dynamicRef":"#x"},"d":{"$ref":"http://127.0.0.1:9/d.json"},"##,
    r#""e":{"$ref":"file:///etc/passwd"},"\u00e4\/":{"const":9007199254740993}},"#,
    r##""$defs":{"B":true,"x":{"$dynamicAnchor":"x"}},"unevaluatedProperties":false,"dependentRequired":{"n":["b"]},"##,
    r#""if":{"required":["n"]},"then":{"prefixItems":[]},"definitions":{},"nullable":true,"x-own":[ ]}"#
);

/// A client of this era whose server is scripted.
async fn client(era: Era) -> Client {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reader, writer) = tokio::io::split(ours);
    tokio::spawn(async move {
        let (reader, mut writer) = tokio::io::split(theirs);
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let request: Value = serde_json::from_str(&line).expect("a client writes JSON");
            let result = match request["method"].as_str() {
                Some("server/discover") => {
                    r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}"#.into()
                }
                Some("initialize") => {
                    r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#.into()
                }
                Some("tools/list") => format!(
                    r#"{{"tools":[{{"name":"t","inputSchema":{SCHEMA},"outputSchema":{SCHEMA}}}],"resultType":"complete"}}"#
                ),
                _ => continue,
            };
            let reply = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\n", request["id"]);
            writer.write_all(reply.as_bytes()).await.expect("the client reads");
        }
    });
    let link = Link::stream(reader, writer, "duplex");
    Client::builder("c", "1").era(EraChoice::Only(era)).connect(link).await.expect("connects")
}

#[tokio::test]
async fn s10_schemas_come_out_as_they_went_in() {
    for era in [Era::Legacy, Era::Modern] {
        let client = client(era).await;
        let listed = client.list_tools().all().await.expect("a list").remove(0);
        let page = client.list_tools().page(PageParams::new()).await.expect("a page").tools.remove(0);
        for tool in [listed, page] {
            assert_eq!(tool.input_schema.as_str(), SCHEMA, "{era:?}");
            assert_eq!(tool.output_schema.expect("a schema").as_str(), SCHEMA, "{era:?}");
        }
        let raw = client.send_request("tools/list", None).await.expect("a result");
        assert!(raw.as_str().contains(&format!(r#""inputSchema":{SCHEMA}"#)), "{era:?}: {}", raw.as_str());
    }
}

/// Arguments whose type supplies its own schema.
#[derive(serde::Deserialize, serde::Serialize)]
struct Described {}

fn described() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "http://127.0.0.1:9/a", "type": "object",
        "properties": {"b": {"$ref": "#/$defs/B"}, "c": {"$dynamicRef": "#x"}, "d": {"$ref": "http://127.0.0.1:9/d"},
            "e": {"$ref": "file:///etc/passwd"}, "n": {"const": 9_007_199_254_740_993_u64, "multipleOf": 0.5}},
        "$defs": {"B": true, "x": {"$dynamicAnchor": "x"}}, "unevaluatedProperties": false,
        "dependentRequired": {"n": ["b"]}, "if": {"required": ["n"]}, "then": {"prefixItems": [{}]}, "x-own": []
    })
}

impl JsonSchema for Described {
    fn schema_name() -> Cow<'static, str> {
        "Described".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        described().try_into().expect("a schema")
    }
}

#[tokio::test]
async fn s10_a_server_sends_every_keyword_of_its_schemas() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Server::builder("schemas", "1.0.0")
            .tool(tool("t"), |arguments: Described, _| async move { Json(arguments) })
            .build()
            .expect("a server");
        let (ours, theirs) = Link::memory();
        server.connect(theirs);
        let client =
            Client::builder("c", "1").era(EraChoice::Only(era)).connect(ours).await.expect("connects");
        let tool = client.list_tools().all().await.expect("a list").remove(0);
        for schema in [Some(tool.input_schema), tool.output_schema] {
            let mut schema: Value = schema.expect("a schema").decode().expect("JSON");
            schema.as_object_mut().expect("an object").remove("title");
            assert_eq!(schema, described(), "{era:?}");
        }
    }
}
