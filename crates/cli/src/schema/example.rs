//! Example arguments that a schema allows: defaults, the first value of an enumeration, the least number, and texts by their
//! format and their name.

use mcpjoin::proto::{Raw, Walk};
use mcpjoin_schema::{Conformance, conforms};
use serde_json::{Value, json};

use super::{MAX_DEPTH, MAX_STEPS, Node, Schema, View};

/// The most items of an array.
const MAX_ITEMS: usize = 3;
/// The longest text.
const MAX_TEXT_CHARS: usize = 200;
/// The alternatives that are tried.
const MAX_CHOICES: usize = 4;
/// The patterns for which a matching text is searched.
const MAX_PATTERNS: usize = 20;

/// An example of a date.
const DATE: &str = "2026-01-31";
/// Texts by the format of a string.
const FORMATS: [(&str, &str); 11] = [
    ("date", DATE),
    ("date-time", "2026-01-31T12:00:00Z"),
    ("duration", "PT1H"),
    ("email", "user@example.com"),
    ("hostname", "example.com"),
    ("ipv4", "192.0.2.1"),
    ("ipv6", "2001:db8::1"),
    ("time", "12:00:00Z"),
    ("uri", "https://example.com"),
    ("url", "https://example.com"),
    ("uuid", "123e4567-e89b-42d3-a456-426614174000"),
];
/// Texts by the end of a name in lower case.
const NAMES: [(&str, &str); 14] = [
    ("url", "https://example.com"),
    ("uri", "https://example.com"),
    ("email", "user@example.com"),
    ("path", "file.txt"),
    ("paths", "file.txt"),
    ("file", "file.txt"),
    ("filename", "file.txt"),
    ("directory", "."),
    ("folder", "."),
    ("date", DATE),
    ("timezone", "Europe/Paris"),
    ("time", "12:00"),
    ("id", "1"),
    ("name", "example"),
];
/// The text where nothing says more.
const TEXT: &str = "text";
/// Texts that are tried where a pattern must match.
const CANDIDATES: [&str; 16] = [
    TEXT, "a", "A", "abc", "ABC", "1", "example", "a-b", "a_b", "a1", "A1", "1.0.0", "/a", "a/b", "#aabbcc",
    DATE,
];

struct Example<'a> {
    schema: &'a Schema,
    walk: Walk,
    patterns: usize,
    /// Which of the alternatives that only require members is chosen.
    choice: usize,
}

impl Schema {
    /// The required arguments with values as JSON, or the first argument whose value the schema names, where none is required.
    pub(crate) fn example(&self) -> Vec<(String, String)> {
        let schema: Option<Value> = serde_json::from_str(&self.root.json()).ok();
        let is_refused = |members: &[(String, String)]| {
            let object = crate::object::write(members.iter().map(|(name, value)| (name, value)));
            let object = serde_json::from_str(&object).ok();
            let decided = schema.as_ref().zip(object).map(|(schema, object)| conforms(schema, &object));
            matches!(decided, Some(Conformance::No(_)))
        };
        let first = self.example_with(0);
        if !is_refused(&first) {
            return first;
        }
        // Of alternatives that only require members another one may be meant.
        let other = (1..MAX_CHOICES).map(|choice| self.example_with(choice)).find(|other| !is_refused(other));
        other.unwrap_or(first)
    }

    fn example_with(&self, choice: usize) -> Vec<(String, String)> {
        let mut example = Example { schema: self, walk: Walk::new(MAX_STEPS), patterns: 0, choice };
        let view = self.view(&self.root, &mut example.walk);
        let members = example.members(&view, 0);
        if !members.is_empty() || view.properties().is_empty() {
            return members;
        }
        let named = view.properties().into_iter().find_map(|(name, node)| {
            let view = self.view(node, &mut example.walk);
            Some((name.to_owned(), named_value(&view)?))
        });
        named.into_iter().collect()
    }

    /// An example for one argument, as JSON.
    pub(crate) fn example_of(&self, name: &str) -> Option<String> {
        let mut example = Example { schema: self, walk: Walk::new(MAX_STEPS), patterns: 0, choice: 0 };
        let view = self.view(&self.root, &mut example.walk);
        let (name, node) = view.properties().into_iter().find(|(known, _)| *known == name)?;
        Some(example.value(name, node, 1))
    }
}

/// A value that the schema itself names.
fn named_value(view: &View<'_>) -> Option<String> {
    let examples = view.get("examples").and_then(|examples| examples.items().first());
    let value = view.get("default").filter(|default| !default.is("null")).or(examples);
    value.or_else(|| view.values().first().copied()).map(Node::json)
}

impl<'a> Example<'a> {
    /// The required members of an object.
    fn members(&mut self, view: &View<'a>, depth: usize) -> Vec<(String, String)> {
        let mut required = view.required();
        required
            .extend(view.choices.iter().filter_map(|choices| choices.get(self.choice)).flatten().cloned());
        let mut members: Vec<(String, String)> = Vec::new();
        for (name, node) in view.properties() {
            if required.contains(name) {
                members.push((name.to_owned(), self.value(name, node, depth + 1)));
            }
        }
        // Of several alternatives the first one.
        if let Some(first) = view.alternatives.first() {
            let first = self.schema.view(first, &mut self.walk);
            let properties = view.properties();
            for (name, node) in first.properties().into_iter().chain(properties) {
                let is_known = members.iter().any(|(known, _)| known == name);
                if first.required().contains(name) && !is_known {
                    members.push((name.to_owned(), self.value(name, node, depth + 1)));
                }
            }
        }
        members
    }

    /// A value as JSON. `name`: of the member that has it.
    fn value(&mut self, name: &str, node: &'a Node, depth: usize) -> String {
        if depth > MAX_DEPTH || self.walk.left() == 0 {
            return "null".into();
        }
        let view = self.schema.view(node, &mut self.walk);
        if let Some(value) = named_value(&view) {
            return value;
        }
        let types = view.types();
        match (types.first().map(String::as_str), view.alternatives.first()) {
            (None, Some(first)) => self.value(name, first, depth + 1),
            (Some("string") | None, None) if !view.is_nullable() || !types.is_empty() => {
                Raw::string(&self.text(name, &view)).to_string()
            }
            (Some("string"), Some(_)) => Raw::string(&self.text(name, &view)).to_string(),
            (Some("integer"), _) => number(&view, true),
            (Some("number"), _) => number(&view, false),
            (Some("boolean"), _) => "true".into(),
            (Some("array"), _) => self.array(name, &view, depth),
            (Some("object"), _) => {
                let mut members = self.members(&view, depth);
                if members.is_empty()
                    && view.get("minProperties").and_then(Node::number).is_some_and(|least| least > 0.0)
                    && let Some(other) = view.other_members()
                {
                    members.push(("name".into(), self.value("value", other, depth + 1)));
                }
                crate::object::write(members)
            }
            _ => "null".into(),
        }
    }

    fn array(&mut self, name: &str, view: &View<'a>, depth: usize) -> String {
        let mut items = Vec::new();
        for node in view.get("prefixItems").map_or(&[][..], Node::items).iter().take(MAX_ITEMS) {
            items.push(self.value(name, node, depth + 1));
        }
        let least = view.get("minItems").and_then(Node::number).unwrap_or(1.0);
        if let Some(node) = view.items() {
            let item = self.value(name, node, depth + 1);
            #[expect(clippy::cast_precision_loss, reason = "at most three items")]
            while items.len() < MAX_ITEMS && (items.is_empty() || (items.len() as f64) < least) {
                items.push(item.clone());
            }
        }
        format!("[{}]", items.join(","))
    }

    /// A text with a length and a pattern that the schema allows, as far as one is found.
    fn text(&mut self, name: &str, view: &View<'a>) -> String {
        let format = view.text("format").unwrap_or_default();
        if let Some((_, text)) = FORMATS.iter().find(|(known, _)| *known == format) {
            return (*text).into();
        }
        let name = name.to_lowercase();
        let of_name = NAMES.iter().find(|(end, _)| name.ends_with(end)).map_or(TEXT, |(_, text)| text);
        let length = |name: &str| view.get(name).and_then(|node| node.json().parse::<usize>().ok());
        let least = length("minLength").unwrap_or(0).min(MAX_TEXT_CHARS);
        let most = length("maxLength").unwrap_or(usize::MAX);
        let fitted = |text: &str| {
            let repeated = text.chars().cycle().take(text.chars().count().max(least).min(most));
            repeated.collect::<String>()
        };
        let Some(pattern) = view.text("pattern").filter(|_| self.patterns < MAX_PATTERNS) else {
            return fitted(of_name);
        };
        self.patterns += 1;
        let schema = json!({ "pattern": pattern });
        let digits = [least, 8, 16, 24, 32, 40, 64].map(|length| "a".repeat(length.min(MAX_TEXT_CHARS)));
        let candidates = std::iter::once(of_name).chain(CANDIDATES).map(fitted).chain(digits);
        let matching = candidates
            .filter(|text| (least..=most).contains(&text.chars().count()))
            .find(|text| conforms(&schema, &Value::from(text.as_str())) == Conformance::Yes);
        matching.unwrap_or_else(|| fitted(of_name))
    }
}

/// A number within the bounds, as far as that is easy.
fn number(view: &View<'_>, is_integer: bool) -> String {
    let bound = |name: &str| view.get(name).and_then(Node::number);
    let step = bound("multipleOf").filter(|step| *step > 0.0);
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|least| least + 1.0));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|most| most - 1.0));
    let mut number = match (least, most) {
        (Some(least), _) => least,
        (None, Some(most)) => most.min(1.0),
        (None, None) => 1.0,
    };
    if let Some(step) = step {
        number = (number / step).ceil() * step;
    }
    if is_integer {
        number = number.ceil();
    }
    // Whole numbers without a point; the digits of a number are JSON.
    if number.is_finite() { format!("{number}") } else { "1".into() }
}
