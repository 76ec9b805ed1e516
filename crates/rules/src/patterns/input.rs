//! Input that a server requests from its client: in results of the modern era, as requests in the legacy era; what it asks
//! of the user (elicitation), and of the client's model (sampling).
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation>
//! <https://modelcontextprotocol.io/specification/2026-07-28/client/sampling>

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use bytes::Bytes;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Needs, Raw, code};
use mcpjoin_schema::nonconformity;

use crate::base::goes_on;
use crate::grammar::is_uri;
use crate::json::{elements, has_kind, has_path, is_true, list, member, members, object, text, text_param};
use crate::revisions::Revisions;
use crate::rule::{Evidence, Finding, Outcome, Source};
use crate::server_view::{Reply, ServerView};
use crate::trace::Probe;

const SERVERS: &[Source] = sources![MODERN Must "basic/patterns/mrtr#server-requirements-basic-workflow"];
const ERRORS: &[Source] = sources![MODERN Should "basic/patterns/mrtr#error-handling"];
const NOT_ASKED: &str = "no result asked for input (see --call)";
const NOT_RETRIED: &str = "no tool asked for input (see --read-only-tools)";
/// The methods that a result may contain.
const KNOWN: [Method; 3] = [Method::Elicit, Method::CreateMessage, Method::ListRoots];
const SAFE_URLS: &str = "client/elicitation#safe-url-handling";

rules! {
    pub(crate) RULES for Server in Chapter::Patterns;

    "input-required-says-what", SERVERS,
        "An input_required result has an object inputRequests or a string requestState.",
        else NOT_ASKED,
        |view| view.results().filter(|(_, result)| is_input(result)).map(|(reply, result)| {
            let problem = match (member(result, "inputRequests"), member(result, "requestState")) {
                (None, None) => "it has neither inputRequests nor requestState",
                (Some(requests), _) if requests.kind() != Kind::Object => "inputRequests is not an object",
                (_, Some(state)) if state.kind() != Kind::String => "requestState is not a string",
                _ => return None,
            };
            Some(reply.finding(problem))
        });
    "input-requests-known", SERVERS,
        "Input requests are elicitation/create, sampling/createMessage or roots/list.",
        else NOT_ASKED,
        |view| wanted(view).into_iter().filter(|wanted| wanted.sent.is_some()).map(|wanted| {
            let is_known = KNOWN.iter().any(|known| known.as_str() == wanted.method);
            wanted.finding_if(!is_known, format_args!("it contains {:?}", wanted.method))
        });
    "input-requests-declared", SERVERS,
        "Input requests use only capabilities that the client declares in the request.",
        else NOT_ASKED,
        |view| wanted(view).into_iter().filter(|wanted| wanted.sent.is_some()).map(|wanted| {
            let Needs::Client(capability) = Method::parse(&wanted.method).facts()?.needs else { return None };
            let is_declared = wanted.client.as_ref().is_some_and(|ours| has_path(ours, capability));
            wanted.finding_if(
                !is_declared,
                format_args!("{} needs {capability}, which was not declared", wanted.method),
            )
        });
    "missing-client-capability-code", [MODERN Must "basic#meta"],
        "The error -32021 lists the missing capabilities in data.requiredCapabilities.",
        else "no request needed an undeclared capability",
        |view| view.errors_with(code::MISSING_REQUIRED_CLIENT_CAPABILITY).map(|it| {
            let data = it.error.data.as_ref();
            let is_good = data.is_some_and(|data| has_kind(data, "requiredCapabilities", Kind::Object));
            it.finding_if(!is_good, "data.requiredCapabilities is missing or not an object")
        });
    "input-asked-again", ERRORS,
        "Missing input is requested again, and is not an error.",
        else NOT_RETRIED,
        |view| errors(view, Probe::NoInput);
    "unknown-input-ignored", ERRORS,
        "A response to an input request that was not sent is ignored.",
        else NOT_RETRIED,
        |view| {
            // The same request without the unknown input is accepted.
            let is_accepted = view.answers(Probe::Declined).any(|(_, outcome)| outcome.is_ok());
            errors(view, Probe::UnknownInput).filter(move |_| is_accepted)
        };
    "bad-input-refused", ERRORS,
        "Input responses that are not an object are not accepted.",
        else NOT_RETRIED,
        |view| view.answers(Probe::BadInput).map(|(reply, outcome)| {
            let result = outcome.as_ref().ok().map(|result| result.raw());
            let is_taken = result.is_some_and(|result| !is_input(result) && !is_true(result, "isError"));
            reply.finding_if(is_taken, "the call was executed with it")
        });
    "elicitation-mode-declared", [SINCE_FOURTH Must "client/elicitation#capabilities"],
        "Elicitation uses a mode that the client declares; without a mode it is form.",
        |view| elicited(view, |wanted, mode| {
            // Without the capability there is a rule of its own.
            let declared = member(wanted.client.as_ref()?, "elicitation")?;
            let is_empty = members(&declared).is_some_and(|modes| modes.is_empty());
            let is_known = has_path(&declared, mode) || mode == "form" && is_empty;
            (!is_known).then(|| format!("the client has not declared the mode {mode:?}"))
        });
    "elicitation-complete", [
        THIRD Must "client/elicitation#creating-elicitation-requests",
        SINCE_FOURTH Must "client/elicitation#elicitation-requests",
    ],
        "An elicitation has a message; a form has a requestedSchema, and the mode url a url.",
        |view| elicited(view, |wanted, mode| {
            if text(&wanted.params, "message").is_none() {
                return Some("message is missing".into());
            }
            if mode != "url" {
                return (!has_kind(&wanted.params, "requestedSchema", Kind::Object))
                    .then(|| "requestedSchema is missing or not an object".into());
            }
            if !text(&wanted.params, "url").is_some_and(|url| is_uri(&url)) {
                return Some("url is missing or invalid".into());
            }
            let needs_id = Revisions::LAST_LEGACY.contains(&view.run.version);
            (needs_id && text(&wanted.params, "elicitationId").is_none())
                .then(|| "elicitationId is missing".into())
        });
    "elicitation-url-secure", [SINCE_FOURTH Should SAFE_URLS],
        "The URL of an elicitation uses https, except on this machine.",
        |view| elicited(view, |wanted, mode| {
            let url = text(&wanted.params, "url").filter(|url| mode == "url" && is_uri(url))?;
            let lower = url.to_ascii_lowercase();
            let secure = ["https://", "http://localhost", "http://127.", "http://[::1]"];
            let is_good = secure.iter().any(|start| lower.starts_with(start));
            (!is_good).then(|| format!("the url is {url:?}"))
        });
    "elicitation-form-without-links", [SINCE_FOURTH Should SAFE_URLS],
        "The message, titles and descriptions of a form contain no links.",
        |view| elicited(view, |wanted, mode| {
            let schema = member(&wanted.params, "requestedSchema");
            let properties = schema.and_then(|schema| object(&schema, "properties")).into_iter().flatten();
            let texts = properties
                .flat_map(|(_, property)| ["title", "description"].map(|name| text(&property, name)));
            let is_link = |text: &String| text.contains("http://") || text.contains("https://");
            let mut texts = std::iter::once(text(&wanted.params, "message")).chain(texts).flatten();
            let found = texts.find(is_link).filter(|_| mode == "form")?;
            Some(format!("{found:?} contains a link"))
        });
    "elicitation-error-complete", [LAST_LEGACY Must "client/elicitation#url-elicitation-required-error"],
        "The error -32042 lists the required elicitations: each with a url and an elicitationId.",
        else "no error -32042 was seen",
        |view| view.errors_with(code::URL_ELICITATION_REQUIRED).map(|it| {
            let urls = it.error.data.as_ref().and_then(|data| list(data, "elicitations"));
            let is_good = |one: &Raw| {
                text(one, "mode").is_some_and(|mode| mode == "url") && text(one, "elicitationId").is_some()
            };
            let is_good = urls.is_some_and(|urls| !urls.is_empty() && urls.iter().all(is_good));
            it.finding_if(!is_good, "data.elicitations is not a list of URLs with an elicitationId")
        });
    "elicitation-completion-known", [
        LAST_LEGACY Must "client/elicitation#completion-notifications-for-url-mode-elicitation",
    ],
        "A completion notification has the elicitationId of an elicitation that was requested.",
        else "no completion notification was sent",
        |view| {
            let requests = wanted(view).into_iter().filter_map(|wanted| text(&wanted.params, "elicitationId"));
            let errors = view.errors().filter_map(|it| list(it.error.data.as_ref()?, "elicitations"));
            let errors = errors.flatten().filter_map(|one| text(&one, "elicitationId"));
            let known: BTreeSet<String> = requests.chain(errors).collect();
            view.notified(&Method::ElicitationComplete).map(move |notification| {
                let id = text_param(&notification.what.params, "elicitationId");
                let is_known = id.as_ref().is_some_and(|id| known.contains(id));
                notification.finding_if(
                    !is_known,
                    format_args!("no elicitation has the elicitationId {id:?}"),
                )
            })
        };
    "elicitation-decline-handled", [MODERN Must "client/elicitation#error-handling"],
        "A server continues when the user declines.",
        |view| {
            let nothing = "no tool sent an elicitation that could be declined (see --read-only-tools)";
            goes_on(view, Probe::AfterDecline, nothing)
        };
    "sampling-tools-declared", [SINCE_FOURTH Must "client/sampling#tools-in-sampling"],
        "A server adds tools to a sampling request only if the client declares sampling.tools.",
        |view| sampled(view, |wanted| {
            let mut names = ["tools", "toolChoice"].into_iter();
            let given = names.find(|name| member(&wanted.params, name).is_some())?;
            lacks(wanted, "sampling.tools").then(|| format!("{given} is present, but sampling.tools is not \
                declared"))
        });
    "sampling-context-declared", [SINCE_FOURTH Should "client/sampling#capabilities"],
        "A server requests the context of servers only if the client declares sampling.context.",
        |view| sampled(view, |wanted| {
            let context = text(&wanted.params, "includeContext").filter(|context| context != "none")?;
            lacks(wanted, "sampling.context")
                .then(|| format!("includeContext is {context:?}, but sampling.context is not declared"))
        });
    "sampling-tool-results-balanced", [SINCE_FOURTH Must "client/sampling#tool-use-and-result-balance"],
        "Each message with tool uses is followed by a message that contains only their results, one for \
         each.",
        |view| sampled(view, balance_fault);
    "sampling-message-complete", [ALL Must "client/sampling#messages"],
        "Each sampling message has a role, user or assistant, and content.",
        |view| sampled(view, |wanted| {
            let Some(messages) = list(&wanted.params, "messages") else {
                return Some("messages is missing or not an array".into());
            };
            let is_good = |message: &Raw| {
                let content = member(message, "content").map(|content| content.kind());
                matches!(text(message, "role").as_deref(), Some("user" | "assistant"))
                    && matches!(content, Some(Kind::Object | Kind::Array))
            };
            (!messages.iter().all(is_good)).then(|| "a message has no role or no content".into())
        });
    "sampling-tool-result-conforms", [SINCE_FOURTH Should "schema#toolresultcontent"],
        "The structured result of a tool in a sampling message conforms to the outputSchema of the tool.",
        else "no sampling message had a result of a tool with an outputSchema",
        |view| wanted_by(view, &Method::CreateMessage).flat_map(|wanted| {
            let results = structured(&wanted.params).into_iter();
            results.map(move |(tool, schema, value)| {
                let why = nonconformity(&schema, &value)?;
                Some(wanted.finding(format_args!("the result of {tool:?} does not conform: {why}")))
            })
        });
}

/// A finding for each error with which a probe was answered.
fn errors(view: &ServerView<'_>, probe: Probe) -> impl Iterator<Item = Option<Finding>> {
    view.answers(probe).map(|(reply, outcome)| {
        let error = outcome.as_ref().err()?;
        Some(reply.finding(format_args!("it returned the error {}", error.code)))
    })
}

/// A request of the server to its client.
struct Wanted {
    method: String,
    params: Raw,
    /// The capabilities that we declared.
    client: Option<Raw>,
    /// The request of ours whose result contains it; `None` for a request of the legacy era.
    sent: Option<Bytes>,
    received: Bytes,
}

impl Evidence for Wanted {
    fn finding(&self, problem: impl Display) -> Finding {
        Finding::new(problem, self.sent.as_ref(), Some(&self.received))
    }
}

fn is_input(result: &Raw) -> bool {
    text(result, "resultType").is_some_and(|kind| kind == "input_required")
}

/// The requests of the server to its client, as the run's era has them.
fn wanted(view: &ServerView<'_>) -> Vec<Wanted> {
    if view.run.is_legacy() {
        let client = view.client_capabilities();
        let requests = view.requests.iter().map(|request| {
            let params = request.what.params.as_ref();
            Wanted {
                method: request.what.method.as_str().to_owned(),
                params: params.map_or_else(Raw::empty_object, |params| params.raw().clone()),
                client: client.clone(),
                sent: None,
                received: request.line.bytes().clone(),
            }
        });
        return requests.collect();
    }
    let results = view.results().filter(|(_, result)| is_input(result));
    let wanted = results.flat_map(|(Reply { request, response }, result)| {
        let client = request.meta(key::CLIENT_CAPABILITIES);
        let requests = object(result, "inputRequests").into_iter().flatten();
        requests.map(move |(_, wanted)| Wanted {
            method: text(&wanted, "method").unwrap_or_default(),
            params: member(&wanted, "params").unwrap_or_else(Raw::empty_object),
            client: client.clone(),
            sent: Some(request.line.bytes().clone()),
            received: response.line.bytes().clone(),
        })
    });
    wanted.collect()
}

/// The requests of the server for this method.
fn wanted_by(view: &ServerView<'_>, method: &Method) -> impl Iterator<Item = Wanted> {
    wanted(view).into_iter().filter(move |wanted| wanted.method == method.as_str())
}

/// Checks every question to the user: `check` takes it with its mode, and returns its problem.
fn elicited(view: &ServerView<'_>, check: impl Fn(&Wanted, &str) -> Option<String>) -> Outcome {
    let findings = wanted_by(view, &Method::Elicit).map(|wanted| {
        let mode = text(&wanted.params, "mode").unwrap_or_else(|| "form".into());
        check(&wanted, &mode).map(|problem| wanted.finding(problem))
    });
    Outcome::of(findings, "no elicitation was sent")
}

/// Checks every request for the client's model: `check` returns the problem of one.
fn sampled(view: &ServerView<'_>, check: impl Fn(&Wanted) -> Option<String>) -> Outcome {
    let requests = wanted_by(view, &Method::CreateMessage);
    let findings = requests.map(|wanted| check(&wanted).map(|problem| wanted.finding(problem)));
    Outcome::of(findings, "no sampling request was sent")
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

fn is_of(block: &Raw, kind: &str) -> bool {
    text(block, "type").as_deref() == Some(kind)
}

fn balance_fault(wanted: &Wanted) -> Option<String> {
    let mut used: Vec<String> = Vec::new();
    for message in &list(&wanted.params, "messages")? {
        let blocks = blocks(message);
        let results = blocks.iter().filter(|block| is_of(block, "tool_result")).count();
        if results > 0 && results < blocks.len() {
            return Some("a message has results of tools and other content".into());
        }
        let given: BTreeSet<String> = blocks.iter().filter_map(|block| text(block, "toolUseId")).collect();
        if let Some(missing) = used.iter().find(|id| !given.contains(*id)) {
            return Some(format!("the tool use {missing:?} is not followed by its result"));
        }
        let uses = blocks.iter().filter(|block| is_of(block, "tool_use"));
        used = uses.filter_map(|block| text(block, "id")).collect();
    }
    used.first().map(|id| format!("the tool use {id:?} is not followed by its result"))
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
    let results = blocks.iter().filter(|block| is_of(block, "tool_result") && !is_true(block, "isError"));
    let results = results.filter_map(|block| {
        let tool = uses.get(&text(block, "toolUseId")?)?;
        Some((tool.clone(), schemas.get(tool)?.clone(), member(block, "structuredContent")?))
    });
    results.collect()
}
