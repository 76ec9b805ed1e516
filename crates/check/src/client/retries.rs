//! How a client brings what an answer has asked for: in the request, sent once more.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#client-requirements-basic-workflow>

use mcpjoin_proto::Raw;

use super::talk::{Retry, Talk, subject};
use crate::revisions::Revisions;
use crate::rule::Level::Must;
use crate::rule::{Chapter, Outcome, Rule, Source};

const REQUIREMENTS: &[Source] =
    &[Source::new(Revisions::MODERN, Must, "basic/patterns/mrtr#client-requirements-basic-workflow")];
const NOTHING: &str = "the client brought nothing that an answer had asked for";

pub(super) static RULES: [Rule; 5] = [
    Rule {
        slug: "client-echoes-state",
        chapter: Chapter::ClientFeatures,
        sentence: "A client gives the requestState of an answer back as it was, when it sends the request again.",
        sources: REQUIREMENTS,
        judge: |seen| {
            let talk = seen.talk();
            let judged = talk.retries().into_iter().filter_map(|(retry, needed)| {
                let wanted = needed.state?;
                if is_of_another(talk, &retry) {
                    return None;
                }
                let problem = match &retry.state {
                    None => Some("requestState is missing"),
                    // A request may have been answered so several times, and be sent again for each.
                    Some(given) if *given != wanted && !is_known(talk, given) => {
                        Some("requestState is not the one that came")
                    }
                    Some(_) => None,
                };
                Some(problem.map(|problem| retry.asked.finding(problem)))
            });
            Outcome::of(judged, NOTHING)
        },
    },
    Rule {
        slug: "client-adds-no-state",
        chapter: Chapter::ClientFeatures,
        sentence: "A client sends no requestState when none came.",
        sources: REQUIREMENTS,
        judge: |seen| {
            let talk = seen.talk();
            let retries = talk.retries();
            let judged = talk.asked.iter().filter_map(Retry::of).filter_map(|retry| {
                let needed = retries.iter().find(|(other, _)| other.asked.place == retry.asked.place);
                if needed.is_some_and(|(_, needed)| needed.state.is_some()) {
                    return None;
                }
                let invented = retry.state.as_ref().is_some_and(|given| !is_known(talk, given));
                Some(invented.then(|| retry.asked.finding("no answer had this requestState")))
            });
            Outcome::of(judged, NOTHING)
        },
    },
    Rule {
        slug: "client-retry-has-new-id",
        chapter: Chapter::ClientFeatures,
        sentence: "A request that is sent again with what was asked for has another id.",
        sources: REQUIREMENTS,
        judge: |seen| {
            let talk = seen.talk();
            let needed = talk.needed();
            let judged = talk.retries().into_iter().map(|(retry, of)| {
                let first = needed.iter().find(|(_, needed)| needed.place == of.place)?;
                (first.0.what.id == retry.asked.what.id)
                    .then(|| retry.asked.finding(format!("its id is {}, as before", retry.asked.what.id)))
            });
            Outcome::of(judged, NOTHING)
        },
    },
    Rule {
        slug: "client-answers-inputs",
        chapter: Chapter::ClientFeatures,
        sentence: "A client sends a request again with all that was asked for, under the names that it was asked by.",
        sources: REQUIREMENTS,
        judge: |seen| {
            let talk = seen.talk();
            let judged = talk.retries().into_iter().filter_map(|(retry, needed)| {
                let wanted = needed.requests?;
                let is_this = retry.state == needed.state;
                if !is_this && retry.state.as_ref().is_some_and(|given| is_known(talk, given)) {
                    // It is for an earlier answer of the same kind.
                    return None;
                }
                let lacks = wanted
                    .keys()
                    .find(|key| retry.given.as_ref().is_none_or(|given| !given.contains_key(key)));
                Some(lacks.map(|key| retry.asked.finding(format!("inputResponses has no {key:?}"))))
            });
            Outcome::of(judged, NOTHING)
        },
    },
    Rule {
        slug: "client-state-for-its-request-alone",
        chapter: Chapter::ClientFeatures,
        sentence: "A client sends requestState and inputResponses with the request that they are for, and no other.",
        sources: REQUIREMENTS,
        judge: |seen| {
            let talk = seen.talk();
            let retries = talk.retries();
            let judged = talk.asked.iter().filter_map(Retry::of).map(|retry| {
                let fits = retries.iter().any(|(other, _)| other.asked.place == retry.asked.place);
                let stray = !fits && retry.state.as_ref().is_none_or(|given| is_known(talk, given));
                (stray || is_of_another(talk, &retry))
                    .then(|| retry.asked.finding("this request was not asked for input"))
            });
            Outcome::of(judged, NOTHING)
        },
    },
];

/// Whether some answer had this state.
fn is_known(talk: &Talk<'_>, state: &Raw) -> bool {
    talk.needed().iter().any(|(_, needed)| needed.state.as_ref() == Some(state))
}

/// Whether the state belongs to a request about something else.
fn is_of_another(talk: &Talk<'_>, retry: &Retry<'_, '_>) -> bool {
    let Some(state) = &retry.state else { return false };
    let needed = talk.needed();
    let mut owners = needed.iter().filter(|(_, needed)| needed.state.as_ref() == Some(state)).peekable();
    owners.peek().is_some() && owners.all(|(asked, _)| subject(asked) != subject(retry.asked))
}
