//! Members of JSON objects, and the spelling of values that can be compared.
//!
//! Used by every rule.

use std::borrow::Cow;

use bytes::Bytes;
use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Kind, Payload, Raw, RequestId};
use mcpjoin_schema::canonical_number;

/// The canonical spelling of a value, so that two values are equal exactly when their texts are: members in the order of
/// their names, strings escaped by our writer, [canonical numbers](canonical_number). An object in which a name occurs twice
/// stays as it is written, because readers differ in what it means.
pub(crate) fn canonical(raw: &Raw) -> Raw {
    let mut text = String::with_capacity(raw.len());
    write(raw, &mut text);
    Raw::parse(text).unwrap_or_else(|_| raw.clone())
}

fn write(raw: &Raw, out: &mut String) {
    match raw.kind() {
        Kind::Null | Kind::Bool => out.push_str(raw.as_str()),
        Kind::Number => out.push_str(&canonical_number(raw.as_str())),
        Kind::String => match raw.to_string_value() {
            Some(value) => out.push_str(Raw::string(&value).as_str()),
            None => out.push_str(raw.as_str()),
        },
        Kind::Array => {
            let Ok(items) = raw.decode::<Vec<Raw>>() else { return out.push_str(raw.as_str()) };
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Kind::Object => {
            let Ok(members) = raw.decode::<Members<Raw>>() else { return out.push_str(raw.as_str()) };
            let mut members: Vec<(String, Raw)> = members.into_iter().collect();
            members.sort_by(|one, other| one.0.cmp(&other.0));
            out.push('{');
            for (place, (name, value)) in members.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                out.push_str(Raw::string(name).as_str());
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
    }
}

/// The number nearest to a JSON number. `None` for anything else.
pub(crate) fn number(raw: &Raw) -> Option<f64> {
    if raw.kind() == Kind::Number { raw.as_str().parse().ok() } else { None }
}

/// Whether a value is a number without a fraction: 1.0 is one.
pub(crate) fn is_integer(raw: &Raw) -> bool {
    raw.as_str().parse::<i128>().is_ok() || number(raw).is_some_and(|number| number.fract() == 0.0)
}

/// Whether an object has a member, or a member of a member: `sampling.tools`.
pub(crate) fn has_path(object: &Raw, path: &str) -> bool {
    let mut place = Some(object.clone());
    for name in path.split('.') {
        place = place.and_then(|object| member(&object, name));
    }
    place.is_some()
}

/// The members of an object; `None` for anything else.
pub(crate) fn members(raw: &Raw) -> Option<Members<Raw>> {
    if raw.kind() == Kind::Object { raw.decode().ok() } else { None }
}

/// The items of an array; `None` for anything else.
pub(crate) fn elements(raw: &Raw) -> Option<Vec<Raw>> {
    if raw.kind() == Kind::Array { raw.decode().ok() } else { None }
}

/// The items of an array of strings; `None` for anything else.
pub(crate) fn strings(raw: &Raw) -> Option<Vec<String>> {
    elements(raw)?.iter().map(string).collect()
}

/// The text of a string; `None` for anything else.
pub(crate) fn string(raw: &Raw) -> Option<String> {
    raw.to_string_value().map(Cow::into_owned)
}

/// A member of an object.
pub(crate) fn member(raw: &Raw, name: &str) -> Option<Raw> {
    members(raw)?.get(name).cloned()
}

/// A member that is a string.
pub(crate) fn text(raw: &Raw, name: &str) -> Option<String> {
    string(&member(raw, name)?)
}

/// A member that is an array.
pub(crate) fn list(raw: &Raw, name: &str) -> Option<Vec<Raw>> {
    elements(&member(raw, name)?)
}

/// A member that is an array of strings.
pub(crate) fn texts(raw: &Raw, name: &str) -> Option<Vec<String>> {
    strings(&member(raw, name)?)
}

/// A member that is an object.
pub(crate) fn object(raw: &Raw, name: &str) -> Option<Members<Raw>> {
    members(&member(raw, name)?)
}

/// A member that is a number: the nearest `f64`.
pub(crate) fn float(raw: &Raw, name: &str) -> Option<f64> {
    member(raw, name)?.as_str().parse().ok()
}

/// Whether a member is there and has this kind.
pub(crate) fn has_kind(raw: &Raw, name: &str, kind: Kind) -> bool {
    member(raw, name).is_some_and(|value| value.kind() == kind)
}

/// Whether a member is `true`.
pub(crate) fn is_true(raw: &Raw, name: &str) -> bool {
    member(raw, name).is_some_and(|value| value.as_str() == "true")
}

/// A parameter of a request or a notification.
pub(crate) fn param(params: &Option<Payload>, name: &str) -> Option<Raw> {
    member(params.as_ref()?.raw(), name)
}

/// A parameter that is a string.
pub(crate) fn text_param(params: &Option<Payload>, name: &str) -> Option<String> {
    text(params.as_ref()?.raw(), name)
}

/// The id in a parameter, as a cancellation has it.
pub(crate) fn request_id(params: &Option<Payload>) -> Option<RequestId> {
    param(params, "requestId")?.decode().ok()
}

/// A line that is an object, even if it is no valid message.
pub(crate) fn of_line(bytes: &Bytes) -> Option<Raw> {
    // The first byte decides, so that a batch is not parsed again for each of its faults.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    Raw::parse(bytes.clone()).ok()
}

/// A string without its escapes, so that equal strings are equal. Other values stay as they are.
pub(crate) fn plain(raw: &Raw) -> Raw {
    raw.to_string_value().map_or_else(|| raw.clone(), |text| Raw::string(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).expect("JSON")
    }

    #[test]
    fn an_integer_may_be_written_with_a_fraction() {
        assert!(is_integer(&raw("1.0")) && !is_integer(&raw("1.5")) && !is_integer(&raw("true")));
    }

    #[test]
    fn a_value_has_one_spelling() {
        let one = |text: &str| canonical(&raw(text)).as_str().to_owned();
        assert_eq!(
            one(r#"{ "b": [1.0, null, "\u00e4\/"], "a": {"d":1,"c":2} }"#),
            r#"{"a":{"c":2,"d":1},"b":[1,null,"ä/"]}"#
        );
        // Readers differ in which of them they take.
        assert_eq!(one(r#"{"b":{"x":1,"a":2,"x":3},"a":1}"#), r#"{"a":1,"b":{"x":1,"a":2,"x":3}}"#);
    }
}
