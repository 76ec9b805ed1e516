//! Tools that give something: each kind of content, a structured result, a failure.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool-result>

use mcpjoin::proto::types::{
    AudioContent, CallToolResult, Content, EmbeddedResource, ImageContent, ResourceLink, TextResourceContents,
};
use mcpjoin::server::{Json, NoArguments, ServerBuilder, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PICTURE, SOUND};

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to say
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The one
    a: f64,
    /// The other
    b: f64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    /// Both together
    sum: f64,
}

/// Adds the chapter.
pub(super) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(tool("echo").description("Says what it is told").read_only(), async |echo: Echo, _| {
            echo.message
        })
        .tool(
            tool("add").description("Adds two numbers, as a structured result").read_only(),
            async |numbers: Add, _| Json(Sum { sum: numbers.a + numbers.b }),
        )
        .tool(
            tool("test_simple_text").description("Gives a text").read_only(),
            async |_: NoArguments, _| "This is a simple text response for testing.",
        )
        .tool(
            tool("test_image_content").description("Gives a picture").read_only(),
            async |_: NoArguments, _| picture(),
        )
        .tool(
            tool("test_audio_content").description("Gives a sound").read_only(),
            async |_: NoArguments, _| Content::from(AudioContent::new(SOUND, "audio/wav")),
        )
        .tool(
            tool("test_embedded_resource").description("Gives a resource with its contents").read_only(),
            async |_: NoArguments, _| {
                resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
            },
        )
        .tool(
            tool("test_resource_link").description("Gives the address of a resource").read_only(),
            async |_: NoArguments, _| {
                let link = ResourceLink::new("test://static-text", "static-text");
                Content::from(link.with_mime_type("text/plain"))
            },
        )
        .tool(
            tool("test_multiple_content_types")
                .description("Gives a text, a picture and a resource")
                .read_only(),
            async |_: NoArguments, _| {
                let data = r#"{"test":"data","value":123}"#;
                vec![
                    Content::text("Multiple content types test:"),
                    picture(),
                    resource("test://mixed-content-resource", "application/json", data),
                ]
            },
        )
        .tool(tool("test_error_handling").description("Fails").read_only(), async |_: NoArguments, _| {
            CallToolResult::error("This tool intentionally returns an error for testing")
        })
}

/// A picture.
pub(super) fn picture() -> Content {
    ImageContent::new(PICTURE, "image/png").into()
}

/// A resource with its contents.
pub(super) fn resource(uri: &str, mime_type: &str, text: &str) -> Content {
    EmbeddedResource::new(TextResourceContents::new(uri, text).with_mime_type(mime_type)).into()
}
