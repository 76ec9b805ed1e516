//! Completion of arguments.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion>

use mcpjoin_proto::{Kind, code};

use crate::base::{refused, refused_with};
use crate::json::Json;
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::seen::{member, strings};
use crate::trace::Probe;

const ERRORS: &[Source] =
    &[Source::new(Revisions::SINCE_SECOND, Should, "server/utilities/completion#error-handling")];
/// So many values a response may have.
const MOST: usize = 100;

pub(super) static RULES: [Rule; 4] = [
    Rule {
        slug: "completion-values",
        chapter: Chapter::Utilities,
        sentence: "A completion has at most 100 values, which are strings; total is an integer, hasMore true or false.",
        sources: &[Source::new(Revisions::ALL, Must, "server/utilities/completion#completeresult")],
        judge: |seen| {
            let judged = seen.results().filter(|(asked, ..)| asked.probe == Probe::Complete).map(
                |(asked, answer, result)| {
                    let found = |problem: String| Some(asked.finding(problem, answer.line));
                    let Some(completion) = member(result.raw(), "completion") else {
                        return found("completion is missing".into());
                    };
                    match member(&completion, "values").and_then(|values| strings(&values)) {
                        None => return found("values is no array of strings".into()),
                        Some(values) if values.len() > MOST => {
                            return found(format!("there are {} values", values.len()));
                        }
                        Some(_) => {}
                    }
                    let total = member(&completion, "total");
                    if total.is_some_and(|total| !Json::of(&total).is_some_and(|total| total.is_integer())) {
                        return found("total is no integer".into());
                    }
                    let more = member(&completion, "hasMore").filter(|more| more.kind() != Kind::Bool)?;
                    found(format!("hasMore is {more}"))
                },
            );
            Outcome::of(
                judged,
                "no completion was asked for: none is declared, or nothing that has arguments",
            )
        },
    },
    Rule {
        slug: "completion-refused-as-undeclared",
        chapter: Chapter::Utilities,
        sentence: "A server that does not declare completions answers completion/complete with the error -32601.",
        sources: ERRORS,
        judge: |seen| {
            refused_with(
                seen,
                Probe::UndeclaredCompletion,
                code::METHOD_NOT_FOUND,
                "the server declares completions, or was not asked for one",
            )
        },
    },
    Rule {
        slug: "completion-unknown-prompt-code",
        chapter: Chapter::Utilities,
        sentence: "Completing an argument of a prompt that does not exist brings the error -32602.",
        sources: ERRORS,
        judge: |seen| refused(seen, Probe::UnknownCompletion, "no completion was asked for"),
    },
    Rule {
        slug: "completion-missing-argument-code",
        chapter: Chapter::Utilities,
        sentence: "Asking for a completion without saying of which argument brings the error -32602.",
        sources: ERRORS,
        judge: |seen| refused(seen, Probe::NoArgument, "no completion was asked for"),
    },
];
