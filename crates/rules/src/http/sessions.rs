//! Sessions of the legacy era: their ids, their end, and the version header of their requests.

use mcpjoin_proto::http::headers::{Headers, name};

use super::{has_result, has_status, probed};
use crate::rule::Outcome;
use crate::server_view::ServerView;
use crate::trace::{Probe, What};

const SESSIONS: &str = "basic/transports#session-management";
const VERSIONS: &str = "basic/transports#protocol-version-header";

/// An id of 128 random bits has more characters, however it is written.
const SHORTEST: usize = 16;
/// Two ids that share all but this much of their end have been counted.
const COUNTED: usize = 6;

rules! {
    pub(crate) RULES for Server in Chapter::StreamableHttp;

    "session-id-visible", [LEGACY_SINCE_SECOND Must SESSIONS],
        "The id of a session has no characters but visible ASCII, from 0x21 to 0x7E.",
        |view| {
            let findings = view.exchanges.values().filter_map(|exchange| {
                let id = exchange.header(name::SESSION_ID)?;
                let problem = match id.iter().find(|byte| !(0x21..=0x7e).contains(*byte)) {
                    Some(byte) => Some(format!("the id has the byte 0x{byte:02X}")),
                    None => id.is_empty().then(|| "the id is empty".to_owned()),
                };
                Some(problem.map(|problem| exchange.finding(problem)))
            });
            Outcome::of(findings, "the server gave no session an id")
        };
    "session-id-unguessable", [LEGACY_SINCE_SECOND Should SESSIONS],
        "The id of a session is its own everywhere, and cannot be guessed from others.",
        |view| {
            let findings = view.exchanges.values().filter_map(|exchange| {
                let id = exchange.header(name::SESSION_ID)?;
                let problem = if id.len() < SHORTEST {
                    Some(format!("the id has {} characters", id.len()))
                } else {
                    earlier(view).into_iter().find_map(|other| {
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
            Outcome::of(findings, "the server gave no session an id")
        };
    "session-id-required", [LEGACY_SINCE_SECOND Should SESSIONS],
        "A server that needs the session's id answers a request without it with the status 400.",
        |view| {
            let findings = view.exchanges.values().filter(|exchange| {
                exchange.probe == Probe::NoSession && exchange.status().is_some() && !exchange.has_result()
            });
            Outcome::of(
                findings.map(|exchange| has_status(exchange, 400)),
                "the server needs no id of a session",
            )
        };
    "session-ended", [LEGACY_SINCE_SECOND Advice SESSIONS],
        "A DELETE ends the session, or is answered with the status 405.",
        |view| {
            probed(view, &[Probe::EndSession], "the server gave no session an id", |exchange| {
                let good = exchange.is_success() || exchange.status() == Some(405);
                (!good).then(|| exchange.finding(exchange.outcome()))
            })
        };
    "ended-session-not-found", [LEGACY_SINCE_SECOND Must SESSIONS],
        "A request in a session that has ended is answered with the status 404.",
        |view| {
            probed(view, &[Probe::EndedSession], "no session was ended", |exchange| has_status(exchange, 404))
        };
    "unknown-session-not-found", [LEGACY_SINCE_SECOND Advice SESSIONS],
        "A request in a session that the server does not know, as after its restart, is answered with the status \
         404.",
        |view| {
            let nothing = "the server gave no session an id";
            probed(view, &[Probe::UnknownSession], nothing, |exchange| has_status(exchange, 404))
        };
    "bad-version-header-refused", [LEGACY_SINCE_THIRD Must VERSIONS],
        "A request with an MCP-Protocol-Version that is not spoken is answered with the status 400.",
        |view| {
            let nothing = "no such request was sent";
            probed(view, &[Probe::BadVersionHeader], nothing, |exchange| has_status(exchange, 400))
        };
    "version-header-may-lack", [LEGACY_SINCE_THIRD Should VERSIONS],
        "A request without MCP-Protocol-Version is taken: its version is that of the session, or 2025-03-26.",
        |view| probed(view, &[Probe::NoVersionHeader], "no such request was sent", has_result);
}

/// The ids of the sessions of earlier runs.
fn earlier<'a>(view: &ServerView<'a>) -> Vec<&'a [u8]> {
    let runs = view.trace.runs.iter().take_while(|run| !std::ptr::eq(*run, view.run));
    let heads = runs.flat_map(|run| &run.events).filter_map(|event| match &event.what {
        What::Responded(response) => response.headers.value(name::SESSION_ID),
        _ => None,
    });
    let mut ids: Vec<&[u8]> = heads.collect();
    ids.dedup();
    ids
}
