//! How a client responds to the requests and notifications of a server. Servers send requests in the legacy era alone.

use std::collections::BTreeMap;

use mcpjoin_proto::{Method, code};

use super::messages::RESPONSES;
use crate::client_view::{ClientView, OurRequest, RecordedResponse};
use crate::json::members;
use crate::rule::{Finding, Outcome, Source};
use crate::trace::{Line, Probe, What};

const PING: &[Source] = sources![LEGACY Must "basic/utilities/ping#behavior-requirements"];
const RESPONSE: &str = "https://www.jsonrpc.org/specification#response_object";
const CODES: &str = "https://www.jsonrpc.org/specification#error_object";

rules! {
    pub(crate) RULES for Client in Chapter::Base;

    "client-response-id", RESPONSES,
        "A client's response has the id of a request that it got, unchanged: 1 and \"1\" are two ids.",
        |view| {
            let unknown = unknown_notifications(view);
            let good =
                view.our_requests.iter().filter(|our_request| our_request.response.is_some()).map(|_| None);
            let stray_responses = view.stray_responses.iter().filter(|response| !is_known(view, response));
            let batches = Batches::of(view);
            let stray_responses = stray_responses.filter(|response| {
                notification(&unknown, response).is_none() && batches.refused_by(response).is_none()
            });
            let stray_responses = stray_responses.map(|response| {
                let id = response.id.map_or_else(|| "no id".into(), |id| format!("the id {id}"));
                Some(view.finding(format!("this response has {id}, and no request had"), response.line))
            });
            Outcome::of(good.chain(stray_responses), "the client answered nothing")
        };
    "client-answered-once", [LEGACY Must RESPONSE],
        "A client answers a request once.",
        |view| {
            let mut stray_responses = BTreeMap::new();
            for response in &view.stray_responses {
                stray_responses.entry(response.id).or_insert(response);
            }
            let findings = view.our_requests.iter().filter_map(|our_request| {
                let first = our_request.response?;
                let again = stray_responses.get(&first.id);
                Some(again.map(|response| {
                    our_request.finding(
                        format!("{} was answered a second time", our_request.what.method),
                        response.line,
                    )
                }))
            });
            Outcome::of(findings, "the client answered nothing")
        };
    "client-request-answered", [LEGACY Must RESPONSE],
        "A client answers each request.",
        |view| {
            // A ping has a rule of its own, and for what a person decides there is no time.
            let findings = view
                .our_requests
                .iter()
                .filter(|our_request| {
                    !matches!(our_request.what.method, Method::Ping | Method::CreateMessage | Method::Elicit)
                })
                .filter(|our_request| may_be_judged(view, our_request))
                .map(|our_request| silence(view, our_request));
            Outcome::of(findings, "nothing was asked of it, or it was gone too soon")
        };
    "client-ping-answered", PING,
        "A client answers a ping at once, with an empty result.",
        |view| {
            // Those that follow something else show what was made of that.
            let own = [Probe::AfterCancel, Probe::AfterElicitation, Probe::Batch];
            let pings =
                view.our_requests.iter().filter(|our_request| our_request.what.method == Method::Ping);
            let pings = pings.filter(|our_request| !own.contains(&our_request.probe));
            let findings = pings.filter(|our_request| may_be_judged(view, our_request)).map(|our_request| {
                let Some(response) = our_request.response else { return silence(view, our_request) };
                match response.outcome {
                    Err(error) => Some(
                        our_request
                            .finding(format!("it was answered with the error {}", error.code), response.line),
                    ),
                    Ok(result) => {
                        let empty = members(result.raw())
                            .is_none_or(|result| result.keys().all(|name| name == "_meta"));
                        (!empty).then(|| our_request.finding("its result is not empty", response.line))
                    }
                }
            });
            Outcome::of(findings, "the client was not pinged, or it was gone too soon")
        };
    "client-unknown-method-refused", [LEGACY Must RESPONSE],
        "A client answers a request with a method that does not exist with an error.",
        |view| {
            let findings = unknown(view).map(|(our_request, response)| {
                response.outcome.is_ok().then(|| {
                    our_request.finding("a method that no client has brought a result", response.line)
                })
            });
            Outcome::of(findings, "no unknown method was asked for, or it was not answered")
        };
    "client-unknown-method-code", [LEGACY Should CODES],
        "A client's error for a method that does not exist has the code -32601.",
        |view| {
            let refused = unknown(view).filter_map(|(our_request, response)| {
                let code = response.outcome.as_ref().err()?.code;
                Some((code != code::METHOD_NOT_FOUND).then(|| {
                    our_request
                        .finding(format!("the code is {code}, not {}", code::METHOD_NOT_FOUND), response.line)
                }))
            });
            Outcome::of(refused, "no unknown method was refused")
        };
    "client-notification-not-answered", [
        FIRST Must "https://www.jsonrpc.org/specification#notification",
        LEGACY_SINCE_SECOND Must "basic#notifications",
    ],
        "A client answers no notification.",
        |view| {
            let (unknown, batches) = (unknown_notifications(view), Batches::of(view));
            let good = unknown.iter().map(|_| None);
            let answered = view.stray_responses.iter().filter_map(|response| {
                if batches.refused_by(response).is_some() {
                    return None;
                }
                let notification = notification(&unknown, response)?;
                Some(Some(Finding::new(
                    "a notification was answered",
                    Some(notification.bytes()),
                    Some(response.line.bytes()),
                )))
            });
            Outcome::of(good.chain(answered), "the client was told nothing")
        };
    "client-receives-batches", [BATCHING Must "basic#batching"],
        "A client takes an array of requests, and answers each of them.",
        |view| {
            let request = view.our_requests.iter().filter(|our_request| our_request.probe == Probe::Batch);
            let batches = Batches::of(view);
            let refused = view.stray_responses.iter().find(|response| batches.refused_by(response).is_some());
            let findings =
                request.filter(|our_request| may_be_judged(view, our_request)).map(|our_request| {
                    if our_request.response.is_some() {
                        return None;
                    }
                    let refused =
                        refused.map(|response| our_request.finding("the array was refused", response.line));
                    refused.or_else(|| silence(view, our_request))
                });
            Outcome::of(findings, "the client got no array, or it was gone too soon")
        };
    "client-sends-no-response", [MODERN Must "basic/transports#messages"],
        "A client sends no response: what a server needs is brought by another request.",
        |view| {
            let good = view.requests.iter().map(|_| None);
            let answered = view.our_requests.iter().filter_map(|our_request| our_request.response);
            let response = answered.chain(view.stray_responses.iter().copied());
            let sent = response.map(|response| Some(view.finding("this is a response", response.line)));
            Outcome::of(good.chain(sent), "the client sent no request")
        };
}

fn is_known(view: &ClientView<'_>, response: &RecordedResponse<'_>) -> bool {
    response.id.is_some_and(|id| view.has_asked(id))
}

/// The notifications of ours that nobody knows, each by its place.
fn unknown_notifications<'a>(view: &ClientView<'a>) -> BTreeMap<usize, &'a Line> {
    let events = view.run.events.iter().enumerate();
    let unknown = events.filter_map(|(place, event)| match &event.what {
        What::Sent(
            Probe::UnknownNotification
            | Probe::CompletedCancel
            | Probe::MalformedCancel
            | Probe::UnknownElicitation,
            line,
        ) => Some((place, line)),
        _ => None,
    });
    unknown.collect()
}

/// The one of them that a response without an id may be for.
fn notification<'a>(
    unknown: &BTreeMap<usize, &'a Line>,
    response: &RecordedResponse<'_>,
) -> Option<&'a Line> {
    let before = unknown.range(..response.place).next_back().filter(|_| response.id.is_none());
    before.map(|(_, line)| *line)
}

/// What the client got, and where in it arrays are.
struct Batches(Vec<(usize, Probe)>);

impl Batches {
    fn of(view: &ClientView<'_>) -> Self {
        let events = view.run.events.iter().enumerate();
        let sent = events.filter_map(|(place, event)| match &event.what {
            What::Sent(probe, _) => Some((place, *probe)),
            _ => None,
        });
        Self(sent.collect())
    }

    /// The array that a response without an id may refuse: the last that the client got before it.
    fn refused_by(&self, response: &RecordedResponse<'_>) -> Option<usize> {
        let before = self.0.partition_point(|(place, _)| *place < response.place);
        let (place, probe) = self.0.get(before.checked_sub(1)?)?;
        (*probe == Probe::Batch && response.id.is_none()).then_some(*place)
    }
}

/// Whether there is something to say of a request of ours: it has an answer, or one was due and there was time for it.
fn may_be_judged(view: &ClientView<'_>, our_request: &OurRequest<'_>) -> bool {
    let waited = view.last_present;
    our_request.response.is_some()
        || our_request.cancelled.is_none()
            && waited.saturating_sub(our_request.at) >= view.trace.answer_within
}

fn silence(view: &ClientView<'_>, our_request: &OurRequest<'_>) -> Option<Finding> {
    // What is no message may have been the answer.
    let broken = || view.invalid.last().is_some_and(|(place, ..)| *place > our_request.place);
    let after = |response: &&RecordedResponse<'_>| response.place > our_request.place;
    let stray =
        || view.stray_responses.iter().rev().take_while(after).any(|response| !is_known(view, response));
    (our_request.response.is_none() && !broken() && !stray()).then(|| {
        let problem = format!("{} was not answered", our_request.what.method);
        Finding::new(problem, Some(our_request.line.bytes()), None)
    })
}

/// Our requests with a method that nobody has, each with its answer.
fn unknown<'t, 'a>(
    view: &'t ClientView<'a>,
) -> impl Iterator<Item = (&'t OurRequest<'a>, RecordedResponse<'a>)> {
    let request = view.our_requests.iter().filter(|our_request| our_request.probe == Probe::UnknownMethod);
    request.filter_map(|our_request| Some((our_request, our_request.response?)))
}
