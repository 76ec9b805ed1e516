//! `mcpjoin complete`: completes an argument of a prompt or of a resource template.

use std::collections::BTreeMap;
use std::ffi::OsString;

use mcpjoin::client::Client;
use mcpjoin::proto::types::{
    CompleteArgument, CompleteContext, CompleteParams, PromptReference, Reference, ResourceTemplateReference,
};
use mcpjoin::proto::{Method, Raw};

use super::next_command::CommandLine;
use super::{misuse, operands, printed, unicode};
use crate::args::Complete;
use crate::connect::with_server;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::object::Object;
use crate::progress::Waiting;
use crate::target::shown;
use crate::ui::Ui;
use crate::visible;

const VERB: &str = "complete";

/// Requests completions. `argv`: the command line; `separated`: `--` stood between the operands and the server's command.
pub(crate) fn run(ui: &Ui, args: Complete, argv: &[OsString], separated: bool) -> Result<Exit, Failure> {
    let words = args.words.clone();
    let invocation = operands(ui, VERB, &args.connect, args.words, separated)?;
    let params = params(invocation.operands, &args.context)?;
    let typed = CommandLine { argv, verb: VERB, words: &words, separated, target: &invocation.target };
    Ok(with_server(ui, &invocation.target, &args.connect, async |client, _| {
        complete(ui, client, &params).await.map_err(|failure| typed.complete(failure))
    }))
}

/// The request that the operands describe.
pub(super) fn params(operands: Vec<OsString>, context_words: &[String]) -> Result<CompleteParams, Failure> {
    let mut operands = operands.into_iter();
    let reference = reference(&unicode(VERB, "prompt:NAME or URI-TEMPLATE", operands.next())?)?;
    let argument = unicode(VERB, "the argument", operands.next())?;
    if let Some(word) = operands.next() {
        let problem = format!("complete takes one argument, and {} is an extra word", shown(&word));
        // A name and its value were probably typed as two words.
        let hint = match argument.contains('=') {
            true => "for other arguments use --context ARGUMENT=VALUE".to_owned(),
            false => format!("write {}", shown(format!("{argument}={}", word.display()).as_ref())),
        };
        return Err(Failure::usage(problem, hint));
    }
    let (name, value) = argument.split_once('=').unwrap_or((&argument, ""));
    if name.is_empty() {
        return Err(misuse(VERB, format!("{} has no name before the =", shown(argument.as_ref()))));
    }
    let mut params = CompleteParams::new(reference, CompleteArgument::new(name, value));
    if !context_words.is_empty() {
        params = params.with_context(context(context_words)?);
    }
    Ok(params)
}

/// The prompt or the template that has the argument.
fn reference(word: &str) -> Result<Reference, Failure> {
    if let Some(template) = word.strip_prefix("resource:") {
        return Ok(ResourceTemplateReference::new(template).into());
    }
    match word.split_once(':') {
        // `prompt://` is the beginning of a URI.
        Some(("prompt", name)) if !name.starts_with("//") => Ok(PromptReference::new(name).into()),
        Some(_) => Ok(ResourceTemplateReference::new(word).into()),
        None => Err(Failure::usage(
            format!("{} is neither prompt:NAME nor a URI template", shown(word.as_ref())),
            format!("prompt:{}", shown(word.as_ref())),
        )),
    }
}

/// The arguments that are known already.
fn context(words: &[String]) -> Result<CompleteContext, Failure> {
    let mut arguments = BTreeMap::new();
    for word in words {
        let Some((name, value)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(misuse(
                VERB,
                format!("--context takes ARGUMENT=VALUE, not {}", shown(word.as_ref())),
            ));
        };
        if arguments.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(misuse(VERB, format!("{} is given twice", shown(name.as_ref()))));
        }
    }
    Ok(CompleteContext::default().with_arguments(arguments))
}

/// Requests completions with a client.
pub(super) async fn complete(ui: &Ui, client: &Client, params: &CompleteParams) -> Result<Exit, Failure> {
    let params = Raw::from_value(params).map_err(|error| misuse(VERB, error.to_string()))?;
    let request = client.send_request(Method::Complete.as_str(), Some(params));
    let result = Waiting::new(ui, "waiting").wait(request).await;
    let result = result.map_err(|error| Failure::client(&error, Phase::Complete))?;
    let completion = Object::of(&result).and_then(|result| Object::of(result.value("completion")?));
    let Some((completion, values)) =
        completion.and_then(|completion| completion.items("values").map(|values| (completion, values)))
    else {
        return Err(Failure::bad_reply("the result has no array `completion.values`", Phase::Complete));
    };
    if !ui.json {
        let total = completion.value("total").map(|total| visible::line(total.as_str()).into_owned());
        let more = completion.value("hasMore").is_some_and(|more| more.as_str() == "true");
        match (total, more) {
            _ if values.is_empty() => ui.note("no proposals"),
            (Some(total), true) => ui.note(&format!("the first {} of {total}", values.len())),
            (None, true) => ui.note(&format!("the first {}; there are more", values.len())),
            _ => {}
        }
    }
    Ok(printed(ui, &result, || page(&values)).await)
}

/// One completion per line.
fn page(values: &[Raw]) -> String {
    let mut out = String::new();
    for value in values {
        let text = value.to_string_value();
        let text = text.as_deref().unwrap_or_else(|| value.as_str());
        // A completion of several lines would look like several completions.
        if text.contains(['\n', '\r']) {
            out.push_str(&visible::line(text));
        } else {
            out.push_str(text);
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use mcpjoin::proto::Raw;

    use super::{context, page, reference};

    #[test]
    fn a_prompt_and_a_template_are_distinguished() {
        for (word, json) in [
            ("prompt:a b", r#"{"type":"ref/prompt","name":"a b"}"#),
            ("prompt:resource:x", r#"{"type":"ref/prompt","name":"resource:x"}"#),
            ("prompt://{id}", r#"{"type":"ref/resource","uri":"prompt://{id}"}"#),
            ("test://{id}", r#"{"type":"ref/resource","uri":"test://{id}"}"#),
            ("mailto:{id}", r#"{"type":"ref/resource","uri":"mailto:{id}"}"#),
            ("resource:prompt:{id}", r#"{"type":"ref/resource","uri":"prompt:{id}"}"#),
            ("resource:{id}", r#"{"type":"ref/resource","uri":"{id}"}"#),
        ] {
            let raw = Raw::from_value(&reference(word).unwrap()).unwrap();
            let (given, wanted): (serde_json::Value, serde_json::Value) =
                (serde_json::from_str(raw.as_str()).unwrap(), serde_json::from_str(json).unwrap());
            assert_eq!(given, wanted, "{word}");
        }
        assert_eq!(reference("greeting").unwrap_err().hint, "prompt:greeting");
    }

    #[test]
    fn what_is_known_has_a_name_and_is_given_once() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert!(context(&words(&["a=1", "b=", "c=d=e"])).is_ok());
        for wrong in [&["a"][..], &["=1"], &["a=1", "a=2"]] {
            assert!(context(&words(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_proposal_takes_one_line() {
        let values: Vec<Raw> = Raw::parse(r#"["a","b\nc","é",7]"#).unwrap().decode().unwrap();
        assert_eq!(page(&values), "a\nb\\u{a}c\né\n7\n");
    }
}
