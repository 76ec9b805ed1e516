//! The lines that probes send. Text alone: nothing here waits, and nothing names what a server has.

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Raw, Version};

/// A version that never existed.
pub(super) const NO_VERSION: &str = "1999-01-01";
/// A prompt that no server has.
pub(super) const NO_PROMPT: &str = "mcpjoin-no-such-prompt";
/// A tool that no server has.
pub(super) const NO_TOOL: &str = "mcpjoin-no-such-tool";
/// A resource that no server has: nothing leads to it, not even to what it would be of.
pub(super) const NO_RESOURCE: &str = "mcpjoin-no-such-scheme:no-such-resource";
/// What is no address at all.
pub(super) const NO_URI: &str = "mcpjoin: no <address>";
/// A cursor that no server has given.
pub(super) const NO_CURSOR: &str = "mcpjoin-no-such-cursor";
/// A task that no server has.
pub(super) const NO_TASK: &str = "mcpjoin-no-such-task";
/// A level of log messages that does not exist.
pub(super) const NO_LEVEL: &str = "mcpjoin-no-such-level";
/// A method that no revision has.
pub(super) const NO_METHOD: &str = "mcpjoin/no-such-method";
/// What we declare: nothing.
pub(super) const NOTHING: &str = "{}";
/// What a call declares that a server may ask something of.
pub(super) const EVERYTHING: &str = r#"{"elicitation":{"form":{}},"sampling":{},"roots":{}}"#;
/// A notification that no revision has.
const NO_NOTIFICATION: &str = "notifications/mcpjoin/no-such-notification";

/// Ids that get lost where somebody asks "is there an id?" the wrong way, reads numbers as floats of 32 bits, or
/// takes a string of digits for a number. All are safe in JSON between any two programs, and no run counts so far.
pub(super) const ODD_IDS: [&str; 6] =
    ["0", "-1", "9007199254740991", r#""70007""#, r#""""#, r#""a \"quoted\" \\ id with an ä""#];

/// Lines that are not JSON.
pub(super) const BAD_JSON: [&str; 2] = ["{\"jsonrpc\":\"2.0\",\"id\":\"bad-1\",", "this is no JSON"];

/// Lines that are JSON and no request. Each has an id of its own, so that its answer is known.
pub(super) const INVALID_REQUESTS: [&str; 2] =
    [r#"{"jsonrpc":"2.0","id":"invalid-1"}"#, r#"{"jsonrpc":"2.0","id":"invalid-2","method":7}"#];

/// How a request says what era it is of.
#[derive(Clone, Debug)]
pub(super) enum Manner {
    /// Parameters as they are.
    Legacy,
    /// With everything in `_meta`, in this version.
    Modern(Version),
}

/// A request. `id` is JSON.
pub(super) fn request(manner: &Manner, id: &str, method: &str) -> String {
    let method = Raw::string(method);
    match manner {
        Manner::Legacy => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method}}}"#),
        Manner::Modern(version) => {
            let meta = meta(Some(version.as_str()), true);
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{{"_meta":{meta}}}}}"#)
        }
    }
}

/// A request with parameters, with more in its `_meta`, and, in the modern era, with these capabilities of ours.
pub(super) fn request_with(
    manner: &Manner,
    id: &str,
    method: &str,
    members: &[(&str, Raw)],
    more: &[(&str, Raw)],
    capabilities: &str,
) -> String {
    let mut params: Vec<String> = members.iter().map(member).collect();
    let own = match manner {
        Manner::Legacy => Vec::new(),
        Manner::Modern(version) => meta_members(Some(version.as_str()), Some(capabilities)),
    };
    let meta: Vec<String> = own.into_iter().chain(more.iter().map(member)).collect();
    if !meta.is_empty() {
        params.push(format!(r#""_meta":{{{}}}"#, meta.join(",")));
    }
    let (method, params) = (Raw::string(method), params.join(","));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{{{params}}}}}"#)
}

fn member((name, value): &(&str, Raw)) -> String {
    format!("{}:{value}", Raw::string(name))
}

/// The cancellation of a request; `None` says of nothing what it is of.
pub(super) fn cancel(id: Option<&str>) -> String {
    let id = id.map_or_else(String::new, |id| format!(r#""requestId":{id},"#));
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{{id}"reason":"a look from outside"}}}}"#
    )
}

/// A `server/discover` whose `_meta` lacks something, or names another version.
pub(super) fn discover(id: &str, version: Option<&str>, capabilities: bool) -> String {
    let meta = meta(version, capabilities);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"server/discover","params":{{"_meta":{meta}}}}}"#)
}

/// One whose `_meta` has what it must have and nothing else.
pub(super) fn discover_unnamed(id: &str, version: &str) -> String {
    let (key, version, capabilities) =
        (key::PROTOCOL_VERSION, Raw::string(version), key::CLIENT_CAPABILITIES);
    let meta = format!(r#"{{"{key}":{version},"{capabilities}":{{}}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"server/discover","params":{{"_meta":{meta}}}}}"#)
}

/// The same without `_meta`.
pub(super) fn discover_bare(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"server/discover","params":{{}}}}"#)
}

/// The request that opens a legacy session.
pub(super) fn initialize(id: &str, version: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":{},"capabilities":{{}},"clientInfo":{}}}}}"#,
        Raw::string(version),
        client_info()
    )
}

/// The same without a version.
pub(super) fn initialize_bare(id: &str) -> String {
    let info = client_info();
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"capabilities":{{}},"clientInfo":{info}}}}}"#
    )
}

pub(super) fn initialized() -> String {
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into()
}

pub(super) fn unknown_notification() -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{NO_NOTIFICATION}","params":{{}}}}"#)
}

pub(super) fn unknown_cancel() -> String {
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"mcpjoin-never-sent","reason":"a look from outside"}}"#
        .into()
}

fn client_info() -> String {
    format!(r#"{{"name":"mcpjoin","version":{}}}"#, Raw::string(env!("CARGO_PKG_VERSION")))
}

pub(super) fn meta(version: Option<&str>, capabilities: bool) -> String {
    format!("{{{}}}", meta_members(version, capabilities.then_some(NOTHING)).join(","))
}

fn meta_members(version: Option<&str>, capabilities: Option<&str>) -> Vec<String> {
    let mut members = Vec::new();
    if let Some(version) = version {
        members.push(format!(r#""{}":{}"#, key::PROTOCOL_VERSION, Raw::string(version)));
    }
    members.push(format!(r#""{}":{}"#, key::CLIENT_INFO, client_info()));
    if let Some(capabilities) = capabilities {
        members.push(format!(r#""{}":{capabilities}"#, key::CLIENT_CAPABILITIES));
    }
    members
}
