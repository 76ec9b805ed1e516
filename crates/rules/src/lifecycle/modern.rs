//! The era without sessions: each request carries its version and capabilities, and the server handles it by itself.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>

use std::collections::BTreeSet;

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{ErrorObject, Kind, Method, Raw, RequestId, code};

use crate::base::code_of;
use crate::json::{float, has_kind, member, request_id, text, texts};
use crate::rule::{Evidence, Outcome};
use crate::server_view::{OurRequest, Reply, ServerView};
use crate::trace::Probe;

const DISCOVER: &str = "server/discover#discoverresult";
const META: &str = "basic#meta";
const NEGOTIATION: &str = "basic/versioning#protocol-version-negotiation";
const NOT_ANSWERED: &str = "no such request got a response";

rules! {
    pub(crate) RULES for Server in Chapter::Lifecycle;

    "discover-implemented", [MODERN Must "server/discover"],
        "server/discover returns a result.",
        else "server/discover got no response",
        |view| view.answers(Probe::Discover).map(|(reply, outcome)| {
            reply.finding_if(outcome.is_err(), "server/discover returned an error")
        });
    "discover-versions", [MODERN Must DISCOVER],
        "The result of server/discover has supportedVersions: strings, among them the version of the \
         request.",
        |view| discovered(view, |result| {
            let version = view.run.version.as_str();
            match texts(result, "supportedVersions") {
                None => Some("supportedVersions is not an array of strings".into()),
                Some(versions) if versions.iter().any(|known| known == version) => None,
                Some(_) => Some(format!("supportedVersions lacks {version}, the version of the response")),
            }
        });
    "discover-capabilities", [MODERN Must DISCOVER],
        "The result of server/discover has the server's capabilities.",
        |view| discovered(view, |result| {
            let is_good = has_kind(result, "capabilities", Kind::Object);
            (!is_good).then(|| "capabilities is missing or not an object".into())
        });
    "result-type-present", [MODERN Must "basic#result-responses"],
        "Each result has a resultType.",
        |view| each_result(view, |_, result| {
            let is_good = has_kind(result, "resultType", Kind::String);
            (!is_good).then(|| "resultType is missing or not a string".into())
        });
    "result-type-known", [MODERN Must "basic#resulttype"],
        "A resultType is defined by the specification, or by an extension that both sides declare.",
        else "no result has a resultType",
        |view| view.results().filter_map(|(reply, result)| {
            let given = text(result, "resultType")?;
            let is_known = ["complete", "input_required"].contains(&&*given);
            Some(reply.finding_if(!is_known, format_args!("the resultType {given:?} is unknown")))
        });
    "input-required-where-allowed", [MODERN Must "basic/patterns/mrtr#supported-requests"],
        "Only tools/call, prompts/get and resources/read return the resultType input_required.",
        |view| each_result(view, |request, result| {
            let allowed = [Method::CallTool, Method::GetPrompt, Method::ReadResource];
            let is_allowed = request.method.is_none_or(|method| allowed.contains(method));
            let asks = text(result, "resultType").as_deref() == Some("input_required");
            (asks && !is_allowed).then(|| format!("{} returns input_required", request.name()))
        });
    "server-info-in-results", [MODERN Should META],
        "Each result names the server in _meta, under io.modelcontextprotocol/serverInfo.",
        |view| each_result(view, |_, result| {
            let info = member(result, "_meta").and_then(|meta| member(&meta, key::SERVER_INFO));
            let is_named =
                info.is_some_and(|info| text(&info, "name").is_some() && text(&info, "version").is_some());
            (!is_named).then(|| "_meta has no serverInfo with a name and a version".into())
        });
    "cache-ttl", [MODERN Must "server/utilities/caching#time-to-live-ttl-field"],
        "A cacheable result has ttlMs, an integer of 0 or more.",
        |view| cacheable(view, |result| {
            let is_good = float(result, "ttlMs").is_some_and(|ttl| ttl >= 0.0 && ttl.fract() == 0.0);
            (!is_good).then_some("ttlMs is missing or not an integer of 0 or more")
        });
    "cache-scope", [MODERN Must "server/utilities/caching#cache-scope-field"],
        "A cacheable result has cacheScope, \"public\" or \"private\".",
        |view| cacheable(view, |result| {
            let is_good = matches!(text(result, "cacheScope").as_deref(), Some("public" | "private"));
            (!is_good).then_some("cacheScope is missing or has another value")
        });
    "missing-capabilities-refused", [MODERN Must META],
        "A request without the client's capabilities in _meta is rejected with the error -32602.",
        |view| refused(view, Probe::NoCapabilities);
    "missing-version-refused", [MODERN Must META],
        "A request without a protocol version in _meta is rejected with the error -32602.",
        |view| {
            if view.speaks_legacy() {
                return Outcome::Skipped("the server also supports older revisions, in which requests have \
                    no version");
            }
            refused(view, Probe::NoVersion)
        };
    "missing-meta-refused", [MODERN Must META],
        "A request without _meta is rejected with the error -32602.",
        |view| {
            if view.speaks_legacy() {
                return Outcome::Skipped("the server also supports older revisions, in which requests need \
                    no _meta");
            }
            refused(view, Probe::NoMeta)
        };
    "client-info-optional", [MODERN Must META],
        "A request whose _meta does not name the client gets the same response as others.",
        else NOT_ANSWERED,
        |view| view.answers(Probe::NoClientInfo).map(|(reply, outcome)| {
            reply.finding_if(outcome.is_err(), "the request was rejected")
        });
    "unsupported-version-code", [MODERN Must NEGOTIATION],
        "A request with an unsupported version is rejected with the error -32022.",
        |view| {
            let accepted = view.answers(Probe::UnsupportedVersion).map(|(reply, outcome)| {
                reply.finding_if(outcome.is_ok(), "a version that does not exist returned a result")
            });
            match Outcome::of(accepted, NOT_ANSWERED) {
                Outcome::Passed => {
                    let wanted = code::UNSUPPORTED_PROTOCOL_VERSION;
                    code_of(view, Probe::UnsupportedVersion, wanted, NOT_ANSWERED)
                }
                outcome => outcome,
            }
        };
    "unsupported-version-list", [MODERN Must NEGOTIATION],
        "The error -32022 lists the supported versions in data.supported.",
        else "no error -32022 was seen",
        |view| unsupported(view).map(|(reply, error)| {
            let supported = error.data.as_ref().and_then(|data| texts(data, "supported"));
            let is_good = supported.is_some_and(|list| !list.is_empty());
            reply.finding_if(!is_good, "data.supported is not an array of versions")
        });
    "unsupported-version-requested", [MODERN Must "schema#unsupportedprotocolversionerror"],
        "The error -32022 repeats the version of the request in data.requested.",
        else "no error -32022 was seen",
        |view| unsupported(view).map(|(reply, error)| {
            let requested = error.data.as_ref().and_then(|data| text(data, "requested"));
            let is_good = requested.is_some() && requested == version_of(reply.request);
            reply.finding_if(!is_good, "data.requested is not the version of the request")
        });
    "initialize-error-names-versions", [
        MODERN Should "basic/versioning#backward-compatibility-with-initialization-based-versions",
    ],
        "A server without older revisions names its supported versions in the response to initialize.",
        else "initialize was not rejected",
        |view| view.answers(Probe::Initialize).filter_map(|(reply, outcome)| {
            let error = outcome.as_ref().err()?;
            let data = error.data.as_ref().map_or("", Raw::as_str);
            let version = view.run.version.as_str();
            let is_named = error.message.contains(version) || data.contains(version);
            Some(reply.finding_if(!is_named, format_args!("the error does not name {version}")))
        });
    "removed-method-unknown", [MODERN Should "schema#methodnotfounderror"],
        "Methods that this revision removed are rejected with the error -32601.",
        else "no such method was requested",
        |view| view.answers(Probe::RemovedMethod).map(|(reply, outcome)| match outcome {
            Ok(_) => Some(reply.finding(format_args!("{} returned a result", reply.request.name()))),
            Err(error) => reply.finding_if(
                error.code != code::METHOD_NOT_FOUND,
                format_args!("the code is {}, expected {}", error.code, code::METHOD_NOT_FOUND),
            ),
        });
    "no-cancellation-by-server", [MODERN Must "basic/patterns/cancellation"],
        "A server cancels only subscription streams that it ends: notifications/cancelled has the id of a \
         subscriptions/listen.",
        else "the server sent no notification",
        |view| {
            let listens = view.our_requests.iter().filter(|request| request.method == Some(&Method::Listen));
            let streams: BTreeSet<&RequestId> = listens.filter_map(|request| request.id).collect();
            view.notifications.iter().map(move |notification| {
                let is_other = notification.what.method != Method::Cancelled;
                let is_stream = request_id(&notification.what.params).is_some_and(|id| streams.contains(&id));
                notification.finding_if(!is_other && !is_stream, "its id does not belong to a subscription \
                    stream")
            })
        };
}

/// Checks the result of `server/discover`, if it is an object: `check` returns its problem.
fn discovered(view: &ServerView<'_>, check: impl Fn(&Raw) -> Option<String>) -> Outcome {
    let results = view.results_of(Probe::Discover).filter(|(_, result)| result.kind() == Kind::Object);
    let findings = results.map(|(reply, result)| check(result).map(|problem| reply.finding(problem)));
    Outcome::of(findings, "server/discover returned no result")
}

/// Checks every result that is an object: `check` returns the problem of one.
fn each_result(view: &ServerView<'_>, check: impl Fn(&OurRequest<'_>, &Raw) -> Option<String>) -> Outcome {
    let results = view.results().filter(|(_, result)| result.kind() == Kind::Object);
    let findings =
        results.map(|(reply, result)| check(reply.request, result).map(|problem| reply.finding(problem)));
    Outcome::of(findings, "no result was seen")
}

/// Checks every complete result that a client may cache: `check` returns the problem of one.
fn cacheable(view: &ServerView<'_>, check: impl Fn(&Raw) -> Option<&'static str>) -> Outcome {
    let results = view.results().filter(|(reply, result)| {
        reply.request.method.is_some_and(Method::is_cacheable) && crate::features::is_complete(result)
    });
    let findings = results.map(|(reply, result)| check(result).map(|problem| reply.finding(problem)));
    Outcome::of(findings, "no cacheable result was seen")
}

/// Checks that a request without a part of `_meta` is refused with the error -32602.
fn refused(view: &ServerView<'_>, probe: Probe) -> Outcome {
    let findings = view.answers(probe).map(|(reply, outcome)| {
        let Err(error) = outcome else { return Some(reply.finding("the request was accepted")) };
        // Over HTTP, a version that only the header has differs from the one in the body.
        let is_mismatch = error.code == code::HEADER_MISMATCH
            && reply.request.exchange.is_some()
            && matches!(probe, Probe::NoVersion | Probe::NoMeta);
        let is_good = error.code == code::INVALID_PARAMS || is_mismatch;
        reply.finding_if(
            !is_good,
            format_args!("the code is {}, expected {}", error.code, code::INVALID_PARAMS),
        )
    });
    Outcome::of(findings, NOT_ANSWERED)
}

/// The errors -32022 for requests that name a version in `_meta`. `initialize`, which names it elsewhere, may have this error
/// too.
fn unsupported<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = (Reply<'s, 'a>, &'a ErrorObject)> {
    let requests = view.our_requests.iter().filter(|request| version_of(request).is_some());
    requests.filter_map(|request| {
        let (reply, outcome) = request.answer()?;
        let error = outcome.as_ref().err()?;
        (error.code == code::UNSUPPORTED_PROTOCOL_VERSION).then_some((reply, error))
    })
}

/// The version that a request of ours names.
fn version_of(request: &OurRequest<'_>) -> Option<String> {
    crate::json::string(&request.meta(key::PROTOCOL_VERSION)?)
}
