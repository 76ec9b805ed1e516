//! JSON Schemas of tools are nobody's to change, to follow or to understand: they pass as they are, in both directions.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic#json-schema-usage>

use mcpjoin::proto::Raw;
use mcpjoin::proto::session::Ask;
use mcpjoin::proto::{Era, types::PageParams};
use mcpjoin::server::{Json, tool};
use mcpjoin::{Client, Link, Server};

/// What a reader that understood it would be tempted to change: the order of members, white space, numbers that no float
/// holds, escapes, keywords of 2020-12, of other drafts and of nobody, references to everywhere.
const SCHEMA: &str = concat!(
    r#"{ "$schema":"https://json-schema.org/draft/2020-12/schema","$id":"http://127.0.0.1:9/a","type":"object","#,
    r##""z":1.50,"a":-0, "properties":{"n":{"type":"number","maximum":1E400,"multipleOf":0.10},"##,
    r##""b":{"$ref":"#/$defs/B"},"c":{"$dynamicRef":"#x"},"d":{"$ref":"http://127.0.0.1:9/d.json"},"##,
    r#""e":{"$ref":"file:///etc/passwd"},"\u00e4\/":{"const":9007199254740993}},"#,
    r##""$defs":{"B":true,"x":{"$dynamicAnchor":"x"}},"unevaluatedProperties":false,"dependentRequired":{"n":["b"]},"##,
    r#""if":{"required":["n"]},"then":{"prefixItems":[]},"definitions":{},"nullable":true,"x-own":[ ]}"#
);

/// A server whose tools have this schema, and a client of this era, over bytes.
async fn pair(era: Era) -> Client {
    let schema = || Raw::parse(SCHEMA).expect("JSON");
    let described = |mut tool: mcpjoin::proto::types::Tool| {
        tool.input_schema = schema();
        tool.output_schema = Some(schema());
        tool
    };
    let server = Server::builder("schemas", "1.0.0")
        .tool(tool("t").describe(described), |arguments: serde_json::Value, _| async move { Json(arguments) })
        .build()
        .expect("a server");
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let link = |stream| {
        let (reader, writer) = tokio::io::split(stream);
        Link::stream(reader, writer, "duplex")
    };
    server.connect(link(theirs));
    Client::builder("c", "1").ask(Ask::Only(era)).connect(link(ours)).await.expect("connects")
}

#[tokio::test]
async fn s10_schemas_come_out_as_they_went_in() {
    for era in [Era::Legacy, Era::Modern] {
        let client = pair(era).await;
        let listed = client.list_tools().all().await.expect("a list").remove(0);
        let page = client.list_tools_page(PageParams::new()).await.expect("a page").tools.remove(0);
        for tool in [listed, page] {
            assert_eq!(tool.input_schema.as_str(), SCHEMA, "{era:?}");
            assert_eq!(tool.output_schema.expect("a schema").as_str(), SCHEMA, "{era:?}");
        }
        let raw = client.send_request("tools/list", None).await.expect("a result");
        assert!(raw.as_str().contains(&format!(r#""inputSchema":{SCHEMA}"#)), "{era:?}: {}", raw.as_str());
    }
}
