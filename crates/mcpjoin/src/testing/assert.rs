//! Checks of results, which say where two values differ.

use std::fmt::Write as _;

use mcpjoin_proto::ErrorObject;
use mcpjoin_proto::types::{CallToolResult, Content};
use serde::Serialize;
use serde_json::Value;

use super::json;
use crate::client::ClientError;

/// The number of differences that a message lists.
const MAX_DIFFERENCES: usize = 20;

/// Checks of the outcome of a tool call.
pub trait ExpectTool {
    /// Returns the result of a call that succeeded.
    ///
    /// # Panics
    /// With the error, or with the text of a result with `isError`.
    fn expect_ok(self) -> CallToolResult;

    /// Checks that the call succeeded with these texts, one per line.
    ///
    /// # Panics
    /// If it failed, or with another text.
    fn expect_text(self, expected: &str);

    /// Checks that the call succeeded with this value, which the tool returned as [`Json`](crate::server::Json) or as structured
    /// content: the same in every revision ([`CallToolResult::decode`]).
    ///
    /// # Panics
    /// If it failed, or with another value: with the places where they differ.
    fn expect_value(self, expected: impl Serialize);

    /// Returns the result of a call whose tool failed (`isError`) with a text that contains `part`.
    ///
    /// # Panics
    /// If the tool succeeded, if its text does not contain `part`, or if there is no result.
    fn expect_tool_error(self, part: &str) -> CallToolResult;

    /// Returns the error with this code, with which the server answered the call.
    ///
    /// # Panics
    /// If there is a result, or another error.
    fn expect_error(self, code: i64) -> ErrorObject;
}

impl ExpectTool for Result<CallToolResult, ClientError> {
    #[track_caller]
    fn expect_ok(self) -> CallToolResult {
        match self {
            Ok(result) if result.is_error == Some(true) => panic!("the tool failed: {}", text_of(&result)),
            Ok(result) => result,
            Err(error) => panic!("the call failed: {error}"),
        }
    }

    #[track_caller]
    fn expect_text(self, expected: &str) {
        let text = text_of(&self.expect_ok());
        assert_eq!(text, expected, "the text of the result differs (left: received, right: expected)");
    }

    #[track_caller]
    fn expect_value(self, expected: impl Serialize) {
        let result = self.expect_ok();
        match result.decode::<Value>() {
            Ok(value) => compare("the value of the result", &value, &json(&expected)),
            Err(error) => panic!("the result has no value: {error}\n{:#}", json(&result)),
        }
    }

    #[track_caller]
    fn expect_tool_error(self, part: &str) -> CallToolResult {
        match self {
            Ok(result) if result.is_error == Some(true) => {
                let text = text_of(&result);
                assert!(text.contains(part), "the tool failed, but not with {part:?}: {text}");
                result
            }
            Ok(result) => panic!("the tool did not fail with {part:?}, but returned: {:#}", json(&result)),
            Err(error) => panic!("the tool did not fail with {part:?}, but the call did: {error}"),
        }
    }

    #[track_caller]
    fn expect_error(self, code: i64) -> ErrorObject {
        match self {
            Ok(result) => panic!("no error {code}, but a result: {:#}", json(&result)),
            Err(error) => match error.remote() {
                Some(remote) if remote.code == code => remote.clone(),
                _ => panic!("another error than {code}: {error}"),
            },
        }
    }
}

/// The texts of a result, one per line.
fn text_of(result: &CallToolResult) -> String {
    result.content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n")
}

/// Checks that two values are the same as JSON. The order of members does not count, and `1.0` is `1`.
///
/// # Panics
/// If they are not: with the places where they differ.
#[track_caller]
pub fn assert_json_eq(actual: impl Serialize, expected: impl Serialize) {
    compare("the value", &json(&actual), &json(&expected));
}

#[track_caller]
fn compare(what: &str, actual: &Value, expected: &Value) {
    if let Some(differences) = differences(actual, expected) {
        panic!("{what} differs:{differences}\nreceived: {actual:#}");
    }
}

/// The places where two values differ, one per line; `None` if they are the same.
pub(super) fn differences(actual: &Value, expected: &Value) -> Option<String> {
    let mut all = Vec::new();
    collect("", Some(actual), Some(expected), &mut all);
    let mut lines = String::new();
    for difference in all.iter().take(MAX_DIFFERENCES) {
        let _ = write!(lines, "\n  {difference}");
    }
    if all.len() > MAX_DIFFERENCES {
        let _ = write!(lines, "\n  and {} more", all.len() - MAX_DIFFERENCES);
    }
    (!all.is_empty()).then_some(lines)
}

/// Collects the differences at this place, which is a [JSON pointer](https://www.rfc-editor.org/rfc/rfc6901).
fn collect(at: &str, actual: Option<&Value>, expected: Option<&Value>, all: &mut Vec<String>) {
    let child = |name: &str| format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
    let shown = if at.is_empty() { "at the top" } else { at };
    match (actual, expected) {
        (None, None) => {}
        (None, Some(expected)) => all.push(format!("{shown}: missing, expected {expected}")),
        (Some(actual), None) => all.push(format!("{shown}: not expected, received {actual}")),
        (Some(Value::Object(actual)), Some(Value::Object(expected))) => {
            for (name, value) in expected {
                collect(&child(name), actual.get(name), Some(value), all);
            }
            for (name, value) in actual.iter().filter(|(name, _)| !expected.contains_key(*name)) {
                collect(&child(name), Some(value), None, all);
            }
        }
        (Some(Value::Array(actual)), Some(Value::Array(expected))) => {
            for index in 0..actual.len().max(expected.len()) {
                collect(&child(&index.to_string()), actual.get(index), expected.get(index), all);
            }
        }
        (Some(actual), Some(expected)) if is_same(actual, expected) => {}
        (Some(actual), Some(expected)) => {
            all.push(format!("{shown}: received {actual}, expected {expected}"));
        }
    }
}

fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_name_their_places() {
        let actual = json!({ "a": 1, "list": [1, { "b/c": true }, 3], "more": null });
        let expected = json!({ "a": 1.0, "list": [1, { "b/c": false }], "less": [] });
        let found = differences(&actual, &expected).expect("they differ");
        let mut lines: Vec<&str> = found.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "/less: missing, expected []",
                "/list/1/b~1c: received true, expected false",
                "/list/2: not expected, received 3",
                "/more: not expected, received null",
            ]
        );
        assert_eq!(differences(&json!([1, "x"]), &json!([1.0, "x"])), None);
        // In a build with `arbitrary_precision` of `serde_json` a number is its text.
        let number = |text| serde_json::from_str::<Value>(text).expect("a number");
        assert_eq!(differences(&number("100.0"), &number("1e2")), None);
        assert_eq!(
            differences(&json!(1), &json!("1")).as_deref(),
            Some("\n  at the top: received 1, expected \"1\"")
        );
        let many = differences(&json!(vec![0; 30]), &json!(vec![1; 30])).expect("they differ");
        assert!(many.ends_with("\n  and 10 more"), "{many}");
    }
}
