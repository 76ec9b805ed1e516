//! Tests of the dialogue, with a person whose lines are known.

use std::collections::VecDeque;

use mcpjoin::proto::Raw;
use mcpjoin::proto::types::{ElicitParams, ElicitResult};
use mcpjoin_auth::internal::WebPage;

use super::{MAX_TRIES, MAX_URL_BYTES, Person, form, page};

struct Typist {
    lines: VecDeque<&'static str>,
    /// What was shown, and what was typed.
    seen: String,
    opened: Vec<String>,
    has_browser: bool,
}

impl Person for Typist {
    fn show(&mut self, text: &str) {
        self.seen.push_str(text);
        self.seen.push('\n');
    }

    async fn line(&mut self, prompt: &str) -> Option<String> {
        let line = self.lines.pop_front();
        self.seen.push_str(&format!("{prompt}{}\n", line.unwrap_or("^D")));
        line.map(str::to_owned)
    }

    fn open(&mut self, page: &WebPage) -> std::io::Result<()> {
        self.opened.push(page.url().to_owned());
        if self.has_browser { Ok(()) } else { Err(std::io::ErrorKind::NotFound.into()) }
    }
}

fn answered(question: &str, lines: &[&'static str]) -> (String, Typist) {
    let mut typist = Typist {
        lines: lines.iter().copied().collect(),
        seen: String::new(),
        opened: Vec::new(),
        has_browser: true,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let params: ElicitParams = Raw::parse(question.to_owned()).unwrap().decode().unwrap();
    let result: ElicitResult = runtime.block_on(async {
        match params {
            ElicitParams::Form(params) => form(&mut typist, "demo:", params).await,
            ElicitParams::Url(params) => page(&mut typist, "demo:", &params).await,
            _ => panic!("neither a form nor a page"),
        }
    });
    (Raw::from_value(&result).unwrap().to_string(), typist)
}

const FORM: &str = r#"{"message":"Who are\u001b[2J you?","requestedSchema":{"type":"object","properties":{
    "name":{"type":"string","title":"Name","minLength":2},"age":{"type":"integer","default":30}},"required":["name"]}}"#;

#[test]
fn a_form_is_filled_in_field_by_field_and_sent_when_the_user_says_so() {
    let (result, typist) = answered(FORM, &["", "A", "Ada", "old", "", ""]);
    assert_eq!(result, r#"{"action":"accept","content":{"name":"Ada","age":30}}"#);
    assert_eq!(
        typist.seen,
        "\
demo: asks:
  Who are\\u{1b}[2J you?
(Enter accepts the value in brackets; :skip leaves out a field, :decline refuses, :cancel stops)
Name (name): text, at least 2 characters, required
> \n  a value is required
> A
  it has 1 character, but at least 2 is allowed
> Ada
age: whole number
[30] > old
  old is not a whole number
[30] > \nSend this answer? [Y]es, [e]dit, [d]ecline, [c]ancel \n"
    );
}

#[test]
fn a_form_can_be_declined_cancelled_and_changed() {
    for (lines, result) in [
        (&[":decline"][..], r#"{"action":"decline"}"#),
        (&["Ada", ":cancel"], r#"{"action":"cancel"}"#),
        (&["Ada"], r#"{"action":"cancel"}"#),
        (&["Ada", "1", "d"], r#"{"action":"decline"}"#),
        (&["Ada", "1", "c"], r#"{"action":"cancel"}"#),
        (&[":skip", "Ada", ":skip", "y"], r#"{"action":"accept","content":{"name":"Ada"}}"#),
        // What was typed before is what Enter takes.
        (&["Ada", "36", "e", "", "37", "y"], r#"{"action":"accept","content":{"name":"Ada","age":37}}"#),
    ] {
        let (given, typist) = answered(FORM, lines);
        assert_eq!(given, result, "{lines:?}");
        assert!(typist.lines.is_empty(), "{lines:?}");
    }
    let (result, typist) = answered(FORM, &["x"; MAX_TRIES + 1]);
    assert_eq!(result, r#"{"action":"cancel"}"#);
    assert_eq!(typist.lines.len(), 1, "it is not asked for ever");
}

#[test]
fn a_form_without_fields_is_a_question() {
    let form = r#"{"message":"Delete it?","requestedSchema":{"type":"object","properties":{}}}"#;
    assert_eq!(answered(form, &["y"]).0, r#"{"action":"accept","content":{}}"#);
    let (result, typist) = answered(form, &["n"]);
    assert_eq!(result, r#"{"action":"decline"}"#);
    assert_eq!(typist.seen, "demo: asks:\n  Delete it?\nSend this answer? [Y]es, [d]ecline, [c]ancel n\n");
}

fn visit(url: &str) -> String {
    format!(r#"{{"mode":"url","message":"Pay","url":{},"elicitationId":"1"}}"#, Raw::string(url))
}

#[test]
fn a_page_is_opened_only_with_consent() {
    let url = "https://pay.example/x?y=1";
    for (lines, result, opened) in [
        (&["y"][..], r#"{"action":"accept"}"#, 1),
        (&[""], r#"{"action":"decline"}"#, 0),
        (&["n"], r#"{"action":"decline"}"#, 0),
        (&["what"], r#"{"action":"decline"}"#, 0),
        (&["c"], r#"{"action":"cancel"}"#, 0),
        (&[], r#"{"action":"cancel"}"#, 0),
    ] {
        let (given, typist) = answered(&visit(url), lines);
        assert_eq!((given.as_str(), typist.opened.len()), (result, opened), "{lines:?}");
        assert!(
            typist.seen.contains("  https://pay.example/x?y=1\n  on the host pay.example\n"),
            "{}",
            typist.seen
        );
    }
}

#[test]
fn a_url_that_is_no_page_is_declined_unasked() {
    let long = format!("https://a.example/{}", "x".repeat(MAX_URL_BYTES));
    for url in ["file:///etc/passwd", "https://bank.example@evil.example/", "javascript:x", &long] {
        let (result, typist) = answered(&visit(url), &["y"]);
        assert_eq!(result, r#"{"action":"decline"}"#, "{url}");
        assert!(typist.opened.is_empty() && typist.lines.len() == 1, "{url}");
        assert!(typist.seen.contains("declined"), "{}", typist.seen);
    }
}
