//! Whether a schema is one of its draft: each keyword has the value that the draft's meta-schema gives it.
//!
//! A keyword that a draft does not know is passed over, as the drafts demand.

use std::collections::BTreeSet;

use crate::json::Json;

/// The drafts that are known, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Draft {
    D4,
    D6,
    D7,
    D2019,
    D2020,
}

impl Draft {
    /// The draft of a schema: the one that it names, or 2020-12. `None` for one that is not known.
    pub(crate) fn of(schema: &Json) -> Option<Self> {
        let Some(named) = schema.get("$schema") else { return Some(Self::D2020) };
        Self::named(named.as_str()?)
    }

    fn named(uri: &str) -> Option<Self> {
        let uri = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"))?;
        match uri.strip_suffix('#').unwrap_or(uri) {
            "json-schema.org/draft-04/schema" => Some(Self::D4),
            "json-schema.org/draft-06/schema" => Some(Self::D6),
            "json-schema.org/draft-07/schema" => Some(Self::D7),
            "json-schema.org/draft/2019-09/schema" => Some(Self::D2019),
            "json-schema.org/draft/2020-12/schema" => Some(Self::D2020),
            _ => None,
        }
    }
}

/// What the value of a keyword must be.
#[derive(Clone, Copy)]
enum Value {
    /// A schema.
    Schema,
    /// A schema, or `true` or `false`, in a draft whose schemas are objects alone.
    SchemaOrBool,
    /// An object of schemas.
    Schemas,
    /// An array of schemas, which is not empty.
    SchemaList,
    /// One of these: `items` up to 2019-09.
    SchemaOrList,
    /// An object of schemas and arrays of names: `dependencies`.
    Dependencies,
    /// An object of arrays of names.
    NameLists,
    /// An array of names, each once.
    Names,
    /// The same, which is not empty: draft 4.
    SomeNames,
    /// The names of types.
    Types,
    Text,
    Flag,
    Number,
    Positive,
    /// An integer of 0 or more.
    Count,
    Array,
    SomeArray,
}

use Draft::{D4, D6, D7, D2019, D2020};

/// The keywords, each with the drafts that have it so.
const KEYWORDS: &[(&str, Draft, Draft, Value)] = &[
    ("type", D4, D2020, Value::Types),
    ("properties", D4, D2020, Value::Schemas),
    ("patternProperties", D4, D2020, Value::Schemas),
    ("additionalProperties", D4, D4, Value::SchemaOrBool),
    ("additionalProperties", D6, D2020, Value::Schema),
    ("required", D4, D4, Value::SomeNames),
    ("required", D6, D2020, Value::Names),
    ("definitions", D4, D2020, Value::Schemas),
    ("$defs", D2019, D2020, Value::Schemas),
    ("allOf", D4, D2020, Value::SchemaList),
    ("anyOf", D4, D2020, Value::SchemaList),
    ("oneOf", D4, D2020, Value::SchemaList),
    ("not", D4, D2020, Value::Schema),
    ("if", D7, D2020, Value::Schema),
    ("then", D7, D2020, Value::Schema),
    ("else", D7, D2020, Value::Schema),
    ("items", D4, D2019, Value::SchemaOrList),
    ("items", D2020, D2020, Value::Schema),
    ("prefixItems", D2020, D2020, Value::SchemaList),
    ("additionalItems", D4, D4, Value::SchemaOrBool),
    ("additionalItems", D6, D2019, Value::Schema),
    ("contains", D6, D2020, Value::Schema),
    ("propertyNames", D6, D2020, Value::Schema),
    ("unevaluatedItems", D2019, D2020, Value::Schema),
    ("unevaluatedProperties", D2019, D2020, Value::Schema),
    ("contentSchema", D2019, D2020, Value::Schema),
    ("dependentSchemas", D2019, D2020, Value::Schemas),
    ("dependentRequired", D2019, D2020, Value::NameLists),
    ("dependencies", D4, D7, Value::Dependencies),
    ("enum", D4, D6, Value::SomeArray),
    ("enum", D7, D2020, Value::Array),
    ("examples", D6, D2020, Value::Array),
    ("minimum", D4, D2020, Value::Number),
    ("maximum", D4, D2020, Value::Number),
    ("exclusiveMinimum", D4, D4, Value::Flag),
    ("exclusiveMaximum", D4, D4, Value::Flag),
    ("exclusiveMinimum", D6, D2020, Value::Number),
    ("exclusiveMaximum", D6, D2020, Value::Number),
    ("multipleOf", D4, D2020, Value::Positive),
    ("minLength", D4, D2020, Value::Count),
    ("maxLength", D4, D2020, Value::Count),
    ("minItems", D4, D2020, Value::Count),
    ("maxItems", D4, D2020, Value::Count),
    ("minProperties", D4, D2020, Value::Count),
    ("maxProperties", D4, D2020, Value::Count),
    ("minContains", D2019, D2020, Value::Count),
    ("maxContains", D2019, D2020, Value::Count),
    ("uniqueItems", D4, D2020, Value::Flag),
    ("pattern", D4, D2020, Value::Text),
    ("format", D4, D2020, Value::Text),
    ("title", D4, D2020, Value::Text),
    ("description", D4, D2020, Value::Text),
    ("$comment", D7, D2020, Value::Text),
    ("$ref", D4, D2020, Value::Text),
    ("$id", D6, D2020, Value::Text),
    ("$anchor", D2019, D2020, Value::Text),
    ("readOnly", D7, D2020, Value::Flag),
    ("writeOnly", D7, D2020, Value::Flag),
    ("deprecated", D2019, D2020, Value::Flag),
];

const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];

/// The first thing in a schema that its draft does not allow, with the place where it stands.
pub(crate) fn fault(schema: &Json, draft: Draft) -> Option<String> {
    at(schema, draft, "#")
}

fn at(schema: &Json, draft: Draft, place: &str) -> Option<String> {
    let members = match schema {
        Json::Object(members) => members,
        Json::Bool(_) if draft > D4 => return None,
        other => return Some(format!("at {place}: a schema is no {}", other.kind())),
    };
    // A part in a draft of its own is judged by it.
    let draft = match schema.get("$schema") {
        Some(Json::String(named)) => Draft::named(named)?,
        Some(other) => return Some(format!("at {place}/$schema: it is no string but {}", other.kind())),
        None => draft,
    };
    // Up to draft 7, nothing beside a reference means anything.
    if draft <= D7 && matches!(schema.get("$ref"), Some(Json::String(_))) {
        return None;
    }
    members.iter().find_map(|(name, value)| {
        let (.., wanted) = KEYWORDS
            .iter()
            .find(|(keyword, first, last, _)| keyword == name && (*first..=*last).contains(&draft))?;
        keyword(value, *wanted, draft, &format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")))
    })
}

fn keyword(value: &Json, wanted: Value, draft: Draft, place: &str) -> Option<String> {
    let not = |what: &str| Some(format!("at {place}: it is no {what} but {}", value.kind()));
    match (wanted, value) {
        (Value::SchemaOrBool, Json::Bool(_)) => None,
        (Value::Schema | Value::SchemaOrBool, _) => at(value, draft, place),
        (Value::Schemas, Json::Object(members)) => members
            .iter()
            .find_map(|(name, schema)| at(schema, draft, &format!("{place}/{}", name.replace('/', "~1")))),
        (Value::SchemaList | Value::SchemaOrList, Json::Array(schemas)) => {
            if schemas.is_empty() {
                return Some(format!("at {place}: it is empty"));
            }
            let mut numbered = schemas.iter().enumerate();
            numbered.find_map(|(number, schema)| at(schema, draft, &format!("{place}/{number}")))
        }
        (Value::SchemaOrList, _) => at(value, draft, place),
        (Value::Dependencies | Value::NameLists, Json::Object(members)) => {
            members.iter().find_map(|(name, value)| match value {
                Json::Array(_) => names(value, false, &format!("{place}/{name}")),
                _ if matches!(wanted, Value::Dependencies) => at(value, draft, &format!("{place}/{name}")),
                _ => Some(format!("at {place}/{name}: it is no array but {}", value.kind())),
            })
        }
        (Value::Names, Json::Array(_)) => names(value, false, place),
        (Value::SomeNames, Json::Array(_)) => names(value, true, place),
        (Value::Types, Json::String(name)) => {
            (!TYPES.contains(&&**name)).then(|| format!("at {place}: {name:?} is no type"))
        }
        (Value::Types, Json::Array(_)) => names(value, true, place).or_else(|| {
            let mut named = value.as_array().into_iter().flatten().filter_map(Json::as_str);
            let strange = named.find(|name| !TYPES.contains(name))?;
            Some(format!("at {place}: {strange:?} is no type"))
        }),
        (Value::Text, Json::String(_)) | (Value::Flag, Json::Bool(_)) | (Value::Number, Json::Number(_)) => {
            None
        }
        (Value::Array | Value::SomeArray, Json::Array(items)) => (items.is_empty()
            && matches!(wanted, Value::SomeArray))
        .then(|| format!("at {place}: it is empty")),
        (Value::Positive, Json::Number(_)) => value
            .as_number()
            .is_some_and(|number| number <= 0.0)
            .then(|| format!("at {place}: it is not above 0")),
        (Value::Count, Json::Number(digits)) => {
            let good = value.is_integer() && value.as_number().is_some_and(|number| number >= 0.0);
            (!good).then(|| format!("at {place}: {digits} is no integer of 0 or more"))
        }
        (Value::Schemas | Value::Dependencies | Value::NameLists, _) => not("object"),
        (Value::SchemaList | Value::Names | Value::SomeNames | Value::Array | Value::SomeArray, _) => {
            not("array")
        }
        (Value::Types, _) => not("name of a type"),
        (Value::Text, _) => not("string"),
        (Value::Flag, _) => not("boolean"),
        (Value::Number | Value::Positive | Value::Count, _) => not("number"),
    }
}

/// An array of names, each once.
fn names(value: &Json, some: bool, place: &str) -> Option<String> {
    let items = value.as_array().unwrap_or_default();
    if some && items.is_empty() {
        return Some(format!("at {place}: it is empty"));
    }
    let mut seen = BTreeSet::new();
    for item in items {
        let Some(name) = item.as_str() else {
            return Some(format!("at {place}: {} stands among names", item.kind()));
        };
        if !seen.insert(name) {
            return Some(format!("at {place}: {name:?} stands twice"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::Raw;

    use super::{Draft, fault};
    use crate::json::Json;

    fn judged(text: &str) -> Option<String> {
        let schema = Json::of(&Raw::parse(text.to_owned()).expect("JSON")).expect("small enough");
        fault(&schema, Draft::of(&schema).expect("a known draft"))
    }

    #[test]
    fn a_keyword_has_the_value_of_its_draft() {
        for good in [
            "{}",
            "true",
            r#"{"type":["string","null"],"enum":[],"minLength":2.0}"#,
            r##"{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}]}"##,
            r##"{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}"##,
            r##"{"properties":{"type":{"$ref":"#/$defs/a"}},"$defs":{"a":true}}"##,
            r#"{"x-of-our-own":7,"default":null,"const":[]}"#,
        ] {
            assert_eq!(judged(good), None, "{good}");
        }
        for (bad, place) in [
            (r#"{"type":"text"}"#, "#/type"),
            (r#"{"properties":{"a":{"type":"object","required":"b"}}}"#, "#/properties/a/required"),
            (r#"{"items":[{}]}"#, "#/items"),
            (r#"{"anyOf":[]}"#, "#/anyOf"),
            (r#"{"anyOf":[{},7]}"#, "#/anyOf/1"),
            (r#"{"minimum":1,"exclusiveMinimum":true}"#, "#/exclusiveMinimum"),
            (r#"{"maxLength":-1}"#, "#/maxLength"),
            (r#"{"properties":{"a/b":null}}"#, "#/properties/a~1b"),
            ("[]", "#"),
        ] {
            let found = judged(bad).unwrap_or_else(|| format!("nothing for {bad}"));
            assert!(found.starts_with(&format!("at {place}:")), "{bad}: {found}");
        }
    }

    #[test]
    fn a_draft_that_is_not_known_is_not_judged() {
        let schema = Raw::parse(r#"{"$schema":"https://example.com/mine","type":7}"#).expect("JSON");
        assert_eq!(Draft::of(&Json::of(&schema).expect("small enough")), None);
    }
}
