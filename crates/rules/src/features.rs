//! What a server offers, as several chapters read it: pages of lists and their items, results of calls, content blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use mcpjoin_proto::{Kind, Method, Raw};

use crate::json::{canonical, has_kind, list, member, text};
use crate::rule::{Evidence, Finding, Outcome};
use crate::server_view::{OurRequest, Reply, ServerView};
use crate::trace::Probe;

/// The methods that list.
pub(crate) const LISTS: [Method; 4] =
    [Method::ListTools, Method::ListPrompts, Method::ListResources, Method::ListResourceTemplates];

/// A value in a result, with its exchange.
pub(crate) struct Part<'s, 'a> {
    pub(crate) reply: Reply<'s, 'a>,
    pub(crate) value: Raw,
}

impl Part<'_, '_> {
    /// Whether it is in the result of this method.
    pub(crate) fn is_of(&self, method: &Method) -> bool {
        self.reply.request.method == Some(method)
    }
}

impl Evidence for Part<'_, '_> {
    fn finding(&self, problem: impl Display) -> Finding {
        self.reply.finding(problem)
    }
}

/// The member of its result under which a method lists, and the word for one item.
pub(crate) const fn listed(method: &Method) -> (&'static str, &'static str) {
    match method {
        Method::ListTools => ("tools", "tool"),
        Method::ListPrompts => ("prompts", "prompt"),
        Method::ListResources => ("resources", "resource"),
        Method::ListResourceTemplates => ("resourceTemplates", "template"),
        _ => ("", "item"),
    }
}

/// The pages of a list, each once: pages that are listed again have a rule of their own.
pub(crate) fn pages<'s, 'a>(
    view: &'s ServerView<'a>,
    method: &Method,
) -> impl Iterator<Item = (Reply<'s, 'a>, &'a Raw)> {
    let probes = [Probe::List, Probe::Templates, Probe::NextPage];
    view.results_by(method)
        .filter(move |(reply, result)| probes.contains(&reply.request.probe) && is_complete(result))
}

/// Whether a result is complete: it requests no input and is no task.
pub(crate) fn is_complete(result: &Raw) -> bool {
    result.kind() == Kind::Object && text(result, "resultType").is_none_or(|kind| kind == "complete")
}

/// The items of a list.
pub(crate) fn items<'s, 'a>(view: &'s ServerView<'a>, method: &Method) -> impl Iterator<Item = Part<'s, 'a>> {
    let (name, _) = listed(method);
    pages(view, method).flat_map(move |(reply, page)| parts(reply, list(page, name)))
}

fn parts<'s, 'a>(
    reply: Reply<'s, 'a>,
    values: impl IntoIterator<Item = Vec<Raw>>,
) -> impl Iterator<Item = Part<'s, 'a>> {
    values.into_iter().flatten().map(move |value| Part { reply, value })
}

/// The words for an item in a finding, with its name or address.
pub(crate) fn label(kind: &str, item: &Raw) -> String {
    match ["name", "uri", "uriTemplate"].into_iter().find_map(|name| text(item, name)) {
        Some(name) => format!("the {kind} {name:?}"),
        None => format!("a {kind} without a name"),
    }
}

/// Checks every item of a list that is an object: `check` returns the problem of one.
pub(crate) fn each(
    view: &ServerView<'_>,
    method: &Method,
    nothing: &'static str,
    check: impl Fn(&Raw) -> Option<String>,
) -> Outcome {
    let (_, kind) = listed(method);
    let objects = items(view, method).filter(|part| part.value.kind() == Kind::Object);
    let findings = objects.map(|part| {
        let problem = check(&part.value)?;
        Some(part.finding(format_args!("{}: {problem}", label(kind, &part.value))))
    });
    Outcome::of(findings, nothing)
}

/// Checks that each page has an array of items.
pub(crate) fn is_list(view: &ServerView<'_>, method: &Method, nothing: &'static str) -> Outcome {
    let (name, _) = listed(method);
    let findings = pages(view, method).map(|(reply, page)| {
        let is_good = has_kind(page, name, Kind::Array);
        reply.finding_if(!is_good, format_args!("{name} is missing or not an array"))
    });
    Outcome::of(findings, nothing)
}

/// Checks that every item is an object that has these members, which are strings.
pub(crate) fn has_texts(
    view: &ServerView<'_>,
    method: &Method,
    names: &[&str],
    nothing: &'static str,
) -> Outcome {
    let (_, kind) = listed(method);
    let findings = items(view, method).map(|part| {
        if part.value.kind() != Kind::Object {
            return Some(part.finding(format_args!("a {kind} is not an object")));
        }
        let missing = names.iter().find(|name| text(&part.value, name).is_none())?;
        let label = label(kind, &part.value);
        Some(part.finding(format_args!("{label}: {missing} is missing or not a string")))
    });
    Outcome::of(findings, nothing)
}

/// Checks that no two items of a page have the same value of a member. Two pages may have the same item if the list changes
/// between them.
pub(crate) fn are_unique(
    view: &ServerView<'_>,
    method: &Method,
    name: &str,
    nothing: &'static str,
) -> Outcome {
    let (array, kind) = listed(method);
    let findings = pages(view, method).map(|(reply, page)| {
        let mut known = BTreeSet::new();
        let items = list(page, array)?;
        let mut values = items.iter().filter_map(|item| text(item, name));
        let twice = values.find(|value| !known.insert(value.clone()))?;
        Some(reply.finding(format_args!("two items of the kind {kind} have the {name} {twice:?}")))
    });
    Outcome::of(findings, nothing)
}

/// The problem of a member that has another kind.
pub(crate) fn is_kind(item: &Raw, name: &str, kind: Kind) -> Option<String> {
    let value = member(item, name)?;
    let word = match kind {
        Kind::String => "not a string",
        Kind::Bool => "neither true nor false",
        Kind::Number => "not a number",
        Kind::Array => "not an array",
        Kind::Object => "not an object",
        Kind::Null => "not null",
    };
    (value.kind() != kind).then(|| format!("{name} is {word}"))
}

/// The complete results of a method. A task of 2025-11-25 is not a result yet.
pub(crate) fn answered<'s, 'a>(
    view: &'s ServerView<'a>,
    method: &Method,
) -> impl Iterator<Item = (Reply<'s, 'a>, &'a Raw)> {
    view.results_by(method).filter(|(reply, result)| {
        let wants_task = || reply.request.params().is_some_and(|params| member(&params, "task").is_some());
        is_complete(result) && !(has_kind(result, "task", Kind::Object) && wants_task())
    })
}

/// The content blocks in results of tools and prompts.
pub(crate) fn blocks<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = Part<'s, 'a>> {
    let tools = answered(view, &Method::CallTool);
    let tools = tools.flat_map(|(reply, result)| parts(reply, list(result, "content")));
    let prompts = answered(view, &Method::GetPrompt);
    let prompts = prompts.flat_map(|(reply, result)| parts(reply, list(result, "messages")));
    // Content that is not an object has a rule of its own.
    let content = prompts.filter_map(|Part { reply, value }| {
        let value = member(&value, "content").filter(|content| content.kind() == Kind::Object)?;
        Some(Part { reply, value })
    });
    tools.chain(content)
}

/// The contents of resources: those in blocks, and those that were read.
pub(crate) fn contents<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = Part<'s, 'a>> {
    let embedded = blocks(view).filter_map(|Part { reply, value }| {
        let value =
            member(&value, "resource").filter(|_| text(&value, "type").as_deref() == Some("resource"))?;
        Some(Part { reply, value })
    });
    let read = answered(view, &Method::ReadResource);
    let read = read.flat_map(|(reply, result)| parts(reply, list(result, "contents")));
    embedded.chain(read).filter(|part| part.value.kind() == Kind::Object)
}

/// The definitions of each tool in all lists of the run, because a list may change before or after a call.
pub(crate) struct Definitions {
    tools: BTreeMap<String, Vec<Raw>>,
    /// The list changed, and was not read again.
    is_outdated: bool,
}

impl Definitions {
    pub(crate) fn of(view: &ServerView<'_>) -> Self {
        let mut tools: BTreeMap<String, Vec<Raw>> = BTreeMap::new();
        let mut read = None;
        for (reply, page) in view.results_by(&Method::ListTools) {
            read = read.max(Some(reply.request.place));
            for tool in list(page, "tools").unwrap_or_default() {
                let Some(name) = text(&tool, "name") else { continue };
                // The order of members means nothing.
                let tool = canonical(&tool);
                let known = tools.entry(name).or_default();
                if known.last() != Some(&tool) {
                    known.push(tool);
                }
            }
        }
        let changed = view.notified(&Method::ToolListChanged).map(|change| change.place).max();
        Self { tools, is_outdated: changed.is_some() && changed > read }
    }

    /// The definitions of the tool that a call names; `None` if they are not known.
    pub(crate) fn of_call(&self, request: &OurRequest<'_>) -> Option<&[Raw]> {
        let name = text(&request.params()?, "name")?;
        self.tools.get(&name).map(Vec::as_slice).filter(|_| !self.is_outdated)
    }

    /// Whether that tool may have changed during the run.
    pub(crate) fn may_differ(&self, request: &OurRequest<'_>) -> bool {
        self.is_outdated || self.of_call(request).is_some_and(|known| known.len() > 1)
    }
}
