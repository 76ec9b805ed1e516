//! Requests in flight: progress and cancellation.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress>
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Notification, ProgressToken, Raw};

use crate::base::{goes_on, is_sent_again};
use crate::features::is_kind;
use crate::json::{has_kind, member, number, param, request_id};
use crate::rule::{Evidence, Outcome, Source};
use crate::server_view::{OurRequest, Received, ServerView};
use crate::trace::{Channel, Probe};

const NO_PROGRESS: &str = "no progress was sent (see --call and --read-only-tools)";
const FLOW: &[Source] = sources![
    LEGACY Must "basic/utilities/progress#progress-flow",
    MODERN Must "basic/patterns/progress#progress-flow",
];
const ERRORS: &[Source] = sources![
    LEGACY Should "basic/utilities/cancellation#error-handling",
    MODERN Should "basic/patterns/cancellation#error-handling",
];

rules! {
    pub(crate) RULES for Server in Chapter::Patterns;

    "progress-complete", FLOW,
        "A progress notification has the token of a request and a number; total is also a number.",
        |view| each(view, |notification| {
            let Some(params) = notification.what.params.as_ref().map(|params| params.raw()) else {
                return Some("it has no parameters".into());
            };
            if token_of(notification.what).is_none() {
                return Some("progressToken is missing, or neither a string nor an integer".into());
            }
            if !has_kind(params, "progress", Kind::Number) {
                return Some("progress is missing or not a number".into());
            }
            is_kind(params, "total", Kind::Number).or_else(|| is_kind(params, "message", Kind::String))
        });
    "progress-token-known", [
        LEGACY Must "basic/utilities/progress#behavior-requirements",
        MODERN Must "basic/patterns/progress#behavior-requirements",
    ],
        "Progress is sent only for requests that ask for it, with their token.",
        |view| {
            if view.run.is_modern() && view.run.is_http() {
                return Outcome::Skipped("over HTTP, the rule notifications-relate checks this");
            }
            let askers = askers(view);
            each(view, |notification| {
                let token = token_of(notification.what)?;
                let is_known = asker(&askers, notification).is_some();
                (!is_known).then(|| format!("no request had the token {token}"))
            })
        };
    "progress-increases", FLOW,
        "The progress of a request increases with each notification.",
        else NO_PROGRESS,
        |view| {
            let mut last: BTreeMap<ProgressToken, f64> = BTreeMap::new();
            let mut known: BTreeMap<_, &Received<'_, Notification>> = BTreeMap::new();
            view.notified(&Method::Progress).filter_map(move |notification| {
                // A notification that is sent on every stream has a rule of its own.
                let first = known.insert(notification.line.bytes(), notification);
                if first.is_some_and(|first| is_sent_again(first, notification)) {
                    return None;
                }
                let token = token_of(notification.what)?;
                let progress = number(&param(&notification.what.params, "progress")?)?;
                let Some(before) = last.insert(token, progress) else { return Some(None) };
                Some(notification
                    .finding_if(progress <= before, format_args!("the progress is {progress} after {before}")))
            })
        };
    "progress-stops", [
        LEGACY Must "basic/utilities/progress#implementation-notes",
        MODERN Must "basic/patterns/progress#implementation-notes",
    ],
        "No progress is sent after the response.",
        |view| {
            let askers = askers(view);
            each(view, |notification| {
                let request = asker(&askers, notification)?;
                let mut responses = request.responses.iter();
                let is_late = responses.any(|it| is_after(view, notification, it.place, it.exchange));
                // A task goes on after the response that creates it.
                let is_task = request.params().is_some_and(|params| member(&params, "task").is_some());
                (is_late && !is_task).then(|| "the request already had its response".into())
            })
        };
    "progress-token-of-server", [LEGACY Must "basic/utilities/progress#progress-flow"],
        "The progress token of a server's request is a string or an integer, unique among its requests.",
        else "the server sent no request with a progress token",
        |view| {
            let mut known: BTreeSet<ProgressToken> = BTreeSet::new();
            view.requests.iter().filter_map(move |request| {
                let raw = member(&param(&request.what.params, "_meta")?, key::PROGRESS_TOKEN)?;
                let Ok(token) = raw.decode::<ProgressToken>() else {
                    return Some(Some(request.finding(format_args!("the token is {raw}"))));
                };
                Some(request
                    .finding_if(!known.insert(token), format_args!("another request had the token {raw}")))
            })
        };
    "completed-cancel-ignored", ERRORS,
        "The cancellation of a request that already has its response is ignored.",
        |view| goes_on(view, Probe::AfterCompletedCancel, "no request was cancelled after its response");
    "malformed-cancel-ignored", ERRORS,
        "A cancellation without a request id is ignored.",
        |view| goes_on(view, Probe::AfterMalformedCancel, "no such cancellation was sent");
    "cancelled-not-answered", [
        LEGACY Should "basic/utilities/cancellation#behavior-requirements",
        MODERN Must "basic/transports/stdio#cancellation",
    ],
        "A cancelled request gets no response, not even an error.",
        else "no cancelled request ran long enough (see --read-only-tools)",
        |view| {
            if view.run.is_modern() && view.run.channel != Channel::Stdio {
                return Outcome::Skipped("over HTTP, clients cancel by closing the stream");
            }
            let cancelled = view.our_notifications.iter().filter(|it| it.probe == Probe::Cancel);
            cancelled.filter_map(|notification| {
                let mut calls = view.probed(Probe::CancelledCall);
                let request = calls.find(|request| request.place < notification.place)?;
                // A server may ignore a cancellation, so a result is allowed. An error shows that it has not ignored it,
                // and responds nevertheless.
                let Some(response) = request.responses.first() else { return Some(None) };
                let is_late_error =
                    matches!(response.outcome, Some(Err(_))) && response.place > notification.place;
                is_late_error
                    .then(|| Some(request.finding_with("it got an error as response", response.line)))
            })
        };
    "server-cancels-its-own", [LEGACY Must "basic/utilities/cancellation#behavior-requirements"],
        "A server cancels only its own requests that are in flight.",
        else "the server cancelled nothing",
        |view| {
            let mut first = BTreeMap::new();
            for request in &view.requests {
                first.entry(&request.what.id).or_insert(request.place);
            }
            view.notified(&Method::Cancelled).map(move |notification| {
                let Some(id) = request_id(&notification.what.params) else {
                    return Some(notification.finding("it has no request id"));
                };
                let is_own = first.get(&id).is_some_and(|place| *place < notification.place);
                notification
                    .finding_if(!is_own, format_args!("the server sent no request with the id {id}"))
            })
        };
}

fn token_of(notification: &Notification) -> Option<ProgressToken> {
    param(&notification.params, "progressToken")?.decode().ok()
}

/// Whether a notification comes after a response at that place. The order of messages on two streams is not known.
pub(super) fn is_after(
    view: &ServerView<'_>,
    notification: &Received<'_, Notification>,
    place: usize,
    exchange: Option<u32>,
) -> bool {
    place < notification.place && (!view.run.is_http() || exchange == notification.exchange)
}

/// The first request of ours with each progress token, read once because a server may send many notifications.
fn askers<'s, 'a>(view: &'s ServerView<'a>) -> BTreeMap<ProgressToken, &'s OurRequest<'a>> {
    let given = |raw: Raw| raw.decode::<ProgressToken>().ok();
    let mut askers = BTreeMap::new();
    for request in &view.our_requests {
        if let Some(token) = request.meta(key::PROGRESS_TOKEN).and_then(given) {
            askers.entry(token).or_insert(request);
        }
    }
    askers
}

/// The request of ours with the token of a notification.
fn asker<'s, 'a>(
    askers: &BTreeMap<ProgressToken, &'s OurRequest<'a>>,
    notification: &Received<'_, Notification>,
) -> Option<&'s OurRequest<'a>> {
    let request = askers.get(&token_of(notification.what)?)?;
    (request.place < notification.place).then_some(*request)
}

/// Checks each notification of progress: `check` returns the problem of one.
fn each(view: &ServerView<'_>, check: impl Fn(&Received<'_, Notification>) -> Option<String>) -> Outcome {
    let findings = view.notified(&Method::Progress).map(|it| check(it).map(|problem| it.finding(problem)));
    Outcome::of(findings, NO_PROGRESS)
}
