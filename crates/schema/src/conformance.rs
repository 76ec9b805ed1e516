//! Whether a schema is valid in its draft ([`fault`]), and whether a value conforms to one ([`conforms`]).
//!
//! Used by the rules of `validate`, and by `compiled`, which shares the options and the limits. What cannot be decided is
//! [`Conformance::Unknown`], which is never a finding: a reference to another document, a schema or a pattern that does not
//! compile, a draft that is not known, a number that would have to be rounded, too much work.
//!
//! <https://json-schema.org/draft/2020-12>

use std::collections::BTreeSet;
use std::sync::OnceLock;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{Draft, JsonType, PatternOptions, ValidationError, ValidationOptions, Validator};
use mcpjoin_proto::{Raw, Walk};
use serde_json::Value;

use crate::number::{type_name, value};

/// The work that one value may cost. A schema that is applied to a value counts [`APPLY_WORK`].
pub(crate) const MAX_WORK: usize = 10_000_000;
const APPLY_WORK: usize = 100;
/// Reading this many bytes of a text counts 1.
const BYTES_OF_WORK: usize = 256;
/// Searching a text for a pattern counts 1 for this many bytes of the text times bytes of the pattern.
const SEARCHES_OF_WORK: usize = 16;
/// How deep subschemas and references may be applied within each other.
const MAX_APPLY_DEPTH: usize = 200;
/// How many references of a schema [`lost_reference`] looks up.
const MAX_REFERENCES: usize = 1000;
/// How many regular expressions a schema may have: compiling one of [`MAX_PATTERN_BYTES`] takes about 1 ms.
pub(crate) const MAX_PATTERNS: usize = 200;
/// The size of a compiled regular expression, and of its cache.
const MAX_PATTERN_BYTES: usize = 1 << 18;
/// Above this an integer is not exact as `f64`, in which `jsonschema` keeps `multipleOf`.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// Keywords whose value is data, in which nothing is a schema.
const DATA: [&str; 5] = ["const", "enum", "default", "examples", "example"];

/// The drafts that are known, with their names after `http://json-schema.org/`.
const DRAFTS: [(Draft, &str); 5] = [
    (Draft::Draft4, "draft-04/schema"),
    (Draft::Draft6, "draft-06/schema"),
    (Draft::Draft7, "draft-07/schema"),
    (Draft::Draft201909, "draft/2019-09/schema"),
    (Draft::Draft202012, "draft/2020-12/schema"),
];

/// Whether a value conforms to a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conformance {
    /// Yes.
    Yes,
    /// No, for this reason.
    No(String),
    /// That cannot be decided.
    Unknown,
}

/// The reason why a value does not conform to a JSON Schema. `None` where it conforms, and where that is unknown.
#[must_use]
pub fn nonconformity(schema: &Raw, instance: &Raw) -> Option<String> {
    match conforms(&value(schema)?, &value(instance)?) {
        Conformance::No(why) => Some(why),
        Conformance::Yes | Conformance::Unknown => None,
    }
}

/// Whether a value conforms to a schema.
#[must_use]
pub fn conforms(schema: &Value, instance: &Value) -> Conformance {
    let Some(draft) = draft(schema) else { return Conformance::Unknown };
    let mut patterns = Walk::new(MAX_PATTERNS);
    let mut budget = Budget { root: schema, draft, work: MAX_WORK };
    if !has_few_patterns(schema, &mut patterns) || !budget.apply(schema, instance, 0) {
        return Conformance::Unknown;
    }
    let Ok(validator) = options(draft).build(schema) else { return Conformance::Unknown };
    match validator.validate(instance) {
        Ok(()) => Conformance::Yes,
        Err(error) => reason(&error).map_or(Conformance::Unknown, Conformance::No),
    }
}

/// The first part of a schema that the meta-schema of its draft does not allow, with its place. `None` where the schema is
/// valid, and where its draft is not known.
#[must_use]
pub fn fault(schema: &Value) -> Option<String> {
    let draft = draft(schema)?;
    let schema = without_ignored(schema, draft, true)?;
    let error = meta_schema(draft)?.validate(&schema).err()?;
    let error = innermost(&error);
    let place = format!("#{}", error.instance_path().as_str());
    Some(format!("at {place}: {}", schema_problem(error)))
}

/// The first `$ref` of a schema that leads to no place in it.
#[must_use]
pub fn lost_reference(schema: &Value) -> Option<String> {
    // References are relative to the identifier of the schema around them.
    if has_identifiers(schema, true) {
        return None;
    }
    lost(schema, schema, &mut Walk::new(MAX_REFERENCES))
}

/// The draft that a schema names, or 2020-12. `None` for one that is not known.
pub(crate) fn draft(schema: &Value) -> Option<Draft> {
    let Some(named) = schema.get("$schema") else { return Some(Draft::Draft202012) };
    let name = named.as_str()?;
    let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://"))?;
    let name = name.strip_prefix("json-schema.org/")?;
    let name = name.strip_suffix('#').unwrap_or(name);
    DRAFTS.iter().find_map(|(draft, known)| (*known == name).then_some(*draft))
}

pub(crate) fn options(draft: Draft) -> ValidationOptions<'static> {
    let patterns = PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    jsonschema::options()
        .with_draft(draft)
        .offline()
        .should_validate_formats(false)
        .without_content_encoding_support("base64")
        .without_content_media_type_support("application/json")
        .with_pattern_options(patterns)
}

/// The meta-schema of a draft, compiled once, without its formats.
fn meta_schema(draft: Draft) -> Option<&'static Validator> {
    static COMPILED: [OnceLock<Option<Validator>>; 5] = [const { OnceLock::new() }; 5];
    let place = DRAFTS.iter().position(|(known, _)| *known == draft)?;
    let compile = || {
        let (draft, name) = DRAFTS[place];
        let scheme = if draft < Draft::Draft201909 { "http" } else { "https" };
        let address = format!("{scheme}://json-schema.org/{name}");
        options(draft).build(&serde_json::json!({ "$schema": address, "$ref": address })).ok()
    };
    COMPILED[place].get_or_init(compile).as_ref()
}

/// A schema without what its draft ignores: up to draft 7, everything beside a `$ref`. `None` where a part is in another
/// draft.
fn without_ignored(schema: &Value, draft: Draft, is_root: bool) -> Option<Value> {
    Some(match schema {
        Value::Object(members) => {
            if !is_root
                && members.get("$schema").is_some_and(Value::is_string)
                && self::draft(schema) != Some(draft)
            {
                return None;
            }
            match members.get("$ref") {
                Some(Value::String(reference)) if draft <= Draft::Draft7 => {
                    serde_json::json!({ "$ref": reference })
                }
                _ => {
                    let kept = members.iter().map(|(name, part)| {
                        let is_data = DATA.contains(&name.as_str());
                        let part = if is_data { part.clone() } else { without_ignored(part, draft, false)? };
                        Some((name.clone(), part))
                    });
                    Value::Object(kept.collect::<Option<_>>()?)
                }
            }
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| without_ignored(item, draft, false));
            Value::Array(items.collect::<Option<_>>()?)
        }
        other => other.clone(),
    })
}

pub(crate) fn has_few_patterns(schema: &Value, walk: &mut Walk) -> bool {
    match schema {
        Value::Object(members) => members.iter().all(|(name, part)| {
            let patterns = match (&**name, part) {
                ("pattern", Value::String(_)) => 1,
                ("patternProperties", Value::Object(patterns)) => patterns.len(),
                _ => 0,
            };
            walk.steps(patterns) && has_few_patterns(part, walk)
        }),
        Value::Array(items) => items.iter().all(|item| has_few_patterns(item, walk)),
        _ => true,
    }
}

/// The work that applying a schema would be, counted before it is done: references may expand a schema exponentially.
pub(crate) struct Budget<'a> {
    pub(crate) root: &'a Value,
    pub(crate) draft: Draft,
    /// What is left.
    pub(crate) work: usize,
}

impl Budget<'_> {
    /// Counts what applying a schema to a value costs. `false`: too much, or a keyword that is not decided here.
    pub(crate) fn apply(&mut self, schema: &Value, instance: &Value, depth: usize) -> bool {
        if depth > MAX_APPLY_DEPTH || !self.spend(APPLY_WORK) {
            return false;
        }
        let Value::Object(keywords) = schema else { return true };
        let is_resource = keywords.contains_key("$id")
            || keywords.contains_key("$schema")
            || self.draft == Draft::Draft4 && keywords.get("id").is_some_and(Value::is_string);
        if depth > 0 && is_resource {
            return false;
        }
        if self.draft <= Draft::Draft7
            && let Some(Value::String(reference)) = keywords.get("$ref")
        {
            return self.follow(reference, instance, depth + 1);
        }
        let before = self.work;
        let is_counted =
            keywords.iter().all(|(name, keyword)| self.keyword(name, keyword, instance, depth + 1));
        // The keywords beside it are applied once more for each member or item.
        let again =
            ["unevaluatedProperties", "unevaluatedItems"].iter().any(|name| keywords.contains_key(*name));
        let used = before.saturating_sub(self.work);
        is_counted && (!again || self.spend(used.saturating_mul(children(instance))))
    }

    fn spend(&mut self, work: usize) -> bool {
        let left = self.work.checked_sub(work);
        self.work = left.unwrap_or(0);
        left.is_some()
    }

    fn follow(&mut self, reference: &str, instance: &Value, depth: usize) -> bool {
        resolve(self.root, reference).is_some_and(|schema| self.apply(schema, instance, depth))
    }

    fn keyword(&mut self, name: &str, keyword: &Value, instance: &Value, depth: usize) -> bool {
        match (name, keyword, instance) {
            ("$ref", Value::String(reference), _) => self.follow(reference, instance, depth),
            ("$dynamicRef" | "$recursiveRef", ..) => false,
            ("allOf" | "anyOf" | "oneOf", Value::Array(parts), _) => {
                parts.iter().all(|part| self.apply(part, instance, depth))
            }
            ("not" | "if" | "then" | "else", ..) => self.apply(keyword, instance, depth),
            ("dependentSchemas" | "dependencies", Value::Object(parts), Value::Object(_)) => {
                parts.values().all(|part| self.apply(part, instance, depth))
            }
            ("properties", Value::Object(parts), Value::Object(members)) => {
                self.spend(parts.len())
                    && members.iter().all(|(name, member)| {
                        parts.get(name).is_none_or(|part| self.apply(part, member, depth))
                    })
            }
            ("patternProperties", Value::Object(parts), Value::Object(members)) => {
                parts.iter().all(|(pattern, part)| {
                    members
                        .iter()
                        .all(|(name, member)| self.search(pattern, name) && self.apply(part, member, depth))
                })
            }
            ("additionalProperties" | "unevaluatedProperties", _, Value::Object(members)) => {
                members.values().all(|member| self.apply(keyword, member, depth))
            }
            ("propertyNames", _, Value::Object(members)) => {
                members.keys().all(|name| self.apply(keyword, &Value::String(name.clone()), depth))
            }
            ("items" | "prefixItems", Value::Array(parts), Value::Array(items)) => {
                parts.iter().zip(items).all(|(part, item)| self.apply(part, item, depth))
            }
            ("items" | "additionalItems" | "unevaluatedItems" | "contains", _, Value::Array(items)) => {
                items.iter().all(|item| self.apply(keyword, item, depth))
            }
            ("enum" | "const" | "required" | "dependentRequired", ..) => self.read(keyword),
            ("uniqueItems", ..) => self.read(instance),
            ("minLength" | "maxLength", _, Value::String(text)) => self.spend(text.len() / BYTES_OF_WORK),
            ("pattern", Value::String(pattern), Value::String(text)) => self.search(pattern, text),
            ("multipleOf", Value::Number(multiple), Value::Number(number)) => {
                let (multiple, number) = (multiple.as_f64().unwrap_or(f64::MAX), number.as_f64());
                let is_large = number.is_none_or(|number| number.abs() > MAX_EXACT_INTEGER);
                multiple < MAX_EXACT_INTEGER && !(is_large && multiple.fract() != 0.0)
            }
            _ => true,
        }
    }

    /// Counts reading the whole of a value.
    fn read(&mut self, value: &Value) -> bool {
        self.spend(1)
            && match value {
                Value::String(text) => self.spend(text.len() / BYTES_OF_WORK),
                Value::Array(items) => items.iter().all(|item| self.read(item)),
                Value::Object(members) => members.values().all(|member| self.read(member)),
                _ => true,
            }
    }

    /// Counts searching a text for a pattern: each byte meets each part of the pattern at worst.
    fn search(&mut self, pattern: &str, text: &str) -> bool {
        self.spend(1 + pattern.len().saturating_mul(text.len()) / SEARCHES_OF_WORK)
    }
}

fn children(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    }
}

/// The place within the schema that a reference leads to.
fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = percent_encoding::percent_decode_str(reference.strip_prefix('#')?).decode_utf8().ok()?;
    root.pointer(&pointer)
}

fn has_identifiers(schema: &Value, is_root: bool) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(name, part)| {
            let names = matches!(&**name, "$id" | "id" | "$anchor" | "$dynamicAnchor");
            names && part.is_string() && !(is_root && name == "$id") || has_identifiers(part, false)
        }),
        Value::Array(items) => items.iter().any(|item| has_identifiers(item, false)),
        _ => false,
    }
}

fn lost(root: &Value, schema: &Value, walk: &mut Walk) -> Option<String> {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                if !walk.step() {
                    return None;
                }
                if resolve(root, reference).is_none() {
                    return Some(reference.clone());
                }
            }
            let mut parts = members.iter().filter(|(name, _)| !DATA.contains(&name.as_str()));
            parts.find_map(|(_, part)| lost(root, part, walk))
        }
        Value::Array(items) => items.iter().find_map(|item| lost(root, item, walk)),
        _ => None,
    }
}

/// A place in a value, as a person writes it: `orders[2].price`.
pub(crate) fn place(path: &Location) -> String {
    let mut place = String::new();
    for segment in path {
        match segment {
            LocationSegment::Index(number) => place += &format!("[{number}]"),
            LocationSegment::Property(name) => place = member_place(&place, &name),
        }
    }
    place
}

pub(crate) fn member_place(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

/// Why a value does not conform. `None` for an error that decides nothing.
fn reason(error: &ValidationError<'_>) -> Option<String> {
    use ValidationErrorKind as Kind;
    let place = place(error.instance_path());
    let shown = if place.is_empty() { "the value" } else { &place };
    let not_allowed = |place: String| format!("{place} is not allowed");
    Some(match error.kind() {
        Kind::Type { .. } => format!("{shown} is {}", type_name(error.instance())),
        Kind::Constant { .. } => format!("{shown} is not the allowed value"),
        Kind::Enum { .. } => format!("{shown} is not one of the allowed values"),
        Kind::AnyOf { .. } => format!("{shown} matches none of the schemas of anyOf"),
        Kind::OneOfNotValid { .. } => format!("{shown} matches none of the schemas of oneOf"),
        Kind::OneOfMultipleValid { context } => {
            let fitting = context.iter().filter(|errors| errors.is_empty()).count();
            format!("{shown} matches {fitting} of the schemas of oneOf")
        }
        Kind::Not { .. } => format!("{shown} matches the schema of not"),
        Kind::Required { property } => {
            format!("{} is missing", member_place(&place, property.as_str().unwrap_or_default()))
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            not_allowed(member_place(&place, unexpected.first().map_or("a member", |name| name)))
        }
        Kind::AdditionalItems { limit } => not_allowed(format!("{place}[{limit}]")),
        Kind::UnevaluatedItems { .. } => not_allowed(format!("an item of {shown}")),
        Kind::FalseSchema => not_allowed(shown.to_owned()),
        Kind::PropertyNames { error } => {
            let name = error.instance().as_str().unwrap_or_default();
            format!("{}: {}", member_place(&place, name), reason(error)?.replace("the value", "the name"))
        }
        Kind::MinLength { .. } => format!("{shown} is too short"),
        Kind::MaxLength { .. } => format!("{shown} is too long"),
        Kind::Pattern { pattern } => format!("{shown} does not match the pattern {pattern:?}"),
        Kind::MinItems { .. } => format!("{shown} has too few items"),
        Kind::MaxItems { .. } => format!("{shown} has too many items"),
        Kind::UniqueItems => format!("{shown} contains the same item twice"),
        Kind::Contains => format!("{shown} has no item that it must contain"),
        Kind::MinProperties { .. } => format!("{shown} has too few members"),
        Kind::MaxProperties { .. } => format!("{shown} has too many members"),
        Kind::Minimum { .. }
        | Kind::Maximum { .. }
        | Kind::ExclusiveMinimum { .. }
        | Kind::ExclusiveMaximum { .. }
        | Kind::MultipleOf { .. } => format!("{shown} is out of bounds"),
        _ => return None,
    })
}

/// Of an error about alternatives, the error of the alternative that got furthest.
pub(crate) fn innermost<'e>(error: &'e ValidationError<'_>) -> &'e ValidationError<'e> {
    let (ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }) =
        error.kind()
    else {
        return error;
    };
    let length = |error: &&ValidationError<'_>| std::cmp::Reverse(error.instance_path().as_str().len());
    let inner = context.iter().flatten().map(innermost).min_by_key(length);
    inner.unwrap_or(error)
}

/// What is wrong with a part of a schema.
fn schema_problem(error: &ValidationError<'_>) -> String {
    use ValidationErrorKind as Kind;
    let part: &Value = error.instance();
    let is_no = |wanted: &str| format!("it is of type {}, not {wanted}", type_name(part));
    match error.kind() {
        Kind::Type { kind: TypeKind::Single(wanted) } => match (wanted, part) {
            (JsonType::Integer, Value::Number(number)) => format!("{number} is not an integer of 0 or more"),
            (JsonType::Integer, _) => is_no("number"),
            _ => is_no(&wanted.to_string()),
        },
        Kind::Type { .. } => format!("a schema is an object or a boolean, not of type {}", type_name(part)),
        Kind::Enum { .. } if part.is_string() => format!("{part} is not a type"),
        Kind::Enum { .. } => is_no("string"),
        Kind::MinItems { .. } => "it is empty".into(),
        Kind::Minimum { .. } => format!("{part} is not an integer of 0 or more"),
        Kind::ExclusiveMinimum { .. } => "it is not above 0".into(),
        Kind::UniqueItems => {
            let mut seen = BTreeSet::new();
            let items = part.as_array().into_iter().flatten().map(Value::to_string);
            let twice = items.into_iter().find(|item| !seen.insert(item.clone()));
            format!("{} appears twice", twice.unwrap_or_else(|| "an item".into()))
        }
        Kind::Pattern { pattern } => format!("{part} does not match {pattern:?}"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
