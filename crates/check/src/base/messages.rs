//! What a message looks like.

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{DecodeError, DecodeErrorKind, Kind, Raw};

use super::{ERRORS, MESSAGES, REQUESTS, RESPONSES, RESULTS};
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Seen, member, members, of_line};

pub(super) static RULES: [Rule; 11] = [
    Rule {
        slug: "jsonrpc-version",
        chapter: Chapter::Base,
        sentence: "Each message has the member jsonrpc with the value \"2.0\".",
        sources: MESSAGES,
        judge: |seen| by_kind(seen, |kind| *kind == DecodeErrorKind::JsonRpcVersion),
    },
    Rule {
        slug: "message-shape",
        chapter: Chapter::Base,
        sentence: "A message is a request, a notification or a response: a method that is a string and parameters that \
                   are an object, or the outcome of a request.",
        sources: MESSAGES,
        judge: |seen| {
            by_kind(seen, |kind| {
                matches!(
                    kind,
                    DecodeErrorKind::MethodMissing
                        | DecodeErrorKind::MethodType
                        | DecodeErrorKind::MethodAndOutcome
                        | DecodeErrorKind::ParamsType
                )
            })
        },
    },
    Rule {
        slug: "unique-members",
        chapter: Chapter::Base,
        sentence: "No member stands twice in a JSON object: what its reader takes it for is not defined.",
        sources: &[Source::new(Revisions::ALL, Should, "https://www.rfc-editor.org/rfc/rfc8259#section-4")],
        judge: |seen| by_kind(seen, |kind| matches!(kind, DecodeErrorKind::DuplicateMember { .. })),
    },
    Rule {
        slug: "result-or-error",
        chapter: Chapter::Base,
        sentence: "A response has a result or an error, and not both.",
        sources: RESPONSES,
        judge: |seen| {
            by_kind(seen, |kind| matches!(kind, DecodeErrorKind::ResultAndError | DecodeErrorKind::NoOutcome))
        },
    },
    Rule {
        slug: "result-has-id",
        chapter: Chapter::Base,
        sentence: "A result has the id of its request, which is never null.",
        sources: RESULTS,
        judge: |seen| {
            let broken = |kind: &DecodeErrorKind, line: Option<&Members<Raw>>| {
                matches!(kind, DecodeErrorKind::IdMissing | DecodeErrorKind::IdNull)
                    && line.is_none_or(|line| !line.contains_key("method"))
            };
            by_line(seen, broken)
        },
    },
    Rule {
        slug: "request-has-id",
        chapter: Chapter::Base,
        sentence: "The id of a request is not null.",
        sources: REQUESTS,
        judge: |seen| {
            let asked = seen.requests.iter().map(|_| None);
            let broken = seen.faults.iter().filter(|fault| fault.what.kind == DecodeErrorKind::IdNull);
            let broken = broken
                .filter(|fault| {
                    of_line(fault.line.bytes()).is_some_and(|line| member(&line, "method").is_some())
                })
                .map(|fault| Some(finding(fault.what, fault.line.bytes())));
            Outcome::of(asked.chain(broken), "the server sent no request")
        },
    },
    Rule {
        slug: "notification-without-id",
        chapter: Chapter::Base,
        sentence: "A notification has no id.",
        sources: &[
            Source::new(Revisions::FIRST, Must, "basic/messages#notifications"),
            Source::new(Revisions::SINCE_SECOND, Must, "basic#notifications"),
        ],
        judge: |seen| {
            let good = seen.notifications.iter().map(|_| None);
            let named = seen
                .requests
                .iter()
                .filter(|request| request.what.method.as_str().starts_with("notifications/"));
            let broken = named.map(|request| {
                let problem = format!("{} has the id {}", request.what.method, request.what.id);
                Some(Finding::new(problem, None, Some(request.line.bytes())))
            });
            Outcome::of(good.chain(broken), "the server sent no notification")
        },
    },
    Rule {
        slug: "id-type",
        chapter: Chapter::Base,
        sentence: "An id is a string or an integer.",
        sources: REQUESTS,
        judge: |seen| by_kind(seen, |kind| *kind == DecodeErrorKind::IdType),
    },
    Rule {
        slug: "result-is-object",
        chapter: Chapter::Base,
        sentence: "A result is a JSON object.",
        sources: RESULTS,
        judge: |seen| {
            let results = seen.results().map(|(asked, answer, result)| {
                (result.raw().kind() != Kind::Object)
                    .then(|| asked.finding("the result is no object", answer.line))
            });
            Outcome::of(results, "no result was seen")
        },
    },
    Rule {
        slug: "error-members",
        chapter: Chapter::Base,
        sentence: "An error is an object with a code, and a message that is a string.",
        sources: ERRORS,
        judge: |seen| {
            let good = seen.errors().map(|_| None);
            let broken = broken_errors(seen).filter_map(|(line, error)| {
                let problem = match members(&error) {
                    None => "the error is no object",
                    Some(error) if !error.contains_key("code") => "the error has no code",
                    Some(error) => match error.get("message").map(Raw::kind) {
                        None => "the error has no message",
                        Some(Kind::String) => return None,
                        Some(_) => "the error's message is no string",
                    },
                };
                Some(Some(Finding::new(problem, None, Some(line))))
            });
            Outcome::of(good.chain(broken), "no error was seen")
        },
    },
    Rule {
        slug: "error-code-integer",
        chapter: Chapter::Base,
        sentence: "The code of an error is an integer.",
        sources: ERRORS,
        judge: |seen| {
            let good = seen.errors().map(|_| None);
            let broken = broken_errors(seen).filter_map(|(line, error)| {
                let code = member(&error, "code")?;
                let integral = code.as_str().parse::<f64>().is_ok_and(|value| value.fract() == 0.0);
                let broken = code.kind() != Kind::Number || !integral;
                broken.then(|| Some(Finding::new(format!("the code is {code}"), None, Some(line))))
            });
            Outcome::of(good.chain(broken), "no error was seen")
        },
    },
];

/// The errors that the decoder refuses, with their lines.
fn broken_errors<'s>(seen: &'s Seen<'_>) -> impl Iterator<Item = (&'s bytes::Bytes, Raw)> {
    let faults = seen.faults.iter().filter(|fault| matches!(fault.what.kind, DecodeErrorKind::Error { .. }));
    faults.filter_map(|fault| {
        let line = of_line(fault.line.bytes())?;
        Some((fault.line.bytes(), member(&line, "error")?))
    })
}

fn finding(error: &DecodeError, line: &bytes::Bytes) -> Finding {
    Finding::new(error.kind.to_string(), None, Some(line))
}

/// Everything that came held, but for what is no message for this reason.
fn by_kind(seen: &Seen<'_>, broken: impl Fn(&DecodeErrorKind) -> bool) -> Outcome {
    by_line(seen, |kind, _| broken(kind))
}

fn by_line(seen: &Seen<'_>, broken: impl Fn(&DecodeErrorKind, Option<&Members<Raw>>) -> bool) -> Outcome {
    let messages = seen.lines.iter().flat_map(|(_, line)| line.parts().filter(Result::is_ok)).map(|_| None);
    let broken = seen
        .faults
        .iter()
        .filter(|fault| {
            let line = of_line(fault.line.bytes()).and_then(|line| members(&line));
            broken(&fault.what.kind, line.as_ref())
        })
        .map(|fault| Some(finding(fault.what, fault.line.bytes())));
    Outcome::of(messages.chain(broken), "the server sent no message")
}
