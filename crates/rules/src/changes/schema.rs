//! Changes of a JSON Schema, keyword by keyword, and whether it is narrower or wider than before.
//!
//! Called by `items` with canonical values. It resolves no `$ref`: a changed definition is reported at its own place. A
//! keyword that cannot be compared is reported as a change that may break.
//!
//! <https://json-schema.org/draft/2020-12/json-schema-validation>

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::{Kind, Raw};

use super::{ChangeClass, ChangeKind, Noting, below, differ, names, object};

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

/// Two values at one place of a schema, either of which may be absent.
struct Pair<'n, 'o, 'v> {
    noting: &'n mut Noting<'o>,
    flow: Flow,
    path: String,
    old: Option<&'v Raw>,
    new: Option<&'v Raw>,
}

/// Notes the changes between two schemas.
pub(super) fn schema(noting: &mut Noting<'_>, flow: Flow, path: &str, old: &Raw, new: &Raw) {
    Pair { noting, flow, path: path.to_owned(), old: Some(old), new: Some(new) }.schemas(old, new);
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

/// The properties, and the names of the required ones; `None` if they are malformed.
fn declared(schema: &Members) -> Option<(Members, BTreeSet<String>)> {
    let properties = schema.get("properties").map_or_else(|| Some(Members::new()), object)?;
    let required = match schema.get("required") {
        None => BTreeSet::new(),
        Some(required) => required.decode::<BTreeSet<String>>().ok()?,
    };
    Some((properties, required))
}

impl<'o> Pair<'_, 'o, '_> {
    fn note(&mut self, class: ChangeClass, kind: ChangeKind) {
        self.noting.note(class, kind, &*self.path, self.old, self.new);
    }

    /// Whether the schema became narrower or wider is not known.
    fn changed(&mut self) {
        self.note(ChangeClass::Breaks, ChangeKind::SchemaChanged);
    }

    fn tightened(&mut self) {
        self.note(self.flow.narrower(), ChangeKind::LimitTightened);
    }

    fn loosened(&mut self) {
        self.note(self.flow.wider(), ChangeKind::LimitLoosened);
    }

    /// The pair of a member, or of an item.
    fn below<'w>(&mut self, name: &str, old: Option<&'w Raw>, new: Option<&'w Raw>) -> Pair<'_, 'o, 'w> {
        let has_room = self.noting.takes(self.path.len() + name.len());
        let path = if has_room { below(&self.path, name) } else { String::new() };
        Pair { noting: self.noting, flow: self.flow, path, old, new }
    }

    fn schemas(&mut self, old: &Raw, new: &Raw) {
        if old.as_str() == new.as_str() {
            return;
        }
        let (Some(was), Some(is)) = (of(old), of(new)) else {
            // `false` allows nothing. Any other value that is not an object has no defined meaning.
            return match (old.as_str(), new.as_str()) {
                ("false", _) if of(new).is_some() => self.loosened(),
                (_, "false") if of(old).is_some() => self.tightened(),
                _ => self.changed(),
            };
        };
        let (was, is) = (typed(was), typed(is));
        self.properties(&was, &is);
        for name in names(&was, &is) {
            let (old, new) = (was.get(name), is.get(name));
            if differ(old, new) {
                self.below(name, old, new).keyword(name);
            }
        }
    }

    /// Compares `properties` together with `required`.
    fn properties(&mut self, was: &Members, is: &Members) {
        let (Some((old, old_required)), Some((new, new_required))) = (declared(was), declared(is)) else {
            for name in ["properties", "required"] {
                let (old, new) = (was.get(name), is.get(name));
                if differ(old, new) {
                    self.below(name, old, new).changed();
                }
            }
            return;
        };
        let mut all = names(&old, &new);
        all.extend(old_required.iter().chain(&new_required).map(String::as_str));
        let mut properties = self.below("properties", None, None);
        for name in all {
            let (was_required, is_required) = (old_required.contains(name), new_required.contains(name));
            let mut property = properties.below(name, old.get(name), new.get(name));
            let was_there = property.old.is_some() || was_required;
            let is_there = property.new.is_some() || is_required;
            match (was_there, is_there) {
                (false, _) if is_required => {
                    let is_input = property.flow == Flow::In;
                    let class = if is_input { ChangeClass::Breaks } else { ChangeClass::Reads };
                    property.note(class, ChangeKind::RequiredPropertyAdded);
                }
                // A model reads it, and may use it.
                (false, _) => property.note(ChangeClass::Reads, ChangeKind::PropertyAdded),
                (true, false) => property.note(ChangeClass::Breaks, ChangeKind::PropertyRemoved),
                (true, true) => {
                    let change = match (was_required, is_required) {
                        (false, true) => Some((property.flow.narrower(), ChangeKind::NowRequired)),
                        (true, false) => Some((property.flow.wider(), ChangeKind::NoLongerRequired)),
                        _ => None,
                    };
                    if let Some((class, kind)) = change {
                        property.noting.note(class, kind, &*property.path, None, None);
                    }
                    property.subschemas();
                }
            }
        }
    }

    /// Compares two subschemas; an absent one allows everything.
    fn subschemas(&mut self) {
        let allows_all = |raw: &Raw| of(raw).is_some_and(|members| members.is_empty());
        match (self.old, self.new) {
            (Some(old), Some(new)) => self.schemas(old, new),
            (None, None) => {}
            (Some(raw), None) | (None, Some(raw)) if allows_all(raw) => {
                self.note(ChangeClass::Reads, ChangeKind::Member);
            }
            (None, _) => self.tightened(),
            (_, None) => self.loosened(),
        }
    }

    /// Compares the values of a keyword that differ.
    fn keyword(&mut self, name: &str) {
        let is_array = |value: Option<&Raw>| value.is_some_and(|value| value.kind() == Kind::Array);
        match name {
            // `properties` compares both.
            "properties" | "required" => {}
            "type" => self.types(),
            "enum" => self.values(),
            "items" | "prefixItems" | "additionalItems" if is_array(self.old) || is_array(self.new) => {
                self.places();
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
            | "contentSchema" => self.subschemas(),
            "patternProperties" | "dependentSchemas" => self.named(|mut pair| pair.subschemas()),
            "$defs" | "definitions" => self.named(|mut pair| match (pair.old, pair.new) {
                (Some(old), Some(new)) => pair.schemas(old, new),
                // The references to it have changed too.
                _ => pair.note(ChangeClass::Reads, ChangeKind::Member),
            }),
            "anyOf" | "oneOf" => self.alternatives(self.flow.wider(), self.flow.narrower()),
            "allOf" => self.alternatives(self.flow.narrower(), self.flow.wider()),
            "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" | "minContains" => {
                self.limit(|old, new| new > old);
            }
            "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" | "maxContains" => {
                self.limit(|old, new| new < old);
            }
            "uniqueItems" => self.limit(|_, _| false),
            "const" | "pattern" | "format" | "multipleOf" | "contentEncoding" | "contentMediaType" => {
                self.constraint();
            }
            "not" | "if" | "$ref" | "$dynamicRef" | "$recursiveRef" | "dependentRequired"
            | "dependencies" | "x-mcp-header" => self.changed(),
            "title" | "description" | "$comment" => self.note(ChangeClass::Reads, ChangeKind::Text),
            "default" => self.note(ChangeClass::Reads, ChangeKind::Default),
            _ => self.note(ChangeClass::Reads, ChangeKind::Member),
        }
    }

    fn types(&mut self) {
        // Arguments and results are always objects.
        let is_root = matches!(&*self.path, "/inputSchema/type" | "/outputSchema/type");
        let of = |value: Option<&Raw>| -> Option<BTreeSet<String>> {
            match value {
                None if is_root => Some(["object".to_owned()].into()),
                None => Some(TYPES.map(str::to_owned).into()),
                Some(value) => match value.to_string_value() {
                    Some(one) => Some([one.into_owned()].into()),
                    None => value.decode().ok(),
                },
            }
        };
        let (Some(was), Some(is)) = (of(self.old), of(self.new)) else { return self.changed() };
        let covers = |all: &BTreeSet<String>, some: &BTreeSet<String>| {
            some.iter().all(|one| all.contains(one) || one == "integer" && all.contains("number"))
        };
        match (covers(&was, &is), covers(&is, &was)) {
            (true, true) => {}
            (true, false) => self.note(self.flow.narrower(), ChangeKind::TypeNarrowed),
            (false, true) => self.note(self.flow.wider(), ChangeKind::TypeWidened),
            (false, false) => self.note(ChangeClass::Breaks, ChangeKind::TypeChanged),
        }
    }

    /// Compares the values of `enum`.
    fn values(&mut self) {
        let of = |value: Option<&Raw>| -> Option<BTreeMap<String, Raw>> {
            let values: Vec<Raw> = value?.decode().ok()?;
            Some(values.into_iter().map(|value| (value.as_str().to_owned(), value)).collect())
        };
        let (Some(was), Some(is)) = (of(self.old), of(self.new)) else {
            return self.constraint();
        };
        for (_, value) in was.iter().filter(|(text, _)| !is.contains_key(*text)) {
            let class = self.flow.narrower();
            self.noting.note(class, ChangeKind::ValueRemoved, &*self.path, Some(value), None);
        }
        // A model reads the value, and may use it.
        let class = if self.flow == Flow::In { ChangeClass::Reads } else { self.flow.wider() };
        for (_, value) in is.iter().filter(|(text, _)| !was.contains_key(*text)) {
            self.noting.note(class, ChangeKind::ValueAdded, &*self.path, None, Some(value));
        }
    }

    /// Compares a constraint of any value.
    fn constraint(&mut self) {
        match (self.old, self.new) {
            (None, _) => self.tightened(),
            (_, None) => self.loosened(),
            _ => self.changed(),
        }
    }

    /// Compares a limit, which is a number or a boolean; an absent one is `false`. `tighter` says whether the second number
    /// allows less than the first.
    fn limit(&mut self, tighter: impl Fn(f64, f64) -> bool) {
        let number = |value: Option<&Raw>| {
            let number = value.filter(|value| value.kind() == Kind::Number)?;
            number.as_str().parse::<f64>().ok()
        };
        let is_none = |value: Option<&Raw>| value.is_none_or(|value| value.as_str() == "false");
        let is_true = |value: Option<&Raw>| value.is_some_and(|value| value.as_str() == "true");
        let (old, new) = (self.old, self.new);
        match (number(old), number(new)) {
            (Some(old), Some(new)) if tighter(old, new) => self.tightened(),
            (Some(old), Some(new)) if tighter(new, old) => self.loosened(),
            _ if is_none(old) && is_none(new) => {}
            _ if is_none(old) && is_true(new) => self.tightened(),
            _ if is_none(new) && is_true(old) => self.loosened(),
            _ => self.constraint(),
        }
    }

    /// Compares subschemas by their place in an array.
    fn places(&mut self) {
        let of = |value: Option<&Raw>| -> Option<Vec<Raw>> {
            value.map_or_else(|| Some(Vec::new()), |value| value.decode().ok())
        };
        let (Some(was), Some(is)) = (of(self.old), of(self.new)) else { return self.changed() };
        for place in 0..was.len().max(is.len()) {
            self.below(&place.to_string(), was.get(place), is.get(place)).subschemas();
        }
    }

    /// Compares subschemas by their names.
    fn named(&mut self, compare: impl Fn(Pair<'_, '_, '_>)) {
        let of = |value: Option<&Raw>| value.map_or_else(|| Some(Members::new()), object);
        let (Some(was), Some(is)) = (of(self.old), of(self.new)) else { return self.changed() };
        for name in names(&was, &is) {
            compare(self.below(name, was.get(name), is.get(name)));
        }
    }

    /// Compares alternatives, whose order does not count: equal ones are pairs, and if one is left on each side the two are
    /// compared. `added` and `removed` are the classes of the others.
    fn alternatives(&mut self, added: ChangeClass, removed: ChangeClass) {
        let of = |value: Option<&Raw>| -> Option<Vec<Raw>> { value?.decode().ok() };
        let (was, is) = match (self.old, of(self.old), self.new, of(self.new)) {
            (Some(_), Some(was), Some(_), Some(is)) => (was, is),
            // The first alternatives are a new limit.
            (None, _, Some(_), Some(_)) => return self.tightened(),
            (Some(_), Some(_), None, _) => return self.loosened(),
            _ => return self.changed(),
        };
        let only_in = |one: &'_ [Raw], other: &[Raw]| -> Vec<(usize, Raw)> {
            let known: BTreeSet<&str> = other.iter().map(Raw::as_str).collect();
            let only = one.iter().enumerate().filter(|(_, schema)| !known.contains(schema.as_str()));
            only.map(|(place, schema)| (place, schema.clone())).collect()
        };
        let (gone, come) = (only_in(&was, &is), only_in(&is, &was));
        if let ([(place, old)], [(_, new)]) = (&gone[..], &come[..]) {
            return self.below(&place.to_string(), Some(old), Some(new)).schemas(old, new);
        }
        let narrower = self.flow.narrower();
        let kind = |class: ChangeClass| match class == narrower {
            true => ChangeKind::LimitTightened,
            false => ChangeKind::LimitLoosened,
        };
        for (place, schema) in &gone {
            self.below(&place.to_string(), Some(schema), None).note(removed, kind(removed));
        }
        for (place, schema) in &come {
            self.below(&place.to_string(), None, Some(schema)).note(added, kind(added));
        }
    }
}
