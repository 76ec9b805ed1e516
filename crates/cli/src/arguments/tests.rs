//! Tests of the arguments of a call, built from the operands of the command line.

use std::ffi::OsString;

use super::Typed;

const SCHEMA: &str = r##"{
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "real": {"type": "number"},
        "whole": {"type": "integer"},
        "flag": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "string"}},
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
    let operands: Vec<OsString> = operands.iter().map(OsString::from).collect();
    let schema = serde_json::from_str(SCHEMA).unwrap();
    let typed = Typed::read(object, &operands, 1024)?;
    typed.object_for(Some(&schema)).map(|object| object.as_str().to_owned())
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
        ("text:=5", r#"{"text":5}"#),
        ("free:= [1, 2] ", r#"{"free":[1, 2]}"#),
    ] {
        assert_eq!(arguments(None, &[word]).as_deref(), Ok(json), "{word}");
    }
}

#[test]
fn words_that_cannot_be_meant_are_refused() {
    for (word, reason) in [
        ("real=two", "a number"),
        ("whole=1.5", "a whole number"),
        ("flag=yes", "true or false"),
        ("list=a", "a JSON array"),
        ("text", "is no argument"),
        ("=x", "no name"),
        (":=1", "no name"),
        ("text:={", "not JSON"),
        ("@", "names no file"),
        ("@/nowhere/at/all", "/nowhere/at/all"),
    ] {
        let problem = arguments(None, &[word]).unwrap_err();
        assert!(problem.contains(reason), "{word}: {problem}");
    }
    assert!(arguments(None, &["text=a", "text=b"]).unwrap_err().contains("given twice"));
    assert!(arguments(Some("[1]"), &[]).unwrap_err().contains("must be a JSON object"));
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
    let schema = serde_json::json!({
        "properties": {"message": {}, "messages": {}, "count": {}},
        "allOf": [{"properties": {"counts": {"type": "number"}}}],
    });
    let mistyped = |words: &[&str]| {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        let typed = Typed::read(None, &words, 1024).unwrap();
        typed
            .mistyped(&schema)
            .into_iter()
            .map(|(name, meant)| format!("{name}: {meant}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(mistyped(&["mesage=a"]), ["mesage: message"]);
    assert_eq!(mistyped(&["mesage=a", "message=b", "messages=c"]), [""; 0]);
    assert_eq!(mistyped(&["count=1", "other=2"]), [""; 0]);
    assert_eq!(mistyped(&["counts=1"]), [""; 0]);
    assert_eq!(mistyped(&["cuont:=1", "mesage=2"]), ["cuont: count", "mesage: message"]);
}

#[test]
fn without_a_schema_words_are_text() {
    let typed = Typed::read(None, &["a=1".into()], 1024).unwrap();
    assert!(typed.need_schema());
    assert_eq!(typed.object_for(None).unwrap().as_str(), r#"{"a":"1"}"#);
    assert!(!Typed::read(Some("{}"), &["a:=1".into()], 1024).unwrap().need_schema());
}

#[test]
fn i171_a_file_is_read_up_to_the_limit_of_a_message() {
    let path = std::env::temp_dir().join(format!("mcpjoin-arguments-{}", std::process::id()));
    let operand = OsString::from(format!("@{}", path.display()));
    std::fs::write(&path, r#"{"text":"from a file"}"#).unwrap();
    let typed = Typed::read(None, std::slice::from_ref(&operand), 22).unwrap();
    assert_eq!(typed.object_for(None).unwrap().as_str(), r#"{"text":"from a file"}"#);
    // A single argument overrides the file, in either order.
    for operands in [["text=b".into(), operand.clone()], [operand.clone(), "text=b".into()]] {
        let typed = Typed::read(None, &operands, 22).unwrap();
        assert_eq!(typed.object_for(None).unwrap().as_str(), r#"{"text":"b"}"#);
    }
    let problem = Typed::read(None, std::slice::from_ref(&operand), 21).unwrap_err();
    assert!(problem.contains("--max-message-size"), "{problem}");
    std::fs::remove_file(&path).unwrap();
}
