//! The messages that a client of the legacy era receives beside those of the server. Text only: nothing here waits.

use mcpjoin_proto::{Kind, Raw, RequestId, Version, code};
use mcpjoin_rules::{Probe, Revisions};

use super::super::probes::{NO_VERSION, unknown_cancel};
use super::pages::response;
use crate::engine::message::cancel;

/// The beginning of the ids of our own requests. A server has such ids only on purpose.
const PREFIX: &str = "mcpjoin-look-";
/// A code that no revision has.
const NO_CODE: i64 = -32077;

/// A message of ours, and its purpose.
pub(super) type Prepared = (Probe, String);

/// The first messages in each session.
pub(super) fn first(session: usize) -> Vec<Prepared> {
    vec![
        notification(
            Probe::UnknownNotification,
            "notifications/mcpjoin/no-such-notification",
            r#"{"reason":"a look from outside"}"#,
        ),
        (Probe::UnknownCancel, unknown_cancel()),
        request(session, Probe::Ping, "ping", None),
        request(session, Probe::UnknownMethod, "mcpjoin/no-such-method", None),
        request(session, Probe::List, "roots/list", None),
    ]
}

/// The messages after the responses to the first ones, to a client that has declared these capabilities. No request
/// reaches a user or a model, if the client refuses what it must refuse.
pub(super) fn second(session: usize, version: &Version, capabilities: Option<&Raw>) -> Vec<Prepared> {
    let has = |path: &str| capabilities.is_some_and(|capabilities| has(capabilities, path));
    let last = Revisions::LAST_LEGACY.contains(version);
    let pinged = format!(r#"{{"requestId":"{}"}}"#, pinged(session));
    let mut lines = vec![
        notification(Probe::CompletedCancel, "notifications/cancelled", &pinged),
        (Probe::MalformedCancel, cancel(None)),
        request(session, Probe::AfterCancel, "ping", None),
    ];
    if last && has("elicitation.url") {
        let unknown = r#"{"elicitationId":"mcpjoin-never-asked"}"#;
        lines.push(notification(Probe::UnknownElicitation, "notifications/elicitation/complete", unknown));
        lines.push(request(session, Probe::AfterElicitation, "ping", None));
    }
    if last && has("roots") && !has("tasks") {
        let task = r#"{"task":{"ttl":60000}}"#;
        lines.push(request(session, Probe::UndeclaredTask, "roots/list", Some(task)));
    }
    if last && has("sampling") {
        let method = "sampling/createMessage";
        if has("sampling.tools") {
            let missing = sampling(r#"{"role":"user","content":{"type":"text","text":"And?"}}"#);
            lines.push(request(session, Probe::MissingToolResult, method, Some(&missing)));
            let mixed = sampling(
                r#"{"role":"user","content":[{"type":"text","text":"And?"},{"type":"tool_result","toolUseId":"1","content":[]}]}"#,
            );
            lines.push(request(session, Probe::MixedToolResult, method, Some(&mixed)));
        } else {
            let tools = sampling(r#"{"role":"user","content":{"type":"text","text":"And?"}}"#);
            lines.push(request(session, Probe::UndeclaredSamplingTools, method, Some(&tools)));
        }
    }
    if Revisions::BATCHING.contains(version) {
        let ping = |place: usize| {
            let id = format!("{PREFIX}{session}-{}-{place}", Probe::Batch.as_str());
            format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping"}}"#)
        };
        lines.push((Probe::Batch, format!("[{},{}]", ping(1), ping(2))));
    }
    lines
}

/// A further request for the roots.
pub(super) fn roots(session: usize, time: usize) -> Prepared {
    let id = format!("{PREFIX}{session}-{}-{time}", Probe::List.as_str());
    (Probe::List, format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"roots/list"}}"#))
}

/// A request for a message of the model: a conversation in which a tool was used, and the message after it.
fn sampling(last: &str) -> String {
    let first = r#"{"role":"user","content":{"type":"text","text":"Look, please."}}"#;
    let used = r#"{"role":"assistant","content":{"type":"tool_use","id":"1","name":"look","input":{}}}"#;
    let tool = r#"{"name":"look","inputSchema":{"type":"object"}}"#;
    format!(r#"{{"messages":[{first},{used},{last}],"maxTokens":1,"tools":[{tool}]}}"#)
}

fn request(session: usize, probe: Probe, method: &str, params: Option<&str>) -> Prepared {
    let id = format!("{PREFIX}{session}-{}", probe.as_str());
    let params = params.map_or_else(String::new, |params| format!(r#","params":{params}"#));
    (probe, format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}"{params}}}"#))
}

fn notification(probe: Probe, method: &str, params: &str) -> Prepared {
    (probe, format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#))
}

/// The id of the first ping.
pub(super) fn pinged(session: usize) -> String {
    format!("{PREFIX}{session}-{}", Probe::Ping.as_str())
}

/// Whether an id is one of ours.
pub(super) fn is_ours(id: &RequestId) -> bool {
    id.as_str().is_some_and(|id| id.starts_with(PREFIX))
}

/// Whether a capability was declared, or a member of one.
pub(super) fn has(capabilities: &Raw, path: &str) -> bool {
    let found = path.split('.').try_fold(capabilities.clone(), |object, name| object.member(name));
    found.is_some_and(|found| found.kind() != Kind::Null && found.as_str() != "false")
}

/// A response to `initialize` with a version that never existed; `None` when it has no version to be replaced.
pub(super) fn refusal(line: &[u8]) -> Option<String> {
    let mut message: serde_json::Value = serde_json::from_slice(line).ok()?;
    let version = message.get_mut("result")?.get_mut("protocolVersion")?;
    *version = NO_VERSION.into();
    Raw::parse(message.to_string()).ok().map(|raw| raw.as_str().to_owned())
}

/// The response of a server of the legacy era to `server/discover`, with a code of its own.
pub(super) fn not_initialized(id: &RequestId) -> Option<Vec<u8>> {
    response(id, "error", &format!(r#"{{"code":{NO_CODE},"message":"Nobody has sent initialize"}}"#))
}

/// The response of a server of the modern era that does not speak the version of the request.
pub(super) fn unsupported(id: &RequestId, version: &Version) -> Option<Vec<u8>> {
    let code = code::UNSUPPORTED_PROTOCOL_VERSION;
    let error = format!(
        r#"{{"code":{code},"message":"Unsupported protocol version","data":{{"supported":["{NO_VERSION}"],"requested":"{version}"}}}}"#
    );
    response(id, "error", &error)
}

/// The response of a server whose tool has another schema now.
pub(super) fn mismatch(id: &RequestId) -> Option<Vec<u8>> {
    let code = code::HEADER_MISMATCH;
    response(id, "error", &format!(r#"{{"code":{code},"message":"A header Mcp-Param-* does not fit"}}"#))
}
