//! The chapters of HTTP: Streamable HTTP in both eras, and the HTTP+SSE of 2024-11-05.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>,
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

mod guard;
mod headers;
mod modern;
mod replies;
mod sessions;
mod sse;
mod streams;

use mcpjoin_proto::scan::ScanErrorKind;
use mcpjoin_proto::{DecodeErrorKind, code};

use crate::exchange::Exchange;
use crate::revisions::Revisions;
use crate::rule::{Finding, Level, Outcome, Rule, Source};
use crate::seen::Seen;
use crate::trace::Probe;

/// The rules of Streamable HTTP, file by file.
pub(crate) static STREAMABLE: [&[Rule]; 6] =
    [&guard::RULES, &replies::RULES, &streams::RULES, &sessions::RULES, &headers::RULES, &modern::RULES];
/// The rules of HTTP+SSE.
pub(crate) static SSE: &[Rule] = &sse::RULES;

/// A sentence that both eras have, each on its own page.
const fn both(level: Level, legacy: &'static str, modern: &'static str) -> [Source; 2] {
    [
        Source::new(Revisions::LEGACY_SINCE_SECOND, level, legacy),
        Source::new(Revisions::MODERN, level, modern),
    ]
}

const fn legacy(level: Level, page: &'static str) -> [Source; 1] {
    [Source::new(Revisions::LEGACY_SINCE_SECOND, level, page)]
}

const fn modern(level: Level, page: &'static str) -> [Source; 1] {
    [Source::new(Revisions::MODERN, level, page)]
}

/// Looks at the exchanges for that purpose.
fn probed(
    seen: &Seen<'_>,
    probes: &[Probe],
    nothing: &'static str,
    look: impl Fn(&Exchange<'_>) -> Option<Finding>,
) -> Outcome {
    // A server that has ended says nothing more: that is judged once.
    let ended = seen.ended_early();
    let exchanges = seen
        .exchanges
        .values()
        .filter(|exchange| probes.contains(&exchange.probe) && !(ended && exchange.response.is_none()));
    Outcome::of(exchanges.map(look), nothing)
}

/// They have this status.
fn has_status(exchange: &Exchange<'_>, wanted: u16) -> Option<Finding> {
    let good = exchange.status() == Some(wanted);
    (!good).then(|| exchange.finding(format!("{}; {wanted} is due", exchange.outcome())))
}

/// It was answered with a result. What is no message, and would have been the answer, is judged elsewhere.
fn has_result(exchange: &Exchange<'_>) -> Option<Finding> {
    (!exchange.has_result() && !exchange.is_broken()).then(|| exchange.finding(exchange.outcome()))
}

/// It was refused as one whose headers and body do not agree.
fn is_mismatch(exchange: &Exchange<'_>) -> Option<Finding> {
    let wanted = code::HEADER_MISMATCH;
    let code = exchange.error().map(|error| error.code);
    let good = exchange.status() == Some(400) && code == Some(wanted);
    (!good && !exchange.is_broken())
        .then(|| exchange.finding(format!("{}; 400 with the error {wanted} is due", exchange.outcome())))
}

/// What was sent was not refused as something whose headers and body do not agree.
fn taken(seen: &Seen<'_>, probe: Probe, nothing: &'static str) -> Outcome {
    let answered = seen
        .exchanges
        .values()
        .filter(|exchange| exchange.probe == probe && exchange.responses().next().is_some());
    let judged = answered.map(|exchange| {
        let refused = exchange.error().is_some_and(|error| error.code == code::HEADER_MISMATCH);
        refused.then(|| exchange.finding(exchange.outcome()))
    });
    Outcome::of(judged, nothing)
}

/// Whether a fault means that no message was written at all.
fn is_no_message(kind: &DecodeErrorKind) -> bool {
    match kind {
        DecodeErrorKind::NotAnObject => true,
        // Deeper than we read, and keys to be judged elsewhere.
        DecodeErrorKind::Json(
            ScanErrorKind::Depth(_) | ScanErrorKind::TooLong | ScanErrorKind::DuplicateKey,
        ) => false,
        DecodeErrorKind::Json(_) => true,
        _ => false,
    }
}

/// Looks at every message that came, but for those that are judged elsewhere.
fn each_line(seen: &Seen<'_>) -> Outcome {
    let judged = seen.exchanges.values().flat_map(|exchange| {
        exchange.lines.iter().map(move |(line, _)| {
            let mut faults = line.parts().filter_map(Result::err);
            let fault = faults.find(|fault| is_no_message(&fault.kind))?;
            Some(exchange.finding_in(fault.kind.to_string(), line))
        })
    });
    Outcome::of(judged, "the server sent no message")
}
