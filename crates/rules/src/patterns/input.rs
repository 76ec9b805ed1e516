//! Input that a server asks of its client: in results of the modern era, as requests in the legacy era.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{ErrorObject, Kind, Method, Needs, Raw, code};

use crate::json::{has_path, member, members, text};
use crate::revisions::Revisions;
use crate::rule::{Finding, Outcome, Source};
use crate::server_view::ServerView;
use crate::trace::Probe;

const SERVERS: &[Source] = sources![MODERN Must "basic/patterns/mrtr#server-requirements-basic-workflow"];
const NOT_ASKED: &str = "no result asked for input: see --call";
const ERRORS: &[Source] = sources![MODERN Should "basic/patterns/mrtr#error-handling"];
const NOT_RETRIED: &str = "no tool has asked for input: see --read-only-tools";
/// What may be asked for.
const KNOWN: [Method; 3] = [Method::Elicit, Method::CreateMessage, Method::ListRoots];

rules! {
    pub(crate) RULES for Server in Chapter::Patterns;

    "input-required-says-what", SERVERS,
        "A result that asks for input has inputRequests, an object, or requestState, a string.",
        |view| {
            let findings = view.results().filter(|(.., result)| is_input(result.raw())).map(
                |(request, response, result)| {
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
                    Some(request.finding(problem, response.line))
                },
            );
            Outcome::of(findings, NOT_ASKED)
        };
    "input-requests-known", SERVERS,
        "What a result asks for is elicitation/create, sampling/createMessage or roots/list.",
        |view| {
            let modern = wanted(view).into_iter().filter(|wanted| wanted.request.is_none());
            let findings = modern.map(|wanted| {
                let known = KNOWN.iter().any(|known| known.as_str() == wanted.method);
                (!known).then(|| wanted.finding(format!("it asks for {:?}", wanted.method)))
            });
            Outcome::of(findings, NOT_ASKED)
        };
    "input-requests-declared", SERVERS,
        "A result asks for nothing that the client has not declared in the request.",
        |view| {
            let modern = wanted(view).into_iter().filter(|wanted| wanted.request.is_none());
            let findings = modern.map(|wanted| {
                let Some(Needs::Client(capability)) =
                    Method::parse(&wanted.method).facts().map(|facts| facts.needs)
                else {
                    return None;
                };
                let declared = wanted.client.as_ref().is_some_and(|ours| has_path(ours, capability));
                let problem = || format!("{} needs {capability}, which was not declared", wanted.method);
                (!declared).then(|| wanted.finding(problem()))
            });
            Outcome::of(findings, NOT_ASKED)
        };
    "missing-client-capability-code", [MODERN Must "basic#meta"],
        "The error -32021 lists what the client should have declared in data.requiredCapabilities.",
        |view| {
            let errors =
                view.errors().filter(|(.., error)| error.code == code::MISSING_REQUIRED_CLIENT_CAPABILITY);
            let findings = errors.map(|(request, line, error)| {
                let named = error.data.as_ref().and_then(|data| member(data, "requiredCapabilities"));
                let good = named.is_some_and(|named| named.kind() == Kind::Object);
                let problem = "data.requiredCapabilities is missing or no object";
                let sent = request.map(|request| request.line.bytes());
                (!good).then(|| Finding::new(problem, sent, Some(line.bytes())))
            });
            Outcome::of(findings, "nothing needed what we have not declared")
        };
    "input-asked-again", ERRORS,
        "Input that was asked for and is not there is asked for again, and is no error.",
        |view| {
            let findings = view.probed(Probe::NoInput).filter_map(|request| {
                let (response, outcome) = request.response()?;
                let problem = |error: &ErrorObject| format!("it brought the error {}", error.code);
                Some(outcome.as_ref().err().map(|error| request.finding(problem(error), response.line)))
            });
            Outcome::of(findings, NOT_RETRIED)
        };
    "unknown-input-ignored", ERRORS,
        "An answer to what was not asked is passed over.",
        |view| {
            // The same without it is taken.
            let taken =
                view.probed(Probe::Declined).any(|request| matches!(request.response(), Some((_, Ok(_)))));
            let findings = view.probed(Probe::UnknownInput).filter(|_| taken).filter_map(|request| {
                let (response, outcome) = request.response()?;
                let problem = |error: &ErrorObject| format!("it brought the error {}", error.code);
                Some(outcome.as_ref().err().map(|error| request.finding(problem(error), response.line)))
            });
            Outcome::of(findings, NOT_RETRIED)
        };
    "bad-input-refused", ERRORS,
        "Input responses that are no object are not taken for answers.",
        |view| {
            let findings = view.probed(Probe::BadInput).filter_map(|request| {
                let (response, outcome) = request.response()?;
                let taken = outcome.as_ref().is_ok_and(|result| {
                    let failed = member(result.raw(), "isError").is_some_and(|flag| flag.as_str() == "true");
                    !is_input(result.raw()) && !failed
                });
                Some(taken.then(|| request.finding("the call was made with it", response.line)))
            });
            Outcome::of(findings, NOT_RETRIED)
        };
}

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
pub(super) fn wanted(view: &ServerView<'_>) -> Vec<Wanted> {
    if Revisions::LEGACY.contains(&view.run.version) {
        let client = view.client_capabilities();
        let requests = view.requests.iter().map(|request| Wanted {
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
    let results = view.results().filter(|(.., result)| is_input(result.raw()));
    let wanted = results.flat_map(|(request, response, result)| {
        let requests = member(result.raw(), "inputRequests").and_then(|requests| members(&requests));
        let client = request.meta(key::CLIENT_CAPABILITIES);
        let requests: Vec<Wanted> = requests
            .iter()
            .flat_map(|requests| requests.iter())
            .map(|(_, wanted)| Wanted {
                method: text(wanted, "method").unwrap_or_default(),
                params: member(wanted, "params").unwrap_or_else(Raw::empty_object),
                client: client.clone(),
                sent: Some(request.line.bytes().clone()),
                received: response.line.bytes().clone(),
                request: None,
            })
            .collect();
        requests
    });
    wanted.collect()
}
