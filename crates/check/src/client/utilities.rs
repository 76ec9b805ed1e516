//! What either side may send beside its requests: cancellations, progress, cursors.

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::{Kind, Method, Payload, Raw, RequestId};

use super::replies::unread;
use super::talk::{Asked, Talk, plain};
use super::tasks::of_tasks;
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must};
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::seen::member;

/// An answer that has been sent for no longer than this may have crossed with what the client has sent.
pub(super) const CROSSING: std::time::Duration = std::time::Duration::from_secs(1);

const CANCELLATION: &[Source] = &[
    Source::new(Revisions::LEGACY, Must, "basic/utilities/cancellation#behavior-requirements"),
    Source::new(Revisions::MODERN, Must, "basic/patterns/cancellation#behavior-requirements"),
];
const PROGRESS: &[Source] = &[
    Source::new(Revisions::LEGACY, Must, "basic/utilities/progress#progress-flow"),
    Source::new(Revisions::MODERN, Must, "basic/patterns/progress#progress-flow"),
];

pub(super) static RULES: [Rule; 7] = [
    Rule {
        slug: "client-cancels-what-is-under-way",
        chapter: Chapter::Base,
        sentence: "A client cancels requests that it has sent, and that it believes to be under way.",
        sources: CANCELLATION,
        judge: |seen| {
            let talk = seen.talk();
            let mut first = BTreeMap::new();
            for asked in &talk.asked {
                first.entry(&asked.what.id).or_insert(asked);
            }
            // These have rules of their own.
            let (tasks, unread) = (of_tasks(talk), unread(talk));
            let judged = cancelled(talk).map(|(told, id)| {
                let Some(id) = id else {
                    return Some(talk.finding("it names no request", told.line));
                };
                if tasks.contains_key(&id) || unread.contains(&id) {
                    return None;
                }
                let Some(request) = first.get(&id).filter(|asked| asked.place < told.place) else {
                    return Some(talk.finding(format!("no request had the id {id}"), told.line));
                };
                let over = request.answer.is_some_and(|said| {
                    said.place < told.place && told.at.saturating_sub(said.at) > CROSSING
                });
                let problem = || format!("{} with the id {id} was answered long before", request.what.method);
                over.then(|| talk.finding(problem(), told.line))
            });
            Outcome::of(judged, "the client cancelled nothing")
        },
    },
    Rule {
        slug: "client-never-cancels-initialize",
        chapter: Chapter::Base,
        sentence: "A client does not cancel initialize.",
        sources: &[Source::new(
            Revisions::LEGACY,
            Must,
            "basic/utilities/cancellation#behavior-requirements",
        )],
        judge: |seen| {
            let talk = seen.talk();
            let opened: BTreeSet<&RequestId> =
                talk.calls(&Method::Initialize).map(|asked| &asked.what.id).collect();
            let judged = cancelled(talk).map(|(told, id)| {
                id.is_some_and(|id| opened.contains(&id))
                    .then(|| talk.finding("the request that it names is initialize", told.line))
            });
            Outcome::of(judged, "the client cancelled nothing")
        },
    },
    Rule {
        slug: "client-progress-token",
        chapter: Chapter::Base,
        sentence: "A progress token of a client is a string or an integer.",
        sources: PROGRESS,
        judge: |seen| {
            let judged = tokens(seen.talk()).map(|(asked, token)| {
                let good = token.decode::<RequestId>().is_ok();
                (!good).then(|| asked.finding(format!("the progress token is {token}")))
            });
            Outcome::of(judged, "the client asked for no progress")
        },
    },
    Rule {
        slug: "client-progress-token-unique",
        chapter: Chapter::Base,
        sentence: "No two requests of a client that are under way have the same progress token.",
        sources: PROGRESS,
        judge: |seen| {
            let talk = seen.talk();
            // What was cancelled is under way no longer, nor, over HTTP, what nobody waits for.
            let given_up: BTreeMap<RequestId, usize> =
                cancelled(talk).filter_map(|(told, id)| Some((id?, told.place))).collect();
            let mut last: BTreeMap<String, &Asked<'_>> = BTreeMap::new();
            let judged = tokens(talk).map(|(asked, token)| {
                let earlier = last.insert(plain(&token).to_string(), asked)?;
                let answered = earlier.answer.is_some_and(|said| said.place < asked.place);
                let ended = given_up.get(&earlier.what.id).is_some_and(|place| *place < asked.place);
                let over = answered || ended || talk.is_http() && talk.is_modern();
                (!over).then(|| {
                    asked.finding(format!(
                        "the progress token {token} is that of {} with the id {}, which is not answered yet",
                        earlier.what.method, earlier.what.id
                    ))
                })
            });
            Outcome::of(judged, "the client asked for no progress")
        },
    },
    Rule {
        slug: "client-own-progress",
        chapter: Chapter::Base,
        sentence: "A client tells of the progress of requests to it, by their tokens, and it increases each time.",
        sources: &[Source::new(Revisions::LEGACY, Must, "basic/utilities/progress#behavior-requirements")],
        judge: |seen| {
            let talk = seen.talk();
            let mut first = BTreeMap::new();
            for ours in &talk.ours {
                let meta = ours.what.params.as_ref().and_then(Payload::meta);
                if let Some(token) = meta.and_then(|meta| member(&meta, "progressToken")) {
                    first.entry(plain(&token).to_string()).or_insert(ours);
                }
            }
            let mut last: BTreeMap<String, f64> = BTreeMap::new();
            let told = talk.told.iter().filter(|told| told.what.method == Method::Progress);
            let judged = told.map(|told| {
                let params = told.what.params.as_ref().map(Payload::raw)?;
                let token = member(params, "progressToken").map(|token| plain(&token).to_string());
                let ours = token.as_ref().and_then(|token| first.get(token));
                let ours = ours.filter(|ours| ours.place < told.place);
                let (Some(token), Some(ours)) = (token, ours) else {
                    return Some(talk.finding("no request to the client had this token", told.line));
                };
                if ours.answer.is_some_and(|said| said.place < told.place) {
                    return Some(talk.finding("the request with this token was answered", told.line));
                }
                let progress = member(params, "progress")?.as_str().parse::<f64>().ok()?;
                let before = last.insert(token, progress).filter(|before| progress <= *before)?;
                Some(talk.finding(format!("{progress} comes after {before}"), told.line))
            });
            Outcome::of(judged, "the client told of no progress")
        },
    },
    Rule {
        slug: "client-cursor-unchanged",
        chapter: Chapter::Base,
        sentence: "A client hands a cursor back as it got it, for the same list.",
        sources: &[Source::new(
            Revisions::ALL,
            Must,
            "server/utilities/pagination#implementation-guidelines",
        )],
        judge: |seen| {
            let talk = seen.talk();
            let pages = talk.asked.iter().filter_map(|page| {
                let result = page.answer?.outcome.as_ref().ok()?;
                Some((page.what.method.as_str(), plain(&member(result.raw(), "nextCursor")?).to_string()))
            });
            let given: BTreeSet<(&str, String)> = pages.collect();
            let judged = talk.asked.iter().filter_map(|asked| {
                let cursor = plain(&member(asked.what.params.as_ref()?.raw(), "cursor")?).to_string();
                let problem = || format!("no page of {} has led to this cursor", asked.what.method);
                let known = given.contains(&(asked.what.method.as_str(), cursor));
                Some((!known).then(|| asked.finding(problem())))
            });
            Outcome::of(judged, "no page had another after it, or it was not asked for")
        },
    },
    Rule {
        slug: "client-log-level",
        chapter: Chapter::Base,
        sentence: "The level from which on a client wants log messages is one of the eight.",
        sources: &[
            Source::new(Revisions::LEGACY, Advice, "server/utilities/logging#log-levels"),
            Source::new(Revisions::MODERN, Advice, "basic#meta"),
        ],
        judge: |seen| {
            let talk = seen.talk();
            let key = mcpjoin_proto::types::meta::key::LOG_LEVEL;
            let judged = talk.asked.iter().filter_map(|asked| {
                let level = if talk.is_modern() {
                    member(&asked.meta()?, key)?
                } else if asked.what.method == Method::SetLevel {
                    member(asked.what.params.as_ref()?.raw(), "level")?
                } else {
                    return None;
                };
                let good = LEVELS.iter().any(|known| level.to_string_value().as_deref() == Some(*known));
                Some((!good).then(|| asked.finding(format!("the level is {level}"))))
            });
            Outcome::of(judged, "the client asked for no log messages")
        },
    },
];

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The cancellations, each with the id that it names.
pub(super) fn cancelled<'t, 'a>(
    talk: &'t Talk<'a>,
) -> impl Iterator<Item = (&'t super::talk::Told<'a>, Option<RequestId>)> {
    let told = talk.told.iter().filter(|told| told.what.method == Method::Cancelled);
    told.map(|told| {
        let id = told.what.params.as_ref().and_then(|params| member(params.raw(), "requestId"));
        (told, id.and_then(|id| id.decode().ok()))
    })
}

/// The requests that ask for progress, each with its token.
fn tokens<'t, 'a>(talk: &'t Talk<'a>) -> impl Iterator<Item = (&'t Asked<'a>, Raw)> {
    talk.asked.iter().filter_map(|asked| Some((asked, member(&asked.meta()?, "progressToken")?)))
}

/// Whether a value is a string.
pub(super) fn is_string(raw: Option<&Raw>) -> bool {
    raw.is_some_and(|raw| raw.kind() == Kind::String)
}
