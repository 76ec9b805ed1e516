//! Tests of the arguments of a call, built from the operands of the command line.

use std::ffi::OsString;
use std::path::PathBuf;

use mcpjoin::proto::Raw;

use super::{Checked, Typed, words};

const SCHEMA: &str = r##"{
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "real": {"type": "number"},
        "whole": {"type": "integer"},
        "flag": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "number"}},
        "objects": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
        "one or many": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "map": {"type": "object"},
        "maybe": {"type": ["string", "null"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "mixed": {"type": ["string", "number"]},
        "level": {"enum": [1, 2, 3]},
        "there": {"$ref": "#/$defs/number"},
        "loop": {"$ref": "#/$defs/loop"},
        "free": {}
    },
    "allOf": [{"properties": {"inner": {"type": "boolean"}}}],
    "$defs": {"number": {"type": "number"}, "loop": {"$ref": "#/$defs/loop"}}
}"##;

fn arguments(object: Option<&str>, operands: &[&str]) -> Result<String, String> {
    checked(SCHEMA, object, operands, false).map(|checked| checked.object.as_str().to_owned())
}

fn checked(schema: &str, object: Option<&str>, operands: &[&str], force: bool) -> Result<Checked, String> {
    let operands: Vec<OsString> = operands.iter().map(OsString::from).collect();
    let schema = Raw::parse(schema.to_owned()).unwrap();
    Typed::read(object, &operands, 1024)?.checked(Some(&schema), force)
}

/// A file with this content, which only this test has.
fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("mcpjoin-arguments-{name}-{}", std::process::id()));
    std::fs::write(&path, content).unwrap();
    path
}

#[test]
fn words_take_the_type_of_the_schema() {
    for (word, json) in [
        ("text=5", r#"{"text":"5"}"#),
        ("text=", r#"{"text":""}"#),
        ("text=a=b", r#"{"text":"a=b"}"#),
        ("text=\"q\"", r#"{"text":"\"q\""}"#),
        ("real=2", r#"{"real":2}"#),
        ("real=1.50e300", r#"{"real":1.50e300}"#),
        ("whole=9007199254740993", r#"{"whole":9007199254740993}"#),
        ("flag=true", r#"{"flag":true}"#),
        ("list=[\"a\"]", r#"{"list":["a"]}"#),
        ("list=a,b", r#"{"list":["a,b"]}"#),
        ("numbers=1", r#"{"numbers":[1]}"#),
        ("objects={\"id\":1}", r#"{"objects":[{"id":1}]}"#),
        ("one or many=a", r#"{"one or many":"a"}"#),
        ("text=@@x", r#"{"text":"@x"}"#),
        ("{\"text\":\"a\"}", r#"{"text":"a"}"#),
        ("map={}", r#"{"map":{}}"#),
        ("maybe=null", r#"{"maybe":null}"#),
        ("maybe=5", r#"{"maybe":"5"}"#),
        ("either=5", r#"{"either":5}"#),
        ("mixed=5", r#"{"mixed":5}"#),
        ("mixed=five", r#"{"mixed":"five"}"#),
        ("level=2", r#"{"level":2}"#),
        ("there=2", r#"{"there":2}"#),
        ("loop=2", r#"{"loop":"2"}"#),
        ("free=2", r#"{"free":"2"}"#),
        ("unknown=2", r#"{"unknown":"2"}"#),
        ("inner=false", r#"{"inner":false}"#),
        ("maybe:=null", r#"{"maybe":null}"#),
        ("free:= [1, 2] ", r#"{"free":[1, 2]}"#),
    ] {
        assert_eq!(arguments(None, &[word]).as_deref(), Ok(json), "{word}");
    }
}

#[test]
fn a_repeated_name_is_an_array() {
    for (words, json) in [
        (&["list=a", "list=b"][..], r#"{"list":["a","b"]}"#),
        (&["numbers=1", "text=x", "numbers=2"], r#"{"numbers":[1,2],"text":"x"}"#),
        (&["list=a", "list:=\"b\""], r#"{"list":["a","b"]}"#),
        (&["one or many=a", "one or many=b"], r#"{"one or many":["a","b"]}"#),
    ] {
        assert_eq!(arguments(None, words).as_deref(), Ok(json), "{words:?}");
    }
    let problem = arguments(None, &["text=a", "text=b"]).unwrap_err();
    assert!(problem.contains("`text` is given twice"), "{problem}");
    let problem = arguments(None, &["numbers=1", "numbers=two"]).unwrap_err();
    assert!(
        problem.starts_with("`numbers` must be an array, each item a number, got \"two\". Pass JSON: "),
        "{problem}"
    );
    let typed = Typed::read(None, &["a=1".into(), "a=2".into()], 1024).unwrap();
    assert!(typed.texts().unwrap_err().contains("`a` is given twice"));
}

#[test]
fn words_that_cannot_be_meant_are_refused_with_what_to_type() {
    for (word, reason) in [
        ("real=two", "`real` must be a number, got \"two\""),
        ("whole=1.5", "`whole` must be an integer, got \"1.5\""),
        ("flag=yes", "`flag` must be true or false, got \"yes\""),
        (
            "objects=a",
            r#"`objects` must be an array, each item an object, got "a". Pass JSON: 'objects:=[{"id":1}]'"#,
        ),
        ("list:=\"a\"", r#"`list` must be an array, got "a". Pass JSON: 'list:=["text"]'"#),
        ("text", "`text` is not an argument; write text=VALUE, text:=JSON, @FILE or -"),
        ("text:1", "`text:1` is not an argument; write text=1"),
        ("--text", "`--text` is not an argument; write text=VALUE"),
        ("two words", "`two words` is not an argument; write NAME=VALUE, NAME:=JSON, @FILE or -"),
        ("http://h", "write NAME=VALUE"),
        ("=x", "no name"),
        (":=1", "no name"),
        ("text:={", "not JSON"),
        ("{\"a\":", "the object is not JSON"),
        ("@", "names no file"),
        ("@/nowhere/at/all", "/nowhere/at/all"),
        ("text=@", "`text` names no file after the @; for the text @ write text=@@"),
        ("text=@/nowhere", "/nowhere: "),
        ("text=@/nowhere", "for the text @/nowhere write text=@@/nowhere"),
        ("text:=@/nowhere", r#"write 'text:="@/nowhere"'"#),
    ] {
        let problem = arguments(None, &[word]).unwrap_err();
        assert!(problem.contains(reason), "{word}: {problem}");
    }
    assert!(arguments(Some("[1]"), &[]).unwrap_err().contains("must be a JSON object"));
}

const STRICT: &str = r##"{
    "type": "object",
    "properties": {
        "message": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]*$"},
        "count": {"type": "integer", "minimum": 1, "maximum": 10},
        "level": {"enum": ["debug", "info"]},
        "ids": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "uniqueItems": true},
        "who": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    },
    "required": ["message", "count"],
    "additionalProperties": false
}"##;

#[test]
fn arguments_that_break_the_schema_are_refused_in_its_words() {
    for (words, problem) in [
        (&[][..], "`message` and `count` are required"),
        (&["message=ab"], "`count` is required"),
        (&["message=ab", "count=0"], "`count` must be at least 1, got 0"),
        (&["message=ab", "count=11"], "`count` must be at most 10, got 11"),
        (&["message=a", "count=1"], "`message` must have at least 2 characters, got \"a\""),
        (&["message=abcde", "count=1"], "`message` must have at most 4 characters, got \"abcde\""),
        (&["message=AB", "count=1"], "`message` must match the pattern \"^[a-z]*$\", got \"AB\""),
        (
            &["message=ab", "count=1", "level=inf"],
            r#"`level` must be one of "debug","info", got "inf"; did you mean "info"?"#,
        ),
        (&["message=ab", "count=1", "ids=1"], "`ids` must have at least 2 items, got [1]"),
        (&["message=ab", "count=1", "ids=1", "ids=1"], "`ids` must not have the same item twice, got [1,1]"),
        (&["message:=7", "count=1"], "`message` must be a string, got 7"),
        (
            &["mesage=ab", "count=1"],
            "`message` is required; `mesage` is not an argument of this tool; did you mean `message`?",
        ),
        (&["message=ab", "count=1", "other=1"], "`other` is not an argument of this tool"),
        (&["message=ab", "count=1", "who={}"], "`who.name` is required"),
        (
            &["message=ab", "count=1", "who:=1"],
            r#"`who` must be an object, got 1. Pass JSON: 'who:={"name":"example"}'"#,
        ),
    ] {
        let refused = checked(STRICT, None, words, false).unwrap_err();
        assert_eq!(refused, problem, "{words:?}");
        let forced = checked(STRICT, None, words, true).unwrap();
        assert!(forced.notes[0].starts_with("sent because of --force: "), "{words:?}: {:?}", forced.notes);
    }
    let fine = checked(STRICT, None, &["message=ab", "count=1", "level=info"], false).unwrap();
    assert_eq!(fine.notes, [""; 0]);
    let forced = checked(STRICT, None, &["count=two"], true).unwrap();
    assert_eq!(forced.object.as_str(), r#"{"count":"two"}"#);
}

#[test]
fn arguments_are_sent_where_it_is_not_known_whether_they_fit() {
    for schema in [
        r#"{"properties":{"a":{"$ref":"http://elsewhere/a.json"}},"required":["b"]}"#.to_owned(),
        r#"{"$schema":"http://elsewhere/dialect","required":["b"]}"#.to_owned(),
        r#"{"properties":{"a":{"pattern":"(?=x)"}},"required":["b"]}"#.to_owned(),
        format!(r#"{{"description":"{}","required":["b"]}}"#, "x".repeat(300_000)),
        r#"7"#.to_owned(),
    ] {
        let sent = checked(&schema, None, &["a=1"], false).unwrap();
        assert_eq!(sent.object.as_str(), r#"{"a":"1"}"#);
        assert_eq!(sent.notes, [""; 0]);
    }
    // An undeclared name is noted, unless the schema expects other names.
    for (schema, noted) in [
        (r#"{"properties":{"b":{}}}"#, true),
        (r#"{}"#, true),
        (r#"{"additionalProperties":true}"#, false),
        (r#"{"patternProperties":{"^a":{}}}"#, false),
        (r#"{"allOf":[{"properties":{"a":{}}}]}"#, false),
    ] {
        let sent = checked(schema, None, &["a=1"], false).unwrap();
        let notes =
            if noted { vec!["the tool declares no argument `a`; it is sent".to_owned()] } else { vec![] };
        assert_eq!(sent.notes, notes, "{schema}");
    }
    let many: Vec<String> = (0..20).map(|number| format!("a{number}=1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(checked("{}", None, &many, false).unwrap().notes.len(), super::MAX_NOTED_NAMES);
}

#[test]
fn the_words_of_an_example_mean_the_example() {
    let given = [
        ("text", r#""5""#, "text=5"),
        ("real", "1.5", "real=1.5"),
        ("list", r#"["a"]"#, "list=a"),
        ("list", r#"["a","b"]"#, r#"list:=["a","b"]"#),
        ("list", r#"["@a"]"#, r#"list:=["@a"]"#),
        ("text", r#""@a""#, r#"text:="@a""#),
        ("mixed", r#""5""#, r#"mixed:="5""#),
        ("map", "{}", "map:={}"),
        ("objects", r#"[{"id":1}]"#, r#"objects:=[{"id":1}]"#),
    ];
    let schema = Raw::parse(SCHEMA.to_owned()).unwrap();
    for (name, json, word) in given {
        assert_eq!(words(&schema, &[(name.into(), json.into())]), [word], "{name} {json}");
        let object = arguments(None, &[word]).unwrap();
        assert_eq!(object, format!(r#"{{"{name}":{json}}}"#));
    }
    for name in ["a=b", "a:", "{", "@a", "", "-a"] {
        let word = words(&schema, &[(name.into(), "1".into())]);
        assert_eq!(word, [format!(r#"{{"{name}":1}}"#)]);
    }
}

#[test]
fn single_arguments_win_over_objects() {
    let object = r#"{"text":"a","whole":1, "x\n":{"y": 1.0}}"#;
    let expected = r#"{"text":"b","whole":1,"x\n":{"y": 1.0}}"#;
    assert_eq!(arguments(Some(object), &["text=b"]).as_deref(), Ok(expected));
    assert_eq!(arguments(None, &[]).as_deref(), Ok("{}"));
}

#[test]
fn a_name_that_is_mistyped_is_known_by_what_was_not_given() {
    let schema = r#"{
        "properties": {"message": {}, "messages": {}, "count": {}},
        "allOf": [{"properties": {"counts": {"type": "string"}}}],
        "additionalProperties": true
    }"#;
    let notes = |words: &[&str]| checked(schema, None, words, false).unwrap().notes;
    let note =
        |name: &str, meant: &str| format!("the tool declares no argument `{name}`; did you mean `{meant}`?");
    assert_eq!(notes(&["mesage=a"]), [note("mesage", "message")]);
    assert_eq!(notes(&["mesage=a", "message=b", "messages=c"]), [""; 0]);
    assert_eq!(notes(&["count=1", "other=2"]), [""; 0]);
    assert_eq!(notes(&["counts=1"]), [""; 0]);
    assert_eq!(notes(&["cuont:=1", "mesage=2"]), [note("cuont", "count"), note("mesage", "message")]);
}

#[test]
fn without_a_schema_words_are_text() {
    let typed = Typed::read(None, &["a=1".into()], 1024).unwrap();
    assert!(typed.need_schema());
    assert_eq!(typed.checked(None, false).unwrap().object.as_str(), r#"{"a":"1"}"#);
    assert!(!Typed::read(Some("{}"), &["a:=1".into()], 1024).unwrap().need_schema());
    assert!(Typed::read(None, &["a:=1".into(), "a:=2".into()], 1024).unwrap().need_schema());
}

#[test]
fn the_value_of_an_argument_is_the_content_of_a_file() {
    let object = file("object", b"{\"id\": 1}\n");
    let text = file("text", "\u{e9}\n".as_bytes());
    let binary = file("binary", &[0xff]);
    let of = |name: &str, path: &PathBuf| arguments(None, &[&format!("{name}@{}", path.display())]);
    assert_eq!(of("text=", &text).as_deref(), Ok("{\"text\":\"\u{e9}\\n\"}"));
    assert_eq!(of("list=", &text).as_deref(), Ok("{\"list\":[\"\u{e9}\\n\"]}"));
    assert_eq!(of("map=", &object).as_deref(), Ok("{\"map\":{\"id\": 1}}"));
    assert_eq!(of("text=", &object).as_deref(), Ok(r#"{"text":"{\"id\": 1}\n"}"#));
    assert_eq!(of("map:=", &object).as_deref(), Ok("{\"map\":{\"id\": 1}}"));
    assert!(of("map=", &text).unwrap_err().starts_with("`map` must be an object, got "));
    assert!(of("text=", &binary).unwrap_err().contains("not text in UTF-8"));
    assert!(of("map:=", &text).unwrap_err().contains("is not JSON"));
    for path in [object, text, binary] {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn i171_a_file_is_read_up_to_the_limit_of_a_message() {
    let path = std::env::temp_dir().join(format!("mcpjoin-arguments-{}", std::process::id()));
    let operand = OsString::from(format!("@{}", path.display()));
    std::fs::write(&path, r#"{"text":"from a file"}"#).unwrap();
    let typed = Typed::read(None, std::slice::from_ref(&operand), 22).unwrap();
    assert_eq!(typed.checked(None, false).unwrap().object.as_str(), r#"{"text":"from a file"}"#);
    // A single argument overrides the file, in either order.
    for operands in [["text=b".into(), operand.clone()], [operand.clone(), "text=b".into()]] {
        let typed = Typed::read(None, &operands, 22).unwrap();
        assert_eq!(typed.checked(None, false).unwrap().object.as_str(), r#"{"text":"b"}"#);
    }
    let problem = Typed::read(None, std::slice::from_ref(&operand), 21).unwrap_err();
    assert!(problem.contains("--max-message-size"), "{problem}");
    std::fs::remove_file(&path).unwrap();
}
