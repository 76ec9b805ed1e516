//! The bridge exactly as Orchestra's first document describes it: one protocol revision, only tools, and no other
//! members in its responses.
//!
//! Used by the command line's `bridge --compat 1.0`, for clients that were written for that document and fail on
//! anything else. No session is opened or checked. What the document leaves open follows the JSON-RPC specification.

use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mcpjoin_proto::session::{Inbound, Limits, Outbound, Route, TransportEnd, TransportError};
use mcpjoin_proto::types::CallToolResult;
use mcpjoin_proto::{ErrorObject, Message, Method, Payload, Raw, Request, RequestId, Response};
use serde::Serialize;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::CALLER;
use super::super::value::Numbers;
use super::super::wire::{MAX_FRAME, ToolRequest, ToolResponse};
use super::bridge::{arguments, exchange_error, schema_of, text_of, to_raw};
use super::{Orchestrator, SetupError};
use mcpjoin::transport::{Link, RawLink};

/// The result of `initialize`, which does not depend on the client's request.
const INITIALIZE_RESULT: &str = concat!(
    r#"{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"#,
    r#""serverInfo":{"name":"orchestra","version":"1.0.0"}}"#
);

/// Maximum number of requests handled at once. While it is reached, or the client does not read its responses, nothing is read.
const MAX_CONCURRENT_REQUESTS: usize = 100;

/// A response that is being computed.
type PendingResponse<'a> = Pin<Box<dyn Future<Output = (RequestId, Result<Raw, ErrorObject>)> + Send + 'a>>;

/// Serves a client as the first document describes, until the client closes the link or reads nothing for 30 s. Requests in
/// progress are then completed within [`Limits::drain`] (10 s). `numbers` says how to treat a number that Orchestra cannot
/// represent.
///
/// Dropping the future closes the connection to the client.
///
/// # Errors
/// [`SetupError`] if the first handshake with the orchestrator is rejected by either side.
pub async fn serve_compat(
    link: Link,
    orchestrator: &Orchestrator,
    numbers: Numbers,
) -> Result<TransportEnd, SetupError> {
    tokio::select! {
        biased;
        error = wait_rejected(orchestrator) => Err(error),
        end = serve(link, orchestrator, numbers) => Ok(end),
    }
}

async fn wait_rejected(orchestrator: &Orchestrator) -> SetupError {
    let mut seen = 0;
    loop {
        match orchestrator.connected(seen).await {
            Ok(number) => seen = number,
            Err(error) => return error,
        }
    }
}

async fn serve(link: Link, orchestrator: &Orchestrator, numbers: Numbers) -> TransportEnd {
    let mut limits = Limits::default();
    limits.message = MAX_FRAME;
    let mut link = link.raw(&limits);
    let mut pending: FuturesUnordered<PendingResponse<'_>> = FuturesUnordered::new();
    let end = loop {
        let has_room = link.has_room();
        let inbound = tokio::select! {
            biased;
            Some((id, outcome)) = pending.next(), if has_room => {
                reply(&mut link, Some(id), outcome, limits.message);
                continue;
            }
            inbound = next(&mut link, limits.write_stall), if !has_room || pending.len() < MAX_CONCURRENT_REQUESTS => inbound,
        };
        let Some(inbound) = inbound else { continue };
        match inbound {
            Inbound::Message { message: Message::Request(request), .. } => {
                pending.push(Box::pin(async move {
                    let outcome = respond(orchestrator, numbers, &request).await;
                    (request.id, outcome)
                }));
            }
            Inbound::Message { message: Message::Notification(notification), .. } => {
                tracing::debug!(target: "mcpjoin", method = %notification.method, "a notification");
            }
            Inbound::Malformed { error, .. } => {
                let id = error.id.clone();
                reply(&mut link, id, Err(error.to_error_object()), limits.message);
            }
            Inbound::Batch { .. } => {
                let error = ErrorObject::invalid_request("one request in each line, and no array of them");
                reply(&mut link, None, Err(error), limits.message);
            }
            Inbound::Closed { cause } => break cause,
            // No request is sent to the client, and its link is a single stream.
            _ => {}
        }
    };
    let until = Instant::now() + limits.drain;
    while let Ok(Some((id, outcome))) = timeout_at(until, pending.next()).await {
        reply(&mut link, Some(id), outcome, limits.message);
    }
    // A client that does not read its responses in time loses them.
    let _ = timeout_at(Instant::now() + limits.drain, link.close()).await;
    end
}

/// Receives a message. While the link has no room, sends what it holds instead, and returns `None`. A client that takes nothing
/// of it for the time `stall` counts as gone.
async fn next(link: &mut RawLink, stall: Duration) -> Option<Inbound> {
    if link.has_room() {
        return Some(link.recv().await);
    }
    loop {
        let before = link.sent();
        match timeout(stall, link.flush()).await {
            Ok(flushed) => return flushed.err().map(|cause| Inbound::Closed { cause }),
            Err(_) if link.sent() == before => {
                let why = format!("the client has read nothing for {} s", stall.as_secs());
                let cause = TransportEnd::failed(TransportError::new(why, false));
                return Some(Inbound::Closed { cause });
            }
            Err(_) => {}
        }
    }
}

fn reply(link: &mut RawLink, id: Option<RequestId>, outcome: Result<Raw, ErrorObject>, limit: usize) {
    let outcome = match outcome {
        Ok(result) if result.len() > limit => Err(ErrorObject::internal(format!(
            "the result of {} bytes is longer than a message may be: {limit} bytes",
            result.len()
        ))),
        outcome => outcome,
    };
    let response = Response { id, outcome: outcome.map(Payload::from_raw) };
    link.push(Outbound::Message { message: Message::Response(response), route: Route::Session });
}

async fn respond(
    orchestrator: &Orchestrator,
    numbers: Numbers,
    request: &Request,
) -> Result<Raw, ErrorObject> {
    match request.method {
        Method::Initialize => {
            Raw::parse(INITIALIZE_RESULT.to_owned()).map_err(|error| ErrorObject::internal(error.to_string()))
        }
        Method::Ping => Ok(Raw::empty_object()),
        Method::ListTools => list(orchestrator).await,
        Method::CallTool => call(orchestrator, numbers, request).await,
        _ => Err(ErrorObject::method_not_found(request.method.as_str())),
    }
}

async fn list(orchestrator: &Orchestrator) -> Result<Raw, ErrorObject> {
    let mut tools = orchestrator.list_tools().await.map_err(|error| exchange_error("list_tools", &error))?;
    tools.sort_by(|left, right| left.name.cmp(&right.name));
    tools.dedup_by(|later, first| later.name == first.name);
    let mut listed = Listed { tools: Vec::new() };
    for tool in tools {
        match schema_of(tool.input_schema) {
            Ok(input_schema) => {
                listed.tools.push(Tool { name: tool.name, description: tool.description, input_schema });
            }
            Err(problem) => {
                tracing::warn!(target: "mcpjoin", tool = tool.name, problem, "a tool is left out");
            }
        }
    }
    to_raw(&listed)
}

async fn call(orchestrator: &Orchestrator, numbers: Numbers, request: &Request) -> Result<Raw, ErrorObject> {
    let params = request.params.as_ref();
    let name = params.and_then(Payload::name_string).filter(|name| !name.is_empty());
    let Some(name) = name else {
        return Err(ErrorObject::invalid_params("missing required parameter: name"));
    };
    let request = ToolRequest {
        tool_name: name.into_owned(),
        arguments: arguments(params.and_then(Payload::arguments), numbers, |problem| {
            tracing::warn!(target: "mcpjoin", problem);
        })?,
        caller_plugin: CALLER.to_owned(),
        ..ToolRequest::default()
    };
    let response =
        orchestrator.tool_call(request).await.map_err(|error| exchange_error("tool_call", &error))?;
    let result = if response.success {
        CallToolResult::text(text_of(response.result.as_ref()).map_err(|error| {
            ErrorObject::internal(format!("the orchestrator's answer cannot be read: result: {error}"))
        })?)
    } else {
        CallToolResult::error(error_text(&response))
    };
    to_raw(&result)
}

/// The document specifies the code and not the message. If there is no code, the message is used.
fn error_text(response: &ToolResponse) -> String {
    match (response.error_code.as_str(), response.error_message.as_str()) {
        ("", message) if !message.is_empty() => message.to_owned(),
        (code, _) => format!("tool error: {code}"),
    }
}

#[derive(Serialize)]
struct Listed {
    tools: Vec<Tool>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    input_schema: Raw,
}
