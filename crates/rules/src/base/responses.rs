//! Each request gets one response, with its id.

use std::collections::BTreeMap;

use mcpjoin_proto::DecodeErrorKind;

use super::{REQUESTS, RESPONSES};
use crate::rule::{Finding, Outcome};
use crate::server_view::{OurRequest, Received, ServerView, StrayMeaning};
use crate::trace::{Channel, Probe};

const RESPONSE: &str = "https://www.jsonrpc.org/specification#response_object";

/// Probes whose silence is checked by a rule of its own.
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

rules! {
    pub(crate) RULES for Server in Chapter::Base;

    "request-answered", [ALL Must RESPONSE],
        "Each request is answered.",
        |view| {
            let findings = view
                .our_requests
                .iter()
                .filter(|request| {
                    let own = OWN_RULE.contains(&request.probe)
                        || request.probe.is_about_http() && !view.is_last(request);
                    request.method.is_some() && !own
                })
                // What the transport has swallowed is no fault of the answer.
                .filter(|request| !request.responses.is_empty() || !view.may_be_answered(request))
                // A tool may take longer than we have waited.
                .filter(|request| {
                    !request.responses.is_empty() || !request.probe.may_take_long() || view.ended_early()
                });
            Outcome::of(
                findings.map(|request| request.responses.is_empty().then(|| silence(view, request))),
                "no request was sent",
            )
        };
    "answered-once", [ALL Must RESPONSE],
        "A request is answered once.",
        |view| {
            let answered = view
                .our_requests
                .iter()
                .filter(|request| request.method.is_some() && !request.responses.is_empty());
            let findings = answered.map(|request| {
                let second = request.responses.get(1)?;
                let problem = format!("{} was answered {} times", request.name(), request.responses.len());
                Some(request.finding(problem, second.line))
            });
            Outcome::of(findings, "no request was answered")
        };
    "id-given-back", RESPONSES,
        "A response has the id of its request, unchanged: 1 and \"1\" are two ids.",
        |view| {
            let good = view.our_requests.iter().filter(|request| !request.responses.is_empty()).map(|_| None);
            let changed = view.stray_responses.iter().filter_map(|stray| match view.meaning(stray) {
                StrayMeaning::Answers(request) => {
                    let given = stray.id.as_ref().map_or_else(|| "no id".into(), ToString::to_string);
                    let id = request.id.map(ToString::to_string).unwrap_or_default();
                    let problem = format!("the request has the id {id}, its answer {given}");
                    Some(Some(request.finding(problem, stray.line)))
                }
                _ => None,
            });
            Outcome::of(good.chain(changed), "no request was answered")
        };
    "response-to-a-request", RESPONSES,
        "A response belongs to a request.",
        |view| {
            let good = view.our_requests.iter().filter(|request| !request.responses.is_empty()).map(|_| None);
            let others = view.stray_responses.iter().filter_map(|stray| match view.meaning(stray) {
                StrayMeaning::Nothing => {
                    let id = stray.id.as_ref().map_or_else(|| "no id".into(), |id| format!("the id {id}"));
                    let problem = format!("this response has {id}, and no request had");
                    Some(Some(Finding::new(problem, None, Some(stray.line.bytes()))))
                }
                _ => None,
            });
            Outcome::of(good.chain(others), "no response was seen")
        };
    "notification-not-answered", [
        FIRST Must "https://www.jsonrpc.org/specification#notification",
        SINCE_SECOND Must "basic#notifications",
    ],
        "A notification is not answered.",
        |view| {
            if view.run.channel == Channel::StreamableHttp {
                return Outcome::Skipped(
                    "over HTTP it has a response, of which notification-accepted judges",
                );
            }
            let notifications = view.our_notifications.iter().map(|_| None);
            let answered = view.stray_responses.iter().filter_map(|stray| match view.meaning(stray) {
                StrayMeaning::Notified(notification) => Some(Some(Finding::new(
                    "a notification was answered",
                    Some(notification.line.bytes()),
                    Some(stray.line.bytes()),
                ))),
                _ => None,
            });
            Outcome::of(notifications.chain(answered), "no notification was sent")
        };
    "answer-in-time", [
        FIRST Advice "basic/lifecycle#error-handling",
        LEGACY_SINCE_SECOND Advice "basic/lifecycle#timeouts",
        MODERN Advice "basic/patterns/cancellation#timeouts",
    ],
        "A request is answered in a time that its sender can wait for.",
        |view| {
            let bound = view.trace.answer_within;
            // How long the first answer takes says how long the program takes to start.
            let answered = view
                .our_requests
                .iter()
                .skip(1)
                .filter_map(|request| Some((request, request.responses.first()?)));
            let answered = answered.filter(|(request, _)| !request.probe.may_take_long());
            let findings = answered.map(|(request, response)| {
                let took = response.at.saturating_sub(request.at);
                (took > bound).then(|| {
                    let problem = format!(
                        "the answer to {} took {:.1} s, more than {:.1} s",
                        request.name(),
                        took.as_secs_f64(),
                        bound.as_secs_f64()
                    );
                    request.finding(problem, response.line)
                })
            });
            Outcome::of(findings, "no second request was answered")
        };
    "request-id-not-reused", REQUESTS,
        "The id of a request has not been used before by its sender in the same session.",
        |view| {
            let mut first = BTreeMap::new();
            let findings = view.requests.iter().map(|request| {
                let earlier = first.insert(&request.what.id, request)?;
                // What is sent on every stream is checked as such.
                if is_sent_again(earlier, request) {
                    return None;
                }
                let earlier = earlier.line;
                let problem = format!("two requests of the server have the id {}", request.what.id);
                Some(Finding::new(problem, Some(earlier.bytes()), Some(request.line.bytes())))
            });
            Outcome::of(findings, "the server sent no request")
        };
    "unknown-cancel-ignored", [
        LEGACY Should "basic/utilities/cancellation#error-handling",
        MODERN Should "basic/patterns/cancellation#error-handling",
    ],
        "The cancellation of a request that is not known is passed over.",
        |view| goes_on(view, Probe::AfterCancel, "no unknown request was cancelled");
}

/// Whether one message has come on two streams.
pub(crate) fn is_sent_again<T>(one: &Received<'_, T>, other: &Received<'_, T>) -> bool {
    one.exchange != other.exchange && one.line.bytes() == other.line.bytes()
}

/// Whether requests that follow something odd are answered all the same.
pub(crate) fn goes_on(view: &ServerView<'_>, probe: Probe, nothing: &'static str) -> Outcome {
    let findings = view
        .probed(probe)
        .filter(|request| !request.responses.is_empty() || !view.may_be_answered(request))
        .map(|request| request.responses.is_empty().then(|| silence(view, request)));
    Outcome::of(findings, nothing)
}

/// That there is no answer.
pub(crate) fn silence(view: &ServerView<'_>, request: &OurRequest<'_>) -> Finding {
    let too_large =
        view.invalid.iter().any(|fault| matches!(fault.what.kind, DecodeErrorKind::TooLarge { .. }));
    let exchange = view.exchange_of(request);
    let why = if view.ended_early() {
        "the server ended".into()
    } else if too_large {
        "a line above the limit of a message came".into()
    } else if let Some(exchange) = exchange {
        exchange.silence()
    } else {
        "nothing came".into()
    };
    let problem = format!("{} was not answered: {why}", request.name());
    match exchange {
        Some(exchange) => exchange.finding(problem),
        None => Finding::new(problem, Some(request.line.bytes()), None),
    }
}
