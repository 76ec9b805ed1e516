//! The codes of errors, and how a server handles batches and lines that it cannot read.

use mcpjoin_proto::code;

use super::responses::{goes_on, silence};
use crate::rule::{Finding, Outcome};
use crate::server_view::{OurRequest, ServerView, StrayMeaning};
use crate::trace::Probe;

const CODES: &str = "https://www.jsonrpc.org/specification#error_object";

rules! {
    pub(crate) RULES for Server in Chapter::Base;

    "unknown-method-refused", [ALL Must "https://www.jsonrpc.org/specification#response_object"],
        "A request with a method that does not exist is answered with an error.",
        |view| {
            let findings =
                view.probed(Probe::UnknownMethod).filter_map(|request| {
                    let (response, outcome) = request.response()?;
                    Some(outcome.is_ok().then(|| {
                        request.finding("a method that no server has brought a result", response.line)
                    }))
                });
            Outcome::of(findings, "no unknown method was asked for, or it was not answered")
        };
    "unknown-method-code", [LEGACY Should CODES, MODERN Should "schema#methodnotfounderror"],
        "The error for a method that does not exist has the code -32601.",
        |view| code_of(view, Probe::UnknownMethod, code::METHOD_NOT_FOUND, "no unknown method was refused");
    "bad-json-code", [LEGACY Should CODES, MODERN Should "schema#parseerror"],
        "The error for a text that is not JSON has the code -32700.",
        |view| provoked(view, Probe::BadJson, code::PARSE_ERROR);
    "invalid-request-code", [LEGACY Should CODES, MODERN Should "schema#invalidrequesterror"],
        "The error for JSON that is no request has the code -32600.",
        |view| provoked(view, Probe::InvalidRequest, code::INVALID_REQUEST);
    "json-rpc-codes", [ALL Should CODES],
        "Of the codes from -32768 to -32100, which JSON-RPC keeps for itself, only those that it defines are used.",
        |view| {
            let defined = [
                code::PARSE_ERROR,
                code::INVALID_REQUEST,
                code::METHOD_NOT_FOUND,
                code::INVALID_PARAMS,
                code::INTERNAL_ERROR,
            ];
            codes(view, "is kept for JSON-RPC, which gives it no meaning", |code| {
                (-32768..=-32100).contains(&code) && !defined.contains(&code)
            })
        };
    "reserved-codes", [MODERN Must "basic#error-codes"],
        "Of the codes from -32099 to -32020, which the specification keeps for itself, only those that it defines \
         are used.",
        |view| {
            let defined = [
                code::HEADER_MISMATCH,
                code::MISSING_REQUIRED_CLIENT_CAPABILITY,
                code::UNSUPPORTED_PROTOCOL_VERSION,
                // This one has a rule of its own.
                code::URL_ELICITATION_REQUIRED,
            ];
            codes(view, "is kept for the specification, which gives it no meaning", |code| {
                (-32099..=-32020).contains(&code) && !defined.contains(&code)
            })
        };
    "superseded-codes", [MODERN Must "basic#error-codes"],
        "The codes -32002 and -32042 of earlier revisions are not sent.",
        |view| {
            codes(view, "belongs to earlier revisions", |code| {
                code == code::RESOURCE_NOT_FOUND || code == code::URL_ELICITATION_REQUIRED
            })
        };
    "implementation-codes", [MODERN Should "basic#error-codes"],
        "Codes from -32019 to -32000 are not used by new implementations.",
        |view| {
            codes(view, "is of a range that is closed", |code| {
                (-32019..=-32000).contains(&code) && code != code::RESOURCE_NOT_FOUND
            })
        };
    "batch-answered", [BATCHING Must "basic#batching"],
        "An array of requests is taken, and each of them is answered.",
        |view| {
            // All of them stand on one line, which is told once.
            let first = |request: &OurRequest<'_>| {
                let on_line = view.probed(Probe::Batch).filter(|other| other.place == request.place);
                on_line.filter(|other| other.responses.is_empty()).map(|other| other.id).next()
            };
            let findings = view.probed(Probe::Batch).map(|request| {
                let is_lost = request.responses.is_empty() && first(request) == Some(request.id);
                is_lost.then(|| silence(view, request))
            });
            Outcome::of(findings, "no array of requests was sent: see --protocol-version")
        };
    "goes-on-after-bad-line", [ALL Advice "https://www.jsonrpc.org/specification#error_object"],
        "A line that cannot be read costs that line, and the next request is answered.",
        |view| goes_on(view, Probe::AfterBadLine, "no line was sent that cannot be read");
}

/// No error that was seen has a code of these.
fn codes(view: &ServerView<'_>, problem: &str, broken: impl Fn(i64) -> bool) -> Outcome {
    let findings = view.errors().map(|(request, line, error)| {
        broken(error.code).then(|| {
            let sent = request.map(|request| request.line.bytes());
            Finding::new(format!("the code {} {problem}", error.code), sent, Some(line.bytes()))
        })
    });
    Outcome::of(findings, "no error was seen")
}

/// The errors that a probe brought have this code.
pub(crate) fn code_of(view: &ServerView<'_>, probe: Probe, wanted: i64, nothing: &'static str) -> Outcome {
    let findings = view.probed(probe).filter_map(|request| {
        let (response, outcome) = request.response()?;
        let error = outcome.as_ref().err()?;
        let problem = || format!("the code is {}, not {wanted}", error.code);
        Some((error.code != wanted).then(|| request.finding(problem(), response.line)))
    });
    Outcome::of(findings, nothing)
}

/// What was asked for that purpose is answered with the error -32602.
pub(crate) fn refused(view: &ServerView<'_>, probe: Probe, nothing: &'static str) -> Outcome {
    refused_with(view, probe, code::INVALID_PARAMS, nothing)
}

/// The same with that code.
pub(crate) fn refused_with(
    view: &ServerView<'_>,
    probe: Probe,
    wanted: i64,
    nothing: &'static str,
) -> Outcome {
    let findings = view.probed(probe).filter_map(|request| {
        let (response, outcome) = request.response()?;
        let problem = match outcome {
            Ok(_) => "a result came, and no error".to_owned(),
            Err(error) if error.code == wanted => return Some(None),
            Err(error) => format!("the code is {}, not {wanted}", error.code),
        };
        Some(Some(request.finding(problem, response.line)))
    });
    Outcome::of(findings, nothing)
}

/// The errors that lines which are no request have provoked, by their own id or without one.
fn provoked(view: &ServerView<'_>, probe: Probe, wanted: i64) -> Outcome {
    let nothing = match view.probed(probe).next() {
        Some(_) => "it brought no error, which is allowed",
        None => "no such line was sent",
    };
    let owned = view.probed(probe).flat_map(|request| {
        let responses = request.responses.iter();
        responses
            .filter_map(move |response| Some((request, response.line, response.outcome?.as_ref().err()?)))
    });
    let stray_responses =
        view.stray_responses.iter().filter_map(|stray| match (view.meaning(stray), stray.outcome) {
            (StrayMeaning::Provoked(request), Some(Err(error))) if request.probe == probe => {
                Some((request, stray.line, error))
            }
            _ => None,
        });
    let findings = owned.chain(stray_responses).map(|(request, line, error)| {
        (error.code != wanted)
            .then(|| request.finding(format!("the code is {}, not {wanted}", error.code), line))
    });
    Outcome::of(findings, nothing)
}
