//! The schemas of tools.

use mcpjoin_proto::{Kind, Method, Raw};

use crate::features::each;
use crate::json::Json;
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must};
use crate::rule::{Chapter, Rule, Source};
use crate::schema::{Draft, fault, lost_reference};
use crate::seen::{Seen, elements, member, members, text};

const NOTHING: &str = "no tool was listed";

pub(super) static RULES: [Rule; 3] = [
    Rule {
        slug: "input-schema-valid",
        chapter: Chapter::Tools,
        sentence: "Each tool has an inputSchema of the type \"object\", valid in its draft of JSON Schema: 2020-12 by default.",
        sources: &[Source::new(Revisions::ALL, Must, "server/tools#tool")],
        judge: |seen| {
            each(seen, &Method::ListTools, NOTHING, |tool| match member(tool, "inputSchema") {
                None => Some("it has no inputSchema".into()),
                Some(schema) => {
                    is_of_objects(&schema, "inputSchema").or_else(|| broken(seen, "inputSchema", &schema))
                }
            })
        },
    },
    Rule {
        slug: "output-schema-valid",
        chapter: Chapter::Tools,
        sentence: "An outputSchema is an object, up to 2025-11-25 of the type \"object\", and valid in its draft of JSON Schema.",
        sources: &[
            Source::new(Revisions::THIRD, Must, "server/tools#output-schema"),
            Source::new(Revisions::SINCE_FOURTH, Must, "basic#schema-validation"),
        ],
        judge: |seen| {
            each(seen, &Method::ListTools, "no tool was listed that has an outputSchema", |tool| {
                let schema = member(tool, "outputSchema")?;
                let shape = if Revisions::LEGACY.contains(&seen.run.version) {
                    is_of_objects(&schema, "outputSchema")
                } else {
                    (schema.kind() != Kind::Object).then(|| "outputSchema is no object".into())
                };
                shape.or_else(|| broken(seen, "outputSchema", &schema))
            })
        },
    },
    Rule {
        slug: "tool-schema-references",
        chapter: Chapter::Tools,
        sentence: "A $ref in a tool's schema leads to a place in that schema: clients do not fetch others.",
        sources: &[
            Source::new(Revisions::LAST_LEGACY, Advice, "basic#json-schema-usage"),
            Source::new(Revisions::MODERN, Advice, "basic#ref-resolution"),
        ],
        judge: |seen| {
            each(seen, &Method::ListTools, NOTHING, |tool| {
                schemas(seen, tool).into_iter().find_map(|(name, schema)| {
                    let lost = lost_reference(&Json::of(&schema)?)?;
                    Some(format!("in its {name}, the $ref {lost:?} leads to nothing in it"))
                })
            })
        },
    },
];

/// The schemas of a tool that a revision knows.
fn schemas(seen: &Seen<'_>, tool: &Raw) -> Vec<(&'static str, Raw)> {
    let known = [("inputSchema", Revisions::ALL), ("outputSchema", Revisions::SINCE_THIRD)];
    let known = known.into_iter().filter(|(_, revisions)| revisions.contains(&seen.run.version));
    known.filter_map(|(name, _)| Some((name, member(tool, name)?))).collect()
}

/// What is wrong with a schema that must be one of objects.
fn is_of_objects(schema: &Raw, name: &str) -> Option<String> {
    if schema.kind() != Kind::Object {
        return Some(format!("{name} is no object"));
    }
    let kind = text(schema, "type");
    (kind.as_deref() != Some("object")).then(|| match member(schema, "type") {
        Some(kind) => format!("the type of its {name} is {kind}, not \"object\""),
        None => format!("its {name} has no type"),
    })
}

/// What the schemas of the legacy revisions demand of `properties` and `required`.
fn properties_fault(name: &str, schema: &Raw) -> Option<String> {
    if let Some(properties) = member(schema, "properties") {
        let Some(properties) = members(&properties) else {
            return Some(format!("properties of its {name} is no object"));
        };
        if let Some((property, value)) = properties.iter().find(|(_, value)| value.kind() != Kind::Object) {
            return Some(format!("in its {name}, the property {property:?} is {value}, and no object"));
        }
    }
    let required = member(schema, "required")?;
    let strings =
        elements(&required).is_some_and(|names| names.iter().all(|name| name.kind() == Kind::String));
    (!strings).then(|| format!("required of its {name} is no array of strings"))
}

/// What is wrong with a schema that is an object: by the revision's own schema, and by its draft where the revision says
/// what draft it is of.
fn broken(seen: &Seen<'_>, name: &str, schema: &Raw) -> Option<String> {
    let version = &seen.run.version;
    if Revisions::LEGACY.contains(version)
        && let Some(problem) = properties_fault(name, schema)
    {
        return Some(problem);
    }
    let schema = Json::of(schema).filter(|_| Revisions::SINCE_FOURTH.contains(version))?;
    if let Some(named) = schema.get("$schema")
        && named.as_str().is_none()
    {
        return Some(format!("$schema of its {name} is no string"));
    }
    fault(&schema, Draft::of(&schema)?).map(|problem| format!("its {name} is not valid {problem}"))
}
