//! Cancellation: of the client's own requests, and of requests to the client.

use std::collections::BTreeMap;
use std::time::Duration;

use mcpjoin_proto::{Method, Payload, RequestId};

use super::utilities::{CROSSING, cancelled};
use crate::client_view::{ClientRequest, ClientView};
use crate::exchange::BodyEnd;
use crate::json::members;
use crate::rule::{Finding, Outcome};
use crate::trace::{Line, Probe, What};

/// Who asks for the same again after this time waits for the first answer no longer.
const GIVEN_UP: Duration = Duration::from_secs(30);

rules! {
    pub(crate) RULES for Client in Chapter::Patterns;

    "client-cancels-after-timeout", [
        FIRST Should "basic/lifecycle#error-handling",
        LEGACY_SINCE_SECOND Should "basic/lifecycle#timeouts",
        MODERN Should "basic/patterns/cancellation#timeouts",
    ],
        "A client cancels a request for whose answer it waits no longer, before it sends it again.",
        |view| {
            let given_up = GivenUp::of(view);
            // The last that asks for the same.
            let mut last: BTreeMap<(&str, String), &ClientRequest<'_>> = BTreeMap::new();
            for request in view.requests.iter().filter(|request| only_reads(&request.what.method)) {
                last.insert((request.what.method.as_str(), wanted(request)), request);
            }
            let waiting = view.requests.iter().filter(|request| !opens(&request.what.method));
            let findings = waiting.filter_map(|request| {
                let answered = request.response.map(|response| response.place);
                if let Some(place) = given_up.when(request) {
                    return answered.is_none_or(|answered| answered > place).then_some(None);
                }
                // A call may be meant twice; what only reads is sent again for one reason.
                if answered.is_some() || !only_reads(&request.what.method) {
                    return None;
                }
                let again = last.get(&(request.what.method.as_str(), wanted(request)))?;
                if again.at.saturating_sub(request.at) < GIVEN_UP {
                    return None;
                }
                let problem = format!(
                    "the request with the id {} is the same, was not answered, and was not cancelled",
                    request.what.id
                );
                Some(Some(again.finding(problem)))
            });
            Outcome::of(findings, "the client waited for every answer, or left")
        };
    "client-bad-cancel-ignored", [LEGACY Should "basic/utilities/cancellation#error-handling"],
        "A client passes over a cancellation of what is not known, of what was answered, and one that names nothing.",
        |view| goes_on(view, Probe::AfterCancel, "a cancellation that means nothing to it");
    "client-cancelled-not-answered", [LEGACY Should "basic/utilities/cancellation#behavior-requirements"],
        "A client does not answer a request that was cancelled.",
        |view| {
            let findings = view.our_requests.iter().filter_map(|our_request| {
                let at = our_request.cancelled?;
                let Some(response) = our_request.response else {
                    return (view.last_present.saturating_sub(at) > CROSSING).then_some(None);
                };
                let late = response.at.saturating_sub(at) > CROSSING && response.at > at;
                let problem = || {
                    let late = response.at.saturating_sub(at).as_secs();
                    our_request
                        .finding(format!("it was answered {late} s after it was cancelled"), response.line)
                };
                late.then(|| Some(problem()))
            });
            Outcome::of(findings, "nothing that the client was asked was cancelled before its answer")
        };
}

/// Whether a client answers a ping that has followed what it is to pass over.
pub(super) fn goes_on(view: &ClientView<'_>, ping: Probe, what: &str) -> Outcome {
    let pings = view.our_requests.iter().filter(|our_request| our_request.probe == ping);
    let findings = pings.filter_map(|our_request| {
        if our_request.response.is_some() {
            return Some(None);
        }
        let waited = view.last_present.saturating_sub(our_request.at) >= view.trace.answer_within;
        let before =
            view.run.events.iter().take(our_request.place).rev().find_map(|event| match &event.what {
                What::Sent(Probe::MalformedCancel | Probe::UnknownElicitation, line) => Some(line),
                _ => None,
            });
        let problem = || {
            let sent = before.unwrap_or(our_request.line);
            Finding::new(format!("it answers no ping after {what}"), Some(sent.bytes()), None)
        };
        waited.then(|| Some(problem()))
    });
    Outcome::of(findings, "the client was not told so, or it was gone too soon")
}

/// When the client has said of a request that it wants no answer.
struct GivenUp {
    notification: BTreeMap<RequestId, usize>,
    /// In the modern era the end of the stream says it: by the line that it was to answer.
    left: BTreeMap<*const Line, usize>,
}

impl GivenUp {
    fn of(view: &ClientView<'_>) -> Self {
        let notification =
            cancelled(view).filter_map(|(notification, id)| Some((id?, notification.place))).collect();
        let posts = view.exchanges.values().filter(|_| view.is_modern());
        let left = posts.filter_map(|post| {
            let (place, _, BodyEnd::Left) = post.end? else { return None };
            Some((std::ptr::from_ref(post.body?), place))
        });
        Self { notification, left: left.collect() }
    }

    fn when(&self, request: &ClientRequest<'_>) -> Option<usize> {
        let notification = self.notification.get(&request.what.id).filter(|place| **place > request.place);
        notification.or_else(|| self.left.get(&std::ptr::from_ref(request.line))).copied()
    }
}

/// What opens a session is not cancelled, and may be tried again.
const fn opens(method: &Method) -> bool {
    matches!(method, Method::Initialize | Method::Discover)
}

fn only_reads(method: &Method) -> bool {
    let name = method.as_str();
    name.ends_with("/list") || matches!(method, Method::ReadResource | Method::GetPrompt | Method::Ping)
}

/// What a request asks for, without what it says of itself.
fn wanted(request: &ClientRequest<'_>) -> String {
    let params = request.what.params.as_ref().map(Payload::raw).and_then(members).unwrap_or_default();
    let own = params.iter().filter(|(name, _)| *name != "_meta");
    own.map(|(name, value)| format!("{name}={value};")).collect()
}
