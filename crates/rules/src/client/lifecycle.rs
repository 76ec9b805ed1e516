//! How a client opens a session of the legacy era, the `_meta` of its requests in the modern era, and that it uses no
//! feature that was not negotiated.

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Direction, Kind, Message, Method, Needs, Raw, Version, code};

use super::CROSSING;
use crate::client_view::{ClientRequest, ClientView, has};
use crate::grammar::meta_key_fault;
use crate::json::{has_kind, member, members, object, string, text, text_param, texts};
use crate::revisions::Revisions;
use crate::rule::{Evidence, Finding, Outcome, Source};
use crate::trace::{Channel, Line};

const INITIALIZATION: &[Source] = sources![LEGACY Must "basic/lifecycle#initialization"];
const NEGOTIATION: &str = "basic/lifecycle#version-negotiation";
const OPERATION: &[Source] = sources![FIRST_TWO Should "basic/lifecycle#operation", LEGACY_SINCE_THIRD Must "basic/lifecycle#operation"];
const META: &[Source] = sources![MODERN Must "basic#meta"];
const NOT_OPENED: &str = "the client did not send initialize";
const NO_REQUEST: &str = "the client sent no request";

rules! {
    pub(crate) RULES for Client in Chapter::Lifecycle;

    "client-opens-with-initialize", INITIALIZATION,
        "A client begins with initialize.",
        else NO_REQUEST,
        |view| {
            // A ping is allowed before the session is open, and uses nothing of it.
            let first = view.requests.iter().find(|request| request.what.method != Method::Ping);
            first.map(|request| {
                let method = &request.what.method;
                request.finding_if(*method != Method::Initialize, format_args!("its first request is {method}"))
            })
        };
    "client-initialize-alone", [BATCHING Must "basic/lifecycle#initialization"],
        "A client's initialize is not part of a batch.",
        else NOT_OPENED,
        |view| view.calls(&Method::Initialize).map(|request| {
            request.finding_if(request.line.is_array(), "it is in an array")
        });
    "client-initialize-complete", INITIALIZATION,
        "A client's initialize has a protocol version, the client's capabilities, and its name and version.",
        else NOT_OPENED,
        |view| view.calls(&Method::Initialize).map(|request| {
            let params = request.what.params.as_ref().map_or_else(Raw::empty_object, |params| params.raw().clone());
            if !has_kind(&params, "protocolVersion", Kind::String) {
                return Some(request.finding("protocolVersion is missing or not a string"));
            }
            if !has_kind(&params, "capabilities", Kind::Object) {
                return Some(request.finding("capabilities is missing or not an object"));
            }
            let fault = info_fault(member(&params, "clientInfo"))?;
            Some(request.finding(format_args!("clientInfo {fault}")))
        });
    "client-version-exists", [LEGACY Advice NEGOTIATION],
        "The version in a client's initialize is a revision that has initialize.",
        else NOT_OPENED,
        |view| view.calls(&Method::Initialize).map(|request| {
            let version = request.text_param("protocolVersion")?;
            let exists = Revisions::LEGACY.contains(&Version::parse(&version));
            request.finding_if(!exists, format_args!("unknown revision {version:?}"))
        });
    "client-waits-for-initialize", [LEGACY Should "basic/lifecycle#initialization"],
        "Before the response to initialize, a client sends no request except ping.",
        else NOT_OPENED,
        |view| {
            let Some(opened) = view.calls(&Method::Initialize).next() else {
                return Outcome::Skipped(NOT_OPENED);
            };
            let answered = opened.response.map_or(usize::MAX, |response| response.place);
            let early = view.requests.iter().filter(move |request| {
                (opened.place + 1..answered).contains(&request.place)
                    && !matches!(request.what.method, Method::Ping | Method::Initialize)
            });
            early
                .map(|it| Some(it.finding(format_args!("{} came before the response", it.what.method))))
                .chain([None])
        };
    "client-sends-initialized", INITIALIZATION,
        "A client sends notifications/initialized after initialize has returned a result, and not before.",
        sends_initialized;
    "client-leaves-unknown-version", [LEGACY Should NEGOTIATION],
        "A client disconnects when the server answers with a version that it does not support.",
        else NOT_OPENED,
        |view| {
            let Some((_, response, _)) = view.opening().filter(|_| view.is_unusable()) else {
                return Outcome::Skipped("the server answered with a version that exists");
            };
            // Another initialize, or a cancellation, does not use this session.
            let is_use = |line: &Line| line.parts().any(|part| !is_opening(part.ok()));
            let after = view.lines.iter().find(|(place, line)| *place > response.place && is_use(line));
            [after.map(|(_, line)| line.finding("the client did not disconnect"))]
        };
    "client-accepts-offered-version", [LEGACY Must NEGOTIATION],
        "A client requests a version that it supports: it continues when the server agrees.",
        else "the client disconnected at once",
        |view| {
            let Some((opened, response, result)) = view.opening() else {
                return Outcome::Skipped("initialize did not return a result");
            };
            let (agreed, wanted) = (text(result, "protocolVersion"), opened.text_param("protocolVersion"));
            if agreed.is_none() || agreed != wanted {
                return Outcome::Skipped("the client did not get the version that it requested");
            }
            if view.lines.iter().any(|(place, _)| *place > response.place) {
                return Outcome::Passed;
            }
            // On the same connection, there is no other client.
            let next = next_opening(view).filter(|(next, _)| Some(next) != wanted.as_ref());
            next.map(|(next, line)| {
                Some(line.finding(format_args!("it now requests {next:?}, although it got the version that \
                    it requested")))
            })
        };
    "client-undeclared-not-asked", OPERATION,
        "A client uses only features that the server declares.",
        else "the client used no feature that must be declared",
        |view| {
            let Some(offered) = view.offered() else {
                return Outcome::Skipped("initialize did not return capabilities");
            };
            // The first revision has completion without a capability for it.
            let is_first = Revisions::FIRST.contains(view.version());
            view.methods().filter_map(move |(method, line)| {
                let Needs::Server(path) = method.facts()?.needs else { return None };
                let is_declared = has(&offered, path) || is_first && path == "completions";
                Some(line.finding_if(
                    !is_declared,
                    format_args!("{method} needs {path}, which the server does not declare"),
                ))
            })
        };
    "client-respects-version", OPERATION,
        "A client uses only methods of the negotiated revision.",
        else "the client sent no message",
        |view| view.methods().filter_map(|(method, line)| {
            let facts = method.facts()?;
            if facts.direction == Direction::ToClient {
                return Some(Some(line.finding(format_args!("only servers send {}", facts.name))));
            }
            let exists = facts.exists_in(view.version());
            Some(line.finding_if(!exists, format_args!("{} does not have {}", view.version(), facts.name)))
        });
    "client-meta-complete", META,
        "Each request of a client has its protocol version and capabilities in _meta.",
        |view| modern(view, |request| {
            let meta = request.meta().unwrap_or_else(Raw::empty_object);
            let needed = [
                (key::PROTOCOL_VERSION, Kind::String, "string"),
                (key::CLIENT_CAPABILITIES, Kind::Object, "object"),
            ];
            let (key, _, kind) = needed.into_iter().find(|(key, kind, _)| !has_kind(&meta, key, *kind))?;
            Some(request.finding(format_args!("{key} is missing or not {kind}")))
        });
    "client-info-sent", [MODERN Should "basic#meta"],
        "Each request of a client names the client in _meta, unless this is switched off.",
        |view| modern(view, |request| {
            let is_missing = request.meta_member(key::CLIENT_INFO).is_none();
            request.finding_if(is_missing, format_args!("{} is missing", key::CLIENT_INFO))
        });
    "client-info-complete", [MODERN Must "schema#implementation"],
        "The client information in _meta has a name and a version.",
        else "no request named the client",
        |view| view.requests.iter().filter_map(|request| {
            let fault = info_fault(Some(request.meta_member(key::CLIENT_INFO)?));
            Some(fault.map(|fault| request.finding(format_args!("{} {fault}", key::CLIENT_INFO))))
        });
    "client-meta-key-names", [LEGACY_SINCE_THIRD Must "basic#meta", MODERN Must "basic#meta"],
        "Names in a client's _meta are words, with an optional prefix of labels and a slash.",
        else "the client sent no _meta",
        |view| view.requests.iter().filter_map(|request| {
            let meta = members(&request.meta()?)?;
            let wrong = meta.keys().find(|name| meta_key_fault(name).is_some());
            Some(wrong.map(|name| request.finding(format_args!("{name:?} is not a valid name"))))
        });
    "client-extension-names", [MODERN Must "basic/versioning#extension-negotiation"],
        "Names of a client's extensions follow the rules for _meta, with a prefix.",
        else "the client declared no extension",
        |view| view.requests.iter().filter_map(|request| {
            let extensions = object(&view.capabilities(Some(request))?, "extensions")?;
            let wrong = extensions.keys().find(|name| meta_key_fault(name).is_some() || !name.contains('/'));
            Some(wrong.map(|name| request.finding(format_args!("{name:?} is not a valid name"))))
        });
    "client-known-method", [MODERN Advice "basic/versioning"],
        "A client uses no method that only earlier revisions have.",
        |view| modern(view, |request| {
            let facts = request.what.method.facts()?;
            let exists = facts.exists_in(view.version());
            request.finding_if(!exists, format_args!("{} does not have {}", view.version(), facts.name))
        });
    "client-retries-with-supported-version", [MODERN Should "basic/versioning#protocol-version-negotiation"],
        "After an unsupported version, a client continues with one of the supported versions, or \
         disconnects.",
        else "no version was rejected, or the client disconnected",
        |view| {
            let modern = view.requests.iter().filter(|request| request.what.method != Method::Initialize);
            let modern: Vec<&ClientRequest<'_>> = modern.collect();
            view.requests.iter().filter_map(move |request| {
                let response = request.response?;
                let error = response.error()?;
                if error.code != code::UNSUPPORTED_PROTOCOL_VERSION {
                    return None;
                }
                let supported = texts(error.data.as_ref()?, "supported")?;
                // Requests are in the order of their places.
                let next = modern.get(modern.partition_point(|next| next.place <= response.place))?;
                let version = |of: &ClientRequest<'_>| string(&of.meta_member(key::PROTOCOL_VERSION)?);
                let given = version(next)?;
                // A request that crossed with the error says nothing if the client went on as it should.
                let is_crossing = next.at.saturating_sub(response.at) <= CROSSING
                    && modern.last().and_then(|last| version(last)).is_some_and(|last| supported.contains(&last));
                Some(next.finding_if(
                    !supported.contains(&given) && !is_crossing,
                    format_args!("the server does not support {given}"),
                ))
            })
        };
}

fn sends_initialized(view: &ClientView<'_>) -> Outcome {
    let notification = view.notified(&Method::Initialized).next();
    let Some((opened, response, _)) = view.opening().filter(|_| !view.is_unusable()) else {
        // No sentence says what follows an error.
        let is_answered = view.calls(&Method::Initialize).any(|request| request.response.is_some());
        let early = notification.filter(|_| !is_answered);
        return Outcome::of(
            early.map(|notification| Some(notification.finding("initialize got no response"))),
            "initialize did not return a valid result",
        );
    };
    if let Some(notification) = notification {
        let is_early = notification.place < response.place;
        return Outcome::of(
            [notification.finding_if(is_early, "initialize has no response yet")],
            NOT_OPENED,
        );
    }
    let mut later = view.requests.iter().filter(|request| request.place > response.place);
    let has_waited = view.left_at.saturating_sub(response.at) >= view.trace.respond_within;
    if !has_waited && later.all(|request| request.what.method == Method::Ping) {
        return Outcome::Skipped("the client disconnected at once");
    }
    Outcome::Failed(vec![opened.finding("it was never sent")])
}

/// Whether a message opens a session, or cancels a request.
fn is_opening(message: Option<&Message>) -> bool {
    match message {
        Some(Message::Request(request)) => request.method == Method::Initialize,
        Some(Message::Notification(notification)) => notification.method == Method::Cancelled,
        _ => false,
    }
}

/// The problem of the description of an implementation.
fn info_fault(info: Option<Raw>) -> Option<&'static str> {
    let Some(info) = info.filter(|info| info.kind() == Kind::Object) else {
        return Some("is missing or not an object");
    };
    if !has_kind(&info, "name", Kind::String) {
        return Some("has no string `name`");
    }
    (!has_kind(&info, "version", Kind::String)).then_some("has no string `version`")
}

/// The version that the client requests in the next session on the same stream.
fn next_opening<'a>(view: &ClientView<'a>) -> Option<(String, &'a Line)> {
    let is_stdio = view.run.channel == Channel::Stdio;
    let next = view.later_runs().take(1).filter(|run| run.channel == Channel::Stdio && is_stdio);
    let mut lines = next.flat_map(|run| run.received_lines());
    lines.find_map(|line| {
        let mut requests = line.requests().filter(|request| request.method == Method::Initialize);
        requests.find_map(|request| Some((text_param(&request.params, "protocolVersion")?, line)))
    })
}

/// Checks the requests of the modern era: all but `initialize`.
fn modern(view: &ClientView<'_>, check: impl Fn(&ClientRequest<'_>) -> Option<Finding>) -> Outcome {
    let requests = view.requests.iter().filter(|request| request.what.method != Method::Initialize);
    Outcome::of(requests.map(check), NO_REQUEST)
}
