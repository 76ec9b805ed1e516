//! Tools that respond by themselves: each kind of content, log messages and progress, and schemas with more than names and types.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/tools>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress>. The library sends log messages and progress
//! only to clients that have asked for them.

use mcpjoin::proto::Raw;
use mcpjoin::proto::types::{
    AudioContent, CallToolResult, Content, EmbeddedResource, ImageContent, LoggingLevel, ResourceLink,
    TextResourceContents, Tool, ToolAnnotations,
};
use mcpjoin::server::{Context, HandlerError, NoArguments, ServerBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::sleep;

use super::{PAUSE, PICTURE, SOUND, read_only};

/// Adds the tools for content, log messages and progress.
pub(super) fn add(server: ServerBuilder) -> ServerBuilder {
    let server = server
        .tool(
            read_only("test_simple_text", "Gives a text"),
            async |_: NoArguments, _| "This is a simple text response for testing.",
        )
        .tool(read_only("test_image_content", "Gives a picture"), async |_: NoArguments, _| picture())
        .tool(read_only("test_audio_content", "Gives a sound"), async |_: NoArguments, _| {
            Content::from(AudioContent::new(SOUND, "audio/wav"))
        })
        .tool(
            read_only("test_embedded_resource", "Gives a resource with its contents"),
            async |_: NoArguments, _| {
                resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
            },
        )
        .tool(
            read_only("test_resource_link", "Gives the address of a resource"),
            async |_: NoArguments, _| {
                let link = ResourceLink::new("test://static-text", "static-text");
                Content::from(link.with_mime_type("text/plain"))
            },
        )
        .tool(
            read_only("test_multiple_content_types", "Gives a text, a picture and a resource"),
            async |_: NoArguments, _| {
                let data = r#"{"test":"data","value":123}"#;
                vec![
                    Content::text("Multiple content types test:"),
                    picture(),
                    resource("test://mixed-content-resource", "application/json", data),
                ]
            },
        )
        .tool(read_only("test_error_handling", "Fails"), async |_: NoArguments, _| {
            CallToolResult::error("This tool intentionally returns an error for testing")
        });
    server
        .logging()
        .tool(
            read_only("test_tool_with_logging", "Sends three log messages"),
            async |_: NoArguments, cx: Context| {
                cx.log(LoggingLevel::Info, "Tool execution started");
                sleep(PAUSE).await;
                cx.log(LoggingLevel::Info, "Tool processing data");
                sleep(PAUSE).await;
                cx.log(LoggingLevel::Info, "Tool execution completed");
                "Tool with logging executed successfully"
            },
        )
        .tool(
            read_only("test_logging_tool", "Sends a log message of each of three levels"),
            async |_: NoArguments, cx: Context| {
                for level in [LoggingLevel::Debug, LoggingLevel::Info, LoggingLevel::Warning] {
                    let text = format!("A message of the level {}", level.as_str());
                    cx.log_as(Some("demo"), level, text);
                }
                "Clients that wanted messages of these levels have them"
            },
        )
        .tool(
            read_only("test_tool_with_progress", "Tells how far it is, three times"),
            async |_: NoArguments, cx: Context| {
                cx.progress(0.0, Some(100.0), Some("Begun"));
                sleep(PAUSE).await;
                cx.progress(50.0, Some(100.0), Some("Half done"));
                sleep(PAUSE).await;
                cx.progress(100.0, Some(100.0), Some("Done"));
                "Tool with progress executed successfully"
            },
        )
        .tool(
            read_only(
                "test_reconnection",
                "Closes the stream of the call, where there is one, and gives its result a little later",
            ),
            async |_: NoArguments, cx: Context| {
                sleep(PAUSE).await;
                cx.close_sse_stream();
                sleep(2 * PAUSE).await;
                "The result has arrived, over whichever stream"
            },
        )
}

pub(super) fn picture() -> Content {
    ImageContent::new(PICTURE, "image/png").into()
}

/// A resource with its contents.
pub(super) fn resource(uri: &str, mime_type: &str, text: &str) -> Content {
    EmbeddedResource::new(TextResourceContents::new(uri, text).with_mime_type(mime_type)).into()
}

/// A schema that the client gets unchanged, with every keyword.
const CONTACT: &str = r##"{
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } }
        }
    },
    "properties": {
        "name": { "type": "string" },
        "address": { "$ref": "#/$defs/address" },
        "contactMethod": { "type": "string", "enum": ["phone", "email"] },
        "phone": { "type": "string" },
        "email": { "type": "string" }
    },
    "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
    "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
    "then": { "required": ["phone"] },
    "else": { "required": ["email"] },
    "additionalProperties": false
}"##;

/// The arguments of that schema. The handler checks again what only the schema expresses.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Contact {
    name: Option<String>,
    address: Option<Address>,
    contact_method: Option<ContactMethod>,
    phone: Option<String>,
    email: Option<String>,
}

#[derive(Deserialize)]
struct Address {
    city: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ContactMethod {
    Phone,
    Email,
}

#[derive(Deserialize, JsonSchema)]
struct Routed {
    /// Where the call is to be handled. Over HTTP it also goes into the header `Mcp-Param-Region`, for proxies
    /// that route the call without reading it
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

/// Adds the tools whose schemas have more than names and types.
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters>
pub(super) fn add_with_schemas(server: ServerBuilder) -> ServerBuilder {
    let schema = Raw::parse(CONTACT).expect("the constant above is JSON");
    let contact = Tool::new("json_schema_2020_12_tool", schema)
        .with_description("Says how somebody can be reached; its schema uses what JSON Schema 2020-12 has")
        .with_annotations(ToolAnnotations::default().with_read_only_hint(true));
    server.raw_tool(contact, async |arguments: Raw, _| reach(&arguments.decode()?)).tool(
        read_only("test_custom_header", "Takes an argument that HTTP repeats in a header"),
        async |routed: Routed, _| format!("Handled in {}", routed.region),
    )
}

fn reach(contact: &Contact) -> Result<String, HandlerError> {
    let way = match (&contact.contact_method, &contact.phone, &contact.email) {
        (Some(ContactMethod::Phone), Some(phone), _) => phone,
        (Some(ContactMethod::Phone), None, _) => return Err(HandlerError::new("`phone` is missing")),
        (Some(ContactMethod::Email) | None, _, Some(email)) => email,
        (Some(ContactMethod::Email) | None, _, None) => return Err(HandlerError::new("`email` is missing")),
    };
    let name = contact.name.as_deref().unwrap_or("Somebody");
    let city = contact.address.as_ref().and_then(|address| address.city.as_deref());
    Ok(match city {
        Some(city) => format!("{name} in {city} can be reached at {way}"),
        None => format!("{name} can be reached at {way}"),
    })
}
