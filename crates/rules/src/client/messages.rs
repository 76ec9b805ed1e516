//! The form of a client's messages, and its responses to the requests and notifications of a server. Servers send requests
//! in the legacy era alone.

use std::collections::BTreeMap;

use mcpjoin_proto::{DecodeErrorKind, Kind, Method, Raw, code};

use crate::base::{CODES, MESSAGES, NOTIFICATIONS, REQUESTS, RESPONSE, is_misshapen};
use crate::client_view::{ClientView, OurRequest, RecordedResponse};
use crate::json::{member, members, of_line};
use crate::rule::{Evidence, Finding, Outcome, Source};
use crate::trace::{Line, Probe, What};

/// In the modern era a client sends no response.
const RESPONSES: &[Source] =
    sources![FIRST Must "basic/messages#responses", LEGACY_SINCE_SECOND Must "basic#responses"];
const PING: &[Source] = sources![LEGACY Must "basic/utilities/ping#behavior-requirements"];
const NO_REQUEST: &str = "the client sent no request";
const NO_RESPONSE: &str = "the client sent no response";

rules! {
    pub(crate) RULES for Client in Chapter::Base;

    "client-jsonrpc-version", MESSAGES,
        "Each message of the client has the member jsonrpc with the value \"2.0\".",
        |view| messages(view, |kind, _| *kind == DecodeErrorKind::JsonRpcVersion);
    "client-message-shape", MESSAGES,
        "A message is a request, a notification or a response: it has a string `method` and an object \
         `params`, or a result or an error.",
        |view| messages(view, |kind, _| is_misshapen(kind));
    "client-unique-members", [ALL Should "https://www.rfc-editor.org/rfc/rfc8259#section-4"],
        "No member appears twice in a JSON object of the client.",
        |view| messages(view, |kind, _| matches!(kind, DecodeErrorKind::DuplicateMember { .. }));
    "client-request-id", REQUESTS,
        "The id of a client's request is a string or an integer, and not null.",
        |view| messages(view, |kind, line| {
            matches!(kind, DecodeErrorKind::IdNull | DecodeErrorKind::IdType)
                && line.is_some_and(|line| member(line, "method").is_some())
        });
    "client-request-id-not-reused", REQUESTS,
        "A client does not reuse an id: not in a session of the older protocol, not while a response is \
         pending in 2026-07-28.",
        else NO_REQUEST,
        |view| {
            if view.is_modern() && view.run.is_http() {
                // Each request stands for itself: two clients at the same time are two senders.
                return Outcome::Skipped("over HTTP the sender of a request is unknown");
            }
            let mut earlier = BTreeMap::new();
            view.requests.iter().map(move |request| {
                let before = earlier.insert(&request.what.id, request)?;
                let is_open = before.response.is_none_or(|response| response.place > request.place);
                let (method, id) = (&request.what.method, &request.what.id);
                request.finding_if(
                    !view.is_modern() || is_open,
                    format_args!("{method} has the id {id}, which {} had before", before.what.method),
                )
            })
        };
    "client-result-or-error", RESPONSES,
        "A client's response has a result or an error, but not both.",
        |view| responses(view, |kind| matches!(kind, DecodeErrorKind::ResultAndError | DecodeErrorKind::NoOutcome));
    "client-result-is-object", RESPONSES,
        "A client's result is a JSON object.",
        else "the client returned no result",
        |view| view.answers().filter_map(|answer| {
            let is_good = answer.response.result()?.kind() == Kind::Object;
            Some(answer.finding_if(!is_good, "the result is not an object"))
        });
    "client-error-shape", RESPONSES,
        "A client's error is an object with a code that is an integer and a message that is a string.",
        |view| responses(view, |kind| matches!(kind, DecodeErrorKind::Error { .. }));
    "client-notification-without-id", NOTIFICATIONS,
        "A client's notification has no id.",
        else "the client sent no notification",
        |view| {
            let broken = view.requests.iter().filter(|it| it.what.method.as_str().starts_with("notifications/"));
            let broken = broken.map(|it| Some(it.finding(format_args!("{} has an id", it.what.method))));
            view.notifications.iter().map(|_| None).chain(broken)
        };
    "client-response-id", RESPONSES,
        "A client's response has the unchanged id of the server's request: 1 and \"1\" are different ids.",
        else NO_RESPONSE,
        |view| {
            let (unknown, batches) = (unknown_notifications(view), Batches::of(view));
            let strays = view.stray_responses.iter().filter(move |response| {
                !view.has_asked(response)
                    && notification(&unknown, response).is_none()
                    && !batches.is_refused_by(response)
            });
            let strays = strays.map(|response| {
                let id = response.id.map_or_else(|| "no id".into(), |id| format!("the id {id}"));
                Some(response.line.finding(format_args!("the response has {id}, which no request had")))
            });
            view.answers().map(|_| None).chain(strays)
        };
    "client-answered-once", [LEGACY Must RESPONSE],
        "A client sends only one response to a request.",
        else NO_RESPONSE,
        |view| {
            let mut strays = BTreeMap::new();
            for response in &view.stray_responses {
                strays.entry(response.id).or_insert(response);
            }
            view.answers().map(move |answer| {
                let (again, request) = (strays.get(&answer.response.id)?, answer.request);
                let problem = format!("{} got a second response", request.what.method);
                Some(Finding::new(problem, Some(request.line.bytes()), Some(again.line.bytes())))
            })
        };
    "client-request-answered", [LEGACY Must RESPONSE],
        "A client responds to each request.",
        else "the client received no request, or disconnected too soon",
        |view| {
            // A ping has a rule of its own, and a decision of a person has no time limit.
            let other = [Method::Ping, Method::CreateMessage, Method::Elicit];
            let requests = view.our_requests.iter().filter(move |it| !other.contains(&it.what.method));
            requests.filter(|it| is_due(view, it)).map(|request| silence(view, request))
        };
    "client-ping-answered", PING,
        "A client responds to ping at once, with an empty result.",
        else "the client received no ping, or disconnected too soon",
        |view| {
            // These follow another message, whose rule checks them.
            let own = [Probe::AfterCancel, Probe::AfterElicitation, Probe::Batch];
            let pings = view.our_requests.iter().filter(|request| request.what.method == Method::Ping);
            let pings = pings.filter(move |request| !own.contains(&request.probe) && is_due(view, request));
            pings.map(|request| {
                let Some(answer) = request.answer() else { return silence(view, request) };
                if let Some(error) = answer.response.error() {
                    return Some(answer.finding(format_args!("it returned the error {}", error.code)));
                }
                let has_others = members(answer.response.result()?)?.keys().any(|name| name != "_meta");
                answer.finding_if(has_others, "its result is not empty")
            })
        };
    "client-unknown-method-refused", [LEGACY Must RESPONSE],
        "A client rejects a request with an unknown method.",
        else "the client received no unknown method, or did not respond",
        |view| view.answers_of(Probe::UnknownMethod).map(|answer| {
            answer.finding_if(answer.response.outcome.is_ok(), "an unknown method returned a result")
        });
    "client-unknown-method-code", [LEGACY Should CODES],
        "A client's error for an unknown method has the code -32601.",
        else "no unknown method was rejected",
        |view| view.answers_of(Probe::UnknownMethod).filter_map(|it| it.error_other_than(code::METHOD_NOT_FOUND));
    "client-notification-not-answered", [
        FIRST Must "https://www.jsonrpc.org/specification#notification",
        LEGACY_SINCE_SECOND Must "basic#notifications",
    ],
        "A client sends no response to a notification.",
        else "the client received no notification",
        |view| {
            let (unknown, batches) = (unknown_notifications(view), Batches::of(view));
            let strays = view.stray_responses.iter().filter(|response| !batches.is_refused_by(response));
            let answered = strays.filter_map(|response| {
                let (sent, received) = (notification(&unknown, response)?.bytes(), response.line.bytes());
                Some(Some(Finding::new("a notification got a response", Some(sent), Some(received))))
            });
            unknown.iter().map(|_| None).chain(answered).collect::<Vec<_>>()
        };
    "client-receives-batches", [BATCHING Must "basic#batching"],
        "A client accepts an array of requests, and responds to each of them.",
        else "the client received no array, or disconnected too soon",
        |view| {
            let requests = view.our_requests.iter().filter(|request| request.probe == Probe::Batch);
            let batches = Batches::of(view);
            let refusal = view.stray_responses.iter().find(|response| batches.is_refused_by(response));
            requests.filter(|request| is_due(view, request)).map(move |request| {
                if request.response.is_some() {
                    return None;
                }
                let refused = refusal.map(|response| {
                    let (sent, received) = (request.line.bytes(), response.line.bytes());
                    Finding::new("the array was rejected", Some(sent), Some(received))
                });
                refused.or_else(|| silence(view, request))
            })
        };
    "client-sends-no-response", [MODERN Must "basic/transports#messages"],
        "A client sends no response: servers receive input with another request of the client.",
        else NO_REQUEST,
        |view| {
            let responses = view.answers().map(|answer| answer.response);
            let responses = responses.chain(view.stray_responses.iter().copied());
            let sent = responses.map(|response| Some(response.line.finding("this is a response")));
            view.requests.iter().map(|_| None).chain(sent)
        };
}

/// Checks all messages: a violation is a line that is no message for this reason.
fn messages(view: &ClientView<'_>, is_broken: impl Fn(&DecodeErrorKind, Option<&Raw>) -> bool) -> Outcome {
    let good = view.lines.iter().filter(|(_, line)| line.parts().all(|part| part.is_ok())).map(|_| None);
    let broken =
        view.invalid.iter().filter(|fault| is_broken(&fault.what.kind, of_line(fault.line.bytes()).as_ref()));
    let broken = broken.map(|fault| Some(fault.finding(&fault.what.kind)));
    Outcome::of(good.chain(broken), "the client sent no message")
}

/// Checks all responses.
fn responses(view: &ClientView<'_>, is_broken: impl Fn(&DecodeErrorKind) -> bool) -> Outcome {
    let broken = view.invalid.iter().filter(|fault| is_broken(&fault.what.kind));
    let broken = broken.map(|fault| Some(fault.finding(&fault.what.kind)));
    Outcome::of(view.answers().map(|_| None).chain(broken), NO_RESPONSE)
}

/// Our notifications that no client knows, each by its place.
fn unknown_notifications<'a>(view: &ClientView<'a>) -> BTreeMap<usize, &'a Line> {
    let probes = [
        Probe::UnknownNotification,
        Probe::CompletedCancel,
        Probe::MalformedCancel,
        Probe::UnknownElicitation,
    ];
    let events = view.run.events.iter().enumerate();
    let unknown = events.filter_map(|(place, event)| match &event.what {
        What::Sent(probe, line) if probes.contains(probe) => Some((place, line)),
        _ => None,
    });
    unknown.collect()
}

/// The notification to which a response without an id seems to belong: the last one before it.
fn notification<'a>(
    unknown: &BTreeMap<usize, &'a Line>,
    response: &RecordedResponse<'_>,
) -> Option<&'a Line> {
    let before = unknown.range(..response.place).next_back().filter(|_| response.id.is_none());
    before.map(|(_, line)| *line)
}

/// The places and the probes of all lines that we sent.
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

    /// Whether a response without an id seems to refuse an array: the last line before it is one.
    fn is_refused_by(&self, response: &RecordedResponse<'_>) -> bool {
        let before = self.0.partition_point(|(place, _)| *place < response.place);
        let last = before.checked_sub(1).and_then(|last| self.0.get(last));
        response.id.is_none() && last.is_some_and(|(_, probe)| *probe == Probe::Batch)
    }
}

/// Whether a request of ours has a response, or needed one and the client had the time for it.
fn is_due(view: &ClientView<'_>, request: &OurRequest<'_>) -> bool {
    request.response.is_some()
        || request.cancelled.is_none() && view.has_waited(request.at, view.trace.respond_within)
}

/// A finding if a request has no response, and no other message may be its response.
fn silence(view: &ClientView<'_>, request: &OurRequest<'_>) -> Option<Finding> {
    let is_broken = view.invalid.last().is_some_and(|fault| fault.place > request.place);
    let mut strays = view.stray_responses.iter().rev().take_while(|it| it.place > request.place);
    if request.response.is_some() || is_broken || strays.any(|response| !view.has_asked(response)) {
        return None;
    }
    let problem = format!("{} got no response", request.what.method);
    Some(Finding::new(problem, Some(request.line.bytes()), None))
}
