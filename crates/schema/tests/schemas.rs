//! Tests of JSON Schema validation in `nonconformity`: it returns a reason if a value does not conform, and nothing if the
//! value conforms or if that is unknown.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mcpjoin_proto::Raw;
use mcpjoin_schema::nonconformity;

fn reason(schema: &str, value: &str) -> Option<String> {
    let raw = |text: &str| Raw::parse(text.to_owned()).unwrap();
    nonconformity(&raw(schema), &raw(value))
}

fn draft(name: &str, rest: &str) -> String {
    format!(r#"{{"$schema":"http://json-schema.org/{name}/schema#",{rest}}}"#)
}

#[test]
fn a_keyword_means_nothing_in_a_draft_that_does_not_have_it() {
    for (first, keyword, value) in [
        ("draft/2020-12", r#""prefixItems":[{"type":"string"}]"#, "[1]"),
        ("draft/2019-09", r#""dependentRequired":{"a":["b"]}"#, r#"{"a":1}"#),
        ("draft/2019-09", r#""dependentSchemas":{"a":false}"#, r#"{"a":1}"#),
        ("draft-07", r#""if":true,"then":false"#, "1"),
        ("draft-06", r#""contains":{"type":"string"}"#, "[1]"),
        ("draft-06", r#""propertyNames":{"maxLength":0}"#, r#"{"a":1}"#),
        ("draft-06", r#""const":1"#, "2"),
    ] {
        let drafts = ["draft-04", "draft-06", "draft-07", "draft/2019-09", "draft/2020-12"];
        let known = drafts.iter().position(|draft| *draft == first).unwrap();
        for (place, name) in drafts.iter().enumerate() {
            let found = reason(&draft(name, keyword), value);
            assert_eq!(found.is_some(), place >= known, "{keyword} in {name}: {found:?}");
        }
    }
}

#[test]
fn integers_are_compared_digit_by_digit() {
    for (schema, value, conforms) in [
        (r#"{"exclusiveMaximum":9007199254740993}"#, "9007199254740992", true),
        (r#"{"exclusiveMaximum":9007199254740993}"#, "9007199254740993", false),
        (r#"{"minimum":9007199254740993}"#, "9007199254740992", false),
        (r#"{"maximum":-9007199254740993}"#, "-9007199254740992", false),
        (r#"{"maximum":18446744073709551614}"#, "18446744073709551615", false),
        (r#"{"multipleOf":3}"#, "9007199254740993", true),
        (r#"{"multipleOf":2}"#, "9007199254740993", false),
        (r#"{"const":9007199254740993}"#, "9007199254740992", false),
        (r#"{"enum":[1]}"#, "1.0", true),
        (r#"{"multipleOf":0.01}"#, "19.99", true),
        (r#"{"maximum":0.3}"#, "0.30000000000000004", false),
    ] {
        assert_eq!(reason(schema, value).is_none(), conforms, "{schema} and {value}");
    }
}

#[test]
fn a_number_that_would_have_to_be_rounded_decides_nothing() {
    for (schema, value) in [
        (r#"{"maximum":18446744073709551617}"#, "18446744073709551618"),
        (r#"{"exclusiveMaximum":0.1}"#, "0.10000000000000000001"),
        (r#"{"multipleOf":9007199254740993}"#, "9007199254740994"),
        (r#"{"maximum":1e400}"#, "1e401"),
        (r#"{"type":"string"}"#, "100000000000000000000000001"),
    ] {
        assert_eq!(reason(schema, value), None, "{schema} and {value}");
    }
}

/// Each definition applies the next one twice: the last one is applied 2^60 times.
#[test]
fn references_that_expand_exponentially_are_left_soon() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let next = |n: usize| {
            format!(
                r##""a{n}":{{"{keyword}":[{{"$ref":"#/$defs/a{0}"}},{{"$ref":"#/$defs/a{0}"}}]}}"##,
                n + 1
            )
        };
        let definitions: Vec<String> = (0..60).map(next).collect();
        let schema = format!(
            r##"{{"$ref":"#/$defs/a0","$defs":{{{},"a60":{{"type":"integer"}}}}}}"##,
            definitions.join(",")
        );
        let started = std::time::Instant::now();
        assert_eq!(reason(&schema, "\"no integer\""), None, "{keyword}");
        assert!(started.elapsed().as_secs() < 10, "{keyword}");
    }
}

#[test]
fn what_cannot_be_compiled_or_found_is_unknown() {
    for schema in [
        r#"{"$ref":"https://example.com/other","type":"string"}"#,
        r##"{"$ref":"#/$defs/lost","type":"string"}"##,
        r#"{"pattern":"(?=a)b","type":"string"}"#,
        r#"{"pattern":"(","type":"string"}"#,
        r#"{"type":"text"}"#,
        r#"{"$schema":"https://example.com/mine","type":"string"}"#,
        r#"{"pattern":"\\w{1000}{1000}","type":"string"}"#,
    ] {
        assert_eq!(reason(schema, "true"), None, "{schema}");
    }
}

#[test]
fn patterns_decide_and_formats_and_contents_do_not() {
    assert_eq!(reason(r#"{"pattern":"^a"}"#, r#""ab""#), None);
    let found = reason(r#"{"properties":{"a":{"pattern":"^a"}}}"#, r#"{"a":"b"}"#);
    assert_eq!(found.as_deref(), Some(r#"a does not match the pattern "^a""#));
    assert_eq!(reason(r#"{"format":"date"}"#, r#""b""#), None);
    for name in ["draft-06", "draft-07"] {
        let content = draft(
            name,
            r#""format":"date","contentEncoding":"base64","contentMediaType":"application/json""#,
        );
        assert_eq!(reason(&content, r#""?""#), None, "{name}");
    }
}
