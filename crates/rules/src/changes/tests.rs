//! Tables of changes, and what holds of all of them.

use mcpjoin_proto::Raw;
use proptest::prelude::*;

use super::{Change, ChangeOf, Offer, changes};

fn raw(text: &str) -> Raw {
    Raw::parse(text.to_owned()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn raws(text: &str) -> Vec<Raw> {
    raw(text).decode().unwrap()
}

/// `breaks now-required /inputSchema/properties/a`, one for each change.
fn told(changes: &[Change]) -> Vec<String> {
    let one = |change: &Change| {
        let line = format!("{} {} {}", change.class.as_str(), change.kind.as_str(), change.path);
        line.trim_end().to_owned()
    };
    changes.iter().map(one).collect()
}

fn tools(tools: &str) -> Offer {
    Offer { tools: raws(tools), ..Offer::default() }
}

/// What changes with the schema of a tool's arguments, and with that of its results.
fn of_schemas(old: &str, new: &str) -> [Vec<String>; 2] {
    ["inputSchema", "outputSchema"].map(|member| {
        let rest = if member == "inputSchema" { "" } else { r#","inputSchema":{}"# };
        let offer = |schema: &str| {
            tools(&format!(r#"[{{"name":"x","{member}":{{"properties":{{"z":{schema}}}}}{rest}}}]"#))
        };
        let told = told(&changes(&offer(old), &offer(new)));
        told.iter()
            .map(|line| line.replace(&format!("/{member}/properties/z"), "").trim_end().to_owned())
            .collect()
    })
}

#[test]
fn i179_of_a_schema_it_is_said_what_has_changed_and_whom_that_harms() {
    let table: &[(&str, &str, &[&str], &[&str])] = &[
        // What is the same.
        (
            r#"{"type":"object","properties":{"a":{"minimum":1.0}}}"#,
            r#"{"properties":{"a":{"minimum":1}},"type":"object"}"#,
            &[],
            &[],
        ),
        (r#"{"required":["a","b"]}"#, r#"{"required":["b","a"]}"#, &[], &[]),
        (r#"{"enum":["a","b"]}"#, r#"{"enum":["b","a"]}"#, &[], &[]),
        (
            r#"{"anyOf":[{"minLength":1},{"type":"null"}]}"#,
            r#"{"anyOf":[{"type":"null"},{"minLength":1}]}"#,
            &[],
            &[],
        ),
        (r#"{"type":["string","null"]}"#, r#"{"anyOf":[{"type":"null"},{"type":"string"}]}"#, &[], &[]),
        (r#"{"type":["number","integer"]}"#, r#"{"type":"number"}"#, &[], &[]),
        (r#"{"uniqueItems":false}"#, "{}", &[], &[]),
        // Parameters.
        (
            r#"{}"#,
            r#"{"properties":{"a":{}}}"#,
            &["reads property-added /properties/a"],
            &["reads property-added /properties/a"],
        ),
        (
            r#"{}"#,
            r#"{"properties":{"a":{}},"required":["a"]}"#,
            &["breaks required-property-added /properties/a"],
            &["reads required-property-added /properties/a"],
        ),
        (
            r#"{}"#,
            r#"{"required":["a"]}"#,
            &["breaks required-property-added /properties/a"],
            &["reads required-property-added /properties/a"],
        ),
        (
            r#"{"properties":{"a":{}}}"#,
            r#"{}"#,
            &["breaks property-removed /properties/a"],
            &["breaks property-removed /properties/a"],
        ),
        (
            r#"{"properties":{"a/b~":{}}}"#,
            r#"{"properties":{"a/b~":{}},"required":["a/b~"]}"#,
            &["breaks now-required /properties/a~1b~0"],
            &["adds now-required /properties/a~1b~0"],
        ),
        (
            r#"{"properties":{"a":{}},"required":["a"]}"#,
            r#"{"properties":{"a":{}}}"#,
            &["adds no-longer-required /properties/a"],
            &["breaks no-longer-required /properties/a"],
        ),
        (
            r#"{"properties":{"a":{"properties":{"b":{"type":"string"}}}}}"#,
            r#"{"properties":{"a":{"properties":{"b":{"type":"null"}}}}}"#,
            &["breaks type-changed /properties/a/properties/b/type"],
            &["breaks type-changed /properties/a/properties/b/type"],
        ),
        (
            r#"{"properties":7}"#,
            r#"{"properties":{}}"#,
            &["breaks schema-changed /properties"],
            &["breaks schema-changed /properties"],
        ),
        // Types.
        (
            r#"{"type":"number"}"#,
            r#"{"type":"integer"}"#,
            &["breaks type-narrowed /type"],
            &["adds type-narrowed /type"],
        ),
        (
            r#"{"type":"string"}"#,
            r#"{"type":["string","null"]}"#,
            &["adds type-widened /type"],
            &["breaks type-widened /type"],
        ),
        (
            r#"{"type":"string"}"#,
            r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
            &["adds type-widened /type"],
            &["breaks type-widened /type"],
        ),
        (r#"{}"#, r#"{"type":"string"}"#, &["breaks type-narrowed /type"], &["adds type-narrowed /type"]),
        (
            r#"{"type":"string"}"#,
            r#"{"type":"boolean"}"#,
            &["breaks type-changed /type"],
            &["breaks type-changed /type"],
        ),
        (
            r#"{"type":"string"}"#,
            r#"{"type":7}"#,
            &["breaks schema-changed /type"],
            &["breaks schema-changed /type"],
        ),
        // Values.
        (
            r#"{"enum":["a","b"]}"#,
            r#"{"enum":["b","c"]}"#,
            &["breaks value-removed /enum", "reads value-added /enum"],
            &["adds value-removed /enum", "breaks value-added /enum"],
        ),
        (r#"{}"#, r#"{"enum":["b"]}"#, &["breaks limit-tightened /enum"], &["adds limit-tightened /enum"]),
        (
            r#"{"const":1}"#,
            r#"{"const":2}"#,
            &["breaks schema-changed /const"],
            &["breaks schema-changed /const"],
        ),
        (
            r#"{"const":false}"#,
            r#"{"const":true}"#,
            &["breaks schema-changed /const"],
            &["breaks schema-changed /const"],
        ),
        (r#"{"const":false}"#, r#"{}"#, &["adds limit-loosened /const"], &["breaks limit-loosened /const"]),
        (r#"{"default":1}"#, r#"{"default":2}"#, &["reads default /default"], &["reads default /default"]),
        // Limits.
        (
            r#"{"minLength":1}"#,
            r#"{"minLength":2}"#,
            &["breaks limit-tightened /minLength"],
            &["adds limit-tightened /minLength"],
        ),
        (
            r#"{"maximum":1e400}"#,
            r#"{"maximum":1e2}"#,
            &["breaks limit-tightened /maximum"],
            &["adds limit-tightened /maximum"],
        ),
        (
            r#"{"maximum":9007199254740993}"#,
            r#"{"maximum":9007199254740992}"#,
            &["breaks schema-changed /maximum"],
            &["breaks schema-changed /maximum"],
        ),
        (
            r#"{"maxItems":3}"#,
            r#"{}"#,
            &["adds limit-loosened /maxItems"],
            &["breaks limit-loosened /maxItems"],
        ),
        (
            r#"{"pattern":"a"}"#,
            r#"{"pattern":"b"}"#,
            &["breaks schema-changed /pattern"],
            &["breaks schema-changed /pattern"],
        ),
        (
            r#"{"uniqueItems":false}"#,
            r#"{"uniqueItems":true}"#,
            &["breaks limit-tightened /uniqueItems"],
            &["adds limit-tightened /uniqueItems"],
        ),
        (
            r#"{}"#,
            r#"{"additionalProperties":false}"#,
            &["breaks limit-tightened /additionalProperties"],
            &["adds limit-tightened /additionalProperties"],
        ),
        (
            r#"{"additionalProperties":true}"#,
            r#"{"additionalProperties":false}"#,
            &["breaks limit-tightened /additionalProperties"],
            &["adds limit-tightened /additionalProperties"],
        ),
        (
            r#"{"additionalProperties":false}"#,
            r#"{"additionalProperties":{"type":"string"}}"#,
            &["adds limit-loosened /additionalProperties"],
            &["breaks limit-loosened /additionalProperties"],
        ),
        (
            r#"{}"#,
            r#"{"additionalProperties":true}"#,
            &["reads member /additionalProperties"],
            &["reads member /additionalProperties"],
        ),
        // Schemas in schemas.
        (
            r#"{"items":{"type":"string"}}"#,
            r#"{"items":{"type":["string","null"]}}"#,
            &["adds type-widened /items/type"],
            &["breaks type-widened /items/type"],
        ),
        (
            r#"{"items":[{},{"type":"null"}]}"#,
            r#"{"items":[{},{}]}"#,
            &["adds type-widened /items/1/type"],
            &["breaks type-widened /items/1/type"],
        ),
        (
            r#"{"anyOf":[{"minimum":1},{"type":"null"}]}"#,
            r#"{"anyOf":[{"type":"null"},{"minimum":2}]}"#,
            &["breaks limit-tightened /anyOf/0/minimum"],
            &["adds limit-tightened /anyOf/0/minimum"],
        ),
        (
            r#"{"oneOf":[{"const":1}]}"#,
            r#"{"oneOf":[{"const":1},{"const":2}]}"#,
            &["adds limit-loosened /oneOf/1"],
            &["breaks limit-loosened /oneOf/1"],
        ),
        (
            r#"{"allOf":[{"minimum":1}]}"#,
            r#"{"allOf":[{"minimum":1},{"maximum":2}]}"#,
            &["breaks limit-tightened /allOf/1"],
            &["adds limit-tightened /allOf/1"],
        ),
        (
            r#"{}"#,
            r#"{"allOf":[{"minimum":1}]}"#,
            &["breaks limit-tightened /allOf"],
            &["adds limit-tightened /allOf"],
        ),
        (
            r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}"##,
            r##"{"$ref":"#/$defs/b","$defs":{"a":{"type":"null"},"b":{}}}"##,
            &["breaks type-changed /$defs/a/type", "reads member /$defs/b", "breaks schema-changed /$ref"],
            &["breaks type-changed /$defs/a/type", "reads member /$defs/b", "breaks schema-changed /$ref"],
        ),
        (r#"{"not":{"const":1}}"#, r#"{}"#, &["breaks schema-changed /not"], &["breaks schema-changed /not"]),
        ("true", r#"{"type":"null"}"#, &["breaks type-narrowed /type"], &["adds type-narrowed /type"]),
        ("7", r#"{"type":"null"}"#, &["breaks schema-changed"], &["breaks schema-changed"]),
        (
            r#"{"type":"null","type":"string"}"#,
            r#"{"type":"null"}"#,
            &["breaks schema-changed"],
            &["breaks schema-changed"],
        ),
        // Texts.
        (
            r#"{"description":"a","title":"b","examples":[1]}"#,
            r#"{"description":"c","title":"d","examples":[2]}"#,
            &["reads text /description", "reads member /examples", "reads text /title"],
            &["reads text /description", "reads member /examples", "reads text /title"],
        ),
        (r#"{"x-anything":1}"#, r#"{}"#, &["reads member /x-anything"], &["reads member /x-anything"]),
    ];
    for (old, new, arguments, result) in table {
        for (mut told, expected) in of_schemas(old, new).into_iter().zip([arguments, result]) {
            let mut expected = expected.to_vec();
            told.sort();
            expected.sort_unstable();
            assert_eq!(told, expected, "{old} -> {new}");
        }
    }
}

#[test]
fn i179_of_a_tool_every_member_counts() {
    for (old, new, expected) in [
        (r#""description":"a""#, r#""description":"b""#, &["reads text /description"][..]),
        (r#""title":"a""#, "", &["reads text /title"]),
        (
            r#""annotations":{"readOnlyHint":true}"#,
            r#""annotations":{"readOnlyHint":false,"title":"t"}"#,
            &["reads annotation /annotations/readOnlyHint", "reads annotation /annotations/title"],
        ),
        (r#""annotations":{"readOnlyHint":true}"#, "", &["reads annotation /annotations/readOnlyHint"]),
        // What is said and what is meant where nothing is said.
        (
            r#""annotations":{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true}"#,
            "",
            &[],
        ),
        (r#""annotations":{"openWorldHint":false}"#, "", &["reads annotation /annotations/openWorldHint"]),
        ("", r#""execution":{"taskSupport":"forbidden"}"#, &[]),
        (
            r#""inputSchema":{"$schema":"x"}"#,
            r#""inputSchema":{"type":"object"}"#,
            &["reads member /inputSchema/$schema"],
        ),
        (r#""annotations":7"#, "", &["reads annotation /annotations"]),
        (r#""annotations":{}"#, "", &[]),
        ("", r#""outputSchema":{}"#, &["reads schema-added /outputSchema"]),
        (r#""outputSchema":{}"#, "", &["breaks schema-removed /outputSchema"]),
        ("", r#""inputSchema":{}"#, &["breaks schema-added /inputSchema"]),
        (r#""inputSchema":{}"#, "", &["breaks schema-removed /inputSchema"]),
        ("", r#""execution":{"taskSupport":"required"}"#, &["breaks member /execution/taskSupport"]),
        (r#""execution":{"taskSupport":"optional"}"#, "", &["breaks member /execution/taskSupport"]),
        ("", r#""execution":{"taskSupport":"optional"}"#, &["adds member /execution/taskSupport"]),
        (r#""_meta":{"a":1}"#, r#""_meta":{"a":1.0}"#, &[]),
        (r#""_meta":{"a":1}"#, r#""_meta":{"a":2}"#, &["reads member /_meta"]),
        // Two readers may take different things of what is there twice.
        (r#""a":1,"a":1"#, r#""a":1"#, &["adds added", "breaks removed"]),
    ] {
        let offer = |member: &str| {
            let comma = if member.is_empty() { "" } else { "," };
            tools(&format!(r#"[{{"name":"x"{comma}{member}}}]"#))
        };
        let mut told = told(&changes(&offer(old), &offer(new)));
        told.sort();
        assert_eq!(told, expected, "{old} -> {new}");
    }
}

#[test]
fn i179_items_are_known_by_what_they_are_called() {
    let list = |of: ChangeOf, list: &str| {
        let items = raws(list);
        match of {
            ChangeOf::Resource => Offer { resources: items, ..Offer::default() },
            ChangeOf::ResourceTemplate => Offer { resource_templates: items, ..Offer::default() },
            ChangeOf::Prompt => Offer { prompts: items, ..Offer::default() },
            ChangeOf::Tool | ChangeOf::Server => Offer { tools: items, ..Offer::default() },
        }
    };
    for (of, old, new, expected) in [
        (ChangeOf::Tool, r#"[{"name":"a"},{"name":"b"}]"#, r#"[{"name":"b"},{"name":"a"}]"#, &[][..]),
        (ChangeOf::Tool, r#"[{"name":"a"}]"#, r#"[{"name":"b"}]"#, &["breaks removed", "adds added"]),
        // A second tool of a name may be taken for the first.
        (
            ChangeOf::Tool,
            r#"[{"name":"a"}]"#,
            r#"[{"name":"a","title":"t"},{"name":"a"}]"#,
            &["breaks repeated"],
        ),
        (
            ChangeOf::Tool,
            "[]",
            r#"[{"name":"a","title":"t"},{"name":"a"}]"#,
            &["breaks repeated", "breaks repeated"],
        ),
        (
            ChangeOf::Tool,
            r#"[{"name":"a"},{"name":"a","title":"t"}]"#,
            r#"[{"name":"a"}]"#,
            &["breaks repeated"],
        ),
        (
            ChangeOf::Tool,
            r#"[{"name":"a"},{"name":"a","title":"t"}]"#,
            r#"[{"title":"u","name":"a"},{"name":"a"}]"#,
            &["reads text /title"],
        ),
        (ChangeOf::Tool, r#"[7,{},{"name":7}]"#, r#"[{"name":7.0},7.0,{}]"#, &[]),
        (ChangeOf::Tool, "[7]", "[8]", &["breaks removed", "adds added"]),
        (
            ChangeOf::Resource,
            r#"[{"uri":"a:b","name":"x"}]"#,
            r#"[{"uri":"a:b","name":"y"}]"#,
            &["reads text /name"],
        ),
        (
            ChangeOf::Resource,
            r#"[{"uri":"a:b","mimeType":"a/b"}]"#,
            r#"[{"uri":"a:b","mimeType":"a/c"}]"#,
            &["breaks member /mimeType"],
        ),
        (
            ChangeOf::Resource,
            r#"[{"uri":"a:b"}]"#,
            r#"[{"uri":"a:b","mimeType":"a/c"}]"#,
            &["reads member /mimeType"],
        ),
        // The content has changed, and not what it is.
        (
            ChangeOf::Resource,
            r#"[{"uri":"a:b","size":1,"annotations":{"lastModified":"x","priority":1}}]"#,
            r#"[{"uri":"a:b","size":2,"annotations":{"lastModified":"y","priority":0}}]"#,
            &[
                "noted annotation /annotations/lastModified",
                "reads annotation /annotations/priority",
                "noted member /size",
            ],
        ),
        (
            ChangeOf::ResourceTemplate,
            r#"[{"uriTemplate":"a:{b}"}]"#,
            r#"[{"uriTemplate":"a:{c}"}]"#,
            &["breaks removed", "adds added"],
        ),
        (
            ChangeOf::Prompt,
            r#"[{"name":"p","arguments":[{"name":"a"},{"name":"b"}]}]"#,
            r#"[{"name":"p","arguments":[{"name":"b"},{"name":"a"}]}]"#,
            &[],
        ),
        (
            ChangeOf::Prompt,
            r#"[{"name":"p"}]"#,
            r#"[{"name":"p","arguments":[{"name":"a","required":true},{"name":"b"}]}]"#,
            &["breaks required-property-added /arguments/a", "reads property-added /arguments/b"],
        ),
        (
            ChangeOf::Prompt,
            r#"[{"name":"p","arguments":[{"name":"a"},{"name":"b","required":true},{"name":"c","description":"x"}]}]"#,
            r#"[{"name":"p","arguments":[{"name":"a","required":true},{"name":"b"},{"name":"c","description":"y"}]}]"#,
            &[
                "breaks now-required /arguments/a",
                "adds no-longer-required /arguments/b",
                "reads text /arguments/c/description",
            ],
        ),
        (
            ChangeOf::Prompt,
            r#"[{"name":"p","arguments":[{"name":"a"}]}]"#,
            r#"[{"name":"p"}]"#,
            &["breaks property-removed /arguments/a"],
        ),
        (
            ChangeOf::Prompt,
            r#"[{"name":"p","arguments":[{"name":"a"}]}]"#,
            r#"[{"name":"p","arguments":[{"name":"a"},{"name":"a"}]}]"#,
            &["breaks schema-changed /arguments"],
        ),
    ] {
        let told = told(&changes(&list(of, old), &list(of, new)));
        let mut sorted = (told.clone(), expected.to_vec());
        sorted.0.sort();
        sorted.1.sort_unstable();
        assert_eq!(sorted.0, sorted.1, "{old} -> {new}");
    }
}

#[test]
fn i179_of_the_server_its_version_alone_is_no_change_that_counts() {
    let server = |version: &str, info: &str, capabilities: &str, instructions: Option<&str>| Offer {
        protocol_version: Some(Raw::string(version)),
        server_info: Some(raw(info)),
        capabilities: Some(raw(capabilities)),
        instructions: instructions.map(Raw::string),
        ..Offer::default()
    };
    let old = server(
        "2025-06-18",
        r#"{"name":"s","version":"1"}"#,
        r#"{"tools":{"listChanged":false},"prompts":{},"logging":{},"experimental":{"a":{"b":1}}}"#,
        Some("Use it"),
    );
    let new = server(
        "2025-11-25",
        r#"{"version":"2","name":"s","websiteUrl":"https://x"}"#,
        r#"{"tools":{"listChanged":true},"prompts":{"listChanged":false},"completions":{},"experimental":{"a":{"b":2}}}"#,
        None,
    );
    assert_eq!(
        told(&changes(&old, &new)),
        [
            "noted version /protocolVersion",
            "noted version /serverInfo/version",
            "reads member /serverInfo/websiteUrl",
            "reads text /instructions",
            "adds capability-added /capabilities/completions",
            "reads capability-changed /capabilities/experimental/a/b",
            "breaks capability-removed /capabilities/logging",
            "adds capability-added /capabilities/tools/listChanged",
        ]
    );
    assert!(changes(&old, &old).is_empty());
}

/// Any JSON, as text. Numbers of several spellings, names that repeat in no object.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        prop_oneof![Just("1"), Just("2"), Just("-0"), Just("1e400"), Just("0.5")].prop_map(str::to_owned),
        prop_oneof![Just("string"), Just("null"), Just("a"), Just("b"), Just("\u{202e}")]
            .prop_map(|text| Raw::string(text).as_str().to_owned()),
    ];
    let names = prop_oneof![
        Just("type"),
        Just("properties"),
        Just("required"),
        Just("enum"),
        Just("items"),
        Just("anyOf"),
        Just("allOf"),
        Just("minimum"),
        Just("description"),
        Just("default"),
        Just("annotations"),
        Just("inputSchema"),
        Just("outputSchema"),
        Just("arguments"),
        Just("name"),
        Just("$defs"),
        Just("a"),
        Just("b"),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::btree_map(names.clone(), inner, 0..6).prop_map(|members| {
                let members: Vec<String> =
                    members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

/// Some items, some of which have one name.
fn items() -> impl Strategy<Value = Vec<Raw>> {
    let item = (prop_oneof![Just("a"), Just("b"), Just("c")], json(), json(), json()).prop_map(
        |(name, description, input, arguments)| {
            raw(&format!(
                r#"{{"name":"{name}","uri":"{name}","description":{description},"inputSchema":{input},"arguments":{arguments}}}"#
            ))
        },
    );
    proptest::collection::vec(item, 0..5)
}

fn offer(items: &[Raw]) -> Offer {
    let items = items.to_vec();
    Offer { tools: items.clone(), resources: items.clone(), prompts: items, ..Offer::default() }
}

/// The same value in another spelling: the members of each object in the opposite order, and numbers with a point.
fn turned(value: &Raw) -> String {
    use mcpjoin_proto::Kind;
    match value.kind() {
        Kind::Array => {
            let items: Vec<Raw> = value.decode().unwrap();
            format!("[ {} ]", items.iter().map(turned).collect::<Vec<_>>().join(" , "))
        }
        Kind::Object => {
            let members: mcpjoin_proto::types::Members<Raw> = value.decode().unwrap();
            let mut members: Vec<String> = members
                .into_iter()
                .map(|(name, value)| format!("{} : {}", Raw::string(&name).as_str(), turned(&value)))
                .collect();
            members.reverse();
            format!("{{ {} }}", members.join(" , "))
        }
        Kind::Number if value.as_str() == "2" => "20e-1".into(),
        _ => value.as_str().to_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn i179_nothing_has_changed_in_what_is_the_same_however_it_is_written(items in items()) {
        let mut other: Vec<Raw> = items.iter().map(|item| raw(&turned(item))).collect();
        other.reverse();
        prop_assert_eq!(told(&changes(&offer(&items), &offer(&other))), Vec::<String>::new());
    }

    #[test]
    fn i179_changes_do_not_depend_on_the_order_of_anything(old in items(), new in items()) {
        let turned = |items: &[Raw]| {
            let mut other: Vec<Raw> = items.iter().map(|item| raw(&turned(item))).collect();
            other.rotate_left(usize::from(!items.is_empty()));
            other
        };
        let once = changes(&offer(&old), &offer(&new));
        let again = changes(&offer(&turned(&old)), &offer(&turned(&new)));
        let all = |changes: &[Change]| changes.iter().map(|change| (
            change.name.clone(), change.kind, change.class, change.path.clone(),
            change.old.as_ref().map(|raw| super::canonical(raw).as_str().to_owned()),
            change.new.as_ref().map(|raw| super::canonical(raw).as_str().to_owned()),
        )).collect::<Vec<_>>();
        prop_assert_eq!(all(&once), all(&again));
    }

    #[test]
    fn i179_a_change_in_one_direction_is_a_change_in_the_other(old in items(), new in items()) {
        let there = changes(&offer(&old), &offer(&new));
        let back = changes(&offer(&new), &offer(&old));
        prop_assert_eq!(there.is_empty(), back.is_empty());
    }
}

#[test]
fn the_paths_of_changes_have_a_limit_by_the_size_of_the_definition() {
    let long = "n".repeat(20_000);
    let below = |member: &str, value: &str| {
        let members: Vec<String> = (0..2_000).map(|n| format!(r#""p{n}":{value}"#)).collect();
        format!(r#"{{"{member}":{{"{long}":{{"{member}":{{{}}}}}}}}}"#, members.join(","))
    };
    let tool = |value| tools(&format!(r#"[{{"name":"x","inputSchema":{}}}]"#, below("properties", value)));
    let old = tool(r#"{"type":"string"}"#);
    assert_eq!(told(&changes(&old, &tool(r#"{"type":"number"}"#))), ["breaks schema-changed"]);
    let offer = |value: &str| Offer { capabilities: Some(raw(&below("a", value))), ..Offer::default() };
    let told = told(&changes(&offer("1"), &offer("2")));
    assert_eq!(told, ["breaks capability-changed /capabilities"]);
}
