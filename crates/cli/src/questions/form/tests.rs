//! Tests of fields: their words, and the values of typed words.

use mcpjoin::proto::Raw;
use mcpjoin::proto::types::ElicitationSchema;

use super::{Field, Form, MAX_CHOICES, MAX_FIELDS};

fn form(properties: &str, required: &str) -> Result<Form, String> {
    let schema = format!(r#"{{"type":"object","properties":{{{properties}}},"required":[{required}]}}"#);
    let schema: ElicitationSchema = Raw::parse(schema).unwrap().decode().unwrap();
    Form::new(schema)
}

fn field(property: &str) -> Field {
    form(&format!(r#""x":{property}"#), "").unwrap().fields.remove(0)
}

#[test]
fn a_question_says_what_is_wanted() {
    for (property, question) in [
        (r#"{"type":"string"}"#, "x: text"),
        (
            r#"{"type":"string","title":"Name","description":"as in\nthe passport","minLength":1,"maxLength":20}"#,
            "Name (x): text, 1 to 20 characters\n  as in\n  the passport",
        ),
        (r#"{"type":"string","minLength":1}"#, "x: text, at least 1 character"),
        (r#"{"type":"string","maxLength":21}"#, "x: text, at most 21 characters"),
        (r#"{"type":"string","format":"email"}"#, "x: email address"),
        (r#"{"type":"string","format":"uri"}"#, "x: URI"),
        (r#"{"type":"string","format":"date"}"#, "x: date, as 2026-11-27"),
        (r#"{"type":"string","format":"date-time"}"#, "x: date and time, as 2026-11-27T09:30:00Z"),
        (r#"{"type":"string","format":"ipv4"}"#, "x: text (ipv4)"),
        (r#"{"type":"integer","minimum":0,"maximum":150}"#, "x: whole number, 0 to 150"),
        (r#"{"type":"number","minimum":0.5}"#, "x: number, at least 0.5"),
        (r#"{"type":"boolean"}"#, "x: yes or no"),
        (r#"{"type":"string","enum":["a","b"]}"#, "x: choose one\n   1  a\n   2  b"),
        (
            r#"{"type":"string","oneOf":[{"const":"a","title":"First"},{"const":"b","title":"b"}]}"#,
            "x: choose one\n   1  a  (First)\n   2  b",
        ),
        (
            r#"{"type":"string","enum":["a","b"],"enumNames":["First"]}"#,
            "x: choose one\n   1  a  (First)\n   2  b",
        ),
        (
            r#"{"type":"array","items":{"type":"string","enum":["a"]},"maxItems":2}"#,
            "x: choose any, as 1,2, at most 2 of them\n   1  a",
        ),
        (
            r#"{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}"#,
            "x: choose any, as 1,2\n   1  a  (A)",
        ),
        (r#"{"type":"colour"}"#, "x: a value in JSON"),
        ("{\"type\":\"string\",\"title\":\"\\u001b[31m\"}", "\\u{1b}[31m (x): text"),
    ] {
        assert_eq!(field(property).question(), question, "{property}");
    }
    assert_eq!(form(r#""x":{"type":"string"}"#, r#""x""#).unwrap().fields[0].question(), "x: text, required");
}

#[test]
fn a_word_is_a_value_or_says_why_not() {
    let choice =
        r#"{"type":"string","oneOf":[{"const":"a","title":"First"},{"const":"b","title":"Second"}]}"#;
    let several =
        r#"{"type":"array","items":{"type":"string","enum":["a","b","c"]},"minItems":1,"maxItems":2}"#;
    for (property, word, value) in [
        (r#"{"type":"string"}"#, "a \"b\"", Ok(r#""a \"b\"""#)),
        (r#"{"type":"string","minLength":2}"#, "ä", Err("it has 1 character, but at least 2 is allowed")),
        (r#"{"type":"string","maxLength":1}"#, "ä", Ok(r#""ä""#)),
        (r#"{"type":"string","format":"email"}"#, "a@b", Ok(r#""a@b""#)),
        (r#"{"type":"string","format":"email"}"#, "a", Err("a is not an email address, as ada@example.com")),
        (r#"{"type":"string","format":"uri"}"#, "urn:x", Ok(r#""urn:x""#)),
        (r#"{"type":"string","format":"uri"}"#, "x y", Err("x y is not a URI, as https://example.com")),
        (r#"{"type":"string","format":"date"}"#, "2026-02-28", Ok(r#""2026-02-28""#)),
        (
            r#"{"type":"string","format":"date"}"#,
            "2026-02-30",
            Err("2026-02-30 is not a date, as 2026-11-27"),
        ),
        (
            r#"{"type":"string","format":"date-time"}"#,
            "2026-02-28T00:00:00Z",
            Ok(r#""2026-02-28T00:00:00Z""#),
        ),
        (
            r#"{"type":"string","format":"date-time"}"#,
            "2026-02-28",
            Err("2026-02-28 is not a date and time with its zone, as 2026-11-27T09:30:00Z"),
        ),
        (r#"{"type":"integer"}"#, "12345678901234567890", Ok("12345678901234567890")),
        (r#"{"type":"integer"}"#, "1.5", Err("1.5 is not a whole number")),
        (r#"{"type":"integer","maximum":3}"#, "4", Err("it is 4, but at most 3 is allowed")),
        (r#"{"type":"number","minimum":0}"#, "-0.5", Err("it is -0.5, but at least 0 is allowed")),
        (r#"{"type":"number"}"#, "1.50", Ok("1.50")),
        (r#"{"type":"number"}"#, "one", Err("one is not a number")),
        (r#"{"type":"boolean"}"#, "Yes", Ok("true")),
        (r#"{"type":"boolean"}"#, "false", Ok("false")),
        (r#"{"type":"boolean"}"#, "1", Err("answer yes or no")),
        (choice, "2", Ok(r#""b""#)),
        (choice, "a", Ok(r#""a""#)),
        (choice, "Second", Ok(r#""b""#)),
        (choice, "3", Err("3 is not one of them: type a number from 1 to 2")),
        (choice, "0", Err("0 is not one of them: type a number from 1 to 2")),
        (several, "3, a,3", Ok(r#"["c","a"]"#)),
        (several, ",", Err("you chose 0, but at least 1 is allowed")),
        (several, "1,2,3", Err("you chose 3, but at most 2 is allowed")),
        (r#"{"type":"colour"}"#, r#"{"r":1}"#, Ok(r#"{"r":1}"#)),
    ] {
        let got = field(property).value(word, None).map(|value| value.unwrap().to_string());
        assert_eq!(got, value.map(str::to_owned).map_err(str::to_owned), "{property} {word}");
    }
    assert!(field(r#"{"type":"colour"}"#).value("red", None).unwrap_err().starts_with("this is not JSON"));
}

#[test]
fn an_empty_line_is_the_default_or_leaves_the_field_out() {
    let with_default = field(r#"{"type":"integer","default":30}"#);
    let default = with_default.default.clone().unwrap();
    assert_eq!(with_default.shown(&default), "30");
    assert_eq!(with_default.value("", Some(&default)).unwrap().unwrap().as_str(), "30");
    assert!(with_default.value("", None).unwrap().is_none());
    let required = form(r#""x":{"type":"string"}"#, r#""x""#).unwrap();
    assert_eq!(required.fields[0].value("", None).unwrap_err(), "a value is required");
    let several = field(r#"{"type":"array","items":{"type":"string","enum":["a","b"]},"default":["a","b"]}"#);
    assert_eq!(several.shown(several.default.as_ref().unwrap()), "a, b");
}

#[test]
fn a_form_that_is_too_large_is_not_asked() {
    let fields = |count: usize| {
        (0..count).map(|n| format!(r#""f{n}":{{"type":"string"}}"#)).collect::<Vec<_>>().join(",")
    };
    assert!(form(&fields(MAX_FIELDS), "").is_ok());
    assert!(form(&fields(MAX_FIELDS + 1), "").is_err_and(|problem| problem.contains("limit is 64")));
    let choices = |count: usize| {
        let values: Vec<_> = (0..count).map(|n| format!(r#""{n}""#)).collect();
        format!(r#""x":{{"type":"string","enum":[{}]}}"#, values.join(","))
    };
    assert!(form(&choices(MAX_CHOICES), "").is_ok());
    assert!(form(&choices(MAX_CHOICES + 1), "").is_err_and(|problem| problem.contains("limit is 200")));
}

#[test]
fn a_long_text_is_shortened() {
    let long = "x".repeat(super::MAX_TEXT_CHARS + 5);
    assert_eq!(super::indented(&long).chars().count(), super::MAX_TEXT_CHARS + "\n  …".chars().count());
    let lines = "y\n".repeat(super::MAX_LINES + 5);
    assert_eq!(super::indented(&lines).lines().count(), super::MAX_LINES + 1);
    assert_eq!(super::short(&long).chars().count(), super::MAX_NAME_CHARS + 1);
}
