//! The codes of errors.

use mcpjoin_proto::code;

use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Meaning, Seen};
use crate::trace::Probe;

const CODES: &str = "https://www.jsonrpc.org/specification#error_object";

pub(super) static RULES: [Rule; 8] = [
    Rule {
        slug: "unknown-method-refused",
        chapter: Chapter::Base,
        sentence: "A request with a method that does not exist is answered with an error.",
        sources: &[Source::new(
            Revisions::ALL,
            Must,
            "https://www.jsonrpc.org/specification#response_object",
        )],
        judge: |seen| {
            let judged = seen.probed(Probe::UnknownMethod).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                Some(
                    outcome
                        .is_ok()
                        .then(|| asked.finding("a method that no server has brought a result", answer.line)),
                )
            });
            Outcome::of(judged, "no unknown method was asked for, or it was not answered")
        },
    },
    Rule {
        slug: "unknown-method-code",
        chapter: Chapter::Base,
        sentence: "The error for a method that does not exist has the code -32601.",
        sources: &[
            Source::new(Revisions::LEGACY, Should, CODES),
            Source::new(Revisions::MODERN, Should, "schema#methodnotfounderror"),
        ],
        judge: |seen| {
            code_of(seen, Probe::UnknownMethod, code::METHOD_NOT_FOUND, "no unknown method was refused")
        },
    },
    Rule {
        slug: "bad-json-code",
        chapter: Chapter::Base,
        sentence: "The error for a text that is not JSON has the code -32700.",
        sources: &[
            Source::new(Revisions::LEGACY, Should, CODES),
            Source::new(Revisions::MODERN, Should, "schema#parseerror"),
        ],
        judge: |seen| provoked(seen, Probe::BadJson, code::PARSE_ERROR),
    },
    Rule {
        slug: "invalid-request-code",
        chapter: Chapter::Base,
        sentence: "The error for JSON that is no request has the code -32600.",
        sources: &[
            Source::new(Revisions::LEGACY, Should, CODES),
            Source::new(Revisions::MODERN, Should, "schema#invalidrequesterror"),
        ],
        judge: |seen| provoked(seen, Probe::InvalidRequest, code::INVALID_REQUEST),
    },
    Rule {
        slug: "json-rpc-codes",
        chapter: Chapter::Base,
        sentence: "Of the codes from -32768 to -32100, which JSON-RPC keeps for itself, only those that it defines are \
                   used.",
        sources: &[Source::new(Revisions::ALL, Should, CODES)],
        judge: |seen| {
            let defined = [
                code::PARSE_ERROR,
                code::INVALID_REQUEST,
                code::METHOD_NOT_FOUND,
                code::INVALID_PARAMS,
                code::INTERNAL_ERROR,
            ];
            codes(seen, "is kept for JSON-RPC, which gives it no meaning", |code| {
                (-32768..=-32100).contains(&code) && !defined.contains(&code)
            })
        },
    },
    Rule {
        slug: "reserved-codes",
        chapter: Chapter::Base,
        sentence: "Of the codes from -32099 to -32020, which the specification keeps for itself, only those that it \
                   defines are used.",
        sources: &[Source::new(Revisions::MODERN, Must, "basic#error-codes")],
        judge: |seen| {
            let defined = [
                code::HEADER_MISMATCH,
                code::MISSING_REQUIRED_CLIENT_CAPABILITY,
                code::UNSUPPORTED_PROTOCOL_VERSION,
                // This one has a rule of its own.
                code::URL_ELICITATION_REQUIRED,
            ];
            codes(seen, "is kept for the specification, which gives it no meaning", |code| {
                (-32099..=-32020).contains(&code) && !defined.contains(&code)
            })
        },
    },
    Rule {
        slug: "superseded-codes",
        chapter: Chapter::Base,
        sentence: "The codes -32002 and -32042 of earlier revisions are not sent.",
        sources: &[Source::new(Revisions::MODERN, Must, "basic#error-codes")],
        judge: |seen| {
            codes(seen, "belongs to earlier revisions", |code| {
                code == code::RESOURCE_NOT_FOUND || code == code::URL_ELICITATION_REQUIRED
            })
        },
    },
    Rule {
        slug: "implementation-codes",
        chapter: Chapter::Base,
        sentence: "Codes from -32019 to -32000 are not used by new implementations.",
        sources: &[Source::new(Revisions::MODERN, Should, "basic#error-codes")],
        judge: |seen| {
            codes(seen, "is of a range that is closed", |code| {
                (-32019..=-32000).contains(&code) && code != code::RESOURCE_NOT_FOUND
            })
        },
    },
];

/// No error that was seen has a code of these.
fn codes(seen: &Seen<'_>, problem: &str, broken: impl Fn(i64) -> bool) -> Outcome {
    let judged = seen.errors().map(|(asked, line, error)| {
        broken(error.code).then(|| {
            let sent = asked.map(|asked| asked.line.bytes());
            Finding::new(format!("the code {} {problem}", error.code), sent, Some(line.bytes()))
        })
    });
    Outcome::of(judged, "no error was seen")
}

/// The errors that a probe brought have this code.
pub(crate) fn code_of(seen: &Seen<'_>, probe: Probe, wanted: i64, nothing: &'static str) -> Outcome {
    let judged = seen.probed(probe).filter_map(|asked| {
        let (answer, outcome) = asked.answer()?;
        let error = outcome.as_ref().err()?;
        let problem = || format!("the code is {}, not {wanted}", error.code);
        Some((error.code != wanted).then(|| asked.finding(problem(), answer.line)))
    });
    Outcome::of(judged, nothing)
}

/// What was asked for that purpose is answered with the error -32602.
pub(crate) fn refused(seen: &Seen<'_>, probe: Probe, nothing: &'static str) -> Outcome {
    refused_with(seen, probe, code::INVALID_PARAMS, nothing)
}

/// The same with that code.
pub(crate) fn refused_with(seen: &Seen<'_>, probe: Probe, wanted: i64, nothing: &'static str) -> Outcome {
    let judged = seen.probed(probe).filter_map(|asked| {
        let (answer, outcome) = asked.answer()?;
        let problem = match outcome {
            Ok(_) => "a result came, and no error".to_owned(),
            Err(error) if error.code == wanted => return Some(None),
            Err(error) => format!("the code is {}, not {wanted}", error.code),
        };
        Some(Some(asked.finding(problem, answer.line)))
    });
    Outcome::of(judged, nothing)
}

/// The errors that lines which are no request have provoked, by their own id or without one.
fn provoked(seen: &Seen<'_>, probe: Probe, wanted: i64) -> Outcome {
    let nothing = match seen.probed(probe).next() {
        Some(_) => "it brought no error, which is allowed",
        None => "no such line was sent",
    };
    let owned = seen.probed(probe).flat_map(|asked| {
        let answers = asked.answers.iter();
        answers.filter_map(move |answer| Some((asked, answer.line, answer.outcome?.as_ref().err()?)))
    });
    let strays = seen.strays.iter().filter_map(|stray| match (seen.meaning(stray), stray.outcome) {
        (Meaning::Provoked(asked), Some(Err(error))) if asked.probe == probe => {
            Some((asked, stray.line, error))
        }
        _ => None,
    });
    let judged = owned.chain(strays).map(|(asked, line, error)| {
        (error.code != wanted)
            .then(|| asked.finding(format!("the code is {}, not {wanted}", error.code), line))
    });
    Outcome::of(judged, nothing)
}
