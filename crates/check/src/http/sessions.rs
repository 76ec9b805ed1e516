//! Sessions of the legacy era: their ids, their end, and the version that their requests name.

use mcpjoin_proto::http::headers::{Headers, name};

use super::{has_result, has_status, legacy, probed};
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must, Should};
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::seen::Seen;
use crate::trace::{Probe, What};

const SESSIONS: &str = "basic/transports#session-management";
const VERSIONS: &str = "basic/transports#protocol-version-header";

/// An id of 128 random bits has more characters, however it is written.
const SHORTEST: usize = 16;
/// Two ids that share all but this much of their end have been counted.
const COUNTED: usize = 6;

pub(super) static RULES: [Rule; 8] = [
    Rule {
        slug: "session-id-visible",
        chapter: Chapter::StreamableHttp,
        sentence: "The id of a session has no characters but visible ASCII, from 0x21 to 0x7E.",
        sources: &legacy(Must, SESSIONS),
        judge: |seen| {
            let judged = seen.exchanges.values().filter_map(|exchange| {
                let id = exchange.header(name::SESSION_ID)?;
                let problem = match id.iter().find(|byte| !(0x21..=0x7e).contains(*byte)) {
                    Some(byte) => Some(format!("the id has the byte 0x{byte:02X}")),
                    None => id.is_empty().then(|| "the id is empty".to_owned()),
                };
                Some(problem.map(|problem| exchange.finding(problem)))
            });
            Outcome::of(judged, "the server gave no session an id")
        },
    },
    Rule {
        slug: "session-id-unguessable",
        chapter: Chapter::StreamableHttp,
        sentence: "The id of a session is its own everywhere, and cannot be guessed from others.",
        sources: &legacy(Should, SESSIONS),
        judge: |seen| {
            let judged = seen.exchanges.values().filter_map(|exchange| {
                let id = exchange.header(name::SESSION_ID)?;
                let problem = if id.len() < SHORTEST {
                    Some(format!("the id has {} characters", id.len()))
                } else {
                    earlier(seen).into_iter().find_map(|other| {
                        let same = id.iter().zip(other).take_while(|(one, other)| one == other).count();
                        let counted = id.len() == other.len() && id.len() - same <= COUNTED;
                        counted.then(|| match id.len() - same {
                            0 => "another session has the same id".to_owned(),
                            rest => format!("the id of another session differs in its last {rest} bytes"),
                        })
                    })
                };
                Some(problem.map(|problem| exchange.finding(problem)))
            });
            Outcome::of(judged, "the server gave no session an id")
        },
    },
    Rule {
        slug: "session-id-required",
        chapter: Chapter::StreamableHttp,
        sentence: "A server that needs the session's id answers a request without it with the status 400.",
        sources: &legacy(Should, SESSIONS),
        judge: |seen| {
            let judged = seen.exchanges.values().filter(|exchange| {
                exchange.probe == Probe::NoSession && exchange.status().is_some() && !exchange.has_result()
            });
            Outcome::of(
                judged.map(|exchange| has_status(exchange, 400)),
                "the server needs no id of a session",
            )
        },
    },
    Rule {
        slug: "session-ended",
        chapter: Chapter::StreamableHttp,
        sentence: "A DELETE ends the session, or is answered with the status 405.",
        sources: &legacy(Advice, SESSIONS),
        judge: |seen| {
            probed(seen, &[Probe::EndSession], "the server gave no session an id", |exchange| {
                let good = exchange.is_success() || exchange.status() == Some(405);
                (!good).then(|| exchange.finding(exchange.outcome()))
            })
        },
    },
    Rule {
        slug: "ended-session-not-found",
        chapter: Chapter::StreamableHttp,
        sentence: "A request in a session that has ended is answered with the status 404.",
        sources: &legacy(Must, SESSIONS),
        judge: |seen| {
            probed(seen, &[Probe::EndedSession], "no session was ended", |exchange| has_status(exchange, 404))
        },
    },
    Rule {
        slug: "unknown-session-not-found",
        chapter: Chapter::StreamableHttp,
        sentence: "A request in a session that the server does not know, as after its restart, is answered with the \
                   status 404.",
        sources: &legacy(Advice, SESSIONS),
        judge: |seen| {
            let nothing = "the server gave no session an id";
            probed(seen, &[Probe::UnknownSession], nothing, |exchange| has_status(exchange, 404))
        },
    },
    Rule {
        slug: "bad-version-header-refused",
        chapter: Chapter::StreamableHttp,
        sentence: "A request with an MCP-Protocol-Version that is not spoken is answered with the status 400.",
        sources: &[Source::new(Revisions::LEGACY_SINCE_THIRD, Must, VERSIONS)],
        judge: |seen| {
            let nothing = "no such request was sent";
            probed(seen, &[Probe::BadVersionHeader], nothing, |exchange| has_status(exchange, 400))
        },
    },
    Rule {
        slug: "version-header-may-lack",
        chapter: Chapter::StreamableHttp,
        sentence: "A request without MCP-Protocol-Version is taken: its version is that of the session, or 2025-03-26.",
        sources: &[Source::new(Revisions::LEGACY_SINCE_THIRD, Should, VERSIONS)],
        judge: |seen| probed(seen, &[Probe::NoVersionHeader], "no such request was sent", has_result),
    },
];

/// The ids of the sessions of earlier runs.
fn earlier<'a>(seen: &Seen<'a>) -> Vec<&'a [u8]> {
    let runs = seen.trace.runs.iter().take_while(|run| !std::ptr::eq(*run, seen.run));
    let heads = runs.flat_map(|run| &run.events).filter_map(|event| match &event.what {
        What::Responded(response) => response.headers.value(name::SESSION_ID),
        _ => None,
    });
    let mut ids: Vec<&[u8]> = heads.collect();
    ids.dedup();
    ids
}
