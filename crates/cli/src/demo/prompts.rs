//! Prompts, and proposals for their arguments.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/prompts>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion>

use mcpjoin::proto::types::{
    CompleteParams, Content, ElicitResult, InputRequests, Prompt, PromptArgument, PromptMessage,
    PromptReference, Role, StringSchema,
};
use mcpjoin::server::{Context, HandlerError, PromptArguments, ServerBuilder};

use super::content::{picture, resource};
use super::rounds::{ask, form, text_of};

/// The prompt whose arguments are completed.
pub(crate) const PROMPT: &str = "test_prompt_with_arguments";
/// What is proposed where any value will do.
const PROPOSALS: [&str; 4] = ["hello", "help", "world", "wonder"];

/// Adds the chapter.
pub(super) fn add(server: ServerBuilder) -> ServerBuilder {
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
                let (first, second) = (given(&arguments, "arg1"), given(&arguments, "arg2"));
                format!("Prompt with arguments: arg1='{first}', arg2='{second}'")
            },
        )
        .completion(PromptReference::new(PROMPT), async |asked: CompleteParams, _| {
            PROPOSALS
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

/// What the user says.
fn said(text: &str) -> PromptMessage {
    PromptMessage::new(Role::User, Content::text(text))
}

/// An argument that the prompt declares as required: the library has seen to it that it is there.
fn given<'a>(arguments: &'a PromptArguments, name: &str) -> &'a str {
    arguments.get(name).map_or("", String::as_str)
}
