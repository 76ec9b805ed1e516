//! What a client makes of what the server asks and tells it: the legacy era alone, in which servers ask.

use std::collections::BTreeMap;

use mcpjoin_proto::{Method, code};

use super::messages::RESPONSES;
use super::talk::{Ours, Said, Talk};
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Seen, members};
use crate::trace::{Line, Probe, What};

const PING: &[Source] = &[Source::new(Revisions::LEGACY, Must, "basic/utilities/ping#behavior-requirements")];
const RESPONSE: &str = "https://www.jsonrpc.org/specification#response_object";
const CODES: &str = "https://www.jsonrpc.org/specification#error_object";

pub(super) static RULES: [Rule; 9] = [
    Rule {
        slug: "client-response-id",
        chapter: Chapter::Base,
        sentence: "A client's response has the id of a request that it got, unchanged: 1 and \"1\" are two ids.",
        sources: RESPONSES,
        judge: |seen| {
            let talk = seen.talk();
            let unknown = unknown_notifications(talk);
            let good = talk.ours.iter().filter(|ours| ours.answer.is_some()).map(|_| None);
            let strays = talk.strays.iter().filter(|said| !is_known(talk, said));
            let batches = Batches::of(talk);
            let strays =
                strays.filter(|said| told(&unknown, said).is_none() && batches.refused_by(said).is_none());
            let strays = strays.map(|said| {
                let id = said.id.map_or_else(|| "no id".into(), |id| format!("the id {id}"));
                Some(talk.finding(format!("this response has {id}, and no request had"), said.line))
            });
            Outcome::of(good.chain(strays), "the client answered nothing")
        },
    },
    Rule {
        slug: "client-answered-once",
        chapter: Chapter::Base,
        sentence: "A client answers a request once.",
        sources: &[Source::new(Revisions::LEGACY, Must, RESPONSE)],
        judge: |seen| {
            let talk = seen.talk();
            let mut strays = BTreeMap::new();
            for said in &talk.strays {
                strays.entry(said.id).or_insert(said);
            }
            let judged = talk.ours.iter().filter_map(|ours| {
                let first = ours.answer?;
                let again = strays.get(&first.id);
                Some(again.map(|said| {
                    ours.finding(format!("{} was answered a second time", ours.what.method), said.line)
                }))
            });
            Outcome::of(judged, "the client answered nothing")
        },
    },
    Rule {
        slug: "client-request-answered",
        chapter: Chapter::Base,
        sentence: "A client answers each request.",
        sources: &[Source::new(Revisions::LEGACY, Must, RESPONSE)],
        judge: |seen| {
            let talk = seen.talk();
            // A ping has a rule of its own, and for what a person decides there is no time.
            let judged = talk
                .ours
                .iter()
                .filter(|ours| {
                    !matches!(ours.what.method, Method::Ping | Method::CreateMessage | Method::Elicit)
                })
                .filter(|ours| may_be_judged(seen, talk, ours))
                .map(|ours| silence(talk, ours));
            Outcome::of(judged, "nothing was asked of it, or it was gone too soon")
        },
    },
    Rule {
        slug: "client-ping-answered",
        chapter: Chapter::Base,
        sentence: "A client answers a ping at once, with an empty result.",
        sources: PING,
        judge: |seen| {
            let talk = seen.talk();
            // Those that follow something else show what was made of that.
            let own = [Probe::AfterCancel, Probe::AfterElicitation, Probe::Batch];
            let pings = talk.ours.iter().filter(|ours| ours.what.method == Method::Ping);
            let pings = pings.filter(|ours| !own.contains(&ours.probe));
            let judged = pings.filter(|ours| may_be_judged(seen, talk, ours)).map(|ours| {
                let Some(said) = ours.answer else { return silence(talk, ours) };
                match said.outcome {
                    Err(error) => Some(
                        ours.finding(format!("it was answered with the error {}", error.code), said.line),
                    ),
                    Ok(result) => {
                        let empty = members(result.raw())
                            .is_none_or(|result| result.keys().all(|name| name == "_meta"));
                        (!empty).then(|| ours.finding("its result is not empty", said.line))
                    }
                }
            });
            Outcome::of(judged, "the client was not pinged, or it was gone too soon")
        },
    },
    Rule {
        slug: "client-unknown-method-refused",
        chapter: Chapter::Base,
        sentence: "A client answers a request with a method that does not exist with an error.",
        sources: &[Source::new(Revisions::LEGACY, Must, RESPONSE)],
        judge: |seen| {
            let judged = unknown(seen.talk()).map(|(ours, said)| {
                said.outcome
                    .is_ok()
                    .then(|| ours.finding("a method that no client has brought a result", said.line))
            });
            Outcome::of(judged, "no unknown method was asked for, or it was not answered")
        },
    },
    Rule {
        slug: "client-unknown-method-code",
        chapter: Chapter::Base,
        sentence: "A client's error for a method that does not exist has the code -32601.",
        sources: &[Source::new(Revisions::LEGACY, Should, CODES)],
        judge: |seen| {
            let refused = unknown(seen.talk()).filter_map(|(ours, said)| {
                let code = said.outcome.as_ref().err()?.code;
                Some((code != code::METHOD_NOT_FOUND).then(|| {
                    ours.finding(format!("the code is {code}, not {}", code::METHOD_NOT_FOUND), said.line)
                }))
            });
            Outcome::of(refused, "no unknown method was refused")
        },
    },
    Rule {
        slug: "client-notification-not-answered",
        chapter: Chapter::Base,
        sentence: "A client answers no notification.",
        sources: &[
            Source::new(Revisions::FIRST, Must, "https://www.jsonrpc.org/specification#notification"),
            Source::new(Revisions::LEGACY_SINCE_SECOND, Must, "basic#notifications"),
        ],
        judge: |seen| {
            let talk = seen.talk();
            let (unknown, batches) = (unknown_notifications(talk), Batches::of(talk));
            let good = unknown.iter().map(|_| None);
            let answered = talk.strays.iter().filter_map(|said| {
                if batches.refused_by(said).is_some() {
                    return None;
                }
                let told = told(&unknown, said)?;
                Some(Some(Finding::new(
                    "a notification was answered",
                    Some(told.bytes()),
                    Some(said.line.bytes()),
                )))
            });
            Outcome::of(good.chain(answered), "the client was told nothing")
        },
    },
    Rule {
        slug: "client-receives-batches",
        chapter: Chapter::Base,
        sentence: "A client takes an array of requests, and answers each of them.",
        sources: &[Source::new(Revisions::BATCHING, Must, "basic#batching")],
        judge: |seen| {
            let talk = seen.talk();
            let asked = talk.ours.iter().filter(|ours| ours.probe == Probe::Batch);
            let batches = Batches::of(talk);
            let refused = talk.strays.iter().find(|said| batches.refused_by(said).is_some());
            let judged = asked.filter(|ours| may_be_judged(seen, talk, ours)).map(|ours| {
                if ours.answer.is_some() {
                    return None;
                }
                let refused = refused.map(|said| ours.finding("the array was refused", said.line));
                refused.or_else(|| silence(talk, ours))
            });
            Outcome::of(judged, "the client got no array, or it was gone too soon")
        },
    },
    Rule {
        slug: "client-sends-no-response",
        chapter: Chapter::Base,
        sentence: "A client sends no response: what a server needs is brought by another request.",
        sources: &[Source::new(Revisions::MODERN, Must, "basic/transports#messages")],
        judge: |seen| {
            let talk = seen.talk();
            let good = talk.asked.iter().map(|_| None);
            let answered = talk.ours.iter().filter_map(|ours| ours.answer);
            let said = answered.chain(talk.strays.iter().copied());
            let sent = said.map(|said| Some(talk.finding("this is a response", said.line)));
            Outcome::of(good.chain(sent), "the client sent no request")
        },
    },
];

fn is_known(talk: &Talk<'_>, said: &Said<'_>) -> bool {
    said.id.is_some_and(|id| talk.has_asked(id))
}

/// The notifications of ours that nobody knows, each by its place.
fn unknown_notifications<'a>(talk: &Talk<'a>) -> BTreeMap<usize, &'a Line> {
    let events = talk.run.events.iter().enumerate();
    let unknown = events.filter_map(|(place, event)| match &event.what {
        What::Sent(
            Probe::UnknownNotification
            | Probe::CompletedCancel
            | Probe::MalformedCancel
            | Probe::UnknownElicitation,
            line,
        ) => Some((place, line)),
        _ => None,
    });
    unknown.collect()
}

/// The one of them that a response without an id may be for.
fn told<'a>(unknown: &BTreeMap<usize, &'a Line>, said: &Said<'_>) -> Option<&'a Line> {
    let before = unknown.range(..said.place).next_back().filter(|_| said.id.is_none());
    before.map(|(_, line)| *line)
}

/// What the client got, and where in it arrays are.
struct Batches(Vec<(usize, Probe)>);

impl Batches {
    fn of(talk: &Talk<'_>) -> Self {
        let events = talk.run.events.iter().enumerate();
        let sent = events.filter_map(|(place, event)| match &event.what {
            What::Sent(probe, _) => Some((place, *probe)),
            _ => None,
        });
        Self(sent.collect())
    }

    /// The array that a response without an id may refuse: the last that the client got before it.
    fn refused_by(&self, said: &Said<'_>) -> Option<usize> {
        let before = self.0.partition_point(|(place, _)| *place < said.place);
        let (place, probe) = self.0.get(before.checked_sub(1)?)?;
        (*probe == Probe::Batch && said.id.is_none()).then_some(*place)
    }
}

/// Whether there is something to say of a request of ours: it has an answer, or one was due and there was time for it.
fn may_be_judged(seen: &Seen<'_>, talk: &Talk<'_>, ours: &Ours<'_>) -> bool {
    let waited = talk.here;
    ours.answer.is_some()
        || ours.cancelled.is_none() && waited.saturating_sub(ours.at) >= seen.trace.answer_within
}

fn silence(talk: &Talk<'_>, ours: &Ours<'_>) -> Option<Finding> {
    // What is no message may have been the answer.
    let broken = || talk.faults.last().is_some_and(|(place, ..)| *place > ours.place);
    let after = |said: &&Said<'_>| said.place > ours.place;
    let stray = || talk.strays.iter().rev().take_while(after).any(|said| !is_known(talk, said));
    (ours.answer.is_none() && !broken() && !stray()).then(|| {
        let problem = format!("{} was not answered", ours.what.method);
        Finding::new(problem, Some(ours.line.bytes()), None)
    })
}

/// Our requests with a method that nobody has, each with its answer.
fn unknown<'t, 'a>(talk: &'t Talk<'a>) -> impl Iterator<Item = (&'t Ours<'a>, Said<'a>)> {
    let asked = talk.ours.iter().filter(|ours| ours.probe == Probe::UnknownMethod);
    asked.filter_map(|ours| Some((ours, ours.answer?)))
}
