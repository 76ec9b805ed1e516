//! The answers of `--answer`, for scripts: one object for every form, or a list with one answer for each question.
//!
//! Used by the parent. It never asks and never prints. Values are checked against the form that they fill in.

use std::collections::VecDeque;

use mcpjoin::proto::types::{ElicitAction, ElicitFormParams, ElicitParams, ElicitResult, Members};
use mcpjoin::proto::{Kind, Raw};

use super::form::{Form, short};
use crate::config::similar;
use crate::found;
use crate::object::Object;

/// The longest file of answers.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The answers that are left.
#[derive(Debug)]
pub(super) enum Answers {
    /// The same for every question.
    Every(Answer),
    /// One for each question.
    InOrder(VecDeque<Answer>),
}

/// The names of values that a form does not have, each with a similar name that it has.
type Unknown = Vec<(String, Option<String>)>;

/// One answer.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// The values of a form's fields.
    Values(Members<Raw>),
    /// `"accept"` without values, `"decline"` or `"cancel"`.
    Action(ElicitAction),
}

impl Answers {
    /// Reads the option: JSON, the name of an action, or the name of a file.
    pub(super) fn read(option: &str) -> Result<Self, String> {
        let text = match option.trim_start() {
            "accept" | "decline" | "cancel" => Raw::string(option.trim_start()).as_str().into(),
            json if json.starts_with(['{', '[']) => json.into(),
            _ => {
                let read = std::fs::File::open(option).and_then(|file| found::bounded(file, MAX_FILE_BYTES));
                let text = read.map_err(|error| format!("{}: {error}", short(option)))?;
                text.ok_or_else(|| format!("{} has more than {MAX_FILE_BYTES} bytes", short(option)))?
            }
        };
        let json = Raw::parse(text).map_err(|error| format!("this is not JSON: {error}"))?;
        if json.kind() != Kind::Array {
            return Answer::parse(&json).map(Self::Every);
        }
        let answers: Vec<Raw> = json.decode().map_err(|error| error.to_string())?;
        answers.iter().map(Answer::parse).collect::<Result<_, _>>().map(Self::InOrder)
    }

    /// The answer to the next question; `None` where all are used.
    pub(super) fn next(&mut self) -> Option<Answer> {
        match self {
            Self::Every(answer) => Some(answer.clone()),
            Self::InOrder(answers) => answers.pop_front(),
        }
    }
}

impl Answer {
    /// An object of values, the name of an action, or the specification's own result: `action` and `content`.
    fn parse(json: &Raw) -> Result<Self, String> {
        const FORMS: &str = r#"an answer is an object of values, "accept", "decline" or "cancel""#;
        let action = |name: &str| match name {
            "accept" => Ok(Self::Action(ElicitAction::Accept)),
            "decline" => Ok(Self::Action(ElicitAction::Decline)),
            "cancel" => Ok(Self::Action(ElicitAction::Cancel)),
            _ => Err(format!("{FORMS}, not \"{}\"", short(name))),
        };
        if let Some(name) = json.to_string_value() {
            return action(&name);
        }
        let object = Object::of(json).ok_or(FORMS)?;
        let is_result = json
            .decode::<Members<Raw>>()
            .is_ok_and(|members| members.keys().all(|name| matches!(name, "action" | "content")));
        match (object.text("action"), object.value("content")) {
            (Some(name), Some(content)) if is_result && name == "accept" => {
                content.decode().map(Self::Values).map_err(|error| format!("content: {error}"))
            }
            (Some(name), None) if is_result => action(&name),
            _ => json.decode().map(Self::Values).map_err(|error| error.to_string()),
        }
    }

    /// The result for a question, and the names of values that the form does not have.
    pub(super) fn to(self, question: ElicitParams) -> Result<(ElicitResult, Unknown), String> {
        match (self, question) {
            (Self::Action(ElicitAction::Accept), ElicitParams::Form(form)) => fill_in(Members::new(), form),
            (Self::Action(action), _) => Ok((ElicitResult::new(action), Vec::new())),
            (Self::Values(values), ElicitParams::Form(form)) => fill_in(values, form),
            (Self::Values(_), _) => {
                Err(r#"the server asks to open a web page: answer "accept" or "decline""#.into())
            }
        }
    }
}

/// The result with those of the values that the form has, and with its defaults for the others.
fn fill_in(mut values: Members<Raw>, params: ElicitFormParams) -> Result<(ElicitResult, Unknown), String> {
    let form = Form::new(params.requested_schema)?;
    let mut content = Members::new();
    for field in &form.fields {
        if let Some(value) = values.remove(&field.name).or_else(|| field.default.clone()) {
            content.insert(field.name.clone(), value);
        }
    }
    let missing =
        || form.fields.iter().map(|field| field.name.as_str()).filter(|name| !content.contains_key(name));
    let unknown = values.keys().map(|name| (name.to_owned(), similar(name, missing()).map(str::to_owned)));
    let unknown: Unknown = unknown.collect();
    form.check(&content).map_err(|problem| {
        match unknown.iter().find_map(|(name, similar)| similar.as_ref().map(|similar| (name, similar))) {
            Some((name, similar)) => {
                format!("{problem}; did you mean {} instead of {}?", short(name), short(similar))
            }
            None => problem,
        }
    })?;
    Ok((ElicitResult::new(ElicitAction::Accept).with_content(content), unknown))
}

#[cfg(test)]
mod tests {
    use mcpjoin::proto::Raw;
    use mcpjoin::proto::types::ElicitParams;

    use super::Answers;

    const FORM: &str = r#"{"message":"?","requestedSchema":{"type":"object","properties":{
        "name":{"type":"string","minLength":2},"age":{"type":"integer","default":30,"maximum":99},
        "mail":{"type":"string","format":"email"}},"required":["name"]}}"#;
    const PAGE: &str = r#"{"mode":"url","message":"?","url":"https://example.com/","elicitationId":"1"}"#;

    fn question(json: &str) -> ElicitParams {
        Raw::parse(json.to_owned()).unwrap().decode().unwrap()
    }

    /// The results for the same question again and again, until there is no answer.
    fn answered(option: &str, asked: &str, times: usize) -> Vec<Result<String, String>> {
        let mut answers = Answers::read(option).unwrap();
        let next = std::iter::from_fn(|| answers.next()).take(times);
        let result = |answer: super::Answer| {
            answer.to(question(asked)).map(|(result, _)| Raw::from_value(&result).unwrap().to_string())
        };
        next.map(result).collect()
    }

    #[test]
    fn answers_fill_in_the_form_with_its_defaults() {
        for (option, results) in [
            (r#"{"name":"Ada"}"#, &[r#"{"action":"accept","content":{"name":"Ada","age":30}}"#; 2][..]),
            (
                r#"[{"name":"Ada","age":36,"other":1},"decline","cancel"]"#,
                &[
                    r#"{"action":"accept","content":{"name":"Ada","age":36}}"#,
                    r#"{"action":"decline"}"#,
                    r#"{"action":"cancel"}"#,
                ],
            ),
            (r#"[{"action":"decline"}]"#, &[r#"{"action":"decline"}"#]),
            (
                r#"[{"action":"accept","content":{"name":"Bo"}}]"#,
                &[r#"{"action":"accept","content":{"name":"Bo","age":30}}"#],
            ),
        ] {
            let results: Vec<_> = results.iter().map(|result| Ok((*result).to_owned())).collect();
            assert_eq!(answered(option, FORM, results.len().max(2)), results, "{option}");
        }
        assert_eq!(answered("decline", FORM, 1), [Ok(r#"{"action":"decline"}"#.to_owned())]);
        assert_eq!(answered(r#"["accept"]"#, PAGE, 2), [Ok(r#"{"action":"accept"}"#.to_owned())]);
    }

    #[test]
    fn an_answer_that_does_not_fit_says_why() {
        for (option, asked, why) in [
            ("{}", FORM, "name: missing, violates required"),
            (
                r#"{"nmae":"Ada"}"#,
                FORM,
                "name: missing, violates required; did you mean nmae instead of name?",
            ),
            (r#"["accept"]"#, FORM, "name: missing, violates required"),
            (r#"{"name":"A"}"#, FORM, r#"name: "A" violates minLength: 2"#),
            (r#"{"name":"Ada","age":100}"#, FORM, "age: 100 violates maximum: 99"),
            (r#"{"name":"Ada","mail":"x"}"#, FORM, "mail: x is not an email address, as ada@example.com"),
            (
                r#"{"name":"Ada"}"#,
                PAGE,
                r#"the server asks to open a web page: answer "accept" or "decline""#,
            ),
        ] {
            assert_eq!(answered(option, asked, 1), [Err(why.to_owned())], "{option}");
        }
        for option in ["[1]", r#"["no"]"#, "{", "/nowhere/answers.json", r#"[{"a":1,"a":2}]"#] {
            assert!(Answers::read(option).is_err(), "{option}");
        }
    }

    #[test]
    fn a_value_that_the_form_does_not_have_is_named() {
        let mut answers = Answers::read(r#"{"name":"Ada","mial":"a@b","x":1}"#).unwrap();
        let (_, unknown) = answers.next().unwrap().to(question(FORM)).unwrap();
        assert_eq!(unknown, [("mial".to_owned(), Some("mail".to_owned())), ("x".to_owned(), None)]);
    }

    #[test]
    fn a_file_of_answers_is_bounded() {
        let zeros = crate::found::Zeros::new("answers", super::MAX_FILE_BYTES + 1);
        assert!(Answers::read(zeros.0.to_str().unwrap()).unwrap_err().contains("more than"));
    }
}
