//! `tools/list` and `tools/call`.

use mcpjoin_proto::types::Tool;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{ErrorObject, Raw, json};

use super::super::super::CALLER;
use super::super::super::value::{Numbers, Struct, ValueErrorKind};
use super::super::super::wire::{ToolDefinition, ToolRequest};
use super::handler::{Call, Progress, exchange_error};
use super::{lists, results, streams};

/// `_meta` key of a request: the AI provider that is to run the call.
const PROVIDER: &str = "orchestra/provider";
/// The orchestrator's error code for an unknown tool.
const UNKNOWN_TOOL_CODE: &str = "tool_not_found";
/// The schema for a tool that has none.
const ANY_OBJECT: &str = r#"{"type":"object"}"#;

pub(super) async fn list(call: Call<'_>) -> Result<Raw, ErrorObject> {
    let tools = call.shared.orchestrator.list_tools().await.map_err(|error| {
        // Record an empty list, so that the client is notified once the tools can be listed.
        call.shared.record_tools(&[]);
        exchange_error("list_tools", &error)
    })?;
    let (tools, problems) = tools_for_client(tools);
    for problem in problems {
        call.warn(&problem);
    }
    call.shared.record_tools(&tools);
    lists::page(&tools, call.request, "tools", call.shared.page)
}

/// The tools in MCP form, sorted by name, and the problems of tools that were left out. One invalid tool does not hide
/// the others.
pub(super) fn tools_for_client(tools: Vec<ToolDefinition>) -> (Vec<(String, Raw)>, Vec<String>) {
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

/// The schema of a tool's arguments, which always describes an object.
pub(in super::super) fn schema_of(schema: Option<Struct>) -> Result<Raw, String> {
    match schema.filter(|schema| !schema.is_empty()) {
        Some(schema) => Ok(schema.to_json().map_err(|error| error.to_string())?.json),
        None => Raw::parse(ANY_OBJECT.to_owned()).map_err(|error| error.to_string()),
    }
}

pub(super) async fn call(call: Call<'_>) -> Result<Raw, ErrorObject> {
    let request = request(&call)?;
    let mut progress = Progress::new(call);
    if call.shared.streamed.contains(&request.tool_name)
        && let Some(result) = streams::call(&call, &mut progress, &request).await?
    {
        return Ok(result);
    }
    let name = call.shared.strict.then(|| request.tool_name.clone());
    let response = progress.report_while(call.shared.orchestrator.tool_call(request)).await;
    let response = response.map_err(|error| exchange_error("tool_call", &error))?;
    if let Some(name) = name.filter(|_| !response.success && response.error_code == UNKNOWN_TOOL_CODE) {
        let text = match response.error_message.as_str() {
            "" => format!("unknown tool: {name}"),
            text => text.to_owned(),
        };
        return Err(ErrorObject::invalid_params(text));
    }
    results::call_result(&call, response)
}

fn request(call: &Call<'_>) -> Result<ToolRequest, ErrorObject> {
    let tool_name = call.text("name")?;
    let meta = call.request.params.as_ref().and_then(|params| params.meta());
    let text = |key: &str| {
        let value = meta.as_ref().and_then(|meta| meta.member(key));
        value.and_then(|value| value.to_string_value().map(|text| text.into_owned())).unwrap_or_default()
    };
    Ok(ToolRequest {
        tool_name,
        arguments: arguments(
            call.request.params.as_ref().and_then(|params| params.arguments()),
            call.shared.numbers,
            |problem| call.warn(problem),
        )?,
        caller_plugin: CALLER.to_owned(),
        trace_parent: text(key::TRACEPARENT),
        provider: text(PROVIDER),
        session_id: call.shared.session.clone(),
    })
}

/// The arguments of a call; `None` if they are absent or `null`. Calls `warn` if a number was rounded.
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
