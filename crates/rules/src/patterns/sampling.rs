//! Sampling: what a server asks of the client's model.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling>

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::{Kind, Method, Raw};

use super::input::{Wanted, wanted};
use crate::json::{elements, has_path, member, text};
use crate::rule::Outcome;
use crate::schema::misfit;
use crate::server_view::ServerView;

rules! {
    pub(crate) RULES for Server in Chapter::Patterns;

    "sampling-tools-declared", [SINCE_FOURTH Must "client/sampling#tools-in-sampling"],
        "A server gives a model tools when the client has declared sampling.tools, and not otherwise.",
        |view| {
            sampled(view, |wanted| {
                let given = ["tools", "toolChoice"]
                    .into_iter()
                    .find(|name| member(&wanted.params, name).is_some())?;
                lacks(wanted, "sampling.tools")
                    .then(|| format!("{given} is there, and sampling.tools not declared"))
            })
        };
    "sampling-context-declared", [SINCE_FOURTH Should "client/sampling#capabilities"],
        "A server asks for the context of servers when the client has declared sampling.context.",
        |view| {
            sampled(view, |wanted| {
                let context = text(&wanted.params, "includeContext").filter(|context| context != "none")?;
                lacks(wanted, "sampling.context")
                    .then(|| format!("includeContext is {context:?}, and sampling.context not declared"))
            })
        };
    "sampling-tool-results-balanced", [SINCE_FOURTH Must "client/sampling#tool-use-and-result-balance"],
        "Each use of a tool in a message is followed by a message of its results alone, one for each.",
        |view| sampled(view, balance_fault);
    "sampling-message-complete", [ALL Must "client/sampling#messages"],
        "Each message for a model has a role, user or assistant, and content.",
        |view| {
            sampled(view, |wanted| {
                let Some(messages) =
                    member(&wanted.params, "messages").and_then(|messages| elements(&messages))
                else {
                    return Some("messages is missing or no array".into());
                };
                messages.iter().find_map(|message| {
                    let role =
                        text(message, "role").is_some_and(|role| role == "user" || role == "assistant");
                    let content = member(message, "content");
                    let content = content.is_some_and(|it| matches!(it.kind(), Kind::Object | Kind::Array));
                    (!(role && content)).then(|| "a message has no role, or no content".into())
                })
            })
        };
    "sampling-tool-result-conforms", [SINCE_FOURTH Should "schema#toolresultcontent"],
        "The structured result of a tool in a message conforms to the outputSchema of that tool.",
        |view| {
            let requests =
                wanted(view).into_iter().filter(|wanted| wanted.method == Method::CreateMessage.as_str());
            let findings: Vec<_> = requests
                .flat_map(|wanted| {
                    let results = structured(&wanted.params);
                    let findings = results.into_iter().map(|(tool, schema, value)| {
                        let why = misfit(&schema, &value)?;
                        Some(wanted.finding(format!("the result of {tool:?} does not conform: {why}")))
                    });
                    findings.collect::<Vec<_>>()
                })
                .collect();
            Outcome::of(findings, "no result of a tool with an outputSchema was given to a model")
        };
}

/// Looks at every request for the client's model.
fn sampled(view: &ServerView<'_>, look: impl Fn(&Wanted) -> Option<String>) -> Outcome {
    let requests = wanted(view).into_iter().filter(|wanted| wanted.method == Method::CreateMessage.as_str());
    let findings = requests.map(|wanted| look(&wanted).map(|problem| wanted.finding(problem)));
    Outcome::of(findings, "nothing was asked of a model")
}

/// Whether the client has declared sampling, and not this of it: without sampling there is a rule of its own.
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

fn balance_fault(wanted: &Wanted) -> Option<String> {
    let messages = elements(&member(&wanted.params, "messages")?)?;
    let is = |block: &Raw, kind: &str| text(block, "type").as_deref() == Some(kind);
    let mut used: Vec<String> = Vec::new();
    for message in &messages {
        let blocks = blocks(message);
        let results = blocks.iter().filter(|block| is(block, "tool_result")).count();
        if results > 0 && results < blocks.len() {
            return Some("a message has results of tools and something else".into());
        }
        let given: BTreeSet<String> = blocks.iter().filter_map(|block| text(block, "toolUseId")).collect();
        if let Some(missing) = used.iter().find(|id| !given.contains(*id)) {
            return Some(format!("the use {missing:?} of a tool is not followed by its result"));
        }
        used = blocks
            .iter()
            .filter(|block| is(block, "tool_use"))
            .filter_map(|block| text(block, "id"))
            .collect();
    }
    used.first().map(|id| format!("the use {id:?} of a tool is not followed by its result"))
}

/// The structured results in messages, each with its tool's name and `outputSchema`.
fn structured(params: &Raw) -> Vec<(String, Raw, Raw)> {
    let list = |name: &str| member(params, name).and_then(|list| elements(&list)).unwrap_or_default();
    let schemas = list("tools").into_iter();
    let schemas: BTreeMap<String, Raw> =
        schemas.filter_map(|tool| Some((text(&tool, "name")?, member(&tool, "outputSchema")?))).collect();
    let blocks: Vec<Raw> = list("messages").iter().flat_map(blocks).collect();
    let uses = blocks.iter().filter_map(|block| Some((text(block, "id")?, text(block, "name")?)));
    let uses: BTreeMap<String, String> = uses.collect();
    let results = blocks.iter().filter(|block| text(block, "type").as_deref() == Some("tool_result"));
    let results = results.filter(|block| member(block, "isError").is_none_or(|flag| flag.as_str() != "true"));
    let results = results.filter_map(|block| {
        let tool = uses.get(&text(block, "toolUseId")?)?;
        Some((tool.clone(), schemas.get(tool)?.clone(), member(block, "structuredContent")?))
    });
    results.collect()
}
