//! `_meta`, which each request of the modern era carries.

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Method, code};

use super::lifecycle::nameless;
use super::utilities::is_string;
use crate::client_view::{ClientRequest, ClientView};
use crate::grammar::meta_key_fault;
use crate::json::{is_object, member, members, strings};
use crate::rule::{Finding, Outcome, Source};

const META: &[Source] = sources![MODERN Must "basic#meta"];

rules! {
    pub(crate) RULES for Client in Chapter::Lifecycle;

    "client-meta-complete", META,
        "Each request of a client has its protocol version and the client's capabilities in _meta.",
        |view| {
            requests(view, |request| {
                let meta = request.meta();
                let has = |key| meta.as_ref().and_then(|meta| member(meta, key));
                if !is_string(has(key::PROTOCOL_VERSION).as_ref()) {
                    return Some(missing(request, key::PROTOCOL_VERSION, "string"));
                }
                (!is_object(has(key::CLIENT_CAPABILITIES).as_ref()))
                    .then(|| missing(request, key::CLIENT_CAPABILITIES, "object"))
            })
        };
    "client-info-sent", [MODERN Should "basic#meta"],
        "Each request of a client says in _meta who the client is, if it is not told to keep it to itself.",
        |view| {
            requests(view, |request| {
                let info = request.meta().and_then(|meta| member(&meta, key::CLIENT_INFO));
                info.is_none().then(|| request.finding(format!("{} is missing", key::CLIENT_INFO)))
            })
        };
    "client-info-complete", [MODERN Must "schema#implementation"],
        "What a client says of itself in _meta is its name and its version.",
        |view| {
            let findings = view.requests.iter().filter_map(|request| {
                let info = member(&request.meta()?, key::CLIENT_INFO)?;
                Some(
                    nameless(Some(&info))
                        .map(|problem| request.finding(format!("{} {problem}", key::CLIENT_INFO))),
                )
            });
            Outcome::of(findings, "no request said who the client is")
        };
    "client-meta-key-names", [LEGACY_SINCE_THIRD Must "basic#meta", MODERN Must "basic#meta"],
        "The names in a client's _meta are words, with a prefix of labels and a slash before them or none.",
        |view| {
            let findings = view.requests.iter().filter_map(|request| {
                let meta = members(&request.meta()?)?;
                let wrong = meta.keys().find(|name| meta_key_fault(name).is_some());
                Some(wrong.map(|name| request.finding(format!("{name:?} is no such name"))))
            });
            Outcome::of(findings, "the client sent no _meta")
        };
    "client-extension-names", [MODERN Must "basic/versioning#extension-negotiation"],
        "The extensions that a client declares have names like those in _meta, with a prefix.",
        |view| {
            let findings = view.requests.iter().filter_map(|request| {
                let extensions = members(&member(&view.capabilities(Some(request))?, "extensions")?)?;
                let wrong =
                    extensions.keys().find(|name| meta_key_fault(name).is_some() || !name.contains('/'));
                Some(wrong.map(|name| request.finding(format!("{name:?} is no such name"))))
            });
            Outcome::of(findings, "the client declared no extension")
        };
    "client-known-method", [MODERN Advice "basic/versioning"],
        "A client uses no method that belongs to earlier revisions alone.",
        |view| {
            requests(view, |request| {
                let facts = request.what.method.facts()?;
                (!facts.exists_in(view.version()))
                    .then(|| request.finding(format!("{} has no {}", view.version(), facts.name)))
            })
        };
    "client-retries-with-supported-version", [MODERN Should "basic/versioning#protocol-version-negotiation"],
        "A client that is told which versions are supported goes on with one of them, or not at all.",
        |view| {
            let modern: Vec<&ClientRequest<'_>> =
                view.requests.iter().filter(|request| request.what.method != Method::Initialize).collect();
            let findings =
                view.requests.iter().filter_map(|request| {
                    let response = request.response?;
                    let error = response.outcome.as_ref().err()?;
                    if error.code != code::UNSUPPORTED_PROTOCOL_VERSION {
                        return None;
                    }
                    let supported = strings(&member(error.data.as_ref()?, "supported")?)?;
                    // They stand in the order of their places.
                    let next = modern.get(modern.partition_point(|next| next.place <= response.place))?;
                    let version = member(&next.meta()?, key::PROTOCOL_VERSION)?;
                    let version = version.to_string_value()?.into_owned();
                    Some((!supported.contains(&version)).then(|| {
                        next.finding(format!("{version} was not among those that the server supports"))
                    }))
                });
            Outcome::of(findings, "no version was refused, or the client left")
        };
}

fn missing(request: &ClientRequest<'_>, key: &str, kind: &str) -> Finding {
    request.finding(format!("{key} is missing or no {kind}"))
}

/// Looks at the requests that are not of another era.
fn requests(view: &ClientView<'_>, look: impl Fn(&ClientRequest<'_>) -> Option<Finding>) -> Outcome {
    let request = view.requests.iter().filter(|request| request.what.method != Method::Initialize);
    Outcome::of(request.map(look), "the client sent no request")
}
