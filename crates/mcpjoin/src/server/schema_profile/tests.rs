//! Tests of the profiles: what becomes of a schema, what stays, and the limits of copying.

use mcpjoin_proto::Raw;
use serde_json::{Value, json};

use super::{ChosenProfile, MAX_PROFILES, SchemaProfile};

fn raw(value: &Value) -> Raw {
    Raw::from_value(value).expect("JSON")
}

fn input(profile: SchemaProfile, schema: &Value) -> Value {
    profile.apply(&raw(schema), false).decode().expect("JSON")
}

fn output(profile: SchemaProfile, schema: &Value) -> Value {
    profile.apply(&raw(schema), true).decode().expect("JSON")
}

fn inlined(schema: &Value) -> Value {
    input(SchemaProfile::new().inline_references(), schema)
}

#[test]
fn each_profile_has_a_number_and_the_default_changes_nothing() {
    assert_eq!(
        ChosenProfile::new(SchemaProfile::simplest()).map(ChosenProfile::number),
        Some(MAX_PROFILES - 1)
    );
    assert_eq!(SchemaProfile::new(), SchemaProfile::default());
    let schema =
        json!({ "type": ["string", "null"], "format": "date", "$ref": "#/$defs/a", "$defs": { "a": true } });
    assert_eq!(input(SchemaProfile::new(), &schema), schema);
    let shown = format!("{:?}", SchemaProfile::new().no_formats());
    assert_eq!(shown, r#"SchemaProfile["no_formats"]"#);
}

#[test]
fn references_are_replaced_by_what_they_refer_to() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": {
            "from": { "$ref": "#/$defs/Place", "description": "Where it begins" },
            "to": { "anyOf": [{ "$ref": "#/$defs/Place" }, { "type": "null" }] },
            "all": { "type": "array", "items": { "$ref": "#/properties/names" } },
            "names": { "type": "array", "items": { "type": "string" } },
            "any": { "$ref": "#/$defs/any%20one" }
        },
        "$defs": {
            "Place": { "type": "object", "description": "A place", "properties": { "x": { "$ref": "#/$defs/Number" } } },
            "Number": { "type": "number" },
            "any one": true
        }
    });
    let place =
        json!({ "type": "object", "description": "A place", "properties": { "x": { "type": "number" } } });
    let mut from = place.clone();
    from["description"] = "Where it begins".into();
    assert_eq!(
        inlined(&schema),
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "properties": {
                "from": from,
                "to": { "anyOf": [place, { "type": "null" }] },
                "all": { "type": "array", "items": { "type": "array", "items": { "type": "string" } } },
                "names": { "type": "array", "items": { "type": "string" } },
                "any": {}
            }
        })
    );
}

#[test]
fn what_demands_something_beside_a_reference_is_kept_with_it() {
    let schema = |draft: &str| {
        json!({ "$schema": draft, "properties": { "a": { "$ref": "#/definitions/A", "maxLength": 3, "title": "T" } },
            "definitions": { "A": { "type": "string", "maxLength": 5 } } })
    };
    let new = inlined(&schema("https://json-schema.org/draft/2020-12/schema"));
    assert_eq!(
        new["properties"]["a"],
        json!({ "maxLength": 3, "title": "T", "allOf": [{ "type": "string", "maxLength": 5 }] })
    );
    // Up to draft 7 a reference is alone.
    let old = inlined(&schema("http://json-schema.org/draft-07/schema#"));
    assert_eq!(old["properties"]["a"], json!({ "title": "T", "type": "string", "maxLength": 5 }));
    let fourth = schema("http://json-schema.org/draft-04/schema#");
    assert_eq!(inlined(&fourth), fourth);
}

#[test]
fn what_refers_to_itself_keeps_its_definition_and_nothing_else_does() {
    let schema = json!({
        "type": "object",
        "properties": {
            "tree": { "$ref": "#/$defs/Node" }, "name": { "$ref": "#/$defs/Name" }, "again": { "$ref": "#" }
        },
        "$defs": {
            "Node": { "type": "object", "properties": {
                "name": { "$ref": "#/$defs/Name" },
                "children": { "type": "array", "items": { "$ref": "#/$defs/Node" } }
            } },
            "Name": { "type": "string" },
            "Unused": { "$ref": "#/$defs/Name" }
        }
    });
    assert_eq!(
        inlined(&schema),
        json!({
            "type": "object",
            "properties": {
                "tree": { "$ref": "#/$defs/Node" }, "name": { "type": "string" }, "again": { "$ref": "#" }
            },
            "$defs": {
                "Node": { "type": "object", "properties": {
                    "name": { "type": "string" },
                    "children": { "type": "array", "items": { "$ref": "#/$defs/Node" } }
                } }
            }
        })
    );
}

#[test]
fn references_that_cannot_be_followed_stay() {
    for schema in [
        json!({ "properties": { "a": { "$ref": "https://example.com/a" }, "b": { "$ref": "#/$defs/lost" } } }),
        json!({ "properties": { "a": { "$ref": "#b" } }, "$defs": { "b": { "$anchor": "b" } } }),
        json!({ "$ref": "#/$defs/b", "$defs": { "b": { "$id": "x", "properties": { "c": { "$ref": "#/d" } } } } }),
        json!({ "properties": { "a": { "$dynamicRef": "#a" }, "b": { "$ref": "#/$defs/c" } }, "$defs": { "c": {} } }),
    ] {
        assert_eq!(inlined(&schema), schema);
    }
}

#[test]
fn a_definition_for_a_reference_that_is_not_visited_is_kept() {
    let schema = json!({
        "dependentSchemas": { "a": { "$ref": "#/$defs/a~1b" } }, "$defs": { "a/b": { "required": ["c"] }, "d": {} }
    });
    let expected = json!({
        "dependentSchemas": { "a": { "$ref": "#/$defs/a~1b" } }, "$defs": { "a/b": { "required": ["c"] } }
    });
    assert_eq!(inlined(&schema), expected);
}

/// A chain of definitions, each of which refers to the next one this many times.
fn chain(length: usize, times: usize) -> Value {
    let mut definitions = serde_json::Map::new();
    for number in 0..length {
        let reference = json!({ "$ref": format!("#/$defs/d{}", number + 1) });
        let properties: serde_json::Map<_, _> =
            (0..times).map(|place| (format!("p{place}"), reference.clone())).collect();
        definitions.insert(format!("d{number}"), json!({ "properties": properties }));
    }
    definitions.insert(format!("d{length}"), json!({ "type": "string" }));
    json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/d0" } }, "$defs": definitions })
}

#[test]
fn a_schema_that_expands_exponentially_stays_as_it_is() {
    assert_eq!(inlined(&chain(4, 2))["$defs"], Value::Null);
    let large = chain(40, 2);
    assert_eq!(inlined(&large), large);
    // The other changes are made.
    let simplest = input(SchemaProfile::simplest(), &chain(40, 2));
    assert_eq!(simplest, large);
}

#[test]
fn a_copy_of_256_kib_is_made_and_a_larger_one_is_not() {
    let schema = |bytes: usize| json!({ "properties": { "a": { "$ref": "#/$defs/a" } }, "$defs": { "a": { "title": "t".repeat(bytes) } } });
    assert_eq!(inlined(&schema(256 * 1024 - 20))["$defs"], Value::Null);
    let large = schema(256 * 1024);
    assert_eq!(inlined(&large), large);
}

#[test]
fn a_schema_is_inlined_to_64_levels() {
    let deep = chain(31, 1);
    assert_eq!(inlined(&chain(25, 1))["$defs"], Value::Null);
    assert_eq!(inlined(&deep), deep);
}

#[test]
fn references_to_256_places_are_followed() {
    let schema = |count: usize| {
        let properties: serde_json::Map<_, _> = (0..count)
            .map(|number| (format!("p{number}"), json!({ "$ref": format!("#/$defs/d{number}") })))
            .collect();
        let definitions: serde_json::Map<_, _> =
            (0..count).map(|number| (format!("d{number}"), json!({}))).collect();
        json!({ "properties": properties, "$defs": definitions })
    };
    assert_eq!(inlined(&schema(256))["$defs"], Value::Null);
    let many = schema(257);
    assert_eq!(inlined(&many), many);
}

#[test]
fn a_copy_has_no_mark_of_a_header() {
    let schema = json!({
        "properties": { "region": { "type": "string", "x-mcp-header": "Region" }, "all": { "items": { "$ref": "#/properties/region" } } }
    });
    let shown = inlined(&schema);
    assert_eq!(shown["properties"]["region"]["x-mcp-header"], "Region");
    assert_eq!(shown["properties"]["all"]["items"], json!({ "type": "string" }));
}

#[test]
fn arguments_have_no_null_and_results_may_have_it() {
    let profile = SchemaProfile::new().no_null_types();
    for (schema, arguments, result) in [
        (
            json!({ "type": ["string", "null"], "maxLength": 3 }),
            json!({ "type": "string", "maxLength": 3 }),
            json!({ "maxLength": 3 }),
        ),
        (
            json!({ "type": ["string", "integer", "null"] }),
            json!({ "type": ["string", "integer"] }),
            json!({}),
        ),
        (json!({ "type": "null" }), json!({ "type": "null" }), json!({ "type": "null" })),
        (json!({ "type": ["null"] }), json!({ "type": ["null"] }), json!({})),
        (json!({ "enum": ["a", null] }), json!({ "enum": ["a"] }), json!({})),
        (
            json!({ "anyOf": [{ "$ref": "#/$defs/a" }, { "type": "null" }], "description": "D", "default": null }),
            json!({ "$ref": "#/$defs/a", "description": "D" }),
            json!({ "description": "D" }),
        ),
        (
            json!({ "oneOf": [{ "type": "string" }, { "type": "integer" }, { "const": null }] }),
            json!({ "oneOf": [{ "type": "string" }, { "type": "integer" }] }),
            json!({}),
        ),
        // What stands beside the alternatives stays beside them.
        (
            json!({ "anyOf": [{ "type": "object" }, { "type": "null" }], "minProperties": 1 }),
            json!({ "anyOf": [{ "type": "object" }], "minProperties": 1 }),
            json!({ "minProperties": 1 }),
        ),
        (
            json!({ "type": "object", "properties": { "type": { "type": ["integer", "null"] } } }),
            json!({ "type": "object", "properties": { "type": { "type": "integer" } } }),
            json!({ "type": "object", "properties": { "type": {} } }),
        ),
        // Negated, more would be less.
        (
            json!({ "not": { "type": ["string", "null"] } }),
            json!({ "not": { "type": ["string", "null"] } }),
            json!({ "not": { "type": ["string", "null"] } }),
        ),
    ] {
        assert_eq!(input(profile, &schema), arguments, "{schema}");
        assert_eq!(output(profile, &schema), result, "{schema}");
    }
}

#[test]
fn other_keywords_are_removed_from_schemas_and_not_from_data() {
    let schema = json!({
        "type": "object", "additionalProperties": false, "unevaluatedProperties": false,
        "properties": {
            "format": { "type": "string", "format": "date-time" },
            "additionalProperties": { "type": "object", "additionalProperties": { "type": "integer" } },
            "kept": { "const": { "format": "a", "additionalProperties": false } }
        }
    });
    let profile = SchemaProfile::new().no_additional_properties().no_formats();
    assert_eq!(
        input(profile, &schema),
        json!({
            "type": "object",
            "properties": {
                "format": { "type": "string" },
                "additionalProperties": { "type": "object" },
                "kept": { "const": { "format": "a", "additionalProperties": false } }
            }
        })
    );
    let alternatives = json!({ "oneOf": [
        { "properties": { "a": true }, "additionalProperties": false }, { "properties": { "b": true }, "additionalProperties": false }
    ] });
    assert_eq!(
        input(profile, &alternatives),
        json!({ "anyOf": [{ "properties": { "a": true } }, { "properties": { "b": true } }] })
    );
    let plain = json!({ "oneOf": [{ "type": "string" }, { "type": "integer" }] });
    assert_eq!(input(profile, &plain), plain);
}
