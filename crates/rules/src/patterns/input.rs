//! Input that a server requests from its client: in results of the modern era, as requests in the legacy era.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>

use std::fmt::Display;

use bytes::Bytes;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Needs, Raw, code};

use crate::json::{has_kind, has_path, is_true, member, object, text};
use crate::rule::{Evidence, Finding, Source};
use crate::server_view::{Reply, ServerView};
use crate::trace::Probe;

const SERVERS: &[Source] = sources![MODERN Must "basic/patterns/mrtr#server-requirements-basic-workflow"];
const ERRORS: &[Source] = sources![MODERN Should "basic/patterns/mrtr#error-handling"];
const NOT_ASKED: &str = "no result asked for input: see --call";
const NOT_RETRIED: &str = "no tool has asked for input: see --read-only-tools";
/// The methods that a result may contain.
const KNOWN: [Method; 3] = [Method::Elicit, Method::CreateMessage, Method::ListRoots];

rules! {
    pub(crate) RULES for Server in Chapter::Patterns;

    "input-required-says-what", SERVERS,
        "A result that asks for input has inputRequests, an object, or requestState, a string.",
        else NOT_ASKED,
        |view| view.results().filter(|(_, result)| is_input(result)).map(|(reply, result)| {
            let problem = match (member(result, "inputRequests"), member(result, "requestState")) {
                (None, None) => "it has neither inputRequests nor requestState",
                (Some(requests), _) if requests.kind() != Kind::Object => "inputRequests is no object",
                (_, Some(state)) if state.kind() != Kind::String => "requestState is no string",
                _ => return None,
            };
            Some(reply.finding(problem))
        });
    "input-requests-known", SERVERS,
        "What a result asks for is elicitation/create, sampling/createMessage or roots/list.",
        else NOT_ASKED,
        |view| wanted(view).into_iter().filter(|wanted| wanted.sent.is_some()).map(|wanted| {
            let is_known = KNOWN.iter().any(|known| known.as_str() == wanted.method);
            wanted.finding_if(!is_known, format_args!("it asks for {:?}", wanted.method))
        });
    "input-requests-declared", SERVERS,
        "A result asks for nothing that the client has not declared in the request.",
        else NOT_ASKED,
        |view| wanted(view).into_iter().filter(|wanted| wanted.sent.is_some()).map(|wanted| {
            let Needs::Client(capability) = Method::parse(&wanted.method).facts()?.needs else { return None };
            let is_declared = wanted.client.as_ref().is_some_and(|ours| has_path(ours, capability));
            wanted.finding_if(
                !is_declared,
                format_args!("{} needs {capability}, which was not declared", wanted.method),
            )
        });
    "missing-client-capability-code", [MODERN Must "basic#meta"],
        "The error -32021 lists what the client should have declared in data.requiredCapabilities.",
        else "nothing needed what we have not declared",
        |view| view.errors_with(code::MISSING_REQUIRED_CLIENT_CAPABILITY).map(|it| {
            let data = it.error.data.as_ref();
            let is_good = data.is_some_and(|data| has_kind(data, "requiredCapabilities", Kind::Object));
            it.finding_if(!is_good, "data.requiredCapabilities is missing or no object")
        });
    "input-asked-again", ERRORS,
        "Input that was asked for and is not there is asked for again, and is no error.",
        else NOT_RETRIED,
        |view| errors(view, Probe::NoInput);
    "unknown-input-ignored", ERRORS,
        "An answer to what was not asked is passed over.",
        else NOT_RETRIED,
        |view| {
            // The same request without the unknown input is accepted.
            let is_accepted = view.answers(Probe::Declined).any(|(_, outcome)| outcome.is_ok());
            errors(view, Probe::UnknownInput).filter(move |_| is_accepted)
        };
    "bad-input-refused", ERRORS,
        "Input responses that are no object are not taken for answers.",
        else NOT_RETRIED,
        |view| view.answers(Probe::BadInput).map(|(reply, outcome)| {
            let result = outcome.as_ref().ok().map(|result| result.raw());
            let is_taken = result.is_some_and(|result| !is_input(result) && !is_true(result, "isError"));
            reply.finding_if(is_taken, "the call was made with it")
        });
}

/// A finding for each error with which a probe was answered.
fn errors(view: &ServerView<'_>, probe: Probe) -> impl Iterator<Item = Option<Finding>> {
    view.answers(probe).map(|(reply, outcome)| {
        let error = outcome.as_ref().err()?;
        Some(reply.finding(format_args!("it brought the error {}", error.code)))
    })
}

/// A request of the server to its client.
pub(super) struct Wanted {
    pub(super) method: String,
    pub(super) params: Raw,
    /// The capabilities that we declared.
    pub(super) client: Option<Raw>,
    /// The request of ours whose result contains it; `None` for a request of the legacy era.
    sent: Option<Bytes>,
    received: Bytes,
}

impl Evidence for Wanted {
    fn finding(&self, problem: impl Display) -> Finding {
        Finding::new(problem, self.sent.as_ref(), Some(&self.received))
    }
}

fn is_input(result: &Raw) -> bool {
    text(result, "resultType").is_some_and(|kind| kind == "input_required")
}

/// The requests of the server to its client, as the run's era has them.
pub(super) fn wanted(view: &ServerView<'_>) -> Vec<Wanted> {
    if view.run.is_legacy() {
        let client = view.client_capabilities();
        let requests = view.requests.iter().map(|request| {
            let params = request.what.params.as_ref();
            Wanted {
                method: request.what.method.as_str().to_owned(),
                params: params.map_or_else(Raw::empty_object, |params| params.raw().clone()),
                client: client.clone(),
                sent: None,
                received: request.line.bytes().clone(),
            }
        });
        return requests.collect();
    }
    let results = view.results().filter(|(_, result)| is_input(result));
    let wanted = results.flat_map(|(Reply { request, response }, result)| {
        let client = request.meta(key::CLIENT_CAPABILITIES);
        let requests = object(result, "inputRequests").into_iter().flatten();
        requests.map(move |(_, wanted)| Wanted {
            method: text(&wanted, "method").unwrap_or_default(),
            params: member(&wanted, "params").unwrap_or_else(Raw::empty_object),
            client: client.clone(),
            sent: Some(request.line.bytes().clone()),
            received: response.line.bytes().clone(),
        })
    });
    wanted.collect()
}

/// The requests of the server for this method.
pub(super) fn wanted_by(view: &ServerView<'_>, method: &Method) -> impl Iterator<Item = Wanted> {
    wanted(view).into_iter().filter(move |wanted| wanted.method == method.as_str())
}
