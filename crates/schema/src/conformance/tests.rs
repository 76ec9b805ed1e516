use mcpjoin_proto::Raw;

use super::*;

fn json(text: &str) -> Value {
    value(&Raw::parse(text.to_owned()).expect("JSON")).expect("small enough, and exact")
}

/// `true`: it conforms; `None`: that is unknown.
fn decided(schema: &str, instance: &str) -> Option<bool> {
    match conforms(&json(schema), &json(instance)) {
        Conformance::Yes => Some(true),
        Conformance::No(_) => Some(false),
        Conformance::Unknown => None,
    }
}

#[test]
fn a_keyword_has_the_value_of_its_draft() {
    for good in [
        "{}",
        "true",
        r#"{"type":["string","null"],"enum":[],"minLength":2.0}"#,
        r##"{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}]}"##,
        r##"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"#","type":7}}}"##,
        r##"{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}"##,
        r##"{"$schema":"https://json-schema.org/draft/2019-09/schema","items":[{}],"additionalItems":false}"##,
        r##"{"properties":{"type":{"$ref":"#/$defs/a"}},"$defs":{"a":true}}"##,
        r#"{"x-of-our-own":7,"default":null,"const":[],"format":"date","pattern":"("}"#,
    ] {
        assert_eq!(fault(&json(good)), None, "{good}");
    }
    for (bad, problem) in [
        (r#"{"type":"text"}"#, r#"#/type: "text" is not a type"#),
        (r#"{"type":7}"#, "#/type: it is of type integer, not string"),
        (r#"{"type":["string","text"]}"#, r#"#/type/1: "text" is not a type"#),
        (
            r#"{"properties":{"a":{"type":"object","required":"b"}}}"#,
            "#/properties/a/required: it is of type string, not array",
        ),
        (r#"{"required":["b","b"]}"#, r#"#/required: "b" appears twice"#),
        (r#"{"items":[{}]}"#, "#/items: a schema is an object or a boolean, not of type array"),
        (r#"{"anyOf":[]}"#, "#/anyOf: it is empty"),
        (r#"{"anyOf":[{},7]}"#, "#/anyOf/1: a schema is an object or a boolean, not of type integer"),
        (r#"{"minimum":1,"exclusiveMinimum":true}"#, "#/exclusiveMinimum: it is of type boolean, not number"),
        (r#"{"maxLength":-1}"#, "#/maxLength: -1 is not an integer of 0 or more"),
        (r#"{"maxLength":1.5}"#, "#/maxLength: 1.5 is not an integer of 0 or more"),
        (r#"{"maxLength":"1"}"#, "#/maxLength: it is of type string, not number"),
        (r#"{"multipleOf":0}"#, "#/multipleOf: it is not above 0"),
        (
            r#"{"properties":{"a/b":null}}"#,
            "#/properties/a~1b: a schema is an object or a boolean, not of type null",
        ),
        ("[]", "#: a schema is an object or a boolean, not of type array"),
        (
            r##"{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"text"}]}"##,
            r#"#/items/0/type: "text" is not a type"#,
        ),
    ] {
        assert_eq!(fault(&json(bad)), Some(format!("at {problem}")), "{bad}");
    }
}

#[test]
fn a_draft_that_is_not_known_is_not_validated() {
    assert_eq!(fault(&json(r#"{"$schema":"https://example.com/mine","type":7}"#)), None);
    let mixed = r#"{"properties":{"a":{"$schema":"http://json-schema.org/draft-04/schema","type":7}}}"#;
    assert_eq!(fault(&json(mixed)), None);
}

#[test]
fn references_are_followed_200_deep() {
    // Each leads to the next one, and the last to a schema that allows everything.
    let chain = |references: usize| {
        let next = |n: usize| format!(r##""a{n}":{{"$ref":"#/definitions/a{}"}}"##, n + 1);
        let definitions: Vec<_> = (1..references).map(next).collect();
        format!(
            r##"{{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a1","definitions":{{{},"a{references}":{{}}}}}}"##,
            definitions.join(",")
        )
    };
    assert_eq!(decided(&chain(200), "1"), Some(true));
    assert_eq!(decided(&chain(201), "1"), None);
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
fn a_schema_has_200_patterns_at_most() {
    let schema = |patterns: usize| {
        let patterns: Vec<_> = (0..patterns).map(|n| format!(r#""^a{n}$":{{}}"#)).collect();
        format!(r#"{{"patternProperties":{{{}}}}}"#, patterns.join(","))
    };
    assert_eq!(decided(&schema(200), r#"{"b":1}"#), Some(true));
    assert_eq!(decided(&schema(201), r#"{"b":1}"#), None);
}

#[test]
fn a_value_conforms_does_not_or_that_is_unknown() {
    let person = r##"{"type":"object","properties":{"name":{"$ref":"#/$defs/name"},"age":{"type":"integer","minimum":0}},
        "required":["name"],"additionalProperties":false,"$defs":{"name":{"type":"string","minLength":1}}}"##;
    let list = r#"{"type":"array","items":{"enum":[1,"a"]},"uniqueItems":true}"#;
    for (schema, value, wanted) in [
        (person, r#"{"name":"Ä","age":3.0}"#, Some(true)),
        (person, r#"{"age":3}"#, Some(false)),
        (person, r#"{"name":"","age":3}"#, Some(false)),
        (person, r#"{"name":"a","age":-1}"#, Some(false)),
        (person, r#"{"name":"a","more":1}"#, Some(false)),
        (list, r#"[1,"a"]"#, Some(true)),
        (list, "[1,1.0]", Some(false)),
        (r#"{"prefixItems":[{"type":"string"}],"items":false}"#, r#"["a",1]"#, Some(false)),
        (r#"{"anyOf":[{"type":"null"},{"type":"string"}]}"#, "null", Some(true)),
        (r#"{"oneOf":[{"type":"integer"},{"type":"number"}]}"#, "1", Some(false)),
        (r#"{"if":{"type":"string"},"then":{"maxLength":1},"else":{"const":7}}"#, "8", Some(false)),
        (r#"{"pattern":"^a"}"#, r#""b""#, Some(false)),
        (r#"{"not":{"pattern":"^a"}}"#, r#""b""#, Some(true)),
        (r#"{"not":{"pattern":"(?!a)"}}"#, r#""b""#, None),
        (r#"{"unevaluatedProperties":false,"properties":{"a":true}}"#, r#"{"b":1}"#, Some(false)),
        (r#"{"contains":{"const":1},"minContains":2}"#, "[1,2]", Some(false)),
        (r#"{"$ref":"https://example.com/other"}"#, "1", None),
        (r##"{"$ref":"#"}"##, "1", None),
        (r##"{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}"##, "1", None),
        (r##"{"$ref":"#/$defs/a","$defs":{"a":{"$id":"b","type":"string"}}}"##, "1", None),
        (r#"{"pattern":"^a","minLength":2}"#, r#""b""#, Some(false)),
        (r#"{"format":"date"}"#, r#""b""#, Some(true)),
    ] {
        assert_eq!(decided(schema, value), wanted, "{schema} and {value}");
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
        // A long text with a pattern, for each of many schemas.
        (
            format!(r#"{{"allOf":[{}]}}"#, list(150, r#"{"pattern":"(a|b|ab)*c(a|b|ab)*c(a|b|ab)*$"}"#)),
            format!("\"{}\"", "ab".repeat(100_000)),
        ),
    ] {
        assert_eq!(decided(&schema, &value), None, "{schema:.60}");
    }
}
