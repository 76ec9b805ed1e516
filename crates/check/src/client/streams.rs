//! The streams of Streamable HTTP in the legacy era, as a client keeps them when they break.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::{Method, RequestId};

use super::replies::asked_in;
use super::talk::{Asked, Post, Talk};
use super::utilities::cancelled;
use crate::exchange::BodyEnd;
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};

const SENDING: &str = "basic/transports#sending-messages-to-the-server";
/// Two clocks, and what is on its way between them.
const JITTER: Duration = Duration::from_millis(50);
const LASTED: &str = "every stream lasted until its answer";

pub(super) static RULES: [Rule; 4] = [
    Rule {
        slug: "client-polls-primed-stream",
        chapter: Chapter::StreamableHttp,
        sentence: "A client comes back for a stream that was closed before its answer, and had an event with an id.",
        sources: &[Source::new(Revisions::LAST_LEGACY, Should, SENDING)],
        judge: |seen| {
            let talk = seen.talk();
            let (resumed, cancelled) = (Resumed::of(talk), given_up(talk));
            let judged = broken(talk).filter_map(|broken| {
                if resumed.by(broken.post).is_some() {
                    return Some(None);
                }
                // Nobody comes back for what was given up.
                if cancelled.contains(&broken.asked.what.id) {
                    return None;
                }
                let wait = retry(broken.post).unwrap_or_default() + seen.trace.answer_within;
                let problem = "the stream of its answer was closed, and nobody has come back for it";
                (talk.here.saturating_sub(broken.at) >= wait).then(|| Some(broken.asked.finding(problem)))
            });
            Outcome::of(judged, LASTED)
        },
    },
    Rule {
        slug: "client-respects-retry",
        chapter: Chapter::StreamableHttp,
        sentence: "A client waits as long as retry says before it comes back for a stream that was closed.",
        sources: &[Source::new(Revisions::LAST_LEGACY, Must, SENDING)],
        judge: |seen| {
            let talk = seen.talk();
            let resumed = Resumed::of(talk);
            let judged = talk.posts.values().filter_map(|post| {
                let (_, at, BodyEnd::Complete) = post.end? else { return None };
                let wanted = retry(post)?;
                let again = resumed.by(post)?;
                let waited = again.at.saturating_sub(at);
                Some((waited + JITTER < wanted).then(|| {
                    let (waited, wanted) = (waited.as_millis(), wanted.as_millis());
                    again.finding(format!("it comes after {waited} ms, and retry was {wanted} ms"))
                }))
            });
            Outcome::of(judged, "no stream with retry was closed, or the client did not come back")
        },
    },
    Rule {
        slug: "client-resumes-with-last-id",
        chapter: Chapter::StreamableHttp,
        sentence: "A client that comes back for a stream names the last event that it has got on it.",
        sources: &[Source::new(
            Revisions::LEGACY_SINCE_SECOND,
            Should,
            "basic/transports#resumability-and-redelivery",
        )],
        judge: |seen| {
            let talk = seen.talk();
            let mut standing: Option<&Post<'_>> = None;
            let mut events: HashMap<&[u8], &Post<'_>> = HashMap::new();
            let mut judged = Vec::new();
            for post in talk.posts.values() {
                if post.is("GET") {
                    judged.extend(comes_back(post, standing, &events));
                    standing = Some(post).filter(|post| is_stream(post)).or(standing);
                }
                events.extend(ids(post).map(|id| (id, post)));
            }
            Outcome::of(judged, "the client came back for no stream")
        },
    },
    Rule {
        slug: "client-cancels-explicitly",
        chapter: Chapter::StreamableHttp,
        sentence: "A client that leaves the stream of an answer and does not come back cancels the request.",
        sources: &[Source::new(Revisions::LEGACY_SINCE_SECOND, Should, SENDING)],
        judge: |seen| {
            let talk = seen.talk();
            let (resumed, cancelled) = (Resumed::of(talk), given_up(talk));
            let last = talk.asked.last().map_or(Duration::ZERO, |asked| asked.at);
            let judged = talk.posts.values().filter_map(|post| {
                let asked = asked_in(talk, post)?;
                let (place, at, BodyEnd::Left) = post.end? else { return None };
                let unanswered = asked.answer.is_none_or(|said| said.place > place);
                if !unanswered || asked.what.method == Method::Initialize || resumed.by(post).is_some() {
                    return None;
                }
                if cancelled.contains(&asked.what.id) {
                    return Some(None);
                }
                // Whoever leaves altogether needs not say so.
                let long = seen.trace.answer_within / 2;
                (last.saturating_sub(at) >= long)
                    .then(|| Some(asked.finding("its stream was left, and it was not cancelled")))
            });
            Outcome::of(judged, "the client left no stream before its answer")
        },
    },
];

/// A stream that was closed before its answer, and can be resumed.
struct Broken<'t, 'a> {
    post: &'t Post<'a>,
    asked: &'t Asked<'a>,
    at: Duration,
}

fn broken<'t, 'a>(talk: &'t Talk<'a>) -> impl Iterator<Item = Broken<'t, 'a>> {
    talk.posts.values().filter_map(|post| {
        let asked = asked_in(talk, post)?;
        let (place, at, BodyEnd::Complete) = post.end? else { return None };
        let unanswered = asked.answer.is_none_or(|said| said.place > place);
        let primed = is_stream(post) && ids(post).next().is_some();
        (unanswered && primed).then_some(Broken { post, asked, at })
    })
}

fn is_stream(post: &Post<'_>) -> bool {
    let kind = post.response.and_then(|response| response.headers.value(name::CONTENT_TYPE));
    MediaType::of(kind) == MediaType::EventStream
}

/// The ids of its events.
fn ids<'t>(post: &'t Post<'_>) -> impl Iterator<Item = &'t [u8]> {
    post.events.iter().filter_map(|event| event.id.as_deref())
}

fn retry(post: &Post<'_>) -> Option<Duration> {
    post.events.iter().rev().find_map(|event| event.retry).map(Duration::from_millis)
}

/// What is to be said of a GET, after that of the session's own stream and all that events have come with.
fn comes_back(
    post: &Post<'_>,
    standing: Option<&Post<'_>>,
    events: &HashMap<&[u8], &Post<'_>>,
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
struct Resumed<'t, 'a>(HashMap<&'t [u8], Vec<&'t Post<'a>>>);

impl<'t, 'a> Resumed<'t, 'a> {
    fn of(talk: &'t Talk<'a>) -> Self {
        let mut resumed: HashMap<&[u8], Vec<&Post<'a>>> = HashMap::new();
        for post in talk.posts.values().filter(|post| post.is("GET")) {
            if let Some(id) = post.request.headers.value(name::LAST_EVENT_ID) {
                resumed.entry(id).or_default().push(post);
            }
        }
        Self(resumed)
    }

    /// The first for that stream.
    fn by(&self, post: &Post<'_>) -> Option<&'t Post<'a>> {
        let again = ids(post)
            .filter_map(|id| self.0.get(id))
            .filter_map(|again| again.get(again.partition_point(|again| again.place <= post.place)).copied());
        again.min_by_key(|again| again.place)
    }
}

fn given_up(talk: &Talk<'_>) -> BTreeSet<RequestId> {
    cancelled(talk).filter_map(|(_, id)| id).collect()
}
