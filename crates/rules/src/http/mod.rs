//! The chapters of HTTP: Streamable HTTP in both eras, and the HTTP+SSE of 2024-11-05.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http>,
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

pub(crate) mod modern;
pub(crate) mod post;
pub(crate) mod streams;

use mcpjoin_proto::code;

use crate::exchange::Exchange;
use crate::rule::{Evidence, Finding, Outcome};
use crate::server_view::ServerView;
use crate::stdio::is_no_message;
use crate::trace::Probe;

const NO_SUCH_REQUEST: &str = "no such request was sent";

/// Checks the exchanges of these probes.
fn probed(
    view: &ServerView<'_>,
    probes: &[Probe],
    nothing: &'static str,
    check: impl Fn(&Exchange<'_>) -> Option<Finding>,
) -> Outcome {
    // That the server ended is one finding of another rule.
    let ended = view.ended_early();
    let exchanges = view.exchanges.values().filter(|exchange| {
        let is_unknown = exchange.is_busy() || ended && exchange.response.is_none();
        probes.contains(&exchange.probe) && !is_unknown
    });
    Outcome::of(exchanges.map(check), nothing)
}

/// A finding if the status is another one.
fn has_status(exchange: &Exchange<'_>, wanted: u16) -> Option<Finding> {
    let is_good = exchange.status() == Some(wanted);
    (!is_good).then(|| exchange.finding(format_args!("{}, expected {wanted}", exchange.outcome())))
}

/// A finding if the response is not a result. Responses that are not valid messages have a rule of their own.
fn has_result(exchange: &Exchange<'_>) -> Option<Finding> {
    (!exchange.has_result() && !exchange.is_broken()).then(|| exchange.finding(exchange.outcome()))
}

/// A finding if the request was not refused because its headers and its body differ.
fn is_mismatch(exchange: &Exchange<'_>) -> Option<Finding> {
    let wanted = code::HEADER_MISMATCH;
    let code = exchange.error().map(|error| error.code);
    let is_good = exchange.status() == Some(400) && code == Some(wanted);
    let problem = || format!("{}, expected 400 with the error {wanted}", exchange.outcome());
    (!is_good && !exchange.is_broken()).then(|| exchange.finding(problem()))
}

/// A finding if the request was not refused.
fn is_let_in(exchange: &Exchange<'_>) -> Option<Finding> {
    let is_refused = exchange.status().is_none_or(|status| status >= 400);
    (!is_refused).then(|| exchange.finding(exchange.outcome()))
}

/// Checks that every message is one.
fn each_line(view: &ServerView<'_>) -> Outcome {
    let findings = view.exchanges.values().flat_map(|exchange| {
        exchange.lines.iter().map(move |(line, _)| {
            let mut invalid = line.parts().filter_map(Result::err);
            let fault = invalid.find(|fault| is_no_message(&fault.kind))?;
            Some(exchange.finding_in(&fault.kind, line))
        })
    });
    Outcome::of(findings, "the server sent no message")
}
