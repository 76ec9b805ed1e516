//! The kinds of JSON that a tool's input schema allows for an argument, and for the items of one that is an array.
//!
//! Used by `arguments` to turn a word into JSON. Reads `type`, `enum`, `const`, `items`, `anyOf`, `oneOf`, `allOf` and
//! references inside the document. It validates nothing.

use mcpjoin::proto::{Kind, Raw, Walk};
use serde_json::Value;

/// The schemas that are visited for all arguments of one call: enough for 50 arguments that are declared in one of 500
/// alternatives, which takes about ten milliseconds.
const MAX_STEPS: usize = 100_000;

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
    pub(super) const ARRAY: Self = Self(1 << 6);
    /// The schema does not say: the word is a string.
    pub(super) const UNKNOWN: Self = Self::STRING;

    const NAMES: [(Self, &str, &str); 7] = [
        (Self::STRING, "string", "a string"),
        (Self::NUMBER, "number", "a number"),
        (Self::INTEGER, "integer", "an integer"),
        (Self::BOOLEAN, "boolean", "true or false"),
        (Self::NULL, "null", "null"),
        (Self::OBJECT, "object", "an object"),
        (Self::ARRAY, "array", "an array"),
    ];

    const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn has(self, kind: Self) -> bool {
        self.0 & kind.0 != 0
    }

    /// The word as JSON of an allowed kind: a string only where it is no other kind that is allowed.
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

    /// The names for a message.
    pub(super) fn names(self) -> String {
        let names: Vec<&str> =
            Self::NAMES.iter().filter(|(kind, ..)| self.has(*kind)).map(|(.., name)| *name).collect();
        names.join(" or ")
    }

    /// The kind that `type` of a schema names.
    pub(super) fn named(name: &str) -> Self {
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

/// What a schema says of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Declared {
    /// The schema has a property of that name.
    pub(super) is_property: bool,
    /// The allowed kinds; none where the schema does not say.
    kinds: Kinds,
    /// The kinds of its items; none where the schema does not say.
    items: Kinds,
}

impl Declared {
    pub(super) const NOTHING: Self = Self { is_property: false, kinds: Kinds::NONE, items: Kinds::NONE };

    /// The kinds that a word is turned into.
    pub(super) fn kinds(self) -> Kinds {
        if self.kinds == Kinds::NONE { Kinds::UNKNOWN } else { self.kinds }
    }

    /// The same for an item.
    pub(super) fn items(self) -> Kinds {
        if self.items == Kinds::NONE { Kinds::UNKNOWN } else { self.items }
    }
}

/// A tool's input schema, and the steps that are left of [`MAX_STEPS`].
pub(super) struct InputSchema<'a> {
    root: &'a Value,
    steps_left: usize,
}

/// What is searched in a schema.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted {
    /// The kinds of an argument that the schema declares.
    Property,
    /// The kinds that the schema allows.
    Itself,
    /// The kinds that it allows as an item.
    Item,
}

impl<'a> InputSchema<'a> {
    pub(super) const fn new(root: &'a Value) -> Self {
        Self { root, steps_left: MAX_STEPS }
    }

    /// What the schema says of an argument: in the schema itself, in the schemas that it refers to, and in those that it
    /// combines. Each place is visited once. `None` when no steps are left.
    pub(super) fn declared(&mut self, name: &str) -> Option<Declared> {
        let mut walk = Walk::new(self.steps_left);
        let mut found = Declared::NOTHING;
        let mut waiting = vec![(Wanted::Property, self.root)];
        while let Some((wanted, schema)) = waiting.pop() {
            if !walk.visit((wanted, std::ptr::from_ref(schema).addr())) {
                if walk.left() == 0 {
                    break;
                }
                continue;
            }
            match wanted {
                Wanted::Property => {
                    if let Some(property) = schema.get("properties").and_then(|known| known.get(name)) {
                        found.is_property = true;
                        waiting.push((Wanted::Itself, property));
                        continue;
                    }
                }
                Wanted::Itself => {
                    waiting.extend(schema.get("items").map(|items| (Wanted::Item, items)));
                    if let Some(kinds) = declared(schema) {
                        found.kinds = found.kinds.with(kinds);
                        continue;
                    }
                }
                Wanted::Item => {
                    if let Some(kinds) = declared(schema) {
                        found.items = found.items.with(kinds);
                        continue;
                    }
                }
            }
            let reference = schema.get("$ref").and_then(|reference| follow(self.root, reference));
            waiting.extend(reference.into_iter().chain(parts(schema)).map(|part| (wanted, part)));
        }
        self.steps_left = walk.left();
        (walk.left() > 0).then_some(found)
    }
}

/// The kinds that a schema names itself; `None` when it names none.
fn declared(schema: &Value) -> Option<Kinds> {
    match schema.get("type") {
        Some(Value::String(name)) => return Some(Kinds::named(name)),
        Some(Value::Array(names)) => {
            let kinds = names.iter().filter_map(Value::as_str).map(Kinds::named);
            return Some(kinds.fold(Kinds::NONE, Kinds::with));
        }
        _ => {}
    }
    if let Some(value) = schema.get("const") {
        return Some(Kinds::of_value(value));
    }
    let values = schema.get("enum").and_then(Value::as_array)?;
    Some(values.iter().map(Kinds::of_value).fold(Kinds::NONE, Kinds::with))
}

fn parts(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|name| schema.get(name)?.as_array()).flatten()
}

/// The schema that a reference inside the document points to. Other references are not followed.
fn follow<'a>(root: &'a Value, reference: &Value) -> Option<&'a Value> {
    root.pointer(reference.as_str()?.strip_prefix('#')?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{InputSchema, Kinds, MAX_STEPS};

    /// The kinds of the argument `x`, and the steps that this took.
    fn said(root: &Value) -> (Option<String>, usize) {
        let mut schema = InputSchema::new(root);
        let kinds =
            schema.declared("x").map(|declared| declared.kinds.names()).filter(|said| !said.is_empty());
        (kinds, MAX_STEPS - schema.steps_left)
    }

    #[test]
    fn a_schema_whose_references_multiply_is_walked_once() {
        let number = json!({"type": "number"});
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for breadth in [1, 10, 300] {
                // Each part leads back to the whole.
                let parts = vec![json!({"$ref": "#"}); breadth];
                let (kinds, steps) = said(&json!({ keyword: parts, "$defs": {"n": number} }));
                assert_eq!(kinds, None);
                assert!(steps <= 2 * breadth + 2, "{keyword} {breadth}: {steps}");

                let mut parts = vec![json!({"$ref": "#/properties/x"}); breadth];
                parts.push(json!({"$ref": "#/$defs/n"}));
                let root = json!({"properties": {"x": {keyword: parts}}, "$defs": {"n": number}});
                let (kinds, steps) = said(&root);
                assert_eq!(kinds.as_deref(), Some("a number"));
                assert!(steps <= 2 * breadth + 6, "{keyword} {breadth}: {steps}");
            }
        }
    }

    #[test]
    fn references_are_followed_however_long_their_chain_is() {
        let mut root = json!({"properties": {"x": {"$ref": "#/$defs/0"}}, "$defs": {}});
        for number in 0..50 {
            root["$defs"][number.to_string()] = json!({"$ref": format!("#/$defs/{}", number + 1)});
        }
        root["$defs"]["50"] = json!({"type": "boolean"});
        assert_eq!(said(&root).0.as_deref(), Some("true or false"));
    }

    #[test]
    fn beyond_the_steps_of_a_call_nothing_is_said() {
        let root = json!({"anyOf": vec![json!({"properties": {"x": {"type": "number"}}}); 1000]});
        let mut schema = InputSchema::new(&root);
        let mut found = 0;
        while schema.declared("x").is_some_and(|declared| declared.kinds == Kinds::NUMBER) {
            found += 1;
        }
        // The whole, its parts and their arguments for each look.
        assert_eq!(found, MAX_STEPS / 2001);
        assert_eq!(schema.declared("x"), None);
    }

    #[test]
    fn the_kinds_of_items_are_found_where_the_array_is() {
        let strings = json!({"type": "array", "items": {"type": "string"}});
        let root = json!({
            "properties": {
                "plain": strings,
                "maybe": {"anyOf": [strings, {"type": "null"}]},
                "far": {"$ref": "#/$defs/numbers"},
                "untyped": {"type": "array"},
                "none": {"type": "string"},
            },
            "$defs": {"numbers": {"type": "array", "items": {"$ref": "#/$defs/number"}}, "number": {"type": "number"}},
        });
        let mut schema = InputSchema::new(&root);
        for (name, kinds, items) in [
            ("plain", Kinds::ARRAY, Kinds::STRING),
            ("maybe", Kinds::ARRAY.with(Kinds::NULL), Kinds::STRING),
            ("far", Kinds::ARRAY, Kinds::NUMBER),
            ("untyped", Kinds::ARRAY, Kinds::UNKNOWN),
            ("none", Kinds::STRING, Kinds::UNKNOWN),
        ] {
            let declared = schema.declared(name).unwrap();
            assert!(declared.is_property, "{name}");
            assert_eq!((declared.kinds(), declared.items()), (kinds, items), "{name}");
        }
        assert!(!schema.declared("other").unwrap().is_property);
    }
}
