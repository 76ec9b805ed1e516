//! What a server offers, as several chapters read it: pages of lists and their items, results of calls, blocks of
//! content.

use mcpjoin_proto::{Kind, Method, Raw};

use crate::json::{elements, member, text};
use crate::rule::{Finding, Outcome};
use crate::server_view::{OurRequest, ReceivedResponse, ServerView};
use crate::trace::Probe;

/// A page of a list.
pub(crate) struct Page<'s, 'a> {
    pub(crate) request: &'s OurRequest<'a>,
    pub(crate) response: &'s ReceivedResponse<'a>,
    pub(crate) result: &'a Raw,
}

/// A value in a result, with the exchange that it is of.
pub(crate) struct Part<'s, 'a> {
    pub(crate) request: &'s OurRequest<'a>,
    pub(crate) response: &'s ReceivedResponse<'a>,
    pub(crate) value: Raw,
}

impl Part<'_, '_> {
    pub(crate) fn finding(&self, problem: impl Into<String>) -> Finding {
        self.request.finding(problem, self.response.line)
    }
}

/// The member of its result under which a method lists, and what one item is called.
pub(crate) const fn listed(method: &Method) -> Option<(&'static str, &'static str)> {
    match method {
        Method::ListTools => Some(("tools", "tool")),
        Method::ListPrompts => Some(("prompts", "prompt")),
        Method::ListResources => Some(("resources", "resource")),
        Method::ListResourceTemplates => Some(("resourceTemplates", "template")),
        _ => None,
    }
}

/// The pages of a list, each once: what is listed again is checked by a rule of its own.
pub(crate) fn pages<'s, 'a>(view: &'s ServerView<'a>, method: &Method) -> impl Iterator<Item = Page<'s, 'a>> {
    let results = view.results().filter(move |(request, _, result)| {
        matches!(request.probe, Probe::List | Probe::Templates | Probe::NextPage)
            && request.method == Some(method)
            && is_complete(result.raw())
    });
    results.map(|(request, response, result)| Page { request, response, result: result.raw() })
}

/// Whether a result is a whole one, which asks for no input and is no task.
fn is_complete(result: &Raw) -> bool {
    result.kind() == Kind::Object && text(result, "resultType").is_none_or(|kind| kind == "complete")
}

/// The items of a list.
pub(crate) fn items<'s, 'a>(view: &'s ServerView<'a>, method: &Method) -> impl Iterator<Item = Part<'s, 'a>> {
    let (name, _) = listed(method).unwrap_or_default();
    pages(view, method).flat_map(move |page| {
        let items = member(page.result, name).and_then(|list| elements(&list)).unwrap_or_default();
        let (request, response) = (page.request, page.response);
        items.into_iter().map(move |value| Part { request, response, value })
    })
}

/// An item, so that a reader of findings knows which: by its name, its address, or its place.
pub(crate) fn label(kind: &str, item: &Raw) -> String {
    match ["name", "uri", "uriTemplate"].into_iter().find_map(|name| text(item, name)) {
        Some(name) => format!("the {kind} {name:?}"),
        None => format!("a {kind} without a name"),
    }
}

/// Looks at every item of a list that is an object. `look`: what is wrong with it.
pub(crate) fn each(
    view: &ServerView<'_>,
    method: &Method,
    nothing: &'static str,
    look: impl Fn(&Raw) -> Option<String>,
) -> Outcome {
    let kind = listed(method).map_or("item", |(_, kind)| kind);
    let objects = items(view, method).filter(|part| part.value.kind() == Kind::Object);
    let findings = objects.map(|part| {
        let problem = look(&part.value)?;
        Some(part.finding(format!("{}: {problem}", label(kind, &part.value))))
    });
    Outcome::of(findings, nothing)
}

/// A page has an array of items.
pub(crate) fn is_list(view: &ServerView<'_>, method: &Method, nothing: &'static str) -> Outcome {
    let (name, _) = listed(method).unwrap_or_default();
    let findings = pages(view, method).map(|page| {
        let good = member(page.result, name).is_some_and(|list| list.kind() == Kind::Array);
        (!good).then(|| page.request.finding(format!("{name} is missing or no array"), page.response.line))
    });
    Outcome::of(findings, nothing)
}

/// Every item is an object that has these members, which are strings.
pub(crate) fn has_texts(
    view: &ServerView<'_>,
    method: &Method,
    names: &[&str],
    nothing: &'static str,
) -> Outcome {
    let kind = listed(method).map_or("item", |(_, kind)| kind);
    let findings = items(view, method).map(|part| {
        if part.value.kind() != Kind::Object {
            return Some(part.finding(format!("a {kind} is no object")));
        }
        let missing = names.iter().find(|name| text(&part.value, name).is_none())?;
        let problem = format!("{}: {missing} is missing or no string", label(kind, &part.value));
        Some(part.finding(problem))
    });
    Outcome::of(findings, nothing)
}

/// No two items of a list have the same value there.
pub(crate) fn are_unique(
    view: &ServerView<'_>,
    method: &Method,
    name: &str,
    nothing: &'static str,
) -> Outcome {
    // What changes between two pages may be seen twice.
    let findings = pages(view, method).map(|page| {
        let (list, kind) = listed(method).unwrap_or_default();
        let items = elements(&member(page.result, list)?)?;
        let mut known = std::collections::BTreeSet::new();
        let twice =
            items.iter().filter_map(|item| text(item, name)).find(|value| !known.insert(value.clone()))?;
        let problem = format!("two of kind {kind} have the {name} {twice:?}");
        Some(page.request.finding(problem, page.response.line))
    });
    Outcome::of(findings, nothing)
}

/// A member that is there has that kind.
pub(crate) fn is_kind(item: &Raw, name: &str, kind: Kind) -> Option<String> {
    let value = member(item, name)?;
    let word = match kind {
        Kind::String => "no string",
        Kind::Bool => "neither true nor false",
        Kind::Number => "no number",
        Kind::Array => "no array",
        Kind::Object => "no object",
        Kind::Null => "not null",
    };
    (value.kind() != kind).then(|| format!("{name} is {word}"))
}

/// What was answered to what was asked for that purpose: whole results alone, none that asks for input or is a task.
pub(crate) fn answered<'s, 'a>(
    view: &'s ServerView<'a>,
    method: &Method,
) -> impl Iterator<Item = Page<'s, 'a>> {
    let results = view.results().filter(move |(request, _, result)| {
        // What became a task, as 2025-11-25 tries them, is no result yet.
        let task = || request.params().is_some_and(|params| member(&params, "task").is_some());
        let is_task = member(result.raw(), "task").is_some_and(|it| it.kind() == Kind::Object) && task();
        request.method == Some(method) && is_complete(result.raw()) && !is_task
    });
    results.map(|(request, response, result)| Page { request, response, result: result.raw() })
}

/// The blocks of content in results of tools and prompts.
pub(crate) fn blocks<'s, 'a>(view: &'s ServerView<'a>) -> Vec<Part<'s, 'a>> {
    let mut blocks = Vec::new();
    for page in answered(view, &Method::CallTool) {
        let content = member(page.result, "content").and_then(|content| elements(&content));
        let (request, response) = (page.request, page.response);
        blocks.extend(content.unwrap_or_default().into_iter().map(|value| Part { request, response, value }));
    }
    for page in answered(view, &Method::GetPrompt) {
        let messages = member(page.result, "messages").and_then(|messages| elements(&messages));
        let content =
            messages.unwrap_or_default().into_iter().filter_map(|message| member(&message, "content"));
        // What is no object has a rule of its own.
        let content = content.filter(|content| content.kind() == Kind::Object);
        let (request, response) = (page.request, page.response);
        blocks.extend(content.map(|value| Part { request, response, value }));
    }
    blocks
}

/// The contents of resources: of those that were read, and of those in blocks.
pub(crate) fn contents<'s, 'a>(view: &'s ServerView<'a>) -> Vec<Part<'s, 'a>> {
    let embedded =
        blocks(view).into_iter().filter(|block| text(&block.value, "type").as_deref() == Some("resource"));
    let embedded = embedded.filter_map(|block| {
        let value = member(&block.value, "resource").filter(|value| value.kind() == Kind::Object)?;
        Some(Part { value, ..block })
    });
    let mut contents: Vec<Part<'s, 'a>> = embedded.collect();
    for page in answered(view, &Method::ReadResource) {
        let read = member(page.result, "contents").and_then(|contents| elements(&contents));
        let (request, response) = (page.request, page.response);
        let read = read.unwrap_or_default().into_iter().filter(|value| value.kind() == Kind::Object);
        contents.extend(read.map(|value| Part { request, response, value }));
    }
    contents
}

/// The definition of the tool that a call of ours names, from any list by the same revision.
pub(crate) fn tool_of(view: &ServerView<'_>, request: &OurRequest<'_>) -> Option<Raw> {
    let name = text(&request.params()?, "name")?;
    items(view, &Method::ListTools)
        .find(|tool| text(&tool.value, "name").as_ref() == Some(&name))
        .map(|tool| tool.value)
}
