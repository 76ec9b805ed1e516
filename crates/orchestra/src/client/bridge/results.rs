//! Tool results: the text that Orchestra's own bridge returns, plus what that omits.

use std::collections::BTreeMap;

use mcpjoin_proto::types::{CallToolResult, Content, Meta};
use mcpjoin_proto::{ErrorObject, Kind, Raw};

use super::super::super::value::{Struct, ValueError};
use super::super::super::wire::ToolResponse;
use super::handler::{Call, to_raw};
use mcpjoin::internal::adapt_content;

/// `_meta` key: the orchestrator's error code of a failed tool.
pub(super) const ERROR_CODE: &str = "orchestra/errorCode";
/// `_meta` key: the path of the first whole number that its sender may have rounded, see
/// [`Json::beyond_exact`](super::super::super::value::Json::beyond_exact).
const BEYOND_EXACT: &str = "orchestra/numberBeyondExact";
/// `_meta` key: why `structuredContent` was omitted.
const OMITTED: &str = "orchestra/structuredContentOmitted";

pub(super) fn call_result(call: &Call<'_>, response: ToolResponse) -> Result<Raw, ErrorObject> {
    let parsed = parse(response.result.as_ref()).map_err(|error| {
        ErrorObject::internal(format!("the orchestrator's answer cannot be read: result: {error}"))
    })?;
    let mut meta = Meta::new();
    if let Some(path) = &parsed.beyond_exact {
        meta.insert(BEYOND_EXACT, Raw::string(path));
        call.warn(&format!(
            "the result has a whole number from 2^53 on at {path}, which its sender may have rounded"
        ));
    }
    let mut result = if response.success {
        match parsed.blocks {
            Some(content) => CallToolResult::new(content),
            None => CallToolResult::text(parsed.text),
        }
    } else {
        if !response.error_code.is_empty() {
            meta.insert(ERROR_CODE, Raw::string(&response.error_code));
        }
        CallToolResult::error(error_text(&response))
    };
    adapt_content(call.profile, &mut result.content);
    if let Some(structured) = parsed.structured.filter(|_| call.profile.structured_content) {
        // The message has room for a frame, and already contains the text.
        let length: usize = result.content.iter().filter_map(Content::as_text).map(str::len).sum();
        if length + structured.len() < call.shared.message - call.shared.message / 16 {
            result.structured_content = Some(structured);
        } else {
            meta.insert(OMITTED, Raw::string("with it the result is longer than a message may be"));
        }
    }
    if !meta.is_empty() {
        result.meta = Some(meta);
    }
    to_raw(&result)
}

/// The text of a failed tool.
pub(in super::super) fn error_text(response: &ToolResponse) -> String {
    match (response.error_code.as_str(), response.error_message.as_str()) {
        (code, "") => format!("tool error: {code}"),
        (_, message) => message.to_owned(),
    }
}

/// The text of a result: the member `text`, or the JSON of the whole result.
pub(in super::super) fn text_of(result: Option<&Struct>) -> Result<String, ValueError> {
    parse(result).map(|parsed| parsed.text)
}

/// A parsed result.
#[derive(Default)]
struct ParsedResult {
    text: String,
    /// The whole result, if it is more than the text.
    structured: Option<Raw>,
    /// The content blocks, if our own host sent them.
    blocks: Option<Vec<Content>>,
    beyond_exact: Option<String>,
}

fn parse(result: Option<&Struct>) -> Result<ParsedResult, ValueError> {
    let Some(result) = result else { return Ok(ParsedResult::default()) };
    let json = result.to_json()?;
    let whole = json.json;
    let beyond_exact = json.beyond_exact;
    // The JSON is an object, so this does not fail.
    let members: BTreeMap<String, Raw> = whole.decode().unwrap_or_default();
    let Some(text) = members.get("text") else {
        return Ok(ParsedResult {
            text: result.to_go_text()?,
            structured: Some(whole),
            blocks: None,
            beyond_exact,
        });
    };
    let is_text = text.kind() == Kind::String;
    let text = text.to_string_value().unwrap_or_default().into_owned();
    if is_text && members.len() == 1 {
        return Ok(ParsedResult { text, structured: None, blocks: None, beyond_exact });
    }
    if is_text && let Some(content) = blocks(&members) {
        let structured = members.get("structuredContent").filter(|value| value.kind() == Kind::Object);
        return Ok(ParsedResult {
            text,
            structured: structured.cloned(),
            blocks: Some(content),
            beyond_exact,
        });
    }
    Ok(ParsedResult { text, structured: Some(whole), blocks: None, beyond_exact })
}

/// The MCP content blocks that our own host adds to the text. Returns `None` if the result has any other member.
fn blocks(members: &BTreeMap<String, Raw>) -> Option<Vec<Content>> {
    const KNOWN: [&str; 4] = ["content", "structuredContent", "structuredContentOmitted", "text"];
    if members.keys().any(|key| !KNOWN.contains(&key.as_str())) {
        return None;
    }
    let blocks: Vec<Content> = members.get("content")?.decode().ok()?;
    let known = |block: &Content| {
        matches!(
            block,
            Content::Text(_)
                | Content::Image(_)
                | Content::Audio(_)
                | Content::ResourceLink(_)
                | Content::Resource(_)
        )
    };
    blocks.iter().all(known).then_some(blocks)
}
