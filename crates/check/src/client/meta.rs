//! What every request of the modern era carries with it.

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Method, code};

use super::lifecycle::nameless;
use super::talk::{Asked, is_object};
use super::utilities::is_string;
use crate::grammar::meta_key_fault;
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{Seen, member, members, strings};

const META: &[Source] = &[Source::new(Revisions::MODERN, Must, "basic#meta")];

pub(super) static RULES: [Rule; 7] = [
    Rule {
        slug: "client-meta-complete",
        chapter: Chapter::Lifecycle,
        sentence: "Each request of a client has its protocol version and the client's capabilities in _meta.",
        sources: META,
        judge: |seen| {
            requests(seen, |asked| {
                let meta = asked.meta();
                let has = |key| meta.as_ref().and_then(|meta| member(meta, key));
                if !is_string(has(key::PROTOCOL_VERSION).as_ref()) {
                    return Some(missing(asked, key::PROTOCOL_VERSION, "string"));
                }
                (!is_object(has(key::CLIENT_CAPABILITIES).as_ref()))
                    .then(|| missing(asked, key::CLIENT_CAPABILITIES, "object"))
            })
        },
    },
    Rule {
        slug: "client-info-sent",
        chapter: Chapter::Lifecycle,
        sentence: "Each request of a client says in _meta who the client is, if it is not told to keep it to itself.",
        sources: &[Source::new(Revisions::MODERN, Should, "basic#meta")],
        judge: |seen| {
            requests(seen, |asked| {
                let info = asked.meta().and_then(|meta| member(&meta, key::CLIENT_INFO));
                info.is_none().then(|| asked.finding(format!("{} is missing", key::CLIENT_INFO)))
            })
        },
    },
    Rule {
        slug: "client-info-complete",
        chapter: Chapter::Lifecycle,
        sentence: "What a client says of itself in _meta is its name and its version.",
        sources: &[Source::new(Revisions::MODERN, Must, "schema#implementation")],
        judge: |seen| {
            let judged = seen.talk().asked.iter().filter_map(|asked| {
                let info = member(&asked.meta()?, key::CLIENT_INFO)?;
                Some(
                    nameless(Some(&info))
                        .map(|problem| asked.finding(format!("{} {problem}", key::CLIENT_INFO))),
                )
            });
            Outcome::of(judged, "no request said who the client is")
        },
    },
    Rule {
        slug: "client-meta-key-names",
        chapter: Chapter::Lifecycle,
        sentence: "The names in a client's _meta are words, with a prefix of labels and a slash before them or none.",
        sources: &[
            Source::new(Revisions::LEGACY_SINCE_THIRD, Must, "basic#meta"),
            Source::new(Revisions::MODERN, Must, "basic#meta"),
        ],
        judge: |seen| {
            let judged = seen.talk().asked.iter().filter_map(|asked| {
                let meta = members(&asked.meta()?)?;
                let wrong = meta.keys().find(|name| meta_key_fault(name).is_some());
                Some(wrong.map(|name| asked.finding(format!("{name:?} is no such name"))))
            });
            Outcome::of(judged, "the client sent no _meta")
        },
    },
    Rule {
        slug: "client-extension-names",
        chapter: Chapter::Lifecycle,
        sentence: "The extensions that a client declares have names like those in _meta, with a prefix.",
        sources: &[Source::new(Revisions::MODERN, Must, "basic/versioning#extension-negotiation")],
        judge: |seen| {
            let talk = seen.talk();
            let judged = talk.asked.iter().filter_map(|asked| {
                let extensions = members(&member(&talk.capabilities(Some(asked))?, "extensions")?)?;
                let wrong =
                    extensions.keys().find(|name| meta_key_fault(name).is_some() || !name.contains('/'));
                Some(wrong.map(|name| asked.finding(format!("{name:?} is no such name"))))
            });
            Outcome::of(judged, "the client declared no extension")
        },
    },
    Rule {
        slug: "client-known-method",
        chapter: Chapter::Lifecycle,
        sentence: "A client uses no method that belongs to earlier revisions alone.",
        sources: &[Source::new(Revisions::MODERN, Advice, "basic/versioning")],
        judge: |seen| {
            let talk = seen.talk();
            requests(seen, |asked| {
                let facts = asked.what.method.facts()?;
                (!facts.exists_in(talk.version()))
                    .then(|| asked.finding(format!("{} has no {}", talk.version(), facts.name)))
            })
        },
    },
    Rule {
        slug: "client-retries-with-supported-version",
        chapter: Chapter::Lifecycle,
        sentence: "A client that is told which versions are supported goes on with one of them, or not at all.",
        sources: &[Source::new(Revisions::MODERN, Should, "basic/versioning#protocol-version-negotiation")],
        judge: |seen| {
            let talk = seen.talk();
            let modern: Vec<&Asked<'_>> =
                talk.asked.iter().filter(|asked| asked.what.method != Method::Initialize).collect();
            let judged =
                talk.asked.iter().filter_map(|asked| {
                    let said = asked.answer?;
                    let error = said.outcome.as_ref().err()?;
                    if error.code != code::UNSUPPORTED_PROTOCOL_VERSION {
                        return None;
                    }
                    let supported = strings(&member(error.data.as_ref()?, "supported")?)?;
                    // They stand in the order of their places.
                    let next = modern.get(modern.partition_point(|next| next.place <= said.place))?;
                    let version = member(&next.meta()?, key::PROTOCOL_VERSION)?;
                    let version = version.to_string_value()?.into_owned();
                    Some((!supported.contains(&version)).then(|| {
                        next.finding(format!("{version} was not among those that the server supports"))
                    }))
                });
            Outcome::of(judged, "no version was refused, or the client left")
        },
    },
];

fn missing(asked: &Asked<'_>, key: &str, kind: &str) -> Finding {
    asked.finding(format!("{key} is missing or no {kind}"))
}

/// Looks at the requests that are not of another era.
fn requests(seen: &Seen<'_>, look: impl Fn(&Asked<'_>) -> Option<Finding>) -> Outcome {
    let asked = seen.talk().asked.iter().filter(|asked| asked.what.method != Method::Initialize);
    Outcome::of(asked.map(look), "the client sent no request")
}
