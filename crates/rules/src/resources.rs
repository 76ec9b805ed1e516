//! The chapter of resources: the lists of resources and templates, and the results of `resources/read`.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/resources>

use mcpjoin_proto::{Kind, Method, Raw, code};

use crate::features::{answered, are_unique, contents, each, has_texts, is_kind, is_list};
use crate::grammar::{is_uri, template_fault};
use crate::json::{elements, is_integer, member, text};
use crate::revisions::Revisions;
use crate::rule::{Outcome, Source};
use crate::server_view::ServerView;
use crate::trace::Probe;

const RESOURCE: &[Source] = sources![ALL Must "server/resources#resource"];
const TEMPLATES: &[Source] = sources![ALL Must "server/resources#resource-templates"];
const NOT_ASKED: &str = "no resource was asked for that does not exist";
const NOTHING: &str = "no resource was listed";
const NO_TEMPLATE: &str = "no template was listed";
const NOT_READ: &str = "no contents of a resource were seen: see --read-only-tools";

rules! {
    pub(crate) LISTS for Server in Chapter::Resources;

    "resources-listed", [ALL Must "server/resources#listing-resources"],
        "The result of resources/list has an array of resources.",
        |view| is_list(view, &Method::ListResources, "resources/list brought no result");
    "resource-has-uri-and-name", RESOURCE,
        "Each resource is an object with a uri and a name, which are strings.",
        |view| has_texts(view, &Method::ListResources, &["uri", "name"], NOTHING);
    "resource-uri-valid", [
        FIRST_TWO Must "server/resources#resource",
        SINCE_THIRD Must "server/resources#custom-uri-schemes",
    ],
        "The uri of a resource is a URI by RFC 3986, with its scheme.",
        |view| {
            each(view, &Method::ListResources, NOTHING, |resource| {
                let uri = text(resource, "uri")?;
                (!is_uri(&uri)).then(|| "its uri is no URI".into())
            })
        };
    "resource-uris-unique", [ALL Should "server/resources#resource"],
        "No two resources of a server have the same uri.",
        |view| are_unique(view, &Method::ListResources, "uri", "resources/list brought no result");
    "resource-members", RESOURCE,
        "What describes a resource has its type: texts are strings, its size is an integer.",
        |view| {
            each(view, &Method::ListResources, NOTHING, |resource| {
                let size = || {
                    let size = member(resource, "size")?;
                    (!is_integer(&size)).then(|| "size is no integer".into())
                };
                texts(view, resource).or_else(size)
            })
        };
    "templates-listed", TEMPLATES,
        "The result of resources/templates/list has an array of resourceTemplates.",
        |view| is_list(view, &Method::ListResourceTemplates, "resources/templates/list brought no result");
    "template-has-uri-and-name", TEMPLATES,
        "Each template is an object with a uriTemplate and a name, which are strings.",
        |view| has_texts(view, &Method::ListResourceTemplates, &["uriTemplate", "name"], NO_TEMPLATE);
    "template-uri-valid", TEMPLATES,
        "A uriTemplate is a URI template by RFC 6570.",
        |view| {
            each(view, &Method::ListResourceTemplates, NO_TEMPLATE, |template| {
                let fault = template_fault(&text(template, "uriTemplate")?)?;
                Some(format!("its uriTemplate has {fault}"))
            })
        };
    "template-members", TEMPLATES,
        "What describes a template has its type: title, description and mimeType are strings.",
        |view| each(view, &Method::ListResourceTemplates, NO_TEMPLATE, |template| texts(view, template));
}

rules! {
    pub(crate) READING for Server in Chapter::Resources;

    "unknown-resource-not-empty", [MODERN Must "server/resources#error-handling"],
        "A resource that does not exist is not answered with contents that are empty.",
        |view| {
            let findings = view.probed(Probe::NoResource).filter_map(|request| {
                let (response, outcome) = request.response()?;
                let empty = outcome.as_ref().is_ok_and(|result| is_empty(result.raw()));
                Some(empty.then(|| request.finding("contents is empty", response.line)))
            });
            Outcome::of(findings, NOT_ASKED)
        };
    "unknown-resource-code", [
        LEGACY Should "server/resources#error-handling",
        MODERN Must "server/resources#error-handling",
    ],
        "Reading a resource that does not exist brings the error -32602, up to 2025-11-25 the error -32002.",
        |view| {
            let legacy = Revisions::LEGACY.contains(&view.run.version);
            let wanted = if legacy { code::RESOURCE_NOT_FOUND } else { code::INVALID_PARAMS };
            let findings = view.probed(Probe::NoResource).filter_map(|request| {
                let (response, outcome) = request.response()?;
                let problem = match outcome {
                    // These have rules of their own.
                    Ok(result) if !legacy && is_empty(result.raw()) => return None,
                    Err(error) if !legacy && error.code == code::RESOURCE_NOT_FOUND => return None,
                    Ok(_) => "a resource that does not exist brought a result".into(),
                    Err(error) if error.code == wanted => return Some(None),
                    Err(error) => format!("the code is {}, not {wanted}", error.code),
                };
                Some(Some(request.finding(problem, response.line)))
            });
            Outcome::of(findings, NOT_ASKED)
        };
    "malformed-uri-refused", [ALL Must "server/resources#security-considerations"],
        "What is no URI is checked, and reading it brings an error.",
        |view| {
            let findings = view.probed(Probe::BadUri).filter_map(|request| {
                let (response, outcome) = request.response()?;
                Some(
                    outcome
                        .is_ok()
                        .then(|| request.finding("what is no URI brought a result", response.line)),
                )
            });
            Outcome::of(findings, NOT_ASKED)
        };
    "read-has-contents", [ALL Must "server/resources#reading-resources"],
        "The result of resources/read has contents, an array of objects.",
        |view| {
            let findings = answered(view, &Method::ReadResource).map(|page| {
                let contents = member(page.result, "contents").and_then(|contents| elements(&contents));
                let good = contents.is_some_and(|items| items.iter().all(|item| item.kind() == Kind::Object));
                (!good).then(|| page.request.finding("contents is no array of objects", page.response.line))
            });
            Outcome::of(findings, NOT_READ)
        };
    "read-contents-complete", [ALL Must "server/resources#resource-contents"],
        "Contents that were read have a uri, and a text or a blob; a mimeType is a string.",
        |view| {
            let read =
                contents(view).into_iter().filter(|part| part.request.method == Some(&Method::ReadResource));
            let findings = read.map(|part| contents_fault(&part.value).map(|problem| part.finding(problem)));
            Outcome::of(findings, NOT_READ)
        };
}

/// The members that resources and templates have in common.
fn texts(view: &ServerView<'_>, item: &Raw) -> Option<String> {
    let title = Revisions::SINCE_THIRD.contains(&view.run.version);
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
