//! What a client makes of the replies to its POSTs: of both forms that they have, and of refusals that say more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Method, Raw, RequestId, code};

use super::talk::{Asked, Post, Talk};
use super::utilities::{CROSSING, cancelled};
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::seen::{Seen, member, text};
use crate::trace::{Channel, What};

/// A client that begins anew because of an answer does so within this time.
const AT_ONCE: Duration = Duration::from_secs(2);

pub(super) static RULES: [Rule; 3] = [
    Rule {
        slug: "client-takes-both-replies",
        chapter: Chapter::StreamableHttp,
        sentence: "A client takes an answer as JSON and as an event of a stream.",
        sources: &[
            Source::new(
                Revisions::LEGACY_SINCE_SECOND,
                Must,
                "basic/transports#sending-messages-to-the-server",
            ),
            Source::new(Revisions::MODERN, Must, "basic/transports/streamable-http#sending-messages"),
        ],
        judge: |seen| {
            let talk = seen.talk();
            let unread = unread(talk);
            let mut judged = Vec::new();
            for form in [MediaType::Json, MediaType::EventStream] {
                let given: Vec<&Asked<'_>> = replied(talk, form).collect();
                let lost = given.iter().find(|asked| unread.contains(&asked.what.id));
                let last = talk.asked.last().map_or(0, |asked| asked.place);
                let went_on = |asked: &&Asked<'_>| asked.answer.is_some_and(|said| said.place < last);
                if let Some(lost) = lost {
                    judged
                        .push(Some(lost.finding(format!("its answer came {}, and was not read", how(form)))));
                } else if given.iter().any(went_on) {
                    judged.push(None);
                }
            }
            if judged.len() < 2 && judged.iter().all(Option::is_none) {
                return Outcome::Skipped("the client did not get both, or did not go on");
            }
            Outcome::of(judged, "the client asked for nothing")
        },
    },
    Rule {
        slug: "client-refreshes-after-mismatch",
        chapter: Chapter::StreamableHttp,
        sentence: "A client whose call was refused for its headers lists the tools before it calls again.",
        sources: &[Source::new(
            Revisions::MODERN,
            Should,
            "basic/transports/streamable-http#client-behavior",
        )],
        judge: |seen| {
            let talk = seen.talk();
            let judged = talk.calls(&Method::CallTool).filter_map(|asked| {
                let said = asked.answer?;
                let error = said.outcome.as_ref().err()?;
                let tool = named(asked)?;
                if error.code != code::HEADER_MISMATCH {
                    return None;
                }
                let again = talk
                    .calls(&Method::CallTool)
                    .find(|next| next.place > said.place && named(next).as_ref() == Some(&tool))?;
                let listed = talk
                    .calls(&Method::ListTools)
                    .any(|list| list.place > said.place && list.place < again.place);
                Some((!listed).then(|| again.finding(format!("{tool} was called again as it was"))))
            });
            Outcome::of(judged, "no call was refused so, or none came again")
        },
    },
    Rule {
        slug: "client-reads-400-before-falling-back",
        chapter: Chapter::StreamableHttp,
        sentence: "A client that gets the status 400 with an error of the modern era does not fall back to initialize.",
        sources: &[Source::new(
            Revisions::MODERN,
            Should,
            "basic/transports/streamable-http#backward-compatibility",
        )],
        judge: |seen| {
            let talk = seen.talk();
            let refused = talk.posts.values().filter(|post| post.status() == Some(400));
            let judged = refused.filter_map(|post| {
                let asked = asked_in(talk, post)?;
                let said = asked.answer?;
                let error = said.outcome.as_ref().err()?;
                if !is_modern(error.code) {
                    return None;
                }
                let next = talk.asked.get(talk.asked.partition_point(|next| next.place <= said.place));
                if next.is_some_and(|next| next.at.saturating_sub(said.at) <= AT_ONCE) {
                    return Some(None);
                }
                let fell = fallen_back(seen, asked, said.at)?;
                let problem = format!("it came after the error {}", error.code);
                Some(Some(talk.finding(problem, fell)))
            });
            Outcome::of(judged, "nothing was refused so, or the client left")
        },
    },
];

/// The errors by which a server shows that it is of the modern era.
pub(super) const fn is_modern(error: i64) -> bool {
    matches!(
        error,
        code::HEADER_MISMATCH | code::MISSING_REQUIRED_CLIENT_CAPABILITY | code::UNSUPPORTED_PROTOCOL_VERSION
    )
}

/// The requests of the client that it has cancelled long after their whole answers had come over HTTP: where it has read
/// no other answer of that form, it cannot read it.
pub(super) fn unread(talk: &Talk<'_>) -> BTreeSet<RequestId> {
    let mut unread = BTreeSet::new();
    if !talk.is_http() {
        return unread;
    }
    let asked: BTreeMap<&RequestId, &Asked<'_>> =
        talk.asked.iter().map(|asked| (&asked.what.id, asked)).collect();
    let given_up: BTreeSet<RequestId> = cancelled(talk)
        .filter_map(|(told, id)| {
            let id = id?;
            let said = asked.get(&id)?.answer.filter(|said| said.place < told.place)?;
            (told.at.saturating_sub(said.at) > CROSSING).then_some(id)
        })
        .collect();
    if given_up.is_empty() {
        return unread;
    }
    for form in [MediaType::Json, MediaType::EventStream] {
        let given: Vec<&RequestId> = replied(talk, form).map(|asked| &asked.what.id).collect();
        if given.iter().all(|id| given_up.contains(*id)) {
            unread.extend(given.into_iter().cloned());
        }
    }
    unread
}

/// The requests with an answer of that form.
fn replied<'t, 'a>(talk: &'t Talk<'a>, form: MediaType) -> impl Iterator<Item = &'t Asked<'a>> {
    let posts = talk.posts.values().filter(move |post| {
        let kind = post.response.and_then(|response| response.headers.value(name::CONTENT_TYPE));
        post.is("POST") && post.status() == Some(200) && MediaType::of(kind) == form
    });
    posts.filter_map(|post| asked_in(talk, post)).filter(|asked| asked.answer.is_some())
}

/// The one request that was posted there.
pub(super) fn asked_in<'t, 'a>(talk: &'t Talk<'a>, post: &Post<'a>) -> Option<&'t Asked<'a>> {
    let body = post.body?;
    let place = talk.asked.partition_point(|asked| asked.place < post.place);
    talk.asked.get(place..)?.iter().find(|asked| is(body, asked))
}

fn is(body: &crate::trace::Line, asked: &Asked<'_>) -> bool {
    std::ptr::eq(body, asked.line)
}

const fn how(form: MediaType) -> &'static str {
    match form {
        MediaType::Json => "as JSON",
        _ => "on a stream",
    }
}

fn named(asked: &Asked<'_>) -> Option<String> {
    text(asked.what.params.as_ref()?.raw(), "name")
}

/// The `initialize` that the same client has sent at once after that.
fn fallen_back<'a>(seen: &Seen<'a>, asked: &Asked<'_>, since: Duration) -> Option<&'a crate::trace::Line> {
    let of = |info: Raw| text(&info, "name");
    let client = asked.meta().and_then(|meta| member(&meta, key::CLIENT_INFO)).and_then(of);
    let others = seen
        .trace
        .runs
        .iter()
        .filter(|run| run.channel == Channel::StreamableHttp && Revisions::LEGACY.contains(&run.version));
    let events = others.flat_map(|run| &run.events);
    let soon = events.filter(|event| event.at >= since && event.at.saturating_sub(since) <= AT_ONCE);
    let mut lines = soon.filter_map(|event| match &event.what {
        What::Received(line) => Some(line),
        _ => None,
    });
    lines.find(|line| {
        line.parts().filter_map(Result::ok).any(|message| match message {
            mcpjoin_proto::Message::Request(request) if request.method == Method::Initialize => {
                let info = request.params.as_ref().and_then(|params| member(params.raw(), "clientInfo"));
                info.and_then(of) == client
            }
            _ => false,
        })
    })
}
