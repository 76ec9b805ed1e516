//! Requests that are no longer wanted. The cancellation of an unknown one stands in the chapter of the base protocol.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation>

use std::collections::BTreeMap;

use mcpjoin_proto::{Method, RequestId};

use crate::base::goes_on;
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::member;
use crate::trace::{Channel, Probe};

const ERRORS: &[Source] = &[
    Source::new(Revisions::LEGACY, Should, "basic/utilities/cancellation#error-handling"),
    Source::new(Revisions::MODERN, Should, "basic/patterns/cancellation#error-handling"),
];

pub(super) static RULES: [Rule; 4] = [
    Rule {
        slug: "completed-cancel-ignored",
        chapter: Chapter::Patterns,
        sentence: "The cancellation of a request that has been answered is passed over.",
        sources: ERRORS,
        judge: |seen| {
            goes_on(seen, Probe::AfterCompletedCancel, "no request was cancelled that was answered")
        },
    },
    Rule {
        slug: "malformed-cancel-ignored",
        chapter: Chapter::Patterns,
        sentence: "A cancellation that does not say of what is passed over.",
        sources: ERRORS,
        judge: |seen| goes_on(seen, Probe::AfterMalformedCancel, "no such cancellation was sent"),
    },
    Rule {
        slug: "cancelled-not-answered",
        chapter: Chapter::Patterns,
        sentence: "A request that was cancelled is not answered, not with an error either.",
        sources: &[
            Source::new(Revisions::LEGACY, Should, "basic/utilities/cancellation#behavior-requirements"),
            Source::new(Revisions::MODERN, Must, "basic/transports/stdio#cancellation"),
        ],
        judge: |seen| {
            if Revisions::MODERN.contains(&seen.run.version) && seen.run.channel != Channel::Stdio {
                return Outcome::Skipped("over HTTP, to cancel is to leave");
            }
            let cancelled = seen.told.iter().filter(|told| told.probe == Probe::Cancel);
            let judged = cancelled.filter_map(|told| {
                let asked = seen.probed(Probe::CancelledCall).find(|asked| asked.place < told.place)?;
                // A result may have been on its way, or could no longer be held back: a server may pass over a
                // cancellation. An error says that it has not, and answers all the same.
                match asked.answers.first() {
                    None => Some(None),
                    Some(answer) => match answer.outcome {
                        Some(Err(_)) if answer.place > told.place => {
                            Some(Some(asked.finding("it was answered with an error", answer.line)))
                        }
                        _ => None,
                    },
                }
            });
            Outcome::of(judged, "nothing was cancelled that took long enough: see --read-only-tools")
        },
    },
    Rule {
        slug: "server-cancels-its-own",
        chapter: Chapter::Patterns,
        sentence: "A server cancels requests of its own that are under way, and no others.",
        sources: &[Source::new(
            Revisions::LEGACY,
            Must,
            "basic/utilities/cancellation#behavior-requirements",
        )],
        judge: |seen| {
            let mut first = BTreeMap::new();
            for request in &seen.requests {
                first.entry(&request.what.id).or_insert(request.place);
            }
            let cancels = seen.notifications.iter().filter(|told| told.what.method == Method::Cancelled);
            let judged = cancels.map(|told| {
                let id = told.what.params.as_ref().and_then(|params| member(params.raw(), "requestId"));
                let id = id.and_then(|id| id.decode::<RequestId>().ok());
                let own = |id: &RequestId| first.get(id).is_some_and(|place| *place < told.place);
                let problem = match id {
                    None => "it does not say of what".to_owned(),
                    Some(id) if own(&id) => return None,
                    Some(id) => format!("the server has sent no request with the id {id}"),
                };
                Some(Finding::new(problem, None, Some(told.line.bytes())))
            });
            Outcome::of(judged, "the server has cancelled nothing")
        },
    },
];
