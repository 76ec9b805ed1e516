//! Prompts: lists them, and returns one with its arguments inserted.

use mcpjoin_proto::types::{Content, Prompt};

use super::Host;
use super::error::{RequestError, code};
use super::tools::text_of;
use crate::wire::{
    ContentBlock, ListPromptsResponse, PromptArgument, PromptDefinition, PromptGetRequest, PromptGetResponse,
    PromptMessage,
};

impl Host {
    pub(super) async fn list_prompts(&self) -> Result<ListPromptsResponse, RequestError> {
        let prompts = self.inner.prompts.list().await.any_items()?;
        Ok(ListPromptsResponse { prompts: prompts.into_values().map(definition).collect() })
    }

    pub(super) async fn prompt_get(
        &self,
        request: PromptGetRequest,
    ) -> Result<PromptGetResponse, RequestError> {
        let inner = &*self.inner;
        let PromptGetRequest { prompt_name, arguments } = request;
        let found = inner.prompts.find(&prompt_name).await?;
        let offer = found.ok_or_else(|| {
            RequestError::new(code::NOT_FOUND, format!("no plugin provides prompt {prompt_name:?}"))
        })?;
        let client = offer.reached(inner.limits.restart_wait).await?;
        // On the wire, no arguments and an empty map are the same.
        let arguments = if arguments.is_empty() { None } else { Some(arguments) };
        let got = client.get_prompt(prompt_name, arguments).await;
        let got = got.map_err(|error| RequestError::of(offer.name(), &error))?;
        let messages = got.messages.iter().map(|message| PromptMessage {
            role: message.role.as_str().to_owned(),
            content: Some(block(&message.content)),
        });
        Ok(PromptGetResponse {
            description: got.description.unwrap_or_default(),
            messages: messages.collect(),
        })
    }
}

fn definition(prompt: Prompt) -> PromptDefinition {
    let arguments = prompt.arguments.unwrap_or_default().into_iter().map(|argument| PromptArgument {
        name: argument.name,
        description: argument.description.unwrap_or_default(),
        required: argument.required.unwrap_or_default(),
    });
    PromptDefinition {
        name: prompt.name,
        description: prompt.description.unwrap_or_default(),
        arguments: arguments.collect(),
    }
}

fn block(content: &Content) -> ContentBlock {
    let kind = if matches!(content, Content::Resource(_)) { "resource" } else { "text" };
    ContentBlock { r#type: kind.to_owned(), text: text_of(content).into_owned() }
}
