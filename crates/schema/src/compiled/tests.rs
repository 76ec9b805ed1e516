use mcpjoin_proto::Raw;

use super::*;

fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned()).expect("JSON")
}

fn compiled(schema: &str) -> CompiledSchema {
    CompiledSchema::new(&raw(schema)).expect("it compiles")
}

fn said(schema: &str, instance: &str) -> String {
    compiled(schema).violations(&raw(instance)).expect("decided").to_string()
}

#[test]
fn a_violation_names_the_place_the_rule_and_the_value() {
    let order = r##"{"type":"object","properties":{
        "count":{"type":"integer","minimum":1},"name":{"type":"string","maxLength":3,"pattern":"^[a-z]+$"},
        "kind":{"enum":["a","b"]},"items":{"type":"array","items":{"$ref":"#/$defs/item"},"uniqueItems":true}},
        "required":["count"],"additionalProperties":false,
        "$defs":{"item":{"type":"object","properties":{"price":{"exclusiveMinimum":0}},"minProperties":1}}}"##;
    for (instance, expected) in [
        (r#"{"count":1}"#, ""),
        (r#"{"count":1.0}"#, ""),
        (r#"{"count":0}"#, "count: 0 violates minimum: 1"),
        (r#"{"count":"1"}"#, r#"count: "1" violates type: "integer""#),
        ("{}", "count: missing, violates required"),
        (r#"{"count":1,"more":[7]}"#, "more: [7] violates additionalProperties: false"),
        (r#"{"count":1,"kind":"c"}"#, r#"kind: "c" violates enum: ["a","b"]"#),
        (r#"{"count":1,"name":"A"}"#, r#"name: "A" violates pattern: "^[a-z]+$""#),
        (
            r#"{"count":1,"items":[{"price":1},{"price":-1.5}]}"#,
            "items[1].price: -1.5 violates exclusiveMinimum: 0",
        ),
        (r#"{"count":1,"items":[{}]}"#, "items[0]: {} violates minProperties: 1"),
        ("7", r#"7 violates type: "object""#),
    ] {
        assert_eq!(said(order, instance), expected, "{instance}");
    }
    let two = said(order, r#"{"count":0,"name":"abcd"}"#);
    assert!(two.contains("count: 0 violates minimum: 1"), "{two}");
    assert!(two.contains(r#"name: "abcd" violates maxLength: 3"#), "{two}");
}

#[test]
fn of_alternatives_the_part_that_went_furthest_is_named() {
    let optional = r##"{"properties":{"at":{"anyOf":[{"$ref":"#/$defs/at"},{"type":"null"}]}},
        "$defs":{"at":{"type":"object","properties":{"x":{"type":"integer"}}}}}"##;
    assert_eq!(said(optional, r#"{"at":{"x":"a"}}"#), r#"at.x: "a" violates type: "integer""#);
    assert_eq!(said(optional, r#"{"at":7}"#), "at: 7 violates anyOf");
}

#[test]
fn what_a_stranger_wrote_is_shortened_and_escaped() {
    let schema = r#"{"additionalProperties":{"maxLength":1}}"#;
    let long = said(schema, &format!(r#"{{"{}":"{}"}}"#, "n".repeat(100_000), "v".repeat(100_000)));
    assert!(long.chars().count() < 400, "{}", long.len());
    assert!(long.contains('…'));
    let hidden = said(schema, r#"{"a\u001b[2J":"\u202e\u0007x"}"#);
    assert!(!hidden.chars().any(mcpjoin_proto::text::is_hidden), "{hidden:?}");
}

/// The nearest number that a validator can compare is on the same side of the limit.
#[test]
fn an_integer_beyond_64_bits_is_compared() {
    let limited = r#"{"properties":{"n":{"type":"integer","maximum":100}}}"#;
    assert_eq!(said(limited, r#"{"n":99999999999999999999}"#), "n: 1e+20 violates maximum: 100");
    let long = format!(r#"{{"n":1{}}}"#, "0".repeat(50));
    assert_eq!(said(limited, &long), "n: 1e+50 violates maximum: 100");
    assert_eq!(said(r#"{"properties":{"n":{"minimum":0}}}"#, r#"{"n":99999999999999999999}"#), "");
    // 10^20 + 2 is a multiple of 3, and is not what it is rounded to.
    let large = "100000000000000000002";
    for (rule, instance) in [
        (r#"{"multipleOf":3}"#, large.to_owned()),
        (r#"{"not":{"const":1e20}}"#, large.to_owned()),
        (r#"{"items":{"enum":[1,1e20]}}"#, format!("[{large}]")),
        (r#"{"uniqueItems":true}"#, format!("[{large},100000000000000000000]")),
    ] {
        let undecided = compiled(rule).violations(&raw(&instance));
        assert!(matches!(undecided, Err(Undecided::Unreadable(_))), "{rule}: {undecided:?}");
    }
    // Beyond every number nothing is known.
    let undecided = compiled(limited).violations(&raw(r#"{"n":1e400}"#));
    assert!(matches!(undecided, Err(Undecided::Unreadable(_))), "{undecided:?}");
}

#[test]
fn eight_violations_are_returned() {
    let schema = compiled(r#"{"additionalProperties":{"type":"string"}}"#);
    let members = |count: usize| {
        let members: Vec<_> = (0..count).map(|number| format!("\"m{number}\":1")).collect();
        raw(&format!("{{{}}}", members.join(",")))
    };
    let eight = schema.violations(&members(MAX_VIOLATIONS)).expect("decided");
    assert_eq!((eight.first.len(), eight.has_more), (MAX_VIOLATIONS, false));
    let more = schema.violations(&members(MAX_VIOLATIONS + 1)).expect("decided");
    assert_eq!((more.first.len(), more.has_more), (MAX_VIOLATIONS, true));
    assert!(more.to_string().ends_with("; and more"));
    let closed = compiled(r#"{"properties":{"a":true},"additionalProperties":false}"#);
    let unexpected = closed.violations(&members(20)).expect("decided");
    assert_eq!((unexpected.first.len(), unexpected.has_more), (MAX_VIOLATIONS, true));
}

#[test]
fn a_large_value_is_validated_and_one_beyond_the_work_is_undecided() {
    let schema = compiled(r#"{"items":{"type":"integer"}}"#);
    let list = |count: usize, last: &str| raw(&format!("[{}{last}]", "1,".repeat(count)));
    let text = raw(&format!("\"{}\"", "x".repeat(1 << 20)));
    assert!(schema.violations(&text).expect("decided").is_empty(), "a long text is no work");
    let found = schema.violations(&list(50_000, "\"a\"")).expect("decided");
    assert_eq!((found.first.len(), found.has_more), (1, true));
    assert_eq!(schema.violations(&list(100_000, "1")), Err(Undecided::TooMuchWork));
}

#[test]
fn references_that_expand_exponentially_are_undecided_soon() {
    let next = |n: usize| {
        format!(r##""a{n}":{{"allOf":[{{"$ref":"#/$defs/a{0}"}},{{"$ref":"#/$defs/a{0}"}}]}}"##, n + 1)
    };
    let definitions: Vec<String> = (0..60).map(next).collect();
    let schema = format!(
        r##"{{"$ref":"#/$defs/a0","$defs":{{{},"a60":{{"type":"integer"}}}}}}"##,
        definitions.join(",")
    );
    assert_eq!(compiled(&schema).violations(&raw("1")), Err(Undecided::TooMuchWork));
}

#[test]
fn what_cannot_be_compiled_says_why() {
    for schema in [
        r#"{"pattern":"(?=a)b"}"#,
        r#"{"type":"text"}"#,
        r##"{"$ref":"#/$defs/lost"}"##,
        r#"{"$ref":"https://example.com/other"}"#,
        r#"{"$schema":"https://example.com/mine"}"#,
        r#"{"pattern":"\\w{1000}{1000}"}"#,
    ] {
        let error = CompiledSchema::new(&raw(schema)).expect_err(schema).to_string();
        assert!(error.starts_with("the schema cannot be compiled: "), "{error}");
        assert!(error.len() < 1000, "{error}");
    }
}
