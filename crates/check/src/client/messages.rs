//! What a client's message looks like.

use std::collections::BTreeMap;

use mcpjoin_proto::{DecodeError, DecodeErrorKind, Kind, Raw};

use super::talk::Talk;
use crate::base::{MESSAGES, REQUESTS};
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Seen, member, of_line};
use crate::trace::Line;

/// Of the modern era a client sends no response at all.
pub(super) const RESPONSES: &[Source] = &[
    Source::new(Revisions::FIRST, Must, "basic/messages#responses"),
    Source::new(Revisions::LEGACY_SINCE_SECOND, Must, "basic#responses"),
];
const NOTHING: &str = "the client sent no message";

pub(super) static RULES: [Rule; 9] = [
    Rule {
        slug: "client-jsonrpc-version",
        chapter: Chapter::Base,
        sentence: "Each message of the client has the member jsonrpc with the value \"2.0\".",
        sources: MESSAGES,
        judge: |seen| each(seen, |kind, _| *kind == DecodeErrorKind::JsonRpcVersion),
    },
    Rule {
        slug: "client-message-shape",
        chapter: Chapter::Base,
        sentence: "A message is a request, a notification or a response, with a method that is a string and parameters \
                   that are an object, or with an outcome.",
        sources: MESSAGES,
        judge: |seen| {
            each(seen, |kind, _| {
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
        slug: "client-unique-members",
        chapter: Chapter::Base,
        sentence: "No member stands twice in a JSON object of the client's.",
        sources: &[Source::new(Revisions::ALL, Should, "https://www.rfc-editor.org/rfc/rfc8259#section-4")],
        judge: |seen| each(seen, |kind, _| matches!(kind, DecodeErrorKind::DuplicateMember { .. })),
    },
    Rule {
        slug: "client-request-id",
        chapter: Chapter::Base,
        sentence: "The id of a client's request is a string or an integer, and never null.",
        sources: REQUESTS,
        judge: |seen| {
            each(seen, |kind, line| {
                matches!(kind, DecodeErrorKind::IdNull | DecodeErrorKind::IdType)
                    && line.is_some_and(|line| member(line, "method").is_some())
            })
        },
    },
    Rule {
        slug: "client-request-id-not-reused",
        chapter: Chapter::Base,
        sentence: "A client uses no id again: in one session of the legacy era, or while it waits for its answer in \
                   the modern one.",
        sources: REQUESTS,
        judge: |seen| {
            let talk = seen.talk();
            if talk.is_modern() && talk.is_http() {
                // Each request stands for itself: two clients that come at once are two senders.
                return Outcome::Skipped("over HTTP nobody knows which requests are of one sender");
            }
            let mut earlier = BTreeMap::new();
            let judged = talk.asked.iter().map(|asked| {
                let before = earlier.insert(&asked.what.id, asked)?;
                let open = before.answer.is_none_or(|said| said.place > asked.place);
                (!talk.is_modern() || open).then(|| {
                    let problem = format!(
                        "{} has the id {}, which {} had before it",
                        asked.what.method, asked.what.id, before.what.method
                    );
                    asked.finding(problem)
                })
            });
            Outcome::of(judged, "the client sent no request")
        },
    },
    Rule {
        slug: "client-result-or-error",
        chapter: Chapter::Base,
        sentence: "A client's response has a result or an error, and not both.",
        sources: RESPONSES,
        judge: |seen| {
            let broken = |kind: &DecodeErrorKind, _: Option<&Raw>| {
                matches!(kind, DecodeErrorKind::ResultAndError | DecodeErrorKind::NoOutcome)
            };
            response(seen, broken)
        },
    },
    Rule {
        slug: "client-result-is-object",
        chapter: Chapter::Base,
        sentence: "A client's result is a JSON object.",
        sources: RESPONSES,
        judge: |seen| {
            let talk = seen.talk();
            let answers = talk.ours.iter().filter_map(|ours| Some((ours, ours.answer?)));
            let judged = answers.filter_map(|(ours, said)| {
                let result = said.outcome.as_ref().ok()?;
                let good = result.raw().kind() == Kind::Object;
                Some((!good).then(|| ours.finding("the result is no object", said.line)))
            });
            Outcome::of(judged, "the client gave no result")
        },
    },
    Rule {
        slug: "client-error-shape",
        chapter: Chapter::Base,
        sentence: "A client's error is an object with a code that is an integer and a message that is a string.",
        sources: RESPONSES,
        judge: |seen| response(seen, |kind, _| matches!(kind, DecodeErrorKind::Error { .. })),
    },
    Rule {
        slug: "client-notification-without-id",
        chapter: Chapter::Base,
        sentence: "A client's notification has no id.",
        sources: &[
            Source::new(Revisions::FIRST, Must, "basic/messages#notifications"),
            Source::new(Revisions::SINCE_SECOND, Must, "basic#notifications"),
        ],
        judge: |seen| {
            let talk = seen.talk();
            let good = talk.told.iter().map(|_| None);
            let with =
                talk.asked.iter().filter(|asked| asked.what.method.as_str().starts_with("notifications/"));
            let with = with.map(|asked| Some(asked.finding(format!("{} has an id", asked.what.method))));
            Outcome::of(good.chain(with), "the client sent no notification")
        },
    },
];

/// Everything that came held, but for what is no message for this reason.
fn each(seen: &Seen<'_>, broken: impl Fn(&DecodeErrorKind, Option<&Raw>) -> bool) -> Outcome {
    let talk = seen.talk();
    let good = talk.lines.iter().filter(|(_, line)| line.parts().all(|part| part.is_ok())).map(|_| None);
    Outcome::of(good.chain(faults(talk, &broken).map(Some)), NOTHING)
}

/// The same of its responses alone.
fn response(seen: &Seen<'_>, broken: impl Fn(&DecodeErrorKind, Option<&Raw>) -> bool) -> Outcome {
    let talk = seen.talk();
    let good = talk.ours.iter().filter(|ours| ours.answer.is_some()).map(|_| None);
    Outcome::of(good.chain(faults(talk, &broken).map(Some)), "the client answered nothing")
}

fn faults(
    talk: &Talk<'_>,
    broken: &impl Fn(&DecodeErrorKind, Option<&Raw>) -> bool,
) -> impl Iterator<Item = Finding> {
    let broken = move |(_, line, error): &&(usize, &Line, &DecodeError)| {
        broken(&error.kind, of_line(line.bytes()).as_ref())
    };
    talk.faults.iter().filter(broken).map(|(_, line, error)| talk.finding(error.kind.to_string(), line))
}
