//! The schemas of tools for clients that take only a part of JSON Schema.
//!
//! Models and their clients differ in which keywords they accept. A profile says which ones the schemas in the list of tools do
//! without ([`ServerBuilder::schema_profile`](super::ServerBuilder::schema_profile)). Used by `tools`, which caches the lists.
//! It never changes what a tool accepts: a call is decoded, and validated where asked, by the tool's own schema.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic#json-schema-usage>. The reasons of each part:
//! [references](https://github.com/google-gemini/gemini-cli/issues/13326),
//! [null types](https://github.com/modelcontextprotocol/rust-sdk/issues/135),
//! [additional properties](https://github.com/promptfoo/promptfoo/issues/6902),
//! [a schema for each server](https://github.com/quarkiverse/quarkus-mcp-server/pull/438).

mod inline;

use std::fmt;
use std::mem;

use mcpjoin_proto::Raw;
use mcpjoin_proto::types::Implementation;
use schemars::Schema;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Map, Value};

/// Chooses the profile of a client, by its own statement of its name and version. `None` changes nothing.
pub(super) type ProfileChoice = dyn Fn(Option<&Implementation>) -> Option<ChosenProfile> + Send + Sync;

/// A profile that changes something, and the function that does so. It is called through a pointer, so that a program whose
/// servers choose no profiles is linked without it.
#[derive(Clone, Copy)]
pub(super) struct ChosenProfile {
    profile: SchemaProfile,
    apply: fn(SchemaProfile, &Raw, bool) -> Raw,
}

impl ChosenProfile {
    pub(super) fn new(profile: SchemaProfile) -> Option<Self> {
        (profile != SchemaProfile::new()).then_some(Self { profile, apply: SchemaProfile::apply })
    }

    /// Its number, below [`MAX_PROFILES`].
    pub(super) fn number(self) -> usize {
        self.profile.0.into()
    }

    /// Returns the schema of arguments for a client of this profile.
    pub(super) fn input(self, schema: &Raw) -> Raw {
        (self.apply)(self.profile, schema, false)
    }

    /// Returns the schema of a result for a client of this profile.
    pub(super) fn output(self, schema: &Raw) -> Raw {
        (self.apply)(self.profile, schema, true)
    }
}

/// The number of profiles: the lists of a tool are cached for each that is used.
pub(super) const MAX_PROFILES: usize = 16;

const INLINE_REFERENCES: u8 = 1;
const NO_NULL_TYPES: u8 = 1 << 1;
const NO_ADDITIONAL_PROPERTIES: u8 = 1 << 2;
const NO_FORMATS: u8 = 1 << 3;

/// Keywords that describe a value and demand nothing of it, or that concern the document.
const ANNOTATIONS: [&str; 13] = [
    "$comment",
    "$defs",
    "$id",
    "$schema",
    "default",
    "definitions",
    "deprecated",
    "description",
    "example",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
];

/// What the schemas in the list of tools do without, for clients that refuse or misread it.
///
/// [`ServerBuilder::schema_profile`](super::ServerBuilder::schema_profile) chooses the profile of each client. The default
/// changes nothing. A tool accepts the same arguments whatever its client was shown.
///
/// ```
/// use mcpjoin::server::SchemaProfile;
///
/// let profile = SchemaProfile::new().inline_references().no_null_types();
/// assert_ne!(profile, SchemaProfile::simplest());
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[must_use]
pub struct SchemaProfile(u8);

impl SchemaProfile {
    /// Schemas as they were registered.
    pub const fn new() -> Self {
        Self(0)
    }

    /// All of the changes: for clients of models that take a small part of JSON Schema.
    pub const fn simplest() -> Self {
        Self::new().inline_references().no_null_types().no_additional_properties().no_formats()
    }

    /// Replaces each `$ref` by a copy of what it refers to, and removes the definitions. The meaning is the same.
    ///
    /// What refers to itself cannot be copied: its references and its definition stay, and so do references to other documents.
    /// A schema that would become larger than 256 KiB or deeper than 64 levels, that has references to more than 256 places, that
    /// has `$anchor`, `$dynamicRef` or an `$id` within, or that is of draft 4, keeps all of its references.
    pub const fn inline_references(self) -> Self {
        Self(self.0 | INLINE_REFERENCES)
    }

    /// Removes `null` from `type`, `enum`, `anyOf` and `oneOf`, which is how `Option` is described: what may be absent is
    /// already no part of `required`.
    ///
    /// In the schema of arguments the type without `null` remains, so arguments that conform to it also conform to the tool's
    /// own schema. A member that is required and may be null has to have a value then. In the schema of a result, which may
    /// contain null, the keyword is removed as a whole, so each result conforms as before.
    pub const fn no_null_types(self) -> Self {
        Self(self.0 | NO_NULL_TYPES)
    }

    /// Removes `additionalProperties` and `unevaluatedProperties`. A client may then send members that the tool refuses, and
    /// does not know the type of a map's values: describe a map in words. A `oneOf` whose alternatives are changed by this
    /// becomes an `anyOf`.
    pub const fn no_additional_properties(self) -> Self {
        Self(self.0 | NO_ADDITIONAL_PROPERTIES)
    }

    /// Removes `format`, which is an annotation.
    pub const fn no_formats(self) -> Self {
        Self(self.0 | NO_FORMATS)
    }

    const fn has(self, part: u8) -> bool {
        self.0 & part != 0
    }

    /// Returns the schema of a result, or of arguments, for a client of this profile. A schema that cannot be read or written,
    /// because a number has no value, stays as it is.
    fn apply(self, schema: &Raw, is_output: bool) -> Raw {
        let Ok(mut value) = schema.decode::<Value>() else { return schema.clone() };
        if self.has(INLINE_REFERENCES)
            && let Some(inlined) = inline::inlined(&value)
        {
            value = inlined;
        }
        if let Ok(schema) = <&mut Schema>::try_from(&mut value) {
            Simplify { profile: self, is_output }.transform(schema);
        }
        Raw::from_value(&value).unwrap_or_else(|_| schema.clone())
    }
}

impl fmt::Debug for SchemaProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (INLINE_REFERENCES, "inline_references"),
            (NO_NULL_TYPES, "no_null_types"),
            (NO_ADDITIONAL_PROPERTIES, "no_additional_properties"),
            (NO_FORMATS, "no_formats"),
        ];
        f.write_str("SchemaProfile")?;
        f.debug_list()
            .entries(parts.iter().filter(|(part, _)| self.has(*part)).map(|(_, name)| name))
            .finish()
    }
}

/// Removes keywords from a schema and its subschemas.
struct Simplify {
    profile: SchemaProfile,
    is_output: bool,
}

impl Transform for Simplify {
    fn transform(&mut self, schema: &mut Schema) {
        let Some(keywords) = schema.as_object_mut() else { return };
        // Under these, what allows more would forbid more.
        let negated: Vec<(String, Value)> =
            ["not", "if"].iter().filter_map(|keyword| keywords.remove_entry(*keyword)).collect();
        let allows_more = self.profile.has(NO_ADDITIONAL_PROPERTIES) || self.is_output;
        let alternatives = keywords.get("oneOf").filter(|_| allows_more).cloned();
        transform_subschemas(self, schema);
        let Some(keywords) = schema.as_object_mut() else { return };
        keywords.extend(negated);
        if alternatives.is_some()
            && keywords.get("oneOf") != alternatives.as_ref()
            && !keywords.contains_key("anyOf")
            && let Some(alternatives) = keywords.remove("oneOf")
        {
            // Alternatives that allow more may no longer exclude each other.
            keywords.insert("anyOf".to_owned(), alternatives);
        }
        if self.profile.has(NO_NULL_TYPES) {
            match self.is_output {
                true => allow_all_beside_null(keywords),
                false => remove_null(keywords),
            }
        }
        if self.profile.has(NO_ADDITIONAL_PROPERTIES) {
            keywords.remove("additionalProperties");
            keywords.remove("unevaluatedProperties");
        }
        if self.profile.has(NO_FORMATS) && keywords.get("format").is_some_and(Value::is_string) {
            keywords.remove("format");
        }
    }
}

/// Whether a schema allows null and nothing else.
fn is_of_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
        || schema.get("const").is_some_and(Value::is_null)
        || schema.get("enum").and_then(Value::as_array).is_some_and(|values| values[..] == [Value::Null])
}

/// Removes null from what a schema allows, unless it is all that the schema allows.
fn remove_null(keywords: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = keywords.get_mut("type")
        && types.iter().any(|kind| kind != "null")
    {
        types.retain(|kind| kind != "null");
        if types.len() == 1 {
            let only = types.remove(0);
            keywords.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = keywords.get_mut("enum")
        && !values.iter().all(Value::is_null)
    {
        values.retain(|value| !value.is_null());
    }
    for keyword in ["anyOf", "oneOf"] {
        let Some(Value::Array(alternatives)) = keywords.get_mut(keyword) else { continue };
        let before = alternatives.len();
        if !alternatives.iter().all(is_of_null) {
            alternatives.retain(|alternative| !is_of_null(alternative));
        }
        if alternatives.len() < before && alternatives.len() == 1 {
            merge_only_alternative(keywords, keyword);
        }
    }
    if keywords.get("default").is_some_and(Value::is_null) {
        keywords.remove("default");
    }
}

/// Puts the one alternative that is left in place of the keyword, if nothing else there demands anything.
fn merge_only_alternative(keywords: &mut Map<String, Value>, keyword: &str) {
    if !keywords.keys().all(|name| name == keyword || ANNOTATIONS.contains(&name.as_str())) {
        return;
    }
    let Some(Value::Array(alternatives)) = keywords.get_mut(keyword) else { return };
    if !matches!(alternatives[..], [Value::Object(_)]) {
        return;
    }
    if let Some(Value::Object(only)) = mem::take(alternatives).pop() {
        keywords.remove(keyword);
        add_missing(keywords, only);
    }
}

/// Adds the keywords that are not there: a description beside a reference is more specific than that of its target.
fn add_missing(keywords: &mut Map<String, Value>, others: Map<String, Value>) {
    for (name, value) in others {
        keywords.entry(name).or_insert(value);
    }
}

/// Removes the keywords that name null among other things.
fn allow_all_beside_null(keywords: &mut Map<String, Value>) {
    let names_null = |keyword: &str, value: &Value| match (keyword, value) {
        ("type", Value::Array(types)) => types.iter().any(|kind| kind == "null"),
        ("enum", Value::Array(values)) => values.len() > 1 && values.iter().any(Value::is_null),
        ("anyOf" | "oneOf", Value::Array(alternatives)) => alternatives.iter().any(is_of_null),
        ("default", Value::Null) => true,
        _ => false,
    };
    keywords.retain(|keyword, value| !names_null(keyword, value));
}

#[cfg(test)]
mod tests;
