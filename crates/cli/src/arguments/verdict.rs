//! Whether arguments conform to the input schema of their tool, and what to type where they do not.
//!
//! Used by `arguments`. `mcpjoin-schema` decides, within its limits; this file words its findings. A schema that it cannot
//! decide about (a reference to another document, an unknown draft, too much work) refuses nothing.

use mcpjoin::proto::Raw;
use mcpjoin_schema::{CompiledSchema, Violation};
use serde_json::Value;

use super::kinds::Kinds;
use super::{excerpt, proposed, quoted};
use crate::config::similar;
use crate::visible::counted;

/// What the schema says of the arguments.
pub(super) enum Verdict {
    Conforms,
    /// In sentences, with the words of the schema.
    Refused(String),
    Unknown,
}

/// Validates the arguments. `value`: the schema as a value; `names`: the names of the arguments.
pub(super) fn of(schema: &Raw, value: &Value, object: &Raw, names: &[&str]) -> Verdict {
    let Ok(compiled) = CompiledSchema::new(schema) else { return Verdict::Unknown };
    let Ok(found) = compiled.violations(object) else { return Verdict::Unknown };
    if found.is_empty() {
        return Verdict::Conforms;
    }
    let missing: Vec<String> = found
        .first
        .iter()
        .filter(|violation| violation.rule == "required")
        .map(|violation| quoted(&violation.place))
        .collect();
    let mut sentences: Vec<String> = Vec::new();
    if let Some((last, others)) = missing.split_last() {
        let verb = if others.is_empty() { "is" } else { "are" };
        let and = if others.is_empty() { "" } else { " and " };
        let meant = misspelled(&found.first, value, names);
        sentences.push(format!("{}{and}{last} {verb} required{meant}", others.join(", ")));
    }
    let others = found.first.iter().filter(|violation| violation.rule != "required");
    sentences.extend(others.map(|violation| {
        let is_type = violation.rule == "type" && names.contains(&&*violation.place);
        let proposed = if is_type { proposed(Some(schema), &violation.place) } else { String::new() };
        sentence(violation, value, names) + &proposed
    }));
    sentences.dedup();
    if found.has_more {
        sentences.push("and more".into());
    }
    Verdict::Refused(sentences.join("; "))
}

/// The question whether an argument that the tool does not declare was meant to be a missing one.
fn misspelled(found: &[Violation], schema: &Value, names: &[&str]) -> String {
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_declared = |name: &str| properties.is_some_and(|properties| properties.contains_key(name));
    let missing = || found.iter().filter(|violation| violation.rule == "required").map(|it| &*it.place);
    // The sentence about a name that is not allowed has the question.
    let is_refused = |name: &str| found.iter().any(|violation| violation.place == name);
    let undeclared = names.iter().filter(|name| !is_declared(name) && !is_refused(name));
    let meant = undeclared.filter_map(|name| Some((name, similar(name, missing())?)));
    let asked = |(name, meant): (&&str, &str)| {
        format!("; the tool declares no {}: did you mean {}?", quoted(name), quoted(meant))
    };
    meant.map(asked).collect()
}

/// What is wrong with one value.
fn sentence(violation: &Violation, schema: &Value, names: &[&str]) -> String {
    let demand = violation.demand.as_deref().unwrap_or_default();
    let place = match violation.place.as_str() {
        "" => "the arguments as a whole".to_owned(),
        place => quoted(place),
    };
    let must = match violation.rule.as_str() {
        "type" => format!("must be {}", types(demand)),
        "enum" => format!("must be one of {}", demand.trim_start_matches('[').trim_end_matches(']')),
        "const" if !demand.is_empty() => format!("must be {demand}"),
        "minimum" => format!("must be at least {demand}"),
        "maximum" => format!("must be at most {demand}"),
        "exclusiveMinimum" => format!("must be greater than {demand}"),
        "exclusiveMaximum" => format!("must be less than {demand}"),
        "multipleOf" => format!("must be a multiple of {demand}"),
        "minLength" => format!("must have at least {}", counted(demand, "character")),
        "maxLength" => format!("must have at most {}", counted(demand, "character")),
        "minItems" => format!("must have at least {}", counted(demand, "item")),
        "maxItems" => format!("must have at most {}", counted(demand, "item")),
        "minProperties" => format!("must have at least {}", counted(demand, "member")),
        "maxProperties" => format!("must have at most {}", counted(demand, "member")),
        "uniqueItems" => "must not have the same item twice".into(),
        "pattern" => format!("must match the pattern {demand}"),
        "anyOf" | "oneOf" => format!("matches none of the forms that the schema allows ({})", violation.rule),
        "additionalProperties" | "unevaluatedProperties" | "false" => {
            return not_allowed(&violation.place, &place, schema, names);
        }
        rule if demand.is_empty() => format!("violates the rule {rule} of the schema"),
        rule => format!("violates the rule {rule} of the schema, {demand}"),
    };
    match violation.value.as_deref().map(excerpt) {
        Some(value) => match meant(violation, &value) {
            Some(meant) => format!("{place} {must}, got {value}; did you mean {meant}?"),
            None => format!("{place} {must}, got {value}"),
        },
        None => format!("{place} {must}"),
    }
}

/// The value of an enumeration that was probably meant.
fn meant(violation: &Violation, value: &str) -> Option<String> {
    let demand = violation.demand.as_deref().filter(|_| violation.rule == "enum")?;
    let known: Vec<String> = serde_json::from_str(demand).ok()?;
    let word: String = serde_json::from_str(value).ok()?;
    similar(&word, known.iter().map(String::as_str)).map(|meant| Raw::string(meant).to_string())
}

/// The sentence for a name that the schema does not allow.
fn not_allowed(name: &str, place: &str, schema: &Value, names: &[&str]) -> String {
    if !names.contains(&name) {
        return format!("{place} is not allowed there");
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let missing = properties.into_iter().flat_map(|properties| properties.keys());
    let missing = missing.map(String::as_str).filter(|known| !names.contains(known));
    match similar(name, missing) {
        Some(meant) => format!("{place} is not an argument of this tool; did you mean {}?", quoted(meant)),
        None => format!("{place} is not an argument of this tool"),
    }
}

/// `"number"` or `["string","null"]` in words.
fn types(demand: &str) -> String {
    let names: Vec<String> = match serde_json::from_str(demand) {
        Ok(Value::String(name)) => vec![name],
        Ok(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let words: Vec<String> = names.iter().map(|name| Kinds::named(name).names()).collect();
    if words.is_empty() { "of another type".into() } else { words.join(" or ") }
}
