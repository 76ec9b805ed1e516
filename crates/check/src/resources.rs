//! The chapter of resources: addresses and templates of addresses, what describes them, and what reading one brings.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/resources>

use mcpjoin_proto::{Kind, Method, Raw, code};

use crate::features::{answered, are_unique, contents, each, has_texts, is_kind, is_list};
use crate::grammar::{is_uri, template_fault};
use crate::json::Json;
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::seen::{Seen, elements, member, text};
use crate::trace::Probe;

const RESOURCE: &[Source] = &[Source::new(Revisions::ALL, Must, "server/resources#resource")];
const TEMPLATES: &[Source] = &[Source::new(Revisions::ALL, Must, "server/resources#resource-templates")];
const NOT_ASKED: &str = "no resource was asked for that does not exist";
const NOTHING: &str = "no resource was listed";
const NO_TEMPLATE: &str = "no template was listed";
const NOT_READ: &str = "no contents of a resource were seen: see --read-only-tools";

/// The rules, file by file.
pub(crate) static RULES: [&[Rule]; 2] = [&LISTS, &READING];

static LISTS: [Rule; 9] = [
    Rule {
        slug: "resources-listed",
        chapter: Chapter::Resources,
        sentence: "The result of resources/list has an array of resources.",
        sources: &[Source::new(Revisions::ALL, Must, "server/resources#listing-resources")],
        judge: |seen| is_list(seen, &Method::ListResources, "resources/list brought no result"),
    },
    Rule {
        slug: "resource-has-uri-and-name",
        chapter: Chapter::Resources,
        sentence: "Each resource is an object with a uri and a name, which are strings.",
        sources: RESOURCE,
        judge: |seen| has_texts(seen, &Method::ListResources, &["uri", "name"], NOTHING),
    },
    Rule {
        slug: "resource-uri-valid",
        chapter: Chapter::Resources,
        sentence: "The uri of a resource is a URI by RFC 3986, with its scheme.",
        sources: &[
            Source::new(Revisions::FIRST_TWO, Must, "server/resources#resource"),
            Source::new(Revisions::SINCE_THIRD, Must, "server/resources#custom-uri-schemes"),
        ],
        judge: |seen| {
            each(seen, &Method::ListResources, NOTHING, |resource| {
                let uri = text(resource, "uri")?;
                (!is_uri(&uri)).then(|| "its uri is no URI".into())
            })
        },
    },
    Rule {
        slug: "resource-uris-unique",
        chapter: Chapter::Resources,
        sentence: "No two resources of a server have the same uri.",
        sources: &[Source::new(Revisions::ALL, Should, "server/resources#resource")],
        judge: |seen| are_unique(seen, &Method::ListResources, "uri", "resources/list brought no result"),
    },
    Rule {
        slug: "resource-members",
        chapter: Chapter::Resources,
        sentence: "What describes a resource has its type: texts are strings, its size is an integer.",
        sources: RESOURCE,
        judge: |seen| {
            each(seen, &Method::ListResources, NOTHING, |resource| {
                let size = || {
                    let size = member(resource, "size").and_then(|size| Json::of(&size))?;
                    (!size.is_integer()).then(|| "size is no integer".into())
                };
                texts(seen, resource).or_else(size)
            })
        },
    },
    Rule {
        slug: "templates-listed",
        chapter: Chapter::Resources,
        sentence: "The result of resources/templates/list has an array of resourceTemplates.",
        sources: TEMPLATES,
        judge: |seen| {
            is_list(seen, &Method::ListResourceTemplates, "resources/templates/list brought no result")
        },
    },
    Rule {
        slug: "template-has-uri-and-name",
        chapter: Chapter::Resources,
        sentence: "Each template is an object with a uriTemplate and a name, which are strings.",
        sources: TEMPLATES,
        judge: |seen| has_texts(seen, &Method::ListResourceTemplates, &["uriTemplate", "name"], NO_TEMPLATE),
    },
    Rule {
        slug: "template-uri-valid",
        chapter: Chapter::Resources,
        sentence: "A uriTemplate is a URI template by RFC 6570.",
        sources: TEMPLATES,
        judge: |seen| {
            each(seen, &Method::ListResourceTemplates, NO_TEMPLATE, |template| {
                let fault = template_fault(&text(template, "uriTemplate")?)?;
                Some(format!("its uriTemplate has {fault}"))
            })
        },
    },
    Rule {
        slug: "template-members",
        chapter: Chapter::Resources,
        sentence: "What describes a template has its type: title, description and mimeType are strings.",
        sources: TEMPLATES,
        judge: |seen| {
            each(seen, &Method::ListResourceTemplates, NO_TEMPLATE, |template| texts(seen, template))
        },
    },
];

static READING: [Rule; 5] = [
    Rule {
        slug: "unknown-resource-not-empty",
        chapter: Chapter::Resources,
        sentence: "A resource that does not exist is not answered with contents that are empty.",
        sources: &[Source::new(Revisions::MODERN, Must, "server/resources#error-handling")],
        judge: |seen| {
            let judged = seen.probed(Probe::NoResource).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                let empty = outcome.as_ref().is_ok_and(|result| is_empty(result.raw()));
                Some(empty.then(|| asked.finding("contents is empty", answer.line)))
            });
            Outcome::of(judged, NOT_ASKED)
        },
    },
    Rule {
        slug: "unknown-resource-code",
        chapter: Chapter::Resources,
        sentence: "Reading a resource that does not exist brings the error -32602, up to 2025-11-25 the error -32002.",
        sources: &[
            Source::new(Revisions::LEGACY, Should, "server/resources#error-handling"),
            Source::new(Revisions::MODERN, Must, "server/resources#error-handling"),
        ],
        judge: |seen| {
            let legacy = Revisions::LEGACY.contains(&seen.run.version);
            let wanted = if legacy { code::RESOURCE_NOT_FOUND } else { code::INVALID_PARAMS };
            let judged = seen.probed(Probe::NoResource).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                let problem = match outcome {
                    // These have rules of their own.
                    Ok(result) if !legacy && is_empty(result.raw()) => return None,
                    Err(error) if !legacy && error.code == code::RESOURCE_NOT_FOUND => return None,
                    Ok(_) => "a resource that does not exist brought a result".into(),
                    Err(error) if error.code == wanted => return Some(None),
                    Err(error) => format!("the code is {}, not {wanted}", error.code),
                };
                Some(Some(asked.finding(problem, answer.line)))
            });
            Outcome::of(judged, NOT_ASKED)
        },
    },
    Rule {
        slug: "malformed-uri-refused",
        chapter: Chapter::Resources,
        sentence: "What is no URI is checked, and reading it brings an error.",
        sources: &[Source::new(Revisions::ALL, Must, "server/resources#security-considerations")],
        judge: |seen| {
            let judged = seen.probed(Probe::BadUri).filter_map(|asked| {
                let (answer, outcome) = asked.answer()?;
                Some(outcome.is_ok().then(|| asked.finding("what is no URI brought a result", answer.line)))
            });
            Outcome::of(judged, NOT_ASKED)
        },
    },
    Rule {
        slug: "read-has-contents",
        chapter: Chapter::Resources,
        sentence: "The result of resources/read has contents, an array of objects.",
        sources: &[Source::new(Revisions::ALL, Must, "server/resources#reading-resources")],
        judge: |seen| {
            let judged = answered(seen, &Method::ReadResource).map(|page| {
                let contents = member(page.result, "contents").and_then(|contents| elements(&contents));
                let good = contents.is_some_and(|items| items.iter().all(|item| item.kind() == Kind::Object));
                (!good).then(|| page.asked.finding("contents is no array of objects", page.answer.line))
            });
            Outcome::of(judged, NOT_READ)
        },
    },
    Rule {
        slug: "read-contents-complete",
        chapter: Chapter::Resources,
        sentence: "Contents that were read have a uri, and a text or a blob; a mimeType is a string.",
        sources: &[Source::new(Revisions::ALL, Must, "server/resources#resource-contents")],
        judge: |seen| {
            let read =
                contents(seen).into_iter().filter(|part| part.asked.method == Some(&Method::ReadResource));
            let judged = read.map(|part| contents_fault(&part.value).map(|problem| part.finding(problem)));
            Outcome::of(judged, NOT_READ)
        },
    },
];

/// The members that resources and templates have in common.
fn texts(seen: &Seen<'_>, item: &Raw) -> Option<String> {
    let title = Revisions::SINCE_THIRD.contains(&seen.run.version);
    let names = ["description", "mimeType"].into_iter().chain(title.then_some("title"));
    names.into_iter().find_map(|name| is_kind(item, name, Kind::String))
}

/// Whether a result has contents without anything in them.
fn is_empty(result: &Raw) -> bool {
    member(result, "contents")
        .and_then(|contents| elements(&contents))
        .is_some_and(|contents| contents.is_empty())
}

/// What is wrong with the contents of a resource.
pub(crate) fn contents_fault(content: &Raw) -> Option<String> {
    if !text(content, "uri").is_some_and(|uri| is_uri(&uri)) {
        return Some("uri is missing or no URI".into());
    }
    let given = ["text", "blob"].map(|name| member(content, name));
    let given: Vec<&Raw> = given.iter().flatten().collect();
    match given.as_slice() {
        [] => Some("there is neither text nor blob".into()),
        [one] if one.kind() != Kind::String => Some("text or blob is no string".into()),
        [_] => is_kind(content, "mimeType", Kind::String),
        _ => Some("there are both text and blob".into()),
    }
}
