//! Tools: their list, and calling one.

use mcpjoin_proto::Raw;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::types::{CallToolParams, Meta, Tool};

use super::offer::Offer;
use super::refusal::{Refusal, code};
use super::{Host, result};
use crate::value::{Numbers, Struct, ValueErrorKind};
use crate::wire::{ListToolsResponse, ToolDefinition, ToolRequest, ToolResponse};

impl Host {
    pub(super) async fn list_tools(&self) -> Result<ListToolsResponse, Refusal> {
        let inner = &*self.inner;
        let tools = inner.tools.list(&inner.offers, inner.limits.patience).await.some()?;
        Ok(ListToolsResponse { tools: tools.into_values().map(definition).collect() })
    }

    pub(super) async fn tool_call(&self, request: ToolRequest) -> Result<ToolResponse, Refusal> {
        let inner = &*self.inner;
        let offer = self.provider(&request).await?;
        let arguments = request.arguments.as_ref().map(|arguments| arguments_of(&request, arguments));
        let mut params = CallToolParams::new(request.tool_name.as_str());
        params.arguments = arguments.transpose()?;
        if !request.trace_parent.is_empty() {
            params.meta = Some(Meta::new().with(key::TRACEPARENT, Raw::string(&request.trace_parent)));
        }
        let client = offer.reached(inner.limits.patience).await?;
        // As the server sent it: blocks are handed on as they are.
        match client.call_tool_with(params).raw().await {
            Ok(result) => result::response(offer.name(), &result),
            Err(error) => {
                let refusal = Refusal::of(offer.name(), &error);
                // The server may have lost the tool since it was listed, and has only this way to say so.
                if refusal.code == code::VALIDATION && error.remote().is_some() {
                    let found = inner.tools.look(&inner.offers, &request.tool_name, inner.limits.patience);
                    if let Ok(None) = found.await {
                        return Err(not_found(&request));
                    }
                }
                Err(refusal)
            }
        }
    }

    /// The server that the call is for.
    async fn provider(&self, request: &ToolRequest) -> Result<&Offer, Refusal> {
        let inner = &*self.inner;
        let (name, patience) = (request.tool_name.as_str(), inner.limits.patience);
        let named = inner.offers.iter().rfind(|offer| offer.name() == request.provider);
        if let Some(offer) = named.filter(|_| !request.provider.is_empty()) {
            return if offer.permits(name) { Ok(offer) } else { Err(not_found(request)) };
        }
        inner.tools.find(&inner.offers, name, patience).await?.ok_or_else(|| not_found(request))
    }
}

/// The original's words.
fn not_found(request: &ToolRequest) -> Refusal {
    let mut message = format!("no plugin provides tool {:?}", request.tool_name);
    if !request.provider.is_empty() {
        message.push_str(&format!(" for provider {:?}", request.provider));
    }
    Refusal::new(code::TOOL_NOT_FOUND, message)
}

fn arguments_of(request: &ToolRequest, arguments: &Struct) -> Result<Raw, Refusal> {
    let wrong = |what: String| Refusal::new(code::VALIDATION, format!("invalid arguments: {what}"));
    let json = arguments.to_json().map_err(|error| wrong(error.to_string()))?;
    if let Some(path) = json.not_finite {
        return Err(wrong(format!("{path} is a number that JSON does not have (NaN or infinite)")));
    }
    if let Some(path) = json.beyond_exact {
        let (tool, caller) = (&request.tool_name, &request.caller_plugin);
        tracing::warn!(
            target: "mcpjoin", %tool, %caller,
            "the argument {path} is a whole number from 2^53 on: its sender may have rounded it"
        );
    }
    Ok(json.json)
}

fn definition(tool: Tool) -> ToolDefinition {
    let input_schema = match Struct::from_json(&tool.input_schema, Numbers::Exact) {
        Ok(schema) => Some(schema),
        Err(error) => {
            let name = &tool.name;
            tracing::warn!(target: "mcpjoin", tool = %name, "its input schema cannot be sent as it is: {error}");
            // A bound that is rounded still bounds; a tool without its schema cannot be called.
            let rounded = matches!(error.kind, ValueErrorKind::Rounded(_));
            rounded.then(|| Struct::from_json(&tool.input_schema, Numbers::Lossy).ok()).flatten()
        }
    };
    ToolDefinition { name: tool.name, description: tool.description.unwrap_or_default(), input_schema }
}
