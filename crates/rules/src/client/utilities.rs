//! Cancellation of the client's own requests and of requests to the client; progress, cursors and levels of log messages, as
//! a client sends them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Method, Payload, Raw, RequestId};

use super::CROSSING;
use super::streams::unread;
use super::tasks::{created, of_tasks};
use crate::client_view::{ClientRequest, ClientView, RecordedResponse};
use crate::exchange::BodyEnd;
use crate::json::{float, member, members, param, plain, string};
use crate::rule::{Evidence, Finding, Outcome, Source};
use crate::trace::{Channel, Line, Probe, What};
use crate::utilities::LEVELS;

const CANCELLATION: &[Source] = sources![
    LEGACY Must "basic/utilities/cancellation#behavior-requirements",
    MODERN Must "basic/patterns/cancellation#behavior-requirements",
];
const PROGRESS: &[Source] = sources![
    LEGACY Must "basic/utilities/progress#progress-flow",
    MODERN Must "basic/patterns/progress#progress-flow",
];
const NOT_CANCELLED: &str = "the client cancelled nothing";
const NO_TOKEN: &str = "the client requested no progress";
/// A client that repeats a request after this time no longer waits for the first response.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(30);

rules! {
    pub(crate) RULES for Client in Chapter::Base;

    "client-cancels-what-is-under-way", CANCELLATION,
        "A client cancels only its own requests that are in flight.",
        else NOT_CANCELLED,
        |view| {
            // In the modern era an id is free again after the response.
            let mut requests: BTreeMap<&RequestId, Vec<&ClientRequest<'_>>> = BTreeMap::new();
            for request in &view.requests {
                requests.entry(&request.what.id).or_default().push(request);
            }
            // These have rules of their own.
            let (tasks, unread) = (of_tasks(view), unread(view));
            view.cancelled().map(move |(notification, id)| {
                let Some(id) = id else { return Some(notification.finding("it names no request")) };
                if tasks.contains_key(&id) || unread.contains(&id) {
                    return None;
                }
                let named = requests.get(&id).map_or(&[][..], Vec::as_slice);
                let earlier = named.partition_point(|request| request.place < notification.place);
                let Some(request) = named[..earlier].last() else {
                    return Some(notification.finding(format_args!("no request had the id {id}")));
                };
                let is_over = request.response.is_some_and(|response| {
                    response.place < notification.place
                        && notification.at.saturating_sub(response.at) > CROSSING
                });
                notification.finding_if(
                    is_over,
                    format_args!("{} with the id {id} got its response long before", request.what.method),
                )
            })
        };
    "client-never-cancels-initialize", [LEGACY Must "basic/utilities/cancellation#behavior-requirements"],
        "A client does not cancel initialize.",
        else NOT_CANCELLED,
        |view| {
            let opened = view.calls(&Method::Initialize).map(|request| &request.what.id);
            let opened: BTreeSet<&RequestId> = opened.collect();
            view.cancelled().map(move |(notification, id)| {
                let is_opening = id.is_some_and(|id| opened.contains(&id));
                notification.finding_if(is_opening, "it cancels initialize")
            })
        };
    "client-progress-token", PROGRESS,
        "A progress token of a client is a string or an integer.",
        else NO_TOKEN,
        |view| tokens(view).map(|(request, token)| {
            let is_good = token.decode::<RequestId>().is_ok();
            request.finding_if(!is_good, format_args!("the progress token is {token}"))
        });
    "client-progress-token-unique", PROGRESS,
        "No two requests of a client that are in flight have the same progress token.",
        else NO_TOKEN,
        |view| {
            // A cancelled request is no longer in flight, nor is, over HTTP, one whose response the client left.
            let cancelled = view.cancelled_ids();
            let mut last: BTreeMap<String, &ClientRequest<'_>> = BTreeMap::new();
            tokens(view).map(move |(request, token)| {
                let earlier = last.insert(plain(&token).to_string(), request)?;
                let is_answered = earlier.response.is_some_and(|response| response.place < request.place);
                let is_cancelled = cancelled.get(&earlier.what.id).is_some_and(|place| *place < request.place);
                let is_over = is_answered || is_cancelled || view.run.is_http() && view.is_modern();
                let (method, id) = (&earlier.what.method, &earlier.what.id);
                request.finding_if(!is_over, format_args!(
                    "the progress token {token} belongs to {method} with the id {id}, which is in flight"
                ))
            })
        };
    "client-own-progress", [LEGACY Must "basic/utilities/progress#behavior-requirements"],
        "A client sends progress only with the token of a request to it, and the progress increases.",
        else "the client sent no progress",
        |view| {
            let mut first = BTreeMap::new();
            for request in &view.our_requests {
                let meta = request.what.params.as_ref().and_then(Payload::meta);
                if let Some(token) = meta.and_then(|meta| member(&meta, "progressToken")) {
                    first.entry(plain(&token).to_string()).or_insert(request);
                }
            }
            let mut last: BTreeMap<String, (f64, Duration)> = BTreeMap::new();
            view.notified(&Method::Progress).map(move |notification| {
                // One POST may overtake another.
                let may_overtake = |at| {
                    view.run.channel != Channel::Stdio && notification.at.saturating_sub(at) <= CROSSING
                };
                let params = notification.what.params.as_ref()?.raw();
                let token = member(params, "progressToken").map(|token| plain(&token).to_string());
                let request = token.as_ref().and_then(|token| first.get(token));
                let request = request.filter(|request| request.place < notification.place);
                let (Some(token), Some(request)) = (token, request) else {
                    return Some(notification.finding("no request to the client had this token"));
                };
                // The token of a task stays in use after the response that creates the task.
                let is_over = |response: RecordedResponse<'_>| {
                    response.place < notification.place
                        && !may_overtake(response.at)
                        && response.result().and_then(created).is_none()
                };
                if request.response.is_some_and(is_over) {
                    return Some(notification.finding("the request with this token already has its response"));
                }
                let progress = float(params, "progress")?;
                let (before, at) = last.insert(token, (progress, notification.at))?;
                (progress <= before && !may_overtake(at)).then(|| notification.finding(format_args!("{progress} comes after {before}")))
            })
        };
    "client-cursor-unchanged", [ALL Must "server/utilities/pagination#implementation-guidelines"],
        "A client sends a cursor back unchanged, for the same list.",
        else "no page had a next page, or it was not requested",
        |view| {
            let pages = view.requests.iter().filter_map(|page| {
                let next = member(page.response?.result()?, "nextCursor")?;
                Some((page.what.method.as_str(), plain(&next).to_string()))
            });
            let given: BTreeSet<(&str, String)> = pages.collect();
            view.requests.iter().filter_map(move |request| {
                let cursor = plain(&request.param("cursor")?).to_string();
                let method = request.what.method.as_str();
                let is_known = given.contains(&(method, cursor));
                Some(request
                    .finding_if(!is_known, format_args!("no page of {method} had this cursor")))
            })
        };
    "client-log-level", [LEGACY Advice "server/utilities/logging#log-levels", MODERN Advice "basic#meta"],
        "The log level that a client sets is one of the eight levels.",
        else "the client requested no log messages",
        |view| view.requests.iter().filter_map(|request| {
            let level = if view.is_modern() {
                request.meta_member(key::LOG_LEVEL)?
            } else {
                param(&request.what.params, "level").filter(|_| request.what.method == Method::SetLevel)?
            };
            let is_good = string(&level).is_some_and(|level| LEVELS.contains(&&*level));
            Some(request.finding_if(!is_good, format_args!("the level is {level}")))
        });
}

rules! {
    pub(crate) PATTERN_RULES for Client in Chapter::Patterns;

    "client-cancels-after-timeout", [
        FIRST Should "basic/lifecycle#error-handling",
        LEGACY_SINCE_SECOND Should "basic/lifecycle#timeouts",
        MODERN Should "basic/patterns/cancellation#timeouts",
    ],
        "A client cancels a request whose response it no longer needs, before it sends it again.",
        else "the client waited for every response, or disconnected",
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
                    "the request with the id {id} is the same, has no response, and was not cancelled"
                ))))
            })
        };
    "client-bad-cancel-ignored", [LEGACY Should "basic/utilities/cancellation#error-handling"],
        "A client ignores the cancellation of a request that is unknown, has its response, or is not named.",
        |view| goes_on(view, Probe::AfterCancel, "a cancellation without effect");
    "client-cancelled-not-answered", [LEGACY Should "basic/utilities/cancellation#behavior-requirements"],
        "A client sends no response to a cancelled request.",
        else "no request to the client was cancelled before its response",
        |view| view.our_requests.iter().filter_map(|request| {
            let at = request.cancelled?;
            let Some(answer) = request.answer() else {
                return (view.last_present.saturating_sub(at) > CROSSING).then_some(None);
            };
            let late = answer.response.at.saturating_sub(at);
            let problem = || format!("it got a response {} s after the cancellation", late.as_secs());
            (late > CROSSING).then(|| Some(answer.finding(problem())))
        });
}

/// The requests with a progress token.
fn tokens<'t, 'a>(view: &'t ClientView<'a>) -> impl Iterator<Item = (&'t ClientRequest<'a>, Raw)> {
    view.requests.iter().filter_map(|request| Some((request, request.meta_member(key::PROGRESS_TOKEN)?)))
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
        let problem = || format!("it does not respond to ping after {what}");
        view.has_waited(request.at, view.trace.respond_within)
            .then(|| Some(Finding::new(problem(), Some(sent), None)))
    });
    Outcome::of(findings, "the client received no such error, or disconnected too soon")
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
