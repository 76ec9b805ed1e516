//! What a server asks of its client: in results of the modern era, as requests in the legacy one.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{ErrorObject, Kind, Method, Needs, Raw, code};

use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Seen, has_path, member, members, text};
use crate::trace::Probe;

const SERVERS: &[Source] =
    &[Source::new(Revisions::MODERN, Must, "basic/patterns/mrtr#server-requirements-basic-workflow")];
const NOT_ASKED: &str = "no result asked for input: see --call";
const ERRORS: &[Source] = &[Source::new(Revisions::MODERN, Should, "basic/patterns/mrtr#error-handling")];
const NOT_RETRIED: &str = "no tool has asked for input: see --read-only-tools";
/// What may be asked for.
const KNOWN: [Method; 3] = [Method::Elicit, Method::CreateMessage, Method::ListRoots];

pub(super) static RULES: [Rule; 7] = [
    Rule {
        slug: "input-required-says-what",
        chapter: Chapter::Patterns,
        sentence: "A result that asks for input has inputRequests, an object, or requestState, a string.",
        sources: SERVERS,
        judge: |seen| {
            let judged = seen.results().filter(|(.., result)| is_input(result.raw())).map(
                |(asked, answer, result)| {
                    let requests = member(result.raw(), "inputRequests");
                    let state = member(result.raw(), "requestState");
                    let problem = match (&requests, &state) {
                        (None, None) => "it has neither inputRequests nor requestState",
                        (Some(requests), _) if requests.kind() != Kind::Object => {
                            "inputRequests is no object"
                        }
                        (_, Some(state)) if state.kind() != Kind::String => "requestState is no string",
                        _ => return None,
                    };
                    Some(asked.finding(problem, answer.line))
                },
            );
            Outcome::of(judged, NOT_ASKED)
        },
    },
    Rule {
        slug: "input-requests-known",
        chapter: Chapter::Patterns,
        sentence: "What a result asks for is elicitation/create, sampling/createMessage or roots/list.",
        sources: SERVERS,
        judge: |seen| {
            let modern = wanted(seen).into_iter().filter(|wanted| wanted.request.is_none());
            let judged = modern.map(|wanted| {
                let known = KNOWN.iter().any(|known| known.as_str() == wanted.method);
                (!known).then(|| wanted.finding(format!("it asks for {:?}", wanted.method)))
            });
            Outcome::of(judged, NOT_ASKED)
        },
    },
    Rule {
        slug: "input-requests-declared",
        chapter: Chapter::Patterns,
        sentence: "A result asks for nothing that the client has not declared in the request.",
        sources: SERVERS,
        judge: |seen| {
            let modern = wanted(seen).into_iter().filter(|wanted| wanted.request.is_none());
            let judged = modern.map(|wanted| {
                let Some(Needs::Client(capability)) =
                    Method::parse(&wanted.method).facts().map(|facts| facts.needs)
                else {
                    return None;
                };
                let declared = wanted.client.as_ref().is_some_and(|ours| has_path(ours, capability));
                let problem = || format!("{} needs {capability}, which was not declared", wanted.method);
                (!declared).then(|| wanted.finding(problem()))
            });
            Outcome::of(judged, NOT_ASKED)
        },
    },
    Rule {
        slug: "missing-client-capability-code",
        chapter: Chapter::Patterns,
        sentence: "The error -32021 lists what the client should have declared in data.requiredCapabilities.",
        sources: &[Source::new(Revisions::MODERN, Must, "basic#meta")],
        judge: |seen| {
            let errors =
                seen.errors().filter(|(.., error)| error.code == code::MISSING_REQUIRED_CLIENT_CAPABILITY);
            let judged = errors.map(|(asked, line, error)| {
                let named = error.data.as_ref().and_then(|data| member(data, "requiredCapabilities"));
                let good = named.is_some_and(|named| named.kind() == Kind::Object);
                let problem = "data.requiredCapabilities is missing or no object";
                let sent = asked.map(|asked| asked.line.bytes());
                (!good).then(|| Finding::new(problem, sent, Some(line.bytes())))
            });
            Outcome::of(judged, "nothing needed what we have not declared")
        },
    },
    Rule {
        slug: "input-asked-again",
        chapter: Chapter::Patterns,
        sentence: "Input that was asked for and is not there is asked for again, and is no error.",
        sources: ERRORS,
        judge: |seen| {
            let judged = seen.probed(Probe::NoInput).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                let problem = |error: &ErrorObject| format!("it brought the error {}", error.code);
                Some(outcome.as_ref().err().map(|error| asked.finding(problem(error), answer.line)))
            });
            Outcome::of(judged, NOT_RETRIED)
        },
    },
    Rule {
        slug: "unknown-input-ignored",
        chapter: Chapter::Patterns,
        sentence: "An answer to what was not asked is passed over.",
        sources: ERRORS,
        judge: |seen| {
            // The same without it is taken.
            let taken = seen.probed(Probe::Declined).any(|asked| matches!(asked.answer(), Some((_, Ok(_)))));
            let judged = seen.probed(Probe::UnknownInput).filter(|_| taken).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                let problem = |error: &ErrorObject| format!("it brought the error {}", error.code);
                Some(outcome.as_ref().err().map(|error| asked.finding(problem(error), answer.line)))
            });
            Outcome::of(judged, NOT_RETRIED)
        },
    },
    Rule {
        slug: "bad-input-refused",
        chapter: Chapter::Patterns,
        sentence: "Input responses that are no object are not taken for answers.",
        sources: ERRORS,
        judge: |seen| {
            let judged = seen.probed(Probe::BadInput).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                let taken = outcome.as_ref().is_ok_and(|result| {
                    let failed = member(result.raw(), "isError").is_some_and(|flag| flag.as_str() == "true");
                    !is_input(result.raw()) && !failed
                });
                Some(taken.then(|| asked.finding("the call was made with it", answer.line)))
            });
            Outcome::of(judged, NOT_RETRIED)
        },
    },
];

/// Something that a server asks of its client.
pub(super) struct Wanted {
    pub(super) method: String,
    pub(super) params: Raw,
    /// What the client has declared.
    pub(super) client: Option<Raw>,
    /// The request of ours whose result asks for it; `None` for a request of the server.
    sent: Option<bytes::Bytes>,
    received: bytes::Bytes,
    /// The place of a request of the server.
    request: Option<usize>,
}

impl Wanted {
    pub(super) fn finding(&self, problem: impl Into<String>) -> Finding {
        Finding::new(problem, self.sent.as_ref(), Some(&self.received))
    }
}

fn is_input(result: &Raw) -> bool {
    text(result, "resultType").is_some_and(|kind| kind == "input_required")
}

/// Everything that the server asks of its client, in the manner of the run's revision.
pub(super) fn wanted(seen: &Seen<'_>) -> Vec<Wanted> {
    if Revisions::LEGACY.contains(&seen.run.version) {
        let client = seen.client_capabilities();
        let requests = seen.requests.iter().map(|request| Wanted {
            method: request.what.method.as_str().to_owned(),
            params: request
                .what
                .params
                .as_ref()
                .map_or_else(Raw::empty_object, |params| params.raw().clone()),
            client: client.clone(),
            sent: None,
            received: request.line.bytes().clone(),
            request: Some(request.place),
        });
        return requests.collect();
    }
    let results = seen.results().filter(|(.., result)| is_input(result.raw()));
    let wanted = results.flat_map(|(asked, answer, result)| {
        let requests = member(result.raw(), "inputRequests").and_then(|requests| members(&requests));
        let client = asked.meta(key::CLIENT_CAPABILITIES);
        let requests: Vec<Wanted> = requests
            .iter()
            .flat_map(|requests| requests.iter())
            .map(|(_, request)| Wanted {
                method: text(request, "method").unwrap_or_default(),
                params: member(request, "params").unwrap_or_else(Raw::empty_object),
                client: client.clone(),
                sent: Some(asked.line.bytes().clone()),
                received: answer.line.bytes().clone(),
                request: None,
            })
            .collect();
        requests
    });
    wanted.collect()
}
