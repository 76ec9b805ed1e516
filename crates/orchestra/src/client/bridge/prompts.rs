//! `prompts/list` and `prompts/get`.

use std::collections::BTreeMap;

use mcpjoin_proto::code::INVALID_PARAMS;
use mcpjoin_proto::types::{
    Content, EmbeddedResource, GetPromptResult, Prompt, PromptArgument, PromptMessage, Role,
    TextResourceContents,
};
use mcpjoin_proto::{ErrorObject, Raw};

use super::super::super::wire::{ContentBlock, PromptDefinition, PromptGetRequest};
use super::handler::{Call, exchange_error, to_raw};
use super::lists;

/// Orchestra's error codes for a wrong name or wrong arguments.
const REQUEST_ERROR_CODES: [&str; 2] = ["not_found", "validation_error"];

pub(super) async fn list(call: Call<'_>) -> Result<Raw, ErrorObject> {
    let prompts = call.shared.orchestrator.list_prompts().await;
    let prompts = prompts.map_err(|error| exchange_error("list_prompts", &error))?;
    let named = prompts.into_iter().filter(|prompt| !prompt.name.is_empty());
    let entries = named.map(entry).collect::<Result<Vec<_>, _>>()?;
    lists::page(&lists::sorted(entries), call.request, "prompts", call.shared.page)
}

fn entry(definition: PromptDefinition) -> Result<(String, Raw), ErrorObject> {
    let non_empty = |text: String| Some(text).filter(|text| !text.is_empty());
    let mut prompt = Prompt::new(definition.name.as_str());
    prompt.description = non_empty(definition.description);
    let arguments = definition.arguments.into_iter().map(|argument| {
        let mut shown = PromptArgument::new(argument.name);
        shown.description = non_empty(argument.description);
        shown.required = argument.required.then_some(true);
        shown
    });
    prompt.arguments = Some(arguments.collect()).filter(|arguments: &Vec<_>| !arguments.is_empty());
    Ok((definition.name, to_raw(&prompt)?))
}

pub(super) async fn get(call: Call<'_>) -> Result<Raw, ErrorObject> {
    let prompt_name = call.text("name")?;
    let arguments = call.request.params.as_ref().and_then(|params| params.arguments());
    let arguments: BTreeMap<String, String> = match arguments.filter(|given| *given != Raw::null()) {
        Some(given) => given
            .decode()
            .map_err(|error| ErrorObject::invalid_params(format!("invalid arguments: {error}")))?,
        None => BTreeMap::new(),
    };
    let request = PromptGetRequest { prompt_name, arguments };
    let filled = call.shared.orchestrator.prompt_get(request).await;
    let filled = filled.map_err(|error| {
        let mapped = exchange_error("prompt_get", &error);
        if REQUEST_ERROR_CODES.iter().any(|code| error.is_remote(code)) {
            return ErrorObject { code: INVALID_PARAMS, ..mapped };
        }
        mapped
    })?;
    if filled.messages.is_empty()
        && let Some(error) = error_in(&filled.description)
    {
        return Err(error);
    }
    let messages = filled.messages.into_iter().map(|message| {
        let role = if message.role == "assistant" { Role::Assistant } else { Role::User };
        PromptMessage::new(role, content(message.content.unwrap_or_default()))
    });
    let mut result = GetPromptResult::new(messages.collect());
    result.description = Some(filled.description).filter(|text| !text.is_empty());
    to_raw(&result)
}

/// The error in a description without messages. Orchestra's orchestrator and plugins have no other way to report one,
/// and use these fixed texts.
fn error_in(description: &str) -> Option<ErrorObject> {
    let is_unknown = description.starts_with("no plugin provides prompt \"")
        || (description.starts_with("prompt \"") && description.ends_with("\" not found"));
    let has_failed = description.starts_with("prompt handler error: ")
        || description.starts_with("failed to route prompt get to plugin ")
        || description == "plugin returned non-prompt-get response";
    if is_unknown {
        Some(ErrorObject::invalid_params(description))
    } else if has_failed {
        Some(ErrorObject::internal(format!("orchestrator prompt_get failed: {description}")))
    } else {
        None
    }
}

/// Converts a block. Blocks contain only text; one of type `resource` does not say which resource.
fn content(block: ContentBlock) -> Content {
    match block.r#type.as_str() {
        "resource" => {
            let contents = TextResourceContents::new("orchestra://prompt", block.text);
            Content::Resource(EmbeddedResource::new(contents))
        }
        _ => Content::text(block.text),
    }
}
