//! The messages and names that probes send. Text only: nothing here waits, and nothing names what a server offers.

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Raw, Version};

use crate::engine::message::{self, Manner, NO_CAPABILITIES, Question, meta_members};
use mcpjoin_proto::Method;
use mcpjoin_rules::Probe;

/// A version that never existed.
pub(super) const NO_VERSION: &str = "1999-01-01";
/// A prompt that no server has.
pub(super) const NO_PROMPT: &str = "mcpjoin-no-such-prompt";
/// A tool that no server has.
pub(super) const NO_TOOL: &str = "mcpjoin-no-such-tool";
/// A resource that no server has, with a scheme that no server has.
pub(super) const NO_RESOURCE: &str = "mcpjoin-no-such-scheme:no-such-resource";
/// A text that is not a URI.
pub(super) const NO_URI: &str = "mcpjoin: no <address>";
/// A cursor that no server has given.
pub(super) const NO_CURSOR: &str = "mcpjoin-no-such-cursor";
/// A task that no server has.
pub(super) const NO_TASK: &str = "mcpjoin-no-such-task";
/// A level of log messages that does not exist.
pub(super) const NO_LEVEL: &str = "mcpjoin-no-such-level";
/// A method that no revision has.
pub(super) const NO_METHOD: &str = "mcpjoin/no-such-method";
/// The capabilities that a call declares when the server may ask for input.
pub(super) const ALL_CAPABILITIES: &str = r#"{"elicitation":{"form":{}},"sampling":{},"roots":{}}"#;
/// A notification that no revision has.
const NO_NOTIFICATION: &str = "notifications/mcpjoin/no-such-notification";

/// Ids that get lost where a server checks for an id in the wrong way, reads numbers as floats of 32 bits, or takes a
/// string of digits for a number. All are safe in JSON between any two programs, and no run uses them for anything
/// else.
pub(super) const ODD_IDS: [&str; 6] =
    ["0", "-1", "9007199254740991", r#""70007""#, r#""""#, r#""a \"quoted\" \\ id with an ä""#];

/// Lines that a server cannot read: two that are not JSON, and two that are JSON and no request. The latter have ids,
/// so that their responses are known.
pub(super) const BAD_LINES: [(Probe, &str); 4] = [
    (Probe::BadJson, "{\"jsonrpc\":\"2.0\",\"id\":\"bad-1\","),
    (Probe::BadJson, "this is no JSON"),
    (Probe::InvalidRequest, r#"{"jsonrpc":"2.0","id":"invalid-1"}"#),
    (Probe::InvalidRequest, r#"{"jsonrpc":"2.0","id":"invalid-2","method":7}"#),
];

/// [`NO_PROMPT`] in Base64, as a header may have it.
pub(super) const NO_PROMPT_ENCODED: &str = "=?base64?bWNwam9pbi1uby1zdWNoLXByb21wdA==?=";
/// A value that looks like Base64 and is not.
pub(super) const NO_BASE64: &str = "=?base64?%%%?=";
/// A value that no argument of ours has.
pub(super) const OTHER_VALUE: &str = "mcpjoin-another-value";
/// The integer that we give as an argument, as a header has it.
pub(super) const ONE: &str = "1";
/// Another prompt that no server has.
pub(super) const OTHER_PROMPT: &str = "mcpjoin-no-other-prompt";
/// A session that no server has made: as long as one, and of visible ASCII.
pub(super) const NO_SESSION: &str = "mcpjoin-6e6f-7375-6368-73657373696f";
/// Origins of pages that have nothing to do with the server: a name that does not resolve (RFC 6761), and an opaque
/// one.
pub(super) const FOREIGN_ORIGINS: [&str; 2] = ["http://mcpjoin-elsewhere.invalid", "null"];
/// A host that is no name of the server.
pub(super) const FOREIGN_HOST: &str = "mcpjoin-elsewhere.invalid";

/// A `server/discover` whose `_meta` lacks something, or names another version.
pub(super) fn discover(id: &str, version: Option<&str>, capabilities: bool) -> String {
    discover_with(id, &meta_members(version, capabilities.then_some(NO_CAPABILITIES)))
}

/// A `server/discover` whose `_meta` has what it must have and nothing else.
pub(super) fn discover_unnamed(id: &str, version: &str) -> String {
    let version = format!(r#""{}":{}"#, key::PROTOCOL_VERSION, Raw::string(version));
    discover_with(id, &[version, format!(r#""{}":{{}}"#, key::CLIENT_CAPABILITIES)])
}

fn discover_with(id: &str, meta: &[String]) -> String {
    let meta = meta.join(",");
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"server/discover","params":{{"_meta":{{{meta}}}}}}}"#)
}

/// A `server/discover` without `_meta`.
pub(super) fn discover_bare(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"server/discover","params":{{}}}}"#)
}

pub(super) fn unknown_notification() -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{NO_NOTIFICATION}","params":{{}}}}"#)
}

/// Two notifications in an array.
pub(super) fn notification_batch() -> String {
    format!("[{0},{0}]", unknown_notification())
}

pub(super) fn unknown_cancel() -> String {
    message::cancel(Some(r#""mcpjoin-never-sent""#))
}

/// A response to a request that was never made.
pub(super) fn stray_response() -> String {
    r#"{"jsonrpc":"2.0","id":"mcpjoin-never-asked","result":{}}"#.into()
}

/// A request for the prompt that does not exist.
pub(super) fn no_prompt(id: &str, version: &Version) -> String {
    let manner = Manner::Modern(version.clone());
    Question::new(Probe::NoPrompt, Method::GetPrompt).text("name", NO_PROMPT).line(&manner, id)
}

/// The value of an argument of ours in Base64, as a header may have it.
pub(super) fn encoded(value: &str) -> &str {
    match value {
        "mcpjoin" => "=?base64?bWNwam9pbg==?=",
        ONE => "=?base64?MQ==?=",
        "true" => "=?base64?dHJ1ZQ==?=",
        other => other,
    }
}

/// The integer of ours, written as another number with the same value.
pub(super) fn as_number(value: &str) -> &str {
    if value == ONE { "1.0" } else { value }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::http::headers::decode_value;

    use super::*;

    #[test]
    fn the_name_in_base64_is_the_name() {
        assert_eq!(decode_value(NO_PROMPT_ENCODED.as_bytes()).as_deref(), Ok(NO_PROMPT));
        assert!(decode_value(NO_BASE64.as_bytes()).is_err());
        for value in ["mcpjoin", "1", "true"] {
            assert_ne!(encoded(value), value);
            assert_eq!(decode_value(encoded(value).as_bytes()).as_deref(), Ok(value));
        }
    }
}
