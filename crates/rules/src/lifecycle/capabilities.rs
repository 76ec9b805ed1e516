//! The capabilities that a server declares, and the features that it uses without declaring them.

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Kind, Method, Needs, Raw, code};

use crate::json::{has_path, is_true, list, member, object};
use crate::rule::{Evidence, Outcome, Source};
use crate::server_view::ServerView;
use crate::trace::Probe;

/// The capabilities of the specification; a server may have others of its own, of any shape.
const KNOWN: [&str; 8] =
    ["experimental", "logging", "completions", "prompts", "resources", "tools", "tasks", "extensions"];
const FLAGS: [(&str, &str); 4] = [
    ("prompts", "listChanged"),
    ("resources", "subscribe"),
    ("resources", "listChanged"),
    ("tools", "listChanged"),
];
const SHAPE: &[Source] =
    sources![LEGACY Must "basic/lifecycle#capability-negotiation", MODERN Must "schema#servercapabilities"];
const OPERATION: &[Source] = sources![FIRST_TWO Should "basic/lifecycle#operation", LEGACY_SINCE_THIRD Must "basic/lifecycle#operation"];

rules! {
    pub(crate) RULES for Server in Chapter::Lifecycle;

    "capabilities-are-objects", SHAPE,
        "Each capability of the specification is an object.",
        |view| declared(view, |declared| KNOWN.into_iter().find_map(|name| {
            let value = declared.get(name)?;
            (value.kind() != Kind::Object).then(|| format!("{name} is {value}"))
        }));
    "capability-flags-are-booleans", SHAPE,
        "listChanged and subscribe are true or false.",
        |view| declared(view, |declared| FLAGS.into_iter().find_map(|(name, flag)| {
            let value = member(declared.get(name)?, flag)?;
            (value.kind() != Kind::Bool).then(|| format!("{name}.{flag} is {value}"))
        }));
    "declared-list-exists", [
        LEGACY Should "basic/lifecycle#capability-negotiation",
        MODERN Must "server/tools#capabilities",
    ],
        "A server that declares tools, resources or prompts supports the method that lists them.",
        else "the server declares no list",
        |view| view.answers(Probe::List).map(|(reply, outcome)| {
            let is_unknown = outcome.as_ref().is_err_and(|error| error.code == code::METHOD_NOT_FOUND);
            let name = reply.request.name();
            reply.finding_if(is_unknown, format_args!("the capability is declared, but {name} does not \
                exist"))
        });
    "undeclared-list-unknown", [MODERN Should "schema#methodnotfounderror"],
        "A method of an undeclared capability is rejected with the error -32601.",
        else "the server declares every list",
        |view| view.answers(Probe::UndeclaredList).filter_map(|(reply, outcome)| {
            let problem = match outcome {
                // The next rule checks this.
                Ok(result) if offers(result.raw()) => return None,
                Ok(_) => format!("{} returned a result, although its capability is not declared", reply.request.name()),
                Err(error) if error.code == code::METHOD_NOT_FOUND => return Some(None),
                Err(error) => format!("the code is {}, expected {}", error.code, code::METHOD_NOT_FOUND),
            };
            Some(Some(reply.finding(problem)))
        });
    "features-declared", [ALL Must "server/tools#capabilities"],
        "A server with tools, resources, prompts or completion declares the capability.",
        else "the server declares every capability",
        |view| {
            let probes = [Probe::UndeclaredList, Probe::UndeclaredCompletion];
            let probed = view.our_requests.iter().filter(move |request| probes.contains(&request.probe));
            probed.filter_map(|request| request.answer()).map(|(reply, outcome)| {
                let has_offer = outcome.as_ref().is_ok_and(|result| offers(result.raw()));
                let name = reply.request.name();
                reply.finding_if(
                    has_offer,
                    format_args!("{name} returns items, although the capability is not declared"),
                )
            })
        };
    "client-capability-respected", OPERATION,
        "The server uses only features that the client declares.",
        else "no session was opened",
        |view| {
            let findings = view.requests.iter().map(|request| {
                let Needs::Client(capability) = request.what.method.facts()?.needs else { return None };
                let is_declared = view.client_capabilities().is_some_and(|ours| has_path(&ours, capability));
                let method = &request.what.method;
                request.finding_if(
                    !is_declared,
                    format_args!("{method} needs the capability {capability}, which mcpjoin did not declare"),
                )
            });
            findings.chain(view.opening().map(|_| None))
        };
    "notification-capability-declared", OPERATION,
        "The server sends only notifications of capabilities that it declares.",
        |view| undeclared(view, |method| *method != Method::LogMessage);
    "logging-declared", [ALL Must "server/utilities/logging#capabilities"],
        "A server that sends log messages declares logging.",
        |view| undeclared(view, |method| *method == Method::LogMessage);
}

/// Whether a list, or a completion, has items.
fn offers(result: &Raw) -> bool {
    let completion = member(result, "completion").and_then(|completion| list(&completion, "values"));
    let lists = ["tools", "prompts", "resources", "resourceTemplates"].map(|name| list(result, name));
    lists.into_iter().chain([completion]).flatten().any(|list| !list.is_empty())
}

/// Whether a capability, or a flag of one, is declared.
fn has(declared: &Members<Raw>, path: &str) -> bool {
    match path.split_once('.') {
        None => declared.contains_key(path),
        Some((name, flag)) => declared.get(name).is_some_and(|capability| is_true(capability, flag)),
    }
}

/// Checks that the capabilities of these notifications are declared.
fn undeclared(view: &ServerView<'_>, of: impl Fn(&Method) -> bool) -> Outcome {
    let Some(declared) = view.declared() else { return Outcome::Skipped("nothing was declared") };
    let notifications = view.notifications.iter().filter(|notification| of(&notification.what.method));
    let findings = notifications.filter_map(|notification| {
        let method = &notification.what.method;
        let Needs::Server(capability) = method.facts()?.needs else { return None };
        Some(notification.finding_if(
            !has(&declared, capability),
            format_args!("{method} needs the capability {capability}, which is not declared"),
        ))
    });
    Outcome::of(findings, "the server sent no notification that needs a capability")
}

/// Checks the capabilities in the opening of a run: `check` returns their problem.
fn declared(view: &ServerView<'_>, check: impl Fn(&Members<Raw>) -> Option<String>) -> Outcome {
    let findings = view.opening().and_then(|(reply, result)| {
        let declared = object(result, "capabilities")?;
        Some(check(&declared).map(|problem| reply.finding(problem)))
    });
    Outcome::of(findings, "nothing was declared")
}
