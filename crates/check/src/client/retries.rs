//! How a client brings what an answer has asked for: in the request, sent once more.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#client-requirements-basic-workflow>

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
            let judged = talk.retries().filter_map(|(retry, needed)| {
                let wanted = needed.state.as_ref()?;
                if retry.is_of_another {
                    return None;
                }
                let problem = match &retry.state {
                    None => Some("requestState is missing"),
                    // A request may have been answered so several times, and be sent again for each.
                    Some(given) if given != wanted && !retry.is_known => {
                        Some("requestState is not the one that came")
                    }
                    Some(_) => None,
                };
                Some(problem.map(|problem| talk.asked[retry.asked].finding(problem)))
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
            let judged = talk.bringing().filter_map(|retry| {
                if talk.needed_for(retry).is_some_and(|needed| needed.state.is_some()) {
                    return None;
                }
                let invented = retry.state.is_some() && !retry.is_known;
                Some(invented.then(|| talk.asked[retry.asked].finding("no answer had this requestState")))
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
            let judged = talk.retries().map(|(retry, needed)| {
                let again = &talk.asked[retry.asked];
                (*needed.id == again.what.id)
                    .then(|| again.finding(format!("its id is {}, as before", again.what.id)))
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
            let judged = talk.retries().filter_map(|(retry, needed)| {
                let wanted = needed.requests.as_ref()?;
                let is_this = retry.state == needed.state;
                if !is_this && retry.is_known {
                    // It is for an earlier answer of the same kind.
                    return None;
                }
                let lacks = wanted
                    .keys()
                    .find(|key| retry.given.as_ref().is_none_or(|given| !given.contains_key(key)));
                Some(
                    lacks
                        .map(|key| talk.asked[retry.asked].finding(format!("inputResponses has no {key:?}"))),
                )
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
            let judged = talk.bringing().map(|retry| {
                let fits = talk.needed_for(retry).is_some();
                let stray = !fits && (retry.state.is_none() || retry.is_known);
                (stray || retry.is_of_another)
                    .then(|| talk.asked[retry.asked].finding("this request was not asked for input"))
            });
            Outcome::of(judged, NOTHING)
        },
    },
];
