//! Tools: what there are, and calling one.

use mcpjoin_proto::types::Tool;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{ErrorObject, Raw, json};
use serde::Serialize;

use super::super::super::CALLER;
use super::super::super::value::{Numbers, Struct, ValueErrorKind};
use super::super::super::wire::{ToolDefinition, ToolRequest};
use super::beats::Beats;
use super::handler::{Asked, failed};
use super::{lists, results, streams};

/// Whom a call is to be done by: an AI provider that the orchestrator knows.
const PROVIDER: &str = "orchestra/provider";
/// The orchestrator's word for a tool that nobody has.
const UNKNOWN_TOOL: &str = "tool_not_found";

pub(super) async fn list(asked: Asked<'_>) -> Result<Raw, ErrorObject> {
    let tools = asked.shared.orchestrator.list_tools().await.map_err(|error| {
        // Who is told of none hears of those that there are later.
        asked.shared.tell(&[]);
        failed("list_tools", &error)
    })?;
    let (tools, problems) = shown(tools);
    for problem in problems {
        asked.warn(&problem);
    }
    asked.shared.tell(&tools);
    lists::page(&tools, asked.request, "tools", asked.shared.page)
}

/// The tools as a client sees them, sorted by name, and what is wrong with others: one that no client can read is left
/// out and does not hide the rest.
pub(super) fn shown(tools: Vec<ToolDefinition>) -> (Vec<(String, Raw)>, Vec<String>) {
    let mut problems = Vec::new();
    let mut entries = Vec::new();
    for definition in tools {
        let name = definition.name;
        match entry(&name, definition.description, definition.input_schema) {
            Ok(tool) => entries.push((name, tool)),
            Err(problem) => problems.push(format!("the tool {name:?} is left out: {problem}")),
        }
    }
    (lists::sorted(entries), problems)
}

fn entry(name: &str, description: String, schema: Option<Struct>) -> Result<Raw, String> {
    if name.is_empty() {
        return Err("it has no name".to_owned());
    }
    let mut tool = Tool::new(name, schema_of(schema)?);
    tool.description = Some(description).filter(|description| !description.is_empty());
    Raw::from_value(&tool).map_err(|error: json::WriteError| error.to_string())
}

/// The schema of a tool's arguments: always one of an object.
pub(in super::super) fn schema_of(schema: Option<Struct>) -> Result<Raw, String> {
    #[derive(Serialize)]
    struct OfAnyObject {
        r#type: &'static str,
    }
    let written = match schema.filter(|schema| !schema.is_empty()) {
        Some(schema) => return Ok(schema.to_json().map_err(|error| error.to_string())?.json),
        None => Raw::from_value(&OfAnyObject { r#type: "object" }),
    };
    written.map_err(|error| error.to_string())
}

pub(super) async fn call(asked: Asked<'_>) -> Result<Raw, ErrorObject> {
    let request = request(&asked)?;
    let mut beats = Beats::new(asked);
    if asked.shared.streamed.contains(&request.tool_name)
        && let Some(result) = streams::call(&asked, &mut beats, &request).await?
    {
        return Ok(result);
    }
    let name = asked.shared.strict.then(|| request.tool_name.clone());
    let response = beats.during(asked.shared.orchestrator.tool_call(request)).await;
    let response = response.map_err(|error| failed("tool_call", &error))?;
    if let Some(name) = name.filter(|_| !response.success && response.error_code == UNKNOWN_TOOL) {
        let said = match response.error_message.as_str() {
            "" => format!("unknown tool: {name}"),
            said => said.to_owned(),
        };
        return Err(ErrorObject::invalid_params(said));
    }
    results::of(&asked, response)
}

fn request(asked: &Asked<'_>) -> Result<ToolRequest, ErrorObject> {
    let tool_name = asked.text("name")?;
    let meta = asked.request.params.as_ref().and_then(|params| params.meta());
    let said = |key: &str| {
        let value = meta.as_ref().and_then(|meta| meta.member(key));
        value.and_then(|value| value.to_string_value().map(|text| text.into_owned())).unwrap_or_default()
    };
    Ok(ToolRequest {
        tool_name,
        arguments: arguments(
            asked.request.params.as_ref().and_then(|params| params.arguments()),
            asked.shared.numbers,
            |problem| asked.warn(problem),
        )?,
        caller_plugin: CALLER.to_owned(),
        trace_parent: said(key::TRACEPARENT),
        provider: said(PROVIDER),
        session_id: asked.shared.session.clone(),
    })
}

/// The arguments of a call; none where there are none, or `null`. `warn` is told of a number that was rounded.
pub(in super::super) fn arguments(
    given: Option<Raw>,
    numbers: Numbers,
    warn: impl FnOnce(&str),
) -> Result<Option<Struct>, ErrorObject> {
    let Some(given) = given.filter(|given| *given != Raw::null()) else { return Ok(None) };
    let sent = match Struct::from_json(&given, Numbers::Exact) {
        Err(error) if numbers == Numbers::Lossy && matches!(error.kind, ValueErrorKind::Rounded(_)) => {
            warn(&format!("a number in the arguments was rounded: {error}"));
            Struct::from_json(&given, numbers)
        }
        sent => sent,
    };
    sent.map(Some).map_err(|error| ErrorObject::invalid_params(format!("invalid arguments: {error}")))
}
