//! What is sent over HTTP alone. Nothing here names a tool or a resource, and the one prompt does not exist.

use mcpjoin_proto::Version;

use super::super::probes::{self, NO_PROMPT};

/// [`NO_PROMPT`] in Base64, as a header may carry it.
pub(super) const NO_PROMPT_ENCODED: &str = "=?base64?bWNwam9pbi1uby1zdWNoLXByb21wdA==?=";
/// What looks like that and is none.
pub(super) const NO_BASE64: &str = "=?base64?%%%?=";
/// What no argument of ours is.
pub(super) const OTHER_VALUE: &str = "mcpjoin-another-value";
/// The integer that we give as an argument, as a header carries it.
pub(super) const ONE: &str = "1";
/// Another prompt that no server has.
pub(super) const OTHER_PROMPT: &str = "mcpjoin-no-other-prompt";
/// A session that no server has made: as long as one, and of visible ASCII.
pub(super) const NO_SESSION: &str = "mcpjoin-6e6f-7375-6368-73657373696f";
/// Where pages come from that have no business with the server: names that lead nowhere (RFC 6761), and a page that
/// hides where it is from.
pub(super) const FOREIGN_ORIGINS: [&str; 2] = ["http://mcpjoin-elsewhere.invalid", "null"];
/// A host that is no name of the server.
pub(super) const FOREIGN_HOST: &str = "mcpjoin-elsewhere.invalid";

/// A response to a request that was never made.
pub(super) fn stray_answer() -> String {
    r#"{"jsonrpc":"2.0","id":"mcpjoin-never-asked","result":{}}"#.into()
}

/// Two notifications in an array.
pub(super) fn told_twice() -> String {
    format!("[{0},{0}]", probes::unknown_notification())
}

/// Asks for the prompt that does not exist.
pub(super) fn no_prompt(id: &str, version: &Version) -> String {
    let meta = probes::meta(Some(version.as_str()), true);
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"prompts/get","params":{{"name":"{NO_PROMPT}","_meta":{meta}}}}}"#
    )
}

/// The value of an argument of ours in Base64, as a header may carry it.
pub(super) fn encoded(value: &str) -> &str {
    match value {
        "mcpjoin" => "=?base64?bWNwam9pbg==?=",
        ONE => "=?base64?MQ==?=",
        "true" => "=?base64?dHJ1ZQ==?=",
        other => other,
    }
}

/// An integer of ours, written as another number that is the same.
pub(super) fn as_number(value: &str) -> &str {
    if value == ONE { "1.0" } else { value }
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::http::headers::decode_value;

    use super::{NO_BASE64, NO_PROMPT_ENCODED, encoded};
    use crate::validate::probes::NO_PROMPT;

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
