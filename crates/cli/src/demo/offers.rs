//! Resources, a template, prompts, and proposals for the arguments of both.

use mcpjoin::proto::Raw;
use mcpjoin::proto::types::{
    BlobResourceContents, CompleteParams, Prompt, PromptArgument, PromptReference, Resource,
    ResourceTemplate, ResourceTemplateReference, TextResourceContents,
};
use mcpjoin::server::{PromptArguments, ReadRequest, ServerBuilder};

use super::PICTURE;

pub(super) const TEMPLATE: &str = "test://template/{id}/data";
pub(super) const PROMPT: &str = "test_prompt_with_arguments";
/// What is proposed where any value will do.
const PROPOSALS: [&str; 4] = ["hello", "help", "world", "wonder"];

/// Adds all of them.
pub(super) fn add(server: ServerBuilder) -> ServerBuilder {
    prompts(resources(server))
}

fn resources(server: ServerBuilder) -> ServerBuilder {
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
                let id = Raw::string(read.variable("id"));
                let text = format!(r#"{{"id":{id},"templateTest":true,"data":"Data for the id"}}"#);
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

fn prompts(server: ServerBuilder) -> ServerBuilder {
    let argument = |name: &str, description: &str| {
        PromptArgument::new(name).with_description(description).with_required(true)
    };
    server
        .prompt(
            Prompt::new("test_simple_prompt").with_description("A prompt without arguments"),
            async |_, _| "This is a simple prompt for testing.",
        )
        .prompt(
            Prompt::new(PROMPT)
                .with_description("A prompt with two arguments")
                .with_arguments([argument("arg1", "The first"), argument("arg2", "The second")]),
            async |arguments: PromptArguments, _| {
                let argument = |name: &str| arguments.get(name).map_or("", String::as_str).to_owned();
                format!("Prompt with arguments: arg1='{}', arg2='{}'", argument("arg1"), argument("arg2"))
            },
        )
        .completion(PromptReference::new(PROMPT), async |asked: CompleteParams, _| {
            PROPOSALS
                .iter()
                .filter(|word| word.starts_with(&asked.argument.value))
                .map(|word| (*word).to_owned())
                .collect::<Vec<String>>()
        })
}
