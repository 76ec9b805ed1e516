//! The streams of Streamable HTTP in the legacy era: how a client resumes one that breaks.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::{Method, RequestId};

use super::replies::asked_in;
use super::utilities::cancelled;
use crate::client_view::{ClientExchange, ClientRequest, ClientView};
use crate::exchange::BodyEnd;
use crate::rule::{Finding, Outcome};

const SENDING: &str = "basic/transports#sending-messages-to-the-server";
/// Two clocks, and what is on its way between them.
const JITTER: Duration = Duration::from_millis(50);
const LASTED: &str = "every stream lasted until its answer";

rules! {
    pub(crate) RULES for Client in Chapter::StreamableHttp;

    "client-polls-primed-stream", [LAST_LEGACY Should SENDING],
        "A client comes back for a stream that was closed before its answer, and had an event with an id.",
        |view| {
            let (resumed, cancelled) = (Resumed::of(view), given_up(view));
            let findings = broken(view).filter_map(|broken| {
                if resumed.by(broken.post).is_some() {
                    return Some(None);
                }
                // Nobody comes back for what was given up.
                if cancelled.contains(&broken.request.what.id) {
                    return None;
                }
                let wait = retry(broken.post).unwrap_or_default() + view.trace.answer_within;
                let problem = "the stream of its answer was closed, and nobody has come back for it";
                (view.last_present.saturating_sub(broken.at) >= wait)
                    .then(|| Some(broken.request.finding(problem)))
            });
            Outcome::of(findings, LASTED)
        };
    "client-respects-retry", [LAST_LEGACY Must SENDING],
        "A client waits as long as retry says before it comes back for a stream that was closed.",
        |view| {
            let resumed = Resumed::of(view);
            let findings = view.exchanges.values().filter_map(|post| {
                let (_, at, BodyEnd::Complete) = post.end? else { return None };
                let wanted = retry(post)?;
                let again = resumed.by(post)?;
                let waited = again.at.saturating_sub(at);
                Some((waited + JITTER < wanted).then(|| {
                    let (waited, wanted) = (waited.as_millis(), wanted.as_millis());
                    again.finding(format!("it comes after {waited} ms, and retry was {wanted} ms"))
                }))
            });
            Outcome::of(findings, "no stream with retry was closed, or the client did not come back")
        };
    "client-resumes-with-last-id", [LEGACY_SINCE_SECOND Should "basic/transports#resumability-and-redelivery"],
        "A client that comes back for a stream names the last event that it has got on it.",
        |view| {
            let mut standing: Option<&ClientExchange<'_>> = None;
            let mut events: HashMap<&[u8], &ClientExchange<'_>> = HashMap::new();
            let mut findings = Vec::new();
            for post in view.exchanges.values() {
                if post.is("GET") {
                    findings.extend(comes_back(post, standing, &events));
                    standing = Some(post).filter(|post| is_stream(post)).or(standing);
                }
                events.extend(ids(post).map(|id| (id, post)));
            }
            Outcome::of(findings, "the client came back for no stream")
        };
    "client-cancels-explicitly", [LEGACY_SINCE_SECOND Should SENDING],
        "A client that leaves the stream of an answer and does not come back cancels the request.",
        |view| {
            let (resumed, cancelled) = (Resumed::of(view), given_up(view));
            let last = view.requests.last().map_or(Duration::ZERO, |request| request.at);
            let findings = view.exchanges.values().filter_map(|post| {
                let request = asked_in(view, post)?;
                let (place, at, BodyEnd::Left) = post.end? else { return None };
                let unanswered = request.response.is_none_or(|response| response.place > place);
                if !unanswered || request.what.method == Method::Initialize || resumed.by(post).is_some() {
                    return None;
                }
                if cancelled.contains(&request.what.id) {
                    return Some(None);
                }
                // Whoever leaves altogether needs not say so.
                let long = view.trace.answer_within / 2;
                (last.saturating_sub(at) >= long)
                    .then(|| Some(request.finding("its stream was left, and it was not cancelled")))
            });
            Outcome::of(findings, "the client left no stream before its answer")
        };
}

/// A stream that was closed before its answer, and can be resumed.
struct Broken<'t, 'a> {
    post: &'t ClientExchange<'a>,
    request: &'t ClientRequest<'a>,
    at: Duration,
}

fn broken<'t, 'a>(view: &'t ClientView<'a>) -> impl Iterator<Item = Broken<'t, 'a>> {
    view.exchanges.values().filter_map(|post| {
        let request = asked_in(view, post)?;
        let (place, at, BodyEnd::Complete) = post.end? else { return None };
        let unanswered = request.response.is_none_or(|response| response.place > place);
        let primed = is_stream(post) && ids(post).next().is_some();
        (unanswered && primed).then_some(Broken { post, request, at })
    })
}

fn is_stream(post: &ClientExchange<'_>) -> bool {
    let kind = post.response.and_then(|response| response.headers.value(name::CONTENT_TYPE));
    MediaType::of(kind) == MediaType::EventStream
}

/// The ids of its events.
fn ids<'t>(post: &'t ClientExchange<'_>) -> impl Iterator<Item = &'t [u8]> {
    post.events.iter().filter_map(|event| event.id.as_deref())
}

fn retry(post: &ClientExchange<'_>) -> Option<Duration> {
    post.events.iter().rev().find_map(|event| event.retry).map(Duration::from_millis)
}

/// What is to be said of a GET, after that of the session's own stream and all that events have come with.
fn comes_back(
    post: &ClientExchange<'_>,
    standing: Option<&ClientExchange<'_>>,
    events: &HashMap<&[u8], &ClientExchange<'_>>,
) -> Option<Option<Finding>> {
    let Some(given) = post.request.headers.value(name::LAST_EVENT_ID) else {
        // It is the stream of the session that is opened so, once more.
        let before = standing?;
        let ended = matches!(before.end, Some((place, _, BodyEnd::Complete)) if place < post.place);
        let lost = ended && ids(before).next().is_some();
        return lost.then(|| Some(post.finding("Last-Event-ID is missing")));
    };
    let Some(of) = events.get(given) else {
        return Some(Some(post.finding("no event had the id in Last-Event-ID")));
    };
    // Of a stream that did not end in order, nobody knows how far it was read.
    let read = matches!(of.end, Some((_, _, BodyEnd::Complete)));
    let good = !read || ids(of).last() == Some(given);
    Some((!good).then(|| post.finding("other events followed the one in Last-Event-ID")))
}

/// The requests with which the client has come back for streams, by the ids of events.
struct Resumed<'t, 'a>(HashMap<&'t [u8], Vec<&'t ClientExchange<'a>>>);

impl<'t, 'a> Resumed<'t, 'a> {
    fn of(view: &'t ClientView<'a>) -> Self {
        let mut resumed: HashMap<&[u8], Vec<&ClientExchange<'a>>> = HashMap::new();
        for post in view.exchanges.values().filter(|post| post.is("GET")) {
            if let Some(id) = post.request.headers.value(name::LAST_EVENT_ID) {
                resumed.entry(id).or_default().push(post);
            }
        }
        Self(resumed)
    }

    /// The first for that stream.
    fn by(&self, post: &ClientExchange<'_>) -> Option<&'t ClientExchange<'a>> {
        let again = ids(post)
            .filter_map(|id| self.0.get(id))
            .filter_map(|again| again.get(again.partition_point(|again| again.place <= post.place)).copied());
        again.min_by_key(|again| again.place)
    }
}

fn given_up(view: &ClientView<'_>) -> BTreeSet<RequestId> {
    cancelled(view).filter_map(|(_, id)| id).collect()
}
