//! The result of a tool as Orchestra's `result`: the three forms that [`host`](super) describes.

use std::borrow::Cow;

use mcpjoin_proto::Raw;
use mcpjoin_proto::types::{Content, ResourceContents};
use serde::{Deserialize, Serialize};

use super::refusal::{Refusal, code};
use crate::value::{Numbers, Struct, ValueError, ValueErrorKind};
use crate::wire::ToolResponse;

/// A result with its blocks as they came.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Came {
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

/// What a server's `tools/call` has brought.
pub(super) fn response(server: &str, result: &Raw) -> Result<ToolResponse, Refusal> {
    let invalid = |what: String| {
        let message = format!("the MCP server `{server}`: its result cannot be handed on: {what}");
        Refusal::new(code::INVALID_RESPONSE, message)
    };
    let came: Came = result.decode().map_err(|error| invalid(error.to_string()))?;
    let blocks = came.content.iter().map(|block| block.decode::<Content>());
    let blocks = blocks.collect::<Result<Vec<Content>, _>>().map_err(|error| invalid(error.to_string()))?;
    let text = blocks.iter().map(text_of).collect::<Vec<_>>().join("\n");
    let sent = sent(&came, &blocks, &text).map_err(|error| invalid(error.to_string()));
    if came.is_error == Some(true) {
        // What it says matters more than whether all of it can be said.
        return Err(Refusal::new(code::TOOL_ERROR, text).with_result(sent.ok()));
    }
    Ok(ToolResponse { success: true, result: Some(sent?), ..ToolResponse::default() })
}

fn sent(came: &Came, blocks: &[Content], text: &str) -> Result<Struct, ValueError> {
    if let ([Content::Text(_)], None) = (blocks, &came.structured_content) {
        return written(&OneText { text }, Numbers::Exact);
    }
    let members = came.structured_content.as_ref().map(|value| Struct::from_json(value, Numbers::Exact));
    let whole = |omitted: Option<String>| Whole {
        content: &came.content,
        structured_content: if omitted.is_none() { came.structured_content.as_ref() } else { None },
        structured_content_omitted: omitted,
        text,
    };
    match members {
        Some(Ok(members)) if blocks.is_empty() || is_its_text(&members, blocks, text) => Ok(members),
        Some(Err(error))
            if matches!(error.kind, ValueErrorKind::Rounded(_) | ValueErrorKind::TooLarge(_)) =>
        {
            written(&whole(Some(error.to_string())), Numbers::Lossy)
        }
        // Blocks have numbers that are sizes and priorities alone: none is worth losing the result.
        _ => written(&whole(None), Numbers::Lossy),
    }
}

fn written(value: &impl Serialize, numbers: Numbers) -> Result<Struct, ValueError> {
    let malformed = |_| ValueError { path: String::new(), kind: ValueErrorKind::Malformed("it is no JSON") };
    Struct::from_json(&Raw::from_value(value).map_err(malformed)?, numbers)
}

/// Whether the one text is nothing but the JSON of the structured result.
fn is_its_text(members: &Struct, blocks: &[Content], text: &str) -> bool {
    let [Content::Text(_)] = blocks else { return false };
    let same = || {
        let text = Raw::parse(text.to_owned()).ok()?;
        let text = Struct::from_json(&text, Numbers::Exact).ok()?.to_json().ok()?;
        Some(text.json == members.to_json().ok()?.json)
    };
    same().unwrap_or(false)
}

/// A block as text: what is none is named.
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
