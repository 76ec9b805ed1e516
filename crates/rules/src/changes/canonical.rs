//! One spelling for each JSON value, so that two values are the same when their texts are.
//!
//! Members in the order of their names, strings as our writer has them, numbers without what does not count. An object in
//! which a name stands twice means different things to different readers: it stays as it was written.

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Kind, Raw};

use crate::json::canonical_number;

/// The one spelling of a value.
pub(super) fn canonical(raw: &Raw) -> Raw {
    let mut text = String::with_capacity(raw.len());
    write(raw, &mut text);
    // Of parts that are valid: what could not be put together stays what it was.
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

#[cfg(test)]
mod tests {
    use mcpjoin_proto::Raw;

    use super::canonical;

    #[test]
    fn a_value_has_one_spelling() {
        let one = |text: &str| canonical(&Raw::parse(text.to_owned()).unwrap()).as_str().to_owned();
        assert_eq!(
            one(r#"{ "b": [1.0, null, "\u00e4\/"], "a": {"d":1,"c":2} }"#),
            r#"{"a":{"c":2,"d":1},"b":[1,null,"ä/"]}"#
        );
        // Readers differ in which of them they take.
        assert_eq!(one(r#"{"b":{"x":1,"a":2,"x":3},"a":1}"#), r#"{"a":1,"b":{"x":1,"a":2,"x":3}}"#);
    }
}
