//! The chapters of HTTP: Streamable HTTP in both eras, and the HTTP+SSE of 2024-11-05.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>,
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

pub(crate) mod headers;
pub(crate) mod modern;
pub(crate) mod replies;
pub(crate) mod sessions;
pub(crate) mod sse;
pub(crate) mod streams;

use mcpjoin_proto::scan::ScanErrorKind;
use mcpjoin_proto::{DecodeErrorKind, code};

use crate::exchange::Exchange;
use crate::rule::{Finding, Outcome};
use crate::server_view::ServerView;
use crate::trace::Probe;

/// Looks at the exchanges for that purpose.
fn probed(
    view: &ServerView<'_>,
    probes: &[Probe],
    nothing: &'static str,
    look: impl Fn(&Exchange<'_>) -> Option<Finding>,
) -> Outcome {
    // A server that has ended says nothing more: that is checked once.
    let ended = view.ended_early();
    let exchanges = view
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

/// It was answered with a result. What is no message, and would have been the answer, is checked elsewhere.
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
fn taken(view: &ServerView<'_>, probe: Probe, nothing: &'static str) -> Outcome {
    let answered = view
        .exchanges
        .values()
        .filter(|exchange| exchange.probe == probe && exchange.responses().next().is_some());
    let findings = answered.map(|exchange| {
        let refused = exchange.error().is_some_and(|error| error.code == code::HEADER_MISMATCH);
        refused.then(|| exchange.finding(exchange.outcome()))
    });
    Outcome::of(findings, nothing)
}

/// Whether a fault means that no message was written at all.
fn is_no_message(kind: &DecodeErrorKind) -> bool {
    match kind {
        DecodeErrorKind::NotAnObject => true,
        // Deeper than we read, and keys to be checked elsewhere.
        DecodeErrorKind::Json(
            ScanErrorKind::Depth(_) | ScanErrorKind::TooLong | ScanErrorKind::DuplicateKey,
        ) => false,
        DecodeErrorKind::Json(_) => true,
        _ => false,
    }
}

/// Looks at every message that came, but for those that are checked elsewhere.
fn each_line(view: &ServerView<'_>) -> Outcome {
    let findings = view.exchanges.values().flat_map(|exchange| {
        exchange.lines.iter().map(move |(line, _)| {
            let mut invalid = line.parts().filter_map(Result::err);
            let fault = invalid.find(|fault| is_no_message(&fault.kind))?;
            Some(exchange.finding_in(fault.kind.to_string(), line))
        })
    });
    Outcome::of(findings, "the server sent no message")
}
