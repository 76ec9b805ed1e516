//! What a server over HTTP bears: requests in pieces, halves of them, clients that hang up, many sessions,
//! streams that are cut.

use super::{all_answered, is_too_much};
use crate::base::silence;
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must};
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::seen::{Asked, Seen};
use crate::trace::Probe;

const RESPONSE: &str = "https://www.jsonrpc.org/specification#response_object";
/// JSON-RPC's own.
const ANSWERED: &[Source] = &[Source::new(Revisions::ALL, Must, RESPONSE)];

pub(super) static RULES: [Rule; 5] = [
    Rule {
        slug: "request-in-pieces-answered",
        chapter: Chapter::Resilience,
        sentence: "A request whose body comes in pieces, with pauses between them, is answered like any other.",
        sources: ANSWERED,
        judge: |seen| all_answered(seen, Probe::Pieces),
    },
    Rule {
        slug: "hang-up-survived",
        chapter: Chapter::Resilience,
        sentence: "A server goes on, and a session lives, when connections are lost before their answers have come.",
        // "Disconnection may occur at any time": what is asked next is answered as ever.
        sources: ANSWERED,
        judge: |seen| all_answered(seen, Probe::AfterHangUp),
    },
    Rule {
        slug: "half-request-survived",
        chapter: Chapter::Resilience,
        sentence: "A server goes on, and a session lives, when a connection is lost in the middle of a request.",
        sources: ANSWERED,
        judge: |seen| all_answered(seen, Probe::AfterHalf),
    },
    Rule {
        slug: "many-sessions-borne",
        chapter: Chapter::Resilience,
        sentence: "Many sessions that a server has given out work side by side, until it says that one has ended.",
        sources: &[Source::new(Revisions::LEGACY, Must, RESPONSE)],
        judge: sessions,
    },
    Rule {
        slug: "cut-stream-resumed",
        chapter: Chapter::Resilience,
        sentence: "The answer on a stream with event ids that was cut comes when the stream is resumed.",
        // A server may do without; but who gives ids out lets clients rely on them.
        sources: &[Source::new(
            Revisions::LEGACY_SINCE_SECOND,
            Advice,
            "basic/transports#resumability-and-redelivery",
        )],
        judge: |seen| {
            let cut = seen
                .probed(Probe::CutStream)
                .filter(|asked| seen.exchange_of(asked).is_some_and(|exchange| !exchange.events.is_empty()));
            Outcome::of(
                cut.map(|asked| asked.answers.is_empty().then(|| silence(seen, asked))),
                "no stream had an event with an id before its answer: see --call",
            )
        },
    },
];

/// A server may refuse to open one more, and may end a session at any time, after which it answers in it with 404.
fn sessions(seen: &Seen<'_>) -> Outcome {
    let opened = seen.probed(Probe::OneOfMany).filter(|asked| {
        // Whoever refuses says so.
        seen.exchange_of(asked).is_none_or(|exchange| exchange.status().is_none())
    });
    let within = [Probe::InOneOfMany, Probe::AfterMany].into_iter().flat_map(|probe| seen.probed(probe));
    let has_ended =
        |asked: &&Asked<'_>| seen.exchange_of(asked).is_some_and(|exchange| exchange.status() == Some(404));
    let within = within.filter(|asked| !is_too_much(seen, asked) && !has_ended(asked));
    let judged = opened.chain(within);
    Outcome::of(
        judged.map(|asked| asked.answers.is_empty().then(|| silence(seen, asked))),
        "the server gives out no sessions",
    )
}
