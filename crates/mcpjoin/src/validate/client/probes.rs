//! What a client of the legacy era is asked and told beside what the server says. Text alone: nothing here waits.

use mcpjoin_check::Probe;
use mcpjoin_proto::{Raw, RequestId};

/// What the ids of our own requests begin with. No server has them but on purpose.
const PREFIX: &str = "mcpjoin-look-";
/// A version that never existed.
const NO_VERSION: &str = "1999-01-01";

/// What is sent once in each session, with its purpose and its id.
pub(super) fn once(session: usize) -> Vec<(Probe, Option<RequestId>, String)> {
    let request = |probe: Probe, method: &str| {
        let id = format!("{PREFIX}{session}-{}", probe.as_str());
        let line = format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}"}}"#);
        (probe, Some(RequestId::from(id.as_str())), line)
    };
    let notification = |probe: Probe, method: &str, params: &str| {
        let line = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#);
        (probe, None, line)
    };
    vec![
        notification(
            Probe::UnknownNotification,
            "notifications/mcpjoin/no-such-notification",
            r#"{"reason":"a look from outside"}"#,
        ),
        notification(
            Probe::UnknownCancel,
            "notifications/cancelled",
            r#"{"requestId":"mcpjoin-never-sent","reason":"a look from outside"}"#,
        ),
        request(Probe::Ping, "ping"),
        request(Probe::UnknownMethod, "mcpjoin/no-such-method"),
        request(Probe::List, "roots/list"),
    ]
}

/// Whether an id is one of ours.
pub(super) fn is_ours(id: &RequestId) -> bool {
    id.as_str().is_some_and(|id| id.starts_with(PREFIX))
}

/// An answer to `initialize` with a version that nobody knows; `None` when it has none to be replaced.
pub(super) fn refusal(line: &[u8]) -> Option<String> {
    let mut message: serde_json::Value = serde_json::from_slice(line).ok()?;
    let version = message.get_mut("result")?.get_mut("protocolVersion")?;
    *version = NO_VERSION.into();
    Raw::parse(message.to_string()).ok().map(|raw| raw.as_str().to_owned())
}
