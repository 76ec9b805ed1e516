//! Who may ask: pages of other origins, and requests for other hosts, are kept out.

use super::{both, probed};
use crate::exchange::Exchange;
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must};
use crate::rule::{Chapter, Finding, Rule, Source};
use crate::trace::Probe;

pub(super) static RULES: [Rule; 3] = [
    Rule {
        slug: "origin-validated",
        chapter: Chapter::StreamableHttp,
        sentence: "A request that comes from a page of another origin is refused.",
        sources: &both(Must, "basic/transports#security-warning", "basic/transports/streamable-http"),
        judge: |seen| probed(seen, &[Probe::ForeignOrigin], "no request came from another origin", let_in),
    },
    Rule {
        slug: "foreign-origin-forbidden",
        chapter: Chapter::StreamableHttp,
        sentence: "A request whose Origin is refused is answered with the status 403.",
        sources: &[
            Source::new(LAST_LEGACY, Must, "basic/transports#security-warning"),
            Source::new(Revisions::MODERN, Must, "basic/transports/streamable-http"),
        ],
        judge: |seen| {
            let refused = seen.exchanges.values().filter(|exchange| {
                exchange.probe == Probe::ForeignOrigin
                    && exchange.status().is_some()
                    && let_in(exchange).is_none()
            });
            crate::rule::Outcome::of(
                refused.map(|exchange| super::has_status(exchange, 403)),
                "no request was refused for its origin",
            )
        },
    },
    Rule {
        slug: "host-validated",
        chapter: Chapter::StreamableHttp,
        sentence: "A server on the user's machine refuses requests for another host, which only a name that was bound \
                   to its address can bring it.",
        sources: &both(Advice, "basic/transports#security-warning", "basic/transports/streamable-http"),
        judge: |seen| {
            let nothing = "no request for another host was made: the server is not on this machine";
            probed(seen, &[Probe::ForeignHost], nothing, let_in)
        },
    },
];

const LAST_LEGACY: Revisions = Revisions::LAST_LEGACY;

/// It was not refused.
pub(super) fn let_in(exchange: &Exchange<'_>) -> Option<Finding> {
    let refused = exchange.status().is_none_or(|status| status >= 400);
    (!refused).then(|| exchange.finding(exchange.outcome()))
}
