//! Sampling: what a server asks of the client's model.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling>

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::{Kind, Method, Raw};

use super::input::{Wanted, wanted_by};
use crate::json::{elements, has_path, is_true, list, member, text};
use crate::rule::{Evidence, Outcome};
use crate::schema::nonconformity;
use crate::server_view::ServerView;

rules! {
    pub(crate) RULES for Server in Chapter::Patterns;

    "sampling-tools-declared", [SINCE_FOURTH Must "client/sampling#tools-in-sampling"],
        "A server gives a model tools when the client has declared sampling.tools, and not otherwise.",
        |view| sampled(view, |wanted| {
            let mut names = ["tools", "toolChoice"].into_iter();
            let given = names.find(|name| member(&wanted.params, name).is_some())?;
            lacks(wanted, "sampling.tools").then(|| format!("{given} is there, and sampling.tools not declared"))
        });
    "sampling-context-declared", [SINCE_FOURTH Should "client/sampling#capabilities"],
        "A server asks for the context of servers when the client has declared sampling.context.",
        |view| sampled(view, |wanted| {
            let context = text(&wanted.params, "includeContext").filter(|context| context != "none")?;
            lacks(wanted, "sampling.context")
                .then(|| format!("includeContext is {context:?}, and sampling.context not declared"))
        });
    "sampling-tool-results-balanced", [SINCE_FOURTH Must "client/sampling#tool-use-and-result-balance"],
        "Each use of a tool in a message is followed by a message of its results alone, one for each.",
        |view| sampled(view, balance_fault);
    "sampling-message-complete", [ALL Must "client/sampling#messages"],
        "Each message for a model has a role, user or assistant, and content.",
        |view| sampled(view, |wanted| {
            let Some(messages) = list(&wanted.params, "messages") else {
                return Some("messages is missing or no array".into());
            };
            let is_good = |message: &Raw| {
                let content = member(message, "content").map(|content| content.kind());
                matches!(text(message, "role").as_deref(), Some("user" | "assistant"))
                    && matches!(content, Some(Kind::Object | Kind::Array))
            };
            (!messages.iter().all(is_good)).then(|| "a message has no role, or no content".into())
        });
    "sampling-tool-result-conforms", [SINCE_FOURTH Should "schema#toolresultcontent"],
        "The structured result of a tool in a message conforms to the outputSchema of that tool.",
        else "no result of a tool with an outputSchema was given to a model",
        |view| wanted_by(view, &Method::CreateMessage).flat_map(|wanted| {
            let results = structured(&wanted.params).into_iter();
            results.map(move |(tool, schema, value)| {
                let why = nonconformity(&schema, &value)?;
                Some(wanted.finding(format_args!("the result of {tool:?} does not conform: {why}")))
            })
        });
}

/// Checks every request for the client's model: `check` returns the problem of one.
fn sampled(view: &ServerView<'_>, check: impl Fn(&Wanted) -> Option<String>) -> Outcome {
    let requests = wanted_by(view, &Method::CreateMessage);
    let findings = requests.map(|wanted| check(&wanted).map(|problem| wanted.finding(problem)));
    Outcome::of(findings, "nothing was asked of a model")
}

/// Whether the client declared sampling without this part. Without sampling, another rule is violated.
fn lacks(wanted: &Wanted, path: &str) -> bool {
    wanted.client.as_ref().is_some_and(|ours| has_path(ours, "sampling") && !has_path(ours, path))
}

/// The blocks of a message.
fn blocks(message: &Raw) -> Vec<Raw> {
    match member(message, "content") {
        Some(content) if content.kind() == Kind::Array => elements(&content).unwrap_or_default(),
        Some(content) => vec![content],
        None => Vec::new(),
    }
}

fn is(block: &Raw, kind: &str) -> bool {
    text(block, "type").as_deref() == Some(kind)
}

fn balance_fault(wanted: &Wanted) -> Option<String> {
    let mut used: Vec<String> = Vec::new();
    for message in &list(&wanted.params, "messages")? {
        let blocks = blocks(message);
        let results = blocks.iter().filter(|block| is(block, "tool_result")).count();
        if results > 0 && results < blocks.len() {
            return Some("a message has results of tools and something else".into());
        }
        let given: BTreeSet<String> = blocks.iter().filter_map(|block| text(block, "toolUseId")).collect();
        if let Some(missing) = used.iter().find(|id| !given.contains(*id)) {
            return Some(format!("the use {missing:?} of a tool is not followed by its result"));
        }
        let uses = blocks.iter().filter(|block| is(block, "tool_use"));
        used = uses.filter_map(|block| text(block, "id")).collect();
    }
    used.first().map(|id| format!("the use {id:?} of a tool is not followed by its result"))
}

/// The structured results in messages, each with its tool's name and `outputSchema`.
fn structured(params: &Raw) -> Vec<(String, Raw, Raw)> {
    let tools = list(params, "tools").unwrap_or_default().into_iter();
    let schemas: BTreeMap<String, Raw> =
        tools.filter_map(|tool| Some((text(&tool, "name")?, member(&tool, "outputSchema")?))).collect();
    let messages = list(params, "messages").unwrap_or_default();
    let blocks: Vec<Raw> = messages.iter().flat_map(blocks).collect();
    let uses = blocks.iter().filter_map(|block| Some((text(block, "id")?, text(block, "name")?)));
    let uses: BTreeMap<String, String> = uses.collect();
    let results = blocks.iter().filter(|block| is(block, "tool_result") && !is_true(block, "isError"));
    let results = results.filter_map(|block| {
        let tool = uses.get(&text(block, "toolUseId")?)?;
        Some((tool.clone(), schemas.get(tool)?.clone(), member(block, "structuredContent")?))
    });
    results.collect()
}
