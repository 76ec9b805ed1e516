//! Which answer belongs to which question, and that there is one.

use std::collections::BTreeMap;

use mcpjoin_proto::DecodeErrorKind;

use super::{REQUESTS, RESPONSES};
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Asked, Came, Meaning, Seen};
use crate::trace::{Channel, Probe};

const RESPONSE: &str = "https://www.jsonrpc.org/specification#response_object";

/// Probes whose silence is judged by a rule of its own.
const OWN_RULE: [Probe; 10] = [
    Probe::AfterDecline,
    Probe::AfterCompletedCancel,
    Probe::AfterMalformedCancel,
    Probe::CancelledCall,
    Probe::AfterCancel,
    Probe::AfterBadLine,
    Probe::TwoAtOnce,
    Probe::InPieces,
    Probe::Batch,
    Probe::EarlyPing,
];

pub(super) static RULES: [Rule; 8] = [
    Rule {
        slug: "request-answered",
        chapter: Chapter::Base,
        sentence: "Each request is answered.",
        sources: &[Source::new(Revisions::ALL, Must, RESPONSE)],
        judge: |seen| {
            let judged = seen
                .asked
                .iter()
                .filter(|asked| {
                    let own = OWN_RULE.contains(&asked.probe)
                        || asked.probe.is_about_http() && !seen.is_last(asked);
                    asked.method.is_some() && !own
                })
                // What the transport has swallowed is no fault of the answer.
                .filter(|asked| !asked.answers.is_empty() || !seen.may_be_answered(asked))
                // A tool may take longer than we have waited.
                .filter(|asked| {
                    !asked.answers.is_empty() || !asked.probe.may_take_long() || seen.ended_early()
                });
            Outcome::of(
                judged.map(|asked| asked.answers.is_empty().then(|| silence(seen, asked))),
                "no request was sent",
            )
        },
    },
    Rule {
        slug: "answered-once",
        chapter: Chapter::Base,
        sentence: "A request is answered once.",
        sources: &[Source::new(Revisions::ALL, Must, RESPONSE)],
        judge: |seen| {
            let answered =
                seen.asked.iter().filter(|asked| asked.method.is_some() && !asked.answers.is_empty());
            let judged = answered.map(|asked| {
                let second = asked.answers.get(1)?;
                let problem = format!("{} was answered {} times", asked.name(), asked.answers.len());
                Some(asked.finding(problem, second.line))
            });
            Outcome::of(judged, "no request was answered")
        },
    },
    Rule {
        slug: "id-given-back",
        chapter: Chapter::Base,
        sentence: "A response has the id of its request, unchanged: 1 and \"1\" are two ids.",
        sources: RESPONSES,
        judge: |seen| {
            let good = seen.asked.iter().filter(|asked| !asked.answers.is_empty()).map(|_| None);
            let changed = seen.strays.iter().filter_map(|stray| match seen.meaning(stray) {
                Meaning::Answers(asked) => {
                    let given = stray.id.as_ref().map_or_else(|| "no id".into(), ToString::to_string);
                    let id = asked.id.map(ToString::to_string).unwrap_or_default();
                    let problem = format!("the request has the id {id}, its answer {given}");
                    Some(Some(asked.finding(problem, stray.line)))
                }
                _ => None,
            });
            Outcome::of(good.chain(changed), "no request was answered")
        },
    },
    Rule {
        slug: "response-to-a-request",
        chapter: Chapter::Base,
        sentence: "A response belongs to a request.",
        sources: RESPONSES,
        judge: |seen| {
            let good = seen.asked.iter().filter(|asked| !asked.answers.is_empty()).map(|_| None);
            let others = seen.strays.iter().filter_map(|stray| match seen.meaning(stray) {
                Meaning::Nothing => {
                    let id = stray.id.as_ref().map_or_else(|| "no id".into(), |id| format!("the id {id}"));
                    let problem = format!("this response has {id}, and no request had");
                    Some(Some(Finding::new(problem, None, Some(stray.line.bytes()))))
                }
                _ => None,
            });
            Outcome::of(good.chain(others), "no response was seen")
        },
    },
    Rule {
        slug: "notification-not-answered",
        chapter: Chapter::Base,
        sentence: "A notification is not answered.",
        sources: &[
            Source::new(Revisions::FIRST, Must, "https://www.jsonrpc.org/specification#notification"),
            Source::new(Revisions::SINCE_SECOND, Must, "basic#notifications"),
        ],
        judge: |seen| {
            if seen.run.channel == Channel::StreamableHttp {
                return Outcome::Skipped(
                    "over HTTP it has a response, of which notification-accepted judges",
                );
            }
            let told = seen.told.iter().map(|_| None);
            let answered = seen.strays.iter().filter_map(|stray| match seen.meaning(stray) {
                Meaning::Notified(told) => Some(Some(Finding::new(
                    "a notification was answered",
                    Some(told.line.bytes()),
                    Some(stray.line.bytes()),
                ))),
                _ => None,
            });
            Outcome::of(told.chain(answered), "no notification was sent")
        },
    },
    Rule {
        slug: "answer-in-time",
        chapter: Chapter::Base,
        sentence: "A request is answered in a time that its sender can wait for.",
        sources: &[
            Source::new(Revisions::FIRST, Advice, "basic/lifecycle#error-handling"),
            Source::new(Revisions::LEGACY_SINCE_SECOND, Advice, "basic/lifecycle#timeouts"),
            Source::new(Revisions::MODERN, Advice, "basic/patterns/cancellation#timeouts"),
        ],
        judge: |seen| {
            let bound = seen.trace.answer_within;
            // How long the first answer takes says how long the program takes to start.
            let answered =
                seen.asked.iter().skip(1).filter_map(|asked| Some((asked, asked.answers.first()?)));
            let answered = answered.filter(|(asked, _)| !asked.probe.may_take_long());
            let judged = answered.map(|(asked, answer)| {
                let took = answer.at.saturating_sub(asked.at);
                (took > bound).then(|| {
                    let problem = format!(
                        "the answer to {} took {:.1} s, more than {:.1} s",
                        asked.name(),
                        took.as_secs_f64(),
                        bound.as_secs_f64()
                    );
                    asked.finding(problem, answer.line)
                })
            });
            Outcome::of(judged, "no second request was answered")
        },
    },
    Rule {
        slug: "request-id-not-reused",
        chapter: Chapter::Base,
        sentence: "The id of a request has not been used before by its sender in the same session.",
        sources: REQUESTS,
        judge: |seen| {
            let mut first = BTreeMap::new();
            let judged = seen.requests.iter().map(|request| {
                let earlier = first.insert(&request.what.id, request)?;
                // What is sent on every stream is judged as such.
                if is_sent_again(earlier, request) {
                    return None;
                }
                let earlier = earlier.line;
                let problem = format!("two requests of the server have the id {}", request.what.id);
                Some(Finding::new(problem, Some(earlier.bytes()), Some(request.line.bytes())))
            });
            Outcome::of(judged, "the server sent no request")
        },
    },
    Rule {
        slug: "unknown-cancel-ignored",
        chapter: Chapter::Base,
        sentence: "The cancellation of a request that is not known is passed over.",
        sources: &[
            Source::new(Revisions::LEGACY, Should, "basic/utilities/cancellation#error-handling"),
            Source::new(Revisions::MODERN, Should, "basic/patterns/cancellation#error-handling"),
        ],
        judge: |seen| goes_on(seen, Probe::AfterCancel, "no unknown request was cancelled"),
    },
];

/// Whether one message has come on two streams.
pub(crate) fn is_sent_again<T>(one: &Came<'_, T>, other: &Came<'_, T>) -> bool {
    one.exchange != other.exchange && one.line.bytes() == other.line.bytes()
}

/// Whether requests that follow something odd are answered all the same.
pub(crate) fn goes_on(seen: &Seen<'_>, probe: Probe, nothing: &'static str) -> Outcome {
    let judged = seen
        .probed(probe)
        .filter(|asked| !asked.answers.is_empty() || !seen.may_be_answered(asked))
        .map(|asked| asked.answers.is_empty().then(|| silence(seen, asked)));
    Outcome::of(judged, nothing)
}

/// That there is no answer.
pub(crate) fn silence(seen: &Seen<'_>, asked: &Asked<'_>) -> Finding {
    let too_large =
        seen.faults.iter().any(|fault| matches!(fault.what.kind, DecodeErrorKind::TooLarge { .. }));
    let exchange = seen.exchange_of(asked);
    let why = if seen.ended_early() {
        "the server ended".into()
    } else if too_large {
        "a line above the limit of a message came".into()
    } else if let Some(exchange) = exchange {
        exchange.silence()
    } else {
        "nothing came".into()
    };
    let problem = format!("{} was not answered: {why}", asked.name());
    match exchange {
        Some(exchange) => exchange.finding(problem),
        None => Finding::new(problem, Some(asked.line.bytes()), None),
    }
}
