//! Tests of trees, signatures and examples of schemas.

use mcpjoin::proto::Raw;

use super::{MAX_STEPS, Schema};

fn schema(json: &str) -> Schema {
    Schema::read(&Raw::parse(json.to_owned()).unwrap()).unwrap()
}

fn tree(json: &str) -> String {
    anstream::adapter::strip_str(&schema(json).tree(2)).to_string()
}

/// The tree of one property `x`.
fn line(property: &str) -> String {
    let tree = tree(&format!(r#"{{"properties":{{"x":{property}}}}}"#));
    tree.trim_start().trim_start_matches("x  ").trim_end().to_owned()
}

fn example(json: &str) -> String {
    crate::object::write(schema(json).example())
}

const EDIT: &str = r#"{"type":"object","properties":{
    "path":{"type":"string"},
    "edits":{"type":"array","description":"What to change","items":{"type":"object","properties":{
        "oldText":{"type":"string","description":"Text to search for\nexactly"},"newText":{"type":"string"}},
        "required":["oldText","newText"]}},
    "dryRun":{"type":"boolean","default":false}},
    "required":["path","edits"]}"#;

#[test]
fn nested_schemas_are_a_tree() {
    let expected = "  path  string, required
  edits  array of objects, required
      What to change
    oldText  string, required
        Text to search for
        exactly
    newText  string, required
  dryRun  boolean, default false
";
    assert_eq!(tree(EDIT), expected);
    let nested = r##"{"properties":{"filter":{"$ref":"#/$defs/filter"}},"required":["filter"],"$defs":{
        "filter":{"type":"object","properties":{"lang":{"enum":["en","de"]},
            "range":{"type":"object","properties":{"from":{"type":"integer"},"to":{"type":"integer"}}}},
            "required":["lang"]}}}"##;
    let expected = "  filter  object, required
    lang  string, required, one of \"en\", \"de\"
    range  object
      from  integer
      to  integer
";
    assert_eq!(tree(nested), expected);
}

#[test]
fn the_rules_of_a_value_are_in_its_line() {
    for (property, words) in [
        (r#"{"type":"integer","minimum":1,"maximum":10,"default":3}"#, "integer, 1 to 10, default 3"),
        (
            r#"{"type":"number","exclusiveMinimum":0,"multipleOf":0.5}"#,
            "number, more than 0, a multiple of 0.5",
        ),
        (r#"{"type":"string","minLength":1}"#, "string, at least 1 character"),
        (
            r#"{"type":"string","pattern":"^a\u001b$","format":"email"}"#,
            r"string, format email, matches ^a\u{1b}$",
        ),
        (r#"{"type":["string","null"]}"#, "string or null"),
        (r#"{"anyOf":[{"type":"integer","minimum":0},{"type":"null"}]}"#, "integer or null, at least 0"),
        (r#"{"oneOf":[{"type":"string"},{"type":"number"}]}"#, "string or number"),
        (r#"{"oneOf":[{"const":"a","title":"A"},{"const":"b","title":"B"}]}"#, r#"string, one of "a", "b""#),
        (r#"{"type":"integer","format":"uint32","minimum":0}"#, "integer, at least 0"),
        (r#"{"const":7}"#, "number, always 7"),
        (r#"{"allOf":[{"type":"string"},{"maxLength":5}]}"#, "string, at most 5 characters"),
        (
            r#"{"type":"array","items":{"type":"string","enum":["a"]},"minItems":1,"maxItems":1,"uniqueItems":true}"#,
            r#"array of strings, exactly 1 item, no duplicate items, each one of "a""#,
        ),
        (
            r#"{"type":"array","items":{"type":"array","items":{"type":"number"}}}"#,
            "array of arrays of numbers",
        ),
        (r#"{"type":"array","items":{"type":["string","null"]}}"#, "array of (string or null)"),
        (r#"{"type":"array"}"#, "array"),
        (r#"{}"#, "any value"),
        (r#"{"$ref":"http://elsewhere/a.json"}"#, "the same as http://elsewhere/a.json"),
        (r#"{"type":"string","examples":["x"]}"#, r#"string, for example "x""#),
        (r#"{"type":"object","additionalProperties":{"type":"integer"}}"#, "object\n    <any name>  integer"),
        (
            r#"{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}]}"#,
            "array\n    [0]  string\n    [1]  number",
        ),
        (
            r#"{"anyOf":[{"type":"object","title":"By id","properties":{"id":{"type":"integer"}}},{"type":"string"}]}"#,
            "object or string\n    one of:\n    - By id: object\n      id  integer\n    - string",
        ),
    ] {
        assert_eq!(line(property), words, "{property}");
    }
    let choice = r#"{"properties":{"a":{},"b":{}},"allOf":[{"anyOf":[{"required":["a"]},{"required":["b"]}]}],"if":{}}"#;
    let said = "  a  any value\n  b  any value\n  one of these is required: a, b\n  \
                (the schema has further conditions: see --json)\n";
    assert_eq!(tree(choice), said);
}

#[test]
fn a_schema_that_contains_itself_is_shown_once() {
    let list = r##"{"properties":{"node":{"$ref":"#/$defs/node"}},"$defs":{"node":{"type":"object","properties":{
        "value":{"type":"string"},"next":{"$ref":"#/$defs/node"},
        "all":{"type":"array","items":{"$ref":"#/$defs/node"}}}}}}"##;
    let expected = "  node  object
    value  string
    next  object, the same as the object around it
    all  array of objects
";
    assert_eq!(tree(list), expected);
    assert_eq!(
        schema(list).signature(),
        "node?: {value?: string, next?: {value?: string, next?: object, all?: object[]}, \
                                          all?: {value?: string, next?: object, all?: object[]}[]}"
    );
    let arrays = r##"{"properties":{"x":{"type":"array","items":{"$ref":"#/properties/x"}}}}"##;
    assert_eq!(schema(arrays).signature(), "x?: array[][][]");
    assert_eq!(tree(arrays).lines().count(), 1);
    for own in [r##"{"$ref":"#"}"##, r##"{"allOf":[{"$ref":"#"}],"properties":{"a":{"$ref":"#"}}}"##] {
        assert!(tree(own).lines().count() <= 1, "{}", tree(own));
    }
    assert_eq!(line(r##"{"$ref":"#/properties/x"}"##), "any value");
}

#[test]
fn a_hostile_schema_is_shown_within_limits() {
    // Each level refers twice to the next one.
    let mut doubling = String::from(r##"{"properties":{"x":{"$ref":"#/$defs/0"}},"$defs":{"##);
    for number in 0..60 {
        let next = number + 1;
        doubling += &format!(
            r##""{number}":{{"properties":{{"a":{{"$ref":"#/$defs/{next}"}},"b":{{"$ref":"#/$defs/{next}"}}}},"required":["a","b"]}},"##
        );
    }
    doubling += r#""60":{}}}"#;
    let deep = format!("{}{}", r#"{"properties":{"x":"#.repeat(30), "{}".to_owned() + &"}}".repeat(30));
    let wide: Vec<String> = (0..5_000).map(|number| format!(r#""p{number}":{{"type":"string"}}"#)).collect();
    let wide = format!(r#"{{"properties":{{{}}}}}"#, wide.join(","));
    let alternatives = format!(
        r##"{{"properties":{{"x":{{"anyOf":[{}{{}}]}}}}}}"##,
        r##"{"$ref":"#/properties/x"},"##.repeat(500)
    );
    for json in [&doubling, &deep, &wide, &alternatives] {
        let shown = tree(json);
        assert!(shown.lines().count() <= super::tree::MAX_LINES, "{}", shown.lines().count());
        assert!(schema(json).signature().chars().count() <= super::signature::MAX_CHARS + 1);
        assert!(example(json).len() < 100 * MAX_STEPS);
    }
    assert!(tree(&wide).ends_with("  … and more (see --json)\n"));
    assert!(tree(&deep).contains("… and more"), "{}", tree(&deep));
    let large = Raw::parse(format!("\"{}\"", "x".repeat(super::MAX_SCHEMA_BYTES))).unwrap();
    assert!(Schema::read(&large).is_none());
}

#[test]
fn a_signature_is_one_line() {
    let shown = "path: string, edits: {oldText: string, newText: string}[], dryRun?: boolean = false";
    assert_eq!(schema(EDIT).signature(), shown);
    for (json, shown) in [
        (r#"{"type":"object"}"#, ""),
        (
            r#"{"properties":{"a":{"enum":["x","y"]},"b":{"type":["integer","null"]}},"required":["a"]}"#,
            r#"a: "x" | "y", b?: integer | null"#,
        ),
        (
            r#"{"properties":{"a":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]}}}}"#,
            "a?: (string | number)[]",
        ),
        (
            r#"{"properties":{"a":{"type":"object","additionalProperties":{"type":"string"}},"b":{}}}"#,
            "a?: {[name]: string}, b?: any",
        ),
        (
            r#"{"properties":{"a\u001b\n":{"type":"string","default":"\u001b"}}}"#,
            r#"a\u{1b}\u{a}?: string = "\u001b""#,
        ),
    ] {
        assert_eq!(schema(json).signature(), shown, "{json}");
    }
}

#[test]
fn an_example_is_what_the_schema_allows() {
    for (json, arguments) in [
        (EDIT, r#"{"path":"file.txt","edits":[{"oldText":"text","newText":"text"}]}"#),
        (
            r#"{"properties":{"count":{"type":"integer","default":3},"other":{"type":"string"}}}"#,
            r#"{"count":3}"#,
        ),
        (r#"{"properties":{"other":{"type":"string"}}}"#, "{}"),
        (
            r#"{"properties":{"a":{"enum":["x","y"]},"b":{"type":"integer","minimum":5},"c":{"type":"boolean"},
            "d":{"type":"string","format":"date"},"e":{"type":"string","minLength":6,"maxLength":6},
            "f":{"type":"number","exclusiveMinimum":0,"maximum":1,"multipleOf":0.25},"g":{"type":"string","pattern":"^[0-9a-f]{24}$"},
            "h":{"type":["null","string"]},"i":{"type":"integer","maximum":-3}},
            "required":["a","b","c","d","e","f","g","h","i"]}"#,
            r#"{"a":"x","b":5,"c":true,"d":"2026-01-31","e":"textte","f":1,"g":"aaaaaaaaaaaaaaaaaaaaaaaa","h":"text","i":-3}"#,
        ),
        (
            r#"{"properties":{"phone":{"type":"string"},"email":{"type":"string","format":"email"}},
            "allOf":[{"anyOf":[{"required":["email"]},{"required":["phone"]}]}]}"#,
            r#"{"email":"user@example.com"}"#,
        ),
        (
            r#"{"properties":{"phone":{"type":"string"},"email":{"type":"string"}},
            "anyOf":[{"required":["phone"]},{"required":["email"]}],"not":{"required":["phone"]}}"#,
            r#"{"email":"user@example.com"}"#,
        ),
        (
            r#"{"properties":{"x":{"anyOf":[{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]},
            {"type":"string"}]}},"required":["x"]}"#,
            r#"{"x":{"id":1}}"#,
        ),
    ] {
        assert_eq!(example(json), arguments, "{json}");
        let (schema, arguments) =
            (Raw::parse(json.to_owned()).unwrap(), Raw::parse(arguments.to_owned()).unwrap());
        assert_eq!(mcpjoin_schema::nonconformity(&schema, &arguments), None, "{json}");
    }
}
