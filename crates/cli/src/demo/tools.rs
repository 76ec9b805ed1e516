//! The tools, one for each thing that a tool can do.

use std::time::Duration;

use mcpjoin::proto::Raw;
use mcpjoin::proto::types::{
    AudioContent, CallToolResult, Content, CreateMessageParams, ElicitFormParams, ElicitationSchema,
    EmbeddedResource, ImageContent, LoggingLevel, Members, ResourceLink, Role, SamplingContent,
    SamplingMessage, StringSchema, TextResourceContents,
};
use mcpjoin::server::{Context, HandlerError, Json, NoArguments, ServerBuilder, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PICTURE, SOUND};

/// Between two log messages, and between two steps of progress.
const PAUSE: Duration = Duration::from_millis(50);

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

#[derive(Deserialize, JsonSchema)]
struct Sampling {
    /// What to ask the client's model
    prompt: String,
}

#[derive(Deserialize, JsonSchema)]
struct Elicitation {
    /// What to ask the client's user
    message: String,
}

/// Adds all of them.
pub(super) fn add(server: ServerBuilder) -> ServerBuilder {
    talking(contents(server))
}

/// Those that only give something.
fn contents(server: ServerBuilder) -> ServerBuilder {
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
                Content::from(
                    ResourceLink::new("test://static-text", "static-text").with_mime_type("text/plain"),
                )
            },
        )
        .tool(
            tool("test_multiple_content_types")
                .description("Gives a text, a picture and a resource")
                .read_only(),
            async |_: NoArguments, _| {
                vec![
                    Content::text("Multiple content types test:"),
                    picture(),
                    resource(
                        "test://mixed-content-resource",
                        "application/json",
                        r#"{"test":"data","value":123}"#,
                    ),
                ]
            },
        )
        .tool(tool("test_error_handling").description("Fails").read_only(), async |_: NoArguments, _| {
            CallToolResult::error("This tool intentionally returns an error for testing")
        })
}

/// Those that say something on the way, or ask.
fn talking(server: ServerBuilder) -> ServerBuilder {
    server
        .tool(
            tool("test_tool_with_logging").description("Sends three log messages").read_only(),
            async |_: NoArguments, cx: Context| {
                cx.log(LoggingLevel::Info, "Tool execution started");
                tokio::time::sleep(PAUSE).await;
                cx.log(LoggingLevel::Info, "Tool processing data");
                tokio::time::sleep(PAUSE).await;
                cx.log(LoggingLevel::Info, "Tool execution completed");
                "Tool with logging executed successfully"
            },
        )
        .tool(
            tool("test_tool_with_progress").description("Tells how far it is, three times").read_only(),
            async |_: NoArguments, cx: Context| {
                cx.progress(0.0, Some(100.0), Some("Begun"));
                tokio::time::sleep(PAUSE).await;
                cx.progress(50.0, Some(100.0), Some("Half done"));
                tokio::time::sleep(PAUSE).await;
                cx.progress(100.0, Some(100.0), Some("Done"));
                "Tool with progress executed successfully"
            },
        )
        .tool(tool("test_sampling").description("Asks the client's model").read_only(), sampling)
        .tool(tool("test_elicitation").description("Asks the client's user").read_only(), elicitation)
}

async fn sampling(arguments: Sampling, cx: Context) -> Result<String, HandlerError> {
    let asked = SamplingMessage::new(Role::User, SamplingContent::text(arguments.prompt));
    let answer = cx.sample(CreateMessageParams::new(vec![asked], 100)).await?;
    let text = answer.content.as_slice().iter().find_map(|content| match content {
        SamplingContent::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    Ok(format!("LLM response: {}", text.unwrap_or("(no text)")))
}

async fn elicitation(arguments: Elicitation, cx: Context) -> Result<String, HandlerError> {
    let mut fields = Members::new();
    fields.insert("username", StringSchema::default().with_title("Name").into());
    fields.insert("email", StringSchema::default().with_title("Address for mail").into());
    let form = ElicitationSchema::new(fields).with_required(["username".to_owned(), "email".to_owned()]);
    let answer = cx.elicit(ElicitFormParams::new(arguments.message, form)).await?;
    let content = answer.content.as_ref().map(Raw::from_value).transpose()?.unwrap_or_else(Raw::empty_object);
    Ok(format!("User response: action: {}, content: {content}", answer.action.as_str()))
}

fn picture() -> Content {
    Content::from(ImageContent::new(PICTURE, "image/png"))
}

fn resource(uri: &str, mime_type: &str, text: &str) -> Content {
    EmbeddedResource::new(TextResourceContents::new(uri, text).with_mime_type(mime_type)).into()
}
