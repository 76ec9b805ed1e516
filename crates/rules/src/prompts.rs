//! The chapter of prompts: their list, and the results of `prompts/get`.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/prompts>

use mcpjoin_proto::{Kind, Method, Raw};

use crate::base::refused;
use crate::features::{answered, are_unique, each, has_texts, is_kind, is_list};
use crate::json::{has_kind, list, text};
use crate::revisions::Revisions;
use crate::rule::{Evidence, Outcome, Source};
use crate::server_view::ServerView;
use crate::trace::Probe;

const PROMPT: &[Source] = sources![ALL Must "server/prompts#prompt"];
const MESSAGE: &[Source] = sources![ALL Must "server/prompts#promptmessage"];
const ERRORS: &[Source] = sources![ALL Should "server/prompts#error-handling"];
const NOTHING: &str = "no prompt was listed";
const NO_RESULT: &str = "prompts/list returned no result";
const NOT_GOT: &str = "no prompt was requested (see --read-only-tools)";

rules! {
    pub(crate) RULES for Server in Chapter::Prompts;

    "prompts-listed", [ALL Must "server/prompts#listing-prompts"],
        "The result of prompts/list has an array `prompts`.",
        |view| is_list(view, &Method::ListPrompts, NO_RESULT);
    "prompt-has-name", PROMPT,
        "Each prompt is an object with a string `name`.",
        |view| has_texts(view, &Method::ListPrompts, &["name"], NOTHING);
    "prompt-names-unique", [ALL Should "server/prompts#prompt"],
        "No two prompts of a server have the same name.",
        |view| are_unique(view, &Method::ListPrompts, "name", NO_RESULT);
    "prompt-members", PROMPT,
        "The members of a prompt have their types: title and description are strings, arguments is an array.",
        |view| each(view, &Method::ListPrompts, NOTHING, |prompt| {
            let has_title = Revisions::SINCE_THIRD.contains(&view.run.version);
            let title = || is_kind(prompt, "title", Kind::String).filter(|_| has_title);
            let arguments = || is_kind(prompt, "arguments", Kind::Array);
            is_kind(prompt, "description", Kind::String).or_else(title).or_else(arguments)
        });
    "prompt-arguments", PROMPT,
        "Each argument of a prompt is an object with a name; `required` is true or false.",
        |view| each(view, &Method::ListPrompts, NOTHING, |prompt| {
            list(prompt, "arguments")?.iter().find_map(|argument| {
                let Some(name) = text(argument, "name") else {
                    return Some("an argument is not an object with a name".into());
                };
                let found = is_kind(argument, "required", Kind::Bool)
                    .or_else(|| is_kind(argument, "description", Kind::String))?;
                Some(format!("of the argument {name:?}, {found}"))
            })
        });
    "unknown-prompt-code", ERRORS,
        "A request for an unknown prompt returns the error -32602.",
        |view| refused(view, Probe::NoPrompt, "no unknown prompt was requested");
    "missing-prompt-argument-code", ERRORS,
        "A request for a prompt without a required argument returns the error -32602.",
        |view| {
            let nothing = "no prompt was requested without an argument (see --read-only-tools)";
            refused(view, Probe::MissingArgument, nothing)
        };
    "prompt-has-messages", [ALL Must "server/prompts#getting-a-prompt"],
        "The result of prompts/get has `messages`, an array of objects.",
        else NOT_GOT,
        |view| answered(view, &Method::GetPrompt).map(|(reply, result)| {
            let messages = list(result, "messages");
            let is_good = messages.is_some_and(|items| items.iter().all(|item| item.kind() == Kind::Object));
            reply.finding_if(!is_good, "messages is not an array of objects")
        });
    "message-role", MESSAGE,
        "Each message of a prompt has the role user or assistant.",
        |view| each_message(view, |message| {
            let is_good = matches!(text(message, "role").as_deref(), Some("user" | "assistant"));
            (!is_good).then_some("the role of a message is missing or has another value")
        });
    "message-content", MESSAGE,
        "Each message of a prompt has content: one block, which is an object.",
        |view| each_message(view, |message| {
            let is_good = has_kind(message, "content", Kind::Object);
            (!is_good).then_some("the content of a message is missing or not an object")
        });
}

/// Checks every message of a prompt that is an object: `check` returns the problem of one.
fn each_message(view: &ServerView<'_>, check: impl Fn(&Raw) -> Option<&'static str>) -> Outcome {
    let check = &check;
    let findings = answered(view, &Method::GetPrompt).flat_map(|(reply, result)| {
        let messages = list(result, "messages").unwrap_or_default().into_iter();
        let objects = messages.filter(|message| message.kind() == Kind::Object);
        objects.map(move |message| check(&message).map(|problem| reply.finding(problem)))
    });
    Outcome::of(findings, NOT_GOT)
}
