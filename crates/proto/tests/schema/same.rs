//! Compares two JSON values, for the schema tests.

use serde_json::{Number, Value};

/// The place and kind of the first difference; `None` when the values are equal. The order of members does not count,
/// and numbers are compared by value: 50 equals 50.0.
pub(crate) fn difference(before: &Value, after: &Value) -> Option<String> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                let Some(other) = after.get(key) else { return Some(format!("/{key} is gone: {value}")) };
                if let Some(found) = difference(value, other) {
                    return Some(format!("/{key}{found}"));
                }
            }
            after
                .iter()
                .find(|(key, _)| !before.contains_key(*key))
                .map(|(key, value)| format!("/{key} is new: {value}"))
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            before.iter().zip(after).enumerate().find_map(|(index, (value, other))| {
                difference(value, other).map(|found| format!("/{index}{found}"))
            })
        }
        (Value::Number(before), Value::Number(after)) if same_number(before, after) => None,
        (before, after) if before == after => None,
        (before, after) => Some(format!(": {before} has become {after}")),
    }
}

fn same_number(a: &Number, b: &Number) -> bool {
    if a == b {
        return true;
    }
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a == b,
        _ => a.as_f64().is_some_and(|a| b.as_f64() == Some(a)),
    }
}

#[test]
fn only_what_says_the_same_is_equal() {
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let same = |a: &str, b: &str| difference(&value(a), &value(b)).is_none();
    assert!(same("50", "50.0") && same("5e1", "50") && same(r#"{"a":1,"b":2}"#, r#"{"b":2.0,"a":1}"#));
    assert!(!same("50", "50.5") && !same("9007199254740993", "9007199254740992"));
    assert!(!same("0", "null") && !same("0", "false") && !same("1", r#""1""#));
    assert!(!same(r#"{"a":null}"#, "{}") && !same("{}", r#"{"a":null}"#));
    assert!(!same("[1,2]", "[2,1]") && !same("[]", "[null]") && !same("[]", "{}"));
    assert_eq!(
        difference(&value(r#"{"a":[0,{"b":1}]}"#), &value(r#"{"a":[0,{"b":2}]}"#)).as_deref(),
        Some("/a/1/b: 1 has become 2")
    );
}
