//! What a server makes of lines that it should be able to read, and of lines that it cannot.

use super::answers::{goes_on, silence};
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must};
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::seen::Asked;
use crate::trace::Probe;

pub(super) static RULES: [Rule; 2] = [
    Rule {
        slug: "batch-answered",
        chapter: Chapter::Base,
        sentence: "An array of requests is taken, and each of them is answered.",
        sources: &[Source::new(Revisions::BATCHING, Must, "basic#batching")],
        judge: |seen| {
            // All of them stand on one line, which is told once.
            let first = |asked: &Asked<'_>| {
                let on_line = seen.probed(Probe::Batch).filter(|other| other.place == asked.place);
                on_line.filter(|other| other.answers.is_empty()).map(|other| other.id).next()
            };
            let judged = seen.probed(Probe::Batch).map(|asked| {
                let told = asked.answers.is_empty() && first(asked) == Some(asked.id);
                told.then(|| silence(seen, asked))
            });
            Outcome::of(judged, "no array of requests was sent: see --protocol-version")
        },
    },
    Rule {
        slug: "goes-on-after-bad-line",
        chapter: Chapter::Base,
        sentence: "A line that cannot be read costs that line, and the next request is answered.",
        sources: &[Source::new(Revisions::ALL, Advice, "https://www.jsonrpc.org/specification#error_object")],
        judge: |seen| goes_on(seen, Probe::AfterBadLine, "no line was sent that cannot be read"),
    },
];
