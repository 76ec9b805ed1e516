//! Cancellation: of the client's own requests, and of requests to the client.

use std::collections::BTreeMap;
use std::time::Duration;

use mcpjoin_proto::{Method, Payload, RequestId};

use super::CROSSING;
use crate::client_view::{ClientRequest, ClientView};
use crate::exchange::BodyEnd;
use crate::json::members;
use crate::rule::{Evidence, Finding, Outcome};
use crate::trace::{Line, Probe, What};

/// A client that repeats a request after this time no longer waits for the first response.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(30);

rules! {
    pub(crate) RULES for Client in Chapter::Patterns;

    "client-cancels-after-timeout", [
        FIRST Should "basic/lifecycle#error-handling",
        LEGACY_SINCE_SECOND Should "basic/lifecycle#timeouts",
        MODERN Should "basic/patterns/cancellation#timeouts",
    ],
        "A client cancels a request for whose answer it waits no longer, before it sends it again.",
        else "the client waited for every answer, or left",
        |view| {
            let given_up = GivenUp::of(view);
            // The last request with the same parameters.
            let mut last: BTreeMap<(&str, String), &ClientRequest<'_>> = BTreeMap::new();
            for request in view.requests.iter().filter(|request| only_reads(&request.what.method)) {
                last.insert(subject(request), request);
            }
            let waiting = view.requests.iter().filter(|request| !opens(&request.what.method));
            waiting.filter_map(move |request| {
                let answered = request.response.map(|response| response.place);
                if let Some(place) = given_up.when(request) {
                    return answered.is_none_or(|answered| answered > place).then_some(None);
                }
                // A call may be meant twice; a request that only reads is repeated for one reason.
                if answered.is_some() || !only_reads(&request.what.method) {
                    return None;
                }
                let again = last.get(&subject(request))?;
                let id = &request.what.id;
                (again.at.saturating_sub(request.at) >= GIVEN_UP_AFTER).then(|| Some(again.finding(format_args!(
                    "the request with the id {id} is the same, was not answered, and was not cancelled"
                ))))
            })
        };
    "client-bad-cancel-ignored", [LEGACY Should "basic/utilities/cancellation#error-handling"],
        "A client passes over a cancellation of what is not known, of what was answered, and one that names nothing.",
        |view| goes_on(view, Probe::AfterCancel, "a cancellation that means nothing to it");
    "client-cancelled-not-answered", [LEGACY Should "basic/utilities/cancellation#behavior-requirements"],
        "A client does not answer a request that was cancelled.",
        else "nothing that the client was asked was cancelled before its answer",
        |view| view.our_requests.iter().filter_map(|request| {
            let at = request.cancelled?;
            let Some(answer) = request.answer() else {
                return (view.last_present.saturating_sub(at) > CROSSING).then_some(None);
            };
            let late = answer.response.at.saturating_sub(at);
            let problem = || format!("it was answered {} s after it was cancelled", late.as_secs());
            (late > CROSSING).then(|| Some(answer.finding(problem())))
        });
}

/// Checks that the client answers the pings of a probe, which follow a message that it has to ignore.
pub(super) fn goes_on(view: &ClientView<'_>, ping: Probe, what: &str) -> Outcome {
    let pings = view.our_requests.iter().filter(|request| request.probe == ping);
    let findings = pings.filter_map(|request| {
        if request.response.is_some() {
            return Some(None);
        }
        let before = view.run.events.iter().take(request.place).rev().find_map(|event| match &event.what {
            What::Sent(Probe::MalformedCancel | Probe::UnknownElicitation, line) => Some(line),
            _ => None,
        });
        let sent = before.unwrap_or(request.line).bytes();
        let problem = || format!("it answers no ping after {what}");
        view.has_waited(request.at, view.trace.respond_within)
            .then(|| Some(Finding::new(problem(), Some(sent), None)))
    });
    Outcome::of(findings, "the client was not told so, or it was gone too soon")
}

/// The places at which the client gave up requests.
struct GivenUp {
    cancelled: BTreeMap<RequestId, usize>,
    /// In the modern era, closing the stream cancels the request: by the line of the request.
    left: BTreeMap<*const Line, usize>,
}

impl GivenUp {
    fn of(view: &ClientView<'_>) -> Self {
        let posts = view.exchanges.values().filter(|_| view.is_modern());
        let left = posts.filter_map(|post| {
            let (place, _, BodyEnd::Left) = post.end? else { return None };
            Some((std::ptr::from_ref(post.message?), place))
        });
        Self { cancelled: view.cancelled_ids(), left: left.collect() }
    }

    fn when(&self, request: &ClientRequest<'_>) -> Option<usize> {
        let cancelled = self.cancelled.get(&request.what.id).filter(|place| **place > request.place);
        cancelled.or_else(|| self.left.get(&std::ptr::from_ref(request.line))).copied()
    }
}

/// Whether a request opens a session: it is not cancelled, and may be repeated.
const fn opens(method: &Method) -> bool {
    matches!(method, Method::Initialize | Method::Discover)
}

fn only_reads(method: &Method) -> bool {
    let name = method.as_str();
    name.ends_with("/list") || matches!(method, Method::ReadResource | Method::GetPrompt | Method::Ping)
}

/// The method and the parameters of a request, without `_meta`.
fn subject<'a>(request: &ClientRequest<'a>) -> (&'a str, String) {
    let params = request.what.params.as_ref().map(Payload::raw).and_then(members).unwrap_or_default();
    let own = params.iter().filter(|(name, _)| *name != "_meta");
    (request.what.method.as_str(), own.map(|(name, value)| format!("{name}={value};")).collect())
}
