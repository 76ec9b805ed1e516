//! Changes of a JSON Schema, keyword by keyword, and whether it is narrower or wider than before.
//!
//! Called by `items` with canonical values. It resolves no `$ref`: a changed definition is reported at its own place. A
//! keyword that cannot be compared is reported as a change that may break.
//!
//! <https://json-schema.org/draft/2020-12/json-schema-validation>

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::{Kind, Raw};

use super::{ChangeClass, ChangeKind, Noting, below, names, object};

/// The direction of a value, which decides whether a narrower or a wider schema is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// From the caller: the arguments of a tool.
    In,
    /// From the server: the result of a tool.
    Out,
}

impl Flow {
    /// The class of a narrower schema.
    const fn narrower(self) -> ChangeClass {
        match self {
            Self::In => ChangeClass::Breaks,
            Self::Out => ChangeClass::Adds,
        }
    }

    /// The class of a wider schema.
    const fn wider(self) -> ChangeClass {
        match self {
            Self::In => ChangeClass::Adds,
            Self::Out => ChangeClass::Breaks,
        }
    }
}

type Members = BTreeMap<String, Raw>;

/// The types of JSON Schema; `integer` is part of `number`.
const TYPES: [&str; 6] = ["null", "boolean", "object", "array", "number", "string"];

/// Notes the changes between two schemas.
pub(super) fn schema(noting: &mut Noting<'_>, flow: Flow, path: &str, old: &Raw, new: &Raw) {
    if old.as_str() == new.as_str() {
        return;
    }
    let (Some(was), Some(is)) = (of(old), of(new)) else {
        // `false` allows nothing. Any other value that is no object has no defined meaning.
        let (class, kind) = match (old.as_str(), new.as_str()) {
            ("false", _) if of(new).is_some() => (flow.wider(), ChangeKind::LimitLoosened),
            (_, "false") if of(old).is_some() => (flow.narrower(), ChangeKind::LimitTightened),
            _ => (ChangeClass::Breaks, ChangeKind::SchemaChanged),
        };
        return noting.note(class, kind, path, Some(old), Some(new));
    };
    let (was, is) = (typed(was), typed(is));
    properties(noting, flow, path, &was, &is);
    for name in names(&was, &is) {
        let (old, new) = (was.get(name), is.get(name));
        if old.map(Raw::as_str) != new.map(Raw::as_str) {
            keyword(noting, flow, &below(path, name), name, old, new);
        }
    }
}

/// The members of a schema; `true` is the empty schema.
fn of(schema: &Raw) -> Option<Members> {
    if schema.as_str() == "true" { Some(Members::new()) } else { object(schema) }
}

/// Replaces an `anyOf` whose alternatives are only types, as it is often written for nullable values, by a list of types.
fn typed(mut members: Members) -> Members {
    let types = || {
        if members.contains_key("type") {
            return None;
        }
        let alternatives: Vec<Raw> = members.get("anyOf")?.decode().ok()?;
        let types = alternatives.iter().map(|alternative| {
            let mut alternative = object(alternative)?;
            let named = alternative.remove("type").filter(|named| named.kind() == Kind::String);
            named.filter(|_| alternative.is_empty())
        });
        let types: Vec<Raw> = types.collect::<Option<_>>()?;
        Raw::from_value(&types).ok()
    };
    if let Some(types) = types() {
        members.remove("anyOf");
        members.insert("type".into(), types);
    }
    members
}

/// Compares `properties` together with `required`.
fn properties(noting: &mut Noting<'_>, flow: Flow, path: &str, was: &Members, is: &Members) {
    let (Some((old, old_required)), Some((new, new_required))) = (declared(was), declared(is)) else {
        for name in ["properties", "required"] {
            let (old, new) = (was.get(name), is.get(name));
            if old.map(Raw::as_str) != new.map(Raw::as_str) {
                noting.note(ChangeClass::Breaks, ChangeKind::SchemaChanged, below(path, name), old, new);
            }
        }
        return;
    };
    let path = below(path, "properties");
    let mut all = names(&old, &new);
    all.extend(old_required.iter().chain(&new_required).map(String::as_str));
    for name in all {
        let (was, is) = (old.get(name), new.get(name));
        let (must, musts) = (old_required.contains(name), new_required.contains(name));
        let (there, is_there) = (was.is_some() || must, is.is_some() || musts);
        let path = below(&path, name);
        match (there, is_there) {
            (false, _) => {
                let (class, kind) = match (musts, flow) {
                    (true, Flow::In) => (ChangeClass::Breaks, ChangeKind::RequiredPropertyAdded),
                    (true, Flow::Out) => (ChangeClass::Reads, ChangeKind::RequiredPropertyAdded),
                    // A model reads it, and may use it.
                    (false, _) => (ChangeClass::Reads, ChangeKind::PropertyAdded),
                };
                noting.note(class, kind, path, None, is);
            }
            (true, false) => {
                noting.note(ChangeClass::Breaks, ChangeKind::PropertyRemoved, path, was, None);
            }
            (true, true) => {
                match (must, musts) {
                    (false, true) => {
                        noting.note(flow.narrower(), ChangeKind::NowRequired, &*path, None, None);
                    }
                    (true, false) => {
                        noting.note(flow.wider(), ChangeKind::NoLongerRequired, &*path, None, None);
                    }
                    _ => {}
                }
                part(noting, flow, &path, was, is);
            }
        }
    }
}

/// The properties, and the names of the required ones; `None` if they are malformed.
fn declared(schema: &Members) -> Option<(Members, BTreeSet<String>)> {
    let properties = schema.get("properties").map_or_else(|| Some(Members::new()), object)?;
    let required = match schema.get("required") {
        None => BTreeSet::new(),
        Some(required) => required.decode::<BTreeSet<String>>().ok()?,
    };
    Some((properties, required))
}

/// Compares two subschemas; an absent one allows everything.
fn part(noting: &mut Noting<'_>, flow: Flow, path: &str, old: Option<&Raw>, new: Option<&Raw>) {
    match (old, new) {
        (Some(old), Some(new)) => schema(noting, flow, path, old, new),
        (None, None) => {}
        (old, new) => {
            let all_fits = |raw: &Raw| of(raw).is_some_and(|members| members.is_empty());
            let (class, kind) = match (old, new) {
                (Some(raw), None) | (None, Some(raw)) if all_fits(raw) => {
                    (ChangeClass::Reads, ChangeKind::Member)
                }
                (None, _) => (flow.narrower(), ChangeKind::LimitTightened),
                (_, _) => (flow.wider(), ChangeKind::LimitLoosened),
            };
            noting.note(class, kind, path, old, new);
        }
    }
}

/// Compares the values of a keyword that differ.
fn keyword(
    noting: &mut Noting<'_>,
    flow: Flow,
    path: &str,
    name: &str,
    old: Option<&Raw>,
    new: Option<&Raw>,
) {
    match name {
        // `properties` compares both.
        "properties" | "required" => {}
        "type" => types(noting, flow, path, old, new),
        "enum" => values(noting, flow, path, old, new),
        "items" | "prefixItems" | "additionalItems"
            if [old, new].iter().flatten().any(|value| value.kind() == Kind::Array) =>
        {
            places(noting, flow, path, old, new);
        }
        "items"
        | "additionalItems"
        | "additionalProperties"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "propertyNames"
        | "contains"
        | "then"
        | "else"
        | "contentSchema" => {
            part(noting, flow, path, old, new);
        }
        "patternProperties" | "dependentSchemas" => {
            named(noting, path, old, new, |noting, path, old, new| part(noting, flow, path, old, new));
        }
        "$defs" | "definitions" => named(noting, path, old, new, |noting, path, old, new| match (old, new) {
            (Some(old), Some(new)) => schema(noting, flow, path, old, new),
            // The references to it have changed too.
            (old, new) => noting.note(ChangeClass::Reads, ChangeKind::Member, path, old, new),
        }),
        "anyOf" | "oneOf" => alternatives(noting, flow, path, old, new, flow.wider(), flow.narrower()),
        "allOf" => alternatives(noting, flow, path, old, new, flow.narrower(), flow.wider()),
        "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" | "minContains" => {
            bound(noting, flow, path, old, new, |old, new| new > old);
        }
        "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" | "maxContains" => {
            bound(noting, flow, path, old, new, |old, new| new < old);
        }
        "const" | "pattern" | "format" | "multipleOf" | "uniqueItems" | "contentEncoding"
        | "contentMediaType" => bound(noting, flow, path, old, new, |_, _| false),
        "not" | "if" | "$ref" | "$dynamicRef" | "$recursiveRef" | "dependentRequired" | "dependencies"
        | "x-mcp-header" => {
            noting.note(ChangeClass::Breaks, ChangeKind::SchemaChanged, path, old, new);
        }
        "title" | "description" | "$comment" => {
            noting.note(ChangeClass::Reads, ChangeKind::Text, path, old, new);
        }
        "default" => noting.note(ChangeClass::Reads, ChangeKind::Default, path, old, new),
        _ => noting.note(ChangeClass::Reads, ChangeKind::Member, path, old, new),
    }
}

fn types(noting: &mut Noting<'_>, flow: Flow, path: &str, old: Option<&Raw>, new: Option<&Raw>) {
    // Arguments and results are always objects.
    let is_all = matches!(path, "/inputSchema/type" | "/outputSchema/type");
    let of = |value: Option<&Raw>| -> Option<BTreeSet<String>> {
        match value {
            None if is_all => Some(["object".to_owned()].into()),
            None => Some(TYPES.map(str::to_owned).into()),
            Some(value) => match value.to_string_value() {
                Some(one) => Some([one.into_owned()].into()),
                None => value.decode().ok(),
            },
        }
    };
    let (Some(was), Some(is)) = (of(old), of(new)) else {
        return noting.note(ChangeClass::Breaks, ChangeKind::SchemaChanged, path, old, new);
    };
    let covers = |all: &BTreeSet<String>, some: &BTreeSet<String>| {
        some.iter().all(|one| all.contains(one) || one == "integer" && all.contains("number"))
    };
    let (class, kind) = match (covers(&was, &is), covers(&is, &was)) {
        (true, true) => return,
        (true, false) => (flow.narrower(), ChangeKind::TypeNarrowed),
        (false, true) => (flow.wider(), ChangeKind::TypeWidened),
        (false, false) => (ChangeClass::Breaks, ChangeKind::TypeChanged),
    };
    noting.note(class, kind, path, old, new);
}

/// Compares the values of `enum`.
fn values(noting: &mut Noting<'_>, flow: Flow, path: &str, old: Option<&Raw>, new: Option<&Raw>) {
    let of = |value: Option<&Raw>| -> Option<BTreeMap<String, Raw>> {
        let values: Vec<Raw> = value?.decode().ok()?;
        Some(values.into_iter().map(|value| (value.as_str().to_owned(), value)).collect())
    };
    let (Some(was), Some(is)) = (of(old), of(new)) else {
        return bound(noting, flow, path, old, new, |_, _| false);
    };
    for value in was.iter().filter(|(text, _)| !is.contains_key(*text)).map(|(_, value)| value) {
        noting.note(flow.narrower(), ChangeKind::ValueRemoved, path, Some(value), None);
    }
    // A model reads the value, and may use it.
    let class = if flow == Flow::In { ChangeClass::Reads } else { flow.wider() };
    for value in is.iter().filter(|(text, _)| !was.contains_key(*text)).map(|(_, value)| value) {
        noting.note(class, ChangeKind::ValueAdded, path, None, Some(value));
    }
}

/// Compares a limit, which is absent or a number: `tighter` says whether the second number allows less than the first.
fn bound(
    noting: &mut Noting<'_>,
    flow: Flow,
    path: &str,
    old: Option<&Raw>,
    new: Option<&Raw>,
    tighter: impl Fn(f64, f64) -> bool,
) {
    let number = |value: Option<&Raw>| {
        value
            .filter(|value| value.kind() == Kind::Number)
            .and_then(|value| value.as_str().parse::<f64>().ok())
    };
    let nothing = |value: Option<&Raw>| value.is_none_or(|value| value.as_str() == "false");
    let (tightened, loosened) =
        ((flow.narrower(), ChangeKind::LimitTightened), (flow.wider(), ChangeKind::LimitLoosened));
    let (class, kind) = match (number(old), number(new)) {
        (Some(old), Some(new)) if tighter(old, new) => tightened,
        (Some(old), Some(new)) if tighter(new, old) => loosened,
        _ if nothing(old) && nothing(new) => return,
        _ if old.is_none() || nothing(old) && new.is_some_and(|new| new.as_str() == "true") => tightened,
        _ if new.is_none() || nothing(new) && old.is_some_and(|old| old.as_str() == "true") => loosened,
        _ => (ChangeClass::Breaks, ChangeKind::SchemaChanged),
    };
    noting.note(class, kind, path, old, new);
}

/// Compares subschemas by their place in an array.
fn places(noting: &mut Noting<'_>, flow: Flow, path: &str, old: Option<&Raw>, new: Option<&Raw>) {
    let of = |value: Option<&Raw>| -> Option<Vec<Raw>> {
        value.map_or_else(|| Some(Vec::new()), |value| value.decode().ok())
    };
    let (Some(was), Some(is)) = (of(old), of(new)) else {
        return noting.note(ChangeClass::Breaks, ChangeKind::SchemaChanged, path, old, new);
    };
    for place in 0..was.len().max(is.len()) {
        part(noting, flow, &below(path, &place.to_string()), was.get(place), is.get(place));
    }
}

/// Compares subschemas by their names.
fn named(
    noting: &mut Noting<'_>,
    path: &str,
    old: Option<&Raw>,
    new: Option<&Raw>,
    mut each: impl FnMut(&mut Noting<'_>, &str, Option<&Raw>, Option<&Raw>),
) {
    let of = |value: Option<&Raw>| value.map_or_else(|| Some(Members::new()), object);
    let (Some(was), Some(is)) = (of(old), of(new)) else {
        return noting.note(ChangeClass::Breaks, ChangeKind::SchemaChanged, path, old, new);
    };
    for name in names(&was, &is) {
        each(noting, &below(path, name), was.get(name), is.get(name));
    }
}

/// Compares alternatives, whose order does not count: equal ones are pairs, and if one is left on each side the two are
/// compared.
fn alternatives(
    noting: &mut Noting<'_>,
    flow: Flow,
    path: &str,
    old: Option<&Raw>,
    new: Option<&Raw>,
    came: ChangeClass,
    went: ChangeClass,
) {
    let of = |value: Option<&Raw>| -> Option<Vec<Raw>> { value?.decode().ok() };
    let (was, is) = match (old, of(old), new, of(new)) {
        (Some(_), Some(was), Some(_), Some(is)) => (was, is),
        // The first alternatives are a new limit.
        (None, _, Some(_), Some(_)) => {
            return noting.note(flow.narrower(), ChangeKind::LimitTightened, path, None, new);
        }
        (Some(_), Some(_), None, _) => {
            return noting.note(flow.wider(), ChangeKind::LimitLoosened, path, old, None);
        }
        _ => return noting.note(ChangeClass::Breaks, ChangeKind::SchemaChanged, path, old, new),
    };
    let known: BTreeSet<&str> = is.iter().map(Raw::as_str).collect();
    let gone: Vec<(usize, &Raw)> =
        was.iter().enumerate().filter(|(_, schema)| !known.contains(schema.as_str())).collect();
    let known: BTreeSet<&str> = was.iter().map(Raw::as_str).collect();
    let come: Vec<(usize, &Raw)> =
        is.iter().enumerate().filter(|(_, schema)| !known.contains(schema.as_str())).collect();
    if let ([(place, old)], [(_, new)]) = (&gone[..], &come[..]) {
        return schema(noting, flow, &below(path, &place.to_string()), old, new);
    }
    let kind = |class: ChangeClass, more: ChangeClass| match class == more {
        true => ChangeKind::LimitTightened,
        false => ChangeKind::LimitLoosened,
    };
    for (place, schema) in gone {
        let path = below(path, &place.to_string());
        noting.note(went, kind(went, flow.narrower()), path, Some(schema), None);
    }
    for (place, schema) in come {
        let path = below(path, &place.to_string());
        noting.note(came, kind(came, flow.narrower()), path, None, Some(schema));
    }
}
