//! `mcpjoin prompt`: gets one prompt with its arguments.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;

use mcpjoin::client::Client;
use mcpjoin::proto::{Kind, Raw};

use super::next_command::CommandLine;
use super::{lists, misuse, operands, printed, request, result_content, unicode};
use crate::args::Prompt;
use crate::arguments::Typed;
use crate::connect::{limits, with_server};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::object::Object;
use crate::progress::Waiting;
use crate::target::shown;
use crate::ui::Ui;
use crate::visible;

const VERB: &str = "prompt";

/// Gets the prompt. `argv`: the command line; `separated`: `--` stood between the operands and the server's command.
pub(crate) fn run(ui: &Ui, args: Prompt, argv: &[OsString], separated: bool) -> Result<Exit, Failure> {
    let words = args.words.clone();
    let invocation = operands(ui, VERB, &args.connect, args.words, separated)?;
    let limit = limits(&args.connect).message;
    let (name, arguments) = read(invocation.operands, args.args.as_deref(), limit)?;
    let connect = args.connect.answering(args.questions);
    let typed = CommandLine { argv, verb: VERB, words: &words, separated, target: &invocation.target };
    Ok(with_server(ui, &invocation.target, &connect, async |client, _| {
        let outcome = prompt(ui, client, name, arguments, args.force).await;
        outcome.map_err(|failure| typed.complete(failure))
    }))
}

/// Gets a prompt in a session.
pub(super) async fn in_session(ui: &Ui, client: &Client, args: Prompt) -> Result<Exit, Failure> {
    let limit = limits(&args.connect).message;
    let (name, arguments) = read(args.words.of_session(VERB)?, args.args.as_deref(), limit)?;
    prompt(ui, client, name, arguments, args.force).await
}

/// The name and the arguments. `limit`: the most bytes of a file.
fn read(
    operands: Vec<OsString>,
    object: Option<&str>,
    limit: usize,
) -> Result<(String, BTreeMap<String, String>), Failure> {
    let mut operands = operands.into_iter();
    let name = unicode(VERB, "the prompt's name", operands.next())?;
    let operands: Vec<_> = operands.collect();
    let arguments = Typed::read(object, &operands, limit).and_then(Typed::texts);
    Ok((name, arguments.map_err(|problem| misuse(VERB, problem))?))
}

async fn prompt(
    ui: &Ui,
    client: &Client,
    name: String,
    arguments: BTreeMap<String, String>,
    force: bool,
) -> Result<Exit, Failure> {
    // A prompt that is not listed, or cannot be, is requested all the same: the server decides.
    let listed = match Waiting::new(ui, "waiting").wait(lists::find(client, &lists::PROMPTS, &name)).await {
        Ok(Ok(listed)) => Some(listed),
        Ok(Err(absent)) => {
            request::note_absent(ui, "prompt", &name, absent);
            None
        }
        Err(failure) if failure.is_of_one_request() => None,
        Err(failure) => return Err(failure),
    };
    if let Some(listed) = &listed {
        let known = Argument::all_of(listed);
        let missing: Vec<&Argument> =
            known.iter().filter(|known| known.required && !arguments.contains_key(&known.name)).collect();
        if !missing.is_empty() && !force {
            return Err(missing_arguments(&name, &missing, !arguments.is_empty()));
        }
        for given in arguments.keys().filter(|given| !known.iter().any(|known| known.name == **given)) {
            ui.note(&format!("{} has no argument {}", shown(name.as_ref()), shown(given.as_ref())));
        }
    }
    request::enable_logs(ui, client, None).await;
    let arguments = Some(arguments).filter(|arguments| !arguments.is_empty());
    let result = request::result(ui, client.get_prompt(name, arguments), Phase::Prompt).await?;
    let messages = Object::of(&result).and_then(|result| result.items("messages"));
    let Some(messages) = messages else {
        return Err(Failure::bad_reply("the result has no array `messages`", Phase::Prompt));
    };
    Ok(printed(ui, &result, || page(&messages)).await)
}

/// An argument of a prompt.
struct Argument {
    name: String,
    description: Option<String>,
    required: bool,
}

impl Argument {
    fn all_of(prompt: &Object) -> Vec<Self> {
        let arguments = prompt.items("arguments").unwrap_or_default();
        let arguments = arguments.iter().filter_map(|argument| {
            let argument = Object::of(argument)?;
            Some(Self {
                name: argument.text("name")?,
                description: argument.text("description"),
                required: argument.value("required").is_some_and(|required| required.as_str() == "true"),
            })
        });
        arguments.collect()
    }
}

/// The failure for missing required arguments. `some`: other arguments were given.
fn missing_arguments(prompt: &str, missing: &[&Argument], some: bool) -> Failure {
    let described: Vec<String> = missing
        .iter()
        .map(|argument| match &argument.description {
            Some(description) => {
                format!("{} ({})", shown(argument.name.as_ref()), visible::first_line(description))
            }
            None => shown(argument.name.as_ref()),
        })
        .collect();
    let typed: Vec<String> =
        missing.iter().map(|argument| format!("{}=...", shown(argument.name.as_ref()))).collect();
    Failure::usage(
        format!(
            "{} {}needs {}",
            shown(prompt.as_ref()),
            if some { "also " } else { "" },
            described.join(", ")
        ),
        format!("add {}", typed.join(" ")),
    )
}

/// The messages for a person, each below its role.
fn page(messages: &[Raw]) -> String {
    let mut out = String::new();
    for message in messages {
        if !out.is_empty() {
            out.push('\n');
        }
        let Some(message) = Object::of(message) else {
            let _ = writeln!(out, "[message that is {}]", Object::refused(message));
            continue;
        };
        let role = message.text("role").unwrap_or_else(|| "(no role)".into());
        out.push_str(&visible::line(&role));
        out.push_str(":\n");
        // The specification has one content. Some servers send several.
        let contents = match message.value("content") {
            Some(content) if content.kind() == Kind::Array => message.items("content").unwrap_or_default(),
            Some(content) => vec![content.clone()],
            None => Vec::new(),
        };
        out.push_str(&result_content::page(&contents));
    }
    out
}

#[cfg(test)]
mod tests {
    use mcpjoin::proto::Raw;

    use super::page;

    #[test]
    fn each_message_stands_below_its_role() {
        let messages = r#"[{"role":"user","content":{"type":"text","text":"a\nb"}},
            {"role":"assis\u001btant","content":[{"type":"text","text":"c\n"},{"type":"image","data":"AAAA"}]},
            {"content":7},{},7]"#;
        let messages: Vec<Raw> = Raw::parse(messages).unwrap().decode().unwrap();
        let shown = "user:\na\nb\n\nassis\\u{1b}tant:\nc\n[image, 3 bytes]\n\n(no role):\n\
                     [content that is not an object]\n\n(no role):\n\n[message that is not an object]\n";
        assert_eq!(page(&messages), shown);
        assert_eq!(page(&[]), "");
    }
}
