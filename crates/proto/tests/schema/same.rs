//! Whether two JSON values say the same.

use serde_json::{Number, Value};

/// Where and how two values differ; nothing when they are equal. The order of members does not count, and numbers
/// are compared as numbers: 50 is 50.0.
pub(crate) fn difference(before: &Value, after: &Value) -> Option<String> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                let Some(other) = after.get(key) else { return Some(format!("/{key} is gone: {value}")) };
                if let Some(found) = difference(value, other) {
                    return Some(format!("/{key}{found}"));
                }
            }
            after.iter().find(|(key, _)| !before.contains_key(*key)).map(|(key, value)| {
                format!("/{key} is new: {value}")
            })
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
