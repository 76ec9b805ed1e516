//! Which kinds of JSON a tool's input schema allows for an argument.
//!
//! Reads `type`, `enum`, `const`, `anyOf`, `oneOf`, `allOf` and references inside the document, as far as they say
//! something about kinds. Not a validator.

use mcpjoin::proto::{Kind, Raw};
use serde_json::Value;

/// So deep references and combinations are followed.
const DEPTH: usize = 8;

/// A set of kinds of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    const NONE: Self = Self(0);
    const STRING: Self = Self(1);
    const NUMBER: Self = Self(1 << 1);
    const INTEGER: Self = Self(1 << 2);
    const BOOLEAN: Self = Self(1 << 3);
    const NULL: Self = Self(1 << 4);
    const OBJECT: Self = Self(1 << 5);
    const ARRAY: Self = Self(1 << 6);
    /// The schema does not say: what is typed is text.
    pub(super) const UNKNOWN: Self = Self::STRING;

    const NAMES: [(Self, &str, &str); 7] = [
        (Self::STRING, "string", "a string"),
        (Self::NUMBER, "number", "a number"),
        (Self::INTEGER, "integer", "a whole number"),
        (Self::BOOLEAN, "boolean", "true or false"),
        (Self::NULL, "null", "null"),
        (Self::OBJECT, "object", "a JSON object"),
        (Self::ARRAY, "array", "a JSON array"),
    ];

    const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, kind: Self) -> bool {
        self.0 & kind.0 != 0
    }

    /// What the schema of a tool's arguments allows for the argument of that name.
    pub(super) fn of(schema: &Value, name: &str) -> Self {
        let kinds = property(schema, schema, name, DEPTH);
        if kinds == Self::NONE { Self::UNKNOWN } else { kinds }
    }

    /// The kinds for a person; `None` when the schema does not say.
    pub(super) fn said(schema: &Value, name: &str) -> Option<String> {
        let kinds = property(schema, schema, name, DEPTH);
        (kinds != Self::NONE).then(|| kinds.names())
    }

    /// The word as the first kind that it can be. A string only where it can be nothing else that is allowed.
    pub(super) fn value(self, word: &str) -> Option<Raw> {
        let json = Raw::parse(word.as_bytes().to_vec()).ok();
        let fits = json.filter(|json| match json.kind() {
            Kind::Number => {
                self.has(Self::NUMBER) || self.has(Self::INTEGER) && !json.as_str().contains(['.', 'e', 'E'])
            }
            Kind::Bool => self.has(Self::BOOLEAN),
            Kind::Null => self.has(Self::NULL),
            Kind::Object => self.has(Self::OBJECT),
            Kind::Array => self.has(Self::ARRAY),
            Kind::String => false,
        });
        fits.or_else(|| self.has(Self::STRING).then(|| Raw::string(word)))
    }

    /// For a person.
    pub(super) fn names(self) -> String {
        let names: Vec<&str> =
            Self::NAMES.iter().filter(|(kind, ..)| self.has(*kind)).map(|(.., name)| *name).collect();
        names.join(" or ")
    }

    fn named(name: &str) -> Self {
        Self::NAMES.iter().find(|(_, known, _)| *known == name).map_or(Self::NONE, |(kind, ..)| *kind)
    }

    const fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(_) => Self::NUMBER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }
}

/// Looks for the property in the schema itself, behind its reference and in what it combines.
fn property(root: &Value, schema: &Value, name: &str, depth: usize) -> Kinds {
    if let Some(property) = schema.get("properties").and_then(|properties| properties.get(name)) {
        return kinds(root, property, depth);
    }
    let Some(depth) = depth.checked_sub(1) else {
        return Kinds::NONE;
    };
    let behind = schema.get("$ref").and_then(|reference| follow(root, reference));
    behind
        .into_iter()
        .chain(parts(schema))
        .fold(Kinds::NONE, |kinds, part| kinds.with(property(root, part, name, depth)))
}

/// The kinds that a schema allows; none when it does not say.
fn kinds(root: &Value, schema: &Value, depth: usize) -> Kinds {
    match schema.get("type") {
        Some(Value::String(name)) => return Kinds::named(name),
        Some(Value::Array(names)) => {
            return names
                .iter()
                .filter_map(Value::as_str)
                .fold(Kinds::NONE, |kinds, name| kinds.with(Kinds::named(name)));
        }
        _ => {}
    }
    if let Some(value) = schema.get("const") {
        return Kinds::of_value(value);
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.iter().fold(Kinds::NONE, |kinds, value| kinds.with(Kinds::of_value(value)));
    }
    let Some(depth) = depth.checked_sub(1) else {
        return Kinds::NONE;
    };
    let behind = schema.get("$ref").and_then(|reference| follow(root, reference));
    behind
        .into_iter()
        .chain(parts(schema))
        .fold(Kinds::NONE, |known, part| known.with(kinds(root, part, depth)))
}

fn parts(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|name| schema.get(name)?.as_array()).flatten()
}

/// What a reference inside the document points to; no other is followed.
fn follow<'a>(root: &'a Value, reference: &Value) -> Option<&'a Value> {
    root.pointer(reference.as_str()?.strip_prefix('#')?)
}
