//! Fuzz target of JSON values: reading and writing typed values agrees with serde_json.

use crate::expand;
use mcpjoin_proto::types::{CallToolResult, InitializeParams, ListToolsResult};
use mcpjoin_proto::{Kind, Raw, scan};
use serde_json::Value;

pub(crate) fn run(data: &[u8]) {
    let Ok(raw) = Raw::parse(expand(data)) else { return };
    let text = raw.as_str();
    assert!(std::str::from_utf8(raw.as_bytes()).is_ok());
    let ours = raw.decode::<Value>();
    match (&ours, serde_json::from_str::<Value>(text)) {
        (Ok(ours), Ok(theirs)) => assert!(is_same(ours, &theirs), "{ours:?} and {theirs:?}"),
        // Numbers outside machine words, and nesting: the limits of the two differ.
        (Ok(_), Err(error)) => {
            assert!(error.to_string().contains("number") || error.to_string().contains("recursion"));
        }
        // We do not round integers.
        (Err(error), Ok(_)) => {
            let error = error.to_string();
            assert!(error.contains("does not fit") || error.contains("out of range"), "{error}");
        }
        (Err(_), Err(_)) => {}
    }
    if let Ok(value) = ours {
        let written = Raw::from_value(&value).expect("a value can be written");
        assert_eq!(
            Raw::parse(written.as_str().to_owned()).as_ref(),
            Ok(&written),
            "what is written is valid"
        );
        assert!(!written.as_str().contains('\n'));
        match serde_json::from_str::<Value>(written.as_str()) {
            Ok(again) => assert!(is_same(&again, &value), "{again:?} and {value:?}"),
            // serde_json's limit is one level below ours.
            Err(error) => assert!(error.to_string().contains("recursion"), "{error}"),
        }
    }
    // Text is passed through unchanged.
    assert_eq!(raw.decode::<Raw>().as_ref(), Ok(&raw));
    assert_eq!(Raw::from_value(&raw).as_ref(), Ok(&raw));
    if raw.kind() == Kind::String {
        assert_eq!(raw.to_string_value().as_deref(), serde_json::from_str::<String>(text).ok().as_deref());
    }
    for (_, range) in scan::members(&raw) {
        assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text[range]).is_ok());
    }
    // Types of the protocol: a value that was read can be written, and reads as the same value again.
    again::<InitializeParams>(&raw);
    again::<CallToolResult>(&raw);
    again::<ListToolsResult>(&raw);
}

/// Compares numbers by value: with its feature `arbitrary_precision`, which other crates of the workspace use in their tests,
/// serde_json keeps the digits.
fn is_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| is_same(left, right)))
        }
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        _ => left == right,
    }
}

fn again<T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(raw: &Raw) {
    let Ok(value) = raw.decode::<T>() else { return };
    let written = Raw::from_value(&value).expect("what was read can be written");
    assert_eq!(written.decode::<T>().as_ref(), Ok(&value));
}
