//! The chapter of resources: the lists of resources and templates, and the results of `resources/read`.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/resources>

use mcpjoin_proto::{Kind, Method, Raw, code};

use crate::features::{answered, are_unique, contents, each, has_texts, is_kind, is_list};
use crate::grammar::{is_uri, template_fault};
use crate::json::{is_integer, list, member, text};
use crate::revisions::Revisions;
use crate::rule::{Evidence, Source};
use crate::server_view::ServerView;
use crate::trace::Probe;

const RESOURCE: &[Source] = sources![ALL Must "server/resources#resource"];
const TEMPLATES: &[Source] = sources![ALL Must "server/resources#resource-templates"];
const ERRORS: &str = "server/resources#error-handling";
const NOT_ASKED: &str = "no unknown resource was requested";
const NOTHING: &str = "no resource was listed";
const NO_RESULT: &str = "resources/list returned no result";
const NO_TEMPLATE: &str = "no template was listed";
const NOT_READ: &str = "no contents of a resource were seen (see --read-only-tools)";

rules! {
    pub(crate) RULES for Server in Chapter::Resources;

    "resources-listed", [ALL Must "server/resources#listing-resources"],
        "The result of resources/list has an array `resources`.",
        |view| is_list(view, &Method::ListResources, NO_RESULT);
    "resource-has-uri-and-name", RESOURCE,
        "Each resource is an object with a string `uri` and a string `name`.",
        |view| has_texts(view, &Method::ListResources, &["uri", "name"], NOTHING);
    "resource-uri-valid", [
        FIRST_TWO Must "server/resources#resource",
        SINCE_THIRD Must "server/resources#custom-uri-schemes",
    ],
        "The uri of a resource is a URI by RFC 3986, with a scheme.",
        |view| each(view, &Method::ListResources, NOTHING, |resource| {
            let uri = text(resource, "uri")?;
            (!is_uri(&uri)).then(|| "its uri is not a URI".into())
        });
    "resource-uris-unique", [ALL Should "server/resources#resource"],
        "No two resources of a server have the same uri.",
        |view| are_unique(view, &Method::ListResources, "uri", NO_RESULT);
    "resource-members", RESOURCE,
        "The members of a resource have their types: texts are strings, size is an integer.",
        |view| each(view, &Method::ListResources, NOTHING, |resource| {
            let size = || member(resource, "size").filter(|size| !is_integer(size));
            texts_fault(view, resource).or_else(|| size().map(|_| "size is not an integer".into()))
        });
    "templates-listed", TEMPLATES,
        "The result of resources/templates/list has an array `resourceTemplates`.",
        |view| is_list(view, &Method::ListResourceTemplates, "resources/templates/list returned no result");
    "template-has-uri-and-name", TEMPLATES,
        "Each template is an object with a string `uriTemplate` and a string `name`.",
        |view| has_texts(view, &Method::ListResourceTemplates, &["uriTemplate", "name"], NO_TEMPLATE);
    "template-uri-valid", TEMPLATES,
        "A uriTemplate is a URI template by RFC 6570.",
        |view| each(view, &Method::ListResourceTemplates, NO_TEMPLATE, |template| {
            let fault = template_fault(&text(template, "uriTemplate")?)?;
            Some(format!("its uriTemplate has {fault}"))
        });
    "template-members", TEMPLATES,
        "The members of a template have their types: title, description and mimeType are strings.",
        |view| each(view, &Method::ListResourceTemplates, NO_TEMPLATE, |template| texts_fault(view, template));
    "unknown-resource-not-empty", [MODERN Must ERRORS],
        "Reading an unknown resource does not return empty contents.",
        else NOT_ASKED,
        |view| view.answers(Probe::NoResource).map(|(reply, outcome)| {
            let is_empty = outcome.as_ref().is_ok_and(|result| is_empty(result.raw()));
            reply.finding_if(is_empty, "contents is empty")
        });
    "unknown-resource-code", [LEGACY Should ERRORS, MODERN Must ERRORS],
        "Reading an unknown resource returns the error -32602, up to 2025-11-25 the error -32002.",
        else NOT_ASKED,
        |view| view.answers(Probe::NoResource).filter_map(|(reply, outcome)| {
            let is_legacy = view.run.is_legacy();
            let wanted = if is_legacy { code::RESOURCE_NOT_FOUND } else { code::INVALID_PARAMS };
            Some(match outcome {
                // These have rules of their own.
                Ok(result) if !is_legacy && is_empty(result.raw()) => return None,
                Err(error) if !is_legacy && error.code == code::RESOURCE_NOT_FOUND => return None,
                Ok(_) => Some(reply.finding("an unknown resource returned a result")),
                Err(error) => reply
                    .finding_if(error.code != wanted, format_args!("the code is {}, expected {wanted}", error.code)),
            })
        });
    "malformed-uri-refused", [ALL Must "server/resources#security-considerations"],
        "URIs are checked, and reading an invalid one returns an error.",
        else NOT_ASKED,
        |view| view.answers(Probe::BadUri).map(|(reply, outcome)| {
            reply.finding_if(outcome.is_ok(), "an invalid URI returned a result")
        });
    "read-has-contents", [ALL Must "server/resources#reading-resources"],
        "The result of resources/read has `contents`, an array of objects.",
        else NOT_READ,
        |view| answered(view, &Method::ReadResource).map(|(reply, result)| {
            let contents = list(result, "contents");
            let is_good = contents.is_some_and(|items| items.iter().all(|item| item.kind() == Kind::Object));
            reply.finding_if(!is_good, "contents is not an array of objects")
        });
    "read-contents-complete", [ALL Must "server/resources#resource-contents"],
        "Contents have a uri, and text or a blob; mimeType is a string.",
        else NOT_READ,
        |view| contents(view).filter(|part| part.is_of(&Method::ReadResource)).map(|part| {
            contents_fault(&part.value).map(|problem| part.finding(problem))
        });
}

/// The problem of the texts that resources and templates have in common.
fn texts_fault(view: &ServerView<'_>, item: &Raw) -> Option<String> {
    let has_title = Revisions::SINCE_THIRD.contains(&view.run.version);
    let mut names = ["description", "mimeType"].into_iter().chain(has_title.then_some("title"));
    names.find_map(|name| is_kind(item, name, Kind::String))
}

/// Whether the contents of a result are an empty array.
fn is_empty(result: &Raw) -> bool {
    list(result, "contents").is_some_and(|contents| contents.is_empty())
}

/// The problem of the contents of a resource.
pub(crate) fn contents_fault(content: &Raw) -> Option<String> {
    if !text(content, "uri").is_some_and(|uri| is_uri(&uri)) {
        return Some("uri is missing or not a URI".into());
    }
    match (member(content, "text"), member(content, "blob")) {
        (None, None) => Some("there is neither text nor blob".into()),
        (Some(_), Some(_)) => Some("there are both text and blob".into()),
        (Some(one), None) | (None, Some(one)) if one.kind() != Kind::String => {
            Some("text or blob is not a string".into())
        }
        _ => is_kind(content, "mimeType", Kind::String),
    }
}
