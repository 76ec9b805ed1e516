//! Tools: lists them, calls them, and converts their results to the three forms in [`host`](super).

use std::borrow::Cow;

use mcpjoin_proto::Raw;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::types::{CallToolParams, Content, Meta, ResourceContents, Tool};
use serde::{Deserialize, Serialize};

use super::Host;
use super::error::{RequestError, code};
use super::offer::Offer;
use crate::value::{Numbers, Struct, ValueError, ValueErrorKind};
use crate::wire::{ListToolsResponse, ToolDefinition, ToolRequest, ToolResponse};

impl Host {
    pub(super) async fn list_tools(&self) -> Result<ListToolsResponse, RequestError> {
        let tools = self.inner.tools.list().await.any_items()?;
        Ok(ListToolsResponse { tools: tools.into_values().map(definition).collect() })
    }

    pub(super) async fn tool_call(&self, request: ToolRequest) -> Result<ToolResponse, RequestError> {
        let inner = &*self.inner;
        let offer = self.provider(&request).await?;
        let arguments = request.arguments.as_ref().map(|arguments| arguments_of(&request, arguments));
        let mut params = CallToolParams::new(request.tool_name.as_str());
        params.arguments = arguments.transpose()?;
        if !request.trace_parent.is_empty() {
            params.meta = Some(Meta::new().with(key::TRACEPARENT, Raw::string(&request.trace_parent)));
        }
        let client = offer.reached(inner.limits.restart_wait).await?;
        // The raw result, because blocks are passed on unchanged.
        match client.call_tool_with(params).raw().await {
            Ok(result) => response(offer.name(), &result),
            Err(error) => {
                let failed = RequestError::of(offer.name(), &error);
                // The server may have removed the tool since it was listed, and this error is its only way to say so.
                if failed.code == code::VALIDATION
                    && error.remote().is_some()
                    && let Ok(None) = inner.tools.refresh_and_find(&request.tool_name).await
                {
                    return Err(not_found(&request));
                }
                Err(failed)
            }
        }
    }

    /// The server for a call.
    async fn provider(&self, request: &ToolRequest) -> Result<&Offer, RequestError> {
        let inner = &*self.inner;
        let name = request.tool_name.as_str();
        let named = inner.offers.iter().rfind(|offer| offer.name() == request.provider);
        if let Some(offer) = named.filter(|_| !request.provider.is_empty()) {
            return if offer.permits(name) { Ok(offer) } else { Err(not_found(request)) };
        }
        inner.tools.find(name).await?.ok_or_else(|| not_found(request))
    }
}

/// The text is that of Orchestra's own orchestrator.
fn not_found(request: &ToolRequest) -> RequestError {
    let mut message = format!("no plugin provides tool {:?}", request.tool_name);
    if !request.provider.is_empty() {
        message.push_str(&format!(" for provider {:?}", request.provider));
    }
    RequestError::new(code::TOOL_NOT_FOUND, message)
}

fn arguments_of(request: &ToolRequest, arguments: &Struct) -> Result<Raw, RequestError> {
    let wrong = |what: String| RequestError::new(code::VALIDATION, format!("invalid arguments: {what}"));
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
            // A rounded bound is still useful, and a tool without its schema cannot be called.
            let rounded = matches!(error.kind, ValueErrorKind::Rounded(_));
            rounded.then(|| Struct::from_json(&tool.input_schema, Numbers::Lossy).ok()).flatten()
        }
    };
    ToolDefinition { name: tool.name, description: tool.description.unwrap_or_default(), input_schema }
}

/// A tool result with its blocks unparsed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult {
    #[serde(default)]
    content: Vec<Raw>,
    #[serde(default)]
    structured_content: Option<Raw>,
    #[serde(default)]
    is_error: Option<bool>,
}

#[derive(Serialize)]
struct OneText<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Whole<'a> {
    content: &'a [Raw],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a Raw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content_omitted: Option<String>,
    text: &'a str,
}

/// Converts the result of `tools/call`.
pub(super) fn response(server: &str, result: &Raw) -> Result<ToolResponse, RequestError> {
    let invalid = |what: String| {
        let message = format!("the MCP server `{server}`: its result cannot be handed on: {what}");
        RequestError::new(code::INVALID_RESPONSE, message)
    };
    let call_result: CallResult = result.decode().map_err(|error| invalid(error.to_string()))?;
    let blocks = call_result.content.iter().map(|block| block.decode::<Content>());
    let blocks = blocks.collect::<Result<Vec<Content>, _>>().map_err(|error| invalid(error.to_string()))?;
    let text = blocks.iter().map(text_of).collect::<Vec<_>>().join("\n");
    let encoded = encode_result(&call_result, &blocks, &text).map_err(|error| invalid(error.to_string()));
    if call_result.is_error == Some(true) {
        // The error text matters more than a complete `result`.
        return Err(RequestError::new(code::TOOL_ERROR, text).with_result(encoded.ok()));
    }
    Ok(ToolResponse { success: true, result: Some(encoded?), ..ToolResponse::default() })
}

fn encode_result(call_result: &CallResult, blocks: &[Content], text: &str) -> Result<Struct, ValueError> {
    if let ([Content::Text(_)], None) = (blocks, &call_result.structured_content) {
        return encode(&OneText { text }, Numbers::Exact);
    }
    let members =
        call_result.structured_content.as_ref().map(|value| Struct::from_json(value, Numbers::Exact));
    let whole = |omitted: Option<String>| Whole {
        content: &call_result.content,
        structured_content: if omitted.is_none() { call_result.structured_content.as_ref() } else { None },
        structured_content_omitted: omitted,
        text,
    };
    match members {
        Some(Ok(members)) if blocks.is_empty() || is_its_text(&members, blocks, text) => Ok(members),
        Some(Err(error))
            if matches!(error.kind, ValueErrorKind::Rounded(_) | ValueErrorKind::TooLarge(_)) =>
        {
            encode(&whole(Some(error.to_string())), Numbers::Lossy)
        }
        // Numbers in blocks are sizes and priorities, so rounding is acceptable.
        _ => encode(&whole(None), Numbers::Lossy),
    }
}

fn encode(value: &impl Serialize, numbers: Numbers) -> Result<Struct, ValueError> {
    let malformed = |_| ValueError { path: String::new(), kind: ValueErrorKind::Malformed("it is not JSON") };
    Struct::from_json(&Raw::from_value(value).map_err(malformed)?, numbers)
}

/// Whether the only text is the JSON of the structured result.
fn is_its_text(members: &Struct, blocks: &[Content], text: &str) -> bool {
    let [Content::Text(_)] = blocks else { return false };
    let same = || {
        let text = Raw::parse(text.to_owned()).ok()?;
        let text = Struct::from_json(&text, Numbers::Exact).ok()?.to_json().ok()?;
        Some(text.json == members.to_json().ok()?.json)
    };
    same().unwrap_or(false)
}

/// The text of a block; other kinds of content are named.
pub(super) fn text_of(block: &Content) -> Cow<'_, str> {
    match block {
        Content::Text(text) => Cow::Borrowed(&text.text),
        Content::Image(image) => Cow::Owned(format!("[image: {}]", image.mime_type)),
        Content::Audio(audio) => Cow::Owned(format!("[audio: {}]", audio.mime_type)),
        Content::ResourceLink(link) => Cow::Owned(format!("[resource: {}]", link.uri)),
        Content::Resource(resource) => match &resource.resource {
            ResourceContents::Text(contents) => Cow::Borrowed(&contents.text),
            ResourceContents::Blob(contents) => Cow::Owned(format!("[resource: {}]", contents.uri)),
            _ => Cow::Borrowed("[resource]"),
        },
        _ => Cow::Borrowed("[content of another kind]"),
    }
}
