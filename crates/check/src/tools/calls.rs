//! What calling a tool brings: judged where calls were allowed.

use std::collections::BTreeMap;

use mcpjoin_proto::{Kind, Method, Raw, Walk, code};

use crate::features::{Page, answered, is_kind, tool_of};
use crate::json::{Json, MOST_COMPARED};
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::schema::{Fit, conforms};
use crate::seen::{Seen, elements, member, text};
use crate::trace::Probe;

const RESULT: &[Source] = &[Source::new(Revisions::ALL, Must, "server/tools#tool-result")];
const OUTPUT: &[Source] = &[Source::new(Revisions::SINCE_THIRD, Must, "server/tools#output-schema")];
const NOT_CALLED: &str = "no tool was called: see --call and --read-only-tools";

pub(super) static RULES: [Rule; 7] = [
    Rule {
        slug: "call-has-content",
        chapter: Chapter::Tools,
        sentence: "The result of a call has content, an array; it may be empty.",
        sources: RESULT,
        judge: |seen| {
            called(seen, |page| {
                let good =
                    member(page.result, "content").is_some_and(|content| content.kind() == Kind::Array);
                (!good).then(|| "content is missing or no array".into())
            })
        },
    },
    Rule {
        slug: "call-members",
        chapter: Chapter::Tools,
        sentence: "In the result of a call isError is true or false, and structuredContent, up to 2025-11-25, an object.",
        sources: RESULT,
        judge: |seen| {
            called(seen, |page| {
                let structured = Revisions::LEGACY_SINCE_THIRD.contains(&seen.run.version);
                let structured =
                    || is_kind(page.result, "structuredContent", Kind::Object).filter(|_| structured);
                is_kind(page.result, "isError", Kind::Bool).or_else(structured)
            })
        },
    },
    Rule {
        slug: "structured-content-conforms",
        chapter: Chapter::Tools,
        sentence: "A tool with an outputSchema gives structuredContent that conforms to it, unless the result is an error.",
        sources: OUTPUT,
        judge: |seen| {
            with_schema(seen, |page, schema| {
                let Some(value) = member(page.result, "structuredContent") else {
                    return Some("structuredContent is missing".into());
                };
                // Up to 2025-11-25 anything but an object has a rule of its own.
                if Revisions::LEGACY.contains(&seen.run.version) && value.kind() != Kind::Object {
                    return None;
                }
                match conforms(&Json::of(schema)?, &Json::of(&value)?) {
                    Fit::No(why) => Some(format!("structuredContent does not conform: {why}")),
                    Fit::Yes | Fit::Unknown => None,
                }
            })
        },
    },
    Rule {
        slug: "structured-content-as-text",
        chapter: Chapter::Tools,
        sentence: "A result with structuredContent has the same as JSON in a block of text, for older clients.",
        sources: &[Source::new(Revisions::SINCE_THIRD, Should, "server/tools#structured-content")],
        judge: |seen| {
            let structured = answered(seen, &Method::CallTool)
                .filter_map(|page| Some((member(page.result, "structuredContent")?, page)));
            let judged = structured.filter_map(|(value, page)| {
                let value = Json::of(&value)?;
                let content = elements(&member(page.result, "content")?)?;
                let mut walk = Walk::new(MOST_COMPARED);
                // Where that cannot be told, the server has the benefit of the doubt.
                let mut may_be_same = |block: &Raw| {
                    let json = text(block, "text").and_then(|text| Raw::parse(text).ok());
                    let json = json.and_then(|json| Json::of(&json));
                    json.is_some_and(|json| json.equals(&value, &mut walk) != Some(false))
                };
                let missing = !content.iter().any(&mut may_be_same);
                Some(missing.then(|| page.asked.finding("no block of text has it", page.answer.line)))
            });
            Outcome::of(judged, "no call brought structuredContent")
        },
    },
    Rule {
        slug: "bad-arguments-refused",
        chapter: Chapter::Tools,
        sentence: "A call without an argument that its tool must have brings an error, or a result that is one.",
        sources: &[Source::new(Revisions::ALL, Must, "server/tools#security-considerations")],
        judge: |seen| {
            let judged = seen.probed(Probe::BadArguments).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                let accepted = outcome.as_ref().is_ok_and(|result| {
                    let done = text(result.raw(), "resultType").is_none_or(|kind| kind == "complete");
                    done && member(result.raw(), "isError").is_none_or(|flag| flag.as_str() != "true")
                });
                Some(accepted.then(|| asked.finding("the call was made without it", answer.line)))
            });
            Outcome::of(judged, "no tool was called without what it must have: see --read-only-tools")
        },
    },
    Rule {
        slug: "unknown-tool-refused",
        chapter: Chapter::Tools,
        sentence: "Calling a tool that does not exist is an error of the protocol, and no result of a tool.",
        sources: &[Source::new(Revisions::ALL, Should, "server/tools#error-handling")],
        judge: |seen| {
            let judged = seen.probed(Probe::UnknownTool).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                Some(
                    outcome
                        .is_ok()
                        .then(|| asked.finding("a tool that does not exist brought a result", answer.line)),
                )
            });
            Outcome::of(judged, NOT_CALLED)
        },
    },
    Rule {
        slug: "unknown-tool-code",
        chapter: Chapter::Tools,
        sentence: "The error for a tool that does not exist has the code -32602.",
        sources: &[
            Source::new(Revisions::LEGACY, Advice, "server/tools#error-handling"),
            Source::new(Revisions::MODERN, Should, "schema#invalidparamserror"),
        ],
        judge: |seen| {
            crate::base::code_of(
                seen,
                Probe::UnknownTool,
                code::INVALID_PARAMS,
                "no unknown tool was refused",
            )
        },
    },
];

/// Looks at every result of a call.
fn called(seen: &Seen<'_>, look: impl Fn(&Page<'_, '_>) -> Option<String>) -> Outcome {
    let judged = answered(seen, &Method::CallTool).map(|page| found(&page, look(&page)));
    Outcome::of(judged, NOT_CALLED)
}

/// Looks at every result of a tool with an `outputSchema` that is no error.
fn with_schema(seen: &Seen<'_>, look: impl Fn(&Page<'_, '_>, &Raw) -> Option<String>) -> Outcome {
    // Looked for once: one call may have many answers.
    let mut schemas = BTreeMap::new();
    let judged = answered(seen, &Method::CallTool).filter_map(|page| {
        let failed = member(page.result, "isError").is_some_and(|flag| flag.as_str() == "true");
        let schema = schemas
            .entry(page.asked.place)
            .or_insert_with(|| member(&tool_of(seen, page.asked)?, "outputSchema"));
        let schema = schema.as_ref().filter(|_| !failed)?;
        Some(found(&page, look(&page, schema)))
    });
    Outcome::of(judged, "no tool was called that has an outputSchema")
}

fn found(page: &Page<'_, '_>, problem: Option<String>) -> Option<Finding> {
    problem.map(|problem| page.asked.finding(problem, page.answer.line))
}
