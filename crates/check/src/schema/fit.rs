//! Whether a value conforms to a schema, as far as that can be decided without regular expressions, other documents
//! and dynamic references: what cannot is [`Fit::Unknown`], and stays so through `not`, `oneOf` and `if`.

use mcpjoin_proto::Walk;

use super::Draft;
use crate::json::{Json, MOST_COMPARED, STRIDE};

/// So many schemas are applied until nothing is decided any more.
const MOST_STEPS: usize = 100_000;
/// So deep references may lead.
const DEEPEST: usize = 200;

/// Of so many items each is compared with each.
const MOST_PAIRED: usize = 200;
/// So many references of a schema are followed to see where they lead.
const MOST_REFERENCES: usize = 1000;

/// What a schema says of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Yes,
    /// Not, for this reason.
    No(String),
    /// That cannot be told here.
    Unknown,
}

use Fit::{No, Unknown, Yes};

/// Whether a value conforms to a schema, which is valid by its draft.
pub(crate) fn conforms(schema: &Json, value: &Json) -> Fit {
    let Some(draft) = Draft::of(schema) else { return Unknown };
    Look { root: schema, draft, applied: Walk::new(MOST_STEPS), compared: Walk::new(MOST_COMPARED) }
        .at(schema, value, "", 0)
}

/// The first `$ref` of a schema that leads to no place in it.
pub(crate) fn lost_reference(schema: &Json) -> Option<String> {
    // References are relative to the identifier of the schema around them.
    if has_identifiers(schema, true) {
        return None;
    }
    lost(schema, schema, &mut Walk::new(MOST_REFERENCES))
}

fn has_identifiers(schema: &Json, is_root: bool) -> bool {
    match schema {
        Json::Object(members) => members.iter().any(|(name, value)| {
            let names = matches!(&**name, "$id" | "id" | "$anchor" | "$dynamicAnchor");
            names && value.as_str().is_some() && !(is_root && name == "$id") || has_identifiers(value, false)
        }),
        Json::Array(items) => items.iter().any(|item| has_identifiers(item, false)),
        _ => false,
    }
}

/// Keywords whose value is data, in which nothing is a reference.
const DATA: [&str; 5] = ["const", "enum", "default", "examples", "example"];

fn lost(root: &Json, schema: &Json, walk: &mut Walk) -> Option<String> {
    match schema {
        Json::Object(members) => {
            if let Some(Json::String(reference)) = schema.get("$ref") {
                if !walk.step() {
                    return None;
                }
                if resolve(root, reference).is_none() {
                    return Some(reference.clone());
                }
            }
            let mut parts = members.iter().filter(|(name, _)| !DATA.contains(&&**name));
            parts.find_map(|(_, value)| lost(root, value, walk))
        }
        Json::Array(items) => items.iter().find_map(|item| lost(root, item, walk)),
        _ => None,
    }
}

/// The place that a reference within the schema leads to.
fn resolve<'a>(root: &'a Json, reference: &str) -> Option<&'a Json> {
    let pointer = reference.strip_prefix('#')?;
    if pointer.is_empty() {
        return Some(root);
    }
    let mut place = root;
    for part in pointer.strip_prefix('/')?.split('/') {
        let name = decoded(part)?.replace("~1", "/").replace("~0", "~");
        place = match place {
            Json::Object(_) => place.get(&name)?,
            Json::Array(items) => items.get(name.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(place)
}

/// A part of a URI without its percent signs.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'%' => u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

struct Look<'a> {
    root: &'a Json,
    draft: Draft,
    applied: Walk,
    compared: Walk,
}

/// All must hold.
fn all(fits: impl IntoIterator<Item = Fit>) -> Fit {
    let mut known = Yes;
    for fit in fits {
        match fit {
            No(why) => return No(why),
            Unknown => known = Unknown,
            Yes => {}
        }
    }
    known
}

/// `true`: it holds; `false`: it does not, for this reason.
fn held(good: bool, why: impl FnOnce() -> String) -> Fit {
    if good { Yes } else { No(why()) }
}

impl<'a> Look<'a> {
    fn at(&mut self, schema: &Json, value: &Json, place: &str, depth: usize) -> Fit {
        if !self.applied.step() || depth > DEEPEST {
            return Unknown;
        }
        let shown = if place.is_empty() { "the value" } else { place };
        let members = match schema {
            Json::Bool(true) => return Yes,
            Json::Bool(false) => return No(format!("{shown} may not be there")),
            Json::Object(members) => members,
            _ => return Unknown,
        };
        if depth > 0 && (schema.get("$id").is_some() || schema.get("$schema").is_some()) {
            return Unknown;
        }
        if self.draft <= Draft::D7
            && let Some(Json::String(reference)) = schema.get("$ref")
        {
            return self.follow(reference, value, place, depth);
        }
        let mut known = Yes;
        for (name, keyword) in members {
            match self.keyword(schema, name, keyword, value, place, depth) {
                No(why) => return No(why),
                Unknown => known = Unknown,
                Yes => {}
            }
        }
        known
    }

    fn follow(&mut self, reference: &str, value: &Json, place: &str, depth: usize) -> Fit {
        let root: &'a Json = self.root;
        match resolve(root, reference) {
            Some(schema) => self.at(schema, value, place, depth + 1),
            None => Unknown,
        }
    }

    fn keyword(
        &mut self,
        schema: &Json,
        name: &str,
        keyword: &Json,
        value: &Json,
        place: &str,
        depth: usize,
    ) -> Fit {
        let shown = if place.is_empty() { "the value" } else { place };
        let number = || keyword.as_number();
        let depth = depth + 1;
        match (name, keyword) {
            ("$ref", Json::String(reference)) => self.follow(reference, value, place, depth),
            ("$dynamicRef" | "$recursiveRef", _) => Unknown,
            ("type", _) => {
                let is = |wanted: &str| {
                    let kind = value.kind();
                    kind == wanted || wanted == "number" && kind == "integer"
                };
                let good = match keyword {
                    Json::String(wanted) => is(wanted),
                    Json::Array(wanted) => wanted.iter().filter_map(Json::as_str).any(is),
                    _ => true,
                };
                held(good, || format!("{shown} is {}", value.kind()))
            }
            ("const", _) => self.found(std::slice::from_ref(keyword), value, || {
                format!("{shown} is another value than the one allowed")
            }),
            ("enum", Json::Array(allowed)) => {
                self.found(allowed, value, || format!("{shown} is none of the values allowed"))
            }
            ("allOf", Json::Array(parts)) => {
                let fits: Vec<Fit> = parts.iter().map(|part| self.at(part, value, place, depth)).collect();
                all(fits)
            }
            ("anyOf", Json::Array(parts)) => {
                let fits: Vec<Fit> = parts.iter().map(|part| self.at(part, value, place, depth)).collect();
                if fits.contains(&Yes) {
                    Yes
                } else if fits.contains(&Unknown) {
                    Unknown
                } else {
                    No(format!("{shown} fits none of the schemas of anyOf"))
                }
            }
            ("oneOf", Json::Array(parts)) => {
                let fits: Vec<Fit> = parts.iter().map(|part| self.at(part, value, place, depth)).collect();
                let yes = fits.iter().filter(|fit| **fit == Yes).count();
                match (yes, fits.contains(&Unknown)) {
                    (2.., _) => No(format!("{shown} fits {yes} of the schemas of oneOf")),
                    (_, true) => Unknown,
                    (1, false) => Yes,
                    (_, false) => No(format!("{shown} fits none of the schemas of oneOf")),
                }
            }
            ("not", _) => match self.at(keyword, value, place, depth) {
                Yes => No(format!("{shown} fits the schema of not")),
                No(_) => Yes,
                Unknown => Unknown,
            },
            ("if", _) if self.draft >= Draft::D7 => {
                let branch = match self.at(keyword, value, place, depth) {
                    Yes => schema.get("then"),
                    No(_) => schema.get("else"),
                    Unknown if ["then", "else"].iter().any(|name| schema.get(name).is_some()) => {
                        return Unknown;
                    }
                    Unknown => None,
                };
                branch.map_or(Yes, |branch| self.at(branch, value, place, depth))
            }
            _ => match value {
                Json::Number(_) => numbers(schema, name, keyword, value, shown, self.draft),
                Json::String(text) if !self.compared.steps(text.len() / STRIDE) => Unknown,
                Json::String(text) => match name {
                    "minLength" => {
                        held(!number().is_some_and(|least| (text.chars().count() as f64) < least), || {
                            format!("{shown} is too short")
                        })
                    }
                    "maxLength" => {
                        held(!number().is_some_and(|most| (text.chars().count() as f64) > most), || {
                            format!("{shown} is too long")
                        })
                    }
                    "pattern" => Unknown,
                    _ => Yes,
                },
                Json::Array(items) => self.items(schema, name, keyword, items, place, depth),
                Json::Object(_) => self.members(schema, name, keyword, value, place, depth),
                _ => Yes,
            },
        }
    }

    /// Whether the value is one of these.
    fn found(&mut self, allowed: &[Json], value: &Json, why: impl FnOnce() -> String) -> Fit {
        for one in allowed {
            match one.equals(value, &mut self.compared) {
                Some(true) => return Yes,
                Some(false) => {}
                None => return Unknown,
            }
        }
        No(why())
    }

    fn items(
        &mut self,
        schema: &Json,
        name: &str,
        keyword: &Json,
        items: &[Json],
        place: &str,
        depth: usize,
    ) -> Fit {
        let count = items.len() as f64;
        let each = |number: usize| format!("{place}[{number}]");
        let shown = if place.is_empty() { "the value" } else { place };
        match (name, keyword) {
            ("minItems", _) => held(!keyword.as_number().is_some_and(|least| count < least), || {
                format!("{shown} has too few items")
            }),
            ("maxItems", _) => held(!keyword.as_number().is_some_and(|most| count > most), || {
                format!("{shown} has too many items")
            }),
            ("uniqueItems", Json::Bool(true)) => {
                // Each pair is compared.
                if items.len() > MOST_PAIRED {
                    return Unknown;
                }
                let mut known = Yes;
                for (at, item) in items.iter().enumerate() {
                    match self.found(&items[..at], item, String::new) {
                        Yes => return No(format!("an item stands twice in {shown}")),
                        Unknown => known = Unknown,
                        No(_) => {}
                    }
                }
                known
            }
            ("prefixItems", Json::Array(schemas)) | ("items", Json::Array(schemas)) => {
                let fits: Vec<Fit> = (schemas.iter().zip(items).enumerate())
                    .map(|(number, (schema, item))| self.at(schema, item, &each(number), depth))
                    .collect();
                all(fits)
            }
            ("items", _) => {
                let before = schema.get("prefixItems").and_then(Json::as_array).map_or(0, <[Json]>::len);
                let before = if self.draft >= Draft::D2020 { before } else { 0 };
                let rest = items.iter().enumerate().skip(before);
                let fits: Vec<Fit> =
                    rest.map(|(number, item)| self.at(keyword, item, &each(number), depth)).collect();
                all(fits)
            }
            ("additionalItems", _) => match schema.get("items") {
                Some(Json::Array(before)) => {
                    let rest = items.iter().enumerate().skip(before.len());
                    let fits: Vec<Fit> =
                        rest.map(|(number, item)| self.at(keyword, item, &each(number), depth)).collect();
                    all(fits)
                }
                _ => Yes,
            },
            ("contains", _) => {
                if schema.get("minContains").is_some() || schema.get("maxContains").is_some() {
                    return Unknown;
                }
                let fits: Vec<Fit> = items.iter().map(|item| self.at(keyword, item, place, depth)).collect();
                if fits.contains(&Yes) {
                    Yes
                } else if fits.contains(&Unknown) {
                    Unknown
                } else {
                    No(format!("{shown} has no item that it must contain"))
                }
            }
            ("unevaluatedItems", _) if !items.is_empty() => Unknown,
            _ => Yes,
        }
    }

    fn members(
        &mut self,
        schema: &Json,
        name: &str,
        keyword: &Json,
        value: &Json,
        place: &str,
        depth: usize,
    ) -> Fit {
        let members = value.as_object().unwrap_or_default();
        let count = members.len() as f64;
        let shown = if place.is_empty() { "the value" } else { place };
        let within = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
        // Each name of the one is looked for among those of the other.
        let names = match (name, keyword) {
            ("required", Json::Array(names)) => names.len(),
            (
                "properties" | "dependentRequired" | "dependentSchemas" | "dependencies",
                Json::Object(names),
            ) => names.len(),
            ("additionalProperties", _) => {
                schema.get("properties").and_then(Json::as_object).map_or(0, <[_]>::len)
            }
            _ => 0,
        };
        if !self.compared.steps(names.saturating_mul(members.len())) {
            return Unknown;
        }
        let has = |name: &str| members.iter().any(|(known, _)| known == name);
        let lacks = |names: &Json| {
            let mut names = names.as_array().unwrap_or_default().iter().filter_map(Json::as_str);
            match names.find(|name| !has(name)) {
                Some(name) => No(format!("{} is missing", within(name))),
                None => Yes,
            }
        };
        match (name, keyword) {
            ("required", _) => lacks(keyword),
            ("minProperties", _) => held(!keyword.as_number().is_some_and(|least| count < least), || {
                format!("{shown} has too few members")
            }),
            ("maxProperties", _) => held(!keyword.as_number().is_some_and(|most| count > most), || {
                format!("{shown} has too many members")
            }),
            ("properties", Json::Object(schemas)) => {
                let fits: Vec<Fit> = members
                    .iter()
                    .filter_map(|(name, value)| {
                        let (_, schema) = schemas.iter().find(|(known, _)| known == name)?;
                        Some(self.at(schema, value, &within(name), depth))
                    })
                    .collect();
                all(fits)
            }
            ("patternProperties", _)
                if members.is_empty() || keyword.as_object().is_some_and(<[_]>::is_empty) =>
            {
                Yes
            }
            ("patternProperties", _) => Unknown,
            ("additionalProperties", _) => {
                let patterns = schema.get("patternProperties").and_then(Json::as_object).unwrap_or_default();
                let known = schema.get("properties").and_then(Json::as_object).unwrap_or_default();
                let mut others =
                    members.iter().filter(|(name, _)| !known.iter().any(|(known, _)| known == name));
                if !patterns.is_empty() {
                    return if others.next().is_some() { Unknown } else { Yes };
                }
                let fits: Vec<Fit> =
                    others.map(|(name, value)| self.at(keyword, value, &within(name), depth)).collect();
                all(fits)
            }
            ("propertyNames", _) => {
                let fits: Vec<Fit> = members
                    .iter()
                    .map(|(name, _)| self.at(keyword, &Json::String(name.clone()), &within(name), depth))
                    .collect();
                all(fits)
            }
            ("dependentRequired" | "dependentSchemas" | "dependencies", Json::Object(needs)) => {
                let fits: Vec<Fit> = needs
                    .iter()
                    .filter(|(name, _)| has(name))
                    .map(|(_, needed)| match needed {
                        Json::Array(names)
                            if !self.compared.steps(names.len().saturating_mul(members.len())) =>
                        {
                            Unknown
                        }
                        Json::Array(_) => lacks(needed),
                        schema => self.at(schema, value, place, depth),
                    })
                    .collect();
                all(fits)
            }
            ("unevaluatedProperties", _) if !members.is_empty() => Unknown,
            _ => Yes,
        }
    }
}

fn numbers(schema: &Json, name: &str, keyword: &Json, value: &Json, shown: &str, draft: Draft) -> Fit {
    let (Some(number), Some(bound)) = (value.as_number(), keyword.as_number()) else { return Yes };
    let exclusive = |name: &str| draft == Draft::D4 && matches!(schema.get(name), Some(Json::Bool(true)));
    let good = match name {
        "minimum" if exclusive("exclusiveMinimum") => number > bound,
        "minimum" => number >= bound,
        "maximum" if exclusive("exclusiveMaximum") => number < bound,
        "maximum" => number <= bound,
        "exclusiveMinimum" => number > bound,
        "exclusiveMaximum" => number < bound,
        // Fractions are not exact.
        "multipleOf" if value.is_integer() && keyword.is_integer() && bound != 0.0 => number % bound == 0.0,
        "multipleOf" => return Unknown,
        _ => true,
    };
    held(good, || format!("{shown} is out of its bounds"))
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::Raw;

    use super::{Fit, conforms, lost_reference};
    use crate::json::Json;

    fn json(text: &str) -> Json {
        Json::of(&Raw::parse(text.to_owned()).expect("JSON")).expect("small enough")
    }

    #[test]
    fn references_are_followed_200_deep() {
        // Each leads to the next one, and the last to a schema that says yes.
        let chain = |references: usize| {
            let next = |n: usize| format!(r##""a{n}":{{"$ref":"#/definitions/a{}"}}"##, n + 1);
            let definitions: Vec<_> = (1..references).map(next).collect();
            json(&format!(
                r##"{{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a1","definitions":{{{},"a{references}":{{}}}}}}"##,
                definitions.join(",")
            ))
        };
        assert_eq!(conforms(&chain(200), &json("1")), Fit::Yes);
        assert_eq!(conforms(&chain(201), &json("1")), Fit::Unknown);
    }

    #[test]
    fn a_thousand_references_of_a_schema_are_looked_up() {
        let schema = |good: usize| {
            let good = r##"{"$ref":"#"},"##.repeat(good);
            json(&format!(r##"{{"allOf":[{good}{{"$ref":"#/lost"}}]}}"##))
        };
        assert_eq!(lost_reference(&schema(999)).as_deref(), Some("#/lost"));
        assert_eq!(lost_reference(&schema(1000)), None);
    }

    #[test]
    fn a_value_fits_does_not_or_nobody_knows() {
        let person = r##"{"type":"object","properties":{"name":{"$ref":"#/$defs/name"},"age":{"type":"integer","minimum":0}},
            "required":["name"],"additionalProperties":false,"$defs":{"name":{"type":"string","minLength":1}}}"##;
        for (schema, value, wanted) in [
            (person, r#"{"name":"Ä","age":3.0}"#, Some(true)),
            (person, r#"{"age":3}"#, Some(false)),
            (person, r#"{"name":"","age":3}"#, Some(false)),
            (person, r#"{"name":"a","age":-1}"#, Some(false)),
            (person, r#"{"name":"a","more":1}"#, Some(false)),
            (r#"{"type":"array","items":{"enum":[1,"a"]},"uniqueItems":true}"#, r#"[1,"a"]"#, Some(true)),
            (r#"{"type":"array","items":{"enum":[1,"a"]},"uniqueItems":true}"#, "[1,1.0]", Some(false)),
            (r#"{"prefixItems":[{"type":"string"}],"items":false}"#, r#"["a",1]"#, Some(false)),
            (r#"{"anyOf":[{"type":"null"},{"type":"string"}]}"#, "null", Some(true)),
            (r#"{"oneOf":[{"type":"integer"},{"type":"number"}]}"#, "1", Some(false)),
            (r#"{"if":{"type":"string"},"then":{"maxLength":1},"else":{"const":7}}"#, "8", Some(false)),
            (r#"{"pattern":"^a"}"#, r#""b""#, None),
            (r#"{"not":{"pattern":"^a"}}"#, r#""b""#, None),
            (r#"{"$ref":"https://example.com/other"}"#, "1", None),
            (r##"{"$ref":"#"}"##, "1", None),
            (r#"{"pattern":"^a","minLength":2}"#, r#""b""#, Some(false)),
            (r#"{"format":"date"}"#, r#""b""#, Some(true)),
        ] {
            let fit = conforms(&json(schema), &json(value));
            let told = match fit {
                Fit::Yes => Some(true),
                Fit::No(_) => Some(false),
                Fit::Unknown => None,
            };
            assert_eq!(told, wanted, "{schema} and {value}: {fit:?}");
        }
    }

    #[test]
    fn a_reference_leads_to_a_place_or_nowhere() {
        assert_eq!(lost_reference(&json(r##"{"$ref":"#/$defs/a%20b","$defs":{"a b":{}}}"##)), None);
        let lost = lost_reference(&json(r##"{"properties":{"a":{"$ref":"#/definitions/B"}}}"##));
        assert_eq!(lost.as_deref(), Some("#/definitions/B"));
        let elsewhere = lost_reference(&json(r#"{"items":{"$ref":"https://example.com/x"}}"#));
        assert_eq!(elsewhere.as_deref(), Some("https://example.com/x"));
    }

    #[test]
    fn what_would_take_too_many_comparisons_is_left() {
        let list = |count: usize, one: &str| vec![one; count].join(",");
        let numbers: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
        let numbers = numbers.join(",");
        for (schema, value) in [
            // Each item with each value that is allowed.
            (format!(r#"{{"items":{{"enum":[{numbers}]}}}}"#), format!("[{}]", list(20_000, "19999"))),
            // A large value with itself, again and again.
            (
                format!(
                    r##"{{"allOf":[{}],"$defs":{{"c":{{"const":[{numbers}]}}}}}}"##,
                    list(5_000, r##"{"$ref":"#/$defs/c"}"##)
                ),
                format!("[{numbers}]"),
            ),
            // Each name with each name.
            (
                format!(
                    r#"{{"required":[{}]}}"#,
                    (0..9_000).map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(",")
                ),
                format!(
                    "{{{}}}",
                    (0..9_000).rev().map(|name| format!("\"{name}\":1")).collect::<Vec<_>>().join(",")
                ),
            ),
        ] {
            assert_eq!(conforms(&json(&schema), &json(&value)), Fit::Unknown, "{schema:.60}");
        }
    }

    #[test]
    fn schemas_that_refer_to_each_other_without_end_are_left() {
        let schema = json(r##"{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}"##);
        assert_eq!(conforms(&schema, &json("1")), Fit::Unknown);
    }
}
