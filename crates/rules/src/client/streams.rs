//! How a client handles the responses to its POST requests: both forms of a response, refusals with more information, and
//! in the legacy era the streams that it resumes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Method, Raw, RequestId, code};

use super::CROSSING;
use crate::client_view::{ClientRequest, ClientView};
use crate::exchange::{BodyEnd, Exchange};
use crate::json::{param, text};
use crate::rule::{Evidence, Finding, Outcome};
use crate::trace::Line;

const SENDING: &str = "basic/transports#sending-messages-to-the-server";
const COMPLETE: &str = "every stream lasted until its response";
/// A client that falls back because of a response does so within this time.
const AT_ONCE: Duration = Duration::from_secs(2);
/// The difference of two clocks, and the time on the network.
const JITTER: Duration = Duration::from_millis(50);
/// The forms of a response, with the words for a finding.
const FORMS: [(MediaType, &str); 2] = [(MediaType::Json, "as JSON"), (MediaType::EventStream, "on a stream")];

rules! {
    pub(crate) RULES for Client in Chapter::StreamableHttp;

    "client-takes-both-replies", [
        LEGACY_SINCE_SECOND Must SENDING,
        MODERN Must "basic/transports/streamable-http#sending-messages",
    ],
        "A client accepts a response as JSON and as an event of a stream.",
        else "the client sent no request",
        |view| {
            let unread = unread(view);
            let last = view.requests.last().map_or(0, |request| request.place);
            let mut findings = Vec::new();
            for (form, how) in FORMS {
                let given: Vec<&ClientRequest<'_>> = answered(view, form).collect();
                let goes_on = |it: &&ClientRequest<'_>| it.response.is_some_and(|response| response.place < last);
                if let Some(lost) = given.iter().find(|request| unread.contains(&request.what.id)) {
                    findings.push(Some(lost.finding(format_args!("the response came {how}, and was not \
                        read"))));
                } else if given.iter().any(goes_on) {
                    findings.push(None);
                }
            }
            if findings.len() < 2 && findings.iter().all(Option::is_none) {
                return Outcome::Skipped("the client did not receive both, or did not continue");
            }
            findings
        };
    "client-refreshes-after-mismatch", [MODERN Should "basic/transports/streamable-http#client-behavior"],
        "After a call was rejected because of its headers, a client lists the tools before it calls again.",
        else "no call was rejected for this reason, or none was repeated",
        |view| {
            // Requests are in the order of their places.
            let mut calls: BTreeMap<String, Vec<&ClientRequest<'_>>> = BTreeMap::new();
            for call in view.calls(&Method::CallTool) {
                if let Some(tool) = call.text_param("name") {
                    calls.entry(tool).or_default().push(call);
                }
            }
            let lists: BTreeSet<usize> = view.calls(&Method::ListTools).map(|list| list.place).collect();
            let mut findings = Vec::new();
            for (tool, calls) in calls {
                for refused in calls.iter().filter_map(|call| call.response) {
                    let again = calls.get(calls.partition_point(|next| next.place <= refused.place));
                    let error = refused.error().filter(|error| error.code == code::HEADER_MISMATCH);
                    let (Some(again), Some(_), Some(last)) = (again, error, calls.last()) else { continue };
                    // A call that crossed with the error says nothing if the client went on as it should.
                    let is_crossing = again.at.saturating_sub(refused.at) <= CROSSING;
                    let end = if is_crossing { last.place } else { again.place };
                    let is_listed = lists.range(refused.place..end).next().is_some();
                    let problem = format_args!("{tool} was called again without a new list");
                    findings.push(again.finding_if(!is_listed, problem));
                }
            }
            findings
        };
    "client-reads-400-before-falling-back", [MODERN Should "basic/transports/streamable-http#backward-compatibility"],
        "After the status 400 with an error of 2026-07-28, a client does not fall back to initialize.",
        else "no request was rejected this way, or the client disconnected",
        |view| view.exchanges.values().filter(|post| post.status() == Some(400)).filter_map(|post| {
            let request = view.request_in(post)?;
            let response = request.response?;
            let code = response.error()?.code;
            if !is_modern(code) {
                return None;
            }
            let next = view.requests.partition_point(|next| next.place <= response.place);
            let next = view.requests.get(next);
            if next.is_some_and(|next| next.at.saturating_sub(response.at) <= AT_ONCE) {
                return Some(None);
            }
            let fallback = fallback(view, request, response.at)?;
            Some(Some(fallback.finding(format_args!("it came after the error {code}"))))
        });
    "client-polls-primed-stream", [LAST_LEGACY Should SENDING],
        "A client resumes a stream that was closed before its response, if an event had an id.",
        else COMPLETE,
        |view| {
            let (resumed, cancelled) = (Resumed::of(view), view.cancelled_ids());
            view.exchanges.values().filter_map(move |post| {
                let (at, request) = unanswered(view, post, &BodyEnd::Complete)?;
                if !is_stream(post) || post.event_ids().next().is_none() {
                    return None;
                }
                if resumed.by(post).is_some() {
                    return Some(None);
                }
                let wait = post.retry.unwrap_or_default() + view.trace.respond_within;
                let problem = "the response stream was closed, and the client did not resume it";
                (!cancelled.contains_key(&request.what.id) && view.has_waited(at, wait))
                    .then(|| Some(request.finding(problem)))
            })
        };
    "client-respects-retry", [LAST_LEGACY Must SENDING],
        "A client waits for the time in retry before it resumes a closed stream.",
        else "no stream with retry was closed, or the client did not resume it",
        |view| {
            let resumed = Resumed::of(view);
            view.exchanges.values().filter_map(move |post| {
                let (_, at, BodyEnd::Complete) = post.end? else { return None };
                let (wanted, again) = (post.retry?, resumed.by(post)?);
                let waited = again.at.saturating_sub(at);
                let (after, before) = (waited.as_millis(), wanted.as_millis());
                Some(again.finding_if(
                    waited + JITTER < wanted,
                    format_args!("it was resumed after {after} ms, although retry was {before} ms"),
                ))
            })
        };
    "client-resumes-with-last-id", [LEGACY_SINCE_SECOND Should "basic/transports#resumability-and-redelivery"],
        "A client that resumes a stream names the last event that it received on it.",
        else "the client resumed no stream",
        |view| {
            let mut session_stream: Option<&Exchange<'_>> = None;
            let mut events: HashMap<&[u8], &Exchange<'_>> = HashMap::new();
            let mut findings = Vec::new();
            for exchange in view.exchanges.values() {
                if exchange.is("GET") {
                    findings.extend(resuming(exchange, session_stream, &events));
                    session_stream = Some(exchange).filter(|it| is_stream(it)).or(session_stream);
                }
                events.extend(exchange.event_ids().map(|id| (id, exchange)));
            }
            findings
        };
    "client-cancels-explicitly", [LEGACY_SINCE_SECOND Should SENDING],
        "A client that closes a response stream and does not resume it cancels the request.",
        else "the client closed no stream before its response",
        |view| {
            let (resumed, cancelled) = (Resumed::of(view), view.cancelled_ids());
            let last = view.requests.last().map_or(Duration::ZERO, |request| request.at);
            view.exchanges.values().filter_map(move |post| {
                let (at, request) = unanswered(view, post, &BodyEnd::Left)?;
                if request.what.method == Method::Initialize || resumed.by(post).is_some() {
                    return None;
                }
                if cancelled.contains_key(&request.what.id) {
                    return Some(None);
                }
                // A client that leaves the server does not have to cancel.
                (last.saturating_sub(at) >= view.trace.respond_within / 2)
                    .then(|| Some(request.finding("the stream was closed, but the request was not \
                        cancelled")))
            })
        };
}

/// Whether an error shows that its server is of the modern era.
pub(super) const fn is_modern(error: i64) -> bool {
    matches!(
        error,
        code::HEADER_MISMATCH | code::MISSING_REQUIRED_CLIENT_CAPABILITY | code::UNSUPPORTED_PROTOCOL_VERSION
    )
}

/// The requests that the client cancelled long after their responses came over HTTP, if it read no other response of the
/// same form: it cannot read that form.
pub(super) fn unread(view: &ClientView<'_>) -> BTreeSet<RequestId> {
    let mut unread = BTreeSet::new();
    if !view.run.is_http() {
        return unread;
    }
    let requests: BTreeMap<&RequestId, &ClientRequest<'_>> =
        view.requests.iter().map(|request| (&request.what.id, request)).collect();
    let cancelled = view.cancelled().filter_map(|(notification, id)| {
        let response = requests.get(id.as_ref()?)?.response?;
        let is_late =
            response.place < notification.place && notification.at.saturating_sub(response.at) > CROSSING;
        id.filter(|_| is_late)
    });
    let cancelled: BTreeSet<RequestId> = cancelled.collect();
    if cancelled.is_empty() {
        return unread;
    }
    for (form, _) in FORMS {
        let given: Vec<&RequestId> = answered(view, form).map(|request| &request.what.id).collect();
        if given.iter().all(|id| cancelled.contains(*id)) {
            unread.extend(given.into_iter().cloned());
        }
    }
    unread
}

/// The requests with a response of that form.
fn answered<'t, 'a>(
    view: &'t ClientView<'a>,
    form: MediaType,
) -> impl Iterator<Item = &'t ClientRequest<'a>> {
    let posts = view.posts().filter(move |post| post.status() == Some(200) && post.media_type() == form);
    posts.filter_map(|post| view.request_in(post)).filter(|request| request.response.is_some())
}

/// The `initialize` that the same client sends right after a response.
fn fallback<'a>(view: &ClientView<'a>, request: &ClientRequest<'_>, since: Duration) -> Option<&'a Line> {
    let name_of = |info: Raw| text(&info, "name");
    let client = request.meta_member(key::CLIENT_INFO).and_then(name_of);
    let others = view.trace.runs.iter().filter(|run| run.is_http() && run.is_legacy());
    let events = others.flat_map(|run| &run.events);
    let soon = events.filter(|event| event.at >= since && event.at.saturating_sub(since) <= AT_ONCE);
    let mut lines = soon.filter_map(|event| event.received_line());
    lines.find(|line| {
        let mut openings = line.requests().filter(|request| request.method == Method::Initialize);
        openings.any(|request| param(&request.params, "clientInfo").and_then(name_of) == client)
    })
}

/// A request in an exchange that ended in this way before the response: the time of the end, and the request.
fn unanswered<'t, 'a>(
    view: &'t ClientView<'a>,
    post: &Exchange<'a>,
    wanted: &BodyEnd,
) -> Option<(Duration, &'t ClientRequest<'a>)> {
    let (place, at, end) = post.end?;
    let request = view.request_in(post)?;
    let is_unanswered = request.response.is_none_or(|response| response.place > place);
    (end == wanted && is_unanswered).then_some((at, request))
}

fn is_stream(exchange: &Exchange<'_>) -> bool {
    exchange.media_type() == MediaType::EventStream
}

/// Checks a GET, after the last stream of the session and all streams with events.
fn resuming(
    get: &Exchange<'_>,
    session_stream: Option<&Exchange<'_>>,
    events: &HashMap<&[u8], &Exchange<'_>>,
) -> Option<Option<Finding>> {
    let has_ended =
        |of: &Exchange<'_>| matches!(of.end, Some((place, _, BodyEnd::Complete)) if place < get.place);
    let Some(given) = get.request.headers.value(name::LAST_EVENT_ID) else {
        // It opens the stream of the session once more.
        let before = session_stream?;
        let is_lost = has_ended(before) && before.event_ids().next().is_some();
        return is_lost.then(|| Some(get.finding("Last-Event-ID is missing")));
    };
    let Some(of) = events.get(given) else {
        return Some(Some(get.finding("no event had the id in Last-Event-ID")));
    };
    // Of a stream that did not end in order it is not known which events the client has read.
    let is_good = !has_ended(of) || of.event_ids().last() == Some(given);
    Some(get.finding_if(!is_good, "other events followed the one in Last-Event-ID"))
}

/// The requests that resume streams, by the ids of events.
struct Resumed<'t, 'a>(HashMap<&'t [u8], Vec<&'t Exchange<'a>>>);

impl<'t, 'a> Resumed<'t, 'a> {
    fn of(view: &'t ClientView<'a>) -> Self {
        let mut resumed: HashMap<&[u8], Vec<&Exchange<'a>>> = HashMap::new();
        for get in view.exchanges.values().filter(|exchange| exchange.is("GET")) {
            if let Some(id) = get.resumed_after() {
                resumed.entry(id).or_default().push(get);
            }
        }
        Self(resumed)
    }

    /// The first request that resumes a stream.
    fn by(&self, post: &Exchange<'_>) -> Option<&'t Exchange<'a>> {
        let again = post
            .event_ids()
            .filter_map(|id| self.0.get(id))
            .filter_map(|again| again.get(again.partition_point(|again| again.place <= post.place)).copied());
        again.min_by_key(|again| again.place)
    }
}
