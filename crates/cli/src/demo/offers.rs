//! Resources, prompts and completion, and tools that change these lists while the server runs.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/resources>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/prompts>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions>.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcpjoin::proto::Raw;
use mcpjoin::proto::types::{
    BlobResourceContents, CompleteParams, Content, ElicitResult, InputRequests, Prompt, PromptArgument,
    PromptMessage, PromptReference, Resource, ResourceTemplate, ResourceTemplateReference, Role,
    StringSchema, TextResourceContents,
};
use mcpjoin::server::{
    Context, HandlerError, NoArguments, PromptArguments, ReadRequest, ServerBuilder, tool,
};

use super::rounds::{ask, form, text_of};
use super::tools::{picture, resource};
use super::{PICTURE, read_only};

/// The template of resources.
pub(crate) const TEMPLATE: &str = "test://template/{id}/data";
/// The prompt whose arguments are completed.
pub(crate) const PROMPT_WITH_ARGUMENTS: &str = "test_prompt_with_arguments";
/// The completions, since any value is valid.
const COMPLETIONS: [&str; 4] = ["hello", "help", "world", "wonder"];
/// The tool that is added and removed.
pub(crate) const ADDED_TOOL: &str = "test_added_tool";
/// The prompt that is added and removed.
pub(crate) const ADDED_PROMPT: &str = "test_added_prompt";
/// The resource that changes.
pub(crate) const WATCHED_RESOURCE: &str = "test://watched-resource";

/// Adds the resources, the prompts, and the tools that change the lists.
pub(super) fn add(server: ServerBuilder) -> ServerBuilder {
    add_changes(add_prompts(add_resources(server)))
}

fn add_resources(server: ServerBuilder) -> ServerBuilder {
    server
        .resource(
            Resource::new("test://static-text", "static-text")
                .with_description("A text that does not change")
                .with_mime_type("text/plain"),
            async |_, _| "This is the content of the static text resource.",
        )
        .resource(
            Resource::new("test://static-binary", "static-binary")
                .with_description("A picture that does not change")
                .with_mime_type("image/png"),
            async |read: ReadRequest, _| {
                BlobResourceContents::new(read.uri, PICTURE).with_mime_type("image/png")
            },
        )
        .resource_template(
            ResourceTemplate::new(TEMPLATE, "template")
                .with_description("Data for any id")
                .with_mime_type("application/json"),
            async |read: ReadRequest, _| {
                // The id comes from the client, so it is encoded as a JSON string.
                let id = read.variable("id");
                let (id, data) = (Raw::string(id), Raw::string(&format!("Data for ID: {id}")));
                let text = format!(r#"{{"id":{id},"templateTest":true,"data":{data}}}"#);
                TextResourceContents::new(read.uri, text).with_mime_type("application/json")
            },
        )
        .completion(ResourceTemplateReference::new(TEMPLATE), async |asked: CompleteParams, _| {
            (1..=100)
                .map(|id| id.to_string())
                .filter(|id| id.starts_with(&asked.argument.value))
                .collect::<Vec<String>>()
        })
}

fn add_prompts(server: ServerBuilder) -> ServerBuilder {
    let argument = |name: &str, description: &str| {
        PromptArgument::new(name).with_description(description).with_required(true)
    };
    server
        .prompt(
            Prompt::new("test_simple_prompt").with_description("A prompt without arguments"),
            async |_, _| "This is a simple prompt for testing.",
        )
        .prompt(
            Prompt::new(PROMPT_WITH_ARGUMENTS)
                .with_description("A prompt with two arguments")
                .with_arguments([argument("arg1", "The first"), argument("arg2", "The second")]),
            async |arguments: PromptArguments, _| {
                let (first, second) = (given(&arguments, "arg1"), given(&arguments, "arg2"));
                format!("Prompt with arguments: arg1='{first}', arg2='{second}'")
            },
        )
        .completion(PromptReference::new(PROMPT_WITH_ARGUMENTS), async |asked: CompleteParams, _| {
            COMPLETIONS
                .iter()
                .filter(|word| word.starts_with(&asked.argument.value))
                .map(|word| (*word).to_owned())
                .collect::<Vec<String>>()
        })
        .prompt(
            Prompt::new("test_prompt_with_embedded_resource")
                .with_description("A prompt with a resource in it")
                .with_arguments([argument("resourceUri", "The address that the resource is to have")]),
            async |arguments: PromptArguments, _| {
                let uri = given(&arguments, "resourceUri");
                let embedded = resource(uri, "text/plain", "Embedded resource content for testing.");
                vec![
                    PromptMessage::new(Role::User, embedded),
                    said("Please process the embedded resource above."),
                ]
            },
        )
        .prompt(
            Prompt::new("test_prompt_with_image").with_description("A prompt with a picture in it"),
            async |_, _| {
                vec![PromptMessage::new(Role::User, picture()), said("Please analyze the image above.")]
            },
        )
        .prompt(
            Prompt::new("test_input_required_result_prompt")
                .with_description("A prompt that asks the user before it is given"),
            asking,
        )
}

async fn asking(_: PromptArguments, cx: Context) -> Result<String, HandlerError> {
    match cx.input_response::<ElicitResult>("user_context")? {
        Some(answer) => Ok(format!("A prompt for this context: {}", text_of(&answer, "context"))),
        None => {
            let context =
                form("What context should the prompt use?", "context", StringSchema::default().into());
            Err(ask(InputRequests::new().with("user_context", context)))
        }
    }
}

/// A text message of the user.
fn said(text: &str) -> PromptMessage {
    PromptMessage::new(Role::User, Content::text(text))
}

/// The value of a required argument. The library has refused the request where it is missing.
fn given<'a>(arguments: &'a PromptArguments, name: &str) -> &'a str {
    arguments.get(name).map_or("", String::as_str)
}

/// Tools that change what the server offers while it runs. Every client is notified in the way of its era.
fn add_changes(server: ServerBuilder) -> ServerBuilder {
    let version = Arc::new(AtomicU64::new(1));
    let updated = version.clone();
    server
        .dynamic_tools()
        .dynamic_prompts()
        .subscriptions()
        .tool(
            tool("test_trigger_tool_change").description("Adds a tool to the list, or takes it away again"),
            tool_change,
        )
        .tool(
            tool("test_trigger_prompt_change")
                .description("Adds a prompt to the list, or takes it away again"),
            prompt_change,
        )
        .tool(
            tool("test_trigger_resource_update").description("Changes the resource that can be watched"),
            move |_: NoArguments, cx: Context| {
                let version = 1 + updated.fetch_add(1, Ordering::Relaxed);
                cx.server().notify_resource_updated(WATCHED_RESOURCE);
                async move { format!("{WATCHED_RESOURCE} has version {version}") }
            },
        )
        .resource(
            Resource::new(WATCHED_RESOURCE, "watched-resource")
                .with_description("A text that changes when test_trigger_resource_update is called")
                .with_mime_type("text/plain"),
            move |_, _| {
                let version = version.load(Ordering::Relaxed);
                async move { format!("Watched resource, version {version}") }
            },
        )
}

async fn tool_change(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    let server = cx.server();
    if server.remove_tool(ADDED_TOOL)? {
        return Ok(format!("{ADDED_TOOL} is gone"));
    }
    let added = read_only(ADDED_TOOL, "Was added while the server ran");
    server.add_tool(added, async |_: NoArguments, _| "Here since test_trigger_tool_change was called")?;
    Ok(format!("{ADDED_TOOL} is there"))
}

async fn prompt_change(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    let server = cx.server();
    if server.remove_prompt(ADDED_PROMPT)? {
        return Ok(format!("{ADDED_PROMPT} is gone"));
    }
    let added = Prompt::new(ADDED_PROMPT).with_description("Was added while the server ran");
    server.add_prompt(added, async |_, _| "Here since test_trigger_prompt_change was called")?;
    Ok(format!("{ADDED_PROMPT} is there"))
}
