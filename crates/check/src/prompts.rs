//! The chapter of prompts: what describes them, and what getting one brings.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/prompts>

use mcpjoin_proto::{Kind, Method, Raw};

use crate::base::refused;
use crate::features::{answered, are_unique, each, has_texts, is_kind, is_list};
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::seen::{elements, member, text};
use crate::trace::Probe;

const PROMPT: &[Source] = &[Source::new(Revisions::ALL, Must, "server/prompts#prompt")];
const MESSAGE: &[Source] = &[Source::new(Revisions::ALL, Must, "server/prompts#promptmessage")];
const ERRORS: &[Source] = &[Source::new(Revisions::ALL, Should, "server/prompts#error-handling")];
const NOTHING: &str = "no prompt was listed";
const NOT_GOT: &str = "no prompt was got: see --read-only-tools";

/// The rules, file by file.
pub(crate) static RULES: [&[Rule]; 1] = [&ALL];

static ALL: [Rule; 10] = [
    Rule {
        slug: "prompts-listed",
        chapter: Chapter::Prompts,
        sentence: "The result of prompts/list has an array of prompts.",
        sources: &[Source::new(Revisions::ALL, Must, "server/prompts#listing-prompts")],
        judge: |seen| is_list(seen, &Method::ListPrompts, "prompts/list brought no result"),
    },
    Rule {
        slug: "prompt-has-name",
        chapter: Chapter::Prompts,
        sentence: "Each prompt is an object with a name, which is a string.",
        sources: PROMPT,
        judge: |seen| has_texts(seen, &Method::ListPrompts, &["name"], NOTHING),
    },
    Rule {
        slug: "prompt-names-unique",
        chapter: Chapter::Prompts,
        sentence: "No two prompts of a server have the same name.",
        sources: &[Source::new(Revisions::ALL, Should, "server/prompts#prompt")],
        judge: |seen| are_unique(seen, &Method::ListPrompts, "name", "prompts/list brought no result"),
    },
    Rule {
        slug: "prompt-members",
        chapter: Chapter::Prompts,
        sentence: "What describes a prompt has its type: title and description are strings, arguments an array.",
        sources: PROMPT,
        judge: |seen| {
            each(seen, &Method::ListPrompts, NOTHING, |prompt| {
                let title = Revisions::SINCE_THIRD.contains(&seen.run.version);
                let title = || is_kind(prompt, "title", Kind::String).filter(|_| title);
                let arguments = || is_kind(prompt, "arguments", Kind::Array);
                is_kind(prompt, "description", Kind::String).or_else(title).or_else(arguments)
            })
        },
    },
    Rule {
        slug: "prompt-arguments",
        chapter: Chapter::Prompts,
        sentence: "Each argument of a prompt is an object with a name; required, if it is there, is true or false.",
        sources: PROMPT,
        judge: |seen| {
            each(seen, &Method::ListPrompts, NOTHING, |prompt| {
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
        },
    },
    Rule {
        slug: "unknown-prompt-code",
        chapter: Chapter::Prompts,
        sentence: "Getting a prompt that does not exist brings the error -32602.",
        sources: ERRORS,
        judge: |seen| refused(seen, Probe::NoPrompt, "no prompt was asked for that does not exist"),
    },
    Rule {
        slug: "missing-prompt-argument-code",
        chapter: Chapter::Prompts,
        sentence: "Getting a prompt without an argument that it must have brings the error -32602.",
        sources: ERRORS,
        judge: |seen| {
            refused(
                seen,
                Probe::MissingArgument,
                "no prompt was asked for without an argument: see --read-only-tools",
            )
        },
    },
    Rule {
        slug: "prompt-has-messages",
        chapter: Chapter::Prompts,
        sentence: "The result of prompts/get has messages, an array of objects.",
        sources: &[Source::new(Revisions::ALL, Must, "server/prompts#getting-a-prompt")],
        judge: |seen| {
            let judged = answered(seen, &Method::GetPrompt).map(|page| {
                let messages = member(page.result, "messages").and_then(|messages| elements(&messages));
                let good = messages.is_some_and(|items| items.iter().all(|item| item.kind() == Kind::Object));
                (!good).then(|| page.asked.finding("messages is no array of objects", page.answer.line))
            });
            Outcome::of(judged, NOT_GOT)
        },
    },
    Rule {
        slug: "message-role",
        chapter: Chapter::Prompts,
        sentence: "Each message of a prompt has a role: user or assistant.",
        sources: MESSAGE,
        judge: |seen| {
            each_message(seen, |message| {
                let role = text(message, "role");
                let good = role.is_some_and(|role| role == "user" || role == "assistant");
                (!good).then(|| "the role of a message is missing or another word".into())
            })
        },
    },
    Rule {
        slug: "message-content",
        chapter: Chapter::Prompts,
        sentence: "Each message of a prompt has content: one block, which is an object.",
        sources: MESSAGE,
        judge: |seen| {
            each_message(seen, |message| {
                let good = member(message, "content").is_some_and(|content| content.kind() == Kind::Object);
                (!good).then(|| "the content of a message is missing or no object".into())
            })
        },
    },
];

/// Looks at every message of a prompt that is an object.
fn each_message(seen: &crate::seen::Seen<'_>, look: impl Fn(&Raw) -> Option<String>) -> Outcome {
    let judged = answered(seen, &Method::GetPrompt).flat_map(|page| {
        let messages = member(page.result, "messages").and_then(|messages| elements(&messages));
        let objects =
            messages.unwrap_or_default().into_iter().filter(|message| message.kind() == Kind::Object);
        let problems: Vec<Option<_>> = objects
            .map(|message| look(&message).map(|problem| page.asked.finding(problem, page.answer.line)))
            .collect();
        problems
    });
    Outcome::of(judged, NOT_GOT)
}
