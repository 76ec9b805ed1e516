//! The chapter of prompts: their list, and the results of `prompts/get`.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/prompts>

use mcpjoin_proto::{Kind, Method, Raw};

use crate::base::refused;
use crate::features::{answered, are_unique, each, has_texts, is_kind, is_list};
use crate::json::{elements, member, text};
use crate::revisions::Revisions;
use crate::rule::{Outcome, Source};
use crate::trace::Probe;

const PROMPT: &[Source] = sources![ALL Must "server/prompts#prompt"];
const MESSAGE: &[Source] = sources![ALL Must "server/prompts#promptmessage"];
const ERRORS: &[Source] = sources![ALL Should "server/prompts#error-handling"];
const NOTHING: &str = "no prompt was listed";
const NOT_GOT: &str = "no prompt was got: see --read-only-tools";

rules! {
    pub(crate) RULES for Server in Chapter::Prompts;

    "prompts-listed", [ALL Must "server/prompts#listing-prompts"],
        "The result of prompts/list has an array of prompts.",
        |view| is_list(view, &Method::ListPrompts, "prompts/list brought no result");
    "prompt-has-name", PROMPT,
        "Each prompt is an object with a name, which is a string.",
        |view| has_texts(view, &Method::ListPrompts, &["name"], NOTHING);
    "prompt-names-unique", [ALL Should "server/prompts#prompt"],
        "No two prompts of a server have the same name.",
        |view| are_unique(view, &Method::ListPrompts, "name", "prompts/list brought no result");
    "prompt-members", PROMPT,
        "What describes a prompt has its type: title and description are strings, arguments an array.",
        |view| {
            each(view, &Method::ListPrompts, NOTHING, |prompt| {
                let title = Revisions::SINCE_THIRD.contains(&view.run.version);
                let title = || is_kind(prompt, "title", Kind::String).filter(|_| title);
                let arguments = || is_kind(prompt, "arguments", Kind::Array);
                is_kind(prompt, "description", Kind::String).or_else(title).or_else(arguments)
            })
        };
    "prompt-arguments", PROMPT,
        "Each argument of a prompt is an object with a name; required, if it is there, is true or false.",
        |view| {
            each(view, &Method::ListPrompts, NOTHING, |prompt| {
                let arguments = elements(&member(prompt, "arguments")?)?;
                arguments.iter().find_map(|argument| {
                    let Some(name) = text(argument, "name") else {
                        return Some("an argument is no object with a name".into());
                    };
                    let found = is_kind(argument, "required", Kind::Bool)
                        .or_else(|| is_kind(argument, "description", Kind::String))?;
                    Some(format!("of the argument {name:?}, {found}"))
                })
            })
        };
    "unknown-prompt-code", ERRORS,
        "Getting a prompt that does not exist brings the error -32602.",
        |view| refused(view, Probe::NoPrompt, "no prompt was asked for that does not exist");
    "missing-prompt-argument-code", ERRORS,
        "Getting a prompt without an argument that it must have brings the error -32602.",
        |view| {
            refused(
                view,
                Probe::MissingArgument,
                "no prompt was asked for without an argument: see --read-only-tools",
            )
        };
    "prompt-has-messages", [ALL Must "server/prompts#getting-a-prompt"],
        "The result of prompts/get has messages, an array of objects.",
        |view| {
            let findings = answered(view, &Method::GetPrompt).map(|page| {
                let messages = member(page.result, "messages").and_then(|messages| elements(&messages));
                let good = messages.is_some_and(|items| items.iter().all(|item| item.kind() == Kind::Object));
                (!good).then(|| page.request.finding("messages is no array of objects", page.response.line))
            });
            Outcome::of(findings, NOT_GOT)
        };
    "message-role", MESSAGE,
        "Each message of a prompt has a role: user or assistant.",
        |view| {
            each_message(view, |message| {
                let role = text(message, "role");
                let good = role.is_some_and(|role| role == "user" || role == "assistant");
                (!good).then(|| "the role of a message is missing or another word".into())
            })
        };
    "message-content", MESSAGE,
        "Each message of a prompt has content: one block, which is an object.",
        |view| {
            each_message(view, |message| {
                let good = member(message, "content").is_some_and(|content| content.kind() == Kind::Object);
                (!good).then(|| "the content of a message is missing or no object".into())
            })
        };
}

/// Looks at every message of a prompt that is an object.
fn each_message(view: &crate::server_view::ServerView<'_>, look: impl Fn(&Raw) -> Option<String>) -> Outcome {
    let findings = answered(view, &Method::GetPrompt).flat_map(|page| {
        let messages = member(page.result, "messages").and_then(|messages| elements(&messages));
        let objects =
            messages.unwrap_or_default().into_iter().filter(|message| message.kind() == Kind::Object);
        let problems: Vec<Option<_>> = objects
            .map(|message| look(&message).map(|problem| page.request.finding(problem, page.response.line)))
            .collect();
        problems
    });
    Outcome::of(findings, NOT_GOT)
}
